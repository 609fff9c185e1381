"""Make sides/weights/sign_rows.json: v(q̂) of ±1 weights at a few k and s (half an hour).

    python tools/sign_rows.py > src/polyceptron/sides/weights/sign_rows.json

Up to k = 9 on a lattice of fields, above sampled (`finite_row_variance`; the rows that are kept had
v in full sampled, with larger errors, not only what the shift hides). v is the
variance of u_1 = w_1 − w̄ (times k/r), class 1 is integrated by a matrix product over the unknown
common shift c, and the other classes stand for themselves. On the lattice they are y_h = n_h·step:
only their order and a common shift change nothing, so that one row 0 = n_2 ≤ … ≤ n_k stands for all
of its orderings. Everything is analytic in the fields, so the rule converges exponentially. Rows
grow class by class; those of negligible probability are dropped, and the probability that is
missing in the end bounds the error.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyceptron.numerics import Array
from polyceptron.numerics.special import points
from polyceptron.problem.priors import Prior, as_prior
from polyceptron.sides.weights.field_table import scalar_posterior
from polyceptron.sides.weights.finite_rows import finite_row_variance
from polyceptron.sides.weights.point_rows import support_of
from polyceptron.sides.weights.sign_table import PANELS

_AT_ONCE = 20_000  # rows that are grown together


class _Rows(NamedTuple):
    """Rows of j classes: the last n_h, its run of equal ones, the orderings, sums at every c."""

    last: NDArray[np.int64]  # (n,)
    run: Array  # (n,)
    orders: Array  # (n,), j! over the factorials of the runs
    log_f: Array  # (n, c): Σ_h ln f(y_h − c)
    mean: Array  # (n, c): Σ_h μ(y_h − c)
    variance: Array  # (n, c)

    def take(self, where: NDArray[np.int64]) -> _Rows:
        return _Rows(
            self.last[where],
            self.run[where],
            self.orders[where],
            self.log_f[where],
            self.mean[where],
            self.variance[where],
        )


class RowLattice:
    """The sums of one (prior, k, q̂); call `variance`."""

    def __init__(self, prior: Prior, k: int, q_hat: float, digits: float, dropped: float) -> None:
        values = support_of(prior)[0]
        s = math.sqrt(q_hat)
        self.k, self.dropped = k, dropped
        self.step, low, self.size = _places(values, k, s, digits)
        # f, μ and var at the place n + c of the lattice; outside f is nothing.
        place = np.arange(low, low + 2 * self.size, dtype=np.float64) * self.step
        log_f, mean, variance = scalar_posterior(prior, q_hat, place)
        f = np.exp(log_f)
        f[self.size :] = 0.0
        with np.errstate(divide="ignore"):
            log_f = np.log(f * self.step)
        shift = np.arange(self.size)
        self.tables = [
            t[shift[:, None] + shift] for t in (log_f, mean, variance)
        ]  # at [n, c], for n ≥ 0
        first = np.arange(-self.size + 1, self.size)[None, :] + shift[:, None]  # [c, n_1]
        inside = (first >= 0) & (first < self.size)
        first = np.where(inside, first, 0)
        f_1 = np.where(inside, (f * self.step)[first], 0.0)
        mu = mean[first] * (1 - 1 / k)
        var = variance[first] * (1 - 1 / k) ** 2
        self.kernels = np.hstack([f_1, f_1 * mu, f_1 * (mu**2 + var)])
        self.chance = 0.0

    def variance(self) -> tuple[float, float]:
        """v given that the row was not left out, and the probability that it was."""
        start = _Rows(
            np.zeros(1, dtype=np.int64),
            np.ones(1),
            np.ones(1),
            *(table[:1] for table in self.tables),
        )
        total = self._grown(start, 1)
        return total / self.chance * self.k / (self.k - 1), abs(1 - self.chance)

    def _grown(self, rows: _Rows, classes: int) -> float:
        """The sum over all rows that begin like these."""
        if classes == self.k - 1:
            return sum(
                self._summed(rows.take(np.arange(i, min(i + 2000, len(rows.last)))))
                for i in range(0, len(rows.last), 2000)
            )
        count = self.size - rows.last
        total = 0.0
        start = 0
        ends = np.cumsum(count)
        while start < len(count):
            done = ends[start - 1] if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, done + _AT_ONCE, side="right")))
            total += self._grown(self._longer(rows, start, stop, classes), classes + 1)
            start = stop
        return total

    def _longer(self, rows: _Rows, start: int, stop: int, classes: int) -> _Rows:
        """Rows with one class more, at or above the last; negligible ones dropped."""
        count = self.size - rows.last[start:stop]
        parent = np.repeat(np.arange(start, stop), count)
        offset = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        last = rows.last[parent] + offset
        run = np.where(offset == 0, rows.run[parent] + 1, 1.0)
        orders = rows.orders[parent] * (classes + 1) / run
        log_f = rows.log_f[parent] + self.tables[0][last]
        # All rows that begin like this one have no more probability than this, choices included.
        bound = orders * math.comb(self.k - 1, classes + 1) * np.exp(log_f).sum(1)
        keep = np.flatnonzero(bound > self.dropped)
        parent, last = parent[keep], last[keep]
        return _Rows(
            last,
            run[keep],
            orders[keep],
            log_f[keep],
            rows.mean[parent] + self.tables[1][last],
            rows.variance[parent] + self.tables[2][last],
        )

    def _summed(self, rows: _Rows) -> float:
        """Σ orders · ∫dy_1 Z Var(u_1) over rows of all the other classes."""
        k, m = self.k, self.kernels.shape[1] // 3
        w = np.exp(rows.log_f)
        shift, spread = rows.mean / k, rows.variance / k**2
        plain = w @ self.kernels
        shifted = (w * shift) @ self.kernels[:, : 2 * m]
        squared = (w * (shift**2 + spread)) @ self.kernels[:, :m]
        Z = plain[:, :m]
        first = plain[:, m : 2 * m] - shifted[:, :m]
        second = plain[:, 2 * m :] - 2 * shifted[:, m:] + squared
        self.chance += float(rows.orders @ Z.sum(1))
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(Z > 1e-200, first**2 / Z, 0.0)
        return float(rows.orders @ np.maximum(second - share, 0.0).sum(1))


def _places(values: Array, k: int, s: float, digits: float) -> tuple[float, int, int]:
    """The step of the lattice, its first place and how many there are, of fields and of c.

    A switch between values δ apart has poles at iπ/(sδ): its error is exp(−2π²/(sδ·step)). Seen by
    k fields, c is known to 1/√k: an error of exp(−2π²/(k·step²)).
    """
    gap = float(np.diff(values).max())
    step = min(math.pi * math.sqrt(2 / (k * digits)), 2 * math.pi**2 / (digits * s * gap + 1e-9))
    noise = math.sqrt(2 * digits)
    low = math.floor((s * values.min() - noise) / step)
    return step, low, math.ceil((s * values.max() + noise) / step) - low + 1


def row_lattice_variance(
    prior: Prior, k: int, q_hat: float, *, digits: float, dropped: float = 1e-12
) -> tuple[float, float]:
    """v at q̂, and the probability left out; the lattice's own error is exp(−digits).

    Rows less probable than `dropped` are left out.
    """
    return RowLattice(prior, k, q_hat, digits, dropped).variance()


def nodes() -> list[float]:
    """The values of s in the table, 0 apart."""
    every = {round(float(x), 9) for low, high, n in PANELS for x in points(low, high, n)}
    return sorted(every - {0.0})


# Lattices (k, digits, probability dropped): v is lost in what is dropped the sooner the larger s.
_FINEST = ((4, 18, 1e-15), (5, 16, 1e-14), (6, 14, 1e-13), (7, 12, 1e-12))
_FINE = ((4, 18, 1e-14), (5, 16, 1e-13), (6, 14, 1e-12), (7, 12, 1e-11), (8, 12, 3e-11))
_COARSE = ((4, 16, 1e-14), (5, 14, 1e-13), (6, 12, 1e-11), (7, 11, 1e-10), (8, 9.5, 1e-9))
_FAR = ((4, 13, 1e-12), (5, 11, 1e-10))


def _samples(log2: int, *few: tuple[int, int]) -> tuple[tuple[int, int], ...]:
    """Samples (k, log2 of their points)."""
    return (*few, (12, log2), (17, log2), (26, min(log2, 14)))


# Up to s: lattices and samples.
_RECIPE: tuple[tuple[float, tuple[tuple[int, float, float], ...], tuple[tuple[int, int], ...]], ...]
_RECIPE = (
    (1.2, _FINEST, _samples(11)),
    (1.9, (*_FINEST, (8, 12, 3e-12), (9, 11, 1e-11)), _samples(14)),
    (2.4, (*_FINE, (9, 10, 1e-10)), _samples(15)),
    (2.5, (*_FINE, (9, 10, 1e-10)), _samples(14)),
    (2.65, _COARSE, _samples(12)),
    (3.4, (*_FAR, (6, 10, 1e-9)), _samples(11, (7, 11), (9, 11))),
    (4.5, _FAR, _samples(11, (6, 12), (7, 11), (9, 11))),
    (math.inf, (_FAR[0], (5, 10, 1e-9)), _samples(11, (6, 12), (7, 11), (9, 11))),
)


def made(s: float) -> Iterator[tuple[float, int, float, float]]:
    """The rows of one s, computed anew: s, k, v and its standard error."""
    signs = as_prior("rademacher")
    _, lattices, samples = next(recipe for recipe in _RECIPE if s < recipe[0])
    for k, digits, dropped in lattices:
        v, missing = row_lattice_variance(signs, k, s * s, digits=digits, dropped=dropped)
        yield s, k, v, v * (math.exp(-digits) + 0.3 * missing)
    for k, log2 in samples:
        found = finite_row_variance(signs, k, s * s, log2)
        yield s, k, float(found.mean()), float(found.std(ddof=1)) / math.sqrt(found.size)


if __name__ == "__main__":
    lines = (f"[{s}, {k}, {v:.11g}, {e:.2g}]" for at in nodes() for s, k, v, e in made(at))
    sys.stdout.write("[\n" + ",\n".join(lines) + "\n]\n")
