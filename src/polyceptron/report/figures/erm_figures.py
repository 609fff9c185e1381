"""Figures of empirical risk minimisation at k = 3 with Gaussian weights.

Figures 4a and 4b: the error against α beside the Bayes-optimal one. Figure 4b draws the slopes that
the theory has: Bayes α^−1, cross-entropy at fixed λ α^(−2/3) (the paper has −1/2), square loss
α^(−1/2). Figures 4c and 4d: the error against the ridge. Margins are z_y − max_{h≠y} z_h.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from polyceptron.data.watching import uninterrupted
from polyceptron.fit.erm import fit_erm
from polyceptron.pictures import parts as pic
from polyceptron.pictures.curves import ERROR, curves_panel, ridge_words, star_trace
from polyceptron.problem import AnyTeacher, Dataset, Teacher, make_estimator
from polyceptron.report.figures import figure_spec as spec
from polyceptron.students import student_of
from polyceptron.theory.erm.fixed_point import erm_fixed_point
from polyceptron.theory.margins import default_grid, margin_law
from polyceptron.version import VERSION

CURVES_4A = spec.Curves(
    0,
    5.0,
    (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0),
    fits=(("cross-entropy", 0.01), ("square", 1.0), ("max-margin", None), ("square", 0.0)),
)
CURVES_4B = spec.Curves(
    1.0, 1e4, (1.0, 2.0, 4.0, 8.0, 16.0, 32.0), (("square", 1.0), ("cross-entropy", 1.0)), log=True
)
SLOPES = {"bayes": (1.0, "−1"), "cross-entropy": (2 / 3, "−2/3"), "square": (0.5, "−1/2")}


def in_one_line(panel: pic.Panel) -> pic.Panel:
    """The panel with the title of its legend in one line."""
    legend = panel.legend or pic.Legend()
    return replace(panel, legend=replace(legend, title=legend.title.replace("\n", "; ")))


@spec.figure("fig4a", "Figure 4a: empirical risk minimisation, k = 3", CURVES_4A)
def fig4a(table: pd.DataFrame) -> pic.Panel:
    """Error of cross-entropy (λ = 0.01) and square loss (λ = 1) near their best ridge, and without
    ridge (max-margin, and minimum norm with its peak at α = 1), against the Bayes-optimal error.
    Lines: theory. Symbols: fits, with standard errors.
    """
    panel = curves_panel(table, log_x=False)
    return pic.placed(panel, "upper right", (0, CURVES_4A.high + 0.1), (0.1, 0.7))


@spec.figure("fig4b", "Figure 4b: plentiful data, k = 3", computations=CURVES_4B)
def fig4b(table: pd.DataFrame) -> pic.Panel:
    """At λ = 1 the error falls as *α^{−1/2}* for the square loss and as *α^{−2/3}* for
    cross-entropy (the paper has −1/2), against *α^{−1}* for Bayes. Lines: theory; grey: these
    slopes; symbols: fits, with standard errors.
    """
    panel = curves_panel(table, log_x=True, log_y=True)
    panel = pic.placed(panel, "lower left", (0.85, 9 * CURVES_4B.high), (5e-5, 1.0))
    slopes, notes = [], []
    theory = table[table["source"] == "theory"].sort_values("alpha")
    for name, some in theory.groupby("estimator"):
        last, error = (float(some[c].iloc[-1]) for c in ("alpha", ERROR))
        exponent, word = SLOPES[str(name)]
        x = (last / 60, last)
        y = tuple(0.7 * error * (last / a) ** exponent for a in x)
        slopes.append(pic.Trace(x, y, colour="#737373", dash="dash", width=0.7))
        colour = next(t.colour for t in panel.traces if t.kind == "line" and error in t.y)
        notes.append(pic.Note(1.25 * last, 0.85 * error, f"*∝ α^{{{word}}}*", colour))
    return replace(panel, traces=(*panel.traces, *slopes), notes=tuple(notes))


ALPHAS = [1.0, 2.0, 3.0, 5.0]
RANGES = {"cross-entropy": (1e-4, 10.0), "square": (1e-3, 100.0)}  # of the ridge


def rows_over_ridges(estimator: str, alpha: float, marks: list[float], most: int) -> list[spec.Row]:
    """The error against λ, at the marks too, and the row of the best λ."""

    def at(ridge: float) -> list[spec.Row]:
        return student_of(make_estimator(estimator, ridge)).rows(Teacher(3), [alpha])

    rows = spec.smooth_rows(at, *RANGES[estimator], most, marks, log=True, x="ridge")
    best = student_of(make_estimator(estimator, "optimal")).rows(Teacher(3), [alpha])
    return rows + [row | {"branch": "best-ridge"} for row in best]


def _ridges(estimator: str, profile: spec.Profile) -> list[spec.Computation]:
    ridges = [float(f"{ridge:.4g}") for ridge in np.geomspace(*RANGES[estimator], 11)]
    marks, one = profile.thin(ridges), {"estimator": estimator}
    lines: Any = {**one, "marks": marks, "most": profile.line_points // 2}
    size = {"dimension": profile.erm_dimension, "instances": profile.erm_instances}
    fits: Any = {**one, "ridges": marks, **size}
    return [
        *(spec.ask(rows_over_ridges, alpha=alpha, **lines) for alpha in ALPHAS),
        *(spec.ask(spec.run_rows, alpha=alpha, **fits) for alpha in ALPHAS),
    ]


def ridge_panel(table: pd.DataFrame) -> pic.Panel:
    """Error against λ, one colour for each α, the best λ marked."""
    best, errors, ridge = table["branch"] == "best-ridge", table[ERROR], table["ridge"]
    panel = in_one_line(curves_panel(table[~best], "ridge"))
    across, up = (ridge.min() / 1.3, ridge.max() * 1.3), (errors.min() - 0.02, errors.max() + 0.075)
    panel = pic.placed(panel, "upper center", across, up, columns=5)
    return replace(panel, traces=(*panel.traces, star_trace(table[best], "ridge")))


fig4c, fig4d = (
    spec.figure(
        f"fig4{letter}",
        f"Figure 4{letter}: {name} against its ridge, k = 3",
        partial(_ridges, estimator),
        f"Error of {words} against λ. Lines: theory; symbols: fits, with standard errors{best}",
    )(ridge_panel)
    for letter, estimator, name, words, best in (
        (
            "c",
            "cross-entropy",
            "cross-entropy",
            "cross-entropy",
            "; stars: the best λ at each α, which falls with α.",
        ),
        ("d", "square", "square loss", "the square loss", ". The best λ is the same at every α."),
    )
)


CURVES_DESCENT = spec.Curves(
    0,
    4.0,
    (0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0),
    fits=(("square", 0.0), ("square", 0.01), ("square", 1.0), ("cross-entropy", 0.01)),
    lines=(),
    instances="further_instances",
)
QUANTITIES = {
    ERROR: "*ε_{gen}*",
    "training_error": "training error",
    "training_loss": "training loss",
}


@spec.figure("double-descent", "Double descent and the training error, k = 3", CURVES_DESCENT)
def double_descent(table: pd.DataFrame) -> pic.Picture:
    """Without ridge the square loss fits every label up to α = 1, where its error peaks; a ridge
    removes the peak. Cross-entropy can always separate the samples and has none. Top: test error;
    middle: training error; bottom: mean training loss. Lines: theory; symbols: fits.
    """
    panels: list[pic.Panel] = []
    for name, label in QUANTITIES.items():
        panel = curves_panel(table, y=name)
        first, last = not panels, len(panels) == len(QUANTITIES) - 1
        panel = replace(
            in_one_line(pic.placed(panel, "upper right", columns=2))
            if first
            else replace(panel, legend=None),
            x=pic.Axis(pic.AXES["alpha"] if last else "", low=0, high=CURVES_DESCENT.high + 0.05),
            y=pic.Axis(label, low=0.15, high=1.05) if first else replace(panel.y, label=label),
            marks=(pic.Mark(1.0, "*α = 1*" if first else ""),),
        )
        panels.append(panel)
    return pic.Picture(tuple(panels), height=5.2)


ALPHA = 3.0
LOSSES = {"square": 1.0, "cross-entropy": 0.1, "max-margin": 0.0}  # with their ridges
KINDS = {"training": "#D55E00", "fresh": "#0072B2"}  # of samples, with their colours
BINS = 24
_AT_ATOM = 1e-4  # a fitted margin this close to 1 is on the margin


def fits(
    teacher: AnyTeacher, loss: str, ridge: float, dimension: int, instances: int
) -> Iterator[tuple[Dataset, Any, Any, Any]]:
    """At ALPHA: data, weights (d, k), fresh samples (4n, d) of the scale 1/√d, their labels."""
    for i in range(instances):
        seeds = np.random.SeedSequence(spec.SEED, spawn_key=(i,)).spawn(2)
        data = teacher.sample(round(ALPHA * dimension), dimension, seeds[0])
        fitted = uninterrupted(fit_erm(data.X, data.y, loss, ridge, n_classes=3))
        rng = np.random.default_rng(seeds[1])
        X = rng.standard_normal((4 * len(data.y), dimension)) / math.sqrt(dimension)
        yield data, fitted.weights, X, teacher.channel.sample(X @ data.weights, rng)


def margin_rows(loss: str, ridge: float, dimension: int, instances: int) -> list[spec.Row]:
    """Densities: theory on a fine grid, a histogram of each fit; the atom where there is one."""
    # Above two classes cross-entropy's law is a sampled one: wider cells make it smoother.
    estimator, teacher = make_estimator(loss, ridge), Teacher(3)
    points = default_grid(erm_fixed_point(teacher, estimator, ALPHA))[::4]
    if estimator.hard_margin:  # its training density jumps here
        points = np.sort(np.append(points, [1.0, 1.0 + 1e-6]))
    law = margin_law(teacher, estimator, ALPHA, points)
    row = spec.figure_row("theory", loss, ridge=ridge, alpha=ALPHA, version=VERSION)
    rows = _densities(row | {"status": str(law.point.status)}, law.margin, law.training, law.fresh)
    atom = {"samples": "training", "margin": law.atom_at}
    edges = np.linspace(law.margin[0], law.margin[-1], BINS + 1)
    if law.atom > 0:
        rows.append(row | atom | {"atom": law.atom})
        edges += law.atom_at - edges[np.argmin(np.abs(edges - law.atom_at))]  # an edge at the atom
    for i, (data, weights, X, y) in enumerate(fits(teacher, loss, ridge, dimension, instances)):
        training = _margins(data.X / math.sqrt(dimension) @ weights, data.y)
        on = (np.abs(training - 1) < _AT_ATOM) & (law.atom > 0)
        sizes = {"source": "erm", "dimension": dimension, "n_samples": len(on), "seed": i}
        fresh = _margins(X @ weights, y)
        histograms = [
            np.histogram(part, edges)[0] / (count * (edges[1] - edges[0]))
            for part, count in ((training[~on], len(on)), (fresh, len(fresh)))
        ]
        rows += _densities(row | sizes, 0.5 * (edges[1:] + edges[:-1]), *histograms)
        rows += [row | sizes | atom | {"atom": float(on.mean())}] if law.atom > 0 else []
    return rows


def _densities(row: spec.Row, margin: Any, *densities: Any) -> list[spec.Row]:
    """A row for each point of the densities of training and fresh samples."""
    return [
        row | {"samples": kind, "margin": float(x), "density": float(y)}
        for kind, density in zip(KINDS, densities, strict=True)
        for x, y in zip(margin, density, strict=True)
    ]


def _margins(z: Any, y: Any) -> Any:
    """z_y − max_{h≠y} z_h of fields (n, k)."""
    own = np.take_along_axis(z, y[:, None], 1)[:, 0]
    np.put_along_axis(z, y[:, None], -np.inf, 1)
    return own - z.max(1)


def _laws(profile: spec.Profile) -> list[spec.Computation]:
    sizes = {"dimension": profile.erm_dimension, "instances": profile.further_instances}
    return [
        spec.ask(margin_rows, loss=loss, ridge=ridge, **sizes) for loss, ridge in LOSSES.items()
    ]


@spec.figure("margins", "Margin laws at α = 3, k = 3", computations=_laws)
def margin_laws(table: pd.DataFrame) -> pic.Picture:
    """Density of the margin on training samples and on fresh ones: the proximal map at the fixed
    point gives the first, the fields alone the second. A negative margin is an error. Max-margin
    puts a finite share of its training samples exactly on the margin (arrow). Lines: theory;
    symbols: fits, with standard errors.
    """
    panels: list[pic.Panel] = []
    for loss, ridge in LOSSES.items():
        rows = table[table["estimator"] == loss]
        words = rows["samples"] + " samples"
        panel = curves_panel(rows.drop(columns="ridge").assign(samples=words), "margin", "density")
        seen = rows.loc[rows["density"] > 0.004 * rows["density"].max(), "margin"]
        last = len(panels) == len(LOSSES) - 1
        label = "margin *z_{y} − max_{h≠y} z_{h}*" if last else ""
        panel = replace(
            panel,
            traces=_told_apart(panel),
            x=pic.Axis(label, low=seen.min(), high=seen.max()),
            y=pic.Axis("density", low=0.0, high=1.08 * rows["density"].max()),
            marks=(pic.Mark(0.0, dash="solid", colour="#999999"),),
            title=f"{pic.label_of(loss)}, {ridge_words(ridge)}",
            legend=None,
        )
        panels.append(_with_atom(panel, rows) if rows["atom"].notna().any() else panel)
    title = f"lines: theory\nsymbols: fits, *d = {int(table['dimension'].max())}*"
    panels[1] = pic.placed(panels[1], "upper right", title=title)
    return pic.Picture(tuple(panels), height=5.2)


def _told_apart(panel: pic.Panel) -> tuple[pic.Trace, ...]:
    """Training samples dashed and hollow, so that fresh ones are seen where both lie."""
    traces = []
    for trace in panel.traces:
        kind = trace.label.split()[0]
        training = kind == "training"
        dash: Any = "dash" if training and trace.kind == "line" else "solid"
        traces.append(replace(trace, colour=KINDS[kind], hollow=training, dash=dash, size=0.85))
    return tuple(sorted(traces, key=lambda trace: trace.hollow))


def _with_atom(panel: pic.Panel, rows: pd.DataFrame) -> pic.Panel:
    """The share of training samples that lie on the margin, as a spike with both numbers."""
    atoms = rows[rows["atom"].notna()]
    share = dict(zip(atoms["source"], atoms["atom"], strict=True))
    at, top = float(atoms["margin"].iloc[0]), 0.95 * (panel.y.high or 1.0)
    look: Any = {"colour": KINDS["training"]}
    tip = pic.Trace((at,), (top,), kind="symbols", marker="triangle", **look)
    spike = (pic.Trace((at, at), (0.0, top), **look), tip)
    words = f"training samples at 1:\ntheory {share['theory']:.3f}, fits {share['erm']:.3f}"
    note = pic.Note(panel.x.high or 0.0, top, words, anchor="right top")
    return replace(panel, traces=(*panel.traces, *spike), notes=(note,))


def _rivals(profile: spec.Profile) -> list[spec.Computation]:
    asked: Any = {"low": 0.5, "high": 16.0, "marks": [], "log": True, "tol": 5e-4}
    asked |= {"most": profile.rival_points}
    rules = ("cross-entropy", "one-vs-rest", "lda", "class-means")
    ridges = [profile.rival_ridge if make_estimator(n).takes_ridge else None for n in rules]
    given = zip(rules, ridges, strict=True)
    return [spec.ask(spec.line_rows, estimator=n, ridge=ridge, **asked) for n, ridge in given]


@spec.figure("rivals", "Other rules at their best ridge, k = 3", _rivals)
def rival_rules(table: pd.DataFrame) -> pic.Panel:
    """One-vs-rest loses next to nothing with few samples and errs half as much again as
    cross-entropy at *α = 16*: a class against two others is not a linear rule, and from *α = 13* on
    no ridge helps it. Discriminant analysis is least squares here. Lines: theory, each rule at its
    own best ridge.
    """
    panel = pic.placed(curves_panel(table, log_x=True, log_y=True), "lower left")
    return replace(panel, y=replace(panel.y, ticks=(0.05, 0.1, 0.2, 0.3, 0.4, 0.5)))
