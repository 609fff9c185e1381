"""The fields side of two and three classes, at nodes in what training makes of the fields.

Where fields ω + b end after training is a minimum; where u came from is explicit:

    ω + b = u − Vf,    f = −c Tᵀ∇ℓ(Tu, y)

So the averages are integrals over coordinates t of the pairs (u, f), with no proximal map to solve
and with mistakes that begin at a straight line:

    E h = ∫ h φ(ω; m, Q) |J| dt,    J = ∂ω/∂t = P + VN,   P = ∂u/∂t,   N = −∂f/∂t,   −∂f = NJ⁻¹

One coordinate for each gap g_j = (Tu)_y − (Tu)_j, with f = Aᵀν and u = A⁻¹g, A the gaps' rows:

    smooth losses   g = t
    hard margin     g = κ + t₊,  ν = t₋
    hinge, k = 2    g = κ + t − [t],  ν = c(1 − [t]),  [t] = t cut to 0 … 1

`GraphFields` places nodes for one law, in boxes on which the integrand is smooth; they serve the
laws nearby, as the pairs (u, f) do not depend on the law.
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
        Standard deviations of the fields that the boxes hold.
    tol : float
        Boxes are halved until the integrand is smooth on each to this, relative.
    order : int
        Nodes of a box along each axis.
    """

    reach: float
    tol: float
    order: int


# From the level that a search begins with to the finest; test_population_coverage.py shows that
# the change between two levels bounds the error of the finer one.
BOX_LEVELS = (
    BoxAccuracy(reach=5.0, tol=3e-2, order=6),
    BoxAccuracy(reach=6.6, tol=1e-3, order=8),
    BoxAccuracy(reach=8.3, tol=3e-5, order=10),
    BoxAccuracy(reach=8.3, tol=1e-7, order=12),
)
LAST_LEVEL = len(BOX_LEVELS) - 1
NEGLIGIBLE_DENSITY = 1e-16  # of a node: volume times density, which sums to 1


class Graph(NamedTuple):
    """The pairs (u, f) of one label, which no law changes.

    Attributes
    ----------
    u, f : array, shape (n, r)
    P, N : array, shape (n, r, r)
        ∂u/∂t and −∂f/∂t.
    loss, wrong : array, shape (n,)
        Of training samples; `wrong` is 1 for a mistake and 0 else.
    """

    u: Array
    f: Array
    P: Array
    N: Array
    loss: Array
    wrong: Array


def graph(loss: Loss, label: int, t: Array, c: float) -> Graph:
    """Return the pairs (u, f) of a label at coordinates t (n, r), with class weight c."""
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
        force = c * (1 - middle)
        gaps_rise = t != middle
        force_falls = np.where(t == middle, c, 0.0)
    else:
        return _graph_of_smooth_loss(loss, y, t, c, A_inverse)
    u = gaps @ A_inverse.T
    P = A_inverse * gaps_rise[:, None, :]
    N = A.T * force_falls[:, None, :]
    return Graph(u, force @ A, P, N, loss.value_at_prox(u @ T.T, y), _any_negative(gaps))


def _graph_of_smooth_loss(loss: Loss, y: Labels, gaps: Array, c: float, A_inverse: Array) -> Graph:
    """Return the pairs (u, f) where the coordinates are the gaps (n, r) themselves."""
    n, r = gaps.shape
    T = difference_basis(r + 1)
    u = gaps @ A_inverse.T
    f = -c * (loss.gradient(u @ T.T, y) @ T)
    P = np.broadcast_to(A_inverse, (n, r, r))
    N = c * curvature(loss, u @ T.T, y) @ A_inverse
    return Graph(u, f, P, N, loss.value_at_prox(u @ T.T, y), _any_negative(gaps))


def _any_negative(gaps: Array) -> Array:
    """Return 1 where a gap (n, r) is negative, which is a mistake, else 0, shape (n,)."""
    return np.asarray((gaps < 0).any(1), dtype=float)


def graph_coordinates(loss: Loss, label: int, u: Array, f: Array, c: float) -> Array:
    """Return the t (n, r) of pairs (u, f), each (n, r)."""
    A = class_gaps(u.shape[1] + 1, label)
    gaps = u @ A.T
    force = f @ np.linalg.inv(A)
    if loss.scale_free:
        return np.asarray(gaps - float(loss.margin_floor or 0.0) - force)
    if loss.margin_atom is not None:
        return np.asarray(gaps - loss.margin_atom + 1 - force / c)
    return np.asarray(gaps)


def kinks_in_coordinates(loss: Loss) -> tuple[float, ...]:
    """Return where an integrand has a kink or a jump in t, mistakes among them."""
    if loss.margin_atom is not None:
        return (-loss.margin_atom, 0.0, 1.0)
    if loss.coordinates.jumps and not loss.scale_free:
        return (0.0, 1.0)
    return (0.0,)


class GroupLaw(NamedTuple):
    """The fields of one group.

    Attributes
    ----------
    shift : array, shape (r,)
        m + b.
    V : array, shape (r, r)
    inverse : array, shape (r, r)
        L⁻¹ with LLᵀ = Var ω.
    norm : float
        1/√det(2π Var ω).
    teacher_slope, teacher_remaining : array, shape (r, r), or None
        Slope of a teacher's mean field in ω, and Var(z | ω).
    """

    shift: Array
    V: Array
    inverse: Array
    norm: float
    teacher_slope: Array | None
    teacher_remaining: Array | None


def group_law(problem: MatrixProblem, order: MatrixOrder, c: int) -> GroupLaw:
    """Return the fields of group c."""
    r = order.m.shape[1]
    covariance = order.Q[c]
    slope = None
    remaining = None
    if problem.has_teacher:
        covariance, slope, remaining = teacher_given_fields(problem, order)
    inverse = np.asarray(np.linalg.inv(lower_root(covariance)))
    norm = abs(float(np.linalg.det(inverse))) / (2 * math.pi) ** (r / 2)
    return GroupLaw(order.m[c] + order.b, order.V[c], inverse, norm, slope, remaining)


class GraphValues(NamedTuple):
    """What an integral over t adds up.

    Attributes
    ----------
    density : array, shape (n,)
        φ|J|Z: of the group's samples that have the label.
    stiffness : array, shape (n, r, r)
        −∂f.
    slopes : array, shape (n, r), or None
        φ|J|∂Z of a teacher.
    """

    density: Array
    stiffness: Array
    slopes: Array | None


def graph_values(
    problem: MatrixProblem, law: GroupLaw, label: int, g: Graph, kind: str = "slopes"
) -> GraphValues:
    """Return densities, stiffness and slopes of a label at nodes; `kind` as in `label_chances`."""
    away = g.u - g.f @ law.V - law.shift
    x = away @ law.inverse.T
    if len(law.V) == 1:
        J = g.P + law.V * g.N
        det = J[:, 0, 0]
        stiffness = g.N / J
        distance = x[:, 0] ** 2
    else:
        det, stiffness = _two_by_two(g, law.V)
        distance = x[:, 0] ** 2 + x[:, 1] ** 2
    density = law.norm * np.exp(-0.5 * distance) * np.abs(det)
    channel = problem.population.label_channel
    if channel is None or law.teacher_slope is None or law.teacher_remaining is None:
        return GraphValues(density, stiffness, None)
    offset = problem.population.offsets @ difference_basis(problem.n_classes)
    mean = away @ law.teacher_slope.T + offset
    chances = label_chances(channel, mean, law.teacher_remaining, label, kind)
    slopes = density[:, None] * chances.slopes[:, 0]
    return GraphValues(density * chances.Z[:, 0], stiffness, slopes)


def _two_by_two(g: Graph, V: Array) -> tuple[Array, Array]:
    """Return det J (n,) and NJ⁻¹ (n, 2, 2) with J = P + VN, written out for speed."""
    VN = (g.N.swapaxes(1, 2).reshape(-1, 2) @ V.T).reshape(-1, 2, 2).swapaxes(1, 2)
    J = g.P + VN
    det = J[:, 0, 0] * J[:, 1, 1] - J[:, 0, 1] * J[:, 1, 0]
    share = J / det[:, None, None]
    left = g.N[:, :, 0]
    right = g.N[:, :, 1]
    stiffness = np.empty_like(J)
    stiffness[:, :, 0] = left * share[:, 1, 1, None] - right * share[:, 1, 0, None]
    stiffness[:, :, 1] = right * share[:, 0, 0, None] - left * share[:, 0, 1, None]
    return det, stiffness


class LabelNodes(NamedTuple):
    """Nodes of one label in one group: volumes (n,) with the chance of the copies, and pairs."""

    group: int
    label: int
    volume: Array
    graph: Graph


class GraphFields:
    """Averages at fixed nodes, in boxes on which the integrand at one law is smooth.

    Attributes
    ----------
    problem : MatrixProblem
    blocks : list of LabelNodes
    """

    def __init__(self, problem: MatrixProblem, order: MatrixOrder, level: int) -> None:
        self.problem = problem
        self.blocks: list[LabelNodes] = []
        labels_of_group = range(problem.n_classes)
        for c in range(len(order.m)):
            law = group_law(problem, order, c)
            probes = ProbePoints.around(problem, law, BOX_LEVELS[level].reach)
            if not problem.has_teacher:
                labels_of_group = range(c, c + 1)
            for label, (copies, chance) in product(labels_of_group, problem.copies):
                weight = copies * float(problem.class_weights[label])
                volume, g = _placed(problem, law, label, weight, probes, BOX_LEVELS[level])
                self.blocks.append(LabelNodes(c, label, chance * volume, g))

    def __call__(self, order: MatrixOrder) -> MatrixAverages:
        """Return the averages at a law."""
        problem = self.problem
        laws = [group_law(problem, order, c) for c in range(len(order.m))]
        sums = NodeSums(*order.m.shape)
        for nodes in self.blocks:
            values = graph_values(problem, laws[nodes.group], nodes.label, nodes.graph)
            sums.add(nodes, values)
        return sums.averages(problem)


@dataclass
class NodeSums:
    """Sums over nodes, for each of G groups in r dimensions, under the names of `ReplicateSums`."""

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
        c = nodes.group
        g = nodes.graph
        w = nodes.volume * values.density
        weighted = w[:, None] * g.f
        self.f[c] += weighted.sum(0)
        self.ff[c] += weighted.T @ g.f
        self.stiffness[c] += (w @ values.stiffness.reshape(len(w), self.r**2)).reshape(
            self.r, self.r
        )
        if values.slopes is not None:
            self.cross += (nodes.volume[:, None] * g.f).T @ values.slopes
        self.loss[c] += w @ g.loss
        self.mistakes[c] += w @ g.wrong
        self.mass[c] += w.sum()

    def averages(self, problem: MatrixProblem) -> MatrixAverages:
        """Return the averages, and what the weights miss of the share of samples with copies."""
        shares = problem.population.group_shares
        with_copies = sum(chance for _, chance in problem.copies)
        return MatrixAverages(
            conjugates_of_means(problem, self.f, self.ff, self.stiffness, self.cross),
            float(self.loss @ shares),
            float(self.mistakes @ shares),
            float(np.abs(self.mass - with_copies).max()),
        )


class ProbePoints(NamedTuple):
    """Fields ω + b (n, r) of one group that show which t its samples reach.

    Attributes
    ----------
    edges : array, shape (e, r)
        Where a teacher's labels of two classes change, which boxes could overlook.
    rings : array, shape (a, b, r)
        Points on ellipses of the group's covariance, from the outermost.
    centre : array, shape (1, r)
    """

    edges: Array
    rings: Array
    centre: Array

    @classmethod
    def around(cls, problem: MatrixProblem, law: GroupLaw, reach: float) -> ProbePoints:
        """Return the points around the mean of a group."""
        if len(law.V) == 1:
            directions = np.array([[-1.0], [1.0]])
            radii = [1.03, 0.6, 0.3, 0.1]
        else:
            angle = np.linspace(0, 2 * math.pi, 24, endpoint=False)
            directions = np.stack([np.cos(angle), np.sin(angle)], 1)
            radii = [1.03, 0.6, 0.3]
        x = reach * np.stack([radius * directions for radius in radii])
        rings = law.shift + np.linalg.solve(law.inverse, x[..., None])[..., 0]
        return cls(_label_edges(problem, law), rings, law.shift[None])

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
    """Return fields (n, 1) where a teacher's labels of two classes change, else none (0, r)."""
    channel = problem.population.label_channel
    slope = law.teacher_slope
    remaining = law.teacher_remaining
    none = np.zeros((0, len(law.V)))
    if channel is None or slope is None or remaining is None:
        return none
    if len(law.V) > 1 or not slope.any():
        return none
    width = channel.width(float(remaining[0, 0])) * np.linspace(-8, 8, 5)[:, None]
    offset = problem.population.offsets @ problem.basis
    return np.asarray(law.shift + (width - offset) / slope)


def _placed(
    problem: MatrixProblem,
    law: GroupLaw,
    label: int,
    weight: float,
    probes: ProbePoints,
    accuracy: BoxAccuracy,
) -> tuple[Array, Graph]:
    """Return volumes (n,) and pairs of nodes for one label, whose samples have a class weight."""
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
        order=accuracy.order,
    )
    seen = volume * values[0] > NEGLIGIBLE_DENSITY
    return volume[seen], graph(loss, label, nodes[seen], weight)


def _integrand(
    problem: MatrixProblem, law: GroupLaw, label: int, weight: float
) -> Callable[[Array], Array]:
    """Return t (n, r) → density, and density times f and −∂f, shape (1 + r + r², n)."""

    def values(t: Array) -> Array:
        g = graph(problem.loss, label, t, weight)
        found = graph_values(problem, law, label, g, "plain")
        parts = [np.ones((len(t), 1)), g.f, found.stiffness.reshape(len(t), t.shape[1] ** 2)]
        return np.asarray(found.density * np.concatenate(parts, 1).T)

    return values
