"""Noisy labels and the optimal ridge through simulations, sweeps and tables."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from sweep_fakes import InstantEngine
from tests.fits import run_erm
from typer.testing import CliRunner

import polyceptron as pc
from polyceptron.cli import app
from polyceptron.lab import sweep
from polyceptron.lab.results import summary
from polyceptron.lab.spec import parse_spec
from polyceptron.lab.sweep import run_sweep
from polyceptron.lab.tasks import expand
from polyceptron.problem import CHANNELS, as_channel, make_teacher
from polyceptron.store import Store
from polyceptron.students.bayes import run_amp
from polyceptron.students.measuring import counted_errors, draw_single, exact_errors
from polyceptron.students.seeds import seed_of, seed_path

pytestmark = pytest.mark.slow

NOISES = ("gaussian:0.25", "softmax:2", "flips:0.1")


def test_noiseless_seeds_are_those_of_the_first_release() -> None:
    """Numbers that 0.1.0 gave, where a problem had no noise in its name."""
    assert [
        seed_of(seed_path(3, make_teacher("argmax", 2).columns, 0.5, 10, 1)),
        seed_of(seed_path(7, make_teacher("argmax", 3, "rademacher").columns, 2.0, 1000, 4)),
        seed_of(seed_path(0, make_teacher("perceptron").columns, 1.0, 50, 0)),
    ] == [548464583324829, 5865605487826769, 4682437755461103]


def test_every_noise_has_seeds_and_keys_of_its_own() -> None:
    grid = '[[grid]]\nsources = ["theory", "amp"]\nalpha = [1]\ndimension = [10]\nnoise = {}\n'
    spec = parse_spec(grid.format(json.dumps(["none", *NOISES])))
    tasks = list(expand(spec))
    assert len({task.keys[0] for task in tasks}) == 8
    assert len({tuple(task.cases[0].get("seed_path", ())) for task in tasks}) == 1 + 4
    alone = list(expand(parse_spec(grid.format('"none"'))))
    assert {task.keys for task in alone} <= {task.keys for task in tasks}


@pytest.mark.parametrize("noise", NOISES)
def test_single_precision_draws_the_same_noisy_labels(
    noise: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("polyceptron.students.measuring._BLOCK_NUMBERS", 100)
    teacher = pc.Teacher(3, noise=noise)  # type: ignore[arg-type]
    single, double = draw_single(teacher, 35, 20, 6), teacher.sample(35, 20, 6)
    np.testing.assert_array_equal(single.X, double.X.astype(np.float32))
    np.testing.assert_array_equal(single.y, double.y)
    np.testing.assert_array_equal(double.X, pc.Teacher(3).sample(35, 20, 6).X)


@pytest.mark.parametrize(("k", "noise"), [*product((2, 3), NOISES), (4, "flips:0.1")])
def test_the_error_on_labels_as_drawn_is_what_a_test_set_counts(k: int, noise: str) -> None:
    rng = np.random.default_rng(k)
    truth = rng.standard_normal((12, k))
    weights = truth + rng.standard_normal((12, k))
    teacher = pc.Teacher(k, noise=noise)
    exact = exact_errors(weights, truth, teacher, seed=1)
    counted = counted_errors(weights, truth, teacher, 200_000, seed=2)
    for name in ("generalisation_error", "clean_error"):
        allowed = 1.5 * (counted["uncertainty"] + exact["uncertainty"])
        assert abs(exact[name] - counted[name]) < allowed
    assert exact["generalisation_error"] > exact["clean_error"] + 0.01
    other = counted_errors(weights, truth, pc.Teacher(k, noise="flips:0.3"), 200_000, seed=2)
    gap = abs(other["generalisation_error"] - exact["generalisation_error"])
    assert gap > 4 * counted["uncertainty"]  # another noise would be noticed


def test_without_noise_there_is_no_clean_error() -> None:
    row, _ = run_amp(pc.Teacher(3), 1.5, 40, 1)
    assert row["noise"] == "none"
    assert "clean_error" not in row
    assert "clean_error" not in run_erm(pc.Teacher(3), [pc.ERM("square", 1.0)], 1.5, 40, 1)[0]


def test_test_inputs_are_not_the_noise_of_training_labels() -> None:
    """Both are drawn from children of one seed: they must be different children."""
    noise = as_channel("gaussian:1.0")
    labels = np.random.default_rng(5).spawn(1)[0].standard_normal(8)
    seen: list[np.ndarray] = []

    class Spy:
        noiseless = False

        def sample(self, fields: np.ndarray, rng: np.random.Generator) -> np.ndarray:
            seen.append(fields)
            return noise.sample(fields, rng)

    teacher = pc.Teacher(2)
    object.__setattr__(teacher, "channel", Spy())
    counted_errors(np.eye(2), np.eye(2), teacher, 4, seed=5)
    assert not np.isin(seen[0] * np.sqrt(2), labels).any()


SWEEP = """
[sweep]
seed = 1
[theory]
tolerance = 1e-5
[[grid]]
classes = [3]
noise = ["none", "flips:0.1"]
sources = ["theory", "erm", "amp"]
estimators = ["bayes", "square"]
ridge = [0.5, "optimal"]
alpha = [0.5, 1.5]
dimension = [40]
instances = 3
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("noise") / "runs.sqlite"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sweep, "_make_engine", lambda *given: InstantEngine(given[-1]))
        report = run_sweep(parse_spec(SWEEP), path, workers=1)
    assert report.failed == 0
    return path


def test_a_sweep_with_noise_and_the_optimal_ridge(store: Path) -> None:
    with Store(store) as opened:
        table = opened.frame()
        lines = summary(opened)
    assert set(table.noise) == {"none", "flips:0.1"}
    assert table[table.noise == "none"].clean_error.isna().all()
    assert table[table.noise != "none"].clean_error.notna().all()
    for noise, part in table[(table.source == "erm") & (table.estimator == "square")].groupby(
        "noise"
    ):
        teacher = pc.Teacher(3, noise=str(noise))  # type: ignore[arg-type]
        best = pc.optimal_ridge(teacher, "square", 1.5)
        assert set(part.ridge) == {0.5, best}
    simulated = [line for line in lines if line["source"] != "theory"]
    assert len(simulated) == 2 * 2 * (1 + 2)
    assert all(line["theory"] is not None for line in simulated)
    assert all(line["instances"] == 3 for line in simulated)


SCORES = """
[theory]
scores = true
[erm]
test_samples = 40000
[amp]
test_samples = 40000
[[grid]]
classes = [3]
noise = ["softmax:2"]
sources = ["theory", "erm", "amp"]
estimators = ["bayes", "cross-entropy", "square"]
ridge = [0.5]
alpha = [3]
dimension = [200]
instances = 2
"""


def test_scores_are_measured_on_fresh_samples(tmp_path: Path, instant: None) -> None:
    """Test loss, Brier score and calibration error beside the theory's, and no other noise's."""
    assert run_sweep(parse_spec(SCORES), tmp_path / "runs.sqlite", workers=1).failed == 0
    with Store(tmp_path / "runs.sqlite") as opened:
        table = opened.frame()
        lines = {q: summary(opened, quantity=q) for q in ("test_loss", "brier")}
    for estimator, allowed in (("bayes", 0.02), ("cross-entropy", 0.02)):
        part = table[table.estimator == estimator]
        theory, drawn = part[part.source == "theory"].iloc[0], part[part.source != "theory"]
        for name in ("test_loss", "brier"):
            # 2 runs of 40,000 samples: 1/d and four standard errors are below 2 %
            assert drawn[name].mean() == pytest.approx(theory[name], rel=allowed)
        # bins of 40,000 samples scatter by 0.01 in all
        assert abs(drawn["calibration_error"].mean() - theory["calibration_error"]) < 0.02
    assert table[table.estimator == "square"].test_loss.isna().all()
    assert all(line["theory"] for line in lines["brier"] if line["estimator"] != "square")
    teacher = pc.Teacher(3, noise="softmax:4")  # type: ignore[arg-type]
    other = pc.calibration(teacher, pc.ERM("cross-entropy", 0.5), 3.0)
    measured = table[(table.estimator == "cross-entropy") & (table.source == "erm")].test_loss
    assert abs(measured.mean() - other.test_loss) > 0.1


def test_the_shell_shows_the_noise(store: Path) -> None:
    result = CliRunner().invoke(app, ["results", str(store)], catch_exceptions=False)
    assert "noise flips:0.1" in result.stdout
    assert max(len(line) for line in result.stdout.splitlines() if str(store) not in line) <= 80
    assert "…" not in result.stdout


@pytest.mark.parametrize("entry", CHANNELS.entries, ids=lambda entry: entry.name)
def test_specs_take_every_registered_noise(entry: object) -> None:
    name = entry.make(*entry.example).name  # type: ignore[attr-defined]
    spec = parse_spec(f'[[grid]]\nsources = "theory"\nalpha = [1]\nnoise = "{name}"\n')
    assert spec.grid[0].noise == [name]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ('noise = "gaussian:-1"', r"noise\[1\]: .*from 0 to"),
        ('noise = "flips:0.9"', "leaves no rule among 3 classes"),
        ('noise = "pink"', r"unknown noise 'pink': allowed are none, gaussian:VARIANCE"),
        ('noise = ["none", "none"]', "repeated: none"),
        ('estimators = ["huber"]\nridge = 1', "one of the estimators bayes, cross-entropy"),
        ('estimators = ["square"]\nridge = "best"', "a range takes numbers"),
        ('estimators = ["square"]\nridge = ["best"]', "or 'optimal', got 'best'"),
        ('estimators = ["square"]\nridge = [-1]', "a number of 0 or more"),
        ('estimators = ["square"]\nridge = ["optimal", "optimal"]', "repeated: optimal"),
    ],
)
def test_wrong_lines_have_a_sentence(line: str, sentence: str) -> None:
    with pytest.raises(pc.InvalidInput, match=sentence):
        parse_spec(f'[[grid]]\nsources = "theory"\nalpha = [1]\n{line}\n')
