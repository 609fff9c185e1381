"""What happens when something on the page changes.

`sync` turns controls and address into one checked state; `draw` asks for the theory of that state
and draws what is there, and again at every tick while work is under way; `simulate` starts and
stops simulations; `download` hands out files.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any
from urllib.parse import urlsplit

from dash import ALL, Dash, Input, Output, ctx, html, no_update
from dash import State as Held
from flask import has_request_context, request

from polyceptron.errors import InvalidInput
from polyceptron.report.explorer.compute import is_slow, tasks_of
from polyceptron.report.explorer.export import python_lines, to_csv
from polyceptron.report.explorer.figures import (
    Simulated,
    landscape_figure,
    learning_figure,
    order_figure,
    phase_words,
)
from polyceptron.report.explorer.layout import (
    alpha_range,
    control_id,
    named,
    page,
    settings_of,
    shown_values,
)
from polyceptron.report.explorer.sessions import Session, Sessions
from polyceptron.report.explorer.state import NAMES, State, from_query, make_state, to_query
from polyceptron.report.style import LABELS

QUICK_WAIT, SLOW_WAIT = 1.5, 0.2  # seconds to wait for an answer before showing what there is

PNG = """
async function (clicks) {
    if (clicks) {
        const graph = document.querySelector('#learning .js-plotly-plot');
        await window.Plotly.downloadImage(graph, {
            format: 'png', width: 900, height: 620, scale: 2, filename: 'polyceptron-learning'
        });
    }
    return clicks || 0;
}
"""
AT_START = """
function (session) {
    // Groups of radio buttons and check boxes are lists of options to Dash; here they are what they
    // look like, named by their legends.
    const tidy = () => document.querySelectorAll('fieldset [role="listbox"]').forEach((list) => {
        list.setAttribute('role', list.querySelector('[type="radio"]') ? 'radiogroup' : 'group');
        list.setAttribute('aria-label', list.closest('fieldset').querySelector('legend').innerText);
    });
    const plain = () => document.querySelectorAll('fieldset label').forEach((label) => {
        label.removeAttribute('role');
        label.removeAttribute('aria-selected');
    });
    const both = () => { tidy(); plain(); };
    both();
    new MutationObserver(both).observe(document.body, {
        subtree: true, childList: true, attributeFilter: ['aria-selected']
    });
    // Dash restores the text cursor of every input that it updates; a slider has none.
    const restore = HTMLInputElement.prototype.setSelectionRange;
    HTMLInputElement.prototype.setSelectionRange = function (...range) {
        return this.type === 'range' ? undefined : restore.apply(this, range);
    };
    return '';
}
"""
LINK = "function (search) { return window.location.origin + window.location.pathname + search; }"


class View:
    """What is known for a state now, and what is still missing."""

    def __init__(self, sessions: Sessions, session: Session, state: State, wait: bool) -> None:
        theory = sessions.theory
        tasks = tasks_of(state)
        keys = theory.request(session.name, tasks)
        if wait:
            theory.wait([k for k, t in zip(keys, tasks, strict=True) if not is_slow(t)], QUICK_WAIT)
            theory.wait(keys, SLOW_WAIT)
        self.state, self.jobs = state, session.jobs.all
        self.curves: dict[str, list[dict[str, Any]]] = {}
        self.transitions: dict[str, Any] | None = None
        self.landscape: dict[str, Any] | None = None
        self.pending: list[str] = []
        self.errors: list[str] = []
        marks = []
        for key, task in zip(keys, tasks, strict=True):
            answer = theory.answer(key)
            name = task.get("estimators")
            words = LABELS[name] if name else task["kind"]
            marks.append(f"{key}{answer.done}{answer.complete}")
            if not answer.complete:
                part = f" {answer.done} of {answer.total}" if answer.total > 1 else ""
                self.pending.append(words + part)
            if answer.error:
                self.errors.append(f"{words}: {answer.error}")
            if answer.result is None:
                continue
            if task["kind"] == "curve":
                self.curves[task["estimators"]] = answer.result
            else:
                setattr(self, task["kind"], answer.result)
        marks += [f"{job.number}{job.status}{len(job.rows)}" for job in self.jobs]
        self.busy = bool(self.pending) or any(job.running for job in self.jobs)
        self.mark = "|".join([to_query(state), *marks])

    @property
    def simulated(self) -> list[Simulated]:
        """The simulations that have something to draw."""
        return [Simulated(job.state, job.rows, n) for n, job in enumerate(self.jobs) if job.rows]

    @property
    def figures(self) -> dict[str, Any]:
        """The three figures, by the ids of their graphs."""
        phase = phase_words(self.state, self.transitions)
        return {
            "learning": learning_figure(self.state, self.curves, self.transitions, self.simulated),
            "order": order_figure(self.state, self.curves, self.transitions, self.simulated),
            "landscape": landscape_figure(self.state, self.landscape, phase),
        }

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Everything as one table."""
        theory = [row for rows in self.curves.values() for row in rows]
        return theory + [row for job in self.jobs for row in job.rows]

    @property
    def status(self) -> Any:
        """One line: at work on what, or ready."""
        if self.pending:
            words = "Computing: " + ", ".join(self.pending) + " …"
            return [html.Span(className="spinner"), words]
        phase = phase_words(self.state, self.transitions)
        return f"Ready. At α = {self.state.alpha:.4g}: {phase}." if phase else "Ready."


def first_page(sessions: Sessions) -> Any:
    """The page for a new visitor, with its figures where they are ready, to save a round trip.

    The request for the layout does not say which link was opened, but its referrer does.
    """
    name = sessions.new_name()
    state = State()
    if has_request_context() and request.referrer:
        with contextlib.suppress(InvalidInput, ValueError):  # `sync` says so on the page
            state = from_query("?" + urlsplit(request.referrer).query)
    if not has_request_context():  # Dash looks at the layout once when it starts
        return page(name, state, {}, None)
    view = View(sessions, sessions.get(name), state, wait=False)
    if view.pending:
        return page(name, state, {}, None)
    return page(name, state, view.figures, view.mark)


def register(app: Dash, sessions: Sessions) -> None:
    """Attach everything to the page."""
    _sync(app)
    _draw(app, sessions)
    _simulate(app, sessions)
    _download(app, sessions)
    in_browser: Any = app.clientside_callback
    in_browser(PNG, Output("png-done", "data"), Input("get-png", "n_clicks"))
    in_browser(AT_START, Output("groups-named", "data"), Input("session", "data"))
    in_browser(LINK, Output("link", "value"), Input("url", "search"))


def _sync(app: Dash) -> None:
    @app.callback(
        output={
            "search": Output("url", "search"),
            "values": {name: Output(control_id(name), "value") for name in NAMES},
            "state": Output("state", "data"),
            "message": Output("message", "children"),
            "range": {end: Output(control_id("alpha"), end) for end in ("min", "max", "step")},
            "alpha_text": Output("alpha-value", "children"),
            "ridge_text": Output("ridge-value", "children"),
            "k_disabled": Output(control_id("k"), "disabled"),
        },
        inputs={
            "search": Input("url", "search"),
            "values": {name: Input(control_id(name), "value") for name in NAMES},
        },
    )
    def sync(search: Any, values: dict[str, Any]) -> dict[str, Any]:
        by_address = ctx.triggered_id in (None, "url")
        message = ""
        nothing: dict[str, Any] = {
            "search": no_update, "values": dict.fromkeys(NAMES, no_update), "state": no_update,
            "range": dict.fromkeys(("min", "max", "step"), no_update),
            "alpha_text": no_update, "ridge_text": no_update, "k_disabled": no_update,
        }  # fmt: skip
        try:
            state = from_query(search) if by_address else make_state(settings_of(values))
        except InvalidInput as error:
            if not by_address:
                return {**nothing, "message": _sentence(error)}
            state = State()
            message = f"This link cannot be shown: {error}. Here are the defaults instead."
        shown: dict[str, Any] = dict(nothing["values"])
        if by_address:
            shown = shown_values(state)
        elif state.alpha != settings_of(values)["alpha"]:
            shown["alpha"] = state.alpha  # moved into a new range
        return {
            "search": no_update if by_address else to_query(state),
            "values": shown,
            "state": {"settings": state.as_dict(), "stamp": time.time_ns() // 1000},
            "message": message,
            "range": alpha_range(state),
            "alpha_text": f"{state.alpha:.4g}",
            "ridge_text": f"{state.ridge:.4g}",
            "k_disabled": state.model == "perceptron",
        }


def _draw(app: Dash, sessions: Sessions) -> None:
    @app.callback(
        Output("learning", "figure"),
        Output("order", "figure"),
        Output("landscape", "figure"),
        Output("status", "children"),
        Output("jobs", "children"),
        Output("python", "children"),
        Output("poll", "disabled"),
        Output("drawn", "data"),
        Input("state", "data"),
        Input("poll", "n_intervals"),
        Input("jobs-changed", "data"),
        Held("session", "data"),
        Held("drawn", "data"),
    )
    def draw(held: Any, _ticks: Any, _jobs: Any, name: Any, drawn: Any) -> tuple[Any, ...]:
        nothing = (no_update,) * 8
        try:
            session = sessions.get(name)
            state, stamp = make_state(held["settings"]), int(held["stamp"])
        except (InvalidInput, TypeError, KeyError, ValueError):
            return nothing
        if stamp < session.stamp:
            return nothing  # an answer to an older question must not overwrite a newer one
        session.stamp = stamp
        view = View(sessions, session, state, wait=ctx.triggered_id != "poll")
        if stamp < session.stamp:
            return nothing
        if view.mark == drawn and ctx.triggered_id == "poll":
            return (*nothing[:6], not view.busy, no_update)
        errors = [html.Div(error, className="trouble") for error in view.errors]
        return (
            *(nothing[:3] if view.mark == drawn else view.figures.values()),
            [html.Div(view.status), *errors],
            [_job_item(job) for job in view.jobs],
            python_lines(state, [job.state for job in view.jobs if job.rows]),
            not view.busy,
            view.mark,
        )


def _job_item(job: Any) -> Any:
    name = f"{LABELS[job.state.simulation]}, k = {job.state.teacher.n_classes}"
    name += f", d = {job.state.dimension}"
    done = len(job.rows)
    words = f"{done} of {job.total}" + ("" if job.running else f", {job.status}")
    action, label = ("cancel", "Cancel") if job.running else ("remove", "Remove")
    return html.Li(
        [
            html.Span(name, className="job-name"),
            html.Progress(value=str(done), max=str(job.total), **named(f"{name}: progress")),
            html.Span(words + (f": {job.reason}" if job.reason else ""), className="job-status"),
            html.Button(
                label,
                id={"type": action, "job": job.number},
                **named(f"{label} {name}"),
            ),
        ],
        id=f"job-{job.number}",
    )


def _simulate(app: Dash, sessions: Sessions) -> None:
    @app.callback(
        Output("jobs-changed", "data"),
        Output("simulation-message", "children"),
        Input("simulate", "n_clicks"),
        Input({"type": "cancel", "job": ALL}, "n_clicks"),
        Input({"type": "remove", "job": ALL}, "n_clicks"),
        Held("session", "data"),
        Held("jobs-changed", "data"),
        *(Held(control_id(name), "value") for name in NAMES),
        prevent_initial_call=True,
    )
    def simulate(
        _add: Any, _cancel: Any, _remove: Any, name: Any, changed: Any, *values: Any
    ) -> tuple[Any, Any]:
        if not ctx.triggered or not ctx.triggered[0]["value"]:
            return no_update, no_update  # a button appeared, nobody pressed it
        try:
            session = sessions.get(name)
            asked = ctx.triggered_id
            if asked == "simulate":
                settings = settings_of(dict(zip(NAMES, values, strict=True)))
                sessions.start(session, make_state(settings))
            else:
                job = session.jobs.find(asked["job"])
                if job is not None and asked["type"] == "cancel":
                    job.cancel()
                elif job is not None:
                    session.jobs.remove(job.number)
        except InvalidInput as error:
            return no_update, _sentence(error)
        return (changed or 0) + 1, ""


def _download(app: Dash, sessions: Sessions) -> None:
    @app.callback(
        Output("download", "data"),
        Input("get-csv", "n_clicks"),
        Input("get-python", "n_clicks"),
        Held("state", "data"),
        Held("session", "data"),
        prevent_initial_call=True,
    )
    def download(_csv: Any, _python: Any, held: Any, name: Any) -> Any:
        try:
            session = sessions.get(name)
            state = make_state(held["settings"])
        except (InvalidInput, TypeError, KeyError):
            return no_update
        view = View(sessions, session, state, wait=True)
        if ctx.triggered_id == "get-csv":
            return _file("polyceptron.csv", to_csv(view.rows), "text/csv")
        states = [job.state for job in view.jobs if job.rows]
        return _file("polyceptron_curve.py", python_lines(state, states), "text/x-python")


def _file(name: str, content: str, kind: str) -> dict[str, Any]:
    return {"filename": name, "content": content, "type": kind, "base64": False}


def _sentence(error: Exception) -> str:
    text = str(error)
    return text[:1].upper() + text[1:] + "."
