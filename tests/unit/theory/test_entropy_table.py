"""The table of the argmax channel for many classes: a part made again, closed forms, sampling."""

from __future__ import annotations

import math

import numpy as np
import pytest

from argmax_entropy import CLASSES, direct
from polyceptron.model import BayesOptimal, Teacher
from polyceptron.numerics.estimate import from_replicates
from polyceptron.numerics.special import boundary_density, mean_of_maximum
from polyceptron.theory.curve import curve_rows
from polyceptron.theory.fields.entropy_table import entropy_table
from polyceptron.theory.fields.information import gaussian_moments, sampled_moments

MANY = (4, 6, 10, 33, 100, 500, 1000)


@pytest.mark.parametrize(("k", "theta"), [(4, 0.7), (6, 0.3), (12, 1.2), (60, 0.9)])
def test_a_part_made_again_is_the_table(k: int, theta: float) -> None:
    table = entropy_table(k)
    psi = float(table(np.array([theta]))[1][0])
    assert psi / math.sin(theta) == pytest.approx(direct(k, theta), rel=table.error)


def test_values_of_k_between_those_of_the_table_are_among_the_tests() -> None:
    assert {6, 33, 100, 500}.isdisjoint(CLASSES)


@pytest.mark.parametrize("k", MANY)
def test_without_overlap_the_information_is_that_of_the_largest_field(k: int) -> None:
    exact = k * mean_of_maximum(k) ** 2 / (k - 1) ** 2
    found = float(entropy_table(k)(np.array([math.pi / 2]))[0][0])
    assert found == pytest.approx(exact, rel=entropy_table(k).error)
    assert entropy_table(k)(np.array([math.pi / 2]))[1][0] == pytest.approx(-math.log(k), rel=1e-6)


@pytest.mark.parametrize("k", MANY)
def test_at_full_overlap_only_pairs_of_classes_meet(k: int) -> None:
    """Ψ/√v and rI√v are B_k times those of two classes, which have rules of their own."""
    theta = np.array([1e-7])
    v = np.sin(theta) ** 2
    two = gaussian_moments(1 - v, v, 2, 0.0)
    information, entropy = entropy_table(k)(theta)
    share = boundary_density(k)
    assert entropy[0] == pytest.approx(share * two.excess[0, 0], rel=3e-6)
    assert (k - 1) * information[0] == pytest.approx(share * two.information[0, 0], rel=3e-6)


@pytest.mark.parametrize("k", [4, 9])
def test_sampling_the_losers_agrees(k: int) -> None:
    theta = np.array([0.25, 0.8, 1.3])
    q, v = np.cos(theta) ** 2, np.sin(theta) ** 2
    sampled = sampled_moments(q, v, k, 7)
    information, entropy = entropy_table(k)(theta)
    for exact, replicates in ((information, sampled.information), (entropy, sampled.excess)):
        value, uncertainty = from_replicates(replicates)
        assert np.all(np.abs(value - exact) <= 1.5 * uncertainty + 1e-6 * np.abs(exact))
        assert not np.all(np.abs(value - 1.01 * exact) <= 1.5 * uncertainty)  # a control


def test_a_thousand_classes_answer_with_their_uncertainty() -> None:
    (row,) = curve_rows(Teacher(1000), BayesOptimal(), [100.0])
    assert row["status"] == "ok"
    assert 0 < row["uncertainty"] < 1e-4
    assert 0.5 < row["generalisation_error"] < 0.999
