"""What a fitted classifier by empirical risk minimisation is asked: tests, scores, sets, export.

The fit itself is that of `ERMClassifier`, which gives its weights, ridge and scaling (the head of
`erm_classifier` says in which units), and the problem that was fitted, for the same samples again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from polyceptron.data.design import ColumnMoments
from polyceptron.data.labels import label_values
from polyceptron.errors import InvalidInput
from polyceptron.fit import linear_classifier as linear
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
from polyceptron.fit.held_out_problem import HeldOutProblem, Score, score_of
from polyceptron.fit.linear_classifier import Scaling, TrainingData, fields_at
from polyceptron.fit.ridge_search import choose_ridge
from polyceptron.fit.sklearn_pipeline import fitted_pipeline
from polyceptron.fit.solvers.erm_fit import Separation
from polyceptron.fit.splits import HoldingOut
from polyceptron.numerics import Array
from polyceptron.problem.losses import Loss, as_loss
from polyceptron.problem.losses.checks import class_coordinates

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

STANDS_FOR_NO_RIDGE = 1e-9  # where samples are held out: the search takes logarithms of ridges


def _has_probabilities(classifier: Any) -> bool:
    loss = as_loss(classifier.loss)
    if loss.probabilities(np.zeros((1, 2))) is not None:
        return True
    raise AttributeError(f"the {loss.name} loss has no class probabilities; use cross-entropy")


@dataclass(frozen=True)
class WeightedProblem:
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


class FittedERM(linear.LinearClassifier):
    """Questions to a fitted `ERMClassifier`, which sets these attributes and has these methods."""

    loss: Any
    fit_intercept: bool
    ridge_: float
    C_: float
    scaling_: str
    certificate_: float
    separability_: Separation | None
    _scaling: Scaling
    _shift: Array
    _held_out: HeldOutLabels

    def _problem(self, X: Any, y: Any, sample_weight: Any) -> WeightedProblem:
        """Return what is fitted, for checked samples."""
        raise NotImplementedError

    def _holding_out(self, X: Any, groups: Any) -> HoldingOut:
        """Return how samples are held out."""
        raise NotImplementedError

    def _held_out_problem(
        self,
        problem: WeightedProblem,
        scaling: Scaling,
        kind: str,
        scoring: str,
        also: dict[str, Score],
    ) -> HeldOutProblem:
        """Return what is fitted and scored when samples are held out."""
        raise NotImplementedError

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
        >>> from polyceptron import ERMClassifier
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

    def _scaled_fit(self, problem: WeightedProblem) -> tuple[Fitted, Array]:
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
        >>> from polyceptron import ERMClassifier
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

    def _problem_again(self, X: Any, y: Any, sample_weight: Any) -> WeightedProblem:
        """Return the problem of the fit for the samples that it was fitted to."""
        self._features(X)  # raises unless X has the columns of the fit
        check_same_classes(y, self.classes_)
        return self._problem(X, y, sample_weight)

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
        >>> from polyceptron import ERMClassifier
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
        >>> from polyceptron import ERMClassifier
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
