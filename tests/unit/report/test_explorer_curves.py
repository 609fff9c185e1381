"""The explorer's numbers: the landscape against the fixed points, curves in parts, runs."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import log_ndtr, ndtr

from polyceptron.model import Perceptron, Teacher
from polyceptron.report.explorer.compute import (
    averages,
    free_entropy,
    is_slow,
    landscape,
    perform,
    simulate,
    spaced,
    tasks_of,
)
from polyceptron.report.explorer.state import State, make_state
from polyceptron.theory import fixed_points, transitions


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


def test_every_task_answers_with_plain_json_and_quick_ones_are_known() -> None:
    state = make_state({"points": 5, "estimators": ["bayes", "square", "max-margin"]})
    tasks = tasks_of(state)
    assert [task["kind"] for task in tasks] == [
        "curve", "curve", "curve", "transitions", "landscape",
    ]  # fmt: skip
    assert not any(is_slow(task) for task in tasks)
    for task in tasks:
        *_, last = perform(task)
        assert last["done"] == last["total"]
        json.dumps(last, allow_nan=False)
    assert any(is_slow(task) for task in tasks_of(make_state({"k": 4})))
    assert any(is_slow(task) for task in tasks_of(make_state({"ridge_rule": "optimal"})))


def test_a_slow_curve_comes_in_parts_that_agree_with_the_whole() -> None:
    state = make_state({"estimators": ["cross-entropy"], "points": 10, "low": 0.5, "ridge": 1.0})
    task = next(task for task in tasks_of(state) if task["kind"] == "curve")
    (whole,) = perform(task)
    from polyceptron.report.explorer import compute

    parts = list(compute._curve(state, "cross-entropy", True))
    assert [part["done"] for part in parts] == [8, 10]
    for a, b in zip(whole["result"], parts[-1]["result"], strict=True):
        gap = abs(a["generalisation_error"] - b["generalisation_error"])
        assert gap <= a["uncertainty"] + b["uncertainty"] + 1e-6


def test_a_simulation_lies_near_the_theory_and_follows_its_seed() -> None:
    state = make_state({"dimension": 200, "places": 2, "runs": 2, "low": 1.0, "high": 2.0})
    first = [message["row"] for message in simulate(state)]
    again = [message["row"] for message in simulate(state)]
    assert first == again
    assert [row["seed"] for row in first] == [0, 1, 2, 3]
    other = [message["row"] for message in simulate(make_state({**state.as_dict(), "seed": 9}))]
    assert other[0]["generalisation_error"] != first[0]["generalisation_error"]
    theory = {p.alpha: p for p in fixed_points(state.teacher, [1.0, 2.0]) if p.branch == "amp"}
    for row in first:
        assert row["generalisation_error"] == pytest.approx(
            theory[row["alpha"]].generalisation_error, abs=0.06
        )


def test_the_best_ridge_of_a_fit_is_the_theory_s() -> None:
    state = make_state(
        {"simulation": "square", "ridge_rule": "optimal", "places": 1, "runs": 1, "dimension": 60}
    )
    (message,) = simulate(state)
    assert message["row"]["ridge"] == pytest.approx(0.8617, abs=1e-4)
    assert message["row"]["alpha"] == state.alpha


def test_averages_give_standard_errors() -> None:
    rows = [{"alpha": 1.0, "x": value} for value in (1.0, 2.0, 3.0)] + [{"alpha": 2.0, "x": 5.0}]
    first, second = averages(rows, "x")
    assert first == {
        "alpha": 1.0,
        "mean": 2.0,
        "error": pytest.approx(1 / math.sqrt(3)),
        "count": 3,
    }
    assert second["error"] is None


def test_spacing_follows_the_axis() -> None:
    assert spaced(make_state({"low": 1, "high": 3}), 3) == [1.0, 2.0, 3.0]
    assert spaced(make_state({"low": 1, "high": 4, "scale": "log"}), 3) == pytest.approx([1, 2, 4])
    assert spaced(State(), 1) == [State().alpha]
