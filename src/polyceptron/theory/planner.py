"""How much data for a given error: the smallest α with ε(α) = target, per estimator.

The two-class twin (see `erm.equations`) gives a first guess for any k at the cost of k = 2; a
bracketing search in ln α then settles it. Errors that jump (a first-order transition) or that are
not monotone (the square loss without ridge) are met from the left, so the answer is the smallest α.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scipy.optimize import brentq

from polyceptron.errors import InvalidInput
from polyceptron.model.estimators import BayesOptimal, Estimator
from polyceptron.model.losses import SquareLoss
from polyceptron.model.teacher import AnyTeacher, Teacher, check_size, check_teacher
from polyceptron.rows import make_row
from polyceptron.theory.bayes_optimal import bayes_rows
from polyceptron.theory.erm.equations import boundary_density
from polyceptron.theory.erm.fixed_point import ErmFixedPoint, error_at
from polyceptron.theory.erm.public import erm_fixed_point, erm_row

SMALLEST_ALPHA, LARGEST_ALPHA = 1e-3, 1e6
PRECISION = 1e-4  # of ln α


@dataclass(frozen=True)
class Plan:
    """The sample ratio that reaches an error, its uncertainty, and the row at that α."""

    alpha: float
    alpha_uncertainty: float
    n_samples: int | None
    row: dict[str, Any]


def plan(
    teacher: AnyTeacher, error: float, estimator: Estimator, dimension: int | None = None
) -> Plan:
    """The smallest α (and n = αd, rounded up) at which `estimator` errs at most `error`.

    >>> from polyceptron.model import ERM
    >>> round(plan(Teacher(3), 0.30546, ERM("square", 1.0)).alpha, 2)
    2.0
    """
    check_teacher(teacher)
    check_target(error, teacher.n_classes)
    d = None if dimension is None else check_size(dimension, "dimension")
    curve = _Curve(teacher, estimator)
    log_alpha = _smallest_root(curve, error, curve.guess(error))
    alpha = math.exp(log_alpha)
    row = curve.row(log_alpha)
    slope = (curve(log_alpha + 0.02) - curve(log_alpha - 0.02)) / 0.04
    spread = alpha * PRECISION
    if slope < 0:
        spread += alpha * float(row["uncertainty"]) / -slope
    n = None if d is None else math.ceil(alpha * d - 1e-9)
    return Plan(alpha, spread, n, make_row(**{**row, "dimension": d, "n_samples": n}))


def check_target(error: Any, n_classes: int) -> float:
    """An error that can be asked for, or a sentence."""
    guess = 1 - 1 / n_classes
    try:
        value = float(error)
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value) or not 0 < value < guess:
        raise InvalidInput(
            f"the target error must lie between 0 and {guess:.4g}, the error of a guess among "
            f"{n_classes} classes; got {error!r}"
        )
    return value


class _Curve:
    """ε as a function of ln α; each solution starts the search for the next."""

    def __init__(self, teacher: AnyTeacher, estimator: Estimator) -> None:
        self.teacher, self.estimator = teacher, estimator
        self.near: dict[float, ErmFixedPoint] = {}
        self.rows: dict[float, dict[str, Any]] = {}

    def row(self, log_alpha: float) -> dict[str, Any]:
        if log_alpha not in self.rows:
            alpha = math.exp(log_alpha)
            if isinstance(self.estimator, BayesOptimal):
                self.rows[log_alpha] = bayes_rows(self.teacher, [alpha], "optimal", None)[0]
            else:
                point = erm_fixed_point(
                    self.teacher.n_classes, self.estimator.loss, self.estimator.ridge, alpha,
                    start=self._nearest(log_alpha),
                )  # fmt: skip
                self.near[log_alpha] = point
                self.rows[log_alpha] = erm_row(self.teacher, self.estimator, point)
        return self.rows[log_alpha]

    def __call__(self, log_alpha: float) -> float:
        return float(self.row(log_alpha)["generalisation_error"])

    def _nearest(self, log_alpha: float) -> ErmFixedPoint | None:
        if not self.near:
            return None
        best = min(self.near, key=lambda other: abs(other - log_alpha))
        return self.near[best] if abs(best - log_alpha) < 1.5 else None

    def guess(self, error: float) -> float | None:
        """ln α from the two-class twin, for the estimators that are slow at this k."""
        k, estimator = self.teacher.n_classes, self.estimator
        if k == 2 or isinstance(estimator, BayesOptimal) or isinstance(estimator.loss, SquareLoss):
            return None
        twin = _Curve(Teacher(2), estimator)
        shift = math.log(boundary_density(k) / (k - 1))

        def error_of_twin(log_alpha: float) -> float:
            twin(log_alpha + shift)
            return float(error_at(twin.near[log_alpha + shift].theta[0], k))

        try:
            return _smallest_root(error_of_twin, error, None)
        except InvalidInput:
            return None


def _smallest_root(curve: Callable[[float], float], error: float, guess: float | None) -> float:
    """The first crossing of `error` from above, scanning upwards from the guess's left."""

    def excess(log_alpha: float) -> float:
        return math.log(max(curve(log_alpha), 1e-300) / error)

    bottom, top = math.log(SMALLEST_ALPHA), math.log(LARGEST_ALPHA)
    left, step = (bottom, 0.7) if guess is None else (guess - 0.06, 0.12)
    if guess is not None and excess(left) <= 0:  # the guess was too high: walk down
        while left > bottom and excess(left) <= 0:
            left, step = left - step, 2 * step
    if excess(left) <= 0:
        return left
    while left < top:
        right = min(left + step, top)
        if excess(right) <= 0:
            return float(brentq(excess, left, right, xtol=PRECISION, rtol=1e-12))
        left, step = right, min(1.5 * step, 0.7)
    raise InvalidInput(
        f"an error of {error:g} is out of reach: it is still {curve(top):.3g} at "
        f"alpha = {LARGEST_ALPHA:g}, the largest that is tried"
    )
