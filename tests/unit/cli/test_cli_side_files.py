"""Files whose names follow from another name: never in the place of a user's own file."""

import json
import os

import numpy as np
import pytest
from typer.testing import CliRunner

import polyceptron as pc
from polyceptron.cli import app

DATA = ("data", "t.csv", "--target", "label", "--html", "t.html")
FIT = ("fit", "--data", "X.npy", "--labels", "y.npy")
AMP = ("amp", "--data", "X.npy", "--labels", "y.npy", "--noise", "gaussian:0.2")
PLOT = ("plot", "rows.csv")
FIGURES = ("figures", "--only", "margins")
MINE = "my own"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with a table, samples and rows."""
    monkeypatch.chdir(tmp_path)
    X, y, _ = pc.Teacher(2).sample(80, 4, 0)
    np.save("X.npy", X)
    np.save("y.npy", y)
    lines = [f"{a:.3f},{b:.3f},{label}" for a, b, label in zip(X[:, 0], X[:, 1], y, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,label", *lines]) + "\n")
    (tmp_path / "rows.csv").write_text("alpha,generalisation_error\n1,0.25\n2,0.2\n")
    return tmp_path


def call(*arguments):
    return CliRunner().invoke(app, list(arguments))


def test_the_report_of_a_table_leaves_a_json_of_the_same_name_alone(folder):
    (folder / "t.json").write_text(MINE)
    ended = call(*DATA)
    assert ended.exit_code == 0, ended.output
    assert (folder / "t.json").read_text() == MINE
    assert json.loads((folder / "t.report.json").read_text("utf-8"))["numbers"]["n"] == 80
    assert "the numbers to t.report.json" in ended.stderr


def test_the_report_of_a_fit_leaves_a_json_of_the_same_name_alone(folder):
    (folder / "w.json").write_text(MINE)
    assert call(*FIT, "--out", "w.npy").exit_code == 0
    assert (folder / "w.json").read_text() == MINE
    assert json.loads((folder / "w.report.json").read_text())["status"] == "ok"


# A command, and the file that it would write under a name that was not given.
UNNAMED = [
    pytest.param(DATA, "t.report.json", id="data"),
    pytest.param((*FIT, "--out", "w.npy"), "w.report.json", id="fit"),
    pytest.param((*AMP, "--out", "w.npy"), "w.report.json", id="amp"),
    pytest.param(FIT, "weights.npy", id="fit without --out"),
    pytest.param(PLOT, "rows.pdf", id="plot without --out"),
    pytest.param(FIGURES, "figures/index.html", id="gallery"),
    pytest.param(FIGURES, "figures/margins.pdf", id="figure"),
    pytest.param((*FIGURES, "--out", "paper"), "paper/agreement.csv", id="agreement"),
]


@pytest.mark.parametrize(("command", "name"), UNNAMED)
def test_a_file_that_was_not_named_is_refused_before_any_work(folder, command, name):
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(MINE)
    before = sorted(folder.rglob("*"))
    error = call(*command).exception
    assert isinstance(error, pc.InvalidInput), error
    assert str(error) == (
        f"cannot write {name!r}: it exists and polyceptron did not make it. Move it, choose "
        "another name, or give --overwrite"
    )
    assert sorted(folder.rglob("*")) == before
    assert (folder / name).read_text() == MINE


@pytest.mark.parametrize(("command", "name"), UNNAMED[:5])  # figures: test_figures_parts
def test_overwrite_replaces_it(folder, command, name):
    (folder / name).write_text(MINE)
    ended = call(*command, "--overwrite")
    assert ended.exit_code == 0, ended.output
    assert (folder / name).read_bytes() != MINE.encode()


@pytest.mark.parametrize("command", [DATA, FIT, PLOT])
def test_the_same_command_again_replaces_what_it_made(folder, command):
    assert call(*command).exit_code == 0
    made = sorted(os.listdir())
    ended = call(*command)
    assert ended.exit_code == 0, ended.output
    assert sorted(os.listdir()) == made
