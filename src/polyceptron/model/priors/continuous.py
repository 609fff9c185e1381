"""Continuous weights: Gaussian, sparse Gaussian (Gauss–Bernoulli), Laplace, any of scipy.

Each half of the Laplace law p(w) = (κ/2) exp(−κ|w|), κ = √2, is when tilted a Gaussian cut at 0:
with x = ±b − κ and a = x/√Λ,

    ∫_0^∞ exp(xw − Λw²/2) dw = √(2π/Λ) e^{a²/2} Φ(a),   mean (a + r)/√Λ,   r = φ(a)/Φ(a).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import expit, log_ndtr

from polyceptron.errors import InvalidInput
from polyceptron.model.priors.prior import GaussianRow, Prior, Row, Tilted
from polyceptron.numerics import Array
from polyceptron.numerics.special import mills_ratio, mills_slope, normalised


@dataclass(frozen=True)
class GaussianPrior(Prior):
    """w ~ N(0, 1)."""

    name: str = "gaussian"
    extent: float = 7.2

    def sample(self, rng: np.random.Generator, size: tuple[int, ...]) -> Array:
        return rng.standard_normal(size)

    def tilted(self, b: Any, precision: Any) -> Tilted:
        """ln g = b²/2(1 + Λ) − ln(1 + Λ)/2."""
        b, precision = np.broadcast_arrays(np.asarray(b, float), np.asarray(precision, float))
        variance = 1 / (1 + precision)
        return Tilted(0.5 * b**2 * variance - 0.5 * np.log1p(precision), b * variance, variance)

    @property
    def gaussian(self) -> bool:
        return True

    def row(self, n_classes: int) -> Row:
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
    log_g = 0.5 * a**2 + log_ndtr(a) + 0.5 * math.log(2 * math.pi)
    log_g = np.where(far, -np.log(np.maximum(-a, 1.0)) - y, log_g)
    right = a > 0  # there r underflows, here a + r cancels
    mean = np.where(right, a + r, slope / np.where(right, 1.0, r))
    return Tilted(log_g - np.log(root), mean / root, rest / root**2)


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(48)
_DROP = 80.0  # twice the fall of the exponent at the ends of the window
_NEAR = 1e-11  # of the moments by the rule, to those of the distribution


@dataclass(frozen=True)
class ScipyPrior(Prior):
    """A continuous distribution of scipy, shifted and scaled to mean 0 and variance 1.

    ∫ p(w) exp(bw − Λw²/2) dw by Gauss–Legendre nodes where the exponent has not fallen by 40, on
    either side of the highest point of p. A density that these cannot follow (with a pole, with
    heavy tails) is refused.

    >>> from scipy.stats import uniform
    >>> ScipyPrior(uniform(2, 5)).name
    'scipy[uniform]'
    >>> round(float(ScipyPrior(uniform()).tilted(0.0, 0.0).variance), 12)
    1.0
    """

    distribution: Any = field(compare=False, repr=False)
    name: str = field(init=False)
    extent: float = field(init=False)

    def __post_init__(self) -> None:
        from scipy.stats import rv_continuous

        frozen = self.distribution
        if not isinstance(getattr(frozen, "dist", None), rv_continuous):
            raise InvalidInput(
                "a prior of scipy is a frozen continuous distribution, such as "
                f"scipy.stats.uniform(), got {frozen!r}"
            )
        shapes, _, _ = frozen.dist._parse_args(*frozen.args, **frozen.kwds)
        frozen = frozen.dist(*shapes)  # place and scale are ours
        object.__setattr__(self, "distribution", frozen)
        mean, deviation = float(frozen.mean()), float(frozen.std())
        name = f"scipy[{':'.join([frozen.dist.name, *(repr(float(x)) for x in shapes)])}]"
        if not (math.isfinite(mean) and 0 < deviation < math.inf):
            raise InvalidInput(f"the prior {name} has no finite mean and variance")
        ends = (frozen.ppf(1e-16), frozen.isf(1e-16), frozen.median())
        low, high, middle = ((float(x) - mean) / deviation for x in ends)
        put = {"name": name, "extent": max(-low, high), "_ends": (low, high)}
        put |= {"_place": (mean, deviation), "_top": 0.0}
        for key, value in put.items():
            object.__setattr__(self, key, value)
        grid = np.sort(np.append(np.linspace(low, high, 4001), middle))
        at = int(np.argmax(self._log_density(grid)))
        near = (grid[max(at - 1, 0)], grid[min(at + 1, len(grid) - 1)])
        from scipy.optimize import minimize_scalar  # loads slowly, and is rarely needed

        peak = minimize_scalar(
            lambda w: -float(self._log_density(w)), bounds=near, options={"xatol": 1e-13}
        )
        higher = self._log_density(peak.x) > self._log_density(grid[at])
        object.__setattr__(self, "_top", float(peak.x if higher else grid[at]))
        found = self.tilted(np.zeros(1), np.zeros(1))
        off = [found.log_g[0], found.mean[0], found.variance[0] - 1]
        if not np.abs(off).max() < _NEAR:
            raise InvalidInput(
                f"the density of {name} is too rough to be integrated (a pole, a heavy tail, or "
                "several kinks): give a smooth one, or a Prior of your own"
            )

    def _log_density(self, w: Any) -> Array:
        mean, deviation = self._place  # type: ignore[attr-defined]
        return np.asarray(self.distribution.logpdf(mean + deviation * w) + math.log(deviation))

    def sample(self, rng: np.random.Generator, size: tuple[int, ...]) -> Array:
        mean, deviation = self._place  # type: ignore[attr-defined]
        return np.asarray((self.distribution.rvs(size=size, random_state=rng) - mean) / deviation)

    def tilted(self, b: Any, precision: Any) -> Tilted:
        b, precision = np.broadcast_arrays(np.asarray(b, float), np.asarray(precision, float))
        low, high = self._ends  # type: ignore[attr-defined]
        centre = np.clip(b / np.maximum(precision, _LEAST), low, high)
        slope = np.abs(b - precision * centre)
        reach = _DROP / np.maximum(slope + np.sqrt(slope**2 + _DROP * precision), _LEAST)
        left, right = np.maximum(centre - reach, low), np.minimum(centre + reach, high)
        top = np.clip(self._top, left, right)  # type: ignore[attr-defined]
        w, log_f = [], []
        for start, end in ((left, top), (top, right)):
            half = 0.5 * (end - start)[..., None]
            at = start[..., None] + half * (1 + _NODES)
            with np.errstate(divide="ignore", invalid="ignore"):
                log_f.append(self._log_density(at) + np.log(half * _WEIGHTS))
            log_f[-1] += b[..., None] * at - 0.5 * precision[..., None] * at**2
            w.append(at)
        at, terms = np.concatenate(w, -1), np.concatenate(log_f, -1)
        p, log_g = normalised(terms)
        mean = (p * at).sum(-1)
        return Tilted(log_g, mean, (p * (at - mean[..., None]) ** 2).sum(-1))


def parse_scipy(text: str) -> ScipyPrior:
    """The prior written [name:shape:…], as scipy[beta:2:2]."""
    import scipy.stats

    name, *shapes = text.strip("[]").split(":")
    known = getattr(scipy.stats, name, None) if name.isidentifier() else None
    try:
        return ScipyPrior(known(*map(float, shapes)))  # type: ignore[misc]
    except (TypeError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(
            f"the prior 'scipy{text}' must be written scipy[name:shape:...] with a continuous "
            "distribution of scipy.stats and its shapes"
        ) from None
