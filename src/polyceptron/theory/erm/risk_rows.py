"""Rows of empirical risk minimisation: learning curves in α, and curves in the ridge."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from polyceptron.display import steps
from polyceptron.errors import InvalidInput
from polyceptron.model.checks import check_alpha
from polyceptron.model.estimators import ERM, as_erm
from polyceptron.model.populations import AnyTeacher
from polyceptron.rows import Status, make_row
from polyceptron.theory.erm.equations import ErmFixedPoint
from polyceptron.theory.erm.fixed_point import erm_fixed_point, optimal_ridge
from polyceptron.theory.populations.population_point import population_row
from polyceptron.theory.separability import NotSeparableHere


def erm_rows(
    teacher: AnyTeacher, estimator: Any, alphas: Iterable[float], tol: float | None = None
) -> list[dict[str, Any]]:
    """One row for each α, as if it were alone.

    Max-margin has rows without numbers above α_s, where its weights diverge.
    """
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
    lines of ln λ against ln(1 + α): the error is stationary there.
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
            there, near = spec, None
            if number >= searched and best:
                ends = sorted(best)
                found = np.interp(np.log1p(alpha), np.log1p(ends), [best[a] for a in ends])
                there = replace(spec, ridge=math.exp(found))
            if not spec.alike(teacher):  # slow enough to begin at a neighbour
                known = [p for p in points.values() if p.alpha and p.status != Status.NOT_CONVERGED]
                near = min(known, key=lambda p: abs(p.alpha - alpha), default=None)
            try:
                points[alpha] = erm_fixed_point(teacher, there, alpha, tol, near)
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


def ridge_rows(
    teacher: AnyTeacher,
    estimator: Any,
    alphas: Iterable[float],
    ridges: Iterable[float],
    tol: float | None = None,
    *,
    target: str = "error",
) -> list[dict[str, Any]]:
    """Rows of ε against λ at each α, with the best ridge among them (`is_best`).

    `target` is that of `optimal_ridge`; with one that is not the error rows have the scores too.
    """
    spec = as_erm(estimator)
    if spec.loss.scale_free:
        raise InvalidInput(f"{spec.loss.name} takes no ridge: there is nothing to compare")
    values = sorted({float(spec.with_ridge(ridge).ridge) for ridge in ridges}, reverse=True)

    def row(point: ErmFixedPoint, best: bool) -> dict[str, Any]:
        there = spec.with_ridge(point.ridge)
        found = {**erm_row(teacher, there, point), "is_best": best}
        if target != "error" and spec.alike(teacher):
            from polyceptron.theory.calibration import fresh_scores  # which asks for fixed points

            found.update(fresh_scores(teacher, there, point.law))
        return found

    rows = []
    for alpha in (check_alpha(alpha) for alpha in alphas):
        if alpha == 0:
            raise InvalidInput("no ridge is best at alpha 0, where there are no data")
        chosen = (
            "optimal"
            if target == "error"
            else optimal_ridge(teacher, estimator, alpha, tol, target=target)
        )
        rows.append(row(erm_fixed_point(teacher, spec.with_ridge(chosen), alpha, tol), True))
        near: ErmFixedPoint | None = None
        for ridge in steps(values):
            near = erm_fixed_point(teacher, spec.with_ridge(ridge), alpha, tol, near)
            rows.append(row(near, False))
    return sorted(rows, key=lambda row: (row["alpha"], row["ridge"]))


def erm_row(teacher: AnyTeacher, estimator: ERM, point: Any) -> dict[str, Any]:
    """The row of a fixed point."""
    if not estimator.alike(teacher):
        return population_row(teacher, estimator, point)
    noisy = not teacher.channel.noiseless
    return make_row(
        source="theory",
        **teacher.columns,
        **(estimator.columns if estimator.penalty else {**estimator.columns, "ridge": point.ridge}),
        alpha=point.alpha,
        m=point.m,
        q=point.q,
        V=point.V,
        generalisation_error=point.generalisation_error,
        uncertainty=point.uncertainty,
        clean_error=point.clean_error if noisy else None,
        training_error=point.training_error,
        training_error_uncertainty=point.training_error_uncertainty,
        training_loss=point.training_loss,
        training_loss_uncertainty=point.training_loss_uncertainty,
        status=point.status,
    )
