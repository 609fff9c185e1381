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
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.class_weight import compute_class_weight

from polyceptron.checks import check_ridge
from polyceptron.data import checks as data_checks
from polyceptron.data.checks import Samples
from polyceptron.data.design import threads_of_data, weights_or_ones
from polyceptron.data.stored_designs import open_design
from polyceptron.data.watching import Watch
from polyceptron.errors import InvalidInput
from polyceptron.fit import linear_classifier as linear
from polyceptron.fit.erm import fit_erm
from polyceptron.fit.fitted_erm import FittedERM, WeightedProblem
from polyceptron.fit.held_out import (
    HeldOutLabels,
)
from polyceptron.fit.held_out_problem import (
    HeldOutProblem,
    RidgeScore,
    Score,
    Split,
    label_probability,
    score_of,
)
from polyceptron.fit.linear_classifier import Scaling, TrainingData, prior_shift
from polyceptron.fit.ridge_search import (
    CLEAR,
    CLEAR_OF_ONE_UNIT,
    RidgeSearch,
    Rival,
    choose_ridge,
)
from polyceptron.fit.separation import separation
from polyceptron.fit.solvers.erm_fit import ERMFit, stopped_at
from polyceptron.fit.splits import HoldingOut
from polyceptron.numerics import Array
from polyceptron.problem.losses import as_loss
from polyceptron.rows import Status

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Of the weights' norm: what the rounding of sums over many samples leaves open without a warning.
# It is a hundredth of the weights' statistical error at 10⁸ samples.
ROUNDING_WITHOUT_WARNING = 1e-6
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
class ERMClassifier(FittedERM):
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

    def _problem(self, X: Any, y: Any, sample_weight: Any) -> WeightedProblem:
        """Check the samples and the parameters of the classifier, and set `classes_`."""
        data = self._check_training_data(X, y, sample_weight)
        loss = as_loss(self.loss)
        data_checks.check_choice("scaling", self.scaling, linear.SCALINGS)
        data_checks.check_choice("scoring", self.scoring, ("neg_log_loss", "accuracy"))
        if isinstance(self.ridge, str) and self.ridge != "auto":
            raise InvalidInput(f"ridge must be 'auto' or a number, got {self.ridge!r}")
        counts, factors = self._factors(data)
        shift, share = prior_shift(self.priors, self.classes_.size, data.y, counts, factors, loss)
        return WeightedProblem(
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
        problem: WeightedProblem,
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

    def _choose(self, problem: WeightedProblem, holding_out: HoldingOut) -> RidgeSearch:
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
        problem: WeightedProblem,
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
        problem: WeightedProblem,
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

    def _keep_held_out(self, problem: WeightedProblem, chosen: RidgeScore) -> None:
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

    @property
    def partial_fit(self) -> Any:
        """There is none; the error says why."""
        raise AttributeError(NO_PARTIAL_FIT)
