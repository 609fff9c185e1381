"""Figures of the Bayes-optimal student: message passing, its transitions, more classes.

With Rademacher weights (figures 2a and 2b, k = 3) learning is first impossible, then hard, then
easy; with Gaussian ones (figure 3) message passing attains the Bayes-optimal error at every α. The
paper's overlap matrix is q̃ = q(I + 11ᵀ): theory draws q00 = 2q and q01 = q. The symbols are the
entries of W̃ᵀW̃/d with w̃_h = w_h − w_3, measured each on its own, which tests that symmetry.
"""

from dataclasses import replace

import pandas as pd

from polyceptron.lab.data_runs import trace_rows
from polyceptron.pictures import parts as pic
from polyceptron.pictures.curves import TRANSITION_LABELS, curves_panel, transition_marks
from polyceptron.problem import make_teacher
from polyceptron.questions.drawn_curve import drawn_rows
from polyceptron.report.figures.computations import Computation, ask
from polyceptron.report.figures.figure_rows import (
    SEED,
    Curves,
    figure_row,
    line_rows,
    run_rows,
)
from polyceptron.report.figures.figure_spec import figure
from polyceptron.report.figures.profiles import Profile
from polyceptron.rows import Row, Status
from polyceptron.students.bayes import run_amp
from polyceptron.students.seeds import instance_seeds
from polyceptron.theory.bayes.transitions import transitions
from polyceptron.theory.dynamics import state_evolution
from polyceptron.version import VERSION

RADEMACHER = ("argmax", 3, "rademacher")
MARKS_RADEMACHER = tuple(0.25 * i for i in range(1, 17))  # α of runs
MARKS_GAUSSIAN = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0)
RANGE_OF_FIGURE_2 = (0, MARKS_RADEMACHER[-1] + 0.08)  # of α
ENTRIES = {"q00": (2, "*q_{00}*"), "q01": (1, "*q_{01}*")}  # in units of the theory's q
TITLE_RADEMACHER = "*k = 3*, Rademacher weights"
TITLE_GAUSSIAN = "*k = 3*, Gaussian weights"


def transition_rows(
    model: str, n_classes: int, prior: str, noise: str = "none", tol: float | None = None
) -> list[Row]:
    """Return α_IT and α_algo as two rows, which `branch` names, with their uncertainty."""
    found = transitions(make_teacher(model, n_classes, prior, noise), tol)
    row = figure_row(
        "theory",
        "bayes",
        model=model,
        n_classes=n_classes,
        prior=prior,
        noise=noise,
        status=str(found.status),
        version=VERSION,
    )
    it = {"alpha": found.alpha_it, "alpha_uncertainty": found.alpha_it_uncertainty}
    algo = {"alpha": found.alpha_algo, "alpha_uncertainty": found.alpha_algo_uncertainty}
    return [row | {"branch": "alpha_IT"} | it, row | {"branch": "alpha_algo"} | algo]


def amp_instances(prior: str, alpha: float, dimension: int, instances: int) -> list[Row]:
    """Return a row for each run of message passing at k = 3, with its entries q00 and q01."""
    teacher = make_teacher("argmax", 3, prior)
    rows = []
    for seed in instance_seeds(SEED, teacher.columns, alpha, dimension, instances):
        row, result = run_amp(teacher, alpha, dimension, seed)
        reduced = result.weights[:, :2] - result.weights[:, 2:]
        q = reduced.T @ reduced / dimension
        rows.append(row | {"q00": float(q[0, 0] + q[1, 1]) / 2, "q01": float(q[0, 1])})
    return rows


def branch_rows(points: int, marks: list[float]) -> list[Row]:
    """Return every branch with Rademacher weights, at the marks too, then the transitions."""
    teacher = make_teacher(*RADEMACHER)
    high = MARKS_RADEMACHER[-1]
    rows = drawn_rows(teacher, "bayes", 0, high, also=marks, most=points, branch="all")
    return rows + transition_rows(*RADEMACHER)


def _runs(prior: str, alphas: list[float], profile: Profile) -> list[Computation]:
    return [
        ask(
            amp_instances,
            prior=prior,
            alpha=alpha,
            dimension=profile.amp_dimension,
            instances=profile.amp_runs,
        )
        for alpha in alphas
    ]


def _rademacher(profile: Profile) -> list[Computation]:
    marks = profile.thin(MARKS_RADEMACHER)
    lines = ask(branch_rows, points=profile.line_points, marks=marks)
    return [lines, *_runs("rademacher", marks, profile)]


def _gaussian(profile: Profile) -> list[Computation]:
    lines = Curves(0, MARKS_GAUSSIAN[-1], MARKS_GAUSSIAN)
    return [*lines(profile), *_runs("gaussian", profile.thin(MARKS_GAUSSIAN), profile)]


def _entries(table: pd.DataFrame, branch: str) -> pic.Panel:
    """Return q00 and q01 as two lines with their symbols."""
    table = table[(table["branch"] == branch) | (table["source"] == "amp")]
    parts = []
    for name, (factor, word) in ENTRIES.items():
        value = table[name].mask(table["source"] == "theory", factor * table["q"])
        error = table[f"{name}_standard_error"]
        parts.append(table.assign(entry=word, overlap=value, overlap_standard_error=error))
    panel = curves_panel(pd.concat(parts, ignore_index=True), "alpha", "overlap")
    return replace(panel, traces=tuple(replace(trace, dash="solid") for trace in panel.traces))


@figure("fig2a", "Figure 2a: error with Rademacher weights, k = 3", computations=_rademacher)
def fig2a(table: pd.DataFrame) -> pic.Picture:
    """Error of the Bayes-optimal classifier (which jumps to zero at *α_{IT}*) and of message
    passing (zero only beyond *α_{algo}*): lines are theory, symbols are runs with standard errors.
    Near *α_{algo}* some runs of a finite size succeed and some do not. Inset: the free entropies
    cross at *α_{IT}*.
    """
    panel = curves_panel(table[~table["branch"].isin(["informed", "unstable"])], log_x=False)
    left_of_both_verticals = (0.575, 1.0)
    panel = pic.placed(
        panel, "upper right", RANGE_OF_FIGURE_2, (-0.015, 0.7), corner=left_of_both_verticals
    )
    panel = replace(panel, inset=_free_entropies(table), title=TITLE_RADEMACHER)
    return pic.Picture((panel,), width=4.6, height=3.6)


def _free_entropies(table: pd.DataFrame) -> pic.Panel:
    """Return the inset: the free entropies of message passing's branch and of perfect learning."""
    it, algo = transition_marks(table)
    theory = table[table["source"] == "theory"].sort_values("alpha")
    branch = theory[(theory["branch"] == "amp") & (theory["alpha"] < algo.x)]
    informed = theory[theory["branch"] == "informed"]
    perfect = float(informed["free_entropy"].iloc[0])
    grey = "#4d4d4d"
    orange = pic.COLOURS["amp"]
    falling = pic.trace_of(branch, "alpha", "free_entropy", width=0.8, colour=orange, dash="dash")
    flat = pic.trace_of(informed, "alpha", "free_entropy", width=0.8, colour=grey)
    return pic.Panel(
        (falling, flat),
        pic.Axis("*α*", low=1.5, high=3.0),
        pic.Axis("*Φ*", low=perfect - 0.3, high=perfect + 0.55),
        marks=(replace(it, label=""),),
        notes=(
            pic.Note(1.55, perfect - 0.06, "perfect learning", grey, "left top"),
            pic.Note(2.43, perfect + 0.3, "AMP branch", orange),
        ),
        box=(0.14, 0.13, 0.34, 0.24),  # below the curve
    )


@figure("fig2b", "Figure 2b: overlaps with Rademacher weights, k = 3", _rademacher)
def fig2b(table: pd.DataFrame) -> pic.Panel:
    """Diagonal and off-diagonal entries of the 2 × 2 overlap matrix of message passing. Theory:
    *q_{00}* = 2q and *q_{01}* = q. Symbols: each entry measured on its own, with standard errors.
    """
    panel = pic.placed(_entries(table, "amp"), "upper left", RANGE_OF_FIGURE_2)
    return replace(
        panel,
        y=pic.Axis("overlap of AMP", low=0, high=2.1),
        marks=transition_marks(table),
        title=TITLE_RADEMACHER,
    )


@figure("fig3", "Figure 3: message passing with Gaussian weights, k = 3", _gaussian)
def fig3(table: pd.DataFrame) -> pic.Panel:
    """With Gaussian weights there is no hard phase: message passing (symbols, with standard errors)
    attains the Bayes-optimal error (line). Inset: entries of its 2 × 2 overlap matrix, measured, on
    the theory's *q_{00}* = 2q and *q_{01}* = q.
    """
    last = MARKS_GAUSSIAN[-1]
    panel = curves_panel(table, log_x=False)
    panel = pic.placed(panel, "lower left", (0, last + 0.1), (0, 0.7))
    entries = _entries(table, "optimal").traces
    inset = pic.Panel(
        tuple(replace(trace, label="", size=0.6, width=0.8) for trace in entries),
        pic.Axis("*α*", low=0, high=last + 0.2),
        pic.Axis("overlaps", low=0, high=2.05),
        notes=(
            pic.Note(2.3, 1.75, ENTRIES["q00"][1], entries[0].colour, "right middle"),
            pic.Note(2.6, 0.5, ENTRIES["q01"][1], entries[1].colour),
        ),
        box=(0.5, 0.5, 0.48, 0.45),
    )
    return replace(panel, inset=inset, title=TITLE_GAUSSIAN)


PHASES = {1.5: "impossible", 2.5: "hard", 4.0: "easy"}  # by α
STEPS = 20  # of message passing


def trajectory(alpha: float, dimension: int, runs: int, seed: int) -> list[Row]:
    """Return rows of state evolution (source theory) and of message passing, by iteration."""
    teacher = make_teacher(*RADEMACHER)
    row = figure_row("theory", "bayes", prior="rademacher", alpha=alpha, version=VERSION)
    evolution = state_evolution(teacher, alpha, STEPS)
    theory = [
        row
        | {
            "iteration": float(iteration),
            "q": float(q),
            "generalisation_error": float(error),
            "status": str(Status.OK),
        }
        for iteration, (q, error) in enumerate(
            zip(evolution.q, evolution.generalisation_error, strict=True)
        )
    ]
    row |= {"source": "amp", "dimension": dimension, "n_samples": round(alpha * dimension)}
    measured = []
    for step in trace_rows(teacher, alpha, dimension, runs=runs, seed=seed, max_iter=STEPS):
        kept = {name: value for name, value in step.items() if "theory" not in name}
        measured.append(kept | row | {"instances": runs})
    return theory + measured


def _trajectories(profile: Profile) -> list[Computation]:
    return [
        ask(
            trajectory,
            alpha=alpha,
            dimension=profile.trace_dimension,
            runs=profile.amp_runs,
            seed=SEED,
        )
        for alpha in PHASES
    ]


@figure(
    "amp-trajectory",
    "Message passing against state evolution, k = 3, Rademacher weights",
    computations=_trajectories,
)
def amp_trajectory(table: pd.DataFrame) -> pic.Panel:
    """Error after t iterations: state evolution (lines) predicts message passing (mean over runs,
    with standard errors) step by step. In the hard phase it stops far from the solution that
    exists; in the easy phase it finds it, runs of a finite size a little later than the theory.
    Symbols end where every run has converged.
    """
    panel = curves_panel(table.assign(phase=table["alpha"].map(PHASES)), "iteration")
    legend = f"lines: state evolution\nsymbols: AMP, *d = {int(table['dimension'].max())}*"
    panel = pic.placed(panel, "upper right", (-0.5, STEPS + 0.5), (-0.015, 0.7), title=legend)
    ticks = tuple(range(0, STEPS + 1, 5))
    return replace(panel, x=replace(panel.x, ticks=ticks), title=TITLE_RADEMACHER)


CLASSES_LOW = 0.1  # α
CLASSES_HIGH = 100.0  # α
CLASSES_MARKS = (0.5, 1.0, 2.0, 4.0)  # α of runs
TOLERANCE_OF_FEW_CLASSES = 1e-6  # of the error at k ≤ 3


def _classes(profile: Profile) -> list[Computation]:
    marks = profile.thin(CLASSES_MARKS)
    lines = [
        ask(
            line_rows,
            estimator="bayes",
            ridge=None,
            low=CLASSES_LOW,
            high=CLASSES_HIGH,
            log=True,
            marks=marks,
            most=profile.line_points,
            n_classes=k,
            tol=TOLERANCE_OF_FEW_CLASSES if k <= 3 else profile.error_tolerance,
        )
        for k in profile.classes
    ]
    runs = [
        ask(
            run_rows,
            estimator="bayes",
            ridges=[None],
            dimension=profile.amp_classes_dimension,
            instances=profile.amp_classes_runs,
            alpha=alpha,
            n_classes=k,
        )
        for alpha in marks
        for k in profile.amp_classes
    ]
    return lines + runs


@figure("classes", "Learning curves for 2 to 50 classes", computations=_classes)
def more_classes(table: pd.DataFrame) -> pic.Panel:
    """Bayes-optimal error of Gaussian weights for k = 2 to 50. With plentiful data it is (k − 1)
    times that of two classes, 0.4417/α. Symbols: message passing, with standard errors.
    """
    panel = curves_panel(table, log_x=True, log_y=True)
    panel = pic.placed(panel, "lower left", (CLASSES_LOW, CLASSES_HIGH), (4e-3, 1.2))
    return replace(panel, title="Gaussian weights")


def _transitions(profile: Profile) -> list[Computation]:
    models = [("perceptron", 2)] + [("argmax", k) for k in profile.transition_classes]
    asked = []
    for model, k in models:
        tolerance = {"tol": profile.transition_tolerance} if k > 3 else {}
        asked.append(
            ask(transition_rows, model=model, n_classes=k, prior="rademacher", **tolerance)
        )
    return asked


@figure("transitions", "Phase transitions against the number of classes", _transitions)
def phase_transitions(table: pd.DataFrame) -> pic.Panel:
    """Rademacher weights: perfect learning is impossible below *α_{IT}*, possible but hard up to
    *α_{algo}*, easy beyond. Hollow: the classical ±1 perceptron, a different model from the argmax
    of two Rademacher vectors. Bars: uncertainty of the computation.
    """
    argmax = table[table["model"] == "argmax"].sort_values("n_classes")
    low = argmax[argmax["branch"] == "alpha_IT"]
    high = argmax[argmax["branch"] == "alpha_algo"]
    perceptron = table[table["model"] == "perceptron"]
    traces = (
        _hard_phase(low, high),
        *_transition_traces("alpha_algo", pic.COLOURS["amp"], "square", high, perceptron),
        *_transition_traces("alpha_IT", pic.COLOURS["bayes"], "circle", low, perceptron),
    )
    k = pic.numbers(low["n_classes"])
    beside = max(2 * len(k) // 3 - 1, 0)  # the place of the words
    below = float(low["alpha"].iloc[beside])
    above = float(high["alpha"].iloc[beside])
    ticks = tuple(float(tick) for tick in (2, 3, 5, 10, 20, 50) if tick <= max(k))
    top = float(high["alpha"].iloc[-1])
    return pic.Panel(
        traces,
        pic.Axis(pic.AXES["n_classes"], "log", ticks=ticks),
        pic.Axis(pic.AXES["alpha"], "log", high=1.7 * top, ticks=(1, 2, 3, 5, 10, 20)),
        notes=(
            pic.Note(k[beside], 0.72 * below, "impossible", anchor="left top"),
            pic.Note(k[beside], 1.15 * above, "easy", anchor="right bottom"),
        ),
        legend=pic.Legend("upper left"),
        title="Rademacher weights, theory",
    )


def _hard_phase(low: pd.DataFrame, high: pd.DataFrame) -> pic.Trace:
    """Return the band between α_IT and α_algo."""
    pairs = list(zip(low["alpha"], high["alpha"], strict=True))
    return pic.Trace(
        pic.numbers(low["n_classes"]),
        tuple((it + algo) / 2 for it, algo in pairs),
        tuple((algo - it) / 2 for it, algo in pairs),
        kind="band",
        colour="#E69F00",
        label="hard: possible, not found by AMP",
    )


def _transition_traces(
    branch: str, colour: str, marker: str, argmax: pd.DataFrame, perceptron: pd.DataFrame
) -> tuple[pic.Trace, pic.Trace]:
    """Return one transition as a line over k, and that of the ±1 perceptron as a hollow symbol."""
    columns = ("n_classes", "alpha", "alpha_uncertainty")
    label = TRANSITION_LABELS[branch]
    line = pic.trace_of(argmax, *columns, label=label, colour=colour, marker=marker, width=0.8)
    symbol = pic.trace_of(
        perceptron[perceptron["branch"] == branch],
        *columns,
        kind="symbols",
        hollow=True,
        label=f"{label}, ±1 perceptron",
        colour=colour,
        marker=marker,
    )
    return line, symbol
