"""The square loss in closed form, for any k, channel, α, λ and spectrum of the features.

With c the channel's signal (E[max of k normals]/(k−1) without noise) and σ² = 1/k − c² the part of
the label that no linear rule explains, the ridge κ = λ(1+V)/α that is left after n samples solves

    λ/κ + ⟨s/(κ+s)⟩ = α,      and with x = s/(κ+s), A = ⟨x²⟩/α,

    m = c⟨sθx⟩,   q − m² = (c²(⟨sθx²⟩ − ⟨sθx⟩²) + A(1/k − 2mc + m²))/(1 − A)

Independent features (s = θ = 1): a quadratic equation for κ, or λV² + (λ + α − 1)V − 1 = 0, with
m = αcV/(1+V), and the best ridge is λ = σ²/c² at every α.

λ → 0⁺ is an equation like any other: κ > 0 below α = rank, where labels are interpolated with least
norm, and 0 above. At α = rank q diverges while m stays finite: ρ → 0, the error of a random guess.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from polyceptron.numerics import Array
from polyceptron.problem.channels import Channel
from polyceptron.problem.order import Conjugates, ScalarOrder
from polyceptron.problem.spectrum import Spectrum
from polyceptron.rows import Status
from polyceptron.sides.generalisation import error_on_labels, error_slope
from polyceptron.sides.scalar import Problem
from polyceptron.solve.minimise import Minimum, Trial, minimise
from polyceptron.theory.erm.point import ErmFixedPoint, point_at

CLOSED_FORM_BAR = 1e-12  # rounding of every number


def best_square_ridge(
    channel: Channel, n_classes: int, alpha: float = 1.0, spectrum: Spectrum | None = None
) -> float:
    """Return the best ridge: σ²/c² = 1/(kc²) − 1 at every α, or a search over a spectrum.

    Correlated features may have their least error at a ridge of 0.
    """
    signal = channel.signal(n_classes)
    if spectrum is None or spectrum.isotropic:
        return 1 / (n_classes * signal**2) - 1
    return _best_of_spectrum(n_classes, signal, alpha, spectrum).parameter


def _best_of_spectrum(n_classes: int, signal: float, alpha: float, spectrum: Spectrum) -> Minimum:
    """Return the least −ln τ over λ: directions of different strength may each have a valley."""

    def trial(ridge: float) -> Trial:
        """Return −ln τ at a ridge, which is least where the error is."""
        order = solve_square(n_classes, signal, alpha, ridge, spectrum).order
        if order.tau > 0:
            return Trial(-math.log(order.tau))
        return Trial(math.inf)

    scan = tuple(np.geomspace(1e-12, 1e12, 121).tolist())
    rounding_of_log_tau = 1e-12
    found = minimise(
        trial, 1.0, rounding_of_log_tau, range_=(1e-13, 1e13), limit_at_zero=True, scan=scan
    )
    assert found is not None  # every λ > 0 has a solution
    return found


def best_square_point(problem: Problem) -> ErmFixedPoint:
    """Return the fixed point at the ridge of least error; its bar counts what is left open."""
    k = problem.n_classes
    channel = problem.channel
    spectrum = problem.weights.spectrum
    if spectrum.isotropic:
        return square_fixed_point(problem.at_ridge(best_square_ridge(channel, k)))
    best = _best_of_spectrum(k, channel.signal(k), problem.alpha, spectrum)
    point = square_fixed_point(problem.at_ridge(best.parameter))
    left_open = best.left_open * error_slope(channel, point.tau, k)
    return replace(point, uncertainty=point.uncertainty + left_open)


class SquareSolution(NamedTuple):
    """The order parameters (τ, q, V) of the square loss, and m, which is finite where q is not."""

    order: ScalarOrder
    m: float


def solve_square(
    n_classes: int, signal: float, alpha: float, ridge: float, spectrum: Spectrum
) -> SquareSolution:
    """Return the solution at λ > 0, or in the limit λ → 0⁺.

    Up to α = rank V is infinite in this limit, and at α = rank q is.

    Parameters
    ----------
    n_classes : int
    signal : float
        c.
    alpha, ridge : float
    spectrum : Spectrum
    """
    c = signal
    kappa = remaining_ridge(spectrum, alpha, ridge)
    s, by_field = spectrum.field_quadrature
    m = c * float(by_field @ (s / (kappa + s)))
    spread = _spread_of_shrinkage(s, by_field, kappa)
    s, by_feature = spectrum.feature_quadrature
    x = s / (kappa + s)
    unexplained = alpha * c**2 * spread + float(by_feature @ x**2) * (
        1 / n_classes - 2 * m * c + m**2
    )
    # α(1 − A) from κ's equation, without cancellation.
    remaining = float(by_feature @ (s * kappa / (kappa + s) ** 2))
    if ridge > 0:
        remaining += ridge / kappa
    if kappa == 0:
        remaining += alpha - spectrum.rank
    residual = math.inf  # q − m²
    if remaining > 0:
        residual = unexplained / remaining
    if ridge > 0:
        V = kappa / ridge * float(by_feature @ x)
    elif alpha <= spectrum.rank:
        V = math.inf
    else:
        V = spectrum.rank / (alpha - spectrum.rank)
    return SquareSolution(ScalarOrder(m / math.sqrt(residual), m * m + residual, V), m)


def _spread_of_shrinkage(s: Array, fraction: Array, kappa: float) -> float:
    """Return ⟨x²⟩ − ⟨x⟩² of x = s/(κ+s), from differences to the mean of s that do not cancel."""
    if kappa == 0:
        return 0.0
    mean_s = float(fraction @ s)
    difference = kappa * (s - mean_s) / ((kappa + s) * (kappa + mean_s))
    return float(fraction @ (difference - float(fraction @ difference)) ** 2)


def remaining_ridge(spectrum: Spectrum, alpha: float, ridge: float) -> float:
    """Return κ with λ/κ + ⟨s/(κ+s)⟩ = α; at λ = 0 it is 0 from α = rank on."""
    if ridge == 0 and alpha >= spectrum.rank:
        return 0.0
    if spectrum.isotropic:
        # ακ² + bκ − λ = 0: take the root that does not subtract equal numbers.
        b = alpha - 1 - ridge
        discriminant_root = math.hypot(b, 2 * math.sqrt(alpha * ridge))
        if b > 0:
            return 2 * ridge / (b + discriminant_root)
        return (discriminant_root - b) / (2 * alpha)
    s, fraction = spectrum.feature_quadrature
    low = ridge / alpha
    if ridge == 0:
        low = float(spectrum.eigenvalues.min()) * (spectrum.rank / alpha - 1)
    high = (ridge + 1) / alpha

    def excess(log_kappa: float) -> float:
        """Return by how much the equation of κ is missed."""
        kappa = math.exp(log_kappa)
        return ridge / kappa + float(fraction @ (s / (kappa + s))) - alpha

    rounding = 1e-9  # of the ends, at which κ may lie
    log_kappa = brentq(
        excess, math.log(low) - rounding, math.log(high) + rounding, xtol=1e-15, rtol=1e-15
    )
    return math.exp(float(log_kappa))


def square_fixed_point(problem: Problem) -> ErmFixedPoint:
    """Return all that is reported, at the problem's ridge."""
    k = problem.n_classes
    alpha = problem.alpha
    signal = problem.channel.signal(k)
    solution = solve_square(k, signal, alpha, problem.ridge, problem.weights.spectrum)
    order = solution.order
    bar = CLOSED_FORM_BAR + problem.channel.accuracy
    mistakes = problem.training_error(order)
    # The training error is 1 minus a double integral.
    mistakes_bar = 9 * CLOSED_FORM_BAR + bar
    if mistakes is None:
        mistakes = math.nan
        mistakes_bar = math.nan
    status = Status.DIVERGES
    if math.isfinite(order.q):
        status = Status.OK
    return replace(
        point_at(problem, order, _conjugates(k, signal, alpha, solution)),
        m=solution.m,  # also where q diverges
        generalisation_error=float(error_on_labels(problem.channel, order.tau, k)),
        uncertainty=bar,
        training_loss=square_training_loss(problem, order),
        training_loss_uncertainty=bar,
        training_error=mistakes,
        training_error_uncertainty=mistakes_bar,
        status=status,
    )


def _conjugates(k: int, signal: float, alpha: float, solution: SquareSolution) -> Conjugates:
    """Return m̂, q̂ and V̂; where V is infinite nothing pulls any more."""
    order, m = solution
    shrink = 1 / (1 + order.V)
    if math.isinf(order.V):
        return Conjugates(0.0, 0.0, alpha * shrink)
    Q = (1 / k - 2 * m * signal + order.q) * shrink**2
    return Conjugates(alpha * signal * shrink, alpha * Q, alpha * shrink)


def square_training_loss(problem: Problem, order: ScalarOrder) -> float:
    """Return E ‖z − e_y‖²/2 over training samples, all k coordinates, at the proximal point.

    On 1⊥ it is r Q/2. Along (1, …, 1) the target is the constant 1/√k: inputs of mean 0 carry
    nothing of it, so that the equations are the same with c = 0, m₁ = 0 and q₁ = x(1/k + q₁), where
    x is the norm that unit noise leaves, times α/(1+V)².
    """
    if math.isinf(order.V):
        return 0.0
    averages = problem.fields.explicit(order)
    if averages is None:
        return math.nan
    k = problem.n_classes
    shrink_squared = 1 / (1 + order.V) ** 2
    V_hat = float(averages.C[0]) * problem.alpha
    norm_of_noise = problem.weights(Conjugates(0.0, 1.0, V_hat)).q
    along_ones = shrink_squared / (k * (1 - problem.alpha * shrink_squared * norm_of_noise))
    return ((k - 1) * float(averages.Q[0]) + along_ones) / 2
