"""One instance of message passing against its teacher, as a row.

The teacher is drawn, the data from it, and the weights that message passing finds are compared with
the truth: overlaps m and q, and the exact generalisation error of those very weights.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from polyceptron.algorithms.amp import amp
from polyceptron.algorithms.amp_input import check_choice
from polyceptron.algorithms.amp_result import AMPResult
from polyceptron.algorithms.overlaps import exact_generalisation_error, overlaps
from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.model.teacher import AnyTeacher, Dataset, argmax_labels, check_size
from polyceptron.rows import make_row

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
) -> Row:
    """One row: message passing on round(αd) samples of `teacher` in d dimensions.

    `teacher.sample(n_samples, dimension, seed)` draws the same data again from the row's columns.
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
        )
        wrong = float(np.mean(np.argmax(X @ result.weights.astype(X.dtype), axis=1) != y))
    except MemoryError:
        raise ComputationFailed(
            f"{n} samples in dimension {d} need {np.dtype(dtype).itemsize * n * d / 1e9:.3g} GB: "
            "choose a smaller dimension or alpha"
        ) from None
    found = overlaps(result.weights, truth)
    error = exact_generalisation_error(result.weights, truth)
    row = make_row(
        source="amp",
        model=teacher.model,
        n_classes=teacher.n_classes,
        prior=teacher.prior.name,
        estimator="bayes",
        alpha=alpha,
        branch="amp" if start == "uninformed" else "informed",
        m=found.m,
        q=found.q,
        V=_mean_variance(result.variance, teacher.n_classes),
        generalisation_error=error.value,
        uncertainty=error.uncertainty,
        training_error=wrong,
        status=result.status,
        dimension=d,
        n_samples=n,
        seed=number,
    )
    return row, result


def draw_single(teacher: AnyTeacher, n: int, d: int, seed: int) -> Dataset:
    """`teacher.sample(n, d, seed)` with X in single precision, never held in double.

    A generator given as the seed goes on where the sample ended: the first row and the weights come
    from the teacher, the other rows follow in the same stream, block by block.
    """
    rng = np.random.default_rng(seed)
    first = teacher.sample(1, d, rng)
    X, y = np.empty((n, d), np.float32), np.empty(n, np.int64)
    X[0], y[0] = first.X[0], first.y[0]
    block = max(1, _BLOCK_NUMBERS // d)
    for start in range(1, n, block):
        rows = rng.standard_normal((min(block, n - start), d))
        X[start : start + block] = rows
        y[start : start + block] = argmax_labels(rows @ first.weights / math.sqrt(d))
    return Dataset(X, y, first.weights)  # type: ignore[arg-type]  # X in its own precision


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


def _mean_variance(variance: Any, k: int) -> float:
    """The posterior variance per class direction, averaged over coordinates."""
    v = np.asarray(variance)
    if v.ndim == 3:  # covariances in k coordinates, of rank k − 1
        return float(np.trace(v, axis1=1, axis2=2).mean()) / (k - 1)
    return float(v.mean())
