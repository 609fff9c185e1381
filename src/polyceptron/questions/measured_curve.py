"""Error and log-loss of a classifier on samples it has not seen, at growing training sizes.

At growing numbers n of training samples both are measured by cross-validation: in each fold the
training samples are fitted in growing parts, and the held-out ones are tested. `forecast` goes on
from there.
"""

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
    """Training sizes (s,), and of the N samples held out, fold after fold, how they fared.

    `wrong` (s, N) is 0 or 1 with NaN where a fit failed, `fold` (N,) the number of its fold,
    `training` (s, folds) the error on the samples learnt from. If probabilities were asked for,
    `losses` (s, N) are minus the logarithms of the labels', and at the largest size `chances`
    (N, k) are all of them; `index` (N,) says which samples these are.
    """

    sizes: Whole
    wrong: Array
    fold: Whole
    training: Array
    chances: Array
    losses: Array
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
    from joblib import Parallel, delayed
    from sklearn.model_selection import check_cv
    from sklearn.utils import check_random_state

    if isinstance(cv, int):
        cv = _stratified(cv, y, random_state)
    splits = list(check_cv(cv, y, classifier=True).split(X, y))
    sizes = _counts(train_sizes, largest=min(len(train) for train, _ in splits))
    rng = check_random_state(random_state)
    work = []
    for train, test in splits:
        order = _every_class_first(train[rng.permutation(train.size)], y)
        work.append(delayed(_measure_fold)(clf, X, y, order, test, sizes, chances))
    folds: list[_Fold] = []
    for fold in Parallel(n_jobs=n_jobs, return_as="generator")(work):
        folds.append(fold)
        progress(f"measuring the learning curve, {len(folds)} of {len(splits)} parts done")
    wrong = np.concatenate([fold.wrong for fold in folds], axis=1)
    fitted = np.isfinite(wrong).any(1)
    if not fitted.any():
        raise InvalidInput("the classifier could not be fitted at any of the training sizes")
    return MeasuredErrors(
        sizes=sizes[fitted],
        wrong=wrong[fitted],
        fold=np.repeat(np.arange(len(splits)), [test.size for _, test in splits]),
        training=np.stack([fold.training for fold in folds], axis=1)[fitted],
        chances=np.concatenate([fold.chances for fold in folds]),
        losses=np.concatenate([fold.losses for fold in folds], axis=1)[fitted],
        index=np.concatenate([test for _, test in splits]),
    )


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
    chances: Array  # (t, k)
    losses: Array  # (s, t)


def _measure_fold(
    clf: Any, X: Any, y: NDArray[Any], order: Whole, test: Whole, sizes: Whole, chances: bool
) -> _Fold:
    """Fit the first samples of `order` at each size, and test them on `test` (t,)."""
    from sklearn.base import clone

    classes = np.unique(y)
    label = np.searchsorted(classes, y[test])
    wrong = np.full((sizes.size, test.size), np.nan)
    losses = np.full((sizes.size, test.size), np.nan)
    training = np.full(sizes.size, np.nan)
    p = np.zeros((test.size, classes.size))
    if hasattr(X, "iloc"):
        X = X.iloc
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of convergence, ridges and categories
        for row, size in enumerate(sizes):
            part = order[:size]
            try:
                fit = clone(clf).fit(X[part], y[part])
            except ValueError:  # so few samples hold one class only
                continue
            if chances:
                p[:, np.searchsorted(classes, fit.classes_)] = fit.predict_proba(X[test])
                p_label = p[np.arange(test.size), label]
                losses[row] = -np.log(np.maximum(p_label, SMALLEST_PROBABILITY))
                wrong[row] = p.argmax(1) != label
            else:
                wrong[row] = fit.predict(X[test]) != y[test]
            training[row] = np.mean(fit.predict(X[part]) != y[part])
    return _Fold(wrong, training, p, losses)
