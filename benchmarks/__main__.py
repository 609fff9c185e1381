"""`python -m benchmarks`: every bench_*.py of this folder in one run, as one table and one CSV.

Each `bench()` returns rows with name, ours_seconds, rival_seconds and a note (and an exponent where
growth was measured). The column `rival/ours` says how many times as long the rival took; where the
rival is a physical limit, such as two matrix products, it is below 1 and the note says what is
aimed at. Every comparison is made within one run, so that a busy machine slows both sides.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import os
import platform
import sys
import time
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
COLUMNS = (
    "date",
    "bench",
    "name",
    "ours_seconds",
    "rival_seconds",
    "rival/ours",
    "exponent",
    "note",
    "version",
    "python",
    "numpy",
    "scipy",
    "cores",
    "threads",
)


def main() -> int:
    """Run, print, write; the exit code is 1 if a benchmark failed."""
    names = sorted(path.stem.removeprefix("bench_") for path in FOLDER.glob("bench_*.py"))
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", action="append", choices=names, help="run this one; repeatable")
    parser.add_argument("--csv", type=Path, help="default: benchmarks/results/bench-DATE.csv")
    parser.add_argument("--size", type=float, help="GB of the file of bench_scale (default 0.5)")
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # both sides have one, as documented
        os.environ.setdefault(name, "1")
    given = parser.parse_args()
    if given.size is not None:
        os.environ["BENCH_SCALE_GB"] = str(given.size)
    sys.path.insert(0, str(FOLDER))  # the benchmarks import their rivals by name
    rows = []
    for name in given.only or names:
        begin = time.perf_counter()
        rows += run(name)
        print(f"{name}: {time.perf_counter() - begin:.0f} s", file=sys.stderr)
    show(rows)
    path = given.csv or FOLDER / "results" / f"bench-{datetime.date.today():%Y-%m-%d}.csv"
    path.parent.mkdir(exist_ok=True)
    write(path, rows)
    print(f"{len(rows)} rows in {path}", file=sys.stderr)
    return int(any(str(row["note"]).startswith("failed") for row in rows))


def run(name: str) -> list[dict[str, Any]]:
    """The rows of one benchmark; a failure is a row too."""
    try:
        rows = import_module(f"bench_{name}").bench()
    except Exception as error:  # the others are still worth having
        rows = [{"name": f"bench_{name}", "note": f"failed: {type(error).__name__}: {error}"}]
    return [{**row, "bench": name, "rival/ours": ratio(row), "note": describe(row)} for row in rows]


def ratio(row: dict[str, Any]) -> float | None:
    """How many times as long the rival took."""
    ours, rival = row.get("ours_seconds"), row.get("rival_seconds")
    return rival / ours if ours and rival else None


def describe(row: dict[str, Any]) -> str:
    """The note, with the benchmark's own ratio in front where it is the other way round."""
    note, own, usual = str(row.get("note", "")), row.get("ratio"), ratio(row)
    if own is None or usual is None or abs(own - usual) < 1e-6 * abs(own):
        return note
    return f"ours/rival {own:.3g}; {note}"


def show(rows: Iterable[dict[str, Any]]) -> None:
    """One table on the terminal."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD)
    table.add_column("what: against which rival")
    for title in ("ours, s", "rival, s", "rival/ours", "exponent"):
        table.add_column(title, justify="right")
    table.add_column("note")
    for row in rows:
        keys = ("ours_seconds", "rival_seconds", "rival/ours", "exponent")
        numbers = ["" if row.get(key) is None else f"{row[key]:.3g}" for key in keys]
        table.add_row(str(row["name"]), *numbers, str(row.get("note", "")))
    Console().print(table)


def write(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """The table as CSV, with the machine and the versions, so that runs can be compared."""
    import numpy
    import scipy

    import polyceptron

    machine = {
        "date": f"{datetime.date.today():%Y-%m-%d}",
        "version": polyceptron.__version__,
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else "",
        "threads": os.environ.get("OMP_NUM_THREADS", ""),
    }
    with path.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, COLUMNS, extrasaction="ignore")
        writer.writeheader()
        for row in rows:
            writer.writerow({**machine, **{k: _short(v) for k, v in row.items()}})


def _short(value: Any) -> Any:
    return f"{value:.4g}" if isinstance(value, float) else value


if __name__ == "__main__":
    sys.exit(main())
