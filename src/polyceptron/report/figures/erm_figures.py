"""Figures of empirical risk minimisation at k = 3 with Gaussian weights.

Figures 4a and 4b: the error against α beside the Bayes-optimal one. Figure 4b draws the slopes that
the theory has: Bayes α^−1, cross-entropy at fixed λ α^(−2/3) (the paper says −1/2), square loss
α^(−1/2). Figures 4c and 4d: the error against the ridge.

Two more: the double descent of the square loss around α = 1, and the law of the margin
z_y − max_{h≠y} z_h of three losses, on training and on fresh samples.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from polyceptron.algorithms.erm.fit import fit_erm
from polyceptron.algorithms.watching import uninterrupted
from polyceptron.experiments.results import Average
from polyceptron.model import ERM, Teacher
from polyceptron.report.figures.figure_spec import (
    SEED,
    Computation,
    FigureSpec,
    Grid,
    Profile,
    Row,
    figure_row,
    grid,
    with_fits,
)
from polyceptron.report.pictures.curves import curves_panel, star_trace
from polyceptron.report.pictures.parts import (
    Axis,
    Legend,
    Mark,
    Note,
    Panel,
    Picture,
    Trace,
    placed,
)
from polyceptron.report.pictures.series import fact
from polyceptron.report.pictures.style import AXES, label_of
from polyceptron.theory.curve import curve_rows
from polyceptron.theory.erm.fixed_point import erm_fixed_point
from polyceptron.theory.erm.margin_law import default_grid, margin_law
from polyceptron.version import VERSION

if TYPE_CHECKING:
    import pandas as pd


# A loss with its ridge; none for max-margin.
RISKS_4A = (("cross-entropy", 0.01), ("square", 1.0), ("max-margin", None))
RISKS_4B = (("square", 1.0), ("cross-entropy", 1.0))
SLOPES = {"bayes": (1.0, "−1"), "cross-entropy": (2 / 3, "−2/3"), "square": (0.5, "−1/2")}
LARGEST_ALPHA_4A, LARGEST_ALPHA_4B = 5.0, 1e4
PEAK = (0.9, 0.95, 0.98, 1.0, 1.02, 1.05, 1.1)  # of the square loss without ridge, at α = 1


def _grids_4a(profile: Profile) -> list[Grid]:
    marks = profile.thin([0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0])
    lines = profile.line(0.05, LARGEST_ALPHA_4A, marks)
    bare = with_fits([("square", 0.0)], sorted({*lines, *PEAK}), marks, profile.fits())
    return [
        grid("theory", "bayes", lines),
        *with_fits(RISKS_4A, lines, marks, profile.fits()),
        *bare,
    ]


def _grids_4b(profile: Profile) -> list[Grid]:
    marks = profile.thin([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
    lines = profile.spread(1.0, LARGEST_ALPHA_4B, max(profile.line_points // 2, 9), log=True)
    lines = sorted({*lines, *marks})
    return [grid("theory", "bayes", lines), *with_fits(RISKS_4B, lines, marks, profile.fits())]


def in_one_line(panel: Panel) -> Panel:
    """The panel with the title of its legend in one line."""
    legend = panel.legend or Legend()
    return replace(panel, legend=replace(legend, title=legend.title.replace("\n", "; ")))


def picture_4a(table: pd.DataFrame) -> Picture:
    """Errors against α."""
    across = (0, LARGEST_ALPHA_4A + 0.1)
    return Picture((placed(curves_panel(table, log_x=False), "upper right", across, (0.1, 0.7)),))


def picture_4b(table: pd.DataFrame) -> Picture:
    """Errors at large α with their slopes: grey pieces below the curves, named at their ends."""
    across = (0.85, 9 * LARGEST_ALPHA_4B)
    panel = placed(curves_panel(table, log_x=True, log_y=True), "lower left", across, (5e-5, 1.0))
    slopes, notes = [], []
    theory = table[table["source"] == "theory"].sort_values("alpha")
    for name, some in theory.groupby("estimator"):
        last, error = (float(some[c].iloc[-1]) for c in ("alpha", "generalisation_error"))
        exponent, word = SLOPES[str(name)]
        x = (last / 60, last)
        y = tuple(0.7 * error * (last / a) ** exponent for a in x)
        slopes.append(Trace(x, y, colour="#737373", dash="dash", width=0.7))
        colour = next(t.colour for t in panel.traces if t.kind == "line" and error in t.y)
        notes.append(Note(1.25 * last, 0.85 * error, f"*∝ α^{{{word}}}*", colour))
    return Picture((replace(panel, traces=(*panel.traces, *slopes), notes=tuple(notes)),))


FIG4A = FigureSpec(
    "fig4a",
    "Figure 4a: empirical risk minimisation, k = 3",
    "Error of cross-entropy (λ = 0.01) and square loss (λ = 1) near their best ridge, and without "
    "ridge (max-margin, and minimum norm with its peak at α = 1), against the Bayes-optimal error. "
    "Lines: theory. Symbols: fits, with standard errors.",
    picture_4a,
    _grids_4a,
)

FIG4B = FigureSpec(
    "fig4b",
    "Figure 4b: plentiful data, k = 3",
    "At λ = 1 the error falls as α^(−1/2) for the square loss and as α^(−2/3) for cross-entropy "
    "(the paper says −1/2), against α^(−1) for Bayes. Lines: theory; grey: these slopes; symbols: "
    "fits, with standard errors.",
    picture_4b,
    _grids_4b,
)


ALPHAS = (1.0, 2.0, 3.0, 5.0)
RANGES = {"cross-entropy": (1e-4, 10.0), "square": (1e-3, 100.0)}  # of the ridge


def best_ridge_rows(estimator: str, alpha: float) -> list[Row]:
    """The theory's row at the best ridge; branch 'best-ridge' marks it."""
    rows = curve_rows(Teacher(3), ERM(estimator, "optimal"), [alpha])  # type: ignore[arg-type]
    return [row | {"branch": "best-ridge"} for row in rows]


def _ridges(estimator: str, profile: Profile) -> list[Grid]:
    low, high = RANGES[estimator]
    marks = profile.thin(profile.spread(low, high, 11, log=True))
    lines = profile.spread(low, high, max(profile.line_points // 2, 9), log=True)
    return [
        grid("theory", estimator, list(ALPHAS)) | {"ridge": sorted({*lines, *marks})},
        grid("erm", estimator, list(ALPHAS), **profile.fits()) | {"ridge": marks},
    ]


def _optima(estimator: str, profile: Profile) -> list[Computation]:
    return [
        Computation(best_ridge_rows, {"estimator": estimator, "alpha": alpha}, 2)
        for alpha in ALPHAS
    ]


def picture_ridge(estimator: str, table: pd.DataFrame) -> Picture:
    """Error against λ, one colour for each α, the best λ marked."""
    best = table[table["branch"] == "best-ridge"]
    panel = curves_panel(table[table["branch"] != "best-ridge"], "ridge")
    (low, high), errors = RANGES[estimator], table["generalisation_error"]
    across, bottom, top = (low / 1.3, high * 1.3), errors.min() - 0.02, errors.max()
    if best["ridge"].max() < 1.001 * best["ridge"].min():  # the same λ at every α
        value = float(best["ridge"].iloc[0])
        panel = placed(panel, "upper right", across, (bottom, top + 0.02))
        mark = Mark(value, f"best *λ* = {value:.3f} at every *α*")
        return Picture((replace(panel, marks=(mark,)),))
    panel = placed(in_one_line(panel), "upper center", across, (bottom, top + 0.075), columns=5)
    return Picture((replace(panel, traces=(*panel.traces, star_trace(best, "ridge"))),))


FIG4C = FigureSpec(
    "fig4c",
    "Figure 4c: cross-entropy against its ridge, k = 3",
    "Error of cross-entropy against λ. Lines: theory; symbols: fits, with standard errors; stars: "
    "the best λ at each α, which falls with α.",
    partial(picture_ridge, "cross-entropy"),
    partial(_ridges, "cross-entropy"),
    partial(_optima, "cross-entropy"),
)

FIG4D = FigureSpec(
    "fig4d",
    "Figure 4d: square loss against its ridge, k = 3",
    "Error of the square loss against λ. Lines: theory; symbols: fits, with standard errors. The "
    "best λ is the same at every α.",
    partial(picture_ridge, "square"),
    partial(_ridges, "square"),
    partial(_optima, "square"),
)


DESCENTS = (("square", 0.0), ("square", 0.01), ("square", 1.0), ("cross-entropy", 0.01))
QUANTITIES = {
    "generalisation_error": "*ε_{gen}*", "training_error": "training error",
    "training_loss": "training loss",
}  # fmt: skip
LARGEST_ALPHA = 4.0


def _grids_descent(profile: Profile) -> list[Grid]:
    marks = profile.thin([0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0])
    lines = sorted({*profile.line(0.05, LARGEST_ALPHA, marks), *PEAK})
    return with_fits(DESCENTS, lines, marks, profile.fits(further=True))


def picture_descent(table: pd.DataFrame) -> Picture:
    """Three panels above one another."""
    panels: list[Panel] = []
    for name, label in QUANTITIES.items():
        panel = curves_panel(table, y=name)
        first, last = not panels, len(panels) == len(QUANTITIES) - 1
        panel = replace(
            in_one_line(placed(panel, "upper right", columns=2)) if first
            else replace(panel, legend=None),
            x=Axis(AXES["alpha"] if last else "", low=0, high=LARGEST_ALPHA + 0.05),
            y=Axis(label, low=0.15, high=1.05) if first else replace(panel.y, label=label),
            marks=(Mark(1.0, "*α = 1*" if first else ""),),
        )  # fmt: skip
        panels.append(panel)
    return Picture(tuple(panels), height=5.2)


DOUBLE_DESCENT = FigureSpec(
    "double-descent",
    "Double descent and the training error, k = 3",
    "Without ridge the square loss fits every label up to α = 1, where its error peaks; a ridge "
    "removes the peak. Cross-entropy can always separate the samples and has none. Top: test "
    "error; middle: training error; bottom: mean training loss. Lines: theory; symbols: fits.",
    picture_descent,
    _grids_descent,
)


ALPHA = 3.0
LOSSES = {"square": 1.0, "cross-entropy": 0.1, "max-margin": 0.0}  # with their ridges
KINDS = {"training": "#D55E00", "fresh": "#0072B2"}  # of samples, with their colours
BINS = 24
_AT_ATOM = 1e-4  # a fitted margin this close to 1 is on the margin


def margin_rows(
    loss: str, ridge: float, alpha: float, dimension: int, instances: int, seed: int
) -> list[Row]:
    """Densities: theory on a fine grid, instances as a histogram with standard errors."""
    # Above two classes cross-entropy's law is a sampled one: wider cells make it smoother.
    estimator = ERM(loss, ridge)  # type: ignore[arg-type]
    points = default_grid(erm_fixed_point(Teacher(3), estimator, alpha))[::4]
    if loss == "max-margin":  # its training density jumps here
        points = np.sort(np.append(points, [1.0, 1.0 + 1e-6]))
    law = margin_law(Teacher(3), estimator, alpha, points)
    base: Row = {"ridge": ridge, "alpha": alpha, "version": VERSION}
    theory = figure_row("theory", loss, **base, status=str(law.point.status))
    rows = [
        {**theory, "samples": kind, "margin": float(x), "density": float(y)}
        for kind in KINDS
        for x, y in zip(law.margin, getattr(law, kind), strict=True)
    ]
    edges = np.linspace(law.margin[0], law.margin[-1], BINS + 1)
    if law.atom > 0:
        rows.append({**theory, "samples": "training", "margin": law.atom_at, "atom": law.atom})
        edges += law.atom_at - edges[np.argmin(np.abs(edges - law.atom_at))]  # an edge at the atom
    seeds = [np.random.SeedSequence(seed, spawn_key=(i,)) for i in range(instances)]
    measured = [_instance(loss, ridge, alpha, dimension, one, edges, law.atom > 0) for one in seeds]
    sizes = {"dimension": dimension, "n_samples": round(alpha * dimension), "instances": instances}
    fits = figure_row("erm", loss, **base, **sizes)
    centres = 0.5 * (edges[1:] + edges[:-1])
    for n, kind in enumerate(KINDS):
        for x, density in zip(centres, zip(*(m[n] for m in measured), strict=True), strict=True):
            found = {"margin": float(x), **_averaged("density", density)}
            rows.append({**fits, "samples": kind, **found})
    if law.atom > 0:
        found = {"margin": law.atom_at, **_averaged("atom", [m[2] for m in measured])}
        rows.append({**fits, "samples": "training", **found})
    return rows


def _averaged(name: str, values: Any) -> Row:
    """The columns of a mean over instances."""
    found = Average.of(values)
    return {name: found.mean, f"{name}_standard_error": found.standard_error}


def _instance(
    loss: str, ridge: float, alpha: float, dimension: int, seed: Any, edges: Any, atomic: bool
) -> tuple[Any, Any, float]:
    """Histograms (BINS,) of training and fresh margins of one fit, and the share on the margin."""
    data_seed, fresh_seed = seed.spawn(2)
    n = round(alpha * dimension)
    data = Teacher(3).sample(n, dimension, data_seed)
    fit = uninterrupted(fit_erm(data.X, data.y, loss, ridge, n_classes=3))
    training = _margins(data.X, data.y, fit.weights)
    X = np.random.default_rng(fresh_seed).standard_normal((4 * n, dimension))
    fresh = _margins(X, (X @ data.weights).argmax(1), fit.weights)
    on = np.abs(training - 1) < _AT_ATOM if atomic else np.zeros(n, dtype=bool)
    width = edges[1] - edges[0]
    return (
        np.histogram(training[~on], edges)[0] / (n * width),
        np.histogram(fresh, edges)[0] / (fresh.size * width),
        float(on.mean()),
    )


def _margins(X: Any, y: Any, weights: Any) -> Any:
    z = X @ weights / math.sqrt(X.shape[1])
    own = z[np.arange(len(y)), y]
    z[np.arange(len(y)), y] = -np.inf
    return own - z.max(1)


def _laws(profile: Profile) -> list[Computation]:
    d, n = profile.erm_dimension, profile.further_instances
    base = {"alpha": ALPHA, "dimension": d, "instances": n, "seed": SEED}
    return [
        Computation(margin_rows, {"loss": loss, "ridge": ridge, **base}, 3 + n * 1.2e-6 * d * d)
        for loss, ridge in LOSSES.items()
    ]


def picture_margins(table: pd.DataFrame) -> Picture:
    """One panel for each loss."""
    panels: list[Panel] = []
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
            x=Axis(label, low=seen.min(), high=seen.max()),
            y=Axis("density", low=0.0, high=1.08 * rows["density"].max()),
            marks=(Mark(0.0, dash="solid", colour="#999999"),),
            title=f"{label_of(loss)}, {fact('ridge', ridge) if ridge else '*λ → 0^{+}*'}",
            legend=None,
        )
        panels.append(_with_atom(panel, rows) if rows["atom"].notna().any() else panel)
    title = f"lines: theory\nsymbols: fits, *d = {int(table['dimension'].max())}*"
    panels[1] = placed(panels[1], "upper right", title=title)
    return Picture(tuple(panels), height=5.2)


def _told_apart(panel: Panel) -> tuple[Trace, ...]:
    """Training samples dashed and hollow, so that fresh ones are seen where both lie."""
    traces = []
    for trace in panel.traces:
        kind = trace.label.split()[0]
        training = kind == "training"
        dash: Any = "dash" if training and trace.kind == "line" else "solid"
        traces.append(replace(trace, colour=KINDS[kind], hollow=training, dash=dash, size=0.85))
    return tuple(sorted(traces, key=lambda trace: trace.hollow))


def _with_atom(panel: Panel, rows: pd.DataFrame) -> Panel:
    """The share of training samples that lie on the margin, as a spike with both numbers."""
    atoms = rows[rows["atom"].notna()]
    share = dict(zip(atoms["source"], atoms["atom"], strict=True))
    at, top = float(atoms["margin"].iloc[0]), 0.95 * (panel.y.high or 1.0)
    colour = KINDS["training"]
    spike = (
        Trace((at, at), (0.0, top), colour=colour),
        Trace((at,), (top,), kind="symbols", marker="triangle", colour=colour),
    )
    words = f"training samples at 1:\ntheory {share['theory']:.3f}, fits {share['erm']:.3f}"
    note = Note(panel.x.high or 0.0, top, words, anchor="right top")
    return replace(panel, traces=(*panel.traces, *spike), notes=(note,))


MARGINS = FigureSpec(
    "margins",
    "Margin laws at α = 3, k = 3",
    "Density of the margin on training samples and on fresh ones: the proximal map at the fixed "
    "point gives the first, the fields alone the second. A negative margin is an error. Max-margin "
    "puts a finite share of its training samples exactly on the margin (arrow). Lines: theory; "
    "symbols: fits, with standard errors.",
    picture_margins,
    computations=_laws,
)
