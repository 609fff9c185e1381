"""A curve at its best ridge that is searched for at a few points only."""

from __future__ import annotations

import math

import pytest

import polyceptron as pc
from polyceptron.numerics.special import boundary_density
from polyceptron.theory.erm.fixed_point import erm_parts

pytestmark = pytest.mark.slow


def test_between_points_the_ridge_is_interpolated_and_the_error_hardly_knows():
    best = pc.ERM("cross-entropy", "optimal")
    parts = [[0.8, 3.0], [1.5]]
    found = list(erm_parts(pc.Teacher(3), best, parts, 1e-6, searched=1))
    exact = list(erm_parts(pc.Teacher(3), best, parts, 1e-6))
    assert found[0] == exact[0]
    for row, true in zip(found[1], exact[1], strict=True):
        excess = row["generalisation_error"] - true["generalisation_error"]
        assert row["ridge"] != pytest.approx(true["ridge"], rel=1e-3)  # it was not searched for
        assert 0 < excess < 1e-4  # and the best one is better


def test_the_best_of_four_classes_is_no_zero_of_a_coarse_level():
    """A coarse level's slope vanishes at 6e-4 too, where the error is 0.064004."""
    best = pc.erm_fixed_point(pc.Teacher(4), pc.ERM("cross-entropy", "optimal"), 20.0)
    assert best.generalisation_error < 0.0638


def test_many_data_have_a_best_ridge_for_many_classes():
    """Where only pairs of classes meet, it is that of two at as many samples per boundary."""
    alpha = 1e4
    point = pc.erm_fixed_point(pc.Teacher(5), pc.ERM("cross-entropy", "optimal"), alpha)
    twin = pc.erm_fixed_point(
        pc.Teacher(2), pc.ERM("cross-entropy", "optimal"), alpha * boundary_density(5) / 4
    )
    assert point.status == "ok"
    assert abs(math.log(point.ridge / twin.ridge)) < 0.03


@pytest.mark.slow
def test_a_tangent_of_sums_in_doubt_is_not_believed():
    """About λ = 2e-5 sums of a coarse level see ln τ stationary where it is not."""
    teacher, best = pc.Teacher(6), pc.ERM("cross-entropy", "optimal")
    found = pc.erm_fixed_point(teacher, best, 156.25, 5e-6)
    for factor in (0.5, 2.0):
        there = pc.ERM("cross-entropy", factor * found.ridge)
        other = pc.erm_fixed_point(teacher, there, 156.25, 5e-6)
        apart = other.generalisation_error - found.generalisation_error
        assert apart > other.uncertainty + found.uncertainty


@pytest.mark.parametrize(
    ("k", "loss", "alpha"), [(2, "hinge", 0.05), (2, "hinge", 0.139), (3, "weston-watkins", 0.5)]
)
def test_a_plateau_of_small_ridges_is_not_the_best(k: int, loss: str, alpha: float) -> None:
    """Few data: the search begins where λ does not matter, and the sign of its slope is chance."""
    teacher, best = pc.Teacher(k), pc.erm_fixed_point(pc.Teacher(k), pc.ERM(loss, "optimal"), alpha)
    for ridge in (best.ridge / 2, 2 * best.ridge, 0.05):
        other = pc.erm_fixed_point(teacher, pc.ERM(loss, ridge), alpha)
        assert best.generalisation_error < other.generalisation_error + 1e-6


def test_clusters_may_want_more_ridge_for_ever():
    """The limit, class means, is Bayes-optimal for equal shares and one variance."""
    even = pc.Mixture((0.5, 0.5), separation=2.0)
    for alpha in (0.5, 3.0):
        point = pc.erm_fixed_point(even, pc.ERM("cross-entropy", "optimal"), alpha)
        (least,) = pc.BayesOptimal().rows(even, [alpha])
        assert point.ridge >= 1e3
        assert abs(point.generalisation_error - least["generalisation_error"]) < 5e-7
