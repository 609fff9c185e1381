"""Minimisers of several problems side by side, from one ridge λ to the next.

    min_U Σ_μ s_μ ℓ(z_μ, y_μ) + (λ/2) Σ_j ρ_j ‖u_j‖²,    z = Ux̂

The problems differ in the weights s of the samples and in the shares ρ of the ridge, and share
every read of X. Each λ starts from the polynomial in ln λ through the nearest minimisers, and ends
loosely, at a step of Newton's method that lowers the objective by little.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from polyceptron.data.design import Design
from polyceptron.fit.held_out_problem import HeldOutProblem
from polyceptron.fit.regular_solves import solved
from polyceptron.fit.solvers import newton_step
from polyceptron.fit.solvers.erm_fit import through_nearest
from polyceptron.fit.solvers.line_search import line_search
from polyceptron.fit.solvers.logistic_objective import OBJECTIVES
from polyceptron.fit.solvers.many_classes import FEWEST_CLASSES
from polyceptron.fit.solvers.objectives import Evaluation, LossObjective, Objective
from polyceptron.numerics import AnyArray, Array

# Whether a walk may end at a step from fields to fields (L, r, n), given whether its gain is small.
Settled = Callable[[AnyArray, AnyArray, bool], bool]

DENSE = 120  # d·r up to which a matrix of that size is cheaper than products with X
NUMBERS_THAT_GAIN_NOTHING_IN_SINGLE = 5_000  # in all fields: up to here doubles are as fast
MAX_STEPS_AT_A_RIDGE = 60
POINTS_OF_EXTRAPOLATION = 3  # minimisers through which the next start is extrapolated


def settled_by_gain(before: AnyArray, after: AnyArray, gain_is_small: bool) -> bool:
    """End at the first step whose gain is small."""
    return gain_is_small


class RidgeWalk:
    """Problems side by side, with their minimisers at the ridge reached.

    Parameters
    ----------
    problem : HeldOutProblem
        The labels and the loss of the fits.
    design : Design
        The features (n, d).
    weights : array (n,) or (L, n), or None
        Weights of the samples, those of each problem or of all; None where all are 1.
    shares : array (L, d)
        ρ of each problem.
    ends : (float, float)
        Share of the objective by which the last step lowers it, and share of the gradient that
        conjugate gradients leave.

    Attributes
    ----------
    U : array (L, r, d)
        Weights reached.
    Z : array (L, r, n)
        Their fields.
    here : Evaluation
        The objective there.
    past : list of (float, array)
        ln λ and the minimisers there.
    rows : array (n, d) or None
        All rows x̂, where the whole Hessian is small.
    """

    Z: AnyArray
    here: Evaluation

    def __init__(
        self,
        problem: HeldOutProblem,
        design: Design,
        weights: Array | None,
        shares: Array,
        ends: tuple[float, float],
    ) -> None:
        self.design = design
        self.objective = _objective(problem, design, weights)
        self.shares = shares
        self.enough, self.loose = ends
        n_problems = len(shares)
        r = self.objective.basis.shape[1]
        d = design.dimension
        dense = r * d <= DENSE and design.may_be_copied
        n_fields = n_problems * r * design.n_samples
        large = n_fields > NUMBERS_THAT_GAIN_NOTHING_IN_SINGLE and design.single_is_quicker
        self.dtype: type[np.float32] | type[np.float64] = np.float64
        if large and not dense:
            self.dtype = np.float32
        self.U: AnyArray = np.zeros((n_problems, r, d), self.dtype)
        self.past: list[tuple[float, AnyArray]] = []
        self.rows: Array | None = None
        if dense:
            self.rows = design.scaled_rows(slice(None))

    def solve(self, ridge: float, settled: Settled = settled_by_gain) -> None:
        """Move to the minimisers at this λ, until a step of Newton's method is settled."""
        ridges = ridge * self.shares
        pull: AnyArray = newton_step.by_feature(ridges).astype(self.dtype)
        log_ridge = math.log(ridge)
        U = self._start(log_ridge)
        Z = self.design.fields(U)
        here = self.objective.evaluate(Z.copy())
        for _ in range(MAX_STEPS_AT_A_RIDGE):
            G = self.design.back(here.residual) + pull * U
            if not G.any(axis=(1, 2)).all():
                break
            self.here = here
            D = self._directions(ridges, G)
            total = here.value + 0.5 * newton_step.dots(pull * U, U)
            gain = -0.5 * newton_step.dots(G, D)
            before = Z
            step, here, Z = line_search(self.design, self.objective, ridges, U, Z, here, G, D)
            U += (step[:, None, None] * D).astype(self.dtype, copy=False)
            gain_is_small = bool((gain <= self.enough * total).all())
            if settled(before, Z, gain_is_small):
                break
        self.U = U
        self.Z = Z
        self.here = here
        self.past.append((log_ridge, U))

    def _start(self, log_ridge: float) -> AnyArray:
        """Return weights (L, r, d) extrapolated from the minimisers of the past."""
        if not self.past:
            return np.zeros_like(self.U)
        return through_nearest(self.past, log_ridge, POINTS_OF_EXTRAPOLATION)

    def _directions(self, ridges: Array, G: AnyArray) -> AnyArray:
        """Return Newton's directions (L, r, d) for the gradients G (L, r, d)."""
        if self.rows is not None:
            hessian = newton_step.whole_hessian(self.rows, self.matrices(), ridges)
            return solved(hessian, -G.reshape(len(G), -1, 1)).reshape(G.shape)
        tolerance = np.full(len(G), self.loose)
        double = np.full(len(G), self.dtype == np.float64)
        return newton_step.directions(
            self.design, self.objective, self.here, ridges, G, tolerance, double
        )

    def matrices(self) -> AnyArray:
        """Return s_μH_μ of every sample where the walk stands, (L, n, r, r)."""
        curvature = self.objective.curvature(self.here, np.float64)
        return newton_step.sample_matrices(curvature, self.here.residual.shape)


def _objective(problem: HeldOutProblem, design: Design, weights: Array | None) -> Objective:
    """Return the loss's own sum over the samples, or the one that serves any loss."""
    y = problem.samples.y
    k = problem.samples.n_classes
    own_objective = OBJECTIVES.get(problem.loss.solver)
    if own_objective is None:
        return LossObjective(problem.loss, y, k, weights)
    many_classes = k >= FEWEST_CLASSES and (k - 1) * design.dimension > DENSE
    return own_objective(y, k, weights, many_classes)
