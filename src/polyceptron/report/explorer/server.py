"""The explorer as a web server: on this machine, unless another address is asked for."""

import contextlib
import ipaddress
import logging
import secrets
import socket
from collections.abc import Callable

from dash import Dash
from dash.exceptions import DependencyException
from flask import has_request_context
from werkzeug.serving import WSGIRequestHandler, make_server

from polyceptron.report.explorer import callbacks
from polyceptron.report.explorer.layout import page
from polyceptron.report.explorer.page_tasks import tasks_of
from polyceptron.report.explorer.request_guard import HOST, LOOPBACK, RequestGuard
from polyceptron.report.explorer.settings import PageSettings
from polyceptron.report.explorer.work_queue import Sessions

PATIENCE = 30.0  # seconds that a browser may take to send its request


def make_app(sessions: Sessions, host: str = HOST, key: str | None = None) -> Dash:
    """The page as a Dash application; `key` must be in the address if other machines reach it."""
    app = Dash(
        "polyceptron.report.explorer",
        title="polyceptron explorer",
        update_title="",
        serve_locally=True,
        meta_tags=[
            {"name": "viewport", "content": "width=device-width, initial-scale=1"},
            {"name": "description", "content": "Learning curves of multi-class classifiers."},
        ],
    )
    app.index_string = app.index_string.replace("<html>", '<html lang="en">')
    names: tuple[str, ...] = (*LOOPBACK, f"[{host}]" if ":" in host else host)
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(host).is_unspecified:
            names = ()  # any: the key in the address keeps strangers out
    guard = RequestGuard(names, key, app.callback_map)
    new = secrets.token_hex
    # It starts no computation; Dash looks once as it starts, without a request.
    app.layout = lambda: page(guard.token(new(16)) if has_request_context() else "", key)
    callbacks.register(app, sessions, guard)
    app.server.config["MAX_CONTENT_LENGTH"] = 200_000  # bytes; the page's own are far smaller
    # What Dash answers with a traceback: scripts of packages that it does not serve, and those that
    # it has registered but not shipped.
    nothing = ("there is nothing at this address\n", 404, {"Content-Type": "text/plain"})
    for error in (DependencyException, FileNotFoundError):
        app.server.register_error_handler(error, lambda _: nothing)
    guard.attach(app.server)
    return app


def serve(
    here: socket.socket, host: str, key: str | None = None, ready: Callable[[], object] = bool
) -> None:
    """Serve on a listening socket bound to `host` until interrupted, `key` holders only if given.

    `ready` is called when the page can be seen; a browser that came early waits in line.
    """
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    sessions = Sessions()
    try:
        # The first curves are computed while the browser opens the page.
        sessions.work.request("first page", tasks_of(PageSettings(range_rule="set")))

        class Handler(WSGIRequestHandler):
            timeout = PATIENCE

        app = make_app(sessions, host, key)
        server = make_server(
            host,
            here.getsockname()[1],
            app.server,
            threaded=True,
            request_handler=Handler,
            fd=here.fileno(),
        )
        ready()
        server.serve_forever()
    finally:
        sessions.close()
