"""The table behind each figure satisfies what the figure claims, and every figure renders.

All figures are made once, small, into one folder; the claims are checked on the CSV files, as a
reader gets them. Simulations are compared within 5 standard errors (few instances make these
rough) plus a finite-size allowance of `ALLOWANCE`/d, stated in each comparison.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from tests.references.known_values import ARGMAX_OF_THREE, ARGMAX_OF_TWO, PERCEPTRON

from polyceptron.pictures.matplotlib_figure import save_figure
from polyceptron.pictures.parts import SHEET
from polyceptron.pictures.plotly_figure import render_plotly
from polyceptron.report.figures import making
from polyceptron.report.figures.agreement import verdict
from polyceptron.report.figures.making import FIGURES, make_figures
from polyceptron.report.figures.profiles import Profile
from polyceptron.rows import COLUMNS

pytestmark = [pytest.mark.slow, pytest.mark.process]

SMALL = Profile(
    "small",
    amp_dimension=200,
    amp_runs=5,
    trace_dimension=400,
    erm_dimension=120,
    erm_instances=6,
    further_instances=6,
    noisy_instances=4,
    line_points=7,
    symbols=4,
    classes=(2, 3, 5),
    amp_classes=(2,),
    amp_classes_dimension=200,
    amp_classes_runs=5,
    error_tolerance=0.01,
    transition_tolerance=0.1,
    transition_classes=(2, 3, 4),
    rival_points=2,
    rival_ridge=0.1,
    separable_dimension=14,
    separable_instances=2,
)
ALLOWANCE = 2.0
STANDARD_ERROR = "generalisation_error_standard_error"
SIGMAS = 5.0


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Figure]]:
    """Every figure, made once; few are saved: no claim looks at files, texts are drawn below."""
    folder, figures = tmp_path_factory.mktemp("figures"), dict[str, Figure]()

    def save(figure: Figure, path: Path) -> None:
        figures[path.stem] = figure
        if path.stem == "margins":
            save_figure(figure, path)
        else:
            path.write_bytes(b"%PDF" if path.suffix == ".pdf" else b"\x89PNG")

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(SHEET, "pdf.fonttype", 3)  # embedding whole fonts takes a while,
        patch.setitem(SHEET, "savefig.dpi", 75)  # and so do many pixels
        patch.setattr(making, "save_figure", save)
        make_figures(folder, profile=SMALL, workers=1)
    return folder, figures


@pytest.fixture(scope="module")
def folder(made: tuple[Path, dict[str, Figure]]) -> Path:
    return made[0]


@pytest.fixture(scope="module")
def tables(folder: Path) -> dict[str, pd.DataFrame]:
    return {name: pd.read_csv(folder / f"{name}.csv") for name in FIGURES}


@pytest.fixture(scope="module")
def drawn(made: tuple[Path, dict[str, Figure]]) -> dict[str, Figure]:
    return made[1]


def rows(table: pd.DataFrame, **columns: object) -> pd.DataFrame:
    for name, value in columns.items():
        table = table[table[name] == value]
    return table.sort_values("alpha", kind="stable")


def assert_agree(measured: pd.DataFrame, line: pd.DataFrame, x: str, y: str, error: str) -> None:
    """Symbols on the line, within SIGMAS standard errors plus ALLOWANCE/d."""
    predicted = line.drop_duplicates(x).set_index(x)[y].loc[measured[x]].to_numpy()
    room = SIGMAS * measured[error] + ALLOWANCE / measured["dimension"]
    assert len(measured) > 0
    assert (abs(measured[y] - predicted) < room).all(), (measured[y] - predicted) / room


def transition(table: pd.DataFrame, branch: str, model: str = "argmax", k: int = 3) -> float:
    found = rows(table, branch=branch, model=model, n_classes=k)
    return float(found["alpha"].iloc[0])


def test_every_figure_leaves_its_four_files(folder: Path) -> None:
    for name in FIGURES:
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (folder / f"{name}.pdf").read_bytes().startswith(b"%PDF")
        assert len(pd.read_csv(folder / f"{name}.csv")) > 1
        text = (folder / f"{name}.toml").read_text(encoding="utf-8")
        values = tomllib.loads(text)
        assert values["computation"]
    assert not list(folder.glob(".*")), "half-written files are left behind"


def test_symbols_lie_as_far_from_their_lines_as_chance_allows(folder: Path) -> None:
    found = pd.read_csv(folder / "agreement.csv")
    assert set(found["figure"]) >= {"fig2a", "fig2b", "fig3", "fig4a", "fig4b", "fig4c", "fig4d"}
    assert verdict(found).by_chance, found.sort_values("p").head(10)
    wrong = found.assign(p=found["p"].where(found.index != found.index[0], 1e-9), judged=True)
    assert not verdict(wrong).by_chance


def test_tables_have_the_common_columns(tables: dict[str, pd.DataFrame]) -> None:
    for name, table in tables.items():
        known = [column for column in table if column in COLUMNS]
        assert list(table.columns[: len(known)]) == known, name
        assert {"source", "model", "n_classes", "estimator", "alpha"} <= set(known), name
        assert "prior" in known or set(table["model"]) == {"mixture"}, name
        simulated = table[table["source"].isin(["amp", "erm"])]
        if len(simulated):
            assert (simulated["instances"] > 1).all(), name
            assert simulated["dimension"].notna().all(), name


def test_gallery_shows_all_and_needs_nothing_from_elsewhere(folder: Path) -> None:
    page = (folder / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"https?://|src=\"//|@import|<script", page)
    links = set(re.findall(r"(?:href|src)=\"([^\"#]+)\"", page))
    assert all((folder / link).is_file() for link in links)
    assert {f"{name}.{kind}" for name in FIGURES for kind in ("png", "pdf", "csv", "toml")} <= links


def test_free_entropies_cross_at_the_transition(tables: dict[str, pd.DataFrame]) -> None:
    table = tables["fig2a"]
    at_it, at_algo = transition(table, "alpha_IT"), transition(table, "alpha_algo")
    assert (at_it, at_algo) == pytest.approx(ARGMAX_OF_THREE, abs=1e-6)
    amp = rows(table, source="theory", branch="amp")
    amp = amp[amp["alpha"] < at_algo]
    perfect = rows(table, branch="informed")["free_entropy"]
    assert perfect.to_numpy() == pytest.approx(-11 / 4 * math.log(2), abs=1e-9)
    gap = amp["free_entropy"].to_numpy() - perfect.iloc[0]
    crossing = np.interp(0, -gap, amp["alpha"])
    assert crossing == pytest.approx(at_it, abs=1e-4)
    assert abs(crossing - 2.45) > 0.05, "the printed value would pass too"


def test_bayes_jumps_at_one_transition_and_amp_at_the_other(
    tables: dict[str, pd.DataFrame],
) -> None:
    table = tables["fig2a"]
    for branch, name in (("optimal", "alpha_IT"), ("amp", "alpha_algo")):
        line = rows(table, source="theory", branch=branch)
        after = line["alpha"] > transition(table, name)
        assert (line.loc[after, "generalisation_error"] == 0).all()
        assert line.loc[~after, "generalisation_error"].min() > 0.1


@pytest.mark.parametrize("name", ["fig2a", "fig3"])
def test_message_passing_attains_its_theory(tables: dict[str, pd.DataFrame], name: str) -> None:
    table = tables[name]
    amp = rows(table, source="amp").dropna(subset="generalisation_error")
    if name == "fig2a":  # near the transition a finite size rounds the jump
        amp = amp[abs(amp["alpha"] - transition(table, "alpha_algo")) > 0.5]
    branch = "amp" if name == "fig2a" else "optimal"
    line = rows(table, source="theory", branch=branch)
    assert_agree(amp, line, "alpha", "generalisation_error", STANDARD_ERROR)


@pytest.mark.parametrize("name", ["fig2b", "fig3"])
def test_measured_entries_are_two_q_and_q(tables: dict[str, pd.DataFrame], name: str) -> None:
    table = tables[name]
    amp = rows(table, source="amp").dropna(subset="q00")
    if name == "fig2b":
        amp = amp[abs(amp["alpha"] - ARGMAX_OF_THREE.alpha_algo) > 0.5]
    line = rows(table, source="theory", branch="amp" if name == "fig2b" else "optimal")
    for entry, factor in (("q00", 2), ("q01", 1)):
        theory = line.assign(**{entry: factor * line["q"]})
        assert_agree(amp, theory, "alpha", entry, f"{entry}_standard_error")
    with pytest.raises(AssertionError):  # the comparison can tell the entries apart
        assert_agree(amp, line.assign(q00=line["q"]), "alpha", "q00", "q00_standard_error")


def test_bayes_is_below_every_estimator(tables: dict[str, pd.DataFrame]) -> None:
    for name in ("fig4a", "fig4b"):
        theory = rows(tables[name], source="theory")
        bayes = theory[theory["estimator"] == "bayes"].set_index("alpha")["generalisation_error"]
        others = theory[(theory["estimator"] != "bayes") & theory["alpha"].isin(bayes.index)]
        assert len(others) > 10
        best = bayes.loc[others["alpha"]].to_numpy()
        assert (others["generalisation_error"].to_numpy() > best - 1e-6).all()


@pytest.mark.parametrize("name", ["fig4a", "fig4b", "double-descent"])
def test_fits_lie_on_the_theory_against_alpha(tables: dict[str, pd.DataFrame], name: str) -> None:
    table = tables[name]
    for (estimator, ridge), fits in rows(table, source="erm").groupby(["estimator", "ridge"]):
        line = rows(table, source="theory", estimator=estimator)
        line = line[line["ridge"].fillna(0) == ridge]
        # The peak of the minimum-norm solution is rounded at a finite size.
        away = (abs(fits["alpha"] - 1) > 0.3) | (ridge > 0) | (estimator != "square")
        assert_agree(fits[away], line, "alpha", "generalisation_error", STANDARD_ERROR)


def test_fits_lie_on_the_theory_in_training_too(tables: dict[str, pd.DataFrame]) -> None:
    table = tables["double-descent"]
    for ridge in (0.01, 1.0):
        fits = rows(table, source="erm", estimator="square", ridge=ridge)
        line = rows(table, source="theory", estimator="square", ridge=ridge)
        for name in ("training_error", "training_loss"):
            assert_agree(fits, line, "alpha", name, f"{name}_standard_error")


def test_the_peak_is_where_the_samples_equal_the_dimensions(
    tables: dict[str, pd.DataFrame],
) -> None:
    table = tables["double-descent"]
    line = rows(table, source="theory", estimator="square", ridge=0.0)
    line = line[line["alpha"] > 0]  # without data every error is that of a guess
    assert line.loc[line["generalisation_error"].idxmax(), "alpha"] == 1.0
    assert (line.loc[line["alpha"] < 1, "training_error"] == 0).all()
    ridged = rows(table, source="theory", estimator="square", ridge=1.0)
    assert (np.diff(ridged["generalisation_error"]) < 0).all()


@pytest.mark.parametrize(
    ("estimator", "exponent"), [("bayes", 1), ("cross-entropy", 2 / 3), ("square", 1 / 2)]
)
def test_slopes_at_plentiful_data_are_the_drawn_ones(
    tables: dict[str, pd.DataFrame], estimator: str, exponent: float
) -> None:
    line = rows(tables["fig4b"], source="theory", estimator=estimator)
    log = np.log(line[["alpha", "generalisation_error"]].to_numpy())
    local = -np.diff(log[:, 1]) / np.diff(log[:, 0])
    assert local[-1] == pytest.approx(exponent, abs=0.01)
    assert abs(local[-1] - exponent) < abs(local[-3] - exponent) + 1e-3, "not approached"


@pytest.mark.parametrize("name", ["fig4c", "fig4d"])
def test_the_marked_ridge_is_the_best(tables: dict[str, pd.DataFrame], name: str) -> None:
    table = tables[name]
    marked = table["branch"] == "best-ridge"
    for alpha, some in table[~marked].groupby("alpha"):
        line, fits = rows(some, source="theory"), rows(some, source="erm")
        best = table[marked & (table["alpha"] == alpha)].iloc[0]
        assert best["generalisation_error"] < line["generalisation_error"].min() + 1e-7
        lowest = line.loc[line["generalisation_error"].idxmin(), "ridge"]
        spacing = np.diff(np.log(np.sort(line["ridge"]))).max()
        assert abs(math.log(best["ridge"] / lowest)) <= spacing
        assert_agree(fits, line, "ridge", "generalisation_error", STANDARD_ERROR)
    if name == "fig4d":  # (k − 1)²/(k E_max²) − 1, E_max = 3/(2√π) for three normals
        assert np.allclose(table.loc[marked, "ridge"], 4 / (3 * 9 / (4 * math.pi)) - 1)


def test_more_classes_are_harder_and_fall_alike(tables: dict[str, pd.DataFrame]) -> None:
    table = tables["classes"]
    theory = table[table["source"] == "theory"]
    errors = theory.pivot_table("generalisation_error", "alpha", "n_classes").dropna()
    assert (np.diff(errors.to_numpy(), axis=1) > 0).all()
    last = errors.loc[errors.index.max()] * errors.index.max()
    for k, scaled in last.items():  # C_k = (k − 1) C_2; the approach is slower for larger k
        assert scaled == pytest.approx((k - 1) * 0.4417, rel=0.02 * k)
    for k, runs in table[table["source"] == "amp"].groupby("n_classes"):
        line = theory[theory["n_classes"] == k]
        assert_agree(runs, line, "alpha", "generalisation_error", STANDARD_ERROR)


def test_transitions_are_ordered_and_rise_with_the_classes(
    tables: dict[str, pd.DataFrame],
) -> None:
    table = tables["transitions"]
    wide = table[table["model"] == "argmax"].pivot_table("alpha", "n_classes", "branch")
    assert (wide["alpha_IT"] < wide["alpha_algo"]).all()
    assert (np.diff(wide.to_numpy(), axis=0) > 0).all()
    known = {("argmax", 2): ARGMAX_OF_TWO, ("perceptron", 2): PERCEPTRON}
    for (model, k), values in known.items():
        for branch, value in zip(("alpha_IT", "alpha_algo"), values, strict=True):
            assert transition(table, branch, model, k) == pytest.approx(value, abs=2e-6)


def test_message_passing_follows_state_evolution(tables: dict[str, pd.DataFrame]) -> None:
    table = tables["amp-trajectory"]
    for alpha, some in table.groupby("alpha"):
        runs, line = rows(some, source="amp"), rows(some, source="theory")
        assert runs["iteration"].iloc[0] == 0
        if alpha > 3:  # the escape takes runs of a finite size a little longer
            runs = runs[(runs["iteration"] < 4) | (runs["iteration"] > 15)]
        room = SIGMAS * runs[STANDARD_ERROR].fillna(0) + 3 * ALLOWANCE / runs["dimension"]
        predicted = line.set_index("iteration")["generalisation_error"].loc[runs["iteration"]]
        assert (abs(runs["generalisation_error"].to_numpy() - predicted.to_numpy()) < room).all()


def test_margin_laws_are_laws(tables: dict[str, pd.DataFrame], folder: Path) -> None:
    from polyceptron.problem import ERM, Teacher
    from polyceptron.theory.erm.fixed_point import erm_fixed_point

    table = tables["margins"]
    for loss, some in table.groupby("estimator"):
        atoms = some.dropna(subset="atom").set_index("source")
        for kind, law in some.dropna(subset="density").groupby("samples"):
            theory, fits = (
                law[law["source"] == s].sort_values("margin") for s in ("theory", "erm")
            )
            density, margin = theory["density"].to_numpy(), theory["margin"].to_numpy()
            atom = atoms.loc["theory", "atom"] if len(atoms) and kind == "training" else 0.0
            assert np.trapezoid(density, margin) + atom == pytest.approx(1, abs=0.02)
            if kind == "fresh":  # a negative margin is an error
                estimator = ERM(loss, some["ridge"].iloc[0])
                point = erm_fixed_point(Teacher(3), estimator, some["alpha"].iloc[0])
                fine = np.linspace(margin[0], 0, 2001)
                wrong = np.trapezoid(np.interp(fine, margin, density), fine)
                assert wrong == pytest.approx(point.generalisation_error, abs=2e-3)
            width = fits["margin"].diff().iloc[-1]
            inner = fits[(fits["margin"] - 1).abs() > width]  # no cell that the atom may touch
            cells = [
                np.interp(np.linspace(x - width / 2, x + width / 2, 21), margin, density).mean()
                for x in inner["margin"]
            ]
            room = SIGMAS * inner["density_standard_error"] + 0.02 * density.max()
            assert (abs(inner["density"] - cells) < room).all(), (loss, kind)
        if len(atoms):
            room = (
                SIGMAS * atoms.loc["erm", "atom_standard_error"] + ALLOWANCE / SMALL.erm_dimension
            )
            assert abs(atoms.loc["erm", "atom"] - atoms.loc["theory", "atom"]) < room


def test_ways_of_treating_a_rare_class(tables: dict[str, pd.DataFrame]) -> None:
    table = tables["imbalance"]
    theory = table[table["source"] == "theory"]
    error, recall = (
        theory.pivot(index="alpha", columns="way", values=y)
        for y in (
            "balanced_error",
            "rare_recall",
        )
    )
    assert (error["best weights"] < error["balanced weights"]).all()
    assert (error["balanced weights"] < error["no weights"]).all()
    for way in ("best shift", "undersampled"):  # the middle of both means: equal recalls
        assert np.allclose(error[way], 1 - recall[way], atol=1e-5)
    assert (error["best shift"] < error["undersampled"]).all()
    crossing = error["undersampled"] - error["balanced weights"]
    assert crossing.iloc[0] < 0 < crossing.iloc[-1], "the ways no longer cross"
    for way, fits in rows(table, source="erm").groupby("way"):
        line = rows(table, source="theory", way=way)
        spread = "balanced_error_standard_error"
        assert_agree(fits, line, "alpha", "balanced_error", spread)


def test_variances_of_their_own(tables: dict[str, pd.DataFrame]) -> None:
    table = tables["mixtures"]
    floor = rows(table, branch="floor").drop_duplicates("ratio").set_index("ratio")
    tail = [math.erfc((1 + s * math.log(4) / 2) / math.sqrt(2)) / 2 for s in (1, -1)]
    exact = 0.8 * tail[0] + 0.2 * tail[1]  # Fisher's rule at distance 2
    assert floor["generalisation_error"].loc[1.0] == pytest.approx(exact, abs=1e-9)
    for _, some in table[table["branch"] != "floor"].groupby("alpha"):
        line, fits = rows(some, source="theory"), rows(some, source="erm")
        below = floor["generalisation_error"].loc[line["ratio"]].to_numpy()
        assert (line["generalisation_error"].to_numpy() > below).all()
        assert_agree(fits, line, "ratio", "generalisation_error", STANDARD_ERROR)


def test_the_page_draws_the_same_numbers(
    tables: dict[str, pd.DataFrame], drawn: dict[str, Figure]
) -> None:
    for name, table in tables.items():
        picture = FIGURES[name].picture(table)
        panels = [p for top in picture.panels for p in (top, top.inset) if p is not None]
        page = []
        for panel in panels:  # a band is for paper alone
            traces = tuple(trace for trace in panel.traces if trace.kind != "band")
            page += render_plotly(dataclasses.replace(panel, traces=traces))["data"]
        json.dumps(page, allow_nan=False)
        lines = [
            np.asarray(line.get_ydata(), dtype=float)
            for line in drawn[name].findobj(Line2D)
            if len(line.get_xdata()) > 0
        ]
        for one in page:
            y = np.array([np.nan if value is None else value for value in one["y"]])
            same = [len(y) == len(d) and np.array_equal(y, d, equal_nan=True) for d in lines]
            assert any(same), (name, one["name"])


def test_no_text_lies_on_other_text(drawn: dict[str, Figure]) -> None:
    for name, figure in drawn.items():
        figure.draw_without_rendering()
        hidden = unseen(figure)
        boxes = [
            (text.get_text(), text.get_window_extent())
            for text in figure.findobj(Text)
            if text.get_visible() and text.get_text().strip() and text not in hidden
        ]
        for i, (words, box) in enumerate(boxes):
            assert box.x0 > -1, f"{name}: {words!r} is cut off"
            assert box.x1 < figure.bbox.x1 + 1, f"{name}: {words!r} is cut off"
            for other, second in boxes[i + 1 :]:
                across = min(box.x1, second.x1) - max(box.x0, second.x0)
                down = min(box.y1, second.y1) - max(box.y0, second.y0)
                assert across < 1 or down < 1, f"{name}: {words!r} and {other!r}"


def unseen(figure: Figure) -> set[Text]:
    """Labels of ticks outside the view, which exist and are not drawn."""
    found = set()
    for ax in figure.findobj(Axes):
        for axis in (ax.xaxis, ax.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                if not low <= tick.get_loc() <= high:
                    found |= {tick.label1, tick.label2}
    return found
