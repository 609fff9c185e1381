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
from numpy.typing import ArrayLike, NDArray
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
from polyceptron.data.labels import class_labels, label_array, label_values
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
        """Return the scaling of a kind, 'standard', 'global' or 'none'."""
        mean, spread, largest = moments
        # Below 1e-290 the reciprocal of the scale would overflow: as good as constant.
        varying = (spread > 10 * np.finfo(float).eps * largest) & (spread > 1e-290)
        shift = 0 * mean
        unit = 1.0
        if kind != "standard" and varying.any():
            most = float(spread[varying].max())
            unit = most * math.sqrt(((spread[varying] / most) ** 2).sum() / mean.size)
            spread = np.full(mean.size, unit)
        scale_of_constants = unit
        if centre:
            shift = mean
            scale_of_constants = (
                1e300  # centred, what is left of them is the rounding of their mean
            )
        scale = np.where(varying, spread, scale_of_constants)
        if kind != "none":
            unit = 1.0
        return cls(shift, scale, varying, unit)

    @staticmethod
    def kinds(asked: str, moments: ColumnMoments) -> list[str]:
        """Return what 'auto' chooses from, the one that needs no proof first.

        One kind where all features have about the same deviation. Where half of them have nearly
        the same largest value, as pixels do, they have one unit, and so one scale.
        """
        if asked != "auto":
            return [asked]
        spread = moments.deviation
        if spread.max() <= _ALIKE * spread.min():
            return ["standard"]
        largest = moments.largest
        if np.median(largest[spread > 0]) >= _ONE_UNIT * largest.max():
            return ["global", "standard"]
        return ["standard", "global"]

    def design(
        self, X: Any, stretch: float = 1.0, constant: float | None = None, *, varying: bool = False
    ) -> Design:
        """Return the scaled X times `stretch`, and a column of `constant·stretch` behind it.

        Parameters
        ----------
        X : array, sparse matrix or Design (n, d)
            A sparse one is not filled, and a design is scaled as it is read.
        stretch : float, default=1.0
        constant : float, optional
            Without it there is no further column.
        varying : bool, default=False
            Whether to leave out the features that are constant.
        """
        kept = np.full(self.shift.size, True)
        if varying:
            kept = self.varying
        column = None
        if constant is not None:
            column = constant * stretch
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
    _dtype: np.dtype[np.float32] | np.dtype[np.float64]  # of the numbers that are shown

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags, which say that sparse input is welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _check_training_data(self, X: Any, y: Any, sample_weight: Any = None) -> TrainingData:
        """Return X (n, d) as doubles or a design, classes' indices and weights; set `classes_`."""
        self._dtype = np.dtype(np.float64)
        if is_single(X):
            self._dtype = np.dtype(np.float32)
        X, large = _opened(X)
        y = _one_axis(y)
        check_one_label(y)
        y = class_labels(y, _n_samples(X))
        if not large:
            X, y = self._validated(X, y=y)
        else:
            self.n_features_in_ = X.dimension
            X.check_entries()
        check_classification_targets(y)
        weights = None
        labels = y
        rows = np.arange(len(y))
        if sample_weight is not None:
            weights = _checked_weights(sample_weight, X)
            kept = weights > 0
            if not kept.all():
                X = _rows_of_weight(X, kept)
                y = y[kept]
                weights = weights[kept]
                rows = rows[kept]
            if (weights == 1).all():
                weights = None
        self.classes_, index = np.unique(y, return_inverse=True)
        if self.classes_.size < 2:
            raise InvalidInput(
                f"{type(self).__name__} needs samples of at least two classes, got 1 class: "
                f"{self.classes_[0]}"
            )
        return TrainingData(X, index.astype(np.int64), weights, rows, labels)

    def _validated(self, X: Any, **more: Any) -> Any:
        """Return what scikit-learn makes of X (and y), or raise its complaint as InvalidInput."""
        try:
            return validate_data(self, X, dtype=np.float64, accept_sparse="csr", **more)
        except ValueError as error:
            raise InvalidInput(str(error)) from None

    def _store(self, weights: Array, offset: Array, scaling: Scaling) -> None:
        """Set `coef_` and `intercept_` from weights (d, k) and offset (k,) of scaled features."""
        raw = weights / scaling.scale[:, None]
        base = offset - scaling.shift @ raw
        self._class_weights = raw, base
        if self.classes_.size == 2:
            raw = raw[:, 1:] - raw[:, :1]
            base = base[1:] - base[:1]
        self.coef_ = np.ascontiguousarray(raw.T).astype(self._dtype)
        self.intercept_ = base.astype(self._dtype)

    def _like(self, X: Any, out: Array) -> Array:
        """Return numbers in single precision where X and the data of the fit are."""
        if is_single(X):
            return out.astype(self._dtype)
        return out

    def _features(self, X: Any) -> Any:
        """Return new samples (n, d) as doubles, sparse, or a design if they are many."""
        check_is_fitted(self)
        X, large = _opened(X)
        if not large:
            return self._validated(X, reset=False)
        if X.dimension != self.n_features_in_:
            raise InvalidInput(
                f"X has {X.dimension} features, but {type(self).__name__} was fitted to "
                f"{self.n_features_in_}"
            )
        X.check_entries()
        return X

    def decision_function(self, X: Any) -> Array:
        """Return the class fields (n, k); of two classes the second's less the first's (n,)."""
        fields = fields_at(self._features(X), *self._class_weights)
        if fields.shape[1] == 2:
            fields = fields[:, 1] - fields[:, 0]
        return self._like(X, fields)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class (n,) with the largest field."""
        fields = self.decision_function(X)
        if fields.ndim == 1:
            return np.asarray(self.classes_[(fields > 0).astype(np.int64)])
        return np.asarray(self.classes_[fields.argmax(1)])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of samples whose label in y (n,) is predicted."""
        labels = label_values(_one_axis(y))
        return float(super().score(X, labels, sample_weight))

    @available_if(lambda self: self.predict_proba)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithm of `predict_proba` (n, k)."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))  # type: ignore[attr-defined]


def _one_axis(y: Any) -> NDArray[Any]:
    """Return labels as an array; those in a column (n, 1) as (n,), with a warning."""
    labels = label_array(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        return np.asarray(column_or_1d(labels, warn=True))
    return labels


def is_single(X: Any) -> bool:
    """Return whether X holds numbers in single precision."""
    return getattr(X, "dtype", None) == np.float32


def _checked_weights(sample_weight: ArrayLike, X: Any) -> Array:
    """Return the weights (n,) of the samples, or raise an error message for one below 0."""
    if isinstance(X, Design):
        X = np.empty((X.n_samples, 0))
    weights = np.asarray(_check_sample_weight(sample_weight, X, dtype=np.float64))
    if not (weights >= 0).all():
        raise InvalidInput("sample_weight must be 0 or more for every sample")
    return weights


def _rows_of_weight(X: Any, kept: NDArray[np.bool_]) -> Any:
    """Return the rows of X that have a weight, or raise an error message if X is too large."""
    if not isinstance(X, Design):
        return X[kept]
    if X.reading_is_dear:
        raise InvalidInput("sample_weight must be above 0 where X is too large to copy")
    return open_design(X.read_rows(kept))


def check_one_label(y: NDArray[Any]) -> None:
    """Raise an error message for several labels a sample."""
    if y.ndim == 2 and y.shape[1] > 1:
        raise InvalidInput(
            f"y is multilabel, of shape {y.shape}: give one label for each sample, and fit one "
            "classifier to each column"
        )


def fields_at(X: Any, weights: Array, offset: Array) -> Array:
    """Return X·weights + offset (n, k), from X (n, d), weights (d, k) and offset (k,)."""
    if isinstance(X, Design):
        fields = X.times_columns(np.ascontiguousarray(weights.T))
        return np.ascontiguousarray(fields.T) + offset
    return np.asarray(X @ weights + offset)


def prior_shift(
    priors: ArrayLike | str | None,
    k: int,
    y: Labels,
    counts: Array,
    factors: Array,
    loss: Loss,
) -> tuple[Array, Array]:
    """Return what the priors add to the fields (k,), and samples' weights (n,) in the score.

    Parameters
    ----------
    priors : None, 'data', 'balanced' or array_like (k,)
        Shares of the classes among the samples to be predicted.
    k : int
        Number of classes.
    y : array of int (n,)
        Labels.
    counts, factors : array (n,)
        How often each sample is there, and the factor of its class.
    loss : Loss
        Its probabilities must be the softmax of the fields.
    """
    if priors is None:
        return np.zeros(k), counts * factors
    weights = counts * factors
    fitted = np.bincount(y, weights, k) / weights.sum()
    in_data = np.bincount(y, counts, k) / counts.sum()
    target = _target_shares(priors, in_data)
    if not has_softmax_probabilities(loss, k):
        raise InvalidInput(
            f"priors need a loss whose probabilities are the softmax of the fields, as those of "
            f"cross-entropy are; got {loss.name!r}"
        )
    return np.log(target / fitted), counts * (target / in_data)[y]


def _target_shares(priors: ArrayLike | str, in_data: Array) -> Array:
    """Return the shares (k,) that the priors ask for, given those in the data."""
    k = in_data.size
    if isinstance(priors, str):
        check_choice("priors", priors, ("data", "balanced"))
        if priors == "data":
            return in_data
        return np.full(k, 1 / k)
    target = as_numbers(priors, "priors").astype(float)
    if target.shape != (k,) or not (target > 0).all() or abs(target.sum() - 1) > 1e-6:
        raise InvalidInput(
            f"priors must be a share above 0 for each of the {k} classes, 1 in all, or "
            f"'data' or 'balanced', got {priors!r}"
        )
    return target


def has_softmax_probabilities(loss: Loss, k: int) -> bool:
    """Return whether the probabilities of a loss are the softmax of its k fields."""
    z = np.random.default_rng(0).standard_normal((5, k))
    probabilities = loss.probabilities(z)
    return probabilities is not None and bool(np.allclose(probabilities, softmax(z, axis=1)))


def _opened(X: Any) -> tuple[Any, bool]:
    """Return X, and whether it is a design: read from elsewhere, or too large to be copied.

    A small map of floats is read from its file, so that one cut short is an error message. The
    indices of a sparse matrix are checked, since compiled code relies on them.
    """
    if issparse(X):
        return compressed_rows(X), False
    if isinstance(X, Design) or hasattr(X, "__dask_graph__"):
        return open_design(X), True
    if not isinstance(X, np.ndarray) or X.ndim != 2 or X.size == 0:
        return X, False
    floats = X.dtype in (np.float32, np.float64)
    mapped = isinstance(X, np.memmap)
    if X.nbytes > BLOCK_BYTES and (floats or mapped):
        return open_design(X), True
    if floats and isinstance(X, np.memmap):
        return FileDesign(X).read_rows(slice(None)), False
    return X, False


def _n_samples(X: Any) -> int | None:
    """Return n of a matrix (n, d), None for a list or what is no matrix."""
    shape: tuple[int, ...] = getattr(X, "shape", ())
    if len(shape) != 2:
        return None
    return shape[0]


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn, and point at the line from which the classifier was called."""
    ours = ("polyceptron.", "sklearn.", "joblib.")
    frame = sys._getframe(1)
    level = 2
    while frame.f_back is not None and f"{frame.f_globals.get('__name__')}.".startswith(ours):
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level)
