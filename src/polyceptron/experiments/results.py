"""What a store says: all rows as a table, and means over instances with theory beside them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polyceptron.errors import InvalidInput
from polyceptron.experiments.spec import SweepSpec
from polyceptron.experiments.store import Store, decode_row
from polyceptron.experiments.tasks import expand
from polyceptron.files import write_atomically
from polyceptron.rows import COLUMNS, Status

if TYPE_CHECKING:
    import pandas as pd

SUMMARY_COLUMNS = (
    "source", "model", "n_classes", "prior", "estimator", "ridge", "alpha", "dimension", "start",
    "branch", "instances", "mean", "standard_error", "theory", "theory_uncertainty", "deviation",
    "not_converged", "failed",
)  # fmt: skip
QUANTITIES = ("generalisation_error", "m", "q", "V", "training_error", "training_loss")

_PROBLEM = ("model", "n_classes", "prior", "estimator", "ridge", "alpha")
_WHOLE = ("n_classes", "dimension", "n_samples", "seed")
# The theory that a run of message passing should reach, best first.
_BRANCHES = {"uninformed": ("amp", "optimal"), "informed": ("informed", "optimal")}


@dataclass
class _Group:
    """Running mean and variance of the rows that differ in their instance alone (Welford)."""

    shown: dict[str, Any]
    content: Mapping[str, Any]
    count: int = 0
    mean: float = 0.0
    squares: float = 0.0
    statuses: dict[str, int] = field(default_factory=dict)

    def add(self, value: float | None, status: str) -> None:
        self.statuses[status] = self.statuses.get(status, 0) + 1
        if value is not None and math.isfinite(value):
            self.count += 1
            step = value - self.mean
            self.mean += step / self.count
            self.squares += step * (value - self.mean)

    @property
    def standard_error(self) -> float | None:
        if self.count < 2:
            return None
        return math.sqrt(self.squares / (self.count - 1) / self.count)


def summary(
    store: Store, *, quantity: str = "generalisation_error", spec: SweepSpec | None = None
) -> list[dict[str, Any]]:
    """One row for each point of the grid: mean over instances, its standard error, theory beside.

    The mean is over every row that has a number; rows that did not converge are in it and are
    counted in `not_converged`, failed ones have no number and are counted in `failed`.
    `deviation` is (mean − theory) in units of its uncertainty; a finite dimension adds a bias of
    order 1/d to it. Points that only theory has are listed too.
    """
    if quantity not in QUANTITIES:
        raise InvalidInput(f"unknown quantity {quantity!r}: allowed are {', '.join(QUANTITIES)}")
    groups: dict[str, _Group] = {}
    theory: dict[tuple[Any, ...], dict[str, dict[str, Any]]] = {}
    for record in _records(store, spec):
        content, row = json.loads(record["task"]), decode_row(record["row"])
        if content["source"] == "theory":
            branch = content.get("branch", "")
            theory.setdefault(_problem(content), {})[branch] = row
            continue
        content.pop("seed_path")
        name = json.dumps(content, sort_keys=True)
        if name not in groups:
            shown = {column: row.get(column) for column in SUMMARY_COLUMNS if column in row}
            shown.pop("branch", None)
            groups[name] = _Group(shown | {"start": content.get("start")}, content)
        groups[name].add(row.get(quantity), row["status"])
    lines = [
        _line(group, theory.get(_problem(group.content), {}), quantity) for group in groups.values()
    ]
    simulated = {_problem(group.content) for group in groups.values()}
    for problem, branches in theory.items():
        if problem not in simulated:
            lines += [_theory_line(row, quantity) for row in branches.values()]
    return sorted(lines, key=_order)


def results_frame(store: Store, spec: SweepSpec | None = None) -> pd.DataFrame:
    """All rows as a table, in the order of the grid (with `spec`) or of a stable sort."""
    import pandas as pd

    rows = []
    for record in _records(store, spec):
        row = decode_row(record["row"])
        rows.append(row if record["reason"] is None else {**row, "reason": record["reason"]})
    if spec is None:
        rows.sort(key=_order)
    present = [c for c in (*COLUMNS, "reason") if any(c in row for row in rows)]
    table = pd.DataFrame(rows, columns=present)
    whole = {name: "Int64" for name in _WHOLE if name in present}  # empty cells stay empty
    return table.astype(whole)


def failures(store: Store) -> list[dict[str, Any]]:
    """The rows that could not be computed, each with its reason."""
    records = store.records(str(Status.FAILED))
    return sorted(
        ({**decode_row(record["row"]), "reason": record["reason"]} for record in records),
        key=_order,
    )


def write_csv(table: pd.DataFrame, path: str | Path) -> None:
    """Write a CSV file in one piece."""
    write_atomically(path, lambda temporary: table.to_csv(temporary, index=False))


def write_parquet(table: pd.DataFrame, path: str | Path) -> None:
    """Write a Parquet file in one piece; it needs the extra `export`."""
    check_parquet()
    write_atomically(path, lambda temporary: table.to_parquet(temporary, index=False))


def check_parquet() -> None:
    """Raise a sentence unless pyarrow is there."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise InvalidInput(
            "writing Parquet needs pyarrow: pip install 'polyceptron[export]', or use --csv"
        ) from None


def _records(store: Store, spec: SweepSpec | None) -> Iterable[dict[str, Any]]:
    if spec is None:
        return store.records()
    return store.records_of(key for task in expand(spec) for key in task.keys)


def _problem(content: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(content.get(name) for name in _PROBLEM)


def _line(group: _Group, theory: dict[str, dict[str, Any]], quantity: str) -> dict[str, Any]:
    branch = ""
    for branch in _BRANCHES.get(group.content.get("start", ""), ("",)):
        if branch in theory:
            break
    predicted = theory.get(branch, {})
    value, error = predicted.get(quantity), group.standard_error
    mean = group.mean if group.count else None
    uncertainty = predicted.get("uncertainty") if quantity == "generalisation_error" else None
    deviation = None
    if value is not None and mean is not None and error:
        deviation = (mean - value) / math.hypot(error, uncertainty or 0.0)
    return {
        **group.shown,
        "branch": branch if predicted and branch else None,
        "instances": group.count,
        "mean": mean,
        "standard_error": error,
        "theory": value,
        "theory_uncertainty": uncertainty if value is not None else None,
        "deviation": deviation,
        "not_converged": group.statuses.get(str(Status.NOT_CONVERGED), 0),
        "failed": group.statuses.get(str(Status.FAILED), 0),
    }


def _theory_line(row: dict[str, Any], quantity: str) -> dict[str, Any]:
    shown = {column: row.get(column) for column in SUMMARY_COLUMNS if column in row}
    uncertainty = row.get("uncertainty") if quantity == "generalisation_error" else None
    return {
        **shown,
        "theory": row.get(quantity),
        "theory_uncertainty": uncertainty,
        "not_converged": int(row["status"] == Status.NOT_CONVERGED),
        "failed": int(row["status"] == Status.FAILED),
    }


def _order(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """By problem, estimator and source, then by the numbers; absent values first."""
    texts = (row.get(name) for name in ("prior", "estimator", "source", "start", "branch"))
    numbers = (row.get(name) for name in ("ridge", "alpha", "dimension", "seed"))
    return (
        str(row.get("model") or ""),
        row.get("n_classes") or 0,
        *(str(text or "") for text in texts),
        *(-1.0 if number is None else float(number) for number in numbers),
    )
