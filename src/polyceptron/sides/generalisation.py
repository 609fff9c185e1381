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

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr, ndtr

from polyceptron.checks import as_numbers, check_classes
from polyceptron.errors import InvalidInput
from polyceptron.numerics import AnyArray, Array
from polyceptron.numerics.bivariate import corner_cdf
from polyceptron.numerics.special import ChebyshevProxy, chebyshev_proxy
from polyceptron.problem.channels import Channel, as_channel

ALIGNED_TAU = 1e14  # τ that stands for ρ = 1

FloatOrArray = TypeVar("FloatOrArray", float, Array)


@overload
def generalisation_error(
    correlation: float, n_classes: int, noise: str | Channel = "none"
) -> float: ...
@overload
def generalisation_error(
    correlation: AnyArray | Sequence[float], n_classes: int, noise: str | Channel = "none"
) -> AnyArray: ...
def generalisation_error(
    correlation: ArrayLike, n_classes: int, noise: str | Channel = "none"
) -> float | AnyArray:
    """Return ε(ρ) on labels as they are drawn; at ρ = 1 the error of the teacher itself.

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
        # Clipped: there is rounding at ρ = −1.
        value = np.clip(error_from_angle(np.arccos(rho), n_classes), 0.0, 1.0)
    else:
        residual = np.sqrt(np.maximum(1 - rho**2, ALIGNED_TAU**-2))
        tau = np.clip(rho / residual, -ALIGNED_TAU, ALIGNED_TAU)
        value = error_on_labels(channel, tau, n_classes)
    if rho.ndim == 0:
        return float(value)
    return value


def error_from_angle(theta: ArrayLike, n_classes: int) -> AnyArray:
    """Return ε at θ = arccos ρ, in its shape, with relative precision also when ρ is close to 1."""
    k = check_classes(n_classes)
    theta = np.asarray(theta, dtype=float)
    if k == 2:
        return theta / math.pi
    return theta * _error_per_angle(k)(theta)


def error_on_labels(channel: Channel, tau: ArrayLike, n_classes: int) -> AnyArray:
    """Return ε on labels as the channel draws them, at τ = ρ/√(1−ρ²), in the shape of τ."""
    return channel.drawn_error(tau, n_classes, lambda t: error_at_tau(t, n_classes))


def error_slope(channel: Channel, tau: float, n_classes: int) -> float:
    """Return |dε/d ln τ| on labels as drawn, by a central difference."""
    step = float(np.cbrt(np.finfo(float).eps))
    low, high = error_on_labels(channel, tau * np.exp(np.array([-step, step])), n_classes)
    return abs(float(high - low)) / (2 * step)


def error_floor(channel: Channel, n_classes: int) -> float:
    """Return ε on labels as drawn of the teacher itself, ρ = 1: 0 without noise."""
    if channel.noiseless:
        return 0.0
    return float(error_on_labels(channel, ALIGNED_TAU, n_classes))


def error_at_tau(tau: ArrayLike, n_classes: int) -> AnyArray:
    """Return ε against the noiseless rule at τ, in its shape, accurate as τ → ∞."""
    return error_from_angle(np.arctan2(1.0, np.asarray(tau, dtype=float)), n_classes)


def angle(complement: ArrayLike) -> AnyArray:
    """Return θ = arccos √q from 1 − q, in its shape, accurate as q → 1."""
    v = np.asarray(complement, dtype=float)
    return np.arctan2(np.sqrt(v), np.sqrt(np.maximum(1 - v, 0.0)))


@lru_cache(maxsize=256)
def _error_per_angle(k: int) -> ChebyshevProxy:
    """Return ε/θ on θ in [0, π], to 1e-12 (1e-11 at k = 1000); smooth, and so continued to 0."""
    u, y, weight = _trapezoidal_rule(k)

    def complement(theta: float) -> float:
        """Return the integral of the complement over (u, y), v = ρu + σy."""
        rho = math.cos(theta)
        sigma = math.sin(theta)
        both_below = corner_cdf(u, rho * u + sigma * y, y, sigma * u - rho * y)
        lost = np.clip(1 - both_below / ndtr(u), 0.0, 1.0)  # D/A
        with np.errstate(divide="ignore"):
            wrong = -np.expm1((k - 1) * np.log1p(-lost))
        return float(weight @ wrong) / theta

    of_array = np.vectorize(complement, otypes=[float])
    return chebyshev_proxy(of_array, 1e-3, math.pi, tol=1e-12, start=33, max_points=65)


def _trapezoidal_rule(k: int) -> tuple[Array, Array, Array]:
    """Return nodes (u, y) and weights (n,) where the density of both counts.

    k φ Φ^{k−1} steepens slowly with k, and the step with it. No node is at 0.
    """
    step = 0.38 / (1 + 0.4 * math.log(max(k, 4) / 4))
    indices = np.arange(math.floor(-9 / step), math.ceil(9 / step))
    grid = np.asarray((indices + 0.37) * step, float)
    log_weight = (-0.5 * grid**2 + (k - 1) * log_ndtr(grid))[:, None] - 0.5 * grid**2
    i, j = np.nonzero(log_weight > log_weight.max() - 36)
    weight: Array = np.exp(log_weight[i, j]) * (k * step * step / (2 * math.pi))
    return grid[i], grid[j], weight


def margin_exceeds(channel: Channel, n_classes: int, tau: float, x: float) -> float | None:
    """Return P(margin > x), x in units of √q; None where the channel has no form of its own."""
    tau_of_utilities = channel.utility_tau(tau)
    if tau_of_utilities is None:
        return channel.utility_lead(tau, n_classes, x)

    def exceeds(tau: float) -> float:
        """Return P(margin > x) at τ."""
        u, v, weight = _correlated_rule(tau, n_classes)
        return float(weight @ (_both_below(u, v - x, tau) / ndtr(u)) ** (n_classes - 1))

    return _with_guesses(channel, n_classes, tau_of_utilities, exceeds)


def margin_density(channel: Channel, n_classes: int, tau: float, x: Array) -> Array | None:
    """Return the margin's density at each x (n,), in units of √q; None without Gaussian utilities.

    See the module's formulas.
    """
    k = n_classes
    tau_of_utilities = channel.utility_tau(tau)
    if tau_of_utilities is None:
        return None

    def density(tau: float) -> Array:
        """Return the density of the margin at x (n,), for τ."""
        u, v, weight = _correlated_rule(tau, k)
        weight = weight / ndtr(u) ** (k - 1) / math.sqrt(2 * math.pi)
        values = np.empty(len(x))
        for i, shift in enumerate(x):
            low = v - shift
            nearest = np.exp(-0.5 * low * low) * ndtr(math.hypot(1.0, tau) * u - tau * low)
            if k > 2:
                nearest = nearest * _both_below(u, low, tau) ** (k - 2)
            values[i] = (k - 1) * float(weight @ nearest)
        return values

    return _with_guesses(channel, k, tau_of_utilities, density)


def _with_guesses(
    channel: Channel, n_classes: int, tau: float, of_tau: Callable[[float], FloatOrArray]
) -> FloatOrArray:
    """Return the mean of f(τ) over labels by the utilities and labels by a guess, τ = 0."""
    guessed = n_classes * channel.guess(n_classes)
    if guessed == 0:
        return of_tau(tau)
    return (1 - guessed) * of_tau(tau) + guessed * of_tau(0.0)


def _correlated_rule(tau: float, k: int) -> tuple[Array, Array, Array]:
    """Return u, v and the weights k φ₂ A^{k−1} of the trapezoidal rule, (n,) each."""
    u, y, weight = _trapezoidal_rule(k)
    return u, (tau * u + y) / math.hypot(1.0, tau), weight


def _both_below(u: Array, v: Array, tau: float) -> Array:
    """Return Φ₂(u, v; ρ) (n,), with ρ/σ = τ and 1/σ = √(1+τ²)."""
    inverse = math.hypot(1.0, tau)
    return np.clip(corner_cdf(u, v, inverse * v - tau * u, inverse * u - tau * v), 0.0, 1.0)
