"""What held-out samples tell of a fit: intervals of its scores, and thresholds of label sets.

The score of a fit on fresh samples lies around the mean over n held-out samples with the variance

    (σ²/n)(1 + n/n_train)

of which the second term is for the training samples that the held-out fits share (Nadeau and
Bengio, Machine Learning 52, 2003). The interval of the error is Wilson's with so much less samples.
That of the log-loss has z²/4 mistaken samples added to the held-out ones, as Wilson's has mistakes
added: where few or none were mistaken, their number is as uncertain as that of rare events.

A class of one sample is never held out and learned at once. Nothing is then known of its loss, so
that the log-loss may be endless; the error is larger by the share of such classes at most.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

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


@dataclass(frozen=True)
class UnseenClasses:
    """Classes of which no sample was held out: their names in words, and how many samples."""

    names: str = ""
    n_samples: int = 0

    def share_at_most(self, n_held_out: int, z: float) -> float:
        """Return the upper end of Wilson's interval of their share, 0 if there are none."""
        if self.n_samples == 0:
            return 0.0
        n = n_held_out + self.n_samples
        return _wilson(self.n_samples / n, n, z)[1]


def held_out_frame(
    scores: HeldOutScores, level: float, unseen: UnseenClasses | None = None
) -> pd.DataFrame:
    """Return the rows 'error' and 'log_loss' with intervals that hold with probability `level`.

    Parameters
    ----------
    scores : HeldOutScores
    level : float
    unseen : UnseenClasses, optional
        Classes that have no held-out sample.

    Returns
    -------
    DataFrame
        Columns value, standard_error, low, high, status.
    """
    if not 0 < level < 1:
        raise InvalidInput(f"level must be between 0 and 1, got {level!r}")
    z = float(scipy.stats.norm.isf((1 - level) / 2))
    unseen = unseen or UnseenClasses()
    status = _status(scores, unseen.names)
    error = _error(scores, z)
    log_loss = _log_loss(scores, z)
    if status != OK:
        unseen_share = unseen.share_at_most(scores.losses.size, z)
        error = replace(error, high=min(error.high + unseen_share, 1.0))
        log_loss = replace(log_loss, high=math.inf)
    table = {}
    for name, interval in (("error", error), ("log_loss", log_loss)):
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
    low, high = _wilson(p, n, z)
    return Interval(p, math.sqrt(p * (1 - p) / n), low, high)


def _wilson(p: float, n: float, z: float) -> tuple[float, float]:
    """Return the ends of Wilson's interval around a share p of n samples, z standard errors."""
    shrink = 1 / (1 + z**2 / n)
    middle = shrink * (p + z**2 / (2 * n))
    half = shrink * z * math.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
    return max(middle - half, 0.0), min(middle + half, 1.0)


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


def unseen_classes(labels: Labels, held_out: Labels, classes: NDArray[np.generic]) -> UnseenClasses:
    """Return the classes of the samples that no held-out sample has.

    Parameters
    ----------
    labels : (n,)
        Class indices of all samples.
    held_out : (m,)
        Class indices of those that were held out and scored.
    classes : (k,)
        Names of the classes.

    Returns
    -------
    UnseenClasses
    """
    missing = np.setdiff1d(labels, held_out)
    if missing.size == 0:
        return UnseenClasses()
    word = "class"
    if missing.size > 1:
        word = "classes"
    names = ", ".join(str(classes[index]) for index in missing)
    return UnseenClasses(f"{word} {names}", int(np.isin(labels, missing).sum()))


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
