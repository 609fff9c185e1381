"""Margin constraints z_y − z_h ≥ 1 as rows of a matrix J, and direct solves with JJᵀ.

A constraint is a sample μ with a wrong class h ≠ y_μ. Its row of J is x̂_μ(e_y − e_h)ᵀ with
x̂ = x/√d, so that JW are the margins, and JJᵀ is the Gram matrix of the samples times that of the
class differences, entry by entry. Weights U (k−1, d) are coordinates of W = UᵀBᵀ on an orthonormal
basis B (k, k−1) of the class differences.

`newton_direction` is the step of the augmented Lagrangian of `hard_margin` and `hinges`: with J the
constraints that push, the Hessian is I + cJᵀJ, and by Woodbury's identity

    D = −(I + cJᵀJ)⁻¹G = −(G − Jᵀ(JJᵀ + I/c)⁻¹JG),

so that a large penalty c costs nothing.

`solve_active` guesses which constraints hold with equality and solves JJᵀa = 1, W = Jᵀa. If a > 0
and all other margins exceed 1, this is the max-margin solution, with a bound near rounding.

An intercept is the weight β of one more column of J, J_b, that does not count in ‖W‖²; hence
J_bᵀa = 0. Direct solves get β as k − 1 more unknowns, with the Schur complement
S = J_bᵀ(JJᵀ)⁻¹J_b:

    JJᵀa + J_bβ = 1,     J_bᵀa = 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from polyceptron.data.checks import Labels
from polyceptron.data.design import Design
from polyceptron.fit.solvers.hinge_objective import HingeObjective
from polyceptron.fit.solvers.intercept import Intercept, pulls_of
from polyceptron.fit.solvers.newton_step import directions
from polyceptron.fit.solvers.objectives import Evaluation
from polyceptron.fit.solvers.rounding import EPS, sum_rounding
from polyceptron.numerics import Array

MAX_CONSTRAINTS_OF_DIRECT_SOLVE = 6000  # a matrix of 0.3 GB
MAX_CONSTRAINTS_OF_NEWTON_STEP = 1500  # beyond, conjugate gradients are quicker
MAX_CHANGES_OF_ACTIVE_SET = 12  # guesses of the active set, each from the last one's multipliers
MIN_INVERSE_CONDITION = 1e3 * EPS  # below, the direct solve would have no correct digit to bound
REFINEMENTS = 3  # the solve itself, then two rounds of iterative refinement

Mask = NDArray[Any]
"""Constraints (k, n) that are meant: nonzero where class h of sample μ is one of them."""


@dataclass(frozen=True)
class CertifiedWeights:
    """Weights with a bound on their distance to the max-margin solution.

    weights : (k−1, d), coordinates on the class differences
    fields : (k−1, n)
    bound : a number that ‖W − Ŵ‖, with the intercepts if there are any, is not above
    """

    weights: Array
    fields: Array
    bound: float

    @classmethod
    def with_intercept(
        cls, U: Array, Z: Array, weights_bound: float, shift_bound: float, free: Intercept | None
    ) -> Self:
        """Combine the bound on ‖W − Ŵ‖ with that on the difference of Wᵀx̄ + b."""
        if free is None:
            return cls(U, Z, weights_bound)
        intercept_bound = shift_bound + float(np.linalg.norm(free.mean)) * weights_bound
        return cls(U, Z, math.hypot(weights_bound, free.unit * intercept_bound))


class SeenRows:
    """Rows x̂ = x/√d read so far, and their Gram matrix.

    Constraints enter and leave the active set, but mostly of the same samples: each row is read
    once. `place` (n,) is the position of a sample in `rows` (m, d), or −1.
    """

    def __init__(self, design: Design) -> None:
        self.design = design
        self.place = np.full(design.n_samples, -1)
        self.rows = np.empty((0, design.dimension))
        self.gram = np.empty((0, 0))

    def places(self, samples: Labels) -> Labels:
        """Return the positions of these samples in `rows`; read those that are not there yet."""
        new = np.unique(samples[self.place[samples] < 0])
        if new.size and len(self.rows) + new.size > MAX_CONSTRAINTS_OF_DIRECT_SOLVE:
            self.forget()
            new = np.unique(samples)
        if new.size:
            self.read(new)
        return self.place[samples]

    def forget(self) -> None:
        """Drop all rows: their Gram matrix would become too large."""
        self.place[:] = -1
        self.rows = self.rows[:0]
        self.gram = self.gram[:0, :0]

    def read(self, new: Labels) -> None:
        """Append the rows of new samples, and their products with all others."""
        part = self.design.scaled_rows(new)
        cross = self.rows @ part.T
        self.place[new] = len(self.rows) + np.arange(new.size)
        self.rows = np.concatenate([self.rows, part])
        self.gram = np.block([[self.gram, cross], [cross.T, part @ part.T]])


class Constraints:
    """The constraints z_y − z_h ≥ 1 of a mask (k, n), as m rows of J.

    others, samples : (m,) the wrong class h and the sample of each constraint
    differences : (m, k−1) the rows e_y − e_h on the class differences
    """

    def __init__(self, seen: SeenRows, hinge: HingeObjective, mask: Mask) -> None:
        self.others, self.samples = np.nonzero(mask)
        self.differences = hinge.basis[hinge.y[self.samples]] - hinge.basis[self.others]
        self.position = seen.places(self.samples)
        self.rows = seen.rows
        self.products = seen.gram

    def __len__(self) -> int:
        return int(self.samples.size)

    def gram(self, shift: float) -> Array:
        """Return JJᵀ + shift·I, (m, m)."""
        matrix: Array = self.products[np.ix_(self.position, self.position)]
        matrix *= self.differences @ self.differences.T
        matrix[np.diag_indices_from(matrix)] += shift
        return matrix

    def margins(self, U: Array) -> Array:
        """Return JU: the margin of each constraint at weights U (k−1, d), shape (m,)."""
        return np.einsum("ir,ri->i", self.differences, (U @ self.rows.T)[:, self.position])

    def combine(self, multipliers: Array) -> Array:
        """Return Jᵀa, shape (k−1, d), of multipliers a (m,)."""
        per_sample = np.zeros((self.rows.shape[0], self.differences.shape[1]))
        np.add.at(per_sample, self.position, multipliers[:, None] * self.differences)
        return np.asarray(per_sample.T @ self.rows)

    def intercept_column(self, free: Intercept | None) -> Array:
        """Return J_b (m, k−1), or (m, 0) without an intercept."""
        if free is None:
            return self.differences[:, :0]
        return free.column * self.differences


def newton_direction(
    seen: SeenRows, hinge: HingeObjective, free: Intercept | None, here: Evaluation, G: Array
) -> Array:
    """Return the Newton direction (1, k−1, d) for λ = 1 at gradient G (1, k−1, d)."""
    mask = here.source[0] > 0
    if np.count_nonzero(mask) > MAX_CONSTRAINTS_OF_NEWTON_STEP:
        pulls = pulls_of(free, np.ones(1))
        double = np.array([not seen.design.single_is_quicker])
        return directions(seen.design, hinge, here, pulls, G, np.array([0.1]), double)
    pushed = Constraints(seen, hinge, mask)
    if len(pushed) == 0:
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
    Jb = pushed.intercept_column(free)
    solved = scipy.linalg.cho_solve(factor, Jb, check_finite=False)
    beta = np.linalg.lstsq(Jb.T @ solved, Jb.T @ shares - G[0, :, -1], rcond=None)[0]
    D = pushed.combine(shares - solved @ beta) - G
    D[..., -1] = beta
    return D


def solve_active(
    seen: SeenRows, hinge: HingeObjective, mask: Mask, free: Intercept | None
) -> CertifiedWeights | None:
    """Find the constraints with margin 1 from a guess, and the max-margin solution with them.

    Constraints with a < 0 leave the guess and those with a margin below 1 join it, as long as each
    time fewer change than the time before.

    Parameters
    ----------
    seen : SeenRows
        The rows of the design that were read so far.
    hinge : HingeObjective
        Labels and the basis of the class differences.
    mask : array (k, n)
        The guess.
    free : Intercept or None
        The column of the intercept.

    Returns
    -------
    CertifiedWeights or None
        None where the guess does not lead to the solution, or rounding hides whether it does.
    """
    fewest_changes = math.inf
    for _ in range(MAX_CHANGES_OF_ACTIVE_SET):
        system = ActiveSystem.factorised(seen, hinge, mask, free)
        if system is None:
            return None
        system.solve()
        check = system.check()
        if check.solution is not None:
            return check.solution
        changes = int(np.count_nonzero(check.better_mask != (mask > 0)))
        if not 0 < changes < fewest_changes:
            return None
        mask = check.better_mask
        fewest_changes = changes
    return None


@dataclass(frozen=True)
class ActiveCheck:
    """The certified solution, or None and the constraints (k, n) to try next."""

    solution: CertifiedWeights | None
    better_mask: Mask


@dataclass
class ActiveSystem:
    """JJᵀa + J_bβ = 1, J_bᵀa = 0 for chosen constraints, factorised.

    factor : the Cholesky factor of JJᵀ (m, m)
    inverse_norm : a bound on ‖(JJᵀ)⁻¹‖
    Jb, solved : J_b and (JJᵀ)⁻¹J_b, (m, k−1), or (m, 0) without an intercept
    schur, schur_least : S = J_bᵀ(JJᵀ)⁻¹J_b and its least eigenvalue
    multipliers, beta : the solution a (m,) and β (k−1,), 0 before `solve`
    """

    design: Design
    hinge: HingeObjective
    free: Intercept | None
    chosen: Constraints
    factor: tuple[Array, bool]
    inverse_norm: float
    Jb: Array
    solved: Array
    schur: Array
    schur_least: float
    multipliers: Array
    beta: Array

    @classmethod
    def factorised(
        cls, seen: SeenRows, hinge: HingeObjective, mask: Mask, free: Intercept | None
    ) -> ActiveSystem | None:
        """Set up the system; None if it is empty, too large or singular to rounding."""
        count = int(np.count_nonzero(mask))
        unknowns = seen.design.dimension * (mask.shape[0] - 1)
        if not 0 < count <= min(MAX_CONSTRAINTS_OF_DIRECT_SOLVE, unknowns):
            return None
        chosen = Constraints(seen, hinge, mask)
        matrix = chosen.gram(0.0)
        scale = float(np.abs(matrix).sum(0).max())
        try:
            factor = scipy.linalg.cho_factor(matrix, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:
            return None
        inverse_condition = float(scipy.linalg.lapack.dpocon(factor[0], scale)[0])
        if inverse_condition < MIN_INVERSE_CONDITION:
            return None
        Jb = chosen.intercept_column(free)
        solved = Jb
        schur_least = 1.0
        if Jb.size:
            solved = scipy.linalg.cho_solve(factor, Jb, check_finite=False)
        schur = Jb.T @ solved
        if schur.size:
            schur_least = float(np.linalg.eigvalsh(schur)[0])
        if not schur_least > MIN_INVERSE_CONDITION * max(float(np.trace(schur)), EPS):
            return None
        return cls(
            seen.design,
            hinge,
            free,
            chosen,
            factor,
            1 / (inverse_condition * scale),  # the 1-norm, not below the 2-norm
            Jb,
            solved,
            schur,
            schur_least,
            multipliers=np.zeros(count),
            beta=np.zeros(schur.shape[0]),
        )

    def weights(self) -> Array:
        """Return U = Jᵀa with β in the intercept's column, shape (k−1, d)."""
        U = self.chosen.combine(self.multipliers)
        if self.free is not None:
            U[:, -1] = self.beta
        return U

    def solve(self) -> None:
        """Solve for multipliers and β, with iterative refinement."""
        Jb = self.Jb
        for _ in range(REFINEMENTS):
            missing = 1 - self.chosen.margins(self.weights()) - Jb @ (Jb.T @ self.multipliers)
            moved = np.linalg.solve(self.schur, self.solved.T @ missing + Jb.T @ self.multipliers)
            missing -= Jb @ moved
            step = scipy.linalg.cho_solve(self.factor, missing, check_finite=False)
            self.multipliers = self.multipliers + step
            self.beta = self.beta + moved

    def check(self) -> ActiveCheck:
        """Decide whether the exact solution of the system meets all optimality conditions.

        The system is solved up to residuals δ of the margins and e of J_bᵀa. If a > 0 and every
        other margin exceeds 1 by more than these can change them, then so it is for the exact
        solution, which is at √(δᵀ(JJᵀ)⁻¹δ) from this one, δ with its share of J_bΔβ.
        """
        design = self.design
        chosen = self.chosen
        U = self.weights()
        longest = longest_constraint(design)
        field_rounding = margin_rounding(design) * longest * float(np.linalg.norm(U))
        residual = float(np.linalg.norm(1 - chosen.margins(U)))
        residual += math.sqrt(len(chosen)) * field_rounding
        # U is Jᵀa up to rounding of its own.
        sum_of_multipliers = float(np.abs(self.multipliers).sum())
        combine_rounding = (8 * EPS + sum_rounding(len(chosen))) * longest * sum_of_multipliers
        beta_bound = 0.0
        if self.free is not None:
            uneven = float(np.linalg.norm(self.Jb.T @ self.multipliers)) + combine_rounding
            width = float(np.linalg.norm(self.Jb))
            beta_bound = float(np.linalg.norm(self.solved)) * (residual + width * uneven) + uneven
            beta_bound /= self.schur_least
            residual += width * (uneven + beta_bound)
        weights_bound = residual * math.sqrt(self.inverse_norm) + combine_rounding
        Z = design.fields(U)
        other_margins = self.hinge.margins(Z)
        other_margins[self.hinge.y, np.arange(self.hinge.y.size)] = np.inf
        other_margins[chosen.others, chosen.samples] = np.inf
        margin_bound = longest * (weights_bound + beta_bound) + field_rounding
        all_push = self.multipliers.min() > residual * self.inverse_norm
        if all_push and other_margins.min() > 1 + margin_bound:
            shift_bound = beta_bound
            if self.free is not None:
                shift_bound = self.free.column * beta_bound
            found = CertifiedWeights.with_intercept(U, Z, weights_bound, shift_bound, self.free)
            return ActiveCheck(found, other_margins < 1)
        better = other_margins < 1
        better[chosen.others, chosen.samples] = self.multipliers > 0
        return ActiveCheck(None, better)


def longest_constraint(design: Design) -> float:
    """Return √2 max‖x̂‖, which no row of J is longer than."""
    return math.sqrt(2) * float(design.row_norms.max())


def margin_rounding(design: Design) -> float:
    """Return the rounding of a margin, in units of the norms of its constraint and the weights."""
    return 8 * EPS + sum_rounding(design.dimension)
