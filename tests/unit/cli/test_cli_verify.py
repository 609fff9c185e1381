"""verify: right numbers pass, wrong numbers and broken checks do not, and the exit code says so."""

import json
import math
from itertools import islice

import pytest
from typer.testing import CliRunner

from polyceptron.cli import app
from polyceptron.report.verify import equal_classes, simulations
from polyceptron.report.verify import run as package
from polyceptron.report.verify.check import Check, printed_check, sampled_check

pytestmark = pytest.mark.slow

invoke = CliRunner().invoke


def quick(monkeypatch, **chosen):
    """Only these groups of checks."""
    monkeypatch.setattr(package, "GROUPS", chosen)


# Runs of message passing and fits of scikit-learn are what tests/agreement does at length.
IN_PART = ("message passing", "scikit-learn fits")


def test_everything_holds_on_this_machine(monkeypatch):
    for name in IN_PART:
        group = package.GROUPS[name]
        monkeypatch.setitem(package.GROUPS, name, lambda full, group=group: islice(group(full), 1))
    runs = simulations.trace_rows
    monkeypatch.setattr(
        simulations, "trace_rows", lambda *a, **more: runs(*a, **more | {"runs": 4})
    )
    result = invoke(app, ["verify", "--json"])
    rows = json.loads(result.stdout)
    assert [row["check"] for row in rows if row["verdict"] == "failed"] == []
    differing = {row["check"]: row["note"] for row in rows if row["verdict"] == "differs"}
    assert differing == {
        "α_IT, classical perceptron": "differs from the paper's 1.249: see the paper map",
        "α_IT, argmax, k = 3, Rademacher": "differs from the paper's 2.45: see the paper map",
    }
    assert result.exit_code == 0
    assert len(rows) > 50
    sources = {row["source"] for row in rows}
    assert {"paper", "independent computation"} <= sources
    assert all(row["allowed"] > 0 for row in rows)


def test_a_wrong_number_fails_and_the_exit_code_is_one(monkeypatch):
    """The same check as in the table, with a teacher's threshold moved by a hundredth."""
    original = equal_classes.transitions

    def moved(teacher):
        found = original(teacher)
        return type(found)(**{**found.as_dict(), "alpha_it": found.alpha_it + 0.01})

    quick(monkeypatch, thresholds=equal_classes.thresholds)
    monkeypatch.setattr(equal_classes, "transitions", moved)
    result = invoke(app, ["verify", "--json"])
    rows = json.loads(result.stdout)
    assert result.exit_code == 1
    assert {row["verdict"] for row in rows if "α_algo" in row["check"]} == {"ok"}
    independent = [r for r in rows if "α_IT" in r["check"] and r["source"] != "paper"]
    assert {row["verdict"] for row in independent} == {"failed"}
    assert "failed: α_IT" in result.stderr


def test_a_check_that_breaks_is_a_line_not_the_end(monkeypatch):
    def broken(full):
        yield Check("before", 1.0, 1.0, "closed form", 1e-9)
        raise ZeroDivisionError("oh")

    def fine(full):
        yield Check("after", 1.0, 1.0, "closed form", 1e-9)

    quick(monkeypatch, broken=broken, fine=fine)
    result = invoke(app, ["verify"])
    assert result.exit_code == 1
    assert "ZeroDivisionError: oh" in result.stderr
    assert "after" in result.stdout
    assert "failed" in result.stdout
    assert "no number came out. ZeroDivisionError: oh" in result.stdout
    assert "nan" not in result.stdout
    payload = json.loads(invoke(app, ["verify", "--json"]).stdout)
    assert payload[-2]["ours"] is None  # NaN is not JSON
    assert payload[-2]["verdict"] == "failed"


def test_verdicts():
    assert Check("a", 1.0, 1.1, "s", 0.2).verdict == "ok"
    assert Check("a", 1.0, 1.1, "s", 0.05).verdict == "failed"
    assert Check("a", math.nan, 1.1, "s", 1.0).verdict == "failed"
    assert Check("a", math.inf, 1.1, "s", 1.0).verdict == "failed"


def test_a_printed_number_is_held_to_its_digits_and_decides_nothing():
    assert printed_check("a", 2.454, "2.45").verdict == "ok"
    assert printed_check("a", 2.456, "2.45").verdict == "differs"
    assert printed_check("a", math.nan, "2.45").verdict == "failed"


def test_each_check_is_given_as_it_ends(monkeypatch):
    """The second is not computed before the first was taken."""
    computed = []

    def group(full):
        for name in ("first", "second"):
            computed.append(name)
            yield Check(name, 1.0, 1.0, "closed form", 1e-9)

    quick(monkeypatch, group=group)
    checks = package.verify()
    assert next(checks).check == "first"
    assert computed == ["first"]


def test_sampled_checks_allow_four_standard_errors():
    check = sampled_check("a", 0.0, [1.0, -1.0, 1.0, -1.0], "runs", slack=0.5)
    assert check.reference == 0
    assert check.allowed == pytest.approx(4 * (2 / math.sqrt(3)) / 2 + 0.5)


def test_progress_names_every_group(monkeypatch):
    quick(monkeypatch, one=lambda full: iter(()), two=lambda full: iter(()))
    seen = []
    assert list(package.verify(progress=seen.append)) == []
    assert seen == ["one", "two"]
