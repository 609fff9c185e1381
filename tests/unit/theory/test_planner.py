"""The planner inverts the learning curves."""

import math

import numpy as np
import pytest

import polyceptron as pc
from polyceptron.errors import InvalidInput
from polyceptron.questions.curve_rows import curve_rows
from polyceptron.questions.plan import first_crossing, plan
from polyceptron.theory.erm.rows import erm_rows


@pytest.mark.parametrize(
    "estimator",
    [
        pc.ERM("cross-entropy", 0.1),
        pc.ERM("max-margin"),
        pc.ERM("square", "optimal"),
        pc.BayesOptimal(),
    ],
)
def test_the_answer_has_the_asked_error(estimator):
    found = plan(pc.Teacher(3), 0.2, estimator, dimension=100)
    assert found.row["generalisation_error"] == pytest.approx(0.2, rel=2e-4)
    assert found.n_samples == pytest.approx(found.alpha * 100, abs=1)
    assert found.n_samples >= found.alpha * 100 - 1e-6
    assert found.row["dimension"] == 100
    (row,) = curve_rows(pc.Teacher(3), estimator, [found.alpha])
    assert row["generalisation_error"] == pytest.approx(0.2, rel=2e-4)


def test_better_estimators_need_less():
    teacher = pc.Teacher(2)
    bayes = plan(teacher, 0.1, pc.BayesOptimal()).alpha
    best = plan(teacher, 0.1, pc.ERM("cross-entropy", "optimal"))
    hard = plan(teacher, 0.1, pc.ERM("max-margin")).alpha
    square = plan(teacher, 0.1, pc.ERM("square", "optimal")).alpha
    assert bayes < best.alpha < hard < square
    assert 0 < best.row["ridge"] < 0.1


def test_double_descent_is_met_from_the_left():
    """Without ridge the square loss reaches 0.55 below α = 1 and again above: the first counts."""
    found = plan(pc.Teacher(3), 0.55, pc.ERM("square", 0))
    assert found.alpha < 0.5
    later = erm_rows(pc.Teacher(3), pc.ERM("square", 0), [1.05])
    assert later[0]["generalisation_error"] > 0.55


def test_a_first_order_jump_is_found():
    """With binary weights the Bayes error jumps to 0 at the transition."""
    teacher = pc.Perceptron("rademacher")
    found = plan(teacher, 1e-6, pc.BayesOptimal())
    known = pc.transitions(teacher)
    assert found.alpha == pytest.approx(known.alpha_it, abs=1e-3)
    assert found.at_jump
    assert found.algorithm.alpha == pytest.approx(known.alpha_algo, abs=1e-3)
    assert found.algorithm.row["branch"] == "amp"


def test_a_target_inside_a_jump_is_reached_just_above_it():
    """At α_IT the error falls from 0.23 to 0: 0.1 is met above, not below."""
    teacher = pc.Teacher(3, "rademacher")
    found = plan(teacher, 0.1, pc.BayesOptimal())
    assert found.at_jump
    assert found.alpha > pc.transitions(teacher).alpha_it
    assert found.row["generalisation_error"] <= 0.1
    before = plan(teacher, 0.3, pc.BayesOptimal())  # above the jump's upper end: met smoothly
    assert not before.at_jump
    assert before.row["generalisation_error"] == pytest.approx(0.3, rel=2e-4)
    assert before.algorithm.alpha == pytest.approx(before.alpha, rel=3e-4)


@pytest.mark.parametrize("error", [0.0, -0.1, 0.7, 1.0, float("nan"), "small"])
def test_targets_out_of_range(error):
    with pytest.raises(InvalidInput, match=r"between 0 and 0\.6667"):
        plan(pc.Teacher(3), error, pc.BayesOptimal())


def test_a_target_beyond_reach_says_how_far_one_gets():
    with pytest.raises(InvalidInput, match=r"out of reach: it is still .* at alpha = 1e\+06"):
        plan(pc.Teacher(2), 1e-6, pc.ERM("square", 1.0))


def test_a_plan_of_unequal_classes_asks_for_few_digits_on_the_way(monkeypatch):
    from polyceptron.theory.erm import rows

    asked, solve = [], rows.erm_fixed_point
    monkeypatch.setattr(rows, "erm_fixed_point", lambda *a: asked.append(a[3]) or solve(*a))
    rare = pc.Mixture((0.9, 0.1), separation=2.0)
    found = plan(rare, 0.09, pc.ERM("cross-entropy", 0.1, intercept=True))
    assert found.row["generalisation_error"] == pytest.approx(0.09, rel=2e-4)
    assert asked.count(None) <= 2 < len(asked)


def test_max_margin_that_ends_says_where_and_what_to_do():
    with pytest.raises(InvalidInput, match=r"still 0\.308 at alpha = 3\.2.*alpha_s.*ridge above 0"):
        plan(pc.Teacher(2, noise="gaussian:0.5"), 0.26, "max-margin")
    mixture = pc.Mixture(gram=[[1.0, -1.0], [-1.0, 1.0]], shares=(0.7, 0.3))
    with pytest.raises(InvalidInput, match=r"still 0\.\d+ at alpha = .*ridge above 0"):
        plan(mixture, 0.17, "max-margin")


@pytest.mark.parametrize(("end", "words"), [(1.0, "still 0.45"), (-1.0, "not known at alpha = 1,")])
def test_a_curve_without_an_error_ends_there(end, words):
    def curve(log_alpha):
        return 0.5 - 0.05 * log_alpha if log_alpha < end else float("nan")

    with pytest.raises(InvalidInput, match=words):
        first_crossing(curve, 0.1, (0.0, 3.0), "max-margin")


SQUARE = [pc.ERM("square", ridge) for ridge in (0, 1e-3, 1e-2)]
NOISES = ("flips:0.1", "gaussian:0.5", "flips:0.2")
NEARLY_NO_RIDGE = pc.ERM("square", 1e-4, intercept=True)
CURVES_WITH_DIPS = [
    *((pc.Teacher(k), square) for k in (2, 3, 4, 5) for square in SQUARE),
    *((pc.Teacher(k, noise=n), square) for k in (2, 3) for n in NOISES for square in SQUARE[::2]),
    *((pc.Mixture((p, 1 - p), separation=4.0), NEARLY_NO_RIDGE) for p in (0.5, 0.6)),
]


def test_there_are_26_curves_with_dips():
    assert len(CURVES_WITH_DIPS) == 26


@pytest.mark.parametrize("above", [1e-3, 1e-6])
@pytest.mark.parametrize(("teacher", "square"), CURVES_WITH_DIPS)
def test_the_first_crossing_is_on_the_way_into_a_dip(teacher, square, above):
    """Double descent: a target just above the least error at α < 1 is met there, not above 1."""
    log_alpha, lowest = lowest_below_one(teacher, square)
    target = (1 + above) * lowest
    found = pc.plan(teacher, target, square)
    assert found.alpha <= math.exp(log_alpha) * (1 + 1e-3)
    assert found.row["generalisation_error"] == pytest.approx(target, rel=1e-6)
    before = np.geomspace(0.02, found.alpha - 2 * found.alpha_uncertainty, 40)
    errors = [row["generalisation_error"] for row in curve_rows(teacher, square, before)]
    assert min(errors) > target


@pytest.mark.parametrize(("teacher", "square"), CURVES_WITH_DIPS[::3])
def test_a_dip_that_stays_above_the_target_is_passed(teacher, square):
    _, lowest = lowest_below_one(teacher, square)
    target = (1 - 1e-4) * lowest
    found = pc.plan(teacher, target, square)
    assert found.alpha > 1
    assert found.row["generalisation_error"] == pytest.approx(target, rel=2e-4)


def lowest_below_one(teacher, student):
    """ln α and error at the least error of α in [0.1, 1], by a grid made finer three times."""
    low, high = math.log(0.1), 0.0
    for _ in range(4):
        grid = np.linspace(low, high, 25)
        rows = curve_rows(teacher, student, np.exp(grid))
        errors = [row["generalisation_error"] for row in rows]
        best = int(np.argmin(errors))
        assert 0 < best < 24
        low, high = grid[best - 1], grid[best + 1]
    return grid[best], errors[best]


@pytest.mark.parametrize("depth", [1e-4, 0.01, 0.1])
@pytest.mark.parametrize("centre", [-1.3, 0.21, 2.9])
def test_a_dip_of_any_depth_is_found_with_few_points(centre, depth):
    """An explicit curve: falling, with a dip of width 0.2 in ln α."""
    asked = []

    def curve(x):
        asked.append(x)
        return 0.3 - 1e-4 * x - depth * math.exp(-(((x - centre) / 0.2) ** 2) / 2)

    grid = np.linspace(centre - 1, centre + 1, 200_001)
    values = np.array([curve(x) for x in grid])
    asked.clear()
    lowest = int(np.argmin(values[50_000:150_000])) + 50_000  # of the dip
    target = values[lowest] + 0.05 * (values[lowest:].max() - values[lowest])
    expected = grid[np.argmax(values <= target)]
    assert first_crossing(curve, target, (-4.0, 6.0), "any") == pytest.approx(expected, abs=2e-4)
    assert len(set(asked)) < 90


def test_an_error_that_rises_from_the_start_is_met_at_its_start():
    """Unequal shares and hardly any ridge: the intercept alone errs least, until α is large."""
    found = pc.plan(pc.Mixture((0.8, 0.2), separation=1.5), 0.2002, NEARLY_NO_RIDGE)
    assert found.alpha < 0.06


def test_students_that_are_only_named_have_their_best_ridge():
    """The ridge 0.1 needs more data than max-margin at this error, the best one needs less."""
    teacher = pc.Teacher(2)
    named = plan(teacher, 0.05, "cross-entropy")
    assert named.row["ridge"] != 0.1
    best = plan(teacher, 0.05, pc.ERM("cross-entropy", "optimal"))
    assert named.alpha == best.alpha
    fixed = plan(teacher, 0.05, "cross-entropy", ridge=0.1)
    assert fixed.row["ridge"] == 0.1
    assert fixed.alpha == plan(teacher, 0.05, pc.ERM("cross-entropy", 0.1)).alpha
    hard = plan(teacher, 0.05, "max-margin").alpha
    assert named.alpha < hard < fixed.alpha


def test_a_comparison_without_names_is_at_best_ridges():
    plans = {found.row["estimator"]: found for found in plan(pc.Teacher(2), 0.2)}
    for name, found in plans.items():
        assert plans["bayes"].alpha <= found.alpha * (1 + 1e-4), name
    square = plan(pc.Teacher(2), 0.2, pc.ERM("square", "optimal"))
    assert plans["square"].alpha == square.alpha
