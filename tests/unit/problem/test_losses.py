"""Proximal maps against their definition, in the bulk and at the edges of floating point."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from polyceptron.errors import InvalidInput
from polyceptron.problem import ERM, CrossEntropy, Loss, MaxMargin, SquareLoss, as_loss
from polyceptron.problem.specs import make_estimator


class PlainCrossEntropy(Loss):
    """Cross-entropy without its own prox: the default Newton method does the work."""

    name = "plain"

    def value(self, z, y):
        return CrossEntropy().value(z, y)

    def gradient(self, z, y):
        return CrossEntropy().gradient(z, y)

    def hessian(self, z, y):
        return CrossEntropy().hessian(z, y)


def points(k: int, scale: float, n: int = 60, seed: int = 0):
    rng = np.random.default_rng(seed)
    return scale * rng.standard_normal((n, k)), rng.integers(k, size=n)


@pytest.mark.parametrize("k", [2, 3, 10])
@pytest.mark.parametrize("V", [1e-6, 1e-2, 1.0, 1e3, 1e8])
@pytest.mark.parametrize("scale", [1e-2, 1.0, 30.0, 1e4])
def test_cross_entropy_prox_is_stationary(k, V, scale):
    omega, y = points(k, scale)
    loss = CrossEntropy()
    f, curvature = loss.denoise(omega, y, V)
    z = loss.prox(omega, y, V)
    assert np.isfinite(f).all()
    assert np.isfinite(curvature).all()
    # z carries rounding of its own size, which the gradient sees as an error of ε·|z|.
    assert np.abs(f + loss.gradient(z, y)).max() < 1e-12 + 1e-14 * np.abs(z).max()
    assert np.abs(f.sum(1)).max() < 1e-12
    assert (curvature >= 0).all()
    assert (curvature <= (k - 1) / V * (1 + 1e-9)).all()


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 8), st.floats(-6, 8), st.floats(-3, 4), st.integers(0, 1000))
def test_cross_entropy_prox_minimises(k, log_V, log_scale, seed):
    """No nearby point does better: an independent check of the minimiser."""
    V = 10.0**log_V
    omega, y = points(k, 10.0**log_scale, n=4, seed=seed)
    loss = CrossEntropy()
    z = loss.prox(omega, y, V)
    rng = np.random.default_rng(seed)
    for size in (1e-3, 0.1, 3.0):
        other = z + size * rng.standard_normal(z.shape)

        def gap(v):
            # energy difference to z, without subtracting large numbers
            moved = ((v - z) * (v + z - 2 * omega)).sum(1) / (2 * V)
            return moved + loss.value(v, y) - loss.value(z, y)

        assert (gap(other) > -1e-9 * (1 + np.abs(loss.value(z, y)))).all()


@pytest.mark.parametrize("loss", [CrossEntropy(), SquareLoss(), MaxMargin(), PlainCrossEntropy()])
@pytest.mark.parametrize("k", [2, 3, 5])
def test_trace_is_the_derivative_of_f(loss, k):
    omega, y = points(k, 1.5, n=5, seed=3)
    V, h = 0.7, 1e-5
    trace = np.zeros(len(omega))
    basis = np.linalg.svd(np.ones((1, k)))[2][1:]  # of the class differences
    for direction in basis:
        up, down = (loss.denoise(omega + s * h * direction, y, V)[0] for s in (1, -1))
        trace -= (up - down) @ direction / (2 * h)
    assert np.allclose(trace, loss.denoise(omega, y, V)[1], atol=2e-5)


def test_default_newton_prox_agrees_with_the_closed_one():
    for V in (1e-3, 1.0, 50.0):
        omega, y = points(4, 3.0)
        for ours, plain in zip(
            CrossEntropy().denoise(omega, y, V),
            PlainCrossEntropy().denoise(omega, y, V),
            strict=True,
        ):
            assert np.allclose(ours, plain, atol=1e-9)


@pytest.mark.parametrize("k", [2, 4, 7])
def test_max_margin_projects(k):
    omega, y = points(k, 1.0, n=6, seed=5)
    z = MaxMargin().prox(omega, y, 3.0)
    for row, label, ours in zip(omega, y, z, strict=True):
        constraints = [
            {"type": "ineq", "fun": lambda v, h=h, l=label: v[l] - v[h] - 1}
            for h in range(k)
            if h != label
        ]
        found = minimize(
            lambda v, r=row: ((v - r) ** 2).sum(),
            row,
            constraints=constraints,
            method="SLSQP",
            options={"ftol": 1e-14},
        )
        assert np.allclose(found.x, ours, atol=1e-6)
    assert (MaxMargin().value(z, y) == 0).all()
    assert np.isinf(MaxMargin().value(np.zeros((1, k)), [0])).all()


def test_square_prox():
    omega, y = points(3, 1.0)
    z = SquareLoss().prox(omega, y, 2.0)
    assert np.allclose((z - omega) / 2.0 + SquareLoss().gradient(z, y), 0)


def test_gradient_and_hessian_by_differences():
    z, y = points(4, 1.0, n=3)
    h = 1e-6
    for loss in (CrossEntropy(), SquareLoss()):
        for i in range(4):
            step = h * np.eye(4)[i]
            slope = (loss.value(z + step, y) - loss.value(z - step, y)) / (2 * h)
            assert np.allclose(slope, loss.gradient(z, y)[:, i], atol=1e-8)
            bend = (loss.gradient(z + step, y) - loss.gradient(z - step, y)) / (2 * h)
            assert np.allclose(bend, loss.hessian(z, y)[:, i], atol=1e-8)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ERM("ramp", 1.0), "unknown loss 'ramp'"),
        (lambda: ERM("cross-entropy", -1.0), "number of 0 or more"),
        (lambda: ERM("cross-entropy", float("nan")), "number of 0 or more"),
        (lambda: ERM("square", "best"), "'optimal'"),
        (lambda: ERM("max-margin", 0.1), "takes no ridge"),
        (lambda: ERM("max-margin", "optimal"), "takes no ridge"),
        (lambda: ERM(PlainCrossEntropy(), 0), "give a ridge above 0"),
        (lambda: make_estimator("forest"), "unknown estimator"),
    ],
)
def test_bad_specifications_say_what_is_allowed(call, words):
    with pytest.raises(InvalidInput, match=words):
        call()


def test_names_accept_both_spellings():
    assert as_loss("cross_entropy") is as_loss("cross-entropy")
    assert ERM("max_margin").name == "max-margin"
    assert ERM("square", "optimal") == ERM("square", "optimal")
    assert make_estimator("bayes").name == "bayes"


@pytest.mark.parametrize("name", ["hinge", "weston-watkins", "squared-hinge", "max-margin"])
def test_breaks_beyond_all_kinks_are_finite(name: str) -> None:
    """At a tiny ridge V is so large that all kinks are far from the fields."""
    coordinates = as_loss(name).coordinates
    with np.errstate(all="raise"):
        breaks = coordinates.line_breaks(np.linspace(-2e8, 2e8, 11), 5.9e9)
    assert np.isfinite(breaks).all()
    assert (np.diff(breaks) >= 0).all()
