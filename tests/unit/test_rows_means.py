"""Means over instances: what is averaged, what is kept, what is counted."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from polyceptron.rows import average_instances, tidy


def instance(seed: int, error: float | None, status: str = "ok", **more: object) -> dict:
    row: dict[str, object] = {
        "source": "erm",
        "model": "argmax",
        "n_classes": 3,
        "prior": "gaussian",
        "estimator": "square",
        "ridge": 1.0,
        "alpha": 2.0,
        "dimension": 10,
        "n_samples": 20,
        "seed": seed,
        "status": status,
        **more,
    }
    return row if error is None else row | {"generalisation_error": error, "q": 2 * error}


def test_means_and_standard_errors_of_instances() -> None:
    theory = {"source": "theory", "alpha": 2.0, "generalisation_error": 0.25}
    table = tidy(
        [theory, instance(1, 0.1), instance(2, 0.4, "not-converged"), instance(3, None, "failed")]
    )
    assert table.loc[0, ["source", "alpha", "generalisation_error"]].to_dict() == theory
    mean = table.loc[1]
    assert mean["generalisation_error"] == pytest.approx(0.25)
    assert mean["generalisation_error_standard_error"] == pytest.approx(
        0.15
    )  # spread 0.3/√2 over √2
    assert mean["q_standard_error"] == pytest.approx(0.3)
    assert (mean["instances"], mean["not_converged"], mean["failed"]) == (2, 1, 1)
    assert mean["status"] == "not-converged"
    assert "seed" not in table
    assert list(table.columns[:2]) == ["source", "model"]


def test_points_that_differ_are_not_averaged_whatever_column_says_so() -> None:
    rows = [instance(1, 0.1), instance(2, 0.2), instance(3, 0.3, noise="logistic")]
    rows += [instance(4, 0.4, iteration=1), instance(5, 0.5, alpha=3.0)]
    table = average_instances(pd.DataFrame(rows))
    assert sorted(table["generalisation_error"]) == pytest.approx([0.15, 0.3, 0.4, 0.5])


def test_means_are_not_averaged_again() -> None:
    once = average_instances(pd.DataFrame([instance(1, 0.1), instance(2, 0.3)]))
    pd.testing.assert_frame_equal(average_instances(once), once)


def test_a_single_instance_has_no_standard_error() -> None:
    assert math.isnan(tidy([instance(1, 0.1)])["generalisation_error_standard_error"][0])
