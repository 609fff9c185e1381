"""The ridge that predicts held-out samples best: how they are held out, and what is scored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from polyceptron.algorithms.data_checks import Labels, Samples
from polyceptron.algorithms.design import Array
from polyceptron.algorithms.erm.ridge_path import (
    Fold,
    RidgePath,
    Score,
    leave_one_out_is_cheaper,
    ridge_path,
)
from polyceptron.errors import InvalidInput
from polyceptron.model.losses import Loss

RIDGES = tuple(10.0 ** (p / 2) for p in range(6, -11, -1))
_FOLDS = 5


def choose_ridge(
    samples: Samples,
    loss: Loss,
    ridges: Sequence[float] | None,
    scoring: str,
    cv: Any,
    left_out: Array | None = None,
    seed: Any = 0,
) -> RidgePath:
    """Scores along the ridges, and the best; see `ERMClassifier` for what `cv` may be.

    Of the ridges that are taken without `ridges` the best may lie between two.
    """
    values = [float(ridge) for ridge in (RIDGES if ridges is None else ridges)]
    if not values or min(values) <= 0:
        raise InvalidInput(f"ridges must be numbers above 0, at least one, got {ridges!r}")
    folds = _folds(samples, cv, seed)
    path = ridge_path(samples, loss, values, _score(loss, scoring), folds, left_out)
    between = ridges is None and scoring == "log-loss" and not path.interrupted
    return replace(path, best=_vertex(path)) if between else path


def _vertex(path: RidgePath) -> float:
    """The lowest point of the parabola in ln λ through the best ridge and its neighbours."""
    i = int(path.score.argmin())
    if not 0 < i < path.score.size - 1:
        return path.best
    t, s = np.log(path.ridge[i - 1 : i + 2]), path.score[i - 1 : i + 2]
    bend, slope, _ = np.polyfit(t - t[1], s, 2)
    move = -slope / (2 * bend) if bend > 0 else 0.0
    return float(np.exp(t[1] + np.clip(move, t[2] - t[1], t[0] - t[1])))


def _folds(samples: Samples, cv: Any, seed: Any) -> list[Fold] | None:
    """The held-out samples of each fold; None for leave-one-out."""
    from sklearn.model_selection import StratifiedKFold, check_cv

    if isinstance(cv, str):
        if cv != "leave-one-out":
            raise InvalidInput(
                f"cv must be None, 'leave-one-out', a number of folds or a splitter, got {cv!r}"
            )
        return None
    largest = int(np.bincount(samples.y).max())
    if cv is None:
        if largest < 2 or leave_one_out_is_cheaper(samples.design, samples.n_classes):
            return None
        cv = _FOLDS
    if isinstance(cv, int | np.integer):
        if cv < 2:
            raise InvalidInput(f"cv must be 2 folds or more, got {cv}")
        rare = int(np.bincount(samples.y)[np.unique(samples.y)].min())
        if rare >= cv:
            splitter = StratifiedKFold(int(cv), shuffle=True, random_state=seed)
        else:  # no warning for a class that is not in every fold: the fit knows of it
            return _even_folds(samples.y, int(cv), seed)
    else:
        splitter = check_cv(cv, samples.y, classifier=True)
    n = samples.y.size
    parts = [test for _, test in splitter.split(np.zeros((n, 1)), samples.y)]
    return [np.isin(np.arange(n), part) for part in parts]


def _even_folds(y: Labels, count: int, seed: Any) -> list[Fold]:
    """Each class dealt over the folds as evenly as it goes."""
    from sklearn.utils import check_random_state

    order = check_random_state(seed).permutation(y.size)
    dealt = np.empty(y.size, dtype=np.int64)
    dealt[order[np.argsort(y[order], kind="stable")]] = np.arange(y.size) % min(count, y.size)
    return [dealt == fold for fold in range(min(count, y.size))]


def _score(loss: Loss, scoring: str) -> Score:
    """Errors, or −ln of the label's probability; where there is none, the loss itself."""
    if scoring == "error":
        return lambda z, y: (z.argmax(1) != y).astype(float)
    if loss.solver == "softmax" or loss.probabilities(np.zeros((1, 2))) is None:
        return loss.value

    def log_loss(z: Array, y: Labels) -> Array:
        p = np.asarray(loss.probabilities(z))[np.arange(y.size), y]
        return -np.log(np.maximum(p, np.finfo(float).tiny))

    return log_loss
