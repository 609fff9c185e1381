"""Two and three classes of any prior on a lattice: the common shift as a matrix product.

Not seeing the common part of a row is seeing y_h = √q̂ w_h + ξ_h + c with an unknown shift c. Given
c the classes are independent, so with E_c the posterior average over c, of weight ∏_h f(y_h − c),

    v = ½ E Var(w₁ − w₂ | y) = ½ E { E_c[var₁ + var₂] + Var_c[μ̃₁ − μ̃₂] },

two terms that are not negative. On a uniform lattice f, fμ̃ and f(μ̃² + var) are tabulated once, and
the sums over c for all differences of y at once are products A diag(f) Aᵀ with A_{yc} = f(y − c).
Everything is entire in y and c: the trapezoidal rule converges faster than any power.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyceptron.model.priors import Prior
from polyceptron.theory.weights.field_law import reach, scalar_posterior

Array = NDArray[Any]


def lattice_step(prior: Prior, q_hat: float) -> float:
    """0.35, less where a finite prior's posterior switches fast between values.

    Half-way between values δ apart the switch has poles at iπ/(√q̂ δ), and the rule's error is
    exp(−2π²/(√q̂ δ step)): 1e-14 at √q̂ δ step = 0.6.
    """
    step = 0.35
    if prior.support is not None:
        step = min(step, 0.6 / (math.sqrt(q_hat) * float(np.diff(prior.support[0]).max()) + 1e-300))
    return step


def lattice_size(prior: Prior, q_hat: float) -> int:
    """Lattice points on each side of 0."""
    return math.ceil(reach(prior, q_hat) / lattice_step(prior, q_hat))


def lattice_variance(prior: Prior, n_classes: int, q_hat: float) -> float:
    """v at q̂ for k = 2 or 3 and any prior."""
    step, n = lattice_step(prior, q_hat), lattice_size(prior, q_hat)
    lattice = np.arange(-n, n + 1)
    y = lattice * step
    log_f, mean, variance = scalar_posterior(prior, q_hat, y)
    f = np.exp(log_f) * step
    first_f, second_f = f * mean, f * (mean**2 + variance)
    if n_classes == 2:
        P, cross, square = (np.correlate(t, f, "full") for t in (f, first_f, second_f))
        first = cross - cross[::-1]
        second = square + square[::-1] - 2 * np.correlate(first_f, first_f, "full")
    else:
        # Row d, column c: the table at y = d − c; outside the lattice f is nothing.
        index = np.arange(-2 * n, 2 * n + 1)[:, None] - lattice
        inside = np.abs(index) <= n
        index = np.where(inside, index + n, 0)
        F, G, H = (np.where(inside, t[index], 0.0) for t in (f, first_f, second_f))
        here = f[::-1]  # the last class, at y = 0 − c
        right = (F * here).T
        P, cross, square = F @ right, G @ right, H @ right
        first = cross - cross.T
        second = square + square.T - 2 * (G @ (G * here).T)
    share = first**2 / np.maximum(P, 1e-290)
    return 0.5 * float(np.maximum(second - share, 0.0).sum())
