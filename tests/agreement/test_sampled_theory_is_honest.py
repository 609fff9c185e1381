"""k ≥ 4: sampled integrals against long runs, with the uncertainty that was stated."""

import numpy as np
import pytest

from polyceptron.model import Teacher
from polyceptron.numerics.qmc import summarise
from polyceptron.theory import bayes_optimal, fixed_points, transitions
from polyceptron.theory.channel import _moments_qmc, channel_moments
from polyceptron.theory.ensemble import ensemble
from polyceptron.theory.transitions import _equal_entropy, _fine_entropy, _fine_fold


@pytest.mark.parametrize("q", [0.2, 0.8, 0.999])
def test_sampling_rule_reproduces_three_classes(q):
    """The k ≥ 4 rule also works at k = 3, where the truth is known to 12 digits."""
    information, entropy = _moments_qmc(q, 1 - q, 3, 9)
    exact = channel_moments(np.array([q]), np.array([1 - q]), 3)
    for sampled, truth in ((information, exact.information), (entropy, exact.entropy)):
        value, error = summarise(sampled)
        assert abs(value - truth[0, 0]) < 4 * error + 1e-7 * abs(truth[0, 0])
        assert error < 1e-3 * abs(value)


def test_uncertainty_falls_faster_than_monte_carlo():
    errors = [summarise(_moments_qmc(0.8, 0.2, 5, n)[0]).uncertainty for n in (5, 7, 9)]
    rate = np.polyfit(np.log(2.0) * np.array([5, 7, 9]), np.log(errors), 1)[0]
    assert rate < -0.6


def at_effort(monkeypatch, k, level, alphas, tol=1e-4):
    monkeypatch.setattr(bayes_optimal, "sampling_levels", lambda teacher: (level, level))
    points = fixed_points(Teacher(k), alphas, tol)
    return [p for p in points if p.branch == "optimal"]


@pytest.mark.parametrize("k", [4, 10])
def test_stated_uncertainty_covers_a_long_run(k, monkeypatch):
    """Low effort against an effort 32 times larger, in units of the stated uncertainty."""
    alphas = [0.5, 3.0, 50.0]
    quick, long = (at_effort(monkeypatch, k, level, alphas) for level in (4, 9))
    for a, b in zip(quick, long, strict=True):
        difference = abs(a.generalisation_error - b.generalisation_error)
        assert difference < 4 * a.uncertainty + 3 * b.uncertainty
        assert b.uncertainty < a.uncertainty


def test_a_tolerance_out_of_reach_is_said(monkeypatch):
    (point,) = at_effort(monkeypatch, 8, 4, [3.0], tol=1e-9)
    assert point.status == "tolerance-not-met"
    assert point.uncertainty > 1e-9


def test_default_tolerance_is_met():
    for point in fixed_points(Teacher(6), [0.1, 2.0, 20.0]):
        assert point.status == "ok"
        assert point.uncertainty <= 1e-4


@pytest.mark.slow
def test_sharpened_transitions_agree_with_the_curve_and_with_more_points():
    """The fine values (at a known location) against the fold and crossing of a whole curve."""
    teacher = Teacher(4, "rademacher")
    curves = ensemble(teacher, 6)
    (algo, x_algo), (it, x_it) = curves.fold, _equal_entropy(curves)
    for coarse, fine, finer in (
        (algo, _fine_fold(teacher, x_algo.mean(), 7), _fine_fold(teacher, x_algo.mean(), 9)),
        (it, _fine_entropy(teacher, x_it.mean(), 7), _fine_entropy(teacher, x_it.mean(), 9)),
    ):
        value, error = summarise(coarse)
        assert abs(value - finer[0]) < 4 * error + 3 * finer[1]
        assert abs(fine[0] - finer[0]) < 4 * fine[1] + 3 * finer[1]
        assert finer[1] < 2e-3
    found = transitions(teacher, tol=1e-2)
    assert found.status == "ok"
    assert 2.394895 < found.alpha_it < found.alpha_algo


def test_hundred_classes_work():
    point = fixed_points(Teacher(100), [1.0], tol=1e-3)[0]
    assert 0.9 < point.generalisation_error < 0.99
    assert point.status == "ok"
