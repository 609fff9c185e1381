"""What a fit returns; and fits by Newton's method, min_W Σ_μ ℓ(z_μ, y_μ) + (λ/2)‖W‖²_F, λ > 0.

All λ advance together, as many as memory holds, from the largest on: from zero or the given start,
those that follow from the last fit. A checkpoint keeps the weights of every λ begun.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from polyceptron.data.checks import Samples, Units
from polyceptron.display import ShortDisplay
from polyceptron.errors import InvalidInput
from polyceptron.fit.solvers.intercept import Intercept
from polyceptron.fit.solvers.newton import newton_minimise
from polyceptron.fit.solvers.objectives import LossObjective, Objective
from polyceptron.fit.solvers.rounding import EPS
from polyceptron.numerics import AnyArray, Array
from polyceptron.problem.losses import Loss
from polyceptron.rows import Status

_MEMORY = 8_000_000  # numbers of all λ of a wave held at once
_MAX_ITER = 100


@dataclass(frozen=True, repr=False)
class Separation(ShortDisplay):
    """How far classes can be told apart by a linear rule, with the proof; true if they can.

    `kind` is 'separable', with a `direction` (d, k) of smallest margin 1; 'quasi', with a direction
    of which no margin is below 0 and the share `positive` is above; 'overlapping', where maximum
    likelihood exists, with `multipliers` (n, k) above 0 for every sample and wrong class, of sum 1,
    whose combination R = Σ a x(e_y − e_h)ᵀ/√d has the norm `residual`: weights with all margins ≥ 1
    have a norm of at least `least_norm`; 'inseparable', with such multipliers not below 0;
    'undecided' where neither was found. A direction may come with `intercepts` (k,).
    """

    kind: str
    direction: Array | None = None
    multipliers: Array | None = None
    positive: float = math.nan
    residual: float = math.nan
    intercepts: Array | None = None

    @property
    def separable(self) -> bool | None:
        """None where that was not decided."""
        return None if self.kind == "undecided" else bool(self)

    @property
    def weights(self) -> Array | None:
        """The direction, where it separates."""
        return self.direction if self else None

    @property
    def least_norm(self) -> float:
        """Of weights with all margins at least 1."""
        return 1 / self.residual if self.residual else math.inf

    def _facts(self) -> dict[str, Any]:
        facts = super()._facts() | {"least_norm": self.least_norm}
        return {name: v for name, v in facts.items() if v == v}  # a proof has its own

    def __bool__(self) -> bool:
        return self.kind == "separable"


@dataclass(frozen=True, repr=False)
class ERMFit(ShortDisplay):
    """Weights Ŵ (d, k) and intercepts (k,) with the certificate of how close they are to the best.

    `intercepts` are 0 where there are none; where a loss sees class differences only, they sum to
    0. ‖weights − minimiser‖_F ≤ distance_bound, both counted with their intercepts, by strong
    convexity (norm of the gradient, with what rounding may hide of it, over λ; for max-margin the
    square root of twice the duality gap, or the residual of a direct solve); hinges may have many
    best intercepts, and bound the weights alone. `status` is OK when the bound is within
    the asked tolerance times the norm of the weights, or the minimiser is 0 to rounding;
    'tolerance-not-met' when rounding does not allow that; 'not-converged' when the
    iterations ran out. `matrix_passes` counts the reads of X, one in single precision being one
    half. `training_loss` is the mean per sample, without the ridge. `separability` is what a ridge
    of 0 found out about the data.
    """

    weights: Array
    gradient_norm: float
    distance_bound: float
    n_iter: int
    matrix_passes: float
    training_loss: float
    training_error: float
    status: Status
    ridge: float
    loss: str
    separability: Separation | None = None
    penalty: str | None = None  # in place of the ridge
    intercepts: Array = None  # type: ignore[assignment]  # zeros unless given

    def __post_init__(self) -> None:
        if self.intercepts is None:
            object.__setattr__(self, "intercepts", np.zeros(self.weights.shape[1]))

    def _facts(self) -> dict[str, Any]:
        d, k = self.weights.shape
        names = ("distance_bound", "training_loss", "training_error", "n_iter", "matrix_passes")
        facts: dict[str, Any] = {"loss": self.loss, "ridge": self.ridge, "status": str(self.status)}
        facts |= {"dimension": d, "n_classes": k}
        if self.penalty is not None:
            facts["penalty"] = self.penalty
        if self.separability is not None:
            facts["separable"] = self.separability.separable
        return facts | {name: getattr(self, name) for name in names}


def in_given_units(
    fit: ERMFit, units: Units, ridge: float, intercept: Intercept | None = None
) -> ERMFit:
    """The fit of data in their units as that of the data given, at the ridge given if any."""
    ridge = ridge if fit.ridge > 0 else 0.0
    shrink = units.ridge(ridge)[1]
    proof, p = fit.separability, units.p
    weights, offset, reach = fit.weights, fit.intercepts, -p - shrink
    if intercept is not None:
        inner, offset = intercept.split(fit.weights.T)
        if shrink:
            offset = offset + (inner - np.ldexp(inner, -shrink)) @ intercept.mean
        weights, reach = inner.T.copy(), max(-p, 0)  # intercepts have no unit
        if proof is not None and proof.direction is not None:
            held, shift = intercept.split(proof.direction.T)
            proof = replace(proof, direction=held.T.copy(), intercepts=shift)
    elif units == Units() and not shrink:
        return fit
    bound = float(np.ldexp(fit.distance_bound, reach))
    if proof is not None:
        direction = None if proof.direction is None else np.ldexp(proof.direction, -p)
        proof = replace(proof, direction=direction, residual=float(np.ldexp(proof.residual, p)))
    return replace(
        fit,
        weights=np.ldexp(weights, -p - shrink),
        intercepts=offset,
        distance_bound=bound + 4 * EPS * float(np.linalg.norm(offset)),
        gradient_norm=float(np.ldexp(fit.gradient_norm, p + units.q)),
        ridge=ridge,
        separability=proof,
    )


def fit_at(
    samples: Samples,
    loss: str,
    ridge: float,
    weights: Array,
    fields: Array,
    value: float,
    bound: float,
    status: Status,
    **more: Any,
) -> ERMFit:
    """The fit of weights (d, k) with their fields (k, n), the sum of the losses, and the bound."""
    return ERMFit(
        weights=weights,
        ridge=ridge,
        loss=loss,
        status=status,
        distance_bound=bound + 4 * EPS * float(np.linalg.norm(weights)),  # of the weights' rounding
        training_loss=value / samples.total,
        training_error=math.nan if np.isnan(fields).any() else samples.error_rate(fields),
        **more,
    )


def stopped(fit: ERMFit) -> ERMFit:
    """The fit as one that was interrupted: nothing is known of its distance to the minimiser."""
    return replace(fit, status=Status.INTERRUPTED, gradient_norm=math.nan, distance_bound=math.inf)


def stopped_at(weights: Array, ridge: float, loss: str) -> ERMFit:
    """Weights (d, k) of which nothing is known."""
    nan = math.nan
    return ERMFit(weights, nan, math.inf, 0, 0.0, nan, nan, Status.INTERRUPTED, ridge, loss)


def fit_newton(
    samples: Samples,
    loss: Loss,
    ridges: Sequence[float],
    tol: float,
    start: Array | None,
    objective: Objective | None = None,
) -> list[ERMFit]:
    """One fit at each λ > 0, to relative distance `tol`; `start` (d, k)."""
    if 0 in ridges:
        raise InvalidInput(
            f"the loss {loss.name!r} is its own limit of ridge 0, and Newton's method needs a "
            "ridge above 0"
        )
    design, y, k = samples
    objective = objective or LossObjective(loss, y, k, samples.weights)
    basis, checkpoint = objective.basis, design.watch.checkpoint
    ordered = sorted(set(ridges), reverse=True)
    kept, done = checkpoint.load() or {}, dict[float, ERMFit]()

    def keep(block: list[float], U: Array, now: bool = False) -> None:
        """Save the weights of this block of ridges beside those of earlier blocks."""

        def state() -> dict[str, Array]:
            """Return the weights (d, k) of each ridge that is solved or begun."""
            kept.update({str(r): W.T @ basis.T for r, W in zip(block, U, strict=True)})
            return kept

        checkpoint.save(state, now=now)

    size = max(1, _MEMORY // objective.numbers)
    for block in (ordered[i : i + size] for i in range(0, len(ordered), size)):
        begin = np.zeros((len(block), basis.shape[1], design.dimension))
        for U, r in zip(begin, block, strict=True):
            if (found := kept.get(str(r), start)) is not None:
                U[:] = (found @ basis).T
        before = design.passes
        minimum = newton_minimise(
            design,
            objective,
            np.array(block),
            begin,
            target=tol,
            max_iter=_MAX_ITER,
            keep=partial(keep, block),
            intercept=samples.intercept,
        )
        keep(block, minimum.U, now=True)
        for i, ridge in enumerate(block):
            n_iter = int(minimum.n_iter[i])
            late = Status.TOLERANCE_NOT_MET if n_iter < _MAX_ITER else Status.NOT_CONVERGED
            fit = fit_at(
                samples,
                loss.name,
                ridge,
                minimum.U[i].T @ basis.T,
                basis @ minimum.Z[i],
                float(minimum.evaluation.value[i]),
                float(minimum.distance[i]),
                Status.OK if minimum.converged[i] else late,
                n_iter=n_iter,
                gradient_norm=float(minimum.gradient_norm[i]),
                matrix_passes=(design.passes - before) / len(block),
            )
            done[ridge] = stopped(fit) if minimum.interrupted else fit
        start = fit.weights
        if minimum.interrupted:
            return [done.get(r) or stopped_at(0 * fit.weights, r, loss.name) for r in ridges]
    return [done[ridge] for ridge in ridges]


def through_nearest(points: Sequence[tuple[float, AnyArray]], t: float, count: int) -> AnyArray:
    """At t, the polynomial through the `count` points (t, array) that are nearest."""
    near = sorted(points, key=lambda point: abs(point[0] - t))[:count]
    out = np.zeros_like(near[0][1])
    for i, (node, array) in enumerate(near):
        out += math.prod((t - o) / (node - o) for j, (o, _) in enumerate(near) if j != i) * array
    return out
