"""The limit of a sequence whose corrections are powers of a known small number x.

    S(x) = S₀ + c₁ x + c₂ x² + …,        x₁ > x₂ > … > x_n > 0

The polynomial through m neighbouring points has at x = 0 the value (Richardson's extrapolation)

    T_m = Σ_i w_i S_i,        w_i = ∏_{j≠i} x_j/(x_j − x_i).

One difference of two such values can be small by cancellation, so that the error of T_m is taken to
be its largest distance from several other extrapolations: T_m without the last point and without
the last two, and T_{m−1} with and without the last point. Each of them is worse than T_m where the
series converges. What the values themselves are not known to is added as Σ_i |w_i| u_i, and m is
the one with the smallest sum of both.
"""

from typing import NamedTuple

import numpy as np

from polyceptron.numerics import Array

MOST_POINTS = 5  # in one polynomial: a sixth halves no bar, and amplifies the noise further


class ExtrapolatedLimit(NamedTuple):
    """S₀, the largest distance from other extrapolations, the noise, and w (n,), 0 if unused."""

    value: float
    truncation: float
    noise: float
    weights: Array

    @property
    def uncertainty(self) -> float:
        """Truncation and noise together."""
        return self.truncation + self.noise


def weights_at_zero(x: Array) -> Array:
    """Weights (m,) of the value at 0 of the polynomial through points at x (m,).

    >>> weights_at_zero(np.array([2.0, 1.0])).tolist()
    [-1.0, 2.0]
    """
    gaps = x[None, :] - x[:, None]
    np.fill_diagonal(gaps, 1.0)
    ratios = x[None, :] / gaps
    np.fill_diagonal(ratios, 1.0)
    return np.asarray(ratios.prod(1))


def limit_at_zero(x: Array, values: Array, uncertainty: Array) -> ExtrapolatedLimit:
    """The limit of `values` (n,), known to `uncertainty` (n,), at falling x (n,); n ≥ 2.

    >>> x = 2.0 ** -np.arange(6)
    >>> round(limit_at_zero(x, 1 + x + x**2, 0 * x).value, 12)
    1.0
    """
    most = max(2, min(MOST_POINTS, len(x) - 1))
    found = []
    for n_points in range(2, most + 1):
        found.append(_with_points(n_points, x, values, uncertainty))
    return min(found, key=lambda limit: limit.uncertainty)


def _with_points(n_points: int, x: Array, values: Array, uncertainty: Array) -> ExtrapolatedLimit:
    """The extrapolation from the last `n_points`, compared with its neighbours."""
    weights = _padded_weights(x, n_points, 0)
    value = float(weights @ values)
    others = [(n_points, 1), (n_points, 2), (n_points - 1, 0), (n_points - 1, 1)]
    truncation = 0.0
    for n_used, n_left_out in others:
        if n_used + n_left_out <= len(x):
            other = float(_padded_weights(x, n_used, n_left_out) @ values)
            truncation = max(truncation, abs(other - value))
    noise = float(np.abs(weights) @ uncertainty)
    return ExtrapolatedLimit(value, truncation, noise, weights)


def _padded_weights(x: Array, n_used: int, n_left_out: int) -> Array:
    """Weights (n,) of the polynomial through `n_used` points before the last `n_left_out`."""
    end = len(x) - n_left_out
    weights = np.zeros(len(x))
    weights[end - n_used : end] = weights_at_zero(x[end - n_used : end])
    return weights
