"""Lines and symbols of the explorer's figures, from rows.

A branch that ends in perfect learning is drawn with its step where the theory has it, between the
points that were computed; what was interpolated for that says so when pointed at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from polyceptron.report.explorer.compute import Row, averages
from polyceptron.report.explorer.state import State
from polyceptron.report.style import COLOURS, CYCLE, LABELS

COLUMNS = {"variance": "V", "training-error": "training_error", "training-loss": "training_loss"}
JUMPS = ("m", "q", "V", "generalisation_error")
BETWEEN = "between computed points"


class Simulated:
    """Rows of one simulation with the name and the colour under which they are drawn."""

    def __init__(self, state: State, rows: Sequence[Row], number: int) -> None:
        self.state, self.rows = state, list(rows)
        name = LABELS.get(state.simulation, state.simulation)
        self.label = f"{name}, d = {state.dimension}"
        self.colour = COLOURS.get(state.simulation, CYCLE[number % len(CYCLE)])
        self.symbol = ("circle", "square", "diamond", "triangle-up", "cross", "x")[number % 6]


def branches(
    rows: Sequence[Row], transitions: Mapping[str, Any] | None
) -> list[tuple[str, list[Row]]]:
    """The rows of each branch that is drawn; AMP's only where it differs from the optimal one."""
    drawn: dict[str, list[Row]] = {}
    for row in rows:
        drawn.setdefault(row.get("branch") or "optimal", []).append(row)
    amp, best = drawn.get("amp", []), drawn.get("optimal", [])
    if transitions and transitions.get("alpha_it") is not None:
        barrier = drawn.get("unstable", [])
        fold = _fold(amp, barrier, transitions["alpha_algo"])
        drawn["optimal"] = _with_jump(best, [*amp, *fold], transitions["alpha_it"])
        drawn["amp"] = _with_jump(amp, [*amp, *fold], transitions["alpha_algo"])
        drawn["unstable"] = [*barrier, *fold]
    if (
        amp
        and len(amp) == len(best)
        and all(
            abs(a["generalisation_error"] - b["generalisation_error"]) < 1e-9
            for a, b in zip(amp, best, strict=True)
        )
    ):
        drawn.pop("amp")
    drawn.pop("informed", None)
    return [(branch, part) for branch, part in drawn.items() if part]


def _fold(amp: list[Row], barrier: list[Row], at: float) -> list[Row]:
    """Where AMP's branch and the barrier meet, α = `at`: half-way between their last points.

    Both approach it as ± √(at − α), so that the mean is right to first order.
    """
    partial = [row for row in amp if row["q"] < 1]
    if not partial or not barrier or len(partial) == len(amp):
        return []
    a, b = partial[-1], barrier[-1]
    middle = {name: (a[name] + b[name]) / 2 for name in JUMPS}
    return [{**a, **middle, "alpha": at, "status": BETWEEN}]


def _with_jump(rows: list[Row], lower: list[Row], at: float) -> list[Row]:
    """The rows with a vertical step at α = `at`, where the error falls to zero.

    The height of the step is that of `lower`, the partly-learnt branch, on the line between its
    neighbours.
    """
    partial = sorted((row for row in lower if row["q"] < 1), key=lambda row: float(row["alpha"]))
    perfect = [row for row in rows if row["q"] >= 1]
    if not perfect or not partial or not partial[0]["alpha"] < at < perfect[-1]["alpha"]:
        return rows
    before = [row for row in partial if row["alpha"] <= at][-1]
    after = next((row for row in partial if row["alpha"] > at), before)
    span = after["alpha"] - before["alpha"]
    share = (at - before["alpha"]) / span if span else 0.0
    top = {n: before[n] + share * (after[n] - before[n]) for n in JUMPS}
    marked = {**before, "alpha": at, "status": BETWEEN}
    foot = {**marked, **{n: perfect[0][n] for n in JUMPS}}
    return [
        *(row for row in rows if row["alpha"] <= at),
        {**marked, **top},
        foot,
        *(row for row in rows if row["alpha"] > at),
    ]


def derived(row: Row, shown: str) -> Row:
    if shown == "correlation":
        m, q = row.get("m"), row.get("q")
        return {**row, "shown": m / q**0.5 if m is not None and q else None}
    return {**row, "shown": row.get(COLUMNS[shown])}


def line(
    rows: Sequence[Row], column: str, label: str, colour: str, dash: str, symbol: str = ""
) -> dict[str, Any]:
    error = column == "generalisation_error"
    value = "ε %{y:.6g} ± %{customdata[0]:.1g}" if error else symbol + "%{y:.6g}"
    return {
        "type": "scatter",
        "mode": "lines" if len(rows) > 1 else "markers",
        "name": label,
        "x": [row["alpha"] for row in rows],
        "y": [row.get(column) for row in rows],
        "customdata": [
            [row.get("uncertainty") or 0.0, row.get("status", ""), _ridge(row)] for row in rows
        ],
        "line": {"color": colour, "dash": dash, "width": 2},
        "hovertemplate": f"<b>{label}</b><br>α %{{x:.4g}}<br>{value}%{{customdata[2]}}"
        "<br>status %{customdata[1]}<extra></extra>",
    }


def _ridge(row: Row) -> str:
    return f"<br>λ {row['ridge']:.4g}" if row.get("ridge") is not None else ""


def symbols(one: Simulated, column: str, prefix: str = "", hollow: bool = False) -> dict[str, Any]:
    points = averages(one.rows, column)
    return {
        "type": "scatter",
        "mode": "markers",
        "name": one.label,
        "x": [point["alpha"] for point in points],
        "y": [point["mean"] for point in points],
        "error_y": {
            "type": "data",
            "array": [point["error"] for point in points],
            "color": one.colour,
            "thickness": 1.5,
        },
        "marker": {
            "color": one.colour,
            "symbol": one.symbol + ("-open" if hollow else ""),
            "size": 8,
        },
        "customdata": [
            [
                "single run" if point["error"] is None else f"± {point['error']:.1g}",
                point["count"],
            ]
            for point in points
        ],
        "hovertemplate": f"<b>{one.label}</b><br>α %{{x:.4g}}<br>{prefix}%{{y:.6g}} "
        "%{customdata[0]}<br>runs %{customdata[1]}<extra></extra>",
    }
