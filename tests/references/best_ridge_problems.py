"""Random problems at which the best ridge is compared with a grid of fixed ones.

Run for fresh problems (`python -m tests.references.best_ridge_problems 100`): it prints each one
at which a fixed ridge is better than the best by more than its error bar, and the worst gap in
bars. `tests/agreement/test_best_ridge_coverage.py` runs fixed seeds.
"""

from __future__ import annotations

import sys
import time
from typing import Any, NamedTuple

import numpy as np

import polyceptron as pc
from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.students import student_of

RIDGES = (0.0, 1e-8, 1e-6, 1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0, 1e3, 1e6)
LOSSES = ("cross-entropy", "hinge", "squared-hinge", "square", "smoothed:0.5")
LOSSES_OF_MANY = ("cross-entropy", "hinge", "weston-watkins", "square", "squared-hinge")


class Comparison(NamedTuple):
    """The best ridge of a problem, and the fixed one that beats it most, in bars of the best."""

    problem: str
    ridge: float
    value: float
    uncertainty: float
    status: str
    rival: float
    gap_in_bars: float
    seconds: float


def random_noise(rng: np.random.Generator, n_classes: int) -> str:
    """Draw a channel by its name."""
    kind = rng.integers(4)
    if kind == 0:
        return "none"
    if kind == 1:
        return f"flips:{rng.uniform(0.01, 0.8 * (1 - 1 / n_classes)):.4g}"
    if kind == 2:
        return f"gaussian:{np.exp(rng.uniform(-4, 3)):.4g}"
    return f"softmax:{np.exp(rng.uniform(-1, 3)):.4g}"


def random_teacher(rng: np.random.Generator, classes: tuple[int, ...]) -> tuple[Any, Any, float]:
    """Draw a teacher with classes that are alike, a student and α."""
    k = int(rng.choice(classes))
    losses = LOSSES if k == 2 else LOSSES_OF_MANY
    features = None
    if rng.uniform() < 0.2:
        features = f"levels:{np.exp(rng.uniform(-2, 2)):.3g}x0.5,1x0.5"
    options = {} if features is None else {"features": features}
    teacher = pc.Teacher(k, noise=random_noise(rng, k), **options)
    return teacher, pc.ERM(str(rng.choice(losses)), 1.0), float(np.exp(rng.uniform(-2.5, 6)))


def random_population(rng: np.random.Generator) -> tuple[Any, Any, float]:
    """Draw a mixture or a biased teacher of two or three classes, a student and α."""
    k = 2 if rng.uniform() < 0.8 else 3
    shares = rng.dirichlet(np.full(k, 3.0))
    if rng.uniform() < 0.3:
        shares = np.full(k, 1 / k)
    shares = np.maximum(shares, 0.03) / np.maximum(shares, 0.03).sum()
    if rng.uniform() < 0.6:
        variances = rng.choice([None, 1])
        spread = tuple(rng.uniform(0.3, 2.0, k).round(3).tolist()) if variances else 1.0
        gram = float(rng.uniform(0.5, 4.0)) * np.eye(k)
        population: Any = pc.Mixture(tuple(shares.tolist()), gram=gram, variances=spread)
    else:
        population = pc.Teacher(k, biases=tuple(rng.normal(size=k).round(3).tolist()))
    loss = str(rng.choice(["cross-entropy", "square", "squared-hinge"]))
    spec = pc.ERM(loss, 1.0, intercept=bool(rng.uniform() < 0.6))
    return population, spec, float(np.exp(rng.uniform(-1.5, 5)))


def compare(population: Any, estimator: Any, alpha: float, tol: float | None = None) -> Comparison:
    """Compare the best ridge with all those of the grid that have an answer."""
    began = time.perf_counter()
    (best,) = student_of(estimator.with_ridge("optimal")).rows(population, [alpha], tol=tol)
    seconds = time.perf_counter() - began
    value = best["generalisation_error"]
    bar = best["uncertainty"]
    gap = -np.inf
    rival = np.nan
    for ridge in RIDGES:
        try:
            (row,) = student_of(estimator.with_ridge(ridge)).rows(population, [alpha], tol=tol)
        except (InvalidInput, ComputationFailed):
            continue
        if row["status"] != "ok":
            continue
        excess = (value - row["generalisation_error"]) / max(bar, 1e-300)
        if excess > gap:
            gap = excess
            rival = ridge
    name = f"{population!r}, {estimator!r}, alpha {alpha!r}, tol {tol!r}"
    return Comparison(name, best["ridge"], value, bar, best["status"], rival, gap, seconds)


def fresh(count: int, seed: int) -> None:
    """Print every fresh problem at which the best ridge is not the best."""
    rng = np.random.default_rng(seed)
    worst = -np.inf
    missed = 0
    for _ in range(count):
        if rng.uniform() < 0.6:
            problem = random_teacher(rng, (2, 2, 2, 3))
        else:
            problem = random_population(rng)
        tol = None
        if rng.uniform() < 0.2:
            tol = 1e-8
        try:
            found = compare(*problem, tol)
        except Exception as error:
            print("FAILED", problem, tol, repr(error), flush=True)  # noqa: T201
            continue
        worst = max(worst, found.gap_in_bars)
        if found.gap_in_bars > 1 or found.status != "ok" or found.seconds > 10:
            print(found, flush=True)  # noqa: T201
        missed += found.gap_in_bars > 1
    print(f"seed {seed}: {count} problems, {missed} missed, worst {worst:.3g} bars")  # noqa: T201


if __name__ == "__main__":
    fresh(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else time.time_ns() % 2**32)
