"""Message passing: an iteration against its two matrix products, and against the paper's way.

Everything is timed in one process, alternating, so that other load on the machine hits both sides.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from polyceptron.message_passing.posterior_mean import amp
from polyceptron.problem import Teacher
from rival_amp import RivalAMP


def bench() -> list[dict[str, Any]]:
    """Rows name, ours_seconds, rival_seconds, ratio, note."""
    return [
        against_products(3, "aim: at most 1.3"),
        against_products(10, "aim: at most 2"),
        against_rival(),
    ]


def against_products(k: int, note: str, n: int = 3000, d: int = 2000) -> dict[str, Any]:
    """One iteration with shared variances over X @ W and Xᵀ @ F alone, medians."""
    data = Teacher(k).sample(n, d, 0)
    rng = np.random.default_rng(1)
    W, F = rng.standard_normal((d, k)), rng.standard_normal((n, k))

    def products() -> None:
        data.X @ W
        data.X.T @ F

    def iterations(count: int) -> Callable[[], None]:
        return lambda: _discard(amp(data.X, data.y, tol=1e-300, max_iter=count, n_classes=k))

    # Six more iterations, so that checks and set-up cancel.
    few, many, alone = alternate([iterations(4), iterations(10), products], repeats=9)
    one = (many - few) / 6
    return {
        "name": f"amp iteration, shared variances, k={k}, n={n}, d={d}: against X @ W and X.T @ F",
        "ours_seconds": one,
        "rival_seconds": alone,
        "ratio": one / alone,
        "note": note,
    }


def against_rival(d: int = 1000, alpha: float = 1.5) -> dict[str, Any]:
    """One iteration against one with adaptive quadratures for every sample."""
    data = Teacher(3).sample(round(alpha * d), d, 0)
    rival = RivalAMP(data.X, data.y)
    rival.step()  # the first iteration, at ω = 0, is easier than those that follow
    few, many, slow = alternate(
        [
            lambda: _discard(amp(data.X, data.y, tol=1e-300, max_iter=4)),
            lambda: _discard(amp(data.X, data.y, tol=1e-300, max_iter=14)),
            lambda: _discard(rival.step()),
        ],
        repeats=5,
    )
    one = (many - few) / 10
    return {
        "name": f"amp iteration, k=3, d={d}, alpha={alpha}: against scipy quadratures per sample",
        "ours_seconds": one,
        "rival_seconds": slow,
        "ratio": slow / one,
        "note": "aim: at least 50 times faster",
    }


def alternate(jobs: list[Callable[[], None]], repeats: int) -> list[float]:
    """Median seconds of each job, taking turns."""
    times: list[list[float]] = [[] for _ in jobs]
    for _ in range(repeats + 1):
        for job, record in zip(jobs, times, strict=True):
            start = time.perf_counter()
            job()
            record.append(time.perf_counter() - start)
    return [statistics.median(record[1:]) for record in times]  # the first round warms up


def _discard(_: object) -> None:
    """The timing is what counts."""


if __name__ == "__main__":
    for row in bench():
        print(
            f"{row['name']}\n  ours {row['ours_seconds']:.4g} s, "
            f"rival {row['rival_seconds']:.4g} s, ratio {row['ratio']:.3g} ({row['note']})"
        )
