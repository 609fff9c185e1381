"""A spectrum from a name, a CSV file or a list of eigenvalues.

    isotropic                      independent features of unit variance
    power:A:D[:B]                  s_i ∝ i^(−A), i = 1 … D; θ equal, or sθ ∝ i^(−B)
    levels:SxF[@T],...             eigenvalue S for a fraction F of the features, signal T
    marchenko-pastur:RATIO         the sample covariance of RATIO = features/samples
    random-features:NONLIN:RATIO   φ = σ(Fg), RATIO features for each of the latent Gaussian inputs

Random features are equivalent to a linear map plus noise: with κ₁ = E zσ(z) and κ_*² what is left
of the variance, Σ = κ₁²FFᵀ + κ_*²I. Of a teacher that is linear in g the best linear student sees
sθ ∝ κ₁²μ/(κ₁²μ + κ_*²) along an eigenvector of FFᵀ with eigenvalue μ; the rest is hidden from it.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from polyceptron.errors import InvalidInput
from polyceptron.files import read_text
from polyceptron.model.features.spectrum import REMEMBERED, Spectrum, isotropic
from polyceptron.model.registry import Entry, Registry
from polyceptron.numerics import Array

FEATURES: Registry[Spectrum] = Registry("features", Spectrum)
MOST_LEVELS = 100_000
_REQUIRED, _OPTIONAL = ("eigenvalue", "signal"), "fraction"
_MP_NODES = 400


def as_spectrum(features: Any) -> Spectrum:
    """A registered name, the path of a CSV file, a list of eigenvalues, or a `Spectrum`.

    >>> as_spectrum([2.0, 1.0]).name
    'levels:1.3333333333333333x0.5@1.0,0.6666666666666666x0.5@1.0'
    """
    if isinstance(features, Spectrum):
        return features
    if isinstance(features, Path):
        return _read_file(str(features))
    if isinstance(features, np.ndarray | list | tuple):
        return Spectrum(features)
    if not isinstance(features, str):
        return FEATURES.read(features)
    if "#" in features or features.lower().endswith(".csv"):
        return _read_file(features)
    try:
        return FEATURES.read(features)
    except ValueError as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(
            f"cannot read the features {features!r}: allowed are {FEATURES.help}, or the path of "
            "a CSV file"
        ) from None


def _read_file(text: str) -> Spectrum:
    """From 'path.csv', or 'path.csv#digest', which must still hold the same numbers."""
    path, _, digest = text.partition("#")
    if text in REMEMBERED:
        return REMEMBERED[text]
    if path == "spectrum":
        raise InvalidInput(
            f"the features {text!r} were made in another process: write them to a CSV file "
            "(Spectrum.table) and give its path"
        )
    found = _parse_table(read_text(path, "spectrum file"), path)
    if digest and digest != found.digest:
        raise InvalidInput(
            f"the spectrum file {path!r} is not the one that was used before ({digest}): its "
            f"numbers now have the digest {found.digest}"
        )
    found.name = f"{path}#{found.digest}"
    return found


def _parse_table(text: str, path: str) -> Spectrum:
    """Columns eigenvalue, signal and optionally fraction, in any order."""
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


def power_law(exponent: float, n_features: float, signal_exponent: float | None = None) -> Spectrum:
    """s_i ∝ i^(−a) of d features; the teacher's field has sθ ∝ i^(−b), by default s itself."""
    if not (n_features == int(n_features) and 1 <= n_features <= MOST_LEVELS):
        raise InvalidInput(
            f"a power law has from 1 to {MOST_LEVELS} features, got {_short(n_features)}"
        )
    for value in (exponent, signal_exponent or 0.0):
        if not (math.isfinite(value) and 0 <= value <= 20):
            raise InvalidInput(f"the exponent of a power law is from 0 to 20, got {_short(value)}")
    i = np.arange(1.0, int(n_features) + 1)
    s = i**-exponent
    theta = None if signal_exponent is None else i ** (exponent - signal_exponent)
    end = "" if signal_exponent is None else f":{_short(signal_exponent)}"
    return Spectrum(s, theta, name=f"power:{_short(exponent)}:{int(n_features)}{end}")


def marchenko_pastur(ratio: float) -> Spectrum:
    """The law of the eigenvalues of a sample covariance, features/samples = c."""
    s, fraction, rank = _mp_law(_check_ratio(ratio))
    eigenvalues, weights = np.append(s, 0.0), np.append(fraction, 1 - rank)
    return Spectrum(eigenvalues, None, weights, name=f"marchenko-pastur:{_short(ratio)}")


def _mp_law(ratio: float) -> tuple[Array, Array, float]:
    """Nodes s = 1 + c + 2√c cos φ and their weights 2 sin²φ/(πs)·dφ, and the weight of s > 0."""
    phi = np.arange(1, _MP_NODES + 1) * math.pi / (_MP_NODES + 1)
    s = 1 + ratio + 2 * math.sqrt(ratio) * np.cos(phi)
    weight = np.sin(phi) ** 2 / s
    rank = min(1.0, 1 / ratio)
    return s, weight * (rank / weight.sum()), rank


NONLINEARITIES: dict[str, Callable[[Array], Array]] = {
    "tanh": np.tanh,
    "relu": lambda z: np.maximum(z, 0.0),
}


def random_features(nonlinearity: str, ratio: float) -> Spectrum:
    """Centred features σ(Fg) of Gaussian g, `ratio` for each latent input; the teacher is in g."""
    if nonlinearity not in NONLINEARITIES:
        allowed = " and ".join(NONLINEARITIES)
        raise InvalidInput(
            f"unknown nonlinearity {nonlinearity!r} of random features: allowed are {allowed}"
        )
    ratio = _check_ratio(ratio)
    linear, rest = moments(NONLINEARITIES[nonlinearity])
    mu, fraction, rank = _mp_law(ratio)
    mu, fraction = np.append(mu, 0.0), np.append(fraction, 1 - rank)
    s = linear**2 * mu + rest
    seen = linear**2 * mu / s  # of one latent direction
    hidden = max(0.0, 1 - ratio * float(fraction @ seen))
    name = f"random-features:{nonlinearity}:{_short(ratio)}"
    return Spectrum(s, seen / s, fraction, name=name, hidden=hidden)


def moments(sigma: Callable[[Array], Array]) -> tuple[float, float]:
    """κ₁ = E zσ(z) and κ_*² = Var σ(z) − κ₁², z normal: panels with an edge at 0."""
    x, w = np.polynomial.legendre.leggauss(60)
    z = np.concatenate([6 * (x - 1), 6 * (x + 1)])
    weight = np.tile(6 * w, 2) * np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
    value = sigma(z)
    mean, linear, square = (float(weight @ part) for part in (value, z * value, value**2))
    return linear, square - mean**2 - linear**2


def _check_ratio(ratio: float) -> float:
    if not (math.isfinite(ratio) and 1e-3 <= ratio <= 1e3):
        raise InvalidInput(f"a ratio of features is from 0.001 to 1000, got {_short(ratio)}")
    return float(ratio)


def _short(value: float) -> str:
    return repr(float(value)).removesuffix(".0")


def _read_power(rest: str) -> Spectrum:
    numbers = [float(part) for part in rest[1:].split(":")]
    if len(numbers) not in (2, 3):
        raise ValueError
    return power_law(*numbers)


def _read_levels(rest: str) -> Spectrum:
    """':10x0.2@1,1x0.8' and the like."""
    s, fraction, theta = [], [], []
    for part in rest[1:].split(","):
        left, _, signal = part.partition("@")
        value, _, share = left.lower().partition("x")
        s.append(float(value))
        fraction.append(float(share) if share else 1.0)
        theta.append(float(signal) if signal else 1.0)
    return Spectrum(s, theta, fraction, name=f"levels{rest}")


def _read_random(rest: str) -> Spectrum:
    nonlinearity, _, ratio = rest[1:].partition(":")
    return random_features(nonlinearity.lower(), float(ratio))


FEATURES.add(
    Entry("isotropic", "independent features of unit variance", isotropic, label="isotropic"),
    Entry(
        "power", "eigenvalues i^(-A) of D features", power_law, ("a", "d[:b]"), (1.2, 200),
        "power law", read=_read_power,
    ),
    Entry(
        "levels", "eigenvalue S of a fraction F, signal T", lambda: _read_levels(":4x0.2,0.25x0.8"),
        ("sxf[@t],...",), label="two levels", read=_read_levels,
    ),
    Entry(
        "marchenko-pastur", "a sample covariance of this many features for each sample",
        marchenko_pastur, ("ratio",), (0.5,), "Marchenko–Pastur",
    ),
    Entry(
        "random-features", "tanh or relu of this many random projections of each latent input",
        lambda ratio: random_features("tanh", ratio), ("tanh|relu", "ratio"), (2.0,),
        "random features", read=_read_random,
    ),
)  # fmt: skip
