"""A start close to α_s, on either side of which weights without a ridge diverge: from further away.

ln τ, ln q and ln V are nearly straight in ln|α/α_s − 1|, so that steps of a factor and a
line through the last two solutions are enough. A rule puts α_s off by its own error, and below that
it has no root: the closer to α_s, the finer the rule that Newton's method starts on.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from polyceptron.rows import Status
from polyceptron.theory.erm.solution import ErmFixedPoint

_FAR = 0.03  # |α/α_s − 1| from which a start is needed
_STEP, _LONG, _STRAIGHT = 3.0, 8.0, 1e-3  # of |α/α_s − 1|; longer below the last

_ROOM = (1e-2, 3e-4, 3e-6, 1e-8)  # |α/α_s − 1| from which levels 0, 1, 2, 3 have a root


def first_level(limit: float, alpha: float, n_classes: int) -> int:
    """The coarsest level that has a root at α near `limit`."""
    return sum(abs(alpha / limit - 1) < room for room in _ROOM) if n_classes <= 3 else 0


def walk_down(
    limit: float, alpha: float, solve: Callable[[float, ErmFixedPoint | None], ErmFixedPoint]
) -> ErmFixedPoint | None:
    """A start for α near `limit`, None where none is needed; `solve` takes α and a start."""
    goal, far = abs(alpha / limit - 1), _FAR
    side = math.copysign(1.0, alpha - limit)
    last: list[tuple[float, ErmFixedPoint]] = []
    while goal > 0:
        start = last[-1][1] if last else None
        if len(last) > 1:
            (x0, before), (x1, point) = last[-2:]
            ahead = math.log(max(far, goal) / x1) / math.log(x1 / x0)
            start = replace(point, theta=point.theta + ahead * (point.theta - before.theta))
        if far <= goal:
            return start
        found = solve(limit * (1 + side * far), start)
        if found.status == Status.NOT_CONVERGED:
            return start
        last.append((far, found))
        far /= _STEP if far > _STRAIGHT else _LONG
    return None
