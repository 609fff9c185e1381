"""Bayes-optimal message passing as a scikit-learn classifier.

The model is the paper's: labels are the argmax of linear fields with weights from a prior, here
with noise of the labels, since real ones are never separable by construction. Class probabilities
are those of the posterior: the channel's, at fields of mean ω = xŴ/√d and variance V‖x‖²/d.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from polyceptron.algorithms.compression import Compression
from polyceptron.algorithms.leave_one_out import (
    Candidate,
    Problem,
    best_intercept,
    field_variance,
    run_at,
    search_noise,
)
from polyceptron.algorithms.linear_classifier import Array, LinearClassifier, Scaling
from polyceptron.errors import InvalidInput
from polyceptron.model.channels import CHANNELS, Channel, as_channel
from polyceptron.rows import Status


class AMPClassifier(LinearClassifier):
    """Posterior-mean classifier by approximate message passing (Algorithm 1).

    Parameters
    ----------
    prior : of the weights: the name of a registered prior, (values, probabilities) or a `Prior`.
    variances : 'shared' or 'full', as in `polyceptron.amp`.
    noise : of the labels: the name of a registered noise such as 'none', 'gaussian:0.1' or
        'flips:0.05', a `Channel`, or 'auto': Gaussian, its variance chosen by leave-one-out.
    standardise : scale features to mean 0 and variance 1 first, which the algorithm assumes.
    fit_intercept : learn a bias for each class.
    compress : shrink directions in which correlated features are too loud (see `compression`).
    tol, max_iter : of message passing.
    random_state : accepted for pipelines that set it; the fit is deterministic.

    On data drawn from the model (`fit_intercept=False`, its own noise) its probabilities are
    calibrated. `noise_` is the channel used. Where message passing does not converge even with
    damping, the best iterate is used and a ConvergenceWarning says so.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> AMPClassifier(noise="gaussian:0.1").fit(X, y).score(X, y) > 0.9
    True
    """

    noise_: Channel

    def __init__(
        self,
        prior: Any = "gaussian",
        variances: str = "shared",
        noise: Any = "auto",
        *,
        standardise: bool = True,
        fit_intercept: bool = True,
        compress: bool = True,
        tol: float = 1e-4,
        max_iter: int = 200,
        random_state: Any = None,
    ) -> None:
        self.prior = prior
        self.variances = variances
        self.noise = noise
        self.standardise = standardise
        self.fit_intercept = fit_intercept
        self.compress = compress
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to X (n, d) and labels y (n,) of any type."""
        X, index = self._check_training_data(X, y)
        noise = _check_noise(self.noise)
        self._scaling = Scaling.fit(X, standardise=self.standardise, centre=self.fit_intercept)
        A = self._features(X)
        if A.shape[1] == 0:
            raise ValueError("every feature is constant: there is nothing to learn from")
        nothing = Compression(np.zeros((A.shape[1], 0)), np.zeros(0))
        self._compression = Compression.fit(A) if self.compress else nothing
        A = self._compression.apply(A)
        problem = Problem(
            A, index, self.classes_.size, self.prior, self.variances, self.tol, self.max_iter
        )
        best = search_noise(problem) if noise is None else run_at(problem, noise)
        self._keep(best, problem, X.shape[1])
        if not self.converged_:
            warnings.warn(
                f"message passing did not converge in {best.result.n_iter} iterations, with "
                f"damping up to {best.result.damping:g}: the best iterate is used; try a larger "
                "noise or max_iter, or ERMClassifier",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def _keep(self, best: Candidate, problem: Problem, n_features: int) -> None:
        """Set the fitted attributes."""
        k = problem.n_classes
        weights = self._compression.pull_back(best.result.weights) / math.sqrt(problem.A.shape[1])
        offset = np.zeros(k)
        if self.fit_intercept:
            offset = weights[-1] + best_intercept(best, problem.y)
            weights = weights[:-1]
        full = np.zeros((n_features, k))
        full[self._scaling.varying] = weights
        self._store(full, offset, self._scaling)
        self._scaled_weights = full, offset
        self.variance_, self.noise_ = best.result.variance, best.channel
        self.n_iter_ = max(1, best.result.n_iter)
        self.converged_ = best.result.status == Status.OK

    def decision_function(self, X: Any) -> Array:
        """Class fields in units of the width over which the label is undecided at x, (n, k).

        For two classes the difference (n,) of second and first, of which `predict_proba` is the
        normal distribution function if the noise is Gaussian. The fields themselves are
        X·coef_ᵀ + intercept_.
        """
        omega, variance = self._predictive(X)
        width = np.array([self.noise_.width(float(v)) for v in variance])
        scores: Array = omega / width[:, None]
        return (scores[:, 1] - scores[:, 0]) / math.sqrt(2) if scores.shape[1] == 2 else scores

    def predict_proba(self, X: Any) -> Array:
        """Posterior probability of each class, (n, k)."""
        omega, variance = self._predictive(X)
        log_chances = np.column_stack(
            [self.noise_.posterior(omega, label, variance).log_z for label in range(omega.shape[1])]
        )
        chances = np.exp(log_chances - log_chances.max(1, keepdims=True))
        result: Array = chances / chances.sum(1, keepdims=True)
        return result

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithm of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def _predictive(self, X: Any) -> tuple[Array, Array]:
        """Mean (n, k) and variance (n,) of the fields of new samples."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        weights, offset = self._scaled_weights
        omega = self._scaling.apply(X) @ weights + offset
        A = self._compression.apply(self._features(X))
        return omega, np.maximum(field_variance(A, self.variance_), 1e-300)

    def _features(self, X: Array) -> Array:
        """The varying features, scaled, and a column of ones for the intercept."""
        A = self._scaling.apply(X)[:, self._scaling.varying]
        return np.hstack([A, np.ones((X.shape[0], 1))]) if self.fit_intercept else A


def _check_noise(noise: Any) -> Channel | None:
    """The channel meant, None for 'auto', or a sentence."""
    if isinstance(noise, str) and noise == "auto":
        return None
    try:
        return as_channel(noise)
    except InvalidInput as error:
        if not isinstance(noise, str):
            raise InvalidInput(
                f"noise must be 'auto', a Channel, or one of {CHANNELS.help}; got {noise!r}"
            ) from None
        raise InvalidInput(f"{error}, and 'auto'") from None
