"""Steps along given directions, for many problems min_U Σ_μ ℓ(z_μ) + (λ/2)‖U‖² side by side.

With z = XU/√d, the fields of U + tD are Z + t·XD/√d: one pass over X serves all lengths t.
"""

from __future__ import annotations

import numpy as np

from polyceptron.data.design import Design
from polyceptron.fit.solvers.newton_step import by_feature, dots
from polyceptron.fit.solvers.objectives import Evaluation, Objective
from polyceptron.numerics import Array

ARMIJO_SHARE = 1e-4  # of the fall that the slope promises
MOST_HALVINGS = 40
ROUNDINGS_OF_A_VALUE = 4.0  # in units of eps, below which a change of the objective says nothing


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
    """Halve steps along D until the objective falls by the Armijo rule.

    Parameters
    ----------
    ridges : array (L,) or (L, d)
        Of each problem, or of each of its features.
    U, Z : array (L, r, d), (L, r, n)
        The weights and their fields.
    here : Evaluation
        At Z.
    G, D : array (L, r, d)
        The gradients at U, and the directions.

    Returns
    -------
    step : array (L,)
        0 if the objective never falls.
    there : Evaluation
    Z : array (L, r, n)
        The fields there.
    """
    slope = dots(G, D)
    ZD = design.fields(D)
    penalty = by_feature(ridges)
    # The ridge term at U + tD is that at U and t·linear + t²·quadratic.
    linear = dots(penalty * U, D)
    quadratic = 0.5 * dots(penalty * D, D)
    # Differences below the rounding of the sum carry no information: let them pass.
    size = np.abs(here.value) + 0.5 * dots(penalty * U, U)
    noise = ROUNDINGS_OF_A_VALUE * np.finfo(Z.dtype).eps * size
    step = np.where(slope < 0, 1.0, 0.0)
    searching = np.flatnonzero(step)
    new = Z.copy()
    there = here
    for _ in range(MOST_HALVINGS):
        if searching.size == 0:
            return step, there, new
        t = step[searching]
        new[searching] = Z[searching] + t.astype(Z.dtype)[:, None, None] * ZD[searching]
        trial = objective.take(searching).evaluate(new[searching])
        change = trial.value - here.value[searching]
        change += t * linear[searching] + t * t * quadratic[searching]
        falls = change <= ARMIJO_SHARE * t * slope[searching] + noise[searching]
        there = trial if searching.size == len(step) else there.replace(searching, trial)
        searching = searching[~falls]
        step[searching] *= 0.5
    step[searching] = 0.0
    new[searching] = Z[searching]
    return step, there.replace(searching, here.take(searching)), new
