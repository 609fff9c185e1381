"""Theory at the shell: curve, ridge, transitions, separability, asymptotics, plan."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from polyceptron.cli import options
from polyceptron.cli.inputs import UNEQUAL_CLASSES, build_estimators, with_shared_options
from polyceptron.cli.options import ESTIMATOR, PROBLEM, RESULT, setting
from polyceptron.cli.output import Collected, Output, collect
from polyceptron.cli.tables import (
    describe_row,
    describe_teacher,
    echo,
    format_value,
    header,
    print_table,
    uncertainty_column,
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
    ridge: options.Ridges = [],
    penalty: options.Penalties = [],
    intercept: options.Intercept = False,
    class_weight: options.ClassWeight = None,
    branch: str = setting(
        "optimal",
        "Branch of the Bayes-optimal theory: optimal (the lowest possible error), amp (the error "
        "that message passing reaches), informed (the same, started at the teacher's weights), "
        "unstable (the barrier between these two), or all.",
        metavar="NAME",
        panel=ESTIMATOR,
    ),
    scores: bool = setting(
        False,
        "Also compute the test loss, the Brier score and the calibration error.",
        "--scores",
        panel=RESULT,
    ),
    tol: options.Tolerance = None,
    output: Output,
) -> None:
    """Compute the exact error of one or several estimators against α = n/d.

    Example: polyceptron curve -k 3 -a 0.5:5:10 -e bayes -e cross-entropy
    """
    ends = parse_range(alpha, "--alpha")
    alphas = _read_alphas(alpha, ends)
    asks_for_a_fit = bool(ridge or penalty or intercept or class_weight)
    names = estimator or [default_estimator(teacher, asks_for_a_fit)]
    estimators = build_estimators(names, ridge, penalty, intercept, class_weight)
    request: dict[str, Any] = {"branch": branch, "tol": tol, "scores": scores}
    is_line_drawn = output.plot is not None and min(alphas) < max(alphas)
    if ends is not None or is_line_drawn:
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


def _read_alphas(text: str, ends: Ends | None) -> list[float]:
    """Return the values of --alpha, or the two ends of a range without a count."""
    from polyceptron.checks import check_alphas

    if ends is not None:
        return check_alphas([ends.low, ends.high])
    return check_alphas(parse_numbers(text, "--alpha"))


def default_estimator(teacher: AnyTeacher, asks_for_a_fit: bool) -> str:
    """Return the Bayes-optimal estimator where its theory answers, else cross-entropy.

    `asks_for_a_fit` says that a ridge, a penalty, an intercept or class weights are given, which
    the Bayes-optimal estimator does not have.
    """
    if teacher.symmetric and not asks_for_a_fit:
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


TARGET_COLUMNS = {
    "error": "generalisation_error",
    "balanced-error": "balanced_error",
    "test-loss": "test_loss",
    "calibration": "calibration_error",
}


@with_shared_options()
def ridge(
    *,
    alpha: options.Alpha,
    teacher: AnyTeacher,
    estimator: options.OneEstimator = "cross-entropy",
    ridges: str = setting(
        "1e-4:10:40",
        "Ridges λ to compare with the best one: a list such as 0.01,0.1,1 or a range "
        "start:stop:count with logarithmic spacing.",
        "--ridge",
        metavar="LIST",
        panel=ESTIMATOR,
    ),
    target: str = setting(
        "error",
        "Quantity that the best ridge minimises: error, test-loss, calibration or balanced-error. "
        "Each has its own best ridge.",
        metavar="NAME",
        panel=ESTIMATOR,
    ),
    intercept: options.Intercept = False,
    class_weight: options.ClassWeight = None,
    tol: options.Tolerance = None,
    output: Output,
) -> None:
    """Find the best ridge λ at each α, and compare its error with that of other ridges.

    Example: polyceptron ridge --classes 3 --alpha 2,5
    """
    from polyceptron.checks import check_alphas
    from polyceptron.questions.ridge import ridge_parts

    (student,) = build_estimators([estimator], (), (), intercept, class_weight)
    alphas = check_alphas(parse_numbers(alpha, "--alpha"))
    values = parse_numbers(ridges, "--ridge", log=True)
    n_drawn = 0
    if output.plot is not None:
        n_drawn = RIDGES_OF_A_LINE
    parts = ridge_parts(teacher, student, alphas, values, tol, target=target, drawn=n_drawn)
    what = f"finding the best ridge, and the error at {len(values)} others"
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
        if output.in_words:
            _print_best_ridges(rows, target)
    finally:  # also where the reader of the rows has gone
        output.draw_ridges(drawn)
    collected.exit_if_stopped()


def _print_best_ridges(rows: list[Row], target: str) -> None:
    """Print one sentence for each α: its best ridge, and what that ridge achieves."""
    column = TARGET_COLUMNS.get(target, "generalisation_error")
    for row in rows:
        if row["is_best"]:
            value = f"{header(column)} {row[column]:.6g}"
            uncertainty = row.get(uncertainty_column(column))
            if uncertainty is not None:
                value += f" ± {format_value(uncertainty, 'uncertainty')}"
            echo(f"best λ = {row['ridge']:.6g} at α = {row['alpha']:g} ({value})")


@with_shared_options(*UNEQUAL_CLASSES, "plot", prior="rademacher")
def transitions(*, teacher: AnyTeacher, tol: options.Tolerance = None, output: Output) -> None:
    """Find the phase transitions: the α at which perfect learning becomes possible, and then easy.

    Weights with few values, such as rademacher, have transitions; gaussian weights have none.

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
            echo(f"no transition: the error of {title} falls smoothly{_cure_for_none(teacher)}")
        return
    possible = "the lowest possible error jumps down"
    easy = "message passing reaches it"
    if teacher.noise.noiseless:
        possible = "perfect learning becomes possible"
        easy = "message passing learns perfectly"
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
    return "; weights with few values, such as --prior rademacher, have transitions"


@with_shared_options("prior", "prune", "plot")
def separability(
    *,
    teacher: AnyTeacher,
    intercept: options.Intercept = False,
    tol: options.Tolerance = None,
    output: Output,
) -> None:
    """Find α_s: below it a linear rule separates the training samples perfectly.

    Below α_s a fit without a ridge tends to max-margin; above it the maximum-likelihood estimate
    exists. Labels need noise for that, or come from overlapping Gaussian clusters (--mixture).

    Example: polyceptron separability --classes 3 --noise softmax:2
    """
    from polyceptron.theory.separability import separability as find_separability

    with waiting(f"computing the separability of {teacher.n_classes} classes"):
        found = find_separability(teacher, tol, intercept=intercept)
    if not output.in_words:
        output([found.as_dict()])
    elif math.isinf(found.alpha_s):
        echo("alpha_s is infinite: a linear rule separates noiseless labels at every alpha")
    else:
        spread = format_value(found.alpha_s_uncertainty, "uncertainty")
        words = describe_row({**teacher.columns, "prior": None, "intercept": intercept})
        echo(f"{words}: alpha_s = {found.alpha_s:.7g} ± {spread}, 99 % ({found.status})")


@with_shared_options("prune", "plot")
def asymptotics(
    *,
    teacher: AnyTeacher,
    estimator: options.EstimatorOrDefault = None,
    ridge: options.OneRidge = None,
    penalty: options.OnePenalty = None,
    intercept: options.Intercept = False,
    class_weight: options.ClassWeight = None,
    alpha_max: float | None = setting(
        None,
        "Largest α to solve at, for example 1e5.",
        metavar="NUMBER",
        show_default="1e6 for k up to 3, else 1e4",
        panel=RESULT,
    ),
    output: Output,
) -> None:
    """Measure how the error decays at large α: error ≈ floor + constant · α^(−exponent).

    Example: polyceptron asymptotics --classes 3 --estimator cross-entropy --ridge 0
    """
    from polyceptron.questions.asymptotics import asymptotics as find_asymptotics

    name = estimator
    if name is None:
        asks_for_a_fit = bool(ridge or penalty or intercept or class_weight)
        name = "cross-entropy" if asks_for_a_fit else "bayes"
    students = build_estimators([name], ridge, penalty, intercept, class_weight)
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
            "quantity": name,
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
    error: float | None = setting(
        None,
        "Generalisation error to reach, for example 0.1: compute the samples that it takes.",
        metavar="NUMBER",
        panel=PROBLEM,
    ),
    samples: int | None = setting(
        None,
        "Number of samples that you have, for example 5000: compute the errors they give. It "
        "replaces --error and needs --dimension.",
        *("--samples", "-n"),
        metavar="N",
        panel=PROBLEM,
    ),
    dimension: int | None = setting(
        None,
        "Number of features d, for example 1000. With it the answer is also a number of samples, "
        "n = αd.",
        *("--dimension", "-d"),
        metavar="D",
        panel=PROBLEM,
    ),
    teacher: AnyTeacher,
    estimator: list[str] = setting(
        [],
        "Estimator: {estimators}. Repeat the option to compare several.",
        *("--estimator", "-e"),
        metavar="NAME",
        show_default="bayes, cross-entropy, square and max-margin",
        panel=ESTIMATOR,
    ),
    ridge: str | None = setting(
        None,
        "Ridge λ: a number such as 0.5, or optimal for the best one.",
        metavar="NUMBER",
        show_default="optimal",
        panel=ESTIMATOR,
    ),
    penalty: options.OnePenalty = None,
    intercept: options.Intercept = False,
    class_weight: options.ClassWeight = None,
    output: Output,
) -> None:
    """Find how many samples each estimator needs for an error, or which error n samples give.

    Give either --error, or --samples with --dimension.

    The estimators are compared at their best ridge, unless you give --ridge or --penalty.

    If the error jumps from above --error to below it, the estimator bayes has two rows: the α at
    which that error becomes possible (branch optimal), and the α at which message passing reaches
    it (branch amp).

    Examples: polyceptron plan --classes 3 --error 0.1 --dimension 1000

    polyceptron plan --classes 3 --samples 5000 --dimension 1000

    polyceptron plan --mixture --shares 0.9,0.1 --separation 2 --intercept --error 0.06
    """
    names = estimator
    if not names:
        names = _compared_estimators(fits_more=intercept or class_weight is not None)
    students = build_estimators(
        names, ridge, penalty, intercept, class_weight, default_ridge="optimal"
    )
    problem = describe_teacher(teacher, class_weight=class_weight, intercept=intercept)
    if any(student.columns.get("ridge") == "optimal" for student in students):
        problem += ", best ridge"
    if error is not None and samples is not None:
        raise InvalidInput("give either --error, or --samples with --dimension, not both")
    if error is not None:
        title = f"{problem}: samples needed for an error of {error:g}"
        if dimension is not None:
            title += f", d = {dimension}"
        needed = _rows_of_needed_data(teacher, students, error, dimension)
        output(needed.rows, NEEDED, optional=("status",), title=title)
        needed.exit_if_stopped()
        return
    if samples is None:
        raise InvalidInput(
            "give --error, the error to reach, or --samples and --dimension, the data you have"
        )
    if dimension is None:
        raise InvalidInput("--samples needs --dimension, since α = n/d")
    reached = _rows_of_errors(teacher, students, samples, dimension)
    title = f"{problem}, n = {samples}, d = {dimension}: the error at α = {samples / dimension:g}"
    output(reached.rows, REACHED, optional=("clean_error",), title=title)
    reached.exit_if_stopped()


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
) -> Collected:
    """Return one row for each estimator, at the smallest α that reaches the error."""
    from polyceptron.questions.plan import check_target, plans

    check_target(error, teacher.n_classes)
    parts = (_rows_of_plan(found) for found in plans(teacher, error, students, dimension))
    return collect(parts, len(students), "planning")


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
) -> Collected:
    """Return one row for each estimator at α = n/d; both branches of the Bayes-optimal one."""
    from polyceptron.checks import check_size
    from polyceptron.questions.curve_rows import curve_rows
    from polyceptron.questions.plan import NO_THEORY

    n = check_size(samples, "samples")
    d = check_size(dimension, "dimension")

    def rows_of(student: Estimator) -> list[Row]:
        """Return the rows of one student, or a row that says why it has none."""
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
    return collect(parts, len(students), "computing the errors")


COMMANDS = (curve, transitions, separability, ridge, asymptotics, plan)
