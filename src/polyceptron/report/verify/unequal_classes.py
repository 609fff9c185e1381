"""Checks with unequal classes: mixtures, shares and biases, against closed forms and others."""

import math
from collections.abc import Iterator

import numpy as np
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.special import ndtr
from scipy.stats import norm

from polyceptron.problem import ERM, BayesOptimal, Teacher
from polyceptron.problem.populations import Mixture
from polyceptron.questions.curve import learning_curve
from polyceptron.report.verify.check import Check
from polyceptron.report.verify.equal_classes import FAR_ON_A_NORMAL_LAW
from polyceptron.report.verify.known_values import (
    BIASED_TEACHER,
    CLUSTERS_SOURCE,
    LIKELIHOOD,
    LIKELIHOOD_ALLOWED,
    LIKELIHOOD_SOURCE,
    THREE_CLUSTERS,
    THREE_CLUSTERS_ALLOWED,
    TWO_CLUSTERS,
    UNEQUAL_CLUSTERS_ERROR,
    BiasedLikelihood,
)
from polyceptron.theory.erm.fixed_point import erm_fixed_point
from polyceptron.theory.erm.unequal_classes import population_point
from polyceptron.theory.separability import separability

WITH_INTERCEPT = ERM("cross-entropy", 0.1, intercept=True)


def unequal_values(full: bool) -> Iterator[Check]:
    """Yield class means of mixtures, and random labels with an intercept."""
    for g, s, alpha in ((1.3, 0.8, 2.5), (2.0, 1.0, 0.5)):
        yield _balanced_mixture(g, s, alpha)
    shares = (0.7, 0.95) if full else (0.9,)
    for share in shares:
        yield _labels_of_chance(share)


def _balanced_mixture(g: float, s: float, alpha: float) -> Check:
    """Compare the Bayes error of a balanced mixture with that of its class means.

    With w = y₁ − y₂ the difference of the means, m = ±g and Var ω = s(2g + 4s/α).
    """
    mixture = Mixture((0.5, 0.5), gram=g * np.eye(2), variances=s)
    curve = learning_curve(mixture, BayesOptimal(), [alpha])
    ours = float(curve.frame["generalisation_error"].item())
    spread = math.sqrt(s * (2 * g + 4 * s / alpha))
    name = f"Bayes error of a balanced mixture, g = {g:g}, α = {alpha:g}"
    reference = float(ndtr(-g / spread))
    return Check(name, ours, reference, "its class means", 1e-9)


def _labels_of_chance(share: float) -> Check:
    """Compare α_s of random labels and an intercept b with 1/min_b of a mean square."""

    def mean_square(b: float) -> float:
        """Return the mean square distance beyond the margin at the intercept b."""

        def square_beyond(c: float) -> float:
            """Return E max(x − c, 0)² for a standard normal x."""
            value, _ = quad(lambda x: x * x * norm.pdf(x + c), 0, FAR_ON_A_NORMAL_LAW)
            return float(value)

        return share * square_beyond(b) + (1 - share) * square_beyond(-b)

    reference = 1 / float(minimize_scalar(mean_square).fun)
    mixture = Mixture((share, 1 - share), gram=np.zeros((2, 2)))
    ours = separability(mixture, intercept=True).alpha_s
    return Check(f"α_s of random labels, share {share:g}", ours, reference, "quadrature", 1e-6)


def published_populations(full: bool) -> Iterator[Check]:
    """Yield unequal classes as others have printed them, to their digits or to their draws."""
    yield from _three_clusters()
    yield from _two_clusters()
    unequal = Mixture((0.7, 0.2, 0.1), gram=np.eye(3), variances=0.5)
    error = erm_fixed_point(unequal, WITH_INTERCEPT, 3.0).generalisation_error
    name = "three clusters of unequal shares"
    yield Check(name, error, UNEQUAL_CLUSTERS_ERROR, "plain iteration", 5e-6)
    yield from _biased_teacher()
    published = LIKELIHOOD if full else LIKELIHOOD[2:3]
    for known in published:
        yield from _likelihood(known)


def _three_clusters() -> Iterator[Check]:
    mixture = Mixture((1 / 3,) * 3, gram=np.eye(3), variances=0.5)
    for alpha, known in THREE_CLUSTERS.items():
        point = erm_fixed_point(mixture, ERM("square", 0.001), alpha)
        name = f"three clusters, square loss, α = {alpha:g}"
        source = f"{CLUSTERS_SOURCE}, 20,000 draws"
        yield Check(name, point.generalisation_error, known, source, THREE_CLUSTERS_ALLOWED)


def _two_clusters() -> Iterator[Check]:
    """Yield order parameters of the gap of two fields, which bears half of the ridge."""
    mixture = Mixture((0.5, 0.5), gram=[[1, -1], [-1, 1]], variances=0.5)
    point = erm_fixed_point(mixture, ERM("cross-entropy", 0.02), 3.0)
    ours = {
        "error": point.generalisation_error,
        "m": math.sqrt(2) * point.m[0, 0],
        "q": 2 * point.Q[0, 0, 0],
        "V": 2 * point.V[0, 0, 0],
    }
    for name, known in TWO_CLUSTERS.items():
        label = f"two clusters, logistic: {name}"
        yield Check(label, ours[name], known, CLUSTERS_SOURCE, 4e-7 * known + 3e-8)


def _biased_teacher() -> Iterator[Check]:
    point = population_point(Teacher(3, biases=(0, -0.5, -1)), WITH_INTERCEPT, 3.0)
    ours = (point.generalisation_error, point.test_loss, *point.recall, *point.intercepts)
    for (name, (known, allowed)), value in zip(BIASED_TEACHER.items(), ours, strict=True):
        yield Check(f"biased teacher: {name}", value, known, "plain iteration and fits", allowed)


def _likelihood(known: BiasedLikelihood) -> Iterator[Check]:
    """Yield slope, spread and intercept of maximum likelihood with an intercept, d/n = 0.2.

    A softmax of two fields whose gap is √2 z has the slope γ = √(5/2) in each of them.
    """
    gamma = math.sqrt(5 / 2)
    shift = known.theta / (2 * gamma)
    teacher = Teacher(2, noise=f"softmax:{gamma!r}", biases=(shift, -shift))
    student = ERM("cross-entropy", 0, intercept=True)
    if known.theta == 0:  # classes are equal: scalars
        equal = erm_fixed_point(teacher, student, 5.0)
        m = equal.m
        q = equal.q
        intercept = 0.0
    else:
        unequal = population_point(teacher, student, 5.0)
        assert unequal.law.M is not None  # of a teacher
        m = unequal.law.M[0, 0]
        q = unequal.Q[0, 0, 0]
        intercept = unequal.law.b[0]
    ours = (m / gamma, math.sqrt(10 * (q - m**2)), math.sqrt(2) * intercept)
    quantities = ("slope", "spread", "intercept")
    for quantity, value, reference, allowed in zip(
        quantities, ours, known[1:], LIKELIHOOD_ALLOWED[1:], strict=True
    ):
        name = f"likelihood with intercept, θ = {known.theta:g}: {quantity}"
        yield Check(name, value, reference, LIKELIHOOD_SOURCE, allowed)
