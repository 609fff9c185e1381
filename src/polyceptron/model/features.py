"""The features' covariance in its eigenbasis, and how the teacher's weights lie along it.

    s_i   variance of feature i, mean 1            θ_i   variance of the teacher's weights along it

with mean s_iθ_i = 1, the variance of the teacher's fields. Independent features are one level,
s = θ = 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Levels of the covariance: eigenvalues s, signal θ and the fraction of features of each."""

    eigenvalues: Array
    signal: Array
    fraction: Array

    @property
    def isotropic(self) -> bool:
        """Whether the features are independent with unit variance."""
        return bool((self.eigenvalues == 1).all() and (self.signal == 1).all())


@lru_cache(maxsize=1)
def isotropic() -> Spectrum:
    """Independent features of unit variance.

    >>> isotropic().isotropic
    True
    """
    one = np.ones(1)
    return Spectrum(one, one, one)
