"""Making correlated features fit for message passing: no direction louder than noise could be.

Message passing is derived for independent inputs. The singular values of such an n × d matrix of
unit variance stay below √n + √d; correlated features have larger ones, and the iteration then
oscillates or diverges. The remedy is a linear map that shrinks the directions above that edge to
it and leaves all others alone:

    x ↦ x + Σ_i (edge/s_i − 1)(x·v_i) v_i,     over singular values s_i > edge.

On independent inputs it is the identity. (Whitening all directions instead was tried: it cost two
points of accuracy on scikit-learn's breast-cancer data, because it amplifies the quiet ones.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

Array = NDArray[np.float64]

_SLACK = 1.05  # independent inputs exceed the edge by their fluctuations
_LARGE = 500


@dataclass(frozen=True)
class Compression:
    """Directions (d, c) to shrink and the factors (c,) by which."""

    directions: Array
    factors: Array

    @classmethod
    def fit(cls, A: Array) -> Compression:
        """The map for the matrix A (n, d) of unit-variance features."""
        n, d = A.shape
        edge = _SLACK * (math.sqrt(n) + math.sqrt(d))
        if min(n, d) > _LARGE and _loudest(A) < edge:  # some passes over A instead of its square
            return cls(np.zeros((d, 0)), np.zeros(0))
        gram = A.T @ A if d <= n else A @ A.T
        squares, vectors = scipy.linalg.eigh(gram, subset_by_value=(edge**2, np.inf))
        loud = np.sqrt(squares)
        directions = vectors if d <= n else A.T @ (vectors / loud)
        return cls(directions, edge / loud)

    def apply(self, A: Array) -> Array:
        """Compressed features, (n, d)."""
        result: Array = A + ((A @ self.directions) * (self.factors - 1)) @ self.directions.T
        return result

    def pull_back(self, weights: Array) -> Array:
        """Weights (d, k) of the compressed features as weights of the features themselves."""
        return self.apply(weights.T).T


def _loudest(A: Array) -> float:
    """The largest singular value, to a percent."""
    from scipy.sparse.linalg import svds

    first = np.random.default_rng(0).standard_normal(min(A.shape))
    return float(svds(A, k=1, tol=1e-2, v0=first, return_singular_vectors=False)[0])
