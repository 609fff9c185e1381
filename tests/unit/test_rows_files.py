"""The common row and the writing of files."""

import json
import os
import stat

import numpy as np
import pytest

from polyceptron.errors import InvalidInput
from polyceptron.files import check_writable, write_atomically, write_text
from polyceptron.rows import COLUMNS, VERSION, Status, frame, json_ready, make_row


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
