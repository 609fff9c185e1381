"""The weights side with matrices and a ridge λ: from the samples' pull to the law of the fields.

Levels of eigenvalues, a fraction f of the directions, s_c the variance of group c there, G the part
of the means' Gram matrix there, θ the variance of a teacher's weights there:

    S = (λI + Σ_c s_c V̂_c)⁻¹,     V_c = ⟨s_c S⟩,     m_c = Σ (S m̂ G)_c
    Q_c = ⟨s_c S(Σ_c' s_c' Q̂_c')S⟩ + Σ s_c S m̂ G m̂ᵀ S
    a teacher:  A = ⟨s²θ S⟩ M̂,   M = AR,   Q = AR Aᵀ + E,   E = ⟨s² S Q̂ S⟩ + Σ u (X − A)R(X − A)ᵀ

⟨·⟩ is the mean over directions (Σ f); X = s S M̂ and u = f s θ, of sum 1: E, what of the student's
fields the teacher's do not explain, is a sum of positive parts. Without eigenvectors in common, S
is the inverse of λI + Σ_c V̂_c ⊗ Σ_c, of size rd, and the means are partial traces with Σ_c/d.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri

from polyceptron.numerics import Array
from polyceptron.problem.population import FeatureLevels
from polyceptron.problem.populations import Population
from polyceptron.sides.matrix.order import MatrixConjugates, MatrixOrder


def weights_side(
    population: Population, R: Array, hats: MatrixConjugates, ridge: float, b: Array
) -> MatrixOrder:
    """Return the law of the fields after a round.

    Parameters
    ----------
    population : Population
    R : array, shape (r, r)
        Covariance of a teacher's fields.
    hats : MatrixConjugates
    ridge : float
    b : array, shape (r,)
        Intercepts, handed through.
    """
    levels = population.levels_of_features
    if levels is None:
        return _in_full(population, hats, ridge, b)
    f = levels.fraction[:, None, None]
    s = levels.variance
    S = np.linalg.inv(ridge * np.eye(len(b)) + np.einsum("lc,cij->lij", s, hats.V))
    noise = f * np.einsum("lc,cij->lij", s, hats.Q)
    inner = noise + hats.m.T @ levels.gram @ hats.m
    E = np.einsum("lc,lij->cij", s, S @ inner @ S)
    A = np.zeros_like(R)
    if population.label_channel is not None:
        A, unexplained = _teacher_part(levels, R, S, hats.M)
        E = E + unexplained
    V = np.einsum("lc,lij->cij", s, f * S)
    m = (levels.gram @ hats.m @ S).sum(0)
    return MatrixOrder(m, (E + E.swapaxes(1, 2)) / 2, V, b, A)


def _teacher_part(levels: FeatureLevels, R: Array, S: Array, M_hat: Array) -> tuple[Array, Array]:
    """Return A (r, r), and Σ u (X − A)R(X − A)ᵀ (r, r), for S (L, r, r)."""
    s = levels.variance[:, 0]
    u = levels.fraction[:, None, None] * (s * levels.signal)[:, None, None]
    X = s[:, None, None] * (S @ M_hat)
    A = (u * X).sum(0)
    return A, (u * ((X - A) @ R @ (X - A).swapaxes(1, 2))).sum(0)


def _in_full(population: Population, hats: MatrixConjugates, ridge: float, b: Array) -> MatrixOrder:
    """Return the law of a mixture whose covariances share no eigenvectors."""
    assert population.full_features is not None
    mu, sigma = population.full_features
    product = KroneckerSpace(sigma, len(b))
    S = _inverse(ridge * np.eye(product.size) + product.sum_of_products(hats.V))
    mean = S @ np.einsum("ci,ca->ia", hats.m, mu).reshape(product.size)
    covariance = S @ product.sum_of_products(hats.Q) @ S + np.outer(mean, mean)
    Q = product.partial_traces(covariance)
    m = np.einsum("ia,ca->ci", mean.reshape(len(b), -1), mu) / mu.shape[1]
    V = product.partial_traces(S)
    return MatrixOrder(m, (Q + Q.swapaxes(1, 2)) / 2, V, b, np.zeros((len(b), len(b))))


@dataclass(frozen=True)
class KroneckerSpace:
    """Matrices (rd, rd) on r class differences and d features, with covariances Σ (k, d, d)."""

    sigma: Array
    r: int

    @property
    def d(self) -> int:
        """Features."""
        return int(self.sigma.shape[1])

    @property
    def size(self) -> int:
        """Rows, rd."""
        return self.r * self.d

    def sum_of_products(self, matrices: Array) -> Array:
        """Return Σ_c matrices_c ⊗ Σ_c (rd, rd) of matrices (k, r, r)."""
        r = self.r
        d = self.d
        both = matrices.reshape(-1, r * r).T @ self.sigma.reshape(-1, d * d)
        return np.asarray(both.reshape(r, r, d, d).swapaxes(1, 2).reshape(self.size, self.size))

    def partial_traces(self, matrix: Array) -> Array:
        """Return tr(Σ_c · )/d over the features of a matrix (rd, rd), shape (k, r, r)."""
        r = self.r
        d = self.d
        parts = matrix.reshape(r, d, r, d).swapaxes(1, 2).reshape(r * r, d * d)
        return np.asarray((self.sigma.reshape(-1, d * d) @ parts.T / d).reshape(-1, r, r))


def _inverse(matrix: Array) -> Array:
    """Return the inverse of a positive matrix; raise LinAlgError of another."""
    factor, failed = dpotrf(matrix, lower=1)
    if failed:
        raise np.linalg.LinAlgError("not positive")
    lower = np.tril(dpotri(factor, lower=1)[0])
    return np.asarray(lower + np.tril(lower, -1).T)
