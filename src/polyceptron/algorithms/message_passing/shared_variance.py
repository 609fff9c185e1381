"""One step of message passing with one shared variance: one pass over X, nothing of its size.

    ω = XŴ/√d − V f,      f, −tr ∂f = student(ω, y, V),      Λ = Σ_ν (−tr ∂f_ν)/(d (k−1))
    γ = Xᵀf/√d + ΛŴ,      Ŵ, V = belief(γ, Λ)                                        (alg. amp)

For i.i.d. inputs of unit variance the covariances of Algorithm 1 self-average, and by symmetry
between the classes they are multiples of the identity on the class differences. Weights are kept in
r = k − 1 orthonormal coordinates of those differences, so that the products have r columns, not k;
a loss that also sees the part common to all classes has r = k.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polyceptron.algorithms.block_products import AnyArray, Inner
from polyceptron.algorithms.data_checks import Labels
from polyceptron.algorithms.design import Design
from polyceptron.algorithms.message_passing.damped_iteration import Iterate, Step
from polyceptron.model.denoisers import Belief, Student

Array = NDArray[np.float64]


@dataclass(frozen=True)
class _Scores:
    """z ↦ f = student(z − V f_old, y, V) in the coordinates of `basis`; scores f_old (r, n)."""

    scores: Array
    y: Labels
    V: float
    basis: Array
    student: Student

    def rows(self, rows: slice) -> Inner:
        """For these samples alone."""
        return _Scores(self.scores[:, rows], self.y[rows], self.V, self.basis, self.student)

    def __call__(self, fields: AnyArray) -> tuple[AnyArray, tuple[Array, float]]:
        """Scores (r, b) in the precision of the fields; in full, with the sum of −tr ∂f."""
        omega = fields - self.V * self.scores
        f, curvature = self.student.denoise(omega.T @ self.basis.T, self.y, self.V)
        scores = np.ascontiguousarray((f @ self.basis).T)
        return scores.astype(fields.dtype, copy=False), (scores, float(curvature.sum()))


def shared_step(
    design: Design, y: Labels, basis: Array, student: Student, belief: Belief, floor: float
) -> Step:
    """The map (Ŵ, V, f) → (Ŵ, V, f) of one iteration, in the coordinates of `basis` (k, r).

    V is `floor` at least. Both products are made while a block of X is at hand, if reading is dear.
    """
    d, directions = design.dimension, basis.shape[0] - 1
    precise = design.dtype

    def step(here: Iterate) -> Iterate:
        inner = _Scores(here.scores, y, max(float(here.variance), floor), basis, student)
        back, found = design.through(here.weights.astype(precise, copy=False), inner)
        scores = np.hstack([part for part, _ in found]) if len(found) > 1 else found[0][0]
        precision = max(sum(curvature for _, curvature in found) / (d * directions), 0.0)
        gamma = back + precision * here.weights
        mean, variance = belief.denoise(gamma.T @ basis.T, precision)
        weights = np.ascontiguousarray((mean @ basis).T)
        return Iterate(weights, float(np.mean(variance)) / directions, scores)

    return step
