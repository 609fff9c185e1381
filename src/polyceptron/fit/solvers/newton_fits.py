"""Fits by Newton's method, min_W Σ_μ ℓ(z_μ, y_μ) + (λ/2)‖W‖²_F at λ > 0, one for each λ.

All λ advance together, as many as memory holds, from the largest on: from zero or the given start,
those that follow from the last fit. A checkpoint keeps the weights of every λ begun.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from polyceptron.data.checks import Samples
from polyceptron.errors import InvalidInput
from polyceptron.fit.solvers.erm_fit import ERMFit, fit_at, stopped, stopped_at
from polyceptron.fit.solvers.newton import NewtonMinimum, newton_minimise
from polyceptron.fit.solvers.objectives import LossObjective, Objective
from polyceptron.numerics import Array
from polyceptron.problem.losses import Loss
from polyceptron.rows import Status

MOST_NUMBERS_AT_ONCE = 8_000_000  # in the fields of all λ that advance together: 64 MB
MOST_STEPS = 100


def fit_newton(
    samples: Samples,
    loss: Loss,
    ridges: Sequence[float],
    tol: float,
    start: Array | None,
    objective: Objective | None = None,
) -> list[ERMFit]:
    """Return one fit at each λ > 0, to relative distance `tol`, from weights `start` (d, k)."""
    if 0 in ridges:
        raise InvalidInput(
            f"the loss {loss.name!r} is its own limit of ridge 0, and Newton's method needs a "
            "ridge above 0"
        )
    if objective is None:
        objective = LossObjective(loss, samples.y, samples.n_classes, samples.weights)
    path = _Path(samples, loss, objective, tol, start)
    ordered = sorted(set(ridges), reverse=True)
    n_together = max(1, MOST_NUMBERS_AT_ONCE // objective.numbers)
    for first in range(0, len(ordered), n_together):
        path.solve(ordered[first : first + n_together])
        if path.interrupted:
            break
    return [path.fit_of(ridge) for ridge in ridges]


class _Path:
    """The fits so far, and the weights of every λ that was begun.

    kept : weights (d, k) by λ as text, in the checkpoint
    done : fits by λ
    start : weights (d, k) from which the next λ begin, or None for zero
    """

    def __init__(
        self, samples: Samples, loss: Loss, objective: Objective, tol: float, start: Array | None
    ) -> None:
        self.samples = samples
        self.loss = loss
        self.objective = objective
        self.tol = tol
        self.start = start
        self.checkpoint = samples.design.watch.checkpoint
        self.kept: dict[str, Array] = self.checkpoint.load() or {}
        self.done: dict[float, ERMFit] = {}
        self.interrupted = False

    def solve(self, ridges: list[float]) -> None:
        """Fit these λ together."""
        design = self.samples.design
        passes_before = design.passes
        begin = self._begin(ridges)
        minimum = newton_minimise(
            design,
            self.objective,
            np.array(ridges),
            begin,
            target=self.tol,
            max_iter=MOST_STEPS,
            keep=partial(self._keep, ridges),
            intercept=self.samples.intercept,
        )
        self._keep(ridges, minimum.U, now=True)
        passes = (design.passes - passes_before) / len(ridges)
        for problem, ridge in enumerate(ridges):
            self.done[ridge] = self._fit(minimum, problem, ridge, passes)
        self.interrupted = minimum.interrupted
        self.start = self.done[ridges[-1]].weights

    def fit_of(self, ridge: float) -> ERMFit:
        """Return the fit at λ; where it was not begun, the last weights times zero."""
        fit = self.done.get(ridge)
        if fit is not None:
            return fit
        assert self.start is not None
        return stopped_at(0 * self.start, ridge, self.loss.name)

    def _begin(self, ridges: list[float]) -> Array:
        """Return the weights (L, r, d) to begin with: those of the checkpoint, or the start."""
        basis = self.objective.basis
        begin = np.zeros((len(ridges), basis.shape[1], self.samples.design.dimension))
        for U, ridge in zip(begin, ridges, strict=True):
            weights = self.kept.get(str(ridge), self.start)
            if weights is not None:
                U[:] = (weights @ basis).T
        return begin

    def _keep(self, ridges: list[float], U: Array, now: bool = False) -> None:
        """Save the weights U (L, r, d) of these λ beside those of earlier ones."""

        def state() -> dict[str, Array]:
            """Return the weights (d, k) of each λ that is solved or begun."""
            basis = self.objective.basis
            self.kept.update({str(r): W.T @ basis.T for r, W in zip(ridges, U, strict=True)})
            return self.kept

        self.checkpoint.save(state, now=now)

    def _fit(self, minimum: NewtonMinimum, problem: int, ridge: float, passes: float) -> ERMFit:
        """Return the fit of one of the problems that advanced together."""
        basis = self.objective.basis
        n_iter = int(minimum.n_iter[problem])
        if minimum.converged[problem]:
            status = Status.OK
        elif n_iter < MOST_STEPS:
            status = Status.TOLERANCE_NOT_MET
        else:
            status = Status.NOT_CONVERGED
        fit = fit_at(
            self.samples,
            self.loss.name,
            ridge,
            minimum.U[problem].T @ basis.T,
            basis @ minimum.Z[problem],
            float(minimum.evaluation.value[problem]),
            float(minimum.distance[problem]),
            status,
            n_iter=n_iter,
            gradient_norm=float(minimum.gradient_norm[problem]),
            matrix_passes=passes,
        )
        if minimum.interrupted:
            return stopped(fit)
        return fit
