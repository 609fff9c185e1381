"""Which samples are held out: leave-one-out, even folds, or the splits that a user gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from sklearn.model_selection import check_cv

from polyceptron.data.design import Design
from polyceptron.data.stored_designs import open_design
from polyceptron.errors import InvalidInput
from polyceptron.fit.held_out_problem import Split, even_splits
from polyceptron.fit.linear_classifier import TrainingData
from polyceptron.fit.ridge_walk import DENSE

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from sklearn.model_selection import BaseCrossValidator

N_FOLDS = 5
SAMPLES_THAT_TELL_RIDGES_APART = 2000  # held out: of large data not every fold is fitted


class HoldingOut(NamedTuple):
    """How samples are held out: `cv` and `groups` as the user gave them, and the seed of folds."""

    cv: str | int | BaseCrossValidator | None
    X: ArrayLike
    groups: ArrayLike | None
    seed: int

    def splits(
        self, data: TrainingData, n_classes: int, *, every_fold: bool = False
    ) -> list[Split] | None:
        """Return the rows to fit and the rows held out of each fold; None for leave-one-out.

        Of large data as many of the default folds as are enough, or `every_fold`.
        """
        if isinstance(self.cv, str):
            if self.cv == "leave-one-out":
                return None
            allowed = "None, 'leave-one-out', a number of folds or a splitter"
            raise InvalidInput(f"cv must be {allowed}, got {self.cv!r}")
        if self.cv is None:
            return self._default_splits(data, n_classes, every_fold)
        if isinstance(self.cv, int | np.integer):
            return even_splits(data.y, self.cv, self.seed)
        return self._given_splits(data)

    def fallback(self, data: TrainingData) -> list[Split] | None:
        """Return folds in place of a leave-one-out that was not asked for."""
        if self.cv is not None:
            return None
        return even_splits(data.y, N_FOLDS, self.seed)

    def _default_splits(
        self, data: TrainingData, n_classes: int, every_fold: bool
    ) -> list[Split] | None:
        """Return the cheaper of leave-one-out and even folds."""
        if leave_one_out_is_cheaper(data, n_classes):
            return None
        folds = even_splits(data.y, N_FOLDS, self.seed)
        if every_fold:
            return folds
        n_needed = -(-N_FOLDS * SAMPLES_THAT_TELL_RIDGES_APART // data.X.shape[0])
        return folds[:n_needed]

    def _given_splits(self, data: TrainingData) -> list[Split]:
        """Return the splits of scikit-learn's splitter `cv`, as rows that have a weight."""
        n = data.labels.size
        given = self.X
        if isinstance(data.X, Design):
            given = np.zeros((n, 1))
        place = np.full(n, -1)
        place[data.kept] = np.arange(data.y.size)
        splits = []
        splitter = check_cv(self.cv, data.labels, classifier=True)
        for train, test in splitter.split(given, data.labels, self.groups):
            fitted = place[train]
            held_out = place[test]
            splits.append((fitted[fitted >= 0], held_out[held_out >= 0]))
        return splits


def leave_one_out_is_cheaper(data: TrainingData, n_classes: int) -> bool:
    """Return whether the weights are few and the samples many, or no class has a second sample."""
    n, d = data.X.shape
    if int(np.bincount(data.y).max()) < 2:
        return True
    n_weights = (d + 1) * (n_classes - 1)
    return n_weights <= DENSE and n >= d and open_design(data.X).may_be_copied
