"""One instance as a row: what it holds, and that it can be drawn again."""

from __future__ import annotations

import numpy as np
import pytest

import polyceptron as pc
from polyceptron.lab.data_runs import amp_rows, trace_rows
from polyceptron.message_passing.posterior_mean import amp
from polyceptron.rows import COLUMNS
from polyceptron.students.bayes import run_amp
from polyceptron.students.measuring import draw_single
from polyceptron.students.seeds import seed_of


def test_a_row_and_the_same_row_again() -> None:
    teacher = pc.Teacher(3)
    row, _ = run_amp(teacher, 1.5, 120, 11)
    assert set(row) <= set(COLUMNS)
    assert row == run_amp(teacher, 1.5, 120, 11)[0]
    assert (row["source"], row["estimator"], row["branch"]) == ("amp", "bayes", "amp")
    data = teacher.sample(row["n_samples"], row["dimension"], row["seed"])
    weights = amp(data.X, data.y).weights
    new = np.random.default_rng(0).standard_normal((40_000, 120))
    wrong = np.mean((new @ weights).argmax(1) != (new @ data.weights).argmax(1))
    assert wrong == pytest.approx(row["generalisation_error"], abs=0.01)
    assert row["training_error"] == np.mean((data.X @ weights).argmax(1) != data.y)


def test_seeds_and_precisions() -> None:
    teacher = pc.Perceptron("gaussian")
    row = amp_rows(teacher, 2.0, 100, runs=3, seed=3, variances="full")[2]
    assert row["seed"] == seed_of([3, 2])
    assert row == run_amp(teacher, 2.0, 100, row["seed"], variances="full")[0]
    single, _ = run_amp(teacher, 2.0, 100, row["seed"], dtype="float32", variances="full")
    assert single["q"] == pytest.approx(row["q"], rel=1e-3)
    assert row["V"] == pytest.approx(1 - row["q"], abs=0.15)


@pytest.mark.parametrize("teacher", [pc.Teacher(3, "rademacher"), pc.Perceptron("gaussian")])
def test_single_precision_data_are_the_same_data(
    teacher: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("polyceptron.students.measuring._BLOCK_NUMBERS", 100)
    single, double = draw_single(teacher, 35, 20, 6), teacher.sample(35, 20, 6)
    np.testing.assert_array_equal(single.X, double.X.astype(np.float32))
    np.testing.assert_array_equal(single.y, double.y)
    np.testing.assert_array_equal(single.weights, double.weights)


def test_runs_do_not_depend_on_how_many_there_are() -> None:
    teacher = pc.Teacher(2)
    settings = {"seed": 5, "tol": 1e-6}
    few = amp_rows(teacher, 1.0, 60, runs=2, **settings)
    many = amp_rows(teacher, 1.0, 60, runs=3, **settings)
    assert few[:2] == many[:2]
    assert [row["source"] for row in many] == ["amp"] * 3 + ["amp-summary", "theory"]


def test_the_summary_is_a_mean_with_its_standard_error() -> None:
    *rows, summary, theory = amp_rows(pc.Teacher(2), 1.0, 60, runs=3, seed=5, max_iter=12)
    m = np.array([row["m"] for row in rows])
    assert summary["m"] == pytest.approx(m.mean())
    assert summary["m_standard_error"] == pytest.approx(m.std(ddof=1) / np.sqrt(3))
    assert summary["instances"] == 3
    assert summary["not_converged"] == sum(row["status"] != "ok" for row in rows)
    assert summary["theory_q"] == theory["q"]
    (_, alone, _) = amp_rows(pc.Teacher(2), 1.0, 60, runs=1, seed=5, max_iter=12)
    assert "generalisation_error_standard_error" not in alone


def test_the_trace_begins_at_the_start_and_keeps_the_last_value() -> None:
    rows = trace_rows(pc.Teacher(3), 1.5, 80, runs=2, seed=0, tol=1e-3)
    assert rows[0]["q"] == rows[0]["theory_q"] == 0
    assert [row["iteration"] for row in rows] == list(range(len(rows)))
    assert rows[1]["theory_q"] == pytest.approx(pc.state_evolution(pc.Teacher(3), 1.5, 1).q[1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"alpha": 0.0}, "alpha"),
        ({"alpha": float("nan")}, "alpha"),
        ({"alpha": 0.001}, "no sample"),
        ({"dimension": 0}, "dimension"),
        ({"seed": -1}, "seed"),
        ({"dtype": "float16"}, "precision"),
        ({"variances": "no"}, "variances"),
    ],
)
def test_wrong_requests(change: dict[str, object], message: str) -> None:
    request = {"alpha": 1.0, "dimension": 20, "seed": 0, **change}
    with pytest.raises(pc.InvalidInput, match=message):
        run_amp(pc.Teacher(3), **request)


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_classes_that_are_not_alike_are_refused(precision: str) -> None:
    """Its error and its theory are those of equal classes: a row would be wrong and say ok."""
    for teacher in (pc.Teacher(3, shares=(0.7, 0.2, 0.1)), pc.Mixture((0.5, 0.5), separation=2)):
        with pytest.raises(pc.InvalidInput, match="alike"):
            run_amp(teacher, 1.0, 20, 0, dtype=precision)
