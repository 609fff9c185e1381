"""What the fields side computes: averages of a student's pull over teacher and student fields.

Student fields ω ~ N(0, q) and teacher fields z, Gaussian with correlation ρ in each class
direction; label y from the channel; f_y(ω) the student's pull at susceptibility V:

    M = (1/r) E Σ_l ∇Z_l·f_l,   Q = (1/r) E Σ_l Z_l ‖f_l‖²,   C = −(1/r) E Σ_l Z_l tr_⊥ ∂f_l

    D = (1/rq) E Σ_l Z_l ω·f_l                                   (kept as D₊ − D₋, by its sign)

so that m̂ = αM, q̂ = αQ, V̂ = αC (eq. SE). D follows from the others, by Gaussian integration by
parts C = (m/q)M − D, and replaces a difference of nearly equal numbers when data are plentiful.
Z_l is the probability of label l given ω.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from polyceptron.model.law import Law

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Averages:
    """Each an array (replicates,); deterministic rules have one replicate."""

    M: Array
    Q: Array
    C: Array
    D_plus: Array
    D_minus: Array
    loss: Array  # mean loss of training samples
    error: Array  # and the fraction of them that is mistaken
    mass: Array  # total probability that the rule saw, 1 up to its error

    def map(self, change: Callable[[Array], Array]) -> Averages:
        """The same change of every average."""
        return Averages(**{name: change(value) for name, value in self.items()})

    def mean(self) -> Averages:
        """One replicate: the mean of all."""
        if len(self.M) == 1:
            return self
        return self.map(lambda value: value.mean(keepdims=True))

    def items(self) -> list[tuple[str, Array]]:
        """Names and arrays."""
        return [(field.name, getattr(self, field.name)) for field in fields(self)]


Rule = Callable[[Law], Averages]
