"""Empirical risk minimisation on samples of two classes that a probe has chosen.

Teacher w* and probe span a plane, in which the mean of the student's weights has some angle ψ from
the teacher. Seen along that direction the samples have a channel of their own (`KeptByProbe`), and
the fixed-point equations are the usual ones. ψ is that at which the mean pull on the weights,

    m̂ = (α/r) E Σ_l ∇Z_l·f_l,

with slopes of Z along the direction and across it, has no part across. It is the fixed point of
ψ ↦ ψ + atan(m̂_across/m̂_along). The law of the fields along the direction, and with it V, q and all
losses, is that of the usual theory; the overlap with the teacher is cos ψ times that along it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from scipy.optimize import root_scalar

from polyceptron.checks import check_tolerance
from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.problem.channels.kept_by_probe import KeptByProbe
from polyceptron.problem.order import ScalarOrder
from polyceptron.problem.populations import AnyTeacher
from polyceptron.problem.pruned import Pruned
from polyceptron.problem.specs import ERM
from polyceptron.rows import Row, Status, make_row
from polyceptron.sides.generalisation import error_slope
from polyceptron.sides.scalar import FieldsSide
from polyceptron.solve.solution import status_within
from polyceptron.theory.erm.fixed_point import default_tolerance, erm_fixed_point, student_order
from polyceptron.theory.erm.point import ErmFixedPoint
from polyceptron.theory.erm.rows import erm_row
from polyceptron.theory.separability import loss_at_ridge

ANGLE_TOLERANCE = 1e-10
MOST_STEPS = 60
LEVELS_OF_PULL = (5, 4)  # of panels: the finest, and the one whose difference shows its error
STEP_OF_ANGLE = 1e-4  # by which the angle is moved to see how the error follows it


@dataclass(frozen=True)
class ProbedPoint:
    """The fixed point along the student's own direction, and that direction's angle ψ."""

    teacher: AnyTeacher  # of the samples that are kept, seen along the direction
    point: ErmFixedPoint
    angle: float
    uncertainty: float  # of the generalisation error


def probed_point(population: Pruned, spec: ERM, alpha: float, tol: float | None) -> ProbedPoint:
    """Return the fixed point for α of the samples that are kept, above 0.

    Parameters
    ----------
    population : Pruned
        Two classes, with a probe below 1.
    spec : ERM
        Its ridge is a number.
    alpha : float
        n'/d of the kept samples.
    tol : float, optional
        Of the generalisation error, as in `erm_fixed_point`.

    Raises
    ------
    ComputationFailed
        Where no direction is found.
    """

    def turn(angle: float) -> float:
        """Return by how much the pull turns a student of this direction."""
        teacher = population.kept_along(angle)
        point = erm_fixed_point(teacher, spec, alpha, tol)
        return _angle_of_pull(teacher, spec, point, LEVELS_OF_PULL[0])

    found = root_scalar(
        turn, x0=0.0, x1=turn(0.0), method="secant", xtol=ANGLE_TOLERANCE, maxiter=MOST_STEPS
    )
    angle = float(found.root)
    if not found.converged or not abs(angle) <= math.pi / 2:
        raise ComputationFailed(
            f"no direction of the student was found for {population!r} at alpha_kept = {alpha:g}"
        )
    teacher = population.kept_along(angle)
    point = erm_fixed_point(teacher, spec, alpha, tol)
    moved = population.kept_along(angle + STEP_OF_ANGLE)
    moved_point = erm_fixed_point(moved, spec, alpha, tol)
    slope_of_error = (moved_point.generalisation_error - point.generalisation_error) / STEP_OF_ANGLE
    turned = _angle_of_pull(moved, spec, moved_point, LEVELS_OF_PULL[0])
    slope_of_turn = (turned - turn(angle)) / STEP_OF_ANGLE
    bar_of_angle = ANGLE_TOLERANCE + abs(_bar_of_turn(teacher, spec, point) / slope_of_turn)
    uncertainty = point.uncertainty + abs(slope_of_error) * bar_of_angle
    return ProbedPoint(teacher, point, angle, uncertainty)


def check_spec_of_probe(spec: ERM) -> None:
    """Raise `InvalidInput` unless the ridge is a number: the theory has no other penalty."""
    if spec.penalty is not None or isinstance(spec.ridge, str):
        raise InvalidInput(
            "data chosen by a probe below 1 take a ridge that is a number, and no other penalty; "
            f"got {spec!r}"
        )


def probed_row(population: Pruned, spec: ERM, alpha: float, tol: float | None) -> Row:
    """Return the row for α of the samples that are kept, with m the overlap with the teacher."""
    check_spec_of_probe(spec)
    tol = check_tolerance(tol, default_tolerance(2))
    if alpha == 0:
        teacher = population.kept_along(0.0)
        return erm_row(teacher, spec, erm_fixed_point(teacher, spec, alpha, tol))
    found = probed_point(population, spec, alpha, tol)
    row = erm_row(found.teacher, spec, found.point)
    if found.point.status == Status.NOT_CONVERGED:
        return row
    status = status_within(found.uncertainty, tol)
    m = found.point.m * math.cos(found.angle)
    return make_row(**(row | {"m": m, "uncertainty": found.uncertainty, "status": status}))


def probed_order(
    population: Pruned, spec: ERM, alpha: float, tol: float | None
) -> tuple[ProbedPoint, ScalarOrder, bool]:
    """Return the point, the law of fresh fields with those of the teacher, and if it has a scale.

    It is the scale of the fields, which a maximal margin leaves open.
    """
    found = probed_point(population, spec, alpha, tol)
    _, along, has_scale = student_order(found.teacher, spec, alpha, tol)
    seen = math.cos(found.angle) * along.tau / math.hypot(1, math.sin(found.angle) * along.tau)
    return found, replace(along, tau=seen), has_scale


def _bar_of_turn(teacher: AnyTeacher, spec: ERM, point: ErmFixedPoint) -> float:
    """Return how well the angle of the pull is known: by its rule, and by the point's own bar."""
    fine, coarse = (_angle_of_pull(teacher, spec, point, level) for level in LEVELS_OF_PULL)
    bar = abs(fine - coarse)
    slope = error_slope(teacher.channel, point.tau, 2)
    if slope > 0:
        share = math.exp(point.uncertainty / slope)  # by which τ may be larger
        moved = replace(point, tau=point.tau * share, q=point.q * share, V=point.V * share)
        bar += abs(_angle_of_pull(teacher, spec, moved, LEVELS_OF_PULL[0]) - fine)
    return bar


def _angle_of_pull(teacher: AnyTeacher, spec: ERM, point: ErmFixedPoint, level: int) -> float:
    """Return the angle of the mean pull on the weights from the direction of the channel."""
    loss = loss_at_ridge(spec.loss, spec.ridge, teacher, point.alpha)
    channel = teacher.channel
    assert isinstance(channel, KeptByProbe)
    along = FieldsSide(channel, loss, 2, point.alpha)
    across = FieldsSide(replace(channel, across=True), loss, 2, point.alpha)
    pull_along = float(along.averages(level, point.law)(point.law).M[0])
    pull_across = float(across.averages(level, point.law)(point.law).M[0])
    return math.atan2(pull_across, pull_along)
