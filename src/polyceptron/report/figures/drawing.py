"""What the pictures share: lines of theory, symbols with standard errors, labelled verticals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 3.6  # inches, one column
IT = r"$\alpha_{\mathrm{IT}}$"
ALGO = r"$\alpha_{\mathrm{algo}}$"


def panels(count: int = 1, height: float = 2.8, **kwargs: Any) -> tuple[Figure, list[Axes]]:
    """A figure of column width with `count` axes above one another."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height))
    FigureCanvasAgg(figure)
    axes = figure.subplots(count, 1, squeeze=False, **kwargs)
    return figure, list(axes[:, 0])


def line(
    ax: Axes, table: pd.DataFrame, x: str, y: str, colour: str, label: str = "", **style: Any
) -> None:
    """Theory: a line."""
    ax.plot(table[x], table[y], color=colour, label=label or "_", **style)


def symbols(
    ax: Axes,
    table: pd.DataFrame,
    x: str,
    y: str,
    colour: str,
    label: str = "",
    marker: str = "o",
    scale: float = 1.0,
    hollow: bool = False,
) -> None:
    """Experiments: symbols with their standard errors; `scale` multiplies both."""
    name = "uncertainty" if y == "generalisation_error" else f"{y}_standard_error"
    error = table[name] if name in table else np.full(len(table), np.nan)
    ax.errorbar(
        table[x].to_numpy(dtype=float),
        scale * table[y].to_numpy(dtype=float),
        # One instance has no standard error: its bar has no length rather than no symbol.
        yerr=scale * np.nan_to_num(np.asarray(error, dtype=float)),
        color=colour,
        marker=marker,
        markerfacecolor="white" if hollow else colour,
        markeredgewidth=0.8,
        elinewidth=0.8,
        linestyle="none",
        label=label or "_",
        zorder=3,
    )


def vertical(ax: Axes, x: float, label: str = "", align: str = "center") -> None:
    """A dotted vertical; its label stands above the axes, where no curve passes."""
    ax.axvline(x, color="0.45", linestyle=":", linewidth=0.9, zorder=0)
    if label:
        ax.text(
            x, 1.015, label, transform=ax.get_xaxis_transform(), ha=align, va="bottom", fontsize=7
        )


def transition_verticals(ax: Axes, table: pd.DataFrame, *, labels: bool = True) -> None:
    """α_IT and α_algo from the rows of branch alpha_IT and alpha_algo."""
    for branch, name, align in (("alpha_IT", IT, "right"), ("alpha_algo", ALGO, "left")):
        value = float(table.loc[table["branch"] == branch, "alpha"].iloc[0])
        vertical(ax, value, f"{name} = {value:.3f}" if labels else "", align)


def inset(ax: Axes, box: Sequence[float], x_label: str, y_label: str) -> Axes:
    """Axes inside axes, with smaller text and labels close to them."""
    small = ax.inset_axes(tuple(box))  # type: ignore[arg-type]
    small.tick_params(labelsize=5.5, pad=1.5, length=2)
    small.set_xlabel(x_label, fontsize=6.5, labelpad=1)
    small.set_ylabel(y_label, fontsize=6.5, labelpad=1)
    return small


def note(table: pd.DataFrame) -> dict[str, Any]:
    """A legend's title that says what lines and symbols are."""
    size = int(table["dimension"].dropna().iloc[0])
    title = f"lines: theory\nsymbols: fits, $d = {size}$"
    return {"title": title, "title_fontsize": 6.5, "alignment": "left"}


def clear_legend(ax: Axes, **place: Any) -> None:
    """A legend on white, so that lines behind it do not run through its text."""
    legend = ax.legend(frameon=True, framealpha=0.9, edgecolor="none", borderpad=0.2, **place)
    legend.set_zorder(5)
