"""The proximal map of a loss in the metric of a matrix V, on class differences.

    h = argmin (h − ω)ᵀV⁻¹(h − ω)/2 + c ℓ(T(h + b), y),     f = V⁻¹(h − ω) = −c Tᵀ∇ℓ
    −∂f = (V + (cH)⁻¹)⁻¹ = (I + cHV)⁻¹ cH,                   H = Tᵀ∇²ℓ T

A smooth loss: chords, u ← u − (I + cVH)⁻¹(u − ω − b − Vf), for all samples at once, with matrices
at the proximal point of the mean of V or of a law near by; then Newton's method where they do not
arrive. A loss with kinks: its own proximal map at the least eigenvalue v of V, alternating with
steps along V⁻¹(h − ω) (accelerated proximal gradient).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyceptron.model.checks import difference_basis
from polyceptron.model.losses import Loss
from polyceptron.numerics import Array

Labels = NDArray[np.int64]
_CLOSE, _NEAR = 1e-8, 1e-5  # of the last step, relative to the fields; near a law, while it moves
_SHORT = 1e-3  # a step that cannot overshoot
_CHORDS = 10
_FINE, _MOST = (1e-10, 1e-7), 3000  # of a proximal gradient's steps: the same, and how many
_PUSHES = 1e-7  # a force that is not rounding


class MatrixPull(NamedTuple):
    """u = h + b (n, r), f (n, r), and (I + cVH)⁻¹ (n, r, r) near there, of a smooth loss."""

    point: Array
    f: Array
    inverse: Any = None


def matrix_pull(
    loss: Loss,
    omega: Array,
    y: Labels,
    V: Array,
    weight: Array,
    start: Array | None = None,
    inverse: Any = None,
) -> MatrixPull:
    """At ω + b (n, r), y (n,), V (r, r), class weights (n,).

    `start` (n, r) and `inverse` are those of a law near by; the latter is updated.
    """
    if loss.coordinates.jumps:
        return _kinked_pull(loss, omega, y, V, weight, start)
    n, r = omega.shape
    T, metric = difference_basis(r + 1), np.linalg.inv(V)
    if r == 1:  # V is a number, as the loss's own map knows it
        f = weight[:, None] * (loss.denoise(omega @ T.T, y, weight * V[0, 0])[0] @ T)
        return MatrixPull(omega + f * V[0, 0], f)

    def energy(u: Array, rows: Any) -> Array:
        away = u - omega[rows]
        value = weight[rows] * loss.value(u @ T.T, y[rows])
        return np.asarray(0.5 * ((away @ metric) * away).sum(1) + value)

    def slope(u: Array, rows: Any) -> Array:
        pull = weight[rows, None] * (loss.gradient(u @ T.T, y[rows]) @ T)
        return np.asarray(u - omega[rows] + pull @ V)

    if start is None:
        prox = loss.prox(omega @ T.T, y, weight * (np.trace(V) / r))
        start = omega - weight[:, None] * (loss.gradient(prox, y) @ T) @ V

    def inverse_at(u: Array, rows: Any) -> Array:
        H = weight[rows, None, None] * curvature(loss, u @ T.T, y[rows])
        return np.linalg.inv((np.eye(r) + V @ H).astype(np.float32))  # it only shows the way

    u, open_, close = start.copy(), np.arange(n), _NEAR if inverse is not None else _CLOSE
    if inverse is None:
        inverse = inverse_at(u, slice(None))
    for _ in range(_CHORDS):
        step = (inverse @ slope(u, slice(None))[:, :, None].astype(np.float32))[:, :, 0]
        u -= step
        open_ = np.flatnonzero(_moved(step, u, close))
        if not len(open_):
            break
    u[open_] = start[open_]
    for _ in range(100 if len(open_) else 0):
        here = u[open_]
        inverse[open_] = inverse_at(here, open_)
        step = (inverse[open_] @ slope(here, open_)[:, :, None])[:, :, 0]
        trial, scale, long = here - step, np.ones(len(here)), np.abs(step).max() > _SHORT
        before = energy(here, open_) if long else scale
        for _ in range(50 if long else 0):  # a step that raises the energy is halved
            poor = ~(energy(trial, open_) <= before + 1e-12 * (1 + np.abs(before)))
            if not poor.any():
                break
            scale[poor] /= 2
            trial[poor] = here[poor] - scale[poor, None] * step[poor]
        u[open_] = trial
        open_ = open_[_moved(step, trial, close)]
        if not len(open_):
            break
    f = -weight[:, None] * (loss.gradient(u @ T.T, y) @ T)
    return MatrixPull(u, f, inverse)


def _moved(step: Array, to: Array, close: float) -> NDArray[np.bool_]:
    """Samples (n,) whose last step was not short."""
    return np.asarray(~(np.abs(step).max(1) <= close * (1 + np.abs(to).max(1))))


def curvature(loss: Loss, fields: Array, y: Labels) -> Array:
    """Tᵀ∇²ℓ T (n, r, r) at fields (n, k), as two products of large matrices."""
    T = difference_basis(fields.shape[1])
    right = loss.hessian(fields, y).reshape(-1, len(T)) @ T
    half = right.reshape(-1, *T.shape).swapaxes(1, 2).reshape(-1, len(T)) @ T
    return np.asarray(half.reshape(-1, T.shape[1], T.shape[1]))


def matrix_stiffness(
    loss: Loss, omega: Array, y: Labels, V: Array, weight: Array, pull: MatrixPull
) -> Array:
    """−∂f (n, r, r) of a smooth loss or of hard margins; of any loss for two classes."""
    r = omega.shape[1]
    T = difference_basis(r + 1)
    if r == 1:
        trace = loss.denoise(omega @ T.T, y, weight * V[0, 0])[1]
        return np.asarray((weight * trace)[:, None, None])
    if not loss.scale_free:
        H = weight[:, None, None] * curvature(loss, pull.point @ T.T, y)
        D = np.linalg.solve(np.eye(r) + H @ V, H)
        return np.asarray((D + D.swapaxes(1, 2)) / 2)
    D = np.zeros((len(omega), r, r))
    for label in np.unique(y):  # f = Aᵀν, with (AVAᵀ)⁻¹ on the constraints that push
        rows, A = y == label, T[label] - np.delete(T, label, 0)
        pushes = pull.f[rows] @ np.linalg.inv(A) > _PUSHES
        both = pushes[:, :, None] & pushes[:, None, :]
        inner = np.linalg.inv(np.where(both, A @ V @ A.T, np.eye(r)))
        D[rows] = A.T @ np.where(both, inner, 0.0) @ A
    return D


def _kinked_pull(
    loss: Loss, omega: Array, y: Labels, V: Array, weight: Array, start: Array | None
) -> MatrixPull:
    """h ← prox of vcℓ at h − vV⁻¹(h − ω), with momentum."""
    T, metric = difference_basis(omega.shape[1] + 1), np.linalg.inv(V)
    values = np.linalg.eigvalsh(V)
    v, ratio = float(values[0]), math.sqrt(float(values[0] / values[-1]))
    momentum = (1 - ratio) / (1 + ratio)
    u = ahead = omega if start is None else start
    close = _FINE[start is not None]
    for _ in range(_MOST):
        at = ahead - v * ((ahead - omega) @ metric)
        new = loss.prox(at @ T.T, y, v * weight) @ T
        step = new - u
        u, ahead = new, new + momentum * step
        if np.abs(step).max() <= close * (1 + np.abs(u).max()):
            break
    return MatrixPull(u, (u - omega) @ metric)
