"""Four classes or more: randomised quasi-Monte Carlo on coordinates that sit on the boundary.

Student fields in units of √q: the label and the best other class are x₁,₂ = (s ± δ)/√2, the
further ones normals below x₂ by inverse cdf. The gap δ is drawn through a monotone map that puts
points where the two-class integrands live (`GapMap`), and s given δ from nearly its exact law
(`CentreLaw`), so the weights are flat. Everything is smooth in (τ, q, V) at fixed points: a fixed
point can be solved for with the points held still (where −tr ∂f jumps, C comes from M and D).
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.interpolate import CubicSpline, PchipInterpolator
from scipy.special import log_ndtr, ndtri_exp

from polyceptron.numerics import TINY, Array
from polyceptron.numerics.estimate import N_REPLICATES, uniform_replicates
from polyceptron.numerics.panels import CUTOFF
from polyceptron.problem.channels import Channel
from polyceptron.problem.losses.coordinates import Coordinates, Pull
from polyceptron.problem.order import ScalarOrder
from polyceptron.sides.fields import integrand as rules

SEED = 20_090
SQRT_TWO = math.sqrt(2)
# Arrays (classes, points) of more numbers than this are evaluated in pieces: a cache holds them.
NUMBERS_AT_ONCE = 200_000


class Points(rules.FieldsRule):
    """Four classes or more, any student."""

    log2_points = (8, 10, 11, 12, 13, 14, 15, 16)  # per replicate, by level
    n_levels = len(log2_points)
    loop_level = 1
    root_tolerances = (1e-4,) * n_levels
    sampled = True
    usual_tolerance_of_cone = 1e-3

    def place(
        self,
        student: rules.FieldsStudent,
        channel: Channel,
        n_classes: int,
        order: ScalarOrder,
        level: int,
    ) -> rules.Averaging:
        """Draw points for `order`; they stay where they are, in units of √q."""
        own = student.coordinates
        n_near = _n_classes_that_count(own, channel, n_classes, order)
        points = boundary_points(own, channel, n_classes, order, level, n_near)
        weight = points.weight * N_REPLICATES  # each replicate is an average of its own
        pieces = _n_pieces(points.gaps.size)
        size = len(weight) // pieces

        def averages_of_piece(start: int, order: ScalarOrder) -> rules.Averages:
            """Return the averages over the points from `start` on, one piece."""
            part = slice(start, start + size)
            gaps = math.sqrt(order.q) * points.gaps[:, part]
            return rules.average(
                channel,
                order,
                gaps,
                weight[part],
                own.at_gaps(gaps, order.V),
                n_classes=n_classes,
                n_replicates=N_REPLICATES // pieces,
            )

        def averages(order: ScalarOrder) -> rules.Averages:
            """Return the averages at other order parameters, on the same points."""
            parts = [averages_of_piece(start, order) for start in range(0, len(weight), size)]
            joined = rules.Averages(*map(np.concatenate, zip(*parts, strict=True)))
            if not own.jumps:
                return joined
            C = order.slope * joined.M - (joined.D_plus - joined.D_minus)  # by parts
            return joined._replace(C=np.maximum(C, 0.0))

        return averages


def _n_pieces(n_numbers: int) -> int:
    """Return into how many pieces of whole replicates arrays are cut."""
    pieces = 1
    while pieces < N_REPLICATES and n_numbers > pieces * NUMBERS_AT_ONCE:
        pieces *= 2
    return pieces


class BoundaryPoints(NamedTuple):
    """Points with label 1, n = replicates × points; lengths are in units of √q."""

    gaps: Array  # x₁ − x_h (c, n), the smallest first
    weight: Array  # (n,)
    label: Array  # x₁ (n,)


def boundary_points(
    student: Coordinates,
    channel: Channel,
    n_classes: int,
    order: ScalarOrder,
    level: int,
    n_near: int | None = None,
) -> BoundaryPoints:
    """Return random points for `order`, of 2^`Points.log2_points`[level] in each replicate.

    If `n_near` is given and at most k/2, only so many of the smallest gaps are drawn.
    """
    n_gaps = n_classes - 1
    if n_near is not None and n_near <= n_classes // 2:
        n_gaps = n_near
    log2_points = Points.log2_points[level]
    seed = SEED + 1000 * level + n_classes  # levels and numbers of classes err independently
    replicates = uniform_replicates(n_gaps + 1, log2_points, seed, N_REPLICATES)
    cube = replicates.reshape(-1, n_gaps + 1).T
    return _from_cube(student, channel, n_classes, order, cube)


def _from_cube(
    student: Coordinates, channel: Channel, n_classes: int, order: ScalarOrder, cube: Array
) -> BoundaryPoints:
    """Map points (c + 1, n) of the unit cube to fields with c gaps."""
    k = n_classes
    centre = centre_law(k)
    delta, stretch = GapMap(student, channel, k, order)(cube[0])
    s, density = centre.sample(cube[1], delta)
    label = (s + delta) / SQRT_TWO
    best = (s - delta) / SQRT_TWO
    log_below_best = log_ndtr(best)
    if len(cube) == k:
        next_best = log_below_best + np.log(cube[2]) / (k - 2)
        log_cdf = np.concatenate([next_best[None], np.log(cube[3:]) + next_best])
    else:  # the largest of those that are left, again and again
        n_left = np.arange(k - 2, k - len(cube), -1)
        log_cdf = log_below_best + np.cumsum(np.log(cube[2:]) / n_left[:, None], 0)
    gaps = np.concatenate([SQRT_TWO * delta[None], label - ndtri_exp(log_cdf)])
    log_density = -0.5 * (s**2 + delta**2) + (k - 2) * log_below_best
    pairs = k * (k - 1) / (2 * math.pi * cube.shape[1])
    weight = pairs * stretch / density * np.exp(log_density)
    return BoundaryPoints(gaps, weight, label)


def _n_classes_that_count(
    own: Coordinates, channel: Channel, n_classes: int, order: ScalarOrder
) -> int:
    """Return how many of the other classes, the nearest first, matter to the label or its pull.

    256 random points at half of q are asked. Up to 30 classes all of them are drawn.
    """
    if n_classes <= 30:
        return n_classes
    cube = np.random.default_rng(SEED).random((n_classes, 256))
    nearer = replace(order, q=order.q / 2)
    points = _from_cube(own, channel, n_classes, order, cube)
    gaps = math.sqrt(nearer.q) * np.sort(points.gaps, 0)
    label = channel.label_law(gaps * nearer.slope, nearer.residual, n_classes)
    pulls = np.abs(own.at_gaps(gaps, order.V).others)
    largest = np.maximum(pulls, label.slopes).max(1)
    return max(2, int((largest > 1e-9).sum()))


class CentreLaw:
    """p(s | δ) ∝ φ(s) Φ((s − δ)/√2)^{k−2}: where the leading pair sits, given its gap.

    It is sampled as the law at δ = 0, shifted and scaled to the right mean and spread.
    """

    def __init__(self, n_classes: int) -> None:
        s = np.linspace(-9.0, 9.0, 721)
        gaps = np.linspace(-CUTOFF - 0.5, CUTOFF + 0.5, 240)
        log_p = -0.5 * s**2 + (n_classes - 2) * log_ndtr((s - gaps[:, None]) / SQRT_TWO)
        peak = log_p.max(1, keepdims=True)
        p = np.exp(log_p - peak)
        total = p.sum(1)
        mean = p @ s / total
        spread = np.sqrt(p @ s**2 / total - mean**2)
        pairs = n_classes * (n_classes - 1) / 2 * (s[1] - s[0]) / math.sqrt(2 * math.pi)
        self._log_envelope = CubicSpline(gaps, np.log(pairs * total) + peak[:, 0])
        self._mean = CubicSpline(gaps, mean)
        self._spread = CubicSpline(gaps, spread)
        at_no_gap = np.exp(-0.5 * s**2 + (n_classes - 2) * log_ndtr(s / SQRT_TWO))
        score = (s - self._mean(0.0)) / self._spread(0.0)
        cdf = _strictly_rising_cdf(at_no_gap, score, 1e-9)
        self._quantile = PchipInterpolator(cdf, score)
        self._quantile_slope = self._quantile.derivative()

    def sample(self, u: Array, delta: Array) -> tuple[Array, Array]:
        """Return s (n,) at u (n,) in (0, 1), and the density with which it was drawn."""
        spread = self._spread(delta)
        s = self._mean(delta) + spread * self._quantile(u)
        return s, 1 / (spread * self._quantile_slope(u))

    def envelope(self, delta: Array) -> Array:
        """Return κ(δ) = (k(k−1)/2) ∫ φ(s) Φ((s − δ)/√2)^{k−2} ds: pairs of classes per gap.

        It is 1 at k = 2.
        """
        return np.asarray(np.exp(self._log_envelope(delta)))


centre_law = lru_cache(maxsize=64)(CentreLaw)


def _strictly_rising_cdf(density: Array, x: Array, least_rise: float) -> Array:
    """Return the cdf (n,) of a density at x (n,), from 0 to 1, rising by a least share a step."""
    mass = np.cumsum((density[1:] + density[:-1]) / 2 * np.diff(x))
    cdf = np.concatenate([[0.0], mass]) + least_rise * np.arange(len(x)) * mass[-1]
    return np.asarray(cdf / cdf[-1])


class GapMap:
    """A monotone map from u in (0, 1) to δ, whose density mixes those of two-class integrands."""

    def __init__(
        self, student: Coordinates, channel: Channel, n_classes: int, order: ScalarOrder
    ) -> None:
        scales = rules.field_scales(channel, order, n_classes)
        sigma = scales.sigma
        low = max(scales.low / sigma, -6.0)
        finest = min(scales.width / sigma, 1 / math.sqrt(order.q + TINY), 1.0)
        self._scale = finest / 4
        lowest = math.asinh(low / self._scale)
        highest = math.asinh(CUTOFF / self._scale)
        v = np.linspace(lowest, highest, 300)
        delta = self._scale * np.sinh(v)
        gaps = sigma * delta[None]
        pull = student.at_gaps(gaps, order.V)
        slopes, wins = self._label(channel, gaps, order, n_classes)
        envelope = centre_law(n_classes).envelope(delta) * np.exp(-0.5 * delta**2)
        envelope *= np.gradient(delta)
        density = np.zeros_like(delta)
        for integrand in _two_class_integrands(student, pull, slopes, wins):
            shaped = integrand * envelope
            density += shaped / max(float(shaped.sum()), TINY)
        density /= density.sum()
        anywhere = envelope * (wins + slopes)
        density += 0.02 * anywhere / float(anywhere.sum())
        self._v = PchipInterpolator(_strictly_rising_cdf(density, np.arange(300.0), 1e-7), v)
        self._v_slope = self._v.derivative()

    @staticmethod
    def _label(
        channel: Channel, gaps: Array, order: ScalarOrder, n_classes: int
    ) -> tuple[Array, Array]:
        """Return |slopes| of Z in units of the largest, and Z, at gaps (1, n): (n,) each."""
        label = channel.label_law(gaps * order.slope, order.residual, n_classes)
        slopes = np.abs(label.slopes[0])  # Z falls with the gap where wide margins are dropped
        return slopes / max(float(slopes.max()), TINY), label.z

    def __call__(self, u: Array) -> tuple[Array, Array]:
        """Return δ and dδ/du at u, each (n,)."""
        v = self._v(u)
        return self._scale * np.sinh(v), self._scale * np.cosh(v) * self._v_slope(u)


def _two_class_integrands(
    student: Coordinates, pull: Pull, slopes: Array, wins: Array
) -> list[Array]:
    """Return what two classes would average at each gap, (n,) each, up to factors."""
    size = np.abs(pull.others[0])
    integrands = [wins * size**2, slopes * size, wins * np.abs(pull.trace), wins]
    if student.jumps:  # a loss, and mistakes, that most samples do not have
        integrands += [wins * pull.value, wins * (pull.margin < 0)]
    return integrands
