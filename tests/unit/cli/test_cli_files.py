"""`fit` and `amp` on files: weights and a report, or one sentence and nothing written."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import scipy.sparse
from typer.testing import CliRunner

import polyceptron as pc
from polyceptron.cli import app, main


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y, _ = pc.Teacher(3).sample(300, 40, 0)
    np.save("X.npy", (3 * X + 1).astype(np.float32))
    np.save("y.npy", y)
    return tmp_path


def call(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def refused(*arguments):
    before = sorted(os.listdir())
    error = call(*arguments).exception
    assert isinstance(error, pc.InvalidInput), error
    assert sorted(os.listdir()) == before
    return str(error)


FILES = ("--data", "X.npy", "--labels", "y.npy")


def test_weights_and_report_of_a_fit(folder):
    told = call("fit", *FILES, "--ridge", "0.5", "--json")
    assert told.exit_code == 0, told.output
    weights = np.load("weights.npy")
    report = json.loads((folder / "weights.report.json").read_text())
    X, y = np.load("X.npy"), np.load("y.npy")
    np.testing.assert_allclose(weights, pc.fit_erm(X, y, ridge=0.5).weights, rtol=1e-6, atol=1e-8)
    assert (report["status"], report["n_samples"], report["dimension"]) == ("ok", 300, 40)
    assert report["precision"] == "float32"


def test_standardised_weights_are_those_of_the_features_as_they_are(folder):
    X, y = np.load("X.npy").astype(float), np.load("y.npy")
    told = call("fit", *FILES, "--ridge", "0.5", "--standardise", "--out", "w.npy")
    assert told.exit_code == 0, told.output
    weights, report = np.load("w.npy"), json.loads((folder / "w.report.json").read_text())
    inside = pc.fit_erm((X - X.mean(0)) / X.std(0), y, ridge=0.5).weights
    np.testing.assert_allclose(weights, inside / X.std(0)[:, None], rtol=1e-5, atol=1e-7)
    fields = X @ weights / np.sqrt(40) + report["offset"]
    np.testing.assert_allclose(
        fields, (X - X.mean(0)) / X.std(0) @ inside / np.sqrt(40), rtol=1e-4, atol=1e-5
    )
    assert np.mean(fields.argmax(1) != y) == report["training_error"]


def test_message_passing_on_files_and_on_sparse_ones(folder):
    told = call("amp", *FILES, "--standardise", "--noise", "gaussian:0.2", "--checkpoint", "c.npz")
    assert told.exit_code == 0, told.output
    report = json.loads((folder / "weights.report.json").read_text())
    assert report["status"] == "ok"
    assert report["residual"] < 1e-8
    assert (folder / "c.npz").exists()
    X = scipy.sparse.random(300, 40, 0.2, format="csr", random_state=0)
    scipy.sparse.save_npz("S.npz", X)
    assert call("fit", "--data", "S.npz", "--labels", "y.npy").exit_code == 0
    plain = pc.fit_erm(X.toarray(), np.load("y.npy")).weights
    np.testing.assert_allclose(np.load("weights.npy"), plain, atol=1e-7 * np.abs(plain).max())


@pytest.mark.slow
def test_parquet_and_zarr_through_dask(folder):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("dask.dataframe")
    X = np.load("X.npy").astype(float)
    pd.DataFrame(X, columns=[f"x{i}" for i in range(40)]).to_parquet("X.parquet")
    assert call("fit", "--data", "X.parquet", "--labels", "y.npy").exit_code == 0
    plain = pc.fit_erm(X, np.load("y.npy")).weights
    np.testing.assert_allclose(np.load("weights.npy"), plain, atol=1e-7 * np.abs(plain).max())
    pytest.importorskip("zarr")
    import dask.array

    dask.array.from_array(X, chunks=(100, -1)).to_zarr("X.zarr")
    assert call("fit", "--data", "X.zarr", "--labels", "y.npy", "--out", "z.npy").exit_code == 0
    np.testing.assert_allclose(np.load("z.npy"), plain, atol=1e-7 * np.abs(plain).max())


def test_bad_files_are_a_sentence_and_nothing_is_written(folder):
    X, y = np.load("X.npy"), np.load("y.npy")
    np.save("short.npy", y[:10])
    np.save("whole.npy", X.astype(np.int16))
    np.save("cut.npy", X)
    os.truncate("cut.npy", 128 + 160 * 200)
    np.save("hole.npy", np.where(np.arange(300)[:, None] == 77, np.nan, X))
    (folder / "text.npy").write_text("no array")
    (folder / "X.csv").write_text("1,2")
    np.save("objects.npy", np.array([{}], dtype=object))
    for name, message in [
        ("whole.npy", "memory map of int16 entries, rows 0 to 299"),
        ("cut.npy", "cut short: of 300 rows, 200 to 299 are missing"),
        ("hole.npy", "row 77 has NaN.*block of rows 0 to 299"),
        ("text.npy", "is no array of numpy"),
        ("objects.npy", "is no array of numpy"),
        ("nothing.npy", "cannot read the samples"),
        ("X.csv", "must end in .npy, .npz, .zarr, .parquet"),
    ]:
        for command in (("fit",), ("amp",), ("fit", "--standardise")):
            sentence = refused(*command, "--data", name, "--labels", "y.npy")
            assert re.search(message, sentence), sentence
    assert "one label for each of the 300" in refused("fit", *FILES[:3], "short.npy")
    both = refused("fit", "--data", "a.npy", "--labels", "b.npy")
    assert "the samples 'a.npy' and the labels 'b.npy': there is no such file" in both
    assert "give both --data, the file of the samples" in refused("amp", "--labels", "y.npy")
    assert "does not exist" in refused("fit", *FILES, "--out", "a/b.npy")
    assert "written as .npy" in refused("fit", *FILES, "--out", "w.txt")
    assert "the workers of --cluster read .zarr or .parquet" in refused(
        "fit", *FILES, "--cluster", "tcp://x:1"
    )


def test_control_c_before_there_are_weights_is_a_word_and_nothing_is_written(
    folder, monkeypatch, capsys
):
    def stop(*given, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr("polyceptron.fit.erm.fit_erm", stop)
    monkeypatch.setattr("sys.argv", ["polyceptron", "fit", *FILES])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 130
    assert capsys.readouterr().err.splitlines()[-1] == "polyceptron: stopped"
    assert sorted(os.listdir()) == ["X.npy", "y.npy"]


LABELS = {
    "NaN": np.where(np.arange(300) == 7, np.nan, np.arange(300) % 3),
    "infinity": np.where(np.arange(300) == 7, np.inf, np.arange(300) % 3),
    "continuous": np.arange(300) / 7,
    "complex": np.arange(300) % 3 + 0j,
    "dates": (np.arange(300) % 3).astype("datetime64[D]"),
    "times": (np.arange(300) % 3).astype("timedelta64[s]"),
    "no axis": np.array(1),
    "bytes": np.array([b"a", b"b", b"c"] * 100),
    "records": np.zeros(300, dtype=[("a", int), ("b", float)]),
    "several": np.eye(3, dtype=int)[np.arange(300) % 3],
    "one class": np.zeros(300, int),
    "one class of text": np.full(300, "a"),
    "too few": np.arange(200) % 3,
}


@pytest.mark.parametrize("case", LABELS)
def test_what_are_no_labels_is_a_sentence_and_nothing_is_written(folder, case):
    np.save("labels.npy", LABELS[case])
    np.savez("table.npz", X=np.load("X.npy"), y=LABELS[case])
    files = ("--data", "X.npy", "--labels", "labels.npy")
    for command in (("fit",), ("fit", "--ridge", "auto"), ("fit", "--standardise"), ("amp",)):
        assert "\n" not in refused(*command, *files)
    for ridge in ("auto", "1"):
        refused("fit", "--data", "table.npz", "--target", "y", "--ridge", ridge)
    assert "\n" not in refused("data", "table.npz")


def test_true_and_false_are_labels_at_the_shell(folder):
    np.save("labels.npy", np.load("y.npy") > 0)
    for ridge in ("1", "auto"):
        told = call("fit", *FILES[:3], "labels.npy", "--ridge", ridge)
        assert told.exit_code == 0, told.output
        assert json.loads((folder / "weights.report.json").read_text())["classes"] == [False, True]


def save_sparse(path, **change):
    X = scipy.sparse.random(300, 40, 0.2, format="csr", random_state=0)
    arrays = {"format": np.array(b"csr"), "shape": np.array(X.shape), "data": X.data}
    np.savez(path, **(arrays | {"indices": X.indices, "indptr": X.indptr} | change))
    return X


def test_damaged_sparse_files_are_a_sentence_and_nothing_is_written(folder):
    X = save_sparse("good.npz")
    backwards = np.r_[0, X.indptr[1:-1][::-1], X.indptr[-1]]
    for change, message in (
        ({"indices": X.indices + 40}, "must be from 0 to 39"),
        ({"indices": X.indices - 1}, "must be from 0 to 39"),
        ({"indices": X.indices + 0.5}, "'indices' must hold whole numbers, got float64"),
        ({"indices": X.indices[:-1]}, "same size"),
        ({"indptr": backwards}, "never decrease"),
        ({"indptr": X.indptr[:-1]}, "index pointer"),
        ({"shape": np.array([300, 10**13])}, "memory allows"),
        ({"shape": np.array([True, True])}, "'shape' must hold whole numbers, got bool"),
        ({"data": X.data.astype(object)}, "allow_pickle"),
        ({"data": X.data + 1j}, "real numbers, got complex128"),
    ):
        save_sparse("S.npz", **change)
        for command in (("fit",), ("fit", "--ridge", "auto"), ("amp",)):
            sentence = refused(*command, "--data", "S.npz", "--labels", "y.npy")
            assert message in sentence, sentence
            assert "\n" not in sentence


@pytest.mark.parametrize("command", [("fit",), ("fit", "--ridge", "auto")], ids=" ".join)
def test_a_sparse_file_with_indices_out_of_range_ends_with_code_2(folder, command):
    X = save_sparse("S.npz")
    save_sparse("S.npz", indices=X.indices + 5 * 10**8)
    words = [*command, "--data", "S.npz", "--labels", "y.npy"]
    ended = subprocess.run(
        [sys.executable, "-m", "polyceptron", *words], capture_output=True, text=True
    )
    assert ended.returncode == 2, ended
    assert ended.stderr.count("\n") == 1
    assert "damaged sparse matrix" in ended.stderr
    assert not (folder / "weights.npy").exists()


def test_a_header_whose_shape_is_no_shape_is_a_sentence(folder):
    for shape in ("(True, 40)", "(300, True)", "(-1, 40)"):
        header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}}}\n".encode()
        start = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little")
        (folder / "odd.npy").write_bytes(start + header + bytes(8 * 300 * 40))
        assert f"the shape {shape}" in refused("fit", "--data", "odd.npy", "--labels", "y.npy")


def test_a_header_with_an_open_bracket_is_a_sentence(folder):
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (300, 40}\n"
    start = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little")
    (folder / "odd.npy").write_bytes(start + header + bytes(8 * 300 * 40))
    with zipfile.ZipFile("odd.npz", "w") as archive:
        archive.write("odd.npy", "data.npy")
    for name in ("odd.npy", "odd.npz"):
        sentence = refused("fit", "--data", name, "--labels", "y.npy")
        assert "a bracket that is never closed" in sentence


def test_a_packed_array_that_cannot_be_unpacked_is_a_sentence(folder):
    """The first byte of the packed numbers announces a kind of block that does not exist."""
    arrays = {"X": np.ones((300, 40)), "target": np.arange(300) % 2}
    np.savez_compressed("packed.npz", **arrays)
    with zipfile.ZipFile("packed.npz") as archive:
        offset = archive.getinfo("X.npy").header_offset
    content = bytearray((folder / "packed.npz").read_bytes())
    name_length, extra_length = struct.unpack_from("<HH", content, offset + 26)
    content[offset + 30 + name_length + extra_length] = 0x07
    (folder / "packed.npz").write_bytes(content)
    for words in (
        ("fit", "--data", "packed.npz", "--labels", "y.npy"),
        ("data", "packed.npz", "--target", "target"),
    ):
        assert "damaged" in refused(*words)


def test_weights_and_report_appear_together_or_not_at_all(folder, monkeypatch):
    """A report that cannot be written leaves no weights, and what was there before stays."""
    assert call("fit", *FILES).exit_code == 0
    before = {name: (folder / name).read_bytes() for name in os.listdir()}

    def full(*given, **more):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.write_text", full)
        failed = call("fit", *FILES, "--ridge", "3").exception
    assert isinstance(failed, pc.InvalidInput)
    assert "weights.report.json" in str(failed)
    assert {name: (folder / name).read_bytes() for name in os.listdir()} == before
