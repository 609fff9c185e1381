"""One step of message passing with one shared variance: two products with X, nothing of its size.

    ω = XŴ/√d − V f,      f, −tr ∂f = channel(ω, V),      Λ = Σ_ν (−tr ∂f_ν)/(d r)
    γ = Xᵀf/√d + ΛŴ,      Ŵ, V = prior(γ, Λ)                                         (alg. amp)

For i.i.d. inputs of unit variance the covariances of Algorithm 1 self-average, and by symmetry
between the classes they are multiples of the identity on the class differences. Weights are kept in
r = k − 1 orthonormal coordinates of those differences, so that the products have r columns, not k.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from polyceptron.algorithms.amp_products import Data, back, fields
from polyceptron.algorithms.amp_state import State

Array = NDArray[np.float64]
Channel = Callable[[Array, float], tuple[Array, Array]]
"""ω (n, k), V to f (n, k) and −tr ∂f (n,)."""
PriorMean = Callable[[Array, float], tuple[Array, float]]
"""γ (d, k), Λ to the mean (d, k) and the variance per direction."""


def shared_step(
    X: Data, basis: Array, channel: Channel, prior: PriorMean, variance_floor: float
) -> Callable[[State], State]:
    """The map (Ŵ, V, f) → (Ŵ, V, f) of one iteration, in the coordinates of `basis` (k, r)."""
    d, r = X.shape[1], basis.shape[1]

    def step(state: State) -> State:
        V = max(float(state.variance), variance_floor)
        omega = fields(X, state.weights) - V * state.scores
        f, curvature = channel(omega.T @ basis.T, V)
        scores = np.ascontiguousarray((f @ basis).T)
        precision = max(float(curvature.sum()) / (d * r), 0.0)
        gamma = back(X, scores) + precision * state.weights
        mean, variance = prior(gamma.T @ basis.T, precision)
        return State(np.ascontiguousarray((mean @ basis).T), variance, scores)

    return step
