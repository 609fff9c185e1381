"""All figures into a folder, and how far their symbols lie from their lines.

    z = (mean − theory) / √(standard error² + theory's uncertainty²)

The rule, which does not look at the numbers. The theory is for d → ∞; a finite size shifts a mean
by a bias of order 1/d, for which ALLOWANCE/d is granted. What is left of |mean − theory| is
compared with Student's law (the standard error is that of `instances` runs), which gives p. Then

    every symbol   p > FALSE_ALARM/m for all m symbols (Bonferroni: they may depend on each other)
    all of them    among symbols of different data, no more have p < 0.05 than a binomial law
                   allows at FALSE_ALARM

so a correct program is blamed twice in a thousand. Where a finite size rounds a jump or a peak
(next to α_algo, or at α = 1 without a ridge), and for the steps of a run, symbols are recorded and
not judged.
"""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

import joblib
import numpy as np
import pandas as pd

from polyceptron.errors import InvalidInput
from polyceptron.files import check_writable, write_text
from polyceptron.lab.engine import shown
from polyceptron.lab.results import write_csv
from polyceptron.numerics.averages import deviation
from polyceptron.pictures.matplotlib_figure import check_drawing, save_figure
from polyceptron.pictures.parts import as_html, as_plain
from polyceptron.problem import make_estimator
from polyceptron.report.figures import bayes_figures as bayes
from polyceptron.report.figures import erm_figures as erm
from polyceptron.report.figures import figure_spec as spec
from polyceptron.report.figures import mixture_figures as mixed
from polyceptron.report.figures import noisy_figures as noisy
from polyceptron.rows import error_column, tidy
from polyceptron.version import VERSION

ALLOWANCE = 2.0  # of an error or an overlap, times d
FALSE_ALARM = 1e-3
ROUNDING = 1e-12  # what is zero in theory is no more than this on data
NEAR_JUMP, NEAR_PEAK = 0.5, 0.3  # in α
QUANTITIES = (
    "generalisation_error",
    "balanced_error",
    "training_error",
    "training_loss",
    *bayes.ENTRIES,
)
DATA = ("model", "n_classes", "prior", "noise", "features", "ratio", "alpha", "dimension")
PLACE = (*DATA[:-1], "way", "estimator", "ridge", "iteration")
COLUMNS = (
    "figure",
    "quantity",
    "source",
    *PLACE,
    "dimension",
    "instances",
    "mean",
    "standard_error",
    "theory",
    "theory_uncertainty",
    "z",
    "p",
    "judged",
)


class Verdict(NamedTuple):
    """How many symbols there are and were judged, their z, and whether chance allows them."""

    symbols: int
    judged: int
    root_mean_square_z: float
    largest_z: float
    smallest_p: float  # times the number of judged symbols
    unlikely: int  # symbols of different data with p < 0.05
    unlikely_allowed: int
    combined_p: float  # Fisher's, of the errors of different data, with nothing granted for 1/d

    @property
    def by_chance(self) -> bool:
        """Whether both parts of the rule hold."""
        return self.smallest_p > FALSE_ALARM and self.unlikely <= self.unlikely_allowed

    def __str__(self) -> str:
        return (
            f"{self.judged} symbols beside their lines: root mean square z "
            f"{self.root_mean_square_z:.2f}, largest {self.largest_z:.1f}, "
            f"{'as' if self.by_chance else 'NOT as'} chance allows"
        )


def agreement(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """A row for every symbol of these figures that has a line, with its z and p."""
    rows = [row for name, table in tables.items() for row in _of_figure(name, table)]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _of_figure(name: str, table: pd.DataFrame) -> list[dict[str, Any]]:
    if "instances" not in table:
        return []
    place = [column for column in PLACE if column in table]
    table = table.assign(**{c: table[c].fillna(0) for c in ("ridge", "iteration") if c in place})
    branch = table["branch"].fillna("") if "branch" in table else table["source"].str[:0]
    rows = []
    for quantity in [q for q in QUANTITIES if q in table]:
        value = table[quantity]
        if quantity in bayes.ENTRIES:
            factor = bayes.ENTRIES[quantity][0]
            value = value.where(table["source"] != "theory", factor * table["q"])
        error = table.get(error_column(quantity), table["alpha"] * np.nan)
        known = table.assign(value=value, error=error, branch=branch)[value.notna()]
        # Runs on drawn data: what was measured on data of others, or on twins, has no line.
        symbols = known[known["instances"].notna() & known["source"].isin(["amp", "erm"])]
        theory = known[known["source"] == "theory"]
        for source, some in symbols.groupby("source", sort=False):
            beside = [""]
            if source == "amp":  # message passing has a line of its own where that is drawn
                beside = ["amp"] if (theory["branch"] == "amp").any() else ["optimal", ""]
            line = theory[theory["branch"].isin(beside)]
            both = some.merge(line.drop_duplicates(place), on=place, suffixes=("", "_theory"))
            found = both.to_dict("records")
            rows += [_row(name, quantity, one, _judged(one, table)) for one in found]
    return rows


def _judged(one: Mapping[Any, Any], table: pd.DataFrame) -> bool:
    """False where a finite size rounds a jump or a peak, and for the steps of a run."""
    if "iteration" in one:
        return False
    if one["source"] == "amp":
        jumps = table.loc[table["branch"] == "alpha_algo", "alpha"] if "branch" in table else ()
        return not any(abs(one["alpha"] - jump) < NEAR_JUMP for jump in jumps)
    peak = make_estimator(one["estimator"]).explicit and one["ridge"] == 0
    return not (peak and abs(one["alpha"] - 1) < NEAR_PEAK)


def _row(figure: str, quantity: str, one: Mapping[Any, Any], judged: bool) -> dict[str, Any]:
    error = float(one["error"])
    unsure = float(one["uncertainty_theory"]) if quantity == "generalisation_error" else 0.0
    both = float(np.hypot(np.nan_to_num(error), np.nan_to_num(unsure)))
    distance = abs(one["value"] - one["value_theory"])
    return {
        **{name: one.get(name) for name in (*PLACE, "source", "dimension", "instances")},
        "figure": figure,
        "quantity": quantity,
        "mean": one["value"],
        "standard_error": error,
        "theory": one["value_theory"],
        "theory_uncertainty": unsure,
        "judged": judged,
        "z": None
        if distance < ROUNDING
        else deviation(one["value"], np.nan_to_num(error), one["value_theory"], unsure),
        "p": _chance(distance - ALLOWANCE / one["dimension"], both, int(one["instances"])),
    }


def _chance(excess: float, spread: float, instances: int) -> float:
    """The chance of a mean at least so far off; a mean without spread is right or wrong."""
    from scipy.stats import t

    if excess <= 0:
        return 1.0
    return float(2 * t.sf(excess / spread, max(instances - 1, 1))) if spread > 0 else 0.0


def verdict(table: pd.DataFrame) -> Verdict:
    """The rule, on the rows of `agreement`."""
    from scipy.stats import binom, chi2, t

    judged, data = table[table["judged"].astype(bool)], [c for c in DATA if c in table]
    z = judged["z"].dropna().astype(float).to_numpy()
    apart = judged[judged["quantity"] == "generalisation_error"].drop_duplicates(data)
    tested = apart.dropna(subset="z")
    bare = np.asarray(2 * t.sf(abs(tested["z"].astype(float)), tested["instances"].astype(int) - 1))
    return Verdict(
        symbols=len(table),
        judged=len(judged),
        root_mean_square_z=float(np.sqrt(np.mean(z**2))) if len(z) else 0.0,
        largest_z=float(np.abs(z).max(initial=0.0)),
        smallest_p=float(judged["p"].min() * len(judged)) if len(judged) else 1.0,
        unlikely=int((apart["p"] < 0.05).sum()),
        unlikely_allowed=int(binom.isf(FALSE_ALARM, len(apart), 0.05)) if len(apart) else 0,
        combined_p=float(chi2.sf(-2 * np.log(bare).sum(), 2 * len(bare))) if len(bare) else 1.0,
    )


COMPUTED = "computed"

# In the order of the gallery.
FIGURES: dict[str, spec.FigureSpec] = {
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
        erm.margin_laws,
        erm.rival_rules,
        noisy.noisy_curves,
        noisy.separable_alphas,
        noisy.calibration_of_softmax,
        noisy.noisy_phases,
        mixed.imbalance,
        mixed.mixtures,
        mixed.twins,
    )
}


def choose_figures(names: Sequence[str] = ()) -> list[spec.FigureSpec]:
    """The figures of these names (all for none), in the gallery's order."""
    unknown = [name for name in names if name not in FIGURES]
    if unknown:
        raise InvalidInput(f"unknown figure {unknown[0]!r}: allowed are {', '.join(FIGURES)}")
    return [figure for figure in FIGURES.values() if not names or figure.name in names]


def make_figures(
    out: str | Path,
    names: Sequence[str] = (),
    profile: str | spec.Profile = "quick",
    *,
    workers: int | None = None,
    progress: bool = False,
) -> list[Path]:
    """Compute and draw the figures (all for no names) into the folder; returns what was written.

    Each leaves NAME.pdf, NAME.png, NAME.csv and NAME.toml; the gallery is index.html, the z of
    every symbol agreement.csv. What was computed is in `computed`, where a stopped run resumes.
    """
    figures, profile = choose_figures(names), spec.as_profile(profile)
    check_drawing()
    folder = make_folder(out)
    asked = [one for figure in figures for one in figure.computations(profile)]
    with shown(progress, "lines and laws") as tell:
        count = workers or joblib.cpu_count()
        computed = spec.run_computations(asked, folder / COMPUTED, count, tell)
    written = list[Path]()
    for figure in figures:
        table = tidy(row for one in figure.computations(profile) for row in computed[one.key])
        csv, toml, *drawn = _files_of(figure, folder)
        write_csv(table, csv)
        write_text(toml, figure.toml(profile))
        picture = figure.draw(table)
        for path in drawn:
            save_figure(picture, path)
        written += [csv, toml, *drawn]
    write_csv(read_agreement(folder), folder / "agreement.csv")
    present = [figure for name, figure in FIGURES.items() if (folder / f"{name}.png").exists()]
    write_text(folder / "index.html", gallery_html(present))
    return [*written, folder / "agreement.csv", folder / "index.html"]


def files_of_figures(folder: Path, names: Sequence[str] = ()) -> list[Path]:
    """What `make_figures` writes for these names (all for none), computations left aside."""
    of_each = [path for figure in choose_figures(names) for path in _files_of(figure, folder)]
    return [*of_each, folder / "agreement.csv", folder / "index.html"]


def _files_of(figure: spec.FigureSpec, folder: Path) -> list[Path]:
    """Table, specification and pictures of one figure."""
    return [folder / f"{figure.name}.{ending}" for ending in ("csv", "toml", "pdf", "png")]


def read_agreement(folder: Path) -> pd.DataFrame:
    """The agreement of every figure whose table is in the folder."""
    paths = {name: folder / f"{name}.csv" for name in FIGURES}
    return agreement({name: pd.read_csv(path) for name, path in paths.items() if path.exists()})


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


def gallery_html(figures: list[spec.FigureSpec]) -> str:
    """The page: picture, what it shows, and links to the PDF, the data and the specification."""
    page, block = (
        Template((Path(__file__).parent / name).read_text("utf-8"))
        for name in ("gallery.html", "gallery_figure.html")
    )
    contents = "\n".join(f'  <a href="#{f.name}">{escape(f.name)}</a>' for f in figures)
    blocks = (
        block.substitute(
            name=f.name,
            title=escape(f.title),
            words=escape(as_plain(f.caption)),
            caption=as_html(f.caption),
        )
        for f in figures
    )
    return page.substitute(version=VERSION, contents=contents, blocks="".join(blocks))
