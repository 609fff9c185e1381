"""What is known of the shift that all classes of a row share, and what it hides.

Not seeing the common part of a row is seeing all y_h up to a shift c. Given c the classes are
independent, so with E_c the posterior average over c, of weight ∏_h f(y_h − c) (`field_table`),

    tr Cov u = E_c[(1 − 1/k) Σ_h var_h] + E_c‖P(μ̃ − E_c μ̃)‖²,

two terms that are not negative; v is the mean over the fields, divided by r. Averaged over fields
and shift y − c is a class's own field, so that the first term is r times what one class leaves
unknown where nothing hides it, one integral (`single_variance`). The second is what the shift
hides (`shift_moments`): the weight of c is split by a smooth partition of unity into one part
around each class, c = y_i + λ sinh t on equal steps of t.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from polyceptron.numerics import AnyArray, Array
from polyceptron.sides.weights.field_table import FieldTable

SCALE = 1.5  # λ: about the width of a class's own feature
MOST_CLASSES_WITH_CENTRES = 12  # more know the shift so well that the fields' origin is enough
CLOSEST_CENTRES = 1.5  # in units of λ: nodes of centres that are closer serve both
NEGLIGIBLE_CENTRE = 18.0  # −ln of the weight of a centre, relative to the likeliest, left out
LOOKUPS_OF_A_CHUNK = 400_000  # values read from the field table at once


def shift_nodes(
    table: FieldTable, step: float, offset: float = 0.0, scale: float = SCALE
) -> tuple[Array, Array]:
    """Return the nodes λ sinh t on equal steps of t, and their weights.

    Parameters
    ----------
    table : FieldTable
        It says how far two fields can be apart, where the nodes end.
    step : float
        The step of t.
    offset : float, optional
        What all nodes are moved by, in steps.
    scale : float, optional
        λ.

    Returns
    -------
    nodes, weights : ndarray, (nodes,)
    """
    last = math.ceil(math.asinh(2 * table.reach / scale) / step)
    t = (np.arange(-last, last + 1) + offset) * step
    z = np.clip(scale * np.sinh(t), -2 * table.reach, 2 * table.reach)
    return z, scale * np.cosh(t) * step


def closeness(distance: Array, scale: float = SCALE) -> Array:
    """Return 1/(x² + 2λ²)², the partition of unity before it is normalised."""
    return 1 / (distance**2 + 2 * scale**2) ** 2


def shift_centres(table: FieldTable, y: Array, scale: float) -> tuple[Array, AnyArray]:
    """Choose the places around which the shift of fields y (n, k) is integrated.

    The candidates are the fields' own origin and, up to twelve classes, each class. Of close ones
    the likeliest is used.

    Parameters
    ----------
    table : FieldTable
    y : ndarray, (n, k)
    scale : float
        λ.

    Returns
    -------
    centres : ndarray, (n, m)
        The candidates.
    used : ndarray of bool, (n, m)
    """
    n, k = y.shape
    centres = np.zeros((n, 1))
    if k <= MOST_CLASSES_WITH_CENTRES:
        centres = np.hstack([centres, y])
    likely = table(y[:, None, :] - centres[..., None], 1)[0].sum(-1)
    likely[likely < likely.max(1, keepdims=True) - NEGLIGIBLE_CENTRE] = -np.inf
    used = np.zeros(centres.shape, dtype=bool)
    waiting = np.arange(n)
    while waiting.size:
        best = likely[waiting].argmax(1)
        used[waiting, best] = True
        apart = np.abs(centres[waiting] - centres[waiting, best][:, None])
        is_far = apart > CLOSEST_CENTRES * scale
        likely[waiting] = np.where(is_far, likely[waiting], -np.inf)
        waiting = np.flatnonzero(np.isfinite(likely).any(1))
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
    """Return the moments over the shift of rows with fields y.

    Parameters
    ----------
    table : FieldTable
    y : ndarray, (n, k)
    step, offset : float
        As in `shift_nodes`.
    others : bool, optional
        Whether to return density and mean without each class in turn as well.

    Returns
    -------
    ShiftMoments
    """
    n, k = y.shape
    scale = SCALE * min(1.0, 2 / math.sqrt(k))  # k classes know the shift to 1/√k
    nodes = ShiftNodes.around(table, y, step, offset, scale)
    sums = SumsAroundCentres.empty(nodes.row.size, k)
    chunk = max(1, LOOKUPS_OF_A_CHUNK // (nodes.z.size * k))
    for start in range(0, nodes.row.size, chunk):
        sums.fill(nodes, y, slice(start, start + chunk), others=others)
    return sums.moments(nodes.row, n, others=others)


@dataclass(frozen=True)
class ShiftNodes:
    """The nodes of the shift around every centre that is used: one pair (row, centre) a centre.

    Attributes
    ----------
    table : FieldTable
    scale : float
        λ.
    z, log_weight : ndarray, (nodes,)
        The nodes, measured from a centre, and the logarithm of their weights.
    centres, used : ndarray, (n, m)
        As `shift_centres` gives them.
    row, centre : ndarray of int, (pairs,)
        The pairs, in the order of rows.
    """

    table: FieldTable
    scale: float
    z: Array
    log_weight: Array
    centres: Array
    used: AnyArray
    row: AnyArray
    centre: AnyArray

    @classmethod
    def around(
        cls, table: FieldTable, y: Array, step: float, offset: float, scale: float
    ) -> ShiftNodes:
        """Return the nodes around the centres of fields y (n, k)."""
        z, weight = shift_nodes(table, step, offset, scale)
        centres, used = shift_centres(table, y, scale)
        row, centre = np.nonzero(used)
        return cls(table, scale, z, np.log(weight), centres, used, row, centre)

    def shifts(self, part: slice) -> Array:
        """Return the shift at the nodes of some pairs, (pairs, nodes)."""
        return np.asarray(self.centres[self.row[part], self.centre[part]][:, None] + self.z)

    def share(self, part: slice, shift: Array) -> Array:
        """Return the partition of unity: the share (pairs, nodes) of each pair's own centre."""
        row = self.row[part]
        own = self.centre[part]
        distance = self.centres[row, None, :] - shift[..., None]
        near = closeness(distance, self.scale) * self.used[row, None, :]
        return np.asarray(near[np.arange(len(row)), :, own] / near.sum(-1))


@dataclass
class SumsAroundCentres:
    """Sums over the nodes of every pair (row, centre), each in units of its largest weight.

    Attributes
    ----------
    log_unit : ndarray, (pairs, 1 + k)
        The logarithm of the largest weight: with all classes, and without each.
    sums : ndarray, (pairs, k + 3)
        The sums of 1, c, ‖Pμ̃‖² and μ̃.
    sums_without : ndarray, (2, pairs, k)
        The sums of 1 and c without each class.
    """

    log_unit: Array
    sums: Array
    sums_without: Array

    @classmethod
    def empty(cls, n_pairs: int, k: int) -> SumsAroundCentres:
        """Return sums that are still to be filled."""
        return cls(
            np.zeros((n_pairs, 1 + k)), np.zeros((n_pairs, k + 3)), np.zeros((2, n_pairs, k))
        )

    def fill(self, nodes: ShiftNodes, y: Array, part: slice, *, others: bool) -> None:
        """Set the sums of some pairs, given all fields y (n, k)."""
        k = y.shape[1]
        shift = nodes.shifts(part)
        log_f, mean = nodes.table(y[nodes.row[part], None, :] - shift[..., None], 2)
        log_w = log_f.sum(-1) + nodes.log_weight + np.log(nodes.share(part, shift))
        self.log_unit[part, 0] = log_w.max(-1)
        w = np.exp(log_w - self.log_unit[part, :1])
        spread = (mean**2).sum(-1) - mean.sum(-1) ** 2 / k  # ‖Pμ̃‖²
        self.sums[part, 0] = w.sum(-1)
        self.sums[part, 1] = (w * shift).sum(-1)
        self.sums[part, 2] = (w * spread).sum(-1)
        self.sums[part, 3:] = np.matmul(w[:, None, :], mean)[:, 0]
        if others:
            self._fill_without(part, shift, log_w, log_f)

    def _fill_without(self, part: slice, shift: Array, log_w: Array, log_f: Array) -> None:
        """Set the sums without each class, from weights (pairs, nodes); `log_f` is overwritten."""
        log_w_without = np.subtract(log_w[..., None], log_f, out=log_f)
        self.log_unit[part, 1:] = log_w_without.max(1)
        w_without = np.exp(log_w_without - self.log_unit[part, None, 1:], out=log_f)
        self.sums_without[0, part] = w_without.sum(1)
        self.sums_without[1, part] = np.matmul(shift[:, None, :], w_without)[:, 0]

    def moments(self, row: AnyArray, n: int, *, others: bool) -> ShiftMoments:
        """Add up the centres of each of n rows; `row` (pairs,) is sorted."""
        first = np.searchsorted(row, np.arange(n))
        log_unit = np.maximum.reduceat(self.log_unit, first)
        unit = np.exp(self.log_unit - log_unit[row])
        sums = np.add.reduceat(self.sums * unit[:, :1], first)
        k = sums.shape[1] - 3
        total = sums[:, 0]
        means = sums[:, 3:] / sums[:, :1]
        hidden = sums[:, 2] / total - (means**2).sum(1) + means.sum(1) ** 2 / k
        without = None
        if others:
            sums_without = np.add.reduceat(self.sums_without * unit[:, 1:], first, axis=1)
            log_density_without = np.log(sums_without[0]) + log_unit[:, 1:]
            without = (log_density_without, sums_without[1] / sums_without[0])
        return ShiftMoments(
            log_density=np.log(total) + log_unit[:, 0],
            shift=sums[:, 1] / total,
            hidden=np.maximum(hidden, 0.0),
            others=without,
        )
