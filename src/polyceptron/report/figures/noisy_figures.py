"""Figures of noisy labels: above the floor, the hard phase, separability, calibration.

Each figure has three parts. A function of the profile (how much to compute) lists the computations:
`ask` names a function of this module that returns rows, and its arguments; it runs later, once, and
its rows are stored. A function with `@figure` draws all rows as a picture; its docstring is the
caption. Rows are dicts of columns (`rows.COLUMNS`); a row of theory has an uncertainty, one of
drawn data the mean over instances (data sets) with its standard error.

The noise is that of the labels of a teacher with fields z (k,): Gaussian noise of variance Δ on z,
labels drawn from softmax(βz), or a share η of flipped labels. α_IT and α_algo are the transitions
of the paper's section on k = 3 (eq. SE_BO, eq. free_entropy), here against the size of a noise.
α_s, up to where noisy labels can be separated, and calibration are not in the paper.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import softmax

from polyceptron.data.checks import Labels
from polyceptron.errors import ComputationFailed
from polyceptron.fit.separation import is_separable
from polyceptron.numerics import Array
from polyceptron.numerics.averages import Average
from polyceptron.pictures import parts as pic
from polyceptron.pictures.curves import ERROR, TRANSITION_LABELS, curves_panel
from polyceptron.problem import Teacher, make_estimator
from polyceptron.questions.calibration import calibration
from polyceptron.questions.ridge import optimal_ridge
from polyceptron.report.figures.bayes_figures import RADEMACHER, TITLE_RADEMACHER, transition_rows
from polyceptron.report.figures.computations import Computation, ask
from polyceptron.report.figures.figure_rows import Curves, figure_row, smooth_rows
from polyceptron.report.figures.figure_spec import figure
from polyceptron.report.figures.margin_figure import ALPHA, fits
from polyceptron.report.figures.profiles import Profile
from polyceptron.rows import Row
from polyceptron.sides.generalisation import error_floor
from polyceptron.theory.separability import separability

NOISE = "softmax:3"
NOISY = Teacher(3, noise=NOISE)
CURVES_NOISY = Curves(
    low=0,
    high=12.0,
    marks=(0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0),
    noise=NOISE,
    instances="noisy_instances",
    fits=(("cross-entropy", 0.1), ("square", 1.0)),
    lines=(("bayes", None), ("cross-entropy", 0.0)),
)
GREY = "#7a7a7a"


def floor_rows(noise: str) -> list[Row]:
    """Return the floor and α_s of the noise at k = 3, in one row."""
    teacher = Teacher(3, noise=noise)
    row = figure_row("theory", "bayes", branch="floor", noise=noise, status="ok")
    row["alpha"] = separability(teacher).alpha_s
    row[ERROR] = error_floor(teacher.channel, 3)
    return [row]


def _noisy_curves(profile: Profile) -> list[Computation]:
    return [*CURVES_NOISY(profile), ask(floor_rows, noise=NOISE)]


@figure("noisy-curves", "Learning with softmax labels, k = 3, slope 3", _noisy_curves)
def noisy_curves(table: pd.DataFrame) -> pic.Panel:
    """Error on labels as drawn. The floor is the error of the teacher itself. Without a ridge
    cross-entropy is max-margin below *α_{s}*, where the classes can be separated, and the
    maximum-likelihood estimate above. Lines: theory; symbols: fits, with standard errors.
    """
    is_floor = table["branch"] == "floor"
    threshold = float(table.loc[is_floor, "alpha"].iloc[0])
    lowest = float(table.loc[is_floor, ERROR].iloc[0])  # and α_s above is the floor row's alpha
    across = (0.0, CURVES_NOISY.high + 0.25)
    floor = pic.Trace(across, (lowest, lowest), colour=GREY, dash="dot", in_legend=False)
    panel = curves_panel(table[~is_floor], log_x=False)
    panel = pic.placed(panel, "upper right", across, (lowest - 0.04, 0.68))
    return replace(
        panel,
        traces=(*panel.traces, floor),
        marks=(pic.Mark(threshold, f"*α_s* = {threshold:.2f}"),),
        notes=(pic.Note(0.15, lowest - 0.022, "floor: the teacher itself", GREY),),
        title="*k = 3*, Gaussian weights, softmax labels of slope 3",
    )


class NoiseAxis(NamedTuple):
    """A kind of noise on an axis: its label, and the largest size (of softmax labels 1/β)."""

    label: str
    largest: float


NOISES = {
    "gaussian:": NoiseAxis("variance of Gaussian noise *Δ*", 0.016),
    "softmax:": NoiseAxis("softmax labels, 1/*β*", 0.1),
    "flips:": NoiseAxis("share of flipped labels *η*", 0.2),
}


def noisy_transition_rows(kind: str, most: int) -> list[Row]:
    """Return the transitions of Rademacher weights against the size of a noise.

    `smooth_rows` adds sizes where the lines bend, up to `most`. The lines end where the two meet:
    beyond there is no transition, and alpha is NaN.
    """

    def rows_at(size: float) -> list[Row]:
        """Return both transitions at this size of the noise."""
        model, n_classes, prior = RADEMACHER
        rows = transition_rows(model, n_classes, prior, _noise_of_size(kind, size))
        noise = {"noise_kind": kind.rstrip(":"), "noise_size": size}
        return [row | noise | {"alpha": row["alpha"] or math.nan} for row in rows]

    return smooth_rows(rows_at, 0.0, NOISES[kind].largest, most, x="noise_size", y="alpha")


def _noise_of_size(kind: str, size: float) -> str:
    """Return the name of a noise; softmax labels of size 1/β have slope β."""
    if size == 0:
        return "none"
    if kind == "softmax:":
        return f"{kind}{1 / size!r}"
    return f"{kind}{size!r}"


def _noisy_phases(profile: Profile) -> list[Computation]:
    most = max(3, profile.line_points // 2)
    return [ask(noisy_transition_rows, kind=kind, most=most) for kind in NOISES]


@figure(
    "noisy-phases",
    "The hard phase of Rademacher weights with noisy labels, k = 3",
    computations=_noisy_phases,
)
def noisy_phases(table: pd.DataFrame) -> pic.Picture:
    """Between the two lines the Bayes-optimal student errs less than message passing does.
    Noise on the teacher's fields, Gaussian or that of the softmax, narrows this phase until it
    closes. With flipped labels perfect learning remains possible, and the phase stays open.
    """
    first, *others = (_phase_panel(table, kind) for kind in NOISES)
    first = replace(first, legend=pic.Legend("upper left"))
    return pic.Picture((first, *others), height=7.2)


@dataclass(frozen=True)
class _HardPhase:
    """α_IT and α_algo against the size of a noise; `closes` where they meet on the axis."""

    size: Sequence[float]
    it: Sequence[float]
    algo: Sequence[float]
    closes: bool

    def middle(self) -> tuple[float, float]:
        """Return a place for a word between the two lines."""
        share = 0.25 if self.closes else 0.8  # where the phase is wide
        size = share * self.size[-1]
        between = np.interp(size, self.size, self.it) + np.interp(size, self.size, self.algo)
        return size, 0.5 * float(between)

    def end(self) -> float:
        """Return the size at which they meet, by the line through the last two sizes.

        At a cusp the gap α_algo − α_IT goes as (end − size)^(3/2), and gap^(2/3) linearly to 0.
        """
        before, last = (np.subtract(self.algo, self.it) ** (2 / 3))[-2:]
        step = self.size[-1] - self.size[-2]
        return float(self.size[-1] + last * step / (before - last))


def _phase_panel(table: pd.DataFrame, kind: str) -> pic.Panel:
    """Return both transitions against the size of one noise."""
    rows = table[table["noise_kind"] == kind.rstrip(":")].sort_values("noise_size")
    has_no_transition = rows["alpha"].isna()  # of both, at sizes beyond the end
    known = rows[~has_no_transition]
    it, algo = (
        pic.trace_of(
            known[known["branch"] == branch],
            "noise_size",
            "alpha",
            colour=pic.COLOURS[role],
            dash=pic.DASHES.get(role, "solid"),
            label=label,
        )
        for (branch, label), role in zip(TRANSITION_LABELS.items(), ("bayes", "amp"), strict=True)
    )
    phase = _HardPhase(it.x, it.y, algo.y, closes=bool(has_no_transition.any()))
    traces = [it, algo]
    notes = [pic.Note(*phase.middle(), "hard", anchor="center middle")]
    if phase.closes:
        end = phase.end()
        level = it.y[-1]
        below = level - 0.3
        traces += [
            pic.Trace((end, end), (below, level), colour=GREY, width=0.6, in_legend=False),
            pic.Trace((end,), (level,), kind="symbols", hollow=True, in_legend=False),
        ]
        notes.append(pic.Note(end, below, f"closes at {end:.3g} ", anchor="right middle"))
    x = pic.Axis(NOISES[kind].label, low=0)
    y = pic.Axis(pic.AXES["alpha"], low=2.2)
    return pic.Panel(tuple(traces), x, y, notes=tuple(notes), title=TITLE_RADEMACHER)


CLASSES = (2, 3, 5)
VARIANCES = (0.05, 3.2)  # ends of the line
CHECKED_VARIANCES = (0.1, 0.4, 1.6)  # by drawn samples
MOST_PER_DIMENSION = 20  # samples drawn: α_s of five classes is 11 at the least noise checked
TOLERANCE_OF_MANY_CLASSES = 1e-2  # of α_s at k > 3
SHARE_BISECTED = 0.05  # of d: the last bracket of the number of samples is at most as wide


def threshold_rows(n_classes: int, most: int) -> list[Row]:
    """Return α_s in theory, against the variance of the noise."""
    tol = None if n_classes <= 3 else TOLERANCE_OF_MANY_CLASSES

    def rows_at(variance: float) -> list[Row]:
        """Return the row of α_s at this variance of the noise."""
        found = separability(Teacher(n_classes, noise=f"gaussian:{variance!r}"), tol)
        row = figure_row(
            "theory",
            "cross-entropy",
            n_classes=n_classes,
            noise_variance=variance,
            alpha=found.alpha_s,
            uncertainty=found.alpha_s_uncertainty,
        )
        return [row]

    low, high = VARIANCES
    return smooth_rows(rows_at, low, high, most, log=True, x="noise_variance", y="alpha")


def separable_share_rows(
    n_classes: int, variance: float, dimension: int, instances: int
) -> list[Row]:
    """Return the largest n/d at which drawn samples can be separated, its mean over instances."""
    teacher = Teacher(n_classes, noise=f"gaussian:{variance!r}")
    largest = []
    for seed in range(instances):
        X, y, _ = teacher.sample(MOST_PER_DIMENSION * dimension, dimension, seed=seed)
        largest.append(_largest_separable(X, y, n_classes) / dimension)
    mean = Average.of(largest)
    row = figure_row(
        "erm",
        "cross-entropy",
        n_classes=n_classes,
        noise_variance=variance,
        alpha=mean.mean,
        alpha_standard_error=_with_bisection(mean.standard_error, instances),
        dimension=dimension,
        instances=instances,
    )
    return [row]


def _with_bisection(standard_error: float | None, instances: int) -> float | None:
    """Return the standard error of a mean over instances, whose numbers are middles of brackets.

    The middle of a bracket is off by its width over √12 (evenly spread), independently for each
    instance as long as they scatter by more than a bracket. They all have the same brackets, so
    that with less scatter they would share one error, and the √instances would be too much.
    """
    if standard_error is None:
        return None
    return math.hypot(standard_error, SHARE_BISECTED / math.sqrt(12 * instances))


def _largest_separable(X: Array, y: Labels, n_classes: int) -> float:
    """Return how many of the first samples can be separated: doubled, then bisected.

    It is the middle of the last bracket.
    """

    def separable(n: int) -> bool:
        """Return whether the first n samples can be separated."""
        return bool(is_separable(X[:n], y[:n], n_classes=n_classes).separable)

    n_samples, dimension = X.shape
    low = dimension
    high = 2 * dimension
    while separable(high):
        if high == n_samples:
            raise ComputationFailed(f"all {n_samples} drawn samples can be separated: draw more")
        low = high
        high = min(2 * high, n_samples)
    while high - low > max(1, SHARE_BISECTED * dimension):
        middle = (low + high) // 2
        if separable(middle):
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


def _thresholds(profile: Profile) -> list[Computation]:
    most = profile.line_points // 2
    lines = [ask(threshold_rows, n_classes=k, most=most) for k in CLASSES]
    checks = [
        ask(
            separable_share_rows,
            n_classes=k,
            variance=variance,
            dimension=profile.separable_dimension,
            instances=profile.separable_instances,
        )
        for k in CLASSES
        for variance in profile.thin(CHECKED_VARIANCES)
    ]
    return lines + checks


@figure("separability", "Up to where classes can be separated", computations=_thresholds)
def separable_alphas(table: pd.DataFrame) -> pic.Panel:
    """*α_{s}* against the variance of Gaussian noise on the teacher's fields. Lines: theory;
    symbols: the largest n/d at which drawn samples were separable, with standard errors, at finite
    d.
    """
    panel = curves_panel(table, "noise_variance", "alpha", log_x=True)
    dimension = int(table["dimension"].max())
    legend = f"lines: *α_s* in theory\nsymbols: tests of separability, *d = {dimension}*"
    return replace(
        pic.placed(panel, "upper right", title=legend),
        x=pic.Axis("variance of the noise *Δ*", "log"),
        y=pic.Axis("largest *α* that can be separated, *α_s*", low=0),
        title="Gaussian weights",
    )


RIDGES_OF_RELIABILITY = (0.01, 0.1, 1.0)
SCORES = {"error": "*ε_{gen}*", "test-loss": "test loss", "calibration": "calibration error"}
N_CELLS = 15  # of confidence
LEAST_SHARE = 1e-4  # of fresh samples in a cell of the theory that is drawn
LEAST_COUNT = 50  # fresh samples in a cell of a fit that is drawn
RANGE_OF_BEST_RIDGES = (0.5, 16.0)  # α
MOST_FITTED = (500, 6)  # dimension and instances


def reliability_rows(ridge: float) -> list[Row]:
    """Return accuracy against confidence in theory."""
    found = calibration(NOISY, make_estimator("cross-entropy", ridge), ALPHA, 3 * N_CELLS)
    row = figure_row("theory", "cross-entropy", alpha=ALPHA, ridge=ridge)
    cells = zip(found.confidence, found.accuracy, found.share, strict=True)
    return [
        row | {"confidence": confidence, "accuracy": accuracy}
        for confidence, accuracy, share in cells
        if share > LEAST_SHARE
    ]


def measured_rows(ridge: float, dimension: int, instances: int) -> list[Row]:
    """Return accuracy against confidence on fresh samples of fits, in even cells."""
    runs = []
    for fit in fits(NOISY, "cross-entropy", ridge, dimension, instances):
        p = softmax(fit.X_fresh @ fit.weights, axis=1)
        run = pd.DataFrame(
            {"confidence": p.max(1), "accuracy": p.argmax(1) == fit.y_fresh, "count": 1.0}
        )
        least = 1 / 3  # confidence of the most probable of three classes
        cell_of_sample = np.ceil((run["confidence"] - least) / (1 - least) * N_CELLS)  # from 1
        means_and_count = {"confidence": "mean", "accuracy": "mean", "count": "sum"}
        runs.append(run.groupby(cell_of_sample).agg(means_and_count))
    row = figure_row("erm", "cross-entropy", alpha=ALPHA, ridge=ridge, dimension=dimension)
    return [
        row
        | {
            "instances": instances,
            "accuracy_standard_error": of_cell["accuracy"].sem(),
            "confidence": of_cell["confidence"].mean(),
            "accuracy": of_cell["accuracy"].mean(),
        }
        for _, of_cell in pd.concat(runs).groupby(level=0)
        if len(of_cell) == instances and of_cell["count"].mean() > LEAST_COUNT
    ]


def best_rows(most: int) -> list[Row]:
    """Return the best ridge for error, test loss and calibration error, against α at k = 2."""
    teacher = Teacher(2, noise=NOISE)

    def rows_at(alpha: float) -> list[Row]:
        """Return the best ridge of each score at this α."""
        row = figure_row("theory", "cross-entropy", n_classes=2, alpha=alpha)
        return [
            row
            | {
                "target": score,
                "ridge": optimal_ridge(teacher, "cross-entropy", alpha, target=score),
            }
            for score in SCORES
        ]

    low, high = RANGE_OF_BEST_RIDGES
    return smooth_rows(rows_at, low, high, most, log=True, y="ridge", line="target")


def _calibration(profile: Profile) -> list[Computation]:
    dimension, instances = MOST_FITTED
    fitted = [
        ask(
            measured_rows,
            ridge=ridge,
            dimension=min(profile.erm_dimension, dimension),
            instances=min(profile.erm_instances, instances),
        )
        for ridge in RIDGES_OF_RELIABILITY
    ]
    theory = [ask(reliability_rows, ridge=ridge) for ridge in RIDGES_OF_RELIABILITY]
    return [*theory, *fitted, ask(best_rows, most=profile.line_points // 2)]


@figure("calibration", "Calibration of cross-entropy with softmax labels, slope 3", _calibration)
def calibration_of_softmax(table: pd.DataFrame) -> pic.Picture:
    """Above: accuracy against confidence at k = 3 and α = 3; too little ridge is overconfident, too
    much underconfident. Lines: theory; symbols: fits, on fresh samples. Below: the best ridge for
    the error, the test loss and the calibration error at k = 2; they differ.
    """
    is_reliability = table["confidence"].notna()
    # `curves_panel` draws one line for each combination of the columns that describe a problem;
    # `target` and, below, `ridge` are not to tell lines apart.
    above = _reliability_panel(table[is_reliability].drop(columns="target"))
    below = _best_ridge_panel(table[~is_reliability])
    return pic.Picture((above, below), height=5.6)


def _reliability_panel(table: pd.DataFrame) -> pic.Panel:
    """Return accuracy against confidence, beside the line where they are equal."""
    panel = curves_panel(table, "confidence", "accuracy")
    ends = (1 / 3, 1.0)
    equal = pic.Trace(ends, ends, colour=GREY, dash="dot", label="calibrated")
    # The ridge alone tells the other lines apart.
    named = [replace(trace, label=trace.label.split(", ")[-1]) for trace in panel.traces]
    dimension = int(table["dimension"].max())
    legend = f"lines: cross-entropy\nsymbols: fits, *d = {dimension}*"
    return replace(
        pic.placed(panel, "upper left", title=legend),
        traces=(equal, *named),
        y=pic.Axis("accuracy"),
        title=f"*k = 3*, Gaussian weights, *α = {ALPHA:g}*, softmax labels of slope 3",
    )


def _best_ridge_panel(table: pd.DataFrame) -> pic.Panel:
    """Return the best ridge for each score against α."""
    named = table.rename(columns={"ridge": "best"}).replace({"target": SCORES})
    panel = curves_panel(named, "alpha", "best", log_x=True)
    panel = pic.placed(panel, "best", title="theory: best *λ* for")
    return replace(
        panel,
        x=replace(panel.x, ticks=(0.5, 1, 2, 5, 10)),
        y=pic.Axis("best ridge *λ*", low=0),
        title="*k = 2*, Gaussian weights, softmax labels of slope 3",
    )
