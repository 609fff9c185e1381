"""Randomised quasi-Monte Carlo: a mean with its standard error, smooth in every parameter.

Each replicate is an independent scrambling of the same Sobol points. Points stay fixed while
parameters move (common random numbers), so that anything solved for with one replicate, a root or
a maximum, is as smooth as the integrand; the spread of the replicates' answers is the error.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import qmc

Array = NDArray[Any]

N_REPLICATES = 16


class Estimate(NamedTuple):
    """A value and its absolute uncertainty (one standard error)."""

    value: Array
    uncertainty: Array


@lru_cache(maxsize=8)
def uniform_replicates(
    dimension: int, log2_points: int, seed: int, n_replicates: int = N_REPLICATES
) -> Array:
    """Scrambled Sobol points strictly inside the unit cube, (replicates, 2**log2_points, dim)."""
    children = np.random.SeedSequence(seed).spawn(n_replicates)
    points = np.stack(
        [
            qmc.Sobol(dimension, scramble=True, rng=np.random.default_rng(c)).random_base2(
                log2_points
            )
            for c in children
        ]
    )
    tiny = 2.0**-54
    return np.clip(points, tiny, 1 - 2.0**-53)


def summarise(replicates: Array, axis: int = -1) -> Estimate:
    """Mean and standard error over the replicates."""
    n = replicates.shape[axis]
    if n == 1:
        mean = np.take(replicates, 0, axis=axis)
        return Estimate(mean, np.zeros_like(mean))
    spread = replicates.std(axis=axis, ddof=1)
    return Estimate(replicates.mean(axis=axis), spread / math.sqrt(n))
