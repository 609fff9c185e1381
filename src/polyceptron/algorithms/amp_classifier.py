"""Bayes-optimal message passing as a scikit-learn classifier.

The model is the paper's: labels are the argmax of linear fields with weights from a prior, here
with noise of the labels, since real ones are never separable by construction. Class probabilities
are those of the posterior: the channel's, at the mean and variance of the fields of a new sample.
`noise_search` has the two models of the features that lead to the weights.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from polyceptron.algorithms import noise_search
from polyceptron.algorithms.data_checks import check_choice
from polyceptron.algorithms.design import short_products
from polyceptron.algorithms.linear_classifier import (
    SCALINGS,
    LinearClassifier,
    Scaling,
    fields_at,
    warn_caller,
)
from polyceptron.algorithms.stored_designs import open_design
from polyceptron.errors import InvalidInput
from polyceptron.model.channels import as_channel
from polyceptron.model.priors import as_prior
from polyceptron.numerics import Array
from polyceptron.rows import Status


@dataclass(eq=False, repr=False)  # scikit-learn has its own
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
        'flips:0.05', a `Channel`, or 'auto': Gaussian, its variance chosen by leave-one-out.
    scaling : "auto", "standard", "global" or "none", default="auto"
        Divide each feature by its standard deviation, all by one number, or none. 'auto' is, with
        a noise that is chosen, the one of 'standard' and 'global' of the better leave-one-out
        score; with one that is given, 'standard'.
    fit_intercept : bool, default=True
        Learn a bias for each class.
    tol : float, default=1e-3
        Relative change at which message passing has converged.
    max_iter : int, default=200
        Most iterations of message passing at one noise.
    verbose : int, default=0
        Show how far message passing is, if it takes longer than 2 seconds.
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
    scaling_ : str
        The scaling of the fit.
    variances_ : str
        'correlated', 'shared' or 'full'.
    variance_ : float or ndarray
        Posterior variance of the weights per class direction: the covariance (m, m) in principal
        directions (the bias last) if 'correlated', else that of `polyceptron.amp`.
    log_loss_ : tuple of float
        Leave-one-out log-loss of the fit and its standard error.
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
    with a ConvergenceWarning.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> AMPClassifier(noise="gaussian:0.1").fit(X, y).score(X, y) > 0.9
    True
    """

    prior: Any = "gaussian"
    variances: str = "auto"
    noise: Any = "auto"
    _: KW_ONLY
    scaling: str = "auto"
    fit_intercept: bool = True
    tol: float = 1e-3
    max_iter: int = 200
    verbose: int = 0
    random_state: Any = None

    @short_products
    def fit(self, X: Any, y: Any) -> Self:
        """Fit to X (n, d) and labels y (n,) of any type.

        X: dense, sparse, a memory map or a Dask array, none of which is copied if it is large.
        There is no `sample_weight`: the posterior is that of samples, each drawn once.
        """
        X, index = self._check_training_data(X, y)[:2]
        check_choice("scaling", self.scaling, SCALINGS)
        check_choice("variances", self.variances, ("auto", "correlated", "shared", "full"))
        gaussian = as_prior(self.prior).gaussian
        if self.variances == "correlated" and not gaussian:
            raise InvalidInput(
                f"variances='correlated' needs the Gaussian prior, got {self.prior!r}: use 'shared'"
            )
        try:
            auto = isinstance(self.noise, str) and self.noise == "auto"
            noise = None if auto else as_channel(self.noise)
        except InvalidInput as error:
            raise InvalidInput(f"{error}, and 'auto'") from None
        moments = open_design(X).column_moments()
        given = noise is not None and self.scaling == "auto"
        kinds = ["standard"] if given else Scaling.kinds(self.scaling, moments)
        found = {}
        for kind in kinds:
            scaling = Scaling.of(moments, kind, centre=self.fit_intercept)
            if not scaling.varying.any():
                raise ValueError("every feature is constant: there is nothing to learn from")
            n, m = X.shape[0], min(X.shape[0], int(scaling.varying.sum()))
            small = m <= noise_search.MOST_DIRECTIONS and n * m <= noise_search.MOST_ENTRIES
            self.variances_ = self.variances
            if self.variances == "auto":
                self.variances_ = "correlated" if gaussian and small else "shared"
            asked = noise_search.Asked(
                index, self.classes_.size, noise, self.fit_intercept, self.prior, self.variances_,
                self.tol, self.max_iter, self.verbose,
            )  # fmt: skip
            if self.variances_ == "correlated":
                design = scaling.design(X, varying=True)
                made: tuple[Any, ...] = noise_search.Correlated.fit(design, asked)
            else:
                ones = 1.0 if self.fit_intercept else None
                design = scaling.design(X, constant=ones, varying=True)
                made = noise_search.Independent.fit(design, asked)
            found[kind] = scaling, *made
            if made[-1].end.status == Status.INTERRUPTED:
                break
        self.scaling_ = max(found, key=lambda kind: found[kind][-1].rank)
        self._scaling, self._way, weights, offset, posterior = found[self.scaling_]
        full = np.zeros((X.shape[1], self.classes_.size))
        full[self._scaling.varying] = weights
        self._store(full, offset, self._scaling)
        self.noise_, self.variance_ = posterior.channel, posterior.covariance
        end, losses = posterior.end, -posterior.log_chance
        self.n_iter_ = max(1, end.n_iter)
        self.converged_ = posterior.converged
        self.log_loss_ = float(losses.mean()), float(losses.std() / math.sqrt(losses.size))
        if end.status == Status.INTERRUPTED:
            warn_caller("the fit was interrupted: what there was by then is used")
        elif not self.converged_:
            warn_caller(
                f"message passing did not converge in {end.n_iter} iterations, with damping up to "
                f"{end.damping:g}: the best iterate is used; try a larger noise or max_iter, or "
                "ERMClassifier",
                ConvergenceWarning,
            )
        return self

    def decision_function(self, X: Any) -> Array:
        """Class fields in units of the width over which the label is undecided at x, (n, k).

        For two classes the difference (n,) of second and first, of which `predict_proba` is the
        normal distribution function if the noise is Gaussian. The fields themselves are
        X·coef_ᵀ + intercept_.
        """
        omega, variance = self._predictive(X)
        width = np.array([self.noise_.width(float(v)) for v in variance])
        scores: Array = omega / width[:, None]
        if scores.shape[1] == 2:
            scores = (scores[:, 1] - scores[:, 0]) / math.sqrt(2)
        return self._like(X, scores)

    def predict_proba(self, X: Any) -> Array:
        """Posterior probability of each class, (n, k)."""
        omega, variance = self._predictive(X)
        log_chances = np.column_stack(
            [self.noise_.posterior(omega, label, variance).log_z for label in range(omega.shape[1])]
        )
        chances = np.exp(log_chances - log_chances.max(1, keepdims=True))
        return self._like(X, np.asarray(chances / chances.sum(1, keepdims=True)))

    def _predictive(self, X: Any) -> tuple[Array, Array]:
        """Mean (n, k) and variance (n,) of the fields of new samples."""
        X = self._features(X)
        omega = fields_at(X, *self._class_weights)
        ones = 1.0 if self._way.ones else None
        design = self._scaling.design(X, constant=ones, varying=True)
        variance = self._way.field_variance(design, self.variance_)
        return omega, np.maximum(variance, 1e-300)
