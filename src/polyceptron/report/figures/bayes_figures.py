"""Figures of the Bayes-optimal student: message passing, its transitions, more classes.

With Rademacher weights (figures 2a and 2b, k = 3) learning is first impossible, then hard, then
easy; with Gaussian ones (figure 3) message passing attains the Bayes-optimal error at every α. The
paper's overlap matrix is q̃ = q(I + 11ᵀ): theory draws q00 = 2q and q01 = q. The symbols are the
entries of W̃ᵀW̃/d with w̃_h = w_h − w_3, measured each on its own, which tests that symmetry.
"""

from dataclasses import replace
from typing import Any

import pandas as pd

from polyceptron.lab.data_runs import trace_rows
from polyceptron.pictures import parts as pic
from polyceptron.pictures.curves import TRANSITION_LABELS, curves_panel, transition_marks
from polyceptron.problem import make_teacher
from polyceptron.questions.drawn_curve import drawn_rows
from polyceptron.report.figures import figure_spec as spec
from polyceptron.rows import Status
from polyceptron.students.bayes import run_amp
from polyceptron.students.seeds import instance_seeds
from polyceptron.theory.bayes.transitions import transitions
from polyceptron.theory.dynamics import state_evolution
from polyceptron.version import VERSION

RADEMACHER = ("argmax", 3, "rademacher")
MARKS = {
    "rademacher": tuple(0.25 * i for i in range(1, 17)),
    "gaussian": (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0),
}
LARGEST_ALPHA = {prior: marks[-1] for prior, marks in MARKS.items()}
RANGE_2 = (0, LARGEST_ALPHA["rademacher"] + 0.08)  # of α in figures 2a and 2b
ENTRIES = {"q00": (2, "*q_{00}*"), "q01": (1, "*q_{01}*")}  # in units of the theory's q


def transition_rows(
    model: str, n_classes: int, prior: str, noise: str = "none", tol: float | None = None
) -> list[spec.Row]:
    """α_IT and α_algo as two rows: `branch` names them, alpha_uncertainty is how sure they are."""
    found = transitions(make_teacher(model, n_classes, prior, noise), tol)
    problem = {"model": model, "n_classes": n_classes, "prior": prior, "noise": noise}
    base = spec.figure_row("theory", "bayes", **problem, status=str(found.status), version=VERSION)
    it, algo = found.alpha_it_uncertainty, found.alpha_algo_uncertainty
    return [
        base | {"branch": "alpha_IT", "alpha": found.alpha_it, "alpha_uncertainty": it},
        base | {"branch": "alpha_algo", "alpha": found.alpha_algo, "alpha_uncertainty": algo},
    ]


def amp_instances(prior: str, alpha: float, dimension: int, instances: int) -> list[spec.Row]:
    """A row for each run of message passing at k = 3, with the entries q00 and q01 it measured."""
    teacher = make_teacher("argmax", 3, prior)
    rows = []
    for seed in instance_seeds(spec.SEED, teacher.columns, alpha, dimension, instances):
        row, result = run_amp(teacher, alpha, dimension, seed)
        reduced = result.weights[:, :2] - result.weights[:, 2:]
        q = reduced.T @ reduced / dimension
        rows.append(row | {"q00": float(q[0, 0] + q[1, 1]) / 2, "q01": float(q[0, 1])})
    return rows


def branch_rows(points: int, marks: list[float]) -> list[spec.Row]:
    """Every branch (at `marks` too), then the transitions themselves."""
    teacher, high = make_teacher(*RADEMACHER), LARGEST_ALPHA["rademacher"]
    rows = drawn_rows(teacher, "bayes", 0, high, also=marks, most=points, branch="all")
    return rows + transition_rows(*RADEMACHER)


def _runs(prior: str, profile: spec.Profile) -> list[spec.Computation]:
    size = {"dimension": profile.amp_dimension, "instances": profile.amp_runs}
    alphas = profile.thin(MARKS[prior])
    return [spec.ask(amp_instances, prior=prior, alpha=alpha, **size) for alpha in alphas]


def _rademacher(profile: spec.Profile) -> list[spec.Computation]:
    marks = profile.thin(MARKS["rademacher"])
    lines = spec.ask(branch_rows, points=profile.line_points, marks=marks)
    return [lines, *_runs("rademacher", profile)]


def _entries(table: pd.DataFrame, branch: str) -> pic.Panel:
    """q00 and q01 as two lines with their symbols."""
    table = table[(table["branch"] == branch) | (table["source"] == "amp")]
    parts = []
    for name, (factor, word) in ENTRIES.items():
        value = table[name].mask(table["source"] == "theory", factor * table["q"])
        error = table[f"{name}_standard_error"]
        parts.append(table.assign(entry=word, overlap=value, overlap_standard_error=error))
    panel = curves_panel(pd.concat(parts, ignore_index=True), "alpha", "overlap")
    return replace(panel, traces=tuple(replace(trace, dash="solid") for trace in panel.traces))


@spec.figure("fig2a", "Figure 2a: error with Rademacher weights, k = 3", computations=_rademacher)
def fig2a(table: pd.DataFrame) -> pic.Panel:
    """Error of the Bayes-optimal classifier (which jumps to zero at *α_{IT}*) and of message
    passing (zero only beyond *α_{algo}*): lines are theory, symbols are runs with standard errors.
    Near *α_{algo}* some runs of a finite size succeed and some do not. Inset: the free entropies
    cross at *α_{IT}*.
    """
    panel = curves_panel(table[~table["branch"].isin(["informed", "unstable"])], log_x=False)
    corner = (0.575, 1.0)  # left of both verticals
    panel = pic.placed(panel, "upper right", RANGE_2, (-0.015, 0.7), corner=corner)
    it, algo = transition_marks(table)
    theory = table[table["source"] == "theory"].sort_values("alpha")
    amp = theory[(theory["branch"] == "amp") & (theory["alpha"] < algo.x)]
    full = theory[theory["branch"] == "informed"]
    perfect = float(full["free_entropy"].iloc[0])
    low, flat = (
        pic.trace_of(some, "alpha", "free_entropy", width=0.8, colour=colour)
        for some, colour in ((amp, pic.COLOURS["amp"]), (full, "#4d4d4d"))
    )
    inset = pic.Panel(
        (replace(low, dash="dash"), flat),
        pic.Axis("*α*", low=1.5, high=3.0),
        pic.Axis("*Φ*", low=perfect - 0.3, high=perfect + 0.55),
        marks=(replace(it, label=""),),
        notes=(
            pic.Note(1.55, perfect - 0.06, "perfect learning", "#4d4d4d", "left top"),
            pic.Note(1.8, perfect + 0.42, "AMP branch", pic.COLOURS["amp"]),
        ),
        box=(0.155, 0.14, 0.4, 0.36),
    )
    return replace(panel, inset=inset)


@spec.figure("fig2b", "Figure 2b: overlaps with Rademacher weights, k = 3", _rademacher)
def fig2b(table: pd.DataFrame) -> pic.Panel:
    """Diagonal and off-diagonal entries of the 2 × 2 overlap matrix of message passing. Theory:
    *q_{00}* = 2q and *q_{01}* = q. Symbols: each entry measured on its own, with standard errors.
    """
    panel = pic.placed(_entries(table, "amp"), "upper left", RANGE_2)
    up = pic.Axis("overlap of AMP", low=0, high=2.1)
    return replace(panel, y=up, marks=transition_marks(table))


@spec.figure(
    "fig3",
    "Figure 3: message passing with Gaussian weights, k = 3",
    computations=lambda profile: [
        *spec.Curves(0, LARGEST_ALPHA["gaussian"], MARKS["gaussian"])(profile),
        *_runs("gaussian", profile),
    ],
)
def fig3(table: pd.DataFrame) -> pic.Panel:
    """With Gaussian weights there is no hard phase: message passing (symbols, with standard errors)
    attains the Bayes-optimal error (line). Inset: entries of its 2 × 2 overlap matrix, measured, on
    the theory's *q_{00}* = 2q and *q_{01}* = q.
    """
    traces = _entries(table, "optimal").traces
    inset = pic.Panel(
        tuple(replace(trace, label="", size=0.6, width=0.8) for trace in traces),
        pic.Axis("*α*", low=0, high=LARGEST_ALPHA["gaussian"] + 0.2),
        pic.Axis("overlaps", low=0, high=2.05),
        notes=(
            pic.Note(2.3, 1.75, ENTRIES["q00"][1], traces[0].colour, "right middle"),
            pic.Note(2.6, 0.5, ENTRIES["q01"][1], traces[1].colour),
        ),
        box=(0.5, 0.5, 0.48, 0.45),
    )
    across = (0, LARGEST_ALPHA["gaussian"] + 0.1)
    panel = pic.placed(curves_panel(table, log_x=False), "lower left", across, (0, 0.7))
    return replace(panel, inset=inset)


PHASES = {1.5: "impossible", 2.5: "hard", 4.0: "easy"}
STEPS = 20


def trajectory(alpha: float, dimension: int, runs: int, seed: int) -> list[spec.Row]:
    """Rows of state evolution (source theory) and of message passing (source amp), by iteration."""
    teacher, evolution = make_teacher(*RADEMACHER), ("iteration", "q", "generalisation_error")
    base = spec.figure_row("theory", "bayes", prior="rademacher", alpha=alpha, version=VERSION)
    found = state_evolution(teacher, alpha, STEPS)
    rows = [
        base | dict(zip(evolution, map(float, step), strict=True)) | {"status": str(Status.OK)}
        for step in zip(range(STEPS + 1), found.q, found.generalisation_error, strict=True)
    ]
    base |= {"source": "amp", "dimension": dimension, "n_samples": round(alpha * dimension)}
    for step in trace_rows(teacher, alpha, dimension, runs=runs, seed=seed, max_iter=STEPS):
        row = {name: value for name, value in step.items() if "theory" not in name} | base
        error = row.pop("generalisation_error_standard_error", float("nan"))
        rows.append(row | {"instances": runs, "uncertainty": error})
    return rows


@spec.figure(
    "amp-trajectory",
    "Message passing against state evolution, k = 3, Rademacher weights",
    computations=lambda p: [
        spec.ask(trajectory, alpha=a, dimension=p.trace_dimension, runs=p.amp_runs, seed=spec.SEED)
        for a in PHASES
    ],
)
def amp_trajectory(table: pd.DataFrame) -> pic.Panel:
    """Error after t iterations: state evolution (lines) predicts message passing (mean over runs,
    with standard errors) step by step. In the hard phase it stops far from the solution that
    exists; in the easy phase it finds it, runs of a finite size a little later than the theory.
    Symbols end where every run has converged.
    """
    panel = curves_panel(table.assign(phase=table["alpha"].map(PHASES)), "iteration")
    title = f"lines: state evolution\nsymbols: AMP, *d = {int(table['dimension'].max())}*"
    panel = pic.placed(panel, "upper right", (-0.5, STEPS + 0.5), (-0.015, 0.7), title=title)
    return replace(panel, x=replace(panel.x, ticks=tuple(range(0, STEPS + 1, 5))))


LOW, HIGH = 0.1, 100.0
SYMBOLS = (0.5, 1.0, 2.0, 4.0)


def _classes(profile: spec.Profile) -> list[spec.Computation]:
    asked: Any = {"estimator": "bayes", "ridge": None, "low": LOW, "high": HIGH, "log": True}
    asked |= {"marks": profile.thin(SYMBOLS), "most": profile.line_points}
    tol, runs = profile.error_tolerance, dict[str, Any](estimator="bayes", ridges=[None])
    runs |= {"dimension": profile.amp_classes_dimension, "instances": profile.amp_classes_runs}
    return [
        spec.ask(spec.line_rows, **asked, n_classes=k, tol=tol if k > 3 else 1e-6)
        for k in profile.classes
    ] + [
        spec.ask(spec.run_rows, **runs, alpha=alpha, n_classes=k)
        for alpha in profile.thin(SYMBOLS)
        for k in profile.amp_classes
    ]


@spec.figure("classes", "Learning curves for 2 to 50 classes", computations=_classes)
def more_classes(table: pd.DataFrame) -> pic.Panel:
    """Bayes-optimal error of Gaussian weights for k = 2 to 50. With plentiful data it is (k − 1)
    times that of two classes, 0.4417/α. Symbols: message passing, with standard errors.
    """
    panel = curves_panel(table, log_x=True, log_y=True)
    return pic.placed(panel, "lower left", (LOW, HIGH), (4e-3, 1.2))


def _transitions(profile: spec.Profile) -> list[spec.Computation]:
    tol = profile.transition_tolerance
    models = [("perceptron", 2), *(("argmax", k) for k in profile.transition_classes)]
    return [
        spec.ask(transition_rows, model=model, n_classes=k, prior="rademacher", **more)
        for model, k in models
        for more in [{"tol": tol} if k > 3 else {}]
    ]


@spec.figure("transitions", "Phase transitions against the number of classes", _transitions)
def phase_transitions(table: pd.DataFrame) -> pic.Panel:
    """Rademacher weights: perfect learning is impossible below *α_{IT}*, possible but hard up to
    *α_{algo}*, easy beyond. Hollow: the classical ±1 perceptron, a different model from the argmax
    of two Rademacher vectors. Bars: uncertainty of the computation.
    """
    argmax = table[table["model"] == "argmax"].sort_values("n_classes")
    low, high = (argmax[argmax["branch"] == name] for name in TRANSITION_LABELS)
    k = pic.numbers(low["n_classes"])
    pairs = list(zip(low["alpha"], high["alpha"], strict=True))
    band = pic.Trace(
        k,
        tuple((a + b) / 2 for a, b in pairs),
        tuple((b - a) / 2 for a, b in pairs),
        kind="band",
        colour="#E69F00",
        label="hard: possible, not found by AMP",
    )
    old = table[table["model"] == "perceptron"]
    looks = {
        "alpha_algo": (pic.COLOURS["amp"], "square", high),
        "alpha_IT": (pic.COLOURS["cross-entropy"], "circle", low),
    }
    traces, columns = [band], ("n_classes", "alpha", "alpha_uncertainty")
    for name, (colour, marker, rows) in looks.items():
        look: Any = {"colour": colour, "marker": marker, "width": 0.8}
        label, other = TRANSITION_LABELS[name], old[old["branch"] == name]
        traces.append(pic.trace_of(rows, *columns, label=label, **look))
        look |= {"label": f"{label}, ±1 perceptron", "kind": "symbols", "hollow": True}
        traces.append(pic.trace_of(other, *columns, **look))
    at = max(2 * len(k) // 3 - 1, 0)
    x_ticks = tuple(float(t) for t in (2, 3, 5, 10, 20, 50) if t <= max(k))
    return pic.Panel(
        tuple(traces),
        pic.Axis(pic.AXES["n_classes"], "log", ticks=x_ticks),
        pic.Axis(pic.AXES["alpha"], "log", high=pairs[-1][1] * 1.7, ticks=(1, 2, 3, 5, 10, 20)),
        notes=(
            pic.Note(k[at], pairs[at][0] * 0.72, "impossible", anchor="left top"),
            pic.Note(k[at], pairs[at][1] * 1.15, "easy", anchor="right bottom"),
        ),
        legend=pic.Legend("upper left"),
    )
