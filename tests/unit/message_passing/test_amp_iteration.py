"""The fixed-point driver: damping when needed, never fooled by it, never a NaN."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from polyceptron.message_passing.iteration import Iterate, damped_iteration
from polyceptron.rows import Status


def point(x: float | np.ndarray) -> Iterate:
    weights = np.atleast_2d(np.asarray(x, dtype=float))
    return Iterate(weights, 1.0, np.zeros((1, 3)))


def run(step, x0, tol=1e-10, max_iter=500):
    end = damped_iteration(
        lambda s: point(step(s.weights)),
        point(x0),
        tol=tol,
        max_iter=max_iter,
        observe=lambda s: {"weights": s.weights},
    )
    names = ("iteration", "weights", "residual", "damping")
    return end, [tuple(entry[name] for name in names) for entry in end.trace]


def test_a_contraction_is_left_alone() -> None:
    end, seen = run(lambda x: 0.5 * x + 1, [[0.0, 5.0]])
    assert end.status == Status.OK
    assert end.damping == 0
    np.testing.assert_allclose(end.last.weights, 2, rtol=1e-9)
    assert [t for t, *_ in seen] == list(range(end.n_iter + 1))
    np.testing.assert_allclose(seen[1][1], 0.5 * seen[0][1] + 1)  # entry t is the t-th point


def test_an_oscillation_is_damped_to_its_fixed_point() -> None:
    """x → 3 − 2x diverges around 1 with alternating sign."""
    end, _ = run(lambda x: 3 - 2 * x, [[1.5, 0.2]])
    assert end.status == Status.OK
    assert end.damping > 0
    np.testing.assert_allclose(end.last.weights, 1, rtol=1e-9)


def test_leaving_a_plateau_is_not_mistaken_for_divergence() -> None:
    """x → x + 0.5 x(1 − x) from 1e-6: steps grow a hundred thousand times, always forwards."""
    end, seen = run(lambda x: x + 0.5 * x * (1 - x), [[1e-6, 2e-6]])
    assert end.status == Status.OK
    assert end.damping == 0
    sizes = [np.abs(b - a).max() for (_, a, *_), (_, b, *_) in pairwise(seen)]
    assert max(sizes) > 1e4 * sizes[0]


def test_damped_small_steps_do_not_count_as_convergence() -> None:
    """A spiral of factor 3 and 90° a step: what is returned is a fixed point of the bare map."""
    turn = np.array([[0.0, -3.0], [3.0, 0.0]])
    end, _ = run(lambda x: 1 + (x - 1) @ turn, [[1.1, 1.0]], tol=1e-9, max_iter=3000)
    assert end.status == Status.OK
    assert end.damping > 0
    x = end.last.weights
    assert np.abs(1 + (x - 1) @ turn - x).max() < 1e-7


def test_no_fixed_point_says_so_and_returns_the_best() -> None:
    end, seen = run(lambda x: np.where(x > 0, -1 - x, 1 - x), [[0.3, -0.2]], max_iter=200)
    assert end.status == Status.NOT_CONVERGED
    assert np.isfinite(end.last.weights).all()
    assert end.residual == pytest.approx(min(r for _, _, r, _ in seen if math.isfinite(r)))


def test_nan_is_never_returned() -> None:
    end, _ = run(lambda x: x * 1e100 if np.abs(x).max() < 1e150 else x * np.nan, [[1.0, 2.0]])
    assert end.status == Status.NOT_CONVERGED
    assert np.isfinite(end.last.weights).all()
