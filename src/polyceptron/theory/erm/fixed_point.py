"""Fixed points of empirical risk minimisation: one (α, λ) at a time (eq. SE, corollary 1).

`erm_fixed_point` builds the two sides, picks the equations, finds the root on
the coarsest rule (`coarse_root`) and corrects it on finer ones (`refinement`).
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import replace
from typing import Any

import numpy as np

from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.model.checks import check_alpha, check_tolerance
from polyceptron.model.estimators import ERM, StudentLaw, as_erm
from polyceptron.model.law import Law
from polyceptron.model.losses import LOSSES, Loss, check_symmetric
from polyceptron.model.penalties import Penalty
from polyceptron.model.teacher import AnyTeacher, check_teacher
from polyceptron.numerics import Array
from polyceptron.numerics.estimate import from_replicates
from polyceptron.rows import Status
from polyceptron.theory.erm.best_ridge import best_ridge
from polyceptron.theory.erm.coarse_root import coarse_root, first_level, tiny_fields, walk_down
from polyceptron.theory.erm.equations import (
    Equations,
    ErmFixedPoint,
    equations,
    no_data,
    not_converged,
)
from polyceptron.theory.erm.refinement import Refined, refine
from polyceptron.theory.erm.square_closed_form import (
    best_square_ridge,
    square_fixed_point,
    square_training_loss,
)
from polyceptron.theory.root_newton import Root
from polyceptron.theory.separability import loss_at_ridge, separable_up_to
from polyceptron.theory.sides import Problem, erm_sides

_SAMPLED_LEVEL = 1  # of the training error where no other rule knows it
_ABSURD = 230.0  # ln q of 1e100: a search that went astray
_RESOLVED = 5e-11  # |α/α_s − 1|: closer, the rules' error of α_s decides how far q has diverged
_WALK = 1e-3  # tolerance of fixed points on the way to another


def default_tolerance(n_classes: int) -> float:
    """On the generalisation error: 1e-6 for two and three classes, 1e-4 above."""
    return 1e-6 if n_classes <= 3 else 1e-4


def erm_fixed_point(
    teacher: AnyTeacher,
    estimator: Any,
    alpha: float,
    tol: float | None = None,
    start: ErmFixedPoint | None = None,
) -> ErmFixedPoint:
    """m, q, V and the errors of argmin Σℓ + (λ/2)‖W‖² at n = αd, d → ∞ (eq. SE, corollary 1).

    Parameters
    ----------
    teacher : Teacher or Perceptron
    estimator : ERM, Loss or str
        A loss or its name stands for its `ERM`.
    alpha : float
        n/d.
    tol : float, optional
        Of the generalisation error: 1e-6 for k = 2, 3, else 1e-4. The square loss needs none.
    start : ErmFixedPoint, optional
        A solution nearby; it saves time and changes the answer by less than its stated digits.

    Returns
    -------
    ErmFixedPoint

    Examples
    --------
    >>> from polyceptron.model import Teacher
    >>> round(erm_fixed_point(Teacher(3), ERM("square", 1.0), 2.0).generalisation_error, 5)
    0.30546
    """
    check_teacher(teacher)
    spec = as_erm(estimator)
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
    if alpha == 0:
        return no_data(problem, math.nan if best else ridge)
    if problem.closed_form:
        if best:
            ridge = best_square_ridge(teacher.channel, k, alpha, teacher.features)
        return square_fixed_point(problem.at(ridge=ridge))
    level, limit = 0, math.inf
    if (ridge == 0 or loss.scale_free) and not teacher.noise.noiseless:
        limit = separable_up_to(teacher)
        level = first_level(limit, alpha, k)
        if start is None:
            start = walk_down(
                limit, alpha, lambda a, s: erm_fixed_point(teacher, spec, a, _WALK, s)
            )
    theta, jacobian = (None, None) if start is None else (start.theta, start.jacobian)
    if best:
        problem, near, bend = best_ridge(problem, tol, start)
        return replace(solve(problem, tol, near.theta, near.jacobian), bend=bend)
    found = solve(problem, tol, theta, jacobian, level)
    if abs(alpha / limit - 1) < _RESOLVED and found.status == Status.OK:
        return replace(found, status=Status.TOLERANCE_NOT_MET)
    return found


def _with_penalty(
    teacher: AnyTeacher, loss: Loss, penalty: Penalty, alpha: float, tol: float | None
) -> ErmFixedPoint:
    """Any penalty: the plain loop's equations, from the fixed point of a ridge as strong."""
    near = erm_fixed_point(teacher, ERM(loss, penalty.strength), alpha, tol)
    if near.alpha == 0:
        return near
    tol = check_tolerance(tol, default_tolerance(teacher.n_classes))
    ridge = erm_sides(teacher, loss, penalty.strength, near.alpha)

    def solved(penalty: Penalty, tol: float, near: ErmFixedPoint) -> ErmFixedPoint:
        start = np.array([math.log(near.tau), math.log(near.q), math.log(near.V)])
        return solve(replace(ridge, penalty=penalty), tol, start)

    found = solved(penalty, tol, near)
    if found.status == Status.NOT_CONVERGED:
        for step in penalty.path():
            found = solved(step, tol if step == penalty else max(tol, _WALK), near)
            if found.status == Status.NOT_CONVERGED:
                break
            near = found
    return found


def student_law(
    teacher: AnyTeacher, estimator: ERM, alpha: float, tol: float | None = None
) -> StudentLaw:
    """The law of the fields at α; of a hard margin its direction only."""
    point = erm_fixed_point(teacher, estimator, alpha, tol)
    if not math.isfinite(point.tau):
        raise ComputationFailed(f"the fixed point at alpha {alpha:g} was not found")
    law, hard = point.law, False
    if estimator.penalty is None:
        hard = loss_at_ridge(estimator.loss, point.ridge, teacher, alpha).scale_free
    scaled = not hard and math.isfinite(point.q)
    law = law if scaled else Law(point.tau, 1.0, 1.0)
    return StudentLaw(law, point.uncertainty, point.status, point.ridge, scaled)


def optimal_ridge(
    teacher: AnyTeacher,
    estimator: Any,
    alpha: float,
    tol: float | None = None,
    *,
    target: str = "error",
) -> float:
    """The λ of least generalisation error at α; σ²/c² at every α for the square loss.

    Parameters
    ----------
    teacher : Teacher or Perceptron
    estimator : ERM, Loss or str
        Its own ridge is not used.
    alpha : float
        n/d.
    tol : float, optional
        That of `erm_fixed_point` at each λ tried.
    target : {'error', 'test-loss', 'calibration'}
        What is to be least.

    Returns
    -------
    float

    Examples
    --------
    >>> from polyceptron.model import Teacher
    >>> round(optimal_ridge(Teacher(3), "square", 2.0), 4)
    0.8617
    """
    if target == "error":
        spec = ERM(as_erm(estimator).loss, "optimal")
        return erm_fixed_point(teacher, spec, alpha, tol).ridge
    from polyceptron.theory.calibration import TARGETS, ridge_for  # which asks for fixed points

    if target not in TARGETS:
        allowed = ", ".join(map(repr, TARGETS))
        raise InvalidInput(f"unknown target {target!r} of a ridge: allowed are {allowed}")
    return ridge_for(teacher, estimator, alpha, target)


def solve(
    problem: Problem,
    tol: float,
    start: Array | None = None,
    jacobian: Array | None = None,
    level: int = 0,
) -> ErmFixedPoint:
    """The fixed point with ε to `tol`, or as close as the finest level comes, from `level` on."""
    if tiny_fields(problem):
        problem = problem.at(by_points=True)
    system = equations(problem)
    near = start if start is not None and len(start) == system.n_unknowns else None
    root = coarse_root(system, near, jacobian if near is not None else None, level)
    refined = _refined(system, root, tol, level)
    if refined is None and (other := system.fallback) is not None:
        system, root = other, coarse_root(other, level=level)
        refined = _refined(system, root, tol, level)
    if refined is None or refined.uncertainty > tol:
        if problem.fields.rule.follows:
            near = start if refined is None else refined.root.theta
            return solve(problem.at(by_points=True), tol, near)
        if refined is None:
            return not_converged(problem, root.theta, root.jacobian)
    law, hats = system.solution(refined.root.theta, refined.averages)
    loss, loss_spread = float(refined.averages.loss[0]), refined.loss_uncertainty
    if math.isnan(loss) and problem.penalty.quadratic:
        loss = square_training_loss(problem, law)
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
        theta=refined.root.theta,
        jacobian=refined.root.jacobian,
    )


def _refined(system: Equations, root: Root, tol: float, level: int) -> Refined | None:
    """Finer levels, unless there is no root or a finer one has its root elsewhere."""
    if root.converged:
        with contextlib.suppress(ArithmeticError, np.linalg.LinAlgError):
            found = refine(system, root, tol, level)
            if found.root.theta[1] < _ABSURD:
                return found
    return None


def _mistakes(problem: Problem, law: Law, refined: Refined) -> tuple[float, float]:
    """The training error and its uncertainty; a probability of margins where nodes are random."""
    measured = float(refined.averages.error[0]), refined.mistakes_uncertainty
    if not problem.fields.rule.sampled and not math.isnan(measured[0]):
        return measured
    value = problem.training_error(law)
    if value is None and not problem.fields.rule.sampled:  # from quasi-random points
        averages = problem.at(by_points=True).fields.averages(_SAMPLED_LEVEL, law)
        found = from_replicates(averages(law).error)
        return float(found.value), float(found.uncertainty)
    if value is None:
        return measured
    # One step of each unknown by its uncertainty.
    up = np.exp(refined.theta_uncertainty)
    moved = {"tau": law.tau * up[0], "q": law.q * up[1], "V": law.V * up[-1]}
    values = [problem.training_error(replace(law, **{n: x})) or 0.0 for n, x in moved.items()]
    return value, sum(abs(other - value) for other in values) + 1e-11
