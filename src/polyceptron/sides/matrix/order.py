"""What goes round the loop where classes are unequal: matrices in place of the scalars.

All matrices act on class differences, in the contrast coordinates T (k, r), r = k − 1, an
orthonormal basis of 1⊥. A population has G groups c with shares p_c: the classes of a mixture, or
the one group of a teacher. In group c the student's fields are

    ω ~ N(m_c, Q_c),    and T(ω + b) are the fields of the k classes with the intercept b.

A teacher's fields z ~ N(b*, R) are told apart from what else the student's vary with:

    ω = A(z − b*) + rest,    Q = ARAᵀ + E,    M = Cov(ω, z) = AR,    E the covariance of the rest

so that `MatrixOrder.Q` holds E there: a positive matrix, whatever A is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyceptron.checks import difference_basis
from polyceptron.numerics import Array
from polyceptron.problem.losses import Loss
from polyceptron.problem.populations import Population
from polyceptron.problem.specs import ERM, Probabilities

Labels = NDArray[np.int64]

# Relative to the trace: lets a covariance with a direction of no variance have a Cholesky factor.
VARIANCE_ADDED_FOR_CHOLESKY = 1e-15


class MatrixOrder(NamedTuple):
    """The law of the fields.

    Attributes
    ----------
    m : array, shape (G, r)
        Means; 0 for a teacher.
    Q : array, shape (G, r, r)
        Covariances of a mixture; for a teacher E, what its fields do not explain.
    V : array, shape (G, r, r)
        Susceptibilities.
    b : array, shape (r,)
        Intercepts.
    A : array, shape (r, r)
        How the fields follow those of a teacher; 0 for a mixture.
    """

    m: Array
    Q: Array
    V: Array
    b: Array
    A: Array


class MatrixConjugates(NamedTuple):
    """What n = αd samples tell the weights: m̂ (G, r), Q̂ and V̂ (G, r, r), and M̂ (r, r).

    M̂ belongs to a teacher and is 0 for a mixture.
    """

    m: Array
    Q: Array
    V: Array
    M: Array


@dataclass(frozen=True)
class MatrixProblem:
    """A population and a risk.

    Attributes
    ----------
    population : Population
    loss : Loss
    class_weights : array, shape (k,)
        Factors of the loss of samples with each label.
    ridge : float
    alpha : float
        n/d.
    intercept : bool
        Whether b is fitted.
    copies : tuple of (w, p)
        Random weights w of single samples with their probabilities p; what is missing of
        probability 1 are samples of weight 0.
    """

    population: Population
    loss: Loss
    class_weights: Array
    ridge: float
    alpha: float
    intercept: bool
    copies: tuple[tuple[float, float], ...] = ((1.0, 1.0),)

    @property
    def n_classes(self) -> int:
        """k."""
        return self.population.n_classes

    @property
    def n_groups(self) -> int:
        """G."""
        return len(self.population.group_shares)

    @property
    def basis(self) -> Array:
        """T (k, r)."""
        return difference_basis(self.n_classes)

    @property
    def has_teacher(self) -> bool:
        """True if labels are drawn from a teacher's fields."""
        return self.population.label_channel is not None

    @cached_property
    def R(self) -> Array:
        """Covariance of a teacher's fields (r, r)."""
        return np.asarray(self.basis.T @ self.population.field_covariance @ self.basis)

    @cached_property
    def utility_covariance(self) -> Array:
        """R' (r, r): R with the Gaussian noise of labels."""
        channel = self.population.label_channel
        variance = 0.0
        if channel is not None and channel.utility_variance is not None:
            variance = channel.utility_variance
        return self.R + variance * np.eye(self.n_classes - 1)

    @property
    def probabilities(self) -> Probabilities | None:
        """Fields → class probabilities, where the loss stands for some."""
        return ERM(self.loss).probabilities(self.population, None)

    @property
    def sampled(self) -> bool:
        """True if averages are over random points (`points.py`), and not on boxes (`graph.py`).

        Boxes serve two and three classes, unless kinks of the loss tie several gaps.
        """
        tied = self.loss.margin_atom is not None and self.n_classes > 2
        return self.n_classes > 3 or tied


class MatrixAverages(NamedTuple):
    """What one pass over the fields side gives.

    Attributes
    ----------
    hats : MatrixConjugates
    loss, error : float
        Of training samples, without class weights.
    missed : float
        By how much the weights of the nodes of a group miss 1, at worst.
    """

    hats: MatrixConjugates
    loss: float
    error: float
    missed: float = 0.0


def conjugates_of_means(
    problem: MatrixProblem, f: Array, ff: Array, stiffness: Array, cross: Array
) -> MatrixConjugates:
    """Return m̂_c = αp_c E f, Q̂_c = αp_c E ffᵀ, V̂_c = αp_c E(−∂f) and M̂ = α E Σ_y f_y ∂Z_yᵀ.

    Parameters
    ----------
    problem : MatrixProblem
    f : array, shape (G, r)
    ff, stiffness : array, shape (G, r, r)
    cross : array, shape (r, r)
    """
    samples = problem.alpha * problem.population.group_shares[:, None, None]
    return MatrixConjugates(
        samples[:, 0] * f, samples * ff, samples * stiffness, problem.alpha * cross
    )


def lower_root(Q: Array) -> Array:
    """Return the lower triangular L with LLᵀ = Q (r, r)."""
    if len(Q) == 1:
        return np.sqrt(Q)
    added = VARIANCE_ADDED_FOR_CHOLESKY * np.trace(Q) * np.eye(len(Q))
    return np.asarray(np.linalg.cholesky(Q + added))


class TeacherGivenFields(NamedTuple):
    """The student's fields and what they say of a teacher's.

    Attributes
    ----------
    covariance : array, shape (r, r)
        Var ω = ARAᵀ + E.
    slope : array, shape (r, r)
        E[z | ω] = b* + slope ω.
    remaining : array, shape (r, r)
        Var(z | ω).
    """

    covariance: Array
    slope: Array
    remaining: Array


def teacher_given_fields(problem: MatrixProblem, order: MatrixOrder) -> TeacherGivenFields:
    """Return the law of a teacher's fields z given the student's ω."""
    R = problem.R
    A = order.A
    E = order.Q[0]
    Q = A @ R @ A.T + E
    slope = R @ A.T @ np.linalg.inv(Q)
    # R − RAᵀQ⁻¹AR without a difference of nearly equal matrices.
    remaining = np.linalg.solve(np.eye(len(R)) + R @ A.T @ np.linalg.solve(E, A), R)
    return TeacherGivenFields(Q, slope, (remaining + remaining.T) / 2)
