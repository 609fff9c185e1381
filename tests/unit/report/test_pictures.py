"""Pictures as data: any table becomes traces, and two renderers draw the same ones."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from polyceptron.cli import app
from polyceptron.errors import InvalidInput
from polyceptron.pictures.curves import curves_picture, ridge_picture
from polyceptron.pictures.matplotlib_figure import render_matplotlib, save_figure, svg_text
from polyceptron.pictures.parts import (
    COLOURS,
    MARKERS_OF,
    Mark,
    Panel,
    Trace,
    as_html,
    as_mathtext,
    as_plain,
    tints,
)
from polyceptron.pictures.plotly_figure import render_plotly

ALPHA = np.array([0.5, 1.0, 2.0, 4.0])


def rows(estimator: str = "square", scale: float = 1.0, **more: Any) -> pd.DataFrame:
    table: dict[str, Any] = {
        "source": "theory",
        "model": "argmax",
        "n_classes": 3,
        "prior": "gaussian",
        "estimator": estimator,
        "alpha": ALPHA,
        "generalisation_error": scale / (1 + ALPHA),
        "status": "ok",
    }
    return pd.DataFrame(table | more)


def runs(estimator: str = "square", seeds: int = 3, **more: Any) -> pd.DataFrame:
    one = rows(estimator, source="erm", dimension=50, **more)
    error = one["generalisation_error"]
    return pd.concat(
        [one.assign(seed=i, generalisation_error=error + i / 100) for i in range(seeds)]
    )


def traces(*tables: pd.DataFrame, **more: Any) -> tuple[Trace, ...]:
    return curves_picture(pd.concat(tables, ignore_index=True), **more).panels[0].traces


def test_names_that_nobody_listed_get_their_own_colours_and_labels() -> None:
    names = ["ramp", "my_loss", "square", "another", "bayes"]
    found = traces(*(rows(name, 1 + i) for i, name in enumerate(names)))
    assert {trace.label for trace in found} == {
        *names[:2],
        "square loss",
        "another",
        "Bayes-optimal",
    }
    assert len({trace.colour for trace in found}) == len(names)


@pytest.mark.parametrize("column", ["noise", "prior", "penalty", "n_classes"])
def test_any_column_of_words_tells_lines_apart(column: str) -> None:
    values = (2, 5) if column == "n_classes" else ("logistic", "probit")
    found = traces(*(rows(**{column: value}) for value in values))
    assert len({trace.colour for trace in found}) == 2
    for trace, value in zip(found, values, strict=True):
        assert str(value) in trace.label


def test_theory_and_experiments_of_one_estimator_share_a_colour_and_one_entry() -> None:
    line, symbols = traces(rows(ridge=1.0), runs(ridge=1.0))
    assert (line.kind, symbols.kind) == ("line", "symbols")
    assert line.colour == symbols.colour
    assert (line.in_legend, symbols.in_legend) == (True, False)
    assert symbols.y_error == pytest.approx([0.01 / 3**0.5] * 4)  # of 0, 0.01, 0.02


def test_the_same_line_from_two_tables_is_named_once() -> None:
    first, again = traces(rows(table=0), rows(table=1))
    assert (first.colour, first.label) == (again.colour, again.label)
    assert (first.in_legend, again.in_legend) == (True, False)


def test_several_dimensions_are_told_apart_by_their_symbols() -> None:
    _, small, large = traces(rows(), runs(), runs().assign(dimension=500))
    assert small.marker != large.marker
    assert ("d = 50" in small.label, "d = 500" in large.label) == (True, True)


def test_an_estimator_keeps_its_colour_and_symbol_beside_others() -> None:
    """Its ridges have tints of its colour; nobody else's colour or symbol is lent to them."""
    tables = [rows(ridge=0.1), rows(ridge=1.0), runs(ridge=0.1), runs(ridge=1.0)]
    others = [rows("max-margin"), runs("max-margin")]
    found = traces(*tables, *others)
    lines = {t.label: t.colour for t in found if t.kind == "line"}
    assert lines["square loss, *λ = 0.1*"] == COLOURS["square"]
    assert lines["max-margin"] == COLOURS["max-margin"]
    assert set(lines.values()) - {lines["square loss, *λ = 1*"]} == {
        COLOURS["square"],
        COLOURS["max-margin"],
    }
    assert lines["square loss, *λ = 1*"] not in COLOURS.values()
    markers = {t.colour: t.marker for t in found if t.kind == "symbols"}
    assert set(markers) == set(lines.values())
    of_square = {m for colour, m in markers.items() if colour != COLOURS["max-margin"]}
    assert of_square == {MARKERS_OF["square"]}


@pytest.mark.parametrize("estimator", ["square", "cross-entropy"])
def test_lines_of_one_estimator_have_the_same_looks_whoever_it_is(estimator: str) -> None:
    found = traces(*(runs(estimator, ridge=ridge) for ridge in (0.1, 1.0, 10.0)))
    assert [t.marker for t in found] == ["circle", "square", "triangle"]
    assert len({t.colour for t in found}) == 3


@pytest.mark.parametrize("colour", ["#000000", "#0072B2"])
def test_tints_are_four_colours_that_begin_with_their_own(colour: str) -> None:
    found = tints(colour, 4)
    assert found[0] == colour
    assert len(set(found)) == 4
    assert all(re.fullmatch("#[0-9a-fA-F]{6}", tint) for tint in found)


def test_what_has_not_converged_is_seen() -> None:
    bad = rows(status=["ok", "not-converged", "ok", "ok"])
    some = runs()
    some.loc[some["alpha"] == 2.0, "status"] = "not-converged"
    picture = curves_picture(pd.concat([bad, some], ignore_index=True))
    crosses, hollow = (t for t in picture.panels[0].traces if t.marker == "x" or t.hollow)
    assert (crosses.x, hollow.x) == ((1.0,), (2.0,))
    assert picture.panels[0].legend is not None
    assert "hollow: not converged\n×: not converged" in picture.panels[0].legend.title


def test_many_lines_have_shades_in_order_and_a_legend_beside_the_axes() -> None:
    picture = curves_picture(pd.concat([rows(n_classes=k) for k in (20, *range(2, 12))]))
    found = picture.panels[0].traces
    light = [sum(int(t.colour[i : i + 2], 16) for i in (1, 3, 5)) for t in found]
    assert light[0] == max(light)  # k = 20
    assert np.all(np.diff(light[1:]) > 0)
    assert picture.panels[0].legend is not None
    assert picture.panels[0].legend.place == "outside"


def test_a_legend_names_some_of_very_many_lines() -> None:
    panel = curves_picture(pd.concat([rows(n_classes=k) for k in range(2, 60)])).panels[0]
    assert sum(trace.in_legend for trace in panel.traces) == 20
    assert panel.legend is not None
    assert "58 lines, 20 of them named" in panel.legend.title


def test_ridges_across_and_the_best_marked() -> None:
    ridge = np.geomspace(1e-3, 1, 5)
    table = pd.concat(
        pd.DataFrame(
            {
                "source": "theory",
                "estimator": "square",
                "alpha": a,
                "ridge": ridge,
                "generalisation_error": (np.log(ridge) + a) ** 2,
                "is_best": ridge == b,
            }
        )
        for a, b in ((1.0, ridge[4]), (2.0, ridge[3]))
    )
    panel = ridge_picture(table.reset_index(drop=True)).panels[0]
    assert [t.label for t in panel.traces] == ["*α = 1*", "*α = 2*", "best *λ*"]
    assert panel.traces[-1].x == pytest.approx((ridge[4], ridge[3]))
    assert panel.x.scale == "log"
    more = pd.concat([table, table.assign(ridge=0.0, is_best=False)], ignore_index=True)
    with_zero = ridge_picture(more).panels[0]
    assert with_zero.traces[0].x == panel.traces[0].x
    assert with_zero.legend is not None
    assert "0 is not on this axis" in with_zero.legend.title


def test_both_renderers_draw_the_same_numbers() -> None:
    table = pd.concat([rows(ridge=1.0), runs(ridge=1.0), rows("bayes", 0.8)], ignore_index=True)
    picture = curves_picture(table)
    figure = render_plotly(picture.panels[0])
    json.dumps(figure, allow_nan=False)
    (ax,) = render_matplotlib(picture).axes
    drawn = [line for line in ax.get_lines() if len(line.get_xdata()) == len(ALPHA)]
    ours = {
        (tuple(np.round(np.asarray(line.get_ydata(), dtype=float), 12)), line.get_color())
        for line in drawn
    }
    theirs = {
        (tuple(np.round(trace["y"], 12)), trace.get("line", trace.get("marker"))["color"])
        for trace in figure["data"]
    }
    assert theirs <= ours
    assert len(theirs) == 3
    assert figure["layout"]["xaxis"]["title"]["text"] == "sample complexity <i>α = n/d</i>"
    assert ax.get_xlabel() == r"sample complexity $\alpha  = n/d$"


def test_marks_and_gaps_reach_the_page_and_labels_do_not_lie_on_each_other() -> None:
    line = Trace((1.0, 2.0, 3.0), (1.0, float("nan"), 3.0), label="a")
    marks = (Mark(2.0, "*α_{IT}*", "right"), Mark(2.5, "b", "left"), Mark(2.1, "*α_{s}*", "right"))
    figure = render_plotly(Panel((line,), marks=marks))
    assert figure["data"][0]["y"] == [1.0, None, 3.0]
    words = figure["layout"]["annotations"]
    assert words[0]["text"] == "<i>α<sub>IT</sub></i>"
    assert [one["yshift"] == 0 for one in words] == [True, True, False]


def test_markup() -> None:
    assert as_mathtext("price $5, *λ → 0^{+}*") == r"price \$5, $\lambda  \to  0^{+}$"
    assert as_mathtext("*q_{00}*, my_loss") == r"$q_{\mathrm{00}}$, my_loss"
    assert as_html("*q_{00}* < <b>") == "<i>q<sub>00</sub></i> &lt; &lt;b&gt;"
    assert as_plain("*k = 3*, *q_{00}*") == "k = 3, q_00"


def test_the_shell_draws_tables_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows(ridge=1.0).to_csv(tmp_path / "theory.csv", index=False)
    runs(ridge=1.0).to_csv(tmp_path / "runs.csv", index=False)
    monkeypatch.chdir(tmp_path)
    found = CliRunner().invoke(app, ["plot", "theory.csv", "runs.csv"])
    assert (found.exit_code, found.stderr) == (0, "drew theory.pdf\n")
    assert (tmp_path / "theory.pdf").read_bytes().startswith(b"%PDF")
    some = ["--where", "estimator=square", "--where", "ridge=1", "--out", "some.svg"]
    assert CliRunner().invoke(app, ["plot", "theory.csv", "runs.csv", *some]).exit_code == 0
    found = CliRunner().invoke(app, ["plot", "runs.csv", "--x", "n_samples"])
    assert isinstance(found.exception, InvalidInput)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["missing.csv"], "no such file"),
        (["."], "not a file"),
        (["empty.csv"], "neither a store nor a table"),
        (["words.csv"], "no numbers"),
        (["header.csv"], "no rows"),
        (["binary.csv"], "neither a store nor a table"),
        (["table.csv", "--y", "beauty"], "'beauty' is not a column of numbers.*alpha"),
        (["table.csv", "--x", "estimator"], "'estimator' is not a column of numbers"),
        (["table.csv", "--where", "beauty=1"], "COLUMN=VALUE with one of source"),
        (["table.csv", "--where", "alpha=high"], "alpha is a number"),
        (["table.csv", "--where", "alpha=7"], "no row has alpha=7"),
        (["table.csv", "--out", "a.gif"], "ends in .pdf"),
        (["table.csv", "--out", "no/such/folder.pdf"], "does not exist"),
    ],
)
def test_what_cannot_be_drawn_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    rows().to_csv("table.csv", index=False)
    Path("empty.csv").write_text("")
    Path("words.csv").write_text("a,b\nx,y\n")
    Path("header.csv").write_text("alpha,generalisation_error\n")
    Path("binary.csv").write_bytes(bytes(range(256)) * 10)
    result = CliRunner().invoke(app, ["plot", *arguments])
    assert isinstance(result.exception, InvalidInput), result.output
    assert re.search(words, str(result.exception))
    assert not list(tmp_path.glob("*.pdf"))


@pytest.mark.parametrize(
    "settings",
    [
        {"text.usetex": True},
        {"axes.formatter.use_locale": True, "text.parse_math": False},
        {"savefig.bbox": "tight", "figure.autolayout": True, "path.sketch": (1, 100, 2)},
        {"axes.prop_cycle": mpl.cycler(color=["red"]), "xtick.direction": "in"},
    ],
)
def test_settings_of_the_user_change_no_picture(settings: dict[str, Any]) -> None:
    """With usetex and no LaTeX, a picture of rows that had been computed ended in a traceback."""
    picture = curves_picture(rows())
    plain = svg_text(picture)
    with mpl.rc_context(settings):
        assert svg_text(picture) == plain
        assert mpl.rcParams[next(iter(settings))] == next(iter(settings.values()))


def test_a_picture_that_matplotlib_cannot_write_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    figure = render_matplotlib(curves_picture(rows()))
    with pytest.raises(InvalidInput, match=r"cannot draw .*yesterday"):
        save_figure(figure, tmp_path / "curve.pdf")
    assert not list(tmp_path.iterdir())


def test_a_table_without_usable_rows_is_a_sentence() -> None:
    with pytest.raises(InvalidInput, match="nothing to draw"):
        curves_picture(rows(generalisation_error=np.nan))


def test_matrices_in_a_row_do_not_tear_its_line_apart() -> None:
    numbers = {"recall": "{0},0.5", "confusion": "{0},0;0,1", "intercepts": "{0},0"}
    table = [
        {"source": "theory", "estimator": "cross-entropy", "alpha": a, "balanced_error": 1 / a}
        | {name: text.format(a) for name, text in numbers.items()}
        for a in (1.0, 2.0, 3.0)
    ]
    (panel,) = curves_picture(pd.DataFrame(table), "alpha", "balanced_error").panels
    (line,) = panel.traces
    assert line.x == (1.0, 2.0, 3.0)
