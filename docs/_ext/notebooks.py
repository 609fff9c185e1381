"""Percent scripts (docs/tutorials, docs/estimators) become a page and a Jupyter notebook each.

`# %% [markdown]` opens a cell of text, `# %%` one of code; Jupyter (through jupytext), VS Code and
Spyder open such a script as a notebook. Cells run in order when the pages are built, in one
session; what they print, their last value and their figures stand below. An error ends the build.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from example_gallery import fingerprint, replace
from sphinx.application import Sphinx

MARK = re.compile(r"^# %%(.*)$", re.MULTILINE)


@dataclass
class Cell:
    """Source and, for code, what running it gave: text, HTML of the last value, SVG pictures."""

    kind: str
    source: str
    text: str = ""
    html: str = ""
    pictures: list[str] = field(default_factory=list)


def read(script: str) -> list[Cell]:
    """The cells of a percent script."""
    _, *parts = MARK.split(script)
    cells = []
    for words, body in zip(parts[::2], parts[1::2], strict=True):
        if "[markdown]" in words:
            lines = [re.sub(r"^# ?", "", line) for line in body.strip().splitlines()]
            cells.append(Cell("markdown", "\n".join(lines)))
        elif body.strip():
            cells.append(Cell("code", body.strip()))
    return cells


def run(cells: list[Cell], name: str) -> None:
    """Run the code cells in one session, as a notebook does, and fill in what they gave."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    plt.close("all")  # what an earlier script has left open is not ours
    session: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(cells):
        if cell.kind != "code":
            continue
        tree = ast.parse(cell.source, f"{name}, cell {number}")
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(tree, f"{name}, cell {number}", "exec"), session)
            value = None
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), name, "eval"), session)
        for figure in map(plt.figure, plt.get_fignums()):
            drawn = io.StringIO()
            figure.savefig(drawn, format="svg")
            cell.pictures.append(drawn.getvalue())
        plt.close("all")
        cell.text = printed.getvalue()
        if value is not None and not cell.pictures:
            if hasattr(value, "_repr_html_"):
                cell.html = value._repr_html_()
            else:
                cell.text += repr(value)


def page(cells: list[Cell], name: str, folder: Path) -> str:
    """The page in Markdown; its pictures go to files beside it."""
    parts = []
    for number, cell in enumerate(cells):
        if cell.kind == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        if cell.text.strip():
            parts.append(f"```text\n{cell.text.rstrip()}\n```")
        if cell.html:
            parts.append(f"````{{raw}} html\n{cell.html}\n````")
        for i, picture in enumerate(cell.pictures):
            file = f"{name}-{number}-{i}.svg"
            replace(folder / file, picture)
            parts.append(
                f"```{{image}} {file}\n:width: 520px\n:alt: what the cell above draws\n```"
            )
    parts.append(f"The same as a notebook: {{download}}`{name}.ipynb`.")
    return "\n\n".join(parts) + "\n"


def notebook(cells: list[Cell]) -> str:
    """The cells with their outputs as a Jupyter notebook (format 4.5)."""
    written = []
    for number, cell in enumerate(cells):
        one: dict[str, Any] = {
            "cell_type": cell.kind,
            "id": f"cell-{number}",
            "metadata": {},
            "source": cell.source.splitlines(keepends=True),
        }
        if cell.kind == "code":
            one |= {"execution_count": None, "outputs": outputs(cell)}
        written.append(one)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return json.dumps(
        {"cells": written, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5},
        indent=1,
    )


def outputs(cell: Cell) -> list[dict[str, Any]]:
    """What a cell gave, in the notebook's words."""
    found: list[dict[str, Any]] = []
    if cell.text:
        found.append({"output_type": "stream", "name": "stdout", "text": cell.text})
    shown = [{"text/html": cell.html}] if cell.html else []
    shown += [{"image/svg+xml": picture} for picture in cell.pictures]
    return found + [{"output_type": "display_data", "metadata": {}, "data": d} for d in shown]


def build(app: Sphinx) -> None:
    """Bring their pages up to date in docs/gallery."""
    source, folder = Path(app.srcdir), Path(app.srcdir) / "gallery"
    folder.mkdir(exist_ok=True)
    for script in sorted([*source.glob("tutorials/*.py"), *source.glob("estimators/*.py")]):
        stamp, now = folder / f"{script.stem}.stamp", fingerprint(script)
        made = folder / f"{script.stem}.md"
        if made.exists() and stamp.exists() and stamp.read_text() == now:
            continue
        cells = read(script.read_text(encoding="utf-8"))
        run(cells, script.name)
        replace(folder / f"{script.stem}.ipynb", notebook(cells))
        replace(made, page(cells, script.stem, folder))
        replace(stamp, now)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("builder-inited", build)
    return {"version": "1", "parallel_read_safe": True}
