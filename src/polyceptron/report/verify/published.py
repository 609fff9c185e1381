"""Numbers that somebody else computed: the paper, independent calculations, closed forms.

Noisy labels: independent values of two classes, limits of many, and data.

The separability threshold tends to 2 for two classes and 12/5 for three when labels are chance.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq, minimize_scalar
from scipy.special import ndtr

from polyceptron.algorithms.message_passing.posterior_mean import amp
from polyceptron.algorithms.overlaps import exact_generalisation_error
from polyceptron.algorithms.watching import uninterrupted
from polyceptron.model import (
    ERM,
    AnyTeacher,
    BayesOptimal,
    Perceptron,
    SquareLoss,
    Teacher,
    as_channel,
    as_loss,
    as_prior,
)
from polyceptron.report.verify.check import Check, sampled_check
from polyceptron.theory.asymptotics import asymptotics
from polyceptron.theory.bayes_optimal.fixed_points import fixed_points
from polyceptron.theory.bayes_optimal.transitions import transitions
from polyceptron.theory.curve import curve_rows
from polyceptron.theory.erm.fixed_point import erm_fixed_point, optimal_ridge
from polyceptron.theory.separability import separability

INDEPENDENT = "independent computation"
# Model, α_IT and α_algo: independent values and their digits, then as printed in the paper. The
# paper's are Monte Carlo at k = 3 and quoted from the literature for the perceptron.
THRESHOLDS: tuple[tuple[str, AnyTeacher, tuple[float, ...], tuple[float, ...]], ...] = (
    ("classical perceptron", Perceptron(), (1.244684, 1e-6, 1.492632, 1e-6), (1.249, 1.493)),
    (
        "argmax, k = 2, Rademacher",
        Teacher(2, as_prior("rademacher")),
        (2.072997, 1e-6, 2.486583, 1e-6),
        (),
    ),
    # 2.885565 differs from our two evaluations, 2.8855611 by the curve and by the paper's
    # equations at fixed q, in its last digit; the reference stands with the digits it can bear.
    (
        "argmax, k = 3, Rademacher",
        Teacher(3, as_prior("rademacher")),
        (2.394895, 1e-6, 2.885565, 1e-5),
        (2.45, 2.89),
    ),
)
PAPER_ALLOWED = {1.249: 5e-3, 1.493: 1e-3, 2.45: 0.06, 2.89: 0.01}
BAYES = (
    (2, 1.0, 0.2543730, 1e-7),
    (2, 5.0, 0.0839352, 1e-7),
    (3, 1.0, 0.39050958, 1e-8),
    (3, 5.0, 0.15414960, 1e-8),
    (3, 100.0, 0.00880421, 1e-8),
)
ERM_ERRORS = (
    ("cross-entropy", 2.0, 0.1, 0.290197, 1e-6),
    ("cross-entropy", 3.0, 1.0, 0.259532, 1e-6),
    ("square", 2.0, 1.0, 0.30546, 1e-5),
    ("max-margin", 3.0, 0.0, 0.2447, 1e-4),
)


def thresholds(full: bool) -> Iterator[Check]:
    """α_IT and α_algo where they are known."""
    for name, teacher, (it, it_digits, algo, algo_digits), printed in THRESHOLDS:
        found = transitions(teacher)
        ours = (found.alpha_it or math.nan, found.alpha_algo or math.nan)
        note = "the reference's last digit is in doubt" if algo_digits > 1e-6 else ""
        yield Check(f"α_IT, {name}", ours[0], it, INDEPENDENT, it_digits)
        yield Check(f"α_algo, {name}", ours[1], algo, INDEPENDENT, algo_digits, note)
        for label, mine, theirs in zip(("α_IT", "α_algo"), ours, printed, strict=False):
            yield Check(f"{label}, {name}", mine, theirs, "paper", PAPER_ALLOWED[theirs])


def errors(full: bool) -> Iterator[Check]:
    """Generalisation errors of the Bayes-optimal and of the ERM estimators."""
    for k, alpha, reference, digits in BAYES:
        ours = fixed_points(Teacher(k), alpha)[0].generalisation_error
        yield Check(f"Bayes error, k = {k}, α = {alpha:g}", ours, reference, INDEPENDENT, digits)
    for loss, alpha, ridge, reference, digits in ERM_ERRORS:
        ours = erm_fixed_point(Teacher(3), ERM(as_loss(loss), ridge), alpha).generalisation_error
        name = f"{loss} error, k = 3, α = {alpha:g}" + (f", λ = {ridge:g}" if ridge else "")
        yield Check(name, ours, reference, INDEPENDENT, digits)


def closed_forms(full: bool) -> Iterator[Check]:
    """Two classes by adaptive quadrature, the square loss, the best ridge, the tail."""
    for alpha in (0.3, 3.0) if not full else (0.03, 0.3, 3.0, 30.0):
        ours = fixed_points(Teacher(2), alpha)[0].generalisation_error
        reference = math.acos(math.sqrt(_two_class_overlap(alpha))) / math.pi
        source = "arccos √q/π, scipy quad"
        yield Check(f"Bayes error, k = 2, α = {alpha:g}", ours, reference, source, 1e-9)
    yield Check(
        "best λ, square, k = 2",
        optimal_ridge(Teacher(2), "square", 2.0),
        math.pi / 2 - 1,
        "π/2 − 1",
        1e-10,
    )
    for k in (3, 10):
        best = minimize_scalar(
            lambda x, k=k: _square_error(k, math.exp(x), 1.7), bracket=(-2.0, 1.0), tol=1e-9
        )
        ours = optimal_ridge(Teacher(k), "square", 1.7)
        # An error is flat at its minimum: half of the digits are all that a search can give.
        yield Check(f"best λ, square, k = {k}", ours, math.exp(best.x), "direct search", 1e-5)
    for k in (3, 7):
        point = erm_fixed_point(Teacher(k), ERM(SquareLoss(), 0.0), 2.0)
        c = _expected_maximum(k) / (k - 1)
        reference = 1 / k
        yield Check(
            f"norm q of least squares, k = {k}, α = 2", point.q, reference, "s² at α = 2", 1e-9
        )
        yield Check(f"overlap m of least squares, k = {k}", point.m, c, "E max/(k − 1)", 1e-9)
    for k, constant in ((2, 0.4417), (3, 0.8834)):
        tail = asymptotics(Teacher(k), BayesOptimal())
        yield Check(f"αε at large α, Bayes, k = {k}", tail.constant, constant, INDEPENDENT, 5e-5)


def _square_error(k: int, ridge: float, alpha: float) -> float:
    point = erm_fixed_point(Teacher(k), ERM(SquareLoss(), ridge), alpha)
    return point.generalisation_error


def _two_class_overlap(alpha: float) -> float:
    """q of two classes, from its own integral: q = αI/(1 + αI), Z = Φ(a/√2), a = Δ/√v."""

    def information(q: float) -> float:
        v = 1 - q
        # With Δ = ω₁ − ω₂ ~ N(0, 2q): I = Σ_l E (∂Z)²/Z · 2, the two components being equal.
        scale = math.sqrt(2 * q)

        def integrand(x: float) -> float:
            a = scale * x / math.sqrt(2 * v)
            density = math.exp(-0.5 * a * a) / math.sqrt(2 * math.pi)
            weight = math.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
            return weight * density**2 / max(float(ndtr(a)), 1e-300) / (2 * v)

        reach = min(38.0, 38.0 * math.sqrt(v / q))  # beyond it the density underflows
        return 4 * quad(integrand, -reach, reach, epsabs=1e-13, epsrel=1e-12, limit=400)[0]

    def excess(q: float) -> float:
        q_hat = alpha * information(q)
        return q_hat / (1 + q_hat) - q

    return float(brentq(excess, 1e-9, 1 - 1e-9, xtol=1e-14, rtol=1e-14))


def _expected_maximum(k: int) -> float:
    """E of the largest of k standard normals."""

    def integrand(x: float) -> float:
        return x * k * math.exp(-0.5 * x * x) / math.sqrt(2 * math.pi) * float(ndtr(x)) ** (k - 1)

    return float(quad(integrand, -12.0, 12.0, epsabs=1e-13, limit=200)[0])


SEPARABLE = (
    (f"softmax:{1 / math.sqrt(2)!r}", 0.438939),
    (f"softmax:{math.sqrt(2)!r}", 0.34493),
    (f"softmax:{5 / math.sqrt(2)!r}", 0.185052),
    ("gaussian:0.1", 0.16473),
    ("gaussian:1", 0.37101),
    ("flips:0.05", 0.262489),
)
NOISY_BAYES = (
    ("gaussian:0.5", 1.0, 0.344287),
    ("gaussian:0.5", 5.0, 0.247024),
    ("gaussian:1", 1.0, 0.383151),
    ("gaussian:1", 10.0, 0.279867),
)


def noisy_values(full: bool) -> Iterator[Check]:
    """Thresholds and errors where they are known, and the limit of labels drawn by chance."""
    for noise, reference in SEPARABLE:
        ours = 1 / separability(Teacher(2, noise=as_channel(noise))).alpha_s
        name = f"1/α_s, k = 2, {_short(noise)}"
        digits = 10.0 ** -len(f"{reference!r}".split(".")[1])
        yield Check(name, ours, reference, INDEPENDENT, digits)
    for k, limit in ((2, 2.0), (3, 2.4)):
        ours = separability(Teacher(k, noise=as_channel("gaussian:1e8"))).alpha_s
        yield Check(f"α_s, k = {k}, labels of chance", ours, limit, "limit of the theory", 1e-3)
    for noise, alpha, reference in NOISY_BAYES:
        ours = fixed_points(Teacher(2, noise=as_channel(noise)), alpha)[0].generalisation_error
        name = f"Bayes error on noisy labels, k = 2, {noise}, α = {alpha:g}"
        yield Check(name, ours, reference, INDEPENDENT, 1e-6)


def noisy_message_passing(full: bool) -> Iterator[Check]:
    """Message passing that knows the noise, and against it the theory of another noise."""
    d, runs = (1500, 12) if full else (800, 8)
    for noise in ("flips:0.1", "gaussian:0.5"):
        channel, errors = as_channel(noise), []
        teacher = Teacher(3, noise=channel)
        for seed in range(runs):
            data = teacher.sample(2 * d, d, 200 + seed)
            found = amp(data.X, data.y, noise=channel, n_classes=3, tol=1e-6)
            uninterrupted(found)
            error = exact_generalisation_error(found.weights, data.weights, noise=channel)
            errors.append(error.value)
        theory = curve_rows(teacher, BayesOptimal(), [2.0])[0]["generalisation_error"]
        source = f"{runs} runs of AMP, d = {d}"
        yield sampled_check(f"error, k = 3, {noise}, α = 2", theory, errors, source, slack=4 / d)
        spread = float(np.std(errors, ddof=1)) / math.sqrt(runs)
        other = curve_rows(Teacher(3), BayesOptimal(), [2.0])[0]["generalisation_error"]
        # A control that must fail: the noiseless theory is not what noisy labels give.
        far = abs(other - float(np.mean(errors))) > 4 * spread + 4 / d
        yield Check(f"no noise is told from {noise}", float(far), 1.0, "the same runs", 0.5)


def _short(noise: str) -> str:
    kind, number = noise.split(":")
    return f"{kind}:{float(number):.4g}"
