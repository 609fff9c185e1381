"""Measured learning curves beside theory: equal on Gaussian data, honest on all other."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from polyceptron.algorithms.classifiers import AMPClassifier, ERMClassifier
from polyceptron.algorithms.erm import fit_erm
from polyceptron.errors import InvalidInput
from polyceptron.model import ERM, BayesOptimal, Teacher
from polyceptron.report.predicted import matching_theory, predicted_curve


def test_on_gaussian_data_the_prediction_is_the_measurement():
    X, y, _ = Teacher(3).sample(1500, 100, seed=0)
    clf = ERMClassifier(ridge=0.1, fit_intercept=False)
    curve = predicted_curve(clf, X, y, train_sizes=[0.2, 1.0], cv=4)
    table = curve.frame.set_index("alpha")
    for alpha in (2.25, 11.25):
        both = table.loc[alpha].set_index("source")
        gap = both.generalisation_error["measured"] - both.generalisation_error["theory"]
        # One teacher at d = 100: its own fluctuation comes on top of the folds'.
        assert abs(gap) < 4 * both.uncertainty["measured"] + 0.02
    assert curve.effective_dimension > 90


def test_the_assumption_is_in_the_result_and_on_the_plot():
    X, y = load_iris(return_X_y=True)
    curve = predicted_curve(ERMClassifier(ridge=0.1), X, y, train_sizes=[0.3, 1.0], cv=3)
    assert "independent Gaussian inputs" in curve.assumption
    assert "d = 4" in curve.assumption
    assert curve.effective_dimension < 3
    axes = curve.plot(color="green")
    assert {line.get_color() for line in axes.get_lines()} == {"green"}
    drawn = axes.get_title(loc="left").replace("\n", " ")
    assert drawn == curve.assumption
    assert {t.get_text() for t in axes.get_legend().get_texts()} == {
        r"theory, cross-entropy, $\lambda  = 0.1$, Gaussian inputs",
        "measured (cross-validation)",
    }
    assert set(curve.frame.source) == {"measured", "theory"}
    (bars,) = axes.containers  # the spread over the folds is on the plot
    measured = curve.frame[curve.frame.source == "measured"]
    heights = [np.ptp(path.vertices[:, 1]) / 2 for path in bars[2][0].get_paths()]
    assert np.allclose(heights, measured["uncertainty"])
    assert curve.assumption in repr(curve)
    assert "<table" in curve._repr_html_()


def test_message_passing_is_compared_with_the_bayes_optimal_curve():
    X, y, _ = Teacher(2).sample(300, 40, seed=1)
    curve = predicted_curve(AMPClassifier(noise="none"), X, y, train_sizes=[0.5, 1.0], cv=3)
    assert set(curve.frame.estimator) == {"bayes"}
    measured = curve.frame[curve.frame.source == "measured"]
    assert (measured.generalisation_error < 0.4).all()


def test_constant_features_do_not_count():
    X, y = load_iris(return_X_y=True)
    X = np.hstack([X, np.ones((150, 3))])
    curve = predicted_curve(ERMClassifier(), X, y, train_sizes=[1.0], cv=3)
    assert set(curve.frame.dimension.dropna()) == {4}


@pytest.mark.parametrize("k", [2, 3])
def test_logistic_regression_is_matched_with_its_own_ridge(k):
    X, y, _ = Teacher(k).sample(200, 30, seed=2)
    theirs = LogisticRegression(C=0.5, fit_intercept=False, tol=1e-10, max_iter=5000).fit(X, y)
    _, estimator = matching_theory(make_pipeline(StandardScaler(), theirs), k, 30)
    assert isinstance(estimator, ERM)
    ours = fit_erm(X, y, estimator.loss, float(estimator.ridge)).weights / np.sqrt(30)
    expected = theirs.coef_.T
    if k == 2:
        ours = ours[:, 1:] - ours[:, :1]
    assert np.allclose(ours, expected, atol=1e-5)


def test_ridge_classifier_is_matched_with_the_square_loss():
    X, y, _ = Teacher(3).sample(200, 30, seed=3)
    theirs = RidgeClassifier(alpha=6.0, fit_intercept=False).fit(X, y)
    _, estimator = matching_theory(theirs, 3, 30)
    assert (estimator.name, estimator.ridge) == ("square", 0.2)
    _, bayes = matching_theory(AMPClassifier(), 3, 30)
    assert isinstance(bayes, BayesOptimal)


def test_what_cannot_be_predicted_is_a_sentence():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(InvalidInput, match="no theory matches DecisionTreeClassifier"):
        predicted_curve(DecisionTreeClassifier(), X, y)
    with pytest.raises(InvalidInput, match="two classes"):
        predicted_curve(ERMClassifier(), X, np.zeros(150))
    with pytest.raises(InvalidInput, match="constant"):
        predicted_curve(ERMClassifier(), np.ones((150, 2)), y)
    with pytest.raises(InvalidInput, match="must be"):
        predicted_curve(ERMClassifier(), X, y[:3])


def test_training_sizes_that_fail_are_left_out():
    X, y = load_iris(return_X_y=True)
    order = np.argsort(y, kind="stable")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        curve = predicted_curve(ERMClassifier(), X[order], y[order], train_sizes=[1, 90], cv=3)
    measured = curve.frame[curve.frame.source == "measured"]
    assert list(measured.n_samples) == [90]
