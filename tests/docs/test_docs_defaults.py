"""docs/reference.md: one default for each word, in Python, at the shell, in sweeps, on the page."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import polyceptron as pc
from polyceptron.cli import app
from polyceptron.cli.inputs import build_estimators, read_population
from polyceptron.cli.theory_commands import default_estimator
from polyceptron.lab.spec import SweepGrid, parse_spec
from polyceptron.lab.tasks import grid_strengths
from polyceptron.problem import make_teacher, plain_estimators

PAGE = (Path(__file__).parents[2] / "docs" / "reference.md").read_text(encoding="utf-8")
TABLE = {
    row[1].strip("` ").split("`")[0]: row
    for row in (line.split("|")[1:-1] for line in PAGE.splitlines() if line.startswith("| "))
}
COMMANDS = get_command(app).commands  # type: ignore[attr-defined]


def default(word: str) -> str:
    """The first word in code of the last column."""
    found = re.search(r"`([^`]+)`", TABLE[word][-1])
    assert found, word
    return found[1]


def test_python_the_shell_and_sweeps_make_the_same_teacher() -> None:
    grid = parse_spec('[[grid]]\nsources = "theory"\nalpha = 1').grid[0]
    teacher = pc.Teacher()
    assert teacher == read_population()
    assert [teacher.n_classes] == grid.classes == [int(default("n_classes"))]
    for word in ("prior", "noise", "features"):
        assert [getattr(teacher, word).name] == getattr(grid, word) == [default(word)]
    single = parse_spec('[[grid]]\nmodel = "perceptron"\nsources = "theory"\nalpha = 1').grid[0]
    assert pc.Perceptron() == make_teacher("perceptron")
    assert single.classes == [2]
    assert single.prior == [pc.Perceptron().prior.name] == ["rademacher"]
    assert pc.Perceptron() == read_population(model="perceptron")


def test_the_page_of_sweeps_has_the_defaults_of_a_grid() -> None:
    text = (Path(__file__).parents[2] / "docs" / "experiments.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| `(\w+)` \|.*\| ([^|]+) \|$", text, re.M))
    assert set(listed) == set(SweepGrid.model_fields)
    for name, field in SweepGrid.model_fields.items():
        told, own = listed[name], field.default
        if field.is_required():
            assert told == "required"
        elif own and own is not True:
            (word,) = own if isinstance(own, list) else [own]
            assert re.match(rf"`?{word}\b", told), name
    assert f"`{default('ridge')}`" in listed["ridge"]


@pytest.mark.parametrize("name", ["cross-entropy", "square", "max-margin", "bayes"])
def test_a_name_alone_is_one_estimator_everywhere(name: str) -> None:
    (shell,) = build_estimators([name], [])
    (python,) = (one for one in plain_estimators() if one.name == name)
    text = f'[[grid]]\nsources = "theory"\nalpha = 1\nestimators = "{name}"'
    strength = grid_strengths(parse_spec(text).grid[0], name)
    assert shell == python
    if python.takes_ridge:
        assert python.columns["ridge"] == float(default("ridge"))
        assert strength == [{"ridge": float(default("ridge"))}]


def test_fits_and_the_page_have_the_same_ridge() -> None:
    from polyceptron.report.explorer.settings import PageSettings

    ridge = float(default("ridge"))
    for function in (pc.fit_erm, pc.amp_erm):
        assert inspect.signature(function).parameters["ridge"].default == ridge
    assert PageSettings().ridge == ridge
    assert PageSettings().k == pc.Teacher().n_classes


def test_every_command_takes_the_words_and_defaults_of_the_table() -> None:
    """An option of the table, wherever it stands, is spelt so; one with a default has that one."""
    own: dict[str, set[Any]] = {}
    for name, command in COMMANDS.items():
        for parameter in command.params:
            own.setdefault(parameter.opts[0], set()).add((name, str(parameter.default)))
    for row in TABLE.values():
        for flag in re.findall(r"`(--[a-z]+)`", row[2]):
            assert flag in own, flag
    for flag in ("--noise", "--features", "--model"):
        word = flag.strip("-") if flag != "--model" else "Teacher"
        assert {value for _, value in own[flag]} == {default(word)}
    assert {value for _, value in own["--classes"]} == {"None"}  # the model's own
    assert {value for name, value in own["--prior"] if name != "transitions"} == {"None"}
    assert ("transitions", "rademacher") in own["--prior"]
    estimators = dict(own["--estimator"])
    assert estimators["curve"] == "[]"  # that of default_estimator, in both
    assert estimators["asymptotics"] == "None"
    assert default_estimator(pc.Teacher(), asks_for_a_fit=False) == "bayes"
    assert default_estimator(pc.Teacher(), asks_for_a_fit=True) == "cross-entropy"
    assert estimators["ridge"] == estimators["fit"] == "cross-entropy"
    assert inspect.signature(pc.asymptotics).parameters["estimator"].default == "bayes"


def test_lists_of_alpha_have_one_shape(capsys: pytest.CaptureFixture[str]) -> None:
    teacher = pc.Teacher(2)
    several = pc.erm_fixed_point(teacher, "square", [1, 2])
    assert [p.alpha for p in several] == [
        p.alpha for p in pc.fixed_points(teacher, [1, 2], branch="amp")
    ]
    assert several[1].q == pc.erm_fixed_point(teacher, "square", 2).q
    assert pc.optimal_ridge(teacher, "square", [1, 2]) == [
        pc.optimal_ridge(teacher, "square", 1),
        pc.optimal_ridge(teacher, "square", 2),
    ]
    names = [one.row["estimator"] for one in pc.plan(teacher, error=0.25)]
    assert names == [one.name for one in plain_estimators()]
    app(["plan", "-k", "2", "--error", "0.25", "--json"], standalone_mode=False)
    assert [row["estimator"] for row in json.loads(capsys.readouterr().out)] == names
