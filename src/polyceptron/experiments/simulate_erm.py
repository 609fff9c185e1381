"""One finite instance of empirical risk minimisation: draw a teacher and data, fit, measure.

All ridges of a call see the same data. The generalisation error comes from the overlaps of the
fitted weights with the teacher's, without a test set, unless one is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from polyceptron.algorithms import fit_erm_path
from polyceptron.algorithms.overlaps import overlaps
from polyceptron.algorithms.watching import uninterrupted
from polyceptron.errors import InvalidInput
from polyceptron.experiments.measured_errors import counted_errors, exact_errors
from polyceptron.experiments.own_members import values_of
from polyceptron.model import ERM, LOSSES, AnyTeacher, Loss, as_loss
from polyceptron.model.checks import check_size
from polyceptron.rows import make_row
from polyceptron.theory import optimal_ridge


def run_erm(
    teacher: AnyTeacher,
    loss: Any,
    ridges: Sequence[float | str | None],
    alpha: float,
    dimension: int,
    seed: int,
    *,
    solver: str = "auto",
    tol: float = 1e-8,
    test_samples: int | None = None,
) -> list[dict[str, Any]]:
    """One row per ridge, on the data `teacher.sample(round(alpha * dimension), dimension, seed)`.

    `loss` is a `Loss` or its name. A ridge is λ; 'optimal' for the theory's best at this α; or None
    for the default. `test_samples` replaces the exact generalisation error by the error on that
    many new samples, and measures the scores of the probabilities there, if the fit gives any.
    """
    d = check_size(dimension, "dimension")
    n = round(alpha * d)
    if n < 1:
        raise InvalidInput(f"alpha = {alpha!r} and dimension = {d} leave no sample to learn from")
    if test_samples is not None:
        check_size(test_samples, "test_samples")
    chosen = as_loss(loss)
    values = [ridge_at(teacher, chosen, ridge, float(alpha)) for ridge in ridges]
    X, y, truth = teacher.sample(n, d, seed)
    fits = fit_erm_path(X, y, chosen, values, n_classes=teacher.n_classes, solver=solver, tol=tol)
    rows = []
    for fit in map(uninterrupted, fits):
        order = overlaps(fit.weights, truth, teacher.features)
        if test_samples is None:
            errors = exact_errors(fit.weights, truth, teacher, seed)
        else:
            says: Any = chosen.probabilities
            if fit.loss != chosen.name or says(np.zeros((1, teacher.n_classes))) is None:
                says = None  # a direction has no scale
            errors = counted_errors(fit.weights, truth, teacher, test_samples, seed, says)
        rows.append(
            make_row(
                source="erm",
                **teacher.columns,
                estimator=chosen.name,
                ridge=fit.ridge,
                alpha=float(alpha),
                m=order.m,
                q=order.q,
                **errors,
                training_error=fit.training_error,
                training_loss=fit.training_loss,
                status=fit.status,
                dimension=d,
                n_samples=n,
                seed=seed,
            )
        )
    return rows


def ridge_at(teacher: AnyTeacher, loss: Loss, ridge: float | str | None, alpha: float) -> float:
    """λ as a number: 'optimal' is the theory's best one at this α, None the default."""
    meant = ERM(loss, ridge).ridge  # type: ignore[arg-type]
    if not isinstance(meant, str):
        return meant
    values = values_of("loss", loss.name) if loss.name in LOSSES.names else None
    return _best_ridge(teacher, loss.name if loss.name in LOSSES.names else loss, alpha, values)


@lru_cache(maxsize=4096)
def _best_ridge(teacher: AnyTeacher, loss: Loss | str, alpha: float, values: str | None) -> float:
    """Once for a problem in a process: all of its instances are fitted at the same ridge."""
    return optimal_ridge(teacher, loss, alpha)
