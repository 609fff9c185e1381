"""What is drawn on the page, each picture a function of rows.

A row is a result at one α = n/d, a dict by column (`rows.COLUMNS`): generalisation_error ε, order
parameters q and m, uncertainty (the error bar of ε), branch and others. Branches of an estimator
are its solutions: 'optimal' (the best), 'amp' (where message passing ends), 'informed' (reached
from the teacher), 'unstable-1' and so on (`kind_of` leaves out the number). `state` is what the
visitor has chosen, its `shown` the quantity of the second figure.

Four pictures: ε against α (`learning_figure`, eq. generalization_error_general of the paper), order
parameters (eq. mqv) or another quantity against α (`order_figure`), the confusion matrix at one α,
and the free entropy Φ against q at one α with its extrema (`landscape_figure`, eq. free_entropy).
Lines are theory, symbols simulations: means over runs with standard errors (`average_instances`).
α_IT and α_algo are the transitions of the paper's section on k = 3. α_s is where noisy labels cease
to be separable; it is not in the paper.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from polyceptron.pictures import parts as pic
from polyceptron.pictures.plotly_figure import INK, render_plotly
from polyceptron.problem import as_spectrum
from polyceptron.report.explorer.page_tasks import TEST_SAMPLES, Found, tested
from polyceptron.report.explorer.settings import SCORES, SHOWN, PageSettings
from polyceptron.rows import Row, average_instances, error_column, frame, kind_of

Figure = dict[str, Any]
"""A figure as plotly takes it."""

Curves = Mapping[str, Sequence[Row]]
"""Rows by estimator."""

Look = dict[str, Any]
"""How a trace is drawn: its colour, dash, label, ..."""

BAND = "#f6e3b4"
QUIET = "#5c5c5c"
FAINT = "#9a9a9a"
ALPHA = "sample complexity α = n/d"
ERROR = "generalisation_error"
# A linear axis is cut where one line is so many times as high as the others, to so many times.
LEAST_CUT = 50.0
CUT = 20.0
# A calibration error of 0 that is counted in 15 bins on N = TEST_SAMPLES samples is on average at
# most √(15·¼·2/(πN)): bins of N/15 samples, each right with probability ½, E|N(0, 1)| = √(2/π).
CHANCE = round(math.sqrt(15 / (2 * math.pi * TEST_SAMPLES)), 3)
SAME_ERROR = 1e-9  # two branches whose ε differ by less are the same solution
CLASS_DASHES = {
    "solid": "solid",
    "dash": "dashed",
    "dot": "dotted",
    "dashdot": "dash-dotted",
}  # by class, and again from the fifth: the dash, and its name
PHASES = (
    "perfect learning is impossible here",
    "hard phase: AMP misses perfect learning",
    "easy phase: AMP learns perfectly",
)
NOISY_PHASES = (
    "the lowest possible error has not jumped yet",
    "hard phase: AMP misses the lowest error",
    "easy phase: AMP reaches the lowest error",
)
BARRIER = (
    "Each symbol is a fixed point. Message passing climbs from q = 0 to the first maximum. A "
    "barrier is the minimum between two maxima: message passing does not cross it."
)


class Simulated(NamedTuple):
    """Rows of one simulation, and its number among those of the page."""

    state: PageSettings
    rows: Sequence[Row]
    number: int

    @property
    def label(self) -> str:
        """The name under which they are drawn."""
        return f"{self.state.words('simulation')}, d = {self.state.dimension}"


def learning_figure(
    state: PageSettings, curves: Curves, limits: Found, simulations: Sequence[Simulated] = ()
) -> Figure:
    """Draw the generalisation error against α, with its floor, the transitions and α_s.

    `limits` has what is known of floor, alpha_it, alpha_algo and alpha_s (`page_tasks`).
    """
    colours = _colours(curves, simulations)
    traces = [line(part, ERROR, **look) for look, part in _lines(curves, colours)]
    traces += [symbols(run, ERROR, colours) for run in simulations if run.rows]
    if limits.get("floor") is not None:
        traces.append(_floor(state, limits["floor"]))
    marks = [pic.Mark(state.alpha, colour=FAINT), *_marks(state, limits)]
    label = "generalisation error ε"
    if state.noisy:
        label = "error ε, labels as drawn"  # short enough for a phone
    x = _across(state, simulations)
    y = _vertical(label, state)
    return _figure(pic.Panel(tuple(traces), x, y, tuple(marks), _hard_phase(state, limits)), state)


def _floor(state: PageSettings, floor: float) -> pic.Trace:
    """Return the line of the least error of any rule.

    Where classes are not equal, the most probable label is not always the teacher's.
    """
    rule = "the best rule"
    if state.equal_classes:
        rule = "the teacher itself"
    return pic.Trace(
        (state.low, state.high),
        (floor, floor),
        hover=f"<br>ε {floor:.6g}",
        colour=FAINT,
        dash="dot",
        label=f"floor: {rule}",
    )


def _marks(state: PageSettings, limits: Found) -> Iterator[pic.Mark]:
    """Yield the transitions and α_s that are in sight."""
    places: tuple[tuple[str, str, str, pic.Dash], ...] = (
        ("alpha_it", "α_{IT}", "right", "dash"),
        ("alpha_algo", "α_{algo}", "left", "dash"),
        ("alpha_s", "α_{s}", "right", "dot"),
    )
    for key, name, side, dash in places:
        value = limits.get(key)
        if value is not None and state.low <= value <= state.high:
            yield pic.Mark(value, f"{name} = {value:.4g}", side, dash, QUIET)


def _hard_phase(state: PageSettings, limits: Found) -> tuple[pic.Shade, ...]:
    """Return the shade between both transitions, if any of it is in sight."""
    it = limits.get("alpha_it")
    if it is None:
        return ()
    algo = limits["alpha_algo"]
    if it >= state.high or algo <= state.low:
        return ()
    return (pic.Shade(max(it, state.low), min(algo, state.high), BAND, "hard phase"),)


def order_figure(
    state: PageSettings, curves: Curves, simulations: Sequence[Simulated] = ()
) -> Figure:
    """Draw the order parameters, or what else the page asks for, against α."""
    colours = _colours(curves, simulations)
    runs = [run for run in simulations if run.rows]
    label = state.words("shown")
    title = ""
    if state.shown == "overlaps":
        label = "q (solid), m (dash-dotted)"
        traces = [*_overlap_lines(curves, colours), *_overlap_symbols(runs, colours)]
    elif state.shown == "recall":
        traces = []
        title = _names_of_dashes(state.teacher.n_classes)
        for number in range(state.teacher.n_classes):
            traces += _class_traces(state, curves, runs, colours, number)
    else:
        traces = list(_quantity_traces(state, curves, runs, colours))
    x = _across(state, simulations)
    y = _vertical(label, state, traces)
    return _figure(pic.Panel(tuple(traces), x, y, title=title), state)


def _names_of_dashes(n_classes: int) -> str:
    """Return which line belongs to which class, as 'class 1 solid, 2 dashed'."""
    names = list(CLASS_DASHES.values())[:n_classes]
    words = [f"{label} {name}" for label, name in enumerate(names, 1)]
    if n_classes > len(names):
        words[-1] = "…"
    return f"class {', '.join(words)}"


def _overlap_lines(curves: Curves, colours: dict[str, str]) -> Iterator[pic.Trace]:
    """Yield the lines of q and m, one for both where they are equal."""
    for look, part in _lines(curves, colours):
        if all(row["m"] == row["q"] for row in part):
            yield line(part, "q", "q = m ", **look)
            continue
        yield line(part, "q", "q ", **look)
        yield line(part, "m", "m ", **look | {"dash": "dashdot", "in_legend": False})


def _overlap_symbols(runs: Sequence[Simulated], colours: dict[str, str]) -> Iterator[pic.Trace]:
    """Yield the symbols of q and m of the simulations."""
    for run in runs:
        yield symbols(run, "q", colours, "q ")
        yield symbols(run, "m", colours, "m ", hollow=True, in_legend=False)


def _quantity_traces(
    state: PageSettings, curves: Curves, runs: Sequence[Simulated], colours: dict[str, str]
) -> Iterator[pic.Trace]:
    """Yield lines and symbols of one quantity."""
    for look, part in _lines(curves, colours):
        known = derived(part, state.shown)
        if known:
            yield line(known, "shown", **look)
    for run in runs:
        known = derived(run.rows, state.shown)
        if known:
            yield symbols(run._replace(rows=known), "shown", colours)


def _class_traces(
    state: PageSettings,
    curves: Curves,
    runs: Sequence[Simulated],
    colours: dict[str, str],
    class_index: int,
) -> Iterator[pic.Trace]:
    """Yield lines and symbols of the recall of one class."""
    name = f", class {class_index + 1}"
    dash = list(CLASS_DASHES)[class_index % len(CLASS_DASHES)]
    in_legend = class_index == 0  # the title has the lines of the others
    marker = pic.MARKERS[class_index % len(pic.MARKERS)]
    for look, part in _lines(curves, colours):
        known = derived(part, "recall", class_index)
        if known:
            own = {"dash": dash, "label": look["label"] + name, "in_legend": in_legend}
            yield line(known, "shown", **look | own)
    for run in runs:
        known = derived(run.rows, "recall", class_index)
        if known:
            trace = symbols(run._replace(rows=known), "shown", colours)
            yield replace(trace, label=run.label + name, marker=marker, in_legend=in_legend)


@dataclass(frozen=True)
class _Block:
    """The confusion of one estimator: k × k cells that begin behind the column `start`."""

    start: int
    name: str
    chances: list[list[float]]  # P(guess | class), a class in each row

    @classmethod
    def of(cls, start: int, name: str, row: Row) -> _Block:
        """Return the block of a row's confusion, P(class, guess) as text."""
        joint = [[float(x) for x in part.split(",")] for part in row["confusion"].split(";")]
        return cls(start, name, [[x / sum(of_class) for x in of_class] for of_class in joint])

    def cells(self) -> Iterator[tuple[float, float, float | None, str]]:
        """Yield column, class, chance and words of each cell, and an empty column behind them."""
        for label, chances in enumerate(self.chances, 1):
            for guess, chance in enumerate(chances, 1):
                words = f"{self.name}, class {label}, guess {guess}"
                yield self.start + guess, label, chance, words
            yield self.start + len(chances) + 1, label, None, ""


def confusion_figure(state: PageSettings, points: Curves) -> Figure:
    """Draw P(guess | class) at the chosen α, a block of k × k cells for each estimator."""
    k = state.teacher.n_classes
    labels = tuple(float(c) for c in range(1, k + 1))
    blocks: list[_Block] = []
    for name, rows in points.items():
        if rows[0].get("confusion"):
            blocks.append(_Block.of((k + 1) * len(blocks), pic.label_of(name), rows[0]))
    line_height = 0.07 * k
    n_lines = 1
    if len(blocks) > 2:  # on one line their names would overlap
        n_lines = 2
    notes = []
    for number, block in enumerate(blocks):
        height = 0.48 - line_height * (number % n_lines)
        middle = block.start + (k + 1) / 2
        notes.append(pic.Note(middle, height, block.name, INK, "center bottom"))
    room = 0.08 * k + line_height * (n_lines - 1)
    columns = [block.start + label for block in blocks for label in labels]
    names = tuple(f"{c:g}" for c in labels)
    x = pic.Axis("guess", ticks=tuple(columns), words=names * len(blocks))
    y = pic.Axis("class", low=k + 0.5, high=0.5 - room, ticks=labels, words=names)
    title = f"chance of a guess given the class, at α = {state.alpha:.4g}"
    panel = pic.Panel(_cell_traces(blocks), x, y, notes=tuple(notes), title=title)
    return _figure(panel, state)


def _cell_traces(blocks: Sequence[_Block]) -> tuple[pic.Trace, ...]:
    """Return the trace of all cells; none where there is no block."""
    cells = [cell for block in blocks for cell in block.cells()][:-1]
    if not cells:
        return ()
    columns, classes, chances, words = zip(*cells, strict=True)
    trace = pic.Trace(
        columns,
        classes,
        kind="cells",
        colour=pic.COLOURS["cross-entropy"],
        customdata=tuple(zip(chances, words, strict=True)),
    )
    return (trace,)


def extrema_looks(state: PageSettings) -> dict[str, Look]:
    """Return words and symbol of each kind of extremum of the free entropy."""
    informed = "perfect learning"
    if state.noisy:
        informed = "reached from the teacher"
    unstable = pic.COLOURS["unstable"]
    return {
        "optimal": _extremum("best: Bayes-optimal", "star", pic.COLOURS["bayes"], 1.9),
        "amp": _extremum("reached by AMP", "circle", pic.COLOURS["amp"], 1.25),
        "informed": _extremum(informed, "diamond", pic.COLOURS["cross-entropy"], 1.4, hollow=True),
        "unstable": _extremum("barrier", "circle", unstable, 1.25, hollow=True),
        "metastable": _extremum("metastable", "square", unstable, 1.25, hollow=True),
    }


def _extremum(label: str, marker: str, colour: str, size: float, hollow: bool = False) -> Look:
    """Return the look of one kind of extremum."""
    return {"label": label, "marker": marker, "hollow": hollow, "colour": colour, "size": size}


def landscape_figure(state: PageSettings, found: Found | None, phase: str) -> Figure:
    """Draw the free entropy against the overlap at the chosen α, with its extrema.

    `found` has alpha, lists q (from 0) and free_entropy, and extrema, rows with q, free_entropy, ε,
    uncertainty and branch.
    """
    x = pic.Axis("overlap q", low=-0.03, high=1.03)
    y = pic.Axis("free entropy Φ")
    if found is None:
        return _figure(pic.Panel((), x, y), state)
    label = f"Φ at α = {found['alpha']:.4g}"
    hover = "<br>q %{x:.4f}<br>Φ %{y:.5f}"
    curve = pic.Trace(
        pic.numbers(found["q"]),
        pic.numbers(found["free_entropy"]),
        colour=INK,
        label=label,
        hover=hover,
    )
    looks = extrema_looks(state)
    points = [_extremum_trace(point, looks) for point in found["extrema"]]
    panel = pic.Panel((curve, *points), x, _entropy_axis(y, found), title=phase)
    return _figure(panel, state)


def _extremum_trace(point: Row, looks: Mapping[str, Look]) -> pic.Trace:
    """Return the symbol of one extremum."""
    return pic.Trace(
        (point["q"],),
        (point["free_entropy"],),
        kind="symbols",
        customdata=((point[ERROR], point["uncertainty"]),),
        hover=("<br>q %{x:.6f}<br>Φ %{y:.6f}<br>ε %{customdata[0]:.6g} ± %{customdata[1]:.1g}"),
        **looks[kind_of(point["branch"])],
    )


# The axis of Φ reaches below the maximum by this many times the height of the start, at least so
# far in Φ, and has this share of room at the depth, above and below.
DEPTH_IN_HEIGHTS = 3
LEAST_DEPTH = 0.02
ROOM_AT_DEPTH = 0.15
ROOM_ABOVE = 0.12
ROOM_BELOW = 0.08


def _entropy_axis(axis: pic.Axis, found: Found) -> pic.Axis:
    """Return the axis of Φ with all extrema in sight: a Gaussian prior sends Φ to −∞ at q = 1."""
    heights = [value for value in found["free_entropy"] if value is not None]
    start = found["free_entropy"][0]
    top = max(heights)
    deepest = min(point["free_entropy"] for point in found["extrema"])
    depth = max(DEPTH_IN_HEIGHTS * (top - start), top - deepest, LEAST_DEPTH)
    low = max(min(heights), top - (1 + ROOM_AT_DEPTH) * depth)
    height = top - low
    return replace(axis, low=low - ROOM_BELOW * height, high=top + ROOM_ABOVE * height)


def phase_words(state: PageSettings, limits: Found) -> str:
    """Say where the chosen α lies, in a few words."""
    if not state.equal_classes:
        return ""
    if not state.finite_prior:
        return "no transition: the error decays smoothly"
    if not limits:
        return ""
    if limits.get("alpha_it") is None:
        return "no transition at this noise"
    passed = [name for name in ("alpha_it", "alpha_algo") if state.alpha >= limits[name]]
    if state.noisy:
        return NOISY_PHASES[len(passed)]
    return PHASES[len(passed)]


ROOM_ACROSS = 0.02  # of the width, for half a symbol on either side


def _across(state: PageSettings, simulations: Sequence[Simulated]) -> pic.Axis:
    """Return the horizontal axis: the page's range, with room for symbols but none below 0."""
    seen = [row["alpha"] for run in simulations for row in run.rows]
    low = min([state.low, *seen])
    high = max([state.high, *seen])
    if not seen:
        return pic.Axis(ALPHA, state.scale, low, high)
    if state.scale == "log":
        room = (high / low) ** ROOM_ACROSS
        return pic.Axis(ALPHA, state.scale, low / room, high * room)
    room = ROOM_ACROSS * (high - low)
    return pic.Axis(ALPHA, state.scale, max(low - room, min(low, 0.0)), high + room)


def _vertical(label: str, state: PageSettings, traces: Sequence[pic.Trace] = ()) -> pic.Axis:
    """Return the vertical axis; a linear one ends where one of the traces would hide the others.

    As q of max-margin near α_s does. The trace in their middle, and those below, are seen whole.
    """
    if state.error_scale != "linear":
        return pic.Axis(label, state.error_scale)
    axis = pic.Axis(label, state.error_scale, 0.0)
    tops = sorted(max((y for y in trace.y if y > 0), default=0.0) for trace in traces)
    if not tops:
        return axis
    middle = tops[(len(tops) - 1) // 2]
    if middle == 0 or tops[-1] <= LEAST_CUT * middle:
        return axis
    high = float(f"{CUT * middle:.1g}")
    return replace(axis, high=high, label=f"{label}, cut at {high:g}")


def _figure(panel: pic.Panel, state: PageSettings) -> Figure:
    """Return the panel as plotly takes it; zooming survives new results, not a new problem."""
    figure = render_plotly(panel)
    kept = (state.teacher, state.low, state.high, state.scale, state.error_scale, state.shown)
    figure["layout"]["uirevision"] = str(kept)
    return figure


def _colours(curves: Curves, simulations: Sequence[Simulated]) -> dict[str, str]:
    """Return colours of estimators and branches: a line and its simulation have the same one."""
    return pic.colours_of([*curves, *(run.state.simulation for run in simulations), *pic.DASHES])


def _lines(curves: Curves, colours: dict[str, str]) -> Iterator[tuple[Look, list[Row]]]:
    """Yield the look and the rows of each line."""
    for name, rows in curves.items():
        for branch, part in _branches(rows).items():
            role = name
            if kind_of(branch) in pic.DASHES:  # 'amp', 'unstable', ... have a look of their own
                role = kind_of(branch)
            dash = pic.dash_of(role, mixed=len(curves) > 1)  # beside other estimators
            yield {"colour": colours[role], "dash": dash, "label": pic.label_of(role)}, part


def _branches(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Return the rows of each branch that is drawn; AMP's only where it differs from the best.

    While rows are still coming, one of the two may lack some α.
    """
    branches: dict[str, list[Row]] = {}
    for row in rows:
        branches.setdefault(row.get("branch") or "optimal", []).append(row)
    branches.pop("informed", None)
    best = {row["alpha"]: row for row in branches.get("optimal", [])}
    amp = [row for row in branches.get("amp", []) if row["alpha"] in best]
    if all(abs(row[ERROR] - best[row["alpha"]][ERROR]) < SAME_ERROR for row in amp):
        branches.pop("amp", None)
    return branches


def derived(rows: Sequence[Row], shown: str, class_index: int = 0) -> list[Row]:
    """Return the rows that have what the page asks for (of a class), in the column `shown`."""
    values = [(row, _value(row, shown, class_index)) for row in rows]
    return [{**row, "shown": value} for row, value in values if value is not None]


def _value(row: Row, shown: str, class_index: int) -> float | None:
    """Return what the page asks for, of one row."""
    value: float | None
    if shown == "correlation":
        m = row.get("m")
        q = row.get("q")
        if m is None or not q:
            return None
        return float(m / q**0.5)
    if shown == "clean-error":  # without noise the rule is the labels
        value = row.get("clean_error", row.get(ERROR))
        return value
    if shown == "recall":
        if not row.get("recall"):
            return None
        return float(row["recall"].split(",")[class_index])
    value = row.get(SHOWN[shown].column)
    return value


def without(state: PageSettings, curves: Curves, simulations: Sequence[Simulated]) -> str:
    """Say who has nothing of what is shown, and why; for simulations how far chance reaches."""
    shown = state.shown
    words = []
    if shown != "overlaps":
        words += [
            f"No {state.words('shown')} of {'; '.join(labels)}{reason}."
            for reason, labels in _lacking(shown, curves, simulations).items()
        ]
    tested_runs = [run for run in simulations if tested(run.state) is not None]
    if tested_runs and shown == "calibration":
        words.append(
            f"Symbols are counted on {TEST_SAMPLES:,} new samples: up to {CHANCE} may be chance."
        )
    return " ".join(words)


def _lacking(shown: str, curves: Curves, simulations: Sequence[Simulated]) -> dict[str, list[str]]:
    """Return the labels of those without the quantity, each once, by the reason."""
    no_probabilities = ""
    not_tested = ""
    if shown in SCORES:
        no_probabilities = " (no probabilities)"
        not_tested = " (started while another was shown: add again)"
    lacking: dict[str, list[str]] = {}

    def note(label: str, reason: str) -> None:
        """Note once that a curve lacks what is shown, and why."""
        labels = lacking.setdefault(reason, [])
        if label not in labels:
            labels.append(label)

    for name, rows in curves.items():
        if not derived(rows, shown):
            note(pic.label_of(name), no_probabilities)
    for run in simulations:
        if derived(run.rows, shown):
            continue
        if tested(run.state) is None:
            note(run.label, not_tested)
        else:
            note(run.label, no_probabilities)
    return lacking


def line(rows: Sequence[Row], column: str, symbol: str = "", **look: Any) -> pic.Trace:
    """Draw theory; its hover text has uncertainty, ridge and status."""
    value = symbol + "%{y:.6g}"
    if column == ERROR:
        value = "ε %{y:.6g} ± %{customdata[0]:.1g}"
    kind: pic.Kind = "line"
    if len(rows) == 1:
        kind = "symbols"
    return pic.Trace(
        pic.numbers(row.get("alpha") for row in rows),
        pic.numbers(row.get(column) for row in rows),
        kind=kind,
        hover=f"<br>α %{{x:.4g}}<br>{value}%{{customdata[2]}}<br>status %{{customdata[1]}}",
        customdata=tuple(
            (row.get("uncertainty") or 0.0, row.get("status", ""), _ridge_words(row))
            for row in rows
        ),
        **look,
    )


def _ridge_words(row: Row) -> str:
    """Return the ridge of a row as a line of hover text."""
    if row.get("ridge") is None:
        return ""
    return f"<br>λ {row['ridge']:.4g}"


def symbols(
    run: Simulated, column: str, colours: dict[str, str], symbol: str = "", **look: Any
) -> pic.Trace:
    """Draw simulations: means over runs; their hover text has how many."""
    means = average_instances(frame(run.rows)).sort_values("alpha")
    values = "%{y:.6g} %{customdata[0]}<br>runs %{customdata[1]}"
    look |= {
        "kind": "symbols",
        "colour": colours[run.state.simulation],
        "label": run.label,
        "marker": pic.MARKERS[run.number % len(pic.MARKERS)],
        "hover": f"<br>α %{{x:.4g}}<br>{symbol}{values}",
    }
    trace = pic.trace_of(means, "alpha", column, error_column(column), **look)
    spreads = [_spread_words(error) for error in trace.y_error]
    return replace(trace, customdata=tuple(zip(spreads, means["instances"].tolist(), strict=True)))


def _spread_words(error: float) -> str:
    """Return a standard error in words; NaN is that of one run."""
    if math.isnan(error):
        return "single run"
    return f"(standard error {error:.1g})"


def spectrum_words(name: str) -> str:
    """Describe the eigenvalues of a spectrum."""
    spectrum = as_spectrum(name)
    if spectrum.isotropic:
        return "every eigenvalue is 1"
    largest = spectrum.eigenvalues[0]
    least = spectrum.eigenvalues[-1]
    words = f"eigenvalues from {largest:.3g} down to {least:.3g}"
    if spectrum.rank < 1:
        words += f", {1 - spectrum.rank:.2g} of them 0"
    return words
