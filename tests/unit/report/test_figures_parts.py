"""What figures are made of: profiles, jobs, specifications, means, the gallery, the shell."""

from __future__ import annotations

import math
import subprocess
import sys
import tomllib
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from polyceptron.cli import app
from polyceptron.errors import InvalidInput
from polyceptron.experiments import parse_spec
from polyceptron.report.figures import FIGURES, PROFILES, choose_figures, estimate, make_figures
from polyceptron.report.figures.jobs import Job, run_jobs
from polyceptron.report.figures.profile import TINY, as_profile
from polyceptron.report.figures.run import make_folder, merged_sweep
from polyceptron.report.figures.table import count_failures, summarise_instances, tidy
from polyceptron.report.gallery import gallery_html

NAMES = [
    "fig2a", "fig2b", "fig3", "fig4a", "fig4b", "fig4c", "fig4d", "classes", "transitions",
    "double-descent", "amp-trajectory", "margins",
]  # fmt: skip


def counted(value: int, calls: str = "") -> list[dict[str, int]]:
    """A job's function: one row, and a mark in a file for each call."""
    if calls:
        with open(calls, "a") as file:
            file.write("x")
    return [{"value": value}]


def instance(seed: int, error: float | None, status: str = "ok") -> dict[str, object]:
    row: dict[str, object] = {
        "source": "erm", "model": "argmax", "n_classes": 3, "prior": "gaussian",
        "estimator": "square", "ridge": 1.0, "alpha": 2.0, "dimension": 10, "n_samples": 20,
        "seed": seed, "status": status,
    }  # fmt: skip
    return row if error is None else row | {"generalisation_error": error, "q": 2 * error}


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
    if figure.grids(profile):  # type: ignore[arg-type]
        assert parse_spec(text) == figure.sweep(profile)  # type: ignore[arg-type]
    else:
        assert len(values["job"]) == len(figure.jobs(profile))  # type: ignore[arg-type]
    assert f"--only {name}" in text


def test_the_paper_profile_has_the_papers_sizes() -> None:
    spec = merged_sweep(list(FIGURES.values()), PROFILES["paper"])
    assert spec is not None
    fits = [grid for grid in spec.grid if "erm" in grid.sources]
    assert {(tuple(grid.dimension), grid.instances) for grid in fits} == {((1000,), 250)}
    runs = [grid for grid in spec.grid if "amp" in grid.sources]
    assert {(tuple(grid.dimension), grid.instances) for grid in runs} == {((1000,), 20)}


def test_paper_takes_longer_than_quick() -> None:
    figures = list(FIGURES.values())
    assert estimate(figures, "paper").seconds > 10 * estimate(figures, "quick").seconds > 0


def test_equal_jobs_run_once(tmp_path: Path) -> None:
    calls = str(tmp_path / "calls")
    jobs = [Job(counted, {"value": v, "calls": calls}) for v in (1, 2, 1)]
    seen = []
    results = run_jobs(jobs, 1, lambda now: seen.append((now.done, now.rows)))
    assert results[jobs[0].key] == [{"value": 1}]
    assert Path(calls).read_text() == "xx"
    assert seen == [(1, 2), (2, 2)]


def test_means_and_standard_errors_of_instances() -> None:
    theory = {"source": "theory", "alpha": 2.0, "generalisation_error": 0.25}
    rows = summarise_instances(
        [theory, instance(1, 0.1), instance(2, 0.4, "not-converged"), instance(3, None, "failed")]
    )
    assert rows[0] == theory
    mean = rows[1]
    assert mean["generalisation_error"] == pytest.approx(0.25)
    assert mean["uncertainty"] == pytest.approx(0.15)  # spread 0.3/√2 over √2
    assert mean["q_standard_error"] == pytest.approx(0.3)
    assert (mean["instances"], mean["not_converged"], mean["failed"]) == (2, 1, 1)
    assert mean["status"] == "not-converged"
    assert "seed" not in mean
    table = tidy(rows)
    assert list(table.columns[:2]) == ["source", "model"]
    assert count_failures(table) == 1


def test_a_single_instance_has_no_standard_error() -> None:
    assert math.isnan(summarise_instances([instance(1, 0.1)])[0]["uncertainty"])


def test_failed_theory_is_counted() -> None:
    assert count_failures(pd.DataFrame({"source": ["theory"], "status": ["failed"]})) == 1


def test_gallery_escapes_and_links() -> None:
    page = gallery_html([FIGURES["fig2a"]])
    assert page.startswith("<!DOCTYPE html>")
    for part in ("fig2a.png", "fig2a.pdf", "fig2a.csv", "fig2a.toml", "alt="):
        assert part in page
    assert "α<sub>IT</sub>" in page
    assert "store.sqlite" not in page
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
        "amp-trajectory.csv", "amp-trajectory.toml", "amp-trajectory.pdf", "amp-trajectory.png",
        "index.html",
    }  # fmt: skip
    before = {path.name: path.read_bytes() for path in written}
    make_figures(out, ["amp-trajectory"], TINY, workers=1)
    assert {path.name: path.read_bytes() for path in written} == before, "not reproducible"


def test_shell_refuses_unknown_names_before_any_work(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["figures", "--out", str(tmp_path / "o"), "--only", "fig9"])
    assert isinstance(result.exception, InvalidInput)
    assert not (tmp_path / "o").exists()


def test_importing_the_command_line_does_not_import_figures() -> None:
    code = (
        "import sys, polyceptron.cli; "
        "sys.exit(any(m.split('.')[0] in ('matplotlib', 'pandas') for m in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
