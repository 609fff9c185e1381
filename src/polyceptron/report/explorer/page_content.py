"""What there is to see for a state: drawn with the page where it is ready, later where not."""

from __future__ import annotations

import contextlib
from typing import Any
from urllib.parse import urlsplit

from dash import html
from flask import has_request_context, request

from polyceptron.errors import InvalidInput
from polyceptron.report.explorer.compute import is_slow, tasks_of
from polyceptron.report.explorer.figures import (
    landscape_figure,
    learning_figure,
    order_figure,
    phase_words,
)
from polyceptron.report.explorer.layout import page
from polyceptron.report.explorer.sessions import Session, Sessions
from polyceptron.report.explorer.state import State, from_query, to_query
from polyceptron.report.explorer.traces import Simulated
from polyceptron.report.style import LABELS

QUICK_WAIT, SLOW_WAIT = 0.7, 0.1  # seconds to wait for an answer before showing what there is


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
        self.curves = {name: self.curves[name] for name in state.estimators if name in self.curves}

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
    if not view.curves:
        return page(name, state, {}, None)
    figures = view.figures
    if state == State():  # drawn once, and kept
        figures["preview"] = sessions.preview(view.curves)
    return page(name, state, figures, view.mark)
