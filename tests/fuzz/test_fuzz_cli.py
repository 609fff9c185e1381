"""The command line under random arguments: an exit code and words, never a traceback."""

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from importlib import import_module
from pkgutil import walk_packages

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.main import get_command

import polyceptron
from polyceptron.cli import app, main

pytestmark = pytest.mark.slow

COMMANDS = (
    "curve",
    "transitions",
    "separability",
    "ridge",
    "asymptotics",
    "plan",
    "sets",
    "amp",
    "sweep",
    "results",
    "merge",
    "figures",
    "plot",
    "explore",
    "verify",
    "data",
    "fit",
    "",
)
# Words that mean something to some option, and some that mean nothing to any.
WORDS = st.one_of(
    st.sampled_from(
        [
            "-k",
            "--classes",
            "-a",
            "--alpha",
            "--prior",
            "--model",
            "-e",
            "--estimator",
            "--ridge",
            "--branch",
            "--tol",
            "--error",
            "--samples",
            "--noise",
            "--dimension",
            "--runs",
            "--seed",
            "--amp-variances",
            "--max-iter",
            "--alpha-max",
            "--store",
            "--into",
            "--only",
            "--profile",
            "--port",
            "--data",
            "--labels",
            "--target",
            "--features",
            "--workers",
            "--quantity",
            "--spec",
            "--json",
            "--trace",
            "--dry-run",
            "--help",
            "--full",
            "--x",
            "--y",
            "0",
            "1",
            "2",
            "3",
            "-1",
            "1.5",
            "1e400",
            "nan",
            "1:2:3",
            "2:1:3",
            "1:2:0",
            "1,,2",
            "::",
            "gaussian",
            "gaussian:1",
            "flips:",
            "softmax:2",
            "rademacher",
            "finite[1:.5;-1:.5]",
            "finite[",
            "bayes",
            "square",
            "optimal",
            "perceptron",
            "argmax",
            "shared",
            "all",
            "missing.toml",
            "missing/x.csv",
            "/",
            ".",
            "",
        ]
    ),
    st.text(max_size=6),
)


built = cache(get_command)  # all options of all commands: typer makes them for each call


def run(arguments):
    out, err, before = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["polyceptron", *arguments]
    try:
        with redirect_stdout(out), redirect_stderr(err):
            main()
        code = 0
    except SystemExit as stop:
        code = stop.code or 0
    finally:
        sys.argv = before
    return code, out.getvalue(), err.getvalue()


for found in walk_packages(polyceptron.__path__, "polyceptron."):
    import_module(found.name)  # before anything is replaced: modules keep what they import


@pytest.fixture(autouse=True)
def light(monkeypatch, tmp_path):
    """Parsing is what is tested here: the work behind each command becomes a rejection."""
    from polyceptron.errors import InvalidInput

    def stop(*_, **__):
        raise InvalidInput("computed")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("typer.main.get_command", built)
    for module, *names in (
        ("questions.curve_rows", "curve_parts"),
        ("questions.drawn_curve", "curve_parts"),
        ("theory.bayes.transitions", "transitions"),
        ("theory.separability", "separability"),
        ("theory.separability", "separability"),
        ("questions.ridge", "ridge_parts"),
        ("questions.asymptotics", "asymptotics"),
        ("questions.plan", "plan"),
        ("report.figures.making", "make_figures"),
        ("report.explorer.server", "serve"),
        ("report.verify.run", "verify"),
    ):
        for name in names:  # by module: some packages hold functions of their modules' names
            monkeypatch.setattr(import_module(f"polyceptron.{module}"), name, stop)


@settings(max_examples=40)
@given(st.sampled_from(COMMANDS), st.lists(WORDS, max_size=7))
def test_random_arguments_end_in_an_exit_code(command, words):
    code, out, err = run([command, *words] if command else words)
    assert code in (0, 1, 2)
    assert "Traceback" not in err
    if code == 2:
        assert (err + out).strip()


# Options with values that they take: what is tried is whether they go together.
TOGETHER = {
    "--classes": ["2", "3", "1"],
    "--model": ["argmax", "perceptron"],
    "--mixture": [None],
    "--shares": ["0.5,0.5", "0.7,0.2,0.1", "1"],
    "--biases": ["0,1", "0,1,2"],
    "--gram": ["1,0;0,1", "1,0.2;0.2,1", "1"],
    "--separation": ["2", "0"],
    "--variances": ["1,2", "1"],
    "--prior": ["gaussian", "rademacher"],
    "--intercept": [None],
    "--noise": ["flips:0.1", "softmax:2", "none"],
    "--features": ["power:1.2:10", "isotropic"],
    "--class-weight": ["balanced", "1,2", "1:5"],
    "--branch": ["amp", "all"],
    "--scores": [None],
    "--estimator": ["bayes", "cross-entropy", "max-margin", "lda", "one-vs-rest"],
    "--ridge": ["0", "0.1", "optimal", "0.1,1"],
    "--penalty": ["elastic-net:0.1:0.1", "ridge:1"],
    "--target": ["test-loss", "balanced-error"],
}
ASKED = st.lists(st.sampled_from(list(TOGETHER)), max_size=6, unique=True).flatmap(
    lambda names: st.tuples(*(st.sampled_from([(n, v) for v in TOGETHER[n]]) for n in names))
)


@cache
def known(command):
    return {option for one in built(app).commands[command].params for option in one.opts}


@settings(max_examples=30)
@given(st.sampled_from(["curve", "ridge", "separability"]), ASKED)
def test_options_that_may_not_go_together_end_in_a_sentence(command, asked):
    words = [
        word for pair in asked if pair[0] in known(command) for word in pair if word is not None
    ]
    code, _, err = run([command, *([] if command == "separability" else ["-a", "1"]), *words])
    assert code == 2  # the work itself is the last rejection
    assert err.strip()


@settings(max_examples=20)
@given(st.text(alphabet="0123456789.:,-+einfax ", max_size=12), st.sampled_from(["-a", "--ridge"]))
def test_random_numbers_end_in_a_sentence_or_an_answer(text, option):
    other = ("-a", "1") if option == "--ridge" else ()
    code, _, err = run(["curve", "-k", "3", "-e", "square", *other, f"{option}={text}"])
    assert code == 2  # the work itself is the last rejection
    assert len(err.strip().splitlines()) == 1 or "Usage" in err


@pytest.mark.parametrize("command", [name for name in COMMANDS if name])
def test_every_command_explains_itself(command):
    code, out, _ = run([command, "--help"])
    assert code == 0
    assert "Usage" in out


def test_every_command_is_fuzzed():
    named = {command.name or command.callback.__name__ for command in app.registered_commands}
    assert named == {name for name in COMMANDS if name}
