"""Hard-margin multi-class SVM: min ½‖W‖²_F with z_y − z_h ≥ 1 for every sample and h ≠ y.

It is the limit λ → 0⁺ of cross-entropy (in direction) on separable data. J has the constraints as
rows: a sample x/√d times a class difference v = e_y − e_h, so that JJᵀ is the Gram matrix of the
samples times that of the differences, entry by entry. Two methods find the constraints that hold
with equality; a direct solve JJᵀa = 1 then ends the search, with a bound near rounding.

Few unknowns against samples: an interior-point method. With margin − 1 = s and multipliers a,

    W = Jᵀa,    JW − 1 = s,    a∘s = 0,    a, s ≥ 0,

is followed from a∘s = μ to μ → 0 (predictor and corrector of Mehrotra). A step solves with
I + Jᵀdiag(a/s)J in the k − 1 differences to the last class: a matrix of (k−1)d unknowns, whatever
the data's conditioning, on which conjugate gradients would stall.

Elsewhere: an augmented Lagrangian,

    min_W ½‖W‖² + (c/2) Σ (1 + a/c − margin)₊²,     a ← (a + c(1 − margin))₊,

whose inner problems are strongly convex and smooth enough for Newton's method. With J the pushed
constraints its step has the Hessian I + cJᵀJ, and by Woodbury's identity

    D = −(I + cJᵀJ)⁻¹G = −(G − Jᵀ(JJᵀ + I/c)⁻¹JG),

so a penalty c that would stall conjugate gradients costs nothing. Before the direct solve,
multipliers a ≥ 0 are a feasible point of the dual, and dividing W by its smallest margin gives one
of the primal, so with W_a = Σ a x(e_y − e_h)ᵀ/√d

    ½‖W − Ŵ‖² ≤ gap = ½‖W − W_a‖² + Σ a (margin − 1),

a sum of terms that are not negative, hence accurate when it is tiny. The root of a gap is known to
about 1e-7 at best.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from polyceptron.algorithms.data_checks import Samples
from polyceptron.algorithms.design import Design
from polyceptron.algorithms.erm.erm_fit import ERMFit, SeparabilityOfData, fit_at
from polyceptron.algorithms.erm.newton import Direction, Minimum, minimise
from polyceptron.algorithms.erm.objectives import EPS, Evaluation, ShiftedHinge, sum_rounding
from polyceptron.algorithms.watching import Kept
from polyceptron.errors import ComputationFailed
from polyceptron.model.checks import difference_basis
from polyceptron.model.losses import Loss
from polyceptron.numerics import AnyArray, Array
from polyceptron.rows import Status

_LARGEST = 1e12  # entry of X/√d, or its inverse: squares in single precision hold no more
_ROUGH = 1e-2  # duality gap over ‖W‖² above which single precision will do
_BACK = 0.99  # of the way to the closest wall


def suits(design: Design, n_classes: int) -> bool:
    """Whether it is quicker than the augmented Lagrangian: measured, by a factor 1.3 to 14."""
    n, d = design.shape
    few = (n_classes - 1) * d <= 960 and float(n) * d * n_classes * d <= 3e10  # products of a step
    return few and n >= 4 * d and design.may_be_copied


def central_path(
    design: Design, y: NDArray[np.int64], n_classes: int
) -> Iterator[tuple[int, Array]]:
    """Steps and multipliers (k, n), 0 where s is the larger, whenever these have settled."""
    rows = design.scaled_rows(np.arange(y.size))
    if not 1 / _LARGEST < np.abs(rows).max() < _LARGEST:
        return
    path = _Path(rows, y, n_classes)
    before = np.zeros_like(path.own)
    for steps in range(1, 41):
        if not path.step() or not path.separable():
            return
        active = path.a > path.s
        if np.count_nonzero(active != before) <= 0.03 * np.count_nonzero(active):
            yield steps, np.where(active, path.a, 0.0)
        before = active


class _Path:
    """W (k, d), slacks s and multipliers a (k, n); the label's own row of both is idle."""

    def __init__(self, rows: Array, y: NDArray[np.int64], k: int) -> None:
        self.rows, self.y, self.k, self.samples = rows, y, k, np.arange(y.size)
        self.own = np.zeros((k, y.size), dtype=bool)
        self.own[y, self.samples] = True
        self.members = [np.flatnonzero(y == c) for c in range(k)]
        self.parts = [rows[members] for members in self.members]
        self.rough = [part.astype(np.float32) for part in self.parts]
        self.length = float(np.sqrt((rows**2).sum(1).max()))
        # Least squares on the margins, moved inside.
        unit = 1 / float(np.mean((rows**2).sum(1)))
        weight = np.where(self.own, 0.0, unit)
        self.W = self._solve(self._factor(weight, self.parts), self.back(weight))
        margins = self.margins(self.W)
        self.s = margins - 1
        self.a = unit * (1 - margins)
        self.s += max(-1.5 * float(self.s.min(initial=0.0, where=~self.own)), 0.0) + 0.01
        self.a += max(-1.5 * float(self.a.min(initial=0.0, where=~self.own)), 0.0) + 0.01 * unit
        self._idle()
        product = float((self.a * self.s).sum())
        self.s += 0.5 * product / float(self.a.sum())
        self.a += 0.5 * product / float(self.s.sum(where=~self.own))
        self._idle()

    def _idle(self) -> None:
        self.a[self.own], self.s[self.own] = 0.0, 1.0

    def margins(self, W: Array) -> Array:
        """z_y − z_h (k, n)."""
        z = W @ self.rows.T
        return np.asarray(z[self.y, self.samples] - z)

    def back(self, a: Array) -> Array:
        """Jᵀa (k, d)."""
        pull = -a
        pull[self.y, self.samples] = a.sum(0)
        return np.asarray(pull @ self.rows)

    def separable(self) -> bool:
        """False when a convex combination of the constraints is all but zero."""
        return float(np.linalg.norm(self.back(self.a))) > 1e-7 * self.length * float(self.a.sum())

    def _factor(self, weight: Array, parts: list[AnyArray]) -> Any:
        """The Cholesky factor of I + Jᵀdiag(weight)J in differences to the last class."""
        k, d = self.k, self.rows.shape[1]
        dtype = parts[0].dtype
        weight = weight.astype(dtype)
        matrix = np.zeros((k, d, k, d), dtype=dtype)
        for c, (members, part) in enumerate(zip(self.members, parts, strict=True)):
            weighted = part[:, None, :] * weight[:, members].T[:, :, None]
            product = (part.T @ weighted.reshape(len(part), k * d)).reshape(d, k, d)
            matrix[c] -= product  # Σ x w_h xᵀ over the samples of the class: w_c is 0
            matrix[:, :, c] -= product.swapaxes(0, 1)
        diagonal = -matrix.sum(2)
        for c in range(k - 1):
            matrix[c, :, c] = diagonal[c]
        same = np.arange(d)
        matrix[:-1, same, :-1, same] += (np.eye(k - 1) - 1 / k).astype(dtype)
        flat = matrix[:-1, :, :-1].reshape((k - 1) * d, (k - 1) * d)
        return scipy.linalg.cho_factor(flat, overwrite_a=True, check_finite=False)

    def _solve(self, factor: Any, right: Array) -> Array:
        """W (k, d) with columns that sum to zero, as those of the right-hand side do."""
        flat = scipy.linalg.cho_solve(factor, right[:-1].ravel(), check_finite=False)
        W = np.zeros_like(right)
        W[:-1] = flat.reshape(self.k - 1, -1)
        return W - W.mean(0)

    def step(self) -> bool:
        """One predictor and corrector; False where rounding ends the path."""
        count = self.own.size - self.y.size
        dual = self.W - self.back(self.a)
        primal = np.where(self.own, 0.0, self.margins(self.W) - 1 - self.s)
        mu = float((self.a * self.s).sum()) / count
        weight = self.a / self.s  # 0 for the label's own
        try:
            rough = mu * count > _ROUGH * float((self.W**2).sum())
            factor = self._factor(weight, self.rough if rough else self.parts)
        except np.linalg.LinAlgError:
            return False

        def towards(product: Array) -> tuple[Array, Array, Array]:
            product = np.where(self.own, 0.0, product / self.s)
            dW = self._solve(factor, -dual - self.back(product + weight * primal))
            ds = np.where(self.own, 0.0, self.margins(dW) + primal)
            return dW, ds, -product - weight * ds

        _, ds, da = towards(self.a * self.s)
        far = min(_reach(self.s, ds), _reach(self.a, da))
        there = float(((self.a + far * da) * (self.s + far * ds)).sum(where=~self.own)) / count
        dW, ds, da = towards(self.a * self.s + ds * da - mu * (there / mu) ** 3)
        far = min(1.0, _BACK * min(_reach(self.s, ds), _reach(self.a, da)))
        self.W, self.s, self.a = self.W + far * dW, self.s + far * ds, self.a + far * da
        return bool(np.isfinite(self.W).all()) and far > 1e-8


def _reach(x: Array, dx: Array) -> float:
    """The largest step, 1/0.99 at most, that leaves x ≥ 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return min(1 / _BACK, float(np.min(-x / dx, where=dx < 0, initial=np.inf)))


MAX_ACTIVE = 6000  # 0.3 GB for the matrix; beyond it conjugate gradients take over


class SeenRows:
    """Rows x/√d read so far and their Gram matrix: constraints come and go, samples come back.

    `batch` (n,) counts from 1 in which order samples were read, 0 for those that were not: a
    checkpoint that has it leads to the same sums, to the last bit.
    """

    def __init__(self, design: Design, batch: NDArray[np.int64]) -> None:
        self.design, self.batch = design, batch
        kept = batch.copy()
        self._forget()
        for number in range(1, int(kept.max(initial=0)) + 1):
            self.places(np.flatnonzero(kept == number))

    def _forget(self) -> None:
        self.batch[:] = 0
        self.place = np.zeros_like(self.batch)
        self.rows, self.gram = np.empty((0, self.design.dimension)), np.empty((0, 0))

    def places(self, samples: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where in `rows` these samples are; what was not seen before is read."""
        new = np.unique(samples[self.batch[samples] == 0])
        if new.size and len(self.rows) + new.size > MAX_ACTIVE:
            self._forget()
            new = np.unique(samples)
        if new.size:
            part = self.design.scaled_rows(new)
            cross = self.rows @ part.T
            self.place[new] = len(self.rows) + np.arange(new.size)
            self.batch[new] = self.batch.max() + 1
            self.rows = np.concatenate([self.rows, part])
            self.gram = np.block([[self.gram, cross], [cross.T, part @ part.T]])
        return self.place[samples]


class Constraints:
    """The constraints z_y − z_h ≥ 1 picked out by `mask` (k, n), as rows of J."""

    def __init__(self, seen: SeenRows, hinge: ShiftedHinge, mask: NDArray[Any]) -> None:
        self.others, self.samples = np.nonzero(mask)
        self.differences = hinge.basis[hinge.y[self.samples]] - hinge.basis[self.others]
        self.position = seen.places(self.samples)
        self.rows, self.products = seen.rows, seen.gram

    def gram(self, shift: float) -> Array:
        """JJᵀ + shift·I."""
        matrix: Array = self.products[np.ix_(self.position, self.position)]
        matrix *= self.differences @ self.differences.T
        matrix[np.diag_indices_from(matrix)] += shift
        return matrix

    def margins(self, U: Array) -> Array:
        """JU: one number per constraint."""
        result: Array = np.einsum("ir,ri->i", self.differences, (U @ self.rows.T)[:, self.position])
        return result

    def combine(self, shares: Array) -> Array:
        """Jᵀ·shares, shape (k−1, d)."""
        per_sample = np.zeros((self.rows.shape[0], self.differences.shape[1]))
        np.add.at(per_sample, self.position, shares[:, None] * self.differences)
        return np.asarray(per_sample.T @ self.rows)


def active_set_step(seen: SeenRows, hinge: ShiftedHinge) -> Direction:
    """The function (evaluation, gradient) ↦ Newton direction (1, k−1, d), for λ = 1."""

    def direction(here: Evaluation, G: Array) -> Array:
        pushed = Constraints(seen, hinge, here.source[0])
        if pushed.samples.size == 0:
            return -G
        matrix = pushed.gram(1 / hinge.penalty)
        try:
            factor = scipy.linalg.cho_factor(matrix, check_finite=False)
        except np.linalg.LinAlgError:  # rounding of nearly parallel constraints
            matrix[np.diag_indices_from(matrix)] += len(matrix) * EPS * np.trace(matrix)
            factor = scipy.linalg.cho_factor(matrix, overwrite_a=True, check_finite=False)
        shares = scipy.linalg.cho_solve(factor, pushed.margins(G[0]), check_finite=False)
        return pushed.combine(shares) - G

    return direction


@dataclass(frozen=True)
class _Certified:
    """Weights U (k−1, d), their fields (k−1, n), and a bound on the distance to the solution."""

    U: Array
    Z: Array
    bound: float

    def within(self, tol: float) -> bool:
        """Whether the distance bound is below the norm of the weights times this."""
        return self.bound <= tol * float(np.linalg.norm(self.U))


def solve_active(seen: SeenRows, hinge: ShiftedHinge, mask: NDArray[Any]) -> _Certified | None:
    """The max-margin solution from a guess of its active constraints, if that is nearly right.

    The margins of the mask are set to 1. Constraints with a multiplier below 0 then leave, those
    with a margin below 1 join (a primal and dual active set), as long as ever fewer do either.
    """
    changes = mask.size
    for _ in range(12):
        found = _at_equality(seen, hinge, mask)
        if found is None or isinstance(found, _Certified):
            return found
        before, changes = changes, int(np.count_nonzero(found != (mask > 0)))
        if not 0 < changes < before:
            return None
        mask = found
    return None


def _at_equality(
    seen: SeenRows, hinge: ShiftedHinge, mask: NDArray[Any]
) -> _Certified | NDArray[np.bool_] | None:
    """The point with margin 1 on every constraint of the mask, if that is the solution.

    JJᵀa = 1 is solved up to a residual δ. If a > 0 and every other margin exceeds 1 by more than
    δ can change them, then the exact solution of the same system meets all optimality conditions,
    and it lies at √(δᵀ(JJᵀ)⁻¹δ) from this one. If not, a better mask; None without a solution.
    """
    design = seen.design
    size = int(np.count_nonzero(mask))
    if not 0 < size <= min(MAX_ACTIVE, design.dimension * (mask.shape[0] - 1)):
        return None
    chosen = Constraints(seen, hinge, mask)
    matrix = chosen.gram(0.0)
    scale = float(np.abs(matrix).sum(0).max())
    try:
        factor = scipy.linalg.cho_factor(matrix, overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError:
        return None
    inverse_condition = float(scipy.linalg.lapack.dpocon(factor[0], scale)[0])
    if inverse_condition < 1e3 * EPS:
        return None
    shares = np.zeros(size)
    for _ in range(3):  # the solve, then two rounds of iterative refinement
        missing = 1 - chosen.margins(chosen.combine(shares))
        shares += scipy.linalg.cho_solve(factor, missing, check_finite=False)
    U = chosen.combine(shares)
    length = math.sqrt(2) * float(design.row_norms.max())  # no constraint is longer
    rounding = (8 * EPS + sum_rounding(design.dimension)) * length * float(np.linalg.norm(U))
    residual = float(np.linalg.norm(1 - chosen.margins(U))) + math.sqrt(size) * rounding
    inverse = 1 / (inverse_condition * scale)  # the 1-norm of (JJᵀ)⁻¹, not below its 2-norm
    # U is Jᵀa up to rounding of its own.
    bound = residual * math.sqrt(inverse)
    bound += (8 * EPS + sum_rounding(size)) * length * float(np.abs(shares).sum())
    Z = design.fields(U)
    margins = hinge.margins(Z)
    margins[hinge.y, np.arange(hinge.y.size)] = np.inf
    margins[chosen.others, chosen.samples] = np.inf
    if shares.min() <= residual * inverse or margins.min() <= 1 + length * bound + rounding:
        better = margins < 1
        better[chosen.others, chosen.samples] = shares > 0
        return better
    return _Certified(U, Z, bound)


_PATIENCE = 6  # rounds without a better bound


class NotSeparable(ComputationFailed):
    """No weights separate the data."""


@dataclass
class _Known:
    """What is known between two rounds: the last U (k−1, d), multipliers (k, n), the best."""

    U: Array
    multipliers: Array
    batch: NDArray[np.int64]  # of `SeenRows`, which changes it
    best: _Certified | None = None
    penalty: float = 10.0
    growth: float = 1e4
    turn: int = 0
    n_iter: int = 0
    stalled: int = 0
    exact: bool = False
    gradient_norm: float = math.nan


def fit_hard_margin(
    samples: Samples, loss: Loss, ridges: Sequence[float], tol: float, start: Array | None
) -> list[ERMFit]:
    """The separating weights of least norm, normalised to a smallest margin of 1, for any ridge."""
    design, y, k = samples
    rounds, basis = Kept(design, "max-margin"), difference_basis(k)

    def result(best: _Certified, n_iter: int, gradient_norm: float) -> ERMFit:
        weights = best.U.T @ basis.T
        return fit_at(
            samples, loss.name, 0.0, weights, basis @ best.Z, 0.0, best.bound,
            Status.OK if best.within(tol) else Status.TOLERANCE_NOT_MET, n_iter=n_iter,
            gradient_norm=gradient_norm, matrix_passes=design.passes - rounds.before,
            separability=SeparabilityOfData(True, weights),
        )  # fmt: skip

    none = np.zeros((k, y.size))
    if start is None and not rounds.known and suits(design, k):
        seen, hinge = SeenRows(design, np.zeros_like(y)), ShiftedHinge(y, k, none, 1.0)
        for steps, multipliers in central_path(design, y, k):
            vertex = solve_active(seen, hinge, multipliers)
            if vertex is not None and vertex.within(tol):
                return [result(vertex, steps, 0.0)] * len(ridges)
    U = np.zeros((k - 1, design.dimension)) if start is None else (start @ basis).T
    here = replace(_Known(U, none, np.zeros_like(y)), **rounds.known)
    if "best" in rounds.known:
        here.best = _Certified(**rounds.known["best"])
    seen = SeenRows(design, here.batch)
    try:
        while here.turn < 30 and not _round(samples, seen, here, rounds, tol):
            here.turn += 1
    except KeyboardInterrupt:
        best = here.best or _Certified(here.U, design.fields(here.U), math.inf)
        stop = result(best, here.n_iter, math.nan)
        proof = stop.separability if here.best else None
        return [replace(stop, status=Status.INTERRUPTED, separability=proof)] * len(ridges)
    rounds.ended()
    if here.best is None:
        raise NotSeparable(
            "no separating weights were found: the classes are not linearly separable, or by a "
            "margin too small to resolve; use a positive ridge with the cross-entropy loss"
        )
    return [result(here.best, here.n_iter, here.gradient_norm)] * len(ridges)


def _round(samples: Samples, seen: SeenRows, here: _Known, rounds: Kept, tol: float) -> bool:
    """One inner problem, and the multipliers and penalty that follow; whether it was the last."""
    design, y, k = samples
    hinge = ShiftedHinge(y, k, here.multipliers, here.penalty)
    rough = 10.0 ** (-2 - min(here.turn, 7))
    found = minimise(
        design, hinge, np.ones(1), here.U[None], target=max(rough, 1e-14 * here.penalty),
        direct=active_set_step(seen, hinge) if here.exact else None, max_iter=40,
        keeper=rounds.begin(here),
    )  # fmt: skip
    here.n_iter += int(found.n_iter[0])
    here.U, here.gradient_norm = found.U[0], float(found.gradient_norm[0])
    if found.interrupted:
        raise KeyboardInterrupt
    margins = hinge.margins(found.Z[0])
    multipliers = hinge.push(margins)
    # Not separable: a convex combination of the constraints' x(e_y − e_h)ᵀ is (almost) zero.
    combination = float(np.linalg.norm(design.back(found.evaluation.residual)))
    if combination < 1e-7 * float(design.row_norms.max()) * float(multipliers.sum()):
        raise NotSeparable(
            "there is no max-margin solution: the classes are not linearly separable (is_separable "
            "gives the proof); the cross-entropy loss with a ridge of 0 is the maximum-likelihood "
            "estimate there, and takes any ridge above 0"
        )
    gap = _from_gap(design, hinge, found, multipliers)
    candidates = (here.best, gap, solve_active(seen, hinge, multipliers))
    previous = math.inf if here.best is None else here.best.bound
    here.best = min(filter(None, candidates), key=lambda one: one.bound, default=None)
    if here.best is not None:
        improved = math.isinf(previous) or here.best.bound < 0.7 * previous
        here.stalled = 0 if improved else here.stalled + 1
        if here.best.within(tol) or here.stalled >= _PATIENCE:
            return True
    close = float(np.max(1 - margins, where=multipliers > 0, initial=0.0)) < 0.2
    few = bool(np.count_nonzero(multipliers) <= MAX_ACTIVE)
    if here.exact and not found.converged[0]:  # the penalty grew too fast: keep the multipliers
        here.growth = min(here.growth, 10.0)
        here.penalty /= 5
        return False
    here.exact = few and (close or here.turn > 0)  # at first by conjugate gradients
    fast = here.growth if here.exact and close else 10
    here.penalty = min(here.penalty * fast, 1e8 if few else 1e4)
    here.multipliers = multipliers
    return False


def _from_gap(
    design: Design, hinge: ShiftedHinge, found: Minimum, multipliers: Array
) -> _Certified | None:
    """U made feasible, with its duality gap; None while some sample is on the wrong side."""
    U, Z = found.U[0], found.Z[0]
    margins = hinge.margins(Z)
    margins[hinge.y, np.arange(hinge.y.size)] = np.inf
    smallest = float(margins.min())
    if smallest <= 0:
        return None
    dual = -design.back(hinge.pull(multipliers))
    stretch = 1 / smallest
    slack = np.where(multipliers > 0, stretch * margins - 1, 0.0)
    # Rounding of a margin relative to the smallest, and of the dual point.
    length = math.sqrt(2) * float(design.row_norms.max())
    norm, total = float(np.linalg.norm(U)), float(multipliers.sum())
    blur = (8 * EPS + sum_rounding(design.dimension)) * length * norm * stretch
    off = (8 * EPS + sum_rounding(design.n_samples)) * length * total + blur * norm * stretch
    gap = 0.5 * (float(np.linalg.norm(stretch * U - dual)) + off) ** 2
    gap += float((multipliers * np.maximum(slack, 0)).sum()) + blur * total
    return _Certified(stretch * U, stretch * Z, math.sqrt(2 * gap) + blur * norm * stretch)
