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

Steps 1 and 2 are in `widen.py`, the record of all trials in `trials.py`. `Minimum.left_open` bounds
what a further search could gain, and belongs in the error bar of the value. `Minimum.place` says
whether the minimum lies inside, in a limit, or whether the search ended at an edge beyond which the
function could not be computed or was still falling: there `left_open` is no bound.

It serves the best ridge of eq. optimization_ERM and other parameters of an estimator.

The function may have several valleys: the four deepest that the trials show are compared. Beyond
the points where it has risen clearly it is assumed to have none, unless the caller asks for a
`scan`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from scipy.optimize import brentq

from polyceptron.solve.trials import (
    CONSTANT_SHARE,
    FIRST_STEP,
    GAIN_SHARE,
    LONGEST_CHECK,
    MAX_TRIALS_OF_A_STEP,
    RESOLUTION,
    RISE_SHARE,
    SHORTEST_CHECK,
    Minimum,
    Objective,
    Place,
    Trial,
)
from polyceptron.solve.widen import Widening

__all__ = ["Minimum", "Objective", "Place", "Trial", "check_minimum", "minimise"]

NARROW = 1.2  # in ln λ: a bracket within which a parabola approximates the function
# Narrowing shortens a long side of a bracket by this much of ln λ at once, not by a half of it: two
# longest steps of widening.
LONGEST_SHORTENING = 4.0
LARGEST_RESOLUTION = 0.2  # of a root of the slope, in ln λ: the check corrects the rest
MAX_RIVALS = 3  # other valleys that are looked into, the deepest first
MAX_STEPS_OF_A_CHECK = 14  # each goes to the vertex of a parabola, or shortens the step


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
        The smallest and the largest λ that are tried. The check of a minimum next to an end looks
        up to `LONGEST_CHECK` of ln λ beyond it.
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
    largest_power = 30.0  # e^(−p·width) is rounding then: nothing is left beyond

    def excess(power: float) -> float:
        """Return ln of the ratio that a power would give, less that of the ratio seen."""
        growth = math.expm1(power * width_before) / math.expm1(power * width)
        return math.log(growth) + power * width - math.log(ratio)

    smallest_power = 1e-6  # falls by a power this small do not shrink over any range
    if not math.isfinite(ratio) or ratio <= 0 or excess(smallest_power) >= 0:
        return None
    if excess(largest_power) <= 0:
        return largest_power
    return float(brentq(excess, smallest_power, largest_power))


class _Beyond(NamedTuple):
    """What may lie beyond the last trial: a further fall, and whether it ends in a limit."""

    fall: float
    limit_in_sight: bool


class _Search(Widening):
    """The whole search: widening, and the steps here."""

    # Step 3: refining.

    def minimum(self) -> Minimum:
        """Return the minimum in the deepest valley that the trials show, of four at most."""
        found = self._minimum_around_best()
        for _ in range(MAX_RIVALS):
            rival = self._deepest_rival(found.trial.value)
            if rival is None:
                break
            if self.at(rival).value < found.trial.value:
                found = self._minimum_around_best()
        return found

    def _deepest_rival(self, least: float) -> float | None:
        """Return the vertex of another valley that may be deeper than the one refined, if any."""
        known = self.outwards(1)
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
        bend = self.bend_around(x)
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
        return self.checked(root, self._check_step(self.bend_around(root)))

    def _minimum_at_zero(self) -> Minimum:
        """Return the limit λ → 0; where small λ could not be computed it is an edge."""
        limit = self.trials[-math.inf]
        if self.nearest_failure(-1) is None:
            return Minimum(0.0, limit, 0.0, 0.0, Place.ZERO)
        # In between the function may fall as far again as it did from the last λ to the limit.
        fall = self.trials[self.outwards(-1)[-1]].value - limit.value
        return Minimum(0.0, limit, fall, 0.0, Place.EDGE)

    def _limit(self, best: float) -> Minimum | None:
        """Return the minimum in a limit or at an edge, None if it lies inside."""
        known = self.outwards(1)
        if known[0] < best < known[-1] or len(known) == 1:
            return None
        direction = 1
        if best == known[0]:
            direction = -1
            limit = self.trials.get(-math.inf)
            limit_is_known = limit is not None and math.isfinite(limit.value)
            if limit_is_known and self.nearest_failure(-1) is None:
                return None  # between 0 and the next λ: there is a bracket
        self._approach_last(direction)
        last = self.outwards(direction)[-1]
        if self.trials[last].value > self.least() + CONSTANT_SHARE * self.tol:
            return None  # on the way a lower value was found, inside
        return self._constant_part(direction)

    def _approach_last(self, direction: int) -> None:
        """Make trials before the last one on a side, until they show how the function falls."""
        for _ in range(MAX_TRIALS_OF_A_STEP):
            outwards = self.outwards(direction)
            is_close = abs(outwards[-1] - outwards[-2]) <= 2 * FIRST_STEP
            if is_close or self._fall(outwards) <= CONSTANT_SHARE * self.tol:
                return
            if not math.isfinite(self.at((outwards[-1] + outwards[-2]) / 2).value):
                return

    def _constant_part(self, direction: int) -> Minimum:
        """Return the minimum of a function that still falls at the last trial on a side.

        It is the first λ whose value is as good as the last one. A limit counts as reached if what
        is left beyond the last trial is a small share of the tolerance, or, at the end of the range
        where nothing more can be tried, all of it.
        """
        enough = CONSTANT_SHARE * self.tol
        outwards = self.outwards(direction)
        beyond = self._beyond(outwards)
        at_end = outwards[-1] == self.end(direction)
        largest_fall = self.tol if at_end and beyond.limit_in_sight else enough
        place = Place.INFINITY if direction > 0 else Place.ZERO
        if beyond.fall > largest_fall:
            place = Place.EDGE
        chosen = next(x for x in outwards if self.trials[x].value <= self.least() + enough)
        left_open = self.trials[chosen].value - self.least() + beyond.fall
        return Minimum(math.exp(chosen), self.trials[chosen], left_open, 0.0, place)

    def _fall(self, outwards: list[float]) -> float:
        """Return by how much the last two values differ."""
        return abs(self.trials[outwards[-1]].value - self.trials[outwards[-2]].value)

    def _beyond(self, outwards: list[float]) -> _Beyond:
        """Return how far the function may still fall beyond the last trial.

        Towards a limit it changes by a power λ^(∓p). The last two falls say what p is, and the
        rest of a fall D over a distance h in ln λ is D/(e^{ph} − 1). It counts as D at least. Where
        falls do not shrink, or only one is known, D says nothing of what is left.
        """
        fall = self._fall(outwards)
        if fall <= CONSTANT_SHARE * self.tol:
            return _Beyond(fall, limit_in_sight=True)
        if len(outwards) < 3:
            return _Beyond(fall, limit_in_sight=False)
        before, middle, last = outwards[-3:]
        fall_before = abs(self.trials[middle].value - self.trials[before].value)
        power = _power_of_decay(fall_before / fall, abs(middle - before), abs(last - middle))
        if power is None:
            return _Beyond(fall, limit_in_sight=False)
        rest = fall * max(1.0, 1 / math.expm1(power * abs(last - middle)))
        return _Beyond(rest, limit_in_sight=True)

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

        It costs a hundredth of the tolerance: bend · resolution²/2.
        """
        if not bend > 0:
            return RESOLUTION
        resolution = math.sqrt(0.02 * self.tol / bend)
        return min(max(resolution, RESOLUTION), LARGEST_RESOLUTION)

    def _narrow_by_value(self, width: float) -> float:
        """Narrow the bracket around the best trial until both its sides are below a width.

        The longer side is halved, or shortened by less where it is very long. Returns the best x.
        """
        for _ in range(MAX_TRIALS_OF_A_STEP):
            low, best, high = self._bracket()
            below = best - low
            above = high - best
            if max(below, above) < width:
                break
            if below > above:
                self.at(best - min(below / 2, LONGEST_SHORTENING))
            else:
                self.at(best + min(above / 2, LONGEST_SHORTENING))
        return self._bracket()[1]

    def _bracket(self) -> tuple[float, float, float]:
        """Return the best finite x and its neighbours, or the ends of the range without any."""
        known = self.outwards(1)
        best = self.best()
        if best == -math.inf:
            best = known[0]
        i = known.index(best)
        low = known[i - 1] if i > 0 else self.lowest
        high = known[i + 1] if i < len(known) - 1 else self.highest
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
        # Of sums of powers λ^p, |p| ≤ 2, the third derivative is at most twice the second. Then the
        # gain at a vertex within 2 · LONGEST_CHECK of x is less than twice that of the parabola,
        # and its vertex is off by step²/3.
        # Where the function does not bend upwards, `promised` is that of the next step downhill.
        not_the_least = self.trials[x].value - self.least()
        promised = 2 * fit.gain
        vertex_is_off = step**2 / 3
        cost_of_vertex = 0.5 * max(fit.bend, 0.0) * vertex_is_off**2
        left_open = not_the_least + promised + cost_of_vertex
        width = abs(fit.shift) + RESOLUTION
        if fit.bend > 0:
            width = math.sqrt(2 * left_open / fit.bend) + RESOLUTION
        place = Place.INSIDE
        if not fit.neighbours_known:
            place = Place.EDGE
        return Minimum(math.exp(x), self.trials[x], left_open, width, place)

    def _check_step(self, bend: float) -> float:
        """Return the distance at which the function has risen by `RISE_SHARE` tolerances."""
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
            # An edge: the tolerance stands for a gain that nothing is known of.
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
