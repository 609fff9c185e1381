"""The posterior mean, one-vs-rest, class means and discriminant analysis on drawn data: rows.

Fields are Wᵀx/√d + b. The error is the exact one of W without b: where classes are alike the b of
all classes have one limit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from polyceptron.algorithms.erm.fit import fit_erm
from polyceptron.algorithms.overlaps import overlaps
from polyceptron.experiments.simulate import exact_errors, n_samples, run_amp
from polyceptron.model import AnyTeacher
from polyceptron.model.estimators.estimator import late
from polyceptron.model.populations import check_teacher
from polyceptron.numerics import Array
from polyceptron.rows import Row, Status, make_row

Fitted = tuple[Array, Array, Status]
_POSTERIOR = ("test_loss", "brier", "calibration_error")  # scores of probabilities that know V


def run_posterior(
    teacher: AnyTeacher, estimators: Sequence[Any], *place: Any, **settings: Any
) -> list[Row]:
    """The row of message passing for each estimator."""
    found, rows = run_amp(teacher, *place, **settings)[0], []
    for one in estimators:
        row = {n: v for n, v in found.items() if one.calibrated or n not in _POSTERIOR}
        rows.append({**row, "estimator": one.name})
    return rows


def run_rules(
    teacher: AnyTeacher,
    estimators: Sequence[Any],
    alpha: float,
    dimension: int,
    seed: int,
    **settings: Any,
) -> list[Row]:
    """One row for each, of `teacher.sample(round(alpha * dimension), dimension, seed)`."""
    check_teacher(teacher)
    n, rows = n_samples(alpha, dimension), []
    X, y, truth = teacher.sample(n, dimension, seed)
    for one in estimators:
        columns = dict(one.columns)
        if columns.get("ridge") == "optimal":
            columns["ridge"] = one.rows(teacher, [float(alpha)])[0]["ridge"]
        fit = late(one.fitted_by)
        weights, b, status = fit(X, y, teacher.n_classes, one, columns.get("ridge"))
        wrong = float(np.mean((X @ weights / math.sqrt(dimension) + b).argmax(1) != y))
        found = overlaps(weights, truth, teacher.features)
        row = make_row(
            source="erm", **teacher.columns, **columns, alpha=float(alpha), m=found.m, q=found.q,
            **exact_errors(weights, truth, teacher, seed), training_error=wrong, status=status,
            dimension=dimension, n_samples=n, seed=seed,
        )  # fmt: skip
        rows.append(row)
    return rows


def fit_one_vs_rest(X: Array, y: Any, k: int, rule: Any, ridge: float) -> Fitted:
    """Of two classes with fields (−h/2, h/2) the squared weights are half those of h."""
    status, W, b = Status.OK, [], []
    for c in range(k):
        fit = fit_erm(X, (y == c).astype(int), rule.loss, 2 * ridge, intercept=True, n_classes=2)
        W.append(fit.weights[:, 1] - fit.weights[:, 0])
        b.append(fit.intercepts[1] - fit.intercepts[0])
        status = status if fit.status == Status.OK else fit.status
    return np.stack(W, 1), np.array(b), status


def _means(X: Array, y: Any, k: int) -> Array:
    """Class means (d, k); 0 for a class without samples."""
    counts = np.bincount(y, minlength=k)
    return np.asarray(X.T @ np.eye(k)[y] / np.maximum(counts, 1))


def fit_class_means(X: Array, y: Any, k: int, rule: Any, ridge: None) -> Fitted:
    """Weights √d μ̂_c."""
    means = math.sqrt(X.shape[1]) * _means(X, y, k)
    return means, -0.5 * (means**2).sum(0) / X.shape[1], Status.OK


def fit_lda(X: Array, y: Any, k: int, rule: Any, ridge: float) -> Fitted:
    """Weights √d (nS/d + λ)⁻¹ n(μ̂_c − μ̂)/d."""
    (n, d), means = X.shape, _means(X, y, k)
    within = X - means.T[y]
    middle = means - X.mean(0)[:, None]
    W = np.linalg.solve(within.T @ within / d + ridge * np.eye(d), middle) * n / d
    quadratic = -0.5 * ((means + X.mean(0)[:, None]) * W).sum(0)
    counts = np.log(np.maximum(np.bincount(y, minlength=k), 1) / n)
    return math.sqrt(d) * W, quadratic + counts, Status.OK
