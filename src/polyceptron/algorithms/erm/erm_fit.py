"""Whether data can be separated: the answer with what proves it.

What a fit returns, and when its certificate is good enough.

Where Newton's method is, so that it can be kept and go on as it was.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyceptron.algorithms.checkpoints import State
from polyceptron.algorithms.erm.objectives import EPS
from polyceptron.display import ShortDisplay
from polyceptron.errors import ComputationFailed
from polyceptron.numerics import Array
from polyceptron.rows import Status


@dataclass(frozen=True, repr=False)
class SeparabilityOfData(ShortDisplay):
    """The answer and its proof.

    `separable` is True with `weights` (d, k), whose smallest margin is 1; False with `multipliers`
    (n, k), a of sample and wrong class, for which any weights with all margins ≥ 1 have a norm of
    at least `least_norm`; None where neither was found.
    """

    separable: bool | None
    weights: Array | None
    multipliers: Array | None
    residual: float  # ‖R‖ at Σa = 1
    least_norm: float  # of weights with all margins at least 1

    def _facts(self) -> dict[str, Any]:
        return {name: v for name, v in super()._facts().items() if v == v}  # a proof has its own

    def __bool__(self) -> bool:
        return bool(self.separable)


@dataclass(frozen=True, repr=False)
class ERMFit(ShortDisplay):
    """Weights Ŵ (d, k) with the certificate of how close to the minimiser they are.

    ‖weights − minimiser‖_F ≤ distance_bound, by strong convexity (norm of the gradient, with what
    rounding may hide of it, over λ; for max-margin the square root of twice the duality gap, or the
    residual of a direct solve). `status` is OK when the bound is within the asked tolerance times
    the norm of the weights, or the minimiser is 0 to rounding; 'tolerance-not-met' when rounding
    does not allow that; 'not-converged' when the iterations ran out. `matrix_passes` counts the
    reads of X, one in single precision being one half. `training_loss` is the mean per sample,
    without the ridge. `separability` is what a ridge of 0 found out about the data.
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
    separability: SeparabilityOfData | None = None

    def _facts(self) -> dict[str, Any]:
        d, k = self.weights.shape
        names = ("distance_bound", "training_loss", "training_error", "n_iter", "matrix_passes")
        facts: dict[str, Any] = {"loss": self.loss, "ridge": self.ridge, "status": str(self.status)}
        facts |= {"dimension": d, "n_classes": k}
        if self.separability is not None:
            facts["separable"] = self.separability.separable
        return facts | {name: getattr(self, name) for name in names}


def bound_in_weights(bound: float, weights: Array) -> float:
    """A bound on the distance, with the rounding of the weights themselves."""
    return bound + 4 * EPS * float(np.linalg.norm(weights))


def require_converged(fit: ERMFit, tol: float) -> ERMFit:
    """The fit itself, or a loud failure when its certificate misses the tolerance."""
    if fit.status != Status.OK:
        raise ComputationFailed(
            f"the {fit.loss} fit at ridge {fit.ridge:g} ended with status {fit.status}: its "
            f"weights are certified to within {fit.distance_bound:.2g} of the minimiser (norm "
            f"{np.linalg.norm(fit.weights):.3g}), the tolerance asked is {tol:g} relative; "
            "ask for a larger tolerance or ridge"
        )
    return fit


@dataclass
class AtWork:
    """The λ still at work: their number in the batch and how their gradients have fallen."""

    index: NDArray[np.int64]
    first: Array
    previous: Array
    stalled: NDArray[np.int64]
    double: NDArray[np.bool_]  # whether the inner solves need double precision

    @classmethod
    def begin(cls, index: NDArray[np.int64], *, single: bool) -> AtWork:
        """These λ, in single precision or in double from the start."""
        infinite = np.full(index.size, np.inf)
        stalled = np.zeros(index.size, np.int64)
        return cls(index, infinite, infinite.copy(), stalled, np.full(index.size, not single))

    def copy(self) -> AtWork:
        """One that can change without this one."""
        return AtWork(*(getattr(self, field.name).copy() for field in fields(self)))

    def keep(self, mask: NDArray[np.bool_]) -> None:
        """Go on with these alone."""
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name)[mask])


@dataclass
class Descent:
    """U (L, r, d) and its fields Z (L, r, n), the steps made and allowed (L,), and who is at work.

    `stage` counts how often the fields were made afresh; `whole` is False while U and Z move. All
    of it is as it was at the end of a step: an interrupted one has not happened.
    """

    U: Array
    Z: Array
    count: NDArray[np.int64]
    limit: NDArray[np.int64]
    stage: int = 0
    work: AtWork | None = None
    whole: bool = True

    def arrays(self) -> State:
        """All of it, for a checkpoint."""
        state: State = {name: getattr(self, name) for name in ("U", "Z", "count", "limit", "stage")}
        if self.work is not None:
            state |= {f"work_{f.name}": getattr(self.work, f.name) for f in fields(AtWork)}
        return state

    @classmethod
    def of(cls, state: State) -> Descent:
        """The inverse of `arrays`."""
        work: Any = None
        if "work_index" in state:
            work = AtWork(*(state[f"work_{f.name}"] for f in fields(AtWork)))
        U, Z, count, limit = (state[name] for name in ("U", "Z", "count", "limit"))
        return cls(U, Z, count, limit, int(state["stage"]), work)
