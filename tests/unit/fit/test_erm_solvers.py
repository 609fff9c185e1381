"""Fits against independent minimisers, and certificates against the distances they bound."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from scipy.optimize import nnls
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.fit.erm import fit_erm, fit_erm_path
from polyceptron.problem import Teacher
from polyceptron.rows import Status


def gradient(X, y, k, ridge, W):
    """Of the cross-entropy objective, written out as in the paper."""
    d = X.shape[1]
    p = softmax(X @ W / np.sqrt(d), axis=1)
    return X.T @ (p - np.eye(k)[y]) / np.sqrt(d) + ridge * W


def least_distance(X, y, k):
    """min ½‖W‖² with all margins ≥ 1, through Lawson and Hanson's least-distance programme."""
    d = X.shape[1]
    rows = []
    for x, label in zip(X, y, strict=True):
        for h in range(k):
            if h != label:
                row = np.zeros((d, k))
                row[:, label] += x / np.sqrt(d)
                row[:, h] -= x / np.sqrt(d)
                rows.append(row.ravel())
    G = np.array(rows)
    E = np.vstack([G.T, np.ones(len(G))])
    f = np.zeros(d * k + 1)
    f[-1] = 1
    u, _ = nnls(E, f, maxiter=10_000)
    r = E @ u - f
    return (-r[:-1] / r[-1]).reshape(d, k)


@pytest.mark.parametrize(("k", "n", "d"), [(2, 60, 20), (3, 90, 40), (3, 30, 60), (5, 200, 30)])
@pytest.mark.parametrize("ridge", [1.0, 0.01])
def test_cross_entropy_has_zero_gradient_and_agrees_with_sklearn(k, n, d, ridge):
    X, y, _ = Teacher(k).sample(n, d, seed=k)
    fit = fit_erm(X, y, "cross_entropy", ridge)
    ours = gradient(X, y, k, ridge, fit.weights)
    assert np.linalg.norm(ours) <= 1e-8 * ridge * np.linalg.norm(fit.weights)
    assert fit.gradient_norm == pytest.approx(np.linalg.norm(ours), abs=1e-12)
    assert fit.status == Status.OK
    model = LogisticRegression(  # of two classes it fits the difference of the columns
        C=(2 if k == 2 else 1) / ridge,
        fit_intercept=False,
        solver="newton-cg",
        tol=1e-12,
        max_iter=10_000,
    )
    theirs = model.fit(X / np.sqrt(d), y).coef_.T
    theirs = np.hstack([-theirs, theirs]) / 2 if k == 2 else theirs
    assert np.linalg.norm(theirs - fit.weights) <= 1e-6 * np.linalg.norm(fit.weights)


@pytest.mark.parametrize("tol", [1e-1, 1e-3, 1e-5])
def test_the_distance_bound_holds_and_is_not_idle(tol):
    X, y, _ = Teacher(3).sample(150, 50, seed=1)
    best = fit_erm(X, y, "cross-entropy", 0.1, tol=1e-12).weights
    fit = fit_erm(X, y, "cross-entropy", 0.1, tol=tol)
    distance = np.linalg.norm(fit.weights - best)
    assert distance <= fit.distance_bound <= tol * np.linalg.norm(fit.weights)
    assert distance > 1e-4 * fit.distance_bound


@pytest.mark.parametrize(("n", "d"), [(80, 30), (30, 80)])
def test_square_loss_solves_the_normal_equations_for_every_ridge(n, d):
    X, y, _ = Teacher(4).sample(n, d, seed=3)
    A, Y = X / np.sqrt(d), np.eye(4)[y]
    ridges = [1e-3, 1.0, 30.0]
    for ridge, fit in zip(ridges, fit_erm_path(X, y, "square", ridges), strict=True):
        exact = np.linalg.solve(A.T @ A + ridge * np.eye(d), A.T @ Y)
        assert np.abs(fit.weights - exact).max() < 1e-11
        assert fit.status == Status.OK
        assert fit.training_loss == pytest.approx(((A @ exact - Y) ** 2).sum() / (2 * n))
        assert np.abs(fit.weights - exact).max() <= fit.distance_bound + 1e-12
    least = fit_erm(X, y, "square", 0.0)
    assert np.abs(least.weights - np.linalg.pinv(A) @ Y).max() < 1e-10


def test_square_loss_with_repeated_columns_has_the_least_norm():
    X, y, _ = Teacher(3).sample(50, 10, seed=4)
    X = np.hstack([X, X[:, :3], np.zeros((50, 1))])
    A = X / np.sqrt(X.shape[1])
    fit = fit_erm(X, y, "square", 0.0)
    assert np.abs(fit.weights - np.linalg.pinv(A, rcond=1e-10) @ np.eye(3)[y]).max() < 1e-10


@pytest.mark.parametrize(("k", "n", "d"), [(2, 20, 8), (3, 40, 12), (3, 10, 30), (4, 60, 10)])
def test_max_margin_is_the_solution_of_the_quadratic_programme(k, n, d):
    X, y, _ = Teacher(k).sample(n, d, seed=n)
    fit = fit_erm(X, y, "max-margin")
    exact = least_distance(X, y, k)
    assert np.linalg.norm(fit.weights - exact) < 1e-7 * np.linalg.norm(exact)
    assert fit.status == Status.OK
    assert fit.training_error == 0
    z = X @ fit.weights / np.sqrt(d)
    margins = z[np.arange(n), y][:, None] - z
    margins[np.arange(n), y] = np.inf
    assert margins.min() == pytest.approx(1, abs=1e-9)


def test_max_margin_of_badly_scaled_features():
    """Conjugate gradients alone would stall here."""
    X, y, _ = Teacher(4).sample(150, 12, seed=3)
    X = X * np.geomspace(1, 300, 12)
    fit = fit_erm(X, y, "max-margin")
    assert fit.status == Status.OK
    gap = np.linalg.norm(fit.weights - least_distance(X, y, 4))
    assert gap <= fit.distance_bound + 1e-6 * np.linalg.norm(fit.weights)


def test_max_margin_is_certified_where_samples_are_many_or_few():
    for n, d in ((1200, 60), (60, 200), (300, 2)):
        X, y, _ = Teacher(3).sample(n, d, seed=5)
        fit = fit_erm(X, y, "max-margin")
        assert fit.status == Status.OK
        assert fit.distance_bound < 1e-8 * np.linalg.norm(fit.weights)


def test_max_margin_with_repeated_samples_still_has_a_bound():
    X, y, _ = Teacher(3).sample(40, 15, seed=6)
    once = fit_erm(X, y, "max-margin")
    twice = fit_erm(np.vstack([X, X]), np.concatenate([y, y]), "max-margin")
    gap = np.linalg.norm(twice.weights - once.weights)
    assert gap <= twice.distance_bound + once.distance_bound
    assert gap < 1e-4 * np.linalg.norm(once.weights)


def test_cross_entropy_turns_towards_max_margin_as_the_ridge_vanishes():
    X, y, _ = Teacher(3).sample(120, 60, seed=7)
    fits = fit_erm_path(X, y, "cross-entropy", [1e-3, 1e-5, 1e-7, 0.0])
    *norms, _ = (np.linalg.norm(fit.weights) for fit in fits)
    *path, limit = (fit.weights / np.linalg.norm(fit.weights) for fit in fits)
    distances = [np.linalg.norm(W - limit) for W in path]
    # The margins' differences stay O(1) while the norm grows: the direction errs as 1/norm.
    slopes = np.diff(np.log(distances)) / np.diff(np.log(norms))
    assert (np.abs(slopes + 0.9) < 0.25).all()
    assert np.allclose(limit, limit - limit.mean(1, keepdims=True))


def test_data_that_cannot_be_separated_say_so():
    X, y, _ = Teacher(3).sample(200, 5, seed=8)
    y = np.random.default_rng(0).permutation(y)
    with pytest.raises(ComputationFailed, match="not linearly separable"):
        fit_erm(X, y, "max-margin")


def test_a_path_keeps_the_order_and_the_minimisers_of_single_fits():
    X, y, _ = Teacher(3).sample(200, 80, seed=9)
    ridges = [0.1, 10.0, 0.001, 0.1, 1.0]
    path = fit_erm_path(X, y, "cross-entropy", ridges)
    assert [fit.ridge for fit in path] == ridges
    for ridge, fit in zip(ridges, path, strict=True):
        single = fit_erm(X, y, "cross-entropy", ridge)
        assert np.linalg.norm(fit.weights - single.weights) < 3e-8 * np.linalg.norm(single.weights)


def test_classes_can_be_renamed():
    X, y, _ = Teacher(4).sample(150, 40, seed=10)
    order = np.array([2, 0, 3, 1])
    for loss, ridge in (("cross-entropy", 0.1), ("square", 0.1), ("max-margin", 0.0)):
        plain = fit_erm(X, y, loss, ridge).weights
        renamed = fit_erm(X, order[y], loss, ridge).weights
        assert np.linalg.norm(renamed[:, order] - plain) < 1e-6 * np.linalg.norm(plain)


def test_a_class_without_samples_is_never_preferred_to_all_others():
    X, y, _ = Teacher(2).sample(60, 10, seed=11)
    for loss in ("cross-entropy", "square", "max-margin"):
        fit = fit_erm(X, y, loss, 0.0 if loss == "max-margin" else 0.1, n_classes=3)
        assert fit.status == Status.OK
        assert np.isfinite(fit.weights).all()


def test_a_start_is_used_and_does_not_change_the_answer():
    X, y, _ = Teacher(3).sample(300, 100, seed=12)
    cold = fit_erm(X, y, "cross-entropy", 0.01)
    warm = fit_erm(X, y, "cross-entropy", 0.01, start=cold.weights * 1.001)
    assert warm.matrix_passes < cold.matrix_passes
    assert np.linalg.norm(warm.weights - cold.weights) < 3e-8 * np.linalg.norm(cold.weights)


def test_a_missed_tolerance_is_a_status_and_with_strict_a_failure():
    X, y, _ = Teacher(3).sample(60, 20, seed=13)
    fit = fit_erm(X, y, "cross-entropy", 0.1, tol=1e-30)
    assert fit.status == Status.TOLERANCE_NOT_MET
    assert fit.distance_bound < 1e-10
    with pytest.raises(ComputationFailed, match="certified to within"):
        fit_erm(X, y, "cross-entropy", 0.1, tol=1e-30, strict=True)


@pytest.mark.parametrize("scale", [1e-20, 1e-6, 1e6, 1e20])
def test_units_of_the_features_only_rescale_the_weights(scale):
    X, y, _ = Teacher(3).sample(80, 20, seed=14)
    plain = fit_erm(X, y, "cross-entropy", 0.1).weights
    scaled = fit_erm(X * scale, y, "cross-entropy", 0.1 * scale**2).weights
    assert np.linalg.norm(scaled * scale - plain) < 1e-6 * np.linalg.norm(plain)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": [0, 1]}, "one label for each"),
        ({"y": [0, 1, 3]}, "between 0 and 2"),
        ({"y": [0.0, 1.5, 2.0]}, "continuous values"),
        ({"y": [1, 2, 2], "n_classes": None}, "class 0 has no samples"),
        ({"y": [0, 2, 2], "n_classes": None}, "class 1 has no samples"),
        ({"y": [0, 0, 0], "n_classes": None}, "one class only"),
        ({"X": [[1.0], [np.nan], [0.0]]}, "row 1 has NaN"),
        ({"X": [[1.0], [1.0], [1e200]]}, "row 2 has NaN, infinite or enormous"),
        ({"X": [1.0, 2.0, 3.0]}, "matrix"),
        ({"loss": "ramp"}, "unknown loss"),
        ({"ridge": -1.0}, "0 or more"),
        ({"solver": "magic"}, "unknown solver"),
        ({"tol": 0.0}, "between 0 and 1"),
        ({"start": np.zeros((2, 2))}, "start must be"),
        ({"n_classes": 1}, "between 2 and 1000"),
        ({"loss": "square", "ridge": 0, "solver": "newton"}, "ridge above 0"),
    ],
)
def test_bad_input_is_a_sentence(change, message):
    given = {"X": [[1.0], [2.0], [3.0]], "y": [0, 1, 2], "n_classes": 3}
    given |= {"loss": "cross-entropy", "ridge": 1.0} | change
    with pytest.raises(InvalidInput, match=message):
        fit_erm(given.pop("X"), given.pop("y"), given.pop("loss"), given.pop("ridge"), **given)


@pytest.mark.process
def test_a_fit_loads_no_theory():
    program = (
        "import sys, polyceptron as pc\n"
        "X, y = [[1.0, 2.0], [-1.0, 1.0], [1.0, 0.2], [0.5, 0.5]], [0, 1, 2, 0]\n"
        "for loss in ('cross-entropy', 'square', 'max-margin'):\n"
        "    pc.fit_erm(X, y, loss, 0.1)\n"
        "pc.fit_erm(X, y, 'cross-entropy', 0.0)\n"
        "print([name for name in sys.modules if name.startswith('polyceptron.theory')])\n"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.stdout.strip() == "[]", found.stderr
