"""Finite instances against the theory of infinite dimension: message passing and scikit-learn.

The allowance is four standard errors of the mean over the runs, plus 4/d for what is lost by d
being finite.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyceptron.algorithms.overlaps import exact_generalisation_error, overlaps
from polyceptron.experiments.simulate import run_amp
from polyceptron.model import ERM, Teacher, as_channel, as_loss, as_prior
from polyceptron.numerics import Array
from polyceptron.report.verify.check import Check, sampled_check
from polyceptron.theory.bayes_optimal.fixed_points import fixed_points
from polyceptron.theory.bayes_optimal.state_evolution import state_evolution
from polyceptron.theory.erm.fixed_point import erm_fixed_point
from polyceptron.theory.generalisation import generalisation_error

STEPS = 8


def message_passing(full: bool) -> Iterator[Check]:
    """The error that message passing reaches, and its overlap step by step."""
    cases = [(3, "gaussian", 1.5), (3, "rademacher", 2.0)]
    cases += [(2, "gaussian", 1.0), (5, "gaussian", 2.0), (3, "rademacher", 3.2)] if full else []
    d, runs = (2000, 20) if full else (1000, 10)
    for k, prior, alpha in cases:
        teacher = Teacher(k, as_prior(prior))
        errors, paths = _runs(teacher, alpha, d, range(runs))
        name, source = f"k = {k}, {prior}, α = {alpha:g}, d = {d}", f"{runs} runs of AMP"
        theory = next(p for p in fixed_points(teacher, alpha) if p.branch == "amp")
        slack = 4 / d + 4 * theory.uncertainty
        ours = theory.generalisation_error
        yield sampled_check(f"error, {name}", ours, errors, source, slack=slack)
        expected = state_evolution(teacher, alpha, STEPS).q
        lines = []
        for t in range(1, STEPS + 1):
            seen, after = [path[t] for path in paths], f"q after {t} iterations, {name}"
            lines.append(sampled_check(after, float(expected[t]), seen, source, slack=8 / d))
        yield max(lines, key=lambda line: abs(line.difference) / line.allowed)


def noisy_message_passing(full: bool) -> Iterator[Check]:
    """Message passing that knows the noise, and against it the theory of another noise."""
    d, runs = (1500, 12) if full else (800, 8)
    noiseless = fixed_points(Teacher(3), 2.0)[0].generalisation_error
    for noise in ("flips:0.1", "gaussian:0.5"):
        teacher = Teacher(3, noise=as_channel(noise))
        errors, _ = _runs(teacher, 2.0, d, range(200, 200 + runs))
        theory = fixed_points(teacher, 2.0)[0].generalisation_error
        source = f"{runs} runs of AMP, d = {d}"
        yield sampled_check(f"error, k = 3, {noise}, α = 2", theory, errors, source, slack=4 / d)
        # A control that must fail: the noiseless theory is not what noisy labels give.
        wrong = sampled_check("", noiseless, errors, source, slack=4 / d).verdict == "off"
        yield Check(f"no noise is told from {noise}", float(wrong), 1.0, "the same runs", 0.5)


def _runs(
    teacher: Teacher, alpha: float, d: int, seeds: range
) -> tuple[list[float], list[list[float]]]:
    """The final error of each run and its q at 0, …, STEPS (a run that has ended stays there)."""
    errors, paths = [], []
    for seed in seeds:
        row, found = run_amp(teacher, alpha, d, seed, tol=1e-6)
        errors.append(row["generalisation_error"])
        path = [entry["q"] for entry in found.trace][: STEPS + 1]
        paths.append(path + path[-1:] * (STEPS + 1 - len(path)))
    return errors, paths


def scikit_learn(full: bool) -> Iterator[Check]:
    """Fresh fits of scikit-learn's own estimators: error and squared norm q."""
    d, runs = (1000, 16) if full else (500, 12)
    cases = [("cross-entropy", 2.0, 0.1), ("square", 2.0, 1.0), ("max-margin", 1.5, 0.0)]
    cases += [("cross-entropy", 5.0, 0.01), ("square", 0.5, 0.1)] if full else []
    for loss, alpha, ridge in cases:
        theory = erm_fixed_point(Teacher(3), ERM(as_loss(loss), ridge), alpha)
        errors, norms = [], []
        for seed in range(runs):
            data = Teacher(3).sample(round(alpha * d), d, 100 + seed)
            weights = _fit(loss, ridge, data.X / math.sqrt(d), data.y)
            errors.append(exact_generalisation_error(weights, data.weights).value)
            norms.append(overlaps(weights, data.weights).q)
        name = f"{loss}, k = 3, α = {alpha:g}" + (f", λ = {ridge:g}" if ridge else "")
        source = f"{runs} scikit-learn fits, d = {d}"
        yield sampled_check(
            f"error, {name}", theory.generalisation_error, errors, source, slack=4 / d
        )
        yield sampled_check(f"q, {name}", theory.q, norms, source, slack=4 / d * theory.q)


def _fit(loss: str, ridge: float, A: Array, y: NDArray[np.int64]) -> Array:
    """Weights (d, k) in the package's scaling, by an estimator that is not ours."""
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.svm import LinearSVC

    model: Any
    if loss == "square":
        model = Ridge(alpha=ridge, fit_intercept=False).fit(A, np.eye(3)[y])
    elif loss == "max-margin":  # Crammer and Singer's machine with a cost that forbids violations
        model = LinearSVC(
            C=1e4, multi_class="crammer_singer", fit_intercept=False, tol=1e-5, max_iter=100_000
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(A, y)
    else:
        model = LogisticRegression(C=1 / ridge, fit_intercept=False, tol=1e-8, max_iter=10_000)
        model.fit(A, y)
    return np.asarray(model.coef_.T, dtype=float)


def monte_carlo_errors(full: bool) -> Iterator[Check]:
    """ε(ρ) for k classes against labels drawn from correlated fields."""
    rng = np.random.default_rng(20)
    n = 2_000_000 if full else 400_000
    for k, rho in ((3, 0.7), (5, 0.9), (10, 0.5)):
        wrong = 0
        for _ in range(10):
            teacher, noise = rng.standard_normal((2, n // 10, k))
            student = rho * teacher + math.sqrt(1 - rho**2) * noise
            wrong += int((student.argmax(1) != teacher.argmax(1)).sum())
        rate = wrong / n
        allowed = 4 * math.sqrt(rate * (1 - rate) / n)
        ours = generalisation_error(rho, k)
        yield Check(f"ε(ρ = {rho:g}), k = {k}", ours, rate, f"{n:,} random labels", allowed)
