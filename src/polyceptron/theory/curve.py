"""One door to the theory: rows of a learning curve for any estimator, and grids made for drawing.

`fold_grid` has α close together where the Bayes-optimal branches turn or jump: near the fold α_algo
of the solution curve both its branches go as q − q* ∝ ± √(α_algo − α), so that values of α that are
even in that root draw the turn round. `landscape` is Φ over a grid of overlaps.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from polyceptron.model import AnyTeacher, Estimator, as_estimator
from polyceptron.model.checks import check_alphas
from polyceptron.model.law import Law
from polyceptron.model.teacher import check_teacher
from polyceptron.numerics import Array
from polyceptron.rows import make_row
from polyceptron.theory.bayes_optimal.fixed_points import fixed_points
from polyceptron.theory.bayes_optimal.solution_curve import curve_of
from polyceptron.theory.bayes_optimal.transitions import transitions


def curve_rows(
    teacher: AnyTeacher,
    estimator: Any,
    alpha: Any,
    *,
    branch: str = "optimal",
    tol: float | None = None,
    scores: bool = False,
) -> list[dict[str, Any]]:
    """Theory rows of `estimator` (an `Estimator` or its name) at each α.

    With `scores` those of the student's probabilities on fresh samples stand in each row too: test
    loss, Brier score and calibration error, where it has a scale.
    """
    every = [check_alphas(alpha)]
    return next(curve_parts(teacher, estimator, every, branch=branch, tol=tol, scores=scores))


def curve_parts(
    teacher: AnyTeacher,
    estimator: Any,
    parts: Iterable[Iterable[float]],
    *,
    branch: str = "optimal",
    tol: float | None = None,
    scores: bool = False,
) -> Iterator[list[dict[str, Any]]]:
    """The rows of each part of the α as soon as they are known."""
    check_teacher(teacher)
    student = as_estimator(estimator)
    for rows in student.parts(teacher, parts, branch=branch, tol=tol):
        yield [make_row(**r, **_scores(teacher, student, r)) for r in rows] if scores else rows


def _scores(teacher: AnyTeacher, estimator: Estimator, row: dict[str, Any]) -> dict[str, float]:
    """The scores at a row's law; none without data, or where the fields have no scale."""
    from polyceptron.theory.calibration import fresh_scores

    m, q, V = (float(row.get(name, math.nan)) for name in ("m", "q", "V"))
    hard = row.get("ridge") == 0 and row.get("training_error") == 0  # a direction only
    if hard or not (math.isfinite(q) and q > 0):
        return {}
    return fresh_scores(teacher, estimator, Law.of_overlaps(m, q, V))


FOLD_POINTS = 16
FOLD_SPAN = 0.12  # of α_algo, below it
BESIDE = 1e-4  # how close to a jump, relative to its α


def fold_grid(teacher: AnyTeacher, alpha: Sequence[float]) -> list[float]:
    """The α inside the range of `alpha` (n,) that draw the fold round and both jumps vertical.

    α_algo (1 − s t²), t = 1/n, …, 1, and points just before and after α_IT and α_algo; none where
    there is no fold.

    >>> from polyceptron.model import Perceptron, Teacher
    >>> near = fold_grid(Perceptron("rademacher"), [0.5, 2.0])
    >>> len(near), round(near[-1], 3)
    (20, 1.493)
    >>> fold_grid(Teacher(3, "gaussian"), [0.5, 2.0])
    []
    """
    given = check_alphas(alpha)
    found = transitions(teacher, 0.01 if teacher.n_classes > 3 else None)
    if found.alpha_it is None or found.alpha_algo is None:
        return []
    steps = np.arange(1, FOLD_POINTS + 1) / FOLD_POINTS
    values = [float(a) for a in found.alpha_algo * (1 - FOLD_SPAN * steps**2)]
    for jump in (found.alpha_it, found.alpha_algo):
        values += [jump * (1 - BESIDE), jump * (1 + BESIDE)]
    return sorted(a for a in values if min(given) < a < max(given))


def landscape(
    teacher: AnyTeacher, alpha: float, tol: float | None = None, n_points: int = 240
) -> dict[str, Any]:
    """Φ(q; α) = (r/2) q̂ v + ψ(q̂) + αΨ_out(q) with q̂ set by q = F(q̂), and its extrema.

    At fixed α this is stationary in q exactly where q̂ = αI(q), that is at the fixed points of state
    evolution (eq. SE_BO): maxima are stable, minima are barriers. Returns lists `q`, `free_entropy`
    (about `n_points` each) and `extrema` (branch, q, free_entropy, generalisation_error, to `tol`),
    and `perfect`, the value at q = 1 (null where learning is never perfect).
    """
    points = fixed_points(teacher, alpha, tol)
    curve = curve_of(teacher)
    grid = curve.grid(far=False).q_hat
    inside = [p.q_hat for p in points if 0 < p.q_hat < math.inf]
    q_grid = np.linspace(0.002, 0.998, n_points)
    v = curve.points(grid).v
    order = np.argsort(1 - v)
    q_hat = np.interp(q_grid, (1 - v)[order], grid[order])
    q_hat = np.unique(np.concatenate([q_hat[(q_hat > grid[0]) & (q_hat < grid[-1])], inside]))
    q, phi = free_entropy(teacher, q_hat, alpha)
    perfect = float(curve.perfect_entropy(alpha)) if curve.perfect else None
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
    """q = F(q̂) and Φ(q; α) at each q̂ (n,)."""
    points = curve_of(teacher).points(q_hat)
    # The curve's own Φ is at α(q̂); Φ is linear in α with slope Ψ_out at fixed q.
    phi = points.free_entropy + (alpha - points.alpha) * points.channel_entropy
    return points.q, phi
