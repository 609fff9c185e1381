"""What a row of two or three classes leaves unknown, for any prior: a lattice, or panels of gaps.

On a lattice: f, fμ̃ and f(μ̃² + var) (`field_table`) are tabulated once on equal steps, and the sums
over the common shift c for all differences of y at once are products A diag(f) Aᵀ with
A_{yc} = f(y − c). Everything is entire in y and c: the trapezoidal rule converges faster than any
power.

At large q̂, on panels of the gaps: sorted, the fields are 0, g₁ (and g₁ + g₂), k! orderings alike.
They have features of width 1 where gaps are small (a prior's spike, kink or edge) and of √q̂
elsewhere: g = λ sinh t on panels of t, and the shift as in `common_shift`.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import permutations
from typing import NamedTuple

import numpy as np

from polyceptron.numerics import AnyArray, Array
from polyceptron.numerics.panels import panel_rule
from polyceptron.problem.priors import Prior
from polyceptron.sides.weights.common_shift import SCALE, closeness, shift_moments, shift_nodes
from polyceptron.sides.weights.field_table import (
    FieldTable,
    field_table,
    reach,
    scalar_posterior,
    single_variance,
)

# The largest number of lattice points on each side of 0, by k: a tenth of a second on one core.
LARGEST_LATTICE = {2: 700, 3: 230}
# Nodes of a panel of gaps, and the step of t of the shift, from the coarsest rule to the finest.
# Two coarser rules tell what a rule leaves, so that level 2 is the first in use.
GAP_RULES = {
    2: ((18, 0.09), (20, 0.075), (24, 0.06), (30, 0.05)),
    3: ((6, 0.34), (7, 0.3), (8, 0.25), (10, 0.2), (12, 0.17), (14, 0.14), (18, 0.11)),
}
GAP_ERROR = {2: 1e-8, 3: 2e-6}  # the relative error of v at which a finer rule is not tried
WIDTH_OF_GAP_PANEL = 1.5  # in t: `GAP_RULES` counts nodes of panels of this width
SMALLEST_DENSITY = 1e-290  # of a row: keeps 0/0 apart, where the sums are 0 as well


def hidden_variance(
    table: FieldTable, n_classes: int, order: int, step: float
) -> tuple[float, float]:
    """Integrate what the shift hides over the gaps between the fields of k = 2 or 3 classes.

    Parameters
    ----------
    table : FieldTable
    n_classes : int
        2 or 3.
    order : int
        Nodes of each panel of gaps.
    step : float
        Step of t = asinh(c/λ), c being the shift.

    Returns
    -------
    hidden, missing_mass : float
        The variance that the shift hides, a part of v, and the total probability less 1.
    """
    end = math.asinh(2 * table.reach / SCALE)
    n_panels = math.ceil(end / WIDTH_OF_GAP_PANEL)
    t, t_weight = panel_rule(np.linspace(0.0, end, n_panels + 1), order)
    gaps = SCALE * np.sinh(t)
    weights = SCALE * np.cosh(t) * t_weight
    if n_classes == 2:
        return _hidden_of_two_classes(table, gaps, weights, step)
    return ThreeClasses(table, gaps, weights, step).hidden_variance()


def _hidden_of_two_classes(
    table: FieldTable, gaps: Array, weights: Array, step: float
) -> tuple[float, float]:
    """Sum what the shift hides over the one gap of two classes; return it and the mass less 1."""
    moments = shift_moments(table, np.stack([0 * gaps, gaps], -1), step)
    chance = 2 * weights * np.exp(moments.log_density)  # 2! orders of the classes
    return float(chance @ moments.hidden), float(chance.sum()) - 1


class ClassLaws(NamedTuple):
    """ln f and μ̃ of a class at every node of the shift, (gaps, nodes) or (nodes,) each."""

    log_f: Array
    mean: Array

    def of_gaps(self, which: int | AnyArray) -> ClassLaws:
        """Return the laws of some gaps: an index, or a mask (gaps,)."""
        return ClassLaws(self.log_f[which], self.mean[which])


class Centre(NamedTuple):
    """The shift near one class of three: all laws, bottom to top, and the distances x = y − c."""

    laws: tuple[ClassLaws, ClassLaws, ClassLaws]
    distances: tuple[Array, Array, Array]


class ShiftSums(NamedTuple):
    """Sums over the shift of m rows, not normalised: of 1, of each class's μ̃, and of ‖Pμ̃‖²."""

    probability: Array  # (m,)
    means: tuple[Array, Array, Array]  # (m,) each
    squares: Array  # (m,)


class ThreeClasses:
    """The sum over the two gaps g₁, g₂ of three sorted fields of what the shift hides.

    Attributes
    ----------
    gaps, weights : ndarray, (n,)
        Nodes and weights of one gap.
    z, z_weights : ndarray, (nodes,)
        Nodes and weights of the shift, measured from a class.
    own : ClassLaws, (nodes,)
        The law of the class from which the shift is measured.
    above, below : ClassLaws, (n, nodes)
        The laws of a class that is higher, or lower, by a gap.
    """

    def __init__(self, table: FieldTable, gaps: Array, weights: Array, step: float) -> None:
        self.table = table
        self.gaps = gaps
        self.weights = weights
        self.z, self.z_weights = shift_nodes(table, step)
        self.own = ClassLaws(*table(-self.z, 2))
        self.above, self.below = self._above_and_below(gaps[:, None])

    def hidden_variance(self) -> tuple[float, float]:
        """Return the variance that the shift hides, and the total probability less 1."""
        variance = 0.0
        mass = -1.0
        for first_gap in range(self.gaps.size):
            second_gaps = self._second_gaps(first_gap)
            centres = self._centres(first_gap, second_gaps)
            parts = [self._sums_near(number, centre) for number, centre in enumerate(centres)]
            P = sum(part.probability for part in parts)
            second = sum(part.squares for part in parts)
            means_by_class = zip(*(part.means for part in parts), strict=True)
            first = [sum(means) for means in means_by_class]
            squared = sum((x - y) ** 2 for x, y in permutations(first, 2)) / 6  # ‖P first‖²
            hidden = np.maximum(second - squared / np.maximum(P, 1e-290), 0.0)
            weights = self._weights_of_pairs(first_gap, second_gaps)
            variance += float(weights @ hidden)
            mass += float(weights @ P)
        return variance / 2, mass

    def _above_and_below(self, gap: Array) -> tuple[ClassLaws, ClassLaws]:
        """Return the laws of a class that is higher by `gap` (n, 1), and of one that is lower."""
        above = ClassLaws(*self.table(gap - self.z, 2))
        if self.table.even:  # the nodes z are symmetric, and μ̃ is odd
            return above, ClassLaws(above.log_f[:, ::-1], -above.mean[:, ::-1])
        return above, ClassLaws(*self.table(-gap - self.z, 2))

    def _second_gaps(self, first_gap: int) -> AnyArray:
        """Return the mask (n,) of the second gaps that a pair with the first one may have."""
        in_reach = self.gaps[first_gap] + self.gaps < 2 * self.table.reach
        if self.table.even:  # the mirror image of a pair of gaps is alike
            in_reach[:first_gap] = False
        return in_reach

    def _centres(self, first_gap: int, second_gaps: AnyArray) -> tuple[Centre, Centre, Centre]:
        """Return what is seen around the lowest, the middle and the highest class."""
        z = self.z
        g1 = self.gaps[first_gap]
        g2 = self.gaps[second_gaps, None]
        both = g1 + g2
        far_above, far_below = self._above_and_below(both)
        around_lowest = Centre(
            (self.own, self.above.of_gaps(first_gap), far_above),
            (-z, g1 - z, both - z),
        )
        around_middle = Centre(
            (self.below.of_gaps(first_gap), self.own, self.above.of_gaps(second_gaps)),
            (-g1 - z, -z, g2 - z),
        )
        around_highest = Centre(
            (far_below, self.below.of_gaps(second_gaps), self.own),
            (-both - z, -g2 - z, -z),
        )
        return around_lowest, around_middle, around_highest

    def _sums_near(self, number: int, centre: Centre) -> ShiftSums:
        """Sum over the shift near the class `number`, with its share of the partition of unity."""
        lowest, middle, highest = centre.laws
        near = [closeness(x) for x in centre.distances]
        share = near[number] / sum(near)
        w = np.exp(lowest.log_f + middle.log_f + highest.log_f) * (share * self.z_weights)
        a = lowest.mean
        b = middle.mean
        c = highest.mean
        square = (2 * (a * a + b * b + c * c) - 2 * (a * b + b * c + a * c)) / 3  # ‖Pμ̃‖²
        return ShiftSums(
            probability=w.sum(-1),
            means=((w * a).sum(-1), (w * b).sum(-1), (w * c).sum(-1)),
            squares=(w * square).sum(-1),
        )

    def _weights_of_pairs(self, first_gap: int, second_gaps: AnyArray) -> Array:
        """Return the weights (m,) of the pairs of gaps, for all 3! orders of the classes."""
        weights = 6 * self.weights[first_gap] * self.weights[second_gaps]
        if self.table.even:
            weights[1:] *= 2  # each pair of unequal gaps stands for its mirror image too
        return np.asarray(weights)


def lattice(prior: Prior, q_hat: float) -> tuple[float, int]:
    """Return the step of the lattice of fields, and its points on each side of 0.

    Where a finite prior switches between values δ apart √q̂ δ step = 0.6 leaves 1e-14.
    """
    apart = 0.0
    if prior.support is not None:
        apart = float(np.diff(prior.support[0]).max())
    step = min(0.35, 0.6 / (math.sqrt(q_hat) * apart + 1e-300))
    return step, math.ceil(reach(prior, q_hat) / step)


def lattice_variance(prior: Prior, n_classes: int, q_hat: float) -> float:
    """Return v at q̂ for k = 2 or 3 and any prior, by sums over a lattice of fields.

    Parameters
    ----------
    prior : Prior
    n_classes : int
        2 or 3.
    q_hat : float

    Returns
    -------
    float
    """
    step, n = lattice(prior, q_hat)
    place = np.arange(-n, n + 1)
    log_f, mean, variance = scalar_posterior(prior, q_hat, place * step)
    f = np.exp(log_f) * step
    first_f = f * mean
    second_f = f * (mean**2 + variance)
    if n_classes == 2:
        P, first, second = _lattice_sums_of_two(f, first_f, second_f)
    else:
        P, first, second = _lattice_sums_of_three(f, first_f, second_f)
    left = np.maximum(second - first**2 / np.maximum(P, SMALLEST_DENSITY), 0.0)
    return 0.5 * float(left.sum())


def _lattice_sums_of_two(
    f: Array, first_f: Array, second_f: Array
) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Return P, P·E(w₁ − w₂) and P·E(w₁ − w₂)² at every difference of two fields, (4n + 1,).

    The arguments are f, fμ̃ and f(μ̃² + var) on the lattice, (2n + 1,) each.
    """
    P = np.correlate(f, f, "full")
    cross = np.correlate(first_f, f, "full")
    square = np.correlate(second_f, f, "full")
    first = cross - cross[::-1]
    second = square + square[::-1] - 2 * np.correlate(first_f, first_f, "full")
    return P, first, second


def _lattice_sums_of_three(
    f: Array, first_f: Array, second_f: Array
) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Return what `_lattice_sums_of_two` does, given a third class, (4n + 1, 4n + 1) each.

    The axes are the fields of the first two classes, less that of the third.
    """
    n = (f.size - 1) // 2
    place = np.arange(-n, n + 1)
    # Row d, column c: the table at y = d − c; outside the lattice f is nothing.
    index = np.arange(-2 * n, 2 * n + 1)[:, None] - place
    inside = np.abs(index) <= n
    index = np.where(inside, index + n, 0)
    F = np.where(inside, f[index], 0.0)
    G = np.where(inside, first_f[index], 0.0)
    H = np.where(inside, second_f[index], 0.0)
    here = f[::-1]  # the last class, at y = 0 − c
    right = (F * here).T
    P = F @ right
    cross = G @ right
    square = H @ right
    first = cross - cross.T
    second = square + square.T - 2 * (G @ (G * here).T)
    return P, first, second


@lru_cache(maxsize=64)
def gap_variance(prior: Prior, k: int, q_hat: float, level: int) -> tuple[float, float]:
    """Return `hidden_variance` by the rule of an accuracy level: the variance, the mass less 1."""
    order, step = GAP_RULES[k][level]
    return hidden_variance(field_table(prior, q_hat), k, order, step)


def few_shift_variance(prior: Prior, k: int, q_hat: float, level: int) -> float:
    """Return v at q̂ for k = 2 or 3: by the lattice, or where it is too large by the gaps.

    Parameters
    ----------
    prior : Prior
    k : int
        2 or 3 classes.
    q_hat : float
    level : int
        The number of the rule in `GAP_RULES`.

    Returns
    -------
    float
    """
    if lattice(prior, q_hat)[1] <= LARGEST_LATTICE[k]:
        return lattice_variance(prior, k, q_hat)
    return single_variance(prior, q_hat) + gap_variance(prior, k, q_hat, level)[0]


def few_shift_error(prior: Prior, k: int, q_hat: float, level: int) -> float:
    """Return the relative error of `few_shift_variance`.

    It is what two coarser rules change, one of which may agree by accident, and the missing mass,
    which may hide ten times as much of the variance.
    """
    if lattice(prior, q_hat)[1] <= LARGEST_LATTICE[k]:
        return 0.0
    hidden, missing_mass = gap_variance(prior, k, q_hat, level)
    v = single_variance(prior, q_hat) + hidden
    coarser = [gap_variance(prior, k, q_hat, rule)[0] for rule in (level - 2, level - 1)]
    changed = sum(abs(hidden - other) for other in coarser)
    return changed / v + abs(missing_mass) * min(1.0, 10 * hidden / v)
