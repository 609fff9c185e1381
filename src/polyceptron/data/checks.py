"""What fits and message passing accept besides X, and the error messages for what they do not."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyceptron.checks import as_numbers, check_classes
from polyceptron.data.design import Design
from polyceptron.data.labels import label_values, one_class_only
from polyceptron.data.stored_designs import open_design, scaled
from polyceptron.errors import InvalidInput
from polyceptron.numerics import Array

Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Samples:
    """X as a design, labels y (n,) in 0..k−1, and k, as which it unpacks; weights (n,) if any."""

    design: Design
    y: Labels
    n_classes: int
    weights: Array | None = None
    intercept: Any = None  # how the intercept is fitted, a `fit.solvers.intercept.Intercept`
    features: Design | None = None  # the design given, where this one has a column for b

    def __iter__(self) -> Iterator[Any]:
        return iter((self.design, self.y, self.n_classes))

    @property
    def total(self) -> float:
        """How many samples there are, counted by their weights."""
        return float(self.y.size if self.weights is None else self.weights.sum())

    def error_rate(self, fields: Array) -> float:
        """The fraction of samples whose largest field (k, n) is not the label's."""
        return float(np.average(fields.argmax(0) != self.y, weights=self.weights))


def check_samples(X: Any, y: Any, n_classes: int | None, sample_weight: Any = None) -> Samples:
    """X and y as an algorithm needs them, or an error message."""
    design = open_design(X)
    labels, k = check_labels(y, design.n_samples, n_classes)
    weights = None
    if sample_weight is not None:
        weights = as_numbers(sample_weight, "sample_weight").astype(float)
        if weights.shape != labels.shape:
            raise InvalidInput(
                f"sample_weight must have one number for each of the {labels.size} samples, got "
                f"shape {weights.shape}"
            )
        if not (np.isfinite(weights).all() and (weights > 0).all()):
            raise InvalidInput(
                "sample_weight must be finite and above 0: leave out what has weight 0"
            )
        weights = None if (weights == 1).all() else weights
    design.check_entries()  # last, since it reads all of X
    return Samples(design, labels, k, weights)


def check_intercept(intercept: Any) -> bool:
    """Whether one is fitted, or an error message."""
    if not isinstance(intercept, bool | np.bool_):
        raise InvalidInput(f"intercept must be True or False, got {intercept!r}")
    return bool(intercept)


def class_factors(class_weight: Any, samples: Samples) -> Array | None:
    """Factors (n,) of the samples' losses by class, None for none; or an error message."""
    if class_weight is None:
        return None
    k, factors = samples.n_classes, np.ones(samples.n_classes)
    if isinstance(class_weight, str):
        check_choice("class_weight", class_weight, ("balanced",))
        counts = np.bincount(samples.y, samples.weights, k)
        return np.asarray(samples.total / (k * np.where(counts > 0, counts, np.inf)))[samples.y]
    if isinstance(class_weight, dict):
        wrong = [c for c in class_weight if isinstance(c, bool) or c not in range(k)]
        if wrong:
            raise InvalidInput(f"class_weight has {wrong[0]!r}: classes are 0 to {k - 1}")
        given = as_numbers(list(class_weight.values()), "class_weight").astype(float)
        factors[[int(c) for c in class_weight]] = given
    else:
        factors = as_numbers(class_weight, "class_weight").astype(float)
    if factors.shape != (k,) or not (np.isfinite(factors) & (factors > 0)).all():
        raise InvalidInput(
            f"class_weight must be None, 'balanced', {{class: w}} or a number for each of the {k} "
            f"classes, finite and above 0; got {class_weight!r}"
        )
    return np.asarray(factors[samples.y])


@dataclass(frozen=True)
class Units:
    """Powers of two in which data are ordinary: X/2^p has rows of norm √d, weights s/2^q are 1.

    With W̃ = 2^p W the fields are the same and λ̃ = λ/2^(2p+q). A λ̃ far above the curvature of the
    loss is replaced by 2^100, since W̃ goes as 1/λ̃ there: `shrink` is by how many powers of two.
    """

    p: int = 0
    q: int = 0

    def ridge(self, ridge: float) -> tuple[float, int]:
        """λ̃ and the shrinkage of its weights; the smallest that squares allow stands for less."""
        if ridge == 0:
            return 0.0, 0
        mantissa, power = math.frexp(ridge)
        power -= 2 * self.p + self.q
        shrink = max(power - 100, 0)
        return math.ldexp(mantissa, max(power - shrink, -800)), shrink


def in_units(samples: Samples) -> tuple[Samples, Units]:
    """The samples in units in which nothing overflows, and these; most are as they were."""
    design, weights = samples.design, samples.weights
    largest = float(design.row_norms.max())
    if not largest > 1e-140:  # squares of such entries are lost: look at the entries themselves
        largest = float(design.largest().max())
    p = math.frexp(largest)[1] if largest > 0 else 0
    q = 0 if weights is None else math.frexp(float(weights.max()))[1]
    units = Units(p if abs(p) > 10 else 0, q if abs(q) > 10 else 0)  # else they need none
    if units.p:
        design = scaled(design, None, np.full(design.dimension, math.ldexp(1.0, units.p)))
    if weights is not None:
        weights = np.ldexp(weights, -units.q)
    return replace(samples, design=design, weights=weights), units


def check_labels(y: Any, n: int, n_classes: int | None = None) -> tuple[Labels, int]:
    """Labels (n,) as integers 0..k−1, and k: without `n_classes` every class must have a sample."""
    given = label_values(y, n)
    if given.dtype.kind not in "iuf":
        raise InvalidInput(f"y must hold class indices 0, 1, ..., got {given.dtype} values")
    whole = given.astype(np.int64)
    if not np.array_equal(whole, given):
        raise InvalidInput(f"y must hold class indices 0, 1, ..., got numbers up to {given.max()}")
    if n_classes is None and (whole == whole[0]).all():
        raise one_class_only(whole[:1], "y", ", or their number as n_classes")
    k = check_classes(max(2, int(whole.max()) + 1) if n_classes is None else n_classes)
    if whole.min() < 0 or whole.max() >= k:
        raise InvalidInput(
            f"labels must be between 0 and {k - 1}, got {whole.min()} to {whole.max()}"
        )
    if n_classes is None:
        empty = np.flatnonzero(np.bincount(whole, minlength=k) == 0)
        if empty.size:
            raise InvalidInput(
                f"class {empty[0]} has no samples: labels count from 0; if that is meant, give "
                "the number of classes as n_classes"
            )
    return whole, k


def check_weights(weights: Any, name: str, d: int, k: int) -> Array | None:
    """Finite weights (d, k) in double precision, None for None, or an error message."""
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


def check_choice(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    """One of a few words, or an error message that lists them."""
    if not isinstance(value, str) or value not in allowed:
        raise InvalidInput(f"unknown {name} {value!r}: allowed are {', '.join(map(repr, allowed))}")
