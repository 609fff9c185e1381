"""Cross-entropy of many classes: nothing of the size of the fields but one array of probabilities.

    min_W Σ_μ ln Σ_h exp(z_hμ − z_yμ) + (λ/2)‖W‖²,   z = XW/√d,   W (k, d)

One λ at a time, in a way that counts where k is large:

- the classes' own fields, not their k − 1 differences: a product with a basis takes k²n operations,
  more than those with X where k > d. The gradient sums to 0 over the classes, and so do weights.
- fields are made, used and dropped by block of samples (`Design.through`); only the softmax p
  (k, n) stays, in single precision.
- values and gradients are in single precision, which certifies loose tolerances by itself.
- steps are those of L-BFGS, one pass over X each, from what the Hessian would be if p did not
  depend on x: with the eigenvectors E of a sample's XᵀX/d = E diag(s) Eᵀ, and
  a_h = Σ_μ p_h(1 − p_h)/n at the last point,

      class h:   M_h = a_h XᵀX/d + λ,     M_h⁻¹r = E (Eᵀr / (a_h s + λ)),

  which is exact at W = 0 but for terms of order 1/k. Each is as long as a few samples say. Newton's
  method takes over where they have been many, or rounding is near: the same inverse eases its
  conjugate gradients.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike
from scipy.linalg import eigh
from scipy.optimize import minimize_scalar
from scipy.sparse import csr_array
from scipy.special import softmax

from polyceptron.data.checks import Samples
from polyceptron.data.design import Inner, weights_or_ones
from polyceptron.fit.solvers import erm_fit
from polyceptron.fit.solvers.erm_fit import ERMFit
from polyceptron.fit.solvers.intercept import certificate, pulls_of, size_of
from polyceptron.fit.solvers.logistic_objective import softmax_objective
from polyceptron.fit.solvers.newton_fits import fit_newton
from polyceptron.fit.solvers.newton_step import by_feature, dots, solve_newton
from polyceptron.fit.solvers.objectives import Curvature, Evaluation, lengths
from polyceptron.fit.solvers.rounding import EPS, roundings
from polyceptron.fit.solvers.softmax_objective import SMALLEST_DOUBLE, SoftmaxObjective
from polyceptron.numerics import AnyArray, Array
from polyceptron.problem.losses import Loss
from polyceptron.rows import Status

# The choices below were made on the fits of benchmarks/bench_classes.py.
FEWEST_CLASSES = 24  # from which this is the quicker way
MOST_FEATURES = 3000  # whose XᵀX is diagonalised
LOOSE_SOLVE = 0.3  # share of the gradient that an inner solve may leave
MOST_STEPS = 100  # of a descent
MOST_SLOW_STEPS = 3  # in double precision
STEPS_REMEMBERED = 10  # by L-BFGS
STEPS_OF_LBFGS = 40  # before Newton's method takes over
# Share of the steepest gradient below which Newton's method takes over.
NEAR_THE_MINIMUM = 1e-5
# Share of the Hessian's mean eigenvalue at the start: at smaller ridges Newton's method begins.
SMALLEST_RIDGE_OF_LBFGS = 1e-5
MOST_HALVINGS = 20
ARMIJO_SHARE = 1e-4  # of the fall that the slope promises
FITS_EXTRAPOLATED = 3  # of a path, through which the next start is taken in ln λ
SAMPLES_PER_FEATURE = 8  # from which XᵀX is estimated
# Every eighth of these samples says how long a step is, which is sought to 5 %.
SAMPLES_BETWEEN_TRIED = 8
LOG_STEP_LENGTHS = (-4.0, 4.0)
TOLERANCE_OF_LOG_STEP = 0.05
SINGLE_EPS = float(np.finfo(np.float32).eps)
# What single precision may be off by in the trace of the Hessian.
ERROR_OF_SINGLE_TRACE = 1e-6


def fit_softmax(
    samples: Samples, loss: Loss, ridges: Sequence[float], tol: float, start: Array | None
) -> list[ERMFit]:
    """Return one fit at each λ > 0, to relative distance `tol`, from weights `start` (d, k)."""
    design = samples.design
    objective = softmax_objective(samples.y, samples.n_classes, samples.weights)
    if not _serves(samples, ridges):
        return fit_newton(samples, loss, ridges, tol, start, objective)
    solver = _ManyClasses(samples)
    kept = design.watch.checkpoint.load() or {}
    done: dict[float, ERMFit] = {}
    for ridge in sorted(set(ridges), reverse=True):
        begin = kept.get(str(ridge), _extrapolated(done, ridge, start))
        fit = solver.fit(loss.name, ridge, tol, begin)
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
    """Return whether this way is the quicker one: many classes, and a XᵀX of moderate size."""
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


class _Pair(NamedTuple):
    """A step s and the change t of the gradient along it, (1, k, d) both, with ⟨s, t⟩."""

    step: AnyArray
    change: AnyArray
    product: float


class _Point(NamedTuple):
    """The objective at some weights.

    Attributes
    ----------
    value : float
    slope : array (1, k, d)
        The gradient.
    losses : float
        Σℓ.
    sizes : tuple of array (1, n)
        ‖z‖, ‖g‖ and ‖∂²ℓ‖ of each sample.
    single : bool
        Whether it was computed in single precision.
    sure : bool
        Whether products have not centred singles.
    """

    value: float
    slope: Array
    losses: float
    sizes: tuple[Array, Array, Array]
    single: bool
    sure: bool


@dataclass(frozen=True)
class _Look:
    """Fields (1, k, b) to residuals, keeping their softmax in `softmax` (1, k, n)."""

    objective: SoftmaxObjective
    softmax: AnyArray

    def rows(self, rows: slice) -> Inner:
        """Return the look at some samples only."""
        return _Look(self.objective.rows(rows), self.softmax[..., rows])

    def __call__(self, fields: AnyArray) -> tuple[AnyArray, tuple[Array, AnyArray, AnyArray]]:
        sizes = lengths(fields)
        here = self.objective.evaluate(fields)
        self.softmax[:] = here.source
        return here.residual, (here.value, sizes, lengths(here.residual))


@dataclass(frozen=True)
class _Inverse:
    """About the inverse Hessian: M⁻¹ = E diag(eased) Eᵀ, and what the last steps showed.

    Attributes
    ----------
    vectors : array (d, d)
        E.
    eased : array (k, d)
    pairs : list of _Pair
    """

    vectors: AnyArray
    eased: AnyArray
    pairs: list[_Pair]

    def learn(self, step: AnyArray, change: AnyArray) -> None:
        """Remember that the inverse Hessian takes this change of the gradient to the step."""
        s = step.astype(np.float32)
        t = change.astype(np.float32)
        product = float(dots(s, t)[0])
        if product > 0:
            self.pairs.append(_Pair(s, t, product))
            del self.pairs[:-STEPS_REMEMBERED]

    def __call__(self, r: AnyArray, problems: AnyArray | None = None) -> AnyArray:
        """Apply the inverse Hessian to r (1, k, d), by the two loops of L-BFGS."""
        q = r.copy()
        parts: list[float] = []
        for s, t, product in reversed(self.pairs):
            part = float(dots(s, q)[0]) / product
            parts.append(part)
            q -= np.float32(part) * t
        q = np.asarray(((q @ self.vectors) * self.eased) @ self.vectors.T)
        for s, t, product in self.pairs:
            q += np.float32(parts.pop() - float(dots(t, q)[0]) / product) * s
        return q


class _ManyClasses:
    """What all λ share.

    Attributes
    ----------
    softmax : array (1, k, n)
        At the last point that was looked at.
    spectrum, vectors : array (d,), (d, d)
        Of XᵀX/d, from a part of the samples.
    tried, tried_rows : array (m,), (m, d)
        The samples that say how long a step is.
    share : array (n,)
        Weights of the samples.
    slope : array (1, k, d)
        The gradient at W = 0, which needs no fields.
    steepest : float
        Its norm.
    """

    def __init__(self, samples: Samples) -> None:
        self.samples = samples
        design = samples.design
        n, d = design.shape
        some = slice(0, n, max(1, n // (SAMPLES_PER_FEATURE * d)))
        rows = design.scaled_rows(some, np.float32)
        gram = rows.T @ rows * np.float32(n / len(rows))
        spectrum, self.vectors = eigh(gram, driver="evd")
        self.spectrum = np.maximum(spectrum, 0)
        self.tried = np.arange(n)[some][::SAMPLES_BETWEEN_TRIED]
        self.tried_rows = rows[::SAMPLES_BETWEEN_TRIED].copy()
        k = samples.n_classes
        self.objective = SoftmaxObjective(samples.y, k, samples.weights, whole=True)
        self.softmax: AnyArray = np.full((1, k, n), 1 / k, np.float32)
        self.share = weights_or_ones(samples.weights, n)
        self.slope = self._slope_at_zero()
        self.steepest = float(np.linalg.norm(self.slope))

    def _slope_at_zero(self) -> Array:
        """Return the gradient (1, k, d) at W = 0, from the sums of each class's samples."""
        design = self.samples.design
        n = design.n_samples
        starts = np.arange(n + 1)
        labels = csr_array((self.share, self.samples.y, starts), (n, self.samples.n_classes))
        sums = design.each_block(lambda rows, of: of.T @ rows, (), lambda rows: (labels[rows],))
        total = design.scale * np.asarray(sum(part for _, part in sums))
        return np.asarray((total.mean(0) - total)[None])

    def look(self, U: Array, pulls: Array, dtype: DTypeLike) -> _Point:
        """Return the objective at weights U (1, k, d), and keep the softmax there."""
        inner = _Look(self.objective, self.softmax)
        slope, blocks = self.samples.design.through(U.astype(dtype, copy=False), inner)
        losses = float(sum(value for value, _, _ in blocks)[0])
        fields = np.hstack([sizes for _, sizes, _ in blocks]).astype(float)
        residuals = np.hstack([sizes for _, _, sizes in blocks]).astype(float)
        stiffness = np.minimum(0.5 * self.share, 2 * residuals)
        is_single = dtype == np.float32
        return _Point(
            value=losses + 0.5 * float((pulls * U * U).sum()),
            slope=slope + pulls * U,
            losses=losses,
            sizes=(fields, residuals, stiffness),
            single=is_single,
            sure=len(blocks) > 1 or not is_single,
        )

    def fit(self, loss: str, ridge: float, tol: float, start: Array | None) -> ERMFit:
        """Fit to relative distance `tol`, or as near as single precision comes; `start` (d, k)."""
        descent = _Descent(self, ridge, tol, start)
        try:
            while descent.goes_on:
                descent.check_convergence()
                if descent.status == Status.OK:
                    break
                if descent.single_precision_is_spent:
                    descent.continue_in_double()
                else:
                    descent.step()
        except KeyboardInterrupt:
            descent.interrupt()
        return descent.finalize(loss)

    def step(
        self, U: Array, here: _Point, pulls: Array, inverse: _Inverse, left: float | None
    ) -> tuple[Array, _Point]:
        """Step from U (1, k, d) until the objective falls; else look in double precision there.

        Parameters
        ----------
        left : float or None
            The share of the gradient that Newton's method leaves; None takes a step of L-BFGS.
        """
        D = self._direction(here, pulls, inverse, left)
        D -= D.mean(1, keepdims=True)
        dtype = np.float32 if here.single else np.float64
        slope = float((here.slope * D).sum())
        noise = 4 * float(np.finfo(dtype).eps) * here.value
        first = self.length(U, D, slope, pulls) if left is None else 1.0
        for t in first * 0.5 ** np.arange(MOST_HALVINGS):
            there = self.look(U + t * D, pulls, dtype)
            if there.value - here.value <= ARMIJO_SHARE * t * slope + noise:
                inverse.learn(t * D, there.slope - here.slope)
                return U + t * D, there
        return U, self.look(U, pulls, np.float64)

    def _direction(
        self, here: _Point, pulls: Array, inverse: _Inverse, left: float | None
    ) -> Array:
        """Return the direction (1, k, d) of L-BFGS or of Newton's method."""
        if left is None:
            return np.asarray(-inverse(here.slope.astype(np.float32)).astype(float))
        return solve_newton(
            self.samples.design,
            self.curvature(),
            pulls[:, 0],
            here.slope,
            np.array([left]),
            np.float32,
            inverse,
        )

    def length(self, U: Array, D: AnyArray, slope: float, pulls: Array) -> float:
        """Return about the t of the lowest objective at the weights U + tD (1, k, d).

        A few samples tell it, weighed so that they have the `slope` of all samples at t = 0.
        """
        own = self.objective.y[self.tried][:, None]
        z = self._gaps(U, own)
        dz = self._gaps(D, own)
        total = self.samples.total
        linear = float((pulls * U * D).sum())
        quadratic = 0.5 * float((pulls * D * D).sum())
        share = self.share[self.tried] / self.share[self.tried].sum()
        slopes = (softmax(z, axis=1) * dz).sum(1)
        mean_slope = share @ slopes
        off = slopes - mean_slope
        missing = (slope - linear) / total - mean_slope
        share = share * (1 + missing * off / max(share @ off**2, SMALLEST_DOUBLE))

        def value(log_t: float) -> float:
            """Return the objective at the step length exp(log_t)."""
            t = math.exp(log_t)
            fields = z + np.float32(t) * dz
            largest = fields.max(1)
            losses = np.log(np.exp(fields - largest[:, None]).sum(1)) + largest
            return float(share @ losses + t * (linear + t * quadratic) / total)

        best = minimize_scalar(
            value, bounds=LOG_STEP_LENGTHS, options={"xatol": TOLERANCE_OF_LOG_STEP}
        )
        return math.exp(best.x)

    def _gaps(self, V: Array, own: AnyArray) -> AnyArray:
        """Return z_h − z_y (m, k) of the tried samples at weights V (1, k, d)."""
        z = self.tried_rows @ V[0].T.astype(np.float32)
        return np.asarray(z - np.take_along_axis(z, own, 1))

    def inverse(self, ridge: float, pairs: list[_Pair]) -> _Inverse:
        """Return about the inverse Hessian of this λ at the last point that was looked at."""
        p = self.softmax[0]
        share = self.share.astype(np.float32)
        a = np.array([share @ (own * (1 - own)) for own in p]) / np.float32(share.size)
        eased = 1 / (a[:, None] * self.spectrum + np.float32(ridge))
        return _Inverse(self.vectors, eased, pairs)

    def curvature(self) -> Curvature:
        """Return the curvature at the last point that was looked at, in single precision."""
        at_softmax = Evaluation(self.softmax, self.softmax, self.softmax)
        return self.objective.curvature(at_softmax, np.float32)

    def total(self) -> Array:
        """Return Σ_μ ∂²ℓ_μ (1, k−1, k−1) less what single precision may have added to it."""
        found = self.curvature().total()
        excess = ERROR_OF_SINGLE_TRACE * np.trace(found[0])
        return np.asarray(found - excess * np.eye(len(found[0])))


class _Descent:
    """The descent at one λ: L-BFGS first, then Newton's method, one method a part of a step.

    U : weights (1, k, d)
    here : the objective there, first in single precision
    gradient_norm, last_norm : of this point, and of the one before in the same precision
    n_steps : steps made so far
    n_quick : steps that are made by L-BFGS, before Newton's method takes over
    n_slow : steps in double precision that did not halve the gradient
    goal : the gradient's norm to reach
    bound : on ‖U − Û‖, once there is one
    """

    def __init__(self, solver: _ManyClasses, ridge: float, tol: float, start: Array | None) -> None:
        self.solver = solver
        self.samples = solver.samples
        self.ridge = ridge
        self.tol = tol
        self.passes_before = self.samples.design.passes
        self.pulls = by_feature(pulls_of(self.samples.intercept, np.array([ridge])))
        self.pairs: list[_Pair] = []
        self.n_quick = 0
        inverse = solver.inverse(ridge, [])
        if ridge > SMALLEST_RIDGE_OF_LBFGS * np.mean(1 / inverse.eased):
            self.n_quick = STEPS_OF_LBFGS
        self.U = self.first_weights(start, inverse)
        self.here = solver.look(self.U, self.pulls, np.float32)
        self.gradient_norm = float(np.linalg.norm(self.here.slope))
        self.last_norm = self.gradient_norm
        self.size = 0.0
        self.goal = 0.0
        self.bound = math.inf
        self.n_steps = 0
        self.n_slow = 0
        self.status = Status.TOLERANCE_NOT_MET

    def first_weights(self, start: Array | None, inverse: _Inverse) -> Array:
        """Return `start` (d, k) as (1, k, d), or a first step from zero, which needs no fields."""
        U = np.zeros((1, self.samples.n_classes, self.samples.design.dimension))
        if start is not None:
            U[0] = (start - start.mean(1, keepdims=True)).T
        elif self.n_quick:
            slope = self.solver.slope
            D = -inverse(slope)
            D -= D.mean(1, keepdims=True)
            U = self.solver.length(U, D, float((slope * D).sum()), self.pulls) * D
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
        return SINGLE_EPS / EPS if self.here.single else 1.0

    def check_convergence(self) -> None:
        """Set the goal, and ask for the certificate where the gradient has reached it."""
        self.size = float(size_of(self.samples.intercept, self.U)[0])
        self.goal = self.tol * self.ridge * self.size
        if self.gradient_norm > self.goal or not self.here.sure:
            return
        self.bound = self.certified_distance()
        if self.bound <= self.tol * self.size:
            self.status = Status.OK
        elif not self.here.single:
            self.goal *= 0.3 * self.gradient_norm / (self.ridge * self.bound)

    def certified_distance(self) -> float:
        """Return a bound on ‖U − Û‖, what rounding hides included."""
        enough = math.inf
        if not self.here.single:
            enough = self.tol * self.size
        found = certificate(
            self.samples.design,
            self.samples.intercept,
            np.array([self.ridge]),
            self.U,
            self.here.slope,
            self.here.sizes,
            self.solver.objective.smoothness,
            self.solver.total,
            np.array([enough]),
            self.rounding_unit,
        )
        return float(found[1][0])

    @property
    def single_precision_is_spent(self) -> bool:
        """Whether the gradient is near its goal, or near its rounding in single precision."""
        if not self.here.single:
            return False
        fields, residuals, _ = self.here.sizes
        hidden = roundings(
            self.samples.design,
            np.array([self.size]),
            np.array([self.ridge]),
            fields,
            residuals,
            self.rounding_unit,
        )[1]
        return self.gradient_norm <= max(0.9 * self.goal, 0.3 * float(hidden[0]))

    def continue_in_double(self) -> None:
        """Look at the same weights again in double precision."""
        self.here = self.solver.look(self.U, self.pulls, np.float64)
        self.gradient_norm = float(np.linalg.norm(self.here.slope))
        self.last_norm = self.gradient_norm

    def inner_tolerance(self) -> float | None:
        """Return the share of the gradient that a Newton step may leave; None for L-BFGS."""
        steepest = self.solver.steepest
        norm = self.gradient_norm
        is_far = norm >= NEAR_THE_MINIMUM * steepest
        if is_far and self.here.single and self.n_steps < self.n_quick:
            return None
        return min(LOOSE_SOLVE, max(math.sqrt(norm / steepest), 0.5 * self.goal / norm))

    def step(self) -> None:
        """Make one step, and tell whoever watches the fit."""
        inverse = self.solver.inverse(self.ridge, self.pairs)
        left = self.inner_tolerance()
        self.U, self.here = self.solver.step(self.U, self.here, self.pulls, inverse, left)
        self.n_steps += 1
        self.gradient_norm = float(np.linalg.norm(self.here.slope))
        if not self.here.single and self.gradient_norm > 0.5 * self.last_norm:
            self.n_slow += 1
        self.last_norm = self.gradient_norm
        distance = math.inf
        if self.size:
            distance = self.gradient_norm / (self.ridge * self.size)
        watch = self.samples.design.watch
        mean_value = self.here.value / self.samples.design.n_samples
        watch.step(self.n_steps, MOST_STEPS, distance, self.tol, mean_value)
        watch.checkpoint.save(partial(dict, **{str(self.ridge): self.U[0].T}))

    def interrupt(self) -> None:
        """Forget what is known of the distance to the minimiser."""
        self.bound = math.inf
        self.gradient_norm = math.nan
        self.status = Status.INTERRUPTED

    def finalize(self, loss: str) -> ERMFit:
        """Return the weights as a fit; the softmax decides like the fields, if it is known."""
        softmax_or_nan = np.full((self.samples.n_classes, 1), math.nan)
        if self.bound < math.inf:
            softmax_or_nan = self.solver.softmax[0]
        return erm_fit.fit_at(
            self.samples,
            loss,
            self.ridge,
            np.ascontiguousarray(self.U[0].T),
            softmax_or_nan,
            self.here.losses,
            self.bound,
            self.status,
            gradient_norm=self.gradient_norm,
            n_iter=self.n_steps,
            matrix_passes=self.samples.design.passes - self.passes_before,
        )
