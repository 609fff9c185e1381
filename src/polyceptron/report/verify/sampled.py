"""Stated error bars against the truth, where the truth can be had another way."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from polyceptron.model import Teacher
from polyceptron.numerics.estimate import from_replicates
from polyceptron.report.verify.check import Check
from polyceptron.theory import fixed_points, generalisation_error
from polyceptron.theory.fields.information import channel_moments
from polyceptron.theory.fields.information_sampled import sampled_replicates

# Uncertainties hold in 99 of 100 cases; 1.4 of them are the four standard errors allowed elsewhere.
ALLOWED = 1.4


def error_bars(full: bool) -> Iterator[Check]:
    """The sampling rule of k ≥ 4 at k = 3, where twelve digits are known; low against high effort.

    `allowed` is made of the uncertainty that the rule states for itself.
    """
    for q in (0.2, 0.8, 0.999) if not full else (0.05, 0.2, 0.5, 0.8, 0.95, 0.999, 0.99999):
        exact = channel_moments(Teacher(3).noise, q, 1 - q, 3)
        sampled = sampled_replicates(q, 1 - q, 3, 8)
        for name, ours, truth in zip(("I", "Ψ_out"), sampled, exact, strict=True):
            value, uncertainty = from_replicates(ours)
            reference = float(truth[0, 0])
            allowed = ALLOWED * float(uncertainty) + 1e-7 * abs(reference)
            yield Check(
                f"{name}(q = {q:g}) by sampling", float(value), reference, "exact, k = 3", allowed
            )
    for k in (4, 10) if full else (4,):
        quick, slow = (
            fixed_points(Teacher(k), 2.0, tol=tol)[0] for tol in (3e-3, 2e-5 if full else 1e-4)
        )
        yield Check(
            f"Bayes error, k = {k}, α = 2, quick",
            quick.generalisation_error,
            slow.generalisation_error,
            "more points",
            ALLOWED * math.hypot(quick.uncertainty, slow.uncertainty),
        )


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
