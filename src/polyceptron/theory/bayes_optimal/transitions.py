"""Where learning becomes possible and where it becomes easy.

    α_algo   the last fold of the solution curve, a local maximum of α(q̂): above it message passing
             arrives at the state of highest overlap without side knowledge
    α_IT     where that state takes over as the one of largest free entropy: above it the
             Bayes-optimal error is that of this state

The state of highest overlap is perfect learning where a finite prior meets a channel without width
(no noise, flips), Φ = −H + αΨ₀; else it is the last rising part of the curve. A curve without
folds has no transition: a Gaussian prior, for one. Between the two, the better state exists and is,
as far as is known, hard to find.

Perfect learning is one jump for all eigenvalues of the features. The recovery of direction i is
1 − v₁(q̂p_i), and 1 only at q̂ = ∞, where it is 1 for every p_i > 0. Towards there v falls as
exp(−q̂p_minδ²/8), so that α = q̂/I ~ q̂√v → 0: the curve always comes down, and its highest fold is
where the last directions are recovered together with all others. Strong directions may jump
before, at folds of their own, to an overlap below 1.

Where a curve is sampled both are read off its mean and then, at their known location √q̂ = x, off
finer points; a few Chebyshev nodes are enough, as α(q̂) is smooth over a narrow range:

    α_algo   a maximum of noisy numbers lies too high: the maximum is that of the mean, what is left
             of the bias is measured by leaving out one replicate at a time (jackknife) and added
    α_IT     linear in α at fixed q̂, and stationary in q and q̂, so that the location hardly matters
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev as C
from scipy.optimize import brentq

from polyceptron.display import ShortDisplay
from polyceptron.model import AnyTeacher
from polyceptron.model.checks import check_tolerance
from polyceptron.model.teacher import check_teacher
from polyceptron.numerics import AnyArray
from polyceptron.numerics.estimate import from_replicates, student_quantile
from polyceptron.rows import Status
from polyceptron.theory.bayes_optimal.channel_table import channel_table
from polyceptron.theory.bayes_optimal.solution_curve import Branch, SolutionCurve, curve_of
from polyceptron.theory.effort import (
    finest_point,
    first_effort,
    last_effort,
    sampled,
    transition_tolerance,
)
from polyceptron.theory.fields.information import Moments, channel_moments
from polyceptron.theory.weights.rules import row_entropy, row_rule

_HALF = 0.12  # the range of ln √q̂ on each side
_NODES = np.cos(np.pi * (np.arange(5) + 0.5) / 5)  # Chebyshev points of the first kind
_TABLE_STEP = 1e-7  # relative, what the winner's table of a sampled channel leaves


def fine_fold(
    teacher: AnyTeacher, x: float, level: int, *, last_try: bool = False
) -> tuple[float, float, float]:
    """max α around √q̂ = x, its uncertainty, and where it is.

    The mean over replicates is taken before the maximum. The jackknife measures what bias is left
    (it is the curvature's share of the noise of the slope) and the spread.
    """
    log_x = math.log(x) + _HALF * _NODES
    q_hat = np.exp(2 * log_x)
    v = row_rule(teacher)(q_hat, level)  # (5, R)
    log_v = np.log(v.mean(1))
    middle, half = 0.5 * (log_v.max() + log_v.min()), 0.5 * (log_v.max() - log_v.min())
    nodes = np.exp(middle + half * _NODES)
    information = _moments(teacher, nodes, level).information
    R = max(v.shape[1], information.shape[1])
    v, information = (np.broadcast_to(part, (5, R)) for part in (v, information))

    def peak(keep: AnyArray) -> tuple[float, float]:
        """max α of the mean over the kept replicates, and ln x there."""
        fit = C.chebfit(_NODES, np.log(information[:, keep].mean(1)), 4)
        here = np.log(v[:, keep].mean(1))
        log_alpha = 2 * log_x - C.chebval((here - middle) / half, fit)
        return _maximum(C.chebfit(_NODES, log_alpha, 4))

    every = np.arange(R)
    top, place = peak(every)
    if abs(place) > 0.9 and not last_try:  # x was not where the fold is
        return fine_fold(teacher, x * math.exp(_HALF * place), level, last_try=True)
    left_out = np.array([peak(np.delete(every, i))[0] for i in range(R)])
    bias = (R - 1) * (left_out.mean() - top)
    spread = math.sqrt((R - 1) / R * float(((left_out - left_out.mean()) ** 2).sum()))
    uncertainty = student_quantile(R) * spread + abs(bias) + _rest(teacher) * top
    return float(top - bias), float(uncertainty), x * math.exp(_HALF * place)


def _moments(teacher: AnyTeacher, v: AnyArray, level: int) -> Moments:
    """I and the excess at v (p,): the channel's table where it is exact, else sampled here."""
    k = teacher.n_classes
    table = channel_table(teacher.channel, k, first_effort(teacher))
    if table.n_replicates:
        return channel_moments(teacher.channel, 1 - v, v, k, level)
    information, entropy = table(v, np.zeros(v.shape, dtype=np.int64))
    return Moments(information[:, None], (entropy - table.known_entropy)[:, None])


def _rest(teacher: AnyTeacher) -> float:
    """Relative error of the channel's moments, sampling apart."""
    return (
        _TABLE_STEP + channel_table(teacher.channel, teacher.n_classes, first_effort(teacher)).error
    )


def _maximum(log_alpha: AnyArray) -> tuple[float, float]:
    """The maximum of exp of a Chebyshev series on [−1, 1], and where it is."""
    roots = C.chebroots(C.chebder(log_alpha))
    inside = [r.real for r in roots if abs(r.imag) < 1e-9 and abs(r.real) <= 1]
    places = np.array([-1.0, 1.0, *inside])
    values = C.chebval(places, log_alpha)
    best = int(values.argmax())
    return math.exp(float(values[best])), float(places[best])


def fine_entropy(teacher: AnyTeacher, x: float, level: int) -> tuple[float, float, float]:
    """α_IT from Φ(q, q̂, α) = −H + αΨ₀ at fixed √q̂ = x and q = F(q̂), its uncertainty, and x.

    Φ is linear in α, and stationary in q and q̂ at a fixed point.
    """
    r = teacher.reduced_rank
    nodes, weights = np.polynomial.legendre.leggauss(10)
    roots = 0.5 * x * (nodes + 1)
    v = row_rule(teacher)(np.append(roots, x) ** 2, level)
    psi = -r * (0.5 * x * weights * roots) @ v[:-1]  # ψ(q̂) = −(r/2) ∫ v dq̂
    here = np.array([v[-1].mean()])
    excess = _moments(teacher, here, level).excess[0]
    energy = row_entropy(teacher) + 0.5 * r * x**2 * here[0] + psi
    value, uncertainty = from_replicates(-energy / excess)
    return float(value), float(uncertainty + _rest(teacher) * abs(value)), x


Located = tuple[float, float, float]  # α, its uncertainty, and √q̂ there


@dataclass(frozen=True, repr=False)
class Transitions(ShortDisplay):
    """α_IT and α_algo with their uncertainties; both None where there is no transition."""

    model: str
    n_classes: int
    prior: str
    noise: str
    alpha_it: float | None
    alpha_it_uncertainty: float | None
    alpha_algo: float | None
    alpha_algo_uncertainty: float | None
    status: str

    def as_dict(self) -> dict[str, Any]:
        """The fields by name."""
        return asdict(self)

    def phase(self, alpha: float) -> str:
        """ "impossible", "hard" or "easy" (perfect) learning at α ("no transition" if none)."""
        if self.alpha_it is None or self.alpha_algo is None:
            return "no transition"
        if alpha < self.alpha_it:
            return "impossible"
        return "hard" if alpha < self.alpha_algo else "easy"


def transitions(teacher: AnyTeacher, tol: float | None = None) -> Transitions:
    """α_IT and α_algo of a teacher, to `tol` (default 1e-6 for k ≤ 3; above 1e-3 from tables, 3e-3
    sampled).

    >>> from polyceptron.model import Perceptron, Teacher
    >>> t = transitions(Perceptron("rademacher"))
    >>> round(t.alpha_it, 4), round(t.alpha_algo, 4)
    (1.2447, 1.4926)
    >>> transitions(Teacher(3, "gaussian")).alpha_it is None
    True
    """
    check_teacher(teacher)
    tol = check_tolerance(tol, transition_tolerance(teacher))
    if teacher.prior.gaussian:
        return _result(teacher, None, None, Status.OK)
    curve = curve_of(teacher, first_effort(teacher))
    found = _located(curve)
    if found is None:
        return _result(teacher, None, None, Status.OK)
    algo, it = found
    if sampled(teacher):
        algo, it = _sharpened(curve, algo, it, tol)
    worst = max(algo[1], it[1])
    return _result(teacher, it, algo, Status.OK if worst <= tol else Status.TOLERANCE_NOT_MET)


def _result(
    teacher: AnyTeacher, it: Located | None, algo: Located | None, status: Status
) -> Transitions:
    it_value, it_error, _ = it or (None, None, None)
    algo_value, algo_error, _ = algo or (None, None, None)
    return Transitions(
        teacher.model,
        teacher.n_classes,
        teacher.prior.name,
        teacher.noise.name,
        it_value,
        it_error,
        algo_value,
        algo_error,
        str(status),
    )


def _located(curve: SolutionCurve) -> tuple[Located, Located] | None:
    """α_algo and α_IT as the curve has them; None without a fold."""
    branches = curve.branches()
    peaks = [b for b in branches if b.rising and b is not branches[-1]]
    if not peaks:
        return None
    last = max(peaks, key=lambda b: b.alpha_high)
    if not curve.near_enough(last.alpha_high):  # the top state at this α lies further out
        branches = curve.branches(far=True)
    return _fold(curve, last), _takeover(curve, branches)


def _fold(curve: SolutionCurve, branch: Branch) -> Located:
    at = curve.points(np.exp([branch.high]))
    return branch.alpha_high, _relative(curve, at.q_hat) * branch.alpha_high, _root(branch.high)


def _relative(curve: SolutionCurve, q_hat: AnyArray) -> float:
    return float(curve.alpha_uncertainty(curve.points(q_hat))[0])


def _root(log_q_hat: float) -> float:
    return float(np.exp(0.5 * log_q_hat))


def _takeover(curve: SolutionCurve, branches: list[Branch]) -> Located:
    """The largest α at which another stable state has the larger Φ.

    Along every rising part the lead Φ − Φ_top over the top state falls, as dΦ/dα = Ψ_out is smaller
    at smaller overlap: one root at most, or the part ends, at its fold, still in the lead.
    """
    rising = [b for b in branches if b.rising]
    top = None if curve.perfect else rising[-1]
    found = []
    for branch in rising if top is None else rising[:-1]:
        low, high = branch.low, branch.high
        if top is not None and branch.alpha_low < top.alpha_low:
            if branch.alpha_high <= top.alpha_low:
                continue
            low = _where(curve, branch, top.alpha_low)
        if _lead(curve, low, top) <= 0:
            continue
        if _lead(curve, high, top) <= 0:
            high = float(brentq(lambda x: _lead(curve, x, top), low, high, xtol=1e-14))
        at = curve.points(np.exp([high]))
        # Φ is off by its uncertainty, and α by that over the slope of the lead.
        slope = abs(float(at.channel_entropy[0]) - _slope(curve, float(at.alpha[0]), top))
        u = float(curve.entropy_uncertainty(at)[0]) / max(slope, 1e-300)
        if top is not None:
            u *= 2  # the top state's Φ is as uncertain
        found.append((float(at.alpha[0]), u, _root(high)))
    return max(found)  # never empty: where the top state begins the one below it leads


def _lead(curve: SolutionCurve, log_q_hat: float, top: Branch | None) -> float:
    """Φ here less that of the top state at the same α."""
    at = curve.points(np.exp([log_q_hat]))
    alpha = float(at.alpha[0])
    if top is None:
        return float(at.free_entropy[0] - curve.perfect_entropy(alpha))
    above = curve.points(np.exp([_where(curve, top, alpha)]))
    return float(at.free_entropy[0] - above.free_entropy[0])


def _slope(curve: SolutionCurve, alpha: float, top: Branch | None) -> float:
    """dΦ/dα = Ψ_out of the top state."""
    if top is None:
        return curve.channel.known_entropy
    return float(curve.points(np.exp([_where(curve, top, alpha)])).channel_entropy[0])


def _where(curve: SolutionCurve, branch: Branch, alpha: float) -> float:
    """ln q̂ at which a rising part meets α."""

    def above(log_q_hat: float) -> float:
        return float(curve.points(np.exp([log_q_hat])).alpha[0]) - alpha

    if above(branch.low) >= 0:
        return branch.low
    if above(branch.high) <= 0:
        return branch.high
    return float(brentq(above, branch.low, branch.high, xtol=1e-14))


def _sharpened(
    curve: SolutionCurve, algo: Located, it: Located, tol: float
) -> tuple[Located, Located]:
    """Both at their known locations with more and more points; finer curves over a spectrum."""
    teacher = curve.teacher
    if not curve.weights.flat:
        for level in range(first_effort(teacher) + 2, last_effort(teacher) + 1, 2):
            if max(algo[1], it[1]) > tol:
                algo, it = _located(curve_of(teacher, level)) or (algo, it)
        return algo, it
    for level in range(first_effort(teacher) + 2, finest_point(teacher) + 1):
        if algo[1] > tol:
            algo = fine_fold(teacher, algo[2], level)
        if it[1] > tol and curve.perfect:
            it = fine_entropy(teacher, it[2], level)
        elif it[1] > tol and level <= last_effort(teacher):
            finer = curve_of(teacher, level)
            it = _takeover(finer, finer.branches())
    return algo, it
