"""The best ridge: no fixed one is better by more than its error bar, in limits too."""

from __future__ import annotations

import math

import numpy as np
import pytest

import polyceptron as pc
from polyceptron.numerics.special import boundary_density
from polyceptron.problem import OneVsRest
from polyceptron.students import student_of
from polyceptron.theory.erm.rows import erm_parts

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
    assert abs(math.log(point.ridge / twin.ridge)) < 0.06  # the error is flat: λ is known to 5 %
    there = pc.erm_fixed_point(pc.Teacher(5), pc.ERM("cross-entropy", twin.ridge), alpha)
    bar = point.uncertainty + there.uncertainty
    assert point.generalisation_error <= there.generalisation_error + bar


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
        (least,) = student_of(pc.BayesOptimal()).rows(even, [alpha])
        assert point.ridge >= 100  # the first that is as good as the limit
        assert abs(point.generalisation_error - least["generalisation_error"]) < 5e-7


def bars_below(teacher, loss, alpha, ridges, tol=None) -> float:
    """By how many of its error bars the best ridge is above the best of some fixed ones."""
    best = pc.erm_fixed_point(teacher, pc.ERM(loss, "optimal"), alpha, tol)
    errors = [
        pc.erm_fixed_point(teacher, pc.ERM(loss, ridge), alpha, tol).generalisation_error
        for ridge in ridges
    ]
    return (best.generalisation_error - min(errors)) / best.uncertainty


SMALL_RIDGES = (0.0, 1e-10, 1e-8, 1e-7, 1e-5, 1e-3, 0.1, 1.0, 3.0, 4.0)


@pytest.mark.parametrize(
    ("loss", "tol"),
    [("hinge", None), ("hinge", 1e-9), ("squared-hinge", None), ("squared-hinge", 1e-9)],
)
def test_no_ridge_at_all_may_be_best(loss: str, tol: float | None) -> None:
    """The hinge errs least for λ → 0 here, and the squared hinge inside."""
    assert bars_below(pc.Teacher(2, noise="flips:0.126"), loss, 63.95, SMALL_RIDGES, tol) < 1


def test_a_ridge_of_zero_is_returned_as_such() -> None:
    teacher = pc.Teacher(2, noise="flips:0.126")
    assert pc.optimal_ridge(teacher, "hinge", 63.95) == 0
    best = pc.erm_fixed_point(teacher, pc.ERM("hinge", "optimal"), 63.95)
    none = pc.erm_fixed_point(teacher, pc.ERM("hinge", 0), 63.95)
    assert best.generalisation_error == none.generalisation_error


@pytest.mark.parametrize("alpha", [1e2, 1e4, 1e6])
def test_more_ridge_for_ever_is_followed_to_its_limit(alpha: float) -> None:
    """Least squares on two even clusters tends to class means, which are Bayes-optimal."""
    even = pc.Mixture((0.5, 0.5), separation=2.0)
    best = pc.erm_fixed_point(even, pc.ERM("square", "optimal"), alpha)
    (least,) = student_of(pc.BayesOptimal()).rows(even, [alpha])
    assert best.status == "ok"
    assert abs(best.generalisation_error - least["generalisation_error"]) <= best.uncertainty + 1e-9
    large = pc.erm_fixed_point(even, pc.ERM("square", 1e6), alpha)
    assert best.generalisation_error <= large.generalisation_error + best.uncertainty


def test_a_hinge_with_a_valley_before_its_large_ridges() -> None:
    """λ above 10 is constant at 0.45615; the least error is 0.45388, at λ of about 1.6."""
    teacher = pc.Teacher(3, noise="softmax:1.24")
    assert bars_below(teacher, "hinge", 5.0745, (0.3, 1.0, 1.5, 2.0, 3.0, 100.0)) < 1


@pytest.mark.parametrize("target", ["test-loss", "calibration"])
@pytest.mark.parametrize(
    ("noise", "alpha"), [("gaussian:20", 5.0), ("flips:0.4", 2.0), ("softmax:3", 300.0)]
)
def test_the_ridge_of_a_score_is_better_than_a_grid(noise: str, alpha: float, target: str) -> None:
    """With much noise it is beyond 10, up to which it was searched for before."""
    teacher = pc.Teacher(2, noise=noise)
    name = target.replace("-", "_").replace("calibration", "calibration_error")
    best = pc.optimal_ridge(teacher, "cross-entropy", alpha, target=target)

    def score(ridge: float) -> float:
        found = pc.calibration(teacher, pc.ERM("cross-entropy", ridge), alpha, n_bins=400)
        return float(getattr(found, name))

    grid = [score(ridge) for ridge in (1e-3, 0.1, 1.0, 5.0, 10.0, 20.0, 50.0, 1e3)]
    assert score(best) <= min(grid) + 1e-6
    for factor in (0.9, 1.1):
        assert score(best) <= score(factor * best) + 1e-7


def test_one_vs_rest_at_its_best_ridge() -> None:
    teacher = pc.Teacher(3, noise="flips:0.2")
    (best,) = student_of(OneVsRest("optimal")).rows(teacher, [2.0])
    for factor in (0.25, 0.5, 2.0, 4.0):
        (other,) = student_of(OneVsRest(factor * best["ridge"])).rows(teacher, [2.0])
        assert best["generalisation_error"] < other["generalisation_error"] + best["uncertainty"]


def test_a_target_of_unequal_classes_is_met() -> None:
    rare = pc.Mixture((0.8, 0.2), separation=2.0)
    ridge = {
        target: pc.optimal_ridge(rare, pc.ERM(intercept=True), 3.0, target=target)
        for target in ("error", "balanced-error")
    }

    def balanced(value: float) -> float:
        return pc.erm_fixed_point(rare, pc.ERM(ridge=value, intercept=True), 3.0).balanced_error

    grid = np.geomspace(1e-4, 1e4, 17)
    assert balanced(ridge["balanced-error"]) <= min(map(balanced, grid)) + 1e-6


def test_valley_beside_a_plateau() -> None:
    """A hinge with few data: the error is constant up to λ ≈ 0.3, falls, and rises beyond 1."""
    teacher = pc.Teacher(3)
    best = pc.erm_fixed_point(teacher, pc.ERM("hinge", "optimal"), 0.3)
    for ridge in (1e-3, 0.5, 0.7, 1.0, 1.4, 2.0):
        other = pc.erm_fixed_point(teacher, pc.ERM("hinge", ridge), 0.3)
        bar = best.uncertainty + other.uncertainty
        assert best.generalisation_error <= other.generalisation_error + bar, ridge


def test_a_rival_valley_lies_between_its_neighbours() -> None:
    """The vertex of a parabola through noisy slopes may be anywhere: far away it is not tried."""
    best = pc.erm_fixed_point(pc.Teacher(5), pc.ERM("hinge", "optimal"), 2.0)
    assert best.status == "ok"


def test_a_loss_without_a_limit_at_ridge_0_has_a_best_ridge() -> None:
    best = pc.erm_fixed_point(pc.Teacher(2), pc.ERM("smoothed:0.1", "optimal"), 50.0)
    assert best.status == "ok"
    assert best.ridge > 0
