"""One instance of message passing against its teacher, as a row.

The teacher is drawn, the data from it, and the weights that message passing finds are compared with
the truth: overlaps m and q, and the exact generalisation error of those very weights.

One finite instance of empirical risk minimisation: draw a teacher and data, fit, measure.

All ridges of a call see the same data. The generalisation error comes from the overlaps of the
fitted weights with the teacher's, without a test set, unless one is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from polyceptron.algorithms.data_checks import check_choice
from polyceptron.algorithms.erm.fit import fit_erm_path
from polyceptron.algorithms.message_passing.posterior_mean import AMPResult, amp
from polyceptron.algorithms.overlaps import overlaps
from polyceptron.algorithms.watching import uninterrupted
from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.experiments.results import counted_errors, exact_errors
from polyceptron.experiments.spec_checks import REACHED, values_of
from polyceptron.model import ERM, LOSSES, AnyTeacher, BayesOptimal, Channel, Dataset, Loss
from polyceptron.model.checks import check_size
from polyceptron.numerics import Array
from polyceptron.rows import make_row
from polyceptron.theory.erm.fixed_point import optimal_ridge

Row = dict[str, Any]
Seed = int | np.random.SeedSequence
_BLOCK_NUMBERS = 2_000_000


def run_amp(
    teacher: AnyTeacher,
    alpha: float,
    dimension: int,
    seed: Seed,
    *,
    start: str = "uninformed",
    variances: str = "shared",
    tol: float = 1e-8,
    max_iter: int = 200,
    dtype: str = "float64",
    test_samples: int | None = None,
) -> Row:
    """One row: message passing on round(αd) samples of `teacher` in d dimensions.

    `teacher.sample(n_samples, dimension, seed)` draws the same data again from the row's columns.
    `test_samples` replaces the exact error by that on so many new samples, with the scores there.
    """
    row, _ = run_amp_with_result(
        teacher,
        alpha,
        dimension,
        seed,
        start=start,
        variances=variances,
        tol=tol,
        max_iter=max_iter,
        dtype=dtype,
        test_samples=test_samples,
    )
    return row


def run_amp_with_result(
    teacher: AnyTeacher,
    alpha: float,
    dimension: int,
    seed: Seed,
    *,
    start: str = "uninformed",
    variances: str = "shared",
    tol: float = 1e-8,
    max_iter: int = 200,
    dtype: str = "float64",
    test_samples: int | None = None,
) -> tuple[Row, AMPResult]:
    """As `run_amp`, with the weights and the trace."""
    check_choice("precision", dtype, ("float32", "float64"))
    d, n, number = check_size(dimension, "dimension"), n_samples(alpha, dimension), as_int(seed)
    try:
        draw = teacher.sample if dtype == "float64" else partial(draw_single, teacher)
        X, y, truth = draw(n, d, number)
        result = amp(
            X,
            y,
            teacher.prior,
            variances,
            tol,
            max_iter,
            truth,
            start=start,
            model=teacher.model,
            n_classes=teacher.n_classes,
            noise=teacher.noise,
            features=teacher.features,
        )
        uninterrupted(result)
        wrong = float(np.mean(np.argmax(X @ result.weights.astype(X.dtype), axis=1) != y))
    except MemoryError:
        raise ComputationFailed(
            f"{n} samples in dimension {d} need {np.dtype(dtype).itemsize * n * d / 1e9:.3g} GB: "
            "choose a smaller dimension or alpha"
        ) from None
    found = overlaps(result.weights, truth, teacher.features)
    V = _mean_variance(result.variance, teacher.n_classes)
    if test_samples is None:
        errors = exact_errors(result.weights, truth, teacher)
    else:
        says = partial(_posterior_chances, teacher.channel, V)
        errors = counted_errors(
            result.weights, truth, teacher, check_size(test_samples, "test_samples"), number,
            says,
        )  # fmt: skip
    row = make_row(
        source="amp",
        **teacher.columns,
        estimator=BayesOptimal.name,
        alpha=alpha,
        branch=REACHED[start],  # type: ignore[index]  # checked by `amp`
        m=found.m,
        q=found.q,
        V=V,
        **errors,
        training_error=wrong,
        status=result.status,
        dimension=d,
        n_samples=n,
        seed=number,
    )
    return row, result


def draw_single(teacher: AnyTeacher, n: int, d: int, seed: int) -> Dataset:
    """`teacher.sample(n, d, seed)` with X in single precision, never held in double."""
    rng = np.random.default_rng(seed)
    labels = teacher.label_generator(rng)
    X, y = np.empty((n, d), np.float32), np.empty(n, np.int64)
    weights, root = teacher.draw_weights(rng, d), teacher.features.deviations(d).T
    block = max(1, _BLOCK_NUMBERS // d)
    for start in range(0, n, block):
        rows = rng.standard_normal((min(block, n - start), d)) * root
        X[start : start + block] = rows
        y[start : start + block] = teacher.channel.sample(rows @ weights / math.sqrt(d), labels)
    return Dataset(X, y, weights)  # type: ignore[arg-type]  # X in its own precision


def n_samples(alpha: float, dimension: int) -> int:
    """round(αd), 1 or more."""
    if not (isinstance(alpha, int | float | np.number) and math.isfinite(alpha) and alpha > 0):
        raise InvalidInput(f"alpha must be a number above 0, got {alpha!r}")
    n = round(alpha * check_size(dimension, "dimension"))
    if n < 1:
        raise InvalidInput(f"alpha = {alpha:g} in dimension {dimension} is no sample at all")
    return n


def as_int(seed: Seed) -> int:
    """The seed as a number: 53 bits of a SeedSequence, so that a row can be drawn again."""
    if isinstance(seed, np.random.SeedSequence):
        return int(seed.generate_state(1, np.uint64)[0] >> np.uint64(11))
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InvalidInput(f"the seed must be a whole number of 0 or more, got {seed!r}")
    return int(seed)


def _posterior_chances(noise: Channel, V: float, fields: Array) -> Array:
    """The posterior's probabilities (n, k) of the labels of fields (n, k) known to variance V."""
    classes = range(fields.shape[1])
    gaps = [np.sort(fields[:, [y]] - np.delete(fields, y, 1), axis=1).T for y in classes]
    p = np.stack([noise.label_law(gap, max(V, 1e-12)).z for gap in gaps], 1)
    return np.asarray(p / p.sum(1, keepdims=True))


def _mean_variance(variance: Any, k: int) -> float:
    """The posterior variance per class direction, averaged over coordinates."""
    v = np.asarray(variance)
    if v.ndim == 3:  # covariances in k coordinates, of rank k − 1
        return float(np.trace(v, axis1=1, axis2=2).mean()) / (k - 1)
    return float(v.mean())


def run_erm(
    teacher: AnyTeacher,
    estimators: Sequence[ERM],
    alpha: float,
    dimension: int,
    seed: int,
    *,
    solver: str = "auto",
    tol: float = 1e-8,
    test_samples: int | None = None,
) -> list[dict[str, Any]]:
    """One row for each estimator, on `teacher.sample(round(alpha * dimension), dimension, seed)`.

    The estimators have one loss. A ridge 'optimal' is the theory's best at this α. `test_samples`
    replaces the exact generalisation error by the error on that many new samples, and measures the
    scores of the probabilities there, if the fit gives any.
    """
    d = check_size(dimension, "dimension")
    n = round(alpha * d)
    if n < 1:
        raise InvalidInput(f"alpha = {alpha!r} and dimension = {d} leave no sample to learn from")
    if test_samples is not None:
        check_size(test_samples, "test_samples")
    chosen = estimators[0].loss
    values = [ridge_at(teacher, one, float(alpha)) for one in estimators]
    X, y, truth = teacher.sample(n, d, seed)
    fits = fit_erm_path(X, y, chosen, values, n_classes=teacher.n_classes, solver=solver, tol=tol)
    rows = []
    for one, fit in zip(estimators, map(uninterrupted, fits), strict=True):
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
                **{**one.columns, "ridge": fit.ridge},
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


def ridge_at(teacher: AnyTeacher, estimator: ERM, alpha: float) -> float:
    """λ as a number: 'optimal' is the theory's best one at this α."""
    loss, meant = estimator.loss, estimator.ridge
    if not isinstance(meant, str):
        return meant
    values = values_of("loss", loss.name) if loss.name in LOSSES.names else None
    return _best_ridge(teacher, loss.name if loss.name in LOSSES.names else loss, alpha, values)


@lru_cache(maxsize=4096)
def _best_ridge(teacher: AnyTeacher, loss: Loss | str, alpha: float, values: str | None) -> float:
    """Once for a problem in a process: all of its instances are fitted at the same ridge."""
    return optimal_ridge(teacher, loss, alpha)
