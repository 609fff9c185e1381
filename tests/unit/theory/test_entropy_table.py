"""The tables of the argmax channel: a part made again, and closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest

from argmax_entropy import CLASSES, direct
from polyceptron.numerics.special import boundary_density, mean_of_maximum
from polyceptron.problem import BayesOptimal, Teacher
from polyceptron.questions.curve_rows import curve_rows
from polyceptron.sides.fields.information import few_moments
from polyceptron.theory.bayes.channel_table import argmax_table, channel_table

MANY = (4, 6, 10, 33, 100, 500, 1000)


def argmax(k: int, theta: float) -> tuple[float, float]:
    """I and Ψ_out at q = cos²θ."""
    information, entropy = channel_table(Teacher(k).channel, k)(np.array([math.sin(theta) ** 2]))
    return information[0], entropy[0]


@pytest.mark.parametrize(("k", "theta"), [(4, 0.7), (6, 0.3), (12, 1.2), (60, 0.9)])
def test_a_part_made_again_is_the_table(k: int, theta: float) -> None:
    found = float(argmax(k, theta)[1]) / math.sin(theta)
    assert found == pytest.approx(direct(k, theta), rel=argmax_table(k, 0.0)[1])


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("v", [1e-9, 1e-3, 0.2, 0.9, 1 - 1e-9])
def test_tables_of_few_classes_are_the_rule(k: int, v: float) -> None:
    information, entropy = argmax(k, math.asin(math.sqrt(v)))
    assert (float(information), float(entropy)) == pytest.approx(
        few_moments(Teacher(k).channel, v, k), rel=1e-10
    )


def test_values_of_k_between_those_of_the_table_are_among_the_tests() -> None:
    assert {6, 33, 100, 500}.isdisjoint(CLASSES)


@pytest.mark.parametrize("k", MANY)
def test_without_overlap_the_information_is_that_of_the_largest_field(k: int) -> None:
    exact = k * mean_of_maximum(k) ** 2 / (k - 1) ** 2
    information, entropy = argmax(k, math.pi / 2)
    assert information == pytest.approx(exact, rel=argmax_table(k, 0.0)[1])
    assert entropy == pytest.approx(-math.log(k), rel=1e-6)


@pytest.mark.parametrize("k", MANY)
def test_at_full_overlap_only_pairs_of_classes_meet(k: int) -> None:
    """Ψ/√v and rI√v are B_k times those of two classes, which have rules of their own."""
    theta = 1e-7
    two = few_moments(Teacher(2).channel, math.sin(theta) ** 2, 2)
    information, entropy = argmax(k, theta)
    share = boundary_density(k)
    assert entropy == pytest.approx(share * two[1], rel=3e-6)
    assert (k - 1) * information == pytest.approx(share * two[0], rel=3e-6)


def test_a_thousand_classes_answer_with_their_uncertainty() -> None:
    (row,) = curve_rows(Teacher(1000), BayesOptimal(), [100.0])
    assert row["status"] == "ok"
    assert 0 < row["uncertainty"] < 1e-4
    assert 0.5 < row["generalisation_error"] < 0.999
