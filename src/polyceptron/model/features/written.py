"""Spectra that have a name.

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

import math
from collections.abc import Callable

import numpy as np

from polyceptron.errors import InvalidInput
from polyceptron.model.features.spectrum import Spectrum, isotropic
from polyceptron.model.registry import Entry
from polyceptron.numerics import Array

MOST_LEVELS = 100_000
_MP_NODES = 400


def power_law(exponent: float, n_features: float, signal_exponent: float | None = None) -> Spectrum:
    """s_i ∝ i^(−a) of d features; the teacher's field has sθ ∝ i^(−b), by default s itself.

    >>> power_law(1.0, 3).name
    'power:1:3'
    """
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
    """The law of the eigenvalues of a sample covariance, features/samples = c.

    >>> round(marchenko_pastur(2.0).rank, 6)  # more features than samples
    0.5
    """
    s, fraction, rank = mp_law(_check_ratio(ratio))
    eigenvalues, weights = np.append(s, 0.0), np.append(fraction, 1 - rank)
    return Spectrum(eigenvalues, None, weights, name=f"marchenko-pastur:{_short(ratio)}")


def mp_law(ratio: float) -> tuple[Array, Array, float]:
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
    """Centred features σ(Fg) of Gaussian g, `ratio` for each latent input; the teacher is in g.

    >>> round(random_features("relu", 1.0).hidden, 3)
    0.447
    """
    if nonlinearity not in NONLINEARITIES:
        allowed = " and ".join(NONLINEARITIES)
        raise InvalidInput(
            f"unknown nonlinearity {nonlinearity!r} of random features: allowed are {allowed}"
        )
    ratio = _check_ratio(ratio)
    linear, rest = moments(NONLINEARITIES[nonlinearity])
    mu, fraction, rank = mp_law(ratio)
    mu, fraction = np.append(mu, 0.0), np.append(fraction, 1 - rank)
    s = linear**2 * mu + rest
    seen = linear**2 * mu / s  # of one latent direction
    hidden = max(0.0, 1 - ratio * float(fraction @ seen))
    name = f"random-features:{nonlinearity}:{_short(ratio)}"
    return Spectrum(s, seen / s, fraction, name=name, hidden=hidden)


def moments(sigma: Callable[[Array], Array]) -> tuple[float, float]:
    """κ₁ = E zσ(z) and κ_*² = Var σ(z) − κ₁², z normal: panels with an edge at 0, where σ may bend.

    >>> [round(x, 6) for x in moments(NONLINEARITIES["relu"])]
    [0.5, 0.090845]
    """
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


def read_power(rest: str) -> Spectrum:
    numbers = [float(part) for part in rest[1:].split(":")]
    if len(numbers) not in (2, 3):
        raise ValueError
    return power_law(*numbers)


def read_levels(rest: str) -> Spectrum:
    """':10x0.2@1,1x0.8' and the like."""
    s, fraction, theta = [], [], []
    for part in rest[1:].split(","):
        left, _, signal = part.partition("@")
        value, _, share = left.lower().partition("x")
        s.append(float(value))
        fraction.append(float(share) if share else 1.0)
        theta.append(float(signal) if signal else 1.0)
    return Spectrum(s, theta, fraction, name=f"levels{rest}")


def read_ratio(rest: str) -> Spectrum:
    return marchenko_pastur(float(rest[1:]))


def read_random(rest: str) -> Spectrum:
    nonlinearity, _, ratio = rest[1:].partition(":")
    return random_features(nonlinearity.lower(), float(ratio))


ENTRIES: tuple[Entry[Spectrum], ...] = (
    Entry("isotropic", "independent features of unit variance", isotropic),
    Entry(
        "power", "eigenvalues i^(-A) of D features", power_law, ("a", "d[:b]"), (1.2, 200),
        read=read_power,
    ),
    Entry(
        "levels", "eigenvalue S of a fraction F, signal T", lambda: read_levels(":4x0.2,0.25x0.8"),
        ("sxf[@t],...",), read=read_levels,
    ),
    Entry(
        "marchenko-pastur", "a sample covariance of this many features for each sample",
        marchenko_pastur, ("ratio",), (0.5,), read=read_ratio,
    ),
    Entry(
        "random-features", "tanh or relu of this many random projections of each latent input",
        lambda ratio: random_features("tanh", ratio), ("tanh|relu", "ratio"), (2.0,),
        read=read_random,
    ),
)  # fmt: skip
