"""A mixture of Gaussian classes: the label is the cluster that a sample comes from.

    P(y = c) = p_c,      x | c ~ N(μ_c/√d, Σ_c)

Where the covariances are isotropic the means enter by their Gram matrix G = (μ_c·μ_c'/d) alone, the
inner products of the classes' mean inputs. With eigenvectors in common, each level of eigenvalues
has its own part of it. Only covariances without common eigenvectors need vectors.
"""

import hashlib
import math
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from polyceptron.checks import MAX_CLASSES
from polyceptron.data.class_moments import (
    LEAST_VARIANCE,
    ClassMoments,
    check_full_size,
    class_moments,
)
from polyceptron.errors import InvalidInput
from polyceptron.numerics import Array
from polyceptron.problem import population as pop
from polyceptron.rows import Row

COVARIANCES = ("own", "pooled", "isotropic")  # of a twin
# k·d in the theory of full covariances, where (k − 1)d rows are inverted.
LARGEST_FULL = 4000
# Of a Gram matrix, relative to the largest: below it a direction of the means is rounding.
SMALLEST_EIGENVALUE = 1e-12
# Fractions are divided by their sum where it misses 1 by more than rounding, and refused where it
# misses it by more than digits left out by hand.
ROUNDING_OF_SUM = 1e-12
LARGEST_MISS_OF_SUM = 1e-6


class Mixture(pop.Population):
    """A mixture of k Gaussian classes, P(y = c) = p_c and x | c ~ N(μ_c/√d, Σ_c).

    Parameters
    ----------
    shares : sequence of float
        p_c (k,), positive with sum 1.
    gram : array_like, optional
        μ_c·μ_c'/d (k, k): inner products of the mean inputs of the classes.
    separation : float, optional
        In place of `gram`: the mean inputs form a simplex around the origin, any two of them at
        this distance; G = (separation²/2)(I − 11ᵀ/k).
    means : array_like, optional
        In place of both: the mean inputs themselves, μ_c/√d (k, d). Samples then have dimension d.
    variances : float or sequence of float, optional
        Of the features in each class (k,), Σ_c = s_c I. By default 1.
    levels : sequence, optional
        In place of `variances`: eigenvectors in common. Each row is a fraction of the directions,
        the k variances of the classes there and, if means do not spread evenly, the fraction of
        the Gram matrix there. Both fractions sum to 1.
    covariances : array_like, optional
        In place of `variances`, with `means`: Σ_c (k, d, d) in full; their theory is for k·d up to
        4000.

    Examples
    --------
    >>> Mixture(shares=(0.9, 0.1), separation=2.0).gram
    ((1.0, -1.0), (-1.0, 1.0))
    >>> Mixture((0.5, 0.5), gram=[[2, 0], [0, 2]]).sample(4, dimension=5, seed=0).X.shape
    (4, 5)
    """

    model: ClassVar[str] = "mixture"
    takes: ClassVar[tuple[str, ...]] = (
        "shares",
        "gram",
        "separation",
        "variances",
        "levels",
        "features",
    )

    @classmethod
    def of_columns(cls, n_classes: int | None, **given: Any) -> Self:
        """Make the mixture that the columns of a row describe."""
        if "features" in given:
            raise InvalidInput("a mixture with covariances in full cannot be made from a row")
        if "shares" not in given:
            raise InvalidInput("a mixture needs shares, one number for each class")
        made = cls(**given)
        if n_classes not in (None, made.n_classes):
            raise InvalidInput(f"{n_classes} classes need as many shares, got {given['shares']}")
        return made

    def __init__(
        self,
        shares: pop.Numbers,
        gram: pop.Numbers | None = None,
        separation: float | str | None = None,
        means: pop.Numbers | None = None,
        variances: float | pop.Numbers | None = None,
        levels: pop.Numbers | None = None,
        covariances: pop.Numbers | None = None,
    ) -> None:
        p = pop.check_shares(shares)
        k = len(p)
        if k > MAX_CLASSES:
            raise InvalidInput(f"a mixture has at most {MAX_CLASSES} classes, got {k}")
        if len(pop.given_of(variances=variances, levels=levels, covariances=covariances)) > 1:
            raise InvalidInput("give one of variances, levels and covariances")
        self.n_classes = k
        self.shares = pop.as_rows(p)
        self.gram, self.means = _centres(k, gram, separation, means)
        self.covariances: Array | None = None
        if covariances is not None:
            self.covariances = _full(covariances, self.means, k)
        if levels is not None:
            self.levels = _checked_levels(levels, k)
        else:
            self.levels = _level_of_variances(variances, k)

    @classmethod
    def from_data(
        cls, X: Any, y: Any, covariances: str = "own", shrink: float | str = "auto"
    ) -> Self:
        """Return the Gaussian twin of a data set: the shares, means and covariances of its classes.

        X (n, d) is an array, sparse matrix, file or Dask array, y (n,) has labels 0..k−1. The
        covariances are each class's own, one `pooled` for all, or `isotropic`, a variance for
        each class. `shrink` from 0 to 1 is the weight of a multiple of I in a covariance, and
        'auto' that of Ledoit and Wolf. Features that never vary stay so, up to rounding.

        >>> X, y = [[0, 1], [1, 0], [1, 1], [5, 5], [6, 5], [5, 7]], [0, 0, 0, 1, 1, 1]
        >>> Mixture.from_data(X, y).sample(4, seed=0)
        Dataset(n_samples=4, dimension=2, n_classes=2)
        """
        return cls.from_moments(class_moments(X, y), covariances, shrink)

    @classmethod
    def from_moments(
        cls, moments: ClassMoments, covariances: str = "own", shrink: float | str = "auto"
    ) -> Self:
        """Return the mixture with these shares, means and covariances; see `from_data`."""
        if covariances not in COVARIANCES:
            allowed = ", ".join(COVARIANCES)
            raise InvalidInput(f"covariances of a twin are {allowed}, got {covariances!r}")
        if shrink != "auto" and not (isinstance(shrink, int | float) and 0 <= shrink <= 1):
            raise InvalidInput(f"shrink is 'auto' or a number from 0 to 1, got {shrink!r}")
        means = moments.means
        shares = moments.counts / moments.counts.sum()
        if covariances == "isotropic":
            s = np.trace(moments.covariances, axis1=1, axis2=2) / means.shape[1]
            return cls(
                shares, means=means, variances=np.maximum(s, LEAST_VARIANCE * s.max() + 1e-300)
            )
        used = moments
        if covariances == "pooled":
            used = moments.pooled()
        if shrink == "auto":
            shrinkage = used.shrinkage()
        else:
            shrinkage = np.full(len(used.counts), float(shrink))
        sigma = np.broadcast_to(used.shrunk(shrinkage), (len(shares), *used.covariances.shape[1:]))
        return cls(shares, means=means, covariances=sigma)

    @cached_property
    def columns(self) -> Row:
        """The columns that describe it; matrices in full stand there as their digest."""
        columns: Row = {"model": self.model, "n_classes": self.n_classes}
        columns |= pop.text_columns([("shares", self.shares), ("gram", self.gram)])
        if self.covariances is not None:
            columns["features"] = f"covariances[{self._digest}]"
        elif len(self.levels) > 1 or set(self.levels[0]) != {1.0}:
            columns |= pop.text_columns([("levels", self.levels)])
        return columns

    @property
    def _digest(self) -> str:
        """A digest of means and covariances in full."""
        assert self.means is not None
        assert self.covariances is not None
        numbers = np.concatenate([self.means.ravel(), self.covariances.ravel()])
        return hashlib.sha256(numbers.tobytes()).hexdigest()[:16]

    def __repr__(self) -> str:
        words = [f"{n}={v!r}" for n, v in self.columns.items() if n not in ("model", "n_classes")]
        return f"Mixture({', '.join(words)})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mixture):
            return NotImplemented
        if self.columns != other.columns:
            return False
        if self.means is None or other.means is None:
            return self.means is other.means
        return np.array_equal(self.means, other.means)

    def __hash__(self) -> int:
        return hash(tuple(self.columns.values()))

    @cached_property
    def class_shares(self) -> Array:
        """The share of each class, shape (k,)."""
        return np.array(self.shares)

    @property
    def group_shares(self) -> Array:
        """The share of each group of samples with one law: here a group is a class."""
        return self.class_shares

    @cached_property
    def levels_of_features(self) -> pop.FeatureLevels | None:
        """Weight, variances and Gram matrix of each level; None for full covariances."""
        if self.covariances is not None:
            return None
        table = np.array(self.levels)
        gram = table[:, -1, None, None] * np.array(self.gram)
        return pop.FeatureLevels(table[:, 0], table[:, 1:-1], gram, np.zeros(len(table)))

    @property
    def full_features(self) -> tuple[Array, Array] | None:
        """Means (k, d) times √d and covariances (k, d, d) if given in full, else None."""
        if self.covariances is None or self.means is None:
            return None
        return self.means * math.sqrt(self.means.shape[1]), self.covariances

    def draw_means(self, rng: np.random.Generator, dimension: int) -> Array:
        """Return μ (k, d) with the Gram matrix of each level to rounding, in random directions."""
        if self.means is None:
            return self._drawn_means(rng, dimension)
        if self.means.shape[1] != dimension:
            raise InvalidInput(
                f"the means have dimension {self.means.shape[1]}, samples of {dimension} were "
                "asked for"
            )
        return np.asarray(self.means * math.sqrt(dimension))

    def _drawn_means(self, rng: np.random.Generator, dimension: int) -> Array:
        """Return μ (k, d) in a random frame of each level that has a part of the Gram matrix."""
        root = _thin_root(np.array(self.gram))
        rank = root.shape[1]
        mu = np.zeros((self.n_classes, dimension))
        start = 0
        for size, level in zip(self._sizes(dimension), self.levels, strict=True):
            share_of_gram = level[-1]
            if share_of_gram > 0 and rank > 0:
                if size < rank:
                    raise InvalidInput(
                        f"means of rank {rank} need as many directions in each level, "
                        f"got {size} of dimension {dimension}"
                    )
                frame = np.linalg.qr(rng.standard_normal((size, rank)))[0]
                mu[:, start : start + size] = math.sqrt(dimension * share_of_gram) * root @ frame.T
            start += size
        return mu

    def deviations(self, dimension: int) -> Array:
        """Return √s (k, d) of the features in each class, levels in their order."""
        deviation = np.sqrt(np.array(self.levels)[:, 1:-1])
        return np.repeat(deviation, self._sizes(dimension), axis=0).T

    def draw(self, X: Array, rng: np.random.Generator) -> tuple[NDArray[np.integer[Any]], Array]:
        """Fill X (n, d) with samples of the mixture and return their classes (n,) and the means."""
        d = X.shape[1]
        mu = self.draw_means(rng, d)
        y = rng.choice(self.n_classes, size=len(X), p=np.array(self.shares))
        rng.standard_normal(out=X)
        if self.covariances is not None:
            for c, root in enumerate(np.linalg.cholesky(self.covariances)):
                X[y == c] = X[y == c] @ root.T
        else:
            X *= self.deviations(d)[y]
        X += mu[y] / math.sqrt(d)
        return y, mu.T

    def _sizes(self, dimension: int) -> list[int]:
        """Return the directions of each level at dimension d, (L,)."""
        fractions = np.cumsum([level[0] for level in self.levels])
        ends = np.round(fractions * dimension).astype(int)
        return np.diff(ends, prepend=0).tolist()


def _thin_root(gram: Array) -> Array:
    """Return B (k, rank) with BBᵀ = G (k, k)."""
    values, vectors = np.linalg.eigh(gram)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    spanned = values > SMALLEST_EIGENVALUE * max(float(values[-1]), 1e-300)
    return np.asarray(root[:, spanned])


def _centres(
    k: int,
    gram: pop.Numbers | None,
    separation: float | str | None,
    means: pop.Numbers | None,
) -> tuple[pop.Rows, Array | None]:
    """Return the Gram matrix as rows, and the mean inputs where they were given."""
    if len(pop.given_of(gram=gram, separation=separation, means=means)) != 1:
        raise InvalidInput("a mixture needs one of gram, separation and means")
    if means is not None:
        vectors = pop.read_numbers(means, "means", (k, -1))
        vectors.setflags(write=False)
        return pop.as_rows(vectors @ vectors.T), vectors
    if separation is not None:
        distance = float(pop.read_numbers(separation, "separation", ()))
        if not distance > 0:
            raise InvalidInput(f"the separation must be positive, got {separation!r}")
        return pop.as_rows(distance**2 / 2 * (np.eye(k) - 1 / k)), None
    return pop.as_rows(pop.check_gram(gram, k)), None


def _level_of_variances(variances: float | pop.Numbers | None, k: int) -> pop.Rows:
    """Return one level of all directions, with a variance for each class, by default 1."""
    if variances is None:
        s = np.ones(k)
    elif not isinstance(variances, str) and np.ndim(variances) == 0:
        s = np.full(k, pop.read_numbers(variances, "variances", ()))
    else:
        s = pop.read_numbers(variances, "variances", (k,))
    if (s <= 0).any():
        raise InvalidInput(f"variances must be positive, got {variances!r}")
    return ((1.0, *pop.as_rows(s), 1.0),)


def _checked_levels(levels: pop.Numbers, k: int) -> pop.Rows:
    """Return rows of a fraction, k variances and a fraction of the Gram matrix."""
    table = pop.read_numbers(levels, "levels", (-1, -1))
    if table.shape[1] == k + 1:  # means spread evenly
        table = np.concatenate([table, table[:, :1]], axis=1)
    fractions = table[:, [0, -1]]
    off_one = np.abs(fractions.sum(0) - 1).max()
    if table.shape[1] != k + 2 or off_one > LARGEST_MISS_OF_SUM or not _positive(table):
        raise InvalidInput(
            f"levels are rows of a fraction of the directions, {k} positive variances and a "
            f"fraction of the Gram matrix, fractions of sum 1; got {pop.numbers_text(table)}"
        )
    if off_one > ROUNDING_OF_SUM:
        table[:, [0, -1]] /= fractions.sum(0)
    return pop.as_rows(table)


def _positive(table: Array) -> bool:
    """Return whether levels have positive fractions and variances; parts of the means may be 0."""
    return bool((table[:, :-1] > 0).all() and (table[:, -1] >= 0).all())


def _full(covariances: pop.Numbers, means: Array | None, k: int) -> Array:
    """Return Σ (k, d, d): symmetric, positive, and not too large."""
    if means is None:
        raise InvalidInput("covariances in full need means as vectors")
    d = means.shape[1]
    check_full_size(k, d)
    given = pop.read_numbers(covariances, "covariances", (k, d, d))
    sigma = np.stack([pop.check_gram(own, d, "covariance of a class") for own in given])
    if min(float(np.linalg.eigvalsh(own)[0]) for own in sigma) <= 0:
        raise InvalidInput("the covariance of a class must be positive, got an eigenvalue of 0")
    sigma.setflags(write=False)
    return sigma
