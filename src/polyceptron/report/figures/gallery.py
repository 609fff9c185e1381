"""The page of all figures: each picture, its caption, and links to its files."""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from string import Template

from polyceptron.pictures.parts import as_html, as_plain
from polyceptron.report.figures.figure_spec import FigureSpec
from polyceptron.version import VERSION


def gallery_html(figures: Sequence[FigureSpec]) -> str:
    """Return the page, with the PDF, the table and the specification of each figure linked."""
    page = _template("gallery.html")
    block = _template("gallery_figure.html")
    contents = [f'  <a href="#{figure.name}">{escape(figure.name)}</a>' for figure in figures]
    blocks = [
        block.substitute(
            name=figure.name,
            title=escape(figure.title),
            words=escape(as_plain(figure.caption)),
            caption=as_html(figure.caption),
        )
        for figure in figures
    ]
    return page.substitute(version=VERSION, contents="\n".join(contents), blocks="".join(blocks))


def _template(name: str) -> Template:
    return Template((Path(__file__).parent / name).read_text("utf-8"))
