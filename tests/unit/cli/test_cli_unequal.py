"""Classes that are not alike, at the shell and in sweep files."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import polyceptron as pc
from polyceptron.cli import app
from polyceptron.errors import InvalidInput
from polyceptron.lab.spec import parse_spec
from polyceptron.lab.tasks import expand

SWEEP = """
[population]
model = "mixture"
shares = [0.8, 0.2]
separation = 2.0
[[grid]]
sources = ["theory", "erm"]
estimators = "cross-entropy"
ridge = [0.1]
intercept = true
class_weight = ["none", "balanced"]
alpha = [1.0, 3.0]
dimension = [100]
"""


def run(*words: str) -> str:
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_mixture_is_that_of_python() -> None:
    asked = ("--mixture", "--separation", "2", "--shares", ".9,.1", "--intercept", "-a", "3")
    (row,) = json.loads(run("curve", *asked, "--class-weight", "1:5", "--json"))
    there = pc.Mixture(shares=(0.9, 0.1), separation=2.0)
    point = pc.erm_fixed_point(there, pc.ERM(intercept=True, class_weight={1: 5}), 3.0)
    assert row["generalisation_error"] == point.generalisation_error
    assert row["balanced_error"] == point.balanced_error
    assert [float(x) for x in row["recall"].split(",")] == point.recall.tolist()
    assert (row["class_weight"], row["intercept"]) == ("1:5.0", True)


def test_ridges_and_separability_of_a_mixture() -> None:
    there = ("--mixture", "--separation", "2", "--shares", ".9,.1", "--intercept")
    mixture = pc.Mixture(shares=(0.9, 0.1), separation=2.0)
    (found,) = json.loads(run("separability", *there, "--json"))
    assert found["alpha_s"] == pc.separability(mixture, intercept=True).alpha_s
    asked = ("--class-weight", "balanced", "-a", "3", "--ridge", "0.1,1", "--json")
    rows = json.loads(run("ridge", *there, *asked, "--target", "balanced-error"))
    (best,) = [row for row in rows if row["is_best"]]
    assert len(rows) == 3
    assert all(row["balanced_error"] >= best["balanced_error"] for row in rows)
    student = pc.ERM("cross-entropy", 1.0, intercept=True, class_weight="balanced")
    (one,) = [row for row in rows if row["ridge"] == 1]
    point = pc.erm_fixed_point(mixture, student, 3.0)
    assert one["balanced_error"] == pytest.approx(point.balanced_error, abs=1e-7)
    assert (one["class_weight"], one["intercept"]) == ("balanced", True)


def test_a_plan_of_a_mixture_is_that_of_python() -> None:
    there = ("plan", "--mixture", "--separation", "2", "--shares", ".9,.1", "--json")
    rows = json.loads(run(*there, "--intercept", "--error", "0.12", "-d", "50", "-e", "square"))
    mixture, student = (
        pc.Mixture(shares=(0.9, 0.1), separation=2.0),
        pc.ERM("square", intercept=True),
    )
    found = pc.plan(mixture, 0.12, student, dimension=50)
    assert [(row["alpha"], row["n_samples"]) for row in rows] == [(found.alpha, found.n_samples)]
    asked = ("-n", "50", "-d", "50", "-e", "bayes", "-e", "class-means", "--json")
    rows = json.loads(run("plan", "--shares", ".6,.4", *asked))
    status = {row["estimator"]: row["status"] for row in rows}
    assert (status["bayes"], status["class-means"]) == ("ok", "no theory")


def test_shares_count_the_classes_and_weights_stand_in_the_title() -> None:
    text = run("curve", "--shares", ".7,.3", "--class-weight", "balanced", "-a", "2")
    assert "k = 2" in text
    assert "class weight balanced" in " ".join(text.split())
    assert "balanced error" in text


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--shares", ".6,.3,.2"), "sum to 1"),
        (("--separation", "2"), "--separation needs --mixture"),
        (("--mixture", "--separation", "2", "--noise", "flips:0.1"), "no teacher"),
        (("--mixture",), "gram, separation"),
        (("--shares", ".9,.1", "--class-weight", "0,1"), "positive"),
        (("-e", "bayes", "--intercept"), "no empirical risk"),
        (("--shares", "a,b"), "finite numbers, one for each class, got 'a,b'"),
        (("--gram", "1,2;3"), "must be rows of finite numbers, got '1,2;3'"),
        (("--class-weight", "heavy"), "got 'heavy'"),
    ],
)
def test_what_makes_no_sense_is_one_message(words: tuple[str, ...], told: str) -> None:
    done = CliRunner().invoke(app, ["curve", *words, "-a", "1"])
    assert isinstance(done.exception, InvalidInput)
    assert told in str(done.exception)


def test_a_sweep_of_a_population_makes_it_again_from_every_task() -> None:
    tasks = list(expand(parse_spec(SWEEP)))
    contents = [content for task in tasks for content in task.cases]
    assert {c["shares"] for c in contents} == {"0.8,0.2"}
    assert {c.get("class_weight") for c in contents} == {None, "balanced"}
    assert all(c["intercept"] for c in contents)
    paths = [tuple(c["seed_path"]) for c in contents if c["source"] == "erm"]
    assert len(set(paths)) == 2  # of the two α: both weights see the same data


def test_theory_rows_of_a_sweep(tmp_path: Path, instant: None) -> None:
    text = SWEEP.replace(', "erm"', "").replace("dimension = [100]", "")
    report = pc.run_sweep(parse_spec(text), tmp_path / "store.sqlite", workers=1)
    assert (report.computed, report.failed) == (4, 0)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("alpha = [1.0, 3.0]", "alpha = [1.0]\nclasses = [2]"), "stand in [population]"),
        (("[0.8, 0.2]", "[0.8, 0.3]"), "sum to 1"),
        (('"balanced"]', '"heavy"]'), "class weights are"),
    ],
)
def test_mistakes_of_a_sweep_are_named(change: tuple[str, str], told: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(told)):
        parse_spec(SWEEP.replace(*change))


def test_a_mixture_takes_no_biases() -> None:
    asked = ["curve", "--mixture", "--shares", "0.5,0.5", "--biases", "1,2", "-a", "2"]
    with pytest.raises(pc.InvalidInput, match="'mixture' takes no biases"):
        CliRunner().invoke(app, asked, catch_exceptions=False)
