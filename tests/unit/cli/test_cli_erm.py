"""The commands ridge, asymptotics and plan."""

import json
import math

import pytest
from scipy.special import ndtr
from typer.testing import CliRunner

from polyceptron.cli import app
from polyceptron.cli.output import Output
from polyceptron.errors import InvalidInput
from polyceptron.questions.drawn_curve import bends

run = CliRunner().invoke


def rows(*arguments):
    result = run(app, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_ridge_marks_the_optimum():
    found = rows("ridge", "-k", "2", "--alpha", "2,5", "--ridge", "1e-3:1:4")
    assert len(found) == 10
    for alpha in (2.0, 5.0):
        errors = {
            row["ridge"]: row["generalisation_error"] for row in found if row["alpha"] == alpha
        }
        (best,) = [row for row in found if row["alpha"] == alpha and row["is_best"]]
        assert best["generalisation_error"] == min(errors.values())


@pytest.mark.parametrize(
    ("target", "column"), [("test-loss", "test_loss"), ("calibration", "calibration_error")]
)
def test_ridge_marks_the_optimum_of_another_target(target, column):
    problem = ("--noise", "softmax:2", "--alpha", "2", "--ridge", "0.05:5:5")
    found = rows("ridge", "-k", "2", *problem, "--target", target)
    (best,) = [row for row in found if row["is_best"]]
    assert best[column] == min(row[column] for row in found)


def test_ridges_of_rules_that_minimise_no_loss_and_a_line_without_corners(monkeypatch, tmp_path):
    found, drawn, draw, picture = {}, [], Output.draw_ridges, tmp_path / "ridge.svg"
    for name in ("lda", "square"):  # which are one rule where classes are alike
        found[name] = rows("ridge", "-a", "2", "-e", name, "--ridge", "0.1,1")
    lda, square = ([row["generalisation_error"] for row in found[n]] for n in ("lda", "square"))
    assert lda == pytest.approx(square, abs=1e-9)
    monkeypatch.setattr(
        Output, "draw_ridges", lambda output, rows: draw(output, rows) or drawn.extend(rows)
    )
    options = ("--ridge", "0,0.1,1", "--plot", str(picture))
    plotted = rows("ridge", "-a", "2", "-e", "square", *options)
    assert picture.stat().st_size > 1000
    assert plotted[1:] == found["square"]
    assert plotted[0]["ridge"] == 0
    assert len(drawn) > len(plotted) + 5
    assert bends([row for row in drawn if row["ridge"] > 0], log=True, x="ridge") == []


def test_a_penalty_that_is_a_ridge_has_one_row():
    assert (
        len(
            rows(
                "curve",
                "-k",
                "2",
                "-a",
                "1",
                "-e",
                "square",
                "--ridge",
                "0.1,1",
                "--penalty",
                "ridge:0.1",
            )
        )
        == 2
    )


def test_ridge_table_and_csv(tmp_path):
    target = tmp_path / "rows.csv"
    result = run(
        app, ["ridge", "-k", "2", "--alpha", "2", "--ridge", "0.1,1", "--csv", str(target)]
    )
    assert result.exit_code == 0
    assert target.read_text().count("\n") == 4
    table = run(app, ["ridge", "-k", "2", "--alpha", "2", "--ridge", "0.1,1"])
    assert "*" in table.stdout


def test_asymptotics():
    (row,) = rows("asymptotics", "-k", "2", "--estimator", "cross-entropy", "--ridge", "1")
    assert abs(row["exponent"] - 2 / 3) < row["exponent_uncertainty"]
    assert row["constant_uncertainty"] < 1e-3
    assert len(row["alpha"]) == len(row["generalisation_error"])
    table = run(app, ["asymptotics", "-k", "2", "--estimator", "square", "--ridge", "1"])
    assert table.exit_code == 0
    assert "exponent" in table.stdout
    (row,) = rows("asymptotics", "--mixture", "--shares", ".9,.1", "--separation", "2")
    # The best line between N(±1, 1) with shares .9 and .1 lies ln 9 / 2 beside the middle.
    shift = math.log(9) / 2
    floor = 0.9 * ndtr(-1 - shift) + 0.1 * ndtr(-1 + shift)
    assert row["floor"] == pytest.approx(floor, abs=1e-7)


def test_plan_for_all_estimators():
    found = rows("plan", "-k", "2", "--error", "0.1", "--dimension", "1000")
    assert [row["estimator"] for row in found] == ["bayes", "cross-entropy", "square", "max-margin"]
    assert all(row["n_samples"] >= 1000 * row["alpha"] for row in found)
    assert "ridge" in found[1]
    assert "ridge" not in found[0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["ridge", "--alpha", "2", "--estimator", "max-margin"], "takes no ridge"),
        (["ridge", "--alpha", "2", "--ridge", "-1,1"], "number of 0 or more"),
        (["ridge", "--alpha", "-2", "--ridge", "1"], "alpha must be"),
        (["ridge", "--alpha", "2", "--estimator", "ramp"], "unknown"),
        (
            ["ridge", "--alpha", "2", "--ridge", "1", "--csv", "no/such/folder/x.csv"],
            "does not exist",
        ),
        (["asymptotics", "--estimator", "max-margin", "--ridge", "1"], "takes no ridge"),
        (["asymptotics", "--ridge", "small"], "--ridge takes numbers"),
        (["asymptotics", "--estimator", "bayes", "--prior", "rademacher"], "no exponent"),
        (["plan", "--error", "0.9"], "target error must lie between 0 and 0.6667"),
        (["plan", "--error", "0.1", "--estimator", "max-margin", "--ridge", "1"], "takes no ridge"),
        (["plan", "-k", "2", "--error", "1e-7", "--estimator", "square"], "out of reach"),
        (["plan", "--error", "0.1", "--dimension", "0"], "dimension must be"),
    ],
)
def test_bad_input_is_one_sentence(arguments, words):
    result = run(app, arguments)
    assert isinstance(result.exception, InvalidInput)
    assert words in str(result.exception)
    assert "\n" not in str(result.exception)
