"""The proximal map of a loss in the metric of a matrix V, on class differences.

    h = argmin (h − ω)ᵀV⁻¹(h − ω)/2 + c ℓ(T(h + b), y),     f = V⁻¹(h − ω) = −c Tᵀ∇ℓ
    −∂f = (V + (cH)⁻¹)⁻¹ = (I + cHV)⁻¹ cH,                   H = Tᵀ∇²ℓ T

A smooth loss: Newton's method for all samples at once, from the proximal point of the mean of V or
from one near by. The hard margin: h_y − h_j ≥ κ for all j are r constraints A(h + b) ≥ κ, and with
those that act, f = Aᵀν, ν = (AVAᵀ)⁻¹(κ − A(ω + b)) ≥ 0: the active set is found by exchanging all
constraints of the wrong sign, and one at a time where that goes round in circles.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyceptron.model.checks import difference_basis
from polyceptron.model.losses import Loss
from polyceptron.numerics import Array

Labels = NDArray[np.int64]
_CLOSE = 1e-5  # of the last step, relative to the fields: what is left is of its square
_SHORT = 1e-3  # a step that cannot overshoot
_AT_ONCE = 30  # exchanges of all constraints, before one at a time


class MatrixPull(NamedTuple):
    """u = h + b (n, r), f (n, r) and −∂f (n, r, r)."""

    point: Array
    f: Array
    stiffness: Array


def matrix_pull(
    loss: Loss, omega: Array, y: Labels, V: Array, weight: Array, start: Array | None = None
) -> MatrixPull:
    """At ω + b (n, r), y (n,), V (r, r), class weights (n,); `start` (n, r) is a point near."""
    if loss.scale_free:
        return _margin_pull(float(loss.margin_floor or 0.0), omega, y, V)
    r = omega.shape[1]
    T = difference_basis(r + 1)
    if r == 1:  # V is a number, as the loss's own map knows it
        pull, trace = loss.denoise(omega @ T.T, y, weight * V[0, 0])
        f = weight[:, None] * (pull @ T)
        return MatrixPull(omega + f * V[0, 0], f, (weight * trace)[:, None, None])

    def energy(u: Array, at: Array, y: Labels, c: Array) -> Array:
        away = u - at
        return np.asarray(0.5 * ((away @ inverse) * away).sum(1) + c * loss.value(u @ T.T, y))

    inverse = np.linalg.inv(V)
    if start is None:
        level = weight * (np.trace(V) / r)
        prox = loss.prox(omega @ T.T, y, level)
        start = omega - weight[:, None] * (loss.gradient(prox, y) @ T) @ V
    u = start.copy()
    open_ = np.arange(len(u))
    for _ in range(100):
        at, labels, c = omega[open_], y[open_], weight[open_]
        here = u[open_]
        fields = here @ T.T
        slope = (here - at) + c[:, None] * (loss.gradient(fields, labels) @ T) @ V
        H = c[:, None, None] * curvature(loss, fields, labels)
        step = solve_each(np.eye(r) + V @ H, slope)
        trial, scale, long = here - step, np.ones(len(here)), np.abs(step).max() > _SHORT
        before = energy(here, at, labels, c) if long else scale
        for _ in range(50 if long else 0):  # a step that raises the energy is halved
            poor = ~(energy(trial, at, labels, c) <= before + 1e-12 * (1 + np.abs(before)))
            if not poor.any():
                break
            scale[poor] /= 2
            trial[poor] = here[poor] - scale[poor, None] * step[poor]
        u[open_] = trial
        moved = np.abs(step).max(1) > _CLOSE * (1 + np.abs(trial).max(1))
        open_ = open_[moved]
        if not len(open_):
            break
    fields = u @ T.T
    f = -weight[:, None] * (loss.gradient(fields, y) @ T)
    H = weight[:, None, None] * curvature(loss, fields, y)
    D = solve_each(np.eye(r) + H @ V, H)
    return MatrixPull(u, f, (D + D.swapaxes(1, 2)) / 2)


def curvature(loss: Loss, fields: Array, y: Labels) -> Array:
    """Tᵀ∇²ℓ T (n, r, r) at fields (n, k), as two products of large matrices."""
    T = difference_basis(fields.shape[1])
    right = loss.hessian(fields, y).reshape(-1, len(T)) @ T
    half = right.reshape(-1, *T.shape).swapaxes(1, 2).reshape(-1, len(T)) @ T
    return np.asarray(half.reshape(-1, T.shape[1], T.shape[1]))


def solve_each(A: Array, B: Array) -> Array:
    """A⁻¹B for each sample, A (n, r, r), B (n, r) or (n, r, r)."""
    if A.shape[-1] == 1:
        return B / (A[..., 0] if B.ndim == 2 else A)
    if A.shape[-1] == 2:
        (a, b), (c, d) = A.transpose(1, 2, 0)
        top, low = np.moveaxis(B, 0, -1)
        det = a * d - b * c
        both = np.stack([(d * top - b * low) / det, (a * low - c * top) / det])
        return np.moveaxis(both, -1, 0)
    if B.ndim == 2:
        return np.asarray(np.linalg.solve(A, B[..., None])[..., 0])
    return np.asarray(np.linalg.solve(A, B))


def _margin_pull(margin: float, omega: Array, y: Labels, V: Array) -> MatrixPull:
    """The projection on {A_y u ≥ κ} in the metric of V⁻¹."""
    n, r = omega.shape
    T = difference_basis(r + 1)
    u, f, D = omega.copy(), np.zeros((n, r)), np.zeros((n, r, r))
    for label in np.unique(y):
        rows = np.flatnonzero(y == label)
        A = T[label] - np.delete(T, label, 0)
        K = A @ V @ A.T
        need = margin - omega[rows] @ A.T
        rows, need = rows[(need > 0).any(1)], need[(need > 0).any(1)]
        active, nu = _active(K, need)
        f[rows] = nu @ A
        u[rows] = omega[rows] + f[rows] @ V
        D[rows] = A.T @ _masked_inverse(K, active) @ A
    return MatrixPull(u, f, D)


def _masked_inverse(K: Array, active: NDArray[np.bool_]) -> Array:
    """(n, r, r): the inverse of K on the active rows, 0 elsewhere."""
    both = active[:, :, None] & active[:, None, :]
    M = np.where(both, K, np.eye(len(K)))
    return np.where(both, np.linalg.inv(M), 0.0)


def _active(K: Array, need: Array) -> tuple[NDArray[np.bool_], Array]:
    """The active set (n, r) and ν ≥ 0 (n, r) with Kν − need ≥ 0 and ν(Kν − need) = 0."""
    n, r = need.shape
    active, nu = need > 0, np.zeros((n, r))
    open_ = np.arange(n)
    for round_ in range(_AT_ONCE + 50 * r):
        set_ = active[open_]
        found = np.einsum("nij,nj->ni", _masked_inverse(K, set_), need[open_])
        slack = found @ K - need[open_]
        wrong = np.where(set_, found < 0, slack < -1e-12 * (1 + np.abs(need[open_])))
        nu[open_] = np.maximum(found, 0.0)
        if round_ >= _AT_ONCE:  # the last one alone: Murty's rule ends for every positive K
            last = r - 1 - wrong[:, ::-1].argmax(1)
            wrong &= np.arange(r) == last[:, None]
        active[open_] ^= wrong
        open_ = open_[wrong.any(1)]
        if not len(open_):
            break
    return active, nu
