"""What figures are made of: profiles, computations, specifications, the gallery, the shell."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from polyceptron.cli import app
from polyceptron.cli.side_files import check_figure_files
from polyceptron.errors import InvalidInput
from polyceptron.report.figures.computations import Computation, run_computations
from polyceptron.report.figures.figure_rows import run_rows
from polyceptron.report.figures.gallery import gallery_html
from polyceptron.report.figures.making import (
    COMPUTED,
    FIGURES,
    choose_figures,
    files_of_figures,
    make_figures,
    make_folder,
)
from polyceptron.report.figures.profiles import PROFILES, Profile, as_profile
from polyceptron.report.figures.pruned_figure import fitted_pruned_rows

pytestmark = pytest.mark.process

TINY = Profile("tiny", trace_dimension=100, amp_runs=2, symbols=4, line_points=12)
NAMES = [
    "fig2a",
    "fig2b",
    "fig3",
    "fig4a",
    "fig4b",
    "fig4c",
    "fig4d",
    "classes",
    "transitions",
    "double-descent",
    "amp-trajectory",
    "margins",
    "rivals",
    "one-pass",
    "choosing-data",
    "noisy-curves",
    "separability",
    "calibration",
    "noisy-phases",
    "sets",
    "imbalance",
    "mixtures",
    "twins",
    "evidence",
]


def counted(value: int, calls: str = "") -> list[dict[str, int]]:
    """A computation's function: one row, and a mark in a file for each call."""
    if calls:
        with open(calls, "a") as file:
            file.write("x")
    return [{"value": value}]


def test_all_figures_are_there_in_order() -> None:
    assert list(FIGURES) == NAMES
    assert [figure.name for figure in choose_figures(["fig3", "fig2a"])] == ["fig2a", "fig3"]


def test_an_unknown_name_or_profile_gets_a_sentence_that_lists_the_known() -> None:
    with pytest.raises(InvalidInput, match=r"'fig9'.*fig2a.*margins"):
        choose_figures(["fig3", "fig9"])
    with pytest.raises(InvalidInput, match=r"'huge'.*quick.*paper"):
        as_profile("huge")


@pytest.mark.parametrize("profile", [*PROFILES.values(), TINY], ids=lambda p: p.name)
@pytest.mark.parametrize("name", NAMES)
def test_specifications_read_back(name: str, profile: object) -> None:
    figure = FIGURES[name]
    text = figure.toml(profile)  # type: ignore[arg-type]
    values = tomllib.loads(text)
    assert len(values["computation"]) == len(figure.computations(profile))  # type: ignore[arg-type]
    assert f"--only {name}" in text


def test_the_paper_profile_has_the_papers_sizes() -> None:
    sizes: dict[bool, set[tuple[int, int]]] = {True: set(), False: set()}
    for name, figure in FIGURES.items():  # the paper's own, and further ones
        for one in figure.computations(PROFILES["paper"]):
            if one.function is run_rows and one.arguments["estimator"] != "bayes":
                found = one.arguments["dimension"], one.arguments["instances"]
                sizes[name.startswith("fig")].add(found)
    assert sizes == {True: {(1000, 250)}, False: {(1000, 50)}}
    runs = [
        one.arguments
        for name in ("fig2a", "fig3", "classes")
        for one in FIGURES[name].computations(PROFILES["paper"])
        if "instances" in one.arguments
    ]
    assert {(one["dimension"], one["instances"]) for one in runs} == {(1000, 20)}


def test_equal_computations_run_once_and_are_kept(tmp_path: Path) -> None:
    calls, folder = str(tmp_path / "calls"), tmp_path / "kept"
    asked = [Computation(counted, {"value": v, "calls": calls}) for v in (1, 2, 1)]
    seen = []
    results = run_computations(asked, folder, 1, lambda now: seen.append((now.done, now.rows)))
    assert results[asked[0].key] == [{"value": 1}]
    assert Path(calls).read_text() == "xx"
    assert seen == [(1, 2), (2, 2)]
    assert run_computations(asked, folder, 1) == results
    assert Path(calls).read_text() == "xx", "computed again"


def test_an_interrupted_run_keeps_what_it_had(tmp_path: Path) -> None:
    calls, folder = str(tmp_path / "calls"), tmp_path / "kept"
    asked = [Computation(counted, {"value": v, "calls": calls}) for v in (1, 2, 3)]

    def stop(now: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_computations(asked, folder, 1, stop)
    results = run_computations(asked, folder, 1)
    assert len(results) == 3
    assert Path(calls).read_text() == "xxx", "the first was computed again"
    (one, *_) = folder.glob("*.json")
    one.write_text("{")  # damaged: computed again
    assert run_computations(asked, folder, 1) == results


def test_message_passing_runs_once_for_all_figures_that_show_it() -> None:
    asked = [one.key for name in ("fig2a", "fig2b") for one in FIGURES[name].computations(TINY)]
    assert len(set(asked)) == len(asked) / 2


def test_a_mean_over_fits_to_chosen_samples_has_a_standard_error() -> None:
    """Its bar is no uncertainty of 99 %."""
    (row,) = fitted_pruned_rows("hard", alpha=3.0, dimension=20, instances=2)
    assert row["generalisation_error_standard_error"] > 0
    assert row.get("uncertainty") is None


def test_gallery_escapes_and_links() -> None:
    page = gallery_html([FIGURES["fig2a"]])
    assert page.startswith("<!DOCTYPE html>")
    for part in ("fig2a.png", "fig2a.pdf", "fig2a.csv", "fig2a.toml", "alt="):
        assert part in page
    assert "α<sub>IT</sub>" in page
    assert "http" not in page


def test_out_must_be_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="is a file"):
        make_folder(tmp_path / "file")
    with pytest.raises(InvalidInput, match="cannot make the folder"):
        make_folder(tmp_path / "file" / "below")


def test_one_figure_alone_and_again(tmp_path: Path) -> None:
    """A figure of jobs alone needs no store; the gallery shows what the folder has."""
    out = tmp_path / "new" / "folder"
    written = make_figures(out, ["amp-trajectory"], TINY, workers=1)
    assert {path.name for path in written} == {
        "amp-trajectory.csv",
        "amp-trajectory.toml",
        "amp-trajectory.pdf",
        "amp-trajectory.png",
        "index.html",
        "agreement.csv",
    }
    before = {path.name: path.read_bytes() for path in written}
    assert len(list((out / COMPUTED).iterdir())) == 3
    make_figures(out, ["amp-trajectory"], TINY, workers=1)
    assert {path.name: path.read_bytes() for path in written} == before, "not reproducible"


def test_shell_refuses_unknown_names_before_any_work(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["figures", "--out", str(tmp_path / "o"), "--only", "fig9"])
    assert isinstance(result.exception, InvalidInput)
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize("kept", ["index.html", COMPUTED])
def test_a_folder_made_by_figures_is_known_again(tmp_path: Path, kept: str) -> None:
    """By the gallery, also if the computations were deleted; by these, if a run was stopped."""
    (tmp_path / "fig3.pdf").write_text("a picture")
    files = files_of_figures(tmp_path, ["fig3"])
    with pytest.raises(InvalidInput, match=r"fig3.pdf.*polyceptron did not make it"):
        check_figure_files(tmp_path, files, overwrite=False)
    check_figure_files(tmp_path, files, overwrite=True)
    if kept == COMPUTED:
        spec = FIGURES["fig3"].computations(as_profile("quick"))[0]
        (tmp_path / COMPUTED).mkdir()
        (tmp_path / COMPUTED / spec.key).write_text("{}")
    else:
        (tmp_path / kept).write_text(gallery_html([FIGURES["fig3"]]), encoding="utf-8")
    check_figure_files(tmp_path, files, overwrite=False)


def test_the_folder_has_a_default() -> None:
    result = CliRunner().invoke(app, ["figures", "--help"])
    assert "[default: figures]" in " ".join(result.output.replace("│", " ").split())


def test_importing_the_command_line_does_not_import_figures() -> None:
    code = (
        "import sys, polyceptron.cli; "
        "sys.exit(any(m.split('.')[0] in ('matplotlib', 'pandas') for m in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
