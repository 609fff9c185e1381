"""The square loss in closed form, for any k, channel, α and λ; one scalar equation for a spectrum.

With c the channel's signal (E[max of k normals]/(k−1) without noise), s² = 1/k and σ² = s² − c²
(the part of the label that no linear rule explains), V solves λV² + (λ + α − 1)V − 1 = 0 and

    m = αcV/(1+V),   A = αV²/(1+V)²,   q = (m² + A(s² − 2mc))/(1 − A).

The best ridge is λ = σ²/c² at every α. As λ → 0⁺ (minimum-norm interpolation below α = 1) the norm
diverges at α = 1 while m stays finite: there ρ → 0 and the error tends to that of a random guess.

Correlated features: the ridge that is left after n samples, κ = λ(1+V)/α, solves

    λ/κ + ⟨s/(κ+s)⟩ = α,      and with x = s/(κ+s), A = ⟨x²⟩/α,

    m = c⟨sθx⟩,   q − m² = (c²(⟨sθx²⟩ − ⟨sθx⟩²) + A(s² − 2mc + m²))/(1 − A)

in which λ → 0⁺ is an equation like any other: κ > 0 below α = rank, 0 above.

The fixed point of the square loss with its errors, all in closed form.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from polyceptron.model.channels import Channel
from polyceptron.model.features import Spectrum
from polyceptron.model.law import Hats, Law
from polyceptron.rows import Status
from polyceptron.theory.erm.solution import ErmFixedPoint
from polyceptron.theory.erm.training import square_training_loss, training_error
from polyceptron.theory.generalisation import error_at_tau, error_on_labels
from polyceptron.theory.sides import Problem


class SquareSolution(NamedTuple):
    """The fixed point; at λ → 0⁺ and α < 1, V is infinite and `scaled_V` = λV stays finite."""

    m: float
    q: float
    V: float
    scaled_V: float
    tau: float


def best_square_ridge(
    channel: Channel, n_classes: int, alpha: float = 1.0, spectrum: Spectrum | None = None
) -> float:
    """λ = σ²/c² = 1/(k c²) − 1, the same at every α; correlated features need a search in κ.

    There it can be 0: the small eigenvalues regularise the large ones by themselves.

    >>> from polyceptron.model import GaussianNoise
    >>> bool(abs(best_square_ridge(GaussianNoise(), 2) - (math.pi / 2 - 1)) < 1e-12)
    True
    """
    c = channel.signal(n_classes)
    if spectrum is None or spectrum.isotropic:
        return 1 / (n_classes * c**2) - 1
    tau = [0.0, *(10 ** np.linspace(-12, 6, 91))]
    grid = [-solve_square(n_classes, c, alpha, ridge, spectrum).tau for ridge in tau]
    best = int(np.argmin(grid))
    if best == 0:
        return 0.0
    found = minimize_scalar(
        lambda x: -math.log(solve_square(n_classes, c, alpha, math.exp(x), spectrum).tau),
        bounds=(math.log(max(tau[best - 1], 1e-13)), math.log(tau[min(best + 1, len(tau) - 1)])),
        method="bounded",
        options={"xatol": 1e-9},
    )
    return math.exp(float(found.x))


def solve_square(
    n_classes: int, signal: float, alpha: float, ridge: float, spectrum: Spectrum | None = None
) -> SquareSolution:
    """The fixed point at λ > 0, or its limit λ → 0⁺ (infinite q at α = 1)."""
    if spectrum is not None and not spectrum.isotropic:
        return _on_levels(n_classes, signal, alpha, ridge, spectrum)
    c, s2 = signal, 1 / n_classes
    if ridge == 0 and alpha <= 1:
        m = alpha * c
        q = alpha * (s2 - alpha * c**2) / (1 - alpha) if alpha < 1 else math.inf
        V, scaled, ratio = math.inf, 1 - alpha, alpha / (1 - alpha) if alpha < 1 else math.inf
    elif ridge == 0:
        V, scaled, ratio = 1 / (alpha - 1), 0.0, 1 / (alpha - 1)
        m, q = c, c**2 + (s2 - c**2) / (alpha - 1)
    else:
        b = ridge + alpha - 1
        root = math.hypot(b, 2 * math.sqrt(ridge))
        # The root that does not subtract nearly equal numbers.
        V = 2 / (b + root) if b > 0 else (root - b) / (2 * ridge)
        m = alpha * c * V / (1 + V)
        A = alpha * (V / (1 + V)) ** 2
        # 1 − A from V's equation, α = (1 + V)(1 − λV)/V, without cancellation as α → 1, λ → 0.
        left = (1 + ridge * V**2) / (1 + V)
        q, scaled, ratio = (m**2 + A * (s2 - 2 * m * c)) / left, ridge * V, A / left
    # q − m² without cancellation: (A/(1−A))(s² − 2mc + m²).
    rest = ratio * (s2 - 2 * m * c + m**2)
    return SquareSolution(m, q, V, scaled, m / math.sqrt(rest) if rest < math.inf else 0.0)


def _on_levels(
    n_classes: int, c: float, alpha: float, ridge: float, spectrum: Spectrum
) -> SquareSolution:
    """The fixed point of a spectrum, from the ridge κ that is left."""
    rank, kappa = spectrum.rank, remaining_ridge(spectrum, alpha, ridge)
    s, signal = spectrum.by_field
    m = c * float(signal @ (s / (kappa + s)))
    middle = float(signal @ s)
    apart = kappa * (s - middle) / ((kappa + s) * (kappa + middle)) if kappa > 0 else 0 * s
    apart = apart - float(signal @ apart)
    spread = float(signal @ apart**2)
    s, fraction = spectrum.by_feature
    x = s / (kappa + s)
    norm = float(fraction @ x**2)
    # α(1 − A) from κ's equation, without cancellation.
    left = (ridge / kappa if ridge > 0 else 0.0) + float(fraction @ (s * kappa / (kappa + s) ** 2))
    left += alpha - rank if kappa == 0 else 0.0
    rest = alpha * c**2 * spread + norm * (1 / n_classes - 2 * m * c + m**2)
    rest = rest / left if left > 0 else math.inf
    if ridge > 0:
        V = kappa / ridge * float(fraction @ x)
    else:
        V = math.inf if kappa > 0 or alpha <= rank else rank / (alpha - rank)
    tau = m / math.sqrt(rest) if rest < math.inf else 0.0
    scaled = kappa * float(fraction @ x) if ridge == 0 else ridge * V
    return SquareSolution(m, m * m + rest, V, scaled, tau)


def remaining_ridge(spectrum: Spectrum, alpha: float, ridge: float) -> float:
    """κ with λ/κ + ⟨s/(κ+s)⟩ = α; 0 at λ = 0 where there are enough samples, α ≥ rank."""
    s, fraction = spectrum.by_feature
    low, high = ridge / alpha, (ridge + 1) / alpha
    if ridge == 0:
        if alpha >= spectrum.rank:
            return 0.0
        low = float(spectrum.eigenvalues.min()) * (spectrum.rank / alpha - 1)

    def excess(log_kappa: float) -> float:
        kappa = math.exp(log_kappa)
        return ridge / kappa + float(fraction @ (s / (kappa + s))) - alpha

    ends = math.log(low) - 1e-9, math.log(high) + 1e-9
    return math.exp(float(brentq(excess, *ends, xtol=1e-15, rtol=1e-15)))


CLOSED_FORM = 1e-12  # what rounding leaves of a closed form


def square_fixed_point(problem: Problem) -> ErmFixedPoint:
    """All that is reported, at the problem's ridge."""
    k, alpha = problem.n_classes, problem.alpha
    signal = problem.channel.signal(k)
    m, q, V, _, tau = solve_square(k, signal, alpha, problem.ridge, problem.spectrum)
    law = Law(tau, q, V)
    hats = Hats(0.0, 0.0, alpha / (1 + V))
    if math.isfinite(V):
        shrink = 1 / (1 + V)
        Q = (1 / k - 2 * m * signal + q) * shrink**2
        hats = Hats(alpha * signal * shrink, alpha * Q, alpha * shrink)
    mistakes = training_error(problem, law)
    spread = math.nan if mistakes is None else 1e-11 + problem.channel.accuracy
    return ErmFixedPoint(
        n_classes=k,
        ridge=problem.ridge,
        alpha=alpha,
        m=m,
        q=q,
        V=V,
        m_hat=hats.m,
        q_hat=hats.q,
        V_hat=hats.V,
        generalisation_error=float(error_on_labels(problem.channel, tau, k)),
        uncertainty=CLOSED_FORM + problem.channel.accuracy,
        clean_error=float(error_at_tau(tau, k)),
        training_loss=square_training_loss(problem, law),
        training_loss_uncertainty=CLOSED_FORM + problem.channel.accuracy,
        training_error=math.nan if mistakes is None else mistakes,
        training_error_uncertainty=spread,
        status=Status.OK if math.isfinite(q) else Status.DIVERGES,
        tau=tau,
        theta=np.zeros(0),
        jacobian=np.eye(0),
    )
