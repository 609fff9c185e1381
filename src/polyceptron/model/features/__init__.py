"""Features as they come: the spectrum of their covariance, and where the teacher lies in it.

    spectrum       eigenvalues, signal and fractions, normalised
    written        spectra that have a name: isotropic, power, levels, marchenko-pastur, ...
    reading        a spectrum from a name, a CSV file or a list
    estimated      a spectrum from a data matrix, with the signal from its labels

`as_spectrum` reads any of them.
"""

from polyceptron.model.features import written
from polyceptron.model.features.estimated import FEATURES, as_spectrum
from polyceptron.model.features.spectrum import Spectrum, isotropic

__all__ = ["FEATURES", "Spectrum", "as_spectrum", "isotropic"]

for _entry in written.ENTRIES:
    FEATURES.add(_entry)
