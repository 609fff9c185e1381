"""The common row and the writing of files."""

import csv
import json
import os
import socket
import stat
from pathlib import Path

import numpy as np
import pytest
from programs import Program, commands

from polyceptron.errors import InvalidInput
from polyceptron.files import (
    check_readable,
    check_writable,
    read_text,
    write_atomically,
    write_text,
)
from polyceptron.lab.results import write_csv
from polyceptron.rows import COLUMNS, Status, frame, json_ready, make_row
from polyceptron.version import VERSION


def test_a_row_has_its_columns_in_order_and_the_version():
    row = make_row(q=0.5, alpha=1.0, source="theory", status=Status.OK)
    assert list(row) == ["source", "alpha", "q", "status", "version"]
    assert row["version"] == VERSION


def test_a_row_is_plain_python():
    row = make_row(q=np.float64(0.5), n_classes=np.int64(3), status=Status.FAILED, m=None)
    assert type(row["q"]) is float
    assert type(row["n_classes"]) is int
    assert type(row["status"]) is str
    assert "m" not in row
    json.dumps(row)


def test_unknown_columns_are_refused():
    with pytest.raises(KeyError, match="colour"):
        make_row(colour="red")


def test_frame_keeps_order_and_drops_what_no_row_has():
    table = frame([make_row(alpha=2.0, m=0.1), make_row(source="amp", alpha=1.0)])
    assert list(table.columns) == ["source", "alpha", "m", "version"]
    assert list(table.alpha) == [2.0, 1.0]
    assert np.isnan(table.m[1])
    assert len(frame([])) == 0


def test_json_has_no_infinity():
    row = json_ready(make_row(V=np.inf, q=np.nan, alpha=1.0))
    assert (row["V"], row["q"], row["alpha"]) == (None, None, 1.0)
    assert json.loads(json.dumps(row, allow_nan=False)) == row


def test_columns_are_distinct():
    assert len(set(COLUMNS)) == len(COLUMNS)


def test_text_is_written_whole(tmp_path):
    path = tmp_path / "a.txt"
    write_text(path, "ε = 0.39")
    assert path.read_text(encoding="utf-8") == "ε = 0.39"
    write_text(path, "new")
    assert path.read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def write(temporary):
        temporary.write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, write)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_readers_see_the_old_file_until_the_new_one_is_ready(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def write(temporary):
        temporary.write_text("new")
        assert temporary.parent == path.parent  # a rename within one file system
        assert temporary.suffix == path.suffix
        assert path.read_text() == "old"

    write_atomically(path, write)
    assert path.read_text() == "new"


def test_new_files_follow_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        write_text(tmp_path / "a.txt", "x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o640


def test_where_a_file_cannot_be(tmp_path):
    (tmp_path / "file").write_text("x")
    for path, words in (
        (tmp_path / "missing" / "a.txt", "does not exist"),
        (tmp_path / "file" / "a.txt", "does not exist"),
        (tmp_path, "it is a folder"),
    ):
        with pytest.raises(InvalidInput, match=words):
            check_writable(path)
        with pytest.raises(InvalidInput, match=words):
            write_text(path, "x")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_permissions_are_checked(tmp_path):
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(InvalidInput, match="permission denied"):
            check_writable(tmp_path / "a.txt")
    finally:
        tmp_path.chmod(0o700)


def test_a_folder_that_refuses_files_is_told(tmp_path, monkeypatch):
    """Also where access looks allowed, as on some network folders (or as root)."""

    def refuse(**_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.mkstemp", refuse)
    with pytest.raises(InvalidInput, match="Permission denied"):
        write_text(tmp_path / "a.txt", "x")


SPECIAL = {
    "folder": "a folder",
    "pipe": "a named pipe",
    "socket": "a socket",
    "character device": "a device",
    "block device": "a device",
}


@pytest.fixture(params=list(SPECIAL))
def special(request, tmp_path):
    """A file that is no file, in a folder of its own; the devices are copies of null and loop7."""
    path = tmp_path / "n"
    if request.param == "folder":
        path.mkdir()
    elif request.param == "pipe":
        os.mkfifo(path)
    elif request.param == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(path))
    else:
        kind, number = (stat.S_IFCHR, (1, 3)) if "char" in request.param else (stat.S_IFBLK, (7, 7))
        try:
            os.mknod(path, kind | 0o600, os.makedev(*number))
        except PermissionError:
            pytest.skip("only root makes device nodes")
    return path, SPECIAL[request.param]


def identity(path):
    info = os.lstat(path)
    return info.st_mode, info.st_ino, info.st_rdev, info.st_mtime_ns


def test_what_is_no_regular_file_is_never_replaced(special):
    path, kind = special
    before, calls = identity(path), []
    link = path.with_name("link")
    link.symlink_to(path)
    for name in (path, link):
        with pytest.raises(InvalidInput, match=f"{name.name}.* it is {kind}"):
            check_writable(name)
        with pytest.raises(InvalidInput, match=f"it is {kind}"):
            write_atomically(name, calls.append)
    assert calls == []  # not even begun
    assert identity(path) == before
    assert sorted(p.name for p in path.parent.iterdir()) == ["link", "n"]


def test_what_is_no_regular_file_is_not_opened_for_reading(special):
    path, kind = special
    for read in (check_readable, read_text):
        with pytest.raises(InvalidInput, match=f"cannot read the list .*it is {kind}"):
            read(path, "list")


COMMANDS = [
    ("curve", "--classes", "2", "--alpha", "1", "--csv", "{n}"),
    ("sweep", "{spec}", "--store", "{n}"),
    ("sweep", "{spec}", "--store", "{n}", "--dry-run"),
    ("sweep", "{n}", "--store", "{folder}/new.sqlite"),
    ("results", "{n}"),
    ("results", "{store}", "--csv", "{n}"),
    ("results", "{store}", "--parquet", "{n}"),
    ("merge", "{store}", "--into", "{n}"),
    ("merge", "{n}", "--into", "{folder}/new.sqlite"),
]


@pytest.mark.process
def test_commands_answer_at_once_and_change_nothing(tmp_path):
    """No command computes, hangs or replaces: one sentence, exit code 2; all of one process."""
    from polyceptron.store import Store

    nodes = [tmp_path / name for name in ("pipe", "dangling", "device")]
    os.mkfifo(nodes[0])
    nodes[1].symlink_to(tmp_path / "nothing")
    if os.geteuid() == 0:  # nobody else makes device nodes
        os.mknod(nodes[2], stat.S_IFCHR | 0o600, os.makedev(1, 3))
    else:
        nodes.pop()
    store, spec = tmp_path / "s.sqlite", tmp_path / "spec.toml"
    Store(store, create=True).close()
    spec.write_text('[[grid]]\nsources = "theory"\nalpha = [1]\n')
    before, listing = [identity(node) for node in nodes], sorted(tmp_path.iterdir())
    values = {"spec": spec, "folder": tmp_path, "store": store}
    lines = [
        " ".join(part.format(n=node, **values) for part in command)
        for node in nodes
        for command in COMMANDS
    ]
    _, errors = Program(commands, lines).communicate()
    said = errors.splitlines()
    assert len(said) == 2 * len(lines), errors  # a sentence and a code for each
    assert said[1::2] == ["code 2"] * len(lines)
    for node, first in zip(nodes, range(0, len(said), 2 * len(COMMANDS)), strict=True):
        sentences = said[first : first + 2 * len(COMMANDS) : 2]
        assert all(str(node) in sentence for sentence in sentences)
    assert [identity(node) for node in nodes] == before
    assert sorted(tmp_path.iterdir()) == listing


def test_a_link_is_followed_and_stays_a_link(tmp_path):
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "old.txt", tmp_path / "link.csv"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(Path("there") / "old.txt")
    seen = []

    def write(temporary):
        seen.append(temporary)
        temporary.write_text("new")

    write_atomically(link, write)
    assert os.readlink(link) == "there/old.txt"
    assert target.read_text() == "new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640  # a private file stays private
    (temporary,) = seen
    assert temporary.parent == target.parent  # a rename within one file system
    assert temporary.suffix == ".csv"  # writers choose their format by the name that was given
    assert [p.name for p in target.parent.iterdir()] == ["old.txt"]


def test_a_link_to_nothing_is_refused(tmp_path):
    link, loop = tmp_path / "link", tmp_path / "loop"
    link.symlink_to(tmp_path / "gone")
    loop.symlink_to(loop)
    with pytest.raises(InvalidInput, match=r"link to .*gone.*, which does not exist"):
        check_writable(link)
    with pytest.raises(InvalidInput, match=r"cannot write .*loop"):
        check_writable(loop)
    assert not (tmp_path / "gone").exists()


def test_a_file_that_becomes_a_link_while_it_is_written(tmp_path):
    path, other = tmp_path / "a.txt", tmp_path / "other.txt"
    other.write_text("other")

    def write(temporary):
        temporary.write_text("new")
        path.symlink_to(other)

    with pytest.raises(InvalidInput, match="replaced by a link"):
        write_atomically(path, write)
    assert other.read_text() == "other"
    assert path.is_symlink()


def test_a_file_of_another_in_a_sticky_folder_is_refused_before_any_work(tmp_path, monkeypatch):
    """The result was computed, written beside the file, and could not be moved into its place."""
    path = tmp_path / "rows.csv"
    path.write_text("of another user")
    tmp_path.chmod(0o1777)
    other = os.geteuid() + 1000
    monkeypatch.setattr(os, "geteuid", lambda: other)
    with pytest.raises(InvalidInput, match="permission denied"):
        check_writable(path)
    check_writable(tmp_path / "new.csv")
    tmp_path.chmod(0o777)
    check_writable(path)


def test_a_current_folder_that_was_removed_is_named(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(InvalidInput, match=r"'rows\.csv': the current folder was removed"):
        check_writable("rows.csv")


def test_names_that_no_file_can_have(tmp_path):
    for name in ("x" * 300, "a\0b"):
        with pytest.raises(InvalidInput, match="cannot write"):
            check_writable(tmp_path / name)
        with pytest.raises(InvalidInput, match="cannot read"):
            read_text(tmp_path / name, "list")


def test_a_text_too_long_to_be_meant_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("polyceptron.files.MAX_TEXT_BYTES", 10)
    (tmp_path / "a").write_text("x" * 10)
    (tmp_path / "b").write_text("x" * 11)
    assert read_text(tmp_path / "a", "list") == "x" * 10
    with pytest.raises(InvalidInput, match="more than 10 bytes"):
        read_text(tmp_path / "b", "list")


@pytest.mark.parametrize(
    "cell",
    [
        "=cmd|' /C calc'!A0",
        "=1+1",
        "=2+5+cmd|' /C calc'!A0",
        "-2+3+cmd|' /C calc'!D2",
        "+1,cmd|' /C calc'!D2",
        "+cmd",
        "-cmd",
        "@SUM(A1)",
        "@1",
        "\t=1",
        "\n=1",
        "＝1+1",
        "﹦1+1",
        "﹢cmd",
        " =1+1",
        "\u200b=1+1",
        "\ufeff=1+1",
        "\x00=1+1",
        "\u3000@1",
    ],
)
def test_a_text_that_a_spreadsheet_would_compute_is_only_text(cell: str, tmp_path: Path) -> None:
    table = frame([{"estimator": cell, "q": -1.5, "biases": "-1.5,1.5", "prior": "gaussian"}])
    write_csv(table.assign(shares="-1e-05;+.5"), tmp_path / "rows.csv")
    with (tmp_path / "rows.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert row["estimator"] == f"'{cell}"
    assert (row["q"], row["biases"], row["prior"]) == ("-1.5", "-1.5,1.5", "gaussian")
    assert row["shares"] == "-1e-05;+.5"


@pytest.mark.parametrize("cell", ["a\r=1+1", "\r=1+1", "a\r\n=1+1"])
def test_a_carriage_return_does_not_begin_a_row(cell: str, tmp_path: Path) -> None:
    write_csv(frame([{"estimator": "square", "reason": cell}]), tmp_path / "rows.csv")
    with (tmp_path / "rows.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert "\r" not in row["reason"]
    assert not row["reason"].startswith("\n=")


def test_the_name_of_a_column_is_no_formula(tmp_path: Path) -> None:
    write_csv(frame([{"=1+1": 2, "q": 1.5}]), tmp_path / "rows.csv")
    with (tmp_path / "rows.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert row == {"'=1+1": "2", "q": "1.5"}


def test_a_byte_order_mark_at_the_begin_hides_no_formula(tmp_path: Path) -> None:
    """A spreadsheet drops the mark, and would compute the name of the first column."""
    write_csv(frame([{"\ufeff=1+1": 2}]), tmp_path / "rows.csv")
    assert (tmp_path / "rows.csv").read_bytes().startswith(b"'")
