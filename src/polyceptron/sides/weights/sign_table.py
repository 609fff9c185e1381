"""v(q̂) of ±1 weights for every k from 4 to 1000, from a table of a few values of k.

One row is seen as y_h = s w_h + ξ_h, s = √q̂, up to a shift common to its k classes. Were the shift
known, each class would leave m(q̂) = E(1 − tanh² sy) unknown; what one flipped sign looks like once
all others are known is the same with q̂(1 − 1/k), and the information that hides behind the shift,
E H(shift | y) = ½ ln(2πe/kJ) + c₁/k + …, fixes the next two terms for many classes,

    ln v = ln m(q̂(1 − 1/k)) − q̂ (q̂m)′/(kJ) + F_k(s)/k²,      J = 1 − q̂m,   c₁ = −q̂²(m′ + m²)/(4J²).

F_k is smooth in s and in 1/k, bounded, and known at k = ∞. For k ≤ 9 it was computed on a lattice,
for some larger k sampled (`tools/sign_rows.py`), at Chebyshev points of three ranges of s; in k
a few functions are fitted with the weights that the errors give, and pass their covariance on.
"""

import json
import math
from functools import lru_cache
from importlib.resources import files

import numpy as np

from polyceptron.numerics import AnyArray, Array
from polyceptron.numerics.special import ChebyshevProxy, coefficients, points
from polyceptron.problem.priors import Prior

PANELS = ((0.0, 1.25, 13), (1.25, 2.6, 11), (2.6, 5.2, 11))  # of s: both ends, points
EDGES = (*(low for low, _, _ in PANELS), PANELS[-1][1])
MISFIT_OF_F = 3e-4  # what the fit in k leaves of F where v is exact (k ≤ 9)
INTERPOLATION_ERROR = 3e-6  # of ln v: what the Chebyshev points leave between them
STANDARD_ERRORS_OF_A_BAR = 2.6  # they hold in 99 of 100 cases


def is_sign(prior: Prior) -> bool:
    """Say whether weights are ±1 with equal chances."""
    support = prior.support
    return support is not None and support[0].size == 2 and bool(np.all(support[1] == 0.5))


def sign_moments(s: Array) -> Array:
    """Return E g, E g² and E g³ of g = 1 − tanh² sy, y = s w + ξ.

    Parameters
    ----------
    s : ndarray, (n,)

    Returns
    -------
    ndarray, (3, n)
    """
    y = np.arange(-300, 301) * 0.05
    s = np.asarray(s, float)[:, None]
    density = 0.5 * (np.exp(-0.5 * (y - s) ** 2) + np.exp(-0.5 * (y + s) ** 2))
    g = 1 / np.cosh(s * y) ** 2
    return np.stack([(density * g**n).sum(1) for n in (1, 2, 3)]) * (0.05 / math.sqrt(2 * math.pi))


def leading(k: int, s: Array) -> Array:
    """Return ln v (n,) without the term F_k/k², at s (n,)."""
    m, square, _ = sign_moments(s)
    q_hat = np.asarray(s, float) ** 2
    flip = np.log(sign_moments(np.asarray(s) * math.sqrt(1 - 1 / k))[0])
    return np.asarray(flip - q_hat * (m - q_hat * square) / (1 - q_hat * m) / k)


def limit(s: Array) -> Array:
    """Return F (n,) for k → ∞ at s (n,): the next order of ln v in 1/k.

    It needs the derivatives by q̂ m′ = −E g² and m″ = 6 E g³ − 4 E g².
    """
    m, square, cube = sign_moments(s)
    q_hat = np.asarray(s, float) ** 2
    slope = -square  # m′
    bend = 6 * cube - 4 * square  # m″
    J = 1 - q_hat * m
    J_slope = -(m + q_hat * slope)
    spread = -(slope + m**2)
    spread_slope = -(bend + 2 * m * slope)
    c1_slope = q_hat * (2 * spread + q_hat * spread_slope - 2 * q_hat * spread * J_slope / J)
    c1_slope = c1_slope / (4 * J**2)
    curved = (bend * m - slope**2) / m**2  # (ln m)″
    F = 0.5 - 2 * c1_slope / m - 0.5 * (J_slope / (J * m)) ** 2 - 0.5 * q_hat**2 * curved
    return np.asarray(F)


class SignTable:
    """ln v of one k as a function of s = √q̂; build with `sign_table`.

    Attributes
    ----------
    k : int
    nodes : ndarray, (n,)
        The values of s at which F is known, from 0.
    error_at : ndarray, (n,)
        The uncertainty of ln v there.
    panels : list of ChebyshevProxy
        F on each range of s.
    """

    def __init__(self, k: int, rows: Array) -> None:
        self.k = k
        self.nodes, F, error = fitted(k, rows)
        self.error_at = error / k**2
        self.panels = [
            ChebyshevProxy(a, b, coefficients(np.interp(points(a, b, n), self.nodes, F)), error)
            for a, b, n in PANELS
        ]

    def log_variance(self, s: Array) -> Array:
        """Return ln v at s (n,); beyond the last panel F keeps its last value."""
        inside = np.minimum(s, EDGES[-1])
        number = np.searchsorted(EDGES[1:-1], inside, side="right")
        F = np.choose(number, [panel(inside) for panel in self.panels])
        return np.asarray(leading(self.k, s) + F / self.k**2)

    def error(self, s: float | AnyArray) -> Array:
        """Return the uncertainty of ln v at s, of any shape, in 99 of 100 cases."""
        near = np.minimum(1.0, np.square(s))
        return np.asarray(np.interp(s, self.nodes, self.error_at) + INTERPOLATION_ERROR * near)


def fitted(k: int, rows: Array) -> tuple[Array, Array, Array]:
    """Fit F_k in k at every node s that the rows have.

    Parameters
    ----------
    k : int
        Number of classes at which F is wanted.
    rows : ndarray, (m, 4)
        s, k, v and its standard error.

    Returns
    -------
    nodes, F, uncertainty : ndarray, (n,)
        At s = 0 and at each s of the rows.
    """
    nodes = np.unique(rows[:, 0])
    in_the_limit = limit(nodes)
    basis_at_k = _basis(np.array([float(k)]))[0]
    F = np.zeros(nodes.size + 1)
    uncertainty = np.zeros(nodes.size + 1)
    for i, s in enumerate(nodes):
        _, classes, v, spread = rows[rows[:, 0] == s].T
        lead = np.array([leading(int(c), np.array([s]))[0] for c in classes])
        above_limit = (np.log(v) - lead) * classes**2 - in_the_limit[i]
        weight = 1 / np.hypot(spread / v * classes**2, MISFIT_OF_F)
        A = _basis(classes) * weight[:, None]
        inverse = np.linalg.pinv(A)
        terms = inverse @ (above_limit * weight)
        residual = A @ terms - above_limit * weight
        misfit = float((residual**2).sum()) / (classes.size - terms.size)
        bar = STANDARD_ERRORS_OF_A_BAR * np.linalg.norm(basis_at_k @ inverse)
        F[i + 1] = in_the_limit[i] + basis_at_k @ terms
        uncertainty[i + 1] = bar * math.sqrt(max(1.0, misfit))
    return np.append(0.0, nodes), F, uncertainty


def _basis(k: Array) -> Array:
    """Return the functions of k (n,) that fit F less its limit, (n, 6).

    They are powers of 1/k; and 2^−k, the chance of equal signs, which hide a shift.
    """
    x = 4 / k
    rare = 2.0 ** (4 - k)
    return np.stack([x, x**2, x**3, x**4, rare, rare / x], -1)


@lru_cache(maxsize=1)
def table_rows() -> Array:
    """Return the rows (m, 4) that come with the package: s, k, v and its standard error."""
    text = files("polyceptron.sides.weights").joinpath("sign_rows.json").read_text()
    return np.array(json.loads(text), dtype=float)


@lru_cache(maxsize=64)
def sign_table(k: int) -> SignTable:
    """Return the table of k ≥ 4 classes."""
    return SignTable(k, table_rows())
