"""How often the label of a softmax teacher is not the class of a student at correlation ρ = cos θ,

    1 − ε = k ∫ φ(x) ∫ F′(t) B(t, x)^{k−1} dt dx

with x the student's field of a class and B the chance that another class is below in both.
"""

import math
from functools import lru_cache

import numpy as np
from scipy.special import ndtr

from polyceptron.numerics import Array, special
from polyceptron.numerics.gumbel.utility import utility_table
from polyceptron.numerics.panels import panel_rule

FARTHEST_GAP = 17.5  # of two fields of unit variance: larger ones have a chance below 1e-17
FIELD_STEP = 0.2  # of the trapezoidal rule over x
FIELDS = np.arange(-44, 45) * FIELD_STEP
LEVEL_STEP = 0.25  # of the trapezoidal rule over t, in units of √(1 + s²)
PANEL_ORDER = 16
PROXY_TOLERANCE = 1e-10


def softmax_error(slope: float, tau: Array, n_classes: int) -> Array:
    """Return ε on labels as drawn at τ = ρ/√(1 − ρ²) of any shape."""
    tau = np.asarray(tau, dtype=float)
    theta = np.arctan2(1.0, tau)
    # One proxy in asinh(θ/θ₀), stretched where θ is as small as the noise.
    scale = min(1.0, 2 / slope)
    proxy = _proxy(slope, n_classes, scale)
    error = np.asarray(proxy(np.arcsinh(np.minimum(theta, math.pi / 2) / scale)))
    worse_than_chance = tau < 0
    if np.any(worse_than_chance):
        angles = theta[worse_than_chance]
        error[worse_than_chance] = [disagreement(slope, n_classes, float(t)) for t in angles]
    return error


@lru_cache(maxsize=64)
def _proxy(slope: float, k: int, scale: float) -> special.ChebyshevProxy:
    """Return the map asinh(θ/θ₀) ↦ ε as a Chebyshev series."""

    def error(x: Array) -> Array:
        """Return ε at the angles θ₀ sinh(x), for x (n,)."""
        return np.array([disagreement(slope, k, float(t)) for t in scale * np.sinh(x)])

    top = math.asinh(0.5 * math.pi / scale)
    return special.chebyshev_proxy(error, 0.0, top, tol=PROXY_TOLERANCE, start=17, max_points=129)


def disagreement(slope: float, k: int, theta: float, margin: float = 0.0) -> float:
    """Return ε of any k at the angle θ, with B = ∫_m^∞ φ(x − u) F(t + βρu) du and m = 0.

    A margin m ≠ 0 gives the chance that the label's lead in the student's fields is not above m.
    """
    s = slope * abs(math.sin(theta))
    along = slope * math.cos(theta)
    table = utility_table(s)
    width = math.hypot(1.0, s)
    t_step = LEVEL_STEP * width
    t = np.arange(-9 * width, min(0.5 * s * s, 9 * s) + 38, t_step)
    low = min(max(margin, -FARTHEST_GAP), FARTHEST_GAP)
    u, weight = panel_rule(_gap_breaks(low, along, width), PANEL_ORDER)
    levels = table(t + along * u[:, None])
    kernel = np.exp(-0.5 * (FIELDS[:, None] - u) ** 2) * (weight / math.sqrt(2 * math.pi))
    if along > 0:  # F → 1 with growing u: integrate what is missing
        B = ndtr(FIELDS - low)[:, None] + kernel @ np.expm1(levels.log_cdf)
    else:
        B = kernel @ np.exp(levels.log_cdf)
    at_t = table(t)
    density = np.exp(at_t.log_cdf) * at_t.hazard * t_step
    phi = np.exp(-0.5 * FIELDS * FIELDS) * (FIELD_STEP / math.sqrt(2 * math.pi))
    return 1 - k * float(phi @ np.clip(B, 0.0, 1.0) ** (k - 1) @ density)


def _gap_breaks(low: float, along: float, width: float) -> Array:
    """Return break points of u from `low` to the farthest gap; F(t + βρu) is steep around u = 0."""
    scale = min(1.0, width / max(abs(along), 1e-300))
    n_doublings = math.ceil(math.log2(18 / scale))
    right = scale * np.concatenate([[0.0], 2.0 ** np.arange(0, n_doublings)])
    both = np.concatenate([-right[:0:-1], right])
    inside = both[(both > low) & (both < FARTHEST_GAP)]
    return np.concatenate([[low], inside, [FARTHEST_GAP]])
