"""Instances as their mean with its standard error; everything else as it is.

A mean has the columns of any row, and `instances`, `not_converged`, `failed`: how many are in it.
`uncertainty` is the standard error of its generalisation error, other means have
`<name>_standard_error` (NaN for one instance).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from polyceptron.rows import COLUMNS, Status

# Numbers that tell which point a row belongs to; every other number is measured there.
PLACES = ("n_classes", "ridge", "alpha", "dimension", "n_samples", "iteration", "margin", "table")
_ASIDE = ("seed", "uncertainty", "status", "version", "reason")
_WHOLE = ("n_classes", "dimension", "n_samples", "instances", "not_converged", "failed")


def error_column(name: str) -> str:
    """The column with the standard error of a mean."""
    return "uncertainty" if name == "generalisation_error" else f"{name}_standard_error"


def average_instances(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of theory and means unchanged, then one row for each point that has instances."""
    from pandas.api.types import is_numeric_dtype

    raw = table.get("source", pd.Series("theory", table.index)) != "theory"
    if "instances" in table:
        raw &= table["instances"].isna()
    if not raw.any():
        return table
    rows = table[raw].replace([np.inf, -np.inf], np.nan)
    status = rows.get("status", pd.Series("ok", rows.index))
    rows = rows.assign(
        instances=(status != Status.FAILED).astype(int),
        not_converged=(status == Status.NOT_CONVERGED).astype(int),
        failed=(status == Status.FAILED).astype(int),
    )
    counts = ["instances", "not_converged", "failed"]
    measured = [
        name for name in rows.columns
        if name not in (*PLACES, *_ASIDE, *counts) and is_numeric_dtype(rows[name])
        and rows[name].notna().any()
    ]  # fmt: skip
    place = [name for name in rows.columns if name not in (*measured, *_ASIDE, *counts)]
    groups = rows.groupby(place, dropna=False, sort=False)
    spread = groups[measured].sem().rename(columns=error_column)
    parts = [groups[measured].mean(), spread, groups[counts].sum()]
    if "version" in rows:
        parts.append(groups[["version"]].first())
    means = pd.concat(parts, axis=1).reset_index()
    means["status"] = np.select(
        [means["not_converged"] > 0, means["instances"] > 0],
        [str(Status.NOT_CONVERGED), str(Status.OK)], str(Status.FAILED),
    )  # fmt: skip
    kept = table[~raw]
    return pd.concat([kept, means], ignore_index=True) if len(kept) else means


def tidy(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Rows as a table of means: the columns of every row first, then those of this figure."""
    table = average_instances(pd.DataFrame(list(rows)))
    table = table.drop(columns="seed") if "seed" in table and table["seed"].isna().all() else table
    known = [name for name in COLUMNS if name in table]
    table = table[known + [name for name in table.columns if name not in COLUMNS]]
    return table.astype({name: "Int64" for name in _WHOLE if name in table})


def count_failures(table: pd.DataFrame) -> int:
    """Instances, and rows of theory, that have no number."""
    instances = int(table["failed"].sum()) if "failed" in table else 0
    if "status" not in table:
        return instances
    theory = (table["source"] == "theory") & (table["status"] == Status.FAILED)
    return instances + int(theory.sum())
