"""One-vs-rest: k binary students, each class against all others, and the largest field wins.

The asymptotic errors of the k students of a binary loss and a ridge λ at n = αd (eq. SE with a loss
that is a sum over the k fields; `one_vs_rest_equations.py` has the formulas). The unknowns are

    θ = (ln τ, ln q, √p, ln V, b),   shape (5,),   τ = ρ/√(1 − ρ²),   ρ = m/√q,

with m, q and V those of the class differences, p the variance of the field common to all classes,
and b the intercept. The generalisation error is that of the correlation ρ, as for every student of
class differences (eq. generalization_ERM).

`BinaryStudents` computes F(θ), which vanishes at the solution, on random points in R replicates. In
each are 2^8 to 2^14 by *level* (`Points.log2_points`), placed for a θ (`nodes`). The values (7, R)
are F (5 rows), training error and training loss of each replicate, `means` (7,) their averages.
`SolutionsOverRidge` has solutions on the fewest points for any λ, by continuation,
`_solved_columns` adds points until the tolerance is met, and `one_vs_rest_rows` makes the rows.
Error bars are made in `_columns_of`: they hold in 99 of 100 cases.

For k = 2 the students are opposite, w₂ = −w₁, and equal the student of the loss of two classes at
ridge 2λ (`_row_of_two_classes`). For k > 2 this is nearly so, and gives θ to start from.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from polyceptron.checks import check_alphas, check_tolerance
from polyceptron.errors import ComputationFailed
from polyceptron.numerics import Array, with_one_blas_thread
from polyceptron.numerics.estimate import estimate_from_replicates
from polyceptron.problem import ERM, AnyTeacher
from polyceptron.problem.populations import check_teacher
from polyceptron.problem.specs import OneVsRest
from polyceptron.progress import steps
from polyceptron.rows import Row, Status, make_row
from polyceptron.sides.generalisation import error_at_tau, error_on_labels, error_slope
from polyceptron.solve.minimise import Minimum, Place, Trial, check_minimum, minimise
from polyceptron.solve.refine import POINTS_RATE, doublings_needed
from polyceptron.theory.erm.rows import erm_rows
from polyceptron.theory.one_vs_rest_equations import (
    BinaryNodes,
    BinaryStudents,
    SolvedAverages,
    order_of,
)

# The finest level of points on which a solution is refined: 2^14 points in each replicate.
LAST_LEVEL = 5
LOG_RIDGE_STEP = 1e-3  # of differences in ln λ
# The continuation in ln λ begins at this value if the ridge is smaller: there the start of
# `BinaryStudents.start` is near. Where no solution was found at first, ln λ is raised in steps.
FIRST_LOG_RIDGE = -3.0
FIRST_PATH_STEP = 2.0  # of ln λ
SHORTEST_PATH_STEP = 0.05  # of ln λ: where a solution so close does not help, none will
# No start of a continuation is sought beyond; times max(1, α) the largest ridge that is searched
# for the best one.
LARGEST_LOG_RIDGE = math.log(1e3)
SMALLEST_SEARCHED_RIDGE = 1e-8  # of the best ridge


class PathPoint(NamedTuple):
    """A solution on few points: θ (5,), ∂/∂θ (7, 5) of all values, the tangent dθ/d ln λ (5,)."""

    theta: Array
    slopes: Array
    tangent: Array


class SolutionsOverRidge:
    """Solutions on few points over ln λ: each begins at the nearest known one, along its tangent

        dθ/d ln λ = −(∂F/∂θ)⁻¹ ∂F/∂ln λ,

    of which the first component is 0 at the λ of least error. The first is one of a large λ, where
    the start is near.
    """

    def __init__(self, students: BinaryStudents) -> None:
        self.students = students
        self._known: dict[float, PathPoint] = {}  # by ln λ

    def at(self, log_ridge: float) -> PathPoint:
        """Return the solution at ln λ, by way of others if it is not found at once."""
        if log_ridge in self._known:
            return self._known[log_ridge]
        if not self._known and log_ridge < FIRST_LOG_RIDGE:
            self.at(FIRST_LOG_RIDGE)
        students = replace(self.students, ridge=math.exp(log_ridge))
        theta, slopes = self._prediction(students, log_ridge)
        nodes = students.nodes(theta, 0)
        found = students.root(theta, nodes, slopes)
        if not found.converged:
            self.at(self._stepping_stone(log_ridge))
            return self.at(log_ridge)
        own_slopes = students.slopes(found.theta, nodes)
        tangent = self._tangent(students, found.theta, nodes, own_slopes)
        self._known[log_ridge] = PathPoint(found.theta, own_slopes, tangent)
        return self._known[log_ridge]

    def _nearest(self, log_ridge: float) -> float:
        """Return the closest ln λ with a known solution, infinite if there is none."""
        return min(self._known, key=lambda known: abs(known - log_ridge), default=math.inf)

    def _prediction(self, students: BinaryStudents, log_ridge: float) -> tuple[Array, Array | None]:
        """Return θ to begin with, and the slopes there if they are known."""
        if not self._known:
            return students.start(), None
        nearest = self._nearest(log_ridge)
        point = self._known[nearest]
        return point.theta + (log_ridge - nearest) * point.tangent, point.slopes

    def _stepping_stone(self, log_ridge: float) -> float:
        """Return where to solve first: half-way to the nearest solution, or at a larger ln λ."""
        nearest = self._nearest(log_ridge)
        too_close = abs(log_ridge - nearest) < SHORTEST_PATH_STEP
        if log_ridge > LARGEST_LOG_RIDGE or too_close:
            raise ComputationFailed(
                f"no fixed point of one-vs-rest at alpha {self.students.alpha:g} and ridge "
                f"{math.exp(log_ridge):.3g}: give a larger ridge"
            )
        if self._known:
            return (log_ridge + nearest) / 2
        return log_ridge + FIRST_PATH_STEP

    def _tangent(
        self, students: BinaryStudents, theta: Array, nodes: BinaryNodes, slopes: Array
    ) -> Array:
        """Return dθ/d ln λ (5,) at a solution, by a central difference in ln λ."""
        log_ridge = math.log(students.ridge)
        lower = replace(students, ridge=math.exp(log_ridge - LOG_RIDGE_STEP))
        upper = replace(students, ridge=math.exp(log_ridge + LOG_RIDGE_STEP))
        change = lower.means(theta, nodes)[:5] - upper.means(theta, nodes)[:5]  # −ΔF
        return np.asarray(np.linalg.solve(slopes[:5], change / (2 * LOG_RIDGE_STEP)))

    def trial(self, ridge: float) -> Trial:
        """Return the error at a ridge on few points and its slope in ln λ, for the minimiser.

        More of ln τ lowers the error: `error_slope` is |dε/d ln τ|.
        """
        try:
            point = self.at(math.log(ridge))
        except ComputationFailed:
            return Trial(math.inf)
        channel = self.students.teacher.channel
        n_classes = self.students.teacher.n_classes
        tau = math.exp(point.theta[0])
        error = float(error_on_labels(channel, tau, n_classes))
        return Trial(error, -error_slope(channel, tau, n_classes) * float(point.tangent[0]))

    def best(self, tol: float) -> Minimum:
        """Return the minimum of the error over the ridge, on few points."""
        alpha = self.students.alpha
        largest = math.exp(LARGEST_LOG_RIDGE) * max(1.0, alpha)
        range_ = (SMALLEST_SEARCHED_RIDGE, largest)
        found = minimise(self.trial, math.exp(FIRST_LOG_RIDGE), tol, range_=range_)
        if found is None:
            raise ComputationFailed(
                f"no fixed point of one-vs-rest at alpha {alpha:g} on the way to the optimal "
                f"ridge: give a ridge instead of 'optimal'"
            )
        return found


@with_one_blas_thread
def one_vs_rest_rows(
    teacher: AnyTeacher, estimator: OneVsRest, alphas: Iterable[float], tol: float | None = None
) -> list[Row]:
    """Return one row of one-vs-rest for each α.

    Parameters
    ----------
    teacher : Teacher or Perceptron
        Its classes are equal.
    estimator : OneVsRest
        A binary loss and a ridge, which may be 'optimal'.
    alphas : sequence of float
        n/d.
    tol : float, optional
        Of the error, by default 1e-4.
    """
    check_teacher(teacher)
    tol = check_tolerance(tol, 1e-4)
    return [_row(teacher, estimator, alpha, tol) for alpha in steps(check_alphas(alphas))]


def _row(teacher: AnyTeacher, estimator: OneVsRest, alpha: float, tol: float) -> Row:
    """Return the row at one α."""
    if alpha == 0:  # Without samples every field is 0, whatever the student.
        (row,) = erm_rows(teacher, ERM(estimator.loss, estimator.ridge), [alpha])
        return {**row, "estimator": estimator.name}
    if teacher.n_classes == 2:
        return _row_of_two_classes(teacher, estimator, alpha, tol)
    path = SolutionsOverRidge(BinaryStudents(teacher, estimator.loss, 1.0, alpha))
    if isinstance(estimator.ridge, str):
        solved = _columns_at_best_ridge(path, tol)
    else:
        solved = _solved_columns(path, float(estimator.ridge), tol)
    columns = {**teacher.columns, **estimator.columns, "alpha": alpha, **solved}
    return make_row(source="theory", **columns)


def _columns_at_best_ridge(path: SolutionsOverRidge, tol: float) -> Row:
    """Return the columns at the ridge of least error, whose uncertainty counts what is left open.

    The ridge is searched for on few points, and compared with its neighbours on as many as the
    tolerance asks for. `left_open` is how much lower the error may be at another ridge.
    """

    def trial(ridge: float) -> Trial:
        """Return the error at a ridge, with its columns."""
        columns = _solved_columns(path, ridge, tol)
        return Trial(columns.get("generalisation_error", math.inf), answer=columns)

    found = path.best(tol)
    if found.place == Place.INSIDE:
        checked = check_minimum(trial, found.parameter, tol)
        if checked is not None:  # None where no solution was found on more points
            found = checked
    columns: Row = found.trial.answer or _solved_columns(path, found.parameter, tol)
    if "uncertainty" in columns:
        columns["uncertainty"] += found.left_open
        if columns["uncertainty"] > tol or found.place == Place.EDGE:
            columns["status"] = Status.TOLERANCE_NOT_MET
    return {**columns, "ridge": found.parameter}


def _row_of_two_classes(teacher: AnyTeacher, estimator: OneVsRest, alpha: float, tol: float) -> Row:
    """Return the row of two classes, whose students are opposite: w₂ = −w₁.

    Each has the loss ℓ(±w·x) and the penalty λ‖w‖²/2. The two-class student has u = w₁ − w₂ with
    w₁ = −w₂ = u/2, hence the loss ℓ(±u·x) and the penalty λ′‖u‖²/4: it is u = w for λ′ = 2λ. The
    difference of these students is 2w: m and V are twice, q is four times those of u. The two
    losses of a sample add up.
    """
    ridge = estimator.ridge
    if not isinstance(ridge, str):
        ridge = 2 * ridge
    (row,) = erm_rows(teacher, ERM(estimator.loss, ridge), [alpha], tol)
    factors = {
        "m": 2,
        "q": 4,
        "V": 2,
        "ridge": 0.5,
        "training_loss": 2,
        "training_loss_uncertainty": 2,
    }
    for name, factor in factors.items():
        if name in row:
            row[name] = row[name] * factor
    return {**row, "estimator": estimator.name}


def _solved_columns(path: SolutionsOverRidge, ridge: float, tol: float) -> Row:
    """Return the columns of a fixed point, on more and more points until the error meets `tol`."""
    students = replace(path.students, ridge=ridge)
    slopes: Array | None
    try:
        theta, slopes, _ = path.at(math.log(ridge))
    except ComputationFailed:  # Few points may have no solution where more have one.
        theta = students.start()
        slopes = None
    columns: Row = {"status": Status.NOT_CONVERGED}
    level = 0
    while level <= LAST_LEVEL:
        found = students.solve(theta, students.nodes(theta, level), slopes)
        if found is None:
            level += 1
            continue
        theta = found.theta
        slopes = found.slopes
        columns = _columns_of(students, found)
        if columns["uncertainty"] <= tol:
            return {**columns, "status": Status.OK}
        columns["status"] = Status.TOLERANCE_NOT_MET
        level = _next_level(level, columns["uncertainty"] / tol)
    return columns


def _next_level(level: int, ratio: float) -> int:
    """Return the level that will do, where the bar is `ratio` times the tolerance.

    The bar on the fewest points holds, but says little about that on more, and the next level is
    cheap.
    """
    if level == 0:
        return 1
    doublings = max(1, doublings_needed(ratio, POINTS_RATE))
    return max(level + 1, min(level + doublings, LAST_LEVEL))


def _columns_of(students: BinaryStudents, found: SolvedAverages) -> Row:
    """Return the columns of a solution: order parameters, errors and their uncertainties.

    A bar is the spread of what the R replicates give, at 99 of 100 (`estimate_from_replicates`),
    and what the search for θ left.
    """
    channel = students.teacher.channel
    k = students.teacher.n_classes
    theta, values, slopes, left = found
    # Each replicate's own θ, by a Newton step from the solution of the mean, centred on θ.
    newton_steps = np.linalg.solve(slopes[:5], values[:5])
    thetas = theta[:, None] - newton_steps + newton_steps.mean(axis=1, keepdims=True)
    # Each replicate's training error and loss, there.
    trained = values[5:] + slopes[5:] @ (thetas - theta[:, None])
    order = order_of(theta)
    error = float(error_on_labels(channel, order.tau, k))
    training_error, training_loss = values[5:].mean(axis=1).tolist()
    columns: Row = {
        "m": order.m,
        "q": order.q,
        "V": order.V,
        "generalisation_error": error,
        "uncertainty": _spread_around(error, error_on_labels(channel, np.exp(thetas[0]), k)),
        "training_error": training_error,
        "training_error_uncertainty": _spread_around(training_error, trained[0]),
        "training_loss": training_loss,
        "training_loss_uncertainty": _spread_around(training_loss, trained[1]),
    }
    columns["uncertainty"] += error_slope(channel, order.tau, k) * left
    # Each component of θ may be off by `left`, all in the worst direction.
    columns["training_error_uncertainty"] += float(np.abs(slopes[5]).sum()) * left
    columns["training_loss_uncertainty"] += float(np.abs(slopes[6]).sum()) * left
    if not channel.noiseless:
        columns["clean_error"] = float(error_at_tau(order.tau, k))
    return columns


def _spread_around(value: float, replicates: Array) -> float:
    """Return the uncertainty of a value from replicates (R,).

    Where the value is not linear in θ their mean differs from it, and this counts too. Training
    columns are moved linearly, so that theirs do not differ.
    """
    estimate = estimate_from_replicates(replicates)
    return float(estimate.uncertainty + abs(estimate.value - value))
