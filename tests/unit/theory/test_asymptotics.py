"""Decay of the error at large α: exponents, constants, and the reduction to two classes."""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.special import ndtr

import polyceptron as pc
from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.numerics.special import mean_of_maximum
from polyceptron.questions import asymptotics as room
from polyceptron.rows import Status
from polyceptron.students import student_of
from polyceptron.theory.erm.fixed_point import erm_fixed_point

asymptotics = cache(room.asymptotics)  # two tests ask for the same ones


def fixed_point(k, loss, ridge, alpha, tol=None):
    return erm_fixed_point(pc.Teacher(k), pc.ERM(loss, ridge), alpha, tol)


@pytest.mark.parametrize(
    ("estimator", "exponent", "tolerance"),
    [
        (pc.BayesOptimal(), 1, 1e-6),
        (pc.ERM("max-margin"), 1, 1e-6),
        (pc.ERM("cross-entropy", "optimal"), 1, 1e-6),
        (pc.ERM("cross-entropy", 1.0), 2 / 3, 2e-4),
        (pc.ERM("cross-entropy", 0.01), 2 / 3, 5e-4),
        (pc.ERM("square", 1.0), 1 / 2, 1e-5),
    ],
)
def test_exponents_of_two_classes(estimator, exponent, tolerance):
    found = asymptotics(pc.Teacher(2), estimator)
    assert found.exact_exponent == pytest.approx(exponent)
    assert abs(found.exponent - exponent) < max(found.exponent_uncertainty, 1e-9)
    assert found.exponent_uncertainty < tolerance


def test_cross_entropy_at_fixed_ridge_is_not_one_half():
    """The exponent read off a figure in the literature is excluded, at three classes too."""
    found = asymptotics(pc.Teacher(3), pc.ERM("cross-entropy", 1.0), alpha_max=1e5)
    assert abs(found.exponent - 0.5) > 100 * found.exponent_uncertainty
    assert found.exponent == pytest.approx(2 / 3, abs=3 * found.exponent_uncertainty)


def test_the_norm_at_fixed_ridge_grows_as_the_cube_root():
    """√q → (π^(3/2)/12)^(1/3) (α/λ)^(1/3): population loss against ridge."""
    for ridge in (0.1, 1.0):
        norm = math.sqrt(fixed_point(2, "cross-entropy", ridge, 1e6).q)
        expected = (math.pi**1.5 / 12 * 1e6 / ridge) ** (1 / 3)
        assert norm == pytest.approx(expected, rel=2e-3)


@pytest.mark.parametrize(
    ("loss", "ridge"),
    [("cross-entropy", 0.01), ("cross-entropy", 10.0), ("hinge", 1.0), ("squared-hinge", 0.1)],
)
def test_constant_at_fixed_ridge_in_closed_form(loss, ridge):
    estimator = pc.ERM(loss, ridge)
    found = asymptotics(pc.Teacher(2), estimator)
    exact = estimator.decay(pc.Teacher(2)).constant
    assert found.constant == pytest.approx(exact, abs=3 * found.constant_uncertainty)
    assert found.constant_uncertainty < 1e-3 * found.constant


@pytest.mark.parametrize("estimator", [pc.ERM("max-margin"), pc.ERM("cross-entropy", 0.1)])
def test_three_classes_reduce_to_two(estimator):
    found = asymptotics(pc.Teacher(3), estimator)
    assert found.constant == pytest.approx(found.exact_constant, abs=3 * found.constant_uncertainty)


def test_square_constant_from_its_closed_form():
    """τ² → α c²/σ² as α → ∞ at fixed λ, so ε√α → σ/(πc) at k = 2."""
    c, s2 = mean_of_maximum(2), 1 / 2
    found = asymptotics(pc.Teacher(2), pc.ERM("square", 1.0))
    assert found.constant == pytest.approx(math.sqrt(s2 - c**2) / (math.pi * c), rel=1e-6)
    three = asymptotics(pc.Teacher(3), pc.ERM("square", 1.0))
    assert three.constant == pytest.approx(three.exact_constant, rel=1e-4)


def test_five_classes_reduce_to_two():
    """αε → (k−1) times the two-class constant, with corrections of order 1/α."""
    alpha = 3000.0
    five = fixed_point(5, "max-margin", 0, alpha, tol=1e-6)
    two = asymptotics(pc.Teacher(2), pc.ERM("max-margin")).constant
    allowed = five.uncertainty / five.generalisation_error + 3 / alpha
    assert five.generalisation_error * alpha == pytest.approx(4 * two, rel=allowed)


def test_best_cross_entropy_is_within_a_thousandth_of_bayes():
    """The constants 0.44198 and 0.44170 of docs/optimal-cross-entropy.md."""
    bayes = asymptotics(pc.Teacher(2), pc.BayesOptimal())
    best = asymptotics(pc.Teacher(2), pc.ERM("cross-entropy", "optimal"))
    assert best.constant / bayes.constant == pytest.approx(1.00063, abs=1e-5)


def test_what_has_no_exponent_says_so():
    with pytest.raises(InvalidInput, match="faster than any power"):
        asymptotics(pc.Teacher(3, "rademacher"), pc.BayesOptimal())
    with pytest.raises(InvalidInput, match="alpha_max"):
        asymptotics(pc.Teacher(3), pc.ERM("square", 1.0), alpha_max=1.0)


def test_two_clusters_have_the_classical_constants():
    """Fluctuations of variance η² in d directions move an error by its slope in η² = c/α.

    Logistic regression: c is the inverse of E p(1 − p) (Efron 1975). Bayes: means ±m are known to
    4/α of a distance² that is 4.
    """
    p, odds, square = (0.9, 0.1), math.log(9), 4.0
    population = pc.Mixture(p, separation=2.0)

    def error(distance, spread):
        ends = distance / 2 + odds, distance / 2 - odds
        return sum(a * ndtr(-e / math.sqrt(spread)) for a, e in zip(p, ends, strict=True))

    t = np.linspace(-12, 12, 4001)
    density = np.exp(-(t**2) / 2) / math.sqrt(2 * math.pi) * (t[1] - t[0])
    fields = [sign * square / 2 + odds + 2 * t for sign in (1, -1)]
    known = sum(
        a * float(density @ (0.25 / np.cosh(u / 2) ** 2)) for a, u in zip(p, fields, strict=True)
    )
    h = 1e-3
    slope = (error(square, square + h) - error(square, square - h)) / (2 * h)
    found = asymptotics(population, pc.ERM("cross-entropy", 0.1, intercept=True))
    assert abs(found.floor - error(square, square)) < found.floor_uncertainty
    assert abs(found.constant - slope / known) < found.constant_uncertainty < 1e-4
    assert abs(found.exponent - 1) < found.exponent_uncertainty < 1e-3
    rise = (error(square + h, square + h) - error(square - h, square - h)) / (2 * h)
    best = asymptotics(population, "bayes")
    assert best.constant == pytest.approx(-4 * rise, rel=1e-4)
    assert best.floor == pytest.approx(error(square, square), abs=1e-11)


def test_an_error_may_rise_to_its_limit():
    """Least squares of unequal shares: the intercept that it tends to is not the best one."""
    found = asymptotics(pc.Mixture((0.9, 0.1), separation=2.0), pc.ERM("square", intercept=True))
    assert found.constant < -found.constant_uncertainty
    assert found.generalisation_error[-1] < found.floor
    assert abs(found.exponent - 1) < found.exponent_uncertainty


def test_biases_leave_the_bayes_optimal_constant():
    """Where p = 1 the density of boundaries cancels, and two classes have one constant."""
    even, rare = (asymptotics(pc.Teacher(2, shares=s), "bayes") for s in (None, (0.9, 0.1)))
    assert rare.constant == pytest.approx(even.constant, abs=1e-5)
    assert abs(rare.floor) < 1e-10
    with pytest.raises(pc.InvalidInput, match="smooth noise"):
        asymptotics(pc.Teacher(2, shares=(0.9, 0.1)), "square")


def test_the_limit_of_unequal_classes_is_known_to_its_bar():
    """What 1/α² leaves at a small α_max is counted."""
    clusters = pc.Mixture((0.9, 0.1), separation=2.0)
    tail = pc.asymptotics(clusters, pc.ERM("cross-entropy", 0.1, intercept=True), 400.0)
    off = abs(tail.floor - float(pc.population_floor(clusters).value))
    assert 2e-9 < off < tail.floor_uncertainty < 1e-6


def test_an_excess_that_is_below_its_bar_is_no_tail():
    """Three errors above a known floor by less than they are known to."""
    alpha, excess = room.RATIO ** np.arange(4.0), 1e-3 / room.RATIO ** np.arange(4.0)
    unknown = np.full(4, math.nan)
    points = room._Points(alpha, 0.1 + excess, 0.5 * excess, unknown, unknown, unknown, True)
    floor = room._Number(0.1, 0.0)
    assert room._excess_over(floor, points, True).size == pytest.approx(excess)
    with pytest.raises(ComputationFailed, match="below what the error is known to"):
        room._excess_over(floor, points._replace(uncertainty=2 * excess), True)


def test_a_tail_of_two_classes_that_has_not_set_in_gives_no_constant(monkeypatch):
    bayes = student_of("bayes")
    known = bayes.spec.decay(pc.Teacher(3))
    two = room.asymptotics(pc.Teacher(2))
    monkeypatch.setattr(room, "asymptotics", lambda *_: two)
    assert room._exact_constant(pc.Teacher(3), bayes, known).value == 2 * two.constant
    early = replace(two, status=Status.NOT_CONVERGED)
    monkeypatch.setattr(room, "asymptotics", lambda *_: early)
    assert room._exact_constant(pc.Teacher(3), bayes, known) is None
