"""Noisy labels: learning curves above their floor, and where the hard phase closes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from polyceptron.report.figures.computations import Computation, Row
from polyceptron.report.figures.figure_spec import FigureSpec
from polyceptron.report.figures.profile import Profile
from polyceptron.report.pictures.curves import curves_panel
from polyceptron.report.pictures.parts import (
    Axis,
    Legend,
    Mark,
    Note,
    Panel,
    Picture,
    Trace,
    numbers,
)
from polyceptron.report.style import AXES, COLOURS

if TYPE_CHECKING:
    import pandas as pd

NOISE = "softmax:3"
LARGEST_ALPHA = 12.0
RIDGES: dict[str, float] = {"cross-entropy": 0.1, "square": 1.0}
VARIANCES = (0.0, 0.0015, 0.003, 0.006, 0.009, 0.012)
CLOSED = 0.02  # a variance at which there is no hard phase any more
NEAR = (0.85, 0.93, 0.97, 0.995, 1.005, 1.03, 1.07, 1.15)  # of α_s: the line bends there


def floor_rows(noise: str) -> list[Row]:
    """The floor and α_s of the noise at k = 3, in one row."""
    from polyceptron.model import Teacher
    from polyceptron.theory.generalisation import error_floor
    from polyceptron.theory.separability import separability

    teacher = Teacher(3, noise=noise)  # type: ignore[arg-type]
    found = separability(teacher)
    return [{"source": "theory", "model": "argmax", "n_classes": 3, "prior": "gaussian",
             "estimator": "bayes", "branch": "floor", "noise": noise, "alpha": found.alpha_s,
             "generalisation_error": error_floor(teacher.noise, 3), "status": "ok"}]  # fmt: skip


def max_margin_rows(noise: str, alphas: list[float]) -> list[Row]:
    """Cross-entropy without ridge, up to α_s and beyond."""
    from polyceptron.model import ERM, Teacher
    from polyceptron.theory import curve_rows
    from polyceptron.theory.separability import separability

    teacher = Teacher(3, noise=noise)  # type: ignore[arg-type]
    threshold = separability(teacher).alpha_s
    values = sorted({*alphas, *(round(x * threshold, 4) for x in NEAR)})
    rows = curve_rows(teacher, ERM("cross-entropy", 0.0), values)  # type: ignore[arg-type]
    return [row | {"branch": "no-ridge"} for row in rows]


def noisy_transition_rows(variance: float) -> list[Row]:
    """α_IT and α_algo of the Rademacher teacher of three classes with Gaussian noise."""
    from polyceptron.model import Teacher
    from polyceptron.theory import transitions

    noise = f"gaussian:{variance!r}" if variance > 0 else "none"
    found = transitions(Teacher(3, "rademacher", noise))  # type: ignore[arg-type]
    return [{"source": "theory", "model": "argmax", "n_classes": 3, "prior": "rademacher",
             "estimator": "bayes", "noise": noise, "alpha": found.alpha_it,
             "noise_variance": variance, "alpha_it": found.alpha_it,
             "alpha_algo": found.alpha_algo}]  # fmt: skip


def closing_rows(low: float, high: float, steps: int) -> list[Row]:
    """The variance at which the hard phase closes, by bisection, and α there."""
    found = noisy_transition_rows(low)[0]
    for _ in range(steps):
        middle = 0.5 * (low + high)
        there = noisy_transition_rows(middle)[0]
        if there["alpha_it"] is None:
            high = middle
        else:
            low, found = middle, there
    alpha = 0.5 * (found["alpha_it"] + found["alpha_algo"])
    return [found | {"alpha": alpha, "alpha_it": alpha, "alpha_algo": alpha,
                     "noise_variance": 0.5 * (low + high), "branch": "closing"}]  # fmt: skip


def _grids(profile: Profile) -> list[dict[str, Any]]:
    marks = profile.thin([0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0])[:8]
    lines = profile.line(0.1, LARGEST_ALPHA, marks)
    base: dict[str, Any] = {"classes": [3], "noise": [NOISE]}
    instances = 5 if profile.name == "quick" else profile.erm_instances
    grids: list[dict[str, Any]] = [
        base | {"sources": ["theory"], "estimators": ["bayes"], "alpha": lines}
    ]
    for name, ridge in RIDGES.items():
        erm = base | {"estimators": [name], "ridge": [ridge]}
        grids.append(erm | {"sources": ["theory"], "alpha": lines})
        grids.append(
            erm | {"sources": ["erm"], "alpha": marks,
                   "dimension": [profile.erm_dimension],
                   "instances": instances}
        )  # fmt: skip
    return grids


def _curves(profile: Profile) -> list[Computation]:
    alphas = profile.spread(0.2, LARGEST_ALPHA, max(profile.line_points // 2, 8))
    return [
        Computation(floor_rows, {"noise": NOISE}, 2),
        Computation(max_margin_rows, {"noise": NOISE, "alphas": alphas}, 8),
    ]


def noisy_curves_picture(table: pd.DataFrame) -> Picture:
    """All estimators, the floor, and α_s."""
    branch = table["branch"] if "branch" in table else table["noise"]
    floor = table[branch == "floor"].iloc[0]
    bare = table[branch == "no-ridge"]
    panel = curves_panel(table[(branch != "floor") & (branch != "no-ridge")])
    lowest, threshold = float(floor["generalisation_error"]), float(floor["alpha"])
    extra = (
        Trace(numbers(bare["alpha"]), numbers(bare["generalisation_error"]),
              colour=COLOURS["max-margin"], label="cross-entropy, no ridge"),
        Trace((0.0, LARGEST_ALPHA), (lowest, lowest), colour=COLOURS["unstable"], dash="dot",
              label="floor", in_legend=False),
    )  # fmt: skip
    panel = replace(
        panel,
        traces=(*panel.traces, *extra),
        x=Axis(AXES["alpha"], low=0, high=LARGEST_ALPHA),
        y=replace(panel.y, low=lowest - 0.04, high=0.68),
        marks=(Mark(threshold, f"*α_s* = {threshold:.2f}"),),
        notes=(Note(0.15, lowest - 0.022, "floor: the teacher itself", COLOURS["unstable"]),),
        legend=Legend("upper right"),
    )
    return Picture((panel,))


def phases_picture(table: pd.DataFrame) -> Picture:
    """α_IT and α_algo against the noise: between them the hard phase."""
    table = table.sort_values("noise_variance")
    x = numbers(table["noise_variance"])
    it, algo = numbers(table["alpha_it"]), numbers(table["alpha_algo"])
    end = table[table["branch"] == "closing"] if "branch" in table else table[:0]
    notes = [Note(0.0006, it[0] + 0.75 * (algo[0] - it[0]), "hard")]
    notes += [
        Note(0.7 * at, alpha - 0.25, f"closes at *Δ* = {at:.4f}")
        for at, alpha in zip(end["noise_variance"], end["alpha"], strict=True)
    ]
    traces = (
        Trace(x, it, colour=COLOURS["bayes"], marker="circle", label="*α_{IT}*"),
        Trace(x, algo, colour=COLOURS["amp"], dash="dash", marker="circle", label="*α_{algo}*"),
    )
    panel = Panel(
        traces,
        Axis("variance of the noise *Δ*", low=0),
        Axis(AXES["alpha"]),
        notes=tuple(notes),
        legend=Legend("upper left"),
    )
    return Picture((panel,))


def _phases(profile: Profile) -> list[Computation]:
    values = VARIANCES if profile.name != "tiny" else VARIANCES[:2]
    close = {"low": values[-1], "high": CLOSED, "steps": 3 if profile.name == "tiny" else 8}
    return [
        *(Computation(noisy_transition_rows, {"variance": v}, 1) for v in values),
        Computation(closing_rows, close, 4),
    ]


NOISY_CURVES = FigureSpec(
    "noisy-curves",
    "Learning with softmax labels, k = 3, slope 3",
    "Error on labels as drawn. The floor is the error of the teacher itself. Without a ridge "
    "cross-entropy is max-margin below α_s, where the classes can be separated, and the maximum-"
    "likelihood estimate above. Lines: theory; symbols: fits, with standard errors.",
    noisy_curves_picture,
    _grids,
    _curves,
)

NOISY_PHASES = FigureSpec(
    "noisy-phases",
    "The hard phase of Rademacher weights with noisy labels, k = 3",
    "Between the two lines perfect knowledge of the posterior errs less than message passing does. "
    "Gaussian noise on the teacher's fields narrows this phase until it closes, at the variance "
    "written there.",
    phases_picture,
    computations=_phases,
)
