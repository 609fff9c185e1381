"""The report as text of 80 columns, as JSON, and as one HTML file that needs nothing else.

The report's pictures as SVG that stands inside a page: no names of hosts, no outside fonts.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from polyceptron.report.data.measure import Measured
from polyceptron.report.data.sentences import Sentence, sentences
from polyceptron.report.pictures import (
    Axis,
    Legend,
    Mark,
    Panel,
    Picture,
    Trace,
)
from polyceptron.report.pictures.matplotlib_figure import svg_text
from polyceptron.report.pictures.parts import numbers
from polyceptron.report.pictures.style import CYCLE
from polyceptron.rows import json_ready
from polyceptron.version import VERSION

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


_LINE, _MARK, _GREY = CYCLE[0], CYCLE[1], "#7a7a7a"
Rows = Sequence[dict[str, Any]]


def draw(measured: Measured) -> list[tuple[str, str]]:
    """SVG and caption of each picture."""
    pictures = [
        (_ridge, "Log-loss on held-out samples against the ridge, with standard errors; the chosen "
         "ridge is marked."),
        (_curve, "Error on held-out samples against the number of samples learnt from, the power "
         "law through it, and the band of 9 in 10 resampled fits at the samples of now, twice and "
         "ten times as many."),
        (_calibration, "How often the named class is right against the probability it was given; "
         "on the line they agree."),
        (_eigenvalues, "Eigenvalues of the features' correlations; independent features would stay "
         "below the line."),
    ]  # fmt: skip
    return [(_svg(make(measured), i), caption) for i, (make, caption) in enumerate(pictures)]


def _svg(panel: Panel, number: int) -> str:
    """The picture without what only a file of its own needs."""
    text = svg_text(Picture((panel,), height=2.6), f"picture-{number}")
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    text = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", text)
    # Names are shared by all pictures of a page: each gets its own.
    text = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>p{number}-", text)
    return re.sub(r'(<svg[^>]*?)\swidth="[^"]*"', r"\1", re.sub(
        r'(<svg[^>]*?)\sheight="[^"]*"', r"\1", text, count=1), count=1)  # fmt: skip


def _points(rows: Rows, x: str, y: str, **look: Any) -> Trace:
    """Symbols with standard errors where the rows have them."""
    bars = numbers(row["standard_error"] for row in rows if "standard_error" in row)
    xs, ys = (numbers(row[name] for row in rows) for name in (x, y))
    return Trace(xs, ys, bars, **{"kind": "symbols", "marker": "circle", "colour": _LINE} | look)


def _ridge(measured: Measured) -> Panel:
    line = _points(measured.tables["ridge"], "ridge", "score", kind="line")
    mark = Mark(measured.numbers["ridge"], dash="dash", colour=_MARK)
    x, y = Axis("ridge *λ*", "log"), Axis("log-loss, held out", "log")
    return Panel((line,), x, y, (mark,))


def _curve(measured: Measured) -> Panel:
    v, rows = measured.numbers, measured.tables["learning_curve"]
    ahead = measured.tables["forecast"]
    last, b, c = ahead[-1], v["forecast_exponent"], v["forecast_floor"]
    n = np.geomspace(rows[0]["n"], last["n_samples"], 100)
    law = (last["value"] - c) * (n / last["n_samples"]) ** -b + c
    low, high, future = (
        numbers(row[name] for row in ahead) for name in ("low", "high", "n_samples")
    )
    middle = numbers((a + b) / 2 for a, b in zip(low, high, strict=True))
    half = numbers((b - a) / 2 for a, b in zip(low, high, strict=True))
    traces = (
        Trace(numbers(n), numbers(law), colour=_LINE, label="power law"),
        Trace(future, middle, half, kind="band", colour=_LINE, label="9 of 10 fits"),
        _points(rows, "n", "error", label="measured"),
    )
    x, y = Axis("samples learnt from", "log"), Axis("error, held out", low=0.0)
    return Panel(traces, x, y, legend=Legend())


def _calibration(measured: Measured) -> Panel:
    rows = measured.tables["calibration"]
    ends = (min(min(row["confidence"], row["accuracy"]) for row in rows), 1.0)
    line = Trace(ends, ends, colour=_GREY, dash="dash")
    points = _points(rows, "confidence", "accuracy")
    return Panel((line, points), Axis("probability given"), Axis("share that is right"))


def _eigenvalues(measured: Measured) -> Panel:
    rows = [row for row in measured.tables["eigenvalues"] if row["eigenvalue"] > 1e-6]
    points = _points(rows, "rank", "eigenvalue", size=0.8)
    edge = (measured.numbers["noise_edge"],) * 2
    line = Trace((points.x[0], points.x[-1]), edge, colour=_MARK, dash="dash")
    return Panel((points, line), Axis("direction"), Axis("eigenvalue", "log"))
