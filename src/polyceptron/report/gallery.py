"""The gallery: one static page with every figure of a folder, needing nothing from elsewhere."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

from polyceptron.files import write_text
from polyceptron.report.figures.figure_spec import FigureSpec
from polyceptron.report.figures.registry import FIGURES
from polyceptron.version import VERSION

_CSS = """
  body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff;
         max-width: 76rem; margin: 0 auto; padding: 1rem; }
  main { display: grid; gap: 1.5rem; align-items: start; margin-top: 1rem;
         grid-template-columns: repeat(auto-fill, minmax(min(100%, 22rem), 1fr)); }
  figure { margin: 0; padding: 1rem; border: 1px solid #d0d0d0; border-radius: 6px; }
  figure img { width: 100%; height: auto; display: block; }
  h2 { font-size: 1.05rem; line-height: 1.3; margin: 0 0 .6rem; }
  figcaption p { margin: .6rem 0; }
  a { color: #0059b3; }
  nav a { margin-right: .8rem; white-space: nowrap; }
"""


def write_gallery(folder: Path) -> Path:
    """Write index.html with the figures that the folder has, and return its path."""
    present = [figure for name, figure in FIGURES.items() if (folder / f"{name}.png").exists()]
    path = folder / "index.html"
    write_text(path, gallery_html(present, store=(folder / "store.sqlite").exists()))
    return path


def gallery_html(figures: list[FigureSpec], *, store: bool = False) -> str:
    """The page: picture, what it shows, and links to the PDF, the data and the specification."""
    contents = "\n".join(f'  <a href="#{f.name}">{escape(f.name)}</a>' for f in figures)
    blocks = "\n".join(_block(figure) for figure in figures)
    rows = (
        '<p>The instances behind the means are in <a href="store.sqlite">store.sqlite</a>: '
        "<code>polyceptron results store.sqlite</code>; those of message passing in figures 2 and "
        "3 are in <code>computed/</code>. How far each symbol is from its line: "
        '<a href="agreement.csv">agreement.csv</a>.</p>'
        if store
        else ""
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>polyceptron: figures</title>
<style>{_CSS}</style>
</head>
<body>
<h1>Learning curves of multi-class linear classifiers</h1>
<p>Lines are theory in the limit of large dimension; symbols are experiments, with standard errors.
Each table has the numbers behind its figure with their uncertainties, each specification what made
them. Made by polyceptron {VERSION}.</p>
{rows}
<nav aria-label="Figures">
{contents}
</nav>
<main>
{blocks}
</main>
</body>
</html>
"""


def _words(caption: str) -> str:
    """The caption with its indices and powers set as such."""
    text = re.sub(r"(α|q)_?(IT|algo|00|01)\b", r"\1<sub>\2</sub>", escape(caption))
    return re.sub(r"\^\(([^)]*)\)", r"<sup>\1</sup>", text)


def _block(figure: FigureSpec) -> str:
    name = figure.name
    links = "".join(
        f'<a href="{name}.{ending}">{text}</a>'
        for ending, text in (("pdf", "PDF"), ("csv", "data (CSV)"), ("toml", "specification"))
    )
    return f"""<figure id="{name}">
<h2>{escape(figure.title)}</h2>
<a href="{name}.png"><img src="{name}.png" alt="{escape(figure.caption, quote=True)}"
 loading="lazy"></a>
<figcaption>
<p>{_words(figure.caption)}</p>
<nav aria-label="Files of {name}">{links}</nav>
</figcaption>
</figure>"""
