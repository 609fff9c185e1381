"""Four classes or more: randomised quasi-Monte Carlo on coordinates that sit on the boundary.

Student fields in units of √q: the winner and the best loser are x₁,₂ = (s ± δ)/√2, the others are
normals below x₂ by inverse cdf. Teacher, given the student: its noise on the same pair is
(c ± e)/√2, and class 1 beats class 2 when e > −τδ, which has probability Φ(τδ) and is sampled by
inverse cdf; the other classes then enter as ∏_h Φ(t + τ(x₁ − x_h)), t = (c + e)/√2, a factor that
is 1 but near a corner where three classes meet. The gap δ is drawn through a monotone map that
puts points where the two-class integrands live, and s given δ from nearly its exact law, so the
weights are flat. Everything is smooth in (τ, q, V) at fixed points: a fixed point can be solved for
with the points held still.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline, PchipInterpolator
from scipy.special import expit, log_ndtr, ndtr, ndtri

from polyceptron.model.losses import CrossEntropy, Loss, MaxMargin
from polyceptron.model.prox import softmax_curvature, solve_softmax
from polyceptron.numerics.erm_nodes import CUTOFF, Array
from polyceptron.numerics.qmc import uniform_replicates
from polyceptron.theory.erm import two
from polyceptron.theory.erm.averages import Averages, Law

LOG2_POINTS = (8, 10, 11, 12, 13, 14, 15, 16)  # per replicate, by level
N_REPLICATES = 16
SEED = 20_090
_SQRT2 = math.sqrt(2)
_CHUNK = 4_000_000  # losers × points evaluated at once, to bound memory


@dataclass(frozen=True)
class Points:
    """δ (n,), x_h − x₁ of the losers (n, k−1), uniform c and e (n,), and weights (n,)."""

    delta: Array
    below: Array
    c: Array
    e: Array
    weight: Array
    n_replicates: int
    line: two.Line  # a deterministic rule for the two-class control
    centre: CentreLaw


def place_points(n_classes: int, loss: Loss, law: Law, level: int) -> Points:
    """Points adapted to `law`; they serve any law near it. n = replicates × points."""
    k = n_classes
    cube = uniform_replicates(k + 2, LOG2_POINTS[level], SEED, N_REPLICATES)
    flat = cube.reshape(-1, k + 2)
    centre = centre_law(k)
    delta, stretch = _gap_map(loss, law, centre)(flat[:, 0])
    s, density = centre.sample(flat[:, 1], delta)
    first, best = (s + delta) / _SQRT2, (s - delta) / _SQRT2
    room = log_ndtr(best)
    # The next loser gets its own coordinate: three classes rarely meet, but it is there that k
    # classes differ from two, so points are drawn towards that corner.
    u, corner = _corner_map(k, law, flat[:, 4])
    below_next = room + np.log1p(-u) / (k - 2)
    lower = np.log(flat[:, 5:]) + below_next[:, None]
    others = ndtri_exp(np.concatenate([below_next[:, None], lower], axis=1))
    log_weight = -0.5 * (s**2 + delta**2) + (k - 2) * room
    weight = k * (k - 1) / (2 * math.pi) * stretch * corner / density * np.exp(log_weight)
    below = np.concatenate([-_SQRT2 * delta[:, None], others - first[:, None]], axis=1)
    line = two.place_nodes(loss, law, 2)
    c, e = ndtri(flat[:, 2]), flat[:, 3]
    return Points(delta, below, c, e, weight, N_REPLICATES, line, centre)


def _corner_map(k: int, law: Law, v: Array) -> tuple[Array, Array]:
    """v → (u, du/dv) on (0, 1), with as many points in each decade of u down to the corner's size.

    u = 1 − (Φ(x₃)/Φ(x₂))^{k−2} is the chance of a closer second loser, about (k−2) times the gap.
    """
    size = (k - 2) * max(1.5 / max(law.tau, 1e-300), 3 / math.sqrt(law.q))
    size = max(size, 1e-5)
    if size > 0.5:
        return v, np.ones_like(v)
    rate = math.log1p(1 / size)
    u = size * np.expm1(rate * v)
    return np.minimum(u, 1 - 1e-16), rate * (u + size)


@lru_cache(maxsize=64)
def centre_law(n_classes: int) -> CentreLaw:
    """The tables of `CentreLaw`, made once."""
    return CentreLaw(n_classes)


class CentreLaw:
    """p(s | δ) ∝ φ(s) Φ((s − δ)/√2)^{k−2}: where the leading pair sits, given its gap.

    Sampled as the law at δ = 0, shifted and scaled to the right mean and spread.
    """

    def __init__(self, n_classes: int) -> None:
        s = np.linspace(-9.0, 9.0, 721)
        gaps = np.linspace(-CUTOFF - 0.5, CUTOFF + 0.5, 240)
        log_p = -0.5 * s**2 + (n_classes - 2) * log_ndtr((s - gaps[:, None]) / _SQRT2)
        peak = log_p.max(1, keepdims=True)
        p = np.exp(log_p - peak)
        total = p.sum(1)
        mean = p @ s / total
        spread = np.sqrt(p @ s**2 / total - mean**2)
        pairs = n_classes * (n_classes - 1) / 2 * (s[1] - s[0]) / math.sqrt(2 * math.pi)
        self._log_norm = CubicSpline(gaps, np.log(pairs * total) + peak[:, 0])
        self._mean, self._spread = CubicSpline(gaps, mean), CubicSpline(gaps, spread)
        base = np.exp(-0.5 * s**2 + (n_classes - 2) * log_ndtr(s / _SQRT2))
        z = (s - self._mean(0.0)) / self._spread(0.0)
        cdf = np.cumsum((base[1:] + base[:-1]) / 2 * np.diff(z))
        cdf = np.concatenate([[0.0], cdf]) + 1e-9 * np.arange(len(s)) * cdf[-1]
        self._quantile = PchipInterpolator(cdf / cdf[-1], z)
        self._slope = self._quantile.derivative()

    def sample(self, u: Array, delta: Array) -> tuple[Array, Array]:
        """s and the density it was drawn with."""
        spread = self._spread(delta)
        s = self._mean(delta) + spread * self._quantile(u)
        return s, 1 / (spread * self._slope(u))

    def envelope(self, delta: Array) -> Array:
        """κ(δ) = (k(k−1)/2) ∫ φ(s) Φ((s − δ)/√2)^{k−2} ds: pairs of classes per gap, 1 at k = 2."""
        return np.asarray(np.exp(self._log_norm(delta)))


def ndtri_exp(log_p: Array) -> Array:
    """Φ⁻¹(e^{log p}); the upper half goes by the complement, where p alone would round to 1."""
    upper = log_p > -0.7
    return np.asarray(
        np.where(upper, -ndtri(-np.expm1(np.where(upper, log_p, -1.0))), ndtri(np.exp(log_p)))
    )


def _gap_map(loss: Loss, law: Law, centre: CentreLaw) -> Callable[[Array], tuple[Array, Array]]:
    """u in (0, 1) → (δ, dδ/du): a mixture of the densities of the two-class integrands."""
    width = 1 / max(law.tau, 1.0)
    low, high = -min(CUTOFF * width, 6.0), CUTOFF
    scale = min(width, 1 / math.sqrt(law.q + 1e-300), 1.0) / 4
    fine = np.linspace(math.asinh(low / scale), math.asinh(high / scale), 300)
    delta = scale * np.sinh(fine)
    gap = math.sqrt(2 * law.q) * delta
    omega = np.stack([gap / 2, -gap / 2], axis=1)
    f, trace = loss.denoise(omega, np.zeros(len(gap), dtype=np.int64), law.V)
    pull = np.abs(f[:, 0] - f[:, 1])
    wins, near = ndtr(law.tau * delta), np.exp(-0.5 * np.minimum(law.tau * delta, 40.0) ** 2)
    envelope = centre.envelope(delta) * np.exp(-0.5 * delta**2) * np.gradient(delta)
    density = np.zeros_like(delta)
    for part in (wins * pull**2, near * pull, wins * trace, wins):
        shaped = part * envelope
        density += shaped / max(float(shaped.sum()), 1e-300)
    density /= density.sum()
    density += 0.02 * envelope * (wins + near) / float((envelope * (wins + near)).sum())
    cdf = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    cdf += 1e-7 * np.arange(len(cdf))
    inverse = PchipInterpolator(cdf / cdf[-1], fine)
    slope = inverse.derivative()

    def place(u: Array) -> tuple[Array, Array]:
        v = inverse(u)
        return scale * np.sinh(v), scale * np.cosh(v) * slope(u)

    return place


class Denoised(NamedTuple):
    """f of the winner (n,) and of the losers (n, k−1), −tr_⊥∂f, loss, and the training margin."""

    first: Array
    rest: Array
    trace: Array
    value: Array
    margin: Array


def denoised(loss: Loss, law: Law, below: Array) -> Denoised:
    """The loss's denoiser at the points."""
    n, V = len(below), law.V
    gap = math.sqrt(law.q) * below  # ω_h − ω₁
    if isinstance(loss, CrossEntropy):
        spread = np.full(n, V)
        log_p, u = solve_softmax(gap, spread)
        p = np.exp(log_p)
        first, rest, value = expit(u), -p, np.logaddexp(0.0, u)
        trace = softmax_curvature(p, expit(-u), spread)
    else:
        omega = np.concatenate([np.zeros((n, 1)), gap], axis=1)
        label = np.zeros(n, dtype=np.int64)
        f, trace = loss.denoise(omega, label, V)
        f = f - f.mean(1, keepdims=True)
        first, rest = f[:, 0], f[:, 1:]
        hard = isinstance(loss, MaxMargin)
        value = np.zeros(n) if hard else loss.value(omega + V * f, label)
    return Denoised(first, rest, trace, value, V * (first - rest[:, 0]) - gap[:, 0])


class Label(NamedTuple):
    """Weighted probability that class 1 is the label (n,), and its slopes in the losers' gaps."""

    joint: Array
    slope_best: Array
    mills: Array


def label_law(law: Law, points: Points) -> Label:
    """Class 1 beats class 2 with probability Φ(τδ), and the others given that."""
    edge = -law.tau * points.delta
    e = -ndtri_exp(np.log(points.e) + log_ndtr(-edge))  # a normal above the edge
    reach = -law.tau * points.below[:, 1:]
    x = ((points.c + e) / _SQRT2)[:, None] + reach
    chance = ndtr(x)
    joint = points.weight * ndtr(-edge) * chance.prod(1)
    at_edge = ndtr(((points.c + edge) / _SQRT2)[:, None] + reach).prod(1)
    slope = points.weight * at_edge * np.exp(-0.5 * edge**2) / math.sqrt(4 * math.pi)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        mills = np.exp(-0.5 * x * x) / (math.sqrt(2 * math.pi) * chance)
    return Label(joint, slope, np.where(x < -30, -x, mills))


def averages(loss: Loss, law: Law, points: Points) -> Averages:
    """M, Q, C, D and the training averages for any k, one value per replicate."""
    n, losers = points.below.shape
    pieces = max(1, -(-n * losers // _CHUNK))
    parts = [
        _sums(loss, law, _slice(points, rows))
        for rows in np.array_split(np.arange(n), min(pieces, points.n_replicates))
    ]
    sums = np.concatenate(parts, axis=1).reshape(16, points.n_replicates, -1).mean(2)
    plain, control = sums[:8], sums[8:]
    exact = np.stack(two.averages(loss, law, points.line, points.centre.envelope).parts)
    exact[:5] /= losers
    return Averages(*(plain - _regression(plain, control) * (control - exact)))


def _regression(plain: Array, control: Array) -> Array:
    """The slope of each average on its control over the replicates, (8, 1), within [0, 1]."""
    a = plain - plain.mean(1, keepdims=True)
    b = control - control.mean(1, keepdims=True)
    spread = np.einsum("ir,ir->i", b, b)
    slope = np.einsum("ir,ir->i", a, b) / np.where(spread > 0, spread, 1.0)
    return np.asarray(np.clip(slope, 0.0, 1.0)[:, None])


def _slice(points: Points, rows: NDArray[np.int64]) -> Points:
    part = slice(rows[0], rows[-1] + 1)
    p = points
    rows_of = (p.delta[part], p.below[part], p.c[part], p.e[part], p.weight[part])
    return Points(*rows_of, p.n_replicates, p.line, p.centre)


def _sums(loss: Loss, law: Law, points: Points) -> Array:
    """The integrands at the points, then their two-class controls, (16, n)."""
    first, rest, trace, value, margin = denoised(loss, law, points.below)
    label = label_law(law, points)
    losers = points.below.shape[1]
    pull = label.slope_best * (first - rest[:, 0])
    pull += label.joint * (label.mills * (first[:, None] - rest[:, 1:])).sum(1)
    along = np.einsum("nh,nh->n", points.below, rest) / (losers * math.sqrt(law.q))
    joint = label.joint
    pair = two.pair_at(loss, law, math.sqrt(2 * law.q) * points.delta)
    control = two.integrands(law, pair) * points.weight
    control[:5] /= losers
    plain = np.stack(
        [
            pull / (losers * law.teacher_width),
            joint * (first**2 + np.einsum("nh,nh->n", rest, rest)) / losers,
            joint * trace / losers,
            joint * np.maximum(along, 0.0),
            joint * np.maximum(-along, 0.0),
            joint * value,
            joint * (margin < 0),
            joint,
        ]
    )
    return np.concatenate([plain, control])
