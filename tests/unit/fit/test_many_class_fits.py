"""Fits of many classes: the certificate, single precision, paths and memory."""

import tracemalloc

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.model_selection import StratifiedKFold

from polyceptron.data.checks import Samples
from polyceptron.data.stored_designs import ArrayDesign
from polyceptron.fit.erm import fit_erm, fit_erm_path
from polyceptron.fit.erm_classifier import ERMClassifier
from polyceptron.fit.solvers import inverse_hessian, many_class_problem, many_classes
from polyceptron.problem import Teacher

K = 30


@pytest.fixture(scope="module")
def data():
    """Classes of unequal means in features of unequal variance, away from the origin."""
    rng = np.random.default_rng(0)
    n, d = 900, 40
    scale = np.arange(1, d + 1) ** -0.5
    y = rng.permutation(np.arange(n) % K)
    return (rng.standard_normal((K, d))[y] + rng.standard_normal((n, d))) * scale + 0.5, y


def slopes(X, y, fit, ridge, weights):
    """The gradient in W and b, by its definition."""
    A = X.astype(float) / np.sqrt(X.shape[1])
    g = (softmax(A @ fit.weights + fit.intercepts, axis=1) - np.eye(K)[y]) * weights[:, None]
    return A.T @ g + ridge * fit.weights, g.sum(0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("intercept", [False, True])
def test_the_gradient_vanishes_and_the_certificate_says_so(data, dtype, intercept):
    X, y = data[0].astype(dtype), data[1]
    weights = np.random.default_rng(1).uniform(0.2, 2, y.size)
    options = {"intercept": intercept, "sample_weight": weights}
    fit = fit_erm(X, y, "cross-entropy", 0.05, tol=1e-8, **options)
    assert fit.status == "ok"
    in_weights, in_intercepts = slopes(X, y, fit, 0.05, weights)
    assert np.linalg.norm(in_weights) <= 0.05 * fit.distance_bound + 1e-12
    assert np.abs(fit.weights.sum(1)).max() < 1e-12
    if intercept:
        assert np.abs(in_intercepts).max() < 1e-6
        assert abs(fit.intercepts.sum()) < 1e-10
    z = X.astype(float) @ fit.weights / np.sqrt(X.shape[1]) + fit.intercepts
    assert fit.training_error == pytest.approx(np.average(z.argmax(1) != y, weights=weights))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_loose_tolerance_is_certified_in_single_precision(dtype, monkeypatch):
    """The gradient in double precision is within what rounding is said to hide."""
    rng, n, k, ridge = np.random.default_rng(3), 11_000, 100, 30.0
    y = np.arange(n) % k
    X = (rng.standard_normal((k, 8))[y] + rng.standard_normal((n, 8)) + 3).astype(dtype)
    look, seen = many_class_problem.ManyClassProblem.look, []

    def counted(self, U, penalties, dtype):
        seen.append(dtype)
        return look(self, U, penalties, dtype)

    monkeypatch.setattr(many_class_problem.ManyClassProblem, "look", counted)
    fit = fit_erm(X, y, "cross-entropy", ridge, tol=0.1)
    assert fit.status == "ok"
    assert set(seen) == {np.float32}
    A = X.astype(float) / np.sqrt(8)
    z = A @ fit.weights
    exact = np.linalg.norm(A.T @ (softmax(z, axis=1) - np.eye(k)[y]) + ridge * fit.weights)
    hidden = ridge * fit.distance_bound - fit.gradient_norm
    assert 0 < abs(exact - fit.gradient_norm) < hidden < exact
    assert fit.training_error == np.mean(z.argmax(1) != y)


def test_it_is_the_minimiser_of_the_other_way_within_both_bounds(data, monkeypatch):
    ridges = [1e-3, 0.1, 3.0]
    fits = fit_erm_path(*data, "cross-entropy", ridges, tol=1e-6)
    monkeypatch.setattr(many_classes, "FEWEST_CLASSES", K + 1)
    for fit, ridge in zip(fits, ridges, strict=True):
        other = fit_erm(*data, "cross-entropy", ridge, tol=1e-6)
        assert fit.status == other.status == "ok"
        apart = np.linalg.norm(fit.weights - other.weights)
        assert apart <= fit.distance_bound + other.distance_bound
        assert fit.training_loss == pytest.approx(other.training_loss, rel=1e-5)
        assert fit.distance_bound > 1e-9 * np.linalg.norm(fit.weights)  # no more than asked for


def test_rare_classes_have_certified_intercepts():
    """Σ‖H‖‖x‖² in place of ‖X‖² hid ten times what rounding does."""
    X, y, _ = Teacher(60, noise="gaussian:0.5").sample(600, 20, seed=0)
    fit = fit_erm(X, np.unique(y, return_inverse=True)[1], ridge=1e-3, intercept=True)
    assert fit.status == "ok"
    assert fit.distance_bound < 1e-8 * np.linalg.norm(fit.weights)


@pytest.mark.filterwarnings("ignore:the best ridge")
def test_loose_fits_of_folds_score_as_refits(data):
    """Scaling and fit see the training rows only; ridges are told apart as by tight fits."""
    X, y = data
    splits = list(StratifiedKFold(3, shuffle=True, random_state=0).split(X, y))[:2]
    found = ERMClassifier(ridges=[1.0, 0.03], cv=splits, scaling="standard", tol=1e-2).fit(X, y)
    for i, ridge in enumerate(found.path_["ridge"]):
        given = ERMClassifier(ridge=ridge, tol=1e-3)
        p = [given.fit(X[a], y[a]).predict_proba(X[b])[range(b.size), y[b]] for a, b in splits]
        off = found.path_["score"][i] + np.log(np.concatenate(p)).mean()
        assert abs(off) < 0.2 * found.path_["standard_error"][i]


def test_features_of_no_use_have_the_weights_0():
    X, y = np.zeros((60, 3)), np.arange(60) % K
    assert fit_erm(X, y, "cross-entropy", 0.1).status == "ok"
    assert not fit_erm(X, y, "cross-entropy", 0.1).weights.any()


@pytest.mark.parametrize(("n", "d", "k"), [(30_000, 8, 200), (4000, 300, 30)])
def test_one_array_of_the_size_of_the_fields_is_held(n, d, k):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((n, d)), np.arange(n) % k
    tracemalloc.start()
    fit = fit_erm(X, y, "cross-entropy", 10.0, tol=1e-2)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert fit.status == "ok"
    single = (n * k + n * d) * 4
    assert most < 2.5 * single  # one in single precision, rows for the inverse, and blocks


def test_what_the_last_steps_showed_is_known_of_the_inverse_hessian():
    """The secant condition, symmetry, and that no direction is taken to a rise."""
    rng = np.random.default_rng(2)
    k, d = 3, 5
    vectors, B = np.linalg.qr(rng.standard_normal((d, d)))[0], rng.standard_normal((k * d, k * d))
    inverse = inverse_hessian.InverseHessian(vectors, rng.uniform(0.5, 2, (k, d)), [])
    for _ in range(inverse_hessian.STEPS_REMEMBERED + 3):
        s = rng.standard_normal((1, k, d))
        t = ((B @ B.T + np.eye(k * d)) @ s.ravel()).reshape(s.shape)
        inverse.learn(s, t)
        np.testing.assert_allclose(inverse(t), s, atol=1e-4)
    assert len(inverse.secants) == inverse_hessian.STEPS_REMEMBERED
    u, v = rng.standard_normal((2, 1, k, d))
    assert np.vdot(u, inverse(v)) == pytest.approx(np.vdot(v, inverse(u)), rel=1e-4)
    assert np.vdot(u, inverse(u)) > 0
    inverse.learn(s, -t)  # of a concave function: not learnt
    np.testing.assert_allclose(inverse(t), s, atol=1e-4)


def test_no_bound_outlives_the_weights_it_was_found_for(data):
    """The softmax stays known after a step, and its errors; after an interruption nothing does."""
    X, y = data
    problem = many_class_problem.ManyClassProblem(Samples(ArrayDesign(X), y, K))
    descent = many_classes._Descent(problem, 0.1, 1e-6, None, {})
    assert descent.fit("cross-entropy").status == "ok"
    assert 0 < descent.bound < np.inf
    descent.step()
    fit = descent.finalize("cross-entropy")
    assert fit.distance_bound == np.inf
    z = X @ fit.weights
    assert fit.training_error == np.mean(z.argmax(1) != y)
    descent.interrupt()
    assert np.isnan(descent.finalize("cross-entropy").training_error)


def test_a_checkpoint_keeps_the_ridges_that_are_finished(data, tmp_path, monkeypatch):
    """The process ends during the second of two ridges."""
    path = tmp_path / "kept.npz"
    options = {"tol": 1e-6, "checkpoint": path, "checkpoint_every": 0.0}
    step = many_classes._Descent.step

    def ends_at_the_second(self):
        step(self)
        if self.ridge < 1:
            raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(many_classes._Descent, "step", ends_at_the_second)
        with pytest.raises(SystemExit):
            fit_erm_path(*data, "cross-entropy", [3.0, 0.1], **options)
    first, second = fit_erm_path(*data, "cross-entropy", [3.0, 0.1], **options)
    assert first.status == second.status == "ok"
    assert first.n_iter <= 1
