"""Learning curves of 20 points, where waiting is felt: each against an easier curve of our own.

No other program solves these problems at these accuracies, so that the rival is the price of what
is harder: more classes than three, the best ridge in place of a fixed one, one fit for each class,
kinks, or classes that are not alike. Every curve is the first one of its problem in the process:
what is kept between calls is paid for. Processor time, one BLAS thread.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np

import polyceptron as pc
from polyceptron.numerics import Array
from polyceptron.problem import Estimator
from polyceptron.problem.populations import AnyTeacher

ALPHAS = np.geomspace(0.1, 30, 20)
FIXED = pc.ERM("cross-entropy", 0.01)
BEST = pc.ERM("cross-entropy", "optimal")
BIASES = (0.3, 0.0, -0.3)
CLUSTERS = pc.Mixture(shares=(0.5, 0.3, 0.2), separation=2.0)


class Curve(NamedTuple):
    """A curve with its name."""

    name: str
    teacher: AnyTeacher
    estimator: Estimator


PAIRS = (  # ours, what it is compared with, and how many times as long it may take
    (Curve("k=2", pc.Teacher(2), FIXED), Curve("k=3", pc.Teacher(3), FIXED), 0.5),
    (Curve("k=4", pc.Teacher(4), FIXED), Curve("k=3", pc.Teacher(3), FIXED), 2.0),
    (Curve("k=10", pc.Teacher(10), FIXED), Curve("k=3", pc.Teacher(3), FIXED), 2.0),
    (Curve("k=100", pc.Teacher(100), FIXED), Curve("k=3", pc.Teacher(3), FIXED), 2.0),
    (Curve("best ridge, k=3", pc.Teacher(3), BEST), Curve("k=3", pc.Teacher(3), FIXED), 2.0),
    (Curve("best ridge, k=10", pc.Teacher(10), BEST), Curve("k=10", pc.Teacher(10), FIXED), 2.0),
    (
        Curve("one-vs-rest, k=4", pc.Teacher(4), pc.OneVsRest()),
        Curve("k=4", pc.Teacher(4), FIXED),
        1.5,
    ),
    (
        Curve("biased teacher, k=3", pc.Teacher(3, biases=BIASES), FIXED),
        Curve("k=3", pc.Teacher(3), FIXED),
        6.0,
    ),
    (
        Curve("clusters of three sizes", CLUSTERS, pc.ERM("cross-entropy", 0.01, intercept=True)),
        Curve("k=3", pc.Teacher(3), FIXED),
        2.5,
    ),
)


def bench() -> list[dict[str, Any]]:
    """Rows name, ours_seconds, rival_seconds, ratio, note."""
    for k in (3, 5):  # set up what every later call shares
        pc.learning_curve(pc.Teacher(k), FIXED, [0.9])
    known: dict[str, tuple[float, str]] = {}
    rows = []
    for ours, other, aim in PAIRS:
        for curve in (other, ours):
            if curve.name not in known:
                known[curve.name] = timed(curve, ALPHAS)
        name = f"cross-entropy curve, 20 points, {ours.name}"
        rows.append(row(name, known[ours.name], other.name, known[other.name], aim))
    hinge = timed(Curve("", pc.Teacher(100), pc.ERM("hinge", 0.01)), np.array([10.0]))
    smooth = timed(Curve("", pc.Teacher(100), FIXED), np.array([10.0]))
    rows.append(row("hinge theory, one point, k=100", hinge, "cross-entropy", smooth, 10.0))
    return rows


def timed(curve: Curve, alphas: Array) -> tuple[float, str]:
    """Seconds of a curve, and how well it is known."""
    begin = time.process_time()
    frame = pc.learning_curve(curve.teacher, curve.estimator, alphas).frame
    spent = time.process_time() - begin
    statuses = ", ".join(sorted({str(status) for status in frame["status"]}))
    return spent, f"uncertainty {frame['uncertainty'].max():.0e}, {statuses}"


def row(
    name: str, ours: tuple[float, str], other: str, theirs: tuple[float, str], aim: float
) -> dict[str, Any]:
    """One row; the ratio is how many times as long the easier problem takes."""
    return {
        "name": f"{name}: against {other}",
        "ours_seconds": ours[0],
        "rival_seconds": theirs[0],
        "ratio": theirs[0] / ours[0],
        "note": f"takes {ours[0] / theirs[0]:.1f} times as long; aim {aim:g}; {ours[1]}",
    }


if __name__ == "__main__":
    for line in bench():
        print(line)
