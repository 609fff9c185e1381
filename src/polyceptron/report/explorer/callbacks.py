"""What happens when something on the page changes.

`sync` turns controls and address into one checked state; `draw` asks for the theory of that state
and draws what is there, and again at every tick while work is under way; `simulate` starts and
stops simulations; `download` hands out files.
"""

from __future__ import annotations

import time
from typing import Any

from dash import ALL, Dash, Input, Output, ctx, html, no_update
from dash import State as Held

from polyceptron.errors import InvalidInput
from polyceptron.report.explorer.export import python_lines, to_csv
from polyceptron.report.explorer.layout import (
    alpha_range,
    control_id,
    named,
    settings_of,
    shown_values,
)
from polyceptron.report.explorer.scripts import AT_START, LINK, PNG
from polyceptron.report.explorer.sessions import Sessions
from polyceptron.report.explorer.state import NAMES, State, from_query, make_state, to_query
from polyceptron.report.explorer.view import View
from polyceptron.report.style import LABELS


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
        pressed = [one["prop_id"] for one in ctx.triggered if one["value"]]
        if not pressed:
            return no_update, no_update  # a button appeared, nobody pressed it
        try:
            session = sessions.get(name)
            asked = ctx.triggered_prop_ids[pressed[0]]
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
