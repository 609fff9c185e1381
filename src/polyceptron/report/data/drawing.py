"""The pictures of a report, each beside the section whose claim it shows."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from polyceptron.pictures import parts as pic
from polyceptron.pictures.matplotlib_figure import svg_text
from polyceptron.report.data.measuring import Measured
from polyceptron.rows import Row

LINE = pic.CYCLE[0]
MARK = pic.CYCLE[1]
GREY = "#7a7a7a"
LEAST_EIGENVALUE = 1e-6  # that is drawn on a logarithmic axis
HEIGHT = 2.6  # inches
A_DECADE = 10.0  # a logarithmic axis needs so large a ratio for ticks that can be read


class Drawing(NamedTuple):
    """A picture as SVG, its caption, and the section it stands in."""

    section: str
    svg: str
    caption: str


def draw(measured: Measured) -> list[Drawing]:
    """Return the pictures of the report in the order of its sections."""
    panels = [
        (
            "What more data would do",
            _curve_panel(measured, "error", "error, held out"),
            "Error on held-out samples against the number of training samples, the forecast, and "
            "its band of 9 in 10 at the samples at hand, twice and ten times as many.",
        ),
        (
            "What more data would do",
            _curve_panel(measured, "log_loss", "log-loss, held out"),
            "The same for the log-loss.",
        ),
        (
            "Can its probabilities be trusted?",
            _reliability_panel(measured),
            "How often the named class is right against the probability it was given; on the "
            "dashed line they agree.",
        ),
        (
            "The ridge",
            _ridge_panel(measured),
            "Log-loss on held-out samples against the ridge, with standard errors; the dashed line "
            "marks the chosen ridge.",
        ),
        (
            "Theory: which Gaussian model describes the data",
            _eigenvalue_panel(measured),
            "Eigenvalues of the features' correlations; those of independent features would stay "
            "below the dashed line.",
        ),
    ]
    return [
        Drawing(section, _svg(panel, number), caption)
        for number, (section, panel, caption) in enumerate(panels)
    ]


def _curve_panel(measured: Measured, name: str, label: str) -> pic.Panel:
    """Return a measured score, its forecast and the band of the forecast."""
    future = measured.tables[f"{name}_forecast"]
    low = np.array([row["low"] for row in future])
    high = np.array([row["high"] for row in future])
    band = pic.Trace(
        pic.numbers(row["n_samples"] for row in future),
        pic.numbers((low + high) / 2),
        pic.numbers((high - low) / 2),
        kind="band",
        colour=LINE,
        label="9 in 10",
    )
    law = _line(measured.tables[f"{name}_law"], "n", "value", label="forecast")
    points = _symbols(measured.tables[f"{name}_curve"], "n", "value", label="measured")
    return pic.Panel(
        (law, band, points),
        pic.Axis("training samples", "log", ticks=_round_ticks((*points.x, *law.x))),
        pic.Axis(label, low=0.0),
        legend=pic.Legend(),
    )


def _round_ticks(values: Sequence[float]) -> tuple[float, ...]:
    """Return 1, 2 and 5 times powers of ten within the range of the values."""
    decades = 10.0 ** np.arange(np.floor(np.log10(min(values))), np.log10(max(values)) + 1)
    ticks = [factor * decade for decade in decades for factor in (1, 2, 5)]
    return tuple(float(tick) for tick in ticks if min(values) <= tick <= max(values))


def _reliability_panel(measured: Measured) -> pic.Panel:
    """Return accuracy against confidence, beside the line where they agree."""
    bins = measured.tables["calibration"]
    lowest = min(min(row["confidence"], row["accuracy"]) for row in bins)
    ends = (lowest, 1.0)
    agree = pic.Trace(ends, ends, colour=GREY, dash="dash")
    points = _symbols(bins, "confidence", "accuracy")
    return pic.Panel(
        (agree, points), pic.Axis("probability given"), pic.Axis("share that is right", high=1.02)
    )


def _ridge_panel(measured: Measured) -> pic.Panel:
    """Return the held-out log-loss against the ridge."""
    mark = pic.Mark(measured.numbers["ridge"], dash="dash", colour=MARK)
    scores = _line(measured.tables["ridge"], "ridge", "score")
    scale = "linear"
    if max(scores.y) > A_DECADE * min(scores.y):
        scale = "log"
    return pic.Panel(
        (scores,), pic.Axis("ridge *λ*", "log"), pic.Axis("log-loss, held out", scale), (mark,)
    )


def _eigenvalue_panel(measured: Measured) -> pic.Panel:
    """Return the eigenvalues of the correlations by rank, and the edge of independent features."""
    rows = [row for row in measured.tables["eigenvalues"] if row["eigenvalue"] > LEAST_EIGENVALUE]
    points = _symbols(rows, "rank", "eigenvalue", size=0.8)
    edge = measured.numbers["noise_edge"]
    across = (points.x[0], points.x[-1])
    line = pic.Trace(across, (edge, edge), colour=MARK, dash="dash")
    return pic.Panel((points, line), pic.Axis("direction"), pic.Axis("eigenvalue", "log"))


def _line(rows: Sequence[Row], x: str, y: str, label: str = "") -> pic.Trace:
    """Return a line with standard errors where the rows have them."""
    return pic.Trace(*_columns(rows, x, y), colour=LINE, label=label)


def _symbols(rows: Sequence[Row], x: str, y: str, label: str = "", size: float = 1.0) -> pic.Trace:
    """Return symbols with standard errors where the rows have them."""
    columns = _columns(rows, x, y)
    return pic.Trace(*columns, kind="symbols", marker="circle", colour=LINE, label=label, size=size)


def _columns(rows: Sequence[Row], x: str, y: str) -> tuple[pic.Numbers, pic.Numbers, pic.Numbers]:
    """Return x, y and standard errors of rows."""
    return (
        pic.numbers(row[x] for row in rows),
        pic.numbers(row[y] for row in rows),
        pic.numbers(row["standard_error"] for row in rows if "standard_error" in row),
    )


def _svg(panel: pic.Panel, number: int) -> str:
    """Return the picture without what only a file of its own needs, with names of its own."""
    text = svg_text(pic.Picture((panel,), height=HEIGHT))
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", text)
    text = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>p{number}-", text)
    head, body = text.split(">", 1)
    return re.sub(r'\s(?:height|width)="[^"]*"', "", head) + ">" + body
