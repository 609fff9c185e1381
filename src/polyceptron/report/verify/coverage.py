"""Stated uncertainties against the truth, where the truth can be had another way.

They hold in 99 of 100 cases. Random problems have much finer answers kept as data, which
`tests/references/make_coverage.py` drew and made; the sampling rule of k ≥ 4 is asked at k = 3,
where twelve digits are known.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from polyceptron.model import Teacher, make_estimator
from polyceptron.numerics.estimate import from_replicates
from polyceptron.report.verify.check import Check
from polyceptron.theory.bayes_optimal.fixed_points import fixed_points
from polyceptron.theory.curve import curve_rows
from polyceptron.theory.fields.information import channel_moments, sampled_replicates

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
    note = f"{len(finer)} numbers; {len(found) - len(finer)} more without a finer answer"
    yield Check("bars that hold: all", share(finer), 1.0, "finer answers", ALLOWED, note)


# 1.4 uncertainties are the four standard errors allowed elsewhere.
ALLOWED_BARS = 1.4


def error_bars(full: bool) -> Iterator[Check]:
    """Sampled averages at k = 3 within the uncertainty they state; low against high effort."""
    for q in (0.2, 0.8, 0.999) if not full else (0.05, 0.2, 0.5, 0.8, 0.95, 0.999, 0.99999):
        exact = channel_moments(Teacher(3).noise, q, 1 - q, 3)
        sampled = sampled_replicates(q, 1 - q, 3, 8)
        for name, ours, truth in zip(("I", "Ψ_out"), sampled, exact, strict=True):
            value, uncertainty = from_replicates(ours)
            known = float(truth[0, 0])
            allowed = ALLOWED_BARS * float(uncertainty) + 1e-7 * abs(known)
            yield Check(f"{name}(q = {q:g}) by sampling", float(value), known, "exact", allowed)
    for k in (4, 10) if full else (4,):
        quick, slow = (
            fixed_points(Teacher(k), 2.0, tol=tol)[0] for tol in (3e-3, 2e-5 if full else 1e-4)
        )
        allowed = ALLOWED_BARS * math.hypot(quick.uncertainty, slow.uncertainty)
        name, found = f"Bayes error, k = {k}, α = 2, quick", quick.generalisation_error
        yield Check(name, found, slow.generalisation_error, "more points", allowed)
