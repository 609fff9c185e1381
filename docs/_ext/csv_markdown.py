"""The directive `csv-if-present`: a CSV file as a table, or its content while there is no file."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


def markdown_table(path: Path, columns: str = "") -> list[str]:
    """The file's rows as the lines of a Markdown table; of `columns`, if any are named."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = [[cell.replace("|", "\\|") for cell in row] for row in csv.reader(file) if row]
    if columns:
        chosen = [rows[0].index(name.strip()) for name in columns.split(",")]
        rows = [[row[i] if i < len(row) else "" for i in chosen] for row in rows]
    width = len(rows[0])
    lines = ["| " + " | ".join(row + [""] * (width - len(row))) + " |" for row in rows]
    return [lines[0], "|" + " --- |" * width, *lines[1:]]


class CsvIfPresent(SphinxDirective):
    """Path relative to the page; the body is shown instead when the file does not exist."""

    required_arguments = 1
    has_content = True
    option_spec: ClassVar[dict[str, Any]] = {"columns": str}

    def run(self) -> list[nodes.Node]:
        relative, absolute = self.env.relfn2path(self.arguments[0])
        self.env.note_dependency(relative)
        path = Path(absolute)
        content = self.content
        if path.exists():
            lines = markdown_table(path, self.options.get("columns", ""))
            content = StringList(lines, absolute)
        box = nodes.container()
        self.state.nested_parse(content, self.content_offset, box)
        return box.children


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("csv-if-present", CsvIfPresent)
    return {"version": "1", "parallel_read_safe": True}
