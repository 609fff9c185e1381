"""Message passing over several instances, with the theory beside it.

    mean ± standard error over the runs        against        the theory at d = ∞

The difference has two parts: chance, of the size of the standard error (of order 1/√(d·runs)), and
a bias of order 1/d that no number of runs removes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from polyceptron.algorithms import AMPResult
from polyceptron.experiments.instance_averages import average
from polyceptron.experiments.simulate_amp import Row, as_int, run_amp_with_result
from polyceptron.model import AnyTeacher, BayesOptimal
from polyceptron.model.checks import check_size
from polyceptron.rows import Status, make_row
from polyceptron.theory import curve_rows, state_evolution

AVERAGED = ("m", "q", "V", "generalisation_error", "clean_error", "training_error")
_SAME = (
    "model", "n_classes", "prior", "noise", "features", "estimator", "alpha", "branch", "dimension",
    "n_samples",
)  # fmt: skip


def run_many(
    teacher: AnyTeacher, alpha: float, dimension: int, *, runs: int, seed: int, **settings: Any
) -> list[tuple[Row, AMPResult]]:
    """`runs` instances; instance i depends on the seed and i alone."""
    check_size(runs, "runs")
    root = as_int(seed)
    seeds = [np.random.SeedSequence(root, spawn_key=(i,)) for i in range(runs)]
    return [run_amp_with_result(teacher, alpha, dimension, s, **settings) for s in seeds]


def amp_rows(
    teacher: AnyTeacher, alpha: float, dimension: int, *, runs: int, seed: int, **settings: Any
) -> list[Row]:
    """A row for each run, then their summary, then the theory's row.

    The summary is a row with source 'amp-summary' whose values are means and whose `uncertainty` is
    the standard error of the generalisation error (absent for one run). It has more keys than a
    row: runs, converged, the standard error of each mean as `<name>_standard_error`, and the
    theory's values as `theory_<name>`.
    """
    results = run_many(teacher, alpha, dimension, runs=runs, seed=seed, **settings)
    rows = [row for row, _ in results]
    branch = rows[0]["branch"]
    theory = theory_row(teacher, alpha, branch)
    return [*rows, summarise(rows, theory), theory]


def theory_row(teacher: AnyTeacher, alpha: float, branch: str) -> Row:
    """What the theory predicts for message passing from this start."""
    row: Row = curve_rows(teacher, BayesOptimal(), [alpha], branch=branch)[0]
    return row


def summarise(rows: list[Row], theory: Row) -> Row:
    """Means and standard errors of rows that differ in their seed alone, beside the theory."""
    first = rows[0]
    found = {name: average(row[name] for row in rows) for name in AVERAGED if name in first}
    spread = {n: a.standard_error for n, a in found.items() if a.standard_error is not None}
    converged = sum(row["status"] == Status.OK for row in rows)
    summary = make_row(
        source="amp-summary",
        **{name: first.get(name) for name in _SAME},
        **{name: one.mean for name, one in found.items()},
        uncertainty=spread.get("generalisation_error"),
        status=Status.OK if converged == len(rows) else Status.NOT_CONVERGED,
    )
    summary |= {"runs": len(rows), "converged": converged}
    summary |= {f"{name}_standard_error": value for name, value in spread.items()}
    shown = ("q", "m", "generalisation_error")
    return summary | {f"theory_{name}": theory[name] for name in shown if name in theory}


def trace_rows(
    teacher: AnyTeacher, alpha: float, dimension: int, *, runs: int, seed: int, **settings: Any
) -> list[Row]:
    """One row for each iteration: the mean over the runs and state evolution's prediction.

    A run that has converged keeps its last value. Standard errors are given for two runs or more.
    """
    results = run_many(teacher, alpha, dimension, runs=runs, seed=seed, **settings)
    traces = [result.trace for _, result in results]
    length = max(map(len, traces))
    theory = state_evolution(teacher, alpha, length - 1, settings.get("start", "uninformed"))
    predicted = {"q": theory.q, "generalisation_error": theory.generalisation_error}
    rows = []
    for t in range(length):
        entries = [trace[min(t, len(trace) - 1)] for trace in traces]
        row: Row = {"source": "amp-trace", "iteration": t}
        for name in ("m", "q", "generalisation_error"):
            over_runs = average(entry[name] for entry in entries)
            row[name] = over_runs.mean
            if over_runs.standard_error is not None:
                row[f"{name}_standard_error"] = over_runs.standard_error
            if name in predicted:  # m and q have the same limit
                row[f"theory_{name}"] = float(predicted[name][t])
        row["residual"] = max(entry["residual"] for entry in entries)
        row["damping"] = max(entry["damping"] for entry in entries)
        rows.append(row)
    return rows
