"""What is done with the data: estimators, and the registry of their names.

The names are those of the kinds that stand here and of every registered loss, which means empirical
risk minimisation with it.
"""

from dataclasses import replace
from typing import Any

from polyceptron.errors import InvalidInput
from polyceptron.problem.losses import LOSSES, Loss
from polyceptron.problem.registry import Entry, Registry
from polyceptron.problem.specs.base import Estimator as Estimator
from polyceptron.problem.specs.base import Probabilities as Probabilities
from polyceptron.problem.specs.bayes import BayesOptimal as BayesOptimal
from polyceptron.problem.specs.bayes import PosteriorAverage as PosteriorAverage
from polyceptron.problem.specs.erm import ERM as ERM
from polyceptron.problem.specs.mismatched_bayes import MismatchedBayes as MismatchedBayes
from polyceptron.problem.specs.mismatched_bayes import read_mismatched
from polyceptron.problem.specs.rules import ClassMeans as ClassMeans
from polyceptron.problem.specs.rules import DiscriminantAnalysis as DiscriminantAnalysis
from polyceptron.problem.specs.rules import OneVsRest as OneVsRest
from polyceptron.problem.specs.sgd import SGD as SGD
from polyceptron.problem.specs.sgd import read_sgd


class _Estimators(Registry[Estimator]):
    """The kinds of estimators, and each registered loss as `ERM` of it."""

    def _all(self) -> dict[str, Entry[Estimator]]:
        def risk(entry: Entry[Loss]) -> Entry[Any]:
            """Return the entry of the ERM of a registered loss."""
            return replace(entry, make=lambda *numbers: ERM(entry.make(*numbers)))  # type: ignore[arg-type]

        losses = {e.name: risk(e) for e in LOSSES.entries if e.name not in self._entries}
        first = dict(list(self._entries.items())[:1])  # bayes, the losses, then other rules
        return {**first, **losses, **self._entries}

    def read(self, text: Any) -> Estimator:
        """Return the estimator of a name such as `one-vs-rest`, or the ERM of a loss."""
        if isinstance(text, Loss) or (isinstance(text, str) and self.head(text) in LOSSES.names):
            return ERM(text)  # type: ignore[arg-type]
        return super().read(text)


ESTIMATORS: Registry[Estimator] = _Estimators("estimator", Estimator)
ESTIMATORS.add(
    Entry(
        "bayes",
        "the posterior mean, which no estimator surpasses",
        BayesOptimal,
        label="Bayes-optimal",
    ),
    Entry(
        "average",
        "the posterior's average as weights: bayes, but too sure",
        PosteriorAverage,
        label="posterior average",
        plain=False,
    ),
    Entry(
        "mismatched-bayes",
        "a posterior that assumes another noise: mismatched-bayes:NOISE:VARIANCE",
        MismatchedBayes,
        label="mismatched Bayes",
        plain=False,
        read=read_mismatched,
    ),
    Entry(
        "one-vs-rest",
        "each class against all others",
        OneVsRest,
        plain=False,
        read=lambda rest: OneVsRest(loss=rest[1:].removesuffix("]")),
    ),  # type: ignore[arg-type]
    Entry("lda", "linear discriminant analysis", DiscriminantAnalysis, label="LDA", plain=False),
    Entry(
        "sgd",
        "one pass of stochastic gradient descent, a step for each sample",
        lambda rate: SGD(rate=rate),
        ("rate",),
        (1.0,),
        label="one-pass SGD",
        plain=False,
        read=read_sgd,
    ),
    Entry("class-means", "the nearest class mean", ClassMeans, label="class means", plain=False),
)


def as_estimator(estimator: Any) -> Estimator:
    """An estimator, or what a loss or a name means.

    >>> as_estimator("square").name
    'square'
    """
    return ESTIMATORS.read(estimator)


def plain_estimators() -> list[Estimator]:
    """Those of the paper and of the user at their defaults: what a plan compares unless told."""
    entries = ESTIMATORS.entries
    return [ESTIMATORS.read(e.name) for e in entries if e.plain and not e.parameters]


def as_erm(estimator: Any) -> ERM:
    """An `ERM`, or what a loss or its name means: ERM of that loss."""
    found = as_estimator(estimator)
    if not isinstance(found, ERM):
        raise InvalidInput(f"{found.name} minimises no empirical risk: name a loss, or give an ERM")
    return found


def make_estimator(
    name: Any,
    ridge: Any = None,
    penalty: Any = None,
    intercept: Any = None,
    class_weight: Any = None,
) -> Estimator:
    """An estimator from the columns of a row: estimator, ridge, penalty, intercept, class_weight.

    >>> make_estimator("square", 0.5).columns
    {'estimator': 'square', 'ridge': 0.5}
    """
    if not isinstance(name, str):
        raise InvalidInput(f"unknown estimator {name!r}: allowed are {ESTIMATORS.help}")
    found = ESTIMATORS.read(name).with_ridge(ridge, penalty)
    if not intercept and class_weight is None:
        return found
    return replace(as_erm(found), intercept=bool(intercept), class_weight=class_weight)
