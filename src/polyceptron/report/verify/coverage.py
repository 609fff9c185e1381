"""How often stated uncertainties hold: random problems, with much finer answers kept as data.

`tests/references/make_coverage.py` drew the problems and made their references.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from polyceptron.model import Teacher, make_estimator
from polyceptron.report.verify.check import Check
from polyceptron.theory.curve import curve_rows

DATA = "coverage.json"
QUANTITIES = ("generalisation_error", "training_error", "training_loss")
Record = dict[str, Any]
ALLOWED = 0.03  # uncertainties hold in 99 of 100 cases; among a hundred, three misses are chance
_REFERENCE = 0.4  # a reference with an uncertainty beyond this share of the answer's is no finer


def records() -> list[Record]:
    """The problems with their references, as kept."""
    text = files("polyceptron.report.verify").joinpath(DATA).read_text(encoding="utf-8")
    kept: list[Record] = json.loads(text)
    return kept


def answer(problem: Record) -> dict[str, Any]:
    """The row at the problem's tolerance, with the uncertainty it states."""
    features = problem.get("features", "isotropic")
    teacher = Teacher(problem["k"], problem["prior"], problem["noise"], features)
    estimator = make_estimator(problem["estimator"], problem["ridge"])
    (row,) = curve_rows(teacher, estimator, [problem["alpha"]], tol=problem["tol"])
    return row


@dataclass(frozen=True)
class Held:
    """One number against its reference: their distance in units of the stated uncertainty."""

    problem: Record
    quantity: str
    distance: float
    finer: bool  # whether the reference is

    @property
    def group(self) -> str:
        """Its line of the table."""
        few = "k = 2, 3" if self.problem["k"] <= 3 else "k ≥ 4"
        return f"{self.problem['estimator']}, {few}"


def compare(record: Record, row: dict[str, Any]) -> Iterator[Held]:
    """Every number of the row that states an uncertainty and has a reference."""
    kept = record["reference"]
    for name in QUANTITIES:
        key = "uncertainty" if name == "generalisation_error" else f"{name}_uncertainty"
        bar, value, truth = row.get(key), row.get(name), kept.get(name)
        if not bar or value is None or truth is None or value != value or bar != bar:
            continue  # no number, or one that states no doubt (a closed form, 0 mistakes)
        doubt = kept.get(key, kept["uncertainty"])
        finer = doubt <= _REFERENCE * bar
        room = doubt / 2 if finer else doubt
        yield Held(record, name, max(abs(value - truth) - room, 0.0) / bar, finer)


def share(found: Iterable[Held], scale: float = 1.0) -> float:
    """The share within `scale` uncertainties."""
    held = [one.distance <= scale for one in found]
    return sum(held) / len(held)


def coverage(full: bool) -> Iterator[Check]:
    """The share that holds in each group; only with `full`, for it takes minutes."""
    if not full:
        return
    found = [one for record in records() for one in compare(record, answer(record))]
    finer = [one for one in found if one.finer]
    for group in sorted({one.group for one in finer}):
        part = [one for one in finer if one.group == group]
        # A group is small: one miss in it is chance too.
        allowed = max(ALLOWED, 1.01 / len(part))
        note = f"{len(part)} numbers, worst at {max(p.distance for p in part):.2f} of its bar"
        yield Check(f"bars that hold: {group}", share(part), 1.0, "finer answers", allowed, note)
    yield Check(
        "bars that hold: all",
        share(finer),
        1.0,
        "finer answers",
        ALLOWED,
        f"{len(finer)} numbers; {len(found) - len(finer)} more without a finer answer",
    )
