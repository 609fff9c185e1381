"""Theory on grids made for drawing: α close together at a fold, Φ over a grid of overlaps.

Near the fold α_algo of the solution curve both its branches go as q − q* ∝ ± √(α_algo − α), so that
values of α that are even in that root draw the turn round.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyceptron.model import AnyTeacher, GaussianPrior
from polyceptron.theory.bayes_optimal import check_alpha, fixed_points
from polyceptron.theory.ensemble import Ensemble, ensemble
from polyceptron.theory.prior import prior_entropy

Array = NDArray[np.float64]

FOLD_POINTS = 16
FOLD_SPAN = 0.12  # of α_algo, below it


def fold_grid(teacher: AnyTeacher, alpha: Sequence[float]) -> list[float]:
    """α_algo (1 − s t²), t = 1/n, …, 1, with what `alpha` (n,) has among them: to look closely at.

    Only inside the range of `alpha`; a Gaussian prior has no fold, and its list is empty.

    >>> from polyceptron.model import Perceptron, Teacher
    >>> near = fold_grid(Perceptron("rademacher"), [0.5, 1.4, 2.0])
    >>> len(near), round(near[-1], 3)
    (17, 1.492)
    >>> fold_grid(Teacher(3, "gaussian"), [0.5, 2.0])
    []
    """
    given = check_alpha(alpha)
    if isinstance(teacher.prior, GaussianPrior):
        return []
    at = float(_curves(teacher).fold[0].mean())
    steps = np.arange(FOLD_POINTS, 0, -1) / FOLD_POINTS
    values = (at * (1 - FOLD_SPAN * steps**2)).tolist()
    inside = [a for a in given if values[0] <= a <= at]
    return sorted({*inside, *(a for a in values if min(given) < a < max(given))})


def landscape(
    teacher: AnyTeacher, alpha: float, tol: float | None = None, n_points: int = 240
) -> dict[str, Any]:
    """Φ(q; α) = (r/2) q̂ v + ψ(q̂) + αΨ_out(q) with q̂ set by q = F(q̂), and its extrema.

    At fixed α this is stationary in q exactly where q̂ = αI(q), that is at the fixed points of state
    evolution (eq. SE_BO): maxima are stable, minima are barriers. Returns lists `q`, `free_entropy`
    (about `n_points` each) and `extrema` (branch, q, free_entropy, generalisation_error, to `tol`),
    and `perfect`, the value −H at q = 1 (null for a Gaussian prior, where Φ falls without bound).
    """
    points = fixed_points(teacher, alpha, tol)
    curves = _curves(teacher)
    grid = curves.grid.q_hat[:, 0]
    inside = [p.q_hat for p in points if 0 < p.q_hat < math.inf]
    q_grid = np.linspace(0.002, 0.998, n_points)
    v = curves.prior_variance(grid, np.zeros(grid.size, dtype=int))
    order = np.argsort(1 - v)
    q_hat = np.interp(q_grid, (1 - v)[order], grid[order])
    q_hat = np.unique(np.concatenate([q_hat[(q_hat > grid[0]) & (q_hat < grid[-1])], inside]))
    q, phi = free_entropy(teacher, q_hat, alpha)
    entropy = prior_entropy(teacher)
    perfect = None if math.isinf(entropy) else -entropy
    if perfect is not None:
        q, phi = np.append(q, 1.0), np.append(phi, perfect)
    extrema = [
        {
            "branch": p.branch,
            "q": p.q,
            "free_entropy": p.free_entropy,
            "generalisation_error": p.generalisation_error,
            "uncertainty": p.uncertainty,
        }
        for p in points
        if not (p.branch == "informed" and perfect is None)
    ]
    no_information = -math.log(teacher.n_classes)  # Ψ_out at q = 0: every label equally likely
    return {
        "alpha": alpha,
        "q": [0.0, *q.tolist()],
        "free_entropy": [alpha * no_information, *phi.tolist()],
        "perfect": perfect,
        "extrema": extrema,
    }


def free_entropy(teacher: AnyTeacher, q_hat: Array, alpha: float) -> tuple[Array, Array]:
    """q = F(q̂) and Φ(q; α) at each q̂ (n,), averaged over the replicates of the theory."""
    curves = _curves(teacher)
    R = curves.n_replicates
    points = curves.points(np.repeat(q_hat, R), np.tile(np.arange(R), q_hat.size))
    # The curve's own Φ is at α(q̂); Φ is linear in α with slope Ψ_out at fixed q.
    phi = points.free_entropy + (alpha - points.alpha) * points.channel_entropy
    return points.q.reshape(-1, R).mean(1), phi.reshape(-1, R).mean(1)


def _curves(teacher: AnyTeacher) -> Ensemble:
    return ensemble(teacher, 6 if teacher.n_classes <= 20 else 4)
