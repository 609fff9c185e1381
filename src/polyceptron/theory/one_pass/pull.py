"""Averages of one step of SGD over a fresh sample, of which the equations of motion are made.

With z ~ N(0, q) the student's fields before the step, f = −∇ℓ(z, y), and r = k − 1,

    M = (1/r) E Σ_l ∇Z_l·f_l,     C = −(1/r) E Σ_l Z_l tr_⊥ ∂f_l,     Q = (1/r) E Σ_l Z_l ‖f_l‖²

are the averages of the fields side (`sides/fields/integrand.py`) for a proximal map of V → 0,
which is a step along the gradient. There are three ways to them (`step_averages` decides):

`SoftmaxStep`: ∇ℓ = p − t with p = softmax(z) and a target t = a e_y + (1 − a)/k. Then

    M = a c,     C = (1 − S)/r,     rQ = S − 2aA + a² − (1 − a)²/k,     S = E Σ_h p_h²,  A = E p_y

c is the channel's signal. A label drawn from p is the argmax of z plus Gumbel noise: a softmax
teacher with slope √q. So C = c_softmax(√q)/√q by Gaussian integration by parts, and A is the
chance that this label and the teacher's agree, an integral over two utilities at any k.

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
from scipy.special import logsumexp

from polyceptron.numerics import Array, gumbel
from polyceptron.problem.channels import Channel, SoftmaxNoise
from polyceptron.problem.losses import Loss
from polyceptron.problem.order import ScalarOrder
from polyceptron.problem.populations import AnyTeacher
from polyceptron.sides.fields.integrand import Averaging
from polyceptron.sides.scalar import SMALLEST_NORM, FieldsSide

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


def label_agreement(channel: Channel, tau: float, slope: float, n_classes: int) -> float:
    """Return P(teacher's label = student's label), the student drawing from softmax(slope·x).

    Parameters
    ----------
    channel : Channel
        Draws the teacher's label.
    tau : float
        ρ/√(1 − ρ²), ρ the correlation of the teacher's fields with x, which has variance 1.
    slope : float
        √q.
    n_classes : int
    """
    k = n_classes
    share_guessed = k * channel.guess(k)
    seen = channel.utility_tau(tau)
    if seen is None:
        agree = _agreement_of_utilities(channel, tau, slope, k)
    else:
        agree = 1 - gumbel.disagreement(slope, k, math.atan2(1.0, seen))
    return (1 - share_guessed) * agree + share_guessed / k


def _agreement_of_utilities(channel: Channel, tau: float, slope: float, k: int) -> float:
    """Return P(argmax of both utilities agree) = k ∫∫ f(C, t) F(C, t)^{k−1} dC dt.

    C is the teacher's utility of a class and t the student's, with joint distribution function

        F(C, t) = ∫ φ(x) F_v(C − ρx) G(t − √q x) dx,     G Gumbel's,  v = 1 − ρ²

    and density f. All three integrals are sums over even steps, as fine as the narrowest factor.
    """
    rho = tau / math.hypot(1.0, tau)
    law = channel.utility_law(1 / (1 + tau * tau))
    assert law is not None  # `step_averages` has asked
    width = channel.width(1 / (1 + tau * tau))
    reach_of_x = 8.5
    step_of_x = 0.3 * min(1.0, 1 / slope, width / max(abs(rho), 1e-300))
    x = np.arange(-reach_of_x, reach_of_x + step_of_x, step_of_x)
    step_of_C = 0.25 * math.hypot(width, min(1.0, abs(rho) / slope))
    C = np.arange(-reach_of_x + law.low, reach_of_x + law.high, step_of_C)
    step_of_t = 0.25 * math.hypot(1.0, slope * min(1.0, width))
    t = np.arange(-5 - reach_of_x * slope, 38 + reach_of_x * slope, step_of_t)
    log_F, hazard = law.values(C[:, None] - rho * x)
    teacher = np.exp(log_F)
    y = t[:, None] - slope * x
    with np.errstate(over="ignore"):
        log_G = -np.exp(-y)
    student = np.exp(log_G)
    student_density = np.exp(log_G - y)
    weight = np.exp(-0.5 * x * x) * (step_of_x / math.sqrt(2 * math.pi))
    both_below = (teacher * weight) @ student.T
    density = (teacher * hazard * weight) @ student_density.T
    with np.errstate(divide="ignore"):
        log_terms = np.log(density) + (k - 1) * np.log(np.minimum(both_below, 1.0))
    return k * step_of_C * step_of_t * math.exp(logsumexp(log_terms))


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
