"""Theory beside simulations: z by Student's law, data that depend on their place alone."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm, t

import polyceptron as pc


def test_a_comparison_is_a_table_by_rising_alpha_with_students_z() -> None:
    found = pc.compare(pc.Teacher(2), ["square", "bayes"], alpha=[2, 0.5], dimension=60, runs=4)
    frame = found.frame
    assert frame["alpha"].tolist() == [0.5, 0.5, 2.0, 2.0]
    assert frame["estimator"].tolist() == ["square", "bayes"] * 2
    for row in frame.itertuples():
        theory = pc.learning_curve(pc.Teacher(2), row.estimator, row.alpha).frame
        assert row.theory == theory["generalisation_error"].iloc[0]
        # As unlikely under the normal law as t is under Student's of three degrees.
        value = (row.error - row.theory) / row.standard_error
        assert norm.sf(abs(row.z)) == pytest.approx(t.sf(abs(value), 3), rel=1e-3)
        assert np.sign(row.z) == np.sign(value)
    assert found.frame["z"].abs().max() < 4
    assert len(found.rows) == 4 * (1 + 4)
    ax = found.plot()
    assert len(ax.containers) == 2  # symbols with bars of both
    assert min(len(line.get_xdata()) for line in ax.get_lines() if line.get_label()[0] != "_") > 15
    alone = pc.compare(pc.Teacher(2), "bayes", alpha=2, dimension=60, runs=4).frame
    assert alone["error"].iloc[0] == frame["error"].iloc[3]


def test_the_optimal_ridge_is_that_of_the_theory() -> None:
    best = pc.ERM("square", "optimal")
    row = pc.compare(pc.Teacher(2), best, alpha=1, dimension=30, runs=2).frame.iloc[0]
    assert row["ridge"] == pytest.approx(pc.optimal_ridge(pc.Teacher(2), "square", 1.0))


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"runs": 0}, "runs must be a whole number"),
        ({"dimension": 2.5}, "dimension must be a whole number"),
        ({"alpha": 0.001}, "leaves no sample"),
        ({"estimators": []}, "at least one estimator"),
        ({"estimators": "best"}, "unknown estimator"),
    ],
)
def test_what_cannot_be_compared_is_refused(asked: dict[str, object], words: str) -> None:
    with pytest.raises(pc.InvalidInput, match=words):
        pc.compare(pc.Teacher(2), **{"alpha": 1.0, "dimension": 20, **asked})  # type: ignore[arg-type]


@pytest.mark.parametrize("call", [pc.compare, lambda it: pc.plan(it, 0.1), pc.learning_curve])
def test_what_is_no_teacher_is_told(call) -> None:
    with pytest.raises(pc.InvalidInput, match=r"the teacher must be Teacher.*, got 3"):
        call(3)
