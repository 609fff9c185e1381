"""A population says how one sample is made, and all that theory and simulations ask of it.

It has groups c with shares p_c. In group c the features are

    x ~ N(μ_c/√d, Σ_c)

and the label is the group itself (a mixture), or is drawn by a channel from the fields of a
teacher, z ~ N(0, R) + b* (one group, mean 0). Covariances that share eigenvectors are levels of
eigenvalues (`FeatureLevels`); where classes are equal (`symmetric`) every order parameter is a
number.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, NamedTuple, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polyceptron.checks import check_size
from polyceptron.errors import InvalidInput
from polyceptron.numerics import Array
from polyceptron.problem.channels import Channel
from polyceptron.rows import Row

Numbers = ArrayLike
"""Numbers as a user gives them: nested sequences, an array, or the text of a column."""

Seed = int | Sequence[int] | np.random.SeedSequence | np.random.Generator | None
Rows = tuple[Any, ...]
"""Numbers as nested tuples."""

LARGEST_SIZE = 2**60  # of n·d: numpy calls what is larger a ValueError
LONGEST_QUOTATION = 80  # characters of a message's quotation of what was given
# Shares are divided by their sum where it misses 1 by more than rounding, and refused where it
# misses it by more than digits left out by hand.
ROUNDING_OF_SUM = 1e-12
LARGEST_MISS_OF_SUM = 1e-6
ROUNDING_OF_A_MATRIX = 1e-9  # of its symmetry and smallest eigenvalue, relative to 1 + its size


class Dataset(NamedTuple):
    """Samples: X (n, d), labels y (n,) in 0..k-1, teacher weights W* or class means μ (d, k)."""

    X: Array
    y: NDArray[np.int64]
    weights: Array

    def __repr__(self) -> str:
        n, d = self.X.shape
        return f"Dataset(n_samples={n}, dimension={d}, n_classes={self.weights.shape[1]})"


class FeatureLevels(NamedTuple):
    """Directions of equal variances: what the weights side needs of the features.

    Attributes
    ----------
    fraction : array, shape (L,)
        Of the d directions.
    variance : array, shape (L, G)
        Of each group there.
    gram : array, shape (L, G, G)
        The part of μ_c·μ_c'/d there.
    signal : array, shape (L,)
        The variance θ of a teacher's weights there.
    """

    fraction: Array
    variance: Array
    gram: Array
    signal: Array


class Population(ABC):
    """How one sample is made.

    Attributes
    ----------
    model : str
        Of the class: the column `model` of rows.
    takes : tuple of str
        Of the class: the other columns of which it is made.
    n_classes : int
    means : array, shape (k, d), or None
        Mean inputs of a mixture, where they are given: samples have their dimension.
    symmetric : bool
        Whether classes are those of a teacher and alike: the theory of scalars serves.
    """

    model: ClassVar[str]
    takes: ClassVar[tuple[str, ...]]
    n_classes: int
    means: Array | None = None
    symmetric: bool = False

    @property
    def label_channel(self) -> Channel | None:
        """The channel that draws labels from a teacher's fields; None where a group is a class."""
        return None

    @property
    def full_features(self) -> tuple[Array, Array] | None:
        """μ (k, d) and Σ (k, d, d) where covariances share no eigenvectors."""
        return None

    @property
    def levels_of_features(self) -> FeatureLevels | None:
        """Levels of eigenvalues of all groups; None where covariances share no eigenvectors."""
        return None

    @property
    @abstractmethod
    def columns(self) -> Row:
        """The columns that describe it in a row; `make_population` reads them back."""

    @property
    @abstractmethod
    def class_shares(self) -> Array:
        """P(y = l) (k,)."""

    @property
    def group_shares(self) -> Array:
        """p_c (G,): those of the classes in a mixture."""
        return np.ones(1)

    @classmethod
    @abstractmethod
    def of_columns(cls, n_classes: int | None, **given: Any) -> Self:
        """Return the population of those columns in `takes` that a row has."""

    @abstractmethod
    def draw(self, X: Array, rng: np.random.Generator) -> tuple[Any, Array]:
        """Fill X (n, d) with samples; return their labels (n,), and weights or means (d, k)."""

    def sample(self, n_samples: int, dimension: int | None = None, seed: Seed = None) -> Dataset:
        """Draw the teacher's weights, or the means of a mixture, then n samples in d dimensions.

        Parameters
        ----------
        n_samples : int
        dimension : int, optional
            It need not be given where means are.
        seed : int, SeedSequence or Generator, optional
        """
        if dimension is None and self.means is not None:
            dimension = self.means.shape[1]
        n = check_size(n_samples, "n_samples")
        d = check_size(dimension, "dimension")
        if n * d >= LARGEST_SIZE:
            raise MemoryError(f"{n} samples in dimension {d} fit in no memory")
        X = np.empty((n, d))  # before anything is drawn: a size too large fails at once
        y, weights = self.draw(X, np.random.default_rng(seed))
        return Dataset(X, np.asarray(y, dtype=np.int64), weights)

    @property
    def field_covariance(self) -> Array:
        """R (k, k) of the teacher's fields; only its part on class differences matters."""
        return np.eye(self.n_classes)

    @property
    def offsets(self) -> Array:
        """b* (k,), added to the teacher's fields."""
        return np.zeros(self.n_classes)


def numbers_text(values: Numbers) -> str:
    """Return numbers as the text of a column: rows end with ';', numbers with ','.

    >>> numbers_text(((2.0, 0.5), (0.5, 1.0)))
    '2,0.5;0.5,1'
    """
    rows = np.atleast_2d(np.asarray(values, dtype=float))
    return ";".join(",".join(repr(float(x)).removesuffix(".0") for x in row) for row in rows)


def read_numbers(values: object, name: str, shape: tuple[int, ...]) -> Array:
    """Return numbers of a shape (−1: any) from a sequence or the text of a column.

    Raise `InvalidInput` with the name of the numbers where they do not fit.
    """
    array = _as_floats(values, len(shape))
    if array is None or not _fits(array, shape) or not np.isfinite(array).all():
        shown = repr(values)
        if len(shown) >= LONGEST_QUOTATION:
            shown = f"an array of shape {np.shape(cast(ArrayLike, values))}"
        raise InvalidInput(f"the {name} must be {_wanted(shape)}, got {shown}")
    return array


def _as_floats(values: object, n_axes: int) -> Array | None:
    """Return values as an array of floats, None where they are no numbers."""
    try:
        if isinstance(values, str):
            return np.asarray(_read_text(values, n_axes), dtype=float)
        return np.array(cast(ArrayLike, values), dtype=float)
    except (TypeError, ValueError):
        return None


def _read_text(text: str, n_axes: int) -> list[list[float]] | list[float] | float:
    """Return the numbers of a column's text, as nested lists of a number of axes up to 2."""
    rows = [[float(x) for x in row.split(",")] for row in text.split(";")]
    if n_axes == 0:
        return rows[0][0]
    if n_axes == 1:
        return rows[0]
    return rows


def _fits(array: Array, shape: tuple[int, ...]) -> bool:
    """Return whether an array has a shape, in which −1 is any size."""
    if array.ndim != len(shape):
        return False
    return all(wanted in (-1, size) for wanted, size in zip(shape, array.shape, strict=True))


def _wanted(shape: tuple[int, ...]) -> str:
    """Return what is allowed, in words."""
    if not shape:
        return "a finite number"
    if -1 not in shape:
        return f"{' × '.join(map(str, shape))} finite numbers"
    if len(shape) == 1:
        return "finite numbers, one for each class"
    return "rows of finite numbers"


def check_shares(shares: Numbers, n_classes: int = -1) -> Array:
    """Return shares (k,) of the classes: positive, of sum 1."""
    p = read_numbers(shares, "shares", (n_classes,))
    if len(p) < 2:
        raise InvalidInput(f"a population needs at least 2 classes, got shares {shares!r}")
    if (p <= 0).any() or abs(p.sum() - 1) > LARGEST_MISS_OF_SUM:
        raise InvalidInput(
            f"shares must be positive and sum to 1, got {numbers_text(p)} with sum {p.sum():g}"
        )
    if abs(p.sum() - 1) < ROUNDING_OF_SUM:
        return p
    return np.asarray(p / p.sum())


def check_gram(gram: object, n_classes: int, name: str = "gram") -> Array:
    """Return a symmetric matrix (k, k) without negative eigenvalues."""
    G = read_numbers(gram, name, (n_classes, n_classes))
    rounding = ROUNDING_OF_A_MATRIX * (1 + float(np.abs(G).max()))
    if np.abs(G - G.T).max() > rounding:
        raise InvalidInput(f"the {name} must be symmetric, got {numbers_text(G)}")
    least = float(np.linalg.eigvalsh(G)[0])
    if least < -rounding:
        raise InvalidInput(
            f"the {name} must be positive, got {numbers_text(G)} with an eigenvalue of {least:.3g}"
        )
    return (G + G.T) / 2


def as_rows(values: Numbers) -> Rows:
    """Return numbers as nested tuples, which compare and hash."""
    array = np.asarray(values, dtype=float)
    if array.ndim == 1:
        return tuple(array.tolist())
    return tuple(as_rows(row) for row in array)


def as_rows_or_none(values: Numbers | None) -> Rows | None:
    """Return numbers as nested tuples, and None as None."""
    if values is None:
        return None
    return as_rows(values)


def text_columns(values: Iterable[tuple[str, Numbers | None]]) -> Row:
    """Return columns of those numbers that are given."""
    return {name: numbers_text(value) for name, value in values if value is not None}


def given_of(**values: object) -> list[str]:
    """Return the names of the values that are not None."""
    return [name for name, value in values.items() if value is not None]
