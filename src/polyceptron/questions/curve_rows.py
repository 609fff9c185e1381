"""One door to the theory: rows of a learning curve for any estimator, and grids made for drawing.

`drawn_rows` has α close together where a curve bends: at its start, where the error falls as √α,
and at the fold α_algo of the Bayes-optimal one, to which both branches go as ± √(α_algo − α); a
jump has a point on either side. `landscape` is Φ over a grid of overlaps.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from polyceptron.checks import check_alpha, check_alphas
from polyceptron.errors import InvalidInput
from polyceptron.numerics import Array
from polyceptron.problem import AnyTeacher
from polyceptron.problem.order import ScalarOrder
from polyceptron.problem.populations import check_population
from polyceptron.questions.calibration import fresh_scores
from polyceptron.rows import make_row
from polyceptron.students import Student, student_of
from polyceptron.theory.bayes.fixed_points import fixed_points
from polyceptron.theory.bayes.solution_curve import curve_of


def curve_rows(
    teacher: AnyTeacher, estimator: Any, alpha: Any, **asked: Any
) -> list[dict[str, Any]]:
    """Theory rows of `estimator` (an `Estimator` or its name) at each α, `asked` as below."""
    return next(curve_parts(teacher, estimator, [check_alphas(alpha)], **asked))


def curve_parts(
    teacher: AnyTeacher,
    estimator: Any,
    parts: Iterable[Iterable[float]],
    *,
    branch: str = "optimal",
    tol: float | None = None,
    scores: bool = False,
    searched: float = math.inf,
) -> Iterator[list[dict[str, Any]]]:
    """The rows of each part of the α as soon as they are known.

    With `scores` those of the student's probabilities stand in each row too, where it has a scale.
    A best ridge is searched for in the first `searched` parts, and read off between their points.
    """
    check_population(teacher)
    student = student_of(estimator)
    for rows in student.parts(teacher, parts, branch=branch, tol=tol, searched=searched):
        yield with_scores(teacher, student, rows) if scores else rows


def with_scores(
    teacher: AnyTeacher, student: Student, rows: Iterable[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The rows with scores at their laws; none without data, or where fields have no scale.

    Rows of classes that are not alike have their scores already: the law of their fields is no
    triple (m, q, V) of numbers.
    """
    if not student.spec.sees_equal_classes(teacher):
        return list(rows)
    found = []
    for row in rows:
        m, q, V = (float(row.get(name, math.nan)) for name in ("m", "q", "V"))
        hard = row.get("ridge") == 0 and row.get("training_error") == 0  # a direction only
        law = ScalarOrder.of_overlaps(m, q, V) if not hard and math.isfinite(q) and q > 0 else None
        found.append(make_row(**row, **(fresh_scores(teacher, student, law) if law else {})))
    return found


ERROR = "generalisation_error"
FIRST = 17  # points of a curve before any bend is known
BEND, LEAST = 0.002, 1e-3  # of the picture: a bend that is seen, the shortest step across
BESIDE_A_JUMP = 1e-4  # how far points beside a jump are from it, relative to its α


def drawn_rows(
    teacher: AnyTeacher, estimator: Any, low: float, high: float, **asked: Any
) -> list[dict[str, Any]]:
    """Theory rows through which a line looks smooth, by rising α: those of `drawn_parts`."""
    parts = drawn_parts(teacher, estimator, low, high, **asked)
    return sorted((row for part in parts for row in part), key=lambda row: float(row["alpha"]))


def drawn_parts(
    teacher: AnyTeacher,
    estimator: Any,
    low: float,
    high: float,
    *,
    log: bool = False,
    log_y: bool = False,
    also: Iterable[float] = (),
    first: int = FIRST,
    most: int = 100,
    at_a_time: int | None = None,
    **asked: Any,
) -> Iterator[list[dict[str, Any]]]:
    """Theory rows from α = `low` to `high`, part by part, `asked` as in `curve_parts`.

    `first` even steps of the axis (`log` or not), both sides of each jump, the α in `also`; then
    wherever the line bends the steps are halved, with `most` values of α in all. At most so many
    `at_a_time`: then the first part is a few from end to end, and those between come after it.
    """
    low, high = check_alphas([low, high])
    if not low < high or (log and low == 0):
        raise InvalidInput(
            f"a curve goes upwards, on a logarithmic axis from above 0: {low}, {high}"
        )
    student, rows = student_of(estimator), list[dict[str, Any]]()
    even = [*map(float, (np.geomspace if log else np.linspace)(low, high, min(first, most)))]
    sides = []  # of each jump, just below and just above it
    for jump in student.jumps(teacher):
        step = max(BESIDE_A_JUMP * jump.alpha, 2 * jump.uncertainty)
        sides += [jump.alpha - step, jump.alpha + step]
    others = [a for a in (*also, *sides) if low <= a <= high]
    size = at_a_time or most + len(others)

    def asked_for() -> Iterator[list[float]]:
        seen: set[float] = set()
        for step in (1,) if at_a_time is None else (4, 2, 1):
            new = sorted({*even[::step], even[-1], *(others if step == 1 else ())} - seen)
            seen.update(new)
            yield from (new[i : i + size] for i in range(0, len(new), size))
        while (left := most - len({row["alpha"] for row in rows})) > 0:
            if not (more := bends(rows, log=log, log_y=log_y)[:left]):
                return
            yield more[:size]

    for part in curve_parts(teacher, student, asked_for(), **asked):
        rows += part
        yield part


def bends(
    rows: Sequence[dict[str, Any]],
    *,
    log: bool = False,
    log_y: bool = False,
    x: str = "alpha",
    y: str = ERROR,
    line: str = "branch",
) -> list[float]:
    """New x where lines of y through the rows, one for each `line`, would still look broken.

    Beside a point farther from the chord of its neighbours than BEND, in units of the picture and
    beyond what it is known to, and where a line ends; the largest bends come first.
    """
    lines: dict[Any, dict[float, tuple[float, float]]] = {}
    for row in rows:
        value = float(row.get(y, math.nan))
        if math.isfinite(value) and not (log_y and value <= 0):
            known = math.log(value) if log_y else value
            spread = float(row.get("uncertainty", 0.0)) / (value if log_y else 1.0)
            lines.setdefault(row.get(line), {})[float(row[x])] = known, spread
    places = sorted({float(row[x]) for row in rows})  # lines end where there is no number
    heights = [height for one in lines.values() for height, _ in one.values()]
    if len(places) < 2 or not heights:
        return []
    at = np.log(places) if log else np.array(places)
    at = (at - at[0]) / (at[-1] - at[0])
    span = max(heights) - min(heights) or 1.0
    halved: dict[int, float] = {}  # the step i → i + 1, by how far it bends
    for one in lines.values():
        here = [i for i, a in enumerate(places) if a in one]
        for i in here:
            for step, beyond in ((i - 1, i - 1), (i, i + 1)):
                if 0 <= beyond < len(places) and places[beyond] not in one:
                    halved[step] = 1.0
        for i, j, k in zip(here, here[1:], here[2:], strict=False):
            (y0, _), (y1, spread), (y2, _) = (one[places[n]] for n in (i, j, k))
            across, up = at[k] - at[i], (y2 - y0) / span
            off = abs((y1 - y0) / span * across - up * (at[j] - at[i])) / math.hypot(across, up)
            if off > BEND + 2 * spread / span:
                for step in (i, j):
                    halved[step] = max(off, halved.get(step, 0.0))
    wide = [i for i in halved if at[i + 1] - at[i] > LEAST]
    return [
        math.sqrt(places[i] * places[i + 1]) if log else (places[i] + places[i + 1]) / 2
        for i in sorted(wide, key=lambda i: -halved[i])
    ]


CLOSEST_V = 1e-12  # 1 − q of the last point of a landscape before q = 1


def landscape(
    teacher: AnyTeacher, alpha: float, tol: float | None = None, n_points: int = 240
) -> dict[str, Any]:
    """Φ(q; α) = (r/2) q̂ v + ψ(q̂) + αΨ_out(q) with q̂ set by q = F(q̂), and its extrema.

    Stationary in q exactly at the fixed points of state evolution (eq. SE_BO): maxima are stable,
    minima barriers.

    Parameters
    ----------
    teacher : Teacher or Perceptron
    alpha : float
        n/d.
    tol : float, optional
        The wanted uncertainty of the error at the extrema.
    n_points : int
        Values of q.

    Returns
    -------
    dict
        Lists `q`, `free_entropy` and `extrema` (branch, q, free entropy, error); `perfect` is the
        value at q = 1, or None.

    Examples
    --------
    >>> from polyceptron.problem import Teacher
    >>> [point["branch"] for point in landscape(Teacher(3, "rademacher"), 2.6)["extrema"]]
    ['optimal', 'amp', 'informed', 'unstable']
    """
    alpha = check_alpha(alpha)
    points, curve = fixed_points(teacher, alpha, tol), curve_of(teacher)
    grid = curve.grid(0).q_hat
    inside = [p.q_hat for p in points if 0 < p.q_hat < math.inf]
    v = curve.points(grid).v
    by_v = np.argsort(v)
    even = np.interp(np.linspace(0.002, 0.998, n_points), v[by_v], grid[by_v])
    # States of several scales lie close to q = 1: as many points in equal steps of ln v beyond.
    close = np.exp(np.linspace(math.log(0.002), math.log(max(v.min(), CLOSEST_V)), n_points))
    close = np.interp(close[1:], v[by_v], grid[by_v])
    q_hat = np.unique(np.concatenate([even, close[close < grid[-1]], inside]))
    q, phi = free_entropy(teacher, q_hat, alpha)
    perfect = float(curve.perfect_entropy(alpha)) if curve.perfect else None
    if perfect is not None:
        q, phi = np.append(q, 1.0), np.append(phi, perfect)
    names = ("branch", "q", "free_entropy", "generalisation_error", "uncertainty")
    extrema = [
        {name: getattr(p, name) for name in names}
        for p in points
        if not (p.branch == "informed" and perfect is None)
    ]
    no_information = -math.log(teacher.n_classes)  # Ψ_out at q = 0: every label equally likely
    return {
        "alpha": alpha,
        "q": [0.0, *q.tolist()],
        "free_entropy": [alpha * no_information, *phi.tolist()],
        "perfect": perfect,
        "extrema": extrema,
    }


def free_entropy(teacher: AnyTeacher, q_hat: Array, alpha: float) -> tuple[Array, Array]:
    """q = F(q̂) and Φ(q; α) at each q̂ (n,)."""
    points = curve_of(teacher).points(q_hat)
    # The curve's own Φ is at α(q̂); Φ is linear in α with slope Ψ_out at fixed q.
    return points.q, points.free_entropy + (alpha - points.alpha) * points.channel_entropy
