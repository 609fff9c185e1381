"""Empirical risk minimisation as a scikit-learn classifier that chooses its own ridge and scaling.

    Ŵ, b̂ = argmin Σ_μ s_μ ℓ(Wᵀx_μ/√d + b, y_μ) + (λ/2)‖W‖²

The intercept is free: it is the weight of a column of equal entries c, whose ridge is λ/c², with c
so large that this is next to nothing beside the samples' own curvature. Which samples are held out
is decided here (`_splits`); how they are predicted along the ridges in `ridge_choice`.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if

from polyceptron.algorithms.data_checks import Labels, check_choice, check_samples
from polyceptron.algorithms.design import ColumnMoments, Design, short_products, weights_or_ones
from polyceptron.algorithms.erm.erm_fit import stopped_at
from polyceptron.algorithms.erm.fit import fit_erm
from polyceptron.algorithms.linear_classifier import (
    SCALINGS,
    LinearClassifier,
    Scaling,
    TrainingData,
    fields_at,
    warn_caller,
)
from polyceptron.algorithms.ridge_choice import DENSE, RidgePath, Score, Search, Split, choose_ridge
from polyceptron.algorithms.stored_designs import open_design
from polyceptron.errors import InvalidInput
from polyceptron.model.checks import as_numbers, check_ridge
from polyceptron.model.losses import Loss, as_loss
from polyceptron.numerics import Array
from polyceptron.rows import Status

_FOLDS = 5
_REACH = 1.0, 1e4, 100.0  # smallest and largest c, and that at ridge 0


def _has_probabilities(classifier: Any) -> bool:
    loss = as_loss(classifier.loss)
    if loss.probabilities(np.zeros((1, 2))) is not None:
        return True
    raise AttributeError(f"the {loss.name} loss has no class probabilities; use cross-entropy")


@dataclass(eq=False, repr=False)  # scikit-learn has its own
class ERMClassifier(LinearClassifier):
    """argmin_W Σ s ℓ(Wᵀx/√d + b, y) + (λ/2)‖W‖², with the minimiser certified to `tol`.

    Parameters
    ----------
    loss : str or Loss, default="cross-entropy"
        The name of a registered loss ('cross-entropy', 'square', 'max-margin', which needs
        separable data and ignores the ridge) or a `Loss` of your own.
    ridge : "auto" or float, default="auto"
        λ of the scaled features; in scikit-learn's convention C = 1/(λ·n_features), for two classes
        C = 2/(λ·n_features). 'auto' chooses the one of `ridges` that predicts held-out samples
        best. 0 is the limit that the loss defines: least norm for the square loss; for
        cross-entropy max-margin if the data can be separated, else maximum likelihood
        (`separability_` has the answer with its proof).
    ridges : list of float, default=None
        What 'auto' chooses from, tried from large to small until the score is clearly worse than
        the best. None: 1000 to 1e-5, two a decade, in units of the features' variance, and further
        where the best is at an end; by log-loss the lowest point of the parabola through the best
        three. A best ridge at an end of all that were tried is a warning.
    scaling : "auto", "standard", "global" or "none", default="auto"
        Divide each feature by its standard deviation, all by one number, or none. 'auto' is, with
        a ridge that is chosen, the one of 'standard' and 'global' that predicts held-out samples
        better; with one that is given, 'standard'. The scale is that of the training rows of each
        fold. A sparse X stays sparse.
    scoring : "neg_log_loss" or "accuracy", default="neg_log_loss"
        What 'auto' maximises, weighed by `sample_weight` and by `class_weight`. For a loss without
        probabilities 'neg_log_loss' is minus the loss itself.
    cv : None, "leave-one-out", int, splitter or iterable, default=None
        How samples are held out: an approximate leave-one-out with the exact k×k leverage of every
        sample and refits where that is not enough, or folds, of which the number, a splitter of
        scikit-learn or pairs of training and test rows are given. None takes the cheaper one:
        leave-one-out for up to 120 weights and more samples than features, else five folds.
    class_weight : None, "balanced" or dict, default=None
        Factors of the samples of each class, as in scikit-learn. They weigh the loss, and with it
        the score of the choices and the probabilities: see `priors`.
    priors : None, "data", "balanced" or list of float, default=None
        Shares of the classes among the samples to be predicted, to which probabilities and
        decisions are moved (for a loss whose probabilities are the softmax of the fields): those of
        the data, equal ones, or one for each of `classes_`. The score of the choices is weighed so
        too. None: as the fit has it, where a class of weight 3 is three times as frequent.
    fit_intercept : bool, default=True
        Learn a bias for each class, without a ridge.
    tol : float, default=1e-8
        Relative distance of the weights to the minimiser.
    verbose : int, default=0
        Show how far the fit is, if it takes longer than 2 seconds.
    random_state : int, default=None
        Shuffles the folds, where their number is given; None is 0. The rest is deterministic.

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
    scaling_ : str
        The scaling of the fit.
    path_ : dict of ndarrays, if the ridge was chosen
        'ridge', 'score' (held-out log-loss, or error) and 'standard_error' of every ridge tried.
    method_ : str, if the ridge was chosen
        'leave-one-out' or 'cross-validation'.
    scaling_scores_ : dict, if the scaling was chosen
        Lowest score and its standard error of each scaling.
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

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> found = ERMClassifier().fit(X, y)
    >>> found.score(X, y) > 0.9, found.method_, found.ridge_ < 0.1
    (True, 'leave-one-out', True)
    """

    loss: Any = "cross-entropy"
    ridge: float | str = "auto"
    _: KW_ONLY
    ridges: Any = None
    scaling: str = "auto"
    scoring: str = "neg_log_loss"
    cv: Any = None
    class_weight: Any = None
    priors: Any = None
    fit_intercept: bool = True
    tol: float = 1e-8
    verbose: int = 0
    random_state: Any = None

    @short_products
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit to X (n, d) and labels y (n,) of any type.

        X: dense, sparse, a memory map or a Dask array, none of which is copied if it is large.
        `sample_weight` (n,) multiplies each sample's loss; 0 leaves the sample out. `groups` (n,)
        goes to the splitter `cv`.
        """
        data = self._check_training_data(X, y, sample_weight)
        loss = as_loss(self.loss)
        check_choice("scaling", self.scaling, SCALINGS)
        check_choice("scoring", self.scoring, ("neg_log_loss", "accuracy"))
        counts = weights_or_ones(data.weights, data.y.size)
        factors = np.ones(data.y.size)
        if self.class_weight is not None:
            found = compute_class_weight(
                self.class_weight, classes=self.classes_, y=self.classes_[data.y],
                sample_weight=data.weights,
            )  # fmt: skip
            factors = np.asarray(found, dtype=float)[data.y]
        shift, share = self._prior_shift(data.y, counts, factors, loss)
        weights = None if data.weights is None and self.class_weight is None else counts * factors
        moments = open_design(data.X).column_moments(data.weights)
        for name in ("path_", "method_", "scaling_scores_"):
            if hasattr(self, name):
                delattr(self, name)
        path = None
        if isinstance(self.ridge, str) and self.ridge != "auto":
            raise InvalidInput(f"ridge must be 'auto' or a number, got {self.ridge!r}")
        if self.ridge == "auto" and not loss.scale_free:
            score = _score(loss, self.scoring, shift)
            splits = self._splits(data, X, groups)
            path = self._choose(data, loss, weights, moments, score, share, splits)
        else:
            self.scaling_ = "standard" if self.scaling == "auto" else self.scaling
            self.ridge_ = 0.0 if self.ridge == "auto" else float(check_ridge(self.ridge))
        scaling = Scaling.of(moments, self.scaling_, centre=self.fit_intercept)
        ridge, d, k = self.ridge_ / scaling.unit**2, data.X.shape[1], self.classes_.size
        low, high, reach = _REACH  # the entries c of the intercept's column, whose ridge is λ/c²
        if ridge > 0:  # 1e-7 of the samples' number on the intercept
            reach = min(max(math.sqrt(ridge / (1e-7 * float(counts.sum()))), low), high)
        samples = check_samples(self._scaled(data.X, scaling, reach), data.y, k, weights)
        start = None if path is None else path.weights.copy()
        if start is not None and self.fit_intercept:
            start[d] /= reach
        if path is not None and path.interrupted and start is not None:
            fit = stopped_at(start, ridge, loss.name)
        else:
            fit = fit_erm(
                samples.design, data.y, loss, ridge, n_classes=k, tol=self.tol,
                start=start, sample_weight=samples.weights, verbose=self.verbose,
            )  # fmt: skip
        offset = fit.weights[d] * reach if self.fit_intercept else np.zeros(k)
        self._store(fit.weights[:d] / math.sqrt(d), offset + shift, scaling)
        self.n_iter_ = max(1, fit.n_iter)
        self.certificate_ = fit.distance_bound
        self.separability_ = fit.separability
        if fit.status == Status.INTERRUPTED:
            warn_caller("the fit was interrupted: what there was by then is used")
        elif fit.status != Status.OK:
            warn_caller(
                f"the weights are certified only to within {fit.distance_bound:.2g} of the "
                f"minimiser (tolerance {self.tol:g} relative); increase the ridge or the tolerance",
                ConvergenceWarning,
            )
        return self

    def _scaled(self, X: Any, scaling: Scaling, reach: float = 1.0) -> Any:
        """The scaled features and a column for the intercept; a design where X is sparse."""
        d = X.shape[1]
        if not self.fit_intercept:
            return scaling.apply(X)
        stretch = math.sqrt((d + 1) / d)  # the solver divides by √(d + 1)
        return scaling.apply(X, stretch, reach * math.sqrt(d))

    def _prior_shift(
        self, y: Labels, counts: Array, factors: Array, loss: Loss
    ) -> tuple[Array, Array]:
        """What the priors add to the fields (k,), and the samples' weights (n,) in the score."""
        k = self.classes_.size
        if self.priors is None:
            return np.zeros(k), counts * factors
        fitted, own = (np.bincount(y, w, k) / w.sum() for w in (counts * factors, counts))
        if isinstance(self.priors, str):
            check_choice("priors", self.priors, ("data", "balanced"))
            target = own if self.priors == "data" else np.full(k, 1 / k)
        else:
            target = as_numbers(self.priors, "priors").astype(float)
            if target.shape != (k,) or not (target > 0).all() or abs(target.sum() - 1) > 1e-6:
                raise InvalidInput(
                    f"priors must be a share above 0 for each of the {k} classes, 1 in all, or "
                    f"'data' or 'balanced', got {self.priors!r}"
                )
        shift = np.log(target / fitted)
        z = np.random.default_rng(0).standard_normal((5, k))
        before, after = loss.probabilities(z), loss.probabilities(z + shift)
        if before is not None and after is not None:
            moved = np.asarray(before) * np.exp(shift)
            if np.allclose(moved / moved.sum(1, keepdims=True), after):
                return shift, counts * (target / own)[y]
        raise InvalidInput(
            f"priors need a loss whose probabilities are the softmax of the fields, as those of "
            f"cross-entropy are; got {loss.name!r}"
        )

    def _splits(self, data: TrainingData, X: Any, groups: Any) -> list[Split] | None:
        """The rows to fit and those held out, of each fold; None for leave-one-out."""
        cv, seed = self.cv, 0 if self.random_state is None else self.random_state
        if isinstance(cv, str):
            if cv != "leave-one-out":
                raise InvalidInput(
                    f"cv must be None, 'leave-one-out', a number of folds or a splitter, got {cv!r}"
                )
            return None
        if cv is None:
            n, d = data.X.shape
            few = (d + 1) * (self.classes_.size - 1) <= DENSE and n >= d
            if int(np.bincount(data.y).max()) < 2 or (few and open_design(data.X).may_be_copied):
                return None
            cv = _FOLDS
        if isinstance(cv, int | np.integer):
            return _even_splits(data.y, cv, seed)
        from sklearn.model_selection import check_cv

        n = data.labels.size
        given = np.zeros((n, 1)) if isinstance(data.X, Design) else X
        place = np.full(n, -1)
        place[data.kept] = np.arange(data.y.size)
        found = check_cv(cv, data.labels, classifier=True).split(given, data.labels, groups)
        parts = [tuple(place[rows] for rows in pair) for pair in found]
        return [(train[train >= 0], test[test >= 0]) for train, test in parts]

    def _choose(
        self,
        data: TrainingData,
        loss: Loss,
        weights: Array | None,
        moments: ColumnMoments,
        score: Score,
        share: Array,
        splits: list[Split] | None,
    ) -> RidgePath:
        """The path of ridges of the best scaling, whose choices it sets."""
        ridges = None if self.ridges is None else [float(check_ridge(r)) for r in self.ridges]
        counts = weights_or_ones(data.weights, data.y.size)
        seed = 0 if self.random_state is None else self.random_state
        found: dict[str, tuple[RidgePath, float]] = {}
        for kind in Scaling.kinds(self.scaling, moments):
            scaling = Scaling.of(moments, kind, centre=self.fit_intercept)
            samples = check_samples(
                self._scaled(data.X, scaling), data.y, self.classes_.size, weights
            )
            area = scaling.unit**2
            search = Search(samples, loss, score, counts, share, kind, self.fit_intercept)
            path = choose_ridge(
                search, None if ridges is None else [r / area for r in ridges], splits,
                None if self.cv is not None else lambda: _even_splits(data.y, _FOLDS, seed),
                between=self.scoring == "neg_log_loss",
                rival=min((one.at_best[0] for one, _ in found.values()), default=math.inf),
            )  # fmt: skip
            found[kind] = path, area
            if path.interrupted:
                break
        self.scaling_ = min(found, key=lambda kind: found[kind][0].at_best[0])
        path, area = found[self.scaling_]
        if len(found) > 1:
            self.scaling_scores_ = {kind: one.at_best for kind, (one, _) in found.items()}
        self.ridge_, self.method_ = path.best * area, path.method
        self.path_ = {
            "ridge": path.ridge * area, "score": path.score, "standard_error": path.standard_error,
        }  # fmt: skip
        if path.edge:
            cure = "" if self.ridges is None else "; give `ridges` beyond it"
            warn_caller(
                f"the best ridge is the {path.edge} of all tried, {self.ridge_:.2g}, and held-out "
                f"samples are predicted still better beyond it{cure}"
            )
        return path

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """Class probabilities (n, k) that the loss reads from the class fields."""
        found = as_loss(self.loss).probabilities(fields_at(self._features(X), *self._class_weights))
        return np.asarray(found)


def _even_splits(y: Labels, count: Any, seed: Any) -> list[Split]:
    """Each class dealt over the folds as evenly as it goes; a rare one is not in every fold."""
    from sklearn.utils import check_random_state

    if count < 2:
        raise InvalidInput(f"cv must be 2 folds or more, got {count}")
    order, count = check_random_state(seed).permutation(y.size), min(int(count), y.size)
    dealt = np.empty(y.size, dtype=np.int64)
    dealt[order[np.argsort(y[order], kind="stable")]] = np.arange(y.size) % count
    return [(np.flatnonzero(dealt != i), np.flatnonzero(dealt == i)) for i in range(count)]


def _score(loss: Loss, scoring: str, shift: Array) -> Score:
    """Errors, or −ln of the label's probability; where there is none, the loss itself."""
    if scoring == "accuracy":
        return lambda z, y: ((z + shift).argmax(1) != y).astype(float)

    def log_loss(z: Array, y: Labels) -> Array:
        p = np.asarray(loss.probabilities(z))[np.arange(y.size), y]
        return -np.log(np.maximum(p, np.finfo(float).tiny))

    y = np.arange(shift.size)
    z = np.random.default_rng(0).standard_normal((y.size, y.size))
    itself = loss.probabilities(z) is None or np.allclose(loss.value(z, y), log_loss(z, y))
    value = loss.value if itself else log_loss  # exact also where probabilities underflow
    return lambda z, y: value(z + shift, y)
