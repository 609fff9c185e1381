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

import numpy as np
from scipy.interpolate import CubicSpline, PchipInterpolator
from scipy.special import expit, log_ndtr, ndtr, ndtri

from polyceptron.model.losses import CrossEntropy, Loss, MaxMargin
from polyceptron.model.prox import softmax_curvature, solve_softmax
from polyceptron.numerics.erm_nodes import CUTOFF, Array
from polyceptron.numerics.qmc import uniform_replicates
from polyceptron.theory.erm.averages import Averages, Law

LOG2_POINTS = (8, 10, 12, 14, 16)  # per replicate, by level
N_REPLICATES = 16
SEED = 20_090
_SQRT2 = math.sqrt(2)


@dataclass(frozen=True)
class Points:
    """δ (n,), x_h − x₁ of the losers (n, k−1), uniform c and e (n,), and weights (n,)."""

    delta: Array
    below: Array
    c: Array
    e: Array
    weight: Array
    n_replicates: int


def place_points(n_classes: int, loss: Loss, law: Law, level: int) -> Points:
    """Points adapted to `law`; they serve any law near it. n = replicates × points."""
    k = n_classes
    cube = uniform_replicates(k + 2, LOG2_POINTS[level], SEED, N_REPLICATES)
    flat = cube.reshape(-1, k + 2)
    centre = CentreLaw(k)
    delta, stretch = _gap_map(loss, law, centre)(flat[:, 0])
    s, density = centre.sample(flat[:, 1], delta)
    first, best = (s + delta) / _SQRT2, (s - delta) / _SQRT2
    room = log_ndtr(best)
    others = ndtri_exp(np.log(flat[:, 4:]) + room[:, None])
    log_weight = -0.5 * (s**2 + delta**2) + (k - 2) * room
    weight = k * (k - 1) / (2 * math.pi) * stretch / density * np.exp(log_weight)
    below = np.concatenate([-_SQRT2 * delta[:, None], others - first[:, None]], axis=1)
    return Points(delta, below, ndtri(flat[:, 2]), flat[:, 3], weight, N_REPLICATES)


class CentreLaw:
    """p(s | δ) ∝ φ(s) Φ((s − δ)/√2)^{k−2}: where the leading pair sits, given its gap.

    Sampled as the law at δ = 0, shifted and scaled to the right mean and spread.
    """

    def __init__(self, n_classes: int) -> None:
        s = np.linspace(-9.0, 9.0, 721)
        gaps = np.linspace(-6.0, CUTOFF + 0.5, 60)
        log_p = -0.5 * s**2 + (n_classes - 2) * log_ndtr((s - gaps[:, None]) / _SQRT2)
        peak = log_p.max(1, keepdims=True)
        p = np.exp(log_p - peak)
        total = p.sum(1)
        mean = p @ s / total
        spread = np.sqrt(p @ s**2 / total - mean**2)
        self._log_norm = CubicSpline(gaps, np.log(total) + peak[:, 0])
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
        """The density of δ before any loss: φ(δ) ∫ φ(s) Φ((s − δ)/√2)^{k−2} ds, unnormalised."""
        log_p = self._log_norm(delta) - 0.5 * delta**2
        return np.asarray(np.exp(log_p - log_p.max()))


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
    envelope = centre.envelope(delta) * np.gradient(delta)
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


def averages(loss: Loss, law: Law, points: Points) -> Averages:
    """M, Q, C and the training averages for any k, one value per replicate."""
    below, V = points.below, law.V
    n, losers = below.shape
    root_q = math.sqrt(law.q)
    gap = root_q * below  # ω_h − ω₁
    if isinstance(loss, CrossEntropy):
        log_p, u = solve_softmax(gap, np.full(n, V))
        p = np.exp(log_p)
        first, rest = expit(u), -p
        trace = softmax_curvature(p, expit(-u), np.full(n, V))
        value = np.logaddexp(0.0, u)
    else:
        omega = np.concatenate([np.zeros((n, 1)), gap], axis=1)
        label = np.zeros(n, dtype=np.int64)
        f, trace = loss.denoise(omega, label, V)
        f = f - f.mean(1, keepdims=True)
        first, rest = f[:, 0], f[:, 1:]
        hard = isinstance(loss, MaxMargin)
        value = np.zeros(n) if hard else loss.value(omega + V * f, label)
    training_gap = V * first - gap[:, 0] - V * rest[:, 0]
    # Teacher: class 1 beats class 2 with probability Φ(τδ), the others given that.
    edge = -law.tau * points.delta
    beats = ndtr(-edge)
    e = -ndtri_exp(np.log(points.e) + log_ndtr(-edge))  # a normal above the edge
    reach = -law.tau * below[:, 1:]
    x = ((points.c + e) / _SQRT2)[:, None] + reach
    chance = ndtr(x)
    joint = points.weight * beats * chance.prod(1)
    at_edge = ndtr(((points.c + edge) / _SQRT2)[:, None] + reach).prod(1)
    slope = at_edge * np.exp(-0.5 * edge**2) / math.sqrt(4 * math.pi)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        mills = np.exp(-0.5 * x * x) / (math.sqrt(2 * math.pi) * chance)
    mills = np.where(x < -30, -x, mills)
    pull = points.weight * slope * (first - rest[:, 0])
    pull += joint * (mills * (first[:, None] - rest[:, 1:])).sum(1)
    along = np.einsum("nh,nh->n", gap, rest) / (losers * law.q)
    stack = np.stack(
        [
            pull / (losers * law.teacher_width),
            joint * (first**2 + np.einsum("nh,nh->n", rest, rest)) / losers,
            joint * trace / losers,
            joint * np.maximum(along, 0.0),
            joint * np.maximum(-along, 0.0),
            joint * value,
            joint * (training_gap < 0),
            joint,
        ]
    )
    mean = stack.reshape(8, points.n_replicates, -1).mean(2)
    return Averages(*mean)
