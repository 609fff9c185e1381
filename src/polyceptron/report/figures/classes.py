"""Learning curves for 2 to 50 classes, and the transitions of Rademacher weights against k."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from polyceptron.model import BayesOptimal, Teacher
from polyceptron.report.figures.base import FigureSpec
from polyceptron.report.figures.drawing import ALGO, IT, clear_legend, line, panels, symbols
from polyceptron.report.figures.jobs import Job
from polyceptron.report.figures.profile import Profile
from polyceptron.report.figures.rademacher import transition_rows
from polyceptron.report.figures.table import Row, only
from polyceptron.report.style import ALPHA, COLOURS, ERROR, style
from polyceptron.theory import curve_rows

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOW, HIGH = 0.1, 100.0


def bayes_curve(n_classes: int, alphas: list[float], tol: float | None) -> list[Row]:
    """The Bayes-optimal error of Gaussian weights."""
    return curve_rows(Teacher(n_classes), BayesOptimal(), alphas, tol=tol)


def _marks(profile: Profile) -> list[float]:
    return profile.thin([0.5, 1.0, 2.0, 4.0])


def _curve_jobs(profile: Profile) -> list[Job]:
    alphas = profile.spread(LOW, HIGH, max(profile.line_points // 2, 7), log=True)
    alphas = sorted({*alphas, *_marks(profile)})
    return [
        Job(
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


def shades(count: int) -> list[Any]:
    """Colours of one scale from dark to light, in order of k; legible on white to the last."""
    import matplotlib as mpl

    scale = mpl.colormaps["viridis"]
    return [scale(0.88 * i / max(count - 1, 1)) for i in range(count)]


def draw_classes(table: pd.DataFrame) -> Figure:
    """Error against α, one line for each k."""
    with style():
        figure, (ax,) = panels(height=2.9)
        numbers = sorted({int(k) for k in table["n_classes"]})
        for k, colour in zip(numbers, shades(len(numbers)), strict=True):
            rows = table[table["n_classes"] == k]
            line(
                ax, only(rows, source="theory"), "alpha", "generalisation_error", colour,
                f"$k = {k}$",
            )  # fmt: skip
            symbols(ax, only(rows, source="amp"), "alpha", "generalisation_error", colour)
        ax.set(xlabel=ALPHA, ylabel=ERROR, xscale="log", yscale="log", xlim=(LOW, HIGH))
        ax.set_ylim(4e-3, 1.2)
        size = int(table.loc[table["source"] == "amp", "dimension"].iloc[0])
        title = f"lines: Bayes-optimal\nsymbols: AMP, $d = {size}$"
        clear_legend(ax, loc="lower left", title=title, title_fontsize=6.5, alignment="left")
    return figure


def _transition_jobs(profile: Profile) -> list[Job]:
    jobs = []
    for k in profile.transition_classes:
        tol = profile.transition_tolerance if k > 3 else None
        arguments: dict[str, Any] = {"model": "argmax", "n_classes": k, "prior": "rademacher"}
        if tol is not None:
            arguments["tol"] = tol
        jobs.append(Job(transition_rows, arguments, 0.4 * k * max(1.0, (0.01 / (tol or 1)) ** 2)))
    perceptron = {"model": "perceptron", "n_classes": 2, "prior": "rademacher"}
    return [Job(transition_rows, perceptron), *jobs]


def draw_transitions(table: pd.DataFrame) -> Figure:
    """α_IT and α_algo against k, the hard phase between them."""
    with style():
        figure, (ax,) = panels(height=2.9)
        argmax = table[table["model"] == "argmax"]
        found = {
            name: argmax[argmax["branch"] == name].sort_values("n_classes")
            for name in ("alpha_IT", "alpha_algo")
        }
        k = found["alpha_IT"]["n_classes"].to_numpy(dtype=float)
        low, high = (found[name]["alpha"].to_numpy(dtype=float) for name in found)
        ax.fill_between(k, low, high, color="#E69F00", alpha=0.25, linewidth=0)
        looks = (("alpha_algo", COLOURS["amp"], "s", ALGO), ("alpha_IT", "#0072B2", "o", IT))
        for name, colour, marker, label in looks:
            _points(ax, found[name], colour, marker, label)
            old = table[(table["model"] == "perceptron") & (table["branch"] == name)]
            _points(ax, old, colour, marker, f"{label}, ±1 perceptron", hollow=True)
        ax.set(xlabel="number of classes $k$", ylabel=ALPHA, xscale="log", yscale="log")
        _name_phases(ax, k, low, high)
        _plain_ticks(ax, k)
        ax.legend(loc="upper left")
        ax.set_ylim(top=high.max() * 1.25)
    return figure


def _name_phases(ax: Axes, k: Any, low: Any, high: Any) -> None:
    """Impossible, hard and easy; "hard" lies along the band, between two symbols."""
    right = max(2 * len(k) // 3, 1)
    left = right - 1
    slope = np.log(low[right] * high[right] / (low[left] * high[left])) / 2
    slope /= np.log(k[right] / k[left])
    x = (k[left] * k[right]) ** 0.5
    y = (low[left] * low[right] * high[left] * high[right]) ** 0.25
    ax.text(
        x,
        y,
        "hard",
        ha="center",
        va="center",
        fontsize=7,
        rotation=np.degrees(np.arctan(slope * y / x)),  # an angle in data units
        rotation_mode="anchor",
        transform_rotates_text=True,
    )
    ax.text(k[left], low[left] * 0.72, "impossible", ha="left", va="top", fontsize=7)
    ax.text(k[left], high[left] * 1.25, "easy", ha="right", va="bottom", fontsize=7)


def _points(
    ax: Axes, rows: pd.DataFrame, colour: str, marker: str, label: str, hollow: bool = False
) -> None:
    ax.errorbar(
        rows["n_classes"].to_numpy(dtype=float), rows["alpha"].to_numpy(dtype=float),
        rows["alpha_uncertainty"].to_numpy(dtype=float), color=colour, marker=marker, label=label,
        markerfacecolor="white" if hollow else colour, linestyle="none" if hollow else "-",
        linewidth=0.9,
    )  # fmt: skip


def _plain_ticks(ax: Axes, k: Any) -> None:
    """2, 3, 5, 10, … as numbers instead of powers of ten."""
    from matplotlib.ticker import FixedLocator, NullFormatter, ScalarFormatter

    largest = float(max(k))
    ax.xaxis.set_major_locator(FixedLocator([t for t in (2, 3, 5, 10, 20, 50) if t <= largest]))
    ax.yaxis.set_major_locator(FixedLocator([1, 2, 3, 5, 10, 20]))
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(ScalarFormatter())
        axis.set_minor_formatter(NullFormatter())


CLASSES = FigureSpec(
    "classes",
    "Learning curves for 2 to 50 classes",
    "Bayes-optimal error of Gaussian weights for k = 2 to 50. With plentiful data it is (k − 1) "
    "times that of two classes, 0.4417/α. Symbols: message passing, with standard errors.",
    draw_classes,
    _curve_grids,
    _curve_jobs,
)

TRANSITIONS = FigureSpec(
    "transitions",
    "Phase transitions against the number of classes",
    "Rademacher weights: perfect learning is impossible below α_IT, possible but hard up to "
    "α_algo, easy beyond. Hollow: the classical ±1 perceptron, a different model from the argmax "
    "of two Rademacher vectors. Bars: uncertainty of the computation.",
    draw_transitions,
    jobs=_transition_jobs,
)
