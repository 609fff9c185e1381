"""Losses with kinks and a ridge: min_W Σ_μ s_μ ℓ(z_μ, y_μ) + (λ/2)‖W‖²_F, by multipliers.

A loss that is the largest of sums a·s of missed leads s_h = 1 + z_h − z_y over pulls a_h (h ≠ y) in
some set (the hinges) is smoothed about multipliers α,

    ψ(z) = max_a a·s − ‖a − α‖²/2c,     a = the point of the set next to α + c s,

enough for Newton's method; α ← a until it stays (`HingeObjective`). Since a is in the set, with
G = Σ x̂_μ Σ_h a_h(e_h − e_y)ᵀ

    gap = Σ_μ (s ℓ(z_μ) − Σ_h a_h s_h(z_μ)) + (λ/2)‖W + G/λ‖² ≥ (λ/2)‖W − Ŵ‖²,

a sum of terms that are not negative. The root of a gap is known to about 1e-7.

With an intercept b the pulls ought to sum to e = Σ_μh a_h(e_h − e_y) = 0, and do up to rounding:
the gap is larger by ‖e‖‖b − b̂‖, for which any bound will do. With P the objective here, no less
than at the minimum, a sample of class c says s(1 + ẑ_h − ẑ_c) ≤ P for the other classes h, and
‖Ŵ‖² ≤ 2P/λ, so

    b̂_h − b̂_c ≤ R = max_c min_{y_μ=c} (P/s_μ + 2‖x̂_μ‖√(P/λ)),     ‖b̂‖ ≤ √k R.

A hinge need not have one best intercept: the certificate is of the weights alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from polyceptron.algorithms.data_checks import Samples
from polyceptron.algorithms.design import weights_or_ones
from polyceptron.algorithms.erm.erm_fit import ERMFit, fit_at, stopped
from polyceptron.algorithms.erm.newton import minimise
from polyceptron.algorithms.erm.objectives import EPS, HingeObjective, sum_rounding
from polyceptron.model.checks import difference_basis
from polyceptron.model.losses import Loss
from polyceptron.numerics import Array
from polyceptron.rows import Status

_LEAST = 1e-5  # relative distance that a gap can certify
_ROUNDS, _PATIENCE, _LARGEST = 60, 8, 3e2  # without a better bound; the largest c


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
        objective = HingeObjective(loss, y, alpha, penalty, samples.weights)
        rough = max(10.0 ** (-2 - turn), 1e-8 if free is None else 1e-12)
        try:
            at = minimise(
                design, objective, np.array([ridge]), U[None], target=rough, max_iter=40,
                intercept=free,
            )  # fmt: skip
        except KeyboardInterrupt:
            stop = True
            break
        U, alpha = at.U[0], at.evaluation.source[0]
        steps += int(at.n_iter[0])
        W, z, slope = U, basis @ at.Z[0], float(at.gradient_norm[0])  # of ‖λW + G‖
        missed = np.maximum(s * loss.value(z.T, y) - (alpha * (1 + z - z[y, each])).sum(0), 0.0)
        norm, total = float(np.linalg.norm(W)), float(alpha.sum())
        # Rounding of a field counts where the sample is at a kink: elsewhere a is the slope itself.
        slopes = loss.gradient(z.T, y).T.copy()
        slopes[y, each] = 0.0
        kinked = np.abs(alpha - s * slopes).max(0) > 1e-10 * s
        off = (8 * EPS + sum_rounding(design.dimension)) * (design.row_norms * norm + 1)
        blur = 2 * float((kinked * s) @ off)
        slope += sum_rounding(y.size) * length * total
        loose = blur
        if free is not None:
            norm, b = float(np.linalg.norm(W[:, :-1])), free.column * W[:, -1]
            least = float(s @ loss.value(z.T, y)) + ridge * norm**2 / 2
            reach = least / s + 2 * design.row_norms * math.sqrt(least / ridge)
            widest = max(float(reach[y == c].min()) for c in range(k))
            uneven = float(np.linalg.norm(objective.pull(alpha).sum(1)))
            uneven += sum_rounding(y.size) * 2 * total
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
