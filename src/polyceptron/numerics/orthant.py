"""The argmax channel seen through a Gaussian: orthant probabilities, scores and curvatures.

With fields z ~ N(ω, diag v), class l wins with probability Z_l(ω, v), an orthant probability in
k − 1 dimensions. k = 2 and 3 have closed forms (`orthant_closed`: relative errors of 1e-13); any
other k is one integral per sample (`orthant_quadrature`). Everything is done on ln Z, so scores and
curvatures stay finite however improbable the label. Arrays are float64 whatever comes in: they are
small against the data, and the tails need the digits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyceptron.numerics import Array
from polyceptron.numerics import orthant_closed as closed
from polyceptron.numerics import orthant_quadrature as quadrature
from polyceptron.numerics.orthant_quadrature import hermite_rule
from polyceptron.numerics.special import log_cdf_and_mills, mills_ratio, mills_slope
from polyceptron.numerics.threads import for_chunks

__all__ = [
    "Orthant",
    "argmax_diagonal",
    "argmax_hessian",
    "argmax_orthant",
    "hermite_rule",
    "log_cdf_and_mills",
    "mills_ratio",
    "mills_slope",
]

Labels = NDArray[np.int64]
_CHUNK_NUMBERS = 110_000  # numbers in each large array of a chunk: a megabyte
_CHUNK_ROWS = 16_384  # for the closed forms, which keep a dozen arrays of this length


class Orthant(NamedTuple):
    """ln Z_y (...), its gradient in ω (..., k), and −tr of its Hessian in ω (...)."""

    log_z: Array
    score: Array
    curvature: Array


def argmax_orthant(omega: Any, label: Any, variance: Any = 1.0, *, order: int = 20) -> Orthant:
    """ln Z_y, its score and curvature at means ω (..., k), labels (...) and variance v.

    `variance` is a scalar, an array (...) or one per class (..., k). `order` is the number of
    quadrature nodes for k ≥ 4: at k = 10 scores are good to 4 digits with 8, 6 with 16, 7 with 20
    and 11 with 32, in the worst place.

    >>> o = argmax_orthant([[0.0, 0.0, 0.0]], [1])
    >>> bool(abs(np.exp(o.log_z[0]) - 1 / 3) < 1e-15)
    True
    """
    omega, label, v, shape = _flat(omega, label, variance)
    n, k = omega.shape
    log_z, score, curvature = np.empty(n), np.empty((n, k)), np.empty(n)

    def work(rows: slice) -> None:
        if k <= 3:
            form = closed.per_class if v.ndim == 2 else closed.one_variance
            parts = form(omega[rows], label[rows], v if v.ndim == 0 else v[rows])
            log_z[rows], curvature[rows] = parts.log_z, closed.curvature(parts)
            score[rows] = closed.closed_score(parts, label[rows])
        else:
            nodes, unit = _integrate(omega[rows], label[rows], v, rows, order)
            competitors, winner = quadrature.curvature_terms(nodes)
            log_z[rows] = nodes.log_z
            score[rows] = quadrature.score(nodes, label[rows]) / unit[..., None]
            total = competitors.sum(-1) + winner
            if v.ndim < 2:  # no more than the Gaussian's own curvature, where rounding says so
                np.minimum(total, k - 1.0, out=total)
            curvature[rows] = total / unit**2

    for_chunks(work, n, _chunk(k, order))
    return Orthant(log_z.reshape(shape), score.reshape(*shape, k), curvature.reshape(shape))


def argmax_hessian(omega: Any, label: Any, variance: Any = 1.0, *, order: int = 20) -> Array:
    """∂²_ω ln Z_y, shape (..., k, k), with rows and columns that sum to zero."""
    omega, label, v, shape = _flat(omega, label, variance)
    n, k = omega.shape
    out = np.empty((n, k, k))

    def work(rows: slice) -> None:
        if k <= 3:
            form = closed.per_class if v.ndim == 2 else closed.one_variance
            parts = form(omega[rows], label[rows], v if v.ndim == 0 else v[rows])
            out[rows] = closed.closed_hessian(parts, label[rows])
        else:
            nodes, unit = _integrate(omega[rows], label[rows], v, rows, order)
            out[rows] = quadrature.hessian(nodes, label[rows]) / unit[..., None, None] ** 2

    for_chunks(work, n, _chunk(k, order))
    return out.reshape(*shape, k, k)


def argmax_diagonal(
    omega: Any, label: Any, variance: Any = 1.0, *, order: int = 20
) -> tuple[Array, Array]:
    """The score (n, k) and the diagonal (n, k) of −∂²_ω ln Z_y, for k ≥ 4; as `argmax_orthant`."""
    omega, label, v, _ = _flat(omega, label, variance)
    n, k = omega.shape
    score, diagonal = np.empty((n, k)), np.empty((n, k))

    def work(rows: slice) -> None:
        y = label[rows]
        nodes, unit = _integrate(omega[rows], y, v, rows, order)
        competitors, winner = quadrature.curvature_terms(nodes)
        score[rows] = quadrature.score(nodes, y) / unit[..., None]
        np.put_along_axis(diagonal[rows], nodes.competitors, competitors, -1)
        np.put_along_axis(diagonal[rows], y[:, None], winner[:, None], -1)
        diagonal[rows] /= unit[..., None] ** 2

    for_chunks(work, n, _chunk(k, order))
    return score, diagonal


def _chunk(k: int, order: int) -> int:
    return _CHUNK_ROWS if k <= 3 else max(16, _CHUNK_NUMBERS // (order * (k - 1)))


def _flat(omega: Any, label: Any, variance: Any) -> tuple[Array, Labels, Array, tuple[int, ...]]:
    """ω (n, k), labels (n,), variance (), (n,) or (n, k), and the shape that n stands for."""
    omega = np.asarray(omega, dtype=float)
    shape, k = omega.shape[:-1], omega.shape[-1]
    label = np.broadcast_to(np.asarray(label, dtype=np.int64), shape).ravel()
    v = np.asarray(variance, dtype=float)
    if v.ndim and v.ndim == omega.ndim and v.shape[-1] == k:
        v = np.broadcast_to(v, omega.shape).reshape(-1, k)
    elif v.ndim:
        v = np.broadcast_to(v, shape).ravel()
    return omega.reshape(-1, k), label, v, shape


def _integrate(
    omega: Array, label: Labels, v: Array, rows: slice, order: int
) -> tuple[quadrature.Quadrature, Array]:
    """The rows' integrals and their unit of length: √v where all classes share it, else 1."""
    if v.ndim == 2:
        return quadrature.integrate(omega, label, np.sqrt(v[rows]), order), np.ones(())
    unit = np.sqrt(v if v.ndim == 0 else v[rows])
    return quadrature.integrate(omega / unit[..., None], label, None, order), unit
