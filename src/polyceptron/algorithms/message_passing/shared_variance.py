"""One step of message passing with one shared variance: two products with X, nothing of its size.

    ω = XŴ/√d − V f,      f, −tr ∂f = student(ω, y, V),      Λ = Σ_ν (−tr ∂f_ν)/(d (k−1))
    γ = Xᵀf/√d + ΛŴ,      Ŵ, V = belief(γ, Λ)                                        (alg. amp)

For i.i.d. inputs of unit variance the covariances of Algorithm 1 self-average, and by symmetry
between the classes they are multiples of the identity on the class differences. Weights are kept in
r = k − 1 orthonormal coordinates of those differences, so that the products have r columns, not k;
a loss that also sees the part common to all classes has r = k.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from polyceptron.algorithms.data_checks import Labels
from polyceptron.algorithms.design import Design
from polyceptron.algorithms.message_passing.iteration import Iterate, Step
from polyceptron.model.denoisers import Belief, Student

Array = NDArray[np.float64]


def shared_step(
    design: Design, y: Labels, basis: Array, student: Student, belief: Belief, floor: float
) -> Step:
    """The map (Ŵ, V, f) → (Ŵ, V, f) of one iteration, in the coordinates of `basis` (k, r).

    V is `floor` at least.
    """
    d, directions = design.dimension, basis.shape[0] - 1
    precise = design.dtype

    def step(here: Iterate) -> Iterate:
        V = max(float(here.variance), floor)
        fields = design.fields(here.weights.astype(precise, copy=False))
        omega = fields - V * here.scores
        f, curvature = student.denoise(omega.T @ basis.T, y, V)
        scores = np.ascontiguousarray((f @ basis).T)
        precision = max(float(curvature.sum()) / (d * directions), 0.0)
        gamma = design.back(scores.astype(precise, copy=False)) + precision * here.weights
        mean, variance = belief.denoise(gamma.T @ basis.T, precision)
        weights = np.ascontiguousarray((mean @ basis).T)
        return Iterate(weights, float(np.mean(variance)) / directions, scores)

    return step
