"""Rows of learning curves: fixed points of empirical risk minimisation at several α."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.interpolate import PchipInterpolator

from polyceptron.checks import check_alpha
from polyceptron.problem.populations import AnyTeacher
from polyceptron.problem.specs import ERM, as_erm
from polyceptron.progress import steps
from polyceptron.rows import Row, Status, make_row
from polyceptron.theory.erm.fixed_point import erm_fixed_point
from polyceptron.theory.erm.point import ErmFixedPoint
from polyceptron.theory.erm.unequal_classes import population_row
from polyceptron.theory.separability import NotSeparableHere


def erm_rows(
    teacher: AnyTeacher, estimator: Any, alphas: Iterable[float], tol: float | None = None
) -> list[Row]:
    """Return a row for each α, computed independently of the others.

    Above α_s the rows of max-margin have no numbers.
    """
    return next(erm_parts(teacher, estimator, [alphas], tol))


def erm_parts(
    teacher: AnyTeacher,
    estimator: Any,
    parts: Iterable[Iterable[float]],
    tol: float | None = None,
    searched: float = math.inf,
) -> Iterator[list[Row]]:
    """Yield the rows of one curve part by part, as they are known.

    A best ridge is searched for in the first `searched` parts, and between their points read off
    a smooth line of ln λ against ln(1 + α): the error is stationary there.
    """
    curve = _Curve(teacher, as_erm(estimator), tol)
    for number, part in enumerate(parts):
        alphas = [check_alpha(alpha) for alpha in part]
        for alpha in steps(sorted(set(alphas) - set(curve.points))):
            if alpha >= curve.not_separable_from:
                break
            curve.solve(alpha, interpolated=number >= searched)
        yield [curve.row(alpha) for alpha in alphas]


@dataclass
class _Curve:
    """The points of one curve so far, and the best ridges that were searched for."""

    teacher: AnyTeacher
    spec: ERM
    tol: float | None
    points: dict[float, ErmFixedPoint] = field(default_factory=dict)  # by α
    best_log_ridges: dict[float, float] = field(default_factory=dict)  # by α
    not_separable_from: float = math.inf  # α

    def solve(self, alpha: float, interpolated: bool) -> None:
        """Add the point at α, at a ridge between known ones if it may be interpolated."""
        spec = self.spec
        if interpolated and self.best_log_ridges:
            spec = replace(spec, ridge=self._interpolated_ridge(alpha))
        try:
            point = erm_fixed_point(self.teacher, spec, alpha, self.tol)
        except NotSeparableHere:
            self.not_separable_from = alpha
            return
        self.points[alpha] = point
        if spec.ridge == "optimal" and point.ridge > 0:
            self.best_log_ridges[alpha] = math.log(point.ridge)

    def _interpolated_ridge(self, alpha: float) -> float:
        """Return λ from a smooth line of ln λ against ln(1 + α), constant beyond its ends."""
        alphas = sorted(self.best_log_ridges)
        x = np.array([math.log1p(a) for a in alphas])
        y = np.array([self.best_log_ridges[a] for a in alphas])
        if len(x) == 1:
            return math.exp(y[0])
        inside = min(max(math.log1p(alpha), x[0]), x[-1])
        return math.exp(PchipInterpolator(x, y)(inside))

    def row(self, alpha: float) -> Row:
        """Return the row at α, without numbers where the labels are not separable."""
        if alpha in self.points:
            return erm_row(self.teacher, self.spec, self.points[alpha])
        return make_row(
            source="theory",
            **self.teacher.columns,
            estimator=self.spec.name,
            ridge=0.0,
            alpha=alpha,
            status=Status.DIVERGES,
        )


def erm_row(teacher: AnyTeacher, estimator: ERM, point: Any) -> Row:
    """Return the row of a fixed point, of equal or unequal classes."""
    if not estimator.sees_equal_classes(teacher):
        return population_row(teacher, estimator, point)
    columns = dict(estimator.columns)
    if estimator.penalty is None:
        columns["ridge"] = point.ridge
    clean_error = None
    if not teacher.channel.noiseless:
        clean_error = point.clean_error
    return make_row(
        source="theory",
        **teacher.columns,
        **columns,
        alpha=point.alpha,
        m=point.m,
        q=point.q,
        V=point.V,
        generalisation_error=point.generalisation_error,
        uncertainty=point.uncertainty,
        status=point.status,
        training_error=point.training_error,
        training_error_uncertainty=point.training_error_uncertainty,
        training_loss=point.training_loss,
        training_loss_uncertainty=point.training_loss_uncertainty,
        clean_error=clean_error,
    )
