"""What a store says: means over instances with theory beside them, failures, tables in files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polyceptron.errors import InvalidInput
from polyceptron.experiments.instance_averages import Average, deviation
from polyceptron.experiments.spec import SweepSpec
from polyceptron.experiments.spec_fields import REACHED
from polyceptron.experiments.store import Store
from polyceptron.experiments.stored_row import decode_row, sort_key
from polyceptron.experiments.tasks import NOISELESS, sweep_keys
from polyceptron.files import write_atomically
from polyceptron.rows import Status

if TYPE_CHECKING:
    import pandas as pd

SUMMARY_COLUMNS = (
    "source", "model", "n_classes", "prior", "noise", "features", "estimator", "ridge", "alpha",
    "dimension",
    "start", "branch", "instances", "mean", "standard_error", "theory", "theory_uncertainty",
    "deviation", "not_converged", "failed",
)  # fmt: skip
QUANTITIES = (
    "generalisation_error", "clean_error", "m", "q", "V", "training_error", "training_loss",
    "test_loss", "brier", "calibration_error",
)  # fmt: skip

_PROBLEM = ("model", "n_classes", "prior", "noise", "features", "estimator", "ridge", "alpha")


@dataclass
class _Group:
    """The rows that differ in their instance alone."""

    shown: dict[str, Any]
    content: Mapping[str, Any]
    value: Average = field(default_factory=Average)
    statuses: Counter[str] = field(default_factory=Counter)


def summary(
    store: Store, *, quantity: str = "generalisation_error", spec: SweepSpec | None = None
) -> list[dict[str, Any]]:
    """One row for each point of the grid: mean over instances, its standard error, theory beside.

    The mean is over every row that has a number; rows that did not converge are in it and are
    counted in `not_converged`, failed ones have no number and are counted in `failed`.
    Message passing stands beside its own branch of the theory: the one that it reaches from its
    start. `deviation` is (mean − theory) in units of its uncertainty; a finite dimension adds a
    bias of order 1/d to it. Theory that no simulation stands beside has lines of its own.
    """
    if quantity not in QUANTITIES:
        raise InvalidInput(f"unknown quantity {quantity!r}: allowed are {', '.join(QUANTITIES)}")
    groups: dict[str, _Group] = {}
    theory: dict[tuple[Any, ...], dict[str, dict[str, Any]]] = {}
    for record in _records(store, spec):
        # Rows from before there was noise have none.
        content = {"noise": NOISELESS} | json.loads(record["task"])
        row: dict[str, Any] = {"noise": NOISELESS} | decode_row(record["row"])
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
        groups[name].value.add(row.get(quantity))
        groups[name].statuses[row["status"]] += 1
    lines, compared = [], set()
    for group in groups.values():
        # message passing has its own branch of the theory; a minimiser of a loss has only one
        branch = REACHED[group.content["start"]] if "start" in group.content else ""
        problem = _problem(group.content)
        predicted = theory.get(problem, {}).get(branch, {})
        compared.add((problem, branch))
        lines.append(_line(group, branch, predicted, quantity))
    for problem, branches in theory.items():
        for branch, row in branches.items():
            if (problem, branch) not in compared:
                lines.append(_theory_line(row, quantity))
    return sorted(lines, key=sort_key)


def summary_frame(
    store: Store, *, quantity: str = "generalisation_error", spec: SweepSpec | None = None
) -> pd.DataFrame:
    """The summary as a table."""
    import pandas as pd

    lines = summary(store, quantity=quantity, spec=spec)
    return pd.DataFrame(lines, columns=list(SUMMARY_COLUMNS))


def failures(store: Store) -> list[dict[str, Any]]:
    """The rows that could not be computed, each with its reason."""
    records = store.records(str(Status.FAILED))
    return sorted(
        ({**decode_row(record["row"]), "reason": record["reason"]} for record in records),
        key=sort_key,
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
    return store.records_of(sweep_keys(spec))


def _problem(content: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(content.get(name) for name in _PROBLEM)


def _line(
    group: _Group, branch: str, predicted: Mapping[str, Any], quantity: str
) -> dict[str, Any]:
    mean, error = group.value.mean, group.value.standard_error
    expected = predicted.get(quantity)
    uncertainty = predicted.get("uncertainty") if quantity == "generalisation_error" else None
    return {
        **group.shown,
        "branch": branch if predicted and branch else None,
        "instances": group.value.count,
        "mean": mean,
        "standard_error": error,
        "theory": expected,
        "theory_uncertainty": uncertainty if expected is not None else None,
        "deviation": deviation(mean, error, expected, uncertainty),
        "not_converged": group.statuses[str(Status.NOT_CONVERGED)],
        "failed": group.statuses[str(Status.FAILED)],
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
