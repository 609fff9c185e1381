"""Whether data can be separated by a linear rule, with a proof either way.

With J the constraints as rows, x̂(e_y − e_h)ᵀ for every sample x̂ = x/√d and every h ≠ y, the margins
of weights W are JW. Small problems are linear programmes over weights in [−1, 1]:

    max t,   JW ≥ t         t > 0 separates; else the dual is a ≥ 0 with Σa = 1 and Jᵀa = 0
    max ΣJW, JW ≥ 0         above 0, W is a direction in which the likelihood rises for ever
                            (quasi-separation); else the dual is b = 1 + a > 0 with Jᵀb = 0, and
                            every direction has a margin below 0

Large ones go the way to the max-margin solution (`hard_margin`), which ends in one of two ways. All
margins come out positive: W separates. Or its multipliers a ≥ 0 balance, R = Jᵀa → 0: since weights
with all margins ≥ 1 would have Σa ≤ ⟨W, R⟩, their norm is at least Σa/‖R‖. That is a proof for
every W of smaller norm, and for all where R = 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import linprog

from polyceptron.algorithms.data_checks import Samples, check_samples
from polyceptron.algorithms.design import largest_of
from polyceptron.algorithms.erm.erm_fit import Separation
from polyceptron.algorithms.erm.hard_margin import NotSeparable, separate
from polyceptron.algorithms.erm.likelihood import maximum_likelihood
from polyceptron.algorithms.stored_designs import scaled
from polyceptron.model.losses import MaxMargin
from polyceptron.numerics import Array

_SMALL = 1_000_000  # entries of the matrix of a linear programme
_CLEAR = 1e-12  # margin of rows and weights of length 1 that is no rounding


def is_separable(X: Any, y: Any, *, n_classes: int | None = None, tol: float = 1e-6) -> Separation:
    """Whether some W has z_y > z_h for every sample and every h ≠ y, z = Wᵀx/√d.

    Parameters
    ----------
    X : array, sparse matrix, memory map or Dask array of shape (n, d)
        Inputs.
    y : array of int of shape (n,)
        Class indices.
    n_classes : int, default=None
        Their number; by default that of those that occur.
    tol : float, default=1e-6
        The answer is no once weights would have to separate by less than this share of the longest
        input, in units in which the largest entry of every feature is about 1.

    Returns
    -------
    Separation
        The answer and its proof, of the kind 'separable', 'inseparable' or 'undecided'.

    Examples
    --------
    >>> is_separable([[1.0], [2.0], [-1.0]], [0, 0, 1]).separable
    True
    >>> is_separable([[1.0], [2.0], [-1.0]], [0, 1, 1]).separable
    False
    """
    return _proved(check_samples(X, y, n_classes), _judged, tol)


def separation(X: Any, y: Any, *, n_classes: int | None = None, tol: float = 1e-6) -> Separation:
    """Whether data are separable, quasi-separable or overlapping: does maximum likelihood exist?

    Parameters
    ----------
    X, y, n_classes, tol
        Those of `is_separable`. An intercept is a column of ones in X.

    Returns
    -------
    Separation
        The kind and its certificate.

    Examples
    --------
    >>> X = [[1.0, 0.0], [0.0, 1.0], [0.0, 2.0], [0.0, -1.0]]
    >>> separation(X, [0, 0, 1, 1]).kind, separation(X, [0, 1, 1, 0]).kind
    ('quasi', 'separable')
    """
    return _proved(
        check_samples(X, y, n_classes), lambda *own: _judged(*own) or _recession(*own), tol
    )


def _proved(
    given: Samples, judge: Callable[[Samples, float], Separation], tol: float
) -> Separation:
    """What is found of features with a largest entry of about 1, for the features given.

    A rule separates whatever the units of the features are: weights are in the inverse ones.
    """
    largest = np.zeros(given.design.dimension)
    for _, part in given.design.each_block(largest_of):
        np.maximum(largest, part, out=largest)
    powers = np.where(largest > 0, np.frexp(largest)[1], 0)
    design = scaled(given.design, None, np.ldexp(1.0, powers)) if powers.any() else given.design
    found = judge(replace(given, design=design), tol)
    if found.direction is not None:
        return replace(found, direction=np.ldexp(found.direction, -powers[:, None]))
    return replace(found, residual=_residual(given, found.multipliers))


def _residual(samples: Samples, multipliers: Array | None) -> float:
    """‖Σ a x̂(e_y − e_h)ᵀ‖ of multipliers (n, k); NaN without any."""
    if multipliers is None:
        return math.nan
    signed = -multipliers
    signed[np.arange(samples.y.size), samples.y] = multipliers.sum(1)
    found = samples.design.back(np.ascontiguousarray(signed.T))
    unit = float(np.abs(found).max())
    return unit * float(np.linalg.norm(found / unit)) if unit > 0 else 0.0


def _is_small(samples: Samples) -> bool:
    size = samples.y.size * samples.design.dimension * (samples.n_classes - 1) ** 2
    return size <= _SMALL


def _judged(samples: Samples, tol: float) -> Separation:
    """Separable or not: by max t where that is small, and rounding does not leave it open."""
    if _is_small(samples):
        lp = _Programme(samples)
        cost = np.append(np.zeros(lp.J.shape[1]), -1.0)
        answer = lp.solve(cost, np.hstack([lp.J, -np.ones((len(lp.J), 1))]))
        if answer is not None:
            W, margins, a = answer
            if margins.min() > _CLEAR * float(np.linalg.norm(W)):
                W /= float((margins * lp.size[lp.place[0]]).min())
                return Separation("separable", W, positive=1.0)
            multipliers, residual = lp.proof(a)
            if residual <= tol:
                return Separation("inseparable", None, multipliers)
    try:
        found = separate(samples, MaxMargin(), math.inf, doubt=math.sqrt(2) * tol)
    except NotSeparable as error:
        if error.multipliers is None:
            return Separation("undecided")
        return Separation("inseparable", None, error.multipliers.T / error.multipliers.sum())
    return Separation("separable", found.weights, positive=1.0)


class _Programme:
    """J and the linear programmes over W, for rows x̂ and labels; the last class stays at 0.

    A shift of all classes changes nothing, and rows of any length are separated alike: of length 1.
    """

    def __init__(self, samples: Samples) -> None:
        y, k, fields = samples.y, samples.n_classes, samples.design.scaled_rows(slice(None))
        largest = np.maximum(np.abs(fields).max(1), np.finfo(float).tiny)
        size = np.linalg.norm(fields / largest[:, None], axis=1)
        self.size = largest * np.where(size > 0, size, 1.0)
        fields = fields / self.size[:, None]
        self.fields, self.y, self.k = fields, y, k
        self.place = np.nonzero(np.arange(k) != y[:, None])  # samples, and the wrong classes
        which, others = self.place
        rows, each = np.zeros((which.size, k, fields.shape[1])), np.arange(which.size)
        rows[each, y[which]] = fields[which]
        rows[each, others] = -fields[which]
        self.J = rows[:, :-1].reshape(which.size, -1)

    def solve(self, cost: Array, matrix: Array) -> tuple[Array, Array, Array] | None:
        """min cost·(W, t) with matrix·(W, t) ≥ 0: weights (d, k), their margins, and the duals."""
        size = self.J.shape[1]
        bounds = [(-1.0, 1.0)] * size + [(None, None)] * (cost.size - size)
        zeros = np.zeros(len(matrix))
        found = linprog(cost, A_ub=-matrix, b_ub=zeros, bounds=bounds, method="highs")
        if found.status != 0 or found.x is None:
            return None
        weights = np.zeros((self.fields.shape[1], self.k))
        weights[:, :-1] = found.x[:size].reshape(self.k - 1, -1).T
        weights -= weights.mean(1, keepdims=True)
        margins = self.J @ found.x[:size]
        return weights, margins, np.maximum(-found.ineqlin.marginals, 0.0)

    def proof(self, a: Array) -> tuple[Array, float]:
        """Multipliers of the rows given as (n, k), of sum 1, and the norm of their combination.

        The norm is that of rows of length 1, with multipliers of sum 1.
        """
        found = np.zeros((self.y.size, self.k))
        found[self.place] = a / a.sum()
        signed = -found
        signed[np.arange(self.y.size), self.y] = found.sum(1)
        residual = float(np.linalg.norm(self.fields.T @ signed))
        found *= (self.size.min() / self.size)[:, None]
        return found / found.sum(), residual


def _recession(samples: Samples, tol: float) -> Separation:
    """Quasi-separable or overlapping: by max ΣJW, or by maximum likelihood where that is large."""
    if not _is_small(samples):
        fit = maximum_likelihood(samples, tol)
        proof = None if fit is None else fit.separability
        return Separation("undecided") if proof is None else proof
    lp = _Programme(samples)
    found = lp.solve(-lp.J.sum(0), lp.J)
    if found is None:
        return Separation("undecided")
    weights, margins, a = found
    if margins.max() > tol and margins.min() >= -tol * float(np.linalg.norm(weights)):
        return Separation("quasi", weights, None, float((margins > tol).mean()))
    multipliers, residual = lp.proof(1 + a)
    return Separation("undecided" if residual > tol else "overlapping", None, multipliers)
