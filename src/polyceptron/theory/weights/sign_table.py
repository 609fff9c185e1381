"""v(q̂) of ±1 weights for every k from 4 to 1000, from a table of a few values of k.

One row is seen as y_h = s w_h + ξ_h, s = √q̂, up to a shift common to its k classes. Were the shift
known, each class would leave m(q̂) = E(1 − tanh² sy) unknown; what one flipped sign looks like once
all others are known is the same with q̂(1 − 1/k), and the information that hides behind the shift,
E H(shift | y) = ½ ln(2πe/kJ) + c₁/k + …, fixes the next two terms for many classes,

    ln v = ln m(q̂(1 − 1/k)) − q̂ (q̂m)′/(kJ) + F_k(s)/k²,      J = 1 − q̂m,   c₁ = −q̂²(m′ + m²)/(4J²).

F_k is smooth in s and in 1/k, small for small and bounded for large s, and known at k = ∞. For
k ≤ 9 it is computed on a lattice (`row_lattice`), for some larger k sampled (`finite_rows`), at
Chebyshev points of three ranges of s; in k a few functions are fitted with the weights that the
errors give, and pass their covariance on. `python -m polyceptron.theory.weights.sign_table`
makes the table again (half an hour) and prints it; a test remakes part.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files

import numpy as np
from numpy.polynomial import chebyshev

from polyceptron.model.priors import Prior, as_prior
from polyceptron.numerics import Array
from polyceptron.numerics.chebyshev import coefficients, points
from polyceptron.theory.weights.finite_rows import finite_row_variance
from polyceptron.theory.weights.row_lattice import row_lattice_variance

PANELS = ((0.0, 1.25, 13), (1.25, 2.6, 11), (2.6, 5.2, 11))  # of s: both ends, points
EDGES = (0.0, 1.25, 2.6, 5.2)
_MISFIT = 3e-4  # of F, what the fit in k leaves at an exact value
_INTERPOLATION = 3e-6  # of ln v, what the Chebyshev points leave
_CASES = 2.6  # standard errors: 99 of 100 cases


def is_sign(prior: Prior) -> bool:
    """Whether weights are ±1 with equal chances."""
    support = prior.support
    return support is not None and support[0].size == 2 and bool(np.all(support[1] == 0.5))


def sign_moments(s: Array) -> Array:
    """E g, E g², E g³ (3, n) of g = 1 − tanh² sy, y = s w + ξ, at s (n,)."""
    y = np.arange(-300, 301) * 0.05
    s = np.asarray(s, float)[:, None]
    density = 0.5 * (np.exp(-0.5 * (y - s) ** 2) + np.exp(-0.5 * (y + s) ** 2))
    g = 1 / np.cosh(s * y) ** 2
    scale = 0.05 / math.sqrt(2 * math.pi)
    return np.stack([(density * g**n).sum(1) * scale for n in (1, 2, 3)])


def leading(k: int, s: Array) -> Array:
    """ln v (n,) without F."""
    m, square, _ = sign_moments(s)
    q_hat = np.asarray(s, float) ** 2
    flip = np.log(sign_moments(np.asarray(s) * math.sqrt(1 - 1 / k))[0])
    result: Array = flip - q_hat * (m - q_hat * square) / (1 - q_hat * m) / k
    return result


def limit(s: Array) -> Array:
    """F (n,) for k → ∞; m′ = −E g², m″ = 6 E g³ − 4 E g²."""
    m, square, cube = sign_moments(s)
    q_hat = np.asarray(s, float) ** 2
    slope, bend = -square, 6 * cube - 4 * square
    J, J_slope = 1 - q_hat * m, -(m + q_hat * slope)
    spread, spread_slope = -(slope + m**2), -(bend + 2 * m * slope)
    c1_slope = q_hat * (2 * spread + q_hat * spread_slope - 2 * q_hat * spread * J_slope / J)
    c1_slope = c1_slope / (4 * J**2)
    curved = (bend * m - slope**2) / m**2  # (ln m)″
    result: Array = (
        0.5 - 2 * c1_slope / m - 0.5 * (J_slope / (J * m)) ** 2 - 0.5 * q_hat**2 * curved
    )
    return result


class SignTable:
    """ln v of one k; build with `sign_table`."""

    def __init__(self, k: int, rows: Array) -> None:
        self.k = k
        self.nodes, F, error = fitted(k, rows)
        self.error_at = error / k**2
        self.panels = []
        for low, high, n in PANELS:
            here = points(low, high, n)
            self.panels.append(coefficients(np.interp(here, self.nodes, F)))

    def log_variance(self, s: Array) -> Array:
        """ln v at s (n,) up to the last panel's end; F keeps its last value beyond."""
        s = np.asarray(s, dtype=float)
        inside = np.minimum(s, EDGES[-1])
        where = np.clip(np.searchsorted(EDGES, inside, side="right") - 1, 0, len(PANELS) - 1)
        F = np.empty_like(s)
        for i, (low, high, _) in enumerate(PANELS):
            mask = where == i
            x = (2 * inside[mask] - low - high) / (high - low)
            F[mask] = chebyshev.chebval(x, self.panels[i])
        return leading(self.k, s) + F / self.k**2

    def error(self, s: float) -> float:
        """Uncertainty of ln v, in 99 of 100 cases."""
        return float(np.interp(s, self.nodes, self.error_at)) + _INTERPOLATION * min(1.0, s**2)


def fitted(k: int, rows: Array) -> tuple[Array, Array, Array]:
    """Nodes s (n,), F_k there and its uncertainty, from rows (·, 4) of s, k, v and its error."""
    nodes = np.unique(rows[:, 0])
    end = limit(nodes)
    here = _basis(np.array([float(k)]))[0]
    F, error = np.zeros(nodes.size + 1), np.zeros(nodes.size + 1)
    for i, s in enumerate(nodes):
        _, classes, v, spread = rows[rows[:, 0] == s].T
        lead = np.array([leading(int(c), np.array([s]))[0] for c in classes])
        above = (np.log(v) - lead) * classes**2 - end[i]
        weight = 1 / np.hypot(spread / v * classes**2, _MISFIT)
        Q, R = np.linalg.qr(_basis(classes) * weight[:, None])
        found = np.linalg.solve(R, Q.T @ (above * weight))
        misfit = float(((_basis(classes) @ found - above) ** 2 * weight**2).sum())
        misfit /= classes.size - found.size
        F[i + 1] = end[i] + here @ found
        spread_here = float(np.linalg.norm(np.linalg.solve(R.T, here)))
        error[i + 1] = _CASES * spread_here * math.sqrt(max(1.0, misfit))
    return np.append(0.0, nodes), F, error


def _basis(k: Array) -> Array:
    """(n, 6): powers of 1/k; and 2^−k, the chance of equal signs, which hide a shift."""
    x, rare = 4 / k, 2.0 ** (4 - k)
    return np.stack([x, x**2, x**3, x**4, rare, rare / x], -1)


@lru_cache(maxsize=1)
def table_rows() -> Array:
    """The rows (·, 4) that come with the package: s, k, v and its standard error."""
    text = files("polyceptron.theory.weights").joinpath("sign_rows.json").read_text()
    return np.array(json.loads(text), dtype=float)


@lru_cache(maxsize=64)
def sign_table(k: int) -> SignTable:
    """The table of k ≥ 4 classes."""
    return SignTable(k, table_rows())


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
    import sys

    lines = (f"[{s}, {k}, {v:.11g}, {e:.2g}]" for at in nodes() for s, k, v, e in made(at))
    sys.stdout.write("[\n" + ",\n".join(lines) + "\n]\n")
