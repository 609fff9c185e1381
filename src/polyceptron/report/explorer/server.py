"""The web server: on this machine, unless another address is asked for; nothing from elsewhere."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dash import Dash

    from polyceptron.report.explorer.sessions import Sessions

HOST = "127.0.0.1"
LOOPBACK = (HOST, "localhost", "[::1]")
TITLE = "polyceptron explorer"
MAX_BODY = 200_000  # bytes of a request; the page's own are far smaller
PATIENCE = 30.0  # seconds that a browser may take to send its request

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


def make_app(sessions: Sessions, host: str = HOST, key: str | None = None) -> Dash:
    """The page as a Dash application; `key` must be in the address if other machines reach it."""
    from dash import Dash
    from flask import has_request_context

    from polyceptron.report.explorer import callbacks
    from polyceptron.report.explorer.layout import page
    from polyceptron.report.explorer.page_content import kept_content, mark_of
    from polyceptron.report.explorer.page_settings import PageSettings
    from polyceptron.report.explorer.request_guard import RequestGuard

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
    guard = RequestGuard(_names(host), key, app.callback_map)

    def layout() -> Any:
        """The page with the first figures where they are known; it starts no computation."""
        if not has_request_context():  # Dash looks at the layout once when it starts
            return page("", key, PageSettings(), {}, None)
        settings, token = PageSettings(), guard.new_token()
        content = kept_content(sessions, settings)
        if not content.curves:
            return page(token, key, settings, {}, None)
        figures = content.figures
        marks = {name: mark_of(figure) for name, figure in figures.items()}
        drawn = {"mark": content.mark, "stamp": 0, "stale": content.stale, "figures": marks}
        picture = sessions.preview(content.curves)
        return page(token, key, settings, {**figures, "preview": picture}, drawn)

    app.layout = layout
    callbacks.register(app, sessions, guard)
    app.server.config["MAX_CONTENT_LENGTH"] = MAX_BODY
    guard.attach(app.server)
    return app


def _names(host: str) -> tuple[str, ...]:
    """What a browser may call this server; a name elsewhere that points here is none of them."""
    if _is_everywhere(host):
        return ()  # any: the key in the address keeps strangers out
    return (*LOOPBACK, f"[{host}]" if ":" in host else host)


def _is_everywhere(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def serve(
    here: socket.socket, host: str, key: str | None = None, ready: Callable[[], object] = bool
) -> None:
    """Serve on a listening socket until interrupted; a browser that came early waits in line.

    `host` is what the socket was bound to; with a `key`, whoever has it can use this server.
    `ready` is called when the page can be seen.
    """
    import logging

    from polyceptron.report.explorer.curve_tasks import tasks_of
    from polyceptron.report.explorer.page_settings import PageSettings
    from polyceptron.report.explorer.sessions import Sessions

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    sessions = Sessions()
    try:
        # The first curves are computed while the web framework loads.
        sessions.theory.request("first page", tasks_of(PageSettings()))
        from werkzeug.serving import WSGIRequestHandler, make_server

        class Handler(WSGIRequestHandler):
            timeout = PATIENCE

        app = make_app(sessions, host, key)
        server = make_server(
            host, here.getsockname()[1], app.server, threaded=True, request_handler=Handler,
            fd=here.fileno(),
        )  # fmt: skip
        sessions.theory.prepare()
        ready()
        server.serve_forever()
    finally:
        sessions.close()
