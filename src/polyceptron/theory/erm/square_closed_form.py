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

import math
from dataclasses import replace

import numpy as np
from scipy.optimize import brentq

from polyceptron.problem.channels import Channel
from polyceptron.problem.order import Conjugates, ScalarOrder
from polyceptron.problem.spectrum import Spectrum
from polyceptron.rows import Status
from polyceptron.sides.generalisation import error_on_labels, error_slope
from polyceptron.sides.scalar import Problem
from polyceptron.solve.minimise import Minimum, Trial, minimise
from polyceptron.theory.erm.point import ErmFixedPoint, point_at

CLOSED_FORM_BAR = 1e-12  # rounding of every number
MISTAKES_BAR = 9e-12  # of the training error, 1 minus a double integral
LN_TAU_TOLERANCE = 1e-12  # of the search for the best ridge: ε moves by less than its rounding


def best_square_ridge(
    channel: Channel, n_classes: int, alpha: float = 1.0, spectrum: Spectrum | None = None
) -> float:
    """λ = σ²/c² = 1/(k c²) − 1 at every α; of correlated features by a search, and it may be 0."""
    signal = channel.signal(n_classes)
    if spectrum is None or spectrum.isotropic:
        return 1 / (n_classes * signal**2) - 1
    return _best_of_spectrum(n_classes, signal, alpha, spectrum).parameter


def _best_of_spectrum(n_classes: int, signal: float, alpha: float, spectrum: Spectrum) -> Minimum:
    """The least −ln τ over λ: directions of different strength may each have a valley."""

    def trial(ridge: float) -> Trial:
        law, _ = solve_square(n_classes, signal, alpha, ridge, spectrum)
        return Trial(-math.log(law.tau) if law.tau > 0 else math.inf)

    scan = tuple(float(ridge) for ridge in np.geomspace(1e-12, 1e12, 121))
    found = minimise(
        trial, 1.0, LN_TAU_TOLERANCE, range_=(1e-13, 1e13), limit_at_zero=True, scan=scan
    )
    assert found is not None  # every λ > 0 has a solution
    return found


def best_square_point(problem: Problem) -> ErmFixedPoint:
    """The fixed point at the ridge of least error; the uncertainty counts what is left open."""
    k = problem.n_classes
    channel = problem.channel
    spectrum = problem.weights.spectrum
    if spectrum.isotropic:
        return square_fixed_point(problem.at_ridge(best_square_ridge(channel, k)))
    found = _best_of_spectrum(k, channel.signal(k), problem.alpha, spectrum)
    point = square_fixed_point(problem.at_ridge(found.parameter))
    left_open = found.left_open * error_slope(channel, point.tau, k)
    return replace(point, uncertainty=point.uncertainty + left_open)


def solve_square(
    n_classes: int, signal: float, alpha: float, ridge: float, spectrum: Spectrum
) -> tuple[ScalarOrder, float]:
    """The law at λ > 0 or in the limit λ → 0⁺ (V = ∞ up to α = rank, where q = ∞), and m."""
    c, rank, kappa = signal, spectrum.rank, remaining_ridge(spectrum, alpha, ridge)
    s, field = spectrum.by_field
    m = c * float(field @ (s / (kappa + s)))
    middle = float(field @ s)
    apart = kappa * (s - middle) / ((kappa + s) * (kappa + middle)) if kappa > 0 else 0 * s
    spread = float(field @ (apart - float(field @ apart)) ** 2)
    s, fraction = spectrum.by_feature
    x = s / (kappa + s)
    norm, response = float(fraction @ x**2), float(fraction @ x)
    # α(1 − A) from κ's equation, without cancellation.
    left = (ridge / kappa if ridge > 0 else 0.0) + float(fraction @ (s * kappa / (kappa + s) ** 2))
    left += alpha - rank if kappa == 0 else 0.0
    rest = alpha * c**2 * spread + norm * (1 / n_classes - 2 * m * c + m**2)
    rest = rest / left if left > 0 else math.inf
    if ridge > 0:
        V = kappa / ridge * response
    else:
        V = math.inf if alpha <= rank else rank / (alpha - rank)
    return ScalarOrder(m / math.sqrt(rest), m * m + rest, V), m


def remaining_ridge(spectrum: Spectrum, alpha: float, ridge: float) -> float:
    """κ with λ/κ + ⟨s/(κ+s)⟩ = α; 0 at λ = 0 where there are enough samples, α ≥ rank."""
    if ridge == 0 and alpha >= spectrum.rank:
        return 0.0
    if spectrum.isotropic:  # ακ² + bκ − λ = 0: the root that does not subtract equal numbers
        b = alpha - 1 - ridge
        root = math.hypot(b, 2 * math.sqrt(alpha * ridge))
        return 2 * ridge / (b + root) if b > 0 else (root - b) / (2 * alpha)
    s, fraction = spectrum.by_feature
    low, high = ridge / alpha, (ridge + 1) / alpha
    if ridge == 0:
        low = float(spectrum.eigenvalues.min()) * (spectrum.rank / alpha - 1)

    def excess(log_kappa: float) -> float:
        kappa = math.exp(log_kappa)
        return ridge / kappa + float(fraction @ (s / (kappa + s))) - alpha

    ends = math.log(low) - 1e-9, math.log(high) + 1e-9
    return math.exp(float(brentq(excess, *ends, xtol=1e-15, rtol=1e-15)))


def square_fixed_point(problem: Problem) -> ErmFixedPoint:
    """All that is reported, at the problem's ridge."""
    k, alpha = problem.n_classes, problem.alpha
    signal = problem.channel.signal(k)
    law, m = solve_square(k, signal, alpha, problem.ridge, problem.weights.spectrum)
    shrink = 1 / (1 + law.V)
    hats = Conjugates(0.0, 0.0, alpha * shrink)
    if math.isfinite(law.V):
        Q = (1 / k - 2 * m * signal + law.q) * shrink**2
        hats = Conjugates(alpha * signal * shrink, alpha * Q, alpha * shrink)
    mistakes = problem.training_error(law)
    bar = CLOSED_FORM_BAR + problem.channel.accuracy
    mistakes_bar = MISTAKES_BAR + bar
    if mistakes is None:
        mistakes = math.nan
        mistakes_bar = math.nan
    return replace(
        point_at(problem, law, hats),
        m=m,  # also where q diverges
        generalisation_error=float(error_on_labels(problem.channel, law.tau, k)),
        uncertainty=bar,
        training_loss=square_training_loss(problem, law),
        training_loss_uncertainty=bar,
        training_error=mistakes,
        training_error_uncertainty=mistakes_bar,
        status=Status.OK if math.isfinite(law.q) else Status.DIVERGES,
    )


def square_training_loss(problem: Problem, law: ScalarOrder) -> float:
    """E ‖z − e_y‖²/2 over training samples, all k coordinates, at the proximal point.

    On 1⊥ it is r Q/2. Along (1, …, 1) the target is the constant 1/√k: inputs of mean 0 carry
    nothing of it, so that the equations are the same with c = 0, m₁ = 0 and q₁ = x(1/k + q₁), where
    x is the norm that unit noise leaves, times α/(1+V)².
    """
    if math.isinf(law.V):
        return 0.0
    averages = problem.fields.explicit(law)
    if averages is None:
        return math.nan
    k, shrink = problem.n_classes, 1 / (1 + law.V) ** 2
    noise = problem.weights(Conjugates(0.0, 1.0, float(averages.C[0]) * problem.alpha)).q
    along = shrink / (k * (1 - problem.alpha * shrink * noise))
    return ((k - 1) * float(averages.Q[0]) + along) / 2
