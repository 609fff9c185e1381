"""One look for every figure: column-width, colour-blind safe, theory as lines, data as symbols."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# Okabe and Ito's palette, which stays apart for every common kind of colour blindness.
COLOURS = {
    "bayes": "#000000",
    "amp": "#D55E00",
    "cross-entropy": "#0072B2",
    "square": "#009E73",
    "max-margin": "#CC79A7",
}
CYCLE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")

LABELS = {
    "bayes": "Bayes-optimal",
    "amp": "AMP",
    "cross-entropy": "cross-entropy",
    "square": "square loss",
    "max-margin": "max-margin",
}

ALPHA = r"sample complexity $\alpha = n/d$"
ERROR = r"generalisation error $\varepsilon_{\mathrm{gen}}$"
RIDGE = r"ridge $\lambda$"

SHEET: dict[str, Any] = {
    "figure.figsize": (3.6, 2.8),
    "figure.dpi": 150,
    "savefig.dpi": 300,
    "figure.constrained_layout.use": True,
    "font.size": 8,
    "axes.labelsize": 8,
    "axes.titlesize": 8,
    "legend.fontsize": 6.5,
    "legend.frameon": False,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.5,
    "errorbar.capsize": 1.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": False,
    "mathtext.fontset": "cm",
    "pdf.fonttype": 42,
    "svg.hashsalt": "polyceptron",
}


@contextmanager
def style() -> Iterator[None]:
    """Draw inside this context to get the house look, whatever the user's own settings."""
    import logging

    import matplotlib as mpl

    # Cutting the maths fonts down for a PDF warns about their dates, which matter to nobody.
    logging.getLogger("fontTools.ttLib.tables._h_e_a_d").setLevel(logging.ERROR)
    sheet: Any = {"font.family": "DejaVu Sans", **SHEET}
    with mpl.rc_context(sheet):
        yield


def new_figure(**kwargs: Any) -> tuple[Any, Any]:
    """A figure and its axes, without pyplot's global state (safe in servers and workers)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(**kwargs)
    FigureCanvasAgg(figure)
    return figure, figure.subplots()
