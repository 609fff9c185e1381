"""Figures of Gaussian mixtures: unequal classes, and scikit-learn's digits beside their twins.

Cross-entropy with an intercept meets two clusters: a rare class, treated in five ways, and classes
with variances of their own. Best weights and best shifts are those of the theory, for fits too.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from polyceptron.data.watching import uninterrupted
from polyceptron.fit.erm import fit_erm
from polyceptron.pictures import parts as pic
from polyceptron.pictures.curves import ERROR, curves_panel, fact
from polyceptron.problem import ERM, Mixture
from polyceptron.questions.twins import twin_report, twins_panel
from polyceptron.report.figures import figure_spec as spec
from polyceptron.rows import Status, error_column
from polyceptron.sides.scores import PopulationScores, population_scores
from polyceptron.students.measuring import n_samples, weights_law
from polyceptron.theory.best_class_weight import best_class_weight
from polyceptron.theory.best_shift import best_shift
from polyceptron.theory.erm.fixed_point import erm_fixed_point
from polyceptron.theory.linear_floor import linear_floor

RIDGE = 0.1
STUDENT = ERM("cross-entropy", RIDGE, intercept=True)
RARE, EVEN = Mixture((0.9, 0.1), separation=2.0), Mixture((0.5, 0.5), separation=2.0)
NONE = {"dimension": 0, "instances": 0}
ALPHAS = (2.0, 4.0, 8.0, 16.0)  # with fits: below, few samples of the rare class shift them


class Way(NamedTuple):
    """A fit to samples of `drawn` at α, with class weights, whose intercepts are then shifted."""

    name: str
    drawn: Mixture
    alpha: float
    weights: tuple[float, ...] = (1.0, 1.0)
    shift: tuple[float, ...] = (0.0, 0.0)

    def rows(self, met: Mixture, dimension: int, instances: int, **place: float) -> list[spec.Row]:
        """Scores on samples of the population `met`: in theory, and the mean of so many fits."""
        point = erm_fixed_point(self.drawn, replace(STUDENT, class_weight=self.weights), self.alpha)
        shift = np.array([self.shift[0] - self.shift[1]]) / 2**0.5  # in contrast coordinates
        base = {**met.columns, **STUDENT.columns, "way": self.name, **place, "levels": None}
        found = population_scores(replace(point.law, shares=met.group_shares).shifted(shift))
        unsure = {"uncertainty": float(found.error.uncertainty)}
        theory = {"source": "theory", **base, **_numbers(found), **unsure, "status": point.status}
        if instances == 0:
            return [theory]
        runs = []
        for i in range(instances):  # ways at one place are given the same data
            seed = np.random.SeedSequence([i, *(round(1000 * value) for value in place.values())])
            X, y, truth = self.drawn.sample(n_samples(self.alpha, dimension), dimension, seed)
            own: Any = {"intercept": True, "class_weight": dict(enumerate(self.weights))}
            fit = uninterrupted(fit_erm(X, y, STUDENT.loss, RIDGE, **own))
            law = weights_law(met, fit.weights, fit.intercepts + self.shift, truth)
            runs.append(_numbers(population_scores(law)) | {"failed": fit.status != "ok"})
        table = pd.DataFrame(runs)
        status = Status.NOT_CONVERGED if table.pop("failed").any() else Status.OK
        counts = {"dimension": dimension, "instances": instances, "status": status}
        spread = {error_column(str(name)): value for name, value in table.sem().items()}
        return [theory, {"source": "erm", **base, **table.mean(), **spread, **counts}]


def _numbers(scores: PopulationScores) -> dict[str, float]:
    found = (scores.error.value, scores.balanced_error.value, scores.recall.value[1])
    names = (ERROR, "balanced_error", "rare_recall")
    return {name: float(value) for name, value in zip(names, found, strict=True)}


def treatment_rows(marks: list[float], most: int, **size: int) -> list[spec.Row]:
    """Every way of treating the rare class, against α; fits of that size at the marks."""

    def at(alpha: float) -> list[spec.Row]:
        own = size if alpha in marks else NONE
        return [row for way in _ways(alpha) for row in way.rows(RARE, **own, alpha=alpha)]

    lines: Any = {"log": True, "y": "balanced_error", "line": "way"}
    return spec.smooth_rows(at, 0.5, ALPHAS[-1], most, marks, **lines)


def _ways(alpha: float) -> tuple[Way, ...]:
    shares = RARE.class_shares
    weights = best_class_weight(RARE, STUDENT, alpha).chosen.tolist()
    shift = best_shift(RARE, STUDENT, alpha).chosen.tolist()
    return (
        Way("no weights", RARE, alpha),
        Way("balanced weights", RARE, alpha, tuple((1 / (2 * shares)).tolist())),
        Way("best weights", RARE, alpha, tuple(weights)),
        Way("best shift", RARE, alpha, shift=tuple(shift)),
        Way("undersampled", EVEN, 2 * float(shares[1]) * alpha),
    )


def _fitted(profile: spec.Profile, marks: spec.Values) -> dict[str, Any]:
    """Where there are fits, of which size, and how many points the lines have at most."""
    size = {"dimension": profile.erm_dimension, "instances": profile.noisy_instances}
    few = replace(profile, symbols=(profile.symbols + 1) // 2)
    return {"marks": few.thin(marks), "most": profile.line_points // 2, **size}


@spec.figure(
    "imbalance",
    "A class with a tenth of the samples",
    computations=lambda profile: [spec.ask(treatment_rows, **_fitted(profile, ALPHAS))],
)
def imbalance(table: pd.DataFrame) -> pic.Picture:
    """Balanced error and recall of the rare class: two Gaussian clusters at distance 2,
    cross-entropy with an intercept, λ = 0.1. At small α data can be separated, and balanced weights
    change little; a shift of the intercept after the fit does what the best weights do.
    Undersampled: as many samples of one class as of the other. Lines: theory; symbols: fits, with
    standard errors.
    """
    panels = []
    for name in ("balanced_error", "rare_recall"):
        panel = curves_panel(table, y=name, log_x=True)
        ways = [trace.label.split(", ")[0] for trace in panel.traces]
        colours = dict(zip(dict.fromkeys(ways), pic.CYCLE, strict=False))
        named = zip(panel.traces, ways, strict=True)
        traces = tuple(replace(trace, label=way, colour=colours[way]) for trace, way in named)
        panels.append(replace(panel, traces=traces))
    above = pic.placed(panels[0], "upper right", y=(0.15, 0.62), columns=2)
    recall = pic.Axis("recall of the rare class", low=0, high=1)
    return pic.Picture((above, replace(panels[1], y=recall, legend=None)), height=5.2)


RATIOS = (0.1, 0.25, 1.0, 4.0, 10.0)  # of the variances, with fits
AMOUNTS = (1.0, 3.0, 10.0)  # α


def ratio_rows(alpha: float, marks: list[float], most: int, **size: int) -> list[spec.Row]:
    """Against the ratio of variances, of mean 1 over samples; and the best linear rule."""

    def at(ratio: float) -> list[spec.Row]:
        first = 1 / (0.8 + 0.2 * ratio)
        own = Mixture((0.8, 0.2), separation=2.0, variances=(first, ratio * first))
        fitted = size if ratio in marks else NONE
        rows = Way("own", own, alpha).rows(own, **fitted, alpha=alpha, ratio=ratio)
        floor = linear_floor(own)
        errors = {ERROR: float(floor.value), "uncertainty": float(floor.uncertainty)}
        others = {"balanced_error": None, "rare_recall": None}
        return [*rows, {**rows[0], "branch": "floor", **others, **errors}]

    return spec.smooth_rows(at, RATIOS[0], RATIOS[-1], most, [*marks, 1.0], log=True, x="ratio")


@spec.figure(
    "mixtures",
    "Two clusters with variances of their own",
    computations=lambda profile: [
        spec.ask(ratio_rows, alpha=alpha, **_fitted(profile, RATIOS)) for alpha in AMOUNTS
    ],
)
def mixtures(table: pd.DataFrame) -> pic.Panel:
    """Error of cross-entropy (λ = 0.1) where a fifth of the samples have another variance; the mean
    variance is 1 throughout. Dashed: the same with one variance for all, as by a pooled covariance.
    Dotted: the best linear rule. Lines: theory; symbols: fits, with standard errors.
    """
    floor = table["branch"] == "floor"
    told = table[~floor].assign(way=[fact("alpha", a) for a in table.loc[~floor, "alpha"]])
    panel = curves_panel(told, "ratio", log_x=True)
    traces = tuple(replace(trace, label=trace.label.split(", ")[0]) for trace in panel.traces)
    panel, ends = replace(panel, traces=traces), (RATIOS[0], RATIOS[-1])
    pooled = [
        pic.Trace(ends, (y, y), colour=t.colour, dash="dash", width=0.8, in_legend=False)
        for t in panel.traces
        if t.kind == "line"
        for x, y in zip(t.x, t.y, strict=True)
        if x == 1
    ]
    lowest = table[floor].drop_duplicates("ratio").sort_values("ratio")
    grey = pic.COLOURS["unstable"]
    best = pic.trace_of(lowest, "ratio", ERROR, colour=grey, dash="dot", label="best linear rule")
    x = pic.Axis("variance of the rare class / of the other", "log")
    panel = pic.placed(panel, "upper right", y=(0.06, 0.28), columns=2)
    return replace(panel, traces=(*panel.traces, *pooled, best), x=x)


SIZES = (0.1, 0.16, 0.25, 0.4, 0.63, 1.0)  # of what may be learnt from


def digits_rows(ridge: float, draws: int, sizes: list[float]) -> list[spec.Row]:
    """Measured errors of cross-entropy, and those of the twins."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    found = twin_report(X, y, ERM(ridge=ridge), train_sizes=sizes, draws=draws)
    return [
        spec.figure_row(
            str(row.model),
            "cross-entropy",
            model="mixture",
            n_classes=10,
            ridge=ridge,
            n_samples=row.n_samples,
            alpha=row.alpha,
            dimension=row.dimension,
            generalisation_error=row.error,
            error_bar=row.error_uncertainty,
            instances=row.instances,
            status="ok",
        )
        for row in found.frame.itertuples()
    ]


@spec.figure(
    "twins",
    "Digits and their Gaussian twins",
    computations=lambda p: [
        spec.ask(digits_rows, ridge=0.1, draws=2 if p.symbols < 16 else 10, sizes=p.thin(SIZES))
    ],
)
def twins(table: pd.DataFrame) -> pic.Panel:
    """Error of logistic regression (*λ* = 0.1) on held-out digits, and on Gaussian mixtures with
    the classes' own means and covariances, a pooled covariance or isotropic classes, fitted to as
    many drawn samples; teacher: theory of a linear rule with the data's spectrum, one number of
    which is fitted. Bars hold in 99 of 100 cases.
    """
    names = {"generalisation_error": "error", "error_bar": "error_uncertainty", "source": "model"}
    panel = twins_panel(table.drop(columns="model").rename(columns=names))
    # Of drawn twins: points with bars, and lines for the eye.
    traces = (replace(t, marker=t.marker or "square", size=0.8, width=0.7) for t in panel.traces)
    return replace(panel, traces=tuple(traces), legend=pic.Legend("outside"))
