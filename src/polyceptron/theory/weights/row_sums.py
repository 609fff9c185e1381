"""What a row leaves unknown: classes seen through noise, up to a common shift.

One class is y = √q̂ w + ξ, and the prior's tilted law gives its density and the posterior of w,

    ln f(y) = ln g(√q̂ y, q̂) − y²/2 − ln √2π,     μ(y), var(y)  at b = √q̂ y, Λ = q̂.

Not seeing the common part of a row is seeing all y_h up to a shift c. Given c the classes are
independent, so with E_c the posterior average over c, of weight ∏_h f(y_h − c),

    tr Cov u = E_c[(1 − 1/k) Σ_h var_h] + E_c‖P(μ̃ − E_c μ̃)‖²,       μ̃ = μ − √q̂ y/(1 + q̂),

two terms that are not negative (a part of μ linear in y cancels in differences of classes, and
would hide the rest when q̂ is large); v is its mean over the fields, divided by r. Averaged over
fields and shift y − c is a class's own field, so that the first term is r times what one class
leaves unknown where nothing hides it, one integral.

k ≤ 3, on a lattice: f, fμ̃ and f(μ̃² + var) are tabulated once on equal steps, and the sums over c
for all differences of y at once are products A diag(f) Aᵀ with A_{yc} = f(y − c). Everything is
entire in y and c: the trapezoidal rule converges faster than any power.

k ≤ 3 at large q̂, on panels of the gaps: sorted, the fields are 0, g₁ (and g₁ + g₂), k! orderings
alike. They have features of width 1 where gaps are small (a prior's spike, kink or edge) and of √q̂
elsewhere: g = λ sinh t on panels of t. The weight of c is split by a smooth partition of unity into
one part around each class, c = y_i + λ sinh t on equal steps of t.

k ≥ 4: fields sampled from their own law by inverse CDF, one quasi-random coordinate a class, except
one class, which is drawn from where the shift hides much; the shift as above around a few of the
classes, its nodes with an offset of their own in each replicate, so that their error is seen.

Finite priors, one or two class differences: y = γ/√q̂ has the density Σ_c p_c N(y; √q̂ u_c) over the
points u_c that a row can take, and on a grid of y

    v = (1/r) ∫ dy [ Σ_c w_c(y)‖u_c‖² − ‖Σ_c w_c(y) u_c‖²/Σ_c w_c(y) ],    w_c = p_c N(y; √q̂ u_c).

Three and more: by symmetry v is the variance of u_1 = w_1 − w̄ (times k/r). The other classes are
sampled as above and give weights on a grid of c; its sums, for all y_1, are matrix products.
"""

from __future__ import annotations

import math
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from polyceptron.model import AnyTeacher
from polyceptron.model.checks import difference_basis
from polyceptron.model.priors import Prior
from polyceptron.model.priors.prior import reduced_support
from polyceptron.numerics import Array
from polyceptron.numerics.estimate import N_REPLICATES, uniform_replicates
from polyceptron.numerics.panels import panel_rule
from polyceptron.numerics.special import EvenPieces

_RARE, _SKEWED = 30.0, 3.0  # κ₄ from which replicates are skewed, and what their bars take then
_NOISE = 8.5  # |ξ| is larger with probability 1e-17
_STEP = 0.005  # of the tables in t: cubic pieces are then good to 1e-9
_LOG_ROOT = 0.5 * math.log(2 * math.pi)


def scalar_posterior(prior: Prior, q_hat: float, y: NDArray[Any]) -> tuple[Array, Array, Array]:
    """ln f(y), μ̃(y) and var(y) from the prior itself."""
    s = math.sqrt(q_hat)
    tilted = prior.tilted(s * y, q_hat)
    log_f = tilted.log_g - 0.5 * y**2 - _LOG_ROOT
    return log_f, tilted.mean - s / (1 + q_hat) * y, tilted.variance


def reach(prior: Prior, q_hat: float) -> float:
    """|y| beyond which f is never met."""
    return math.sqrt(q_hat) * prior.extent + _NOISE


class FieldTable:
    """ln f, μ̃ and var as cubic pieces in t = asinh y, for many evaluations at one q̂.

    A prior's spike, kink or edge has width 1 in y, everything else √q̂: with y measured from there
    (a shift of all weights changes nothing) equal steps in t serve both.
    """

    def __init__(self, prior: Prior, q_hat: float) -> None:
        origin = math.sqrt(q_hat) * prior.origin
        self.reach = reach(prior, q_hat) + abs(origin)
        n = math.ceil(math.asinh(3 * self.reach) / _STEP)
        self.t = np.arange(-n, n + 1, dtype=float) * _STEP
        values = np.stack(scalar_posterior(prior, q_hat, origin + np.sinh(self.t)), -1)
        self.values = values
        self.pieces = EvenPieces(self.t, values, 3)
        self.mass = np.exp(values[:, 0]) * np.cosh(self.t)  # density of t
        self.typical = float(self.mass @ values[:, 2]) * _STEP
        self.spread = float(self.mass @ (values[:, 2] - self.typical) ** 2) * _STEP
        mirrored = values[::-1] * [1, -1, 1]
        self.even = bool(np.allclose(values, mirrored, rtol=1e-9, atol=1e-12))

    def __call__(self, y: Array) -> tuple[Array, Array, Array]:
        """ln f, μ̃ and var at y of any shape within three times the reach."""
        return tuple(self.pieces(np.arcsinh(y)))  # type: ignore[return-value]

    def telling(self, variance: Array) -> Array:
        """r at var(y), E r = 1: large where the slope μ′ = √q̂ var is not that of other classes."""
        apart = (variance - self.typical) ** 2
        return 0.5 + 0.5 * apart / self.spread if self.spread > 0 else 1 + 0 * apart

    def quantile(self, uniform: Any, *, telling: bool = False) -> Array:
        """y at the given shares of f, or of rf: random numbers stay fixed while q̂ moves."""
        from scipy.interpolate import CubicSpline, PchipInterpolator

        mass = self.mass * self.telling(self.values[:, 2]) if telling else self.mass
        below = CubicSpline(self.t, mass).antiderivative()(self.t)
        total = below[-1]
        middle = int(np.searchsorted(below, 0.5 * total))
        low = below[:middle] / total
        above = CubicSpline(self.t, mass[::-1]).antiderivative()(self.t)[::-1][middle:] / total
        seen_low, seen_high = low > 1e-15, above > 1e-15
        # In normal quantiles both tails are smooth and keep their digits.
        z = np.concatenate([ndtri(low[seen_low]), -ndtri(above[seen_high])])
        t = np.concatenate([self.t[:middle][seen_low], self.t[middle:][seen_high]])
        rising = np.concatenate([[True], np.diff(np.maximum.accumulate(z)) > 1e-12])
        z, t = z[rising], t[rising]
        found: Array = np.sinh(PchipInterpolator(z, t)(np.clip(ndtri(uniform), z[0], z[-1])))
        return found


SCALE = 1.5  # λ: about the width of a class's own feature
_MANY = 12  # classes above which the shift is known so well that its origin is enough
_APART = 1.5  # λ: nodes of centres that are closer serve both
_UNLIKELY = 18.0  # logarithm of what is left out around a class
_CHUNK = 400_000  # table look-ups at once
_SHIFT_STEP = 0.25  # of t, where fields are sampled


def shift_nodes(
    table: FieldTable, step: float, offset: float = 0.0, scale: float = SCALE
) -> tuple[Array, Array]:
    """λ sinh t on equal steps of t, as far as two fields can be apart, and the weights."""
    last = math.ceil(math.asinh(2 * table.reach / scale) / step)
    t = (np.arange(-last, last + 1) + offset) * step
    z = np.clip(scale * np.sinh(t), -2 * table.reach, 2 * table.reach)
    return z, scale * np.cosh(t) * step


def closeness(distance: Array, scale: float = SCALE) -> Array:
    """The partition of unity before it is normalised: 1/(x² + 2λ²)²."""
    return 1 / (distance**2 + 2 * scale**2) ** 2


def shift_centres(table: FieldTable, y: Array, scale: float) -> tuple[Array, NDArray[np.bool_]]:
    """Where the shift of fields y (n, k) can be: candidates (n, m), and which of them are needed.

    The fields' own origin and, up to twelve classes, each class; of close ones the likeliest.
    """
    n, k = y.shape
    centres = np.zeros((n, 1)) if k > _MANY else np.hstack([np.zeros((n, 1)), y])
    likely = table(y[:, None, :] - centres[..., None])[0].sum(-1)
    likely[likely < likely.max(1, keepdims=True) - _UNLIKELY] = -np.inf
    used = np.zeros(centres.shape, dtype=bool)
    while (going := np.flatnonzero(np.isfinite(likely).any(1))).size:
        best = likely[going].argmax(1)
        used[going, best] = True
        apart = np.abs(centres[going] - centres[going, best][:, None])
        likely[going] = np.where(apart > _APART * scale, likely[going], -np.inf)
    return centres, used


def shift_moments(
    table: FieldTable, y: Array, step: float, offset: float = 0.0
) -> tuple[Array, Array, Array]:
    """ln of the density (n,) of the differences of fields y (n, k), both terms of tr Cov u (n,)."""
    n, k = y.shape
    scale = SCALE * min(1.0, 2 / math.sqrt(k))  # k classes know the shift to 1/√k
    z, weight = shift_nodes(table, step, offset, scale)
    log_weight = np.log(weight)
    centres, used = shift_centres(table, y, scale)
    sample, centre = np.nonzero(used)
    top = np.full(len(sample), -np.inf)
    sums = np.empty((len(sample), k + 3))  # of 1, the inner variance, ‖Pμ̃‖² and μ̃
    chunk = max(1, _CHUNK // (z.size * k))
    for start in range(0, len(sample), chunk):
        part = slice(start, start + chunk)
        row, own = sample[part], centre[part]
        shift = centres[row, own][:, None] + z  # (pairs, nodes)
        log_f, mean, var = table(y[row, None, :] - shift[..., None])
        near = closeness(centres[row, None, :] - shift[..., None], scale) * used[row, None, :]
        near = near[np.arange(len(row)), :, own] / near.sum(-1)
        log_w = log_f.sum(-1) + log_weight + np.log(near)
        top[part] = log_w.max(-1)
        w = np.exp(log_w - top[part, None])
        spread = (mean**2).sum(-1) - mean.sum(-1) ** 2 / k
        sums[part, 0] = w.sum(-1)
        sums[part, 1] = (1 - 1 / k) * (w * var.sum(-1)).sum(-1)
        sums[part, 2] = (w * spread).sum(-1)
        sums[part, 3:] = np.matmul(w[:, None, :], mean)[:, 0]
    first = np.searchsorted(sample, np.arange(n))
    best = np.maximum.reduceat(top, first)
    sums = np.add.reduceat(sums * np.exp(top - best[sample])[:, None], first)
    total, inner, square, means = sums[:, 0], sums[:, 1], sums[:, 2], sums[:, 3:] / sums[:, :1]
    hidden = square / total - (means**2).sum(1) + means.sum(1) ** 2 / k
    return np.log(total) + best, inner / total, np.maximum(hidden, 0.0)


_PANEL = 1.5


def hidden_variance(
    table: FieldTable, n_classes: int, order: int, step: float
) -> tuple[float, float]:
    """What the shift hides of v at k = 2 or 3, `order` nodes a panel; the probability less 1."""
    end = math.asinh(2 * table.reach / SCALE)
    t, weight = panel_rule(np.linspace(0.0, end, math.ceil(end / _PANEL) + 1), order)
    g, weight = SCALE * np.sinh(t), SCALE * np.cosh(t) * weight
    if n_classes == 2:
        log_density, _, hidden = shift_moments(table, np.stack([0 * g, g], -1), step)
        chance = 2 * weight * np.exp(log_density)
        return float(chance @ hidden), float(chance.sum()) - 1
    z, z_weight = shift_nodes(table, step)
    own = table(-z)
    up, down = table(g[:, None] - z), table(-g[:, None] - z)
    variance, mass = 0.0, -1.0
    for n in range(g.size):
        seen = g[n] + g < 2 * table.reach
        if table.even:  # the mirror image of a pair of gaps is alike
            seen[:n] = False
        sums = g[n] + g[seen, None]
        far_up, far_down = table(sums - z), table(-sums - z)
        g1, g2 = g[n], g[seen, None]
        # Around each class in turn: (ln f, μ̃, var) of the three, and how far each is.
        around = (
            (own, tuple(a[n] for a in up), far_up, (-z, g1 - z, sums - z)),
            (tuple(a[n] for a in down), own, tuple(a[seen] for a in up), (-g1 - z, -z, g2 - z)),
            (far_down, tuple(a[seen] for a in down), own, (-sums - z, -g2 - z, -z)),
        )
        P, first, second = 0.0, [0.0, 0.0, 0.0], 0.0
        for i, (*parts, away) in enumerate(around):
            near = [closeness(x) for x in away]
            w = np.exp(parts[0][0] + parts[1][0] + parts[2][0]) * (near[i] / sum(near) * z_weight)
            a, b, c = (part[1] for part in parts)
            spread = (2 * (a * a + b * b + c * c) - 2 * (a * b + b * c + a * c)) / 3
            P = P + w.sum(-1)
            first = [x + (w * mean).sum(-1) for x, mean in zip(first, (a, b, c), strict=True)]
            second = second + (w * spread).sum(-1)
        squared = sum((x - y) ** 2 for x, y in permutations(first, 2)) / 6  # ‖P first‖²
        node = 6 * weight[n] * weight[seen]
        if table.even:
            node[1:] *= 2
        variance += float(node @ np.maximum(second - squared / np.maximum(P, 1e-290), 0.0))
        mass += float(node @ P)
    return variance / 2, mass


def lattice(prior: Prior, q_hat: float) -> tuple[float, int]:
    """Its step, and its points on each side of 0.

    Where a finite prior switches between values δ apart √q̂ δ step = 0.6 leaves 1e-14.
    """
    apart = 0.0 if prior.support is None else float(np.diff(prior.support[0]).max())
    step = min(0.35, 0.6 / (math.sqrt(q_hat) * apart + 1e-300))
    return step, math.ceil(reach(prior, q_hat) / step)


def lattice_variance(prior: Prior, n_classes: int, q_hat: float) -> float:
    """v at q̂ for k = 2 or 3 and any prior."""
    step, n = lattice(prior, q_hat)
    place = np.arange(-n, n + 1)
    y = place * step
    log_f, mean, variance = scalar_posterior(prior, q_hat, y)
    f = np.exp(log_f) * step
    first_f, second_f = f * mean, f * (mean**2 + variance)
    if n_classes == 2:
        P, cross, square = (np.correlate(t, f, "full") for t in (f, first_f, second_f))
        first = cross - cross[::-1]
        second = square + square[::-1] - 2 * np.correlate(first_f, first_f, "full")
    else:
        # Row d, column c: the table at y = d − c; outside the lattice f is nothing.
        index = np.arange(-2 * n, 2 * n + 1)[:, None] - place
        inside = np.abs(index) <= n
        index = np.where(inside, index + n, 0)
        F, G, H = (np.where(inside, t[index], 0.0) for t in (f, first_f, second_f))
        here = f[::-1]  # the last class, at y = 0 − c
        right = (F * here).T
        P, cross, square = F @ right, G @ right, H @ right
        first = cross - cross.T
        second = square + square.T - 2 * (G @ (G * here).T)
    share = first**2 / np.maximum(P, 1e-290)
    return 0.5 * float(np.maximum(second - share, 0.0).sum())


# Lattice points on each side of 0 up to which it is quick (a tenth of a second); else nodes of a
# panel of the gaps and the step along the shift, and two coarser rules that tell what they leave.
_LARGEST_LATTICE = {2: 700, 3: 230}
_GAP_RULES = {2: ((24, 0.06), (20, 0.075), (18, 0.09)), 3: ((14, 0.14), (12, 0.17), (10, 0.2))}


def few_shift_variance(prior: Prior, k: int, q_hat: float) -> float:
    """v at q̂ for k = 2 or 3: the lattice, or where it is too large the gaps."""
    if lattice(prior, q_hat)[1] <= _LARGEST_LATTICE[k]:
        return lattice_variance(prior, k, q_hat)
    hidden = hidden_variance(FieldTable(prior, q_hat), k, *_GAP_RULES[k][0])[0]
    return single_variance(prior, q_hat) + hidden


def few_shift_error(prior: Prior, k: int, q_hat: float) -> float:
    """The relative error that this leaves: what two coarser rules change, and the mass."""
    if lattice(prior, q_hat)[1] <= _LARGEST_LATTICE[k]:
        return 0.0
    table = FieldTable(prior, q_hat)
    found, missing = zip(*(hidden_variance(table, k, *rule) for rule in _GAP_RULES[k]), strict=True)
    apart = sum(abs(found[0] - coarse) for coarse in found[1:])  # one may agree by accident
    return apart / (single_variance(prior, q_hat) + found[0]) + abs(missing[0])


def single_variance(prior: Prior, q_hat: float) -> float:
    """v = E var(w | y) of one weight without a common shift: equal steps of t = asinh y."""
    origin = math.sqrt(q_hat) * prior.origin
    end = math.asinh(reach(prior, q_hat) + abs(origin))
    t = np.linspace(-end, end, 2 * math.ceil(end / 0.02) + 1)
    log_f, _, variance = scalar_posterior(prior, q_hat, origin + np.sinh(t))
    return float((np.exp(log_f) * np.cosh(t) * (t[1] - t[0])) @ variance)


def sampled_shift_variance(prior: Prior, k: int, q_hat: float, log2_points: int) -> Array:
    """Replicates (R,) of v for k ≥ 4: what one class leaves, and sampled what the shift hides."""
    table = FieldTable(prior, q_hat)
    uniform = uniform_replicates(k, log2_points, seed=2000 + k)
    # One class from rf: classes are alike, so that the density of a row is mean_h r(y_h) ∏ f(y_h).
    first = table.quantile(uniform[..., :1], telling=True)
    y = np.concatenate([first, table.quantile(uniform[..., 1:])], -1)
    share = 1 / table.telling(table(y)[2]).mean(-1)  # (R, n)
    offsets = (np.arange(N_REPLICATES) + 0.5) / N_REPLICATES - 0.5
    each = zip(y, offsets, strict=True)
    found = [shift_moments(table, rows, _SHIFT_STEP, offset)[1:] for rows, offset in each]
    # Fields that leave much unknown hide much: the first term, whose mean is known, tells how much.
    one = single_variance(prior, q_hat)
    inner, hidden = share * np.moveaxis(np.array(found), 1, 0)  # (R, n) each
    slope = np.cov(inner.ravel(), hidden.ravel())[0, 1] / max(float(inner.var()), 1e-300)
    above = hidden.mean(1) - slope * (inner.mean(1) - (k - 1) * one)
    # Of rare weights few rows tell much, and points may miss them all: replicates are skewed, and
    # Student's quantile of their mean is too small by up to this factor (at densities to 0.005).
    log_g = prior.tilted(np.array([0.1, -0.1]), np.zeros(2)).log_g  # b²/2 ± κ₃b³/6 + κ₄b⁴/24
    if 24e4 * (log_g.mean() - 0.005) > _RARE:
        above = above.mean() + _SKEWED * (above - above.mean())
    return np.asarray(one + above / (k - 1))


def point_variance(teacher: AnyTeacher, q_hat: float) -> float:
    """v at q̂ for r = 1 or 2, with a step that resolves the posterior's switches."""
    values, p = support_of(teacher.prior)
    points, log_p = values[:, None], np.log(p)
    if teacher.common_shift:
        points, log_p = reduced_support(teacher.prior, teacher.n_classes)
        points = points @ difference_basis(teacher.n_classes)  # r orthonormal coordinates
    c, r = points.shape
    centres = math.sqrt(q_hat) * points
    # Half-way between rows δ apart the switch has poles at iπ/(√q̂ δ): error exp(−2π²/0.6).
    gap = float(np.diff(values).max())
    gap *= math.sqrt(1 - 1 / teacher.n_classes) if teacher.common_shift else 1.0
    step = min(0.3, 0.6 / (gap * math.sqrt(q_hat) + 1e-300))
    weights = np.exp(log_p) * (step / math.sqrt(2 * math.pi)) ** r
    tables = []
    for i in range(r):
        low, high = centres[:, i].min() - 8.8, centres[:, i].max() + 8.8
        axis = np.arange(math.ceil((high - low) / step) + 1) * step + low
        tables.append(np.exp(-0.5 * (axis[:, None] - centres[:, i]) ** 2))
    # Σ_c p_c N(y; √q̂ u_c) h(u_c) on the whole grid is a matrix product of the axes' tables.
    left, right = tables[0] * weights, tables[1].T if r == 2 else np.ones((c, 1))
    variance = 0.0
    block = max(1, 2_000_000 // right.shape[1])  # bounds the memory, whatever the spacing
    for start in range(0, len(left), block):
        rows = left[start : start + block]
        total = np.maximum(rows @ right, 1e-300)
        second = (rows * (points**2).sum(-1)) @ right
        first = sum(((rows * points[:, i]) @ right) ** 2 for i in range(r))
        variance += float((second - first / total).sum())
    return variance / r


_LARGEST_EXPONENT = 600.0  # of a product of exponentials that does not overflow


def finite_row_variance(prior: Prior, k: int, q_hat: float, log2_points: int) -> Array:
    """Replicates (R,) of v for a finite prior."""
    values, p = support_of(prior)
    s = math.sqrt(q_hat)
    uniform = uniform_replicates(k - 1, log2_points, seed=1000 + k)
    y = FieldTable(prior, q_hat).quantile(uniform)
    replicates, n, _ = y.shape
    y = y.reshape(-1, k - 1)
    # Half-way between values δ apart the switch has poles at iπ/(sδ): error exp(−2π²/1.1).
    first_step = min(0.5, 1.1 / (s * float(np.diff(values).max()) + 1e-300))
    low, high = s * values.min() - 8, s * values.max() + 8
    y_first = np.arange(math.floor(low / first_step), math.ceil(high / first_step) + 1) * first_step
    log_f, mean, _ = location_posterior(prior, q_hat, y_first)
    first_weight = np.exp(log_f) * first_step
    step, reach = min(0.7, 1 / math.sqrt(k)), s * float(values.max() - values.min()) + 7
    if p.max() ** (k - 1) < 1e-7:
        # No shift by a difference of values can pass unnoticed: only the local peak matters.
        information = float(first_weight @ (y_first - s * mean) ** 2)  # J = E (d ln f/dy)²
        reach = min(reach, 8 / math.sqrt((k - 1) * information))
    c = np.arange(-math.ceil(reach / step), math.ceil(reach / step) + 1) * step
    log_f, mu, var = location_posterior(prior, q_hat, y_first - c[:, None])
    f, mu = np.exp(log_f), mu * (1 - 1 / k)
    kernels = np.hstack([f, f * mu, f * (mu**2 + var * (1 - 1 / k) ** 2)])
    exponent = s * float(np.abs(values).max()) * (float(c[-1]) + float(np.abs(y).max()))
    columns = np.exp(np.minimum(-s * values[:, None] * c, _LARGEST_EXPONENT))
    result, m, chunk = np.empty(len(y)), y_first.size, max(1, 40_000 // (k * c.size))
    for start in range(0, len(y), chunk):
        part = slice(start, start + chunk)
        if exponent < _LARGEST_EXPONENT:
            # f(y − c) ∝ Σ_i [p_i exp(s v_i y − s²v_i²/2)]·[exp(−s v_i c)]: no exponential of y − c.
            classes = p * np.exp(s * y[part, :, None] * values - 0.5 * q_hat * values**2)
            total, first, second = ((classes * values**j) @ columns for j in range(3))
            mean = first / total
            variance = second / total - mean**2
            log_w = np.log(total).sum(1) - 0.5 * (k - 1) * c**2 + y[part].sum(1)[:, None] * c
        else:
            log_f, mean, variance = location_posterior(prior, q_hat, y[part, :, None] - c)
            log_w = log_f.sum(1)
        shift, spread = mean.sum(1) / k, variance.sum(1) / k**2
        w = np.exp(log_w - log_w.max(-1, keepdims=True))
        plain = w @ kernels
        shifted = (w * shift) @ kernels[:, : 2 * m]
        squared = (w * (shift**2 + spread)) @ kernels[:, :m]
        Z = np.maximum(plain[:, :m], 1e-300)
        u_mean = (plain[:, m : 2 * m] - shifted[:, :m]) / Z
        u_second = (plain[:, 2 * m :] - 2 * shifted[:, m:] + squared) / Z
        result[part] = np.maximum(u_second - u_mean**2, 0.0) @ first_weight
    return result.reshape(replicates, n).mean(-1) * k / (k - 1)


def support_of(prior: Prior) -> tuple[Array, Array]:
    """Values and probabilities of a finite prior."""
    assert prior.support is not None, prior.name
    return prior.support


def location_posterior(prior: Prior, q_hat: float, y: Array) -> tuple[Array, Array, Array]:
    """ln f(y), f(y) = Σ p_i N(y; √q̂ v_i, 1), and the posterior mean and variance of the value."""
    log_f, apart, variance = scalar_posterior(prior, q_hat, y)
    return log_f, apart + math.sqrt(q_hat) / (1 + q_hat) * y, variance
