"""Error and log-loss of a classifier on samples it has not seen, at growing training sizes.

At growing numbers n of training samples both are measured by cross-validation: in each fold the
training samples are fitted in growing parts, and the held-out ones are tested. `forecast` goes on
from there.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyceptron.errors import InvalidInput
from polyceptron.numerics import Array

Whole = NDArray[np.int64]
SMALLEST_PROBABILITY = 1e-15  # of a label: losses are those of at least this much
SHARES_BY_DEFAULT = np.geomspace(0.1, 1.0, 6)  # of the largest number of training samples


@dataclass(frozen=True)
class MeasuredErrors:
    """How samples that were held out fared at growing training sizes, fold after fold.

    Attributes
    ----------
    sizes : array (s,)
        Numbers of training samples, rising.
    wrong : array (s, N)
        0 or 1 for each of the N samples held out, NaN where a fit failed.
    fold : array (N,)
        The number of each sample's fold.
    training : array (s, folds)
        The error on the samples learnt from.
    losses : array (s, N)
        Minus the logarithms of the labels' probabilities; NaN if they were not asked for.
    training_losses : array (s, folds)
        Their means on the samples learnt from.
    chances : array (N, k)
        All probabilities at the largest size; 0 if they were not asked for.
    index : array (N,)
        The place of each sample in the data.
    """

    sizes: Whole
    wrong: Array
    fold: Whole
    training: Array
    losses: Array
    training_losses: Array
    chances: Array
    index: Whole

    @property
    def folds(self) -> Array:
        """The error of each fold, (s, folds)."""
        n_folds = int(self.fold.max()) + 1
        errors = [self.wrong[:, self.fold == i].mean(1) for i in range(n_folds)]
        return np.stack(errors, axis=1)

    @property
    def errors(self) -> Array:
        """The mean over the folds, (s,)."""
        return np.asarray(np.nanmean(self.folds, axis=1))


def measure_errors(
    clf: Any,
    X: Any,
    y: NDArray[Any],
    train_sizes: Any = None,
    cv: Any = 5,
    random_state: Any = 0,
    n_jobs: int | None = None,
    *,
    chances: bool = False,
    progress: Callable[[str], None] = lambda text: None,
) -> MeasuredErrors:
    """Measure the error on held-out samples at growing numbers of training samples.

    In each fold, parts of its training samples are fitted, each contained in the next and with
    every class in it.

    Parameters
    ----------
    clf : classifier
        One with scikit-learn's interface.
    X : array_like (n, d)
        An array, a sparse matrix or a data frame.
    y : ndarray (n,)
    train_sizes : array_like, optional
        Counts, or shares of the largest count that there is.
    cv, random_state, n_jobs
        As in `sklearn.model_selection.learning_curve`; an int `cv` is stratified and shuffled.
    chances : bool
        Whether probabilities and log-losses are wanted too.
    progress : callable
        It is called with a text that says what is being done.

    Returns
    -------
    MeasuredErrors
        Without the sizes at which nothing could be fitted (of one class only, for example).
    """
    from sklearn.model_selection import check_cv

    if isinstance(cv, int):
        cv = _stratified(cv, y, random_state)
    splits = list(check_cv(cv, y, classifier=True).split(X, y))
    sizes = _counts(train_sizes, largest=min(len(train) for train, _ in splits))
    work = _FoldWork(clf, X, y, sizes, chances)
    folds = _measured_folds(work, splits, random_state, n_jobs, progress)
    wrong = np.concatenate([fold.wrong for fold in folds], axis=1)
    fitted = np.isfinite(wrong).any(1)
    if not fitted.any():
        raise InvalidInput("the classifier could not be fitted at any of the training sizes")
    return MeasuredErrors(
        sizes=sizes[fitted],
        wrong=wrong[fitted],
        fold=np.repeat(np.arange(len(splits)), [test.size for _, test in splits]),
        training=np.stack([fold.training for fold in folds], axis=1)[fitted],
        losses=np.concatenate([fold.losses for fold in folds], axis=1)[fitted],
        training_losses=np.stack([fold.training_losses for fold in folds], axis=1)[fitted],
        chances=np.concatenate([fold.chances for fold in folds]),
        index=np.concatenate([test for _, test in splits]),
    )


def _measured_folds(
    work: _FoldWork,
    splits: list[tuple[Whole, Whole]],
    random_state: Any,
    n_jobs: int | None,
    progress: Callable[[str], None],
) -> list[_Fold]:
    """Measure each fold, some of them at a time, and tell the progress."""
    from joblib import Parallel, delayed
    from sklearn.utils import check_random_state

    rng = check_random_state(random_state)
    tasks = []
    for train, test in splits:
        order = _every_class_first(train[rng.permutation(train.size)], work.y)
        tasks.append(delayed(work.measure)(order, test))
    folds: list[_Fold] = []
    for fold in Parallel(n_jobs=n_jobs, return_as="generator")(tasks):
        folds.append(fold)
        progress(f"measuring the learning curve, {len(folds)} of {len(splits)} parts done")
    return folds


def _stratified(n_folds: int, y: NDArray[Any], random_state: Any) -> Any:
    """Return a shuffled splitter whose folds all have every class."""
    from sklearn.model_selection import StratifiedKFold

    rarest = int(np.unique(y, return_counts=True)[1].min())
    if not 2 <= n_folds <= rarest:
        raise InvalidInput(
            f"cv must be from 2 to the number of samples of the rarest class, {rarest} of "
            f"{len(y)}, got {n_folds}: give more samples, or fewer folds"
        )
    return StratifiedKFold(n_folds, shuffle=True, random_state=random_state)


def _counts(train_sizes: Any, largest: int) -> Whole:
    """Return the numbers of training samples (s,), rising, from counts or shares."""
    sizes = SHARES_BY_DEFAULT
    if train_sizes is not None:
        sizes = np.atleast_1d(train_sizes)
    are_shares = sizes.dtype.kind == "f"
    limit = largest
    if are_shares:
        limit = 1
    are_numbers = sizes.size > 0 and sizes.dtype.kind in "iuf"
    if not are_numbers or not ((sizes > 0) & (sizes <= limit)).all():
        raise InvalidInput(
            f"training sizes are counts from 1 to {largest} or shares above 0 up to 1.0, got "
            f"{train_sizes}"
        )
    if are_shares:
        sizes = np.maximum(sizes * largest, 1)
    return np.unique(sizes.astype(np.int64))


def _every_class_first(order: Whole, y: NDArray[Any]) -> Whole:
    """Return the samples (n,) in the given order, but for one of each class at the start."""
    _, first_places = np.unique(y[order], return_index=True)
    first = order[first_places]
    return np.concatenate([first, order[~np.isin(order, first)]])


class _Fold(NamedTuple):
    """One fold's part of `MeasuredErrors`, for its t held-out samples."""

    wrong: Array  # (s, t)
    training: Array  # (s,)
    losses: Array  # (s, t)
    training_losses: Array  # (s,)
    chances: Array  # (t, k)


class _FoldWork(NamedTuple):
    """What is fitted to which samples, and whether probabilities are asked for."""

    clf: Any
    X: Any
    y: NDArray[Any]
    sizes: Whole
    chances: bool

    def measure(self, order: Whole, test: Whole) -> _Fold:
        """Fit the first samples of `order` at each size, and test them on `test` (t,)."""
        from sklearn.base import clone

        n_sizes = self.sizes.size
        fold = _Fold(
            wrong=np.full((n_sizes, test.size), np.nan),
            training=np.full(n_sizes, np.nan),
            losses=np.full((n_sizes, test.size), np.nan),
            training_losses=np.full(n_sizes, np.nan),
            chances=np.zeros((test.size, np.unique(self.y).size)),
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of convergence, ridges and categories
            for row, size in enumerate(self.sizes):
                part = order[:size]
                try:
                    fit = clone(self.clf).fit(_rows_of(self.X, part), self.y[part])
                except ValueError:  # so few samples hold one class only
                    continue
                fold.training[row] = np.mean(self._wrong(fit, part))
                if self.chances:
                    p, fold.losses[row] = self._chances_and_losses(fit, test)
                    fold.chances[:] = p
                    fold.wrong[row] = np.unique(self.y)[p.argmax(1)] != self.y[test]
                    fold.training_losses[row] = self._chances_and_losses(fit, part)[1].mean()
                else:
                    fold.wrong[row] = self._wrong(fit, test)
        return fold

    def _wrong(self, fit: Any, part: Whole) -> NDArray[np.bool_]:
        """Return whether the fit is wrong on each sample of a part (t,)."""
        return np.asarray(fit.predict(_rows_of(self.X, part)) != self.y[part])

    def _chances_and_losses(self, fit: Any, part: Whole) -> tuple[Array, Array]:
        """Return the probabilities (t, k) on a part of the samples, and −ln of the labels' (t,)."""
        classes = np.unique(self.y)
        p = np.zeros((part.size, classes.size))
        p[:, np.searchsorted(classes, fit.classes_)] = fit.predict_proba(_rows_of(self.X, part))
        p_label = p[np.arange(part.size), np.searchsorted(classes, self.y[part])]
        return p, -np.log(np.maximum(p_label, SMALLEST_PROBABILITY))


def _rows_of(X: Any, rows: Whole) -> Any:
    """Return rows of an array, of a sparse matrix or of a data frame."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    return X[rows]
