"""One finite instance of empirical risk minimisation: draw a teacher and data, fit, measure.

All ridges of a call see the same data. The generalisation error comes from the overlaps of the
fitted weights with the teacher's, without a test set, unless one is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from polyceptron.algorithms.erm import ERMFit, fit_erm_path
from polyceptron.algorithms.erm.result import loss_name
from polyceptron.algorithms.overlaps import ErrorEstimate, exact_generalisation_error, overlaps
from polyceptron.errors import InvalidInput
from polyceptron.model.teacher import AnyTeacher, Dataset, check_size
from polyceptron.rows import make_row

_TEST_CHUNK = 2_000_000  # numbers of a test set held at once


def run_erm(
    teacher: AnyTeacher,
    estimator_name: str,
    ridges: Sequence[float],
    alpha: float,
    dimension: int,
    seed: int,
    *,
    solver: str = "auto",
    tol: float = 1e-8,
    test_samples: int | None = None,
) -> list[dict[str, Any]]:
    """One row per ridge, on the data `teacher.sample(round(alpha * dimension), dimension, seed)`.

    `test_samples` replaces the exact generalisation error by the error on that many new samples.
    """
    d = check_size(dimension, "dimension")
    n = round(alpha * d)
    if n < 1:
        raise InvalidInput(f"alpha = {alpha!r} and dimension = {d} leave no sample to learn from")
    if test_samples is not None:
        check_size(test_samples, "test_samples")
    name = loss_name(estimator_name)
    data = teacher.sample(n, d, seed)
    fits = fit_erm_path(data.X, data.y, teacher.n_classes, name, ridges, solver=solver, tol=tol)
    rows = []
    for fit in fits:
        order = overlaps(fit.weights, data.weights)
        error = _error(fit, data, test_samples, seed)
        rows.append(
            make_row(
                source="erm",
                model=teacher.model,
                n_classes=teacher.n_classes,
                prior=teacher.prior.name,
                estimator=name,
                ridge=fit.ridge,
                alpha=float(alpha),
                m=order.m,
                q=order.q,
                generalisation_error=error.value,
                uncertainty=error.uncertainty,
                training_error=fit.training_error,
                training_loss=fit.training_loss,
                status=fit.status,
                dimension=d,
                n_samples=n,
                seed=seed,
            )
        )
    return rows


def _error(fit: ERMFit, data: Dataset, test_samples: int | None, seed: int) -> ErrorEstimate:
    """Exactly from the overlaps, or on a test set of the given size."""
    if test_samples is None:
        return exact_generalisation_error(fit.weights, data.weights, seed=seed)
    d = data.weights.shape[0]
    rng = np.random.default_rng(np.random.SeedSequence(seed).spawn(1)[0])
    wrong, done = 0, 0
    chunk = max(1, _TEST_CHUNK // d)
    while done < test_samples:
        X = rng.standard_normal((min(chunk, test_samples - done), d))
        wrong += int(((X @ fit.weights).argmax(1) != (X @ data.weights).argmax(1)).sum())
        done += len(X)
    rate = wrong / test_samples
    # Half a count more keeps the uncertainty positive when no error, or no success, was seen.
    smoothed = (wrong + 0.5) / (test_samples + 1)
    return ErrorEstimate(rate, math.sqrt(smoothed * (1 - smoothed) / test_samples))
