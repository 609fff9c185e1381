"""Where learning becomes possible and where it becomes easy.

    α_algo   the fold of the solution curve, max over q̂ of α(q̂): above it message passing recovers
             a finite-valued teacher perfectly
    α_IT     where Φ on the partly-learnt branch has sunk to −H, its value at perfect learning:
             above it the Bayes-optimal error is zero

Between the two, perfect learning is possible and, as far as is known, hard. A Gaussian prior has
neither. For k ≥ 4 both are read off with sampled points: the location comes from a coarse curve and
the value from a fine evaluation there, which is enough because both are stationary (α at its
maximum; Φ in q and q̂ at a fixed point), so that a small error of location does not matter.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyceptron.model import AnyTeacher, GaussianPrior
from polyceptron.model.teacher import check_teacher
from polyceptron.numerics.qmc import summarise
from polyceptron.rows import Status
from polyceptron.theory.bayes_optimal import MAX_LOG2_POINTS, check_tol
from polyceptron.theory.channel import channel_moments
from polyceptron.theory.ensemble import Ensemble, Index, ensemble
from polyceptron.theory.prior import prior_entropy, prior_variance

Array = NDArray[Any]


@dataclass(frozen=True)
class Transitions:
    """α_IT and α_algo with their uncertainties; both None where there is no transition."""

    model: str
    n_classes: int
    prior: str
    alpha_it: float | None
    alpha_it_uncertainty: float | None
    alpha_algo: float | None
    alpha_algo_uncertainty: float | None
    status: str

    def as_dict(self) -> dict[str, Any]:
        """The fields by name."""
        return asdict(self)

    def phase(self, alpha: float) -> str:
        """ "impossible", "hard" or "easy" perfect learning at α ("no transition" if none)."""
        if self.alpha_it is None or self.alpha_algo is None:
            return "no transition"
        if alpha < self.alpha_it:
            return "impossible"
        return "hard" if alpha < self.alpha_algo else "easy"


def transitions(teacher: AnyTeacher, tol: float | None = None) -> Transitions:
    """α_IT and α_algo of a teacher, to `tol` (default 1e-6 for k ≤ 3, 1e-3 above).

    >>> from polyceptron.model import Perceptron, Teacher
    >>> t = transitions(Perceptron("rademacher"))
    >>> round(t.alpha_it, 4), round(t.alpha_algo, 4)
    (1.2447, 1.4926)
    >>> transitions(Teacher(3, "gaussian")).alpha_it is None
    True
    """
    check_teacher(teacher)
    sampled = teacher.n_classes > 3
    tol = check_tol(tol, 1e-3 if sampled else 1e-6)
    if isinstance(teacher.prior, GaussianPrior):
        return _result(teacher, None, None, Status.OK)
    curves = ensemble(teacher, 6 if teacher.n_classes <= 20 else 4)
    algo, x_algo = curves.fold
    it, x_it = _equal_entropy(curves)
    estimates = [summarise(algo), summarise(it)]
    relative = [curves.relative_error(float(x.mean()) ** 2) for x in (x_algo, x_it)]
    values = [
        (float(e.value), float(np.hypot(e.uncertainty, e.value * r)))
        for e, r in zip(estimates, relative, strict=True)
    ]
    if sampled:
        values = _sharpen(teacher, float(x_algo.mean()), float(x_it.mean()), values, tol)
    worst = max(u for _, u in values)
    status = Status.OK if worst <= tol else Status.TOLERANCE_NOT_MET
    return _result(teacher, values[1], values[0], status)


def _result(
    teacher: AnyTeacher,
    it: tuple[float, float] | None,
    algo: tuple[float, float] | None,
    status: Status,
) -> Transitions:
    it_value, it_error = it or (None, None)
    algo_value, algo_error = algo or (None, None)
    return Transitions(
        teacher.model,
        teacher.n_classes,
        teacher.prior.name,
        it_value,
        it_error,
        algo_value,
        algo_error,
        str(status),
    )


def _equal_entropy(curves: Ensemble) -> tuple[Array, Array]:
    """Each replicate's α_IT and √q̂ there: Φ = −H on a rising part of the curve.

    With several rising parts the last crossing in α counts: below it some partly-learnt state wins.
    """
    goal = -prior_entropy(curves.teacher)
    grid = curves.grid
    x = np.sqrt(grid.q_hat[:, 0])
    alphas, roots = [], []
    for replicate in range(grid.alpha.shape[1]):
        phi, alpha = grid.free_entropy[:, replicate], grid.alpha[:, replicate]
        rising = alpha[1:] > alpha[:-1]
        flips = np.flatnonzero(((phi[1:] < goal) != (phi[:-1] < goal)) & rising)
        candidates = [_bisect_entropy(curves, x[i], x[i + 1], goal, replicate) for i in flips]
        # A rising part may end, at a fold, before Φ gets down to −H.
        folds = np.flatnonzero(rising[:-1] & ~rising[1:] & (phi[1:-1] > goal)) + 1
        candidates += [(float(alpha[i]), float(x[i])) for i in folds]
        best = max(candidates)
        alphas.append(best[0])
        roots.append(best[1])
    return np.array(alphas), np.array(roots)


def _bisect_entropy(
    curves: Ensemble, low: float, high: float, goal: float, replicate: int
) -> tuple[float, float]:
    which: Index = np.array([replicate])
    for _ in range(60):
        middle = 0.5 * (low + high)
        if curves.points(np.array([middle**2]), which).free_entropy[0] < goal:
            high = middle
        else:
            low = middle
    return float(curves.points(np.array([low**2]), which).alpha[0]), low


def _sharpen(
    teacher: AnyTeacher, x_algo: float, x_it: float, values: list[tuple[float, float]], tol: float
) -> list[tuple[float, float]]:
    """Evaluate α_algo and α_IT at their known locations with more and more points."""
    results = values
    last = MAX_LOG2_POINTS + 1 if teacher.n_classes <= 20 else 8
    for level in range(8, last + 1):
        if max(u for _, u in results) <= tol:
            break
        algo = results[0] if results[0][1] <= tol else _fine_fold(teacher, x_algo, level)
        it = results[1] if results[1][1] <= tol else _fine_entropy(teacher, x_it, level)
        results = [algo, it]
    return results


def _fine_fold(teacher: AnyTeacher, x: float, level: int) -> tuple[float, float]:
    """max α from three points around √q̂ = x; I between three overlaps by a quadratic in ln v."""
    k = teacher.n_classes
    roots = x * np.array([0.94, 1.0, 1.06])
    log_v = np.log(prior_variance(teacher, roots**2, level))  # (3, R)
    nodes = log_v.mean(1)
    v = np.exp(nodes)
    log_i = np.log(channel_moments(1 - v, v, k, level).information)
    n = log_v.shape[1]
    alpha = np.empty((3, n))
    for i in range(n):
        fit = np.polyfit(nodes, log_i[:, i % log_i.shape[1]], 2)
        alpha[:, i] = roots**2 / np.exp(np.polyval(fit, log_v[:, i]))
    fits = np.polyfit(np.log(roots / x), alpha, 2)
    peak = fits[2] - fits[1] ** 2 / (4 * fits[0])
    value, uncertainty = summarise(peak)
    return float(value), float(uncertainty)


def _fine_entropy(teacher: AnyTeacher, x: float, level: int) -> tuple[float, float]:
    """α_IT from Φ(q, q̂, α) = −H at fixed q̂ = x² and q = F(q̂): linear in α, stationary in both."""
    k, r = teacher.n_classes, teacher.reduced_rank
    nodes, weights = np.polynomial.legendre.leggauss(10)
    roots = 0.5 * x * (nodes + 1)
    v = prior_variance(teacher, np.append(roots, x) ** 2, level)
    psi = -r * (0.5 * x * weights * roots) @ v[:-1]  # ψ(q̂) = −(r/2) ∫ v dq̂
    v_here = np.array([v[-1].mean()])
    entropy = channel_moments(1 - v_here, v_here, k, level).entropy[0]
    energy = 0.5 * r * x**2 * v_here[0] + psi
    value, uncertainty = summarise((-prior_entropy(teacher) - energy) / entropy)
    return float(value), float(uncertainty)
