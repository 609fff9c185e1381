"""One-pass stochastic gradient descent as a specification: a loss, a learning rate, its schedule.

    W ← W − (η/√d) x ∇ℓ(z, y)ᵀ,     z = Wᵀx/√d,     W(0) = 0,     a fresh sample each step

so that n = αd samples are n steps. The rate is constant, or η(α) = η₀/(1 + α/α₀). A step on the
mean gradient of B samples, B of order 1, moves W as B steps at the rate η/B do: to leading order
in d all B samples see the same W.

As text: `sgd:RATE`, with a loss in brackets and further words behind the rate,
`sgd[square]:0.5:decay:4:batch:2`.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from polyceptron.checks import check_size
from polyceptron.errors import InvalidInput
from polyceptron.problem.losses import Loss, as_loss
from polyceptron.problem.order import ScalarOrder
from polyceptron.problem.populations import AnyTeacher
from polyceptron.problem.registry import Parsed
from polyceptron.problem.specs.base import Estimator, Probabilities

SMALLEST_RATE = 1e-6  # tests/unit/theory/test_one_pass.py computes curves at both ends
LARGEST_RATE = 1e6
_WRITTEN = re.compile(r"(?:\[(?P<loss>.*)\])?(?::(?P<words>[^\[\]]*))?")


@dataclass(frozen=True)
class SGD(Estimator):
    """One pass of stochastic gradient descent over n = αd samples, from weights 0.

    Parameters
    ----------
    loss : str or Loss
        A loss with a gradient: any but a hard margin.
    rate : float or 'optimal'
        η₀, from 1e-6 to 1e6; 'optimal' for the rate of least generalisation error at each α.
    schedule : str
        'constant', or 'decay:α₀' for η(α) = η₀/(1 + α/α₀).
    batch : int
        B, the number of samples of which a step takes the mean gradient.

    Examples
    --------
    >>> SGD(rate=0.5, schedule="decay:4").name
    'sgd:0.5:decay:4'
    >>> SGD("square").rate_at(3.0)
    1.0
    """

    loss: Parsed[Loss] = Parsed(as_loss, "cross-entropy")
    rate: float | str = 1.0
    schedule: str = "constant"
    batch: int = 1

    def __post_init__(self) -> None:
        if self.loss.scale_free:
            raise InvalidInput(
                f"one-pass SGD needs a loss with a gradient, which {self.loss.name} is not: its "
                "values are 0 and infinity"
            )
        object.__setattr__(self, "rate", _check_rate(self.rate))
        object.__setattr__(self, "batch", check_size(self.batch, "the batch of one-pass SGD"))
        _decay_scale(self.schedule)

    @property
    def name(self) -> str:  # type: ignore[override]
        """The rule as it is written: what has its default goes without saying."""
        words = "sgd"
        if self.loss.name != "cross-entropy":
            words += f"[{self.loss.name}]"
        words += ":" + _number_text(self.rate)
        if self.schedule != "constant":
            words += ":decay:" + _number_text(_decay_scale(self.schedule))
        if self.batch != 1:
            words += f":batch:{self.batch}"
        return words

    @property
    def decay_scale(self) -> float:
        """The α₀ of the schedule; infinite where the rate is constant."""
        return _decay_scale(self.schedule)

    def rate_at(self, alpha: float) -> float:
        """Return η(α); raise `InvalidInput` where the rate is still to be chosen."""
        if isinstance(self.rate, str):
            raise InvalidInput("the rate 'optimal' has no value before alpha is given")
        return self.rate / (1 + alpha / self.decay_scale)

    def with_rate(self, rate: float) -> SGD:
        """Return the same rule at another rate η₀."""
        return replace(self, rate=rate)

    def probabilities(self, teacher: AnyTeacher, order: ScalarOrder | None) -> Probabilities | None:
        """Return the class probabilities that the loss gives to fields, None if it gives none."""
        if self.loss.probabilities(np.zeros((1, teacher.n_classes))) is None:
            return None
        return cast(Probabilities, self.loss.probabilities)


def read_sgd(text: str) -> SGD:
    """Return what stands behind 'sgd' as a rule: [LOSS]:RATE:decay:SCALE:batch:SIZE.

    >>> read_sgd("[square]:0.5").loss.name
    'square'
    """
    written = _WRITTEN.fullmatch(text)
    if written is None or not written["words"]:
        raise _misspelt(text)
    first, *further = written["words"].split(":")
    named = dict(zip(further[::2], further[1::2], strict=False))
    if (
        len(further) % 2 == 1
        or not set(named) <= {"decay", "batch"}
        or len(named) * 2 < len(further)
    ):
        raise _misspelt(text)
    given: dict[str, Any] = {}
    if "decay" in named:
        given["schedule"] = "decay:" + named["decay"]
    if "batch" in named:
        given["batch"] = _whole_number(named["batch"])
    loss = written["loss"]
    if loss is None:
        loss = "cross-entropy"
    return SGD(loss=loss, rate=first, **given)


def _misspelt(text: str) -> InvalidInput:
    """Return the error of a rule that is not written as one."""
    return InvalidInput(
        f"the estimator 'sgd{text}' must be written sgd:RATE, as in sgd:1, sgd[square]:0.5, "
        "sgd:2:decay:4 or sgd:1:batch:8"
    )


def _whole_number(text: str) -> int | str:
    """Return a text as a whole number where it is one, else the text for an error message."""
    if text.isdigit():
        return int(text)
    return text


def _check_rate(rate: Any) -> float | str:
    """Return a rate within its range as a number, or the word 'optimal'."""
    if rate == "optimal":
        return "optimal"
    try:
        value = float(rate)
    except (TypeError, ValueError):
        value = math.nan
    if isinstance(rate, bool) or not SMALLEST_RATE <= value <= LARGEST_RATE:
        raise InvalidInput(
            f"the rate of SGD must be a number from {SMALLEST_RATE:g} to {LARGEST_RATE:g}, or "
            f"'optimal', got {rate!r}"
        )
    return value


def _decay_scale(schedule: Any) -> float:
    """Return α₀ of 'decay:α₀', infinite for 'constant'; raise `InvalidInput` for anything else."""
    if schedule == "constant":
        return math.inf
    if isinstance(schedule, str) and schedule.startswith("decay:"):
        try:
            scale = float(schedule.removeprefix("decay:"))
        except ValueError:
            scale = math.nan
        if 0 < scale < math.inf:
            return scale
    raise InvalidInput(
        "the schedule of SGD must be 'constant', or 'decay:' and the alpha above 0 at which the "
        f"rate has fallen to half, got {schedule!r}"
    )


def _number_text(value: float | str) -> str:
    """Return a number as a name holds it: 0.5, 1, or the word 'optimal'."""
    if isinstance(value, str):
        return value
    return repr(value).removesuffix(".0")
