"""Gradients of many problems side by side, their norms, and what rounding takes of the goal."""

from __future__ import annotations

import numpy as np

from polyceptron.algorithms.design import Array, Design
from polyceptron.algorithms.erm.objectives import Evaluation, Objective
from polyceptron.algorithms.erm.rounding import gradient_rounding

_RESERVE = 0.05  # of the rounding: no gradient need be smaller


def gradient(
    design: Design,
    objective: Objective,
    here: Evaluation,
    Z: Array,
    ridges: Array,
    U: Array,
    target: float,
) -> tuple[Array, Array, Array]:
    """Gradients (L, r, d), their norms (L,), and the norms to reach (L,), less what rounding takes.

    Rounding is asked for only where a gradient seems small enough.
    """
    G = design.back(here.residual) + ridges[:, None, None] * U
    norm, size = norms(G), norms(U)
    goal = target * ridges * size
    near = np.flatnonzero(norm <= goal)
    if near.size:
        part = here if near.size == len(norm) else here.take(near)
        rounding = rounding_of(
            design, objective, part, Z[near], ridges[near], size[near], goal[near] - norm[near]
        )
        goal[near] = np.maximum(goal[near] - rounding, _RESERVE * rounding)
    return G, norm, goal


def rounding_of(
    design: Design,
    objective: Objective,
    here: Evaluation,
    Z: Array,
    ridges: Array,
    norm: Array,
    enough: Array,
) -> Array:
    """Bounds (L,) on the rounding of the gradients, 0 for an objective that takes no account."""
    stiffness = objective.stiffness(here)
    if stiffness is None:
        return np.zeros(len(norm))
    sizes = [np.sqrt(np.einsum("lrn,lrn->ln", part, part)) for part in (Z, here.residual)]
    smoothness = objective.smoothness
    return gradient_rounding(
        design, norm, ridges, sizes[0], sizes[1], stiffness, smoothness, enough
    )


def dots(A: Array, B: Array) -> Array:
    """⟨A, B⟩ of each problem, (L,)."""
    result: Array = np.einsum("lij,lij->l", A, B)
    return result


def norms(A: Array) -> Array:
    """Frobenius norm of each problem, (L,)."""
    return np.sqrt(dots(A, A))
