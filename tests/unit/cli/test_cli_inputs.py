"""What a command reads it never replaces: whatever name or link leads there, nothing is changed."""

from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import polyceptron as pc
from polyceptron.cli import app
from polyceptron.files import check_archive, check_outputs

SPEC = '[[grid]]\nsources = "theory"\nalpha = [1, 2]\n'
SAMPLES = ("--data", "X.npy", "--labels", "y.npy", "--out")
CURVE = ("curve", "-k", "3", "-a", "1", "--features", "spectrum.csv")


@pytest.fixture(scope="module")
def made(tmp_path_factory, instant_module):
    """The files that are read, made once."""
    place = tmp_path_factory.mktemp("inputs")
    X, y, _ = pc.Teacher(3).sample(60, 8, 0)
    np.save(place / "X.npy", X)
    np.save(place / "y.npy", y)
    (place / "t.csv").write_text(
        "a,b,label\n" + "".join(f"{r[0]},{r[1]},{k}\n" for r, k in zip(X, y, strict=True))
    )
    (place / "t.json").write_text("{}")
    (place / "spectrum.csv").write_text("eigenvalue,signal\n1.5,0.5\n0.5,0.5\n")
    (place / "spec.toml").write_text(SPEC)
    pc.run_sweep(place / "spec.toml", place / "runs.sqlite", workers=1)
    (place / "rows.pdf").write_text("alpha,generalisation_error\n1,0.3\n2,0.2\n")
    return place


@pytest.fixture
def folder(tmp_path, monkeypatch, made):
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    for name, ending in (("X", "npy"), ("t", "csv"), ("spectrum", "csv"), ("rows", "pdf")):
        os.symlink(f"{name}.{ending}", f"{name}-symlink.{ending}")
        os.link(f"{name}.{ending}", f"{name}-hard.{ending}")
    os.symlink("runs.sqlite", "link.sqlite")
    return tmp_path


def contents() -> dict[str, bytes]:
    return {name: Path(name).read_bytes() for name in os.listdir()}


@pytest.mark.parametrize(
    "arguments",
    [
        *[("fit", *SAMPLES, out) for out in ("X.npy", "y.npy", "X-symlink.npy", "X-hard.npy")],
        ("fit", *SAMPLES, "w.npy", "--checkpoint", "X.npy"),
        ("fit", *SAMPLES, "w.npy", "--checkpoint", "w.npy"),
        ("amp", *SAMPLES, "X.npy"),
        ("amp", *SAMPLES, "y.npy"),
        ("amp", "--features", "spectrum.csv", "--csv", "spectrum.csv", "-d", "50"),
        *[
            ("data", "t.csv", "--target", "label", "--html", out)
            for out in ("t.csv", "t-symlink.csv", "t-hard.csv")
        ],
        *[(*CURVE, "--csv", out) for out in ("spectrum.csv", "spectrum-hard.csv")],
        ("transitions", *CURVE[1:3], "--features", "spectrum.csv", "--csv", "spectrum.csv"),
        ("plan", "--error", "0.1", "--features", "spectrum.csv", "--csv", "spectrum-symlink.csv"),
        ("plot", "rows.pdf"),
        *[("plot", "rows.pdf", "--out", out) for out in ("rows-symlink.pdf", "rows-hard.pdf")],
        ("results", "runs.sqlite", "--csv", "runs.sqlite"),
        ("results", "runs.sqlite", "--csv", "runs.sqlite-wal"),
        ("results", "link.sqlite", "--parquet", "runs.sqlite"),
        ("merge", "link.sqlite", "--into", "runs.sqlite"),
        ("sweep", "spec.toml", "--store", "spec.toml"),
    ],
    ids=" ".join,
)
def test_an_input_is_never_replaced(folder, arguments) -> None:
    before = contents()
    error = CliRunner().invoke(app, list(arguments)).exception
    assert isinstance(error, pc.InvalidInput), error
    assert "the same file" in str(error)
    assert contents() == before


def test_what_lies_in_a_folder_of_samples_is_input_too(tmp_path) -> None:
    (tmp_path / "X.zarr" / "chunks").mkdir(parents=True)
    with pytest.raises(pc.InvalidInput, match="the same file"):
        check_outputs(tmp_path / "X.zarr" / "chunks" / "w.npy", inputs=[tmp_path / "X.zarr"])
    check_outputs(tmp_path / "w.npy", None, inputs=[tmp_path / "X.zarr", None, "power:1.2:100"])


@pytest.mark.parametrize("kind", ["zeros", "header"])
def test_an_archive_that_would_fill_the_memory_is_not_unpacked(tmp_path, kind) -> None:
    """Ten thousand petabytes in the header, or as many zeros as deflate holds in a few bytes."""
    path = tmp_path / "bomb.npz"
    np.savez_compressed(path, X=np.zeros((1000, 1000)), y=np.arange(1000) % 3)
    if kind == "header":
        with zipfile.ZipFile(path, "w") as archive, archive.open("X.npy", "w") as file:
            shape = {"shape": (10**9, 10**9), "fortran_order": False, "descr": "<f8"}
            np.lib.format.write_array_header_1_0(file, shape)
    share = 1e-4 if kind == "zeros" else 0.5
    with pytest.raises(pc.InvalidInput, match=r"would take .* GB, and this machine's memory"):
        check_archive(path, "table", share)
    if kind == "header":
        for command in (("data", path), ("fit", "--data", path, "--labels", "y.npy")):
            np.save(tmp_path / "y.npy", np.arange(3))
            error = CliRunner().invoke(app, [str(a) for a in command]).exception
            assert isinstance(error, pc.InvalidInput), error
    else:
        check_archive(path, "table")


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path, monkeypatch) -> None:
    """Spreadsheets begin a CSV file with one; every reader of CSV leaves it out."""
    monkeypatch.chdir(tmp_path)
    mark = "\ufeff"
    Path("spectrum.csv").write_text(mark + "eigenvalue,signal\n1.5,0.5\n0.5,0.5\n")
    assert pc.Teacher(3, features="spectrum.csv").features.eigenvalues.size == 2
    Path("spec.toml").write_text(mark + SPEC)
    assert pc.load_spec("spec.toml").grid[0].alpha == [1.0, 2.0]
    rows = "".join(f"{i % 7},{i % 3}\n" for i in range(60))
    Path("t.csv").write_text(mark + "label,b\n" + rows)
    told = CliRunner().invoke(app, ["data", "t.csv", "--target", "nothing"])
    assert "there are label, b" in str(told.exception).replace("'", "")
    Path("rows.csv").write_text(mark + "source,alpha,generalisation_error\ntheory,1,0.3\n")
    assert CliRunner().invoke(app, ["plot", "rows.csv", "--out", "rows.svg"]).exit_code == 0
