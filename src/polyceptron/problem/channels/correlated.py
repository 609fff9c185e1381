"""The chance of each label at fields of any covariance.

    Z_l = P(y = l | z ~ N(ω, C)),   C (r, r) on class differences

Two classes: the channel's own at the variance C. Three classes with Gaussian noise of variance Δ:
one bivariate orthant of C + Δ. Else C = cI + A with c its least eigenvalue, and the channel's own
chance at the variance c is averaged over shifts N(0, A): along a line for three classes, with more
nodes the longer it is, at quasi-random points above.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from polyceptron.checks import class_gaps, difference_basis
from polyceptron.numerics import Array
from polyceptron.numerics.bivariate import corner_cdf
from polyceptron.numerics.estimate import uniform_replicates
from polyceptron.numerics.orthant import hermite_rule
from polyceptron.problem.channels.channel import SHARP, Channel

_LOG2_POINTS = 12  # of the quasi-random shifts
_SEED = 20  # of the quasi-random shifts
_AT_ONCE = 200_000  # points
_SEEN = 7.2  # standard deviations beyond which a gap counts for less than 1e-12


class LabelChances(NamedTuple):
    """Z (n, k) and ∂Z_l/∂ω on class differences, (n, k, r)."""

    Z: Array
    slopes: Array


def label_chances(
    channel: Channel, omega: Array, C: Array, label: int | None = None, kind: str = "slopes"
) -> LabelChances:
    """Return Z_l and its slopes at ω (n, r) and C (r, r) on class differences.

    Parameters
    ----------
    label : int, optional
        The only label asked for; by default all r + 1 are.
    kind : 'slopes', 'plain' or 'tails'
        'slopes' are to absolute accuracy; 'plain' leaves out the slopes of three classes; 'tails'
        are to a relative accuracy, that of the channel's own chances.
    """
    r = omega.shape[1]
    labels: Sequence[int] = range(r + 1)
    if label is not None:
        labels = (label,)
    plain = r == 2 and kind == "plain"
    values, vectors = np.linalg.eigh(C)
    values = np.maximum(values, SHARP)
    least = float(values[0])
    isotropic = values[-1] - least <= 1e-14 * values[-1]
    if channel.utility_variance is not None and r == 2 and (plain or not isotropic):
        inner = _bivariate(omega, C + channel.utility_variance * np.eye(2), labels, plain)
        a = channel.guess(3)
        return LabelChances(a + (1 - 3 * a) * inner.Z, (1 - 3 * a) * inner.slopes)
    chances = _chances_at_one_variance(r, kind)
    if isotropic:
        return chances(channel, omega, least, labels)
    spread = vectors * np.sqrt(values - least)
    shifts = _shifts(spread, channel.width(least))
    return _averaged(shifts, omega, lambda fields: chances(channel, fields, least, labels))


ChancesAtOneVariance = Callable[[Channel, Array, float, Sequence[int]], LabelChances]


def _chances_at_one_variance(r: int, kind: str) -> ChancesAtOneVariance:
    """Return the function that gives chances and slopes at C = v·1 on r class differences."""
    if r == 2 and kind == "plain":
        return _plain
    if r < 3 and kind != "tails":
        return _by_gaps
    return _own


class _Shifts(NamedTuple):
    """Shifts (s, r) of the fields and their weights (s,), a rule for N(0, A)."""

    values: Array
    weights: Array


def _shifts(spread: Array, width: float) -> _Shifts:
    """Return a rule for N(0, A), A = spread·spreadᵀ (r, r), for chances that vary over `width`.

    The first column of `spread` is 0: for three classes the shifts lie on a line.
    """
    r = len(spread)
    if r == 2:
        direction = spread[:, -1]
        x, weights = _line(float(np.linalg.norm(direction)) / width)
        return _Shifts(x[:, None] * direction, weights)
    u = uniform_replicates(r, _LOG2_POINTS, _SEED, 1)[0]
    return _Shifts(ndtri(u) @ spread.T, np.full(len(u), 1 / len(u)))


def _averaged(
    shifts: _Shifts, omega: Array, chances: Callable[[Array], LabelChances]
) -> LabelChances:
    """Return the mean over shifts of the chances at ω + shift, in parts that fit in memory."""
    n, r = omega.shape
    parts = 1 + len(shifts.values) * n // _AT_ONCE
    means: LabelChances | None = None
    blocks = zip(
        np.array_split(shifts.values, parts), np.array_split(shifts.weights, parts), strict=True
    )
    for shift, weight in blocks:
        found = chances((omega[None] + shift[:, None]).reshape(-1, r))
        by_shift = found.Z.reshape(len(shift), n, *found.Z.shape[1:])
        slopes_by_shift = found.slopes.reshape(len(shift), n, *found.slopes.shape[1:])
        Z = np.einsum("s,snl->nl", weight, by_shift)
        slopes = np.einsum("s,snlr->nlr", weight, slopes_by_shift)
        if means is not None:
            Z = means.Z + Z
            slopes = means.slopes + slopes
        means = LabelChances(Z, slopes)
    assert means is not None
    return means


def _line(wide: float) -> tuple[Array, Array]:
    """Return nodes and weights of N(0, 1) for a function that changes over 1/wide.

    They are those of Gauss–Hermite where few serve, else even steps.
    """
    if wide < 0.85:
        x, log_weight = hermite_rule(3 + math.ceil(wide * (8 + 13 * wide)))
        return x, np.exp(log_weight)
    x = np.linspace(-8.5, 8.5, math.ceil(19 * math.hypot(1, wide)))
    weight = np.exp(-0.5 * x * x)
    return x, weight / weight.sum()


def _by_gaps(
    channel: Channel, omega: Array, variance: float, labels: Sequence[int]
) -> LabelChances:
    """Return chances and slopes of two or three classes from gaps, the smallest first."""
    r = omega.shape[1]
    Z = np.empty((len(omega), len(labels)))
    slopes = np.empty((len(omega), len(labels), r))
    for i, l in enumerate(labels):
        A = class_gaps(r + 1, l)
        gaps = A @ omega.T
        found = channel.label_law(np.sort(gaps, 0), variance)
        turned = np.where(gaps[0] > gaps[-1], found.slopes[::-1], found.slopes)
        Z[:, i] = found.z
        slopes[:, i] = turned.T @ A
    return LabelChances(Z, slopes)


def _plain(channel: Channel, omega: Array, variance: float, labels: Sequence[int]) -> LabelChances:
    """Return chances of three classes, with an empty array (n, labels, 0) for the slopes."""
    Z = channel.chances(omega @ difference_basis(3).T, variance)[:, labels]
    return LabelChances(Z, np.zeros((*Z.shape, 0)))


def _own(channel: Channel, omega: Array, variance: float, labels: Sequence[int]) -> LabelChances:
    """Return the channel's own chances at independent fields of one variance, and slopes."""
    T = difference_basis(omega.shape[1] + 1)
    fields = omega @ T.T
    posteriors = [channel.posterior(fields, l, variance) for l in labels]
    Z = np.stack([np.exp(posterior.log_z) for posterior in posteriors], -1)
    scores = np.stack([posterior.score for posterior in posteriors], 1) @ T
    return LabelChances(Z, scores * Z[:, :, None])  # ∂Z = Z ∂ln Z


def _bivariate(omega: Array, C: Array, labels: Sequence[int], plain: bool) -> LabelChances:
    """Return P(both gaps of class l are positive) for three Gaussian utilities, to 1e-12.

    Where `plain`, the array of slopes is empty, (n, labels, 0).
    """
    T = difference_basis(3)
    size = (len(omega), len(labels))
    Z = np.empty(size)
    slopes = np.empty((*size, 0 if plain else 2))
    for i, l in enumerate(labels):
        to_gaps = np.stack([T[l] - T[h] for h in range(3) if h != l])  # (2, r)
        cov = to_gaps @ C @ to_gaps.T
        s = np.sqrt(np.diag(cov))
        rho = float(np.clip(cov[0, 1] / (s[0] * s[1]), -1 + 1e-15, 1 - 1e-15))
        a, b = (omega @ to_gaps.T / s).T
        centre = 1e-300 * ((a == 0) & (b == 0))  # where the angle alone counts, and 0/0 has none
        a = a + centre
        b = b + centre
        sigma = math.sqrt(1 - rho**2)
        c = (b - rho * a) / sigma
        d = (a - rho * b) / sigma
        least = np.minimum(a, b)
        Z[:, i] = ndtr(least)
        near = np.flatnonzero((least > -_SEEN) & (np.maximum(a, b) < _SEEN))  # the corner
        Z[near, i] = np.maximum(corner_cdf(a[near], b[near], c[near], d[near]), 0.0)
        if not plain:
            density = np.exp(-0.5 * np.stack([a, b], -1) ** 2) / math.sqrt(2 * math.pi)
            slopes[:, i] = (density * ndtr(np.stack([c, d], -1)) / s) @ to_gaps  # ∂Z, by each gap
    return LabelChances(Z, slopes)


def biases_for(channel: Channel, R: Array, shares: Array) -> Array | None:
    """Return b* (k,) of mean 0 with P(y = l | z ~ N(b*, R)) = shares; None if there is none."""
    from scipy.optimize import least_squares

    T = difference_basis(len(shares))
    C = T.T @ R @ T

    def log_ratio(b: Array) -> tuple[Array, Array]:
        """Return ln(P/shares) (k,), as shares may be small, and its slopes (k, k−1)."""
        found = label_chances(channel, b[None], C, kind="tails")
        P = np.maximum(found.Z[0], 1e-300)
        return np.log(P / shares), found.slopes[0] / P[:, None]

    def value(b: Array) -> Array:
        """Return the logarithms (k,)."""
        return log_ratio(b)[0]

    def slope(b: Array) -> Array:
        """Return their slopes (k, k−1)."""
        return log_ratio(b)[1]

    start = T.T @ np.log(shares)
    b = least_squares(
        value,
        start,
        slope,
        xtol=1e-15,
        ftol=1e-15,
        gtol=1e-15,
    ).x
    missed = float(np.abs(np.expm1(value(b)) * shares).max())
    if not missed < 1e-7:
        return None
    return T @ b
