"""Theory at the shell: curve, ridge, transitions, separability, asymptotics, plan."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from polyceptron.cli import options
from polyceptron.cli.options import setting
from polyceptron.errors import InvalidInput
from polyceptron.number_lists import parse_numbers, parse_range
from polyceptron.progress import waiting
from polyceptron.rows import Row

if TYPE_CHECKING:
    from polyceptron.problem import AnyTeacher, Estimator

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


@options.given()
def curve(
    *,
    alpha: options.CurveAlpha,
    teacher: Any,
    estimator: options.Estimators = [],
    intercept: options.Intercept = False,
    class_weight: options.ClassWeight = None,
    ridge: list[str] = setting([], "A number (default: 0.1), a list, 0, or optimal; repeatable."),
    penalty: options.Penalties = [],
    branch: str = setting("optimal", "Branch of bayes: optimal, amp, informed, unstable, all."),
    scores: bool = setting(False, "Test loss, Brier score, calibration error.", "--scores"),
    tol: options.Tolerance = None,
    output: Any,
) -> None:
    """Learning curve: the exact error of one or several estimators against α = n/d.

    Example: polyceptron curve -k 3 -a 0.5:5:10 -e bayes -e cross-entropy
    """
    from polyceptron.checks import check_alphas
    from polyceptron.questions.curve_rows import curve_parts
    from polyceptron.questions.drawn_curve import drawn_rows

    ends = parse_range(alpha, "--alpha")
    alphas = check_alphas(ends[:2] if ends else parse_numbers(alpha, "--alpha"))
    alike = teacher.symmetric and not intercept and class_weight is None
    names = estimator or ["bayes" if alike else "cross-entropy"]
    estimators = options.build_estimators(names, ridge, penalty, intercept, class_weight)
    asked: dict[str, Any] = {"branch": branch, "tol": tol, "scores": scores}
    low, high = min(alphas), max(alphas)
    if ends or (output.plot is not None and low < high):  # as many points as a smooth line needs
        asked |= {"also": alphas, "log": ends[2] if ends else high > 100 * low > 0}
        every = (drawn_rows(teacher, one, low, high, **asked) for one in estimators)
        count = len(estimators)
    else:
        size = max(1, len(alphas) // 20)
        parts = [alphas[:1], *(alphas[i : i + size] for i in range(1, len(alphas), size))]
        every = (part for one in estimators for part in curve_parts(teacher, one, parts, **asked))
        count = len(estimators) * len(parts)
    drawn, stopped = options.collect(every, count, "computing the curve")
    rows = drawn if ends else [row for row in drawn if row["alpha"] in alphas]
    if not rows:
        raise InvalidInput(f"there is no {branch} branch at any of these alpha")
    # What is the same in every row goes to the title, so that numbers keep their digits.
    shared = [c for c in ("estimator", "branch") if len({row.get(c) for row in rows}) == 1]
    same = ", ".join(str(rows[0][c]) for c in shared if rows[0].get(c))
    title = options.describe_teacher(
        teacher, class_weight=class_weight, intercept=intercept, estimator=same
    )
    told = {row["branch"] for row in rows if row.get("branch")} - {"optimal"}
    columns = [c for c in COLUMNS if c not in shared and (c != "branch" or told)]
    try:
        output(rows, columns, optional=OPTIONAL, title=title)
    finally:  # also where the reader of the rows has gone
        output.draw("curves_picture", drawn)
    stopped()


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


@options.given()
def ridge(
    *,
    alpha: options.Alpha,
    teacher: Any,
    estimator: options.OneEstimator = "cross-entropy",
    intercept: options.Intercept = False,
    class_weight: options.ClassWeight = None,
    ridges: str = setting("1e-4:10:40", "λ: numbers or a range (log-spaced).", "--ridge"),
    target: str = setting("error", "What is least: error, test-loss, calibration, balanced-error."),
    tol: options.Tolerance = None,
    output: Any,
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
    asked: Any = {"target": target, "drawn": 40 * (output.plot is not None)}
    every = ridge_parts(teacher, student, alphas, values, tol, **asked)
    what = f"solving at {len(values)} ridges and the best one"
    rows, stopped = options.collect(every, len(alphas) * (1 + len({*values})), what)
    drawn = sorted(rows, key=lambda row: (row["alpha"], row["ridge"]))
    rows = [row for row in drawn if row["is_best"] or row["ridge"] in values]
    if output.in_words:
        rows = [{**row, "best": "*" if row["is_best"] else ""} for row in rows]
    title = options.describe_teacher(
        teacher, class_weight=class_weight, intercept=intercept, estimator=estimator
    )
    try:
        output(rows, RIDGE_COLUMNS, optional=RIDGE_COLUMNS[6:9], title=title)
    finally:  # also where the reader of the rows has gone
        output.draw("ridge_picture", drawn)
    stopped()


@options.given(*options.UNEQUAL, "plot", prior="rademacher")
def transitions(*, teacher: Any, tol: options.Tolerance = None, output: Any) -> None:
    """Phase transitions: where perfect learning becomes possible, and where it becomes easy.

    Of Rademacher weights, unless --prior names others: Gaussian ones have none.

    Example: polyceptron transitions --classes 3
    """
    from polyceptron.rows import Status
    from polyceptron.theory.bayes.transitions import transitions as find

    with waiting(f"computing the transitions of {teacher.n_classes} classes"):
        found = find(teacher, tol)
    if not output.in_words:
        output([found.as_dict()])
        return
    title = options.describe_teacher(teacher)
    if found.status == Status.INCONSISTENT:
        options.echo(f"{found.status}: {Status.INCONSISTENT.meaning}")
    if found.alpha_it is None or found.alpha_algo is None:
        if found.status == Status.INCONSISTENT:
            return
        finite = teacher.prior.support is not None
        cure = "" if finite else "; weights of few values, as --prior rademacher, have transitions"
        options.echo(f"none: with {title} the error decays smoothly{cure}")
        return
    meanings = ("the best error jumps down", "and message passing gets there")
    if teacher.noise.noiseless:
        meanings = ("perfect learning possible", "and easy (message passing does it)")
    rows = [
        {
            "transition": f"alpha_{name}",
            "alpha": f"{getattr(found, f'alpha_{name.lower()}'):.8g}",
            "uncertainty": getattr(found, f"alpha_{name.lower()}_uncertainty"),
            "meaning": meaning,
        }
        for name, meaning in zip(("IT", "algo"), meanings, strict=True)
    ]
    options.print_table(rows, tuple(rows[0]), f"{title} ({found.status})", optional=("meaning",))
    options.echo(f"hard phase: {found.alpha_it:.6g} < α < {found.alpha_algo:.6g}")


@options.given("prior", "plot")
def separability(
    *,
    teacher: Any,
    intercept: options.Intercept = False,
    tol: options.Tolerance = None,
    output: Any,
) -> None:
    """Separability: the α_s below which noisy labels, or Gaussian classes, can be separated.

    Below it a ridge of 0 means max-margin, above it the maximum-likelihood estimate exists.

    Example: polyceptron separability --classes 3 --noise softmax:2
    """
    from polyceptron.theory.separability import separability as find

    with waiting(f"computing the separability of {teacher.n_classes} classes"):
        found = find(teacher, tol, intercept=intercept)
    if not output.in_words:
        output([found.as_dict()])
    elif math.isinf(found.alpha_s):
        options.echo("alpha_s is infinite: labels without noise can be separated at every alpha")
    else:
        spread = options.format_value(found.alpha_s_uncertainty, "uncertainty")
        words = options.describe_row({**teacher.columns, "prior": None, "intercept": intercept})
        options.echo(f"{words}: alpha_s = {found.alpha_s:.7g} ± {spread} ({found.status})")


@options.given("plot")
def asymptotics(
    *,
    teacher: Any,
    estimator: options.OneEstimator = "bayes",
    intercept: options.Intercept = False,
    class_weight: options.ClassWeight = None,
    ridge: options.OneRidge = None,
    penalty: options.OnePenalty = None,
    alpha_max: float | None = setting(None, "Largest α (1e6 for k <= 3, else 1e4)."),
    output: Any,
) -> None:
    """The decay of the error at large α: exponent and constant, with uncertainties.

    Example: polyceptron asymptotics --classes 3 --estimator cross-entropy --ridge 0
    """
    from polyceptron.questions.asymptotics import asymptotics as find

    chosen, *others = options.build_estimators([estimator], ridge, penalty, intercept, class_weight)
    if others:
        got = " and ".join(filter(None, (ridge, penalty)))
        raise InvalidInput(f"give one ridge or one penalty, got {got}")
    with waiting(f"solving for {chosen.name} at large α"):
        found = find(teacher, chosen, alpha_max)
    measured = [f"{name}{end}" for name in ("exponent", "constant") for end in ("", "_uncertainty")]
    measured += ["exact_exponent", "exact_constant", "floor"]
    row: dict[str, Any] = {
        **teacher.columns,
        "ridge": None,
        **chosen.columns,
        **{name: getattr(found, name) for name in measured},
        "alpha_max": float(found.alpha[-1]),
        "status": str(found.status),
    }
    if found.reason:
        row["reason"] = found.reason
    if not output.in_words:
        points = ("alpha", "generalisation_error", "uncertainty") if output.as_json else ()
        output([row | {name: getattr(found, name).tolist() for name in points}])
        return
    lines = [
        {
            "of": of,
            "measured": row[of],
            "uncertainty": row[f"{of}_uncertainty"],
            "exact": row[f"exact_{of}"],
        }
        for of in ("exponent", "constant")
    ]
    strength = "" if row["ridge"] is None else f", ridge {row['ridge']}"
    strength += f", {row['penalty']}" if row.get("penalty") else ""
    title = f"{options.describe_teacher(teacher, estimator=chosen.name)}{strength} ({found.status})"
    options.print_table(lines, tuple(lines[0]), title)
    floor = f"{found.floor:.6g} + " if found.floor > 0 else ""
    options.echo(
        f"error ≈ {floor}constant · α^(−exponent), measured up to α = {row['alpha_max']:g}"
    )
    if found.reason:
        options.echo(found.reason)


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


@options.given("plot")
def plan(
    *,
    error: float | None = setting(None, "The generalisation error to reach."),
    samples: int | None = setting(None, "Or the error that n samples give.", "--samples", "-n"),
    dimension: int | None = setting(None, "d, to turn α into n = αd.", "--dimension", "-d"),
    teacher: Any,
    estimator: options.Estimators = [],
    intercept: options.Intercept = False,
    class_weight: options.ClassWeight = None,
    ridge: options.OneRidge = None,
    penalty: options.OnePenalty = None,
    output: Any,
) -> None:
    """How much data reaches a given error, per estimator; or which error given data reach.

    Where the best error jumps over the target, the α at which it is possible (branch optimal) and
    the α at which message passing gets there (branch amp) both have a row.

    Examples: polyceptron plan --classes 3 --error 0.1 --dimension 1000

    polyceptron plan --classes 3 --samples 5000 --dimension 1000

    polyceptron plan --mixture --shares 0.9,0.1 --separation 2 --intercept --error 0.1
    """
    from polyceptron.problem import plain_estimators

    fitted = intercept or class_weight is not None  # which the Bayes-optimal rule does not have
    names = estimator or [one.name for one in plain_estimators() if not (fitted and one.branches)]
    students = options.build_estimators(names, ridge, penalty, intercept, class_weight)
    problem = options.describe_teacher(teacher, class_weight=class_weight, intercept=intercept)
    if error is not None and samples is not None:
        raise InvalidInput("give either --error, or --samples with --dimension, not both")
    if error is not None:
        title = f"{problem}: the data for an error of {error:g}"
        title += "" if dimension is None else f", d = {dimension}"
        rows = _needs(teacher, students, error, dimension)
        output(rows, NEEDED, optional=("status",), title=title)
        return
    if samples is None:
        raise InvalidInput("--error is missing: which error is to be reached?")
    if dimension is None:
        raise InvalidInput("--samples needs --dimension: alpha is n/d")
    rows = _errors(teacher, students, samples, dimension)
    title = f"{problem}, n = {samples}, d = {dimension}: the error at α = {samples / dimension:g}"
    output(rows, REACHED, optional=("clean_error",), title=title)


def _needs(
    teacher: AnyTeacher, students: list[Estimator], error: float, dimension: int | None
) -> list[Row]:
    """One row for each estimator, at the smallest α that reaches the error."""
    from polyceptron.questions.plan import Plan, check_target, plans

    def rows(found: Plan) -> list[Row]:
        if math.isinf(found.alpha):
            return [found.row]
        other = found.algorithm
        return [
            one.row | {"alpha_uncertainty": one.alpha_uncertainty, "at_jump": one.at_jump}
            for one in (found, *([other] if other and other.alpha != found.alpha else []))
        ]

    check_target(error, teacher.n_classes)
    every = (rows(found) for found in plans(teacher, error, students, dimension))
    return options.collect(every, len(students), "planning")[0]


def _errors(
    teacher: AnyTeacher, students: list[Estimator], samples: int, dimension: int
) -> list[Row]:
    """One row for each estimator at α = n/d; both branches of the Bayes-optimal one."""
    from polyceptron.checks import check_size
    from polyceptron.questions.curve_rows import curve_rows
    from polyceptron.questions.plan import NO_THEORY

    n, d = check_size(samples, "samples"), check_size(dimension, "dimension")

    def rows(student: Estimator) -> list[Row]:
        try:
            found = curve_rows(teacher, student, [n / d])
        except InvalidInput:
            if len(students) == 1:
                raise
            return [{**teacher.columns, **student.columns, "status": NO_THEORY}]
        if student.branches:
            reached = curve_rows(teacher, student, [n / d], branch="amp")
            found += [row for row in reached if row["q"] != found[0]["q"]]
        return [{**row, "dimension": d, "n_samples": n} for row in found]

    return options.collect(map(rows, students), len(students), "computing the errors")[0]


COMMANDS = (curve, transitions, separability, ridge, asymptotics, plan)
