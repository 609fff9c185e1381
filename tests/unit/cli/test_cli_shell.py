"""What every command does at the shell: tables at 80 columns, files, progress, completion."""

import json
import os
import pty
import re
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from tests.references.known_values import PERCEPTRON
from typer.testing import CliRunner

import polyceptron as pc
from polyceptron import progress
from polyceptron.cli import app
from polyceptron.cli.tables import describe_teacher, print_table
from polyceptron.errors import InvalidInput
from polyceptron.lab.spec import parse_spec
from polyceptron.lab.sweep import run_sweep
from polyceptron.questions.ridge import ridge_parts

SWEEP = """
[[grid]]
classes = 2
sources = ["theory", "erm"]
estimators = ["square"]
ridge = [0.1, "optimal"]
alpha = [1.0]
dimension = [20]
instances = 2
"""


def shell(*arguments, columns=80):
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": str(columns)})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def store(tmp_path_factory, instant_module):
    path = tmp_path_factory.mktemp("shell") / "runs.sqlite"
    run_sweep(parse_spec(SWEEP), path, workers=1)
    return str(path)


COMMANDS = {
    "curve": ("curve", "-k", "2", "-a", "1,2"),
    "curve of all": (
        *("curve", "-k", "2", "-a", "1,2", "--noise", "flips:0.1"),
        *("-e", "bayes", "-e", "cross-entropy", "-e", "square"),
    ),
    "penalties": (
        *("curve", "-k", "2", "-a", "1", "--noise", "flips:0.1", "-e", "square"),
        *("--penalty", "elastic-net:0.1:0.5", "--penalty", "elastic-net:0.2:0.5"),
    ),
    "unequal": (
        *("curve", "-k", "2", "-a", "1", "-e", "square", "-e", "cross-entropy", "--intercept"),
        *("--mixture", "--separation", "2", "--shares", "0.7,0.3", "--tol", "1e-3"),
    ),
    "branches": ("curve", "-k", "2", "-a", "2.2", "--prior", "rademacher", "--branch", "all"),
    "transitions": ("transitions", "--model", "perceptron"),
    "separability": ("separability", "-k", "2", "--noise", "softmax:2"),
    "ridge": ("ridge", "-k", "2", "-a", "2", "--ridge", "0.1,1", "--noise", "gaussian:0.1"),
    "asymptotics": ("asymptotics", "-k", "2", "-e", "cross-entropy", "--ridge", "1"),
    "plan": ("plan", "-k", "2", "--error", "0.1", "-d", "1000"),
    "plan for samples": ("plan", "-k", "2", "--samples", "2000", "-d", "1000"),
    "amp": ("amp", "-k", "2", "-d", "60", "--runs", "2", "--noise", "gaussian:0.5"),
    "trace": ("amp", "-k", "2", "-d", "60", "--trace", "--runs", "2"),
    "results": ("results", "STORE"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_number_is_whole_at_80_columns(name, store):
    text = shell(*(store if word == "STORE" else word for word in COMMANDS[name]))
    lines = [line for line in text.splitlines() if store not in line]
    assert max(map(len, lines)) <= 80
    assert "…" not in text
    assert "nan" not in text  # a number that there is not is an empty cell
    assert len(lines) >= 1
    if name == "penalties":  # what tells the rows apart is shown
        assert all(f"elastic-net:{x}:0.5" in text for x in (0.1, 0.2))


def test_what_has_no_room_is_named_and_not_cut(capsys):
    row = {"alpha": 1.0, "q": 0.123456789, "generalisation_error": 0.25, "note": "x" * 70}
    print_table([row], ("alpha", "q", "generalisation_error", "note"), optional=("note", "q"))
    shown = capsys.readouterr().out
    assert "0.25" in shown
    assert "0.123457" in shown  # leaving out the note is enough
    assert "x" * 10 not in shown
    assert "too wide for the table: note" in shown


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("ridge", "is_best"),
        ("plan", "alpha_uncertainty at_jump"),
        ("amp", "m_standard_error"),
        ("trace", "theory_q"),
        ("curve of all", "clean_error"),
        ("curve", "noise"),
        ("asymptotics", "exact_constant"),
        ("separability", "alpha_s"),
        ("transitions", "noise"),
        ("plan for samples", "n_samples"),
    ],
)
def test_csv_has_every_column_of_the_json(name, columns, tmp_path):
    path = tmp_path / "rows.csv"
    arguments = [*COMMANDS[name], "--json", "--csv", str(path)]
    rows = json.loads(shell(*arguments))
    table = pd.read_csv(path)
    assert set(columns.split()) <= set(table)
    wanted = {key for row in rows for key, value in row.items() if not isinstance(value, list)}
    assert wanted <= set(table.columns)
    assert len(table) == len(rows)


def test_both_answers_where_the_target_lies_inside_a_jump():
    rows = json.loads(
        shell(
            "plan",
            "--model",
            "perceptron",
            "--prior",
            "rademacher",
            "--error",
            "0.1",
            "-e",
            "bayes",
            "--json",
        )
    )
    assert [row["branch"] for row in rows] == ["optimal", "amp"]
    assert rows[0]["alpha"] == pytest.approx(PERCEPTRON.alpha_it, abs=1e-5)
    assert rows[1]["alpha"] == pytest.approx(PERCEPTRON.alpha_algo, abs=1e-5)
    assert all(row["at_jump"] for row in rows)


def test_many_shares_are_not_cut_in_a_title():
    text = describe_teacher(pc.Mixture((0.7, *[0.3 / 19] * 19), separation=2))
    assert "shares as given" in text
    assert "shares equal" in describe_teacher(pc.Mixture((1 / 3,) * 3, separation=2))
    assert "…" not in text


def test_samples_and_error_are_inverse_questions():
    (there,) = json.loads(shell("plan", "-k", "2", "--error", "0.2", "-e", "square", "--json"))
    n = round(there["alpha"] * 100_000)
    (back,) = json.loads(
        shell("plan", "-k", "2", "-n", str(n), "-d", "100000", "-e", "square", "--json")
    )
    assert back["generalisation_error"] == pytest.approx(0.2, abs=1e-4)
    assert (back["n_samples"], back["dimension"]) == (n, 100_000)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("plan",), "give --error, the error to reach, or --samples and --dimension"),
        (("plan", "--samples", "10"), "--samples needs --dimension"),
        (("plan", "--samples", "10", "-d", "5", "--error", "0.1"), "not both"),
        (("plan", "--samples", "0", "-d", "5"), "samples must be a whole number"),
        (("separability", "-k", "3", "--noise", "flips:0.9"), "leaves no rule among 3 classes"),
        (("curve", "-k", "3", "-a", "1", "--noise", "pink"), "unknown noise"),
        (("curve", "-k", "3", "-a", "1", "--noise", "gaussian:-1"), "variance of gaussian noise"),
        (("curve", "-k", "3", "-a", "1", "--noise", "softmax:0"), "slope of a softmax teacher"),
        (("transitions", "-k", "3", "--noise", "flips"), "must be written flips:RATE"),
        (("amp", "--noise", "softmax:inf"), "slope of a softmax teacher"),
        (("asymptotics", "-e", "square", "--ridge", "0.1,1"), "or one penalty, got 0.1,1$"),
        (("separability", "--mixture", "--noise", "flips:0.1"), "no teacher: leave out --noise$"),
        (("figures", "--profile", "slow"), "unknown profile 'slow'"),
    ],
)
def test_bad_input_is_one_sentence(arguments, words):
    result = CliRunner().invoke(app, list(arguments))
    assert isinstance(result.exception, InvalidInput)
    assert re.search(words, str(result.exception))
    assert result.output == ""  # nothing else


def test_a_file_gets_one_line_of_progress_after_a_while(capsys, monkeypatch):
    monkeypatch.setattr(progress, "SECONDS_TO_FIRST_LINE", 0.05)
    with progress.waiting("first") as show:
        show("looking for the best ridge")
        time.sleep(0.3)
    with progress.waiting("quick"):
        pass
    assert capsys.readouterr().err == "looking for the best ridge ...\n"


def test_parts_of_parts_are_one_share_with_a_time_left(capsys, monkeypatch):
    monkeypatch.setattr(progress, "SECONDS_TO_FIRST_LINE", 0.2)
    with progress.waiting("solving"):
        for part in progress.steps(iter("ab"), 2):
            for _ in progress.steps(range(4)):
                if part == "b":
                    break
            if part == "b":
                time.sleep(0.5)
    assert re.fullmatch(r"solving: 50 %, at least \d\.\d s left \.\.\.\n", capsys.readouterr().err)
    assert list(progress.steps([1, 2])) == [1, 2]  # where nobody listens
    with progress.waiting("begun"):
        for part in progress.steps(range(1000)):
            if part == 2:
                time.sleep(0.5)
                break
    assert capsys.readouterr().err == "begun ...\n"  # a time left would be a guess


@pytest.mark.parametrize(
    "compute",
    [
        lambda: pc.asymptotics(pc.Teacher(2), "square"),
        lambda: pc.transitions(pc.Teacher(2, "rademacher")),
        lambda: pc.separability(pc.Teacher(2, noise="flips:0.1")),
        lambda: pc.separability(pc.Teacher(3, noise="flips:0.1", shares=(0.5, 0.3, 0.2))),
        lambda: pc.learning_curve(pc.Teacher(2), "square", [1, 2, 3]),
        lambda: list(ridge_parts(pc.Teacher(2), "square", [1.0], [0.1, 1.0])),
    ],
)
def test_theory_tells_how_much_of_it_is_done(compute):
    shares = []
    whole = progress.Share(shares.append)
    token = progress._share_of_this_code.set(whole)
    compute()
    assert progress._share_of_this_code.get() is whole
    progress._share_of_this_code.reset(token)
    assert shares
    assert max(shares) <= 1


def seen_on_a_terminal(code: str) -> bytes:
    """What a program of Python writes to standard error, if that is a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", code], stderr=theirs) as process:
        process.wait()
    os.close(theirs)
    seen = b""
    try:
        while chunk := os.read(ours, 4096):
            seen += chunk
    except OSError:  # how Linux says that the other end is closed
        pass
    os.close(ours)
    return seen


@pytest.mark.process
def test_a_terminal_gets_a_spinner():
    seen = seen_on_a_terminal(
        "import time; from polyceptron.progress import waiting\n"
        "with waiting('counting'):\n    time.sleep(0.4)"
    )
    assert b"counting" in seen


@pytest.mark.process
def test_a_terminal_sees_time_pass_within_a_part():
    seen = seen_on_a_terminal(
        "import time; from polyceptron import progress\n"
        "progress.SECONDS_TO_TIME_SO_FAR = 0.3\n"
        "with progress.waiting('counting'):\n"
        "    for part in progress.steps(range(2)):\n"
        "        time.sleep(0.8 + 1.2 * part)"
    )
    assert re.search(rb"counting, \d\.\d s so far", seen)  # the first part
    assert re.search(rb"counting: 50 %, at least \d\.\d s left", seen)  # the second is longer


@pytest.mark.process
def test_results_go_into_their_file_while_a_terminal_shows_progress(tmp_path):
    ours, theirs = pty.openpty()
    code = (
        "from polyceptron.progress import waiting\nwith waiting('counting'):\n    print('a result')"
    )
    path = tmp_path / "results.txt"
    with path.open("w") as file:
        subprocess.run([sys.executable, "-c", code], stdout=file, stderr=theirs, check=True)
    os.close(theirs)
    os.close(ours)
    assert path.read_text() == "a result\n"


@pytest.mark.process
@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("polyceptron cur", "curve"),
        ("polyceptron curve --noise sof", "softmax:"),
        ("polyceptron curve --prior rade", "rademacher"),
        ("polyceptron plan --estimator max", "max-margin"),
    ],
)
def test_the_shell_completes_registered_names(line, wanted):
    environment = {
        "_POLYCEPTRON_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split()) - 1),
    }
    if wanted == "softmax:":  # as the shell asks
        program = Path(sys.executable).with_name("polyceptron")
        found = subprocess.run(
            [str(program)], env=os.environ | environment, capture_output=True, text=True
        ).stdout
    else:
        found = CliRunner().invoke(app, [], env=environment, prog_name="polyceptron").stdout
    assert wanted in found.split()


@pytest.mark.parametrize("command", [[], *([name] for name in ("curve", "sweep", "explore"))])
def test_help_says_what_is_typed(command):
    text = shell(*command, "--help")
    assert max(map(len, text.splitlines())) <= 80
    assert "<bool>" not in text  # a flag takes no value
    if command == ["curve"]:
        for form in ("finite[value:probability;...]", "power:A:D[:B]", "softmax:SLOPE"):
            assert form in text
