"""Newton's method: min_U Σ_μ ℓ(z_μ) + (λ/2)‖U‖², z = XU/√d, for many λ side by side.

Each step D is solved for whole where the problem is small, else by conjugate gradients,

    (Σ_μ x̂_μ x̂_μᵀ ⊗ H_μ + λ) D = −G,   x̂ = x/√d,

in single precision where that will do, to a loose tolerance; gradient and line search are in double
precision, so the steps act as iterative refinement and the answer has double-precision accuracy.
What rounding does to the gradient counts against the goal (`gradient_rounding`). The first axis of
all arrays counts the λ: they do not mix, but share every read of X, which is what the time goes
into, and drop out as they reach their goal. A line search costs no pass over X.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyceptron.data.checks import Labels
from polyceptron.data.design import Design
from polyceptron.fit.solvers.intercept import Intercept, certificate, pulls_of, size_of
from polyceptron.fit.solvers.objectives import Curvature, Evaluation, Objective, lengths, norms
from polyceptron.numerics import AnyArray, Array

Direction = Callable[[Evaluation, Array], Array]
Ease = Callable[[AnyArray, Labels], AnyArray]
"""Residuals (m, r, d) and which problems they are of, to about the inverse Hessians' images."""

_LOOSE = 0.3  # of the gradient, left by the first solves: far away, an exact Newton step is waste
_PATIENCE = 3  # slow steps next to the minimum, in double precision
_WHOLE = 3_000_000  # products for all of a Hessian, up to which that is the quicker way


def sample_matrices(curvature: Curvature, shape: tuple[int, ...]) -> AnyArray:
    """H_μ of every sample, (L, n, r, r), of problems with fields of the shape (L, r, n)."""
    count, r, n = shape
    units = np.broadcast_to(np.eye(r)[:, None, :, None], (r, count, r, n))
    columns = np.array([curvature(unit.copy())[0] for unit in units])  # n is contiguous
    return columns.transpose(1, 3, 2, 0)


def whole_hessian(rows: AnyArray, H: AnyArray, ridge: Any) -> AnyArray:
    """Σ x̂x̂ᵀ ⊗ H + λ, (…, r·d, r·d), of rows x̂ (n, d) and H (…, n, r, r); λ also (…, d)."""
    d, r, lead = rows.shape[1], H.shape[-1], H.shape[:-3]
    whole = np.empty((*lead, r, d, r, d), rows.dtype)
    for a, b in combinations_with_replacement(range(r), 2):
        block = (rows.T * H[..., None, :, a, b]) @ rows
        whole[..., a, :, b, :], whole[..., b, :, a, :] = block, block.swapaxes(-1, -2)
    np.einsum("...ijij->...ij", whole)[...] += np.broadcast_to(ridge, (*lead, d))[..., None, :]
    return whole.reshape(*lead, r * d, r * d)


def solve_whole(
    design: Design, objective: Objective, here: Evaluation, ridges: Array, G: Array
) -> Array | None:
    """Newton directions (L, r, d) of a small smooth problem; None of others and singular ones."""
    large = G.size * G[0].size * design.n_samples > _WHOLE
    if large or design.reading_is_dear or objective.kinked:
        return None
    H = sample_matrices(objective.curvature(here, np.float64), here.residual.shape)
    whole = whole_hessian(design.scaled_rows(slice(None)), H, by_feature(ridges)[:, 0])
    with suppress(np.linalg.LinAlgError):
        D: Any = np.linalg.solve(whole, -G.reshape(len(G), -1, 1)).reshape(G.shape)
        return D if (dots(D, G) < 0).all() else None
    return None


def solve_newton(
    design: Design,
    curvature: Curvature,
    ridges: Array,
    gradients: Array,
    tolerance: Array,
    dtype: Any,
    ease: Ease | None = None,
) -> Array:
    """Directions (L, r, d) with residuals below `tolerance` (L,) times the gradients' norms.

    Eased by what is given, else by the diagonal where features are uneven; ridges (L,) or (L, d).
    """
    scale = np.sqrt(dots(gradients, gradients))
    r: AnyArray = (-gradients / scale[:, None, None]).astype(dtype)
    shift = by_feature(ridges).astype(dtype)
    out = np.zeros_like(gradients)
    index = np.arange(len(r))
    ease = ease or _diagonal(design, curvature, ridges, dtype)
    D, size = np.zeros_like(r), dots(r, r)
    s = r if ease is None else ease(r, index)
    p, rho = s.copy(), size if ease is None else dots(r, s)
    for _ in range(min(1000, 10 * r[0].size)):  # exactly, the unknowns would do
        Hp = design.through(p, curvature)[0]
        Hp += shift * p
        bend = dots(p, Hp)
        fine = bend > 0  # else rounding only: the Hessian is positive definite
        step = np.where(fine, rho / np.where(fine, bend, 1.0), 0.0).astype(dtype)[:, None, None]
        D += step * p
        r -= step * Hp
        last, size = rho, dots(r, r)
        going = fine & (size > tolerance[index] ** 2)
        if not going.all():
            out[index[~going]] = D[~going]
            index = index[going]
            if index.size == 0:
                break
            D, r, p, shift = D[going], r[going], p[going], shift[going]
            last, size, curvature = last[going], size[going], curvature.take(going)
        s = r if ease is None else ease(r, index)
        rho = size if ease is None else dots(r, s)
        p *= (rho / last).astype(dtype)[:, None, None]
        p += s
    else:
        out[index] = D
    return out * scale[:, None, None]


def directions(
    design: Design,
    objective: Objective,
    here: Evaluation,
    ridges: Array,
    G: Array,
    tolerance: Array,
    double: NDArray[np.bool_],
) -> Array:
    """Newton directions (L, r, d), in single precision or `double` (L,)."""
    D = np.empty_like(G)
    for dtype, chosen in ((np.float32, ~double), (np.float64, double)):
        if chosen.any():
            curvature = objective.curvature(here.take(chosen), dtype)
            part = ridges[chosen], G[chosen], tolerance[chosen]
            with np.errstate(over="ignore", invalid="ignore"):
                D[chosen] = solve_newton(design, curvature, *part, dtype)
    D[~np.isfinite(D).all(axis=(1, 2))] = 0.0  # beyond single precision: no step, then in double
    return D


def _diagonal(design: Design, curvature: Curvature, ridges: Array, dtype: Any) -> Ease | None:
    """About the inverse of the Hessian's diagonal where some features are far louder than the rest.

    Or where their ridges differ, as that of an intercept does. Others go without.
    """
    if design.reading_is_dear:
        squares = np.full(design.dimension, float((design.row_norms**2).sum()) / design.dimension)
    else:
        squares = design.column_squares
    if ridges.ndim == 1 and squares.max() <= 5 * squares.mean():
        return None
    diagonal = np.maximum(curvature.mean(), 0.0)[:, None] * squares + by_feature(ridges)[:, 0]
    seen = diagonal > np.finfo(dtype).tiny  # else flat: an intercept where every p is 0 or 1
    inverse = np.where(seen, 1 / np.where(seen, diagonal, 1.0), 0.0).astype(dtype)[:, None]
    return lambda r, at: r * inverse[at]


def by_feature(ridges: Array) -> Array:
    """Ridges of each problem (L,), or of each of its features too (L, d), beside U (L, r, d)."""
    return ridges.reshape(len(ridges), 1, -1)


def dots(A: AnyArray, B: AnyArray) -> Array:
    """⟨A, B⟩ of each problem, (L,), in double precision."""
    return np.asarray(np.einsum("lij,lij->l", A, B, dtype=np.float64))


def line_search(
    design: Design,
    objective: Objective,
    ridges: Array,
    U: Array,
    Z: Array,
    here: Evaluation,
    G: Array,
    D: Array,
) -> tuple[Array, Evaluation, Array]:
    """Steps (L,) halved until the objective falls by the Armijo rule, 0 if it never does.

    Returns the evaluation there too, and the fields (L, r, n); Z are those at U.
    """
    slope = dots(G, D)
    ZD, pull = design.fields(D), by_feature(ridges)
    linear, quadratic = dots(pull * U, D), 0.5 * dots(pull * D, D)
    # Differences below the rounding of the sum carry no information: let them pass.
    noise = 4 * np.finfo(Z.dtype).eps * (np.abs(here.value) + 0.5 * dots(pull * U, U))
    step = np.where(slope < 0, 1.0, 0.0)
    open_, new, there = np.flatnonzero(step), Z.copy(), here
    for _ in range(40 if open_.size else 0):
        t = step[open_]
        new[open_] = Z[open_] + t.astype(Z.dtype)[:, None, None] * ZD[open_]
        trial = objective.take(open_).evaluate(new[open_])
        change = trial.value - here.value[open_] + t * linear[open_] + t * t * quadratic[open_]
        good = change <= 1e-4 * t * slope[open_] + noise[open_]
        there = trial if open_.size == len(step) else there.replace(open_, trial)
        if good.all():
            break
        open_ = open_[~good]
        step[open_] *= 0.5
    else:
        step[open_] = 0.0
        new[open_] = Z[open_]
        there = there.replace(open_, here.take(open_))
    return step, there, new


@dataclass(frozen=True)
class NewtonMinimum:
    """U (L, r, d), its fields Z (L, r, n), the evaluation there, and what was reached (L,).

    The gradient's norm and rounding, a bound on the distance to the minimum, and whether that is
    within the target, or the minimum is 0 to rounding.
    """

    U: Array
    Z: Array
    evaluation: Evaluation
    gradient_norm: Array
    rounding: Array
    distance: Array
    n_iter: NDArray[np.int64]
    converged: NDArray[np.bool_]
    interrupted: bool = False


def newton_minimise(
    design: Design,
    objective: Objective,
    ridges: Array,
    start: Array,
    *,
    target: float,
    direct: Direction | None = None,
    max_iter: int = 100,
    keep: Callable[[Array], None] | None = None,
    intercept: Intercept | None = None,
) -> NewtonMinimum:
    """Minimise from `start` (L, r, d) at each λ until ‖gradient‖ ≤ target·λ‖U‖, rounding included.

    Strong convexity then gives ‖U − Û‖ ≤ target·‖U‖. `direct` replaces conjugate gradients where
    the Newton step can be had in closed form. `keep` is given U after every step, and with it
    KeyboardInterrupt ends the descent where it is. The column of an `intercept` bears no ridge.
    """
    U = np.array(start, dtype=float)
    at = _Newton(design, objective, ridges, target, direct, max_iter, keep, intercept, U)
    try:
        return at.minimum()
    except KeyboardInterrupt:
        if keep is None:
            raise
        unknown, no = np.full(len(U), np.nan), np.zeros(len(U), dtype=bool)
        here = objective.evaluate(at.Z)
        return NewtonMinimum(U, at.Z, here, unknown, unknown, unknown, at.count, no, True)


def distances(
    design: Design,
    objective: Objective,
    intercept: Intercept | None,
    ridges: Array,
    U: Array,
    Z: Array,
    here: Evaluation,
    G: Array,
    target: float,
) -> tuple[Array, Array, Array]:
    """Rounding of the gradients G, distance to the minimum, and that which is enough, (L,)."""
    stiffness, enough = objective.stiffness(here), target * size_of(intercept, U)
    if stiffness is None:
        return 0 * enough, norms(G) / ridges, enough
    bend: Any = objective.curvature
    rounding, distance = certificate(
        design,
        intercept,
        ridges,
        U,
        G,
        (lengths(Z), lengths(here.residual), stiffness),
        objective.smoothness,
        lambda: bend(here, np.float64).total(),
        enough,
    )
    return rounding, distance, enough


@dataclass
class _Newton:
    """A descent: U (L, r, d), its fields Z (L, r, n), the steps made and allowed (L,)."""

    design: Design
    objective: Objective
    ridges: Array
    target: float
    direct: Direction | None
    max_iter: int
    keep: Callable[[Array], None] | None
    intercept: Intercept | None
    U: Array

    def __post_init__(self) -> None:
        U, Z = self.U, np.zeros((*self.U.shape[:2], self.design.n_samples))
        self.Z = self.design.fields(U) if U.any() else Z
        self.first = np.full(len(U), np.inf)  # gradients, beside which it is seen what is near
        if U.any() and self.objective.smoothness is not None:
            self.first = norms(self.design.back(self.objective.evaluate(Z).residual))
        self.count, self.limit = np.zeros(len(U), np.int64), np.full(len(U), self.max_iter)

    def minimum(self) -> NewtonMinimum:
        """Descents, each followed by fresh fields: those of the way are updated along it."""
        every = np.arange(len(self.U))
        for stage in range(4):
            here = self.objective.evaluate(self.Z)
            G, norm, goal = self.gradient(here, every)
            todo = np.flatnonzero((norm > goal) & (self.count < self.limit))
            if todo.size == 0 or stage == 3:
                break
            self.descend(todo)
            self.limit = np.minimum(self.count + 4, self.max_iter)  # to repair what had piled up
            self.Z = self.design.fields(self.U)
        rounding, distance, enough = self.certificate(every, here, G)
        met = distance <= enough
        found = NewtonMinimum(self.U, self.Z, here, norm, rounding, distance, self.count, met)
        return found if met.all() or self.max_iter == 0 else self.zero_where_minimal(found)

    def certificate(self, index: Labels, here: Evaluation, G: Array) -> tuple[Array, Array, Array]:
        own = self.design, self.objective, self.intercept, self.ridges[index]
        return distances(*own, self.U[index], self.Z[index], here, G, self.target)

    def zero_where_minimal(self, found: NewtonMinimum) -> NewtonMinimum:
        """U = 0 where the gradient there is no more than rounding: no relative bound can be met."""
        at = replace(self, U=np.zeros_like(self.U), max_iter=0).minimum()
        chosen = np.flatnonzero(~found.converged & (at.gradient_norm <= at.rounding))
        for name in ("U", "Z", "gradient_norm", "rounding", "distance"):
            getattr(found, name)[chosen] = getattr(at, name)[chosen]
        found.converged[chosen] = True
        there = found.evaluation.replace(chosen, at.evaluation.take(chosen))
        return replace(found, evaluation=there)

    def descend(self, chosen: NDArray[np.int64]) -> None:
        """Newton steps in place, each λ until its goal, its patience or its limit."""
        U, Z = self.U, self.Z
        first, previous = self.first[chosen], np.full(chosen.size, np.inf)
        stalled = 0 * chosen
        double = np.full(chosen.size, not self.design.single_is_quicker)  # of the inner solves
        here = self.objective.evaluate(Z[chosen])
        while True:
            G, norm, goal = self.gradient(here, chosen)
            first = np.where(np.isinf(first), norm, first)
            self.tell(here, norm, chosen)
            # So close, Newton's method is fast: if not, rounding holds it back, of the inner solve
            # first (which then goes on in double precision), of the gradient itself in the end.
            slow = (norm > 0.5 * previous) & (norm < 1e-3 * first)
            stalled += slow & double
            double |= slow
            going = (norm > goal) & (stalled < _PATIENCE) & np.isfinite(norm)
            going &= self.count[chosen] < self.limit[chosen]
            previous = norm
            if not going.all():
                if not going.any():
                    return
                chosen, stalled, double = chosen[going], stalled[going], double[going]
                first, G, norm, goal = first[going], G[going], norm[going], goal[going]
                here, previous = here.take(going), norm
            ridges = pulls_of(self.intercept, self.ridges[chosen])
            if self.direct is not None:
                D = self.direct(here, G)
            else:
                rest = np.minimum(_LOOSE, np.maximum(np.sqrt(norm / first), 0.5 * goal / norm))
                given = self.design, self.objective, here, ridges, G
                whole = solve_whole(*given)
                D = directions(*given, rest, double) if whole is None else whole
            own = self.design, self.objective, ridges, U[chosen], Z[chosen]
            step, here, new = line_search(*own, here, G, D)
            stuck = step == 0
            stalled[stuck & (double | (self.direct is not None))] = _PATIENCE
            double |= stuck
            self.count[chosen] += 1
            U[chosen] += step[:, None, None] * D
            Z[chosen] = new
            if self.keep is not None:
                self.keep(U)

    def gradient(self, here: Evaluation, index: NDArray[np.int64]) -> tuple[Array, Array, Array]:
        """Gradients (L, r, d), their norms (L,), and those to reach (L,), less what rounding takes.

        The certificate is asked for only where a gradient seems small enough.
        """
        ridges, U = self.ridges[index], self.U[index]
        G = self.design.back(here.residual) + by_feature(pulls_of(self.intercept, ridges)) * U
        norm = norms(G)
        goal = self.target * ridges * size_of(self.intercept, U)
        near = np.flatnonzero(norm <= goal)
        if near.size:
            part = here if near.size == len(norm) else here.take(near)
            rounding, distance, enough = self.certificate(index[near], part, G[near])
            if self.intercept is None:
                goal[near] = np.maximum(goal[near] - rounding, 0.05 * rounding)
            else:  # the distance is linear in the gradient, but for rounding
                with np.errstate(divide="ignore", invalid="ignore"):
                    share = np.nan_to_num(enough / distance, nan=1.0)
                short = np.maximum(share * (norm[near] + rounding) - rounding, 0.05 * rounding)
                goal[near] = np.where(share >= 1, goal[near], short)
        return G, norm, goal

    def tell(self, here: Evaluation, norm: Array, index: NDArray[np.int64]) -> None:
        """Report the problem that is furthest from its minimum."""
        size, ridges = size_of(self.intercept, self.U[index]), self.ridges[index]
        with np.errstate(divide="ignore"):
            distance = norm / (ridges * size)
        worst = int(distance.argmax())
        total = float(here.value[worst]) + 0.5 * float(ridges[worst] * size[worst] ** 2)
        self.design.watch.step(
            int(self.count.max()),
            int(self.limit.max()),
            float(distance[worst]),
            self.target,
            total / self.design.n_samples,
        )
