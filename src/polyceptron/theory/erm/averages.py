"""Averages of a loss's denoiser over the teacher–student fields: all that the loss contributes.

Student fields ω = √q x and teacher fields u, Gaussian with correlation ρ per class direction,
τ = ρ/√(1 − ρ²); label y = argmax u; f_y(ω) the loss's denoiser at susceptibility V:

    M = (1/r) E Σ_l ∇Z*_l·f_l,   Q = (1/r) E Σ_l Z*_l ‖f_l‖²,   C = −(1/r) E Σ_l Z*_l tr_⊥ ∂f_l

    D = (1/rq) E Σ_l Z*_l ω·f_l                                  (kept as D₊ − D₋, by its sign)

so that m̂ = αM, q̂ = αQ, V̂ = αC (eq. SE). D follows from the others, by Gaussian integration by
parts C = (m/q)M − D, and replaces a difference of nearly equal numbers when data are plentiful.
Z*_l is the probability that class l wins given ω. By symmetry label 1 wins and class 2 is the
student's best loser, with a factor k(k−1).
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Law:
    """The joint law of the fields: τ = ρ/√(1−ρ²), norm q and susceptibility V."""

    tau: float
    q: float
    V: float

    @property
    def rho(self) -> float:
        """Correlation of student and teacher fields, m/√q."""
        return float(self.tau / np.hypot(1.0, self.tau))

    @property
    def m(self) -> float:
        """Overlap ρ√q."""
        return self.rho * float(np.sqrt(self.q))

    @property
    def teacher_width(self) -> float:
        """√(1 − ρ²), the spread of the teacher's fields given the student's."""
        return float(1 / np.hypot(1.0, self.tau))


@dataclass(frozen=True)
class Averages:
    """M, Q, C, D₊, D₋, and the mean loss and the error on training samples.

    Each is an array with one entry per replicate; deterministic rules have one.
    """

    M: Array
    Q: Array
    C: Array
    D_plus: Array
    D_minus: Array
    loss: Array
    error: Array
    mass: Array  # total probability that the rule saw, 1 up to its error

    @property
    def parts(self) -> tuple[Array, ...]:
        """The fields in order."""
        return tuple(getattr(self, field.name) for field in fields(self))

    def hats(self, alpha: float) -> tuple[Array, Array, Array]:
        """m̂, q̂, V̂ at sample ratio α."""
        return alpha * self.M, alpha * self.Q, alpha * self.C
