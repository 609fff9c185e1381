r"""What a picture is: panels of traces, plain data that knows nothing of a drawing library.

Words may hold markup, maths between asterisks, which each renderer sets in its own way:

*α = n/d*     $\alpha = n/d$       <i>α = n/d</i>
*q_{00}*      $q_{\mathrm{00}}$    <i>q<sub>00</sub></i>
*z_{y}*       $z_{y}$              <i>z<sub>y</sub></i>
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from html import escape
from typing import Any, Literal

Kind = Literal["line", "symbols", "band"]
Dash = Literal["solid", "dash", "dot", "dashdot"]
Numbers = tuple[float, ...]


@dataclass(frozen=True)
class Trace:
    """One series of points: `x`, `y` (n,), NaN in `y` for a gap, `y_error` (n,) or empty.

    A line may have a marker on its points; a band fills y ± y_error. `label` is its name, shown in
    the legend if `in_legend`; `hover` is the page's text, with `customdata` (n, …) for its numbers.
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
    """A region of x from `low` to `high`."""

    low: float
    high: float
    colour: str


@dataclass(frozen=True)
class Note:
    """Words at a point; `anchor` says which of their sides is there, as in "left top"."""

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


def placed(
    panel: Panel,
    place: str,
    x: tuple[float | None, float | None] | None = None,
    y: tuple[float | None, float | None] | None = None,
    **legend: Any,
) -> Panel:
    """The panel with its legend at a place (with other fields perhaps) and within these limits."""
    across, up = (
        axis if limits is None else replace(axis, low=limits[0], high=limits[1])
        for axis, limits in ((panel.x, x), (panel.y, y))
    )
    return replace(
        panel, x=across, y=up, legend=replace(panel.legend or Legend(), place=place, **legend)
    )


def numbers(values: Iterable[Any]) -> Numbers:
    """Plain floats; what is missing is NaN."""
    return tuple(math.nan if missing(value) else float(value) for value in values)


def missing(value: Any) -> bool:
    """Whether a cell of a table is empty: None, NaN or pandas' NA."""
    return value is None or type(value).__name__ == "NAType" or value != value


_MATHS = re.compile(r"\*([^*\n]+)\*")
_RAISED = re.compile(r"([_^])\{([^}]*)\}")
_COMMANDS = {
    "α": r"\alpha ", "λ": r"\lambda ", "ε": r"\varepsilon ", "Φ": r"\Phi ", "∝": r"\propto ",
    "→": r"\to ", "≠": r"\neq ", "−": "-", "max": r"\max ",
}  # fmt: skip


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

    def raised(found: re.Match[str]) -> str:
        tag = "sub" if found[1] == "_" else "sup"
        return f"<{tag}>{found[2]}</{tag}>"

    words = _MATHS.sub(lambda found: f"<i>{found[1]}</i>", escape(text, quote=False))
    return _RAISED.sub(raised, words).replace("\n", "<br>")


def as_plain(text: str) -> str:
    """Without markup, for a terminal."""
    return _RAISED.sub(r"\1\2", _MATHS.sub(r"\1", text))
