"""curve and transitions at the shell: what they print, what they write, and what they refuse."""

import csv
import io
import json
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

import pytest
from tests.references.known_values import PERCEPTRON

from polyceptron.cli import main
from polyceptron.problem import BayesOptimal, Teacher
from polyceptron.questions.curve_rows import curve_rows
from polyceptron.report.verify.known_values import BAYES


def run(*arguments):
    """Exit code, standard output and standard error of `polyceptron ARGUMENTS`, in this process."""
    out, err, before = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["polyceptron", *map(str, arguments)]
    try:
        with redirect_stdout(out), redirect_stderr(err):
            main()
        code = 0
    except SystemExit as stop:
        code = stop.code or 0
    finally:
        sys.argv = before
    return code, out.getvalue(), err.getvalue()


def test_curve_json_holds_the_theory_rows():
    code, out, err = run("curve", "-k", 3, "--alpha", "1,5", "--json")
    assert (code, err) == (0, "")
    rows = json.loads(out)
    assert [row["alpha"] for row in rows] == [1, 5]
    (known,) = [error for k, noise, a, error, _ in BAYES if (k, noise, a) == (3, "none", 1.0)]
    assert rows[0]["generalisation_error"] == pytest.approx(known, abs=1e-8)
    columns = {
        "source",
        "model",
        "n_classes",
        "prior",
        "noise",
        "estimator",
        "alpha",
        "branch",
        "m",
        "q",
        "V",
        "generalisation_error",
        "uncertainty",
        "free_entropy",
        "status",
        "version",
    }
    assert set(rows[0]) == columns
    assert rows[0]["status"] == "ok"


def test_an_option_that_takes_a_number_says_so():
    for option, takes in (("--classes", "a whole number"), ("--tol", "a number")):
        code, _, err = run("curve", "-a", 1, option, "two")
        assert code == 2
        assert err.startswith(f"polyceptron: {option} takes {takes}; see ")


def test_every_estimator_has_its_rows():
    code, out, _ = run(
        "curve", "-k", 2, "-a", "1:2:2", "-e", "bayes", "-e", "square", "-e", "max-margin", "--json"
    )
    rows = json.loads(out)
    assert code == 0
    assert [row["estimator"] for row in rows] == ["bayes"] * 2 + ["square"] * 2 + ["max-margin"] * 2
    assert [row["alpha"] for row in rows] == [1, 2] * 3
    best = min(rows, key=lambda row: (row["alpha"], row["generalisation_error"]))
    assert best["estimator"] == "bayes"


def test_curve_table_names_the_problem():
    code, out, _ = run("curve", "-k", 3, "-a", "2.6", "--prior", "rademacher", "--branch", "all")
    assert code == 0
    assert "k = 3, rademacher weights" in out
    for branch in ("optimal", "amp", "informed", "unstable"):
        assert branch in out


def test_curve_csv_reads_back(tmp_path):
    path = tmp_path / "rows.csv"
    code, out, err = run("curve", "-k", 2, "-a", "0,1", "--csv", path)
    assert (code, out) == (0, "")
    assert "2 rows" in err
    with path.open() as handle:
        rows = list(csv.DictReader(handle))
    expected = curve_rows(Teacher(2), BayesOptimal(), [0, 1])
    assert [float(r["generalisation_error"]) for r in rows] == [
        r["generalisation_error"] for r in expected
    ]


@pytest.mark.parametrize(("ending", "head"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_curve_draws(tmp_path, ending, head):
    path = tmp_path / f"curve.{ending}"
    code, _, err = run("curve", "-k", 2, "-a", "1:3:3", "--plot", path)
    assert (code, "drew" in err) == (0, True)
    assert path.read_bytes().startswith(head)


def test_transitions_json_and_table():
    code, out, _ = run("transitions", "--model", "perceptron", "--json")
    (found,) = json.loads(out)
    assert code == 0
    assert set(found) == {
        "model",
        "n_classes",
        "prior",
        "noise",
        "alpha_it",
        "alpha_it_uncertainty",
        "alpha_algo",
        "alpha_algo_uncertainty",
        "status",
    }
    assert found["alpha_it"] == pytest.approx(PERCEPTRON.alpha_it, abs=1e-6)
    assert found["alpha_algo"] == pytest.approx(PERCEPTRON.alpha_algo, abs=1e-6)
    code, out, _ = run("transitions", "--model", "perceptron")
    assert code == 0
    assert "hard phase: 1.24468 < α < 1.49263" in out


def test_a_gaussian_teacher_has_no_transition():
    code, out, _ = run("transitions", "-k", 3, "--prior", "gaussian")
    assert (code, out.startswith("no transition")) == (0, True)


def test_transitions_csv(tmp_path):
    path = tmp_path / "t.csv"
    assert run("transitions", "--model", "perceptron", "--csv", path)[0] == 0
    assert "alpha_it" in path.read_text().splitlines()[0]


CURVE = ("curve", "-k", "3", "-a", "1")
BAD = [
    (("curve", "-k", "1", "-a", "1"), "between 2 and 1000"),
    (("curve", "-k", "1001", "-a", "1"), "between 2 and 1000"),
    (("curve", "-k", "3", "-a", "-1"), "must be 0, or from"),
    (("curve", "-k", "3", "-a", "nan"), "takes numbers"),
    (("curve", "-k", "3", "-a", "1,inf"), "takes numbers"),
    (("curve", "-k", "3", "-a", "1e9"), "from 1e-12 to 1e+08"),
    (("curve", "-k", "3", "-a", "1e-30"), "from 1e-12 to 1e+08"),
    (("curve", "-k", "3", "-a", ""), "takes numbers"),
    (("curve", "-k", "3", "-a", ",,"), "takes numbers"),
    (("curve", "-k", "3", "-a", "1:b"), "takes numbers"),
    (("curve", "-k", "3", "-a", "1:2:x"), "takes numbers"),
    (("curve", "-k", "3", "-a", "1:2:3:4"), "takes numbers"),
    (("curve", "-k", "3", "-a", "2:1:5"), "upwards"),
    (("curve", "-k", "3", "-a", "0:1:5:log"), "above 0"),
    (("curve", "-k", "3", "-a", "1:2:0"), "1 to 100000"),
    (("curve", "-k", "3", "-a", "1:2:1000000000"), "1 to 100000"),
    ((*CURVE, "--prior", "cauchy"), "unknown prior"),
    ((*CURVE, "--prior", "finite[1:0.5;-1:0.4]"), "sum to 1"),
    ((*CURVE, "--prior", "finite[1:0.5;2:0.5]"), "mean 0"),
    ((*CURVE, "--prior", "finite[1:x]"), "cannot read the prior"),
    ((*CURVE, "--model", "svm"), "unknown model"),
    ((*CURVE, "--model", "perceptron"), "2 classes"),
    ((*CURVE, "-e", "lasso"), "unknown estimator"),
    ((*CURVE, "-e", "square", "--ridge", "-1"), "ridge must be"),
    ((*CURVE, "-e", "square", "--ridge", "1e-300"), "1e-100"),
    ((*CURVE, "-e", "max-margin", "--ridge", "1"), "takes no ridge"),
    ((*CURVE, "--branch", "best"), "unknown branch"),
    ((*CURVE, "--branch", "unstable"), "no unstable branch"),
    ((*CURVE, "--tol", "0"), "tolerance"),
    ((*CURVE, "--tol", "nan"), "tolerance"),
    ((*CURVE, "--plot", "x.gif"), ".pdf, .png or .svg"),
    (("transitions", "-k", "0"), "between 2 and 1000"),
    (("transitions", "-k", "2", "--prior", "rademacher2"), "unknown prior"),
    (("transitions", "-k", "2", "--tol", "2"), "tolerance"),
]


@pytest.mark.parametrize(("arguments", "words"), BAD, ids=lambda value: " ".join(value)[:60])
def test_bad_input_ends_in_one_sentence(arguments, words):
    code, out, err = run(*arguments)
    assert code == 2
    assert out == ""
    assert words in err
    assert len(err.strip().splitlines()) == 1
    assert "Traceback" not in err


@pytest.mark.parametrize("option", ["--csv", "--plot"])
@pytest.mark.parametrize("place", ["missing/x.pdf", "folder.pdf", "file.txt/x.pdf"])
def test_unwritable_output_is_refused_before_the_work(tmp_path, option, place, monkeypatch):
    def never(*_, **__):
        raise AssertionError("computed although the output cannot be written")

    monkeypatch.setattr("polyceptron.questions.curve_rows.curve_rows", never)
    (tmp_path / "folder.pdf").mkdir()
    (tmp_path / "file.txt").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    code, out, err = run(*CURVE, option, tmp_path / place)
    assert (code, out) == (2, "")
    assert "cannot write" in err
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "file.txt").read_text() == "mine"


@pytest.mark.parametrize("name", ["rows.csv", "curve.pdf"])
def test_a_failure_while_writing_leaves_the_old_file_whole(tmp_path, name, monkeypatch):
    """The disk fills up half-way: the file that was there stays, and nothing is left beside it."""
    path = tmp_path / name
    path.write_text("old")

    def full(self, target, *_, **__):
        with open(target, "w") as handle:
            handle.write("half of")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pandas.DataFrame.to_csv", full)
    monkeypatch.setattr("pathlib.Path.write_bytes", lambda path, drawn: full(drawn, path))
    option = "--csv" if name.endswith("csv") else "--plot"
    code, _, err = run("curve", "-k", "2", "-a", "1", option, path)
    assert code == 2
    assert "No space left" in err
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_a_missing_option_and_an_unknown_one_are_told():
    for arguments in (("curve", "-k", "3"), ("curve", "--alfa", "1"), ("curves",)):
        code, _, err = run(*arguments)
        assert code == 2
        assert "Traceback" not in err


def test_a_stopped_curve_keeps_its_points(monkeypatch: pytest.MonkeyPatch) -> None:
    from polyceptron.questions import curve_rows as curve

    def stopped(*given: Any, **options: Any) -> Iterator[list[dict[str, Any]]]:
        yield next(parts(*given, **options))
        raise KeyboardInterrupt

    parts = curve.curve_parts
    monkeypatch.setattr(curve, "curve_parts", stopped)
    code, out, err = run("curve", "-k", "3", "-a", "1,2,3", "--json")
    assert code == 130
    assert [row["alpha"] for row in json.loads(out)] == [1.0]
    assert "1 of 3 parts" in err


def test_a_stopped_plan_keeps_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its exit code is that of an interrupt, so that a script does not take it for whole."""
    from polyceptron.questions import plan as module

    def stopped(*given: Any, **options: Any) -> Iterator[Any]:
        yield next(whole(*given, **options))
        raise KeyboardInterrupt

    whole = module.plans
    monkeypatch.setattr(module, "plans", stopped)
    estimators = ("-e", "square", "-e", "class-means")
    code, out, err = run("plan", "-k", "2", "--error", "0.2", *estimators, "--json")
    assert code == 130
    assert [row["estimator"] for row in json.loads(out)] == ["square"]
    assert "1 of 2 parts" in err
