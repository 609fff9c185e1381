"""Transitions of sampled curves at a known location, with many more points than a whole curve.

Around √q̂ = x a few Chebyshev nodes are enough: α(q̂) there is a smooth function of a narrow range.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev as C
from numpy.typing import NDArray

from polyceptron.model import AnyTeacher
from polyceptron.numerics.estimate import from_replicates, student_quantile
from polyceptron.theory.bayes_optimal.channel_table import channel_table
from polyceptron.theory.effort import first_effort
from polyceptron.theory.fields.information import Moments, channel_moments
from polyceptron.theory.weights.entropy import row_entropy
from polyceptron.theory.weights.posterior import residual_variance

Array = NDArray[Any]
_HALF = 0.12  # the range of ln √q̂ on each side
_NODES = np.cos(np.pi * (np.arange(5) + 0.5) / 5)  # Chebyshev points of the first kind
_TABLE_STEP = 1e-7  # relative, what the winner's table of a sampled channel leaves


def fine_fold(
    teacher: AnyTeacher, x: float, level: int, *, last_try: bool = False
) -> tuple[float, float, float]:
    """max α around √q̂ = x, its uncertainty, and where it is.

    The mean over replicates is taken before the maximum. The jackknife measures what bias is left
    (it is the curvature's share of the noise of the slope) and the spread.
    """
    log_x = math.log(x) + _HALF * _NODES
    q_hat = np.exp(2 * log_x)
    v = residual_variance(teacher, q_hat, level)  # (5, R)
    log_v = np.log(v.mean(1))
    middle, half = 0.5 * (log_v.max() + log_v.min()), 0.5 * (log_v.max() - log_v.min())
    nodes = np.exp(middle + half * _NODES)
    information = _moments(teacher, nodes, level).information
    R = max(v.shape[1], information.shape[1])
    v, information = (np.broadcast_to(part, (5, R)) for part in (v, information))

    def peak(keep: Array) -> tuple[float, float]:
        """max α of the mean over the kept replicates, and ln x there."""
        fit = C.chebfit(_NODES, np.log(information[:, keep].mean(1)), 4)
        here = np.log(v[:, keep].mean(1))
        log_alpha = 2 * log_x - C.chebval((here - middle) / half, fit)
        return _maximum(C.chebfit(_NODES, log_alpha, 4))

    every = np.arange(R)
    top, place = peak(every)
    if abs(place) > 0.9 and not last_try:  # x was not where the fold is
        return fine_fold(teacher, x * math.exp(_HALF * place), level, last_try=True)
    left_out = np.array([peak(np.delete(every, i))[0] for i in range(R)])
    bias = (R - 1) * (left_out.mean() - top)
    spread = math.sqrt((R - 1) / R * float(((left_out - left_out.mean()) ** 2).sum()))
    uncertainty = student_quantile(R) * spread + abs(bias) + _rest(teacher) * top
    return float(top - bias), float(uncertainty), x * math.exp(_HALF * place)


def _moments(teacher: AnyTeacher, v: Array, level: int) -> Moments:
    """I and the excess at v (p,): the channel's table where it is exact, else sampled here."""
    k = teacher.n_classes
    table = channel_table(teacher.channel, k, first_effort(teacher))
    if table.n_replicates:
        return channel_moments(teacher.channel, 1 - v, v, k, level)
    information, entropy = table(v, np.zeros(v.shape, dtype=np.int64))
    return Moments(information[:, None], (entropy - table.known_entropy)[:, None])


def _rest(teacher: AnyTeacher) -> float:
    """Relative error of the channel's moments, sampling apart."""
    return (
        _TABLE_STEP + channel_table(teacher.channel, teacher.n_classes, first_effort(teacher)).error
    )


def _maximum(log_alpha: Array) -> tuple[float, float]:
    """The maximum of exp of a Chebyshev series on [−1, 1], and where it is."""
    roots = C.chebroots(C.chebder(log_alpha))
    inside = [r.real for r in roots if abs(r.imag) < 1e-9 and abs(r.real) <= 1]
    places = np.array([-1.0, 1.0, *inside])
    values = C.chebval(places, log_alpha)
    best = int(values.argmax())
    return math.exp(float(values[best])), float(places[best])


def fine_entropy(teacher: AnyTeacher, x: float, level: int) -> tuple[float, float, float]:
    """α_IT from Φ(q, q̂, α) = −H + αΨ₀ at fixed √q̂ = x and q = F(q̂), its uncertainty, and x.

    Φ is linear in α, and stationary in q and q̂ at a fixed point.
    """
    r = teacher.reduced_rank
    nodes, weights = np.polynomial.legendre.leggauss(10)
    roots = 0.5 * x * (nodes + 1)
    v = residual_variance(teacher, np.append(roots, x) ** 2, level)
    psi = -r * (0.5 * x * weights * roots) @ v[:-1]  # ψ(q̂) = −(r/2) ∫ v dq̂
    here = np.array([v[-1].mean()])
    excess = _moments(teacher, here, level).excess[0]
    energy = row_entropy(teacher) + 0.5 * r * x**2 * here[0] + psi
    value, uncertainty = from_replicates(-energy / excess)
    return float(value), float(uncertainty + _rest(teacher) * abs(value)), x
