"""Fixed points of empirical risk minimisation: one (α, λ) at a time (eq. SE, corollary 1).

`erm_fixed_point` builds the two sides, picks the equations, finds the root on the coarsest rule
(`coarse_root`) and corrects it on finer ones (`refinement`). Its rows are learning curves in α, and
curves in the ridge.
"""

import contextlib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, overload

import numpy as np
from scipy.interpolate import PchipInterpolator

from polyceptron.checks import check_alpha, check_alphas, check_tolerance
from polyceptron.errors import ComputationFailed
from polyceptron.numerics import Array, with_one_blas_thread
from polyceptron.numerics.estimate import estimate_from_replicates
from polyceptron.problem.losses import LOSSES, Loss, check_symmetric
from polyceptron.problem.order import Conjugates, ScalarOrder
from polyceptron.problem.penalties import Penalty
from polyceptron.problem.populations import AnyTeacher, Mixture, check_population
from polyceptron.problem.specs import ERM, as_erm
from polyceptron.progress import steps
from polyceptron.rows import Status, make_row
from polyceptron.sides.scalar import Problem, erm_sides
from polyceptron.theory.erm import square_closed_form as square
from polyceptron.theory.erm import unequal_classes as unequal
from polyceptron.theory.erm.best_ridge import best_ridge
from polyceptron.theory.erm.coarse_root import Root, coarse_root, small_weights, towards_limit
from polyceptron.theory.erm.equations import ErmFixedPoint, equations
from polyceptron.theory.erm.refinement import Refined, refine
from polyceptron.theory.separability import NotSeparableHere, loss_at_ridge, separable_up_to

_LEVEL = 1  # of a change between two laws, and of a training error that only points know
_ABSURD = 230.0  # ln q of 1e100: a search that went astray
_RESOLVED = 5e-11  # |α/α_s − 1|: closer, the rules' error of α_s decides how far q has diverged
_SMALL = 0.1  # q of weights at which hinges are as at 0
_WALK = 1e-3  # tolerance of fixed points on the way to another


def default_tolerance(n_classes: int) -> float:
    """On the generalisation error: 1e-6 for two and three classes, 1e-4 above."""
    return 1e-6 if n_classes <= 3 else 1e-4


@overload
def erm_fixed_point(
    teacher: Mixture, estimator: Any, alpha: float, tol: float | None = None
) -> unequal.PopulationPoint: ...
@overload
def erm_fixed_point(
    teacher: AnyTeacher, estimator: Any, alpha: float, tol: float | None = None
) -> ErmFixedPoint: ...
@overload
def erm_fixed_point(
    teacher: AnyTeacher, estimator: Any, alpha: Sequence[float] | Array, tol: float | None = None
) -> list[ErmFixedPoint]: ...
@with_one_blas_thread
def erm_fixed_point(teacher: Any, estimator: Any, alpha: Any, tol: float | None = None) -> Any:
    """m, q, V and the errors of argmin Σℓ + (λ/2)‖W‖² at n = αd, d → ∞ (eq. SE, corollary 1).

    Parameters
    ----------
    teacher : Teacher, Perceptron or Mixture
    estimator : ERM, Loss or str
        A loss or its name stands for its `ERM`.
    alpha : float or array_like
        n/d, one or several.
    tol : float, optional
        Of the generalisation error: 1e-6 for k = 2, 3, else 1e-4, or 1e-3 where classes are not
        alike. The square loss needs none.

    Returns
    -------
    ErmFixedPoint, or a list of them for several α
        Where classes are not alike (a mixture, biases, class weights) a `PopulationPoint`, with
        matrices in place of scalars.

    Examples
    --------
    >>> from polyceptron.problem import Mixture, Teacher
    >>> rare = Mixture(shares=(0.9, 0.1), separation=2.0)
    >>> erm_fixed_point(rare, ERM(intercept=True), 3.0).recall.round(4).tolist()
    [0.9721, 0.267]
    >>> round(erm_fixed_point(Teacher(3), ERM("square", 1.0), 2.0).generalisation_error, 5)
    0.30546
    """
    check_population(teacher)
    spec = as_erm(estimator)
    if np.ndim(alpha):  # each as if it were alone
        return [erm_fixed_point(teacher, spec, a, tol) for a in check_alphas(alpha)]
    if not spec.sees_equal_classes(teacher):
        return unequal.population_point(teacher, spec, alpha, tol)
    if spec.penalty is not None:
        return _with_penalty(teacher, spec.loss, spec.penalty, alpha, tol)
    alpha, k = check_alpha(alpha), teacher.n_classes
    tol = check_tolerance(tol, default_tolerance(k))
    loss = loss_at_ridge(spec.loss, spec.ridge, teacher, alpha)
    if not any(type(loss) is entry.make for entry in LOSSES.entries):
        check_symmetric(loss, k)
    best = isinstance(spec.ridge, str)
    ridge = 1.0 if best else float(spec.ridge)
    problem = erm_sides(teacher, loss, ridge, alpha)
    small = None
    if loss.pooled and k > 2 and alpha > 0 and not teacher.noise.noiseless:
        small = small_weights(problem)
    if alpha == 0 or (small is not None and small.V == 0):
        # The estimate is 0 and every class is a guess; the loss of a hinge there is 1.
        guess, seen, V = 1 - 1 / k, 0.0 if alpha else math.nan, 0.0
        if alpha == 0:
            V = 1 / ridge if ridge > 0 and not best else math.inf
        return ErmFixedPoint.at(
            problem,
            ScalarOrder(0.0, 0.0, V),
            Conjugates(0.0, 0.0, math.inf if alpha else 0.0),
            uncertainty=0.0,
            ridge=math.nan if best else ridge,
            generalisation_error=guess,
            clean_error=guess,
            training_loss=1 + seen,
            training_loss_uncertainty=seen,
            training_error=guess + seen,
            training_error_uncertainty=seen,
            status=Status.OK,
        )
    if problem.closed_form:
        if best:
            return square.best_square_point(problem)
        return square.square_fixed_point(problem)
    room, near = math.inf, None
    if (ridge == 0 or loss.scale_free) and not teacher.noise.noiseless:
        limit = separable_up_to(teacher, False)
        room, near = abs(alpha / limit - 1), towards_limit(problem, limit)
    if best and not loss.scale_free:

        def without_ridge() -> ErmFixedPoint:
            return erm_fixed_point(teacher, ERM(spec.loss, 0.0), alpha, tol)

        return best_ridge(problem, tol, solve, without_ridge)
    theta, jacobian = (None, None) if near is None else (near.theta, near.jacobian)
    if near is None and small is not None and small.q < _SMALL:
        theta, room = np.log([small.tau, small.q, small.V]), problem.ridge * small.V
    arrived = near if near is not None and near.converged else None
    found = solve(problem, tol, theta, jacobian, room, arrived)
    if room < _RESOLVED and found.status == Status.OK:
        return replace(found, status=Status.TOLERANCE_NOT_MET)
    return found


def _with_penalty(
    teacher: AnyTeacher, loss: Loss, penalty: Penalty, alpha: float, tol: float | None
) -> ErmFixedPoint:
    """Any penalty: the plain loop's equations, from the fixed point of a ridge as strong."""
    near = erm_fixed_point(teacher, ERM(loss, penalty.strength), alpha, tol)
    if near.q == 0:
        return near
    tol = check_tolerance(tol, default_tolerance(teacher.n_classes))
    ridge = erm_sides(teacher, loss, penalty.strength, near.alpha)

    def solved(penalty: Penalty, tol: float, near: ErmFixedPoint) -> ErmFixedPoint:
        start = np.array([math.log(near.tau), math.log(near.q), math.log(near.V)])
        return solve(replace(ridge, weights=replace(ridge.weights, penalty=penalty)), tol, start)

    found = solved(penalty, tol, near)
    if found.status == Status.NOT_CONVERGED:
        for step in penalty.path():
            found = solved(step, tol if step == penalty else max(tol, _WALK), near)
            if found.status == Status.NOT_CONVERGED:
                break
            near = found
    return found


def student_order(
    teacher: AnyTeacher, estimator: ERM, alpha: float, tol: float | None = None
) -> tuple[ErmFixedPoint, ScalarOrder, bool]:
    """Return the fixed point at α, the law of the student's fields, and whether they have a scale.

    A hard margin fixes the direction of the weights alone; its law is given at q = V = 1.
    """
    point = erm_fixed_point(teacher, estimator, alpha, tol)
    if not math.isfinite(point.tau):
        raise ComputationFailed(f"the fixed point at alpha {alpha:g} was not found")
    hard = False
    if estimator.penalty is None:
        hard = loss_at_ridge(estimator.loss, point.ridge, teacher, alpha).scale_free
    if hard or not math.isfinite(point.q):
        return point, ScalarOrder(point.tau, 1.0, 1.0), False
    return point, point.law, True


def solve(
    problem: Problem,
    tol: float,
    start: Array | None = None,
    jacobian: Array | None = None,
    room: float = math.inf,
    root: Root | None = None,
) -> ErmFixedPoint:
    """The fixed point with ε to `tol`, or as close as levels come; `room` as in `coarse_root`."""
    system, refined, parts = equations(problem), None, steps(range(2))
    next(parts)
    root = coarse_root(system, start, jacobian, room) if root is None else root
    next(parts)
    if root.converged:  # or a finer level may have its root elsewhere
        with contextlib.suppress(ArithmeticError, np.linalg.LinAlgError):
            refined = refine(system, root, tol)
            if refined.theta[1] > _ABSURD or not math.isfinite(refined.uncertainty):
                refined = None
    if refined is None or refined.uncertainty > tol:
        if problem.fields.rule.follows:
            near = root.theta if refined is None else refined.theta
            sampled = solve(problem.at(by_points=True), tol, near)
            if refined is None or sampled.uncertainty <= refined.uncertainty:
                return sampled
        elif refined is None:
            return ErmFixedPoint.at(
                problem, ScalarOrder(*[math.nan] * 3), Conjugates(*[math.nan] * 3)
            )
    law, hats = system.law(refined.theta), problem.fields.hats(refined.averages)
    loss, loss_spread = float(refined.averages.loss[0]), refined.loss_uncertainty
    if math.isnan(loss) and problem.weights.penalty.quadratic:
        loss = square.square_training_loss(problem, law)
    elif not problem.loss.scale_free:
        # A loss that acts along (1, …, 1), which no label shows, has a mean that is not known.
        zero = np.zeros((1, problem.n_classes))
        slope = problem.loss.gradient(zero, np.zeros(1, dtype=np.int64))
        if abs(float(slope.sum())) > 1e-8 * (1 + float(np.abs(slope).max())):
            loss, loss_spread = math.nan, math.nan
    mistakes, spread = _mistakes(problem, law, refined)
    return ErmFixedPoint.at(
        problem,
        law,
        hats,
        generalisation_error=refined.error,
        uncertainty=refined.uncertainty,
        training_loss=loss,
        training_loss_uncertainty=loss_spread,
        training_error=mistakes,
        training_error_uncertainty=spread,
        status=Status.OK if refined.uncertainty <= tol else Status.TOLERANCE_NOT_MET,
    )


def _mistakes(problem: Problem, law: ScalarOrder, refined: Refined) -> tuple[float, float]:
    """The training error and its uncertainty; a probability of margins where nodes are random."""
    measured = float(refined.averages.error[0]), refined.mistakes_uncertainty
    if not problem.fields.rule.sampled and not math.isnan(measured[0]):
        return measured
    value = problem.training_error(law)
    if value is None and not problem.fields.rule.sampled:  # from quasi-random points
        found = estimate_from_replicates(
            problem.at(by_points=True).fields.averages(_LEVEL, law)(law).error
        )
        return float(found.value), float(found.uncertainty)
    if value is None:
        return measured
    # One step of each unknown by its uncertainty.
    up = np.exp(refined.theta_uncertainty)
    moved = {"tau": law.tau * up[0], "q": law.q * up[1], "V": law.V * up[-1]}
    values = [problem.training_error(replace(law, **{n: x})) or 0.0 for n, x in moved.items()]
    return value, sum(abs(other - value) for other in values) + 1e-11


def erm_rows(
    teacher: AnyTeacher, estimator: Any, alphas: Iterable[float], tol: float | None = None
) -> list[dict[str, Any]]:
    """One row for each α, as if it were alone; above α_s those of max-margin have no numbers."""
    return next(erm_parts(teacher, estimator, [alphas], tol))


def erm_parts(
    teacher: AnyTeacher,
    estimator: Any,
    parts: Iterable[Iterable[float]],
    tol: float | None = None,
    searched: float = math.inf,
) -> Iterator[list[dict[str, Any]]]:
    """Rows of one curve part by part, as they are known.

    A best ridge is searched for in the first `searched` parts, and between their points read off
    a smooth line of ln λ against ln(1 + α): the error is stationary there.
    """
    spec = as_erm(estimator)
    lost = {"source": "theory", **teacher.columns, "estimator": spec.name, "ridge": 0.0}
    points: dict[float, ErmFixedPoint] = {}
    best: dict[float, float] = {}  # ln λ where it was searched for
    inseparable = math.inf
    for number, part in enumerate(parts):
        values = [check_alpha(alpha) for alpha in part]
        for alpha in steps(sorted(set(values) - set(points))):
            if alpha >= inseparable:
                break
            there = spec
            if number >= searched and best:
                x, y = np.array([(math.log1p(a), best[a]) for a in sorted(best)]).T
                at = min(max(math.log1p(alpha), x[0]), x[-1])
                found = PchipInterpolator(x, y)(at) if len(x) > 1 else y[0]
                there = replace(spec, ridge=math.exp(found))
            try:
                points[alpha] = erm_fixed_point(teacher, there, alpha, tol)
                if isinstance(there.ridge, str) and points[alpha].ridge > 0:
                    best[alpha] = math.log(points[alpha].ridge)
            except NotSeparableHere:
                inseparable = alpha
        yield [
            erm_row(teacher, spec, points[alpha])
            if alpha in points
            else make_row(**lost, alpha=alpha, status=Status.DIVERGES)
            for alpha in values
        ]


def erm_row(teacher: AnyTeacher, estimator: ERM, point: Any) -> dict[str, Any]:
    """The row of a fixed point."""
    if not estimator.sees_equal_classes(teacher):
        return unequal.population_row(teacher, estimator, point)
    names = ["alpha", "m", "q", "V", "generalisation_error", "uncertainty", "status"]
    names += ["training_error", "training_error_uncertainty"]
    names += ["training_loss", "training_loss_uncertainty"]
    return make_row(
        source="theory",
        **teacher.columns,
        **(estimator.columns if estimator.penalty else {**estimator.columns, "ridge": point.ridge}),
        **{name: getattr(point, name) for name in names},
        clean_error=None if teacher.channel.noiseless else point.clean_error,
    )
