"""Figures 2a, 2b and 3: message passing at k = 3 with Rademacher and with Gaussian weights.

With Rademacher weights learning is first impossible, then hard, then easy; with Gaussian ones
message passing attains the Bayes-optimal error at every α. One computation at each α runs message
passing once, for all three figures.

The paper's overlap matrix is q̃ = q(I + 11ᵀ): theory draws q00 = 2q and q01 = q. The symbols are the
entries of W̃ᵀW̃/d with w̃_h = w_h − w_3, measured each on its own, which tests that symmetry.

Message passing against state evolution, iteration by iteration: impossible, hard and easy.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from polyceptron.experiments.data_runs import trace_rows
from polyceptron.experiments.simulate import run_amp_with_result
from polyceptron.experiments.tasks import seed_of, seed_path
from polyceptron.model import BayesOptimal, make_teacher
from polyceptron.report.figures.erm_curves import placed
from polyceptron.report.figures.figure_spec import SEED, Computation, FigureSpec, Profile, Row
from polyceptron.report.pictures.curves import curves_panel, transition_marks
from polyceptron.report.pictures.parts import Axis, Mark, Note, Panel, Picture, Trace, numbers
from polyceptron.report.pictures.style import AXES, COLOURS
from polyceptron.rows import Status
from polyceptron.theory.bayes_optimal.state_evolution import state_evolution
from polyceptron.theory.bayes_optimal.transitions import transitions
from polyceptron.theory.curve import curve_rows
from polyceptron.version import VERSION

if TYPE_CHECKING:
    import pandas as pd


LARGEST_ALPHA = {"rademacher": 4.0, "gaussian": 6.0}
ENTRIES = {"q00": "*q_{00}*", "q01": "*q_{01}*"}


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
            "estimator": "bayes", "branch": name, "alpha": value, "status": str(found.status),
            "version": VERSION, "alpha_uncertainty": error,
        }
        for name, value, error in values
    ]  # fmt: skip


def amp_instances(prior: str, alpha: float, dimension: int, seeds: list[int]) -> list[Row]:
    """A row for each run of message passing at k = 3, with the entries q00 and q01 it measured."""
    teacher = make_teacher("argmax", 3, prior)
    rows = []
    for seed in seeds:
        row, result = run_amp_with_result(teacher, alpha, dimension, seed)
        reduced = result.weights[:, :2] - result.weights[:, 2:]
        q = reduced.T @ reduced / dimension
        rows.append(row | {"q00": float(q[0, 0] + q[1, 1]) / 2, "q01": float(q[0, 1])})
    return rows


def theory_rows(points: int, marks: list[float]) -> list[Row]:
    """Every branch (at `marks` too, and close to the jumps), then the transitions themselves."""
    found = transition_rows("argmax", 3, "rademacher")
    jumps = [float(row["alpha"]) for row in found]
    alphas = {*np.linspace(0.05, LARGEST_ALPHA["rademacher"], points), *marks}
    for jump in jumps:
        alphas |= {jump - 1e-4, jump + 1e-4}
    # Near its end the branch moves as the root of the distance, so the points crowd there.
    alphas |= {jumps[1] - 0.1 * (i / 12) ** 2 for i in range(1, 12)}
    teacher = make_teacher("argmax", 3, "rademacher")
    return curve_rows(teacher, BayesOptimal(), sorted(alphas), branch="all") + found


def _marks(prior: str, profile: Profile) -> list[float]:
    if prior == "rademacher":
        return profile.thin(profile.spread(0.25, LARGEST_ALPHA[prior], 16))
    return profile.thin([0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0])


def _runs(prior: str, profile: Profile) -> list[Computation]:
    d, runs = profile.amp_dimension, profile.amp_runs
    return [
        Computation(
            amp_instances,
            {
                "prior": prior, "alpha": alpha, "dimension": d,
                "seeds": [
                    seed_of(seed_path(SEED, "argmax", 3, prior, "none", alpha, d, i))
                    for i in range(runs)
                ],
            },
            runs * 4e-7 * alpha * d * d,
        )
        for alpha in _marks(prior, profile)
    ]  # fmt: skip


def _rademacher(profile: Profile) -> list[Computation]:
    marks = _marks("rademacher", profile)
    theory = Computation(theory_rows, {"points": profile.line_points, "marks": marks}, 2.0)
    return [theory, *_runs("rademacher", profile)]


def _gaussian_theory(profile: Profile) -> list[dict[str, Any]]:
    alphas = profile.line(0.05, LARGEST_ALPHA["gaussian"], _marks("gaussian", profile))
    return [
        {"sources": ["theory"], "estimators": ["bayes"], "classes": [3], "prior": ["gaussian"],
         "alpha": alphas}
    ]  # fmt: skip


def _entries(table: pd.DataFrame, branch: str) -> Panel:
    """q00 and q01 as two lines with their symbols."""
    import pandas as pd

    table = table[(table["branch"] == branch) | (table["source"] == "amp")]
    theory = table["source"] == "theory"
    parts = []
    for factor, (name, word) in zip((2, 1), ENTRIES.items(), strict=True):
        value = table[name].mask(theory, factor * table["q"])
        error = table[f"{name}_standard_error"]
        parts.append(table.assign(entry=word, overlap=value, overlap_standard_error=error))
    panel = curves_panel(pd.concat(parts, ignore_index=True), "alpha", "overlap")
    traces = tuple(replace(trace, dash="solid") for trace in panel.traces)
    return placed(replace(panel, traces=traces), "upper left")


def picture_2a(table: pd.DataFrame) -> Picture:
    """Errors against α, free entropies in the inset."""
    marks = transition_marks(table)
    shown = table[~table["branch"].isin(["informed", "unstable"])]
    panel = replace(
        placed(curves_panel(shown), "upper right", corner=(0.575, 1.0)),  # left of both verticals
        x=Axis(AXES["alpha"], low=0, high=LARGEST_ALPHA["rademacher"] + 0.08),
        y=Axis(AXES["generalisation_error"], low=-0.015, high=0.7),
        inset=_free_entropies(table, *marks),
    )
    return Picture((panel,))


def _free_entropies(table: pd.DataFrame, it: Mark, algo: Mark) -> Panel:
    """They cross at α_IT."""
    amp = table[(table["branch"] == "amp") & (table["alpha"] < algo.x)]
    full = table[table["branch"] == "informed"].sort_values("alpha")
    level = float(full["free_entropy"].iloc[0])
    amp = amp[amp["source"] == "theory"].sort_values("alpha")
    low, flat = (
        Trace(numbers(some["alpha"]), numbers(some["free_entropy"]), colour=colour, width=0.8)
        for some, colour in ((amp, COLOURS["amp"]), (full, "#4d4d4d"))
    )
    return Panel(
        (replace(low, dash="dash"), flat),
        Axis("*α*", low=1.5, high=3.0),
        Axis("*Φ*", low=level - 0.3, high=level + 0.55),
        marks=(replace(it, label=""),),
        notes=(
            Note(1.55, level - 0.06, "perfect learning", "#4d4d4d", "left top"),
            Note(1.8, level + 0.42, "AMP branch", COLOURS["amp"]),
        ),
        box=(0.155, 0.14, 0.4, 0.36),
    )


def picture_2b(table: pd.DataFrame) -> Picture:
    """q00 and q01 against α."""
    panel = replace(
        _entries(table, "amp"),
        x=Axis(AXES["alpha"], low=0, high=LARGEST_ALPHA["rademacher"] + 0.08),
        y=Axis("overlap of AMP", low=0, high=2.1),
        marks=transition_marks(table),
    )
    return Picture((panel,))


def picture_3(table: pd.DataFrame) -> Picture:
    """Errors against α, overlaps in the inset."""
    traces = _entries(table, "optimal").traces
    inset = Panel(
        tuple(replace(trace, label="", size=0.6, width=0.8) for trace in traces),
        Axis("*α*", low=0, high=LARGEST_ALPHA["gaussian"] + 0.2),
        Axis("overlaps", low=0, high=2.05),
        notes=(
            Note(2.3, 1.75, ENTRIES["q00"], traces[0].colour, "right middle"),
            Note(2.6, 0.5, ENTRIES["q01"], traces[1].colour),
        ),
        box=(0.5, 0.5, 0.48, 0.45),
    )
    panel = replace(
        placed(curves_panel(table), "lower left"),
        x=Axis(AXES["alpha"], low=0, high=LARGEST_ALPHA["gaussian"] + 0.1),
        y=Axis(AXES["generalisation_error"], low=0, high=0.7),
        inset=inset,
    )
    return Picture((panel,))


FIG2A = FigureSpec(
    "fig2a",
    "Figure 2a: error with Rademacher weights, k = 3",
    "Error of the Bayes-optimal classifier (which jumps to zero at α_IT) and of message passing "
    "(zero only beyond α_algo): lines are theory, symbols are runs with standard errors. Near "
    "α_algo some runs of a finite size succeed and some do not. Inset: the free entropies cross at "
    "α_IT.",
    picture_2a,
    computations=_rademacher,
)

FIG2B = FigureSpec(
    "fig2b",
    "Figure 2b: overlaps with Rademacher weights, k = 3",
    "Diagonal and off-diagonal entries of the 2 × 2 overlap matrix of message passing. Theory: "
    "q00 = 2q and q01 = q. Symbols: each entry measured on its own, with standard errors.",
    picture_2b,
    computations=_rademacher,
)

FIG3 = FigureSpec(
    "fig3",
    "Figure 3: message passing with Gaussian weights, k = 3",
    "With Gaussian weights there is no hard phase: message passing (symbols, with standard errors) "
    "attains the Bayes-optimal error (line). Inset: entries of its 2 × 2 overlap matrix, "
    "measured, on the theory's q00 = 2q and q01 = q.",
    picture_3,
    _gaussian_theory,
    lambda profile: _runs("gaussian", profile),
)


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


def _runs_trajectory(profile: Profile) -> list[Computation]:
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
    computations=_runs_trajectory,
)
