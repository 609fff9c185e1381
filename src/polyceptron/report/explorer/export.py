"""What can be taken away: the table as CSV, and the Python lines that compute it again."""

from __future__ import annotations

from collections.abc import Iterable

from polyceptron.report.explorer.compute import Row, tolerance
from polyceptron.report.explorer.state import State
from polyceptron.rows import frame


def to_csv(rows: Iterable[Row]) -> str:
    """The rows as CSV, one line each, with the columns that at least one of them has."""
    return str(frame(rows).to_csv(index=False))


def python_lines(state: State, simulations: Iterable[State] = ()) -> str:
    """A script that gives the same curves, and the same runs of the simulations shown."""
    k = state.teacher.n_classes
    lines = [
        "import numpy as np",
        "",
        "import polyceptron as pc",
        "",
        f"teacher = {_teacher(state)}",
        f"alpha = {_alpha(state, state.points)}",
        "estimators = [",
        *(f"    {_estimator(state, name)}," for name in state.estimators),
        "]",
        f'curve = pc.learning_curve(teacher, estimators, alpha, branch="all", tol={tolerance(k)})',
        'curve.frame.to_csv("curve.csv", index=False)',
        'curve.save("curve.png")',
    ]
    if state.finite_prior:
        lines.append(f"print(pc.transitions(teacher{', tol=0.01' if k > 3 else ''}))")
    for number, simulation in enumerate(simulations, start=1):
        lines += ["", *_simulation(simulation, number)]
    return "\n".join(lines) + "\n"


def _teacher(state: State) -> str:
    prior = f'"{state.prior}"'
    if state.prior == "ternary":
        prior = "([-1, 0, 1], [0.25, 0.5, 0.25])"
    return (
        f"pc.Perceptron({prior})"
        if state.model == "perceptron"
        else f"pc.Teacher({state.k}, {prior})"
    )


def _alpha(state: State, count: int) -> str:
    if count == 1:
        return f"np.array([{state.alpha!r}])"
    space = "geomspace" if state.scale == "log" else "linspace"
    return f"np.{space}({state.low!r}, {state.high!r}, {count})"


def _estimator(state: State, name: str) -> str:
    if name == "bayes":
        return "pc.BayesOptimal()"
    if name == "max-margin":
        return 'pc.ERM("max-margin")'
    ridge = '"optimal"' if state.ridge_rule == "optimal" else repr(state.ridge)
    return f'pc.ERM("{name}", ridge={ridge})'


def _simulation(state: State, number: int) -> list[str]:
    """Lines that run one simulation of the page; `rows_1`, `rows_2`, … are its rows."""
    names = f"rows_{number}"
    seed = (f"{state.seed} + " if state.seed else "") + f"i * {state.runs} + j"
    loops = [
        f"teacher = {_teacher(state)}",
        f"{names} = []",
        f"for i, a in enumerate({_alpha(state, state.places)}):",
    ]
    if state.simulation == "amp":
        return [
            "from polyceptron.experiments.simulate_amp import run_amp",
            "",
            *loops,
            f"    for j in range({state.runs}):",
            f"        {names}.append(run_amp(teacher, float(a), {state.dimension}, {seed}))",
        ]
    lines = ["from polyceptron.experiments.simulate_erm import run_erm"]
    ridge = "0.0" if state.simulation == "max-margin" else repr(state.ridge)
    if state.simulation != "max-margin" and state.ridge_rule == "optimal":
        lines.append("from polyceptron.theory.erm import optimal_ridge")
        k = state.teacher.n_classes
        ridge = f'optimal_ridge({k}, "{state.simulation}", float(a), {tolerance(k)})'
    return [
        *lines,
        "",
        *loops,
        f"    ridge = {ridge}",
        f"    for j in range({state.runs}):",
        f"        seed = {seed}",
        f'        {names} += run_erm(teacher, "{state.simulation}", [ridge], float(a), '
        f"{state.dimension}, seed)",
    ]
