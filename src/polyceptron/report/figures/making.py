"""All figures into a folder: their pictures, tables and specifications, and the gallery."""

from collections.abc import Sequence
from pathlib import Path

import joblib
import pandas as pd

from polyceptron.errors import InvalidInput
from polyceptron.files import check_writable, write_text
from polyceptron.lab.engine import shown
from polyceptron.lab.results import write_csv
from polyceptron.pictures.matplotlib_figure import check_drawing, save_figure
from polyceptron.report.figures import bayes_figures as bayes
from polyceptron.report.figures import erm_figures as erm
from polyceptron.report.figures import (
    evidence_figure,
    margin_figure,
    one_pass_figure,
    pruned_figure,
    rivals_figure,
    set_figures,
)
from polyceptron.report.figures import mixture_figures as mixed
from polyceptron.report.figures import noisy_figures as noisy
from polyceptron.report.figures.agreement import agreement
from polyceptron.report.figures.computations import run_computations
from polyceptron.report.figures.figure_spec import FigureSpec
from polyceptron.report.figures.gallery import gallery_html
from polyceptron.report.figures.profiles import Profile, as_profile
from polyceptron.rows import tidy

COMPUTED = "computed"  # the folder of rows, where a stopped run resumes

# In the order of the gallery.
FIGURES: dict[str, FigureSpec] = {
    figure.name: figure
    for figure in (
        bayes.fig2a,
        bayes.fig2b,
        bayes.fig3,
        erm.fig4a,
        erm.fig4b,
        erm.fig4c,
        erm.fig4d,
        bayes.more_classes,
        bayes.phase_transitions,
        erm.double_descent,
        bayes.amp_trajectory,
        margin_figure.margin_laws,
        rivals_figure.rival_rules,
        one_pass_figure.one_pass,
        pruned_figure.choosing_data,
        noisy.noisy_curves,
        noisy.separable_alphas,
        noisy.calibration_of_softmax,
        noisy.noisy_phases,
        set_figures.sizes_of_sets,
        mixed.imbalance,
        mixed.mixtures,
        mixed.twins,
        evidence_figure.evidence,
    )
}


def choose_figures(names: Sequence[str] = ()) -> list[FigureSpec]:
    """Return the figures of these names (all for none), in the gallery's order."""
    unknown = [name for name in names if name not in FIGURES]
    if unknown:
        raise InvalidInput(f"unknown figure {unknown[0]!r}: allowed are {', '.join(FIGURES)}")
    return [figure for figure in FIGURES.values() if not names or figure.name in names]


def make_figures(
    out: str | Path,
    names: Sequence[str] = (),
    profile: str | Profile = "quick",
    *,
    workers: int | None = None,
    progress: bool = False,
) -> list[Path]:
    """Compute and draw figures into a folder.

    Each leaves NAME.pdf, NAME.png, NAME.csv and NAME.toml; the gallery is index.html, the z of
    every symbol agreement.csv. What was computed is in `computed`, where a stopped run resumes.

    Parameters
    ----------
    out : str or Path
    names : sequence of str
        All figures for none.
    profile : {'quick', 'paper'} or Profile
    workers : int, optional
        Processes; by default one for each processor.
    progress : bool
        Whether a bar is shown.

    Returns
    -------
    list of Path
        The files that were written.
    """
    figures = choose_figures(names)
    profile = as_profile(profile)
    check_drawing()
    folder = make_folder(out)
    asked = [computation for figure in figures for computation in figure.computations(profile)]
    with shown(progress, "lines and laws") as tell:
        n_workers = workers or joblib.cpu_count()
        computed = run_computations(asked, folder / COMPUTED, n_workers, tell)
    written: list[Path] = []
    for figure in figures:
        rows = [row for one in figure.computations(profile) for row in computed[one.key]]
        written += _write_figure(figure, tidy(rows), profile, folder)
    agreement_file = folder / "agreement.csv"
    write_csv(read_agreement(folder), agreement_file)
    gallery = folder / "index.html"
    present = [figure for name, figure in FIGURES.items() if (folder / f"{name}.png").exists()]
    write_text(gallery, gallery_html(present))
    return [*written, agreement_file, gallery]


def _write_figure(
    figure: FigureSpec, table: pd.DataFrame, profile: Profile, folder: Path
) -> list[Path]:
    """Write table, specification and pictures of one figure and return their paths."""
    csv, toml, *pictures = _files_of(figure, folder)
    write_csv(table, csv)
    write_text(toml, figure.toml(profile))
    drawn = figure.draw(table)
    for path in pictures:
        save_figure(drawn, path)
    return [csv, toml, *pictures]


def files_of_figures(folder: Path, names: Sequence[str] = ()) -> list[Path]:
    """Return what `make_figures` writes for these names (all for none), computations aside."""
    files = [path for figure in choose_figures(names) for path in _files_of(figure, folder)]
    return [*files, folder / "agreement.csv", folder / "index.html"]


def _files_of(figure: FigureSpec, folder: Path) -> list[Path]:
    """Return the paths of table, specification and pictures of one figure."""
    return [folder / f"{figure.name}.{ending}" for ending in ("csv", "toml", "pdf", "png")]


def read_agreement(folder: Path) -> pd.DataFrame:
    """Return the agreement of every figure whose table is in the folder."""
    paths = {name: folder / f"{name}.csv" for name in FIGURES}
    return agreement({name: pd.read_csv(path) for name, path in paths.items() if path.exists()})


def make_folder(out: str | Path) -> Path:
    """Return the folder, made if missing, in which files can be written."""
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise InvalidInput(f"--out must be a folder, {str(folder)!r} is a file") from None
    except OSError as error:
        raise InvalidInput(f"cannot make the folder {str(folder)!r}: {error.strerror}") from None
    check_writable(folder / "index.html")  # now, not after the work
    return folder
