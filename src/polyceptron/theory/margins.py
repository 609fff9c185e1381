"""The law of the margin z_y − max_{h≠y} z_h, on fresh samples and on training samples.

On a fresh sample the fields are ω, on a training sample prox_{Vℓ(·,y)}(ω) (theorem 1): a training
sample has pulled its own fields towards a small loss. In the gaps G of the proximal point the
student's gaps are explicit, ω = z + V∇ℓ(z), so with two or three classes the density of a training
margin is a value or one integral,

    p(G₁) = ∫ dG₂ p(g(G)) Z(g(G)) det(I + VH(G)).

A hard margin lifts every smaller one to it, an atom, and a loss with a kink some of them. With four
classes or more fresh margins are a double integral, and training margins a weighted average over
quasi-random points. Classes that are not alike: `populations/matrix_margins.py`.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from polyceptron.checks import as_numbers, difference_basis
from polyceptron.display import ShortDisplay
from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.numerics import Array
from polyceptron.numerics.panels import panel_rule
from polyceptron.problem.order import ScalarOrder
from polyceptron.problem.specs import as_erm
from polyceptron.sides.fields.integrand import PanelsThree, PanelsTwo, field_scales, ordered_density
from polyceptron.sides.fields.points import boundary_points
from polyceptron.sides.generalisation import margin_density, margin_exceeds
from polyceptron.sides.matrix.loop import unpack
from polyceptron.sides.scalar import Problem, erm_sides
from polyceptron.theory.erm.fixed_point import erm_fixed_point
from polyceptron.theory.erm.point import ErmFixedPoint
from polyceptron.theory.erm.unequal_classes import PopulationPoint, matrix_problem
from polyceptron.theory.matrix_margins import matrix_margins, shared
from polyceptron.theory.separability import loss_at_ridge

_AT_ATOM = 1e-9  # a margin as close as this to an atom is on it


@dataclass(frozen=True, repr=False)
class MarginLaw(ShortDisplay):
    """Densities on `margin` (n,); `atom` is the probability of a training margin at `atom_at`."""

    margin: Array
    fresh: Array
    training: Array
    atom: float
    atom_at: float
    point: ErmFixedPoint | PopulationPoint


def margin_law(
    teacher: Any, estimator: Any, alpha: float, margin: Any = None, tol: float | None = None
) -> MarginLaw:
    """Densities of the fresh and the training margin.

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
    point: Any = erm_fixed_point(teacher, spec, alpha, tol)
    x = None if margin is None else as_numbers(margin, "the margin").astype(float)
    if not spec.sees_equal_classes(teacher):
        if not math.isfinite(point.generalisation_error):
            raise ComputationFailed(f"the fixed point at alpha {alpha:g} was not found")
        matrices = matrix_problem(teacher, replace(spec, ridge=point.ridge), alpha)
        order = unpack(matrices, point.theta)
        return MarginLaw(*matrix_margins(matrices, order, point.law, x), point)
    if not (math.isfinite(point.q) and point.q > 0):
        raise InvalidInput(
            f"there are no margins at alpha {alpha:g}: the fields have norm {point.q}"
        )
    loss = loss_at_ridge(spec.loss, point.ridge, teacher, point.alpha)
    problem = erm_sides(teacher, loss, point.ridge, alpha)
    x = default_grid(point) if x is None else x
    fresh = _fresh(problem, point.law, x)
    floor = 1.0 if math.isinf(point.V) else loss.margin_floor
    if floor is None:
        atom = 0.0
        if (at := loss.margin_atom) is not None:
            moved, weight = _margins(problem, point.law, trained=True)
            atom = float(weight[np.abs(moved - at) < _AT_ATOM].sum())
        return MarginLaw(x, fresh, _trained(problem, point.law, x), atom, 1.0, point)
    if math.isinf(point.V):  # interpolation: every margin is that of the one-hot label
        return MarginLaw(x, fresh, np.zeros_like(x), 1.0, floor, point)
    k, level = problem.n_classes, floor / math.sqrt(point.q)
    above = margin_exceeds(problem.channel, k, point.tau, level)
    atom = math.nan if above is None else 1 - above
    return MarginLaw(x, fresh, np.where(x > floor, fresh, 0.0), atom, floor, point)


def default_grid(point: ErmFixedPoint) -> Array:
    """401 margins that hold all but about 1e-4 of the fresh and training samples."""
    spread = math.sqrt(2 * point.q)
    low = -4 * spread / max(point.tau, 1.0)
    reach = 4.2 * spread
    if math.isfinite(point.V):
        low, reach = min(low, -0.5), max(reach, 1.5)
    return np.linspace(low, reach, 401)


def _fresh(problem: Problem, law: ScalarOrder, x: Array) -> Array:
    """The density of fresh margins: in closed form, along the best other class, or by points."""
    if problem.n_classes <= 3:
        return _density(problem, law, x, trained=False)
    root_q = math.sqrt(law.q)
    found = margin_density(problem.channel, problem.n_classes, law.tau, x / root_q)
    return _sampled(problem, law, x, trained=False) if found is None else found / root_q


def _trained(problem: Problem, law: ScalarOrder, x: Array) -> Array:
    """The density of training margins."""
    few = 3 if problem.loss.margin_atom is None else 2  # other classes may be tied in an atom
    if problem.n_classes <= few:
        return _density(problem, law, x, trained=True)
    moved = problem.loss.coordinates.fresh_margin(x, law.V)
    if moved is not None:
        return moved[1] * _fresh(problem, law, moved[0])
    return _sampled(problem, law, x, trained=True)


def _density(problem: Problem, law: ScalarOrder, x: Array, *, trained: bool) -> Array:
    """Two or three classes: the density at margins x (n,), with G₂ − G₁ integrated on panels."""
    if problem.n_classes == 2:
        gaps, weight = x[None], np.ones((len(x), 1))
    else:
        scales = field_scales(problem.channel, law, 3)
        own = [np.arange(0.0, 21.0)] if trained else []  # the losses' own scale
        y, w = panel_rule(scales.second_breaks(*own), PanelsThree.orders[3])
        first = np.repeat(x, len(y))
        gaps, weight = np.stack([first, first + np.tile(y, len(x))]), np.tile(w, (len(x), 1))
    volume: Array | float = 1.0
    if trained:  # the student's gaps whose proximal point has these, and det(I + VH) on 1⊥
        z = np.concatenate([np.zeros((1, gaps.shape[1])), -gaps]).T
        z -= z.mean(1, keepdims=True)
        label, basis = np.zeros(len(z), dtype=np.int64), difference_basis(problem.n_classes)
        omega = z + law.V * problem.loss.gradient(z, label)
        bend = law.V * (basis.T @ problem.loss.hessian(z, label) @ basis)
        gaps, volume = (omega[:, :1] - omega[:, 1:]).T, np.linalg.det(np.eye(len(gaps)) + bend)
    seen = problem.channel.label_law(gaps * law.slope, law.residual)
    value = seen.z * ordered_density(gaps, law.q) * volume
    return np.asarray((value.reshape(weight.shape) * weight).sum(1))


def _margins(problem: Problem, law: ScalarOrder, *, trained: bool) -> tuple[Array, Array]:
    """Margins (n,) at nodes or points, and their weights."""
    own, channel, k = problem.loss.coordinates, problem.channel, problem.n_classes
    if k == 2:
        breaks = own.line_breaks(field_scales(channel, law, 2).gap_breaks(), law.V)
        nodes, weight = panel_rule(breaks, PanelsTwo.orders[-1])
        gaps, stretch, pull = own.on_line(nodes, law.V)
        weight = weight * stretch * ordered_density(gaps, law.q)
    else:
        below, weight, _ = boundary_points(own, channel, k, law, 3)
        gaps = math.sqrt(law.q) * below
        pull = own.at_gaps(gaps, law.V)
    weight = weight * channel.label_law(gaps * law.slope, law.residual).z
    return pull.margin if trained else gaps[0], weight


def _sampled(problem: Problem, law: ScalarOrder, x: Array, *, trained: bool) -> Array:
    """Weighted points shared between the two nearest grid margins, per unit margin."""
    margin, weight = _margins(problem, law, trained=trained)
    if trained and (at := problem.loss.margin_atom) is not None:
        weight = np.where(np.abs(margin - at) < _AT_ATOM, 0.0, weight)
    return shared(x, margin, weight)
