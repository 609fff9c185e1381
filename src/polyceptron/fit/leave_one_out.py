"""Held-out fields of leave-one-out: one fit of all samples, and a Newton step without each.

    z̃_μ = z_μ + (1 − u A_μH_μ)⁻¹ (u A_μg_μ + x̂_μᵀK⁻¹λ(ρ − ρ₋μ)U),   A_μ = x̂_μᵀK⁻¹x̂_μ,

    K = Σ_ν s_ν x̂_νx̂_νᵀ ⊗ H_ν + λρ, with g and H the loss's slope and curvature at z_μ, A_μ the r×r
    leverage of the sample and ρ₋μ the shares without it (if much less, as of rare columns, K⁻¹ has
    K⁻¹λ(ρ − ρ₋μ)K⁻¹ more); u is the part of the sample's weight that is left out, so that a sample
    of weight 3 is three samples.

The step is right where the fields move little. Samples that it moves far are fitted anew without,
and where those are too many the answer is left to folds.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from polyceptron.data.checks import Labels
from polyceptron.data.design import weights_or_ones
from polyceptron.data.stored_designs import ArrayDesign
from polyceptron.fit.held_out_problem import HeldOutProblem, RidgeScore
from polyceptron.fit.regular_solves import solved
from polyceptron.fit.ridge_walk import RidgeWalk
from polyceptron.fit.solvers import newton_step
from polyceptron.numerics import AnyArray, Array

# Of the objective, by which the last step lowers it; of the gradient, left by inner solves. The
# step after one that gains so little gains nothing.
ENDS_OF_WHOLE_FITS = 1e-4, 0.1
GAIN_OF_START = 1e-10  # of the last step, where a step is one small solve
FIELD_MOVE_OF_LAST_STEP = 0.1  # by which it may move the field of the sample left out
LARGEST_MOVE_OF_ONE_STEP = 0.5  # move of a field that is too large for one Newton step
SHARE_OF_RIDGE_LOST_WITH_A_SAMPLE = 0.05  # on a feature, of which K has to know
MAX_NUMBERS_OF_A_CHUNK = 4_000_000  # numbers in the weighted rows of refits made at once
LEAST_SINGULAR_VALUE = 1e-7  # of the largest one: below, a direction counts as so long


class _StepWithout(NamedTuple):
    """The Newton step without each sample.

    inverse : (r, d, r, d), K⁻¹
    g : (n, r), slope of the loss
    H : (n, r, r), its curvature
    eased : (n, r, d), K⁻¹λ(ρ − ρ₋μ)U
    move : (n, r), z̃ − z
    """

    inverse: Array
    g: Array
    H: AnyArray
    eased: Array
    move: Array


class LeaveOneOut:
    """One fit of all samples, a step without each, and refits where the step is large.

    Parameters
    ----------
    problem : HeldOutProblem
        What is fitted and scored.
    budget : float
        Operations of one Newton step of all refits that may be spent.

    Attributes
    ----------
    n_train : float
        Number of samples of a fit.
    sound : bool
        Whether all refits that were due could be made.
    at : array of int (m,)
        The samples that are scored: those whose class has another one.
    part_left_out : array (n,)
        u, the part of each sample's weight that is left out.
    rho : array (n, d)
        ρ₋μ, the shares of the ridge without each sample.
    turn : array (d, n_features)
        The features, where d directions hold all samples.
    """

    method = "leave-one-out"

    def __init__(self, problem: HeldOutProblem, budget: float) -> None:
        self.problem = problem
        self.budget = budget
        self.sound = True
        samples = problem.samples
        counts = problem.counts
        self.n_train = float(samples.y.size - 1)
        self.part_left_out = np.minimum(counts, 1.0) / counts
        self.at = self._scored_rows()
        rows = samples.design.scaled_rows(slice(None))
        rho = self._set_shares(rows)
        self.turn = np.eye(rows.shape[1])
        if samples.design.dimension > samples.y.size:
            rows = self._turned(rows, rho)
            rho = np.ones((1, samples.y.size))
        self.rows = rows
        self.design = ArrayDesign(rows * math.sqrt(rows.shape[1]))
        self.walk = RidgeWalk(problem, self.design, samples.weights, rho, ENDS_OF_WHOLE_FITS)

    def _scored_rows(self) -> Labels:
        """Return the samples that are not the last of their class, or all if none is left."""
        y = self.problem.samples.y
        counts = self.problem.counts
        of_class = np.bincount(y, counts, self.problem.samples.n_classes)[y]
        alone = of_class <= (1 + 1e-12) * self.part_left_out * counts  # but for rounding
        if alone.all():
            return np.arange(y.size)
        return np.flatnonzero(~alone)

    def _set_shares(self, rows: Array) -> Array:
        """Set ρ₋μ (n, d) of the rows x̂ (n, d), and return ρ (1, d) of all samples."""
        counts = self.problem.counts
        total = counts.sum()
        out = (self.part_left_out * counts)[:, None]
        first = counts @ rows
        second = counts @ rows**2
        left = total - out
        self.rho = self.problem.shares((first - out * rows) / left, (second - out * rows**2) / left)
        return self.problem.shares(first[None] / total, second[None] / total)

    def _turned(self, rows: Array, rho: Array) -> Array:
        """Return the rows in the n directions that hold them all, where every share is 1.

        The shares of these directions do not change with a sample.
        """
        n = len(rows)
        root = np.sqrt(rho[0])
        left, values, right = np.linalg.svd(rows / root, full_matrices=False)
        self.turn = right / root
        self.rho = np.ones((n, n))
        return np.asarray(left * np.maximum(values, LEAST_SINGULAR_VALUE * values[0]))

    def held_out(self, ridge: float, best: RidgeScore | None) -> tuple[Array, Labels, Array]:
        """Return the fields of every sample, left out, their rows, and the weights of the fit.

        Parameters
        ----------
        ridge : float
            λ of the fit.
        best : RidgeScore, optional
            Not asked: the one fit is made to its end.

        Returns
        -------
        fields : array (m, k)
        at : array of int (m,)
        weights : array (d, k)
        """
        walk = self.walk
        walk.solve(ridge)
        step = self._step_without_each(ridge)
        fields = walk.Z[0].T + step.move
        for chunk in self._chunks_to_refit(step):
            fields[chunk] = self._refitted(ridge, step, chunk)
        basis = walk.objective.basis
        weights = basis @ (walk.U[0] @ self.turn)
        return (fields @ basis.T)[self.at], self.at, weights.T

    def _step_without_each(self, ridge: float) -> _StepWithout:
        """Return the Newton step without each sample from the minimiser of all."""
        walk = self.walk
        U = walk.U[0]
        shares = walk.shares[0]
        H = walk.matrices()[0]
        g = walk.here.residual[0].T
        hessian = newton_step.whole_hessian(self.rows, H, ridge * shares)
        inverse = solved(hessian, np.eye(len(hessian))).reshape(*U.shape, *U.shape)
        A = leverages(self.rows, inverse)
        lighter = ridge * (shares - self.rho)[:, None]  # λ(ρ − ρ₋μ), (n, 1, d)
        eased = np.tensordot(lighter * U, inverse, 2)
        lost = lighter > SHARE_OF_RIDGE_LOST_WITH_A_SAMPLE * ridge * shares
        rare = np.flatnonzero(lost.any((1, 2)))
        if rare.size:
            eased[rare] = np.tensordot(lighter[rare] * (U + eased[rare]), inverse, 2)
            self._add_lighter_ridge(A, rare, lighter, inverse)
        part_of_curvature = self.part_left_out[:, None, None] * H
        push = np.einsum("nab,nb->na", A, self.part_left_out[:, None] * g)
        push += np.einsum("nad,nd->na", eased, self.rows)
        response = np.eye(H.shape[1]) - A @ part_of_curvature
        move = solved(response, push[..., None], size=1.0)[..., 0]
        return _StepWithout(inverse, g, H, eased, move)

    def _add_lighter_ridge(self, A: Array, rare: Labels, lighter: Array, inverse: Array) -> None:
        """Add x̂ᵀK⁻¹λ(ρ − ρ₋μ)K⁻¹x̂ to the leverages A (n, r, r) of the samples `rare` (m,)."""
        for a in range(len(inverse)):
            seen = np.tensordot(self.rows[rare], inverse[:, :, a], ((1,), (1,)))  # (m, r, d)
            A[rare] += (lighter[rare] * seen) @ seen.swapaxes(1, 2)

    def _chunks_to_refit(self, step: _StepWithout) -> list[Labels]:
        """Return the samples that the step moves far, in chunks, the farthest first.

        Set `sound`: whether the budget is enough for all of them.
        """
        size = np.abs(step.move).max(1)
        far = self.at[size[self.at] > LARGEST_MOVE_OF_ONE_STEP]
        operations_of_a_refit = len(step.g) * self.walk.U[0].size ** 2
        most = int(min(self.budget / operations_of_a_refit, far.size))
        self.sound = most == far.size
        far = far[np.argsort(-size[far], kind="stable")[:most]]
        if far.size == 0:
            return []
        numbers = far.size * max(step.H.size, self.rows.size)
        n_chunks = math.ceil(numbers / MAX_NUMBERS_OF_A_CHUNK)
        return list(np.array_split(far, n_chunks))

    def _refitted(self, ridge: float, step: _StepWithout, chunk: Labels) -> AnyArray:
        """Return the fields (m, r) of samples (m,), each of a fit without it."""
        U = self.walk.U[0]
        left_out = self.part_left_out[chunk]
        slope = step.g[chunk] + (step.H[chunk] @ step.move[chunk, :, None])[..., 0]
        pull = (left_out[:, None] * slope)[..., None] * self.rows[chunk, None]
        all_weights = weights_or_ones(self.problem.samples.weights, len(step.g))
        fits = np.arange(chunk.size)
        weights = np.tile(all_weights, (chunk.size, 1))
        weights[fits, chunk] *= 1 - left_out
        refit = RidgeWalk(self.problem, self.design, weights, self.rho[chunk], ENDS_OF_WHOLE_FITS)
        start = U + step.eased[chunk] + np.tensordot(pull, step.inverse, 2)
        refit.past = [(math.log(ridge), start)]
        own = fits[:, None], np.arange(len(U)), chunk[:, None]  # the field of the sample left out

        def settled(before: AnyArray, after: AnyArray, gain_is_small: bool) -> bool:
            """Return whether the field of the sample left out has stopped moving."""
            moved = float(np.abs((after - before)[own]).max())
            return gain_is_small and moved <= FIELD_MOVE_OF_LAST_STEP

        refit.solve(ridge, settled)
        return refit.Z[own]

    def start(self, ridge: float) -> Array | None:
        """Return weights (d, k) at the minimiser of all samples, where a step is one small solve.

        It is None elsewhere. The walk is not to be scored again after it.
        """
        walk = self.walk
        if walk.rows is None:
            return None
        walk.enough = GAIN_OF_START
        if self.problem.intercept and self.turn.shape[0] == self.turn.shape[1]:
            walk.shares[:, -1] = 0.0  # as the certified fit has it
        walk.solve(ridge)
        return np.asarray((walk.objective.basis @ (walk.U[0] @ self.turn)).T)


def leverages(rows: Array, inverse: Array) -> Array:
    """Return A_μ = x̂ᵀK⁻¹x̂ (n, r, r) of rows x̂ (n, d), given K⁻¹ (r, d, r, d)."""
    r = len(inverse)
    A = np.empty((len(rows), r, r))
    for a, b in zip(*np.triu_indices(r), strict=True):
        A[:, a, b] = np.einsum("ni,ni->n", rows @ inverse[a, :, b], rows)
        A[:, b, a] = A[:, a, b]
    return A
