"""The explorer's curves in parts, its runs, and the range that follows the transitions."""

from __future__ import annotations

import json
from itertools import pairwise

import pandas as pd
import pytest

from polyceptron.pictures.curves import curves_panel
from polyceptron.questions.drawn_curve import bends
from polyceptron.report.explorer.page_figures import Simulated, learning_figure
from polyceptron.report.explorer.page_tasks import (
    followed_range,
    is_slow,
    limits_task,
    perform,
    simulation_messages,
    spaced,
    tasks_of,
)
from polyceptron.report.explorer.settings import PageSettings, make_settings
from polyceptron.theory.bayes.fixed_points import fixed_points
from polyceptron.theory.bayes.transitions import transitions
from polyceptron.theory.separability import separability


def test_every_task_answers_with_plain_json_and_quick_ones_are_known() -> None:
    page = make_settings({"points": 5, "estimators": ["bayes", "square", "max-margin"]})
    tasks = tasks_of(page)
    assert [task["kind"] for task in tasks] == ["limits", "landscape", *["curve"] * 3]
    assert not any(is_slow(task) for task in tasks)
    for task in tasks:
        *_, last = perform(task)
        assert last["done"] == (5 if task["kind"] == "curve" else 1)
        json.dumps(last, allow_nan=False)
    assert any(is_slow(task) for task in tasks_of(make_settings({"k": 4})))
    assert any(is_slow(task) for task in tasks_of(make_settings({"ridge_rule": "optimal"})))


def test_a_curve_comes_from_coarse_to_fine_and_agrees_with_its_points_alone() -> None:
    page = make_settings(
        {
            "estimators": ["cross-entropy"],
            "points": 17,
            "low": 0.5,
            "ridge": 1.0,
            "prior": "gaussian",
        }
    )
    task = next(task for task in tasks_of(page) if task["kind"] == "curve")
    parts = list(perform(task))
    assert [part["done"] for part in parts[:3]] == [5, 9, 17]
    assert {part["done"] for part in parts[3:]} <= {17}  # where it still bends
    for part in parts[:3]:
        alphas = [row["alpha"] for row in part["result"]]
        assert alphas == sorted(alphas)
        assert (alphas[0], alphas[-1]) == (page.low, page.high)
        gaps = [b - a for a, b in pairwise(alphas)]
        assert max(gaps) < 1.5 * min(gaps)
    alone = make_settings({**page.as_dict(), "points": 2})
    (ends,) = perform(next(task for task in tasks_of(alone) if task["kind"] == "curve"))
    for a, b in zip(ends["result"], (parts[-1]["result"][i] for i in (0, -1)), strict=True):
        gap = abs(a["generalisation_error"] - b["generalisation_error"])
        assert gap <= a["uncertainty"] + b["uncertainty"] + 1e-6


def test_a_curve_with_branches_is_round_at_its_fold_and_steep_at_its_jumps() -> None:
    page = make_settings({"points": 30, "estimators": ["bayes"]})
    answers = {task["kind"]: list(perform(task))[-1]["result"] for task in tasks_of(page)}
    at = answers["limits"]["alpha_algo"]
    amp = [row for row in answers["curve"] if row["branch"] == "amp"]
    alphas = [row["alpha"] for row in amp]
    assert alphas == sorted(set(alphas))
    assert set(alphas) >= set(spaced(page, 30))
    assert bends(answers["curve"]) == []  # an eye sees a round curve
    assert len([row for row in amp if 0.9 * at < row["alpha"] < at]) > 8
    start = [row for row in amp if row["alpha"] < 0.7]
    assert len(start) > sum(alpha < 0.7 for alpha in spaced(page, 30))
    (fall,) = [(a, b) for a, b in pairwise(amp) if b["generalisation_error"] == 0][:1]
    assert fall[0]["alpha"] < at < fall[1]["alpha"] < 1.0003 * fall[0]["alpha"]


def test_the_range_follows_the_transitions() -> None:
    """Both transitions are in sight, and not at the edge, from the perceptron to ten classes."""
    page = PageSettings()
    found = transitions(page.teacher).as_dict()
    assert followed_range(page, found) == (page.low, page.high)
    for algo in (1.4926, 2.4866, 3.2256, 5.0481, 12.0):
        low, high = followed_range(page, {"alpha_algo": algo})
        assert low < 0.5 * algo
        assert 1.15 * algo < high < 1.7 * algo
    assert followed_range(page, {"alpha_algo": None}) == (page.low, page.high)
    assert limits_task(make_settings({"prior": "gaussian"})) is None


def test_the_range_reaches_beyond_the_end_of_separability() -> None:
    """Where it is near; farther if a curve is shown that ends there, but not to any distance."""
    noisy = {"prior": "gaussian", "noise": "softmax", "strength": 2.0}
    page = make_settings(noisy)
    assert limits_task(page) in tasks_of(page)
    end = separability(page.teacher).alpha_s
    assert 1.15 * end < followed_range(page, {"alpha_s": end})[1] < 1.4 * end
    ending = make_settings({**noisy, "estimators": ["max-margin"]})
    for far, high, as_well in ((9.4, 4.0, 12.0), (80.0, 4.0, 4.0)):
        assert followed_range(page, {"alpha_s": far})[1] == high
        assert followed_range(ending, {"alpha_s": far})[1] == as_well


def test_a_slow_curve_begins_with_few_points_and_has_more_where_it_bends() -> None:
    page = make_settings({"k": 2, "estimators": "cross-entropy", "points": 40, "low": 0.1})
    (task,) = (task for task in tasks_of(page) if task["kind"] == "curve")
    *_, last = perform(task)
    rows = last["result"]
    assert 17 <= len(rows) <= 80
    assert bends(rows) == []
    (point,) = perform({**task, "points": 1, "alpha": 2.0})  # one that is alone
    assert [row["alpha"] for row in point["result"]] == [2.0]


def test_a_simulation_lies_near_the_theory_and_follows_its_seed() -> None:
    page = make_settings({"dimension": 200, "places": 2, "runs": 2, "low": 1.0, "high": 2.0})
    first = [message["row"] for message in simulation_messages(page)]
    again = [message["row"] for message in simulation_messages(page)]
    assert first == again
    assert [row["seed"] for row in first] == [0, 1, 2, 3]
    other = [
        message["row"]
        for message in simulation_messages(make_settings({**page.as_dict(), "seed": 9}))
    ]
    assert other[0]["generalisation_error"] != first[0]["generalisation_error"]
    theory = {p.alpha: p for p in fixed_points(page.teacher, [1.0, 2.0]) if p.branch == "amp"}
    for row in first:
        assert row["generalisation_error"] == pytest.approx(
            theory[row["alpha"]].generalisation_error, abs=0.06
        )


@pytest.mark.parametrize("method", ["square", "lda"])  # one and the same rule here
def test_the_best_ridge_of_a_fit_is_the_theory_s(method: str) -> None:
    page = make_settings(
        {"simulation": method, "ridge_rule": "optimal", "places": 1, "runs": 1, "dimension": 60}
    )
    (message,) = simulation_messages(page)
    assert message["row"]["ridge"] == pytest.approx(0.8617, abs=1e-4)
    assert message["row"]["alpha"] == page.alpha


def test_spacing_follows_the_axis() -> None:
    assert spaced(make_settings({"low": 1, "high": 3}), 3) == [1.0, 2.0, 3.0]
    assert spaced(make_settings({"low": 1, "high": 4, "scale": "log"}), 3) == pytest.approx(
        [1, 2, 4]
    )
    assert spaced(PageSettings(), 1) == [PageSettings().alpha]


def test_a_line_its_symbols_and_a_plot_of_the_same_rows_have_one_colour() -> None:
    names, state = ("hinge", "lda", "bayes"), make_settings({"simulation": "hinge"})
    curves = {
        name: [
            {"source": "theory", "estimator": name, "alpha": a, "generalisation_error": i + 1 / a}
            for a in (1.0, 2.0)
        ]
        for i, name in enumerate(names)
    }
    runs = [{**row, "source": "erm"} for row in curves["hinge"]]
    figure = learning_figure(state, curves, {}, [Simulated(state, runs, 0)])
    drawn = {t["name"]: (t.get("line") or t["marker"])["color"] for t in figure["data"]}
    assert drawn["hinge"] == drawn[f"hinge, d = {state.dimension}"]
    table = pd.DataFrame([row for rows in curves.values() for row in rows] + runs)
    for trace in curves_panel(table).traces:
        assert trace.colour == drawn[trace.label]
    assert len({drawn[word] for word in ("hinge", "LDA", "Bayes-optimal")}) == 3
