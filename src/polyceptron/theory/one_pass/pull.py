"""Averages of one step of SGD over a fresh sample, of which the equations of motion are made.

With z ~ N(0, q) the student's fields before the step, f = −∇ℓ(z, y), and r = k − 1,

    M = (1/r) E Σ_l ∇Z_l·f_l,     C = −(1/r) E Σ_l Z_l tr_⊥ ∂f_l,     Q = (1/r) E Σ_l Z_l ‖f_l‖²

are the averages of the fields side (`sides/fields/integrand.py`) for a proximal map of V → 0,
which is a step along the gradient. There are three ways to them (`step_averages` decides):

`SoftmaxStep`: ∇ℓ = p − t with p = softmax(z) and a target t = a e_y + (1 − a)/k. Then

    M = a c,     C = (1 − S)/r,     rQ = S − 2aA + a² − (1 − a)²/k,     S = E Σ_h p_h²,  A = E p_y

c is the channel's signal. A label drawn from p is the argmax of z plus Gumbel noise: a softmax
teacher with slope √q. So C = c_softmax(√q)/√q by Gaussian integration by parts, and A is the
chance that this label and the teacher's agree (`agreement`).

`ExplicitStep`: the loss has closed forms (square loss).

`PanelStep` (k ≤ 3) and `SampledStep`: any other loss, by the rules of the fields side at a small V.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from polyceptron.numerics import Array
from polyceptron.problem.channels import Channel, SoftmaxNoise
from polyceptron.problem.losses import Loss
from polyceptron.problem.order import ScalarOrder
from polyceptron.problem.populations import AnyTeacher
from polyceptron.sides.fields.integrand import Averaging
from polyceptron.sides.scalar import SMALLEST_NORM, FieldsSide
from polyceptron.theory.one_pass.agreement import label_agreement

# A proximal step of V moves the fields by V‖f‖, and f is a difference divided by V: the averages
# err by V and by 1e-16/V (tests/unit/theory/test_one_pass.py: hinges against quadrature).
SMALL_STEP = 1e-7
# The coarser level beside it errs by 1e-6 (same test), and is the other estimate.
LEVEL_OF_PANELS = 2
LEVEL_OF_POINTS = 1  # random points err by about 1e-4
LATTICE_STEP = 0.7  # of ln τ and ln q: points serve laws this near as well as their own
SMALLEST_PLACED_TAU = 0.1  # below these, fields are so small that all laws look alike
SMALLEST_PLACED_NORM = 0.01
SMALLEST_SLOPE = 1e-6  # of a softmax teacher; below, p is 1/k to 1e-12


class StepAverages(NamedTuple):
    """M, C and Q, each (1 + others,): the value, then other estimates that show its error.

    The others are a coarser level of the rule, or the replicates of random points; a closed form
    has none.
    """

    M: Array
    C: Array
    Q: Array


class Step(ABC):
    """The averages of one step as a function of the law of the fields."""

    sampled: bool = False  # whether the other estimates are replicates of random points
    gradient_is_bounded: bool = False  # known of the loss, however large the fields

    @abstractmethod
    def __call__(self, order: ScalarOrder) -> StepAverages:
        """Return M, C and Q where student and teacher fields have this law; V does not count."""


@dataclass(frozen=True)
class ExplicitStep(Step):
    """A loss with averages in closed form."""

    loss: Loss
    signal: float
    n_classes: int

    def __call__(self, order: ScalarOrder) -> StepAverages:
        at_no_step = replace(order, q=max(order.q, SMALLEST_NORM), V=0.0)
        explicit = self.loss.explicit_averages(at_no_step, self.signal, self.n_classes)
        assert explicit is not None  # `step_averages` has asked
        M, Q, C, _ = explicit
        return StepAverages(np.array([M]), np.array([C]), np.array([Q]))


@dataclass(frozen=True)
class SoftmaxStep(Step):
    """Cross-entropy with a share a of the label in its target."""

    gradient_is_bounded = True
    channel: Channel
    n_classes: int
    label_share: float = 1.0

    def __call__(self, order: ScalarOrder) -> StepAverages:
        k = self.n_classes
        r = k - 1
        a = self.label_share
        slope = max(math.sqrt(order.q), SMALLEST_SLOPE)
        C = SoftmaxNoise(slope).utility_signal(k) / slope
        S = 1 - r * C
        A = label_agreement(self.channel, order.tau, slope, k)
        Q = (S - 2 * a * A + a * a - (1 - a) ** 2 / k) / r
        M = a * self.channel.signal(k)
        return StepAverages(np.array([M]), np.array([C]), np.array([max(Q, 0.0)]))


@dataclass(frozen=True)
class PanelStep(Step):
    """Two or three classes, any loss, by panels at two levels of accuracy."""

    fields: FieldsSide

    def __call__(self, order: ScalarOrder) -> StepAverages:
        here = replace(order, q=max(order.q, SMALLEST_NORM), V=SMALL_STEP)
        fine = self.fields.averages(LEVEL_OF_PANELS, here)(here)
        coarse = self.fields.averages(LEVEL_OF_PANELS - 1, here)(here)
        return StepAverages(
            np.append(fine.M, coarse.M),
            np.append(fine.C, coarse.C),
            np.append(fine.Q, coarse.Q),
        )


@dataclass(frozen=True)
class SampledStep(Step):
    """Four classes or more, any loss, at random points.

    Points are placed for the nearest law of a lattice in (ln τ, ln q), and stay there.
    """

    sampled = True
    fields: FieldsSide

    def __call__(self, order: ScalarOrder) -> StepAverages:
        here = replace(order, q=max(order.q, SMALLEST_NORM), V=SMALL_STEP)
        averages = _points_nearby(
            self.fields,
            round(math.log(max(order.tau, SMALLEST_PLACED_TAU)) / LATTICE_STEP),
            round(math.log(max(order.q, SMALLEST_PLACED_NORM)) / LATTICE_STEP),
        )(here)
        mean = averages.mean()
        return StepAverages(
            np.append(mean.M, averages.M),
            np.append(mean.C, averages.C),
            np.append(mean.Q, averages.Q),
        )


@lru_cache(maxsize=4)  # a path stays at one point of the lattice for several steps
def _points_nearby(fields: FieldsSide, tau_steps: int, q_steps: int) -> Averaging:
    """Return the averages by points placed for the law at a point of the lattice."""
    tau = math.exp(LATTICE_STEP * tau_steps)
    q = math.exp(LATTICE_STEP * q_steps)
    return fields.averages(LEVEL_OF_POINTS, ScalarOrder(tau, q, SMALL_STEP))


def step_averages(teacher: AnyTeacher, loss: Loss) -> Step:
    """Return the averages of a step for a loss, by the fastest way that serves it."""
    channel = teacher.channel
    k = teacher.n_classes
    if loss.explicit_averages(ScalarOrder(1.0, 1.0, 0.0), channel.signal(k), k) is not None:
        return ExplicitStep(loss, channel.signal(k), k)
    label_share = loss.softmax_label_share
    knows_utilities = channel.utility_tau(1.0) is not None or channel.utility_law(1.0) is not None
    if label_share is not None and knows_utilities:
        return SoftmaxStep(channel, k, label_share)
    fields = FieldsSide(channel, loss, k, alpha=1.0, by_points=True)
    if k <= 3:
        return PanelStep(fields)
    return SampledStep(fields)
