"""Keys and seeds depend on the question asked, not on the grid around it."""

from __future__ import annotations

import numpy as np
import pytest
import sweep_fakes as fakes

from polyceptron.experiments import SweepSpec, make_plan, parse_spec
from polyceptron.experiments.cost import case_cost, instance_bytes
from polyceptron.experiments.tasks import Task, count_rows, expand, seed_of, seed_path

FULL = """
[sweep]
seed = {seed}
[[grid]]
model = ["argmax"]
classes = {classes}
prior = {prior}
sources = ["theory", "amp", "erm"]
estimators = ["bayes", "cross-entropy", "max-margin"]
branch = ["optimal", "amp"]
start = ["uninformed", "informed"]
ridge = {ridge}
alpha = {alpha}
dimension = {dimension}
instances = {instances}
"""
DEFAULT = {
    "seed": 3,
    "classes": [2, 3],
    "prior": ["gaussian", "rademacher"],
    "ridge": [0.1, 1.0],
    "alpha": [0.5, 2.0, 3.0],
    "dimension": [10, 20],
    "instances": 2,
}


def spec(**changes: object) -> SweepSpec:
    return parse_spec(FULL.format(**{**DEFAULT, **changes}))


def keys(of: SweepSpec) -> set[str]:
    return {key for task in expand(of) for key in task.keys}


def tasks(source: str, **changes: object) -> list[Task]:
    return [task for task in expand(spec(**changes)) if task.shared["source"] == source]


def test_every_combination_once() -> None:
    listed = [key for task in expand(spec()) for key in task.keys]
    problems, points = 2 * 2 * 3, 2 * 2 * 3 * 2 * 2
    assert len(listed) == len(set(listed)) == problems * (2 + 2 + 1) + points * (2 + 2 + 1)
    assert count_rows(spec()) == len(listed)


@pytest.mark.parametrize(
    "change",
    [
        {"classes": [3, 4, 2]},
        {"prior": ["rademacher", "gaussian"]},
        {"ridge": [1.0, 0.01, 0.1]},
        {"alpha": [3.0, 1.0, 0.5, 2.0]},
        {"dimension": [20, 30, 10]},
        {"instances": 5},
    ],
)
def test_a_larger_grid_contains_the_smaller_one(change: dict[str, object]) -> None:
    assert keys(spec()) <= keys(spec(**change))


def test_one_more_ridge_is_that_ridge_alone() -> None:
    new = keys(spec(ridge=[0.1, 1.0, 5.0])) - keys(spec())
    grown = [t.only(new) for t in expand(spec(ridge=[0.1, 1.0, 5.0])) if set(t.keys) & new]
    assert {value for task in grown if task.varies == "ridge" for value in task.values} == {5.0}
    assert len(new) == 2 * 2 * 3 * (1 + 2 * 2)


def test_another_seed_changes_simulations_and_not_theory() -> None:
    shared = keys(spec()) & keys(spec(seed=4))
    assert shared == {key for task in tasks("theory") for key in task.keys}


def test_a_tolerance_is_part_of_the_question() -> None:
    tight = parse_spec(FULL.format(**DEFAULT) + "[erm]\ntolerance = 1e-9\n")
    lost = keys(spec()) - keys(tight)
    assert lost == {key for task in tasks("erm") for key in task.keys}


def test_all_estimators_and_sources_see_the_same_data() -> None:
    def instances(source: str) -> set[tuple[int, ...]]:
        return {tuple(task.shared["seed_path"]) for task in tasks(source)}

    assert instances("amp") == instances("erm")
    assert len(instances("amp")) == 2 * 2 * 3 * 2 * 2
    assert len({seed_of(path) for path in instances("amp")}) == len(instances("amp"))


def test_the_seed_is_numpys_at_the_recorded_path() -> None:
    path = seed_path(3, "argmax", 2, "gaussian", 0.5, 10, 1)
    assert (path[0], path[-1], len(path)) == (3, 1, 6)
    (word,) = np.random.SeedSequence(3, spawn_key=path[1:]).generate_state(1, np.uint64)
    assert seed_of(path) == word // 2**11 < 2**53
    assert int(float(seed_of(path))) == seed_of(path)


def test_seeds_look_independent() -> None:
    """Neighbouring instances: mean 1/2 and no correlation, within five standard deviations."""
    draws = [
        np.random.default_rng(seed_of(seed_path(0, "argmax", 3, "gaussian", 1.0, 100, i))).random()
        for i in range(2000)
    ]
    centred = (np.array(draws) - 0.5) * np.sqrt(12)
    assert abs(centred.mean()) < 5 / np.sqrt(2000)
    assert abs((centred[1:] * centred[:-1]).mean()) < 5 / np.sqrt(2000)


def test_keys_never_change() -> None:
    """Stores of users hold these keys: a change would compute everything again."""
    small = parse_spec(fakes.SPEC.format(instances=1))
    assert [task.keys[0] for task in expand(small)] == [
        "17ced262db04248b9d291c345f9a59a5",
        "3cf347481a7df7e4d24be8f995b9e500",
        "4c6d3f00951f24d238750e642ee98eb9",
        "5d343cd1d6e69f1a6fa3cef318d1ac48",
    ]


def test_the_plan_counts_and_costs() -> None:
    plan = make_plan(spec())
    assert (plan.rows, plan.stored, plan.to_do) == (count_rows(spec()), 0, count_rows(spec()))
    assert plan.tasks_to_do == sum(1 for _ in expand(spec()))
    costs = sum(case_cost(case.content) for task in expand(spec()) for case in task.cases)
    assert plan.seconds == pytest.approx(costs)
    assert plan.largest_bytes == 8 * 60 * 20
    content = tasks("erm")[0].shared  # at large d, the cost grows as n d
    large, larger = ({**content, "dimension": d} for d in (10_000, 100_000))
    assert case_cost(larger) == pytest.approx(100 * case_cost(large), rel=0.02)
    assert instance_bytes({"alpha": 3.0}) == 0


def test_a_row_that_two_grids_ask_for_counts_once() -> None:
    twice = FULL.format(**DEFAULT) + "[[grid]]" + FULL.format(**DEFAULT).split("[[grid]]")[1]
    assert make_plan(parse_spec(twice)).rows == make_plan(spec()).rows


def test_a_grid_beyond_reason_is_refused() -> None:
    with pytest.raises(ValueError, match=r"rows; a sweep may have up to 10,000,000"):
        make_plan(spec(instances=1_000_000))
