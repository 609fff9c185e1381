"""Which rows of a tidy table belong to one line, and the words and colours that tell it apart.

    role      whose look it has: an estimator, or a branch of the Bayes-optimal theory; message
              passing has the look of its branch
    family    what else differs between lines: k, prior, noise, ridge, …; theory and experiments of
              one family share a colour
    size      the dimension, where experiments have several

Columns are found in the table, not listed here: every column of words that takes several values
tells lines apart, so that what a user adds is told apart too. Tables come from files too: a store
of results, or a table in CSV or Parquet.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polyceptron.errors import InvalidInput
from polyceptron.report.instance_means import PLACES, average_instances
from polyceptron.report.pictures.parts import (
    COLOURS,
    CYCLE,
    DASHES,
    colours_of,
    label_of,
    missing,
    shades,
)

if TYPE_CHECKING:
    import pandas as pd


_SQLITE = b"SQLite format 3\x00"


def read_tables(paths: Sequence[str | Path]) -> pd.DataFrame:
    """The rows of several files as one table; its column `table` says which file each is from."""
    import pandas as pd

    tables = [read_table(path).assign(table=i) for i, path in enumerate(paths)]
    return pd.concat(tables, ignore_index=True)


def select_rows(table: pd.DataFrame, conditions: Sequence[str]) -> pd.DataFrame:
    """The rows that meet every condition, each COLUMN=VALUE; at least one."""
    from pandas.api.types import is_numeric_dtype

    for condition in conditions:
        name, equals, value = condition.partition("=")
        if not equals or name not in table:
            raise InvalidInput(
                f"a condition is COLUMN=VALUE with one of {', '.join(map(str, table.columns))}, "
                f"got {condition!r}"
            )
        try:
            wanted = float(value) if is_numeric_dtype(table[name]) else value
        except ValueError:
            raise InvalidInput(f"{name} is a number, got {condition!r}") from None
        table = table[(table[name] == wanted).fillna(False).astype(bool)]
        if table.empty:
            raise InvalidInput(f"there is nothing to draw: no row has {condition}")
    return table.reset_index(drop=True)


def read_table(path: str | Path) -> pd.DataFrame:
    """The rows of a store (known by SQLite's first bytes) or of a table."""
    import pandas as pd

    source = Path(path)
    if not source.exists():
        raise InvalidInput(f"there is no file {str(source)!r}")
    if not source.is_file():  # a folder, or a device that never ends
        raise InvalidInput(f"{str(source)!r} is not a file: a store or a CSV table is needed")
    try:
        with source.open("rb") as file:
            start = file.read(16)
        if start == _SQLITE:
            from polyceptron.experiments.store import Store

            with Store(source) as store:
                table = store.frame()
        elif start[:4] == b"PAR1":
            table = pd.read_parquet(source)
        else:
            table = pd.read_csv(source)
    except (OSError, ImportError) as error:
        raise InvalidInput(f"cannot read {str(source)!r}: {error}") from None
    except (ValueError, UnicodeDecodeError):  # pandas' own errors are ValueErrors
        raise InvalidInput(f"{str(source)!r} is neither a store nor a table in CSV") from None
    if table.empty:
        raise InvalidInput(f"there is nothing to draw: {str(source)!r} has no rows")
    return table


Row = dict[Hashable, Any]
BEST = "best *λ*"
TRANSITIONS = ("alpha_IT", "alpha_algo")  # branches of rows that say where a transition is
_WORDS = {"n_classes": "*k = {:g}*", "alpha": "*α = {:g}*", "prior": "{} weights"}
_NO_FAMILY = (
    "source", "estimator", "branch", "ridge", "dimension", "n_samples", "status", "version",
    "reason", "table",
)  # fmt: skip


@dataclass(frozen=True)
class Series:
    """The rows of one line by rising x, and its names."""

    rows: tuple[Row, ...]
    table: int
    theory: bool
    source: str
    estimator: str
    role: str
    family: tuple[str, ...]
    size: str


def find_series(table: pd.DataFrame, x: str, y: str) -> list[Series]:
    """The series of `y` against `x`, in the order of the table; instances as their means."""
    for name in (x, y):
        check_column(table, name)
    table = average_instances(table)
    if "branch" in table:
        table = table[~table["branch"].isin(TRANSITIONS)]
    if "source" in table and "amp" in set(table["source"]):
        table = table[table["source"] != "amp-summary"]  # the same runs once more
    table = table[table[x].notna() & table[y].notna()]
    if table.empty:
        raise InvalidInput(f"there is nothing to draw: no row has both {x} and {y}")
    telling = _telling(table, x)
    sizes = x != "dimension" and "dimension" in table and table["dimension"].nunique() > 1
    rows = table.to_dict("records")
    for row in rows:
        row["_family"] = tuple(fact(name, row[name]) for name in telling)
    ridges = _ridge_words(rows, x)
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row, ridge in zip(rows, ridges, strict=True):
        source = text(row.get("source")) or "theory"
        family = tuple(word for word in (*row["_family"], ridge) if word)
        size = fact("dimension", row["dimension"]) if sizes and source != "theory" else ""
        place = int(row.get("table", 0)), source, text(row.get("estimator"))
        found.setdefault((*place, _role(row), family, size), []).append(row)
    return [
        Series(tuple(_sorted(some, x)), table, source == "theory", source, estimator, *rest)
        for (table, source, estimator, *rest), some in found.items()
    ]


def fact(name: str, value: Any) -> str:
    """A value in words: *k = 3*."""
    if text(value) in ("", "none", "isotropic"):  # these go without saying
        return ""
    if isinstance(value, str):
        return _WORDS.get(name, "{}").format(value)
    letters = {"ridge": "λ", "dimension": "d", "n_samples": "n"}
    return _WORDS.get(name, f"*{letters.get(name, name)} = {{:.4g}}*").format(value)


def text(value: Any) -> str:
    """The value as text, empty for a missing one."""
    return "" if missing(value) else str(value)


def problem_words(table: pd.DataFrame) -> str:
    """What all rows share, for a title: k = 3, gaussian weights."""
    words = []
    for name in ("model", "n_classes", *(c for c in table.columns if c not in PLACES)):
        if name in table and name not in (*_NO_FAMILY, "samples") and table[name].nunique() == 1:
            value = table[name].dropna().iloc[0]
            if (isinstance(value, str) or name in PLACES) and value not in ("argmax", "none"):
                words.append(fact(name, value))
    return ", ".join(dict.fromkeys(words))


def check_column(table: pd.DataFrame, name: str) -> None:
    """Raise unless the table has numbers under this name."""
    from pandas.api.types import is_numeric_dtype

    numeric = [str(c) for c in table.columns if is_numeric_dtype(table[c]) and c != "table"]
    if name not in numeric:
        raise InvalidInput(
            f"{name!r} is not a column of numbers of this table: it has {', '.join(numeric)}"
            if numeric
            else f"there is nothing to draw: the table has no numbers, and no {name!r}"
        )


def _telling(table: pd.DataFrame, x: str) -> list[str]:
    """The columns, besides the ridge, that tell lines apart."""
    from pandas.api.types import is_numeric_dtype

    places = [name for name in PLACES if name != x]
    if x not in PLACES or x == "n_samples":  # α moves along such an axis
        places.remove("alpha") if "alpha" in places else None
    return [
        str(name) for name in table.columns
        if name not in _NO_FAMILY and name != x and table[name].nunique(dropna=False) > 1
        and (name in places or not is_numeric_dtype(table[name]))
    ]  # fmt: skip


def _role(row: Row) -> str:
    branch = text(row.get("branch"))
    if text(row.get("source")) == "amp":
        return "amp"
    return branch if branch in DASHES else text(row.get("estimator"))


def _ridge_words(rows: Sequence[Row], x: str) -> list[str]:
    """λ of each row: a number, `BEST` where it moves with x, nothing where there is none.

    A ridge that stands at one x only, while others do so elsewhere, is the best one there.
    """
    if x == "ridge":
        return [""] * len(rows)
    places: dict[Any, dict[float, set[float]]] = {}
    without = {row.get("estimator") for row in rows if not text(row.get("ridge"))}
    keys = [
        (row.get("table"), row.get("source"), row.get("estimator"), row["_family"]) for row in rows
    ]
    for row, key in zip(rows, keys, strict=True):
        if text(row.get("ridge")):
            places.setdefault(key, {}).setdefault(row["ridge"], set()).add(row[x])
    moving = {key: _moving(ridges) for key, ridges in places.items()}
    words = []
    for row, key in zip(rows, keys, strict=True):
        if row.get("estimator") in without:  # it has none: a 0 in some rows means the same
            words.append("")
        elif row["ridge"] in moving[key]:
            words.append(BEST)
        else:
            words.append(ridge_words(row["ridge"]))
    return words


def ridge_words(ridge: float) -> str:
    """*λ = 1*, or its limit of zero."""
    return f"*λ = {ridge:.3g}*" if ridge else "*λ → 0^{+}*"


def _moving(ridges: dict[float, set[float]]) -> set[float]:
    """The ridges of a best-ridge line among those found, with the x that each has."""
    once = {ridge: next(iter(at)) for ridge, at in ridges.items() if len(at) == 1}
    return set(once) if len(set(once.values())) == len(once) > 1 else set()


def _sorted(rows: list[Row], x: str) -> list[Row]:
    """By rising x, one row for each."""
    ordered = sorted(rows, key=lambda row: float(row[x]))
    return [next(same) for _, same in groupby(ordered, key=lambda row: row[x])]


_NUMBER = re.compile(r"\d[\d.]*(?:e[+-]?\d+)?")


def shared_role(series: Sequence[Series]) -> str:
    """The role that all lines have, where their families alone tell them apart; else nothing."""
    roles = {s.role for s in series if s.theory} or {s.role for s in series}
    told = all(any("λ" not in word for word in s.family) for s in series)
    return next(iter(roles)) if len(roles) == 1 and told else ""


def series_label(one: Series, shared: str) -> str:
    """What tells the series apart."""
    name = "" if shared else label_of(one.role) or one.source
    return ", ".join(word for word in (name, *one.family, one.size) if word)


def series_colours(series: Sequence[Series]) -> dict[tuple[str, str, tuple[str, ...]], str]:
    """The colour of each (estimator, role, family).

    An estimator with one family has the colours of its roles; of several families each has a colour
    of its own, one scale for many.
    """
    families: dict[str, list[tuple[str, ...]]] = {}
    for s in series:
        if s.family not in families.setdefault(s.estimator, []):
            families[s.estimator].append(s.family)
    single = [s.role for s in series if len(families[s.estimator]) == 1]
    own = colours_of([*single, *families])
    used = {own[role] for role in single}
    chosen: dict[tuple[str, tuple[str, ...]], str] = {}
    for estimator, some in families.items():
        if len(some) > 4:
            some.sort(
                key=lambda family: [float(n) for word in family for n in _NUMBER.findall(word)]
            )
            chosen |= {(estimator, f): c for f, c in zip(some, shades(len(some)), strict=True)}
        elif len(some) > 1:
            for family in some:
                free = [own[estimator], *(c for c in CYCLE if c not in own.values()), *CYCLE]
                colour = next((c for c in free if c not in used), COLOURS["unstable"])
                used.add(colour)
                chosen[estimator, family] = colour
    return {
        (s.estimator, s.role, s.family): chosen.get((s.estimator, s.family)) or own[s.role]
        for s in series
    }
