"""The part of the page where simulations are asked for and listed."""

from __future__ import annotations

from typing import Any

from dash import html

from polyceptron.report.explorer.choices import NO_NOISE
from polyceptron.report.explorer.controls import named, number, radio
from polyceptron.report.explorer.page_settings import PageSettings
from polyceptron.report.explorer.simulation_runs import MAX_INSTANCES, MAX_KEPT
from polyceptron.report.explorer.simulations import MAX_RUNNING, TIME_LIMIT, Simulation
from polyceptron.report.explorer.worker_main import MEMORY_LIMIT
from polyceptron.report.style import LABELS

GIGABYTES = f"{MEMORY_LIMIT / 1e9:.1f} GB"


def simulation_card(settings: PageSettings) -> Any:
    """Method, size and seed; below, a place for each simulation that can be kept."""
    return html.Section(
        [
            html.H2("Simulations"),
            html.P(
                "Draw data from the teacher, fit, and put the measured errors on the figure: "
                "symbols are means over the runs, bars their standard errors. A simulation may "
                f"have {MAX_INSTANCES} fits, {TIME_LIMIT:.0f} s and {GIGABYTES} of memory; "
                f"{MAX_RUNNING} run at a time and others wait.",
                className="hint",
            ),
            radio(settings, "simulation", "Method"),
            html.Div(
                [
                    number(settings, "dimension", "Dimension d"),
                    number(settings, "places", "Values of α"),
                    number(settings, "runs", "Runs at each"),
                    number(settings, "seed", "Seed"),
                ],
                className="row",
            ),
            html.Button("Add simulation", id="simulate", className="main"),
            html.Div(id="simulation-message", role="alert"),
            html.Ul(
                [_slot(i) for i in range(MAX_KEPT)],
                id="simulations",
                className="simulations",
                **named("Simulations"),
            ),
        ],
        className="card",
    )


def _slot(i: int) -> Any:
    """The place of one simulation: its buttons are never drawn again, so that no press is lost."""
    whose: dict[str, Any] = {"aria-describedby": f"name-{i}"}
    return html.Li(
        [
            html.Span(id=f"name-{i}", className="simulation-name"),
            html.Progress(id=f"progress-{i}", value="0", max="1", **named("progress")),
            html.Span(id=f"words-{i}"),
            html.Button("Cancel", id=f"cancel-{i}", **whose),
            html.Button("Remove", id=f"remove-{i}", **whose),
        ],
        id=f"slot-{i}",
        hidden=True,
    )


def slot_content(one: Simulation | None) -> dict[str, Any]:
    """What the place of a simulation on the page shows."""
    if one is None:
        return {
            "name": "", "progress": "0", "total": "1", "words": "", "idle": True,
            "no_cancel": True, "no_remove": True,
        }  # fmt: skip
    settings, done = one.settings, len(one.rows)
    words = f"{done} of {one.total}" + ("" if one.running else f", {one.status}")
    return {
        "name": f"{LABELS.get(settings.simulation, settings.simulation)}, "
        f"k = {settings.teacher.n_classes}, d = {settings.dimension}"
        + f", {settings.noise_name}" * (settings.noise != NO_NOISE)
        + f", {settings.features}" * settings.correlated,
        "progress": str(done),
        "total": str(one.total),
        "words": words + (f": {one.reason}" if one.reason else ""),
        "idle": False,
        "no_cancel": not one.going_on,
        "no_remove": one.going_on,
    }
