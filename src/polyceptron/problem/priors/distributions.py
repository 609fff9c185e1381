"""The laws of one weight: Gaussian, sparse Gaussian (Gauss–Bernoulli), Laplace, of scipy, finite.

Each half of the Laplace law p(w) = (κ/2) exp(−κ|w|), κ = √2, is when tilted a Gaussian cut at 0:
with x = ±b − κ and a = x/√Λ,

    ∫_0^∞ exp(xw − Λw²/2) dw = √(2π/Λ) e^{a²/2} Φ(a),   mean (a + r)/√Λ,   r = φ(a)/Φ(a).
"""

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, xlogy

from polyceptron.errors import InvalidInput
from polyceptron.numerics import Array
from polyceptron.numerics.special import mills_ratio, mills_slope, normalised
from polyceptron.problem.priors.prior import GaussianRow, PointRow, Prior, Tilted, WeightsRow


def _as_fields(b: ArrayLike, precision: ArrayLike) -> tuple[Array, Array]:
    """Return b and Λ as arrays of numbers of one shape."""
    both = np.broadcast_arrays(np.asarray(b, float), np.asarray(precision, float))
    return both[0], both[1]


@dataclass(frozen=True)
class GaussianPrior(Prior):
    """w ~ N(0, 1)."""

    gaussian = True
    name: str = "gaussian"
    extent: float = 7.2

    def sample(self, rng: np.random.Generator, size: tuple[int, ...]) -> Array:
        """Return independent standard normal weights of the given shape."""
        return rng.standard_normal(size)

    def tilted(self, b: ArrayLike, precision: ArrayLike) -> Tilted:
        """Return ln g = b²/2(1 + Λ) − ln(1 + Λ)/2, and the mean and variance at (b, Λ)."""
        b, precision = _as_fields(b, precision)
        variance = 1 / (1 + precision)
        return Tilted(0.5 * b**2 * variance - 0.5 * np.log1p(precision), b * variance, variance)

    def row(self, n_classes: int) -> WeightsRow:
        """Return the law of a row of k weights, whose posterior is in closed form."""
        return GaussianRow(self, n_classes)


@dataclass(frozen=True)
class SparseGaussianPrior(Prior):
    """w = 0 with probability 1 − ρ, else w ~ N(0, 1/ρ), so that the variance is 1."""

    density: float
    name: str = field(init=False, default="")
    extent: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        if not 1e-6 <= self.density < 1:
            raise InvalidInput(
                f"the density of sparse weights must be from 1e-6 to below 1, got {self.density!r}"
            )
        object.__setattr__(self, "name", f"sparse-gaussian:{float(self.density)!r}")
        object.__setattr__(self, "extent", 7.2 / math.sqrt(self.density))

    def sample(self, rng: np.random.Generator, size: tuple[int, ...]) -> Array:
        """Return independent weights, most of which may be 0, of the given shape."""
        weights = rng.standard_normal(size) / math.sqrt(self.density)
        return np.where(rng.random(size) < self.density, weights, 0.0)

    def tilted(self, b: ArrayLike, precision: ArrayLike) -> Tilted:
        """Return the moments of w ~ N(μ, σ²) with probability π, else 0, and ln g."""
        b = np.asarray(b, float)
        precision = np.asarray(precision, float)
        wide = 1 / self.density
        sigma2 = wide / (1 + precision * wide)
        mu = b * sigma2
        spike = math.log1p(-self.density)
        # ln of the odds of the slab; one exponential serves π and ln g.
        odds = 0.5 * b * mu + (math.log(self.density) - spike - 0.5 * np.log1p(precision * wide))
        small = np.exp(-np.abs(odds))
        p = np.where(odds > 0, 1.0, small) / (1 + small)
        log_g = np.maximum(odds, 0.0) + np.log1p(small) + spike
        return Tilted(log_g, p * mu, p * (sigma2 + (1 - p) * mu**2))


_RATE = math.sqrt(2)
_LEAST = 1e-13  # stands for Λ = 0, where the half integrals are 1/|x|
_FAR = -1e3


@dataclass(frozen=True)
class LaplacePrior(Prior):
    """p(w) = exp(−√2|w|)/√2."""

    name: str = "laplace"
    extent: float = 20.0

    def sample(self, rng: np.random.Generator, size: tuple[int, ...]) -> Array:
        """Return independent Laplace weights of the given shape."""
        return rng.laplace(scale=1 / _RATE, size=size)

    def tilted(self, b: ArrayLike, precision: ArrayLike) -> Tilted:
        """Return the moments from the two half-lines w > 0 and w < 0, and ln g."""
        b, precision = _as_fields(b, precision)
        root = np.sqrt(np.maximum(precision, _LEAST))
        up = _half(b - _RATE, root)
        down = _half(-b - _RATE, root)
        log_g = math.log(_RATE / 2) + np.logaddexp(up.log_g, down.log_g)
        p = expit(up.log_g - down.log_g)
        mean = p * up.mean - (1 - p) * down.mean
        between = p * (1 - p) * (up.mean + down.mean) ** 2
        return Tilted(log_g, mean, p * up.variance + (1 - p) * down.variance + between)


def _half(x: Array, root: Array) -> Tilted:
    """Return ln ∫_0^∞ exp(xw − Λw²/2) dw, and mean and variance of w there; root = √Λ."""
    a = x / root
    r = mills_ratio(a)
    slope = mills_slope(a, r)  # r(a + r)
    far = a < _FAR
    y = 1 / np.where(far, a, _FAR) ** 2
    # Far to the left the half is exponential: both forms below would cancel there.
    unit_variance = np.where(far, y * (1 - 6 * y), 1 - slope)  # of w √Λ
    log_g = -np.log(np.maximum(r, 1e-30))  # r = φ/Φ; where it is smaller Φ = 1
    log_g = np.where(a > 10, 0.5 * a**2 + 0.5 * math.log(2 * math.pi), log_g)
    right = a > 0  # there r underflows, here a + r cancels
    mean = np.where(right, a + r, slope / np.where(right, 1.0, r))
    return Tilted(log_g - np.log(root), mean / root, unit_variance / root**2)


def _unit_rule() -> tuple[Array, Array]:
    """Return nodes and weights (64,) of an integral over [0, 1] by w = s³(10 − 15s + 6s²).

    The map is flat at both ends, where a density may have a power.
    """
    x, weights = np.polynomial.legendre.leggauss(64)
    s = 0.5 * (x + 1)
    nodes = s**3 * (10 - 15 * s + 6 * s**2)
    slopes = 15 * ((1 - x**2) / 4) ** 2  # half of dw/ds = 30 s²(1 − s)²
    return nodes, slopes * weights


_NODES, _WEIGHTS = _unit_rule()
_DROP = 80.0  # twice the fall of the exponent at the ends of the window
_SHARP = 30.0  # Λ at which the data alone tell where the weight is
_NEAR = 1e-3  # of the moments by the rule, to those of the distribution


class ScipyPrior(Prior):
    """A continuous distribution of scipy, shifted and scaled to mean 0 and variance 1.

    ∫ p(w) exp(bw − Λw²/2) dw by Gauss–Legendre nodes where the exponent has not fallen by 40, on
    either side of the highest point of p. What the nodes miss of the moments of p is its
    `accuracy`; a density that they cannot follow (a strong pole, a heavy tail) is refused.

    >>> from scipy.stats import uniform
    >>> ScipyPrior(uniform(2, 5)).name
    'scipy[uniform]'
    >>> round(float(ScipyPrior(uniform()).tilted(0.0, 0.0).variance), 12)
    1.0
    """

    def __init__(self, distribution: Any) -> None:
        from scipy.stats import rv_continuous

        if not isinstance(getattr(distribution, "dist", None), rv_continuous):
            raise InvalidInput(
                "a prior of scipy is a frozen continuous distribution, such as "
                f"scipy.stats.uniform(), got {distribution!r}"
            )
        law = distribution.dist
        shapes, _, _ = law._parse_args(*distribution.args, **distribution.kwds)
        self.distribution = law(*shapes)  # the prior sets the location and the scale
        words = [law.name, *(repr(float(x)) for x in shapes)]
        self.name = f"scipy[{':'.join(words)}]"
        self.mean = float(self.distribution.mean())
        self.deviation = float(self.distribution.std())
        if not (math.isfinite(self.mean) and 0 < self.deviation < math.inf):
            raise InvalidInput(f"the prior {self.name} has no finite mean and variance")
        low = self._standardised(self.distribution.ppf(1e-16))
        high = self._standardised(self.distribution.isf(1e-16))
        self.ends = (low, high)
        self.extent = max(-low, high)
        self.top = self._highest_point()
        self.tails = [math.isinf(end) for end in self.distribution.support()]
        self.origin = self._first_edge()
        self.accuracy = self._moment_error()
        if not self.accuracy < _NEAR:
            raise InvalidInput(
                f"the density of {self.name} is too rough to be integrated (a strong pole, a heavy "
                "tail, or several kinks): give a smooth one, or a Prior of your own"
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScipyPrior) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"ScipyPrior({self.name!r})"

    def _standardised(self, value: float) -> float:
        """Return a value of scipy's variable as one of w, of mean 0 and variance 1."""
        return (float(value) - self.mean) / self.deviation

    def _highest_point(self) -> float:
        """Return where the density of w is largest: on a grid, then refined."""
        from scipy.optimize import minimize_scalar  # loads slowly, and is rarely needed

        middle = self._standardised(self.distribution.median())
        grid = np.sort(np.append(np.linspace(*self.ends, 4001), middle))
        i = int(np.argmax(self._log_density(grid)))
        neighbours = (grid[max(i - 1, 0)], grid[min(i + 1, len(grid) - 1)])
        peak = minimize_scalar(
            lambda w: -float(self._log_density(w)), bounds=neighbours, options={"xatol": 1e-13}
        )
        if self._log_density(peak.x) > self._log_density(grid[i]):
            return float(peak.x)
        return float(grid[i])

    def _first_edge(self) -> float:
        """Return the lowest finite end of the support, or where the density is largest."""
        for end in self.distribution.support():
            if math.isfinite(end):
                return self._standardised(end)
        return self.top

    def _moment_error(self) -> float:
        """Return what the nodes miss of the moments of p: ∫ p = 1, mean 0 and variance 1."""
        prior = self.tilted(np.zeros(1), np.zeros(1))
        errors = [prior.log_g, prior.mean, prior.variance - 1]
        return float(np.abs(errors).max())

    def _log_density(self, w: ArrayLike) -> Array:
        """Return ln p(w), elementwise."""
        value = self.mean + self.deviation * np.asarray(w)
        return np.asarray(self.distribution.logpdf(value) + math.log(self.deviation))

    def sample(self, rng: np.random.Generator, size: tuple[int, ...]) -> Array:
        """Return independent weights of the given shape."""
        drawn = self.distribution.rvs(size=size, random_state=rng)
        return np.asarray((drawn - self.mean) / self.deviation)

    def tilted(self, b: ArrayLike, precision: ArrayLike) -> Tilted:
        """Return ln g and the moments from nodes on both sides of the highest point of p."""
        b, precision = _as_fields(b, precision)
        place = b / np.maximum(precision, _LEAST)
        # Beyond all weights that are seen a tail goes on: its end would be an edge.
        further = 9 / np.sqrt(np.maximum(precision, _SHARP))
        sharp = precision > _SHARP
        beyond_low = self.tails[0] & sharp & (place < self.ends[0])
        beyond_high = self.tails[1] & sharp & (place > self.ends[1])
        low = np.where(beyond_low, place - further, self.ends[0])
        high = np.where(beyond_high, place + further, self.ends[1])
        centre = np.clip(place, low, high)
        slope = np.abs(b - precision * centre)
        reach = _DROP / np.maximum(slope + np.sqrt(slope**2 + _DROP * precision), _LEAST)
        left = np.maximum(centre - reach, low)
        right = np.minimum(centre + reach, high)
        top = np.clip(self.top, left, right)
        start = np.stack([left, top], -1)
        width = np.stack([top - left, right - top], -1)
        shape = (*b.shape, 2 * len(_NODES))
        w = (start[..., None] + width[..., None] * _NODES).reshape(shape)
        weight = (width[..., None] * _WEIGHTS).reshape(shape)
        with np.errstate(divide="ignore"):
            log_f = np.where(weight > 0, self._log_density(w), 0.0) + np.log(weight)
        p, log_g = normalised(log_f + b[..., None] * w - 0.5 * precision[..., None] * w**2)
        mean = (p * w).sum(-1)
        return Tilted(log_g, mean, (p * (w - mean[..., None]) ** 2).sum(-1))


def parse_scipy(text: str) -> ScipyPrior:
    """Return the prior written [name:shape:…], as scipy[beta:2:2]."""
    import scipy.stats

    name, *shapes = text.strip("[]").split(":")
    try:
        distribution = vars(scipy.stats)[name]
        return ScipyPrior(distribution(*map(float, shapes)))
    except InvalidInput:
        raise
    except (KeyError, TypeError, ValueError):
        raise InvalidInput(
            f"the prior 'scipy{text}' must be written scipy[name:shape:...] with a continuous "
            "distribution of scipy.stats and its shapes"
        ) from None


_RAREST = 1e-12  # rarer values are never seen, and their size drowns the others
_CLOSEST = 1e-9
_MOST_CONFIGURATIONS = 256


@dataclass(frozen=True)
class FinitePrior(Prior):
    """P(w = values[i]) = probabilities[i]; `finite_prior` checks and rescales."""

    values: tuple[float, ...]
    probabilities: tuple[float, ...]
    name: str = "finite"

    @property
    def extent(self) -> float:  # type: ignore[override]
        """Return the largest magnitude of a value."""
        return max(abs(value) for value in self.values)

    def sample(self, rng: np.random.Generator, size: tuple[int, ...]) -> Array:
        """Return independent weights of the given shape."""
        return rng.choice(np.array(self.values), size=size, p=np.array(self.probabilities))

    def tilted(self, b: ArrayLike, precision: ArrayLike) -> Tilted:
        """Return ln g and the moments, from a sum over the values."""
        b, precision = _as_fields(b, precision)
        first = (-1, *[1] * b.ndim)  # numpy is slow at sums over a short last axis
        v = np.reshape(self.values, first)
        log_p = np.reshape(np.log(self.probabilities), first)
        p, log_g = normalised(b * v - 0.5 * precision * v**2 + log_p, axis=0)
        mean = (p * v).sum(0)
        return Tilted(log_g, mean, (p * (v - mean) ** 2).sum(0))

    @property
    def entropy(self) -> float:
        """Return −Σ p ln p of one weight."""
        p = np.array(self.probabilities)
        return float(-xlogy(p, p).sum())

    @property
    def support(self) -> tuple[Array, Array]:
        """Return the values (c,) and their probabilities (c,)."""
        return np.array(self.values), np.array(self.probabilities)

    def row(self, n_classes: int) -> WeightsRow:
        """Return the law of a row of k weights: a sum over its points where these are few."""
        if len(self.values) ** n_classes <= _MOST_CONFIGURATIONS:
            return PointRow(self, n_classes)
        return WeightsRow(self, n_classes)


class _Atoms(NamedTuple):
    """Values (m,) of a weight and their probabilities (m,)."""

    values: Array
    probabilities: Array


def finite_prior(
    values: ArrayLike, probabilities: ArrayLike, name: str | None = None
) -> FinitePrior:
    """A finite prior from raw values and probabilities, rescaled to unit variance.

    Parameters
    ----------
    values, probabilities : array_like of shape (m,)
    name : str, optional
        What rows and pictures call it, by default the numbers themselves.

    Returns
    -------
    FinitePrior

    Examples
    --------
    >>> round(finite_prior([-2, 0, 2], [0.25, 0.5, 0.25]).values[2], 6)
    1.414214
    """
    atoms = _scaled(_possible(_read_atoms(values, probabilities)))
    order = np.argsort(atoms.values)
    v = atoms.values[order].tolist()
    p = atoms.probabilities[order].tolist()
    # The name can be read back (`as_prior`): the digits are those of the numbers, not rounded.
    pairs = ";".join(f"{value!r}:{probability!r}" for value, probability in zip(v, p, strict=True))
    return FinitePrior(tuple(v), tuple(p), name or f"finite[{pairs}]")


def _read_atoms(values: ArrayLike, probabilities: ArrayLike) -> _Atoms:
    """Return what was given as numbers, as many probabilities as values, two or more."""
    try:
        v = np.array(values, dtype=float).ravel()
        p = np.array(probabilities, dtype=float).ravel()
    except (TypeError, ValueError):
        raise InvalidInput(
            f"a finite prior needs numbers, got values {values!r}, probabilities {probabilities!r}"
        ) from None
    if v.size != p.size or v.size < 2:
        raise InvalidInput(
            f"a finite prior needs as many probabilities as values, two or more; "
            f"got {v.size} values and {p.size} probabilities"
        )
    return _Atoms(v, p)


def _possible(atoms: _Atoms) -> _Atoms:
    """Return the values of positive probability; the probabilities must make a distribution."""
    v, p = atoms
    finite = np.isfinite(v).all() and np.isfinite(p).all()
    if not finite or (p < 0).any():
        raise InvalidInput("a finite prior needs finite values and probabilities of 0 or more")
    if abs(p.sum() - 1) > 1e-9:
        raise InvalidInput(
            f"the probabilities of a prior must sum to 1, these sum to {p.sum():.12g}"
        )
    if np.unique(v).size != v.size:
        raise InvalidInput("the values of a finite prior must be distinct")
    p = p / p.sum()
    return _Atoms(v[p > 0], p[p > 0])


def _scaled(atoms: _Atoms) -> _Atoms:
    """Return values of unit variance; their mean must be 0, and none too rare or too close."""
    v, p = atoms
    mean = float(p @ v)
    variance = float(p @ v**2 - (p @ v) ** 2)
    if not 0 < variance < math.inf:
        raise InvalidInput("a finite prior needs at least two values of positive probability")
    scale = math.sqrt(variance)
    if abs(mean) > 1e-9 * scale:
        raise InvalidInput(f"a finite prior must have mean 0, this one has mean {mean:.12g}")
    least_distance = float(np.diff(np.sort(v)).min())
    if p.min() < _RAREST or least_distance < _CLOSEST * float(np.abs(v).max()):
        raise InvalidInput(
            f"a finite prior needs probabilities of {_RAREST:g} or more and values apart by "
            f"{_CLOSEST:g} of the largest or more, got probabilities down to {p.min():.3g}"
        )
    return _Atoms(v / scale, p)


def parse_finite(text: str) -> FinitePrior:
    """Return the prior that `finite_prior` names [value:probability;...]."""
    try:
        if not (text.startswith("[") and text.endswith("]")):
            raise ValueError
        pairs = [item.split(":") for item in text[1:-1].split(";")]
        values = [float(value) for value, _ in pairs]
        probabilities = [float(probability) for _, probability in pairs]
    except ValueError:
        raise InvalidInput(
            f"cannot read the prior finite{text[:200]}: write "
            "finite[value:probability;value:probability;...]"
        ) from None
    return finite_prior(values, probabilities)
