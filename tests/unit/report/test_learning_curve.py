"""Learning curves as tables and plots: contents, files, and what a reader of the plot sees."""

import numpy as np
import pandas as pd
import pytest

import polyceptron as pc
from polyceptron.errors import InvalidInput
from polyceptron.report.learning_curve import plot_curves
from polyceptron.rows import COLUMNS


def labels(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_table_is_tidy():
    table = pc.learning_curve(pc.Teacher(3), pc.BayesOptimal(), alpha=[1, 2]).frame
    assert list(table.columns) == [c for c in COLUMNS if c in table]
    assert (table.status == "ok").all()
    assert table.generalisation_error.is_monotonic_decreasing


def test_branches_and_several_estimators():
    teacher = pc.Teacher(3, "rademacher")
    table = pc.learning_curve(teacher, pc.BayesOptimal(), alpha=[2.6], branch="all").frame
    assert set(table.branch) == {"optimal", "amp", "informed", "unstable"}
    by_branch = table.set_index("branch").generalisation_error
    assert by_branch["optimal"] == 0 < by_branch["unstable"] < by_branch["amp"]
    both = pc.learning_curve(
        pc.Teacher(3), [pc.BayesOptimal(), pc.ERM("square", 1.0)], alpha=[1, 2]
    )
    bayes, square = (both.frame[both.frame.estimator == e] for e in ("bayes", "square"))
    assert (bayes.generalisation_error.to_numpy() < square.generalisation_error.to_numpy()).all()


def test_a_best_ridge_is_one_line_and_several_ridges_are_several():
    alpha = np.array([1.0, 2.0, 3.0])
    rows = {"source": "theory", "estimator": "square", "generalisation_error": 1 / alpha}
    moving = pd.DataFrame({**rows, "alpha": alpha, "ridge": [0.1, 0.2, 0.3]})
    assert labels(plot_curves(moving)) == ["square loss, best ridge"]
    fixed = pd.concat([moving.assign(ridge=r) for r in (0.1, 1.0)], ignore_index=True)
    assert labels(plot_curves(fixed)) == [
        r"square loss, $\lambda=0.1$",
        r"square loss, $\lambda=1$",
    ]


@pytest.mark.parametrize("ending", ["pdf", "png", "svg"])
def test_saves_the_same_file_twice_and_nothing_else(tmp_path, ending):
    curve = pc.learning_curve(pc.Teacher(2), pc.BayesOptimal(), alpha=[1, 2, 3])
    curve.save(tmp_path / f"a.{ending}")
    curve.save(tmp_path / f"b.{ending}")
    assert (tmp_path / f"a.{ending}").read_bytes() == (tmp_path / f"b.{ending}").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"a.{ending}", f"b.{ending}"]


@pytest.mark.parametrize("name", ["plot.gif", "plot", "missing/plot.pdf"])
def test_a_file_that_cannot_be_drawn(tmp_path, name):
    curve = pc.learning_curve(pc.Teacher(2), pc.BayesOptimal(), alpha=[1])
    with pytest.raises(InvalidInput):
        curve.save(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_bad_arguments():
    with pytest.raises(InvalidInput, match="estimator"):
        pc.learning_curve(pc.Teacher(2), [], alpha=[1])
    with pytest.raises(InvalidInput, match="unknown estimator"):
        pc.learning_curve(pc.Teacher(2), "bayes", alpha=[1])
    with pytest.raises(InvalidInput, match="branch"):
        pc.learning_curve(pc.Teacher(2), pc.BayesOptimal(), alpha=[1], branch="best")
    for alpha in ([], [-1], [np.nan], [np.inf], ["a"], [1e9]):
        with pytest.raises(InvalidInput, match="alpha"):
            pc.learning_curve(pc.Teacher(2), pc.BayesOptimal(), alpha=alpha)
    with pytest.raises(InvalidInput, match="tolerance"):
        pc.learning_curve(pc.Teacher(2), pc.BayesOptimal(), alpha=[1], tol=2.0)
