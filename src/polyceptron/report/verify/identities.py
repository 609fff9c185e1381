"""Identities of the theory, by finite differences.

dΦ/dα = Ψ_out along a branch          (free entropy against the channel's entropy)
dΨ_out/dq = (r/2) I                   (stationarity of Φ in q, with q̂ = αI)
q̂ = αI(q)                             (the fixed point solves its equation)
d min_W(…)/dλ = ‖Ŵ‖²/2                (envelope theorem: training loss against norm)
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from polyceptron.problem import AnyTeacher, Teacher
from polyceptron.report.verify.check import Check
from polyceptron.report.verify.equal_classes import erm_point
from polyceptron.theory.bayes.channel_table import channel_table
from polyceptron.theory.bayes.fixed_points import FixedPoint, fixed_points

STENCIL = (-2, -1, 1, 2)  # places of the values that make a derivative, in steps
RELATIVE_STEP = 1e-3  # of α, and of v
RELATIVE_STEP_OF_RIDGE = 0.02


class EntropyCase(NamedTuple):
    """A teacher and α at which the derivatives of the free entropy are checked."""

    n_classes: int
    prior: str
    noise: str
    alpha: float


ENTROPY_CASES = (
    EntropyCase(3, "gaussian", "none", 2.0),
    EntropyCase(3, "rademacher", "none", 2.6),
    EntropyCase(3, "gaussian", "flips:0.1", 2.0),
)
FURTHER_ENTROPY_CASES = (
    EntropyCase(2, "gaussian", "none", 0.5),
    EntropyCase(2, "rademacher", "none", 2.2),
    EntropyCase(3, "gaussian", "none", 30.0),
    EntropyCase(2, "rademacher", "softmax:2", 2.0),
)


class RiskCase(NamedTuple):
    """A number of classes, α and λ of cross-entropy."""

    n_classes: int
    alpha: float
    ridge: float


RISK_CASES = (RiskCase(3, 2.0, 0.1),)
FURTHER_RISK_CASES = (RiskCase(2, 5.0, 0.01), RiskCase(3, 0.5, 1.0), RiskCase(3, 10.0, 0.01))


def entropy_identities(full: bool) -> Iterator[Check]:
    """Yield derivatives of the free entropy at fixed points of two and three classes."""
    cases: tuple[EntropyCase, ...] = ENTROPY_CASES
    if full:
        cases += FURTHER_ENTROPY_CASES
    for case in cases:
        yield from _entropy_checks(case)


def _entropy_checks(case: EntropyCase) -> Iterator[Check]:
    k, prior, noise, alpha = case
    teacher = Teacher(k, prior, noise)
    table = channel_table(teacher.channel, k)
    name = f"k = {k}, {prior}, α = {alpha:g}"
    if noise != "none":
        name = f"k = {k}, {prior}, {noise}, α = {alpha:g}"
    here = amp_branch(teacher, [alpha])[0]
    information, entropy = (float(values[0]) for values in table(np.array([here.v])))
    step = RELATIVE_STEP * alpha
    around = amp_branch(teacher, [alpha + i * step for i in STENCIL])
    slope = _slope(step, [point.free_entropy for point in around])
    yield Check(f"dΦ/dα, {name}", slope, entropy, "Ψ_out", 1e-7)
    step = RELATIVE_STEP * here.v
    _, entropies = table(here.v - step * np.array(STENCIL))
    slope = _slope(step, entropies)
    yield Check(f"dΨ_out/dq, {name}", slope, 0.5 * (k - 1) * information, "(r/2) I", 1e-7)
    q_hat = alpha * information
    yield Check(f"q̂ of the fixed point, {name}", here.q_hat, q_hat, "αI(q)", 1e-8 * q_hat)


def amp_branch(teacher: AnyTeacher, alphas: list[float]) -> list[FixedPoint]:
    """Return the fixed points that message passing reaches."""
    return [point for point in fixed_points(teacher, alphas) if point.branch == "amp"]


def _slope(step: float, values: Iterable[float]) -> float:
    """Return the derivative from values at −2, −1, 1 and 2 steps."""
    far, near, after, beyond = values
    return float((far - 8 * near + 8 * after - beyond) / (12 * step))


def risk_identity(full: bool) -> Iterator[Check]:
    """Yield d[α · training loss + (λ/2) r q]/dλ = r q/2 of cross-entropy."""
    cases: tuple[RiskCase, ...] = RISK_CASES
    if full:
        cases += FURTHER_RISK_CASES
    for case in cases:
        yield _risk_check(case)


def _risk_check(case: RiskCase) -> Check:
    k, alpha, ridge = case

    def risk(value: float) -> float:
        """Return α times the training loss plus the penalty, at the ridge `value`."""
        point = erm_point("cross-entropy", k, value, alpha, tol=1e-9)
        return alpha * point.training_loss + 0.5 * value * (k - 1) * point.q

    step = RELATIVE_STEP_OF_RIDGE * ridge
    slope = _slope(step, [risk(ridge + i * step) for i in STENCIL])
    q = erm_point("cross-entropy", k, ridge, alpha, tol=1e-9).q
    name = f"d risk/dλ, cross-entropy, k = {k}, α = {alpha:g}, λ = {ridge:g}"
    return Check(name, slope, 0.5 * (k - 1) * q, "‖Ŵ‖²/2d", 1e-5 * q)
