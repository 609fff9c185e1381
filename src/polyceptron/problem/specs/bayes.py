"""The Bayes-optimal student and the posterior's average, as specifications."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from polyceptron.errors import InvalidInput
from polyceptron.problem.order import Decay
from polyceptron.problem.populations import AnyTeacher
from polyceptron.problem.specs.base import Estimator


@dataclass(frozen=True)
class BayesOptimal(Estimator):
    """The posterior mean of the teacher: no estimator has a lower error.

    >>> BayesOptimal().name
    'bayes'
    """

    name = "bayes"
    source: ClassVar[str] = "amp"
    branches: ClassVar[bool] = True
    calibrated: ClassVar[bool] = True

    def decay(self, teacher: AnyTeacher) -> Decay | None:
        """Return the exponent 1 of the error at large α, known for Gaussian weights only."""
        if not teacher.prior.gaussian:
            raise InvalidInput(
                f"the Bayes-optimal error of a teacher with prior {teacher.prior.name!r} falls "
                f"faster than any power of alpha: there is no exponent to find"
            )
        return Decay(1.0)


@dataclass(frozen=True)
class PosteriorAverage(BayesOptimal):
    """The posterior's average as weights: label probabilities as if its fields were the teacher's.

    Where classes are alike Z_l(ω, V) is ordered as ω_l, so that its answers are those of `bayes`,
    which averages the posterior's answers; it is too sure of them, by the V that it leaves out.
    """

    name = "average"
    calibrated: ClassVar[bool] = False
