"""Gauss–Legendre nodes in boxes that are halved until a function is smooth on each.

One or two dimensions. A box is fine when the last two Legendre coefficients along each of its axes
are small against the function's integral; it is halved along those axes where they are not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from polyceptron.numerics import Array
from polyceptron.numerics.panels import legendre_rule

_LIMIT = 200_000  # nodes


def smooth_boxes(
    function: Callable[[Array], Array],
    ends: Sequence[Array],
    *,
    tol: float,
    order: int = 8,
    rounds: int = 16,
) -> tuple[Array, Array, Array]:
    """Nodes (n, r), weights (n,) and values (c, n) of `function` between the first and last ends.

    `function` takes (n, r) and returns (c, n); `ends` are sorted break points along each axis, at
    which it may have kinks and jumps. `tol` is relative to the integrals of |function|.

    >>> ends = [np.array([-8.3, -3.0, 0.0, 3.0, 8.3])] * 2
    >>> x, w, values = smooth_boxes(lambda x: np.exp(-(x**2).sum(1) / 2)[None], ends, tol=1e-9)
    >>> bool(abs(w @ values[0] / (2 * np.pi) - 1) < 1e-9)
    True
    """
    dimension = len(ends)
    grid = np.meshgrid(*[np.arange(len(e) - 1) for e in ends], indexing="ij")
    place = [g.ravel() for g in grid]
    low = np.stack([e[i] for e, i in zip(ends, place, strict=True)], 1)
    width = np.stack([e[i + 1] for e, i in zip(ends, place, strict=True)], 1) - low
    t, w = legendre_rule(order)
    unit = np.stack([g.ravel() for g in np.meshgrid(*[t] * dimension, indexing="ij")], 1)
    weight = np.prod(np.meshgrid(*[w] * dimension, indexing="ij"), 0).ravel()
    basis = np.linalg.inv(np.polynomial.legendre.legvander(2 * t - 1, order - 1))[-2:]
    nodes, weights, found, total, size = [], [], [], 0, None
    for round_ in range(rounds):
        x = low[:, None] + width[:, None] * unit
        values = function(x.reshape(-1, dimension))
        volume = width.prod(1)
        if size is None:
            size = np.abs(values) @ (volume[:, None] * weight).ravel()
        values = values.reshape(len(values), len(low), *[order] * dimension)
        scale = np.maximum(tol * size, 1e-300)[:, None] / np.maximum(volume, 1e-300)
        rough = np.stack(
            [
                (np.abs(np.tensordot(values, basis, (axis + 2, 1))).reshape(len(size), len(low), -1)
                 .max(2) > scale).any(0)
                for axis in range(dimension)
            ], 1,
        )  # fmt: skip
        full = total + 2 * rough.any(1).sum() * len(unit) > _LIMIT
        done = np.full(len(low), True) if full or round_ == rounds - 1 else ~rough.any(1)
        nodes.append(x[done].reshape(-1, dimension))
        weights.append((volume[done, None] * weight).ravel())
        found.append(values[:, done].reshape(len(values), -1))
        total += len(nodes[-1])
        low, width, rough = low[~done], width[~done], rough[~done]
        for axis in range(dimension):
            split = rough[:, axis]
            half = width[split].copy()
            half[:, axis] /= 2
            upper = low[split].copy()
            upper[:, axis] += half[:, axis]
            width[split] = half
            low, width = np.concatenate([low, upper]), np.concatenate([width, half])
            rough = np.concatenate([rough, rough[split]])
        if not len(low):
            break
    return np.concatenate(nodes), np.concatenate(weights), np.concatenate(found, 1)
