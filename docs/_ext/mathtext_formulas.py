"""Formulas as inline SVG, drawn by matplotlib when the pages are built.

The reader's browser needs no script and no font, and the formulas follow the colour of the text
(light and dark). `$$` blocks may have rows (`\\\\`) and columns (`&`), aligned as in LaTeX's
`aligned`. A formula that cannot be drawn is a warning, which the build turns into an error.
"""

from __future__ import annotations

import re
from functools import lru_cache
from html import escape
from typing import Any

from docutils import nodes
from matplotlib import rc_context
from matplotlib.font_manager import FontProperties
from matplotlib.path import Path as Outline
from matplotlib.textpath import text_to_path
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

logger = logging.getLogger(__name__)

EM = 100.0  # text_to_path draws at this size
SCALE = 1.16  # of Computer Modern beside the page's sans serif
PAD = 6.0  # room for overhanging strokes
# What is written in the pages, in the words that matplotlib's parser knows.
WORDS = {
    r"\argmax": r"\operatorname{argmax}",
    r"\argmin": r"\operatorname{argmin}",
    r"\prox": r"\operatorname{prox}",
    r"\tr": r"\operatorname{tr}",
    r"\softmax": r"\operatorname{softmax}",
    r"\lVert": r"\Vert",
    r"\rVert": r"\Vert",
    r"\le": r"\leq",
    r"\ge": r"\geq",
    r"\tfrac": r"\frac",
    r"\top": r"\mathsf{T}",  # as a symbol it is spaced like a relation
}
SETTINGS: Any = {"mathtext.fontset": "cm", "mathtext.fallback": "stix"}


class CannotDraw(ValueError):
    """The formula is outside what matplotlib's parser knows."""


@lru_cache(maxsize=4096)
def formula_svg(tex: str, display: bool = False) -> str:
    """One formula as an <svg> element on the text's baseline."""
    source = re.sub(r"\\[a-zA-Z]+", lambda word: WORDS.get(word[0], word[0]), tex)
    # LaTeX takes the next token for a missing brace, matplotlib does not.
    source = re.sub(r"\\sqrt\s*(\\[a-zA-Z]+|\w)", r"\\sqrt{\1}", " ".join(source.split()))
    source = re.sub(r"\\frac\s*(\w)\s*(\w)", r"\\frac{\1}{\2}", source)
    source = re.sub(r"(\\i?int)(?![_^a-zA-Z])", r"\1\\,", source)  # it leans over
    # In a superscript these are signs, not operators with room around them.
    source = source.replace("^*", "^{*}").replace("^+", r"^{\mathrm{+}}")
    source = source.replace(r"^\perp", r"^{\!\perp}")
    if display:
        source = source.replace(r"\frac", r"\dfrac")
    try:
        with rc_context(SETTINGS):
            prop = FontProperties(size=10)  # takes the family of the settings
            width, height, depth = text_to_path.get_text_width_height_descent(
                f"${source}$", prop, ismath=True
            )
            vertices, codes = text_to_path.get_text_path(prop, f"${source}$", ismath=True)
    except Exception as error:
        raise CannotDraw(f"{tex!r}: {error}") from error
    # Sizes come for the font size given, outlines for EM.
    width, height, depth = (value * EM / 10 for value in (width, height, depth))
    top, em = height - depth, EM / SCALE
    box = (-PAD, -top - PAD, width + 2 * PAD, height + 2 * PAD)
    return (
        f'<svg class="formula" role="img" aria-label="{escape(tex, quote=True)}" '
        f'viewBox="{" ".join(f"{x:.1f}" for x in box)}" '
        f'style="width:{box[2] / em:.3f}em;height:{box[3] / em:.3f}em;'
        f'margin:0 {-PAD / em:.3f}em;vertical-align:{-(depth + PAD) / em:.3f}em">'
        f'<path d="{outline_data(Outline(vertices, codes))}"/></svg>'
    )


def outline_data(outline: Outline) -> str:
    """The outline in SVG's letters, y downwards."""
    letters = {Outline.MOVETO: "M", Outline.LINETO: "L", Outline.CURVE3: "Q", Outline.CURVE4: "C"}
    parts = []
    for points, code in outline.iter_segments(simplify=False, curves=True):
        if code == Outline.CLOSEPOLY:
            parts.append("Z")
        elif code in letters:
            numbers = (f"{-v if i % 2 else v:.1f}".removesuffix(".0") for i, v in enumerate(points))
            parts.append(letters[code] + " ".join(numbers))
    return "".join(parts)


def display_html(tex: str) -> str:
    """A block: one formula, or rows and columns of them."""
    body = re.sub(r"\\(begin|end)\{(aligned|align\*?|split)\}", "", tex).strip()
    rows = [row.split("&") for row in re.split(r"\\\\", body) if row.strip()]
    if len(rows) == 1 and len(rows[0]) == 1:
        return formula_svg(rows[0][0].strip(), display=True)
    lines = []
    for row in rows:
        cells = "".join(
            f"<td>{formula_svg(cell.strip(), display=True) if cell.strip() else ''}</td>"
            for cell in row
        )
        lines.append(f"<tr>{cells}</tr>")
    return f'<table class="formula-rows" role="presentation">{"".join(lines)}</table>'


def _drawn(draw: Any, tex: str, node: nodes.Element) -> str:
    try:
        return str(draw(tex))
    except CannotDraw as error:
        logger.warning("cannot draw the formula %s", error, location=node)
        return f"<code>{escape(tex)}</code>"


def visit_inline(self: Any, node: nodes.math) -> None:
    self.body.append(_drawn(formula_svg, node.astext().strip(), node))
    raise nodes.SkipNode


def visit_block(self: Any, node: nodes.math_block) -> None:
    self.body.append(self.starttag(node, "div", CLASS="math display notranslate"))
    self.body.append('<div class="formula-scroll">')
    self.body.append(_drawn(display_html, node.astext().strip(), node))
    self.body.append("</div>")
    if node.get("number"):
        number = get_node_equation_number(self, node)
        self.body.append(f'<span class="eqno">({number})')
        self.add_permalink_ref(node, "Link to this equation")
        self.body.append("</span>")
    self.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_html_math_renderer("mathtext", (visit_inline, None), (visit_block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
