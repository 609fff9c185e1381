"""Tables behind figures: theory rows as they are, instances as their mean with its standard error.

A row of simulations has the columns of any row, with means over `instances`; `uncertainty` is the
standard error of the mean generalisation error, and the other means have `<name>_standard_error`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from polyceptron.rows import COLUMNS, VERSION, Status

if TYPE_CHECKING:
    import pandas as pd

AVERAGED = ("m", "q", "V", "generalisation_error", "training_error", "training_loss")
_POINT = (
    "source", "model", "n_classes", "prior", "estimator", "ridge", "alpha", "branch", "dimension",
    "n_samples",
)  # fmt: skip

Row = dict[str, Any]


def mean_and_error(values: Iterable[float]) -> tuple[float, float]:
    """The mean of finite values and its standard error (NaN for fewer than two)."""
    x = np.array([v for v in values if v is not None and math.isfinite(v)], dtype=float)
    if x.size == 0:
        return math.nan, math.nan
    return float(x.mean()), float(x.std(ddof=1) / math.sqrt(x.size)) if x.size > 1 else math.nan


def summarise_instances(rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Theory rows unchanged, then one row for each simulated point."""
    kept: list[Row] = []
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["source"] == "theory":
            kept.append(dict(row))
        else:
            groups.setdefault(tuple(row.get(name) for name in _POINT), []).append(row)
    return kept + [_mean_row(group) for group in groups.values()]


def _mean_row(group: list[Mapping[str, Any]]) -> Row:
    usable = [row for row in group if row["status"] != Status.FAILED]
    first = (usable or group)[0]
    row: Row = {name: first[name] for name in _POINT if name in first}
    for name in AVERAGED:
        if name in first:
            mean, error = mean_and_error(one.get(name, math.nan) for one in usable)
            row[name] = mean
            row["uncertainty" if name == "generalisation_error" else f"{name}_standard_error"] = (
                error
            )
    bad = sum(one["status"] == Status.NOT_CONVERGED for one in usable)
    row["status"] = str(Status.NOT_CONVERGED if bad else Status.OK if usable else Status.FAILED)
    return row | {
        "version": VERSION,
        "instances": len(usable),
        "not_converged": bad,
        "failed": len(group) - len(usable),
    }


def tidy(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Rows as a table: the columns of every row first, then those of this figure."""
    import pandas as pd

    rows = list(rows)
    names = dict.fromkeys(name for row in rows for name in row)
    known = [name for name in COLUMNS if name in names]
    table = pd.DataFrame(rows, columns=known + [name for name in names if name not in COLUMNS])
    whole = {"n_classes", "dimension", "n_samples", "instances", "not_converged", "failed"}
    return table.astype({name: "Int64" for name in whole if name in table})


def only(table: pd.DataFrame, **columns: Any) -> pd.DataFrame:
    """The rows with these values, by rising α; a value may be a tuple of allowed ones."""
    keep = np.ones(len(table), dtype=bool)
    for name, value in columns.items():
        allowed = value if isinstance(value, tuple) else (value,)
        keep &= table[name].isin(allowed).to_numpy()
    chosen = table[keep]
    return chosen.sort_values("alpha", kind="stable") if "alpha" in chosen else chosen


def count_failures(table: pd.DataFrame) -> int:
    """Instances, and rows of theory, that have no number."""
    instances = int(table["failed"].sum()) if "failed" in table else 0
    if "status" not in table:
        return instances
    theory = (table["source"] == "theory") & (table["status"] == Status.FAILED)
    return instances + int(theory.sum())
