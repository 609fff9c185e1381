"""The answers people ask for: one fixed point, a learning curve, an iteration.

`erm_fixed_point` chooses the method: closed form for the square loss, max-margin for cross-entropy
without ridge, the search for the best ridge, or the solver.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from polyceptron.errors import InvalidInput
from polyceptron.model.estimators import ERM
from polyceptron.model.losses import CrossEntropy, Loss, MaxMargin, SquareLoss
from polyceptron.model.teacher import AnyTeacher, check_classes
from polyceptron.rows import Status, make_row
from polyceptron.theory.erm.agreement import margin_exceeds
from polyceptron.theory.erm.equations import Problem
from polyceptron.theory.erm.fixed_point import ErmFixedPoint, default_tolerance, error_at, solve
from polyceptron.theory.erm.ridge import best_ridge
from polyceptron.theory.erm.square import (
    best_square_ridge,
    label_signal,
    solve_square,
    square_training_loss,
)

MIN_ALPHA, MAX_ALPHA = 1e-12, 1e8


def erm_fixed_point(
    n_classes: int,
    loss: Any,
    ridge: Any,
    alpha: float,
    tol: float | None = None,
    start: ErmFixedPoint | None = None,
) -> ErmFixedPoint:
    """m, q, V and the errors of argmin Σℓ + (λ/2)‖W‖² at n = αd, d → ∞ (eq. SE, corollary 1).

    `loss` and `ridge` as in `ERM`; `tol` is on the generalisation error (1e-6 for k = 2, 3, else
    1e-4); `start` is a solution nearby.

    >>> round(erm_fixed_point(3, "square", 1.0, 2.0).generalisation_error, 5)
    0.30546
    """
    k = check_classes(n_classes)
    estimator = ERM(loss, ridge)
    rule, penalty = estimator.loss, estimator.ridge
    alpha, tol = check_alpha(alpha), check_tolerance(tol, k)
    if alpha == 0:
        return _no_data(k, rule, penalty)
    if isinstance(rule, SquareLoss):
        return _square(k, penalty, alpha)
    if isinstance(rule, CrossEntropy) and penalty == 0:
        rule = MaxMargin()
    check_symmetric(rule, k)
    near = start if start is not None and len(start.theta) == (2 if penalty == 0 else 3) else None
    if isinstance(penalty, str):
        return best_ridge(k, rule, alpha, tol, near)
    problem = Problem(k, rule, penalty, alpha)
    return solve(problem, tol, near.theta, near.jacobian) if near else solve(problem, tol)


def optimal_ridge(n_classes: int, loss: Any, alpha: float, tol: float | None = None) -> float:
    """The λ of least generalisation error at α; σ²/c² at every α for the square loss.

    >>> round(optimal_ridge(3, "square", 2.0), 4)
    0.8617
    """
    return erm_fixed_point(n_classes, loss, "optimal", alpha, tol).ridge


def erm_rows(
    teacher: AnyTeacher, estimator: ERM, alphas: Iterable[float], tol: float | None = None
) -> list[dict[str, Any]]:
    """One row for each α. The prior enters by its variance only, which is 1 for every teacher."""
    values = [check_alpha(alpha) for alpha in alphas]
    points: dict[float, ErmFixedPoint] = {}
    last: list[ErmFixedPoint] = []
    for alpha in sorted(set(values)):  # each solution starts the search for the next
        point = erm_fixed_point(
            teacher.n_classes, estimator.loss, estimator.ridge, alpha, tol, predict(last, alpha)
        )
        points[alpha] = point
        if point.alpha > 0 and point.status != Status.NOT_CONVERGED:
            last = [*last[-1:], point]
    return [erm_row(teacher, estimator, points[alpha]) for alpha in values]


def ridge_rows(
    teacher: AnyTeacher,
    loss: Any,
    alphas: Iterable[float],
    ridges: Iterable[float],
    tol: float | None = None,
) -> list[dict[str, Any]]:
    """Rows of ε against λ at each α, with the best ridge among them (`is_best`)."""
    values = sorted({float(ERM(loss, ridge).ridge) for ridge in ridges}, reverse=True)
    if isinstance(ERM(loss, 0.0).loss, MaxMargin):
        raise InvalidInput("max-margin takes no ridge: there is nothing to compare")
    rows = []
    for alpha in (check_alpha(alpha) for alpha in alphas):
        if alpha == 0:
            raise InvalidInput("no ridge is best at alpha 0, where there are no data")
        best = erm_fixed_point(teacher.n_classes, loss, "optimal", alpha, tol)
        rows.append({**erm_row(teacher, ERM(loss, best.ridge), best), "is_best": True})
        start: ErmFixedPoint | None = None
        for ridge in values:
            start = erm_fixed_point(teacher.n_classes, loss, ridge, alpha, tol, start)
            rows.append({**erm_row(teacher, ERM(loss, ridge), start), "is_best": False})
    return sorted(rows, key=lambda row: (row["alpha"], row["ridge"]))


def erm_row(teacher: AnyTeacher, estimator: ERM, point: ErmFixedPoint) -> dict[str, Any]:
    """The row of a fixed point."""
    return make_row(
        source="theory",
        model=teacher.model,
        n_classes=teacher.n_classes,
        prior=teacher.prior.name,
        estimator=estimator.name,
        ridge=point.ridge,
        alpha=point.alpha,
        m=point.m,
        q=point.q,
        V=point.V,
        generalisation_error=point.generalisation_error,
        uncertainty=point.uncertainty,
        training_error=point.training_error,
        training_loss=point.training_loss,
        status=point.status,
    )


def predict(last: list[ErmFixedPoint], alpha: float) -> ErmFixedPoint | None:
    """A start for the solution at α: the last one, or the line through the last two in ln α."""
    if not last or len(last) < 2:
        return last[-1] if last else None
    before, point = last
    span = math.log(point.alpha / before.alpha)
    ahead = min(math.log(alpha / point.alpha), 2 * span)
    if before.theta.shape != point.theta.shape or not np.isfinite(before.theta).all():
        return point
    theta = point.theta + (point.theta - before.theta) * (ahead / span)
    ridge = point.ridge
    if before.ridge > 0 and ridge > 0:
        ridge *= (ridge / before.ridge) ** (ahead / span)
    return replace(point, theta=theta, ridge=ridge)


def _square(k: int, ridge: float | str, alpha: float) -> ErmFixedPoint:
    penalty = best_square_ridge(k) if isinstance(ridge, str) else ridge
    solution = solve_square(k, alpha, penalty)
    m, q, V, _ = solution
    c, s2 = label_signal(k)
    # q − m² without cancellation: (A/(1−A))(s² − 2mc + m²); A/(1−A) is α/|1−α| at λ → 0 and α < 1.
    ratio = _noise_ratio(alpha, penalty, V)
    rest = ratio * (s2 - 2 * m * c + m**2)
    log_tau = math.log(m) - 0.5 * math.log(rest) if math.isfinite(rest) else -math.inf
    error = float(error_at(log_tau, k)) if math.isfinite(rest) else 1 - 1 / k
    tau = math.exp(log_tau)
    mistakes = 0.0
    if math.isfinite(V):
        mistakes = max(1 - margin_exceeds(-V / math.sqrt(q), tau, k), 0.0)
    inverse = 0.0 if math.isinf(V) else 1 / V
    return ErmFixedPoint(
        n_classes=k,
        ridge=penalty,
        alpha=alpha,
        m=m,
        q=q,
        V=V,
        m_hat=m * inverse,
        q_hat=rest * inverse**2 if inverse else 0.0,
        V_hat=alpha / (1 + V),
        generalisation_error=error,
        uncertainty=1e-12,
        training_loss=square_training_loss(k, alpha, solution),
        training_error=mistakes if mistakes > 1e-11 else 0.0,
        status=Status.OK if math.isfinite(q) else Status.DIVERGES,
        theta=np.array([log_tau, math.log(q) if math.isfinite(q) else math.inf]),
        jacobian=np.eye(2),
    )


def _noise_ratio(alpha: float, ridge: float, V: float) -> float:
    """A/(1 − A), A = αV²/(1+V)²."""
    if math.isinf(V):
        return alpha / (1 - alpha) if alpha < 1 else math.inf
    return alpha * V**2 / ((1 + V) * (1 + ridge * V**2))


def _no_data(k: int, loss: Loss, ridge: float | str) -> ErmFixedPoint:
    """α = 0: the estimate is 0 and every class is a guess."""
    penalty = math.nan if isinstance(ridge, str) else ridge
    V = 1 / penalty if penalty > 0 else math.inf
    return ErmFixedPoint(
        n_classes=k, ridge=penalty, alpha=0.0, m=0.0, q=0.0, V=V, m_hat=0.0, q_hat=0.0, V_hat=0.0,
        generalisation_error=1 - 1 / k, uncertainty=0.0, training_loss=math.nan,
        training_error=math.nan, status=Status.OK, theta=np.zeros(0), jacobian=np.eye(0),
    )  # fmt: skip


def check_alpha(alpha: Any) -> float:
    """A finite sample ratio of 0 or more, or a sentence."""
    try:
        value = float(alpha)
    except (TypeError, ValueError):
        value = math.nan
    if value != 0 and not MIN_ALPHA <= value <= MAX_ALPHA:
        raise InvalidInput(
            f"alpha must be 0, or from {MIN_ALPHA:g} to {MAX_ALPHA:g}, got {alpha!r}"
        )
    return value


def check_tolerance(tol: Any, n_classes: int) -> float:
    """The tolerance on the generalisation error, or its default."""
    if tol is None:
        return default_tolerance(n_classes)
    if not isinstance(tol, int | float) or not 0 < tol < 1:
        raise InvalidInput(f"the tolerance must be a number between 0 and 1, got {tol!r}")
    return float(tol)


def check_symmetric(loss: Loss, n_classes: int) -> None:
    """The scalar theory needs a loss of field differences that treats the classes alike."""
    if isinstance(loss, CrossEntropy | MaxMargin):
        return
    rng = np.random.default_rng(0)
    z = rng.standard_normal((4, n_classes))
    y = np.arange(4) % n_classes
    order = rng.permutation(n_classes)
    place = np.argsort(order)
    slope = loss.gradient(z, y)
    size = 1e-8 * (1 + np.abs(slope).max())
    if np.abs(slope.sum(1)).max() > size:
        raise InvalidInput(
            f"the theory needs a loss of differences of fields; the gradient of {loss.name!r} "
            f"does not sum to zero over the classes"
        )
    if np.abs(loss.gradient(z[:, order], place[y]) - slope[:, order]).max() > size:
        raise InvalidInput(
            f"the theory needs a loss that treats the classes alike, {loss.name!r} does not"
        )
