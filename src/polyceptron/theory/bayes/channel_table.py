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
as I = −(2/r) dΨ/dv and dv = 2w dw, in either coordinate

    i = −(e + e′/(ln w)′)/r.

Without guesses the functions come with the package: both for k ≤ 3, and e for every k ≥ 4 as 210
numbers (`tools/argmax_entropy.py`), its 14 coefficients at a few k, which vary smoothly with ln k.
"""

import json
import math
from collections.abc import Callable
from functools import lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
from scipy.interpolate import BarycentricInterpolator

from polyceptron.numerics import AnyArray
from polyceptron.numerics.special import ChebyshevProxy, chebyshev_proxy
from polyceptron.problem.channels import Channel, Flips
from polyceptron.sides.fields.information import few_moments, known_entropy, many_excess

# Relative error of I at 4 ≤ k ≤ 100: finer rules changed it by less.
ERROR_ABOVE_THREE_CLASSES = 2e-5
ERROR_OF_PANELS = 3e-11
SMALLEST_ANGLE = 1e-3  # θ; beyond, smooth functions are continued
HIGHEST_Y = 2 * (1 - 2 * SMALLEST_ANGLE / math.pi) ** 2 - 1

EntropyTable = tuple[Callable[[AnyArray], AnyArray], float]
"""The pair of functions (2, n) of one coordinate, and the relative error of both."""


class Coordinate(NamedTuple):
    """x, between its ends: v = w² − w₀², w and dx/d ln w at x."""

    low: float
    high: float
    narrow: float  # w₀²
    width: Callable[[AnyArray], AnyArray]
    rate: Callable[[AnyArray], Any]


def _sine(y: AnyArray) -> AnyArray:
    """Return sin θ at y, in which functions even about θ = π/2 are series."""
    return np.sin(0.5 * math.pi * (1 - np.sqrt(0.5 * (y + 1))))


def _sine_rate(y: AnyArray) -> AnyArray:
    """Return dy/d ln sin θ at y."""
    return -((4 / math.pi) ** 2) * _sine(y) / np.sinc(0.5 * np.sqrt(0.5 * (y + 1)))


ANGLE = Coordinate(-1.0, HIGHEST_Y, 0.0, _sine, _sine_rate)


class ChannelTable:
    """The functions I and Ψ_out of one channel; build with `channel_table`."""

    def __init__(self, channel: Channel, n_classes: int) -> None:
        self.delta = channel.utility_variance
        self.known_entropy = known_entropy(channel, n_classes)
        if self.delta is not None:
            self.pair, self.error = argmax_table(n_classes, channel.guess(n_classes))
        else:
            narrowest = channel.width(0.0)
            self.narrow = narrowest**2
            coordinate = Coordinate(
                low=0.0,
                high=0.5 * math.log1p(1 / self.narrow),
                narrow=self.narrow,
                width=lambda x: narrowest * np.exp(x),
                rate=lambda _: 1.0,
            )
            self.pair, self.error = own_table(channel, n_classes, coordinate)

    def __call__(self, v: AnyArray) -> tuple[AnyArray, AnyArray]:
        """Return I and Ψ_out at residual variance v (n,)."""
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


@lru_cache(maxsize=64)
def argmax_table(k: int, guess: float) -> EntropyTable:
    """Return y ↦ (sin θ · I, excess/sin θ) of Gaussian utilities, and its error."""
    if guess > 0:
        return own_table(Flips(guess * (k - 1)), k, ANGLE)
    home = files("polyceptron.sides.fields").joinpath("argmax_entropy.json")
    data = json.loads(home.read_text())
    if k <= 3:  # what `few_pair` gave
        return ChebyshevProxy(
            -1.0, HIGHEST_Y, np.array(data["few"][str(k)]), np.zeros(2)
        ), ERROR_OF_PANELS
    through = BarycentricInterpolator(np.log(data["classes"]), np.array(data["coefficients"]))
    # Quadrature, interpolation in k, triples left out: of I at q = 0 it is 7e-9, 3e-8, 6e-7, 2.5e-6
    # at k = 4, 10, 100, 1000; four times that elsewhere.
    error = 4 * max(3e-8, 6e-9 * k**0.95)
    entropy = ChebyshevProxy(-1.0, 1.0, through(math.log(k)), np.array(error))
    return _with_slope(entropy, k, ANGLE), error


def own_table(channel: Channel, k: int, at: Coordinate) -> EntropyTable:
    """Return x ↦ (w I, excess/w) of a channel, computed, and its error."""
    if k <= 3:
        pair = few_pair(channel, k, at)
        values = np.abs(pair(np.linspace(pair.low, pair.high, 50))).min(-1)
        return pair, ERROR_OF_PANELS + float((pair.error / values).max())

    def many(x: AnyArray) -> AnyArray:
        """Return excess/w (n,) at x (n,)."""
        w = at.width(x)
        v = np.clip(w**2 - at.narrow, 0.0, 1.0)
        return np.array([many_excess(channel, a, k) for a in v.tolist()]) / w

    entropy = chebyshev_proxy(many, at.low, at.high, tol=1e-7, start=9, max_points=33)
    left_out = len(entropy.coefficients) ** 2 * float(entropy.error)  # of the slope
    error = ERROR_ABOVE_THREE_CLASSES * max(1.0, k / 100) + left_out / abs(
        float(entropy(entropy.high))
    )
    return _with_slope(entropy, k, at), error


def few_pair(channel: Channel, k: int, at: Coordinate = ANGLE) -> ChebyshevProxy:
    """Return x ↦ (w I, excess/w) of two or three classes, from the rule."""

    def few(x: AnyArray) -> AnyArray:
        """Return w I and excess/w (n, 2) at x (n,)."""
        w = at.width(x)
        v = np.clip(w**2 - at.narrow, 0.0, 1.0)
        found = np.array([few_moments(channel, a, k) for a in v.tolist()])
        return found * np.stack([w, 1 / w], -1)

    tol = 3e-10 if channel.accuracy else 1e-10
    return chebyshev_proxy(few, at.low, at.high, tol=tol, start=17, max_points=129)


def _with_slope(entropy: ChebyshevProxy, k: int, at: Coordinate) -> Callable[[AnyArray], AnyArray]:
    """Return x ↦ (w I, excess/w) from the second alone."""
    slope = entropy.derivative()

    def both(x: AnyArray) -> AnyArray:
        """Return w I and excess/w (2, n) at x (n,)."""
        e = entropy(x)
        return np.stack([-(e + at.rate(x) * slope(x)) / (k - 1), e])

    return both
