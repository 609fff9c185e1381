"""Standard streams that are closed, full, or of another encoding, and files that cannot be written.

Each command runs in a process of its own, since its streams are those of a process.
"""

import contextlib
import errno
import io
import json
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import polyceptron as pc
from polyceptron.cli import _run, app, streams
from polyceptron.cli.tables import print_table
from polyceptron.lab.engine import LocalEngine

CURVE = ("curve", "-k", "2", "-a", "1")
RIDGE = ("ridge", "-k", "2", "-a", "2", "--ridge", "0.1,1", "-e", "square")
SWEEP = """
[[grid]]
classes = 2
sources = ["theory"]
estimators = ["square"]
ridge = [0.1]
alpha = [1.0]
"""
READER_GONE = 128 + 13  # what a shell shows for a program that SIGPIPE ended


def start(*arguments, closed=(), environment=None, file_bytes=None, **streams):
    """Run the program, without the descriptors `closed`, with files of at most `file_bytes`."""

    def prepare():
        for descriptor in closed:
            os.close(descriptor)
        if file_bytes is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))

    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams
    usual = {"OMP_NUM_THREADS": "1", "COLUMNS": "80", "PYTHONUNBUFFERED": ""}
    return subprocess.run(
        [sys.executable, "-m", "polyceptron", *map(str, arguments)],
        env=os.environ | usual | (environment or {}),
        preexec_fn=prepare,
        timeout=120,
        **given,
    )


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with samples, their labels and a sweep."""
    monkeypatch.chdir(tmp_path)
    X, y, _ = pc.Teacher(3).sample(300, 40, 0)
    np.save("X.npy", X)
    np.save("y.npy", y)
    (tmp_path / "spec.toml").write_text(SWEEP)
    return tmp_path


@pytest.mark.parametrize("closed", [(2,), (0, 2)])
def test_rows_are_printed_without_standard_error(closed):
    ended = start(*CURVE, closed=closed)
    assert ended.returncode == 0
    assert b"0.254373" in ended.stdout


def test_a_file_is_written_without_standard_output(folder):
    ended = start(*CURVE, "--json", "--csv", "rows.csv", closed=(1,))
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert "0.25437" in (folder / "rows.csv").read_text()


def test_a_sweep_runs_without_streams(folder):
    arguments = ("sweep", "spec.toml", "--store", "runs.sqlite", "--workers", "1")
    assert start(*arguments, closed=(0, 1, 2)).returncode == 0
    stored = start("results", "runs.sqlite", "--json")
    assert len(json.loads(stored.stdout)) == 1


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "utf-8"])
@pytest.mark.parametrize("arguments", [("--help",), ("curve", "--help"), RIDGE])
def test_every_encoding_shows_help_and_tables(arguments, encoding):
    ended = start(*arguments, environment={"PYTHONIOENCODING": encoding})
    assert (ended.returncode, ended.stderr) == (0, b"")
    text = ended.stdout.decode(encoding)
    assert "\\u" not in text
    assert max(map(len, text.splitlines())) <= 80
    if encoding == "ascii" and arguments == RIDGE:
        head, rule = text.splitlines()[1:3]
        assert " +- " in head
        assert set(rule) == {"-"}
        numbers = text.splitlines()[3]
        # The column ends below its name.
        assert head.index("+- 99 %") + len("+- 99 %") == numbers.index("  ok")
    if encoding == "ascii" and arguments == ("--help",):
        assert "alpha = n/d" in text
        panels = [line for line in text.splitlines() if line.startswith(("|", "+"))]
        assert {len(line) for line in panels} == {80}  # the frame is whole


def test_what_no_table_of_ours_has_is_escaped():
    assert streams.shown_as("α = 1 ± 0.5, λ, é", "ascii") == "alpha = 1 +- 0.5, lambda, \\xe9"
    assert streams.shown_as("α ± é", "latin-1") == "alpha ± é"
    assert streams.shown_as("α \udcff", "utf-8") == "α \\udcff"  # a name that is not UTF-8


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", [(*CURVE, "--json"), CURVE, ("--help",), ("--version",)])
def test_a_reader_that_went_away_is_the_exit_code_of_a_broken_pipe(arguments, unbuffered):
    reading, writing = os.pipe()
    os.close(reading)
    ended = start(*arguments, stdout=writing, environment={"PYTHONUNBUFFERED": unbuffered})
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (READER_GONE, b"")


def test_files_are_written_although_the_reader_went_away(folder):
    reading, writing = os.pipe()
    os.close(reading)
    ended = start(*CURVE, "--json", "--csv", "rows.csv", "--plot", "plot.svg", stdout=writing)
    os.close(writing)
    assert ended.returncode == READER_GONE
    assert (folder / "rows.csv").exists()
    assert (folder / "plot.svg").exists()


def test_a_slow_reader_of_a_pipe_that_does_not_block_gets_everything():
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    code = (
        "import sys; from polyceptron.cli.streams import standard_streams\n"
        "with standard_streams():\n    sys.stdout.write('x' * 300_000)\n    sys.stdout.flush()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=writing) as process:
        os.close(writing)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(2)  # it waits for a reader
        with os.fdopen(reading, "rb") as file:
            assert len(file.read()) == 300_000
        assert process.wait(60) == 0


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_full_device_is_named_and_messages_do_not_matter(stream):
    with open("/dev/full", "wb") as full:
        ended = start(*RIDGE, **{stream: full})
    if stream == "stderr":
        assert ended.returncode == 0
        assert b"square" in ended.stdout
    else:
        sentence = b"polyceptron: cannot write standard output: No space left on device\n"
        assert (ended.returncode, ended.stderr) == (2, sentence)


@pytest.mark.parametrize(
    "arguments",
    [
        (*CURVE, "--plot", "plot.pdf"),
        ("plot", "rows.csv", "--out", "plot.pdf"),
        ("data", "t.csv", "--target", "label", "--html", "t.html"),
        ("figures", "--out", "pictures"),
    ],
)
def test_a_wrong_matplotlib_is_found_before_anything_is_computed(folder, arguments):
    (folder / "rows.csv").write_text("alpha,generalisation_error\n1,0.25\n2,0.2\n")
    (folder / "t.csv").write_text("a,label\n" + "1,x\n2,y\n" * 10)
    ended = start(*arguments, environment={"MPLBACKEND": "nope"})
    assert (ended.returncode, ended.stdout) == (2, b"")
    said = ended.stderr.decode()
    assert said.startswith("polyceptron: cannot draw: matplotlib does not start")
    assert "'nope' is not a valid value for backend" in said
    assert said.count("\n") == 1
    assert not (folder / "pictures").exists()


def test_without_a_picture_matplotlib_does_not_matter():
    assert start(*CURVE, environment={"MPLBACKEND": "nope"}).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((*CURVE, "--csv", "rows.csv"), "rows.csv"),
        ((*CURVE, "--json", "--csv", "rows.csv"), "rows.csv"),
        ((*CURVE, "--plot", "plot.pdf"), "plot.pdf"),
        ((*CURVE, "--plot", "plot.png"), "plot.png"),
        ((*RIDGE, "--plot", "plot.svg"), "plot.svg"),
    ],
)
def test_a_full_disk_names_the_file_and_the_rows_are_printed(folder, arguments, name):
    before = sorted(os.listdir())
    ended = start(*arguments, file_bytes=100)
    sentence = f"polyceptron: cannot write '{name}': File too large"
    assert ended.returncode == 2
    assert ended.stderr.decode().splitlines()[-1] == sentence
    assert b"0.25437" in ended.stdout or b"square" in ended.stdout
    assert sorted(os.listdir()) == before


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (("fit", "--data", "X.npy", "--labels", "y.npy", "--out", "w.npy"), "w.npy"),
        (("sweep", "spec.toml", "--store", "runs.sqlite", "--workers", "1"), "runs.sqlite"),
    ],
)
def test_a_full_disk_names_the_weights_and_the_store(folder, arguments, name):
    ended = start(*arguments, file_bytes=100)
    last = ended.stderr.decode().splitlines()[-1]
    assert ended.returncode == 2
    assert re.match(rf"polyceptron: cannot (write|create the store) '(.*/)?{name}': ", last)


def test_a_page_that_cannot_be_written_is_still_told(folder):
    rows = "".join(f"{i % 7},{i % 3},{'xy'[i % 2]}\n" for i in range(40))
    (folder / "t.csv").write_text("a,b,label\n" + rows)
    ended = start("data", "t.csv", "--target", "label", "--html", "t.html", file_bytes=2000)
    assert ended.returncode == 2
    assert ended.stderr.endswith(b"polyceptron: cannot write 't.html': File too large\n")
    assert b"40 samples of 2 features in 2 classes" in ended.stdout
    assert not (folder / "t.report.json").exists()


def test_a_fit_is_kept_where_its_checkpoint_cannot_be_written(folder):
    arguments = ("fit", "--data", "X.npy", "--labels", "y.npy", "--json")
    plain = start(*arguments, "--out", "plain.npy")
    size = (folder / "plain.npy").stat().st_size + 200  # a checkpoint is larger
    ended = start(*arguments, "--out", "w.npy", "--checkpoint", "c.npz", file_bytes=size)
    assert (plain.returncode, ended.returncode) == (0, 0)
    np.testing.assert_array_equal(np.load("w.npy"), np.load("plain.npy"))
    said = ended.stderr.decode().splitlines()
    assert said[0].startswith("warning: cannot write 'c.npz': File too large")
    assert sum("c.npz" in line for line in said) == 1
    assert not (folder / "c.npz").exists()


def test_workers_without_shared_memory_are_a_sentence_with_the_folder(monkeypatch):
    def fail(*arguments, **more):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr("joblib.externals.loky.process_executor.ProcessPoolExecutor", fail)
    with pytest.raises(pc.ComputationFailed, match=r"/dev/shm.*Read-only file system"):
        LocalEngine(1, print).submit(None)


def test_the_library_waits_and_fits_in_a_process_without_streams(monkeypatch):
    from polyceptron.progress import waiting

    X, y, _ = pc.Teacher(2).sample(50, 5, 0)
    monkeypatch.setattr(sys, "stderr", None)
    with waiting("fitting"):
        assert pc.fit_erm(X, y, verbose=2).status == "ok"


def test_names_in_data_are_no_commands_to_the_terminal(tmp_path, monkeypatch):
    """The name of a class or of a file could set the title of the window, or move the cursor."""
    monkeypatch.chdir(tmp_path)
    command = "\x1b]0;title\x07"
    rows = [f"{i % 7},{i % 5},u{command if i % 2 else ''}\n" for i in range(40)]
    Path("t.csv").write_text(f"a{command},b,y\n" + "".join(rows))
    told = CliRunner().invoke(app, ["data", "t.csv", "--target", "y"])
    assert told.exit_code == 0
    assert "u\\x1b]0;title\\x07" in told.stdout
    assert "\x1b" not in told.output
    name = f"rows{command}.csv"
    told = CliRunner().invoke(app, ["curve", "-a", "1", "--csv", name])
    assert (told.exit_code, "\x1b" in told.output) == (0, False)
    assert Path(name).exists()
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        assert _run(["curve", "-a", "1", "--csv", f"{name}/nowhere"]) == 2
    assert "\x1b" not in said.getvalue()


def test_cells_of_a_table_are_no_commands_to_the_terminal(capsys):
    print_table([{"estimator": "\x1b[2J", "status": "ok"}], ("estimator", "status"), "\x1b[1mtitle")
    assert "\x1b[2J" not in capsys.readouterr().out
