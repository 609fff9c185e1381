"""The proximal map of the softmax cross-entropy, one unknown a sample.

With p = softmax(prox) the stationarity conditions z_h + V p_h = ω_h (h ≠ y) and
z_y = ω_y + V(1 − p_y) leave one unknown, u = logit(1 − p_y): the normaliser is
L = ω_y + Vσ(u) + ln(1 + e^u), the other probabilities solve p_h exp(V p_h) = exp(ω_h − L), that is
p_h = W(V exp(ω_h − L))/V with Lambert's W, and Σ_{h≠y} p_h = σ(u) fixes u. The left side falls and
the right side grows with u, and u lies between the two-class solution and its value at V = 0, so
Newton with that bracket always arrives; working with ln p_h nothing overflows or cancels.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, wrightomega

from polyceptron.numerics import Array

Labels = NDArray[np.int64]


def softmax_prox(omega: Array, y: Labels, V: Array) -> tuple[Array, Array]:
    """f = e_y − softmax(prox), shape (n, k), and −tr_⊥ ∂f, shape (n,), in O(k) a sample."""
    n, k = omega.shape
    order = np.arange(k - 1)
    others = order + (order >= y[:, None])
    gap = np.take_along_axis(omega, others, 1) - np.take_along_axis(omega, y[:, None], 1)
    log_p, u = solve_softmax(gap, V)
    p = np.exp(log_p)
    error = expit(u)  # 1 − p_y
    f = np.empty((n, k))
    np.put_along_axis(f, others, -p, 1)
    np.put_along_axis(f, y[:, None], error[:, None], 1)
    return f, softmax_curvature(p, expit(-u), V)


def softmax_curvature(p: Array, p_y: Array, V: Array) -> Array:
    """tr_⊥ H(I + VH)⁻¹ for H = diag(p) − ppᵀ, from p of the competitors (n, k−1) and of y (n,).

    With a_h = p_h/(1 + V p_h) it is (S² − Σa²)/S, S = Σa: Sherman–Morrison, without cancellation.
    """
    a = np.concatenate([p_y[:, None], p], axis=1)
    a /= 1 + V[:, None] * a
    top = a.max(1)
    np.put_along_axis(a, a.argmax(1)[:, None], 0.0, 1)
    rest = a.sum(1)
    pairs = rest**2 - np.einsum("nh,nh->n", a, a)
    return np.asarray((2 * top * rest + pairs) / (top + rest))


def solve_softmax(gap: Array, V: Array, max_iter: int = 100) -> tuple[Array, Array]:
    """ln p_h of the competitors (n, k−1) and u = logit(1 − p_y) (n,), from ω_h − ω_y and V > 0."""
    log_V = np.log(V)
    peak = gap.max(1)
    high = peak + np.log(np.exp(gap - peak[:, None]).sum(1))  # u at V = 0
    u = two_class_start(high, V)
    low = np.minimum(high - 2 * V, u) - 1.0
    high = high + 1e-12 * (1 + np.abs(high))
    u = np.clip(u, low, high)
    for _ in range(max_iter):
        e = expit(u)
        softplus = np.logaddexp(0.0, u)
        x = gap - (V * e + softplus - log_V)[:, None]
        w = np.real(wrightomega(x))  # V p_h
        # ln w = x − w exactly; each form is used where it does not cancel or underflow.
        log_p = np.where(w > 0.5, np.log(np.maximum(w, 0.5)), x - w) - log_V[:, None]
        top = log_p.max(1)
        scaled = np.exp(log_p - top[:, None])
        total = scaled.sum(1)
        residual = top + np.log(total) + (softplus - u)  # ln Σp − ln σ(u), falls with u
        low = np.where(residual > 0, np.maximum(low, u), low)
        high = np.where(residual < 0, np.minimum(high, u), high)
        flexible = (scaled / (1 + w)).sum(1) / total
        step = residual / (flexible * e * (V * (1 - e) + 1) + (1 - e))
        new = u + step
        outside = (new < low) | (new > high)
        new = np.where(outside, (low + high) / 2, new)
        done = (np.abs(step) <= 1e-12 * (1 + np.abs(u))) | (high - low <= 1e-15 * np.abs(u))
        u = new
        if done.all():
            break
    log_p = log_p - (flexible * (V * e * (1 - e) + e) * step)[:, None] / (1 + w)
    return np.minimum(log_p, 0.0), u


def two_class_start(u0: Array, V: Array) -> Array:
    """About the root of u + 2Vσ(u) = u₀, from σ(u) ≈ e^u below 0 and 1 − e^{−u} above."""
    two = 2 * V
    below = u0 <= V
    x = np.where(below, u0, two - u0)
    root = x - np.real(wrightomega(x + np.log(two)))
    return np.asarray(np.where(below, root, -root))


def two_class_root(u0: Array, V: Array) -> Array:
    """The root of u + 2Vσ(u) = u₀, elementwise: the two-class proximal point of cross-entropy."""
    u = two_class_start(u0, V)
    two = 2 * V
    for _ in range(30):
        e = expit(u)
        step = (u + two * e - u0) / (1 + two * e * (1 - e))
        # σ bends at 0: a step across it may overshoot, so it stops there first.
        u = np.where(
            (u < 0) & (u - step > 1), 0.0, np.where((u > 0) & (u - step < -1), 0.0, u - step)
        )
        if np.max(np.abs(step) / (1 + np.abs(u)), initial=0.0) < 1e-8:
            break
    return u
