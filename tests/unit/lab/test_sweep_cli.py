"""The sweep command with the real work: rows, exit codes, Ctrl-C."""

from __future__ import annotations

import os
import shlex
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from programs import Program, assert_nothing_left, command, shell
from typer.testing import CliRunner

from polyceptron.cli import app
from polyceptron.errors import InvalidInput
from polyceptron.lab.results import summary
from polyceptron.lab.spec import parse_spec
from polyceptron.lab.sweep import run_sweep, sweep_rows
from polyceptron.problem import Teacher
from polyceptron.store import Store

# Sweeps of this process use no workers; what `shell` starts does.
pytestmark = [pytest.mark.usefixtures("instant"), pytest.mark.process, pytest.mark.slow]
SPEC = """
[sweep]
name = "real"
seed = 5
[[grid]]
classes = 3
prior = {prior}
sources = {sources}
estimators = {estimators}
ridge = [0.1, 2.0]
alpha = [0.5, 2]
dimension = {dimension}
instances = {instances}
"""
SMALL = {
    "prior": '["gaussian", "rademacher"]',
    "sources": '"erm"',
    "estimators": '["square", "cross-entropy", "max-margin"]',
    "dimension": 40,
    "instances": 1,
}


def write(folder: Path, **changes: object) -> Path:
    path = folder / "spec.toml"
    path.write_text(SPEC.format(**{**SMALL, **changes}))
    return path


def test_rows_of_real_work_here_and_in_two_workers(tmp_path: Path) -> None:
    spec = write(tmp_path)
    here, there = tmp_path / "here.sqlite", tmp_path / "there.sqlite"
    ended = shell("sweep", spec, "--store", there, "--workers", 2)
    assert ended.returncode == 0, ended.stderr
    assert "20 rows: 0 were stored, 20 computed" in ended.stderr
    run_sweep(spec, here, workers=1)
    tables = [sweep_rows(spec, path) for path in (here, there)]
    assert tables[0] == tables[1]
    square = [row for row in tables[0] if row["estimator"] == "square"]
    assert len(square) == 8
    for row in square:  # drawn again from its seed, solved by the normal equations
        d, ridge = row["dimension"], row["ridge"]
        data = Teacher(3, row["prior"]).sample(row["n_samples"], d, row["seed"])
        A, Y = data.X / np.sqrt(d), np.eye(3)[data.y]
        W = np.linalg.solve(A.T @ A + ridge * np.eye(d), A.T @ Y)
        W, W_star = (M - M.mean(1, keepdims=True) for M in (W, data.weights))
        assert row["q"] == pytest.approx(np.sum(W**2) / (2 * d), rel=1e-7)
        assert row["m"] == pytest.approx(np.sum(W * W_star) / (2 * d), rel=1e-7)


def test_theory_message_passing_and_erm_in_one_sweep(tmp_path: Path) -> None:
    spec = parse_spec(
        SPEC.format(
            prior='"gaussian"',
            sources='["theory", "amp", "erm"]',
            estimators='["bayes", "square"]',
            dimension=300,
            instances=4,
        )
    )
    path = tmp_path / "runs.sqlite"
    assert run_sweep(spec, path, workers=1).failed == 0
    rows = sweep_rows(spec, path)
    drawn = {s: {r["seed"] for r in rows if r["source"] == s} for s in ("amp", "erm")}
    assert len(drawn["amp"]) == 8
    assert drawn["amp"] == drawn["erm"]  # the same data for both
    with Store(path) as store:
        lines = summary(store)
    assert len(lines) == 2 * (1 + 2)
    for line in lines:  # a finite dimension is off by O(1/d), an instance by O(1/√d)
        assert abs(line["mean"] - line["theory"]) < 0.05
    best = {line["alpha"]: line["theory"] for line in lines if line["estimator"] == "bayes"}
    assert all(line["theory"] >= best[line["alpha"]] - 1e-9 for line in lines)


HARD = """
[[grid]]
classes = 3
prior = "rademacher"
sources = ["theory", "amp"]
alpha = [2.5]
dimension = [500]
instances = 6
{more}
"""


def test_message_passing_agrees_with_its_own_branch_in_the_hard_phase(tmp_path: Path) -> None:
    """At α = 2.5 perfect learning is possible (α_IT = 2.39) and message passing does not find it.

    Against what is possible it stands tens of standard errors away; against its own branch within
    chance: Student's t of five degrees of freedom is beyond 10 once in 6000.
    """
    path = tmp_path / "runs.sqlite"
    grids = [HARD.format(more=more) for more in ("", 'branch = "optimal"')]
    run_sweep(parse_spec("[sweep]\nseed = 3" + "".join(grids)), path, workers=1)
    with Store(path) as store:
        lines = summary(store)
    (line,) = [line for line in lines if line["source"] == "amp"]
    (best,) = [line for line in lines if line["source"] == "theory"]
    assert (line["branch"], best["branch"]) == ("amp", "optimal")
    assert line["theory"] > best["theory"] + 0.05  # the gap between possible and found
    assert abs(line["deviation"]) < 10
    wrong = (line["mean"] - best["theory"]) / line["standard_error"]
    assert wrong > 10


def test_ctrl_c_says_how_to_resume_and_resuming_completes(tmp_path: Path) -> None:
    spec = write(tmp_path, estimators='"square"', instances=500)
    path = tmp_path / "my runs.sqlite"
    sweep = Program(command, "sweep", spec, "--store", path, "--workers", "1")
    deadline = time.monotonic() + 300
    while sweep.poll() is None and time.monotonic() < deadline:
        time.sleep(0.1)
        if path.exists():
            with Store(path) as store:
                if len(store):
                    break
    os.killpg(sweep.pid, signal.SIGINT)
    _, err = sweep.communicate()
    assert sweep.poll() == 130
    assert_nothing_left(sweep)
    assert "Traceback" not in err
    stopped, resume = err.strip().splitlines()[-2:]
    with Store(path) as store:
        store.check()
        done = len(store)
    assert stopped == f"stopped with {done} of 4000 rows stored"
    again = shlex.split(resume.removeprefix("resume with: "))
    assert again == ["polyceptron", "sweep", *again[2:]]
    write(tmp_path, estimators='"square"', instances=1)  # a smaller grid: all of it is stored
    assert CliRunner().invoke(app, again[1:]).exit_code == 0
    assert len(sweep_rows(spec, path)) == 8


def test_wrong_input_is_one_sentence_and_exit_code_2(tmp_path: Path) -> None:
    bad = write(tmp_path, instances=0)
    ended = shell("sweep", bad, "--store", tmp_path / "runs.sqlite")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == (
        "polyceptron: spec.toml, line 13, grid[1].instances: "
        "input should be greater than or equal to 1, got 0\n"
    )
    letter = tmp_path / "letter.sqlite"
    letter.write_text("Dear store,")
    for arguments in (("results", letter), ("sweep", write(tmp_path), "--store", letter)):
        with pytest.raises(InvalidInput, match=r"is not a store of results \(not an SQLite file"):
            CliRunner().invoke(app, [str(one) for one in arguments], catch_exceptions=False)
        assert letter.read_text() == "Dear store,"
