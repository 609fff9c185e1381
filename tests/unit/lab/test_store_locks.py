"""One writer for each store, whatever names it goes by, and no lock lost on the way."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path

import pytest
import sweep_fakes as fakes
from programs import Program, fake_sweep

from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.lab.engine import Progress
from polyceptron.lab.spec import load_spec
from polyceptron.lab.sweep import run_sweep
from polyceptron.lab.tasks import attempt, expand
from polyceptron.store import Store, locked_store, merge_stores

pytestmark = pytest.mark.usefixtures("instant")


def listing(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        path.name: (os.lstat(path).st_mode, path.read_bytes() if path.is_file() else b"")
        for path in folder.iterdir()
    }


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "runs.sqlite"
    with Store(path, create=True) as made:
        for task in expand(load_spec(fakes.write_spec(tmp_path, instances=1))):
            made.add(attempt(fakes.draw, task))
    return path


def test_a_store_with_two_names_is_refused_by_every_way_in(store: Path, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere"
    other.mkdir()
    os.link(store, other / "same.sqlite")
    spec = fakes.write_spec(tmp_path, instances=3)
    before = listing(tmp_path)
    for path in (store, other / "same.sqlite"):
        for use in (
            lambda p: run_sweep(spec, p, workers=1, runner=fakes.draw),
            lambda p: merge_stores(p, []),
            lambda p: merge_stores(tmp_path / "all.sqlite", [p]),
            Store,
        ):
            with pytest.raises(InvalidInput, match="one file with 2 names"):
                use(path)
    assert listing(tmp_path) == before
    assert [p.name for p in other.iterdir()] == ["same.sqlite"]
    (other / "same.sqlite").unlink()
    assert run_sweep(spec, store, workers=1, runner=fakes.draw).computed == 8


def test_a_link_where_the_journal_goes_is_refused(store: Path, tmp_path: Path) -> None:
    """SQLite would follow it, and write into whatever it leads to."""
    precious = tmp_path / "precious.txt"
    precious.write_text("mine")
    spec = fakes.write_spec(tmp_path, instances=3)
    for suffix in ("-wal", "-shm", "-journal"):
        link = tmp_path / f"runs.sqlite{suffix}"
        link.symlink_to(precious)
        for use in (Store, lambda p: run_sweep(spec, p, workers=1, runner=fakes.draw)):
            with pytest.raises(InvalidInput, match=rf"runs.sqlite{suffix}' is a link"):
                use(store)
        link.unlink()
    assert precious.read_text() == "mine"


def test_a_renamed_store_is_still_locked(store: Path, tmp_path: Path) -> None:
    """Its journal has the old name: a second writer under the new one would not see it."""
    moved = tmp_path / "moved.sqlite"
    with locked_store(store):
        store.rename(moved)
        with pytest.raises(InvalidInput, match="another sweep is writing"):
            locked_store(moved).__enter__()
    with locked_store(moved) as path:
        assert path == moved


def test_a_sweep_whose_store_is_renamed_stops_and_says_so(store: Path, tmp_path: Path) -> None:
    spec = fakes.write_spec(tmp_path, instances=20)

    def rename(now: Progress) -> None:
        if store.exists() and now.computed:
            store.rename(tmp_path / "moved.sqlite")

    with pytest.raises(ComputationFailed, match=r"deleted or replaced.*same command again"):
        run_sweep(spec, store, workers=1, runner=fakes.draw, progress=rename)


def test_through_a_link_to_a_store(store: Path, tmp_path: Path) -> None:
    """The journal is beside the file, not beside the link."""
    (tmp_path / "desk").mkdir()
    link = tmp_path / "desk" / "link.sqlite"
    link.symlink_to(store)
    spec = fakes.write_spec(tmp_path, instances=2)
    seen: set[str] = set()

    def look(now: Progress) -> None:
        seen.update(p.name for p in tmp_path.iterdir())
        assert [p.name for p in link.parent.iterdir()] == ["link.sqlite"]

    assert run_sweep(spec, link, workers=1, runner=fakes.draw, progress=look).computed == 4
    assert "runs.sqlite-wal" in seen
    assert link.is_symlink()
    with Store(link) as opened:
        assert len(opened) == 12


def test_a_link_to_nothing_makes_no_store(tmp_path: Path) -> None:
    link = tmp_path / "link.sqlite"
    link.symlink_to(tmp_path / "gone.sqlite")
    spec = fakes.write_spec(tmp_path, instances=1)
    for use in (
        lambda: run_sweep(spec, link, workers=1, runner=fakes.draw),
        lambda: merge_stores(link, []),
        lambda: Store(link, create=True),
    ):
        with pytest.raises(InvalidInput, match="which does not exist"):
            use()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link.sqlite", "spec.toml"]


def _read(path: str) -> None:
    with Store(Path(path)) as store:
        assert len(store) == 4


def _write_and_die(path: str, spec: str) -> None:
    results = [r for task in expand(load_spec(Path(spec))) for r in attempt(fakes.draw, task)]
    writer = Store(Path(path), create=True)
    writer.add(results[:4])
    Store(Path(path)).close()  # a second reader here
    with locked_store(Path(path)):  # a lock taken and released here
        pass
    assert Program(_read, path).wait() == 0
    writer.add(results[4:])
    os._exit(9)  # as after a kill: what was acknowledged is on the disk


@pytest.mark.process
@pytest.mark.slow
def test_nothing_here_drops_the_locks_of_sqlite(tmp_path: Path) -> None:
    """Closing any handle of the file would; the reader would then delete the writer's journal."""
    path, spec = tmp_path / "runs.sqlite", fakes.write_spec(tmp_path, instances=2)
    ended = Program(_write_and_die, path, spec)
    assert ended.communicate() == ("", "")
    assert ended.poll() == 9
    with Store(path) as store:
        store.check()
        assert len(store) == 12


@pytest.mark.process
@pytest.mark.slow
def test_two_sweeps_that_start_together_on_a_new_store(tmp_path: Path) -> None:
    """One of them runs, the other is told; whoever comes later finds every row."""
    spec, path = fakes.write_spec(tmp_path, instances=15), tmp_path / "runs.sqlite"
    sweeps = [Program(fake_sweep, spec, path, "slow", waits=True) for _ in range(2)]
    for sweep in sweeps:
        sweep.ready()
    for sweep in sweeps:
        sweep.begin()
    ended = [sweep.communicate() for sweep in sweeps]
    codes = sorted(sweep.wait() for sweep in sweeps)
    assert -signal.SIGKILL not in codes
    assert codes[0] == 0
    refused = [err for sweep, (_, err) in zip(sweeps, ended, strict=True) if sweep.poll()]
    assert all("another sweep" in err for err in refused)
    with Store(path) as store:
        store.check()
        assert Counter(row["status"] for row in store.rows()) == {"ok": 64}
        assert store.damaged() == []
