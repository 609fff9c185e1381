"""A curve at its best ridge that is searched for at a few points only."""

from __future__ import annotations

import pytest

import polyceptron as pc
from polyceptron.theory.erm.risk_rows import erm_parts


def test_between_points_the_ridge_is_interpolated_and_the_error_hardly_knows():
    best = pc.ERM("cross-entropy", "optimal")
    parts = [[0.3, 1.5, 6.0], [0.8, 3.0]]
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
