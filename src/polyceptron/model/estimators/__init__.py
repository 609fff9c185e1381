"""What is done with the data: estimators, and the registry of their names.

The names are those of the kinds that stand here and of every registered loss, which means empirical
risk minimisation with it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from polyceptron.errors import InvalidInput
from polyceptron.model.estimators.base import Estimator, Jump, Probabilities, StudentLaw
from polyceptron.model.estimators.students import ERM, BayesOptimal
from polyceptron.model.losses import LOSSES, Loss
from polyceptron.model.registry import Entry, Registry

__all__ = [
    "ERM",
    "ESTIMATORS",
    "BayesOptimal",
    "Estimator",
    "Jump",
    "Probabilities",
    "StudentLaw",
    "as_erm",
    "as_estimator",
    "make_estimator",
    "takes_ridge",
]


class _Estimators(Registry[Estimator]):
    """The kinds of estimators, and each registered loss as `ERM` of it."""

    def _all(self) -> dict[str, Entry[Estimator]]:
        def risk(entry: Entry[Loss]) -> Entry[Any]:
            return replace(entry, make=lambda *numbers: ERM(entry.make(*numbers)))  # type: ignore[arg-type]

        losses = {e.name: risk(e) for e in LOSSES.entries if e.name not in self._entries}
        return {**self._entries, **losses}

    def read(self, text: Any) -> Estimator:
        if isinstance(text, Loss) or (isinstance(text, str) and self.head(text) in LOSSES.names):
            return ERM(text)  # type: ignore[arg-type]
        return super().read(text)


ESTIMATORS: Registry[Estimator] = _Estimators("estimator", Estimator)  # type: ignore[type-abstract]
_SUMMARY = "the posterior mean, which no estimator surpasses"
ESTIMATORS.add(Entry("bayes", _SUMMARY, BayesOptimal, label="Bayes-optimal"))


def as_estimator(estimator: Any) -> Estimator:
    """An estimator, or what a loss or a name means.

    >>> as_estimator("square").name
    'square'
    """
    return ESTIMATORS.read(estimator)


def as_erm(estimator: Any) -> ERM:
    """An `ERM`, or what a loss or its name means: ERM of that loss."""
    found = as_estimator(estimator)
    if not isinstance(found, ERM):
        raise InvalidInput(f"{found.name} minimises no empirical risk: name a loss, or give an ERM")
    return found


def make_estimator(name: Any, ridge: Any = None, penalty: Any = None) -> Estimator:
    """An estimator from the columns of a row: estimator, ridge, penalty.

    >>> make_estimator("square", 0.5).columns
    {'estimator': 'square', 'ridge': 0.5}
    """
    if not isinstance(name, str):
        raise InvalidInput(f"unknown estimator {name!r}: allowed are {ESTIMATORS.help}")
    return ESTIMATORS.read(name).with_ridge(ridge, penalty)


def takes_ridge(name: str) -> bool:
    """Whether what has this name is fitted with a ridge."""
    return ESTIMATORS.knows(name) and ESTIMATORS.read(name).takes_ridge
