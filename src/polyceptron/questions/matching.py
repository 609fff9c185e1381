"""Which theory describes a classifier of scikit-learn, and what features it sees.

    AMPClassifier                  the Bayes-optimal estimator with its prior
    ERMClassifier                  its loss and ridge
    LogisticRegression(C)          cross-entropy, λ = 1/(Cd); two classes share one weight vector
                                   w = W₁ − W₂, so that ‖W‖² = ‖w‖²/2 and λ = 2/(Cd)
    RidgeClassifier(alpha)         square loss, λ = alpha/d

Weights of the theory have fields wᵀx/√d, hence the factors 1/d. A Pipeline counts
by its last step, a GridSearchCV over the ridge as the best ridge.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline

from polyceptron.errors import InvalidInput
from polyceptron.fit.amp_classifier import AMPClassifier
from polyceptron.fit.erm_classifier import ERMClassifier
from polyceptron.numerics import Array
from polyceptron.problem import ERM, BayesOptimal, Estimator, Teacher
from polyceptron.problem.losses import as_loss

NAMES_OF_RIDGES = ("C", "alpha", "ridge")
# A deviation within 2 % of 1 is that of a feature standardised on some of the samples.
LARGEST_DEVIATION_FROM_UNIT_SCALE = 0.02
# Relative to the largest entry: a deviation below it is rounding, the feature is constant.
CONSTANT_FEATURE = 1e-9


class Transformer(Protocol):
    """A step of a pipeline before its classifier."""

    def fit_transform(self, X: Array, y: NDArray[np.generic]) -> Array:
        """Return the features (n, d′) that the next step sees."""


@dataclass(frozen=True)
class UnwrappedClassifier:
    """A classifier, the named steps before it, and whether its ridge is searched for."""

    classifier: BaseEstimator
    steps_before: Sequence[tuple[str, Transformer | str | None]]
    ridge_is_searched: bool


def unwrap(clf: BaseEstimator) -> UnwrappedClassifier:
    """Take a classifier out of its Pipeline and its GridSearchCV.

    Raises
    ------
    InvalidInput
        If the search varies anything but the ridge.
    """
    searched = isinstance(clf, GridSearchCV)
    if searched:
        _check_searched_names(clf)
        clf = clf.estimator
    if isinstance(clf, Pipeline):
        return UnwrappedClassifier(clf.steps[-1][1], clf.steps[:-1], searched)
    return UnwrappedClassifier(clf, [], searched)


def _check_searched_names(search: GridSearchCV) -> None:
    """Refuse a search over anything but the ridge."""
    grids = search.param_grid
    if not isinstance(grids, list):
        grids = [grids]
    searched = {name for grid in grids for name in grid}
    others = {name for name in searched if name.split("__")[-1] not in NAMES_OF_RIDGES}
    if others:
        raise InvalidInput(
            f"the GridSearchCV searches over {min(others)!r}: the theory follows a search over "
            f"the ridge alone ({', '.join(NAMES_OF_RIDGES)})"
        )


def matching_theory(
    clf: BaseEstimator, n_classes: int, dimension: int
) -> tuple[Teacher, Estimator]:
    """Return the teacher and the estimator whose theory describes a classifier.

    Parameters
    ----------
    clf : classifier
        One of those above, in a Pipeline or a GridSearchCV if need be.
    n_classes, dimension : int
        k, and the number d of its features, which are standardised.

    Returns
    -------
    Teacher
        With independent features and without noise.
    Estimator

    Examples
    --------
    >>> from sklearn.linear_model import RidgeClassifier
    >>> matching_theory(RidgeClassifier(alpha=3.0), 4, 30)[1].ridge
    0.1
    """
    unwrapped = unwrap(clf)
    classifier = unwrapped.classifier
    if isinstance(classifier, AMPClassifier):
        return Teacher(n_classes, classifier.prior), BayesOptimal()
    if isinstance(classifier, ERMClassifier):
        erm = _erm_of(classifier)
    elif isinstance(classifier, LogisticRegression):
        erm = _logistic_regression(classifier, n_classes, dimension)
    elif isinstance(classifier, RidgeClassifier):
        erm = ERM("square", classifier.alpha / dimension)
    else:
        raise InvalidInput(
            f"no theory matches {type(classifier).__name__}: allowed are AMPClassifier, "
            "ERMClassifier, LogisticRegression and RidgeClassifier, alone, at the end of a "
            "Pipeline or in a GridSearchCV over their ridge"
        )
    if unwrapped.ridge_is_searched and not erm.loss.scale_free:
        erm = erm.with_ridge("optimal")
    return Teacher(n_classes), erm


def _erm_of(classifier: ERMClassifier) -> ERM:
    """Return the loss and the ridge of an ERMClassifier; "auto" is the best ridge."""
    loss = as_loss(classifier.loss)
    if loss.scale_free:
        return ERM(loss, 0.0)
    if classifier.ridge == "auto":
        return ERM(loss, "optimal")
    return ERM(loss, classifier.ridge)


def _logistic_regression(clf: LogisticRegression, n_classes: int, dimension: int) -> ERM:
    """Return cross-entropy with the ridge of scikit-learn's penalty ‖w‖²/2C."""
    l1_ratio = getattr(clf, "l1_ratio", None)  # releases differ in whether they have it
    has_l1_penalty = {
        "l1": True,
        "elasticnet": l1_ratio != 0,
        "deprecated": l1_ratio not in (None, 0),
    }
    if has_l1_penalty.get(str(clf.penalty)):
        raise InvalidInput(
            f"LogisticRegression with an L1 penalty (penalty={clf.penalty!r}, "
            f"l1_ratio={l1_ratio!r}) is not described: the theory has a squared one, penalty='l2'"
        )
    if clf.penalty is None:
        return ERM("cross-entropy", 0.0)
    ridge = 1 / clf.C / dimension
    if n_classes == 2:
        ridge *= 2
    return ERM("cross-entropy", ridge)


def described_features(clf: BaseEstimator, X: Array, y: NDArray[np.generic]) -> Array:
    """Return the features that the classifier sees, without constant ones and standardised.

    Parameters
    ----------
    clf : classifier
        As in `matching_theory`.
    X : ndarray (n, d₀)
    y : ndarray (n,)

    Returns
    -------
    ndarray (n, d)

    Raises
    ------
    InvalidInput
        If a step changes the number of features, or if the classifier sees features of different
        scales and does not standardise them itself.
    """
    unwrapped = unwrap(clf)
    seen = _after_steps(unwrapped.steps_before, X, y)
    deviation = seen.std(0)
    varying = deviation > CONSTANT_FEATURE * max(1.0, float(np.abs(seen).max()))
    if not varying.any():
        raise InvalidInput("every feature is constant: there is nothing to learn from")
    seen = seen[:, varying]
    deviation = deviation[varying]
    scaling = unwrapped.classifier.get_params(deep=False).get("scaling", "none")
    if scaling not in ("auto", "standard"):
        _check_standardised(deviation, type(unwrapped.classifier).__name__)
    return np.asarray((seen - seen.mean(0)) / deviation)


def _after_steps(
    steps: Sequence[tuple[str, Transformer | str | None]], X: Array, y: NDArray[np.generic]
) -> Array:
    """Return the features (n, d) after the steps of a pipeline, each fitted to all samples."""
    for name, step in steps:
        if step is None or isinstance(step, str):  # scikit-learn's "passthrough"
            continue
        n_features = X.shape[1]
        X = np.asarray(clone(step).fit_transform(X, y), dtype=float)
        if X.shape[1] != n_features:
            raise InvalidInput(
                f"the step {name!r} changes the number of features from {n_features} to "
                f"{X.shape[1]}, which the theory does not follow: apply it to X first"
            )
    return X


def _check_standardised(deviation: Array, classifier: str) -> None:
    """Refuse features whose standard deviations (d,) differ from 1."""
    if np.abs(deviation - 1).max() <= LARGEST_DEVIATION_FROM_UNIT_SCALE:
        return
    farthest = float(deviation[np.abs(np.log(deviation)).argmax()])
    raise InvalidInput(
        f"the features were not standardised (one has a standard deviation of {farthest:.3g}), "
        f"and a ridge means another thing for each of them: put a StandardScaler before "
        f"{classifier}"
    )
