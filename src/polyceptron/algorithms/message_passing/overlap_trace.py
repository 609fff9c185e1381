"""The overlaps of an iteration, step by step.

    q = ‖Ŵ‖²/(d r),   m = ⟨Ŵ, PW*⟩/(d r),   ε = ε(ρ),  ρ = m/√(q q*),  q* = ‖PW*‖²/(d r) → 1

with r = k − 1. Entry t is the point after t iterations and entry 0 the start, as in
`theory.state_evolution`; ε is that of the noiseless rule.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from polyceptron.algorithms.message_passing.damped_iteration import Iterate
from polyceptron.algorithms.message_passing.damping import inner
from polyceptron.theory.generalisation import generalisation_error

Array = NDArray[np.float64]


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
