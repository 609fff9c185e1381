"""A row that was changed behind the program's back is named, left out, and computed again."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
import sweep_fakes as fakes
from typer.testing import CliRunner

from polyceptron.cli import app
from polyceptron.lab.results import summary
from polyceptron.lab.spec import load_spec
from polyceptron.lab.sweep import run_sweep, sweep_rows
from polyceptron.lab.tasks import attempt, expand
from polyceptron.store import Store, merge_stores

pytestmark = pytest.mark.usefixtures("instant")
CHANGES = {
    "a digit of the error": "UPDATE results SET row = replace(row, '0.', '1.') WHERE key = ?",
    "cut short": "UPDATE results SET row = substr(row, 1, 40) WHERE key = ?",
    "not text": "UPDATE results SET row = x'ff00fe' WHERE key = ?",
    "not UTF-8": "UPDATE results SET row = CAST(x'7bff7d' AS TEXT) WHERE key = ?",
    "a number": "UPDATE results SET row = 7 WHERE key = ?",
    "another question": "UPDATE results SET task = replace(task, 'erm', 'amp') WHERE key = ?",
    "no question": "UPDATE results SET task = '' WHERE key = ?",
    "a status": "UPDATE results SET status = 'not-converged' WHERE key = ?",
    "a reason": "UPDATE results SET reason = 'none' WHERE key = ?",
    "a version": "UPDATE results SET provenance = '{}' WHERE key = ?",
    "no checksum": "UPDATE results SET checksum = '' WHERE key = ?",
    "a checksum that is none": "UPDATE results SET checksum = x'00' WHERE key = ?",
}


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fakes.write_spec(tmp_path_factory.mktemp("spec"), instances=2)


@pytest.fixture(scope="module")
def whole(spec: Path) -> Path:
    """A complete store of 12 rows, to be copied."""
    path = spec.parent / "whole.sqlite"
    with Store(path, create=True) as store:
        for task in expand(load_spec(spec)):
            store.add(attempt(fakes.draw, task))
    return path


@pytest.fixture
def path(whole: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "runs.sqlite"
    copy.write_bytes(whole.read_bytes())
    return copy


def records(path: Path) -> list[dict[str, object]]:
    with Store(path) as store:
        return list(store.records())


def victim(path: Path) -> str:
    """The key of one ERM row."""
    return next(str(r["key"]) for r in records(path) if '"erm"' in str(r["task"]))


def tamper(path: Path, statement: str, *values: object) -> None:
    connection = sqlite3.connect(path)
    connection.execute(statement, values)
    connection.commit()
    connection.close()


def shell(*arguments: object) -> tuple[int, str, str]:
    ended = CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False)
    return ended.exit_code, ended.stdout, ended.stderr


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_changed_row_is_named_left_out_and_replaced(
    path: Path, whole: Path, spec: Path, tmp_path: Path, change: str
) -> None:
    key = victim(path)
    tamper(path, change, key)
    with Store(path) as store:
        assert store.damaged() == store.damaged([key]) == [key]
        assert key not in store.done([key])
        assert len(list(store.rows())) == len(store.frame()) == 11
        assert list(store.rows([key])) == []
        summary(store)
    merged = merge_stores(tmp_path / "all.sqlite", [path])
    assert (merged.added, merged.damaged) == (11, (key,))
    assert merge_stores(tmp_path / "all.sqlite", [whole]).added == 1
    assert records(tmp_path / "all.sqlite") == records(whole)
    healed = merge_stores(path, [whole])  # a good row takes the place of the damaged one
    assert (healed.added, healed.differing, healed.damaged) == (1, 0, ())
    assert records(path) == records(whole)


def test_resuming_computes_changed_rows_again(path: Path, whole: Path, spec: Path) -> None:
    keys = sorted(str(record["key"]) for record in records(path))[:3]
    for key, change in zip(keys, list(CHANGES.values())[2:5], strict=True):
        tamper(path, change, key)
    report = run_sweep(spec, path, workers=1, runner=fakes.draw)
    assert (report.already, report.computed, report.failed) == (9, 3, 0)
    assert sorted(report.damaged) == keys
    assert records(path) == records(whole)
    assert sweep_rows(spec, path) == sweep_rows(spec, whole)
    again = run_sweep(spec, path, workers=1, runner=fakes.draw)
    assert (again.computed, again.damaged) == (0, ())


def test_a_failure_made_to_look_like_a_result_is_not_believed(tmp_path: Path) -> None:
    spec, path = fakes.write_spec(tmp_path, instances=1), tmp_path / "runs.sqlite"
    run_sweep(spec, path, workers=1, runner=fakes.fail)
    tamper(path, "UPDATE results SET status = 'ok' WHERE ? = ''", "")
    assert run_sweep(spec, path, workers=1, runner=fakes.draw).computed == 2


def test_a_swapped_key_is_noticed(path: Path, spec: Path) -> None:
    key = victim(path)
    tamper(path, "UPDATE results SET key = '?' || substr(key, 2) WHERE key = ?", key)
    with Store(path) as store:
        assert store.damaged() == ["?" + key[1:]]
        assert store.done([key]) == set()
    tamper(path, "UPDATE results SET key = NULL WHERE key = ?", "?" + key[1:])
    with Store(path) as store:
        assert store.damaged() == ["without a key"]


def test_at_the_shell(path: Path, spec: Path, tmp_path: Path) -> None:
    key = victim(path)
    tamper(path, CHANGES["a digit of the error"], key)
    for arguments in ((), ("--json",), ("--csv", tmp_path / "rows.csv"), ("--failures",)):
        code, _, err = shell("results", path, *arguments)
        assert code == 1
        assert f"left out 1 row ({key}) of {path}, because they were changed" in err
    assert len((tmp_path / "rows.csv").read_text().splitlines()) == 1 + 11
    code, _, err = shell("merge", path, "--into", tmp_path / "all.sqlite")
    assert code == 1
    assert f"they had been changed after they were written: 1 row ({key})" in err
    assert shell("results", tmp_path / "all.sqlite")[0] == 0


def test_a_results_file_never_replaces_the_store(path: Path, spec: Path, tmp_path: Path) -> None:
    from polyceptron.errors import InvalidInput

    link = tmp_path / "link.csv"
    link.symlink_to(path)
    before = path.read_bytes()
    for arguments in (
        ("--csv", path),
        ("--parquet", link),
        ("--csv", spec, "--spec", spec),
        ("--csv", tmp_path / "a", "--parquet", tmp_path / "a"),
    ):
        with pytest.raises(InvalidInput, match="the same file"):
            shell("results", path, *arguments)
    assert path.read_bytes() == before


def test_frame_is_the_tidy_table(path: Path) -> None:
    with Store(path) as store:
        table = store.frame()
        rows = {json.dumps(row, sort_keys=True) for row in store.rows()}
        some = [str(r["key"]) for r in records(path)][4:1:-1]
        part = store.frame(some)
        expected = [row["generalisation_error"] for row in store.rows(some)]
    assert len(table) == len(rows) == 12
    assert list(table.columns[:4]) == ["source", "model", "n_classes", "prior"]
    assert str(table["seed"].dtype) == "Int64"  # 53 bits, and empty for theory
    assert table["seed"].isna().sum() == 4
    order = table[["source", "ridge", "alpha"]].apply(tuple, axis=1).tolist()
    assert order == sorted(order)
    assert part["generalisation_error"].tolist() == expected
    with Store(path.with_name("empty.sqlite"), create=True) as store:
        assert len(store.frame()) == 0
