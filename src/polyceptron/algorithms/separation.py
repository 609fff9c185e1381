"""Whether data can be separated by a linear rule, with a proof either way.

Small problems by a linear programme, max t with margins ≥ t and weights in [−1, 1]: t > 0
separates; else its dual is a ≥ 0 with Σa = 1. Large ones by the squared hinge with a penalty c,

    min_W ½‖W‖² + (c/2) Σ_{μ, h≠y} (1 − margin)₊²,     a = c (1 − margin)₊ ≥ 0,

that grows. It ends in one of two ways. All margins come out positive: W separates. Or the
multipliers a balance, R = Σ a x(e_y − e_h)ᵀ/√d → 0: since weights with all margins ≥ 1 would have
Σa ≤ ⟨W, R⟩, their norm is at least Σa/‖R‖. That is a proof for every W of smaller norm, and for all
where R = 0.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.optimize import linprog

from polyceptron.algorithms.data_checks import Labels, Samples, check_samples, in_units
from polyceptron.algorithms.erm.erm_fit import SeparabilityOfData
from polyceptron.algorithms.erm.newton import minimise
from polyceptron.algorithms.erm.objectives import ShiftedHinge
from polyceptron.numerics import Array

_SMALL = 1_000_000  # entries of the matrix of a linear programme
_PENALTIES = tuple(10.0**p for p in range(1, 13))


def is_separable(
    X: Any, y: Any, *, n_classes: int | None = None, tol: float = 1e-6
) -> SeparabilityOfData:
    """Whether some W has z_y > z_h for every sample and every h ≠ y, z = Wᵀx/√d.

    The answer is no once weights would have to separate by less than `tol` of the longest input.

    X (n, d) are inputs, y (n,) class indices below `n_classes`, by default those that occur.

    >>> is_separable([[1.0], [2.0], [-1.0]], [0, 0, 1]).separable
    True
    >>> is_separable([[1.0], [2.0], [-1.0]], [0, 1, 1]).separable
    False
    """
    samples, units = in_units(check_samples(X, y, n_classes))
    return _judged(samples, tol).in_units(units.p)


def _judged(samples: Samples, tol: float) -> SeparabilityOfData:
    """The answer for data in their own units."""
    (design, labels, k), n = samples, samples.y.size
    if n * design.dimension * (k - 1) ** 2 <= _SMALL:
        answer = _by_linear_programme(design.scaled_rows(slice(None)), labels, k, tol)
        if answer is not None:
            return answer
    U = np.zeros((k - 1, design.dimension))
    longest = math.sqrt(2) * float(design.row_norms.max())
    residual = least = math.nan
    multipliers = None
    for penalty in _PENALTIES:
        hinge = ShiftedHinge(labels, k, np.zeros((k, n)), penalty)
        found = minimise(design, hinge, np.ones(1), U[None], target=1e-10, max_iter=60)
        U = found.U[0]
        margins = hinge.margins(design.fields(U))
        margins[labels, np.arange(n)] = np.inf
        smallest = float(margins.min())
        if smallest > 0 and smallest > 1e-10 * longest * float(np.linalg.norm(U)):
            weights = (U.T @ hinge.basis.T) / smallest
            return SeparabilityOfData(True, weights, None, math.nan, math.nan)
        multipliers = hinge.push(hinge.margins(design.fields(U)))
        total = float(multipliers.sum())
        residual = float(np.linalg.norm(design.back(hinge.pull(multipliers)))) / total
        least = 1 / residual if residual > 0 else math.inf
        if residual <= tol * longest:
            return SeparabilityOfData(False, None, multipliers.T / total, residual, least)
    return SeparabilityOfData(None, None, None, residual, least)


def _by_linear_programme(fields: Array, y: Labels, k: int, tol: float) -> SeparabilityOfData | None:
    """The answer of a linear programme for rows x/√d; None where rounding leaves it open."""
    n, d = fields.shape
    pairs = np.array([(i, h) for i in range(n) for h in range(k) if h != y[i]])
    rows, row = np.zeros((len(pairs), k, d)), np.arange(len(pairs))
    rows[row, y[pairs[:, 0]]] = -fields[pairs[:, 0]]
    rows[row, pairs[:, 1]] = fields[pairs[:, 0]]
    # A shift of all classes changes nothing: the last one stays at 0.
    matrix = np.hstack([rows[:, :-1].reshape(len(pairs), -1), np.ones((len(pairs), 1))])
    cost = np.append(np.zeros(d * (k - 1)), -1.0)
    bounds = [(-1.0, 1.0)] * (d * (k - 1)) + [(None, None)]
    found = linprog(cost, A_ub=matrix, b_ub=np.zeros(len(pairs)), bounds=bounds, method="highs")
    if found.status != 0 or found.x is None:
        return None
    weights = np.zeros((d, k))
    weights[:, :-1] = found.x[:-1].reshape(k - 1, d).T
    weights -= weights.mean(1, keepdims=True)
    z = fields @ weights
    margins = z[np.arange(n), y][:, None] - z
    margins[np.arange(n), y] = np.inf
    smallest, longest = float(margins.min()), float(np.linalg.norm(fields, axis=1).max())
    if smallest > tol * longest * float(np.linalg.norm(weights)):
        return SeparabilityOfData(True, weights / smallest, None, math.nan, math.nan)
    a = np.zeros((n, k))
    a[pairs[:, 0], pairs[:, 1]] = np.maximum(-found.ineqlin.marginals, 0.0)
    a /= a.sum()
    signed = -a
    signed[np.arange(n), y] = a.sum(1)
    residual = float(np.linalg.norm(fields.T @ signed))
    if residual > tol * longest:
        return None
    least = 1 / residual if residual > 0 else math.inf
    return SeparabilityOfData(False, None, a, residual, least)
