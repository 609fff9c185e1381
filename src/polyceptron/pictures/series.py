"""The lines and symbols that a tidy table holds: which rows belong together, and their names.

    role      whose look it has: an estimator, or a branch of the Bayes-optimal theory; message
              passing has the look of its branch
    family    what else differs between lines: k, prior, noise, ridge, …; theory and experiments of
              one family share a colour
    size      the dimension, where experiments have several

Columns are found in the table, not listed here: every column of words, and every number that places
a problem (k, α, λ, …), tells lines apart where it takes several values. So does a column that a
user adds.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from polyceptron.errors import InvalidInput
from polyceptron.pictures import parts as pic
from polyceptron.pictures.tables import (
    NOT_OF_THE_PROBLEM,
    Row,
    check_column,
    fact,
    numeric_columns,
    ridge_words,
    text,
)
from polyceptron.rows import PLACES, average_instances, kind_of

if TYPE_CHECKING:
    import pandas as pd

BEST = "best *λ*"
TRANSITIONS = ("alpha_IT", "alpha_algo")  # branches of rows that hold a transition
# More lines of one estimator than this are ordered: they get shades of one scale.
MOST_COLOURS_OF_ONE_ESTIMATOR = 4
_NUMBER = re.compile(r"\d[\d.]*(?:e[+-]?\d+)?")

Family = tuple[str, ...]
Line = tuple[Hashable, ...]


@dataclass(frozen=True)
class Series:
    """The rows of one line by rising x, and its names."""

    table: int
    source: str
    estimator: str
    role: str
    family: Family
    size: str
    rows: tuple[Row, ...] = ()

    @property
    def is_theory(self) -> bool:
        """Whether it is drawn as a line; experiments are symbols."""
        return self.source == "theory"


def find_series(table: pd.DataFrame, x: str, y: str) -> list[Series]:
    """Return the series of `y` against `x` in the order of the table, instances as their means."""
    check_column(table, y)
    drawn = _rows_to_draw(table, x, y)
    telling = _telling_columns(drawn, x)
    has_sizes = x != "dimension" and "dimension" in drawn and drawn["dimension"].nunique() > 1
    rows = drawn.to_dict("records")
    families = [tuple(fact(name, row[name]) for name in telling) for row in rows]
    points: dict[tuple[str, Series], dict[float, Row]] = {}
    ridges = _words_of_ridges(rows, families, x)
    for row, family, ridge in zip(rows, families, ridges, strict=True):
        series = _series_of_row(row, (*family, ridge), has_sizes)
        branch = text(row.get("branch"))
        # Two barriers, unstable-1 and unstable-2, look alike and are two lines.
        own_branch = branch if series.role == kind_of(branch) else ""
        at_x = points.setdefault((own_branch, series), {})
        at_x.setdefault(float(row[x]), row)  # the first of several rows at one x
    return [
        replace(series, rows=tuple(at_x[value] for value in sorted(at_x)))
        for (_, series), at_x in points.items()
    ]


def _rows_to_draw(table: pd.DataFrame, x: str, y: str) -> pd.DataFrame:
    """Return the means over instances that have both x and y; transitions are marks, not points."""
    table = average_instances(table)
    if "branch" in table:
        table = table[~table["branch"].isin(TRANSITIONS)]
    if "source" in table and "amp" in set(table["source"]):
        table = table[table["source"] != "amp-summary"]  # the same runs once more
    table = table[table[x].notna() & table[y].notna()]
    if table.empty:
        raise InvalidInput(f"there is nothing to draw: no row has both {x} and {y}")
    return table


def _telling_columns(table: pd.DataFrame, x: str) -> list[str]:
    """Return the columns in which lines differ: words, and numbers that place a problem."""
    ignored = {*NOT_OF_THE_PROBLEM, x}
    if x not in PLACES or x == "n_samples":
        ignored.add("alpha")  # α moves along an axis of what is measured, or of n
    ignored |= set(numeric_columns(table)) - set(PLACES)
    candidates = [str(name) for name in table.columns if name not in ignored]
    return [name for name in candidates if table[name].nunique(dropna=False) > 1]


def _series_of_row(row: Row, family: Family, has_sizes: bool) -> Series:
    """Return the series that the row belongs to, without rows."""
    source = text(row.get("source"))
    estimator = text(row.get("estimator"))
    branch = kind_of(text(row.get("branch")))
    role = estimator
    if source == "amp":
        role = "amp"
    elif branch in pic.DASHES:
        role = branch
    source = source or "theory"
    size = ""
    if has_sizes and source != "theory":
        size = fact("dimension", row["dimension"])
    words = tuple(word for word in family if word)
    return Series(int(row.get("table", 0)), source, estimator, role, words, size)


def _words_of_ridges(rows: Sequence[Row], families: Sequence[Family], x: str) -> list[str]:
    """Return λ of each row: a number, `BEST` where it moves with x, nothing where there is none."""
    if x == "ridge":
        return [""] * len(rows)
    # An estimator that has no ridge in some rows has none: a 0 in the others means the same.
    without_ridge = {row.get("estimator") for row in rows if not text(row.get("ridge"))}
    lines: list[Line] = [
        (row.get("table"), row.get("source"), row.get("estimator"), family)
        for row, family in zip(rows, families, strict=True)
    ]
    places: dict[Line, dict[float, set[float]]] = {}
    for row, line in zip(rows, lines, strict=True):
        ridges = places.setdefault(line, {})
        ridges.setdefault(row.get("ridge", 0.0), set()).add(row[x])
    best = {line: _best_ridges(ridges) for line, ridges in places.items()}
    words = []
    for row, line in zip(rows, lines, strict=True):
        if row.get("estimator") in without_ridge:
            words.append("")
        elif row["ridge"] in best[line]:
            words.append(BEST)
        else:
            words.append(ridge_words(row["ridge"]))
    return words


def _best_ridges(places: Mapping[float, set[float]]) -> set[float]:
    """Return the ridges that were searched for, given the x at which each ridge stands.

    A best ridge stands at one x alone, and several of them at different x; or it stays the same
    over some x between which no other stands. Fixed ridges of which each has one point, at an x of
    its own, look like best ones.
    """
    alone = [min(at) for at in places.values() if len(at) == 1]
    if len(alone) < 2 or len(set(alone)) < len(alone):
        return set()
    ranges = {ridge: _Range(min(at), max(at)) for ridge, at in places.items()}
    undisturbed = {
        ridge: within for ridge, within in ranges.items() if not within.holds_others(alone)
    }
    best = set()
    for ridge, within in undisturbed.items():
        others = [other for name, other in undisturbed.items() if name != ridge]
        if not any(within.overlaps(other) for other in others):
            best.add(ridge)
    return best


class _Range(NamedTuple):
    """The first and the last x at which a ridge stands."""

    first: float
    last: float

    def holds_others(self, alone: Sequence[float]) -> bool:
        """Return whether a ridge with one x, of which `alone` has all, stands in this range.

        The one x of this ridge itself does not count.
        """
        n_within = sum(self.first <= x <= self.last for x in alone)
        if self.first == self.last:
            return n_within > 1
        return n_within > 0

    def overlaps(self, other: _Range) -> bool:
        """Return whether the two ranges have an x in common."""
        return max(self.first, other.first) <= min(self.last, other.last)


def shared_role(series: Sequence[Series]) -> str:
    """Return the role that all lines have, where their families tell them apart; else nothing."""
    lines = [s for s in series if s.is_theory] or series
    roles = {s.role for s in lines}
    named_by_more_than_ridges = all(any("λ" not in word for word in s.family) for s in series)
    if len(roles) == 1 and named_by_more_than_ridges:
        return roles.pop()
    return ""


def series_colours(series: Sequence[Series]) -> list[str]:
    """Return the colour of each series: of its role, or of its family where there are several.

    Beside other estimators, the families of one estimator have tints of its colour.
    """
    families = _families_of_estimators(series)
    roles_alone = [s.role for s in series if len(families[s.estimator]) == 1]
    # Branches are named too, so that they have the same colours here and on the page.
    named = pic.colours_of([*roles_alone, *families, *pic.DASHES])
    of_family: dict[tuple[str, Family], str] = {}
    for estimator, members in families.items():
        if len(members) == 1:
            continue
        if len(members) > MOST_COLOURS_OF_ONE_ESTIMATOR:
            colours = dict(zip(_in_order(members), pic.shades(len(members)), strict=True))
        elif len(families) > 1:
            tints = pic.tints(named[estimator], len(members))
            colours = dict(zip(members, tints, strict=True))
        else:  # families have the same colours whoever the estimator is
            colours = dict(zip(members, pic.CYCLE, strict=False))
        for family, colour in colours.items():
            of_family[estimator, family] = colour
    return [of_family.get((s.estimator, s.family), named.get(s.role, "")) for s in series]


def _families_of_estimators(series: Sequence[Series]) -> dict[str, list[Family]]:
    """Return the different families of each estimator, in the order of the series."""
    families: dict[str, list[Family]] = {}
    for s in series:
        members = families.setdefault(s.estimator, [])
        if s.family not in members:
            members.append(s.family)
    return families


def _in_order(families: Sequence[Family]) -> list[Family]:
    """Return the families by the numbers in their words."""
    return sorted(families, key=lambda words: [*map(float, _NUMBER.findall(" ".join(words)))])
