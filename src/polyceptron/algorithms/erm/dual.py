"""Losses with kinks and a ridge: min_W Σ_μ s_μ ℓ(z_μ, y_μ) + (λ/2)‖W‖²_F, by multipliers.

With a copy u_μ of the fields, multipliers α_μ of u = z and a penalty c,

    ψ(z) = min_u sℓ(u) + α·(z − u) + (c/2)‖z − u‖²,     ∇ψ = α⁺ = −s f(z + α/c, y, s/c),

f the loss's own `denoise`. ψ is smooth enough for Newton's method; α ← α⁺ until it stays. A loss
that is the largest of sums a·s of missed leads s_h = 1 + z_h − z_y over pulls a_h = α_h (h ≠ y) in
some set (the hinges) has the conjugate −Σa there, and α⁺ is in that set. So with G = Σ x̂_μα_μᵀ

    gap = Σ_μ (s ℓ(z_μ) − Σ_h a_h s_h(z_μ)) + (λ/2)‖W + G/λ‖² ≥ (λ/2)‖W − Ŵ‖²,

a sum of terms that are not negative. The root of a gap is known to about 1e-7.

With an intercept b the multipliers ought to sum to e = Σα = 0, and do up to rounding: the gap is
larger by ‖e‖‖b − b̂‖, for which any bound will do. With P the objective here, no less than at the
minimum, a sample of class c says s(1 + ẑ_h − ẑ_c) ≤ P for the other classes h, and ‖Ŵ‖² ≤ 2P/λ, so

    b̂_h − b̂_c ≤ R = max_c min_{y_μ=c} (P/s_μ + 2‖x̂_μ‖√(P/λ)),     ‖b̂‖ ≤ √k R.

A hinge need not have one best intercept: the certificate is of the weights alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from polyceptron.algorithms.data_checks import Labels, Samples
from polyceptron.algorithms.design import Inner, weights_or_ones
from polyceptron.algorithms.erm.descent import minimise
from polyceptron.algorithms.erm.erm_fit import ERMFit, fit_at, stopped
from polyceptron.algorithms.erm.objectives import EPS, Evaluation, Objective, sum_rounding
from polyceptron.model.checks import difference_basis
from polyceptron.model.losses import Loss
from polyceptron.numerics import AnyArray, Array
from polyceptron.rows import Status

_LEAST = 1e-5  # relative distance that a gap can certify
_ROUNDS, _PATIENCE, _LARGEST = 60, 8, 3e3  # without a better bound; the largest c


@dataclass(frozen=True)
class KinkCurvature:
    """c(t_h − Σ_A t/(|A| + e)) on the classes A whose pull is free, t = dz_h − dz_y, e 0 or 1."""

    active: AnyArray  # (1, k, n), times c
    share: AnyArray  # 1/(|A| + e), (1, n)
    basis: AnyArray
    y: Labels

    def take(self, chosen: Any) -> KinkCurvature:
        return self

    def rows(self, rows: slice) -> Inner:
        part = {"active": self.active[..., rows], "share": self.share[..., rows]}
        return replace(self, y=self.y[rows], **part)

    def __call__(self, Q: AnyArray) -> tuple[AnyArray, None]:
        t, each = self.basis @ Q, np.arange(self.y.size)
        t -= t[:, self.y, each][:, None]
        t -= ((self.active > 0) * t).sum(1, keepdims=True) * self.share[:, None]
        t *= self.active
        t[:, self.y, each] = -t.sum(1)
        return self.basis.T @ t, None

    def mean(self) -> Array:
        return np.asarray(self.active.sum(1, dtype=np.float64).mean(1)) / len(self.basis)

    def total(self) -> Array:
        raise NotImplementedError


class MoreauObjective(Objective):
    """Σ_μ ψ_μ, one problem at a time; multipliers (k, n). The curvature's source is α⁺."""

    def __init__(
        self, loss: Any, y: Labels, weights: Array | None, multipliers: Array, penalty: float
    ) -> None:
        super().__init__(y, difference_basis(len(multipliers)), weights)
        self.loss, self.multipliers, self.penalty = loss, multipliers, penalty
        self.shares = weights_or_ones(weights, y.size)

    def evaluate(self, Z: Array) -> Evaluation:
        c, s = self.penalty, self.shares
        omega = ((self.basis @ Z[0]) + self.multipliers / c).T
        f = self.loss.denoise(omega, self.y, s / c)[0]
        new = -s[:, None] * f
        u = omega - new / c
        value = float(s @ self.loss.value(u, self.y)) + 0.5 * float((new**2).sum()) / c
        value -= 0.5 * float((self.multipliers**2).sum()) / c
        return Evaluation(np.array([value]), (new @ self.basis).T[None], new.T[None])

    def curvature(self, evaluation: Evaluation, dtype: Any) -> Any:
        a = (evaluation.source[0] / self.shares).T.copy()
        a[np.arange(a.shape[0]), self.y] = 0.0
        free, extra = self.loss.sloping(a)
        count = np.maximum(free.sum(1) + extra, 1.0)
        active = (self.penalty * free.T)[None].astype(dtype)
        share = (1 / count)[None].astype(dtype)
        return KinkCurvature(active, share, self.basis.astype(dtype), self.y)


def fit_by_multipliers(
    samples: Samples, loss: Loss, ridges: Sequence[float], tol: float, start: Array | None
) -> list[ERMFit]:
    """One fit per λ > 0, each from the last, in the order of falling λ."""
    found: dict[float, ERMFit] = {}
    alpha = np.zeros((samples.n_classes, samples.y.size))
    U = None if start is None else (start @ difference_basis(samples.n_classes)).T
    for ridge in sorted(set(ridges), reverse=True):
        found[ridge], U, alpha = _fit_one(samples, loss, ridge, max(tol, _LEAST), U, alpha)
    return [found[ridge] for ridge in ridges]


def _fit_one(
    samples: Samples, loss: Any, ridge: float, tol: float, U: Array | None, alpha: Array
) -> tuple[ERMFit, Array, Array]:
    """The fit, and where the next may begin."""
    (design, y, k), free = samples, samples.intercept
    basis, before, steps, penalty = difference_basis(k), design.passes, 0, 1.0
    s, each = weights_or_ones(samples.weights, y.size), np.arange(y.size)
    U = np.zeros((k - 1, design.dimension)) if U is None else U
    best, stalled = (U, np.zeros((k, y.size)), math.inf), 0
    stop, length = False, math.sqrt(2) * float(design.row_norms.max())
    for turn in range(_ROUNDS):
        objective = MoreauObjective(loss, y, samples.weights, alpha, penalty)
        rough = max(10.0 ** (-2 - turn), 1e-12)
        try:
            at = minimise(
                design,
                objective,
                np.array([ridge]),
                U[None],
                target=rough,
                max_iter=40,
                intercept=free,
            )
        except KeyboardInterrupt:
            stop = True
            break
        U, alpha = at.U[0], at.evaluation.source[0]
        steps += int(at.n_iter[0])
        W, z, slope = U, basis @ at.Z[0], float(at.gradient_norm[0])  # of ‖λW + G‖
        a = alpha.copy()
        a[y, each] = 0.0
        missed = np.maximum(s * loss.value(z.T, y) - (a * (1 + z - z[y, each])).sum(0), 0.0)
        norm, total = float(np.linalg.norm(W)), float(a.sum())
        # Rounding of a field counts where the sample is at a kink: elsewhere α is the slope itself.
        kinked = np.abs(alpha.T - s[:, None] * loss.gradient(z.T, y)).max(1) > 1e-10 * s
        off = (8 * EPS + sum_rounding(design.dimension)) * (design.row_norms * norm + 1)
        blur = 2 * float((kinked * s) @ off)
        slope += sum_rounding(y.size) * length * total
        loose = blur
        if free is not None:
            norm, b = float(np.linalg.norm(W[:, :-1])), free.column * W[:, -1]
            least = float(s @ loss.value(z.T, y)) + ridge * norm**2 / 2
            reach = least / s + 2 * design.row_norms * math.sqrt(least / ridge)
            widest = max(float(reach[y == c].min()) for c in range(k))
            uneven = float(np.linalg.norm(alpha.sum(1))) + sum_rounding(y.size) * 2 * total
            loose += uneven * (float(np.linalg.norm(b)) + math.sqrt(k) * widest)
        bound = math.hypot(math.sqrt(2 * (float(missed.sum()) + loose) / ridge), slope / ridge)
        fast = bound < 0.3 * best[2]
        stalled = 0 if bound < 0.9 * best[2] else stalled + 1
        best = (W, z, bound) if bound < best[2] else best
        if bound <= tol * norm or stalled == _PATIENCE:
            break
        design.watch.step(turn + 1, _ROUNDS, bound / norm if norm else math.inf, tol)
        solved = slope < 1e-3 * ridge * norm
        if not (solved and fast):  # a larger one is quicker, a smaller one is more precise
            penalty = min(3 * penalty, _LARGEST) if solved else penalty / 3
    W, z, bound = best
    norm = float(np.linalg.norm(W if free is None else W[:, :-1]))
    close = bound <= tol * norm
    value = float(s @ loss.value(z.T, y))
    fit = fit_at(
        samples, loss.name, ridge, W.T @ basis.T, z, value, bound,
        Status.OK if close else Status.TOLERANCE_NOT_MET,
        gradient_norm=ridge * bound, n_iter=steps, matrix_passes=design.passes - before,
    )  # fmt: skip
    return (stopped(fit) if stop else fit), U, alpha
