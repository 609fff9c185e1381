"""--features at the shell and in sweeps: rows that say so, data that have them, and bad input."""

from __future__ import annotations

import json

import numpy as np
import pytest
from test_cli_theory import run

import polyceptron as pc
from polyceptron.lab.results import summary
from polyceptron.lab.spec import parse_spec
from polyceptron.lab.sweep import run_sweep
from polyceptron.lab.tasks import expand
from polyceptron.store import Store

TWO = "levels:4x0.2,0.25x0.8"


def test_rows_carry_the_features_and_their_numbers():
    code, out, err = run(
        "curve", "-k", 3, "--alpha", 2, "-e", "bayes", "-e", "square", "--features", TWO, "--json"
    )
    assert code == 0
    assert "divided by 1 to mean" not in err
    rows = json.loads(out)
    assert {row["features"] for row in rows} == {TWO}
    best = pc.fixed_points(pc.Teacher(3, features=TWO), 2.0, branch="optimal")[0]
    assert rows[0]["generalisation_error"] == best.generalisation_error
    code, out, _ = run("curve", "-k", 3, "--alpha", 2, "--json")
    assert "features" not in json.loads(out)[0]


def test_the_normalisation_is_printed():
    _, _, err = run("curve", "-k", 3, "--alpha", 2, "-e", "square", "--features", "power:1:4")
    mean = np.mean([1, 1 / 2, 1 / 3, 1 / 4])
    assert f"eigenvalues divided by {mean:.6g} to mean 1" in err


@pytest.mark.parametrize(
    "command",
    [
        ("ridge", "--alpha", 2, "-e", "square", "--ridge", "0.1,1"),
        ("plan", "-k", 3, "--error", 0.3, "-e", "square", "--ridge", "1"),
        ("separability", "-k", 2, "--noise", "flips:0.1"),
        ("asymptotics", "-k", 2, "-e", "bayes"),
        ("amp", "-k", 2, "--alpha", 2, "-d", 60),
    ],
)
def test_every_command_takes_them(command):
    code, out, _ = run(*command, "--features", TWO)
    assert code == 0
    assert out


@pytest.mark.parametrize("table", ["a,b\n1,2\n", "eigenvalue,signal\n-1,1\n", ""])
def test_a_bad_file_is_exit_2_and_one_sentence(tmp_path, table):
    path = tmp_path / "bad.csv"
    path.write_text(table)
    for features in (path, "nowhere.csv", "levels:0x1", "power:1:2:3:4"):
        code, out, err = run("curve", "-k", 3, "--alpha", 1, "--features", features)
        assert (code, out) == (2, "")
        assert len(err.strip().splitlines()) <= 3
        assert "Traceback" not in err


SPEC = f"""
[[grid]]
classes = 2
features = ["isotropic", "{TWO}"]
sources = ["theory", "erm", "amp"]
estimators = ["square", "bayes"]
ridge = 0.5
alpha = [2.0]
dimension = 150
instances = 4
"""


def test_a_sweep_keeps_spectra_apart_and_confirms_each(tmp_path, instant):
    tasks = list(expand(parse_spec(SPEC)))
    keys = {key for task in tasks for key in task.keys}
    assert len(keys) == 2 * (2 + 2 * 4)
    plain = {
        key for task in expand(parse_spec(SPEC.replace(f', "{TWO}"', ""))) for key in task.keys
    }
    assert plain < keys  # rows of independent features are where they were
    seeds = {tuple(task.cases[0]["seed_path"]) for task in tasks if "seed_path" in task.cases[0]}
    assert len(seeds) == 8
    run_sweep(parse_spec(SPEC), tmp_path / "spectra.db", workers=1)
    with Store(tmp_path / "spectra.db") as store:
        lines = summary(store)
    assert {line.get("features") for line in lines} == {None, TWO}
    found = {}
    for line in lines:
        assert abs(line["mean"] - line["theory"]) < 5 * line["standard_error"] + 0.03
        found.setdefault(line["estimator"], []).append(line["theory"])
    for two in found.values():
        assert abs(two[0] - two[1]) > 0.02
