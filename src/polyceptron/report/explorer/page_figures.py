"""The explorer's pictures, each a function of rows, as figures for the page.

Theory is drawn as lines and simulations as symbols with standard errors, in the colours of the
paper's figures; transitions are labelled verticals and the hard phase is a band between them.

Pictures that come with the page itself, as `data:` addresses.

The first curves are seen while the browser is still loading the plotting library: drawn as every
learning curve, behind the live figure, which covers them as soon as it can be drawn. The spectrum
of the features is a few lines of SVG, so that a page needs no drawing library to be served.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from polyceptron.model import Spectrum, as_spectrum
from polyceptron.report.explorer.curve_tasks import Row
from polyceptron.report.explorer.settings import PageSettings, words_for
from polyceptron.report.explorer.traces import Simulated, branches, derived, line, symbols
from polyceptron.report.pictures import curves_picture
from polyceptron.report.pictures.matplotlib_figure import svg_text
from polyceptron.report.pictures.parts import Axis, Mark, Panel, Picture, Shade, Trace, numbers
from polyceptron.report.pictures.plotly_figure import INK, render_plotly
from polyceptron.report.pictures.style import COLOURS, DASHES, colours_of, label_of
from polyceptron.rows import frame

Figure = dict[str, Any]
BAND, QUIET, FAINT = "#f6e3b4", "#5c5c5c", "#9a9a9a"
ALPHA = "sample complexity α = n/d"
LEAST_SEEN, CUT = 50.0, 20.0  # a line is seen up to a 50th of the axis, or others are cut


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


def learning_figure(
    state: PageSettings,
    curves: Mapping[str, Sequence[Row]],
    transitions: Mapping[str, Any] | None,
    simulations: Sequence[Simulated] = (),
    limits: Mapping[str, Any] | None = None,
) -> Figure:
    """Generalisation error against α; with noisy labels its floor, and α_s."""
    traces = [
        line(part, "generalisation_error", *look) for look, part in _lines(curves, transitions)
    ]
    traces += [symbols(one, "generalisation_error") for one in simulations]
    marks, shades = _transitions(state, transitions)
    marks = (Mark(state.alpha, colour=FAINT), *marks)
    if limits is not None:
        traces.append(_floor(state, limits["floor"]))
        if state.low <= limits["alpha_s"] <= state.high:
            words = f"α_{{s}} = {limits['alpha_s']:.4g}"
            marks = (*marks, Mark(limits["alpha_s"], words, "right", "dot", QUIET))
    # Short enough for a phone.
    label = "error ε, labels as drawn" if state.noisy else "generalisation error ε"
    y = _vertical(label, state)
    return _figure(Panel(tuple(traces), _across(state, simulations), y, marks, shades), state)


def order_figure(
    state: PageSettings,
    curves: Mapping[str, Sequence[Row]],
    transitions: Mapping[str, Any] | None = None,
    simulations: Sequence[Simulated] = (),
) -> Figure:
    """Order parameters (or what the page asks for) against α."""
    traces: list[Trace] = []
    both = state.shown == "overlaps"
    for (label, colour, dash), part in _lines(curves, transitions):
        if both and part[0]["estimator"] != "bayes":
            traces.append(line(part, "q", label, colour, dash, "q "))
            traces.append(replace(line(part, "m", label, colour, "dashdot", "m "), in_legend=False))
        elif both:
            traces.append(line(part, "q", label, colour, dash, "q = m "))
        else:
            part = [row for row in derived(part, state.shown) if row["shown"] is not None]
            if part:
                traces.append(line(part, "shown", label, colour, dash))
    for one in simulations:
        if both:
            traces.append(symbols(one, "q", "q "))
            traces.append(replace(symbols(one, "m", "m ", hollow=True), in_legend=False))
        else:
            rows = derived(one.rows, state.shown)
            if any(row["shown"] is not None for row in rows):
                traces.append(symbols(Simulated(one.state, rows, one.number), "shown"))
    title = "q (solid), m (dash-dotted)" if both else words_for("shown", state.shown)
    y = _cut(_vertical(title, state), traces)
    return _figure(Panel(tuple(traces), _across(state, simulations), y), state)


def _cut(axis: Axis, traces: Sequence[Trace]) -> Axis:
    """A linear axis that ends where one line would hide the others (q of max-margin near α_s).

    The others are judged by the one in their middle, so that at least half of them are seen whole.
    """
    tops = sorted(max((y for y in trace.y if y > 0), default=0.0) for trace in traces)
    middle = tops[(len(tops) - 1) // 2] if tops else 0.0
    if axis.scale != "linear" or not tops or tops[-1] <= LEAST_SEEN * middle or middle == 0:
        return axis
    high = float(f"{CUT * middle:.1g}")
    return replace(axis, high=high, label=f"{axis.label}, cut at {high:g}")


def landscape_figure(state: PageSettings, found: Mapping[str, Any] | None, phase: str) -> Figure:
    """Free entropy against the overlap at the chosen α, with its extrema."""
    x, y = Axis("overlap q", low=-0.03, high=1.03), Axis("free entropy Φ")
    if found is None:
        return _figure(Panel((), x, y), state)
    curve = Trace(
        numbers(found["q"]), numbers(found["free_entropy"]), colour=INK,
        label=f"Φ at α = {found['alpha']:.4g}", hover="<br>q %{x:.4f}<br>Φ %{y:.5f}",
    )  # fmt: skip
    looks = {
        "optimal": ("best: Bayes-optimal", "star", COLOURS["bayes"], 1.9),
        "amp": ("reached by AMP", "circle", COLOURS["amp"], 1.25),
        "informed": (
            "reached from the teacher" if state.noisy else "perfect learning",
            "diamond-open",
            COLOURS["cross-entropy"],
            1.4,
        ),
        "unstable": ("barrier", "circle-open", COLOURS["unstable"], 1.25),
    }
    traces = [curve]
    for point in found["extrema"]:
        label, symbol, colour, size = looks[point["branch"]]
        traces.append(
            Trace(
                (point["q"],), (point["free_entropy"],), kind="symbols", colour=colour,
                marker=symbol.removesuffix("-open"), hollow=symbol.endswith("-open"), label=label,
                size=size, customdata=((point["generalisation_error"], point["uncertainty"]),),
                hover="<br>q %{x:.6f}<br>Φ %{y:.6f}"
                "<br>ε %{customdata[0]:.6g} ± %{customdata[1]:.1g}",
            )
        )  # fmt: skip
    heights = [value for value in found["free_entropy"] if value is not None]
    start, top = found["free_entropy"][0], max(heights)
    # A Gaussian prior sends Φ to −∞ at q = 1: keep the extrema in sight.
    depth = max(3 * (top - start), top - min(p["free_entropy"] for p in found["extrema"]), 0.02)
    low = max(min(heights), top - 1.15 * depth)
    y = replace(y, low=low - 0.08 * (top - low), high=top + 0.12 * (top - low))
    return _figure(Panel(tuple(traces), x, y, title=phase), state)


def phase_words(state: PageSettings, transitions: Mapping[str, Any] | None) -> str:
    """Where the chosen α lies, in a few words."""
    if not state.finite_prior:
        return "no transition: the error decays smoothly"
    if not transitions:
        return ""
    if transitions.get("alpha_it") is None:
        return "no transition at this noise: the error decays smoothly" if state.noisy else ""
    place = (state.alpha >= transitions["alpha_it"]) + (state.alpha >= transitions["alpha_algo"])
    return (NOISY_PHASES if state.noisy else PHASES)[place]


def _lines(
    curves: Mapping[str, Sequence[Row]], transitions: Mapping[str, Any] | None
) -> list[tuple[tuple[str, str, str], list[Row]]]:
    """(label, colour, dash) and the rows of each line."""
    colours = colours_of([*curves, *DASHES])
    found = []
    for name, rows in curves.items():
        for branch, part in branches(rows, transitions):
            role = branch if branch in DASHES else name
            found.append(((label_of(role), colours[role], DASHES.get(role, "solid")), part))
    return found


def _floor(state: PageSettings, floor: float) -> Trace:
    """The error of the teacher itself, below which nobody gets."""
    return Trace(
        (state.low, state.high), (floor, floor), colour=FAINT, dash="dot",
        label="floor: the teacher itself", hover=f"<br>ε {floor:.6g}",
    )  # fmt: skip


def _across(state: PageSettings, simulations: Sequence[Simulated]) -> Axis:
    """The horizontal axis: the page's range, with room for whole symbols but none below 0."""
    seen = [row["alpha"] for one in simulations for row in one.rows]
    low, high = min([state.low, *seen]), max([state.high, *seen])
    if seen and state.scale == "log":
        low, high = low * (low / high) ** 0.02, high * (high / low) ** 0.02
    elif seen:
        room = 0.02 * (high - low)
        low, high = max(low - room, min(low, 0.0)), high + room
    return Axis(ALPHA, state.scale, low, high)


def _vertical(label: str, state: PageSettings) -> Axis:
    """The vertical axis as the page asks for it."""
    return Axis(label, state.error_scale, 0.0 if state.error_scale == "linear" else None)


def _figure(panel: Panel, state: PageSettings) -> Figure:
    figure = render_plotly(Picture((panel,)))
    # Zooming survives new results, not a new problem.
    figure["layout"]["uirevision"] = (
        f"{state.model}{state.k}{state.prior}{state.noise_name}{state.features}{state.low}{state.high}{state.scale}"
        f"{state.error_scale}{state.shown}"
    )
    return figure


def _transitions(
    state: PageSettings, transitions: Mapping[str, Any] | None
) -> tuple[tuple[Mark, ...], tuple[Shade, ...]]:
    """Verticals at the transitions with their names, and the hard phase between."""
    if not transitions or transitions.get("alpha_it") is None:
        return (), ()
    it, algo = transitions["alpha_it"], transitions["alpha_algo"]
    shades: tuple[Shade, ...] = ()
    if it < state.high and algo > state.low:
        shades = (Shade(max(it, state.low), min(algo, state.high), BAND),)
    marks = [
        Mark(value, f"{name} = {value:.4g}", side, "dash", QUIET)
        for value, name, side in ((it, "α_{IT}", "right"), (algo, "α_{algo}", "left"))
        if state.low <= value <= state.high
    ]
    return tuple(marks), shades


WIDTH, HEIGHT, MARGIN = 220, 64, 4
_STEPS = 120


def preview(curves: Mapping[str, list[dict[str, Any]]]) -> str:
    """The curves, rows by estimator."""
    rows = [row for some in curves.values() for row in some if row.get("branch") != "informed"]
    picture = replace(curves_picture(frame(rows)), width=9.0, height=4.6)
    return _address(svg_text(picture))


def _address(svg: str) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()


@lru_cache(maxsize=64)
def spectrum_picture(name: str) -> tuple[str, str]:
    """Eigenvalues, the largest first, and the same in words."""
    spectrum = as_spectrum(name)
    s, _ = spectrum.at(_STEPS)
    seen = s[s > 0]
    low, high = math.log(float(seen.min())), math.log(float(seen.max()))
    room = max(high - low, 1e-9)
    points = []
    for i, value in enumerate(seen):
        y = (math.log(float(value)) - low) / room if high > low else 0.5
        height = HEIGHT - MARGIN - y * (HEIGHT - 2 * MARGIN)
        for end in (i, i + 1):
            points.append(f"{MARGIN + end / _STEPS * (WIDTH - 2 * MARGIN):.1f},{height:.1f}")
    picture = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}"><polyline points="{" ".join(points)}" fill="none" '
        'stroke="#0072b2" stroke-width="1.5"/></svg>'
    )
    return _address(picture), spectrum_words(spectrum)


def spectrum_words(spectrum: Spectrum) -> str:
    """What the picture shows, for those who cannot see it and as its caption."""
    s = spectrum.eigenvalues
    if spectrum.isotropic:
        return "every eigenvalue is 1"
    rest = "" if spectrum.rank == 1 else f", {1 - spectrum.rank:.2g} of them 0"
    return f"eigenvalues from {s[0]:.3g} down to {s[-1]:.3g} (logarithmic){rest}"
