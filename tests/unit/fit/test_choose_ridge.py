"""The ridge from the data: held-out fields against true refits, weights against repetition."""

from __future__ import annotations

import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler

from polyceptron.data.checks import check_samples
from polyceptron.errors import InvalidInput
from polyceptron.fit import fold_fits, leave_one_out, ridge_search
from polyceptron.fit.erm import fit_erm
from polyceptron.fit.erm_classifier import ERMClassifier
from polyceptron.fit.held_out_problem import HeldOutProblem, even_splits
from polyceptron.fit.ridge_search import choose_ridge
from polyceptron.problem import CrossEntropy, Teacher
from polyceptron.problem.losses import as_loss

GRID = np.geomspace(1e-3, 10, 7)
at_an_end = pytest.mark.filterwarnings("ignore:the best ridge is the")


@pytest.fixture
def tight(monkeypatch):
    """The path's fits to many digits, so that what is left is the method's own error."""
    monkeypatch.setattr(fold_fits, "ENDS_OF_FOLD_FITS", (1e-14, 1e-6))
    monkeypatch.setattr(leave_one_out, "ENDS_OF_WHOLE_FITS", (1e-14, 1e-6))
    monkeypatch.setattr(ridge_search, "ERRORS_ABOVE_BEST_TO_STOP", (np.inf, np.inf))
    monkeypatch.setattr(leave_one_out, "LARGEST_MOVE_OF_ONE_STEP", np.inf)


def search_of(X, y, loss, score):
    """Features as they are, without an intercept."""
    ones = np.ones(y.size)
    return HeldOutProblem(check_samples(X, y, 3), loss, score, ones, ones, "none", intercept=False)


def left_out_errors(loss, shape, ridge, monkeypatch):
    """‖z̃ − z of a refit without the sample‖ over that of the fields z of the fit itself.

    And the same with one number for each sample in place of its leverage.
    """
    X, y, _ = Teacher(3, noise="gaussian:0.3").sample(*shape, seed=3)
    kind, exact, seen = as_loss(loss), leave_one_out.leverages, []
    truth = np.empty((y.size, 3))
    whole = fit_erm(X, y, loss, ridge).weights
    for i in range(y.size):
        rest = np.arange(y.size) != i
        fit = fit_erm(X[rest], y[rest], loss, ridge, n_classes=3, start=whole)
        truth[i] = X[i] @ fit.weights / np.sqrt(shape[1])

    def score(z, y):
        seen.append(z)
        return kind.value(z, y)

    def scalar(rows, K):
        A = exact(rows, K)
        return np.einsum("nii->n", A)[:, None, None] / A.shape[1] * np.eye(A.shape[1])

    for way in (exact, scalar):
        monkeypatch.setattr(leave_one_out, "leverages", way)
        choose_ridge(search_of(X, y, kind, score), [ridge], None)
    monkeypatch.setattr(leave_one_out, "leverages", exact)
    full = np.linalg.norm(X @ whole / np.sqrt(shape[1]) - truth)
    return [np.linalg.norm(z - truth) / full for z in seen[::2]]  # then those of a mistaken label


@pytest.mark.parametrize("ridge", [0.1, 1.0])
@pytest.mark.parametrize("shape", [(60, 12), (24, 40)], ids=["tall", "wide"])
def test_leave_one_out_is_that_of_refits(tight, monkeypatch, shape, ridge):
    """Exact for the square loss, whose Hessian is constant, a Newton step off for cross-entropy."""
    assert left_out_errors("square", shape, ridge, monkeypatch)[0] < 1e-6
    found, scalar = left_out_errors("cross-entropy", shape, ridge, monkeypatch)
    assert found < 0.1
    assert found < 0.5 * scalar


def test_leave_one_out_knows_that_a_column_of_few_ones_is_scaled_otherwise_without_one():
    """A fifth of a column's variance is gone with each sample that has it."""
    rng, n = np.random.default_rng(0), 40
    kind = np.arange(n) % 8
    X = np.hstack([kind[:, None] == np.arange(8), rng.standard_normal((n, 1))])
    y = np.where(rng.random(n) < 0.3, rng.integers(0, 3, n), kind % 3)
    found = ERMClassifier(ridges=[10.0], scaling="standard").fit(X, y)
    model, losses = ERMClassifier(ridge=10.0, scaling="standard"), []
    for i in range(n):
        model.fit(np.delete(X, i, 0), np.delete(y, i))
        losses.append(-model.predict_log_proba(X[[i]])[0, y[i]])
    assert found.path_["score"][0] == pytest.approx(np.mean(losses), abs=2e-3)


def test_cross_validation_is_that_of_refits(tight):
    X, y, _ = Teacher(3, noise="gaussian:0.3").sample(80, 20, seed=4)
    folds = [np.arange(80) % 4 == i for i in range(4)]
    splits = [(np.flatnonzero(~fold), np.flatnonzero(fold)) for fold in folds]
    path = choose_ridge(search_of(X, y, CrossEntropy(), CrossEntropy().value), GRID, splits)
    for one in path.tried:
        losses = []
        for fold in folds:
            W = fit_erm(X[~fold], y[~fold], "cross-entropy", one.ridge).weights
            losses.append(CrossEntropy().value(X[fold] @ W / np.sqrt(20), y[fold]))
        assert one.mean == pytest.approx(np.concatenate(losses).mean(), rel=1e-6)
    assert path.best == min(path.tried, key=lambda one: one.mean).ridge


@at_an_end
def test_loose_fits_order_the_ridges_as_tight_ones():
    X, y = load_digits(return_X_y=True)
    X, y = X[:600], y[:600]
    cv = StratifiedKFold(3, shuffle=True, random_state=0)
    ours = ERMClassifier(ridges=GRID, cv=cv, scaling="standard").fit(X, y)
    for ridge, score in list(zip(ours.path_["ridge"], ours.path_["score"], strict=True))[1:]:
        folds = []
        for train, test in cv.split(X, y):
            fit = ERMClassifier(ridge=ridge, scaling="standard").fit(X[train], y[train])
            folds.append(-np.log(fit.predict_proba(X[test])[np.arange(test.size), y[test]]))
        assert score == pytest.approx(np.concatenate(folds).mean(), rel=0.03)


@pytest.mark.parametrize("load", [load_iris, load_wine])
def test_the_choice_is_that_of_scikit_learn(load):
    """Same grid, same folds: the same ridge, or one of the same score to within its error."""
    X, y = load(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    cv = StratifiedKFold(5, shuffle=True, random_state=1)
    ours = ERMClassifier(ridges=GRID, cv=cv, scaling="none").fit(X, y)
    theirs = LogisticRegressionCV(
        Cs=np.sort(1 / (GRID * X.shape[1])),
        cv=cv,
        scoring="neg_log_loss",
        tol=1e-8,
        solver="newton-cholesky",
        use_legacy_attributes=False,
        l1_ratios=(0,),
    ).fit(X, y)
    scores = dict(zip(np.sort(GRID)[::-1], -theirs.scores_.mean(0).ravel(), strict=True))
    best = int(ours.path_["score"].argmin())
    reached = scores[min(scores, key=lambda r: abs(r - ours.ridge_))]
    assert reached <= min(scores.values()) + 0.5 * ours.path_["standard_error"][best]
    assert ours.method_ == "cross-validation"


@at_an_end
@pytest.mark.parametrize("scoring", ["neg_log_loss", "accuracy"])
@pytest.mark.parametrize("loss", ["cross-entropy", "square"])
def test_weights_of_samples_are_repetitions(loss, scoring):
    X, y, _ = Teacher(3, noise="flips:0.1").sample(50, 8, seed=6)
    copies = np.random.default_rng(0).integers(0, 4, 50)
    options = {"ridges": GRID[1:], "cv": "leave-one-out", "scoring": scoring, "tol": 1e-10}
    options["scaling"] = "standard"
    weighted = ERMClassifier(loss, **options).fit(X, y, sample_weight=copies)
    repeated = ERMClassifier(loss, **options).fit(np.repeat(X, copies, 0), np.repeat(y, copies))
    assert weighted.ridge_ == repeated.ridge_
    scores = [found.path_["score"] for found in (weighted, repeated)]
    both = min(map(len, scores))  # copies seem more certain, and end the path earlier
    assert both >= 5
    np.testing.assert_allclose(scores[0][:both], scores[1][:both], rtol=1e-3)
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-8)


@pytest.mark.parametrize("weight", ["balanced", {0: 1.0, 1: 3.0, 2: 0.5}])
def test_class_weights_are_those_of_scikit_learn(weight):
    X, y = load_iris(return_X_y=True)
    X, y = StandardScaler().fit_transform(X)[20:], y[20:]
    sample_weight = np.linspace(0.5, 2, y.size)
    ours = ERMClassifier(ridge=0.3, class_weight=weight, scaling="none", fit_intercept=False)
    theirs = LogisticRegression(
        C=1 / (0.3 * 4), class_weight=weight, fit_intercept=False, tol=1e-10, max_iter=10_000
    )
    for extra in ({}, {"sample_weight": sample_weight}):
        np.testing.assert_allclose(
            ours.fit(X, y, **extra).coef_, theirs.fit(X, y, **extra).coef_, atol=1e-5
        )


def test_sparse_classifiers_are_dense_ones_without_filling_X():
    rng = np.random.default_rng(1)
    X = scipy.sparse.random_array((1000, 8000), density=0.003, rng=rng, format="csr")
    y = np.asarray(X @ rng.standard_normal(8000)) > 0
    dense = X.toarray()
    expected = ERMClassifier(ridge=0.1, tol=1e-8).fit(dense, y)
    tracemalloc.start()
    found = ERMClassifier(ridge=0.1, tol=1e-8).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.3 * dense.nbytes
    scale = np.abs(expected.coef_).max()
    np.testing.assert_allclose(found.coef_, expected.coef_, atol=1e-10 * scale)
    np.testing.assert_allclose(found.predict_proba(X), expected.predict_proba(dense), atol=1e-10)


def test_a_rare_class_gets_folds_without_a_warning():
    X, y, _ = Teacher(3).sample(90, 60, seed=1)
    y[y == 2] = 0
    y[:2] = 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ERMClassifier(cv=5).fit(X, y).method_ == "cross-validation"


def test_bad_choices_are_sentences():
    X, y = load_iris(return_X_y=True)
    cases = [
        ({"ridge": "best"}, "ridge must be 'auto' or a number"),
        ({"ridges": []}, "ridges must be numbers above 0"),
        ({"ridges": [0.0, 1.0]}, "ridges must be numbers above 0"),
        ({"scoring": "error"}, "unknown scoring 'error'"),
        ({"cv": "folds"}, "cv must be None"),
        ({"cv": 1}, "2 folds or more"),
    ]
    for options, message in cases:
        with pytest.raises(InvalidInput, match=message):
            ERMClassifier(**options).fit(X, y)
    with pytest.raises(InvalidInput, match="0 or more"):
        ERMClassifier().fit(X, y, sample_weight=np.append(np.ones(149), -1.0))
    with pytest.raises(InvalidInput, match="leave out what has weight 0"):
        fit_erm(X, y, sample_weight=np.zeros(150))


def test_a_start_near_the_minimum_ends_where_any_other_does_with_fewer_reads():
    X, y = load_wine(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    cold = fit_erm(X, y, "cross-entropy", 1e-3)
    near = fit_erm(X, y, "cross-entropy", 1e-3, start=1.1 * cold.weights)
    assert near.status == "ok"
    assert near.matrix_passes < cold.matrix_passes
    distance = np.linalg.norm(near.weights - cold.weights)
    assert distance <= near.distance_bound + cold.distance_bound


def test_after_leave_one_out_the_fit_begins_at_its_minimum(monkeypatch):
    X, y = load_wine(return_X_y=True)
    starts = []

    def kept(*given, start, **options):
        starts.append(start)
        return fit_erm(*given, start=start, **options)

    monkeypatch.setattr("polyceptron.fit.erm_classifier.fit_erm", kept)
    found = ERMClassifier().fit(X, y)
    ridge = LogisticRegression(C=1 / (found.ridge_ * X.shape[1]), tol=1e-12, max_iter=9999)
    coefficients = ridge.fit(StandardScaler().fit_transform(X), y).coef_
    weights = starts[0][:-1].T / np.sqrt(X.shape[1])
    assert found.scaling_ == "standard"
    np.testing.assert_allclose(weights, coefficients, atol=1e-5 * np.abs(coefficients).max())


def test_large_data_hold_out_as_many_folds_as_tell_ridges_apart():
    X, y, _ = Teacher(3, noise="gaussian:0.3").sample(10_000, 80, seed=0)
    one, five = ERMClassifier().fit(X, y), ERMClassifier(cv=5).fit(X, y)
    ratio = one.path_["standard_error"][0] / five.path_["standard_error"][0]
    assert ratio == pytest.approx(5**0.5, rel=0.1)
    ridges, scores, errors = (five.path_[name][::-1] for name in five.path_)
    at_one = np.interp(np.log(one.ridge_), np.log(ridges), scores)
    assert at_one < scores.min() + 0.5 * errors[scores.argmin()]
    few = ERMClassifier().fit(X[:4000], y[:4000])
    splits = even_splits(y[:4000], 5, 0)[:3]
    again = ERMClassifier(cv=splits).fit(X[:4000], y[:4000])
    np.testing.assert_array_equal(few.path_["score"], again.path_["score"])
    spread = one.held_out_scores(X, y)["standard_error"]["log_loss"]
    best = one.path_["score"].argmin()
    # Five folds in place of one, and 1 + 5/4 of the variance for the training samples they share.
    expected = (2.25 / 5) ** 0.5 * one.path_["standard_error"][best]
    assert spread == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize("wild", [1e6, 1e12])
@pytest.mark.parametrize("n_wild", [1, 2])
def test_a_value_a_million_times_all_others_does_not_end_the_search(wild, n_wild):
    """Without the sample of that value its column is constant, and one scale is next to nothing."""
    rng = np.random.default_rng(0)
    X = np.zeros((60, 9))
    X[:, :8] = rng.random((60, 8)) < 0.2
    X[:n_wild, 8] = wild
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a ridge at an end, and of the certificate
        shared = ERMClassifier(scaling="global").fit(X, y)
        chosen = ERMClassifier().fit(X, y)
    assert np.isfinite(shared.predict_proba(X)).all()
    assert chosen.scaling_ == "standard"
    assert chosen.score(X, y) == 1.0


def test_a_warning_only_where_rounding_leaves_something_open():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 10))
    y = (X[:, 0] + 0.5 * X[:, 1] + rng.logistic(size=3000) > 0).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = ERMClassifier(ridge=1e-4).fit(X, y)
    size = np.linalg.norm(fit.coef_)
    assert 1e-8 * size < fit.certificate_ < 1e-5 * size
    with pytest.warns(ConvergenceWarning, match="certified only to within"):
        ERMClassifier(ridge=1e-8).fit(X, y)
