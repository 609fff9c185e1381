"""The weights side with matrices: from the samples' pull to the law of the fields (ridge λ).

Levels of eigenvalues, a fraction f of the directions, s_c the variance of group c there, G the
part of the means' Gram matrix there, θ the variance of a teacher's weights there:

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

from polyceptron.model.populations import Population
from polyceptron.numerics import Array


@dataclass(frozen=True)
class MatrixHats:
    """m̂ (G, r), Q̂ (G, r, r), V̂ (G, r, r), and M̂ (r, r) of a teacher (else 0)."""

    m: Array
    Q: Array
    V: Array
    M: Array


@dataclass(frozen=True)
class FieldsOrder:
    """m (G, r), Q (G, r, r), V (G, r, r), b (r,); of a teacher A (r, r), and Q holds E."""

    m: Array
    Q: Array
    V: Array
    b: Array
    A: Array


def weights_side(
    population: Population, R: Array, hats: MatrixHats, ridge: float, b: Array
) -> FieldsOrder:
    """The law of the fields after a round; b (r,) is handed through."""
    levels = population.levels_of_features
    if levels is None:
        return _in_full(population, hats, ridge, b)
    r = hats.m.shape[1]
    V, m, Q, X = [], [], [], []
    for f, s, gram, _ in zip(*levels, strict=True):
        S = np.linalg.inv(ridge * np.eye(r) + np.einsum("c,cij->ij", s, hats.V))
        inner = f * np.einsum("c,cij->ij", s, hats.Q) + hats.m.T @ gram @ hats.m
        V.append(f * s[:, None, None] * S)
        m.append(gram @ hats.m @ S)
        Q.append(s[:, None, None] * (S @ inner @ S))
        X.append(s[0] * S @ hats.M)
    A = np.zeros((r, r))
    E = sum(Q)
    if population.label_channel is not None:
        u = levels.fraction * levels.variance[:, 0] * levels.signal
        A = np.einsum("l,lij->ij", u, np.array(X))
        off = np.array(X) - A
        E = E + np.einsum("l,lij,jk,lmk->im", u, off, R, off)
    return FieldsOrder(sum(m), (E + E.swapaxes(1, 2)) / 2, sum(V), b, A)  # type: ignore[arg-type,union-attr]


def _in_full(population: Population, hats: MatrixHats, ridge: float, b: Array) -> FieldsOrder:
    """Covariances without common eigenvectors."""
    mu, sigma = population.full_features  # type: ignore[misc]
    d, r = mu.shape[1], hats.m.shape[1]
    size = r * d

    def flat(matrices: Array) -> Array:  # Σ_c matrices_c ⊗ Σ_c
        both = matrices.reshape(-1, r * r).T @ sigma.reshape(-1, d * d)
        return both.reshape(r, r, d, d).swapaxes(1, 2).reshape(size, size)

    def traced(matrix: Array) -> Array:  # with each Σ_c/d, over features
        parts = matrix.reshape(r, d, r, d).swapaxes(1, 2).reshape(r * r, d * d)
        return np.asarray((sigma.reshape(-1, d * d) @ parts.T / d).reshape(-1, r, r))

    factor, failed = dpotrf(ridge * np.eye(size) + flat(hats.V), lower=1)
    if failed:
        raise np.linalg.LinAlgError("not positive")
    S = np.tril(dpotri(factor, lower=1)[0])
    S = S + np.tril(S, -1).T
    mean = S @ np.einsum("ci,ca->ia", hats.m, mu).reshape(size)
    Q = traced(S @ flat(hats.Q) @ S + np.outer(mean, mean))
    m = np.einsum("ia,ca->ci", mean.reshape(r, d), mu) / d
    return FieldsOrder(m, (Q + Q.swapaxes(1, 2)) / 2, traced(S), b, np.zeros((r, r)))
