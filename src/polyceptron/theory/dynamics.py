"""The plain loop between the two sides: what message passing follows, and what always works.

    law  →  fields side  →  m̂, q̂, V̂  →  weights side  →  law                              (eq. SE)

Bayes-optimal learning and empirical risk minimisation go round the same way; they differ in what
the sides are. For Bayes q̂_t = α I(q_t), q_{t+1} = F(q̂_t) (eq. SE_BO). Faster ways
(`theory/erm/equations.py`, the solution curve) end where this one does. Index t of a result is the
state after t iterations; t = 0 is the start.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from polyceptron.checks import check_alpha, difference_basis
from polyceptron.display import ShortDisplay
from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.numerics import AnyArray
from polyceptron.numerics.estimate import estimate_from_replicates
from polyceptron.problem.losses import check_symmetric
from polyceptron.problem.order import Conjugates, ScalarOrder
from polyceptron.problem.populations import (
    AnyTeacher,
    Population,
    check_population,
    check_teacher,
)
from polyceptron.problem.specs import ERM, as_erm
from polyceptron.sides.generalisation import error_on_labels
from polyceptron.sides.scalar import WeightsSide, erm_sides
from polyceptron.sides.weights.row_rule import effort
from polyceptron.theory.bayes.solution_curve import SolutionCurve, curve_of
from polyceptron.theory.erm.unequal_classes import population_rounds
from polyceptron.theory.separability import loss_at_ridge

if TYPE_CHECKING:
    import pandas as pd

SMALLEST_VARIANCE = 1e-15  # v below which nothing is left to learn; I would be infinite at 0
LARGEST_Q_HAT = 1e30
VARIANCE_OF_STARTS = {"uninformed": 1.0, "informed": 1e-12}


def rounds(
    fields: Callable[[ScalarOrder], Conjugates], weights: WeightsSide, start: ScalarOrder
) -> Iterator[ScalarOrder]:
    """The start, and the law after each further round, without end."""
    law = start
    while True:
        yield law
        law = weights(fields(law))


def _check_steps(n_steps: object) -> None:
    if isinstance(n_steps, bool) or not isinstance(n_steps, int) or not 0 <= n_steps <= 1_000_000:
        raise InvalidInput(f"n_steps must be a whole number from 0 to 1000000, got {n_steps!r}")


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
) -> tuple[Callable[[ScalarOrder], Conjugates], WeightsSide]:
    """Both sides for the loop: of the mean (column 0) or of one replicate."""

    def fields(law: ScalarOrder) -> Conjugates:
        """Return m̂ = q̂ = V̂ = αI(V) of the next step."""
        v = np.array([max(law.V, SMALLEST_VARIANCE)])
        information, _ = curve.channel(v)
        q_hat = min(alpha * float(information[0]), LARGEST_Q_HAT)
        return Conjugates(q_hat, q_hat, q_hat)

    return fields, partial(curve.weights, column=column)


@np.errstate(under="ignore")  # Densities far out are 0.
def state_evolution(
    teacher: AnyTeacher, alpha: float, n_steps: int = 50, start: float | str = "uninformed"
) -> StateEvolution:
    """Iterate state evolution (eq. SE_BO) from a start.

    Parameters
    ----------
    teacher : Teacher or Perceptron
    alpha : float
        n/d.
    n_steps : int
        Number of iterations.
    start : float or {'uninformed', 'informed'}
        An overlap, q = 0 or q = 1 − 1e-12.

    Returns
    -------
    StateEvolution

    Examples
    --------
    >>> from polyceptron.problem import Teacher
    >>> bool(abs(state_evolution(Teacher(3), 1.0, 100).q[-1] - 0.41896565) < 1e-7)
    True
    """
    check_teacher(teacher)
    alpha = check_alpha(alpha)
    _check_steps(n_steps)
    first = _first_variance(start)
    curve = curve_of(teacher, effort(teacher).first + 2)
    paths = [
        rounds(*bayes_sides(curve, alpha, column), ScalarOrder.bayes(first))
        for column in range(curve.n_replicates + 1)
    ]
    table = np.array([[law.V for law in islice(path, n_steps + 1)] for path in paths])
    v = table[0]
    replicates = table[1:]
    uncertainty = np.zeros_like(v)
    if len(replicates):
        # The mean's own path, and what the replicates' paths say of it, their bias included.
        middle, spread = estimate_from_replicates(replicates, axis=0)
        uncertainty = spread + np.abs(middle - v)
    return StateEvolution(alpha, 1 - v, v, curve.errors(v), uncertainty)


def _first_variance(start: float | str) -> float:
    """Return v = 1 − q at the start, or raise `InvalidInput`."""
    if isinstance(start, str) and start in VARIANCE_OF_STARTS:
        return VARIANCE_OF_STARTS[start]
    if isinstance(start, int | float) and not isinstance(start, bool) and 0 <= start < 1:
        return 1.0 - start
    raise InvalidInput(
        f"start must be 'uninformed', 'informed' or an overlap in [0, 1), got {start!r}"
    )


class ErmStep(NamedTuple):
    """The state after `step` iterations; step 0 is the start.

    Unequal classes: on class differences, covariances q and susceptibilities V (G, r, r) of each
    group's fields, their means m (G, r) or a teacher's overlaps m (r, r); `uncertainty` of errors.
    """

    step: int
    m: Any
    q: Any
    V: Any
    generalisation_error: float
    uncertainty: float = math.nan
    intercepts: Any = None  # (k,), of mean 0


@np.errstate(under="ignore")  # Densities far out are 0.
def erm_state_evolution(
    teacher: Any,
    estimator: Any,
    alpha: float,
    n_steps: int = 50,
    start: tuple[float, float, float] | None = None,
) -> list[ErmStep]:
    """The states of steps 0..n_steps of the plain loop, which undamped message passing follows.

    Parameters
    ----------
    teacher : Teacher, Perceptron or Mixture
        With unequal classes, an intercept and a weak ridge the loop may oscillate for ever.
    estimator : ERM or str
        For max-margin, λ only sets the scale of V and is taken to be 1.
    alpha : float
        n/d.
    n_steps : int
        Number of iterations.
    start : tuple of float, optional
        (m, q, V), by default (0, 0, 1/λ); for equal classes only.

    Returns
    -------
    list of ErmStep

    Examples
    --------
    >>> from polyceptron.problem import ERM, Teacher
    >>> steps = erm_state_evolution(Teacher(3), ERM("square", 1.0), 2.0, n_steps=100)
    >>> round(steps[-1].m / steps[-1].q**0.5, 4)
    0.7848
    """
    check_population(teacher)
    spec = as_erm(estimator)
    alpha = check_alpha(alpha)
    _check_steps(n_steps)
    if isinstance(spec.ridge, str) or (spec.ridge == 0 and not spec.loss.scale_free):
        raise InvalidInput(
            f"the iteration needs a ridge above 0 (max-margin: none), got {spec.ridge!r}"
        )
    if spec.sees_equal_classes(teacher):
        return _steps_of_equal_classes(teacher, spec, alpha, n_steps, start)
    if start is not None:
        raise InvalidInput(f"a start is for classes that are alike, got {start!r}")
    return _steps_of_unequal_classes(teacher, spec, alpha, n_steps)


def _steps_of_unequal_classes(
    teacher: Population, spec: ERM, alpha: float, n_steps: int
) -> list[ErmStep]:
    """Return the states of the plain loop with matrices."""
    T = difference_basis(teacher.n_classes)
    try:
        states = population_rounds(teacher, spec, alpha, n_steps)
    except np.linalg.LinAlgError:
        raise ComputationFailed(
            f"the iteration diverges within {n_steps} steps: take a larger ridge"
        ) from None
    found = []
    for step, (law, error, uncertainty) in enumerate(states):
        m = law.m if law.M is None else law.M
        found.append(ErmStep(step, m, law.Q, law.V, error, uncertainty, T @ law.b))
    return found


def _steps_of_equal_classes(
    teacher: AnyTeacher,
    spec: ERM,
    alpha: float,
    n_steps: int,
    start: tuple[float, float, float] | None,
) -> list[ErmStep]:
    """Return the states of the plain loop with numbers."""
    loss = loss_at_ridge(spec.loss, spec.ridge, teacher, alpha)
    check_symmetric(loss, teacher.n_classes)
    ridge = 1.0 if spec.loss.scale_free else float(spec.ridge)
    m, q, V = start if start is not None else (0.0, 0.0, 1 / ridge)
    if not (q >= 0 and V > 0 and abs(m) <= math.sqrt(q) * (1 + 1e-12)):
        raise InvalidInput(f"a start (m, q, V) needs q >= 0, V > 0 and |m| <= √q, got {start!r}")
    problem = erm_sides(teacher, loss, ridge, alpha)
    laws = rounds(problem.fields, problem.weights, ScalarOrder.of_overlaps(m, q, V))
    found = []
    for step, law in enumerate(islice(laws, n_steps + 1)):
        error = float(error_on_labels(teacher.channel, law.tau, teacher.n_classes))
        found.append(ErmStep(step, law.m, law.q, law.V, error))
    return found
