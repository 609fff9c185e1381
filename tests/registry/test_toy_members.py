"""A new loss and a new prior need one file: registered, they are known everywhere."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.registry import toy_estimator, toy_members
from tests.registry.harness import check_loss_member, check_prior, fresh_settings
from tests.registry.toy_members import ToyLoss, ToyPrior
from typer.testing import CliRunner

import polyceptron as pc
from polyceptron.cli import app
from polyceptron.lab.spec import parse_spec
from polyceptron.lab.sweep import run_sweep
from polyceptron.lab.tasks import expand
from polyceptron.problem import LOSSES, PRIORS, as_prior
from polyceptron.store import Store

pytestmark = [pytest.mark.process, pytest.mark.slow]

SOURCE = Path(pc.__file__).parent


@pytest.fixture(autouse=True)
def toys() -> Iterator[None]:
    toy_members.register()
    yield
    toy_members.unregister()


def test_they_pass_the_harness() -> None:
    check_loss_member(ToyLoss(), 3)
    check_prior(ToyPrior())


def test_help_lists_them() -> None:
    shown = CliRunner().invoke(app, ["curve", "--help"], env={"COLUMNS": "80"}).stdout
    assert "toy-loss" in shown
    assert "toy-prior" in shown
    assert "finite[value:probability;...]" in shown  # brackets are not taken for markup


def test_the_shell_computes_with_them() -> None:
    asked = ("curve", "-k", "2", "-a", "1.5", "-e", "toy-loss", "--ridge", "0.1", "--tol", "1e-3")
    (row,) = json.loads(CliRunner().invoke(app, [*asked, "--json"]).stdout)
    assert (row["estimator"], row["status"]) == ("toy-loss", "ok")
    assert 0 < row["generalisation_error"] < 0.5


def test_theory_and_data_agree_on_them() -> None:
    """Message passing with the prior and a fit of the loss, at d = 400, against the theory."""
    teacher = pc.Teacher(2, prior=as_prior("toy-prior"))
    data = teacher.sample(n_samples=800, dimension=400, seed=0)
    best = pc.learning_curve(teacher, pc.BayesOptimal(), [2.0], tol=1e-3).frame
    assert best.prior[0] == "toy-prior"
    found = pc.amp(data.X, data.y, prior="toy-prior", tol=1e-3)
    fit = pc.fit_erm(data.X, data.y, "toy-loss", 0.1)
    risk = pc.learning_curve(teacher, pc.ERM("toy-loss", 0.1), [2.0], tol=1e-3).frame  # type: ignore[arg-type]
    assert risk.estimator[0] == fit.loss == "toy-loss"
    for weights, row in ((found.weights, best), (fit.weights, risk)):
        measured = pc.exact_generalisation_error(weights, data.weights).value
        assert abs(measured - row.generalisation_error[0]) < 0.03


SWEEP = """
[theory]
tolerance = 1e-3
[[grid]]
classes = [2]
prior = ["toy-prior"]
sources = ["theory", "erm", "amp"]
estimators = ["bayes", "toy-loss"]
ridge = [0.1]
alpha = [1.0]
dimension = [30]
"""


def test_a_sweep_takes_them_to_its_workers(tmp_path: Path) -> None:
    """Workers are fresh processes, which have not registered anything; an estimator as well.

    Theory with them is above: here is what they travel for.
    """
    store = tmp_path / "runs.sqlite"
    toy_estimator.register()
    try:
        spec = parse_spec(
            SWEEP.replace('"theory", ', "").replace('"toy-loss"', '"toy-loss", "toy-hebb"')
        )
        report = run_sweep(spec, store, workers=1)
    finally:
        toy_estimator.unregister()
    with Store(store) as opened:
        table = opened.frame()
    assert (report.rows, report.failed) == (3, 0), table.get("reason")
    assert set(table.prior) == {"toy-prior"}
    assert set(table.estimator) == {"bayes", "toy-loss", "toy-hebb"}


def test_a_changed_loss_of_the_same_name_is_another_question() -> None:
    def keys() -> list[str]:
        return [key for task in expand(parse_spec(SWEEP)) for key in task.keys]

    class Hotter(ToyLoss):
        name = "toy-loss"

        def value(self, z: object, y: object) -> object:
            return 1.5 * super().value(z, y)

    before = keys()
    LOSSES.remove("toy-loss")
    LOSSES.add(toy_members.Entry("toy-loss", "changed", Hotter))
    after = keys()
    assert len(set(before) & set(after)) == 2  # the Bayes-optimal rows do not use the loss


def test_the_explorer_lists_them(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = str(fresh_settings(monkeypatch))
    assert "toy-loss" in shown
    assert "toy-prior" in shown


def test_a_member_of_the_package_is_named_in_one_file() -> None:
    """Its own: whatever else shows or reads the name asks the registry."""
    named: dict[str, set[str]] = {name: set() for name in ("laplace", "sparse-gaussian", "flips")}
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if not any(name in text for name in named):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                named.get(node.value, set()).add(path.relative_to(SOURCE).as_posix())
    for files in named.values():
        assert len(files) == 1, named
        assert files.pop().startswith(("problem/priors/", "problem/channels/"))


def test_they_are_forgotten_afterwards() -> None:
    toy_members.unregister()
    assert "toy-loss" not in LOSSES.names
    assert "toy-prior" not in PRIORS.names
    with pytest.raises(pc.InvalidInput, match="one of the estimators"):
        parse_spec('[[grid]]\nsources = "theory"\nalpha = 1\nestimators = "toy-loss"\nridge = 1\n')
