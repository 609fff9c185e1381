"""One page about a user's data: what they are, how well they can be classified, what more would do.

`measure` turns samples into numbers. Errors and probabilities are those of samples that a fit has
not seen: five folds, and inside each training set growing parts of it. What fills missing values
and encodes categories is fitted to the same parts.

The report tells what the numbers mean: as text of 80 columns, as JSON, and as one HTML file. A
sentence is a template of numbers (`sentences.toml`), so that each can be traced: it names those
that are in it and those that chose it. The page (`report.html`) needs nothing else: its pictures
are SVG inside it, without names of hosts and without outside fonts.
"""

import json
import math
import re
import textwrap
import tomllib
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from html import escape
from importlib.resources import files
from itertools import groupby
from string import Formatter, Template
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from polyceptron.errors import InvalidInput
from polyceptron.fit.erm_classifier import ERMClassifier
from polyceptron.fit.separation import separation
from polyceptron.numerics import Array
from polyceptron.pictures import parts as pic
from polyceptron.pictures.matplotlib_figure import svg_text
from polyceptron.problem import ERM, BayesOptimal, Teacher
from polyceptron.questions.forecast import forecast
from polyceptron.questions.measured_curve import MeasuredErrors, measure_errors
from polyceptron.questions.teacher_of_data import fit_model
from polyceptron.questions.twins import twin_report
from polyceptron.report.data.reading import Table
from polyceptron.rows import json_ready
from polyceptron.sides.generalisation import error_floor
from polyceptron.version import VERSION

_ASSETS = files("polyceptron.report.data")
_FOLDS = 5
_SIZES = 6  # points of the learning curve
_MOST = 10_000  # samples that are used; of more, so many are drawn
_WEIGHTS = 8  # largest ones that are shown
_WIDE = 2000  # features up to which a teacher of their spectrum is fitted
_95 = 1.959964
_COLUMNS = 12  # classes up to which the confusion matrix is shown
_LINE, _MARK, _GREY = pic.CYCLE[0], pic.CYCLE[1], "#7a7a7a"


class Measured(NamedTuple):
    """`numbers`, each by its name, and `tables`: rows of the curves behind them."""

    source: str
    numbers: dict[str, Any]
    tables: dict[str, list[dict[str, Any]]]


def measure(
    table: Table,
    *,
    seed: int = 0,
    twins: bool = False,
    progress: Callable[[str], None] = lambda text: None,
) -> Measured:
    """All numbers of the report, and of Gaussian twins if asked; `progress` is told of steps."""
    from sklearn.model_selection import train_test_split
    from sklearn.pipeline import make_pipeline

    drawn = table.y.size
    if drawn > _MOST:
        X, _, y, _ = train_test_split(
            table.X, table.y, train_size=_MOST, stratify=table.y, random_state=seed
        )
        table = replace(table, X=X, y=y)
    encoded: pd.DataFrame = table.encoder().fit_transform(table.X)
    encoded = encoded.loc[:, encoded.std() > 0]
    if encoded.shape[1] == 0:
        raise InvalidInput("every feature is constant: there is nothing to learn from")
    A = encoded.to_numpy()
    A = (A - A.mean(0)) / A.std(0)
    n, d = A.shape
    classes, index, counts = np.unique(table.y, return_inverse=True, return_counts=True)
    numbers: dict[str, Any] = {
        "n": n,
        "n_in_file": drawn,
        "d": d,
        "k": int(classes.size),
        "left_out": ", ".join(f"{name} ({why})" for name, why in table.left_out.items()),
        "encoded": ", ".join(table.categories),
        "dropped_rows": table.dropped_rows,
        "filled": ", ".join(f"{name} ({count})" for name, count in table.filled.items()),
        "largest_class": str(classes[counts.argmax()]),
        "largest_share": float(counts.max() / n),
        "smallest_class": str(classes[counts.argmin()]),
        "smallest_share": float(counts.min() / n),
        "even_share": 1 / classes.size,
        "samples_per_feature": n / d,
    }
    tables: dict[str, Any] = {}
    gram = A.T @ A / n if d <= n else A @ A.T / n
    squares = np.maximum(np.linalg.eigvalsh(gram)[::-1], 0.0)
    edge = (1 + math.sqrt(d / n)) ** 2  # of independent features
    distinct = np.array([np.unique(column).size for column in A.T])
    top = squares[:50]
    tables["eigenvalues"] = _rows(rank=np.arange(1, len(top) + 1), eigenvalue=top)
    numbers |= {
        "effective_dimension": float(squares.sum() ** 2 / (squares**2).sum()),
        "largest_eigenvalue": float(squares[0]),
        "noise_edge": edge,
        "loud_directions": int((squares > edge).sum()),
        "loud_variance": float(squares[squares > edge].sum() / squares.sum()),
        "median_excess_kurtosis": float(np.median((A**4).mean(0) - 3)),
        "few_valued_features": int((distinct <= 10).sum()),
    }
    progress("can the classes be separated?")
    kind = "undecided"
    if A.size * classes.size <= 2e7:  # else it takes too long
        kind = separation(np.hstack([A, np.ones((n, 1))]), index, n_classes=classes.size).kind
    numbers |= {"separable": {"undecided": None}.get(kind, kind == "separable"), "separation": kind}
    progress("choosing the ridge")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a ridge at an end is seen in the picture
        numbers |= _ridge_and_weights(
            ERMClassifier().fit(encoded, table.y), encoded, table.y, tables
        )
    progress("measuring the learning curve")
    folds = min(_FOLDS, int(counts.min()))
    whole = n - math.ceil(n / folds)
    sizes = np.geomspace(max(4 * classes.size, whole / 10), whole, _SIZES).astype(int)
    found = measure_errors(
        make_pipeline(table.encoder(), ERMClassifier()),
        table.X,
        table.y,
        sizes[sizes <= whole],
        folds,
        seed,
        chances=True,
        progress=progress,
    )
    numbers |= _learning_curve(found, numbers, tables, seed)
    numbers |= _by_class(found, table.y, classes, tables)
    numbers |= _calibration(found.chances, found.wrong[-1], tables)
    progress("what the theory predicts")
    numbers |= {"alpha": numbers["training_size"] / d, "noise_floor": None, "twins": ""}
    if d <= _WIDE:
        k, last = classes.size, found.sizes[-1:] / d
        fit = fit_model(A, table.y, Teacher(k), BayesOptimal(), last, found.errors[-1:], 0.5 / n)
        numbers |= {"noise": fit.noise, "noise_floor": float(error_floor(fit.teacher.channel, k))}
    if twins:
        compared = twin_report(
            A, index, ERM(ridge=numbers["ridge"]), random_state=seed, progress=progress
        )
        numbers["twins"] = " ".join([compared.sentence, *compared.caveats])
        tables["twins"] = compared.frame.to_dict("records")
    return Measured(table.source, numbers, tables)


def _ridge_and_weights(
    fit: Any, X: pd.DataFrame, y: NDArray[Any], tables: dict[str, Any]
) -> dict[str, Any]:
    tables["ridge"] = _rows(**fit.path_)
    scores = getattr(fit, "scaling_scores_", {fit.scaling_: (math.nan, 0.0)})
    other = {"standard": "global", "global": "standard"}[fit.scaling_]
    said = {
        "ridge": fit.ridge_,
        "ridge_method": fit.method_,
        "ridges_tried": len(tables["ridge"]),
        "C": (2 if fit.classes_.size == 2 else 1) / (fit.ridge_ * X.shape[1]),
        "scaling": fit.scaling_,
        "scaling_score": scores[fit.scaling_][0],
        "other_score": scores.get(other, (math.nan, 0.0))[0],
    }
    tables["weights"] = []
    try:
        tests = fit.feature_tests(X, y)
    except InvalidInput as error:
        return said | {"untested": str(error), "features_that_matter": None}
    scale = X.std(ddof=0)
    for column in tests.columns[tests.columns.str.startswith("weight_")]:
        weight, name = tests[column] * scale, column.removeprefix("weight_")
        half = _95 * tests[f"standard_error_{name}"] * scale
        tables["weights"] += _rows(
            feature=tests.index,
            **{"class": name},
            weight=weight,
            low=weight - half,
            high=weight + half,
            q_value=tests["q_value"],
        )
    shown = [row for row in tables["weights"] if row["weight"] == row["weight"]]
    tables["weights"] = sorted(shown, key=lambda row: -abs(row["weight"]))[:_WEIGHTS]
    return said | {"untested": "", "features_that_matter": int((tests["q_value"] < 0.1).sum())}


def _learning_curve(
    found: MeasuredErrors, numbers: dict[str, Any], tables: dict[str, Any], seed: int
) -> dict[str, Any]:
    """Held-out error and log-loss at growing training sizes, and their forecasts."""
    n = numbers["n"]
    ahead = np.array([n, 2 * n, 10 * n])
    said: dict[str, Any] = {
        "folds": int(found.fold.max()) + 1,
        "training_size": int(found.sizes[-1]),
        "first_size": int(found.sizes[0]),
        "guess_error": 1 - numbers["largest_share"],
    }
    for name, each in (("error", found.wrong), ("log_loss", found.losses)):
        law = forecast(found.sizes, each, 0.5 / n, n, fold=found.fold, seed=seed)
        mean, low, high = each.mean(1), *law.band(ahead)
        spread = _binomial(mean, n) if name == "error" else each.std(1) / math.sqrt(n)
        curve = np.unique(np.geomspace(found.sizes[-1], 10 * n, 100))
        tables[f"{name}_curve"] = _rows(n=found.sizes, value=mean, standard_error=spread)
        tables[f"{name}_law"] = _rows(n=curve, value=law(curve))
        tables[f"{name}_forecast"] = _rows(n_samples=ahead, value=law(ahead), low=low, high=high)
        said |= {name: float(mean[-1]), f"{name}_se": float(spread[-1]), f"first_{name}": mean[0]}
        for when, future in zip(
            ("now", "double", "tenfold"), tables[f"{name}_forecast"], strict=True
        ):
            said |= {f"{name}_{when}": future["value"], f"n_{when}": future["n_samples"]}
            said |= {f"{name}_{when}_{end}": future[end] for end in ("low", "high")}
        said |= {f"{name}_by_{law_name}": share for law_name, share in law.weights.items()}
    return said


def _by_class(
    found: MeasuredErrors, y: NDArray[Any], classes: NDArray[Any], tables: dict[str, Any]
) -> dict[str, Any]:
    """Recall and confusion of held-out samples at the largest size."""
    from sklearn.metrics import confusion_matrix

    confusion = confusion_matrix(y[found.index], classes[found.chances.argmax(1)], labels=classes)
    samples = confusion.sum(1)
    recall = confusion.diagonal() / samples
    names = classes.astype(str)
    tables["classes"] = _rows(
        **{"class": names},
        samples=samples,
        recall=recall,
        standard_error=_binomial(recall, samples),
        **{f"named {name}": column for name, column in zip(names, confusion.T, strict=True)},
    )
    worst = int(recall.argmin())
    wrong = confusion[worst] * (np.arange(classes.size) != worst)
    return {
        "balanced_error": float(1 - recall.mean()),
        "worst_class": names[worst],
        "balanced_error_se": float(np.linalg.norm(_binomial(recall, samples)) / classes.size),
        "worst_recall": float(recall[worst]),
        "mistaken_for": names[int(wrong.argmax())],
        "mistaken_share": float(wrong.max() / samples[worst]),
    }


def _calibration(chances: Array, wrong: Array, tables: dict[str, Any]) -> dict[str, Any]:
    """How often the class is right that a fit is so sure of, in bins of equal size."""
    sure, hit = chances.max(1), 1 - wrong
    bins = np.array_split(np.argsort(sure), min(8, max(1, wrong.size // 10)))
    parts = [(part.size, sure[part].mean(), hit[part].mean()) for part in bins]
    count, stated, accuracy = (np.array(column) for column in zip(*parts, strict=True))
    tables["calibration"] = _rows(
        confidence=stated,
        accuracy=accuracy,
        standard_error=_binomial(accuracy, count),
        samples=count,
    )
    noise = np.sqrt(2 / math.pi * stated * (1 - stated) / count)  # of chance alone, on average
    gap = float(sure.mean() - hit.mean())
    return {
        "confidence": float(sure.mean()),
        "accuracy": float(hit.mean()),
        "confidence_gap": gap,
        "accuracy_se": float(_binomial(hit.mean(), wrong.size)),
        "calibration_error": float(np.abs(stated - accuracy) @ count) / wrong.size,
        "calibration_noise": float(noise @ count) / wrong.size,
    }


def _binomial(share: Any, n: Any) -> Array:
    """The standard error of a share of n samples, that of one sample at least."""
    return np.asarray(np.sqrt(np.maximum(share * (1 - share), 1 / n) / n))


def _rows(**columns: Any) -> list[Any]:
    """Columns as rows of plain Python values."""
    return pd.DataFrame(columns).to_dict("records")


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
        "drawn": v["n_in_file"] > v["n"],
        "uneven": uneven,
        "even": not uneven,
        "mistaken": v["mistaken_share"] > 0,
        "laws": not enough,
        "enough_data": enough,
        "too_sure": v["confidence_gap"] > unsure,
        "not_sure": v["confidence_gap"] < -unsure,
        "by_chance": abs(v["confidence_gap"]) <= unsure,
        "tested": not v["untested"],
        "not_gaussian": abs(v["median_excess_kurtosis"]) > 0.5 or v["few_valued_features"],
        "unlike": v["largest_share"] > 1.2 * v["even_share"],
        "noisy": v["separable"] is False,
        "floor": v["noise_floor"],
        "no_floor": v["noise_floor"] == 0,
    }


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
    wrapper = textwrap.TextWrapper(
        width, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
    )
    lines = [measured.source, "=" * min(width, len(measured.source))]
    for section, part in groupby(sentences(measured), key=lambda one: one.section):
        lines += ["", section]
        for sentence in part:
            lines += wrapper.wrap(sentence.text)
        lines += _columns(table_of(measured, section), width - 4)
    return "\n".join(lines) + "\n"


def _columns(rows: list[list[str]], width: int) -> list[str]:
    """Rows as text; what stands behind the first four columns is left out where it is too wide."""
    cut = [[cell[:20] for cell in row] for row in rows]
    widths = [max(map(len, column)) + 2 for column in zip(*cut, strict=True)]
    if sum(widths) > width:
        cut, widths = [row[:4] for row in cut], widths[:4]
    return [
        "    "
        + f"{row[0]:<{widths[0] - 2}}"
        + "".join(f"{cell:>{w}}" for cell, w in zip(row[1:], widths[1:], strict=True))
        for row in cut
    ]


def report_json(measured: Measured, *, only_ascii: bool = False) -> str:
    """The numbers by name, the curves, and every sentence with the names of its numbers.

    With `only_ascii`, other characters are escaped, so that a stream of any encoding shows them.
    """
    said = [sentence._asdict() for sentence in sentences(measured)]
    tables = {name: [json_ready(row) for row in rows] for name, rows in measured.tables.items()}
    content = {
        "made_by": "polyceptron",
        "source": measured.source,
        "version": VERSION,
        "numbers": json_ready(measured.numbers),
        "sentences": said,
        "tables": tables,
    }
    return json.dumps(content, indent=1, ensure_ascii=only_ascii) + "\n"


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
        source=escape(measured.source),
        parts="".join(parts),
        pictures=pictures,
        rows=rows,
        version=VERSION,
    )


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
    text = svg_text(pic.Picture((panel,), height=2.6))
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    text = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", text)
    # Names are shared by all pictures of a page: each gets its own.
    text = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>p{number}-", text)
    head, rest = text.split(">", 1)
    return re.sub(r'\s(?:height|width)="[^"]*"', "", head) + ">" + rest
