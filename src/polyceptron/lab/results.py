"""What a store holds, for people: means over instances with theory beside them, failures, files."""

import json
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from polyceptron.errors import InvalidInput
from polyceptron.files import write_atomically
from polyceptron.lab.spec import SweepSpec
from polyceptron.lab.tasks import POPULATION, STUDENT, sweep_keys
from polyceptron.numerics.averages import Average, deviation
from polyceptron.rows import Row, Status, without_formulas
from polyceptron.store import Store, decode_row, sort_key
from polyceptron.students.bayes import REACHED

_PROBLEM = (*POPULATION, "estimator", *STUDENT, "alpha")
SUMMARY_COLUMNS = (
    "source",
    *_PROBLEM,
    "dimension",
    "start",
    "branch",
    "instances",
    "mean",
    "standard_error",
    "theory",
    "theory_uncertainty",
    "deviation",
    "not_converged",
    "failed",
)
QUANTITIES = (
    "generalisation_error",
    "balanced_error",
    "clean_error",
    "m",
    "q",
    "V",
    "training_error",
    "training_loss",
    "test_loss",
    "brier",
    "calibration_error",
)


def summary(
    store: Store, *, quantity: str = "generalisation_error", spec: SweepSpec | None = None
) -> list[Row]:
    """Return a row for each point of the grid: mean, its standard error, and theory beside.

    Rows that did not converge are in the mean. Message passing stands beside the branch of the
    theory that it reaches from its start. `deviation` is z; a finite dimension adds a bias of order
    1/d to it. Theory that no simulation stands beside has lines of its own.
    """
    if quantity not in QUANTITIES:
        raise InvalidInput(f"unknown quantity {quantity!r}: allowed are {', '.join(QUANTITIES)}")
    groups: dict[str, tuple[Row, list[Row]]] = {}  # what is asked for, and rows of its instances
    theory: dict[tuple[object, ...], Row] = {}
    for record in store.records(None if spec is None else sweep_keys(spec)):
        content = json.loads(record["task"])
        row = decode_row(record["row"])
        if content["source"] == "theory":
            theory[_place(content, content.get("branch", ""))] = row
            continue
        content.pop("seed_path")
        groups.setdefault(json.dumps(content, sort_keys=True), (content, []))[1].append(row)
    lines = []
    compared = set()
    for content, rows in groups.values():
        start = content.get("start")
        place = _place(content, "" if start is None else REACHED[start])
        compared.add(place)
        beside = theory.get(place, {})
        line = _line(rows, beside, quantity)
        average = Average.of(row.get(quantity) for row in rows)
        mean = average.mean
        error = average.standard_error
        count = average.count
        z = deviation(mean, error, line["theory"], line["theory_uncertainty"], count=count)
        line |= {"start": start, "branch": beside.get("branch"), "instances": count}
        lines.append(line | {"mean": mean, "standard_error": error, "deviation": z})
    lines += [_line([row], row, quantity) for place, row in theory.items() if place not in compared]
    return sorted(lines, key=sort_key)


def _place(content: Mapping[str, object], branch: str) -> tuple[object, ...]:
    """Return what theory and simulation of one point have in common, and the branch."""
    return (*(content.get(name) for name in _PROBLEM), branch)


def _line(rows: list[Row], predicted: Row, quantity: str) -> Row:
    """Return the columns of a line that need no mean: the point, theory and statuses."""
    expected = predicted.get(quantity)
    statuses = [row["status"] for row in rows]
    known = quantity == "generalisation_error" and expected is not None
    return {
        **{column: rows[0][column] for column in SUMMARY_COLUMNS if column in rows[0]},
        "theory": expected,
        "theory_uncertainty": predicted.get("uncertainty") if known else None,
        "not_converged": statuses.count(str(Status.NOT_CONVERGED)),
        "failed": statuses.count(str(Status.FAILED)),
    }


def summary_frame(
    store: Store, quantity: str = "generalisation_error", spec: SweepSpec | None = None
) -> pd.DataFrame:
    """Return the means over instances with theory beside them, of a sweep if one is given.

    Parameters
    ----------
    store : Store
    quantity : str
        The column that is averaged.
    spec : SweepSpec, optional
        Restrict the table to the rows of this sweep.

    Returns
    -------
    pandas.DataFrame
        One row for each point of the grid.

    Examples
    --------
    >>> import tempfile
    >>> with Store(tempfile.mkdtemp() + "/runs.sqlite", create=True) as store:
    ...     len(summary_frame(store))
    0
    """
    return pd.DataFrame(summary(store, quantity=quantity, spec=spec), columns=SUMMARY_COLUMNS)


def failures(store: Store) -> list[Row]:
    """The rows that could not be computed, each with its reason."""
    rows = ({**decode_row(one["row"]), "reason": one["reason"]} for one in store.records())
    return sorted((row for row in rows if row["status"] == Status.FAILED), key=sort_key)


def write_csv(table: pd.DataFrame, path: Path) -> None:
    """Write a CSV file in one piece."""
    plain = without_formulas(table)
    write_atomically(path, lambda part: plain.to_csv(part, index=False))


def write_parquet(table: pd.DataFrame, path: Path) -> None:
    """Write a Parquet file in one piece; it needs the extra `export`."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise InvalidInput(
            "writing Parquet needs pyarrow: pip install 'polyceptron[export]', or use --csv"
        ) from None
    write_atomically(path, lambda temporary: table.to_parquet(temporary, index=False))
