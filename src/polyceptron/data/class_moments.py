"""Moments of the classes of a data set, and the Gaussian mixture that has them: its twin.

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
from polyceptron.problem.populations import Mixture
from polyceptron.problem.mixture import check_full_size
from polyceptron.numerics import Array

COVARIANCES = ("own", "pooled", "isotropic")
_ROUNDING = 1e-20  # of a squared mean: a variance that is none
_LEAST = 1e-9  # of the mean variance: what a feature without variance has


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
        target = np.where(self.varies, shrinkage[:, None], 0.0) + _LEAST
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


def twin_of(moments: ClassMoments, covariances: str = "own", shrink: Any = "auto") -> Mixture:
    """The mixture with these moments; see `Mixture.from_data`."""
    if covariances not in COVARIANCES:
        allowed = ", ".join(COVARIANCES)
        raise InvalidInput(f"covariances of a twin are {allowed}, got {covariances!r}")
    if shrink != "auto" and not (isinstance(shrink, int | float) and 0 <= shrink <= 1):
        raise InvalidInput(f"shrink is 'auto' or a number from 0 to 1, got {shrink!r}")
    shares, means, k = moments.counts / moments.counts.sum(), moments.means, len(moments.counts)
    if covariances == "isotropic":
        s = np.trace(moments.covariances, axis1=1, axis2=2) / means.shape[1]
        return Mixture(shares, means=means, variances=np.maximum(s, _LEAST * s.max() + 1e-300))
    used = moments if covariances == "own" else moments.pooled()
    rho = used.shrinkage() if shrink == "auto" else np.full(len(used.counts), float(shrink))
    sigma = np.broadcast_to(used.shrunk(rho), (k, *used.covariances.shape[1:]))
    return Mixture(shares, means=means, covariances=sigma)


def mixture_of_data(X: Any, y: Any, covariances: str = "own", shrink: Any = "auto") -> Mixture:
    """`Mixture.from_data`."""
    return twin_of(class_moments(X, y), covariances, shrink)
