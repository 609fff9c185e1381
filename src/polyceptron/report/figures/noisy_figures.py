"""Figures of noisy labels.

Learning curves above their floor, where the hard phase of Rademacher weights closes, up to which α
classes can be separated, and what a student's probabilities are worth.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from polyceptron.algorithms.erm.fit import fit_erm
from polyceptron.algorithms.separation import is_separable
from polyceptron.algorithms.watching import uninterrupted
from polyceptron.model import CrossEntropy, make_estimator, make_teacher
from polyceptron.report.figures.figure_spec import (
    Computation,
    FigureSpec,
    Grid,
    Profile,
    Row,
    figure_row,
    grid,
    with_fits,
)
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
    placed,
)
from polyceptron.report.pictures.style import AXES, COLOURS, CYCLE
from polyceptron.theory.bayes_optimal.transitions import transitions
from polyceptron.theory.calibration import calibration
from polyceptron.theory.curve import curve_rows
from polyceptron.theory.erm.fixed_point import optimal_ridge
from polyceptron.theory.generalisation import error_floor
from polyceptron.theory.separability import separability

if TYPE_CHECKING:
    import pandas as pd

NOISE = "softmax:3"
LARGEST_ALPHA = 12.0
RIDGES: dict[str, float | None] = {"cross-entropy": 0.1, "square": 1.0}
NEAR = (0.85, 0.93, 0.97, 0.995, 1.005, 1.03, 1.07, 1.15)  # of α_s: the line bends there


def floor_rows(noise: str) -> list[Row]:
    """The floor and α_s of the noise at k = 3, in one row."""
    teacher = make_teacher("argmax", 3, "gaussian", noise)
    return [
        figure_row(
            "theory", "bayes", branch="floor", noise=noise, alpha=separability(teacher).alpha_s,
            generalisation_error=error_floor(teacher.channel, 3), status="ok",
        )
    ]  # fmt: skip


def bare_rows(noise: str, alphas: list[float]) -> list[Row]:
    """Cross-entropy without ridge, up to α_s and beyond."""
    teacher = make_teacher("argmax", 3, "gaussian", noise)
    threshold = separability(teacher).alpha_s
    values = sorted({*alphas, *(round(x * threshold, 4) for x in NEAR)})
    rows = curve_rows(teacher, make_estimator("cross-entropy", 0.0), values)
    return [row | {"branch": "no-ridge"} for row in rows]


def _noisy_grids(profile: Profile) -> list[Grid]:
    marks = profile.thin([0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0])[:8]
    lines = profile.line(0.1, LARGEST_ALPHA, marks)
    sizes = profile.fits(further=True) | ({"instances": 5} if profile.name == "quick" else {})
    bayes = grid("theory", "bayes", lines, noise=[NOISE])
    return [bayes, *with_fits(RIDGES.items(), lines, marks, sizes, noise=[NOISE])]


def _noisy_computations(profile: Profile) -> list[Computation]:
    alphas = profile.spread(0.2, LARGEST_ALPHA, max(profile.line_points // 2, 8))
    return [
        Computation(floor_rows, {"noise": NOISE}, 2),
        Computation(bare_rows, {"noise": NOISE, "alphas": alphas}, 8),
    ]


def picture_noisy_curves(table: pd.DataFrame) -> Picture:
    """All estimators, the floor, and α_s."""
    branch = table["branch"]
    floor, bare = table[branch == "floor"].iloc[0], table[branch == "no-ridge"]
    lowest, threshold = float(floor["generalisation_error"]), float(floor["alpha"])
    extra = (
        Trace(numbers(bare["alpha"]), numbers(bare["generalisation_error"]),
              colour=COLOURS["max-margin"], label="cross-entropy, no ridge"),
        Trace((0.0, LARGEST_ALPHA), (lowest, lowest), colour=COLOURS["unstable"], dash="dot",
              label="floor", in_legend=False),
    )  # fmt: skip
    panel = curves_panel(table[~branch.isin(["floor", "no-ridge"])], log_x=False)
    limits = (0, LARGEST_ALPHA), (lowest - 0.04, 0.68)
    panel = replace(
        placed(panel, "upper right", *limits, title=""),
        traces=(*panel.traces, *extra),
        marks=(Mark(threshold, f"*α_s* = {threshold:.2f}"),),
        notes=(Note(0.15, lowest - 0.022, "floor: the teacher itself", COLOURS["unstable"]),),
    )
    return Picture((panel,))


NOISY_CURVES = FigureSpec(
    "noisy-curves",
    "Learning with softmax labels, k = 3, slope 3",
    "Error on labels as drawn. The floor is the error of the teacher itself. Without a ridge "
    "cross-entropy is max-margin below α_s, where the classes can be separated, and the maximum-"
    "likelihood estimate above. Lines: theory; symbols: fits, with standard errors.",
    picture_noisy_curves,
    _noisy_grids,
    _noisy_computations,
)


class Noises(NamedTuple):
    """Of growing size: label of the axis, sizes, named by 1/size or not, and if the phase ends."""

    label: str
    sizes: tuple[float, ...]
    inverse: bool = False
    closes: bool = True


PHASES = {
    "gaussian": Noises("variance of the noise *Δ*", (0.0, 0.0015, 0.003, 0.006, 0.009, 0.012)),
    "softmax": Noises("softmax labels, 1/*β*", (0.0, 0.01, 0.025, 0.04, 0.055, 0.07), True),
    "flips": Noises("share of flipped labels *η*", (0.0, 0.05, 0.1, 0.15, 0.2), closes=False),
}


def noisy_transition_rows(kind: str, size: float) -> list[Row]:
    """α_IT and α_algo of the Rademacher teacher of three classes; the size of softmax is 1/β."""
    noise = f"{kind}:{1 / size if PHASES[kind].inverse else size!r}" if size > 0 else "none"
    found = transitions(make_teacher("argmax", 3, "rademacher", noise))
    return [
        figure_row(
            "theory", "bayes", prior="rademacher", noise=noise, noise_kind=kind, noise_size=size,
            alpha=found.alpha_it, alpha_it=found.alpha_it, alpha_algo=found.alpha_algo,
        )
    ]  # fmt: skip


def closing_rows(kind: str, low: float, high: float, steps: int) -> list[Row]:
    """The size at which the hard phase closes, in a cusp: its width to the 2/3 falls linearly."""
    points: list[tuple[float, float]] = []
    size = low
    for step in range(steps + 2):
        found = noisy_transition_rows(kind, size)[0]
        if found["alpha_it"] is None:
            break
        row = found
        points.append((size, (row["alpha_algo"] - row["alpha_it"]) ** (2 / 3)))
        if step == 0:
            size = high
            continue
        (x0, w0), (x1, w1) = points[-2:]
        end = x1 + w1 * (x1 - x0) / (w0 - w1)
        size = x1 + 0.8 * (end - x1)
    alpha = 0.5 * (row["alpha_it"] + row["alpha_algo"])
    both = {"alpha": alpha, "alpha_it": alpha, "alpha_algo": alpha}
    return [row | both | {"noise_size": end, "branch": "closing"}]


def picture_phases(table: pd.DataFrame) -> Picture:
    """α_IT and α_algo against each noise: between them the hard phase."""
    return Picture(tuple(_phase_panel(table, kind) for kind in PHASES), height=7.2)


def _phase_panel(table: pd.DataFrame, kind: str) -> Panel:
    rows = table[table["noise_kind"] == kind].sort_values("noise_size")
    x = numbers(rows["noise_size"])
    it, algo = numbers(rows["alpha_it"]), numbers(rows["alpha_algo"])
    end = rows[rows["branch"] == "closing"]
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
    legend = None if PHASES[kind].closes else Legend("upper left")
    across, up = Axis(PHASES[kind].label, low=0), Axis(AXES["alpha"], low=2.2)
    return Panel(traces, across, up, notes=tuple(notes), legend=legend)


def _phases(profile: Profile) -> list[Computation]:
    tiny, found = profile.name == "tiny", []
    for kind, noises in PHASES.items():
        for size in noises.sizes[:2] if tiny else noises.sizes:
            found.append(Computation(noisy_transition_rows, {"kind": kind, "size": size}, 1))
        if noises.closes:
            low, high = noises.sizes[-2:]
            asked = {"kind": kind, "low": low, "high": high, "steps": 0 if tiny else 3}
            found.append(Computation(closing_rows, asked, 2))
    return found


NOISY_PHASES = FigureSpec(
    "noisy-phases",
    "The hard phase of Rademacher weights with noisy labels, k = 3",
    "Between the two lines perfect knowledge of the posterior errs less than message passing does. "
    "Noise on the teacher's fields, Gaussian or that of the softmax, narrows this phase until it "
    "closes. Flips leave perfect learning a state of its own, and the phase stays open.",
    picture_phases,
    computations=_phases,
)


CLASSES = (2, 3, 5)
VARIANCES = tuple(round(0.05 * 2 ** (i / 2), 4) for i in range(13))  # every other one at k = 5
CHECKED = (0.1, 0.4, 1.6)  # by data, at k = 2 and 3


def threshold_rows(n_classes: int, variance: float) -> list[Row]:
    """α_s in theory."""
    teacher = make_teacher("argmax", n_classes, "gaussian", f"gaussian:{variance!r}")
    alpha = separability(teacher, None if n_classes <= 3 else 1e-2).alpha_s
    place = {"n_classes": n_classes, "noise_variance": variance}
    return [figure_row("theory", "cross-entropy", **place, alpha=alpha)]


def separable_share_rows(
    n_classes: int, variance: float, dimension: int, seeds: list[int]
) -> list[Row]:
    """The largest n/d at which drawn samples can be separated, its mean over the seeds."""
    found = np.array([_largest(n_classes, variance, dimension, seed) for seed in seeds])
    return [
        figure_row(
            "erm", "cross-entropy", n_classes=n_classes, noise_variance=variance,
            dimension=dimension, instances=len(seeds), alpha=float(found.mean()),
            alpha_standard_error=float(found.std(ddof=1) / math.sqrt(len(seeds))),
        )
    ]  # fmt: skip


def _largest(n_classes: int, variance: float, dimension: int, seed: int) -> float:
    """n/d up to which the first n samples can be separated: doubled, then halved in on."""
    teacher = make_teacher("argmax", n_classes, "gaussian", f"gaussian:{variance!r}")
    X, y, _ = teacher.sample(12 * dimension, dimension, seed=seed)
    low, high, last = dimension, 2 * dimension, 12 * dimension
    while high < last and is_separable(X[:high], y[:high], n_classes=n_classes).separable:
        low, high = high, min(2 * high, last)
    while high - low > max(1, dimension // 20):
        middle = (low + high) // 2
        inside = is_separable(X[:middle], y[:middle], n_classes=n_classes).separable
        low, high = (middle, high) if inside else (low, middle)
    return 0.5 * (low + high) / dimension


def picture_separability(table: pd.DataFrame) -> Picture:
    """α_s against the noise, a colour for each k; symbols: data."""
    panel = curves_panel(table, "noise_variance", "alpha", log_x=True)
    x = Axis("variance of the noise *Δ*", "log")
    y = Axis("largest *α* that can be separated, *α_s*", low=0)
    return Picture((replace(panel, x=x, y=y, legend=Legend("upper right")),))


def _thresholds(profile: Profile) -> list[Computation]:
    tiny = profile.name == "tiny"
    seeds = list(range(2 if tiny else 5))
    d = min(profile.erm_dimension, 300 if profile.name == "paper" else 40)
    lines = [(k, v) for k in CLASSES for v in VARIANCES[:: 1 if k <= 3 else 2]]
    symbols = [(k, v) for k in CLASSES[:2] for v in (CHECKED[:1] if tiny else CHECKED)]
    sizes: dict[str, Any] = {"dimension": d, "seeds": seeds}
    return [
        *(Computation(threshold_rows, {"n_classes": k, "variance": v}, 1 + k) for k, v in lines),
        *(
            Computation(separable_share_rows, {"n_classes": k, "variance": v, **sizes}, len(seeds))
            for k, v in symbols
        ),
    ]


SEPARABILITY = FigureSpec(
    "separability",
    "Up to where classes can be separated",
    "α_s against the variance of Gaussian noise on the teacher's fields. Lines: theory; symbols: "
    "the largest n/d at which drawn samples were separable, with standard errors, at finite d.",
    picture_separability,
    computations=_thresholds,
)


ALPHA, STRENGTHS = 3.0, (0.01, 0.1, 1.0)  # of the reliability curves, with their ridges
SCORES = {"error": "*ε_{gen}*", "test-loss": "test loss", "calibration": "calibration error"}
BINS = 15


def reliability_rows(ridge: float) -> list[Row]:
    """Accuracy against confidence in theory."""
    teacher = make_teacher("argmax", 3, "gaussian", NOISE)
    found = calibration(teacher, make_estimator("cross-entropy", ridge), ALPHA)
    base = figure_row("theory", "cross-entropy", alpha=ALPHA, ridge=ridge)
    return [
        base | {"confidence": c, "accuracy": a, "share": s}
        for c, a, s in zip(found.confidence, found.accuracy, found.share, strict=True)
        if s > 1e-4
    ]


def measured_rows(ridge: float, dimension: int, runs: int) -> list[Row]:
    """The same on fresh samples of fits."""
    teacher, edges = make_teacher("argmax", 3, "gaussian", NOISE), np.linspace(1 / 3, 1, BINS + 1)
    sums = np.zeros((runs, 3, BINS))
    for run in range(runs):
        rng = np.random.default_rng([11, run])
        X, y, W = teacher.sample(int(ALPHA * dimension), dimension, seed=rng)
        fitted = uninterrupted(fit_erm(X, y, "cross-entropy", ridge)).weights
        fresh = rng.standard_normal((6000, dimension)) / math.sqrt(dimension)
        label = teacher.channel.sample(fresh @ W, rng)
        p = CrossEntropy().probabilities(fresh @ fitted)
        assert p is not None
        place = np.clip(np.digitize(p.max(1), edges) - 1, 0, BINS - 1)
        for i, part in enumerate((np.ones(len(p)), p.max(1), p.argmax(1) == label)):
            sums[run, i] = np.bincount(place, part, BINS)
    count, sure, right = sums.sum(0)
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = (sums[:, 2] / sums[:, 0]).std(0, ddof=1) / math.sqrt(runs)
    base = figure_row("erm", "cross-entropy", alpha=ALPHA, ridge=ridge, dimension=dimension)
    return [
        base | {"instances": runs, "share": count[b] / count.sum(),
                "confidence": sure[b] / count[b], "accuracy": right[b] / count[b],
                "accuracy_standard_error": float(spread[b])}
        for b in range(BINS)
        if count[b] > 50 * runs
    ]  # fmt: skip


def best_rows(alpha: float) -> list[Row]:
    """The best ridge for the error, the test loss and the calibration error."""
    teacher, base = make_teacher("argmax", 2, "gaussian", NOISE), {"n_classes": 2, "alpha": alpha}
    best = {score: optimal_ridge(teacher, "cross-entropy", alpha, target=score) for score in SCORES}
    return [
        figure_row("theory", "cross-entropy", **base, target=score, ridge=ridge)
        for score, ridge in best.items()
    ]


def picture_calibration(table: pd.DataFrame) -> Picture:
    """Above: accuracy against confidence; below: the best ridge for each score."""
    equal = Trace((1 / 3, 1.0), (1 / 3, 1.0), colour=COLOURS["unstable"], dash="dot",
                  label="calibrated")  # fmt: skip
    reliability = table[table["confidence"].notna()].drop(columns="target")
    above = curves_panel(reliability, "confidence", "accuracy")
    # The ridge alone tells these lines apart.
    named = (replace(trace, label=trace.label.split(", ")[-1]) for trace in above.traces)
    above = replace(above, traces=(equal, *named), y=Axis("accuracy"))
    below = []
    for (target, label), colour in zip(SCORES.items(), CYCLE, strict=False):
        rows = table[table["target"] == target].sort_values("alpha")
        xs, ys = numbers(rows["alpha"]), numbers(rows["ridge"])
        below.append(Trace(xs, ys, colour=colour, label=label))
    x, y = Axis(AXES["alpha"], "log"), Axis("best ridge *λ*", low=0)
    best = Panel(tuple(below), x, y, legend=Legend("best", "best for"))
    return Picture((placed(above, "upper left", title=""), best), height=5.2)


def _scores(profile: Profile) -> list[Computation]:
    size = {"dimension": min(profile.erm_dimension, 500), "runs": min(profile.erm_instances, 6)}
    alphas = (1.0, 4.0) if profile.name == "tiny" else (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
    return [
        *(Computation(reliability_rows, {"ridge": ridge}, 2) for ridge in STRENGTHS),
        *(Computation(measured_rows, {"ridge": ridge, **size}, 3) for ridge in STRENGTHS),
        *(Computation(best_rows, {"alpha": alpha}, 2) for alpha in alphas),
    ]


CALIBRATION = FigureSpec(
    "calibration",
    "Calibration of cross-entropy with softmax labels, slope 3",
    "Above: accuracy against confidence at k = 3 and α = 3; too little ridge is overconfident, too "
    "much underconfident. Lines: theory; symbols: fits, on fresh samples. Below: the best ridge "
    "for the error, the test loss and the calibration error at k = 2; they differ.",
    picture_calibration,
    computations=_scores,
)
