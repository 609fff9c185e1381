"""The report as text of 80 columns, as JSON, and as one HTML file that needs nothing else."""

from __future__ import annotations

import json
import textwrap
from html import escape
from typing import Any

from polyceptron.report.data.measure import Measured
from polyceptron.report.data.pictures import draw
from polyceptron.report.data.sentences import Sentence, sentences
from polyceptron.rows import VERSION, json_ready

_STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; margin: 0 auto; max-width: 56rem;
  padding: 1rem; }
h1 { font-size: 1.5rem; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 1.6rem 0 0.3rem; }
p { margin: 0.3rem 0; max-width: 44rem; }
small { color: #595959; overflow-wrap: anywhere; }
figure { margin: 0; }
figcaption { font-size: 0.85rem; color: #404040; }
.pictures { display: grid; gap: 1.2rem; margin-top: 1rem;
  grid-template-columns: repeat(auto-fit, minmax(min(22rem, 100%), 1fr)); }
svg { width: 100%; height: auto; }
details { margin-top: 1.5rem; }
table { border-collapse: collapse; font-size: 0.85rem; }
td { padding: 0.1rem 0.8rem 0.1rem 0; overflow-wrap: anywhere; }
"""


def as_text(measured: Measured, width: int = 80) -> str:
    """Headings and sentences, for a terminal."""
    lines = [measured.source, "=" * min(width, len(measured.source))]
    section = ""
    for sentence in sentences(measured):
        if sentence.section != section:
            section = sentence.section
            lines += ["", section]
        lines += textwrap.wrap(
            sentence.text,
            width,
            initial_indent="  ",
            subsequent_indent="  ",
            break_on_hyphens=False,
        )
    return "\n".join(lines) + "\n"


def as_json(measured: Measured) -> str:
    """The numbers by name, the curves, and every sentence with the names of its numbers."""
    said = [vars(sentence) for sentence in sentences(measured)]
    tables = {name: [json_ready(row) for row in rows] for name, rows in measured.tables.items()}
    content = {
        "source": measured.source, "version": VERSION, "numbers": json_ready(measured.numbers),
        "sentences": said, "tables": tables,
    }  # fmt: skip
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def as_html(measured: Measured) -> str:
    """One page with pictures; the names of a sentence's numbers are its tooltip."""
    said = sentences(measured)
    pictures = "".join(
        f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"
        for svg, caption in draw(measured)
    )
    rows = "".join(
        f"<tr><td>{escape(name)}</td><td>{escape(_shown(value))}</td></tr>"
        for name, value in measured.numbers.items()
    )
    return (
        "<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{escape(measured.source)}</title><style>{_STYLE}</style></head><body>"
        f"<h1>{escape(measured.source)}</h1>{_sections(said)}"
        f"<div class='pictures'>{pictures}</div>"
        f"<details><summary>All numbers</summary><table>{rows}</table></details>"
        f"<p><small>polyceptron {VERSION}. Every sentence is made from the numbers that its "
        "tooltip names; they are in the JSON file beside this page.</small></p></body></html>\n"
    )


def _sections(said: list[Sentence]) -> str:
    parts, section = [], ""
    for sentence in said:
        if sentence.section != section:
            section = sentence.section
            parts.append(f"<h2>{escape(section)}</h2>")
        names = escape(", ".join(sentence.numbers), quote=True)
        parts.append(f'<p title="{names}">{escape(sentence.text)}</p>')
    return "".join(parts)


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
