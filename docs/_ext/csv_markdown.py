"""Two directives: `csv-if-present`, a CSV file as a table, or its content while there is no file;

`ratio-tables`, the rows of the benchmarks as one short table for each subject: what was timed,
beside what, and how many times as fast ours is, or the power by which its cost grows.
"""

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


SUBJECTS = {
    "bayes": "Bayes-optimal theory",
    "erm_theory": "Theory of empirical risk minimisation",
    "curves": "Learning curves of 20 points",
    "classes": "Many classes",
    "populations": "Unequal classes",
    "noise": "Noisy labels",
    "features": "Correlated features",
    "amp": "Message passing",
    "erm_solvers": "Fits",
    "sparse": "Sparse fits",
    "max_margin": "Max-margin and paths of fits",
    "classifiers": "Classifiers on real data",
    "scale": "Data larger than memory",
    "sweep": "Sweeps",
    "start": "Starting up",
}


def ratio_tables(rows: list[dict[str, str]]) -> list[str]:
    """Markdown of the tables, in the order of `SUBJECTS`; rows with neither number are left out."""
    lines: list[str] = []
    for bench, subject in SUBJECTS.items():
        found = []
        for row in (r for r in rows if r["bench"] == bench):
            what, _, rival = row["name"].partition(": ")
            if what == "growth":
                what, rival = rival, ""
            if row["exponent"]:
                result, rival = f"cost grows as the power {float(row['exponent']):.2g}", "–"
            elif row["rival/ours"]:
                ratio = float(row["rival/ours"])
                result = f"**{ratio:.0f}**" if ratio >= 100 else f"**{ratio:.2g}**"
            else:
                continue
            known = row["note"].startswith("rival: ")
            rival = rival.removeprefix("against ") or (
                row["note"][7:].split(";")[0] if known else "–"
            )
            found.append(f"| {what} | {rival} | {result} |".replace("X.T @ F", "Xᵀ @ F"))
        if found:
            head = ["", f"## {subject}", "", "| what | beside | times as fast |"]
            lines += [*head, "| --- | --- | --- |", *found]
    return lines


class RatioTables(SphinxDirective):
    """Path of the CSV file relative to the page."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        relative, absolute = self.env.relfn2path(self.arguments[0])
        self.env.note_dependency(relative)
        with Path(absolute).open(newline="", encoding="utf-8") as file:
            lines = ratio_tables(list(csv.DictReader(file)))
        return self.parse_text_to_nodes("\n".join(lines), allow_section_headings=True)


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
    app.add_directive("ratio-tables", RatioTables)
    return {"version": "1", "parallel_read_safe": True}
