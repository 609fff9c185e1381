"""Bayes-optimal message passing as a scikit-learn classifier.

The model is the paper's: labels are the argmax of linear fields with weights from a prior, here
with noise of the labels, since real ones are never separable by construction. Class probabilities
are those of the posterior: the channel's, at the mean and variance of the fields of a new sample.

Features of data are correlated. With a Gaussian prior the posterior keeps the covariance of all
weights (`principal`); with any other prior, or too many features for that, Algorithm 1 runs on
features made fit for it (`compression`).
"""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from polyceptron.algorithms.choose_ridge import choose_ridge
from polyceptron.algorithms.compression import Compression
from polyceptron.algorithms.data_checks import Labels, Samples, check_choice
from polyceptron.algorithms.design import Design
from polyceptron.algorithms.leave_one_out import (
    NoiseSearch,
    best_intercept,
    field_variance,
    run_at,
    search_noise,
)
from polyceptron.algorithms.linear_classifier import Array, LinearClassifier, Scaling, fields_at
from polyceptron.algorithms.mapped_design import BlockwiseDesign, ScaleRows
from polyceptron.algorithms.message_passing.damped_iteration import Ending
from polyceptron.algorithms.open_design import as_design
from polyceptron.algorithms.principal import (
    MOST_DIRECTIONS,
    MOST_ENTRIES,
    Principal,
    fit_principal,
)
from polyceptron.errors import InvalidInput
from polyceptron.model.channels import CHANNELS, Channel, as_channel
from polyceptron.model.losses import CrossEntropy
from polyceptron.model.priors import as_prior
from polyceptron.rows import Status

_RIVAL_RIDGES = tuple(10.0**p for p in range(2, -6, -1))  # enough to know how good its best is


class _Found(NamedTuple):
    """Weights (d, k) and offset (k,) of scaled features, what was used, and how it ended."""

    weights: Array
    offset: Array
    channel: Channel
    variance: Any
    log_chance: Array
    end: Any


class AMPClassifier(LinearClassifier):
    """Posterior-mean classifier by approximate message passing.

    Parameters
    ----------
    prior : str, tuple or Prior, default="gaussian"
        Of the weights: the name of a registered prior, (values, probabilities) or a `Prior`.
    variances : "auto", "correlated", "shared" or "full", default="auto"
        What is kept of the weights' posterior besides its mean: the covariance between all features
        (a Gaussian prior only), or what `polyceptron.amp` keeps, which takes features to be
        independent. 'auto' is 'correlated' where prior and size allow, else 'shared'.
    noise : str or Channel, default="auto"
        Of the labels: the name of a registered noise such as 'none', 'gaussian:0.1' or
        'flips:0.05', a `Channel`, or 'auto': Gaussian, its variance chosen by leave-one-out, and
        with it the prior's scale along the principal directions.
    compare : bool, default=True
        Whether to find out how cross-entropy with its best ridge predicts held-out samples, and to
        warn if it is better by more than a standard error.
    standardise : bool, default=True
        Scale features to mean 0 and variance 1 first, which the prior assumes.
    fit_intercept : bool, default=True
        Learn a bias for each class.
    compress : bool, default=True
        Shrink directions in which correlated features are too loud for 'shared' and 'full'.
    tol : float, default=1e-3
        Relative change at which message passing has converged.
    max_iter : int, default=200
        Most iterations of message passing at one noise.
    verbose : int, default=0
        Say how far message passing is, if it takes longer than 2 seconds.
    random_state : int, default=None
        Accepted for pipelines that set it; the fit is deterministic.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    coef_ : ndarray of shape (n_classes, n_features), or (1, n_features) for two classes
        Posterior mean of the weights of the features as they were given.
    intercept_ : ndarray of shape (n_classes,) or (1,)
        The bias.
    noise_ : Channel
        The noise of the fit.
    variances_ : str
        'correlated', 'shared' or 'full'.
    variance_ : float or ndarray
        Posterior variance of the weights per class direction: the covariance (m, m) in principal
        directions (the bias last) if 'correlated', else that of `polyceptron.amp`.
    log_loss_ : tuple of float
        Leave-one-out log-loss of the fit and its standard error.
    rival_log_loss_ : tuple of float, if compared
        Held-out log-loss of cross-entropy at its best ridge and its standard error.
    converged_ : bool
        Whether message passing did.
    n_iter_ : int
        Iterations of the last run.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Their names, where X has names.

    Notes
    -----
    On data drawn from the model (`fit_intercept=False`, its own noise) probabilities are
    calibrated. Where message passing does not converge even with damping, the best iterate is used
    and a ConvergenceWarning says so.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> AMPClassifier(noise="gaussian:0.1").fit(X, y).score(X, y) > 0.9
    True
    """

    noise_: Channel

    def __init__(
        self,
        prior: Any = "gaussian",
        variances: str = "auto",
        noise: Any = "auto",
        *,
        compare: bool = True,
        standardise: bool = True,
        fit_intercept: bool = True,
        compress: bool = True,
        tol: float = 1e-3,
        max_iter: int = 200,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.prior = prior
        self.variances = variances
        self.noise = noise
        self.compare = compare
        self.standardise = standardise
        self.fit_intercept = fit_intercept
        self.compress = compress
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to X (n, d) and labels y (n,) of any type.

        X: dense, sparse, a memory map or a Dask array, none of which is copied if it is large.
        """
        X, index, _ = self._check_training_data(X, y)
        noise = _check_noise(self.noise)
        self._scaling = Scaling.fit(X, standardise=self.standardise, centre=self.fit_intercept)
        self._kept = self._scaling.part(self._scaling.varying)
        if self._kept.scale.size == 0:
            raise ValueError("every feature is constant: there is nothing to learn from")
        self.variances_ = self._way(X.shape[0])
        fit = self._fit_correlated if self.variances_ == "correlated" else self._fit_independent
        found = fit(X, index, noise)
        full = np.zeros((X.shape[1], self.classes_.size))
        full[self._scaling.varying] = found.weights
        self._store(full, found.offset, self._scaling)
        self.variance_, self.noise_ = found.variance, found.channel
        self.n_iter_ = max(1, found.end.n_iter)
        self.converged_ = found.end.status == Status.OK
        self.log_loss_ = _mean_and_error(-found.log_chance)
        self._warn(found.end, X, index)
        return self

    def _way(self, n: int) -> str:
        """The kind of variances meant, or a sentence."""
        check_choice("variances", self.variances, ("auto", "correlated", "shared", "full"))
        gaussian = as_prior(self.prior).name == "gaussian"
        m = min(n, self._kept.scale.size)
        if self.variances == "auto":
            small = m <= MOST_DIRECTIONS and n * m <= MOST_ENTRIES
            return "correlated" if gaussian and small else "shared"
        if self.variances == "correlated" and not gaussian:
            raise InvalidInput(
                f"variances='correlated' needs the Gaussian prior, got {self.prior!r}: use 'shared'"
            )
        return self.variances

    def _fit_correlated(self, X: Any, y: Labels, noise: Channel | None) -> _Found:
        design, k = self._design(X), self.classes_.size
        self._principal = Principal.fit(design)
        F = self._principal.features(design, self.fit_intercept)
        found = fit_principal(
            F, y, k, self._principal, noise, bias=self.fit_intercept, tol=self.tol,
            max_iter=self.max_iter,
        )  # fmt: skip
        mean, m = found.posterior.mean, self._principal.squares.size
        weights = self._principal.directions @ mean[:m] / math.sqrt(design.dimension)
        offset = mean[m] if self.fit_intercept else np.zeros(k)
        posterior = found.posterior
        return _Found(
            weights, offset, found.channel, posterior.covariance, posterior.log_chance,
            posterior.end,
        )  # fmt: skip

    def _fit_independent(self, X: Any, y: Labels, noise: Channel | None) -> _Found:
        design, k = self._design(X, ones=self.fit_intercept), self.classes_.size
        nothing = Compression.none(design.dimension)
        self._compression = Compression.fit(design) if self.compress else nothing
        A = self._compression.design(design)
        problem = NoiseSearch(
            A, y, k, self.prior, self.variances_, self.tol, self.max_iter, self.verbose
        )
        best = search_noise(problem) if noise is None else run_at(problem, noise)
        weights = self._compression.pull_back(best.result.weights) / math.sqrt(design.dimension)
        offset = np.zeros(k)
        if self.fit_intercept:
            offset = weights[-1] + best_intercept(best, y)
            weights = weights[:-1]
        return _Found(
            weights, offset, best.channel, best.result.variance, best.log_chance, best.result
        )

    def _design(self, X: Any, *, ones: bool = False) -> Design:
        """The features that vary, scaled; for `ones`, a column of them behind."""
        column = 1.0 if ones else None
        if isinstance(X, Design):
            scaling = self._scaling
            rows = ScaleRows(scaling.shift, scaling.scale, scaling.varying, column)
            return as_design(BlockwiseDesign(X, rows, rows.dimension))
        part = X if self._scaling.varying.all() else X[:, np.flatnonzero(self._scaling.varying)]
        return as_design(self._kept.apply(part, constant=column))

    def _warn(self, end: Ending, X: Any, y: Labels) -> None:
        """Say that message passing did not converge, or that another classifier does better."""
        if not self.converged_:
            warnings.warn(
                f"message passing did not converge in {end.n_iter} iterations, with damping up to "
                f"{end.damping:g}: the best iterate is used; try a larger noise or max_iter, or "
                "ERMClassifier",
                ConvergenceWarning,
                stacklevel=3,
            )
        if not self.compare:
            return
        samples = Samples(self._design(X, ones=self.fit_intercept), y, self.classes_.size)
        path = choose_ridge(samples, CrossEntropy(), _RIVAL_RIDGES, "log-loss", None)
        best = int(path.score.argmin())
        self.rival_log_loss_ = float(path.score[best]), float(path.standard_error[best])
        own, (rival, doubt) = self.log_loss_[0], self.rival_log_loss_
        if own > rival + doubt:
            warnings.warn(
                f"ERMClassifier is the better choice for these data: it has a held-out log-loss of "
                f"{rival:.3g} ± {doubt:.1g} at ridge {path.best:.2g}, message passing {own:.3g}",
                UserWarning,
                stacklevel=3,
            )

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
        X = self._features(X)
        omega = fields_at(X, *self._class_weights)
        if self.variances_ == "correlated":
            F = self._principal.features(self._design(X), self.fit_intercept)
            variance = np.einsum("ij,ij->i", F @ self.variance_, F)
        else:
            design = self._compression.design(self._design(X, ones=self.fit_intercept))
            variance = field_variance(design, self.variance_)
        return omega, np.maximum(variance, 1e-300)


def _mean_and_error(values: Array) -> tuple[float, float]:
    """A mean and its standard error."""
    return float(values.mean()), float(values.std() / math.sqrt(values.size))


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
