"""Series as traces: theory as lines, experiments as symbols.

A line is broken where the theory jumps, and symbols are hollow where runs had not converged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from polyceptron.report.instance_means import error_column
from polyceptron.report.pictures.looks import series_colours, series_label, shared_role
from polyceptron.report.pictures.parts import Dash, Trace, numbers
from polyceptron.report.pictures.series import Series, text
from polyceptron.report.style import DASHES, MARKERS
from polyceptron.rows import Status

ERROR = "generalisation_error"
_STEEP = 3.0  # a step this much steeper than both its neighbours is a jump


def series_traces(series: Sequence[Series], x: str, y: str) -> tuple[Trace, ...]:
    """Lines first, the Bayes-optimal ones above the others, then symbols."""
    colours = series_colours(series)
    shared = shared_role(series)
    named = {colours[s.estimator, s.role, s.family] for s in series if s.theory}
    mixed = len({s.estimator for s in series}) > 1
    lines, symbols, markers = [], [], dict[tuple[str, str], str]()
    for one in sorted(series, key=lambda s: s.theory and s.role == "bayes"):
        colour = colours[one.estimator, one.role, one.family]
        label = series_label(one, shared)
        if one.theory:
            # A curve that the Bayes-optimal one lies on stays visible under its dashes.
            dash: Any = DASHES.get(one.role, "dash" if mixed and one.role == "bayes" else "solid")
            lines += line_traces(one.rows, x, y, colour, label, dash, table=one.table)
        else:
            marker = markers.setdefault((colour, one.size), MARKERS[len(markers) % len(MARKERS)])
            known = colour in named and not one.size
            symbols += symbol_traces(
                one.rows, x, y, colour, label, marker, not known, table=one.table
            )
    # The same line from two tables is named once.
    first = {(t.kind, t.label, t.colour): i for i, t in reversed([*enumerate(lines)])}
    lines = [
        replace(t, in_legend=t.in_legend and first[t.kind, t.label, t.colour] == i)
        for i, t in enumerate(lines)
    ]
    return tuple(lines + symbols)


def line_traces(
    rows: Sequence[Mapping[Any, Any]],
    x: str,
    y: str,
    colour: str,
    label: str = "",
    dash: Dash = "solid",
    **more: Any,
) -> list[Trace]:
    """Theory: a line (a symbol for one point), and crosses where it did not converge."""
    xs, ys = numbers(row[x] for row in rows), numbers(row[y] for row in rows)
    data = [(row.get("uncertainty") or 0.0, text(row.get("status"))) for row in rows]
    for i in reversed(_jumps(xs, ys, rows, y)):
        middle = math.sqrt(xs[i] * xs[i + 1]) if xs[i] > 0 else (xs[i] + xs[i + 1]) / 2
        xs, ys = (*xs[: i + 1], middle, *xs[i + 1 :]), (*ys[: i + 1], math.nan, *ys[i + 1 :])
        data.insert(i + 1, (0.0, "jump"))
    spread = " ± %{customdata[0]:.1g}" if y == ERROR else ""
    hover = f"<br>%{{x:.4g}}<br>%{{y:.6g}}{spread}<br>status %{{customdata[1]}}"
    common: dict[str, Any] = {"colour": colour, "hover": hover, **more}
    kind: Any = "line" if len(xs) > 1 else "symbols"
    traces = [Trace(xs, ys, kind=kind, dash=dash, label=label, customdata=tuple(data), **common)]
    bad = [i for i, (_, status) in enumerate(data) if status == Status.NOT_CONVERGED]
    if bad:
        at: Any = {"x": tuple(xs[i] for i in bad), "y": tuple(ys[i] for i in bad)}
        crosses: Any = {"kind": "symbols", "marker": "x", "label": label, "in_legend": False}
        traces.append(Trace(**at, **crosses, **common))
    return traces


def symbol_traces(
    rows: Sequence[Mapping[Any, Any]],
    x: str,
    y: str,
    colour: str,
    label: str = "",
    marker: str = "circle",
    in_legend: bool = True,
    **more: Any,
) -> list[Trace]:
    """Experiments: symbols with the standard errors of means, hollow where not converged."""
    traces: list[Trace] = []
    hollow = [row.get("status") == Status.NOT_CONVERGED for row in rows]
    for bad in (False, True):
        some = [
            row for row, not_converged in zip(rows, hollow, strict=True) if not_converged == bad
        ]
        if not some:
            continue
        error = numbers(row.get(error_column(y)) for row in some)
        counts = [text(row.get("instances")) or "1" for row in some]
        traces.append(
            Trace(
                numbers(row[x] for row in some),
                numbers(row[y] for row in some),
                # One instance has no standard error: its bar has no length.
                tuple(0.0 if math.isnan(e) else e for e in error),
                kind="symbols", colour=colour, marker=marker, hollow=bad,
                label=label, in_legend=in_legend and not traces,
                hover="<br>%{x:.4g}<br>%{y:.6g} ± %{customdata[0]:.1g}"
                "<br>instances %{customdata[1]}",
                customdata=tuple(zip(error, counts, strict=True)),
                **more,
            )
        )  # fmt: skip
    return traces


def _jumps(
    xs: Sequence[float], ys: Sequence[float], rows: Sequence[Mapping[Any, Any]], y: str
) -> list[int]:
    """The steps i → i + 1 at which a Bayes-optimal line jumps.

    It does where perfect learning begins, and where it is much steeper than on both sides: a smooth
    error is convex there, never steepest in between.
    """
    if y == "free_entropy" or not any(text(row.get("branch")) for row in rows):
        return []
    perfect = [row.get(ERROR) == 0 for row in rows]
    slopes = [abs(ys[i + 1] - ys[i]) / (xs[i + 1] - xs[i]) for i in range(len(xs) - 1)]
    return [
        i for i in range(len(slopes))
        if perfect[i] != perfect[i + 1]
        or (0 < i < len(slopes) - 1 and slopes[i] > _STEEP * max(slopes[i - 1], slopes[i + 1]))
    ]  # fmt: skip
