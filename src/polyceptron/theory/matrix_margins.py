"""The law of margins u_y − max_{h≠y} u_h of T(ω + b), over all groups and labels.

Two and three classes: the fields side in trained gaps t (`sides/matrix/graph.py`) has the density
ρ = φ|J|Z of a label's gaps, so that that of a margin x is a value, or one integral over the larger
gap,

    p(x) = Σ_c p_c Σ_y ∫ds [ρ_cy(x, x + s) + ρ_cy(x + s, x)]

and fresh samples are those of V = 0. More classes, and hinges of three: points, whose weights are
shared between the two nearest margins of the grid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from polyceptron.numerics import Array
from polyceptron.numerics.panels import panel_rule
from polyceptron.problem.losses import Loss, SquareLoss
from polyceptron.sides.matrix.graph import (
    GraphFields,
    GroupLaw,
    graph_values,
    group_law,
    proximal_graph,
)
from polyceptron.sides.matrix.order import MatrixOrder, MatrixProblem
from polyceptron.sides.matrix.points import PointFields
from polyceptron.sides.scores import FieldsDistribution, leading_nodes

BOX_LEVEL = 2
# log2 of all points of training samples, and their replicates.
LOG2_ALL_POINTS = 16
N_REPLICATES = 8
# Panels along the other gap, in turn, until densities move by less than DENSITY_ACCURACY of the
# largest; and nodes of a panel.
PANELS_ALONG_OTHER_GAP = (12, 24, 48, 96, 192)
NODES_OF_A_PANEL = 6
DENSITY_ACCURACY = 1e-6
REACH_OF_GAPS = 8.3  # standard deviations
N_MARGINS = 401
SHARE_OFF_THE_GRID = 1e-5  # of samples, at each end
# A margin this close to an atom is on it.
WIDTH_OF_AN_ATOM = 1e-6


class MarginDensities(NamedTuple):
    """Densities of margins on a grid.

    Attributes
    ----------
    margin : array, shape (n,)
    fresh, training : array, shape (n,)
        Of fresh and of training samples, the latter without its atom.
    atom, atom_at : float
        Probability and place of training margins that coincide.
    """

    margin: Array
    fresh: Array
    training: Array
    atom: float
    atom_at: float


class Margins(NamedTuple):
    """Margins (n,) of samples, and their weights (n,)."""

    margin: Array
    weight: Array

    @property
    def ends(self) -> Array:
        """The margins between which nearly all samples are, (2,)."""
        order = np.argsort(self.margin)
        mass = np.cumsum(self.weight[order])
        levels = mass[-1] * np.array([SHARE_OFF_THE_GRID, 1 - SHARE_OFF_THE_GRID])
        places = np.searchsorted(mass, levels)
        return np.asarray(self.margin[order][np.minimum(places, len(order) - 1)])


def matrix_margins(
    problem: MatrixProblem, order: MatrixOrder, law: FieldsDistribution, x: Array | None
) -> MarginDensities:
    """Return the densities of fresh and training margins.

    Parameters
    ----------
    problem : MatrixProblem
    order : MatrixOrder
        The fixed point.
    law : FieldsDistribution
        Its fields.
    x : array, shape (n,), optional
        Where to give them, in rising order; by default 401 that hold nearly all samples.
    """
    trained, widest = _training_margins(problem, order)
    fresh = None
    if x is None or problem.n_classes > 3:
        fresh = _fresh_margins(law)
    if x is None:
        assert fresh is not None
        ends = np.array([fresh.ends, trained.ends])
        x = np.linspace(ends[:, 0].min(), ends[:, 1].max(), N_MARGINS)
    if problem.n_classes > 3:
        assert fresh is not None
        fresh_density = shared(x, *fresh)
    else:
        fresh_density = MarginDensity.of_fresh_samples(problem, order).at(x)
    middle = float(trained.weight @ trained.margin)
    if np.abs(trained.margin - middle).max() < WIDTH_OF_AN_ATOM * (1 + abs(middle)):
        return MarginDensities(x, fresh_density, np.zeros_like(x), 1.0, middle)  # all fitted
    atom_at = problem.loss.margin_floor
    if atom_at is None:
        atom_at = problem.loss.margin_atom
    on_atom = np.zeros(len(trained.margin), bool)
    if atom_at is not None:
        on_atom = np.abs(trained.margin - atom_at) < WIDTH_OF_AN_ATOM
    if problem.loss.margin_floor is not None:
        training = np.where(x > problem.loss.margin_floor, fresh_density, 0.0)
    elif problem.sampled:
        training = shared(x, trained.margin[~on_atom], trained.weight[~on_atom])
    else:
        training = MarginDensity.of_training_samples(problem, order, widest).at(x)
    atom = float(trained.weight[on_atom].sum())
    return MarginDensities(x, fresh_density, training, atom, _or_one(atom_at))


def _or_one(atom_at: float | None) -> float:
    """Return the place of an atom, 1 where there is none."""
    if atom_at is None:
        return 1.0
    return atom_at


def _margin(fields: Array, label: int) -> Array:
    """Return the margin of a label at fields (n, k), shape (n,)."""
    return np.asarray(fields[:, label] - np.delete(fields, label, 1).max(1))


def shared(x: Array, margin: Array, weight: Array) -> Array:
    """Return weighted margins shared between the two nearest of a grid x (n,), per unit margin."""
    cell = np.clip(np.searchsorted(x, margin) - 1, 0, len(x) - 2)
    share = (margin - x[cell]) / (x[cell + 1] - x[cell])
    inside = (share >= 0) & (share <= 1)
    mass = np.zeros(len(x))
    np.add.at(mass, cell[inside], (weight * (1 - share))[inside])
    np.add.at(mass, cell[inside] + 1, (weight * share)[inside])
    return np.asarray(mass / np.gradient(x))


def _fresh_margins(law: FieldsDistribution) -> Margins:
    """Return margins of fresh samples, at random points for every label."""
    fields, by_replicate, Z = leading_nodes(law)
    weight = by_replicate.ravel() / len(by_replicate)
    labels = range(law.n_classes)
    return Margins(
        np.concatenate([_margin(fields, label) for label in labels]),
        np.concatenate([weight * Z[:, label] for label in labels]),
    )


def _training_margins(problem: MatrixProblem, order: MatrixOrder) -> tuple[Margins, float]:
    """Return margins of training samples, and the largest gap on boxes (0 at points)."""
    if problem.sampled:
        return _training_margins_at_points(problem, order), 0.0
    shares = problem.population.group_shares
    T = problem.basis
    margins = []
    weights = []
    widest = 0.0
    for nodes in GraphFields(problem, order, BOX_LEVEL).blocks:
        law = group_law(problem, order, nodes.group)
        density = graph_values(problem, law, nodes.label, nodes.pairs, "plain").density
        fields = nodes.pairs.u @ T.T
        margins.append(_margin(fields, nodes.label))
        weights.append(shares[nodes.group] * nodes.volume * density)
        widest = max(widest, float(np.ptp(fields, axis=1).max()))
    return Margins(np.concatenate(margins), np.concatenate(weights)), widest


def _training_margins_at_points(problem: MatrixProblem, order: MatrixOrder) -> Margins:
    """Return margins of training samples at random points."""
    log2 = LOG2_ALL_POINTS - int(np.ceil(np.log2(N_REPLICATES * problem.n_classes)))
    points = PointFields.drawn(problem, log2, N_REPLICATES)
    points(order)
    margins = []
    weights = []
    for block, trained in zip(points.blocks, points.last_points, strict=True):
        assert trained is not None
        labels = np.tile(block.labels, N_REPLICATES)
        weight = problem.population.group_shares[block.group] * block.weight.ravel() / N_REPLICATES
        for label in np.unique(labels).tolist():
            own = labels == label
            margins.append(_margin(trained[own] @ problem.basis.T, label))
            weights.append(weight[own])
    return Margins(np.concatenate(margins), np.concatenate(weights))


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
        The largest gap of samples.
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
    def of_training_samples(
        cls, problem: MatrixProblem, order: MatrixOrder, widest: float
    ) -> MarginDensity:
        """Return the density of training margins, whose gaps are up to `widest`."""
        laws = [group_law(problem, order, c) for c in range(problem.n_groups)]
        return cls(problem, problem.loss, laws, widest)

    def at(self, x: Array) -> Array:
        """Return the density at margins x (n,)."""
        at_jump = np.abs(x - 1) < 1e-10  # where a hinge's square has a jump
        x = np.where(at_jump, x - 1e-9, x)
        if self.problem.n_classes == 3:
            return self._of_three_classes(x)
        if self.loss.margin_atom is None:
            return self._at_coordinates(x[:, None])
        # The coordinate of a hinge passes the atom from 0 to 1.
        t = x - self.loss.margin_atom
        around_atom = np.where(t > 0, 1 + 1e-12, -1e-12)
        return self._at_coordinates((t + around_atom)[:, None])

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
                values = graph_values(problem, self.laws[c], label, pairs, "plain")
                total += share * values.density
        return total

    def _of_three_classes(self, x: Array) -> Array:
        """Return the integral over the larger gap, on more and more panels."""
        density = np.zeros(len(x))
        for n_panels in PANELS_ALONG_OTHER_GAP:
            before = density
            density = self._integral(x, n_panels)
            if np.abs(density - before).max() <= DENSITY_ACCURACY * density.max():
                break
        return density

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
