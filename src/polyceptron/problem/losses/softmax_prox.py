"""The proximal point of cross-entropy.

With p = softmax(prox) the stationarity conditions z_h + V p_h = ω_h (h ≠ y) and
z_y = ω_y + V(1 − p_y) leave one unknown a sample, u = logit(1 − p_y): the normaliser is
L = ω_y + Vσ(u) + ln(1 + e^u), the other probabilities solve p_h exp(V p_h) = exp(ω_h − L), that is
p_h = W(V exp(ω_h − L))/V with Lambert's W, and Σ_{h≠y} p_h = σ(u) fixes u. The left side falls and
the right side grows with u, and u lies between the two-class solution and its value at V = 0, so
Newton with that bracket always arrives; working with ln p_h nothing overflows or cancels.

Two classes: u + 2Vσ(u) = u₀ with u₀ = ω_h − ω_y.
"""

import numpy as np
from scipy.special import expit, log_expit, wrightomega

from polyceptron.numerics import Array


def softmax_curvature(p: Array, p_y: Array, V: Array) -> Array:
    """Return tr_⊥ H(I + VH)⁻¹ (n,) for H = diag(p) − ppᵀ.

    From p of the competitors (n, k−1), p_y of the label (n,) and V (n,).

    With a_h = p_h/(1 + V p_h) it is (S² − Σa²)/S, S = Σa: Sherman–Morrison, without cancellation.
    """
    a = np.concatenate([p_y[:, None], p], axis=1)
    a /= 1 + V[:, None] * a
    largest = np.arange(len(a)), a.argmax(1)
    top = a[largest]
    a[largest] = 0.0
    rest = a @ np.ones(a.shape[1])
    pairs = rest**2 - np.einsum("nh,nh->n", a, a)
    return np.asarray((2 * top * rest + pairs) / (top + rest))


def solve_softmax(gap: Array, V: Array, rounds: int = 100) -> tuple[Array, Array]:
    """Solve for the proximal points of cross-entropy: one unknown u a sample (see the module).

    Parameters
    ----------
    gap : ndarray, shape (n, k−1)
        ω_h − ω_y of the competitors h.
    V : ndarray, shape (n,)
        Above 0.
    rounds : int
        At most so many Newton steps; few suffice where about the right point will do.

    Returns
    -------
    log_p : ndarray, shape (n, k−1)
        ln p_h of the competitors at the proximal point.
    u : ndarray, shape (n,)
        logit(1 − p_y).
    """
    if gap.shape[1] == 1:
        u = two_class_solution(gap[:, 0], V)
        return log_expit(u)[:, None], u
    log_V = np.log(V)
    peak = gap.max(1)
    high = peak + np.log(np.exp(gap - peak[:, None]).sum(1))  # u at V = 0
    u = two_class_start(high, V)
    low = np.minimum(high - 2 * V, u) - 1.0
    high = high + 1e-12 * (1 + np.abs(high))
    u = np.clip(u, low, high)
    for _ in range(rounds):
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
    """Return about the solution u of u + 2Vσ(u) = u₀, elementwise.

    From σ(u) ≈ e^u below 0 and 1 − e^{−u} above, where Lambert's W solves it.
    """
    two = 2 * V
    below = u0 <= V
    x = np.where(below, u0, two - u0)
    u = x - np.real(wrightomega(x + np.log(two)))
    return np.asarray(np.where(below, u, -u))


def two_class_solution(u0: Array, V: Array) -> Array:
    """Return the solution u of u + 2Vσ(u) = u₀, elementwise: the proximal point of two classes."""
    u = two_class_start(u0, V)
    two = 2 * V
    for _ in range(30):
        e = expit(u)
        step = (u + two * e - u0) / (1 + two * e * (1 - e))
        # σ bends at 0: a step across it may overshoot, so it stops there first.
        across = ((u < 0) & (u - step > 1)) | ((u > 0) & (u - step < -1))
        u = np.where(across, 0.0, u - step)
        if np.max(np.abs(step) / (1 + np.abs(u)), initial=0.0) < 1e-8:
            break
    return u


def proximal_gap(gap: Array, V: float) -> Array:
    """Return A with A − 2Vσ(−A) = a, the gap of the proximal point of two classes, elementwise."""
    return -two_class_solution(-gap, np.full(gap.shape, V))
