"""What is drawn on the page, each picture a function of rows."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from polyceptron.pictures import parts as pic
from polyceptron.pictures.plotly_figure import INK, render_plotly
from polyceptron.problem import as_spectrum
from polyceptron.report.explorer.page_tasks import TEST_SAMPLES, tested
from polyceptron.report.explorer.settings import SCORES, SHOWN, PageSettings
from polyceptron.rows import Row, average_instances, error_column, frame, kind_of

Figure = dict[str, Any]
Found = Mapping[str, Any]  # what a task has found
Curves = Mapping[str, Sequence[Row]]  # rows by estimator
BAND, QUIET, FAINT = "#f6e3b4", "#5c5c5c", "#9a9a9a"
ALPHA, ERROR = "sample complexity α = n/d", "generalisation_error"
LEAST_SEEN, CUT = 50.0, 20.0  # a line is seen up to a 50th of the axis, or others are cut
CHANCE = 0.015  # a calibration error of 0, counted in 15 bins on TEST_SAMPLES samples, at most
CLASS_DASHES: tuple[Any, ...] = ("solid", "dash", "dot", "dashdot")
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
        return f"{self.state.words('simulation')}, d = {self.state.dimension}"


def learning_figure(
    state: PageSettings, curves: Curves, limits: Found, simulations: Sequence[Simulated] = ()
) -> Figure:
    """Generalisation error against α; its floor, the transitions and α_s where there are any."""
    colours = _colours(curves, simulations)
    traces = [line(part, ERROR, **look) for look, part in _lines(curves, colours)]
    traces += [symbols(one, ERROR, colours) for one in simulations if one.rows]
    marks, shades = [pic.Mark(state.alpha, colour=FAINT)], list[pic.Shade]()
    if (it := limits.get("alpha_it")) is not None:  # both transitions, and the hard phase between
        algo = limits["alpha_algo"]
        marks += [
            pic.Mark(value, f"{name} = {value:.4g}", side, "dash", QUIET)
            for value, name, side in ((it, "α_{IT}", "right"), (algo, "α_{algo}", "left"))
            if state.low <= value <= state.high
        ]
        if it < state.high and algo > state.low:
            low, high = max(it, state.low), min(algo, state.high)
            shades.append(pic.Shade(low, high, BAND, "hard phase"))
    if (floor := limits.get("floor")) is not None:
        who = "the teacher itself" if state.equal_classes else "the best rule"
        look: Any = {"colour": FAINT, "dash": "dot", "label": f"floor: {who}"}
        across = (state.low, state.high)
        traces.append(pic.Trace(across, (floor, floor), hover=f"<br>ε {floor:.6g}", **look))
    end = limits.get("alpha_s")
    if end is not None and state.low <= end <= state.high:
        marks.append(pic.Mark(end, f"α_{{s}} = {end:.4g}", "right", "dot", QUIET))
    # Short enough for a phone.
    y = _vertical("error ε, labels as drawn" if state.noisy else "generalisation error ε", state)
    x = _across(state, simulations)
    return _figure(pic.Panel(tuple(traces), x, y, tuple(marks), tuple(shades)), state)


def order_figure(
    state: PageSettings, curves: Curves, simulations: Sequence[Simulated] = ()
) -> Figure:
    """Order parameters (or what the page asks for) against α."""
    title, colours = state.words("shown"), _colours(curves, simulations)
    runs, traces = [one for one in simulations if one.rows], list[pic.Trace]()
    if state.shown == "overlaps":
        title = "q (solid), m (dash-dotted)"
        for look, part in _lines(curves, colours):
            same = all(row["m"] == row["q"] for row in part)
            traces.append(line(part, "q", "q = m " if same else "q ", **look))
            if not same:
                look |= {"dash": "dashdot", "in_legend": False}
                traces.append(line(part, "m", "m ", **look))
        for one in runs:
            m = symbols(one, "m", colours, "m ", hollow=True, in_legend=False)
            traces += [symbols(one, "q", colours, "q "), m]
    else:
        each = state.shown == "recall"
        for c in range(state.teacher.n_classes if each else 1):
            name = f", class {c + 1}" if each else ""
            for look, part in _lines(curves, colours):
                look |= {"dash": CLASS_DASHES[c % 4]} if each else {}
                look["label"] += name
                if known := derived(part, state.shown, c):
                    traces.append(line(known, "shown", **look))
            for one in runs:
                if known := derived(one.rows, state.shown, c):
                    found = symbols(one._replace(rows=known), "shown", colours)
                    own: Any = {"marker": pic.MARKERS[c % len(pic.MARKERS)]} if each else {}
                    traces.append(replace(found, label=one.label + name, **own))
    x, y = _across(state, simulations), _vertical(title, state, traces)
    return _figure(pic.Panel(tuple(traces), x, y), state)


def confusion_figure(state: PageSettings, points: Curves) -> Figure:
    """P(guess | class) at the chosen α, a block of k × k cells for each estimator."""
    k = state.teacher.n_classes
    labels = tuple(float(c) for c in range(1, k + 1))
    cells: list[tuple[float, float, float | None, str]] = []
    notes, columns = list[pic.Note](), list[float]()
    for name, (row, *_) in points.items():
        if not row.get("confusion"):
            continue
        start = (k + 1) * len(notes)
        joint = [[float(x) for x in part.split(",")] for part in row["confusion"].split(";")]
        for i, chances in zip(labels, joint, strict=True):
            known = [chance / sum(chances) for chance in chances]
            told = f"{pic.label_of(name)}, class {i:g}, guess "
            shown = zip(labels, known, strict=True)
            cells += [(start + j, i, chance, f"{told}{j:g}") for j, chance in shown]
            cells.append((start + k + 1, i, None, ""))  # between two blocks
        columns += [start + j for j in labels]
        notes.append(pic.Note(start + (k + 1) / 2, 0.48, pic.label_of(name), INK, "center bottom"))
    names = tuple(f"{c:g}" for c in labels)
    x = pic.Axis("guess", ticks=tuple(columns), words=names * len(notes))
    y = pic.Axis("class", low=k + 0.5, high=0.5 - 0.08 * k, ticks=labels, words=names)
    at, up, values, words = zip(*cells[:-1], strict=True) if cells else ((), (), (), ())
    trace = pic.Trace(
        at,
        up,
        kind="cells",
        colour=pic.COLOURS["cross-entropy"],
        customdata=tuple(zip(values, words, strict=True)),
    )
    title = f"chance of a guess given the class, at α = {state.alpha:.4g}"
    panel = pic.Panel((trace,) if cells else (), x, y, notes=tuple(notes), title=title)
    return _figure(panel, state)


def extrema_looks(state: PageSettings) -> dict[str, Any]:
    """Words and symbol of each kind of extremum."""
    informed = "reached from the teacher" if state.noisy else "perfect learning"
    looks = {
        "optimal": ("best: Bayes-optimal", "star", False, pic.COLOURS["bayes"], 1.9),
        "amp": ("reached by AMP", "circle", False, pic.COLOURS["amp"], 1.25),
        "informed": (informed, "diamond", True, pic.COLOURS["cross-entropy"], 1.4),
        "unstable": ("barrier", "circle", True, pic.COLOURS["unstable"], 1.25),
        "metastable": ("metastable", "square", True, pic.COLOURS["unstable"], 1.25),
    }
    names = ("label", "marker", "hollow", "colour", "size")
    return {branch: dict(zip(names, look, strict=True)) for branch, look in looks.items()}


def landscape_figure(state: PageSettings, found: Found | None, phase: str) -> Figure:
    """Free entropy against the overlap at the chosen α, with its extrema."""
    x, y = pic.Axis("overlap q", low=-0.03, high=1.03), pic.Axis("free entropy Φ")
    if found is None:
        return _figure(pic.Panel((), x, y), state)
    label, hover = f"Φ at α = {found['alpha']:.4g}", "<br>q %{x:.4f}<br>Φ %{y:.5f}"
    traces = [pic.trace_of(found, "q", "free_entropy", colour=INK, label=label, hover=hover)]
    hover = "<br>q %{x:.6f}<br>Φ %{y:.6f}<br>ε %{customdata[0]:.6g} ± %{customdata[1]:.1g}"
    for point in found["extrema"]:
        look = extrema_looks(state)[kind_of(point["branch"])]
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


def phase_words(state: PageSettings, limits: Found) -> str:
    """Where the chosen α lies, in a few words."""
    if not state.equal_classes:
        return ""
    if not state.finite_prior:
        return "no transition: the error decays smoothly"
    if limits.get("alpha_it") is None:
        return "no transition at this noise: the error decays smoothly" if limits else ""
    place = (state.alpha >= limits["alpha_it"]) + (state.alpha >= limits["alpha_algo"])
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

    As q of max-margin near α_s does. The trace in their middle, and those below, are seen whole.
    """
    axis = pic.Axis(label, state.error_scale, 0.0 if state.error_scale == "linear" else None)
    tops = sorted(max((y for y in trace.y if y > 0), default=0.0) for trace in traces)
    middle = tops[(len(tops) - 1) // 2] if tops else 0.0
    if axis.scale != "linear" or not tops or tops[-1] <= LEAST_SEEN * middle or middle == 0:
        return axis
    high = float(f"{CUT * middle:.1g}")
    return replace(axis, high=high, label=f"{label}, cut at {high:g}")


def _figure(panel: pic.Panel, state: PageSettings) -> Figure:
    figure = render_plotly(panel)
    # Zooming survives new results, not a new problem.
    kept = (state.teacher, state.low, state.high, state.scale, state.error_scale, state.shown)
    figure["layout"]["uirevision"] = str(kept)
    return figure


def _colours(curves: Curves, simulations: Sequence[Simulated]) -> dict[str, str]:
    """Of estimators and branches: a line and its simulation have the same one."""
    return pic.colours_of([*curves, *(one.state.simulation for one in simulations), *pic.DASHES])


def _lines(curves: Curves, colours: dict[str, str]) -> list[tuple[dict[str, Any], list[Row]]]:
    """The look and the rows of each line; AMP's only where it differs from the optimal one."""
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
            role = kind_of(branch) if kind_of(branch) in pic.DASHES else name
            look = {"colour": colours[role], "dash": pic.dash_of(role, len(curves) > 1)}
            found.append((look | {"label": pic.label_of(role)}, part))
    return found


def derived(rows: Sequence[Row], shown: str, label: int = 0) -> list[Row]:
    """The rows that have what the page asks for (of a class), with it in the column `shown`."""

    def value(row: Row) -> Any:
        if shown == "correlation":
            m, q = row.get("m"), row.get("q")
            return m / q**0.5 if m is not None and q else None
        if shown == "clean-error":  # without noise the rule is the labels
            return row.get("clean_error", row.get(ERROR))
        if shown == "recall":
            return float(row["recall"].split(",")[label]) if row.get("recall") else None
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
        many = f"{TEST_SAMPLES:,} new samples"
        words.append(f"Symbols are counted on {many}: up to {CHANCE} may be chance.")
    return " ".join(words)


def line(rows: Sequence[Row], column: str, symbol: str = "", **look: Any) -> pic.Trace:
    """Theory; its hover text has uncertainty, ridge and status."""
    value = symbol + "%{y:.6g}" if column != ERROR else "ε %{y:.6g} ± %{customdata[0]:.1g}"
    hover = f"<br>α %{{x:.4g}}<br>{value}%{{customdata[2]}}<br>status %{{customdata[1]}}"
    ridges = ["" if row.get("ridge") is None else f"<br>λ {row['ridge']:.4g}" for row in rows]
    unsure = [row.get("uncertainty") or 0.0 for row in rows]
    x, y = (pic.numbers(row.get(name) for row in rows) for name in ("alpha", column))
    statuses = [row.get("status", "") for row in rows]
    look["customdata"] = tuple(zip(unsure, statuses, ridges, strict=True))
    return pic.Trace(x, y, kind="line" if len(rows) > 1 else "symbols", hover=hover, **look)


def symbols(
    one: Simulated, column: str, colours: dict[str, str], symbol: str = "", **look: Any
) -> pic.Trace:
    """Simulations: means over runs; their hover text has how many."""
    means, name = average_instances(frame(one.rows)).sort_values("alpha"), one.state.simulation
    hover = "%{y:.6g} %{customdata[0]}<br>runs %{customdata[1]}"
    look |= {
        "kind": "symbols",
        "colour": colours[name],
        "label": one.label,
        "marker": pic.MARKERS[one.number % len(pic.MARKERS)],
        "hover": f"<br>α %{{x:.4g}}<br>{symbol}{hover}",
    }
    trace = pic.trace_of(means, "alpha", column, error_column(column), **look)
    spread = ("single run" if error != error else f"± {error:.1g}" for error in trace.y_error)
    return replace(trace, customdata=tuple(zip(spread, means["instances"].tolist(), strict=True)))


def spectrum_words(name: str) -> str:
    """The eigenvalues in words."""
    spectrum, s = as_spectrum(name), as_spectrum(name).eigenvalues
    if spectrum.isotropic:
        return "every eigenvalue is 1"
    rest = "" if spectrum.rank == 1 else f", {1 - spectrum.rank:.2g} of them 0"
    return f"eigenvalues from {s[0]:.3g} down to {s[-1]:.3g}{rest}"
