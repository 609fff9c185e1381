"""Theory against message passing and against fits of scikit-learn, on drawn data.

Both are allowed four standard errors of the mean over the runs, and a multiple of 1/d for what is
lost by d being finite. Seeds are fixed: a verdict does not depend on luck.
"""

import math
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.svm import SVC, LinearSVC

from polyceptron.data.checks import Labels
from polyceptron.fit.overlaps import overlaps
from polyceptron.lab.data_runs import trace_rows
from polyceptron.numerics import Array
from polyceptron.problem import ERM, Teacher
from polyceptron.problem.populations import Mixture
from polyceptron.progress import steps
from polyceptron.report.verify.check import STANDARD_ERRORS_ALLOWED, Check, sampled_check
from polyceptron.report.verify.identities import amp_branch
from polyceptron.rows import Row
from polyceptron.theory.erm.fixed_point import erm_fixed_point

BIAS_OF_AN_ERROR = 4.0  # times 1/d
BIAS_OF_AN_OVERLAP = 8.0  # times 1/d
ITERATIONS_COMPARED = 8
SEED = 100  # of the data of fits
N_FRESH = 4000  # samples on which a fit is tested
COST_WITHOUT_VIOLATIONS = 1e4  # of a machine with soft margins
SMALLEST_RIDGE = 1e-6  # in place of 0, which a cost cannot stand for


class RunSize(NamedTuple):
    """The dimension of the data, and how many data sets are drawn."""

    dimension: int
    runs: int


class AmpCase(NamedTuple):
    """A number of classes, a prior and α."""

    n_classes: int
    prior: str
    alpha: float


AMP_CASES = (AmpCase(3, "gaussian", 1.5), AmpCase(3, "rademacher", 2.0))
FURTHER_AMP_CASES = (
    AmpCase(2, "gaussian", 1.0),
    AmpCase(5, "gaussian", 2.0),
    AmpCase(3, "rademacher", 3.2),
)


def message_passing(full: bool) -> Iterator[Check]:
    """Yield the error that message passing reaches, and its overlap in the first iterations."""
    cases: tuple[AmpCase, ...] = AMP_CASES
    size = RunSize(1000, 10)
    if full:
        cases += FURTHER_AMP_CASES
        size = RunSize(2000, 20)
    for case in steps(cases):
        yield from _amp_checks(case, size)


def _amp_checks(case: AmpCase, size: RunSize) -> Iterator[Check]:
    k, prior, alpha = case
    d, runs = size
    teacher = Teacher(k, prior)
    iterations = trace_rows(teacher, alpha, d, runs=runs, seed=0, tol=1e-6)
    name = f"k = {k}, {prior}, α = {alpha:g}, d = {d}"
    source = f"{runs} runs of AMP"
    (theory,) = amp_branch(teacher, [alpha])
    last = iterations[-1]
    standard_error = last["generalisation_error_standard_error"]
    allowed = STANDARD_ERRORS_ALLOWED * (standard_error + theory.uncertainty) + BIAS_OF_AN_ERROR / d
    measured = last["generalisation_error"]
    yield Check(f"error, {name}", theory.generalisation_error, measured, source, allowed)
    compared = [
        _overlap_check(step, iteration, d, name, source)
        for iteration, step in enumerate(iterations[1 : ITERATIONS_COMPARED + 1], 1)
    ]
    yield max(compared, key=_share_of_allowed)


def _overlap_check(step: Row, iteration: int, d: int, name: str, source: str) -> Check:
    allowed = STANDARD_ERRORS_ALLOWED * step["q_standard_error"] + BIAS_OF_AN_OVERLAP / d
    label = f"q at iteration {iteration}, {name}"
    return Check(label, step["theory_q"], step["q"], source, allowed)


def _share_of_allowed(check: Check) -> float:
    return abs(check.difference) / check.allowed


class FitCase(NamedTuple):
    """A loss, α, a ridge and a population."""

    loss: str
    alpha: float
    ridge: float
    population: Teacher | Mixture


def fit_cases() -> list[FitCase]:
    """Return fits to equal classes, and to unequal ones with intercepts and weights."""
    equal = Teacher(3)
    three = Teacher(3, noise="gaussian:0.2", shares=(0.5, 0.3, 0.2))
    rare = Mixture((0.8, 0.2), separation=2.5)
    biased = Teacher(2, biases=(0.4, -0.4))
    return [
        FitCase("cross-entropy", 2.0, 0.1, equal),
        FitCase("max-margin", 1.5, 0, equal),
        FitCase("hinge", 2.0, 1.0, rare),
        FitCase("cross-entropy", 3.0, 0.1, three),
        FitCase("square", 2.0, 0.5, three),
        FitCase("max-margin", 1.5, 0, rare),
        FitCase("max-margin", 2.0, 0, biased),
    ]


def scikit_learn(full: bool, seed: int = SEED) -> Iterator[Check]:
    """Yield fresh fits of scikit-learn's own estimators beside the theory."""
    size = RunSize(1000, 16) if full else RunSize(300, 10)
    for case in steps(fit_cases()):
        yield from _fit_checks(case, size, seed)


def _fit_checks(case: FitCase, size: RunSize, seed: int) -> Iterator[Check]:
    """Yield the error, and the norm q; the last class's recall where classes are unequal."""
    loss, alpha, ridge, population = case
    d, runs = size
    k = population.n_classes
    is_unequal = not population.symmetric
    class_weight = "balanced" if is_unequal and ridge else None
    spec = ERM(loss, ridge, None, is_unequal, class_weight)
    theory: Any = erm_fixed_point(population, spec, alpha)
    scores = [_fit_scores(case, spec, d, [seed, run]) for run in steps(range(runs))]
    known = {"error": theory.generalisation_error}
    if is_unequal:
        known["recall"] = theory.recall[-1]
    else:
        known["q"] = theory.q
    for (kind, ours), measured in zip(known.items(), np.transpose(scores), strict=True):
        name = f"{kind}, {loss}, {population.model}, k = {k}, α = {alpha:g}, λ = {ridge:g}"
        slack = BIAS_OF_AN_ERROR / d * max(ours, 1.0)
        source = f"{runs} scikit-learn fits, d = {d}"
        yield sampled_check(name, ours, measured, source, slack=slack)


def _fit_scores(case: FitCase, spec: ERM, d: int, seed: list[int]) -> tuple[float, float]:
    """Return error and recall of the last class, or error and q, of one fit on fresh samples."""
    population = case.population
    k = population.n_classes
    n = round(case.alpha * d)
    X, y, truth = population.sample(n + N_FRESH, d, seed)
    model = _fit(spec, k, X[:n] / math.sqrt(d), y[:n])
    is_wrong = model.predict(X[n:] / math.sqrt(d)) != y[n:]
    error = float(is_wrong.mean())
    if population.symmetric:
        return error, overlaps(model.coef_.T, truth).q
    return error, float(1 - is_wrong[y[n:] == k - 1].mean())


def _fit(spec: ERM, k: int, A: Array, y: Labels) -> Any:
    """Return an estimator that is not ours, fitted to A (n, d) in the package's scaling."""
    ridge = float(spec.ridge)
    weight = spec.class_weight
    if k == 2:
        model = SVC(kernel="linear", C=2 / (ridge or SMALLEST_RIDGE), class_weight=weight)
    else:
        settings: dict[str, Any] = {
            "fit_intercept": spec.intercept,
            "class_weight": weight,
            "max_iter": 100_000,
        }
        model = _model_of_many_classes(spec.loss.name, ridge, settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(A, y)


def _model_of_many_classes(loss: str, ridge: float, settings: dict[str, Any]) -> Any:
    if loss == "cross-entropy":
        return LogisticRegression(C=1 / ridge, tol=1e-8, **settings)
    if loss == "square":
        return RidgeClassifier(alpha=ridge, **settings)
    # Crammer and Singer's machine, with a cost that forbids violations.
    return LinearSVC(C=COST_WITHOUT_VIOLATIONS, multi_class="crammer_singer", **settings)
