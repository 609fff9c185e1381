"""Which estimator and ridge a command takes unless told, what ± means, and what help says of it."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from polyceptron.cli import app
from polyceptron.errors import InvalidInput


def shell(*arguments: str, columns: int = 80) -> str:
    """Return what a command prints on standard output."""
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": str(columns)})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_ridge_alone_means_cross_entropy() -> None:
    rows = json.loads(shell("curve", "-k", "2", "-a", "1", "--ridge", "0.5", "--json"))
    assert [(row["estimator"], row["ridge"]) for row in rows] == [("cross-entropy", 0.5)]
    with pytest.raises(InvalidInput, match=r"bayes takes no ridge, got 0\.5: choose"):
        shell("curve", "-k", "2", "-a", "1", "-e", "bayes", "--ridge", "0.5")


def test_plan_compares_at_the_best_ridge_unless_told() -> None:
    """At its best ridge cross-entropy needs less data than max-margin; at λ = 0.1 it needs more."""
    asked = ("plan", "-k", "3", "--error", "0.1", "-e", "cross-entropy", "-e", "max-margin")
    best, margin = json.loads(shell(*asked, "--json"))
    assert best["alpha"] < margin["alpha"]
    fixed, margin = json.loads(shell(*asked, "--ridge", "0.1", "--json"))
    assert fixed["ridge"] == 0.1
    assert fixed["alpha"] > margin["alpha"]


def test_ridge_ends_with_its_answer() -> None:
    """The square loss of two classes is best at λ = π/2 − 1, whatever α is."""
    text = shell("ridge", "-k", "2", "-a", "1,2", "-e", "square", "--ridge", "0.1,1")
    *_, first, second = text.splitlines()
    assert math.pi / 2 - 1 == pytest.approx(0.570796, abs=1e-6)
    assert first.startswith("best λ = 0.570796 at α = 1 (error 0.")
    assert second.startswith("best λ = 0.570796 at α = 2 (error 0.")


def test_the_header_tells_a_standard_error_from_an_uncertainty() -> None:
    asked = ("amp", "-k", "2", "-d", "60", "--runs", "3", "--alpha", "1")
    summary, theory = json.loads(shell(*asked, "--json"))[-2:]
    assert summary["source"] == "amp-summary"
    assert "uncertainty" not in summary
    assert summary["generalisation_error_standard_error"] > 0
    assert "generalisation_error_standard_error" not in theory
    header = shell(*asked).splitlines()[1]
    assert "± 99 %" in header
    assert "std. error" in header


def test_transitions_have_one_default_prior() -> None:
    text = " ".join(shell("transitions", "--help").replace("│", "").split())
    assert "[default: rademacher]" in text
    assert "or rademacher for the perceptron" not in text
    assert "[default: (gaussian, or rademacher for the perceptron)]" in " ".join(
        shell("curve", "--help").replace("│", "").split()
    )


def test_help_shows_ranges_as_they_are_typed() -> None:
    """Not as a pictogram, which the terminal library makes of a name between colons."""
    text = " ".join(shell("curve", "--help").replace("│", "").split())
    assert "0.1:100:log" in text
    assert "levels:4x0.1,0.67x0.9 gives a tenth of the directions the variance 4" in text


@pytest.mark.process
def test_help_of_a_command_imports_no_theory() -> None:
    """Reading the registries would take longer than everything else that help does."""
    code = (
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from polyceptron.cli import app\n"
        "shown = CliRunner().invoke(app, ['curve', '--help'])\n"
        "assert 'max-margin' in shown.stdout\n"
        "print(sorted({'numpy', 'scipy', 'pandas', 'polyceptron.problem'} & set(sys.modules)))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.stdout.strip() == "[]", ended.stderr
