"""A report as text of 80 columns, as JSON, and as one HTML page that needs nothing else.

The pictures of the page are SVG inside it, without names of hosts and without outside fonts. Each
stands beside the claim it shows; the theory is folded away at the end.
"""

import json
import textwrap
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from itertools import groupby
from string import Template

from polyceptron.report.data.drawing import Drawing, draw
from polyceptron.report.data.measuring import Measured
from polyceptron.report.data.sentences import ALARMS, SUMMARY, Sentence, sentences
from polyceptron.rows import Row, json_ready
from polyceptron.version import VERSION

FOLDED = "Theory: which Gaussian model describes the data"
MOST_CLASSES_SHOWN = 12  # up to which the confusion matrix is shown
WIDTH = 80  # columns of text
WIDEST_CELL = 32  # of text
SMALLEST_Q_SHOWN = 1e-16
COLUMNS_KEPT = 3  # of a table that is too wide for a terminal

Grid = list[list[str]]


def _section(sentence: Sentence) -> str:
    return sentence.section


def tables_of(measured: Measured, section: str) -> list[Grid]:
    """Return head and rows of the tables that stand under a heading, as text."""
    if section == "How well it predicts":
        return [_confusion(measured.tables["classes"]), _rivals(measured.tables["rivals"])]
    if section == "Which features matter" and measured.tables["weights"]:
        return [_weights(measured.tables["weights"])]
    return []


def _confusion(classes: Sequence[Row]) -> Grid:
    """Return recall of each class, and how its samples were named where classes are few."""
    names = []
    if len(classes) <= MOST_CLASSES_SHOWN:
        names = [row["class"] for row in classes]
    grid = [["class", "samples", "recall", "std. error", *(f"as {name}" for name in names)]]
    for row in classes:
        shares = [f"{row['recall']:.1%}", f"{row['standard_error']:.1%}"]
        counts = [str(row[f"named {name}"]) for name in names]
        grid.append([row["class"], str(row["samples"]), *shares, *counts])
    return grid


def _rivals(rivals: Sequence[Row]) -> Grid:
    grid = [["classifier", "error", "std. error", "log-loss"]]
    for row in rivals:
        shares = [f"{row['error']:.2%}", f"{row['standard_error']:.2%}"]
        grid.append([row["classifier"], *shares, f"{row['log_loss']:.4f}"])
    return grid


def _weights(weights: Sequence[Row]) -> Grid:
    grid = [["feature", "class", "weight", "from", "to", "q"]]
    for row in weights:
        numbers = [f"{row[name]:.3g}" for name in ("weight", "low", "high")]
        grid.append([row["feature"], row["class"], *numbers, _q_value(row["q_value"])])
    return grid


def _q_value(q: float) -> str:
    """Return a q-value as text; below the rounding of doubles it only says that it is small."""
    if q < SMALLEST_Q_SHOWN:
        return f"< {SMALLEST_Q_SHOWN:.0e}"
    return f"{q:.2g}"


def report_text(measured: Measured, width: int = WIDTH) -> str:
    """Return headings, sentences and tables for a terminal."""
    wrapper = textwrap.TextWrapper(
        width, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
    )
    lines = [measured.source, "=" * min(width, len(measured.source))]
    for section, part in groupby(sentences(measured), key=_section):
        lines += ["", section]
        for sentence in part:
            lines += wrapper.wrap(sentence.text)
        for grid in tables_of(measured, section):
            lines += ["", *_aligned(grid, width - 4)]
    return "\n".join(lines) + "\n"


def _aligned(grid: Grid, width: int) -> list[str]:
    """Return a table as lines; columns that do not fit are left out."""
    cut = [[cell[:WIDEST_CELL] for cell in row] for row in grid]
    widths = [max(map(len, column)) + 2 for column in zip(*cut, strict=True)]
    if sum(widths) > width:
        cut = [row[: COLUMNS_KEPT + 1] for row in cut]
        widths = widths[: COLUMNS_KEPT + 1]
    lines = []
    for first, *others in cut:
        cells = [f"{cell:>{w}}" for cell, w in zip(others, widths[1:], strict=True)]
        lines.append(f"    {first:<{widths[0] - 2}}" + "".join(cells))
    return lines


def report_json(measured: Measured, *, only_ascii: bool = False) -> str:
    """Return the numbers by name, the tables, and every sentence with the names of its numbers.

    With `only_ascii`, other characters are escaped, so that a stream of any encoding shows them.
    """
    content = {
        "made_by": "polyceptron",
        "source": measured.source,
        "version": VERSION,
        "numbers": json_ready(measured.numbers),
        "sentences": [sentence._asdict() for sentence in sentences(measured)],
        "tables": {
            name: [json_ready(row) for row in rows] for name, rows in measured.tables.items()
        },
    }
    return json.dumps(content, indent=1, ensure_ascii=only_ascii) + "\n"


def report_html(measured: Measured) -> str:
    """Return one page; the names of a sentence's numbers are its tooltip."""
    return _template("report.html").substitute(
        source=escape(measured.source), body=report_body(measured)
    )


def report_body(measured: Measured) -> str:
    """Return the report as a block of HTML with its style, for a page or a notebook."""
    pictures = draw(measured)
    parts = []
    folded = []
    for section, said in groupby(sentences(measured), key=_section):
        block = _section_html(measured, section, list(said), pictures)
        if section == FOLDED:
            folded.append(block)
        else:
            parts.append(block)
    return _template("report_body.html").substitute(
        source=escape(measured.source),
        parts="".join(parts),
        folded="".join(folded),
        rows=_all_numbers(measured),
        version=VERSION,
    )


def _section_html(
    measured: Measured, section: str, said: Sequence[Sentence], pictures: Sequence[Drawing]
) -> str:
    """Return a heading, its sentences, and the pictures and tables beside them."""
    kinds = {SUMMARY: "summary", ALARMS: "alarms"}
    parts = [f"<section class='{kinds.get(section, 'plain')}'><h2>{escape(section)}</h2>"]
    for sentence in said:
        names = escape(", ".join(sentence.numbers), quote=True)
        parts.append(f'<p title="{names}">{escape(sentence.text)}</p>')
    own = [drawing for drawing in pictures if drawing.section == section]
    if own:
        figures = [
            f"<figure>{drawing.svg}<figcaption>{escape(drawing.caption)}</figcaption></figure>"
            for drawing in own
        ]
        parts.append(f"<div class='pictures'>{''.join(figures)}</div>")
    for grid in tables_of(measured, section):
        parts.append(f"<div class='wide'>{_table_html(grid)}</div>")
    parts.append("</section>")
    return "".join(parts)


def _table_html(grid: Grid) -> str:
    """Return a table; the cells of a confusion matrix are coloured by their share of a class."""
    head, *rows = grid
    first_count = next((i for i, cell in enumerate(head) if cell.startswith("as ")), len(head))
    lines = ["<tr>" + "".join(f"<th>{escape(cell)}</th>" for cell in head) + "</tr>"]
    for i, row in enumerate(rows):
        cells = []
        for j, cell in enumerate(row):
            style = ""
            if j >= first_count:
                style = _shade(int(cell), int(row[1]), is_right=j - first_count == i)
            cells.append(f"<td{style}>{escape(cell)}</td>")
        lines.append("<tr>" + "".join(cells) + "</tr>")
    return f"<table>{''.join(lines)}</table>"


def _shade(count: int, samples: int, *, is_right: bool) -> str:
    """Return the ground of a cell: blue for right samples, orange for mistaken ones."""
    colour = "0,114,178" if is_right else "213,94,0"
    share = count / max(samples, 1)
    return f" style='background: rgba({colour},{0.75 * share:.2f})'"


def _all_numbers(measured: Measured) -> str:
    """Return the rows of a table with every number by its name."""
    rows = []
    for name, value in measured.numbers.items():
        shown = f"{value:.6g}" if isinstance(value, float) else str(value)
        rows.append(f"<tr><td>{escape(name)}</td><td>{escape(shown)}</td></tr>")
    return "".join(rows)


def _template(name: str) -> Template:
    return Template(files(__package__).joinpath(name).read_text("utf-8"))
