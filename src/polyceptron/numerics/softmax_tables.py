"""What a softmax teacher of two or three classes teaches, and its errors, for every slope at once.

Utilities are fields plus Gumbel noise of scale 1/β. Lengths count only as ratios, so that overlap q
and residual variance v enter through two numbers,

    t = 1/√(1 + β²v),    tan φ = w/√q,   w² = v + 1/β²        (t = 0 is Gaussian noise, t = 1 v = 0)

and in them w √(q + w²) I, the excess of Ψ_out times √(q + w²)/w, and ε/φ are smooth on all of
0 ≤ t ≤ 1, 0 ≤ φ ≤ π/2: a product of Chebyshev series, good to 1e-10. The coefficients were made by
`python -m polyceptron.theory.fields.softmax_moments` (seconds), and a test remakes part.
"""

from __future__ import annotations

import json
import math
from functools import lru_cache
from importlib.resources import files

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

Array = NDArray[np.float64]
CLASSES = (2, 3)


def tabled_moments(slope: float, q: Array, v: Array, n_classes: int) -> tuple[Array, Array]:
    """I (n,) and the excess of Ψ_out (n,) at overlaps q (n,) and residual variances v (n,)."""
    width = np.sqrt(v + slope**-2)
    whole = np.sqrt(q + width**2)
    information, excess = _read(n_classes, slope * np.sqrt(v), np.arctan2(width, np.sqrt(q)))[:2]
    return information / (width * whole), excess * width / whole


def tabled_error(slope: float, tau: Array, n_classes: int) -> Array:
    """ε on labels as drawn at τ ≥ 0, any shape."""
    tau = np.asarray(tau, dtype=float)
    rest = 1 / np.hypot(1.0, tau.ravel())
    phi = np.arctan2(np.hypot(rest, 1 / slope), tau.ravel() * rest)
    error: Array = phi * _read(n_classes, slope * rest, phi)[2]
    return error.reshape(tau.shape)


def _read(n_classes: int, s: Array, phi: Array) -> Array:
    """The three series (3, n) at s = β√v (n,) and φ (n,)."""
    series = _coefficients(n_classes)
    along_t = chebyshev.chebvander(2 / np.hypot(1.0, s) - 1, series.shape[1] - 1)
    along_phi = chebyshev.chebvander(1 - 4 * phi / math.pi, series.shape[2] - 1)
    return np.asarray(((along_t @ series) * along_phi).sum(-1))


@lru_cache(maxsize=2)
def _coefficients(n_classes: int) -> Array:
    text = files("polyceptron.numerics").joinpath("softmax_tables.json").read_text()
    return np.array(json.loads(text)[str(n_classes)])
