"""The command `amp`: rows, summary and theory in every format, and sentences for wrong input."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from polyceptron.cli import app
from polyceptron.errors import InvalidInput

SMALL = ["amp", "--classes", "3", "--alpha", "1.5", "--dimension", "80", "--tol", "1e-6"]


def call(*arguments: str) -> str:
    result = CliRunner().invoke(app, [*SMALL, *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def test_json_rows_then_a_summary_then_theory() -> None:
    rows = json.loads(call("--runs", "3", "--seed", "1", "--json"))
    assert [row["source"] for row in rows] == ["amp", "amp", "amp", "amp-summary", "theory"]
    runs, summary, theory = rows[:3], rows[3], rows[4]
    assert len({row["seed"] for row in runs}) == 3
    mean = sum(row["generalisation_error"] for row in runs) / 3
    assert summary["generalisation_error"] == pytest.approx(mean)
    assert summary["generalisation_error_standard_error"] > 0
    assert summary["theory_generalisation_error"] == theory["generalisation_error"]
    assert abs(mean - theory["generalisation_error"]) < 0.1


def test_the_same_seed_gives_the_same_rows_and_another_does_not() -> None:
    first, again, other = (call("--seed", s, "--json") for s in ("4", "4", "5"))
    assert first == again != other


def test_csv_has_every_row(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    call("--runs", "2", "--amp-variances", "full", "--csv", str(path))
    frame = pd.read_csv(path)
    assert list(frame.source) == ["amp", "amp", "amp-summary", "theory"]
    assert frame.q.notna().all()
    seeds = pd.read_csv(path, dtype=str).seed  # whole numbers, as `sample` takes them
    assert [int(seed) for seed in seeds.dropna()] == frame.seed.dropna().tolist()


def test_trace_beside_state_evolution(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    text = call("--prior", "rademacher", "--trace")
    assert "theory" in text
    rows = json.loads(call("--prior", "rademacher", "--trace", "--json", "--csv", str(path)))
    assert rows[0]["iteration"] == 0
    assert rows[0]["theory_q"] == 0
    assert {"m", "q", "generalisation_error", "theory_generalisation_error"} <= set(rows[1])
    assert len(pd.read_csv(path)) == len(rows)


def test_the_table_fits_a_terminal() -> None:
    for arguments in (["--runs", "2"], ["--trace"]):
        assert "…" not in call(*arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--classes", "1"], "classes"),
        (["--alpha", "x"], "alpha"),
        (["--alpha", "-1"], "alpha"),
        (["--dimension", "0"], "dimension"),
        (["--runs", "0"], "runs"),
        (["--prior", "cauchy"], "unknown prior"),
        (["--amp-variances", "none"], "variances"),
        (["--start", "warm"], "start"),
        (["--precision", "half"], "precision"),
        (["--model", "forest"], "unknown model"),
        (["--csv", "/no/such/folder/x.csv"], "does not exist"),
        (["--trace", "--alpha", "1,2"], "one value of --alpha"),
    ],
)
def test_wrong_input_is_one_sentence(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(app, [*SMALL, *arguments])
    assert isinstance(result.exception, InvalidInput)
    assert message in str(result.exception)
