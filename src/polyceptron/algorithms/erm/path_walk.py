"""From the minimisers at one λ to those at the next: problems side by side on one path.

Each λ starts from the polynomial in ln λ through the nearest minimisers, and takes Newton steps
until they change little. Where all weights of a problem are few their Hessian is written out.
"""

from __future__ import annotations

import math

import numpy as np

from polyceptron.algorithms.design import AnyArray, Array, Design
from polyceptron.algorithms.erm.conjugate_gradients import directions
from polyceptron.algorithms.erm.descent import AtWork
from polyceptron.algorithms.erm.gradients import dots
from polyceptron.algorithms.erm.line_search import line_search
from polyceptron.algorithms.erm.objectives import Objective
from polyceptron.algorithms.erm.whole_hessian import Factors, sample_matrices, whole_hessian

DENSE = 120  # d·r up to which a matrix of that size is cheaper than products with X
_STEPS = 20
_SMALL = 20_000  # numbers in all fields up to which single precision saves nothing
_NODES = 3  # minimisers through which the next start is extrapolated


class Walk:
    """Problems side by side, U (L, r, d), from one λ to the next smaller.

    `enough`: of the objective, by which the last step lowers it; `loose`: of the gradient, left by
    conjugate gradients.
    """

    def __init__(
        self, design: Design, objective: Objective, count: int, enough: float, loose: float
    ) -> None:
        self.design, self.objective = design, objective
        self.enough, self.loose = enough, loose
        shape = (count, objective.basis.shape[1], design.dimension)
        large = count * shape[1] * design.n_samples > _SMALL and design.single_is_quicker
        self.dtype = np.float32 if large else np.float64
        self.U: AnyArray = np.zeros(shape, self.dtype)
        self.past: list[tuple[float, AnyArray]] = []
        small = shape[1] * design.dimension <= DENSE and design.may_be_copied
        self.rows = design.scaled_rows(slice(None)) if small else None
        self.work = AtWork.begin(np.arange(count), single=large)
        self.factors = Factors(design, shape, shared=True)

    def solve(self, ridge: float) -> None:
        """Move to the minimisers at this λ, loosely."""
        design, objective = self.design, self.objective
        ridges = np.full(len(self.U), ridge)
        U = self._extrapolate(math.log(ridge))
        Z = design.fields(U)
        here = objective.evaluate(Z)
        for _ in range(_STEPS):
            G = design.back(here.residual) + ridge * U
            if not G.any(axis=(1, 2)).all():
                break
            self.here = here
            D = self._directions(ridges, G)
            total = here.value + 0.5 * ridge * dots(U, U)
            gain = -0.5 * dots(G, D)
            step, here, Z = line_search(design, objective, ridges, U, Z, here, G, D)
            U += (step[:, None, None] * D).astype(self.dtype, copy=False)
            if (gain <= self.enough * total).all():
                break
        self.U, self.Z, self.here = U, Z, here
        self.past.append((math.log(ridge), U))

    def _directions(self, ridges: Array, G: AnyArray) -> AnyArray:
        """Newton steps: of the whole matrix where it is small, else by conjugate gradients."""
        if self.rows is None:
            tolerance = np.full(len(G), self.loose)
            return directions(
                self.design, self.objective, self.here, ridges, G, tolerance, self.work,
                self.factors,
            )  # fmt: skip
        whole = [whole_hessian(self.rows, H, ridges[0]) for H in self.matrices()]
        flat = np.linalg.solve(np.array(whole), -G.reshape(len(G), -1, 1))
        return flat.reshape(G.shape)

    def matrices(self) -> AnyArray:
        """s_μH_μ of every sample where the walk stands, (L, n, r, r)."""
        bend = self.objective.curvature(self.here, np.float64)
        return sample_matrices(bend, self.here.residual.shape)

    def _extrapolate(self, t: float) -> AnyArray:
        """The polynomial in ln λ through the nearest minimisers, or 0."""
        guess = np.zeros_like(self.U)
        near = sorted(self.past, key=lambda one: abs(one[0] - t))[:_NODES]
        for i, (node, U) in enumerate(near):
            others = [other for j, (other, _) in enumerate(near) if j != i]
            guess += math.prod((t - other) / (node - other) for other in others) * U
        return guess
