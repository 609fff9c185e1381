r"""A picture is plain data: panels of traces that know nothing of a drawing library.

Words may hold markup, maths between asterisks, which each renderer sets in its own way:

*α = n/d*     $\alpha = n/d$       <i>α = n/d</i>
*q_{00}*      $q_{\mathrm{00}}$    <i>q<sub>00</sub></i>
*z_{y}*       $z_{y}$              <i>z<sub>y</sub></i>

All figures share one look: its colours are safe for colour-blind readers, theory is drawn as lines
and experiments as symbols. An estimator or branch that is not listed gets the next free colour,
and its name is its label.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from polyceptron.problem import ESTIMATORS

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["line", "symbols", "band", "cells"]
Dash = Literal["solid", "dash", "dot", "dashdot"]
Numbers = tuple[float, ...]
Limits = tuple[float | None, float | None] | None


@dataclass(frozen=True)
class Trace:
    """One series of points: `x` and `y` of length n, and `y_error` of length n or empty.

    A NaN in `y` leaves a gap. A band fills y ± y_error. Cells are coloured by a value from 0 to 1;
    their values and words stand in `customdata`. `hover` is the text that the page shows beside
    the pointer, with the numbers of `customdata` (n, …).
    """

    x: Numbers
    y: Numbers
    y_error: Numbers = ()
    kind: Kind = "line"
    colour: str = "#000000"
    dash: Dash = "solid"
    marker: str = ""
    hollow: bool = False
    label: str = ""
    in_legend: bool = True
    width: float = 1.0  # of lines, and `size` of symbols, in units of the usual one
    size: float = 1.0
    hover: str = ""
    customdata: tuple[tuple[object, ...], ...] = ()
    table: int = 0  # the place of its table, where several are drawn together


@dataclass(frozen=True)
class Axis:
    """A label, a scale (linear or log), and limits; a limit of None follows the data."""

    label: str = ""
    scale: str = "linear"
    low: float | None = None
    high: float | None = None
    ticks: Numbers = ()
    words: tuple[str, ...] = ()  # at the ticks, on the page


@dataclass(frozen=True)
class Mark:
    """A vertical line at x, whose label stands above it, on the side that `side` names."""

    x: float
    label: str = ""
    side: str = "center"
    dash: Dash = "dot"
    colour: str = "#737373"


@dataclass(frozen=True)
class Shade:
    """A coloured region of x from `low` to `high`, with its name; drawn on the page only."""

    low: float
    high: float
    colour: str
    label: str = ""


@dataclass(frozen=True)
class Note:
    """Words at a point; `anchor` names the side of the words that touches it, as "left top"."""

    x: float
    y: float
    text: str
    colour: str = "#222222"
    anchor: str = "left middle"


@dataclass(frozen=True)
class Legend:
    """The place of a legend, as matplotlib names it or "outside", and its title.

    `corner` moves that corner of the legend to a point, given in shares of the axes.
    """

    place: str = "best"
    title: str = ""
    columns: int = 1
    corner: tuple[float, float] | None = None


@dataclass(frozen=True)
class Panel:
    """One pair of axes; `inset` is a panel within it, at `box` (left, bottom, width, height)."""

    traces: tuple[Trace, ...]
    x: Axis = Axis()
    y: Axis = Axis()
    marks: tuple[Mark, ...] = ()
    shades: tuple[Shade, ...] = ()
    notes: tuple[Note, ...] = ()
    legend: Legend | None = None
    title: str = ""
    inset: Panel | None = None
    box: tuple[float, float, float, float] = (0.0, 0.0, 1.0, 1.0)


@dataclass(frozen=True)
class Picture:
    """Panels above one another; width and height are in inches."""

    panels: tuple[Panel, ...]
    width: float = 3.6
    height: float = 2.9


def with_limits(axis: Axis, limits: Limits) -> Axis:
    """Return the axis with these limits; None leaves it as it is."""
    if limits is None:
        return axis
    low, high = limits
    return replace(axis, low=low, high=high)


def placed(
    panel: Panel,
    place: str,
    x: Limits = None,
    y: Limits = None,
    *,
    title: str | None = None,
    columns: int = 1,
    corner: tuple[float, float] | None = None,
) -> Panel:
    """Return the panel with its legend at a place, and within these limits of x and y.

    Without a title the legend keeps its own.
    """
    legend = panel.legend or Legend()
    if title is None:
        title = legend.title
    return replace(
        panel,
        x=with_limits(panel.x, x),
        y=with_limits(panel.y, y),
        legend=Legend(place, title, columns, corner),
    )


def numbers(values: Iterable[Any]) -> Numbers:
    """Return plain floats, with NaN for each missing value."""
    return tuple(math.nan if missing(value) else float(value) for value in values)


def trace_of(
    table: pd.DataFrame | Mapping[str, Any], x: str, y: str, error: str = "", **look: Any
) -> Trace:
    """Return the trace of columns `x` and `y` of a table, with the bars of column `error`."""
    errors: Numbers = ()
    if error:
        errors = numbers(table[error])
    return Trace(numbers(table[x]), numbers(table[y]), errors, **look)


def missing(value: object) -> bool:
    """Return whether a cell of a table is empty: None, NaN or pandas' NA."""
    return value is None or type(value).__name__ == "NAType" or value != value


_MATHS = re.compile(r"\*([^*\n]+)\*")
_RAISED = re.compile(r"([_^])\{([^}]*)\}")
_COMMANDS = {
    "α": r"\alpha ",
    "λ": r"\lambda ",
    "ε": r"\varepsilon ",
    "Φ": r"\Phi ",
    "∝": r"\propto ",
    "→": r"\to ",
    "≠": r"\neq ",
    "−": "-",
    "max": r"\max ",
}


def as_mathtext(text: str) -> str:
    """Return the text with its markup in matplotlib's maths; a dollar sign stays itself."""
    return _MATHS.sub(_mathtext_of, text.replace("$", r"\$"))


def _mathtext_of(maths: re.Match[str]) -> str:
    """Return one formula between dollar signs."""
    formula = _RAISED.sub(_upright_word, maths[1])
    for sign, command in _COMMANDS.items():
        formula = formula.replace(sign, command)
    return f"${formula}$"


def _upright_word(raised: re.Match[str]) -> str:
    """Return an index or a power; a word is set upright, a single letter is a variable."""
    sign, word = raised.groups()
    if len(word) > 1 and word.isalnum():
        return f"{sign}{{\\mathrm{{{word}}}}}"
    return raised[0]


def as_html(text: str) -> str:
    """Return the text for a page: escaped, with italics, indices and powers."""
    words = _MATHS.sub(r"<i>\1</i>", escape(text, quote=False)).replace("\n", "<br>")
    for sign, tag in (("_", "sub"), ("^", "sup")):
        words = re.sub(rf"\{sign}\{{([^}}]*)\}}", rf"<{tag}>\1</{tag}>", words)
    return words


def as_plain(text: str) -> str:
    """Return the text without markup, for a terminal."""
    return _RAISED.sub(r"\1\2", _MATHS.sub(r"\1", text))


# Okabe and Ito's palette, which stays apart for every common kind of colour blindness, and darker
# colours for rules that are drawn less often.
COLOURS = {
    "bayes": "#000000",
    "amp": "#D55E00",
    "cross-entropy": "#0072B2",
    "square": "#009E73",
    "max-margin": "#CC79A7",
    "one-vs-rest": "#882255",
    "lda": "#999933",
    "class-means": "#56B4E9",
    "sgd": "#8C510A",
    "unstable": "#7a7a7a",
    "metastable": "#7a7a7a",
    "informed": "#E69F00",
}
CYCLE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("circle", "square", "triangle", "diamond", "cross", "x")
MARKERS_OF = {
    "bayes": "circle",
    "amp": "circle",
    "cross-entropy": "square",
    "square": "triangle",
    "max-margin": "diamond",
    "one-vs-rest": "cross",
}
DASHES: dict[str, Dash] = {
    "amp": "dash",
    "unstable": "dot",
    "informed": "dashdot",
    "metastable": "dashdot",
}
LABELS = {  # of branches
    "amp": "AMP",
    "unstable": "barrier",
    "informed": "perfect learning",
    "metastable": "metastable",
}
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
    "font.size": 8,
    "mathtext.fontset": "cm",
    "pdf.fonttype": 42,
    "figure.figsize": (3.6, 2.8),
    "figure.dpi": 150,
    "savefig.dpi": 300,
    "figure.constrained_layout.use": True,
    "svg.hashsalt": "polyceptron",
    "axes.labelsize": 8,
    "axes.titlesize": 8,
    "axes.grid": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 6.5,
    "legend.title_fontsize": 6.5,
    "legend.frameon": False,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.5,
    "errorbar.capsize": 1.5,
}


def label_of(name: str) -> str:
    """Return the words for an estimator, a branch or a source."""
    return LABELS.get(name) or ESTIMATORS.label(name)


def axis_label(column: str) -> str:
    """Return the words for a column of a table."""
    return AXES.get(column, column.replace("_", " "))


def colours_of(names: Iterable[str]) -> dict[str, str]:
    """Return a colour for each name: its own if it has one, else the next that is free."""
    names = list(dict.fromkeys(names))
    chosen = {name: COLOURS[name] for name in names if name in COLOURS}
    unlisted = [name for name in names if name not in COLOURS]
    for i, name in enumerate(unlisted):
        free = [colour for colour in CYCLE if colour not in chosen.values()]
        chosen[name] = free[0] if free else CYCLE[i % len(CYCLE)]
    return chosen


def marker_of(estimator: str, source: str) -> str:
    """Return the symbol of an estimator's runs, the same in all figures.

    Message passing has its own. An estimator that is not listed has none; then the next free
    symbol is taken.
    """
    if source == "amp":
        return MARKERS_OF["amp"]
    return MARKERS_OF.get(estimator, "")


def dash_of(role: str, mixed: bool) -> Dash:
    """Return the dashes of a line.

    Beside other estimators the Bayes-optimal line is dashed, so that a line below it is seen.
    """
    if role in DASHES:
        return DASHES[role]
    if mixed and role == "bayes":
        return "dash"
    return "solid"


def tints(colour: str, count: int) -> list[str]:
    """Return `count` tints of a colour, at most four: itself, lighter, darker, lightest."""
    white = (255, 255, 255)
    black = (0, 0, 0)
    own = tuple(int(colour[i : i + 2], 16) for i in (1, 3, 5))
    darker = (white, 0.3) if own == black else (black, 0.45)  # nothing is darker than black
    mixtures = (white, 0.5), darker, (white, 0.72)
    return [colour, *(_mixed(own, *mixture) for mixture in mixtures)][:count]


def _mixed(colour: tuple[int, ...], other: tuple[int, ...], share: float) -> str:
    """Return a colour with this share of another one in it."""
    parts = [round((1 - share) * a + share * b) for a, b in zip(colour, other, strict=True)]
    return "#" + "".join(f"{part:02x}" for part in parts)


def shades(count: int) -> list[str]:
    """Return `count` colours of one scale, dark to light, for values in order."""
    places = np.linspace(0, len(_SCALE) - 1, count)
    red, green, blue = (
        np.interp(places, range(len(_SCALE)), part) for part in zip(*_SCALE, strict=True)
    )
    return [
        f"#{round(r):02x}{round(g):02x}{round(b):02x}"
        for r, g, b in zip(red, green, blue, strict=True)
    ]


@contextmanager
def style() -> Iterator[None]:
    """Draw inside this context to get the house look, whatever the user's own settings."""
    import matplotlib as mpl

    # fontTools warns about the dates of the fonts that it cuts down for a PDF; nobody needs them.
    logging.getLogger("fontTools").setLevel(logging.ERROR)
    sheet: Any = SHEET  # matplotlib's stubs name every key
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(sheet)
        yield
