"""A new estimator needs one file: registered, it is known to curves, plans, sweeps and pages."""

from __future__ import annotations

import json
import subprocess
import sys
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
from polyceptron.experiments.spec import parse_spec
from polyceptron.experiments.store import Store
from polyceptron.experiments.sweep import run_sweep
from polyceptron.model import ESTIMATORS, make_estimator

ROOT = Path(__file__).parents[2]
SOURCE = Path(pc.__file__).parent.parent
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


def own_polyceptron(*arguments: str) -> str:
    """The shell of a program that registers its estimator before it calls ours."""
    result = subprocess.run(
        [sys.executable, str(ROOT / "tests/registry/toy_estimator.py"), *arguments],
        capture_output=True, text=True, check=False, env={"COLUMNS": "80", "PATH": "/usr/bin:/bin",
        "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return result.stdout


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


def test_the_shell_knows_it() -> None:
    assert "toy-hebb" in CliRunner().invoke(app, ["curve", "--help"], env={"COLUMNS": "80"}).stdout
    (row,) = json.loads(own_polyceptron("curve", "-k", "3", "-a", "2", "-e", "toy-hebb", "--json"))
    assert row["estimator"] == "toy-hebb"
    plan = CliRunner().invoke(app, ["plan", "-k", "2", "--error", "0.25", "--json"])
    rows = json.loads(plan.stdout)
    assert "toy-hebb" in {row["estimator"] for row in rows}


@pytest.mark.slow
def test_a_sweep_takes_it_to_its_workers_and_a_plot_draws_it(tmp_path: Path) -> None:
    store = tmp_path / "runs.sqlite"
    report = run_sweep(parse_spec(SWEEP), store, workers=1)
    with Store(store) as opened:
        table = opened.frame()
    assert (report.rows, report.failed) == (10, 0), table.get("reason")
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
