"""One look for every picture: colour-blind safe, theory as lines, experiments as symbols.

Everything is keyed by the name of an estimator or of a branch; a name that is not listed gets the
next free colour and is its own label, so that what a user adds is drawn like the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from polyceptron.model import ESTIMATORS

# Okabe and Ito's palette, which stays apart for every common kind of colour blindness.
COLOURS = {
    "bayes": "#000000",
    "amp": "#D55E00",
    "cross-entropy": "#0072B2",
    "square": "#009E73",
    "max-margin": "#CC79A7",
    "unstable": "#7a7a7a",
    "informed": "#E69F00",
}
CYCLE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("circle", "square", "triangle", "diamond", "cross", "x")
DASHES = {"amp": "dash", "unstable": "dot", "informed": "dashdot"}

LABELS = {"amp": "AMP", "unstable": "barrier", "informed": "perfect learning"}  # of branches
AXES = {
    "alpha": "sample complexity *α = n/d*",
    "generalisation_error": "generalisation error *ε_{gen}*",
    "ridge": "ridge *λ*",
    "m": "overlap with the teacher *m*",
    "q": "squared norm *q*",
    "V": "variance *V*",
    "free_entropy": "free entropy *Φ*",
    "n_classes": "number of classes *k*",
    "dimension": "dimension *d*",
    "n_samples": "number of samples *n*",
    "iteration": "iteration *t*",
}
# Dark to light, legible on white to the last: five colours of viridis.
_SCALE = ((68, 1, 84), (61, 74, 137), (37, 131, 142), (46, 181, 124), (158, 206, 59))

SHEET: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "figure.figsize": (3.6, 2.8),
    "figure.dpi": 150,
    "savefig.dpi": 300,
    "figure.constrained_layout.use": True,
    "font.size": 8,
    "axes.labelsize": 8,
    "axes.titlesize": 8,
    "legend.fontsize": 6.5,
    "legend.title_fontsize": 6.5,
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


def label_of(name: str) -> str:
    """The words for an estimator, a branch or a source."""
    return LABELS.get(name) or ESTIMATORS.label(name)


def axis_label(column: str) -> str:
    """The words for a column of the table."""
    return AXES.get(column, column.replace("_", " "))


def colours_of(names: Iterable[str]) -> dict[str, str]:
    """A colour for each name: its own if it has one, else the next that is free."""
    names = list(dict.fromkeys(names))
    chosen = {name: COLOURS[name] for name in names if name in COLOURS}
    for i, name in enumerate(name for name in names if name not in COLOURS):
        free = (colour for colour in CYCLE if colour not in chosen.values())
        chosen[name] = next(free, CYCLE[i % len(CYCLE)])
    return chosen


def shades(count: int) -> list[str]:
    """`count` colours of one scale, dark to light, for values in order."""
    found = []
    for i in range(count):
        place = i / max(count - 1, 1) * (len(_SCALE) - 1)
        low = min(int(place), len(_SCALE) - 2)
        pair = zip(_SCALE[low], _SCALE[low + 1], strict=True)
        found.append("#" + "".join(f"{round(a + (place - low) * (b - a)):02x}" for a, b in pair))
    return found


@contextmanager
def style() -> Iterator[None]:
    """Draw inside this context to get the house look, whatever the user's own settings."""
    import logging

    import matplotlib as mpl

    # Cutting the maths fonts down for a PDF warns about their dates, which matter to nobody.
    logging.getLogger("fontTools").setLevel(logging.ERROR)
    sheet: Any = SHEET
    with mpl.rc_context(sheet):
        yield
