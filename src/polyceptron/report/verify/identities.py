"""Identities that tie the pieces of the theory together, by finite differences.

dΦ/dα = Ψ_out along a branch          (free entropy against the channel's entropy)
dΨ_out/dq = (r/2) I                   (stationarity of Φ in q, with q̂ = αI)
q̂ = αI(q)                             (the fixed point solves its equation)
d min_W(…)/dλ = ‖Ŵ‖²/2                (envelope theorem: training loss against norm)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from polyceptron.model import ERM, Channel, CrossEntropy, Teacher, as_channel, as_prior
from polyceptron.report.verify.check import Check
from polyceptron.theory import erm_fixed_point, fixed_points
from polyceptron.theory.bayes_optimal import FixedPoint
from polyceptron.theory.fields.information import channel_moments, known_entropy


def entropy_identities(full: bool) -> Iterator[Check]:
    """Derivatives of the free entropy at fixed points of k = 2 and 3: priors and noises."""
    cases = [
        (3, "gaussian", "none", 2.0),
        (3, "rademacher", "none", 2.6),
        (3, "gaussian", "flips:0.1", 2.0),
    ]
    if full:
        cases += [
            (2, "gaussian", "none", 0.5),
            (2, "rademacher", "none", 2.2),
            (3, "gaussian", "none", 30.0),
            (2, "rademacher", "softmax:2", 2.0),
        ]
    for k, prior, noise, alpha in cases:
        teacher = Teacher(k, as_prior(prior), as_channel(noise))
        name = f"k = {k}, {prior}{'' if noise == 'none' else ', ' + noise}, α = {alpha:g}"
        here = _amp_branch(teacher, [alpha])[0]
        moments = channel_moments(teacher.noise, here.q, here.v, k)
        entropy = known_entropy(teacher.noise, k) + float(moments.excess[0, 0])
        step = 1e-3 * alpha
        low, high, lower, higher = (
            p.free_entropy
            for p in _amp_branch(
                teacher, [alpha - step, alpha + step, alpha - 2 * step, alpha + 2 * step]
            )
        )
        slope = (8 * (high - low) - (higher - lower)) / (12 * step)
        yield Check(f"dΦ/dα, {name}", slope, entropy, "Ψ_out", 1e-7)
        reference = 0.5 * (k - 1) * float(moments.information[0, 0])
        yield Check(
            f"dΨ_out/dq, {name}", _entropy_slope(teacher.noise, here, k), reference, "(r/2) I", 1e-7
        )
        q_hat = alpha * float(moments.information[0, 0])
        yield Check(f"q̂ of the fixed point, {name}", here.q_hat, q_hat, "αI(q)", 1e-8 * q_hat)


def _amp_branch(teacher: Teacher, alphas: list[float]) -> list[FixedPoint]:
    """The fixed points that message passing reaches."""
    return [p for p in fixed_points(teacher, alphas) if p.branch == "amp"]


def _entropy_slope(noise: Channel, point: FixedPoint, k: int) -> float:
    """dΨ_out/dq at v = 1 − q, by a five-point difference."""
    h = 1e-3 * point.v
    shifts = np.array([-2, -1, 1, 2]) * h
    entropy = channel_moments(noise, point.q + shifts, point.v - shifts, k).excess[:, 0]
    return float((entropy[0] - 8 * entropy[1] + 8 * entropy[2] - entropy[3]) / (12 * h))


def risk_identity(full: bool) -> Iterator[Check]:
    """d[α · training loss + (λ/2) r q]/dλ = r q/2 for cross-entropy, whose weights sum to 0."""
    cases = [(3, 2.0, 0.1)] + ([(2, 5.0, 0.01), (3, 0.5, 1.0), (3, 10.0, 0.01)] if full else [])
    for k, alpha, ridge in cases:
        step = 0.02 * ridge

        def risk(value: float, k: int = k, alpha: float = alpha) -> float:
            point = erm_fixed_point(Teacher(k), ERM(CrossEntropy(), value), alpha, tol=1e-9)
            return alpha * point.training_loss + 0.5 * value * (k - 1) * point.q

        slope = (
            8 * (risk(ridge + step) - risk(ridge - step))
            - (risk(ridge + 2 * step) - risk(ridge - 2 * step))
        ) / (12 * step)
        q = erm_fixed_point(Teacher(k), ERM(CrossEntropy(), ridge), alpha, tol=1e-9).q
        name = f"d risk/dλ, cross-entropy, k = {k}, α = {alpha:g}, λ = {ridge:g}"
        yield Check(name, slope, 0.5 * (k - 1) * q, "‖Ŵ‖²/2d", 1e-5 * q)
