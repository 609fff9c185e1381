"""Symbols are held to what chance allows: the rule passes and sees what it should."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from polyceptron.report.figures import agreement, verdict
from polyceptron.report.figures.agreement import ALLOWANCE, _chance

ALPHAS = np.linspace(1.5, 6, 40)


def table(
    shift: float = 0.0, seed: int = 0, instances: int = 10, **columns: object
) -> pd.DataFrame:
    """A line, and means of normal instances around it, moved by `shift`."""
    rng, instances = np.random.default_rng(seed), 10
    truth = 0.5 / ALPHAS
    runs = truth + shift + 0.02 * rng.standard_normal((instances, len(ALPHAS)))
    common = {"model": "argmax", "n_classes": 3, "prior": "gaussian", "noise": "none",
              "estimator": "square", "ridge": 1.0, "alpha": ALPHAS, **columns}  # fmt: skip
    line = pd.DataFrame(
        {"source": "theory", **common, "generalisation_error": truth, "uncertainty": 1e-9}
    )
    symbols = {
        "generalisation_error": runs.mean(0), "dimension": 10_000, "instances": instances,
        "uncertainty": runs.std(0, ddof=1) / np.sqrt(instances),
    }  # fmt: skip
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
    alarms = sum(not verdict(agreement({"one": table(0.0, s)})).by_chance for s in range(100, 140))
    assert alarms <= 1  # of 40, at two in a thousand: more has a chance of 0.3 %


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
    assert _chance(-1e-9, 0.0, 5) == 1
    assert _chance(1e-9, 0.0, 5) == 0
    assert ALLOWANCE == 2.0
