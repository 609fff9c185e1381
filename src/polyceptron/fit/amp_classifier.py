"""Bayes-optimal message passing as a scikit-learn classifier.

The model is the paper's: labels are the argmax of linear fields with weights from a prior, here
with noise of the labels, since real ones are never separable by construction. Class probabilities
are those of the posterior: the channel's, at the mean and variance of the fields of a new sample.

Two models of the features A (n, d), which are scaled and centred, each with what predictions need
later. `Correlated`, for a Gaussian prior, keeps the covariance of all weights, in the principal
directions of the features:

    features    F = A P/√d, the projections on the eigenvectors P (d, m) of AᵀA/d, and 1
    prior       weights have the variance 1, the bias 10
    posterior   message passing with the covariance of all weights (`message_passing.iteration`)

`Independent`, for any prior and any number of features, runs Algorithm 1, which is derived for
independent inputs. The singular values of such an n × d matrix of unit variance stay below √n + √d;
correlated features have larger ones, and the iteration then oscillates or diverges. So directions
above that edge are first shrunk to it, and all others left alone:

    x ↦ x + Σ_i (edge/s_i − 1)(x·v_i) v_i,     over singular values s_i > edge of A,

with the eigenvectors v_i of AᵀA/d, whose eigenvalues are s_i²/d.

On independent inputs that is the identity. (Whitening all directions would amplify quiet ones.)

At a fixed point the cavity field of a training sample (alg:amp of the paper), ω = xŴ/√d − V f, is
the field predicted by all *other* samples. V is the posterior variance of the sample's field, f its
own score ∂_ω ln Z (eq:f_out), with the probability Z of its label. ln Z at the cavity field is a
leave-one-out score, without a refit: it chooses the variance Δ of the noise (`noise_search`), and
sets the intercept of `Independent`. Its mean and standard error are `log_loss_`. Only Δ relative to
the prior matters, so that a search over Δ is one over the scale of the prior too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.optimize
from scipy.special import softmax
from sklearn.exceptions import ConvergenceWarning

from polyceptron.data.checks import Labels, check_choice
from polyceptron.data.design import ColumnMoments, Design, threads_of_data
from polyceptron.data.stored_designs import BlockwiseDesign, open_design
from polyceptron.errors import InvalidInput
from polyceptron.fit import linear_classifier as linear
from polyceptron.fit.noise_search import NoiseGrid, best_posterior
from polyceptron.message_passing.correlated import Posterior, correlated_amp
from polyceptron.message_passing.posterior_mean import amp
from polyceptron.numerics import AnyArray, Array
from polyceptron.problem.channels import Channel, as_channel
from polyceptron.problem.priors import as_prior
from polyceptron.rows import Status

# Directions and entries of F beyond which features are taken to be independent: a fit is then
# a minute.
MOST_DIRECTIONS = 1000
MOST_ENTRIES = 30_000_000
SMALLEST_EIGENVALUE = 1e-10  # of the largest: nothing is known along smaller ones
CHANNEL_NODES = 12  # of the channel's integral: 6 digits
FLUCTUATIONS_OF_EDGE = 1.05  # independent inputs exceed the edge by their fluctuations
# Prior variances of the bias, beside 1 of the weights: choices. In `Independent` the column of ones
# has a weight with the prior of all weights, to which the correction is added.
VARIANCE_OF_BIAS = 10.0
VARIANCE_OF_CORRECTION = 1.0

# A model of the features, weights (d, k) and offset (k,) of the fields, and their posterior.
_Fit = tuple["Correlated | Independent", Array, Array, Posterior]

GRID_OF_CORRELATED = NoiseGrid(tuple(10.0 ** (p / 2) for p in range(-8, 5)), 7, 1e-2)
GRID_OF_INDEPENDENT = NoiseGrid((0.0, 0.01, 0.05, 0.2, 1.0, 5.0), 2, 0.0)


def principal(design: Design) -> tuple[Array, Array]:
    """Eigenvalues s²/d (m,) of AᵀA/d from large to small, and its eigenvectors (d, m).

    Directions in which the features do not vary are left out.
    """
    # gram() is AᵀA/d (d, d), or AAᵀ/d (n, n) where n < d, whose eigenvectors Aᵀ takes to those of
    # AᵀA/d, times the root of the eigenvalue.
    squares, vectors = np.linalg.eigh(design.gram())
    kept = squares > SMALLEST_EIGENVALUE * max(float(squares[-1]), 1e-300)
    squares, vectors = squares[kept][::-1], vectors[:, kept][:, ::-1]
    if design.n_samples < design.dimension:
        vectors = design.back(np.ascontiguousarray(vectors.T)).T / np.sqrt(squares)
    return squares, np.ascontiguousarray(vectors)


@dataclass(frozen=True)
class Correlated:
    """The covariance of all weights, in principal directions (d, m) and the bias."""

    directions: Array
    bias: bool
    ones = False

    @classmethod
    def fit(cls, design: Design, y: Labels, noise: Channel | None, model: AMPClassifier) -> _Fit:
        """Fit to samples with labels y (n,), at a noise, or choose it if it is None."""
        features = cls(principal(design)[1], model.fit_intercept)
        F = features.projections(design)
        m = features.directions.shape[1]
        prior = np.append(np.ones(m), [VARIANCE_OF_BIAS] * features.bias)

        def run(channel: Channel, tol: float, near: Posterior | None) -> Posterior:
            """Run message passing at one noise, from the end of a run at another if given."""
            return correlated_amp(
                F,
                y,
                model.classes_.size,
                prior,
                channel,
                tol=tol,
                max_iter=model.max_iter,
                start=near.end.last if near is not None and near.converged else None,
            )

        best = best_posterior(run, noise, model.tol, GRID_OF_CORRELATED)
        weights = features.directions @ best.mean[:m] / math.sqrt(design.dimension)
        offset = best.mean[m] if features.bias else np.zeros(model.classes_.size)
        return features, weights, offset, best

    def projections(self, design: Design) -> Array:
        """F (n, m), with a column of ones behind it if there is a bias."""
        F = design.fields(np.ascontiguousarray(self.directions.T)).T
        return np.hstack([F, np.ones((len(F), 1))]) if self.bias else np.ascontiguousarray(F)

    def field_variance(self, design: Design, covariance: Any) -> Array:
        """Return the variance f C fᵀ (n,) of each sample's field, f being its row of F."""
        F = self.projections(design)
        return np.asarray(np.einsum("ij,ij->i", F @ covariance, F))


@dataclass(frozen=True)
class Independent:
    """A variance of each weight, or one of all, of features that are shrunk along loud directions.

    Attributes
    ----------
    directions, factors : array (d, c), (c,)
        The loud directions, with singular values above the edge, and by what factors edge/s they
        are shrunk.
    ones : bool
        Whether the last feature is a column of ones, for the bias.
    """

    directions: Array
    factors: Array
    ones: bool = False

    @classmethod
    def of(cls, A: Any, ones: bool = False) -> Self:
        """The map for the matrix or design A (n, d) of unit-variance features."""
        design = open_design(A)
        n, d = design.shape
        edge = FLUCTUATIONS_OF_EDGE * (math.sqrt(n) + math.sqrt(d))
        squares, directions = principal(design)
        loud = squares > edge**2 / d  # `squares` are s²/d
        return cls(directions[:, loud], edge / np.sqrt(squares[loud] * d), ones)

    @classmethod
    def fit(cls, design: Design, y: Labels, noise: Channel | None, model: AMPClassifier) -> _Fit:
        """Fit to samples with labels y (n,), at a noise, or choose it if it is None."""
        features = cls.of(design, model.fit_intercept)
        inside = features.design(design)
        # Every run begins anew, at the classifier's own tolerance: that of this grid is 0.
        best = best_posterior(
            lambda channel, *_: left_out(inside, y, channel, model),
            noise,
            model.tol,
            GRID_OF_INDEPENDENT,
        )
        weights = features.apply(best.mean.T).T / math.sqrt(design.dimension)
        offset = np.zeros(model.classes_.size)
        if model.fit_intercept:
            offset = weights[-1] + best_intercept(best, y)
            weights = weights[:-1]
        return features, weights, offset, best

    def apply(self, A: Array) -> Array:
        """Shrunk features (n, d); weights (k, d) of these as weights of the features themselves."""
        return np.asarray(A + ((A @ self.directions) * (self.factors - 1)) @ self.directions.T)

    def design(self, base: Design) -> Design:
        """The design of the shrunk features, none of which is written down."""
        return base if self.factors.size == 0 else _Shrunk(base, self.apply)

    def field_variance(self, design: Design, variance: Any) -> Array:
        """Return the variance (n,) of each sample's field, of independent weights."""
        return independent_variance(self.design(design), variance)


def left_out(design: Design, y: Labels, channel: Channel, model: AMPClassifier) -> Posterior:
    """Return the posterior by Algorithm 1 at this noise, with the cavity fields of the samples.

    `amp` returns weights (d, k), their variance, a number or (d, k, k), and scores f (n, k). With
    the matrices too, one variance for each sample stands for that of its field: the mean over the
    directions of class differences.
    """
    result = amp(
        design,
        y,
        model.prior,
        model.variances_,
        tol=model.tol,
        max_iter=model.max_iter,
        n_classes=model.classes_.size,
        noise=channel,
        verbose=model.verbose,
    )
    V = result.variance
    if model.variances_ == "full":
        variance = independent_variance(design, V)
    else:
        variance = np.full(y.size, float(V))
    fields = design.fields(np.ascontiguousarray(result.weights.T)).T
    cavity = fields - variance[:, None] * result.scores
    variance = np.maximum(variance, 1e-300)
    log_chance = channel.posterior(cavity, y, variance, CHANNEL_NODES).log_z
    return Posterior(channel, result.weights, V, cavity, variance, log_chance, result)


def independent_variance(design: Design, variance: Any) -> Array:
    """Posterior variance (n,) of the fields of a design's samples, the mean over directions.

    `variance` of the weights is a number, (d,), (d, k), or covariances (d, k, k), whose rank is
    k − 1: they have no part that is common to all classes. The mean is taken so that one variance
    serves all classes: the likeliest then is the one of the largest field.
    """
    C = np.asarray(variance, dtype=float)
    if C.ndim == 3:
        C = np.trace(C, axis1=1, axis2=2) / (C.shape[1] - 1)
    elif C.ndim == 2:
        C = C.mean(1)
    return design.fields_squared(np.broadcast_to(C, (1, design.dimension)))[0]


def best_intercept(found: Posterior, y: Labels) -> Array:
    """b (k,) that maximises the leave-one-out likelihood of the fields ω + b, with b ~ N(0, 1).

    Where that has no finite maximum to the search, b is 0.
    """
    k = found.cavity.shape[1]

    def objective(b: Array) -> tuple[float, Array]:
        """Return minus the penalised log-likelihood at b (k,), and its gradient (k,)."""
        at = found.channel.posterior(found.cavity + b, y, found.variance, CHANNEL_NODES)
        penalty = 0.5 * float(b @ b) / VARIANCE_OF_CORRECTION
        gradient = b / VARIANCE_OF_CORRECTION - at.score.sum(0)
        return penalty - float(at.log_z.sum()), gradient

    answer = scipy.optimize.minimize(objective, np.zeros(k), jac=True, method="BFGS")
    return np.asarray(answer.x) if np.isfinite(answer.x).all() else np.zeros(k)


class _Shrunk(BlockwiseDesign):
    """The rows of `base` under the map S of `Independent.apply`, which is symmetric.

    Products with AS are then those of `base` with mapped weights: ASUᵀ = A(US)ᵀ and FAS = (FA)S.
    """

    def __init__(self, base: Design, shrink: Callable[[Array], Array]) -> None:
        super().__init__(base, shrink, base.dimension)
        self.reading_is_dear = base.reading_is_dear

    def times_columns(self, small: AnyArray) -> AnyArray:
        """Return small Aᵀ, (m, d) to (m, n), of the mapped features A."""
        return self.base.times_columns(self._map(small).astype(small.dtype, copy=False))

    def through(self, U: AnyArray, inner: Any) -> tuple[AnyArray, list[Any]]:
        """Return FA/√d (..., d) with F = inner(AUᵀ/√d), A mapped, and what else `inner` gave."""
        self.count(U.dtype)  # a read of X in this precision; `fields` and `back` count theirs
        back, rest = self.base.through(self._map(U).astype(U.dtype, copy=False), inner)
        return self._map(back).astype(U.dtype, copy=False), rest

    def times_rows(self, small: AnyArray) -> AnyArray:
        """Return small A, (m, n) to (m, d), of the mapped features A."""
        return self._map(self.base.times_rows(small)).astype(small.dtype, copy=False)


class _ScaledFit(NamedTuple):
    """A fit to features of one scaling: weights (d, k) and offset (k,) of the scaled features."""

    scaling: linear.Scaling
    model: Correlated | Independent
    weights: Array
    offset: Array
    posterior: Posterior


@dataclass(eq=False, repr=False)  # scikit-learn has its own
class AMPClassifier(linear.LinearClassifier):
    """Posterior-mean classifier by approximate message passing.

    Parameters
    ----------
    prior : str, tuple or Prior, default="gaussian"
        Distribution of the weights: the name of a registered prior, (values, probabilities) or a
        `Prior`.
    variances : "auto", "correlated", "shared" or "full", default="auto"
        What to compute of the weights' posterior besides its mean: 'correlated' is the covariance
        between all features (for a Gaussian prior only); 'shared' and 'full' are those of
        `polyceptron.amp`, which takes features to be independent. 'auto' is 'correlated' where
        prior and size allow, else 'shared'.
    noise : str or Channel, default="auto"
        Noise of the labels: the name of a registered noise such as 'none', 'gaussian:0.1' or
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
        Largest number of iterations of message passing at one noise.
    verbose : int, default=0
        Show the progress of message passing, if it takes longer than 2 seconds.
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
        Leave-one-out log-loss of the fit and its standard error, in which left-out samples count as
        independent and the choice of noise and scaling is left out.
    converged_ : bool
        Whether message passing converged.
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

    @threads_of_data
    def fit(self, X: Any, y: Any) -> Self:
        """Fit to X (n, d) and labels y (n,) of any type.

        X: dense, sparse, a memory map or a Dask array, none of which is copied if it is large.
        There is no `sample_weight`: the posterior is that of samples, each drawn once.
        """
        X, index = self._check_training_data(X, y)[:2]
        noise = self._checked_noise()
        moments = open_design(X).column_moments()
        fits: dict[str, _ScaledFit] = {}
        for kind in self._kinds_of_scaling(noise, moments):
            fits[kind] = self._fit_scaled(X, index, kind, moments, noise)
            if fits[kind].posterior.end.status == Status.INTERRUPTED:
                break
        self.scaling_ = max(fits, key=lambda kind: fits[kind].posterior.rank)
        self._take(fits[self.scaling_], X.shape[1])
        return self

    def _checked_noise(self) -> Channel | None:
        """Return the noise that is given, None if it is to be chosen; check the other choices."""
        check_choice("scaling", self.scaling, linear.SCALINGS)
        check_choice("variances", self.variances, ("auto", "correlated", "shared", "full"))
        if self.variances == "correlated" and not as_prior(self.prior).gaussian:
            raise InvalidInput(
                f"variances='correlated' needs the Gaussian prior, got {self.prior!r}: use 'shared'"
            )
        if isinstance(self.noise, str) and self.noise == "auto":
            return None
        try:
            return as_channel(self.noise)
        except InvalidInput as error:
            raise InvalidInput(f"{error}, and 'auto'") from None

    def _kinds_of_scaling(self, noise: Channel | None, moments: ColumnMoments) -> list[str]:
        """Return the scalings to compare: one alone where the noise is given."""
        if noise is not None and self.scaling == "auto":
            return ["standard"]
        return linear.Scaling.kinds(self.scaling, moments)

    def _kind_of_variances(self, n: int, n_varying: int) -> str:
        """Return what is kept of the posterior for n samples of so many features."""
        if self.variances != "auto":
            return self.variances
        m = min(n, n_varying)
        small = m <= MOST_DIRECTIONS and n * m <= MOST_ENTRIES
        if as_prior(self.prior).gaussian and small:
            return "correlated"
        return "shared"

    def _fit_scaled(
        self, X: Any, index: Labels, kind: str, moments: ColumnMoments, noise: Channel | None
    ) -> _ScaledFit:
        """Fit to features of one scaling."""
        scaling = linear.Scaling.of(moments, kind, centre=self.fit_intercept)
        if not scaling.varying.any():
            raise ValueError("every feature is constant: there is nothing to learn from")
        self.variances_ = self._kind_of_variances(X.shape[0], int(scaling.varying.sum()))
        if self.variances_ == "correlated":
            design = scaling.design(X, varying=True)
            return _ScaledFit(scaling, *Correlated.fit(design, index, noise, self))
        ones = 1.0 if self.fit_intercept else None
        design = scaling.design(X, constant=ones, varying=True)
        return _ScaledFit(scaling, *Independent.fit(design, index, noise, self))

    def _take(self, chosen: _ScaledFit, n_features: int) -> None:
        """Keep what predictions need of a fit, and warn if it is not what was asked for."""
        self._scaling = chosen.scaling
        self._feature_model = chosen.model
        weights = np.zeros((n_features, self.classes_.size))
        weights[chosen.scaling.varying] = chosen.weights
        self._store(weights, chosen.offset, chosen.scaling)
        posterior = chosen.posterior
        self.converged_ = posterior.converged
        self.noise_ = posterior.channel
        self.variance_ = posterior.covariance
        self.n_iter_ = max(1, posterior.end.n_iter)
        losses = -posterior.log_chance
        self.log_loss_ = float(losses.mean()), float(losses.std() / math.sqrt(losses.size))
        self._warn_of(posterior.end)

    def _warn_of(self, end: Any) -> None:
        """Warn of a fit that was interrupted or did not converge."""
        if end.status == Status.INTERRUPTED:
            linear.warn_caller("the fit was interrupted: what there was by then is used")
        elif not self.converged_:
            linear.warn_caller(
                f"message passing did not converge in {end.n_iter} iterations, with damping up to "
                f"{end.damping:g}: the best iterate is used; try a larger noise or max_iter, or "
                "ERMClassifier",
                ConvergenceWarning,
            )

    def decision_function(self, X: Any) -> Array:
        """Class fields in units of the width over which the label is undecided at x, (n, k).

        For two classes the difference (n,) of second and first, of which `predict_proba` is the
        normal distribution function if the noise is Gaussian. The fields themselves are
        X·coef_ᵀ + intercept_.
        """
        omega, variance = self._predictive(X)
        scores: Array = omega / np.array([[self.noise_.width(float(v))] for v in variance])
        if scores.shape[1] == 2:
            scores = (scores[:, 1] - scores[:, 0]) / math.sqrt(2)
        return self._like(X, scores)

    def predict_proba(self, X: Any) -> Array:
        """Posterior probability of each class, (n, k)."""
        omega, variance = self._predictive(X)
        logs = [self.noise_.posterior(omega, c, variance).log_z for c in range(omega.shape[1])]
        return self._like(X, softmax(np.column_stack(logs), axis=1))

    def _predictive(self, X: Any) -> tuple[Array, Array]:
        """Mean (n, k) and variance (n,) of the fields of new samples."""
        X = self._features(X)
        ones = 1.0 if self._feature_model.ones else None
        design = self._scaling.design(X, constant=ones, varying=True)
        variance = self._feature_model.field_variance(design, self.variance_)
        return linear.fields_at(X, *self._class_weights), np.maximum(variance, 1e-300)
