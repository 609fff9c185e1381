"""What can be taken away: the table as CSV, and the Python lines that make the page's picture."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from polyceptron.model import takes_ridge
from polyceptron.report.explorer.page_tasks import Row, fold_tolerance, tested, tolerance
from polyceptron.report.explorer.settings import (
    AMP,
    BAYES,
    COLUMNS,
    NO_NOISE,
    SCORES,
    SPECTRA,
    PageSettings,
    level_words,
    words_for,
)
from polyceptron.rows import frame

_DRAW = """
curves = pd.concat(tables)
size = (6.4 * len(columns), 4.8)
figure, axes = plt.subplots(1, len(columns), squeeze=False, figsize=size)
parts = [column for column in ("estimator", "branch") if column in curves]
for ax, column in zip(axes[0], columns):
    known = curves.dropna(subset=[column]) if column in curves else curves[:0]
    for names, rows in known.groupby(parts, dropna=False):
        if "informed" not in names:
            rows = rows.sort_values("alpha")
            label = " ".join(filter(pd.notna, names))
            ax.plot(rows["alpha"], rows[column], label=label)
    for name, rows in simulations.items():
        found = pd.DataFrame(rows).reindex(columns=["alpha", column]).dropna()
        found = found.groupby("alpha")[column]
        if len(found):
            ax.errorbar(found.mean().index, found.mean(), found.sem(), fmt="o", label=name)
ax = axes[0, 0]
"""


def to_csv(rows: Iterable[Row]) -> str:
    """The rows as CSV, one line each, with the columns that at least one of them has."""
    return str(frame(rows).to_csv(index=False))


def caption(settings: PageSettings) -> str:
    """The problem in a line, for a picture that leaves the page."""
    what = "perceptron" if settings.model == "perceptron" else f"k = {settings.k}"
    parts = [what, words_for("prior", settings.prior)]
    if settings.noise != NO_NOISE:
        parts.append(f"{words_for('noise', settings.noise)}, {level_words(settings)}")
    if settings.correlated:
        parts.append(f"features {SPECTRA[settings.features]}")
    if any(takes_ridge(name) for name in settings.estimators):
        optimal = settings.ridge_rule == "optimal"
        parts.append("optimal ridge λ" if optimal else f"ridge λ = {settings.ridge:.4g}")
    return ", ".join(parts)


def python_lines(settings: PageSettings, simulations: Sequence[PageSettings] = ()) -> str:
    """A script that gives the same curves, the same runs of the simulations shown, and draws them.

    It leaves `curves`, a table, and `simulations`, rows by name.
    """
    k = settings.teacher.n_classes
    folded = settings.finite_prior and BAYES in settings.estimators
    columns = ["generalisation_error"]
    if settings.shown in COLUMNS:
        columns.append(COLUMNS[settings.shown])
    lines = [
        "import matplotlib.pyplot as plt",
        "import numpy as np",
        "import pandas as pd",
        "",
        "import polyceptron as pc",
        *sorted(_imports(settings, folded)),
        "",
        f"teacher = {_teacher(settings)}",
        f"alpha = {_alpha(settings, settings.points)}",
        f"columns = {json.dumps(columns)}  # what is drawn",
        "tables = []",
    ]
    for name in settings.estimators:
        if folded and name == BAYES:  # close together where the curve turns back
            parts = f"(np.setdiff1d(alpha, fold), {tolerance(k)}), (fold, {fold_tolerance(k)})"
            every = 'branch="all", tol=tol'
            lines += [
                "fold = fold_grid(teacher, alpha)",
                f"for some, tol in ({parts}):",
                "    if len(some):",
                f"        part = {_curve(settings, name, 'some', every)}",
                "        tables.append(part)",
            ]
        else:
            asked = f"tol={tolerance(k)}"
            lines.append(f"tables.append({_curve(settings, name, 'alpha', asked)})")
    lines.append("simulations = {}")
    for number, simulation in enumerate(simulations, start=1):
        lines += ["", *_simulation(simulation, f"{simulation.simulation} {number}")]
    lines += _DRAW.splitlines()
    if settings.noisy:
        lines += [
            "floor = error_floor(teacher.channel, teacher.n_classes)  # the error of the teacher",
            'ax.axhline(floor, color="grey", linestyle=":", label="floor")',
            "separable = pc.separability(teacher).alpha_s  # up to where labels can be separated",
            f"if {settings.low!r} <= separable <= {settings.high!r}:",
            '    ax.axvline(separable, color="grey", linestyle=":")',
        ]
    if settings.finite_prior:
        found = f"pc.transitions({_teacher(settings)}{', tol=0.01' if k > 3 else ''})"
        lines += [
            f"found = {found}",
            "for value in (found.alpha_it, found.alpha_algo):",
            "    if value is not None:",
            '        ax.axvline(value, color="grey", linestyle="--")',
        ]
    return "\n".join([*lines, *_axes(settings, columns)]) + "\n"


def _curve(settings: PageSettings, name: str, alphas: str, asked: str) -> str:
    """The table of one curve; only the theory's own rows have the scores of probabilities."""
    what = f"teacher, {_estimator(settings, name)}, {alphas}, {asked}"
    if settings.shown in SCORES:
        return f"pd.DataFrame(curve_rows({what}, scores=True))"
    return f"pc.learning_curve({what}).frame"


def _imports(settings: PageSettings, folded: bool) -> set[str]:
    needed = {"from polyceptron.theory.curve import fold_grid"} if folded else set()
    if settings.noisy:
        needed.add("from polyceptron.theory.generalisation import error_floor")
    if settings.shown in SCORES:
        needed.add("from polyceptron.theory.curve import curve_rows")
    return needed


def _axes(settings: PageSettings, columns: Sequence[str]) -> list[str]:
    other = f'axes[0, -1].set_ylabel("{words_for("shown", settings.shown)}")'
    return [
        "for one in axes[0]:",
        f'    one.set(xlim=({settings.low!r}, {settings.high!r}), xscale="{settings.scale}", '
        f'yscale="{settings.error_scale}")',
        '    one.set(xlabel="sample complexity α = n/d")',
        *([other] if len(columns) > 1 else []),
        'ax.set_ylabel("generalisation error")',
        f'ax.set_title("{caption(settings)}")',
        "ax.legend()",
        'figure.savefig("curves.png", dpi=200)',
        'curves.to_csv("curves.csv", index=False)',
    ]


def _teacher(settings: PageSettings) -> str:
    words = f'"{settings.prior}"'
    if settings.noise != NO_NOISE:
        words += f', "{settings.noise_name}"'
    if settings.correlated:
        words += f', features="{SPECTRA[settings.features]}"'
    if settings.model == "perceptron":
        return f"pc.Perceptron({words})"
    return f"pc.Teacher({settings.k}, {words})"


def _alpha(settings: PageSettings, count: int) -> str:
    if count == 1:
        return f"np.array([{settings.alpha!r}])"
    space = "geomspace" if settings.scale == "log" else "linspace"
    return f"np.{space}({settings.low!r}, {settings.high!r}, {count})"


def _estimator(settings: PageSettings, name: str) -> str:
    if name == BAYES:
        return "pc.BayesOptimal()"
    if not takes_ridge(name):
        return f'pc.ERM("{name}")'
    ridge = '"optimal"' if settings.ridge_rule == "optimal" else repr(settings.ridge)
    return f'pc.ERM("{name}", ridge={ridge})'


def _simulation(settings: PageSettings, name: str) -> list[str]:
    """Lines that run one simulation of the page; its rows go under `name`."""
    method = settings.simulation
    seed = (f"{settings.seed} + " if settings.seed else "") + f"i * {settings.runs} + j"
    lines = [
        f"teacher = {_teacher(settings)}",
        f'simulations["{name}"] = rows = []',
        f"for i, a in enumerate({_alpha(settings, settings.places)}):",
    ]
    asked = f", test_samples={tests}" if (tests := tested(settings)) else ""
    if method == AMP:
        return [
            *lines,
            f"    for j in range({settings.runs}):",
            f"        seed = {seed}",
            f"        rows += pc.BayesOptimal().simulate(teacher, float(a), {settings.dimension}, "
            f"seed{asked})",
        ]
    ridge = repr(settings.ridge) if takes_ridge(method) else "0.0"
    if takes_ridge(method) and settings.ridge_rule == "optimal":
        within = tolerance(settings.teacher.n_classes)
        ridge = f'pc.optimal_ridge(teacher, "{method}", float(a), {within})'
    return [
        *lines,
        f"    ridge = {ridge}",
        f"    for j in range({settings.runs}):",
        f"        seed = {seed}",
        f'        rows += pc.ERM("{method}", ridge).simulate(teacher, float(a), '
        f"{settings.dimension}, seed{asked})",
    ]
