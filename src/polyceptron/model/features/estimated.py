"""A spectrum from whatever says what it is: a name, a CSV file, a list of eigenvalues.

A spectrum from data: eigenvalues of the sample covariance, and the teacher's signal along them.

In the eigenbasis, whitened, the features are uncorrelated in the sample, so that the least-squares
fit of the one-hot labels has coefficients c_ih = (1/n) Σ_μ u_iμ (1[y_μ = h] − p_h). For Gaussian
inputs they are proportional to √s_i W*_ih (Stein), and

    E Σ_h c_ih² ∝ s_iθ_i + noise,      noise = Σ_h RSS_h / (n(n − d − 1))

The noise is that of estimation and is subtracted. Where a direction is then left with less than
nothing it is pooled with its neighbours until their sum is positive, which keeps the total.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from polyceptron.errors import InvalidInput
from polyceptron.files import read_text
from polyceptron.model.checks import as_numbers
from polyceptron.model.features.spectrum import Spectrum, remembered
from polyceptron.model.registry import Registry
from polyceptron.numerics import Array

FEATURES: Registry[Spectrum] = Registry("features", Spectrum)
_REQUIRED, _OPTIONAL = ("eigenvalue", "signal"), "fraction"


def as_spectrum(features: Any) -> Spectrum:
    """A registered name, the path of a CSV file, a list of eigenvalues, or a `Spectrum`.

    >>> as_spectrum([2.0, 1.0]).name
    'levels:1.3333333333333333x0.5@1.0,0.6666666666666666x0.5@1.0'
    """
    if isinstance(features, Spectrum):
        return features
    if isinstance(features, Path):
        return read_spectrum(str(features))
    if isinstance(features, np.ndarray | list | tuple):
        return Spectrum(features)
    if not isinstance(features, str):
        return FEATURES.read(features)
    if "#" in features or features.lower().endswith(".csv"):
        return read_spectrum(features)
    try:
        return FEATURES.read(features)
    except ValueError as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(
            f"cannot read the features {features!r}: allowed are {FEATURES.help}, or the path of "
            "a CSV file"
        ) from None


def read_spectrum(text: str) -> Spectrum:
    """From 'path.csv', or 'path.csv#digest', which must still hold the same numbers."""
    path, _, digest = text.partition("#")
    known = remembered(text)
    if known is not None:
        return known
    if path == "spectrum":
        raise InvalidInput(
            f"the features {text!r} were made in another process: write them to a CSV file "
            "(Spectrum.table) and give its path"
        )
    found = parse_table(read_text(path, "spectrum file"), path)
    if digest and digest != found.digest:
        raise InvalidInput(
            f"the spectrum file {path!r} is not the one that was used before ({digest}): its "
            f"numbers now have the digest {found.digest}"
        )
    found.name = f"{path}#{found.digest}"
    return found


def parse_table(text: str, path: str) -> Spectrum:
    """Columns eigenvalue, signal and optionally fraction, in any order."""
    import csv

    lines = [line for line in csv.reader(text.splitlines()) if line]
    head = [name.strip().lower() for name in lines[0]] if lines else []
    missing = [name for name in _REQUIRED if name not in head]
    if missing:
        raise InvalidInput(
            f"the spectrum file {path!r} needs the columns eigenvalue and signal (and may have "
            f"fraction), but has no {' and no '.join(missing)}"
        )
    names = [*_REQUIRED, *([_OPTIONAL] if _OPTIONAL in head else [])]
    columns: dict[str, list[float]] = {name: [] for name in names}
    for number, line in enumerate(lines[1:], 2):
        for name in names:
            try:
                columns[name].append(float(line[head.index(name)]))
            except (ValueError, IndexError):
                raise InvalidInput(
                    f"line {number} of the spectrum file {path!r} has no number for {name}"
                ) from None
    return Spectrum(columns["eigenvalue"], columns["signal"], columns.get(_OPTIONAL))


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
