"""Steps of message passing: what student and belief make of a point, in three kinds of variance.

One shared number V, one pass over X, nothing of its size (`shared_step`):

    ω = XŴ/√d − V f,      f, −tr ∂f = student(ω, y, V),      Λ = Σ_ν (−tr ∂f_ν)/(d (k−1))
    γ = Xᵀf/√d + ΛŴ,      Ŵ, V = belief(γ, Λ)                                        (alg. amp)

For i.i.d. inputs of unit variance the covariances of Algorithm 1 self-average, and by symmetry
between the classes they are multiples of the identity on the class differences. Weights are kept in
r = k − 1 orthonormal coordinates of these; a loss that also sees the common part has r = k.

Algorithm 1 as printed, a covariance for every sample and a precision for every coordinate
(`full_step`; X² is taken by block of rows):

    V_ν = Σ_j x²_jν Ĉ_j/d,       ω_ν = Σ_j x_jν ŵ_j/√d − V_ν f_ν
    Λ_j = −Σ_ν x²_jν ∂f_ν/d,     γ_j = Σ_ν x_jν f_ν/√d + Λ_j ŵ_j,    ŵ_j, Ĉ_j = prior(γ_j, Λ_j)

Matrices are P diag(v) P with P = I − 11ᵀ/k, one number per class, chosen to keep the diagonal of
the exact matrix (`class_numbers`); on the differences of k ≤ 3 classes these are all matrices. For
them channel and Gaussian prior are one integral each (labels see only differences).

Classes that are not alike, and a ridge (`matrix_step`): V and Λ are matrices (r, r), c weights of
the classes, and b intercepts without a ridge, moved to where the scores sum to 0:

    ω = XŴ/√d − fV,    f, D = −∂f  of the proximal map of cℓ at ω + b in the metric of V
    Λ = Σ_ν D_ν/d,     Ŵ = (Xᵀf/√d + ŴΛ)V,   V = (λ + Λ)⁻¹,   b ← b + (Σ_ν D_ν)⁻¹ Σ_ν f_ν

Correlated features F (n, m) (`correlated_amp`): the posterior of their weights c is a Gaussian with
one covariance C (m, m) for every class difference, and every sample has a precision D_μ of its own:

    ω = z − V f,   z = F ĉ,        f, g = −∇, −tr ∂² of −ln Z(ω, V) a direction
    D = g/(1 − V g),               C = (Fᵀ D F + diag 1/τ²)⁻¹
    ĉ = C' Fᵀ(D'(ω + V f) + f),    V ← s/(1 − s D),  s_μ = F_μ C F_μᵀ

A label pulls its class against its nearest competitor. Along that one direction of k − 1 the
curvature is about k/2 times the mean, so the mean moves with D' = kD/2 and its C'; for two classes
they are D and C. (With D itself ten classes overshoot, and need damping that costs four times the
steps.) A fixed point satisfies ĉ/τ² = Fᵀf whatever D' is, and for independent inputs it is that of
Algorithm 1. ω and V are the fields that all *other* samples predict: ln Z(ω, V) is the
log-probability of a label that was left out.

The iteration x ← x + (1 − δ)(T(x) − x) chooses its own damping δ. It has converged where T(x) − x,
the step that was proposed, is small: damping does not make it look so. δ starts at 0, as state
evolution assumes, and rises when steps turn back on themselves and have stopped shrinking (leaving
a plateau also grows the steps, but in one direction, and is let go); then the iteration resumes
from the best point so far. A checkpoint keeps point and damping: a run that is loaded takes the
same steps, and its trace begins there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from polyceptron.checks import difference_basis
from polyceptron.data.checks import Labels
from polyceptron.data.design import Design, Inner
from polyceptron.data.watching import SILENT, Watch
from polyceptron.numerics import AnyArray, Array
from polyceptron.problem.channels import Channel
from polyceptron.problem.losses import Loss
from polyceptron.problem.order import Belief
from polyceptron.problem.priors import WeightsRow
from polyceptron.rows import Status
from polyceptron.sides.matrix.fields import matrix_pull, matrix_stiffness

_DAMPING = (0.0, 0.3, 0.5, 0.7, 0.85, 0.93, 0.97)
_PATIENCE = 5  # steps that turn back and are no smaller than before, until the damping rises


@dataclass
class Damper:
    """The damping, and the evidence for raising it."""

    stage: int = 0  # place in the list of dampings
    strikes: int = 0
    least: float = math.inf
    direction: Array | None = None

    @property
    def value(self) -> float:
        return _DAMPING[self.stage]

    def judge(self, size: float, step: Array) -> bool:
        """Whether to damp more, having seen a proposed step (r, d) of this size.

        Where the map's own factor λ along the last step is above 1 it runs away, which no damping
        stops. From one proposed step to the next, damping makes it δ + (1 − δ)λ.
        """
        turning = False
        if self.direction is not None:
            square = inner(self.direction, self.direction)
            seen = inner(step, self.direction) / square if square > 0 else 1.0
            turning = (seen - self.value) / (1 - self.value) < 0.5
        self.direction = step
        if size < 0.9 * self.least or not turning:
            self.least, self.strikes = size, 0
        else:
            self.strikes += 1
        if self.strikes < _PATIENCE:
            return False
        self.increase()
        return True

    def increase(self) -> None:
        """More damping, judged afresh."""
        self.stage = min(self.stage + 1, len(_DAMPING) - 1)
        self.strikes, self.least, self.direction = 0, math.inf, None


def inner(a: Array, b: Array) -> float:
    """Σ ab: for arrays this small, waking the threads of a BLAS product costs more than adding."""
    return float((a * b).sum())


class Iterate(NamedTuple):
    """What an iteration hands to the next.

    weights U (r, d), their variance V (a number, an array (c, d) or a matrix (r, r)), scores F
    (r, n). With the matrix, U has the intercepts as a last column.
    """

    weights: Array
    variance: Any
    scores: Array

    def towards(self, new: Iterate, share: float) -> Iterate:
        """(1 − share)·self + share·new, component by component."""
        return Iterate(*(a + share * (b - a) for a, b in zip(self, new, strict=True)))

    @property
    def spread(self) -> float:
        """The variance per direction: arrays list the directions' variances first."""
        V, r = np.asarray(self.variance), len(self.weights)
        if V.shape == (r, r):
            return float(np.trace(V)) / r
        return float(np.mean(V[:r] if V.ndim else V))


Step = Callable[[Iterate], Iterate]


@dataclass(frozen=True)
class Ending:
    """Where an iteration ended: its last point, how many steps it took, and its residual."""

    last: Iterate
    n_iter: int
    status: Status
    residual: float
    damping: float
    trace: tuple[dict[str, float], ...]


def damped_iteration(
    step: Step,
    start: Iterate,
    *,
    tol: float,
    max_iter: int,
    observe: Callable[[Iterate], dict[str, float]] = lambda point: {},
    watch: Watch = SILENT,
) -> Ending:
    """Apply `step` until it moves the point by less than `tol`, relatively; else the best point.

    Entry t of the trace is what `observe` gives of the point after t steps, with the residual of
    the step that led there (infinite for the start, t = 0). The run comes from the watch's
    checkpoint, if it has one, and goes there. KeyboardInterrupt ends it with the best point so far.
    """
    saved = watch.checkpoint.load() or {"t": 0, "stage": 0}
    t, damper = saved.pop("t"), Damper(saved.pop("stage"))
    here = start._replace(**saved)
    best, least, used, retreats = here, (math.inf, math.inf), damper.value, 0
    trace: list[dict[str, float]] = []

    def seen(point: Iterate, residual: float) -> None:
        last = {"residual": residual, "damping": damper.value}
        trace.append({"iteration": t, **observe(point), **last})

    def keep(now: bool = False) -> None:
        watch.checkpoint.save(lambda: {"t": t, "stage": damper.stage, **here._asdict()}, now=now)

    seen(here, math.inf)
    status = Status.NOT_CONVERGED
    try:
        while t < max_iter and retreats <= 5:
            new = step(here)
            size, residual = _change(here, new)
            finite = all(bool(np.isfinite(part).all()) for part in (*new, size))
            if finite and residual < tol:
                keep(now=True)  # the same last step can be made again from there
                t += 1
                watch.step(t, max_iter, residual, tol)
                seen(new, residual)
                return Ending(new, t, Status.OK, residual, used, tuple(trace))
            t += 1
            if finite and size < least[0]:
                best, least = new, (size, residual)
            if not finite:
                retreats += 1
                damper.increase()
            if not finite or damper.judge(size, new.weights - here.weights):
                here, residual, used = best, least[1], damper.value
            else:
                here = new if damper.value == 0 else here.towards(new, 1 - damper.value)
            seen(here, residual)
            keep()
            watch.step(t, max_iter, residual, tol)
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    keep(now=True)
    return Ending(best, t, status, least[1], used, tuple(trace))


def _change(old: Iterate, new: Iterate) -> tuple[float, float]:
    """The larger change of the weights and of the fields' correction V f, and its relative size.

    The map depends on the scores through V f alone, so that is the scale on which they matter.
    """

    def rms(x: Array) -> float:
        return math.sqrt(inner(x, x) / x.size)

    with np.errstate(over="ignore", invalid="ignore"):
        weights, scores = new.weights - old.weights, new.scores - old.scores
        change, scale = max(rms(weights), rms(scores) * new.spread), rms(new.weights)
    return change, change / scale if scale > 0 else change


# f (n, k) and −tr_⊥ ∂f (n,) at fields ω (n, k), labels (n,) and uncertainty V
Student = Callable[[Any, Any, Any], tuple[Array, Array]]

NODES = 8  # of the channel's integral for k ≥ 4: far more precise than the 1/√d of an instance
_FLAT = 1e-9


@dataclass(frozen=True)
class _Scores:
    """z ↦ f = student(z − V f_old, y, V) in the coordinates of `basis`; scores f_old (r, n)."""

    scores: Array
    y: Labels
    V: float
    basis: Array
    student: Student

    def rows(self, rows: slice) -> Inner:
        return replace(self, scores=self.scores[:, rows], y=self.y[rows])

    def __call__(self, fields: AnyArray) -> tuple[AnyArray, tuple[Array, float]]:
        """Scores (r, b) in the precision of the fields; in full, with the sum of −tr ∂f."""
        omega = fields - self.V * self.scores
        f, curvature = self.student(omega.T @ self.basis.T, self.y, self.V)
        scores = np.ascontiguousarray((f @ self.basis).T)
        return scores.astype(fields.dtype, copy=False), (scores, float(curvature.sum()))


def shared_step(
    design: Design, y: Labels, basis: Array, student: Student, belief: Belief, floor: float
) -> Step:
    """The map (Ŵ, V, f) → (Ŵ, V, f) of one iteration, in the coordinates of `basis` (k, r).

    V is `floor` at least. Both products are made while a block of X is at hand, if reading is dear.
    """
    d, directions = design.dimension, basis.shape[0] - 1

    def step(here: Iterate) -> Iterate:
        inner = _Scores(here.scores, y, max(float(here.variance), floor), basis, student)
        back, found = design.through(here.weights.astype(design.dtype, copy=False), inner)
        scores = np.hstack([part for part, _ in found]) if len(found) > 1 else found[0][0]
        precision = max(sum(curvature for _, curvature in found) / (d * directions), 0.0)
        gamma = back + precision * here.weights
        mean, variance = belief.denoise(gamma.T @ basis.T, precision)
        weights = np.ascontiguousarray((mean @ basis).T)
        return Iterate(weights, float(np.mean(variance)) / directions, scores)

    return step


def full_step(
    design: Design,
    y: Labels,
    basis: Array,
    channel: Channel,
    row: WeightsRow,
    floor: float,
    biases: Any,
) -> Step:
    """The same with variances v (k, d) of the weights, and of at least `floor` of the fields.

    `biases` (k,) are added to the fields that labels see.
    """

    def step(here: Iterate) -> Iterate:
        fields = design.fields(here.weights.astype(design.dtype, copy=False))
        v = np.maximum(design.fields_squared(here.variance).T, floor)
        # P diag(v) P f; the channel ignores what is common
        omega = fields.T @ basis.T - v * (here.scores.T @ basis.T)
        found = channel.posterior(omega + biases, y, v, NODES)
        scores = np.ascontiguousarray((found.score @ basis).T)
        precision = np.maximum(design.back_squared(class_numbers(found.diagonal).T).T, 0.0)
        back = design.back(scores.astype(design.dtype, copy=False))
        gamma = back.T @ basis.T + precision * (here.weights.T @ basis.T)
        mean, diagonal = row.diagonal_posterior(gamma, precision)
        return Iterate(np.ascontiguousarray((mean @ basis).T), class_numbers(diagonal).T, scores)

    return step


def matrix_step(
    design: Design, y: Labels, loss: Loss, ridge: float, weight: Array, power: Array, bias: bool
) -> Step:
    """The map for class weights (n,) and features of variances `power` (d,), or (1,) of them all.

    Features are divided by their deviations, so that their weights pay λ/power.
    """
    d = design.dimension

    def step(here: Iterate) -> Iterate:
        U, b, V = here.weights[:, :d], here.weights[:, d], here.variance
        fields = design.fields(U.astype(design.dtype, copy=False)).T.astype(float) + b
        omega = fields - here.scores.T @ V
        found = matrix_pull(loss, omega, y, V, weight, fields)
        total = matrix_stiffness(loss, omega, y, V, weight, found).sum(0)
        scores = np.ascontiguousarray(found.f.T)
        gamma = design.back(scores.astype(design.dtype, copy=False)) + (total / d) @ U
        inverse = np.linalg.inv(np.eye(len(U)) * ridge + power[:, None, None] * (total / d))
        inverse *= power[:, None, None]
        weights = np.einsum("dij,jd->id", np.broadcast_to(inverse, (d, *V.shape)), gamma)
        if bias:
            b = b + np.linalg.solve(total, found.f.sum(0))
        return Iterate(np.hstack([weights, b[:, None]]), inverse.mean(0), scores)

    return step


def class_numbers(diagonal: Array) -> Array:
    """v (..., k) with diag(P diag(v) P) = diagonal (..., k): v_h(1 − 2/k) + Σv/k².

    For k ≤ 3 that is all of a matrix on differences: P diag(v) P = C. One v may be negative; the
    sum of two, the variance of a difference, is not, nor is a sum over many samples.
    """
    k = diagonal.shape[-1]
    if k == 2:
        return 2 * diagonal
    total = diagonal.sum(-1, keepdims=True) * (k / (k - 1))
    return np.asarray((diagonal - total / k**2) / (1 - 2 / k))


@dataclass(frozen=True)
class Posterior:
    """Mean (m, k) and covariance (m, m) of the weights, and the fields of samples left out.

    cavity (n, k), their variance (n,), and log_chance (n,) of the labels; `end` of the iteration.
    """

    channel: Channel
    mean: Array
    covariance: Any
    cavity: Array
    variance: Array
    log_chance: Array
    end: Any

    @property
    def converged(self) -> bool:
        return bool(self.end.status == Status.OK)

    @property
    def rank(self) -> tuple[bool, float]:
        """Converged before not converged, then by the mean log-probability of left-out labels."""
        score = float(self.log_chance.mean())
        return self.converged, score if math.isfinite(score) else -math.inf


def correlated_amp(
    F: Array,
    y: Labels,
    n_classes: int,
    prior: Array,
    channel: Channel,
    *,
    tol: float,
    max_iter: int,
    start: Iterate | None = None,
) -> Posterior:
    """Posterior of weights with prior variances τ² `prior` (m,), given features F (n, m).

    `start` is where another run ended.
    """
    (n, m), k, basis, stiff = F.shape, n_classes, difference_basis(n_classes), np.diag(1 / prior)

    def step(here: Iterate) -> tuple[Iterate, Posterior]:
        """The next iterate, and the posterior here."""
        V = here.variance[0]
        omega = (F @ here.weights.T - V[:, None] * here.scores.T) @ basis.T
        found = channel.posterior(omega, y, V, NODES)
        g = np.maximum(found.curvature / (k - 1), 0.0)
        D = g / np.maximum(1 - V * g, _FLAT)
        f = found.score @ basis
        H = (F * D[:, None]).T @ F
        C = np.linalg.inv(H + stiff)
        target = (omega @ basis + V[:, None] * f) * (k / 2 * D)[:, None] + f
        mean = np.linalg.solve(k / 2 * H + stiff, F.T @ target)
        s = np.einsum("ij,ij->i", F @ C, F)
        new = s / np.maximum(1 - s * D, _FLAT)
        posterior = Posterior(channel, here.weights.T @ basis.T, C, omega, V, found.log_z, None)
        weights, scores = (np.ascontiguousarray(part.T) for part in (mean, f))
        return Iterate(weights, new[None], scores), posterior

    if start is None:
        spread = np.maximum((F * F) @ prior, 1e-300)
        start = Iterate(np.zeros((k - 1, m)), spread[None], np.zeros((k - 1, n)))
    end = damped_iteration(lambda here: step(here)[0], start, tol=tol, max_iter=max_iter)
    return replace(step(end.last)[1], end=end)
