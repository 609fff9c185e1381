"""Checks with equal classes: transitions, errors, separability, and closed forms."""

import math
from collections.abc import Iterator

from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.special import ndtr
from scipy.stats import norm

from polyceptron.problem import BayesOptimal, Teacher, make_estimator
from polyceptron.questions.asymptotics import asymptotics
from polyceptron.questions.ridge import optimal_ridge
from polyceptron.report.verify.check import Check, printed_check
from polyceptron.report.verify.known_values import (
    BAYES,
    ERM_ERRORS,
    INDEPENDENT,
    LABELS_OF_CHANCE,
    SEPARABLE,
    TAILS_OF_BAYES,
    THRESHOLD_DIGITS,
    THRESHOLDS,
)
from polyceptron.theory.bayes.fixed_points import fixed_points
from polyceptron.theory.bayes.transitions import transitions
from polyceptron.theory.erm.fixed_point import erm_fixed_point
from polyceptron.theory.erm.point import ErmFixedPoint
from polyceptron.theory.separability import separability

NOISE_OF_CHANCE = "gaussian:1e8"  # so much that labels do not depend on the features
FAR_ON_A_NORMAL_LAW = 12.0  # standard deviations: beyond it nothing is left in doubles


def erm_point(
    loss: str, n_classes: int, ridge: float, alpha: float, tol: float | None = None
) -> ErmFixedPoint:
    """Return the theory of a loss with Gaussian weights and noiseless labels."""
    return erm_fixed_point(Teacher(n_classes), make_estimator(loss, ridge), alpha, tol=tol)


def thresholds(full: bool) -> Iterator[Check]:
    """Yield α_IT and α_algo where they are known."""
    for known in THRESHOLDS:
        found = transitions(known.teacher)
        ours = {
            f"α_IT, {known.name}": found.alpha_it or math.nan,
            f"α_algo, {known.name}": found.alpha_algo or math.nan,
        }
        for (label, value), reference in zip(ours.items(), known.values, strict=True):
            yield Check(label, value, reference, INDEPENDENT, THRESHOLD_DIGITS)
        for (label, value), printed in zip(ours.items(), known.printed, strict=False):
            yield printed_check(label, value, printed)


def errors(full: bool) -> Iterator[Check]:
    """Yield generalisation errors of the Bayes-optimal and of the ERM estimators."""
    for known in BAYES:
        teacher = Teacher(known.n_classes, noise=known.noise)
        ours = fixed_points(teacher, known.alpha)[0].generalisation_error
        name = f"Bayes error, k = {known.n_classes}, noise {known.noise}, α = {known.alpha:g}"
        yield Check(name, ours, known.error, INDEPENDENT, known.digits)
    for trained in ERM_ERRORS:
        ours = erm_point(trained.loss, 3, trained.ridge, trained.alpha).generalisation_error
        name = f"{trained.loss} error, k = 3, α = {trained.alpha:g}"
        if trained.ridge:
            name += f", λ = {trained.ridge:g}"
        yield Check(name, ours, trained.error, INDEPENDENT, trained.digits)


def noisy_values(full: bool) -> Iterator[Check]:
    """Yield separability thresholds, and their limit for labels drawn by chance."""
    for known in SEPARABLE:
        kind, number = known.noise.split(":")
        name = f"1/α_s, k = 2, {kind}:{float(number):.4g}"
        ours = 1 / separability(Teacher(2, noise=known.noise)).alpha_s
        yield Check(name, ours, known.one_over_alpha, INDEPENDENT, known.digits)
    for k, limit in LABELS_OF_CHANCE:
        ours = separability(Teacher(k, noise=NOISE_OF_CHANCE)).alpha_s
        yield Check(f"α_s, k = {k}, random labels", ours, limit, "limit of the theory", 1e-3)


def closed_forms(full: bool) -> Iterator[Check]:
    """Yield the square loss, its best ridge, and the tail of the Bayes-optimal error."""
    best = optimal_ridge(Teacher(2), "square", 2.0)
    yield Check("best λ, square, k = 2", best, math.pi / 2 - 1, "π/2 − 1", 1e-10)
    for k in (3, 10):
        yield _best_ridge_by_search(k, alpha=1.7)
    for k in (3, 7):
        yield from _least_squares(k)
    for k, constant in TAILS_OF_BAYES.items():
        tail = asymptotics(Teacher(k), BayesOptimal())
        yield Check(f"αε at large α, Bayes, k = {k}", tail.constant, constant, INDEPENDENT, 5e-5)


def _best_ridge_by_search(k: int, alpha: float) -> Check:
    """Compare the best ridge of the square loss with a search of the least error."""

    def error(log_ridge: float) -> float:
        """Return the error of the square loss at a ridge."""
        return erm_point("square", k, math.exp(log_ridge), alpha).generalisation_error

    search = minimize_scalar(error, bracket=(-2.0, 1.0), tol=1e-9)
    best = optimal_ridge(Teacher(k), "square", alpha)
    # An error is flat at its minimum: half of the digits are all that a search can give.
    return Check(f"best λ, square, k = {k}", best, math.exp(search.x), "direct search", 1e-5)


def _least_squares(k: int) -> Iterator[Check]:
    """Yield q = 1/k and m = E[max of k normals]/(k − 1) of least squares at α = 2."""
    point = erm_point("square", k, 0.0, 2.0)

    def density_of_maximum(x: float) -> float:
        """Return x times the density of the largest of k standard normals."""
        return float(k * x * norm.pdf(x) * ndtr(x) ** (k - 1))

    mean, _ = quad(density_of_maximum, -FAR_ON_A_NORMAL_LAW, FAR_ON_A_NORMAL_LAW)
    yield Check(f"norm q of least squares, k = {k}, α = 2", point.q, 1 / k, "s² at α = 2", 1e-9)
    yield Check(
        f"overlap m of least squares, k = {k}", point.m, mean / (k - 1), "E max/(k − 1)", 1e-9
    )
