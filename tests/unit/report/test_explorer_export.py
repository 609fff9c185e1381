"""What leaves the explorer: the Python lines give the same numbers, figures say what rows say."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import polyceptron as pc
from polyceptron.questions.drawn_curve import drawn_parts
from polyceptron.report.explorer.links import from_query, to_query
from polyceptron.report.explorer.page_content import page_html, to_csv
from polyceptron.report.explorer.page_figures import (
    BAND,
    Simulated,
    confusion_figure,
    landscape_figure,
    learning_figure,
    order_figure,
    phase_words,
    spectrum_words,
    without,
)
from polyceptron.report.explorer.page_tasks import key_of, perform, simulation_messages, tasks_of
from polyceptron.report.explorer.script import caption, python_lines
from polyceptron.report.explorer.settings import SCORES, SETTINGS, PageSettings, make_settings

pytestmark = pytest.mark.slow


def answers(page: PageSettings) -> tuple[dict[str, list[dict[str, Any]]], dict[str, Any]]:
    """The curves by estimator, and the other answers by kind."""
    curves, others = {}, {}
    for task in tasks_of(page):
        *_, last = perform(task)
        if task["kind"] == "curve":
            curves[task["estimators"]] = last["result"]
        else:
            others[task["kind"]] = last["result"]
    return curves, others


@pytest.fixture(scope="module")
def hard() -> tuple[PageSettings, dict[str, list[dict[str, Any]]], dict[str, Any]]:
    """The default problem at an α in the hard phase, few points."""
    page = make_settings({"points": 9, "alpha": 2.6, "estimators": ["bayes", "square"]})
    return (page, *answers(page))


@pytest.fixture
def sketched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines that run here have curves of few points and draw no file: one test has all of both."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Figure, "savefig", lambda *given, **options: None)
    monkeypatch.setitem(drawn_parts.__kwdefaults__, "first", 5)
    monkeypatch.setitem(drawn_parts.__kwdefaults__, "most", 9)


def test_the_python_lines_give_the_table_that_csv_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hard: Any
) -> None:
    page, curves, others = hard
    simulations = [
        make_settings({"dimension": 40, "places": 2, "runs": 2}),
        make_settings(
            {"dimension": 40, "places": 2, "simulation": "square", "ridge_rule": "optimal"}
        ),
    ]
    monkeypatch.chdir(tmp_path)
    scope: dict[str, Any] = {"__name__": "lines"}
    exec(compile(python_lines(page, simulations), "lines.py", "exec"), scope)
    order = ["estimator", "branch", "alpha"]
    written = pd.read_csv("curves.csv").sort_values(order, ignore_index=True)
    shown = pd.read_csv(io.StringIO(to_csv(row for rows in curves.values() for row in rows)))
    assert set(written["branch"].dropna()) == {"optimal", "amp", "unstable"}
    jumps = [scope["found"].alpha_it, scope["found"].alpha_algo]
    for key, line in written.groupby(["estimator", "branch"], dropna=False):
        page_line = shown[
            (shown["estimator"] == key[0]) & (shown["branch"].eq(key[1]) | pd.isna(key[1]))
        ]
        page_line = page_line.sort_values("alpha")
        away = line[[min(abs(a - j) for j in jumps) > 0.1 for a in line["alpha"]]]
        drawn = np.interp(away["alpha"], page_line["alpha"], page_line["generalisation_error"])
        assert np.abs(drawn - away["generalisation_error"]).max() < 0.004, key
    assert (tmp_path / "curves.png").stat().st_size > 1000
    for found, simulation in zip(scope["simulations"].values(), simulations, strict=True):
        rows = [message["row"] for message in simulation_messages(simulation)]
        assert [row["generalisation_error"] for row in found] == pytest.approx(
            [row["generalisation_error"] for row in rows], rel=1e-9
        )
    # Axes, branches and simulations are the page's.
    ax = scope["ax"]
    assert ax.get_xlim() == (page.low, page.high)
    labels = [text.get_text().strip() for text in ax.get_legend().get_texts()]
    assert [label.partition(",")[0] for label in labels] == [
        "AMP",
        "barrier",
        "square loss",
        "Bayes-optimal",
        "square loss",
    ]
    assert len(ax.containers) == 2  # symbols of both simulations
    # Overlaps and the free entropy beside it.
    assert scope["second"].get_ylabel() == "q (solid), m (dash-dotted)"
    curve, *extrema = scope["third"].get_lines()
    found = others["landscape"]
    assert np.allclose(curve.get_ydata(), found["free_entropy"], equal_nan=True)
    assert [line.get_ydata()[0] for line in extrema] == [
        point["free_entropy"] for point in found["extrema"]
    ]
    names = [text.get_text() for text in scope["third"].get_legend().get_texts()]
    assert set(names) >= {"best: Bayes-optimal", "reached by AMP", "barrier"}
    assert (
        scope["figure"].get_suptitle()
        == caption(page)
        == "k = 3, Rademacher weights, ridge λ = 0.1"
    )


@pytest.mark.parametrize(
    "values",
    [
        {"estimators": ["square"], "prior": "gaussian", "scale": "log", "error_scale": "log"},
        {"estimators": ["bayes"], "low": 2.7, "high": 2.8},  # all of it at the fold
    ],
)
def test_the_lines_draw_what_has_few_curves(sketched: None, values: dict[str, Any]) -> None:
    page = make_settings({"points": 4, **values})
    scope: dict[str, Any] = {"__name__": "lines"}
    exec(compile(python_lines(page), "lines.py", "exec"), scope)
    assert scope["ax"].get_xscale() == page.scale
    assert len(scope["ax"].get_legend().get_texts()) == (3 if "bayes" in page.estimators else 1)


@pytest.mark.parametrize("model", SETTINGS["model"].words)
@pytest.mark.parametrize(
    ("prior", "simulation"),
    [
        *((prior, "amp") for prior in SETTINGS["prior"].words),
        *(("gaussian", method) for method in SETTINGS["simulation"].words if method != "amp"),
    ],
)
def test_the_lines_are_python_for_every_choice(model: str, prior: str, simulation: str) -> None:
    """Of a prior and a method each is written where the other is not."""
    for rule in SETTINGS["ridge_rule"].words:
        page = make_settings(
            {
                "model": model,
                "prior": prior,
                "simulation": simulation,
                "ridge_rule": rule,
                "estimators": ["bayes", "cross-entropy", "max-margin"],
                "scale": "log",
            }
        )
        lines = python_lines(page, [page])
        compile(lines, "lines.py", "exec")
        assert max(map(len, lines.splitlines())) < 110


@pytest.mark.parametrize("name", SETTINGS["estimators"].words)
def test_every_estimator_is_written_as_it_can_be_made(name: str) -> None:
    page = make_settings({"estimators": name, "simulation": "amp"})
    lines = [line for line in python_lines(page).splitlines() if "import" in line]
    written = next(x for x in python_lines(page).splitlines() if x.startswith("students"))
    scope: dict[str, Any] = {}
    exec("\n".join([*lines, written]), scope)
    assert [one.columns for one in scope["students"]] == [page.estimator(name).columns]


def test_the_learning_figure_marks_the_transitions_and_the_hard_phase(hard: Any) -> None:
    page, curves, others = hard
    found = others["limits"]
    figure = learning_figure(page, curves, found)
    band = next(shape for shape in figure["layout"]["shapes"] if shape.get("fillcolor") == BAND)
    assert (band["x0"], band["x1"]) == (found["alpha_it"], found["alpha_algo"])
    names = [note["text"] for note in figure["layout"]["annotations"]]
    assert names == ["α<sub>IT</sub> = 2.395", "α<sub>algo</sub> = 2.886", "hard phase"]
    name = figure["layout"]["annotations"][-1]  # on its own ground: no line crosses it
    assert (name["bgcolor"], name["x"]) == (BAND, sum(band[end] for end in ("x0", "x1")) / 2)
    bayes = next(trace for trace in figure["data"] if trace["name"] == "Bayes-optimal")
    # The error is partly learnt up to α_IT, falls there, and is zero beyond.
    before = [y for x, y in zip(bayes["x"], bayes["y"], strict=True) if x < found["alpha_it"]]
    after = [y for x, y in zip(bayes["x"], bayes["y"], strict=True) if x > found["alpha_it"]]
    assert min(before) > 0.2
    assert max(after) == 0
    assert max(x for x in bayes["x"] if x < found["alpha_it"]) > 0.9998 * found["alpha_it"]
    assert min(x for x in bayes["x"] if x > found["alpha_it"]) < 1.0002 * found["alpha_it"]
    assert bayes["x"] == sorted(bayes["x"])


def test_hover_texts_carry_uncertainty_ridge_and_status(hard: Any) -> None:
    page, curves, others = hard
    figure = learning_figure(page, curves, others["limits"])
    square = next(trace for trace in figure["data"] if trace["name"] == "square loss")
    assert "±" in square["hovertemplate"]
    for (uncertainty, status, ridge), row in zip(
        square["customdata"], curves["square"], strict=True
    ):
        assert uncertainty == row["uncertainty"]
        assert status == "ok"
        assert ridge == "<br>λ 0.1"


def test_the_figures_are_plain_json_for_everything_that_can_be_shown(hard: Any) -> None:
    page, curves, others = hard
    rows = [
        message["row"]
        for message in simulation_messages(
            make_settings({"dimension": 30, "places": 2, "high": 2.0})
        )
    ]
    symbols = [Simulated(page, rows, 0)]
    for shown in SETTINGS["shown"].words:
        here = make_settings({**page.as_dict(), "shown": shown, "error_scale": "log"})
        figures = [
            learning_figure(here, curves, others["limits"], symbols),
            order_figure(here, curves, symbols),
            landscape_figure(here, others["landscape"], ""),
        ]
        for figure in figures:
            json.dumps(figure, allow_nan=False)
            assert figure["data"] or (shown in SCORES and figure is figures[1])
    (errors,) = [t for t in figures[0]["data"] if t["mode"] == "markers"]
    assert all(error > 0 for error in errors["error_y"]["array"])


def test_noise_is_in_the_figure_the_lines_and_the_caption(sketched: None) -> None:
    """The floor is drawn, and α_s where it is in range; max-margin ends there."""
    page = make_settings(
        {
            "k": 2,
            "prior": "gaussian",
            "noise": "flips",
            "strength": 0.1,
            "low": 1,
            "high": 4,
            "points": 4,
            "estimators": "bayes,square,max-margin",
        }
    )
    curves, others = answers(page)
    limits = others["limits"]
    assert limits["floor"] == pytest.approx(0.1)
    figure = learning_figure(page, curves, limits)
    floor = next(trace for trace in figure["data"] if trace["name"].startswith("floor"))
    assert set(floor["y"]) == {limits["floor"]}
    assert "α<sub>s</sub>" in json.dumps(figure["layout"], ensure_ascii=False)
    far = learning_figure(replace(page, high=2.0), curves, limits)
    assert "<sub>s</sub>" not in json.dumps(far["layout"], ensure_ascii=False)
    shown = {row["alpha"]: row.get("generalisation_error") for row in curves["max-margin"]}
    assert all((shown[a] is None) == (a > limits["alpha_s"]) for a in shown)
    assert caption(page) == "k = 2, Gaussian weights, flipped labels, rate 0.1, ridge λ = 0.1"
    # q of max-margin is cut where the page cuts it, and the axis says so.
    order = order_figure(page, curves)
    ends = order["layout"]["yaxis"]["range"]
    land = landscape_figure(page, others["landscape"], "")
    figures = {"learning": figure, "order": order, "landscape": land}
    scope: dict[str, Any] = {}
    exec(compile(python_lines(page, figures=figures), "lines", "exec"), scope)
    for ax, drawn in zip(scope["axes"][1:], (order, land), strict=True):
        assert ax.get_ylim() == pytest.approx(drawn["layout"]["yaxis"]["range"], rel=1e-5)
    assert scope["second"].get_ylabel() == order["layout"]["yaxis"]["title"]["text"]
    assert scope["second"].get_ylabel().endswith(f", cut at {ends[1]:g}")
    assert (
        max(y.max() for line in scope["second"].get_lines() for y in [line.get_ydata()]) > ends[1]
    )
    table = pd.read_csv("curves.csv")
    assert set(table.noise) == {"flips:0.1"}
    best = table[(table.estimator == "bayes") & (table.branch == "optimal")]
    same = {r["alpha"]: r for r in curves["bayes"] if r["branch"] == "optimal"}
    both = best[best["alpha"].isin(same)]
    assert len(both) >= 2
    for alpha, error in zip(both["alpha"], both["generalisation_error"], strict=True):
        assert error == pytest.approx(same[alpha]["generalisation_error"], abs=2e-4)


def test_nothing_computed_yet_is_an_empty_figure() -> None:
    page = PageSettings()
    assert learning_figure(page, {}, {})["data"] == []
    assert order_figure(page, {})["data"] == []
    assert landscape_figure(page, None, "")["data"] == []


def test_the_landscape_shows_all_extrema_inside_its_frame(hard: Any) -> None:
    page, _, others = hard
    figure = landscape_figure(page, others["landscape"], phase_words(page, others["limits"]))
    low, high = figure["layout"]["yaxis"]["range"]
    for trace in figure["data"][1:]:
        assert low < trace["y"][0] < high
    assert "hard phase" in figure["layout"]["title"]["text"]


def test_the_phase_in_words() -> None:
    found = {"alpha_it": 2.0, "alpha_algo": 3.0}
    words = [phase_words(make_settings({"alpha": a}), found) for a in (1.0, 2.5, 3.5)]
    assert ["impossible" in words[0], "hard" in words[1], "easy" in words[2]] == [True] * 3
    assert "smoothly" in phase_words(make_settings({"prior": "gaussian"}), {})
    assert phase_words(PageSettings(), {}) == ""


def test_correlated_features_are_in_curves_lines_caption_and_picture() -> None:
    settings = make_settings({"k": 2, "prior": "rademacher", "features": "power", "points": 3})
    assert settings.prior == "rademacher"
    assert settings.teacher.features.name == "power:1.2:200"
    tasks = tasks_of(settings)
    assert all((task["features"], task["shape"]) == ("power", 1.2) for task in tasks)
    plain = tasks_of(make_settings({"k": 2, "points": 3}))
    assert {key_of(task) for task in tasks}.isdisjoint({key_of(task) for task in plain})
    assert f'features="{settings.teacher.features.name}"' in python_lines(settings)
    assert "power law, exponent 1.2" in caption(settings)
    assert "eigenvalues from" in spectrum_words(settings.teacher.features.name)
    assert spectrum_words("isotropic") == "every eigenvalue is 1"
    again = from_query(to_query(settings))[0]
    assert again == settings
    (bayes,) = (task for task in tasks if task.get("estimators") == "bayes")
    *_, last = perform(bayes)
    assert {row["features"] for row in last["result"]} == {"power:1.2:200"}
    drawn = learning_figure(settings, {"bayes": last["result"]}, {})["data"]
    assert drawn[0]["name"] == "Bayes-optimal"
    assert drawn[0]["y"] == sorted(drawn[0]["y"], reverse=True)


def test_a_penalty_is_in_curves_lines_caption_simulation_and_link() -> None:
    asked = {"penalty": "elastic-net", "l1": 0.2, "ridge": 0.5, "ridge_rule": "optimal"}
    settings = make_settings({"k": 2, "estimators": "square,max-margin", "points": 2, **asked})
    assert "ridge_rule" in settings.idle  # only a ridge is searched for
    name = "elastic-net:0.2:0.5"
    square, margin = (settings.estimator(one).columns for one in settings.estimators)
    assert square == {"estimator": "square", "penalty": name}
    assert "penalty" not in margin
    assert name in caption(settings)
    assert f'pc.ERM("square", penalty="{name}")' in python_lines(settings)
    assert from_query(to_query(settings))[0] == settings
    (task,) = (task for task in tasks_of(settings) if task.get("estimators") == "square")
    *_, last = perform(task)
    theory = pc.learning_curve(settings.teacher, pc.ERM("square", penalty=name), [0.1, 4.0]).frame
    found = [row["generalisation_error"] for row in last["result"]]
    assert found == pytest.approx(theory["generalisation_error"].tolist(), abs=1e-4)


def test_one_line_does_not_hide_the_others_and_the_axis_says_where_it_is_cut() -> None:
    def rows(name: str, heights: tuple[float, float]) -> list[dict[str, Any]]:
        common = {"estimator": name, "m": 0.5, "status": "ok"}
        return [{**common, "alpha": a, "q": q} for a, q in zip((1.0, 2.0), heights, strict=True)]

    page = make_settings({"prior": "gaussian"})
    tame = {"bayes": rows("bayes", (0.2, 0.5)), "square": rows("square", (0.3, 20.0))}
    assert "range" not in order_figure(page, tame)["layout"]["yaxis"]
    faint = {**tame, "square": rows("square", (0.01, 0.02))}  # one low line cuts no other
    faint["cross-entropy"] = rows("cross-entropy", (1.0, 20.0))
    assert "range" not in order_figure(page, faint)["layout"]["yaxis"]
    wild = {**tame, "max-margin": rows("max-margin", (3.0, 7000.0))}
    axis = order_figure(page, wild)["layout"]["yaxis"]
    assert axis["range"] == [0.0, 10.0]
    assert axis["title"]["text"].endswith("cut at 10")
    for scale, cut in (("linear", True), ("log", False)):
        state = make_settings({"prior": "gaussian", "error_scale": scale})
        assert ("range" in order_figure(state, wild)["layout"]["yaxis"]) is cut


def test_scores_are_computed_when_they_are_shown_and_drawn_where_they_are_known() -> None:
    asked = {"k": 2, "prior": "gaussian", "estimators": "cross-entropy,square", "points": 2}
    plain, page = make_settings(asked), make_settings({**asked, "shown": "test-loss"})
    assert {"shown"} == {name for task in tasks_of(page) for name in task} - {
        name for task in tasks_of(plain) for name in task
    }
    curves, _ = answers(page)
    (trace,) = order_figure(page, curves)["data"]  # the square loss has no probabilities
    assert trace["name"] == "cross-entropy"
    for alpha, loss in zip(trace["x"], trace["y"], strict=True):
        found = pc.calibration(page.teacher, pc.ERM("cross-entropy", page.ridge), alpha)
        assert loss == pytest.approx(found.test_loss, rel=1e-3)


def test_simulations_have_symbols_for_scores_in_the_figure_and_in_what_is_taken_away(
    sketched: None,
) -> None:
    asked = {
        "k": 2,
        "prior": "gaussian",
        "estimators": "cross-entropy",
        "points": 2,
        "low": 1.0,
        "places": 2,
        "dimension": 150,
        "runs": 2,
        "shown": "test-loss",
    }
    page = make_settings(asked)
    runs = [make_settings({**asked, "simulation": name}) for name in ("cross-entropy", "amp")]
    rows = [[message["row"] for message in simulation_messages(one)] for one in runs]
    simulated = [
        Simulated(one, some, i) for i, (one, some) in enumerate(zip(runs, rows, strict=True))
    ]
    curves, _ = answers(page)
    theory, *measured = order_figure(page, curves, simulated)["data"]
    assert [one["mode"] for one in measured] == ["markers"] * 2
    for loss, at, spread in zip(
        measured[0]["y"], theory["y"], measured[0]["error_y"]["array"], strict=True
    ):
        assert loss == pytest.approx(at, abs=0.1)
        assert 0 < spread < 0.1
    assert measured[0]["marker"]["symbol"] != measured[1]["marker"]["symbol"]
    table = pd.read_csv(io.StringIO(to_csv([*rows[0], *curves["cross-entropy"]])))
    assert table["test_loss"].notna().all()
    scope: dict[str, Any] = {"__name__": "lines"}
    exec(compile(python_lines(page, runs), "lines.py", "exec"), scope)
    again = [row["test_loss"] for row in scope["simulations"]["cross-entropy 1"]]
    assert again == [row["test_loss"] for row in rows[0]]
    drawn = [text.get_text() for text in scope["ax"].get_legend().get_texts()]
    assert [label.partition(",")[0] for label in drawn] == ["cross-entropy", "AMP"]
    assert [len(ax.containers) for ax in scope["axes"][:2]] == [2, 2]
    assert without(page, curves, simulated) == ""


def test_branches_are_compared_at_the_same_alpha() -> None:
    """One row of the best that came late does not make a branch of AMP's equal errors."""

    def row(branch: str, alpha: float) -> dict[str, Any]:
        return {"branch": branch, "alpha": alpha, "generalisation_error": 1 / alpha}

    best = [row("optimal", alpha) for alpha in (2.0, 3.0)]
    amp = [row("amp", alpha) for alpha in (1.0, 2.0, 3.0)]
    figure = learning_figure(make_settings({}), {"bayes": [*best, *amp]}, {})
    assert len(figure["data"]) == 1


def test_the_page_says_who_has_nothing_of_what_is_shown() -> None:
    page = make_settings({"shown": "test-loss", "dimension": 50})
    row = {"alpha": 1.0, "generalisation_error": 0.5, "m": 0.5, "q": 0.5}
    curves = {"max-margin": [row], "cross-entropy": [{**row, "test_loss": 1.0}]}
    before = Simulated(make_settings({"dimension": 50}), [row], 0)
    hard = Simulated(make_settings({**page.as_dict(), "simulation": "max-margin"}), [row], 1)
    assert without(page, curves, [before, hard]) == (
        "No test loss of max-margin; max-margin, d = 50 (no probabilities). "
        "No test loss of AMP, d = 50 (started while another was shown: add again)."
    )
    fits = make_settings({"shown": "variance"})
    assert without(fits, {}, [hard]) == "No variance V of max-margin, d = 50."
    assert without(make_settings({}), curves, [before]) == ""


def test_random_features_hide_a_share_that_acts_as_noise() -> None:
    page = make_settings({"k": 2, "features": "random-features", "points": 2})
    assert (page.noisy, page.noise) == (True, "none")
    assert "limits" in {task["kind"] for task in tasks_of(page)}
    lines = python_lines(page)
    assert 'features="random-features:tanh:2"' in lines
    assert "teacher.n_classes, teacher.channel)" in lines
    blurred = make_settings({"features": "random-features", "noise": "softmax", "strength": 2})
    assert blurred.teacher.channel.variance > 0


def test_a_simulation_without_a_row_yet_has_no_symbols() -> None:
    page = make_settings({})
    waiting = [Simulated(page, [], 0)]
    for figure in (learning_figure(page, {}, {}, waiting), order_figure(page, {}, waiting)):
        assert not figure["data"]


@pytest.fixture(scope="module")
def unequal() -> tuple[PageSettings, dict[str, list[dict[str, Any]]], dict[str, Any]]:
    """Two clusters, a tenth of the samples in one."""
    asked = {"model": "mixture", "k": 2, "share2": 0.11, "points": 3, "intercept": "free"}
    page = make_settings({**asked, "low": 0.5, "estimators": "bayes,cross-entropy"})
    curves, points = {}, {}
    for task in tasks_of(page):
        if task["kind"] in ("curve", "point"):
            *_, last = perform(task)
            (curves if task["kind"] == "curve" else points)[task["estimators"]] = last["result"]
    return page, curves, points


def test_recall_is_a_line_for_each_class_and_the_confusion_matrix_a_picture(unequal: Any) -> None:
    page, curves, points = unequal
    figure = order_figure(page, curves)
    names = [trace["name"] for trace in figure["data"]]
    assert names == [
        f"{who}, class {c}" for c in (1, 2) for who in ("Bayes-optimal", "cross-entropy")
    ]
    assert figure["data"][1]["line"]["dash"] != figure["data"][3]["line"]["dash"]
    # The legend has the colours, the title the dashes: with more classes it would hide the lines.
    assert [trace["showlegend"] for trace in figure["data"]] == [True, True, False, False]
    assert figure["layout"]["title"]["text"] == "class 1 solid, 2 dashed"
    at = page.alpha
    student = pc.ERM("cross-entropy", 0.1, intercept=True)
    exact = pc.erm_fixed_point(page.teacher, student, at)
    (cells,) = confusion_figure(page, points)["data"]
    chance = {
        words: z for words, z in zip(cells["hovertext"], cells["z"], strict=True) if z is not None
    }
    assert len(chance) == 8
    for c in (0, 1):
        recall = chance[f"cross-entropy, class {c + 1}, guess {c + 1}"]
        assert recall == pytest.approx(exact.recall[c], abs=1e-4)
        other = chance[f"cross-entropy, class {c + 1}, guess {2 - c}"]
        assert recall + other == pytest.approx(1.0)
    assert json.dumps(confusion_figure(page, {}), allow_nan=False)
    balanced = order_figure(page.changed(shown="balanced-error"), curves)["data"]
    assert [trace["name"] for trace in balanced] == ["Bayes-optimal", "cross-entropy"]


def test_a_population_is_in_the_lines(sketched: None, unequal: Any) -> None:
    page, curves, points = unequal
    run = page.changed(simulation="cross-entropy", dimension=30, places=2, runs=2)
    scope: dict[str, Any] = {"__name__": "lines"}
    exec(compile(python_lines(page, [run]), "lines.py", "exec"), scope)
    assert repr(scope["teacher"]) == repr(page.teacher)
    table = pd.read_csv("curves.csv")
    known = {row["alpha"]: row["recall"] for row in curves["cross-entropy"]}
    same = table[(table["estimator"] == "cross-entropy") & table["alpha"].isin(known)]
    assert len(same) >= 2
    for alpha, text in zip(same["alpha"], same["recall"], strict=True):
        found, wanted = ([float(x) for x in t.split(",")] for t in (text, known[alpha]))
        assert found == pytest.approx(wanted, abs=1e-3)
    assert len({line.get_linestyle() for line in scope["second"].get_lines()}) >= 2
    chance = np.asarray(scope["third"].get_images()[0].get_array())  # two blocks and a gap
    assert chance.shape == (2, 5)
    recalls = [float(x) for x in points["cross-entropy"][0]["recall"].split(",")]
    assert [chance[0, 3], chance[1, 4]] == pytest.approx(recalls, abs=1e-3)
    (rows,) = scope["simulations"].values()
    assert [row["recall"] for row in rows] == [m["row"]["recall"] for m in simulation_messages(run)]


def test_a_page_for_a_lecture_needs_nothing_from_elsewhere(hard: Any) -> None:
    page, curves, others = hard
    figures = {"Learning curves": learning_figure(page, curves, others["limits"])}
    text = page_html(page, figures, "a < b & </script>", "print('<script>')")
    before, _, after = text.partition("<script>")
    script, _, rest = after.partition("</script>")
    assert len(script) > 1_000_000  # plotly itself
    assert "src=" not in before + rest
    assert "a &lt; b &amp; &lt;/script&gt;" in rest
    assert "print(&#39;&lt;script&gt;&#39;)" in rest
    data = rest.partition("<script>")[2].partition(".forEach")[0]
    (again,) = json.loads(data)
    assert again == json.loads(json.dumps(figures["Learning curves"]))
