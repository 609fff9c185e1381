"""What a row of few values leaves unknown: sums over the points that it can take.

Seen as y = γ/√q̂ it has the density Σ_c p_c N(y; √q̂ u_c) over the points u_c = Pw_c, and

    v = (1/r) ∫ dy [ Σ_c w_c(y)‖u_c‖² − ‖Σ_c w_c(y) u_c‖²/Σ_c w_c(y) ],    w_c = p_c N(y; √q̂ u_c).

Sorted, the fields are known by their gaps: a lattice of gaps in equal steps is its own image under
every order of the classes, so that one order stands for k!. Boxes of it are halved as long as two
points or more are near, and left out where there is one: there the row is known.
"""

import math
from functools import lru_cache

import numpy as np

from polyceptron.checks import difference_basis
from polyceptron.numerics import Array
from polyceptron.problem import AnyTeacher
from polyceptron.problem.priors.prior import Prior, reduced_support

_BOX = (1, 30, 24, 9, 5, 4)  # nodes of a box along each gap, by r
SAME_DIFFERENCE = 1e-8  # differences of values, in standard deviations, that count as equal
_ALL = 2.0  # distance of rows below which every box counts, and the mass is that of the sum


def support_of(prior: Prior) -> tuple[Array, Array]:
    """Values and probabilities of a finite prior."""
    assert prior.support is not None, prior.name
    return prior.support


def smallest_difference(prior: Prior) -> float:
    """The smallest gap between two differences of values of a finite prior, those of 0 included.

    Values −1, 0 and 1.1 have differences 1 and 1.1: the gap is 0.1.
    """
    values = support_of(prior)[0]
    gaps = np.diff(np.sort(np.subtract.outer(values, values), axis=None))
    return float(gaps[gaps > SAME_DIFFERENCE].min())


def switch_step(digits: float, apart: float) -> float:
    """The step of a lattice of fields that leaves e^−digits, rows being up to `apart` apart.

    Half-way between rows d apart a switch of size e^{−d²/8} has poles at ia, a = π/d, where unit
    normal noise has grown by e^{a²/2}: it leaves exp(−d²/8 + a²/2 − 2πa/step).
    """
    nearest = math.pi / math.sqrt(2 * digits)
    negligible = math.sqrt(8 * digits)  # a switch between rows farther apart is below e^−digits
    d = np.geomspace(nearest, max(min(apart, negligible), nearest), 100)
    worst = digits + (math.pi / d) ** 2 / 2 - d**2 / 8
    return float((2 * math.pi**2 / (d * np.maximum(worst, 1.0))).min())


@lru_cache(maxsize=256)
def point_variance(teacher: AnyTeacher, q_hat: float, digits: float = 35.0) -> float:
    """v at q̂ to e^−digits: a lattice of the fields' gaps, which all orders of the classes share."""
    values, p = support_of(teacher.prior)
    points, log_p, k = values[:, None], np.log(p), 1
    if teacher.common_shift:
        k = teacher.n_classes
        points, log_p = reduced_support(teacher.prior, k)
        points = points @ difference_basis(k)  # r orthonormal coordinates
    r, centres = points.shape[1], math.sqrt(q_hat) * points
    # Where close values are one, switches are as wide as all of them; a bar that is measured
    # tells, else the whole range is resolved.
    apart = math.sqrt(q_hat) * float(np.ptp(values) if r < 3 else np.diff(values).max())
    apart *= math.sqrt(1 - 1 / k) if k > 1 else 1.0
    digits += 6 / (1 + apart**2)  # v = 1 − q̂ + …: what is told counts, and a wide step is cheap
    step, seen = switch_step(digits, apart), math.sqrt(2 * (digits + r))
    start, ways = np.zeros(r), np.full((1, 1), step)
    if k > 1:  # gap j lifts the first j classes, the fields being sorted
        ways = math.sqrt(2) * step * np.tril(np.ones((r, k))) @ difference_basis(k)
    else:
        start = centres.min(0) - seen
    n, whole = _BOX[r], apart < _ALL
    local = np.indices((n,) * r).reshape(r, -1).T
    y = (local - 0.5 * (n - 1)) @ ways  # from the middle of a box
    far = float(np.linalg.norm(y, axis=1).max()) / (n - 1)
    y = np.column_stack([y, np.ones(len(y)), -0.5 * (y**2).sum(1)])
    halves = np.indices((2,) * r).reshape(r, -1).T
    size = n
    while size * step < float(np.ptp(centres)) + 2 * seen:
        size *= 2
    boxes, sums = [(np.zeros(r, dtype=int), size, np.arange(len(points)))], np.zeros(2)
    while boxes:
        first, size, rows = boxes.pop()
        x = centres[rows] - (start + (first + 0.5 * (size - 1)) @ ways)
        if size > n:  # halve it, and keep with each part the rows around it
            size //= 2
            parts = ((halves - 0.5) * size) @ ways
            near = (x**2).sum(1) + (parts**2).sum(1)[:, None] - 2 * parts @ x.T
            near = near < (seen + far * size) ** 2
            for i in np.flatnonzero(near.sum(1) > (0 if whole else 1)):  # else the row is known
                boxes.append((first + halves[i] * size, size, rows[near[i]]))
            continue
        u = points[rows] - points[rows].mean(0)
        log_w = y @ np.vstack([x.T, log_p[rows] - 0.5 * (x**2).sum(1), np.ones(len(x))])
        w = np.exp(log_w, out=log_w)
        total, second, *first_u = (w @ np.column_stack([np.ones(len(u)), (u**2).sum(1), u])).T
        run = np.ones(len(y))
        orders = math.factorial(k) * run  # less where fields are equal
        for equal in (local + first == 0).T if k > 1 and not first.all() else ():
            run = np.where(equal, run + 1, 1.0)
            orders /= run
        left = second - sum(part**2 for part in first_u) / np.maximum(total, 1e-300)
        sums += orders @ left, orders @ total
    cell = math.sqrt(np.linalg.det(ways @ ways.T) / (2 * math.pi) ** r)
    return float(sums[0] / r * (1 / sums[1] if whole else cell))


def point_error(teacher: AnyTeacher, q_hat: float, digits: float) -> float:
    """The relative error that this leaves: what two coarser lattices change."""
    v = point_variance(teacher, q_hat, digits)
    return sum(abs(point_variance(teacher, q_hat, digits - less) - v) for less in (1, 2)) / v
