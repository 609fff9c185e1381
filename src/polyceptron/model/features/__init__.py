"""Features as they come: the spectrum of their covariance, and where the teacher lies in it.

spectrum       eigenvalues, signal and fractions, normalised; also estimated from data
written        a spectrum from a name (power, levels, ...), a CSV file or a list
"""

from polyceptron.model.features.spectrum import Spectrum, isotropic
from polyceptron.model.features.written import FEATURES, as_spectrum

__all__ = ["FEATURES", "Spectrum", "as_spectrum", "isotropic"]
