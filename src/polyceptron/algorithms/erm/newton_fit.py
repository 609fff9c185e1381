"""Any convex loss as an objective of Newton's method, from its value, gradient and Hessian.

Fields Z (L, r, n) are in the coordinates B (k, r) of `class_coordinates`: differences of classes
where the loss sees nothing else, all k fields otherwise.

Newton fits of smooth losses with a ridge: min_W Σ_μ ℓ(z_μ, y_μ) + (λ/2)‖W‖²_F,  λ > 0.

A list of λ is fitted in two waves: every fourth λ from zero (or from the given start), then the
others from the polynomial in ln λ through the nearest fits. Within a wave all λ advance together.

The softmax has an objective of its own, in O(k) a sample; any other convex loss goes by its value,
gradient and Hessian. Message passing as a warm start was measured at n = 3000, d = 1000, k = 3: at
λ from 1 to 0.001 the passes over X that it saves the solver are the passes that it takes, so it is
not used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from polyceptron.algorithms.block_products import Inner
from polyceptron.algorithms.data_checks import Samples
from polyceptron.algorithms.erm.erm_fit import ERMFit, bound_in_weights
from polyceptron.algorithms.erm.newton import minimise
from polyceptron.algorithms.erm.objectives import (
    Curvature,
    Evaluation,
    Labels,
    Objective,
    SoftmaxObjective,
    weights_of,
)
from polyceptron.algorithms.erm.saved_path import SavedPath, not_begun, stopped
from polyceptron.algorithms.weight_coordinates import class_coordinates
from polyceptron.errors import InvalidInput
from polyceptron.model.losses import Loss
from polyceptron.numerics import AnyArray, Array
from polyceptron.rows import Status


@dataclass(frozen=True)
class MatrixCurvature:
    """One matrix a sample, (L, n, r, r)."""

    matrices: AnyArray

    def take(self, chosen: Any) -> MatrixCurvature:
        """The problems picked by a mask."""
        return MatrixCurvature(self.matrices[chosen])

    def rows(self, rows: slice) -> Inner:
        """Q (L, r, b) ↦ ∂²ℓ·Q of these samples alone."""
        return MatrixCurvature(self.matrices[:, rows])

    def __call__(self, Q: AnyArray) -> tuple[AnyArray, None]:
        """∂²ℓ·Q (L, r, n), in the precision of Q."""
        return np.einsum("lnij,ljn->lin", self.matrices, Q), None

    def mean(self) -> Array:
        """The mean over samples and directions of each problem, (L,)."""
        result: Array = np.einsum("lnii->ln", self.matrices).mean(1) / self.matrices.shape[-1]
        return result


class LossObjective:
    """Σ_μ ℓ(z_μ, y_μ) of a `Loss`: the curvature's source is the fields z (L, k, n)."""

    smoothness: float | None = None

    def __init__(self, loss: Loss, y: Labels, n_classes: int, weights: Array | None = None) -> None:
        self.loss, self.y, self.weights = loss, y, weights
        self.basis = class_coordinates(loss, n_classes)

    def take(self, chosen: Any) -> LossObjective:
        """The problems picked by a mask or an index array."""
        chosen_weights = weights_of(self.weights, chosen)
        if chosen_weights is self.weights:
            return self
        return LossObjective(self.loss, self.y, len(self.basis), chosen_weights)

    def evaluate(self, Z: Array) -> Evaluation:
        """ℓ and its gradient; a value that overflows is infinite, and is stepped back from."""
        z = self.basis @ Z
        losses, residual = np.empty((len(Z), Z.shape[-1])), np.empty_like(Z)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            for i, fields in enumerate(z):
                losses[i] = self.loss.value(fields.T, self.y)
                residual[i] = (self.loss.gradient(fields.T, self.y) @ self.basis).T
            if self.weights is not None:
                losses *= self.weights
                residual *= self.weights[..., None, :]
            values = losses.sum(1)
        return Evaluation(np.where(np.isnan(values), np.inf, values), residual, z)

    def curvature(self, evaluation: Evaluation, dtype: Any) -> Curvature:
        """BᵀHB, sample by sample."""
        return MatrixCurvature(self._hessians(evaluation).astype(dtype))

    def stiffness(self, evaluation: Evaluation) -> Array | None:
        """The trace of BᵀHB, which its norm is not above."""
        return np.einsum("lnii->ln", self._hessians(evaluation))

    def _hessians(self, evaluation: Evaluation) -> Array:
        H = np.stack([self.loss.hessian(fields.T, self.y) for fields in evaluation.source])
        result: Array = self.basis.T @ H @ self.basis
        if self.weights is not None:
            result *= self.weights[..., None, None]
        return result


_MEMORY = 8_000_000  # numbers of all λ of a wave held at once
_STRIDE = 4  # every so manieth λ is fitted first
_NODES = 4  # fits through which the others' starts are interpolated
_MAX_ITER = 100


def fit_softmax(
    samples: Samples, loss: Loss, ridges: Sequence[float], tol: float, start: Array | None
) -> list[ERMFit]:
    """Cross-entropy at each λ > 0, to relative distance `tol`; `start` (d, k)."""
    k = samples.n_classes
    objective = SoftmaxObjective(samples.y, k, samples.weights)
    return _fit_path(samples, objective, loss, ridges, tol, start, k * samples.y.size)


def fit_any_loss(
    samples: Samples, loss: Loss, ridges: Sequence[float], tol: float, start: Array | None
) -> list[ERMFit]:
    """Any convex loss at each λ > 0, to relative distance `tol`; `start` (d, k)."""
    k = samples.n_classes
    objective = LossObjective(loss, samples.y, k, samples.weights)
    return _fit_path(samples, objective, loss, ridges, tol, start, k * k * samples.y.size)


def _fit_path(
    samples: Samples,
    objective: Objective,
    loss: Loss,
    ridges: Sequence[float],
    tol: float,
    start: Array | None,
    held: int,
) -> list[ERMFit]:
    if 0 in ridges:
        raise InvalidInput(
            f"the loss {loss.name!r} is its own limit of ridge 0, and Newton's method needs a "
            "ridge above 0"
        )
    ordered = sorted(set(ridges))
    chosen = set(ordered[::_STRIDE]) | set(ordered[-1:])
    waves = [[r for r in ordered if r in chosen], [r for r in ordered if r not in chosen]]
    saved = SavedPath(samples.design.watch.checkpoint, samples.design, loss.name)
    done: dict[float, ERMFit] = {}
    size = max(1, _MEMORY // held)
    for wave in waves:
        latest: dict[float, ERMFit] = {}
        for first in range(0, len(wave), size):
            block = wave[first : first + size]
            if not set(block) <= set(saved.done):
                guesses = [start if wave is waves[0] else _interpolate(done, r) for r in block]
                near = start is not None
                fits = _fit_block(samples, objective, loss, block, guesses, tol, saved, near)
                if fits[0].status == Status.INTERRUPTED:
                    ended = saved.done | dict(zip(block, fits, strict=True))
                    return [ended.get(r) or not_begun(fits[0], r) for r in ridges]
                saved.add(fits)
            latest |= {ridge: saved.done[ridge] for ridge in block}
        done |= latest
    return [done[ridge] for ridge in ridges]


def _fit_block(
    samples: Samples,
    objective: Objective,
    loss: Loss,
    ridges: Sequence[float],
    guesses: Sequence[Array | None],
    tol: float,
    saved: SavedPath,
    near: bool,
) -> list[ERMFit]:
    design = samples.design
    keeper = saved.keeper(ridges, design.passes)
    begin = np.zeros((len(ridges), objective.basis.shape[1], design.dimension))
    for U, guess in zip(begin, guesses, strict=True):
        if guess is not None:
            U[:] = (guess @ objective.basis).T
    found = minimise(
        design,
        objective,
        np.array(ridges),
        begin,
        target=tol,
        max_iter=_MAX_ITER,
        keeper=keeper,
        near=near,
    )
    fits = []
    for i, ridge in enumerate(ridges):
        norm, rounding = float(found.gradient_norm[i]), float(found.rounding[i])
        weights = found.U[i].T @ objective.basis.T
        fits.append(
            ERMFit(
                weights=weights,
                gradient_norm=norm,
                distance_bound=bound_in_weights((norm + rounding) / ridge, weights),
                n_iter=int(found.n_iter[i]),
                matrix_passes=(design.passes - keeper.before) / len(ridges),
                training_loss=float(found.evaluation.value[i]) / samples.total,
                training_error=samples.error_rate(objective.basis @ found.Z[i]),
                status=_status(bool(found.converged[i]), int(found.n_iter[i])),
                ridge=ridge,
                loss=loss.name,
            )
        )
    return [stopped(fit) for fit in fits] if found.interrupted else fits


def _status(met: bool, n_iter: int) -> Status:
    """OK, or whether it was rounding or the number of iterations that the fit ended at."""
    if met:
        return Status.OK
    return Status.TOLERANCE_NOT_MET if n_iter < _MAX_ITER else Status.NOT_CONVERGED


def _interpolate(done: dict[float, ERMFit], ridge: float) -> Array:
    """Weights at λ from the polynomial in ln λ through the nearest fits."""
    t = math.log(ridge)
    near = sorted(done.values(), key=lambda fit: abs(math.log(fit.ridge) - t))[:_NODES]
    nodes = [math.log(fit.ridge) for fit in near]
    guess = np.zeros_like(near[0].weights)
    for i, fit in enumerate(near):
        others = [node for j, node in enumerate(nodes) if j != i]
        guess += math.prod((t - node) / (nodes[i] - node) for node in others) * fit.weights
    return guess
