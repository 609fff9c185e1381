"""Bayes-optimal students and separability, asked of the package and of `bayes_route`.

Each function draws one problem and yields its numbers, as those of `family_coverage` do.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from tests.identities.folds_reference import TwoClasses
from tests.references.bayes_route import biased_answer, half_separable, point_of_many
from tests.references.held import Held

import polyceptron as pc
from polyceptron.students import student_of

NOISES = (("none", 0.0), ("gaussian", 0.3), ("flips", 0.1))
PRIORS = ("gaussian", "rademacher", "ternary")
# d ln α/d ln q̂ below which a fold is too near: the error there is worth the root of the rounding.
FLAT = 0.05
SUMS = 1e-8  # what plain sums are worth
SMALL_AND_LARGE = 16, 48  # d of drawn data sets


def _name(noise: tuple[str, float]) -> str:
    if noise[0] == "none":
        return "none"
    return f"{noise[0]}:{noise[1]}"


def many(rng: np.random.Generator) -> Iterator[Held]:
    """Yield q and the error of four to six equal classes, where draws say what α is at a q̂."""
    prior = PRIORS[rng.integers(3)]
    k = int(rng.integers(4, 7 if prior != "ternary" else 5))
    noise = NOISES[rng.integers(3)]
    q_hat = float(10 ** rng.uniform(-0.7, 0.7))
    support = None
    if prior == "rademacher":
        support = np.array([-1.0, 1.0]), np.array([0.5, 0.5])
    elif prior == "ternary":
        support = np.array([-1.0, 0.0, 1.0]) * math.sqrt(2), np.array([0.25, 0.5, 0.25])
    truth = point_of_many(k, support, noise, q_hat, int(rng.integers(1 << 30)))
    teacher = pc.Teacher(k, prior, noise=_name(noise))
    alpha, alpha_bar = truth["alpha"]

    def at(alpha: float) -> Any:
        return min(
            pc.fixed_points(teacher, alpha), key=lambda point: abs(math.log(point.q_hat / q_hat))
        )

    low, here, high = (at(alpha + shift) for shift in (-alpha_bar, 0.0, alpha_bar))
    # What the bar of α leaves open counts for the draws.
    errors = abs(high.generalisation_error - low.generalisation_error) / 2 + truth["error"][1]
    yield Held("error", here.generalisation_error, here.uncertainty, truth["error"][0], errors)
    overlaps = abs(high.q - low.q) / 2 + truth["q"][1]
    yield Held("q", here.q, here.uncertainty, truth["q"][0], overlaps + 1e-9)


def biased(rng: np.random.Generator) -> Iterator[Held]:
    """Yield the error and q of a biased teacher's Bayes-optimal student."""
    k = int(rng.integers(2, 4))
    noise = NOISES[rng.integers(3)]
    biases = rng.normal(0, 0.7, k)
    alpha = float(10 ** rng.uniform(-0.7, 0.9))
    teacher = pc.Teacher(k, noise=_name(noise), biases=tuple(biases))
    (row,) = student_of("bayes").rows(teacher, [alpha])
    truth = biased_answer(k, biases, alpha, noise, int(rng.integers(1 << 30)))
    yield Held("error", row["generalisation_error"], row["uncertainty"], *truth["error"])
    value, bar = truth["trace of Q"]
    yield Held("q", row["q"], row["uncertainty"], value / (k - 1), bar / (k - 1))


def priors(rng: np.random.Generator) -> Iterator[Held]:
    """Yield errors of two classes with a finite prior and a spectrum, at three q̂."""
    size = int(rng.integers(2, 5))
    p = rng.dirichlet(np.full(size, 3.0)) + 0.03
    p = p / p.sum()
    values = np.sort(rng.normal(0, 1, size))
    if rng.random() < 0.5 and size > 2:
        values[1] = values[0] + float(10 ** rng.uniform(-1.5, -0.5))
    values = values - p @ values
    power = rng.uniform(0.2, 2, 2)
    power = power / power.mean()
    sums = TwoClasses(values, p, power)
    levels = ",".join(f"{s!r}x0.5" for s in power.tolist())
    teacher = pc.Teacher(
        2, (tuple(values.tolist()), tuple(p.tolist())), features=f"levels:{levels}"
    )
    for q_hat in 10 ** rng.uniform(-1, 1.7, 3):
        point = sums.point(q_hat)
        alpha = point["alpha"]
        step = 1e-3
        slope = abs(math.log(sums.point(q_hat * math.exp(step))["alpha"] / alpha)) / step
        if slope < FLAT or not point["v"] > 1e-12:
            continue
        found = min(
            (x for x in pc.fixed_points(teacher, alpha) if math.isfinite(x.q_hat)),
            key=lambda x: abs(math.log(x.q_hat / q_hat)),
        )
        error = math.acos(math.sqrt(1 - point["v"])) / math.pi
        bar = found.uncertainty
        yield Held("error", found.generalisation_error, bar, error, SUMS * error / slope)


def separability(rng: np.random.Generator) -> Iterator[Held]:
    """Yield α_s of four unequal classes against data sets in two dimensions d, to d → ∞."""
    k = 4
    shares = rng.dirichlet(np.full(k, 4.0)) + 0.05
    shares = shares / shares.sum()
    if rng.random() < 0.5:
        population: Any = pc.Mixture(shares, separation=float(rng.uniform(0.3, 1.5)))
    else:
        population = pc.Teacher(
            k, shares=tuple(shares), noise=f"gaussian:{rng.uniform(0.5, 4):.3g}"
        )
    found = pc.separability(population, intercept=True)
    seed = int(rng.integers(1 << 20))

    def sample(n: int, d: int, seed: int) -> tuple[Any, Any]:
        data = population.sample(n, d, seed)
        return data.X, data.y

    small, large = (half_separable(sample, found.alpha_s, d, k, seed) for d in SMALL_AND_LARGE)
    # What is left after the larger d goes as d to a power between −1 and −1/2.
    ratio = SMALL_AND_LARGE[1] / SMALL_AND_LARGE[0]
    ahead = 1 / (ratio - 1), 1 / (math.sqrt(ratio) - 1)
    moved = large[0] - small[0]
    share = (ahead[0] + ahead[1]) / 2
    truth = large[0] + share * moved
    chance = math.hypot((1 + share) * large[1], share * small[1])
    doubt = chance + (ahead[1] - ahead[0]) / 2 * abs(moved)
    yield Held("alpha_s", found.alpha_s, found.alpha_s_uncertainty, truth, doubt)
