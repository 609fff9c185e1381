"""The theory that knows most of a data set: its spectrum, its signal, and one fitted number.

The features' eigenvalues and the signal along them come from the data (`Spectrum.from_data`). Then
one number is fitted, so that theory and measurement agree on average over the measured sizes, in
the logarithm of the error:

    data harder than the noiseless teacher:   Gaussian noise of the labels, variance Δ
    data easier:                              alignment γ, sθ → sθ·s^γ, more signal where s is large

The rest of the distance is the misfit, the root mean square of ln(theory/measured).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from polyceptron.errors import InvalidInput
from polyceptron.model import ERM, BayesOptimal, GaussianNoise, Spectrum, Teacher
from polyceptron.theory import curve_rows

Array = NDArray[np.float64]
_MOST_ALIGNED, _MOST_NOISE = 4.0, 100.0
_MANY_CLASSES_TOL = 2e-3  # enough for a plot; the theory of k ≥ 4 samples
FAR = 0.25  # misfit from which the data are called far from the model


class ModelFit(NamedTuple):
    """The teacher with its fitted number, in words, and the misfit on the measured sizes."""

    teacher: Teacher
    noise: float
    alignment: float
    misfit: float
    words: str


def fit_model(
    Z: Array,
    y: object,
    teacher: Teacher,
    estimator: ERM | BayesOptimal,
    alphas: Array,
    errors: Array,
    least: float,
) -> ModelFit:
    """From standardised features Z (n, d) and labels, and errors measured at α (s,)."""
    spectrum, words = own_spectrum(Z, y, teacher)
    slow = teacher.n_classes > 3 or getattr(estimator, "ridge", 0.0) == "optimal"
    few = getattr(estimator, "name", "") in ("square", "bayes") or not slow
    # Where a point takes seconds one in the middle has to do.
    chosen = slice(None) if few else slice(len(alphas) // 2, len(alphas) // 2 + 1)
    goal = np.log(errors[chosen] + least)

    def gap(noise: float, tilt: float) -> float:
        found = theory_errors(_teacher(teacher, spectrum, noise, tilt), estimator, alphas[chosen])
        return float(np.mean(np.log(found + least) - goal))

    noise, tilt = _balance(gap, tilts=not spectrum.isotropic)
    fitted = _teacher(teacher, spectrum, noise, tilt)
    distance = np.log(theory_errors(fitted, estimator, alphas) + least) - np.log(errors + least)
    words += f", noise of variance {noise:.3g}" if noise else ", no noise"
    words += f", alignment {tilt:.2g}" if tilt else ""
    return ModelFit(fitted, noise, tilt, float(np.sqrt(np.mean(distance**2))), words)


def own_spectrum(Z: Array, y: object, teacher: Teacher) -> tuple[Spectrum, str]:
    """The spectrum that the data themselves show, as far as they and the prior allow."""
    if not teacher.prior.gaussian:
        return Teacher(2).features, "independent features"
    try:
        return Spectrum.from_data(Z, y), "the spectrum and the signal of the data"
    except InvalidInput:  # too few samples, or no linear signal to be seen
        return Spectrum.from_data(Z), "the spectrum of the data, equal signal"


def theory_errors(teacher: Teacher, estimator: ERM | BayesOptimal, alphas: Array) -> Array:
    """ε of the theory at each α."""
    tol = _MANY_CLASSES_TOL if teacher.n_classes > 3 else None
    rows = curve_rows(teacher, estimator, [float(a) for a in alphas], tol=tol)
    return np.array([row["generalisation_error"] for row in rows])


def _teacher(teacher: Teacher, spectrum: Spectrum, noise: float, tilt: float) -> Teacher:
    s = spectrum.eigenvalues
    tilted = spectrum
    if tilt:
        eigenvalues, signal = np.append(s, 0.0), np.append(spectrum.signal * s**tilt, 0.0)
        fraction = np.append(spectrum.fraction, 1 - spectrum.rank)
        tilted = Spectrum(eigenvalues, signal, fraction)
    return Teacher(teacher.n_classes, teacher.prior, GaussianNoise(noise), tilted)


def _balance(gap: Callable[[float, float], float], *, tilts: bool) -> tuple[float, float]:
    """Noise Δ and tilt γ, one of them 0, at which the mean gap vanishes, or their end."""
    here = gap(0.0, 0.0)
    if here > 0:  # the theory errs more than the data
        if not tilts or gap(0.0, _MOST_ALIGNED) > 0:
            return 0.0, _MOST_ALIGNED if tilts else 0.0
        return 0.0, float(brentq(lambda t: gap(0.0, t), 0.0, _MOST_ALIGNED, xtol=0.05))
    if gap(_MOST_NOISE, 0.0) < 0:
        return _MOST_NOISE, 0.0
    top = math.log1p(_MOST_NOISE)
    root = brentq(lambda x: gap(math.expm1(x), 0.0), 0.0, top, xtol=0.002)
    return math.expm1(float(root)), 0.0
