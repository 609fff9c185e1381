"""Guard numbers and run times while the code behind them is rewritten.

    python tools/guard.py freeze tests/guard/frozen.csv     compute every case and keep the answers
    python tools/guard.py compare tests/guard/frozen.csv    compute them again and list what changed
    python tools/guard.py time OLD NEW                      list what a new checkout does slower

The cases are calls of the public interface (`guard_cases.py`), so that nothing here needs to change
when modules move. Of every answer the table keeps each number that has an error bar, with its bar,
the status and the CPU time. A row is

    case, quantity, value, bar, status, seconds

with all digits of the value. Times in the table are for orientation: they hold on the machine, and
under the load, of the day. `time` compares two checkouts in turns on one machine instead.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any, TextIO

from scipy.linalg import toeplitz

import polyceptron as pc
from guard_cases import cases

COLUMNS = ("case", "quantity", "value", "bar", "status", "seconds")

# Statuses of cases without a result: there is no theory, it says that it failed, it crashed.
REFUSED = "refused"
FAILED = "failed"
CRASHED = "crashed"

# Two values agree if they differ by no more than the sum of their bars and this much, relative to
# the larger of 1 and the value: closed forms have a bar of 0 and are rounded differently.
ROUNDING = 1e-12
# A bar has changed if the larger of the two is more than this many times the smaller. Bars below
# the second number are made of rounding and are not compared.
CHANGED_BAR_RATIO = 1.25
SMALLEST_COMPARED_BAR = 1e-9

# A case is slower if it takes more than this many times as long, and more than so many CPU seconds.
SLOWER_RATIO = 1.25
SHORTEST_TIMED = 0.02
CASES_PER_PROCESS = 40
# Before anything is timed these load the modules that are imported on first use.
WARM_UP = (
    "learning_curve(Teacher(2), ['bayes', 'cross-entropy', 'one-vs-rest'], 1)",
    "learning_curve(Mixture((0.7, 0.3), separation=2), 'cross-entropy', 1)",
)


@dataclass(frozen=True)
class Quantity:
    """A number of an answer and its error bar."""

    name: str
    value: float
    bar: float


@dataclass(frozen=True)
class Answer:
    """What a case gave: its numbers, its status and the CPU time that it took."""

    case: str
    quantities: tuple[Quantity, ...]
    status: str
    seconds: float


@dataclass(frozen=True)
class Change:
    """A difference between a frozen answer and one of today."""

    case: str
    what: str  # value, bar, status, or which numbers there are
    detail: str

    def __str__(self) -> str:
        return f"{self.what} changed: {self.detail}\n    {self.case}"


@dataclass(frozen=True)
class Timing:
    """The shortest CPU time of a case in each of two checkouts."""

    case: str
    old: float
    new: float

    @property
    def ratio(self) -> float:
        """How many times as long the new checkout takes."""
        return self.new / self.old

    @property
    def slower(self) -> bool:
        """Whether the new checkout takes longer than is allowed."""
        return self.new > SHORTEST_TIMED and self.new > SLOWER_RATIO * self.old

    def __str__(self) -> str:
        return f"{self.ratio:5.2f}  {self.old:8.3f} s  {self.new:8.3f} s  {self.case}"


# Asking


def ask(case: str) -> Answer:
    """Compute a case and read its numbers."""
    known_names = {name: getattr(pc, name) for name in pc.__all__}
    known_names["toeplitz"] = toeplitz
    result = None
    problem = ""
    start = time.process_time()
    try:
        result = eval(case, known_names)
    except pc.InvalidInput:
        problem = REFUSED
    except pc.ComputationFailed:
        problem = FAILED
    except Exception as error:
        problem = f"{CRASHED}: {error!r}"
    seconds = time.process_time() - start
    if problem:
        return Answer(case, (), problem, seconds)
    rows = result_rows(result)
    quantities: list[Quantity] = []
    for row in rows:
        label = row_label(row) if len(rows) > 1 else ""
        quantities += numbers_with_bars(row, label)
    statuses = dict.fromkeys(row_status(row) for row in rows)
    return Answer(case, tuple(quantities), " ".join(statuses), seconds)


def result_rows(result: Any) -> list[dict[str, Any]]:
    """Return what a result says, a dictionary for each row of its table or point of its list."""
    if hasattr(result, "frame"):
        return list(result.frame.to_dict("records"))
    if isinstance(result, list):
        return [named_fields(point) for point in result]
    return [named_fields(result)]


def named_fields(result: Any) -> dict[str, Any]:
    """Return the fields of a dataclass or a named tuple."""
    if dataclasses.is_dataclass(result):
        return {field.name: getattr(result, field.name) for field in dataclasses.fields(result)}
    return dict(result._asdict())


def row_label(row: Mapping[str, Any]) -> str:
    """Return what distinguishes a row from the others of the same result."""
    if "branch" in row:
        return str(row["branch"])
    return f"{row['quantity']}, fits {row['fits']}:"


def row_status(row: Mapping[str, Any]) -> str:
    """Return the status of a row, of the row inside a plan, or of a decision's fixed point."""
    if "status" in row:
        return str(row["status"])
    if "row" in row:
        return str(row["row"].get("status", ""))
    if "point" in row:
        return str(row["point"].status)
    return ""


def numbers_with_bars(row: Mapping[str, Any], label: str) -> list[Quantity]:
    """Return each number of a row for which the row also has an error bar."""
    found = []
    for name, value in row.items():
        bar_name = f"{name}_uncertainty"
        if name in ("generalisation_error", "value"):
            bar_name = "uncertainty"
        bar = row.get(bar_name)
        if is_number(value) and is_number(bar) and not math.isnan(value):
            found.append(Quantity(f"{label} {name}".strip(), float(value), float(bar)))
    return found


def is_number(value: Any) -> bool:
    """Return whether a value is one number, Python's or numpy's."""
    return value is not None and not isinstance(value, str) and getattr(value, "ndim", 0) == 0


# The table


def write_table(file: TextIO, answers: Iterable[Answer]) -> None:
    """Write answers as CSV; one without numbers is a row with its status alone."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    for answer in answers:
        seconds = f"{answer.seconds:.3g}"
        for quantity in answer.quantities:
            value, bar = repr(quantity.value), f"{quantity.bar:.3g}"
            writer.writerow([answer.case, quantity.name, value, bar, answer.status, seconds])
        if not answer.quantities:
            writer.writerow([answer.case, "", "", "", answer.status, seconds])


def read_table(file: TextIO) -> dict[str, Answer]:
    """Return the answers of a table by their case, in its order."""
    answers: dict[str, Answer] = {}
    for row in csv.DictReader(file):
        case = row["case"]
        quantities: tuple[Quantity, ...] = ()
        if case in answers:
            quantities = answers[case].quantities
        if row["quantity"]:
            new = Quantity(row["quantity"], float(row["value"]), float(row["bar"]))
            quantities = (*quantities, new)
        answers[case] = Answer(case, quantities, row["status"], float(row["seconds"]))
    return answers


def read_frozen(path: Path) -> dict[str, Answer]:
    """Return the answers of the table in a file."""
    with path.open(encoding="utf-8", newline="") as file:
        return read_table(file)


# What changed


def changes(frozen: Answer, today: Answer) -> list[Change]:
    """List in which ways an answer of today differs from the frozen one."""
    found = []
    if frozen.status != today.status:
        detail = f"{frozen.status or 'none'} to {today.status or 'none'}"
        found.append(Change(frozen.case, "status", detail))
    before = {quantity.name: quantity for quantity in frozen.quantities}
    after = {quantity.name: quantity for quantity in today.quantities}
    if before.keys() != after.keys():
        detail = f"{', '.join(before) or 'none'} to {', '.join(after) or 'none'}"
        found.append(Change(frozen.case, "names of numbers", detail))
    for name in before.keys() & after.keys():
        found += number_changes(frozen.case, before[name], after[name])
    return found


def number_changes(case: str, before: Quantity, after: Quantity) -> list[Change]:
    """List whether a value left its bars, and whether the bar became longer or shorter."""
    found = []
    if not agree(before, after):
        old, new = (f"{one.value!r} ± {one.bar:.2g}" for one in (before, after))
        found.append(Change(case, "value", f"{before.name} {old} to {new}"))
    shorter, longer = sorted((before.bar, after.bar))
    if longer > CHANGED_BAR_RATIO * shorter and longer > SMALLEST_COMPARED_BAR:
        detail = f"{before.name} {before.value:.6g} ± {before.bar:.2g} to ± {after.bar:.2g}"
        found.append(Change(case, "bar", detail))
    return found


def agree(before: Quantity, after: Quantity) -> bool:
    """Return whether two values are the same within their bars and rounding."""
    if not math.isfinite(before.value) or not math.isfinite(after.value):
        return repr(before.value) == repr(after.value)
    rounding = ROUNDING * max(1.0, abs(before.value))
    return abs(after.value - before.value) <= before.bar + after.bar + rounding


# Timing


def shorter_times(
    source: Path, calls: Sequence[str], known: Mapping[str, float]
) -> dict[str, float]:
    """Time calls in a fresh process, which imports polyceptron from `source`.

    Returns the new time of each call, or the known one where that is shorter.
    """
    environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "answer", "--source", str(source)]
    text = "\n".join(calls)
    output = subprocess.run(
        command, input=text, env=environment, stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    answers = read_table(StringIO(output))
    return {case: min(answers[case].seconds, known.get(case, math.inf)) for case in calls}


def timings(old: Path, new: Path, calls: Sequence[str], repeats: int) -> list[Timing]:
    """Return the shortest of `repeats` times of every call, with the two checkouts taking turns."""
    found = []
    for first in range(0, len(calls), CASES_PER_PROCESS):
        part = calls[first : first + CASES_PER_PROCESS]
        old_times: dict[str, float] = {}
        new_times: dict[str, float] = {}
        for _ in range(repeats):
            old_times = shorter_times(old, part, old_times)
            new_times = shorter_times(new, part, new_times)
        found += [Timing(case, old_times[case], new_times[case]) for case in part]
        tell(f"{first + len(part)} of {len(calls)} cases timed")
    return found


def source_folder(checkout: str) -> Path:
    """Return the folder from which a checkout's package is imported."""
    for folder in (Path(checkout) / "src", Path(checkout)):
        if (folder / "polyceptron").is_dir():
            return folder.resolve()
    raise SystemExit(f"there is no package polyceptron in {checkout} or in its folder src")


# Commands


def freeze(path: Path, processes: int) -> int:
    """Compute every case, write the table, and list what differs from the one that was there.

    Cases without a theory are left out, and those that crash, which are shown.
    """
    previous = read_frozen(path) if path.exists() else {}
    everything = ask_all(cases(), processes)
    refused = [answer for answer in everything if answer.status == REFUSED]
    crashed = [answer for answer in everything if answer.status.startswith(CRASHED)]
    left_out = {answer.case for answer in (*refused, *crashed)}
    answers = {answer.case: answer for answer in everything if answer.case not in left_out}
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        write_table(file, answers.values())
    seconds = sum(answer.seconds for answer in answers.values())
    show(f"{len(answers)} cases frozen, {seconds:.0f} s; {len(refused)} without a theory left out")
    for answer in crashed:
        show(f"left out, {answer.status}\n    {answer.case}")
    if previous:
        report_new_and_lost(previous, answers)
        report_changes(previous, answers)
    return 0


def compare(path: Path, processes: int) -> int:
    """Compute the cases of a table again and list what changed; 1 if anything did."""
    frozen = read_frozen(path)
    today = {answer.case: answer for answer in ask_all(list(frozen), processes)}
    return 1 if report_changes(frozen, today) else 0


def compare_times(old: str, new: str, repeats: int, only: str) -> int:
    """List the cases that a new checkout computes more slowly; 1 if there are any.

    What seems slower is timed again, twice as often, before it is listed.
    """
    sources = source_folder(old), source_folder(new)
    calls = [case for case in cases() if only in case]
    suspects = [timing.case for timing in timings(*sources, calls, repeats) if timing.slower]
    tell(f"{len(suspects)} cases seem slower and are timed again")
    slower = [timing for timing in timings(*sources, suspects, 2 * repeats) if timing.slower]
    show(f"{len(slower)} of {len(calls)} cases take more than {SLOWER_RATIO} times as long")
    for timing in sorted(slower, key=lambda timing: -timing.ratio):
        show(str(timing))
    return 1 if slower else 0


def answer_calls(source: str) -> int:
    """Answer the calls on standard input, a line each, with a table on standard output."""
    if Path(source).resolve() not in Path(pc.__file__).resolve().parents:
        raise SystemExit(f"polyceptron was imported from {pc.__file__}, not from {source}")
    calls = sys.stdin.read().splitlines()
    for case in WARM_UP:
        ask(case)
    write_table(sys.stdout, [ask(case) for case in calls])
    return 0


def ask_all(calls: Sequence[str], processes: int) -> list[Answer]:
    """Answer calls in several processes, on which no number depends; tell how far it is."""
    answers = []
    with ProcessPoolExecutor(processes) as pool:
        for answer in pool.map(ask, calls, chunksize=5):
            answers.append(answer)
            if len(answers) % 50 == 0:
                tell(f"{len(answers)} of {len(calls)} cases")
    return answers


def report_new_and_lost(previous: Mapping[str, Answer], answers: Mapping[str, Answer]) -> None:
    """Show which cases a new table has that the previous one had not, and the other way round."""
    for case in answers.keys() - previous.keys():
        show(f"new case\n    {case}")
    for case in previous.keys() - answers.keys():
        show(f"no longer a case\n    {case}")


def report_changes(frozen: Mapping[str, Answer], today: Mapping[str, Answer]) -> list[Change]:
    """Show and return what changed in the cases that both tables have."""
    both = [case for case in frozen if case in today]
    found = [change for case in both for change in changes(frozen[case], today[case])]
    for change in found:
        show(str(change))
    changed = {change.case for change in found}
    show(f"{len(changed)} of {len(both)} cases changed")
    return found


def show(text: str) -> None:
    """Write a line of the result."""
    sys.stdout.write(text + "\n")


def tell(text: str) -> None:
    """Write a line about progress."""
    sys.stderr.write(text + "\n")


def main() -> int:
    """Run the command that the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name, summary in (
        ("freeze", "compute every case and write the table"),
        ("compare", "compute the cases of a table again and list what changed"),
    ):
        command = commands.add_parser(name, help=summary)
        command.add_argument("file", type=Path)
        command.add_argument("--processes", type=int, default=1)
    command = commands.add_parser("time", help="list what a new checkout computes more slowly")
    command.add_argument("old", help="folder of the old checkout, or its src")
    command.add_argument("new", help="folder of the new checkout, or its src")
    command.add_argument("--repeats", type=int, default=2, help="processes for each checkout")
    command.add_argument("--only", default="", help="time only cases that contain this text")
    command = commands.add_parser("answer", help="what `time` starts: calls in, a table out")
    command.add_argument("--source", required=True)
    given = parser.parse_args()
    if given.command == "freeze":
        return freeze(given.file, given.processes)
    if given.command == "compare":
        return compare(given.file, given.processes)
    if given.command == "time":
        return compare_times(given.old, given.new, given.repeats, given.only)
    return answer_calls(given.source)


if __name__ == "__main__":
    raise SystemExit(main())
