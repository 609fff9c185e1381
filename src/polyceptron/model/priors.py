"""Priors of one teacher weight: mean 0 and variance 1, Gaussian or any finite distribution.

A prior is named ("gaussian", "rademacher") or given by its values and probabilities; the values
must have mean 0 and are rescaled to unit variance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyceptron.errors import InvalidInput

Array = NDArray[np.float64]


@dataclass(frozen=True)
class GaussianPrior:
    """w ~ N(0, 1)."""

    name: str = "gaussian"

    def sample(self, rng: np.random.Generator, size: tuple[int, ...]) -> Array:
        """Independent weights of the given shape."""
        return rng.standard_normal(size)


@dataclass(frozen=True)
class FinitePrior:
    """P(w = values[i]) = probabilities[i], with mean 0 and variance 1.

    Build one with `finite_prior`, which checks and rescales.
    """

    values: tuple[float, ...]
    probabilities: tuple[float, ...]
    name: str = "finite"

    def sample(self, rng: np.random.Generator, size: tuple[int, ...]) -> Array:
        """Independent weights of the given shape."""
        return rng.choice(np.array(self.values), size=size, p=np.array(self.probabilities))


Prior = GaussianPrior | FinitePrior


def finite_prior(values: Any, probabilities: Any, name: str | None = None) -> FinitePrior:
    """A finite prior from raw values and probabilities, rescaled to unit variance.

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
    v = v / scale
    order = np.argsort(v)
    v, p = v[order], p[order]
    # The name can be read back (`as_prior`): the digits are those of the numbers, not rounded.
    pairs = ";".join(f"{a!r}:{b!r}" for a, b in zip(v.tolist(), p.tolist(), strict=True))
    return FinitePrior(tuple(v.tolist()), tuple(p.tolist()), name or f"finite[{pairs}]")


def as_prior(prior: Any) -> Prior:
    """The prior meant by a name, a pair (values, probabilities), or a prior itself."""
    if isinstance(prior, GaussianPrior | FinitePrior):
        return prior
    if isinstance(prior, str):
        if prior == "gaussian":
            return GaussianPrior()
        if prior == "rademacher":
            return FinitePrior((-1.0, 1.0), (0.5, 0.5), "rademacher")
        if prior.startswith("finite[") and prior.endswith("]"):
            return _parse_finite(prior)
    elif isinstance(prior, tuple | list) and len(prior) == 2:
        return finite_prior(*prior)
    raise InvalidInput(
        f"unknown prior {prior!r}: allowed are 'gaussian', 'rademacher', 'finite[v:p;...]' "
        "or a pair (values, probabilities)"
    )


def _parse_finite(text: str) -> FinitePrior:
    """Read back the name that `finite_prior` gives: finite[value:probability;...]."""
    try:
        pairs = [item.split(":") for item in text[len("finite[") : -1].split(";")]
        values, probabilities = [float(a) for a, _ in pairs], [float(b) for _, b in pairs]
    except ValueError:
        raise InvalidInput(
            f"cannot read the prior {text!r}: write finite[value:probability;value:probability;...]"
        ) from None
    return finite_prior(values, probabilities)
