"""Bayes-optimal theory: a curve against quadratures and iteration, and how its cost grows."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from polyceptron.message_passing.posterior_mean import amp
from polyceptron.problem import Teacher
from polyceptron.sides.fields.information import many_excess
from polyceptron.theory.bayes.fixed_points import fixed_points
from rival_bayes import rival_curve

COLD = """
import time
from polyceptron.problem import Teacher
from polyceptron.theory.bayes.fixed_points import fixed_points
import numpy as np
begin = time.process_time()
fixed_points(Teacher(3), np.linspace(0.1, 10, 100))
print(time.process_time() - begin)
"""


def bench() -> list[dict[str, Any]]:
    """Rows name, ours_seconds, rival_seconds, ratio, exponent, note."""
    return [curve(), grid_growth(), class_growth(), dimension_growth()]


def curve(tol: float = 1e-6, points: int = 4) -> dict[str, Any]:
    """100 points at k = 3 in a new process, imports aside; the rival on a few of them, scaled."""
    ours = min(_cold_seconds() for _ in range(2))
    alphas = np.linspace(0.1, 10, 100)[np.linspace(9, 90, points).astype(int)].tolist()
    exact = [p.generalisation_error for p in fixed_points(Teacher(3), alphas) if p.branch == "amp"]
    begin = time.process_time()
    found = rival_curve(alphas, tol)
    rival = (time.process_time() - begin) * 100 / points
    gap = max(abs(a - b) for a, b in zip(found, exact, strict=True))
    return {
        "name": "Bayes curve, k=3, 100 points, cold: against scipy dblquad and iteration",
        "ours_seconds": ours,
        "rival_seconds": rival,
        "ratio": rival / ours,
        "note": f"rival on {points} of the points, off by {gap:.0e}; ours good to 1e-12",
    }


def grid_growth() -> dict[str, Any]:
    """Warm curves of thirty to three thousand points."""
    return growth(
        "Bayes curve, k=3, in the number of points",
        (30, 300, 3000),
        lambda n: lambda: fixed_points(Teacher(3), np.linspace(0.1, 10, n)),
        "limit: 1",
    )


def class_growth() -> dict[str, Any]:
    """One evaluation of the channel."""
    noiseless = Teacher(2).noise
    return growth(
        "channel integral, in k",
        (8, 16, 32, 64),
        lambda k: lambda: many_excess(noiseless, 0.5, k),
        "limit: 1",
    )


def dimension_growth(alpha: float = 1.5) -> dict[str, Any]:
    """Ten iterations of message passing at n = 1.5 d."""

    def make(d: int) -> Callable[[], Any]:
        data = Teacher(3).sample(round(alpha * d), d, 0)
        return lambda: amp(data.X, data.y, tol=1e-300, max_iter=10)

    return growth("amp, k=3, n=1.5d, in d", (500, 1000, 2000), make, "limit: 2 (n × d products)")


def growth(
    name: str, sizes: Sequence[int], make: Callable[[int], Callable[[], Any]], note: str
) -> dict[str, Any]:
    """The slope of ln(seconds) against ln(size), from the fastest of three runs at each size."""
    seconds = []
    for size in sizes:
        work = make(size)
        work()
        seconds.append(min(_seconds(work) for _ in range(3)))
    exponent = float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
    return {
        "name": f"growth: {name} ({sizes[0]} to {sizes[-1]})",
        "ours_seconds": seconds[-1],
        "rival_seconds": None,
        "ratio": None,
        "exponent": exponent,
        "note": note,
    }


def _seconds(work: Callable[[], Any]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def _cold_seconds() -> float:
    done = subprocess.run([sys.executable, "-c", COLD], capture_output=True, text=True, check=True)
    return float(done.stdout)


if __name__ == "__main__":
    for row in bench():
        print(row)
