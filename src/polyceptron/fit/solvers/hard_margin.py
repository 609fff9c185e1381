"""Hard-margin multi-class SVM: min ½‖W‖²_F with z_y − z_h ≥ 1 for every sample and h ≠ y.

It is the limit λ → 0⁺ of cross-entropy (in direction) on separable data. J has the constraints as
rows, x/√d times e_y − e_h, so that JJᵀ is the Gram matrix of the samples times that of the class
differences, entry by entry. An augmented Lagrangian finds those that hold with equality,

    min_W ½‖W‖² + (c/2) Σ (1 + a/c − margin)₊²,     a ← (a + c(1 − margin))₊,

strongly convex and smooth enough for Newton's method. With J the pushed constraints its step has
the Hessian I + cJᵀJ, and by Woodbury's identity

    D = −(I + cJᵀJ)⁻¹G = −(G − Jᵀ(JJᵀ + I/c)⁻¹JG),

so a large penalty c costs nothing. A direct solve JJᵀa = 1 then ends the search, with a bound near
rounding. Before it, multipliers a ≥ 0 are a feasible point of the dual, and dividing W by its
smallest margin gives one of the primal, so with W_a = Jᵀa

    ½‖W − Ŵ‖² ≤ gap = ½‖W − W_a‖² + Σ a (margin − 1),

a sum of terms that are not negative, hence accurate when it is tiny: its root to about 1e-7.

Intercepts are the weights β of a column of J, J_b, that do not count in ‖W‖², so that J_bᵀa = 0 at
the solution. Direct solves get β as a few more unknowns: JJᵀa + J_bβ = 1, S = J_bᵀ(JJᵀ)⁻¹J_b. From
a gap alone the weights are known to p, and differences of intercepts by the constraints: with m_ch
the smallest margin less 1 of class c against h, Δb_h − Δb_c ≤ m_ch + √2 max‖x̂‖ p to the solution,
and by the shortest path over such steps.

Losses with kinks and a ridge (`fit_by_multipliers`): min_W Σ_μ s_μ ℓ(z_μ, y_μ) + (λ/2)‖W‖²_F. A
loss that is the largest of sums a·s of missed leads s_h = 1 + z_h − z_y over pulls a_h (h ≠ y) in
some set (the hinges) is smoothed about multipliers α,

    ψ(z) = max_a a·s − ‖a − α‖²/2c,     a = the point of the set next to α + c s,

enough for Newton's method; α ← a until it stays (`HingeObjective`). Since a is in the set, with
G = Σ x̂_μ Σ_h a_h(e_h − e_y)ᵀ

    gap = Σ_μ (s ℓ(z_μ) − Σ_h a_h s_h(z_μ)) + (λ/2)‖W + G/λ‖² ≥ (λ/2)‖W − Ŵ‖²,

again a sum of terms that are not negative. With an intercept the pulls ought to sum to
e = Σ_μh a_h(e_h − e_y) = 0, and do up to rounding: the gap is larger by ‖e‖‖b − b̂‖, for which any
bound will do. With P the objective here, a sample of class c says s(1 + ẑ_h − ẑ_c) ≤ P for the
other classes h, and ‖Ŵ‖² ≤ 2P/λ, so

    b̂_h − b̂_c ≤ R = max_c min_{y_μ=c} (P/s_μ + 2‖x̂_μ‖√(P/λ)),     ‖b̂‖ ≤ √k R.

A hinge need not have one best intercept: the certificate is of the weights alone.
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.sparse.csgraph import floyd_warshall

from polyceptron.checks import difference_basis
from polyceptron.data.checks import Samples
from polyceptron.data.design import Design, weights_or_ones
from polyceptron.errors import ComputationFailed
from polyceptron.fit.solvers.erm_fit import ERMFit, Separation, fit_at, stopped
from polyceptron.fit.solvers.intercept import Intercept, pulls_of, size_of
from polyceptron.fit.solvers.newton import NewtonMinimum, directions, newton_minimise
from polyceptron.fit.solvers.objectives import EPS, Evaluation, HingeObjective, sum_rounding
from polyceptron.numerics import Array
from polyceptron.problem.losses import Loss
from polyceptron.rows import Status

_LARGEST = 6000  # constraints of a direct solve: 0.3 GB for the matrix
_DIRECT = 1500  # of a Newton step; beyond, conjugate gradients are quicker
_PATIENCE = 6  # rounds without a better bound

# Weights U (k−1, d), their fields (k−1, n), and a bound on the distance to the solution.
_Certified = tuple[Array, Array, float]


class SeenRows:
    """Rows x/√d read so far and their Gram matrix: constraints come and go, samples come back."""

    def __init__(self, design: Design) -> None:
        self.design, self.place = design, np.full(design.n_samples, -1)
        self.rows, self.gram = np.empty((0, design.dimension)), np.empty((0, 0))

    def places(self, samples: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where in `rows` these samples are; what was not seen before is read."""
        new = np.unique(samples[self.place[samples] < 0])
        if new.size and len(self.rows) + new.size > _LARGEST:
            self.place[:] = -1
            self.rows, self.gram, new = self.rows[:0], self.gram[:0, :0], np.unique(samples)
        if new.size:
            part = self.design.scaled_rows(new)
            cross = self.rows @ part.T
            self.place[new] = len(self.rows) + np.arange(new.size)
            self.rows = np.concatenate([self.rows, part])
            self.gram = np.block([[self.gram, cross], [cross.T, part @ part.T]])
        return self.place[samples]


class Constraints:
    """The constraints z_y − z_h ≥ 1 picked out by `mask` (k, n), as rows of J."""

    def __init__(self, seen: SeenRows, hinge: HingeObjective, mask: NDArray[Any]) -> None:
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
        return np.einsum("ir,ri->i", self.differences, (U @ self.rows.T)[:, self.position])

    def combine(self, shares: Array) -> Array:
        """Jᵀ·shares, shape (k−1, d)."""
        per_sample = np.zeros((self.rows.shape[0], self.differences.shape[1]))
        np.add.at(per_sample, self.position, shares[:, None] * self.differences)
        return np.asarray(per_sample.T @ self.rows)


def active_set_step(
    seen: SeenRows, hinge: HingeObjective, free: Intercept | None, here: Evaluation, G: Array
) -> Array:
    """The Newton direction (1, k−1, d), for λ = 1."""
    mask = here.source[0] > 0
    if np.count_nonzero(mask) > _DIRECT:
        pulls, double = pulls_of(free, np.ones(1)), np.array([not seen.design.single_is_quicker])
        return directions(seen.design, hinge, here, pulls, G, np.array([0.1]), double)
    pushed = Constraints(seen, hinge, mask)
    if pushed.samples.size == 0:
        return -G
    matrix = pushed.gram(1 / hinge.penalty)
    try:
        factor = scipy.linalg.cho_factor(matrix, check_finite=False)
    except np.linalg.LinAlgError:  # rounding of nearly parallel constraints
        matrix[np.diag_indices_from(matrix)] += len(matrix) * EPS * np.trace(matrix)
        factor = scipy.linalg.cho_factor(matrix, overwrite_a=True, check_finite=False)
    shares = scipy.linalg.cho_solve(factor, pushed.margins(G[0]), check_finite=False)
    if free is None:
        return pushed.combine(shares) - G
    Jb = free.column * pushed.differences
    solved = scipy.linalg.cho_solve(factor, Jb, check_finite=False)
    beta = np.linalg.lstsq(Jb.T @ solved, Jb.T @ shares - G[0, :, -1], rcond=None)[0]
    D = pushed.combine(shares - solved @ beta) - G
    D[..., -1] = beta
    return D


def _certified(U: Array, Z: Array, p: float, q: float, free: Intercept | None) -> _Certified:
    """From bounds p of the weights' distance, and q of that of Wᵀx̄ + b."""
    if free is not None:
        p = math.hypot(p, free.unit * (q + float(np.linalg.norm(free.mean)) * p))
    return U, Z, p


def solve_active(
    seen: SeenRows,
    hinge: HingeObjective,
    mask: NDArray[Any],
    free: Intercept | None,
    most: float = math.inf,
    turns: int = 12,
) -> _Certified | None:
    """The point with margin 1 on every constraint of the mask, if that is the solution.

    JJᵀa + J_bβ = 1, J_bᵀa = 0 is solved up to residuals δ and e. If a > 0 and every other margin
    exceeds 1 by more than these can change them, then the exact solution meets all optimality
    conditions, at √(δᵀ(JJᵀ)⁻¹δ) from this one, δ with its share of J_bΔβ. If not, constraints with
    a < 0 leave, those with a margin below 1 join, as long as fewer do than `most`, the last time.
    """
    design = seen.design
    size = int(np.count_nonzero(mask))
    if not 0 < size <= min(_LARGEST, design.dimension * (mask.shape[0] - 1)):
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
    Jb = chosen.differences[:, :0] if free is None else free.column * chosen.differences
    solved = scipy.linalg.cho_solve(factor, Jb, check_finite=False) if Jb.size else Jb
    S = Jb.T @ solved
    least = float(np.linalg.eigvalsh(S)[0]) if S.size else 1.0
    if not least > 1e3 * EPS * max(float(np.trace(S)), EPS):
        return None
    shares, beta = np.zeros(size), np.zeros(S.shape[0])

    def point() -> Array:
        U = chosen.combine(shares)
        if free is not None:
            U[:, -1] = beta
        return U

    for _ in range(3):  # the solve, then two rounds of iterative refinement
        missing = 1 - chosen.margins(point()) - Jb @ (Jb.T @ shares)
        moved = np.linalg.solve(S, solved.T @ missing + Jb.T @ shares)
        missing -= Jb @ moved
        shares = shares + scipy.linalg.cho_solve(factor, missing, check_finite=False)
        beta = beta + moved
    U = point()
    length = math.sqrt(2) * float(design.row_norms.max())  # no constraint is longer
    rounding = (8 * EPS + sum_rounding(design.dimension)) * length * float(np.linalg.norm(U))
    residual = float(np.linalg.norm(1 - chosen.margins(U))) + math.sqrt(size) * rounding
    inverse = 1 / (inverse_condition * scale)  # the 1-norm of (JJᵀ)⁻¹, not below its 2-norm
    # U is Jᵀa up to rounding of its own.
    hidden = (8 * EPS + sum_rounding(size)) * length * float(np.abs(shares).sum())
    off = 0.0
    if free is not None:
        uneven, wide = float(np.linalg.norm(Jb.T @ shares)) + hidden, float(np.linalg.norm(Jb))
        off = (float(np.linalg.norm(solved)) * (residual + wide * uneven) + uneven) / least
        residual += wide * (uneven + off)
    bound = residual * math.sqrt(inverse) + hidden
    Z = design.fields(U)
    margins = hinge.margins(Z)
    margins[hinge.y, np.arange(hinge.y.size)] = np.inf
    margins[chosen.others, chosen.samples] = np.inf
    reach = length * (bound + off) + rounding
    if shares.min() <= residual * inverse or margins.min() <= 1 + reach:
        better = margins < 1
        better[chosen.others, chosen.samples] = shares > 0
        changes = int(np.count_nonzero(better != (mask > 0)))
        if not 0 < changes < most or turns == 1:
            return None
        return solve_active(seen, hinge, better, free, changes, turns - 1)
    return _certified(U, Z, bound, off if free is None else free.column * off, free)


class NotSeparable(ComputationFailed):
    """No weights separate the data; with the multipliers (k, n) that prove it, if there are any."""

    def __init__(self, message: str, multipliers: Array | None = None) -> None:
        super().__init__(message)
        self.multipliers = multipliers


def separate(
    samples: Samples, loss: Loss, tol: float, start: Array | None = None, doubt: float = 1e-7
) -> ERMFit:
    """The separating weights of least norm, normalised to a smallest margin of 1.

    NotSeparable once a convex combination of the constraints is `doubt`.
    """
    (design, y, k), free, basis = samples, samples.intercept, difference_basis(samples.n_classes)
    checkpoint, before = design.watch.checkpoint, design.passes
    U = np.zeros((k - 1, design.dimension)) if start is None else (start @ basis).T
    state: dict[str, Any] = {"U": U, "multipliers": np.zeros((k, y.size))}
    state |= {"penalty": 10.0, "turn": 0} | (checkpoint.load("max-margin") or {})
    best: _Certified | None = None
    seen, n_iter, stalled, slope, close, stop = SeenRows(design), 0, 0, math.nan, False, False

    def keep(U: Array, now: bool = False) -> None:
        checkpoint.save(lambda: state | {"U": U[0]}, "max-margin", now=now)

    try:
        while state["turn"] < 30 and not close and stalled < _PATIENCE:
            hinge = HingeObjective(loss, y, state["multipliers"], state["penalty"])
            rough = max(10.0 ** (-2 - min(state["turn"], 7)), 1e-14 * hinge.penalty)
            found = newton_minimise(
                design,
                hinge,
                np.ones(1),
                state["U"][None],
                target=rough,
                max_iter=40,
                keep=keep,
                direct=partial(active_set_step, seen, hinge, free),
                intercept=free,
            )
            n_iter += int(found.n_iter[0])
            state["U"], slope = found.U[0], float(found.gradient_norm[0])
            if found.interrupted:
                raise KeyboardInterrupt
            multipliers = found.evaluation.source[0]
            # Not separable: a convex combination of the constraints' x(e_y − e_h)ᵀ is almost zero.
            combination = float(np.linalg.norm(design.back(found.evaluation.residual)))
            if combination < doubt * float(design.row_norms.max()) * float(multipliers.sum()):
                raise NotSeparable(
                    "there is no max-margin solution: the classes are not linearly separable "
                    "(is_separable gives the proof); the cross-entropy loss with a ridge of 0 is "
                    "the maximum-likelihood estimate there, and takes any ridge above 0",
                    multipliers,
                )
            gap = _from_gap(design, hinge, found, free)
            candidates = (best, gap, solve_active(seen, hinge, multipliers, free))
            previous = math.inf if best is None else best[2]
            best = min(filter(None, candidates), key=lambda one: one[2], default=None)
            if best is not None:
                improved = math.isinf(previous) or best[2] < 0.7 * previous
                stalled = 0 if improved else stalled + 1
                close = best[2] <= tol * float(size_of(free, best[0][None])[0])
            if state["turn"] > 0 and not found.converged[0]:  # too large a penalty, for now
                state["penalty"] /= 5
            else:
                most = 1e8 if np.count_nonzero(multipliers) <= _DIRECT else 1e4
                state["penalty"] = min(10 * state["penalty"], most)
                state["multipliers"] = multipliers
            state["turn"] += 1
    except KeyboardInterrupt:
        stop, slope = True, math.nan
    keep(state["U"][None], now=True)
    if best is None and not stop:
        raise NotSeparable(
            "no separating weights were found: the classes are not linearly separable, or by a "
            "margin too small to resolve; use a positive ridge with the cross-entropy loss"
        )
    U, Z, bound = best or (state["U"], design.fields(state["U"]), math.inf)
    weights, status = U.T @ basis.T, Status.OK if close else Status.TOLERANCE_NOT_MET
    return fit_at(
        samples,
        loss.name,
        0.0,
        weights,
        basis @ Z,
        0.0,
        bound,
        Status.INTERRUPTED if stop else status,
        n_iter=n_iter,
        gradient_norm=slope,
        matrix_passes=design.passes - before,
        separability=None if best is None else Separation("separable", weights),
    )


def _from_gap(
    design: Design, hinge: HingeObjective, found: NewtonMinimum, free: Intercept | None
) -> _Certified | None:
    """U made feasible, with its duality gap; None while some sample is on the wrong side."""
    U, Z, multipliers = found.U[0], found.Z[0], found.evaluation.source[0]
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
    part = slice(None) if free is None else slice(-1)  # what counts in ‖W‖²
    gap = 0.5 * (float(np.linalg.norm((stretch * U - dual)[:, part])) + off) ** 2
    gap += float((multipliers * np.maximum(slack, 0)).sum()) + blur * total
    size, q = norm * stretch, 0.0
    p = math.sqrt(2 * gap) + blur * size
    if free is not None:  # the multipliers are not quite balanced, which β̂ − β may draw on
        uneven = (float(np.linalg.norm(dual[:, -1])) + off) / free.column
        each = stretch * margins - 1 + blur
        room = np.array([each[:, hinge.y == c].min(1) for c in range(len(each))])  # [c, h]
        p = float(np.linalg.norm(stretch * U[:, part]))  # ‖W − Ŵ‖² ≤ ‖W‖² − ‖Ŵ‖²
        for _ in range(20):
            steps = np.where(np.isfinite(room), np.maximum(room, 0.0) + length * p, 0.0)
            far = floyd_warshall(np.maximum(steps, np.finfo(float).tiny))
            q = float(np.linalg.norm(np.maximum(far, far.T).mean(1)))
            p = min(p, math.sqrt(2 * (gap + uneven * q)) + blur * size)
    return _certified(stretch * U, stretch * Z, p, q, free)


def fit_by_multipliers(
    samples: Samples, loss: Loss, ridges: Sequence[float], tol: float, start: Array | None
) -> list[ERMFit]:
    """One fit per λ > 0, each from the last, in the order of falling λ."""
    found: dict[float, ERMFit] = {}
    alpha = np.zeros((samples.n_classes, samples.y.size))
    U = None if start is None else (start @ difference_basis(samples.n_classes)).T
    tol = max(tol, 1e-5)  # that a gap can certify
    for ridge in sorted(set(ridges), reverse=True):
        found[ridge], U, alpha = _fit_one(samples, loss, ridge, tol, U, alpha)
    return [found[ridge] for ridge in ridges]


def _fit_one(
    samples: Samples, loss: Any, ridge: float, tol: float, U: Array | None, alpha: Array
) -> tuple[ERMFit, Array, Array]:
    """The fit, and where the next may begin."""
    (design, y, k), free = samples, samples.intercept
    basis, before, steps, penalty = difference_basis(k), design.passes, 0, 1.0
    s, each = weights_or_ones(samples.weights, y.size), np.arange(y.size)
    U = np.zeros((k - 1, design.dimension)) if U is None else U
    best, stalled = (U, np.zeros((k, y.size)), math.inf), 0
    stop, length = False, math.sqrt(2) * float(design.row_norms.max())
    for turn in range(60):
        objective = HingeObjective(loss, y, alpha, penalty, samples.weights)
        rough = max(10.0 ** (-2 - turn), 1e-8 if free is None else 1e-12)
        try:
            at = newton_minimise(
                design,
                objective,
                np.array([ridge]),
                U[None],
                target=rough,
                max_iter=40,
                intercept=free,
            )
        except KeyboardInterrupt:
            stop = True
            break
        U, alpha = at.U[0], at.evaluation.source[0]
        steps += int(at.n_iter[0])
        z, slope = basis @ at.Z[0], float(at.gradient_norm[0])  # of ‖λW + G‖
        missed = np.maximum(s * loss.value(z.T, y) - (alpha * (1 + z - z[y, each])).sum(0), 0.0)
        norm, total = float(np.linalg.norm(U)), float(alpha.sum())
        # Rounding of a field counts where the sample is at a kink: elsewhere a is the slope itself.
        slopes = loss.gradient(z.T, y).T.copy()
        slopes[y, each] = 0.0
        kinked = np.abs(alpha - s * slopes).max(0) > 1e-10 * s
        off = (8 * EPS + sum_rounding(design.dimension)) * (design.row_norms * norm + 1)
        loose = 2 * float((kinked * s) @ off)
        slope += sum_rounding(y.size) * length * total
        if free is not None:
            norm, b = float(np.linalg.norm(U[:, :-1])), free.column * U[:, -1]
            least = float(s @ loss.value(z.T, y)) + ridge * norm**2 / 2
            reach = least / s + 2 * design.row_norms * math.sqrt(least / ridge)
            widest = max(float(reach[y == c].min()) for c in range(k))
            uneven = float(np.linalg.norm(objective.pull(alpha).sum(1)))
            uneven += sum_rounding(y.size) * 2 * total
            loose += uneven * (float(np.linalg.norm(b)) + math.sqrt(k) * widest)
        bound = math.hypot(math.sqrt(2 * (float(missed.sum()) + loose) / ridge), slope / ridge)
        fast = bound < 0.3 * best[2]
        stalled = 0 if bound < 0.9 * best[2] else stalled + 1
        best = (U, z, bound) if bound < best[2] else best
        if bound <= tol * norm or stalled == 8:  # without a better bound
            break
        design.watch.step(turn + 1, 60, bound / norm if norm else math.inf, tol)
        solved = slope < 1e-3 * ridge * norm
        if not (solved and fast):  # a larger one is quicker, a smaller one is more precise
            penalty = min(3 * penalty, 3e2) if solved else penalty / 3
    W, z, bound = best
    close = bound <= tol * float(np.linalg.norm(W if free is None else W[:, :-1]))
    fit = fit_at(
        samples,
        loss.name,
        ridge,
        W.T @ basis.T,
        z,
        float(s @ loss.value(z.T, y)),
        bound,
        Status.OK if close else Status.TOLERANCE_NOT_MET,
        gradient_norm=ridge * bound,
        n_iter=steps,
        matrix_passes=design.passes - before,
    )
    return (stopped(fit) if stop else fit), U, alpha
