"""Published and independently computed values of the Bayes-optimal theory: verify's tables."""

import math

import pytest
from tests.references.known_values import ARGMAX_OF_TWO, PERCEPTRON, binary_transitions

import polyceptron as pc
from polyceptron.problem import Teacher
from polyceptron.report.verify.known_values import BAYES, THRESHOLD_DIGITS, THRESHOLDS
from polyceptron.theory.bayes.fixed_points import fixed_points
from polyceptron.theory.bayes.transitions import transitions

# How far the numbers that the paper prints may be from the exact ones.
ROOM_OF_THE_PAPER = {"1.249": 5e-3, "1.493": 1e-3, "2.45": 0.06, "2.89": 0.01}


@pytest.mark.parametrize(("name", "teacher", "values", "paper"), THRESHOLDS)
def test_transitions(name, teacher, values, paper):
    """α_IT and α_algo, and the paper's to the digits that it prints (at k = 3 by Monte Carlo)."""
    found = transitions(teacher)
    assert found.status == "ok"
    assert (found.alpha_it, found.alpha_algo) == pytest.approx(values, abs=THRESHOLD_DIGITS)
    assert max(found.alpha_it_uncertainty, found.alpha_algo_uncertainty) < 1e-9
    both = (found.alpha_it, found.alpha_algo)
    for ours, printed in zip(both, paper, strict=False):
        assert abs(ours - float(printed)) < ROOM_OF_THE_PAPER[printed]


@pytest.mark.parametrize(("k", "noise", "alpha", "error", "digits"), BAYES)
def test_errors(k, noise, alpha, error, digits):
    """On labels as drawn; without noise to nine digits of our own."""
    point = fixed_points(Teacher(k, noise=noise), alpha)[0]
    assert point.status == "ok"
    assert point.generalisation_error == pytest.approx(error, abs=digits)
    if noise == "none":
        assert point.uncertainty < 1e-9
    else:
        assert point.clean_error < error - 0.01


def test_transitions_of_two_classes_from_scratch():
    """Values ±1; differences of two of them, in units of their deviation, for the argmax."""
    found = binary_transitions([-1, 1], [0.5, 0.5])
    assert found == pytest.approx(PERCEPTRON, abs=THRESHOLD_DIGITS)
    unit = math.sqrt(2)
    found = binary_transitions([-unit, 0, unit], [0.25, 0.5, 0.25])
    assert found == pytest.approx(ARGMAX_OF_TWO, abs=THRESHOLD_DIGITS)


@pytest.mark.parametrize(("alpha", "q"), [(1.0, 0.41896565), (5.0, 0.89516479)])
def test_overlaps(alpha, q):
    """The digits of q are those at which the error is that of the table BAYES, to its digits."""
    assert fixed_points(Teacher(3), alpha)[0].q == pytest.approx(q, abs=1e-8)
    (known,) = [row for row in BAYES if row[:3] == (3, "none", alpha)]
    assert pc.generalisation_error(math.sqrt(q), 3) == pytest.approx(known[3], abs=known[4])


def test_gaussian_prior_has_no_transition():
    found = transitions(Teacher(3, "gaussian"))
    assert found.alpha_it is None
    assert found.alpha_algo is None
    assert found.phase(3.0) == "no transition"


def test_phases():
    found = transitions(Teacher(3, "rademacher"))
    assert [found.phase(a) for a in (2.0, 2.6, 3.0)] == ["impossible", "hard", "easy"]


def test_sampled_fold_and_takeover():
    """k = 4: α_algo = 3.22698 ± 0.00011 from long runs of an independent program."""
    found = transitions(Teacher(4, "rademacher"))
    assert found.status == "ok"
    assert found.alpha_algo_uncertainty <= 3e-3
    assert abs(found.alpha_algo - 3.22698) <= found.alpha_algo_uncertainty + 1.1e-4
