"""Empirical risk minimisation as a scikit-learn classifier."""

from __future__ import annotations

import math
import warnings
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if

from polyceptron.algorithms.erm import fit_erm
from polyceptron.algorithms.linear_classifier import Array, LinearClassifier, Scaling
from polyceptron.model.checks import DEFAULT_RIDGE, check_ridge
from polyceptron.model.losses import as_loss
from polyceptron.rows import Status

_INTERCEPT_SCALE = 10.0  # the ridge on an intercept b is (λ/2) b²/100: next to none


def _has_probabilities(classifier: Any) -> bool:
    loss = as_loss(classifier.loss)
    if loss.probabilities(np.zeros((1, 2))) is not None:
        return True
    raise AttributeError(f"the {loss.name} loss has no class probabilities; use cross-entropy")


class ERMClassifier(LinearClassifier):
    """argmin_W Σ ℓ(Wᵀx/√d + b, y) + (λ/2)‖W‖², with the minimiser certified to `tol`.

    Parameters
    ----------
    loss : the name of a registered loss ('cross-entropy', 'square', 'max-margin', which needs
        separable data and ignores the ridge) or a `Loss` of your own.
    ridge : λ in the package's convention; in scikit-learn's, C = 1/(λ·n_features). 0 is what the
        loss says it is (least norm for the square loss; for cross-entropy max-margin if the data
        can be separated, else maximum likelihood: `separability_` says which, with a proof).
    standardise : scale features to mean 0 and variance 1 first.
    fit_intercept : learn a bias for each class, with next to no ridge.
    tol : relative distance of the weights to the minimiser.
    random_state : accepted for pipelines that set it; the fit is deterministic.

    `predict_proba` exists where the loss models probabilities, as cross-entropy does.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> ERMClassifier().fit(X, y).score(X, y) > 0.9
    True
    """

    def __init__(
        self,
        loss: Any = "cross-entropy",
        ridge: float = DEFAULT_RIDGE,
        *,
        standardise: bool = True,
        fit_intercept: bool = True,
        tol: float = 1e-6,
        random_state: Any = None,
    ) -> None:
        self.loss = loss
        self.ridge = ridge
        self.standardise = standardise
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to X (n, d) and labels y (n,) of any type."""
        X, index = self._check_training_data(X, y)
        loss, ridge = as_loss(self.loss), float(check_ridge(self.ridge))
        d, k = X.shape[1], self.classes_.size
        scaling = Scaling.fit(X, standardise=self.standardise, centre=self.fit_intercept)
        A = scaling.apply(X)
        if self.fit_intercept:
            column = np.full((X.shape[0], 1), _INTERCEPT_SCALE * math.sqrt(d))
            A = np.hstack([A, column]) * math.sqrt((d + 1) / d)  # the solver divides by √(d+1)
        fit = fit_erm(A, index, loss, ridge, n_classes=k, tol=self.tol)
        weights = fit.weights[:d] / math.sqrt(d)
        offset = fit.weights[d] * _INTERCEPT_SCALE if self.fit_intercept else np.zeros(k)
        self._store(weights, offset, scaling)
        self.n_iter_ = max(1, fit.n_iter)
        self.certificate_ = fit.distance_bound
        self.separability_ = fit.separability
        if fit.status != Status.OK:
            warnings.warn(
                f"the weights are certified only to within {fit.distance_bound:.2g} of the "
                f"minimiser (tolerance {self.tol:g} relative); increase the ridge or the tolerance",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """Class probabilities (n, k) that the loss reads from the class fields."""
        found = as_loss(self.loss).probabilities(self._class_fields(X))
        return np.asarray(found)

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Array:
        """Logarithm of `predict_proba`."""
        with np.errstate(divide="ignore"):
            result: Array = np.log(self.predict_proba(X))
        return result
