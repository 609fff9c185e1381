"""Empirical risk minimisation as a scikit-learn classifier that chooses its own ridge and scaling.

    Ŵ, b̂ = argmin Σ_μ s_μ ℓ(Wᵀx_μ/√d + b, y_μ) + (λ/2)‖W‖²

The intercept bears no ridge. Which samples are held out is decided here (`_splits`); how they are
predicted along the ridges in `ridge_search`.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, astuple, dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import check_cv
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if

from polyceptron.checks import as_numbers, check_ridge
from polyceptron.data import checks as data_checks
from polyceptron.data.checks import Samples
from polyceptron.data.design import ColumnMoments, Design, threads_of_data, weights_or_ones
from polyceptron.data.labels import label_values
from polyceptron.data.stored_designs import open_design
from polyceptron.data.watching import Watch
from polyceptron.errors import InvalidInput
from polyceptron.fit import linear_classifier as linear
from polyceptron.fit import ridge_search as ridge_choice
from polyceptron.fit.erm import fit_erm
from polyceptron.fit.feature_tests import UNDETERMINED, Fitted, feature_frame
from polyceptron.fit.linear_classifier import Scaling, TrainingData, fields_at, prior_shift
from polyceptron.fit.separation import separation
from polyceptron.fit.solvers.erm_fit import ERMFit, stopped_at
from polyceptron.numerics import Array
from polyceptron.problem.losses import Loss, as_loss
from polyceptron.problem.losses.checks import class_coordinates
from polyceptron.rows import Status

if TYPE_CHECKING:
    import pandas as pd

_FOLDS = 5
_ENOUGH = 2000  # held-out samples by which ridges are told apart
_NO_RIDGE = 1e-9  # stands for 0 where samples are held out
_ENDLESS = (
    "without a ridge there are no weights that fit best: a linear rule separates some of the "
    "samples and has the others on its boundary, so that the weights grow without bound; fit with "
    "a ridge above 0, or ridge='auto'"
)


def _has_probabilities(classifier: Any) -> bool:
    loss = as_loss(classifier.loss)
    if loss.probabilities(np.zeros((1, 2))) is not None:
        return True
    raise AttributeError(f"the {loss.name} loss has no class probabilities; use cross-entropy")


@dataclass(frozen=True)
class _ScaledPath:
    """A path of ridges on scaled features.

    area : by which a ridge of scaled features is multiplied to be one of the classifier
    variance : the geometric mean of the scaled features' variances
    """

    path: ridge_choice.RidgeSearch
    area: float
    variance: float


def _best_scaling(paths: dict[str, _ScaledPath]) -> str:
    """Return the first scaling, unless another one predicts clearly better."""
    best, *others = paths
    for kind in others:
        if paths[best].path.chosen.above(paths[kind].path.chosen) > ridge_choice.CLEAR:
            best = kind
    return best


@dataclass(eq=False, repr=False)  # scikit-learn has its own
class ERMClassifier(linear.LinearClassifier):
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
        the best. None: decades from 1 to 1e-5, in units of the features' variance (the geometric
        mean), further where the best is at an end, and between the best, all compared with half a
        mistaken sample added: where none is mistaken, small ridges would win by luck. A best ridge
        at an end of all that were tried is a warning.
    scaling : "auto", "standard", "global" or "none", default="auto"
        Divide each feature by its standard deviation, all by one number, or none. 'auto' is
        'standard' with a ridge that is given. With one that is chosen it is 'standard', or 'global'
        for features of one unit (half of them have nearly the same largest value, as pixels do),
        unless the other predicts held-out samples better by more than two standard errors of the
        difference. The scale is that of the training rows of each fold. A sparse X stays sparse.
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
    verbose: int = 0
    random_state: Any = None

    @threads_of_data
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit to X (n, d) and labels y (n,) of any type.

        X: dense, sparse, a memory map or a Dask array, none of which is copied if it is large.
        `sample_weight` (n,) multiplies each sample's loss; 0 leaves the sample out. `groups` (n,)
        goes to the splitter `cv`.
        """
        data = self._check_training_data(X, y, sample_weight)
        loss = as_loss(self.loss)
        data_checks.check_choice("scaling", self.scaling, linear.SCALINGS)
        data_checks.check_choice("scoring", self.scoring, ("neg_log_loss", "accuracy"))
        counts, factors = self._factors(data)
        shift, share = prior_shift(self.priors, self.classes_.size, data.y, counts, factors, loss)
        weights = None
        if data.weights is not None or self.class_weight is not None:
            weights = counts * factors
        moments = open_design(data.X).column_moments(data.weights)
        for name in ("path_", "method_", "scaling_scores_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        if isinstance(self.ridge, str) and self.ridge != "auto":
            raise InvalidInput(f"ridge must be 'auto' or a number, got {self.ridge!r}")
        path = None
        if self.ridge == "auto" and not loss.scale_free:
            score = ridge_choice.score_of(loss, self.scoring, shift)
            how = {"loss": loss, "score": score, "counts": counts, "share": share}
            path = self._choose(data, weights, moments, how, self._splits(data, X, groups))
        else:
            self._take_given_ridge()
        scaling = Scaling.of(moments, self.scaling_, centre=self.fit_intercept)
        fit = self._fit_scaled(data, loss, weights, scaling, path)
        self._store(fit.weights / math.sqrt(data.X.shape[1]), fit.intercepts + shift, scaling)
        self._scaling = scaling
        self._shift = shift
        self.n_iter_ = max(1, fit.n_iter)
        self.certificate_ = fit.distance_bound
        self.separability_ = fit.separability
        self._warn_of(fit, data, scaling)
        return self

    def _take_given_ridge(self) -> None:
        """Set the ridge and the scaling as they were given; a loss without scale has no ridge."""
        self.scaling_ = "standard" if self.scaling == "auto" else self.scaling
        self.ridge_ = 0.0
        if self.ridge != "auto":
            self.ridge_ = float(check_ridge(self.ridge))

    def _fit_scaled(
        self,
        data: TrainingData,
        loss: Loss,
        weights: Array | None,
        scaling: Scaling,
        path: ridge_choice.RidgeSearch | None,
    ) -> ERMFit:
        """Fit the scaled features at the ridge chosen, from the weights of the path of ridges."""
        ridge = self.ridge_ / scaling.unit**2
        start = None
        if path is not None:
            start = path.start  # (d + 1, k) with an intercept: its last row
        if start is not None and path is not None and path.interrupted:
            intercepts = 0 * start[0]
            if self.fit_intercept:
                intercepts = start[-1]
            stopped = stopped_at(start[: data.X.shape[1]], ridge, loss.name)
            return replace(stopped, intercepts=intercepts)
        return fit_erm(
            scaling.design(data.X),
            data.y,
            loss,
            ridge,
            intercept=self.fit_intercept,
            n_classes=self.classes_.size,
            tol=self.tol,
            start=start,
            sample_weight=weights,
            verbose=self.verbose,
        )

    def _warn_of(self, fit: ERMFit, data: TrainingData, scaling: Scaling) -> None:
        """Warn where the fit was interrupted, has no minimiser, or missed the tolerance."""
        if fit.status == Status.OK:
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
                message = _ENDLESS
        linear.warn_caller(message, ConvergenceWarning)

    def _factors(self, data: TrainingData) -> tuple[Array, Array]:
        """How often each sample is there (n,), and the factors of its class (n,)."""
        counts, factors = weights_or_ones(data.weights, data.y.size), np.ones(data.y.size)
        if self.class_weight is not None:
            given = {"classes": self.classes_, "y": self.classes_[data.y]}
            each = compute_class_weight(self.class_weight, sample_weight=data.weights, **given)
            if not (each > 0).all():
                raise InvalidInput(f"class_weight must be above 0 for every class, got {each}")
            factors = np.asarray(each, dtype=float)[data.y]
        return counts, factors

    def _samples(self, data: TrainingData, scaling: Scaling, weights: Array | None) -> Samples:
        """The scaled features with a column for the intercept, and weights of the loss."""
        d, k = data.X.shape[1], self.classes_.size
        # The solver divides by √(d + 1).
        column = (math.sqrt((d + 1) / d), math.sqrt(d)) if self.fit_intercept else ()
        return data_checks.check_samples(scaling.design(data.X, *column), data.y, k, weights)

    def _splits(
        self, data: TrainingData, X: Any, groups: Any, *, every: bool = False
    ) -> list[ridge_choice.Split] | None:
        """Return the rows to fit and the rows held out of each fold; None for leave-one-out.

        Of large data as many of the default folds as are enough, or `every` one.
        """
        seed = self.random_state or 0
        if isinstance(self.cv, str):
            if self.cv != "leave-one-out":
                allowed = "None, 'leave-one-out', a number of folds or a splitter"
                raise InvalidInput(f"cv must be {allowed}, got {self.cv!r}")
            return None
        if self.cv is None:
            if self._leave_one_out_is_cheaper(data):
                return None
            folds = ridge_choice.even_splits(data.y, _FOLDS, seed)
            return folds if every else folds[: -(-_FOLDS * _ENOUGH // data.X.shape[0])]
        if isinstance(self.cv, int | np.integer):
            return ridge_choice.even_splits(data.y, self.cv, seed)
        return self._given_splits(data, X, groups)

    def _leave_one_out_is_cheaper(self, data: TrainingData) -> bool:
        """Whether the weights are few and the samples many, or no class has a second sample."""
        n, d = data.X.shape
        if int(np.bincount(data.y).max()) < 2:
            return True
        n_weights = (d + 1) * (self.classes_.size - 1)
        few = n_weights <= ridge_choice.DENSE and n >= d
        return few and open_design(data.X).may_be_copied

    def _given_splits(self, data: TrainingData, X: Any, groups: Any) -> list[ridge_choice.Split]:
        """Return the splits of scikit-learn's splitter `cv`, as rows that have a weight."""
        n = data.labels.size
        given = np.zeros((n, 1)) if isinstance(data.X, Design) else X
        place = np.full(n, -1)
        place[data.kept] = np.arange(data.y.size)
        splits = []
        splitter = check_cv(self.cv, data.labels, classifier=True)
        for train, test in splitter.split(given, data.labels, groups):
            fitted = place[train]
            held_out = place[test]
            splits.append((fitted[fitted >= 0], held_out[held_out >= 0]))
        return splits

    def _choose(
        self,
        data: TrainingData,
        weights: Array | None,
        moments: ColumnMoments,
        how: dict[str, Any],
        splits: list[ridge_choice.Split] | None,
    ) -> ridge_choice.RidgeSearch:
        """Return the path of ridges of the best scaling; set the choices and their scores."""
        ridges = None
        if self.ridges is not None:
            ridges = [float(check_ridge(r)) for r in self.ridges]
        paths: dict[str, _ScaledPath] = {}
        rival: tuple[float, ridge_choice.RidgeScore] | None = None
        interrupted = False
        for kind in Scaling.kinds(self.scaling, moments):
            try:
                found = self._search(kind, data, weights, moments, how, ridges, splits, rival)
            except KeyboardInterrupt:
                if not paths:
                    raise
                interrupted = True
                break
            paths[kind] = found
            rival = found.path.best / found.variance, found.path.chosen
            interrupted = found.path.interrupted
            if interrupted:
                break
        self.scaling_ = _best_scaling(paths)
        if len(paths) > 1:
            self.scaling_scores_ = {
                kind: (found.path.chosen.mean, found.path.chosen.standard_error)
                for kind, found in paths.items()
            }
        chosen = paths[self.scaling_]
        chosen.path.interrupted = interrupted
        self._set_path(chosen)
        return chosen.path

    def _search(
        self,
        kind: str,
        data: TrainingData,
        weights: Array | None,
        moments: ColumnMoments,
        how: dict[str, Any],
        ridges: list[float] | None,
        splits: list[ridge_choice.Split] | None,
        rival: tuple[float, ridge_choice.RidgeScore] | None,
    ) -> _ScaledPath:
        """Try ridges on features scaled in one way, 'standard', 'global' or 'none'."""
        scaling = Scaling.of(moments, kind, centre=self.fit_intercept)
        area = scaling.unit**2
        spread = (moments.deviation / scaling.scale)[scaling.varying]
        variance = 1.0
        if spread.size:
            variance = math.exp(2 * np.log(spread).mean())
        scaled_ridges = None
        if ridges is not None:
            scaled_ridges = [ridge / area for ridge in ridges]
        samples = self._samples(data, scaling, weights)
        problem = ridge_choice.HeldOutProblem(
            samples, scaling=kind, intercept=self.fit_intercept, **how
        )
        with samples.design.watched(Watch(f"ridges, {kind} scaling", self.verbose)):
            path = ridge_choice.choose_ridge(
                problem,
                scaled_ridges,
                splits,
                self._fallback(data),
                between=self.scoring == "neg_log_loss",
                size=variance,
                rival=rival,
            )
        return _ScaledPath(path, area, variance)

    def _set_path(self, chosen: _ScaledPath) -> None:
        """Set the ridge and the path it was chosen from; warn where it is at an end of that."""
        path = chosen.path
        self.ridge_ = path.best * chosen.area
        self.method_ = path.method
        tried = [(one.ridge * chosen.area, one.mean, one.standard_error) for one in path.tried]
        names = ("ridge", "score", "standard_error")
        self.path_ = dict(zip(names, np.array(tried).T.copy(), strict=True))
        if path.edge and not path.interrupted:
            cure = "" if self.ridges is None else "; give `ridges` beyond it"
            linear.warn_caller(
                f"the best ridge is the {path.edge} of all tried, {self.ridge_:.2g}, and held-out "
                f"samples are predicted still better beyond it{cure}"
            )

    def _fallback(self, data: TrainingData) -> list[ridge_choice.Split] | None:
        """Folds in place of a leave-one-out that was not asked for."""
        if self.cv is not None:
            return None
        return ridge_choice.even_splits(data.y, _FOLDS, self.random_state or 0)

    def feature_tests(
        self, X: Any, y: Any, sample_weight: Any = None, *, precision: Any = None
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

        Returns
        -------
        DataFrame
            A row a feature: debiased `weight_c` and `standard_error_c` of each class c against the
            mean of all (of two classes: of the second against the first), `statistic` (χ² of k − 1
            degrees if the feature does not matter), `p_value`, and `q_value` (Benjamini and
            Hochberg: the share of false ones among all that are called up to here). NaN for
            features that are constant or determined by others.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> X, y = load_wine(return_X_y=True)
        >>> found = ERMClassifier().fit(X, y).feature_tests(X, y)
        >>> list(found.columns[-3:]), bool(found.q_value.min() < 1e-3)
        (['statistic', 'p_value', 'q_value'], True)
        """
        data, loss, k = self._again(X, y, sample_weight), as_loss(self.loss), self.classes_.size
        endless = bool(self.separability_) or not math.isfinite(self.certificate_)
        if loss.scale_free or (self.ridge_ == 0 and endless):
            raise InvalidInput(UNDETERMINED)
        (shift, scale, varying, unit), d = astuple(self._scaling), data.X.shape[1]
        weights, base = self._class_weights
        X, inverse = self._scaling.design(data.X, varying=True).read_rows(slice(None)), None
        scale = scale[varying] * (own := X.std(0))  # in which every feature varies by 1
        if precision is not None:
            inverse = as_numbers(precision, "precision").astype(float)
            if inverse.shape != (d, d) or not (np.diag(inverse) > 0).all():
                raise InvalidInput(f"precision must be ({d}, {d}) and positive, got {precision!r}")
            inverse = inverse[np.ix_(varying, varying)] * np.outer(scale, scale)
        fitted = Fitted(
            X / own,
            data.y,
            weights[varying] * scale[:, None],
            base + shift @ weights - self._shift,
            loss,
            class_coordinates(loss, k),
            *self._factors(data),
            self.ridge_ / unit**2 * d / own**2,
            self.fit_intercept,
        )
        names = np.asarray(getattr(self, "feature_names_in_", [f"x{i}" for i in range(d)]))
        shown = self.classes_[1:] if k == 2 else self.classes_
        return feature_frame(fitted, inverse, names[varying], shown, scale).reindex(names)

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
            `standard_error`, and the interval `low` to `high` of what fresh samples would show.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> found = ERMClassifier().fit(X, y).held_out_scores(X, y)
        >>> bool(found.low["error"] < found.value["error"] < found.high["error"] < 0.1)
        True
        """
        import pandas as pd
        import scipy.stats

        if not 0 < level < 1:
            raise InvalidInput(f"level must be between 0 and 1, got {level!r}")
        data, loss = self._again(X, y, sample_weight), as_loss(self.loss)
        if loss.scale_free:
            raise InvalidInput(f"the {loss.name} loss has no ridge at which samples are held out")
        counts, factors = self._factors(data)
        share = prior_shift(self.priors, self.classes_.size, data.y, counts, factors, loss)[1]
        area, splits = self._scaling.unit**2, self._splits(data, X, groups, every=True)
        z, size = scipy.stats.norm.isf((1 - level) / 2), share.sum() ** 2 / (share**2).sum()
        samples, rows = self._samples(data, self._scaling, counts * factors), {}
        for name, scoring in (("error", "accuracy"), ("log_loss", "neg_log_loss")):
            score = ridge_choice.score_of(loss, scoring, self._shift)
            how = loss, score, counts, share, self.scaling_, self.fit_intercept
            search = ridge_choice.HeldOutProblem(samples, *how)
            ridge = max(self.ridge_ / area, _NO_RIDGE)
            found = ridge_choice.choose_ridge(search, [ridge], splits, self._fallback(data)).chosen
            middle, half, shrink = found.mean, z * found.standard_error, 1.0
            if name == "error":  # of a share, Wilson's interval, of some width at 0
                shrink = 1 / (1 + z**2 / size)
                middle, half = middle + z**2 / (2 * size), math.hypot(half, z**2 / (2 * size))
            low, high = max(shrink * (middle - half), 0.0), shrink * (middle + half)
            most = 1.0 if name == "error" else math.inf
            rows[name] = found.mean, found.standard_error, low, min(high, most)
        columns = ["value", "standard_error", "low", "high"]
        return pd.DataFrame.from_dict(rows, orient="index", columns=columns)

    def _again(self, X: Any, y: Any, sample_weight: Any) -> TrainingData:
        """The samples of the fit, a second time."""
        self._features(X)
        kept = self.classes_
        y = label_values(y)
        if not np.array_equal(np.unique(y), kept):
            raise InvalidInput(f"y must hold the classes of the fit, {kept}, got {np.unique(y)}")
        return self._check_training_data(X, y, sample_weight)

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """Class probabilities (n, k) that the loss reads from the class fields."""
        found = as_loss(self.loss).probabilities(fields_at(self._features(X), *self._class_weights))
        return self._like(X, np.asarray(found))
