"""The Gaussian teacher that explains a measured learning curve best.

Its inputs are Gaussian with the spectrum of the data, its signal that of the data where it can be
seen. One number is fitted, so that theory and measurement agree on average over the measured sizes
in the logarithm of the error:

    data harder than the noiseless teacher   the variance Δ of Gaussian noise of the labels
    data easier                              an alignment γ: the signal at eigenvalue s becomes
                                             signal(s)·s^γ, more of it where s is large

Data are not Gaussian, and on most data sets one number does not do. The distance that is left is
the misfit, the root mean square of ln(theory/measured).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from polyceptron.errors import InvalidInput
from polyceptron.numerics import Array
from polyceptron.problem import Estimator, GaussianNoise, Spectrum, Teacher
from polyceptron.questions.curve_rows import curve_rows
from polyceptron.rows import Row

# Ends of the search. Noise of variance 100 leaves a tenth of the signal's amplitude; γ = 4 puts
# nearly all signal into the leading direction. A fit that ends there has a large misfit.
LARGEST_NOISE = 100.0
LARGEST_ALIGNMENT = 4.0
# Above three classes the theory is sampled: this tolerance is a hundredth of a misfit of 0.2.
TOLERANCE_OF_SAMPLED_THEORY = 2e-3


class ModelFit(NamedTuple):
    """The teacher with its fitted number, in words, and the misfit on the measured sizes."""

    teacher: Teacher
    noise: float
    alignment: float
    misfit: float
    words: str


class NoiseAndAlignment(NamedTuple):
    """Variance Δ of the labels' noise and alignment γ of the signal; one of them is 0."""

    noise: float
    alignment: float


@dataclass(frozen=True)
class TeacherFamily:
    """Teachers with one spectrum, of any noise and alignment."""

    teacher: Teacher
    spectrum: Spectrum

    def member(self, parameters: NoiseAndAlignment) -> Teacher:
        """Return the teacher with this noise and alignment."""
        spectrum = self.spectrum
        if parameters.alignment:
            s = spectrum.eigenvalues
            signal = spectrum.signal * s**parameters.alignment
            spectrum = Spectrum(
                np.append(s, 0.0),
                np.append(signal, 0.0),
                np.append(spectrum.fraction, 1 - spectrum.rank),
            )
        noise = GaussianNoise(parameters.noise)
        return Teacher(self.teacher.n_classes, self.teacher.prior, noise, spectrum)


def fit_model(
    Z: Array,
    y: NDArray[np.generic],
    teacher: Teacher,
    estimator: Estimator,
    alphas: Array,
    errors: Array,
    least: float,
) -> ModelFit:
    """Fit the noise or the alignment of a teacher with the data's spectrum to measured errors.

    Parameters
    ----------
    Z : ndarray (n, d)
        Standardised features.
    y : ndarray (n,)
    teacher : Teacher
        Its number of classes and its prior are kept.
    estimator : Estimator
    alphas, errors : ndarray (s,)
        Where the error was measured, and its values there.
    least : float
        Error that is added to theory and measurement, so that none has an infinite logarithm.

    Returns
    -------
    ModelFit
    """
    spectrum, words = _spectrum_of(Z, y, teacher)
    family = TeacherFamily(teacher, spectrum)
    fitted = _sizes_to_fit(teacher, estimator, alphas)

    def log_ratio(parameters: NoiseAndAlignment, sizes: slice) -> Array:
        """Return ln(theory/measured) at some of the sizes."""
        theory = theory_errors(family.member(parameters), estimator, alphas[sizes])
        return np.log(theory + least) - np.log(errors[sizes] + least)

    def mean_log_ratio(parameters: NoiseAndAlignment) -> float:
        """Return the mean of ln(error of the teacher/measured error)."""
        return float(log_ratio(parameters, fitted).mean())

    found = _agreeing_parameters(mean_log_ratio, may_align=not spectrum.isotropic)
    misfit = float(np.sqrt(np.mean(log_ratio(found, slice(None)) ** 2)))
    return ModelFit(
        family.member(found), found.noise, found.alignment, misfit, words + _in_words(found)
    )


def _spectrum_of(Z: Array, y: NDArray[np.generic], teacher: Teacher) -> tuple[Spectrum, str]:
    """Return the spectrum of the teacher's features, and where it comes from in words."""
    if not teacher.prior.gaussian:
        return Teacher(2).features, "independent features"
    try:
        return Spectrum.from_data(Z, y), "the spectrum and the signal of the data"
    except InvalidInput:  # too few samples, or no linear signal to be seen
        return Spectrum.from_data(Z), "the spectrum of the data, equal signal"


def _sizes_to_fit(teacher: Teacher, estimator: Estimator, alphas: Array) -> slice:
    """Return the sizes to fit to: all, or only the middle one where a point takes seconds."""
    slow = teacher.n_classes > 3 or estimator.columns.get("ridge") == "optimal"
    if not slow or estimator.explicit or estimator.branches:
        return slice(None)
    middle = len(alphas) // 2
    return slice(middle, middle + 1)


def _in_words(parameters: NoiseAndAlignment) -> str:
    """Return the fitted number as the end of a sentence."""
    words = ", no noise"
    if parameters.noise:
        words = f", noise of variance {parameters.noise:.3g}"
    if parameters.alignment:
        words += f", alignment {parameters.alignment:.2g}"
    return words


def _agreeing_parameters(
    mean_log_ratio: Callable[[NoiseAndAlignment], float], may_align: bool
) -> NoiseAndAlignment:
    """Return the noise or the alignment at which the mean log-ratio vanishes, or its end.

    The theory's error grows with the noise and falls with the alignment.
    """
    theory_errs_more = mean_log_ratio(NoiseAndAlignment(0.0, 0.0)) > 0
    if not theory_errs_more:
        return NoiseAndAlignment(_agreeing_noise(mean_log_ratio), 0.0)
    if not may_align:
        return NoiseAndAlignment(0.0, 0.0)
    return NoiseAndAlignment(0.0, _agreeing_alignment(mean_log_ratio))


def _agreeing_noise(mean_log_ratio: Callable[[NoiseAndAlignment], float]) -> float:
    """Return the noise Δ at which theory and data agree on average, searched in ln(1 + Δ)."""

    def gap(log1p_noise: float) -> float:
        return mean_log_ratio(NoiseAndAlignment(math.expm1(log1p_noise), 0.0))

    end = math.log1p(LARGEST_NOISE)
    if gap(end) < 0:
        return LARGEST_NOISE
    return math.expm1(float(brentq(gap, 0.0, end, xtol=0.002)))


def _agreeing_alignment(mean_log_ratio: Callable[[NoiseAndAlignment], float]) -> float:
    """Return the alignment γ at which theory and data agree on average."""

    def gap(alignment: float) -> float:
        return mean_log_ratio(NoiseAndAlignment(0.0, alignment))

    if gap(LARGEST_ALIGNMENT) > 0:
        return LARGEST_ALIGNMENT
    return float(brentq(gap, 0.0, LARGEST_ALIGNMENT, xtol=0.05))


def theory_errors(teacher: Teacher, estimator: Estimator, alphas: Array) -> Array:
    """Return the error of the theory at each α, shape (s,)."""
    rows = theory_rows(teacher, estimator, alphas.tolist())
    return np.array([row["generalisation_error"] for row in rows])


def theory_rows(teacher: Teacher, estimator: Estimator, alphas: list[float]) -> list[Row]:
    """Return rows of the theory, as exact as a comparison with data needs."""
    tol = None
    if teacher.n_classes > 3:
        tol = TOLERANCE_OF_SAMPLED_THEORY
    return curve_rows(teacher, estimator, alphas, tol=tol)
