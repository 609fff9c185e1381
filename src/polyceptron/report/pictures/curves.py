"""Any quantity of a tidy table against any other: theory as lines, experiments as symbols."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from polyceptron.report.pictures.curve_traces import ERROR, series_traces
from polyceptron.report.pictures.looks import shared_role
from polyceptron.report.pictures.parts import Axis, Legend, Mark, Panel, Picture, Trace, numbers
from polyceptron.report.pictures.series import (
    TRANSITIONS,
    Series,
    check_column,
    find_series,
    problem_words,
    text,
)
from polyceptron.report.style import axis_label, label_of
from polyceptron.rows import Status

if TYPE_CHECKING:
    import pandas as pd

SYMBOLS = {"amp": "AMP", "erm": "fits"}  # what the runs of a source are called
TRANSITION_LABELS = dict(zip(TRANSITIONS, ("*α_{IT}*", "*α_{algo}*"), strict=True))
MANY, MOST = 8, 20  # entries of a legend that do not fit inside the axes, and not beside them


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
    return Picture((panel,), *((5.8, 4.4) if outside else (3.6, 2.9)))


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
    check_column(table, x)
    above = table[table[x] > 0]
    if log_x is None:
        wide = not (table[x] <= 0).any() and above[x].max() > 100 * above[x].min()
        log_x = bool(wide or (x == "ridge" and len(above)))
    aside = log_x and len(above) < table[x].notna().sum()
    series = find_series(above if log_x else table, x, y)
    traces = series_traces(series, x, y)
    ys = [value for trace in traces for value in trace.y if not math.isnan(value)]
    # From zero, a little below it where a symbol would be cut.
    bottom = None if log_y or min(ys) < 0 else 0.0 if min(ys) > 0 else -0.02 * max(ys)
    named = [i for i, trace in enumerate(traces) if trace.in_legend]
    title = _explain(series) + ("\n0 is not on this axis" if aside else "")
    if len(named) > MOST:
        title += f"\n{len(named)} lines, {MOST} of them named:"
        kept = {named[i * (len(named) - 1) // (MOST - 1)] for i in range(MOST)}
        traces = tuple(replace(t, in_legend=i in kept) for i, t in enumerate(traces))
    return Panel(
        traces,
        Axis(axis_label(x), "log" if log_x else "linear"),
        Axis(axis_label(y), "log" if log_y else "linear", bottom),
        marks=transition_marks(table) if x == "alpha" else (),
        legend=Legend("best" if len(named) < MANY else "outside", title.strip()),
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
    names = " and ".join(dict.fromkeys(SYMBOLS.get(s.source, s.source) for s in runs))
    if theory and (runs or shared):
        words.append(
            "lines: " + ("theory" if label_of(shared) in ("", names) else label_of(shared))
        )
    if runs:
        sizes = {text(row.get("dimension")) for s in runs for row in s.rows} - {""}
        size = f", *d = {float(next(iter(sizes))):g}*" if len(sizes) == 1 else ""
        words.append(f"symbols: {names}{size}")
    for some, sign in ((runs, "hollow"), (theory, "×")):
        if any(row.get("status") == Status.NOT_CONVERGED for s in some for row in s.rows):
            words.append(f"{sign}: not converged")
    return "\n".join(words)
