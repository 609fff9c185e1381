"""Any quantity of a tidy table against any other: theory as lines, experiments as symbols."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from polyceptron.report.pictures.curve_traces import ERROR, series_traces
from polyceptron.report.pictures.looks import shared_role
from polyceptron.report.pictures.parts import Axis, Legend, Mark, Panel, Picture, Trace, numbers
from polyceptron.report.pictures.series import TRANSITIONS, Series, find_series, problem_words, text
from polyceptron.report.style import axis_label, label_of
from polyceptron.rows import Status

if TYPE_CHECKING:
    import pandas as pd

SYMBOLS = {"amp": "AMP", "erm": "fits"}  # what the runs of a source are called
TRANSITION_LABELS = dict(zip(TRANSITIONS, ("*α_{IT}*", "*α_{algo}*"), strict=True))
MANY = 8  # entries of a legend that do not fit inside the axes


def curves_picture(
    table: pd.DataFrame,
    x: str = "alpha",
    y: str = ERROR,
    *,
    log_x: bool | None = None,
    log_y: bool = False,
) -> Picture:
    """The panel of `curves_panel` as a picture of its own, with the problem as its title."""
    panel = curves_panel(table, x, y, log_x=log_x, log_y=log_y)
    panel = replace(panel, title=problem_words(table))
    outside = panel.legend is not None and panel.legend.place == "outside"
    return Picture((panel,), width=5.6 if outside else 3.6)


def ridge_picture(table: pd.DataFrame) -> Picture:
    """Error against the ridge, one line for each α; a star where the column `is_best` says so."""
    best = table["is_best"].astype(bool) if "is_best" in table else table["ridge"] != table["ridge"]
    picture = curves_picture(table, "ridge")
    star = star_trace(table[best], "ridge")
    panel = picture.panels[0]
    return replace(picture, panels=(replace(panel, traces=(*panel.traces, star)),))


def star_trace(rows: pd.DataFrame, x: str, label: str = "best *λ*") -> Trace:
    """Black stars at points that matter."""
    return Trace(
        numbers(rows[x]), numbers(rows[ERROR]), kind="symbols", marker="star", label=label, size=1.5
    )


def curves_panel(
    table: pd.DataFrame,
    x: str = "alpha",
    y: str = ERROR,
    *,
    log_x: bool | None = None,
    log_y: bool = False,
) -> Panel:
    """Traces, axes, a legend that says what lines and symbols are, and transitions if known."""
    series = find_series(table, x, y)
    traces = series_traces(series, x, y)
    xs = [value for trace in traces for value in trace.x]
    if log_x is None:
        log_x = min(xs) > 0 and (x == "ridge" or max(xs) > 100 * min(xs))
    ys = [value for trace in traces for value in trace.y if not math.isnan(value)]
    # From zero, a little below it where a symbol would be cut.
    bottom = None if log_y or min(ys) < 0 else 0.0 if min(ys) > 0 else -0.02 * max(ys)
    labels = sum(trace.in_legend for trace in traces)
    return Panel(
        traces,
        Axis(axis_label(x), "log" if log_x else "linear"),
        Axis(axis_label(y), "log" if log_y else "linear", bottom),
        marks=transition_marks(table) if x == "alpha" else (),
        legend=Legend("best" if labels < MANY else "outside", _explain(series)),
    )


def transition_marks(table: pd.DataFrame) -> tuple[Mark, ...]:
    """Verticals at α_IT and α_algo, if the table has one row for each."""
    if "branch" not in table or any((table["branch"] == name).sum() != 1 for name in TRANSITIONS):
        return ()
    found = {
        name: float(table.loc[table["branch"] == name, "alpha"].iloc[0]) for name in TRANSITIONS
    }
    return tuple(
        Mark(value, f"{TRANSITION_LABELS[name]} = {value:.3f}", side)
        for (name, value), side in zip(found.items(), ("right", "left"), strict=True)
    )


def _explain(series: Sequence[Series]) -> str:
    """A legend's title: what lines and symbols are."""
    theory, runs = [s for s in series if s.theory], [s for s in series if not s.theory]
    words = []
    shared = shared_role(series)
    if theory and (runs or shared):
        words.append("lines: " + (label_of(shared) or "theory"))
    if runs:
        names = " and ".join(dict.fromkeys(SYMBOLS.get(s.source, s.source) for s in runs))
        sizes = {text(row.get("dimension")) for s in runs for row in s.rows} - {""}
        size = f", *d = {float(next(iter(sizes))):g}*" if len(sizes) == 1 else ""
        words.append(f"symbols: {names}{size}")
    for some, sign in ((runs, "hollow"), (theory, "×")):
        if any(row.get("status") == Status.NOT_CONVERGED for s in some for row in s.rows):
            words.append(f"{sign}: not converged")
    return "\n".join(words)
