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
from scipy.special import ndtri

from polyceptron.checks import class_gaps, difference_basis
from polyceptron.numerics import Array
from polyceptron.numerics.bivariate import orthant_chance
from polyceptron.numerics.estimate import (
    N_REPLICATES,
    Estimate,
    estimate_from_replicates,
    uniform_replicates,
)
from polyceptron.numerics.orthant_nodes import Line, panel_nodes, rarest_first, truncated_nodes
from polyceptron.problem.channels import Channel
from polyceptron.problem.channels.correlated import label_chances
from polyceptron.problem.population import numbers_text
from polyceptron.problem.specs import Probabilities

_SEED = 23
_ORDERS, _QUICK, _EASY = (8, 12), (5, 7), 1e-7  # nodes of a panel; what few of three classes leave
_POINTS = (6, 12)  # log2, of a replicate
_BIN_POINTS = 12  # of a replicate, less k, for bins of confidence
_FLAT = 1e-11  # of the trace: a variance that stands for 0
_NOTHING = 1e-6  # the same where nothing varies
_AT_ONCE = 100_000  # coordinates of points
_SMOOTH = 3.0  # the scale in fields over which a softmax changes


class TeacherFields(NamedTuple):
    """Cov(ω, z) = M (r, r), Var z = R (r, r), b* (r,), all on class differences, and the noise."""

    cross: Array
    covariance: Array
    biases: Array
    channel: Channel


@dataclass(frozen=True)
class FieldsDistribution:
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

    def shifted(self, shift: Array) -> FieldsDistribution:
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
        """Return the columns of a result row by name, with their uncertainties."""
        scored = {"generalisation_error": self.error, "balanced_error": self.balanced_error}
        scored |= {} if self.test_loss is None else {"test_loss": self.test_loss}
        columns: dict[str, Any] = {}
        for name, (value, spread) in scored.items():
            bar = f"{name}_uncertainty".removeprefix("generalisation_error_")
            columns |= {name: float(value), bar: float(spread)}
        if self.brier is not None:
            columns["brier"] = float(self.brier.value)
        shown = {"recall": self.recall, "confusion": self.confusion}
        return columns | {name: numbers_text(each.value) for name, each in shown.items()}


def population_scores(
    law: FieldsDistribution,
    probabilities: Probabilities | None = None,
    tol: float = 3e-4,
    near: FieldsDistribution | None = None,
) -> PopulationScores:
    """Scores of the rule argmax(ω + b) on fresh samples.

    Parameters
    ----------
    law : FieldsDistribution
    probabilities : callable, optional
        Fields (n, k) → class probabilities (n, k); with them come test loss and Brier score.
    tol : float
        Of the error, where it is sampled: for k ≥ 4. Points are added until it is met, or until
        there are 65,000 in each orthant; infinite: 64 of them, and one rule elsewhere.
    near : FieldsDistribution, optional
        A law with which this one is compared: random points are placed as there.

    Examples
    --------
    >>> even, one = np.array([0.5, 0.5]), np.ones((2, 1, 1))
    >>> law = FieldsDistribution(even, np.array([[1.0], [-1.0]]), one, np.zeros(1))
    >>> round(float(population_scores(law).error.value), 6)
    0.158655
    """
    law = replace(law, Q=lifted(law.Q))
    near = None if near is None else replace(near, Q=lifted(near.Q))
    if law.n_classes > 3:
        log2, few = _POINTS[0], 1 if math.isinf(tol) else N_REPLICATES
        while True:
            scores = scores_of(_average(law, _sampled(law, log2, few, near), probabilities))
            over = float(scores.error.uncertainty) / tol
            if not over > 1 or log2 == _POINTS[1]:
                return scores
            log2 = min(log2 + math.ceil(math.log2(over)), _POINTS[1])
    exact, easy = _closed_confusion(law), law.n_classes == 3 and tol > _EASY
    if exact is not None and probabilities is None:
        return scores_of(*([(exact[None], None)] * 2))
    orders = (_QUICK if easy else _ORDERS)[: 1 if math.isinf(tol) else 2]
    levels = [_average(law, orthant_panels(law, order), probabilities) for order in orders]
    return scores_of(*(each if exact is None else (exact[None], each[1]) for each in levels))


def leading_nodes(law: FieldsDistribution) -> tuple[Array, Array, Array]:
    """Fields (n, k), the leader's first, weights (R, n/R), and Z (n, k), at random points."""
    k, found = law.n_classes, []
    law = replace(law, Q=lifted(law.Q))
    for leader, fields, weight, truth in _sampled(law, max(_BIN_POINTS - k, 7)):
        order = np.argsort(np.arange(k) != leader, kind="stable")
        truth = np.broadcast_to(truth, fields.shape)
        both = [each[:, order].reshape(*weight.shape, k) for each in (fields, truth)]
        found.append((both[0], weight, both[1]))
    fields, weight, truth = (np.concatenate(each, 1) for each in zip(*found, strict=True))
    return fields.reshape(-1, k), weight, truth.reshape(-1, k)


def lifted(covariance: Array) -> Array:
    """Return covariances with some variance in each direction: flat ones have no density."""
    values, vectors = np.linalg.eigh(covariance)
    least = _FLAT * (values.sum(-1, keepdims=True) + _NOTHING)
    if (values >= least).all():
        return covariance
    return (vectors * np.maximum(values, least)[..., None, :]) @ vectors.swapaxes(-1, -2)


# Where p leads: p, fields (n, k) up to a shift, weights (R, n/R) and Z (n, k), or one row for all.
_Part = tuple[int, Array, Array, Array]


def _gaps(law: FieldsDistribution, group: int, label: int | None = None) -> tuple[Array, Array]:
    """Mean (k, r) and covariance of each leader's gaps; (k, 2r), with a `label`'s of utilities."""
    k, r, teacher = law.n_classes, law.n_classes - 1, law.teacher
    ways = np.stack([class_gaps(k, p) for p in range(k)])
    mean, covariance = law.m[group] + law.b, law.Q[group]
    if label is not None and teacher is not None:
        utilities = teacher.covariance + (teacher.channel.utility_variance or 0.0) * np.eye(r)
        joint = np.block([[covariance, teacher.cross], [teacher.cross.T, utilities]])
        mean, covariance = np.append(mean, teacher.biases), lifted(joint)
        one, ways = ways, np.zeros((k, 2 * r, 2 * r))
        ways[:, :r, :r], ways[:, r:, r:] = one, one[label]
    return ways @ mean, ways @ covariance @ ways.swapaxes(1, 2)


def orthant_panels(law: FieldsDistribution, order: int, told: bool = True) -> Iterator[_Part]:
    """Two or three classes: panels inside each orthant; a teacher's labels if they are `told`."""
    k, r = law.n_classes, law.n_classes - 1
    normals = np.eye(1) if r == 1 else np.array([[1.0, 0.0], [0.0, 1.0], [1.0, -1.0]])
    lines = [Line(normal, 0.0, _SMOOTH) for normal in normals]
    for c, share in enumerate(law.shares):
        for p, (mean, covariance) in enumerate(zip(*_gaps(law, c), strict=True)):
            A = class_gaps(k, p)
            nodes = panel_nodes(mean, covariance, lines + _label_lines(law, c, A), order)
            if law.teacher is None or not told:
                truth = np.eye(k)[[c]]
            else:
                at = np.linalg.solve(A, nodes.points.T).T - law.b
                slope, rest = _given(law, c)
                means = law.teacher.biases + (at - law.m[c]) @ slope
                truth = label_chances(law.teacher.channel, means, rest, kind="plain").Z
            yield p, np.insert(-nodes.points, p, 0.0, axis=1), share * nodes.weight, truth


def _given(law: FieldsDistribution, group: int) -> tuple[Array, Array]:
    """Q⁻¹M, and the covariance of z given ω."""
    assert law.teacher is not None
    M, R = law.teacher.cross, law.teacher.covariance
    slope = np.linalg.solve(law.Q[group], M)
    rest = R - M.T @ slope
    return slope, (rest + rest.T) / 2


def _label_lines(law: FieldsDistribution, group: int, A: Array) -> list[Line]:
    """Where two labels of a teacher are equally likely, in the gaps g = A(ω + b)."""
    if law.teacher is None:
        return []
    T, lines = difference_basis(law.n_classes), []
    slope, rest = _given(law, group)
    back = np.linalg.inv(A)
    noise = 2 * law.teacher.channel.width(0.0) ** 2
    for t in range(law.n_classes):
        for way in T[t] - T[:t]:
            start = way @ (law.teacher.biases - slope.T @ (law.b + law.m[group]))
            width = math.sqrt(max(float(way @ rest @ way), 0.0) + noise)
            lines.append(Line(way @ slope.T @ back, float(start), max(width, 1e-9)))
    return lines


def _sampled(
    law: FieldsDistribution,
    log2: int,
    replicates: int = N_REPLICATES,
    near: FieldsDistribution | None = None,
) -> Iterator[_Part]:
    """Any number of classes: random points inside each orthant, with coordinates as for `near`."""
    k, r, teacher = law.n_classes, law.n_classes - 1, law.teacher
    u = uniform_replicates(r if teacher is None else 2 * r, log2, _SEED, replicates)
    shares, truths = law.shares, np.eye(k)
    labels: list[Any] = [(c,) for c in range(len(shares))]
    smooth = teacher is not None and teacher.channel.utility_variance is None
    if teacher is not None and not smooth:
        a, labels = teacher.channel.guess(k), [(0, t) for t in range(k)]
        known = label_chances(teacher.channel, teacher.biases[None], teacher.covariance).Z[0]
        shares, truths = (known - a) / (1 - k * a), a + (1 - k * a) * truths
    for t, label in enumerate(labels):
        order = rarest_first(*_gaps(near or law, *label))
        mean, spread = _gaps(law, *label)
        at = u[..., : mean.shape[1]]
        parts = np.array_split(np.arange(k), min(k, 1 + k * at.size // _AT_ONCE))
        found = [truncated_nodes(mean[i], spread[i], at, order[i]) for i in parts]
        weights = [weight for nodes in found for weight in nodes.weight]
        scale = 1.0 if smooth else shares[t] / sum(w.sum(1, keepdims=True) for w in weights)
        for leader, points in enumerate(each for nodes in found for each in nodes.points):
            weight, truth = scale * weights[leader], truths[[t]]
            if smooth:
                back = np.linalg.solve(class_gaps(k, leader), points.T).T - law.b
                truth = drawn_chances(law, 0, back, u[..., r:])
            yield leader, np.insert(-points[:, :r], leader, 0.0, axis=1), weight, truth


def drawn_chances(law: FieldsDistribution, group: int, omega: Array, u: Array) -> Array:
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
    law: FieldsDistribution, parts: Iterator[_Part], probabilities: Probabilities | None
) -> tuple[Array, Array | None]:
    """P(label, predicted) (R, k, k), and test loss and Brier score (R, 2), of R replicates."""
    k, confusion, sums = law.n_classes, np.zeros(()), np.zeros(())
    for leader, fields, weight, truth in parts:
        every = truth.reshape(*weight.shape, k) if len(truth) > 1 else truth[None]
        each = np.einsum("rn,rnk->rk", weight, every)
        confusion = confusion + each[:, :, None] * (np.arange(k) == leader)
        if probabilities is not None:
            P = probabilities(fields)
            seen = truth.any(0)  # labels
            loss = -(truth[:, seen] * np.log(np.maximum(P[:, seen], 1e-300))).sum(1)
            brier = np.einsum("nk,nk->n", P, P - 2 * truth) + 1
            both = [np.einsum("rn,rn->r", weight, x.reshape(weight.shape)) for x in (loss, brier)]
            sums = sums + np.stack(both, 1)
    return confusion, None if probabilities is None else sums


def _closed_confusion(law: FieldsDistribution) -> Array | None:
    """P(t, p) (k, k) of two or three classes where it is a product of orthants."""
    k, teacher = law.n_classes, law.teacher
    labels: list[Any] = [(c,) for c in range(k)] if teacher is None else [(0, t) for t in range(k)]
    if teacher is not None and (k > 2 or teacher.channel.utility_variance is None):
        return None
    found = np.array(
        [[orthant_chance(*one) for one in zip(*_gaps(law, *l), strict=True)] for l in labels]
    )
    if teacher is None:
        return law.shares[:, None] * found
    a = teacher.channel.guess(2)
    return np.asarray((1 - 2 * a) * found + a * found.sum(0))


def scores_of(*levels: tuple[Array, Array | None]) -> PopulationScores:
    """Return scores with bars from replicates, or from a coarse and a fine rule."""
    made: list[dict[str, Array]] = []
    for confusion, sums in levels:
        wrong, shares = confusion * (1 - np.eye(confusion.shape[1])), confusion.sum(2)
        right = np.einsum("rkk->rk", confusion)
        with np.errstate(invalid="ignore", divide="ignore"):
            found = {
                "confusion": confusion,
                "error": wrong.sum((1, 2)),
                "balanced_error": (wrong.sum(2) / shares).mean(1),
                "recall": right / shares,
                "precision": right / confusion.sum(1),
                "shares": shares,
            }
        made.append(
            found | ({} if sums is None else {"test_loss": sums[:, 0], "brier": sums[:, 1]})
        )
    if len(made) == 1:
        return PopulationScores(
            **{n: estimate_from_replicates(v, axis=0) for n, v in made[0].items()}
        )
    coarse, fine = made
    moved = {n: np.abs(v[0] - coarse[n][0]) + 1e-13 for n, v in fine.items()}
    return PopulationScores(**{n: Estimate(v[0], moved[n]) for n, v in fine.items()})
