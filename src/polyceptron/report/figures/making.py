"""All figures into a folder: one sweep for their rows, computations for the rest, then pictures.

The figures' grids are merged into one sweep, so that workers start once, rows shared by figures are
computed once, and a run that was stopped resumes: rows from the store, the rest from `computed`.
The gallery is one static page with every figure of a folder, needing nothing from elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from html import escape
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.experiments.engine import ProgressBar, available_workers
from polyceptron.experiments.store import Store
from polyceptron.experiments.sweep import make_plan, run_sweep, sweep_rows
from polyceptron.files import check_writable, write_atomically, write_text
from polyceptron.report.figures import bayes_figures as bayes
from polyceptron.report.figures import erm_figures as erm
from polyceptron.report.figures import noisy_figures as noisy
from polyceptron.report.figures.figure_spec import (
    FigureSpec,
    Profile,
    as_profile,
    merged_sweep,
    run_computations,
)
from polyceptron.report.figures.symbol_agreement import agreement
from polyceptron.report.pictures.matplotlib_figure import save_figure
from polyceptron.report.pictures.parts import as_html, as_plain
from polyceptron.rows import count_failures, tidy
from polyceptron.version import VERSION

STORE, COMPUTED = "store.sqlite", "computed"

# In the order of the gallery.
FIGURES: dict[str, FigureSpec] = {
    figure.name: figure
    for figure in (
        bayes.fig2a, bayes.fig2b, bayes.fig3, erm.fig4a, erm.fig4b, erm.fig4c, erm.fig4d,
        bayes.more_classes, bayes.phase_transitions, erm.double_descent, bayes.amp_trajectory,
        erm.margin_laws, noisy.noisy_curves, noisy.separable_alphas, noisy.calibration_of_softmax,
        noisy.noisy_phases,
    )
}  # fmt: skip


def choose_figures(names: Sequence[str] = ()) -> list[FigureSpec]:
    """The figures of these names (all for none), in the gallery's order."""
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
    """Compute and draw the figures (all for no names) into the folder; returns what was written.

    Each leaves NAME.pdf, NAME.png, NAME.csv and NAME.toml; the gallery is index.html, and
    agreement.csv has the z of every symbol against its line. What is behind the means is in
    store.sqlite and in `computed`, from which a stopped run resumes.
    """
    figures, profile, folder = choose_figures(names), as_profile(profile), make_folder(out)
    store = folder / STORE
    if (sweep := merged_sweep(figures, profile)) is not None:
        run_sweep(sweep, store, workers=workers, progress=progress)
    asked = [one for figure in figures for one in figure.computations(profile)]
    with ProgressBar() if progress else nullcontext() as tell:
        count = workers or available_workers()
        computed = run_computations(asked, folder / COMPUTED, count, tell)
    written, failed = list[Path](), 0
    for figure in figures:
        part = merged_sweep([figure], profile, figure.name)
        rows = sweep_rows(part, store) if part is not None else []
        rows += [row for one in figure.computations(profile) for row in computed[one.key]]
        table = tidy(rows)
        failed += count_failures(table)
        csv, toml, *drawn = (folder / f"{figure.name}.{k}" for k in ("csv", "toml", "pdf", "png"))
        _write_table(csv, table)
        write_text(toml, figure.toml(profile))
        picture = figure.draw(table)
        for path in drawn:
            save_figure(picture, path)
        written += [csv, toml, *drawn]
    _write_table(folder / "agreement.csv", read_agreement(folder))
    present = [figure for name, figure in FIGURES.items() if (folder / f"{name}.png").exists()]
    write_text(folder / "index.html", gallery_html(present, store=store.exists()))
    written += [folder / "agreement.csv", folder / "index.html"]
    if failed:
        raise ComputationFailed(
            f"the figures are drawn, but {failed} of their rows failed; for the reasons: "
            f"polyceptron results {store} --failures"
        )
    return written


def read_agreement(folder: Path) -> pd.DataFrame:
    """The agreement of every figure whose table is in the folder."""
    paths = {name: folder / f"{name}.csv" for name in FIGURES}
    return agreement({name: pd.read_csv(path) for name, path in paths.items() if path.exists()})


class WorkAhead(NamedTuple):
    """Rows to compute, other computations, how many of both are stored, seconds of one core."""

    rows: int
    computations: int
    stored: int
    seconds: float


def work_ahead(
    figures: Sequence[FigureSpec], profile: str | Profile, folder: Path | None = None
) -> WorkAhead:
    """What is to be done, before doing it; `folder` has what an earlier run has left."""
    profile = as_profile(profile)
    asked = {one.key: one for figure in figures for one in figure.computations(profile)}
    todo, known = list(asked.values()), None
    with ExitStack() as stack:
        if folder is not None:
            todo = [one for one in todo if one.kept(folder / COMPUTED) is None]
            if (folder / STORE).exists():
                known = stack.enter_context(Store(folder / STORE))
        sweep = merged_sweep(figures, profile)
        plan = make_plan(sweep, known) if sweep is not None else None
    stored, seconds = len(asked) - len(todo), sum(one.seconds for one in todo)
    if plan is None:
        return WorkAhead(0, len(todo), stored, seconds)
    # The sweep's figure for theory is for hard cases; these rows come in warm-started batches.
    theory = sum(part.seconds for name, part in plan.parts.items() if name[0] == "theory")
    seconds += plan.seconds - 0.9 * theory
    return WorkAhead(plan.rows - plan.stored, len(todo), stored + plan.stored, seconds)


def _write_table(path: Path, table: pd.DataFrame) -> None:
    write_atomically(path, lambda part: table.to_csv(part, index=False))


def make_folder(out: str | Path) -> Path:
    """The folder, made if missing, in which files can be written."""
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise InvalidInput(f"--out must be a folder, {str(folder)!r} is a file") from None
    except OSError as error:
        raise InvalidInput(f"cannot make the folder {str(folder)!r}: {error.strerror}") from None
    check_writable(folder / "index.html")  # now, not after the work
    return folder


_CSS = """
  body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff;
         max-width: 76rem; margin: 0 auto; padding: 1rem; }
  main { display: grid; gap: 1.5rem; align-items: start; margin-top: 1rem;
         grid-template-columns: repeat(auto-fill, minmax(min(100%, 22rem), 1fr)); }
  figure { margin: 0; padding: 1rem; border: 1px solid #d0d0d0; border-radius: 6px; }
  figure img { width: 100%; height: auto; display: block; }
  h2 { font-size: 1.05rem; line-height: 1.3; margin: 0 0 .6rem; }
  figcaption p { margin: .6rem 0; }
  a { color: #0059b3; }
  nav a { margin-right: .8rem; white-space: nowrap; }
"""


def gallery_html(figures: list[FigureSpec], *, store: bool = False) -> str:
    """The page: picture, what it shows, and links to the PDF, the data and the specification."""
    contents = "\n".join(f'  <a href="#{f.name}">{escape(f.name)}</a>' for f in figures)
    rows = """<p>The instances behind the means are in <a href="store.sqlite">store.sqlite</a>:
<code>polyceptron results store.sqlite</code>; those of message passing in figures 2 and 3 are in
<code>computed/</code>. How far each symbol is from its line:
<a href="agreement.csv">agreement.csv</a>.</p>"""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>polyceptron: figures</title>
<style>{_CSS}</style>
</head>
<body>
<h1>Learning curves of multi-class linear classifiers</h1>
<p>Lines are theory in the limit of large dimension; symbols are experiments, with standard errors.
Each table has the numbers behind its figure with their uncertainties, each specification what made
them. Made by polyceptron {VERSION}.</p>
{rows if store else ""}
<nav aria-label="Figures">
{contents}
</nav>
<main>
{"".join(map(_block, figures))}</main>
</body>
</html>
"""


def _block(figure: FigureSpec) -> str:
    name = figure.name
    return f"""<figure id="{name}">
<h2>{escape(figure.title)}</h2>
<a href="{name}.png"><img src="{name}.png" alt="{escape(as_plain(figure.caption))}"
 loading="lazy"></a>
<figcaption>
<p>{as_html(figure.caption)}</p>
<nav aria-label="Files of {name}"><a href="{name}.pdf">PDF</a><a href="{name}.csv">data (CSV)</a>
<a href="{name}.toml">specification</a></nav>
</figcaption>
</figure>
"""
