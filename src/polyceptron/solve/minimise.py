"""Minimise a function of a positive parameter λ, such as the ridge, over 0 ≤ λ ≤ ∞.

The search works in x = ln λ, in four steps:

1. *Widen.* From a first guess, go to smaller and to larger λ, until the function has risen clearly
   above its least value on both sides, or has become constant.
2. *Limits.* Where it has not risen on a side, the limit on this side is a candidate: λ = 0 if the
   function is known there, else the smallest λ; on the other side the largest λ, which stands for
   λ → ∞.
3. *Refine* between the neighbours of the best λ: a root of the slope where slopes are known, else
   by ever narrower brackets of three values.
4. *Check* the result against a neighbour on each side. The parabola through the three values says
   what could still be gained: if this is more than a share of the tolerance, go to its vertex.

`Minimum.left_open` bounds what a further search could gain, and belongs in the error bar of the
value. `Minimum.place` says whether the minimum lies inside, in a limit, or whether the search ended
at an edge beyond which the function could not be computed or was still falling.

The function may have several valleys: those that the trials show are compared. Beyond the points
where it has risen clearly it is assumed to have none, unless the caller asks for a `scan`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq

# Distances in ln λ.
FIRST_STEP = 1.0
LONGEST_STEP = 2.0  # valleys of hinges with few data are hardly wider
NARROW = 1.2  # a bracket within which a parabola approximates the function
# Neighbours of the check are not closer than the first, and not further than the second: closer
# ones differ by rounding alone, and further away a parabola is a poor approximation.
SHORTEST_CHECK = 2e-3
LONGEST_CHECK = 0.3
RESOLUTION = 1e-4  # of the answer: so small an error of ln λ costs nothing

# Shares of the tolerance on the function.
CONSTANT_SHARE = 0.03  # a change that counts as none
GAIN_SHARE = 0.1  # a possible gain for which the search goes on
RISE_SHARE = 10.0  # a rise that counts as clear: of the ends of a valley, and of neighbours

MAX_STEPS_OF_A_CHECK = 14  # each goes to the vertex of a parabola, or shortens the step
MAX_TRIALS_OF_A_STEP = 40  # of a loop that narrows or fills a bracket; each halves a part of it


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
        A further search could lower the value by this much at most.
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


def minimise(
    objective: Objective,
    start: float,
    tol: float,
    *,
    relative_tol: float = math.inf,
    range_: tuple[float, float] = (1e-12, 1e12),
    limit_at_zero: bool = False,
    scan: tuple[float, ...] = (),
) -> Minimum | None:
    """Minimise a function of λ > 0; None if it could be computed nowhere.

    Parameters
    ----------
    objective : callable
        Takes λ and returns a `Trial`.
    start : float
        A first guess of λ.
    tol : float
        Tolerance on the value, > 0.
    relative_tol : float
        Tolerance relative to the least value, for functions that are positive and may be small: the
        search goes on until both are met.
    range_ : (float, float)
        The smallest and the largest λ that are tried.
    limit_at_zero : bool
        Whether the objective takes λ = 0 and returns its limit.
    scan : tuple of float
        λ that are tried in any case, where the function may have several valleys.

    Returns
    -------
    Minimum or None

    Examples
    --------
    >>> found = minimise(lambda x: Trial((x - 3.0) ** 2 / (x + 1)), 1e-3, 1e-9)
    >>> round(found.parameter, 3), str(found.place), found.left_open < 1e-9
    (3.0, 'inside', True)
    >>> rising = minimise(lambda x: Trial(x / (x + 1)), 1.0, 1e-6, limit_at_zero=True)
    >>> rising.parameter, str(rising.place)
    (0.0, 'zero')
    """
    lowest = math.log(range_[0])
    highest = math.log(range_[1])
    first = min(max(math.log(start), lowest), highest)
    search = _Search(objective, tol, lowest, highest, limit_at_zero, first, relative_tol)
    for parameter in scan:
        search.at(math.log(parameter))
    search.widen()
    if not search.trials_with_values():
        return None
    return search.minimum()


def check_minimum(objective: Objective, parameter: float, tol: float) -> Minimum | None:
    """Compare a λ that was found by a coarser search with its neighbours, and correct it.

    Parameters
    ----------
    objective : callable
        Takes λ and returns a `Trial`.
    parameter : float
        The λ that is thought to be the best.
    tol : float
        Tolerance on the value, > 0.

    Returns
    -------
    Minimum or None
        None where the function could not be computed at the given λ.

    Examples
    --------
    >>> found = check_minimum(lambda x: Trial((x - 3.0) ** 2), 3.1, 1e-9)
    >>> round(found.parameter, 3)
    3.0
    """
    x = math.log(parameter)
    search = _Search(objective, tol, -math.inf, math.inf, False, x)
    if not math.isfinite(search.at(x).value):
        return None
    return search.checked(x, LONGEST_CHECK)


class _Vertex(NamedTuple):
    """The bottom of a valley: ln λ and the value there, as a parabola has them."""

    x: float
    value: float


def _power_of_decay(ratio: float, width_before: float, width: float) -> float | None:
    """Return p of a function c·e^(−p|x|) + constant from its falls over two neighbouring intervals.

    Parameters
    ----------
    ratio : float
        The fall over the first interval by that over the second.
    width_before, width : float
        Of the two intervals.

    Returns
    -------
    float or None
        None where the falls do not shrink, so that no limit is in sight.
    """
    largest_power = 30.0  # e^(−p·width) is rounding then

    def excess(power: float) -> float:
        """Return ln of the ratio that a power would give, less that of the ratio seen."""
        growth = math.expm1(power * width_before) / math.expm1(power * width)
        return math.log(growth) + power * width - math.log(ratio)

    smallest_power = 1e-6
    if not math.isfinite(ratio) or ratio <= 0 or excess(smallest_power) >= 0:
        return None
    if excess(largest_power) <= 0:
        return largest_power
    return float(brentq(excess, smallest_power, largest_power))


@dataclass
class _Search:
    """The trials made so far by x = ln λ, where x = −∞ is the limit λ → 0."""

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
        rounding = 64 * np.finfo(float).eps * abs(least)
        equal = [x for x in self.trials_with_values() if self.trials[x].value <= least + rounding]
        return min(equal, key=lambda x: abs(x - self.start))

    def least(self) -> float:
        """Return the least value, inf without any."""
        return min((trial.value for trial in self.trials.values()), default=math.inf)

    # Step 1 and 2: widening, and limits.

    def widen(self) -> None:
        """Make trials on both sides of the start, until both ends of the valley are seen."""
        # Where the function cannot be computed at the start, begin at a larger λ. The objective may
        # succeed there later, once it can start from a solution near by: forget those failures.
        x = self.start
        while not math.isfinite(self.at(x).value) and x < self.highest:
            x = min(x + 2 * FIRST_STEP, self.highest)
        if not self.trials_with_values():
            return
        self.trials = {x: trial for x, trial in self.trials.items() if math.isfinite(trial.value)}
        # What is found on one side may show that the other has not risen enough.
        ends_seen = 0
        while ends_seen < 2:
            ends_seen = 0
            for direction in (1, -1):
                if self._has_risen(direction) or not self._step_out(direction):
                    ends_seen += 1
        self._fill_gaps()

    def _outermost(self, direction: int) -> float:
        """Return the largest (direction 1) or the smallest (−1) finite x with a value."""
        known = [x for x in self.trials_with_values() if x > -math.inf]
        return max(known) if direction > 0 else min(known)

    def _end(self, direction: int) -> float:
        """Return the x that stands for the limit on a side."""
        if direction > 0:
            return self.highest
        limit = self.trials.get(-math.inf)
        limit_failed = limit is not None and not math.isfinite(limit.value)
        if self.limit_at_zero and not limit_failed:
            return -math.inf
        return self.lowest

    def _has_risen(self, direction: int) -> bool:
        """Return whether the outermost value on a side is clearly above the least."""
        known = self.trials_with_values()
        outermost = known[-1] if direction > 0 else known[0]
        return self.trials[outermost].value > self.least() + RISE_SHARE * self.tol

    def _step_out(self, direction: int) -> bool:
        """Make one more trial on a side; return False if there is nothing more to try."""
        if self._end(direction) in self.trials:
            return self._step_towards_limit(direction)
        here = self._outermost(direction)
        wall = self._nearest_failure(direction)
        if wall is not None:
            if abs(wall - here) >= LONGEST_CHECK:
                self.at((wall + here) / 2)
                return True
            limit_is_new = self._end(direction) == -math.inf
            if limit_is_new:  # the limit may be known, although small λ are not
                self.at(-math.inf)
            return limit_is_new
        if self._is_constant(direction):
            limit = self.at(self._end(direction))
            return math.isfinite(limit.value)  # or else the function counts as constant up to there
        step = FIRST_STEP
        outwards = self._outwards(direction)
        if len(outwards) > 1:
            step = min(2 * abs(outwards[-1] - outwards[-2]), LONGEST_STEP)
        x = here + direction * max(step, FIRST_STEP)
        if not self.lowest < x < self.highest:
            x = self._end(direction)
        self.at(x)
        return True

    def _step_towards_limit(self, direction: int) -> bool:
        """Make one longer step towards a known limit λ → 0; return False if none is left.

        The function may be constant over a long stretch, and have another value in the limit.
        """
        limit = self.trials[self._end(direction)]
        outwards = self._outwards(direction)
        here = outwards[-1]
        apart = abs(self.trials[here].value - limit.value)
        if self._end(direction) > -math.inf or apart < CONSTANT_SHARE * self.tol:
            return False
        if self._nearest_failure(direction) is not None or len(outwards) < 2:
            return False
        x = here - 2 * abs(here - outwards[-2])
        if x < self.lowest:
            return False
        self.at(x)
        return True

    def _is_constant(self, direction: int) -> bool:
        """Return whether the last trials on a side have the same value over two longest steps.

        Trials may be a little closer than that.
        """
        outwards = self._outwards(direction)
        last = self.trials[outwards[-1]].value
        for x in reversed(outwards):
            if abs(self.trials[x].value - last) > CONSTANT_SHARE * self.tol:
                return False
            if abs(x - outwards[-1]) > 1.75 * LONGEST_STEP:
                return True
        return False

    def _fill_gaps(self) -> None:
        """Fill wide gaps: where neighbours differ in value, and one of them is close to the least.

        A valley may lie between two stretches on which the function is constant, or just beyond the
        end of one.
        """
        for _ in range(MAX_TRIALS_OF_A_STEP):
            known = self._outwards(1)
            near = self.least() + RISE_SHARE * self.tol
            gaps = [
                (low, high)
                for low, high in pairwise(known)
                if high - low > self._widest_gap(low, high)
                and min(self.trials[low].value, self.trials[high].value) < near
                and abs(self.trials[low].value - self.trials[high].value)
                > CONSTANT_SHARE * self.tol
            ]
            if not gaps:
                return
            low, high = gaps[0]
            if not math.isfinite(self.at((low + high) / 2).value):
                return

    def _widest_gap(self, low: float, high: float) -> float:
        """Return how far apart two neighbours may be: less at the end of a constant stretch.

        A valley of a hinge there is hardly narrower (test_valley_beside_a_plateau).
        """
        if self._ends_constant_stretch(low, -1) or self._ends_constant_stretch(high, 1):
            return FIRST_STEP / 2
        return 1.01 * LONGEST_STEP

    def _ends_constant_stretch(self, x: float, direction: int) -> bool:
        """Return whether the next trial in a direction has the same value as x."""
        known = self._outwards(1)
        i = known.index(x) + direction
        if not 0 <= i < len(known):
            return False
        apart = abs(self.trials[known[i]].value - self.trials[x].value)
        return apart <= CONSTANT_SHARE * self.tol

    def _nearest_failure(self, direction: int) -> float | None:
        """Return the next x further out at which the function could not be computed, if any."""
        here = self._outermost(direction)
        beyond = [
            x
            for x, trial in self.trials.items()
            if x > -math.inf and not math.isfinite(trial.value) and direction * (x - here) > 0
        ]
        return min(beyond, key=lambda x: abs(x - here), default=None)

    # Step 3: refining.

    def minimum(self) -> Minimum:
        """Return the minimum in the deepest valley that the trials show, of four at most."""
        found = self._minimum_around_best()
        for _ in range(3):
            rival = self._deepest_rival(found.trial.value)
            if rival is None:
                break
            if self.at(rival).value < found.trial.value:
                found = self._minimum_around_best()
        return found

    def _deepest_rival(self, least: float) -> float | None:
        """Return the vertex of another valley that may be deeper than the one refined, if any."""
        known = self._outwards(1)
        vertices = {}
        for below, x, above in zip(known, known[1:], known[2:], strict=False):
            if above - below < NARROW:
                continue
            vertex = self._vertex(below, x, above)
            if vertex is not None:
                vertices[vertex.x] = vertex.value
        deepest = min(vertices, key=lambda x: vertices[x], default=None)
        if deepest is None or vertices[deepest] >= least:
            return None
        return deepest

    def _vertex(self, below: float, x: float, above: float) -> _Vertex | None:
        """Return the bottom of a valley by the parabola through three trials, if x is the lowest.

        None where the bottom is x itself, or not between the outer two.
        """
        low = self.trials[below].value
        middle = self.trials[x].value
        high = self.trials[above].value
        if middle >= min(low, high):
            return None
        bend = self._bend_around(x)
        rise_above = (high - middle) / (above - x)
        rise_below = (middle - low) / (x - below)
        slope = (rise_above * (x - below) + rise_below * (above - x)) / (above - below)
        if not bend > 0:
            return None
        shift = -slope / bend
        if abs(shift) <= RESOLUTION or not below < x + shift < above:
            return None
        return _Vertex(x + shift, middle - slope**2 / (2 * bend))

    def _minimum_around_best(self) -> Minimum:
        """Refine between the neighbours of the best trial, and say where the minimum lies."""
        best = self.best()
        if best == -math.inf:
            return self._minimum_at_zero()
        at_end = self._limit(best)
        if at_end is not None:
            return at_end
        # Where the function is constant its slope is rounding, so come close by values first.
        self._narrow_by_value(2 * NARROW)
        root = self._refine_by_slope()
        if root is None or self.trials[root].value > self.least() + GAIN_SHARE * self.tol:
            return self.checked(self._narrow_by_value(NARROW), LONGEST_CHECK)
        return self.checked(root, self._check_step(self._bend_around(root)))

    def _minimum_at_zero(self) -> Minimum:
        """Return the limit λ → 0; where small λ could not be computed it is an edge."""
        limit = self.trials[-math.inf]
        if self._nearest_failure(-1) is None:
            return Minimum(0.0, limit, 0.0, 0.0, Place.ZERO)
        # In between the function may fall as far again as it did from the last λ to the limit.
        fall = self.trials[self._outermost(-1)].value - limit.value
        return Minimum(0.0, limit, fall, 0.0, Place.EDGE)

    def _limit(self, best: float) -> Minimum | None:
        """Return the minimum in a limit or at an edge, None if it lies inside."""
        known = [x for x in self.trials_with_values() if x > -math.inf]
        if known[0] < best < known[-1] or len(known) == 1:
            return None
        if best == known[0]:
            limit = self.trials.get(-math.inf)
            limit_is_known = limit is not None and math.isfinite(limit.value)
            if limit_is_known and self._nearest_failure(-1) is None:
                return None  # between 0 and the next λ: there is a bracket
            direction = -1
        else:
            direction = 1
        return self._constant_part(best, direction)

    def _constant_part(self, best: float, direction: int) -> Minimum:
        """Return the minimum of a function that still falls at the last trial on a side.

        It is the first λ whose value is as good as the last one.
        """
        enough = CONSTANT_SHARE * self.tol
        outwards = self._outwards(direction)
        while abs(outwards[-1] - outwards[-2]) > 2 * FIRST_STEP and self._fall(outwards) > enough:
            self.at((outwards[-1] + outwards[-2]) / 2)
            outwards = self._outwards(direction)
        beyond = self._left_beyond(outwards)
        place = Place.INFINITY if direction > 0 else Place.ZERO
        reached_end = best == self._end(direction) and beyond <= self.tol
        if not reached_end and beyond > enough:
            place = Place.EDGE
        chosen = next(x for x in outwards if self.trials[x].value <= self.least() + enough)
        left_open = self.trials[chosen].value - self.least() + beyond
        return Minimum(math.exp(chosen), self.trials[chosen], left_open, 0.0, place)

    def _outwards(self, direction: int) -> list[float]:
        """Return the finite x with values, in the order in which a direction meets them."""
        known = [x for x in self.trials_with_values() if x > -math.inf]
        return sorted(known, key=lambda x: direction * x)

    def _fall(self, outwards: list[float]) -> float:
        """Return by how much the last two values differ."""
        return abs(self.trials[outwards[-1]].value - self.trials[outwards[-2]].value)

    def _left_beyond(self, outwards: list[float]) -> float:
        """Return how far the function may still fall beyond the last trial.

        Towards a limit it changes by a power λ^(∓p). The last two falls say what p is, and the
        rest of a fall D over a distance h in ln λ is D/(e^{ph} − 1). It counts as D at least.
        """
        fall = self._fall(outwards)
        if fall <= CONSTANT_SHARE * self.tol or len(outwards) < 3:
            return fall
        before, middle, last = outwards[-3:]
        fall_before = abs(self.trials[middle].value - self.trials[before].value)
        power = _power_of_decay(fall_before / fall, abs(middle - before), abs(last - middle))
        if power is None:
            return fall
        return fall * max(1.0, 1 / math.expm1(power * abs(last - middle)))

    def _refine_by_slope(self) -> float | None:
        """Return the x where the slope vanishes next to the best trial; None without slopes."""
        known = [x for x in self.trials_with_values() if x > -math.inf]
        pairs = [
            (low, high)
            for low, high in pairwise(known)
            if self.trials[low].slope < 0 < self.trials[high].slope
        ]
        best = self.best()
        pairs = [pair for pair in pairs if best in pair]
        if not pairs:
            return None
        low, high = pairs[0]

        def slope(x: float) -> float:
            """Return the slope of the trial at x, or raise where it is not known."""
            value = self.at(x).slope
            if math.isnan(value):
                raise ArithmeticError("no slope")
            return value

        bend = (self.trials[high].slope - self.trials[low].slope) / (high - low)
        try:
            root = float(brentq(slope, low, high, xtol=self._resolution(bend)))
        except ArithmeticError:
            return None
        self.at(root)
        return root

    def _resolution(self, bend: float) -> float:
        """Return how far off x may be, for a second derivative of the value.

        It costs a hundredth of the tolerance.
        """
        if not bend > 0:
            return RESOLUTION
        return min(max(math.sqrt(0.02 * self.tol / bend), RESOLUTION), 0.2)

    def _narrow_by_value(self, width: float) -> float:
        """Narrow the bracket around the best trial until both its sides are below a width.

        The longer side is halved, or shortened by 4 where it is very long.
        """
        for _ in range(MAX_TRIALS_OF_A_STEP):
            low, best, high = self._bracket()
            below = best - low
            above = high - best
            if max(below, above) < width:
                break
            if below > above:
                self.at(best - min(below / 2, 4.0))
            else:
                self.at(best + min(above / 2, 4.0))
        return self._bracket()[1]

    def _bracket(self) -> tuple[float, float, float]:
        """Return the best finite x and its neighbours, or the limits where there are none."""
        known = [x for x in self.trials_with_values() if x > -math.inf]
        best = self.best()
        if best == -math.inf:
            best = known[0]
        i = known.index(best)
        low = known[i - 1] if i > 0 else self.lowest - 1
        high = known[i + 1] if i < len(known) - 1 else self.highest + 1
        return low, best, high

    # Step 4: checking.

    def checked(self, x: float, step: float) -> Minimum:
        """Compare with a neighbour on each side, and correct x if this gains something.

        The vertex of a parabola is off by about step²: the step is shortened little by little, so
        that the next vertex is still within reach.
        """
        fit = self._parabola(x, step)
        for _ in range(MAX_STEPS_OF_A_CHECK):
            shorter = max(self._check_step(fit.bend), step / 4)
            gains = fit.gain > GAIN_SHARE * self.tol
            if not gains and step < 2 * shorter:
                break
            if not fit.neighbours_known:
                break
            if gains:
                x = x + fit.shift
            if abs(fit.shift) < step:  # the vertex is within the three points: look closer
                step = min(step, shorter)
            fit = self._parabola(x, step)
        excess = self.trials[x].value - self.least()
        # Of a curve whose third derivative is at most twice the second, the vertex of the parabola
        # is off by step²/3.
        off = step**2 / 3
        left_open = excess + 2 * fit.gain + 0.5 * max(fit.bend, 0.0) * off**2
        width = abs(fit.shift) + RESOLUTION
        if fit.bend > 0:
            width = math.sqrt(2 * left_open / fit.bend) + RESOLUTION
        place = Place.INSIDE
        if not fit.neighbours_known:
            place = Place.EDGE
        return Minimum(math.exp(x), self.trials[x], left_open, width, place)

    def _bend_around(self, x: float) -> float:
        """Estimate the second derivative of the value at x from the trials on both sides.

        Trials closer than the shortest distance of a check show rounding, and do not count.
        """
        finite = [other for other in self.trials_with_values() if other > -math.inf]
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

    def _check_step(self, bend: float) -> float:
        """Return the distance at which the function has risen by some tolerances."""
        if not bend > 0:
            return LONGEST_CHECK
        step = math.sqrt(2 * RISE_SHARE * self.tol / bend)
        return min(max(step, SHORTEST_CHECK), LONGEST_CHECK)

    def _parabola(self, x: float, step: float) -> _Parabola:
        """Return the parabola through the values at x and a step below and above."""
        here = self.at(x).value
        below = self.at(x - step).value
        above = self.at(x + step).value
        slope = (above - below) / (2 * step)
        bend = (above - 2 * here + below) / step**2
        if not (math.isfinite(slope) and math.isfinite(bend)):
            return _Parabola(0.0, 0.0, self.tol, neighbours_known=False)
        if bend > 0 and abs(slope / bend) < 2 * step:
            return _Parabola(-slope / bend, bend, slope**2 / (2 * bend))
        # No vertex near by: what the next step in the falling direction gains.
        shift = -math.copysign(step, slope)
        return _Parabola(shift, bend, max(here - min(below, above), 0.0))


@dataclass(frozen=True)
class _Parabola:
    """The vertex relative to the middle point, the second derivative, and the gain there.

    Where the function could not be computed at a neighbour, what could be gained there is open.
    """

    shift: float
    bend: float
    gain: float
    neighbours_known: bool = True
