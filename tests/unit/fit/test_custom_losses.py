"""Losses of one's own in fits and message passing, against scipy's general minimiser."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

import polyceptron as pc
from polyceptron.fit.erm import fit_erm, fit_erm_path
from polyceptron.message_passing.posterior_mean import amp_erm
from polyceptron.problem import CrossEntropy, Loss, SquareLoss
from polyceptron.rows import Status


class Five(CrossEntropy):
    """Five times the cross-entropy: a subclass whose inherited short cuts would all be wrong."""

    name = "five"

    def value(self, z, y):
        return 5 * super().value(z, y)

    def gradient(self, z, y):
        return 5 * super().gradient(z, y)

    def hessian(self, z, y):
        return 5 * super().hessian(z, y)


class Weighted(Loss):
    """Cross-entropy with a weight for each class: the classes are not alike."""

    name = "weighted"
    weights = np.array([1.0, 4.0, 0.5])

    def value(self, z, y):
        return self.weights[y] * CrossEntropy().value(z, y)

    def gradient(self, z, y):
        return self.weights[y][:, None] * CrossEntropy().gradient(z, y)

    def hessian(self, z, y):
        return self.weights[y][:, None, None] * CrossEntropy().hessian(z, y)


class Huber(Loss):
    """√(1 + |z_h − e_h|²) summed over the classes: sees all k fields, not differences alone."""

    name = "huber"

    def value(self, z, y):
        return np.sqrt(1 + (z - np.eye(z.shape[1])[y]) ** 2).sum(1)

    def gradient(self, z, y):
        off = z - np.eye(z.shape[1])[y]
        return off / np.sqrt(1 + off**2)

    def hessian(self, z, y):
        off = z - np.eye(z.shape[1])[y]
        return (1 + off**2)[:, :, None] ** -1.5 * np.eye(z.shape[1])


LOSSES = [Five(), Weighted(), Huber()]


def reference(X, y, k, loss, ridge):
    """scipy's BFGS on the objective as it is written in the paper."""
    d = X.shape[1]
    A = X / np.sqrt(d)

    def objective(w):
        W = w.reshape(d, k)
        z = A @ W
        value = loss.value(z, y).sum() + 0.5 * ridge * (W**2).sum()
        return value, (A.T @ loss.gradient(z, y) + ridge * W).ravel()

    options = {"gtol": 1e-9, "maxiter": 5000}
    return minimize(objective, np.zeros(d * k), jac=True, method="BFGS", options=options).x.reshape(
        d, k
    )


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("ridge", [0.05, 2.0])
def test_fits_are_the_minimisers_of_scipy(loss, ridge):
    X, y, _ = pc.Teacher(3).sample(90, 20, 4)
    fit = fit_erm(X, y, loss, ridge)
    exact = reference(X, y, 3, loss, ridge)
    assert fit.status == Status.OK
    assert fit.loss == loss.name
    assert np.linalg.norm(fit.weights - exact) < 1e-6 * np.linalg.norm(exact)
    z = X @ fit.weights / np.sqrt(20)
    assert fit.training_loss == pytest.approx(loss.value(z, y).mean())
    assert fit.training_error == (z.argmax(1) != y).mean()


@pytest.mark.parametrize("loss", [Five(), Huber()], ids=lambda loss: loss.name)
def test_message_passing_finds_the_same_minimiser(loss):
    X, y, _ = pc.Teacher(3).sample(400, 150, 5)
    found, fit = amp_erm(X, y, loss, 0.5), fit_erm(X, y, loss, 0.5)
    assert found.status == Status.OK
    assert np.linalg.norm(found.weights - fit.weights) < 1e-6 * np.linalg.norm(fit.weights)


def test_the_generic_solver_agrees_with_the_loss_s_own():
    """Newton from value, gradient and Hessian, with and without the common part of the classes."""
    X, y, _ = pc.Teacher(4).sample(150, 40, 6)
    A = X / np.sqrt(40)
    square = fit_erm(X, y, SquareLoss(), 0.3, solver="newton").weights
    assert np.allclose(square, np.linalg.solve(A.T @ A + 0.3 * np.eye(40), A.T @ np.eye(4)[y]))
    ridges = [1e-3, 0.1, 1.0, 0.01, 3.0]
    own = fit_erm_path(X, y, "cross-entropy", ridges)
    generic = fit_erm_path(X, y, "cross-entropy", ridges, solver="newton")
    for a, b in zip(own, generic, strict=True):
        assert b.status == Status.OK
        assert abs(a.n_iter - b.n_iter) <= 1  # the same steps, from another Hessian
        assert np.linalg.norm(a.weights - b.weights) < 3e-8 * np.linalg.norm(a.weights)


def test_a_path_of_a_custom_loss_keeps_its_order():
    X, y, _ = pc.Teacher(3).sample(100, 30, 7)
    ridges = [1.0, 0.01, 0.1, 10.0, 0.03, 0.3]
    path = fit_erm_path(X, y, Weighted(), ridges)
    assert [fit.ridge for fit in path] == ridges
    norms = [np.linalg.norm(fit.weights) for fit in path]
    assert np.argsort(norms).tolist() == np.argsort(ridges)[::-1].tolist()


class Wrong(Huber):
    """A gradient of the wrong sign."""

    name = "wrong"

    def gradient(self, z, y):
        return -super().gradient(z, y)


class Lost(Huber):
    """Asks for a solver that does not exist."""

    name = "lost"
    solver = "genetic"


def test_what_is_wrong_with_a_loss_is_a_sentence():
    X, y, _ = pc.Teacher(3).sample(30, 10, 8)
    for call in (fit_erm, amp_erm):
        with pytest.raises(pc.InvalidInput, match="not the derivative of its value"):
            call(X, y, Wrong(), 1.0)
        with pytest.raises(pc.InvalidInput, match="ridge above 0"):
            call(X, y, Five(), 0)
    with pytest.raises(pc.InvalidInput, match="names the solver 'genetic'"):
        fit_erm(X, y, Lost(), 1.0)
