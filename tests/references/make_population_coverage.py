"""Random unequal classes with the answers of an independent calculation (`population_equations`).

    python -m tests.references.make_population_coverage COUNT [CLASSES [SEED]]

draws populations, students and α (the seed is the clock's unless given, CLASSES are such as 2,3),
and adds to `population_coverage.json` what both say; those that take too long are left out.
"""

from __future__ import annotations

import json
import math
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import log_softmax, ndtr, ndtri
from scipy.stats import multivariate_normal, qmc
from scipy.stats import t as student
from tests.references.population_equations import Rule, ScalarOrder, Task, normal2, solved

PLACE = Path(__file__).with_name("population_coverage.json")
NAMES = ("generalisation_error", "balanced_error", "recall", "test_loss", "training_error")
OURS, THEIRS = 20, 40  # seconds
REPLICATES, POINTS = 5, 12  # of draws, log2 of each


def records() -> list[dict[str, Any]]:
    """The problems with their references, as kept."""
    return list(json.loads(PLACE.read_text(encoding="utf-8"))) if PLACE.exists() else []


def scores(task: Task, law: ScalarOrder, fine: bool, seed: int | None = None) -> dict[str, Any]:
    """Confusion (k, k), and the test loss of cross-entropy."""
    k, r, T = task.k, task.r, task.T
    P, loss = np.zeros((k, k)), math.nan
    ce = task.loss == "cross-entropy"
    if ce:
        loss = 0.0
    if seed is None:
        slope = np.linalg.solve(law.Q[0], law.M)
        C = task.R - law.M.T @ slope
        for c, share in enumerate(task.p):
            L = np.linalg.cholesky(law.Q[c])
            for p in range(k):
                A = task.gaps[p]
                mean, S = A @ (law.m[c] + law.b), A @ law.Q[c] @ A.T
                if not task.taught:
                    a = mean / np.sqrt(np.diag(S))
                    chance = ndtr(a[0])
                    if r == 2:
                        chance = normal2(a[:1], a[1:], S[0, 1] / math.sqrt(S[0, 0] * S[1, 1]))[0]
                    P[c, p] += share * chance
                    continue
                top = np.maximum(mean, 0) + 9 * np.sqrt(np.diag(S))
                low = np.maximum(mean - 9 * np.sqrt(np.diag(S)), 0)
                t, w = np.polynomial.legendre.leggauss(16)
                n = 14 + 6 * fine
                x = [
                    (l + (h - l) * (np.arange(n)[:, None] + (t + 1) / 2) / n).ravel()
                    for l, h in zip(low, top, strict=True)
                ]
                ww = [np.tile(w, n) * (h - l) / (2 * n) for l, h in zip(low, top, strict=True)]
                g = np.stack(np.meshgrid(*x, indexing="ij"), -1).reshape(-1, r)
                weight = np.prod(np.meshgrid(*ww, indexing="ij"), 0).ravel()
                weight = weight * multivariate_normal(mean, S).pdf(g)
                o = np.linalg.solve(A, g.T).T
                Z, _ = task.chances((o - law.b) @ slope + task.biases, (C + C.T) / 2)
                P[:, p] += weight @ Z
            if ce:
                t = np.linspace(-8.4, 8.4, 900 if r == 1 else 160 + 60 * fine)
                x = np.stack(np.meshgrid(*[t] * r, indexing="ij"), -1).reshape(-1, r)
                w = ((t[1] - t[0]) / math.sqrt(2 * math.pi)) ** r * np.exp(-0.5 * (x * x).sum(1))
                o = law.m[c] + law.b + x @ L.T
                Z = np.eye(k)[[c]]
                if task.taught:
                    Z, _ = task.chances((o - law.b) @ slope + task.biases, (C + C.T) / 2)
                loss -= share * float(w @ (Z * log_softmax(o @ T.T, axis=1)).sum(1))
        return {"confusion": P, "test_loss": loss}
    # Four and more classes: normal orthants for the confusion, draws for the rest.
    rng = np.random.default_rng(seed)
    if not task.taught:
        for c, share in enumerate(task.p):
            for p in range(k):
                A = task.gaps[p]
                P[c, p] = share * multivariate_normal.cdf(
                    A @ (law.m[c] + law.b), cov=A @ law.Q[c] @ A.T, abseps=1e-6, maxpts=200_000
                )
            if ce:
                o = (
                    law.m[c]
                    + law.b
                    + ndtri(np.clip(qmc.Sobol(r, rng=rng).random_base2(16), 1e-15, 1 - 1e-15))
                    @ np.linalg.cholesky(law.Q[c]).T
                )
                loss -= share * float(log_softmax(o @ T.T, axis=1)[:, c].mean())
        return {"confusion": P, "test_loss": loss}
    n = 18
    u = np.clip(qmc.Sobol(2 * r + k + 1, rng=rng).random_base2(n), 1e-15, 1 - 1e-15)
    z = ndtri(u[:, :r]) @ np.linalg.cholesky(task.R).T
    y = task.drawn_labels(z, u[:, 2 * r :])
    B = np.linalg.solve(task.R, law.M.T).T
    o = law.b + z @ B.T + ndtri(u[:, r : 2 * r]) @ np.linalg.cholesky(law.Q[0] - B @ law.M.T).T
    said = (o @ T.T).argmax(1)
    np.add.at(P, (y, said), 1 / len(y))
    if ce:
        loss = -float(log_softmax(o @ T.T, axis=1)[np.arange(len(y)), y].mean())
    return {"confusion": P, "test_loss": loss}


def numbers(found: dict[str, Any], wrong: float) -> dict[str, Any]:
    P = found["confusion"]
    recall = np.diag(P) / P.sum(1)
    return {
        "generalisation_error": 1 - np.trace(P),
        "balanced_error": 1 - recall.mean(),
        "recall": recall,
        "test_loss": found["test_loss"],
        "training_error": wrong,
    }


def reference(problem: dict[str, Any]) -> dict[str, Any] | None:
    """Values and what they are worth (99 in 100), by name; None where no root was found."""
    task = Task(problem)
    kinked = task.loss in ("hinge", "max-margin")
    if (
        task.k <= 3
        and not (task.k == 3 and kinked)
        and not (task.k == 3 and task.noise[0] == "softmax")
    ):
        sizes = (2.0, 3.0) if task.k == 2 else (140, 200)
        first = solved(Rule(task, 1.0 if task.k == 2 else 48), None, 1e-6, 3000)
        levels = []
        for size in sizes:
            first = first and solved(Rule(task, size), first[0], 1e-9)
            if not first:
                return None
            wrong = [first[2]]
            if task.k == 3:  # an indicator on a grid: shifted grids
                step = 16.4 / (size - 1)
                for i in range(6):
                    rule = Rule(task, size)
                    rule.shift = step * ((i * 0.618) % 1)
                    wrong.append(rule(first[1])[1])
            levels.append(
                (numbers(scores(task, first[1], size == sizes[1]), float(np.mean(wrong))), wrong)
            )
        (coarse, _), (fine, wrong) = levels
        doubt = {n: 2 * np.abs(fine[n] - coarse[n]) + 3e-9 for n in fine}
        if task.k == 3:
            doubt["training_error"] += 3 * float(np.std(wrong))
        return {n: (fine[n], doubt[n]) for n in fine}
    found = []
    first = solved(Rule(task, 9, 7), None, 1e-4, 3000)
    for seed in range(REPLICATES):
        one = solved(Rule(task, POINTS, 100 + seed), first and first[0], 3e-5)
        if one is None:
            return None
        first = one
        found.append(numbers(scores(task, one[1], True, 1000 + seed), one[2]))
    t = float(student.ppf(0.995, REPLICATES - 1)) / math.sqrt(REPLICATES)
    each = {n: np.array([f[n] for f in found]) for n in found[0]}
    return {n: (v.mean(0), t * v.std(0, ddof=1) + 2e-6) for n, v in each.items()}


def draw(rng: np.random.Generator, classes: Any = (2, 3, 4, 5, 6)) -> dict[str, Any]:
    """A random problem as plain numbers."""
    k = int(rng.choice(classes))
    loss = str(rng.choice(["cross-entropy", "cross-entropy", "square", "hinge", "max-margin"]))
    intercept = bool(rng.random() < 0.6)
    root = rng.standard_normal((k, k)) / math.sqrt(k) + np.eye(k)
    gram = (root @ root.T).round(4)
    shares = (rng.dirichlet(np.full(k, 3.0)) + 0.02).round(4)
    shares = shares / shares.sum()
    weight = [None, "balanced", tuple(rng.uniform(0.3, 3, k).round(3).tolist())][
        int(rng.integers(3))
    ]
    problem = {
        "k": k,
        "loss": loss,
        "ridge": float(f"{10 ** rng.uniform(-3, 1):.4g}"),
        "alpha": float(f"{10 ** rng.uniform(-0.3, 1.2):.4g}"),
        "intercept": intercept,
        "class_weight": None if loss == "max-margin" else weight,
        "tol": [None, None, 3e-3][int(rng.integers(3))],
    }
    if rng.random() < 0.5:
        noise = str(
            rng.choice(
                [
                    "none",
                    f"gaussian:{rng.uniform(0.05, 1):.3f}",
                    f"flips:{rng.uniform(0.02, 0.2):.3f}",
                    f"softmax:{10 ** rng.uniform(-0.2, 0.7):.3f}",
                ]
            )
        )
        problem |= {
            "kind": "teacher",
            "noise": noise,
            "gram": None,
            "biases": rng.normal(0, 0.7, k).round(3).tolist(),
        }
        if rng.random() < 0.4:
            problem["gram"] = gram.tolist()
        if loss == "max-margin":
            problem |= {"noise": "none", "intercept": True}
    else:
        levels = [[1.0, *rng.uniform(0.3, 2, k).round(3).tolist(), 1.0]]
        if rng.random() < 0.4:
            f, g = rng.uniform(0.2, 0.8, 2).round(3).tolist()
            levels = [
                [f, *rng.uniform(0.3, 3, k).round(3).tolist(), g],
                [1 - f, *rng.uniform(0.3, 1, k).round(3).tolist(), 1 - g],
            ]
        problem |= {
            "kind": "mixture",
            "shares": shares.tolist(),
            "gram": (rng.uniform(0.5, 2) * gram).tolist(),
            "levels": levels,
        }
        if loss == "max-margin":  # below 2 any two classes can be separated
            problem["alpha"] = float(f"{rng.uniform(0.2, 1.8):.4g}")
    return problem


def answer(problem: dict[str, Any]) -> Any:
    """What the package says."""
    import polyceptron as pc

    p = problem
    if p["kind"] == "teacher":
        population: Any = pc.Teacher(p["k"], noise=p["noise"], biases=p["biases"], gram=p["gram"])
    else:
        population = pc.Mixture(p["shares"], gram=p["gram"], levels=p["levels"])
    ridge = 0.0 if p["loss"] == "max-margin" else p["ridge"]
    spec = pc.ERM(p["loss"], ridge, intercept=p["intercept"], class_weight=p["class_weight"])
    return pc.erm_fixed_point(population, spec, p["alpha"], p["tol"])


def held(point: Any, kept: dict[str, Any]) -> Any:
    """Name, distance in units of both bars, and whether the reference is the finer one."""
    for name in NAMES:
        bar = getattr(point, f"{name}_uncertainty".removeprefix("generalisation_error_"))
        value, (truth, doubt) = getattr(point, name), kept[name]
        off = np.abs(np.asarray(value) - np.asarray(truth))
        both = np.hypot(bar, doubt)
        if not np.isfinite(off).all():
            continue
        yield name, float(np.max(off / both)), bool(np.all(np.asarray(doubt) <= np.asarray(bar)))


def main() -> None:
    """Draw, ask, solve again, keep."""
    count, seed = int(sys.argv[1]), int(sys.argv[3]) if len(sys.argv) > 3 else int(time.time())
    classes = [int(k) for k in sys.argv[2].split(",")] if len(sys.argv) > 2 else (2, 3, 4, 5, 6)
    rng, kept = np.random.default_rng(seed), records()
    sys.stderr.write(f"seed {seed}\n")

    def late(*_: Any) -> None:
        raise TimeoutError("too slow")

    signal.signal(signal.SIGVTALRM, late)
    for _ in range(count):
        problem = draw(rng, classes)
        try:
            signal.setitimer(signal.ITIMER_VIRTUAL, OURS)
            point = answer(problem)
            signal.setitimer(signal.ITIMER_VIRTUAL, THEIRS)
            found = reference(problem)
        except (ValueError, TimeoutError) as error:
            sys.stderr.write(f"left out: {error!r} {problem}\n")
            continue
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        if found is None or point.status == "not-converged":
            sys.stderr.write(f"no root: {point.status} {problem}\n")
            continue
        plain = {n: [np.asarray(v).tolist(), np.asarray(d).tolist()] for n, (v, d) in found.items()}
        kept.append({**problem, "seed": seed, "reference": plain})
        worst = max(distance for _, distance, _ in held(point, found))
        sys.stderr.write(f"{worst:.2f} bars: {problem}\n")
    PLACE.write_text("[\n" + ",\n".join(map(json.dumps, kept)) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
