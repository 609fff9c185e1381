"""What is drawn on the page, each picture a function of rows, and what can be taken away.

Two pictures come with the page itself, as `data:` addresses: the first curves (`preview`), seen
behind the live figure while the browser is still loading the plotting library, and the spectrum of
the features, a few lines of SVG, so that a page needs no drawing library to be served.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from polyceptron.model import Estimator, as_spectrum
from polyceptron.report.explorer.page_tasks import TEST_SAMPLES, Row, tested, tolerance
from polyceptron.report.explorer.settings import NO_NOISE, RIDGE, SCORES, SHOWN, PageSettings
from polyceptron.report.pictures import parts as pic
from polyceptron.report.pictures.curves import curves_picture
from polyceptron.report.pictures.matplotlib_figure import svg_text
from polyceptron.report.pictures.plotly_figure import INK, render_plotly
from polyceptron.rows import average_instances, error_column, frame

Figure = dict[str, Any]
Found = Mapping[str, Any]  # what a task has found
Curves = Mapping[str, Sequence[Row]]  # rows by estimator
BAND, QUIET, FAINT = "#f6e3b4", "#5c5c5c", "#9a9a9a"
ALPHA, ERROR = "sample complexity α = n/d", "generalisation_error"
LEAST_SEEN, CUT = 50.0, 20.0  # a line is seen up to a 50th of the axis, or others are cut
CHANCE = 0.015  # a calibration error of 0, counted in 15 bins on TEST_SAMPLES samples, at most
WIDTH, HEIGHT, MARGIN, STEPS = 220, 64, 4, 120  # of the picture of a spectrum
PHASES = (
    "perfect learning is impossible here",
    "hard phase: perfect learning is best, AMP stays behind",
    "easy phase: AMP learns perfectly",
)
NOISY_PHASES = (
    "little is learnt: the best error has not jumped down yet",
    "hard phase: the best error is low, AMP stays behind",
    "easy phase: AMP reaches the best error",
)


class Simulated(NamedTuple):
    """Rows of one simulation, and its number among those of the page."""

    state: PageSettings
    rows: Sequence[Row]
    number: int

    @property
    def label(self) -> str:
        """The name under which they are drawn."""
        return f"{pic.label_of(self.state.simulation)}, d = {self.state.dimension}"


def learning_figure(
    state: PageSettings,
    curves: Curves,
    transitions: Found | None,
    simulations: Sequence[Simulated] = (),
    limits: Found | None = None,
) -> Figure:
    """Generalisation error against α; with noisy labels its floor, and α_s."""
    traces = [line(part, ERROR, **look) for look, part in _lines(curves)]
    traces += [symbols(one, ERROR) for one in simulations if one.rows]
    marks, shades = _transitions(state, transitions)
    marks = [pic.Mark(state.alpha, colour=FAINT), *marks]
    if limits is not None:
        floor, end = limits["floor"], limits["alpha_s"]
        look: Any = {"colour": FAINT, "dash": "dot", "label": "floor: the teacher itself"}
        across = (state.low, state.high)
        traces.append(pic.Trace(across, (floor, floor), hover=f"<br>ε {floor:.6g}", **look))
        if state.low <= end <= state.high:
            marks.append(pic.Mark(end, f"α_{{s}} = {end:.4g}", "right", "dot", QUIET))
    # Short enough for a phone.
    y = _vertical("error ε, labels as drawn" if state.noisy else "generalisation error ε", state)
    x = _across(state, simulations)
    return _figure(pic.Panel(tuple(traces), x, y, tuple(marks), shades), state)


def order_figure(
    state: PageSettings, curves: Curves, simulations: Sequence[Simulated] = ()
) -> Figure:
    """Order parameters (or what the page asks for) against α."""
    if state.shown == "overlaps":
        title, traces = "q (solid), m (dash-dotted)", list[pic.Trace]()
        for look, part in _lines(curves):
            same = all(row["m"] == row["q"] for row in part)
            traces.append(line(part, "q", "q = m " if same else "q ", **look))
            if not same:
                look |= {"dash": "dashdot", "in_legend": False}
                traces.append(line(part, "m", "m ", **look))
        for one in (one for one in simulations if one.rows):
            m = symbols(one, "m", "m ", hollow=True, in_legend=False)
            traces += [symbols(one, "q", "q "), m]
    else:
        title = state.words("shown")
        parts = [(look, derived(part, state.shown)) for look, part in _lines(curves)]
        traces = [line(part, "shown", **look) for look, part in parts if part]
        runs = [one._replace(rows=derived(one.rows, state.shown)) for one in simulations]
        traces += [symbols(one, "shown") for one in runs if one.rows]
    x, y = _across(state, simulations), _vertical(title, state, traces)
    return _figure(pic.Panel(tuple(traces), x, y), state)


def landscape_figure(state: PageSettings, found: Found | None, phase: str) -> Figure:
    """Free entropy against the overlap at the chosen α, with its extrema."""
    x, y = pic.Axis("overlap q", low=-0.03, high=1.03), pic.Axis("free entropy Φ")
    if found is None:
        return _figure(pic.Panel((), x, y), state)
    label, hover = f"Φ at α = {found['alpha']:.4g}", "<br>q %{x:.4f}<br>Φ %{y:.5f}"
    traces = [pic.trace_of(found, "q", "free_entropy", colour=INK, label=label, hover=hover)]
    informed = "reached from the teacher" if state.noisy else "perfect learning"
    looks = {  # label, marker, whether it is hollow, colour, size
        "optimal": ("best: Bayes-optimal", "star", False, pic.COLOURS["bayes"], 1.9),
        "amp": ("reached by AMP", "circle", False, pic.COLOURS["amp"], 1.25),
        "informed": (informed, "diamond", True, pic.COLOURS["cross-entropy"], 1.4),
        "unstable": ("barrier", "circle", True, pic.COLOURS["unstable"], 1.25),
    }
    hover = "<br>q %{x:.6f}<br>Φ %{y:.6f}<br>ε %{customdata[0]:.6g} ± %{customdata[1]:.1g}"
    for point in found["extrema"]:
        names = ("label", "marker", "hollow", "colour", "size")
        look: Any = dict(zip(names, looks[point["branch"]], strict=True))
        known = ((point[ERROR], point["uncertainty"]),)
        place = (point["q"],), (point["free_entropy"],)
        traces.append(pic.Trace(*place, kind="symbols", customdata=known, hover=hover, **look))
    heights = [value for value in found["free_entropy"] if value is not None]
    start, top = found["free_entropy"][0], max(heights)
    # A Gaussian prior sends Φ to −∞ at q = 1: keep the extrema in sight.
    depth = max(3 * (top - start), top - min(p["free_entropy"] for p in found["extrema"]), 0.02)
    low = max(min(heights), top - 1.15 * depth)
    y = replace(y, low=low - 0.08 * (top - low), high=top + 0.12 * (top - low))
    return _figure(pic.Panel(tuple(traces), x, y, title=phase), state)


def phase_words(state: PageSettings, transitions: Found | None) -> str:
    """Where the chosen α lies, in a few words."""
    if not state.finite_prior:
        return "no transition: the error decays smoothly"
    if not transitions:
        return ""
    if transitions.get("alpha_it") is None:
        return "no transition at this noise: the error decays smoothly" if state.noisy else ""
    place = (state.alpha >= transitions["alpha_it"]) + (state.alpha >= transitions["alpha_algo"])
    return (NOISY_PHASES if state.noisy else PHASES)[place]


def _across(state: PageSettings, simulations: Sequence[Simulated]) -> pic.Axis:
    """The horizontal axis: the page's range, with room for whole symbols but none below 0."""
    seen = [row["alpha"] for one in simulations for row in one.rows]
    low, high = min([state.low, *seen]), max([state.high, *seen])
    if seen and state.scale == "log":
        low, high = low * (low / high) ** 0.02, high * (high / low) ** 0.02
    elif seen:
        room = 0.02 * (high - low)
        low, high = max(low - room, min(low, 0.0)), high + room
    return pic.Axis(ALPHA, state.scale, low, high)


def _vertical(label: str, state: PageSettings, traces: Sequence[pic.Trace] = ()) -> pic.Axis:
    """The vertical axis; a linear one ends where one of the traces would hide the others.

    As q of max-margin near α_s does. The others are judged by the one in their middle, so that at
    least half of them are seen whole.
    """
    axis = pic.Axis(label, state.error_scale, 0.0 if state.error_scale == "linear" else None)
    tops = sorted(max((y for y in trace.y if y > 0), default=0.0) for trace in traces)
    middle = tops[(len(tops) - 1) // 2] if tops else 0.0
    if axis.scale != "linear" or not tops or tops[-1] <= LEAST_SEEN * middle or middle == 0:
        return axis
    high = float(f"{CUT * middle:.1g}")
    return replace(axis, high=high, label=f"{label}, cut at {high:g}")


def _transitions(
    state: PageSettings, transitions: Found | None
) -> tuple[list[pic.Mark], tuple[pic.Shade, ...]]:
    """Verticals at the transitions with their names, and the hard phase between."""
    if not transitions or transitions.get("alpha_it") is None:
        return [], ()
    it, algo = transitions["alpha_it"], transitions["alpha_algo"]
    hard = pic.Shade(max(it, state.low), min(algo, state.high), BAND)
    marks = [
        pic.Mark(value, f"{name} = {value:.4g}", side, "dash", QUIET)
        for value, name, side in ((it, "α_{IT}", "right"), (algo, "α_{algo}", "left"))
        if state.low <= value <= state.high
    ]
    return marks, (hard,) if it < state.high and algo > state.low else ()


def _figure(panel: pic.Panel, state: PageSettings) -> Figure:
    figure = render_plotly(panel)
    # Zooming survives new results, not a new problem.
    figure["layout"]["uirevision"] = (
        f"{state.model}{state.k}{state.prior}{state.noise_name}{state.features}{state.low}"
        f"{state.high}{state.scale}{state.error_scale}{state.shown}"
    )
    return figure


def _lines(curves: Curves) -> list[tuple[dict[str, Any], list[Row]]]:
    """The look and the rows of each line: one for each branch that is drawn.

    AMP's only where it differs from the optimal one.
    """
    colours = pic.colours_of([*curves, *pic.DASHES])
    found = []
    for name, rows in curves.items():
        drawn: dict[str, list[Row]] = {}
        for row in rows:
            drawn.setdefault(row.get("branch") or "optimal", []).append(row)
        pairs = zip(drawn.get("amp", []), drawn.get("optimal", []), strict=False)
        if all(abs(amp[ERROR] - best[ERROR]) < 1e-9 for amp, best in pairs):
            drawn.pop("amp", None)
        drawn.pop("informed", None)
        for branch, part in drawn.items():
            role = branch if branch in pic.DASHES else name
            look = {"colour": colours[role], "dash": pic.DASHES.get(role, "solid")}
            found.append((look | {"label": pic.label_of(role)}, part))
    return found


def derived(rows: Sequence[Row], shown: str) -> list[Row]:
    """The rows that have what the page asks for, with it in the column `shown`."""

    def value(row: Row) -> Any:
        if shown == "correlation":
            m, q = row.get("m"), row.get("q")
            return m / q**0.5 if m is not None and q else None
        if shown == "clean-error":  # without noise the rule is the labels
            return row.get("clean_error", row.get(ERROR))
        return row.get(SHOWN[shown][1])

    found = [{**row, "shown": value(row)} for row in rows]
    return [row for row in found if row["shown"] is not None]


def without(state: PageSettings, curves: Curves, simulations: Sequence[Simulated]) -> str:
    """Who has nothing of what is shown, and why; for simulations how far chance reaches."""
    shown, lacking = state.shown, dict[str, list[str]]()
    known = [(pic.label_of(name), rows, True) for name, rows in curves.items()]
    known += [(one.label, one.rows, tested(one.state) is not None) for one in simulations]
    for label, rows, scored in known:
        if shown != "overlaps" and not derived(rows, shown):
            why = "no probabilities" if scored else "started while another was shown: add again"
            lacking.setdefault(f" ({why})" * (shown in SCORES), []).append(label)
    words = [
        f"No {state.words('shown')} of {'; '.join(dict.fromkeys(labels))}{why}."
        for why, labels in lacking.items()
    ]
    if any(scored for _, _, scored in known[len(curves) :]) and shown == "calibration":
        words.append(
            f"Symbols are counted on {TEST_SAMPLES:,} new samples: up to {CHANCE} may be chance."
        )
    return " ".join(words)


def line(rows: Sequence[Row], column: str, symbol: str = "", **look: Any) -> pic.Trace:
    """Theory; its hover text has uncertainty, ridge and status."""
    value = symbol + "%{y:.6g}" if column != ERROR else "ε %{y:.6g} ± %{customdata[0]:.1g}"
    hover = f"<br>α %{{x:.4g}}<br>{value}%{{customdata[2]}}<br>status %{{customdata[1]}}"
    ridges = ["" if row.get("ridge") is None else f"<br>λ {row['ridge']:.4g}" for row in rows]
    known = [(row.get("uncertainty") or 0.0, row.get("status", "")) for row in rows]
    x, y = (pic.numbers(row.get(name) for row in rows) for name in ("alpha", column))
    look["customdata"] = tuple((*one, ridge) for one, ridge in zip(known, ridges, strict=True))
    return pic.Trace(x, y, kind="line" if len(rows) > 1 else "symbols", hover=hover, **look)


def symbols(one: Simulated, column: str, symbol: str = "", **look: Any) -> pic.Trace:
    """Simulations: means over runs; their hover text has how many."""
    means, name = average_instances(frame(one.rows)).sort_values("alpha"), one.state.simulation
    hover = "%{y:.6g} %{customdata[0]}<br>runs %{customdata[1]}"
    look |= {
        "kind": "symbols", "colour": pic.colours_of([name])[name], "label": one.label,
        "marker": pic.MARKERS[one.number % len(pic.MARKERS)],
        "hover": f"<br>α %{{x:.4g}}<br>{symbol}{hover}",
    }  # fmt: skip
    trace = pic.trace_of(means, "alpha", column, error_column(column), **look)
    spread = ("single run" if error != error else f"± {error:.1g}" for error in trace.y_error)
    return replace(trace, customdata=tuple(zip(spread, means["instances"].tolist(), strict=True)))


def preview(curves: Curves) -> str:
    """The learning curves as a picture."""
    rows = [row for some in curves.values() for row in some if row.get("branch") != "informed"]
    return _address(svg_text(replace(curves_picture(frame(rows)), width=9.0, height=4.6)))


def _address(svg: str) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()


def spectrum_picture(name: str) -> tuple[str, str]:
    """Eigenvalues, the largest first, and the same in words, for its caption."""
    spectrum = as_spectrum(name)
    s, _ = spectrum.at(STEPS)
    heights = np.log(s[s > 0])
    span = float(np.ptp(heights))
    heights = (heights - heights.min()) / span if span > 0 else np.full(len(heights), 0.5)
    x = np.repeat(np.arange(len(heights) + 1) / STEPS, 2)[1:-1]  # a step for each
    points = " ".join(
        f"{MARGIN + a * (WIDTH - 2 * MARGIN):.1f},{HEIGHT - MARGIN - b * (HEIGHT - 2 * MARGIN):.1f}"
        for a, b in zip(x, np.repeat(heights, 2), strict=True)
    )
    picture = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}"><polyline points="{points}" fill="none" '
        'stroke="#0072b2" stroke-width="1.5"/></svg>'
    )
    words, s = "every eigenvalue is 1", spectrum.eigenvalues
    if not spectrum.isotropic:
        rest = "" if spectrum.rank == 1 else f", {1 - spectrum.rank:.2g} of them 0"
        words = f"eigenvalues from {s[0]:.3g} down to {s[-1]:.3g} (logarithmic){rest}"
    return _address(picture), words


_DRAW = """
curves = pd.concat(tables)
shown = pd.concat([curves, *map(pd.DataFrame, simulations.values())], ignore_index=True)
shown = shown[~shown.filter(["branch"]).eq("informed").any(axis=1)]
size = (6.4 * len(columns), 4.8)
figure, axes = plt.subplots(1, len(columns), squeeze=False, figsize=size)
for ax, column in zip(axes[0], columns):
    if column in shown and shown[column].notna().any():
        pc.LearningCurve(shown).plot(ax, y=column)
"""


def to_csv(rows: Iterable[Row]) -> str:
    """The rows as CSV, one line each, with the columns that at least one of them has."""
    return str(frame(rows).to_csv(index=False))


def caption(settings: PageSettings) -> str:
    """The problem in a line, for a picture that leaves the page."""
    what = "perceptron" if settings.model == "perceptron" else f"k = {settings.k}"
    parts = [what, settings.words("prior")]
    if settings.noise != NO_NOISE:
        parts.append(f"{settings.words('noise')}, {settings.strength_words}")
    if settings.correlated:
        parts.append(f"features {settings.spectrum}")
    if any(settings.estimator(name).takes_ridge for name in settings.estimators):
        optimal = settings.ridge_rule == "optimal"
        words = "optimal ridge λ" if optimal else f"ridge λ = {settings.ridge:.4g}"
        parts.append(words if settings.penalty == RIDGE else settings.penalty_name)
    return ", ".join(parts)


def python_lines(settings: PageSettings, simulations: Sequence[PageSettings] = ()) -> str:
    """A script that gives the same curves, the same runs of the simulations shown, and draws them.

    It leaves `curves`, a table, and `simulations`, rows by name.
    """
    k, scores = settings.teacher.n_classes, settings.shown in SCORES
    students = [settings.estimator(name) for name in settings.estimators]
    branches = any(one.branches for one in students)
    columns = ["generalisation_error", *filter(None, [SHOWN[settings.shown][1]])]
    lines = ["import matplotlib.pyplot as plt", "import numpy as np", "import pandas as pd", ""]
    lines.append("import polyceptron as pc")
    if names := ["curve_rows"] * scores + ["fold_grid"] * branches:
        lines.append(f"from polyceptron.theory.curve import {', '.join(names)}")
    if settings.noisy:
        lines.append("from polyceptron.theory.generalisation import error_floor")
    lines += [
        "",
        f"teacher = {_teacher(settings)}",
        f"alpha = {_alpha(settings, settings.points)}",
        f"columns = {json.dumps(columns)}  # what is drawn",
        "tables = []",
    ]
    if branches:  # close together where a curve turns back or jumps
        lines.append("fine = sorted([*alpha, *fold_grid(teacher, alpha)])")
    for one in students:
        at = 'fine, branch="all"' if one.branches else "alpha"
        asked = f"teacher, {_estimator(one)}, {at}, tol={tolerance(k)}"
        table = f"pc.learning_curve({asked}).frame"
        if scores:  # only the theory's own rows have them
            table = f"pd.DataFrame(curve_rows({asked}, scores=True))"
        lines.append(f"tables.append({table})")
    lines.append("simulations = {}")
    for number, simulation in enumerate(simulations, start=1):
        lines += ["", *_simulation(simulation, f"{simulation.simulation} {number}")]
    return "\n".join([*lines, *_DRAW.splitlines(), *_axes(settings)]) + "\n"


def _axes(settings: PageSettings) -> list[str]:
    """Ranges and scales of the axes, and what is marked on the first."""
    lines = [
        f'    ax.set(xlim=({settings.low!r}, {settings.high!r}), xscale="{settings.scale}", '
        f'yscale="{settings.error_scale}")',
        "ax = axes[0, 0]",
    ]
    if settings.noisy:
        lines += [
            "floor = error_floor(teacher.channel, teacher.n_classes)  # the error of the teacher",
            'ax.axhline(floor, color="grey", linestyle=":")',
            "separable = pc.separability(teacher).alpha_s  # up to where labels can be separated",
            f"if {settings.low!r} <= separable <= {settings.high!r}:",
            '    ax.axvline(separable, color="grey", linestyle=":")',
        ]
    if settings.finite_prior:
        tol = ", tol=0.01" if settings.teacher.n_classes > 3 else ""
        lines += [
            f"found = pc.transitions(teacher{tol})",
            "for value in (found.alpha_it, found.alpha_algo):",
            "    if value is not None:",
            '        ax.axvline(value, color="grey", linestyle="--")',
        ]
    return [
        *lines,
        f'ax.set_title("{caption(settings)}")',
        'figure.savefig("curves.png", dpi=200)',
        'curves.to_csv("curves.csv", index=False)',
    ]


def _teacher(settings: PageSettings) -> str:
    words = [] if settings.model == "perceptron" else [str(settings.k)]
    words += [f'"{settings.prior}"']
    words += [f'"{settings.noise_name}"'] if settings.noise != NO_NOISE else []
    words += [f'features="{settings.spectrum}"'] if settings.correlated else []
    return f"pc.{type(settings.teacher).__name__}({', '.join(words)})"


def _alpha(settings: PageSettings, count: int) -> str:
    if count == 1:
        return f"np.array([{settings.alpha!r}])"
    space = "geomspace" if settings.scale == "log" else "linspace"
    return f"np.{space}({settings.low!r}, {settings.high!r}, {count})"


def _estimator(one: Estimator, ridge: str = "") -> str:
    """How it is written: its class, with its name and ridge or penalty if it has any."""
    chosen = {name: value for name, value in one.columns.items() if name != "estimator"}
    words = [f'"{one.name}"'] if chosen else []
    if one.takes_ridge:
        words += [f"{name}={ridge or json.dumps(value)}" for name, value in chosen.items()]
    return f"pc.{type(one).__name__}({', '.join(words)})"


def _simulation(settings: PageSettings, name: str) -> list[str]:
    """Lines that run one simulation of the page; its rows go under `name`."""
    student = settings.student
    seed = (f"{settings.seed} + " if settings.seed else "") + f"i * {settings.runs} + j"
    tests = f", test_samples={tested(settings)}" if tested(settings) else ""
    best, ridge = [], ""
    if student.takes_ridge and settings.ridge_rule == "optimal":
        within = tolerance(settings.teacher.n_classes)
        best = [f'    ridge = pc.optimal_ridge(chosen, "{student.name}", float(a), {within})']
        ridge = "ridge"
    return [
        f"chosen = {_teacher(settings)}",
        f'simulations["{name}"] = rows = []',
        f"for i, a in enumerate({_alpha(settings, settings.places)}):",
        *best,
        f"    student = {_estimator(student, ridge)}",
        f"    for j in range({settings.runs}):",
        f"        seed = {seed}",
        f"        rows += student.simulate(chosen, float(a), {settings.dimension}, seed{tests})",
    ]
