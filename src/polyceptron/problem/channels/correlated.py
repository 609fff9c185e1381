"""The chance of each label at fields of any covariance.

    Z_l = P(y = l | z ~ N(ω, C)),   C (r, r) on class differences

Two classes: the channel's own at the variance C. Three classes with Gaussian noise of variance Δ:
one bivariate orthant of C + Δ. Else C = cI + A with c its least eigenvalue, and the channel's own
chance at the variance c is averaged over shifts N(0, A): along a line for three classes, with more
nodes the longer it is, at quasi-random points above.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from polyceptron.checks import class_gaps, difference_basis
from polyceptron.numerics import Array
from polyceptron.numerics.bivariate import corner_cdf
from polyceptron.numerics.estimate import uniform_replicates
from polyceptron.numerics.orthant import hermite_rule
from polyceptron.problem.channels.channel import SHARP, Channel

_POINTS, _SEED = 12, 20  # log2 of their number
_AT_ONCE = 200_000  # points
_SEEN = 7.2  # standard deviations beyond which a gap counts for less than 1e-12


class LabelChances(NamedTuple):
    """Z (n, k) and ∂Z_l/∂ω on class differences, (n, k, r)."""

    Z: Array
    slopes: Array


def label_chances(
    channel: Channel, omega: Array, C: Array, label: int | None = None, kind: str = "slopes"
) -> LabelChances:
    """Z_l and its slopes at ω (n, r) on class differences and C (r, r); of a `label` alone.

    To absolute accuracy, `plain` of three classes without slopes; in `tails` to a relative one of
    the channel's own chances.
    """
    n, r = omega.shape
    labels, plain = range(r + 1) if label is None else (label,), r == 2 and kind == "plain"
    chances = _plain if plain else _by_gaps if r < 3 and kind != "tails" else _own
    values, vectors = np.linalg.eigh(C)
    values = np.maximum(values, SHARP)
    isotropic = values[-1] - values[0] <= 1e-14 * values[-1]
    if channel.utility_variance is not None and r == 2 and (plain or not isotropic):
        inner = _bivariate(omega, C + channel.utility_variance * np.eye(2), labels, plain)
        a = channel.guess(3)
        return LabelChances(a + (1 - 3 * a) * inner.Z, (1 - 3 * a) * inner.slopes)
    if isotropic:
        return chances(channel, omega, float(values[0]), labels)
    spread = vectors * np.sqrt(values - values[0])
    if r == 2:
        wide = float(np.linalg.norm(spread[:, -1])) / channel.width(float(values[0]))
        x, weights = _line(wide)
        shifts = x[:, None] * spread[:, -1]
    else:
        u = uniform_replicates(r, _POINTS, _SEED, 1)[0]
        shifts, weights = ndtri(u) @ spread.T, np.full(len(u), 1 / len(u))
    Z, dZ = np.zeros((n, len(labels))), np.zeros((n, len(labels), 0 if plain else r))
    parts = 1 + len(shifts) * n // _AT_ONCE
    blocks = np.array_split(shifts, parts), np.array_split(weights, parts)
    for shift, weight in zip(*blocks, strict=True):
        at = (omega[None] + shift[:, None]).reshape(-1, r)
        found = chances(channel, at, float(values[0]), labels)
        Z += np.einsum("s,snl->nl", weight, found.Z.reshape(len(shift), n, len(labels)))
        dZ += np.einsum("s,snlr->nlr", weight, found.slopes.reshape(len(shift), *dZ.shape))
    return LabelChances(Z, dZ)


def _line(wide: float) -> tuple[Array, Array]:
    """Nodes and weights of N(0, 1) for what changes over 1/wide: Gauss–Hermite, or even steps."""
    if wide < 0.85:
        x, log_weight = hermite_rule(3 + math.ceil(wide * (8 + 13 * wide)))
        return x, np.exp(log_weight)
    x = np.linspace(-8.5, 8.5, math.ceil(19 * math.hypot(1, wide)))
    weight = np.exp(-0.5 * x * x)
    return x, weight / weight.sum()


def _by_gaps(
    channel: Channel, omega: Array, variance: float, labels: Sequence[int]
) -> LabelChances:
    """The same of two and three classes, from gaps, the smallest first."""
    r = omega.shape[1]
    Z, slopes = np.empty((len(omega), len(labels))), np.empty((len(omega), len(labels), r))
    for i, l in enumerate(labels):
        A = class_gaps(r + 1, l)
        gaps = A @ omega.T
        found = channel.label_law(np.sort(gaps, 0), variance)
        turned = np.where(gaps[0] > gaps[-1], found.slopes[::-1], found.slopes)
        Z[:, i], slopes[:, i] = found.z, turned.T @ A
    return LabelChances(Z, slopes)


def _plain(channel: Channel, omega: Array, variance: float, labels: Sequence[int]) -> LabelChances:
    """The same of three classes without slopes."""
    Z = channel.chances(omega @ difference_basis(3).T, variance)[:, labels]
    return LabelChances(Z, np.zeros((*Z.shape, 0)))


def _own(channel: Channel, omega: Array, variance: float, labels: Sequence[int]) -> LabelChances:
    """The channel's own chances at independent fields of one variance."""
    T = difference_basis(omega.shape[1] + 1)
    fields = omega @ T.T
    found = [channel.posterior(fields, l, variance) for l in labels]
    Z = np.stack([np.exp(each.log_z) for each in found], -1)
    return LabelChances(Z, np.stack([each.score for each in found], 1) @ T * Z[:, :, None])


def _bivariate(omega: Array, C: Array, labels: Sequence[int], plain: bool) -> LabelChances:
    """Gaussian utilities of three classes: P(both gaps of class l are positive), to 1e-12."""
    T, size = difference_basis(3), (len(omega), len(labels))
    Z, slopes = np.empty(size), np.empty((*size, 0 if plain else 2))
    for i, l in enumerate(labels):
        ways = np.stack([T[l] - T[h] for h in range(3) if h != l])  # (2, r)
        cov = ways @ C @ ways.T
        s = np.sqrt(np.diag(cov))
        rho = float(np.clip(cov[0, 1] / (s[0] * s[1]), -1 + 1e-15, 1 - 1e-15))
        a, b = (omega @ ways.T / s).T
        centre = 1e-300 * ((a == 0) & (b == 0))  # where the angle alone counts, and 0/0 has none
        a, b = a + centre, b + centre
        sigma = math.sqrt(1 - rho**2)
        c, d = (b - rho * a) / sigma, (a - rho * b) / sigma
        least = np.minimum(a, b)
        Z[:, i] = ndtr(least)
        near = np.flatnonzero((least > -_SEEN) & (np.maximum(a, b) < _SEEN))  # the corner
        Z[near, i] = np.maximum(corner_cdf(a[near], b[near], c[near], d[near]), 0.0)
        if not plain:
            density = np.exp(-0.5 * np.stack([a, b], -1) ** 2) / math.sqrt(2 * math.pi)
            slopes[:, i] = (density * ndtr(np.stack([c, d], -1)) / s) @ ways  # ∂Z, by each gap
    return LabelChances(Z, slopes)


def biases_for(channel: Channel, R: Array, shares: Array) -> Array | None:
    """b* (k,) of mean 0 with P(y = l | z ~ N(b*, R)) = shares; None where there is none."""
    from scipy.optimize import least_squares

    T = difference_basis(len(shares))
    C = T.T @ R @ T

    def off(b: Array) -> tuple[Array, Array]:
        """ln(P/shares), as shares may be small, and its slopes."""
        found = label_chances(channel, b[None], C, kind="tails")
        P = np.maximum(found.Z[0], 1e-300)
        return np.log(P / shares), found.slopes[0] / P[:, None]

    start, value, slope = T.T @ np.log(shares), lambda b: off(b)[0], lambda b: off(b)[1]
    b = least_squares(value, start, slope, xtol=1e-15, ftol=1e-15, gtol=1e-15).x
    return T @ b if np.abs(np.expm1(off(b)[0]) * shares).max() < 1e-7 else None
