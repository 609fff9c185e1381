"""What a row of few values leaves unknown: sums over the points that it can take.

Seen as y = γ/√q̂ it has the density Σ_c p_c N(y; √q̂ u_c) over the points u_c = Pw_c, and

    v = (1/r) ∫ dy [ Σ_c w_c(y)‖u_c‖² − ‖Σ_c w_c(y) u_c‖²/Σ_c w_c(y) ],    w_c = p_c N(y; √q̂ u_c).

Sorted, the fields are known by their gaps: a lattice of gaps in equal steps is its own image under
every order of the classes, so that one order stands for k!. Boxes of it are halved as long as two
points or more are near, and left out where there is one: there the row is known.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from polyceptron.checks import difference_basis
from polyceptron.numerics import Array
from polyceptron.problem import AnyTeacher
from polyceptron.problem.priors.prior import Prior, reduced_support

NODES_OF_BOX = (1, 30, 24, 9, 5, 4)  # along each gap, by r
Index = NDArray[np.int64]

SAME_DIFFERENCE = 1e-8  # differences of values, in standard deviations, that count as equal
WIDE_ROWS = 2.0  # distance of rows below which every box counts, and the mass is that of the sum


def support_of(prior: Prior) -> tuple[Array, Array]:
    """Return values and probabilities of a finite prior, (n,) each."""
    assert prior.support is not None, prior.name
    return prior.support


def smallest_difference(prior: Prior) -> float:
    """Return the smallest gap between two differences of values of a finite prior, 0 included.

    Values −1, 0 and 1.1 have differences 1 and 1.1: the gap is 0.1.
    """
    values = support_of(prior)[0]
    gaps = np.diff(np.sort(np.subtract.outer(values, values), axis=None))
    return float(gaps[gaps > SAME_DIFFERENCE].min())


def switch_step(digits: float, apart: float) -> float:
    """Return the step of a lattice of fields that leaves e^−digits, for rows up to `apart` apart.

    Half-way between rows d apart a switch of size e^{−d²/8} has poles at ia, a = π/d, where unit
    normal noise has grown by e^{a²/2}: it leaves exp(−d²/8 + a²/2 − 2πa/step).
    """
    nearest = math.pi / math.sqrt(2 * digits)
    negligible = math.sqrt(8 * digits)  # a switch between rows farther apart is below e^−digits
    d = np.geomspace(nearest, max(min(apart, negligible), nearest), 100)
    worst = digits + (math.pi / d) ** 2 / 2 - d**2 / 8
    return float((2 * math.pi**2 / (d * np.maximum(worst, 1.0))).min())


@dataclass(frozen=True)
class FieldLattice:
    """A lattice of the fields' gaps, which all orders of the classes share.

    Attributes
    ----------
    rows : ndarray, (c, r)
        The points u that a row can take, in orthonormal coordinates.
    log_p : ndarray, (c,)
    n_classes : int
        Classes whose fields are sorted; 1 where one weight is seen alone.
    q_hat : float
    ways : ndarray, (r, r)
        The steps of the lattice: gap j lifts the first j classes.
    start : ndarray, (r,)
        The first point of the lattice.
    step, seen : float
        Its spacing, and the distance within which a row counts.
    whole : bool
        Whether every box counts, since no row is known anywhere.
    """

    rows: Array
    log_p: Array
    n_classes: int
    q_hat: float
    ways: Array
    start: Array
    step: float
    seen: float
    whole: bool

    @classmethod
    def of(cls, teacher: AnyTeacher, q_hat: float, digits: float) -> FieldLattice:
        """Return the lattice that leaves e^−digits of v."""
        values, p = support_of(teacher.prior)
        rows = values[:, None]
        log_p = np.log(p)
        k = 1
        if teacher.common_shift:
            k = teacher.n_classes
            rows, log_p = reduced_support(teacher.prior, k)
            rows = rows @ difference_basis(k)  # r orthonormal coordinates
        r = rows.shape[1]
        # Where close values are one, switches are as wide as all of them; a bar that is measured
        # tells, else the whole range is resolved.
        widest = float(np.ptp(values) if r < 3 else np.diff(values).max())
        apart = math.sqrt(q_hat) * widest
        if k > 1:
            apart *= math.sqrt(1 - 1 / k)
        digits += 6 / (1 + apart**2)  # v = 1 − q̂ + …: what is told counts, and a wide step is cheap
        step = switch_step(digits, apart)
        seen = math.sqrt(2 * (digits + r))
        if k > 1:
            lifted = np.tril(np.ones((r, k)))
            ways = math.sqrt(2) * step * lifted @ difference_basis(k)
            start = np.zeros(r)
        else:
            ways = np.full((1, 1), step)
            start = (math.sqrt(q_hat) * rows).min(0) - seen
        return cls(rows, log_p, k, q_hat, ways, start, step, seen, whole=apart < WIDE_ROWS)

    @property
    def rank(self) -> int:
        """The number r of coordinates."""
        return self.rows.shape[1]

    @property
    def centres(self) -> Array:
        """√q̂ u of every row, (c, r)."""
        return math.sqrt(self.q_hat) * self.rows

    @property
    def n_nodes(self) -> int:
        """The nodes of a box along each gap."""
        return NODES_OF_BOX[self.rank]

    @property
    def cell(self) -> float:
        """The volume of a cell, with the norm of the density."""
        volume = np.linalg.det(self.ways @ self.ways.T)
        return math.sqrt(volume / (2 * math.pi) ** self.rank)

    def boxes(self) -> Iterator[tuple[Index, Index, Array]]:
        """Yield first node (r,), rows near it (m,), and their distances from the middle (m, r).

        A box is halved as long as it is larger than its nodes; parts with no row that is unknown
        are left out.
        """
        n = self.n_nodes
        middle = 0.5 * (n - 1)
        local = np.indices((n,) * self.rank).reshape(self.rank, -1).T
        corners = np.linalg.norm((local - middle) @ self.ways, axis=1)
        far = float(corners.max()) / (n - 1)
        halves = np.indices((2,) * self.rank).reshape(self.rank, -1).T
        least_near = 0 if self.whole else 1  # with one row near, it is known
        size = n
        while size * self.step < float(np.ptp(self.centres)) + 2 * self.seen:
            size *= 2
        waiting = [(np.zeros(self.rank, dtype=int), size, np.arange(len(self.rows)))]
        while waiting:
            first, size, rows = waiting.pop()
            x = self.centres[rows] - (self.start + (first + 0.5 * (size - 1)) @ self.ways)
            if size == n:
                yield first, rows, x
                continue
            size //= 2
            parts = ((halves - 0.5) * size) @ self.ways
            squares = (x**2).sum(1) + (parts**2).sum(1)[:, None] - 2 * parts @ x.T
            near = squares < (self.seen + far * size) ** 2
            for number in np.flatnonzero(near.sum(1) > least_near):
                waiting.append((first + halves[number] * size, size, rows[near[number]]))


@lru_cache(maxsize=256)
def point_variance(teacher: AnyTeacher, q_hat: float, digits: float = 35.0) -> float:
    """Return v at q̂ to e^−digits."""
    lattice = FieldLattice.of(teacher, q_hat, digits)
    n = lattice.n_nodes
    local = np.indices((n,) * lattice.rank).reshape(lattice.rank, -1).T
    y = (local - 0.5 * (n - 1)) @ lattice.ways  # from the middle of a box
    y = np.column_stack([y, np.ones(len(y)), -0.5 * (y**2).sum(1)])
    variance = 0.0
    mass = 0.0
    for first, rows, x in lattice.boxes():
        left, total = _left_in_box(lattice, y, rows, x)
        orders = _orders(lattice.n_classes, local + first)
        variance += float(orders @ left)
        mass += float(orders @ total)
    if lattice.whole:
        return variance / lattice.rank / mass
    return variance / lattice.rank * lattice.cell


def _left_in_box(lattice: FieldLattice, y: Array, rows: Index, x: Array) -> tuple[Array, Array]:
    """Return what the nodes of a box leave unknown, and their probability, (nodes,) each.

    `y` (nodes, r + 2) are the nodes from the middle of the box with 1 and −‖y‖²/2, x (m, r) the
    rows near it.
    """
    u = lattice.rows[rows] - lattice.rows[rows].mean(0)
    of_rows = lattice.log_p[rows] - 0.5 * (x**2).sum(1)
    log_w = y @ np.vstack([x.T, of_rows, np.ones(len(x))])
    w = np.exp(log_w, out=log_w)
    moments = (w @ np.column_stack([np.ones(len(u)), (u**2).sum(1), u])).T
    total = moments[0]
    squared_mean = sum(part**2 for part in moments[2:])
    return moments[1] - squared_mean / np.maximum(total, 1e-300), total


def _orders(n_classes: int, gaps: Index) -> Array:
    """Return how many orders of the classes each node (nodes, r) of sorted fields stands for.

    It is k!, less where fields are equal.
    """
    run = np.ones(len(gaps))
    orders = math.factorial(n_classes) * run
    if n_classes == 1:
        return orders
    for equal in (gaps == 0).T:
        run = np.where(equal, run + 1, 1.0)
        orders /= run
    return orders


def point_error(teacher: AnyTeacher, q_hat: float, digits: float) -> float:
    """Return the relative error of `point_variance`: what two coarser lattices change."""
    v = point_variance(teacher, q_hat, digits)
    coarser = [point_variance(teacher, q_hat, digits - less) for less in (1, 2)]
    return sum(abs(other - v) for other in coarser) / v
