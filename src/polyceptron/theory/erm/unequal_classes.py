"""Empirical risk minimisation on a population: its fixed point, errors and their uncertainties.

Two and three classes: the law on finer and finer rules, until the error moves by less than the
tolerance. More classes: the law at all points, and at each replicate of them, whose spread is the
uncertainty. Scores of a law are those of `scores.py`.
"""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from polyceptron.checks import check_alpha, check_tolerance
from polyceptron.display import ShortDisplay
from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.numerics import Array, with_one_blas_thread
from polyceptron.numerics.estimate import Estimate, estimate_from_replicates, student_quantile
from polyceptron.problem.losses import LOSSES, check_symmetric
from polyceptron.problem.mixture import LARGEST_FULL
from polyceptron.problem.population import numbers_text
from polyceptron.problem.populations import Population
from polyceptron.problem.specs import ERM, Probabilities
from polyceptron.rows import Status, make_row
from polyceptron.sides.fresh_scores import N_BINS, Fresh, binned
from polyceptron.sides.matrix.fields import MatrixFields, MatrixOrder, MatrixProblem
from polyceptron.sides.matrix.graph import LAST_LEVEL, GraphFields
from polyceptron.sides.matrix.loop import Anderson, Fields, Solved, matrix_rounds, start, unpack
from polyceptron.sides.scores import (
    FieldsDistribution,
    TeacherFields,
    leading_nodes,
    population_scores,
)
from polyceptron.solve.minimise import Place, Trial, minimise
from polyceptron.theory.erm.training import acts_along_ones
from polyceptron.theory.separability import loss_at_ridge

_NO_RIDGE = 1e-9  # stands for 0 where there is a minimum of least norm
_FIRST_RIDGE = 0.3  # with which the search for the best one begins
_FIXED_POINT_SHARE = 0.8  # of the tolerance: the rest is left to the search for a ridge
_NEAR_RIDGE = 2.5  # of ln λ: from there the fixed point at another ridge is a good start
_ROOT, _CLOSE = 1e-10, 1e-3  # of θ, where rules are exact, and of the tolerance
_REPLICATES = 8
_FIRST, _ROUNDS = (25, 1), (8, 60)  # placements of the first nodes and rounds; of few points
_AGAIN, _OUTSIDE = 4, 5e-3  # placements of a level, as long as the root has so much outside them
_NEAR = 0.2  # of θ: nodes are still where they should be
_PLAIN, _FOLLOWED = (2, 1), 10  # of plain rounds: the rule, and a coarser one; log2 of points
_SHARED = 1e-7  # of errors, what both rules may miss
_EASIER = 6  # times a larger ridge on the way to the first root
_SMALL = 1e-3  # ridge from which few points may have a root at once, where a smaller one had none
_FIRST_POINTS, _ALL_POINTS = 7, 18  # log2, in a replicate of a class; at most, of all together
_MANY = 3  # log2 of times the first points
_RARE = math.log(100)  # points without a mistake: how many may have one
_MORE = (3, 5)  # log2, where few points have no root
_CORRECTIONS = 10
_LEFT = 0.05  # of the tolerance, to which the root is found in θ
_SHARE = 0.05  # of a step, to which the root that it leads to is found


@dataclass(frozen=True, repr=False)
class PopulationPoint(ShortDisplay):
    """A fixed point of empirical risk minimisation on a population, and how far to trust it.

    Every `…_uncertainty` holds in at least 99 of 100 cases. Matrices m, Q, V are those of `law`, in
    contrast coordinates.
    """

    n_classes: int
    ridge: float
    alpha: float
    generalisation_error: float  # on labels as drawn
    uncertainty: float
    balanced_error: float  # 1 − the mean recall
    balanced_error_uncertainty: float
    test_loss: float  # of the student's own loss on fresh samples, without class weights
    test_loss_uncertainty: float
    brier: float
    brier_uncertainty: float
    training_error: float
    training_error_uncertainty: float
    training_loss: float  # mean of the loss without class weights and without the ridge
    training_loss_uncertainty: float
    status: Status
    confusion: Array  # (k, k): P(label, predicted)
    confusion_uncertainty: Array
    intercepts: Array  # (k,), of mean 0
    intercepts_uncertainty: Array
    m: Array  # means of the fields (G, r)
    m_uncertainty: Array
    Q: Array  # their covariances (G, r, r)
    Q_uncertainty: Array
    V: Array  # susceptibilities (G, r, r)
    V_uncertainty: Array
    law: FieldsDistribution
    probabilities: Probabilities | None = field(repr=False)
    theta: Array = field(repr=False)  # the law, as the equations take it

    @property
    def recall(self) -> Array:
        """P(predicted = l | label = l) (k,)."""
        return np.asarray(np.diag(self.confusion) / self.confusion.sum(1))

    @property
    def recall_uncertainty(self) -> Array:
        """Of `recall` (k,): the shares of labels are known."""
        return np.asarray(np.diag(self.confusion_uncertainty) / self.confusion.sum(1))

    @property
    def precision(self) -> Array:
        """P(label = l | predicted = l) (k,); NaN for a class that is never predicted."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(np.diag(self.confusion) / self.confusion.sum(0))

    @property
    def precision_uncertainty(self) -> Array:
        """Of `precision` (k,)."""
        spread = self.confusion_uncertainty
        with np.errstate(invalid="ignore", divide="ignore"):
            both = np.diag(spread) + self.precision * spread.sum(0)
            return np.asarray(both / self.confusion.sum(0))

    @cached_property
    def calibration(self) -> Estimate:
        """Σ |accuracy − confidence| over 15 bins of confidence; NaN without probabilities."""
        if self.probabilities is None or math.isnan(self.brier):
            return Estimate(np.array(math.nan), np.array(math.nan))
        edges = np.linspace(1 / self.n_classes, 1, N_BINS + 1)
        found = binned(Fresh(*leading_nodes(self.law)), self.probabilities, edges)[1]
        return Estimate(found.value, found.uncertainty + self.uncertainty + self.brier_uncertainty)


@with_one_blas_thread
def population_point(
    population: Population,
    spec: ERM,
    alpha: float,
    tol: float | None = None,
    target: str = "error",
) -> PopulationPoint:
    """The fixed point at n = αd, with the error to `tol` (1e-6 for k = 2, 3, else 1e-3).

    A best ridge is that of least error, or of least balanced error (`target` 'balanced-error').
    """
    if spec.ridge == "optimal":
        return _at_best_ridge(population, spec, alpha, tol, target)
    problem = matrix_problem(population, spec, alpha)
    return solved_point(problem, population_tolerance(problem, tol))


def population_tolerance(problem: MatrixProblem, tol: float | None) -> float:
    """The tolerance on the error, by default 1e-6, or 1e-3 where averages are sampled."""
    return check_tolerance(tol, 1e-3 if problem.sampled else 1e-6)


def solved_point(problem: MatrixProblem, tol: float, theta: Array | None = None) -> PopulationPoint:
    """The fixed point of both sides, from θ near by if it is given.

    It is not converged where Q or V became singular on the way.
    """
    if theta is None:
        theta = start(problem)
    try:
        if problem.sampled:
            return _sampled(problem, theta, tol)
        return _refined(problem, theta, tol)
    except np.linalg.LinAlgError:
        return _unsolved(problem, tol)


def _unsolved(problem: MatrixProblem, tol: float) -> PopulationPoint:
    """A point without numbers, at the law from which the search started."""
    theta = start(problem)
    law = unpack(problem, theta)
    if problem.sampled:
        fields: Fields = MatrixFields.drawn(problem, _least_points(problem), 1)
    else:
        fields = GraphFields(problem, law, 0)
    return _point(problem, Solved(law, theta, fields(law), False, fields), tol)


def matrix_problem(population: Population, spec: ERM, alpha: float) -> MatrixProblem:
    """What both sides are made of, checked."""
    if spec.penalty is not None:
        raise InvalidInput(
            f"classes that are not alike take a ridge, not the penalty {spec.penalty.name!r}"
        )
    if not any(type(spec.loss) is entry.make for entry in LOSSES.entries):
        check_symmetric(spec.loss, population.n_classes)
    full = population.full_features
    if full is not None and full[0].size > LARGEST_FULL:
        raise InvalidInput(
            f"the theory of covariances in full is feasible for k·d up to {LARGEST_FULL}, got "
            f"{full[0].size}: fit samples drawn from the mixture, or use levels"
        )
    alpha, loss, ridge = check_alpha(alpha), spec.loss, float(spec.ridge)
    if alpha == 0:
        raise InvalidInput("classes that are not alike need an alpha above 0")
    if ridge == 0:
        loss = loss_at_ridge(loss, 0, population, alpha, spec.intercept)
        ridge = 1.0 if loss.scale_free else _NO_RIDGE
    weight = spec.loss_weights(population.class_shares)
    return MatrixProblem(population, loss, weight, ridge, alpha, spec.intercept)


def _at_best_ridge(
    population: Population, spec: ERM, alpha: float, tol: float | None, target: str
) -> PopulationPoint:
    """The fixed point at the ridge of least error, or of least balanced error."""
    if target not in ("error", "balanced-error"):
        raise InvalidInput(
            f"unknown target {target!r} of a ridge on classes that are not alike: allowed are "
            f"'error', 'balanced-error'"
        )
    objective = _ErrorOfRidge(population, spec, check_alpha(alpha), tol, target)
    largest = 1e8 * max(1.0, objective.alpha)
    found = minimise(
        objective, _FIRST_RIDGE, objective.tolerance, range_=(1e-9, largest), limit_at_zero=True
    )
    if found is None:
        raise ComputationFailed(
            f"no fixed point at alpha {alpha:g} on the way to the optimal ridge; give a ridge"
        )
    point: PopulationPoint = found.trial.answer
    bar = getattr(point, objective.name_of_bar) + found.left_open
    status = point.status
    if status == Status.OK and (bar > objective.tolerance or found.place == Place.EDGE):
        status = Status.TOLERANCE_NOT_MET
    changes: dict[str, Any] = {objective.name_of_bar: bar, "status": status}
    return replace(point, **changes)


@dataclass
class _ErrorOfRidge:
    """The error, or the balanced error, as a function of the ridge; starts at the nearest known."""

    population: Population
    spec: ERM
    alpha: float
    tol: float | None
    target: str
    known: dict[float, Array] = field(default_factory=dict)  # θ by ln λ

    @property
    def name_of_value(self) -> str:
        return "generalisation_error" if self.target == "error" else "balanced_error"

    @property
    def name_of_bar(self) -> str:
        return "uncertainty" if self.target == "error" else "balanced_error_uncertainty"

    @property
    def tolerance(self) -> float:
        problem = matrix_problem(self.population, replace(self.spec, ridge=1.0), self.alpha)
        return population_tolerance(problem, self.tol)

    def __call__(self, ridge: float) -> Trial:
        try:
            problem = matrix_problem(self.population, replace(self.spec, ridge=ridge), self.alpha)
        except InvalidInput:  # the loss has no limit of vanishing ridge
            return Trial(math.inf)
        point = self._solved(problem, ridge)
        if point.status == Status.NOT_CONVERGED:
            return Trial(math.inf)
        if ridge > 0:
            self.known[math.log(ridge)] = point.theta
        return Trial(getattr(point, self.name_of_value), answer=point)

    def _solved(self, problem: MatrixProblem, ridge: float) -> PopulationPoint:
        tol = _FIXED_POINT_SHARE * population_tolerance(problem, self.tol)
        if self.known and not problem.loss.scale_free:
            here = math.log(max(ridge, _NO_RIDGE))
            nearest = min(self.known, key=lambda other: abs(other - here))
            if abs(nearest - here) < _NEAR_RIDGE:
                point = solved_point(problem, tol, self.known[nearest])
                if point.status != Status.NOT_CONVERGED:
                    return point
        return solved_point(problem, tol)


def fields_law(problem: MatrixProblem, law: MatrixOrder) -> FieldsDistribution:
    """The law as it leaves."""
    population, Q, teacher = problem.population, law.Q, None
    if population.label_channel is not None:
        Q, b = law.A @ problem.R @ law.A.T + Q, problem.basis.T @ population.offsets
        teacher = TeacherFields(law.A @ problem.R, problem.R, b, population.label_channel)
    return FieldsDistribution(population.group_shares, law.m, Q, law.b, teacher, law.V)


def _numbers(
    problem: MatrixProblem, solved: Solved, tol: float, near: FieldsDistribution | None = None
) -> dict[str, tuple[Any, Any]]:
    """Values and uncertainties of a law's scores by name."""
    law = fields_law(problem, solved.law)
    scores = population_scores(law, problem.probabilities, tol, near)
    unknown = Estimate(np.array(math.nan), np.array(math.nan))
    names = "error", "balanced_error", "confusion", "test_loss", "brier"
    found: dict[str, Any] = {n: (*map(np.asarray, getattr(scores, n) or unknown),) for n in names}
    found["generalisation_error"] = found.pop("error")
    known = not acts_along_ones(problem.loss, problem.n_classes)
    found["training_loss"] = np.array(solved.averages.loss if known else math.nan), np.zeros(())
    found["training_error"] = np.array(solved.averages.error), np.zeros(())
    shown = {"intercepts": problem.basis @ law.b, "m": law.m, "Q": law.Q}
    for name, value in (*shown.items(), ("V", solved.law.V)):
        found[name] = value, np.zeros(value.shape)
    return found


@with_one_blas_thread
def population_rounds(
    population: Population, spec: ERM, alpha: float, n_steps: int
) -> list[tuple[FieldsDistribution, float, float]]:
    """The law, its error and that one's uncertainty after t = 0, 1, … plain rounds from nothing.

    A coarser rule, or each replicate of the points, goes its own way, and tells the uncertainty.
    """
    problem, found = matrix_problem(population, spec, alpha), []
    sides: list[Any] = [lambda law, n=n: GraphFields(problem, law, n)(law) for n in _PLAIN]
    if problem.sampled:
        every = MatrixFields.drawn(problem, _FOLLOWED, _REPLICATES)
        sides = [every, *(every.replicate(i) for i in range(_REPLICATES))]
    paths = [matrix_rounds(problem, fields) for fields in sides]
    for orders in islice(zip(*paths, strict=True), n_steps + 1):
        law, *others = (fields_law(problem, each) for each in orders)
        error, bar = population_scores(law, tol=1e-3).error
        near = [population_scores(x, tol=math.inf, near=law).error.value for x in others]
        spread = float(abs(near[0] - error)) + _SHARED
        if problem.sampled:
            spread = float(estimate_from_replicates(np.array(near)).uncertainty)
        found.append((law, float(error), float(bar) + spread))
    return found


def _settled(
    anderson: Anderson, theta: Array, tol: float, few: MatrixFields | None = None, deep: int = 0
) -> Solved:
    """At `few` points, or on the coarsest rule with nodes that follow the law; by way of larger
    ridges (fewer samples for hard margins) if need be."""
    p, points = anderson.problem, few is not None
    hopeless = points and 0 < deep < _EASIER and p.ridge < _SMALL
    for attempt in range(2):
        for _ in range(0 if hopeless and not attempt else _FIRST[points]):
            fields = few or GraphFields(p, unpack(p, theta), 0)
            solved = anderson.solve(fields, theta, tol=tol, max_rounds=_ROUNDS[points])
            off, theta = np.abs(solved.theta - theta).max(), solved.theta
            # On a line nodes of a finer rule follow in any case.
            seen = p.n_classes == 2 or (off < _NEAR and solved.averages.missed < _OUTSIDE)
            if (solved.converged and (points or seen)) or not np.abs(theta).max() < 100:
                break
        if attempt or deep == _EASIER or (not hopeless and solved.converged):
            break
        easier = (
            replace(p, alpha=p.alpha / 2) if p.loss.scale_free else replace(p, ridge=10 * p.ridge)
        )
        same = None if few is None else MatrixFields(easier, few.blocks)
        theta = _settled(Anderson(easier), start(easier), max(tol, 1e-3), same, deep + 1).theta
        del anderson.steps[:], anderson.changes[:]
    return solved


def _refined(problem: MatrixProblem, theta: Array, tol: float) -> PopulationPoint:
    anderson, history = Anderson(problem), []
    solved = _settled(anderson, theta, 1e-2)
    first = 1 if problem.n_classes == 2 else 0  # nodes on a line are cheap
    close = _ROOT if first else max(_ROOT, _CLOSE * tol)
    for level in range(first, LAST_LEVEL + 1):
        for again in range(_AGAIN):
            settled = level == again == 0  # at nodes of this level
            fields = solved.fields if settled else GraphFields(problem, solved.law, level)
            solved = anderson.solve(fields, solved.theta, tol=close)
            if solved.converged and solved.averages.missed < _OUTSIDE:
                break
        if not solved.converged:
            return _point(problem, solved, tol)
        history.append(_numbers(problem, solved, math.inf if level == first else tol))
        if level == first:
            continue
        now, before = history[-1], history[-2]
        moved = {name: np.abs(now[name][0] - before[name][0]) for name in now}
        # A level moves all numbers: one that stood still by chance has a part of the others' bars.
        parts = [moved[n] / (np.abs(now[n][0]) + 1e-3) for n in now if np.ndim(now[n][0]) == 0]
        part = 0.1 * float(np.nanmax(parts)) + solved.averages.missed
        numbers = {
            name: (value, own + moved[name] + part * np.abs(value) + 10 * close)
            for name, (value, own) in now.items()
        }
        if float(numbers["generalisation_error"][1]) < tol:
            break
    else:  # a root at nodes that were left behind is none
        fresh = GraphFields(problem, solved.law, LAST_LEVEL)(solved.law)
        left = anderson.residual(solved.law, fresh, solved.theta)
        if left is None or np.abs(left).max() > 1:
            return _point(problem, solved, tol)
    return _point(problem, solved, tol, numbers)


def _least_points(problem: MatrixProblem) -> int:
    """log2 of as many in a replicate as give it the moments of x."""
    return max(_FIRST_POINTS, math.ceil(math.log2(8 * problem.n_classes)))


def _first_root(
    problem: MatrixProblem, theta: Array, more: int, tol: float = 1e-3
) -> tuple[Anderson, MatrixFields, Solved]:
    """At few points, which may have no root, or one too far from that of all."""
    few = MatrixFields.drawn(problem, _least_points(problem) + more, 1)
    anderson = Anderson(problem)
    return anderson, few, _settled(anderson, theta, tol, few)


def _sampled(problem: MatrixProblem, theta: Array, tol: float) -> PopulationPoint:
    """On more and more points, until the replicates' spread is small."""
    log2 = _least_points(problem)
    last = max(_ALL_POINTS - math.ceil(math.log2(_REPLICATES * problem.n_classes)), log2)
    t = student_quantile(_REPLICATES) / math.sqrt(_REPLICATES)
    first, more = _first_root(problem, theta, 0), iter(_MORE)
    while True:
        points = MatrixFields.drawn(problem, log2, _REPLICATES)
        while not (every := _corrected(*first, points, _LEFT * tol)):
            if (added := next(more, None)) is None:
                return _point(problem, first[2], tol)
            first = _first_root(problem, theta, added)
        first = (*first[:2], every[0])
        law = fields_law(problem, every[0].law)
        found = [_numbers(problem, each, math.inf, law) for each in every[1:]]
        spread = {n: t * np.std([e[n][0] for e in found], axis=0, ddof=1) for n in found[0]}
        over = float(spread["generalisation_error"]) / (0.6 * tol)  # the rest is left to scores
        if over <= 1 or log2 == last:
            break
        log2 = min(log2 + math.ceil(math.log2(over) / 0.75), last)  # bars fall as n^(−3/4)
    shares = problem.population.group_shares
    rare = max(shares[b.group] * float(b.weight.mean()) for b in points.blocks) / _REPLICATES
    spread["training_error"] = spread["training_error"] + _RARE * rare
    if problem.loss.coordinates.jumps:  # of which most samples may have none
        spread["training_loss"] = spread["training_loss"] + _RARE * rare
    # Points with the moments of x bend averages as 1/n: half as many show by how much. The spread
    # falls as n^(−3/4), and of many points counts alone.
    if log2 < _least_points(problem) + _MANY:
        half = MatrixFields.drawn(problem, log2 - 1, 2 * _REPLICATES)(every[0].law)
        for name in ("training_loss", "training_error"):
            bend = abs(getattr(half, name[9:]) - getattr(every[0].averages, name[9:]))
            spread[name] = spread[name] + bend
    left, name = 2 * _LEFT * tol, "generalisation_error"  # of the logarithms in θ, and of numbers
    rest = tol - left * float(found[0][name][0]) - float(spread[name])
    numbers = {
        name: (value, bar + spread[name] + left * np.abs(value))
        for name, (value, bar) in _numbers(problem, every[0], max(0.995 * rest, tol / 3)).items()
    }
    return _point(problem, every[0], tol, numbers)


def _corrected(
    anderson: Anderson, few: MatrixFields, solved: Solved, points: MatrixFields, tol: float
) -> list[Solved]:
    """From the root at few points to that at all points and each replicate's; none if it is far.

    Few points show how a round answers to a change of θ: with F and F₀ the steps of a round at all
    points and at few, the next θ is the root of F₀ + F(θ) − F₀(θ).
    """
    before = 1e-300  # size of the last step
    for _ in range(_CORRECTIONS if solved.converged else 0):
        law, theta, near = solved.law, solved.theta, few(solved.law)
        every = points.replicated(law)
        if anderson.linear:  # points are for the mistakes in training only
            return [solved._replace(averages=each) for each in every]
        base, *steps = (anderson.residual(law, each, theta) for each in (near, *every))
        found: list[Solved] = []
        for own, each in zip(steps, every, strict=True):
            if base is None or own is None:
                return []
            size = float(np.abs(own).max())
            there = anderson.solve(few, theta, tol=max(_SHARE * size, _ROOT), shift=own - base)
            if not there.converged:
                return []
            moved = {
                name: getattr(each, name) + getattr(there.averages, name) - getattr(near, name)
                for name in ("loss", "error")
            }
            found.append(there._replace(averages=each._replace(**moved)))
            # Steps fall at a rate: the next one is below `tol`, or all points are asked again.
            if len(found) == 1 and not size * min(size / before, 1.0) < tol:
                before = size
                break
        else:
            return found
        solved = found[0]
    return []


def _point(
    problem: MatrixProblem,
    solved: Solved,
    tol: float,
    numbers: dict[str, tuple[Any, Any]] | None = None,
) -> PopulationPoint:
    """What leaves; without numbers, no fixed point was in reach."""
    lost = numbers is None
    plain: dict[str, Any] = {}
    if numbers is None:
        shapes = {name: v.shape for name, (v, _) in _numbers(problem, solved, math.inf).items()}
        numbers = {n: (np.full(s, math.nan), np.full(s, math.inf)) for n, s in shapes.items()}
    for name, (value, spread) in numbers.items():
        scalar = np.ndim(value) == 0
        plain[name] = float(value) if scalar else value
        plain[f"{name}_uncertainty"] = float(spread) if scalar else spread
    plain["uncertainty"] = plain.pop("generalisation_error_uncertainty")
    ok = Status.OK if plain["uncertainty"] <= tol else Status.TOLERANCE_NOT_MET
    return PopulationPoint(
        n_classes=problem.n_classes,
        ridge=0.0 if problem.loss.scale_free or problem.ridge == _NO_RIDGE else problem.ridge,
        alpha=problem.alpha,
        status=Status.NOT_CONVERGED if lost else ok,
        law=fields_law(problem, solved.law),
        probabilities=problem.probabilities,
        theta=solved.theta,
        **plain,
    )


def population_row(population: Population, spec: ERM, point: PopulationPoint) -> dict[str, Any]:
    """The row of a fixed point; matrices as text."""
    scored = "generalisation", "balanced", "training"
    names = [*(f"{word}_error" for word in scored), "training_loss", "test_loss"]
    names += [f"{name}_uncertainty".removeprefix("generalisation_error_") for name in names]
    return make_row(
        source="theory",
        **population.columns,
        **{**spec.columns, "ridge": point.ridge},
        alpha=point.alpha,
        recall=numbers_text(point.recall),
        confusion=numbers_text(point.confusion),
        **{name: getattr(point, name) for name in (*names, "brier")},
        calibration_error=float(point.calibration.value),
        intercepts=numbers_text(point.intercepts) if spec.intercept else None,
        status=point.status,
    )
