"""A spectrum from data: eigenvalues of the sample covariance, and the teacher's signal along them.

In the eigenbasis, whitened, the features are uncorrelated in the sample, so that the least-squares
fit of the one-hot labels has coefficients c_ih = (1/n) Σ_μ u_iμ (1[y_μ = h] − p_h). For Gaussian
inputs they are proportional to √s_i W*_ih (Stein), and

    E Σ_h c_ih² ∝ s_iθ_i + noise,      noise = Σ_h RSS_h / (n(n − d − 1))

The noise is that of estimation and is subtracted. Where a direction is then left with less than
nothing it is pooled with its neighbours until their sum is positive, which keeps the total.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyceptron.errors import InvalidInput
from polyceptron.model.arrays import as_numbers
from polyceptron.model.features.spectrum import Spectrum

Array = NDArray[np.float64]
_NOTHING = 1e-10  # of the largest eigenvalue: rounding of a direction without variance


def estimate(X: Any, y: Any = None) -> Spectrum:
    """The spectrum of X (n, d), and with y (n,) its signal."""
    A = as_numbers(X, "X").astype(float)
    if A.ndim != 2 or A.shape[0] < 2 or A.shape[1] < 1:
        raise InvalidInput(f"X must be (samples, features) with 2 samples or more, got {A.shape}")
    if not np.isfinite(A).all():
        raise InvalidInput("X must be finite")
    n, d = A.shape
    A = A - A.mean(0)
    if d <= n:
        values, vectors = np.linalg.eigh(A.T @ A / n)
    else:
        values = np.concatenate([np.linalg.eigvalsh(A @ A.T / n), np.zeros(d - n)])
    values = np.where(values > _NOTHING * values.max(), values, 0.0)
    spread = f"from {n} samples of {d} features, whose noise widens it by about {_width(d, n)}"
    if y is None:
        return Spectrum(values, remark=spread)
    labels = np.asarray(y)
    if labels.shape != (n,):
        raise InvalidInput(f"y must be (samples,), got {labels.shape} for {n} samples")
    classes, index = np.unique(labels, return_inverse=True)
    if classes.size < 2:
        raise InvalidInput("a signal needs labels of at least two classes")
    if n <= d + 1:
        raise InvalidInput(
            f"the signal along {d} features needs more than {d + 1} samples, got {n}"
        )
    seen = values > 0
    U = A @ (vectors[:, seen] / np.sqrt(values[seen]))
    target = np.eye(classes.size)[index]
    target -= target.mean(0)
    power, removed = debiased(U, target)
    signal = np.zeros(d)
    signal[seen] = power / values[seen]
    remark = f"{spread}; {removed:.1%} of the fitted signal was noise of estimation and is removed"
    return Spectrum(values, signal, remark=remark)


def debiased(U: Array, target: Array) -> tuple[Array, float]:
    """sθ (r,) up to scale from scores U (n, r), UᵀU = n, smallest s first; the share removed."""
    n, r = U.shape
    c = U.T @ target / n
    rest = float(((target - U @ c) ** 2).sum())
    raw = (c**2).sum(1)
    noise = rest / (n * (n - r - 1))
    if not raw.sum() > r * noise:
        raise InvalidInput("the labels show no linear signal beyond the noise of estimation")
    return _pooled(raw - noise), r * noise / float(raw.sum())


def _pooled(values: Array) -> Array:
    """Neighbours share their mean, from the first on, until it is positive; the last fall back."""
    blocks: list[list[float]] = []  # sum, count
    for value in values:
        if blocks and blocks[-1][0] <= 0:
            blocks[-1][0] += float(value)
            blocks[-1][1] += 1
        else:
            blocks.append([float(value), 1])
    while len(blocks) > 1 and blocks[-1][0] <= 0:
        last = blocks.pop()
        blocks[-1][0] += last[0]
        blocks[-1][1] += last[1]
    return np.concatenate([np.full(int(count), total / count) for total, count in blocks])


def _width(d: int, n: int) -> str:
    return f"{2 * (d / n) ** 0.5:.0%}"
