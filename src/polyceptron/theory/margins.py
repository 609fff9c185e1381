"""The law of the margin z_y − max_{h≠y} z_h, on fresh samples and on training samples.

On a fresh sample the fields are ω, on a training sample prox_{Vℓ(·,y)}(ω) (theorem 1): a training
sample has pulled its own fields towards a small loss. In the gaps G of the proximal point the
student's gaps are explicit, ω = z + V∇ℓ(z), so with two or three classes the density of a training
margin is a value or one integral,

    p(G₁) = ∫ dG₂ p(g(G)) Z(g(G)) det(I + VH(G)).

A hard margin lifts every smaller one to it, an atom, and a loss with a kink some of them. With four
classes or more fresh margins are a double integral, and training margins a weighted average over
quasi-random points. Classes that are not alike: `matrix_margins.py`.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from polyceptron.checks import as_numbers, difference_basis
from polyceptron.display import ShortDisplay
from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.numerics import Array
from polyceptron.numerics.panels import panel_rule
from polyceptron.problem.order import ScalarOrder
from polyceptron.problem.populations import AnyTeacher, Mixture, Population
from polyceptron.problem.specs import ERM, Estimator, as_erm
from polyceptron.sides.fields.integrand import PanelsThree, PanelsTwo, field_scales, ordered_density
from polyceptron.sides.fields.points import boundary_points
from polyceptron.sides.generalisation import margin_density, margin_exceeds
from polyceptron.sides.matrix.loop import unpack
from polyceptron.sides.scalar import Problem, erm_sides
from polyceptron.theory.erm.fixed_point import erm_fixed_point
from polyceptron.theory.erm.point import ErmFixedPoint
from polyceptron.theory.erm.population_point import PopulationPoint
from polyceptron.theory.erm.unequal_classes import matrix_problem
from polyceptron.theory.matrix_margins import matrix_margins, shared
from polyceptron.theory.separability import loss_at_ridge

WIDTH_OF_AN_ATOM = 1e-9  # a margin as close as this to an atom is on it
BOUNDARY_LEVEL = 3  # of random points


@dataclass(frozen=True, repr=False)
class MarginLaw(ShortDisplay):
    """The law of margins on fresh and on training samples.

    Attributes
    ----------
    margin : array, shape (n,)
    fresh, training : array, shape (n,)
        Densities there.
    atom, atom_at : float
        The probability of a training margin at `atom_at`.
    point : ErmFixedPoint or PopulationPoint
        The fixed point.
    """

    margin: Array
    fresh: Array
    training: Array
    atom: float
    atom_at: float
    point: ErmFixedPoint | PopulationPoint


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
        Of four classes that are not alike and more, and of hinges of three, densities are sampled
        in cells of the grid.

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
    return _of_equal_classes(erm_sides(teacher, loss, point.ridge, alpha), point, x)


def _of_unequal_classes(
    population: Population, spec: ERM, alpha: float, point: PopulationPoint, x: Array | None
) -> MarginLaw:
    """Return the densities at margins x (n,), or on a grid of their own."""
    if not math.isfinite(point.generalisation_error):
        raise ComputationFailed(f"the fixed point at alpha {alpha:g} was not found")
    problem = matrix_problem(population, replace(spec, ridge=point.ridge), alpha)
    order = unpack(problem, point.theta)
    return MarginLaw(*matrix_margins(problem, order, point.law, x), point)


def _of_equal_classes(problem: Problem, point: ErmFixedPoint, x: Array) -> MarginLaw:
    """Return the densities at margins x (n,)."""
    fresh = _fresh(problem, point.law, x)
    loss = problem.loss
    if math.isinf(point.V):  # interpolation: every margin is that of the one-hot label
        return MarginLaw(x, fresh, np.zeros_like(x), 1.0, 1.0, point)
    if loss.margin_floor is None:
        trained = _trained(problem, point.law, x)
        return MarginLaw(x, fresh, trained, _mass_of_atom(problem, point.law), 1.0, point)
    # A hard margin lifts all smaller margins to its floor.
    floor = loss.margin_floor
    level = floor / math.sqrt(point.q)
    above = margin_exceeds(problem.channel, problem.n_classes, point.tau, level)
    atom = math.nan
    if above is not None:
        atom = 1 - above
    return MarginLaw(x, fresh, np.where(x > floor, fresh, 0.0), atom, floor, point)


def _mass_of_atom(problem: Problem, law: ScalarOrder) -> float:
    """Return the share of training samples on the margin to which a loss with a kink lifts some."""
    atom_at = problem.loss.margin_atom
    if atom_at is None:
        return 0.0
    margin, weight = _margins(problem, law, trained=True)
    return float(weight[np.abs(margin - atom_at) < WIDTH_OF_AN_ATOM].sum())


def default_grid(point: ErmFixedPoint) -> Array:
    """Return 401 margins that hold all but about 1e-4 of the fresh and training samples."""
    spread = math.sqrt(2 * point.q)
    low = -4 * spread / max(point.tau, 1.0)
    high = 4.2 * spread
    if math.isfinite(point.V):
        low = min(low, -0.5)
        high = max(high, 1.5)
    return np.linspace(low, high, 401)


def _fresh(problem: Problem, law: ScalarOrder, x: Array) -> Array:
    """Return the density of fresh margins: closed, along the best other class, or by points."""
    if problem.n_classes <= 3:
        gaps, weight = _gaps_of_margin(problem, law, x, [])
        return _integrated(problem, law, gaps, weight)
    root_q = math.sqrt(law.q)
    density = margin_density(problem.channel, problem.n_classes, law.tau, x / root_q)
    if density is None:
        return _sampled(problem, law, x, trained=False)
    return np.asarray(density / root_q)


def _trained(problem: Problem, law: ScalarOrder, x: Array) -> Array:
    """Return the density of training margins, without its atom."""
    largest_k = 3
    if problem.loss.margin_atom is not None:  # other classes may be tied in an atom
        largest_k = 2
    if problem.n_classes <= largest_k:
        return _trained_of_few_classes(problem, law, x)
    moved = problem.loss.coordinates.fresh_margin(x, law.V)
    if moved is None:
        return _sampled(problem, law, x, trained=True)
    fresh_margin, stretch = moved
    return np.asarray(stretch * _fresh(problem, law, fresh_margin))


def _trained_of_few_classes(problem: Problem, law: ScalarOrder, x: Array) -> Array:
    """Return the density where two or three classes have trained gaps: det(I + VH) on 1⊥."""
    k = problem.n_classes
    trained_gaps, weight = _gaps_of_margin(problem, law, x, [np.arange(0.0, 21.0)])
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
    problem: Problem, law: ScalarOrder, x: Array, own_breaks: list[Array]
) -> tuple[Array, Array]:
    """Return gaps (k − 1, n · nodes) with least gap x (n,), and weights (n, nodes) of G₂ − G₁.

    `own_breaks` are breaks of panels on scales of the loss.
    """
    if problem.n_classes == 2:
        return x[None], np.ones((len(x), 1))
    scales = field_scales(problem.channel, law, 3)
    y, w = panel_rule(scales.second_breaks(*own_breaks), PanelsThree.orders[3])
    first = np.repeat(x, len(y))
    return np.stack([first, first + np.tile(y, len(x))]), np.tile(w, (len(x), 1))


def _integrated(
    problem: Problem, law: ScalarOrder, gaps: Array, weight: Array, volume: Array | float = 1.0
) -> Array:
    """Return ∫ dG₂ of the density of gaps times the chance of the label, shape (n,)."""
    seen = problem.channel.label_law(gaps * law.slope, law.residual)
    density = seen.z * ordered_density(gaps, law.q) * volume
    return np.asarray((density.reshape(weight.shape) * weight).sum(1))


def _margins(problem: Problem, law: ScalarOrder, *, trained: bool) -> tuple[Array, Array]:
    """Return margins (n,) at nodes or points, and their weights (n,)."""
    coordinates = problem.loss.coordinates
    channel = problem.channel
    k = problem.n_classes
    if k == 2:
        breaks = coordinates.line_breaks(field_scales(channel, law, 2).gap_breaks(), law.V)
        nodes, weight = panel_rule(breaks, PanelsTwo.orders[-1])
        gaps, stretch, pull = coordinates.on_line(nodes, law.V)
        weight = weight * stretch * ordered_density(gaps, law.q)
    else:
        below, weight, _ = boundary_points(coordinates, channel, k, law, BOUNDARY_LEVEL)
        gaps = math.sqrt(law.q) * below
        pull = coordinates.at_gaps(gaps, law.V)
    weight = weight * channel.label_law(gaps * law.slope, law.residual).z
    if trained:
        return pull.margin, weight
    return gaps[0], weight


def _sampled(problem: Problem, law: ScalarOrder, x: Array, *, trained: bool) -> Array:
    """Return weighted points shared between the two nearest margins of the grid."""
    margin, weight = _margins(problem, law, trained=trained)
    atom_at = problem.loss.margin_atom
    if trained and atom_at is not None:
        weight = np.where(np.abs(margin - atom_at) < WIDTH_OF_AN_ATOM, 0.0, weight)
    return shared(x, margin, weight)
