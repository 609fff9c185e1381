"""The figure of empirical Bayes: what the evidence chooses, and what the choice loses.

A tenth of the labels is flipped; the student assumes Gaussian noise of a variance Δ.
"""

import math
from dataclasses import replace

import pandas as pd

from polyceptron.pictures import parts as pic
from polyceptron.pictures.curves import ERROR
from polyceptron.problem import MismatchedBayes, Teacher
from polyceptron.questions.empirical_bayes import empirical_bayes
from polyceptron.report.figures.computations import Computation, ask
from polyceptron.report.figures.figure_rows import figure_row, smooth_rows
from polyceptron.report.figures.figure_spec import figure
from polyceptron.report.figures.profiles import Profile
from polyceptron.rows import Row, Status
from polyceptron.students import student_of
from polyceptron.theory.bayes.fixed_points import bayes_rows

NOISE = "flips:0.1"
CLASSES = (2, 3, 10)
ALPHA = 4.0  # of the lines over Δ
VARIANCES = (0.05, 20.0)
AMOUNTS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)  # α at which the evidence chooses
N_VARIANCES_ABOVE_THREE_CLASSES = 6
AMOUNTS_ABOVE_THREE_CLASSES = (1.0, 4.0, 16.0)  # each takes ten seconds
TOLERANCE_UP_TO_THREE_CLASSES = 1e-4  # of an error whose last digits no reader sees


def assumed_rows(n_classes: int, alpha: float, tol: float, most: int) -> list[Row]:
    """Return evidence and errors against the assumed Δ, at one α, and the Bayes-optimal row."""
    teacher = Teacher(n_classes, noise=NOISE)

    def at(variance: float) -> list[Row]:
        """Return the row of the student that assumes this variance."""
        student = student_of(MismatchedBayes(f"gaussian:{variance!r}"))
        (row,) = student.rows(teacher, alpha, tol=tol)
        return [row | {"part": "assumed", "assumed_variance": variance}]

    low, high = VARIANCES
    rows = smooth_rows(at, low, high, most, x="assumed_variance", y=ERROR, log=True)
    return rows + [row | {"part": "bayes"} for row in bayes_rows(teacher, [alpha], tol=tol)]


def chosen_rows(n_classes: int, alphas: list[float], tol: float) -> list[Row]:
    """Return, at each α, what the evidence and the error choose, and their errors."""
    teacher = Teacher(n_classes, noise=NOISE)
    rows = []
    for alpha in alphas:
        found = empirical_bayes(teacher, alpha, tol=tol)
        for part, choice in (("evidence", found.by_evidence), ("error", found.by_error)):
            rows.append(
                figure_row(
                    "theory",
                    f"mismatched-bayes:{choice.noise}",
                    n_classes=n_classes,
                    noise=NOISE,
                    alpha=alpha,
                    generalisation_error=choice.generalisation_error,
                    uncertainty=choice.uncertainty,
                    evidence=choice.evidence,
                    status=choice.status,
                    part=part,
                    assumed_variance=float(choice.noise.removeprefix("gaussian:")),
                    lost_share=found.lost_error / found.by_error.generalisation_error,
                )
            )
    return rows


def _computations(profile: Profile) -> list[Computation]:
    asked = []
    for k in CLASSES:
        tol = TOLERANCE_UP_TO_THREE_CLASSES
        most = profile.line_points // 2
        alphas = profile.thin(AMOUNTS)
        if k > 3:
            tol = profile.error_tolerance
            most = min(most, N_VARIANCES_ABOVE_THREE_CLASSES)
            alphas = profile.thin(AMOUNTS_ABOVE_THREE_CLASSES)
        asked.append(ask(assumed_rows, n_classes=k, alpha=ALPHA, tol=tol, most=most))
        asked.append(ask(chosen_rows, n_classes=k, alphas=alphas, tol=tol))
    return asked


@figure("evidence", "Empirical Bayes with a wrong noise", computations=_computations)
def evidence(table: pd.DataFrame) -> pic.Picture:
    """A tenth of the labels is flipped, and the posterior assumes Gaussian noise of variance *Δ*.
    Above, at *α* = 4: its error over the Bayes-optimal one; circles mark the *Δ* of largest
    evidence, triangles that of least error. Below: by which share the error of the evidence's
    choice lies above the least one of any *Δ*.
    """
    return pic.Picture((_panel_of_errors(table), _panel_of_losses(table)), height=5.2)


def _panel_of_errors(table: pd.DataFrame) -> pic.Panel:
    """Return the error over the Bayes-optimal error against the assumed variance."""
    traces = []
    for colour, k in zip(pic.CYCLE, CLASSES, strict=False):
        own = table[(table["n_classes"] == k) & (table["alpha"] == ALPHA)]
        optimal = float(own.loc[own["part"] == "bayes", ERROR].iloc[0])
        own = own.assign(ratio=own[ERROR] / optimal)
        line = own[own["part"] == "assumed"].sort_values("assumed_variance")
        traces.append(
            pic.trace_of(line, "assumed_variance", "ratio", colour=colour, label=f"*k = {k}*")
        )
        for part, marker in (("evidence", "circle"), ("error", "triangle")):
            chosen = own[own["part"] == part]
            if len(chosen):
                traces.append(
                    pic.trace_of(
                        chosen,
                        "assumed_variance",
                        "ratio",
                        kind="symbols",
                        marker=marker,
                        colour=colour,
                        in_legend=False,
                    )
                )
    return pic.Panel(
        tuple(traces),
        pic.Axis("assumed variance of the noise *Δ*", "log"),
        pic.Axis("error / Bayes-optimal error"),
        legend=pic.Legend(
            "upper center", "circles: largest evidence\ntriangles: least error", columns=3
        ),
        title=f"theory, Gaussian weights, *α = {ALPHA:g}*, a tenth of the labels flipped",
    )


def _panel_of_losses(table: pd.DataFrame) -> pic.Panel:
    """Return the share of the error that the evidence's choice loses, against α."""
    traces = []
    for colour, k in zip(pic.CYCLE, CLASSES, strict=False):
        own = table[(table["n_classes"] == k) & (table["part"] == "evidence")]
        own = own[own["status"] != str(Status.FAILED)].sort_values("alpha")
        own = own.assign(percent=100 * own["lost_share"].clip(lower=math.ulp(1.0)))
        line = pic.trace_of(own, "alpha", "percent", colour=colour, in_legend=False)
        traces += [line, replace(line, kind="symbols", marker="circle")]
    return pic.Panel(
        tuple(traces),
        pic.Axis(pic.AXES["alpha"], "log"),
        pic.Axis("error lost by the evidence, %", low=0.0),
        title="theory, Gaussian weights, a tenth of the labels flipped",
    )
