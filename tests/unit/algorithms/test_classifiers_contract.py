"""scikit-learn's own checks of an estimator, in full."""

from __future__ import annotations

from sklearn.utils.estimator_checks import parametrize_with_checks

from polyceptron.algorithms.classifiers import AMPClassifier, ERMClassifier


@parametrize_with_checks(
    [
        ERMClassifier(),
        ERMClassifier("square", ridge=1.0),
        AMPClassifier(),
        AMPClassifier(noise="gaussian:0.1", fit_intercept=False),
    ]
)
def test_estimator_contract(estimator, check):
    check(estimator)
