"""Figures of Gaussian mixtures: unequal classes, and scikit-learn's digits beside their twins.

Cross-entropy with an intercept meets two clusters: a rare class, treated in five ways, and classes
with variances of their own. Best weights and best shifts are those of the theory, for fits too.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits

from polyceptron.data.watching import uninterrupted
from polyceptron.fit.erm import fit_erm
from polyceptron.pictures import parts as pic
from polyceptron.pictures.curves import ERROR, curves_panel
from polyceptron.pictures.tables import fact
from polyceptron.problem import ERM, Mixture
from polyceptron.questions.twins import twin_report, twins_panel
from polyceptron.report.figures.computations import Computation, ask
from polyceptron.report.figures.figure_rows import figure_row, smooth_rows
from polyceptron.report.figures.figure_spec import figure
from polyceptron.report.figures.profiles import Profile
from polyceptron.rows import Row, Status, error_column
from polyceptron.sides.scores import PopulationScores, population_scores
from polyceptron.students.measuring import n_samples, weights_law
from polyceptron.theory.best_class_weight import best_class_weight
from polyceptron.theory.best_shift import best_shift
from polyceptron.theory.erm.fixed_point import erm_fixed_point
from polyceptron.theory.linear_floor import linear_floor

RIDGE = 0.1
STUDENT = ERM("cross-entropy", RIDGE, intercept=True)
SEPARATION = 2.0
RARE = Mixture((0.9, 0.1), separation=SEPARATION)
EVEN = Mixture((0.5, 0.5), separation=SEPARATION)
ALPHAS = (2.0, 4.0, 8.0, 16.0)  # with fits: below, few samples of the rare class shift them
LOWEST_ALPHA = 0.5


class FitSize(NamedTuple):
    """How many fits there are, and their dimension."""

    dimension: int
    instances: int


class Treatment(NamedTuple):
    """A fit to samples of `drawn` at α, with class weights, whose intercepts are then shifted."""

    name: str
    drawn: Mixture
    alpha: float
    weights: tuple[float, ...] = (1.0, 1.0)
    shift: tuple[float, ...] = (0.0, 0.0)

    def theory_row(self, met: Mixture, **place: float) -> Row:
        """Return the scores on samples of the population `met` in theory."""
        student = replace(STUDENT, class_weight=self.weights)
        point = erm_fixed_point(self.drawn, student, self.alpha)
        # One contrast of two classes: the difference of their shifts, over √2.
        shift = np.array([self.shift[0] - self.shift[1]]) / np.sqrt(2)
        law = replace(point.law, shares=met.group_shares).shifted(shift)
        scores = population_scores(law)
        return {
            "source": "theory",
            **self._columns(met, place),
            **_numbers(scores),
            "uncertainty": float(scores.error.uncertainty),
            "status": point.status,
        }

    def fit_row(self, met: Mixture, size: FitSize, **place: float) -> Row:
        """Return the mean scores of fits to drawn data; those at one place get the same data."""
        runs = []
        all_converged = True
        for i in range(size.instances):
            seed = np.random.SeedSequence([i, *(round(1000 * value) for value in place.values())])
            scores, converged = self._fit(met, size.dimension, seed)
            runs.append(scores)
            all_converged &= converged
        table = pd.DataFrame(runs)
        spread = {error_column(str(name)): value for name, value in table.sem().items()}
        status = Status.OK if all_converged else Status.NOT_CONVERGED
        return {
            "source": "erm",
            **self._columns(met, place),
            **table.mean(),
            **spread,
            **size._asdict(),
            "status": status,
        }

    def _fit(
        self, met: Mixture, dimension: int, seed: np.random.SeedSequence
    ) -> tuple[dict[str, float], bool]:
        """Return the scores of one fit, and whether it converged."""
        X, y, truth = self.drawn.sample(n_samples(self.alpha, dimension), dimension, seed)
        weights = dict(enumerate(self.weights))
        fit = uninterrupted(
            fit_erm(X, y, STUDENT.loss, RIDGE, intercept=True, class_weight=weights)
        )
        law = weights_law(met, fit.weights, fit.intercepts + self.shift, truth)
        return _numbers(population_scores(law)), fit.status == Status.OK

    def _columns(self, met: Mixture, place: dict[str, float]) -> Row:
        return {**met.columns, **STUDENT.columns, "way": self.name, **place, "levels": None}


def _numbers(scores: PopulationScores) -> dict[str, float]:
    return {
        ERROR: float(scores.error.value),
        "balanced_error": float(scores.balanced_error.value),
        "rare_recall": float(scores.recall.value[1]),
    }


def treatment_rows(marks: list[float], most: int, dimension: int, instances: int) -> list[Row]:
    """Return every way of treating the rare class, against α; fits of that size at the marks."""
    size = FitSize(dimension, instances)

    def rows_at(alpha: float) -> list[Row]:
        """Return theory of every treatment at this α, and fits at a mark."""
        rows = []
        for treatment in _treatments(alpha):
            rows.append(treatment.theory_row(RARE, alpha=alpha))
            if alpha in marks:
                rows.append(treatment.fit_row(RARE, size, alpha=alpha))
        return rows

    return smooth_rows(
        rows_at, LOWEST_ALPHA, ALPHAS[-1], most, marks, log=True, y="balanced_error", line="way"
    )


def _treatments(alpha: float) -> tuple[Treatment, ...]:
    shares = RARE.class_shares
    balanced = tuple((1 / (2 * shares)).tolist())
    best = best_class_weight(RARE, STUDENT, alpha).chosen.tolist()
    shift = best_shift(RARE, STUDENT, alpha).chosen.tolist()
    alpha_of_undersampled = 2 * float(shares[1]) * alpha
    return (
        Treatment("no weights", RARE, alpha),
        Treatment("balanced weights", RARE, alpha, balanced),
        Treatment("best weights", RARE, alpha, tuple(best)),
        Treatment("best shift", RARE, alpha, shift=tuple(shift)),
        Treatment("undersampled", EVEN, alpha_of_undersampled),
    )


def _fitted(profile: Profile, marks: Sequence[float]) -> dict[str, Any]:
    """Return where there are fits, of which size, and how many points the lines have at most."""
    fewer = replace(profile, symbols=(profile.symbols + 1) // 2)
    return {
        "marks": fewer.thin(marks),
        "most": profile.line_points // 2,
        "dimension": profile.erm_dimension,
        "instances": profile.noisy_instances,
    }


def _imbalance(profile: Profile) -> list[Computation]:
    return [ask(treatment_rows, **_fitted(profile, ALPHAS))]


@figure("imbalance", "A class with a tenth of the samples", computations=_imbalance)
def imbalance(table: pd.DataFrame) -> pic.Picture:
    """Balanced error and recall of the rare class: two Gaussian clusters at distance 2,
    cross-entropy with an intercept, λ = 0.1. At small α data can be separated, and balanced weights
    change little; a shift of the intercept after the fit does what the best weights do.
    Undersampled: as many samples of one class as of the other. Lines: theory; symbols: fits, with
    standard errors.
    """
    above = _treatment_panel(table, "balanced_error")
    below = _treatment_panel(table, "rare_recall")
    above = pic.placed(above, "upper right", y=(0.15, 0.62), columns=2)
    title = "two clusters, shares 0.9 and 0.1, cross-entropy, *λ = 0.1*"
    above = replace(above, title=title)
    recall = pic.Axis("recall of the rare class", low=0, high=1)
    below = replace(below, title=title, y=recall, legend=None)
    return pic.Picture((above, below), height=5.4)


def _treatment_panel(table: pd.DataFrame, column: str) -> pic.Panel:
    """Return one score of every treatment against α, each with its colour."""
    panel = curves_panel(table, y=column, log_x=True)
    names = [trace.label.split(", ")[0] for trace in panel.traces]
    colours = dict(zip(dict.fromkeys(names), pic.CYCLE, strict=False))
    traces = [
        replace(trace, label=name, colour=colours[name])
        for trace, name in zip(panel.traces, names, strict=True)
    ]
    ticks = (0.5, 1, 2, 4, 8, 16)
    return replace(panel, traces=tuple(traces), x=replace(panel.x, ticks=ticks))


RARE_SHARE = 0.2  # of the class with a variance of its own
RATIOS = (0.1, 0.25, 1.0, 4.0, 10.0)  # of the variances, with fits
ALPHAS_OF_RATIOS = (1.0, 3.0, 10.0)


def ratio_rows(
    alpha: float, marks: list[float], most: int, dimension: int, instances: int
) -> list[Row]:
    """Return the error against the ratio of variances, and that of the best linear rule.

    The mean of the variances over samples is 1.
    """
    size = FitSize(dimension, instances)

    def rows_at(ratio: float) -> list[Row]:
        """Return theory at this ratio of variances, and a fit at a mark."""
        first = 1 / (1 - RARE_SHARE + RARE_SHARE * ratio)
        mixture = Mixture(
            (1 - RARE_SHARE, RARE_SHARE), separation=SEPARATION, variances=(first, ratio * first)
        )
        treatment = Treatment("own", mixture, alpha)
        theory = treatment.theory_row(mixture, alpha=alpha, ratio=ratio)
        rows = [theory]
        if ratio in marks:
            rows.append(treatment.fit_row(mixture, size, alpha=alpha, ratio=ratio))
        floor = linear_floor(mixture)
        floor_row = theory | {
            "branch": "floor",
            "balanced_error": None,
            "rare_recall": None,
            ERROR: float(floor.value),
            "uncertainty": float(floor.uncertainty),
        }
        return [*rows, floor_row]

    return smooth_rows(rows_at, RATIOS[0], RATIOS[-1], most, [*marks, 1.0], log=True, x="ratio")


def _ratios(profile: Profile) -> list[Computation]:
    return [ask(ratio_rows, alpha=alpha, **_fitted(profile, RATIOS)) for alpha in ALPHAS_OF_RATIOS]


@figure("mixtures", "Two clusters with variances of their own", computations=_ratios)
def mixtures(table: pd.DataFrame) -> pic.Panel:
    """Error of cross-entropy (λ = 0.1) where a fifth of the samples have another variance; the mean
    variance is 1 throughout. Dashed: the same with one variance for all, as by a pooled covariance.
    Dotted: the best linear rule. Lines: theory; symbols: fits, with standard errors.
    """
    is_floor = table["branch"] == "floor"
    fitted = table[~is_floor]
    fitted = fitted.assign(way=[fact("alpha", alpha) for alpha in fitted["alpha"]])
    panel = curves_panel(fitted, "ratio", log_x=True)
    traces = [replace(trace, label=trace.label.split(", ")[0]) for trace in panel.traces]
    panel = pic.placed(panel, "upper right", y=(0.06, 0.3), columns=2)
    return replace(
        panel,
        traces=(*traces, *_pooled_traces(traces), _floor_trace(table[is_floor])),
        x=pic.Axis("variance of the rare class / of the other", "log", ticks=RATIOS),
        title="two clusters, shares 0.8 and 0.2, cross-entropy, *λ = 0.1*",
    )


def _pooled_traces(traces: Sequence[pic.Trace]) -> list[pic.Trace]:
    """Return dashed lines at the errors of equal variances, and their entry of the legend."""
    ends = (RATIOS[0], RATIOS[-1])
    pooled = []
    for trace in traces:
        if trace.kind == "line":
            error = trace.y[trace.x.index(1.0)]
            pooled.append(
                pic.Trace(
                    ends,
                    (error, error),
                    colour=trace.colour,
                    dash="dash",
                    width=0.8,
                    in_legend=False,
                )
            )
    nowhere = (float("nan"), float("nan"))
    entry = pic.Trace(
        ends,
        nowhere,
        colour=pic.COLOURS["unstable"],
        dash="dash",
        width=0.8,
        label="pooled variance",
    )
    return [*pooled, entry]


def _floor_trace(rows: pd.DataFrame) -> pic.Trace:
    lowest = rows.drop_duplicates("ratio").sort_values("ratio")
    grey = pic.COLOURS["unstable"]
    return pic.trace_of(lowest, "ratio", ERROR, colour=grey, dash="dot", label="best linear rule")


DIGITS_FOLDS = 20  # five would have bars over half a decade
TWIN_SIZES = (0.1, 0.16, 0.25, 0.4, 0.63, 1.0)  # shares of what may be learnt from


def digits_rows(ridge: float, draws: int, sizes: list[float]) -> list[Row]:
    """Return measured errors of cross-entropy on the digits, and those of the twins."""
    X, y = load_digits(return_X_y=True)
    report = twin_report(X, y, ERM(ridge=ridge), train_sizes=sizes, draws=draws, cv=DIGITS_FOLDS)
    return [
        figure_row(
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
        for row in report.frame.itertuples()
    ]


def _twins(profile: Profile) -> list[Computation]:
    sizes = profile.thin(TWIN_SIZES)
    return [ask(digits_rows, ridge=RIDGE, draws=profile.twin_draws, sizes=sizes)]


@figure("twins", "Digits and their Gaussian twins", computations=_twins)
def twins(table: pd.DataFrame) -> pic.Panel:
    """Error of logistic regression (*λ* = 0.1) on held-out digits, and on Gaussian mixtures with
    the classes' own means and covariances, a pooled covariance or isotropic classes, fitted to as
    many drawn samples; teacher: theory of a linear rule with the data's spectrum, one number of
    which is fitted. Bars and bands hold in 99 of 100 cases.
    """
    names = {"generalisation_error": "error", "error_bar": "error_uncertainty", "source": "model"}
    panel = twins_panel(table.drop(columns="model").rename(columns=names))
    traces: list[pic.Trace] = []
    for trace in panel.traces:
        if trace.kind == "line" and any(error > 0 for error in trace.y_error):
            traces.append(replace(trace, kind="band", in_legend=False))
        if trace.kind == "line":
            trace = replace(trace, y_error=())
        traces.append(trace)
    return replace(
        panel,
        traces=tuple(traces),
        x=replace(panel.x, label="training samples *n*", ticks=(200, 400, 800, 1600)),
        y=replace(
            panel.y,
            label="error on held-out samples",
            low=5e-3,
            high=3.0,
            ticks=(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1),
        ),
        legend=pic.Legend(
            "upper right", "lines: twins, with bands\nsymbols: digits, with bars (99 %)"
        ),
        title=f"scikit-learn's digits, *k = 10*, *d = {int(table['dimension'].max())}*",
    )
