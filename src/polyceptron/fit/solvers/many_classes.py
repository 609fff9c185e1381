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
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import minimize_scalar
from scipy.sparse import csr_array
from scipy.special import softmax

from polyceptron.data.checks import Samples
from polyceptron.data.design import Inner, weights_or_ones
from polyceptron.fit.solvers import erm_fit, newton, objectives
from polyceptron.fit.solvers.erm_fit import ERMFit
from polyceptron.fit.solvers.intercept import certificate, pulls_of, size_of
from polyceptron.fit.solvers.objectives import EPS, Evaluation, SoftmaxObjective, lengths
from polyceptron.numerics import AnyArray, Array
from polyceptron.problem.losses import Loss
from polyceptron.rows import Status

MANY = 24  # classes from which this is the quicker way
_LOOSE = 0.3  # of the gradient, that an inner solve may leave at most
_STEPS = 100  # of a descent
_PAIRS = 10  # steps that L-BFGS remembers
_QUICK = 40  # steps of L-BFGS, before Newton's method takes over
_NEAR = 1e-5  # of the steepest gradient: what is left is for Newton's method
_TINY = 1e-5  # of the Hessian's mean eigenvalue at the start, the ridge up to which none are made
_COARSE = float(np.finfo(np.float32).eps) / EPS
_NODES = 3  # fits of a path, through which the next one's start is extrapolated in ln λ


def fit_softmax(
    samples: Samples, loss: Loss, ridges: Sequence[float], tol: float, start: Array | None
) -> list[ERMFit]:
    """One fit at each λ > 0, to relative distance `tol`; `start` (d, k)."""
    design, y, k = samples
    few = k < MANY or design.dimension > 3000  # features whose XᵀX is diagonalised
    objective = SoftmaxObjective(y, k, samples.weights)
    if few or 0 in ridges or not design.squares_are_safe or design.reading_is_dear:
        return erm_fit.fit_newton(samples, loss, ridges, tol, start, objective)
    solver, done = _ManyClasses(samples), dict[float, ERMFit]()
    kept = design.watch.checkpoint.load() or {}
    for ridge in sorted(set(ridges), reverse=True):
        nearest = [(math.log(r), fit.weights) for r, fit in list(done.items())[-_NODES:]]
        begin = erm_fit.through_nearest(nearest, math.log(ridge), _NODES) if nearest else start
        begin = kept.get(str(ridge), begin)
        done[ridge] = fit = solver.fit(loss.name, ridge, tol, begin)
        kept[str(ridge)] = fit.weights
        design.watch.checkpoint.save(kept.copy, now=True)
        if fit.status == Status.INTERRUPTED:
            break
        if fit.status != Status.OK:  # all in double precision
            done[ridge] = erm_fit.fit_newton(samples, loss, [ridge], tol, fit.weights, objective)[0]
    return [done.get(r) or erm_fit.stopped_at(0 * fit.weights, r, loss.name) for r in ridges]


_Pair = tuple[AnyArray, AnyArray, float]
"""A step s and the change t of the gradient along it, (1, k, d) both, with ⟨s, t⟩."""


class _Point(NamedTuple):
    """Objective, its gradient (1, k, d), Σℓ, and of each sample (1, n) ‖z‖, ‖g‖, ‖∂²ℓ‖.

    `single` precision or not; `sure`: whether products have not centred singles.
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
        return _Look(self.objective.rows(rows), self.softmax[..., rows])

    def __call__(self, fields: AnyArray) -> tuple[AnyArray, Any]:
        sizes = lengths(fields)
        here = self.objective.evaluate(fields)
        self.softmax[:] = here.source
        return here.residual, (here.value, sizes, lengths(here.residual))


@dataclass(frozen=True)
class _Inverse:
    """About the inverse Hessian: M⁻¹ = E diag(eased) Eᵀ, and what the last steps showed.

    `pairs`: steps s and changes t of the gradient, (1, k, d) both, with ⟨s, t⟩.
    """

    vectors: AnyArray
    eased: AnyArray
    pairs: list[_Pair]

    def learn(self, s: AnyArray, t: AnyArray) -> None:
        """Remember that the inverse Hessian takes the change t of the gradient to the step s."""
        s, t = s.astype(np.float32), t.astype(np.float32)
        if (both := float(newton.dots(s, t)[0])) > 0:
            self.pairs.append((s, t, both))
            del self.pairs[:-_PAIRS]

    def __call__(self, r: AnyArray, at: Any = None) -> AnyArray:
        """Apply the inverse Hessian to r (1, k, d), by the two loops of L-BFGS."""
        q, parts = r.copy(), list[Any]()
        for s, t, both in reversed(self.pairs):
            parts.append(newton.dots(s, q)[0] / both)
            q -= np.float32(parts[-1]) * t
        q = np.asarray(((q @ self.vectors) * self.eased) @ self.vectors.T)
        for s, t, both in self.pairs:
            q += np.float32(parts.pop() - newton.dots(t, q)[0] / both) * s
        return q


class _ManyClasses:
    """What all λ share: the softmax at the last point, spectrum s (d,) and eigenvectors (d, d)."""

    def __init__(self, samples: Samples) -> None:
        (design, y, k), self.samples = samples, samples
        n, d = design.shape
        some = slice(0, n, max(1, n // (8 * d)))  # for an approximation they will do
        A = design.scaled_rows(some, np.float32)
        spectrum, self.vectors = eigh(A.T @ A * np.float32(n / len(A)), driver="evd")
        self.spectrum = np.maximum(spectrum, 0)
        self.few = np.arange(n)[some][::8], A[::8].copy()
        self.objective = SoftmaxObjective(y, k, samples.weights, whole=True)
        self.softmax: AnyArray = np.full((1, k, n), 1 / k, np.float32)
        self.share = weights_or_ones(samples.weights, n)
        own = csr_array((self.share, y, np.arange(n + 1)), (n, k))
        sums = design.each_block(lambda rows, of: of.T @ rows, (), lambda rows: (own[rows],))
        total = design.scale * np.asarray(sum(part for _, part in sums))
        self.slope = (total.mean(0) - total)[None]  # at W = 0: no fields are needed
        self.steepest = float(np.linalg.norm(self.slope))

    def look(self, U: Array, pulls: Array, dtype: Any) -> _Point:
        """At weights U (1, k, d), in this precision; the softmax there is kept."""
        inner = _Look(self.objective, self.softmax)
        slope, found = self.samples.design.through(U.astype(dtype, copy=False), inner)
        values, *parts = zip(*found, strict=True)
        fields, residuals = (np.hstack(part).astype(float) for part in parts)
        sizes = fields, residuals, np.minimum(0.5 * self.share, 2 * residuals)
        losses, single = float(sum(values)[0]), dtype == np.float32
        value = losses + 0.5 * float((pulls * U * U).sum())
        return _Point(value, slope + pulls * U, losses, sizes, single, len(found) > 1 or not single)

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
        self, U: Array, here: _Point, pulls: Array, inverse: _Inverse, rest: float | None
    ) -> tuple[Array, _Point]:
        """A step, halved until the objective falls; else the same in double precision.

        By Newton's method to the `rest` of the gradient, or at once.
        """
        if rest is None:
            D = -inverse(here.slope.astype(np.float32)).astype(float)
        else:
            given = self.samples.design, self.curvature(), pulls[:, 0], here.slope
            D = newton.solve_newton(*given, np.array([rest]), np.float32, inverse)
        D -= D.mean(1, keepdims=True)
        dtype = np.float32 if here.single else np.float64
        slope, noise = float((here.slope * D).sum()), 4 * float(np.finfo(dtype).eps) * here.value
        first = self.length(U, D, slope, pulls) if rest is None else 1.0
        for t in first * 0.5 ** np.arange(20):
            there = self.look(U + t * D, pulls, dtype)
            if there.value - here.value <= 1e-4 * t * slope + noise:
                inverse.learn(t * D, there.slope - here.slope)
                return U + t * D, there
        return U, self.look(U, pulls, np.float64)

    def length(self, U: Array, D: AnyArray, slope: float, pulls: Array) -> float:
        """About the t of the lowest objective at the weights U + tD (1, k, d).

        By a few samples, weighed so that theirs has the `slope` of all samples at t = 0.
        """
        (chosen, rows), total = self.few, self.samples.total
        own = self.objective.y[chosen][:, None]
        z, dz = (rows @ V[0].T.astype(np.float32) for V in (U, D))
        z, dz = (x - np.take_along_axis(x, own, 1) for x in (z, dz))
        linear, square = float((pulls * U * D).sum()), 0.5 * float((pulls * D * D).sum())
        share = self.share[chosen] / self.share[chosen].sum()
        each = (softmax(z, axis=1) * dz).sum(1)
        off, missing = each - share @ each, (slope - linear) / total - share @ each
        share = share * (1 + missing * off / max(share @ off**2, 1e-300))

        def value(t: float) -> float:
            at = z + np.float32(t) * dz
            top = at.max(1)
            losses = np.log(np.exp(at - top[:, None]).sum(1)) + top
            return float(share @ losses + t * (linear + t * square) / total)

        near: Any = {"bounds": (-4, 4), "options": {"xatol": 0.05}}
        return math.exp(minimize_scalar(lambda u: value(math.exp(u)), **near).x)

    def inverse(self, ridge: float, pairs: list[_Pair]) -> _Inverse:
        """About the inverse Hessian of this λ at the last point that was looked at."""
        p, share = self.softmax[0], self.share.astype(np.float32)
        a = np.array([share @ (own * (1 - own)) for own in p]) / np.float32(share.size)
        return _Inverse(self.vectors, 1 / (a[:, None] * self.spectrum + np.float32(ridge)), pairs)

    def curvature(self) -> Any:
        """At the last point that was looked at, in single precision."""
        return self.objective.curvature(Evaluation(*[self.softmax] * 3), np.float32)

    def total(self) -> Array:
        """Σ_μ ∂²ℓ_μ (1, k−1, k−1), no more than it is: it is known in single precision."""
        found = self.curvature().total()
        return found - 1e-6 * np.trace(found[0]) * np.eye(len(found[0]))


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
        self.pulls = newton.by_feature(pulls_of(self.samples.intercept, np.array([ridge])))
        self.pairs: list[_Pair] = []
        self.n_quick = 0
        inverse = solver.inverse(ridge, [])
        if ridge > _TINY * np.mean(1 / inverse.eased):
            self.n_quick = _QUICK
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
        return self.n_steps < _STEPS and self.n_slow < 3 and 0 < self.gradient_norm < math.inf

    @property
    def rounding_unit(self) -> float:
        """The unit of rounding of this point, in that of doubles."""
        return _COARSE if self.here.single else 1.0

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
        hidden = objectives.roundings(
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
        quick = self.n_steps < self.n_quick and self.here.single and norm >= _NEAR * steepest
        if quick:
            return None
        return min(_LOOSE, max(math.sqrt(norm / steepest), 0.5 * self.goal / norm))

    def step(self) -> None:
        """Make one step, and tell whoever watches the fit."""
        inverse = self.solver.inverse(self.ridge, self.pairs)
        found = self.solver.step(self.U, self.here, self.pulls, inverse, self.inner_tolerance())
        self.U, self.here = found
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
        watch.step(self.n_steps, _STEPS, distance, self.tol, mean_value)
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
