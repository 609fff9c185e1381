"""The trials of a minimiser over a positive parameter λ, and what they say of the function.

The search of `minimise` works in x = ln λ. `Trials` keeps each value that was computed, once, with
the range of x and the tolerances; x = −∞ is the limit λ → 0. A *direction* is 1 towards larger x
and −1 towards smaller x. The constants here are shared by the steps of the search (`widen.py`,
`minimise.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np

# Distances in ln λ.
FIRST_STEP = 1.0
LONGEST_STEP = 2.0  # valleys of hinge losses with few data are hardly wider
# Neighbours of the check are not closer than the first, and not further than the second: closer
# ones differ by rounding alone, and further away a parabola is a poor approximation.
SHORTEST_CHECK = 2e-3
LONGEST_CHECK = 0.3
RESOLUTION = 1e-4  # of the answer: so small an error of ln λ costs nothing

# Shares of the tolerance on the function.
CONSTANT_SHARE = 0.03  # a change that counts as none
GAIN_SHARE = 0.1  # a possible gain for which the search goes on
RISE_SHARE = 10.0  # a rise that counts as clear: of the ends of a valley, and of neighbours

# A limit on loops that narrow a bracket or fill the gaps in one; each trial halves a part of it.
MAX_TRIALS_OF_A_STEP = 40
# Values that differ by less, relative to the least, are equal: rounding of a sum of many terms.
EQUAL_VALUES = 64 * float(np.finfo(float).eps)


class Place(StrEnum):
    """Where a minimum lies."""

    INSIDE = "inside"
    ZERO = "zero"  # the limit λ → 0
    INFINITY = "infinity"  # the limit λ → ∞: the value at a finite λ differs by `left_open` at most
    EDGE = "edge"  # of what could be computed: beyond it the function may be lower


@dataclass(frozen=True)
class Trial:
    """The function at one λ; the value is inf where it could not be computed.

    `slope` is d value/d ln λ, NaN where it is not known. `answer` is whatever the caller wants to
    find again at the minimum, such as the solution at this λ.
    """

    value: float
    slope: float = math.nan
    answer: Any = None


@dataclass(frozen=True)
class Minimum:
    """The least value found, and what is known of its neighbourhood.

    Attributes
    ----------
    parameter : float
        λ, which is 0.0 in the limit λ → 0.
    trial : Trial
        The function there.
    left_open : float
        A further search could lower the value by this much at most. At an edge it is no bound, but
        what the function fell by before: nothing is known beyond.
    width : float
        ln λ may be off by this much; 0 in a limit.
    place : Place
    """

    parameter: float
    trial: Trial
    left_open: float
    width: float
    place: Place


Objective = Callable[[float], Trial]


@dataclass
class Trials:
    """The trials made so far.

    Attributes
    ----------
    objective : callable
        λ → Trial.
    absolute_tol, relative_tol : float
        Tolerance on the value, and relative to the least value: the search meets both.
    lowest, highest : float
        The range of x.
    limit_at_zero : bool
        Whether the objective takes λ = 0.
    start : float
        The first guess of x.
    trials : dict
        By x.
    """

    objective: Objective
    absolute_tol: float
    lowest: float
    highest: float
    limit_at_zero: bool
    start: float
    relative_tol: float = math.inf
    trials: dict[float, Trial] = field(default_factory=dict)

    @property
    def tol(self) -> float:
        """The smaller of both tolerances, given the least value so far."""
        least = self.least()
        if math.isinf(self.relative_tol) or not 0 < least < math.inf:
            return self.absolute_tol
        return min(self.absolute_tol, self.relative_tol * least)

    def at(self, x: float) -> Trial:
        """Return the trial at x, which is made once."""
        if x not in self.trials:
            self.trials[x] = self.objective(math.exp(x))
        return self.trials[x]

    def trials_with_values(self) -> list[float]:
        """Return the x of all trials that could be computed, in rising order."""
        return sorted(x for x, trial in self.trials.items() if math.isfinite(trial.value))

    def best(self) -> float:
        """Return the x of the least value, the nearest to the start of those that are equal."""
        least = self.least()
        rounding = EQUAL_VALUES * abs(least)
        equal = [x for x in self.trials_with_values() if self.trials[x].value <= least + rounding]
        return min(equal, key=lambda x: abs(x - self.start))

    def least(self) -> float:
        """Return the least value, inf without any."""
        return min((trial.value for trial in self.trials.values()), default=math.inf)

    def end(self, direction: int) -> float:
        """Return the x that stands for the limit in a direction."""
        if direction > 0:
            return self.highest
        limit = self.trials.get(-math.inf)
        limit_failed = limit is not None and not math.isfinite(limit.value)
        if self.limit_at_zero and not limit_failed:
            return -math.inf
        return self.lowest

    def outwards(self, direction: int) -> list[float]:
        """Return the finite x with values, in the order in which a direction meets them."""
        known = [x for x in self.trials_with_values() if x > -math.inf]
        return sorted(known, key=lambda x: direction * x)

    def nearest_failure(self, direction: int) -> float | None:
        """Return the next x further out at which the function could not be computed, if any."""
        outermost = self.outwards(direction)[-1]
        beyond = [
            x
            for x, trial in self.trials.items()
            if x > -math.inf and not math.isfinite(trial.value) and direction * (x - outermost) > 0
        ]
        return min(beyond, key=lambda x: abs(x - outermost), default=None)

    def bend_around(self, x: float) -> float:
        """Estimate the second derivative of the value at x from the trials on both sides.

        Trials closer than the shortest distance of a check show rounding, and do not count. It is 0
        where a side has no trial.
        """
        finite = self.outwards(1)
        below = max((other for other in finite if other < x - SHORTEST_CHECK), default=math.nan)
        above = min((other for other in finite if other > x + SHORTEST_CHECK), default=math.nan)
        if math.isnan(below) or math.isnan(above):
            return 0.0
        low, middle, high = self.trials[below], self.trials[x], self.trials[above]
        if not math.isnan(low.slope + high.slope):
            return (high.slope - low.slope) / (above - below)
        rise_above = (high.value - middle.value) / (above - x)
        rise_below = (middle.value - low.value) / (x - below)
        return 2 * (rise_above - rise_below) / (above - below)
