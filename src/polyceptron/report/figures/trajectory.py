"""Message passing against state evolution, iteration by iteration: impossible, hard and easy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polyceptron.experiments.amp_report import trace_rows
from polyceptron.model import make_teacher
from polyceptron.report.figures.base import SEED, FigureSpec
from polyceptron.report.figures.drawing import clear_legend, panels, symbols
from polyceptron.report.figures.jobs import Job
from polyceptron.report.figures.profile import Profile
from polyceptron.report.figures.table import Row
from polyceptron.report.style import ERROR, style
from polyceptron.rows import VERSION, Status
from polyceptron.theory import state_evolution

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

ALPHAS = {1.5: "#0072B2", 2.5: "#D55E00", 4.0: "#009E73"}
PHASES = {1.5: "impossible", 2.5: "hard", 4.0: "easy"}
MARKERS = ("o", "s", "^")
STEPS = 20


def trajectory(
    prior: str, n_classes: int, alpha: float, dimension: int, runs: int, seed: int
) -> list[Row]:
    """Rows of state evolution (source theory) and of message passing (source amp), by iteration."""
    teacher = make_teacher("argmax", n_classes, prior)
    base: Row = {
        "model": "argmax", "n_classes": n_classes, "prior": prior, "estimator": "bayes",
        "alpha": alpha, "version": VERSION,
    }  # fmt: skip
    evolution = state_evolution(teacher, alpha, STEPS)
    rows: list[Row] = []
    for t, (q, error) in enumerate(zip(evolution.q, evolution.generalisation_error, strict=True)):
        rows.append(
            {"source": "theory", **base, "iteration": t, "q": float(q),
             "generalisation_error": float(error), "status": str(Status.OK)}
        )  # fmt: skip
    size = {"dimension": dimension, "n_samples": round(alpha * dimension), "instances": runs}
    for step in trace_rows(teacher, alpha, dimension, runs=runs, seed=seed, max_iter=STEPS):
        row = {"source": "amp", **base, **size}
        names = ("iteration", "m", "q", "generalisation_error", "m_standard_error",
                 "q_standard_error", "damping")  # fmt: skip
        row |= {name: step[name] for name in names if name in step}
        row["uncertainty"] = step.get("generalisation_error_standard_error", float("nan"))
        rows.append(row)
    return rows


def _jobs(profile: Profile) -> list[Job]:
    d, runs = profile.trace_dimension, profile.amp_runs
    return [
        Job(
            trajectory,
            {
                "prior": "rademacher", "n_classes": 3, "alpha": alpha, "dimension": d,
                "runs": runs, "seed": SEED,
            },
            1 + runs * 3e-7 * alpha * d * d,
        )
        for alpha in ALPHAS
    ]  # fmt: skip


def draw(table: pd.DataFrame) -> Figure:
    """Error against the iteration, one colour for each α."""
    with style():
        figure, (ax,) = panels(height=2.9)
        for (alpha, colour), marker in zip(ALPHAS.items(), MARKERS, strict=True):
            rows = table[table["alpha"] == alpha].sort_values("iteration")
            theory, marks = (rows[rows["source"] == source] for source in ("theory", "amp"))
            ax.plot(theory["iteration"], theory["generalisation_error"], color=colour)
            symbols(
                ax, marks, "iteration", "generalisation_error", colour,
                rf"$\alpha = {alpha:g}$ ({PHASES[alpha]})", marker,
            )  # fmt: skip
        ax.set(xlabel="iteration $t$", ylabel=ERROR, xlim=(-0.5, STEPS + 0.5), ylim=(-0.015, 0.7))
        ax.locator_params(axis="x", integer=True)
        size = int(table["dimension"].dropna().iloc[0])
        title = f"lines: state evolution\nsymbols: AMP, $d = {size}$"
        clear_legend(ax, loc="upper right", title=title, title_fontsize=6.5, alignment="left")
    return figure


TRAJECTORY = FigureSpec(
    "amp-trajectory",
    "Message passing against state evolution, k = 3, Rademacher weights",
    "Error after t iterations: state evolution (lines) predicts message passing (mean over runs, "
    "with standard errors) step by step. In the hard phase it stops far from the solution that "
    "exists; in the easy phase it finds it, runs of a finite size a little later than the theory. "
    "Symbols end where every run has converged.",
    draw,
    jobs=_jobs,
)
