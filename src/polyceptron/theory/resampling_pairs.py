"""Two students on one data set (`resampling`): the covariance of their fields, with matrices.

Two and three classes: what the students have in common, u ~ N(m, Q₁₂), and what is left, η, give

    Q̂₁₂ = αcp_c E Σ_y Z_y(u) F_y(u) F_y(u)ᵀ,     F_y(u) = E_η f̄_y(u + η),     Var η = Q − Q₁₂

in each group, f̄ the mean pull over weights, on a grid on which the average over η is a product with
a Gaussian of wave numbers, and u on panels. More: replicates of points of s = (ω₁ + ω₂)/2 and
d = (ω₁ − ω₂)/2, which are independent,

    Q̂₁₂ = αcp_c E Σ_y Z_y(s) f̄_y(s + d) f̄_y(s − d)ᵀ,   Var s = (Q + Q₁₂)/2,  Var d = (Q − Q₁₂)/2

The weights side makes Q₁₂ of Q̂₁₂ as it makes Q of Q̂. Two students agree as a student and a teacher
do whose fields are the other's.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from scipy.ndimage import map_coordinates, spline_filter

from polyceptron.errors import ComputationFailed
from polyceptron.numerics import Array
from polyceptron.numerics.estimate import Estimate, student_quantile
from polyceptron.problem.channels import as_channel
from polyceptron.sides.matrix.fields import (
    MatrixConjugates,
    MatrixFields,
    MatrixOrder,
    MatrixProblem,
    matrix_pull,
    root,
)
from polyceptron.sides.matrix.graph import GraphFields
from polyceptron.sides.matrix.loop import unpack, weights_side
from polyceptron.sides.scores import (
    FieldsDistribution,
    TeacherFields,
    orthant_panels,
    population_scores,
)
from polyceptron.theory.erm.unequal_classes import PopulationPoint, fields_law, solved_point

_ORDERS = {2: (8, 12), 3: (6, 8)}  # of panels
_FAR, _CELLS = 8.5, {2: (0.1, 0.05), 3: (0.7, 0.4)}  # reach of the grid in deviations, its cells
_MOST, _FLAT = {2: 8001, 3: 401}, 1e-12  # cells; of a variance, for 0
_POINTS, _REPLICATES = 9, 8  # log2 in a replicate
_HATS = 10, 8  # of one student's points: log2, replicates
_ROUNDS, _ROOT = 60, (1e-9, 1e-6)  # of Q₁₂, relative
_LEFT = 0.01  # of the tolerance, for rare copies and for the root

PairHats = Callable[[Array], Array]


class _Student(NamedTuple):
    point: PopulationPoint
    law: MatrixOrder
    hats: MatrixConjugates

    def after(self, problem: MatrixProblem, Q_hat: Array) -> Array:
        """Q (of a teacher E) of students that have Q̂ in common."""
        p, hats = problem, self.hats._replace(Q=Q_hat)
        return weights_side(p.population, p.R, hats, p.ridge, self.law.b).Q


def _student(problem: MatrixProblem, tol: float) -> _Student:
    """One of them, whose samples have the problem's copies."""
    point = solved_point(problem, tol)
    if not math.isfinite(point.generalisation_error):
        raise ComputationFailed(f"the fixed point at alpha {problem.alpha:g} was not found")
    law = unpack(problem, point.theta)
    if problem.sampled:
        return _Student(point, law, MatrixFields.drawn(problem, *_HATS)(law).hats)
    return _Student(point, law, GraphFields(problem, law, 5 - problem.n_classes)(law).hats)


def pair_hats(problem: MatrixProblem, law: MatrixOrder, level: int, labels: int) -> PairHats:
    """Q₁₂ (of a teacher E₁₂) → Q̂₁₂/c (R, G, r, r) of each replicate, from the first labels."""
    p, k, r, whole = problem, problem.n_classes, problem.n_classes - 1, fields_law(problem, law)

    def pull(c: int, y: int, omega: Array) -> Array:  # f̄ at ω + b (n, r)
        own, cost = np.full(len(omega), y), np.full(len(omega), p.weight[y])
        at = p.loss, omega, own, law.V[c]
        each = (chance * matrix_pull(*at, w * cost, None, 1e-8).f for w, chance in p.copies)
        return np.asarray(sum(each))

    @cache
    def waves(c: int, y: int) -> tuple[Array, Any, Any]:
        L = root(whole.Q[c])
        cell = _CELLS[k][level] / (2 if p.loss.coordinates.jumps else 1)
        n = math.ceil(2 * _FAR * max(float(np.linalg.norm(L, 2)), 1.0) / cell)
        line = np.linspace(-_FAR, _FAR, min(n, _MOST[k]))
        x = np.stack(np.meshgrid(*[line] * r, indexing="ij"), -1)
        f = pull(c, y, law.m[c] + law.b + x.reshape(-1, r) @ L.T).T.reshape(r, *x.shape[:-1])
        wide = np.pad(f, [(0, 0), *[(0, len(line) - 2)] * r], mode="reflect")
        return np.asarray(np.linalg.inv(L)), line, np.fft.fftn(wide, axes=range(1, r + 1))

    def smooth(c: int, y: int, rest: Array) -> Callable[[Array], Array]:
        inverse, line, hat = waves(c, y)
        step = line[1] - line[0]
        number = 2 * np.pi * np.fft.fftfreq(hat.shape[1], step)
        wave = np.stack(np.meshgrid(*[number] * r, indexing="ij"), -1)
        bell = np.exp(-0.5 * ((wave @ (inverse @ rest @ inverse.T)) * wave).sum(-1))
        F = np.fft.ifftn(hat * bell, axes=range(1, r + 1)).real
        splines = [spline_filter(one, 5, mode="grid-wrap") for one in F]
        kind: Any = {"order": 5, "mode": "grid-wrap", "prefilter": False}

        def value(at: Array) -> Array:
            place = np.clip((at - law.m[c] - law.b) @ inverse.T, -_FAR, _FAR).T + _FAR
            return np.stack([map_coordinates(one, place / step, **kind) for one in splines], 1)

        return value

    def on_panels(E12: Array) -> Array:
        hats, rest = np.zeros((1, *law.Q.shape)), law.Q - E12
        common = replace(whole, Q=whole.Q - rest + _FLAT * np.trace(whole.Q[0]) * np.eye(r))
        F = cache(lambda c, y: smooth(c, y, rest[c]))
        for _, fields, weight, Z in orthant_panels(common, _ORDERS[k][level]):
            c = 0 if p.taught else int(Z[0].argmax())
            for y in np.flatnonzero(Z.any(0)).tolist()[:labels]:
                own = F(c, y)(fields @ p.basis)
                hats[0, c] += p.alpha * (weight * Z[:, y] * own.T) @ own
        return hats

    def at_points(E12: Array) -> Array:
        hats = np.zeros((_REPLICATES, *law.Q.shape))
        values, vectors = np.linalg.eigh((law.Q - E12) / 2)
        # The symmetric root moves with Q₁₂; eigenvectors of alike eigenvalues turn at random.
        apart = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :] @ vectors.swapaxes(1, 2)
        known = p.R @ np.linalg.pinv(p.utilities)  # of the teacher's fields, by the utilities
        hidden = law.A @ (p.R - known @ p.R) @ law.A.T if p.taught else 0.0
        roots = [root(Q + hidden) for Q in (law.Q + E12) / 2]
        for c, every, x, weight, zeta in points.blocks:
            s = law.m[c] + law.b + x[..., :r] @ roots[c].T
            s = s if zeta is None else s + zeta @ (law.A @ known).T
            for y in np.unique(every[every < labels]).tolist():
                at, d = s[:, every == y], x[:, every == y, r:] @ apart[c].T
                one, two = (pull(c, y, each.reshape(-1, r)) for each in (at + d, at - d))
                w = whole.shares[c] * weight[:, every == y, None]
                product = (w * one.reshape(at.shape)).swapaxes(1, 2) @ two.reshape(at.shape)
                hats[:, c] += p.alpha * (product + product.swapaxes(1, 2)) / 2
        return hats

    if k <= 3:
        return on_panels
    points = MatrixFields.drawn(p, _POINTS + 2 * level, _REPLICATES, 2)
    return at_points


def _overlaps(problem: MatrixProblem, one: _Student, coupling: float, level: int) -> Array:
    """Q₁₂ (of a teacher E₁₂), by Anderson's method: at all points, and at those of replicates."""
    law, close = one.law, _ROOT[problem.n_classes > 2] * float(np.abs(one.law.Q).max())
    x = one.after(problem, 0 * law.Q)
    if coupling == 0 or problem.copies == ((1.0, 1.0),):
        return np.repeat((law.Q if coupling else x)[None], 1 + _REPLICATES, 0)
    points, steps, average = [], [], pair_hats(problem, law, level, problem.n_classes)
    for _ in range(_ROUNDS):
        hats = coupling * average(x)
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
    Q12 = law.Q - (one.law.Q - E12)
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
        alone = FieldsDistribution(np.ones(1), m[None], Q[None], law.b, other)
        same += share * np.array(population_scores(alone, None, tol).error)
    found["agreement", 2.0] = 1 - same[0], same[1]
    own = full.law.Q - full.after(p, 0 * E12)
    within, fresh = (law.shares @ np.trace(each, 0, 1, 2) / r for each in (one.law.Q - E12, own))
    names = "variance over resamples", "variance over fresh data", "ratio of variances"
    values = zip(names, (within, fresh, within / fresh), strict=True)
    return found | {(name, math.nan): (value, 0.0) for name, value in values}


def population_pair(
    problem: MatrixProblem, coupling: float, fits: Sequence[float], tol: float
) -> tuple[PopulationPoint, Estimate, dict[tuple[str, float], tuple[float, float]]]:
    """One student whose samples have the problem's copies, Q₁₂ (G, r, r) of two, and the values
    with uncertainties of (quantity, fits)."""
    p, near = problem, tol / 20 if problem.sampled else tol / 100
    one, full = _student(p, near), _student(replace(p, copies=((1.0, 1.0),)), near)
    many = p.n_classes > 3
    levels = (0,) if many else (0, 1)
    at = levels[-1]  # the value; before it a coarser one, behind it replicates
    each = [_overlaps(p, one, coupling, level) for level in levels]
    shared = np.array([x[0] for x in each] + [*each[-1][1:]] * many)
    found = [
        _rows(p, one, full, E12, fits, tol / 3 if i <= at else math.inf)
        for i, E12 in enumerate(shared)
    ]

    def spread(values: Any) -> Any:
        bar = np.abs(values[at] - values[0])
        if many:
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
        rows[name, number] = float(value), float(own + bar + _LEFT * tol)
    Q12 = one.point.law.Q - (one.law.Q - shared[at])
    return one.point, Estimate(Q12, spread(shared) + bars[0] * np.abs(Q12)), rows
