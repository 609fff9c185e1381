"""Cross-entropy of many classes with a ridge, one λ at a time (eq:optimization_ERM of the paper).

    min_W Σ_μ s_μ ln Σ_h exp(z_hμ − z_yμ) + (λ/2)‖W‖²,   z = XW/√d (the paper's xᵀW),

with weights s of the samples and labels y. `fit_softmax` takes X (n, d), and returns W (d, k) with
a bound on ‖W − Ŵ‖ for each λ. Inside, weights are U = Wᵀ as an array (1, k, d): the solvers that
are shared with `newton` count problems along the first axis.

What is done otherwise than in `newton`, because k is large:

- Fields are those of the k classes, not of their k − 1 differences: a product with a basis takes
  k²n operations, more than those with X where k > d. The gradient sums to 0 over the classes, and
  so do the weights.
- Fields are made, used and dropped by block of samples (`Design.through`). Only the softmax (k, n)
  stays, in single precision.
- Values and gradients are in single precision first. Its certificate is enough for a loose
  tolerance.
- Steps are those of L-BFGS, one pass over X each. They begin from the Hessian with p held fixed
  (`inverse_hessian`), which is exact at W = 0 but for terms of order 1/k. The length of a step is
  sought on a few samples (`ManyClassProblem.length`).
- Newton's method takes over after many such steps, or close to rounding. The same inverse
  preconditions its conjugate gradients.

The error bar is `certified_distance`: a bound on the gradient with its rounding, over λ
(`intercept.certificate`). A fit that does not reach its tolerance is done again by `newton_fits`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from polyceptron.data.checks import Samples
from polyceptron.fit.solvers import erm_fit
from polyceptron.fit.solvers.erm_fit import ERMFit
from polyceptron.fit.solvers.intercept import certificate, pulls_of, size_of
from polyceptron.fit.solvers.inverse_hessian import InverseHessian, Secant
from polyceptron.fit.solvers.logistic_objective import softmax_objective
from polyceptron.fit.solvers.many_class_problem import ManyClassProblem
from polyceptron.fit.solvers.newton_fits import fit_newton
from polyceptron.fit.solvers.newton_step import by_feature
from polyceptron.fit.solvers.rounding import EPS, roundings
from polyceptron.numerics import Array
from polyceptron.problem.losses import Loss
from polyceptron.rows import Status

# Where this solver is the quicker one, and its choices, were measured by bench_classes.py.
FEWEST_CLASSES = 24  # k from which it is used
MOST_FEATURES = 3000  # d up to which XᵀX is diagonalised
FITS_EXTRAPOLATED = 3  # of a path, through which the next start is taken in ln λ
# The descent.
MOST_STEPS = 100
STEPS_OF_LBFGS = 40  # before Newton's method takes over
NEAR_THE_MINIMUM = 1e-5  # share of the gradient at W = 0, below which Newton's method takes over
# λ over the Hessian's mean eigenvalue at the start, below which Newton's method begins.
SMALLEST_RIDGE_OF_LBFGS = 1e-5
MOST_SLOW_STEPS = 3  # in double precision
SLOW_SHARE = 0.5  # of the gradient's norm, left by a step that is called slow
# Shares of the gradient's norm, and of its goal, that an inner solve of Newton's method may leave.
LOOSE_SOLVE = 0.3
SHARE_OF_GOAL_LEFT = 0.5
# The goal after a bound that was too loose, over the gradient at which it would have been enough.
SHARE_AFTER_LOOSE_BOUND = 0.3
# Single precision ends below these shares of the goal, and of the bound on its rounding, which is
# seldom reached.
GOAL_MET_IN_SINGLE = 0.9
ROUNDING_MET_IN_SINGLE = 0.3
SINGLE_EPS = float(np.finfo(np.float32).eps)


def fit_softmax(
    samples: Samples, loss: Loss, ridges: Sequence[float], tol: float, start: Array | None
) -> list[ERMFit]:
    """Return one fit at each λ > 0, to relative distance `tol`, from weights `start` (d, k)."""
    design = samples.design
    objective = softmax_objective(samples.y, samples.n_classes, samples.weights)
    if not _serves(samples, ridges):
        return fit_newton(samples, loss, ridges, tol, start, objective)
    problem = ManyClassProblem(samples)
    kept = design.watch.checkpoint.load() or {}
    done: dict[float, ERMFit] = {}
    for ridge in sorted(set(ridges), reverse=True):
        begin = kept.get(str(ridge), _extrapolated(done, ridge, start))
        fit = _Descent(problem, ridge, tol, begin, kept).fit(loss.name)
        done[ridge] = fit
        kept[str(ridge)] = fit.weights
        design.watch.checkpoint.save(kept.copy, now=True)
        if fit.status == Status.INTERRUPTED:
            break
        if fit.status != Status.OK:  # all in double precision
            (again,) = fit_newton(samples, loss, [ridge], tol, fit.weights, objective)
            done[ridge] = again
    return [done.get(r) or erm_fit.stopped_at(0 * fit.weights, r, loss.name) for r in ridges]


def _serves(samples: Samples, ridges: Sequence[float]) -> bool:
    """Return whether this solver is the quicker one: many classes, and a XᵀX of moderate size."""
    design = samples.design
    if samples.n_classes < FEWEST_CLASSES or design.dimension > MOST_FEATURES:
        return False
    return 0 not in ridges and design.squares_are_safe and not design.reading_is_dear


def _extrapolated(done: dict[float, ERMFit], ridge: float, start: Array | None) -> Array | None:
    """Return weights (d, k) to begin with, through the last fits of the path."""
    if not done:
        return start
    last = list(done.items())[-FITS_EXTRAPOLATED:]
    points = [(math.log(r), fit.weights) for r, fit in last]
    return erm_fit.through_nearest(points, math.log(ridge), FITS_EXTRAPOLATED)


class _Descent:
    """The descent at one λ: L-BFGS first, then Newton's method; each method does a part of a step.

    Attributes
    ----------
    U : array (1, k, d)
        The weights.
    here : Point
        The objective there, first in single precision.
    softmax_is_known : bool
        Whether `problem.softmax` is that at U: not where a look was interrupted.
    bound : float
        On ‖U − Û‖; infinite until these weights have been certified.
    size : float
        ‖U‖, intercepts included.
    gradient_norm, last_norm : float
        Of this point, and of the one before in the same precision.
    goal : float
        The gradient's norm to reach, at which the certificate is asked for.
    n_steps, n_slow : int
        Steps made so far; those in double precision that left over `SLOW_SHARE` of the gradient.
    n_quick : int
        Up to how many steps are those of L-BFGS.
    kept : dict
        Weights (d, k) of the λ that are finished, for the checkpoint.
    secants : list of Secant
        What the last steps showed of the Hessian; the inverse Hessian adds to it.
    """

    def __init__(
        self,
        problem: ManyClassProblem,
        ridge: float,
        tol: float,
        start: Array | None,
        kept: dict[str, Array],
    ) -> None:
        self.problem = problem
        self.samples = problem.samples
        self.ridge = ridge
        self.tol = tol
        self.kept = kept
        self.passes_before = self.samples.design.passes
        self.penalties = by_feature(pulls_of(self.samples.intercept, np.array([ridge])))
        self.secants: list[Secant] = []
        self.n_quick = 0
        inverse = problem.inverse(ridge, [])
        if ridge > SMALLEST_RIDGE_OF_LBFGS * np.mean(1 / inverse.inverse_eigenvalues):
            self.n_quick = STEPS_OF_LBFGS
        self.U = self.first_weights(start, inverse)
        self.here = problem.look(self.U, self.penalties, np.float32)
        self.gradient_norm = float(np.linalg.norm(self.here.gradient))
        self.last_norm = self.gradient_norm
        self.size = 0.0
        self.goal = 0.0
        self.bound = math.inf
        self.softmax_is_known = True
        self.n_steps = 0
        self.n_slow = 0
        self.status = Status.TOLERANCE_NOT_MET

    def fit(self, loss: str) -> ERMFit:
        """Step until ‖U − Û‖ ≤ tol·‖U‖ is certified, or steps no longer help."""
        try:
            while self.goes_on:
                self.check_convergence()
                if self.status == Status.OK:
                    break
                if self.single_precision_is_spent:
                    self.continue_in_double()
                else:
                    self.step()
        except KeyboardInterrupt:
            self.interrupt()
        return self.finalize(loss)

    def first_weights(self, start: Array | None, inverse: InverseHessian) -> Array:
        """Return `start` (d, k) as (1, k, d), or a first step from zero, which needs no fields."""
        U = np.zeros((1, self.samples.n_classes, self.samples.design.dimension))
        if start is not None:
            U[0] = (start - start.mean(1, keepdims=True)).T
        elif self.n_quick:
            gradient = self.problem.gradient_at_zero
            D = -inverse(gradient)
            D -= D.mean(1, keepdims=True)
            U = self.problem.length(U, D, float((gradient * D).sum()), self.penalties) * D
        return U

    @property
    def goes_on(self) -> bool:
        """Whether another step may help: a few slow ones in double precision are enough."""
        return (
            self.n_steps < MOST_STEPS
            and self.n_slow < MOST_SLOW_STEPS
            and 0 < self.gradient_norm < math.inf
        )

    @property
    def rounding_unit(self) -> float:
        """The unit of rounding of this point, in that of doubles."""
        return SINGLE_EPS / EPS if self.here.is_single else 1.0

    def check_convergence(self) -> None:
        """Set the goal, and ask for the certificate where the gradient has reached it.

        The goal ‖gradient‖ ≤ tol·λ‖U‖ gives ‖U − Û‖ ≤ tol·‖U‖ by strong convexity, but for
        rounding and intercepts, which the certificate adds. Where its bound is then too loose, the
        goal of the next step is as much lower as the bound is above ‖gradient‖/λ.
        """
        self.size = float(size_of(self.samples.intercept, self.U)[0])
        self.goal = self.tol * self.ridge * self.size
        if self.gradient_norm > self.goal or not self.here.can_certify:
            return
        self.bound = self.certified_distance()
        if self.bound <= self.tol * self.size:
            self.status = Status.OK
        elif not self.here.is_single:
            tightness = self.gradient_norm / (self.ridge * self.bound)
            self.goal *= SHARE_AFTER_LOOSE_BOUND * tightness

    def certified_distance(self) -> float:
        """Return a bound on ‖U − Û‖, what rounding hides included."""
        # A better bound costs products in double precision: not for a point in single precision.
        enough = math.inf if self.here.is_single else self.tol * self.size
        _, distance = certificate(
            self.samples.design,
            self.samples.intercept,
            np.array([self.ridge]),
            self.U,
            self.here.gradient,
            self.here.sizes,
            self.problem.objective.smoothness,
            self.problem.total,
            np.array([enough]),
            self.rounding_unit,
        )
        return float(distance[0])

    @property
    def single_precision_is_spent(self) -> bool:
        """Whether the gradient is near its goal, or near its rounding in single precision."""
        if not self.here.is_single:
            return False
        fields, residuals, _ = self.here.sizes
        _, hidden = roundings(
            self.samples.design,
            np.array([self.size]),
            np.array([self.ridge]),
            fields,
            residuals,
            self.rounding_unit,
        )
        near_goal = GOAL_MET_IN_SINGLE * self.goal
        near_rounding = ROUNDING_MET_IN_SINGLE * float(hidden[0])
        return self.gradient_norm <= max(near_goal, near_rounding)

    def continue_in_double(self) -> None:
        """Look at the same weights again in double precision."""
        self.here = self.problem.look(self.U, self.penalties, np.float64)
        self.gradient_norm = float(np.linalg.norm(self.here.gradient))
        self.last_norm = self.gradient_norm

    def inner_tolerance(self) -> float | None:
        """Return the share of the gradient that a Newton step may leave; None for L-BFGS.

        The share falls with the gradient, so that the steps converge faster than linearly, but not
        below what reaches the goal.
        """
        steepest = self.problem.steepest
        norm = self.gradient_norm
        is_far = norm >= NEAR_THE_MINIMUM * steepest
        if is_far and self.here.is_single and self.n_steps < self.n_quick:
            return None
        reaching_goal = SHARE_OF_GOAL_LEFT * self.goal / norm
        return min(LOOSE_SOLVE, max(math.sqrt(norm / steepest), reaching_goal))

    def step(self) -> None:
        """Make one step, and tell whoever watches the fit."""
        inverse = self.problem.inverse(self.ridge, self.secants)
        left = self.inner_tolerance()
        self.bound = math.inf  # that of the last weights
        self.U, self.here = self.problem.step(self.U, self.here, self.penalties, inverse, left)
        self.n_steps += 1
        self.gradient_norm = float(np.linalg.norm(self.here.gradient))
        if not self.here.is_single and self.gradient_norm > SLOW_SHARE * self.last_norm:
            self.n_slow += 1
        self.last_norm = self.gradient_norm
        distance = math.inf
        if self.size:
            distance = self.gradient_norm / (self.ridge * self.size)
        watch = self.samples.design.watch
        mean_value = self.here.value / self.samples.design.n_samples
        watch.step(self.n_steps, MOST_STEPS, distance, self.tol, mean_value)
        watch.checkpoint.save(lambda: self.kept | {str(self.ridge): self.U[0].T})

    def interrupt(self) -> None:
        """Forget what is known of the weights: a look may have been broken off."""
        self.bound = math.inf
        self.softmax_is_known = False
        self.gradient_norm = math.nan
        self.status = Status.INTERRUPTED

    def finalize(self, loss: str) -> ERMFit:
        """Return the weights as a fit; its errors are counted by the softmax, if that is known."""
        softmax_or_nan = np.full((self.samples.n_classes, 1), math.nan)
        if self.softmax_is_known:
            softmax_or_nan = self.problem.softmax[0]
        return erm_fit.fit_at(
            self.samples,
            loss,
            self.ridge,
            np.ascontiguousarray(self.U[0].T),
            softmax_or_nan,
            self.here.loss_sum,
            self.bound,
            self.status,
            gradient_norm=self.gradient_norm,
            n_iter=self.n_steps,
            matrix_passes=self.samples.design.passes - self.passes_before,
        )
