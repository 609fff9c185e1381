"""What correlated features cost: a thousand eigenvalues against one, at three classes.

The rival is the same theory for independent features; processor time, the two taken in turns.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from polyceptron.problem import ERM, Teacher
from polyceptron.theory.bayes.fixed_points import fixed_points
from polyceptron.theory.erm.fixed_point import erm_fixed_point

# A thousand eigenvalues next to 1 cost what eigenvalues cost; those of the power law also have
# another fixed point, whose integrals may need more nodes.
MANY = ("power:0.05:1000", "power:1.2:1000")
ALPHAS = (0.5, 1.0, 2.0, 4.0, 8.0)


def bench() -> list[dict[str, Any]]:
    """Rows name, ours_seconds, rival_seconds, ratio (rival over ours), note."""
    kinds = [("cross-entropy", 0.1), ("cross-entropy", 0.0), ("square", 0.1)]
    rows = [
        compare(f"{loss}, ridge {ridge:g}, k=3, {many}", many, erm(ERM(loss, ridge)))  # type: ignore[arg-type]
        for loss, ridge in kinds
        for many in MANY
    ]
    return [*rows, compare("Bayes, k=3", MANY[1], lambda t: fixed_points(t, list(ALPHAS)))]


def erm(estimator: ERM) -> Callable[[Teacher], Any]:
    """Each α from a cold start."""
    return lambda teacher: [erm_fixed_point(teacher, estimator, a) for a in ALPHAS]


def compare(name: str, features: str, work: Callable[[Teacher], Any]) -> dict[str, Any]:
    """A thousand eigenvalues against one, medians of turns."""
    many, one = Teacher(3, features=features), Teacher(3)
    for teacher in (many, one):
        work(teacher)  # tables that both sides keep
    times: dict[int, list[float]] = {0: [], 1: []}
    for _ in range(9):
        for place, teacher in enumerate((many, one)):
            begin = time.process_time()
            work(teacher)
            times[place].append(time.process_time() - begin)
    ours, rival = (statistics.median(times[place]) for place in (0, 1))
    note = f"aim 1.2 at most: 1000 eigenvalues take {ours / rival:.2f} times as long as one"
    return {
        "name": name,
        "ours_seconds": ours,
        "rival_seconds": rival,
        "ratio": rival / ours,
        "note": note,
    }
