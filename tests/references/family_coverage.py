"""Do bars hold for the families of problems that no other coverage reaches?

    python -m tests.references.family_coverage run FILE [SECONDS [FAMILY …]]
    python -m tests.references.family_coverage show FILE …

`run` takes its seed from the clock; `show` counts, and lists every miss. Each family draws a
problem from a seed and a number, asks the package, and asks another route:

    losses      any smooth loss at k = 4 to 6, unequal teachers and mixtures    draws
    features    mixtures with levels, or covariances in full, k = 2 to 5        draws
    resampling  bootstrap, subsamples, folds; equal and unequal classes         draws
    scores      test loss, Brier score, calibration error of equal classes      samples
    margins     densities of margins, fresh and training, all kinds of classes  samples
    floors      the best linear rule                                            samples, a grid
    shifts      the best shift of intercepts                                    samples, trials
    weights     the best class weights                                          trials
    many        Bayes-optimal students of 4 to 6 equal classes, several priors  draws
    biased      Bayes-optimal students of biased teachers, k = 2, 3             draws
    priors      finite priors with a spectrum of the features, k = 2            plain sums
    separability  α_s of four unequal classes                                   linear programs

The last four are those of `bayes_families`. `draws` are the equations of `drawn_route`, with a root
for each replicate of the draws. A searched cost must be that of its rule, and no trial may cost
less than bars allow.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtr, softmax
from tests.references.bayes_families import biased, many, priors, separability
from tests.references.drawn_route import Features, Problem, drawn_answer, trained
from tests.references.held import Held

import polyceptron as pc
from polyceptron.errors import ComputationFailed
from polyceptron.theory.erm.population_point import PopulationPoint
from polyceptron.theory.linear_floor import linear_floor
from polyceptron.theory.margins import margin_law

SMOOTH = ("cross-entropy", "square", "squared-hinge", "smoothed:0.1")
LOG2 = 12  # of draws in a replicate
DRAWN = 100_000  # samples of a rule that is scored by counting
STANDARD_ERRORS = 3.3  # of samples: chance alone puts one number of a thousand outside
RARE = 5 / DRAWN  # chance of an event that no sample may have met


def unequal(rng: np.random.Generator, k: int, loss: str, full: bool, levels: bool) -> Any:
    """A population of k unequal classes, an estimator, α, and the same as plain numbers."""
    ridge = float(10 ** rng.uniform(-1.5, 0.5))
    alpha = float(10 ** rng.uniform(-0.2, 0.8))
    intercept = bool(rng.random() < 0.6)
    weight = None if rng.random() < 0.5 else tuple(rng.uniform(0.4, 2.5, k).round(2).tolist())
    spec = pc.ERM(loss, ridge, intercept=intercept, class_weight=weight)
    plain: dict[str, Any] = {
        "k": k,
        "loss": loss,
        "ridge": ridge,
        "alpha": alpha,
        "intercept": intercept,
        "class_weight": weight,
    }
    shares = rng.dirichlet(np.full(k, 4.0)) + 0.03
    shares = shares / shares.sum()
    if full:
        d = int(rng.integers(3, 7))
        mu = rng.standard_normal((k, d)) / 1.5
        roots = rng.standard_normal((k, d, d)) / math.sqrt(d)
        sigma = roots @ roots.swapaxes(1, 2) + 0.3 * np.eye(d)
        population: Any = pc.Mixture(shares, means=mu, covariances=sigma)
        features = Features(mu=mu * math.sqrt(d), sigma=sigma)
        return population, spec, Problem(**plain, features=features, shares=shares)
    root = rng.standard_normal((k, k)) / math.sqrt(k) + np.eye(k)
    gram = root @ root.T
    if levels or rng.random() < 0.5:
        table = np.array([[1.0, *rng.uniform(0.4, 2, k), 1.0]])
        if levels:
            f, g = rng.uniform(0.2, 0.8, 2)
            table = np.array(
                [
                    [f, *rng.uniform(0.4, 2.5, k), g],
                    [1 - f, *rng.uniform(0.2, 1, k), 1 - g],
                ]
            )
        population = pc.Mixture(shares, gram=gram, levels=table)
        features = Features(
            fraction=table[:, 0],
            s=table[:, 1:-1],
            gram=table[:, -1, None, None] * gram,
            theta=np.zeros(len(table)),
        )
        return population, spec, Problem(**plain, features=features, shares=shares)
    noise = [("none", 0.0), ("gaussian", 0.3), ("softmax", 2.0), ("flips", 0.1)][rng.integers(4)]
    biases = rng.normal(0, 0.5, k)
    name = noise[0] if noise[0] == "none" else f"{noise[0]}:{noise[1]}"
    population = pc.Teacher(k, noise=name, biases=tuple(biases))
    features = Features(
        fraction=np.ones(1), s=np.ones((1, 1)), gram=np.zeros((1, 1, 1)), theta=np.ones(1)
    )
    return population, spec, Problem(**plain, features=features, biases=biases, noise=noise)


def held_point(population: Any, spec: Any, problem: Problem, seed: int) -> Iterator[Held]:
    """The numbers of a fixed point against those of draws."""
    tol = 3e-3 if problem.k > 3 else None
    point = pc.erm_fixed_point(population, spec, problem.alpha, tol)
    if point.status == "not-converged":
        raise ComputationFailed("not converged")
    truths = drawn_answer(problem, seed, LOG2)
    names = ("generalisation_error", "training_error", "training_loss", "test_loss", "brier")
    for name in names:
        bar = f"{name}_uncertainty".removeprefix("generalisation_error_")
        value = getattr(point, name)
        if name in truths and math.isfinite(value):
            yield Held(name, value, getattr(point, bar), *truths[name])


def losses(rng: np.random.Generator) -> Iterator[Held]:
    """Yield numbers of four classes and more, with any smooth loss."""
    k, loss = int(rng.integers(4, 7)), str(rng.choice(SMOOTH))
    yield from held_point(*unequal(rng, k, loss, False, False), int(rng.integers(1 << 30)))


def features(rng: np.random.Generator) -> Iterator[Held]:
    """Yield numbers of mixtures with levels of eigenvalues, or with covariances in full."""
    full = bool(rng.random() < 0.5)
    k, loss = int(rng.integers(2, 5 if full else 6)), str(rng.choice(SMOOTH))
    yield from held_point(*unequal(rng, k, loss, full, not full), int(rng.integers(1 << 30)))


def resampling(rng: np.random.Generator) -> Iterator[Held]:
    """Yield rows of two students on one data set."""
    k, loss = int(rng.integers(2, 5)), str(rng.choice(SMOOTH))
    scheme = str(rng.choice(["bootstrap", "bootstrap:0.5", "subsample:0.6", "folds:3"]))
    population, spec, problem = unequal(rng, k, loss, False, False)
    if rng.random() < 0.5:
        spec = pc.ERM(loss, problem.ridge)
        population = pc.Teacher(k)
        problem = Problem(
            k,
            loss,
            problem.ridge,
            problem.alpha,
            False,
            Features(
                fraction=np.ones(1), s=np.ones((1, 1)), gram=np.zeros((1, 1, 1)), theta=np.ones(1)
            ),
            biases=np.zeros(k),
        )
    problem.weights = scheme
    limit = math.inf if scheme != "folds:3" else 3.0
    tol = {2: 1e-4, 3: 1e-3}.get(k, 5e-3)
    found = pc.resampling(population, spec, problem.alpha, scheme, (1, 2, limit), tol)
    rows = {(row["quantity"], row["fits"]): row for row in found.rows}
    own_limit = () if scheme == "folds:3" else (math.inf,)
    truths = drawn_answer(problem, int(rng.integers(1 << 30)), LOG2, own_limit)
    pairs = {
        "generalisation_error": ("error", 1.0),
        "error:2": ("error", 2.0),
        "error:inf": ("error", math.inf),
        "agreement": ("agreement", 2.0),
    }
    for name, key in pairs.items():
        if name in truths:
            yield Held(name, rows[key]["value"], rows[key]["uncertainty"], *truths[name])
    row = next(row for row in found.rows if row["quantity"] == "variance over resamples")
    name = "variance over resamples"
    yield Held(name, row["value"], row["uncertainty"], *truths[name])


def drawn_fields(law: Any, n: int, rng: np.random.Generator, k: int) -> tuple[Any, Any, Any]:
    """Fields ω + b (n, r), labels, groups, of a law with matrices, drawn one by one."""
    T = pc_basis(k)
    shares = np.asarray(law.shares)
    group = rng.choice(len(shares), n, p=shares)
    roots = np.linalg.cholesky(law.Q)
    omega = law.m[group] + np.einsum("nij,nj->ni", roots[group], rng.standard_normal((n, k - 1)))
    if law.teacher is None:
        return omega + law.b, group, group
    M, R, biases, channel = law.teacher
    slope = np.linalg.solve(law.Q[0], M)
    C = R - M.T @ slope
    z = biases + omega @ slope + rng.standard_normal(omega.shape) @ np.linalg.cholesky(C).T
    chances = channel.chances(z @ T.T)
    u = rng.random(n)[:, None]
    y = (np.cumsum(chances, 1) < u).sum(1).clip(0, k - 1)
    return omega + law.b, y, group


def pc_basis(k: int) -> Any:
    """Contrasts in which the package gives its laws: Helmert's."""
    from scipy.linalg import helmert

    return helmert(k).T


def counted(
    name: str, value: float, bar: float, samples: Any, rng: Any, least: float = 1e-6
) -> Held:
    """A mean against that of samples, with their standard errors and at least `least`."""
    del rng
    samples = np.asarray(samples, dtype=float)
    doubt = STANDARD_ERRORS * float(samples.std()) / math.sqrt(len(samples)) + least
    return Held(name, float(value), float(bar), float(samples.mean()), doubt)


def scores(rng: np.random.Generator) -> Iterator[Held]:
    """Yield test loss, Brier score and calibration error of equal classes."""
    k = int(rng.integers(2, 7))
    noise = str(rng.choice(["none", "softmax:2", "gaussian:0.3", "flips:0.1"]))
    teacher = pc.Teacher(k, noise=noise)
    spec = pc.ERM("cross-entropy", float(10 ** rng.uniform(-1, 0.5)))
    alpha = float(10 ** rng.uniform(-0.2, 1))
    found = pc.calibration(teacher, spec, alpha)
    point = pc.erm_fixed_point(teacher, spec, alpha)
    n = DRAWN
    z = rng.standard_normal((n, k))
    omega = point.m * z + math.sqrt(point.q - point.m**2) * rng.standard_normal((n, k))
    chances = teacher.channel.chances(z)
    y = (np.cumsum(chances, 1) < rng.random(n)[:, None]).sum(1).clip(0, k - 1)
    p = softmax(omega, axis=1)
    own = p[np.arange(n), y]
    yield counted("test_loss", found.test_loss, found.test_loss_uncertainty, -np.log(own), rng)
    brier = (p * p).sum(1) - 2 * own + 1
    yield counted("brier", found.brier, found.brier_uncertainty, brier, rng)
    top, hit = p.max(1), p.argmax(1) == y
    place = np.clip(np.searchsorted(found.edges, top, side="right") - 1, 0, len(found.edges) - 2)
    parts = np.array_split(np.arange(n), 40)
    gap = np.array(
        [np.bincount(place[i], hit[i] - top[i], len(found.edges) - 1) / len(i) for i in parts]
    )
    errors = (np.sign(gap.mean(0)) * gap).sum(1)
    bar = found.calibration_error_uncertainty
    # The sign of a bin is that of the draws: where it is in doubt, the sum is too large by chance.
    spread = gap.std(0, ddof=1) / math.sqrt(len(parts))
    doubtful = float(spread[np.abs(gap.mean(0)) < 3 * spread].sum())
    doubt = 2.7 * float(errors.std(ddof=1)) / math.sqrt(len(parts)) + doubtful
    name = "calibration_error"
    yield Held(name, found.calibration_error, bar, float(errors.mean()), doubt)


def margins(rng: np.random.Generator) -> Iterator[Held]:
    """Yield masses between margins, or sampled densities, of fresh and training samples."""
    k = int(rng.integers(2, 6))
    population, spec, problem = unequal(rng, k, "cross-entropy", False, False)
    if rng.random() < 0.5:
        noise = [("none", 0.0), ("gaussian", 0.3), ("softmax", 2.0), ("flips", 0.1)][
            rng.integers(4)
        ]
        name = noise[0] if noise[0] == "none" else f"{noise[0]}:{noise[1]}"
        population, spec = pc.Teacher(k, noise=name), pc.ERM("cross-entropy", problem.ridge)
        problem = replace(problem, class_weight=None, intercept=False, R=None, biases=np.zeros(k))
    tol = 3e-3 if k > 3 else 1e-5
    point = pc.erm_fixed_point(population, spec, problem.alpha, tol)
    T = pc_basis(k)
    problem.T = T  # the law is in these contrasts
    if isinstance(point, PopulationPoint):
        o, y, group = drawn_fields(point.law, DRAWN, rng, k)
        metrics = point.V
    else:
        o, y = fields_of_scalars(population, point, DRAWN, rng)
        group, metrics = np.zeros_like(y), point.V * np.eye(k - 1)[None]
    moved = np.empty_like(o)
    for c, V in enumerate(metrics):
        rows = group == c
        moved[rows] = trained(problem, o[rows], y[rows], V, problem.c[y[rows]], None)[0]
    samples = {"fresh": margin_of(o @ T.T, y), "training": margin_of(moved @ T.T, y)}
    low, high = np.quantile(np.concatenate(list(samples.values())), [0.002, 0.998])
    if k <= 3 or not isinstance(point, PopulationPoint):
        law: Any = margin_law(population, spec, problem.alpha, np.linspace(low, high, 401), tol)
        yield from held_masses(law, samples, rng)
    else:
        law = margin_law(population, spec, problem.alpha, np.linspace(low, high, 14), tol)
        yield from held_cells(law, samples, rng)


def fields_of_scalars(
    teacher: Any, point: Any, n: int, rng: np.random.Generator
) -> tuple[Any, Any]:
    """Fields ω (n, r) in contrasts and labels, of a law with scalars, drawn one by one."""
    k = teacher.n_classes
    z = rng.standard_normal((n, k))
    rest = math.sqrt(point.q - point.m**2) * rng.standard_normal((n, k))
    chances = teacher.channel.chances(z)
    y = (np.cumsum(chances, 1) < rng.random(n)[:, None]).sum(1).clip(0, k - 1)
    return (point.m * z + rest) @ pc_basis(k), y


def margin_of(fields: Any, y: Any) -> Any:
    """Margins (n,) of labels at fields (n, k)."""
    rows = np.arange(len(y))
    others = fields.copy()
    others[rows, y] = -np.inf
    return fields[rows, y] - others.max(1)


def held_masses(law: Any, samples: dict[str, Any], rng: np.random.Generator) -> Iterator[Held]:
    """Masses between six pairs of margins, of densities that are known at points."""
    ends = np.linspace(0, len(law.margin) - 1, 7).astype(int)
    h = law.margin[1] - law.margin[0]
    for name, margin in samples.items():
        density, bars = getattr(law, name), getattr(law, f"{name}_uncertainty")
        slope = np.gradient(density, h)
        for i, j in itertools.pairwise(ends):
            part = slice(i, j + 1)
            mass = np.trapezoid(density[part], dx=h)
            # What the trapezoidal rule errs by, twice for kinks.
            rule = h * h / 6 * np.abs(np.diff(slope[part])).sum()
            inside = (margin > law.margin[i]) & (margin <= law.margin[j])
            bar = np.trapezoid(bars[part], dx=h) + rule
            yield counted(name, mass, bar, inside, rng, RARE)


def held_cells(law: Any, samples: dict[str, Any], rng: np.random.Generator) -> Iterator[Held]:
    """Densities as means over cells, which are triangles of unit mass."""
    x = law.margin
    h = x[1] - x[0]
    for name, margin in samples.items():
        for i in range(1, len(x) - 1):
            triangle = np.maximum(1 - np.abs(margin - x[i]) / h, 0) / h
            value, bar = getattr(law, name)[i], getattr(law, f"{name}_uncertainty")[i]
            yield counted(name, value, bar, triangle, rng, RARE / h)


def random_mixture(rng: np.random.Generator, k: int) -> Any:
    """A mixture with a variance for each class."""
    shares = rng.dirichlet(np.full(k, 4.0)) + 0.03
    variances = rng.uniform(0.3, 2.5, k)
    return pc.Mixture(shares / shares.sum(), separation=rng.uniform(1, 3), variances=variances)


def floors(rng: np.random.Generator) -> Iterator[Held]:
    """Yield the least error of a linear rule: of two classes against a grid, of more by samples."""
    k = int(rng.integers(2, 5))
    mixture = random_mixture(rng, k)
    found = linear_floor(mixture)
    level = np.array(mixture.levels)[0]
    variance, shares = level[1:-1], np.array(mixture.shares)
    if k == 2:
        a = math.sqrt(float(np.trace(np.array(mixture.gram)))) / math.sqrt(2)
        t = np.linspace(-40, 40, 2_000_001)
        low, high = ndtr((t - a) / math.sqrt(variance[0])), ndtr((t + a) / math.sqrt(variance[1]))
        best = min(
            float((shares[0] * (1 - low) + shares[1] * high).min()),
            float((shares[0] * low + shares[1] * (1 - high)).min()),
        )
        yield Held("least", found.value, found.uncertainty, best, 1e-7)
        # The mean of class 1 is at a, of class 2 at −a: so are the two signs of the line.
        return
    from polyceptron.theory.linear_floor import clusters_of

    clusters = clusters_of(mixture)
    y = rng.choice(k, DRAWN, p=shares)
    noise = rng.standard_normal((DRAWN, clusters.dimension))
    x = clusters.means[y] + np.sqrt(clusters.variances[y]) * noise
    rule: Any = found.rule
    wrong = (x @ rule[:-1] + rule[-1]).argmax(1) != y
    yield counted("its rule", found.value, found.uncertainty, wrong, rng)


def shifts(rng: np.random.Generator) -> Iterator[Held]:
    """Yield the cost of the best shift, against samples, and against the cheapest of trials."""
    k = int(rng.integers(2, 6))
    population, spec, problem = unequal(rng, k, "cross-entropy", False, False)
    decision = pc.best_shift(population, spec, problem.alpha, tol=3e-3 if k > 3 else 1e-5)
    law = decision.point.law
    o, y, _ = drawn_fields(law, DRAWN, rng, k)
    T, weight = pc_basis(k), 1 / (k * population.class_shares)
    wrong = ((o @ T.T + decision.chosen).argmax(1) != y) * weight[y]
    yield counted("cost", decision.cost, decision.cost_uncertainty, wrong, rng)
    spread = float(np.sqrt(np.trace(law.Q, axis1=1, axis2=2).max()))
    least = float(wrong.mean())
    excess = wrong
    for scale in np.repeat([0.03, 0.1, 0.3, 1.0], 50):
        trial = decision.chosen + scale * spread * rng.standard_normal(k)
        cost = ((o @ T.T + trial).argmax(1) != y) * weight[y]
        if cost.mean() < least:
            least, excess = float(cost.mean()), cost
    # How much less a trial costs on the same samples: 0 is allowed, and what bars leave open; of
    # 200 trials the luckiest is ahead by four standard errors of the difference.
    ahead = wrong - excess
    doubt = 4 * float(ahead.std()) / math.sqrt(len(ahead)) + 1e-6
    bar = decision.cost_uncertainty
    yield Held("no cheaper trial", float(ahead.mean()), bar, 0.0, doubt)


def weights(rng: np.random.Generator) -> Iterator[Held]:
    """Yield how much less a trial of class weights costs than those that were found."""
    k = int(rng.integers(2, 4))
    population, _, problem = unequal(rng, k, "cross-entropy", False, False)
    spec = pc.ERM("cross-entropy", problem.ridge, intercept=True)
    tol = 1e-5
    decision = pc.best_class_weight(population, spec, problem.alpha, tol=tol)
    point = pc.erm_fixed_point(
        population,
        pc.ERM("cross-entropy", problem.ridge, intercept=True, class_weight=decision.chosen),
        problem.alpha,
        tol,
    )
    bars = decision.cost_uncertainty, point.balanced_error_uncertainty
    yield Held("cost", decision.cost, bars[0], point.balanced_error, bars[1])
    family = -np.log(np.asarray(population.class_shares))
    least = math.inf
    for gamma in np.linspace(-1, 3, 9):
        trial = np.exp(gamma * family)
        trial /= np.asarray(population.class_shares) @ trial  # else the ridge counts for less
        own = pc.ERM("cross-entropy", problem.ridge, intercept=True, class_weight=tuple(trial))
        least = min(least, pc.erm_fixed_point(population, own, problem.alpha, tol).balanced_error)
    ahead = max(decision.cost - least, 0.0)
    yield Held("no cheaper trial", ahead, decision.cost_uncertainty, 0.0, tol)


FAMILIES: dict[str, Callable[[np.random.Generator], Iterator[Held]]] = {
    "losses": losses,
    "features": features,
    "resampling": resampling,
    "scores": scores,
    "margins": margins,
    "floors": floors,
    "shifts": shifts,
    "weights": weights,
    "many": many,
    "biased": biased,
    "priors": priors,
    "separability": separability,
}


def judged(family: str, seed: int, number: int) -> list[Held]:
    """The numbers of one problem, as a function of its seed and number."""
    return list(FAMILIES[family](np.random.default_rng([seed, number])))


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def run(place: Path, seconds: float, families: list[str]) -> None:
    """Draw problems of each family in turn until the time is up; a line of the file for each."""
    seed, begin, number = int(time.time()), time.monotonic(), 0
    with place.open("a", encoding="utf-8") as file:
        while time.monotonic() - begin < seconds:
            for family in families:
                record: dict[str, Any] = {"family": family, "seed": seed, "number": number}
                started = time.process_time()
                try:
                    record["held"] = [list(one) for one in judged(family, seed, number)]
                except (ComputationFailed, ArithmeticError, np.linalg.LinAlgError) as error:
                    record["failed"] = f"{type(error).__name__}: {error}"
                record["seconds"] = round(time.process_time() - started, 1)
                file.write(json.dumps(record) + "\n")
                file.flush()
            number += 1


def show(places: list[Path]) -> None:
    """Print counts of each family, and every miss."""
    records = [json.loads(line) for place in places for line in place.open(encoding="utf-8")]
    _say("| family | problems | numbers | inside | farthest, in bars | failed |")
    _say("| --- | --- | --- | --- | --- | --- |")
    for family in FAMILIES:
        own = [one for one in records if one["family"] == family]
        bars = [Held(*held).bars for one in own for held in one.get("held", [])]
        failed = sum("failed" in one for one in own)
        inside = sum(bar <= 1 for bar in bars)
        worst = max(bars, default=math.nan)
        _say(f"| {family} | {len(own)} | {len(bars)} | {inside} | {worst:.2f} | {failed} |")
    for one in records:
        for held in one.get("held", []):
            if Held(*held).bars > 1:
                _say(f"{one['family']} {one['seed']} {one['number']}: {Held(*held)}")
        if "failed" in one:
            _say(f"{one['family']} {one['seed']} {one['number']}: {one['failed']}")


def main() -> None:
    """Run or show."""
    if sys.argv[1] == "show":
        show([Path(name) for name in sys.argv[2:]])
        return
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 300.0
    run(Path(sys.argv[2]), seconds, sys.argv[4:] or list(FAMILIES))


if __name__ == "__main__":
    main()
