"""Generalisation error from the correlation of teacher and student fields, for any k.

With ρ the correlation on the class differences (√q for Bayes, m/√q for ERM), U the teacher's
winning field and V the student's,

    1 − ε = k ∫∫ φ₂(u, v; ρ) Φ₂(u, v; ρ)^{k−1} du dv,      k = 2:  ε = arccos(ρ)/π.

(Equations generalization_ERM and generalization_Bayes of the paper; the latter prints one noise
where two correlated ones are meant.) Small errors must not come from 1 − (1 − ε), so with
A = Φ(u) and D = P(U < u, V > v) we integrate the complement, whose integrand is positive:

    ε = k ∫∫ φ₂(u, v) A^{k−1} [1 − (1 − D/A)^{k−1}] du dv.

The integrand is entire, so the trapezoidal rule converges faster than exponentially; and ε/θ is
smooth in the angle θ = arccos ρ, so one Chebyshev proxy per k answers every later call.

The margin of the label, V − max_h V_h in units of √q, has by the same rule

    P(margin > x) = k ∫∫ φ₂(u, v; ρ) Φ₂(u, v − x; ρ)^{k−1} du dv
    density(x)    = k(k−1) ∫∫ φ₂(u, v; ρ) Φ₂(u, v − x; ρ)^{k−2} φ(v − x) Φ((u − ρ(v − x))/σ) du dv

with σ = √(1−ρ²). A channel enters by the correlation of the student with its utilities, where these
are Gaussian, and by its share of guessed labels, ρ = 0.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import log_ndtr, ndtr

from polyceptron.checks import as_numbers, check_classes
from polyceptron.errors import InvalidInput
from polyceptron.numerics import AnyArray
from polyceptron.numerics.bivariate import corner_cdf
from polyceptron.numerics.special import ChebyshevProxy, chebyshev_proxy
from polyceptron.problem.channels import Channel, as_channel

_ALIGNED = 1e14  # τ that stands for ρ = 1
_SLOPE_STEP = 1e-4  # of ln τ


def generalisation_error(correlation: Any, n_classes: int, noise: Any = "none") -> Any:
    """ε(ρ) on labels as they are drawn; at ρ = 1 the error of the teacher itself.

    Parameters
    ----------
    correlation : float or array_like
        ρ = m/√q of student and teacher, in [−1, 1].
    n_classes : int
    noise : str or Channel
        Of the labels: that of a teacher is its `channel`, with what its features hide.

    Returns
    -------
    float or ndarray

    Examples
    --------
    >>> bool(abs(generalisation_error(0.0, 4) - 0.75) < 1e-12)
    True
    >>> round(generalisation_error(1.0, 2, "flips:0.1"), 12)
    0.1
    """
    rho = as_numbers(correlation, "the correlation").astype(float)
    if not np.all(np.abs(rho) <= 1):
        raise InvalidInput(f"the correlation must be between -1 and 1, got {correlation!r}")
    channel = as_channel(noise)
    if channel.noiseless:
        value = np.clip(error_from_angle(np.arccos(rho), n_classes), 0.0, 1.0)  # rounding at ρ = −1
    else:
        tau = np.clip(rho / np.sqrt(np.maximum(1 - rho**2, _ALIGNED**-2)), -_ALIGNED, _ALIGNED)
        value = error_on_labels(channel, tau, n_classes)
    return value if rho.ndim else float(value)


def error_from_angle(theta: Any, n_classes: int) -> AnyArray:
    """ε at θ = arccos ρ: the way to keep relative precision when ρ is close to 1."""
    k = check_classes(n_classes)
    theta = np.asarray(theta, dtype=float)
    return theta / math.pi if k == 2 else theta * _ratio(k)(theta)


def error_on_labels(channel: Channel, tau: Any, n_classes: int) -> AnyArray:
    """ε on labels as the channel draws them, at τ = ρ/√(1−ρ²)."""
    return channel.drawn_error(tau, n_classes, lambda t: error_at_tau(t, n_classes))


def error_slope(channel: Channel, tau: float, n_classes: int) -> float:
    """|dε/d ln τ| on labels as drawn."""
    near = tau * np.exp(np.array([-_SLOPE_STEP, _SLOPE_STEP]))
    low, high = error_on_labels(channel, near, n_classes)
    return abs(float(high - low)) / (2 * _SLOPE_STEP)


def error_floor(channel: Channel, n_classes: int) -> float:
    """ε on labels as drawn of the teacher itself, ρ = 1: 0 without noise."""
    return 0.0 if channel.noiseless else float(error_on_labels(channel, _ALIGNED, n_classes))


def error_at_tau(tau: Any, n_classes: int) -> AnyArray:
    """ε against the noiseless rule at τ, accurate as τ → ∞."""
    return error_from_angle(np.arctan2(1.0, np.asarray(tau, dtype=float)), n_classes)


def angle(complement: Any) -> AnyArray:
    """θ = arccos √q from 1 − q, accurately as q → 1."""
    v = np.asarray(complement, dtype=float)
    return np.arctan2(np.sqrt(v), np.sqrt(np.maximum(1 - v, 0.0)))


@lru_cache(maxsize=256)
def _ratio(k: int) -> ChebyshevProxy:
    """ε/θ on θ in [0, π], to 1e-12 (1e-11 at k = 1000); smooth, and so continued to 0."""
    u, y, weight = _rule(k)

    def ratio(theta: float) -> float:
        """The complement integral in (u, y), v = ρu + σy."""
        rho, sigma = math.cos(theta), math.sin(theta)
        both = corner_cdf(u, rho * u + sigma * y, y, sigma * u - rho * y)
        lost = np.clip(1 - both / ndtr(u), 0.0, 1.0)  # D/A
        with np.errstate(divide="ignore"):
            wrong = -np.expm1((k - 1) * np.log1p(-lost))
        return float(weight @ wrong) / theta

    ratios = np.vectorize(ratio, otypes=[float])
    return chebyshev_proxy(ratios, 1e-3, math.pi, tol=1e-12, start=33, max_points=65)


def _rule(k: int) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Nodes (u, y) and weights (n,) of the trapezoidal rule, where the density of both counts.

    k φ Φ^{k−1} steepens slowly with k, and the step with it.
    """
    step = 0.38 / (1 + 0.4 * math.log(max(k, 4) / 4))
    grid = (np.arange(math.floor(-9 / step), math.ceil(9 / step)) + 0.37) * step  # never 0
    log_weight = (-0.5 * grid**2 + (k - 1) * log_ndtr(grid))[:, None] - 0.5 * grid**2
    i, j = np.nonzero(log_weight > log_weight.max() - 36)
    return grid[i], grid[j], np.exp(log_weight[i, j]) * (k * step * step / (2 * math.pi))


def margin_exceeds(channel: Channel, n_classes: int, tau: float, x: float) -> float | None:
    """P(margin > x), x in units of √q; None where the channel has no form of its own."""
    if channel.utility_tau(tau) is None:
        return channel.utility_lead(tau, n_classes, x)

    def exceeds(tau: float) -> float:
        u, v, weight = _plane(tau, n_classes)
        return float(weight @ (_both_below(u, v - x, tau) / ndtr(u)) ** (n_classes - 1))

    return _mixed(channel, n_classes, tau, exceeds)


def margin_density(channel: Channel, n_classes: int, tau: float, x: AnyArray) -> AnyArray | None:
    """The margin's density at each x (n,), in units of √q; None without Gaussian utilities."""
    k = n_classes

    def density(tau: float) -> AnyArray:
        u, v, weight = _plane(tau, k)
        out, weight = np.empty(len(x)), weight / ndtr(u) ** (k - 1) / math.sqrt(2 * math.pi)
        for i, shift in enumerate(x):
            low = v - shift
            last = np.exp(-0.5 * low * low) * ndtr(math.hypot(1.0, tau) * u - tau * low)
            rest = _both_below(u, low, tau) ** (k - 2) if k > 2 else 1.0
            out[i] = (k - 1) * float(weight @ (last * rest))
        return out

    return _mixed(channel, k, tau, density)


def _mixed(channel: Channel, n_classes: int, tau: float, of_tau: Callable[[float], Any]) -> Any:
    seen = channel.utility_tau(tau)
    if seen is None:
        return None
    guessed = n_classes * channel.guess(n_classes)
    if guessed == 0:
        return of_tau(seen)
    return (1 - guessed) * of_tau(seen) + guessed * of_tau(0.0)


def _plane(tau: float, k: int) -> tuple[AnyArray, AnyArray, AnyArray]:
    """u, v and the weight k φ₂ A^{k−1} of the trapezoidal rule."""
    u, y, weight = _rule(k)
    return u, (tau * u + y) / math.hypot(1.0, tau), weight


def _both_below(u: AnyArray, v: AnyArray, tau: float) -> AnyArray:
    """Φ₂(u, v; ρ), with ρ/σ = τ and 1/σ = √(1+τ²)."""
    inverse = math.hypot(1.0, tau)
    return np.clip(corner_cdf(u, v, inverse * v - tau * u, inverse * u - tau * v), 0.0, 1.0)
