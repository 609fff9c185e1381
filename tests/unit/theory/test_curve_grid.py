"""Theory on grids for drawing: the landscape against the fixed points, the fold's shape."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import log_ndtr, ndtr

from polyceptron.errors import InvalidInput
from polyceptron.problem import Perceptron, Teacher
from polyceptron.questions.drawn_curve import bends, drawn_rows
from polyceptron.questions.landscape import free_entropy, landscape
from polyceptron.rows import Status
from polyceptron.theory.bayes import fixed_points as fixed_points_module
from polyceptron.theory.bayes.fixed_points import _against, crossings, fixed_points
from polyceptron.theory.bayes.solution_curve import curve_of
from polyceptron.theory.bayes.transitions import transitions


def slope(teacher: Teacher | Perceptron, q_hat: float, alpha: float) -> float:
    """dΦ/dq at fixed α, by central differences."""
    step = 1e-4 * q_hat
    q, phi = free_entropy(teacher, np.array([q_hat - step, q_hat + step]), alpha)
    return float((phi[1] - phi[0]) / (q[1] - q[0]))


@pytest.mark.parametrize(
    ("teacher", "alpha"),
    [(Teacher(3, "rademacher"), 2.6), (Teacher(3), 2.0), (Perceptron("rademacher"), 1.4)],
)
def test_the_landscape_is_stationary_at_the_fixed_points_and_only_there(
    teacher: Teacher | Perceptron, alpha: float
) -> None:
    inside = [p for p in fixed_points(teacher, alpha) if 0 < p.q_hat < math.inf]
    assert inside
    for point in inside:
        q, phi = free_entropy(teacher, np.array([point.q_hat]), alpha)
        assert q[0] == pytest.approx(point.q, abs=1e-9)
        assert phi[0] == pytest.approx(point.free_entropy, abs=1e-9)
        assert abs(slope(teacher, point.q_hat, alpha)) < 1e-5
        # The same place is not stationary at another α.
        assert abs(slope(teacher, point.q_hat, 1.2 * alpha)) > 1e-2
    # Stable points are maxima along the curve, barriers are minima.
    found = landscape(teacher, alpha)
    q, phi = np.array(found["q"]), np.array(found["free_entropy"])
    assert (np.diff(q) > 0).all()
    for point in inside:
        i = int(np.argmin(np.abs(q - point.q)))
        neighbours = max(phi[i - 1], phi[i + 1]), min(phi[i - 1], phi[i + 1])
        if point.branch == "unstable":
            assert phi[i] < neighbours[1]
        else:
            assert phi[i] > neighbours[0]


def test_a_landscape_is_of_one_alpha() -> None:
    with pytest.raises(InvalidInput, match=r"alpha must be .*, got \[1, 2\]"):
        landscape(Teacher(3), [1, 2])  # type: ignore[arg-type]


def test_the_landscape_of_two_classes_against_direct_integrals() -> None:
    """k = 2, Gaussian: Φ = ½q̂v − ½ln(1+q̂) + 2αE[H ln H], H = Φ(t√(q/(1−q)))."""
    alpha = 1.3
    for q in (0.2, 0.6, 0.9):
        q_hat = q / (1 - q)
        ratio = math.sqrt(q / (1 - q))

        def integrand(t: float, ratio: float = ratio) -> float:
            weight = math.exp(-t * t / 2) / math.sqrt(2 * math.pi)
            return float(weight * ndtr(t * ratio) * log_ndtr(t * ratio))

        entropy = 2 * quad(integrand, -12, 12, epsabs=1e-12)[0]
        expected = 0.5 * q_hat * (1 - q) - 0.5 * math.log1p(q_hat) + alpha * entropy
        got_q, phi = free_entropy(Teacher(2), np.array([q_hat]), alpha)
        assert got_q[0] == pytest.approx(q, abs=1e-12)
        assert phi[0] == pytest.approx(expected, abs=1e-9)


def test_the_hard_phase_shows_in_the_landscape() -> None:
    teacher = Teacher(3, "rademacher")
    found = transitions(teacher)
    assert found.alpha_it is not None
    assert found.alpha_algo is not None
    for alpha, perfect_is_best in ((found.alpha_it - 0.02, False), (found.alpha_it + 0.02, True)):
        view = landscape(teacher, alpha)
        top = max(view["free_entropy"])
        assert (view["perfect"] == pytest.approx(top, abs=1e-12)) == perfect_is_best
        assert view["free_entropy"][0] == pytest.approx(-alpha * math.log(3))
        assert {p["branch"] for p in view["extrema"]} == {"optimal", "amp", "informed", "unstable"}
    easy = landscape(teacher, found.alpha_algo + 0.05)
    assert {p["branch"] for p in easy["extrema"]} == {"optimal", "amp", "informed"}
    assert (np.diff(easy["free_entropy"]) > 0).all()  # no barrier: uphill all the way


@pytest.mark.parametrize("teacher", [Teacher(3, "rademacher"), Perceptron("rademacher")])
def test_a_line_through_the_drawn_rows_is_the_curve(teacher: Teacher | Perceptron) -> None:
    """Between its points it is off by less than a pixel of 1000, fold and start included."""
    rows = drawn_rows(teacher, "bayes", 0, 4, branch="all")
    at = transitions(teacher)
    assert at.alpha_it is not None
    assert at.alpha_algo is not None
    assert len({row["alpha"] for row in rows}) < 80
    for branch, jump in (("optimal", at.alpha_it), ("amp", at.alpha_algo)):
        line = {r["alpha"]: r["generalisation_error"] for r in rows if r["branch"] == branch}
        x, y = np.array(list(line)), np.array(list(line.values()))
        assert (np.diff(x) > 0).all()
        step = int(np.argmax(-np.diff(y)))
        assert x[step] < jump < x[step + 1] < x[step] * (1 + 1e-3)  # the jump is upright
        assert y[step + 1] == 0
        middle = 0.5 * (x[1:step] + x[2 : step + 1])
        exact = np.array(
            [p.generalisation_error for p in fixed_points(teacher, middle, branch=branch)]
        )
        slope = np.diff(y[1 : step + 1]) / y.max() / (np.diff(x[1 : step + 1]) / 4)
        off = np.abs(np.interp(middle, x, y) - exact) / y.max() / np.hypot(1, slope)
        assert off.max() < 1.5e-3
        # Even steps of as many points are not that close.
        even = np.linspace(0, jump, step + 1)
        values = [p.generalisation_error for p in fixed_points(teacher, even, branch=branch)]
        steep = np.diff(values) / y.max() / (np.diff(even) / 4)
        between = 0.5 * (even[1:] + even[:-1])
        truth = [p.generalisation_error for p in fixed_points(teacher, between, branch=branch)]
        worse = np.abs(np.interp(between, even, values) - truth) / y.max() / np.hypot(1, steep)
        assert worse.max() > off.max()


def test_a_straight_line_is_not_refined_and_a_gap_is_closed_in_on() -> None:
    straight = [{"alpha": a, "generalisation_error": 1 - a} for a in (0.0, 0.5, 1.0)]
    assert bends(straight) == []
    bent = [*straight[:2], {"alpha": 1.0, "generalisation_error": 0.5}]
    assert sorted(bends(bent)) == [0.25, 0.75]
    gone = [*straight[:2], {"alpha": 1.0, "generalisation_error": math.nan}]
    assert bends(gone) == [0.75]
    unsure = [{**row, "uncertainty": 0.5} for row in bent]
    assert bends(unsure) == []


def test_a_range_that_does_not_go_upwards_is_refused() -> None:
    with pytest.raises(InvalidInput, match="upwards"):
        drawn_rows(Teacher(3), "bayes", 2, 1)
    with pytest.raises(InvalidInput, match="above 0"):
        drawn_rows(Teacher(3), "bayes", 0, 1, log=True)


def test_a_finer_curve_may_end_where_the_first_tells() -> None:
    """Up to there it is that of all q̂."""
    teacher = Teacher(6, "ternary")
    first = curve_of(teacher)
    ((state, _),) = crossings(first, [4.0])
    until = first.enough(4.0, state.q_hat)
    assert state.q_hat < until < 0.5 * first.grid(0).q_hat[-1]
    ((found,),) = crossings(curve_of(teacher, 6, until), [4.0])
    assert curve_of(teacher, 6).points(np.array([found.q_hat])).v[0] == found.v != state.v


def test_a_fold_is_kept_though_the_end_of_the_curve_is_hardly_known() -> None:
    """Its drop is seen on the way: at the end α of rare points is uncertain by all of it."""
    branches = curve_of(Teacher(6, "finite[-2:0.1;-0.5:0.4;0.5:0.4;2:0.1]"), 3).branches()
    assert [b.rising for b in branches] == [True, False]


def test_marks_beyond_the_points_allowed_bring_no_others() -> None:
    marks = np.geomspace(0.3, 9, 8)
    rows = drawn_rows(Teacher(2), "bayes", 0.1, 10, log=True, also=marks, most=6)
    assert len(rows) == 6 + len(marks)


def test_an_open_choice_reaches_to_the_rival_with_the_widest_bar() -> None:
    """The farthest rival is not the one whose error may be farthest off."""
    point = replace(fixed_points(Teacher(2), 1.0)[0], generalisation_error=0.2, uncertainty=0.01)
    near = replace(point, generalisation_error=0.3, uncertainty=0.15)
    far = replace(point, generalisation_error=0.32, uncertainty=0.02)
    at_fold = replace(point, generalisation_error=0.1, uncertainty=math.inf)
    reached = _against(point, [near, far, at_fold])
    assert reached.uncertainty == pytest.approx(0.1 + 0.15)
    assert reached.other_error == 0.32
    assert reached.status is Status.UNDECIDED
    assert _against(point, []) is point
    # Where neither of two candidates is certain, how far they are apart bounds nothing.
    assert _against(replace(point, uncertainty=math.inf), [at_fold]).uncertainty == math.inf


def test_a_curve_is_built_once_for_the_points_and_their_refinement(monkeypatch) -> None:
    asked = []

    def watched(*settings):
        asked.append(settings)
        return curve_of(*settings)

    monkeypatch.setattr(fixed_points_module, "curve_of", watched)
    fixed_points(Teacher(6, "ternary"), 4.0, 3e-4)
    curves = {curve_of(*settings) for settings in asked}
    assert len({(curve.log2_points, curve.until) for curve in curves}) == len(curves) > 1
