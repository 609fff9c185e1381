"""The ridge that predicts held-out samples best: how they are held out, and what is scored.

Empirical risk minimisation as a scikit-learn classifier that chooses its own ridge.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if

from polyceptron.algorithms.block_products import short_products
from polyceptron.algorithms.data_checks import Labels, Samples, check_choice, check_samples
from polyceptron.algorithms.erm.erm_fit import stopped_at
from polyceptron.algorithms.erm.fit import fit_erm
from polyceptron.algorithms.linear_classifier import LinearClassifier, Scaling, TrainingData
from polyceptron.algorithms.ridge_choice import (
    Fold,
    RidgePath,
    Score,
    leave_one_out_is_cheaper,
    ridge_path,
)
from polyceptron.errors import InvalidInput
from polyceptron.model.checks import check_ridge
from polyceptron.model.losses import Loss, as_loss
from polyceptron.numerics import Array
from polyceptron.rows import Status

RIDGES = tuple(10.0 ** (p / 2) for p in range(6, -11, -1))
_FOLDS = 5


def choose_ridge(
    samples: Samples,
    loss: Loss,
    ridges: Sequence[float] | None,
    scoring: str,
    cv: Any,
    left_out: Array | None = None,
    seed: Any = 0,
) -> RidgePath:
    """Scores along the ridges, and the best; see `ERMClassifier` for what `cv` may be.

    Of the ridges that are taken without `ridges` the best may lie between two.
    """
    values = [float(ridge) for ridge in (RIDGES if ridges is None else ridges)]
    if not values or min(values) <= 0:
        raise InvalidInput(f"ridges must be numbers above 0, at least one, got {ridges!r}")
    folds = _folds(samples, cv, seed)
    path = ridge_path(samples, loss, values, _score(loss, scoring), folds, left_out)
    between = ridges is None and scoring == "log-loss" and not path.interrupted
    return replace(path, best=_vertex(path)) if between else path


def _vertex(path: RidgePath) -> float:
    """The lowest point of the parabola in ln λ through the best ridge and its neighbours."""
    i = int(path.score.argmin())
    if not 0 < i < path.score.size - 1:
        return path.best
    t, s = np.log(path.ridge[i - 1 : i + 2]), path.score[i - 1 : i + 2]
    bend, slope, _ = np.polyfit(t - t[1], s, 2)
    move = -slope / (2 * bend) if bend > 0 else 0.0
    return float(np.exp(t[1] + np.clip(move, t[2] - t[1], t[0] - t[1])))


def _folds(samples: Samples, cv: Any, seed: Any) -> list[Fold] | None:
    """The held-out samples of each fold; None for leave-one-out."""
    from sklearn.model_selection import StratifiedKFold, check_cv

    if isinstance(cv, str):
        if cv != "leave-one-out":
            raise InvalidInput(
                f"cv must be None, 'leave-one-out', a number of folds or a splitter, got {cv!r}"
            )
        return None
    largest = int(np.bincount(samples.y).max())
    if cv is None:
        if largest < 2 or leave_one_out_is_cheaper(samples.design, samples.n_classes):
            return None
        cv = _FOLDS
    if isinstance(cv, int | np.integer):
        if cv < 2:
            raise InvalidInput(f"cv must be 2 folds or more, got {cv}")
        rare = int(np.bincount(samples.y)[np.unique(samples.y)].min())
        if rare >= cv:
            splitter = StratifiedKFold(int(cv), shuffle=True, random_state=seed)
        else:  # no warning for a class that is not in every fold: the fit knows of it
            return _even_folds(samples.y, int(cv), seed)
    else:
        splitter = check_cv(cv, samples.y, classifier=True)
    n = samples.y.size
    parts = [test for _, test in splitter.split(np.zeros((n, 1)), samples.y)]
    return [np.isin(np.arange(n), part) for part in parts]


def _even_folds(y: Labels, count: int, seed: Any) -> list[Fold]:
    """Each class dealt over the folds as evenly as it goes."""
    from sklearn.utils import check_random_state

    order = check_random_state(seed).permutation(y.size)
    dealt = np.empty(y.size, dtype=np.int64)
    dealt[order[np.argsort(y[order], kind="stable")]] = np.arange(y.size) % min(count, y.size)
    return [dealt == fold for fold in range(min(count, y.size))]


def _score(loss: Loss, scoring: str) -> Score:
    """Errors, or −ln of the label's probability; where there is none, the loss itself."""
    if scoring == "error":
        return lambda z, y: (z.argmax(1) != y).astype(float)
    if loss.solver == "softmax" or loss.probabilities(np.zeros((1, 2))) is None:
        return loss.value

    def log_loss(z: Array, y: Labels) -> Array:
        p = np.asarray(loss.probabilities(z))[np.arange(y.size), y]
        return -np.log(np.maximum(p, np.finfo(float).tiny))

    return log_loss


_INTERCEPT_SCALE = 10.0  # the ridge on an intercept b is (λ/2) b²/100: next to none


def _has_probabilities(classifier: Any) -> bool:
    loss = as_loss(classifier.loss)
    if loss.probabilities(np.zeros((1, 2))) is not None:
        return True
    raise AttributeError(f"the {loss.name} loss has no class probabilities; use cross-entropy")


class ERMClassifier(LinearClassifier):
    """argmin_W Σ s ℓ(Wᵀx/√d + b, y) + (λ/2)‖W‖², with the minimiser certified to `tol`.

    Parameters
    ----------
    loss : str or Loss, default="cross-entropy"
        The name of a registered loss ('cross-entropy', 'square', 'max-margin', which needs
        separable data and ignores the ridge) or a `Loss` of your own.
    ridge : "auto" or float, default="auto"
        λ in the package's convention; in scikit-learn's, C = 1/(λ·n_features). 'auto' chooses the
        one of `ridges` that predicts held-out samples best. 0 is what the loss says it is
        (least norm for the square loss; for cross-entropy max-margin if the data can be separated,
        else maximum likelihood: `separability_` says which, with a proof).
    ridges : list of float, default=None
        What 'auto' chooses from, tried from large to small until the score is clearly worse than
        the best. None: 1000 to 1e-5, two a decade, and by log-loss the lowest point of the parabola
        through the best three.
    scoring : "log-loss" or "error", default="log-loss"
        What 'auto' minimises. For a loss without probabilities 'log-loss' is the loss itself.
    cv : None, "leave-one-out", int or splitter, default=None
        How samples are held out: an approximate leave-one-out with the exact k×k leverage of every
        sample, or folds, of which scikit-learn's splitters or their number is given. None takes the
        cheaper one: leave-one-out for up to 120 weights, else five folds.
    class_weight : None, "balanced" or dict, default=None
        Factors of the samples of each class, as in scikit-learn.
    standardise : bool, default=True
        Scale features to mean 0 and variance 1 first. A sparse X stays sparse.
    fit_intercept : bool, default=True
        Learn a bias for each class, with next to no ridge.
    tol : float, default=1e-8
        Relative distance of the weights to the minimiser.
    verbose : int, default=0
        Say how far the fit is, if it takes longer than 2 seconds.
    random_state : int, default=None
        Shuffles the folds, where there are any; None is 0. The rest is deterministic.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    coef_ : ndarray of shape (n_classes, n_features), or (1, n_features) for two classes
        Weights of the features as they were given.
    intercept_ : ndarray of shape (n_classes,) or (1,)
        The bias.
    ridge_ : float
        The ridge of the fit.
    path_ : dict of ndarrays, if the ridge was chosen
        'ridge', 'score' and 'standard_error' of every ridge tried.
    method_ : str, if the ridge was chosen
        'leave-one-out' or 'cross-validation'.
    separability_ : SeparabilityOfData or None
        Whether the data can be separated, where a ridge of 0 had to find out.
    certificate_ : float
        A bound on the distance of the (scaled) weights to the minimiser.
    n_iter_ : int
        Newton steps of the last fit.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Their names, where X has names.

    Notes
    -----
    A sample of weight 3 is three samples, also in leave-one-out, where one of them is left out.
    `predict_proba` exists where the loss models probabilities, as cross-entropy does.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> found = ERMClassifier().fit(X, y)
    >>> found.score(X, y) > 0.9, found.method_, found.ridge_ < 0.1
    (True, 'leave-one-out', True)
    """

    ridge_: float
    path_: dict[str, Array]
    method_: str

    def __init__(
        self,
        loss: Any = "cross-entropy",
        ridge: float | str = "auto",
        *,
        ridges: Any = None,
        scoring: str = "log-loss",
        cv: Any = None,
        class_weight: Any = None,
        standardise: bool = True,
        fit_intercept: bool = True,
        tol: float = 1e-8,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.loss = loss
        self.ridge = ridge
        self.ridges = ridges
        self.scoring = scoring
        self.cv = cv
        self.class_weight = class_weight
        self.standardise = standardise
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.verbose = verbose
        self.random_state = random_state

    @short_products
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to X (n, d) and labels y (n,) of any type.

        X: dense, sparse, a memory map or a Dask array, none of which is copied if it is large.
        `sample_weight` (n,) multiplies each sample's loss; 0 leaves the sample out.
        """
        data = self._check_training_data(X, y, sample_weight)
        loss = as_loss(self.loss)
        scaling = Scaling.fit(
            data.X, standardise=self.standardise, centre=self.fit_intercept, weights=data.weights
        )
        factors = self._class_factors(data)
        A = self._scaled(data, scaling)
        weights = factors if data.weights is None else data.weights * factors
        samples = check_samples(A, data.y, self.classes_.size, weights)
        ridge, start, stop = self._choose(samples, loss, data, factors)
        if start is not None and stop:
            fit = stopped_at(start, ridge, loss.name)
        else:
            fit = fit_erm(
                samples.design, data.y, loss, ridge, n_classes=samples.n_classes, tol=self.tol,
                start=start, sample_weight=samples.weights, verbose=self.verbose,
            )  # fmt: skip
        d, k = data.X.shape[1], samples.n_classes
        scaled = fit.weights[:d] / math.sqrt(d)
        offset = fit.weights[d] * _INTERCEPT_SCALE if self.fit_intercept else np.zeros(k)
        self._store(scaled, offset, scaling)
        self.ridge_ = ridge
        self.n_iter_ = max(1, fit.n_iter)
        self.certificate_ = fit.distance_bound
        self.separability_ = fit.separability
        if fit.status == Status.INTERRUPTED:
            warnings.warn("the fit was interrupted: what there was by then is used", stacklevel=2)
        elif fit.status != Status.OK:
            warnings.warn(
                f"the weights are certified only to within {fit.distance_bound:.2g} of the "
                f"minimiser (tolerance {self.tol:g} relative); increase the ridge or the tolerance",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def _scaled(self, data: TrainingData, scaling: Scaling) -> Any:
        """The scaled features and a column for the intercept; a design where X is sparse."""
        d = data.X.shape[1]
        if not self.fit_intercept:
            return scaling.apply(data.X)
        stretch = math.sqrt((d + 1) / d)  # the solver divides by √(d + 1)
        return scaling.apply(data.X, stretch, _INTERCEPT_SCALE * math.sqrt(d))

    def _class_factors(self, data: TrainingData) -> Array:
        """Factors (n,) of the samples from the weights of their classes."""
        if self.class_weight is None:
            return np.ones(data.y.size)
        names = self.classes_[data.y]
        found = compute_class_weight(
            self.class_weight, classes=self.classes_, y=names, sample_weight=data.weights
        )
        return np.asarray(found, dtype=float)[data.y]

    def _choose(
        self, samples: Samples, loss: Loss, data: TrainingData, factors: Array
    ) -> tuple[float, Array | None, bool]:
        """The ridge, weights near its minimiser if it was chosen here, and whether in haste."""
        for name in ("path_", "method_"):
            if hasattr(self, name):
                delattr(self, name)
        if not isinstance(self.ridge, str):
            return float(check_ridge(self.ridge)), None, False
        if self.ridge != "auto":
            raise InvalidInput(f"ridge must be 'auto' or a number, got {self.ridge!r}")
        check_choice("scoring", self.scoring, ("log-loss", "error"))
        if loss.scale_free:
            return 0.0, None, False
        ridges = None if self.ridges is None else [float(check_ridge(r)) for r in self.ridges]
        left_out = factors if data.weights is None else factors * np.minimum(data.weights, 1.0)
        seed = 0 if self.random_state is None else self.random_state
        found = choose_ridge(samples, loss, ridges, self.scoring, self.cv, left_out, seed)
        self.path_ = {
            "ridge": found.ridge,
            "score": found.score,
            "standard_error": found.standard_error,
        }
        self.method_ = found.method
        return found.best, found.weights, found.interrupted

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
