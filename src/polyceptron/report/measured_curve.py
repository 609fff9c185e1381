"""The error of a classifier on data by cross-validation, at growing numbers of training samples."""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyceptron.errors import InvalidInput
from polyceptron.rows import Status

Array = NDArray[np.float64]


class MeasuredErrors(NamedTuple):
    """Training sizes (s,), errors (s, folds) with NaN where a fit failed, training errors (s,)."""

    sizes: NDArray[np.int64]
    folds: Array
    training: Array
    n_held_out: int  # in all folds together

    @property
    def errors(self) -> Array:
        """The mean over the folds, (s,)."""
        return np.asarray(np.nanmean(self.folds, axis=1))

    def points(self) -> list[dict[str, Any]]:
        """Columns of rows: error, its standard error over the folds, status."""
        found = []
        for n, fold, training in zip(self.sizes, self.folds, self.training, strict=True):
            good = fold[np.isfinite(fold)]
            spread = good.std(ddof=1) / math.sqrt(good.size) if good.size > 1 else math.nan
            found.append(
                {
                    "n_samples": int(n),
                    "generalisation_error": float(good.mean()),
                    "uncertainty": float(spread),
                    "training_error": float(training),
                    "folds": int(good.size),
                    "status": Status.OK if good.size == fold.size else Status.TOLERANCE_NOT_MET,
                }
            )
        return found


def measure(
    clf: Any, X: Any, y: Any, train_sizes: Any, cv: Any, random_state: Any, n_jobs: int | None
) -> MeasuredErrors:
    """`sklearn.model_selection.learning_curve`, sizes at which nothing could be fitted left out."""
    from sklearn.exceptions import ConvergenceWarning, FitFailedWarning
    from sklearn.model_selection import StratifiedKFold, learning_curve

    if isinstance(cv, int):
        cv = StratifiedKFold(cv, shuffle=True, random_state=random_state)
    sizes = np.geomspace(0.1, 1.0, 6) if train_sizes is None else np.asarray(train_sizes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", FitFailedWarning)
        warnings.filterwarnings("ignore", message="Scoring failed")
        warnings.filterwarnings("ignore", message=".*test scores are non-finite")
        counts, train, test = learning_curve(
            clf, X, y, train_sizes=sizes, cv=cv, shuffle=True, random_state=random_state,
            n_jobs=n_jobs, error_score=np.nan,
        )  # fmt: skip
    kept = np.isfinite(test).any(1)  # not so when so few samples hold one class only
    if not kept.any():
        raise InvalidInput("the classifier could not be fitted at any of the training sizes")
    return MeasuredErrors(counts[kept], 1 - test[kept], 1 - np.nanmean(train[kept], axis=1), len(X))
