"""Steps 1 and 2 of `minimise`: trials on both sides of a first guess, and at the limits.

A side is finished when the function has risen clearly above its least value there, or is constant
up to the limit, or could not be computed any further. Wide gaps between trials are then filled
where a valley may hide in them.
"""

from __future__ import annotations

import math
from itertools import pairwise

from polyceptron.solve.trials import (
    CONSTANT_SHARE,
    FIRST_STEP,
    LONGEST_CHECK,
    LONGEST_STEP,
    MAX_TRIALS_OF_A_STEP,
    RISE_SHARE,
    Trials,
)

# A function is constant on a side if it is over two longest steps. Trials may be a little closer.
CONSTANT_STRETCH = 1.75 * LONGEST_STEP
# Gaps up to this width are left: one longest step, with room for rounding.
WIDEST_GAP = 1.01 * LONGEST_STEP
# The same where one end of the gap is that of a stretch on which the function is constant: a valley
# of a hinge loss there is hardly narrower (test_a_valley_between_two_constant_stretches).
WIDEST_GAP_AT_CONSTANT_STRETCH = FIRST_STEP / 2


class Widening(Trials):
    """Trials that go outwards from the start."""

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

    def _has_risen(self, direction: int) -> bool:
        """Return whether the outermost value on a side is clearly above the least."""
        known = self.trials_with_values()
        outermost = known[-1] if direction > 0 else known[0]
        return self.trials[outermost].value > self.least() + RISE_SHARE * self.tol

    def _step_out(self, direction: int) -> bool:
        """Make one more trial on a side; return False if there is nothing more to try.

        In this order:

        1. The limit was tried: one longer step towards it, if it is λ → 0.
        2. The function failed further out: half-way to there, until this is close; then the limit
           λ → 0, if the objective has it.
        3. The function is constant: the limit. If that fails, the side is finished.
        4. Else a step twice as long as the last one, or the limit if this leaves the range.
        """
        limit = self.end(direction)
        if limit in self.trials:
            return self._step_towards_limit(direction)
        outermost = self.outwards(direction)[-1]
        failure = self.nearest_failure(direction)
        if failure is not None:
            if abs(failure - outermost) >= LONGEST_CHECK:
                self.at((failure + outermost) / 2)
                return True
            limit_is_new = limit == -math.inf
            if limit_is_new:  # the limit may be known, although small λ are not
                self.at(limit)
            return limit_is_new
        if self._is_constant(direction):
            return math.isfinite(self.at(limit).value)
        x = outermost + direction * self._next_step(direction)
        if not self.lowest < x < self.highest:
            x = limit
        self.at(x)
        return True

    def _next_step(self, direction: int) -> float:
        """Return the length of the next step on a side: twice the last one, within bounds."""
        outwards = self.outwards(direction)
        if len(outwards) < 2:
            return FIRST_STEP
        step = min(2 * abs(outwards[-1] - outwards[-2]), LONGEST_STEP)
        return max(step, FIRST_STEP)

    def _step_towards_limit(self, direction: int) -> bool:
        """Make one longer step towards a known limit λ → 0; return False if none is left.

        The function may be constant over a long stretch, and have another value in the limit.
        """
        limit = self.trials[self.end(direction)]
        outwards = self.outwards(direction)
        outermost = outwards[-1]
        apart = abs(self.trials[outermost].value - limit.value)
        if self.end(direction) > -math.inf or apart < CONSTANT_SHARE * self.tol:
            return False
        if self.nearest_failure(direction) is not None or len(outwards) < 2:
            return False
        x = outermost - 2 * abs(outermost - outwards[-2])
        if x < self.lowest:
            return False
        self.at(x)
        return True

    def _is_constant(self, direction: int) -> bool:
        """Return whether the last trials on a side have the same value over two longest steps."""
        outwards = self.outwards(direction)
        last = self.trials[outwards[-1]].value
        for x in reversed(outwards):
            if abs(self.trials[x].value - last) > CONSTANT_SHARE * self.tol:
                return False
            if abs(x - outwards[-1]) > CONSTANT_STRETCH:
                return True
        return False

    def _fill_gaps(self) -> None:
        """Fill wide gaps: where neighbours differ in value, and one of them is close to the least.

        A valley may lie between two stretches on which the function is constant, or just beyond the
        end of one.
        """
        for _ in range(MAX_TRIALS_OF_A_STEP):
            known = self.outwards(1)
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
        """Return how far apart two neighbours may be: less at the end of a constant stretch."""
        if self._ends_constant_stretch(low, -1) or self._ends_constant_stretch(high, 1):
            return WIDEST_GAP_AT_CONSTANT_STRETCH
        return WIDEST_GAP

    def _ends_constant_stretch(self, x: float, direction: int) -> bool:
        """Return whether the next trial in a direction has the same value as x."""
        known = self.outwards(1)
        i = known.index(x) + direction
        if not 0 <= i < len(known):
            return False
        apart = abs(self.trials[known[i]].value - self.trials[x].value)
        return apart <= CONSTANT_SHARE * self.tol
