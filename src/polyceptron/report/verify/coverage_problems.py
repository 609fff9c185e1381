"""Random problems of the theory and much finer answers to them, kept as data.

    python -m polyceptron.report.verify.coverage_problems    makes coverage.json again (an hour)

A problem is drawn from the seed of its family: number of classes, prior, noise, estimator, ridge
and α. `answer` solves it at a loose tolerance, with the uncertainty it states; the reference is the
same question at a third of that uncertainty or less, hence with other nodes or points.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from polyceptron.files import write_text
from polyceptron.model import Teacher, make_estimator
from polyceptron.theory import curve_rows

NAME = "coverage.json"
QUANTITIES = ("generalisation_error", "training_error", "training_loss")
Problem = dict[str, Any]


def draw() -> list[Problem]:
    """The problems of every family: a function of the seeds alone."""
    found = []
    for seed, (count, one) in enumerate(FAMILIES):
        rng = np.random.default_rng(seed)
        found += [one(rng) for _ in range(count)]
    return found


def plain(rng: np.random.Generator) -> Problem:
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


def softmax(rng: np.random.Generator) -> Problem:
    """The multinomial-logit teacher, two to six classes."""
    k = int(rng.integers(2, 7))
    names = ["cross-entropy", "square", *(["bayes"] if k <= 3 else [])]
    slope = f"softmax:{10 ** rng.uniform(-0.3, 1):.3f}"
    return _problem(rng, k, "gaussian", slope, str(rng.choice(names)))


def continuous(rng: np.random.Generator) -> Problem:
    """Priors with a density and an atom, two classes, Bayes."""
    prior = str(rng.choice(["sparse-gaussian:0.3", "laplace", "ternary"]))
    return _problem(rng, 2, prior, str(rng.choice(["none", "gaussian:0.25"])), "bayes")


def spectra(rng: np.random.Generator) -> Problem:
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


def _problem(
    rng: np.random.Generator, k: int, prior: str, noise: str, estimator: str
) -> dict[str, Any]:
    ridge = float(np.round(10 ** rng.uniform(-2, 1), 4))
    alpha = float(np.round(10 ** rng.uniform(-0.5, 1.2), 3))
    return {
        "k": k, "prior": prior, "noise": noise, "estimator": estimator,
        "ridge": None if estimator in ("bayes", "max-margin") else ridge, "alpha": alpha,
    }  # fmt: skip


# A new family goes to the end: the seed of a family is its place.
FAMILIES: list[tuple[int, Callable[[np.random.Generator], Problem]]] = [
    (120, plain),
    (20, softmax),
    (10, continuous),
    (12, spectra),
]


def tolerance(problem: Problem) -> float:
    """What is asked of an answer: loose where the theory samples."""
    sampled = problem["estimator"] in ("cross-entropy", "max-margin")
    return 3e-3 if problem["k"] > 3 and (sampled or problem["prior"] != "gaussian") else 1e-5


def answer(problem: Problem, tol: float | None = None) -> dict[str, Any]:
    """The row at the loose tolerance, or at the one given."""
    features = problem.get("features", "isotropic")
    teacher = Teacher(problem["k"], problem["prior"], problem["noise"], features)
    estimator = make_estimator(problem["estimator"], problem["ridge"])
    (row,) = curve_rows(teacher, estimator, [problem["alpha"]], tol=tol or tolerance(problem))
    return row


def reference(problem: Problem) -> dict[str, Any]:
    """What is kept of the row at a third of the uncertainty that the loose one states."""
    row = answer(problem, max(answer(problem)["uncertainty"] / 3, 1e-12))
    return {name: row[name] for name in (*QUANTITIES, "uncertainty", "status") if name in row}


def records() -> list[Problem]:
    """The problems with their references, as kept."""
    text = files("polyceptron.report.verify").joinpath(NAME).read_text(encoding="utf-8")
    kept: list[Problem] = json.loads(text)
    return kept


def main() -> None:
    """Compute every reference that is not there and write the file."""
    place = Path(__file__).with_name(NAME)
    known = {_key(one): one for one in (records() if place.exists() else [])}
    lines = []
    for problem in draw():
        record = known.get(_key(problem)) or {**problem, "reference": reference(problem)}
        sys.stderr.write(f"{record}\n")
        lines.append(json.dumps(record))
    write_text(place, "[\n" + ",\n".join(lines) + "\n]\n")


def _key(problem: Problem) -> str:
    return json.dumps({name: problem[name] for name in problem if name != "reference"})


if __name__ == "__main__":
    main()
