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

COVARIANCES = ("own", "pooled", "isotropic")  # of a twin
LARGEST_FULL = 4000  # of k·d in the theory of full covariances: (k − 1)d rows are inverted


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
        shares: Any,
        gram: Any = None,
        separation: float | None = None,
        means: Any = None,
        variances: Any = None,
        levels: Any = None,
        covariances: Any = None,
    ) -> None:
        p = pop.check_shares(shares)
        k = len(p)
        if k > MAX_CLASSES:
            raise InvalidInput(f"a mixture has at most {MAX_CLASSES} classes, got {k}")
        self.n_classes, self.shares = k, pop.as_rows(p)
        self.gram, self.means = _centres(k, gram, separation, means)
        if sum(x is not None for x in (variances, levels, covariances)) > 1:
            raise InvalidInput("give one of variances, levels and covariances")
        self.covariances = None if covariances is None else _full(covariances, self.means, k)
        if levels is not None:
            self.levels = _checked_levels(levels, k)
        else:
            s = 1.0 if variances is None else variances
            one = not isinstance(s, str) and np.ndim(s) == 0
            s = pop.read_numbers([s] * k if one else s, "variances", (k,))
            if (s <= 0).any():
                raise InvalidInput(f"variances must be positive, got {variances!r}")
            self.levels = ((1.0, *pop.as_rows(s), 1.0),)

    @classmethod
    def from_data(
        cls, X: Any, y: Any, covariances: str = "own", shrink: float | str = "auto"
    ) -> Self:
        """The Gaussian twin of a data set: the shares, means and covariances of its classes.

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
        """The mixture with these shares, means and covariances; see `from_data`."""
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
        used = moments if covariances == "own" else moments.pooled()
        if shrink == "auto":
            shrinkage = used.shrinkage()
        else:
            shrinkage = np.full(len(used.counts), float(shrink))
        sigma = np.broadcast_to(used.shrunk(shrinkage), (len(shares), *used.covariances.shape[1:]))
        return cls(shares, means=means, covariances=sigma)

    @cached_property
    def columns(self) -> dict[str, Any]:  # type: ignore[override]
        """What a row says of it; vectors and matrices in full stand there as their digest."""
        columns = {"model": self.model, "n_classes": self.n_classes}
        given: list[tuple[str, Any]] = [("shares", self.shares), ("gram", self.gram)]
        if self.covariances is not None:
            parts = np.concatenate([np.ravel(self.means), self.covariances.ravel()])  # type: ignore[arg-type]
            digest = hashlib.sha256(parts.tobytes()).hexdigest()[:16]
            return {**columns, **pop.text_columns(given), "features": f"covariances[{digest}]"}
        if len(self.levels) == 1 and set(self.levels[0]) == {1.0}:
            return {**columns, **pop.text_columns(given)}
        return {**columns, **pop.text_columns([*given, ("levels", self.levels)])}

    def __repr__(self) -> str:
        words = [f"{n}={v!r}" for n, v in self.columns.items() if n not in ("model", "n_classes")]
        return f"Mixture({', '.join(words)})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mixture):
            return NotImplemented
        return self.columns == other.columns and np.array_equal(self.means, other.means)  # type: ignore[arg-type]

    def __hash__(self) -> int:
        return hash(tuple(self.columns.values()))

    @cached_property
    def class_shares(self) -> Array:  # type: ignore[override]
        return np.array(self.shares)

    @property
    def group_shares(self) -> Array:  # type: ignore[override]
        return self.class_shares

    @cached_property
    def levels_of_features(self) -> pop.FeatureLevels | None:  # type: ignore[override]
        if self.covariances is not None:
            return None
        table = np.array(self.levels)
        gram = table[:, -1, None, None] * np.array(self.gram)
        return pop.FeatureLevels(table[:, 0], table[:, 1:-1], gram, np.zeros(len(table)))

    @property
    def full_features(self) -> tuple[Array, Array] | None:  # type: ignore[override]
        if self.covariances is None or self.means is None:
            return None
        return self.means * math.sqrt(self.means.shape[1]), self.covariances

    def draw_means(self, rng: np.random.Generator, dimension: int) -> Array:
        """μ (k, d) with the Gram matrix of each level to rounding, in random directions."""
        k, d = self.n_classes, dimension
        if self.means is not None:
            if self.means.shape[1] != d:
                raise InvalidInput(
                    f"the means have dimension {self.means.shape[1]}, samples of {d} were asked for"
                )
            return np.asarray(self.means * math.sqrt(d))
        values, vectors = np.linalg.eigh(np.array(self.gram))
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        root = root[:, values > 1e-12 * max(float(values[-1]), 1e-300)]  # (k, rank)
        mu, start = np.zeros((k, d)), 0
        for size, level in zip(self._sizes(d), self.levels, strict=True):
            if level[-1] > 0 and root.shape[1]:
                if size < root.shape[1]:
                    raise InvalidInput(
                        f"means of rank {root.shape[1]} need as many directions in each level, "
                        f"got {size} of dimension {d}"
                    )
                frame = np.linalg.qr(rng.standard_normal((size, root.shape[1])))[0]
                mu[:, start : start + size] = math.sqrt(d * level[-1]) * root @ frame.T
            start += size
        return mu

    def deviations(self, dimension: int) -> Array:
        """√s (k, d): standard deviations of the features in each class, levels in their order."""
        return np.repeat(np.sqrt(np.array(self.levels)[:, 1:-1]), self._sizes(dimension), axis=0).T

    def draw(self, X: Array, rng: np.random.Generator) -> tuple[Any, Array]:
        n, d = X.shape
        mu = self.draw_means(rng, d)
        y = rng.choice(self.n_classes, size=n, p=np.array(self.shares))
        rng.standard_normal(out=X)
        if self.covariances is not None:
            for c, root in enumerate(np.linalg.cholesky(self.covariances)):
                X[y == c] = X[y == c] @ root.T
        else:
            X *= self.deviations(d)[y]
        X += mu[y] / math.sqrt(d)
        return y, mu.T

    def _sizes(self, dimension: int) -> list[int]:
        """Directions of each level at dimension d."""
        ends = np.round(np.cumsum([level[0] for level in self.levels]) * dimension).astype(int)
        return np.diff(ends, prepend=0).tolist()


def _centres(
    k: int, gram: Any, separation: Any, means: Any
) -> tuple[tuple[tuple[float, ...], ...], Array | None]:
    """The Gram matrix as rows, and the mean inputs where they were given."""
    if sum(x is not None for x in (gram, separation, means)) != 1:
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


def _checked_levels(levels: Any, k: int) -> tuple[tuple[float, ...], ...]:
    """Rows of fraction, k variances, fraction of the Gram matrix."""
    table = pop.read_numbers(levels, "levels", (-1, -1))
    if table.shape[1] == k + 1:
        table = np.concatenate([table, table[:, :1]], axis=1)
    sums = table[:, [0, -1]].sum(0) if table.shape[1] == k + 2 else np.zeros(2)
    if np.abs(sums - 1).max() > 1e-6 or (table < 0).any() or (table[:, :-1] <= 0).any():
        raise InvalidInput(
            f"levels are rows of a fraction of the directions, {k} positive variances and a "
            f"fraction of the Gram matrix, fractions of sum 1; got {pop.numbers_text(table)}"
        )
    if np.abs(sums - 1).max() > 1e-12:
        table[:, [0, -1]] /= sums
    return pop.as_rows(table)


def _full(covariances: Any, means: Array | None, k: int) -> Array:
    """Σ (k, d, d): symmetric, positive, and not too large."""
    if means is None:
        raise InvalidInput("covariances in full need means as vectors")
    d = means.shape[1]
    check_full_size(k, d)
    found = pop.read_numbers(covariances, "covariances", (k, d, d))
    sigma = np.stack([pop.check_gram(each, d, "covariance of a class") for each in found])
    if min(float(np.linalg.eigvalsh(each)[0]) for each in sigma) <= 0:
        raise InvalidInput("the covariance of a class must be positive, got an eigenvalue of 0")
    sigma.setflags(write=False)
    return sigma
