"""Values of α close enough together for a smooth line, fewest where the curve is straight.

A line through evenly spaced points looks broken where the curve bends: at its start, where the
error falls as √α, and at the fold α_algo of the Bayes-optimal curve, which both branches approach
as ± √(α_algo − α). `drawn_parts` asks for

    1. evenly spaced α, and those that the caller wants in addition
    2. one α just below and one just above each jump of the error
    3. the middles of intervals beside a visible bend (`bends`), until there is none

`bends` measures in units of the picture: x and y from 0 at one edge to 1 at the other. A bend is
the distance of a point from the chord through its two neighbours.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from polyceptron.checks import check_alphas
from polyceptron.errors import InvalidInput
from polyceptron.numerics import Array
from polyceptron.problem import AnyTeacher
from polyceptron.questions.curve_rows import curve_parts
from polyceptron.rows import Row
from polyceptron.students import Student, student_of

ERROR = "generalisation_error"
N_FIRST_POINTS = 17  # evenly spaced, before any bend is known: 16 intervals, halved where needed
# In units of the picture. On a page 2.9 inches high the smallest bend is a third of the width of a
# line: tests/unit/theory/test_curve_grid.py.
SMALLEST_VISIBLE_BEND = 0.002
SHORTEST_STEP = 1e-3  # across: intervals below this are not halved
# A line that ends inside the picture is refined there before any bend, as if it bent by its height.
BEND_AT_END_OF_LINE = 1.0
# How far the points beside a jump are from it, relative to its α: below what is seen as a slant.
DISTANCE_FROM_JUMP = 1e-4


def drawn_rows(
    teacher: AnyTeacher, estimator: Any, low: float, high: float, **settings: Any
) -> list[Row]:
    """Return theory rows through which a line looks smooth, by rising α.

    Parameters are those of `drawn_parts`.
    """
    parts = drawn_parts(teacher, estimator, low, high, **settings)
    return sorted((row for part in parts for row in part), key=_alpha)


def _alpha(row: Row) -> float:
    return float(row["alpha"])


def drawn_parts(
    teacher: AnyTeacher,
    estimator: Any,
    low: float,
    high: float,
    *,
    log: bool = False,
    log_y: bool = False,
    also: Iterable[float] = (),
    first: int = N_FIRST_POINTS,
    most: int = 100,
    at_a_time: int | None = None,
    **asked: Any,
) -> Iterator[list[Row]]:
    """Yield theory rows from α = `low` to `high`, part by part.

    Parameters
    ----------
    teacher : Teacher, Perceptron or Mixture
    estimator : Estimator, Student, Loss or str
    low, high : float
        The ends of the axis.
    log, log_y : bool
        Whether the axes of α and of the error are logarithmic.
    also : iterable of float
        Further values of α; those outside the axis are left out.
    first : int
        The number of evenly spaced α.
    most : int
        The largest number of α in all.
    at_a_time : int, optional
        The largest number of α in a part. With it the first part has few α from end to end, and
        those between come after it.
    asked
        Further parameters of `curve_parts`.
    """
    low, high = check_alphas([low, high])
    if not low < high or (log and low == 0):
        raise InvalidInput(
            "the range of a curve must go upwards, and on a logarithmic axis start above 0; got "
            f"{low} to {high}"
        )
    student = student_of(estimator)
    n_even = min(first, most)
    if log:
        even = np.geomspace(low, high, n_even).tolist()
    else:
        even = np.linspace(low, high, n_even).tolist()
    extra = [a for a in (*also, *_beside_jumps(teacher, student)) if low <= a <= high]
    alphas = _AlphasToDraw(even, extra, most, at_a_time, log, log_y)
    for rows in curve_parts(teacher, student, alphas.parts(), **asked):
        alphas.rows.extend(rows)
        yield rows


def _beside_jumps(teacher: AnyTeacher, student: Student) -> list[float]:
    """Return two α for each jump of the error, just below and just above it."""
    alphas = []
    for jump in student.jumps(teacher):
        distance = max(DISTANCE_FROM_JUMP * jump.alpha, 2 * jump.uncertainty)
        alphas.append(jump.alpha - distance)
        alphas.append(jump.alpha + distance)
    return alphas


@dataclass
class _AlphasToDraw:
    """The values of α to compute next, part by part, from the rows that are known by then."""

    even: list[float]
    extra: list[float]
    most: int
    at_a_time: int | None
    log: bool
    log_y: bool
    rows: list[Row] = field(default_factory=list)  # the caller adds those of each part

    def parts(self) -> Iterator[list[float]]:
        """Yield the α of each part; `rows` must have those of the part before."""
        yield from self._even_parts()
        yield from self._parts_beside_bends()

    def _size_of_part(self) -> int:
        if self.at_a_time is None:
            return self.most + len(self.extra)
        return self.at_a_time

    def _even_parts(self) -> Iterator[list[float]]:
        """Yield the even and the extra α, every fourth first if parts are small."""
        strides = [1]
        if self.at_a_time is not None:
            strides = [4, 2, 1]
        size = self._size_of_part()
        seen: set[float] = set()
        for stride in strides:
            wanted = {*self.even[::stride], self.even[-1]}
            if stride == 1:
                wanted.update(self.extra)
            new = sorted(wanted - seen)
            seen.update(new)
            for start in range(0, len(new), size):
                yield new[start : start + size]

    def _parts_beside_bends(self) -> Iterator[list[float]]:
        """Yield the middles of intervals beside the largest bends, while there are any."""
        while True:
            n_left = self.most - len({row["alpha"] for row in self.rows})
            if n_left <= 0:
                return
            new = bends(self.rows, log=self.log, log_y=self.log_y)[:n_left]
            if not new:
                return
            yield new[: self._size_of_part()]


class _Point(NamedTuple):
    """A point of a drawn line: the logarithm of y where the axis is logarithmic."""

    height: float
    uncertainty: float


_Line = dict[int, _Point]  # by the index of x in the grid


def bends(
    rows: Sequence[Row],
    *,
    log: bool = False,
    log_y: bool = False,
    x: str = "alpha",
    y: str = ERROR,
    line: str = "branch",
) -> list[float]:
    """Return new values of x where lines through the rows would still look broken.

    Parameters
    ----------
    rows : sequence of Row
    log, log_y : bool
        Whether the axes of x and y are logarithmic.
    x, y : str
        The columns that are drawn.
    line : str
        The column that tells the lines apart: one line for each of its values.

    Returns
    -------
    list of float
        The middles of intervals on both sides of a visible bend, and of those inside which a line
        ends; the largest bends come first. A bend is visible if it is above what the picture shows
        and what the uncertainty of the point explains.
    """
    grid = sorted({float(row[x]) for row in rows})
    lines = _lines(rows, grid, x, y, line, log_y)
    if len(grid) < 2 or not lines:
        return []
    across = _positions(grid, log)
    size = _sizes_of_bends(lines, across)
    wide = [i for i in size if across[i + 1] - across[i] > SHORTEST_STEP]
    by_size = sorted(wide, key=lambda i: -size[i])
    return [_middle(grid[i], grid[i + 1], log) for i in by_size]


def _lines(
    rows: Sequence[Row], grid: Sequence[float], x: str, y: str, line: str, log_y: bool
) -> list[_Line]:
    """Return the points of each line that can be drawn; a line without any is left out."""
    index = {value: i for i, value in enumerate(grid)}
    lines: dict[Any, _Line] = {}
    for row in rows:
        value = float(row.get(y, math.nan))
        uncertainty = float(row.get("uncertainty", 0.0))
        if not math.isfinite(value):
            continue
        if log_y:
            if value <= 0:
                continue
            point = _Point(math.log(value), uncertainty / value)
        else:
            point = _Point(value, uncertainty)
        lines.setdefault(row.get(line), {})[index[float(row[x])]] = point
    return list(lines.values())


def _positions(grid: Sequence[float], log: bool) -> Array:
    """Return where x (n,) stands on the axis, from 0 to 1."""
    places = np.array(grid)
    if log:
        places = np.log(places)
    return np.asarray((places - places[0]) / (places[-1] - places[0]))


def _sizes_of_bends(lines: Sequence[_Line], across: Array) -> dict[int, float]:
    """Return the size of the largest bend beside each interval that has any.

    Interval i lies between the positions i and i + 1 of `across` (n,).
    """
    span = _span(lines)
    size: dict[int, float] = {}
    for points in lines:
        for interval in _intervals_with_an_end(points, len(across)):
            size[interval] = BEND_AT_END_OF_LINE
        for intervals, bend in _visible_bends(points, across, span):
            for interval in intervals:
                size[interval] = max(bend, size.get(interval, 0.0))
    return size


def _span(lines: Sequence[_Line]) -> float:
    """Return the height of the picture: from the lowest point to the highest."""
    heights = [point.height for points in lines for point in points.values()]
    span = max(heights) - min(heights)
    if span == 0:
        return 1.0
    return span


def _intervals_with_an_end(points: _Line, n_grid: int) -> list[int]:
    """Return the intervals of which one side has a point of the line and the other has none."""
    return [i for i in range(n_grid - 1) if (i in points) != (i + 1 in points)]


def _visible_bends(
    points: _Line, across: Array, span: float
) -> Iterator[tuple[tuple[int, int], float]]:
    """Yield the two intervals beside each visible bend, and its size in units of the picture."""
    indices = sorted(points)
    for left, here, right in zip(indices, indices[1:], indices[2:], strict=False):
        width = across[right] - across[left]
        rise = (points[right].height - points[left].height) / span
        width_here = across[here] - across[left]
        rise_here = (points[here].height - points[left].height) / span
        bend = abs(rise_here * width - rise * width_here) / math.hypot(width, rise)
        if bend > SMALLEST_VISIBLE_BEND + 2 * points[here].uncertainty / span:
            yield (left, here), float(bend)


def _middle(low: float, high: float, log: bool) -> float:
    """Return the middle of an interval as it is seen on the axis."""
    if log:
        return math.sqrt(low * high)
    return (low + high) / 2
