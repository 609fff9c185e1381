"""What message passing on data returns."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from polyceptron.display import ShortDisplay
from polyceptron.numerics import Array
from polyceptron.rows import Status


@dataclass(frozen=True, repr=False)
class AMPResult(ShortDisplay):
    """The estimate, its variance, and how it was reached.

    Attributes
    ----------
    weights : ndarray of shape (d, k)
        Posterior mean of the teacher's weights, without the part common to all classes (rows sum to
        zero); for `amp_erm`, the minimiser.
    variance : float or ndarray
        Posterior variance of a weight per class direction: a number for shared variances; for full
        ones covariances (d, k, k) when k ≤ 3, and (d, k) numbers v, the covariance of coordinate j
        being P diag(v_j) P with P = I − 11ᵀ/k, when k > 3; where classes are not exchangeable in
        `amp_erm`, the (k, k) matrix that all coordinates share.
    n_iter : int
        Iterations made.
    status : Status
        'ok', or 'not-converged' or 'interrupted' with the best iterate.
    residual : float
        The change, relative to the weights, that one more undamped iteration would make.
    damping : float
        The largest used, 0 for none.
    trace : list of dict
        Entry t is the point after t iterations, entry 0 the start: iteration, q, residual, damping,
        and if the teacher is known m and generalisation_error.
    scores : ndarray of shape (n, k)
        f of every sample, whose cavity field is XŴ/√d − V f.
    intercepts : ndarray of shape (k,)
        b of the fields Ŵᵀx/√d + b, 0 where none is fitted.

    Examples
    --------
    >>> from polyceptron.message_passing.posterior_mean import amp
    >>> from polyceptron.problem import Teacher
    >>> result = amp(*Teacher(3).sample(n_samples=300, dimension=100, seed=0)[:2])
    >>> result.weights.shape, str(result.status)
    ((100, 3), 'ok')
    """

    weights: Array
    variance: float | Array
    n_iter: int
    status: Status
    residual: float
    damping: float = 0.0
    trace: list[dict[str, float]] = field(default_factory=list)
    scores: Array = field(default_factory=lambda: np.zeros((0, 0)))
    intercepts: Array = field(default_factory=lambda: np.zeros(0))

    def _facts(self) -> dict[str, str | bool | int | float]:
        """Return what the short display shows."""
        d, k = self.weights.shape
        facts: dict[str, str | bool | int | float] = {
            "status": str(self.status),
            "dimension": d,
            "n_classes": k,
            "n_iter": self.n_iter,
            "residual": self.residual,
            "damping": self.damping,
        }
        if self.trace:
            last = self.trace[-1]
            for name in ("q", "m", "generalisation_error"):
                if name in last:
                    facts[name] = float(last[name])
        return facts
