"""Randomised quasi-Monte Carlo points, whose answers are smooth in every parameter.

Each replicate is an independent scrambling of the same Sobol points. Points stay fixed while
parameters move (common random numbers), so that anything solved for with one replicate, a root or
a maximum, is as smooth as the integrand; `numerics.estimate` turns replicates into a number with
its uncertainty.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

N_REPLICATES = 16


@lru_cache(maxsize=8)
def uniform_replicates(
    dimension: int, log2_points: int, seed: int, n_replicates: int = N_REPLICATES
) -> Array:
    """Scrambled Sobol points strictly inside the unit cube, (replicates, 2**log2_points, dim)."""
    from scipy.stats import qmc  # loads slowly, and most answers do without

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
