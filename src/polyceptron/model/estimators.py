"""What is done with the data: specifications of estimators, without any computation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class BayesOptimal:
    """The posterior mean of the teacher: no estimator has a lower error.

    >>> BayesOptimal().name
    'bayes'
    """

    name: ClassVar[str] = "bayes"
