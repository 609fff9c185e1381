"""What a store accepts, refuses and never loses."""

from __future__ import annotations

import math
import os
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import sweep_fakes as fakes
from hypothesis import given
from hypothesis import strategies as st
from programs import Program, fill

from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.lab.spec import load_spec
from polyceptron.lab.sweep import run_sweep
from polyceptron.lab.tasks import attempt, expand
from polyceptron.store import (
    APPLICATION_ID,
    SCHEMA_VERSION,
    CaseResult,
    Store,
    decode_row,
    encode_row,
    locked_store,
    merge_stores,
)

pytestmark = pytest.mark.usefixtures("instant")


def some_results(folder: Path, runner: object = fakes.draw) -> list[CaseResult]:
    tasks = expand(load_spec(fakes.write_spec(folder, instances=3)))
    return [result for task in tasks for result in attempt(runner, task)]  # type: ignore[arg-type]


def snapshot(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@given(value=st.floats(), seed=st.integers(0, 2**53))
def test_a_row_comes_back_to_the_last_bit(value: float, seed: int) -> None:
    row = decode_row(encode_row({"q": value, "seed": seed, "status": "ok"}))
    assert row["q"] == value or (math.isnan(row["q"]) and math.isnan(value))
    assert math.copysign(1, row["q"]) == math.copysign(1, value) or math.isnan(value)
    assert row["seed"] == seed


def test_settings_are_the_safe_ones(tmp_path: Path) -> None:
    with Store(tmp_path / "runs.sqlite", create=True) as store:
        ask = store._connection.execute
        assert ask("PRAGMA journal_mode").fetchone() == ("wal",)
        assert ask("PRAGMA synchronous").fetchone() == (2,)  # FULL
        assert ask("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
    assert sorted(snapshot(tmp_path)) == ["runs.sqlite"]


def test_a_good_row_replaces_a_failed_one_and_never_the_reverse(tmp_path: Path) -> None:
    bad, good = some_results(tmp_path, fakes.fail), some_results(tmp_path)
    assert any(result.failed for result in bad)
    with Store(tmp_path / "runs.sqlite", create=True) as store:
        store.add(bad)
        keys = [result.key for result in good]
        assert store.done(keys) == {result.key for result in bad if not result.failed}
        store.add(good)
        assert Counter(row["status"] for row in store.rows()) == {"ok": len(good)}
        store.add(bad)
        assert Counter(row["status"] for row in store.rows()) == {"ok": len(good)}
        assert list(store.rows(keys)) == [result.row for result in good]
        assert list(store.records("failed")) == []


def _text(path: Path) -> str:
    path.write_text("alpha,q\n1,0.5\n" * 20)
    return "not an SQLite file"


def _cut_header(path: Path) -> str:
    Store(path, create=True).close()
    path.write_bytes(path.read_bytes()[:50])
    return "not a store of polyceptron"


def _cut_page(path: Path) -> str:
    Store(path, create=True).close()
    path.write_bytes(path.read_bytes()[:-4096])
    return "damaged"


def _foreign(path: Path) -> str:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE results (key TEXT)")
    connection.commit()
    connection.close()
    return "not a store of polyceptron"


def _of_version(path: Path, version: int) -> None:
    Store(path, create=True).close()
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {version}")
    connection.close()


def _newer(path: Path) -> str:
    _of_version(path, SCHEMA_VERSION + 1)
    return "newer polyceptron"


def _older(path: Path) -> str:
    _of_version(path, SCHEMA_VERSION - 1)
    return "older polyceptron than 0.2"


def _scrambled(path: Path) -> str:
    with Store(path, create=True) as store:
        store.add(some_results(path.parent))
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"\xa5" * (len(content) - 4096))
    return "damaged"


@pytest.mark.parametrize(
    "spoil", [_text, _cut_header, _cut_page, _foreign, _newer, _older, _scrambled]
)
def test_what_is_no_store_is_refused_and_left_alone(tmp_path: Path, spoil: object) -> None:
    path = tmp_path / "runs.sqlite"
    sentence = spoil(path)  # type: ignore[operator]
    spec = fakes.write_spec(tmp_path, instances=1)
    before = snapshot(tmp_path)
    with pytest.raises(InvalidInput, match=sentence):
        run_sweep(spec, path, workers=1, runner=fakes.draw)
    with pytest.raises(InvalidInput, match=sentence), Store(path) as store:
        list(store.rows())
    with pytest.raises(InvalidInput, match=sentence):
        merge_stores(tmp_path / "all.sqlite", [path])
    (tmp_path / "all.sqlite").unlink(missing_ok=True)
    assert snapshot(tmp_path) == before


def test_a_missing_store_or_folder_is_a_sentence(tmp_path: Path) -> None:
    spec = fakes.write_spec(tmp_path, instances=1)
    with pytest.raises(InvalidInput, match=r"read the store .*: there is no such file"):
        Store(tmp_path / "nothing.sqlite")
    with pytest.raises(InvalidInput, match="does not exist"):
        run_sweep(spec, tmp_path / "nowhere" / "runs.sqlite", runner=fakes.draw)
    with pytest.raises(InvalidInput, match="it is a folder"):
        run_sweep(spec, tmp_path, runner=fakes.draw)


def test_a_store_in_a_folder_that_cannot_be_written_is_readable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, results = tmp_path / "runs.sqlite", some_results(tmp_path)
    with Store(path, create=True) as store:
        store.add(results)
    before = snapshot(tmp_path)
    monkeypatch.setattr("os.access", lambda *arguments: False)
    with Store(path) as store:
        assert len(store) == len(results)
        with pytest.raises(ComputationFailed, match="readonly"):
            store.add(results)
        assert snapshot(tmp_path) == before


def test_a_deleted_store_is_noticed(tmp_path: Path) -> None:
    path, results = tmp_path / "runs.sqlite", some_results(tmp_path)
    with Store(path, create=True) as store:
        path.unlink()
        with pytest.raises(ComputationFailed, match="deleted or replaced"):
            store.add(results)


def test_a_batch_is_stored_whole_or_not_at_all(tmp_path: Path) -> None:
    results = some_results(tmp_path)
    with Store(tmp_path / "runs.sqlite", create=True) as store:
        store.add(results[:2])
        (pages,) = store._connection.execute("PRAGMA page_count").fetchone()
        store._connection.execute(f"PRAGMA max_page_count = {pages}")
        many = [
            CaseResult(f"{i:032}", r.content, r.row, None, r.provenance, r.seconds)
            for i in range(100)
            for r in results[:1]
        ]
        with pytest.raises(ComputationFailed, match=r"full.*safe.*same command"):
            store.add(many)
        assert len(store) == 2
        store.check()


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["small disk", "file limit"])
def test_a_full_disk_loses_nothing(tmp_path: Path, kind: str) -> None:
    spec = fakes.write_spec(tmp_path, instances=60)
    disk = tmp_path / "disk"
    disk.mkdir()
    path, copy = disk / "runs.sqlite", tmp_path / "copy"
    if kind == "small disk":  # a real file system of 200 kB, in a mount namespace of its own
        mount = f"mount -t tmpfs -o size=200k tmpfs {disk} && exec"
        namespace = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
        if not shutil.which("unshare") or subprocess.run([*namespace, f"{mount} true"]).returncode:
            pytest.skip("no permission to mount a small file system")
        program = tmp_path / "program.py"
        lines = f"import sys; sys.path.insert(0, {str(Path(fakes.__file__).parent)!r})\n"
        lines += f"from programs import fill; fill({str(spec)!r}, {str(path)!r}, {str(copy)!r})"
        program.write_text(lines)
        command = [*namespace, f"{mount} {sys.executable} {program}"]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
        code, out, err = ended.returncode, ended.stdout, ended.stderr
    else:
        process = Program(fill, spec, path, copy, 100_000)
        out, err = process.communicate()
        code = process.poll()
    assert code == 7, err
    acknowledged, sentence = out.split(" ", 1)
    assert "cannot write" in sentence
    assert "same command again" in sentence
    with Store(copy / "runs.sqlite") as store:
        store.check()
        assert len(store) >= int(acknowledged) > 0
    report = run_sweep(spec, copy / "runs.sqlite", workers=1, runner=fakes.draw)
    assert report.already >= int(acknowledged)
    assert report.already + report.computed == report.rows == 244


def test_the_lock_is_free_again_after_release(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite"
    with locked_store(path), pytest.raises(InvalidInput, match="another sweep"), locked_store(path):
        pass
    with locked_store(path) as locked:
        assert locked == path
    assert list(snapshot(tmp_path)) == ["runs.sqlite"]  # made by the first, an empty store


def test_merge_unites_stores_of_several_machines(tmp_path: Path) -> None:
    results = some_results(tmp_path)
    bad = some_results(tmp_path, fakes.fail)
    here, there, both = (tmp_path / f"{name}.sqlite" for name in ("here", "there", "both"))
    with Store(here, create=True) as store:
        store.add(results[:10])
    with Store(there, create=True) as store:
        other = results[2]
        moved = {**other.row, "generalisation_error": 0.123}
        changed = CaseResult(other.key, other.content, moved, None, other.provenance, 0.1)
        store.add([changed, *bad[5:]])
    report = merge_stores(both, [here, there])
    assert (report.added, report.differing) == (len(results), 1)
    with Store(both) as store:
        store.check()
        kept = {record["key"]: record for record in store.records()}
        assert kept[other.key]["row"] == encode_row(other.row)
        assert sum(record["status"] == "failed" for record in kept.values()) == sum(
            result.failed for result in bad[10:]
        )
    again = merge_stores(both, [here])
    assert (again.added, again.already, again.differing) == (0, 10, 0)
    with pytest.raises(InvalidInput, match="the same file"):
        merge_stores(both, [both])


def test_a_disk_that_takes_a_part_at_a_time_gets_all_of_a_new_store(tmp_path, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda handle, content: write(handle, content[:100]))
    with Store(tmp_path / "runs.sqlite", create=True) as store:
        assert len(store) == 0
        store.check()
