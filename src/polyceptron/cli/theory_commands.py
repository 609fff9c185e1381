"""Theory at the shell: curve, ridge, transitions, separability, asymptotics, plan."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from polyceptron.cli import options, printing
from polyceptron.cli.options import option
from polyceptron.errors import InvalidInput
from polyceptron.files import check_outputs
from polyceptron.ranges import parse_numbers
from polyceptron.rows import Row

if TYPE_CHECKING:
    from polyceptron.model import AnyTeacher, Estimator

COLUMNS = (
    "estimator", "ridge", "alpha", "branch", "q", "generalisation_error", "uncertainty",
    "clean_error", "training_error", "training_loss", "test_loss", "brier", "calibration_error",
    "free_entropy", "status",
)  # fmt: skip
# Left out in this order where a terminal has no room.
OPTIONAL = (
    "free_entropy", "training_loss", "training_error", "q", "clean_error", "status", "brier",
)  # fmt: skip


def curve(
    alpha: options.Alpha,
    classes: options.Classes = None,
    prior: options.Prior = "gaussian",
    model: options.Model = "argmax",
    noise: options.Noise = "none",
    features: options.Features = "isotropic",
    estimator: options.Estimators = ["bayes"],
    ridge: Annotated[
        list[str], option("A number, a list, 0, or optimal (the default); repeatable.", "--ridge")
    ] = [],
    penalty: options.Penalties = [],
    branch: Annotated[
        str, option("Bayes-optimal branch: optimal, amp, informed, unstable, all.")
    ] = "optimal",
    scores: Annotated[
        bool, option("Test loss, Brier score, calibration error.", "--scores")
    ] = False,
    tol: options.Tolerance = None,
    as_json: options.Json = False,
    csv: options.Csv = None,
    plot: options.Plot = None,
) -> None:
    """Learning curve: the exact error of one or several estimators against α = n/d.

    Example: polyceptron curve -k 3 -a 0.5:5:10 -e bayes -e cross-entropy
    """
    from polyceptron.model.checks import check_alphas
    from polyceptron.theory.curve import curve_parts

    teacher = options.build_teacher(model, classes, prior, noise, features)
    alphas = check_alphas(parse_numbers(alpha, "--alpha"))
    printing.check_plot(plot)
    check_outputs(csv, plot, inputs=[features])
    estimators = options.build_estimators(estimator, ridge, penalty)
    size = max(1, len(alphas) // 20)
    parts = [alphas[:1], *(alphas[i : i + size] for i in range(1, len(alphas), size))]
    asked: dict[str, Any] = {"branch": branch, "tol": tol, "scores": scores}
    every = (part for one in estimators for part in curve_parts(teacher, one, parts, **asked))
    rows, stopped = printing.collect(every, len(estimators) * len(parts), "computing the curve")
    if not rows:
        raise InvalidInput(f"there is no {branch} branch at any of these alpha")
    # What is the same in every row goes to the title, so that numbers keep their digits.
    shared = [c for c in ("estimator", "branch") if len({row.get(c) for row in rows}) == 1]
    same = (str(rows[0][c]) for c in shared if rows[0].get(c))
    title = ", ".join([options.describe_teacher(teacher), *same])
    columns = [c for c in COLUMNS if c not in shared]
    printing.emit(rows, columns, optional=OPTIONAL, as_json=as_json, csv=csv, title=title)
    if plot is not None:
        from polyceptron.report.pictures.curves import curves_picture

        printing.draw_rows(curves_picture, rows, plot)
    stopped()


RIDGE_COLUMNS = (
    "alpha", "ridge", "best", "generalisation_error", "uncertainty", "clean_error", "test_loss",
    "calibration_error", "status",
)  # fmt: skip


def ridge(
    alpha: options.Alpha,
    classes: options.ClassesOrThree = None,
    prior: options.Prior = "gaussian",
    model: options.Model = "argmax",
    noise: options.Noise = "none",
    features: options.Features = "isotropic",
    estimator: options.OneLoss = "cross-entropy",
    ridges: Annotated[str, option("λ: numbers or a range (log-spaced).", "--ridge")] = "1e-4:10:40",
    target: Annotated[
        str, option("What the best ridge makes least: error, test-loss or calibration.")
    ] = "error",
    tol: options.Tolerance = None,
    as_json: options.Json = False,
    csv: options.Csv = None,
    plot: options.Plot = None,
) -> None:
    """Error against the ridge, with the optimum of each α marked.

    The best ridge for the test loss or the calibration is another one: see --target.

    Example: polyceptron ridge --classes 3 --alpha 2,5
    """
    from polyceptron.model.checks import check_alphas
    from polyceptron.theory.erm.risk_rows import ridge_rows

    printing.check_plot(plot)
    check_outputs(csv, plot, inputs=[features])
    teacher = options.build_teacher(model, classes, prior, noise, features, default=3)
    alphas = check_alphas(parse_numbers(alpha, "--alpha"))
    values = parse_numbers(ridges, "--ridge", log=True)
    every = (ridge_rows(teacher, estimator, [a], values, tol, target=target) for a in alphas)
    what = f"solving at {len(values)} ridges and the best one"
    rows, stopped = printing.collect(every, len(alphas), what)
    if plot is not None:
        from polyceptron.report.pictures.curves import ridge_picture

        printing.draw_rows(ridge_picture, rows, plot)
    shown = rows
    if not as_json and csv is None:
        shown = [{**row, "best": "*" if row["is_best"] else ""} for row in rows]
    title = f"{options.describe_teacher(teacher)}, {estimator}"
    more = RIDGE_COLUMNS[5:8]
    printing.emit(shown, RIDGE_COLUMNS, optional=more, as_json=as_json, csv=csv, title=title)
    stopped()


def transitions(
    classes: options.Classes = None,
    prior: options.Prior = "rademacher",
    model: options.Model = "argmax",
    noise: options.Noise = "none",
    features: options.Features = "isotropic",
    tol: options.Tolerance = None,
    as_json: options.Json = False,
    csv: options.Csv = None,
) -> None:
    """Phase transitions: where perfect learning becomes possible, and where it becomes easy.

    Example: polyceptron transitions --classes 3
    """
    teacher = options.build_teacher(model, classes, prior, noise, features)
    check_outputs(csv, inputs=[features])

    from polyceptron.theory.bayes_optimal.transitions import transitions as find

    with printing.waiting(f"computing the transitions of {teacher.n_classes} classes"):
        found = find(teacher, tol)
    if as_json or csv is not None:
        printing.emit([found.as_dict()], (), as_json=as_json, csv=csv)
        return
    title = options.describe_teacher(teacher)
    if found.alpha_it is None or found.alpha_algo is None:
        printing.echo(f"none: with {title} the error decays smoothly")
        return
    meanings = ("the best error jumps down", "and message passing gets there")
    if teacher.noise.noiseless:
        meanings = ("perfect learning possible", "and easy (message passing does it)")
    it, algo = f"{found.alpha_it:.8g}", f"{found.alpha_algo:.8g}"
    columns = ("transition", "alpha", "uncertainty", "meaning")
    rows = (
        ("alpha_IT", it, found.alpha_it_uncertainty, meanings[0]),
        ("alpha_algo", algo, found.alpha_algo_uncertainty, meanings[1]),
    )
    shown = [dict(zip(columns, row, strict=True)) for row in rows]
    printing.print_table(shown, columns, f"{title} ({found.status})", optional=("meaning",))
    printing.echo(f"hard phase: {found.alpha_it:.6g} < α < {found.alpha_algo:.6g}")


def separability(
    classes: options.Classes = None,
    model: options.Model = "argmax",
    noise: options.Noise = "none",
    features: options.Features = "isotropic",
    tol: options.Tolerance = None,
    as_json: options.Json = False,
    csv: options.Csv = None,
) -> None:
    """Separability: the α_s below which noisy labels can still be separated.

    Below it a ridge of 0 means max-margin, above it the maximum-likelihood estimate exists.

    Example: polyceptron separability --classes 3 --noise softmax:2
    """
    teacher = options.build_teacher(model, classes, "gaussian", noise, features)
    check_outputs(csv, inputs=[features])

    from polyceptron.theory.separability import separability as find

    with printing.waiting(f"computing the separability of {teacher.n_classes} classes"):
        found = find(teacher, tol)
    if as_json or csv is not None:
        printing.emit([found.as_dict()], (), as_json=as_json, csv=csv)
    elif math.isinf(found.alpha_s):
        printing.echo("alpha_s is infinite: labels without noise can be separated at every alpha")
    else:
        spread = printing.format_value(found.alpha_s_uncertainty, "uncertainty")
        printing.echo(
            f"{teacher.model}, k = {teacher.n_classes}, noise {teacher.noise.name}: "
            f"alpha_s = {found.alpha_s:.7g} ± {spread} ({found.status})"
        )


def asymptotics(
    classes: options.ClassesOrThree = None,
    prior: options.Prior = "gaussian",
    model: options.Model = "argmax",
    noise: options.Noise = "none",
    features: options.Features = "isotropic",
    estimator: options.OneEstimator = "cross-entropy",
    ridge: options.OneRidge = "0",
    penalty: options.OnePenalty = None,
    alpha_max: Annotated[float | None, option("Largest α (1e6 for k <= 3, else 1e4).")] = None,
    as_json: options.Json = False,
    csv: options.Csv = None,
) -> None:
    """The decay of the error at large α: exponent and constant, with uncertainties.

    Example: polyceptron asymptotics --classes 3 --estimator bayes
    """
    from polyceptron.theory.asymptotics import asymptotics as find

    check_outputs(csv, inputs=[features])
    teacher = options.build_teacher(model, classes, prior, noise, features, default=3)
    chosen = options.build_estimator(estimator, ridge, penalty)
    with printing.waiting(f"solving for {chosen.name} at large α"):
        found = find(teacher, chosen, alpha_max)
    measured = [f"{name}{end}" for name in ("exponent", "constant") for end in ("", "_uncertainty")]
    measured += ["exact_exponent", "exact_constant", "floor"]
    row: dict[str, Any] = {
        **teacher.columns, "features": teacher.features.name, "ridge": None, **chosen.columns,
        **{name: getattr(found, name) for name in measured},
        "alpha_max": float(found.alpha[-1]), "status": str(found.status),
    }  # fmt: skip
    if csv is not None:
        printing.emit([row], (), csv=csv)
    if as_json:
        points = ("alpha", "generalisation_error", "uncertainty")
        printing.print_json([row | {name: getattr(found, name).tolist() for name in points}])
    if as_json or csv is not None:
        return
    columns = ("of", "measured", "uncertainty", "exact")
    lines = [
        dict(
            zip(columns, (of, *map(row.get, (of, f"{of}_uncertainty", f"exact_{of}"))), strict=True)
        )
        for of in ("exponent", "constant")
    ]
    ridge_text = "" if row["ridge"] is None else f", ridge {row['ridge']}"
    title = f"{options.describe_teacher(teacher)}, {chosen.name}{ridge_text} ({found.status})"
    printing.print_table(lines, columns, title)
    floor = f"{found.floor:.6g} + " if found.floor > 0 else ""
    printing.echo(
        f"error ≈ {floor}constant · α^(−exponent), measured up to α = {row['alpha_max']:g}"
    )


NEEDED = ("estimator", "branch", "alpha", "alpha_uncertainty", "ridge", "n_samples", "status")
REACHED = (
    "estimator", "branch", "ridge", "generalisation_error", "uncertainty", "clean_error", "status",
)  # fmt: skip


def plan(
    error: Annotated[float | None, option("The generalisation error to reach.")] = None,
    samples: Annotated[
        int | None, option("Instead: the error that n samples give.", "--samples", "-n")
    ] = None,
    dimension: Annotated[
        int | None, option("d, to turn α into n = αd.", "--dimension", "-d")
    ] = None,
    classes: options.ClassesOrThree = None,
    prior: options.Prior = "gaussian",
    model: options.Model = "argmax",
    noise: options.Noise = "none",
    features: options.Features = "isotropic",
    estimator: options.Estimators = [],
    ridge: options.OneRidge = "optimal",
    penalty: options.OnePenalty = None,
    as_json: options.Json = False,
    csv: options.Csv = None,
) -> None:
    """How much data reaches a given error, per estimator; or which error given data reach.

    Where the best error jumps over the target, the α at which it is possible (branch optimal) and
    the α at which message passing gets there (branch amp) both have a row.

    Examples: polyceptron plan --classes 3 --error 0.1 --dimension 1000

    polyceptron plan --classes 3 --samples 5000 --dimension 1000
    """
    from polyceptron.model import ESTIMATORS, takes_ridge

    check_outputs(csv, inputs=[features])
    teacher = options.build_teacher(model, classes, prior, noise, features, default=3)
    given = estimator or [e.name for e in ESTIMATORS.entries if not e.parameters]
    students = [
        options.build_estimator(name, ridge, penalty)
        if estimator or takes_ridge(name)
        else options.build_estimator(name, "0")
        for name in given
    ]
    problem, emit = (
        options.describe_teacher(teacher),
        partial(printing.emit, as_json=as_json, csv=csv),
    )
    if error is not None and samples is not None:
        raise InvalidInput("give either --error, or --samples with --dimension, not both")
    if error is not None:
        title = f"{problem}: the data for an error of {error:g}"
        title += "" if dimension is None else f", d = {dimension}"
        emit(_needs(teacher, students, error, dimension), NEEDED, optional=("status",), title=title)
        return
    if samples is None:
        raise InvalidInput("--error is missing: which error is to be reached?")
    if dimension is None:
        raise InvalidInput("--samples needs --dimension: alpha is n/d")
    rows = _errors(teacher, students, samples, dimension)
    title = f"{problem}, n = {samples}, d = {dimension}: the error at α = {samples / dimension:g}"
    emit(rows, REACHED, optional=("clean_error",), title=title)


def _needs(
    teacher: AnyTeacher, students: list[Estimator], error: float, dimension: int | None
) -> list[Row]:
    """One row for each estimator, at the smallest α that reaches the error."""
    from polyceptron.theory.planner import check_target
    from polyceptron.theory.planner import plan as find

    check_target(error, teacher.n_classes)
    rows: list[Row] = []
    missed: list[InvalidInput] = []
    with printing.waiting("planning") as show:
        for student in students:
            show(f"planning with {student.name}")
            try:
                found = find(teacher, error, student, dimension)
            except InvalidInput as reason:
                missed.append(reason)
                rows.append({"estimator": student.name, "status": "out of reach"})
                continue
            other = found.algorithm
            for one in [found, *([other] if other and other.alpha != found.alpha else [])]:
                more = {"alpha_uncertainty": one.alpha_uncertainty, "at_jump": one.at_jump}
                rows.append(one.row | more)
    if len(missed) == len(students):
        raise missed[0]
    return rows


def _errors(
    teacher: AnyTeacher, students: list[Estimator], samples: int, dimension: int
) -> list[Row]:
    """One row for each estimator at α = n/d; both branches of the Bayes-optimal one."""
    from polyceptron.model.checks import check_size
    from polyceptron.theory.curve import curve_rows

    n, d = check_size(samples, "samples"), check_size(dimension, "dimension")
    rows: list[Row] = []
    with printing.waiting("computing") as show:
        for student in students:
            show(f"computing {student.name} at α = {n / d:g}")
            found = curve_rows(teacher, student, [n / d])
            if student.branches:
                reached = curve_rows(teacher, student, [n / d], branch="amp")
                found += [row for row in reached if row["q"] != found[0]["q"]]
            rows += [{**row, "dimension": d, "n_samples": n} for row in found]
    return rows
