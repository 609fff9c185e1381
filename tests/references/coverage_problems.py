"""Random problems of the theory and much finer answers to them, kept as data.

    python tests/references/coverage_problems.py        makes coverage.json again (some minutes)

A problem is drawn from one seed: the number of classes from 2 to 12, prior, noise, estimator, ridge
and α. `answer` solves it at a loose tolerance, with the uncertainty it states; the reference is the
same question at a third of that uncertainty or less, hence with other nodes or points.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from polyceptron.model import ERM, BayesOptimal, Teacher
from polyceptron.theory import curve_rows

DATA = Path(__file__).parent / "coverage.json"
SEED, COUNT = 0, 120
QUANTITIES = ("generalisation_error", "training_error", "training_loss")


def draw(count: int = COUNT) -> list[dict[str, Any]]:
    """The problems, a function of the seed alone."""
    rng = np.random.default_rng(SEED)
    problems = []
    for _ in range(count):
        k = int(rng.integers(2, 13))
        estimator = str(rng.choice(["bayes", "cross-entropy", "square", "max-margin"]))
        bayes, few = estimator == "bayes", k <= 3
        priors = ["gaussian", "rademacher", *(["ternary"] if few else [])]
        prior = str(rng.choice(priors)) if bayes else "gaussian"
        kinds = ["none", "gaussian", *(["flips"] if few or not bayes else [])]
        kind = "none" if estimator == "max-margin" else str(rng.choice(kinds))
        amount = {"none": "", "gaussian": f":{rng.uniform(0.05, 1):.3f}", "flips": ":0.1"}[kind]
        ridge = float(np.round(10 ** rng.uniform(-2, 1), 4))
        alpha = float(np.round(10 ** rng.uniform(-0.5, 1.2), 3))
        problems.append(
            {"k": k, "prior": prior, "noise": kind + amount, "estimator": estimator,
             "ridge": None if estimator in ("bayes", "max-margin") else ridge, "alpha": alpha}
        )  # fmt: skip
    return problems


def answer(problem: dict[str, Any], tol: float | None = None) -> dict[str, Any]:
    """The row at a loose tolerance, or at the one given."""
    k, name = problem["k"], problem["estimator"]
    teacher = Teacher(k, problem["prior"], problem["noise"])
    estimator = BayesOptimal() if name == "bayes" else ERM(name, problem["ridge"])  # type: ignore[arg-type]
    sampled = k > 3 and (name in ("cross-entropy", "max-margin") or problem["prior"] != "gaussian")
    loose = 3e-3 if sampled else 1e-5
    (row,) = curve_rows(teacher, estimator, [problem["alpha"]], tol=tol or loose)
    return row


def reference(problem: dict[str, Any]) -> dict[str, Any]:
    """The row at a third of the uncertainty that the loose one states."""
    return answer(problem, max(answer(problem)["uncertainty"] / 3, 1e-12))


def main() -> None:
    """Compute every reference and write the file."""
    records = []
    for i, problem in enumerate(draw()):
        start = time.time()
        row = reference(problem)
        kept = {name: row[name] for name in QUANTITIES if name in row}
        kept |= {"uncertainty": row["uncertainty"], "status": row["status"]}
        records.append({**problem, "reference": kept})
        sys.stderr.write(f"{i} {problem} {kept} {time.time() - start:.1f} s\n")
    DATA.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
