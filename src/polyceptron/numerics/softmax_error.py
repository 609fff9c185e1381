"""How often the label of a softmax teacher is not the class of a student at correlation ρ = cos θ.

    1 − ε = k ∫ φ(x) ∫ F′(t) B(t, x)^{k−1} dt dx

with x the student's field of a class and F the law of a utility around the part of it that the
student sees. Up to three classes a table for every slope and angle is read (`softmax_tables`),
above a proxy is made for each slope. Good to 1e-9.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from polyceptron.numerics.chebyshev import ChebyshevProxy, chebyshev_proxy
from polyceptron.numerics.gumbel import utility_table
from polyceptron.numerics.panels import panel_rule
from polyceptron.numerics.softmax_tables import CLASSES, tabled_error

Array = NDArray[np.float64]
_FAR = 17.5  # of a difference of two fields of unit variance, in fields that count


def softmax_error(slope: float, tau: Array, n_classes: int) -> Array:
    """ε on labels as drawn at τ, any shape."""
    tau = np.asarray(tau, dtype=float)
    theta = np.arctan2(1.0, tau)
    if n_classes in CLASSES:
        found = tabled_error(slope, np.maximum(tau, 0.0), n_classes)
    else:  # one proxy in θ, stretched where θ is as small as the noise
        near = np.minimum(theta, math.pi / 2)
        found = np.asarray(_proxy(slope, n_classes)(np.arcsinh(near / _stretch(slope))))
    if np.any(tau < 0):  # a student worse than chance
        wrong = np.array([disagreement(slope, n_classes, float(t)) for t in theta[tau < 0].ravel()])
        found[tau < 0] = wrong
    return found


@lru_cache(maxsize=64)
def _proxy(slope: float, k: int) -> ChebyshevProxy:
    """asinh(θ/θ₀) ↦ ε."""
    scale = _stretch(slope)

    def error(x: Array) -> Array:
        return np.array([disagreement(slope, k, float(t)) for t in scale * np.sinh(x)])

    top = math.asinh(0.5 * math.pi / scale)
    return chebyshev_proxy(error, 0.0, top, tol=1e-10, start=17, max_points=129)


def _stretch(slope: float) -> float:
    return min(1.0, 2 / slope)


def disagreement(slope: float, k: int, theta: float, margin: float = 0.0) -> float:
    """ε of any k: a class has student field x and utility βρx + t.

    Another class is below in both with probability B = ∫_m^∞ φ(x − u) F(t + βρu) du, where m = 0; a
    margin m ≠ 0 gives the chance that the label's lead in the student's fields is not above it. In
    (t, x) everything varies on scale 1, however steep the softmax is.
    """
    s, along = slope * abs(math.sin(theta)), slope * math.cos(theta)
    table = utility_table(s)
    width = math.hypot(1.0, s)
    x = np.arange(-44, 45) * 0.2
    t_step = 0.25 * width
    t = np.arange(-9 * width, min(0.5 * s * s, 9 * s) + 38, t_step)
    scale = min(1.0, width / max(abs(along), 1e-300))
    breaks = scale * np.concatenate([[0.0], 2.0 ** np.arange(0, math.ceil(math.log2(18 / scale)))])
    breaks = np.concatenate([-breaks[:0:-1], breaks])  # F is steep around u = 0
    low, high = min(max(margin, -_FAR), _FAR), _FAR
    u, weight = panel_rule(
        np.concatenate([[low], breaks[(breaks > low) & (breaks < high)], [high]]), 16
    )
    levels = table(t + along * u[:, None])
    steps = np.exp(-0.5 * (x[:, None] - u) ** 2) * (weight / math.sqrt(2 * math.pi))
    if along > 0:  # F → 1 with growing u: integrate what is missing
        B = ndtr(x - low)[:, None] + steps @ np.expm1(levels.log_cdf)
    else:
        B = steps @ np.exp(levels.log_cdf)
    here = table(t)
    density = np.exp(here.log_cdf) * here.hazard * t_step
    phi = np.exp(-0.5 * x * x) * (0.2 / math.sqrt(2 * math.pi))
    return 1 - k * float(phi @ np.clip(B, 0.0, 1.0) ** (k - 1) @ density)
