"""Finitely many values: Rademacher, ternary, or any list of values and probabilities.

The values must have mean 0 and are rescaled to unit variance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import xlogy

from polyceptron.errors import InvalidInput
from polyceptron.model.priors.prior import MAX_CONFIGURATIONS, PointRow, Prior, Row, Tilted
from polyceptron.numerics import Array

_RAREST = 1e-12  # rarer values are never seen, and their size drowns the others
_CLOSEST = 1e-9


@dataclass(frozen=True)
class FinitePrior(Prior):
    """P(w = values[i]) = probabilities[i], with mean 0 and variance 1.

    Build one with `finite_prior`, which checks and rescales.
    """

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
        logs = [
            b * v - 0.5 * precision * v**2 + math.log(p)
            for v, p in zip(self.values, self.probabilities, strict=True)
        ]
        log_g = np.logaddexp.reduce(logs)
        shares = [np.exp(w - log_g) for w in logs]
        mean = np.zeros_like(log_g)
        for share, v in zip(shares, self.values, strict=True):
            mean = mean + share * v
        variance = np.zeros_like(log_g)
        for share, v in zip(shares, self.values, strict=True):
            variance = variance + share * (v - mean) ** 2
        return Tilted(log_g, mean, variance)

    @property
    def entropy(self) -> float:
        p = np.array(self.probabilities)
        return float(-xlogy(p, p).sum())

    @property
    def support(self) -> tuple[Array, Array] | None:
        return np.array(self.values), np.array(self.probabilities)

    def row(self, n_classes: int) -> Row:
        few = len(self.values) ** n_classes <= MAX_CONFIGURATIONS
        return PointRow(self, n_classes) if few else Row(self, n_classes)


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
