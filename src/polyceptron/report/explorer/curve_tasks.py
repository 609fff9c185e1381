"""The numbers behind the page: curves, transitions, the free-entropy landscape, simulations.

A piece of work is a `Task`: plain JSON, so that it can be sent to another process and be the key of
a cache. Nothing here knows of the web.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyceptron.errors import InvalidInput
from polyceptron.model import AnyTeacher, BayesOptimal
from polyceptron.report.explorer.state import State, make_state
from polyceptron.rows import json_ready

Array = NDArray[np.float64]
Row = dict[str, Any]
Task = dict[str, Any]

CHUNK = 8  # points of a slow curve that are shown at a time


def tolerance(n_classes: int) -> float:
    """The accuracy asked for: finer than a pixel, and quick. The hover text says what was met."""
    return 1e-4 if n_classes <= 3 else 5e-3


def spaced(state: State, count: int) -> list[float]:
    """`count` values of α over the state's range, even on its axis."""
    if count == 1:
        return [state.alpha]
    space = np.geomspace if state.scale == "log" else np.linspace
    return [float(a) for a in space(state.low, state.high, count)]


def tasks_of(state: State) -> list[Task]:
    """Everything the page needs for this state, quick things first."""
    common = {"model": state.model, "k": state.teacher.n_classes, "prior": state.prior}
    grid = {name: getattr(state, name) for name in ("low", "high", "scale", "points")}
    tasks: list[Task] = []
    # Bayes first; cross-entropy, the only one without a closed form or a table, last.
    for name in sorted(
        state.estimators, key=("bayes", "square", "max-margin", "cross-entropy").index
    ):
        ridge: Task = {}
        if name in ("cross-entropy", "square"):
            ridge = {"ridge_rule": state.ridge_rule}
            if state.ridge_rule == "fixed":
                ridge["ridge"] = state.ridge
        tasks.append({"kind": "curve", "estimators": name, **common, **grid, **ridge})
    others: list[Task] = [{"kind": "transitions", **common}] if state.finite_prior else []
    others.append({"kind": "landscape", "alpha": state.alpha, **common, "low": 0, "high": 1000})
    last = 1 if "cross-entropy" in state.estimators else 0
    return [*tasks[: len(tasks) - last], *others, *tasks[len(tasks) - last :]]


def key_of(task: Task) -> str:
    """One string for one piece of work."""
    return json.dumps(task, sort_keys=True)


def is_slow(task: Task) -> bool:
    """Whether a task may take more than a second, so that it must not hold up the others."""
    if task.get("estimators") == "square":
        return False
    return bool(task["k"] > 3 or task.get("ridge_rule") == "optimal")


def perform(task: Task) -> Iterator[dict[str, Any]]:
    """The answer, in one piece or several: each has the latest `result` and `done` of `total`."""
    settings = {name: value for name, value in task.items() if name != "kind"}
    state = make_state(settings)
    if task["kind"] == "curve":
        yield from _curve(state, state.estimators[0], is_slow(task))
    elif task["kind"] == "transitions":
        from polyceptron.theory import transitions

        tol = 0.01 if state.teacher.n_classes > 3 else None
        yield {"result": transitions(state.teacher, tol).as_dict(), "done": 1, "total": 1}
    elif task["kind"] == "landscape":
        yield {"result": landscape(state.teacher, state.alpha), "done": 1, "total": 1}
    else:
        raise InvalidInput(f"unknown work {task['kind']!r}")


def _curve(state: State, name: str, in_parts: bool) -> Iterator[dict[str, Any]]:
    from polyceptron.theory import curve_rows

    estimator = state.estimator(name)
    alphas = spaced(state, state.points)
    whole = isinstance(estimator, BayesOptimal) or not in_parts
    size = len(alphas) if whole else CHUNK
    rows: list[Row] = []
    for start in range(0, len(alphas), size):
        part = alphas[start : start + size]
        rows += curve_rows(
            state.teacher, estimator, part, branch="all", tol=tolerance(state.teacher.n_classes)
        )
        done = min(start + size, len(alphas))
        yield {"result": [json_ready(row) for row in rows], "done": done, "total": len(alphas)}


def landscape(teacher: AnyTeacher, alpha: float, n_points: int = 240) -> dict[str, Any]:
    """Φ(q; α) = (r/2) q̂ v + ψ(q̂) + αΨ_out(q) with q̂ set by q = F(q̂), and its extrema.

    At fixed α this is stationary in q exactly where q̂ = αI(q), that is at the fixed points of state
    evolution (eq. SE_BO): maxima are stable, minima are barriers. Returns lists `q`, `free_entropy`
    and `extrema` (branch, q, free_entropy, generalisation_error), and `perfect`, the value −H at
    q = 1 (null for a Gaussian prior, where Φ falls without bound).
    """
    from polyceptron.theory import fixed_points
    from polyceptron.theory.ensemble import ensemble
    from polyceptron.theory.prior import prior_entropy

    points = fixed_points(teacher, alpha, tolerance(teacher.n_classes))
    curves = ensemble(teacher, 6 if teacher.n_classes <= 20 else 4)
    grid = curves.grid.q_hat[:, 0]
    inside = [p.q_hat for p in points if 0 < p.q_hat < math.inf]
    q_grid = np.linspace(0.002, 0.998, n_points)
    v = curves.prior_variance(grid, np.zeros(grid.size, dtype=int))
    order = np.argsort(1 - v)
    q_hat = np.interp(q_grid, (1 - v)[order], grid[order])
    q_hat = np.unique(np.concatenate([q_hat[(q_hat > grid[0]) & (q_hat < grid[-1])], inside]))
    q, phi = free_entropy(teacher, q_hat, alpha)
    entropy = prior_entropy(teacher)
    perfect = None if math.isinf(entropy) else -entropy
    if perfect is not None:
        q, phi = np.append(q, 1.0), np.append(phi, perfect)
    extrema = [
        {
            "branch": p.branch,
            "q": p.q,
            "free_entropy": p.free_entropy,
            "generalisation_error": p.generalisation_error,
            "uncertainty": p.uncertainty,
        }
        for p in points
        if not (p.branch == "informed" and perfect is None)
    ]
    return {
        "alpha": alpha,
        "q": [0.0, *q.tolist()],
        "free_entropy": [alpha * _no_information(teacher), *phi.tolist()],
        "perfect": perfect,
        "extrema": extrema,
    }


def free_entropy(teacher: AnyTeacher, q_hat: Array, alpha: float) -> tuple[Array, Array]:
    """q = F(q̂) and Φ(q; α) at each q̂ (n,), averaged over the replicates of the theory."""
    from polyceptron.theory.ensemble import ensemble

    curves = ensemble(teacher, 6 if teacher.n_classes <= 20 else 4)
    R = curves.n_replicates
    points = curves.points(np.repeat(q_hat, R), np.tile(np.arange(R), q_hat.size))
    # The curve's own Φ is at α(q̂); Φ is linear in α with slope Ψ_out at fixed q.
    phi = points.free_entropy + (alpha - points.alpha) * points.channel_entropy
    return points.q.reshape(-1, R).mean(1), phi.reshape(-1, R).mean(1)


def _no_information(teacher: AnyTeacher) -> float:
    """Ψ_out at q = 0: every label is equally likely, −ln k."""
    return -math.log(teacher.n_classes)


def simulate(state: State) -> Iterator[dict[str, Any]]:
    """Rows of message passing or empirical risk minimisation, one instance at a time."""
    from polyceptron.experiments.simulate_amp import run_amp
    from polyceptron.experiments.simulate_erm import run_erm

    teacher, total = state.teacher, state.places * state.runs
    for i, alpha in enumerate(spaced(state, state.places)):
        ridge = simulated_ridge(state, alpha)
        for j in range(state.runs):
            seed = state.seed + i * state.runs + j
            if state.simulation == "amp":
                row = run_amp(teacher, alpha, state.dimension, seed)
            else:
                (row,) = run_erm(teacher, state.simulation, [ridge], alpha, state.dimension, seed)
            yield {"row": json_ready(row), "done": i * state.runs + j + 1, "total": total}


def simulated_ridge(state: State, alpha: float) -> float:
    """The ridge of a fit: the page's, or the theory's best one at this α."""
    if state.simulation in ("amp", "max-margin"):
        return 0.0
    if state.ridge_rule == "fixed":
        return state.ridge
    from polyceptron.theory.erm import optimal_ridge

    n_classes = state.teacher.n_classes
    return float(optimal_ridge(n_classes, state.simulation, alpha, tolerance(n_classes)))


def averages(rows: list[Row], column: str) -> list[dict[str, Any]]:
    """Mean and standard error over the runs at each α: alpha, mean, error (null for one), count."""
    groups: dict[float, list[float]] = {}
    for row in rows:
        value = row.get(column)
        if value is not None:
            groups.setdefault(row["alpha"], []).append(float(value))
    return [
        {
            "alpha": alpha,
            "mean": float(np.mean(values)),
            "error": float(np.std(values, ddof=1) / math.sqrt(len(values)))
            if len(values) > 1
            else None,
            "count": len(values),
        }
        for alpha, values in sorted(groups.items())
    ]
