"""How often the label of a softmax teacher is not the class of a student at correlation ρ = cos θ.

    k = 2:  ε = 1/2 − ∫_0^∞ φ(u) tanh(βu/√2) erf(τu/√2) du,   τ = ρ/√(1 − ρ²)
    k = 3:  dε/dθ = sin θ (6/√(4π)) ∫_0^∞ N(u; 0, 3/2) (2∂₁ + ∂₂)Z(0, ρu) du
    k ≥ 4:  1 − ε = k ∫ φ(x) ∫ F′(t) B(t, x)^{k−1} dt dx

u is at k = 2 the teacher's gap over √2. At k = 3 the slope in ρ lives where two of the student's
classes are level and the third is u below, Z(g₁, g₂) being the chance of the label at these gaps
of the teacher's mean (`softmax_winning`); from ε = 2/3 at θ = π/2 the proxy of the slope is
integrated. F is the law of a utility around the part of it that the student sees. Good to 1e-9.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.polynomial import chebyshev as C
from numpy.typing import NDArray
from scipy.special import erf, ndtr

from polyceptron.numerics.chebyshev import ChebyshevProxy, chebyshev_proxy
from polyceptron.numerics.gumbel import utility_table
from polyceptron.numerics.panels import panel_rule
from polyceptron.numerics.softmax_winning import three_softmax

Array = NDArray[np.float64]
_FAR = 17.5  # of a difference of two fields of unit variance, in fields that count


def softmax_error(slope: float, tau: Array, n_classes: int) -> Array:
    """ε on labels as drawn at τ, any shape."""
    if n_classes == 2:
        return _two_classes(slope, tau)
    tau = np.asarray(tau, dtype=float)
    proxy = _three_classes(slope) if n_classes == 3 else _proxy(slope, n_classes)
    # one proxy in θ, stretched where θ is as small as the noise
    theta = np.arctan2(1.0, tau)
    found = np.asarray(proxy(np.arcsinh(np.minimum(theta, math.pi / 2) / _stretch(slope))))
    if np.any(tau < 0):  # a student worse than chance has no proxy
        wrong = np.array([disagreement(slope, n_classes, float(t)) for t in theta[tau < 0].ravel()])
        found[tau < 0] = wrong
    return found


def _two_classes(slope: float, tau: Array) -> Array:
    u, weight = panel_rule(np.concatenate([[0.0], 2.0 ** np.arange(-32, 4), [9.0]]), 10)
    weight = weight * np.exp(-0.5 * u * u) * np.tanh(slope * u / math.sqrt(2))
    weight /= math.sqrt(2 * math.pi)
    return np.asarray(0.5 - erf(np.multiply.outer(tau, u / math.sqrt(2))) @ weight)


@lru_cache(maxsize=64)
def _three_classes(slope: float) -> ChebyshevProxy:
    """asinh(θ/θ₀) ↦ ε."""
    scale = _stretch(slope)

    def rate(x: Array) -> Array:
        return np.array([_rate_of_three(slope, float(scale * np.sinh(a))) for a in x]) * (
            scale * np.cosh(x)
        )

    top = math.asinh(0.5 * math.pi / scale)
    found = chebyshev_proxy(rate, 0.0, top, tol=1e-9, start=13, max_points=129)
    whole = C.chebint(found.coefficients) * (0.5 * top)
    whole[0] += 2 / 3 - whole.sum()  # ε = 2/3 at a right angle
    return ChebyshevProxy(0.0, top, whole, found.error * top)


def _rate_of_three(slope: float, theta: float) -> float:
    """dε/dθ."""
    s, along = slope * math.sin(theta), slope * math.cos(theta)
    near = min(1.0, math.hypot(1.0, s) / max(along, 1e-300))
    ends = near * 2.0 ** np.arange(0, math.ceil(math.log2(11 / near)))
    u, weight = panel_rule(np.concatenate([[0.0], ends[ends < 10.5], [11.0]]), 14)
    weight = weight * np.exp(-u * u / 3) / math.sqrt(3 * math.pi)  # N(u; 0, 3/2)
    _, slopes = three_softmax(np.stack([np.zeros_like(u), along * u]), s)
    total = float(weight @ (2 * slopes[0] + slopes[1]))
    return 6 / math.sqrt(4 * math.pi) * slope * math.sin(theta) * total


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
