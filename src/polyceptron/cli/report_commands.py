"""Experiments and reports at the shell: sweep, merge, results, plot; figures, verify, explore.

The explorer's address is taken and printed before anything heavy is imported, the `report` room
included; a browser that comes early waits in line.
"""

from __future__ import annotations

import errno
import importlib.util
import ipaddress
import math
import os
import secrets
import shlex
import socket
import sys
import time
import webbrowser
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polyceptron.cli.options import option, setting
from polyceptron.cli.output import Output
from polyceptron.cli.side_files import Overwrite, check_figure_files, check_unnamed
from polyceptron.cli.tables import describe_row, echo, print_json, print_table
from polyceptron.display import describe_seconds, visible
from polyceptron.errors import InvalidInput
from polyceptron.files import check_outputs
from polyceptron.progress import say, waiting
from polyceptron.rows import Row

if TYPE_CHECKING:
    import pandas as pd

    from polyceptron.lab.spec import SweepSpec
    from polyceptron.report.verify.check import Check
    from polyceptron.store import Store


def sweep(
    spec: Annotated[
        Path, typer.Argument(metavar="SPEC", help="TOML file that describes the sweep.")
    ],
    store: Annotated[
        Path,
        option(
            "File for the results. If it exists, the sweep computes only what is missing there.",
            metavar="FILE",
        ),
    ],
    workers: int | None = setting(
        None,
        "Number of processes on this machine, for example 4.",
        metavar="N",
        show_default="one per processor",
    ),
    cluster: str | None = setting(
        None,
        "Dask scheduler that distributes the work, for example tcp://host:8786.",
        metavar="ADDRESS",
    ),
    dry_run: bool = setting(
        False,
        "Only show the size of the grid and how much of it is stored already.",
        "--dry-run",
    ),
) -> None:
    """Compute a grid of theory, message passing and fits. The same command resumes a stopped sweep.

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
        say(f"stopped with {stopped.report.done} of {stopped.report.rows} rows stored")
        command = ["polyceptron", "sweep", str(spec), "--store", str(store)]
        if workers:
            command += ["--workers", str(workers)]
        if cluster:
            command += ["--cluster", cluster]
        say(f"resume with: {shlex.join(command)}")
        raise typer.Exit(128 + stopped.signal_number) from None
    say(
        f"{report.rows} rows: {report.already} were stored, {report.computed - report.failed} "
        f"computed in {describe_seconds(report.seconds)}, {report.failed} failed"
    )
    if report.damaged:
        rows = named(report.damaged, "stored row")
        say(f"computed again, because they had been changed after they were written: {rows}")
    if report.failed:
        say(f"to see why rows failed: polyceptron results {shlex.quote(str(store))} --failures")
        say("to try the failed rows again, run the same sweep")
        raise typer.Exit(1)


def merge(
    sources: Annotated[
        list[Path], typer.Argument(metavar="STORE", help="Stores to copy the results from.")
    ],
    into: Annotated[
        Path, option("Store that receives the results. It is created if missing.", metavar="FILE")
    ],
) -> None:
    """Copy the results of several stores into one store.

    Example: polyceptron merge laptop.sqlite cluster.sqlite --into all.sqlite
    """
    from polyceptron.store import merge_stores

    with waiting(f"merging into {into}"):
        report = merge_stores(into, sources)
    kept = ""
    if report.differing:
        kept = f", {report.differing} of them with other numbers, which were kept"
    say(f"added {report.added} rows to {into}; {report.already} were there already{kept}")
    if report.damaged:
        rows = named(report.damaged, "row")
        say(f"not copied, because they had been changed after they were written: {rows}")
        raise typer.Exit(1)


def named(keys: Sequence[str], what: str) -> str:
    """Return the number of rows and the keys of the first five, as '3 rows (a, b, c)'."""
    shown = ", ".join(keys[:5])
    if len(keys) > 5:
        shown += ", ..."
    if len(keys) > 1:
        what += "s"
    return f"{len(keys)} {what} ({shown})"


def _show_plan(spec: SweepSpec, store: Path, workers: int | None) -> None:
    """Print the parts of a sweep, what of it is stored, and the size of its largest data set."""
    import joblib

    from polyceptron.lab.sweep import make_plan
    from polyceptron.store import Store

    with waiting("planning"), ExitStack() as stack:
        opened = None
        if store.exists():
            opened = stack.enter_context(Store(store))
        plan = make_plan(spec, opened)
    columns = ("source", "estimator", "dimension", "rows", "stored", "to_do")
    parts = []
    for place, part in plan.parts.items():
        numbers = (part.rows, part.stored, part.rows - part.stored)
        parts.append(dict(zip(columns, (*place, *numbers), strict=True)))
    print_table(parts, columns, "the grid", optional=("stored", "dimension"))
    megabytes = plan.largest_bytes / 1e6
    size = f"{megabytes:.3g} MB"
    if megabytes >= 999:
        size = f"{megabytes / 1e3:,.0f} GB"
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
    "standard_error": ("std. error", ".1e"),
    "theory": ("theory", ".6g"),
    "deviation": ("z", "+.1f"),
    "not_converged": ("not conv.", "d"),
    "failed": ("failed", "d"),
}
_FAILED = ("source", "estimator", "n_classes", "noise", "ridge", "alpha", "dimension", "seed")


def results(
    store: Annotated[
        Path, typer.Argument(metavar="STORE", help="Store that `polyceptron sweep` has written.")
    ],
    quantity: str = setting(
        "generalisation_error",
        "Column to average, for example m, q or test_loss.",
        metavar="COLUMN",
    ),
    spec: Path | None = setting(
        None, "Sweep file: use only the rows that it asks for.", metavar="FILE"
    ),
    failures: bool = setting(
        False, "List the rows that failed, each with its reason.", "--failures"
    ),
    summary: bool = setting(
        False,
        "Write the means over runs to --csv or --parquet instead of every row.",
        "--summary",
    ),
    csv: Path | None = setting(None, "Write every row to this CSV file.", metavar="FILE"),
    parquet: Path | None = setting(None, "Write every row to this Parquet file.", metavar="FILE"),
    as_json: bool = setting(False, "Print JSON instead of the table.", "--json"),
) -> None:
    """Compare the means over runs in a store with the theory, or write every row to a file.

    In the table, z is the distance of the mean from the theory in standard errors.

    Example: polyceptron results runs.sqlite --csv rows.csv
    """
    from polyceptron.lab.spec import load_spec
    from polyceptron.store import BESIDE, Store

    check_outputs(csv, parquet, inputs=[store, *(f"{store}{end}" for end in BESIDE), spec])
    sweep = None
    if spec is not None:
        sweep = load_spec(spec)
    with Store(store) as opened, waiting(f"reading {store}"):
        damaged = opened.damaged()
        if failures:
            _show_failures(opened, as_json)
        elif csv is None and parquet is None:
            _show_means(opened, quantity, sweep, as_json)
        else:
            table = _table_of_store(opened, quantity, sweep, means=summary)
            _write_table(table, csv, parquet)
    if damaged:
        say(
            f"left out {named(damaged, 'row')} of {store}, because they were changed after they "
            "were written: run the sweep again to compute them, or merge the store into a new one"
        )
        raise typer.Exit(1)


def _show_failures(store: Store, as_json: bool) -> None:
    """Print the rows that failed, each with its reason below it."""
    from polyceptron.lab.results import failures

    rows = failures(store)
    if rows or as_json:
        optional = ("seed", "noise", "n_classes")
        Output(as_json)(rows, _FAILED, optional=optional, below="reason")
    else:
        say(f"no row of {store.path} failed")


def _show_means(store: Store, quantity: str, spec: SweepSpec | None, as_json: bool) -> None:
    """Print the means over instances, with theory beside them."""
    from polyceptron.lab.results import summary

    lines = summary(store, quantity=quantity, spec=spec)
    numbers = {line.get("mean") for line in lines} | {line["theory"] for line in lines}
    if lines and numbers == {None}:
        raise InvalidInput(f"no row of {str(store.path)!r} has a number in {quantity!r}")
    if as_json:
        print_json(lines)
        return
    typer.echo(visible(f"{quantity} in {store.path}: {len(store)} rows"))
    _show_summary(lines)


def _table_of_store(
    store: Store, quantity: str, spec: SweepSpec | None, *, means: bool
) -> pd.DataFrame:
    """Return the means over instances, or every row, of a sweep if one is given."""
    from polyceptron.lab.results import summary_frame
    from polyceptron.lab.tasks import sweep_keys

    if means:
        return summary_frame(store, quantity, spec)
    if spec is not None:
        return store.frame(sweep_keys(spec))
    return store.frame()


def _write_table(table: pd.DataFrame, csv: Path | None, parquet: Path | None) -> None:
    """Write the table to the files that were asked for."""
    from polyceptron.lab.results import write_csv, write_parquet

    if csv is not None:
        write_csv(table, csv)
        say(f"wrote {len(table)} rows to {csv}")
    if parquet is not None:
        write_parquet(table, parquet)
        say(f"wrote {len(table)} rows to {parquet}")


def _show_summary(lines: list[Row]) -> None:
    """Print one table for each problem and estimator, which fits in 80 columns."""
    for title, group in groupby(lines, key=describe_row):
        shown = [_short_line(line) for line in group]
        columns = [short for short, _ in _SUMMARY.values()]
        for count in ("not conv.", "failed"):
            if all(line[count] == "0" for line in shown):
                columns.remove(count)
        typer.echo()
        print_table(shown, columns, title, optional=("d", "ridge"))


def _short_line(line: Row) -> dict[str, str | None]:
    """Return a line of the summary with short names and few digits."""
    shown: dict[str, str | None] = {}
    for name, (short, style) in _SUMMARY.items():
        value = line.get(name)
        shown[short] = None
        if value is not None:
            shown[short] = format(value, style)
    return shown


_SOURCES = "Stores of a sweep or CSV files; several are drawn in one picture."


def plot(
    sources: Annotated[list[Path], typer.Argument(metavar="STORE_OR_CSV", help=_SOURCES)],
    out: Path | None = setting(
        None,
        "Picture to write: .pdf, .png or .svg.",
        *("--out", "-o"),
        metavar="FILE",
        show_default="a .pdf with the name of the first source",
    ),
    x: str = setting(
        "alpha", "Column on the horizontal axis, for example ridge or n_classes.", metavar="COLUMN"
    ),
    y: str = setting(
        "generalisation_error",
        "Column on the vertical axis, for example q or training_loss.",
        metavar="COLUMN",
    ),
    where: list[str] = setting(
        [],
        "Draw only the rows with this value, for example ridge=1. Repeat the option for several "
        "conditions.",
        metavar="COLUMN=VALUE",
    ),
    log_x: bool | None = setting(
        None,
        "Make the horizontal axis logarithmic or linear.",
        "--log-x/--linear-x",
        show_default="logarithmic over two decades or more",
    ),
    log_y: bool = setting(False, "Make the vertical axis logarithmic.", "--log-y"),
    overwrite: Overwrite = False,
) -> None:
    """Draw stores or tables: theory as lines, experiments as symbols with standard errors.

    Example: polyceptron plot runs.sqlite --where ridge=1 --out curve.pdf
    """
    import pandas as pd

    from polyceptron.pictures import matplotlib_figure
    from polyceptron.pictures.curves import curves_picture
    from polyceptron.pictures.tables import read_table, select_rows

    tables = [read_table(path).assign(table=i) for i, path in enumerate(sources)]
    table = select_rows(pd.concat(tables, ignore_index=True), where)
    target = Path(sources[0].stem + ".pdf") if out is None else out
    matplotlib_figure.check_figure_path(target)
    check_outputs(target, inputs=sources)
    if out is None:
        check_unnamed(target, overwrite)
    picture = curves_picture(table, x, y, log_x=log_x, log_y=log_y)
    matplotlib_figure.save_figure(matplotlib_figure.render_matplotlib(picture), target)
    say(f"drew {target}")


def figures(
    out: Path = setting(
        Path("figures"), "Folder for the figures. It is created if missing.", metavar="FOLDER"
    ),
    only: list[str] = setting(
        [],
        "Figure to make: {figures}. Repeat the option for several.",
        "--only",
        metavar="NAME",
        show_default="all figures",
    ),
    profile: str = setting(
        "quick",
        "Size of the computation: quick (minutes) or paper (the sizes of the paper, hours).",
        metavar="NAME",
    ),
    workers: int | None = setting(
        None,
        "Number of processes, for example 4.",
        min=1,
        metavar="N",
        show_default="one per processor",
    ),
    overwrite: Overwrite = False,
) -> None:
    """Compute and draw all figures, and write the data and the specification of each.

    If you stop the command, run it again to resume: finished computations stay in the folder
    OUT/computed. Delete that folder to start afresh. The file OUT/agreement.csv compares every
    symbol with its line.

    Example: polyceptron figures --only fig2a --only fig3
    """
    from polyceptron.report.figures import making
    from polyceptron.report.figures.agreement import verdict

    check_figure_files(out, making.files_of_figures(out, only), overwrite)
    try:
        written = making.make_figures(out, only, profile, workers=workers, progress=True)
    except KeyboardInterrupt as stop:
        say("stopped: run the same command to resume")
        raise typer.Exit(128 + getattr(stop, "signal_number", 2)) from None
    say(str(verdict(making.read_agreement(out))))
    say(f"wrote {len(written)} files to {out}: open {out / 'index.html'}")


def verify(
    full: bool = setting(
        False, "Check more classes, dimensions and runs, which takes minutes.", "--full"
    ),
    as_json: bool = setting(False, "Print the checks as JSON at the end.", "--json"),
) -> None:
    """Check that polyceptron computes correct numbers on this machine, in about a minute.

    It compares its numbers with published values, closed forms, identities, message passing and
    fits of scikit-learn, and shows each difference beside the largest one allowed. A check is "ok",
    "failed", or "differs": then our number agrees with an independent computation, but not with
    the one printed in the paper. The exit code is 1 if a check has failed.

    Example: polyceptron verify
    """
    import sklearn

    from polyceptron.lab.tasks import environment
    from polyceptron.report.verify.run import verify as run

    begin = time.perf_counter()
    checks = []
    with waiting("checking") as show:
        for check in run(full, lambda name: show(f"checking {name}")):
            checks.append(check)
            if not as_json:
                _show_check(check)
    if as_json:
        print_json(_row_of_check(check) for check in checks)
    failed = [check for check in checks if check.verdict == "failed"]
    seconds = time.perf_counter() - begin
    programs = environment() | {"scikit-learn": sklearn.__version__}
    versions = ", ".join(f"{name} {version}" for name, version in programs.items())
    outcome = "none failed"
    if failed:
        outcome = f"{len(failed)} failed"
    say(f"{len(checks)} checks in {seconds:.0f} s, {outcome} ({versions})")
    for check in failed:
        say(f"failed: {check.check}: {check.note or check.source}")
    if failed:
        raise typer.Exit(1)


def _row_of_check(check: Check) -> Row:
    """Return a check with what follows from its numbers."""
    row = {**vars(check), "difference": check.difference, "verdict": check.verdict}
    if check.verdict == "ok":
        row["note"] = ""
    return row


def _show_check(check: Check) -> None:
    """Print two lines: name and verdict, then the numbers and how far apart they may be."""
    typer.secho(f"{check.verdict:8}{check.check}", bold=check.verdict == "failed")
    numbers = f"{check.ours:.7g} against {check.reference:.7g}, {check.source}"
    if check.verdict == "differs":
        typer.echo(f"        {check.ours:.7g} {check.note}")
    elif check.verdict == "ok":
        typer.echo(f"        {numbers}: {abs(check.difference):.0e} ≤ {abs(check.allowed):.0e}")
    elif math.isnan(check.ours):
        typer.echo(f"        no number came out. {check.note}".rstrip())
    else:
        typer.echo(f"        {numbers}: {abs(check.difference):.0e} > {abs(check.allowed):.0e}")
    sys.stdout.flush()


LOOPBACK = "127.0.0.1"
WARNING = (
    "warning: other machines can reach this server. Everyone who has the address can compute here, "
    "and the connection is not encrypted\n"
)


def explore(
    port: int = setting(
        8050,
        "Port of the server; 0 takes any free port.",
        min=0,
        max=65535,
        metavar="N",
    ),
    host: str | None = setting(
        None,
        "Address of this machine under which other computers reach the server.",
        metavar="ADDRESS",
        show_default="this machine only",
    ),
    browser: bool = setting(True, "Open the page in a browser.", "--browser/--no-browser"),
    no_token: bool = setting(False, "Leave the token out of the address.", "--no-token"),
) -> None:
    """Explore learning curves and simulations in a browser.

    The command prints an address; the page opens there after a few seconds. The server stops a
    curve after 180 s and a simulation after 300 s, or when either needs more than 0.8 GB of memory;
    the page then says so.

    The address contains a token, so that other users of this machine cannot compute here. A
    browser that polyceptron starts shows the address in the list of processes: where other people
    use the machine, use --no-browser and open the address yourself.

    Example: polyceptron explore --port 8051
    """
    require_dash()
    if no_token and host is not None:
        raise InvalidInput(
            "--no-token works on this machine only: leave out --host, or keep the token"
        )
    key = None
    if not no_token:
        key = secrets.token_urlsafe(16)
    with listen(port, host or LOOPBACK) as here:
        address = address_of(here, host or LOOPBACK, key)
        if host is not None:
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
    """Return a socket that listens there (port 0: any free one)."""
    reason = f"{host!r} is not an address or a name of this machine"
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address, family=family, backlog=128)
    except PermissionError:
        reason = f"port {port} needs administrator rights: choose one above 1023"
    except (OSError, UnicodeError, ValueError) as error:
        if getattr(error, "errno", None) == errno.EADDRINUSE:
            reason = f"port {port} is in use: choose another with --port, or 0 for any free one"
    raise InvalidInput(reason)


def address_of(here: socket.socket, host: str, key: str | None) -> str:
    """Return the address to open in a browser."""
    try:
        everywhere = ipaddress.ip_address(host).is_unspecified
    except ValueError:
        everywhere = False
    name = host
    if everywhere:
        name = socket.gethostname()
    if ":" in name:  # an IPv6 address
        name = f"[{name}]"
    address = f"http://{name}:{here.getsockname()[1]}/"
    if key:
        address += f"?token={key}"
    return address


COMMANDS = (sweep, results, merge, plot, figures, verify, explore)
