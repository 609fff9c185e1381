"""Margins of fits to noisy labels, on training and on fresh samples, and of another noise."""

import math

import numpy as np
import pytest

import polyceptron as pc

pytestmark = pytest.mark.slow

D, ALPHA, RIDGE, RUNS = 500, 3.0, 0.3, 5


def smallest_gaps(z, y):
    own = z[np.arange(len(y)), y]
    z = z.copy()
    z[np.arange(len(y)), y] = -np.inf
    return own - z.max(1)


def shares(teacher, cuts, seed):
    """P(margin < cut) on training and on fresh samples of one fit."""
    rng = np.random.default_rng([3, seed])
    X, y, W = teacher.sample(int(ALPHA * D), D, seed=rng)
    fitted = pc.fit_erm(X, y, "cross-entropy", RIDGE).weights
    new = rng.standard_normal((4000, D))
    label = teacher.noise.sample(new @ W / math.sqrt(D), rng)
    pairs = ((X, y), (new, label))
    gaps = [smallest_gaps(A @ fitted / math.sqrt(D), b) for A, b in pairs]
    return np.array([[(one < cut).mean() for cut in cuts] for one in gaps])


@pytest.mark.parametrize(("k", "noise"), [(2, "flips:0.15"), (3, "softmax:2")])
def test_margins(k, noise):
    teacher, cuts = pc.Teacher(k, noise=noise), np.array([-1.0, 0.0, 1.0])
    found = np.array([shares(teacher, cuts, seed) for seed in range(RUNS)])
    x = np.linspace(-16, 16, 1601)

    def predicted(problem):
        law = pc.margin_law(problem, pc.ERM("cross-entropy", RIDGE), ALPHA, x)
        sums = [np.cumsum(part) * (x[1] - x[0]) for part in (law.training, law.fresh)]
        return np.array([np.interp(cuts, x, one) for one in sums])

    # a standard error of five runs is known to 35 %: six of them, and 1/d for the limit
    allowed = 6 * found.std(0, ddof=1) / math.sqrt(RUNS) + 4 / D
    assert np.all(np.abs(found.mean(0) - predicted(teacher)) < allowed)
    other = predicted(pc.Teacher(k, noise="gaussian:2"))
    assert np.any(np.abs(found.mean(0) - other) > 2 * allowed)
