"""What a fit returns, and when its certificate is good enough."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from polyceptron.algorithms.design import Array
from polyceptron.algorithms.erm.rounding import EPS
from polyceptron.algorithms.separation_proof import SeparabilityOfData
from polyceptron.display import ShortDisplay
from polyceptron.errors import ComputationFailed
from polyceptron.rows import Status


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
