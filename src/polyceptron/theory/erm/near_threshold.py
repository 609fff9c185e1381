"""A start just above α_s, where the maximum-likelihood estimate diverges: from further above.

ln τ, ln q and ln V are nearly straight in ln(α/α_s − 1), so that steps of a factor of three and a
line through the last two solutions are enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from polyceptron.rows import Status
from polyceptron.theory.erm.solution import ErmFixedPoint

_FAR = 0.03  # (α − α_s)/α_s from which a start is needed
_STEP = 3.0


def walk_down(
    limit: float, alpha: float, solve: Callable[[float, ErmFixedPoint | None], ErmFixedPoint]
) -> ErmFixedPoint | None:
    """A start for α above `limit`, None where none is needed; `solve` takes α and a start."""
    goal, far = alpha / limit - 1, _FAR
    last: list[tuple[float, ErmFixedPoint]] = []
    while goal > 0:
        start = last[-1][1] if last else None
        if len(last) > 1:
            (x0, before), (x1, point) = last[-2:]
            ahead = math.log(max(far, goal) / x1) / math.log(x1 / x0)
            start = replace(point, theta=point.theta + ahead * (point.theta - before.theta))
        if far <= goal:
            return start
        found = solve(limit * (1 + far), start)
        if found.status == Status.NOT_CONVERGED:
            return start
        last.append((far, found))
        far /= _STEP
    return None
