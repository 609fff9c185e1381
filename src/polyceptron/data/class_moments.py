"""Moments of the classes of a data set, and their covariances shrunk towards a multiple of I.

    p_c = n_c/n,    mean of x in class c,    Σ_c = (1 − ρ)S_c + ρ s I

with S_c the covariance of the class's samples, s its mean eigenvalue over the features that vary,
and ρ the shrinkage of Ledoit and Wolf (J. Multivar. Anal. 88, 2004), from the samples' own spread:

    δ² = ‖S − sI‖²,    β² = (⟨‖x − x̄‖⁴⟩ − ‖S‖²)/n,    ρ = min(β²/δ², 1)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from polyceptron.data.checks import check_samples
from polyceptron.errors import InvalidInput
from polyceptron.numerics import Array

_ROUNDING = 1e-20  # of a squared mean: a variance that is none
LEAST_VARIANCE = 1e-9  # of the mean variance: what a feature without variance has


MOST_ENTRIES = 2e8  # of covariances (k, d, d) held in memory: 1.6 GB


class ClassMoments(NamedTuple):
    """Counts (k,), means (k, d), covariances S (k, d, d) of classes, ⟨‖x − x̄‖⁴⟩ (k,)."""

    counts: Array
    means: Array
    covariances: Array
    fourth: Array

    def pooled(self) -> ClassMoments:
        """Of all samples around the mean of their class, as one class; means stay."""
        p = self.counts / self.counts.sum()
        S = np.einsum("c,cab->ab", p, self.covariances)[None]
        return ClassMoments(self.counts.sum(keepdims=True), self.means, S, p @ self.fourth[:, None])

    @property
    def varies(self) -> Array:
        """Which features vary within some class, beyond rounding: (d,)."""
        return np.einsum("caa->ca", self.covariances).max(0) > _ROUNDING * (self.means**2).max(0)

    def shrinkage(self) -> Array:
        """ρ of each class, (k,)."""
        S = self.covariances
        squares = np.einsum("cab,cab->c", S, S)
        spread = squares - np.einsum("caa->c", S) ** 2 / max(self.varies.sum(), 1)
        noise = (self.fourth - squares) / self.counts
        return np.where(spread > 0, np.minimum(noise / np.where(spread > 0, spread, 1), 1), 1.0)

    def shrunk(self, shrinkage: Array) -> Array:
        """Σ (k, d, d), positive."""
        mean = np.einsum("caa->c", self.covariances) / max(self.varies.sum(), 1)
        made = self.covariances * (1 - shrinkage[:, None, None])
        target = np.where(self.varies, shrinkage[:, None], 0.0) + LEAST_VARIANCE
        np.einsum("caa->ca", made)[:] += target * mean[:, None]
        return made


def class_moments(X: Any, y: Any) -> ClassMoments:
    """Moments of X (n, d) by labels y (n,) in 0..k-1, with at least two samples of each class."""
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
    S, fourth = np.zeros((k, d, d)), np.zeros(k)
    for rows, block in design.blocks():
        for c in np.unique(labels[rows]):
            away = np.asarray(block, dtype=float)[labels[rows] == c] - means[c]
            S[c] += away.T @ away
            fourth[c] += float(((away**2).sum(1) ** 2).sum())
    return ClassMoments(counts, means, S / counts[:, None, None], fourth / counts)


def check_full_size(k: int, d: int) -> None:
    """Covariances that fit in memory, or an error message."""
    if k * d * d > MOST_ENTRIES:
        raise InvalidInput(
            f"covariances in full are feasible for k·d² up to {MOST_ENTRIES:g}, got {k}·{d}²: use "
            "levels, in a shared eigenbasis, or fewer features"
        )
