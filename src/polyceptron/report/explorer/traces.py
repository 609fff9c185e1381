"""Lines and symbols of the explorer's figures, from rows.

A branch that ends in a jump down is drawn with its step where the theory has it, between the
points that were computed; what was interpolated for that says so when pointed at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from polyceptron.report.explorer.curve_tasks import Row
from polyceptron.report.explorer.settings import COLUMNS, SCORES, PageSettings, words_for
from polyceptron.report.explorer.simulation_runs import TEST_SAMPLES, averages, tested
from polyceptron.report.pictures.parts import Trace, numbers
from polyceptron.report.pictures.style import MARKERS, colours_of, label_of

JUMPS = ("m", "q", "V", "generalisation_error")
BETWEEN = "between computed points"
CHANCE = 0.015  # a calibration error of 0, counted in 15 bins on TEST_SAMPLES samples, at most


class Simulated:
    """Rows of one simulation with the name and the colour under which they are drawn."""

    def __init__(self, state: PageSettings, rows: Sequence[Row], number: int) -> None:
        self.state, self.rows, self.number = state, list(rows), number
        self.label = f"{label_of(state.simulation)}, d = {state.dimension}"
        self.colour = colours_of([state.simulation])[state.simulation]
        self.symbol = MARKERS[number % len(MARKERS)]


def branches(
    rows: Sequence[Row], transitions: Mapping[str, Any] | None
) -> list[tuple[str, list[Row]]]:
    """The rows of each branch that is drawn; AMP's only where it differs from the optimal one."""
    drawn: dict[str, list[Row]] = {}
    for row in rows:
        drawn.setdefault(row.get("branch") or "optimal", []).append(row)
    amp, best = drawn.get("amp", []), drawn.get("optimal", [])
    if transitions and transitions.get("alpha_it") is not None:
        barrier, end = drawn.get("unstable", []), float(transitions["alpha_algo"])
        before = [row for row in amp if row["alpha"] <= end]
        fold = _fold(before, barrier, end) if len(before) < len(amp) else []
        drawn["optimal"] = _with_jump(best, [*before, *fold], transitions["alpha_it"])
        drawn["amp"] = _with_jump(amp, [*before, *fold], end)
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


def _fold(partial: list[Row], barrier: list[Row], at: float) -> list[Row]:
    """Where AMP's first branch and the barrier meet, α = `at`: half-way between their last points.

    Both approach it as ± √(at − α), so that the mean is right to first order.
    """
    if not partial or not barrier:
        return []
    a, b = partial[-1], barrier[-1]
    middle = {name: (a[name] + b[name]) / 2 for name in JUMPS}
    return [{**a, **middle, "alpha": at, "status": BETWEEN}]


def _with_jump(rows: list[Row], lower: list[Row], at: float) -> list[Row]:
    """The rows with a vertical step at α = `at`, where the error falls.

    The height of the step is that of `lower`, the partly-learnt branch, on the line between its
    neighbours.
    """
    partial = sorted(lower, key=lambda row: float(row["alpha"]))
    perfect = [row for row in rows if row["alpha"] > at]
    if not perfect or not partial or not partial[0]["alpha"] < at:
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


def derived(rows: Sequence[Row], shown: str) -> list[Row]:
    """The rows with what the page asks for in the column `shown`."""

    def value(row: Row) -> Any:
        if shown == "correlation":
            m, q = row.get("m"), row.get("q")
            return m / q**0.5 if m is not None and q else None
        if shown == "clean-error":  # without noise the rule is the labels
            return row.get("clean_error", row.get("generalisation_error"))
        return row.get(COLUMNS[shown])

    return [{**row, "shown": value(row)} for row in rows]


def without(
    state: PageSettings, curves: Mapping[str, Sequence[Row]], simulations: Sequence[Simulated]
) -> str:
    """Who has nothing of what is shown, and why; for simulations how far chance reaches."""
    shown, lacking = state.shown, dict[str, list[str]]()
    known = [(label_of(name), rows, True) for name, rows in curves.items()]
    known += [(one.label, one.rows, tested(one.state) is not None) for one in simulations]
    for label, rows, scored in known:
        if shown != "overlaps" and all(row["shown"] is None for row in derived(rows, shown)):
            why = "no probabilities" if scored else "started while another was shown: add again"
            lacking.setdefault(f" ({why})" * (shown in SCORES), []).append(label)
    words = [
        f"No {words_for('shown', shown)} of {'; '.join(dict.fromkeys(labels))}{why}."
        for why, labels in lacking.items()
    ]
    if any(scored for _, _, scored in known[len(curves) :]) and shown == "calibration":
        words.append(
            f"Symbols are counted on {TEST_SAMPLES:,} new samples: up to {CHANCE} may be chance."
        )
    return " ".join(words)


def line(
    rows: Sequence[Row], column: str, label: str, colour: str, dash: Any, symbol: str = ""
) -> Trace:
    """Theory; pointed at, it says its uncertainty, ridge and status."""
    error = column == "generalisation_error"
    value = "ε %{y:.6g} ± %{customdata[0]:.1g}" if error else symbol + "%{y:.6g}"
    return Trace(
        numbers(row["alpha"] for row in rows),
        numbers(row.get(column) for row in rows),
        kind="line" if len(rows) > 1 else "symbols",
        colour=colour,
        dash=dash,
        label=label,
        hover=f"<br>α %{{x:.4g}}<br>{value}%{{customdata[2]}}<br>status %{{customdata[1]}}",
        customdata=tuple(
            (row.get("uncertainty") or 0.0, row.get("status", ""), _ridge(row)) for row in rows
        ),
    )


def _ridge(row: Row) -> str:
    return f"<br>λ {row['ridge']:.4g}" if row.get("ridge") is not None else ""


def symbols(one: Simulated, column: str, prefix: str = "", hollow: bool = False) -> Trace:
    """Simulations: means over runs; pointed at, they say how many."""
    points = averages(one.rows, column)
    errors = [point["error"] for point in points]
    return Trace(
        numbers(point["alpha"] for point in points),
        numbers(point["mean"] for point in points),
        numbers(errors),
        kind="symbols",
        colour=one.colour,
        marker=one.symbol,
        hollow=hollow,
        label=one.label,
        hover=f"<br>α %{{x:.4g}}<br>{prefix}%{{y:.6g}} %{{customdata[0]}}"
        "<br>runs %{customdata[1]}",
        customdata=tuple(
            ("single run" if error is None else f"± {error:.1g}", point["count"])
            for error, point in zip(errors, points, strict=True)
        ),
    )
