"""The explorer as a web server: on this machine, unless another address is asked for."""

from __future__ import annotations

import ipaddress
import logging
import secrets
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from dash import Dash
from dash.exceptions import DependencyException
from flask import Flask, has_request_context
from werkzeug.serving import ThreadedWSGIServer, WSGIRequestHandler

from polyceptron.report.explorer import callbacks
from polyceptron.report.explorer.layout import page
from polyceptron.report.explorer.page_tasks import tasks_of
from polyceptron.report.explorer.request_guard import HOST, LOOPBACK, RequestGuard
from polyceptron.report.explorer.sessions import Sessions
from polyceptron.report.explorer.settings import PageSettings

MAX_CONNECTIONS = 100  # open at once: a browser has six, and each of 200 pages asks twice a second
SECONDS_OF_CONNECTION = 60.0  # for a request and its answer: 4.6 MB of scripts at 80 kB a second
MAX_BODY = 200_000  # bytes of a request; the page's own are far smaller
Connection = socket.socket | tuple[bytes, socket.socket]
"""The type that servers of Python have for it; over TCP it is a socket."""

NOTHING_HERE = ("there is nothing at this address\n", 404, {"Content-Type": "text/plain"})


def make_app(sessions: Sessions, host: str = HOST, key: str | None = None) -> Dash:
    """Return the page as a Dash application; `key`, if any, must be in the address."""
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
    guard = RequestGuard(_names_of(host), key, app.callback_map)

    def layout() -> object:
        """Return the page for one visitor, with a token of their own."""
        token = ""
        if has_request_context():  # Dash looks once as it starts, without a request
            token = guard.token(secrets.token_hex(16))
        return page(token, key, is_local=host in LOOPBACK)

    app.layout = layout  # it starts no computation
    callbacks.register(app, sessions, guard)
    app.server.config["MAX_CONTENT_LENGTH"] = MAX_BODY
    # What Dash answers with a traceback: scripts of packages that it does not serve, and those that
    # it has registered but not shipped.
    for error in (DependencyException, FileNotFoundError):
        app.server.register_error_handler(error, lambda _: NOTHING_HERE)
    guard.attach(app.server)
    return app


def _names_of(host: str) -> tuple[str, ...]:
    """Return the names by which the server may be called; none for any, where a key protects it."""
    with suppress(ValueError):
        if ipaddress.ip_address(host).is_unspecified:
            return ()
    if ":" in host:
        return (*LOOPBACK, f"[{host}]")
    return (*LOOPBACK, host)


class RequestHandler(WSGIRequestHandler):
    """Handles one connection; a socket that gives nothing for so long is given up.

    What is no request is answered and not logged: it would come to the terminal line by line, up to
    65 kB each, from programs that do not know the key.
    """

    timeout = SECONDS_OF_CONNECTION

    def log_error(self, format: str, *args: object) -> None:
        """Do nothing."""


class BoundedServer(ThreadedWSGIServer):
    """A thread for each connection, of which there are not too many, and none for too long.

    Where too many are open, the oldest gives way: an answer of the page takes a moment, so that the
    oldest is somebody who keeps a connection without asking for anything.
    """

    def __init__(self, host: str, here: socket.socket, app: Flask) -> None:
        port = here.getsockname()[1]
        super().__init__(host, port, app, RequestHandler, fd=here.fileno())
        self._open: dict[Connection, float] = {}  # when each began, the oldest first
        self._lock = threading.Lock()

    def process_request(self, request: Connection, client_address: object) -> None:
        """Take a connection."""
        with self._lock:
            self._open[request] = time.monotonic()
            for oldest in list(self._open)[:-MAX_CONNECTIONS]:
                self._end(oldest)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Connection) -> None:
        """Close a connection that is over."""
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """End connections that last too long; called twice a second."""
        begun_too_long_ago = time.monotonic() - SECONDS_OF_CONNECTION
        with self._lock:
            for connection, begin in list(self._open.items()):
                if begin < begun_too_long_ago:
                    self._end(connection)

    def _end(self, connection: Connection) -> None:
        """Wake the thread of a connection, which then closes it."""
        self._open.pop(connection, None)
        assert isinstance(connection, socket.socket)
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)


def serve(
    here: socket.socket,
    host: str,
    key: str | None = None,
    ready: Callable[[], object] = bool,
) -> None:
    """Serve on a listening socket bound to `host` until interrupted, `key` holders only if given.

    `ready` is called when the page can be seen; a browser that came early waits in line.
    """
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    sessions = Sessions()
    try:
        # The first curves are computed while the browser opens the page.
        sessions.work.request("first page", tasks_of(PageSettings(range_rule="set")))
        server = BoundedServer(host, here, make_app(sessions, host, key).server)
        ready()
        server.serve_forever()
    finally:
        sessions.close()
