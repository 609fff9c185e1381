"""The classifiers on data nobody drew from a Gaussian, and on data somebody did."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score, learning_curve
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import polyceptron as pc
from polyceptron.data.stored_designs import open_design
from polyceptron.errors import InvalidInput
from polyceptron.fit.amp_classifier import AMPClassifier, Independent, left_out
from polyceptron.fit.erm_classifier import ERMClassifier
from polyceptron.problem import CrossEntropy, Teacher, as_channel

pytestmark = pytest.mark.slow

BOTH = [ERMClassifier(), AMPClassifier(noise="gaussian:0.2")]


def accuracy(model, X, y, folds):
    cv = StratifiedKFold(folds, shuffle=True, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return cross_val_score(model, X, y, cv=cv, error_score="raise").mean()


def half_of_the_digits(return_X_y):
    X, y = load_digits(return_X_y=return_X_y)
    return X[::2], y[::2]


@cache
def logistic_regression(load, folds):
    rival = make_pipeline(StandardScaler(), LogisticRegression(max_iter=5000))
    return accuracy(rival, *load(return_X_y=True), folds)


@pytest.mark.parametrize("load", [load_iris, load_wine, load_breast_cancer])
@pytest.mark.parametrize("model", [ERMClassifier(), AMPClassifier()], ids=["erm", "amp"])
def test_real_data_within_two_points_of_logistic_regression(load, model):
    X, y = load(return_X_y=True)
    assert accuracy(model, X, y, 5) >= logistic_regression(load, 5) - 0.02


@pytest.mark.parametrize("model", [ERMClassifier(), AMPClassifier()], ids=["erm", "amp"])
def test_digits_within_two_points_of_logistic_regression(model):
    X, y = half_of_the_digits(return_X_y=True)
    assert accuracy(model, X, y, 2) >= logistic_regression(half_of_the_digits, 2) - 0.02


@pytest.mark.parametrize("k", [2, 3, 4])
def test_message_passing_is_calibrated_on_its_own_model(k):
    gaps, rival_gaps = [], []
    for seed in range(3):
        X, y, W = Teacher(k).sample(400, 200, seed=seed)
        fresh = np.random.default_rng(100 + seed).standard_normal((4000, 200))
        truth = (fresh @ W).argmax(1)
        ours = AMPClassifier(noise="none", fit_intercept=False)
        p = ours.fit(X, y).predict_proba(fresh)
        confidence, hit = p.max(1), p.argmax(1) == truth
        order = np.argsort(confidence).reshape(4, -1)
        gaps.append(hit[order].mean(1) - confidence[order].mean(1))
        sharp = ERMClassifier(ridge=1e-3, fit_intercept=False).fit(X, y)
        rival_gaps.append(sharp.score(fresh, truth) - sharp.predict_proba(fresh).max(1).mean())
    # 3000 samples a bin: 0.009 from sampling, and each training set moves by about as much.
    assert np.abs(np.mean(gaps, 0)).max() < 0.04
    assert np.mean(rival_gaps) < -0.1  # the same test finds a classifier that is too sure


def test_message_passing_beats_erm_on_its_own_model():
    scores = []
    for seed in range(2):
        X, y, W = Teacher(3).sample(450, 150, seed=seed)
        models = (
            AMPClassifier(),
            ERMClassifier(ridge=1e-4),
            ERMClassifier("square", ridge=1.0),
        )
        errors = [
            pc.exact_generalisation_error(_weights(model.fit(X, y)), W).value for model in models
        ]
        scores.append(errors)
    amp, sharp, square = np.mean(scores, 0)
    assert amp < sharp
    assert amp < square


def _weights(model):
    return model.coef_.T


@pytest.mark.parametrize("model", BOTH, ids=["erm", "amp"])
def test_hard_shapes_of_data_give_finite_answers(model):
    rng = np.random.default_rng(0)
    wide, labels = rng.standard_normal((30, 200)), np.repeat([0, 1, 2], 10)
    twin = rng.standard_normal((60, 5))
    cases = {
        "wide": (wide + labels[:, None], labels),
        "duplicate columns": (np.hstack([twin, twin, twin]), (twin[:, 0] > 0).astype(int)),
        "constant column": (np.hstack([twin, np.full((60, 1), 7.0)]), (twin[:, 1] > 0).astype(int)),
        "one sample of a class": (twin, np.array([2] + [0, 1] * 29 + [0])),
        "huge and tiny units": (twin * np.array([1e150, 1e-150, 1, 1e8, 1]), np.arange(60) % 2),
        "one feature": (twin[:, :1], (twin[:, 0] > 1).astype(int)),
    }
    for name, (X, y) in cases.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            p = model.fit(X, y).predict_proba(X)
        assert np.isfinite(p).all(), name
        assert np.allclose(p.sum(1), 1), name
        assert np.isfinite(model.coef_).all(), name


@pytest.mark.parametrize("k", [2, 3, 5])
def test_full_and_shared_variances_agree_on_their_own_model(k):
    X, y, _ = Teacher(k).sample(300, 150, seed=4)
    shared, full = (
        AMPClassifier(variances=v, noise="none", fit_intercept=False).fit(X, y).predict_proba(X)
        for v in ("shared", "full")
    )
    assert np.abs(shared - full).mean() < 0.02


def test_a_constant_matrix_is_a_clear_sentence():
    with pytest.raises(ValueError, match="every feature is constant"):
        AMPClassifier(fit_intercept=False).fit(np.ones((4, 2)), [0, 1, 0, 1])


def test_no_convergence_is_a_warning_and_a_usable_classifier():
    X, y = load_iris(return_X_y=True)
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        model = AMPClassifier(noise="gaussian:0.2", max_iter=2).fit(X, y)
    assert np.isfinite(model.predict_proba(X)).all()
    assert not model.converged_


@pytest.mark.parametrize("model", BOTH, ids=["erm", "amp"])
def test_an_unbalanced_problem_gets_an_intercept(model):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((600, 40))
    y = (X[:, 0] + 0.5 * rng.standard_normal(600) > 1.5).astype(int)
    fresh = rng.standard_normal((4000, 40))
    truth = (fresh[:, 0] + 0.5 * rng.standard_normal(4000) > 1.5).astype(int)
    fitted = model.fit(X, y)
    assert fitted.score(fresh, truth) > max(truth.mean(), 1 - truth.mean()) + 0.01
    assert abs(fitted.predict_proba(fresh)[:, 1].mean() - truth.mean()) < 0.04
    assert fitted.intercept_[0] < 0


@pytest.mark.parametrize("model", BOTH, ids=["erm", "amp"])
def test_labels_of_any_type_and_linear_decisions(model):
    X, y = load_iris(return_X_y=True)
    named = model.fit(X, np.array(["setosa", "versicolor", "virginica"])[y])
    assert set(named.predict(X)) == {"setosa", "versicolor", "virginica"}
    fields = X @ named.coef_.T + named.intercept_
    assert (named.classes_[fields.argmax(1)] == named.predict(X)).mean() == 1
    assert named.coef_.shape == (3, 4)
    assert (named.predict_proba(X).argmax(1) == fields.argmax(1)).all()


@pytest.mark.parametrize("model", BOTH, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("k", [2, 3])
def test_single_precision_in_is_single_precision_out(model, k):
    X, y = load_iris(return_X_y=True)
    X, y = X[50 * (3 - k) :], y[50 * (3 - k) :]
    double = clone(model).fit(X, y)
    single = clone(model).fit(X.astype(np.float32), y)
    for name in ("coef_", "intercept_"):
        assert getattr(double, name).dtype == np.float64
        assert getattr(single, name).dtype == np.float32
    for name in ("decision_function", "predict_proba"):
        found = getattr(single, name)(X.astype(np.float32))
        assert found.dtype == np.float32
        assert getattr(single, name)(X).dtype == np.float64
        np.testing.assert_allclose(found, getattr(double, name)(X), rtol=1e-3, atol=1e-3)


def test_pipeline_grid_search_and_learning_curve():
    X, y = load_wine(return_X_y=True)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), ERMClassifier()),
        {"ermclassifier__ridge": [0.01, 1.0], "ermclassifier__loss": ["cross-entropy", "square"]},
        cv=3,
    ).fit(X, y)
    assert search.best_score_ > 0.9
    model = AMPClassifier(noise="gaussian:0.2")
    _, _, test = learning_curve(
        model, X, y, train_sizes=[40, 100], cv=3, shuffle=True, random_state=0
    )
    assert test.shape == (2, 3)
    assert test[1].mean() > 0.85


def test_losses_of_the_erm_classifier():
    X, y, _ = Teacher(3).sample(60, 30, seed=2)
    margin = ERMClassifier("max-margin", fit_intercept=False, scaling="none").fit(X, y)
    assert margin.score(X, y) == 1
    assert not hasattr(margin, "predict_proba")
    square = ERMClassifier("square", ridge=1.0, fit_intercept=False, scaling="none").fit(X, y)
    A = X / np.sqrt(30)
    exact = np.linalg.solve(A.T @ A + np.eye(30), A.T @ np.eye(3)[y]) / np.sqrt(30)
    assert np.allclose(square.coef_.T, exact)
    assert hasattr(ERMClassifier(), "predict_proba")


class Steep(CrossEntropy):
    """Five times the cross-entropy, with the softmax of cross-entropy as its probabilities."""

    name = "steep"

    def value(self, z, y):
        return 5 * CrossEntropy().value(z, y)

    def gradient(self, z, y):
        return 5 * CrossEntropy().gradient(z, y)

    def hessian(self, z, y):
        return 5 * CrossEntropy().hessian(z, y)

    def probabilities(self, z):
        return CrossEntropy().probabilities(z)


@pytest.mark.parametrize("load", [load_iris, load_breast_cancer])
def test_a_loss_of_ones_own_in_the_classifier(load):
    """Five times the loss is the loss at a fifth of the ridge."""
    X, y = load(return_X_y=True)
    own = ERMClassifier(Steep(), ridge=0.5, tol=1e-9, fit_intercept=False).fit(X, y)
    plain = ERMClassifier(ridge=0.1, tol=1e-9, fit_intercept=False).fit(X, y)
    assert np.allclose(own.coef_, plain.coef_, atol=1e-6)
    assert np.allclose(own.predict_proba(X), plain.predict_proba(X), atol=1e-6)
    assert clone(own).loss.name == "steep"


def test_no_warning_where_the_minimiser_is_zero():
    """Mirrored samples of either label, balanced: every weight and bias is 0."""
    rng = np.random.default_rng(0)
    half = rng.standard_normal((15, 4))
    X = np.vstack([half] * 3)
    y = np.repeat([0, 1, 2], 15)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for loss in ("cross-entropy", "square"):
            model = ERMClassifier(loss).fit(X, y)
            assert np.abs(model.coef_).max() < 1e-12
        assert np.allclose(ERMClassifier().fit(X, y).predict_proba(X), 1 / 3)


@pytest.mark.parametrize("noise", ["none", "gaussian:0.3", "flips:0.1"])
def test_every_noise_in_the_classifier(noise):
    """Log-loss on fresh labels: knowing the noise beats the noise of another size."""
    X, y, W = Teacher(3, noise=noise).sample(800, 100, seed=1)
    channel = as_channel(noise)
    fresh = np.random.default_rng(5).standard_normal((3000, 100))
    truth = channel.sample(fresh @ W / 10, np.random.default_rng(6))

    def log_loss(model):
        p = model.fit(X, y).predict_proba(fresh)
        return -np.log(np.maximum(p[np.arange(3000), truth], 1e-12)).mean()

    options = {"fit_intercept": False, "scaling": "none"}
    own = AMPClassifier(noise=channel, **options)
    assert log_loss(own) < log_loss(AMPClassifier(noise="gaussian:3", **options))
    assert own.noise_.name == noise
    assert np.allclose(own.predict_proba(fresh).sum(1), 1)


@pytest.mark.parametrize("noise", ["none", "gaussian:0.3", "flips:0.1"])
def test_cavity_fields_are_those_of_a_fit_without_the_sample(noise):
    X, y, _ = Teacher(3, noise=noise).sample(300, 120, seed=3)
    channel = as_channel(noise)
    model = AMPClassifier(tol=1e-8, max_iter=300)
    model.variances_, model.classes_ = "shared", np.arange(3)
    found = left_out(open_design(X), y, channel, model)
    fields = X @ found.mean / np.sqrt(120)
    off, naive = [], []
    for i in range(0, 300, 20):
        rest = np.delete(np.arange(300), i)
        without = pc.amp(X[rest], y[rest], noise=channel, n_classes=3).weights
        apart = X[i] @ without / np.sqrt(120)
        off.append(np.linalg.norm(found.cavity[i] - apart))
        naive.append(np.linalg.norm(fields[i] - apart))
    assert np.mean(off) < 0.25 * np.mean(naive)


def test_the_search_for_a_noise_goes_on_until_message_passing_converges():
    """On these features small noises do not converge, larger ones do."""
    X, y = load_breast_cancer(return_X_y=True)
    model = AMPClassifier(scaling="standard").fit(X[:, :10], y)
    assert model.converged_
    assert model.noise_.utility_variance > 0.05


def test_erm_classifier_is_logistic_regression_in_other_units():
    X, y = load_iris(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    ours = ERMClassifier(ridge=0.3, fit_intercept=False, tol=1e-9).fit(X, y)
    theirs = LogisticRegression(
        C=1 / (0.3 * X.shape[1]), fit_intercept=False, tol=1e-10, max_iter=10_000
    ).fit(X, y)
    assert np.allclose(ours.coef_, theirs.coef_, atol=1e-5)


def test_shrinking_leaves_independent_inputs_alone_and_tames_correlated_ones():
    rng = np.random.default_rng(3)
    A = rng.standard_normal((300, 100))
    assert np.allclose(Independent.of(A).apply(A), A)
    loud = A + 3 * rng.standard_normal((300, 1))
    for B in (loud, loud.T.copy()):
        squeezed = Independent.of(B).apply(B)
        edge = 1.05 * (np.sqrt(300) + np.sqrt(100))
        assert np.linalg.norm(squeezed, 2) <= edge * (1 + 1e-9)
        W = rng.standard_normal((B.shape[1], 2))
        assert np.allclose(squeezed @ W, B @ Independent.of(B).apply(W.T).T)


def test_bad_parameters_are_sentences():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(InvalidInput, match=r"unknown noise 0.1: .*, and 'auto'"):
        AMPClassifier(noise=0.1).fit(X, y)
    with pytest.raises(InvalidInput, match=r"unknown noise 'some'.*'auto'"):
        AMPClassifier(noise="some").fit(X, y)
    with pytest.raises(InvalidInput, match="unknown scaling 'unit'"):
        AMPClassifier(scaling="unit").fit(X, y)
    with pytest.raises(InvalidInput, match="unknown loss"):
        ERMClassifier("ramp").fit(X, y)
    with pytest.raises(InvalidInput, match="0 or more"):
        ERMClassifier(ridge=-1).fit(X, y)
    with pytest.raises(ValueError, match="one class only"):
        ERMClassifier().fit(X, np.zeros(150))


def test_message_passing_takes_the_scaling_of_the_better_leave_one_out_score():
    X, y = load_digits(return_X_y=True)
    X, y = X[:200, 16:48], y[:200]
    each = {kind: AMPClassifier(scaling=kind).fit(X, y) for kind in ("standard", "global", "auto")}
    losses = {kind: model.log_loss_[0] for kind, model in each.items()}
    best = min(("standard", "global"), key=losses.get)
    assert (each["auto"].scaling_, losses["auto"]) == (best, losses[best])
    assert AMPClassifier(noise="gaussian:0.1").fit(X, y).scaling_ == "standard"
