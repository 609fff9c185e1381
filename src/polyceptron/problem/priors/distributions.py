"""The laws of one weight: Gaussian, sparse Gaussian (Gauss–Bernoulli), Laplace, of scipy, finite.

Each half of the Laplace law p(w) = (κ/2) exp(−κ|w|), κ = √2, is when tilted a Gaussian cut at 0:
with x = ±b − κ and a = x/√Λ,

    ∫_0^∞ exp(xw − Λw²/2) dw = √(2π/Λ) e^{a²/2} Φ(a),   mean (a + r)/√Λ,   r = φ(a)/Φ(a).
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import expit, xlogy

from polyceptron.errors import InvalidInput
from polyceptron.numerics import Array
from polyceptron.numerics.special import mills_ratio, mills_slope, normalised
from polyceptron.problem.priors.prior import GaussianRow, PointRow, Prior, Tilted, WeightsRow


@dataclass(frozen=True)
class GaussianPrior(Prior):
    """w ~ N(0, 1)."""

    gaussian = True
    name: str = "gaussian"
    extent: float = 7.2

    def sample(self, rng: np.random.Generator, size: tuple[int, ...]) -> Array:
        return rng.standard_normal(size)

    def tilted(self, b: Any, precision: Any) -> Tilted:
        """ln g = b²/2(1 + Λ) − ln(1 + Λ)/2."""
        b, precision = np.broadcast_arrays(np.asarray(b, float), np.asarray(precision, float))
        variance = 1 / (1 + precision)
        return Tilted(0.5 * b**2 * variance - 0.5 * np.log1p(precision), b * variance, variance)

    def row(self, n_classes: int) -> WeightsRow:
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
        weights = rng.standard_normal(size) / math.sqrt(self.density)
        return np.where(rng.random(size) < self.density, weights, 0.0)

    def tilted(self, b: Any, precision: Any) -> Tilted:
        """The slab's posterior N(μ, σ²), taken with probability π, else 0."""
        b, precision = np.asarray(b, float), np.asarray(precision, float)
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
        return rng.laplace(scale=1 / _RATE, size=size)

    def tilted(self, b: Any, precision: Any) -> Tilted:
        b, precision = np.broadcast_arrays(np.asarray(b, float), np.asarray(precision, float))
        root = np.sqrt(np.maximum(precision, _LEAST))
        up, down = _half(b - _RATE, root), _half(-b - _RATE, root)
        log_g = math.log(_RATE / 2) + np.logaddexp(up.log_g, down.log_g)
        p = expit(up.log_g - down.log_g)
        mean = p * up.mean - (1 - p) * down.mean
        between = p * (1 - p) * (up.mean + down.mean) ** 2
        return Tilted(log_g, mean, p * up.variance + (1 - p) * down.variance + between)


def _half(x: Array, root: Array) -> Tilted:
    """ln ∫_0^∞ exp(xw − Λw²/2) dw, and mean and variance of w there; root = √Λ."""
    a = x / root
    r = mills_ratio(a)
    slope = mills_slope(a, r)  # r(a + r)
    far = a < _FAR
    y = 1 / np.where(far, a, _FAR) ** 2
    # Far to the left the half is exponential: both forms below would cancel there.
    rest = np.where(far, y * (1 - 6 * y), 1 - slope)
    log_g = -np.log(np.maximum(r, 1e-30))  # r = φ/Φ; where it is smaller Φ = 1
    log_g = np.where(a > 10, 0.5 * a**2 + 0.5 * math.log(2 * math.pi), log_g)
    right = a > 0  # there r underflows, here a + r cancels
    mean = np.where(right, a + r, slope / np.where(right, 1.0, r))
    return Tilted(log_g - np.log(root), mean / root, rest / root**2)


_S, _WEIGHTS = np.polynomial.legendre.leggauss(64)
_S, _WEIGHTS = 0.5 * (_S + 1), 15 * ((1 - _S**2) / 4) ** 2 * _WEIGHTS
_NODES = _S**3 * (10 - 15 * _S + 6 * _S**2)  # flat at both ends, where a density may have a power
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
        law, given = distribution.dist, (distribution.args, distribution.kwds)
        shapes, _, _ = law._parse_args(*given[0], **given[1])
        frozen = self.distribution = law(*shapes)  # place and scale are ours
        self.name = f"scipy[{':'.join([law.name, *(repr(float(x)) for x in shapes)])}]"
        self.mean, self.deviation = float(frozen.mean()), float(frozen.std())
        if not (math.isfinite(self.mean) and 0 < self.deviation < math.inf):
            raise InvalidInput(f"the prior {self.name} has no finite mean and variance")
        ends = (frozen.ppf(1e-16), frozen.isf(1e-16), frozen.median())
        low, high, middle = ((float(x) - self.mean) / self.deviation for x in ends)
        self.ends, self.extent = (low, high), max(-low, high)
        grid = np.sort(np.append(np.linspace(low, high, 4001), middle))
        at = int(np.argmax(self._log_density(grid)))
        near = (grid[max(at - 1, 0)], grid[min(at + 1, len(grid) - 1)])
        from scipy.optimize import minimize_scalar  # loads slowly, and is rarely needed

        peak = minimize_scalar(
            lambda w: -float(self._log_density(w)), bounds=near, options={"xatol": 1e-13}
        )
        higher = self._log_density(peak.x) > self._log_density(grid[at])
        self.top = float(peak.x if higher else grid[at])
        self.tails = [math.isinf(end) for end in frozen.support()]
        edges = [float(end) for end in frozen.support() if math.isfinite(end)]
        self.origin = (edges[0] - self.mean) / self.deviation if edges else self.top
        found = self.tilted(np.zeros(1), np.zeros(1))
        self.accuracy = float(np.abs([*found[:2], found.variance - 1]).max())
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

    def _log_density(self, w: Any) -> Array:
        at = self.mean + self.deviation * w
        return np.asarray(self.distribution.logpdf(at) + math.log(self.deviation))

    def sample(self, rng: np.random.Generator, size: tuple[int, ...]) -> Array:
        drawn = self.distribution.rvs(size=size, random_state=rng)
        return np.asarray((drawn - self.mean) / self.deviation)

    def tilted(self, b: Any, precision: Any) -> Tilted:
        b, precision = np.broadcast_arrays(np.asarray(b, float), np.asarray(precision, float))
        place = b / np.maximum(precision, _LEAST)
        # Beyond all weights that are seen a tail goes on: its end would be an edge.
        further = 9 / np.sqrt(np.maximum(precision, _SHARP))
        on = [tail & (precision > _SHARP) for tail in self.tails]
        low = np.where(on[0] & (place < self.ends[0]), place - further, self.ends[0])
        high = np.where(on[1] & (place > self.ends[1]), place + further, self.ends[1])
        centre = np.clip(place, low, high)
        slope = np.abs(b - precision * centre)
        reach = _DROP / np.maximum(slope + np.sqrt(slope**2 + _DROP * precision), _LEAST)
        left, right = np.maximum(centre - reach, low), np.minimum(centre + reach, high)
        top = np.clip(self.top, left, right)
        start, width = np.stack([left, top], -1), np.stack([top - left, right - top], -1)
        shape = (*b.shape, 2 * len(_NODES))
        w = (start[..., None] + width[..., None] * _NODES).reshape(shape)
        weight = (width[..., None] * _WEIGHTS).reshape(shape)
        with np.errstate(divide="ignore"):
            log_f = np.where(weight > 0, self._log_density(w), 0.0) + np.log(weight)
        p, log_g = normalised(log_f + b[..., None] * w - 0.5 * precision[..., None] * w**2)
        mean = (p * w).sum(-1)
        return Tilted(log_g, mean, (p * (w - mean[..., None]) ** 2).sum(-1))


def parse_scipy(text: str) -> ScipyPrior:
    """The prior written [name:shape:…], as scipy[beta:2:2]."""
    import scipy.stats

    name, *shapes = text.strip("[]").split(":")
    known = getattr(scipy.stats, name, None) if name.isidentifier() else None
    try:
        return ScipyPrior(known(*map(float, shapes)))  # type: ignore[misc]
    except InvalidInput:
        raise
    except (TypeError, ValueError):
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
        """The largest value."""
        return max(abs(value) for value in self.values)

    def sample(self, rng: np.random.Generator, size: tuple[int, ...]) -> Array:
        return rng.choice(np.array(self.values), size=size, p=np.array(self.probabilities))

    def tilted(self, b: Any, precision: Any) -> Tilted:
        """A sum over the values."""
        b, precision = np.broadcast_arrays(np.asarray(b, float), np.asarray(precision, float))
        first = (-1, *[1] * b.ndim)  # numpy is slow at sums over a short last axis
        v, log_p = (np.reshape(x, first) for x in (self.values, np.log(self.probabilities)))
        p, log_g = normalised(b * v - 0.5 * precision * v**2 + log_p, axis=0)
        return Tilted(log_g, (m := (p * v).sum(0)), (p * (v - m) ** 2).sum(0))

    @property
    def entropy(self) -> float:  # type: ignore[override]
        p = np.array(self.probabilities)
        return float(-xlogy(p, p).sum())

    @property
    def support(self) -> tuple[Array, Array]:  # type: ignore[override]
        return np.array(self.values), np.array(self.probabilities)

    def row(self, n_classes: int) -> WeightsRow:
        few = len(self.values) ** n_classes <= _MOST_CONFIGURATIONS
        return PointRow(self, n_classes) if few else WeightsRow(self, n_classes)


def finite_prior(values: Any, probabilities: Any, name: str | None = None) -> FinitePrior:
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
    if not (np.isfinite(v).all() and np.isfinite(p).all()) or (p < 0).any():
        raise InvalidInput("a finite prior needs finite values and probabilities of 0 or more")
    if abs(p.sum() - 1) > 1e-9:
        raise InvalidInput(
            f"the probabilities of a prior must sum to 1, these sum to {p.sum():.12g}"
        )
    if np.unique(v).size != v.size:
        raise InvalidInput("the values of a finite prior must be distinct")
    p = p / p.sum()
    v, p = v[p > 0], p[p > 0]
    mean, variance = float(p @ v), float(p @ v**2 - (p @ v) ** 2)
    scale = math.sqrt(variance) if variance > 0 else 0.0
    if scale == 0 or not math.isfinite(scale):
        raise InvalidInput("a finite prior needs at least two values of positive probability")
    if abs(mean) > 1e-9 * scale:
        raise InvalidInput(f"a finite prior must have mean 0, this one has mean {mean:.12g}")
    if p.min() < _RAREST or float(np.diff(np.sort(v)).min()) < _CLOSEST * float(np.abs(v).max()):
        raise InvalidInput(
            f"a finite prior needs probabilities of {_RAREST:g} or more and values apart by "
            f"{_CLOSEST:g} of the largest or more, got probabilities down to {p.min():.3g}"
        )
    v = v / scale
    order = np.argsort(v)
    v, p = v[order], p[order]
    # The name can be read back (`as_prior`): the digits are those of the numbers, not rounded.
    pairs = ";".join(f"{a!r}:{b!r}" for a, b in zip(v.tolist(), p.tolist(), strict=True))
    return FinitePrior(tuple(v.tolist()), tuple(p.tolist()), name or f"finite[{pairs}]")


def parse_finite(text: str) -> FinitePrior:
    """Read back what `finite_prior` names: [value:probability;...]."""
    try:
        if not (text.startswith("[") and text.endswith("]")):
            raise ValueError
        pairs = [item.split(":") for item in text[1:-1].split(";")]
        values, probabilities = [float(a) for a, _ in pairs], [float(b) for _, b in pairs]
    except ValueError:
        raise InvalidInput(
            f"cannot read the prior finite{text[:200]}: write "
            "finite[value:probability;value:probability;...]"
        ) from None
    return finite_prior(values, probabilities)
