"""Fixed points of empirical risk minimisation: one (α, λ) at a time, or along a curve.

Newton solves the equations on the coarsest level, from a nearby solution if there is one, else from
that of two classes, which is found by continuation in λ from the loss's quadratic expansion. Finer
levels correct the root until two of them agree (deterministic rules) or the replicates' spread is
small (random points) within the tolerance; what was reached is the stated uncertainty.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from polyceptron.model.losses import Loss
from polyceptron.numerics.erm_nodes import Array
from polyceptron.rows import Status
from polyceptron.theory.erm.averages import Averages, Law
from polyceptron.theory.erm.equations import (
    Problem,
    n_levels,
    quadratic_guess,
    rule_at,
    two_class_twin,
)
from polyceptron.theory.erm.solver import Residual, Root, correct, jacobian_at, newton
from polyceptron.theory.generalisation import error_from_angle, error_slope

TOLERANCE_FEW_CLASSES = 1e-6
TOLERANCE_MANY_CLASSES = 1e-4
# Two levels can agree by luck: the relative error that a deterministic level was seen to reach.
LEVEL_FLOOR = (3e-6, 1e-6, 1e-8, 1e-10, 1e-12)


def default_tolerance(n_classes: int) -> float:
    """On the generalisation error: 1e-6 for two and three classes, 1e-4 above."""
    return TOLERANCE_FEW_CLASSES if n_classes <= 3 else TOLERANCE_MANY_CLASSES


@dataclass(frozen=True)
class ErmFixedPoint:
    """Scalars per class direction, errors, and how far to trust them."""

    n_classes: int
    ridge: float
    alpha: float
    m: float
    q: float
    V: float
    m_hat: float
    q_hat: float
    V_hat: float
    generalisation_error: float
    uncertainty: float
    training_loss: float
    training_error: float
    status: Status
    theta: Array = field(repr=False)  # (ln τ, ln q, ln V), a start for a neighbour
    jacobian: Array = field(repr=False)  # of the equations in θ

    @property
    def correlation(self) -> float:
        """ρ = m/√q."""
        if not len(self.theta):
            return 0.0
        tau = math.exp(self.theta[0])
        return tau / math.hypot(1.0, tau)


def error_at(log_tau: Array | float, n_classes: int) -> Array:
    """ε at ln τ, accurate as τ → ∞."""
    theta = np.arctan(np.exp(-np.asarray(log_tau, dtype=float)))
    return error_from_angle(theta, n_classes)


def error_sensitivity(log_tau: float, n_classes: int) -> float:
    """dε/d ln τ."""
    tau = math.exp(log_tau)
    slope = float(error_slope(math.atan(1 / tau), n_classes))
    return -slope * tau / (1 + tau**2)


def _residual(problem: Problem, level: int, reference: Law) -> Residual:
    rule = rule_at(problem, level, reference)

    def residual(theta: Array) -> Array:
        law = problem.law(theta)
        mean = rule(law)
        averaged = Averages(*(np.atleast_1d(np.mean(part)) for part in mean.parts))
        return problem.residual(theta, averaged)[:, 0]

    return residual


def _inside(theta: Array) -> bool:
    return bool(np.isfinite(theta).all() and np.abs(theta).max() < 80)


def coarse_root(problem: Problem, start: Array | None, jacobian: Array | None = None) -> Root:
    """The root on level 0: from `start`, from the two-class twin, or by continuation."""
    if start is not None:
        root = _try(problem, start, jacobian)
        if root.converged:
            return root
    if problem.n_classes > 2:
        twin = coarse_root(two_class_twin(problem), None)
        if twin.converged:
            root = _try(problem, twin.theta)
            if root.converged:
                return root
    root = _try(problem, quadratic_guess(problem))
    if root.converged or problem.hard:
        return root if root.converged else _hard_continuation(problem)
    return _continue_in_ridge(problem)


def _try(problem: Problem, start: Array, jacobian: Array | None = None) -> Root:
    """Newton on level 0; nodes are placed anew until the solution is near where they sit."""
    theta = start
    random = problem.n_classes > 3
    tol = 1e-7 if random else 1e-6  # the finer levels move the root by more than that
    for _ in range(6):
        residual = _residual(problem, 0, problem.law(theta))
        root = newton(residual, theta, tol=tol, jacobian=jacobian)
        jacobian = root.jacobian
        if not root.converged or not _inside(root.theta):
            return Root(theta, root.residual, root.jacobian, False)
        moved = float(np.max(np.abs(root.theta - theta)))
        theta = root.theta
        if moved < 0.5:
            break
    if not random:
        return root
    # Random levels take one step with this Jacobian and see only the replicates' spread, so it is
    # renewed where they take it. Deterministic ones count the whole step as uncertainty.
    exact = jacobian_at(residual, root.theta, root.residual)
    return Root(root.theta, root.residual, exact, True)


def _continue_in_ridge(problem: Problem) -> Root:
    """From a large ridge down to the wanted one, predicting along the tangent."""
    k, loss, alpha = problem.n_classes, problem.loss, problem.alpha
    ridge = max(1.0, problem.ridge, alpha)
    for _ in range(12):
        here = Problem(k, loss, ridge, alpha)
        root = _try(here, quadratic_guess(here))
        if root.converged:
            break
        ridge *= 10
    factor = 0.1
    while root.converged and ridge > problem.ridge:
        target = max(problem.ridge, ridge * factor)
        # Only the third equation holds λ: ∂F₃/∂ln λ = λV.
        tangent = np.linalg.solve(
            root.jacobian, np.array([0.0, 0.0, -ridge * math.exp(root.theta[2])])
        )
        guess = root.theta + tangent * math.log(target / ridge)
        trial = _try(Problem(k, loss, target, alpha), guess if _inside(guess) else root.theta)
        if trial.converged:
            root, ridge, factor = trial, target, max(factor**1.5, 1e-3)
        else:
            factor = math.sqrt(factor)
            if factor > 0.95:
                return trial
    return root


def _hard_continuation(problem: Problem) -> Root:
    """Max-margin: along α from 1, where the guess is good."""
    alpha, factor = 1.0, math.copysign(1.0, math.log(problem.alpha)) * 1.2
    here = Problem(problem.n_classes, problem.loss, 0.0, alpha)
    root = _try(here, quadratic_guess(here))
    while root.converged and alpha != problem.alpha:
        step = math.log(problem.alpha / alpha)
        target = problem.alpha if abs(step) <= abs(factor) else alpha * math.exp(factor)
        trial = _try(Problem(problem.n_classes, problem.loss, 0.0, target), root.theta)
        if trial.converged:
            root, alpha = trial, target
        else:
            factor /= 2
            if abs(factor) < 0.02:
                return trial
    return root


def solve(
    problem: Problem, tol: float, start: Array | None = None, jacobian: Array | None = None
) -> ErmFixedPoint:
    """The fixed point with ε to `tol`, or as close as the finest level comes."""
    k = problem.n_classes
    root = coarse_root(problem, start, jacobian)
    error = float(error_at(root.theta[0], k))
    uncertainty = math.inf
    averages: Averages | None = None
    level = 1
    while root.converged and level < n_levels(k):
        reference = problem.law(root.theta)
        rule = rule_at(problem, level, reference)
        averages = rule(reference)
        spread = problem.residual(root.theta, averages)
        shift = np.linalg.solve(root.jacobian, -spread)  # one column a replicate
        random = shift.shape[1] > 1
        # A long way to go is walked again: one step of the coarse Jacobian would not end at the
        # root. Deterministic levels also see it in the next level, random ones do not.
        if np.max(np.abs(shift.mean(1))) > (0.002 if random else 0.02):
            root = correct(_residual(problem, level, reference), root, tol=1e-5 if random else 1e-8)
            averages = rule(problem.law(root.theta))
            shift = np.linalg.solve(root.jacobian, -problem.residual(root.theta, averages))
        slope = abs(error_sensitivity(float(root.theta[0]), k))
        theta = root.theta + shift.mean(1)
        new_error = float(error_at(theta[0], k))
        if random:
            uncertainty = slope * float(np.std(shift[0], ddof=1)) / math.sqrt(shift.shape[1])
        else:
            moved = float(np.max(np.abs(shift)))
            # The rules converge geometrically: what is left is a small part of the last step.
            uncertainty = max(0.2 * abs(new_error - error), 0.1 * slope * moved)
            uncertainty += slope * LEVEL_FLOOR[level - 1] + 1e-14
        root = Root(theta, root.residual, root.jacobian, root.converged)
        error = new_error
        if uncertainty <= tol:
            break
        # Random points: the error falls about as 1/N, so go straight to the level that will do.
        step = max(1, math.ceil(1.2 * math.log2(uncertainty / tol))) if random else 1
        last = n_levels(k) - 1
        level = level + 1 if level == last else min(level + step, last)
    status = Status.OK if uncertainty <= tol else Status.TOLERANCE_NOT_MET
    if not root.converged or averages is None:
        status = Status.NOT_CONVERGED
        averages = rule_at(problem, 0, problem.law(root.theta))(problem.law(root.theta))
    return _package(problem, root, averages, error, uncertainty, status)


def _package(
    problem: Problem,
    root: Root,
    averages: Averages,
    error: float,
    uncertainty: float,
    status: Status,
) -> ErmFixedPoint:
    law = problem.law(root.theta)
    M, Q, C, _, _, loss, mistakes, _ = (float(np.mean(part)) for part in averages.parts)
    V = law.V
    if problem.hard:  # averages were taken at V = 1; report the solution at λ = 1
        V = problem.scaled_V(root.theta, averages)
        M, Q, C = M / V, Q / V**2, C / V
    a = problem.alpha
    return ErmFixedPoint(
        n_classes=problem.n_classes,
        ridge=problem.ridge,
        alpha=a,
        m=law.m,
        q=law.q,
        V=V,
        m_hat=a * M,
        q_hat=a * Q,
        V_hat=a * C,
        generalisation_error=error,
        uncertainty=uncertainty,
        training_loss=loss,
        training_error=mistakes,
        status=status,
        theta=root.theta,
        jacobian=root.jacobian,
    )


def refresh_jacobian(problem: Problem, theta: Array, level: int = 0) -> Array:
    """∂F/∂θ at θ, for tangents."""
    residual = _residual(problem, level, problem.law(theta))
    return jacobian_at(residual, theta, residual(theta))


def solve_loss(
    n_classes: int, loss: Loss, ridge: float, alpha: float, tol: float, start: Array | None = None
) -> ErmFixedPoint:
    """`solve` from plain arguments."""
    return solve(Problem(n_classes, loss, ridge, alpha), tol, start)
