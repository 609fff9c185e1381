"""The law of the margin z_y − max_{h≠y} z_h of three losses, on training and on fresh samples."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from polyceptron.algorithms.erm import fit_erm
from polyceptron.model import Teacher
from polyceptron.report.figures.base import SEED, FigureSpec
from polyceptron.report.figures.drawing import note, panels
from polyceptron.report.figures.jobs import Job
from polyceptron.report.figures.profile import Profile
from polyceptron.report.figures.table import Row, mean_and_error
from polyceptron.report.style import style
from polyceptron.rows import VERSION
from polyceptron.theory.erm import erm_fixed_point, margin_law
from polyceptron.theory.erm.margins import default_grid

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ALPHA = 3.0
LOSSES: dict[str, tuple[float, str]] = {
    "square": (1.0, r"square, $\lambda=1$"),
    "cross-entropy": (0.1, r"cross-entropy, $\lambda=0.1$"),
    "max-margin": (0.0, r"max-margin ($\lambda\to0^+$)"),
}
KINDS = {"training": ("#D55E00", "o", (0, (4, 1.5))), "fresh": ("#0072B2", "s", "-")}
BINS = 24
_AT_ATOM = 1e-4  # a fitted margin this close to 1 is on the margin


def margin_rows(
    loss: str, ridge: float, alpha: float, dimension: int, instances: int, seed: int
) -> list[Row]:
    """Densities: theory on a fine grid, instances as a histogram with standard errors."""
    # Above two classes cross-entropy's law is a sampled one: wider cells make it smoother.
    grid = default_grid(erm_fixed_point(3, loss, ridge, alpha))[::4]
    if loss == "max-margin":  # its training density jumps here
        grid = np.sort(np.append(grid, [1.0, 1.0 + 1e-6]))
    law = margin_law(3, loss, ridge, alpha, grid)
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
        for x, values in zip(centres, np.array([m[n] for m in measured]).T, strict=True):
            mean, error = mean_and_error(values)
            rows.append(
                {**point, "samples": kind, "margin": float(x), "density": mean,
                 "density_standard_error": error}
            )  # fmt: skip
    if law.atom > 0:
        mean, error = mean_and_error([m[2] for m in measured])
        rows.append(
            {**point, "samples": "training", "margin": law.atom_at, "atom": mean,
             "atom_standard_error": error}
        )  # fmt: skip
    return rows


def _instance(
    loss: str, ridge: float, alpha: float, dimension: int, seed: Any, edges: Any, atomic: bool
) -> tuple[Any, Any, float]:
    """Histograms (BINS,) of training and fresh margins of one fit, and the share on the margin."""
    data_seed, fresh_seed = seed.spawn(2)
    n = round(alpha * dimension)
    data = Teacher(3).sample(n, dimension, data_seed)
    fit = fit_erm(data.X, data.y, 3, loss, ridge)
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


def _jobs(profile: Profile) -> list[Job]:
    d, n = profile.erm_dimension, profile.erm_instances
    return [
        Job(
            margin_rows,
            {"loss": loss, "ridge": ridge, "alpha": ALPHA, "dimension": d, "instances": n,
             "seed": SEED},
            3 + n * 1.2e-6 * d * d,
        )
        for loss, (ridge, _) in LOSSES.items()
    ]  # fmt: skip


def draw(table: pd.DataFrame) -> Figure:
    """One panel for each loss."""
    with style():
        figure, axes = panels(len(LOSSES), height=5.2)
        for ax, (loss, (_, label)) in zip(axes, LOSSES.items(), strict=True):
            rows = table[table["estimator"] == loss]
            for kind, (colour, marker, dashes) in reversed(KINDS.items()):
                some = rows[(rows["samples"] == kind) & rows["density"].notna()]
                theory, bars = (some[some["source"] == source] for source in ("theory", "erm"))
                ax.plot(theory["margin"], theory["density"], color=colour, linestyle=dashes)
                ax.errorbar(
                    bars["margin"], bars["density"], bars["density_standard_error"].fillna(0),
                    color=colour, marker=marker, linestyle="none", markersize=3, elinewidth=0.8,
                    markerfacecolor="white" if kind == "training" else colour,
                    label=f"{kind} samples",
                )  # fmt: skip
            ax.axvline(0, color="0.6", linewidth=0.6, zorder=0)
            seen = rows.loc[rows["density"] > 0.004 * rows["density"].max(), "margin"]
            ax.set_xlim(seen.min(), seen.max())
            ax.locator_params(axis="x", nbins=7)
            ax.set_ylabel("density")
            ax.set_ylim(bottom=0)
            ax.set_title(label, loc="left", pad=3)
            if "atom" in rows and rows["atom"].notna().any():
                _atom(ax, rows)
        axes[-1].set_xlabel(r"margin $z_y - \max_{h \neq y} z_h$")
        axes[1].legend(loc="upper right", **note(table))
    return figure


def _atom(ax: Axes, rows: pd.DataFrame) -> None:
    """The share of training samples that lie on the margin, as an arrow with both numbers."""
    atoms = rows[rows["atom"].notna()]
    share = dict(zip(atoms["source"], atoms["atom"], strict=True))
    top = ax.get_ylim()[1]
    at = float(atoms["margin"].iloc[0])
    ax.annotate("", (at, 0.97 * top), (at, 0), arrowprops={"arrowstyle": "-|>", "color": "#D55E00"})
    ax.text(
        ax.get_xlim()[1],
        0.97 * top,
        f"training samples at 1:\ntheory {share['theory']:.3f}, fits {share['erm']:.3f}",
        fontsize=6.5,
        ha="right",
        va="top",
    )


MARGINS = FigureSpec(
    "margins",
    "Margin laws at α = 3, k = 3",
    "Density of the margin on training samples and on fresh ones: the proximal map at the fixed "
    "point gives the first, the fields alone the second. A negative margin is an error. Max-margin "
    "puts a finite share of its training samples exactly on the margin (arrow). Lines: theory; "
    "symbols: fits, with standard errors.",
    draw,
    jobs=_jobs,
)
