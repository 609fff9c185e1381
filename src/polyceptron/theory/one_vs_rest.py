"""One-vs-rest: k binary students, each class against all others, and the largest field wins.

Student c minimises Σ_μ ℓ(s_μ h_μ) + (λ/2)‖w_c‖² with h = w_c·x/√d + b and s = 1 for its own class,
else −1. This is empirical risk minimisation in all k fields with a loss that is a sum over them:
the proximal map acts on each field alone, with one V. Where classes are equal, the covariance of
the fields is q on the class differences and p along (1, …, 1), which no label shows, and b is one
number. With r = k − 1 and f_l the pull of a sample with label l on the k fields,

    m̂ = (α/r) E Σ_l ∇Z_l·f_l,   q̂ = (α/r) E Σ_l Z_l‖f_⊥‖²,   p̂ = α E Σ_l Z_l (1·f)²/k,
    V̂ = (α/k) E Σ_l Z_l Σ_c(−∂f_c),   E Σ_l Z_l 1·f = 0                                    (gives b)

with Z at mean (m/q)ω_⊥ and variance 1 − m²/q; then the ridge's weights side, p having no signal.
The unknowns are θ = (ln τ, ln q, √p, ln V, b), τ = ρ/√(1 − ρ²) with ρ = m/√q. The error is that of
the correlation ρ, as for every student of class differences.

Averages are taken over the points of `sides/fields/points.py` with label 1, k times. For losses
with kinks V̂ comes by parts: with x the fields of variance 1, of which ω_c = √q(x_c − x̄) + √p x̄ + b,
and M and C the averages in m̂ and V̂ without α,

    (√q r + √p) C = r√q (m/q) M − E Σ_l Z_l x·f_l.

A binary loss is a loss of two classes with fields (−h/2, h/2), so that V is halved there. Two
classes are that loss at ridge 2λ, with fields twice as large; so are, nearly, more of them, from
which the search for their own solution begins.

How the pieces compose: `BinaryStudents` has the equations, `SolutionsOverRidge` their solutions on
few points for any λ by continuation, `_solved_columns` adds points until the tolerance is met, and
`one_vs_rest_rows` makes the rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.optimize import approx_fprime

from polyceptron.checks import check_alphas, check_tolerance
from polyceptron.errors import ComputationFailed
from polyceptron.numerics import Array, with_one_blas_thread
from polyceptron.numerics.estimate import N_REPLICATES, estimate_from_replicates
from polyceptron.numerics.orthant import Winning
from polyceptron.problem import ERM, AnyTeacher, Loss
from polyceptron.problem.channels import Channel
from polyceptron.problem.order import ScalarOrder
from polyceptron.problem.penalties import spectrum_sums
from polyceptron.problem.populations import check_teacher
from polyceptron.problem.specs import OneVsRest
from polyceptron.progress import steps
from polyceptron.rows import Row, Status, make_row
from polyceptron.sides.fields.points import boundary_points
from polyceptron.sides.generalisation import error_at_tau, error_on_labels, error_slope
from polyceptron.solve import error_model
from polyceptron.solve.minimise import Minimum, Place, Trial, check_minimum, minimise
from polyceptron.solve.refine import POINTS_RATE, doublings_needed
from polyceptron.solve.root import Root, newton
from polyceptron.theory.erm.fixed_point import erm_fixed_point
from polyceptron.theory.erm.rows import erm_rows

# The finest level of points on which a solution is refined: 2^13 points in each replicate.
LAST_LEVEL = 5
LONGEST_UNTRIED_STEP = 5e-3  # of θ
DERIVATIVE_STEP = 1e-3  # of differences in θ and in ln λ
SOLUTION_TOLERANCE = 1e-7  # of each component of θ on given points
# The continuation in ln λ begins at this value if the ridge is smaller: there the start of
# `BinaryStudents.start` is near. Where no solution was found at first, ln λ is raised in steps.
FIRST_LOG_RIDGE = -3.0


class PullSums(NamedTuple):
    """What the averages need of the pulls f of all students, n points with label 1."""

    difference: Array  # f_1 − f_h (k−1, n)
    norm: Array  # ‖f_⊥‖² (n,)
    total: Array  # 1·f (n,)
    stiffness: Array  # Σ_c(−∂f_c), times 2 (n,)
    mistaken: Array  # whether another proximal field is the largest (n,)
    loss: Array  # the sum of the losses (n,)
    along: Array  # x·f (n,)


class BinaryNodes:
    """Points with label 1: fields x of variance 1, shape (k, n), and their weights (n,).

    The label depends on τ alone, and the pulls on all unknowns but τ. Both are remembered for two
    values, so that a column of the Jacobian costs one of them.
    """

    def __init__(self, channel: Channel, loss: Loss, x: Array, weight: Array) -> None:
        self.x = x
        self.weight = weight
        self.channel = channel
        self.loss = loss
        self.label = lru_cache(maxsize=2)(self._label)
        self.pulls = lru_cache(maxsize=2)(self._pulls)

    def _label(self, tau: float) -> Winning:
        """Return Z and its slopes at τ."""
        order = ScalarOrder(tau, 1.0, 1.0)
        return self.channel.label_law(order.slope * (self.x[0] - self.x[1:]), order.residual)

    def _pulls(self, q: float, root_p: float, V: float, b: float) -> PullSums:
        """Return the sums over all students at fields of norms q and √p and intercept b."""
        x = self.x
        k = len(x)
        common = x.mean(axis=0)
        omega = math.sqrt(q) * (x - common) + root_p * common + b
        f, stiffness, losses = self._pulls_at(omega, V)
        proximal_fields = omega + V * f
        total = f.sum(axis=0)
        return PullSums(
            difference=f[0] - f[1:],
            norm=(f**2).sum(axis=0) - total**2 / k,
            total=total,
            stiffness=stiffness.sum(axis=0),
            mistaken=proximal_fields[0] < proximal_fields[1:].max(axis=0),
            loss=losses.sum(axis=0),
            along=(x * f).sum(axis=0),
        )

    def _pulls_at(self, omega: Array, V: float) -> tuple[Array, Array, Array]:
        """Return the pulls f, −∂f (times 2) and losses of all students at fields ω, each (k, n).

        The label of all points is class 1: for the first student it is its own class.
        """
        two_fields = np.stack([-omega.ravel() / 2, omega.ravel() / 2], axis=1)
        own_class = np.zeros(omega.shape, int)
        own_class[0] = 1
        f, stiffness = self.loss.denoise(two_fields, own_class.ravel(), V / 2)
        losses = self.loss.value_at_prox(two_fields + V / 2 * f, own_class.ravel())
        # A loss of differences pulls both fields by the same amount, in opposite directions.
        pull = (f[:, 1] - f[:, 0]) / 2
        return (
            pull.reshape(omega.shape),
            stiffness.reshape(omega.shape),
            losses.reshape(omega.shape),
        )


class SolvedAverages(NamedTuple):
    """A solution on given points, with all values there.

    θ (5,), the values of every replicate (7, R) and their slopes ∂/∂θ (7, 5). `left` bounds by how
    much a component of θ may still be off.
    """

    theta: Array
    values: Array
    slopes: Array
    left: float


def order_of(theta: Array) -> ScalarOrder:
    """Return the order parameters (τ, q, V) on class differences at θ (5,)."""
    tau, q, V = np.exp(theta[[0, 1, 3]]).tolist()
    return ScalarOrder(tau, q, V)


def _log(values: Array) -> Array:
    """Return ln of values that may vanish far from a solution."""
    return np.asarray(np.log(np.maximum(values, 1e-300)))


@dataclass(frozen=True)
class BinaryStudents:
    """k binary students of a loss at one α: the equations for θ = (ln τ, ln q, √p, ln V, b)."""

    teacher: AnyTeacher
    loss: Loss
    ridge: float
    alpha: float

    @np.errstate(all="ignore")  # Far from a solution values may overflow.
    def values(self, theta: Array, nodes: BinaryNodes) -> Array:
        """Return θ less θ after a round (5 rows), training error and loss: (7, R replicates)."""
        k = len(nodes.x)
        law = order_of(theta)
        root_p = float(theta[2])
        b = float(theta[4])
        label = nodes.label(law.tau)
        pulls = nodes.pulls(law.q, root_p, law.V, b)
        Z = label.z
        parts = np.stack(
            [
                np.einsum("hn,hn->n", label.slopes, pulls.difference) / (k - 1),
                Z * pulls.norm / (k - 1),
                Z * pulls.total**2 / k,
                Z * pulls.stiffness / (2 * k),
                Z * pulls.total / k,
                Z * pulls.mistaken,
                Z * pulls.loss,
            ]
        )
        averages = (parts * nodes.weight).reshape(7, N_REPLICATES, -1).sum(axis=2)
        M, Q, P, C, pull = averages[:5]
        if self.loss.coordinates.jumps:  # −∂f is a step function of θ
            x_f = (nodes.weight * Z * pulls.along).reshape(N_REPLICATES, -1).sum(axis=1)
            slope = (k - 1) * math.sqrt(law.q) * law.slope
            C = (slope * M - x_f) / ((k - 1) * math.sqrt(law.q) + root_p)
        new_order = self._weights_side(M, Q, P, C)
        after_round = np.array([*new_order, b + pull / C])
        return np.concatenate([theta[:, None] - after_round, averages[5:]])

    def _weights_side(self, M: Array, Q: Array, P: Array, C: Array) -> list[Array]:
        """Return ln τ, ln q, √p and ln V after a round, (R,) each, from averages without α."""
        sums = spectrum_sums(self.ridge, self.teacher.features, self.alpha * C)
        m_hat = self.alpha * M
        residual = self.alpha * Q * sums.norm + m_hat**2 * sums.spread  # q − m²
        m = m_hat * sums.mean
        return [
            _log(m / np.sqrt(residual)),
            _log(m**2 + residual),
            np.sqrt(self.alpha * P * sums.norm),
            _log(sums.response),
        ]

    def nodes(self, theta: Array, level: int) -> BinaryNodes:
        """Return points that are placed for the law at θ."""
        channel = self.teacher.channel
        points = boundary_points(
            self.loss.coordinates, channel, self.teacher.n_classes, order_of(theta), level
        )
        x = np.concatenate([points.label[None], points.label - points.gaps])
        return BinaryNodes(channel, self.loss, x, N_REPLICATES * points.weight)

    def start(self) -> Array:
        """Return θ of the loss in all fields at twice the ridge: for the square loss that is it."""
        k = self.teacher.n_classes
        near = erm_fixed_point(self.teacher, ERM(self.loss, 2 * self.ridge), self.alpha, 1e-2)
        log_tau, log_q, log_V = np.log([near.tau, 4 * near.q, 2 * near.V])
        return np.array([log_tau, log_q, 0.5, log_V, -math.log(k - 1)])

    def solve(
        self, theta: Array, nodes: BinaryNodes, slopes: Array | None = None
    ) -> SolvedAverages | None:
        """Return the solution next to θ on these points; None if Newton's method found none.

        A short step with slopes of a neighbouring problem is taken without a trial: what it leaves
        is of second order, and a share of the step by the error of these slopes.
        """
        if slopes is not None:
            values = self.values(theta, nodes)
            step = np.linalg.solve(slopes[:5], -values[:5].mean(axis=1))
            longest = float(np.abs(step).max())
            if longest < LONGEST_UNTRIED_STEP:
                left = longest**2 + error_model.CHORD_ERROR * longest
                return SolvedAverages(theta + step, values + (slopes @ step)[:, None], slopes, left)
        found = self.root(theta, nodes, slopes)
        if not found.converged:
            return None
        all_slopes = self.slopes(found.theta, nodes) if slopes is None else slopes.copy()
        all_slopes[:5] = found.jacobian
        values = self.values(found.theta, nodes)
        return SolvedAverages(found.theta, values, all_slopes, SOLUTION_TOLERANCE)

    def root(self, theta: Array, nodes: BinaryNodes, slopes: Array | None) -> Root:
        """Run Newton's method from θ, with slopes ∂/∂θ (7, 5) of a solution near by if known."""
        jacobian = None
        if slopes is not None:
            jacobian = slopes[:5]

        def equations(at: Array) -> Array:
            """Return the five residuals, averaged over replicates."""
            return self.means(at, nodes)[:5]

        return newton(equations, theta, tol=SOLUTION_TOLERANCE, jacobian=jacobian)

    def means(self, theta: Array, nodes: BinaryNodes) -> Array:
        """Return the values averaged over all replicates, (7,)."""
        return np.asarray(self.values(theta, nodes).mean(axis=1))

    def slopes(self, theta: Array, nodes: BinaryNodes) -> Array:
        """Return ∂/∂θ of the means, (7, 5)."""
        return np.asarray(approx_fprime(theta, self.means, DERIVATIVE_STEP, nodes))


class PathPoint(NamedTuple):
    """A solution on few points: θ (5,), ∂F/∂θ (7, 5) and the tangent dθ/d ln λ (5,)."""

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
        too_close = abs(log_ridge - nearest) < 0.05
        if log_ridge > math.log(1e3) or too_close:
            raise ComputationFailed(
                f"no fixed point of one-vs-rest at alpha {self.students.alpha:g} and ridge "
                f"{math.exp(log_ridge):.3g}: give a larger ridge"
            )
        if self._known:
            return (log_ridge + nearest) / 2
        return log_ridge + 2.0

    def _tangent(
        self, students: BinaryStudents, theta: Array, nodes: BinaryNodes, slopes: Array
    ) -> Array:
        """Return dθ/d ln λ (5,) at a solution, by a central difference in ln λ."""
        log_ridge = math.log(students.ridge)
        lower = replace(students, ridge=math.exp(log_ridge - DERIVATIVE_STEP))
        upper = replace(students, ridge=math.exp(log_ridge + DERIVATIVE_STEP))
        change = lower.means(theta, nodes)[:5] - upper.means(theta, nodes)[:5]
        return np.asarray(np.linalg.solve(slopes[:5], change / (2 * DERIVATIVE_STEP)))

    def trial(self, ridge: float) -> Trial:
        """Return the error at a ridge on few points and its slope in ln λ, for the minimiser."""
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
        largest = 1e3 * max(1.0, alpha)
        found = minimise(
            self.trial,
            math.exp(FIRST_LOG_RIDGE),
            tol,
            range_=(1e-8, largest),
        )
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
    tolerance asks for.
    """

    def trial(ridge: float) -> Trial:
        """Return the error at a ridge, with its columns."""
        columns = _solved_columns(path, ridge, tol)
        return Trial(columns.get("generalisation_error", math.inf), answer=columns)

    found = path.best(tol)
    if found.place == Place.INSIDE:
        found = check_minimum(trial, found.parameter, tol) or found
    columns: Row = found.trial.answer or _solved_columns(path, found.parameter, tol)
    if "uncertainty" in columns:
        columns["uncertainty"] += found.left_open
        if columns["uncertainty"] > tol or found.place == Place.EDGE:
            columns["status"] = Status.TOLERANCE_NOT_MET
    return {**columns, "ridge": found.parameter}


def _row_of_two_classes(teacher: AnyTeacher, estimator: OneVsRest, alpha: float, tol: float) -> Row:
    """Return the row of two classes, where both students are one and their losses two."""
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

    The spread on the fewest points is no guide, and the next level is cheap.
    """
    if level == 0:
        return 1
    doublings = max(1, doublings_needed(ratio, POINTS_RATE))
    return max(level + 1, min(level + doublings, LAST_LEVEL))


def _columns_of(students: BinaryStudents, found: SolvedAverages) -> Row:
    """Return the columns of a solution: order parameters, errors and their uncertainties."""
    channel = students.teacher.channel
    k = students.teacher.n_classes
    theta, values, slopes, left = found
    # Each replicate's θ, by a Newton step from the solution of the mean.
    newton_steps = np.linalg.solve(slopes[:5], values[:5])
    thetas = theta[:, None] - newton_steps + newton_steps.mean(axis=1, keepdims=True)
    trained = values[5:] + slopes[5:] @ (thetas - theta[:, None])
    law = order_of(theta)
    error = float(error_on_labels(channel, law.tau, k))
    training_error, training_loss = values[5:].mean(axis=1).tolist()
    columns: Row = {
        "m": law.m,
        "q": law.q,
        "V": law.V,
        "generalisation_error": error,
        "uncertainty": _spread_around(error, error_on_labels(channel, np.exp(thetas[0]), k)),
        "training_error": training_error,
        "training_error_uncertainty": _spread_around(training_error, trained[0]),
        "training_loss": training_loss,
        "training_loss_uncertainty": _spread_around(training_loss, trained[1]),
    }
    columns["uncertainty"] += error_slope(channel, law.tau, k) * left
    # Each component of θ may be off by `left`, all in the worst direction.
    columns["training_error_uncertainty"] += float(np.abs(slopes[5]).sum()) * left
    columns["training_loss_uncertainty"] += float(np.abs(slopes[6]).sum()) * left
    if not channel.noiseless:
        columns["clean_error"] = float(error_at_tau(law.tau, k))
    return columns


def _spread_around(value: float, replicates: Array) -> float:
    """Return the uncertainty of a value from replicates (R,), the bias of their mean included."""
    estimate = estimate_from_replicates(replicates)
    return float(estimate.uncertainty + abs(estimate.value - value))
