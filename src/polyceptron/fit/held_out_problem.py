"""What is fitted and scored when samples are held out, and which samples these are.

A score turns the fields z̃ (m, k) of held-out samples and their labels into numbers (m,), of which
low ones are good: −ln p_y, or 1 for each mistake. `RidgeScore` compares the ridges of a path.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from polyceptron.data.checks import Labels, Samples
from polyceptron.errors import InvalidInput
from polyceptron.numerics import Array
from polyceptron.problem.losses import Loss

Score = Callable[[Array, Labels], Array]  # fields (m, k) and labels to numbers (m,), low is good
Split = tuple[Labels, Labels]  # rows to fit, and rows that are held out

RELATIVE_RIDGE_OF_INTERCEPT = 1e-6  # next to nothing, and the Hessian stays positive
LEAST_VARIANCE = 1e-10  # of a scaled feature: one that varies less is constant


class HeldOutProblem(NamedTuple):
    """What is fitted and how it is judged.

    Attributes
    ----------
    samples : Samples
        Features scaled by all samples, with a column of equal entries last if there is an
        `intercept`, and the weights of the loss.
    loss : Loss
        The loss of the fits.
    score : callable
        The score that decides.
    counts : array (n,)
        How often each sample is there, for the scaling.
    share : array (n,)
        What each sample counts for in the score.
    scaling : str
        'standard', 'global' or 'none'.
    intercept : bool
        Whether the last column is that of an intercept.
    also : mapping of str to callable
        Scores that are noted beside the one that decides.
    """

    samples: Samples
    loss: Loss
    score: Score
    counts: Array
    share: Array
    scaling: str
    intercept: bool
    also: Mapping[str, Score] = MappingProxyType({})

    def shares(self, first: Array, second: Array) -> Array:
        """Return ρ (L, d) from the weighted means of x̂_j (L, d) and of x̂_j² (L, d)."""
        n_columns = self.samples.design.dimension
        d = n_columns - int(self.intercept)
        rho = np.ones(first.shape)
        spread = n_columns * (second - first**2)[:, :d]
        if self.intercept:
            rho[:, d] = RELATIVE_RIDGE_OF_INTERCEPT
            spread *= d / (d + 1)  # features are stretched so that x̂ is the same with a column more
        if self.scaling == "standard":
            rho[:, :d] = np.where(spread > LEAST_VARIANCE, spread, 1.0)
        elif self.scaling == "global":
            rho[:, :d] = np.maximum(spread.mean(1, keepdims=True), LEAST_VARIANCE)
        return rho


def even_splits(
    y: Labels, count: int | np.integer[Any], seed: int | np.random.RandomState
) -> list[Split]:
    """Return folds over which each class is dealt as evenly as it goes.

    Parameters
    ----------
    y : array of int (n,)
        Labels. A rare class is not in every fold.
    count : int
        Number of folds; no more than there are samples.
    seed : int or RandomState
        Shuffles the samples before they are dealt.

    Returns
    -------
    list of (array, array)
        The rows to fit and the rows held out of each fold.
    """
    if count < 2:
        raise InvalidInput(f"cv must be 2 folds or more, got {count}")
    order = check_random_state(seed).permutation(y.size)
    count = min(int(count), y.size)
    fold = np.empty(y.size, dtype=np.int64)
    fold[order[np.argsort(y[order], kind="stable")]] = np.arange(y.size) % count
    return [(np.flatnonzero(fold != i), np.flatnonzero(fold == i)) for i in range(count)]


def score_of(loss: Loss, scoring: str, shift: Array) -> Score:
    """Return the score of fields: the mistakes, or −ln of the label's probability.

    Parameters
    ----------
    loss : Loss
        One without probabilities is its own score.
    scoring : str
        'accuracy' or 'neg_log_loss'.
    shift : array (k,)
        What priors add to the fields.
    """
    if scoring == "accuracy":
        return lambda z, y: ((z + shift).argmax(1) != y).astype(float)

    def log_loss(z: Array, y: Labels) -> Array:
        """Return −ln p of the label of each row, shape (n,)."""
        p = np.asarray(loss.probabilities(z))[np.arange(y.size), y]
        return -np.log(np.maximum(p, np.finfo(float).tiny))

    y = np.arange(shift.size)
    z = np.random.default_rng(0).standard_normal((y.size, y.size))
    value = log_loss
    if loss.probabilities(z) is None or np.allclose(loss.value(z, y), log_loss(z, y)):
        value = loss.value  # exact also where probabilities underflow
    return lambda z, y: value(z + shift, y)


def label_probability(loss: Loss, shift: Array) -> Score | None:
    """Return the score p_y at fields that priors move by `shift` (k,).

    It is None for a loss without probabilities.
    """
    if loss.probabilities(np.zeros((1, shift.size))) is None:
        return None

    def probability(z: Array, y: Labels) -> Array:
        """Return the probability of the label of each row, shape (n,)."""
        p = np.asarray(loss.probabilities(z + shift))
        return np.asarray(p[np.arange(y.size), y])

    return probability


@dataclass(frozen=True, eq=False)
class RidgeScore:
    """A ridge, the scores of the samples held out there, and the fit.

    Attributes
    ----------
    ridge : float
        λ of the scaled features.
    values : array (m + 1,)
        Scores of the samples; the last is that of a mistaken sample, which is what they are on
        average if the label is the likeliest other class.
    at : array of int (m,)
        The rows of the samples.
    share : array (m + 1,)
        What each score counts for.
    weights : array (d, k)
        Weights near the minimiser: a start for it.
    sound : bool
        Whether the scores can be relied on.
    also : dict of str to array (m,)
        Further scores of the samples.
    """

    ridge: float
    values: Array
    at: Labels
    share: Array
    weights: Array
    sound: bool
    also: dict[str, Array]

    @cached_property
    def mean(self) -> float:
        """Return the mean score of the samples."""
        return float(np.average(self.values[:-1], weights=self.share[:-1]))

    @property
    def standard_error(self) -> float:
        """Return the standard error of the mean score."""
        return standard_error_of_mean(self.values[:-1] - self.mean, self.share[:-1])

    @cached_property
    def judged(self) -> float:
        """Return the mean with the mistaken sample, by which ridges are compared."""
        return float(np.average(self.values, weights=self.share))

    def apart(self, other: RidgeScore) -> tuple[float, float]:
        """Return by how much it is judged worse than another, and the standard error of that.

        The error is that of the samples' differences where both scored the same samples.
        """
        above = self.judged - other.judged
        if not np.array_equal(self.at, other.at):
            return above, math.hypot(self.standard_error, other.standard_error)
        return above, standard_error_of_mean(self.values - other.values - above, self.share)

    def above(self, other: RidgeScore) -> float:
        """Return by how many standard errors of the difference it is judged worse."""
        above, error = self.apart(other)
        return above / max(error, 1e-300)


def standard_error_of_mean(deviations: Array, share: Array) -> float:
    """Return √(Σ s²δ²)/Σs, the standard error of a mean with shares s (m,), from deviations δ."""
    return float(np.sqrt((share**2 * deviations**2).sum()) / share.sum())
