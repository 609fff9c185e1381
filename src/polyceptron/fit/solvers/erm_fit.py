"""What a fit returns, Ŵ with its certificate, and how it is brought to the units of the data."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from polyceptron.data.checks import Samples, Units
from polyceptron.display import ShortDisplay
from polyceptron.fit.solvers.intercept import Intercept
from polyceptron.fit.solvers.rounding import EPS
from polyceptron.numerics import AnyArray, Array
from polyceptron.rows import Status


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
        if self.kind == "undecided":
            return None
        return bool(self)

    @property
    def weights(self) -> Array | None:
        """The direction, where it separates."""
        if self:
            return self.direction
        return None

    @property
    def least_norm(self) -> float:
        """A norm below which no weights have all margins at least 1."""
        if self.residual == 0:
            return math.inf
        return 1 / self.residual

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
    intercepts: Array = field(default_factory=lambda: np.zeros(0))  # (k,) zeros unless given

    def __post_init__(self) -> None:
        if self.intercepts.size == 0:
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
    """Return the fit of data in `units` as that of the data given, at the ridge given if any."""
    if fit.ridge == 0:
        ridge = 0.0
    shrink = units.ridge(ridge)[1]
    if intercept is None and units == Units() and not shrink:
        return fit
    weights = fit.weights
    offset = fit.intercepts
    reach = -units.p - shrink  # of the distance to the minimiser
    if intercept is not None:
        inner, offset = intercept.split(fit.weights.T)
        if shrink:
            offset = offset + (inner - np.ldexp(inner, -shrink)) @ intercept.mean
        weights = inner.T.copy()
        reach = max(-units.p, 0)  # intercepts have no unit
    bound = float(np.ldexp(fit.distance_bound, reach))
    return replace(
        fit,
        weights=np.ldexp(weights, -units.p - shrink),
        intercepts=offset,
        distance_bound=bound + 4 * EPS * float(np.linalg.norm(offset)),
        gradient_norm=float(np.ldexp(fit.gradient_norm, units.p + units.q)),
        ridge=ridge,
        separability=_proof_in_given_units(fit.separability, units, intercept),
    )


def _proof_in_given_units(
    proof: Separation | None, units: Units, intercept: Intercept | None
) -> Separation | None:
    """Return the proof of separability for the data given."""
    if proof is None:
        return None
    direction = proof.direction
    intercepts = proof.intercepts
    if direction is not None:
        if intercept is not None:
            inner, intercepts = intercept.split(direction.T)
            direction = inner.T.copy()
        direction = np.ldexp(direction, -units.p)
    residual = float(np.ldexp(proof.residual, units.p))
    return replace(proof, direction=direction, intercepts=intercepts, residual=residual)


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
    """Return the fit of weights (d, k) with their fields (k, n), Σℓ at them, and the bound."""
    training_error = math.nan
    if not np.isnan(fields).any():
        training_error = samples.error_rate(fields)
    rounding_of_weights = 4 * EPS * float(np.linalg.norm(weights))
    return ERMFit(
        weights=weights,
        ridge=ridge,
        loss=loss,
        status=status,
        distance_bound=bound + rounding_of_weights,
        training_loss=value / samples.total,
        training_error=training_error,
        **more,
    )


def stopped(fit: ERMFit) -> ERMFit:
    """Return the fit as one that was interrupted: its distance to the minimiser is unknown."""
    return replace(fit, status=Status.INTERRUPTED, gradient_norm=math.nan, distance_bound=math.inf)


def stopped_at(weights: Array, ridge: float, loss: str) -> ERMFit:
    """Return a fit of weights (d, k) of which nothing is known."""
    nan = math.nan
    return ERMFit(weights, nan, math.inf, 0, 0.0, nan, nan, Status.INTERRUPTED, ridge, loss)


def through_nearest(points: Sequence[tuple[float, AnyArray]], t: float, count: int) -> AnyArray:
    """Return the polynomial through the `count` points (t, array) that are nearest, at t."""
    nearest = sorted(points, key=lambda point: abs(point[0] - t))[:count]
    nodes = [node for node, _ in nearest]
    out = np.zeros_like(nearest[0][1])
    for i, (node, array) in enumerate(nearest):
        others = nodes[:i] + nodes[i + 1 :]
        out += math.prod((t - other) / (node - other) for other in others) * array
    return out
