"""Message passing on noisy labels follows state evolution, and rejects that of another noise."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy.special import stdtrit

import polyceptron as pc
from polyceptron.message_passing.posterior_mean import amp, amp_erm

pytestmark = pytest.mark.slow

D, ALPHA, STEPS, RUNS = 600, 2.0, 6, 10
BIAS = 2.0


@cache
def inputs(run):
    """Shared by all cases, in single precision: drawing them is half of the time."""
    return np.random.default_rng([7, run]).standard_normal((int(ALPHA * D), D), dtype=np.float32)


def drawn(teacher, run):
    rng, X = np.random.default_rng([7, teacher.n_classes, run]), inputs(run)
    W = teacher.prior.sample(rng, (D, teacher.n_classes))
    return X, teacher.noise.sample(X @ W / np.sqrt(D), rng), W


def off(found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """How far means over runs are beyond Student's quantile of 99.9 % and the bias of finite d."""
    standard_error = found.std(0, ddof=1) / np.sqrt(len(found))
    quantile = stdtrit(len(found) - 1, 0.9995)
    return np.abs(found.mean(0) - expected) - quantile * standard_error - BIAS / D


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("noise", ["gaussian:0.5", "softmax:2", "flips:0.1"])
def test_bayes(k, noise):
    teacher = pc.Teacher(k, noise=noise)
    found = []
    for run in range(RUNS):
        X, y, W = drawn(teacher, run)
        result = amp(
            X,
            y,
            teacher.prior,
            noise=noise,
            tol=1e-12,
            max_iter=STEPS,
            teacher_weights=W,
            n_classes=k,
        )
        found.append([entry["m"] for entry in result.trace])
    expected = np.asarray(pc.state_evolution(teacher, ALPHA, STEPS).q)
    assert (off(np.array(found), expected) <= 0).all()
    wrong = pc.state_evolution(pc.Teacher(k, noise="gaussian:2"), ALPHA, STEPS).q
    assert off(np.array(found), np.asarray(wrong))[-1] > 0.02


@pytest.mark.parametrize("noise", ["gaussian:0.5", "softmax:2", "flips:0.1"])
def test_cross_entropy(noise):
    teacher, ridge = pc.Teacher(3, noise=noise), 0.5
    found = []
    for run in range(RUNS):
        X, y, W = drawn(teacher, run)
        result = amp_erm(
            X, y, "cross-entropy", ridge, tol=1e-12, max_iter=STEPS, teacher_weights=W, n_classes=3
        )
        found.append([entry["m"] for entry in result.trace])
    steps = pc.erm_state_evolution(teacher, pc.ERM("cross-entropy", ridge), ALPHA, STEPS)
    assert (off(np.array(found), np.array([step.m for step in steps])) <= 0).all()
