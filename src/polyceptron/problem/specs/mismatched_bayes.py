"""A posterior mean under assumptions that need not be the teacher's, as a specification."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass
from typing import Any, ClassVar

from polyceptron.errors import InvalidInput
from polyceptron.problem.channels import CHANNELS, Channel, as_channel
from polyceptron.problem.order import Decay
from polyceptron.problem.populations import AnyTeacher
from polyceptron.problem.registry import Parsed
from polyceptron.problem.specs.base import Estimator

DEFAULT_NOISE = "gaussian:1"
SMALLEST_VARIANCE = 1e-12
LARGEST_VARIANCE = 1e12


def check_assumed_variance(variance: Any) -> float:
    """Return the variance that a student assumes of weights, or raise `InvalidInput`."""
    number = math.nan
    if not isinstance(variance, bool):
        with contextlib.suppress(TypeError, ValueError):
            number = float(variance)
    if not SMALLEST_VARIANCE <= number <= LARGEST_VARIANCE:
        raise InvalidInput(
            "the assumed variance of the weights must be a number from "
            f"{SMALLEST_VARIANCE:g} to {LARGEST_VARIANCE:g}, got {variance!r}"
        )
    return number


@dataclass(frozen=True)
class MismatchedBayes(Estimator):
    """The posterior mean of a student who assumes a noise and a variance of the weights.

    The student takes the weights for N(0, `variance`), times the teacher's own variance along each
    feature, and the labels for those that `noise` draws. With the teacher's own noise, variance 1
    and Gaussian weights this is `BayesOptimal`.

    Only one number of both counts where the noise acts on the fields: weights of variance s² under
    gaussian noise Δ (softmax slope β) give the answers of weights of variance 1 under noise Δ/s²
    (slope βs).

    Parameters
    ----------
    noise : str or Channel
        The assumed law of the labels, such as 'gaussian:0.25', 'softmax:2' or 'flips:0.1'.
    variance : float
        The assumed variance of the weights, s².

    Examples
    --------
    >>> MismatchedBayes("softmax:2", 0.5).name
    'mismatched-bayes:softmax:2.0:0.5'
    >>> MismatchedBayes("none").columns
    {'estimator': 'mismatched-bayes:none'}
    """

    source: ClassVar[str] = "amp"

    noise: Parsed[Channel] = Parsed(as_channel, DEFAULT_NOISE)
    variance: float = 1.0

    def __post_init__(self) -> None:
        variance = check_assumed_variance(self.variance)
        object.__setattr__(self, "variance", variance)

    @property
    def name(self) -> str:  # type: ignore[override]
        """The noise with its numbers, then the variance unless it is 1; none of both by default."""
        if self.variance != 1:
            return f"mismatched-bayes:{self.noise.name}:{self.variance!r}"
        if self.noise != as_channel(DEFAULT_NOISE):
            return f"mismatched-bayes:{self.noise.name}"
        return "mismatched-bayes"

    def assumed_channel(self, teacher: AnyTeacher) -> Channel:
        """Return the assumed law of labels given the fields that the teacher's features show."""
        return self.noise.behind(teacher.features.hidden)

    def decay(self, teacher: AnyTeacher) -> Decay | None:
        """Return None: whether the error reaches its floor depends on what is assumed."""
        return None


def read_mismatched(text: str) -> MismatchedBayes:
    """Return the student that ':NOISE' or ':NOISE:VARIANCE', behind its name, means.

    >>> read_mismatched(":gaussian:0.5:2").variance
    2.0
    """
    words = text.removeprefix(":").split(":")
    n_words_of_noise = 1
    for entry in CHANNELS.entries:
        if entry.name == CHANNELS.head(words[0]):
            n_words_of_noise += len(entry.parameters)
    noise = ":".join(words[:n_words_of_noise])
    further = words[n_words_of_noise:]
    if not further:
        return MismatchedBayes(noise)
    try:
        (variance,) = map(float, further)
    except ValueError:
        raise InvalidInput(
            f"the estimator 'mismatched-bayes{text}' must be written "
            "mismatched-bayes:NOISE or mismatched-bayes:NOISE:VARIANCE"
        ) from None
    return MismatchedBayes(noise, variance)
