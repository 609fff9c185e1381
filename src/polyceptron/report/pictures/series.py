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
from pathlib import Path
from typing import Any

import pandas as pd

from polyceptron.errors import InvalidInput
from polyceptron.files import check_readable
from polyceptron.report.pictures import parts as pic
from polyceptron.rows import PLACES, average_instances


def read_table(path: str | Path) -> pd.DataFrame:
    """The rows of a store or of a table, known by their first bytes."""
    check_readable(path, "file")
    try:
        with open(path, "rb") as file:
            start = file.read(16)
        if start == b"SQLite format 3\x00":
            from polyceptron.experiments.store import Store

            with Store(path) as store:
                table = store.frame()
        else:
            table = (pd.read_parquet if start[:4] == b"PAR1" else pd.read_csv)(path)
    except (OSError, ImportError) as error:
        raise InvalidInput(f"cannot read {str(path)!r}: {error}") from None
    except ValueError:  # pandas' own errors are ValueErrors, and so are those of Unicode
        raise InvalidInput(f"{str(path)!r} is neither a store nor a table in CSV") from None
    if table.empty:
        raise InvalidInput(f"there is nothing to draw: {str(path)!r} has no rows")
    return table


def select_rows(table: pd.DataFrame, conditions: Sequence[str]) -> pd.DataFrame:
    """The rows that meet every condition, each COLUMN=VALUE; at least one."""
    for condition in conditions:
        name, equals, value = condition.partition("=")
        if not equals or name not in table:
            raise InvalidInput(
                f"a condition is COLUMN=VALUE with one of {', '.join(map(str, table.columns))}, "
                f"got {condition!r}"
            )
        try:
            wanted = float(value) if name in numeric_columns(table) else value
        except ValueError:
            raise InvalidInput(f"{name} is a number, got {condition!r}") from None
        table = table[(table[name] == wanted).fillna(False).astype(bool)]
        if table.empty:
            raise InvalidInput(f"there is nothing to draw: no row has {condition}")
    return table.reset_index(drop=True)


def numeric_columns(table: pd.DataFrame) -> list[str]:
    """The names of the columns of numbers."""
    return [str(name) for name in table.select_dtypes(["number", "bool"]).columns]


def check_column(table: pd.DataFrame, name: str) -> None:
    """Raise unless the table has numbers under this name."""
    numeric = [one for one in numeric_columns(table) if one != "table"]
    if name not in numeric:
        raise InvalidInput(
            f"{name!r} is not a column of numbers of this table: it has {', '.join(numeric)}"
            if numeric
            else f"there is nothing to draw: the table has no numbers, and no {name!r}"
        )


Row = dict[Hashable, Any]
BEST = "best *λ*"
TRANSITIONS = ("alpha_IT", "alpha_algo")  # branches of rows that tell where a transition is
_WORDS = {
    "n_classes": "*k = {:g}*", "alpha": "*α = {:g}*", "prior": "{} weights",
    "ridge": "*λ = {:.3g}*", "dimension": "*d = {:.4g}*", "n_samples": "*n = {:.4g}*",
}  # fmt: skip
_NO_FAMILY = (
    "source", "estimator", "branch", "ridge", "dimension", "n_samples", "status", "version",
    "reason", "table",
)  # fmt: skip


@dataclass(frozen=True)
class Series:
    """The rows of one line by rising x, and its names."""

    rows: tuple[Row, ...]
    table: int
    source: str
    estimator: str
    role: str
    family: tuple[str, ...]
    size: str

    @property
    def theory(self) -> bool:
        """Whether it is a line, not symbols."""
        return self.source == "theory"

    @property
    def look(self) -> tuple[str, str, tuple[str, ...]]:
        """What its colour depends on."""
        return self.estimator, self.role, self.family


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
    families = [tuple(fact(name, row[name]) for name in telling) for row in rows]
    ridges = _ridges(rows, families, x)
    found: dict[tuple[Any, ...], dict[float, Row]] = {}
    for row, family, ridge in zip(rows, families, ridges, strict=True):
        source, branch, estimator = map(text, map(row.get, ("source", "branch", "estimator")))
        role = "amp" if source == "amp" else branch if branch in pic.DASHES else estimator
        source = source or "theory"
        key = (
            int(row.get("table", 0)), source, estimator, role,
            tuple(word for word in (*family, ridge) if word),
            fact("dimension", row["dimension"]) if sizes and source != "theory" else "",
        )  # fmt: skip
        found.setdefault(key, {}).setdefault(float(row[x]), row)  # one row for each x
    return [Series(tuple(at[value] for value in sorted(at)), *key) for key, at in found.items()]


def fact(name: str, value: Any) -> str:
    """A value in words: *k = 3*."""
    if text(value) in ("", "none", "isotropic"):  # these go without saying
        return ""
    plain = "{}" if isinstance(value, str) else f"*{name} = {{:.4g}}*"
    return _WORDS.get(name, plain).format(value)


def ridge_words(ridge: float) -> str:
    """*λ = 1*, or its limit of zero."""
    return fact("ridge", ridge) if ridge else "*λ → 0^{+}*"


def text(value: Any) -> str:
    """The value as text, empty for a missing one."""
    return "" if pic.missing(value) else str(value)


def problem_words(table: pd.DataFrame) -> str:
    """What all rows share, for a title: k = 3, gaussian weights."""
    words = []
    for name in ("model", "n_classes", *(c for c in table.columns if c not in PLACES)):
        if name in table and name not in (*_NO_FAMILY, "samples") and table[name].nunique() == 1:
            value = table[name].dropna().iloc[0]
            if (isinstance(value, str) or name in PLACES) and value not in ("argmax", "none"):
                words.append(fact(name, value))
    return ", ".join(dict.fromkeys(words))


def _telling(table: pd.DataFrame, x: str) -> list[str]:
    """The columns, besides the ridge, that tell lines apart."""
    # α moves along an axis of what is measured, or of the number of samples.
    aside = {*_NO_FAMILY, x} | ({"alpha"} if x not in PLACES or x == "n_samples" else set())
    aside |= set(numeric_columns(table)) - set(PLACES)
    return [
        str(name) for name in table.columns
        if name not in aside and table[name].nunique(dropna=False) > 1
    ]  # fmt: skip


def _ridges(rows: Sequence[Row], families: Sequence[tuple[str, ...]], x: str) -> list[str]:
    """λ of each row: a number, `BEST` where it moves with x, nothing where there is none.

    Ridges that stand at one x each, and at different ones, are the best ones there.
    """
    if x == "ridge":
        return [""] * len(rows)
    without = {row.get("estimator") for row in rows if not text(row.get("ridge"))}
    keys = [
        (row.get("table"), row.get("source"), row.get("estimator"), family)
        for row, family in zip(rows, families, strict=True)
    ]
    places: dict[Any, dict[float, set[float]]] = {}
    for row, key in zip(rows, keys, strict=True):
        places.setdefault(key, {}).setdefault(row.get("ridge", 0.0), set()).add(row[x])
    words = []
    for row, key in zip(rows, keys, strict=True):
        if row.get("estimator") in without:  # it has none: a 0 in some rows means the same
            words.append("")
            continue
        once = [next(iter(at)) for at in places[key].values() if len(at) == 1]
        moves = len(set(once)) == len(once) > 1 and len(places[key][row["ridge"]]) == 1
        words.append(BEST if moves else ridge_words(row["ridge"]))
    return words


def shared_role(series: Sequence[Series]) -> str:
    """The role that all lines have, where their families alone tell them apart; else nothing."""
    roles = {s.role for s in series if s.theory} or {s.role for s in series}
    told = all(any("λ" not in word for word in s.family) for s in series)
    return next(iter(roles)) if len(roles) == 1 and told else ""


def series_label(one: Series, shared: str) -> str:
    """What tells the series apart."""
    name = "" if shared else pic.label_of(one.role) or one.source
    return ", ".join(word for word in (name, *one.family, one.size) if word)


def series_colours(series: Sequence[Series]) -> dict[tuple[str, str, tuple[str, ...]], str]:
    """The colour of each look.

    An estimator with one family has the colours of its roles; of several families each has a colour
    of its own, one scale for many.
    """

    def numbers_in(family: tuple[str, ...]) -> list[float]:
        return [float(n) for word in family for n in re.findall(r"\d[\d.]*(?:e[+-]?\d+)?", word)]

    families: dict[str, dict[tuple[str, ...], str]] = {}
    for s in series:
        families.setdefault(s.estimator, {})[s.family] = ""
    single = [s.role for s in series if len(families[s.estimator]) == 1]
    own = pic.colours_of([*single, *families])
    used = {own[role] for role in single}
    for estimator, some in families.items():
        if len(some) > 4:
            some |= zip(sorted(some, key=numbers_in), pic.shades(len(some)), strict=True)
        elif len(some) > 1:
            for family in some:
                free = [
                    own[estimator],
                    *(c for c in pic.CYCLE if c not in own.values()),
                    *pic.CYCLE,
                ]
                some[family] = next((c for c in free if c not in used), pic.COLOURS["unstable"])
                used.add(some[family])
    return {s.look: families[s.estimator][s.family] or own[s.role] for s in series}
