"""Two students on one data set (`resampling`): the covariance of their fields, with matrices.

With s = (ω₁ + ω₂)/2 and d = (ω₁ − ω₂)/2, which are independent, and f̄ the mean pull over weights,

    Q̂₁₂ = αcp_c E Σ_y Z_y(s) f̄_y(s + d) f̄_y(s − d)ᵀ,   Var s = (Q + Q₁₂)/2,  Var d = (Q − Q₁₂)/2

in each group, and the weights side makes Q₁₂ of Q̂₁₂ as it makes Q of Q̂. Two classes: panels for s,
even steps for d. More: replicates of points. f̄ of two and three classes is a spline on a grid. Two
students agree as a student and a teacher do whose fields are the other's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from scipy.ndimage import map_coordinates, spline_filter

from polyceptron.errors import ComputationFailed
from polyceptron.model.channels import as_channel
from polyceptron.numerics import Array
from polyceptron.numerics.estimate import Estimate, student_quantile
from polyceptron.theory.populations.matrix_fields import (
    FieldsOrder,
    MatrixFields,
    MatrixHats,
    MatrixProblem,
    matrix_pull,
    root,
)
from polyceptron.theory.populations.matrix_graph import GraphFields
from polyceptron.theory.populations.matrix_loop import start, unpack, weights_side
from polyceptron.theory.populations.population_point import (
    PopulationPoint,
    _refined,
    _sampled,
    fields_law,
)
from polyceptron.theory.populations.scores import (
    FieldsLaw,
    TeacherFields,
    orthant_panels,
    population_scores,
)

_ORDERS, _STEPS, _EVEN = (8, 12), (0.5, 0.35), 8.5  # of panels; of d in deviations, and its reach
_FAR, _CELLS = 8.5, {2: (0.1, 0.05), 3: (0.7, 0.5)}  # of f̄ in deviations, and in fields
_POINTS, _MANY, _REPLICATES = 13, 9, 8  # log2 in a replicate, of three classes and more
_HATS = 10, 8  # of one student's points: log2, replicates
_ROUNDS, _ROOT = 60, (1e-9, 1e-6)  # of Q₁₂, relative

Pull = Callable[[int, int, Array], Array]


class _Student(NamedTuple):
    point: PopulationPoint
    law: FieldsOrder
    hats: MatrixHats

    def after(self, problem: MatrixProblem, Q_hat: Array) -> Array:
        """Q (of a teacher E) of students that have Q̂ in common."""
        p, hats = problem, self.hats._replace(Q=Q_hat)
        return weights_side(p.population, p.R, hats, p.ridge, self.law.b).Q


def _student(problem: MatrixProblem, tol: float) -> _Student:
    """One of them, whose samples have the problem's copies."""
    point = (_sampled if problem.sampled else _refined)(problem, start(problem), tol)
    if not math.isfinite(point.generalisation_error):
        raise ComputationFailed(f"the fixed point at alpha {problem.alpha:g} was not found")
    law = unpack(problem, point.theta)
    if problem.sampled:
        return _Student(point, law, MatrixFields.drawn(problem, *_HATS)(law).hats)
    return _Student(point, law, GraphFields(problem, law, 5 - problem.n_classes)(law).hats)


def _mean_pull(problem: MatrixProblem, law: FieldsOrder, fine: int) -> Pull:
    """f̄ (n, r) of a group and a label at ω + b (n, r)."""
    p, k, r, Q = problem, problem.n_classes, problem.n_classes - 1, fields_law(problem, law).Q

    def direct(c: int, y: int, omega: Array) -> Array:
        labels, cost = np.full(len(omega), y), np.full(len(omega), p.weight[y])
        each = (
            chance * matrix_pull(p.loss, omega, labels, law.V[c], copies * cost, None, 1e-7).f
            for copies, chance in p.copies
        )
        return np.asarray(sum(each))

    @cache
    def table(c: int, y: int) -> tuple[Array, int, list[Array]]:
        L = root(Q[c])
        n = math.ceil(2 * _FAR * max(float(np.linalg.norm(L, 2)), 1.0) / _CELLS[k][fine])
        x = np.stack(np.meshgrid(*[np.linspace(-_FAR, _FAR, n)] * r, indexing="ij"), -1)
        f = direct(c, y, law.m[c] + law.b + x.reshape(-1, r) @ L.T)
        return (
            np.asarray(np.linalg.inv(L)),
            n,
            [spline_filter(one.reshape([n] * r), 5) for one in f.T],
        )

    def looked(c: int, y: int, omega: Array) -> Array:
        inverse, n, splines = table(c, y)
        at = ((omega - law.m[c] - law.b) @ inverse.T / _FAR + 1).T * ((n - 1) / 2)
        kind: Any = {"order": 5, "mode": "nearest", "prefilter": False}
        return np.stack([map_coordinates(one, at, **kind) for one in splines], 1)

    return direct if p.sampled else looked


def _nodes(
    problem: MatrixProblem, law: FieldsOrder, E12: Array, rule: Any
) -> Iterator[tuple[int, int, Array, Array, Array]]:
    """Group, label, s + b and d (R, n, r), and weights (R, n)."""
    p, r = problem, problem.n_classes - 1
    middle = fields_law(p, law._replace(Q=(law.Q + E12) / 2))
    values, vectors = np.linalg.eigh((law.Q - E12) / 2)
    # The symmetric root moves with Q₁₂; eigenvectors of alike eigenvalues turn at random.
    apart = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :] @ vectors.swapaxes(1, 2)
    if r == 1:
        for _, fields, weight, Z in orthant_panels(middle, _ORDERS[rule]):
            c = 0 if p.taught else int(Z[0].argmax())
            scale = float(apart[c, 0, 0])
            x = np.linspace(-_EVEN, _EVEN, 1 + 2 * math.ceil(_EVEN / _STEPS[rule] * max(1, scale)))
            bell, shape = np.exp(-x * x / 2), (1, len(fields), len(x))
            s, d = (fields @ p.basis)[None], scale * x[None, None]
            both = [np.broadcast_to(each, shape).reshape(1, -1, 1) for each in (s, d)]
            for y in np.flatnonzero(Z.any(0)).tolist():
                w = np.outer(weight * Z[:, y], bell / bell.sum())
                yield c, y, both[0], both[1], w.reshape(1, -1)
        return
    known = p.R @ np.linalg.pinv(p.utilities)  # of the teacher's fields, by the utilities
    B = law.A @ known
    hidden = law.A @ (p.R - known @ p.R) @ law.A.T if p.taught else 0.0
    roots = [root(Q + hidden) for Q in (law.Q + E12) / 2]
    for c, labels, x, weight, zeta in rule.blocks:
        s = middle.m[c] + law.b + x[..., :r] @ roots[c].T + (0.0 if zeta is None else zeta @ B.T)
        for y in np.unique(labels).tolist():
            own = labels == y
            yield c, y, s[:, own], x[:, own, r:] @ apart[c].T, middle.shares[c] * weight[:, own]


def _pair_hats(
    problem: MatrixProblem, law: FieldsOrder, E12: Array, pull: Pull, rule: Any
) -> Array:
    """Q̂₁₂/c (R, G, r, r) of each replicate."""
    hats = np.zeros((_REPLICATES if problem.n_classes > 2 else 1, *law.Q.shape))
    for c, y, s, d, weight in _nodes(problem, law, E12, rule):
        at = ((s + sign * d).reshape(-1, s.shape[2]) for sign in (1, -1))
        one, two = (pull(c, y, each).reshape(s.shape) for each in at)
        product = (weight[:, :, None] * one).swapaxes(1, 2) @ two
        hats[:, c] += problem.alpha * (product + product.swapaxes(1, 2)) / 2
    return hats


def _overlaps(
    problem: MatrixProblem, one: _Student, coupling: float, pull: Pull, rule: Any
) -> Array:
    """Q₁₂ (of a teacher E₁₂), by Anderson's method: at all points, and at those of replicates."""
    law, close = one.law, _ROOT[problem.n_classes > 2] * float(np.abs(one.law.Q).max())
    x = one.after(problem, 0 * law.Q)
    if coupling == 0 or problem.copies == ((1.0, 1.0),):
        return np.repeat((law.Q if coupling else x)[None], 1 + _REPLICATES, 0)
    points, steps = [], []
    for _ in range(_ROUNDS):
        hats = coupling * _pair_hats(problem, law, x, pull, rule)
        every = [(one.after(problem, each) - x).ravel() for each in (hats.mean(0), *hats)]
        points.append(x.ravel())
        steps.append(every[0])
        moved = x.ravel() + every
        if len(points) > 1:
            X, F = np.diff(points, axis=0).T, np.diff(steps, axis=0).T
            moved = moved - ((X + F) @ np.linalg.lstsq(F, np.transpose(every), rcond=1e-3)[0]).T
        found = moved.reshape(-1, *x.shape)
        if np.abs(every[0]).max() < close:
            return found
        x = found[0]
    raise ComputationFailed(f"the overlap of students at alpha {problem.alpha:g} was not found")


def _rows(
    problem: MatrixProblem,
    one: _Student,
    full: _Student,
    E12: Array,
    fits: Sequence[float],
    tol: float,
) -> dict[tuple[str, float], Any]:
    """Values of the rows and what their scores leave open."""
    p, law, r = problem, fields_law(problem, one.law), problem.n_classes - 1
    Q12 = fields_law(p, one.law._replace(Q=E12)).Q
    found: dict[tuple[str, float], Any] = {}
    for number in fits:
        mean = replace(law, Q=law.Q / number + (1 - 1 / number) * Q12)
        found["error", number] = population_scores(mean, None, tol, law).error
    a, b = one.point, full.point
    bias = a.generalisation_error - b.generalisation_error
    found["bias", 1.0] = bias, a.uncertainty + b.uncertainty
    same = np.zeros(2)
    equal = p.copies == ((1.0, 1.0),)
    for m, Q, both, share in () if equal else zip(law.m, law.Q, Q12, law.shares, strict=True):
        other = TeacherFields(both, Q, m + law.b, as_channel("none"))
        alone = FieldsLaw(np.ones(1), m[None], Q[None], law.b, other)
        same += share * np.array(population_scores(alone, None, tol).error)
    found["agreement", 2.0] = 1 - same[0], same[1]
    own = full.law.Q - full.after(p, 0 * E12)
    within, fresh = (law.shares @ np.trace(each, 0, 1, 2) / r for each in (one.law.Q - E12, own))
    values = {"over resamples": within, "over fresh data": fresh}
    found |= {(f"variance {name}", math.nan): (value, 0.0) for name, value in values.items()}
    return found | {("ratio of variances", math.nan): (within / fresh, 0.0)}


class Pair(NamedTuple):
    """One student, Q₁₂ (G, r, r), and (quantity, fits) → value and uncertainty."""

    point: PopulationPoint
    shared: Estimate
    rows: dict[tuple[str, float], tuple[float, float]]


def population_pair(
    problem: MatrixProblem, coupling: float, fits: Sequence[float], tol: float
) -> Pair:
    """Of students whose samples have the problem's copies, against one of all samples."""
    p, k, near = problem, problem.n_classes, tol / 8 if problem.sampled else tol / 100
    one, full = _student(p, near), _student(replace(p, copies=((1.0, 1.0),)), near)
    rules: list[Any] = [0, 1]
    if k > 2:
        points = MatrixFields.drawn(p, _MANY if p.sampled else _POINTS, _REPLICATES, 2)
        rules = [points] if p.sampled else [points, points]
    at = len(rules) - 1  # the value; before it a coarser one, behind it replicates
    each = [
        _overlaps(p, one, coupling, _mean_pull(p, one.law, fine), rule)
        for fine, rule in enumerate(rules)
    ]
    shared = np.array([*(one[0] for one in each), *each[-1][1:]])
    found = [
        _rows(p, one, full, E12, fits, tol / 3 if i <= at else math.inf)
        for i, E12 in enumerate(shared if k > 2 else shared[:2])
    ]

    def spread(values: Any) -> Any:
        bar = np.abs(values[at] - values[0])
        if k > 2:
            t = student_quantile(_REPLICATES) / math.sqrt(_REPLICATES)
            bar = bar + t * np.std(values[at + 1 :], axis=0, ddof=1)
        return bar

    # What the laws leave open: of the error by itself, of matrices relative to them.
    bars = [float((s.point.Q_uncertainty / np.abs(s.point.Q).max()).max()) for s in (one, full)]
    rows = {}
    for (name, number), (value, own) in found[at].items():
        bar = spread(np.array([each[name, number][0] for each in found]))
        if name == "error":
            bar = bar + one.point.uncertainty
        elif name != "bias":
            loose = sum(bars) if name == "ratio of variances" else bars["fresh" in name]
            bar = bar + loose * (1 - value if name == "agreement" else value)
        rows[name, number] = float(value), float(own + bar)
    Q12 = fields_law(p, one.law._replace(Q=shared[at])).Q
    return Pair(one.point, Estimate(Q12, spread(shared) + bars[0] * np.abs(Q12)), rows)
