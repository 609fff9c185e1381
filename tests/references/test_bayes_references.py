"""Published and independently computed values of the Bayes-optimal theory."""

import pytest

from polyceptron.model import Perceptron, Teacher
from polyceptron.theory.bayes_optimal.fixed_points import fixed_points
from polyceptron.theory.bayes_optimal.transitions import transitions


@pytest.mark.parametrize(
    ("teacher", "alpha_it", "alpha_algo"),
    [
        (Perceptron("rademacher"), 1.244684, 1.492632),
        (Teacher(2, "rademacher"), 2.072997, 2.486583),
        (Teacher(3, "rademacher"), 2.394895, 2.885561),
    ],
)
def test_transitions(teacher, alpha_it, alpha_algo):
    found = transitions(teacher)
    assert found.status == "ok"
    assert found.alpha_it == pytest.approx(alpha_it, abs=1e-6)
    assert found.alpha_algo == pytest.approx(alpha_algo, abs=1e-6)
    assert max(found.alpha_it_uncertainty, found.alpha_algo_uncertainty) < 1e-9


def test_paper_prints_transitions_to_two_digits():
    """2.45 and 2.89 by Monte Carlo at k = 3; 1.249 and 1.493 for the classical perceptron."""
    three, classical = transitions(Teacher(3, "rademacher")), transitions(Perceptron())
    assert abs(three.alpha_it - 2.45) < 0.06
    assert abs(three.alpha_algo - 2.89) < 0.01
    assert abs(classical.alpha_it - 1.249) < 0.005
    assert abs(classical.alpha_algo - 1.493) < 0.001


@pytest.mark.parametrize(
    ("k", "alpha", "error", "digits"),
    [
        (2, 1.0, 0.2543730, 1e-7),
        (2, 5.0, 0.0839352, 1e-7),
        (3, 1.0, 0.39050958, 1e-8),
        (3, 5.0, 0.15414960, 1e-8),
        (3, 100.0, 0.00880421, 1e-8),
    ],
)
def test_errors(k, alpha, error, digits):
    point = fixed_points(Teacher(k), alpha)[0]
    assert point.generalisation_error == pytest.approx(error, abs=digits)
    assert point.uncertainty < 1e-9


def test_overlaps():
    assert fixed_points(Teacher(3), 1.0)[0].q == pytest.approx(0.41896565, abs=1e-8)
    assert fixed_points(Teacher(3), 5.0)[0].q == pytest.approx(0.89516479, abs=1e-8)


def test_gaussian_prior_has_no_transition():
    found = transitions(Teacher(3, "gaussian"))
    assert found.alpha_it is None
    assert found.alpha_algo is None
    assert found.phase(3.0) == "no transition"


def test_phases():
    found = transitions(Teacher(3, "rademacher"))
    assert [found.phase(a) for a in (2.0, 2.6, 3.0)] == ["impossible", "hard", "easy"]


@pytest.mark.parametrize(
    ("variance", "alpha", "error"),
    [(0.5, 1.0, 0.344287), (0.5, 5.0, 0.247024), (1.0, 1.0, 0.383151), (1.0, 10.0, 0.279867)],
)
def test_probit_errors_on_labels_as_drawn(variance, alpha, error):
    """Two classes with Gaussian noise in each field, from an independent computation."""
    point = fixed_points(Teacher(2, "gaussian", f"gaussian:{variance}"), alpha)[0]
    assert point.generalisation_error == pytest.approx(error, abs=1e-6)
    assert point.clean_error < error - 0.01
    assert point.status == "ok"


def test_sampled_fold_and_takeover():
    """k = 4: α_algo = 3.22698 ± 0.00011 from long runs of an independent program."""
    found = transitions(Teacher(4, "rademacher"))
    assert found.status == "ok"
    assert found.alpha_algo_uncertainty <= 3e-3
    assert abs(found.alpha_algo - 3.22698) <= found.alpha_algo_uncertainty + 1.1e-4
