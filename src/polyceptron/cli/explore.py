"""The explorer at the shell: explore.

The address is taken and printed before anything heavy is imported, the `report` room included; a
browser that comes early waits in line.
"""

from __future__ import annotations

import errno
import importlib.util
import ipaddress
import os
import secrets
import socket
import sys
from typing import Any

import typer

from polyceptron.errors import InvalidInput

LOOPBACK = "127.0.0.1"
WARNING = (
    "warning: other machines can reach this server; whoever has the address can compute here, and "
    "what is sent is not encrypted\n"
)


def explore(
    port: int = typer.Option(8050, "--port", help="Port to listen on; 0 for any free one."),
    host: str | None = typer.Option(
        None, "--host", help="Address to listen on for other machines. Default: this machine only."
    ),
    browser: bool = typer.Option(True, "--browser/--no-browser", help="Open the page."),
) -> None:
    """Explore learning curves and simulations in the browser, on this machine only.

    The page follows its address in a few seconds. One curve may take 180 s and 0.8 GB of memory,
    one simulation 300 s and 0.8 GB; they are stopped with a word then.
    """
    require_dash()
    key = None if host is None else secrets.token_urlsafe(16)
    with listen(port, host or LOOPBACK) as here:
        address = address_of(here, host or LOOPBACK, key)
        if key is not None:
            sys.stderr.write(WARNING)
        typer.echo(f"open {address} (stop with Ctrl-C)")
        sys.stdout.flush()
        from polyceptron.report.explorer.server import serve

        serve(here, host or LOOPBACK, key, lambda: _open(address) if browser else None)


def _open(address: str) -> None:
    if _has_screen():
        import webbrowser

        webbrowser.open(address)


def require_dash() -> None:
    """A sentence if the web extra is not installed."""
    if importlib.util.find_spec("dash") is None:
        raise InvalidInput(
            "the explorer needs dash: install it with pip install 'polyceptron[web]'"
        )


def listen(port: Any, host: str = LOOPBACK) -> socket.socket:
    """A socket that listens there (port 0: any free one), or a sentence."""
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= 65535:
        raise InvalidInput(f"the port must be a whole number from 0 to 65535, got {port!r}")
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError, ValueError):
        raise InvalidInput(f"{host!r} is no address or name of this machine") from None
    here = socket.socket(family, kind)
    here.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        here.bind(address)
        here.listen(128)
    except OSError as error:
        here.close()
        raise InvalidInput(_why_not(error, host, port)) from None
    return here


def _why_not(error: OSError, host: str, port: int) -> str:
    if isinstance(error, PermissionError):
        return f"port {port} needs more rights: choose one above 1023"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{host!r} is no address or name of this machine"
    return f"port {port} is in use: choose another with --port, or 0 for any free one"


def address_of(here: socket.socket, host: str, key: str | None) -> str:
    """What to open in a browser."""
    try:
        everywhere = ipaddress.ip_address(host).is_unspecified
    except ValueError:
        everywhere = False
    name = socket.gethostname() if everywhere else host
    name = f"[{name}]" if ":" in name else name
    return f"http://{name}:{here.getsockname()[1]}/" + (f"?token={key}" if key else "")


def _has_screen() -> bool:
    """Whether a browser would have a window to open; without, Python would start one in text."""
    if sys.platform in ("win32", "darwin"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
