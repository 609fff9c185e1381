"""Bayes-optimal message passing as a scikit-learn classifier.

The model is the paper's: labels are the argmax of linear fields with Gaussian (or discrete)
weights, here with noise of unknown variance on the fields, since real labels are never separable
by construction. Class probabilities are those of the posterior: fields of mean ω = xŴ/√d and
variance V‖x‖²/d + noise.

At the fixed point the cavity field ω_μ of a training sample, the solution of ω + V f(ω) = xŴ/√d,
is the field predicted by all *other* samples. Its log-probability of the true label is a
leave-one-out score that costs no refit: it chooses the noise and sets the intercept.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.optimize
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from polyceptron.algorithms.amp import amp
from polyceptron.algorithms.amp_result import AMPResult
from polyceptron.algorithms.compression import Compression
from polyceptron.algorithms.linear_classifier import Array, LinearClassifier, Scaling
from polyceptron.errors import InvalidInput
from polyceptron.numerics.orthant import argmax_orthant
from polyceptron.rows import Status

NOISES = (0.0, 0.01, 0.05, 0.2, 1.0, 5.0)  # tried by noise="auto", from the middle outwards
_FIRST = 2
_ORDER = 12  # nodes of the channel's integral: 6 digits


@dataclass(frozen=True)
class _Candidate:
    """A run of message passing at one noise, with its cavity fields and leave-one-out score."""

    result: AMPResult
    noise: float
    cavity: Array
    variance: Array
    score: float

    @property
    def rank(self) -> tuple[bool, float]:
        """Converged before not converged, then by score."""
        return self.result.status == Status.OK, self.score


class AMPClassifier(LinearClassifier):
    """Posterior-mean classifier by approximate message passing (Algorithm 1).

    Parameters
    ----------
    prior : of the weights: 'gaussian', 'rademacher' or (values, probabilities).
    variances : 'shared' or 'full', as in `polyceptron.amp`.
    noise : variance of the noise on the fields, or 'auto' to choose it by leave-one-out.
    standardise : scale features to mean 0 and variance 1 first, which the algorithm assumes.
    fit_intercept : learn a bias for each class.
    compress : shrink directions in which correlated features are too loud (see `compression`).
    tol, max_iter : of message passing.
    random_state : accepted for pipelines that set it; the fit is deterministic.

    On data drawn from the model (`noise=0, fit_intercept=False`) its probabilities are calibrated.
    Where message passing does not converge even with damping, the best iterate is used and a
    ConvergenceWarning says so.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> AMPClassifier(noise=0.1).fit(X, y).score(X, y) > 0.9
    True
    """

    def __init__(
        self,
        prior: Any = "gaussian",
        variances: str = "shared",
        noise: float | str = "auto",
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
        best = self._search(A, index) if noise is None else self._run(A, index, noise)
        d, k = A.shape[1], self.classes_.size
        weights = self._compression.pull_back(best.result.weights) / math.sqrt(d)
        offset = np.zeros(k)
        if self.fit_intercept:
            offset = weights[-1] + _offset(best.cavity, index, best.variance + best.noise)
            weights = weights[:-1]
        full = np.zeros((X.shape[1], k))
        full[self._scaling.varying] = weights
        self._store(full, offset, self._scaling)
        self._fields_ = full, offset
        self.variance_, self.noise_ = best.result.variance, best.noise
        self.n_iter_ = max(1, best.result.n_iter)
        self.converged_ = best.result.status == Status.OK
        if not self.converged_:
            warnings.warn(
                f"message passing did not converge in {best.result.n_iter} iterations, with "
                f"damping up to {best.result.damping:g}: the best iterate is used; try a larger "
                "noise or max_iter, or ERMClassifier",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def decision_function(self, X: Any) -> Array:
        """Class fields in units of their posterior standard deviation at x, (n, k).

        For two classes the difference (n,) of second and first, of which `predict_proba` is the
        normal distribution function. The fields themselves are X·coef_ᵀ + intercept_.
        """
        omega, variance = self._predictive(X)
        scores: Array = omega / np.sqrt(variance)
        return (scores[:, 1] - scores[:, 0]) / math.sqrt(2) if scores.shape[1] == 2 else scores

    def predict_proba(self, X: Any) -> Array:
        """Posterior probability of each class, (n, k)."""
        omega, variance = self._predictive(X)
        width = variance[:, 0]
        log_chances = np.column_stack(
            [argmax_orthant(omega, label, width).log_z for label in range(omega.shape[1])]
        )
        chances = np.exp(log_chances - log_chances.max(1, keepdims=True))
        result: Array = chances / chances.sum(1, keepdims=True)
        return result

    def _predictive(self, X: Any) -> tuple[Array, Array]:
        """Mean (n, k) and variance (n, 1) of the fields of new samples."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        weights, offset = self._fields_
        omega = self._scaling.apply(X) @ weights + offset
        A = self._compression.apply(self._features(X))
        return omega, np.maximum(_field_variance(A, self.variance_) + self.noise_, 1e-300)

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithm of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def _features(self, X: Array) -> Array:
        """The varying features, scaled, and a column of ones for the intercept."""
        A = self._scaling.apply(X)[:, self._scaling.varying]
        return np.hstack([A, np.ones((X.shape[0], 1))]) if self.fit_intercept else A

    def _run(self, A: Array, y: NDArray[np.int64], noise: float) -> _Candidate:
        result = amp(
            A,
            y,
            self.prior,
            self.variances,
            tol=self.tol,
            max_iter=self.max_iter,
            n_classes=self.classes_.size,
            noise=noise,
        )
        variance = _field_variance(A, result.variance)
        cavity = _cavity(A @ result.weights / math.sqrt(A.shape[1]), y, variance, noise)
        score = float(
            argmax_orthant(cavity, y, (variance + noise)[:, 0], order=_ORDER).log_z.mean()
        )
        return _Candidate(result, noise, cavity, variance, score)

    def _search(self, A: Array, y: NDArray[np.int64]) -> _Candidate:
        """Walk down, else up, the list of noises as long as the leave-one-out score improves."""
        best = self._run(A, y, NOISES[_FIRST])
        for direction in (-1, 1):
            position, moved = _FIRST + direction, False
            while 0 <= position < len(NOISES):
                candidate = self._run(A, y, NOISES[position])
                if candidate.rank <= best.rank:
                    break
                best, moved = candidate, True
                position += direction
            if moved:
                break
        return best


def _field_variance(A: Array, variance: Any) -> Array:
    """Posterior variance (n, 1) of the fields of samples A (n, d), per class direction.

    Of full covariances (d, k, k) on the class differences, or variances (d, k), it takes the mean
    over directions: with one variance for all classes, the likeliest has the largest field.
    """
    C = np.asarray(variance, dtype=float)
    if C.ndim == 3:
        C = np.trace(C, axis1=1, axis2=2) / (C.shape[1] - 1)
    elif C.ndim == 2:
        C = C.mean(1)
    result: Array = (A * A) @ np.broadcast_to(C, (A.shape[1],))[:, None] / A.shape[1]
    return result


def _cavity(fields: Array, y: NDArray[np.int64], variance: Array, noise: float) -> Array:
    """ω with ω + V f(ω) = fields: a contraction, since −V∂f has eigenvalues in [0, 1)."""
    omega = fields.copy()
    for _ in range(100):
        score = argmax_orthant(omega, y, (variance + noise)[:, 0], order=_ORDER).score
        new = fields - variance * score
        change = float(np.abs(new - omega).max())
        omega = new
        if change <= 1e-4 * (1 + float(np.abs(fields).max())):
            break
    return omega


def _offset(cavity: Array, y: NDArray[np.int64], variance: Array) -> Array:
    """b (k,) that maximises the leave-one-out likelihood of the fields ω + b, with b ~ N(0, 1)."""
    k = cavity.shape[1]
    width = variance[:, 0]

    def objective(b: Array) -> tuple[float, Array]:
        channel = argmax_orthant(cavity + b, y, width, order=_ORDER)
        return 0.5 * float(b @ b) - float(channel.log_z.sum()), b - channel.score.sum(0)

    found = scipy.optimize.minimize(objective, np.zeros(k), jac=True, method="BFGS")
    return np.asarray(found.x) if np.isfinite(found.x).all() else np.zeros(k)


def _check_noise(noise: Any) -> float | None:
    """The noise as a number, None for 'auto', or a sentence."""
    if isinstance(noise, str):
        if noise == "auto":
            return None
    elif np.isscalar(noise) and 0 <= float(noise) < math.inf:  # type: ignore[arg-type]
        return float(noise)  # type: ignore[arg-type]
    raise InvalidInput(f"noise must be 'auto' or a finite number of 0 or more, got {noise!r}")
