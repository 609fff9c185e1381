"""Two classes in one coordinate, and descents in single precision before Newton's method."""

from __future__ import annotations

import numpy as np
import pytest

import polyceptron as pc
from polyceptron.fit.solvers import newton
from polyceptron.fit.solvers.logistic_objective import LogisticObjective
from polyceptron.fit.solvers.softmax_objective import SoftmaxObjective


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_two_classes_have_the_softmax_loss(weighted, dtype):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    weights = rng.uniform(0.1, 3, 400) if weighted else None
    Z = (rng.standard_normal((3, 1, 400)) * [[[1.0]], [[30.0]], [[200.0]]]).astype(dtype)
    plain = SoftmaxObjective(y, 2, weights)
    short = LogisticObjective(y, weights)
    expected, found = plain.evaluate(Z.copy()), short.evaluate(Z.copy())
    rtol = 50 * np.finfo(dtype).eps
    np.testing.assert_allclose(found.value, expected.value, rtol=rtol)
    tiny = 1e-30  # below it, single precision has no digits left
    np.testing.assert_allclose(found.residual, expected.residual, rtol=10 * rtol, atol=tiny)
    np.testing.assert_allclose(found.source, expected.source, rtol=10 * rtol, atol=tiny)
    Q = rng.standard_normal(Z.shape).astype(dtype)
    for part in (slice(None), slice(17, 90)):
        ours, theirs = (
            objective.curvature(here, dtype).rows(part)(Q[..., part].copy())[0]
            for objective, here in ((short, found), (plain, expected))
        )
        # Products with a basis, by which the softmax's curvature is made, cancel to rounding of Q.
        np.testing.assert_allclose(ours, theirs, rtol=10 * rtol, atol=rtol)
    ours, theirs = short.curvature(found, dtype), plain.curvature(expected, dtype)
    np.testing.assert_allclose(ours.mean(), theirs.mean(), rtol=20 * rtol)
    np.testing.assert_allclose(ours.total(), theirs.total(), rtol=20 * rtol)


@pytest.mark.parametrize("k", [2, 4])
def test_a_loss_rises_like_its_gradient_says(k):
    rng = np.random.default_rng(1)
    y = rng.integers(0, k, 50)
    objective = LogisticObjective(y) if k == 2 else SoftmaxObjective(y, k)
    Z, D = rng.standard_normal((2, 1, k - 1, 50))
    ahead, behind = (objective.evaluate(Z + h * D).value[0] for h in (1e-5, -1e-5))
    slope = float((objective.evaluate(Z.copy()).residual * D).sum())
    assert (ahead - behind) / 2e-5 == pytest.approx(slope, rel=1e-8)


@pytest.mark.parametrize(("k", "intercept"), [(2, False), (2, True), (5, False), (5, True)])
def test_a_descent_in_single_precision_leads_to_the_same_fit(k, intercept, monkeypatch):
    X, y, _ = pc.Teacher(k, noise="gaussian:0.25").sample(1500, 120, 0)
    X = X * np.geomspace(0.1, 10, 120)  # uneven features
    given = {"ridge": 0.1, "intercept": intercept, "class_weight": "balanced"}
    begun = pc.fit_erm(X, y, **given)
    monkeypatch.setattr(newton, "single_descent_serves", lambda *given: False)
    cold = pc.fit_erm(X, y, **given)
    assert (begun.status, cold.status) == ("ok", "ok")
    assert begun.n_iter > cold.n_iter  # it was made
    off = np.hypot(
        np.linalg.norm(begun.weights - cold.weights),
        np.linalg.norm(begun.intercepts - cold.intercepts),
    )
    assert off <= begun.distance_bound + cold.distance_bound


def test_a_descent_in_single_precision_saves_reads(monkeypatch):
    X, y, _ = pc.Teacher(2, noise="gaussian:0.25").sample(4000, 200, 0)
    begun = pc.fit_erm(X, y, ridge=1.0, tol=1e-2)
    monkeypatch.setattr(newton, "single_descent_serves", lambda *given: False)
    cold = pc.fit_erm(X, y, ridge=1.0, tol=1e-2)
    assert begun.matrix_passes < 0.7 * cold.matrix_passes


def test_a_descent_in_single_precision_can_be_stopped_and_resumed(tmp_path):
    X, y, _ = pc.Teacher(3, noise="gaussian:0.25").sample(1500, 120, 0)
    kept = {"checkpoint": tmp_path / "c.npz", "checkpoint_every": 0.0}

    def stop(progress):
        if progress.iteration >= 3:
            raise KeyboardInterrupt

    stopped = pc.fit_erm(X, y, callback=stop, **kept)
    assert (stopped.status, stopped.n_iter) == ("interrupted", 3)
    assert stopped.training_loss < np.log(3)  # that of zero weights
    resumed = pc.fit_erm(X, y, **kept)
    assert resumed.status == "ok"


@pytest.mark.parametrize("scale", [1e-45, 1e-20, 1e20, 1e45])
def test_data_beyond_single_precision_are_fitted_as_before(scale):
    X, y, _ = pc.Teacher(2, noise="gaussian:0.25").sample(1500, 120, 0)
    plain = pc.fit_erm(X, y, ridge=0.1)
    scaled = pc.fit_erm(scale * X, y, ridge=0.1 * scale**2)
    assert scaled.status == "ok"
    np.testing.assert_allclose(scale * scaled.weights, plain.weights, rtol=1e-5, atol=1e-8)
