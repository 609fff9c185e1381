"""State evolution step by step: what message passing does at each iteration (eq. SE_BO).

    q̂_t = α I(q_t),    q_{t+1} = F(q̂_t)

Index t of the result is the overlap after t iterations; t = 0 is the start. `solution_curve` is the
whole set of fixed points as a table, stable and unstable branches included.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from polyceptron.errors import InvalidInput
from polyceptron.model import AnyTeacher
from polyceptron.model.teacher import check_teacher
from polyceptron.numerics.qmc import summarise
from polyceptron.theory.bayes_optimal import check_alpha
from polyceptron.theory.ensemble import ensemble

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[Any]
_TINY = 1e-15


@dataclass(frozen=True)
class StateEvolution:
    """Overlap q, its complement v and the error after t = 0, 1, …, n_steps iterations."""

    alpha: float
    q: Array
    v: Array
    generalisation_error: Array
    uncertainty: Array  # of q; zero where the rules are deterministic

    @property
    def frame(self) -> pd.DataFrame:
        """The trajectory as a table with column `iteration`."""
        import pandas as pd

        return pd.DataFrame(
            {
                "iteration": np.arange(self.q.size),
                "q": self.q,
                "V": self.v,
                "generalisation_error": self.generalisation_error,
            }
        )


def state_evolution(
    teacher: AnyTeacher, alpha: float, n_steps: int = 50, start: float | str = "uninformed"
) -> StateEvolution:
    """Iterate from `start`: "uninformed" (q = 0), "informed" (q = 1 − 1e-12) or an overlap.

    >>> from polyceptron.model import Teacher
    >>> bool(abs(state_evolution(Teacher(3), 1.0, 100).q[-1] - 0.41896565) < 1e-7)
    True
    """
    check_teacher(teacher)
    alphas = check_alpha(alpha)
    if len(alphas) != 1:
        raise InvalidInput(f"state evolution takes one alpha, got {len(alphas)}")
    alpha = alphas[0]
    if isinstance(n_steps, bool) or not isinstance(n_steps, int) or not 0 <= n_steps <= 1_000_000:
        raise InvalidInput(f"n_steps must be a whole number from 0 to 1000000, got {n_steps!r}")
    v0 = _start(start)
    curves = ensemble(teacher, 8 if teacher.n_classes <= 20 else 5)
    R = curves.n_replicates
    replicate = np.arange(R)
    v = np.full(R, v0)
    trajectory = [v]
    for _ in range(n_steps):
        q_hat = np.minimum(alpha * curves.information(np.maximum(v, _TINY), replicate), 1e30)
        v = curves.prior_variance(q_hat, replicate)
        trajectory.append(v)
    table = np.stack(trajectory)
    complement, spread = summarise(table)
    error = summarise(curves.errors(table)).value
    return StateEvolution(alpha, 1 - complement, complement, error, spread)


def _start(start: Any) -> float:
    if start == "uninformed":
        return 1.0
    if start == "informed":
        return 1e-12
    if isinstance(start, int | float) and 0 <= start < 1:
        return 1.0 - float(start)
    raise InvalidInput(
        f"start must be 'uninformed', 'informed' or an overlap in [0, 1), got {start!r}"
    )


def solution_curve(teacher: AnyTeacher, n_points: int = 400) -> pd.DataFrame:
    """Every fixed point (α, q) as a table: q_hat, q, V, alpha, free_entropy, error, stable.

    >>> from polyceptron.model import Perceptron
    >>> table = solution_curve(Perceptron("rademacher"))
    >>> round(float(table.alpha.max()), 2), bool(table.stable.all())
    (1.49, False)
    """
    import pandas as pd

    if isinstance(n_points, bool) or not isinstance(n_points, int) or not 2 <= n_points <= 100_000:
        raise InvalidInput(f"n_points must be a whole number from 2 to 100000, got {n_points!r}")
    check_teacher(teacher)
    curves = ensemble(teacher, 8 if teacher.n_classes <= 20 else 5)
    grid = curves.grid
    R = curves.n_replicates
    sensible = (grid.q_hat[:, 0] > 1e-4) & (grid.alpha[:, 0] < 1e6)
    low, high = grid.q_hat[sensible, 0][[0, -1]]
    q_hat = np.geomspace(low, high, n_points)
    points = curves.points(np.repeat(q_hat, R), np.tile(np.arange(R), n_points))
    mean = {
        name: summarise(getattr(points, name).reshape(-1, R)).value
        for name in ("q", "v", "alpha", "free_entropy")
    }
    error = summarise(curves.errors(points.v).reshape(-1, R)).value
    return pd.DataFrame(
        {
            "q_hat": q_hat,
            "q": mean["q"],
            "V": mean["v"],
            "alpha": mean["alpha"],
            "free_entropy": mean["free_entropy"],
            "generalisation_error": error,
            "stable": np.gradient(mean["alpha"], np.log(q_hat)) > 0,
        }
    )
