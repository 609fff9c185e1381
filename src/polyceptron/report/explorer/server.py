"""The web server: on this machine only, nothing from elsewhere."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from polyceptron.errors import InvalidInput

if TYPE_CHECKING:
    from dash import Dash

    from polyceptron.report.explorer.sessions import Sessions

HOST = "127.0.0.1"
TITLE = "polyceptron explorer"
MAX_BODY = 200_000  # bytes of a request; the page's own are far smaller
WARM_UP = 20.0  # seconds to wait for the first curve before the address is given

INDEX = """<!DOCTYPE html>
<html lang="en">
    <head>
        {%metas%}
        <title>{%title%}</title>
        {%favicon%}
        {%css%}
    </head>
    <body>
        {%app_entry%}
        <footer>{%config%}{%scripts%}{%renderer%}</footer>
    </body>
</html>
"""


def require_dash() -> None:
    """A sentence if the web extra is not installed."""
    try:
        import dash  # noqa: F401
    except ImportError:
        raise InvalidInput(
            "the explorer needs dash: install it with pip install 'polyceptron[web]'"
        ) from None


def check_port(port: Any) -> int:
    """A port that can be listened on (0: any free one), or a sentence."""
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= 65535:
        raise InvalidInput(f"the port must be a whole number from 0 to 65535, got {port!r}")
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except PermissionError:
            raise InvalidInput(f"port {port} needs more rights: choose one above 1023") from None
        except OSError:
            raise InvalidInput(
                f"port {port} is in use: choose another with --port, or 0 for any free one"
            ) from None
    return port


def make_app(sessions: Sessions) -> Dash:
    """The page as a Dash application."""
    from dash import Dash
    from flask import abort, request

    from polyceptron.report.explorer import callbacks, view

    app = Dash(
        "polyceptron.report.explorer",
        title=TITLE,
        update_title="",
        serve_locally=True,
        index_string=INDEX,
        meta_tags=[
            {"name": "viewport", "content": "width=device-width, initial-scale=1"},
            {"name": "description", "content": "Learning curves of multi-class classifiers."},
        ],
    )
    app.layout = lambda: view.first_page(sessions)
    callbacks.register(app, sessions)
    app.server.config["MAX_CONTENT_LENGTH"] = MAX_BODY

    def only_here() -> None:
        # A page elsewhere whose name points to this machine must not reach the server.
        if request.host.rsplit(":", 1)[0] not in (HOST, "localhost"):
            abort(403)

    app.server.before_request(only_here)
    return app


def serve(port: int, ready: Callable[[str], object]) -> None:
    """Serve until interrupted; `ready` is called with the address when the first curve is there."""
    require_dash()
    check_port(port)
    import logging

    from werkzeug.serving import make_server

    from polyceptron.report.explorer.compute import tasks_of
    from polyceptron.report.explorer.sessions import Sessions
    from polyceptron.report.explorer.state import State

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    sessions = Sessions()
    try:
        keys = sessions.theory.request("first page", tasks_of(State()))
        app = make_app(sessions)
        server = make_server(HOST, port, app.server, threaded=True)
        sessions.theory.wait(keys[:-1], WARM_UP)  # the last is the slowest; the page need not wait
        with app.server.test_request_context("/"):
            app.layout()  # draws the preview, so that the first visitor need not wait for it
        ready(f"http://{HOST}:{server.server_port}/")
        server.serve_forever()
    finally:
        sessions.close()
