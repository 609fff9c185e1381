"""The Bayes-optimal error: fixed points at a given α, the best of them, and state evolution.

At each α the solution curve (see `ensemble`) is crossed once or several times:

    amp        the crossing of lowest overlap, which message passing reaches without side knowledge
    unstable   where the curve comes down: the barrier between the two
    informed   perfect learning (finite priors), or the same as amp (Gaussian prior)
    optimal    whichever stable point has the largest free entropy: the Bayes-optimal answer

`state_evolution` is the iteration q_{t+1} = F(αI(q_t)) itself, which message passing follows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyceptron.errors import InvalidInput
from polyceptron.model import AnyTeacher, GaussianPrior
from polyceptron.model.teacher import check_teacher
from polyceptron.numerics.qmc import summarise
from polyceptron.rows import Status, make_row
from polyceptron.theory.ensemble import Ensemble, Index, Points, ensemble
from polyceptron.theory.generalisation import angle, error_slope
from polyceptron.theory.prior import prior_entropy

Array = NDArray[Any]

Group = tuple[Points, Index]  # points of one branch, and the replicate that each belongs to

BRANCHES = ("optimal", "amp", "informed", "unstable")
DETERMINISTIC_TOL = 1e-8
SAMPLED_TOL = 1e-4
MAX_LOG2_POINTS = 11


@dataclass(frozen=True)
class FixedPoint:
    """One fixed point of the Bayes-optimal state evolution at α.

    `q` is the overlap and `v = 1 − q` its complement, kept apart for precision; in the paper's
    coordinates the overlap is the matrix `overlap_matrix`.
    """

    branch: str
    alpha: float
    n_classes: int
    q: float
    v: float
    q_hat: float
    free_entropy: float
    generalisation_error: float
    uncertainty: float
    status: Status = Status.OK

    @property
    def overlap_matrix(self) -> Array:
        """The paper's (k−1)×(k−1) matrix q̃ = q(I + 11ᵀ), after subtracting the last class."""
        return self.q * (np.eye(self.n_classes - 1) + 1.0)


def check_alpha(alpha: Any) -> list[float]:
    """The sample ratios as a list of floats, or a sentence."""
    try:
        values = [float(a) for a in np.atleast_1d(np.asarray(alpha, dtype=float)).ravel()]
    except (TypeError, ValueError):
        raise InvalidInput(f"alpha must be numbers of 0 or more, got {alpha!r}") from None
    if not values:
        raise InvalidInput("alpha must have at least one value")
    for a in values:
        if not math.isfinite(a) or a < 0:
            raise InvalidInput(f"alpha must be finite and 0 or more, got {a!r}")
        if a > 1e8 or 0 < a < 1e-12:
            raise InvalidInput(f"alpha must be 0, or from 1e-12 to 1e8, got {a!r}")
    return values


def check_tol(tol: Any, default: float) -> float:
    """The asked tolerance, or the default."""
    if tol is None:
        return default
    if not isinstance(tol, int | float) or not 0 < tol < 1:
        raise InvalidInput(f"the tolerance must be between 0 and 1, got {tol!r}")
    return float(tol)


def fixed_points(
    teacher: AnyTeacher, alpha: Any, tol: float | None = None, *, branch: str = "all"
) -> list[FixedPoint]:
    """All fixed points at each α: branches optimal, amp, informed, and unstable where it exists.

    `tol` is the wanted uncertainty of the generalisation error (default 1e-8 for k ≤ 3, 1e-4
    above, where sampling is refined until it is met); a point that misses it says so. With a
    `branch`, only that one is refined and returned.

    >>> from polyceptron.model import Teacher
    >>> point = fixed_points(Teacher(2), 1.0)[0]
    >>> round(point.generalisation_error, 6)
    0.254373
    """
    check_teacher(teacher)
    alphas = check_alpha(alpha)
    sampled = teacher.n_classes > 3
    tol = check_tol(tol, SAMPLED_TOL if sampled else DETERMINISTIC_TOL)
    aim = ("optimal", "amp") if branch == "all" else (branch,)
    levels = sampling_levels(teacher)
    level = levels[0]
    while True:
        curves = ensemble(teacher, level)
        points = [
            p
            for a, found in zip(alphas, _crossings(curves, alphas), strict=True)
            for p in _at_alpha(curves, a, found)
            if branch in ("all", p.branch)
        ]
        worst = max((p.uncertainty for p in points if p.branch in aim), default=0.0)
        if worst <= tol or level == levels[-1]:
            break
        # Errors fall as the points to the power 0.7 at least: go straight to what is needed.
        more = math.log2(min(worst / tol, 1e6)) / 0.7
        level = min(level + max(1, math.ceil(more)), levels[-1])
    return [
        replace(p, status=Status.TOLERANCE_NOT_MET) if p.uncertainty > tol else p for p in points
    ]


def sampling_levels(teacher: AnyTeacher) -> tuple[int, int]:
    """The first and the last sampling effort to try: log2 of the points of a replicate."""
    k = teacher.n_classes
    if k <= 3:
        return 0, 0
    return (6, MAX_LOG2_POINTS) if k <= 20 else (4, 10 if k <= 50 else 8)


def _at_alpha(
    curves: Ensemble, alpha: float, crossings: tuple[list[Group], list[Group]]
) -> list[FixedPoint]:
    k = curves.teacher.n_classes
    finite = not isinstance(curves.teacher.prior, GaussianPrior)
    if alpha == 0:
        nothing = FixedPoint("amp", 0.0, k, 0.0, 1.0, 0.0, 0.0, 1 - 1 / k, 0.0)
        return [replace(nothing, branch=b) for b in ("optimal", "amp")]
    perfect = FixedPoint(
        "informed", alpha, k, 1.0, 0.0, math.inf, -prior_entropy(curves.teacher), 0.0, 0.0
    )
    rising, falling = crossings
    stable = [_summary(curves, alpha, "amp", group) for group in rising]
    amp = stable[0] if stable else replace(perfect, branch="amp")
    candidates = [*stable, perfect] if finite else stable
    best = max(candidates, key=lambda p: p.free_entropy)
    result = [replace(best, branch="optimal"), amp]
    result.append(perfect if finite else replace(amp, branch="informed"))
    if falling:
        result.append(_summary(curves, alpha, "unstable", falling[-1]))
    return result


def _crossings(curves: Ensemble, alphas: list[float]) -> list[tuple[list[Group], list[Group]]]:
    """The curve's points at each α, rising and falling; each group has one point a replicate.

    Replicates in which a crossing is missing (close to a fold) are missing from its group.
    """
    groups: list[tuple[int, bool, list[tuple[int, int]]]] = []
    for n, alpha in enumerate(alphas):
        rising, falling = _brackets(curves, alpha)
        groups += [(n, True, group) for group in rising] + [(n, False, group) for group in falling]
    found: list[tuple[list[Group], list[Group]]] = [([], []) for _ in alphas]
    if not groups:
        return found
    # One bisection for all: a step costs about the same for one bracket as for hundreds.
    sizes = [len(group) for _, _, group in groups]
    wanted = np.repeat([alphas[n] for n, _, _ in groups], sizes)
    together, replicate = _refine(
        curves, wanted, [pair for _, _, group in groups for pair in group]
    )
    edges = np.cumsum([0, *sizes])
    for (n, up, _), low, high in zip(groups, edges[:-1], edges[1:], strict=True):
        part = Points(*(values[low:high] for values in together))
        found[n][0 if up else 1].append((part, replicate[low:high]))
    return found


def _brackets(
    curves: Ensemble, alpha: float
) -> tuple[list[list[tuple[int, int]]], list[list[tuple[int, int]]]]:
    """Where the grid passes α, as (grid index, replicate): groups of rising, and of falling."""
    above = curves.grid.alpha >= alpha  # (points, replicates)
    rising: list[list[tuple[int, int]]] = []
    falling: list[list[tuple[int, int]]] = []
    for replicate in range(above.shape[1]):
        flips = np.flatnonzero(above[1:, replicate] != above[:-1, replicate])
        for groups, kind in ((rising, True), (falling, False)):
            chosen = [i for i in flips if above[i + 1, replicate] == kind]
            for n, i in enumerate(chosen):
                if n == len(groups):
                    groups.append([])
                groups[n].append((int(i), replicate))
    return rising, falling


def _refine(curves: Ensemble, alpha: Array, brackets: list[tuple[int, int]]) -> Group:
    """Bisect ln q̂ in every bracket (grid index, replicate) at once, for its own α (n,)."""
    index, replicate = (np.array(column) for column in zip(*brackets, strict=True))
    grid = curves.grid
    low, high = np.log(grid.q_hat[index, replicate]), np.log(grid.q_hat[index + 1, replicate])
    rises = grid.alpha[index + 1, replicate] >= alpha
    for _ in range(60):
        middle = 0.5 * (low + high)
        too_high = (curves.points(np.exp(middle), replicate).alpha >= alpha) == rises
        low, high = np.where(too_high, low, middle), np.where(too_high, middle, high)
    return curves.points(np.exp(0.5 * (low + high)), replicate), replicate


def _summary(curves: Ensemble, alpha: float, branch: str, group: Group) -> FixedPoint:
    """The replicates' points as one, with its uncertainty."""
    k = curves.teacher.n_classes
    points, replicate = group
    errors = curves.errors(points.v)
    value, spread = summarise(errors)
    # Truncation: a relative error of α moves the error by its logarithmic slope along the curve.
    step = 1e-4
    moved = curves.points(points.q_hat * (1 + step), replicate)
    d_log_alpha = np.log(moved.alpha / points.alpha).mean() / step
    d_error = (error_slope(angle(points.v), k) * (angle(moved.v) - angle(points.v))).mean() / step
    relative = curves.relative_error(float(points.q_hat.mean()))
    truncation = abs(d_error / d_log_alpha) * relative if d_log_alpha else math.inf
    complete = points.v.size == curves.n_replicates
    return FixedPoint(
        branch=branch,
        alpha=alpha,
        n_classes=k,
        q=float(points.q.mean()),
        v=float(points.v.mean()),
        q_hat=float(points.q_hat.mean()),
        free_entropy=float(points.free_entropy.mean()),
        generalisation_error=float(value),
        uncertainty=float(np.hypot(spread, truncation)),
        status=Status.OK if complete else Status.TOLERANCE_NOT_MET,
    )


def bayes_rows(
    teacher: AnyTeacher, alpha: Any, branch: str = "optimal", tol: float | None = None
) -> list[dict[str, Any]]:
    """Rows of the Bayes-optimal theory; `branch` is optimal, amp, informed, unstable or all."""
    if branch not in (*BRANCHES, "all"):
        raise InvalidInput(f"unknown branch {branch!r}: allowed are {', '.join(BRANCHES)} and all")
    return [
        make_row(
            source="theory",
            model=teacher.model,
            n_classes=teacher.n_classes,
            prior=teacher.prior.name,
            estimator="bayes",
            alpha=p.alpha,
            branch=p.branch,
            m=p.q,
            q=p.q,
            V=p.v,
            generalisation_error=p.generalisation_error,
            uncertainty=p.uncertainty,
            free_entropy=p.free_entropy,
            status=p.status,
        )
        for p in fixed_points(teacher, alpha, tol, branch=branch)
    ]
