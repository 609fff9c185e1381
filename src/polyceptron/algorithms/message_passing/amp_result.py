"""What message passing returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyceptron.algorithms.message_passing.damped_iteration import Ending
from polyceptron.display import ShortDisplay
from polyceptron.rows import Status

Array = NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class AMPResult(ShortDisplay):
    """The estimate, how sure it is, and how it was reached.

    weights (d, k): the posterior mean of the teacher's weights, without the part common to all
    classes (rows sum to zero); for `amp_erm`, the minimiser.
    variance: posterior variance of a weight per class direction. A number for shared variances; for
    full ones the covariances (d, k, k) when k ≤ 3, and (d, k) numbers v, the covariance of
    coordinate j being P diag(v_j) P with P = I − 11ᵀ/k, when k > 3.
    status: 'ok', or 'not-converged' with the best iterate. residual: the change, relative to the
    weights, that one more undamped iteration would make. damping: the largest used, 0 for none.
    trace: one dict per iteration, ready for `pandas.DataFrame`; entry t is the point after t
    iterations, entry 0 the start: iteration, q, residual, damping, and if the teacher is known m
    and generalisation_error. scores (n, k): f of every sample, whose cavity field is XŴ/√d − V f.

    n_iter: how many iterations were made.

    >>> from polyceptron.algorithms import amp
    >>> from polyceptron.model import Teacher
    >>> X, y, _ = Teacher(3).sample(n_samples=300, dimension=100, seed=0)
    >>> result = amp(X, y)
    >>> result.weights.shape, str(result.status)
    ((100, 3), 'ok')
    """

    weights: Array
    variance: Any
    n_iter: int
    status: Status
    residual: float
    damping: float = 0.0
    trace: list[dict[str, float]] = field(default_factory=list)
    scores: Array = field(default_factory=lambda: np.zeros((0, 0)))

    @classmethod
    def of(
        cls, end: Ending, basis: Array, variance: Any, trace: list[dict[str, float]]
    ) -> AMPResult:
        """From the end of an iteration in the coordinates of `basis` (k, r)."""
        weights = np.ascontiguousarray(end.last.weights.T @ basis.T)
        scores = np.ascontiguousarray(end.last.scores.T @ basis.T)
        return cls(
            weights, variance, end.n_iter, end.status, end.residual, end.damping, trace, scores
        )

    def _facts(self) -> dict[str, Any]:
        d, k = self.weights.shape
        facts: dict[str, Any] = {"status": str(self.status), "dimension": d, "n_classes": k}
        facts |= {"n_iter": self.n_iter, "residual": self.residual, "damping": self.damping}
        last = self.trace[-1] if self.trace else {}
        names = ("q", "m", "generalisation_error")
        return facts | {name: float(last[name]) for name in names if name in last}
