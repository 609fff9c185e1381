"""A number with its uncertainty, which means one thing everywhere.

    |value − truth| ≤ uncertainty   in at least 99 of 100 cases

From R independent replicates it is Student's quantile times the standard error of their mean;
solving on the mean of all replicates, not averaging solutions, keeps the bias of second order.

Each replicate is an independent scrambling of the same Sobol points. Points stay fixed while
parameters move (common random numbers), so that anything solved for is as smooth as the integrand.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from polyceptron.numerics import AnyArray

CONFIDENCE = 0.99


class Estimate(NamedTuple):
    """A value and its absolute uncertainty, which holds in at least 99 of 100 cases."""

    value: AnyArray
    uncertainty: AnyArray


@lru_cache(maxsize=64)
def student_quantile(n_replicates: int, confidence: float = CONFIDENCE) -> float:
    """Return t with P(|T| ≤ t) = confidence at R − 1 degrees of freedom (2.95 for R = 16)."""
    from scipy.special import stdtrit

    return float(stdtrit(n_replicates - 1, 0.5 + confidence / 2))


def estimate_from_replicates(replicates: AnyArray, axis: int = -1) -> Estimate:
    """Return the mean over replicates and its uncertainty; one replicate is taken as exact."""
    n = replicates.shape[axis]
    mean = replicates.mean(axis=axis)
    if n == 1:
        return Estimate(mean, np.zeros_like(mean))
    spread = replicates.std(axis=axis, ddof=1) / math.sqrt(n)
    return Estimate(mean, student_quantile(n) * spread)


N_REPLICATES = 16


@lru_cache(maxsize=8)
def uniform_replicates(
    dimension: int, log2_points: int, seed: int, n_replicates: int = N_REPLICATES
) -> AnyArray:
    """Return scrambled Sobol points inside the unit cube, (replicates, 2**log2_points, dim)."""
    from scipy.stats import qmc  # loads slowly, and most answers do without

    children = np.random.SeedSequence(seed).spawn(n_replicates)
    sobol = (qmc.Sobol(dimension, scramble=True, rng=np.random.default_rng(c)) for c in children)
    return np.clip([s.random_base2(log2_points) for s in sobol], 2.0**-54, 1 - 2.0**-53)
