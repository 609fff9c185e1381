"""Rows that several figures ask for: smooth lines of theory, and runs on drawn data."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from polyceptron.problem import Teacher, make_estimator
from polyceptron.questions.drawn_curve import N_FIRST_POINTS, bends, drawn_rows
from polyceptron.report.figures.computations import Computation, ask
from polyceptron.report.figures.profiles import Profile
from polyceptron.rows import Row
from polyceptron.students import student_of
from polyceptron.students.seeds import instance_seeds

SEED = 0  # of all drawn data
N_CLASSES = 3  # of a figure, unless it says otherwise
FIRST_PLACES = 9  # of a smooth line, before it is refined where it bends


def figure_row(source: str, estimator: str, **more: Any) -> Row:
    """Return the columns of a row at k = 3 with Gaussian weights, unless `more` says otherwise."""
    problem = {"model": "argmax", "n_classes": N_CLASSES, "prior": "gaussian"}
    return {"source": source, **problem, "estimator": estimator, **more}


def line_rows(
    estimator: str,
    ridge: float | str | None,
    low: float,
    high: float,
    marks: list[float],
    most: int,
    *,
    n_classes: int = N_CLASSES,
    noise: str = "none",
    log: bool = False,
    tol: float | None = None,
) -> list[Row]:
    """Return a smooth line of theory over α with Gaussian weights.

    Parameters
    ----------
    estimator, ridge
        A name and its ridge, None where it has none.
    low, high : float
        Ends of α.
    marks : list of float
        α of symbols, at which the line has points too.
    most : int
        Points at most, beside the marks.
    log : bool
        Whether both axes are logarithmic.
    """
    return drawn_rows(
        Teacher(n_classes, noise=noise),
        make_estimator(estimator, ridge),
        low,
        high,
        most=most + len(marks),
        tol=tol,
        log=log,
        log_y=log,
        also=marks,
        first=min(N_FIRST_POINTS, most),
    )


def smooth_rows(
    rows_at: Callable[[float], list[Row]],
    low: float,
    high: float,
    most: int,
    marks: Sequence[float] = (),
    *,
    log: bool = False,
    **lines: Any,
) -> list[Row]:
    """Return the rows at as many places as smooth lines need, and at the marks.

    Parameters
    ----------
    rows_at : callable
        Returns the rows at a place.
    most : int
        Places at most.
    log : bool
        Whether places are even on a logarithmic axis.
    lines
        What `bends` takes: the columns of the lines.
    """
    space = np.geomspace if log else np.linspace
    places = sorted({*space(low, high, min(FIRST_PLACES, most)).tolist(), *marks})
    rows: list[Row] = []
    n_places = 0
    while places:
        for place in places:
            rows += rows_at(place)
        n_places += len(places)
        theory = [row for row in rows if row["source"] == "theory"]
        places = bends(theory, log=log, **lines)[: max(most - n_places, 0)]
    return rows


def run_rows(
    estimator: str,
    ridges: list[float | str | None],
    alpha: float,
    dimension: int,
    instances: int,
    **problem: Any,
) -> list[Row]:
    """Return a row for each instance and ridge, on the same data for every ridge."""
    teacher = Teacher(**{"n_classes": N_CLASSES, **problem})
    first, *others = (make_estimator(estimator, ridge) for ridge in ridges)
    student = student_of(first)
    rows: list[Row] = []
    for seed in instance_seeds(SEED, teacher.columns, alpha, dimension, instances):
        rows += student.simulate(teacher, alpha, dimension, seed, also=others)
    return rows


@dataclass(frozen=True)
class Curves:
    """Learning curves: lines of theory over α, and fits to drawn data at the marks.

    Attributes
    ----------
    low, high : float
        Ends of α.
    marks : tuple of float
        α of the fits.
    fits, lines : tuple of (name, ridge)
        Estimators with fits and a line, and those with a line only.
    log : bool
        Whether both axes are logarithmic.
    instances : str
        The field of the profile with the number of fits.
    """

    low: float
    high: float
    marks: tuple[float, ...]
    fits: tuple[tuple[str, float | None], ...] = ()
    lines: tuple[tuple[str, float | None], ...] = (("bayes", None),)
    log: bool = False
    noise: str = "none"
    instances: str = "erm_instances"

    def __call__(self, profile: Profile) -> list[Computation]:
        """Return the computations of the lines and of the fits."""
        marks = profile.thin(self.marks)
        lines = [
            ask(
                line_rows,
                estimator=name,
                ridge=ridge,
                low=self.low,
                high=self.high,
                noise=self.noise,
                marks=marks,
                log=self.log,
                most=profile.line_points,
            )
            for name, ridge in self.lines + self.fits
        ]
        fits = [
            ask(
                run_rows,
                estimator=name,
                ridges=[ridge],
                alpha=alpha,
                noise=self.noise,
                dimension=profile.erm_dimension,
                instances=vars(profile)[self.instances],
            )
            for name, ridge in self.fits
            for alpha in marks
        ]
        return lines + fits
