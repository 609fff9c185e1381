"""The free-entropy landscape Φ(q; α) of the Bayes-optimal student over its overlap q.

    Φ(q; α) = (r/2) q̂ v + ψ(q̂) + αΨ_out(q),     q = F(q̂), v = 1 − q, r = k − 1

with ψ the prior's free entropy and Ψ_out the channel's. It is stationary in q exactly at the fixed
points of state evolution (eq. SE_BO): maxima are stable, minima are barriers.

The curve of all fixed points (`theory/bayes/solution_curve.py`) knows Φ at each q̂ for the α(q̂) of
which it is the fixed point; since Φ is linear in α at fixed q, with slope Ψ_out, it is known at any
other α too (`free_entropy`).
"""

import math
from typing import Any

import numpy as np

from polyceptron.checks import check_alpha
from polyceptron.numerics import Array
from polyceptron.problem import AnyTeacher
from polyceptron.theory.bayes.fixed_points import fixed_points
from polyceptron.theory.bayes.solution_curve import SolutionCurve, curve_of

# v = 1 − q runs evenly between these; beyond the first, towards q = 1, evenly in ln v.
SMALLEST_EVEN_V = 0.002
LARGEST_EVEN_V = 0.998
SMALLEST_V = 1e-12  # of the last point before q = 1, where v is still well above rounding
COLUMNS_OF_EXTREMA = ("branch", "q", "free_entropy", "generalisation_error", "uncertainty")


def landscape(
    teacher: AnyTeacher, alpha: float, tol: float | None = None, n_points: int = 240
) -> dict[str, Any]:
    """Return the free entropy Φ(q; α) on a grid of overlaps, and its extrema.

    Parameters
    ----------
    teacher : Teacher or Perceptron
    alpha : float
        n/d.
    tol : float, optional
        The wanted uncertainty of the error at the extrema.
    n_points : int
        The number of values of q evenly spaced; about as many more lie close to q = 1.

    Returns
    -------
    dict
        Lists `q`, `free_entropy` and `extrema` (branch, q, free entropy, error); `perfect` is the
        value at q = 1, or None.

    Examples
    --------
    >>> from polyceptron.problem import Teacher
    >>> [point["branch"] for point in landscape(Teacher(3, "rademacher"), 2.6)["extrema"]]
    ['optimal', 'amp', 'informed', 'unstable']
    """
    alpha = check_alpha(alpha)
    points = fixed_points(teacher, alpha, tol)
    curve = curve_of(teacher)
    at_fixed_points = [p.q_hat for p in points if 0 < p.q_hat < math.inf]
    q_hat = np.unique(np.concatenate([_grid_of_q_hat(curve, n_points), at_fixed_points]))
    q, phi = free_entropy(teacher, q_hat, alpha)
    perfect = None
    if curve.perfect:
        perfect = float(curve.perfect_entropy(alpha))
        q = np.append(q, 1.0)
        phi = np.append(phi, perfect)
    extrema = []
    for point in points:
        if point.branch == "informed" and perfect is None:
            continue
        extrema.append({name: getattr(point, name) for name in COLUMNS_OF_EXTREMA})
    no_information = -math.log(teacher.n_classes)  # Ψ_out at q = 0: every label equally likely
    return {
        "alpha": alpha,
        "q": [0.0, *q.tolist()],
        "free_entropy": [alpha * no_information, *phi.tolist()],
        "perfect": perfect,
        "extrema": extrema,
    }


def _grid_of_q_hat(curve: SolutionCurve, n_points: int) -> Array:
    """Return values of q̂ (m,) at which v is even, or even in ln v where it is small.

    States of several scales lie close to q = 1, which even steps of v would pass over.
    """
    known_q_hat = curve.grid(0).q_hat
    known_v = curve.points(known_q_hat).v
    by_v = np.argsort(known_v)

    def q_hat_at(v: Array) -> Array:
        """Return q̂ at v, by interpolation."""
        return np.interp(v, known_v[by_v], known_q_hat[by_v])

    even = q_hat_at(np.linspace(SMALLEST_EVEN_V, LARGEST_EVEN_V, n_points))
    smallest = max(known_v.min(), SMALLEST_V)
    small_v = np.exp(np.linspace(math.log(SMALLEST_EVEN_V), math.log(smallest), n_points))
    close = q_hat_at(small_v[1:])
    return np.concatenate([even, close[close < known_q_hat[-1]]])


def free_entropy(teacher: AnyTeacher, q_hat: Array, alpha: float) -> tuple[Array, Array]:
    """Return q = F(q̂) and Φ(q; α), both (n,), at each q̂ (n,)."""
    points = curve_of(teacher).points(q_hat)
    # The curve's own Φ is at α(q̂); Φ is linear in α with slope Ψ_out at fixed q.
    return points.q, points.free_entropy + (alpha - points.alpha) * points.channel_entropy
