"""Moments of the classes of a data set, and their covariances shrunk towards a multiple of I.

    p_c = n_c/n,    mean of x in class c,    Σ_c = (1 − ρ)S_c + ρ s I

with S_c the covariance of the class's samples, s its mean eigenvalue over the features that vary,
and ρ the shrinkage of Ledoit and Wolf (J. Multivar. Anal. 88, 2004), from the samples' own spread:

    δ² = ‖S − sI‖²,    β² = (⟨‖x − x̄‖⁴⟩ − ‖S‖²)/n,    ρ = min(β²/δ², 1)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polyceptron.data.checks import check_samples
from polyceptron.data.stored_designs import DataMatrix
from polyceptron.errors import InvalidInput
from polyceptron.numerics import Array

# A variance below this share of the squared mean is the rounding of a constant feature.
ROUNDING_OF_SQUARED_MEAN = 1e-20

# The variance that shrunk covariances give to a feature without any, as a share of the mean one.
LEAST_VARIANCE = 1e-9

# Entries of covariances (k, d, d) that may be held in memory: 1.6 GB.
MOST_ENTRIES = 2e8


class ClassMoments(NamedTuple):
    """Moments of the samples of each class.

    Attributes
    ----------
    counts : ndarray of shape (k,)
        Samples of each class.
    means : ndarray of shape (k, d)
        Mean of x in each class.
    covariances : ndarray of shape (k, d, d)
        S_c; (1, d, d) if classes are pooled.
    fourth : ndarray of shape (k,)
        ⟨‖x − x̄‖⁴⟩ of each class.
    """

    counts: Array
    means: Array
    covariances: Array
    fourth: Array

    def pooled(self) -> ClassMoments:
        """Return the moments of all samples around the mean of their class, as of one class."""
        p = self.counts / self.counts.sum()
        S = np.einsum("c,cab->ab", p, self.covariances)[None]
        return ClassMoments(self.counts.sum(keepdims=True), self.means, S, p @ self.fourth[:, None])

    @property
    def varies(self) -> NDArray[np.bool_]:
        """Return which features vary within some class, beyond rounding: booleans (d,)."""
        largest_variance = np.einsum("caa->ca", self.covariances).max(0)
        return np.asarray(largest_variance > ROUNDING_OF_SQUARED_MEAN * (self.means**2).max(0))

    @property
    def mean_eigenvalues(self) -> Array:
        """The mean eigenvalue s of each covariance over the features that vary, (k,)."""
        return np.asarray(np.einsum("caa->c", self.covariances) / max(self.varies.sum(), 1))

    def shrinkage(self) -> Array:
        """Return the shrinkage ρ of Ledoit and Wolf of each class, (k,)."""
        S = self.covariances
        squares = np.einsum("cab,cab->c", S, S)
        # δ² = ‖S‖² − (tr S)²/d over the features that vary, and β².
        spread = squares - np.einsum("caa->c", S) ** 2 / max(self.varies.sum(), 1)
        noise = (self.fourth - squares) / self.counts
        defined = spread > 0
        ratio = noise / np.where(defined, spread, 1)
        return np.where(defined, np.minimum(ratio, 1), 1.0)

    def shrunk(self, shrinkage: Array) -> Array:
        """Return Σ = (1 − ρ)S + ρ s I of each class, (k, d, d), positive, at ρ (k,)."""
        result = self.covariances * (1 - shrinkage[:, None, None])
        added = np.where(self.varies, shrinkage[:, None], 0.0) + LEAST_VARIANCE
        diagonals = np.einsum("caa->ca", result)  # a view: what is added changes `result`
        diagonals += added * self.mean_eigenvalues[:, None]
        return result


def class_moments(X: DataMatrix, y: ArrayLike) -> ClassMoments:
    """Return the moments of each class of a data set.

    Parameters
    ----------
    X : array, memory map, sparse matrix or Dask array of shape (n, d)
        Inputs, read block by block.
    y : array_like of int of shape (n,)
        Labels in 0..k−1, with at least two samples of each class.

    Returns
    -------
    ClassMoments

    Examples
    --------
    >>> moments = class_moments([[0.0], [2.0], [5.0], [5.0]], [0, 0, 1, 1])
    >>> moments.means[:, 0].tolist(), moments.covariances[:, 0, 0].tolist()
    ([1.0, 5.0], [1.0, 0.0])
    """
    design, labels, k = check_samples(X, y, None)
    d = design.dimension
    counts = np.bincount(labels, minlength=k).astype(float)
    if counts.min() < 2:
        raise InvalidInput(
            f"a covariance needs at least 2 samples of a class, got {int(counts.min())} of class "
            f"{int(counts.argmin())}"
        )
    check_full_size(k, d)
    means = design.times_rows(np.eye(k)[:, labels]) / counts[:, None]
    S = np.zeros((k, d, d))
    fourth = np.zeros(k)
    for rows, block in design.blocks():
        for c in np.unique(labels[rows]):
            centred = np.asarray(block, dtype=float)[labels[rows] == c] - means[c]
            S[c] += centred.T @ centred
            fourth[c] += float(((centred**2).sum(1) ** 2).sum())
    return ClassMoments(counts, means, S / counts[:, None, None], fourth / counts)


def check_full_size(k: int, d: int) -> None:
    """Raise unless covariances (k, d, d) fit in memory."""
    if k * d * d > MOST_ENTRIES:
        raise InvalidInput(
            f"covariances in full are feasible for k·d² up to {MOST_ENTRIES:g}, got {k}·{d}²: use "
            "levels, in a shared eigenbasis, or fewer features"
        )
