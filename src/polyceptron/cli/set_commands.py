"""Prediction sets at the shell: their size against α, and the best split of n samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polyceptron.cli import options
from polyceptron.cli.inputs import build_estimators, with_shared_options
from polyceptron.cli.options import ESTIMATOR, PROBLEM, setting
from polyceptron.cli.output import Collected, Output, collect
from polyceptron.cli.tables import describe_teacher
from polyceptron.errors import InvalidInput
from polyceptron.number_lists import parse_numbers
from polyceptron.rows import Row

if TYPE_CHECKING:
    from polyceptron.problem import AnyTeacher, Estimator
else:
    AnyTeacher = object  # typer does not see this argument; importing the type takes a second

SET_COLUMNS = (
    "estimator",
    "ridge",
    "alpha",
    "threshold",
    "mean_size",
    "mean_size_uncertainty",
    "size_spread",
    "coverage_spread",
    "class_coverage",
    "empty_share",
    "single_share",
    "generalisation_error",
    "status",
)
OPTIONAL_SET_COLUMNS = ("class_coverage", "status", "generalisation_error", "empty_share")
SPLIT_COLUMNS = (
    "estimator",
    "ridge",
    "n_training",
    "n_calibration",
    "mean_size",
    "size_spread",
    "coverage_spread",
    "size_without_calibration",
)
SETS = "Prediction sets"


@with_shared_options("prune", "plot")
def sets(
    *,
    alpha: str | None = setting(
        None,
        "Samples per dimension, α = n/d: a list such as 0.5,1,2 or a range start:stop:count. Add "
        ":log for logarithmic spacing: 0.1:100:20:log.",
        *("--alpha", "-a"),
        metavar="LIST",
        panel=PROBLEM,
    ),
    samples: int | None = setting(
        None,
        "Number of samples that you have, for example 2000: find the best split into training and "
        "calibration samples. It replaces --alpha and needs --dimension.",
        *("--samples", "-n"),
        metavar="N",
        panel=PROBLEM,
    ),
    dimension: int | None = setting(
        None,
        "Number of features d. It goes with --samples.",
        *("--dimension", "-d"),
        metavar="D",
        panel=PROBLEM,
    ),
    teacher: AnyTeacher,
    coverage: float = setting(
        0.9,
        "Share of fresh samples whose set must contain the true class.",
        metavar="NUMBER",
        panel=SETS,
    ),
    score: str = setting(
        "probability",
        "Which classes are in a set: probability (those whose probability is above a threshold) or "
        "adaptive (the most likely ones, up to a total probability).",
        metavar="NAME",
        panel=SETS,
    ),
    calibration: int | None = setting(
        None,
        "Number of calibration samples that set the threshold, for example 500. The table then "
        "shows how much size and coverage vary from one calibration set to the next.",
        metavar="N",
        show_default="the exact threshold",
        panel=SETS,
    ),
    estimator: list[str] = setting(
        [],
        "Estimator: {estimators}. Repeat the option to compare several.",
        *("--estimator", "-e"),
        metavar="NAME",
        show_default="cross-entropy",
        panel=ESTIMATOR,
    ),
    ridge: options.Ridges = [],
    penalty: options.Penalties = [],
    intercept: options.Intercept = False,
    class_weight: options.ClassWeight = None,
    tol: options.Tolerance = None,
    output: Output,
) -> None:
    """Find how large prediction sets must be to contain the true class, say, nine times in ten.

    Examples: polyceptron sets -k 10 --noise softmax:3 -a 1,3,10 -e bayes -e cross-entropy

    polyceptron sets -k 3 --noise softmax:3 -e cross-entropy --samples 2000 --dimension 500
    """
    names = estimator
    if not names:
        names = ["cross-entropy"]
    students = build_estimators(names, ridge, penalty, intercept, class_weight)
    title = f"{describe_teacher(teacher)}, coverage {coverage:g}, {score} sets"
    if samples is not None:
        if alpha is not None or calibration is not None:
            raise InvalidInput(
                "--samples sets alpha and calibration: leave out --alpha and --calibration"
            )
        if dimension is None:
            raise InvalidInput("--samples needs --dimension, since α = n/d")
        splits = _split_rows(teacher, students, samples, dimension, coverage, score)
        output(splits.rows, SPLIT_COLUMNS, title=f"{title}, n = {samples}, d = {dimension}")
        splits.exit_if_stopped()
        return
    if alpha is None:
        raise InvalidInput("give --alpha, the samples per dimension, or --samples with --dimension")
    alphas = parse_numbers(alpha, "--alpha")
    found = _rows_of_sets(teacher, students, alphas, (coverage, score, tol), calibration)
    output(found.rows, SET_COLUMNS, optional=OPTIONAL_SET_COLUMNS, title=title)
    found.exit_if_stopped()


def _rows_of_sets(
    teacher: AnyTeacher,
    students: list[Estimator],
    alphas: list[float],
    asked: tuple[float, str, float | None],
    n_calibration: int | None,
) -> Collected:
    """Return one row for each student and α."""
    from polyceptron.questions.prediction_sets import prediction_sets

    coverage, score, tol = asked

    def row_of(student: Estimator, alpha: float) -> Row:
        """Return the row of the prediction sets of one student at one α."""
        found = prediction_sets(teacher, student, alpha, coverage, score=score, tol=tol)
        row = {**teacher.columns, **student.columns, **found.row}
        if n_calibration is not None:
            spread = found.calibrated_on(n_calibration)._asdict()
            row |= {
                "size_without_calibration": found.mean_size,
                **spread,
            }
        return row

    parts = ([row_of(student, alpha)] for student in students for alpha in alphas)
    return collect(parts, len(students) * len(alphas), "computing the sets")


def _split_rows(
    teacher: AnyTeacher,
    students: list[Estimator],
    samples: int,
    dimension: int,
    coverage: float,
    score: str,
) -> Collected:
    """Return the best split of the samples for each student."""
    from dataclasses import asdict

    from polyceptron.questions.best_split import best_split

    def row_of(student: Estimator) -> Row:
        """Return the row of the best split for one student."""
        found = best_split(teacher, student, samples, dimension, coverage, score=score)
        return {**teacher.columns, **student.columns, "score": score, **asdict(found)}

    parts = ([row_of(student)] for student in students)
    return collect(parts, len(students), "finding the best split")


COMMANDS = (sets,)
