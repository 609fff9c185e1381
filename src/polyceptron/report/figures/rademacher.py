"""Figures 2a and 2b: Rademacher weights, k = 3. Learning is first impossible, then hard, then easy.

The paper's overlap matrix is q̃ = q(I + 11ᵀ): theory draws q00 = 2q and q01 = q. The symbols are the
entries of W̃ᵀW̃/d with w̃_h = w_h − w_3, measured each on its own, which tests that symmetry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from polyceptron.experiments.simulate_amp import run_amp_with_result
from polyceptron.experiments.tasks import seed_of, seed_path
from polyceptron.model import BayesOptimal, make_teacher
from polyceptron.report.figures.base import SEED, FigureSpec
from polyceptron.report.figures.drawing import (
    clear_legend,
    inset,
    line,
    panels,
    symbols,
    transition_verticals,
)
from polyceptron.report.figures.jobs import Job
from polyceptron.report.figures.profile import Profile
from polyceptron.report.figures.table import Row, mean_and_error, only
from polyceptron.report.style import ALPHA, COLOURS, ERROR, style
from polyceptron.rows import VERSION, Status
from polyceptron.theory import curve_rows, transitions

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

BLUE, ORANGE = "#0072B2", COLOURS["amp"]
LARGEST_ALPHA = 4.0


def transition_rows(model: str, n_classes: int, prior: str, tol: float | None = None) -> list[Row]:
    """α_IT and α_algo as two rows: branch says which, alpha_uncertainty how sure."""
    found = transitions(make_teacher(model, n_classes, prior), tol)
    values = (
        ("alpha_IT", found.alpha_it, found.alpha_it_uncertainty),
        ("alpha_algo", found.alpha_algo, found.alpha_algo_uncertainty),
    )
    return [
        {
            "source": "theory", "model": model, "n_classes": n_classes, "prior": prior,
            "estimator": "bayes", "branch": name, "alpha": value, "status": found.status,
            "version": VERSION, "alpha_uncertainty": error,
        }
        for name, value, error in values
    ]  # fmt: skip


def overlap_entries(prior: str, alpha: float, dimension: int, seeds: list[int]) -> list[Row]:
    """One row: mean q00 and q01 of message passing at k = 3 over instances, each as measured."""
    teacher = make_teacher("argmax", 3, prior)
    entries, states = [], []
    for seed in seeds:
        _, result = run_amp_with_result(teacher, alpha, dimension, seed)
        reduced = result.weights[:, :2] - result.weights[:, 2:]
        q = reduced.T @ reduced / dimension
        entries.append((0.5 * (q[0, 0] + q[1, 1]), q[0, 1]))
        states.append(result.status)
    bad = sum(state == Status.NOT_CONVERGED for state in states)
    row: Row = {
        "source": "amp", "model": "argmax", "n_classes": 3, "prior": prior, "estimator": "bayes",
        "alpha": alpha, "branch": "amp", "status": str(Status.NOT_CONVERGED if bad else Status.OK),
        "dimension": dimension, "n_samples": round(alpha * dimension), "version": VERSION,
        "instances": len(seeds), "not_converged": bad,
    }  # fmt: skip
    for name, values in zip(("q00", "q01"), np.array(entries).T, strict=True):
        row[name], row[f"{name}_standard_error"] = mean_and_error(values)
    return [row]


def overlap_jobs(prior: str, alphas: list[float], profile: Profile) -> list[Job]:
    """`overlap_entries` on the very instances of the sweep, drawn again from their seeds."""
    d = profile.amp_dimension
    return [
        Job(
            overlap_entries,
            {
                "prior": prior,
                "alpha": alpha,
                "dimension": d,
                "seeds": [
                    seed_of(seed_path(SEED, "argmax", 3, prior, alpha, d, i))
                    for i in range(profile.amp_runs)
                ],
            },
            profile.amp_runs * 4e-7 * alpha * d * d,
        )
        for alpha in alphas
    ]


def add_entries(table: pd.DataFrame) -> pd.DataFrame:
    """Theory rows with q00 = 2q and q01 = q where they have none."""
    table = table.copy()
    theory = table["source"] == "theory"
    table.loc[theory, "q00"] = 2 * table.loc[theory, "q"]
    table.loc[theory, "q01"] = table.loc[theory, "q"]
    return table


def theory_rows(points: int, marks: list[float]) -> list[Row]:
    """Every branch (at `marks` too, and close to the jumps), then the transitions themselves."""
    found = transition_rows("argmax", 3, "rademacher")
    jumps = [float(row["alpha"]) for row in found]
    alphas = {*np.linspace(0.05, LARGEST_ALPHA, points), *marks}
    for jump in jumps:
        alphas |= {jump - 1e-4, jump + 1e-4}
    # Near its end the branch moves as the root of the distance, so the points crowd there.
    alphas |= {jumps[1] - 0.1 * (i / 12) ** 2 for i in range(1, 12)}
    teacher = make_teacher("argmax", 3, "rademacher")
    return curve_rows(teacher, BayesOptimal(), sorted(alphas), branch="all") + found


def _marks(profile: Profile) -> list[float]:
    return profile.thin(profile.spread(0.25, LARGEST_ALPHA, 16))


def amp_grid(profile: Profile, prior: str, alphas: list[float]) -> dict[str, Any]:
    """Message passing at k = 3."""
    return {
        "sources": ["amp"], "estimators": ["bayes"], "classes": [3], "prior": [prior],
        "alpha": alphas, "dimension": [profile.amp_dimension], "instances": profile.amp_runs,
    }  # fmt: skip


def _grids_2a(profile: Profile) -> list[dict[str, Any]]:
    return [amp_grid(profile, "rademacher", _marks(profile))]


def _theory_job(profile: Profile) -> Job:
    return Job(theory_rows, {"points": profile.line_points, "marks": _marks(profile)}, 2.0)


def _jobs_2b(profile: Profile) -> list[Job]:
    return [_theory_job(profile), *overlap_jobs("rademacher", _marks(profile), profile)]


def _jump(table: pd.DataFrame, branch: str, at: float) -> list[pd.DataFrame]:
    """A branch of theory before and after its jump, to be drawn as two lines."""
    rows = only(table, source="theory", branch=branch)
    return [rows[rows["alpha"] < at], rows[rows["alpha"] > at]]


def _transition(table: pd.DataFrame, branch: str) -> float:
    return float(table.loc[table["branch"] == branch, "alpha"].iloc[0])


def draw_2a(table: pd.DataFrame) -> Figure:
    """Errors against α, free entropies in the inset."""
    at_it, at_algo = _transition(table, "alpha_IT"), _transition(table, "alpha_algo")
    with style():
        figure, (ax,) = panels(height=2.9)
        for part, label in zip(_jump(table, "optimal", at_it), ("Bayes-optimal", ""), strict=True):
            line(ax, part, "alpha", "generalisation_error", BLUE, label)
        for part, label in zip(_jump(table, "amp", at_algo), ("AMP, theory", ""), strict=True):
            line(ax, part, "alpha", "generalisation_error", ORANGE, label, linestyle="--")
        marks = only(table, source="amp")
        size = f"AMP, $d = {int(marks['dimension'].iloc[0])}$"
        symbols(ax, marks, "alpha", "generalisation_error", ORANGE, size)
        transition_verticals(ax, table)
        ax.set(xlabel=ALPHA, ylabel=ERROR, xlim=(0, LARGEST_ALPHA + 0.08), ylim=(-0.015, 0.7))
        ax.legend(loc="upper right", bbox_to_anchor=(0.575, 1.0))  # left of both verticals
        _free_entropies(inset(ax, (0.155, 0.14, 0.4, 0.36), r"$\alpha$", r"$\Phi$"), table)
    return figure


def _free_entropies(small: Any, table: pd.DataFrame) -> None:
    at_it, at_algo = _transition(table, "alpha_IT"), _transition(table, "alpha_algo")
    amp = only(table, source="theory", branch="amp")
    amp = amp[amp["alpha"] < at_algo]
    full = only(table, source="theory", branch="informed")
    small.plot(amp["alpha"], amp["free_entropy"], color=ORANGE, linestyle="--", linewidth=1)
    small.plot(full["alpha"], full["free_entropy"], color="0.3", linewidth=1)
    small.axvline(at_it, color="0.45", linestyle=":", linewidth=0.8)
    level = float(full["free_entropy"].iloc[0])
    small.set(xlim=(1.5, 3.0), ylim=(level - 0.3, level + 0.55))
    small.text(1.55, level - 0.06, "perfect learning", fontsize=5.5, va="top", color="0.3")
    small.text(1.8, level + 0.38, "AMP branch", fontsize=5.5, color=ORANGE)
    small.patch.set_alpha(0)


def draw_2b(table: pd.DataFrame) -> Figure:
    """q00 and q01 against α."""
    at_algo = _transition(table, "alpha_algo")
    with style():
        figure, (ax,) = panels(height=2.9)
        theory = add_entries(table)
        names = (("q00", BLUE, "o", r"$q_{00}$"), ("q01", ORANGE, "s", r"$q_{01}$"))
        marks = only(table, source="amp")
        for name, colour, marker, label in names:
            for part in _jump(theory, "amp", at_algo):
                line(ax, part, "alpha", name, colour)
            symbols(ax, marks, "alpha", name, colour, label, marker)
        transition_verticals(ax, table)
        ax.set(xlabel=ALPHA, ylabel="overlap of AMP", xlim=(0, LARGEST_ALPHA + 0.08), ylim=(0, 2.1))
        title = f"lines: theory\nsymbols: AMP, $d = {int(marks['dimension'].iloc[0])}$"
        clear_legend(ax, loc="upper left", title=title, title_fontsize=6.5, alignment="left")
    return figure


FIG2A = FigureSpec(
    "fig2a",
    "Figure 2a: error with Rademacher weights, k = 3",
    "Error of the Bayes-optimal classifier (which jumps to zero at α_IT) and of message passing "
    "(zero only beyond α_algo): lines are theory, symbols are runs with standard errors. Near "
    "α_algo some runs of a finite size succeed and some do not. Inset: the free entropies cross at "
    "α_IT.",
    draw_2a,
    _grids_2a,
    lambda profile: [_theory_job(profile)],
)

FIG2B = FigureSpec(
    "fig2b",
    "Figure 2b: overlaps with Rademacher weights, k = 3",
    "Diagonal and off-diagonal entries of the 2 × 2 overlap matrix of message passing. Theory: "
    "q00 = 2q and q01 = q. Symbols: each entry measured on its own, with standard errors.",
    draw_2b,
    jobs=_jobs_2b,
)
