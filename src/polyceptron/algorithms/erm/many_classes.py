"""Cross-entropy of many classes: nothing of the size of the fields but one array of probabilities.

    min_W Σ_μ ln Σ_h exp(z_hμ − z_yμ) + (λ/2)‖W‖²,   z = XW/√d,   W (k, d)

One λ at a time, in a way that counts where k is large:

- the classes' own fields, not their k − 1 differences: a product with a basis takes k²n operations,
  more than those with X where k > d. The gradient sums to 0 over the classes, and so do weights.
- fields are made, used and dropped by block of samples (`Design.through`); only the softmax p
  (k, n) stays, in single precision.
- values and gradients too are in single precision until its rounding is near.
- the first steps are those of L-BFGS, one pass over X each, from what the Hessian would be if p
  did not depend on x: with the eigenvectors E of a sample's XᵀX/d = E diag(s) Eᵀ, and
  a_h = Σ_μ p_h(1 − p_h)/n at the start,

      class h:   M_h = a_h XᵀX/d + λ,     M_h⁻¹r = E (Eᵀr / (a_h s + λ)),

  which is exact at W = 0 but for terms of order 1/k. The start is the first such step, as long as
  a few samples say. Newton's method takes over where they have been many, or rounding is near:
  M, with a_h of each step, eases its conjugate gradients.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from polyceptron.algorithms.data_checks import Samples
from polyceptron.algorithms.design import Inner, weights_or_ones
from polyceptron.algorithms.erm import newton
from polyceptron.algorithms.erm.erm_fit import ERMFit, fit_at, fit_newton, stopped, through_nearest
from polyceptron.algorithms.erm.intercept import certificate, pulls_of, size_of
from polyceptron.algorithms.erm.objectives import (
    EPS,
    RankOneCurvature,
    SoftmaxObjective,
    lengths,
    roundings,
)
from polyceptron.model.losses import Loss
from polyceptron.numerics import AnyArray, Array
from polyceptron.rows import Status

MANY = 24  # classes from which this is the quicker way
_LOOSE, _STEPS = 0.3, 100
_PAIRS, _QUICK = 10, 40  # steps of L-BFGS that are remembered, and made
_NEAR = 1e-4  # of the steepest gradient: what is left is for Newton's method
_TINY = 1e-5  # of the Hessian's mean eigenvalue at the start, the ridge up to which none are made
_NODES = 3  # fits of a path, through which the next one's start is extrapolated in ln λ


def fit_softmax(
    samples: Samples, loss: Loss, ridges: Sequence[float], tol: float, start: Array | None
) -> list[ERMFit]:
    """One fit at each λ > 0, to relative distance `tol`; `start` (d, k)."""
    design, y, k = samples
    few = k < MANY or design.dimension > 3000  # features whose XᵀX is diagonalised
    objective = SoftmaxObjective(y, k, samples.weights)
    if few or 0 in ridges or not design.squares_are_safe or design.reading_is_dear:
        return fit_newton(samples, loss, ridges, tol, start, objective)
    solver, done = _ManyClasses(samples), dict[float, ERMFit]()
    kept = design.watch.checkpoint.load() or {}
    for ridge in sorted(set(ridges), reverse=True):
        nearest = [(math.log(r), fit.weights) for r, fit in list(done.items())[-_NODES:]]
        begin = through_nearest(nearest, math.log(ridge), _NODES) if nearest else start
        begin = kept.get(str(ridge), begin)
        done[ridge] = fit = solver.fit(loss.name, ridge, tol, begin)
        kept[str(ridge)] = fit.weights
        design.watch.checkpoint.save(kept.copy, now=True)
        if fit.status == Status.INTERRUPTED:
            break
        if fit.status != Status.OK:  # all in double precision
            done[ridge] = fit_newton(samples, loss, [ridge], tol, fit.weights, objective)[0]
    return [
        done.get(ridge) or stopped(replace(fit, weights=0 * fit.weights, ridge=ridge))
        for ridge in ridges
    ]


class _Point(NamedTuple):
    """Objective, its gradient (1, k, d), Σℓ, and of each sample (1, n) ‖z‖, ‖g‖, ‖∂²ℓ‖."""

    value: float
    slope: Array
    losses: float
    fields: Array
    residuals: Array
    stiffness: Array
    error_rate: float
    single: bool


@dataclass(frozen=True)
class _Look:
    """Fields (1, k, b) to residuals, keeping their softmax in `softmax` (1, k, n)."""

    objective: SoftmaxObjective
    softmax: AnyArray

    def rows(self, rows: slice) -> Inner:
        return _Look(self.objective.rows(rows), self.softmax[..., rows])

    def __call__(self, fields: AnyArray) -> tuple[AnyArray, Any]:
        final, y = fields.dtype == np.float64, self.objective.y
        wrong = fields[0].argmax(0) != y if final else np.full(y.size, math.nan)
        sizes = lengths(fields)
        here = self.objective.evaluate(fields)
        self.softmax[:] = here.source
        stiffness = self.objective.stiffness(here)
        return here.residual, (here.value, sizes, lengths(here.residual), stiffness, wrong)


@dataclass(frozen=True)
class _Inverse:
    """About the inverse Hessian: M⁻¹ = E diag(eased) Eᵀ, and what the last steps showed.

    `pairs`: steps s and changes t of the gradient, (1, k, d) both, with ⟨s, t⟩ and ⟨t, M⁻¹t⟩.
    """

    vectors: AnyArray
    eased: AnyArray
    pairs: list[tuple[AnyArray, AnyArray, float, float]]

    def first(self, r: AnyArray) -> AnyArray:
        """M⁻¹r (1, k, d)."""
        return np.asarray(((r @ self.vectors) * self.eased) @ self.vectors.T)

    def learn(self, s: AnyArray, t: AnyArray) -> None:
        """From now on t is taken to s."""
        s, t = s.astype(np.float32), t.astype(np.float32)
        both, own = (float(newton.dots(t, x)[0]) for x in (s, self.first(t)))
        if both > 0 < own:
            self.pairs.append((s, t, both, own))
            del self.pairs[:-_PAIRS]

    def __call__(self, r: AnyArray, at: Any = None) -> AnyArray:
        """Of r (1, k, d), by the two loops of L-BFGS."""
        q, parts = r.copy(), list[Any]()
        for s, t, both, _ in reversed(self.pairs):
            parts.append(newton.dots(s, q)[0] / both)
            q -= np.float32(parts[-1]) * t
        scale = self.pairs[-1][2] / self.pairs[-1][3] if self.pairs else 1.0
        q = np.float32(scale) * self.first(q)
        for s, t, both, _ in self.pairs:
            q += np.float32(parts.pop() - newton.dots(t, q)[0] / both) * s
        return q


class _ManyClasses:
    """What all λ share: the softmax at the last point, spectrum s (d,) and eigenvectors (d, d)."""

    def __init__(self, samples: Samples) -> None:
        (design, y, k), self.samples = samples, samples
        n, d = design.shape
        chosen = np.arange(0, n, max(1, n // (8 * d)))  # for an approximation they will do
        A = design.scaled_rows(chosen).astype(np.float32)
        spectrum, self.vectors = np.linalg.eigh(A.T @ A * np.float32(n / chosen.size))
        self.spectrum = np.maximum(spectrum, 0)
        self.few = chosen[::8], A[::8]
        self.objective = SoftmaxObjective(y, k, samples.weights, whole=True)
        self.softmax: AnyArray = np.empty((1, k, n), np.float32)
        self.steepest = 0.0  # of all starts: near the minimum a step is solved for closely

    def look(self, U: Array, pulls: Array, dtype: Any) -> _Point:
        """At weights U (1, k, d), in this precision; the softmax there is kept."""
        slope, found = self.samples.design.through(
            U.astype(dtype, copy=False), _Look(self.objective, self.softmax)
        )
        values, *parts, wrong = zip(*found, strict=True)
        fields, residuals, stiffness = (np.hstack(part).astype(float) for part in parts)
        rate = float(np.average(np.concatenate(wrong), weights=self.samples.weights))
        losses = float(sum(values)[0])
        return _Point(
            losses + 0.5 * float((pulls * U * U).sum()), slope + pulls * U, losses, fields,
            residuals, stiffness, rate, dtype == np.float32,
        )  # fmt: skip

    def fit(self, loss: str, ridge: float, tol: float, start: Array | None) -> ERMFit:
        """To relative distance `tol`, or as near as it comes; `start` (d, k)."""
        design, free = self.samples.design, self.samples.intercept
        k, before, ridges = self.samples.n_classes, design.passes, np.array([ridge])
        pulls = newton.by_feature(pulls_of(free, ridges))
        U = np.zeros((1, k, design.dimension))
        if start is not None:
            U[0] = (start - start.mean(1, keepdims=True)).T
        bound, steps, slow, status = math.inf, 0, 0, Status.TOLERANCE_NOT_MET
        here = self.look(U, pulls, np.float32)
        self.steepest = max(self.steepest, float(np.linalg.norm(here.slope)))
        inverse = self.inverse(ridge)
        quick = _QUICK if ridge > _TINY * np.mean(1 / inverse.eased) else 0
        if start is None and quick and self.steepest < math.inf:
            D = -inverse(here.slope)
            U = self.scale(D, pulls) * (D - D.mean(1, keepdims=True)).astype(float)
            here = self.look(U, pulls, np.float32)
            inverse = self.inverse(ridge)
        last = norm = float(np.linalg.norm(here.slope))
        try:
            while steps < _STEPS and slow < 3 and 0 < norm < math.inf:
                size = float(size_of(free, U)[0])
                goal = tol * ridge * size
                sizes = here.fields, here.residuals, here.stiffness
                hidden = 0.3 * roundings(design, np.array([size]), ridges, *sizes[:2])[1][0] / EPS
                if here.single and norm <= max(0.9 * goal, np.finfo(np.float32).eps * hidden):
                    here = self.look(U, pulls, np.float64)
                    last = norm = float(np.linalg.norm(here.slope))
                if norm <= goal and not here.single:
                    own, smoothness = (design, free, ridges, U), self.objective.smoothness
                    enough = np.array([tol * size])
                    found = certificate(*own, here.slope, sizes, smoothness, self.total, enough)
                    bound = float(found[1][0])
                    if bound <= tol * size:
                        status = Status.OK
                        break
                    goal *= 0.3 * norm / (ridge * bound)
                rest = None
                if steps >= quick or not here.single or norm < _NEAR * self.steepest:
                    rest = min(_LOOSE, max(math.sqrt(norm / self.steepest), 0.5 * goal / norm))
                    inverse = self.inverse(ridge)
                U, here = self.step(U, here, pulls, inverse, rest)
                steps, norm = steps + 1, float(np.linalg.norm(here.slope))
                slow, last = slow + (not here.single and norm > 0.5 * last), norm
                near = norm / (ridge * size) if size else math.inf
                design.watch.step(steps, _STEPS, near, tol, here.value / design.n_samples)
                design.watch.checkpoint.save(partial(dict, **{str(ridge): U[0].T}))
        except KeyboardInterrupt:
            bound, norm, status = math.inf, math.nan, Status.INTERRUPTED
        fit = fit_at(
            self.samples, loss, ridge, np.ascontiguousarray(U[0].T), np.full((k, 1), math.nan),
            here.losses, bound, status, gradient_norm=norm, n_iter=steps,
            matrix_passes=design.passes - before,
        )  # fmt: skip
        return replace(fit, training_error=here.error_rate)

    def step(
        self, U: Array, here: _Point, pulls: Array, inverse: _Inverse, rest: float | None
    ) -> tuple[Array, _Point]:
        """A step, halved until the objective falls; else the same in double precision.

        By Newton's method to the `rest` of the gradient, or at once.
        """
        if rest is None:
            D = -inverse(here.slope.astype(np.float32)).astype(float)
        else:
            given = self.samples.design, self.curvature(), pulls[:, 0], here.slope
            D = newton.solve_newton(*given, np.array([rest]), np.float32, inverse)
        D -= D.mean(1, keepdims=True)
        dtype = np.float32 if here.single else np.float64
        slope, noise = float((here.slope * D).sum()), 4 * float(np.finfo(dtype).eps) * here.value
        for t in 0.5 ** np.arange(20):
            there = self.look(U + t * D, pulls, dtype)
            if there.value - here.value <= 1e-4 * t * slope + noise:
                inverse.learn(t * D, there.slope - here.slope)
                return U + t * D, there
        return U, self.look(U, pulls, np.float64)

    def scale(self, D: AnyArray, pulls: Array) -> float:
        """About the t of the lowest objective at the weights tD (1, k, d), from a few samples."""
        (chosen, rows), scales = self.few, 2.0 ** np.arange(-6, 6, 0.25)
        z = (rows @ D[0].T).astype(float)
        z -= np.take_along_axis(z, self.objective.y[chosen][:, None], 1)
        losses = [logsumexp(t * z, axis=1).mean() for t in scales]
        stiff = 0.5 * float((pulls * D * D).sum()) / self.samples.total
        return float(scales[np.argmin(losses + stiff * scales**2)])

    def inverse(self, ridge: float) -> _Inverse:
        """About the inverse Hessian of this λ at the last point that was looked at."""
        p, n = self.softmax[0], self.softmax.shape[-1]
        share = weights_or_ones(self.objective.weights, n).astype(np.float32)
        a = np.maximum(p @ share - np.einsum("hn,hn,n->h", p, p, share), 0) / n
        return _Inverse(self.vectors, 1 / (a[:, None] * self.spectrum + np.float32(ridge)), [])

    def curvature(self) -> RankOneCurvature:
        """At the last point that was looked at, in single precision."""
        share = self.objective.weights
        share = None if share is None else share.astype(np.float32)
        return RankOneCurvature(self.softmax, None, self.objective.y, share)

    def total(self) -> Array:
        """Σ_μ ∂²ℓ_μ (1, k−1, k−1), no more than it is: it is known in single precision."""
        found = self.curvature().total()
        return found - 1e-6 * np.trace(found[0]) * np.eye(len(found[0]))
