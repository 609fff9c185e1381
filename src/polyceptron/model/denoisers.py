"""The two protocols that every student is made of, in theory and on data.

    student:  ω, y, V  →  f, −tr_⊥ ∂f       what it does with a label
    belief:   γ, Λ     →  mean, variance    what it makes of a row of weights

A `Channel` is the Bayes-optimal student and a `Loss` any other; the row of a `Prior` is the Bayes-
optimal belief and a `Penalty` any other.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Student(Protocol):
    """What is done with a label."""

    def denoise(self, omega: Any, label: Any, V: Any) -> tuple[Array, Array]:
        """f (n, k) and −tr_⊥ ∂f (n,) at fields ω (n, k), labels (n,) and uncertainty V."""
        ...


class RowEstimate(NamedTuple):
    """Mean of the row on class differences (..., k) and the trace of its covariance there (...)."""

    mean: Array
    variance: Array


class Belief(Protocol):
    """What is made of a row of weights, seen as γ = Λu + noise of variance Λ."""

    def denoise(self, gamma: Any, precision: Any) -> RowEstimate:
        """Mean and variance of u at γ (..., k) and scalar precision Λ (...)."""
        ...
