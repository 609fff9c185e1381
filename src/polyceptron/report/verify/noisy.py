"""Noisy labels: independent values of two classes, limits of many, and data.

The separability threshold tends to 2 for two classes and 12/5 for three when labels are chance.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from polyceptron.algorithms import amp, exact_generalisation_error
from polyceptron.algorithms.watching import uninterrupted
from polyceptron.model import BayesOptimal, Teacher, as_channel
from polyceptron.report.verify.check import Check, sampled_check
from polyceptron.theory import curve_rows, fixed_points
from polyceptron.theory.separability import separability

INDEPENDENT = "independent computation"
SEPARABLE = (
    (f"softmax:{1 / math.sqrt(2)!r}", 0.438939),
    (f"softmax:{math.sqrt(2)!r}", 0.34493),
    (f"softmax:{5 / math.sqrt(2)!r}", 0.185052),
    ("gaussian:0.1", 0.16473),
    ("gaussian:1", 0.37101),
    ("flips:0.05", 0.262489),
)
BAYES = (
    ("gaussian:0.5", 1.0, 0.344287),
    ("gaussian:0.5", 5.0, 0.247024),
    ("gaussian:1", 1.0, 0.383151),
    ("gaussian:1", 10.0, 0.279867),
)


def noisy_values(full: bool) -> Iterator[Check]:
    """Thresholds and errors where they are known, and the limit of labels drawn by chance."""
    for noise, reference in SEPARABLE:
        ours = 1 / separability(Teacher(2, noise=as_channel(noise))).alpha_s
        name = f"1/α_s, k = 2, {_short(noise)}"
        digits = 10.0 ** -len(f"{reference!r}".split(".")[1])
        yield Check(name, ours, reference, INDEPENDENT, digits)
    for k, limit in ((2, 2.0), (3, 2.4)):
        ours = separability(Teacher(k, noise=as_channel("gaussian:1e8"))).alpha_s
        yield Check(f"α_s, k = {k}, labels of chance", ours, limit, "limit of the theory", 1e-3)
    for noise, alpha, reference in BAYES:
        ours = fixed_points(Teacher(2, noise=as_channel(noise)), alpha)[0].generalisation_error
        name = f"Bayes error on noisy labels, k = 2, {noise}, α = {alpha:g}"
        yield Check(name, ours, reference, INDEPENDENT, 1e-6)


def noisy_message_passing(full: bool) -> Iterator[Check]:
    """Message passing that knows the noise, and against it the theory of another noise."""
    d, runs = (1500, 12) if full else (800, 8)
    for noise in ("flips:0.1", "gaussian:0.5"):
        channel, errors = as_channel(noise), []
        teacher = Teacher(3, noise=channel)
        for seed in range(runs):
            data = teacher.sample(2 * d, d, 200 + seed)
            found = amp(data.X, data.y, noise=channel, n_classes=3, tol=1e-6)
            uninterrupted(found)
            error = exact_generalisation_error(found.weights, data.weights, noise=channel)
            errors.append(error.value)
        theory = curve_rows(teacher, BayesOptimal(), [2.0])[0]["generalisation_error"]
        source = f"{runs} runs of AMP, d = {d}"
        yield sampled_check(f"error, k = 3, {noise}, α = 2", theory, errors, source, slack=4 / d)
        spread = float(np.std(errors, ddof=1)) / math.sqrt(runs)
        other = curve_rows(Teacher(3), BayesOptimal(), [2.0])[0]["generalisation_error"]
        # A control that must fail: the noiseless theory is not what noisy labels give.
        far = abs(other - float(np.mean(errors))) > 4 * spread + 4 / d
        yield Check(f"no noise is told from {noise}", float(far), 1.0, "the same runs", 0.5)


def _short(noise: str) -> str:
    kind, number = noise.split(":")
    return f"{kind}:{float(number):.4g}"
