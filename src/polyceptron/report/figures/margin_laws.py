"""The law of the margin z_y − max_{h≠y} z_h of three losses, on training and on fresh samples."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from polyceptron.algorithms.erm.fit import fit_erm
from polyceptron.algorithms.watching import uninterrupted
from polyceptron.experiments.results import average
from polyceptron.model import ERM, Teacher
from polyceptron.report.figures.erm_curves import placed
from polyceptron.report.figures.figure_spec import SEED, Computation, FigureSpec, Profile, Row
from polyceptron.report.pictures.curves import curves_panel
from polyceptron.report.pictures.parts import Axis, Mark, Note, Panel, Picture, Trace
from polyceptron.report.pictures.series import fact
from polyceptron.report.pictures.style import label_of
from polyceptron.theory.erm.fixed_point import erm_fixed_point
from polyceptron.theory.erm.margin_law import default_grid, margin_law
from polyceptron.version import VERSION

if TYPE_CHECKING:
    import pandas as pd

ALPHA = 3.0
LOSSES = {"square": 1.0, "cross-entropy": 0.1, "max-margin": 0.0}  # with their ridges
KINDS = ("training", "fresh")
BINS = 24
_AT_ATOM = 1e-4  # a fitted margin this close to 1 is on the margin


def margin_rows(
    loss: str, ridge: float, alpha: float, dimension: int, instances: int, seed: int
) -> list[Row]:
    """Densities: theory on a fine grid, instances as a histogram with standard errors."""
    # Above two classes cross-entropy's law is a sampled one: wider cells make it smoother.
    estimator = ERM(loss, ridge)  # type: ignore[arg-type]
    grid = default_grid(erm_fixed_point(Teacher(3), estimator, alpha))[::4]
    if loss == "max-margin":  # its training density jumps here
        grid = np.sort(np.append(grid, [1.0, 1.0 + 1e-6]))
    law = margin_law(Teacher(3), estimator, alpha, grid)
    base: Row = {
        "model": "argmax", "n_classes": 3, "prior": "gaussian", "estimator": loss, "ridge": ridge,
        "alpha": alpha, "version": VERSION,
    }  # fmt: skip
    theory: Row = {"source": "theory", **base, "status": str(law.point.status)}
    rows = []
    for kind, density in (("training", law.training), ("fresh", law.fresh)):
        for x, y in zip(law.margin, density, strict=True):
            rows.append({**theory, "samples": kind, "margin": float(x), "density": float(y)})
    edges = np.linspace(law.margin[0], law.margin[-1], BINS + 1)
    if law.atom > 0:
        rows.append({**theory, "samples": "training", "margin": law.atom_at, "atom": law.atom})
        edges += law.atom_at - edges[np.argmin(np.abs(edges - law.atom_at))]  # an edge at the atom
    seeds = [np.random.SeedSequence(seed, spawn_key=(i,)) for i in range(instances)]
    measured = [_instance(loss, ridge, alpha, dimension, one, edges, law.atom > 0) for one in seeds]
    point = {
        "source": "erm", **base, "dimension": dimension, "n_samples": round(alpha * dimension),
        "instances": instances,
    }  # fmt: skip
    centres = 0.5 * (edges[1:] + edges[:-1])
    for n, kind in enumerate(KINDS):
        for x, density in zip(centres, zip(*(m[n] for m in measured), strict=True), strict=True):
            found = {"margin": float(x), **_averaged("density", density)}
            rows.append({**point, "samples": kind, **found})
    if law.atom > 0:
        found = {"margin": law.atom_at, **_averaged("atom", [m[2] for m in measured])}
        rows.append({**point, "samples": "training", **found})
    return rows


def _averaged(name: str, values: Any) -> Row:
    """The columns of a mean over instances."""
    found = average(values)
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
    densities = [
        np.histogram(values, edges)[0] / (count * width)
        for values, count in ((training[~on], n), (fresh, fresh.size))
    ]
    return densities[0], densities[1], float(on.mean())


def _margins(X: Any, y: Any, weights: Any) -> Any:
    z = X @ weights / math.sqrt(X.shape[1])
    own = z[np.arange(len(y)), y]
    z[np.arange(len(y)), y] = -np.inf
    return own - z.max(1)


def _laws(profile: Profile) -> list[Computation]:
    d, n = profile.erm_dimension, profile.further_instances
    return [
        Computation(
            margin_rows,
            {"loss": loss, "ridge": ridge, "alpha": ALPHA, "dimension": d, "instances": n,
             "seed": SEED},
            3 + n * 1.2e-6 * d * d,
        )
        for loss, ridge in LOSSES.items()
    ]  # fmt: skip


def picture(table: pd.DataFrame) -> Picture:
    """One panel for each loss."""
    panels: list[Panel] = []
    for loss, ridge in LOSSES.items():
        rows = table[table["estimator"] == loss]
        words = {kind: f"{kind} samples" for kind in KINDS}
        shown = rows.drop(columns="ridge").assign(samples=rows["samples"].map(words))
        panel = curves_panel(shown, "margin", "density")
        seen = rows.loc[rows["density"] > 0.004 * rows["density"].max(), "margin"]
        title = f"{label_of(loss)}, {fact('ridge', ridge) if ridge else '*λ → 0^{+}*'}"
        last = len(panels) == len(LOSSES) - 1
        panel = replace(
            panel,
            traces=_told_apart(panel),
            x=Axis(
                "margin *z_{y} − max_{h≠y} z_{h}*" if last else "", low=seen.min(), high=seen.max()
            ),
            y=Axis("density", low=0.0, high=1.08 * rows["density"].max()),
            marks=(Mark(0.0, dash="solid", colour="#999999"),),
            title=title,
            legend=None,
        )
        if rows["atom"].notna().any():
            panel = _with_atom(panel, rows)
        panels.append(panel)
    title = f"lines: theory\nsymbols: fits, *d = {int(table['dimension'].max())}*"
    panels[1] = placed(panels[1], "upper right", title=title)
    return Picture(tuple(panels), height=5.2)


def _told_apart(panel: Panel) -> tuple[Trace, ...]:
    """Training samples dashed and hollow, so that fresh ones are seen where both lie."""
    traces = []
    for trace in panel.traces:
        training = trace.label.startswith("training")
        dash: Any = "dash" if training and trace.kind == "line" else "solid"
        colour = "#D55E00" if training else "#0072B2"
        traces.append(replace(trace, colour=colour, hollow=training, dash=dash, size=0.85))
    return tuple(sorted(traces, key=lambda trace: trace.hollow))


def _with_atom(panel: Panel, rows: pd.DataFrame) -> Panel:
    """The share of training samples that lie on the margin, as a spike with both numbers."""
    atoms = rows[rows["atom"].notna()]
    share = dict(zip(atoms["source"], atoms["atom"], strict=True))
    at, top = float(atoms["margin"].iloc[0]), 0.95 * (panel.y.high or 1.0)
    colour = "#D55E00"
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
    picture,
    computations=_laws,
)
