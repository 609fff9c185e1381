"""Averages over the fields of two and three unequal classes, without solving a proximal map.

They are the averages of the fields side of eq. SE (m̂, q̂, V̂, training loss and error), with
matrices on the r = k − 1 class differences. T (k, r) is an orthonormal basis of these differences.

Training moves the field ω + b of a sample with label y to its proximal point u, with a pull f:

    u = argmin_u cℓ(Tu, y) + ½ (u − ω − b)ᵀ V⁻¹ (u − ω − b),      f = V⁻¹(u − ω − b)

with c the class weight of y. Finding u takes a minimisation, but its inverse is a formula:

    f = −c Tᵀ∇ℓ(Tu, y),      ω + b = u − Vf

So we integrate along the graph of the proximal map, the set of all pairs (u, f), in coordinates t:

    E h = ∫ h φ(ω; m, Q) |J| dt,    J = ∂ω/∂t = ∂u/∂t − V ∂f/∂t,    −∂f/∂ω = −∂f/∂t J⁻¹

The misclassified samples are then a half-space, whose edge the nodes can follow. There is one
coordinate for each gap g_j = (Tu)_y − (Tu)_j between the label and another class. In terms of gaps
u = A⁻¹g and f = Aᵀν, where the rows of A take the differences and ν ≥ 0 are the forces on the gaps:

    smooth losses    g = t
    hard margin      g = κ + max(t, 0),  ν = max(−t, 0)                   κ the margin
    hinge, k = 2     g = κ + t − [t],  ν = c(1 − [t])                     [t] = min(max(t, 0), 1)

`GraphFields` places nodes in boxes on which the integrand is smooth for one set of order
parameters. The same nodes serve nearby ones, since the pairs (u, f) do not depend on them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple

import numpy as np

from polyceptron.checks import class_gaps, difference_basis
from polyceptron.numerics import Array
from polyceptron.numerics.boxes import smooth_boxes
from polyceptron.problem.channels.correlated import label_chances
from polyceptron.problem.losses import Loss
from polyceptron.sides.matrix.order import (
    Labels,
    MatrixAverages,
    MatrixOrder,
    MatrixProblem,
    conjugates_of_means,
    lower_root,
    teacher_given_fields,
)
from polyceptron.sides.matrix.proximal import curvature, matrix_pull


class BoxAccuracy(NamedTuple):
    """How nodes are placed.

    Attributes
    ----------
    reach : float
        The boxes cover this many standard deviations of the fields.
    tol : float
        Boxes are halved until the integrand is smooth on each, to this relative accuracy.
    nodes_per_axis : int
        Of one box.
    """

    reach: float
    tol: float
    nodes_per_axis: int


# A search begins on level 0 and ends on the last one at the latest. The change between two levels
# bounds the error of the finer one (test_population_coverage.py).
BOX_LEVELS = (
    BoxAccuracy(reach=5.0, tol=3e-2, nodes_per_axis=6),
    BoxAccuracy(reach=6.6, tol=1e-3, nodes_per_axis=8),
    BoxAccuracy(reach=8.3, tol=3e-5, nodes_per_axis=10),
    BoxAccuracy(reach=8.3, tol=1e-7, nodes_per_axis=12),
)
LAST_LEVEL = len(BOX_LEVELS) - 1
# Nodes of less probability (volume times density, which sums to 1) are dropped.
NEGLIGIBLE_PROBABILITY = 1e-16
# Ellipses on which probe points lie, as shares of the reach of the boxes: the largest, a little
# outside, sets the range of the boxes; the others show where pairs (u, f) lie within.
PROBE_RADII_ON_A_LINE = (1.03, 0.6, 0.3, 0.1)
PROBE_RADII_IN_A_PLANE = (1.03, 0.6, 0.3)
N_PROBE_ANGLES = 24
# Widths of the channel within which a label's chance goes from 0 to 1, to rounding.
EDGE_WIDTHS = 8


class ProximalGraph(NamedTuple):
    """Pairs (u, f) of samples with one label; they do not depend on the order parameters.

    Attributes
    ----------
    u, f : array, shape (n, r)
        Proximal points and pulls.
    du_dt, minus_df_dt : array, shape (n, r, r)
        ∂u/∂t and −∂f/∂t.
    loss : array, shape (n,)
        Training loss of such a sample.
    mistake : array, shape (n,)
        1 where such a sample is misclassified in training, else 0.
    """

    u: Array
    f: Array
    du_dt: Array
    minus_df_dt: Array
    loss: Array
    mistake: Array


def proximal_graph(loss: Loss, label: int, t: Array, weight: float) -> ProximalGraph:
    """Return the pairs (u, f) of a label at coordinates t (n, r), for a class weight."""
    A = class_gaps(t.shape[1] + 1, label)
    T = difference_basis(t.shape[1] + 1)
    A_inverse = np.asarray(np.linalg.inv(A), dtype=float)
    y = np.full(len(t), label)
    if loss.scale_free:
        gaps = float(loss.margin_floor or 0.0) + np.maximum(t, 0)
        force = np.maximum(-t, 0)
        gaps_rise = t > 0
        force_falls = np.where(t <= 0, 1.0, 0.0)
    elif loss.margin_atom is not None:
        middle = np.clip(t, 0, 1)
        gaps = loss.margin_atom + t - middle
        force = weight * (1 - middle)
        gaps_rise = t != middle
        force_falls = np.where(t == middle, weight, 0.0)
    else:
        return _graph_of_smooth_loss(loss, y, t, weight, A_inverse)
    u = gaps @ A_inverse.T
    return ProximalGraph(
        u=u,
        f=force @ A,
        du_dt=A_inverse * gaps_rise[:, None, :],
        minus_df_dt=A.T * force_falls[:, None, :],
        loss=loss.value_at_prox(u @ T.T, y),
        mistake=_any_negative(gaps),
    )


def _graph_of_smooth_loss(
    loss: Loss, y: Labels, gaps: Array, weight: float, A_inverse: Array
) -> ProximalGraph:
    """Return the pairs (u, f) where the coordinates are the gaps (n, r) themselves."""
    n, r = gaps.shape
    T = difference_basis(r + 1)
    u = gaps @ A_inverse.T
    return ProximalGraph(
        u=u,
        f=-weight * (loss.gradient(u @ T.T, y) @ T),
        du_dt=np.broadcast_to(A_inverse, (n, r, r)),
        minus_df_dt=weight * curvature(loss, u @ T.T, y) @ A_inverse,
        loss=loss.value_at_prox(u @ T.T, y),
        mistake=_any_negative(gaps),
    )


def _any_negative(gaps: Array) -> Array:
    """Return 1 where a gap (n, r) is negative, which is a mistake, else 0, shape (n,)."""
    return np.asarray((gaps < 0).any(1), dtype=float)


def graph_coordinates(loss: Loss, label: int, u: Array, f: Array, weight: float) -> Array:
    """Return the coordinates t (n, r) of pairs (u, f), each (n, r): inverse of `proximal_graph`."""
    A = class_gaps(u.shape[1] + 1, label)
    gaps = u @ A.T
    force = f @ np.linalg.inv(A)
    if loss.scale_free:
        return np.asarray(gaps - float(loss.margin_floor or 0.0) - force)
    if loss.margin_atom is not None:
        return np.asarray(gaps - loss.margin_atom + 1 - force / weight)
    return np.asarray(gaps)


def kinks_in_coordinates(loss: Loss) -> tuple[float, ...]:
    """Return the t at which an integrand has a kink or a jump along an axis.

    A mistake begins where the gap is 0, and losses with kinks have some of their own.
    """
    if loss.margin_atom is not None:
        return (-loss.margin_atom, 0.0, 1.0)
    if loss.coordinates.jumps and not loss.scale_free:  # the squared hinge, from a gap of 1 on
        return (0.0, 1.0)
    return (0.0,)


class GroupLaw(NamedTuple):
    """The Gaussian law of the fields ω + b in one group, and of a teacher's fields z given ω.

    Attributes
    ----------
    mean : array, shape (r,)
        m + b.
    V : array, shape (r, r)
        The student's susceptibility.
    whitening : array, shape (r, r)
        L⁻¹ with LLᵀ = Var ω.
    norm : float
        1/√det(2π Var ω).
    teacher_slope, teacher_remaining : array, shape (r, r), or None
        Slope of the mean of z in ω, and Var(z | ω).
    """

    mean: Array
    V: Array
    whitening: Array
    norm: float
    teacher_slope: Array | None
    teacher_remaining: Array | None


def group_law(problem: MatrixProblem, order: MatrixOrder, group: int) -> GroupLaw:
    """Return the law of the fields in a group, from the order parameters."""
    r = order.m.shape[1]
    covariance = order.Q[group]
    slope = None
    remaining = None
    if problem.has_teacher:
        covariance, slope, remaining = teacher_given_fields(problem, order)
    whitening = np.asarray(np.linalg.inv(lower_root(covariance)))
    norm = abs(float(np.linalg.det(whitening))) / (2 * math.pi) ** (r / 2)
    mean = order.m[group] + order.b
    return GroupLaw(mean, order.V[group], whitening, norm, slope, remaining)


class GraphValues(NamedTuple):
    """The factors of an integrand at coordinates t, for one group and label.

    Attributes
    ----------
    density : array, shape (n,)
        φ|J|Z, the density in t of the group's samples with this label; Z is the chance of the label
        given ω, 1 in a mixture.
    stiffness : array, shape (n, r, r)
        −∂f/∂ω.
    slopes : array, shape (n, r), or None
        φ|J|∂Z, with the gradient of Z in the teacher's mean field; None in a mixture.
    """

    density: Array
    stiffness: Array
    slopes: Array | None


def graph_values(
    problem: MatrixProblem, law: GroupLaw, label: int, pairs: ProximalGraph, kind: str = "slopes"
) -> GraphValues:
    """Return densities, stiffness and slopes of a label at its pairs (u, f).

    `kind` says how chances of labels are computed; 'plain' ones have slopes of no use for three
    classes (`label_chances`).
    """
    omega_from_mean = pairs.u - pairs.f @ law.V - law.mean
    x = omega_from_mean @ law.whitening.T
    if len(law.V) == 1:
        J = pairs.du_dt + law.V * pairs.minus_df_dt
        det = J[:, 0, 0]
        stiffness = pairs.minus_df_dt / J
        squared_distance = x[:, 0] ** 2
    else:
        det, stiffness = _two_by_two(pairs, law.V)
        squared_distance = x[:, 0] ** 2 + x[:, 1] ** 2
    density = law.norm * np.exp(-0.5 * squared_distance) * np.abs(det)
    channel = problem.population.label_channel
    if channel is None or law.teacher_slope is None or law.teacher_remaining is None:
        return GraphValues(density, stiffness, None)
    offset = problem.population.offsets @ difference_basis(problem.n_classes)
    teacher_mean = omega_from_mean @ law.teacher_slope.T + offset
    chances = label_chances(channel, teacher_mean, law.teacher_remaining, label, kind)
    slopes = density[:, None] * chances.slopes[:, 0]
    return GraphValues(density * chances.Z[:, 0], stiffness, slopes)


def _two_by_two(pairs: ProximalGraph, V: Array) -> tuple[Array, Array]:
    """Return det J (n,) and −∂f/∂t J⁻¹ (n, 2, 2) with J = ∂u/∂t − V ∂f/∂t, r = 2.

    Products and inverses of 2 × 2 matrices are written out, which is several times as fast.
    """
    N = pairs.minus_df_dt
    VN = (N.swapaxes(1, 2).reshape(-1, 2) @ V.T).reshape(-1, 2, 2).swapaxes(1, 2)
    J = pairs.du_dt + VN
    det = J[:, 0, 0] * J[:, 1, 1] - J[:, 0, 1] * J[:, 1, 0]
    J_by_det = J / det[:, None, None]
    left = N[:, :, 0]
    right = N[:, :, 1]
    stiffness = np.empty_like(J)
    stiffness[:, :, 0] = left * J_by_det[:, 1, 1, None] - right * J_by_det[:, 1, 0, None]
    stiffness[:, :, 1] = right * J_by_det[:, 0, 0, None] - left * J_by_det[:, 0, 1, None]
    return det, stiffness


class LabelNodes(NamedTuple):
    """The nodes of one label in one group.

    Attributes
    ----------
    group, label : int
    volume : array, shape (n,)
        Weights of the nodes, times the probability of a sample's weight (`MatrixProblem.copies`).
    pairs : ProximalGraph
        The pairs (u, f) at the nodes.
    """

    group: int
    label: int
    volume: Array
    pairs: ProximalGraph


class GraphFields:
    """The averages as a function of the order parameters, at nodes that stay where they are.

    Parameters
    ----------
    problem : MatrixProblem
    order : MatrixOrder
        Order parameters for which the nodes are placed.
    level : int
        Accuracy of the nodes, an index into `BOX_LEVELS`.

    Attributes
    ----------
    blocks : list of LabelNodes
    """

    def __init__(self, problem: MatrixProblem, order: MatrixOrder, level: int) -> None:
        self.problem = problem
        self.blocks: list[LabelNodes] = []
        labels_of_group = range(problem.n_classes)
        for group in range(problem.n_groups):
            law = group_law(problem, order, group)
            probes = ProbePoints.around(problem, law, BOX_LEVELS[level].reach)
            if not problem.has_teacher:
                labels_of_group = range(group, group + 1)
            for label, (copies, chance) in product(labels_of_group, problem.copies):
                weight = copies * float(problem.class_weights[label])
                volume, pairs = _placed(problem, law, label, weight, probes, BOX_LEVELS[level])
                self.blocks.append(LabelNodes(group, label, chance * volume, pairs))

    def __call__(self, order: MatrixOrder) -> MatrixAverages:
        """Return the averages at other order parameters."""
        problem = self.problem
        laws = [group_law(problem, order, group) for group in range(problem.n_groups)]
        sums = NodeSums(*order.m.shape)
        for nodes in self.blocks:
            values = graph_values(problem, laws[nodes.group], nodes.label, nodes.pairs)
            sums.add(nodes, values)
        return sums.averages(problem)


@dataclass
class NodeSums:
    """Sums over the nodes of each of G groups, in r dimensions.

    Attributes
    ----------
    f : array, shape (G, r)
        E f.
    ff, stiffness : array, shape (G, r, r)
        E ffᵀ and −E ∂f/∂ω.
    cross : array, shape (r, r)
        Σ_y E f ∂Z_yᵀ with the chance Z_y of label y, of a teacher.
    loss, mistakes : array, shape (G,)
        Means over training samples.
    mass : array, shape (G,)
        E 1: what it lacks of 1 is missed by the nodes.
    """

    G: int
    r: int
    f: Array = field(init=False)
    ff: Array = field(init=False)
    stiffness: Array = field(init=False)
    cross: Array = field(init=False)
    loss: Array = field(init=False)
    mistakes: Array = field(init=False)
    mass: Array = field(init=False)

    def __post_init__(self) -> None:
        self.f = np.zeros((self.G, self.r))
        self.ff = np.zeros((self.G, self.r, self.r))
        self.stiffness = np.zeros((self.G, self.r, self.r))
        self.cross = np.zeros((self.r, self.r))
        self.loss = np.zeros(self.G)
        self.mistakes = np.zeros(self.G)
        self.mass = np.zeros(self.G)

    def add(self, nodes: LabelNodes, values: GraphValues) -> None:
        """Add the nodes of a label."""
        group = nodes.group
        pairs = nodes.pairs
        w = nodes.volume * values.density
        weighted_f = w[:, None] * pairs.f
        self.f[group] += weighted_f.sum(0)
        self.ff[group] += weighted_f.T @ pairs.f
        stiffness = w @ values.stiffness.reshape(len(w), self.r**2)
        self.stiffness[group] += stiffness.reshape(self.r, self.r)
        if values.slopes is not None:
            self.cross += (nodes.volume[:, None] * pairs.f).T @ values.slopes
        self.loss[group] += w @ pairs.loss
        self.mistakes[group] += w @ pairs.mistake
        self.mass[group] += w.sum()

    def averages(self, problem: MatrixProblem) -> MatrixAverages:
        """Return the averages over all groups, and the largest probability that nodes miss."""
        shares = problem.population.group_shares
        with_copies = sum(chance for _, chance in problem.copies)
        return MatrixAverages(
            conjugates_of_means(problem, self.f, self.ff, self.stiffness, self.cross),
            float(self.loss @ shares),
            float(self.mistakes @ shares),
            float(np.abs(self.mass - with_copies).max()),
        )


class ProbePoints(NamedTuple):
    """Fields ω + b of one group, whose images in t show the range that the boxes must cover.

    Attributes
    ----------
    edges : array, shape (e, r)
        Where a teacher's labels of two classes change. A narrow edge might go unseen otherwise.
    rings : array, shape (a, b, r)
        Points on ellipses of the group's covariance, from the outermost one inwards.
    centre : array, shape (1, r)
        The mean of the group.
    """

    edges: Array
    rings: Array
    centre: Array

    @classmethod
    def around(cls, problem: MatrixProblem, law: GroupLaw, reach: float) -> ProbePoints:
        """Return the points around the mean of a group."""
        if len(law.V) == 1:
            directions = np.array([[-1.0], [1.0]])
            radii: tuple[float, ...] = PROBE_RADII_ON_A_LINE
        else:
            angle = np.linspace(0, 2 * math.pi, N_PROBE_ANGLES, endpoint=False)
            directions = np.stack([np.cos(angle), np.sin(angle)], 1)
            radii = PROBE_RADII_IN_A_PLANE
        x = reach * np.stack([radius * directions for radius in radii])
        rings = law.mean + np.linalg.solve(law.whitening, x[..., None])[..., 0]
        return cls(_label_edges(problem, law), rings, law.mean[None])

    @property
    def all(self) -> Array:
        """All of them (n, r), edges first and the centre last."""
        r = self.centre.shape[1]
        return np.concatenate([self.edges, self.rings.reshape(-1, r), self.centre])

    def breaks(self, t: Array, kinks: tuple[float, ...]) -> list[Array]:
        """Return break points along each axis, from the coordinates t (n, r) of all points."""
        n_edges = len(self.edges)
        at_edges = t[:n_edges]
        on_rings = t[n_edges:-1].reshape(self.rings.shape)
        seen = np.concatenate([on_rings.min(1), on_rings.max(1), t[-1:]])
        breaks = []
        for axis in range(t.shape[1]):
            along = np.concatenate([seen[:, axis], kinks, at_edges[:, axis]])
            inside = np.clip(along, seen[:, axis].min(), seen[:, axis].max())
            breaks.append(np.unique(inside))
        return breaks


def _label_edges(problem: MatrixProblem, law: GroupLaw) -> Array:
    """Return fields (n, 1) across the edge where a teacher's labels of two classes change.

    With three classes, or without a teacher, the array is empty, (0, r).
    """
    channel = problem.population.label_channel
    slope = law.teacher_slope
    remaining = law.teacher_remaining
    none = np.zeros((0, len(law.V)))
    if channel is None or slope is None or remaining is None:
        return none
    if len(law.V) > 1 or not slope.any():
        return none
    width = channel.width(float(remaining[0, 0]))
    teacher_fields = width * np.linspace(-EDGE_WIDTHS, EDGE_WIDTHS, 5)[:, None]
    offset = problem.population.offsets @ problem.basis
    return np.asarray(law.mean + (teacher_fields - offset) / slope)


def _placed(
    problem: MatrixProblem,
    law: GroupLaw,
    label: int,
    weight: float,
    probes: ProbePoints,
    accuracy: BoxAccuracy,
) -> tuple[Array, ProximalGraph]:
    """Return the volumes (n,) and pairs (u, f) of nodes for samples of one label and weight."""
    loss = problem.loss
    omega = probes.all
    labels = np.full(len(omega), label)
    pull = matrix_pull(loss, omega, labels, law.V, np.full(len(omega), weight))
    t = graph_coordinates(loss, label, pull.point, pull.f, weight)
    breaks = probes.breaks(t, kinks_in_coordinates(loss))
    if min(len(along) for along in breaks) < 2:
        raise np.linalg.LinAlgError("the trained fields have no spread")
    nodes, volume, values = smooth_boxes(
        _integrand(problem, law, label, weight),
        breaks,
        tol=accuracy.tol,
        order=accuracy.nodes_per_axis,
    )
    seen = volume * values[0] > NEGLIGIBLE_PROBABILITY
    return volume[seen], proximal_graph(loss, label, nodes[seen], weight)


def _integrand(
    problem: MatrixProblem, law: GroupLaw, label: int, weight: float
) -> Callable[[Array], Array]:
    """Return t (n, r) → density, and density times f and −∂f, shape (1 + r + r², n)."""

    def values(t: Array) -> Array:
        """Return the integrand at coordinates t (n, r)."""
        pairs = proximal_graph(problem.loss, label, t, weight)
        found = graph_values(problem, law, label, pairs, "plain")
        stiffness = found.stiffness.reshape(len(t), t.shape[1] ** 2)
        factors = np.concatenate([np.ones((len(t), 1)), pairs.f, stiffness], axis=1)
        return np.asarray(found.density * factors.T)

    return values
