"""Stores that others have changed, logs cut under a sweep, and rows that agree or do not."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path

import pytest
import sweep_fakes as fakes
from programs import Program

from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.lab.engine import Progress
from polyceptron.lab.spec import load_spec, parse_spec
from polyceptron.lab.sweep import run_sweep
from polyceptron.lab.tasks import Task, attempt, compute_rows, expand
from polyceptron.store import CaseResult, Store, locked_store, merge_stores

TRIGGERS = {
    "trigger": "CREATE TRIGGER more AFTER INSERT ON results BEGIN DELETE FROM results; END",
    "view": "CREATE VIEW more AS SELECT * FROM results",
    "index": "CREATE INDEX more ON results (status)",
    "table": "CREATE TABLE more (key TEXT)",
}


def changed(path: Path, *statements: str) -> None:
    """Make a store, and have another program change its schema."""
    Store(path, create=True).close()
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


@pytest.mark.parametrize("kind", TRIGGERS)
def test_what_was_added_to_a_store_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "runs.sqlite"
    changed(path, TRIGGERS[kind])
    with pytest.raises(InvalidInput, match=f"no store that polyceptron made.*the {kind} 'more'"):
        Store(path)
    spec = fakes.write_spec(tmp_path, instances=1)
    with pytest.raises(InvalidInput, match="no store that polyceptron made"):
        run_sweep(spec, path, workers=1, runner=fakes.draw)


@pytest.mark.parametrize(
    "statements",
    [
        ["ALTER TABLE results RENAME TO hidden", "CREATE VIEW results AS SELECT * FROM hidden"],
        ["DROP TABLE results", "CREATE TABLE results (key, task, row, status, reason, provenance)"],
        ["ALTER TABLE results ADD COLUMN more TEXT"],
        ["DROP TABLE meta"],
    ],
)
def test_tables_that_are_not_ours_are_refused(tmp_path: Path, statements: list[str]) -> None:
    path = tmp_path / "runs.sqlite"
    changed(path, *statements)
    with pytest.raises(InvalidInput, match="no store that polyceptron made"):
        Store(path)


def test_a_store_of_an_earlier_version_with_its_unused_table_is_read(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite"
    changed(path, "CREATE TABLE timings (kind TEXT PRIMARY KEY, rows INTEGER, seconds REAL)")
    with Store(path) as store:
        assert len(store) == 0


def killed_while_creating(path: str) -> None:
    """Make a store in a process that dies at the last moment before it has its name."""

    def die(*_: object, **__: object) -> None:
        os._exit(9)

    os.link = die  # type: ignore[assignment]
    Path.replace = die  # type: ignore[method-assign]
    with locked_store(path):
        pass


def test_a_killed_creation_leaves_nothing(tmp_path: Path) -> None:
    if not hasattr(os, "O_TMPFILE"):
        pytest.skip("this system has no files without a name")
    program = Program(killed_while_creating, tmp_path / "runs.sqlite")
    program.communicate()
    assert program.wait() == 9
    assert list(tmp_path.iterdir()) == []


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite"
    path.touch()
    with Store(path, create=True) as store:
        assert len(store) == 0


@pytest.mark.parametrize("act", ["cut", "removed"])
def test_a_log_lost_under_a_live_sweep_is_noticed_at_its_end(
    tmp_path: Path, act: str, instant: None
) -> None:
    """The sweep itself goes on reading what it remembers."""
    path = tmp_path / "runs.sqlite"
    log = tmp_path / "runs.sqlite-wal"

    def lose(now: Progress) -> None:
        if now.computed == now.rows and log.exists():
            if act == "cut":
                os.truncate(log, 0)
            else:
                log.unlink()

    spec = fakes.write_spec(tmp_path, instances=3)
    with pytest.raises(ComputationFailed, match="while the sweep ran"):
        run_sweep(spec, path, workers=1, runner=fakes.draw, progress=lose)


FITS = """
[[grid]]
sources = ["erm"]
estimators = ["cross-entropy", "square", "hinge"]
ridge = [0.01, 0.1, 1.0]
alpha = [1.5]
dimension = [40]
"""


def test_a_row_is_the_same_in_whatever_company_it_is_computed() -> None:
    for task in expand(parse_spec(FITS)):
        together = compute_rows(task)
        for content, row in zip(task.cases, together, strict=True):
            assert compute_rows(Task((content,))) == [row]


def results_of(folder: Path) -> list[CaseResult]:
    tasks = expand(load_spec(fakes.write_spec(folder, instances=2)))
    return [result for task in tasks for result in attempt(fakes.draw, task)]


def stored(path: Path, results: list[CaseResult]) -> Path:
    with Store(path, create=True) as store:
        store.add(results)
    return path


@pytest.mark.parametrize(
    ("source", "change", "differing"),
    [
        ("theory", {"generalisation_error": 3e-9}, 0),  # bars of 2e-9 each
        ("theory", {"generalisation_error": 5e-9}, 1),
        ("erm", {"q": 5e-13}, 0),  # fits to a relative 1e-8 each
        ("erm", {"q": 1e-6}, 1),
        ("erm", {"generalisation_error": 5e-13}, 0),
        ("theory", {"status": "undecided"}, 1),
    ],
)
def test_rows_that_agree_within_their_bars_are_no_conflict(
    tmp_path: Path, source: str, change: dict[str, object], differing: int
) -> None:
    results = []
    changed_results = []
    for result in results_of(tmp_path):
        row = {**result.row, "q": 0.5, "generalisation_error": 0.25, "uncertainty": 2e-9}
        results.append(result._replace(row=row))
        other = dict(row)
        if row["source"] == source:
            for name, value in change.items():
                other[name] = value if isinstance(value, str) else row[name] + value
        changed_results.append(result._replace(row=other))
    n_changed = sum(1 for result in results if result.row["source"] == source)
    mine = stored(tmp_path / "mine.sqlite", results)
    theirs = stored(tmp_path / "theirs.sqlite", changed_results)
    report = merge_stores(mine, [theirs])
    assert report.already == len(results)
    assert report.differing == differing * n_changed
    with Store(mine) as store:
        kept = [json.loads(record["row"])["q"] for record in store.records()]
    assert kept == [0.5] * len(results)
