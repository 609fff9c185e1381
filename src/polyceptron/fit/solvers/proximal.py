"""Fits with any penalty, min_W Σ_μ ℓ(z_μ, y_μ) + Σ_i P(w_i), by accelerated proximal gradients.

w_i are the rows of W on class differences. With f the sum of the losses and a step 1/L the new
weights are

    W⁺ = argmin_W  L‖W − Y‖²/2 + ∇f(Y)·(W − Y) + Σ P(w_i),

the penalty's own `denoise` at γ = LY − ∇f(Y) and Λ = L. Y runs ahead of W by momentum, which is
dropped where it points uphill; L is doubled where f bends more. With an elastic net a Newton step
on the rows that are not zero follows each proximal step (`support_newton`), and starts the next.

The certificate: since L(Y − W⁺) − ∇f(Y) is a slope of the penalty at W⁺,

    S = ∇f(W⁺) − ∇f(Y) + L(Y − W⁺)   is one of the whole,   ‖W⁺ − Ŵ‖ ≤ ‖S‖/μ

for a penalty whose strong convexity is μ (`Penalty.convexity`), rounding included. For μ = 0 the
convexity of cross-entropy on the support takes its place (`support_certificate`). Where that is not
proven either there is no bound, and the status is 'tolerance-not-met'.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from polyceptron.checks import difference_basis
from polyceptron.data.checks import Samples, Units
from polyceptron.fit.solvers.erm_fit import ERMFit, fit_at, in_given_units
from polyceptron.fit.solvers.intercept import size_of
from polyceptron.fit.solvers.logistic_objective import OBJECTIVES
from polyceptron.fit.solvers.newton import distances
from polyceptron.fit.solvers.newton_step import Mask
from polyceptron.fit.solvers.objectives import Evaluation, LossObjective, Objective, lengths, norms
from polyceptron.fit.solvers.rounding import EPS, roundings
from polyceptron.fit.solvers.softmax_objective import SoftmaxObjective
from polyceptron.fit.solvers.support_certificate import support_certificate
from polyceptron.fit.solvers.support_newton import (
    ScaledElasticNet,
    SupportColumns,
    support_direction,
    without_crossings,
)
from polyceptron.numerics import Array
from polyceptron.problem.losses import Loss
from polyceptron.problem.penalties import ElasticNet, Penalty
from polyceptron.rows import Status

MAX_STEPS = 20_000
LEAST_CURVATURE = 1e-3  # L for data whose fields bend nothing
LEAST_AIM = 1e-6  # share of the tolerance below which rounding holds the certificate back
MOST_HALVINGS = 4  # of a Newton step; proximal steps go on where it fails


def objective_of(loss: Loss, samples: Samples, basis: Array) -> Objective:
    """Return the sum of the losses: the loss's own where it has one."""
    own = OBJECTIVES.get(loss.solver)
    if own is not None:
        return own(samples.y, samples.n_classes, samples.weights)
    return LossObjective(loss, samples.y, samples.n_classes, samples.weights, basis)


def fit_penalised(
    samples: Samples, units: Units, loss: Loss, penalty: Penalty, tol: float, start: Array | None
) -> ERMFit:
    """Return weights within relative distance `tol` of the minimiser.

    Parameters
    ----------
    samples : Samples
        The data in `units`, with the column of the intercept if there is one.
    units : Units
        Those of the data; the fit is returned in the units given.
    loss, penalty : Loss, Penalty
    tol : float
        Relative distance at which the descent ends.
    start : array (d, k) or None
        Weights to begin from.
    """
    descent = ProximalDescent(samples, units, loss, penalty, tol, start)
    while not descent.ended:
        step = descent.backtracking_step()
        descent.check_convergence(step)
        if not descent.ended:
            descent.advance(step)
            descent.newton_step_on_support(step)
    return descent.finalize()


@dataclass(frozen=True)
class SmoothPoint:
    """Weights (1, k−1, d), their fields (1, k−1, n), f there, and ∇f (1, k−1, d)."""

    U: Array
    fields: Array
    evaluation: Evaluation
    gradient: Array

    @property
    def value(self) -> float:
        """The sum of the losses."""
        return float(self.evaluation.value[0])


@dataclass(frozen=True)
class ProximalStep:
    """The new point W⁺, the step W⁺ − Y, and the slope S of the whole objective at W⁺."""

    point: SmoothPoint
    step: Array
    slope: Array


class ProximalDescent:
    """Accelerated proximal gradients, one method a part of a step.

    Of weights w̃ = 2^(p+s) w in `units` the penalty is 2^(s−q) P(w), with s the shrinkage.

    base : Y, from which the next step is made
    U : the last weights W
    curvature : L
    momentum : t of Nesterov's sequence, 1 at the start
    scale : μ, or where it is 0 the penalty's strength until a convexity is proven
    aim : the share of the tolerance that ‖S‖/μ has to meet; smaller where an intercept needs it
    """

    def __init__(
        self,
        samples: Samples,
        units: Units,
        loss: Loss,
        penalty: Penalty,
        tol: float,
        start: Array | None,
    ) -> None:
        self.samples = samples
        self.units = units
        self.loss = loss
        self.penalty = penalty
        self.tol = tol
        design = samples.design
        k = samples.n_classes
        self.basis = difference_basis(k)
        shrink = units.ridge(penalty.strength)[1]
        self.weights_power = units.p + shrink
        self.penalty_power = 2 * units.p + units.q + shrink
        self.convexity = math.ldexp(penalty.convexity, -self.penalty_power)
        self.strength = math.ldexp(penalty.strength, -self.penalty_power)
        self.objective = objective_of(loss, samples, self.basis)
        self.elastic_net = self.scaled_elastic_net()
        self.passes_before = design.passes
        self.U = np.zeros((1, k - 1, design.dimension))
        if start is not None:
            self.U = (start @ self.basis).T[None]
        self.base = self.at(self.U)
        self.curvature = self.first_curvature()
        self.columns: SupportColumns | None = None
        self.wait = 0  # proximal steps until Newton's method is tried again
        self.n_failures = 0
        self.first_size: float | None = None
        self.momentum = 1.0
        self.n_iter = 0
        self.aim = 0.5
        self.scale = self.convexity or self.strength
        self.proven_convexity = 0.0
        self.bound = math.inf
        self.flat = False  # whether ‖S‖ met its aim at the last step
        self.ended = False
        self.last: ProximalStep | None = None

    def scaled_elastic_net(self) -> ScaledElasticNet | None:
        """Return the elastic net in `units`; None for another penalty, or where X is too large."""
        if not isinstance(self.penalty, ElasticNet) or not self.samples.design.may_be_copied:
            return None
        penalised = np.ones(self.samples.design.dimension, dtype=bool)
        if self.samples.intercept is not None:
            penalised[-1] = False
        l1 = math.ldexp(self.penalty.l1, self.weights_power - self.penalty_power)
        return ScaledElasticNet(l1, self.convexity, penalised)

    def first_curvature(self) -> float:
        """Return half the curvature of f along its gradient, a start for L."""
        base = self.base
        square = float((base.gradient**2).sum())
        if square == 0:
            return LEAST_CURVATURE
        D = base.gradient / math.sqrt(square)
        ZD = self.samples.design.fields(D)
        bent, _ = self.objective.curvature(base.evaluation, np.float64)(ZD)
        return max(LEAST_CURVATURE, float((ZD * bent).sum()))

    def at(self, U: Array) -> SmoothPoint:
        """Evaluate the losses at weights U (1, k−1, d)."""
        Z = self.samples.design.fields(U)
        here = self.objective.evaluate(Z)
        return SmoothPoint(U, Z, here, self.samples.design.back(here.residual))

    def denoise(self, gamma: Array, L: float) -> Array:
        """Return the minimiser W of L‖W‖²/2 − γ·W + Σ P(w_i), shape (1, k−1, d)."""
        free = self.samples.intercept
        penalised = gamma[0]
        if free is not None:
            penalised = gamma[0, :, :-1]
        rows = np.ldexp((self.basis @ penalised).T, self.penalty_power - self.weights_power)
        small = self.penalty.denoise(rows, np.ldexp(L, self.penalty_power)).mean
        found = np.ldexp(small @ self.basis, self.weights_power).T[None]
        if free is None:
            return found
        return np.concatenate([found, gamma[..., -1:] / L], axis=2)

    def backtracking_step(self) -> ProximalStep:
        """Step from Y, with L doubled until L/2 times its square bounds what f is above its slope.

        Differences below the rounding of f carry no information, and pass.
        """
        self.n_iter += 1
        base = self.base
        rounding = 64 * EPS * abs(base.value)
        while True:
            L = self.curvature
            point = self.at(self.denoise(L * base.U - base.gradient, L))
            step = point.U - base.U
            square = float((step * step).sum())
            above = point.value - base.value - float((base.gradient * step).sum())
            if above <= L * square / 2 + rounding:
                return ProximalStep(point, step, point.gradient - base.gradient - L * step)
            self.curvature *= 2

    def check_convergence(self, step: ProximalStep) -> None:
        """Ask for the certificate where S is small enough, and end where the bound is met."""
        self.last = step
        norm = self.norm_of(step)
        slope_size = float(np.linalg.norm(step.slope))
        is_rounding = slope_size <= self.rounding_of(step)
        self.flat = is_rounding or slope_size <= self.aim * self.tol * self.scale * norm
        out_of_steps = self.n_iter == MAX_STEPS
        if not (self.flat or out_of_steps):
            return
        self.update_bound(step)
        met = self.bound <= self.tol * norm
        hopeless = self.aim < LEAST_AIM or not (self.convexity > 0 or self.proven_convexity > 0)
        exact = self.convexity > 0 and self.samples.intercept is None
        self.ended = met or hopeless or exact or is_rounding or out_of_steps
        self.aim *= 0.1

    def rounding_of(self, step: ProximalStep) -> float:
        """Return what rounding of the sums hides of S: further steps gain nothing below it."""
        point = step.point
        _, hidden = roundings(
            self.samples.design,
            norms(point.U),
            np.array([self.curvature]),
            lengths(point.fields),
            lengths(point.evaluation.residual),
            1.0,
        )
        return float(hidden[0])

    def update_bound(self, step: ProximalStep) -> None:
        """Bound the distance to the minimiser by the penalty's convexity, or by that of the loss.

        The second gives the convexity by which further steps know when to ask again.
        """
        if self.convexity > 0:
            self.bound = self.certified_distance(step)
            return
        if self.elastic_net is None or not isinstance(self.objective, SoftmaxObjective):
            return
        certificate = support_certificate(
            self.samples.design,
            self.objective,
            self.samples.intercept,
            self.elastic_net,
            step.point.U,
            step.point.fields,
            step.point.evaluation,
            step.point.gradient,
            step.slope,
            self.curvature,
            self.tol,
        )
        self.bound = certificate.distance
        self.proven_convexity = certificate.convexity
        if 0 < certificate.convexity < math.inf:
            self.scale = certificate.convexity / 2

    def norm_of(self, step: ProximalStep) -> float:
        """Return the norm of the new weights, together with their intercepts."""
        return float(size_of(self.samples.intercept, step.point.U)[0])

    def certified_distance(self, step: ProximalStep) -> float:
        """Return ‖S‖/μ with rounding: a bound on ‖W⁺ − Ŵ‖."""
        point = step.point
        found = distances(
            self.samples.design,
            self.objective,
            self.samples.intercept,
            np.array([self.convexity]),
            point.U,
            point.fields,
            point.evaluation,
            step.slope,
            self.tol,
        )
        return float(found[1][0])

    def advance(self, step: ProximalStep) -> None:
        """Take the step, and let Y run ahead of it; momentum that points uphill is dropped."""
        new = step.point.U
        if float((step.step * (new - self.U)).sum()) < 0:
            self.momentum = 1.0
        longer = (1 + math.sqrt(1 + 4 * self.momentum * self.momentum)) / 2
        ahead = (self.momentum - 1) / longer
        if ahead == 0:
            self.base = step.point
        else:
            self.base = self.at(new + ahead * (new - self.U))
        self.U = new
        self.momentum = longer

    def newton_step_on_support(self, step: ProximalStep) -> None:
        """Take a Newton step from W⁺ on its support, where the objective falls by it.

        After a step that fails, twice as many proximal steps are made before the next.
        """
        net = self.elastic_net
        if net is None:
            return
        self.wait -= 1
        if self.wait > 0:
            return
        U = step.point.U[0]
        support = U.any(axis=0) | ~net.penalised
        if not U.any():
            return
        point = self.newton_point(net, step.point, support)
        if point is None:
            self.n_failures += 1
            self.wait = 2**self.n_failures
            return
        self.base = point
        self.U = point.U
        self.momentum = 1.0

    def newton_point(
        self, net: ScaledElasticNet, point: SmoothPoint, support: Mask
    ) -> SmoothPoint | None:
        """Return the point after a Newton step, halved until the objective falls, or None."""
        if self.columns is None or not np.array_equal(self.columns.support, support):
            self.columns = SupportColumns(self.samples.design, support)
        inner = net.restricted(support)
        U = point.U[0][:, support]
        gradient = point.gradient[0][:, support] + inner.gradient(U)
        size = float(np.linalg.norm(gradient))
        if size == 0:
            return None
        if self.first_size is None:
            self.first_size = size
        accuracy = min(0.1, max(1e-4, math.sqrt(size / self.first_size)))
        curvature = self.objective.curvature(point.evaluation, np.float32)
        D = support_direction(self.columns, curvature, inner, U, gradient, accuracy)
        before = point.value + net.value(point.U[0])
        for _ in range(MOST_HALVINGS):
            new = point.U.copy()
            new[0][:, support] = without_crossings(U, D, inner.penalised)
            there = self.at(new)
            after = there.value + net.value(new[0])
            if after <= before + 64 * EPS * abs(before):
                return there
            D = D / 2
        return None

    def finalize(self) -> ERMFit:
        """Return the last weights as a fit, in the units of the data given."""
        assert self.last is not None
        point = self.last.point
        norm = self.norm_of(self.last)
        status = Status.NOT_CONVERGED
        if self.bound <= self.tol * norm or (norm == 0 and self.flat):
            status = Status.OK
        elif self.flat:
            status = Status.TOLERANCE_NOT_MET
        fit = fit_at(
            self.samples,
            self.loss.name,
            self.penalty.strength,
            (self.basis @ point.U[0]).T,
            self.basis @ point.fields[0],
            point.value,
            self.bound,
            status,
            gradient_norm=float(np.linalg.norm(self.last.slope)),
            n_iter=self.n_iter,
            matrix_passes=self.samples.design.passes - self.passes_before,
            penalty=self.penalty.name,
        )
        return in_given_units(fit, self.units, self.penalty.strength, self.samples.intercept)
