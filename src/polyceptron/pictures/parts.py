r"""What a picture is: panels of traces, plain data that knows nothing of a drawing library.

Words may hold markup, maths between asterisks, which each renderer sets in its own way:

*α = n/d*     $\alpha = n/d$       <i>α = n/d</i>
*q_{00}*      $q_{\mathrm{00}}$    <i>q<sub>00</sub></i>
*z_{y}*       $z_{y}$              <i>z<sub>y</sub></i>

One look for all: colour-blind safe, theory as lines, experiments as symbols. An estimator or branch
that is not listed gets the next free colour and is its own label.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from html import escape
from typing import Any, Literal

import numpy as np

from polyceptron.problem import ESTIMATORS

Kind = Literal["line", "symbols", "band", "cells"]
Dash = Literal["solid", "dash", "dot", "dashdot"]
Numbers = tuple[float, ...]
Limits = tuple[float | None, float | None] | None


@dataclass(frozen=True)
class Trace:
    """One series of points: `x`, `y` (n,), NaN in `y` for a gap, `y_error` (n,) or empty.

    A band fills y ± y_error; cells have a value from 0 to 1 and words each, in `customdata`, as
    colours. `hover` is the page's text, with `customdata` (n, …) for its numbers.
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
    customdata: tuple[tuple[Any, ...], ...] = ()
    table: int = 0  # which of several tables it was made from


@dataclass(frozen=True)
class Axis:
    """A label, a scale (linear or log), and limits (None: as the data have it)."""

    label: str = ""
    scale: str = "linear"
    low: float | None = None
    high: float | None = None
    ticks: Numbers = ()
    words: tuple[str, ...] = ()  # at the ticks, on the page


@dataclass(frozen=True)
class Mark:
    """A vertical line at x; its label stands above, on that side of it."""

    x: float
    label: str = ""
    side: str = "center"
    dash: Dash = "dot"
    colour: str = "#737373"


@dataclass(frozen=True)
class Shade:
    """A region of x from `low` to `high`, on the page, and what it is."""

    low: float
    high: float
    colour: str
    label: str = ""


@dataclass(frozen=True)
class Note:
    """Words at a point; `anchor` is which of their sides is there, as in "left top"."""

    x: float
    y: float
    text: str
    colour: str = "#222222"
    anchor: str = "left middle"


@dataclass(frozen=True)
class Legend:
    """Where the legend stands (as matplotlib names places, or "outside"), and its title.

    `corner` is where that corner of it goes, in shares of the axes, if not into theirs.
    """

    place: str = "best"
    title: str = ""
    columns: int = 1
    corner: tuple[float, float] | None = None


@dataclass(frozen=True)
class Panel:
    """One pair of axes; `inset` is a panel within, in a `box` (left, bottom, width, height)."""

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
    """Panels above one another; width and height in inches."""

    panels: tuple[Panel, ...]
    width: float = 3.6
    height: float = 2.9


def placed(panel: Panel, place: str, x: Limits = None, y: Limits = None, **legend: Any) -> Panel:
    """The panel with its legend at a place (with other fields perhaps) and within these limits."""
    across, up = (
        axis if limits is None else replace(axis, low=limits[0], high=limits[1])
        for axis, limits in ((panel.x, x), (panel.y, y))
    )
    own = replace(panel.legend or Legend(), place=place, **legend)
    return replace(panel, x=across, y=up, legend=own)


def numbers(values: Iterable[Any]) -> Numbers:
    """Plain floats; what is missing is NaN."""
    return tuple(math.nan if missing(value) else float(value) for value in values)


def trace_of(table: Any, x: str, y: str, error: str = "", **look: Any) -> Trace:
    """A trace from columns of a table."""
    errors = numbers(table[error]) if error else ()
    return Trace(numbers(table[x]), numbers(table[y]), errors, **look)


def missing(value: Any) -> bool:
    """Whether a cell of a table is empty: None, NaN or pandas' NA."""
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
    """For matplotlib; a dollar sign of the words themselves stays one."""

    def upright(found: re.Match[str]) -> str:
        word = len(found[2]) > 1 and found[2].isalnum()  # one letter is a variable
        return f"{found[1]}{{\\mathrm{{{found[2]}}}}}" if word else found[0]

    def maths(found: re.Match[str]) -> str:
        inner = _RAISED.sub(upright, found[1])
        for sign, command in _COMMANDS.items():
            inner = inner.replace(sign, command)
        return f"${inner}$"

    return _MATHS.sub(maths, text.replace("$", r"\$"))


def as_html(text: str) -> str:
    """For the page: escaped, with italics, indices and powers."""
    words = _MATHS.sub(r"<i>\1</i>", escape(text, quote=False)).replace("\n", "<br>")
    for sign, tag in (("_", "sub"), ("^", "sup")):
        words = re.sub(rf"\{sign}\{{([^}}]*)\}}", rf"<{tag}>\1</{tag}>", words)
    return words


def as_plain(text: str) -> str:
    """Without markup, for a terminal."""
    return _RAISED.sub(r"\1\2", _MATHS.sub(r"\1", text))


# Okabe and Ito's palette, which stays apart for every common kind of colour blindness.
COLOURS = {
    "bayes": "#000000",
    "amp": "#D55E00",
    "cross-entropy": "#0072B2",
    "square": "#009E73",
    "max-margin": "#CC79A7",
    "unstable": "#7a7a7a",
    "metastable": "#7a7a7a",
    "informed": "#E69F00",
}
CYCLE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("circle", "square", "triangle", "diamond", "cross", "x")
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


def dash_of(role: str, mixed: bool) -> Dash:
    """Of a line; what the Bayes-optimal one lies on is seen under its dashes."""
    return DASHES.get(role, "dash" if mixed and role == "bayes" else "solid")


def shades(count: int) -> list[str]:
    """`count` colours of one scale, dark to light, for values in order."""
    place = np.linspace(0, len(_SCALE) - 1, count)
    parts = (np.interp(place, range(len(_SCALE)), part) for part in zip(*_SCALE, strict=True))
    return [f"#{round(r):02x}{round(g):02x}{round(b):02x}" for r, g, b in zip(*parts, strict=True)]


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
