"""The law of a linear student's fields in each group of a population, and what follows from it.

All of it is in contrast coordinates: with T (k, r) of `difference_basis`, r = k − 1, the class
fields of a fresh sample are T(ω + b), and

    group c:   ω ~ N(m_c, Q_c),     V_c the susceptibility

A mixture has a group for each class, and its label is the group. A teacher's population is one
group with m = 0, whose fields z = Tᵀ(class fields) ~ N(0, R) are correlated with the student's,
Cov(ω, z) = M: given ω they are N(MᵀQ⁻¹ω, R − MᵀQ⁻¹M), and the label is drawn by the population's
`label_channel` at z + Tᵀb*.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from polyceptron.model.checks import difference_basis
from polyceptron.numerics import Array


@dataclass(frozen=True)
class GroupLaw:
    """m (G, r), Q (G, r, r), V (G, r, r), intercepts b (r,), and M (r, r), R (r, r) of a teacher.

    G is 1 for a teacher (m = 0), k for a mixture (M and R are None).
    """

    m: Array
    Q: Array
    V: Array
    b: Array
    M: Array | None = None
    R: Array | None = None

    @property
    def n_classes(self) -> int:
        """k."""
        return len(self.b) + 1

    @property
    def class_means(self) -> Array:
        """Means of the class fields with intercepts, T(m_c + b), (G, k)."""
        return np.asarray((self.m + self.b) @ difference_basis(self.n_classes).T)

    @property
    def class_covariances(self) -> Array:
        """Covariances of the class fields, TQ_cTᵀ, (G, k, k)."""
        T = difference_basis(self.n_classes)
        return np.asarray(T @ self.Q @ T.T)

    @property
    def intercepts(self) -> Array:
        """Tb (k,), of mean 0."""
        return np.asarray(difference_basis(self.n_classes) @ self.b)
