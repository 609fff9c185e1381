"""Experiments and reports at the shell: sweep, merge, results, plot; figures, verify, explore.

The explorer's address is taken and printed before anything heavy is imported, the `report` room
included; a browser that comes early waits in line.
"""

from __future__ import annotations

import errno
import importlib.util
import ipaddress
import os
import secrets
import shlex
import socket
import sys
import time
import webbrowser
from collections.abc import Sequence
from contextlib import nullcontext
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polyceptron.cli import options
from polyceptron.cli.options import Output, echo, option, print_json, print_table, setting
from polyceptron.cli.side_files import Overwrite, check_figure_files, check_unnamed
from polyceptron.display import describe_seconds
from polyceptron.errors import InvalidInput
from polyceptron.files import check_outputs
from polyceptron.progress import say, waiting

if TYPE_CHECKING:
    from polyceptron.lab.spec import SweepSpec


def sweep(
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="The sweep: a TOML file.")],
    store: Annotated[Path, option("The store, made if missing; a run resumes there.")],
    workers: int | None = setting(None, "Processes on this machine (default: all processors)."),
    cluster: str | None = setting(None, "A Dask scheduler, tcp://host:port.", metavar="ADDRESS"),
    dry_run: bool = setting(False, "Show the grid, its cost, what is stored; stop.", "--dry-run"),
) -> None:
    """Compute a grid of theory, message passing and ERM rows; run again to resume.

    Example: polyceptron sweep spec.toml --store runs.sqlite --workers 4
    """
    from polyceptron.lab.spec import load_spec
    from polyceptron.lab.sweep import SweepStopped, run_sweep

    check_outputs(store, inputs=[spec])
    loaded = load_spec(spec)
    if dry_run:
        _show_plan(loaded, store, workers)
        return
    try:
        report = run_sweep(loaded, store, workers=workers, cluster=cluster, progress=True)
    except SweepStopped as stopped:
        say(f"stopped: {stopped.report.done} of {stopped.report.rows} rows are stored")
        command = ["polyceptron", "sweep", str(spec), "--store", str(store)]
        command += ["--workers", str(workers)] if workers else []
        command += ["--cluster", cluster] if cluster else []
        say(f"resume with: {shlex.join(command)}")
        raise typer.Exit(128 + stopped.signal_number) from None
    say(
        f"{report.rows} rows: {report.already} were stored, {report.computed - report.failed} "
        f"computed in {describe_seconds(report.seconds)}, {report.failed} failed"
    )
    if report.damaged:
        rows = named(report.damaged, "stored row")
        say(f"computed again, as changed after being written: {rows}")
    if report.failed:
        say(f"reasons: polyceptron results {shlex.quote(str(store))} --failures")
        say("the same command tries the failed rows again")
        raise typer.Exit(1)


def merge(
    sources: Annotated[list[Path], typer.Argument(metavar="STORE", help="Stores to copy from.")],
    into: Annotated[Path, option("The store to copy into, made if missing.")],
) -> None:
    """Put the results of several stores into one.

    Example: polyceptron merge laptop.sqlite cluster.sqlite --into all.sqlite
    """
    from polyceptron.store import merge_stores

    with waiting(f"merging into {into}"):
        report = merge_stores(into, sources)
    other = f", {report.differing} of them with other numbers (kept)" if report.differing else ""
    say(f"{report.added} rows added to {into}, {report.already} were there already{other}")
    if report.damaged:
        say(f"not copied, as changed after being written: {named(report.damaged, 'row')}")
        raise typer.Exit(1)


def named(keys: Sequence[str], what: str) -> str:
    """'3 rows (a, b, c)', not more than five of them."""
    shown = ", ".join(keys[:5]) + (", ..." if len(keys) > 5 else "")
    return f"{len(keys)} {what}{'s' if len(keys) > 1 else ''} ({shown})"


def _show_plan(spec: SweepSpec, store: Path, workers: int | None) -> None:
    import joblib

    from polyceptron.lab.sweep import make_plan
    from polyceptron.store import Store

    with waiting("planning"), Store(store) if store.exists() else nullcontext() as opened:
        plan = make_plan(spec, opened)
    columns = ("source", "estimator", "dimension", "rows", "stored", "to_do")
    parts = []
    for place, (rows, stored) in plan.parts.items():
        parts.append(dict(zip(columns, (*place, rows, stored, rows - stored), strict=True)))
    print_table(parts, columns, "the grid", optional=("stored", "dimension"))
    megabytes = plan.largest_bytes / 1e6
    size = f"{megabytes:.3g} MB" if megabytes < 999 else f"{megabytes / 1e3:,.0f} GB"
    echo(
        f"{plan.rows} rows, {plan.stored} stored, {plan.to_do} to compute in "
        f"{plan.tasks_to_do} tasks on {workers or joblib.cpu_count()} workers; largest instance "
        f"{size}"
    )


_SUMMARY = {  # columns of a table, and how they are shown
    "ridge": ("ridge", ".6g"),
    "penalty": ("penalty", "s"),
    "alpha": ("alpha", ".6g"),
    "dimension": ("d", "d"),
    "instances": ("runs", "d"),
    "mean": ("mean", ".6g"),
    "standard_error": ("s.e.", ".1e"),
    "theory": ("theory", ".6g"),
    "deviation": ("z", "+.1f"),
    "not_converged": ("not conv.", "d"),
    "failed": ("failed", "d"),
}
_FAILED = ("source", "estimator", "n_classes", "noise", "ridge", "alpha", "dimension", "seed")


def results(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="A store made by sweep.")],
    csv: options.Csv = None,
    parquet: Path | None = setting(None, "Write the rows to a Parquet file."),
    summary: bool = setting(False, "Means over instances, not rows (the default).", "--summary"),
    quantity: str = setting("generalisation_error", "Column to average: m, q, test_loss, ..."),
    spec: Path | None = setting(None, "Only the rows of this sweep file."),
    failures: bool = setting(False, "List rows that failed, with their reasons.", "--failures"),
    as_json: options.Json = False,
) -> None:
    """What a store holds: means with theory beside them, or every row in a file.

    Example: polyceptron results runs.sqlite --csv rows.csv
    """
    from polyceptron.lab import results as found
    from polyceptron.lab.spec import load_spec
    from polyceptron.lab.tasks import sweep_keys
    from polyceptron.store import BESIDE, Store

    check_outputs(csv, parquet, inputs=[store, *(f"{store}{end}" for end in BESIDE), spec])
    sweep = load_spec(spec) if spec else None
    with Store(store) as opened, waiting(f"reading {store}"):
        damaged = opened.damaged()
        if failures:
            listed = found.failures(opened)
            if listed or as_json:
                hidden = ("seed", "noise", "n_classes")
                Output(as_json)(listed, _FAILED, optional=hidden, below="reason")
            else:
                say(f"no row failed in {opened.path}")
        elif csv is None and parquet is None:
            lines = found.summary(opened, quantity=quantity, spec=sweep)
            if lines and not any({line.get("mean"), line["theory"]} - {None} for line in lines):
                raise InvalidInput(f"no row of {str(store)!r} has a number in {quantity!r}")
            if as_json:
                Output(as_json)(lines)
            else:
                typer.echo(f"{quantity} in {store}: {len(opened)} rows")
                _show_summary(lines)
        else:
            keys = sweep_keys(sweep) if sweep else None
            table = found.summary_frame(opened, quantity, sweep) if summary else opened.frame(keys)
            for path, write in ((csv, found.write_csv), (parquet, found.write_parquet)):
                if path is not None:
                    write(table, path)
                    say(f"{len(table)} rows in {path}")
    if damaged:
        say(
            f"left out, as changed after being written: {named(damaged, 'row')} of {store}; run "
            "the sweep again to compute what is missing, or merge the rest into a new store"
        )
        raise typer.Exit(1)


def _show_summary(lines: list[dict[str, Any]]) -> None:
    """One table for each problem and estimator, so that all of it fits in 80 columns."""
    for title, group in groupby(lines, key=options.describe_row):
        shown = [
            {
                short: None if line.get(name) is None else format(line[name], style)
                for name, (short, style) in _SUMMARY.items()
            }
            for line in group
        ]
        columns = [short for short, _ in _SUMMARY.values()]
        for count in ("not conv.", "failed"):
            if all(line[count] == "0" for line in shown):
                columns.remove(count)
        typer.echo()
        print_table(shown, columns, title, optional=("d", "ridge"))


_SOURCES = "A sweep's store or a table in CSV; several together."


def plot(
    sources: Annotated[list[Path], typer.Argument(metavar="STORE_OR_CSV", help=_SOURCES)],
    out: Path | None = setting(None, "A .pdf, .png or .svg file; else a .pdf here.", "--out", "-o"),
    x: str = setting("alpha", "Column across: alpha, ridge, n_classes, …"),
    y: str = setting("generalisation_error", "Column up: q, m, V, training_loss, free_entropy, …"),
    where: list[str] = setting([], "Only such rows: ridge=1; repeatable.", metavar="COLUMN=VALUE"),
    log_x: bool | None = setting(None, "Scale across; else by the values.", "--log-x/--linear-x"),
    log_y: bool = setting(False, "A logarithmic scale up.", "--log-y"),
    overwrite: Overwrite = False,
) -> None:
    """Draw any store or table: theory as lines, experiments as symbols with standard errors."""
    import pandas as pd

    from polyceptron.pictures import matplotlib_figure
    from polyceptron.pictures.curves import curves_picture, read_table, select_rows

    tables = [read_table(path).assign(table=i) for i, path in enumerate(sources)]
    table = select_rows(pd.concat(tables, ignore_index=True), where)
    target = Path(sources[0].stem + ".pdf") if out is None else out
    matplotlib_figure.check_figure_path(target)
    check_outputs(target, inputs=sources)
    if out is None:
        check_unnamed(target, overwrite)
    picture = curves_picture(table, x, y, log_x=log_x, log_y=log_y)
    matplotlib_figure.save_figure(matplotlib_figure.render_matplotlib(picture), target)
    say(f"drawn in {target}")


def figures(
    out: Path = setting(Path("figures"), "Folder for the figures; made if missing."),
    only: list[str] = setting([], "One of {figures}; repeatable. Default: all.", "--only"),
    profile: str = setting("quick", "quick (minutes) or paper (hours)."),
    workers: int | None = setting(None, "Default: all processors.", min=1),
    overwrite: Overwrite = False,
) -> None:
    """Compute and draw every figure, with the table and the specification behind each.

    A stopped run resumes: what is done is kept in OUT/computed (delete it to start afresh).
    OUT/agreement.csv has the z of every symbol against its line.
    """
    from polyceptron.report.figures import making

    check_figure_files(out, making.files_of_figures(out, only), overwrite)
    try:
        written = making.make_figures(out, only, profile, workers=workers, progress=True)
    except KeyboardInterrupt as stop:
        say("stopped: the same command goes on from here")
        raise typer.Exit(128 + getattr(stop, "signal_number", 2)) from None
    say(str(making.verdict(making.read_agreement(out))))
    say(f"{len(written)} files in {out}; open {out / 'index.html'}")


def verify(
    full: bool = setting(False, "More classes, dimensions, runs: minutes.", "--full"),
    as_json: options.Json = False,
) -> None:
    """Check the package's promises on this machine; exit code 1 if anything is off.

    Published values, closed forms, identities, matrix equations, message passing and scikit-learn
    fits, each with what is allowed. Under two minutes on two cores.
    """
    import sklearn

    from polyceptron.lab.tasks import environment
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
        more = ("difference", "verdict")
        print_json(vars(one) | {name: getattr(one, name) for name in more} for one in checks)
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
    port: int = setting(8050, "Port to listen on; 0 for any free one.", min=0, max=65535),
    host: str | None = setting(None, "For other machines: the address to listen on."),
    browser: bool = setting(True, "Open the page.", "--browser/--no-browser"),
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


COMMANDS = (sweep, results, merge, plot, figures, verify, explore)
