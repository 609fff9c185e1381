"""What a linear rule scores on a population, from the law of its fields.

In group c, of share p_c, the student's fields on class differences are ω ~ N(m_c, Q_c) (r = k − 1
dimensions, basis T of `difference_basis`), and it answers with argmax T(ω + b):

    confusion P(t, p) = Σ_c p_c E 1[p leads] Z_t(ω),    Z_t the chance of label t given ω:
        a mixture   1[t = c]
        a teacher   fields z ~ N(0, R) with Cov(ω, z) = M and biases b*: the channel's at mean
                    b* + MᵀQ⁻¹ω and covariance R − MᵀQ⁻¹M

    error Σ_{p≠t} P(t, p),   balanced error (1/k) Σ_t P(t, ≠ t)/P(t),   recall, precision
    test loss −E Σ_t Z_t ln p_t,  Brier score

p leads where its gaps g_h = (ω + b)_p − (ω + b)_h are all positive: an orthant (`numerics.panels`).
Mixtures of two and three classes, and two classes with Gaussian utilities, are orthants in closed
form, every small probability to digits of its own; other averages at k ≤ 3 are panels inside each
orthant. Above, points are random inside it, or inside that of p and a label t among the utilities
z + noise (2r dimensions), and all those of a label are given the label's known share.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import block_diag
from scipy.special import ndtri

from polyceptron.model.channels import Channel
from polyceptron.model.channels.correlated import label_chances
from polyceptron.model.checks import difference_basis
from polyceptron.model.estimators import Probabilities
from polyceptron.model.populations.population import numbers_text
from polyceptron.numerics import Array
from polyceptron.numerics.estimate import (
    N_REPLICATES,
    Estimate,
    from_replicates,
    uniform_replicates,
)
from polyceptron.numerics.orthant import orthant_chance
from polyceptron.numerics.panels import Line, panel_nodes, rarest_first, truncated_nodes

_SEED = 23
_ORDERS = (8, 12)  # nodes of a panel
_POINTS = (6, 12)  # log2, of a replicate
_BIN_POINTS = 12  # of a replicate, less k, for bins of confidence
_FLAT = 1e-11  # of the trace: a variance that stands for 0
_NOTHING = 1e-6  # the same where nothing varies
_SMOOTH = 3.0  # the scale in fields over which a softmax changes


class TeacherFields(NamedTuple):
    """Cov(ω, z) = M (r, r), Var z = R (r, r), b* (r,), all on class differences, and the noise."""

    cross: Array
    covariance: Array
    biases: Array
    channel: Channel


@dataclass(frozen=True)
class FieldsLaw:
    """Of groups: shares (G,), m_c (G, r), Q_c (G, r, r); b (r,); V_c (G, r, r) of a fixed point.

    All on class differences, T(ω + b) are the class fields. G is k for a mixture, whose label is
    the group, and 1 for a teacher (m = 0).
    """

    shares: Array
    m: Array
    Q: Array
    b: Array
    teacher: TeacherFields | None = None
    V: Array | None = None

    @property
    def M(self) -> Array | None:
        """Cov(ω, z) (r, r) with a teacher's fields."""
        return None if self.teacher is None else self.teacher.cross

    @property
    def R(self) -> Array | None:
        """Their covariance (r, r)."""
        return None if self.teacher is None else self.teacher.covariance

    def shifted(self, shift: Array) -> FieldsLaw:
        """The same with b + shift (r,)."""
        return replace(self, b=self.b + shift)

    @property
    def n_classes(self) -> int:
        """k."""
        return len(self.b) + 1


@dataclass(frozen=True)
class PopulationScores:
    """Each a value with its uncertainty; `confusion` (k, k) is P(label, predicted)."""

    confusion: Estimate
    error: Estimate
    balanced_error: Estimate
    recall: Estimate  # (k,)
    precision: Estimate  # (k,), NaN for a class that is never answered
    shares: Estimate  # (k,), of the labels
    test_loss: Estimate | None = None
    brier: Estimate | None = None

    @property
    def columns(self) -> dict[str, Any]:
        """Of a row."""
        columns = {
            "generalisation_error": float(self.error.value),
            "uncertainty": float(self.error.uncertainty),
            "balanced_error": float(self.balanced_error.value),
            "balanced_error_uncertainty": float(self.balanced_error.uncertainty),
            "recall": numbers_text(self.recall.value),
            "confusion": numbers_text(self.confusion.value),
        }
        if self.test_loss is None or self.brier is None:
            return columns
        loss, unsure = map(float, self.test_loss)
        scores = {"test_loss": loss, "test_loss_uncertainty": unsure}
        return {**columns, **scores, "brier": float(self.brier.value)}


def population_scores(
    law: FieldsLaw,
    probabilities: Probabilities | None = None,
    tol: float = 3e-4,
    near: FieldsLaw | None = None,
) -> PopulationScores:
    """Scores of the rule argmax(ω + b) on fresh samples.

    Parameters
    ----------
    law : FieldsLaw
    probabilities : callable, optional
        Fields (n, k) → class probabilities (n, k); with them come test loss and Brier score.
    tol : float
        Of the error, where it is sampled: for k ≥ 4, and the softmax teacher at k = 3. Points are
        added until it is met, or until there are 65,000 in each orthant; infinite: 128 of them,
        and one rule elsewhere.
    near : FieldsLaw, optional
        A law with which this one is compared: random points are placed as there.

    Examples
    --------
    >>> even, one = np.array([0.5, 0.5]), np.ones((2, 1, 1))
    >>> law = FieldsLaw(even, np.array([[1.0], [-1.0]]), one, np.zeros(1))
    >>> round(float(population_scores(law).error.value), 6)
    0.158655
    """
    law = _regular(law)
    if _is_sampled(law):
        log2, few = _POINTS[0], 2 if math.isinf(tol) else N_REPLICATES
        while True:
            found = _average(law, _sampled(law, log2, few, near), probabilities)
            scores = _from(found, None, probabilities is not None)
            over = float(scores.error.uncertainty) / tol
            if not over > 1 or log2 == _POINTS[1]:
                return scores
            log2 = min(log2 + math.ceil(math.log2(over)), _POINTS[1])
    exact, orders = _closed_confusion(law), _ORDERS[1:] if math.isinf(tol) else _ORDERS
    levels: list[dict[str, Array]] = [{} for _ in orders]
    if exact is None or probabilities is not None:
        levels = [_average(law, _panels(law, o), probabilities) for o in orders]
    if exact is not None:
        for level in levels:
            level["confusion"] = exact[None]
    return _from(levels[-1], levels[0], probabilities is not None)


def leading_nodes(law: FieldsLaw) -> tuple[Array, Array, Array]:
    """Fields (n, k), the leader's first, weights (R, n/R), and Z (n, k), at random points."""
    k, found = law.n_classes, []
    for part in _sampled(_regular(law), max(_BIN_POINTS - k, 7)):
        order = np.argsort(np.arange(k) != part.leader, kind="stable")
        shape = (*part.weight.shape, k)
        both = [each[:, order].reshape(shape) for each in (part.fields, part.truth)]
        found.append((both[0], part.weight, both[1]))
    fields, weight, truth = (np.concatenate(each, 1) for each in zip(*found, strict=True))
    return fields.reshape(-1, k), weight, truth.reshape(-1, k)


def _is_sampled(law: FieldsLaw) -> bool:
    channel = None if law.teacher is None else law.teacher.channel
    smooth = channel is not None and channel.utility_variance is None
    return law.n_classes > 3 or (law.n_classes == 3 and smooth)


def _regular(law: FieldsLaw) -> FieldsLaw:
    """Covariances with a hint of variance in every direction: a flat orthant has no density."""
    return replace(law, Q=_lifted(law.Q))


def _lifted(covariance: Array) -> Array:
    values, vectors = np.linalg.eigh(covariance)
    least = _FLAT * (values.sum(-1, keepdims=True) + _NOTHING)
    if (values >= least).all():
        return covariance
    return np.asarray(
        (vectors * np.maximum(values, least)[..., None, :]) @ vectors.swapaxes(-1, -2)
    )


class _Part(NamedTuple):
    """Nodes where p leads, with the fields (n, k) up to a shift, weights and Z (n, k)."""

    leader: int
    fields: Array
    weight: Array
    truth: Array


def _ways(k: int, leader: int) -> Array:
    """(r, r): from class differences to the gaps of the leader with the others."""
    T = difference_basis(k)
    return np.asarray(T[leader] - np.delete(T, leader, 0))


def _panels(law: FieldsLaw, order: int) -> Iterator[_Part]:
    """Two or three classes: panels inside each orthant."""
    k, r = law.n_classes, law.n_classes - 1
    lines = [Line(n, 0.0, _SMOOTH) for n in (np.eye(r) if r == 1 else [*np.eye(2), [1.0, -1.0]])]
    lines = [l._replace(normal=np.asarray(l.normal)) for l in lines]
    for c, p, mean, covariance in _orthants(law):
        A = _ways(k, p)
        nodes = panel_nodes(mean, covariance, lines + _label_lines(law, c, A), order)
        if law.teacher is None:
            truth = np.broadcast_to(np.eye(k)[c], (len(nodes.points), k))
        else:
            at = np.linalg.solve(A, nodes.points.T).T - law.b
            slope, rest = _given(law, c)
            means = law.teacher.biases + (at - law.m[c]) @ slope
            truth = label_chances(law.teacher.channel, means, rest).Z
        yield _part(p, nodes.points, law.shares[c] * nodes.weight, truth)


def _orthants(law: FieldsLaw) -> Iterator[tuple[int, int, Array, Array]]:
    """Group, leader, and the law of its gaps."""
    for c in range(len(law.shares)):
        for p in range(law.n_classes):
            A = _ways(law.n_classes, p)
            yield c, p, A @ (law.m[c] + law.b), A @ law.Q[c] @ A.T


def _part(p: int, gaps: Array, weight: Array, truth: Array) -> _Part:
    return _Part(p, np.insert(-gaps, p, 0.0, axis=1), weight, np.asarray(truth))


def _given(law: FieldsLaw, group: int) -> tuple[Array, Array]:
    """Q⁻¹M, and the covariance of z given ω."""
    assert law.teacher is not None
    M, R = law.teacher.cross, law.teacher.covariance
    slope = np.linalg.solve(law.Q[group], M)
    rest = R - M.T @ slope
    return slope, (rest + rest.T) / 2


def _label_lines(law: FieldsLaw, group: int, A: Array) -> list[Line]:
    """Where two labels of a teacher are equally likely, in the gaps g = A(ω + b)."""
    if law.teacher is None:
        return []
    k, lines = law.n_classes, []
    slope, rest = _given(law, group)
    back = np.linalg.inv(A)
    noise = 2 * law.teacher.channel.width(0.0) ** 2
    for t in range(k):
        for h in range(t):
            way = _ways(k, t)[h if h < t else h - 1]
            normal = way @ slope.T @ back
            start = way @ (law.teacher.biases - slope.T @ (law.b + law.m[group]))
            width = math.sqrt(max(float(way @ rest @ way), 0.0) + noise)
            lines.append(Line(normal, float(start), max(width, 1e-9)))
    return lines


def _sampled(
    law: FieldsLaw, log2: int, replicates: int = N_REPLICATES, near: FieldsLaw | None = None
) -> Iterator[_Part]:
    """Any number of classes: random points inside each orthant, with coordinates as for `near`."""
    k, r, teacher = law.n_classes, law.n_classes - 1, law.teacher
    u = uniform_replicates(r if teacher is None else 2 * r, log2, _SEED, replicates)
    if teacher is not None and teacher.channel.utility_variance is None:
        placed = _orthants(law if near is None else near)
        for (c, p, mean, spread), (_, _, *there) in zip(_orthants(law), placed, strict=True):
            nodes = truncated_nodes(mean, spread, u[..., :r], rarest_first(*there))
            at = np.linalg.solve(_ways(k, p), nodes.points.T).T - law.b
            yield _part(p, nodes.points, nodes.weight, drawn_chances(law, c, at, u[..., r:]))
        return
    shares, truths = law.shares, np.eye(k)
    if teacher is not None:
        a = teacher.channel.guess(k)
        known = label_chances(teacher.channel, teacher.biases[None], teacher.covariance).Z[0]
        shares, truths = (known - a) / (1 - k * a), a + (1 - k * a) * truths
    for t in range(k):
        found = []
        for p in range(k):
            order = rarest_first(*_joint_gaps(law if near is None else near, t, p))
            mean, spread = _joint_gaps(law, t, p)
            found.append(truncated_nodes(mean, spread, u, order))
        scale = shares[t] / sum(nodes.weight.sum(1) for nodes in found)
        for p, nodes in enumerate(found):
            truth = np.broadcast_to(truths[t], (nodes.weight.size, k))
            yield _part(p, nodes.points[:, :r], scale[:, None] * nodes.weight, truth)


def _joint_gaps(law: FieldsLaw, label: int, leader: int) -> tuple[Array, Array]:
    """Mean and covariance of the leader's gaps in a group, or of both leaders' with a teacher."""
    A, r, teacher = _ways(law.n_classes, leader), law.n_classes - 1, law.teacher
    if teacher is None:
        return A @ (law.m[label] + law.b), A @ law.Q[label] @ A.T
    utilities = teacher.covariance + (teacher.channel.utility_variance or 0.0) * np.eye(r)
    joint = np.block([[law.Q[0], teacher.cross], [teacher.cross.T, utilities]])
    both = block_diag(A, _ways(law.n_classes, label))
    mean = both @ np.append(law.m[0] + law.b, teacher.biases)
    return mean, both @ _lifted(joint) @ both.T


def drawn_chances(law: FieldsLaw, group: int, omega: Array, u: Array) -> Array:
    """Z (n, k) at ω (n, r), unbiased: the channel's at fields of the teacher drawn by u (…, r)."""
    teacher, r = law.teacher, law.n_classes - 1
    assert teacher is not None
    slope, rest = _given(law, group)
    values, vectors = np.linalg.eigh(rest)
    # The symmetric root moves with the law; eigenvectors of alike eigenvalues turn at random.
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    z = ndtri(u).reshape(-1, r) @ root + teacher.biases + (omega - law.m[group]) @ slope
    return teacher.channel.chances(z @ difference_basis(r + 1).T)


def _average(
    law: FieldsLaw,
    parts: Iterator[_Part],
    probabilities: Probabilities | None,
) -> dict[str, Array]:
    """Sums over parts, each with a first axis of replicates."""
    k = law.n_classes
    sums: dict[str, Array] = {}
    for part in parts:
        weight = part.weight
        n, flat = len(weight), weight.ravel()
        if not sums:
            sums = {"confusion": np.zeros((n, k, k)), "scores": np.zeros((n, 2))}
        each = (flat[:, None] * part.truth).reshape(n, -1, k)
        sums["confusion"][:, :, part.leader] += each.sum(1)
        if probabilities is None:
            continue
        P = probabilities(part.fields)
        loss = -(part.truth * np.log(np.maximum(P, 1e-300))).sum(1)
        brier = (P * P).sum(1) - 2 * (part.truth * P).sum(1) + 1
        for i, score in enumerate((loss, brier)):
            sums["scores"][:, i] += (weight * score.reshape(weight.shape)).sum(1)
    return sums


def _closed_confusion(law: FieldsLaw) -> Array | None:
    """P(t, p) (k, k) of two or three classes where it is a product of orthants."""
    k = law.n_classes
    confusion = np.zeros((k, k))
    if law.teacher is None:
        for c, p, mean, covariance in _orthants(law):
            confusion[c, p] = law.shares[c] * orthant_chance(mean, covariance)
        return confusion
    channel, T = law.teacher.channel, difference_basis(k)
    added = channel.utility_variance
    if k > 2 or added is None:
        return None
    M, R = law.teacher.cross, law.teacher.covariance
    joint = np.block([[law.Q[0], M], [M.T, R + added]])
    mean = np.concatenate([law.m[0] + law.b, law.teacher.biases])
    signs = np.sign(T[:, 0])
    for p in range(2):
        for t in range(2):
            way = np.diag([signs[p], signs[t]])
            confusion[t, p] = orthant_chance(way @ mean, way @ joint @ way)
    a = channel.guess(2)
    return np.asarray((1 - 2 * a) * confusion + a * confusion.sum(0))


def _from(
    found: dict[str, Array], coarse: dict[str, Array] | None, scored: bool
) -> PopulationScores:
    """Scores of sums with replicates, or of two levels of a rule."""

    def estimate(values: Array, before: Array | None) -> Estimate:
        if before is None:
            return from_replicates(values, axis=0)
        return Estimate(values[0], np.abs(values[0] - before[0]) + 1e-13)

    made = [_ratios(each["confusion"]) for each in (found, coarse) if each is not None]
    names = {
        name: estimate(value, made[-1][name] if coarse is not None else None)
        for name, value in made[0].items()
    }
    if scored:
        old = None if coarse is None else coarse["scores"]
        for i, name in enumerate(("test_loss", "brier")):
            names[name] = estimate(found["scores"][:, i], None if old is None else old[:, i])
    return PopulationScores(**names)


def _ratios(confusion: Array) -> dict[str, Array]:
    """Of P(label, predicted) (R, k, k)."""
    k = confusion.shape[1]
    wrong, shares = confusion * (1 - np.eye(k)), confusion.sum(2)
    right = np.einsum("rkk->rk", confusion)
    with np.errstate(invalid="ignore", divide="ignore"):
        return {
            "confusion": confusion,
            "error": wrong.sum((1, 2)),
            "balanced_error": (wrong.sum(2) / shares).mean(1),
            "recall": right / shares,
            "precision": right / confusion.sum(1),
            "shares": shares,
        }
