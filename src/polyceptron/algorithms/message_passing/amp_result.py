"""What message passing returns.

The overlaps of an iteration, step by step.

    q = ‖Ŵ‖²/(d r),   m = ⟨Ŵ, PW*⟩/(d r),   ε = ε(ρ),  ρ = m/√(q q*),  q* = ‖PW*‖²/(d r) → 1

with r = k − 1. Entry t is the point after t iterations and entry 0 the start, as in
`theory.state_evolution`; ε is that of the noiseless rule.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from polyceptron.algorithms.message_passing.iteration import Ending, Iterate, inner
from polyceptron.display import ShortDisplay
from polyceptron.numerics import Array
from polyceptron.rows import Status
from polyceptron.theory.generalisation import generalisation_error


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

    >>> from polyceptron.algorithms.message_passing.posterior_mean import amp
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


class OverlapTrace:
    """Called with every iterate; `entries()` gives the list of dicts."""

    def __init__(self, basis: Array, truth: Array | None) -> None:
        """`basis` (k, c) of the weights' coordinates; `truth` (d, k), or None: no m, no error."""
        self.n_classes = basis.shape[0]
        self.truth = None if truth is None else np.ascontiguousarray((truth @ basis).T)
        self._entries: list[dict[str, float]] = []

    def __call__(self, t: int, here: Iterate, residual: float, damping: float) -> None:
        U = here.weights
        if len(U) == self.n_classes:  # coordinates that show the common part, which is not counted
            U = U - U.mean(0)
        size = U.shape[1] * (self.n_classes - 1)
        entry = {"iteration": t, "q": inner(U, U) / size}
        if self.truth is not None:
            entry["m"] = inner(U, self.truth) / size
        entry |= {"residual": residual, "damping": damping}
        self._entries.append(entry)

    @property
    def so_far(self) -> list[dict[str, float]]:
        """The entries without the generalisation error."""
        return self._entries

    def restore(self, entries: list[dict[str, float]]) -> None:
        """Go on from these entries."""
        self._entries = [{**entry, "iteration": int(entry["iteration"])} for entry in entries]

    def entries(self) -> list[dict[str, float]]:
        """The entries, with the generalisation error if the teacher is known."""
        if self.truth is None:
            return self._entries
        size = self.truth.shape[1] * (self.n_classes - 1)
        teacher = inner(self.truth, self.truth) / size
        rho = [
            max(-1.0, min(1.0, e["m"] / math.sqrt(e["q"] * teacher)))
            if e["q"] * teacher > 0
            else 0.0
            for e in self._entries
        ]
        errors = generalisation_error(np.array(rho), self.n_classes)
        return [
            {**entry, "generalisation_error": float(error)}
            for entry, error in zip(self._entries, errors, strict=True)
        ]
