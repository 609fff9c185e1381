"""Laws of margins z_y − max_{h≠y} z_h on training and on fresh samples, in theory and of fits."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from polyceptron.data.checks import Labels
from polyceptron.data.watching import uninterrupted
from polyceptron.fit.erm import fit_erm
from polyceptron.numerics import Array
from polyceptron.pictures import parts as pic
from polyceptron.pictures.curves import curves_panel
from polyceptron.pictures.tables import ridge_words
from polyceptron.problem import AnyTeacher, Dataset, Teacher, make_estimator
from polyceptron.report.figures.computations import Computation, ask
from polyceptron.report.figures.figure_rows import SEED, figure_row
from polyceptron.report.figures.figure_spec import figure
from polyceptron.report.figures.profiles import Profile
from polyceptron.rows import Row
from polyceptron.theory.erm.fixed_point import erm_fixed_point
from polyceptron.theory.margins import MarginLaw, default_grid, margin_law
from polyceptron.version import VERSION

ALPHA = 3.0
PROBLEM = f"*k = 3*, Gaussian weights, *α = {ALPHA:g}*"
RIDGES = {"square": 1.0, "cross-entropy": 0.1, "max-margin": 0.0}  # by loss
COLOURS_OF_SAMPLES = {"training": "#D55E00", "fresh": "#0072B2"}
N_BINS = 24
ON_THE_MARGIN = 1e-4  # a fitted margin this close to 1 is on the margin
FRESH_PER_TRAINING_SAMPLE = 4
LEAST_DENSITY_SEEN = 0.004  # share of the largest density, where the axis ends
ROOM_FOR_SYMBOLS = 0.03  # share of the axis on both sides


class FittedSample(NamedTuple):
    """One fit: its data, weights (d, k), and fresh samples (m, d) of scale 1/√d with labels."""

    data: Dataset
    weights: Array
    X_fresh: Array
    y_fresh: Labels


def fits(
    teacher: AnyTeacher, loss: str, ridge: float, dimension: int, instances: int
) -> Iterator[FittedSample]:
    """Yield fits to drawn data at ALPHA."""
    for i in range(instances):
        seeds = np.random.SeedSequence(SEED, spawn_key=(i,)).spawn(2)
        data = teacher.sample(round(ALPHA * dimension), dimension, seeds[0])
        fit = uninterrupted(fit_erm(data.X, data.y, loss, ridge, n_classes=3))
        rng = np.random.default_rng(seeds[1])
        n_fresh = FRESH_PER_TRAINING_SAMPLE * len(data.y)
        X = rng.standard_normal((n_fresh, dimension)) / math.sqrt(dimension)
        y = teacher.channel.sample(X @ data.weights, rng)
        yield FittedSample(data, fit.weights, X, y)


def margin_rows(loss: str, ridge: float, dimension: int, instances: int) -> list[Row]:
    """Return densities: theory on a fine grid, a histogram of each fit, and atoms."""
    teacher = Teacher(3)
    law = _margin_law(teacher, loss, ridge)
    row = figure_row("theory", loss, ridge=ridge, alpha=ALPHA, version=VERSION)
    theory = row | {"status": str(law.point.status)}
    rows = _density_rows(theory, law.margin, {"training": law.training, "fresh": law.fresh})
    has_atom = law.atom > 0
    at_atom = {"samples": "training", "margin": law.atom_at}
    edges = np.linspace(law.margin[0], law.margin[-1], N_BINS + 1)
    if has_atom:
        rows.append(row | at_atom | {"atom": law.atom})
        edges += law.atom_at - edges[np.argmin(np.abs(edges - law.atom_at))]  # an edge at the atom
    middles = 0.5 * (edges[1:] + edges[:-1])
    for i, fit in enumerate(fits(teacher, loss, ridge, dimension, instances)):
        training = _margins(fit.data.X / math.sqrt(dimension) @ fit.weights, fit.data.y)
        is_on_margin = (np.abs(training - 1) < ON_THE_MARGIN) & has_atom
        fresh = _margins(fit.X_fresh @ fit.weights, fit.y_fresh)
        run = row | {
            "source": "erm",
            "dimension": dimension,
            "n_samples": len(training),
            "seed": i,
        }
        densities = {
            "training": _histogram(training[~is_on_margin], edges, len(training)),
            "fresh": _histogram(fresh, edges, len(fresh)),
        }
        rows += _density_rows(run, middles, densities)
        if has_atom:
            rows.append(run | at_atom | {"atom": float(is_on_margin.mean())})
    return rows


def _margin_law(teacher: Teacher, loss: str, ridge: float) -> MarginLaw:
    """Return the theory's law on every fourth point of its grid.

    Above two classes the law of cross-entropy is sampled: wider cells make it smoother.
    """
    estimator = make_estimator(loss, ridge)
    points = default_grid(erm_fixed_point(teacher, estimator, ALPHA))[::4]
    if estimator.hard_margin:  # its training density jumps at 1
        points = np.sort(np.append(points, [1.0, 1.0 + 1e-6]))
    return margin_law(teacher, estimator, ALPHA, points)


def _histogram(margins: Array, edges: Array, n_samples: int) -> Array:
    """Return the density in each bin, of all `n_samples` samples."""
    counts, _ = np.histogram(margins, edges)
    return counts / (n_samples * (edges[1] - edges[0]))


def _density_rows(row: Row, margins: Array, densities: dict[str, Array]) -> list[Row]:
    """Return a row for each point of the densities."""
    return [
        row | {"samples": samples, "margin": float(margin), "density": float(density)}
        for samples, values in densities.items()
        for margin, density in zip(margins, values, strict=True)
    ]


def _margins(fields: Array, labels: Labels) -> Array:
    """Return z_y − max_{h≠y} z_h of fields (n, k), shape (n,)."""
    column = labels[:, None]
    own = np.take_along_axis(fields, column, 1)[:, 0]
    others = fields.copy()
    np.put_along_axis(others, column, -np.inf, 1)
    return own - others.max(1)


def _laws(profile: Profile) -> list[Computation]:
    return [
        ask(
            margin_rows,
            loss=loss,
            ridge=ridge,
            dimension=profile.erm_dimension,
            instances=profile.further_instances,
        )
        for loss, ridge in RIDGES.items()
    ]


@figure("margins", "Margin laws at α = 3, k = 3", computations=_laws)
def margin_laws(table: pd.DataFrame) -> pic.Picture:
    """Density of the margin on training samples and on fresh ones: the proximal map at the fixed
    point gives the first, the fields alone the second. A negative margin is an error. Max-margin
    puts a finite share of its training samples exactly on the margin (arrow). Lines: theory;
    symbols: fits, with standard errors.
    """
    panels = [_law_panel(table[table["estimator"] == loss], loss) for loss in RIDGES]
    top, middle, bottom = panels
    dimension = int(table["dimension"].max())
    legend = f"lines: theory\nsymbols: fits, *d = {dimension}*"
    middle = pic.placed(middle, "upper right", title=legend)
    bottom = replace(bottom, x=replace(bottom.x, label="margin *z_{y} − max_{h≠y} z_{h}*"))
    return pic.Picture((top, middle, bottom), height=5.4)


def _law_panel(rows: pd.DataFrame, loss: str) -> pic.Panel:
    """Return the densities of one loss."""
    named = rows.drop(columns="ridge").assign(samples=rows["samples"] + " samples")
    panel = curves_panel(named, "margin", "density")
    highest = rows["density"].max()
    seen = rows.loc[rows["density"] > LEAST_DENSITY_SEEN * highest, "margin"]
    room = ROOM_FOR_SYMBOLS * (seen.max() - seen.min())
    panel = replace(
        panel,
        traces=tuple(
            _without_cut_symbols(trace, seen.min() - room / 2, seen.max() + room / 2)
            for trace in _told_apart(panel)
        ),
        x=pic.Axis("", low=seen.min() - room, high=seen.max() + room),
        y=pic.Axis("density", low=-ROOM_FOR_SYMBOLS * highest, high=1.08 * highest),
        marks=(pic.Mark(0.0, dash="solid", colour="#999999"),),
        title=f"{pic.label_of(loss)}, {ridge_words(RIDGES[loss])}: {PROBLEM}",
        legend=None,
    )
    if rows["atom"].notna().any():
        return _with_atom(panel, rows)
    return panel


def _without_cut_symbols(trace: pic.Trace, low: float, high: float) -> pic.Trace:
    """Return a trace whose symbols lie between `low` and `high`; the frame would cut the others."""
    if trace.kind != "symbols":
        return trace
    kept = [i for i, x in enumerate(trace.x) if low <= x <= high]
    return replace(
        trace,
        x=tuple(trace.x[i] for i in kept),
        y=tuple(trace.y[i] for i in kept),
        y_error=tuple(trace.y_error[i] for i in kept if trace.y_error),
        customdata=tuple(trace.customdata[i] for i in kept if trace.customdata),
    )


def _told_apart(panel: pic.Panel) -> tuple[pic.Trace, ...]:
    """Draw training samples dashed and hollow, so that fresh ones are seen where both lie."""
    traces = []
    for trace in panel.traces:
        samples = trace.label.split()[0]
        is_training = samples == "training"
        colour = COLOURS_OF_SAMPLES[samples]
        trace = replace(trace, colour=colour, hollow=is_training, size=0.85)
        if is_training and trace.kind == "line":
            trace = replace(trace, dash="dash")
        traces.append(trace)
    return tuple(sorted(traces, key=lambda trace: trace.hollow))


def _with_atom(panel: pic.Panel, rows: pd.DataFrame) -> pic.Panel:
    """Return the panel with the share of training samples at margin 1, as an arrow and in words."""
    atoms = rows[rows["atom"].notna()]
    share = atoms.set_index("source")["atom"]
    at = float(atoms["margin"].iloc[0])
    top = 0.95 * (panel.y.high or 1.0)
    colour = COLOURS_OF_SAMPLES["training"]
    stem = pic.Trace((at, at), (0.0, top), colour=colour)
    tip = pic.Trace((at,), (top,), kind="symbols", marker="triangle", colour=colour)
    words = (
        f"training samples at margin {at:g}:\ntheory {share['theory']:.3f}, fits {share['erm']:.3f}"
    )
    note = pic.Note(panel.x.high or 0.0, top, words, anchor="right top")
    return replace(panel, traces=(*panel.traces, stem, tip), notes=(note,))
