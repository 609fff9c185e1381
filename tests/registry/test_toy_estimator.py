"""A new estimator needs one file: registered, it is known to curves, plans, sweeps and pages."""

from __future__ import annotations

import json
import runpy
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.registry import toy_estimator
from tests.registry.harness import fresh_settings
from tests.registry.toy_estimator import Hebb
from typer.testing import CliRunner

import polyceptron as pc
from polyceptron.cli import app
from polyceptron.lab.spec import parse_spec
from polyceptron.lab.tasks import attempt, compute_rows, expand
from polyceptron.problem import ESTIMATORS, make_estimator
from polyceptron.store import Store

SWEEP = """
[[grid]]
classes = [3]
sources = ["theory", "erm"]
estimators = ["toy-hebb", "square"]
ridge = [1.0]
alpha = [2.0]
dimension = [200]
instances = 4
"""


@pytest.fixture(autouse=True)
def toy() -> Iterator[None]:
    toy_estimator.register()
    yield
    toy_estimator.unregister()


def test_its_theory_is_the_limit_of_a_large_ridge() -> None:
    """At λ → ∞ the square loss has the weights of Hebb's rule, up to their scale."""
    for k, noise in ((2, "none"), (3, "flips:0.1"), (5, "gaussian:0.3")):
        teacher = pc.Teacher(k, noise=noise)
        (row,) = Hebb().rows(teacher, [2.0])
        far = pc.erm_fixed_point(teacher, pc.ERM("square", 1e7), 2.0).generalisation_error
        assert row["generalisation_error"] == pytest.approx(far, abs=1e-6)


def test_curves_and_tables_take_it_by_name() -> None:
    found = pc.learning_curve(pc.Teacher(3), ["toy-hebb", "bayes"], [1.0, 2.0]).frame
    assert list(found.estimator) == ["toy-hebb"] * 2 + ["bayes"] * 2
    assert make_estimator(found.estimator[0]) == Hebb()
    drawn = pc.learning_curve(pc.Teacher(3), Hebb(), [1.0, 2.0]).plot()
    assert drawn.get_lines()


def test_plans_and_tails_take_it() -> None:
    found = pc.plan(pc.Teacher(3), 0.3, "toy-hebb")
    (row,) = Hebb().rows(pc.Teacher(3), [found.alpha])
    assert row["generalisation_error"] == pytest.approx(0.3, abs=1e-4)
    tail = pc.asymptotics(pc.Teacher(3), Hebb())
    assert tail.exponent == pytest.approx(0.5, abs=1e-3)
    own = pc.calibration(pc.Teacher(3, noise="softmax:3"), Hebb(), 2.0)
    assert not own.own_probabilities
    assert own.test_loss > 0


def test_the_shell_knows_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "toy-hebb" in CliRunner().invoke(app, ["curve", "--help"], env={"COLUMNS": "80"}).stdout
    plan = CliRunner().invoke(app, ["plan", "-k", "2", "--error", "0.25", "--json"])
    rows = json.loads(plan.stdout)
    assert "toy-hebb" in {row["estimator"] for row in rows}
    # The shell of a program that registers its estimator before it calls ours.
    toy_estimator.unregister()
    asked = ("curve", "-k", "3", "-a", "2", "-e", "toy-hebb", "--json")
    monkeypatch.setattr("sys.argv", ["own-polyceptron", *asked])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(toy_estimator.__file__, run_name="__main__")
    assert not end.value.code
    (row,) = json.loads(capsys.readouterr().out)
    assert row["estimator"] == "toy-hebb"


def test_rows_of_a_sweep_follow_its_theory_and_a_plot_draws_it(tmp_path: Path) -> None:
    """That a worker process knows it is in test_toy_members."""
    store = tmp_path / "runs.sqlite"
    with Store(store, create=True) as opened:
        for task in expand(parse_spec(SWEEP)):
            opened.add(attempt(compute_rows, task))
        table = opened.frame()
    assert list(table.status) == ["ok"] * 10, table.get("reason")
    own = table[table.estimator == "toy-hebb"]
    theory = own[own.source == "theory"].generalisation_error.iloc[0]
    drawn = own[own.source == "erm"].generalisation_error
    assert abs(drawn.mean() - theory) < 4 * drawn.std() / np.sqrt(len(drawn)) + 0.01
    drawn = pc.LearningCurve.read(store).plot()
    assert any("Hebb's rule" in text.get_text() for text in drawn.get_legend().get_texts())


def test_the_explorer_lists_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "toy-hebb" in str(fresh_settings(monkeypatch))


def test_it_is_forgotten_afterwards() -> None:
    toy_estimator.unregister()
    assert "toy-hebb" not in ESTIMATORS.names
    with pytest.raises(pc.InvalidInput, match="unknown estimator"):
        make_estimator("toy-hebb")
