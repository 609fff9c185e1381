"""Message passing against state evolution, iteration by iteration: impossible, hard and easy."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from polyceptron.experiments.amp_report import trace_rows
from polyceptron.model import make_teacher
from polyceptron.report.figures.computations import Computation, Row
from polyceptron.report.figures.erm_curves import placed
from polyceptron.report.figures.figure_spec import SEED, FigureSpec
from polyceptron.report.figures.profile import Profile
from polyceptron.report.pictures.curves import curves_panel
from polyceptron.report.pictures.parts import Picture
from polyceptron.rows import VERSION, Status
from polyceptron.theory import state_evolution

if TYPE_CHECKING:
    import pandas as pd

PHASES = {1.5: "impossible", 2.5: "hard", 4.0: "easy"}
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


def _runs(profile: Profile) -> list[Computation]:
    d, runs = profile.trace_dimension, profile.amp_runs
    return [
        Computation(
            trajectory,
            {
                "prior": "rademacher", "n_classes": 3, "alpha": alpha, "dimension": d,
                "runs": runs, "seed": SEED,
            },
            1 + runs * 3e-7 * alpha * d * d,
        )
        for alpha in PHASES
    ]  # fmt: skip


def picture(table: pd.DataFrame) -> Picture:
    """Error against the iteration, one colour for each α."""
    panel = curves_panel(table.assign(phase=table["alpha"].map(PHASES)), "iteration")
    title = f"lines: state evolution\nsymbols: AMP, *d = {int(table['dimension'].max())}*"
    panel = replace(
        placed(panel, "upper right", title=title),
        x=replace(panel.x, low=-0.5, high=STEPS + 0.5, ticks=tuple(range(0, STEPS + 1, 5))),
        y=replace(panel.y, low=-0.015, high=0.7),
    )
    return Picture((panel,))


TRAJECTORY = FigureSpec(
    "amp-trajectory",
    "Message passing against state evolution, k = 3, Rademacher weights",
    "Error after t iterations: state evolution (lines) predicts message passing (mean over runs, "
    "with standard errors) step by step. In the hard phase it stops far from the solution that "
    "exists; in the easy phase it finds it, runs of a finite size a little later than the theory. "
    "Symbols end where every run has converged.",
    picture,
    computations=_runs,
)
