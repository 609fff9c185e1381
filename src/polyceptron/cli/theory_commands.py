"""Theory at the shell: curve, ridge, transitions, separability, asymptotics, plan."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from polyceptron.cli import options
from polyceptron.cli.options import UNEQUAL_CLASSES, setting, with_shared_options
from polyceptron.cli.output import Collected, Output, collect
from polyceptron.cli.tables import (
    describe_row,
    describe_teacher,
    echo,
    format_value,
    print_table,
)
from polyceptron.errors import InvalidInput
from polyceptron.number_lists import Ends, parse_numbers, parse_range
from polyceptron.progress import waiting
from polyceptron.rows import Row, Status

if TYPE_CHECKING:
    from polyceptron.problem import AnyTeacher, Estimator
    from polyceptron.questions.asymptotics import Asymptotics
    from polyceptron.questions.plan import Plan
    from polyceptron.theory.bayes.transitions import Transitions
else:
    AnyTeacher = object  # typer does not see this argument; importing the type takes a second

COLUMNS = (
    "estimator",
    "ridge",
    "penalty",
    "alpha",
    "branch",
    "q",
    "generalisation_error",
    "uncertainty",
    "balanced_error",
    "recall",
    "clean_error",
    "training_error",
    "training_loss",
    "test_loss",
    "brier",
    "calibration_error",
    "free_entropy",
    "status",
)
# Left out in this order where a terminal has no room.
OPTIONAL = (
    "free_entropy",
    "training_loss",
    "training_error",
    "q",
    "clean_error",
    "recall",
    "brier",
    "status",
    "calibration_error",
    "test_loss",
)


@with_shared_options()
def curve(
    *,
    alpha: options.CurveAlpha,
    teacher: AnyTeacher,
    estimator: options.Estimators = [],
    intercept: options.Intercept = False,
    class_weight: options.ClassWeight = None,
    ridge: list[str] = setting([], "A number (default: 0.1), a list, 0, or optimal; repeatable."),
    penalty: options.Penalties = [],
    branch: str = setting("optimal", "Branch of bayes: optimal, amp, informed, unstable, all."),
    scores: bool = setting(False, "Test loss, Brier score, calibration error.", "--scores"),
    tol: options.Tolerance = None,
    output: Output,
) -> None:
    """Learning curve: the exact error of one or several estimators against α = n/d.

    Example: polyceptron curve -k 3 -a 0.5:5:10 -e bayes -e cross-entropy
    """
    from polyceptron.checks import check_alphas

    ends = parse_range(alpha, "--alpha")
    if ends is not None:
        alphas = check_alphas([ends.low, ends.high])
    else:
        alphas = check_alphas(parse_numbers(alpha, "--alpha"))
    names = estimator
    if not names:
        names = [_default_estimator(teacher, fits_more=intercept or class_weight is not None)]
    estimators = options.build_estimators(names, ridge, penalty, intercept, class_weight)
    request: dict[str, Any] = {"branch": branch, "tol": tol, "scores": scores}
    if ends is not None or (output.plot is not None and min(alphas) < max(alphas)):
        collected = _smooth_curves(teacher, estimators, alphas, ends, request)
    else:
        collected = _curve_points(teacher, estimators, alphas, request)
    rows = collected.rows
    if ends is None:  # points that only make the drawn line smooth are not printed
        rows = [row for row in rows if row["alpha"] in alphas]
    if not rows:
        raise InvalidInput(f"there is no {branch} branch at any of these alpha")
    settings = {"class_weight": class_weight, "intercept": intercept}
    try:
        _print_curve(output, rows, teacher, settings)
    finally:  # also where the reader of the rows has gone
        output.draw_curves(collected.rows)
    collected.exit_if_stopped()


def _default_estimator(teacher: AnyTeacher, *, fits_more: bool) -> str:
    """Return the Bayes-optimal rule where its theory answers, else cross-entropy.

    `fits_more` says that an intercept or class weights are asked for, which it does not have.
    """
    if teacher.symmetric and not fits_more:
        return "bayes"
    return "cross-entropy"


def _smooth_curves(
    teacher: AnyTeacher,
    estimators: list[Estimator],
    alphas: list[float],
    ends: Ends | None,
    request: dict[str, Any],
) -> Collected:
    """Solve at as many α as a smooth line needs, those of the list among them."""
    from polyceptron.questions.drawn_curve import drawn_rows

    low = min(alphas)
    high = max(alphas)
    logarithmic = low > 0 and high > 100 * low  # two decades are drawn on a logarithmic axis
    if ends is not None:
        logarithmic = ends.logarithmic
    request = {**request, "also": alphas, "log": logarithmic}
    parts = (drawn_rows(teacher, estimator, low, high, **request) for estimator in estimators)
    return collect(parts, len(estimators), "computing the curve")


def _curve_points(
    teacher: AnyTeacher,
    estimators: list[Estimator],
    alphas: list[float],
    request: dict[str, Any],
) -> Collected:
    """Solve at these α, in about twenty parts for each estimator: points of a part share work."""
    from polyceptron.questions.curve_rows import curve_parts

    size = max(1, len(alphas) // 20)
    # The first point is a part of its own: it tells soon how long the others will take.
    parts = [alphas[:1]]
    parts += [alphas[i : i + size] for i in range(1, len(alphas), size)]
    rows = (
        part_rows
        for estimator in estimators
        for part_rows in curve_parts(teacher, estimator, parts, **request)
    )
    return collect(rows, len(estimators) * len(parts), "computing the curve")


def _print_curve(
    output: Output, rows: list[Row], teacher: AnyTeacher, settings: dict[str, Any]
) -> None:
    """Print the rows; what is the same in all goes to the title, so that numbers have room."""
    shared = []
    for column in ("estimator", "branch"):
        if len({row.get(column) for row in rows}) == 1:
            shared.append(column)
    words = ", ".join(str(rows[0][column]) for column in shared if rows[0].get(column))
    hidden = set(shared)
    branches = {row["branch"] for row in rows if row.get("branch")}
    if branches <= {"optimal"}:
        hidden.add("branch")
    columns = [column for column in COLUMNS if column not in hidden]
    title = describe_teacher(teacher, **settings, estimator=words)
    output(rows, columns, optional=OPTIONAL, title=title)


RIDGE_COLUMNS = (
    "alpha",
    "ridge",
    "best",
    "generalisation_error",
    "uncertainty",
    "balanced_error",
    "clean_error",
    "test_loss",
    "calibration_error",
    "status",
)
RIDGE_OPTIONAL = ("clean_error", "test_loss", "calibration_error")
RIDGES_OF_A_LINE = 40  # points of each line in a picture, in addition to those asked for


@with_shared_options()
def ridge(
    *,
    alpha: options.Alpha,
    teacher: AnyTeacher,
    estimator: options.OneEstimator = "cross-entropy",
    intercept: options.Intercept = False,
    class_weight: options.ClassWeight = None,
    ridges: str = setting("1e-4:10:40", "λ: numbers or a range (log-spaced).", "--ridge"),
    target: str = setting("error", "What is least: error, test-loss, calibration, balanced-error."),
    tol: options.Tolerance = None,
    output: Output,
) -> None:
    """Error against the ridge, with the optimum of each α marked.

    The best ridge for the test loss or the calibration is another one: see --target.

    Example: polyceptron ridge --classes 3 --alpha 2,5
    """
    from polyceptron.checks import check_alphas
    from polyceptron.questions.ridge import ridge_parts

    (student,) = options.build_estimators([estimator], (), (), intercept, class_weight)
    alphas = check_alphas(parse_numbers(alpha, "--alpha"))
    values = parse_numbers(ridges, "--ridge", log=True)
    n_drawn = 0
    if output.plot is not None:
        n_drawn = RIDGES_OF_A_LINE
    parts = ridge_parts(teacher, student, alphas, values, tol, target=target, drawn=n_drawn)
    what = f"solving at {len(values)} ridges and the best one"
    collected = collect(parts, len(alphas) * (1 + len(set(values))), what)
    drawn = sorted(collected.rows, key=lambda row: (row["alpha"], row["ridge"]))
    rows = [row for row in drawn if row["is_best"] or row["ridge"] in values]
    if output.in_words:
        marks = {True: "*", False: ""}
        rows = [{**row, "best": marks[bool(row["is_best"])]} for row in rows]
    title = describe_teacher(
        teacher, class_weight=class_weight, intercept=intercept, estimator=estimator
    )
    try:
        output(rows, RIDGE_COLUMNS, optional=RIDGE_OPTIONAL, title=title)
    finally:  # also where the reader of the rows has gone
        output.draw_ridges(drawn)
    collected.exit_if_stopped()


@with_shared_options(*UNEQUAL_CLASSES, "plot", prior="rademacher")
def transitions(*, teacher: AnyTeacher, tol: options.Tolerance = None, output: Output) -> None:
    """Phase transitions: where perfect learning becomes possible, and where it becomes easy.

    Of Rademacher weights, unless --prior names others: Gaussian ones have none.

    Example: polyceptron transitions --classes 3
    """
    from polyceptron.theory.bayes.transitions import transitions as find_transitions

    with waiting(f"computing the transitions of {teacher.n_classes} classes"):
        found = find_transitions(teacher, tol)
    if output.in_words:
        _print_transitions(found, teacher)
    else:
        output([found.as_dict()])


def _print_transitions(found: Transitions, teacher: AnyTeacher) -> None:
    """Print both transitions and the hard phase between them, or that there is none."""
    title = describe_teacher(teacher)
    if found.status == Status.INCONSISTENT:
        echo(f"{found.status}: {Status.INCONSISTENT.meaning}")
    if found.alpha_it is None or found.alpha_algo is None:
        if found.status != Status.INCONSISTENT:
            echo(f"none: with {title} the error decays smoothly{_cure_for_none(teacher)}")
        return
    possible = "the best error jumps down"
    easy = "and message passing gets there"
    if teacher.noise.noiseless:
        possible = "perfect learning possible"
        easy = "and easy (message passing does it)"
    rows = [
        {
            "transition": "alpha_IT",
            "alpha": f"{found.alpha_it:.8g}",
            "uncertainty": found.alpha_it_uncertainty,
            "meaning": possible,
        },
        {
            "transition": "alpha_algo",
            "alpha": f"{found.alpha_algo:.8g}",
            "uncertainty": found.alpha_algo_uncertainty,
            "meaning": easy,
        },
    ]
    print_table(rows, tuple(rows[0]), f"{title} ({found.status})", optional=("meaning",))
    echo(f"hard phase: {found.alpha_it:.6g} < α < {found.alpha_algo:.6g}")


def _cure_for_none(teacher: AnyTeacher) -> str:
    """Return which weights have transitions, if these have none because they are continuous."""
    if teacher.prior.support is not None:
        return ""
    return "; weights of few values, as --prior rademacher, have transitions"


@with_shared_options("prior", "plot")
def separability(
    *,
    teacher: AnyTeacher,
    intercept: options.Intercept = False,
    tol: options.Tolerance = None,
    output: Output,
) -> None:
    """Separability: the α_s below which noisy labels, or Gaussian classes, can be separated.

    Below it a ridge of 0 means max-margin, above it the maximum-likelihood estimate exists.

    Example: polyceptron separability --classes 3 --noise softmax:2
    """
    from polyceptron.theory.separability import separability as find_separability

    with waiting(f"computing the separability of {teacher.n_classes} classes"):
        found = find_separability(teacher, tol, intercept=intercept)
    if not output.in_words:
        output([found.as_dict()])
    elif math.isinf(found.alpha_s):
        echo("alpha_s is infinite: labels without noise can be separated at every alpha")
    else:
        spread = format_value(found.alpha_s_uncertainty, "uncertainty")
        words = describe_row({**teacher.columns, "prior": None, "intercept": intercept})
        echo(f"{words}: alpha_s = {found.alpha_s:.7g} ± {spread} ({found.status})")


@with_shared_options("plot")
def asymptotics(
    *,
    teacher: AnyTeacher,
    estimator: options.OneEstimator = "bayes",
    intercept: options.Intercept = False,
    class_weight: options.ClassWeight = None,
    ridge: options.OneRidge = None,
    penalty: options.OnePenalty = None,
    alpha_max: float | None = setting(None, "Largest α (1e6 for k <= 3, else 1e4)."),
    output: Output,
) -> None:
    """The decay of the error at large α: exponent and constant, with uncertainties.

    Example: polyceptron asymptotics --classes 3 --estimator cross-entropy --ridge 0
    """
    from polyceptron.questions.asymptotics import asymptotics as find_asymptotics

    students = options.build_estimators([estimator], ridge, penalty, intercept, class_weight)
    if len(students) > 1:
        given = " and ".join(text for text in (ridge, penalty) if text)
        raise InvalidInput(f"give one ridge or one penalty, got {given}")
    student = students[0]
    with waiting(f"solving for {student.name} at large α"):
        found = find_asymptotics(teacher, student, alpha_max)
    row = _asymptotics_row(found, teacher, student)
    if output.in_words:
        _print_asymptotics(found, row, describe_teacher(teacher, estimator=student.name))
        return
    if output.as_json:  # with the points that the numbers were measured at
        row["alpha"] = found.alpha.tolist()
        row["generalisation_error"] = found.generalisation_error.tolist()
        row["uncertainty"] = found.uncertainty.tolist()
    output([row])


def _asymptotics_row(found: Asymptotics, teacher: AnyTeacher, student: Estimator) -> Row:
    """Return one row with the problem, the estimator and what was measured."""
    row: Row = {
        **teacher.columns,
        "ridge": None,
        **student.columns,
        "exponent": found.exponent,
        "exponent_uncertainty": found.exponent_uncertainty,
        "constant": found.constant,
        "constant_uncertainty": found.constant_uncertainty,
        "exact_exponent": found.exact_exponent,
        "exact_constant": found.exact_constant,
        "floor": found.floor,
        "alpha_max": float(found.alpha[-1]),
        "status": str(found.status),
    }
    if found.reason:
        row["reason"] = found.reason
    return row


def _print_asymptotics(found: Asymptotics, row: Row, problem: str) -> None:
    """Print exponent and constant, measured and exact, and the formula they belong to."""
    title = problem
    if row["ridge"] is not None:
        title += f", ridge {row['ridge']}"
    if row.get("penalty"):
        title += f", {row['penalty']}"
    title += f" ({found.status})"
    lines = []
    for name in ("exponent", "constant"):
        line = {
            "of": name,
            "measured": row[name],
            "uncertainty": row[f"{name}_uncertainty"],
            "exact": row[f"exact_{name}"],
        }
        lines.append(line)
    print_table(lines, tuple(lines[0]), title)
    floor = ""
    if found.floor > 0:
        floor = f"{found.floor:.6g} + "
    echo(f"error ≈ {floor}constant · α^(−exponent), measured up to α = {row['alpha_max']:g}")
    if found.reason:
        echo(found.reason)


STUDENT = ("estimator", "branch", "ridge", "penalty")
NEEDED = (*STUDENT, "alpha", "alpha_uncertainty", "n_samples", "status")
REACHED = (
    *STUDENT,
    "generalisation_error",
    "uncertainty",
    "balanced_error",
    "clean_error",
    "status",
)


@with_shared_options("plot")
def plan(
    *,
    error: float | None = setting(None, "The generalisation error to reach."),
    samples: int | None = setting(None, "Or the error that n samples give.", "--samples", "-n"),
    dimension: int | None = setting(None, "d, to turn α into n = αd.", "--dimension", "-d"),
    teacher: AnyTeacher,
    estimator: options.Estimators = [],
    intercept: options.Intercept = False,
    class_weight: options.ClassWeight = None,
    ridge: options.OneRidge = None,
    penalty: options.OnePenalty = None,
    output: Output,
) -> None:
    """How much data reaches a given error, per estimator; or which error given data reach.

    Where the best error jumps over the target, the α at which it is possible (branch optimal) and
    the α at which message passing gets there (branch amp) both have a row.

    Examples: polyceptron plan --classes 3 --error 0.1 --dimension 1000

    polyceptron plan --classes 3 --samples 5000 --dimension 1000

    polyceptron plan --mixture --shares 0.9,0.1 --separation 2 --intercept --error 0.1
    """
    names = estimator
    if not names:
        names = _compared_estimators(fits_more=intercept or class_weight is not None)
    students = options.build_estimators(names, ridge, penalty, intercept, class_weight)
    problem = describe_teacher(teacher, class_weight=class_weight, intercept=intercept)
    if error is not None and samples is not None:
        raise InvalidInput("give either --error, or --samples with --dimension, not both")
    if error is not None:
        title = f"{problem}: the data for an error of {error:g}"
        if dimension is not None:
            title += f", d = {dimension}"
        rows = _rows_of_needed_data(teacher, students, error, dimension)
        output(rows, NEEDED, optional=("status",), title=title)
        return
    if samples is None:
        raise InvalidInput("--error is missing: which error is to be reached?")
    if dimension is None:
        raise InvalidInput("--samples needs --dimension: alpha is n/d")
    rows = _rows_of_errors(teacher, students, samples, dimension)
    title = f"{problem}, n = {samples}, d = {dimension}: the error at α = {samples / dimension:g}"
    output(rows, REACHED, optional=("clean_error",), title=title)


def _compared_estimators(*, fits_more: bool) -> list[str]:
    """Return the estimators that a plan compares unless told.

    `fits_more` leaves out the Bayes-optimal rule, which fits no intercept and no class weights.
    """
    from polyceptron.problem import plain_estimators

    names = []
    for candidate in plain_estimators():
        if not (fits_more and candidate.branches):
            names.append(candidate.name)
    return names


def _rows_of_needed_data(
    teacher: AnyTeacher, students: list[Estimator], error: float, dimension: int | None
) -> list[Row]:
    """Return one row for each estimator, at the smallest α that reaches the error."""
    from polyceptron.questions.plan import check_target, plans

    check_target(error, teacher.n_classes)
    parts = (_rows_of_plan(found) for found in plans(teacher, error, students, dimension))
    return collect(parts, len(students), "planning").rows


def _rows_of_plan(found: Plan) -> list[Row]:
    """Return the row of a plan, and that of message passing where it needs more data."""
    if math.isinf(found.alpha):
        return [found.row]
    reached = [found]
    if found.algorithm is not None and found.algorithm.alpha != found.alpha:
        reached.append(found.algorithm)
    rows = []
    for plan_of_branch in reached:
        more = {
            "alpha_uncertainty": plan_of_branch.alpha_uncertainty,
            "at_jump": plan_of_branch.at_jump,
        }
        rows.append(plan_of_branch.row | more)
    return rows


def _rows_of_errors(
    teacher: AnyTeacher, students: list[Estimator], samples: int, dimension: int
) -> list[Row]:
    """Return one row for each estimator at α = n/d; both branches of the Bayes-optimal one."""
    from polyceptron.checks import check_size
    from polyceptron.questions.curve_rows import curve_rows
    from polyceptron.questions.plan import NO_THEORY

    n = check_size(samples, "samples")
    d = check_size(dimension, "dimension")

    def rows_of(student: Estimator) -> list[Row]:
        try:
            rows = curve_rows(teacher, student, [n / d])
        except InvalidInput:
            if len(students) == 1:
                raise
            return [{**teacher.columns, **student.columns, "status": NO_THEORY}]
        if student.branches:
            reached = curve_rows(teacher, student, [n / d], branch="amp")
            rows += [row for row in reached if row["q"] != rows[0]["q"]]
        return [{**row, "dimension": d, "n_samples": n} for row in rows]

    parts = (rows_of(student) for student in students)
    return collect(parts, len(students), "computing the errors").rows


COMMANDS = (curve, transitions, separability, ridge, asymptotics, plan)
