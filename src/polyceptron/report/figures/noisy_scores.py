"""Noisy labels: when classes can be separated, and what a student's probabilities are worth."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from polyceptron.algorithms.watching import uninterrupted
from polyceptron.report.figures.figure_spec import Computation, FigureSpec, Profile, Row
from polyceptron.report.pictures.parts import Axis, Legend, Panel, Picture, Trace, numbers
from polyceptron.report.pictures.style import AXES, COLOURS, CYCLE

if TYPE_CHECKING:
    import pandas as pd

CLASSES = (2, 3, 5)
VARIANCES = tuple(round(0.05 * 2 ** (i / 2), 4) for i in range(13))  # every other one at k = 5
CHECKED = (0.1, 0.4, 1.6)  # by data, at k = 2 and 3
NOISE, ALPHA, RIDGES = "softmax:3", 3.0, (0.01, 0.1, 1.0)
_ASKED = {"model": "argmax", "prior": "gaussian", "estimator": "cross-entropy"}  # in every row
SCORES = {"error": "*ε_{gen}*", "test-loss": "test loss", "calibration": "calibration error"}


def threshold_rows(n_classes: int, variance: float) -> list[Row]:
    """α_s in theory."""
    from polyceptron.model import Teacher
    from polyceptron.theory.separability import separability

    teacher = Teacher(n_classes, noise=f"gaussian:{variance!r}")  # type: ignore[arg-type]
    found = separability(teacher, None if n_classes <= 3 else 1e-2)
    return [{"source": "theory", **_ASKED, "n_classes": n_classes, "noise_variance": variance,
             "alpha": found.alpha_s}]  # fmt: skip


def separable_share_rows(
    n_classes: int, variance: float, dimension: int, seeds: list[int]
) -> list[Row]:
    """The largest n/d at which drawn samples can be separated, its mean over the seeds."""
    import numpy as np

    found = np.array([_largest(n_classes, variance, dimension, seed) for seed in seeds])
    return [{"source": "erm", **_ASKED, "n_classes": n_classes, "noise_variance": variance,
             "dimension": dimension, "instances": len(seeds), "alpha": float(found.mean()),
             "alpha_standard_error": float(found.std(ddof=1) / math.sqrt(len(seeds)))}]  # fmt: skip


def _largest(n_classes: int, variance: float, dimension: int, seed: int) -> float:
    """n/d up to which the first n samples can be separated: doubled, then halved in on."""
    from polyceptron.algorithms.separation import is_separable
    from polyceptron.model import Teacher

    teacher = Teacher(n_classes, noise=f"gaussian:{variance!r}")  # type: ignore[arg-type]
    X, y, _ = teacher.sample(12 * dimension, dimension, seed=seed)
    low, high, last = dimension, 2 * dimension, 12 * dimension
    while high < last and is_separable(X[:high], y[:high], n_classes=n_classes).separable:
        low, high = high, min(2 * high, last)
    while high - low > max(1, dimension // 20):
        middle = (low + high) // 2
        inside = is_separable(X[:middle], y[:middle], n_classes=n_classes).separable
        low, high = (middle, high) if inside else (low, middle)
    return 0.5 * (low + high) / dimension


def reliability_rows(ridge: float) -> list[Row]:
    """Accuracy against confidence in theory."""
    from polyceptron.model import ERM, Teacher
    from polyceptron.theory.calibration import calibration

    found = calibration(Teacher(3, noise=NOISE), ERM("cross-entropy", ridge), ALPHA)  # type: ignore[arg-type]
    return [
        {"source": "theory", **_ASKED, "n_classes": 3, "alpha": ALPHA, "ridge": ridge,
         "confidence": c, "accuracy": a, "share": s}
        for c, a, s in zip(found.confidence, found.accuracy, found.share, strict=True)
        if s > 1e-4
    ]  # fmt: skip


def measured_rows(ridge: float, dimension: int, runs: int) -> list[Row]:
    """The same on fresh samples of fits."""
    import numpy as np

    from polyceptron.algorithms.erm.fit import fit_erm
    from polyceptron.model import CrossEntropy, Teacher

    teacher, edges = Teacher(3, noise=NOISE), np.linspace(1 / 3, 1, 16)  # type: ignore[arg-type]
    sums = np.zeros((runs, 3, 15))
    for run in range(runs):
        rng = np.random.default_rng([11, run])
        X, y, W = teacher.sample(int(ALPHA * dimension), dimension, seed=rng)
        fitted = uninterrupted(fit_erm(X, y, "cross-entropy", ridge)).weights
        fresh = rng.standard_normal((6000, dimension)) / math.sqrt(dimension)
        label = teacher.noise.sample(fresh @ W, rng)
        p = CrossEntropy().probabilities(fresh @ fitted)
        assert p is not None
        place = np.clip(np.digitize(p.max(1), edges) - 1, 0, 14)
        for i, part in enumerate((np.ones(len(p)), p.max(1), p.argmax(1) == label)):
            sums[run, i] = np.bincount(place, part, 15)
    total = sums.sum(0)
    with np.errstate(invalid="ignore", divide="ignore"):
        accuracy = sums[:, 2] / sums[:, 0]
        spread = accuracy.std(0, ddof=1) / math.sqrt(runs)
    return [
        {"source": "erm", **_ASKED, "n_classes": 3, "alpha": ALPHA, "ridge": ridge,
         "dimension": dimension,
         "share": total[0, b] / total[0].sum(), "instances": runs,
         "confidence": total[1, b] / total[0, b], "accuracy": total[2, b] / total[0, b],
         "uncertainty": float(spread[b])}
        for b in range(15)
        if total[0, b] > 50 * runs
    ]  # fmt: skip


def best_rows(alpha: float) -> list[Row]:
    """The best ridge for the error, the test loss and the calibration error."""
    from polyceptron.model import Teacher
    from polyceptron.theory.erm.fixed_point import optimal_ridge

    teacher = Teacher(2, noise=NOISE)  # type: ignore[arg-type]
    return [
        {"source": "theory", **_ASKED, "n_classes": 2, "target": target, "alpha": alpha,
         "ridge": optimal_ridge(teacher, "cross-entropy", alpha, target=target)}
        for target in SCORES
    ]  # fmt: skip


def separability_picture(table: pd.DataFrame) -> Picture:
    """α_s against the noise, a colour for each k; symbols: data."""
    traces = []
    for k, colour in zip(CLASSES, CYCLE, strict=False):
        rows = table[table["n_classes"] == k]
        line = rows[rows["source"] == "theory"].sort_values("noise_variance")
        traces.append(Trace(numbers(line["noise_variance"]), numbers(line["alpha"]), colour=colour,
                            label=f"*k* = {k}"))  # fmt: skip
        data = rows[rows["source"] == "erm"].sort_values("noise_variance")
        if len(data):
            traces.append(Trace(numbers(data["noise_variance"]), numbers(data["alpha"]),
                                numbers(data["alpha_standard_error"]), "symbols", colour,
                                marker="circle", in_legend=False))  # fmt: skip
    panel = Panel(
        tuple(traces),
        Axis("variance of the noise *Δ*", "log"),
        Axis("largest *α* that can be separated, *α_s*", low=0),
        legend=Legend("upper right"),
    )
    return Picture((panel,))


def calibration_picture(table: pd.DataFrame) -> Picture:
    """Above: accuracy against confidence; below: the best ridge for each score."""
    above = [Trace((1 / 3, 1.0), (1 / 3, 1.0), colour=COLOURS["unstable"], dash="dot",
                   label="calibrated")]  # fmt: skip
    for ridge, colour in zip(RIDGES, CYCLE, strict=False):
        rows = table[(table["ridge"] == ridge) & table["confidence"].notna()]
        line, data = rows[rows["source"] == "theory"], rows[rows["source"] == "erm"]
        above.append(Trace(numbers(line["confidence"]), numbers(line["accuracy"]), colour=colour,
                           label=f"*λ* = {ridge:g}"))  # fmt: skip
        above.append(Trace(numbers(data["confidence"]), numbers(data["accuracy"]),
                           numbers(data["uncertainty"]), "symbols", colour, marker="circle",
                           in_legend=False))  # fmt: skip
    below = []
    for (target, label), colour in zip(SCORES.items(), CYCLE, strict=False):
        rows = table[table["target"] == target].sort_values("alpha")
        below.append(Trace(numbers(rows["alpha"]), numbers(rows["ridge"]), colour=colour,
                           label=label))  # fmt: skip
    return Picture(
        (
            Panel(tuple(above), Axis("confidence"), Axis("accuracy"), legend=Legend("upper left")),
            Panel(tuple(below), Axis(AXES["alpha"], "log"), Axis("best ridge *λ*", low=0),
                  legend=Legend("best", "best for")),
        ),
        height=5.2,
    )  # fmt: skip


def _thresholds(profile: Profile) -> list[Computation]:
    runs = 2 if profile.name == "tiny" else 5
    d = min(profile.erm_dimension, 300 if profile.name == "paper" else 40)
    asked: list[dict[str, Any]] = [
        {"n_classes": k, "variance": v, "dimension": d, "seeds": list(range(runs))}
        for k in CLASSES[:2]
        for v in (CHECKED if profile.name != "tiny" else CHECKED[:1])
    ]
    return [
        *(Computation(threshold_rows, {"n_classes": k, "variance": v}, 1 + k)
          for k in CLASSES for v in VARIANCES[:: 1 if k <= 3 else 2]),
        *(Computation(separable_share_rows, one, runs) for one in asked),
    ]  # fmt: skip


def _scores(profile: Profile) -> list[Computation]:
    size = {"dimension": min(profile.erm_dimension, 500), "runs": min(profile.erm_instances, 6)}
    alphas = (1.0, 4.0) if profile.name == "tiny" else (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
    return [
        *(Computation(reliability_rows, {"ridge": ridge}, 2) for ridge in RIDGES),
        *(Computation(measured_rows, {"ridge": ridge, **size}, 3) for ridge in RIDGES),
        *(Computation(best_rows, {"alpha": alpha}, 2) for alpha in alphas),
    ]


SEPARABILITY = FigureSpec(
    "separability",
    "Up to where classes can be separated",
    "α_s against the variance of Gaussian noise on the teacher's fields. Lines: theory; symbols: "
    "the largest n/d at which drawn samples were separable, with standard errors, at finite d.",
    separability_picture,
    computations=_thresholds,
)

CALIBRATION = FigureSpec(
    "calibration",
    "Calibration of cross-entropy with softmax labels, slope 3",
    "Above: accuracy against confidence at k = 3 and α = 3; too little ridge is overconfident, too "
    "much underconfident. Lines: theory; symbols: fits, on fresh samples. Below: the best ridge "
    "for the error, the test loss and the calibration error at k = 2; they differ.",
    calibration_picture,
    computations=_scores,
)
