"""Learning curves for 2 to 50 classes, and the transitions of Rademacher weights against k."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from polyceptron.model import BayesOptimal, Teacher
from polyceptron.report.figures.amp_errors import transition_rows
from polyceptron.report.figures.erm_curves import placed
from polyceptron.report.figures.figure_spec import Computation, FigureSpec, Profile, Row
from polyceptron.report.pictures.curves import TRANSITION_LABELS, curves_panel
from polyceptron.report.pictures.parts import Axis, Legend, Note, Panel, Picture, Trace, numbers
from polyceptron.report.pictures.style import AXES, COLOURS
from polyceptron.theory.curve import curve_rows

if TYPE_CHECKING:
    import pandas as pd

LOW, HIGH = 0.1, 100.0


def bayes_curve(n_classes: int, alphas: list[float], tol: float | None) -> list[Row]:
    """The Bayes-optimal error of Gaussian weights."""
    return curve_rows(Teacher(n_classes), BayesOptimal(), alphas, tol=tol)


def _marks(profile: Profile) -> list[float]:
    return profile.thin([0.5, 1.0, 2.0, 4.0])


def _curves(profile: Profile) -> list[Computation]:
    alphas = profile.spread(LOW, HIGH, max(profile.line_points // 2, 7), log=True)
    alphas = sorted({*alphas, *_marks(profile)})
    return [
        Computation(
            bayes_curve,
            {
                "n_classes": k,
                "alphas": alphas,
                "tol": profile.error_tolerance if k > 3 else 1e-6,
            },
            0.3 * k**0.5 * (1e-3 / profile.error_tolerance) ** 1.5,
        )
        for k in profile.classes
    ]


def _curve_grids(profile: Profile) -> list[dict[str, Any]]:
    return [
        {
            "sources": ["amp"], "estimators": ["bayes"], "classes": list(profile.amp_classes),
            "alpha": _marks(profile),
            "dimension": [profile.amp_classes_dimension], "instances": profile.amp_classes_runs,
        }
    ]  # fmt: skip


def picture_classes(table: pd.DataFrame) -> Picture:
    """Error against α, one line for each k."""
    panel = placed(curves_panel(table, log_x=True, log_y=True), "lower left")
    x, y = replace(panel.x, low=LOW, high=HIGH), replace(panel.y, low=4e-3, high=1.2)
    return Picture((replace(panel, x=x, y=y),))


def _transitions(profile: Profile) -> list[Computation]:
    found = []
    for k in profile.transition_classes:
        tol = profile.transition_tolerance if k > 3 else None
        arguments: dict[str, Any] = {"model": "argmax", "n_classes": k, "prior": "rademacher"}
        if tol is not None:
            arguments["tol"] = tol
        seconds = 0.4 * k * max(1.0, (0.01 / (tol or 1)) ** 2)
        found.append(Computation(transition_rows, arguments, seconds))
    perceptron = {"model": "perceptron", "n_classes": 2, "prior": "rademacher"}
    return [Computation(transition_rows, perceptron), *found]


def picture_transitions(table: pd.DataFrame) -> Picture:
    """α_IT and α_algo against k, the hard phase between them."""
    argmax = table[table["model"] == "argmax"].sort_values("n_classes")
    low, high = (argmax[argmax["branch"] == name] for name in TRANSITION_LABELS)
    k = numbers(low["n_classes"])
    pairs = list(zip(low["alpha"], high["alpha"], strict=True))
    band = Trace(
        k, tuple((a + b) / 2 for a, b in pairs), tuple((b - a) / 2 for a, b in pairs),
        kind="band", colour="#E69F00", label="hard: possible, not found by AMP",
    )  # fmt: skip
    old = table[table["model"] == "perceptron"]
    looks = {
        "alpha_algo": (COLOURS["amp"], "square", high),
        "alpha_IT": (COLOURS["cross-entropy"], "circle", low),
    }
    traces = [band]
    for name, (colour, marker, rows) in looks.items():
        label = TRANSITION_LABELS[name]
        traces.append(_points(rows, colour, marker, label))
        hollow = _points(old[old["branch"] == name], colour, marker, f"{label}, ±1 perceptron")
        traces.append(replace(hollow, kind="symbols", hollow=True))
    at = max(2 * len(k) // 3 - 1, 0)
    x_ticks = tuple(float(t) for t in (2, 3, 5, 10, 20, 50) if t <= max(k))
    panel = Panel(
        tuple(traces),
        Axis(AXES["n_classes"], "log", ticks=x_ticks),
        Axis(AXES["alpha"], "log", high=pairs[-1][1] * 1.7, ticks=(1, 2, 3, 5, 10, 20)),
        notes=(
            Note(k[at], pairs[at][0] * 0.72, "impossible", anchor="left top"),
            Note(k[at], pairs[at][1] * 1.15, "easy", anchor="right bottom"),
        ),
        legend=Legend("upper left"),
    )
    return Picture((panel,))


def _points(rows: pd.DataFrame, colour: str, marker: str, label: str) -> Trace:
    x, y = numbers(rows["n_classes"]), numbers(rows["alpha"])
    error = numbers(rows["alpha_uncertainty"])
    return Trace(x, y, error, colour=colour, marker=marker, label=label, width=0.8)


CLASSES = FigureSpec(
    "classes",
    "Learning curves for 2 to 50 classes",
    "Bayes-optimal error of Gaussian weights for k = 2 to 50. With plentiful data it is (k − 1) "
    "times that of two classes, 0.4417/α. Symbols: message passing, with standard errors.",
    picture_classes,
    _curve_grids,
    _curves,
)

TRANSITIONS = FigureSpec(
    "transitions",
    "Phase transitions against the number of classes",
    "Rademacher weights: perfect learning is impossible below α_IT, possible but hard up to "
    "α_algo, easy beyond. Hollow: the classical ±1 perceptron, a different model from the argmax "
    "of two Rademacher vectors. Bars: uncertainty of the computation.",
    picture_transitions,
    computations=_transitions,
)
