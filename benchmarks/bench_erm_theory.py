"""Theory of empirical risk minimisation: against the plain route, and the cost of a sweep."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from polyceptron.problem import ERM, Teacher
from polyceptron.sides.generalisation import error_at_tau, generalisation_error
from polyceptron.theory.erm.fixed_point import erm_fixed_point
from polyceptron.theory.erm.point import ErmFixedPoint
from polyceptron.theory.erm.rows import erm_rows
from rival_erm_theory import rival_fixed_point


def bench() -> list[dict[str, Any]]:
    """Rows name, ours_seconds, rival_seconds, ratio, note."""
    return [against_rival(), sweep(), *many_classes()]


def against_rival(alpha: float = 2.0, ridge: float = 1.0) -> dict[str, Any]:
    """One cold fixed point at k = 3, both to 1e-3 relative: the rival cannot afford more."""
    erm_fixed_point(Teacher(3), "square", 1.0)  # set up what every later call shares
    begin = time.process_time()
    for _ in range(5):
        ours = erm_fixed_point(Teacher(3), ERM("cross-entropy", ridge), alpha)
    ours_seconds = (time.process_time() - begin) / 5
    begin = time.process_time()
    rival = rival_fixed_point(alpha, ridge, 1e-3)
    rival_seconds = time.process_time() - begin
    error = generalisation_error(rival.m / math.sqrt(rival.q), 3)
    gap = abs(error - ours.generalisation_error)
    return {
        "name": f"cross-entropy theory, k=3, alpha={alpha:g}, ridge={ridge:g}, cold start",
        "ours_seconds": ours_seconds,
        "rival_seconds": rival_seconds,
        "ratio": rival_seconds / ours_seconds,
        "note": f"error to {ours.uncertainty:.0e} here; the rival is off by {gap:.0e} "
        f"after {rival.iterations} iterations",
    }


def sweep() -> dict[str, Any]:
    """A 100-point sweep over α and λ at k = 3; the aim is 50 ms a point."""
    erm_fixed_point(Teacher(3), "square", 1.0)
    begin = time.process_time()
    rows = [
        row
        for ridge in np.logspace(-4, 1, 5)
        for row in erm_rows(Teacher(3), ERM("cross-entropy", ridge), np.geomspace(0.1, 30, 20))
    ]
    seconds = (time.process_time() - begin) / len(rows)
    worst = max(row["uncertainty"] for row in rows)
    return {
        "name": "cross-entropy theory, k=3, per point of a 100-point sweep: against 50 ms",
        "ours_seconds": seconds,
        "rival_seconds": 0.05,
        "ratio": 0.05 / seconds,
        "note": f"largest uncertainty {worst:.0e}",
    }


def many_classes() -> list[dict[str, Any]]:
    """A cold point of cross-entropy, the best ridge and max-margin; growth with k from 4 to 100."""
    rows = []
    seconds: dict[int, float] = {}
    for k, alpha, aim in ((4, 10.0, 0.2), (10, 10.0, 0.2), (20, 10.0, 0.3), (100, 10.0, 2.0)):
        error_at_tau(1.0, k)  # a table of its own, made once for each k
        begin = time.process_time()
        point = erm_fixed_point(Teacher(k), ERM("cross-entropy", 0.01), alpha)
        seconds[k] = time.process_time() - begin
        rows.append(_against(f"cross-entropy theory, k={k}, cold", seconds[k], aim, point))
    for k, estimator, aim in (
        (10, ERM("cross-entropy", "optimal"), 5 * seconds[10]),
        (10, ERM("max-margin"), 0.3),
        (20, ERM("max-margin"), 1.0),
    ):
        begin = time.process_time()
        point = erm_fixed_point(Teacher(k), estimator, 10.0)
        spent = time.process_time() - begin
        rows.append(_against(f"{estimator.name} theory, k={k}, cold", spent, aim, point))
    logs = np.log(list(seconds.items()))
    growth = float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0])
    rows.append(
        {
            "name": "cross-entropy theory, growth of a point's cost with k, 4 to 100",
            "ours_seconds": seconds[100],
            "rival_seconds": 25 * seconds[4],
            "exponent": growth,
            "note": "rival: what growth in proportion to k would cost; the aim is at most 1",
        }
    )
    return rows


def _against(name: str, spent: float, aim: float, point: ErmFixedPoint) -> dict[str, Any]:
    note = f"rival: the aim; uncertainty {point.uncertainty:.0e}, {point.status}"
    return {"name": name, "ours_seconds": spent, "rival_seconds": aim, "note": note}


if __name__ == "__main__":
    for row in bench():
        print(row)
