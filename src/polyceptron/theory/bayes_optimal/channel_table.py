"""The fields side as a function of one variable, v ↦ I and Ψ_out: a Chebyshev proxy a channel.

Gaussian utilities of noise Δ see the overlap q = 1 − v through v + Δ, and only the ratio counts:
with tan²θ = (v + Δ)/q

    I = i(θ)/((1 + Δ) sin θ),      excess = e(θ) sin θ,

so that one pair (i, e) for each k and guess rate serves every Δ. Both are smooth on the whole of
0 ≤ θ ≤ π/2 and even about π/2 (Ψ_out is analytic in q at q = 0), that is functions of
y = 2(1 − 2θ/π)² − 1. Any other channel has a pair of its own in x = ln(w/w₀), with w = √(v + w₀²)
in place of sin θ, w₀ being its width at v = 0: x is smooth in v at both ends, and resolves both
v ~ w₀² and v ~ 1.

Two and three classes give both functions (`fields/information.py`). Four and more give e alone, and

    I = (2/r) dΨ/dq,   i = −(1/r) Ψ′(θ)/cos θ   or   I = −Ψ′(x)/(r w²).

Without guesses the functions come with the package: both for k ≤ 3, and e for every k ≥ 4 as 210
numbers, its 14 coefficients at a few values of k, which vary smoothly with ln k. They were made by
`tools/argmax_entropy.py`, and a test makes a part again.
"""

from __future__ import annotations

import json
import math
from functools import lru_cache
from importlib.resources import files
from typing import Any

import numpy as np

from polyceptron.model.channels import Channel, Flips, GaussianNoise
from polyceptron.numerics import AnyArray
from polyceptron.numerics.special import ChebyshevProxy, chebyshev_proxy
from polyceptron.theory.fields.information import few_moments, known_entropy, many_excess

_THETA_LOW = 1e-3  # below it the proxies are continued: they are smooth at 0
_MANY_ERROR = 2e-5  # relative, of I at k ≥ 4 and k ≤ 100; finer rules changed it by less
_FEW_ERROR = 3e-11  # of the panels
_TOP = 2 * (1 - 2 * _THETA_LOW / math.pi) ** 2 - 1  # y there


EntropyTable = tuple[ChebyshevProxy, float]
"""The pair of functions in one coordinate, and the relative error of both."""


class ChannelTable:
    """I and Ψ_out of one channel; build with `channel_table`."""

    def __init__(self, channel: Channel, n_classes: int) -> None:
        self.delta = channel.utility_variance
        self.known_entropy = known_entropy(channel, n_classes)
        if self.delta is not None:
            self.pair, self.error = argmax_table(n_classes, channel.guess(n_classes))
        else:
            self.narrow = channel.width(0.0) ** 2
            self.pair, self.error = _smooth_table(channel, n_classes, self.narrow)

    def __call__(self, v: AnyArray) -> tuple[AnyArray, AnyArray]:
        """I and Ψ_out at residual variance v (n,)."""
        if self.delta is not None:
            theta = np.arctan2(np.sqrt(v + self.delta), np.sqrt(np.maximum(1 - v, 0.0)))
            place = 2 * (1 - 2 * theta / math.pi) ** 2 - 1
            scale = np.sqrt((v + self.delta) / (1 + self.delta))
            unit = scale * (1 + self.delta)
        else:
            place = 0.5 * np.log1p(v / self.narrow)
            unit = scale = np.sqrt(v + self.narrow)
        information, excess = self.pair(place)
        with np.errstate(divide="ignore"):
            return information / unit, self.known_entropy + excess * scale


channel_table = lru_cache(maxsize=64)(ChannelTable)


def _angle(y: AnyArray) -> AnyArray:
    """θ at y, in which functions even about θ = π/2 are series."""
    return 0.5 * math.pi * (1 - np.sqrt(0.5 * (y + 1)))


@lru_cache(maxsize=64)
def argmax_table(k: int, guess: float) -> EntropyTable:
    """y ↦ (sin θ · I, excess/sin θ) of Gaussian utilities."""
    channel = Flips(guess * (k - 1)) if guess > 0 else GaussianNoise()
    if k <= 3:
        if guess > 0:
            return _of_proxy(few_pair(channel, k))
        shipped = np.array(_shipped()["few"][str(k)])  # what `few_pair` gave
        return ChebyshevProxy(-1.0, _TOP, shipped, np.zeros(2)), _FEW_ERROR
    if guess == 0:
        entropy, error = _shipped_entropy(k)
    else:

        def many(y: AnyArray) -> AnyArray:
            return np.array([many_excess(channel, s**2, k) / s for s in np.sin(_angle(y)).tolist()])

        entropy = chebyshev_proxy(many, -1.0, _TOP, tol=1e-7, max_points=17)
        error = _many_error(entropy, k)
    slope = entropy.derivative()

    def both(y: AnyArray) -> AnyArray:
        x = np.sqrt(0.5 * (y + 1))
        ratio = (2 / math.pi) / np.sinc(0.5 * x)  # x/cos θ
        G = entropy(y)
        rate = G - (8 / math.pi) * np.sin(_angle(y)) * slope(y) * ratio  # Ψ′/cos θ
        return np.stack([-rate / (k - 1), G], -1)

    return chebyshev_proxy(both, -1.0, entropy.high, max_points=65), error


def few_pair(channel: Channel, k: int) -> ChebyshevProxy:
    """y ↦ (sin θ · I, excess/sin θ) of two or three classes, from the rule."""

    def few(y: AnyArray) -> AnyArray:
        sine = np.sin(_angle(y))
        found = np.array([few_moments(channel, s**2, k) for s in sine.tolist()])
        return found * np.stack([sine, 1 / sine], -1)

    return chebyshev_proxy(few, -1.0, _TOP, tol=1e-10, start=33, max_points=129)


@lru_cache(maxsize=1)
def _shipped() -> Any:
    home = files("polyceptron.theory.fields").joinpath("argmax_entropy.json")
    return json.loads(home.read_text())


def _shipped_entropy(k: int) -> tuple[ChebyshevProxy, float]:
    """y ↦ Ψ/sin θ without guesses, and its error: quadrature, interpolation in k, triples left out.

    Of I at q = 0 it is 7e-9, 3e-8, 6e-7, 2.5e-6 at k = 4, 10, 100, 1000; four times that elsewhere.
    """
    from scipy.interpolate import BarycentricInterpolator

    data = _shipped()
    through = BarycentricInterpolator(np.log(data["classes"]), np.array(data["coefficients"]))
    error = 4 * max(3e-8, 6e-9 * k**0.95)
    return ChebyshevProxy(-1.0, 1.0, through(math.log(k)), np.array(error)), error


def _smooth_table(channel: Channel, k: int, narrow: float) -> EntropyTable:
    """x = ln(1 + v/w₀²)/2 ↦ (w I, excess/w), w² = v + w₀²."""
    top = 0.5 * math.log1p(1 / narrow)

    def variance(x: AnyArray) -> AnyArray:
        return np.minimum(narrow * np.expm1(2 * x), 1.0)

    def few(x: AnyArray) -> AnyArray:
        v = variance(x)
        found = np.array([few_moments(channel, float(a), k) for a in v])
        scale = np.sqrt(v + narrow)
        return found * np.stack([scale, 1 / scale], -1)

    if k <= 3:
        # A table of utilities is good to 5e-11, and the tail of the series is ten times the error.
        start = 17 if top < 1 else 25
        return _of_proxy(chebyshev_proxy(few, 0.0, top, tol=3e-10, start=start))

    def many(x: AnyArray) -> AnyArray:
        return np.array([many_excess(channel, float(v), k) for v in variance(x)])

    entropy = chebyshev_proxy(many, 0.0, top, tol=1e-7, start=9, max_points=33)
    slope = entropy.derivative()

    def both(x: AnyArray) -> AnyArray:
        scale = np.sqrt(variance(x) + narrow)
        return np.stack([-slope(x) / ((k - 1) * scale), entropy(x) / scale], -1)

    return chebyshev_proxy(both, 0.0, top), _many_error(entropy, k)


def _many_error(entropy: ChebyshevProxy, k: int) -> float:
    """Of the slope, from the rule and from what the series leaves out."""
    left_out = len(entropy.coefficients) ** 2 * float(entropy.error)
    return _MANY_ERROR * max(1.0, k / 100) + left_out / abs(float(entropy(entropy.high)))


def _of_proxy(pair: ChebyshevProxy) -> EntropyTable:
    """With the error that the series itself leaves."""
    values = np.abs(pair(np.linspace(pair.low, pair.high, 50))).min(-1)
    return pair, _FEW_ERROR + float((pair.error / values).max())
