"""Held-out fields of folds: the fits to the training rows of each fold, side by side.

The fits differ in their weights of the samples and in their shares ρ of the ridge, and share every
read of X. A held-out sample whose class the training rows do not have is not scored.
"""

from __future__ import annotations

import numpy as np

from polyceptron.data.checks import Labels
from polyceptron.data.design import weights_or_ones
from polyceptron.errors import InvalidInput
from polyceptron.fit.held_out_problem import (
    HeldOutProblem,
    RidgeScore,
    Split,
    standard_error_of_mean,
)
from polyceptron.fit.ridge_walk import RidgeWalk
from polyceptron.numerics import AnyArray, Array

# Of the objective, by which the last step lowers it; of the gradient, left by inner solves.
ENDS_OF_FOLD_FITS = 1e-3, 0.25
SCORE_ERRORS_OF_LAST_STEP = 0.2  # standard errors by which it may move the score of the folds
ERRORS_ABOVE_BEST_TO_GIVE_UP = 3.0  # standard errors of the difference: such a fit is not gone on


class Folds:
    """Fits to the training rows of each fold.

    Parameters
    ----------
    problem : HeldOutProblem
        What is fitted and scored.
    splits : list of (array, array)
        The rows to fit and the rows held out of each fold.

    Attributes
    ----------
    n_train : float
        Mean number of training samples of a fold.
    sound : bool
        Whether the held-out fields can be relied on: those of folds can.
    """

    method = "cross-validation"
    sound = True

    def __init__(self, problem: HeldOutProblem, splits: list[Split]) -> None:
        self.problem = problem
        samples = problem.samples
        n = samples.y.size
        repeats = np.array([np.bincount(train, minlength=n) for train, _ in splits], float)
        self.n_train = float(repeats.sum(1).mean())
        counts = repeats * problem.counts
        totals = counts.sum(1, keepdims=True)
        self.tests = _scored_rows(splits, counts, samples.y, samples.n_classes)
        if (totals == 0).any():
            raise InvalidInput("cv has a fold without training samples: every fold needs some")
        first = samples.design.back(counts) / totals
        second = samples.design.back_squared(counts) / totals
        weights = repeats * weights_or_ones(samples.weights, n)
        shares = problem.shares(first, second)
        self.walk = RidgeWalk(problem, samples.design, weights, shares, ENDS_OF_FOLD_FITS)

    def held_out(self, ridge: float, best: RidgeScore | None) -> tuple[Array, Labels, Array]:
        """Return the fields of the samples of all folds, their rows, and the folds' mean weights.

        Parameters
        ----------
        ridge : float
            λ of the fits.
        best : RidgeScore, optional
            Fits that are clearly worse are not gone on with.

        Returns
        -------
        fields : array (m, k)
        at : array of int (m,)
        weights : array (d, k)
        """
        walk = self.walk
        scores = _ScoresOfSteps(self, best)
        walk.solve(ridge, scores.settled)
        weights = walk.objective.basis @ walk.U.mean(0)
        return self.fields(walk.Z), np.concatenate(self.tests), weights.T

    def fields(self, Z: AnyArray) -> Array:
        """Return the fields (m, k) of the samples held out, from those of all (L, r, n)."""
        parts = [z[:, rows].T for z, rows in zip(Z, self.tests, strict=True)]
        return np.vstack(parts) @ self.walk.objective.basis.T

    def start(self, ridge: float) -> Array | None:
        """Return None: no fit of all samples was made from which a certified one could start."""
        return None


def _scored_rows(splits: list[Split], counts: Array, y: Labels, n_classes: int) -> list[Labels]:
    """Return the held-out rows of each fold whose class is in its training rows.

    If there are none at all, all held-out rows are scored. `counts` (L, n) say how often each
    sample is in the training rows.
    """
    known = []
    for (_, test), count in zip(splits, counts, strict=True):
        class_counts = np.bincount(y, count, n_classes)
        known.append(test[class_counts[y[test]] > 0])
    if any(test.size for test in known):
        return known
    return [test for _, test in splits]


class _ScoresOfSteps:
    """Scores of the held-out samples at the steps of one walk, which say when it may end.

    last : (m,), those at the step before, or None before the first one
    """

    def __init__(self, folds: Folds, best: RidgeScore | None) -> None:
        at = np.concatenate(folds.tests)
        self.folds = folds
        self.best = best
        self.y = folds.problem.samples.y[at]
        self.share = folds.problem.share[at]
        self.last: Array | None = None

    def settled(self, before: AnyArray, after: AnyArray, gain_is_small: bool) -> bool:
        """Return whether a step from fields to fields (L, r, n) is the last one.

        It is if it gains little and hardly moves the score, or if the score is clearly above the
        best one and does not fall.
        """
        if self.last is None:
            self.last = self._scores(before)
        scores = self._scores(after)
        moved = float(np.average(scores - self.last, weights=self.share))
        self.last = scores
        if moved >= 0 and self._clearly_worse(scores):
            return True
        mean = np.average(scores, weights=self.share)
        error = standard_error_of_mean(scores - mean, self.share)
        return gain_is_small and abs(moved) <= SCORE_ERRORS_OF_LAST_STEP * error

    def _scores(self, Z: AnyArray) -> Array:
        """Return the scores (m,) at fields (L, r, n) of all samples."""
        return self.folds.problem.score(self.folds.fields(Z), self.y)

    def _clearly_worse(self, scores: Array) -> bool:
        """Return whether the scores (m,) are above the best by several standard errors."""
        if self.best is None:
            return False
        differences = scores - self.best.values[:-1]
        worse = float(np.average(differences, weights=self.share))
        error = standard_error_of_mean(differences - worse, self.share)
        return worse > ERRORS_ABOVE_BEST_TO_GIVE_UP * error
