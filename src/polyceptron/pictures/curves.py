"""Any quantity of a tidy table against any other: theory as lines, experiments as symbols.

A line is broken where the theory jumps, symbols are hollow where runs had not converged. Which rows
make a line, and its names, is found in `series`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from polyceptron.pictures import parts as pic
from polyceptron.pictures.series import (
    TRANSITIONS,
    Series,
    find_series,
    series_colours,
    shared_role,
)
from polyceptron.pictures.tables import check_column, fact, problem_words, text
from polyceptron.problem import BayesOptimal
from polyceptron.rows import Status, error_column

if TYPE_CHECKING:
    import pandas as pd

Rows = Sequence[Mapping[Any, Any]]
Look = dict[str, Any]  # fields of a trace

ERROR = "generalisation_error"
NAMES_OF_RUNS = {"amp": "AMP", "erm": "fits"}  # by their source
TRANSITION_LABELS = dict(zip(TRANSITIONS, ("*α_{IT}*", "*α_{algo}*"), strict=True))
SMALL_SIZE = (3.6, 2.9)  # inches
SIZE_WITH_LEGEND_OUTSIDE = (5.8, 4.4)  # inches
ENTRIES_INSIDE = 7  # of a legend, at this size of a picture
MOST_ENTRIES = 20  # of a legend beside the axes
LOOKS_VERTICAL = 1e-3  # the relative step in α below which a line looks upright
STEEPER_THAN_NEIGHBOURS = 3.0  # a line so many times as steep as on both sides jumps there
WIDE_RANGE = 100.0  # the ratio of the ends beyond which an axis is logarithmic
ROOM_BELOW_ZERO = 0.02  # share of the axis, so that a symbol at 0 is not cut


def curves_picture(
    table: pd.DataFrame,
    x: str = "alpha",
    y: str = ERROR,
    *,
    log_x: bool | None = None,
    log_y: bool = False,
) -> pic.Picture:
    """Return the panel of `curves_panel` as a picture, with the problem as its title."""
    panel = curves_panel(table, x, y, log_x=log_x, log_y=log_y)
    width, height = SMALL_SIZE
    if panel.legend is not None and panel.legend.place == "outside":
        width, height = SIZE_WITH_LEGEND_OUTSIDE
    return pic.Picture((replace(panel, title=problem_words(table)),), width, height)


def ridge_picture(table: pd.DataFrame) -> pic.Picture:
    """Draw the error against the ridge, one line for each α.

    A star stands where the column `is_best` is true.
    """
    best = table["ridge"].isna()
    if "is_best" in table:
        best = table["is_best"].astype(bool)
    picture = curves_picture(table, "ridge")
    (panel,) = picture.panels
    low = table[ERROR].min()
    high = table[ERROR].max()
    title = panel.title
    alphas = table["alpha"].unique()
    if len(alphas) == 1:
        title = ", ".join(filter(None, [title, fact("alpha", float(alphas[0]))]))
    panel = replace(
        panel,
        traces=(*panel.traces, star_trace(table[best], "ridge")),
        y=replace(panel.y, low=low - 0.1 * (high - low)),  # from 0 the minimum would look flat
        title=title,
    )
    return replace(picture, panels=(panel,))


def star_trace(rows: pd.DataFrame, x: str) -> pic.Trace:
    """Return black stars at the errors of the best ridges."""
    return pic.trace_of(rows, x, ERROR, kind="symbols", marker="star", label="best *λ*", size=1.5)


def curves_panel(
    table: pd.DataFrame,
    x: str = "alpha",
    y: str = ERROR,
    *,
    log_x: bool | None = None,
    log_y: bool = False,
) -> pic.Panel:
    """Return traces and axes, a legend that explains lines and symbols, and known transitions.

    Parameters
    ----------
    table : pandas.DataFrame
        Tidy rows of theory, of experiments, or of both.
    x, y : str
        Columns of numbers.
    log_x : bool, optional
        By default the x-axis is logarithmic where x covers two decades, and for ridges.
    log_y : bool
    """
    check_column(table, x)
    positive = table[table[x] > 0]
    if log_x is None:
        log_x = _is_wide(table, x)
    series = find_series(positive if log_x else table, x, y)
    traces = series_traces(series, x, y)
    title = _explain(series)
    if log_x and len(positive) < table[x].notna().sum():
        title += "\n0 is not on this axis"
    n_named = sum(trace.in_legend for trace in traces)
    if n_named > MOST_ENTRIES:
        title += f"\n{n_named} lines, {MOST_ENTRIES} of them named:"
        traces = _with_fewer_names(traces)
    place = "best" if n_named <= ENTRIES_INSIDE else "outside"
    return pic.Panel(
        traces,
        pic.Axis(pic.axis_label(x), _scale(log_x)),
        pic.Axis(pic.axis_label(y), _scale(log_y), None if log_y else _bottom(traces)),
        marks=transition_marks(table) if x == "alpha" else (),
        legend=pic.Legend(place, title.strip()),
    )


def _scale(logarithmic: bool) -> str:
    return "log" if logarithmic else "linear"


def _is_wide(table: pd.DataFrame, x: str) -> bool:
    """Return whether an axis of this column is better logarithmic."""
    positive = table.loc[table[x] > 0, x]
    if positive.empty:
        return False
    if x == "ridge":
        return True
    return not (table[x] <= 0).any() and positive.max() > WIDE_RANGE * positive.min()


def _bottom(traces: Sequence[pic.Trace]) -> float | None:
    """Return where a linear y-axis begins: at 0, a little below it where a symbol would be cut."""
    ys = [value for trace in traces for value in trace.y if not math.isnan(value)]
    if min(ys) < 0:
        return None
    if min(ys) > 0:
        return 0.0
    return -ROOM_BELOW_ZERO * max(ys)


def _with_fewer_names(traces: Sequence[pic.Trace]) -> tuple[pic.Trace, ...]:
    """Return the traces with `MOST_ENTRIES` of them in the legend, at even distances."""
    named = [i for i, trace in enumerate(traces) if trace.in_legend]
    kept = {named[i * (len(named) - 1) // (MOST_ENTRIES - 1)] for i in range(MOST_ENTRIES)}
    return tuple(replace(trace, in_legend=i in kept) for i, trace in enumerate(traces))


class _Markers:
    """The symbol of each estimator and size, or of each colour and size of a single estimator.

    An estimator has its own symbol where it is free, else the next. Several lines of a single
    estimator have the symbols in order, whoever the estimator is.
    """

    def __init__(self, series: Sequence[Series], colours: Sequence[str]) -> None:
        self._chosen: dict[tuple[str, str], str] = {}
        self._reserved = {pic.marker_of(s.estimator, s.source) for s in series}
        self._is_mixed = len({(s.estimator, s.source) for s in series}) > 1
        self._has_own = self._is_mixed or len(set(colours)) == 1

    def of(self, series: Series, colour: str) -> str:
        """Return the symbol of a series of this colour."""
        key = (colour, series.size)
        if self._is_mixed:
            key = (f"{series.estimator} {series.source}", series.size)
        if key not in self._chosen:
            self._chosen[key] = self._next_free(series)
        return self._chosen[key]

    def _next_free(self, series: Series) -> str:
        wanted = [*pic.MARKERS]
        if self._has_own:
            own = pic.marker_of(series.estimator, series.source)
            unreserved = [marker for marker in pic.MARKERS if marker not in self._reserved]
            wanted = [own, *unreserved, *pic.MARKERS]
        free = [name for name in wanted if name and name not in self._chosen.values()]
        if free:
            return free[0]
        return pic.MARKERS[len(self._chosen) % len(pic.MARKERS)]


def series_traces(series: Sequence[Series], x: str, y: str) -> tuple[pic.Trace, ...]:
    """Return the lines, the Bayes-optimal ones above the others, then the symbols."""
    coloured = list(zip(series, series_colours(series), strict=True))
    shared = shared_role(series)
    colours_of_lines = {colour for s, colour in coloured if s.is_theory}
    is_mixed = len({s.estimator for s in series}) > 1
    lines: list[pic.Trace] = []
    symbols: list[pic.Trace] = []
    experiments = [(s, colour) for s, colour in coloured if not s.is_theory]
    markers = _Markers([s for s, _ in experiments], [colour for _, colour in experiments])
    for s, colour in sorted(coloured, key=_is_bayes_line):
        name = "" if shared else pic.label_of(s.role) or s.source
        label = ", ".join(word for word in (name, *s.family, s.size) if word)
        look: Look = {"colour": colour, "label": label, "table": s.table}
        if s.is_theory:
            lines += _line_traces(s.rows, x, y, look | {"dash": pic.dash_of(s.role, is_mixed)})
        else:
            look["marker"] = markers.of(s, colour)
            look["in_legend"] = colour not in colours_of_lines or bool(s.size)
            symbols += _symbol_traces(s.rows, x, y, look)
    return (*_named_once(lines), *symbols)


def _is_bayes_line(coloured: tuple[Series, str]) -> bool:
    series, _ = coloured
    return series.is_theory and series.role == BayesOptimal.name


def _named_once(lines: Sequence[pic.Trace]) -> list[pic.Trace]:
    """Return the lines; the same line from two tables is in the legend once."""
    seen = set()
    named = []
    for line in lines:
        key = (line.kind, line.label, line.colour)
        named.append(replace(line, in_legend=line.in_legend and key not in seen))
        seen.add(key)
    return named


def _line_traces(rows: Rows, x: str, y: str, look: Look) -> list[pic.Trace]:
    """Return a line of theory (a symbol for one point), and crosses where it did not converge."""
    points = [(float(row[x]), float(row[y])) for row in rows]
    failed = [
        point
        for point, row in zip(points, rows, strict=True)
        if row.get("status") == Status.NOT_CONVERGED
    ]
    for i in reversed(_jumps(points, rows, y)):
        points.insert(i + 1, (_between(points[i][0], points[i + 1][0]), math.nan))
    kind = "line" if len(points) > 1 else "symbols"
    traces = [_trace_through(points, look | {"kind": kind})]
    if failed:
        cross: Look = {"kind": "symbols", "marker": "x", "in_legend": False}
        traces.append(_trace_through(failed, look | cross))
    return traces


def _trace_through(points: Sequence[tuple[float, float]], look: Look) -> pic.Trace:
    xs, ys = zip(*points, strict=True)
    return pic.Trace(xs, ys, **look)


def _between(left: float, right: float) -> float:
    """Return a point between two others, on a logarithmic axis too."""
    if left > 0:
        return math.sqrt(left * right)
    return (left + right) / 2


def _symbol_traces(rows: Rows, x: str, y: str, look: Look) -> list[pic.Trace]:
    """Return symbols with the standard errors of means, hollow where runs had not converged."""
    traces: list[pic.Trace] = []
    for hollow in (False, True):
        chosen = [row for row in rows if (row.get("status") == Status.NOT_CONVERGED) == hollow]
        if not chosen:
            continue
        errors = pic.numbers(row.get(error_column(y)) for row in chosen)
        trace = pic.Trace(
            pic.numbers(row[x] for row in chosen),
            pic.numbers(row[y] for row in chosen),
            # One instance has no standard error: its bar has no length.
            tuple(0.0 if math.isnan(error) else error for error in errors),
            kind="symbols",
            hollow=hollow,
            **look,
        )
        traces.append(replace(trace, in_legend=trace.in_legend and not traces))
    return traces


def _jumps(points: Sequence[tuple[float, float]], rows: Rows, y: str) -> list[int]:
    """Return the steps i → i + 1 over which a Bayes-optimal line would be slanted where it jumps.

    It jumps where perfect learning begins, and where it is much steeper than on both sides, since a
    smooth error is convex there. A step of no width is vertical and stays.
    """
    if y == "free_entropy" or not any(text(row.get("branch")) for row in rows):
        return []
    perfect = [row.get(ERROR) == 0 for row in rows]
    slopes = [abs((b[1] - a[1]) / (b[0] - a[0])) for a, b in pairwise(points)]
    jumps = []
    for i, (left, right) in enumerate(pairwise(points)):
        if right[0] - left[0] <= LOOKS_VERTICAL * left[0]:
            continue
        if perfect[i] != perfect[i + 1] or _is_steepest(slopes, i):
            jumps.append(i)
    return jumps


def _is_steepest(slopes: Sequence[float], i: int) -> bool:
    """Return whether step i is much steeper than both of its neighbours."""
    if not 0 < i < len(slopes) - 1:
        return False
    return slopes[i] > STEEPER_THAN_NEIGHBOURS * max(slopes[i - 1], slopes[i + 1])


def transition_marks(table: pd.DataFrame) -> tuple[pic.Mark, ...]:
    """Return verticals at α_IT and α_algo, if the table has one row for each."""
    if "branch" not in table:
        return ()
    marks = []
    for (branch, label), side in zip(TRANSITION_LABELS.items(), ("right", "left"), strict=True):
        alphas = table.loc[table["branch"] == branch, "alpha"].tolist()
        if len(alphas) != 1:
            return ()
        marks.append(pic.Mark(alphas[0], f"{label} = {alphas[0]:.3f}", side))
    return tuple(marks)


def _explain(series: Sequence[Series]) -> str:
    """Return a legend's title: what its lines and symbols are."""
    theory = [s for s in series if s.is_theory]
    runs = [s for s in series if not s.is_theory]
    shared = shared_role(series)
    names_of_runs = " and ".join(dict.fromkeys(NAMES_OF_RUNS.get(s.source, s.source) for s in runs))
    words = []
    if theory and (runs or shared):
        label = pic.label_of(shared)
        if label in ("", names_of_runs):
            label = "theory"
        words.append(f"lines: {label}")
    if runs:
        words.append(f"symbols: {names_of_runs}{_words_of_dimension(runs)}")
    if _has_failed(runs):
        words.append("hollow: not converged")
    if _has_failed(theory):
        words.append("×: not converged")
    return "\n".join(words)


def _words_of_dimension(runs: Sequence[Series]) -> str:
    """Return the dimension of all runs, if it is one."""
    dimensions = {text(row.get("dimension")) for s in runs for row in s.rows} - {""}
    if len(dimensions) != 1:
        return ""
    return f", *d = {float(dimensions.pop()):g}*"


def _has_failed(series: Sequence[Series]) -> bool:
    return any(row.get("status") == Status.NOT_CONVERGED for s in series for row in s.rows)
