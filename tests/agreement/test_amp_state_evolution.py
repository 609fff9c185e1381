"""Message passing follows state evolution, iteration by iteration.

Means over runs must lie within 3 standard errors, plus BIAS/d, of the d = ∞ prediction. BIAS was
measured once at d = 100 and 400 over hundreds of runs: 0.5 at most, but for the Rademacher teacher
above its algorithmic transition, where the moment of escape varies between runs and shifts m by
several units of 1/d; there iterations up to the escape are compared with BIAS 2, and the end is
perfect recovery.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyceptron as pc
from polyceptron.message_passing.posterior_mean import amp

pytestmark = pytest.mark.slow

BIAS = 2.0
COLUMNS = ("m", "q", "generalisation_error")


def one_trace(
    teacher: Any, alpha: float, d: int, steps: int, run: int, X: np.ndarray | None = None
) -> np.ndarray:
    """(steps + 1, 3): m, q and the error after each iteration."""
    rng = np.random.default_rng([teacher.n_classes, round(1000 * alpha), d, run])
    n = round(alpha * d)
    X = rng.standard_normal((n, d)) if X is None else X[:n]
    W = teacher.prior.sample(rng, (d, teacher.n_classes))
    y = teacher.noise.sample(X @ W.astype(X.dtype) / np.sqrt(d), rng)
    result = amp(
        X,
        y,
        teacher.prior,
        tol=1e-12,
        max_iter=steps,
        teacher_weights=W,
        n_classes=teacher.n_classes,
        noise=teacher.noise,
    )
    rows = [[entry[name] for name in COLUMNS] for entry in result.trace]
    return np.array(rows + [rows[-1]] * (steps + 1 - len(rows)))


def traces(teacher: Any, alpha: float, d: int, steps: int, runs: int) -> np.ndarray:
    """(runs, steps + 1, 3)."""
    return np.stack([one_trace(teacher, alpha, d, steps, run) for run in range(runs)])


def assert_follows(found: np.ndarray, teacher: Any, alpha: float, d: int) -> None:
    theory = pc.state_evolution(teacher, alpha, found.shape[1] - 1)
    error = [pc.generalisation_error(q**0.5, teacher.n_classes) for q in theory.q]  # of the rule
    expected = np.stack([theory.q, theory.q, error], -1)
    standard_error = found.std(0, ddof=1) / np.sqrt(len(found))
    off = np.abs(found.mean(0) - expected) - 3 * standard_error - BIAS / d
    worst = off.max(0)
    assert (worst <= 0).all(), dict(zip(COLUMNS, worst, strict=True))


CASES = [
    (2, "gaussian", 1.5),
    (3, "gaussian", 1.5),
    (5, "gaussian", 2.0),
    (10, "gaussian", 2.0),
    (3, "rademacher", 2.4),
]


@pytest.mark.parametrize(
    "teacher",
    [
        pc.Teacher(3, "sparse-gaussian:0.3"),
        pc.Teacher(2, "laplace"),
        pc.Teacher(4, "ternary"),
        pc.Teacher(5, noise="flips:0.1"),
    ],
    ids=lambda t: f"{t.n_classes} {t.prior.name} {t.noise.name}",
)
def test_other_priors_and_noise_of_many_classes(teacher: Any) -> None:
    """Noise of two and three classes is in test_noise_amp."""
    found = traces(teacher, 2.0, 300, 6, 10)
    assert_follows(found, teacher, 2.0, 300)


def test_runs_follow_state_evolution() -> None:
    """All cases share the inputs of a run, in single precision; teachers and labels differ.

    State evolution at another α, 1.6 for 1.5, is told apart. `verify --full` has four
    times the dimension.
    """
    d, steps, runs = 500, 8, 10
    cases = [*CASES, (3, "rademacher", 3.1)]
    found: dict[Any, list[np.ndarray]] = {case: [] for case in cases}
    for run in range(runs):
        X = np.random.default_rng([7, run]).standard_normal((31 * d // 10, d), dtype=np.float32)
        for case in cases:
            k, prior, alpha = case
            found[case].append(one_trace(pc.Teacher(k, prior), alpha, d, steps, run, X))
    for case in cases:
        k, prior, alpha = case
        assert_follows(np.stack(found[case]), pc.Teacher(k, prior), alpha, d)
    with pytest.raises(AssertionError):
        assert_follows(np.stack(found[3, "gaussian", 1.5]), pc.Teacher(3), 1.6, d)


def test_above_the_algorithmic_transition_recovery_is_perfect() -> None:
    """k = 3, Rademacher: α = 3.1 > 2.886 ends at error 0, α = 2.6 does not."""
    teacher = pc.Teacher(3, "rademacher")
    above = traces(teacher, 3.1, 600, 45, 3)
    np.testing.assert_allclose(above[:, -1, 2], 0, atol=1e-7)
    np.testing.assert_allclose(above[:, -1, 0], above[:, -1, 1], rtol=1e-6)
    below = traces(teacher, 2.6, 600, 40, 3)
    theory = pc.state_evolution(teacher, 2.6, 40)
    assert abs(below[:, -1, 2].mean() - theory.generalisation_error[-1]) < 0.03
    assert below[:, -1, 2].min() > 0.1
