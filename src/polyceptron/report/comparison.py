"""Theory beside simulations of it, in one call.

At each α, n = αd samples in dimension d are drawn `runs` times and every estimator is fitted to
them; beside the mean ε̄ of its errors stands the theory's ε for d → ∞, with

    z = (ε̄ − ε) / √(standard error² + uncertainty²),

that of Student's law: as unlikely under a normal law as t is under one of so few runs. A finite d
shifts ε̄ by a bias of order 1/d, which a z of many runs will show.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from polyceptron.errors import InvalidInput
from polyceptron.experiments.results import Average, deviation
from polyceptron.experiments.tasks import instance_seeds
from polyceptron.model import Estimator, as_estimator, plain_estimators
from polyceptron.model.checks import check_alphas, check_size
from polyceptron.report.pictures.curves import ERROR, overlay
from polyceptron.rows import Row, Status, frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = (
    "estimator", "ridge", "alpha", "dimension", "runs", "error", "standard_error", "theory",
    "uncertainty", "z", "status",
)  # fmt: skip


@dataclass(frozen=True, repr=False)
class Comparison:
    """`frame`, a row for each estimator and α, by rising α; in `rows` all that it was made from."""

    frame: pd.DataFrame
    rows: pd.DataFrame

    def plot(self, ax: Axes | None = None, **style: Any) -> Axes:
        """Theory as lines, means of the runs as symbols with their standard errors."""
        return overlay(ax, self.rows, "alpha", ERROR, style)

    def __repr__(self) -> str:
        shown = self.frame.drop(columns=["dimension", "uncertainty"])
        return shown.to_string(index=False, float_format="{:.4g}".format, na_rep="")

    def _repr_html_(self) -> str:
        return self.frame.to_html(index=False, border=0, float_format="{:.4g}".format)


def compare(
    teacher: Any,
    estimators: Any = None,
    *,
    alpha: Any = (1.0, 2.0, 4.0),
    dimension: int = 200,
    runs: int = 10,
    seed: int = 0,
    progress: Callable[[str], None] = lambda text: None,
) -> Comparison:
    """The error of each estimator on drawn data beside its theory.

    Parameters
    ----------
    teacher : Teacher or another population
    estimators : Estimator, its name, or a list of them
        By default each that is registered. Message passing stands beside the branch it reaches.
    alpha : float or array_like
        n/d.
    dimension : int
    runs : int
        Data sets at each α, the same for every estimator.
    seed : int
        With teacher, α and dimension it tells the data, whatever else is compared.
    progress : callable, optional
        Is told what is being done.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> import polyceptron as pc
    >>> found = compare(pc.Teacher(3), "square", alpha=[2, 1], dimension=50, runs=4)
    >>> found.frame["alpha"].tolist(), bool(found.frame["z"].abs().max() < 5)
    ([1.0, 2.0], True)
    """
    given = estimators if isinstance(estimators, list | tuple) else [estimators]
    students = plain_estimators() if estimators is None else [as_estimator(one) for one in given]
    if not students:
        raise InvalidInput("at least one estimator is needed, for example 'bayes'")
    runs, dimension = check_size(runs, "runs"), check_size(dimension, "dimension")
    summary: list[Row] = []
    rows: list[Row] = []
    for a in sorted(set(check_alphas(alpha))):
        if round(a * dimension) < 1:
            raise InvalidInput(f"alpha {a:g} in dimension {dimension} is no sample at all")
        seeds = instance_seeds(seed, teacher.columns, a, dimension, runs)
        for student in students:
            progress(f"{student.name} at α = {a:g}")
            theory, found = _one(teacher, student, a, dimension, seeds)
            summary.append(_line(theory, found))
            rows += [theory, *found]
    return Comparison(pd.DataFrame(summary, columns=list(COLUMNS)), frame(rows))


def _one(
    teacher: Any, student: Estimator, alpha: float, dimension: int, seeds: list[int]
) -> tuple[Row, list[Row]]:
    """The row of the theory and those of the runs; an optimal ridge is that of the theory."""
    branch = "amp" if student.branches else "optimal"
    (theory,) = student.rows(teacher, [alpha], branch=branch)
    if student.columns.get("ridge") == "optimal":
        student = student.with_ridge(theory["ridge"])
    found = [row for seed in seeds for row in student.simulate(teacher, alpha, dimension, seed)]
    return theory, found


def _line(theory: Row, found: list[Row]) -> Row:
    mean = Average.of(row.get(ERROR) for row in found)
    expected, unsure = theory.get(ERROR), theory.get("uncertainty")
    worse = [row["status"] for row in (theory, *found) if row.get("status", Status.OK) != Status.OK]
    z = deviation(mean.mean, mean.standard_error, expected, unsure, count=mean.count)
    return {
        **{name: theory.get(name) for name in ("estimator", "ridge", "alpha", "uncertainty")},
        "dimension": found[0].get("dimension"), "runs": mean.count, "error": mean.mean,
        "standard_error": mean.standard_error, "theory": expected, "z": z,
        "status": str(worse[0]) if worse else str(Status.OK),
    }  # fmt: skip
