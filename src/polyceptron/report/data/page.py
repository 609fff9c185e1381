"""The report: what the numbers mean, as text of 80 columns, as JSON, and as one HTML file.

A sentence is a template of numbers, so that each can be traced: it names those that are in it and
those that chose it. The page needs nothing else: its pictures are SVG inside it, without names of
hosts and without outside fonts.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from string import Formatter
from typing import Any

import numpy as np

from polyceptron.report.data.measure import Measured
from polyceptron.report.pictures import parts as pic
from polyceptron.report.pictures.matplotlib_figure import svg_text
from polyceptron.rows import json_ready
from polyceptron.version import VERSION

_COLUMNS = 12  # classes up to which the confusion matrix is shown


@dataclass(frozen=True)
class Sentence:
    """A sentence, the heading it stands under, and the names of the numbers in it."""

    section: str
    text: str
    numbers: tuple[str, ...]


def sentences(measured: Measured) -> list[Sentence]:
    """All sentences of the report, in order."""
    found = []
    for section, templates in _templates(measured.numbers).items():
        for template, *because in filter(None, templates):
            used = dict.fromkeys(name for _, name, _, _ in Formatter().parse(template) if name)
            text = template.format(**measured.numbers)
            found.append(Sentence(section, text, (*used, *because)))
    return found


_SEPARATION = {
    "separable": "A linear rule separates all {n} samples: without a ridge, cross-entropy "
    "grows without bound and ends in the max-margin rule, with probabilities of 0 and 1.",
    "quasi": "No linear rule separates all {n} samples, but one separates some of them and "
    "has the others on its boundary: without a ridge, the weights of cross-entropy grow "
    "without bound, and there is no maximum-likelihood estimate. Keep a ridge.",
    "overlapping": "No linear rule separates the {n} samples: without a ridge, cross-entropy "
    "has a maximum-likelihood estimate, and there is no max-margin rule.",
    "undecided": "Whether a linear rule separates the {n} samples was not decided: keep a ridge.",
}


def _templates(v: dict[str, Any]) -> dict[str, list[Any]]:
    """By heading, templates of sentences, each with the numbers that chose it without being in it.

    What is false is a sentence that these numbers do not ask for.
    """
    word = f"so that it is {'too sure' if v['confidence_gap'] > 0 else 'not sure enough'}"
    if abs(v["confidence_gap"]) <= 2 * v["accuracy_se"]:
        word = "which chance explains"
    more_data: tuple[str, ...] = (
        "What each law counts for, by how well it forecast the last points when they were hidden: "
        "power law {error_by_pow3:.0%}, shifted {error_by_pow4:.0%}, sigmoid {error_by_mmf4:.0%}, "
        "no change {error_by_last:.0%}.",
    )
    if v["error_now"] - v["error_tenfold_low"] < v["error_se"]:
        more_data = (
            "Ten times the data would change the error by less than it is known to now "
            "(± {error_se:.2%}): better features are the way on, not more samples.",
            "error_now", "error_tenfold_low",
        )  # fmt: skip
    divided = {"standard": "each by its own standard deviation", "global": "all by one number"}
    other = {"standard": "one number for all", "global": "one number each"}[v["scaling"]]
    scaled: tuple[str, ...] = (f"Features are divided {divided[v['scaling']]}.", "scaling")
    if v["other_score"] == v["other_score"]:
        scaled = (
            f"Features are divided {divided[v['scaling']]}: log-loss {{scaling_score:.4f}}, with "
            f"{other} {{other_score:.4f}}.", "scaling",
        )  # fmt: skip
    tested: tuple[str, ...] = (
        "{features_that_matter} of {d} features matter given all others (q below 0.1). The largest "
        "weights, for a change of one standard deviation and freed of the ridge's pull, are in the "
        "table, with intervals of 95 %.",
    )
    if v["untested"]:
        tested = ("No feature is tested: {untested}.",)
    return {
        "The data": [
            ("{n} samples of {d} features in {k} classes: {samples_per_feature:.3g} samples a "
             "feature.",),
            v["n_in_file"] > v["n"]
            and ("The file has {n_in_file} samples; {n} of them, drawn at random, were used.",),
            v["left_out"] and ("Left out: {left_out}; --keep uses a column all the same.",),
            v["encoded"]
            and ("Encoded, one column a value but the first: {encoded}.",),
            v["filled"]
            and ("Missing values were filled, with the median or the most frequent value of the "
                 "samples learnt from: {filled}.",),
            v["dropped_rows"]
            and ("Rows with missing values were dropped, {dropped_rows} in number.",),
            ("The largest class, {largest_class}, has {largest_share:.1%} of the samples, the "
             "smallest, {smallest_class}, has {smallest_share:.1%}; even classes would have "
             "{even_share:.1%}.",)
            if v["largest_share"] > v["smallest_share"]
            else ("Every class has {even_share:.1%} of the samples.", "largest_share"),
            ("Correlations leave an effective dimension of {effective_dimension:.3g} out of {d}.",),
        ],
        "Separable or not": [(_SEPARATION[v["separation"]], "separation")],
        "The ridge": [
            ("With {ridges_tried} ridges tried, held-out samples are predicted best near "
             "{ridge:.3g} ({ridge_method}).",),
            scaled,
            ("In scikit-learn's units, on features so divided, it is C = {C:.3g}.",),
        ],
        "How well it predicts": [
            ("Learning from {training_size} samples, the error on held-out ones is {error:.2%} ± "
             "{error_se:.2%} and the log-loss {log_loss:.4f} ± {log_loss_se:.4f} ({folds} folds); "
             "always naming the largest class would err in {guess_error:.1%}.",),
            ("With all classes counted alike the error is {balanced_error:.2%} ± "
             "{balanced_error_se:.2%}. Recognised least is {worst_class}, in "
             "{worst_recall:.1%} of its samples.",),
            v["mistaken_share"] > 0
            and ("It is named {mistaken_for} in {mistaken_share:.1%}.",),
        ],
        "What more data would do": [
            ("Learning from {first_size} samples the error is {first_error:.2%} and the log-loss "
             "{first_log_loss:.4f}.",),
            ("If the curve goes on, {n_double} samples would bring an error of {error_double:.2%} "
             "(9 in 10: {error_double_low:.2%} to {error_double_high:.2%}) and {n_tenfold} samples "
             "{error_tenfold:.2%} ({error_tenfold_low:.2%} to {error_tenfold_high:.2%}), after "
             "{error_now:.2%} with all {n_now} now.",),
            ("The log-loss would go from {log_loss_now:.4f} to {log_loss_double:.4f} "
             "({log_loss_double_low:.4f} to {log_loss_double_high:.4f}) and {log_loss_tenfold:.4f} "
             "({log_loss_tenfold_low:.4f} to {log_loss_tenfold_high:.4f}).",),
            more_data,
        ],
        "Can its probabilities be trusted?": [
            ("On held-out samples the class it names has a probability of {confidence:.1%} on "
             "average, and is right in {accuracy:.1%} ± {accuracy_se:.1%}.",),
            (f"The difference is {{confidence_gap:+.1%}}, {word}; over bins it is "
             "{calibration_error:.1%}, of which sampling alone would give {calibration_noise:.1%}.",
             "accuracy_se"),
        ],
        "Which features matter": [tested],
        "Which Gaussian model describes them": [v["twins"] and ("{twins}",)],
        "What the theory assumes, and these data break": [
            v["loud_directions"]
            and ("Independent features: {loud_directions} of {d} directions carry "
                 "{loud_variance:.0%} of the variance, each more than independent features could "
                 "at this size (the largest {largest_eigenvalue:.3g}, edge {noise_edge:.3g}).",),
            (abs(v["median_excess_kurtosis"]) > 0.5 or v["few_valued_features"])
            and ("Gaussian features: the median excess kurtosis is {median_excess_kurtosis:.2g}, "
                 "and {few_valued_features} of {d} features have ten values or fewer.",),
            v["largest_share"] > 1.2 * v["even_share"]
            and ("Classes alike: the largest has {largest_share:.1%} instead of "
                 "{even_share:.1%}.",),
            v["separable"] is False
            and ("Labels without noise: {n} samples that no linear rule separates have some.",
                 "separable"),
            v["noise_floor"]
            and ("Of Gaussian features so correlated, a linear rule whose labels have noise of "
                 "variance {noise:.3g} has the measured error, {error:.2%}, at these {alpha:.3g} "
                 "samples a feature. Then no number of samples brings less than "
                 "{noise_floor:.2%}.",),
            v["noise_floor"] == 0
            and ("Of Gaussian features so correlated, a linear rule without noise has an error no "
                 "lower than the measured {error:.2%}: no floor is seen.", "noise_floor"),
        ],
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
    wrap = textwrap.TextWrapper(
        width, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
    )
    lines = [measured.source, "=" * min(width, len(measured.source))]
    for section, part in groupby(sentences(measured), key=lambda one: one.section):
        lines += ["", section]
        for sentence in part:
            lines += wrap.wrap(sentence.text)
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
    said = [vars(sentence) for sentence in sentences(measured)]
    tables = {name: [json_ready(row) for row in rows] for name, rows in measured.tables.items()}
    content = {
        "source": measured.source, "version": VERSION, "numbers": json_ready(measured.numbers),
        "sentences": said, "tables": tables,
    }  # fmt: skip
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


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
td, th { padding: 0.1rem 0.8rem 0.1rem 0; text-align: left; font-variant-numeric: tabular-nums; }
details td { overflow-wrap: anywhere; }
.wide { overflow-x: auto; margin-top: 0.5rem; white-space: nowrap; }
"""


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
    return (
        "<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{escape(measured.source)}</title><style>{_STYLE}</style></head><body>"
        f"<h1>{escape(measured.source)}</h1>{''.join(parts)}"
        f"<div class='pictures'>{pictures}</div>"
        f"<details><summary>All numbers</summary><table>{rows}</table></details>"
        f"<p><small>polyceptron {VERSION}. Every sentence is made from the numbers that its "
        "tooltip names; they are in the JSON file beside this page.</small></p></body></html>\n"
    )


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
