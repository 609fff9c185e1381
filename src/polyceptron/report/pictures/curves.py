"""Any quantity of a tidy table against any other: theory as lines, experiments as symbols.

Series of the table become traces (a line is broken where the theory jumps, symbols are hollow where
runs had not converged), traces a panel with axes and a legend that names what differs. Tables drawn
on the same axes one after another are each time drawn anew together, as if they had been one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pandas as pd

from polyceptron.model import BayesOptimal
from polyceptron.report.pictures import parts as pic
from polyceptron.report.pictures.matplotlib_figure import check_style, draw_panel, notebook_axes
from polyceptron.report.pictures.series import (
    TRANSITIONS,
    Series,
    check_column,
    find_series,
    problem_words,
    series_colours,
    series_label,
    shared_role,
    text,
)
from polyceptron.rows import Status, error_column

if TYPE_CHECKING:
    from matplotlib.axes import Axes


ERROR, BAYES = "generalisation_error", BayesOptimal.name
Rows = Sequence[Mapping[Any, Any]]
_STEEP = 3.0  # a step this much steeper than both its neighbours is a jump


def series_traces(series: Sequence[Series], x: str, y: str) -> tuple[pic.Trace, ...]:
    """Lines first, the Bayes-optimal ones above the others, then symbols."""
    colours, shared = series_colours(series), shared_role(series)
    named = {colours[s.look] for s in series if s.theory}
    mixed = len({s.estimator for s in series}) > 1
    lines, symbols, markers = list[pic.Trace](), list[pic.Trace](), dict[tuple[str, str], str]()
    for one in sorted(series, key=lambda s: s.theory and s.role == BAYES):
        colour = colours[one.look]
        label = series_label(one, shared)
        look: dict[str, Any] = {"colour": colour, "label": label, "table": one.table}
        if one.theory:
            # A curve that the Bayes-optimal one lies on stays visible under its dashes.
            dash = pic.DASHES.get(one.role, "dash" if mixed and one.role == BAYES else "solid")
            lines += _line_traces(one.rows, x, y, look | {"dash": dash})
        else:
            free = pic.MARKERS[len(markers) % len(pic.MARKERS)]
            marker = markers.setdefault((colour, one.size), free)
            look |= {"marker": marker, "in_legend": colour not in named or bool(one.size)}
            symbols += _symbol_traces(one.rows, x, y, look)
    # The same line from two tables is named once.
    first = {(t.kind, t.label, t.colour): i for i, t in reversed([*enumerate(lines)])}
    lines = [
        replace(t, in_legend=t.in_legend and first[t.kind, t.label, t.colour] == i)
        for i, t in enumerate(lines)
    ]
    return tuple(lines + symbols)


def _line_traces(rows: Rows, x: str, y: str, look: dict[str, Any]) -> list[pic.Trace]:
    """Theory: a line (a symbol for one point), and crosses where it did not converge."""
    points = [(float(row[x]), float(row[y])) for row in rows]
    statuses = [row.get("status") for row in rows]
    bad = [p for p, s in zip(points, statuses, strict=True) if s == Status.NOT_CONVERGED]
    for i in reversed(_jumps(points, rows, y)):
        a, b = points[i][0], points[i + 1][0]
        points.insert(i + 1, (math.sqrt(a * b) if a > 0 else (a + b) / 2, math.nan))
    xs, ys = zip(*points, strict=True)
    traces = [pic.Trace(xs, ys, kind="line" if len(xs) > 1 else "symbols", **look)]
    if bad:
        xs, ys = zip(*bad, strict=True)
        look = look | {"kind": "symbols", "marker": "x", "in_legend": False}
        traces.append(pic.Trace(xs, ys, **look))
    return traces


def _symbol_traces(rows: Rows, x: str, y: str, look: dict[str, Any]) -> list[pic.Trace]:
    """Experiments: symbols with the standard errors of means, hollow where not converged."""
    traces: list[pic.Trace] = []
    for hollow in (False, True):
        some = [row for row in rows if (row.get("status") == Status.NOT_CONVERGED) == hollow]
        if some:
            error = pic.numbers(row.get(error_column(y)) for row in some)
            # One instance has no standard error: its bar has no length.
            bars = tuple(0.0 if math.isnan(e) else e for e in error)
            xs, ys = (pic.numbers(row[name] for row in some) for name in (x, y))
            one = pic.Trace(xs, ys, bars, kind="symbols", hollow=hollow, **look)
            traces.append(replace(one, in_legend=one.in_legend and not traces))
    return traces


def _jumps(points: Sequence[tuple[float, float]], rows: Rows, y: str) -> list[int]:
    """The steps i → i + 1 at which a Bayes-optimal line jumps.

    It does where perfect learning begins, and where it is much steeper than on both sides: a smooth
    error is convex there, never steepest in between.
    """
    if y == "free_entropy" or not any(text(row.get("branch")) for row in rows):
        return []
    perfect = [row.get(ERROR) == 0 for row in rows]
    slopes = [abs((b[1] - a[1]) / (b[0] - a[0])) for a, b in pairwise(points)]
    return [
        i for i, slope in enumerate(slopes)
        if perfect[i] != perfect[i + 1]
        or (0 < i < len(slopes) - 1 and slope > _STEEP * max(slopes[i - 1], slopes[i + 1]))
    ]  # fmt: skip


def overlay(ax: Axes | None, table: pd.DataFrame, x: str, y: str, style: dict[str, Any]) -> Axes:
    """Draw the table on the axes, together with those that `overlay` has drawn there before.

    Without axes, on new ones of pyplot, with what all rows share as their title.
    """
    check_style(style)
    new = ax is None
    ax = notebook_axes(curves_picture(table, x, y)) if ax is None else ax
    held = getattr(ax, "_polyceptron", {})  # goes with the axes, whenever they go
    calls, drawn = held.get((x, y), ([], []))
    # Of error bars, their symbols tell whether the axes were cleared since.
    if any((one[0] if isinstance(one, tuple) else one).axes is not ax for one in drawn):
        calls, drawn = [], []
    calls = [*calls, (table, style)]
    together = pd.concat([one.assign(table=i) for i, (one, _) in enumerate(calls)])
    panel = curves_panel(together.reset_index(drop=True), x, y)
    for one in drawn:
        one.remove()
    looks = [{name: value for name, value in look.items() if name != "label"} for _, look in calls]
    with pic.style():
        drawn = draw_panel(ax, _relabel(panel, [look.get("label") for _, look in calls]), looks)
        title = pic.as_mathtext(problem_words(together))
        if new or ax.get_title(loc="left") == held.get("title"):
            ax.set_title(title, loc="left", fontsize=7)
        else:
            title = ""  # the user's own stays
    ax._polyceptron = {**held, (x, y): (calls, drawn), "title": title}  # type: ignore[attr-defined]
    return ax


def _relabel(panel: pic.Panel, labels: list[Any]) -> pic.Panel:
    """The user's label instead of ours; before ours where a table has several lines."""
    traces: list[pic.Trace] = []
    for trace in panel.traces:
        if (label := labels[trace.table]) is not None:
            own = [one for one in panel.traces if one.table == trace.table]
            named = [one for one in own if one.in_legend] or own[:1]
            if len(named) > 1:
                label = f"{label}, {trace.label}"
            trace = replace(trace, label=str(label), in_legend=trace in named)
        traces.append(trace)
    return replace(panel, traces=tuple(traces))


SYMBOLS = {"amp": "AMP", "erm": "fits"}  # what the runs of a source are called
TRANSITION_LABELS = dict(zip(TRANSITIONS, ("*α_{IT}*", "*α_{algo}*"), strict=True))
MANY, MOST = 8, 20  # entries of a legend that do not fit inside the axes, and not beside them


def curves_picture(
    table: pd.DataFrame, x: str = "alpha", y: str = ERROR, **scales: Any
) -> pic.Picture:
    """The panel of `curves_panel` as a picture of its own, with the problem as its title."""
    panel = replace(curves_panel(table, x, y, **scales), title=problem_words(table))
    outside = panel.legend is not None and panel.legend.place == "outside"
    return pic.Picture((panel,), *((5.8, 4.4) if outside else (3.6, 2.9)))


def ridge_picture(table: pd.DataFrame) -> pic.Picture:
    """Error against the ridge, one line for each α; a star where the column `is_best` is true."""
    best = table["is_best"].astype(bool) if "is_best" in table else table["ridge"].isna()
    picture = curves_picture(table, "ridge")
    (panel,) = picture.panels
    traces = (*panel.traces, star_trace(table[best], "ridge"))
    return replace(picture, panels=(replace(panel, traces=traces),))


def star_trace(rows: pd.DataFrame, x: str) -> pic.Trace:
    """Black stars at points that matter."""
    look: Any = {"kind": "symbols", "marker": "star", "label": "best *λ*", "size": 1.5}
    return pic.trace_of(rows, x, ERROR, **look)


def curves_panel(
    table: pd.DataFrame,
    x: str = "alpha",
    y: str = ERROR,
    *,
    log_x: bool | None = None,
    log_y: bool = False,
) -> pic.Panel:
    """Traces, axes, a legend of what lines and symbols are, and transitions if known."""
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
    return pic.Panel(
        traces,
        pic.Axis(pic.axis_label(x), "log" if log_x else "linear"),
        pic.Axis(pic.axis_label(y), "log" if log_y else "linear", bottom),
        marks=transition_marks(table) if x == "alpha" else (),
        legend=pic.Legend("best" if len(named) < MANY else "outside", title.strip()),
    )


def transition_marks(table: pd.DataFrame) -> tuple[pic.Mark, ...]:
    """Verticals at α_IT and α_algo, if the table has one row for each."""
    if "branch" not in table:
        return ()
    found = [table.loc[table["branch"] == name, "alpha"] for name in TRANSITIONS]
    if any(len(rows) != 1 for rows in found):
        return ()
    named = zip(found, TRANSITION_LABELS.values(), ("right", "left"), strict=True)
    return tuple(
        pic.Mark(float(rows.iloc[0]), f"{label} = {rows.iloc[0]:.3f}", side)
        for rows, label, side in named
    )


def _explain(series: Sequence[Series]) -> str:
    """A legend's title: what lines and symbols are."""
    theory, runs = [s for s in series if s.theory], [s for s in series if not s.theory]
    words = []
    shared = shared_role(series)
    names = " and ".join(dict.fromkeys(SYMBOLS.get(s.source, s.source) for s in runs))
    if theory and (runs or shared):
        label = pic.label_of(shared)
        words.append("lines: " + ("theory" if label in ("", names) else label))
    if runs:
        sizes = {text(row.get("dimension")) for s in runs for row in s.rows} - {""}
        size = f", *d = {float(next(iter(sizes))):g}*" if len(sizes) == 1 else ""
        words.append(f"symbols: {names}{size}")
    for some, sign in ((runs, "hollow"), (theory, "×")):
        if any(row.get("status") == Status.NOT_CONVERGED for s in some for row in s.rows):
            words.append(f"{sign}: not converged")
    return "\n".join(words)
