"""Anderson's method: on linear maps it is GMRES, elsewhere it is faster than plain rounds."""

import math

import numpy as np
import pytest
from scipy.sparse.linalg import gmres

from polyceptron.solve.anderson import Anderson


def rounds(g, x, memory, n_rounds):
    """The points of `n_rounds` rounds from x, with their residuals."""
    points = [x]
    residuals = []
    for _ in range(n_rounds):
        residuals.append(g(x) - x)
        memory.record(x, residuals[-1])
        x = x + memory.step(residuals[-1])
        points.append(x)
    return points, residuals


@pytest.mark.parametrize("seed", range(5))
def test_a_linear_map_is_solved_in_as_many_rounds_as_unknowns(seed):
    """Of x = Mx + c, also where plain rounds diverge; the root is that of (I − M)x = c."""
    rng = np.random.default_rng(seed)
    n = 6
    M = 2 * rng.standard_normal((n, n))
    c = rng.standard_normal(n)
    points, _ = rounds(lambda x: M @ x + c, np.zeros(n), Anderson(n, 1e-12), n + 1)
    np.testing.assert_allclose(points[-1], np.linalg.solve(np.eye(n) - M, c), rtol=1e-6)


def test_the_residuals_of_a_linear_map_are_those_of_gmres():
    """The least combination of j rounds has the residual of j steps of GMRES (Walker and Ni)."""
    rng = np.random.default_rng(0)
    n = 8
    M = 0.5 * rng.standard_normal((n, n))
    c = rng.standard_normal(n)
    memory = Anderson(n, 1e-14)
    x = np.zeros(n)
    norms = []
    for _ in range(5):
        residual = M @ x + c - x
        memory.record(x, residual)
        if memory.changes:
            dF = np.array(memory.changes).T
            best = residual - dF @ np.linalg.lstsq(dF, residual, rcond=None)[0]
            norms.append(float(np.linalg.norm(best)))
        x = x + memory.step(residual)
    expected = []
    for n_steps in range(1, 5):
        y, _ = gmres(np.eye(n) - M, c, rtol=0, atol=0, restart=n_steps, maxiter=1)
        expected.append(float(np.linalg.norm(c - (np.eye(n) - M) @ y)))
    np.testing.assert_allclose(norms, expected, rtol=1e-6)


def test_a_curved_map_is_solved_faster_than_by_plain_rounds():
    def g(x):
        return np.cos(x[::-1] + np.array([0.0, 0.3, 0.1])) * 0.9

    _, with_memory = rounds(g, np.zeros(3), Anderson(5, 1e-10), 15)
    _, plain = rounds(g, np.zeros(3), Anderson(0, 1e-10), 15)
    assert np.abs(with_memory[-1]).max() < 1e-9
    assert np.abs(plain[-1]).max() > 1e-4


def test_the_memory_is_as_deep_as_asked_and_may_be_given_up():
    memory = Anderson(depth=2, cutoff=1e-10, damping=0.5)
    rounds(lambda x: 0.3 * x + 1, np.zeros(4), memory, 5)
    assert len(memory.moves) == len(memory.changes) == 2
    assert not memory.failed(memory.last_residual, 1.0)
    assert memory.failed(10 * memory.last_residual + 1.0, 2.0)
    memory.leave_point()
    memory.record(np.ones(4), np.ones(4))
    assert len(memory.moves) == 2  # a jump is no move
    memory.forget()
    assert memory.last_point is None
    residual = np.array([1.0, -2.0])
    np.testing.assert_array_equal(memory.step(residual), 0.5 * residual)
    assert not memory.failed(math.inf * np.ones(4), 2.0)  # no combination has been taken
