"""Symbols are held to what chance allows: the rule passes and sees what it should."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from polyceptron.problem import Teacher, make_estimator
from polyceptron.report.figures.agreement import ALLOWANCE, agreement, chance, verdict
from polyceptron.report.figures.making import FIGURES
from polyceptron.report.figures.profiles import PROFILES
from polyceptron.rows import tidy
from polyceptron.students import student_of

ALPHAS = np.linspace(1.5, 6, 40)


def table(
    shift: float = 0.0, seed: int = 0, instances: int = 10, **columns: object
) -> pd.DataFrame:
    """A line, and means of normal instances around it, moved by `shift`."""
    rng, instances = np.random.default_rng(seed), 10
    truth = 0.5 / ALPHAS
    runs = truth + shift + 0.02 * rng.standard_normal((instances, len(ALPHAS)))
    common = {
        "model": "argmax",
        "n_classes": 3,
        "prior": "gaussian",
        "noise": "none",
        "estimator": "square",
        "ridge": 1.0,
        "alpha": ALPHAS,
        **columns,
    }
    line = pd.DataFrame(
        {"source": "theory", **common, "generalisation_error": truth, "uncertainty": 1e-9}
    )
    symbols = {
        "generalisation_error": runs.mean(0),
        "dimension": 10_000,
        "instances": instances,
        "generalisation_error_standard_error": runs.std(0, ddof=1) / np.sqrt(instances),
    }
    return pd.concat([line, pd.DataFrame({"source": "erm", **common, **symbols})])


def test_chance_passes_and_z_is_what_it_says() -> None:
    found = agreement({"one": table()})
    assert len(found) == len(ALPHAS)
    first = found.iloc[0]
    assert first["z"] == pytest.approx((first["mean"] - first["theory"]) / first["standard_error"])
    judged = verdict(found)
    assert judged.by_chance
    assert (judged.symbols, judged.judged) == (40, 40)
    assert 0.7 < judged.root_mean_square_z < 1.6


@pytest.mark.parametrize("source", ["measured", "pooled"])
def test_what_was_measured_on_data_of_others_is_no_symbol_of_a_line(source: str) -> None:
    found = table().replace({"source": {"erm": source}}).drop(columns="uncertainty")
    assert agreement({"twins": found}).empty


@pytest.mark.parametrize("seed", range(5))
def test_a_line_that_is_off_by_two_standard_errors_is_seen(seed: int) -> None:
    """Negative control of the second rule: no single symbol is far off, but too many are off."""
    judged = verdict(agreement({"one": table(2 * 0.02 / np.sqrt(10), seed)}))
    assert not judged.by_chance


def test_one_wrong_symbol_is_seen() -> None:
    """Negative control of the first rule."""
    wrong = table()
    wrong.iloc[-1, wrong.columns.get_loc("generalisation_error")] += 0.15
    judged = verdict(agreement({"one": wrong}))
    assert judged.unlikely <= judged.unlikely_allowed
    assert not judged.by_chance


def test_false_alarms_are_as_rare_as_stated() -> None:
    alarms = sum(not verdict(agreement({"one": table(0.0, s)})).by_chance for s in range(100, 120))
    assert alarms <= 1  # of 20, at two in a thousand: more has a chance of 0.1 %


def test_what_a_finite_size_rounds_is_recorded_and_not_judged() -> None:
    peak = agreement({"one": table(ridge=0.0, alpha=ALPHAS - 0.7)})
    assert not peak.loc[abs(peak["alpha"] - 1) < 0.29, "judged"].any()
    assert peak.loc[abs(peak["alpha"] - 1) > 0.31, "judged"].all()
    jump = table(estimator="bayes", branch="amp").replace({"source": {"erm": "amp"}})
    mark = {"source": "theory", "branch": "alpha_algo", "alpha": 3.0}
    found = agreement({"one": pd.concat([jump, pd.DataFrame([mark])])})
    assert not found.loc[abs(found["alpha"] - 3) < 0.49, "judged"].any()
    assert found["judged"].sum() > 20


def test_a_mean_without_spread_is_right_or_wrong() -> None:
    assert chance(-1e-9, 0.0, 5) == 1
    assert chance(1e-9, 0.0, 5) == 0
    assert ALLOWANCE == 2.0


RECORDED = Path(__file__).parents[3] / "docs" / "data" / "agreement-quick.csv"


def test_the_recorded_figures_agree_as_chance_allows() -> None:
    """The whole quick profile, seed 0: with the allowance for 1/d, and without."""
    table = pd.read_csv(RECORDED)
    paper = {"fig2a", "fig2b", "fig3", "fig4a", "fig4b", "fig4c", "fig4d"}
    assert set(table["figure"]) > paper
    assert len(table) > 700
    found = verdict(table)
    assert found.by_chance
    assert 5e-4 < found.combined_p < 1 - 5e-4
    assert found.judged > 0.8 * found.symbols
    # Negative control: a theory whose error is 2 % too large would not pass the second.
    wrong = table.assign(z=(table["mean"] - 1.02 * table["theory"]) / table["standard_error"])
    assert verdict(wrong).combined_p < 5e-4


def test_the_record_is_of_this_program() -> None:
    """Some recorded symbols, computed again: the same data, the same fits, the same theory."""
    table = pd.read_csv(RECORDED)
    rows = []
    for one in FIGURES["fig4b"].computations(PROFILES["quick"]):
        asked = one.arguments
        if asked.get("alpha") in (1.0, 4.0):
            rows += one.function(**asked)
            student = make_estimator(asked["estimator"], asked["ridges"][0])
            rows += student_of(student).rows(Teacher(3), [asked["alpha"]])
    again = agreement({"fig4b": tidy(rows)})
    place = ["figure", "quantity", "estimator", "ridge", "alpha"]
    both = again.merge(table, on=place, suffixes=("", "_recorded"))
    assert len(both) == len(again) >= 8
    for column in ("mean", "standard_error", "theory"):
        assert np.allclose(both[column], both[f"{column}_recorded"], atol=1e-6), column
