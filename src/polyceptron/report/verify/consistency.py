"""The theory against itself, and against finite instances.

Identities, by finite differences:

    dΦ/dα = Ψ_out along a branch          (free entropy against the channel's entropy)
    dΨ_out/dq = (r/2) I                   (stationarity of Φ in q, with q̂ = αI)
    q̂ = αI(q)                             (the fixed point solves its equation)
    d min_W(…)/dλ = ‖Ŵ‖²/2                (envelope theorem: training loss against norm)

Message passing and scikit-learn's fits are allowed four standard errors of the mean over the runs,
plus 4/d for what is lost by d being finite.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyceptron.algorithms.overlaps import exact_generalisation_error, overlaps
from polyceptron.experiments.data_runs import trace_rows
from polyceptron.model import AnyTeacher, Teacher
from polyceptron.numerics import Array
from polyceptron.report.verify.references import Check, erm_point, sampled_check
from polyceptron.theory.bayes_optimal.channel_table import channel_table
from polyceptron.theory.bayes_optimal.fixed_points import FixedPoint, fixed_points


def entropy_identities(full: bool) -> Iterator[Check]:
    """Derivatives of the free entropy at fixed points of k = 2 and 3: priors and noises."""
    cases = [(3, "gaussian", "none", 2.0), (3, "rademacher", "none", 2.6)]
    cases += [(3, "gaussian", "flips:0.1", 2.0)]
    if full:
        cases += [(2, "gaussian", "none", 0.5), (2, "rademacher", "none", 2.2)]
        cases += [(3, "gaussian", "none", 30.0), (2, "rademacher", "softmax:2", 2.0)]
    for k, prior, noise, alpha in cases:
        teacher = Teacher(k, prior, noise)
        name = f"k = {k}, {prior}{'' if noise == 'none' else ', ' + noise}, α = {alpha:g}"
        here = _amp_branch(teacher, [alpha])[0]
        found = channel_table(teacher.channel, k)(np.array([here.v]))
        information, entropy = (float(part[0]) for part in found)
        step = 1e-3 * alpha
        around = [alpha + i * step for i in (-2, -1, 1, 2)]
        slope = _slope(step, *(p.free_entropy for p in _amp_branch(teacher, around)))
        yield Check(f"dΦ/dα, {name}", slope, entropy, "Ψ_out", 1e-7)
        shifts, half = 1e-3 * here.v * np.array([-2, -1, 1, 2]), 0.5 * (k - 1) * information
        slope = _slope(1e-3 * here.v, *channel_table(teacher.channel, k)(here.v - shifts)[1])
        yield Check(f"dΨ_out/dq, {name}", slope, half, "(r/2) I", 1e-7)
        q_hat = alpha * information
        yield Check(f"q̂ of the fixed point, {name}", here.q_hat, q_hat, "αI(q)", 1e-8 * q_hat)


def _amp_branch(teacher: AnyTeacher, alphas: list[float]) -> list[FixedPoint]:
    """The fixed points that message passing reaches."""
    return [p for p in fixed_points(teacher, alphas) if p.branch == "amp"]


def _slope(h: float, far: float, near: float, after: float, beyond: float) -> float:
    """The derivative from values at −2h, −h, h and 2h."""
    return float((far - 8 * near + 8 * after - beyond) / (12 * h))


def risk_identity(full: bool) -> Iterator[Check]:
    """d[α · training loss + (λ/2) r q]/dλ = r q/2 for cross-entropy, whose weights sum to 0."""
    cases = [(3, 2.0, 0.1)] + ([(2, 5.0, 0.01), (3, 0.5, 1.0), (3, 10.0, 0.01)] if full else [])
    for k, alpha, ridge in cases:
        h = 0.02 * ridge
        points = [
            erm_point("cross-entropy", k, ridge + i * h, alpha, tol=1e-9) for i in (-2, -1, 0, 1, 2)
        ]
        risks = [
            alpha * p.training_loss + 0.5 * (ridge + i * h) * (k - 1) * p.q
            for i, p in enumerate(points, -2)
        ]
        slope, q = _slope(h, *risks[:2], *risks[3:]), points[2].q
        name = f"d risk/dλ, cross-entropy, k = {k}, α = {alpha:g}, λ = {ridge:g}"
        yield Check(name, slope, 0.5 * (k - 1) * q, "‖Ŵ‖²/2d", 1e-5 * q)


def message_passing(full: bool) -> Iterator[Check]:
    """The error that message passing reaches, and its overlap in the first eight iterations."""
    cases = [(3, "gaussian", 1.5), (3, "rademacher", 2.0)]
    cases += [(2, "gaussian", 1.0), (5, "gaussian", 2.0), (3, "rademacher", 3.2)] if full else []
    d, runs = (2000, 20) if full else (1000, 10)
    for k, prior, alpha in cases:
        teacher = Teacher(k, prior)
        steps = trace_rows(teacher, alpha, d, runs=runs, seed=0, tol=1e-6)
        name, source = f"k = {k}, {prior}, α = {alpha:g}, d = {d}", f"{runs} runs of AMP"
        (theory,) = _amp_branch(teacher, [alpha])
        seen, spread = (steps[-1][f"generalisation_error{end}"] for end in ("", "_standard_error"))
        allowed = 4 * spread + 4 / d + 4 * theory.uncertainty
        yield Check(f"error, {name}", theory.generalisation_error, seen, source, allowed)
        lines = [
            Check(
                f"q after {t} iterations, {name}", step["theory_q"], step["q"], source,
                4 * step["q_standard_error"] + 8 / d,
            )
            for t, step in enumerate(steps[1:9], 1)
        ]  # fmt: skip
        yield max(lines, key=lambda line: abs(line.difference) / line.allowed)


def scikit_learn(full: bool) -> Iterator[Check]:
    """Fresh fits of scikit-learn's own estimators: error and squared norm q."""
    d, runs = (1000, 16) if full else (500, 12)
    cases = [("cross-entropy", 2.0, 0.1), ("square", 2.0, 1.0), ("max-margin", 1.5, 0.0)]
    cases += [("cross-entropy", 5.0, 0.01), ("square", 0.5, 0.1)] if full else []
    for loss, alpha, ridge in cases:
        theory = erm_point(loss, 3, ridge, alpha)
        errors, norms = [], []
        for seed in range(runs):
            data = Teacher(3).sample(round(alpha * d), d, 100 + seed)
            weights = _fit(loss, ridge, data.X / math.sqrt(d), data.y)
            errors.append(exact_generalisation_error(weights, data.weights).value)
            norms.append(overlaps(weights, data.weights).q)
        name = f"{loss}, k = 3, α = {alpha:g}" + (f", λ = {ridge:g}" if ridge else "")
        source = f"{runs} scikit-learn fits, d = {d}"
        error = theory.generalisation_error
        yield sampled_check(f"error, {name}", error, errors, source, slack=4 / d)
        yield sampled_check(f"q, {name}", theory.q, norms, source, slack=4 / d * theory.q)


def _fit(loss: str, ridge: float, A: Array, y: NDArray[np.int64]) -> Array:
    """Weights (d, k) in the package's scaling, by an estimator that is not ours."""
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.svm import LinearSVC

    own: dict[str, Any] = {"fit_intercept": False, "max_iter": 100_000}
    model, target = {
        "cross-entropy": (LogisticRegression(C=1 / (ridge or 1), tol=1e-8, **own), y),
        "square": (Ridge(alpha=ridge, **own), np.eye(3)[y]),
        # Crammer and Singer's machine, with a cost that forbids violations.
        "max-margin": (LinearSVC(C=1e4, multi_class="crammer_singer", tol=1e-5, **own), y),
    }[loss]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.asarray(model.fit(A, target).coef_.T, dtype=float)
