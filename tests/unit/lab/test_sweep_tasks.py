"""Keys and seeds depend on the question asked, not on the grid around it."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
import sweep_fakes as fakes

from polyceptron.errors import InvalidInput
from polyceptron.lab.engine import Progress
from polyceptron.lab.spec import SweepSpec, parse_spec
from polyceptron.lab.sweep import SweepWalk, make_plan, run_sweep
from polyceptron.lab.tasks import Task, attempt, expand, grid_size
from polyceptron.progress import Share, _share_of_this_code
from polyceptron.store import Store
from polyceptron.students.seeds import seed_of, seed_path

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
    return [task for task in expand(spec(**changes)) if task.cases[0]["source"] == source]


def test_every_combination_once() -> None:
    listed = [key for task in expand(spec()) for key in task.keys]
    problems, points = 2 * 2 * 3, 2 * 2 * 3 * 2 * 2
    assert len(listed) == len(set(listed)) == problems * (2 + 2 + 1) + points * (2 + 2 + 1)


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
    assert {content["ridge"] for task in grown for content in task.cases} == {5.0}
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
        return {tuple(task.cases[0]["seed_path"]) for task in tasks(source)}

    assert instances("amp") == instances("erm")
    assert len(instances("amp")) == 2 * 2 * 3 * 2 * 2
    assert len({seed_of(path) for path in instances("amp")}) == len(instances("amp"))


def test_the_seed_is_numpys_at_the_recorded_path() -> None:
    path = seed_path(3, {"model": "argmax", "n_classes": 2, "prior": "gaussian"}, 0.5, 10, 1)
    assert (path[0], path[-1], len(path)) == (3, 1, 6)
    (word,) = np.random.SeedSequence(3, spawn_key=path[1:]).generate_state(1, np.uint64)
    assert seed_of(path) == word // 2**11 < 2**53
    assert int(float(seed_of(path))) == seed_of(path)


def test_seeds_look_independent() -> None:
    """Neighbouring instances: mean 1/2 and no correlation, within five standard deviations."""
    draws = [
        np.random.default_rng(
            seed_of(
                seed_path(0, {"model": "argmax", "n_classes": 3, "prior": "gaussian"}, 1.0, 100, i)
            )
        ).random()
        for i in range(2000)
    ]
    centred = (np.array(draws) - 0.5) * np.sqrt(12)
    assert abs(centred.mean()) < 5 / np.sqrt(2000)
    assert abs((centred[1:] * centred[:-1]).mean()) < 5 / np.sqrt(2000)


def test_keys_never_change() -> None:
    """Stores of users hold these keys: a change would compute everything again."""
    small = parse_spec(fakes.SPEC.format(instances=1))
    assert [task.keys[0] for task in expand(small)] == [
        "2706eba10e951292b7ffc7fc4f3053a3",
        "880b34b36bab27cfd7069ce515e7c355",
        "a88d1e00fbda48c84d4d1dc88cdb0b91",
        "89f6af30cfcf199f8ecbdf9ecf1bba1b",
    ]


def test_the_plan_counts() -> None:
    plan = make_plan(spec())
    assert (plan.rows, plan.stored, plan.to_do) == (len(keys(spec())), 0, len(keys(spec())))
    assert plan.tasks_to_do == sum(1 for _ in expand(spec()))
    assert plan.largest_bytes == 8 * 60 * 20
    assert make_plan(theory(3)).largest_bytes == 0


def test_a_row_that_two_grids_ask_for_counts_once() -> None:
    twice = FULL.format(**DEFAULT) + "[[grid]]" + FULL.format(**DEFAULT).split("[[grid]]")[1]
    assert make_plan(parse_spec(twice)).rows == make_plan(spec()).rows


@pytest.mark.parametrize(
    "change",
    [
        {"instances": 1_000_000},  # 10^8 rows
        {"alpha": [0.1 * i for i in range(1, 1001)], "instances": 10**5},  # 10^9 tasks and more
        {"instances": 2**53},
        {"ridge": [1e-3 * i for i in range(1, 1001)], "dimension": list(range(10, 1010))},
    ],
)
def test_a_grid_beyond_reason_is_refused_at_once(change: dict[str, object]) -> None:
    start = time.process_time()
    with pytest.raises(InvalidInput, match=r"combinations; it may have up to 50,000,000"):
        spec(**change)
    assert time.process_time() - start < 1.0


def theory(points: int) -> SweepSpec:
    return parse_spec(f'[[grid]]\nsources = "theory"\nalpha = "0.1:5:{points}"\n')


@pytest.mark.slow
def test_a_grid_is_planned_in_linear_time() -> None:
    """10,000 alphas against 1,000: ten times the rows, about ten times the time."""
    seconds = {}
    for points in (1_000, 10_000, 1_000):
        start = time.process_time()
        assert make_plan(theory(points)).rows == points
        seconds[points] = time.process_time() - start
    assert seconds[10_000] < 30 * seconds[1_000]  # a quadratic plan: 100 times


def test_planning_looks_up_its_own_rows_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never all rows of the store: `if store` would, through its length, for every 64 tasks."""

    def refuse(*_: object) -> None:
        raise AssertionError("the whole store was read")

    for name in ("records", "__len__"):
        monkeypatch.setattr(Store, name, refuse)
    small = parse_spec(fakes.SPEC.format(instances=100))
    with Store(tmp_path / "runs.sqlite", create=True) as store:
        for task in expand(parse_spec(fakes.SPEC.format(instances=2))):
            store.add(attempt(fakes.draw, task))
        plan = make_plan(small, store)
    assert (plan.rows, plan.stored) == (404, 12)


def test_repeated_values_are_found_in_linear_time() -> None:
    alphas = [0.1 + 1e-4 * i for i in range(50_000)]
    text = '[[grid]]\nsources = "theory"\nalpha = {}\n'
    start = time.process_time()
    assert len(parse_spec(text.format(alphas)).grid[0].alpha) == 50_000
    with pytest.raises(InvalidInput, match=r"repeated: 0\.1, got"):
        parse_spec(text.format([*alphas, 0.1]))
    assert time.process_time() - start < 5.0  # 2.5e9 comparisons take a minute


@pytest.mark.parametrize("first", [10**8, 10**12])
def test_the_number_of_the_first_instance_costs_nothing(first: int) -> None:
    """Also beside a grid that starts at 0, and the order is still by instance."""
    near = '[[grid]]\nsources = "amp"\nalpha = [1]\ndimension = [10]\ninstances = 2\n'
    far = near + f"first_instance = {first}\n"
    start = time.process_time()
    both = parse_spec(far + near)
    assert make_plan(both).rows == 4
    listed = [task.cases[0]["seed_path"][-1] for task in expand(both)]
    assert listed == [0, 1, first, first + 1]
    assert len({seed_of(task.cases[0]["seed_path"]) for task in expand(both)}) == 4
    only_theory = parse_spec(
        f'[[grid]]\nsources = "theory"\nalpha = [1]\ninstances = 1000000000\n'
        f"first_instance = {first}\n"
    )
    assert make_plan(only_theory).rows == 1
    assert time.process_time() - start < 1.0


def test_instances_come_outermost_also_across_grids() -> None:
    text = '[[grid]]\nsources = "amp"\nalpha = [{}]\ndimension = [10]\n{}'
    grids = text.format("1, 2", "instances = 2\n") + text.format(
        3, "instances = 3\nfirst_instance = 1\n"
    )
    listed = [(t.cases[0]["seed_path"][-1], t.cases[0]["alpha"]) for t in expand(parse_spec(grids))]
    assert listed == [(0, 1), (0, 2), (1, 1), (1, 2), (1, 3), (2, 3), (3, 3)]


def test_theory_beside_message_passing_is_of_its_branch() -> None:
    def branches(lines: str) -> set[str]:
        base = "[[grid]]\nalpha = [1]\ndimension = [10]\n"
        found = expand(parse_spec(base + lines))
        return {t.cases[0]["branch"] for t in found if t.cases[0]["source"] == "theory"}

    assert branches('sources = "theory"') == {"optimal"}
    assert branches('sources = ["theory", "amp"]') == {"amp"}
    assert branches('sources = ["theory", "amp"]\nstart = "informed"') == {"informed"}
    both = 'sources = ["theory", "amp"]\nstart = ["uninformed", "informed"]'
    assert branches(both) == {"amp", "informed"}
    assert branches('sources = ["theory", "amp"]\nbranch = "optimal"') == {"optimal"}
    assert len(keys(parse_spec("[[grid]]\nalpha = [1]\ndimension = [10]\n" + both))) == 4


def test_the_size_of_a_grid_is_known_from_its_lists() -> None:
    one_start = FULL.format(**DEFAULT).replace('"uninformed", "informed"]', '"uninformed"]')
    for text in (FULL.format(**DEFAULT), one_start, fakes.SPEC.format(instances=7)):
        whole = parse_spec(text)
        (grid,) = whole.grid
        listed = list(expand(whole))
        assert grid_size(whole, grid) == (sum(len(t.cases) for t in listed), len(listed))


def test_work_begins_before_the_grid_was_looked_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instant: None
) -> None:
    """20,000 rows: the first results are stored while most of the grid is still to be seen."""
    told: list[tuple[int, int]] = []

    def listen(now: Progress) -> None:
        told.append((now.computed, now.rows))
        if now.computed >= 10:
            raise KeyboardInterrupt

    seen = 0
    look = SweepWalk.look

    def counted(walk: SweepWalk) -> list[Task]:
        nonlocal seen
        seen += 1
        return look(walk)

    monkeypatch.setattr(SweepWalk, "look", counted)
    large = parse_spec(fakes.SPEC.format(instances=5_000))
    with pytest.raises(KeyboardInterrupt):
        run_sweep(large, tmp_path / "runs.sqlite", runner=fakes.draw, progress=listen)
    assert told[0] == (0, 20_004)  # the size is known from the first
    assert seen < 30  # of 157 batches


def test_planning_tells_how_far_it_is() -> None:
    told: list[float] = []
    token = _share_of_this_code.set(Share(told.append))
    try:
        make_plan(theory(4_000))
    finally:
        _share_of_this_code.reset(token)
    assert len(told) == 8  # 500 tasks in batches of 64
    assert told == sorted(told)
    assert told[-1] == pytest.approx(1)
