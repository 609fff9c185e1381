"""Priors from scipy: against closed forms, direct integrals and samples."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from scipy.integrate import quad

import polyceptron as pc
from polyceptron.problem import ScipyPrior, as_prior


@pytest.mark.parametrize(
    ("law", "name"), [(scipy.stats.norm(3, 2), "gaussian"), (scipy.stats.laplace(1), "laplace")]
)
def test_the_rule_gives_what_closed_forms_give(law: object, name: str) -> None:
    rng = np.random.default_rng(0)
    precision = np.exp(rng.uniform(-4, 9, 300))
    b = precision * rng.standard_normal(300) + np.sqrt(precision) * rng.standard_normal(300)
    found, exact = as_prior(law).tilted(b, precision), as_prior(name).tilted(b, precision)
    for one, other in zip(found, exact, strict=True):
        assert np.allclose(one, other, rtol=1e-10, atol=1e-10)


def test_a_beta_prior_against_direct_integrals_and_samples() -> None:
    law = scipy.stats.beta(2, 3, loc=-1, scale=4)
    prior, mean, deviation = ScipyPrior(law), law.mean(), law.std()
    for b, precision in ((0.0, 0.0), (1.5, 2.0), (-3.0, 0.5), (40.0, 60.0)):

        def weight(w: float, power: int = 0, b: float = b, L: float = precision) -> float:
            density = float(law.pdf(mean + deviation * w)) * deviation
            return float(w**power * density * np.exp(b * w - L * w * w / 2))

        ends = [(x - mean) / deviation for x in law.support()]
        zero, one = (quad(weight, *ends, args=(n,), epsabs=1e-13, epsrel=1e-11)[0] for n in (0, 1))
        found = prior.tilted(b, precision)
        assert float(found.log_g) == pytest.approx(np.log(zero), abs=1e-9)
        assert float(found.mean) == pytest.approx(one / zero, abs=1e-9)
    drawn = prior.sample(np.random.default_rng(0), (4000,))
    assert abs(drawn.mean()) < 5 / 4000**0.5
    assert abs(drawn.std() - 1) < 0.05


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("gamma:1.66", 0),
        ("gamma:2.29", 0),
        ("beta:3.5:3.6", 0),
        ("beta:0.5:0.5", 1e-5),
        ("t:5", 1e-3),
    ],
)
def test_powers_at_edges_and_tails_are_integrated_as_well_as_stated(
    name: str, allowed: float
) -> None:
    prior = as_prior(f"scipy[{name}]")
    assert prior.accuracy <= allowed + 1e-11
    law, mean, deviation = prior.distribution, prior.mean, prior.deviation
    for b, precision in ((0.0, 0.0), (1.5, 2.0), (-3.0, 4.0)):

        def weight(w: float, b: float = b, L: float = precision) -> float:
            return float(np.exp(b * (w - mean) / deviation - L * ((w - mean) / deviation) ** 2 / 2))

        exact = np.log(law.expect(weight, epsabs=1e-12, epsrel=1e-10, limit=400))
        assert abs(float(prior.tilted(b, precision).log_g) - exact) < 3 * prior.accuracy + 1e-9


def test_a_teacher_takes_it_and_its_name_reads_back() -> None:
    teacher = pc.Teacher(2, prior=scipy.stats.uniform(2, 5))
    assert as_prior(teacher.prior.name) == teacher.prior
    assert pc.Teacher(2, prior="scipy[uniform]") == teacher
    (point,) = pc.fixed_points(teacher, 2.0, branch="optimal")
    (other,) = pc.fixed_points(pc.Teacher(2), 2.0, branch="optimal")
    assert point.status == "ok"
    assert point.generalisation_error < other.generalisation_error  # known bounds help
    (found,) = pc.compare(teacher, "bayes", alpha=2.0, dimension=20, runs=2).frame["z"]
    assert abs(found) < 4


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (scipy.stats.cauchy(), "no finite mean and variance"),
        (scipy.stats.gamma(0.05), "too rough"),
        ("scipy[kmeans]", "must be written scipy"),
        ("scipy[beta:x]", "must be written scipy"),
        ("scipy[__loader__]", "must be written scipy"),
    ],
)
def test_what_cannot_be_a_prior_is_refused(given: object, words: str) -> None:
    with pytest.raises(pc.InvalidInput, match=words):
        as_prior(given)
