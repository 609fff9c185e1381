"""What can be taken away: the table as CSV, and the Python lines that make the page's picture."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from polyceptron.model import Estimator
from polyceptron.report.explorer.page_tasks import Row, tested, tolerance
from polyceptron.report.explorer.settings import NO_NOISE, RIDGE, SCORES, SHOWN, PageSettings
from polyceptron.rows import frame

_DRAW = """
curves = pd.concat(tables)
shown = pd.concat([curves, *map(pd.DataFrame, simulations.values())], ignore_index=True)
shown = shown[~shown.filter(["branch"]).eq("informed").any(axis=1)]
size = (6.4 * len(columns), 4.8)
figure, axes = plt.subplots(1, len(columns), squeeze=False, figsize=size)
for ax, column in zip(axes[0], columns):
    if column in shown and shown[column].notna().any():
        pc.LearningCurve(shown).plot(ax, y=column)
"""


def to_csv(rows: Iterable[Row]) -> str:
    """The rows as CSV, one line each, with the columns that at least one of them has."""
    return str(frame(rows).to_csv(index=False))


def caption(settings: PageSettings) -> str:
    """The problem in a line, for a picture that leaves the page."""
    what = "perceptron" if settings.model == "perceptron" else f"k = {settings.k}"
    parts = [what, settings.words("prior")]
    if settings.noise != NO_NOISE:
        parts.append(f"{settings.words('noise')}, {settings.strength_words}")
    if settings.correlated:
        parts.append(f"features {settings.spectrum}")
    if any(settings.estimator(name).takes_ridge for name in settings.estimators):
        optimal = settings.ridge_rule == "optimal"
        words = "optimal ridge λ" if optimal else f"ridge λ = {settings.ridge:.4g}"
        parts.append(words if settings.penalty == RIDGE else settings.penalty_name)
    return ", ".join(parts)


def python_lines(settings: PageSettings, simulations: Sequence[PageSettings] = ()) -> str:
    """A script that gives the same curves, the same runs of the simulations shown, and draws them.

    It leaves `curves`, a table, and `simulations`, rows by name.
    """
    k, scores = settings.teacher.n_classes, settings.shown in SCORES
    students = [settings.estimator(name) for name in settings.estimators]
    branches = any(one.branches for one in students)
    columns = ["generalisation_error", *filter(None, [SHOWN[settings.shown][1]])]
    lines = ["import matplotlib.pyplot as plt", "import numpy as np", "import pandas as pd", ""]
    lines.append("import polyceptron as pc")
    if names := ["curve_rows"] * scores + ["fold_grid"] * branches:
        lines.append(f"from polyceptron.theory.curve import {', '.join(names)}")
    if settings.noisy:
        lines.append("from polyceptron.theory.generalisation import error_floor")
    lines += [
        "",
        f"teacher = {_teacher(settings)}",
        f"alpha = {_alpha(settings, settings.points)}",
        f"columns = {json.dumps(columns)}  # what is drawn",
        "tables = []",
    ]
    if branches:  # close together where a curve turns back or jumps
        lines.append("fine = sorted([*alpha, *fold_grid(teacher, alpha)])")
    for one in students:
        at = 'fine, branch="all"' if one.branches else "alpha"
        asked = f"teacher, {_estimator(one)}, {at}, tol={tolerance(k)}"
        table = f"pc.learning_curve({asked}).frame"
        if scores:  # only the theory's own rows have them
            table = f"pd.DataFrame(curve_rows({asked}, scores=True))"
        lines.append(f"tables.append({table})")
    lines.append("simulations = {}")
    for number, simulation in enumerate(simulations, start=1):
        lines += ["", *_simulation(simulation, f"{simulation.simulation} {number}")]
    return "\n".join([*lines, *_DRAW.splitlines(), *_axes(settings)]) + "\n"


def _axes(settings: PageSettings) -> list[str]:
    """Ranges and scales of the axes, and what is marked on the first."""
    lines = [
        f'    ax.set(xlim=({settings.low!r}, {settings.high!r}), xscale="{settings.scale}", '
        f'yscale="{settings.error_scale}")',
        "ax = axes[0, 0]",
    ]
    if settings.noisy:
        lines += [
            "floor = error_floor(teacher.channel, teacher.n_classes)  # the error of the teacher",
            'ax.axhline(floor, color="grey", linestyle=":")',
            "separable = pc.separability(teacher).alpha_s  # up to where labels can be separated",
            f"if {settings.low!r} <= separable <= {settings.high!r}:",
            '    ax.axvline(separable, color="grey", linestyle=":")',
        ]
    if settings.finite_prior:
        tol = ", tol=0.01" if settings.teacher.n_classes > 3 else ""
        lines += [
            f"found = pc.transitions(teacher{tol})",
            "for value in (found.alpha_it, found.alpha_algo):",
            "    if value is not None:",
            '        ax.axvline(value, color="grey", linestyle="--")',
        ]
    return [
        *lines,
        f'ax.set_title("{caption(settings)}")',
        'figure.savefig("curves.png", dpi=200)',
        'curves.to_csv("curves.csv", index=False)',
    ]


def _teacher(settings: PageSettings) -> str:
    words = [] if settings.model == "perceptron" else [str(settings.k)]
    words += [f'"{settings.prior}"']
    words += [f'"{settings.noise_name}"'] if settings.noise != NO_NOISE else []
    words += [f'features="{settings.spectrum}"'] if settings.correlated else []
    return f"pc.{type(settings.teacher).__name__}({', '.join(words)})"


def _alpha(settings: PageSettings, count: int) -> str:
    if count == 1:
        return f"np.array([{settings.alpha!r}])"
    space = "geomspace" if settings.scale == "log" else "linspace"
    return f"np.{space}({settings.low!r}, {settings.high!r}, {count})"


def _estimator(one: Estimator, ridge: str = "") -> str:
    """How it is written: its class, with its name and ridge or penalty if it has any."""
    chosen = {name: value for name, value in one.columns.items() if name != "estimator"}
    words = [f'"{one.name}"'] if chosen else []
    if one.takes_ridge:
        words += [f"{name}={ridge or json.dumps(value)}" for name, value in chosen.items()]
    return f"pc.{type(one).__name__}({', '.join(words)})"


def _simulation(settings: PageSettings, name: str) -> list[str]:
    """Lines that run one simulation of the page; its rows go under `name`."""
    student = settings.student
    seed = (f"{settings.seed} + " if settings.seed else "") + f"i * {settings.runs} + j"
    tests = f", test_samples={tested(settings)}" if tested(settings) else ""
    best, ridge = [], ""
    if student.takes_ridge and settings.ridge_rule == "optimal":
        within = tolerance(settings.teacher.n_classes)
        best = [f'    ridge = pc.optimal_ridge(chosen, "{student.name}", float(a), {within})']
        ridge = "ridge"
    return [
        f"chosen = {_teacher(settings)}",
        f'simulations["{name}"] = rows = []',
        f"for i, a in enumerate({_alpha(settings, settings.places)}):",
        *best,
        f"    student = {_estimator(student, ridge)}",
        f"    for j in range({settings.runs}):",
        f"        seed = {seed}",
        f"        rows += student.simulate(chosen, float(a), {settings.dimension}, seed{tests})",
    ]
