"""Averages over the fields of two and three unequal classes, by integrals over trained fields.

They are those of the fields side of eq. SE, with matrices on the r = k − 1 class differences. In a
group of samples (a class of a mixture, or all samples of a teacher) the student's fields are
ω ~ N(m, Q), and with the student's intercept b (r,) training moves ω + b to the proximal point u by
the pull f = V⁻¹(u − ω − b). The averages are

    E f,   E ffᵀ,   −E ∂f/∂ω,   E Σ_y f_y ∂Z_yᵀ,    training loss and error

from which `conjugates_of_means` makes m̂, Q̂, V̂ and M̂ of n = αd samples. A teacher has one group
with mean m = 0. Its own fields are z ~ N(b*, R) with intercepts b*, and

    ω = A(z − b*) + rest,    E the covariance of the rest,    M = Cov(ω, z) = AR

where M is the paper's m, conjugate to M̂. Q is the paper's q, f is f_out of eq. f_out (eq.
auxiliary_defs prints the proximal point itself), Z_y is Z*_out, the chance of label y given ω, and
∂Z_y its gradient in the mean of z.

Integrals run over the pairs (u, f), the graph of the proximal map (`proximal_graph.py`), with
ω = u − Vf − b. The graph has a coordinate t_j for each gap between the label and another class:
the gap itself if the loss is smooth, and gap and force in turn if it has a kink:

    E h = ∫ h φ(ω; m, Q) |J| dt,    J = ∂ω/∂t = ∂u/∂t − V ∂f/∂t,    −∂f/∂ω = −∂f/∂t J⁻¹

with φ the normal density. A proximal map is solved for at some probe points only, which show the
range of t. `GraphFields` places nodes in boxes on which the integrand is smooth for one set of
order parameters. The same nodes serve nearby ones, since the pairs (u, f) do not depend on them:
how far is shown by the probability that they miss (`MatrixAverages.missed`).

Error bars are made in `theory/erm/refined_boxes.py`, from the change between two levels of
`BOX_LEVELS` and from `missed`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple

import numpy as np

from polyceptron.numerics import Array
from polyceptron.numerics.boxes import smooth_boxes
from polyceptron.problem.channels.correlated import label_chances
from polyceptron.sides.matrix.order import (
    MatrixAverages,
    MatrixOrder,
    MatrixProblem,
    conjugates_of_means,
    lower_root,
    teacher_given_fields,
)
from polyceptron.sides.matrix.proximal import matrix_pull
from polyceptron.sides.matrix.proximal_graph import (
    ProximalGraph,
    graph_coordinates,
    kinks_in_coordinates,
    proximal_graph,
)


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
# bounds the error of the finer one (test_population_coverage.py). The last two have the same reach:
# fields beyond it have a probability of e^(−8.3²/2) = 1e-15, and `missed` counts what boxes leave
# out.
BOX_LEVELS = (
    BoxAccuracy(reach=5.0, tol=3e-2, nodes_per_axis=6),
    BoxAccuracy(reach=6.6, tol=1e-3, nodes_per_axis=8),
    BoxAccuracy(reach=8.3, tol=3e-5, nodes_per_axis=10),
    BoxAccuracy(reach=8.3, tol=1e-7, nodes_per_axis=12),
)
LAST_LEVEL = len(BOX_LEVELS) - 1
# Nodes of less probability (volume times density, which sums to 1) are dropped.
NEGLIGIBLE_PROBABILITY = 1e-16
# Probe points lie on ellipses of the fields' covariance, at these shares of the reach of the boxes.
# The images in t of the outermost one set the range of the boxes: an image of a disc ends on its
# rim. 24 angles see cos(7.5°) = 0.991 of the extent of an ellipse, which 1.03 makes up for. The
# inner ellipses show where along the range the samples are.
PROBE_RADII_ON_A_LINE = (1.03, 0.6, 0.3, 0.1)
PROBE_RADII_IN_A_PLANE = (1.03, 0.6, 0.3)
N_PROBE_ANGLES = 24
# A label's chance goes from 0 to 1, to rounding, within this many widths of the channel.
EDGE_WIDTHS = 8


class GroupLaw(NamedTuple):
    """The Gaussian law of the fields ω + b in one group, and of a teacher's fields z given ω.

    Attributes
    ----------
    mean : array, shape (r,)
        m + b.
    V : array, shape (r, r)
        The student's susceptibility, symmetric.
    whitening : array, shape (r, r)
        L⁻¹ with L lower triangular and LLᵀ = Var ω: whitened fields have the covariance 1.
    norm : float
        1/√det(2π Var ω).
    teacher_slope, teacher_remaining : array, shape (r, r), or None
        ∂E[z | ω]/∂ω and Var(z | ω); None in a mixture.
    """

    mean: Array
    V: Array
    whitening: Array
    norm: float
    teacher_slope: Array | None
    teacher_remaining: Array | None


def group_law(problem: MatrixProblem, order: MatrixOrder, group: int) -> GroupLaw:
    """Return the law of the fields in a group, from the order parameters.

    `teacher_given_fields` returns Var ω = ARAᵀ + E for a teacher, and the law of z given ω;
    `lower_root` is the Cholesky factor.
    """
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
    problem: MatrixProblem,
    law: GroupLaw,
    label: int,
    pairs: ProximalGraph,
    with_slopes: bool = True,
) -> GraphValues:
    """Return densities, stiffness and slopes of a label at its pairs (u, f).

    Without slopes the chances of labels of three classes cost less.
    """
    omega_from_mean = pairs.u - pairs.f @ law.V - law.mean
    x = omega_from_mean @ law.whitening.T
    if len(law.V) == 1:
        J = pairs.du_dt + law.V * pairs.minus_df_dt
        det = J[:, 0, 0]
        stiffness = pairs.minus_df_dt / J
        squared_distance = x[:, 0] ** 2
    else:
        det, stiffness = _in_two_dimensions(pairs, law.V)
        squared_distance = x[:, 0] ** 2 + x[:, 1] ** 2
    density = law.norm * np.exp(-0.5 * squared_distance) * np.abs(det)
    channel = problem.population.label_channel
    if channel is None or law.teacher_slope is None or law.teacher_remaining is None:
        return GraphValues(density, stiffness, None)
    teacher_intercepts = problem.population.offsets @ problem.basis  # b* (r,)
    teacher_mean = omega_from_mean @ law.teacher_slope.T + teacher_intercepts
    kind = "slopes" if with_slopes else "plain"
    chances = label_chances(channel, teacher_mean, law.teacher_remaining, label, kind)
    only = 0  # label_chances has an axis of labels, here of the one asked for
    slopes = None
    if with_slopes:
        slopes = density[:, None] * chances.slopes[:, only]
    return GraphValues(density * chances.Z[:, only], stiffness, slopes)


def _in_two_dimensions(pairs: ProximalGraph, V: Array) -> tuple[Array, Array]:
    """Return det J (n,) and −∂f/∂ω = −∂f/∂t J⁻¹ (n, 2, 2) with J = ∂u/∂t − V ∂f/∂t, r = 2.

    Products and inverses of 2 × 2 matrices are written out, which is several times as fast.
    """
    N = pairs.minus_df_dt
    # VN of all samples as one flat product: rows of Nᵀ times Vᵀ make (VN)ᵀ.
    VN = (N.swapaxes(1, 2).reshape(-1, 2) @ V.T).reshape(-1, 2, 2).swapaxes(1, 2)
    J = pairs.du_dt + VN
    det = J[:, 0, 0] * J[:, 1, 1] - J[:, 0, 1] * J[:, 1, 0]
    # N J⁻¹ by columns, with J⁻¹ = ((J₁₁, −J₀₁), (−J₁₀, J₀₀))/det.
    J_by_det = J / det[:, None, None]
    first_column = N[:, :, 0]
    second_column = N[:, :, 1]
    stiffness = np.empty_like(J)
    stiffness[:, :, 0] = (
        first_column * J_by_det[:, 1, 1, None] - second_column * J_by_det[:, 1, 0, None]
    )
    stiffness[:, :, 1] = (
        second_column * J_by_det[:, 0, 0, None] - first_column * J_by_det[:, 0, 1, None]
    )
    return det, stiffness


class LabelNodes(NamedTuple):
    """The nodes of samples with one label and one weight, in one group.

    Attributes
    ----------
    group, label : int
    volume : array, shape (n,)
        Volumes of the nodes in t, times the probability of the sample's weight.
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
        Of two or three classes. A resampled set of samples (a bootstrap) has random weights of
        single samples: `problem.copies` are pairs of a weight and its probability, (1, 1) without
        resampling. They multiply the class weights.
    order : MatrixOrder
        Order parameters for which the nodes are placed.
    level : int
        Accuracy of the nodes, an index into `BOX_LEVELS`.

    Attributes
    ----------
    blocks : list of LabelNodes
    """

    def __init__(self, problem: MatrixProblem, order: MatrixOrder, level: int) -> None:
        if problem.sampled:
            raise ValueError(
                "boxes are for two classes, and for three if the loss is no hinge, which pulls "
                "many samples to the same gap: others take random points"
            )
        self.problem = problem
        self.blocks: list[LabelNodes] = []
        labels_of_group = range(problem.n_classes)
        for group in range(problem.n_groups):
            law = group_law(problem, order, group)
            probes = ProbePoints.around(problem, law, BOX_LEVELS[level].reach)
            if not problem.has_teacher:
                labels_of_group = range(group, group + 1)
            for label, (copies, probability) in product(labels_of_group, problem.copies):
                weight = copies * float(problem.class_weights[label])
                volume, pairs = _placed(problem, law, label, weight, probes, BOX_LEVELS[level])
                self.blocks.append(LabelNodes(group, label, probability * volume, pairs))

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
        Means over training samples, without class weights.
    mass : array, shape (G,)
        E 1, to be compared with the probability that a sample has a weight above 0, which is 1
        without resampling.
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
        """Return the averages over all groups, and the largest probability that nodes miss.

        The missed probability is that of samples. It is not an error of E ffᵀ, which callers bound
        by the change between levels.
        """
        shares = problem.population.group_shares
        whole = sum(probability for _, probability in problem.copies)
        return MatrixAverages(
            conjugates_of_means(problem, self.f, self.ff, self.stiffness, self.cross),
            float(self.loss @ shares),
            float(self.mistakes @ shares),
            float(np.abs(self.mass - whole).max()),
        )


class ProbePoints(NamedTuple):
    """Fields ω + b of one group, whose images in t show the range that the boxes must cover.

    Attributes
    ----------
    edges : array, shape (e, r)
        Fields at which a teacher's labels of two classes change. A narrow edge might go unseen
        otherwise.
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
        """Return break points along each axis, from the coordinates t (n, r) of all points.

        They are the ends of the image of each ellipse, the image of the mean, the kinks and the
        label's edges, as far as these lie within the image of the outermost ellipse.
        """
        n_edges = len(self.edges)
        at_edges = t[:n_edges]
        on_rings = t[n_edges:-1].reshape(self.rings.shape)
        ends = np.concatenate([on_rings.min(1), on_rings.max(1), t[-1:]])
        breaks = []
        for axis in range(t.shape[1]):
            points = np.concatenate([ends[:, axis], kinks, at_edges[:, axis]])
            inside = np.clip(points, ends[:, axis].min(), ends[:, axis].max())
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
    n_across = 5  # the edge itself, and two places on each side of it
    teacher_fields = width * np.linspace(-EDGE_WIDTHS, EDGE_WIDTHS, n_across)[:, None]
    teacher_intercepts = problem.population.offsets @ problem.basis  # b* (r,)
    return np.asarray(law.mean + (teacher_fields - teacher_intercepts) / slope)


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
    omega_plus_b = probes.all
    labels = np.full(len(omega_plus_b), label)
    weights = np.full(len(omega_plus_b), weight)
    pull = matrix_pull(loss, omega_plus_b, labels, law.V, weights)
    t = graph_coordinates(loss, label, pull.point, pull.f, weight)
    breaks = probes.breaks(t, kinks_in_coordinates(loss))
    if min(len(on_axis) for on_axis in breaks) < 2:
        raise np.linalg.LinAlgError("the trained fields have no spread")
    nodes, volume, values = smooth_boxes(
        _integrand(problem, law, label, weight),
        breaks,
        tol=accuracy.tol,
        order=accuracy.nodes_per_axis,
    )
    density = values[0]  # the first row of `_integrand`
    kept = volume * density > NEGLIGIBLE_PROBABILITY
    return volume[kept], proximal_graph(loss, label, nodes[kept], weight)


def _integrand(
    problem: MatrixProblem, law: GroupLaw, label: int, weight: float
) -> Callable[[Array], Array]:
    """Return t (n, r) → density, and density times f and −∂f/∂ω, shape (1 + r + r², n).

    Boxes are smooth for these. The other averages use the same nodes, and the change between levels
    shows their error.
    """

    def values(t: Array) -> Array:
        """Return the integrand at coordinates t (n, r)."""
        pairs = proximal_graph(problem.loss, label, t, weight)
        found = graph_values(problem, law, label, pairs, with_slopes=False)
        stiffness = found.stiffness.reshape(len(t), t.shape[1] ** 2)
        factors = np.concatenate([np.ones((len(t), 1)), pairs.f, stiffness], axis=1)
        return np.asarray(found.density * factors.T)

    return values
