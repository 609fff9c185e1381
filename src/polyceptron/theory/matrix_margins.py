"""The law of margins u_y − max_{h≠y} u_h of T(ω + b), over all groups and labels.

Two and three classes: the fields side in trained gaps t (`sides/matrix/graph.py`) has the density
ρ = φ|J|Z of a label's gaps, so that that of a margin x is a value, or one integral over the larger
gap,

    p(x) = Σ_c p_c Σ_y ∫ds [ρ_cy(x, x + s) + ρ_cy(x + s, x)]

and fresh samples are those of V = 0. More classes, and hinges of three: points, whose weights are
shared between the two nearest margins of the grid.

The bar of a density is what the last doubling of panels changed, or the spread of replicates, and
how far it moves with the law of the fields within the bars of that one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyceptron.numerics import Array
from polyceptron.numerics.estimate import Estimate, estimate_from_replicates
from polyceptron.numerics.panels import panel_rule
from polyceptron.problem.losses import Loss, SquareLoss
from polyceptron.sides.matrix.graph import (
    GraphFields,
    GroupLaw,
    graph_values,
    group_law,
)
from polyceptron.sides.matrix.loop import unpack
from polyceptron.sides.matrix.order import MatrixOrder, MatrixProblem
from polyceptron.sides.matrix.points import PointFields
from polyceptron.sides.matrix.proximal_graph import proximal_graph
from polyceptron.sides.scores import leading_nodes
from polyceptron.theory.erm.population_numbers import fields_law
from polyceptron.theory.erm.population_point import PopulationPoint

BOX_LEVEL = 2
# log2 of all points of training samples, and their replicates; and of the points at which a law and
# those within its bars are compared, where there are more than three classes.
LOG2_ALL_POINTS = 16
LOG2_COMPARED_POINTS = 13
N_REPLICATES = 8
# Panels along the other gap, in turn, until densities move by less than DENSITY_ACCURACY of the
# largest; and nodes of a panel.
PANELS_ALONG_OTHER_GAP = (12, 24, 48, 96, 192)
NODES_OF_A_PANEL = 6
DENSITY_ACCURACY = 1e-6
# Of a density that is a value and no integral, relative to the largest.
DENSITY_ROUNDING = 1e-9
REACH_OF_GAPS = 8.3  # standard deviations
N_MARGINS = 401
SHARE_OFF_THE_GRID = 1e-5  # of samples, at each end
# A margin this close to an atom is on it.
WIDTH_OF_AN_ATOM = 1e-6


class MarginDensities(NamedTuple):
    """Densities of margins on a grid, with their bars.

    Attributes
    ----------
    margin : array, shape (n,)
    fresh, training : Estimate, shape (n,)
        Of fresh and of training samples, the latter without its atom.
    atom : Estimate
        Probability of training margins that coincide.
    atom_at : float
        Where they do.
    """

    margin: Array
    fresh: Estimate
    training: Estimate
    atom: Estimate
    atom_at: float


class Margins(NamedTuple):
    """Margins of samples, and their weights, which sum to 1 in each of R replicates: (R, n)."""

    margin: Array
    weight: Array

    @property
    def ends(self) -> Array:
        """The margins between which nearly all samples are, (2,)."""
        order = np.argsort(self.margin, axis=None)
        mass = np.cumsum(self.weight.ravel()[order])
        levels = mass[-1] * np.array([SHARE_OFF_THE_GRID, 1 - SHARE_OFF_THE_GRID])
        places = np.searchsorted(mass, levels)
        return np.asarray(self.margin.ravel()[order][np.minimum(places, len(order) - 1)])

    @property
    def common(self) -> float | None:
        """The margin of all samples, None where they differ."""
        middle = float((self.weight * self.margin).sum() / self.weight.sum())
        if np.abs(self.margin - middle).max() < WIDTH_OF_AN_ATOM * (1 + abs(middle)):
            return middle
        return None

    def share(self, chosen: NDArray[np.bool_]) -> Array:
        """Return the weight of samples that are `chosen` (R, n), shape (R,)."""
        return np.asarray(np.where(chosen, self.weight, 0.0).sum(1))


def matrix_margins(
    problem: MatrixProblem, point: PopulationPoint, x: Array | None
) -> MarginDensities:
    """Return the densities of fresh and training margins.

    Parameters
    ----------
    problem : MatrixProblem
    point : PopulationPoint
        The fixed point.
    x : array, shape (n,), optional
        Where to give them, in rising order; by default 401 that hold nearly all samples.
    """
    order = unpack(problem, point.theta)
    here = MarginsOfLaw(problem, order)
    if x is None:
        ends = np.array([here.fresh_samples.ends, here.training_samples.ends])
        x = np.linspace(ends[:, 0].min(), ends[:, 1].max(), N_MARGINS)
    densities = here.densities(x)
    compared = densities
    log2 = LOG2_ALL_POINTS
    if problem.n_classes > 3 or problem.sampled:
        log2 = LOG2_COMPARED_POINTS
        compared = MarginsOfLaw(problem, order, log2).densities(x)
    for other in _laws_within_bars(problem, order, point):
        densities = widened(densities, compared, MarginsOfLaw(problem, other, log2).densities(x))
    return densities


def _laws_within_bars(
    problem: MatrixProblem, order: MatrixOrder, point: PopulationPoint
) -> list[MatrixOrder]:
    """Return laws of which one part each is off by its bar: A, Q, V, and the means with b."""
    bars = point.law_uncertainty
    of_Q = _relative(bars.Q, point.law.Q)
    of_V = _relative(bars.V, order.V)
    laws = [
        order._replace(Q=(1 + of_Q) * order.Q),
        order._replace(V=(1 + of_V) * order.V),
        order._replace(m=order.m + bars.m, b=order.b + problem.basis.T @ bars.intercepts),
    ]
    if problem.has_teacher:
        laws.append(order._replace(A=(1 + of_Q) * order.A))
    return laws


def _relative(bars: Array, matrices: Array) -> float:
    """Return the largest bar of matrices (G, r, r) in units of their size."""
    sizes = np.linalg.norm(matrices, axis=(1, 2))
    return float((np.linalg.norm(bars, axis=(1, 2)) / sizes).max())


def widened(
    densities: MarginDensities, before: MarginDensities, after: MarginDensities
) -> MarginDensities:
    """Return densities with wider bars, by what differs `before` and `after`."""

    def widen(known: Estimate, old: Estimate, new: Estimate) -> Estimate:
        """Return an estimate whose bar counts the change from old to new."""
        return Estimate(known.value, known.uncertainty + np.abs(new.value - old.value))

    return densities._replace(
        fresh=widen(densities.fresh, before.fresh, after.fresh),
        training=widen(densities.training, before.training, after.training),
        atom=widen(densities.atom, before.atom, after.atom),
    )


@dataclass(frozen=True)
class MarginsOfLaw:
    """The margins of one law.

    Attributes
    ----------
    problem : MatrixProblem
    order : MatrixOrder
    log2_points : int
        log2 of all points of training samples, where they are sampled.
    """

    problem: MatrixProblem
    order: MatrixOrder
    log2_points: int = LOG2_ALL_POINTS

    def densities(self, x: Array) -> MarginDensities:
        """Return the densities at margins x (n,)."""
        fresh = self._fresh(x)
        common = self.training_samples.common
        if common is not None:  # all are fitted
            none = Estimate(np.zeros_like(x), np.zeros_like(x))
            return MarginDensities(x, fresh, none, Estimate(np.ones(()), np.zeros(())), common)
        training = self._training(x, fresh)
        atom_at = self._atom_at
        if atom_at is None:
            return MarginDensities(x, fresh, training, Estimate(np.zeros(()), np.zeros(())), 1.0)
        return MarginDensities(x, fresh, training, self._atom, atom_at)

    @cached_property
    def fresh_samples(self) -> Margins:
        """Margins of fresh samples, at random points for every label."""
        fields, by_replicate, Z = leading_nodes(fields_law(self.problem, self.order))
        shape = by_replicate.shape
        labels = range(self.problem.n_classes)
        margins = [_margin(fields, label).reshape(shape) for label in labels]
        weights = [by_replicate * Z[:, label].reshape(shape) for label in labels]
        return Margins(np.concatenate(margins, 1), np.concatenate(weights, 1))

    @cached_property
    def training_samples(self) -> Margins:
        """Margins of training samples: nodes of boxes, or random points."""
        if self.problem.sampled:
            return _training_margins_at_points(self.problem, self.order, self.log2_points)
        return self._on_boxes(BOX_LEVEL)

    def _on_boxes(self, level: int) -> Margins:
        """Return margins of training samples at the nodes of boxes."""
        problem = self.problem
        shares = problem.population.group_shares
        margins = []
        weights = []
        for nodes in GraphFields(problem, self.order, level).blocks:
            law = group_law(problem, self.order, nodes.group)
            values = graph_values(problem, law, nodes.label, nodes.pairs, with_slopes=False)
            margins.append(_margin(nodes.pairs.u @ problem.basis.T, nodes.label))
            weights.append(shares[nodes.group] * nodes.volume * values.density)
        return Margins(np.concatenate(margins)[None], np.concatenate(weights)[None])

    def _fresh(self, x: Array) -> Estimate:
        """Return the density of fresh margins."""
        if self.problem.n_classes > 3:
            return shared(x, *self.fresh_samples)
        return MarginDensity.of_fresh_samples(self.problem, self.order).at(x)

    def _training(self, x: Array, fresh: Estimate) -> Estimate:
        """Return the density of training margins, without its atom."""
        loss = self.problem.loss
        if loss.margin_floor is not None:
            above = x > loss.margin_floor
            return Estimate(*(np.where(above, known, 0.0) for known in fresh))
        if self.problem.sampled:
            samples = self.training_samples
            weight = np.where(self._is_on_atom(samples), 0.0, samples.weight)
            return shared(x, samples.margin, weight)
        return MarginDensity.of_training_samples(self.problem, self.order).at(x)

    @property
    def _atom_at(self) -> float | None:
        """Where training margins coincide, None where they do not."""
        loss = self.problem.loss
        if loss.margin_floor is not None:
            return loss.margin_floor
        return loss.margin_atom

    @property
    def _atom(self) -> Estimate:
        """The share of training samples on the atom."""
        samples = self.training_samples
        share = samples.share(self._is_on_atom(samples))
        if self.problem.sampled:
            return estimate_from_replicates(share)
        coarser = self._on_boxes(BOX_LEVEL - 1)
        other = coarser.share(self._is_on_atom(coarser))
        return Estimate(share[0], np.abs(share - other)[0] + DENSITY_ROUNDING)

    def _is_on_atom(self, samples: Margins) -> NDArray[np.bool_]:
        """Return whether samples are on the atom, shape (R, n)."""
        if self._atom_at is None:
            return np.zeros(samples.margin.shape, dtype=bool)
        return np.asarray(np.abs(samples.margin - self._atom_at) < WIDTH_OF_AN_ATOM)


def _margin(fields: Array, label: int) -> Array:
    """Return the margin of a label at fields (n, k), shape (n,)."""
    return np.asarray(fields[:, label] - np.delete(fields, label, 1).max(1))


def shared(x: Array, margin: Array, weight: Array) -> Estimate:
    """Return a density at margins x (n,) from samples of weight w, both of shape (R, samples).

    The weight of a sample is shared between the two nearest of x, so that the density at one of
    them is a mean over the cells beside it. The replicates have the bar.
    """
    n_cells = len(x) - 1
    cell = np.clip(np.searchsorted(x, margin.ravel()) - 1, 0, n_cells - 1).reshape(margin.shape)
    share = (margin - x[cell]) / (x[cell + 1] - x[cell])
    inside = (share >= 0) & (share <= 1)
    mass = np.zeros((len(margin), len(x)))
    for own_mass, own_cell, own_share, own_weight, seen in zip(
        mass, cell, share, weight, inside, strict=True
    ):
        left = (own_weight * (1 - own_share))[seen]
        right = (own_weight * own_share)[seen]
        own_mass += np.bincount(own_cell[seen], left, len(x))
        own_mass += np.bincount(own_cell[seen] + 1, right, len(x))
    return estimate_from_replicates(mass / np.gradient(x), axis=0)


def _training_margins_at_points(problem: MatrixProblem, order: MatrixOrder, log2: int) -> Margins:
    """Return margins of training samples at random points, 2^log2 of all labels and replicates."""
    log2 -= math.ceil(math.log2(N_REPLICATES * problem.n_classes))
    points = PointFields.drawn(problem, log2, N_REPLICATES)
    points(order)
    margins = []
    weights = []
    for block, trained in zip(points.blocks, points.last_points, strict=True):
        assert trained is not None
        fields = (trained @ problem.basis.T).reshape(N_REPLICATES, -1, problem.n_classes)
        weight = problem.population.group_shares[block.group] * block.weight
        for label in np.unique(block.labels).tolist():
            own = block.labels == label
            own_fields = fields[:, own].reshape(-1, problem.n_classes)
            margins.append(_margin(own_fields, label).reshape(N_REPLICATES, -1))
            weights.append(weight[:, own])
    return Margins(np.concatenate(margins, 1), np.concatenate(weights, 1))


@dataclass(frozen=True)
class MarginDensity:
    """The density of margins of two or three classes.

    Attributes
    ----------
    problem : MatrixProblem
    loss : Loss
        What moves the fields in training; any smooth one for fresh samples, where V = 0.
    laws : list of GroupLaw
        Of each group.
    widest : float
        The largest gap of samples, where there are two gaps.
    """

    problem: MatrixProblem
    loss: Loss
    laws: list[GroupLaw]
    widest: float

    @classmethod
    def of_fresh_samples(cls, problem: MatrixProblem, order: MatrixOrder) -> MarginDensity:
        """Return the density of fresh margins."""
        untrained = order._replace(V=0 * order.V)
        laws = [group_law(problem, untrained, c) for c in range(problem.n_groups)]
        reach = max(
            np.linalg.norm(law.mean) + REACH_OF_GAPS / np.linalg.norm(law.whitening, -2)
            for law in laws
        )
        return cls(problem, SquareLoss(), laws, float(np.sqrt(2) * reach))

    @classmethod
    def of_training_samples(cls, problem: MatrixProblem, order: MatrixOrder) -> MarginDensity:
        """Return the density of training margins."""
        laws = [group_law(problem, order, c) for c in range(problem.n_groups)]
        widest = 0.0
        for nodes in GraphFields(problem, order, BOX_LEVEL).blocks:
            fields = nodes.pairs.u @ problem.basis.T
            widest = max(widest, float(np.ptp(fields, axis=1).max()))
        return cls(problem, problem.loss, laws, widest)

    def at(self, x: Array) -> Estimate:
        """Return the density at margins x (n,)."""
        at_jump = np.abs(x - 1) < 1e-10  # where a hinge's square has a jump
        x = np.where(at_jump, x - 1e-9, x)
        if self.problem.n_classes == 3:
            return self._of_three_classes(x)
        t = x
        if self.loss.margin_atom is not None:  # the coordinate of a hinge passes it from 0 to 1
            away = x - self.loss.margin_atom
            t = away + np.where(away > 0, 1 + 1e-12, -1e-12)
        density = self._at_coordinates(t[:, None])
        return Estimate(density, np.full_like(density, DENSITY_ROUNDING * density.max()))

    def _at_coordinates(self, t: Array) -> Array:
        """Return Σ_c p_c Σ_y ρ_cy at coordinates t (n, r), shape (n,)."""
        problem = self.problem
        total = np.zeros(len(t))
        for c, share in enumerate(problem.population.group_shares):
            labels = range(c, c + 1)
            if problem.has_teacher:
                labels = range(problem.n_classes)
            for label in labels:
                pairs = proximal_graph(self.loss, label, t, float(problem.class_weights[label]))
                values = graph_values(problem, self.laws[c], label, pairs, with_slopes=False)
                total += share * values.density
        return total

    def _of_three_classes(self, x: Array) -> Estimate:
        """Return the integral over the larger gap, on more and more panels."""
        density = np.zeros(len(x))
        for n_panels in PANELS_ALONG_OTHER_GAP:
            before = density
            density = self._integral(x, n_panels)
            moved = np.abs(density - before)
            if moved.max() <= DENSITY_ACCURACY * density.max():
                break
        return Estimate(density, moved + DENSITY_ROUNDING * density.max())

    def _integral(self, x: Array, n_panels: int) -> Array:
        """Return the integral over the larger gap on panels, at margins x (n,)."""
        reach = np.maximum(self.widest - x, 1e-9)[:, None]
        kink = np.clip(1 - x[:, None], 0.0, reach)  # of a hinge's square
        even = reach * np.linspace(0, 1, n_panels + 1)
        breaks = np.sort(np.concatenate([even, kink], 1), 1)
        s, w = panel_rule(breaks, NODES_OF_A_PANEL)
        least = np.broadcast_to(x[:, None], s.shape).ravel()
        larger = least + s.ravel()
        first_least = self._at_coordinates(np.stack([least, larger], 1))
        second_least = self._at_coordinates(np.stack([larger, least], 1))
        return np.asarray(((first_least + second_least).reshape(s.shape) * w).sum(1))
