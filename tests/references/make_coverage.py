"""Random problems with much finer answers kept in `coverage.json`: drawn, made, compared with.

    python -m tests.references.make_coverage    makes what is not there (an hour for all)

A problem is drawn from the seed of its family: number of classes, prior, noise, estimator, ridge
and α, with the tolerance at which it is asked. The reference is the same question at a third of the
uncertainty stated then, or less, hence with other nodes or points. That of the last family, which
is asked at the default tolerance over all of α and λ, comes from another route: from three classes
on, random points of a seed of their own, whatever rule gave the answer.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from polyceptron.files import write_text
from polyceptron.problem import Teacher, make_estimator
from polyceptron.questions.curve_rows import curve_rows
from polyceptron.sides.fields import points
from polyceptron.sides.fields.points import Points
from polyceptron.sides.scalar import FieldsSide

PLACE = Path(__file__).with_name("coverage.json")
QUANTITIES = ("generalisation_error", "training_error", "training_loss")
Record = dict[str, Any]
ALLOWED = 0.03  # uncertainties hold in 99 of 100 cases; among a hundred, three misses are chance


def records() -> list[Record]:
    """The problems with their references, as kept."""
    return list(json.loads(PLACE.read_text(encoding="utf-8")))


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


def held_against(record: Record, row: dict[str, Any]) -> Iterator[Held]:
    """Every number of the row that states an uncertainty and has a reference."""
    kept = record["reference"]
    for name in QUANTITIES:
        key = "uncertainty" if name == "generalisation_error" else f"{name}_uncertainty"
        bar, value, truth = row.get(key), row.get(name), kept.get(name)
        if not bar or value is None or truth is None or value != value or bar != bar:
            continue  # no number, or one that states no doubt (a closed form, 0 mistakes)
        doubt = kept.get(key, kept["uncertainty"])
        finer = doubt <= 0.4 * bar
        room = doubt / 2 if finer else doubt
        yield Held(record, name, max(abs(value - truth) - room, 0.0) / bar, finer)


def share(found: Iterable[Held], scale: float = 1.0) -> float:
    """The share within `scale` uncertainties."""
    held = [one.distance <= scale for one in found]
    return sum(held) / len(held)


def draw() -> list[Record]:
    """The problems of every family: a function of the seeds alone."""
    found = []
    for seed, (count, one) in enumerate(FAMILIES):
        rng = np.random.default_rng(seed)
        found += [one(rng) for _ in range(count)]
    return found


def plain(rng: np.random.Generator) -> Record:
    """Two to twelve classes, every estimator."""
    k = int(rng.integers(2, 13))
    estimator = str(rng.choice(["bayes", "cross-entropy", "square", "max-margin"]))
    bayes, few = estimator == "bayes", k <= 3
    priors = ["gaussian", "rademacher", *(["ternary"] if few else [])]
    prior = str(rng.choice(priors)) if bayes else "gaussian"
    kinds = ["none", "gaussian", *(["flips"] if few or not bayes else [])]
    kind = "none" if estimator == "max-margin" else str(rng.choice(kinds))
    amount = {"none": "", "gaussian": f":{rng.uniform(0.05, 1):.3f}", "flips": ":0.1"}[kind]
    return _problem(rng, k, prior, kind + amount, estimator)


def softmax(rng: np.random.Generator) -> Record:
    """The multinomial-logit teacher, two to six classes."""
    k = int(rng.integers(2, 7))
    names = ["cross-entropy", "square", *(["bayes"] if k <= 3 else [])]
    slope = f"softmax:{10 ** rng.uniform(-0.3, 1):.3f}"
    return _problem(rng, k, "gaussian", slope, str(rng.choice(names)))


def continuous(rng: np.random.Generator) -> Record:
    """Priors with a density and an atom, two classes, Bayes."""
    prior = str(rng.choice(["sparse-gaussian:0.3", "laplace", "ternary"]))
    return _problem(rng, 2, prior, str(rng.choice(["none", "gaussian:0.25"])), "bayes")


def spectra(rng: np.random.Generator) -> Record:
    """Correlated features, two to five classes, every estimator."""
    k = int(rng.integers(2, 6))
    share, signal = rng.uniform(0.1, 0.5), rng.uniform(0.2, 3)
    levels = f"levels:{rng.uniform(2, 20):.2f}x{share:.2f}@{signal:.2f},1x{1 - share:.2f}"
    power = f"power:{rng.uniform(0.5, 2):.2f}:{int(rng.integers(50, 1000))}"
    features = str(rng.choice([levels, power, "random-features:tanh:2", "marchenko-pastur:2"]))
    estimator = str(rng.choice(["bayes", "cross-entropy", "cross-entropy", "max-margin"]))
    noise = "none" if estimator == "max-margin" else str(rng.choice(["none", "gaussian:0.3"]))
    noise, features = ("none", power) if estimator == "max-margin" else (noise, features)
    return {**_problem(rng, k, "gaussian", noise, estimator), "features": features}


def wide(rng: np.random.Generator) -> Record:
    """α from 0.05 to 1000 and λ from 1e-6 to 10, cross-entropy and max-margin, every noise."""
    problem = spectra(rng)
    k = int(rng.choice([2, 3, 4, 4, 5, 6, 8, 10, 12, 20]))
    loss = str(rng.choice(["cross-entropy", "cross-entropy", "cross-entropy", "max-margin"]))
    noises = [
        "none",
        "none",
        f"gaussian:{rng.uniform(0.05, 1):.3f}",
        f"softmax:{10 ** rng.uniform(-0.3, 1):.3f}",
        f"flips:{rng.uniform(0.02, 0.3):.3f}",
    ]
    noise, ridge = str(rng.choice(noises)), float(f"{10 ** rng.uniform(-6, 1):.4g}")
    alpha = float(f"{10 ** rng.uniform(np.log10(0.05), 3):.4g}")
    hard = loss == "max-margin"
    features = "isotropic" if hard or rng.random() < 0.5 else problem["features"]
    return {
        "tol": None,
        "k": k,
        "prior": "gaussian",
        "noise": "none" if hard else noise,
        "estimator": loss,
        "ridge": None if hard else ridge,
        "alpha": alpha,
        "features": features,
    }


def _problem(
    rng: np.random.Generator, k: int, prior: str, noise: str, estimator: str
) -> dict[str, Any]:
    ridge = float(np.round(10 ** rng.uniform(-2, 1), 4))
    alpha = float(np.round(10 ** rng.uniform(-0.5, 1.2), 3))
    sampled = estimator in ("cross-entropy", "max-margin") or prior != "gaussian"
    return {
        "tol": 3e-3 if k > 3 and sampled else 1e-5,
        "k": k,
        "prior": prior,
        "noise": noise,
        "estimator": estimator,
        "ridge": None if estimator in ("bayes", "max-margin") else ridge,
        "alpha": alpha,
    }


# A new family goes to the end: the seed of a family is its place.
FAMILIES: list[tuple[int, Callable[[np.random.Generator], Record]]] = [
    (120, plain),
    (20, softmax),
    (10, continuous),
    (12, spectra),
    (48, wide),
]


def reference(problem: Record) -> dict[str, Any]:
    """What is kept of the row at a third of the uncertainty that the loose one states."""
    finer = {**problem, "tol": max(answer(problem)["uncertainty"] / 3, 1e-12)}
    if problem["tol"] is None and problem["k"] > 2:
        own = FieldsSide.rule.fget
        route = property(lambda side: Points() if side.n_classes > 2 else own(side))
        with patch.object(FieldsSide, "rule", route), patch.object(points, "SEED", 31_337):
            row = answer(finer)
    else:
        row = answer(finer)
    bars = ("uncertainty", *(f"{name}_uncertainty" for name in QUANTITIES[1:]))
    kept = {name: row.get(name) for name in (*QUANTITIES, *bars, "status")}
    return {name: value for name, value in kept.items() if value is not None and value == value}


def main() -> None:
    """Compute every reference that is not there and write the file."""
    known = {_key(one): one for one in (records() if PLACE.exists() else [])}
    lines = []
    for problem in draw():
        record = known.get(_key(problem)) or {**problem, "reference": reference(problem)}
        sys.stderr.write(f"{record}\n")
        lines.append(json.dumps(record))
    write_text(PLACE, "[\n" + ",\n".join(lines) + "\n]\n")


def _key(problem: Record) -> str:
    return json.dumps({name: problem[name] for name in problem if name != "reference"})


if __name__ == "__main__":
    main()
