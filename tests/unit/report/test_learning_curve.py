"""Learning curves as tables and plots: contents, files, and what a reader of the plot sees."""

import os
import statistics
import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import polyceptron as pc
from polyceptron.errors import InvalidInput
from polyceptron.lab.spec import parse_spec
from polyceptron.lab.sweep import run_sweep
from polyceptron.questions.curve import LearningCurve
from polyceptron.rows import COLUMNS

SWEEP = """
[sweep]
name = "fits"
seed = 0
[[grid]]
classes = [3]
sources = ["erm"]
estimators = ["square"]
ridge = [1.0]
alpha = [1, 2]
dimension = [20]
instances = 3
"""


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


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
    assert labels(LearningCurve(moving).plot()) == [r"square loss, best $\lambda $"]
    fixed = pd.concat([moving.assign(ridge=r) for r in (0.1, 1.0)], ignore_index=True)
    two = [r"square loss, $\lambda  = 0.1$", r"square loss, $\lambda  = 1$"]
    assert labels(LearningCurve(fixed).plot()) == two
    both = LearningCurve(pd.concat([fixed, moving], ignore_index=True))
    assert labels(both.plot()) == [*two, r"square loss, best $\lambda $"]


def test_a_best_ridge_that_stays_for_two_points_is_still_one_line():
    """The search ends on the same number twice, at an end of its range for example."""
    alpha = np.array([1.0, 2.0, 3.0, 4.0])
    rows = {"source": "theory", "estimator": "square", "generalisation_error": 1 / alpha}
    best = pd.DataFrame({**rows, "alpha": alpha, "ridge": [0.4, 0.3, 0.2, 0.2]})
    assert labels(LearningCurve(best).plot()) == [r"square loss, best $\lambda $"]
    fixed = best.assign(ridge=0.1, alpha=alpha + 0.5)  # a line has places of its own
    both = LearningCurve(pd.concat([fixed, best], ignore_index=True))
    told = [r"square loss, $\lambda  = 0.1$", r"square loss, best $\lambda $"]
    assert labels(both.plot()) == told


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


def test_a_notebook_shows_the_plot_and_a_file_leaves_pyplot_alone(tmp_path):
    curve = pc.learning_curve(pc.Teacher(2), pc.BayesOptimal(), alpha=[1, 2, 3])
    curve.save(tmp_path / "a.png")
    assert plt.get_fignums() == []
    ax = curve.plot()
    assert plt.gcf() is ax.get_figure()
    assert ax.get_title(loc="left") == "$k = 2$, gaussian weights"


@pytest.mark.process
def test_every_cell_of_a_notebook_shows_its_plot(tmp_path):
    """A notebook's backend turns interactive drawing on when the first figure loads it."""
    (tmp_path / "inline_like.py").write_text(
        "import matplotlib\n"
        "from matplotlib.backends.backend_agg import FigureCanvasAgg as FigureCanvas\n"
        "matplotlib.interactive(True)\n"
    )
    lines = (
        "import matplotlib.pyplot as plt, polyceptron as pc\n"
        "pc.LearningCurve.read('curve.csv').plot()\n"
        "print(plt.isinteractive())\n"
    )
    curve = pc.learning_curve(pc.Teacher(2), "square", [1, 2])
    curve.frame.to_csv(tmp_path / "curve.csv", index=False)
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    there = {**os.environ, "MPLBACKEND": "module://inline_like", "PYTHONPATH": paths}
    said = subprocess.run(
        [sys.executable, "-c", lines], env=there, cwd=tmp_path, capture_output=True, text=True
    )
    assert said.stdout == "True\n", said.stderr


def test_printed_and_in_html_it_says_alpha_and_error():
    curve = pc.learning_curve(pc.Teacher(3), pc.BayesOptimal(), alpha=np.linspace(0.1, 5, 200))
    lines = str(curve).splitlines()
    assert lines[0] == "bayes, optimal, k = 3, gaussian weights: 200 points"
    assert lines[1].split() == ["alpha", "error", "±", "99", "%"]
    assert len(lines) < 20
    assert curve._repr_html_().count("<tr") < 20
    assert "<th>alpha</th>" in curve._repr_html_()


def test_a_second_curve_on_the_axes_keeps_colours_apart_and_frees_the_limits():
    teachers = (pc.Teacher(2), pc.Teacher(5), pc.Perceptron("rademacher"))
    first, second, third = (
        pc.learning_curve(t, pc.BayesOptimal(), alpha=[0.1, 1, 2], tol=0.01) for t in teachers
    )
    ax = first.plot()
    assert labels(ax) == ["Bayes-optimal"]
    low = ax.get_ylim()[1]
    assert second.plot(ax) is ax
    assert labels(ax) == ["$k = 2$", "$k = 5$"]
    lines = ax.get_lines()
    assert lines[0].get_color() != lines[1].get_color()
    assert ax.get_ylim()[0] == 0
    assert ax.get_ylim()[1] > max(low, *lines[1].get_ydata())
    assert ax.get_title(loc="left") == "gaussian weights", "the title still names k"
    ax.plot([1], [2.0])  # what a user adds is in sight, and so is zero
    assert ax.get_ylim()[0] <= 0 < 2 < ax.get_ylim()[1]
    ax.set_title("mine", loc="left")
    third.plot(ax)
    assert ax.get_title(loc="left") == "mine"
    lines = [line for line in ax.get_lines() if not line.get_label().startswith("_")]
    assert len(set(labels(ax))) == len({line.get_color() for line in lines}) == 3
    assert any("perceptron" in name and "rademacher" in name for name in labels(ax))


def test_limits_and_labels_of_the_user_stay_and_cleared_axes_are_fresh():
    curve = pc.learning_curve(pc.Teacher(2), pc.BayesOptimal(), alpha=[1, 2])
    _, ax = plt.subplots()
    ax.set(ylim=(0.1, 0.2), xlabel="mine")
    curve.plot(ax)
    assert ax.get_ylim() == (0.1, 0.2)
    assert ax.get_xlabel() == "mine"
    ax.clear()
    curve.plot(ax)
    assert len(ax.get_lines()) == 1


def test_style_arguments_are_matplotlibs():
    curve = pc.learning_curve(pc.Teacher(2), pc.BayesOptimal(), alpha=[1, 2])
    ax = curve.plot(c="red", lw=3, label="mine")
    (line,) = ax.get_lines()
    assert (line.get_color(), line.get_linewidth(), labels(ax)) == ("red", 3, ["mine"])
    curve.plot(ax, color="blue", linestyle=":")
    assert [one.get_color() for one in ax.get_lines()] == ["red", "blue"]
    for bad in ({"colour": "red"}, {"color": "no such colour"}, {"c": "red", "color": "blue"}):
        with pytest.raises(InvalidInput, match="refuses the style"):
            curve.plot(ax, **bad)
    assert len(ax.get_lines()) == 2, "a refused style took away what was there"


def test_no_line_is_drawn_across_a_jump():
    teacher, alpha = pc.Teacher(3, "rademacher"), np.linspace(2.0, 3.2, 25)
    curve = pc.learning_curve(teacher, pc.BayesOptimal(), alpha, branch="all")
    found = pc.transitions(teacher)
    lines = {line.get_label(): line for line in curve.plot().get_lines()}
    for name, jump in (("Bayes-optimal", found.alpha_it), ("AMP", found.alpha_algo)):
        x, y = (np.asarray(part) for part in lines[name].get_data())
        (gap,) = np.flatnonzero(np.isnan(y))
        assert x[gap - 1] < jump < x[gap + 1], "broken elsewhere"
        assert y[gap - 1] > 0.1 > y[gap + 1] == 0
    smooth = pc.learning_curve(pc.Teacher(3), pc.BayesOptimal(), np.geomspace(0.1, 90, 12)).plot()
    assert np.isfinite(smooth.get_lines()[0].get_ydata()).all()


def test_a_store_lies_on_theory_with_symbols_and_standard_errors(tmp_path, instant):
    run_sweep(parse_spec(SWEEP), tmp_path / "runs.sqlite", workers=1)
    ax = pc.learning_curve(pc.Teacher(3), pc.ERM("square", 1.0), [0.5, 1, 2, 4]).plot()
    fits = pc.LearningCurve.read(tmp_path / "runs.sqlite")
    fits.plot(ax)
    assert labels(ax) == [r"square loss, $\lambda  = 1$"]
    assert ax.get_legend().get_title().get_text() == "lines: theory\nsymbols: fits, $d = 20$"
    line, symbols = ax.get_lines()[0], ax.containers[0]
    assert line.get_color() == symbols[0].get_color()
    assert (line.get_linestyle(), symbols[0].get_linestyle()) == ("-", "None")
    for i, alpha in enumerate((1, 2)):
        errors = fits.frame.loc[fits.frame.alpha == alpha, "generalisation_error"].tolist()
        assert symbols[0].get_ydata()[i] == pytest.approx(statistics.mean(errors))
        bar = np.ptp(symbols[2][0].get_paths()[i].vertices[:, 1]) / 2
        assert bar == pytest.approx(statistics.stdev(errors) / 3**0.5)


def test_an_estimator_may_be_given_by_its_name():
    named, made = (
        pc.learning_curve(pc.Teacher(2), one, alpha=[1, 2]).frame
        for one in (["bayes", "square"], [pc.BayesOptimal(), pc.ERM("square")])
    )
    pd.testing.assert_frame_equal(named, made)


def test_bad_arguments():
    with pytest.raises(InvalidInput, match="estimator"):
        pc.learning_curve(pc.Teacher(2), [], alpha=[1])
    with pytest.raises(InvalidInput, match="unknown estimator"):
        pc.learning_curve(pc.Teacher(2), "bays", alpha=[1])
    with pytest.raises(InvalidInput, match="branch"):
        pc.learning_curve(pc.Teacher(2), pc.BayesOptimal(), alpha=[1], branch="best")
    for alpha in ([], [-1], [np.nan], [np.inf], ["a"], [1e9]):
        with pytest.raises(InvalidInput, match="alpha"):
            pc.learning_curve(pc.Teacher(2), pc.BayesOptimal(), alpha=alpha)
    with pytest.raises(InvalidInput, match="tolerance"):
        pc.learning_curve(pc.Teacher(2), pc.BayesOptimal(), alpha=[1], tol=2.0)
