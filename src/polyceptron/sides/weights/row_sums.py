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

k ≥ 4: fields sampled by inverse CDF, one quasi-random coordinate a class, most rows so that the gap
of one class to what the others tell of the shift is where it hides much (rare weights then need no
luck), with bounded weights; the shift as above around a few of the classes, its nodes with an
offset of their own in each replicate, so that their error is seen.

Finite priors of many rows: by symmetry what the shift hides is the variance over c of the mean of
w_1 − w̄, times k/r. The others are sampled and weigh a grid of c; its sums, for all y_1, are
products.
"""

import math
from functools import cached_property, lru_cache
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from polyceptron.numerics import AnyArray, Array
from polyceptron.numerics.estimate import N_REPLICATES, uniform_replicates
from polyceptron.numerics.panels import panel_rule
from polyceptron.numerics.special import EvenPieces
from polyceptron.problem.priors import Prior
from polyceptron.sides.weights.point_rows import smallest_difference, support_of, switch_step

_NOISE = 8.5  # |ξ| is larger with probability 1e-17
_STEP = 0.005  # of the tables in t: cubic pieces are then good to 1e-9
_LOG_ROOT = 0.5 * math.log(2 * math.pi)


def scalar_posterior(prior: Prior, q_hat: float, y: AnyArray) -> tuple[Array, Array, Array]:
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
        self.values, self.highest = values, values[:, 0].max()
        self.mass = np.exp(values[:, 0]) * np.cosh(self.t)  # density of t
        self.slope = math.sqrt(q_hat) * (values[:, 2] - 1 / (1 + q_hat))  # dμ̃/dy
        apart = np.abs(values - values[::-1] * [1, -1, 1])
        self.even = bool((apart <= 1e-12 + 1e-9 * np.abs(values)).all())

    @cached_property
    def pieces(self) -> EvenPieces:
        """The cubics."""
        return EvenPieces(self.t, self.values, 3)

    def __call__(self, y: Array, n: int = 3) -> tuple[Array, ...]:
        """ln f, μ̃ and var, or the first n of them, at y of any shape within 3 times the reach."""
        found = self.pieces(np.arcsinh(y), n)
        np.minimum(found[0], self.highest, out=found[0])  # cubics overshoot at a second edge
        return tuple(found)

    def quantile(self, uniform: Any, mass: Array | None = None) -> Array:
        """y at the given shares of f, or of another density of t: fixed while q̂ moves."""
        from scipy.interpolate import CubicSpline, PchipInterpolator

        mass = self.mass if mass is None else mass
        cells = (_STEP ** np.arange(4, 0, -1) / np.arange(4, 0, -1)) @ CubicSpline(self.t, mass).c
        below, above = np.cumsum(cells), np.cumsum(cells[::-1])[::-1]
        total = below[-1]
        middle = 1 + int(np.searchsorted(below, 0.5 * total))
        low = np.append(0.0, below)[:middle] / total
        above = np.append(above, 0.0)[middle:] / total
        seen_low, seen_high = low > 1e-15, above > 1e-15
        # In normal quantiles both tails are smooth and keep their digits.
        z = np.concatenate([ndtri(low[seen_low]), -ndtri(above[seen_high])])
        t = np.concatenate([self.t[:middle][seen_low], self.t[middle:][seen_high]])
        rising = np.concatenate([[True], np.diff(np.maximum.accumulate(z)) > 1e-12])
        z, t = z[rising], t[rising]
        found: Array = np.sinh(PchipInterpolator(z, t)(np.clip(ndtri(uniform), z[0], z[-1])))
        return found


field_table = lru_cache(maxsize=64)(FieldTable)

SCALE = 1.5  # λ: about the width of a class's own feature
_MANY = 12  # classes above which the shift is known so well that its origin is enough
_APART = 1.5  # λ: nodes of centres that are closer serve both
_UNLIKELY = 18.0  # logarithm of what is left out around a class
_CHUNK = 400_000  # table look-ups at once
_SHIFT_STEP = 0.25  # of t, where fields are sampled
_AS_IT_IS = 0.2  # of the sampled rows
_PANEL = 1.5  # of the gaps
_WHOLE = 7  # log2 of points that are never halved
_BLOCK, _UNSEEN = 16, 1e-8  # shifts at once, and the weight of those that are left out


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


def shift_centres(table: FieldTable, y: Array, scale: float) -> tuple[Array, AnyArray]:
    """Where the shift of fields y (n, k) can be: candidates (n, m), and which of them are needed.

    The fields' own origin and, up to twelve classes, each class; of close ones the likeliest.
    """
    n, k = y.shape
    centres = np.zeros((n, 1)) if k > _MANY else np.hstack([np.zeros((n, 1)), y])
    likely = table(y[:, None, :] - centres[..., None], 1)[0].sum(-1)
    likely[likely < likely.max(1, keepdims=True) - _UNLIKELY] = -np.inf
    used = np.zeros(centres.shape, dtype=bool)
    while (going := np.flatnonzero(np.isfinite(likely).any(1))).size:
        best = likely[going].argmax(1)
        used[going, best] = True
        apart = np.abs(centres[going] - centres[going, best][:, None])
        likely[going] = np.where(apart > _APART * scale, likely[going], -np.inf)
    return centres, used


class ShiftMoments(NamedTuple):
    """What is known of the shift c of n rows, and what it hides."""

    log_density: Array  # (n,), of the differences of fields
    shift: Array  # (n,), E c
    hidden: Array  # (n,), E_c‖P(μ̃ − E_c μ̃)‖²
    others: tuple[Array, Array] | None  # the first two without each class in turn, (n, k)


def shift_moments(
    table: FieldTable, y: Array, step: float, offset: float = 0.0, *, others: bool = False
) -> ShiftMoments:
    """Moments over the shift of rows with fields y (n, k)."""
    n, k = y.shape
    scale = SCALE * min(1.0, 2 / math.sqrt(k))  # k classes know the shift to 1/√k
    z, weight = shift_nodes(table, step, offset, scale)
    log_weight = np.log(weight)
    centres, used = shift_centres(table, y, scale)
    sample, centre = np.nonzero(used)
    first = np.searchsorted(sample, np.arange(n))
    top = np.zeros((len(sample), 1 + k))
    sums = np.zeros((len(sample), k + 3))  # of 1, c, ‖Pμ̃‖² and μ̃
    rest = np.zeros((2, len(sample), k))  # of 1 and c without each class
    chunk = max(1, _CHUNK // (z.size * k))
    for start in range(0, len(sample), chunk):
        part = slice(start, start + chunk)
        row, own = sample[part], centre[part]
        shift = centres[row, own][:, None] + z  # (pairs, nodes)
        log_f, mean = table(y[row, None, :] - shift[..., None], 2)
        near = closeness(centres[row, None, :] - shift[..., None], scale) * used[row, None, :]
        near = near[np.arange(len(row)), :, own] / near.sum(-1)
        log_w = log_f.sum(-1) + log_weight + np.log(near)
        top[part, 0] = log_w.max(-1)
        w = np.exp(log_w - top[part, :1])
        spread = (mean**2).sum(-1) - mean.sum(-1) ** 2 / k
        sums[part, :3] = np.stack([(w * f).sum(-1) for f in (1, shift, spread)], -1)
        sums[part, 3:] = np.matmul(w[:, None, :], mean)[:, 0]
        if others:
            np.subtract(log_w[..., None], log_f, out=log_f)
            top[part, 1:] = log_f.max(1)
            np.exp(log_f - top[part, None, 1:], out=log_f)
            rest[:, part] = log_f.sum(1), np.matmul(shift[:, None, :], log_f)[:, 0]
    best = np.maximum.reduceat(top, first)
    size = np.exp(top - best[sample])
    sums = np.add.reduceat(sums * size[:, :1], first)
    total, means = sums[:, 0], sums[:, 3:] / sums[:, :1]
    hidden = sums[:, 2] / total - (means**2).sum(1) + means.sum(1) ** 2 / k
    without = None
    if others:
        rest = np.add.reduceat(rest * size[:, 1:], first, axis=1)
        without = np.log(rest[0]) + best[:, 1:], rest[1] / rest[0]
    log_density = np.log(total) + best[:, 0]
    return ShiftMoments(log_density, sums[:, 1] / total, np.maximum(hidden, 0.0), without)


def hidden_variance(
    table: FieldTable, n_classes: int, order: int, step: float
) -> tuple[float, float]:
    """What the shift hides of v at k = 2 or 3, `order` nodes a panel; the probability less 1."""
    end = math.asinh(2 * table.reach / SCALE)
    t, weight = panel_rule(np.linspace(0.0, end, math.ceil(end / _PANEL) + 1), order)
    g, weight = SCALE * np.sinh(t), SCALE * np.cosh(t) * weight
    if n_classes == 2:
        found = shift_moments(table, np.stack([0 * g, g], -1), step)
        chance = 2 * weight * np.exp(found.log_density)
        return float(chance @ found.hidden), float(chance.sum()) - 1
    z, z_weight = shift_nodes(table, step)
    own = table(-z, 2)

    def both(gap: Array) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
        """ln f and μ̃ (n, nodes) of a class above by `gap` (n, 1), and of one below."""
        up = table(gap - z, 2)
        return up, (up[0][:, ::-1], -up[1][:, ::-1]) if table.even else table(-gap - z, 2)

    up, down = both(g[:, None])
    variance, mass = 0.0, -1.0
    for n in range(g.size):
        seen = g[n] + g < 2 * table.reach
        if table.even:  # the mirror image of a pair of gaps is alike
            seen[:n] = False
        sums = g[n] + g[seen, None]
        far_up, far_down = both(sums)
        g1, g2 = g[n], g[seen, None]
        # Around each class in turn: (ln f, μ̃) of the three, and how far each is.
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
    log_f, mean, variance = scalar_posterior(prior, q_hat, place * step)
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
    return 0.5 * float(np.maximum(second - first**2 / np.maximum(P, 1e-290), 0.0).sum())


# Lattice points on each side of 0 up to which it is quick (a tenth of a second); else nodes of a
# panel of gaps and the step of the shift: two coarser ones tell what a rule leaves.
_LARGEST_LATTICE = {2: 700, 3: 230}
GAP_RULES = {
    2: ((18, 0.09), (20, 0.075), (24, 0.06), (30, 0.05)),
    3: ((6, 0.34), (7, 0.3), (8, 0.25), (10, 0.2), (12, 0.17), (14, 0.14), (18, 0.11)),
}
GAP_ERROR = {2: 1e-8, 3: 2e-6}


@lru_cache(maxsize=64)
def gap_variance(prior: Prior, k: int, q_hat: float, level: int) -> tuple[float, float]:
    """What the shift hides by the rule of an accuracy level, and the mass less 1."""
    return hidden_variance(field_table(prior, q_hat), k, *GAP_RULES[k][level])


def few_shift_variance(prior: Prior, k: int, q_hat: float, level: int) -> float:
    """v at q̂ for k = 2 or 3: the lattice, or where it is too large the gaps."""
    if lattice(prior, q_hat)[1] <= _LARGEST_LATTICE[k]:
        return lattice_variance(prior, k, q_hat)
    return single_variance(prior, q_hat) + gap_variance(prior, k, q_hat, level)[0]


def few_shift_error(prior: Prior, k: int, q_hat: float, level: int) -> float:
    """The relative error that this leaves: what two coarser rules change, and the mass."""
    if lattice(prior, q_hat)[1] <= _LARGEST_LATTICE[k]:
        return 0.0
    rules = range(level - 2, level + 1)
    *coarse, (found, missing) = (gap_variance(prior, k, q_hat, rule) for rule in rules)
    v = single_variance(prior, q_hat) + found
    apart = sum(abs(found - other) for other, _ in coarse)  # one may agree by accident
    return apart / v + abs(missing) * min(1.0, 10 * found / v)  # it may hide ten times as much


def single_variance(prior: Prior, q_hat: float) -> float:
    """v = E var(w | y) of one weight without a common shift: equal steps of t = asinh y."""
    origin = math.sqrt(q_hat) * prior.origin
    end = math.asinh(reach(prior, q_hat) + abs(origin))
    t = np.linspace(-end, end, 2 * math.ceil(end / 0.02) + 1)
    log_f, _, variance = scalar_posterior(prior, q_hat, origin + np.sinh(t))
    return float((np.exp(log_f) * np.cosh(t) * (t[1] - t[0])) @ variance)


def likely_gaps(table: FieldTable, k: int) -> Array:
    """Density of t (n,), of the gap of a class to the shift: as it is seen, times what it hides."""
    score = np.gradient(table.values[:, 0], table.t) / np.cosh(table.t)
    information = float(table.mass @ score**2) * _STEP  # of one class about the shift
    c = np.linspace(-3.5, 3.5, 29)
    seen = np.sinh(table.t)[:, None] - c / math.sqrt((k - 1) * information)
    log_f, mean = table(seen, 2)
    # In the slope of μ most classes are alike; it is what differs that hides.
    order = np.argsort(table.slope)
    below = np.cumsum(table.mass[order])
    mean = mean - table.slope[order[np.searchsorted(below, 0.5 * below[-1])]] * seen
    weight = np.exp(log_f - 0.5 * c**2)
    total = np.maximum(weight.sum(-1), 1e-290)
    hidden = (weight * mean**2).sum(-1) / total - ((weight * mean).sum(-1) / total) ** 2
    mass = total * np.cosh(table.t) * np.maximum(hidden, 1e-6 * hidden.max() + 1e-200)
    return np.asarray(mass / (mass.sum() * _STEP))


def sampled_shift_variance(prior: Prior, k: int, q_hat: float, log2_points: int) -> Array:
    """Replicates (R,) of v for k ≥ 4: what one class leaves, and sampled what the shift hides.

    A share d of the rows is drawn as it is. In the others a class has a gap to the shift, which the
    rest tells, of a density g that favours what hides. Classes are alike: with p the density of a
    class's gap given the rest, all are of density d + (1 − d) mean_h g/p times that of rows.
    """
    table = field_table(prior, q_hat)
    mass = likely_gaps(table, k)
    log_mass = EvenPieces(table.t, np.log(np.maximum(mass, 1e-300))[:, None], 3)
    uniform = uniform_replicates(k, log2_points, seed=2000 + k)
    u = uniform[..., 0]
    first = np.minimum(u / _AS_IT_IS, 1.0)
    y = table.quantile(np.concatenate([first[..., None], uniform[..., 1:]], -1))
    gap = table.quantile(np.maximum((u - _AS_IT_IS) / (1 - _AS_IT_IS), 0.0), mass)
    above = np.empty(N_REPLICATES)
    for i, rows in enumerate(y):
        offset = (i + 0.5) / N_REPLICATES - 0.5
        moved = u[i] > _AS_IT_IS
        told = shift_moments(table, rows[moved, 1:], _SHIFT_STEP, offset)
        rows[moved, 0] = told.shift + gap[i, moved]
        found = shift_moments(table, rows, _SHIFT_STEP, offset, others=True)
        assert found.others is not None
        gaps = rows - found.others[1]
        log_p = found.log_density[:, None] - found.others[0] + 0.5 * np.log1p(gaps**2)
        ratio = np.exp(np.minimum(log_mass(np.arcsinh(gaps))[0] - log_p, 600.0)).mean(1)
        above[i] = (found.hidden / (_AS_IT_IS + (1 - _AS_IT_IS) * ratio)).mean()
    return np.asarray(single_variance(prior, q_hat) + above / (k - 1))


@lru_cache(maxsize=512)
def finite_row_variance(prior: Prior, k: int, q_hat: float, log2_points: int) -> Array:
    """Replicates (R,) of v for a finite prior; of twice the points one half is known."""
    values, p = support_of(prior)
    s, log_p = math.sqrt(q_hat), np.log(p) - 0.5 * q_hat * values**2
    uniform = uniform_replicates(k - 1, log2_points, seed=1000 + k)
    known = log2_points > _WHOLE
    if known:
        uniform = uniform[:, uniform.shape[1] // 2 :]
    y = field_table(prior, q_hat).quantile(uniform).reshape(-1, k - 1)
    near, far = s * smallest_difference(prior), s * float(np.ptp(values))
    first_step = min(0.7, switch_step(16 + near**2 / 8, far))
    low, high = s * values.min() - 8, s * values.max() + 8
    y_first = np.arange(math.floor(low / first_step), math.ceil(high / first_step) + 1) * first_step
    log_f, mean, variance = scalar_posterior(prior, q_hat, y_first)
    first_weight, linear = np.exp(log_f) * first_step, s / (1 + q_hat)
    step, reach = min(0.8, 1.15 / math.sqrt(k)), s * float(values.max() - values.min()) + 7
    if p.max() ** (k - 1) < 1e-7:
        # No shift by a difference of values can pass unnoticed: only the local peak matters.
        score = (1 - s * linear) * y_first - s * mean  # −d ln f/dy
        reach = min(reach, 8 / math.sqrt((k - 1) * float(first_weight @ score**2)))
    c = np.arange(-math.ceil(reach / step), math.ceil(reach / step) + 1) * step
    size = max(1, min(_BLOCK, int(900 / (step * s * prior.extent + 1e-300))))
    blocks = [slice(i, i + size) for i in range(0, c.size, size)]
    log_f, mu, _ = scalar_posterior(prior, q_hat, y_first - c[:, None])
    f, mu = np.exp(log_f), mu * (1 - 1 / k)
    kernels = np.hstack([f, f * mu, f * mu**2])
    result, m = np.empty(len(y)), y_first.size
    chunk = max(1, 400_000 // (6 * m + k * c.size))
    for start in range(0, len(y), chunk):
        rows = y[start : start + chunk].T  # class after class
        log_w, shift = np.empty((2, rows.shape[1], c.size))
        for block in blocks:
            # f(y − c) ∝ Σ_i [p_i exp(s v_i (y − c₀))]·[exp(−s v_i (c − c₀))], c₀ in the middle.
            at = c[block]
            middle = at[at.size // 2]
            classes = log_p[:, None] + s * values[:, None] * (rows - middle).ravel()
            top = classes.max(0)
            np.exp(classes - top, out=classes)
            columns = np.exp(-s * values[:, None] * (at - middle))
            total, mean = classes.T @ columns, classes.T @ (values[:, None] * columns)
            shift[:, block] = (mean / total).reshape(*rows.shape, -1).sum(0)
            log_w[:, block] = (np.log(total) + top[:, None]).reshape(*rows.shape, -1).sum(0)
        # The gaps y − c themselves, but for what all c of a row share.
        told = rows.sum(0)[:, None]
        log_w += (told - 0.5 * (k - 1) * c) * c
        shift = (shift - linear * (told - (k - 1) * c)) / k
        w = np.exp(log_w - log_w.max(-1, keepdims=True))
        sums = np.zeros((len(w), 6 * m))
        for block in blocks:
            some = np.flatnonzero(w[:, block].max(1) > _UNSEEN)
            weight, moved, kernel = w[some, block], shift[some, block], kernels[block]
            sums[some, : 3 * m] += weight @ kernel
            sums[some, 3 * m : 5 * m] += (weight * moved) @ kernel[:, : 2 * m]
            sums[some, 5 * m :] += (weight * moved**2) @ kernel[:, :m]
        Z, first, second, less, cross, square = sums.reshape(len(w), 6, m).swapaxes(0, 1)
        Z = np.maximum(Z, 1e-300)
        hidden = (second - 2 * cross + square) / Z - ((first - less) / Z) ** 2
        result[start : start + chunk] = np.maximum(hidden, 0.0) @ first_weight
    found = first_weight @ variance + result.reshape(len(uniform), -1).mean(-1) * k / (k - 1)
    if known:
        found = 0.5 * (found + finite_row_variance(prior, k, q_hat, log2_points - 1))
    return np.asarray(found)
