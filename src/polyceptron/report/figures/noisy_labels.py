"""Noisy labels: learning curves above their floor, and where the hard phase closes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from polyceptron.report.figures.figure_spec import Computation, FigureSpec, Profile, Row
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
from polyceptron.report.pictures.style import AXES, COLOURS

if TYPE_CHECKING:
    import pandas as pd

NOISE = "softmax:3"
LARGEST_ALPHA = 12.0
RIDGES: dict[str, float] = {"cross-entropy": 0.1, "square": 1.0}


class Noises(NamedTuple):
    """Of growing size: label of the axis, sizes, named by 1/size or not, and if the phase ends."""

    label: str
    sizes: tuple[float, ...]
    inverse: bool = False
    closes: bool = True


PHASES = {
    "gaussian:": Noises("variance of the noise *Δ*", (0.0, 0.0015, 0.003, 0.006, 0.009, 0.012)),
    "softmax:": Noises("softmax labels, 1/*β*", (0.0, 0.01, 0.025, 0.04, 0.055, 0.07), True),
    "flips:": Noises("share of flipped labels *η*", (0.0, 0.05, 0.1, 0.15, 0.2), closes=False),
}
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
    from polyceptron.theory.curve import curve_rows
    from polyceptron.theory.separability import separability

    teacher = Teacher(3, noise=noise)  # type: ignore[arg-type]
    threshold = separability(teacher).alpha_s
    values = sorted({*alphas, *(round(x * threshold, 4) for x in NEAR)})
    rows = curve_rows(teacher, ERM("cross-entropy", 0.0), values)  # type: ignore[arg-type]
    return [row | {"branch": "no-ridge"} for row in rows]


def noisy_transition_rows(kind: str, size: float) -> list[Row]:
    """α_IT and α_algo of the Rademacher teacher of three classes; the size of softmax is 1/β."""
    from polyceptron.model import Teacher
    from polyceptron.theory.bayes_optimal.transitions import transitions

    noise = f"{kind}{1 / size if PHASES[kind].inverse else size!r}" if size > 0 else "none"
    found = transitions(Teacher(3, "rademacher", noise))  # type: ignore[arg-type]
    return [{"source": "theory", "model": "argmax", "n_classes": 3, "prior": "rademacher",
             "estimator": "bayes", "noise": noise, "noise_kind": kind.rstrip(":"),
             "noise_size": size, "alpha": found.alpha_it, "alpha_it": found.alpha_it,
             "alpha_algo": found.alpha_algo}]  # fmt: skip


def closing_rows(kind: str, low: float, high: float, steps: int) -> list[Row]:
    """The size at which the hard phase closes, in a cusp: its width to the 2/3 falls linearly."""
    points = []
    for size in (low, high):
        row = noisy_transition_rows(kind, size)[0]
        points.append((size, (row["alpha_algo"] - row["alpha_it"]) ** (2 / 3)))
    for step in range(steps + 1):
        (x0, w0), (x1, w1) = points[-2:]
        end = x1 + w1 * (x1 - x0) / (w0 - w1)
        if step == steps:
            break
        inside = x1 + 0.8 * (end - x1)
        there = noisy_transition_rows(kind, inside)[0]
        if there["alpha_it"] is None:
            break
        row = there
        points.append((inside, (row["alpha_algo"] - row["alpha_it"]) ** (2 / 3)))
    alpha = 0.5 * (row["alpha_it"] + row["alpha_algo"])
    return [row | {"alpha": alpha, "alpha_it": alpha, "alpha_algo": alpha, "noise_size": end,
                   "branch": "closing"}]  # fmt: skip


def _grids(profile: Profile) -> list[dict[str, Any]]:
    marks = profile.thin([0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0])[:8]
    lines = profile.line(0.1, LARGEST_ALPHA, marks)
    base: dict[str, Any] = {"classes": [3], "noise": [NOISE]}
    instances = 5 if profile.name == "quick" else profile.further_instances
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
    """α_IT and α_algo against each noise: between them the hard phase."""
    return Picture(tuple(_phase_panel(table, kind) for kind in PHASES), height=7.2)


def _phase_panel(table: pd.DataFrame, kind: str) -> Panel:
    rows = table[table["noise_kind"] == kind.rstrip(":")].sort_values("noise_size")
    x = numbers(rows["noise_size"])
    it, algo = numbers(rows["alpha_it"]), numbers(rows["alpha_algo"])
    end = rows[rows["branch"] == "closing"] if "branch" in rows else rows[:0]
    wide = 1 if len(end) else -1  # where there is room between the lines
    notes = [Note(x[wide], 0.5 * (it[wide] + algo[wide]), "hard", anchor="right middle")]
    notes += [
        Note(at, alpha - 0.3, f"closes at {at:.3g}", anchor="right top")
        for at, alpha in zip(end["noise_size"], end["alpha"], strict=True)
    ]
    traces = (
        Trace(x, it, colour=COLOURS["bayes"], marker="circle", label="*α_{IT}*"),
        Trace(x, algo, colour=COLOURS["amp"], dash="dash", marker="circle", label="*α_{algo}*"),
    )
    return Panel(
        traces,
        Axis(PHASES[kind].label, low=0),
        Axis(AXES["alpha"], low=2.2),
        notes=tuple(notes),
        legend=None if PHASES[kind].closes else Legend("upper left"),
    )


def _phases(profile: Profile) -> list[Computation]:
    tiny = profile.name == "tiny"
    return [
        *(
            Computation(noisy_transition_rows, {"kind": kind, "size": size}, 1)
            for kind, noises in PHASES.items()
            for size in (noises.sizes[:2] if tiny else noises.sizes)
        ),
        *(
            Computation(closing_rows, {"kind": kind, "low": noises.sizes[-2],
                                       "high": noises.sizes[-1], "steps": 0 if tiny else 3}, 2)
            for kind, noises in PHASES.items()
            if noises.closes
        ),
    ]  # fmt: skip


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
    "Noise on the teacher's fields, Gaussian or that of the softmax, narrows this phase until it "
    "closes. Flips leave perfect learning a state of its own, and the phase stays open.",
    phases_picture,
    computations=_phases,
)
