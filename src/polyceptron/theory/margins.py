"""The law of the margin z_y − max_{h≠y} z_h, on fresh samples and on training samples.

On a fresh sample the fields are ω, on a training sample prox_{Vℓ(·,y)}(ω) (theorem 1): a training
sample has pulled its own fields towards a small loss. In the gaps G of the proximal point the
student's gaps are explicit, ω = z + V∇ℓ(z), so with two or three classes the density of a training
margin is a value or one integral,

    p(G₁) = ∫ dG₂ p(g(G)) Z(g(G)) det(I + VH(G)).

A hard margin lifts every smaller one to it, an atom, and a loss with a kink some of them. With four
classes or more fresh margins are a double integral, and training margins a weighted average over
quasi-random points. Classes that are not alike: `matrix_margins.py`.

The bar of a density has two parts: the rule's own (two levels of panels, or the spread of
replicates), and how far the density moves within the bars of the fixed point.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from polyceptron.checks import as_numbers, difference_basis
from polyceptron.display import ShortDisplay
from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.numerics import Array
from polyceptron.numerics.estimate import N_REPLICATES, Estimate, estimate_from_replicates
from polyceptron.numerics.panels import panel_rule
from polyceptron.problem.order import ScalarOrder
from polyceptron.problem.populations import AnyTeacher, Mixture, Population
from polyceptron.problem.specs import ERM, Estimator, as_erm
from polyceptron.sides.fields.integrand import PanelsThree, PanelsTwo, field_scales, ordered_density
from polyceptron.sides.fields.points import boundary_points
from polyceptron.sides.generalisation import error_slope, margin_density, margin_exceeds
from polyceptron.sides.scalar import PROBABILITY_ROUNDING, Problem, erm_sides
from polyceptron.theory.erm.fixed_point import erm_fixed_point
from polyceptron.theory.erm.point import ErmFixedPoint
from polyceptron.theory.erm.population_point import PopulationPoint
from polyceptron.theory.erm.unequal_classes import matrix_problem
from polyceptron.theory.matrix_margins import (
    DENSITY_ROUNDING,
    MarginDensities,
    Margins,
    matrix_margins,
    shared,
    widened,
)
from polyceptron.theory.separability import loss_at_ridge

WIDTH_OF_AN_ATOM = 1e-9  # a margin as close as this to an atom is on it
BOUNDARY_LEVEL = 3  # of random points
PANELS_LEVEL = 4  # of panels, whose bar is the distance to the level before
LARGEST_MOVE_OF_LOG_TAU = 3.0  # beyond it nothing is known of a density


@dataclass(frozen=True, repr=False)
class MarginLaw(ShortDisplay):
    """The law of margins on fresh and on training samples.

    Attributes
    ----------
    margin : array, shape (n,)
    fresh, training : array, shape (n,)
        Densities there; where they are sampled, means over the cells of the grid beside it.
    fresh_uncertainty, training_uncertainty : array, shape (n,)
    atom, atom_at : float
        The probability of a training margin at `atom_at`.
    atom_uncertainty : float
    point : ErmFixedPoint or PopulationPoint
        The fixed point.
    """

    margin: Array
    fresh: Array
    fresh_uncertainty: Array
    training: Array
    training_uncertainty: Array
    atom: float
    atom_uncertainty: float
    atom_at: float
    point: ErmFixedPoint | PopulationPoint

    @classmethod
    def of(cls, densities: MarginDensities, point: ErmFixedPoint | PopulationPoint) -> MarginLaw:
        """Return the law from estimates."""
        return cls(
            margin=densities.margin,
            fresh=densities.fresh.value,
            fresh_uncertainty=densities.fresh.uncertainty,
            training=densities.training.value,
            training_uncertainty=densities.training.uncertainty,
            atom=float(densities.atom.value),
            atom_uncertainty=float(densities.atom.uncertainty),
            atom_at=densities.atom_at,
            point=point,
        )


@np.errstate(under="ignore")  # Densities far out are 0.
def margin_law(
    teacher: AnyTeacher | Mixture,
    estimator: Estimator | str,
    alpha: float,
    margin: ArrayLike | None = None,
    tol: float | None = None,
) -> MarginLaw:
    """Return the densities of the fresh and the training margin.

    Parameters
    ----------
    teacher : Teacher, Perceptron or Mixture
    estimator : ERM or str
    alpha : float
        n/d.
    margin : array_like, optional
        Where to give them, in rising order; by default a grid that fits both.
    tol : float, optional
        That of `erm_fixed_point`, which is solved first.

    Returns
    -------
    MarginLaw
        For four and more unequal classes, and for hinges with three, densities are sampled in cells
        of the grid.

    Examples
    --------
    >>> from polyceptron.problem import ERM, Teacher
    >>> law = margin_law(Teacher(2), ERM("square", 1.0), 2.0)
    >>> bool(abs(np.trapezoid(law.fresh, law.margin) - 1) < 1e-3)
    True
    """
    spec = as_erm(estimator)
    point = erm_fixed_point(teacher, spec, alpha, tol)
    x = None
    if margin is not None:
        x = as_numbers(margin, "the margin").astype(float)
    if isinstance(point, PopulationPoint):
        return _of_unequal_classes(teacher, spec, alpha, point, x)
    if not (math.isfinite(point.q) and point.q > 0):
        raise InvalidInput(
            f"there are no margins at alpha {alpha:g}: the fields have norm {point.q}"
        )
    loss = loss_at_ridge(spec.loss, point.ridge, teacher, point.alpha)
    if x is None:
        x = default_grid(point)
    assert not isinstance(teacher, Mixture)
    problem = erm_sides(teacher, loss, point.ridge, alpha)
    return MarginLaw.of(_of_equal_classes(problem, point, x), point)


def _of_unequal_classes(
    population: Population, spec: ERM, alpha: float, point: PopulationPoint, x: Array | None
) -> MarginLaw:
    """Return the densities at margins x (n,), or on a grid of their own."""
    if not math.isfinite(point.generalisation_error):
        raise ComputationFailed(f"the fixed point at alpha {alpha:g} was not found")
    problem = matrix_problem(population, replace(spec, ridge=point.ridge), alpha)
    return MarginLaw.of(matrix_margins(problem, point, x), point)


def _of_equal_classes(problem: Problem, point: ErmFixedPoint, x: Array) -> MarginDensities:
    """Return the densities at margins x (n,), with bars also for those of the fixed point."""
    here = _densities(problem, point.law, x)
    densities = here
    for other in _laws_within_bars(problem, point):
        densities = widened(densities, here, _densities(problem, other, x))
    return densities


def _laws_within_bars(problem: Problem, point: ErmFixedPoint) -> list[ScalarOrder]:
    """Return laws of which τ, q or V is off by what the bar of the error leaves open.

    ln τ is uncertain by Δε/|dε/d ln τ|; ln q and ln V, which grow as τ² at most, by twice as much.
    """
    slope = error_slope(problem.channel, point.tau, problem.n_classes)
    if slope == 0:
        return []
    width = min(point.uncertainty / slope, LARGEST_MOVE_OF_LOG_TAU)
    law = point.law
    laws = [
        replace(law, tau=law.tau * math.exp(width)),
        replace(law, q=law.q * math.exp(2 * width)),
    ]
    if math.isfinite(law.V):
        laws.append(replace(law, V=law.V * math.exp(2 * width)))
    return laws


def _densities(problem: Problem, law: ScalarOrder, x: Array) -> MarginDensities:
    """Return the densities of a law at margins x (n,), with bars of the rule."""
    fresh = _fresh(problem, law, x)
    loss = problem.loss
    if math.isinf(law.V):  # interpolation: every margin is that of the one-hot label
        none = Estimate(np.zeros_like(x), np.zeros_like(x))
        return MarginDensities(x, fresh, none, Estimate(np.ones(()), np.zeros(())), 1.0)
    if loss.margin_floor is None:
        trained = _trained(problem, law, x)
        return MarginDensities(x, fresh, trained, _mass_of_atom(problem, law), 1.0)
    # A hard margin lifts all smaller margins to its floor.
    floor = loss.margin_floor
    above = margin_exceeds(problem.channel, problem.n_classes, law.tau, floor / math.sqrt(law.q))
    atom = Estimate(np.full((), math.nan), np.full((), math.nan))
    if above is not None:
        atom = Estimate(np.array(1 - above), np.array(PROBABILITY_ROUNDING))
    trained = Estimate(*(np.where(x > floor, known, 0.0) for known in fresh))
    return MarginDensities(x, fresh, trained, atom, floor)


def _mass_of_atom(problem: Problem, law: ScalarOrder) -> Estimate:
    """Return the share of training samples on the margin to which a loss with a kink lifts some."""
    atom_at = problem.loss.margin_atom
    if atom_at is None:
        return Estimate(np.zeros(()), np.zeros(()))
    samples = _margins(problem, law, trained=True)
    share = samples.share(np.abs(samples.margin - atom_at) < WIDTH_OF_AN_ATOM)
    if len(share) > 1:
        return estimate_from_replicates(share)
    coarser = _margins(problem, law, trained=True, level=PANELS_LEVEL - 1)
    other = coarser.share(np.abs(coarser.margin - atom_at) < WIDTH_OF_AN_ATOM)
    return Estimate(share[0], np.abs(share - other)[0] + DENSITY_ROUNDING)


def default_grid(point: ErmFixedPoint) -> Array:
    """Return 401 margins that hold all but about 1e-4 of the fresh and training samples."""
    spread = math.sqrt(2 * point.q)
    low = -4 * spread / max(point.tau, 1.0)
    high = 4.2 * spread
    if math.isfinite(point.V):
        low = min(low, -0.5)
        high = max(high, 1.5)
    return np.linspace(low, high, 401)


def _fresh(problem: Problem, law: ScalarOrder, x: Array) -> Estimate:
    """Return the density of fresh margins: closed, along the best other class, or by points."""
    if problem.n_classes <= 3:
        return _on_two_levels(problem, lambda level: _fresh_on_panels(problem, law, x, level))
    root_q = math.sqrt(law.q)
    density = margin_density(problem.channel, problem.n_classes, law.tau, x / root_q)
    if density is None:
        return _sampled(problem, law, x, trained=False)
    return _known(density / root_q)


def _known(density: Array) -> Estimate:
    """Return a density (n,) that is known to rounding."""
    return Estimate(density, np.full_like(density, DENSITY_ROUNDING * density.max(initial=0.0)))


def _on_two_levels(problem: Problem, density: Callable[[int], Array]) -> Estimate:
    """Return a density (n,) by panels along the second gap of three classes, with its bar."""
    known = _known(density(PANELS_LEVEL))
    if problem.n_classes == 2:  # there is no second gap
        return known
    apart = np.abs(known.value - density(PANELS_LEVEL - 1))
    return Estimate(known.value, known.uncertainty + apart)


def _trained(problem: Problem, law: ScalarOrder, x: Array) -> Estimate:
    """Return the density of training margins, without its atom."""
    largest_k = 3
    if problem.loss.margin_atom is not None:  # other classes may be tied in an atom
        largest_k = 2
    if problem.n_classes <= largest_k:
        return _on_two_levels(problem, lambda level: _trained_on_panels(problem, law, x, level))
    moved = problem.loss.coordinates.fresh_margin(x, law.V)
    if moved is None:
        return _sampled(problem, law, x, trained=True)
    fresh_margin, stretch = moved
    return Estimate(*(stretch * known for known in _fresh(problem, law, fresh_margin)))


def _fresh_on_panels(problem: Problem, law: ScalarOrder, x: Array, level: int) -> Array:
    """Return the density of fresh margins of two or three classes."""
    gaps, weight = _gaps_of_margin(problem, law, x, [], level)
    return _integrated(problem, law, gaps, weight)


def _trained_on_panels(problem: Problem, law: ScalarOrder, x: Array, level: int) -> Array:
    """Return the density where two or three classes have trained gaps: det(I + VH) on 1⊥."""
    k = problem.n_classes
    trained_gaps, weight = _gaps_of_margin(problem, law, x, [np.arange(0.0, 21.0)], level)
    z = np.concatenate([np.zeros((1, trained_gaps.shape[1])), -trained_gaps]).T
    z -= z.mean(1, keepdims=True)
    label = np.zeros(len(z), dtype=np.int64)
    T = difference_basis(k)
    omega = z + law.V * problem.loss.gradient(z, label)
    gaps = (omega[:, :1] - omega[:, 1:]).T
    bend = law.V * (T.T @ problem.loss.hessian(z, label) @ T)
    volume = np.linalg.det(np.eye(k - 1) + bend)
    return _integrated(problem, law, gaps, weight, volume)


def _gaps_of_margin(
    problem: Problem, law: ScalarOrder, x: Array, own_breaks: list[Array], level: int
) -> tuple[Array, Array]:
    """Return gaps (k − 1, n · nodes) with least gap x (n,), and weights (n, nodes) of G₂ − G₁.

    `own_breaks` are breaks of panels on scales of the loss.
    """
    if problem.n_classes == 2:
        return x[None], np.ones((len(x), 1))
    scales = field_scales(problem.channel, law, 3)
    y, w = panel_rule(scales.second_breaks(*own_breaks), PanelsThree.nodes_of_a_panel[level])
    first = np.repeat(x, len(y))
    return np.stack([first, first + np.tile(y, len(x))]), np.tile(w, (len(x), 1))


def _integrated(
    problem: Problem, law: ScalarOrder, gaps: Array, weight: Array, volume: Array | float = 1.0
) -> Array:
    """Return ∫ dG₂ of the density of gaps times the chance of the label, shape (n,)."""
    seen = problem.channel.label_law(gaps * law.slope, law.residual)
    density = seen.z * ordered_density(gaps, law.q) * volume
    return np.asarray((density.reshape(weight.shape) * weight).sum(1))


def _margins(
    problem: Problem, law: ScalarOrder, *, trained: bool, level: int = PANELS_LEVEL
) -> Margins:
    """Return margins at nodes on a level of panels (one replicate), or at random points."""
    coordinates = problem.loss.coordinates
    channel = problem.channel
    k = problem.n_classes
    n_replicates = 1
    if k == 2:
        breaks = coordinates.line_breaks(field_scales(channel, law, 2).gap_breaks(), law.V)
        nodes, weight = panel_rule(breaks, PanelsTwo.nodes_of_a_panel[level])
        gaps, stretch, pull = coordinates.on_line(nodes, law.V)
        weight = weight * stretch * ordered_density(gaps, law.q)
    else:
        n_replicates = N_REPLICATES
        below, weight, _ = boundary_points(coordinates, channel, k, law, BOUNDARY_LEVEL)
        weight = n_replicates * weight  # of each replicate alone
        gaps = math.sqrt(law.q) * below
        pull = coordinates.at_gaps(gaps, law.V)
    weight = weight * channel.label_law(gaps * law.slope, law.residual).z
    margin = gaps[0]
    if trained:
        margin = pull.margin
    return Margins(margin.reshape(n_replicates, -1), weight.reshape(n_replicates, -1))


def _sampled(problem: Problem, law: ScalarOrder, x: Array, *, trained: bool) -> Estimate:
    """Return weighted points shared between the two nearest margins of the grid."""
    margin, weight = _margins(problem, law, trained=trained)
    atom_at = problem.loss.margin_atom
    if trained and atom_at is not None:
        weight = np.where(np.abs(margin - atom_at) < WIDTH_OF_AN_ATOM, 0.0, weight)
    return shared(x, margin, weight)
