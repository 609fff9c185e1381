"""Fits with any penalty: min_W Σ_μ ℓ(z_μ, y_μ) + Σ_i P(w_i), rows w_i on class differences.

Accelerated proximal gradients. With f the sum of the losses and a step 1/L the new weights are

    W⁺ = argmin_W  L‖W − Y‖²/2 + ∇f(Y)·(W − Y) + Σ P(w_i),

the penalty's own `denoise` at γ = LY − ∇f(Y) and Λ = L. Y runs ahead of W by momentum, which is
dropped where it points uphill; L is doubled where f bends more. The certificate: since
L(Y − W⁺) − ∇f(Y) is a slope of the penalty at W⁺,

    S = ∇f(W⁺) − ∇f(Y) + L(Y − W⁺)   is one of the whole,   ‖W⁺ − Ŵ‖ ≤ ‖S‖/μ

for a penalty whose strong convexity is μ (`Penalty.convexity`), rounding included; for μ = 0 there
is no bound, and the status is 'tolerance-not-met'.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from polyceptron.algorithms.data_checks import Samples
from polyceptron.algorithms.design import weights_or_ones
from polyceptron.algorithms.erm.erm_fit import ERMFit, bound_in_weights
from polyceptron.algorithms.erm.objectives import EPS, gradient_rounding
from polyceptron.model.losses import Loss
from polyceptron.model.penalties import Penalty
from polyceptron.numerics import Array
from polyceptron.rows import Status

_MAX_ITER = 20_000


class _Smooth(NamedTuple):
    """The sum of the losses at weights (d, k): fields (n, k), f, ∇f (d, k), slopes (n, k)."""

    fields: Array
    value: float
    gradient: Array
    slopes: Array


def fit_penalised(
    samples: Samples, loss: Loss, penalty: Penalty, tol: float, start: Array | None = None
) -> ERMFit:
    """Weights within relative distance `tol` of the minimiser; `start` (d, k)."""
    design, y, k = samples
    each = weights_or_ones(samples.weights, y.size)

    def smooth(W: Array) -> _Smooth:
        fields = design.fields(np.ascontiguousarray(W.T)).T
        slopes = each[:, None] * loss.gradient(fields, y)
        slopes = slopes - slopes.mean(1, keepdims=True)
        gradient = design.back(np.ascontiguousarray(slopes.T)).T
        return _Smooth(fields, float(each @ loss.value(fields, y)), gradient, slopes)

    W = np.zeros((design.dimension, k)) if start is None else start - start.mean(1, keepdims=True)
    before = design.passes
    Y, there, L, t, convexity = W, smooth(W), 1e-3 + design.stretch**2 / 16, 1.0, penalty.convexity
    for n_iter in range(1, _MAX_ITER + 1):
        while True:
            new = penalty.denoise(L * Y - there.gradient, L).mean
            step, here = new - Y, smooth(new)
            size = float((step * step).sum())
            above = here.value - there.value - float((there.gradient * step).sum())
            if above <= L * size / 2 + 64 * EPS * abs(there.value):
                break
            L *= 2
        gap = float(np.linalg.norm(here.gradient - there.gradient - L * step))
        norm = float(np.linalg.norm(new))
        done = gap <= 0.5 * tol * (convexity or penalty.strength) * norm
        if done or n_iter == _MAX_ITER:
            break
        if float((step * (new - W)).sum()) < 0:  # uphill: the momentum is dropped
            t = 1.0
        after = (1 + math.sqrt(1 + 4 * t * t)) / 2
        ahead = (t - 1) / after
        Y, W, t = new + ahead * (new - W), new, after
        there = here if ahead == 0 else smooth(Y)
    stiffness = each * np.trace(loss.hessian(here.fields, y), axis1=1, axis2=2)
    fields, slopes = (np.linalg.norm(part, axis=1)[None] for part in (here.fields, here.slopes))
    hidden = gradient_rounding(
        design, np.array([norm]), np.array([convexity]), fields, slopes, stiffness, None,
        np.array([tol * convexity * norm]),
    )  # fmt: skip
    gap += float(hidden[0])
    bound = bound_in_weights(gap / convexity, new) if convexity > 0 else math.inf
    close = bound <= tol * norm or (norm == 0 and done)
    return ERMFit(
        weights=new,
        gradient_norm=gap,
        distance_bound=bound,
        n_iter=n_iter,
        matrix_passes=design.passes - before,
        training_loss=here.value / samples.total,
        training_error=samples.error_rate(here.fields.T),
        status=Status.OK if close else Status.TOLERANCE_NOT_MET if done else Status.NOT_CONVERGED,
        ridge=penalty.strength,
        loss=loss.name,
        penalty=penalty.name,
    )
