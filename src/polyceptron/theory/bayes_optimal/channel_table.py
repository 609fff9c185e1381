"""The fields side as a function of one variable, v ↦ I and Ψ_out: a proxy for each channel.

Column 0 is the mean over replicates, columns 1 to R the replicates themselves; where the rule is
deterministic there is column 0 only.

Gaussian utilities of noise Δ see the overlap q = 1 − v through v + Δ, and only the ratio counts:
with tan²θ = (v + Δ)/q

    I = i(θ)/((1 + Δ) sin θ),      excess = e(θ) sin θ,

so that one pair (i, e) for each k and guess rate serves every Δ; without guesses it is a table that
comes with the package for every k ≥ 4 (`fields/entropy_table.py`). Another channel has a pair
of its own in x = ln(w/w₀), with w = √(v + w₀²) in place of sin θ, w₀ being its width at v = 0: x is
smooth in v at both ends, and resolves both v ~ w₀² and v ~ 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from polyceptron.model.channels import Channel
from polyceptron.numerics import AnyArray
from polyceptron.numerics.chebyshev import ChebyshevProxy, chebyshev_proxy
from polyceptron.theory.effort import tabled_channel
from polyceptron.theory.fields.entropy_table import entropy_table
from polyceptron.theory.fields.information import (
    Moments,
    channel_moments,
    gaussian_moments,
    known_entropy,
)
from polyceptron.theory.weights.side import Index, with_mean

_THETA_LOW = 1e-3  # below it the proxies are continued: they are smooth at 0


class ChannelTable:
    """I and Ψ_out of one channel; build with `channel_table`."""

    def __init__(self, channel: Channel, n_classes: int, log2_points: int) -> None:
        self.channel, self.n_classes = channel, n_classes
        self.delta = channel.utility_variance
        self.known_entropy = known_entropy(channel, n_classes)
        guess = channel.guess(n_classes)
        self.tabled = None
        if tabled_channel(channel, n_classes):
            self.tabled, self.columns = entropy_table(n_classes), 1
            return
        if self.delta is not None:
            self.proxy = _gaussian_proxy(n_classes, guess, log2_points)
            self.base = _gaussian_proxy(3, guess, 0) if n_classes > 3 else None
        else:
            self.narrow = channel.width(0.0) ** 2
            self.proxy = _asked_proxy(channel, n_classes, log2_points, self.narrow)
            self.base = None
        self.columns = self.proxy.coefficients.shape[1] // 2

    @property
    def n_replicates(self) -> int:
        """R, or 0 where the rule is deterministic."""
        return self.columns - 1

    @property
    def error(self) -> float:
        """Relative error that the proxies leave in I and Ψ_out, sampling apart."""
        if self.tabled is not None:
            return self.tabled.error
        values = np.abs(self.proxy(np.linspace(self.proxy.low, self.proxy.high, 50))).min(-1)
        mean = [0, self.columns]
        return float((self.proxy.error[mean] / values[mean]).max())

    def __call__(self, v: AnyArray, column: Index) -> tuple[AnyArray, AnyArray]:
        """I and Ψ_out at residual variance v (n,), each in its column (n,)."""
        if not self.n_replicates:
            column = 0 * column
        if self.delta is not None:
            theta = np.arctan2(np.sqrt(v + self.delta), np.sqrt(np.maximum(1 - v, 0.0)))
            scale = np.sqrt((v + self.delta) / (1 + self.delta))
            unit = scale * (1 + self.delta)
            if self.tabled is not None:
                information, entropy = self.tabled(theta)
                return information / (1 + self.delta), entropy
        else:
            theta = 0.5 * np.log1p(v / self.narrow)
            unit = scale = np.sqrt(v + self.narrow)
        information, excess = (
            self.proxy.column(theta, column),
            self.proxy.column(theta, column + self.columns),
        )
        if self.base is not None:
            zero = np.zeros_like(column)
            information = information * self.base.column(theta, zero)
            excess = excess * self.base.column(theta, zero + 1)
        with np.errstate(divide="ignore"):
            return information / unit, self.known_entropy + excess * scale


@lru_cache(maxsize=64)
def channel_table(channel: Channel, n_classes: int, log2_points: int) -> ChannelTable:
    """The table of a channel; `log2_points` matters for k ≥ 4 only."""
    return ChannelTable(channel, n_classes, log2_points if n_classes > 3 else 0)


@lru_cache(maxsize=64)
def _gaussian_proxy(k: int, guess: float, log2_points: int) -> ChebyshevProxy:
    """θ ↦ (sin θ · I, excess/sin θ); for k ≥ 4 as ratios to k = 3, which vary little."""

    def scaled(theta: AnyArray) -> AnyArray:
        sine = np.sin(theta)
        q = np.maximum(np.cos(theta) ** 2, 1e-12)
        values = _columns(gaussian_moments(q, sine**2, k, guess, log2_points), sine)
        if k > 3:
            base = _gaussian_proxy(3, guess, 0)(theta).T
            values = values / np.repeat(base, values.shape[1] // 2, axis=1)
        return values

    return _proxy(scaled, k, (_THETA_LOW, math.pi / 2), 1e-13, 33)


def _asked_proxy(channel: Channel, k: int, log2_points: int, narrow: float) -> ChebyshevProxy:
    """x = ln(1 + v/w₀²)/2 ↦ (w I, excess/w), w² = v + w₀²."""

    def scaled(x: AnyArray) -> AnyArray:
        v = np.minimum(narrow * np.expm1(2 * x), 1.0)
        q = np.maximum(1 - v, 1e-12)
        return _columns(channel_moments(channel, q, v, k, log2_points), np.sqrt(v + narrow))

    top = 0.5 * math.log1p(1 / narrow)
    # A table of utilities is good to 5e-11, and the tail of the series is ten times the error.
    return _proxy(scaled, k, (0.0, top), 3e-10, 17 if top < 1 else 25)


def _columns(moments: Moments, scale: AnyArray) -> AnyArray:
    """Mean and replicates of the scaled moments, side by side."""
    information, excess = moments.information * scale[:, None], moments.excess / scale[:, None]
    return np.hstack([with_mean(information), with_mean(excess)])


def _proxy(
    scaled: Callable[[AnyArray], AnyArray],
    k: int,
    ends: tuple[float, float],
    tol: float,
    start: int,
) -> ChebyshevProxy:
    deterministic = k <= 3
    return chebyshev_proxy(
        scaled,
        *ends,
        tol=tol if deterministic else 3e-6,
        start=start if deterministic else 17,
        max_points=257 if deterministic else 17,
    )
