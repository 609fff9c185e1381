"""Means with theory beside them, tables in files, and the three commands at the shell."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sweep_fakes as fakes
from scipy import stats
from typer.testing import CliRunner

from polyceptron.cli import app
from polyceptron.errors import InvalidInput
from polyceptron.lab.results import failures, summary, write_parquet
from polyceptron.lab.spec import load_spec, parse_spec
from polyceptron.lab.tasks import attempt, expand
from polyceptron.rows import make_row
from polyceptron.store import Store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with 4 theory rows and 5 instances of each point."""
    return fill(tmp_path, fakes.draw)


def fill(folder: Path, runner: Any, instances: int = 5) -> Path:
    path = folder / "runs.sqlite"
    spec = load_spec(fakes.write_spec(folder, instances))
    with Store(path, create=True) as store:
        for task in expand(spec):
            store.add(attempt(runner, task))
    return path


def test_means_and_standard_errors_are_those_of_numpy(path: Path) -> None:
    with Store(path) as store:
        rows, lines = list(store.rows()), summary(store)
    assert len(lines) == 4
    for line in lines:
        same = [r for r in rows if all(r[c] == line[c] for c in ("alpha", "ridge"))]
        errors = [r["generalisation_error"] for r in same if r["source"] == "erm"]
        (theory,) = [r["generalisation_error"] for r in same if r["source"] == "theory"]
        assert line["instances"] == len(errors) == 5
        assert line["mean"] == pytest.approx(np.mean(errors), rel=1e-14)
        expected = np.std(errors, ddof=1) / np.sqrt(5)
        assert line["standard_error"] == pytest.approx(expected, rel=1e-12)
        assert line["theory"] == theory
        t = (np.mean(errors) - theory) / expected
        z = np.sign(t) * stats.norm.isf(stats.t.sf(abs(t), 4))
        assert line["deviation"] == pytest.approx(z, rel=1e-9)


def test_failures_are_counted_and_listed(tmp_path: Path) -> None:
    with Store(fill(tmp_path, fakes.fail)) as store:
        lines = {(line["ridge"], line["alpha"]): line for line in summary(store)}
        listed = failures(store)
        table = store.frame()
    assert [lines[1.0, a]["failed"] for a in (1, 2)] == [5, 5]
    assert lines[1.0, 1]["mean"] is None
    assert lines[0.01, 1]["failed"] == 0
    assert len(listed) == 10
    assert table["reason"].notna().sum() == 10


AMP = """
[[grid]]
sources = ["theory", "amp"]
branch = ["optimal", "amp"]
start = ["uninformed", "informed"]
alpha = [1, 2]
dimension = [10, 20]
instances = 3
"""


def branches(task: Any) -> list[dict[str, Any]]:
    """Theory: 0.1 on one branch, 0.2 on the other; AMP: one by its start, not all converged."""
    rows = []
    for content in task.cases:
        names = (
            "source",
            "model",
            "n_classes",
            "prior",
            "estimator",
            "alpha",
            "branch",
            "dimension",
        )
        row = {name: content[name] for name in names if name in content}
        if content["source"] == "theory":
            if content["alpha"] == 2 and content["branch"] == "amp":
                raise ZeroDivisionError
            value, status = (0.1 if content["branch"] == "optimal" else 0.2), "ok"
        else:
            value = 0.25 if content["start"] == "uninformed" else 0.15
            status = "not-converged" if content["seed_path"][-1] == 0 else "ok"
        rows.append(make_row(**row, generalisation_error=value, uncertainty=1e-9, status=status))
    return rows


def test_message_passing_stands_beside_the_branch_it_reaches(tmp_path: Path) -> None:
    """And never beside another: the optimal branch may be far away where it cannot be found."""
    with Store(tmp_path / "runs.sqlite", create=True) as store:
        for task in expand(parse_spec(AMP)):
            store.add(attempt(branches, task))
        lines = summary(store)
    simulated = [line for line in lines if line["source"] == "amp"]
    assert len(simulated) == 8  # two starts are never averaged together
    for line in simulated:
        assert (line["instances"], line["not_converged"], line["failed"]) == (3, 1, 0)
        if line["start"] == "informed":  # that branch was not asked for
            assert line["mean"] == pytest.approx(0.15)
            assert (line["theory"], line["branch"], line["deviation"]) == (None, None, None)
        elif line["alpha"] == 1:
            assert (line["theory"], line["branch"]) == (0.2, "amp")
        else:  # the row of that branch failed: it has no number to show
            assert line["theory"] is None
    alone = [(line["alpha"], line["branch"]) for line in lines if line["source"] == "theory"]
    assert alone == [(1.0, "optimal"), (2.0, "optimal")]


def test_theory_alone_is_listed(tmp_path: Path) -> None:
    spec = parse_spec('[[grid]]\nsources = "theory"\nalpha = [1, 3]\n')
    with Store(tmp_path / "runs.sqlite", create=True) as store:
        for task in expand(spec):
            store.add(attempt(branches, task))
        assert [(line["alpha"], line["theory"]) for line in summary(store)] == [(1, 0.1), (3, 0.1)]


def test_an_unknown_quantity_is_refused(path: Path) -> None:
    with Store(path) as store, pytest.raises(InvalidInput, match="allowed are generalisation"):
        summary(store, quantity="colour")


def test_a_quantity_that_no_row_has_is_refused(path: Path) -> None:
    with pytest.raises(InvalidInput, match="has a number in 'test_loss'"):
        CliRunner().invoke(
            app, ["results", str(path), "--quantity", "test_loss"], catch_exceptions=False
        )


def test_files_hold_every_bit(path: Path, tmp_path: Path) -> None:
    command(["results", str(path), "--csv", str(tmp_path / "rows.csv")])
    command(["results", str(path), "--parquet", str(tmp_path / "rows.parquet")])
    with Store(path) as store:
        table = store.frame()
    parquet = pd.read_parquet(tmp_path / "rows.parquet")
    assert list(parquet.columns) == list(table.columns)
    for column in ("generalisation_error", "seed", "alpha", "dimension", "source"):
        assert parquet[column].equals(table[column].astype(parquet[column].dtype))
    with (tmp_path / "rows.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [float(x["generalisation_error"]) for x in lines] == list(table["generalisation_error"])
    seeds = [None if pd.isna(seed) else int(seed) for seed in table["seed"]]
    assert [int(x["seed"]) if x["seed"] else None for x in lines] == seeds
    assert table["seed"].dropna().nunique() == 10


def test_without_pyarrow_the_sentence_names_the_extra(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InvalidInput, match=r"polyceptron\[export\]"):
        write_parquet(pd.DataFrame(), tmp_path / "rows.parquet")
    assert not (tmp_path / "rows.parquet").exists()


def command(arguments: list[str], code: int = 0) -> Any:
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result


def test_the_summary_at_the_shell(path: Path, tmp_path: Path) -> None:
    lines = json.loads(command(["results", str(path), "--summary", "--json"]).stdout)
    assert [line["instances"] for line in lines] == [5, 5, 5, 5]
    command(["results", str(path), "--summary", "--csv", str(tmp_path / "s.csv")])
    assert len(pd.read_csv(tmp_path / "s.csv")) == 4
    shown = command(["results", str(path)]).stdout
    assert "argmax, k = 3, gaussian, cross-entropy, erm" in shown
    assert "…" not in shown  # nothing is cut off at 80 columns
    spec = fakes.write_spec(tmp_path, instances=2)
    few = json.loads(command(["results", str(path), "--spec", str(spec), "--json"]).stdout)
    assert [line["instances"] for line in few] == [2, 2, 2, 2]


def test_failures_and_merging_at_the_shell(tmp_path: Path) -> None:
    path = fill(tmp_path, fakes.fail)
    listed = json.loads(command(["results", str(path), "--failures", "--json"]).stdout)
    assert {line["reason"] for line in listed} == {"ZeroDivisionError: no minimum at this ridge"}
    merged = command(["merge", str(path), "--into", str(tmp_path / "all.sqlite")])
    assert "added 24 rows" in merged.stderr
    again = command(["merge", str(path), "--into", str(tmp_path / "all.sqlite")])
    assert "added 0 rows" in again.stderr


def test_a_dry_run_computes_and_creates_nothing(path: Path, tmp_path: Path) -> None:
    spec = fakes.write_spec(tmp_path, instances=7)
    shown = command(["sweep", str(spec), "--store", str(path), "--dry-run"]).stdout
    assert "32 rows, 24 stored, 8 to compute in 4 tasks on" in " ".join(shown.split())
    new = tmp_path / "new.sqlite"
    shown = command(["sweep", str(spec), "--store", str(new), "--dry-run", "--workers", "2"]).stdout
    assert "32 rows, 0 stored" in " ".join(shown.split())
    assert not new.exists()
