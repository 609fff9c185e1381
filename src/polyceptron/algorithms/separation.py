"""Whether data can be separated by a linear rule, with a proof either way.

With J the constraints as rows, x̂(e_y − e_h)ᵀ for every sample x̂ = x/√d and every h ≠ y, the margins
of weights W are JW. Small problems are linear programmes over weights in [−1, 1]:

    max t,   JW ≥ t         t > 0 separates; else the dual is a ≥ 0 with Σa = 1 and Jᵀa = 0
    max ΣJW, JW ≥ 0         above 0, W is a direction in which the likelihood rises for ever
                            (quasi-separation); else the dual is b = 1 + a > 0 with Jᵀb = 0, and
                            every direction has a margin below 0

Large ones are judged by the squared hinge with a penalty c that grows,

    min_W ½‖W‖² + (c/2) Σ_{μ, h≠y} (1 − margin)₊²,     a = c (1 − margin)₊ ≥ 0.

It ends in one of two ways. All margins come out positive: W separates. Or the multipliers a
balance, R = Jᵀa → 0: since weights with all margins ≥ 1 would have Σa ≤ ⟨W, R⟩, their norm is at
least Σa/‖R‖. That is a proof for every W of smaller norm, and for all where R = 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from polyceptron.algorithms.data_checks import Labels, Samples, check_samples
from polyceptron.algorithms.design import largest_of
from polyceptron.algorithms.erm.descent import minimise
from polyceptron.algorithms.erm.erm_fit import SeparabilityOfData
from polyceptron.algorithms.erm.likelihood import maximum_likelihood
from polyceptron.algorithms.erm.objectives import ShiftedHinge
from polyceptron.algorithms.stored_designs import scaled
from polyceptron.display import ShortDisplay
from polyceptron.numerics import Array

_SMALL = 1_000_000  # entries of the matrix of a linear programme
_CLEAR = 1e-12  # margin of rows and weights of length 1 that is no rounding


@dataclass(frozen=True, repr=False)
class Separation(ShortDisplay):
    """How far classes can be told apart by a linear rule, with the proof.

    `kind` is 'separable', with a `direction` (d, k) of smallest margin 1; 'quasi', with a direction
    of which no margin is below 0 and the share `positive` is above; 'overlapping', where maximum
    likelihood exists, with multipliers (n, k) above 0 for every sample and wrong class, of sum 1,
    whose combination Σ a x(e_y − e_h)ᵀ/√d has the norm `residual`; 'undecided' where neither was
    found.
    """

    kind: str
    direction: Array | None = None
    multipliers: Array | None = None
    positive: float = 0.0
    residual: float = math.nan

    def _facts(self) -> dict[str, Any]:
        return {name: v for name, v in super()._facts().items() if v == v}


def is_separable(
    X: Any, y: Any, *, n_classes: int | None = None, tol: float = 1e-6
) -> SeparabilityOfData:
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
    SeparabilityOfData
        The answer and its proof.

    Examples
    --------
    >>> is_separable([[1.0], [2.0], [-1.0]], [0, 0, 1]).separable
    True
    >>> is_separable([[1.0], [2.0], [-1.0]], [0, 1, 1]).separable
    False
    """
    given, samples, units = _even(check_samples(X, y, n_classes))
    found = _judged(samples, tol)
    if found.weights is not None:
        return replace(found, weights=np.ldexp(found.weights, -units))
    return replace(found, residual=_residual(given, found.multipliers))


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
    given, samples, units = _even(check_samples(X, y, n_classes))
    first = _judged(samples, tol)
    if first.separable:
        found = Separation("separable", first.weights, None, 1.0)
    elif samples.y.size * samples.design.dimension * (samples.n_classes - 1) ** 2 <= _SMALL:
        rows = samples.design.scaled_rows(slice(None))
        found = _recession(rows, samples.y, samples.n_classes, tol)
    else:
        fit = maximum_likelihood(samples, tol)
        proof = None if fit is None else fit.separability
        found = Separation("undecided")
        if proof is not None:
            found = Separation("overlapping", None, proof.multipliers)
    if found.direction is not None:
        return replace(found, direction=np.ldexp(found.direction, -units))
    return replace(found, residual=_residual(given, found.multipliers))


def _even(given: Samples) -> tuple[Samples, Samples, NDArray[np.int64]]:
    """The samples, and features with a largest entry of about 1; powers of two (d, 1) of these.

    A rule separates whatever the units of the features are: weights are in the inverse ones.
    """
    largest = np.zeros(given.design.dimension)
    for _, part in given.design.each_block(largest_of):
        np.maximum(largest, part, out=largest)
    powers = np.where(largest > 0, np.frexp(largest)[1], 0)
    design = scaled(given.design, None, np.ldexp(1.0, powers)) if powers.any() else given.design
    return given, replace(given, design=design), powers[:, None]


def _residual(samples: Samples, multipliers: Array | None) -> float:
    """‖Σ a x̂(e_y − e_h)ᵀ‖ of multipliers (n, k); NaN without any."""
    if multipliers is None:
        return math.nan
    signed = -multipliers
    signed[np.arange(samples.y.size), samples.y] = multipliers.sum(1)
    found = samples.design.back(np.ascontiguousarray(signed.T))
    unit = float(np.abs(found).max())
    return unit * float(np.linalg.norm(found / unit)) if unit > 0 else 0.0


def _judged(samples: Samples, tol: float) -> SeparabilityOfData:
    """The answer for data in their own units."""
    (design, labels, k), n = samples, samples.y.size
    if n * design.dimension * (k - 1) ** 2 <= _SMALL:
        answer = _by_linear_programme(design.scaled_rows(slice(None)), labels, k, tol)
        if answer is not None:
            return answer
    U = np.zeros((k - 1, design.dimension))
    longest = math.sqrt(2) * float(design.row_norms.max())
    for penalty in (10.0**power for power in range(1, 13)):
        hinge = ShiftedHinge(labels, k, np.zeros((k, n)), penalty)
        found = minimise(design, hinge, np.ones(1), U[None], target=1e-10, max_iter=60)
        U = found.U[0]
        margins = hinge.margins(design.fields(U))
        multipliers = hinge.push(margins)
        margins[labels, np.arange(n)] = np.inf
        smallest = float(margins.min())
        if smallest > 0 and smallest > 1e-10 * longest * float(np.linalg.norm(U)):
            weights = (U.T @ hinge.basis.T) / smallest
            return SeparabilityOfData(True, weights)
        total = float(multipliers.sum())
        residual = float(np.linalg.norm(design.back(hinge.pull(multipliers)))) / total
        if residual <= tol * longest:
            return SeparabilityOfData(False, None, multipliers.T / total)
    return SeparabilityOfData(None)


class _Programme:
    """J and the linear programmes over W, for rows x̂ (n, d) and labels; the last class stays at 0.

    A shift of all classes changes nothing, and rows of any length are separated alike: of length 1.
    """

    def __init__(self, fields: Array, y: Labels, k: int) -> None:
        largest = np.maximum(np.abs(fields).max(1), np.finfo(float).tiny)
        size = np.linalg.norm(fields / largest[:, None], axis=1)
        self.size = largest * np.where(size > 0, size, 1.0)
        fields = fields / self.size[:, None]
        self.fields, self.y, self.k = fields, y, k
        self.place = np.nonzero(np.arange(k) != y[:, None])  # samples, and the wrong classes
        samples, others = self.place
        rows, each = np.zeros((samples.size, k, fields.shape[1])), np.arange(samples.size)
        rows[each, y[samples]] = fields[samples]
        rows[each, others] = -fields[samples]
        self.J = rows[:, :-1].reshape(samples.size, -1)

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


def _by_linear_programme(fields: Array, y: Labels, k: int, tol: float) -> SeparabilityOfData | None:
    """The answer of max t; None where rounding leaves it open."""
    lp = _Programme(fields, y, k)
    cost = np.append(np.zeros(lp.J.shape[1]), -1.0)
    found = lp.solve(cost, np.hstack([lp.J, -np.ones((len(lp.J), 1))]))
    if found is None:
        return None
    weights, margins, a = found
    if margins.min() > _CLEAR * float(np.linalg.norm(weights)):
        return SeparabilityOfData(True, weights / float((margins * lp.size[lp.place[0]]).min()))
    multipliers, residual = lp.proof(a)
    return SeparabilityOfData(False, None, multipliers) if residual <= tol else None


def _recession(fields: Array, y: Labels, k: int, tol: float) -> Separation:
    """Quasi-separable or overlapping, by max ΣJW."""
    lp = _Programme(fields, y, k)
    found = lp.solve(-lp.J.sum(0), lp.J)
    if found is None:
        return Separation("undecided")
    weights, margins, a = found
    if margins.max() > tol and margins.min() >= -tol * float(np.linalg.norm(weights)):
        return Separation("quasi", weights, None, float((margins > tol).mean()))
    multipliers, residual = lp.proof(1 + a)
    if residual > tol:
        return Separation("undecided")
    return Separation("overlapping", None, multipliers)
