"""What held-out samples tell of a fit: intervals of its scores, and thresholds of label sets.

The score of a fit on fresh samples lies around the mean over n held-out samples with the variance

    (σ²/n)(1 + n/n_train)

of which the second term is for the training samples that the held-out fits share (Nadeau and
Bengio, Machine Learning 52, 2003). The interval of the error is Wilson's with so much less samples.
That of the log-loss has z²/4 mistaken samples added to the held-out ones, as Wilson's has mistakes
added: where few or none were mistaken, their number is as uncertain as that of rare events.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
import scipy.stats
from numpy.typing import NDArray

from polyceptron.data.checks import Labels
from polyceptron.errors import InvalidInput
from polyceptron.fit.held_out_problem import standard_error_of_mean
from polyceptron.numerics import Array

OK = "ok"
FEWEST_SAMPLES = 10  # held out in effect: fewer say nothing


@dataclass(frozen=True)
class HeldOutScores:
    """Scores of held-out samples and what they stand for.

    losses : (m,), of the samples
    mistaken_loss : the mean loss of samples if their label were the likeliest other class
    errors : (m,), 1 where a sample is mistaken and 0 elsewhere
    share : (m,), what each sample counts for
    n_train : the mean number of samples of the fits
    """

    losses: Array
    mistaken_loss: float
    errors: Array
    share: Array
    n_train: float

    @property
    def n_effective(self) -> float:
        """Return the number of samples of equal weight whose mean is as well known."""
        return float(self.share.sum() ** 2 / (self.share**2).sum())

    @property
    def inflation(self) -> float:
        """Return 1 + n/n_train, by which the variance of the mean is larger than σ²/n."""
        return 1 + self.share.size / self.n_train


@dataclass(frozen=True)
class Interval:
    """A mean score, its standard error, and the interval of what fresh samples would show."""

    value: float
    standard_error: float
    low: float
    high: float


def held_out_frame(scores: HeldOutScores, level: float, unseen: str) -> pd.DataFrame:
    """Return the rows 'error' and 'log_loss' with intervals that hold with probability `level`.

    Parameters
    ----------
    scores : HeldOutScores
    level : float
    unseen : str
        Words for classes that have no held-out sample, empty if every class has some.

    Returns
    -------
    DataFrame
        Columns value, standard_error, low, high, status.
    """
    if not 0 < level < 1:
        raise InvalidInput(f"level must be between 0 and 1, got {level!r}")
    z = float(scipy.stats.norm.isf((1 - level) / 2))
    status = _status(scores, unseen)
    table = {}
    for name, interval in (("error", _error(scores, z)), ("log_loss", _log_loss(scores, z))):
        numbers = (interval.value, interval.standard_error, interval.low, interval.high)
        table[name] = (*numbers, status)
    columns = ["value", "standard_error", "low", "high", "status"]
    return pd.DataFrame.from_dict(table, orient="index", columns=columns)


def _status(scores: HeldOutScores, unseen: str) -> str:
    """Return 'ok', or 'unknown' with the reason why held-out samples say too little."""
    if scores.n_effective < FEWEST_SAMPLES:
        return f"unknown: only {scores.n_effective:.3g} samples are held out in effect"
    if unseen:
        return f"unknown for {unseen}: too few samples to hold one out"
    return OK


def _error(scores: HeldOutScores, z: float) -> Interval:
    """Return Wilson's interval of a share of n_effective/inflation samples."""
    p = float(np.average(scores.errors, weights=scores.share))
    n = scores.n_effective / scores.inflation
    standard_error = math.sqrt(p * (1 - p) / n)
    shrink = 1 / (1 + z**2 / n)
    middle = shrink * (p + z**2 / (2 * n))
    half = shrink * math.hypot(z * standard_error, z**2 / (2 * n))
    return Interval(p, standard_error, max(middle - half, 0.0), min(middle + half, 1.0))


def _log_loss(scores: HeldOutScores, z: float) -> Interval:
    """Return the interval around the mean loss with z²/4 mistaken samples more."""
    mean = float(np.average(scores.losses, weights=scores.share))
    mistaken_share = z**2 / 4 * scores.share.mean()
    losses = np.append(scores.losses, scores.mistaken_loss)
    share = np.append(scores.share, mistaken_share)
    middle = float(np.average(losses, weights=share))
    widen = math.sqrt(scores.inflation)
    half = z * widen * standard_error_of_mean(losses - middle, share)
    standard_error = widen * standard_error_of_mean(scores.losses - mean, scores.share)
    return Interval(mean, standard_error, max(middle - half, 0.0), middle + half)


def names_of_unseen(labels: Labels, held_out: Labels, classes: NDArray[np.generic]) -> str:
    """Return the names of the classes of the samples that no held-out sample has.

    Parameters
    ----------
    labels : (n,)
        Class indices of all samples.
    held_out : (m,)
        Class indices of those that were held out and scored.
    classes : (k,)
        Names of the classes.
    """
    missing = np.setdiff1d(np.unique(labels), np.unique(held_out))
    if missing.size == 0:
        return ""
    word = "class"
    if missing.size > 1:
        word = "classes"
    return f"{word} {', '.join(str(classes[index]) for index in missing)}"


@dataclass(frozen=True)
class HeldOutLabels:
    """Probabilities of the labels of held-out samples (m,), and what each counts for (m,)."""

    probabilities: Array
    share: Array

    def threshold(self, coverage: float) -> float:
        """Return the probability that the labels of a share `coverage` of samples have at least.

        A sample more is counted, with the smallest probability: the one whose label is asked for.
        So of n samples of equal weight it is the ⌈(n + 1)·coverage⌉-th largest probability, and 0
        where there is none so large.
        """
        order = np.argsort(-self.probabilities, kind="stable")
        covered = np.cumsum(self.share[order])
        n_effective = self.share.sum() ** 2 / (self.share**2).sum()
        wanted = coverage * covered[-1] * (1 + 1 / n_effective)
        rounding = 4 * np.finfo(float).eps * covered[-1]
        if wanted > covered[-1] + rounding:
            return 0.0
        return float(self.probabilities[order][np.searchsorted(covered, wanted - rounding)])
