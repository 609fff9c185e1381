"""Nodes of fresh samples' fields, one orthant after the other: where each class leads.

Class p leads where its gaps g_h = (ω + b)_p − (ω + b)_h are all positive. The label has the chance
Z_t(ω) given the fields:

    a mixture   1[t = c]
    a teacher   the channel's at mean b* + MᵀQ⁻¹(ω − m) and covariance R − MᵀQ⁻¹M

Two and three classes: panels inside each orthant. Above, points are random inside it, or inside
that of p and a label t among the utilities z + noise (2r dimensions), and all those of a label are
given the label's known share.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from polyceptron.checks import class_gaps, difference_basis
from polyceptron.numerics import Array
from polyceptron.numerics.estimate import N_REPLICATES, uniform_replicates
from polyceptron.numerics.orthant_nodes import Line, panel_nodes, rarest_first, truncated_nodes
from polyceptron.problem.channels.correlated import label_chances
from polyceptron.sides.fields_law import FieldsDistribution, with_some_variance

POINTS_SEED = 23
N_COORDINATES_AT_ONCE = 100_000  # of random points: bounds memory
SOFTMAX_SCALE = 3.0  # the scale in fields over which a softmax changes
SMALLEST_LABEL_WIDTH = 1e-9


class LeaderNodes(NamedTuple):
    """Nodes where one class leads.

    Attributes
    ----------
    leader : int
    fields : array, shape (n, k)
        T(ω + b) up to a common shift: that of the leader is 0.
    weight : array, shape (R, n/R)
        In R replicates; over all orthants they sum to 1 in each.
    truth : array, shape (n, k) or (1, k)
        Z at the nodes, or of all of them.
    """

    leader: int
    fields: Array
    weight: Array
    truth: Array


def fields_of_gaps(gaps: Array, leader: int) -> Array:
    """Return fields (n, k) whose leader is 0, from its gaps (n, r) over the others."""
    return np.insert(-gaps, leader, 0.0, axis=1)


class GapLaw(NamedTuple):
    """Means (k, s) and covariances (k, s, s) of the gaps of each leader, Gaussian."""

    mean: Array
    covariance: Array


def gaps_of_leaders(law: FieldsDistribution, group: int) -> GapLaw:
    """Return the law of the gaps of each leader in a group, s = r."""
    k = law.n_classes
    A = np.stack([class_gaps(k, leader) for leader in range(k)])
    mean = A @ (law.m[group] + law.b)
    return GapLaw(mean, A @ law.Q[group] @ A.swapaxes(1, 2))


def gaps_of_leaders_and_label(law: FieldsDistribution, label: int) -> GapLaw:
    """Return the law of the gaps of each leader and those of a label's utility, s = 2r."""
    assert law.teacher is not None
    k = law.n_classes
    r = k - 1
    teacher = law.teacher
    utilities = teacher.covariance + (teacher.channel.utility_variance or 0.0) * np.eye(r)
    joint = np.block([[law.Q[0], teacher.cross], [teacher.cross.T, utilities]])
    # In units of both fields: a large student's are nearly a function of the teacher's.
    unit = np.repeat(np.sqrt([np.trace(law.Q[0]), np.trace(utilities)]), r)
    units = np.outer(unit, unit)
    joint = units * with_some_variance(joint / units)
    mean = np.append(law.m[0] + law.b, teacher.biases)
    A = np.zeros((k, 2 * r, 2 * r))
    for leader in range(k):
        A[leader, :r, :r] = class_gaps(k, leader)
        A[leader, r:, r:] = class_gaps(k, label)
    return GapLaw(A @ mean, A @ joint @ A.swapaxes(1, 2))


def panels_of_leaders(
    law: FieldsDistribution, order: int, with_labels: bool = True
) -> Iterator[LeaderNodes]:
    """Yield panels inside each orthant of two or three classes.

    Parameters
    ----------
    law : FieldsDistribution
    order : int
        Nodes of a panel.
    with_labels : bool
        Whether the labels of a teacher are computed.
    """
    k = law.n_classes
    for c, share in enumerate(law.shares):
        gaps = gaps_of_leaders(law, c)
        for leader in range(k):
            lines = _softmax_lines(k) + _label_lines(law, c, leader)
            nodes = panel_nodes(gaps.mean[leader], gaps.covariance[leader], lines, order)
            truth = np.eye(k)[[c]]
            if law.teacher is not None and with_labels:
                omega = np.linalg.solve(class_gaps(k, leader), nodes.points.T).T - law.b
                truth = _chances_at(law, c, omega)
            fields = fields_of_gaps(nodes.points, leader)
            yield LeaderNodes(leader, fields, share * nodes.weight, truth)


def _softmax_lines(k: int) -> list[Line]:
    """Return lines across which a softmax changes: ties of a class with the leader, or of two."""
    normals = [[1.0]]
    if k == 3:
        normals = [[1.0, 0.0], [0.0, 1.0], [1.0, -1.0]]
    return [Line(np.array(normal), 0.0, SOFTMAX_SCALE) for normal in normals]


def _label_lines(law: FieldsDistribution, group: int, leader: int) -> list[Line]:
    """Return lines in the leader's gaps where two labels of a teacher are equally likely."""
    if law.teacher is None:
        return []
    T = difference_basis(law.n_classes)
    slope, remaining = law.teacher_given_fields(group)
    to_omega = np.linalg.inv(class_gaps(law.n_classes, leader))
    noise = 2 * law.teacher.channel.width(0.0) ** 2
    mean_at_zero_gaps = law.teacher.biases - slope.T @ (law.b + law.m[group])
    lines = []
    for t in range(law.n_classes):
        for difference in T[t] - T[:t]:
            variance = max(float(difference @ remaining @ difference), 0.0)
            width = max(math.sqrt(variance + noise), SMALLEST_LABEL_WIDTH)
            offset = float(difference @ mean_at_zero_gaps)
            lines.append(Line(difference @ slope.T @ to_omega, offset, width))
    return lines


def _chances_at(law: FieldsDistribution, group: int, omega: Array) -> Array:
    """Return Z (n, k) of a teacher at ω (n, r)."""
    assert law.teacher is not None
    slope, remaining = law.teacher_given_fields(group)
    means = law.teacher.biases + (omega - law.m[group]) @ slope
    return label_chances(law.teacher.channel, means, remaining, kind="plain").Z


class Stratum(NamedTuple):
    """Samples that are drawn together: those of a group, or of one label.

    Attributes
    ----------
    group : int
    label : int, optional
        Whose utility leads; without it the label is not drawn.
    share : float, optional
        The known share of these samples; without it points weigh as they come.
    truth : array, shape (1, k), optional
        Z of all of them; without it Z depends on the fields.
    """

    group: int
    label: int | None
    share: float | None
    truth: Array | None

    def gaps(self, law: FieldsDistribution) -> GapLaw:
        """Return the law of the gaps that are positive, for each leader."""
        if self.label is None:
            return gaps_of_leaders(law, self.group)
        return gaps_of_leaders_and_label(law, self.label)


def _strata(law: FieldsDistribution) -> list[Stratum]:
    """Return the groups of a mixture, the labels of Gaussian utilities, or one of all samples."""
    k = law.n_classes
    eye = np.eye(k)
    if law.teacher is None:
        return [Stratum(c, None, float(law.shares[c]), eye[[c]]) for c in range(k)]
    channel = law.teacher.channel
    if channel.utility_variance is None:
        return [Stratum(0, None, None, None)]
    guess = channel.guess(k)
    chances = label_chances(channel, law.teacher.biases[None], law.teacher.covariance).Z[0]
    led = (chances - guess) / (1 - k * guess)
    truth = guess + (1 - k * guess) * eye
    return [Stratum(0, t, float(led[t]), truth[[t]]) for t in range(k)]


def points_of_leaders(
    law: FieldsDistribution,
    log2: int,
    replicates: int = N_REPLICATES,
    near: FieldsDistribution | None = None,
) -> Iterator[LeaderNodes]:
    """Yield random points inside each orthant, of any number of classes.

    Parameters
    ----------
    law : FieldsDistribution
    log2 : int
        log2 of the points in each orthant and replicate.
    replicates : int
    near : FieldsDistribution, optional
        A law whose order of coordinates is taken, so that both have comparable points.
    """
    dimension = law.n_classes - 1
    if law.teacher is not None:
        dimension = 2 * dimension
    u = uniform_replicates(dimension, log2, POINTS_SEED, replicates)
    for stratum in _strata(law):
        yield from _points_of_stratum(law, stratum, u, near or law)


def _points_of_stratum(
    law: FieldsDistribution, stratum: Stratum, u: Array, near: FieldsDistribution
) -> Iterator[LeaderNodes]:
    """Yield points of one stratum from uniform ones u (R, n, r or 2r)."""
    k = law.n_classes
    r = k - 1
    gaps = stratum.gaps(law)
    order = rarest_first(*stratum.gaps(near))
    own_u = u[..., : gaps.mean.shape[1]]
    n_parts = min(k, 1 + k * own_u.size // N_COORDINATES_AT_ONCE)
    parts = [
        truncated_nodes(gaps.mean[leaders], gaps.covariance[leaders], own_u, order[leaders])
        for leaders in np.array_split(np.arange(k), n_parts)
    ]
    points = [points for nodes in parts for points in nodes.points]
    weights = [weight for nodes in parts for weight in nodes.weight]
    if stratum.share is not None:
        total = sum(weight.sum(1, keepdims=True) for weight in weights)
        weights = [stratum.share / total * weight for weight in weights]
    for leader in range(k):
        own_gaps = points[leader][:, :r]
        truth = stratum.truth
        if truth is None:
            omega = np.linalg.solve(class_gaps(k, leader), own_gaps.T).T - law.b
            truth = drawn_chances(law, 0, omega, u[..., r:])
        yield LeaderNodes(leader, fields_of_gaps(own_gaps, leader), weights[leader], truth)


def drawn_chances(law: FieldsDistribution, group: int, omega: Array, u: Array) -> Array:
    """Return unbiased estimates of Z (n, k) at ω (n, r), from uniform u (…, r), n in all.

    They are the channel's chances at fields of the teacher that are drawn by u.
    """
    assert law.teacher is not None
    r = law.n_classes - 1
    slope, remaining = law.teacher_given_fields(group)
    values, vectors = np.linalg.eigh(remaining)
    # The symmetric root moves with the law; eigenvectors of nearly equal eigenvalues do not.
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    mean = law.teacher.biases + (omega - law.m[group]) @ slope
    z = mean + ndtri(u).reshape(-1, r) @ root
    return law.teacher.channel.chances(z @ difference_basis(r + 1).T)
