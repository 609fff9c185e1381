"""One-vs-rest: the equations of its k binary students, on random points.

Student c minimises Σ_μ ℓ(s_μ h_μ) + (λ/2)‖w_c‖² with h = w_c·x/√d + b and s = 1 for its own class,
else −1. This is empirical risk minimisation in all k fields (eq. optimization_ERM, eq. SE) with a
loss that is a sum over them: the proximal map acts on each field ω_c alone, with one V, and the
pull on it is f_c = (prox(ω_c) − ω_c)/V. Where classes are equal, the covariance of the fields is q
on the class differences and p along (1, …, 1), which no label shows, and b is one number. With
r = k − 1, f_l the pulls (k,) of a sample with label l, and ⊥ the part of a vector orthogonal to
(1, …, 1),

    m̂ = (α/r) E Σ_l ∇Z_l·f_l,   q̂ = (α/r) E Σ_l Z_l‖f_⊥‖²,   p̂ = α E Σ_l Z_l (1·f)²/k,
    V̂ = (α/k) E Σ_l Z_l Σ_c(−∂f_c),   E Σ_l Z_l 1·f = 0                                    (gives b)

with Z_l the chance of label l where the teacher's fields have mean (m/q)ω_⊥ and variance 1 − m²/q;
then the ridge's weights side, in which p has no signal. The unknowns are

    θ = (ln τ, ln q, √p, ln V, b),   shape (5,),   τ = ρ/√(1 − ρ²),   ρ = m/√q.

Averages are taken over random points with label 1, k times, in R independent replicates
(`sides/fields/points.py`); a *level* is a number of points. For losses with kinks V̂ comes by parts:
with x the fields of variance 1, of which ω_c = √q(x_c − x̄) + √p x̄ + b, and M and C the averages in
m̂ and V̂ without α,

    (√q r + √p) C = r√q (m/q) M − E Σ_l Z_l x·f_l.

A binary loss is a loss of two classes with fields (−h/2, h/2), so that V is halved there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.optimize import approx_fprime

from polyceptron.numerics import Array
from polyceptron.numerics.estimate import N_REPLICATES
from polyceptron.numerics.orthant import Winning
from polyceptron.problem import ERM, AnyTeacher, Loss
from polyceptron.problem.channels import Channel
from polyceptron.problem.order import ScalarOrder
from polyceptron.problem.penalties import spectrum_sums
from polyceptron.sides.fields.points import boundary_points
from polyceptron.solve import error_model
from polyceptron.solve.root import Root, newton
from polyceptron.theory.erm.fixed_point import erm_fixed_point

LONGEST_UNTRIED_STEP = 5e-3  # of θ: its square is below most tolerances on ε, 1e-4
DERIVATIVE_STEP = 1e-3  # of differences in θ: points leave more noise than curvature there
SOLUTION_TOLERANCE = 1e-7  # of each component of θ on given points, far below their own error
TOLERANCE_OF_START = 1e-2  # of ε: it is only a start


class PullSums(NamedTuple):
    """What the averages need of f (k, n), the pulls on the fields of n points with label 1."""

    difference: Array  # f_1 − f_h (k−1, n)
    norm: Array  # ‖f_⊥‖² (n,)
    total: Array  # 1·f (n,)
    stiffness: Array  # Σ_c(−∂f_c), times 2 (n,)
    mistaken: Array  # whether another proximal field is the largest (n,)
    loss: Array  # the sum of the losses (n,)
    along: Array  # x·f (n,)


class BinaryNodes:
    """Points with label 1: fields x of variance 1, shape (k, n), and their weights (n,).

    The points of a replicate follow one another, and Σ weight·Z over them is 1 up to their error:
    the weights hold the density of x, and a factor k for the other labels.

    The label depends on τ alone, and the pulls on all unknowns but τ. Both are remembered for two
    values, so that a column of the Jacobian costs one of them.
    """

    def __init__(self, channel: Channel, loss: Loss, x: Array, weight: Array) -> None:
        self.x = x
        self.weight = weight
        self.channel = channel
        self.loss = loss
        self.label = lru_cache(maxsize=2)(self._label)
        self.pulls = lru_cache(maxsize=2)(self._pulls)

    def _label(self, tau: float) -> Winning:
        """Return the chance Z (n,) of label 1 at τ, and its slopes in the gaps to the others."""
        order = ScalarOrder(tau, 1.0, 1.0)
        return self.channel.label_law(order.slope * (self.x[0] - self.x[1:]), order.residual)

    def _pulls(self, q: float, root_p: float, V: float, b: float) -> PullSums:
        """Return the sums over all students at fields of norms q and √p and intercept b."""
        x = self.x
        k = len(x)
        common = x.mean(axis=0)
        omega = math.sqrt(q) * (x - common) + root_p * common + b
        f, stiffness, losses = self._pulls_at(omega, V)
        proximal_fields = omega + V * f
        total = f.sum(axis=0)
        return PullSums(
            difference=f[0] - f[1:],
            norm=(f**2).sum(axis=0) - total**2 / k,
            total=total,
            stiffness=stiffness.sum(axis=0),
            mistaken=proximal_fields[0] < proximal_fields[1:].max(axis=0),
            loss=losses.sum(axis=0),
            along=(x * f).sum(axis=0),
        )

    def _pulls_at(self, omega: Array, V: float) -> tuple[Array, Array, Array]:
        """Return the pulls f, −∂f (times 2) and losses of all students at fields ω, each (k, n).

        The label of all points is class 1: for the first student it is its own class.
        `loss.denoise` takes two fields with a difference ω and V/2 each, and returns the pulls on
        them, ∓f(ω), and the trace of −∂f in them, which is 2 times that in ω.
        """
        two_fields = np.stack([-omega.ravel() / 2, omega.ravel() / 2], axis=1)
        own_class = np.zeros(omega.shape, int)
        own_class[0] = 1
        f, stiffness = self.loss.denoise(two_fields, own_class.ravel(), V / 2)
        losses = self.loss.value_at_prox(two_fields + V / 2 * f, own_class.ravel())
        # A loss of differences pulls both fields by the same amount, in opposite directions.
        pull = (f[:, 1] - f[:, 0]) / 2
        return (
            pull.reshape(omega.shape),
            stiffness.reshape(omega.shape),
            losses.reshape(omega.shape),
        )


class SolvedAverages(NamedTuple):
    """A solution on given points, with all values there.

    θ (5,), the values of every replicate (7, R) and slopes ∂/∂θ (7, 5) of their means. The slopes
    of training error and loss, the last two, may be those of fewer points: they only enter bars.
    `left` bounds by how much a component of θ may still be off.
    """

    theta: Array
    values: Array
    slopes: Array
    left: float


def order_of(theta: Array) -> ScalarOrder:
    """Return the order parameters (τ, q, V) on class differences at θ (5,)."""
    tau, q, V = np.exp(theta[[0, 1, 3]]).tolist()
    return ScalarOrder(tau, q, V)


def _log(values: Array) -> Array:
    """Return ln of values that may vanish far from a solution."""
    return np.asarray(np.log(np.maximum(values, 1e-300)))


@dataclass(frozen=True)
class BinaryStudents:
    """k binary students of a loss at one α: the equations for θ = (ln τ, ln q, √p, ln V, b).

    `loss` is one of two classes, `ridge` the λ of each student, `alpha` n/d.
    """

    teacher: AnyTeacher
    loss: Loss
    ridge: float
    alpha: float

    @np.errstate(all="ignore")  # Far from a solution values may overflow.
    def values(self, theta: Array, nodes: BinaryNodes) -> Array:
        """Return θ less θ after a round (5 rows), training error and loss: (7, R replicates).

        A round is one of the loop of eq. SE; the first five rows are F(θ), which vanishes at the
        solution.
        """
        k = len(nodes.x)
        law = order_of(theta)
        root_p = float(theta[2])
        b = float(theta[4])
        label = nodes.label(law.tau)
        pulls = nodes.pulls(law.q, root_p, law.V, b)
        Z = label.z
        # By rows: the summands of M = m̂/α, Q = q̂/α, P = p̂/α and C = V̂/α, of the mean pull on a
        # field, and of the training error and loss.
        parts = np.stack(
            [
                np.einsum("hn,hn->n", label.slopes, pulls.difference) / (k - 1),
                Z * pulls.norm / (k - 1),
                Z * pulls.total**2 / k,
                Z * pulls.stiffness / (2 * k),
                Z * pulls.total / k,
                Z * pulls.mistaken,
                Z * pulls.loss,
            ]
        )
        averages = (parts * nodes.weight).reshape(7, N_REPLICATES, -1).sum(axis=2)
        M, Q, P, C, pull = averages[:5]
        if self.loss.coordinates.jumps:  # −∂f is a step function of θ: C by parts
            x_f = (nodes.weight * Z * pulls.along).reshape(N_REPLICATES, -1).sum(axis=1)
            slope = (k - 1) * math.sqrt(law.q) * law.slope
            C = (slope * M - x_f) / ((k - 1) * math.sqrt(law.q) + root_p)
        new_order = self._weights_side(M, Q, P, C)
        new_b = b + pull / C  # Newton's step for the mean pull 0, whose slope in b is −C
        after_round = np.array([*new_order, new_b])
        return np.concatenate([theta[:, None] - after_round, averages[5:]])

    def _weights_side(self, M: Array, Q: Array, P: Array, C: Array) -> list[Array]:
        """Return ln τ, ln q, √p and ln V after a round, (R,) each, from averages without α.

        With x = s/(λ + V̂s) for features of variance s, and θ_s the variance of the teacher's
        weights there, means over the spectrum give V = ⟨x⟩, m = m̂⟨sθ_s x⟩, p = p̂⟨x²⟩ and
        q − m² = q̂⟨x²⟩ + m̂²(⟨sθ_s x²⟩ − ⟨sθ_s x⟩²); and τ² = m²/(q − m²).
        """
        sums = spectrum_sums(self.ridge, self.teacher.features, self.alpha * C)
        m_hat = self.alpha * M
        residual = self.alpha * Q * sums.norm + m_hat**2 * sums.spread  # q − m²
        m = m_hat * sums.mean
        return [
            _log(m / np.sqrt(residual)),
            _log(m**2 + residual),
            np.sqrt(self.alpha * P * sums.norm),
            _log(sums.response),
        ]

    def nodes(self, theta: Array, level: int) -> BinaryNodes:
        """Return points that are placed for the law at θ.

        `boundary_points` draws the field of the label (n,) and by how much it exceeds the others
        (k−1, n), near the boundary of class 1 where labels and pulls vary. Its weights are for
        the sum over all replicates: R times as large, each replicate is an average.
        """
        channel = self.teacher.channel
        points = boundary_points(
            self.loss.coordinates, channel, self.teacher.n_classes, order_of(theta), level
        )
        x = np.concatenate([points.label[None], points.label - points.gaps])
        return BinaryNodes(channel, self.loss, x, N_REPLICATES * points.weight)

    def start(self) -> Array:
        """Return a θ (5,) to begin with: of the loss in all k fields, at twice the ridge.

        For two classes and for the square loss that is the solution, with fields twice as large.
        √p and b are rough: b is where a student gives its class the chance 1/k.
        """
        k = self.teacher.n_classes
        joint_erm = ERM(self.loss, 2 * self.ridge)
        joint = erm_fixed_point(self.teacher, joint_erm, self.alpha, TOLERANCE_OF_START)
        log_tau, log_q, log_V = np.log([joint.tau, 4 * joint.q, 2 * joint.V])
        return np.array([log_tau, log_q, 0.5, log_V, -math.log(k - 1)])

    def solve(
        self, theta: Array, nodes: BinaryNodes, slopes: Array | None = None
    ) -> SolvedAverages | None:
        """Return the solution next to θ on these points; None if Newton's method found none.

        A short step with slopes of a neighbouring problem is taken without a trial. It leaves its
        square, since F(θ) bends by about 1 where order parameters change by a factor e, and a share
        of the step by the error of these slopes.
        """
        if slopes is not None:
            values = self.values(theta, nodes)
            step = np.linalg.solve(slopes[:5], -values[:5].mean(axis=1))
            longest = float(np.abs(step).max())
            if longest < LONGEST_UNTRIED_STEP:
                left = longest**2 + error_model.CHORD_ERROR * longest
                return SolvedAverages(theta + step, values + (slopes @ step)[:, None], slopes, left)
        found = self.root(theta, nodes, slopes)
        if not found.converged:
            return None
        all_slopes = self.slopes(found.theta, nodes) if slopes is None else slopes.copy()
        all_slopes[:5] = found.jacobian
        values = self.values(found.theta, nodes)
        return SolvedAverages(found.theta, values, all_slopes, SOLUTION_TOLERANCE)

    def root(self, theta: Array, nodes: BinaryNodes, slopes: Array | None) -> Root:
        """Run Newton's method from θ, with slopes ∂/∂θ (7, 5) of a solution near by if known."""
        jacobian = None
        if slopes is not None:
            jacobian = slopes[:5]

        def equations(at: Array) -> Array:
            """Return the five residuals, averaged over replicates."""
            return self.means(at, nodes)[:5]

        return newton(equations, theta, tol=SOLUTION_TOLERANCE, jacobian=jacobian)

    def means(self, theta: Array, nodes: BinaryNodes) -> Array:
        """Return the values averaged over all replicates, (7,)."""
        return np.asarray(self.values(theta, nodes).mean(axis=1))

    def slopes(self, theta: Array, nodes: BinaryNodes) -> Array:
        """Return ∂/∂θ of the means, (7, 5)."""
        return np.asarray(approx_fprime(theta, self.means, DERIVATIVE_STEP, nodes))
