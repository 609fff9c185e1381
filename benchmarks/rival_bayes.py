"""The straightforward way to the Bayes-optimal error: iterate, with scipy's quadratures inside.

k = 3. The overlap q is iterated to a fixed point of q = αI/(1 + αI); every I(q) is an adaptive
double integral over two field differences, with orthant probabilities from Owen's T; the error is
another adaptive double integral at the end. Nothing is shared between sample ratios but the last q
as a start, as one would do.
"""

from __future__ import annotations

import math

from scipy.integrate import dblquad
from scipy.special import ndtr, owens_t


def rival_curve(alphas: list[float], tol: float) -> list[float]:
    """ε at each α, to about `tol`."""
    q, found = 0.5, []
    for alpha in alphas:
        for _ in range(500):
            new = alpha * information(q, 0.1 * tol)
            new /= 1 + new
            step, q = abs(new - q), new
            if step < 0.1 * tol:
                break
        found.append(error(math.sqrt(q), 0.1 * tol))
    return found


def both_below(h: float, k: float, rho: float) -> float:
    """P(x < h, y < k) for unit normals of correlation ρ."""
    rest = math.sqrt(1 - rho * rho)
    h, k = h or 1e-300, k or 1e-300
    value = 0.5 * (ndtr(h) + ndtr(k)) - 0.5 * (h * k < 0)
    value -= owens_t(h, (k - rho * h) / (h * rest)) + owens_t(k, (h - rho * k) / (k * rest))
    return float(value)


def information(q: float, tol: float) -> float:
    """I(q) = (3/2) E ‖∇Z‖²/Z for class 1, over its two differences a, b with the others."""
    v = 1 - q
    size = math.sqrt(2 * q)

    def integrand(b: float, a: float) -> float:
        h, k = a / math.sqrt(2 * v), b / math.sqrt(2 * v)
        Z = both_below(h, k, 0.5)
        if Z < 1e-280:
            return 0.0
        slope = math.sqrt(0.75)
        dh = math.exp(-0.5 * h * h) / math.sqrt(2 * math.pi) * float(ndtr((k - h / 2) / slope))
        dk = math.exp(-0.5 * k * k) / math.sqrt(2 * math.pi) * float(ndtr((h - k / 2) / slope))
        norm = (dh * dh + dk * dk + (dh + dk) ** 2) / (2 * v)  # three components that sum to 0
        weight = math.exp(-(a * a - a * b + b * b) / (3 * q)) / (2 * math.pi * q * math.sqrt(3))
        return weight * norm / Z

    reach = 7 * size
    value, _ = dblquad(integrand, -reach, reach, -reach, reach, epsabs=tol, epsrel=tol)
    return 1.5 * value


def error(rho: float, tol: float) -> float:
    """ε = 1 − 3 ∫∫ φ₂(u, v; ρ) Φ₂(u, v; ρ)² du dv."""
    scale = 2 * math.pi * math.sqrt(1 - rho * rho)

    def integrand(v: float, u: float) -> float:
        weight = math.exp(-(u * u - 2 * rho * u * v + v * v) / (2 * (1 - rho * rho))) / scale
        return weight * both_below(u, v, rho) ** 2

    value, _ = dblquad(
        integrand,
        -8,
        8,
        lambda u: rho * u - 8 * math.sqrt(1 - rho * rho),
        lambda u: rho * u + 8 * math.sqrt(1 - rho * rho),
        epsabs=tol,
        epsrel=tol,
    )
    return 1 - 3 * float(value)
