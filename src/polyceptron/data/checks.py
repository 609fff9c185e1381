"""What fits and message passing accept besides X, and the error messages for what they do not."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyceptron.checks import as_numbers, check_classes
from polyceptron.data.design import Design
from polyceptron.data.labels import label_values, one_class_only
from polyceptron.data.stored_designs import DataMatrix, open_design, scaled
from polyceptron.errors import InvalidInput
from polyceptron.numerics import Array

Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Samples:
    """The samples of a data set; it unpacks as design, labels and number of classes.

    Attributes
    ----------
    design : Design
        X (n, d).
    y : ndarray of int of shape (n,)
        Labels in 0..k−1.
    n_classes : int
        k.
    weights : ndarray of shape (n,) or None
        Weights of the samples, None where all are 1.
    intercept : Intercept or None
        How the intercept is fitted (`fit.solvers.intercept`).
    features : Design or None
        The design that was given, where `design` has a further column for the intercept.
    """

    design: Design
    y: Labels
    n_classes: int
    weights: Array | None = None
    intercept: Any = None
    features: Design | None = None

    def __iter__(self) -> Iterator[Any]:
        """Yield the design, the labels and the number of classes."""
        return iter((self.design, self.y, self.n_classes))

    @property
    def total(self) -> float:
        """The sum of the samples' weights; their number where they have none."""
        if self.weights is None:
            return float(self.y.size)
        return float(self.weights.sum())

    def error_rate(self, fields: Array) -> float:
        """Return the fraction of samples whose largest field, of (k, n), is not the label's."""
        return float(np.average(fields.argmax(0) != self.y, weights=self.weights))


def check_samples(
    X: DataMatrix, y: object, n_classes: int | None, sample_weight: object = None
) -> Samples:
    """Return X and y as an algorithm needs them, or raise InvalidInput.

    Parameters
    ----------
    X : array, memory map, sparse matrix or Dask array of shape (n, d)
        Inputs. All of them are read once, to find entries that cannot be used.
    y : array_like of int of shape (n,)
        Labels in 0..k−1.
    n_classes : int or None
        k; None for as many as there are labels, each at least once.
    sample_weight : array_like of shape (n,), default=None
        Weights of the samples.

    Returns
    -------
    Samples
    """
    design = open_design(X)
    labels, k = check_labels(y, design.n_samples, n_classes)
    weights = _check_sample_weights(sample_weight, labels.size)
    design.check_entries()  # last, since it reads all of X
    return Samples(design, labels, k, weights)


def _check_sample_weights(sample_weight: object, n: int) -> Array | None:
    """Return weights (n,) of the samples, None where all are 1, or raise InvalidInput."""
    if sample_weight is None:
        return None
    weights = as_numbers(sample_weight, "sample_weight").astype(float)
    if weights.shape != (n,):
        raise InvalidInput(
            f"sample_weight must have one number for each of the {n} samples, got shape "
            f"{weights.shape}"
        )
    if not (np.isfinite(weights).all() and (weights > 0).all()):
        raise InvalidInput("sample_weight must be finite and above 0: leave out what has weight 0")
    if (weights == 1).all():
        return None
    return weights


def check_intercept(intercept: object) -> bool:
    """Return whether an intercept is fitted, or raise InvalidInput."""
    if not isinstance(intercept, bool | np.bool_):
        raise InvalidInput(f"intercept must be True or False, got {intercept!r}")
    return bool(intercept)


def class_factors(class_weight: object, samples: Samples) -> Array | None:
    """Return the factor of each sample's loss by its class, (n,), or raise InvalidInput.

    Parameters
    ----------
    class_weight : None, "balanced", dict or array_like of shape (k,)
        None for no factors; "balanced" for n/(k n_c), with which every class counts the same; or
        a number for each class.
    samples : Samples
        Labels, and weights if there are any.

    Returns
    -------
    ndarray of shape (n,) or None
    """
    if class_weight is None:
        return None
    k = samples.n_classes
    if isinstance(class_weight, str):
        check_choice("class_weight", class_weight, ("balanced",))
        counts = np.bincount(samples.y, samples.weights, k)
        balanced = samples.total / (k * np.where(counts > 0, counts, np.inf))
        return np.asarray(balanced)[samples.y]
    if isinstance(class_weight, dict):
        factors = _factors_by_class(class_weight, k)
    else:
        factors = as_numbers(class_weight, "class_weight").astype(float)
    if factors.shape != (k,) or not (np.isfinite(factors) & (factors > 0)).all():
        raise InvalidInput(
            f"class_weight must be None, 'balanced', {{class: w}} or a number for each of the {k} "
            f"classes, finite and above 0; got {class_weight!r}"
        )
    return np.asarray(factors[samples.y])


def _factors_by_class(class_weight: Mapping[int, object], k: int) -> Array:
    """Return factors (k,) from a dict of those that are not 1, or raise InvalidInput."""
    wrong = [c for c in class_weight if isinstance(c, bool) or c not in range(k)]
    if wrong:
        raise InvalidInput(f"class_weight has {wrong[0]!r}: classes are 0 to {k - 1}")
    factors = np.ones(k)
    given = as_numbers(list(class_weight.values()), "class_weight").astype(float)
    factors[[int(c) for c in class_weight]] = given
    return factors


# Powers of two: data whose units are within these of 1 are left as they are.
UNITS_LEFT_ALONE = 10

# The largest ridge, and the least one whose products do not underflow, as powers of two.
LARGEST_RIDGE_POWER = 100
LEAST_RIDGE_POWER = -800


@dataclass(frozen=True)
class Units:
    """Powers of two in which data are ordinary: X/2^p has rows of norm √d, weights s/2^q are 1.

    With W̃ = 2^p W the fields are the same and λ̃ = λ/2^(2p+q). A λ̃ far above the curvature of the
    loss is replaced by about 2^100, since W̃ goes as 1/λ̃ there; its weights are then to be divided
    by the power of two by which λ̃ was reduced.
    """

    p: int = 0
    q: int = 0

    def ridge(self, ridge: float) -> tuple[float, int]:
        """Return λ̃, and the power of two by which its weights are still to be divided."""
        if ridge == 0:
            return 0.0, 0
        mantissa, power = math.frexp(ridge)
        power -= 2 * self.p + self.q
        reduction = max(power - LARGEST_RIDGE_POWER, 0)
        return math.ldexp(mantissa, max(power - reduction, LEAST_RIDGE_POWER)), reduction


def in_units(samples: Samples) -> tuple[Samples, Units]:
    """Return the samples in units in which nothing overflows, and these units."""
    design = samples.design
    weights = samples.weights
    largest = float(design.row_norms.max())
    if not largest > 1e-140:  # squares of such entries underflow: look at the entries themselves
        largest = float(design.largest().max())
    p = _power_of_two(largest)
    q = 0
    if weights is not None:
        q = _power_of_two(float(weights.max()))
    units = Units(p, q)
    if units.p != 0:
        design = scaled(design, None, np.full(design.dimension, math.ldexp(1.0, units.p)))
    if weights is not None:
        weights = np.ldexp(weights, -units.q)
    return replace(samples, design=design, weights=weights), units


def _power_of_two(size: float) -> int:
    """Return the power of two of a size, 0 where it is near enough to 1 to need no unit."""
    if size <= 0:
        return 0
    power = math.frexp(size)[1]
    if abs(power) <= UNITS_LEFT_ALONE:
        return 0
    return power


def check_labels(y: object, n: int, n_classes: int | None = None) -> tuple[Labels, int]:
    """Return labels (n,) as integers 0..k−1, and k, or raise InvalidInput.

    Without `n_classes`, every class up to the largest label must have a sample.
    """
    given = label_values(y, n)
    if given.dtype.kind not in "iuf":
        raise InvalidInput(f"y must hold class indices 0, 1, ..., got {given.dtype} values")
    whole = given.astype(np.int64)
    if not np.array_equal(whole, given):
        raise InvalidInput(f"y must hold class indices 0, 1, ..., got numbers up to {given.max()}")
    if n_classes is None and (whole == whole[0]).all():
        raise one_class_only(whole[:1], "y", ", or their number as n_classes")
    if n_classes is None:
        k = check_classes(max(2, int(whole.max()) + 1))
    else:
        k = check_classes(n_classes)
    if whole.min() < 0 or whole.max() >= k:
        raise InvalidInput(
            f"labels must be between 0 and {k - 1}, got {whole.min()} to {whole.max()}"
        )
    if n_classes is None:
        _check_no_class_is_empty(whole, k)
    return whole, k


def _check_no_class_is_empty(labels: Labels, k: int) -> None:
    """Raise unless each of the k classes has a sample."""
    empty = np.flatnonzero(np.bincount(labels, minlength=k) == 0)
    if empty.size:
        raise InvalidInput(
            f"class {empty[0]} has no samples: labels count from 0; if that is meant, give "
            "the number of classes as n_classes"
        )


def check_weights(weights: object, name: str, d: int, k: int) -> Array | None:
    """Return finite weights (d, k) in double precision, None for None, or raise InvalidInput."""
    if weights is None:
        return None
    found = as_numbers(weights, name).astype(float)
    if found.shape != (d, k):
        raise InvalidInput(
            f"{name} must be (dimension, classes) = ({d}, {k}), got shape {found.shape}"
        )
    if not np.isfinite(found).all():
        raise InvalidInput(f"{name} must be finite")
    return found


def check_choice(name: str, value: object, allowed: tuple[str, ...]) -> None:
    """Raise InvalidInput, with the words that are allowed, unless `value` is one of them."""
    if not isinstance(value, str) or value not in allowed:
        raise InvalidInput(f"unknown {name} {value!r}: allowed are {', '.join(map(repr, allowed))}")
