"""Four classes or more: randomised quasi-Monte Carlo on coordinates that sit on the boundary.

Student fields in units of √q: the label and the best other class are x₁,₂ = (s ± δ)/√2, the
further ones normals below x₂ by inverse cdf. The gap δ is drawn through a monotone map that puts
points where the two-class integrands live, and s given δ from nearly its exact law, so the weights
are flat. Everything is smooth in (τ, q, V) at fixed points: a fixed point can be solved for with
the points held still (where −tr ∂f jumps, C comes from M and D).
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import numpy as np
from scipy.interpolate import CubicSpline, PchipInterpolator
from scipy.special import log_ndtr, ndtri_exp

from polyceptron.numerics import Array
from polyceptron.numerics.estimate import N_REPLICATES, uniform_replicates
from polyceptron.numerics.panels import CUTOFF
from polyceptron.problem.channels import Channel
from polyceptron.problem.losses.coordinates import Coordinates
from polyceptron.problem.order import ScalarOrder
from polyceptron.sides.fields import integrand as rules

SEED = 20_090
_SQRT2 = math.sqrt(2)
_CHUNK = 200_000  # classes × points evaluated at once: what a cache holds
_MANY = 30  # classes, beyond which some may be left out
_TRIED, _UNSEEN = 256, 1e-9  # points, and pull or slope of a class, at half of q


class Points(rules.FieldsRule):
    """Four classes or more, any student."""

    log2_points = (8, 10, 11, 12, 13, 14, 15, 16)  # per replicate, by level
    n_levels = len(log2_points)
    sampled = True

    def place(
        self,
        student: rules.FieldsStudent,
        channel: Channel,
        n_classes: int,
        law: ScalarOrder,
        level: int,
    ) -> rules.Averaging:
        k, own = n_classes, student.coordinates
        near = _felt(own, channel, k, law) if k > _MANY else k
        below, weight, _ = boundary_points(own, channel, k, law, level, near)
        weight *= N_REPLICATES  # each replicate is an average of its own
        pieces = next(p for p in (1, 2, 4, 8, N_REPLICATES) if below.size <= p * _CHUNK or p > 8)
        size = len(weight) // pieces

        def averages(law: ScalarOrder) -> rules.Averages:
            parts = []
            for start in range(0, len(weight), size):
                part = slice(start, start + size)
                gaps = math.sqrt(law.q) * below[:, part]
                parts.append(
                    rules.average(
                        channel,
                        law,
                        gaps,
                        weight[part],
                        own.at_gaps(gaps, law.V),
                        n_classes=k,
                        n_replicates=N_REPLICATES // pieces,
                    )
                )
            found = rules.Averages(*map(np.concatenate, zip(*parts, strict=True)))
            if not own.jumps:
                return found
            by_parts = law.slope * found.M - (found.D_plus - found.D_minus)
            return found._replace(C=np.maximum(by_parts, 0.0))

        return averages


def boundary_points(
    student: Coordinates,
    channel: Channel,
    k: int,
    law: ScalarOrder,
    level: int,
    near: int | None = None,
) -> tuple[Array, Array, Array]:
    """Gaps x₁ − x_h (k−1, n) in units of √q, weights (n,) and x₁ (n,), n = replicates × points.

    Of `near` ≤ k/2 classes only the smallest gaps (near, n), in order.
    """
    log2_points = Points.log2_points[level]
    seed = SEED + 1000 * level + k  # levels and numbers of classes err independently
    c = k - 1 if near is None or near > k // 2 else near
    cube = uniform_replicates(c + 1, log2_points, seed, N_REPLICATES).reshape(-1, c + 1).T
    return _in_cube(student, channel, k, law, cube)


def _in_cube(
    student: Coordinates, channel: Channel, k: int, law: ScalarOrder, cube: Array
) -> tuple[Array, Array, Array]:
    """Of points (c + 1, n) of the unit cube, c = k − 1 or the number of classes that are near."""
    centre = centre_law(k)
    delta, stretch = _gap_map(student, channel, k, law)(cube[0])
    s, density = centre.sample(cube[1], delta)
    first, best = (s + delta) / _SQRT2, (s - delta) / _SQRT2
    room = log_ndtr(best)
    if len(cube) == k:
        below_next = room + np.log(cube[2]) / (k - 2)
        below = np.concatenate([below_next[None], np.log(cube[3:]) + below_next])
    else:  # the largest of those that are left, again and again
        left = np.arange(k - 2, k - len(cube), -1)
        below = room + np.cumsum(np.log(cube[2:]) / left[:, None], 0)
    log_weight = -0.5 * (s**2 + delta**2) + (k - 2) * room
    weight = k * (k - 1) / (2 * math.pi * cube.shape[1]) * stretch / density * np.exp(log_weight)
    return np.concatenate([_SQRT2 * delta[None], first - ndtri_exp(below)]), weight, first


def _felt(own: Coordinates, channel: Channel, k: int, law: ScalarOrder) -> int:
    """How many of the other classes, the nearest first, count for the label or its pull."""
    cube = np.random.default_rng(SEED).random((k, _TRIED))
    near = replace(law, q=law.q / 2)
    gaps = math.sqrt(near.q) * np.sort(_in_cube(own, channel, k, law, cube)[0], 0)
    label = channel.label_law(gaps * near.slope, near.residual, k)
    felt = np.maximum(np.abs(own.at_gaps(gaps, law.V).others), label.slopes).max(1)
    return max(2, int((felt > _UNSEEN).sum()))


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
        return self._mean(delta) + spread * self._quantile(u), 1 / (spread * self._slope(u))

    def envelope(self, delta: Array) -> Array:
        """κ(δ) = (k(k−1)/2) ∫ φ(s) Φ((s − δ)/√2)^{k−2} ds: pairs of classes per gap, 1 at k = 2."""
        return np.asarray(np.exp(self._log_norm(delta)))


centre_law = lru_cache(maxsize=64)(CentreLaw)


def _gap_map(
    student: Coordinates, channel: Channel, k: int, law: ScalarOrder
) -> Callable[[Array], tuple[Array, Array]]:
    """u in (0, 1) → (δ, dδ/du): a mixture of the densities of the two-class integrands."""
    sigma, width, low = rules.field_scales(channel, law, k)
    low, high = max(low / sigma, -6.0), CUTOFF
    scale = min(width / sigma, 1 / math.sqrt(law.q + 1e-300), 1.0) / 4
    fine = np.linspace(math.asinh(low / scale), math.asinh(high / scale), 300)
    delta = scale * np.sinh(fine)
    gaps = sigma * delta[None]
    pull = student.at_gaps(gaps, law.V)
    label = channel.label_law(gaps * law.slope, law.residual, k)
    wins, near, size = label.z, label.slopes[0], np.abs(pull.others[0])
    near = near / max(float(near.max()), 1e-300)
    envelope = centre_law(k).envelope(delta) * np.exp(-0.5 * delta**2) * np.gradient(delta)
    density = np.zeros_like(delta)
    # A loss, and mistakes, that most samples do not have.
    rare = (wins * pull.value, wins * (pull.margin < 0)) if student.jumps else ()
    for part in (wins * size**2, near * size, wins * np.abs(pull.trace), wins, *rare):
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
