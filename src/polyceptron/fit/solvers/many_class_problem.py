"""The objective of cross-entropy with many classes, and steps along which it falls.

    Σ_μ s_μ ℓ_μ + (λ/2)‖W‖²,   ℓ_μ = ln Σ_h exp(z_hμ − z_yμ),   z = XW/√d,

for inputs X (n, d), labels y, weights s of the samples, and k classes h. Weights are U = Wᵀ as an
array (1, k, d). Of each sample, with the softmax p (k,) of its fields: g_μ = s_μ(p − e_y) is the
gradient of s_μℓ_μ in the fields, H_μ = s_μ(diag p − ppᵀ) the Hessian.

`ManyClassProblem.look` passes over X once, by block, and gives value and gradient. `step` goes
along a direction of L-BFGS or of Newton's method until the value falls.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike
from scipy.linalg import eigh
from scipy.optimize import minimize_scalar
from scipy.sparse import csr_array
from scipy.special import softmax

from polyceptron.data.checks import Samples
from polyceptron.data.design import Inner, weights_or_ones
from polyceptron.fit.solvers.inverse_hessian import InverseHessian, Secant
from polyceptron.fit.solvers.newton_step import solve_newton
from polyceptron.fit.solvers.objectives import Curvature, Evaluation, lengths
from polyceptron.fit.solvers.softmax_objective import SMALLEST_DOUBLE, SoftmaxObjective
from polyceptron.numerics import AnyArray, Array

# Chosen on the fits of benchmarks/bench_classes.py.
MOST_HALVINGS = 20
ARMIJO_SHARE = 1e-4  # of the fall that the slope promises
ROUNDINGS_OF_A_VALUE = 4  # in units of eps, below which a change of the objective says nothing
SAMPLES_PER_FEATURE = 8  # of the samples from which XᵀX is estimated
SAMPLES_BETWEEN_TRIED = 8  # every eighth of these is one of the few that tell a step's length
LOG_STEP_LENGTHS = (-4.0, 4.0)  # between which ln t is sought
TOLERANCE_OF_LOG_STEP = 0.05
# Allowance, over its trace, for single precision in Σ H_μ: about eight units of rounding.
ERROR_OF_SINGLE_TRACE = 1e-6


class Point(NamedTuple):
    """The objective at some weights.

    Attributes
    ----------
    value : float
        The loss and the ridge term.
    gradient : array (1, k, d)
        Of `value` in U.
    loss_sum : float
        Σ_μ ℓ_μ.
    sizes : tuple of array (1, n)
        Of each sample: ‖z_μ‖, ‖g_μ‖, and a bound on ‖H_μ‖.
    is_single : bool
        Whether it was computed in single precision.
    can_certify : bool
        Whether the certificate covers its rounding. It does not where X may not be centred and was
        multiplied whole in single precision, its mean being taken off the product. By block, rows
        are centred first.
    """

    value: float
    gradient: Array
    loss_sum: float
    sizes: tuple[Array, Array, Array]
    is_single: bool
    can_certify: bool


@dataclass(frozen=True)
class _Look:
    """Fields (1, k, b) of some samples to their g (1, k, b), with sums and norms beside.

    `Design.through` calls it by block. It writes the softmax of the fields to `softmax` (1, k, b),
    a part of that of all samples.
    """

    objective: SoftmaxObjective
    softmax: AnyArray

    def rows(self, rows: slice) -> Inner:
        """Return the same for some samples only."""
        return _Look(self.objective.rows(rows), self.softmax[..., rows])

    def __call__(self, fields: AnyArray) -> tuple[AnyArray, tuple[Array, AnyArray, AnyArray]]:
        field_norms = lengths(fields)
        here = self.objective.evaluate(fields)
        self.softmax[:] = here.source
        return here.residual, (here.value, field_norms, lengths(here.residual))


class ManyClassProblem:
    """What the fits at all λ share: the data, the softmax, and what was found out beforehand.

    In its methods, U (1, k, d) are weights and `penalties` (1, 1, d) the ridge of each feature: λ,
    but 0 for the column of ones that stands for the intercept.

    Attributes
    ----------
    softmax : array (1, k, n)
        p at the last point that `look` was given.
    spectrum, vectors : array (d,), (d, d)
        Eigenvalues and eigenvectors of XᵀX/d, from a part of the samples.
    tried, tried_rows : array (m,), (m, d)
        The few samples that tell how long a step should be: their numbers, and x/√d.
    sample_weights : array (n,)
        s, 1 where none were given.
    gradient_at_zero : array (1, k, d)
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
        self.sample_weights = weights_or_ones(samples.weights, n)
        self.gradient_at_zero = self._gradient_at_zero()
        self.steepest = float(np.linalg.norm(self.gradient_at_zero))

    def _gradient_at_zero(self) -> Array:
        """Return the gradient (1, k, d) at W = 0, from the sums of each class's samples."""
        design = self.samples.design
        n = design.n_samples
        starts = np.arange(n + 1)
        y = self.samples.y
        labels = csr_array((self.sample_weights, y, starts), (n, self.samples.n_classes))
        sums = design.each_block(lambda rows, of: of.T @ rows, (), lambda rows: (labels[rows],))
        total = design.scale * np.asarray(sum(part for _, part in sums))
        return np.asarray((total.mean(0) - total)[None])

    def look(self, U: Array, penalties: Array, dtype: DTypeLike) -> Point:
        """Return the objective at weights U (1, k, d), and keep the softmax there."""
        inner = _Look(self.objective, self.softmax)
        gradient, blocks = self.samples.design.through(U.astype(dtype, copy=False), inner)
        loss_sum = float(sum(value for value, _, _ in blocks)[0])
        fields = np.hstack([norms for _, norms, _ in blocks]).astype(float)
        residuals = np.hstack([norms for _, _, norms in blocks]).astype(float)
        # ‖diag p − ppᵀ‖ is at most 1/2, and at most its trace 1 − Σ p_h² ≤ 2(1 − p_y) ≤ 2‖p − e_y‖.
        # `residuals` contain the weights of the samples.
        curvatures = np.minimum(0.5 * self.sample_weights, 2 * residuals)
        is_single = dtype == np.float32
        return Point(
            value=loss_sum + 0.5 * float((penalties * U * U).sum()),
            gradient=gradient + penalties * U,
            loss_sum=loss_sum,
            sizes=(fields, residuals, curvatures),
            is_single=is_single,
            can_certify=len(blocks) > 1 or not is_single,
        )

    def step(
        self, U: Array, here: Point, penalties: Array, inverse: InverseHessian, left: float | None
    ) -> tuple[Array, Point]:
        """Step from U (1, k, d) until the objective falls; else look in double precision there.

        Parameters
        ----------
        left : float or None
            The share of the gradient that Newton's method leaves; None takes a step of L-BFGS.
        """
        D = self._direction(here, penalties, inverse, left)
        D -= D.mean(1, keepdims=True)
        dtype = np.float32 if here.is_single else np.float64
        slope = float((here.gradient * D).sum())
        noise = ROUNDINGS_OF_A_VALUE * float(np.finfo(dtype).eps) * here.value
        first = self.length(U, D, slope, penalties) if left is None else 1.0
        for t in first * 0.5 ** np.arange(MOST_HALVINGS):
            there = self.look(U + t * D, penalties, dtype)
            if there.value - here.value <= ARMIJO_SHARE * t * slope + noise:
                inverse.learn(t * D, there.gradient - here.gradient)
                return U + t * D, there
        return U, self.look(U, penalties, np.float64)

    def _direction(
        self, here: Point, penalties: Array, inverse: InverseHessian, left: float | None
    ) -> Array:
        """Return the direction (1, k, d) of L-BFGS or of Newton's method."""
        if left is None:
            return np.asarray(-inverse(here.gradient.astype(np.float32)).astype(float))
        return solve_newton(
            self.samples.design,
            self.curvature(),
            penalties[:, 0],
            here.gradient,
            np.array([left]),
            np.float32,
            inverse,
        )

    def length(self, U: Array, D: AnyArray, slope: float, penalties: Array) -> float:
        """Return about the t of the lowest objective at the weights U + tD (1, k, d).

        A few samples tell it. Their weights are changed as little as possible (some may become
        negative) so that their mean slope at t = 0 is that of all samples: `slope` less the ridge's
        part. Mean and slopes are per unit of sample weight.
        """
        own = self.objective.y[self.tried][:, None]
        z = self._gaps(U, own)
        dz = self._gaps(D, own)
        total = self.samples.total  # Σ s
        ridge_slope = float((penalties * U * D).sum())
        ridge_curvature_half = 0.5 * float((penalties * D * D).sum())
        share = self.sample_weights[self.tried] / self.sample_weights[self.tried].sum()
        slopes = (softmax(z, axis=1) * dz).sum(1)
        mean_slope = share @ slopes
        off = slopes - mean_slope
        missing = (slope - ridge_slope) / total - mean_slope
        variance = max(share @ off**2, SMALLEST_DOUBLE)
        share = share * (1 + missing * off / variance)  # sums to 1 as before

        def value(log_t: float) -> float:
            """Return the objective at the step length exp(log_t)."""
            t = math.exp(log_t)
            fields = z + np.float32(t) * dz
            largest = fields.max(1)
            losses = np.log(np.exp(fields - largest[:, None]).sum(1)) + largest
            return float(share @ losses + t * (ridge_slope + t * ridge_curvature_half) / total)

        best = minimize_scalar(
            value, bounds=LOG_STEP_LENGTHS, options={"xatol": TOLERANCE_OF_LOG_STEP}
        )
        return math.exp(best.x)

    def _gaps(self, V: Array, own: AnyArray) -> AnyArray:
        """Return z_h − z_y (m, k) of the tried samples at V (1, k, d); `own` (m, 1) are the y."""
        z = self.tried_rows @ V[0].T.astype(np.float32)
        return np.asarray(z - np.take_along_axis(z, own, 1))

    def inverse(self, ridge: float, secants: list[Secant]) -> InverseHessian:
        """Return about the inverse Hessian of this λ at the last point that was looked at."""
        s = self.sample_weights.astype(np.float32)
        a = np.array([s @ (p * (1 - p)) for p in self.softmax[0]]) / np.float32(s.size)  # a_h (k,)
        inverse_eigenvalues = 1 / (a[:, None] * self.spectrum + np.float32(ridge))
        return InverseHessian(self.vectors, inverse_eigenvalues, secants)

    def curvature(self) -> Curvature:
        """Return the curvature at the last point that was looked at, in single precision."""
        # The curvature of the softmax reads `source` alone.
        at_softmax = Evaluation(value=self.softmax, residual=self.softmax, source=self.softmax)
        return self.objective.curvature(at_softmax, np.float32)

    def total(self) -> Array:
        """Return Σ_μ H_μ (1, k−1, k−1) less what single precision may have added to it.

        It is on the k − 1 differences of classes: in the direction that all classes share, the loss
        does not depend on the fields, and the least eigenvalue would be 0.
        """
        found = self.curvature().total()
        excess = ERROR_OF_SINGLE_TRACE * np.trace(found[0])
        return np.asarray(found - excess * np.eye(len(found[0])))
