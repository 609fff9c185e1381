"""The runs of one simulation: its bounds, its rows one instance at a time, their averages."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from polyceptron.errors import InvalidInput
from polyceptron.experiments.results import Average
from polyceptron.model import takes_ridge
from polyceptron.report.explorer.curve_tasks import Row, spaced, tolerance
from polyceptron.report.explorer.settings import AMP, SCORES, PageSettings
from polyceptron.rows import json_ready

MAX_ENTRIES = 12_000_000  # numbers in the data or in a d × d matrix: 96 MB, 0.45 GB in all
MAX_INSTANCES = 200
MAX_KEPT = 12  # simulations of one page
TEST_SAMPLES = 10_000


def check_simulation(settings: PageSettings) -> None:
    """A sentence if the simulation that the page describes is too large to run here."""
    size = max(settings.high, 1.0)
    if size * settings.dimension**2 > MAX_ENTRIES:
        allowed = int(math.sqrt(MAX_ENTRIES / size))
        raise InvalidInput(
            f"α = {settings.high:g} in dimension {settings.dimension} is too much data for this "
            f"page: choose a dimension of at most {allowed}, or a smaller largest α"
        )
    if settings.places * settings.runs > MAX_INSTANCES:
        raise InvalidInput(
            f"{settings.places} values of α with {settings.runs} runs each are "
            f"{settings.places * settings.runs} fits: at most {MAX_INSTANCES} are allowed here"
        )
    if round(max(settings.low, 1e-9) * settings.dimension) < 1 and settings.places > 1:
        raise InvalidInput(
            f"α = {settings.low:g} in dimension {settings.dimension} leaves no sample to learn "
            f"from: raise the smallest α or the dimension"
        )


def simulate(settings: PageSettings) -> Iterator[dict[str, Any]]:
    """Rows of message passing or empirical risk minimisation, one instance at a time."""
    from polyceptron.experiments.simulate import run_amp, run_erm

    teacher, method = settings.teacher, settings.simulation
    total, tests = settings.places * settings.runs, tested(settings)
    for i, alpha in enumerate(spaced(settings, settings.places)):
        ridge = simulated_ridge(settings, alpha)
        for j in range(settings.runs):
            seed = settings.seed + i * settings.runs + j
            if method == AMP:
                row = run_amp(teacher, alpha, settings.dimension, seed, test_samples=tests)
            else:
                (row,) = run_erm(
                    teacher, method, [ridge], alpha, settings.dimension, seed, test_samples=tests
                )
            yield {"row": json_ready(row), "done": i * settings.runs + j + 1, "total": total}


def tested(settings: PageSettings) -> int | None:
    """How many new samples a run is tried on: some if scores of probabilities are to be shown.

    Otherwise its error is exact, from the weights.
    """
    return TEST_SAMPLES if settings.shown in SCORES else None


def simulated_ridge(settings: PageSettings, alpha: float) -> float:
    """The ridge of a fit: the page's, or the theory's best one at this α."""
    if not takes_ridge(settings.simulation):
        return 0.0
    if settings.ridge_rule == "fixed":
        return settings.ridge
    from polyceptron.theory.erm.fixed_point import optimal_ridge

    teacher = settings.teacher
    return optimal_ridge(teacher, settings.simulation, alpha, tolerance(teacher.n_classes))


def averages(rows: list[Row], column: str) -> list[dict[str, Any]]:
    """Mean and standard error over the runs at each α: alpha, mean, error (null for one), count."""
    groups: dict[float, Average] = {}
    for row in rows:
        if row.get(column) is not None:
            groups.setdefault(row["alpha"], Average()).add(float(row[column]))
    return [
        {"alpha": alpha, "mean": one.mean, "error": one.standard_error, "count": one.count}
        for alpha, one in sorted(groups.items())
    ]
