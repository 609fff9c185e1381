"""The figure of choosing data: keep the hard half of the samples, or any half?"""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pandas as pd
from scipy.optimize import brentq

from polyceptron.numerics.averages import Average
from polyceptron.pictures import parts as pic
from polyceptron.pictures.curves import ERROR
from polyceptron.problem import ERM, Pruned, Teacher
from polyceptron.report.figures.computations import Computation, ask
from polyceptron.report.figures.figure_rows import SEED, figure_row, smooth_rows
from polyceptron.report.figures.figure_spec import figure
from polyceptron.report.figures.profiles import Profile
from polyceptron.rows import Row
from polyceptron.students import student_of
from polyceptron.students.seeds import instance_seeds

LOSS = "cross-entropy"
RIDGE = 0.2
KEEP = 0.5  # of the curves of the error
N_CLASSES = 3  # of these curves
ALPHAS = (1.0, 50.0)  # ends of these curves
MARKS = (3.0, 10.0, 30.0)  # where data are drawn
COLOURS = {"hard": "#D55E00", "easy": "#0072B2", "random": "#000000"}
SYMBOLS = {"hard": "square", "easy": "triangle", "random": "circle"}
CLASSES = {2: "solid", 3: "dash", 10: "dot"}  # dashes of the crossings
SHARES = (0.3, 0.4, 0.5, 0.6, 0.75, 0.9)
LADDER = tuple(2.0**i for i in range(8))  # the α between which the crossing is looked for
CROSSING_TOLERANCE = 0.03  # of ln α
ERROR_TOLERANCE = 1e-3  # of the error of ten classes, which is sampled


def _selection(n_classes: int, keep: float, which: str) -> Any:
    """Return a teacher of whose samples a share is kept."""
    return Pruned(Teacher(n_classes), keep, which)


def pruned_rows(which: str, most: int) -> list[Row]:
    """Return rows of theory of one selection, against α of all samples."""
    population = _selection(N_CLASSES, KEEP, which)
    student = student_of(ERM(LOSS, RIDGE))

    def rows_at(alpha: float) -> list[Row]:
        return student.rows(population, [alpha])

    return smooth_rows(rows_at, *ALPHAS, most, MARKS, log=True, y=ERROR)


def fitted_pruned_rows(which: str, alpha: float, dimension: int, instances: int) -> list[Row]:
    """Return the row of a mean over fits to drawn data of one selection."""
    population = _selection(N_CLASSES, KEEP, which)
    student = student_of(ERM(LOSS, RIDGE))
    errors = []
    for seed in instance_seeds(SEED, population.columns, alpha, dimension, instances):
        (row,) = student.simulate(population, alpha, dimension, seed)
        errors.append(row[ERROR])
    average = Average.of(errors)
    numbers = {
        "alpha": alpha,
        "ridge": RIDGE,
        "prune": population.columns["prune"],
        "dimension": dimension,
        "instances": instances,
        ERROR: average.mean,
        "uncertainty": average.standard_error,
    }
    return [figure_row("erm", LOSS, n_classes=N_CLASSES, **numbers)]


def crossing_rows(n_classes: int, keep: float) -> list[Row]:
    """Return the row of the α from which hard samples are better than random ones, if any."""
    student = student_of(ERM(LOSS, RIDGE))
    selections = [_selection(n_classes, keep, which) for which in ("hard", "random")]

    def advantage_of_random(log_alpha: float) -> float:
        rows = [
            student.rows(population, [math.exp(log_alpha)], tol=ERROR_TOLERANCE)[0]
            for population in selections
        ]
        return math.log(float(rows[0][ERROR]) / float(rows[1][ERROR]))

    bracket = _bracket(advantage_of_random)
    if bracket is None:
        return []
    crossing = math.exp(brentq(advantage_of_random, *bracket, xtol=CROSSING_TOLERANCE))
    numbers = {"alpha": crossing, "share": keep, "ridge": RIDGE, "branch": "crossing"}
    return [figure_row("theory", LOSS, n_classes=n_classes, **numbers)]


def _bracket(advantage_of_random: Callable[[float], float]) -> tuple[float, float] | None:
    """Return the step of the ladder, in ln α, on which hard samples begin to win, if one is."""
    for low, high in pairwise(map(math.log, LADDER)):
        if advantage_of_random(high) < 0:
            return low, high
    return None


def _computations(profile: Profile) -> list[Computation]:
    """Return the curves, the fits beside them, and the crossings."""
    most = max(9, profile.line_points // 4)
    curves = [ask(pruned_rows, which=which, most=most) for which in COLOURS]
    fits = [
        ask(
            fitted_pruned_rows,
            which=which,
            alpha=alpha,
            dimension=profile.erm_dimension,
            instances=profile.noisy_instances,
        )
        for which in COLOURS
        for alpha in MARKS
    ]
    crossings = [ask(crossing_rows, n_classes=k, keep=keep) for k in CLASSES for keep in SHARES]
    return curves + fits + crossings


@figure("choosing-data", "Keeping a part of the samples, chosen by margin", _computations)
def choosing_data(table: pd.DataFrame) -> pic.Picture:
    """Left: error of cross-entropy (*λ* = 0.2, *k* = 3) on the half of the samples with the
    smallest margins (hard), the largest (easy), or on any half. Right: the *α* from which hard
    samples are better than random ones, against the share that is kept. Lines: theory; symbols:
    fits, with standard errors.
    """
    is_crossing = table["branch"] == "crossing"
    return pic.Picture(
        (_errors_panel(table[~is_crossing]), _crossings_panel(table[is_crossing])),
        height=5.2,
    )


def _errors_panel(table: pd.DataFrame) -> pic.Panel:
    """Return the errors of all three selections."""
    traces = []
    for which, colour in COLOURS.items():
        chosen = table[table["prune"] == f"{which}:{KEEP:g}"].sort_values("alpha")
        theory = chosen[chosen["source"] == "theory"]
        fits = chosen[chosen["source"] == "erm"]
        traces.append(pic.trace_of(theory, "alpha", ERROR, label=which, colour=colour))
        traces.append(
            pic.trace_of(
                fits,
                "alpha",
                ERROR,
                "uncertainty",
                kind="symbols",
                marker=SYMBOLS[which],
                colour=colour,
                in_legend=False,
            )
        )
    x = pic.Axis("*α = n/d* of all samples", "log")
    return pic.placed(pic.Panel(tuple(traces), x, pic.Axis("generalisation error", "log")), "best")


def _crossings_panel(table: pd.DataFrame) -> pic.Panel:
    """Return where hard samples win, for each number of classes."""
    traces = []
    for k, dash in CLASSES.items():
        line = table[table["n_classes"] == k].sort_values("share")
        traces.append(
            pic.trace_of(line, "share", "alpha", label=f"*k = {k}*", colour="#222222", dash=dash)
        )
    x = pic.Axis("share that is kept", low=0, high=1)
    y = pic.Axis("*α* above which hard beats random", "log")
    return pic.placed(pic.Panel(tuple(traces), x, y), "best")
