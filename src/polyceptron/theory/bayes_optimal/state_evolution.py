"""State evolution step by step: what message passing does at each iteration (eq. SE_BO).

    q̂_t = α I(q_t),    q_{t+1} = F(q̂_t)

the plain loop (`theory/loop.py`) with both sides of the Bayes-optimal student. Index t of the
result is the overlap after t iterations; t = 0 is the start.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from polyceptron.display import ShortDisplay
from polyceptron.errors import InvalidInput
from polyceptron.model import AnyTeacher
from polyceptron.model.checks import check_alpha
from polyceptron.model.law import Hats, Law
from polyceptron.model.teacher import check_teacher
from polyceptron.numerics import AnyArray
from polyceptron.numerics.estimate import from_replicates
from polyceptron.theory.bayes_optimal.solution_curve import SolutionCurve, curve_of
from polyceptron.theory.loop import rounds
from polyceptron.theory.weights.rules import effort

if TYPE_CHECKING:
    import pandas as pd

_CERTAIN = 1e-15  # v below which nothing is left to learn; I would be infinite at 0
_MOST = 1e30  # of q̂


@dataclass(frozen=True, repr=False)
class StateEvolution(ShortDisplay):
    """Overlap q, its complement v and the error after t = 0, 1, …, n_steps iterations."""

    alpha: float
    q: AnyArray
    v: AnyArray
    generalisation_error: AnyArray
    uncertainty: AnyArray  # of q; zero where the rules are deterministic

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


def bayes_sides(
    curve: SolutionCurve, alpha: float, column: int
) -> tuple[Callable[[Law], Hats], Callable[[Hats], Law]]:
    """Both sides for the loop: of the mean (column 0) or of one replicate."""
    which = np.array([column])

    def fields(law: Law) -> Hats:
        information = curve.channel(np.array([max(law.V, _CERTAIN)]))[0][0]
        q_hat = min(alpha * float(information), _MOST)
        return Hats(q_hat, q_hat, q_hat)

    def weights(hats: Hats) -> Law:
        return _law(float(curve.weights(np.array([hats.q]), which)[0][0]))

    return fields, weights


def _law(v: float) -> Law:
    return Law.bayes(v) if v > 0 else Law(np.inf, 1.0, 0.0)


def state_evolution(
    teacher: AnyTeacher, alpha: float, n_steps: int = 50, start: float | str = "uninformed"
) -> StateEvolution:
    """Iterate from `start`: "uninformed" (q = 0), "informed" (q = 1 − 1e-12) or an overlap.

    `teacher` is a `Teacher` or a `Perceptron`, `alpha` is n/d, `n_steps` the number of iterations.

    >>> from polyceptron.model import Teacher
    >>> bool(abs(state_evolution(Teacher(3), 1.0, 100).q[-1] - 0.41896565) < 1e-7)
    True
    """
    check_teacher(teacher)
    alpha = check_alpha(alpha)
    if isinstance(n_steps, bool) or not isinstance(n_steps, int) or not 0 <= n_steps <= 1_000_000:
        raise InvalidInput(f"n_steps must be a whole number from 0 to 1000000, got {n_steps!r}")
    first = _law(_start(start))
    curve = curve_of(teacher, effort(teacher).drawn)
    table = np.array(
        [
            [law.V for law in islice(rounds(*bayes_sides(curve, alpha, c), first), n_steps + 1)]
            for c in range(curve.n_replicates + 1)
        ]
    )
    v, replicates = table[0], table[1:]
    uncertainty = np.zeros_like(v)
    if len(replicates):
        # The mean's own path, and what the replicates' paths say of it, their bias included.
        middle, spread = from_replicates(replicates, axis=0)
        uncertainty = spread + np.abs(middle - v)
    return StateEvolution(alpha, 1 - v, v, curve.errors(v), uncertainty)


def _start(start: Any) -> float:
    if isinstance(start, str) and start == "uninformed":
        return 1.0
    if isinstance(start, str) and start == "informed":
        return 1e-12
    if isinstance(start, int | float) and not isinstance(start, bool) and 0 <= start < 1:
        return 1.0 - float(start)
    raise InvalidInput(
        f"start must be 'uninformed', 'informed' or an overlap in [0, 1), got {start!r}"
    )
