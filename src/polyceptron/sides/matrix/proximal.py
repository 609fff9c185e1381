"""The proximal map of a loss in the metric of a matrix V, on class differences.

With a class weight c and the basis T of class differences,

    h = argmin (h − ω)ᵀV⁻¹(h − ω)/2 + c ℓ(T(h + b), y),     f = V⁻¹(h − ω) = −c Tᵀ∇ℓ
    −∂f = (V + (cH)⁻¹)⁻¹ = (I + cHV)⁻¹ cH,                   H = Tᵀ∇²ℓ T

Three ways, for all samples at once:

- Two classes: V is a number, and the loss has its own map.
- A smooth loss: u ← u − (I + cVH)⁻¹(u − ω − b − Vf). A loss that can do so inverts this matrix for
  a diagonal V nearby, in place of V; Newton's method follows where that does not arrive.
- A loss with kinks: its own proximal map at the least eigenvalue v of V, alternating with steps
  along V⁻¹(h − ω) (accelerated proximal gradient).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import reduce
from typing import NamedTuple

import numpy as np

from polyceptron.checks import class_gaps, difference_basis
from polyceptron.numerics import Array
from polyceptron.problem.losses import Loss
from polyceptron.sides.matrix.order import Labels

Rows = Labels | slice

# The last step of a proximal point relative to the fields, where the caller asks for nothing else.
POINT_ACCURACY = 1e-8
MAX_DIAGONAL_ROUNDS = 12
MAX_NEWTON_ROUNDS = 100
MAX_HALVINGS = 50
ENERGY_ROUNDING = 1e-12  # relative
# Two metrics are used in each other's place up to this ratio of their relative eigenvalues.
LARGEST_RATIO_OF_METRICS = 2.0
# Accelerated gradient: rounds, and the last step relative to the fields from nothing and from
# points of a law nearby.
MAX_GRADIENT_ROUNDS = 3000
GRADIENT_ACCURACY = 1e-10
GRADIENT_ACCURACY_NEARBY = 1e-7
# A constraint of a hard margin binds where its multiplier is above this: less is rounding.
LEAST_BINDING_FORCE = 1e-7


class MatrixPull(NamedTuple):
    """u = h + b (n, r) and f (n, r)."""

    point: Array
    f: Array


def matrix_pull(
    loss: Loss,
    omega: Array,
    y: Labels,
    V: Array,
    weight: Array,
    start: Array | None = None,
    close: float = POINT_ACCURACY,
) -> MatrixPull:
    """Return the proximal points and pulls of n samples.

    Parameters
    ----------
    loss : Loss
    omega : array, shape (n, r)
        Fields with the intercept, ω + b.
    y : array of int, shape (n,)
    V : array, shape (r, r)
    weight : array, shape (n,)
        Class weights c of the samples.
    start : array, shape (n, r), optional
        Points of a law nearby.
    close : float
        The last step relative to the fields.
    """
    samples = ProximalProblem(loss, omega, y, V, weight)
    if loss.coordinates.jumps:
        return _accelerated_gradient(samples, start)
    if omega.shape[1] == 1:
        return _pull_of_two_classes(samples)
    if start is None:
        start = _start_with_mean_metric(samples)
    return SmoothRounds(samples, start, close).run()


@dataclass(frozen=True)
class ProximalProblem:
    """The samples of `matrix_pull`, in its notation."""

    loss: Loss
    omega: Array
    y: Labels
    V: Array
    weight: Array

    @property
    def basis(self) -> Array:
        """T (k, r)."""
        return difference_basis(self.omega.shape[1] + 1)

    def pull_at(self, u: Array) -> Array:
        """Return f = −c Tᵀ∇ℓ at points u (n, r), shape (n, r)."""
        T = self.basis
        return np.asarray(-self.weight[:, None] * (self.loss.gradient(u @ T.T, self.y) @ T))


def _pull_of_two_classes(samples: ProximalProblem) -> MatrixPull:
    """Return the pull where V is a number, from the loss's own map."""
    T = samples.basis
    v = samples.V[0, 0]
    own_f = samples.loss.denoise(samples.omega @ T.T, samples.y, samples.weight * v)[0]
    f = samples.weight[:, None] * (own_f @ T)
    return MatrixPull(samples.omega + f * v, f)


def _start_with_mean_metric(samples: ProximalProblem) -> Array:
    """Return u (n, r) with the mean eigenvalue of V in place of V."""
    T = samples.basis
    loss = samples.loss
    v = np.trace(samples.V) / len(samples.V)
    own_f = loss.denoise(samples.omega @ T.T, samples.y, samples.weight * v, **loss.rough)[0]
    return np.asarray(samples.omega + samples.weight[:, None] * (own_f @ T) @ samples.V)


@dataclass
class SmoothRounds:
    """Proximal points of a smooth loss, by rounds over the samples that have not arrived.

    Attributes
    ----------
    samples : ProximalProblem
    start : array, shape (n, r)
    close : float
    u : array, shape (n, r)
        The points so far.
    left : array of int
        Rows that have not arrived.
    metric : array, shape (r, r)
        V⁻¹.
    """

    samples: ProximalProblem
    start: Array
    close: float
    u: Array = field(init=False)
    left: Labels = field(init=False)
    metric: Array = field(init=False)

    def __post_init__(self) -> None:
        self.u = self.start.copy()
        self.left = np.arange(len(self.start))
        self.metric = np.asarray(np.linalg.inv(self.samples.V))

    def run(self) -> MatrixPull:
        """Return the pull at points that have arrived, or as far as they came."""
        diagonal = diagonal_metric_near(self.samples.V)
        if self.samples.loss.relaxed is not None and diagonal is not None:
            for _ in range(MAX_DIAGONAL_ROUNDS):
                self.round_in_diagonal_metric(diagonal)
                if not len(self.left):
                    break
            self.u[self.left] = self.start[self.left]
        for _ in range(MAX_NEWTON_ROUNDS):
            if not len(self.left):
                break
            self.newton_round()
        return MatrixPull(self.u, self.samples.pull_at(self.u))

    @property
    def rows(self) -> Rows:
        """The rows that have not arrived, as a slice where these are all."""
        if len(self.left) == len(self.u):
            return slice(None)
        return self.left

    def round_in_diagonal_metric(self, diagonal: Array) -> None:
        """Move by −(I + cDH)⁻¹(u − ω − b − Vf) with D = diag(diagonal (k,)) in place of V."""
        T = self.samples.basis
        rows = self.rows
        y = self.samples.y[rows]
        weight = self.samples.weight[rows, None]
        gradient = self.samples.loss.gradient(self.u[rows] @ T.T, y)
        excess = self.u[rows] - self.samples.omega[rows] + weight * (gradient @ T) @ self.samples.V
        relaxed = self.samples.loss.relaxed
        assert relaxed is not None
        self.move(rows, relaxed(gradient, y, weight * diagonal, excess @ T.T) @ T)

    def newton_round(self) -> None:
        """Move by −(I + cVH)⁻¹(u − ω − b − Vf), halved where this raises the energy."""
        samples = self.samples
        T = samples.basis
        rows = self.rows
        here = self.u[rows]
        y = samples.y[rows]
        weight = samples.weight[rows, None]
        gradient = samples.loss.gradient(here @ T.T, y)
        excess = here - samples.omega[rows] + weight * (gradient @ T) @ samples.V
        H = weight[:, :, None] * curvature(samples.loss, here @ T.T, y)
        A = np.eye(here.shape[1]) + samples.V @ H
        step = np.asarray(np.linalg.solve(A, excess[:, :, None])[:, :, 0], dtype=float)
        before = self.energy(here, rows)
        for _ in range(MAX_HALVINGS):
            allowed = before + ENERGY_ROUNDING * (1 + np.abs(before))
            poor = ~(self.energy(here - step, rows) <= allowed)
            if not poor.any():
                break
            step[poor] /= 2
        self.move(rows, step)

    def energy(self, u: Array, rows: Rows) -> Array:
        """Return what a proximal point minimises, at points u of `rows`, shape (rows,)."""
        samples = self.samples
        away = u - samples.omega[rows]
        cost = samples.weight[rows] * samples.loss.value(u @ samples.basis.T, samples.y[rows])
        return np.asarray(0.5 * ((away @ self.metric) * away).sum(1) + cost)

    def move(self, rows: Rows, step: Array) -> None:
        """Subtract a step from the points of `rows`, and leave those out that hardly moved."""
        self.u[rows] = self.u[rows] - step
        arrived = _largest_in_row(step) <= self.close * (1 + _largest_in_row(self.u[rows]))
        self.left = self.left[~arrived]


def _largest_in_row(values: Array) -> Array:
    """Return max_j |values_ij| (n,): for few columns faster than `max(axis=1)`."""
    return np.asarray(reduce(np.maximum, np.abs(values).T))


def diagonal_metric_near(V: Array) -> Array | None:
    """Return v (k,) with Tᵀdiag(v)T close to V (r, r), None where no such v is close enough."""
    k = len(V) + 1
    T = difference_basis(k)
    v = (np.diag(T @ V @ T.T) - np.trace(V) / (k * (k - 1))) / (1 - 2 / k)
    if v.min() <= 0:
        return None
    ratio = np.linalg.eigvals(np.linalg.solve((T.T * v) @ T, V)).real
    if ratio.max() >= LARGEST_RATIO_OF_METRICS * ratio.min():
        return None
    return np.asarray(v * (ratio.min() + ratio.max()) / 2)


def curvature(loss: Loss, fields: Array, y: Labels) -> Array:
    """Return Tᵀ∇²ℓ T (n, r, r) at fields (n, k), as two products of large matrices."""
    k = fields.shape[1]
    r = k - 1
    T = difference_basis(k)
    right = loss.hessian(fields, y).reshape(-1, k) @ T
    transposed = right.reshape(-1, k, r).swapaxes(1, 2)
    return np.asarray((transposed.reshape(-1, k) @ T).reshape(-1, r, r))


def matrix_stiffness(
    loss: Loss, omega: Array, y: Labels, V: Array, weight: Array, pull: MatrixPull
) -> Array:
    """Return −∂f (n, r, r) of a smooth loss or of hard margins; of any loss for two classes.

    Parameters
    ----------
    loss, omega, y, V, weight
        As in `matrix_pull`.
    pull : MatrixPull
        Its result.
    """
    r = omega.shape[1]
    T = difference_basis(r + 1)
    if r == 1:
        trace = loss.denoise(omega @ T.T, y, weight * V[0, 0])[1]
        return np.asarray((weight * trace)[:, None, None])
    if loss.scale_free:
        return _stiffness_of_hard_margins(y, V, pull.f)
    H = weight[:, None, None] * curvature(loss, pull.point @ T.T, y)
    D = np.linalg.solve(np.eye(r) + H @ V, H)
    return np.asarray((D + D.swapaxes(1, 2)) / 2)


def _stiffness_of_hard_margins(y: Labels, V: Array, f: Array) -> Array:
    """Return −∂f = A_bᵀ(A_bVA_bᵀ)⁻¹A_b (n, r, r), where f = Aᵀν and A_b are the rows that bind."""
    r = f.shape[1]
    D = np.zeros((len(f), r, r))
    for label in np.unique(y):
        rows = y == label
        A = class_gaps(r + 1, int(label))
        binds = f[rows] @ np.linalg.inv(A) > LEAST_BINDING_FORCE
        both_bind = binds[:, :, None] & binds[:, None, :]
        inner = np.linalg.inv(np.where(both_bind, A @ V @ A.T, np.eye(r)))
        D[rows] = A.T @ np.where(both_bind, inner, 0.0) @ A
    return D


def _accelerated_gradient(samples: ProximalProblem, start: Array | None) -> MatrixPull:
    """Return the pull of a loss with kinks: h ← prox of vcℓ at h − vV⁻¹(h − ω), with momentum."""
    omega = samples.omega
    T = samples.basis
    metric = np.linalg.inv(samples.V)
    eigenvalues = np.linalg.eigvalsh(samples.V)
    v = float(eigenvalues[0])
    ratio = math.sqrt(v / float(eigenvalues[-1]))
    momentum = (1 - ratio) / (1 + ratio)
    u = omega
    close = GRADIENT_ACCURACY
    if start is not None:
        u = start
        close = GRADIENT_ACCURACY_NEARBY
    ahead = u
    for _ in range(MAX_GRADIENT_ROUNDS):
        forward = ahead - v * ((ahead - omega) @ metric)
        new = samples.loss.prox(forward @ T.T, samples.y, v * samples.weight) @ T
        step = new - u
        u = new
        ahead = new + momentum * step
        if np.abs(step).max() <= close * (1 + np.abs(u).max()):
            break
    return MatrixPull(u, (u - omega) @ metric)
