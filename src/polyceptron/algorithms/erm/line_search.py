"""Steps that lower the objective, without a pass over X: the fields are linear in the weights."""

from __future__ import annotations

import numpy as np

from polyceptron.algorithms.design import Array, Design
from polyceptron.algorithms.erm.gradients import dots
from polyceptron.algorithms.erm.objectives import Evaluation, Objective

_HALVINGS = 40


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
    """Steps (L,) halved until the objective falls by the Armijo rule, 0 if it never does.

    Returns the evaluation there too, and the fields (L, r, n); Z are those at U.
    """
    slope = dots(G, D)
    ZD = design.fields(D)
    linear, quadratic = ridges * dots(U, D), 0.5 * ridges * dots(D, D)
    # Differences below the rounding of the sum carry no information: let them pass.
    noise = 4 * np.finfo(Z.dtype).eps * (np.abs(here.value) + 0.5 * ridges * dots(U, U))
    step = np.where(slope < 0, 1.0, 0.0)
    open_, new, there = np.flatnonzero(step), Z.copy(), here
    for _ in range(_HALVINGS):
        t = step[open_]
        new[open_] = Z[open_] + t.astype(Z.dtype)[:, None, None] * ZD[open_]
        trial = objective.take(open_).evaluate(new[open_])
        change = trial.value - here.value[open_] + t * linear[open_] + t * t * quadratic[open_]
        good = change <= 1e-4 * t * slope[open_] + noise[open_]
        there = trial if open_.size == len(step) else there.replace(open_, trial)
        if good.all():
            break
        open_ = open_[~good]
        step[open_] *= 0.5
    else:
        step[open_] = 0.0
        new[open_] = Z[open_]
        there = there.replace(open_, here.take(open_))
    return step, there, new
