"""The report: what the numbers mean, as text of 80 columns, as JSON, and as one HTML file.

A sentence is a template of numbers (`sentences.toml`), so that each can be traced: it names those
that are in it and those that chose it. The page (`report.html`) needs nothing else: its pictures
are SVG inside it, without names of hosts and without outside fonts.
"""

from __future__ import annotations

import json
import re
import textwrap
import tomllib
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from itertools import groupby
from string import Formatter, Template
from typing import Any, NamedTuple

import numpy as np

from polyceptron.report.data.measure import Measured
from polyceptron.report.pictures import parts as pic
from polyceptron.report.pictures.matplotlib_figure import svg_text
from polyceptron.rows import json_ready
from polyceptron.version import VERSION

_ASSETS = files("polyceptron.report.data")
_COLUMNS = 12  # classes up to which the confusion matrix is shown


class Sentence(NamedTuple):
    """A sentence, the heading it stands under, and the names of the numbers in it."""

    section: str
    text: str
    numbers: tuple[str, ...]


def sentences(measured: Measured) -> list[Sentence]:
    """All sentences of the report, in order."""
    asked, found = _asked(measured.numbers), []
    content = tomllib.loads(_ASSETS.joinpath("sentences.toml").read_text("utf-8"))
    for section, templates in content.items():
        for name, (template, *because) in templates.items():
            if asked.get(name, True):
                used = dict.fromkeys(part[1] for part in Formatter().parse(template) if part[1])
                text = template.format(**measured.numbers)
                found.append(Sentence(section, text, (*used, *because)))
    return found


def _asked(v: dict[str, Any]) -> dict[str, Any]:
    """By name, which of the sentences that only some numbers ask for these do."""
    divided, unsure = v["scaling"], 2 * v["accuracy_se"]
    divided += "_compared" if v["other_score"] == v["other_score"] else ""
    uneven = v["largest_share"] > v["smallest_share"]
    enough = v["error_now"] - v["error_tenfold_low"] < v["error_se"]
    one_of = ["separable", "quasi", "overlapping", "undecided"]
    one_of += ["standard", "standard_compared", "global", "global_compared"]
    if_any = ("left_out", "encoded", "filled", "dropped_rows", "twins", "untested")
    return {
        **{name: v[name] for name in (*if_any, "loud_directions")},
        **{name: name in (v["separation"], divided) for name in one_of},
        "drawn": v["n_in_file"] > v["n"], "uneven": uneven, "even": not uneven,
        "mistaken": v["mistaken_share"] > 0, "laws": not enough, "enough_data": enough,
        "too_sure": v["confidence_gap"] > unsure, "not_sure": v["confidence_gap"] < -unsure,
        "by_chance": abs(v["confidence_gap"]) <= unsure, "tested": not v["untested"],
        "not_gaussian": abs(v["median_excess_kurtosis"]) > 0.5 or v["few_valued_features"],
        "unlike": v["largest_share"] > 1.2 * v["even_share"], "noisy": v["separable"] is False,
        "floor": v["noise_floor"], "no_floor": v["noise_floor"] == 0,
    }  # fmt: skip


def table_of(measured: Measured, section: str) -> list[list[str]]:
    """Head and rows of the table that stands under a heading, as text, if there is one."""
    rows, classes = [], measured.tables["classes"]
    if section == "How well it predicts":
        named = [row["class"] for row in classes] if len(classes) <= _COLUMNS else []
        rows.append(["class", "samples", "recall", "±", *(f"as {name}" for name in named)])
        for row in classes:
            shown = [f"{row['recall']:.1%}", f"{row['standard_error']:.1%}"]
            shown += [str(row[f"named {name}"]) for name in named]
            rows.append([row["class"], str(row["samples"]), *shown])
    elif section == "Which features matter" and measured.tables["weights"]:
        rows.append(["feature", "class", "weight", "from", "to", "q"])
        for row in measured.tables["weights"]:
            numbers = [f"{row[name]:.3g}" for name in ("weight", "low", "high", "q_value")]
            rows.append([row["feature"], row["class"], *numbers])
    return rows


def report_text(measured: Measured, width: int = 80) -> str:
    """Headings and sentences, for a terminal."""
    indent = {"initial_indent": "  ", "subsequent_indent": "  "}
    lines = [measured.source, "=" * min(width, len(measured.source))]
    for section, part in groupby(sentences(measured), key=lambda one: one.section):
        lines += ["", section]
        for sentence in part:
            lines += textwrap.wrap(sentence.text, width, break_on_hyphens=False, **indent)
        lines += _columns(table_of(measured, section), width - 4)
    return "\n".join(lines) + "\n"


def _columns(rows: list[list[str]], width: int) -> list[str]:
    """Rows as text; what stands behind the first four columns is left out where it is too wide."""
    cut = [[cell[:20] for cell in row] for row in rows]
    widths = [max(map(len, column)) + 2 for column in zip(*cut, strict=True)]
    if sum(widths) > width:
        cut, widths = [row[:4] for row in cut], widths[:4]
    return [
        "    " + f"{row[0]:<{widths[0] - 2}}"
        + "".join(f"{cell:>{w}}" for cell, w in zip(row[1:], widths[1:], strict=True))
        for row in cut
    ]  # fmt: skip


def report_json(measured: Measured) -> str:
    """The numbers by name, the curves, and every sentence with the names of its numbers."""
    said = [sentence._asdict() for sentence in sentences(measured)]
    tables = {name: [json_ready(row) for row in rows] for name, rows in measured.tables.items()}
    content = {
        "source": measured.source, "version": VERSION, "numbers": json_ready(measured.numbers),
        "sentences": said, "tables": tables,
    }  # fmt: skip
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def report_html(measured: Measured) -> str:
    """One page with pictures; the names of a sentence's numbers are its tooltip."""
    parts = []
    for section, said in groupby(sentences(measured), key=lambda one: one.section):
        parts.append(f"<h2>{escape(section)}</h2>")
        for sentence in said:
            names = escape(", ".join(sentence.numbers), quote=True)
            parts.append(f'<p title="{names}">{escape(sentence.text)}</p>')
        lines = [
            "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row) + "</tr>"
            for i, row in enumerate(table_of(measured, section))
            for tag in ("td" if i else "th",)
        ]
        parts.append(f"<div class='wide'><table>{''.join(lines)}</table></div>" if lines else "")
    pictures = "".join(
        f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"
        for svg, caption in draw(measured)
    )
    shown = {n: f"{v:.6g}" if isinstance(v, float) else v for n, v in measured.numbers.items()}
    rows = "".join(
        f"<tr><td>{escape(n)}</td><td>{escape(str(v))}</td></tr>" for n, v in shown.items()
    )
    return Template(_ASSETS.joinpath("report.html").read_text("utf-8")).substitute(
        source=escape(measured.source), parts="".join(parts), pictures=pictures, rows=rows,
        version=VERSION,
    )  # fmt: skip


_LINE, _MARK, _GREY = pic.CYCLE[0], pic.CYCLE[1], "#7a7a7a"


def draw(measured: Measured) -> list[tuple[str, str]]:
    """SVG and caption of each picture."""
    v, tables = measured.numbers, measured.tables
    mark = pic.Mark(v["ridge"], dash="dash", colour=_MARK)
    ridge = _points(tables["ridge"], "ridge", "score", kind="line")
    bins = tables["calibration"]
    ends = (min(min(row["confidence"], row["accuracy"]) for row in bins), 1.0)
    agree = pic.Trace(ends, ends, colour=_GREY, dash="dash")
    seen = [row for row in tables["eigenvalues"] if row["eigenvalue"] > 1e-6]
    eigenvalues = _points(seen, "rank", "eigenvalue", size=0.8)
    across = (eigenvalues.x[0], eigenvalues.x[-1])
    edge = pic.Trace(across, (v["noise_edge"],) * 2, colour=_MARK, dash="dash")
    pictures = {
        "Log-loss on held-out samples against the ridge, with standard errors; the chosen ridge is "
        "marked.": pic.Panel(
            (ridge,), pic.Axis("ridge *λ*", "log"), pic.Axis("log-loss, held out", "log"), (mark,)
        ),
        "Error on held-out samples against the number of samples learnt from, the forecast, and "
        "its band of 9 in 10 at the samples of now, twice and ten times as many.": _curve_panel(
            measured, "error", "error, held out"
        ),
        "The same for the log-loss.": _curve_panel(measured, "log_loss", "log-loss, held out"),
        "How often the named class is right against the probability it was given; on the line they "
        "agree.": pic.Panel(
            (agree, _points(bins, "confidence", "accuracy")),
            pic.Axis("probability given"),
            pic.Axis("share that is right"),
        ),
        "Eigenvalues of the features' correlations; independent features would stay below the "
        "line.": pic.Panel(
            (eigenvalues, edge), pic.Axis("direction"), pic.Axis("eigenvalue", "log")
        ),
    }
    return [(_svg(panel, i), caption) for i, (caption, panel) in enumerate(pictures.items())]


def _curve_panel(measured: Measured, name: str, label: str) -> pic.Panel:
    rows, law, ahead = (measured.tables[f"{name}_{part}"] for part in ("curve", "law", "forecast"))
    low, high, future = (pic.numbers(row[c] for row in ahead) for c in ("low", "high", "n_samples"))
    middle, half = np.add(low, high) / 2, np.subtract(high, low) / 2
    look: Any = {"kind": "band", "colour": _LINE, "label": "9 in 10"}
    traces = (
        _points(law, "n", "value", kind="line", marker=None, label="forecast"),
        pic.Trace(future, pic.numbers(middle), pic.numbers(half), **look),
        _points(rows, "n", "value", label="measured"),
    )
    x, y = pic.Axis("samples learnt from", "log"), pic.Axis(label, low=0.0)
    return pic.Panel(traces, x, y, legend=pic.Legend())


def _points(rows: Sequence[dict[str, Any]], x: str, y: str, **look: Any) -> pic.Trace:
    """Symbols with standard errors where the rows have them."""
    bars = pic.numbers(row["standard_error"] for row in rows if "standard_error" in row)
    xs, ys = (pic.numbers(row[name] for row in rows) for name in (x, y))
    return pic.Trace(
        xs, ys, bars, **{"kind": "symbols", "marker": "circle", "colour": _LINE} | look
    )


def _svg(panel: pic.Panel, number: int) -> str:
    """The picture without what only a file of its own needs."""
    text = svg_text(pic.Picture((panel,), height=2.6), f"picture-{number}")
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    text = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", text)
    # Names are shared by all pictures of a page: each gets its own.
    text = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>p{number}-", text)
    for size in ("height", "width"):
        text = re.sub(rf'(<svg[^>]*?)\s{size}="[^"]*"', r"\1", text, count=1)
    return text
