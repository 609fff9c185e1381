"""Fields of fresh samples at random nodes, drawn from the solution for a student.

Of equal classes the fields are ω ~ N(0, q) on class differences, and the label has the channel's
probabilities Z_l at mean (m/q)ω and variance 1 − ρ². Of unequal classes they are T(ω + b) with
ω ~ N(m_c, Q_c) in group c. The nodes are scrambled Sobol points, the same ones for every student,
so that differences between students are known better than each of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import ndtri, softmax

from polyceptron.checks import difference_basis
from polyceptron.numerics import Array
from polyceptron.numerics.estimate import uniform_replicates
from polyceptron.problem.channels import Channel
from polyceptron.problem.order import ScalarOrder
from polyceptron.problem.populations import AnyTeacher, Population
from polyceptron.problem.specs import Probabilities, as_erm
from polyceptron.questions.calibration import (
    LARGEST_LOG_TEMPERATURE,
    TEMPERATURE_TOLERANCE,
    calibration,
)
from polyceptron.rows import Status
from polyceptron.sides.fields_law import FieldsDistribution, with_some_variance
from polyceptron.sides.fresh_scores import chances_given_fields, fresh_fields, mean_scores
from polyceptron.sides.generalisation import error_on_labels, error_slope
from polyceptron.sides.leading_nodes import drawn_chances
from polyceptron.students import Student
from polyceptron.theory.erm.unequal_classes import population_point

SEED_OF_FIELDS = 31
LOG2_OF_FEWEST_NODES = 8  # of each replicate: where two solutions are compared
# τ and √q where the student has seen (almost) no sample: the limit α → 0, in which scores differ by
# so little that only their order matters.
FIELDS_WITHOUT_DATA = 1e-4
STEP_OF_LOG_OVERLAP = 1e-2  # by which an overlap is moved to see how the size follows the error


class FreshFields(NamedTuple):
    """Fields of fresh samples at random nodes: R replicates of n nodes.

    fields : (R, n, k)
    weight : (R, n), which sums to 1 in each replicate
    truth : (R, n, k), the chance of each label
    uniform : (R, n), the U of adaptive sets
    in_class_order : whether the last axis is that of the classes, or sorted by the fields
    """

    fields: Array
    weight: Array
    truth: Array
    uniform: Array
    in_class_order: bool


Draw = Callable[[int], FreshFields]  # fields of fresh samples at 2**log2_points nodes


class SolvedStudent(NamedTuple):
    """A student at one α: fields of fresh samples, its probabilities, and how well it is known.

    `probabilities` is None where they are the true chances of the labels. `neighbours` draw fields
    of solutions close by; a change between them and `draw` is to be multiplied by the factor for
    the change within the uncertainty of the solution.
    """

    draw: Draw
    probabilities: Probabilities | None
    neighbours: list[tuple[Draw, float]]
    generalisation_error: float
    ridge: float | None
    status: Status


def solved_equal_classes(teacher: AnyTeacher, student: Student, alpha: float) -> SolvedStudent:
    """Solve for a student to which all classes look the same: (τ, q, V) tell its fields."""
    channel = teacher.channel
    k = teacher.n_classes
    known = student.order_parameters(teacher, alpha)
    order = known.order
    width_of_log_tau = 0.0
    if alpha == 0:
        order = _order_without_data(order)
    else:
        slope = error_slope(channel, order.tau, k)  # dε/d ln τ
        if slope > 0:
            width_of_log_tau = known.uncertainty / slope
    probabilities = None
    if not student.spec.calibrated:
        if known.has_scale:
            probabilities = student.probabilities(teacher, order)
        if probabilities is None:
            probabilities = _softmax_of_best_temperature(channel, k, order)
    moved_tau = replace(order, tau=order.tau * math.exp(STEP_OF_LOG_OVERLAP))
    moved_q = replace(order, q=order.q * math.exp(STEP_OF_LOG_OVERLAP))
    steps = width_of_log_tau / STEP_OF_LOG_OVERLAP
    return SolvedStudent(
        draw=partial(fields_of_equal_classes, channel, k, order),
        probabilities=probabilities,
        neighbours=[
            (partial(fields_of_equal_classes, channel, k, moved_tau), steps),
            (partial(fields_of_equal_classes, channel, k, moved_q), 2 * steps),
        ],
        generalisation_error=float(error_on_labels(channel, order.tau, k)),
        ridge=known.ridge,
        status=known.status,
    )


def _order_without_data(order: ScalarOrder) -> ScalarOrder:
    """Return order parameters of small fields that are hardly correlated with the teacher's."""
    return ScalarOrder(tau=FIELDS_WITHOUT_DATA, q=FIELDS_WITHOUT_DATA**2, V=order.V)


def _softmax_of_best_temperature(channel: Channel, k: int, order: ScalarOrder) -> Probabilities:
    """Return the softmax of fields over the temperature of the least test loss.

    It is the temperature of `questions.calibration`, without the reliability diagram.
    """
    nodes = fresh_fields(channel, k, order)

    def test_loss(log_temperature: float) -> float:
        """Return the test loss of probabilities at a temperature."""
        temperature = math.exp(log_temperature)
        losses, _ = mean_scores(nodes, partial(_cooled_softmax, temperature=temperature))
        return float(losses.mean())

    minimum = minimize_scalar(
        test_loss,
        bounds=(-LARGEST_LOG_TEMPERATURE, LARGEST_LOG_TEMPERATURE),
        options={"xatol": TEMPERATURE_TOLERANCE},
    )
    return partial(_cooled_softmax, temperature=math.exp(float(minimum.x)))


def _cooled_softmax(omega: Array, temperature: float) -> Array:
    """Return the softmax of ω/T over the classes, (n, k)."""
    return np.asarray(softmax(omega / temperature, axis=1))


def fields_of_equal_classes(
    channel: Channel, k: int, order: ScalarOrder, log2_points: int
) -> FreshFields:
    """Draw fields ω ~ N(0, q) on class differences, with the chances of the labels given them.

    Parameters
    ----------
    channel : Channel
    k : int
        Number of classes.
    order : ScalarOrder
    log2_points : int
        Logarithm of the number of nodes of each replicate.

    Returns
    -------
    FreshFields
        Sorted from the largest field.
    """
    uniforms = uniform_replicates(k, log2_points, SEED_OF_FIELDS)
    contrasts = math.sqrt(order.q) * ndtri(uniforms[..., : k - 1])
    fields = -np.sort(-contrasts @ difference_basis(k).T, axis=-1)
    truth = chances_given_fields(channel, fields.reshape(-1, k), order)
    truth = truth / truth.sum(axis=1, keepdims=True)
    weight = np.full(uniforms.shape[:2], 1 / uniforms.shape[1])
    return FreshFields(fields, weight, truth.reshape(fields.shape), uniforms[..., -1], False)


def solved_unequal_classes(population: Population, student: Student, alpha: float) -> SolvedStudent:
    """Solve for a student of unequal classes: a Gaussian law of the fields for each group."""
    point = population_point(population, as_erm(student.spec), alpha)
    probabilities = point.probabilities
    if probabilities is None:
        temperature = calibration(population, student.spec, alpha).temperature
        probabilities = partial(_cooled_softmax, temperature=temperature)
    law = point.law
    draw = partial(fields_of_unequal_classes, law)
    draw_moved = partial(fields_of_unequal_classes, _with_larger_overlaps(law))
    fewest = LOG2_OF_FEWEST_NODES
    change_of_error = abs(_error_rate(draw_moved(fewest)) - _error_rate(draw(fewest)))
    steps = 0.0
    if change_of_error > 0:
        steps = point.uncertainty / change_of_error
    return SolvedStudent(
        draw=draw,
        probabilities=probabilities,
        neighbours=[(draw_moved, steps)],
        generalisation_error=point.generalisation_error,
        ridge=point.ridge,
        status=point.status,
    )


def _with_larger_overlaps(law: FieldsDistribution) -> FieldsDistribution:
    """Return the law with means, and Cov(ω, z) of a teacher, larger by the step of overlaps.

    With Cov(ω, z) the fields grow as well, so that z keeps a variance given ω.
    """
    factor = math.exp(STEP_OF_LOG_OVERLAP)
    if law.teacher is None:
        return replace(law, m=law.m * factor)
    teacher = law.teacher._replace(cross=law.teacher.cross * factor)
    return replace(law, m=law.m * factor, Q=law.Q * factor**2, teacher=teacher)


def _error_rate(fresh: FreshFields) -> float:
    """Return the error of the class with the largest field."""
    leaders = fresh.fields.argmax(axis=-1)[..., None]
    right = np.take_along_axis(fresh.truth, leaders, axis=-1)[..., 0]
    return 1 - float((fresh.weight * right).sum(1).mean())


def fields_of_unequal_classes(law: FieldsDistribution, log2_points: int) -> FreshFields:
    """Draw fields T(ω + b), ω ~ N(m_c, Q_c), of every group c, with the chances of the labels.

    Parameters
    ----------
    law : FieldsDistribution
    log2_points : int
        Logarithm of the number of nodes of each replicate in each group.

    Returns
    -------
    FreshFields
        In the order of the classes.
    """
    k = law.n_classes
    r = k - 1
    has_teacher = law.teacher is not None
    n_coordinates = r
    if has_teacher:
        n_coordinates = 2 * r
    uniforms = uniform_replicates(n_coordinates + 1, log2_points, SEED_OF_FIELDS)
    standard_normal = ndtri(uniforms[..., :r])
    fields = []
    truths = []
    weights = []
    covariances = with_some_variance(law.Q)
    for group, share in enumerate(law.shares):
        root = np.linalg.cholesky(covariances[group])
        omega = law.m[group] + standard_normal @ root.T
        if has_teacher:
            teacher_uniforms = uniforms[..., r : 2 * r]
            truth = drawn_chances(law, group, omega.reshape(-1, r), teacher_uniforms)
            truth = truth.reshape(*omega.shape[:2], k)
        else:
            truth = np.broadcast_to(np.eye(k)[group], (*omega.shape[:2], k))
        fields.append((omega + law.b) @ difference_basis(k).T)
        truths.append(truth)
        weights.append(np.full(omega.shape[:2], share / omega.shape[1]))
    return FreshFields(
        fields=np.concatenate(fields, axis=1),
        weight=np.concatenate(weights, axis=1),
        truth=np.concatenate(truths, axis=1),
        uniform=np.tile(uniforms[..., -1], len(law.shares)),
        in_class_order=True,
    )
