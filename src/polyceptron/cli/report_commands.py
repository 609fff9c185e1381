"""Reports at the shell: figures, verify, explore.

The explorer's address is taken and printed before anything heavy is imported, the `report` room
included; a browser that comes early waits in line.
"""

from __future__ import annotations

import errno
import importlib.util
import ipaddress
import os
import secrets
import socket
import sys
import time
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from polyceptron.cli import options
from polyceptron.cli.options import option
from polyceptron.cli.printing import print_json, say
from polyceptron.display import waiting
from polyceptron.errors import InvalidInput


def figures(
    out: Annotated[Path, option("Folder for the figures; made if missing.")] = Path("figures"),
    only: Annotated[
        list[str], option("One of {figures}; repeatable. Default: all.", "--only")
    ] = [],
    profile: Annotated[str, option("quick (minutes) or paper (hours).")] = "quick",
    workers: Annotated[int | None, option("Default: all processors.", min=1)] = None,
) -> None:
    """Compute and draw every figure, with the table and the specification behind each.

    A stopped run resumes: what is done is kept in OUT/computed (delete it to start afresh).
    OUT/agreement.csv has the z of every symbol against its line.
    """
    from polyceptron.report.figures import making
    from polyceptron.report.figures.making import verdict

    chosen = making.choose_figures(only)
    say(f"{len(chosen)} figures, profile {profile}")
    try:
        written = making.make_figures(out, only, profile, workers=workers, progress=True)
    except KeyboardInterrupt as stop:
        say("stopped: the same command goes on from here")
        raise typer.Exit(128 + getattr(stop, "signal_number", 2)) from None
    say(str(verdict(making.read_agreement(out))))
    say(f"{len(written)} files in {out}; open {out / 'index.html'}")


def verify(
    full: Annotated[bool, option("More classes, dimensions, runs: minutes.", "--full")] = False,
    as_json: options.Json = False,
) -> None:
    """Check the package's promises on this machine; exit code 1 if anything is off.

    Published values, closed forms, identities, matrix equations, message passing and scikit-learn
    fits, each with what is allowed. Under two minutes on two cores.
    """
    import sklearn

    from polyceptron.experiments.tasks import environment
    from polyceptron.report.verify import GROUPS
    from polyceptron.report.verify import verify as run

    begin = time.perf_counter()
    names = list(GROUPS)
    with waiting("checking") as show:
        checks = run(
            full, lambda name: show(f"checking {name} ({names.index(name) + 1} of {len(names)})")
        )
    off = [check for check in checks if check.verdict != "ok"]
    if as_json:
        print_json(check.as_row() for check in checks)
    for check in [] if as_json else checks:  # two lines each: name and verdict, then the numbers
        typer.secho(f"{check.verdict:4}{check.check}", bold=check.verdict != "ok")
        difference, allowed = (f"{abs(x):.0e}" for x in (check.difference, check.allowed))
        typer.echo(
            f"    {check.ours:.7g} against {check.reference:.7g}, {check.source}: {difference} "
            f"{'≤' if check.verdict == 'ok' else '>'} {allowed}"
        )
    seconds = time.perf_counter() - begin
    named = environment() | {"scikit-learn": sklearn.__version__}
    versions = ", ".join(f"{name} {version}" for name, version in named.items())
    sys.stderr.write(
        f"{len(checks)} checks, {len(off)} off, {seconds:.0f} s ({versions})\n"
        + "".join(f"off: {check.check}: {check.note or check.source}\n" for check in off)
    )
    if off:
        raise typer.Exit(1)


LOOPBACK = "127.0.0.1"
WARNING = (
    "warning: other machines can reach this server; whoever has the address can compute here, and "
    "what is sent is not encrypted\n"
)


def explore(
    port: Annotated[int, option("Port to listen on; 0 for any free one.", min=0, max=65535)] = 8050,
    host: Annotated[
        str | None, option("Address to listen on for other machines. Default: this machine only.")
    ] = None,
    browser: Annotated[bool, option("Open the page.", "--browser/--no-browser")] = True,
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

        # Without a screen Python would start a browser in text.
        screen = any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
        shown = browser and (screen or sys.platform in ("win32", "darwin"))
        serve(here, host or LOOPBACK, key, lambda: shown and webbrowser.open(address))


def require_dash() -> None:
    """Raise if the web extra is not installed."""
    if importlib.util.find_spec("dash") is None:
        raise InvalidInput(
            "the explorer needs dash: install it with pip install 'polyceptron[web]'"
        )


def listen(port: int, host: str = LOOPBACK) -> socket.socket:
    """A socket that listens there (port 0: any free one)."""
    reason = f"{host!r} is no address or name of this machine"
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address, family=family, backlog=128)
    except PermissionError:
        reason = f"port {port} needs more rights: choose one above 1023"
    except (OSError, UnicodeError, ValueError) as error:
        if getattr(error, "errno", None) == errno.EADDRINUSE:
            reason = f"port {port} is in use: choose another with --port, or 0 for any free one"
    raise InvalidInput(reason)


def address_of(here: socket.socket, host: str, key: str | None) -> str:
    """What to open in a browser."""
    try:
        everywhere = ipaddress.ip_address(host).is_unspecified
    except ValueError:
        everywhere = False
    name = socket.gethostname() if everywhere else host
    name = f"[{name}]" if ":" in name else name
    return f"http://{name}:{here.getsockname()[1]}/" + (f"?token={key}" if key else "")


COMMANDS = (figures, verify, explore)
