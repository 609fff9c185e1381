"""The unknown common shift by nodes that follow the classes: any k, any signal-to-noise ratio.

As in `lattice`, with E_c the posterior average over the shift c,

    tr Cov u = E_c[(1 − 1/k) Σ_h var_h] + E_c‖P(μ̃ − E_c μ̃)‖².

The weight ∏_h f(y_h − c) has features of width 1 where c is close to one of the y_h (a prior's
spike or kink at 0) and varies over √q̂ elsewhere. So the integral is split by a smooth partition of
unity into one part around each class, c = y_i + λ sinh t on equal steps of t.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyceptron.theory.weights.field_law import FieldTable

Array = NDArray[np.float64]
SCALE = 1.5  # λ: about the width of a class's own feature
_MANY = 12  # classes above which only the true shift gets nodes
_CHUNK = 400_000  # table look-ups at once


class ShiftMoments(NamedTuple):
    """ln of the density of the fields' differences (n,), and tr Cov u given them (n,)."""

    log_density: Array
    variance: Array


def shift_nodes(table: FieldTable, step: float, offset: float = 0.0) -> tuple[Array, Array]:
    """λ sinh t on equal steps of t, as far as two fields can be apart, and the weights."""
    last = math.ceil(math.asinh(2 * table.reach / SCALE) / step)
    t = (np.arange(-last, last + 1) + offset) * step
    z = np.clip(SCALE * np.sinh(t), -2 * table.reach, 2 * table.reach)
    return z, SCALE * np.cosh(t) * step


def closeness(distance: Array) -> Array:
    """The partition of unity before it is normalised: 1/(x² + 2λ²)²."""
    return 1 / (distance**2 + 2 * SCALE**2) ** 2


def shift_moments(table: FieldTable, y: Array, step: float, offset: float = 0.0) -> ShiftMoments:
    """Density and posterior variance at fields y (n, k); nodes λ sinh t, t at (j + offset)·step.

    With more than twelve classes the shift is known too well for the far parts to matter, and
    nodes sit around the fields' own origin alone.
    """
    n, k = y.shape
    z, weight = shift_nodes(table, step, offset)
    centres = y if k <= _MANY else np.zeros((n, 1))
    log_density, variance = np.empty(n), np.empty(n)
    chunk = max(1, _CHUNK // (z.size * centres.shape[1] * k))
    for start in range(0, n, chunk):
        part = slice(start, start + chunk)
        c = (centres[part, :, None] + z).reshape(-1, centres.shape[1] * z.size)
        away = y[part, None, :] - c[..., None]  # (n, nodes, k)
        log_f, mean, var = table(away)
        log_w = log_f.sum(-1) + np.log(np.tile(weight, centres.shape[1]))
        if k <= _MANY:
            near = closeness(away)
            own = near.reshape(-1, k, z.size, k).diagonal(axis1=1, axis2=3)  # (n, z, k)
            log_w += np.log(own.swapaxes(1, 2).reshape(c.shape) / near.sum(-1))
        top = log_w.max(-1, keepdims=True)
        w = np.exp(log_w - top)
        total = w.sum(-1)
        w /= total[:, None]
        mean -= np.einsum("nc,nch->nh", w, mean)[:, None, :]
        spread = (1 - 1 / k) * var.sum(-1) + (mean**2).sum(-1) - mean.sum(-1) ** 2 / k
        variance[part] = (w * spread).sum(-1)
        log_density[part] = np.log(total) + top[:, 0]
    return ShiftMoments(log_density, variance)
