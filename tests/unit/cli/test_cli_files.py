"""`fit` and `amp` on files: weights and a report, or one sentence and nothing written."""

from __future__ import annotations

import json
import os
import re

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
    assert "--data and --labels go together" in refused("amp", "--labels", "y.npy")
    assert "does not exist" in refused("fit", *FILES, "--out", "a/b.npy")
    assert "written as .npy" in refused("fit", *FILES, "--out", "w.txt")
    assert "--cluster reads .zarr or .parquet" in refused("fit", *FILES, "--cluster", "tcp://x:1")


def test_control_c_before_there_are_weights_is_a_word_and_nothing_is_written(
    folder, monkeypatch, capsys
):
    def stop(*given, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr("polyceptron.algorithms.erm.fit.fit_erm", stop)
    monkeypatch.setattr("sys.argv", ["polyceptron", "fit", *FILES])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 130
    assert capsys.readouterr().err.splitlines()[-1] == "polyceptron: stopped"
    assert sorted(os.listdir()) == ["X.npy", "y.npy"]
