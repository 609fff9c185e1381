"""Which ridge predicts best: fields of samples that a fit has not seen, along a path of λ.

Two ways to the fields z̃_μ of held-out samples, on the same path of λ:

cross-validation: the fits without each fold are problems side by side, which differ in their
    weights of the samples (0 in the fold) and share every read of X.
leave-one-out: one fit of all samples, and for each one Newton step without it,

    z̃_μ = z_μ + (A_μ⁻¹ − u H_μ)⁻¹ u g_μ,    A_μ = x̂_μᵀ (Σ_ν s_ν x̂_ν x̂_νᵀ ⊗ H_ν + λ)⁻¹ x̂_μ

    with x̂ = x/√d, g and H the loss's slope and curvature at z_μ, and A_μ the r×r leverage of the
    sample; u is the weight left out, so that a sample of weight 3 is three samples.

The path goes from large λ to small, where fits cost more, and ends early where the score has become
clearly worse than the best. Each λ starts from the polynomial in ln λ through the nearest
minimisers (`Walk`). Fits of folds are loose: the last Newton step lowers the objective by less than
a hundredth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from polyceptron.algorithms.data_checks import Samples
from polyceptron.algorithms.design import Design, weights_or_ones
from polyceptron.algorithms.erm.directions import (
    Factors,
    directions,
    leverages,
    sample_matrices,
    whole_hessian,
)
from polyceptron.algorithms.erm.erm_fit import through_nearest
from polyceptron.algorithms.erm.fit import solver_of
from polyceptron.algorithms.erm.newton import dots, line_search
from polyceptron.algorithms.erm.objectives import Objective
from polyceptron.algorithms.stored_designs import ArrayDesign
from polyceptron.model.losses import Loss
from polyceptron.numerics import AnyArray, Array

DENSE = 120  # d·r up to which a matrix of that size is cheaper than products with X
_STEPS = 20
_SMALL = 20_000  # numbers in all fields up to which single precision saves nothing
_NODES = 3  # minimisers through which the next start is extrapolated


class Walk:
    """Problems side by side, U (L, r, d), from one λ to the next smaller.

    `enough`: of the objective, by which the last step lowers it; `loose`: of the gradient, left by
    conjugate gradients.
    """

    def __init__(
        self, design: Design, objective: Objective, count: int, enough: float, loose: float
    ) -> None:
        self.design, self.objective = design, objective
        self.enough, self.loose = enough, loose
        shape = (count, objective.basis.shape[1], design.dimension)
        large = count * shape[1] * design.n_samples > _SMALL and design.single_is_quicker
        self.dtype = np.float32 if large else np.float64
        self.U: AnyArray = np.zeros(shape, self.dtype)
        self.past: list[tuple[float, AnyArray]] = []
        small = shape[1] * design.dimension <= DENSE and design.may_be_copied
        self.rows = design.scaled_rows(slice(None)) if small else None
        self.double = np.full(count, not large)
        self.factors = Factors(design, shape, shared=True)

    def solve(self, ridge: float) -> None:
        """Move to the minimisers at this λ, loosely."""
        design, objective = self.design, self.objective
        ridges = np.full(len(self.U), ridge)
        t, begun = math.log(ridge), bool(self.past)
        U = through_nearest(self.past, t, _NODES) if begun else np.zeros_like(self.U)
        Z = design.fields(U)
        here = objective.evaluate(Z)
        for _ in range(_STEPS):
            G = design.back(here.residual) + ridge * U
            if not G.any(axis=(1, 2)).all():
                break
            self.here = here
            D = self._directions(ridges, G)
            total = here.value + 0.5 * ridge * dots(U, U)
            gain = -0.5 * dots(G, D)
            step, here, Z = line_search(design, objective, ridges, U, Z, here, G, D)
            U += (step[:, None, None] * D).astype(self.dtype, copy=False)
            if (gain <= self.enough * total).all():
                break
        self.U, self.Z, self.here = U, Z, here
        self.past.append((t, U))

    def _directions(self, ridges: Array, G: AnyArray) -> AnyArray:
        """Newton steps: of the whole matrix where it is small, else by conjugate gradients."""
        if self.rows is None:
            tolerance = np.full(len(G), self.loose)
            return directions(
                self.design, self.objective, self.here, ridges, G, tolerance,
                np.arange(len(G)), self.double, self.factors,
            )  # fmt: skip
        whole = [whole_hessian(self.rows, H, ridges[0]) for H in self.matrices()]
        flat = np.linalg.solve(np.array(whole), -G.reshape(len(G), -1, 1))
        return flat.reshape(G.shape)

    def matrices(self) -> AnyArray:
        """s_μH_μ of every sample where the walk stands, (L, n, r, r)."""
        bend = self.objective.curvature(self.here, np.float64)
        return sample_matrices(bend, self.here.residual.shape)


Fold = NDArray[np.bool_]  # (n,): the samples that are held out
Score = Callable[[Array, NDArray[np.int64]], Array]  # fields (m, k) and labels to numbers (m,)

# Of the objective, by which the last step lowers it; of the gradient, left by inner solves.
_FOLDS = 1e-2, 0.5
_WHOLE = 1e-8, 0.1  # small, and a step without a sample starts from here
_WORSE = 3.0  # standard errors above the best, of all ridges since then, that end the path


@dataclass(frozen=True)
class RidgePath:
    """Ridges from large to small (m,), score and its standard error (m,), and the best ridge.

    `weights` (d, k) are near the minimiser at the best ridge: a start for the fit. `held_out` (n,)
    are the scores of all samples there, nan for one that was in no fold. `method` is
    'leave-one-out' or 'cross-validation'.
    """

    ridge: Array
    score: Array
    standard_error: Array
    best: float
    weights: Array
    held_out: Array
    method: str
    interrupted: bool = False


def leave_one_out_is_cheaper(design: Design, n_classes: int) -> bool:
    """Whether a matrix of all weights costs less than fits of folds."""
    return min(design.shape) * (n_classes - 1) <= DENSE and design.may_be_copied


def ridge_path(
    samples: Samples,
    loss: Loss,
    ridges: Sequence[float],
    score: Score,
    folds: Sequence[Fold] | None,
    left_out: Array | None = None,
) -> RidgePath:
    """Scores along the ridges; leave-one-out without folds, `left_out` (n,) then being u."""
    way = _LeaveOneOut(samples, loss, left_out) if folds is None else _Folds(samples, loss, folds)
    whole = weights_or_ones(samples.weights, samples.y.size)
    tried: list[_Tried] = []
    worse = 0.0
    interrupted = False
    for ridge in sorted(set(ridges), reverse=True):
        try:
            fields, at = way.held_out(ridge)
        except KeyboardInterrupt:
            if not tried:
                raise
            interrupted = True
            break
        here = _Tried(ridge, score(fields, samples.y[at]), whole[at], way.weights(), at)
        tried.append(here)
        best = min(tried, key=lambda one: one.mean)  # of equals the largest ridge
        worse = 0.0 if here is best else worse + here.standard_errors_above(best)
        if worse > _WORSE:
            break
    columns = np.array([(one.ridge, one.mean, one.standard_error) for one in tried]).T
    method = "leave-one-out" if folds is None else "cross-validation"
    held_out = np.full(samples.y.size, np.nan)
    held_out[best.at] = best.values
    return RidgePath(
        columns[0], columns[1], columns[2], best.ridge, best.weights, held_out, method, interrupted
    )


@dataclass(frozen=True)
class _Tried:
    """A ridge, the scores of held-out samples (m,) and their weights, and weights near the fit.

    `at` (m,) are the samples.
    """

    ridge: float
    values: Array
    share: Array
    weights: Array
    at: NDArray[np.int64]

    @cached_property
    def mean(self) -> float:
        """The score."""
        return float(np.average(self.values, weights=self.share))

    @property
    def standard_error(self) -> float:
        """Of the score."""
        return self._error(self.values - self.mean)

    def standard_errors_above(self, other: _Tried) -> float:
        """By how many standard errors of the difference, sample by sample, this one is worse."""
        above = self.mean - other.mean
        doubt = self._error(self.values - other.values - above)
        return above / max(doubt, 1e-300)

    def _error(self, off: Array) -> float:
        return float(np.sqrt((self.share**2 * off**2).sum()) / self.share.sum())


def _objective(samples: Samples, loss: Loss, weights: Array | None) -> Objective:
    return solver_of(loss).objective(loss, samples.y, samples.n_classes, weights)


class _Folds:
    """Fits without each fold in turn."""

    def __init__(self, samples: Samples, loss: Loss, folds: Sequence[Fold]) -> None:
        self.folds, self.y = folds, samples.y
        weights = np.where(np.array(folds), 0.0, weights_or_ones(samples.weights, samples.y.size))
        objective = _objective(samples, loss, weights)
        self.walk = Walk(samples.design, objective, len(folds), *_FOLDS)

    def held_out(self, ridge: float) -> tuple[Array, NDArray[np.int64]]:
        """Fields (m, k) of the samples (m,) of all folds."""
        self.walk.solve(ridge)
        fields = [
            self.walk.Z[i][:, fold].T @ self.walk.objective.basis.T
            for i, fold in enumerate(self.folds)
        ]
        return np.vstack(fields), np.concatenate([np.flatnonzero(fold) for fold in self.folds])

    def weights(self) -> Array:
        """The mean over the folds (d, k)."""
        result: Array = (self.walk.objective.basis @ self.walk.U.mean(0)).T
        return result


class _LeaveOneOut:
    """One fit of all samples, and a step without each."""

    def __init__(self, samples: Samples, loss: Loss, left_out: Array | None) -> None:
        self.y = samples.y
        objective = _objective(samples, loss, samples.weights)
        share = weights_or_ones(samples.weights, self.y.size)
        self.rest = np.minimum(share if left_out is None else left_out, share) / share
        self.design = samples.design
        self.turn: Array | None = None
        n, d = self.design.shape
        inner = self.design
        if d > n:  # n directions hold all samples: X/√d = R Qᵀ with R (n, n)
            values, vectors = np.linalg.eigh(self.design.gram())
            root = np.sqrt(np.maximum(values, 1e-14 * values[-1]))
            inner, self.turn = ArrayDesign(vectors * (root * math.sqrt(n))), vectors / root
        self.rows = inner.scaled_rows(slice(None))
        self.walk = Walk(inner, objective, 1, *_WHOLE)

    def held_out(self, ridge: float) -> tuple[Array, NDArray[np.int64]]:
        """Fields (n, k) of every sample, left out."""
        walk = self.walk
        walk.solve(ridge)
        H = walk.matrices()[0]
        A = leverages(self.rows, H, ridge)
        g = walk.here.residual[0].T
        part = self.rest[:, None, None] * H
        move = np.linalg.solve(
            np.eye(H.shape[1]) - A @ part, (A @ (self.rest[:, None] * g)[..., None])
        )
        fields = (walk.Z[0].T + move[..., 0]) @ walk.objective.basis.T
        return fields, np.arange(self.y.size)

    def weights(self) -> Array:
        """Of the fit of all samples (d, k)."""
        U = self.walk.U[0]
        if self.turn is not None:
            U = self.design.back(U @ self.turn.T)
        result: Array = (self.walk.objective.basis @ U).T
        return result
