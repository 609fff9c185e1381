"""Fits with an elastic net: stationary, certified with L₁ alone, and as others fit them."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import polyceptron as pc
from polyceptron.data.stored_designs import open_design
from polyceptron.fit.solvers.support_certificate import least_eigenvalue
from polyceptron.fit.solvers.support_newton import ScaledElasticNet
from polyceptron.problem import Teacher
from polyceptron.problem.losses import CrossEntropy
from polyceptron.students.erm import ErmStudent


def data(k, n, d, seed=0):
    X, y, _ = Teacher(k).sample(n_samples=n, dimension=d, seed=seed)
    return X, y


def distance(fit, other):
    weights = np.linalg.norm(fit.weights - other.weights)
    return float(np.hypot(weights, np.linalg.norm(fit.intercepts - other.intercepts)))


def size(fit):
    return float(np.hypot(np.linalg.norm(fit.weights), np.linalg.norm(fit.intercepts)))


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(("k", "l1", "l2"), [(2, 0.5, 0.0), (2, 0.2, 0.3), (3, 0.4, 0), (10, 1, 0)])
def test_weights_are_stationary_and_certified(k, l1, l2, intercept):
    X, y = data(k, n=240, d=120)
    penalty = f"elastic-net:{l1}:{l2}"
    fit = pc.fit_erm(X, y, penalty=penalty, intercept=intercept, strict=True)
    fields = X @ fit.weights / np.sqrt(120) + fit.intercepts
    residual = CrossEntropy().gradient(fields, y)
    gradient = X.T @ residual / np.sqrt(120)
    norms = np.linalg.norm(fit.weights, axis=1)
    kept = norms > 0
    assert 0 < kept.sum() < 120
    unit = fit.weights[kept] / norms[kept][:, None]
    pull = gradient[kept] + l1 * unit + l2 * fit.weights[kept]
    # ∇f is Lipschitz with ½‖X/√d‖² ≤ ½(1 + √2)²: that is how far a certified point may be off.
    allowed = (3 + l2 + l1 / norms[kept].min()) * 1e-8 * size(fit)
    np.testing.assert_allclose(pull, 0, atol=allowed)
    assert (np.linalg.norm(gradient[~kept], axis=1) <= l1 + allowed).all()
    if intercept:
        np.testing.assert_allclose(residual.sum(0), 0, atol=240 * 1e-8 * size(fit))


@pytest.mark.parametrize("k", [2, 3, 10])
@pytest.mark.parametrize("intercept", [False, True])
def test_bounds_of_l1_fits_hold_at_loose_tolerances(k, intercept):
    X, y = data(k, n=200, d=100, seed=k)
    weights = np.linspace(1.0, 2.0, k)
    given = {"penalty": "elastic-net:0.6:0", "intercept": intercept, "class_weight": weights}
    best = pc.fit_erm(X, y, tol=1e-11, **given)
    for tol in (1e-2, 1e-4, 1e-6):
        fit = pc.fit_erm(X, y, tol=tol, strict=True, **given)
        off = distance(fit, best) - best.distance_bound
        assert off <= fit.distance_bound <= tol * size(fit)


def test_l1_weights_of_two_classes_are_those_of_scikit_learn():
    X, y = data(2, n=300, d=60)
    l1 = 0.5
    fit = pc.fit_erm(X, y, penalty=f"elastic-net:{l1}:0", strict=True)
    # Weights (w, −w) have rows of norm √2|w|, and give the margin 2w·x/√d.
    features = np.sqrt(2) * X / np.sqrt(60)
    rival = LogisticRegression(
        l1_ratio=1, C=1 / l1, fit_intercept=False, solver="saga", tol=1e-12, max_iter=20_000
    )
    rival.fit(features, y)
    ours = (fit.weights[:, 1] - fit.weights[:, 0]) / np.sqrt(2)
    np.testing.assert_allclose(ours, rival.coef_[0], atol=1e-6)


def test_a_feature_given_twice_leaves_l1_weights_uncertified():
    X, y = data(2, n=200, d=30)
    fit = pc.fit_erm(np.hstack([X, X]), y, penalty="elastic-net:0.5:0")
    assert fit.weights.any()
    assert str(fit.status) == "tolerance-not-met"
    assert fit.distance_bound == np.inf


def test_no_weights_beyond_the_largest_gradient():
    X, y = data(3, n=100, d=40)
    fit = pc.fit_erm(X, y, penalty="elastic-net:50:0")
    assert not fit.weights.any()
    assert str(fit.status) == "ok"
    assert fit.distance_bound == 0


def test_units_of_the_data_change_nothing():
    X, y = data(3, n=150, d=60)
    fit = pc.fit_erm(X, y, penalty="elastic-net:0.5:0", strict=True)
    unit = 2.0**-60
    small = pc.fit_erm(unit * X, y, penalty=f"elastic-net:{0.5 * unit}:0", strict=True)
    np.testing.assert_allclose(small.weights * unit, fit.weights, atol=2e-8 * size(fit))


@pytest.mark.parametrize("rows", [1, 3])
def test_gradient_and_curvature_of_the_penalty_are_its_derivatives(rows):
    generator = np.random.default_rng(1)
    penalised = np.array([True, True, True, True, False])
    net = ScaledElasticNet(0.7, 0.3, penalised)
    U = generator.standard_normal((rows, 5))
    D = generator.standard_normal((rows, 5))
    h = 1e-5
    slope = (net.value(U + h * D) - net.value(U - h * D)) / (2 * h)
    assert (net.gradient(U) * D).sum() == pytest.approx(slope, rel=1e-7)
    bent = (net.gradient(U + h * D) - net.gradient(U - h * D)) / (2 * h)
    np.testing.assert_allclose(net.curvature(U, D), bent, atol=1e-7)


@pytest.mark.parametrize("n", [80, 400])
def test_least_eigenvalue_is_a_lower_bound_and_not_far_below(n):
    generator = np.random.default_rng(2)
    X = generator.standard_normal((n, 60))
    factors = generator.uniform(0.01, 1.0, n)
    rows = np.arange(60) % 3 > 0
    A = X[:, rows] * np.sqrt(factors / 60)[:, None]
    exact = float(np.linalg.eigvalsh(A.T @ A)[0])
    bound = least_eigenvalue(open_design(X), rows, factors)
    assert 0.2 * exact <= bound <= exact


def test_newton_steps_end_an_l1_fit_in_few_reads_of_the_data():
    X, y = data(2, n=300, d=300)
    fit = pc.fit_erm(X, y, penalty="elastic-net:0.2:0", strict=True)
    assert fit.matrix_passes < 200  # proximal steps alone take over 500


def test_simulated_rows_of_unequal_classes_are_those_of_their_penalty():
    population = pc.Mixture((0.7, 0.3), separation=1.0)
    estimator = pc.ERM("cross-entropy", penalty="elastic-net:0.1:0.5")
    row = pc.simulate(population, estimator, 2.0, 50, seed=3)
    X, y, _ = population.sample(100, 50, 3)
    fit = pc.fit_erm(X, y, "cross-entropy", penalty="elastic-net:0.1:0.5")
    assert row["penalty"] == "elastic-net:0.1:0.5"
    assert row["training_loss"] == pytest.approx(fit.training_loss, rel=1e-12)


def test_specifications_on_the_same_data_have_the_same_loss():
    student = ErmStudent(pc.ERM("square", 0.1))
    with pytest.raises(pc.InvalidInput, match="the same loss"):
        student.simulate(pc.Teacher(2), 2.0, 30, 0, also=[pc.ERM("cross-entropy", 0.1)])
