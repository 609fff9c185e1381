"""The error of a classifier on samples it has not seen, and a power law through it.

At growing numbers n of training samples the error is measured by cross-validation, then

    ε(n) ≈ a n^(−b) + c,      a > 0, 0 < b ≤ 3, c ≥ 0

is fitted by least squares of the relative residuals. Folds are drawn again with replacement, each
time the law is fitted anew, and the band holds 90 of 100 of these fits.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyceptron.errors import InvalidInput
from polyceptron.numerics import Array
from polyceptron.rows import Status

Whole = NDArray[np.int64]


@dataclass(frozen=True)
class MeasuredErrors:
    """Training sizes (s,), and of the N samples held out, fold after fold, how they fared.

    `wrong` (s, N) is 0 or 1 with NaN where a fit failed, `fold` (N,) the number of its fold,
    `training` (s, folds) the error on the samples learnt from, `chances` (N, k) the probabilities
    given at the largest size, if they were asked for.
    """

    sizes: Whole
    wrong: Array
    fold: Whole
    training: Array
    chances: Array

    @property
    def folds(self) -> Array:
        """The error of each fold, (s, folds)."""
        each = [self.wrong[:, self.fold == i].mean(1) for i in range(self.fold.max() + 1)]
        return np.stack(each, axis=1)

    @property
    def errors(self) -> Array:
        """The mean over the folds, (s,)."""
        return np.asarray(np.nanmean(self.folds, axis=1))

    def points(self) -> list[tuple[int, dict[str, Any]]]:
        """For each size the folds that were fitted, and the columns of a row."""
        found = []
        for n, fold, training in zip(self.sizes, self.folds, self.training, strict=True):
            good = fold[np.isfinite(fold)]
            spread = good.std(ddof=1) / math.sqrt(good.size) if good.size > 1 else math.nan
            row = {
                "n_samples": int(n), "generalisation_error": float(good.mean()),
                "uncertainty": float(spread), "training_error": float(np.nanmean(training)),
                "status": Status.OK if good.size == fold.size else Status.TOLERANCE_NOT_MET,
            }  # fmt: skip
            found.append((good.size, row))
        return found


def measure_errors(
    clf: Any,
    X: Array,
    y: NDArray[Any],
    train_sizes: Any = None,
    cv: Any = 5,
    random_state: Any = 0,
    n_jobs: int | None = None,
    *,
    chances: bool = False,
    progress: Callable[[str], None] = lambda text: None,
) -> MeasuredErrors:
    """Fit parts of the training samples of each fold, each part in the next, every class in it.

    `train_sizes` are counts, or shares of the largest that there is. Sizes at which nothing could
    be fitted (of one class only, for example) are left out.
    """
    from joblib import Parallel, delayed
    from sklearn.model_selection import StratifiedKFold, check_cv
    from sklearn.utils import check_random_state

    if isinstance(cv, int):
        rare = int(np.unique(y, return_counts=True)[1].min())
        if not 2 <= cv <= rare:
            raise InvalidInput(
                f"cv must be from 2 to the number of samples of the rarest class, {rare} of "
                f"{len(y)}, got {cv}: give more samples, or fewer folds"
            )
        cv = StratifiedKFold(cv, shuffle=True, random_state=random_state)
    splits = list(check_cv(cv, y, classifier=True).split(X, y))
    sizes = _sizes(train_sizes, min(len(train) for train, _ in splits))
    rng = check_random_state(random_state)
    work = []
    for train, test in splits:
        order = train[rng.permutation(train.size)]  # random, but for one of each class at its start
        first = order[np.unique(y[order], return_index=True)[1]]
        order = np.concatenate([first, order[~np.isin(order, first)]])
        work.append(delayed(_one_fold)(clf, X, y, order, test, sizes, chances))
    found = []
    for one in Parallel(n_jobs=n_jobs, return_as="generator")(work):
        found.append(one)
        progress(f"measuring the learning curve, {len(found)} of {len(splits)} parts done")
    wrong, training, given = (list(part) for part in zip(*found, strict=True))
    held_out = np.repeat(np.arange(len(splits)), [test.size for _, test in splits])
    everything = np.concatenate(wrong, axis=1)
    kept = np.isfinite(everything).any(1)
    if not kept.any():
        raise InvalidInput("the classifier could not be fitted at any of the training sizes")
    return MeasuredErrors(
        sizes[kept], everything[kept], held_out, np.stack(training, 1)[kept], np.concatenate(given)
    )


def _one_fold(
    clf: Any, X: Array, y: NDArray[Any], order: Whole, test: Whole, sizes: Whole, chances: bool
) -> tuple[Array, Array, Array]:
    """Mistakes on the test samples (s, t), errors on those learnt from (s,), chances (t, k)."""
    from sklearn.base import clone
    from sklearn.exceptions import ConvergenceWarning

    classes = np.unique(y)
    wrong = np.full((sizes.size, test.size), np.nan)
    training = np.full(sizes.size, np.nan)
    given = np.zeros((test.size, classes.size))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for row, size in enumerate(sizes):
            part = order[:size]
            try:
                fit = clone(clf).fit(X[part], y[part])
            except ValueError:  # so few samples hold one class only
                continue
            wrong[row] = fit.predict(X[test]) != y[test]
            training[row] = np.mean(fit.predict(X[part]) != y[part])
            if chances and size == sizes[-1]:
                given[:, np.searchsorted(classes, fit.classes_)] = fit.predict_proba(X[test])
    return wrong, training, given


def _sizes(given: Any, most: int) -> Whole:
    """Counts, from counts or from shares of `most`."""
    sizes = np.geomspace(0.1, 1.0, 6) if given is None else np.atleast_1d(np.asarray(given))
    shares = sizes.dtype.kind == "f"
    if sizes.dtype.kind not in "iuf" or sizes.size == 0 or not (
        (sizes > 0) & (sizes <= (1 if shares else most))
    ).all():  # fmt: skip
        raise InvalidInput(
            f"training sizes are counts from 1 to {most} or shares above 0 up to 1.0, got {given}"
        )
    counts = np.maximum(sizes * most, 1) if shares else sizes
    return np.unique(counts.astype(np.int64))


_EXPONENTS = np.geomspace(0.05, 3.0, 120)
BAND = (0.05, 0.95)


@dataclass(frozen=True)
class PowerLaw:
    """a, b and c, and those of the resampled fits (r, 3)."""

    a: float
    b: float
    c: float
    resampled: Array = field(repr=False)

    def __call__(self, n: Any) -> Array:
        """ε at numbers of samples n."""
        return np.asarray(self.a * np.asarray(n, dtype=float) ** -self.b + self.c)

    def band(self, n: Any) -> tuple[Array, Array]:
        """Between these lie 90 of 100 resampled fits at n (m,)."""
        a, b, c = self.resampled.T[:, :, None]
        low, high = np.quantile(a * np.asarray(n, dtype=float) ** -b + c, BAND, axis=0)
        return np.asarray(low), np.asarray(high)


def fit_power_law(sizes: Any, folds: Array, least: float, seed: int = 0) -> PowerLaw:
    """The law of errors (s, folds) at sizes n (s,); `least` is half a count of held-out samples."""
    n = np.asarray(sizes, dtype=float)
    draws = np.random.default_rng(seed).integers(0, folds.shape[1], (200, folds.shape[1]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a draw may hold failed folds only
        means = np.stack([np.nanmean(folds, 1), *(np.nanmean(folds[:, draw], 1) for draw in draws)])
    found = _fit(n, means, least)
    a, b, c = (float(part) for part in found[0])
    return PowerLaw(a, b, c, found[1:])


def _fit(n: Array, errors: Array, least: float) -> Array:
    """a, b, c (r, 3) of errors (r, s): for each b the rest is linear, b is searched."""
    seen = np.isfinite(errors)
    errors = np.where(seen, errors, 0.0)
    weight = np.where(seen, 1 / (errors + least), 0.0) ** 2
    u = (n / n[0]) ** -_EXPONENTS[:, None]  # (b, s)
    one, both, square = weight.sum(1)[:, None], weight @ u.T, weight @ (u**2).T
    along, total = (weight * errors) @ u.T, (weight * errors).sum(1)[:, None]
    determinant = one * square - both**2
    with np.errstate(divide="ignore", invalid="ignore"):
        a = (one * along - both * total) / determinant
        c = (square * total - both * along) / determinant
    # Two points leave c open, and c is not negative: then the law has a alone; a < 0 has c alone.
    alone = ~(c >= 0) if len(n) > 2 else np.full(c.shape, len(n) == 2)
    c, a = np.where(alone, 0.0, c), np.where(alone, along / square, a)
    rising = ~(a > 0)
    c, a = np.where(rising, total / one, c), np.where(rising, 0.0, a)
    rest = a**2 * square + 2 * a * c * both + c**2 * one - 2 * a * along - 2 * c * total
    best = rest.argmin(1)
    rows = np.arange(len(errors))
    b = _EXPONENTS[best]
    return np.stack([a[rows, best] * n[0] ** b, b, c[rows, best]], axis=1)
