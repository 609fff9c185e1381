"""The report's pictures as SVG that stands inside a page: no names of hosts, no outside fonts."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from polyceptron.report.data.measure import Measured
from polyceptron.report.style import CYCLE
from polyceptron.report.style import style as house_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LINE, _MARK, _SHADE = CYCLE[0], CYCLE[1], "#9ecae1"


def draw(measured: Measured) -> list[tuple[str, str]]:
    """SVG and caption of each picture."""
    pictures: list[tuple[Callable[[Axes, Measured], None], str]] = [
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
    return [(_svg(make, measured, i), caption) for i, (make, caption) in enumerate(pictures)]


def _svg(make: Callable[[Axes, Measured], None], measured: Measured, number: int) -> str:
    """The picture without what only a file of its own needs."""
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    buffer = io.StringIO()
    with house_style(), mpl.rc_context({"svg.hashsalt": f"picture-{number}"}):
        figure = Figure(figsize=(3.6, 2.6), layout="constrained")
        make(figure.subplots(), measured)
        canvas = FigureCanvasSVG(figure)
        canvas.print_svg(buffer, metadata={"Date": None})  # type: ignore[no-untyped-call]
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    text = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", text)
    # Names are shared by all pictures of a page: each gets its own.
    text = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>p{number}-", text)
    return re.sub(r'(<svg[^>]*?)\swidth="[^"]*"', r"\1", re.sub(
        r'(<svg[^>]*?)\sheight="[^"]*"', r"\1", text, count=1), count=1)  # fmt: skip


def _ridge(ax: Axes, measured: Measured) -> None:
    rows = measured.tables["ridge"]
    x = [row["ridge"] for row in rows]
    y, doubt = [row["score"] for row in rows], [row["standard_error"] for row in rows]
    ax.errorbar(x, y, doubt, color=_LINE, marker="o", markersize=4, capsize=2)
    ax.axvline(measured.numbers["ridge"], color=_MARK, linestyle="--")
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set(xlabel="ridge λ", ylabel="log-loss, held out")


def _curve(ax: Axes, measured: Measured) -> None:
    v = measured.numbers
    rows, ahead = measured.tables["learning_curve"], measured.tables["forecast"]
    ax.errorbar(
        [row["n"] for row in rows], [row["error"] for row in rows],
        [row["standard_error"] for row in rows], color=_LINE, marker="o", markersize=4,
        linestyle="none", capsize=2, label="measured",
    )  # fmt: skip
    n = np.geomspace(rows[0]["n"], ahead[-1]["n_samples"], 100)
    last, b, c = ahead[-1], v["forecast_exponent"], v["forecast_floor"]
    a = (last["value"] - c) * last["n_samples"] ** b
    ax.plot(n, a * n**-b + c, color=_LINE, label="power law")
    x = [row["n_samples"] for row in ahead]
    ax.fill_between(
        x, [row["low"] for row in ahead], [row["high"] for row in ahead], color=_SHADE, alpha=0.5,
        label="9 of 10 fits",
    )  # fmt: skip
    ax.set_xscale("log")
    ax.set_ylim(bottom=0)
    ax.set(xlabel="samples learnt from", ylabel="error, held out")
    ax.legend()


def _calibration(ax: Axes, measured: Measured) -> None:
    rows = measured.tables["calibration"]
    low = min(min(row["confidence"], row["accuracy"]) for row in rows)
    ax.plot([low, 1], [low, 1], color="#7a7a7a", linestyle="--")
    ax.errorbar(
        [row["confidence"] for row in rows], [row["accuracy"] for row in rows],
        [row["standard_error"] for row in rows], color=_LINE, marker="o", markersize=4,
        linestyle="none", capsize=2,
    )  # fmt: skip
    ax.set(xlabel="probability given", ylabel="share that is right")


def _eigenvalues(ax: Axes, measured: Measured) -> None:
    rows = [row for row in measured.tables["eigenvalues"] if row["eigenvalue"] > 1e-6]
    ax.plot(
        [row["rank"] for row in rows], [row["eigenvalue"] for row in rows], color=_LINE, marker="o",
        markersize=3, linestyle="none",
    )  # fmt: skip
    ax.axhline(measured.numbers["noise_edge"], color=_MARK, linestyle="--")
    ax.set_yscale("log")
    ax.set(xlabel="direction", ylabel="eigenvalue")
