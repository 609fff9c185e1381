"""Any quantity of a tidy table against any other: theory as lines, experiments as symbols.

A line is broken where the theory jumps, symbols are hollow where runs had not converged. Tables
drawn on the same axes one after another are each time drawn anew together, as if they had been one.

    role      whose look it has: an estimator, or a branch of the Bayes-optimal theory; message
              passing has the look of its branch
    family    what else differs between lines: k, prior, noise, ridge, …; theory and experiments of
              one family share a colour
    size      the dimension, where experiments have several

Columns are found in the table, not listed here: every column of words that takes several values
tells lines apart, so that what a user adds is told apart too.
"""

import math
import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress, pairwise
from pathlib import Path
from typing import Any

import pandas as pd

from polyceptron.errors import InvalidInput
from polyceptron.files import check_readable
from polyceptron.pictures import matplotlib_figure as mpl
from polyceptron.pictures import parts as pic
from polyceptron.problem import BayesOptimal
from polyceptron.rows import PLACES, Status, average_instances, error_column, kind_of
from polyceptron.store import Store

LOOKS_VERTICAL = 1e-3  # the relative step in α below which a line looks upright


def read_table(path: str | Path) -> pd.DataFrame:
    """The rows of a store or of a table, known by their first bytes."""
    check_readable(path, "file")
    try:
        with open(path, "rb") as file:
            start = file.read(16)
        if start == b"SQLite format 3\x00":
            with Store(path) as store:
                table = store.frame()
        else:
            table = (pd.read_parquet if start[:4] == b"PAR1" else pd.read_csv)(path)
    except (OSError, ImportError) as error:
        raise InvalidInput(f"cannot read {str(path)!r}: {error}") from None
    except ValueError:  # pandas' own errors are ValueErrors, and so are those of Unicode
        raise InvalidInput(f"{str(path)!r} is neither a store nor a table in CSV") from None
    if table.empty:
        raise InvalidInput(f"there is nothing to draw: {str(path)!r} has no rows")
    return table


def select_rows(table: pd.DataFrame, conditions: Sequence[str]) -> pd.DataFrame:
    """The rows that meet every condition, each COLUMN=VALUE; at least one."""
    for condition in conditions:
        name, equals, value = condition.partition("=")
        if not equals or name not in table:
            known = ", ".join(map(str, table.columns))
            raise InvalidInput(
                f"a condition is COLUMN=VALUE with one of {known}, got {condition!r}"
            )
        try:
            wanted = float(value) if name in numeric_columns(table) else value
        except ValueError:
            raise InvalidInput(f"{name} is a number, got {condition!r}") from None
        table = table[(table[name] == wanted).fillna(False).astype(bool)]
        if table.empty:
            raise InvalidInput(f"there is nothing to draw: no row has {condition}")
    return table.reset_index(drop=True)


def numeric_columns(table: pd.DataFrame) -> list[str]:
    """The names of the columns of numbers."""
    return [str(name) for name in table.select_dtypes(["number", "bool"]).columns]


def check_column(table: pd.DataFrame, name: str) -> None:
    """Raise unless the table has numbers under this name."""
    numeric = [one for one in numeric_columns(table) if one != "table"]
    if not numeric:
        raise InvalidInput(f"there is nothing to draw: the table has no numbers, and no {name!r}")
    if name not in numeric:
        known = ", ".join(numeric)
        raise InvalidInput(f"{name!r} is not a column of numbers of this table: it has {known}")


Row = dict[Hashable, Any]
BEST = "best *λ*"
TRANSITIONS = ("alpha_IT", "alpha_algo")  # branches of rows that tell where a transition is
_WORDS = {
    "n_classes": "*k = {:g}*",
    "alpha": "*α = {:g}*",
    "prior": "{} weights",
    "ridge": "*λ = {:.3g}*",
    "dimension": "*d = {:.4g}*",
    "n_samples": "*n = {:.4g}*",
    "intercept": "intercepts",
    "class_weight": "{} class weights",
    "shares": "shares {}",
}
_NO_FAMILY = (
    "source",
    "estimator",
    "branch",
    "ridge",
    "dimension",
    "n_samples",
    "status",
    "version",
    "reason",
    "table",
    "recall",
    "confusion",
    "intercepts",
)


@dataclass(frozen=True)
class Series:
    """The rows of one line by rising x, and its names."""

    rows: tuple[Row, ...]
    table: int
    source: str
    estimator: str
    role: str
    family: tuple[str, ...]
    size: str

    @property
    def theory(self) -> bool:
        """Whether it is a line, not symbols."""
        return self.source == "theory"


def find_series(table: pd.DataFrame, x: str, y: str) -> list[Series]:
    """The series of `y` against `x`, in the order of the table; instances as their means."""
    check_column(table, y)
    table = average_instances(table)
    if "branch" in table:
        table = table[~table["branch"].isin(TRANSITIONS)]
    if "source" in table and "amp" in set(table["source"]):
        table = table[table["source"] != "amp-summary"]  # the same runs once more
    table = table[table[x].notna() & table[y].notna()]
    if table.empty:
        raise InvalidInput(f"there is nothing to draw: no row has both {x} and {y}")
    # α moves along an axis of what is measured, or of the number of samples.
    aside = {*_NO_FAMILY, x} | ({"alpha"} if x not in PLACES or x == "n_samples" else set())
    aside |= set(numeric_columns(table)) - set(PLACES)
    others = [str(name) for name in table.columns if name not in aside]
    telling = [name for name in others if table[name].nunique(dropna=False) > 1]
    sizes = x != "dimension" and "dimension" in table and table["dimension"].nunique() > 1
    rows = table.to_dict("records")
    families = [tuple(fact(name, row[name]) for name in telling) for row in rows]
    ridges = _ridges(rows, families, x)
    found: dict[tuple[Any, ...], dict[float, Row]] = {}
    for row, family, ridge in zip(rows, families, ridges, strict=True):
        source, branch, estimator = map(text, map(row.get, ("source", "branch", "estimator")))
        role = estimator
        if source == "amp":
            role = "amp"
        elif kind_of(branch) in pic.DASHES:
            role = kind_of(branch)
        source = source or "theory"
        key = (
            int(row.get("table", 0)),
            source,
            estimator,
            role,
            tuple(word for word in (*family, ridge) if word),
            fact("dimension", row["dimension"]) if sizes and source != "theory" else "",
        )
        line = (branch if role == kind_of(branch) else "", *key)  # barriers have a number
        found.setdefault(line, {}).setdefault(float(row[x]), row)  # one row for each x
    return [
        Series(tuple(at[value] for value in sorted(at)), *key) for (_, *key), at in found.items()
    ]


def fact(name: str, value: Any) -> str:
    """A value in words: *k = 3*."""
    if text(value) in ("", "none", "isotropic"):  # these go without saying
        return ""
    if name == "shares":
        value = ", ".join(f"{float(share):.3g}" for share in value.split(","))
    plain = "{}" if isinstance(value, str) else f"*{name} = {{:.4g}}*"
    return _WORDS.get(name, plain).format(value)


def ridge_words(ridge: float) -> str:
    """*λ = 1*, or its limit of zero."""
    return fact("ridge", ridge) if ridge else "*λ → 0^{+}*"


def text(value: Any) -> str:
    """The value as text, empty for a missing one."""
    return "" if pic.missing(value) else str(value)


def problem_words(table: pd.DataFrame) -> str:
    """What all rows share, for a title: k = 3, gaussian weights."""
    words, aside = [], (*_NO_FAMILY, "samples", "biases", "gram", "levels")
    for name in ("model", "n_classes", *(c for c in table.columns if c not in PLACES)):
        if name in table and name not in aside and table[name].nunique() == 1:
            value = table[name].dropna().iloc[0]
            if (isinstance(value, str) or name in PLACES) and value not in ("argmax", "none"):
                words.append(fact(name, value))
    return ", ".join(dict.fromkeys(words))


def _ridges(rows: Sequence[Row], families: Sequence[tuple[str, ...]], x: str) -> list[str]:
    """λ of each row: a number, `BEST` where it moves with x, nothing where there is none."""
    if x == "ridge":
        return [""] * len(rows)
    without = {row.get("estimator") for row in rows if not text(row.get("ridge"))}
    places: dict[Any, dict[float, set[float]]] = {}
    keys = [
        (*map(row.get, ("table", "source", "estimator")), family)
        for row, family in zip(rows, families, strict=True)
    ]
    for row, key in zip(rows, keys, strict=True):
        places.setdefault(key, {}).setdefault(row.get("ridge", 0.0), set()).add(row[x])
    moving = {key: _moving(ridges) for key, ridges in places.items()}
    return [
        ""
        if row.get("estimator") in without  # it has none: a 0 in some rows means the same
        else BEST
        if row["ridge"] in moving[key]
        else ridge_words(row["ridge"])
        for row, key in zip(rows, keys, strict=True)
    ]


def _moving(places: Mapping[float, set[float]]) -> set[float]:
    """The ridges that are the best ones, of those that stand at these x.

    They stand at one x each, and at different ones; or at some x with none of the others between.
    """
    once = [min(at) for at in places.values() if len(at) == 1]
    if not len(set(once)) == len(once) > 1:
        return set()
    ends = {r: (min(at), max(at)) for r, at in places.items()}
    near = {r for r, (a, b) in ends.items() if sum(a <= x <= b for x in once) == (a == b)}

    def meets(r: float) -> bool:
        return any(max(ends[r][0], ends[o][0]) <= min(ends[r][1], ends[o][1]) for o in near - {r})

    return {r for r in near if not meets(r)}


def shared_role(series: Sequence[Series]) -> str:
    """The role that all lines have, where their families alone tell them apart; else nothing."""
    roles = {s.role for s in series if s.theory} or {s.role for s in series}
    told = all(any("λ" not in word for word in s.family) for s in series)
    return next(iter(roles)) if len(roles) == 1 and told else ""


def series_colours(series: Sequence[Series]) -> list[str]:
    """The colour of each: by its role, or by its family where an estimator has several.

    Many families have one scale.
    """
    number = re.compile(r"\d[\d.]*(?:e[+-]?\d+)?")
    families: dict[str, dict[tuple[str, ...], str]] = {}
    for s in series:
        families.setdefault(s.estimator, {})[s.family] = ""
    single = [s.role for s in series if len(families[s.estimator]) == 1]
    named = pic.colours_of([*single, *families, *pic.DASHES])  # as on the page
    own = {name: named[name] for name in (*single, *families)}
    used = {own[role] for role in single}
    for estimator, some in families.items():
        if len(some) > 4:
            ordered = sorted(some, key=lambda words: [*map(float, number.findall(" ".join(words)))])
            some |= zip(ordered, pic.shades(len(some)), strict=True)
        elif len(some) > 1:
            for family in some:
                others = (c for c in pic.CYCLE if c not in own.values())
                free = [own[estimator], *others, *pic.CYCLE]
                some[family] = next((c for c in free if c not in used), pic.COLOURS["unstable"])
                used.add(some[family])
    return [families[s.estimator][s.family] or own[s.role] for s in series]


ERROR, BAYES = "generalisation_error", BayesOptimal.name
Rows = Sequence[Mapping[Any, Any]]


def series_traces(series: Sequence[Series], x: str, y: str) -> tuple[pic.Trace, ...]:
    """Lines first, the Bayes-optimal ones above the others, then symbols."""
    coloured, shared = list(zip(series, series_colours(series), strict=True)), shared_role(series)
    named = {colour for s, colour in coloured if s.theory}
    mixed = len({s.estimator for s in series}) > 1
    lines, symbols, markers = list[pic.Trace](), list[pic.Trace](), dict[tuple[str, str], str]()
    for one, colour in sorted(coloured, key=lambda s: s[0].theory and s[0].role == BAYES):
        name = "" if shared else pic.label_of(one.role) or one.source
        label = ", ".join(word for word in (name, *one.family, one.size) if word)
        look: dict[str, Any] = {"colour": colour, "label": label, "table": one.table}
        if one.theory:
            lines += _line_traces(one.rows, x, y, look | {"dash": pic.dash_of(one.role, mixed)})
        else:
            free = pic.MARKERS[len(markers) % len(pic.MARKERS)]
            marker = markers.setdefault((colour, one.size), free)
            look |= {"marker": marker, "in_legend": colour not in named or bool(one.size)}
            symbols += _symbol_traces(one.rows, x, y, look)
    seen = set[Any]()
    for i, trace in enumerate(lines):  # the same line from two tables is named once
        key = trace.kind, trace.label, trace.colour
        lines[i] = replace(trace, in_legend=trace.in_legend and key not in seen)
        seen.add(key)
    return tuple(lines + symbols)


def _line_traces(rows: Rows, x: str, y: str, look: dict[str, Any]) -> list[pic.Trace]:
    """Theory: a line (a symbol for one point), and crosses where it did not converge."""
    points = [(float(row[x]), float(row[y])) for row in rows]
    bad = list(compress(points, [row.get("status") == Status.NOT_CONVERGED for row in rows]))
    for i in reversed(_jumps(points, rows, y)):
        a, b = points[i][0], points[i + 1][0]
        points.insert(i + 1, (math.sqrt(a * b) if a > 0 else (a + b) / 2, math.nan))
    xs, ys = zip(*points, strict=True)
    traces = [pic.Trace(xs, ys, kind="line" if len(xs) > 1 else "symbols", **look)]
    if bad:
        xs, ys = zip(*bad, strict=True)
        look = look | {"kind": "symbols", "marker": "x", "in_legend": False}
        traces.append(pic.Trace(xs, ys, **look))
    return traces


def _symbol_traces(rows: Rows, x: str, y: str, look: dict[str, Any]) -> list[pic.Trace]:
    """Experiments: symbols with the standard errors of means, hollow where not converged."""
    traces: list[pic.Trace] = []
    for hollow in (False, True):
        some = [row for row in rows if (row.get("status") == Status.NOT_CONVERGED) == hollow]
        if some:
            error = pic.numbers(row.get(error_column(y)) for row in some)
            # One instance has no standard error: its bar has no length.
            bars = tuple(0.0 if math.isnan(e) else e for e in error)
            xs, ys = (pic.numbers(row[name] for row in some) for name in (x, y))
            one = pic.Trace(xs, ys, bars, kind="symbols", hollow=hollow, **look)
            traces.append(replace(one, in_legend=one.in_legend and not traces))
    return traces


def _jumps(points: Sequence[tuple[float, float]], rows: Rows, y: str) -> list[int]:
    """The steps i → i + 1 over which a Bayes-optimal line would be slanted where it jumps.

    It does where perfect learning begins, and where it is three times as steep as on both sides: a
    smooth error is convex there. A step of no width is vertical.
    """
    if y == "free_entropy" or not any(text(row.get("branch")) for row in rows):
        return []
    perfect = [row.get(ERROR) == 0 for row in rows]
    slopes = [abs((b[1] - a[1]) / (b[0] - a[0])) for a, b in pairwise(points)]
    return [
        i
        for i, slope in enumerate(slopes)
        if points[i + 1][0] - points[i][0] > LOOKS_VERTICAL * points[i][0]
        and (
            perfect[i] != perfect[i + 1]
            or (0 < i < len(slopes) - 1 and slope > 3 * max(slopes[i - 1], slopes[i + 1]))
        )
    ]


def overlay(
    ax: mpl.Axes | None, table: pd.DataFrame, x: str, y: str, style: dict[str, Any]
) -> mpl.Axes:
    """Draw the table on the axes, together with those that `overlay` has drawn there before.

    Without axes, on new ones of pyplot, with what all rows share as their title.
    """
    mpl.check_style(style)
    new = ax is None
    ax = mpl.notebook_axes(curves_picture(table, x, y)) if ax is None else ax
    held = getattr(ax, "_polyceptron", {})  # goes with the axes, whenever they go
    calls, drawn = held.get((x, y), ([], []))
    # Of error bars, their symbols tell whether the axes were cleared since.
    if any((one[0] if isinstance(one, tuple) else one).axes is not ax for one in drawn):
        calls, drawn = [], []
    calls = [*calls, (table, style)]
    together = pd.concat([one.assign(table=i) for i, (one, _) in enumerate(calls)])
    panel = curves_panel(together.reset_index(drop=True), x, y)
    for one in drawn:
        one.remove()
    traces: list[pic.Trace] = []
    for trace in panel.traces:  # the user's label, before ours where a table has several lines
        if (label := calls[trace.table][1].get("label")) is not None:
            own = [one for one in panel.traces if one.table == trace.table]
            named = [one for one in own if one.in_legend] or own[:1]
            label = f"{label}, {trace.label}" if len(named) > 1 else str(label)
            trace = replace(trace, label=label, in_legend=trace in named)
        traces.append(trace)
    looks = [{name: value for name, value in look.items() if name != "label"} for _, look in calls]
    with pic.style():
        drawn = mpl.draw_panel(ax, replace(panel, traces=tuple(traces)), looks)
        title = pic.as_mathtext(problem_words(together))
        if new or ax.get_title(loc="left") == held.get("title"):
            ax.set_title(title, loc="left", fontsize=7)
        else:
            title = ""  # the user's own stays
    ax._polyceptron = {**held, (x, y): (calls, drawn), "title": title}  # type: ignore[attr-defined]
    return ax


SYMBOLS = {"amp": "AMP", "erm": "fits"}  # what the runs of a source are called
TRANSITION_LABELS = dict(zip(TRANSITIONS, ("*α_{IT}*", "*α_{algo}*"), strict=True))
MANY, MOST = 8, 20  # entries of a legend that do not fit inside the axes, and not beside them


def curves_picture(
    table: pd.DataFrame, x: str = "alpha", y: str = ERROR, **scales: Any
) -> pic.Picture:
    """The panel of `curves_panel` as a picture of its own, with the problem as its title."""
    panel = replace(curves_panel(table, x, y, **scales), title=problem_words(table))
    outside = panel.legend is not None and panel.legend.place == "outside"
    return pic.Picture((panel,), *((5.8, 4.4) if outside else (3.6, 2.9)))


def ridge_picture(table: pd.DataFrame) -> pic.Picture:
    """Error against the ridge, one line for each α; a star where the column `is_best` is true."""
    best = table["is_best"].astype(bool) if "is_best" in table else table["ridge"].isna()
    picture = curves_picture(table, "ridge")
    (panel,) = picture.panels
    traces = (*panel.traces, star_trace(table[best], "ridge"))
    low, high = table[ERROR].min(), table[ERROR].max()  # from 0 the minimum would look flat
    up = replace(panel.y, low=low - 0.1 * (high - low))
    alone = [fact("alpha", float(a)) for a in table["alpha"].unique()]
    title = ", ".join(filter(None, [panel.title, *(alone if len(alone) == 1 else [])]))
    return replace(picture, panels=(replace(panel, traces=traces, y=up, title=title),))


def star_trace(rows: pd.DataFrame, x: str) -> pic.Trace:
    """Black stars at points that matter."""
    look: Any = {"kind": "symbols", "marker": "star", "label": "best *λ*", "size": 1.5}
    return pic.trace_of(rows, x, ERROR, **look)


def curves_panel(
    table: pd.DataFrame,
    x: str = "alpha",
    y: str = ERROR,
    *,
    log_x: bool | None = None,
    log_y: bool = False,
) -> pic.Panel:
    """Traces, axes, a legend of what lines and symbols are, and transitions if known."""
    check_column(table, x)
    above = table[table[x] > 0]
    if log_x is None:
        wide = not (table[x] <= 0).any() and above[x].max() > 100 * above[x].min()
        log_x = bool(wide or (x == "ridge" and len(above)))
    aside = log_x and len(above) < table[x].notna().sum()
    series = find_series(above if log_x else table, x, y)
    traces = series_traces(series, x, y)
    ys = [value for trace in traces for value in trace.y if not math.isnan(value)]
    # From zero, a little below it where a symbol would be cut.
    bottom = None if log_y or min(ys) < 0 else 0.0 if min(ys) > 0 else -0.02 * max(ys)
    named = [i for i, trace in enumerate(traces) if trace.in_legend]
    title = _explain(series) + ("\n0 is not on this axis" if aside else "")
    if len(named) > MOST:
        title += f"\n{len(named)} lines, {MOST} of them named:"
        kept = {named[i * (len(named) - 1) // (MOST - 1)] for i in range(MOST)}
        traces = tuple(replace(t, in_legend=i in kept) for i, t in enumerate(traces))
    return pic.Panel(
        traces,
        pic.Axis(pic.axis_label(x), "log" if log_x else "linear"),
        pic.Axis(pic.axis_label(y), "log" if log_y else "linear", bottom),
        marks=transition_marks(table) if x == "alpha" else (),
        legend=pic.Legend("best" if len(named) < MANY else "outside", title.strip()),
    )


def transition_marks(table: pd.DataFrame) -> tuple[pic.Mark, ...]:
    """Verticals at α_IT and α_algo, if the table has one row for each."""
    if "branch" not in table:
        return ()
    found = [table.loc[table["branch"] == name, "alpha"].tolist() for name in TRANSITIONS]
    if any(len(alphas) != 1 for alphas in found):
        return ()
    named = zip(found, TRANSITION_LABELS.values(), ("right", "left"), strict=True)
    return tuple(pic.Mark(a, f"{label} = {a:.3f}", side) for (a,), label, side in named)


def _explain(series: Sequence[Series]) -> str:
    """A legend's title: what lines and symbols are."""
    theory, runs = [s for s in series if s.theory], [s for s in series if not s.theory]
    words, shared = [], shared_role(series)
    names = " and ".join(dict.fromkeys(SYMBOLS.get(s.source, s.source) for s in runs))
    if theory and (runs or shared):
        label = pic.label_of(shared)
        words.append("lines: " + ("theory" if label in ("", names) else label))
    if runs:
        sizes = {text(row.get("dimension")) for s in runs for row in s.rows} - {""}
        size = f", *d = {float(next(iter(sizes))):g}*" if len(sizes) == 1 else ""
        words.append(f"symbols: {names}{size}")
    for some, sign in ((runs, "hollow"), (theory, "×")):
        if any(row.get("status") == Status.NOT_CONVERGED for s in some for row in s.rows):
            words.append(f"{sign}: not converged")
    return "\n".join(words)
