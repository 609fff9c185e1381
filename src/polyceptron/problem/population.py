"""A population says how one sample is made, and all that theory and simulations ask of it.

It has groups c with shares p_c. In group c the features are

    x ~ N(μ_c/√d, Σ_c)

and the label is the group itself (a mixture), or is drawn by a channel from the fields of a
teacher, z ~ N(0, R) + b* (one group, mean 0). Covariances that share eigenvectors are levels of
eigenvalues (`FeatureLevels`); where classes are equal (`symmetric`) every order parameter is a
number.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from polyceptron.checks import check_size
from polyceptron.errors import InvalidInput
from polyceptron.numerics import Array
from polyceptron.problem.channels import Channel


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

    `fraction` (L,) of the d directions, `variance` (L, G) of each group there, `gram` (L, G, G) the
    part of μ_c·μ_c'/d there, `signal` (L,) the variance θ of a teacher's weights there.
    """

    fraction: Array
    variance: Array
    gram: Array
    signal: Array


class Population(ABC):
    """How one sample is made."""

    model: ClassVar[str]  # in the column `model` of rows
    takes: ClassVar[tuple[str, ...]]  # the other columns of which it is made
    n_classes: int
    means: Array | None = None  # of a mixture, where they are given: samples have their dimension
    symmetric: bool = False  # classes of a teacher that are alike: the theory of scalars serves
    label_channel: Channel | None = None  # draws labels from fields; None where a group is a class
    full_features: tuple[Array, Array] | None = None  # μ (k, d), Σ (k, d, d) without common axes
    columns: dict[str, Any]  # what a row says of it; `make_population` reads it back
    class_shares: Array  # P(y = l) (k,)
    group_shares: Array = np.ones(1)  # p_c (G,): those of the classes in a mixture
    levels_of_features: FeatureLevels | None  # of all groups; None where they share no eigenvectors

    @classmethod
    @abstractmethod
    def of_columns(cls, n_classes: int | None, **given: Any) -> Self:
        """From those of the columns in `takes` that a row has."""

    @abstractmethod
    def draw(self, X: Array, rng: np.random.Generator) -> tuple[Any, Array]:
        """Fill X (n, d) with samples; their labels (n,), and weights or means (d, k)."""

    def sample(self, n_samples: int, dimension: int | None = None, seed: Any = None) -> Dataset:
        """Draw the teacher's weights, or the means of a mixture, then n samples in d dimensions.

        `dimension` need not be given where means are; `seed`: int, SeedSequence or Generator.
        """
        if dimension is None and self.means is not None:
            dimension = self.means.shape[1]
        n, d = check_size(n_samples, "n_samples"), check_size(dimension, "dimension")
        if n * d >= 2**60:  # numpy calls this a ValueError
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


def numbers_text(values: Any) -> str:
    """Numbers as the text of a column: rows end with ';', numbers with ','.

    >>> numbers_text(((2.0, 0.5), (0.5, 1.0)))
    '2,0.5;0.5,1'
    """
    rows = np.atleast_2d(np.asarray(values, dtype=float))
    return ";".join(",".join(repr(float(x)).removesuffix(".0") for x in row) for row in rows)


def read_numbers(values: Any, name: str, shape: tuple[int, ...]) -> Array:
    """Numbers of a shape (−1: any) from a sequence or the text of a column, or an error message."""
    given, array = values, np.array(np.nan)
    try:
        if isinstance(values, str):
            rows = [[float(x) for x in row.split(",")] for row in values.split(";")]
            values = rows[0] if len(shape) == 1 else rows if shape else rows[0][0]
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        pass
    fits = array.ndim == len(shape) and all(
        s in (-1, n) for s, n in zip(shape, array.shape, strict=True)
    )
    if not fits or not np.isfinite(array).all():
        many = "finite numbers, one for each class" if len(shape) == 1 else "rows of finite numbers"
        wanted = f"{' × '.join(map(str, shape))} finite numbers" if shape else "a finite number"
        wanted = many if -1 in shape else wanted
        shown = repr(given) if len(repr(given)) < 80 else f"an array of shape {np.shape(given)}"
        raise InvalidInput(f"the {name} must be {wanted}, got {shown}")
    return array


def check_shares(shares: Any, n_classes: int = -1) -> Array:
    """Shares (k,) of the classes: positive, of sum 1."""
    p = read_numbers(shares, "shares", (n_classes,))
    if len(p) < 2:
        raise InvalidInput(f"a population needs at least 2 classes, got shares {shares!r}")
    if (p <= 0).any() or abs(p.sum() - 1) > 1e-6:
        raise InvalidInput(
            f"shares must be positive and sum to 1, got {numbers_text(p)} with sum {p.sum():g}"
        )
    return p if abs(p.sum() - 1) < 1e-12 else np.asarray(p / p.sum())


def check_gram(gram: Any, n_classes: int, name: str = "gram") -> Array:
    """A symmetric matrix (k, k) without negative eigenvalues."""
    G = read_numbers(gram, name, (n_classes, n_classes))
    size = float(np.abs(G).max())
    if np.abs(G - G.T).max() > 1e-9 * (1 + size):
        raise InvalidInput(f"the {name} must be symmetric, got {numbers_text(G)}")
    least = float(np.linalg.eigvalsh(G)[0])
    if least < -1e-9 * (1 + size):
        raise InvalidInput(
            f"the {name} must be positive, got {numbers_text(G)} with an eigenvalue of {least:.3g}"
        )
    return (G + G.T) / 2


def as_rows(values: Array) -> tuple[Any, ...]:
    """Nested tuples, which compare and hash."""
    return tuple(as_rows(v) if np.ndim(v) else float(v) for v in values)


def text_columns(values: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Columns of those numbers that are given."""
    return {name: numbers_text(value) for name, value in values if value is not None}
