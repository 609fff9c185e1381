"""Figures of noisy labels: above the floor, the hard phase, separability, calibration."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import softmax

from polyceptron.fit.separation import is_separable
from polyceptron.numerics.averages import Average
from polyceptron.pictures import parts as pic
from polyceptron.pictures.curves import ERROR, TRANSITION_LABELS, curves_panel
from polyceptron.problem import Teacher, make_estimator
from polyceptron.questions.calibration import calibration
from polyceptron.questions.ridge import optimal_ridge
from polyceptron.report.figures import figure_spec as spec
from polyceptron.report.figures.bayes_figures import RADEMACHER, transition_rows
from polyceptron.report.figures.erm_figures import ALPHA, fits
from polyceptron.sides.generalisation import error_floor
from polyceptron.theory.separability import separability

NOISE = "softmax:3"
NOISY = Teacher(3, noise=NOISE)
CURVES_NOISY = spec.Curves(
    0,
    12.0,
    (0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0),
    noise=NOISE,
    instances="noisy_instances",
    fits=(("cross-entropy", 0.1), ("square", 1.0)),
    lines=(("bayes", None), ("cross-entropy", 0.0)),
)


def floor_rows(noise: str) -> list[spec.Row]:
    """The floor and α_s of the noise at k = 3, in one row."""
    teacher = Teacher(3, noise=noise)
    found = {"alpha": separability(teacher).alpha_s, ERROR: error_floor(teacher.channel, 3)}
    return [spec.figure_row("theory", "bayes", branch="floor", noise=noise, **found, status="ok")]


@spec.figure(
    "noisy-curves",
    "Learning with softmax labels, k = 3, slope 3",
    computations=lambda p: [*CURVES_NOISY(p), spec.ask(floor_rows, noise=NOISE)],
)
def noisy_curves(table: pd.DataFrame) -> pic.Panel:
    """Error on labels as drawn. The floor is the error of the teacher itself. Without a ridge
    cross-entropy is max-margin below *α_{s}*, where the classes can be separated, and the
    maximum-likelihood estimate above. Lines: theory; symbols: fits, with standard errors.
    """
    known = table["branch"] == "floor"
    threshold, lowest = (float(table.loc[known, c].iloc[0]) for c in ("alpha", ERROR))
    grey, across = pic.COLOURS["unstable"], (0.0, CURVES_NOISY.high + 0.25)
    floor = pic.Trace(across, (lowest, lowest), colour=grey, dash="dot", in_legend=False)
    panel = curves_panel(table[~known], log_x=False)
    return replace(
        pic.placed(panel, "upper right", across, (lowest - 0.04, 0.68)),
        traces=(*panel.traces, floor),
        marks=(pic.Mark(threshold, f"*α_s* = {threshold:.2f}"),),
        notes=(pic.Note(0.15, lowest - 0.022, "floor: the teacher itself", grey),),
    )


NOISES = {  # label of the axis, and the largest size: of softmax labels 1/β
    "gaussian:": ("variance of the noise *Δ*", 0.016),
    "softmax:": ("softmax labels, 1/*β*", 0.1),
    "flips:": ("share of flipped labels *η*", 0.2),
}


def noisy_transition_rows(kind: str, most: int) -> list[spec.Row]:
    """The transitions of Rademacher weights against the size of a noise, up to where they meet."""

    def at(size: float) -> list[spec.Row]:
        strength = 1 / size if kind == "softmax:" and size else size
        rows = transition_rows(*RADEMACHER, f"{kind}{strength!r}" if size else "none")
        place = {"noise_kind": kind.rstrip(":"), "noise_size": size}
        return [row | place | {"alpha": row["alpha"] or math.nan} for row in rows]

    return spec.smooth_rows(at, 0.0, NOISES[kind][1], most, x="noise_size", y="alpha")


@spec.figure(
    "noisy-phases",
    "The hard phase of Rademacher weights with noisy labels, k = 3",
    computations=lambda size: [
        spec.ask(noisy_transition_rows, kind=k, most=max(3, size.line_points // 2)) for k in NOISES
    ],
)
def noisy_phases(table: pd.DataFrame) -> pic.Picture:
    """Between the two lines perfect knowledge of the posterior errs less than message passing does.
    Noise on the teacher's fields, Gaussian or that of the softmax, narrows this phase until it
    closes. Flips leave perfect learning a state of its own, and the phase stays open.
    """
    return pic.Picture(tuple(_phase_panel(table, kind) for kind in NOISES), height=7.2)


def _phase_panel(table: pd.DataFrame, kind: str) -> pic.Panel:
    rows = table[table["noise_kind"] == kind.rstrip(":")].sort_values("noise_size")
    known = rows[rows["alpha"].notna()]
    traces = tuple(
        pic.trace_of(
            known[known["branch"] == name],
            "noise_size",
            "alpha",
            colour=pic.COLOURS[role],
            dash=pic.DASHES.get(role, "solid"),
            label=label,
        )
        for (name, label), role in zip(TRANSITION_LABELS.items(), ("bayes", "amp"), strict=True)
    )
    x, lows, highs = traces[0].x, traces[0].y, traces[1].y
    closes = len(known) < len(rows)
    wide = (0.25 if closes else 0.8) * x[-1]  # where there is room between the lines
    level = 0.5 * float(np.interp(wide, x, lows) + np.interp(wide, x, highs))
    notes = [pic.Note(wide, level, "hard", anchor="center middle")]
    if closes:
        before, last = (np.subtract(highs, lows) ** (2 / 3))[-2:]  # falls linearly: it is a cusp
        end = x[-1] + last * (x[-1] - x[-2]) / (before - last)
        notes.append(pic.Note(x[-1], lows[-1] - 0.3, f"closes at {end:.3g}", anchor="right top"))
    across, up = pic.Axis(NOISES[kind][0], low=0), pic.Axis(pic.AXES["alpha"], low=2.2)
    return pic.Panel(traces, across, up, notes=tuple(notes), legend=pic.Legend("upper left"))


CLASSES = (2, 3, 5)
VARIANCES = (0.05, 3.2)
CHECKED = (0.1, 0.4, 1.6)  # by data
MOST_PER_DIMENSION = 20  # samples drawn: α_s of five classes is 11 at the least noise checked


def threshold_rows(n_classes: int, most: int) -> list[spec.Row]:
    """α_s in theory, against the variance of the noise."""
    tol = None if n_classes <= 3 else 1e-2

    def at(variance: float) -> list[spec.Row]:
        found = separability(Teacher(n_classes, noise=f"gaussian:{variance!r}"), tol)
        place = {"n_classes": n_classes, "noise_variance": variance, "alpha": found.alpha_s}
        known = {"uncertainty": found.alpha_s_uncertainty}
        return [spec.figure_row("theory", "cross-entropy", **place, **known)]

    return spec.smooth_rows(at, *VARIANCES, most, log=True, x="noise_variance", y="alpha")


def separable_share_rows(
    n_classes: int, variance: float, dimension: int, instances: int
) -> list[spec.Row]:
    """The largest n/d at which drawn samples can be separated, its mean over the instances."""
    teacher, largest = Teacher(n_classes, noise=f"gaussian:{variance!r}"), []
    for seed in range(instances):
        X, y, _ = teacher.sample(MOST_PER_DIMENSION * dimension, dimension, seed=seed)

        def separable(n: int, X: Any = X, y: Any = y) -> bool:
            return bool(is_separable(X[:n], y[:n], n_classes=n_classes).separable)

        low, high, last = dimension, 2 * dimension, MOST_PER_DIMENSION * dimension
        while high < last and separable(high):  # doubled, then halved in on
            low, high = high, min(2 * high, last)
        while high - low > max(1, dimension // 20):
            middle = (low + high) // 2
            low, high = (middle, high) if separable(middle) else (low, middle)
        largest.append(0.5 * (low + high) / dimension)
    found, size = Average.of(largest), {"dimension": dimension, "instances": instances}
    place = {"n_classes": n_classes, "noise_variance": variance, "alpha": found.mean}
    unsure = {"alpha_standard_error": found.standard_error}
    return [spec.figure_row("erm", "cross-entropy", **place, **size, **unsure)]


def _thresholds(profile: spec.Profile) -> list[spec.Computation]:
    most, checked = profile.line_points // 2, profile.thin(CHECKED)
    size = {"dimension": profile.separable_dimension, "instances": profile.separable_instances}
    lines = [spec.ask(threshold_rows, n_classes=k, most=most) for k in CLASSES]
    places: Any = [{"n_classes": k, "variance": v} for k in CLASSES for v in checked]
    return lines + [spec.ask(separable_share_rows, **place, **size) for place in places]


@spec.figure("separability", "Up to where classes can be separated", computations=_thresholds)
def separable_alphas(table: pd.DataFrame) -> pic.Panel:
    """*α_{s}* against the variance of Gaussian noise on the teacher's fields. Lines: theory;
    symbols: the largest n/d at which drawn samples were separable, with standard errors, at finite
    d.
    """
    panel = curves_panel(table, "noise_variance", "alpha", log_x=True)
    x = pic.Axis("variance of the noise *Δ*", "log")
    y = pic.Axis("largest *α* that can be separated, *α_s*", low=0)
    return replace(pic.placed(panel, "upper right"), x=x, y=y)


STRENGTHS = (0.01, 0.1, 1.0)  # ridges of the reliability curves
SCORES = {"error": "*ε_{gen}*", "test-loss": "test loss", "calibration": "calibration error"}
CELLS = 15  # of confidence


def reliability_rows(ridge: float) -> list[spec.Row]:
    """Accuracy against confidence in theory."""
    found = calibration(NOISY, make_estimator("cross-entropy", ridge), ALPHA, 3 * CELLS)
    base = spec.figure_row("theory", "cross-entropy", alpha=ALPHA, ridge=ridge)
    bins = zip(found.confidence, found.accuracy, found.share, strict=True)
    return [base | {"confidence": c, "accuracy": a} for c, a, share in bins if share > 1e-4]


def measured_rows(ridge: float, dimension: int, instances: int) -> list[spec.Row]:
    """The same on fresh samples of fits, in even cells of confidence."""
    runs = []
    for _, weights, X, y in fits(NOISY, "cross-entropy", ridge, dimension, instances):
        p = softmax(X @ weights, axis=1)
        run = pd.DataFrame({"confidence": p.max(1), "accuracy": p.argmax(1) == y, "count": 1.0})
        cells = run.groupby(np.ceil((1.5 * run["confidence"] - 0.5) * CELLS))
        runs.append(cells.agg({"confidence": "mean", "accuracy": "mean", "count": "sum"}))
    base = spec.figure_row("erm", "cross-entropy", alpha=ALPHA, ridge=ridge, dimension=dimension)
    return [
        base
        | {
            "instances": instances,
            "accuracy_standard_error": cell["accuracy"].sem(),
            "confidence": cell["confidence"].mean(),
            "accuracy": cell["accuracy"].mean(),
        }
        for _, cell in pd.concat(runs).groupby(level=0)
        if len(cell) == instances and cell["count"].mean() > 50
    ]


def best_rows(most: int) -> list[spec.Row]:
    """The best ridge for the error, the test loss and the calibration error, against α at k = 2."""
    teacher = Teacher(2, noise=NOISE)

    def at(alpha: float) -> list[spec.Row]:
        base = spec.figure_row("theory", "cross-entropy", n_classes=2, alpha=alpha)
        best = {s: optimal_ridge(teacher, "cross-entropy", alpha, target=s) for s in SCORES}
        return [base | {"target": score, "ridge": ridge} for score, ridge in best.items()]

    return spec.smooth_rows(at, 0.5, 16.0, most, log=True, y="ridge", line="target")


def _scores(profile: spec.Profile) -> list[spec.Computation]:
    dimension, instances = min(profile.erm_dimension, 500), min(profile.erm_instances, 6)
    size = {"dimension": dimension, "instances": instances}
    return [
        *(spec.ask(reliability_rows, ridge=ridge) for ridge in STRENGTHS),
        *(spec.ask(measured_rows, ridge=ridge, **size) for ridge in STRENGTHS),
        spec.ask(best_rows, most=profile.line_points // 2),
    ]


@spec.figure("calibration", "Calibration of cross-entropy with softmax labels, slope 3", _scores)
def calibration_of_softmax(table: pd.DataFrame) -> pic.Picture:
    """Above: accuracy against confidence at k = 3 and α = 3; too little ridge is overconfident, too
    much underconfident. Lines: theory; symbols: fits, on fresh samples. Below: the best ridge for
    the error, the test loss and the calibration error at k = 2; they differ.
    """
    ends = (1 / 3, 1.0)
    equal = pic.Trace(ends, ends, colour=pic.COLOURS["unstable"], dash="dot", label="calibrated")
    known = table["confidence"].notna()
    above = curves_panel(table[known].drop(columns="target"), "confidence", "accuracy")
    # The ridge alone tells these lines apart.
    named = (replace(trace, label=trace.label.split(", ")[-1]) for trace in above.traces)
    above = replace(above, traces=(equal, *named), y=pic.Axis("accuracy"))
    best = table[~known].rename(columns={"ridge": "best"}).replace({"target": SCORES})
    below = pic.placed(curves_panel(best, "alpha", "best", log_x=True), "best", title="best for")
    below = replace(below, y=pic.Axis("best ridge *λ*", low=0))
    return pic.Picture((pic.placed(above, "upper left", title=""), below), height=5.2)
