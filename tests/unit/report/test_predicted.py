"""Measured learning curves beside theory: equal on Gaussian data, honest on all other."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, learning_curve
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from polyceptron.errors import InvalidInput
from polyceptron.fit.amp_classifier import AMPClassifier
from polyceptron.fit.erm import fit_erm
from polyceptron.fit.erm_classifier import ERMClassifier
from polyceptron.problem import ERM, BayesOptimal, Teacher
from polyceptron.questions.forecast import forecast
from polyceptron.questions.matching import matching_theory
from polyceptron.questions.measured_curve import measure_errors
from polyceptron.questions.predicted import predicted_curve
from polyceptron.theory.erm.fixed_point import erm_fixed_point


@pytest.mark.slow
def test_on_gaussian_data_the_prediction_is_the_measurement():
    X, y, _ = Teacher(3).sample(1500, 100, seed=0)
    clf = ERMClassifier(ridge=0.1, fit_intercept=False)
    curve = predicted_curve(clf, X, y, train_sizes=[0.2, 1.0], cv=4)
    table = curve.frame.set_index("alpha")
    for alpha in (2.25, 11.25):
        both = table.loc[alpha].set_index("source")
        gap = both.generalisation_error["measured"] - both.generalisation_error["theory"]
        # One teacher at d = 100: its own fluctuation comes on top of the folds'.
        assert abs(gap) < 4 * both.generalisation_error_standard_error["measured"] + 0.02
    assert curve.effective_dimension > 85
    assert curve.misfit < 0.1
    assert "far from" not in curve.assumption


def test_noise_and_spectrum_are_found_where_the_data_have_them():
    """Labels with noise on correlated features: own spectrum and fitted noise describe them."""
    teacher = Teacher(2, noise="gaussian:0.5", features="levels:6x0.2,0.3x0.8")
    X, y, _ = teacher.sample(2000, 60, seed=5)
    clf = ERMClassifier("square", ridge=0.5, fit_intercept=False, scaling="none")
    with pytest.raises(InvalidInput, match="not standardised"):
        predicted_curve(clf, X, y)
    # A rotation makes the features alike without removing their correlations.
    turned = np.linalg.qr(np.random.default_rng(0).standard_normal((60, 60)))[0]
    Z = X @ turned
    Z /= Z.std(0)
    curve = predicted_curve(clf, Z, y, train_sizes=[0.06, 0.25, 1.0], cv=4)
    assert 0.2 < curve.model.noise < 1.0
    assert curve.model.alignment == 0
    assert curve.misfit < 0.08
    assert curve.effective_dimension < 40
    # Independent features without noise are another matter: the control.
    measured = curve.frame[curve.frame.source == "measured"]
    plain = [erm_fixed_point(Teacher(2), ERM("square", 0.5), a) for a in measured.alpha]
    gap = np.log([p.generalisation_error for p in plain]) - np.log(measured.generalisation_error)
    assert np.sqrt(np.mean(gap**2)) > 0.2


@pytest.mark.slow
def test_the_assumption_is_in_the_result_and_on_the_plot():
    X, y = load_iris(return_X_y=True)
    curve = predicted_curve(ERMClassifier(ridge=0.1), X, y, train_sizes=[0.3, 1.0], cv=3)
    assert "Theory: 4 Gaussian inputs with the spectrum and the signal" in curve.assumption
    assert f"Misfit {curve.misfit:.2g}" in curve.assumption
    assert ("far from this model" in curve.assumption) == (curve.misfit > 0.25)
    assert curve.effective_dimension < 3
    axes = curve.plot(color="green")
    assert {line.get_color() for line in axes.get_lines()} == {"green"}
    (title,) = [
        c for c in axes.get_children() if getattr(c, "get_text", str)().startswith("Theory")
    ]
    assert title.get_window_extent().x1 < axes.figure.bbox.x1, "the words run out of the picture"
    first, second = axes.get_title(loc="left").splitlines()  # `assumption` in short
    assert first == "Theory of a linear rule on Gaussian inputs"
    assert second.startswith(f"misfit {curve.misfit:.2g}")
    assert ("not a prediction" in second) == ("far from this model" in curve.assumption)
    assert {t.get_text() for t in axes.get_legend().get_texts()} == {
        "theory, own spectrum",
        "measured (cross-validation)",
        "forecast",
    }
    assert set(curve.frame.source) == {"measured", "theory"}
    (bars,) = axes.containers  # the spread over the folds is on the plot
    measured = curve.frame[curve.frame.source == "measured"]
    heights = [np.ptp(path.vertices[:, 1]) / 2 for path in bars[2][0].get_paths()]
    assert np.allclose(heights, measured["generalisation_error_standard_error"])
    assert curve.assumption in repr(curve)
    assert "2 times the data (300 samples)" in repr(curve)
    assert "10 times the data (1500 samples)" in repr(curve)
    assert (curve.outlook.low <= curve.outlook.high).all()
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
    curve = predicted_curve(ERMClassifier("square", ridge=0.1), X, y, train_sizes=[1.0], cv=3)
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
    with pytest.raises(InvalidInput, match="one label for each of the 150 samples"):
        predicted_curve(ERMClassifier(), X, y[:3])
    scaled = StandardScaler(), LogisticRegression()
    with pytest.raises(InvalidInput, match="'pca' changes the number of features from 4 to 2"):
        predicted_curve(make_pipeline(scaled[0], PCA(2), scaled[1]), X, y)
    sparse = LogisticRegression(penalty="l1", solver="saga")
    with pytest.raises(InvalidInput, match="L1 penalty"):
        predicted_curve(make_pipeline(StandardScaler(), sparse), X, y)
    with pytest.raises(InvalidInput, match="StandardScaler before LogisticRegression"):
        predicted_curve(LogisticRegression(), X, y)
    grid = {"standardscaler__with_mean": [True, False]}
    with pytest.raises(InvalidInput, match="searches over 'standardscaler__with_mean'"):
        predicted_curve(GridSearchCV(make_pipeline(*scaled), grid), X, y)


@pytest.mark.slow
def test_a_search_over_the_ridge_is_the_best_ridge():
    X, y, _ = Teacher(2).sample(240, 30, seed=4)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), RidgeClassifier()),
        {"ridgeclassifier__alpha": [3.0, 30.0]},
        cv=3,
    )
    assert matching_theory(search, 2, 30)[1].ridge == "optimal"
    curve = predicted_curve(search, X, y, train_sizes=[0.5, 1.0], cv=3)
    theory = curve.frame[curve.frame.source == "theory"]
    assert theory.ridge.notna().all()
    assert curve.misfit < 0.3


def test_a_power_law_is_forecast_and_its_band_holds_the_truth():
    n = np.geomspace(50, 5000, 7)
    exact = 3.0 * n**-0.6 + 0.02
    law = forecast(n, np.tile(exact[:, None], 5), 1e-6, 5000)
    assert float(law(50_000)) == pytest.approx(3.0 * 50_000**-0.6 + 0.02, rel=0.05)
    assert law.weights["pow3"] > 0.5 > 1e-3 > law.weights["last"]
    rng, inside = np.random.default_rng(0), 0
    for _ in range(16):
        folds = exact[:, None] * (1 + 0.1 * rng.standard_normal((7, 10)))
        low, high = forecast(n, folds, 1e-6, 5000).band(10_000.0)
        inside += bool(low <= 3.0 * 10_000**-0.6 + 0.02 <= high)
    assert inside >= 12  # of 14.4 expected; a band of no width would hold none


def test_laws_weigh_by_hidden_points_and_forecasts_end_at_ten_times_the_data():
    n = np.geomspace(30, 960, 6)
    truth = {
        "last": np.array([0.31, 0.3, 0.3, 0.3, 0.3, 0.3]),
        "mmf4": 0.05 + 0.4 / (1 + (n / 400) ** 2.5),  # flat, then falling
    }
    for name, rate in truth.items():
        law = forecast(n, np.tile(rate[:, None], 4), 1e-4, 1000)
        assert max(law.weights, key=law.weights.get) == name
        assert sum(law.weights.values()) == pytest.approx(1)
    with pytest.raises(InvalidInput, match="at most 10 times the data, 10000 samples"):
        law(10_001)
    rising = np.array([0.1, 0.12, 0.1, 0.13, 0.12, 0.14])
    more = forecast(n, np.tile(rising[:, None], 4), 1e-4, 1000)
    assert float(more(2000)) <= 0.1  # more data are never worse


def test_training_sizes_that_fail_are_left_out():
    X, y = load_iris(return_X_y=True)
    order = np.argsort(y, kind="stable")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        curve = predicted_curve(
            ERMClassifier("square", ridge=1.0), X[order], y[order], train_sizes=[1, 90], cv=3
        )
    measured = curve.frame[curve.frame.source == "measured"]
    assert list(measured.n_samples) == [90]


def test_the_measured_curve_is_that_of_scikit_learn_where_every_sample_is_learnt_from():
    X, y = load_iris(return_X_y=True)
    X, y = X[:148], y[:148]  # four folds of one size
    clf, cv = LogisticRegression(C=0.1), KFold(4, shuffle=True, random_state=1)
    found = measure_errors(clf, X, y, [0.3, 1.0], cv, chances=True)
    assert found.sizes.tolist() == [33, 111]
    _, train, test = learning_curve(clf, X, y, train_sizes=[1.0], cv=cv)
    np.testing.assert_allclose(found.folds[1], 1 - test[0])
    np.testing.assert_allclose(found.training[1], 1 - train[0])
    chances = cross_val_predict(clf, X, y, cv=cv, method="predict_proba")
    held_out = np.concatenate([part for _, part in cv.split(X)])
    np.testing.assert_allclose(found.chances, chances[held_out], atol=1e-4)
    for sizes in ([0.0], [1.5], [200], [], ["half"]):
        with pytest.raises(InvalidInput, match="counts from 1 to 111 or shares"):
            measure_errors(clf, X, y, sizes, cv)


@pytest.mark.parametrize("n", [2, 4, 9])
def test_too_few_samples_for_the_folds_are_one_clear_error(n: int) -> None:
    X = np.random.default_rng(0).standard_normal((n, 3))
    with pytest.raises(InvalidInput, match=rf"rarest class, {n // 2} of {n}, got 5"):
        predicted_curve(ERMClassifier(), X, np.arange(n) % 2)
