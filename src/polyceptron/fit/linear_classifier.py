"""What the scikit-learn classifiers share: input checks, scaling, linear decisions, warnings.

    decision_function(X) = X·coef_ᵀ + intercept_        (the class fields; one column if k = 2)

Inside, features are centred, if there is an intercept, and divided

    'standard'    each by its own standard deviation (the theory's convention)
    'global'      all by one number, the root of their mean variance
    'none'        by the same number, and the ridge with its square: the objective of raw features

`coef_` and `intercept_` are those of the raw features, in single precision where X is; inside, all
is double. Parameters are checked by `fit`, and arrays are (n_samples, n_features) throughout, as
scikit-learn has them.
"""

import math
import sys
import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import column_or_1d
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from polyceptron.checks import as_numbers
from polyceptron.data.checks import Labels, check_choice
from polyceptron.data.design import BLOCK_BYTES, ColumnMoments, Design
from polyceptron.data.labels import class_labels, label_array
from polyceptron.data.sparse_checks import compressed_rows
from polyceptron.data.stored_designs import FileDesign, ScaleRows, open_design, scaled
from polyceptron.errors import InvalidInput
from polyceptron.numerics import Array
from polyceptron.problem.losses import Loss

SCALINGS = ("auto", "standard", "global", "none")
_ALIKE = 1.2  # ratio of deviations up to which one scale is all scales
_ONE_UNIT = 0.9  # of the largest value, that half of the features of one unit have


class TrainingData(NamedTuple):
    """X (n, d), class indices y (n,), and weights (n,) above 0, or None where all are 1.

    `kept` (n,) are the rows, of those given, that have a weight; `labels` those of all.
    """

    X: Any
    y: Labels
    weights: Array | None
    kept: Labels
    labels: NDArray[Any]


@dataclass(frozen=True)
class Scaling:
    """x ↦ (x − shift)/scale, which makes constant features 0 if they are centred.

    A ridge λ of the classifier is λ/unit² for the scaled features.
    """

    shift: Array
    scale: Array
    varying: NDArray[np.bool_]
    unit: float = 1.0

    @classmethod
    def of(cls, moments: ColumnMoments, kind: str, *, centre: bool) -> Self:
        """The scaling of a kind, 'standard', 'global' or 'none'."""
        mean, spread, largest = moments
        # Below 1e-290 the reciprocal of the scale would overflow: as good as constant.
        varying = (spread > 10 * np.finfo(float).eps * largest) & (spread > 1e-290)
        shift, unit = mean if centre else 0 * mean, 1.0
        if kind != "standard" and varying.any():
            most = float(spread[varying].max())
            unit = most * math.sqrt(((spread[varying] / most) ** 2).sum() / mean.size)
            spread = np.full(mean.size, unit)
        scale = np.where(varying, spread, 1e300 if centre else unit)  # of their mean, its rounding
        return cls(shift, scale, varying, unit if kind == "none" else 1.0)

    @staticmethod
    def kinds(asked: str, moments: ColumnMoments) -> list[str]:
        """Return what 'auto' chooses from, the one that needs no proof first.

        One kind where all features have about the same deviation. Where half of them have nearly
        the same largest value, as pixels do, they have one unit, and so one scale.
        """
        spread, most = moments.deviation, moments.largest
        if asked != "auto" or spread.max() <= _ALIKE * spread.min():
            return ["standard" if asked == "auto" else asked]
        one_unit = np.median(most[spread > 0]) >= _ONE_UNIT * most.max()
        return ["global", "standard"] if one_unit else ["standard", "global"]

    def design(
        self, X: Any, stretch: float = 1.0, constant: float | None = None, *, varying: bool = False
    ) -> Design:
        """The scaled X times `stretch`, and a column of `constant·stretch` behind it.

        Of all features, or of those that vary. A sparse X is not filled, and a design is scaled as
        it is read.
        """
        kept = self.varying if varying else np.full(self.shift.size, True)
        column = None if constant is None else constant * stretch
        if issparse(X) or isinstance(X, Design):
            return scaled(open_design(X), self.shift, self.scale / stretch, kept, column)
        return open_design(ScaleRows(self.shift, self.scale / stretch, kept, column)(X))


class LinearClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Base of the classifiers: everything but the fit itself."""

    classes_: NDArray[Any]
    coef_: Array
    intercept_: Array
    n_iter_: int
    n_features_in_: int

    def __sklearn_tags__(self) -> Any:
        """Sparse input is welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _check_training_data(self, X: Any, y: Any, sample_weight: Any = None) -> TrainingData:
        """X (n, d) as doubles or a design, classes' indices and weights; sets `classes_`."""
        single = getattr(X, "dtype", None) == np.float32
        self._dtype = np.dtype(np.float32 if single else np.float64)
        X, large = _opened(X)
        y = label_array(y)
        if y.ndim == 2 and y.shape[1] == 1:
            y = column_or_1d(y, warn=True)
        check_one_label(y)
        y = class_labels(y, _n_samples(X))
        if not large:
            X, y = validate_data(self, X, y, dtype=np.float64, accept_sparse="csr")
        else:
            self.n_features_in_ = X.dimension
            X.check_entries()
        check_classification_targets(y)
        weights, labels, rows = None, y, np.arange(len(y))
        if sample_weight is not None:
            like = np.empty((X.n_samples, 0)) if large else X
            weights = _check_sample_weight(sample_weight, like, dtype=np.float64)
            if not (weights >= 0).all():
                raise InvalidInput("sample_weight must be 0 or more for every sample")
            kept = weights > 0
            if isinstance(X, Design) and X.reading_is_dear and not kept.all():
                raise InvalidInput("sample_weight must be above 0 where X is too large to copy")
            if not kept.all():
                X = open_design(X.read_rows(kept)) if large else X[kept]
                y, weights, rows = y[kept], weights[kept], rows[kept]
            weights = None if (weights == 1).all() else weights
        self.classes_, index = np.unique(y, return_inverse=True)
        if self.classes_.size < 2:
            name, one = type(self).__name__, self.classes_[0]
            raise InvalidInput(f"{name} needs samples of at least two classes, got 1 class: {one}")
        return TrainingData(X, index.astype(np.int64), weights, rows, labels)

    def _store(self, weights: Array, offset: Array, scaling: Scaling) -> None:
        """Set `coef_` and `intercept_` from weights (d, k) and offset (k,) of scaled features."""
        raw = weights / scaling.scale[:, None]
        base = offset - scaling.shift @ raw
        self._class_weights = raw, base
        if self.classes_.size == 2:
            raw, base = raw[:, 1:] - raw[:, :1], base[1:] - base[:1]
        self.coef_ = np.ascontiguousarray(raw.T).astype(self._dtype)
        self.intercept_ = base.astype(self._dtype)

    def _like(self, X: Any, out: Array) -> Array:
        """Numbers in single precision where X and the data of the fit are."""
        single = self._dtype == np.float32 == getattr(X, "dtype", None)
        return out.astype(np.float32) if single else out  # type: ignore[return-value]

    def _features(self, X: Any) -> Any:
        """New samples (n, d) as doubles, sparse, or a design if they are many."""
        check_is_fitted(self)
        X, large = _opened(X)
        if not large:
            return validate_data(self, X, reset=False, dtype=np.float64, accept_sparse="csr")
        if X.dimension != self.n_features_in_:
            name, known = type(self).__name__, self.n_features_in_
            raise InvalidInput(f"X has {X.dimension} features, but {name} was fitted to {known}")
        X.check_entries()
        return X

    def decision_function(self, X: Any) -> Array:
        """The class fields (n, k); for two classes the difference (n,) of second and first."""
        scores = fields_at(self._features(X), *self._class_weights)
        return self._like(X, scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores)

    def predict(self, X: Any) -> NDArray[Any]:
        """The class with the largest field."""
        scores = self.decision_function(X)
        index = (scores > 0).astype(np.int64) if scores.ndim == 1 else scores.argmax(1)
        return np.asarray(self.classes_[index])

    @available_if(lambda self: self.predict_proba)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Array:
        """Logarithm of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))  # type: ignore[attr-defined]


def check_one_label(y: NDArray[Any]) -> None:
    """Raise an error message for several labels a sample."""
    if y.ndim == 2 and y.shape[1] > 1:
        raise InvalidInput(
            f"y is multilabel, of shape {y.shape}: give one label for each sample, and fit one "
            "classifier to each column"
        )


def fields_at(X: Any, weights: Array, offset: Array) -> Array:
    """X·weights + offset, (n, d) and (d, k) to (n, k)."""
    if isinstance(X, Design):
        return np.ascontiguousarray(X.times_columns(np.ascontiguousarray(weights.T)).T) + offset
    return np.asarray(X @ weights + offset)


def prior_shift(
    priors: Any, k: int, y: Labels, counts: Array, factors: Array, loss: Loss
) -> tuple[Array, Array]:
    """Return what the priors add to the fields (k,), and samples' weights (n,) in the score."""
    if priors is None:
        return np.zeros(k), counts * factors
    fitted, own = (np.bincount(y, w, k) / w.sum() for w in (counts * factors, counts))
    if isinstance(priors, str):
        check_choice("priors", priors, ("data", "balanced"))
        target = own if priors == "data" else np.full(k, 1 / k)
    else:
        target = as_numbers(priors, "priors").astype(float)
        if target.shape != (k,) or not (target > 0).all() or abs(target.sum() - 1) > 1e-6:
            raise InvalidInput(
                f"priors must be a share above 0 for each of the {k} classes, 1 in all, or "
                f"'data' or 'balanced', got {priors!r}"
            )
    if not has_softmax_probabilities(loss, k):
        raise InvalidInput(
            f"priors need a loss whose probabilities are the softmax of the fields, as those of "
            f"cross-entropy are; got {loss.name!r}"
        )
    return np.log(target / fitted), counts * (target / own)[y]


def has_softmax_probabilities(loss: Loss, k: int) -> bool:
    """Return whether the probabilities of a loss are the softmax of its k fields."""
    z = np.random.default_rng(0).standard_normal((5, k))
    probabilities = loss.probabilities(z)
    return probabilities is not None and bool(np.allclose(probabilities, softmax(z, axis=1)))


def _opened(X: Any) -> tuple[Any, bool]:
    """The design of an X that is not to be copied (read from elsewhere, or large), and that it is.

    A small map of floats is read from its file, so that one cut short is an error message. The
    indices of a sparse matrix are checked, since compiled code relies on them.
    """
    if issparse(X):
        return compressed_rows(X), False
    matrix = isinstance(X, np.ndarray) and X.ndim == 2 and X.size > 0
    floats, mapped = matrix and X.dtype in (np.float32, np.float64), isinstance(X, np.memmap)
    large = matrix and X.nbytes > BLOCK_BYTES and (floats or mapped)
    if large or isinstance(X, Design) or hasattr(X, "__dask_graph__"):
        return open_design(X), True
    return FileDesign(X).read_rows(slice(None)) if floats and mapped else X, False


def _n_samples(X: Any) -> int | None:
    """n of a matrix (n, d), None for a list or what is no matrix."""
    shape: tuple[int, ...] = getattr(X, "shape", ())
    if len(shape) != 2:
        return None
    return shape[0]


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """A warning that points at the line from which the classifier was called."""
    frame, level, ours = sys._getframe(1), 2, ("polyceptron.", "sklearn.", "joblib.")
    while frame.f_back is not None and f"{frame.f_globals.get('__name__')}.".startswith(ours):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
