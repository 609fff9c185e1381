"""Do stated uncertainties hold on problems that nobody has seen, against another route?

    python -m tests.references.fresh_coverage run FILE [SECONDS]    a seed from the clock
    python -m tests.references.fresh_coverage show FILE …           counts, and every miss

A problem is any loss, noise, feature model and penalty, k = 2 to 20 (some 50 and 100), α from 0.05
to 1000 and λ from 1e-6 to 10 or 0, at the default tolerance. Each is a line of FILE as soon as it
is done: the seed and number that draw it again, the row, the answer of `other_route`, times.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from tests.references.make_coverage import Held, Record, held_against, spectra
from tests.references.other_route import other_route, problem_of

from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.theory.erm.fixed_point import erm_fixed_point

LOSSES = ("cross-entropy", "max-margin", "hinge", "squared-hinge", "weston-watkins")
LOSSES += ("smoothed:0.1", "square")
LIMIT = 40  # process seconds of an answer, and of its reference


def fresh(seed: int, number: int) -> Record:
    """A problem, as a function of the seed and its number."""
    rng = np.random.default_rng([seed, number])
    few, some, many = rng.choice([2, 3, 3]), rng.integers(4, 21), rng.choice([50, 100])
    k = int(rng.choice([few, some, many], p=[0.3, 0.63, 0.07]))
    loss = str(rng.choice(LOSSES))
    noises = [
        "none",
        f"gaussian:{rng.uniform(0.02, 1):.3f}",
        f"softmax:{10 ** rng.uniform(-0.3, 1):.3f}",
        f"flips:{rng.uniform(0.01, 0.3):.3f}",
    ]
    features = ["isotropic", "marchenko-pastur:0.5", "random-features:relu:1.5"]
    features += [str(spectra(rng)["features"]) for _ in range(3)]
    problem: Record = {
        "seed": seed,
        "number": number,
        "k": k,
        "loss": loss,
        "noise": str(rng.choice(noises)),
        "features": str(rng.choice(features)),
        "alpha": float(f"{10 ** rng.uniform(np.log10(0.05), 3):.4g}"),
        "ridge": float(f"{10 ** rng.uniform(-6, 1):.4g}"),
    }
    kind, l1, l2, less = rng.random(), *10 ** rng.uniform(-3, 0, 2), 10 ** rng.uniform(-1, 0.3)
    if loss == "max-margin":
        problem["ridge"] = 0.0
        if problem["noise"] != "none":  # below α_s, mostly
            problem["alpha"] = float(f"{less:.4g}")
    elif kind < 0.1:
        problem.update(ridge=None, penalty=f"elastic-net:{l1:.4g}:{l2:.4g}")
    elif kind < 0.2 and not loss.startswith("smoothed"):
        problem["ridge"] = 0.0
    return problem


class Late(Exception):
    """A calculation took longer than it may."""


def timed(seconds: float, call: Any) -> tuple[Any, float]:
    """What a call returns, an error's sentence or None where it took too long; process seconds."""

    def stop(*_: Any) -> None:
        raise Late

    signal.signal(signal.SIGPROF, stop)
    start = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        found = call()
    except Late:
        found = None
    except (ComputationFailed, InvalidInput) as error:
        found = str(error)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return found, round(time.process_time() - start, 2)


def judged(problem: Record) -> Record:
    """The problem with its row, the other route's answer and times."""
    teacher, spec = problem_of(problem)
    point, seconds = timed(LIMIT, lambda: erm_fixed_point(teacher, spec, problem["alpha"]))
    record = {**problem, "seconds": seconds}
    if point is None or isinstance(point, str):
        return {**record, "status": point or "late"}
    names = ("generalisation_error", "uncertainty", "training_error", "training_error_uncertainty")
    names += ("training_loss", "training_loss_uncertainty", "tau", "q", "V")
    row = {name: float(getattr(point, name)) for name in names}
    record.update(status=str(point.status), row=row)
    if not np.isfinite([point.tau, point.q, point.V]).all() or point.q == 0:
        return record  # without an answer, or without weights
    seed = int(np.random.SeedSequence([problem["seed"], problem["number"]]).generate_state(1)[0])
    found, seconds = timed(LIMIT, lambda: other_route(problem, point, seed % 2**31))
    if not isinstance(found, dict):
        found = {"status": found or "late"}
    return {**record, "reference": found, "reference_seconds": seconds}


def held(record: Record) -> list[Held]:
    """Every number that can be compared."""
    if "uncertainty" not in record.get("reference", {}):
        return []
    return list(held_against(record, record["row"]))


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")


def show(records: list[Record]) -> None:
    """Counts, misses, problems without an answer, and what is slow."""
    found = [one for record in records for one in held(record)]
    for name, part in (
        ("against a finer answer", [one for one in found if one.finer]),
        ("both bars allowed", [one for one in found if not one.finer]),
    ):
        inside, worst = (
            sum(one.distance <= 1 for one in part),
            max((x.distance for x in part), default=0),
        )
        _say(f"{name}: {inside} of {len(part)} inside, farthest {worst:.2f} bars")
    for one in found:
        if one.distance > 0.8:
            _say(f"{one.distance:.2f} {one.quantity} {one.finer} {json.dumps(one.problem)}")
    for record in records:
        if not held(record) or record["status"] != "ok" or record["seconds"] > 5:
            short = {x: record[x] for x in record if x not in ("row", "reference")}
            _say(json.dumps({**short, "reference": record.get("reference", {}).get("status")}))


def main() -> None:
    command, *names = sys.argv[1:]
    if command == "show":
        show([json.loads(line) for name in names for line in Path(name).read_text().splitlines()])
        return
    seed, start = int(time.time()), time.time()
    limit = float(names[1]) if len(names) > 1 else 3600.0
    with Path(names[0]).open("a", encoding="utf-8") as file:
        number = 0
        while time.time() - start < limit:
            file.write(json.dumps(judged(fresh(seed, number))) + "\n")
            file.flush()
            number += 1


if __name__ == "__main__":
    main()
