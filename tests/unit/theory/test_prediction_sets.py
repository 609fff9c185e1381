"""Prediction sets: quadrature in one and two gaps, identities, limits, simulations at finite d."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import expit, softmax

import polyceptron as pc
from polyceptron.errors import InvalidInput
from polyceptron.questions.best_split import best_split
from polyceptron.questions.prediction_sets import prediction_sets
from polyceptron.students import student_of

SLOPE = 2.0
NOISY = f"softmax:{SLOPE}"


def sets_of_two_classes(teacher, student, alpha, coverage):
    """Return threshold and mean size for two classes and softmax labels by quadrature in the gap.

    The gap g = ω_1 − ω_2 of the student is N(0, 2q); that of the teacher given g has mean (m/q)g
    and variance 2(1 − ρ²); the label follows the logistic function of it.
    """
    order = student_of(student).order_parameters(teacher, alpha).order
    slope = SLOPE
    spread = math.sqrt(2 * order.q)
    residual = math.sqrt(2 * order.residual)

    def density(g):
        return math.exp(-0.5 * (g / spread) ** 2) / (spread * math.sqrt(2 * math.pi))

    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()

    def truth(g):
        return float(weights @ expit(slope * (order.slope * g + residual * nodes)))

    def own(g):
        return expit(g)

    if student == "bayes":
        own = truth

    def averages(threshold):
        """Coverage and size: label 1 is in the set where own(g) ≥ threshold, that is g ≥ edge."""
        edge = brentq(lambda g: own(g) - threshold, -12 * spread, 12 * spread)
        inside = quad(lambda g: density(g) * truth(g), edge, 14 * spread, epsabs=1e-12, limit=400)
        size = quad(density, edge, 14 * spread, epsabs=1e-12, limit=400)
        return 2 * inside[0], 2 * size[0]

    low, high = own(-11 * spread), own(11 * spread)
    threshold = brentq(lambda t: averages(t)[0] - coverage, low + 1e-12, high - 1e-12, xtol=1e-13)
    return threshold, averages(threshold)[1]


@pytest.mark.parametrize("student", ["bayes", "cross-entropy"])
@pytest.mark.parametrize(("alpha", "coverage"), [(0.5, 0.8), (3.0, 0.9), (20.0, 0.6)])
def test_two_classes_by_quadrature(student, alpha, coverage):
    teacher = pc.Teacher(2, noise=NOISY)
    threshold, size = sets_of_two_classes(teacher, student, alpha, coverage)
    for tol in (1e-3, 1e-4):
        sets = prediction_sets(teacher, student, alpha, coverage, tol=tol)
        assert abs(sets.mean_size - size) <= sets.mean_size_uncertainty
        assert abs(sets.threshold - threshold) <= sets.threshold_uncertainty
        assert sets.mean_size_uncertainty <= 2 * tol * size
    assert sets.size_shares.sum() == pytest.approx(1)
    assert sets.size_shares @ np.arange(3) == pytest.approx(sets.mean_size)


@pytest.mark.parametrize(("k", "noise"), [(2, NOISY), (3, "none"), (10, "gaussian:0.5")])
def test_optimal_size_grows_with_coverage_as_the_threshold_says(k, noise):
    """For true probabilities dE|C|/d coverage = 1/threshold: a class more costs 1 and brings p."""
    teacher = pc.Teacher(k, noise=noise)
    low, middle, high = (
        prediction_sets(teacher, "bayes", 3.0, coverage, tol=3e-4) for coverage in (0.89, 0.9, 0.91)
    )
    rate = (high.mean_size - low.mean_size) / 0.02
    # The replicates share their points, so that the difference is better known than each size.
    assert rate == pytest.approx(1 / middle.threshold, rel=0.02)


@pytest.mark.parametrize("score", ["probability", "adaptive"])
def test_bayes_optimal_sets_are_the_smallest(score):
    teacher = pc.Teacher(3, noise=NOISY)
    floor = prediction_sets(teacher, "bayes", 4.0)
    for student in ("bayes", "cross-entropy", "square", "max-margin", "class-means"):
        alpha = 4.0
        if student == "max-margin":  # separable data only
            alpha = 0.5
            floor = prediction_sets(teacher, "bayes", alpha)
        else:
            floor = prediction_sets(teacher, "bayes", alpha)
        sets = prediction_sets(teacher, student, alpha, score=score)
        bar = sets.mean_size_uncertainty + floor.mean_size_uncertainty
        assert sets.mean_size >= floor.mean_size - bar
        assert sets.class_coverage == pytest.approx(0.9, abs=1e-3)


@pytest.mark.parametrize("score", ["probability", "adaptive"])
@pytest.mark.parametrize("student", ["bayes", "cross-entropy", "square", "max-margin"])
def test_few_samples_name_classes_at_random(student, score):
    sets = prediction_sets(pc.Teacher(3), student, 0.0, 0.8, score=score)
    assert sets.mean_size == pytest.approx(3 * 0.8, abs=2 * sets.mean_size_uncertainty + 1e-4)
    near = prediction_sets(pc.Teacher(3), student, 1e-8, 0.8, score=score)
    assert near.mean_size == pytest.approx(sets.mean_size, abs=2e-3)


@pytest.mark.parametrize("student", ["bayes", "cross-entropy", "max-margin"])
@pytest.mark.parametrize("alpha", [1e3, 1e6])
def test_plentiful_data_leave_sets_of_one_class_or_none(student, alpha):
    """Without mistakes a set of one class covers; 1 − coverage of the sets are empty."""
    sets = prediction_sets(pc.Teacher(3), student, alpha)
    assert sets.mean_size == pytest.approx(0.9, abs=3e-3)
    assert sets.empty_share == pytest.approx(0.1, abs=3e-3)
    assert sets.single_share == pytest.approx(0.9, abs=3e-3)


def fitted_sets(probabilities, y, threshold):
    """Return coverage and mean size of sets of at least the threshold."""
    inside = probabilities >= threshold
    return inside[np.arange(y.size), y].mean(), inside.sum(axis=1).mean()


@pytest.mark.slow
@pytest.mark.parametrize(("k", "alpha", "d"), [(2, 3.0, 600), (3, 3.0, 600), (10, 4.0, 400)])
def test_sizes_of_fits_in_finite_dimension(k, alpha, d):
    """Fits at finite d have the size of the theory, up to their scatter and a bias of order 1/d."""
    teacher = pc.Teacher(k, noise=NOISY)
    theory = prediction_sets(teacher, pc.ERM("cross-entropy", 0.1), alpha, tol=3e-4)
    sizes = []
    coverages = []
    n = round(alpha * d)
    n_fresh = 20_000
    for seed in range(6):
        X, y, _ = teacher.sample(n + n_fresh, d, seed=seed)
        fit = pc.fit_erm(X[:n], y[:n], "cross-entropy", 0.1, n_classes=k)
        p = softmax(X[n:] @ fit.weights / math.sqrt(d), axis=1)
        coverage, _ = fitted_sets(p, y[n:], theory.threshold)
        coverages.append(coverage)
        own_threshold = np.quantile(p[np.arange(n_fresh), y[n:]], 0.1)
        sizes.append(fitted_sets(p, y[n:], own_threshold)[1])
    for values, expected in ((coverages, 0.9), (sizes, theory.mean_size)):
        standard_error = np.std(values, ddof=1) / math.sqrt(len(values))
        assert abs(np.mean(values) - expected) < 4.0 * standard_error + 3 / d * expected


@pytest.mark.slow
def test_bayes_sizes_of_message_passing():
    teacher = pc.Teacher(3, noise=NOISY)
    theory = prediction_sets(teacher, "bayes", 3.0, tol=3e-4)
    d = 600
    n = 1800
    sizes = []
    for seed in range(4):
        X, y, _ = teacher.sample(n + 20_000, d, seed=seed)
        posterior = pc.amp(X[:n], y[:n], teacher.prior, noise=teacher.noise, n_classes=3)
        fields = X[n:] @ posterior.weights / math.sqrt(d)
        variance = np.asarray(posterior.variance)
        if variance.ndim == 3:
            variance = np.trace(variance, axis1=1, axis2=2) / 2
        p = teacher.channel.chances(fields, float(variance.mean()))
        threshold = np.quantile(p[np.arange(y.size - n), y[n:]], 0.1)
        sizes.append(fitted_sets(p, y[n:], threshold)[1])
    standard_error = np.std(sizes, ddof=1) / 2
    assert abs(np.mean(sizes) - theory.mean_size) < 5 * standard_error + 3 / d * theory.mean_size


@pytest.mark.slow
def test_calibration_sets_spread_as_the_beta_law_says():
    """Many calibration sets for one fit: mean and spread of coverage and size."""
    teacher = pc.Teacher(3, noise=NOISY)
    d = 600
    n = 1800
    n_calibration = 50
    X, y, _ = teacher.sample(n + 60_000, d, seed=3)
    fit = pc.fit_erm(X[:n], y[:n], "cross-entropy", 0.1, n_classes=3)
    p = softmax(X[n:] @ fit.weights / math.sqrt(d), axis=1)
    of_label = p[np.arange(60_000), y[n:]]
    rng = np.random.default_rng(0)
    coverages = []
    sizes = []
    for _ in range(400):
        chosen = rng.choice(60_000, n_calibration, replace=False)
        rank = math.ceil((n_calibration + 1) * 0.9)
        threshold = np.sort(of_label[chosen])[::-1][rank - 1]
        coverages.append((of_label >= threshold).mean())
        sizes.append((p >= threshold).sum(axis=1).mean())
    coverages = np.array(coverages)
    theory = prediction_sets(teacher, pc.ERM("cross-entropy", 0.1), 3.0)
    expected = theory.calibrated_on(n_calibration)
    for values, mean, spread in (
        (coverages, expected.mean_coverage, expected.coverage_spread),
        (sizes, expected.mean_size, expected.size_spread),
    ):
        assert np.mean(values) == pytest.approx(mean, abs=4 * spread / 20 + 5 / d)
        assert np.std(values) == pytest.approx(spread, rel=4 / math.sqrt(800) + 0.02)
    inside = np.mean((coverages >= expected.coverage_low) & (coverages <= expected.coverage_high))
    assert inside == pytest.approx(0.9, abs=0.06)


@pytest.mark.slow
@pytest.mark.parametrize(
    "population",
    [pc.Mixture((0.7, 0.2, 0.1), separation=2.0), pc.Teacher(3, shares=(0.6, 0.3, 0.1))],
)
def test_coverage_of_each_class_in_finite_dimension(population):
    estimator = pc.ERM("cross-entropy", 0.1, intercept=True)
    theory = prediction_sets(population, estimator, 4.0)
    d = 500
    n = 2000
    found = []
    for seed in range(6):
        X, y, _ = population.sample(n + 30_000, d, seed=seed)
        fit = pc.fit_erm(X[:n], y[:n], "cross-entropy", 0.1, intercept=True, n_classes=3)
        p = softmax(X[n:] @ fit.weights / math.sqrt(d) + fit.intercepts, axis=1)
        inside = p >= theory.threshold
        covered = inside[np.arange(30_000), y[n:]]
        found.append([covered[y[n:] == c].mean() for c in range(3)] + [inside.sum(1).mean()])
    mean = np.mean(found, axis=0)
    standard_error = np.std(found, axis=0, ddof=1) / math.sqrt(6)
    expected = np.append(theory.class_coverage, theory.mean_size)
    bars = np.append(theory.class_coverage_uncertainty, theory.mean_size_uncertainty)
    assert (np.abs(mean - expected) < 4.5 * standard_error + bars + 4 / d).all()


def test_too_few_calibration_samples_leave_all_classes():
    sets = prediction_sets(pc.Teacher(3), "cross-entropy", 2.0)
    few = sets.calibrated_on(8)
    assert (few.mean_coverage, few.mean_size, few.size_spread) == (1.0, 3.0, 0.0)
    enough = sets.calibrated_on(9)
    assert enough.mean_coverage == pytest.approx(0.9)
    assert enough.mean_size > sets.mean_size


@pytest.mark.slow
def test_best_split_is_the_best_of_many():
    teacher = pc.Teacher(3, noise=NOISY)
    n, d = 1500, 500
    split = best_split(teacher, "cross-entropy", n, d)
    assert split.n_training + split.n_calibration == n
    assert split.mean_coverage == pytest.approx(0.9)
    assert split.size_without_calibration < split.mean_size
    others = [
        prediction_sets(teacher, "cross-entropy", (n - m) / d).calibrated_on(m).mean_size
        for m in (9, 19, 39, 79, 159, 319, 639)
    ]
    assert split.mean_size <= min(others) + 2e-3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"coverage": 1.0}, "coverage must be a number between 0 and 1, got 1.0"),
        ({"coverage": "most"}, "coverage must be a number between 0 and 1, got 'most'"),
        ({"score": "margin"}, "unknown score 'margin'"),
        ({"tol": 0}, "tolerance must be a number between 0 and 1"),
        ({"alpha": -1}, "alpha must be 0, or from"),
        ({"student": "max-margin", "alpha": 50.0}, "needs classes that can be separated"),
    ],
)
def test_bad_input_is_one_sentence(arguments, words):
    given = {"population": pc.Teacher(3, noise=NOISY), "student": "bayes", "alpha": 1.0}
    with pytest.raises(InvalidInput, match=words):
        prediction_sets(**{**given, **arguments})


def test_bad_splits():
    with pytest.raises(InvalidInput, match="n_samples must be above 9"):
        best_split(pc.Teacher(3), "bayes", 9, 10)
    with pytest.raises(InvalidInput, match="n_calibration must be a whole number"):
        prediction_sets(pc.Teacher(3), "bayes", 1.0).calibrated_on(0)
    with pytest.raises(InvalidInput, match="alpha must be above 0 where the classes"):
        prediction_sets(pc.Mixture((0.7, 0.3), separation=1.0), "cross-entropy", 0.0)
