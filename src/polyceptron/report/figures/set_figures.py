"""The figure of prediction sets: how many classes are named so that nine of ten labels are."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy.special import softmax

from polyceptron.fit.erm import fit_erm
from polyceptron.numerics.averages import Average
from polyceptron.pictures import parts as pic
from polyceptron.pictures.curves import curves_panel
from polyceptron.problem import Teacher, make_estimator
from polyceptron.questions.prediction_sets import prediction_sets
from polyceptron.report.figures.computations import Computation, ask
from polyceptron.report.figures.figure_rows import SEED, figure_row
from polyceptron.report.figures.figure_spec import figure
from polyceptron.report.figures.profiles import Profile
from polyceptron.rows import Row
from polyceptron.students.seeds import instance_seeds

COVERAGE = 0.9
NOISE = "softmax:3"
CLASSES = (3, 10, 100)
ALPHAS = (0.3, 30.0)  # ends of the lines
MARKS = (1.0, 3.0, 10.0)  # where data are drawn
BAYES = ("bayes", None)
USUAL = ("cross-entropy", 0.1)
TOO_LITTLE_RIDGE = ("cross-entropy", 0.001)
STUDENTS = {3: (BAYES, USUAL, TOO_LITTLE_RIDGE), 10: (BAYES, USUAL, TOO_LITTLE_RIDGE)}
STUDENTS_OF_MANY = (BAYES, USUAL)
# A point takes a second at k = 10 and two at k = 100: fewer of them, to the width of a line.
POINTS_BESIDE_MARKS = {3: 9, 10: 4, 100: 3}
TOLERANCE_ABOVE_THREE = 5e-3  # relative, of a mean size
CLASSES_WITH_FITS = (3, 10)  # a fit of 100 classes takes minutes
FRESH_SAMPLES = 10_000


def size_rows(n_classes: int, estimator: str, ridge: float | None, most: int) -> list[Row]:
    """Return rows of theory: the share of classes that a set holds, against α."""
    teacher = Teacher(n_classes, noise=NOISE)
    student = make_estimator(estimator, ridge)
    tol = TOLERANCE_ABOVE_THREE if n_classes > 3 else None

    def rows_at(alpha: float) -> list[Row]:
        """Return the row of prediction sets at this α."""
        sets = prediction_sets(teacher, student, alpha, COVERAGE, tol=tol)
        numbers = {
            "alpha": alpha,
            "ridge": ridge,
            "set_share": sets.mean_size / n_classes,
            "uncertainty": sets.mean_size_uncertainty / n_classes,
            "status": str(sets.status),
        }
        return [figure_row("theory", estimator, n_classes=n_classes, **numbers)]

    low, high = ALPHAS
    first = most - len(MARKS)
    places = sorted({*np.geomspace(low, high, first).tolist(), *MARKS})
    return [row for alpha in places for row in rows_at(alpha)]


def fitted_size_rows(
    n_classes: int, estimator: str, ridge: float, alpha: float, dimension: int, instances: int
) -> list[Row]:
    """Return one row: the mean share over fits, their threshold set by fresh samples."""
    teacher = Teacher(n_classes, noise=NOISE)
    n = round(alpha * dimension)
    shares = []
    for seed in instance_seeds(SEED, teacher.columns, alpha, dimension, instances):
        X, y, _ = teacher.sample(n + FRESH_SAMPLES, dimension, seed=seed)
        fit = fit_erm(X[:n], y[:n], estimator, ridge, n_classes=n_classes)
        p = softmax(X[n:] @ fit.weights / math.sqrt(dimension), axis=1)
        threshold = np.quantile(p[np.arange(FRESH_SAMPLES), y[n:]], 1 - COVERAGE)
        shares.append(float((p >= threshold).mean()))
    average = Average.of(shares)
    numbers = {
        "alpha": alpha,
        "ridge": ridge,
        "dimension": dimension,
        "instances": instances,
        "set_share": average.mean,
        "set_share_standard_error": average.standard_error,
    }
    return [figure_row("erm", estimator, n_classes=n_classes, **numbers)]


def _computations(profile: Profile) -> list[Computation]:
    """Return the lines of all students and the fits of cross-entropy."""
    lines = [
        ask(
            size_rows,
            n_classes=k,
            estimator=name,
            ridge=ridge,
            most=min(POINTS_BESIDE_MARKS[k], profile.line_points) + len(MARKS),
        )
        for k in CLASSES
        for name, ridge in STUDENTS.get(k, STUDENTS_OF_MANY)
    ]
    fits = [
        ask(
            fitted_size_rows,
            n_classes=k,
            estimator="cross-entropy",
            ridge=0.1,
            alpha=alpha,
            dimension=profile.erm_dimension,
            instances=profile.noisy_instances,
        )
        for k in CLASSES_WITH_FITS
        for alpha in MARKS
    ]
    return lines + fits


@figure("sets", "Prediction sets that hold nine of ten labels", _computations)
def sizes_of_sets(table: pd.DataFrame) -> pic.Picture:
    """The mean size of sets of coverage 0.9, as a share of the k classes, for softmax labels of
    slope 3. No sets are smaller than the Bayes-optimal ones; too small a ridge makes them larger.
    From above: k = 3, 10, 100. Lines: theory; symbols: fits, with standard errors.
    """
    panels = []
    for k in CLASSES:
        of_classes = table[table["n_classes"] == k]
        panel = curves_panel(of_classes, "alpha", "set_share", log_x=True)
        axis = pic.Axis("mean size / *k*", low=0, high=1)
        title = f"*k = {k}*, Gaussian weights, softmax labels of slope 3"
        panels.append(replace(pic.placed(panel, "lower left"), y=axis, title=title))
    return pic.Picture(tuple(panels), height=7.2)
