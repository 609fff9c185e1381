"""What can be taken away from the page: a table, a script that draws it, a page of its own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from pprint import pformat
from string import Template

import polyceptron
from polyceptron.model import Estimator
from polyceptron.report.explorer import settings as form
from polyceptron.report.explorer.page_figures import BAND, Figure, extrema_looks
from polyceptron.report.explorer.page_tasks import Row, tested, tolerance
from polyceptron.report.pictures.matplotlib_figure import MARKERS
from polyceptron.rows import frame
from polyceptron.version import VERSION


def to_csv(rows: Iterable[Row]) -> str:
    """The rows as CSV, one line each, with the columns that at least one of them has."""
    return str(frame(rows).to_csv(index=False))


def caption(settings: form.PageSettings) -> str:
    """The problem in a line, for a picture that leaves the page."""
    what = settings.words("model").split(" (")[0] if settings.model != "argmax" else ""
    parts = [what] if settings.model == "perceptron" else [f"k = {settings.k}", what]
    parts += ["shares " + ", ".join(f"{s:.3g}" for s in settings.shares)] if settings.shares else []
    parts += [f"separation {settings.separation:g}"] if settings.model == "mixture" else []
    for kind in form.NUMBERS if settings.model != "mixture" else ():
        if kind == "prior" or getattr(settings, kind) not in ("none", "isotropic"):
            parts.append(settings.words(kind))
            parts += [settings.number_words(kind)] if settings.member(kind).parameter else []
    if any(settings.estimator(name).takes_ridge for name in settings.estimators):
        optimal = settings.ridge_rule == form.OPTIMAL
        words = "optimal ridge λ" if optimal else f"ridge λ = {settings.ridge:.4g}"
        parts.append(words if settings.penalty == form.RIDGE else settings.penalty_name)
        parts += ["intercepts"] if settings.intercept != "none" else []
        parts += ["balanced class weights"] if settings.class_weight != "none" else []
    return ", ".join(filter(None, parts))


_DRAW = """
curves = curves[~curves.filter(["branch"]).eq("informed").any(axis=1)]
shown = pd.concat([curves, *map(pd.DataFrame, simulations.values()), marks], ignore_index=True)
figure, axes = plt.subplots(1, 3, figsize=(18, 4.8), layout="constrained")
ax, second, third = axes
pc.LearningCurve(shown).plot(ax)
""".splitlines()
_SECOND = {  # where it takes more than one line of a table
    "overlaps": """
pc.LearningCurve(shown).plot(second, y="q", label="q")
pc.LearningCurve(shown).plot(second, y="m", label="m", linestyle="-.")
second.set_ylabel("q (solid), m (dash-dotted)")
""",
    "recall": """
for column in range(teacher.n_classes):
    some = shown.dropna(subset="recall")
    recall = some["recall"].str.split(",").str[column].astype(float)
    one = pc.LearningCurve(some.assign(recall_of_each_class=recall))
    dash = ["-", "--", ":", "-."][column % 4]
    one.plot(second, y="recall_of_each_class", label=f"class {column + 1}", linestyle=dash)
""",
    "correlation": """
one = pc.LearningCurve(shown.assign(correlation=shown["m"] / shown["q"] ** 0.5))
one.plot(second, y="correlation")
""",
    "clean-error": """
clean = shown.get("clean_error", shown["generalisation_error"])
pc.LearningCurve(shown.assign(clean_error=clean)).plot(second, y="clean_error")
""",
}
_LANDSCAPE = """
entropy = pc.landscape(teacher, ALPHA)
third.plot(entropy["q"], entropy["free_entropy"], color="black")
looks = LOOKS
for point in entropy["extrema"]:
    words, marker, colour = looks[point["branch"]]
    third.plot(point["q"], point["free_entropy"], marker, color=colour, label=words)
third.set(xlabel="overlap q", ylabel="free entropy", title="at n/d = ALPHA", ylim=FRAME)
third.legend()
"""
_CONFUSION = """
points = pc.learning_curve(teacher, students, [ALPHA], tol=TOL).frame.dropna(subset="confusion")
blocks = []
for text in points["confusion"]:  # P(class, guess), a class in each line
    joint = np.array([line.split(",") for line in text.split(";")], dtype=float)
    joint = np.pad(joint / joint.sum(1, keepdims=True), ((0, 0), (0, 1)), constant_values=np.nan)
    blocks.append(joint)
chance = np.hstack(blocks)[:, :-1]
third.imshow(chance, cmap="Blues", vmin=0, vmax=1, aspect="auto")
for i, j in np.argwhere(np.isfinite(chance)):
    third.text(j, i, f"{chance[i, j]:.2f}", ha="center", va="center")
third.set(xticks=[], yticks=[], xlabel=", ".join(points["estimator"]) + ": guess", ylabel="class")
third.set_title("chance of a guess given the class, at n/d = ALPHA")
"""


def python_lines(
    settings: form.PageSettings,
    simulations: Sequence[form.PageSettings] = (),
    figures: Mapping[str, Figure] | None = None,
) -> str:
    """A script that draws the page's three `figures`, with the same runs of the simulations shown.

    It leaves `curves`, a table, and `simulations`, rows by name. The range must be set.
    """
    students = [settings.estimator(name) for name in settings.estimators]
    many, tol = settings.teacher.n_classes > 3, tolerance(settings.teacher.n_classes)
    low, high = settings.low, settings.high
    asked = f'"{low!r}:{high!r}' + ":log" * (settings.scale == "log") + f'", tol={tol}'
    asked += ", scores=True" * (settings.shown in form.SCORES and settings.alike)
    head = ["import matplotlib.pyplot as plt", "import numpy as np", "import pandas as pd", ""]
    head += ["import polyceptron as pc"]
    lines = ["", f"teacher = {_teacher(settings)}", "marks = None"]
    lines.append(f"students = [{', '.join(map(_estimator, students))}]")
    if settings.finite_prior:
        lines += [
            f"found = pc.transitions(teacher{', tol=0.01' * many})",
            "hard = found.alpha_it, found.alpha_algo",
            f"if None not in hard and {low!r} <= hard[0] and hard[1] <= {high!r}:",
            '    marks = pd.DataFrame({"branch": ["alpha_IT", "alpha_algo"], "alpha": hard})',
        ]
        if any(one.branches for one in students):  # where nothing jumps all branches are one
            lines.append('branch = "optimal" if found.alpha_it is None else "all"')
            asked += ", branch=branch"
    lines += [f"curves = pc.learning_curve(teacher, students, {asked}).frame", "simulations = {}"]
    for number, simulation in enumerate(simulations, start=1):
        lines += ["", *_simulation(simulation, f"{simulation.simulation} {number}")]
    column = form.SHOWN[settings.shown][1]
    known = f'if "{column}" in shown.dropna(axis=1, how="all"):\n'
    known += f'    pc.LearningCurve(shown).plot(second, y="{column}")'
    third, looks = _LANDSCAPE if settings.alike else _CONFUSION, extrema_looks(settings).items()
    marked = {n: (one["label"], MARKERS[one["marker"]], one["colour"]) for n, one in looks}
    told = {"ALPHA": settings.alpha, "TOL": tol, "FRAME": _ends(figures, "landscape", "yaxis")}
    for name, value in (*told.items(), ("LOOKS", pformat(marked, width=96, sort_dicts=False))):
        third = third.replace(name, str(value))
    drawn = _SECOND.get(settings.shown, known).strip() + "\n" + third.strip()
    lines += [*_DRAW, *drawn.splitlines(), *_axes(settings, figures)]
    if any("make_estimator(" in line for line in lines):
        head.append("from polyceptron.model import make_estimator")
    return "\n".join([*head, *lines]) + "\n"


def _ends(figures: Mapping[str, Figure] | None, name: str, axis: str) -> list[float] | None:
    """From where to where an axis of the page's figure goes, if that is set."""
    look = figures[name]["layout"][axis] if figures else {}
    ends = look.get("range")
    return ends and [float(f"{10**x if look['type'] == 'log' else x:.6g}") for x in ends]


def _axes(settings: form.PageSettings, figures: Mapping[str, Figure] | None) -> list[str]:
    """Ranges and scales of the axes, and what is marked on the first."""
    bottom = ", ylim=(0, None)" * (settings.error_scale == "linear")
    across = _ends(figures, "learning", "xaxis") or [settings.low, settings.high]
    scales = f'xscale="{settings.scale}", yscale="{settings.error_scale}"'
    lines = ["for one in (ax, second):", f"    one.set(xlim={across}, {scales}{bottom})"]
    if cut := _ends(figures, "order", "yaxis"):  # one line would hide the others
        label = f'second.get_ylabel() + ", cut at {cut[1]:g}"'
        lines.append(f"second.set(ylim={cut}, ylabel={label})")
    if settings.noisy and settings.alike:
        lines += [
            "floor = pc.generalisation_error(1.0, teacher.n_classes, teacher.channel)",
            "separable = pc.separability(teacher).alpha_s  # up to where labels can be separated",
            f"if {settings.low!r} <= separable <= {settings.high!r}:",
            '    ax.axvline(separable, color="grey", linestyle=":")',
        ]
    if not settings.alike:
        lines.append("floor = pc.population_floor(teacher).value")
    if settings.noisy or not settings.alike:
        lines.append('ax.axhline(floor, color="grey", linestyle=":")  # no rule errs less')
    if settings.finite_prior:
        place = '0.01, "hard phase", ha="center", fontsize=8, transform=ax.get_xaxis_transform()'
        lines += [
            "if marks is not None:",
            f'    ax.axvspan(*hard, color="{BAND}", zorder=-1)',
            f"    ax.text(sum(hard) / 2, {place})",
        ]
    return [
        *lines,
        f'figure.suptitle("{caption(settings)}")',
        'figure.savefig("curves.png", dpi=200)',
        'curves.to_csv("curves.csv", index=False)',
    ]


def _teacher(settings: form.PageSettings) -> str:
    if settings.model != "mixture":
        return f"pc.{settings.teacher!r}".replace("'", '"')
    shares = settings.shares or (1 / settings.k,) * settings.k
    return f"pc.Mixture({shares!r}, separation={settings.separation!r})"


def _estimator(one: Estimator, ridge: str = "") -> str:
    """How it is written: its class, if that is public, with its loss, ridge or penalty if any."""
    kind = type(one).__name__
    if not hasattr(polyceptron, kind):
        return f'make_estimator("{one.name}")'
    given = {name: repr(value) for name, value in one.columns.items() if name != "estimator"}
    given |= {"ridge": ridge} if ridge else {}
    words = [f"{n}={value}" for n, value in given.items() if one.takes_ridge or n != "ridge"]
    words = [repr(one.name), *words] if kind == "ERM" else words
    return f"pc.{kind}({', '.join(words)})".replace("'", '"')


def _simulation(settings: form.PageSettings, name: str) -> list[str]:
    """Lines that run one simulation of the page; its rows go under `name`."""
    student = settings.student
    seed = (f"{settings.seed} + " if settings.seed else "") + f"i * {settings.runs} + j"
    tests = f", test_samples={tested(settings)}" if tested(settings) else ""
    space = "np.geomspace" if settings.scale == "log" else "np.linspace"
    alphas = f"{space}({settings.low!r}, {settings.high!r}, {settings.places})"
    alphas = alphas if settings.places > 1 else f"[{settings.alpha!r}]"
    asked = f"[float(a)], tol={tolerance(settings.teacher.n_classes)}"
    best = [
        f"    best = pc.learning_curve(chosen, {_estimator(student)}, {asked})",
        '    ridge = float(best.frame["ridge"].iloc[0])',
    ]
    optimal = student.columns.get("ridge") == form.OPTIMAL
    return [
        f"chosen = {_teacher(settings)}",
        f'simulations["{name}"] = rows = []',
        f"for i, a in enumerate({alphas}):",
        *(best if optimal else []),
        f"    student = {_estimator(student, 'ridge' * optimal)}",
        f"    for j in range({settings.runs}):",
        f"        seed = {seed}",
        f"        rows += student.simulate(chosen, float(a), {settings.dimension}, seed{tests})",
    ]


def page_html(
    settings: form.PageSettings, figures: Mapping[str, Figure], words: str, code: str
) -> str:
    """One file with the live figures, which needs no server and nothing from elsewhere.

    `figures` are by their titles; `words` say what is known, `code` draws it again.
    """
    from plotly.offline import get_plotlyjs

    blocks = "".join(
        f'<figure><h2>{escape(title)}</h2><div id="figure-{i}"></div></figure>'
        for i, title in enumerate(figures)
    )
    drawn = json.dumps(list(figures.values())).replace("<", "\\u003c")
    page = Template((Path(__file__).parent / "lecture.html").read_text("utf-8"))
    return page.substitute(
        title=escape(caption(settings)), words=escape(words), code=escape(code), version=VERSION,
        plotly=get_plotlyjs(), blocks=blocks, drawn=drawn,
    )  # fmt: skip
