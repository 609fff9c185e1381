"""The whole set of fixed points as a table, stable and unstable branches included."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from polyceptron.errors import InvalidInput
from polyceptron.model import AnyTeacher
from polyceptron.model.teacher import check_teacher
from polyceptron.theory.bayes_optimal.curve_shape import curve_of
from polyceptron.theory.effort import drawn_effort

if TYPE_CHECKING:
    import pandas as pd


def solution_curve(teacher: AnyTeacher, n_points: int = 400) -> pd.DataFrame:
    """Every fixed point (α, q) as a table: q_hat, q, V, alpha, free_entropy, error, stable.

    `teacher` is a `Teacher` or a `Perceptron`, `n_points` the number of rows.

    >>> from polyceptron.model import Perceptron
    >>> table = solution_curve(Perceptron("rademacher"))
    >>> round(float(table.alpha.max()), 2), bool(table.stable.all())
    (1.49, False)
    """
    import pandas as pd

    if isinstance(n_points, bool) or not isinstance(n_points, int) or not 2 <= n_points <= 100_000:
        raise InvalidInput(f"n_points must be a whole number from 2 to 100000, got {n_points!r}")
    check_teacher(teacher)
    curve = curve_of(teacher, drawn_effort(teacher))
    grid = curve.grid(far=False)
    sensible = grid.q_hat[(grid.q_hat > 1e-4) & (grid.alpha < 1e6)]
    points = curve.points(np.geomspace(sensible[0], sensible[-1], n_points))
    return pd.DataFrame(
        {
            "q_hat": points.q_hat,
            "q": points.q,
            "V": points.v,
            "alpha": points.alpha,
            "free_entropy": points.free_entropy,
            "generalisation_error": curve.errors(points.v),
            "stable": np.gradient(points.alpha, np.log(points.q_hat)) > 0,
        }
    )
