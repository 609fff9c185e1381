"""The rules to be learnt: the argmax teacher of the paper, and the classical perceptron.

    argmax       y = argmax_l (W*ᵀx/√d)_l,   W* in R^{d×k} with i.i.d. entries        (eq. model)
    perceptron   y = 1[w*·x/√d > 0],         w* in R^d with i.i.d. entries

The perceptron is not the k = 2 argmax teacher: with Rademacher weights the latter learns from
w₁ − w₂ in {−2, 0, 2}. With Gaussian weights the two coincide.

Both channels accept a variance: the label is the argmax of the fields plus independent noise of
that variance in each class.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyceptron.errors import InvalidInput
from polyceptron.model.priors import Array, Prior, as_prior

MAX_CLASSES = 1000


class Dataset(NamedTuple):
    """Samples of a teacher: X (n, d), labels y (n,) in 0..k-1, teacher weights W* (d, k)."""

    X: Array
    y: NDArray[np.int64]
    weights: Array


@dataclass(frozen=True)
class Teacher:
    """The argmax teacher with `n_classes` classes and i.i.d. weights from `prior`.

    >>> Teacher(3, prior="rademacher").reduced_rank
    2
    >>> Teacher(3).sample(n_samples=4, dimension=5, seed=0).X.shape
    (4, 5)
    """

    n_classes: int
    prior: Prior = field(default="gaussian")  # type: ignore[assignment]  # see __post_init__

    model: ClassVar[str] = "argmax"

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_classes", check_classes(self.n_classes))
        object.__setattr__(self, "prior", as_prior(self.prior))

    @property
    def reduced_rank(self) -> int:
        """r = k − 1, the dimension of the class differences, which are all that labels show."""
        return self.n_classes - 1

    def sample(self, n_samples: int, dimension: int, seed: Any = None) -> Dataset:
        """Draw W*, then n samples in d dimensions. `seed`: int, SeedSequence or Generator."""
        n, d = check_size(n_samples, "n_samples"), check_size(dimension, "dimension")
        X = empty_inputs(n, d)
        rng = np.random.default_rng(seed)
        weights = self.prior.sample(rng, (d, self.n_classes))
        rng.standard_normal(out=X)
        return Dataset(X, argmax_labels(X @ weights / math.sqrt(d)), weights)


@dataclass(frozen=True)
class Perceptron:
    """The classical perceptron: one weight vector, two classes, y = 1 where w*·x > 0.

    >>> Perceptron("rademacher").n_classes
    2
    """

    prior: Prior = field(default="rademacher")  # type: ignore[assignment]  # see __post_init__

    model: ClassVar[str] = "perceptron"
    n_classes: ClassVar[int] = 2
    reduced_rank: ClassVar[int] = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "prior", as_prior(self.prior))

    def sample(self, n_samples: int, dimension: int, seed: Any = None) -> Dataset:
        """As `Teacher.sample`; W* is (−w*, w*)/√2, whose argmax is the label."""
        n, d = check_size(n_samples, "n_samples"), check_size(dimension, "dimension")
        X = empty_inputs(n, d)
        rng = np.random.default_rng(seed)
        w = self.prior.sample(rng, (d, 1))
        weights = np.hstack([-w, w]) / math.sqrt(2)
        rng.standard_normal(out=X)
        return Dataset(X, argmax_labels(X @ weights / math.sqrt(d)), weights)


AnyTeacher = Teacher | Perceptron


def make_teacher(model: str, n_classes: int, prior: Any) -> AnyTeacher:
    """A teacher from the columns of a row: model, n_classes, prior."""
    if model == "argmax":
        return Teacher(n_classes, prior)
    if model == "perceptron":
        if n_classes != 2:
            raise InvalidInput(f"the classical perceptron has 2 classes, got {n_classes}")
        return Perceptron(prior)
    raise InvalidInput(f"unknown model {model!r}: allowed are 'argmax' and 'perceptron'")


def empty_inputs(n: int, d: int) -> Array:
    """Room for X (n, d), asked for before anything is drawn: a size too large fails at once."""
    if n * d >= 2**60:  # numpy calls this a ValueError
        raise MemoryError(f"{n} samples in dimension {d} fit in no memory")
    return np.empty((n, d))


def check_teacher(teacher: Any) -> None:
    """A teacher, or a sentence."""
    if not isinstance(teacher, Teacher | Perceptron):
        raise InvalidInput(
            f"the teacher must be Teacher(n_classes) or Perceptron(), got {teacher!r}"
        )


def argmax_labels(
    fields: Array, variance: float | Array = 0.0, rng: np.random.Generator | None = None
) -> NDArray[np.int64]:
    """Labels (n,) of the fields (n, k), after noise of `variance` (scalar or one per class)."""
    if np.any(np.asarray(variance) > 0):
        if rng is None:
            raise InvalidInput("noisy labels need a random generator")
        fields = fields + np.sqrt(variance) * rng.standard_normal(fields.shape)
    return np.argmax(fields, axis=-1)


def check_classes(n_classes: Any) -> int:
    """The number of classes as an int, or a sentence."""
    if isinstance(n_classes, bool) or not isinstance(n_classes, int | np.integer):
        raise InvalidInput(f"the number of classes must be a whole number, got {n_classes!r}")
    if not 2 <= n_classes <= MAX_CLASSES:
        raise InvalidInput(
            f"the number of classes must be between 2 and {MAX_CLASSES}, got {n_classes}"
        )
    return int(n_classes)


def check_size(value: Any, name: str) -> int:
    """A positive whole number, or a sentence that names it."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise InvalidInput(f"{name} must be a whole number of 1 or more, got {value!r}")
    return int(value)
