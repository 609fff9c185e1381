"""Empirical risk minimisation as a scikit-learn classifier that chooses its own ridge and scaling.

    Ŵ, b̂ = argmin Σ_μ s_μ ℓ(Wᵀx_μ/√d + b, y_μ) + (λ/2)‖W‖²

This is the paper's eq:optimization_ERM with inputs x/√d, weights s of the samples, and an intercept
b (k,), which bears no ridge. It is minimised for scaled features. In terms of `Scaling`
(`linear_classifier`), with the class fields f (n, k):

    features as given    f = xᵀw + base                       w (d, k), base (k,): `_class_weights`
    scaled features      f = x̃ᵀW/√d + b,  x̃ = (x − shift)/scale, shift the mean or 0
                         W = √d·scale·w,  b = base + shiftᵀw
    ridge                `ridge_` = unit²·(λ of the scaled features); unit is 1 but for 'none'

With `priors`, base contains what they add to the fields besides (`_shift`, (k,)).

Which samples are held out is decided in `splits`, how they are predicted along the ridges in
`ridge_search`, which gives the search of each scaling here. Error bars of held-out scores are made
in `held_out`, those of tests of features in `feature_tests`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from polyceptron.checks import check_ridge
from polyceptron.data import checks as data_checks
from polyceptron.data.checks import Samples
from polyceptron.data.design import ColumnMoments, threads_of_data, weights_or_ones
from polyceptron.data.labels import label_values
from polyceptron.data.stored_designs import open_design
from polyceptron.data.watching import Watch
from polyceptron.errors import InvalidInput
from polyceptron.fit import linear_classifier as linear
from polyceptron.fit.erm import fit_erm
from polyceptron.fit.feature_columns import (
    check_precision,
    column_indices,
    with_constant_features,
)
from polyceptron.fit.feature_tests import UNDETERMINED, Fitted, feature_frame
from polyceptron.fit.held_out import (
    HeldOutLabels,
    HeldOutScores,
    held_out_frame,
    unseen_classes,
)
from polyceptron.fit.held_out_problem import (
    HeldOutProblem,
    RidgeScore,
    Score,
    Split,
    label_probability,
    score_of,
)
from polyceptron.fit.linear_classifier import Scaling, TrainingData, fields_at, prior_shift
from polyceptron.fit.ridge_search import (
    CLEAR,
    CLEAR_OF_ONE_UNIT,
    RidgeSearch,
    Rival,
    choose_ridge,
)
from polyceptron.fit.separation import separation
from polyceptron.fit.sklearn_pipeline import fitted_pipeline
from polyceptron.fit.solvers.erm_fit import ERMFit, stopped_at
from polyceptron.fit.splits import HoldingOut
from polyceptron.numerics import Array
from polyceptron.problem.losses import Loss, as_loss
from polyceptron.problem.losses.checks import class_coordinates
from polyceptron.rows import Status

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

# Of the weights' norm: what the rounding of sums over many samples leaves open without a warning.
# It is a hundredth of the weights' statistical error at 10⁸ samples.
ROUNDING_WITHOUT_WARNING = 1e-6
STANDS_FOR_NO_RIDGE = 1e-9  # where samples are held out: the search takes logarithms of ridges
LABEL_PROBABILITY = "label_probability"
NO_MINIMISER = (
    "without a ridge there are no weights that fit best: a linear rule separates some of the "
    "samples and has the others on its boundary, so that the weights grow without bound; fit with "
    "a ridge above 0, or ridge='auto'"
)
NO_PARTIAL_FIT = (
    "ERMClassifier has no partial_fit: the minimiser of all samples does not follow from those of "
    "parts; give all of them to fit, which reads memory maps and Dask arrays block by block, and "
    "set warm_start=True to begin at the weights of the fit before"
)


def _has_probabilities(classifier: Any) -> bool:
    loss = as_loss(classifier.loss)
    if loss.probabilities(np.zeros((1, 2))) is not None:
        return True
    raise AttributeError(f"the {loss.name} loss has no class probabilities; use cross-entropy")


@dataclass(frozen=True)
class _FitProblem:
    """What is fitted, whatever the scaling and the ridge.

    moments : means, deviations and largest values (d,) of the features
    counts : (n,), how often each sample is there
    factors : (n,), the factors of its class
    shift : (k,), what the priors add to the fields
    share : (n,), what each sample counts for in the score of the choices
    weighted : whether samples or classes have weights
    """

    data: TrainingData
    loss: Loss
    moments: ColumnMoments
    counts: Array
    factors: Array
    shift: Array
    share: Array
    weighted: bool

    @property
    def weights(self) -> Array | None:
        """Return the weights of the loss (n,), None where all are 1."""
        if self.weighted:
            return self.counts * self.factors
        return None


@dataclass(frozen=True)
class _ScaledSearch:
    """The ridges that were tried on features scaled in one way, and their scores.

    area : unit², by which a ridge of scaled features is multiplied to be one of the classifier
    variance : the geometric mean of the scaled features' variances
    """

    search: RidgeSearch
    area: float
    variance: float


def _best_scaling(searches: dict[str, _ScaledSearch], features_a_sample: float) -> str:
    """Return the scaling tried first, unless the other predicts held-out samples clearly better.

    `above` is the difference of their best scores over its standard error. 'global' is tried first
    where all features have one unit (`Scaling.kinds`).
    """
    first, *others = searches
    clear = CLEAR + features_a_sample  # in standard errors of the difference
    if first == "global":
        clear = CLEAR_OF_ONE_UNIT
    for other in others:
        if searches[first].search.chosen.above(searches[other].search.chosen) > clear:
            return other
    return first


def _is_known_to_rounding(fit: ERMFit) -> bool:
    """Return whether rounding alone leaves the weights open, and by next to nothing."""
    size = float(np.linalg.norm(fit.weights))
    is_close = fit.distance_bound <= ROUNDING_WITHOUT_WARNING * size
    return fit.status == Status.TOLERANCE_NOT_MET and is_close


@dataclass(eq=False, repr=False)  # scikit-learn has its own
class ERMClassifier(linear.LinearClassifier):
    """argmin_W Σ s ℓ(Wᵀx/√d + b, y) + (λ/2)‖W‖², with the minimiser certified to `tol`.

    Parameters
    ----------
    loss : str or Loss, default="cross-entropy"
        The name of a registered loss ('cross-entropy', 'square', 'max-margin', which needs
        separable data and ignores the ridge) or a `Loss` of your own.
    ridge : "auto" or float, default="auto"
        λ of the scaled features (of those given, with the scaling 'none'); in scikit-learn's
        convention C = 1/(λ·n_features), for two classes C = 2/(λ·n_features). 'auto' chooses the
        one of `ridges` that predicts held-out samples best. 0 is the limit that the loss defines:
        least norm for the square loss; for cross-entropy max-margin if the data can be separated,
        else maximum likelihood (`separability_` has the answer with its proof).
    ridges : list of float, default=None
        What 'auto' chooses from, tried from large to small until the score is clearly worse than
        the best. None: decades from 1 to 1e-5, in units of the features' variance (the geometric
        mean), further where the best is at an end, and between the best, all compared with half a
        mistaken sample added: where none is mistaken, small ridges would win by luck. A best ridge
        at an end of all that were tried is a warning.
    scaling : "auto", "standard", "global" or "none", default="auto"
        Divide each feature by its standard deviation, all by one number, or none. 'auto' is
        'standard' with a ridge that is given. With one that is chosen it is 'standard', unless
        'global' predicts held-out samples better by more than 1 + d/n standard errors of the
        difference, for n samples of d features.
        For features of one unit (half of them have nearly the same largest value, as pixels do) it
        is 'global', unless 'standard' is better by more than two standard errors. The scale is that
        of the training rows of each fold. A sparse X stays sparse.
    scoring : "neg_log_loss" or "accuracy", default="neg_log_loss"
        What 'auto' maximises, weighed by `sample_weight` and by `class_weight`. For a loss without
        probabilities 'neg_log_loss' is minus the loss itself.
    cv : None, "leave-one-out", int, splitter or iterable, default=None
        How samples are held out: an approximate leave-one-out with the exact k×k leverage of every
        sample and refits where that is not enough, or folds, of which the number, a splitter of
        scikit-learn or pairs of training and test rows are given. None takes the cheaper one:
        leave-one-out for up to 120 weights and more samples than features, else five folds, of
        which as many are fitted as hold out 2,000 samples (of 10,000 the first one).
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
        Relative distance of the weights to the minimiser. Where the rounding of sums over many
        samples does not allow that, a warning says so from 1e-6 on; `certificate_` has the bound.
    warm_start : bool, default=False
        Begin at the weights of the fit before, if it had the same classes and features. The
        minimiser is the same; where the ridge is given and the data have changed little, it takes
        fewer steps.
    verbose : int, default=0
        Show the progress of the fit, if it takes longer than 2 seconds.
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
    C_ : float
        The same in scikit-learn's convention, 1/(λ·n_features), or 2/(λ·n_features) for two
        classes; infinite without a ridge.
    scaling_ : str
        The scaling of the fit.
    path_ : dict of ndarrays, if the ridge was chosen
        'ridge', 'score' (held-out log-loss, or error) and 'standard_error' of every ridge tried.
    method_ : str, if the ridge was chosen
        'leave-one-out' or 'cross-validation'.
    scaling_scores_ : dict, if the scaling was chosen
        Lowest score and its standard error of each scaling.
    separability_ : Separation or None
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
    `predict_proba` exists where the loss models probabilities, as cross-entropy does. Fitted to
    float32, weights, decisions and probabilities are float32, rounded from doubles.

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
    warm_start: bool = False
    verbose: int = 0
    random_state: Any = None

    @threads_of_data
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit to X (n, d) and labels y (n,) of any type.

        X: dense, sparse, a memory map or a Dask array, none of which is copied if it is large.
        `sample_weight` (n,) multiplies each sample's loss; 0 leaves the sample out. `groups` (n,)
        goes to the splitter `cv`.
        """
        before = self._weights_before()
        problem = self._problem(X, y, sample_weight)
        for name in ("path_", "method_", "scaling_scores_", "_held_out"):  # of an earlier fit
            self.__dict__.pop(name, None)
        search = None
        if self.ridge == "auto" and not problem.loss.scale_free:
            search = self._choose(problem, self._holding_out(X, groups))
        else:
            self._take_given_ridge()
        scaling = Scaling.of(problem.moments, self.scaling_, centre=self.fit_intercept)
        start = self._start(search, before, scaling)
        fit = self._fit_scaled(problem, scaling, search, start)
        d = problem.data.X.shape[1]
        self._store(fit.weights / math.sqrt(d), fit.intercepts + problem.shift, scaling)
        self._scaling = scaling
        self._shift = problem.shift
        self.C_ = self._inverse_ridge(d)
        self.n_iter_ = max(1, fit.n_iter)
        self.certificate_ = fit.distance_bound
        self.separability_ = fit.separability
        self._warn_of(fit, problem.data, scaling)
        return self

    def _problem(self, X: Any, y: Any, sample_weight: Any) -> _FitProblem:
        """Check the samples and the parameters of the classifier, and set `classes_`."""
        data = self._check_training_data(X, y, sample_weight)
        loss = as_loss(self.loss)
        data_checks.check_choice("scaling", self.scaling, linear.SCALINGS)
        data_checks.check_choice("scoring", self.scoring, ("neg_log_loss", "accuracy"))
        if isinstance(self.ridge, str) and self.ridge != "auto":
            raise InvalidInput(f"ridge must be 'auto' or a number, got {self.ridge!r}")
        counts, factors = self._factors(data)
        shift, share = prior_shift(self.priors, self.classes_.size, data.y, counts, factors, loss)
        return _FitProblem(
            data=data,
            loss=loss,
            moments=open_design(data.X).column_moments(data.weights),
            counts=counts,
            factors=factors,
            shift=shift,
            share=share,
            weighted=data.weights is not None or self.class_weight is not None,
        )

    def _holding_out(self, X: Any, groups: Any) -> HoldingOut:
        """Return how samples are held out."""
        return HoldingOut(self.cv, X, groups, self.random_state or 0)

    def _inverse_ridge(self, n_features: int) -> float:
        """Return C of the ridge: 1/(λd), or 2/(λd) for two classes, whose weights are ±w/2."""
        if self.ridge_ == 0:
            return math.inf
        if self.classes_.size == 2:
            return 2 / (self.ridge_ * n_features)
        return 1 / (self.ridge_ * n_features)

    def _weights_before(self) -> tuple[NDArray[Any], Array, Array] | None:
        """Return the classes, weights (d, k) and offsets (k,) of the fit before, for a warm start.

        The offsets are those of the minimiser, without what the priors add.
        """
        if not self.warm_start or not hasattr(self, "_class_weights"):
            return None
        raw, base = self._class_weights
        return self.classes_, raw, base - self._shift

    def _start(
        self,
        search: RidgeSearch | None,
        before: tuple[NDArray[Any], Array, Array] | None,
        scaling: Scaling,
    ) -> Array | None:
        """Return where the fit begins: (d, k), or (d + 1, k) with the intercepts last, or None."""
        if search is not None:
            return search.start
        if before is None:
            return None
        classes, raw, base = before
        d = scaling.shift.size
        if len(raw) != d or not np.array_equal(classes, self.classes_):
            return None
        weights = np.where(scaling.varying, scaling.scale, 0.0)[:, None] * raw * math.sqrt(d)
        if not self.fit_intercept:
            return weights
        return np.vstack([weights, base + scaling.shift @ raw])

    def _take_given_ridge(self) -> None:
        """Set the ridge and the scaling as they were given.

        'auto' is 0 here: it comes with a loss without scale, to which no ridge matters.
        """
        self.scaling_ = "standard" if self.scaling == "auto" else self.scaling
        self.ridge_ = 0.0
        if self.ridge != "auto":
            self.ridge_ = float(check_ridge(self.ridge))

    def _fit_scaled(
        self,
        problem: _FitProblem,
        scaling: Scaling,
        search: RidgeSearch | None,
        start: Array | None,
    ) -> ERMFit:
        """Fit the scaled features at the ridge chosen, or return what an interrupted search has."""
        ridge = self.ridge_ / scaling.unit**2
        data = problem.data
        if start is not None and search is not None and search.interrupted:
            intercepts = 0 * start[0]
            if self.fit_intercept:
                intercepts = start[-1]
            stopped = stopped_at(start[: data.X.shape[1]], ridge, problem.loss.name)
            return replace(stopped, intercepts=intercepts)
        return fit_erm(
            scaling.design(data.X),
            data.y,
            problem.loss,
            ridge,
            intercept=self.fit_intercept,
            n_classes=self.classes_.size,
            tol=self.tol,
            start=start,
            sample_weight=problem.weights,
            verbose=self.verbose,
        )

    def _warn_of(self, fit: ERMFit, data: TrainingData, scaling: Scaling) -> None:
        """Warn where the fit was interrupted, has no minimiser, or missed the tolerance."""
        if fit.status == Status.OK or _is_known_to_rounding(fit):
            return
        if fit.status == Status.INTERRUPTED:
            linear.warn_caller("the fit was interrupted: what there was by then is used")
            return
        message = (
            f"the weights are certified only to within {fit.distance_bound:.2g} of the "
            f"minimiser (tolerance {self.tol:g} relative); increase the ridge or the tolerance"
        )
        if self.ridge_ == 0:
            design, index, k = self._samples(data, scaling, None)
            if separation(design, index, n_classes=k).kind == "quasi":
                message = NO_MINIMISER
        linear.warn_caller(message, ConvergenceWarning)

    def _factors(self, data: TrainingData) -> tuple[Array, Array]:
        """Return how often each sample is there (n,), and the factors of its class (n,)."""
        counts = weights_or_ones(data.weights, data.y.size)
        if self.class_weight is None:
            return counts, np.ones(data.y.size)
        by_class = compute_class_weight(
            self.class_weight,
            classes=self.classes_,
            y=self.classes_[data.y],
            sample_weight=data.weights,
        )
        if not (by_class > 0).all():
            raise InvalidInput(f"class_weight must be above 0 for every class, got {by_class}")
        return counts, np.asarray(by_class, dtype=float)[data.y]

    def _samples(self, data: TrainingData, scaling: Scaling, weights: Array | None) -> Samples:
        """Return the scaled features with a column for the intercept, and weights of the loss."""
        d = data.X.shape[1]
        if self.fit_intercept:
            # The solver divides all by √(d + 1): features become x̃/√d, the column becomes 1.
            design = scaling.design(data.X, math.sqrt((d + 1) / d), math.sqrt(d))
        else:
            design = scaling.design(data.X)
        return data_checks.check_samples(design, data.y, self.classes_.size, weights)

    def _choose(self, problem: _FitProblem, holding_out: HoldingOut) -> RidgeSearch:
        """Return the search of the best scaling; set the choices and their scores."""
        splits = holding_out.splits(problem.data, self.classes_.size)
        fallback = holding_out.fallback(problem.data)
        searches: dict[str, _ScaledSearch] = {}
        interrupted = False
        for kind in Scaling.kinds(self.scaling, problem.moments):
            rival = None
            if searches:
                (first,) = searches.values()
                rival = Rival(first.search.best / first.variance, first.search.chosen)
            try:
                found = self._search(kind, problem, splits, fallback, rival)
            except KeyboardInterrupt:
                if not searches:
                    raise
                interrupted = True
                break
            searches[kind] = found
            interrupted = found.search.interrupted
            if interrupted:
                break
        n, d = problem.data.X.shape
        self.scaling_ = _best_scaling(searches, d / n)
        if len(searches) > 1:
            self.scaling_scores_ = {
                kind: (found.search.chosen.mean, found.search.chosen.standard_error)
                for kind, found in searches.items()
            }
        chosen = searches[self.scaling_]
        chosen.search.interrupted = interrupted
        self._set_path(chosen)
        self._keep_held_out(problem, chosen.search.chosen)
        return chosen.search

    def _search(
        self,
        kind: str,
        problem: _FitProblem,
        splits: list[Split] | None,
        fallback: list[Split] | None,
        rival: Rival | None,
    ) -> _ScaledSearch:
        """Try ridges on features scaled in one way, 'standard', 'global' or 'none'."""
        scaling = Scaling.of(problem.moments, kind, centre=self.fit_intercept)
        area = scaling.unit**2
        spread = (problem.moments.deviation / scaling.scale)[scaling.varying]
        variance = 1.0
        if spread.size:
            variance = math.exp(2 * np.log(spread).mean())
        ridges = None
        if self.ridges is not None:
            ridges = [float(check_ridge(ridge)) / area for ridge in self.ridges]
        also = {}
        probability = label_probability(problem.loss, problem.shift)
        if probability is not None:
            also[LABEL_PROBABILITY] = probability
        held_out = self._held_out_problem(problem, scaling, kind, self.scoring, also)
        with held_out.samples.design.watched(Watch(f"ridges, {kind} scaling", self.verbose)):
            search = choose_ridge(
                held_out,
                ridges,
                splits,
                fallback,
                between=self.scoring == "neg_log_loss",
                size=variance,
                rival=rival,
            )
        return _ScaledSearch(search, area, variance)

    def _held_out_problem(
        self,
        problem: _FitProblem,
        scaling: Scaling,
        kind: str,
        scoring: str,
        also: dict[str, Score],
    ) -> HeldOutProblem:
        """Return what is fitted and scored when samples are held out."""
        return HeldOutProblem(
            samples=self._samples(problem.data, scaling, problem.weights),
            loss=problem.loss,
            score=score_of(problem.loss, scoring, problem.shift),
            counts=problem.counts,
            share=problem.share,
            scaling=kind,
            intercept=self.fit_intercept,
            also=also,
        )

    def _keep_held_out(self, problem: _FitProblem, chosen: RidgeScore) -> None:
        """Keep the probabilities of held-out labels at the best ridge, for `predict_set`."""
        probabilities = chosen.also.get(LABEL_PROBABILITY)
        if probabilities is not None:
            self._held_out = HeldOutLabels(probabilities, problem.share[chosen.at])

    def _set_path(self, chosen: _ScaledSearch) -> None:
        """Set the ridge and what it was chosen from; warn where it is at an end of that."""
        search = chosen.search
        self.ridge_ = search.best * chosen.area
        self.method_ = search.method
        self.path_ = {
            "ridge": np.array([tried.ridge * chosen.area for tried in search.tried]),
            "score": np.array([tried.mean for tried in search.tried]),
            "standard_error": np.array([tried.standard_error for tried in search.tried]),
        }
        if search.edge and not search.interrupted:
            cure = ""
            if self.ridges is not None:
                cure = "; give `ridges` beyond it"
            linear.warn_caller(
                f"the best ridge is the {search.edge} of all tried, {self.ridge_:.2g}, and "
                f"held-out samples are predicted still better beyond it{cure}"
            )

    def feature_tests(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        precision: Any = None,
        joint: Mapping[str, Sequence[int | str]] = MappingProxyType({}),
    ) -> pd.DataFrame:
        """Test of each feature: does the label depend on it, given all others?

        Holds for any ridge and for few samples a feature, where Wald's test does not
        (`feature_tests` in docs/feature-tests.md). Features are taken to be Gaussian, or many.

        Parameters
        ----------
        X, y, sample_weight
            Those of the fit. A sample of weight 3 is three samples.
        precision : array_like (d, d), default=None
            Inverse covariance of the features, if it is known. Without it more samples are needed
            than features, 20 at least.
        joint : mapping of str to list, default={}
            Names, and the columns (their numbers or names) that are one test together, such as
            the one-hot code of a categorical feature. Needs no `precision`.

        Returns
        -------
        DataFrame
            A row a feature: debiased `weight_c` and `standard_error_c` of each class c against the
            mean of all (of two classes: of the second against the first), `degrees_of_freedom`,
            `reason`, `statistic` (χ² of k − 1 degrees if the feature does not matter), `p_value`,
            and `q_value` (Benjamini and Hochberg: the share of false ones among all that are called
            up to here). In place of the columns of a joint test, a row of (levels − 1)(k − 1)
            degrees without weights. Features that are constant or determined by others have NaN;
            `reason` says why, and which features are copies, of which a large p-value of both
            says that one is enough.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> X, y = load_wine(return_X_y=True)
        >>> found = ERMClassifier().fit(X, y).feature_tests(X, y)
        >>> list(found.columns[-3:]), bool(found.q_value.min() < 1e-3)
        (['statistic', 'p_value', 'q_value'], True)
        """
        problem = self._problem_again(X, y, sample_weight)
        has_no_minimum = bool(self.separability_) or not math.isfinite(self.certificate_)
        if problem.loss.scale_free or (self.ridge_ == 0 and has_no_minimum):
            raise InvalidInput(UNDETERMINED)
        fitted, scale = self._scaled_fit(problem)
        varying = self._scaling.varying
        inverse = None
        if precision is not None:
            inverse = check_precision(precision, problem.data.X.shape[1])
            inverse = inverse[np.ix_(varying, varying)] * np.outer(scale, scale)
        d = varying.size
        names = np.asarray(getattr(self, "feature_names_in_", [f"x{i}" for i in range(d)]))
        shown = self.classes_
        if shown.size == 2:
            shown = shown[1:]
        members = column_indices(joint, names)
        kept = np.cumsum(varying) - 1  # the place of each column among those that vary
        inside = {name: kept[own[varying[own]]] for name, own in members.items()}
        table = feature_frame(fitted, inverse, names[varying], shown, scale, inside)
        return with_constant_features(table, names, members)

    def _scaled_fit(self, problem: _FitProblem) -> tuple[Fitted, Array]:
        """Return the fit in features that all vary by 1, and their scales (d,)."""
        scaling = self._scaling
        X = scaling.design(problem.data.X, varying=True).read_rows(slice(None))
        deviation = X.std(0)  # a unit alone: weights of the samples do not matter to it
        scale = scaling.scale[scaling.varying] * deviation
        weights, base = self._class_weights
        d = scaling.shift.size
        fitted = Fitted(
            X=X / deviation,
            y=problem.data.y,
            W=weights[scaling.varying] * scale[:, None],
            offset=base + scaling.shift @ weights - self._shift,
            loss=problem.loss,
            basis=class_coordinates(problem.loss, self.classes_.size),
            counts=problem.counts,
            factors=problem.factors,
            # (λ/2)‖W‖² as Σ_i pull_i ‖w_i‖²/2 in the weights of X/deviation, without 1/√d.
            pull=self.ridge_ / scaling.unit**2 * d / deviation**2,
            intercept=self.fit_intercept,
        )
        return fitted, scale

    def held_out_scores(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None, *, level: float = 0.95
    ) -> pd.DataFrame:
        """Error and log-loss on samples that a fit has not seen, at the ridge and scaling chosen.

        Parameters
        ----------
        X, y, sample_weight, groups
            Those of the fit, of which some are held out as `cv` says.
        level : float, default=0.95
            Of the intervals.

        Returns
        -------
        DataFrame
            Rows 'error' and 'log_loss' (the loss itself where it models no probabilities): `value`,
            `standard_error`, the interval `low` to `high` of what fresh samples would show, and
            `status`: 'ok', or 'unknown' with the reason, as for a class that has one sample only;
            then the log-loss of fresh samples has no upper end.
            The errors count that the fits of held-out samples share their training samples.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> found = ERMClassifier().fit(X, y).held_out_scores(X, y)
        >>> bool(found.low["error"] < found.value["error"] < found.high["error"] < 0.1)
        True
        """
        problem = self._problem_again(X, y, sample_weight)
        if problem.loss.scale_free:
            raise InvalidInput(
                f"the {problem.loss.name} loss has no ridge at which samples are held out"
            )
        also = {"error": score_of(problem.loss, "accuracy", self._shift)}
        held_out = self._held_out_problem(
            problem, self._scaling, self.scaling_, "neg_log_loss", also
        )
        holding_out = self._holding_out(X, groups)
        splits = holding_out.splits(problem.data, self.classes_.size, every_fold=True)
        ridge = max(self.ridge_ / self._scaling.unit**2, STANDS_FOR_NO_RIDGE)
        fallback = holding_out.fallback(problem.data)
        search = choose_ridge(held_out, [ridge], splits, fallback)
        chosen = search.chosen
        # The last of `values` and `share` is that of a mistaken sample, added to compare ridges;
        # `also` and `at` are of the samples alone.
        scores = HeldOutScores(
            losses=chosen.values[:-1],
            mistaken_loss=float(chosen.values[-1]),
            errors=chosen.also["error"],
            share=chosen.share[:-1],
            n_train=search.n_train,
        )
        y_all = problem.data.y
        unseen = unseen_classes(y_all, y_all[chosen.at], self.classes_)
        return held_out_frame(scores, level, unseen)

    def _problem_again(self, X: Any, y: Any, sample_weight: Any) -> _FitProblem:
        """Return the problem of the fit for the samples that it was fitted to."""
        self._features(X)  # raises unless X has the columns of the fit
        check_same_classes(y, self.classes_)
        return self._problem(X, y, sample_weight)

    @property
    def partial_fit(self) -> Any:
        """There is none; the error says why."""
        raise AttributeError(NO_PARTIAL_FIT)

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """Class probabilities (n, k) that the loss reads from the class fields."""
        return self._like(X, self._probabilities(X))

    @np.errstate(under="ignore")  # Classes far behind have probability 0.
    def _probabilities(self, X: Any) -> Array:
        """Return the class probabilities (n, k) in double precision."""
        fields = fields_at(self._features(X), *self._class_weights)
        return np.asarray(as_loss(self.loss).probabilities(fields))

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_set(self, X: Any, coverage: float = 0.9) -> NDArray[np.bool_]:
        """Return sets of classes that hold the label of a share `coverage` of fresh samples.

        A class is in the set of a sample if its probability is at least that of the labels of
        the share `coverage` of held-out samples. These are the ones by which the ridge was chosen,
        so that no calibration samples are needed: docs/prediction-sets.md.

        Parameters
        ----------
        X : array_like (n, d)
            Samples.
        coverage : float, default=0.9
            Share of samples whose label is to be in their set. Below the accuracy of the
            classifier some sets are empty.

        Returns
        -------
        ndarray of bool (n, k)
            Whether each of `classes_` is in the set of each sample. All are, where held-out
            samples are too few for the coverage.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> sets = ERMClassifier().fit(X, y).predict_set(X, coverage=0.98)
        >>> sets.shape, bool(sets.sum(axis=1).mean() < 1.3)
        ((150, 3), True)
        """
        probabilities = self._probabilities(X)
        if not 0 < coverage < 1:
            raise InvalidInput(f"coverage must be a number between 0 and 1, got {coverage!r}")
        if not hasattr(self, "_held_out"):
            raise InvalidInput(
                "predict_set needs held-out samples, and there are none where the ridge is given: "
                "fit with ridge='auto', and ridges=[λ] to keep that one"
            )
        return probabilities >= self._held_out.threshold(coverage)

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def to_sklearn(self) -> Pipeline:
        """Return a fitted Pipeline of StandardScaler and LogisticRegression that predicts the same.

        Programs that read scikit-learn's models, as converters to ONNX do, read this one.

        Returns
        -------
        Pipeline

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> model = ERMClassifier().fit(X, y)
        >>> bool(np.allclose(model.to_sklearn().predict_proba(X), model.predict_proba(X)))
        True
        """
        check_is_fitted(self)
        loss = as_loss(self.loss)
        if not linear.has_softmax_probabilities(loss, self.classes_.size):
            raise InvalidInput(
                "to_sklearn needs a loss whose probabilities are the softmax of the fields, as "
                f"those of cross-entropy are; got {loss.name!r}"
            )
        raw, base = self._class_weights
        coef = raw.T
        if self.classes_.size == 2:
            coef = coef[1:] - coef[:1]
            base = base[1:] - base[:1]
        scaling = self._scaling
        scale = np.where(scaling.varying, scaling.scale, 1.0)
        return fitted_pipeline(scaling.shift, scale, coef, base, self.classes_, self.C_)


def check_same_classes(y: ArrayLike, classes: NDArray[Any]) -> None:
    """Raise an error message unless the labels y (n,) are of the classes of the fit."""
    found = np.unique(label_values(y))
    if not np.array_equal(found, classes):
        raise InvalidInput(f"y must hold the classes of the fit, {classes}, got {found}")
