"""How many of n samples to keep for the threshold of prediction sets, so that sets are smallest.

A student that is fitted to n − n_c samples has the mean size E|C|(coverage) at α = (n − n_c)/d;
n_c samples set its threshold, whose coverage B is random (`prediction_sets`). The expected size

    E_B E|C|(B; α = (n − n_c)/d)

falls with n_c since B comes closer to the coverage that is asked for, and rises since fewer samples
are learned from.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from polyceptron.checks import check_size
from polyceptron.display import ShortDisplay
from polyceptron.errors import InvalidInput
from polyceptron.problem.losses import Loss
from polyceptron.problem.populations import Population
from polyceptron.problem.specs import Estimator
from polyceptron.questions.prediction_sets import (
    DEFAULT_COVERAGE,
    CalibratedSets,
    check_coverage,
    prediction_sets,
    rank_of_threshold,
)

TOLERANCE_OF_LOG_SPLIT = 0.02  # of ln n_c: the size is flat around its minimum


@dataclass(frozen=True, repr=False)
class BestSplit(ShortDisplay):
    """The split of n samples whose prediction sets are smallest, with the sets that it gives."""

    n_samples: int
    dimension: int
    n_training: int
    n_calibration: int
    mean_size: float
    size_spread: float
    mean_coverage: float
    coverage_spread: float
    size_without_calibration: float  # of all samples learned from and a threshold that is known


@np.errstate(under="ignore")  # Densities far out are 0.
def best_split(
    population: Population,
    student: Estimator | Loss | str,
    n_samples: int,
    dimension: int,
    coverage: float = DEFAULT_COVERAGE,
    *,
    score: str = "probability",
) -> BestSplit:
    """Return how many of n samples in d dimensions to learn from, and how many to calibrate on.

    Parameters
    ----------
    population : Teacher, Perceptron or Mixture
    student : Estimator, Loss or str
    n_samples, dimension : int
        n and d; the theory is that of large d.
    coverage : float
        Share of samples whose label must be in the set.
    score : 'probability' or 'adaptive'

    Returns
    -------
    BestSplit

    Examples
    --------
    >>> from polyceptron.problem import Teacher
    >>> split = best_split(Teacher(3, noise="softmax:2"), "cross-entropy", 2000, 500)
    >>> split.n_training + split.n_calibration, 50 < split.n_calibration < 500
    (2000, True)
    """
    n = check_size(n_samples, "n_samples")
    d = check_size(dimension, "dimension")
    coverage = check_coverage(coverage)
    fewest = _fewest_calibration_samples(coverage)
    if fewest >= n:
        raise InvalidInput(
            f"n_samples must be above {fewest}, which a threshold of coverage {coverage:g} needs "
            f"to be finite, got {n}"
        )

    def calibrated(n_calibration: int) -> CalibratedSets:
        """Return the sets of a student whose other samples are for calibration."""
        alpha = (n - n_calibration) / d
        sets = prediction_sets(population, student, alpha, coverage, score=score)
        return sets.calibrated_on(n_calibration)

    def size(log_n_calibration: float) -> float:
        """Return the mean size of sets for ln of the number of calibration samples."""
        n_calibration = _without_overshoot(math.exp(log_n_calibration), coverage, fewest, n - 1)
        return calibrated(n_calibration).mean_size

    minimum = minimize_scalar(
        size,
        bounds=(math.log(fewest), math.log(n - 1)),
        method="bounded",
        options={"xatol": TOLERANCE_OF_LOG_SPLIT},
    )
    n_calibration = _without_overshoot(math.exp(float(minimum.x)), coverage, fewest, n - 1)
    sets = calibrated(n_calibration)
    whole = prediction_sets(population, student, n / d, coverage, score=score)
    return BestSplit(
        n_samples=n,
        dimension=d,
        n_training=n - n_calibration,
        n_calibration=n_calibration,
        mean_size=sets.mean_size,
        size_spread=sets.size_spread,
        mean_coverage=sets.mean_coverage,
        coverage_spread=sets.coverage_spread,
        size_without_calibration=whole.mean_size,
    )


def _fewest_calibration_samples(coverage: float) -> int:
    """Return the smallest n_c with ⌈(n_c + 1)·coverage⌉ ≤ n_c: fewer have no finite threshold."""
    guess = max(1, math.floor(coverage / (1 - coverage)) - 1)
    while rank_of_threshold(guess, coverage) > guess:
        guess += 1
    return guess


def _without_overshoot(wanted: float, coverage: float, low: int, high: int) -> int:
    """Return a whole number near the one wanted whose mean coverage is least above the coverage.

    The mean coverage ⌈(n_c + 1)·coverage⌉/(n_c + 1) is exact only for some n_c, as 9, 19, 29, … for
    a coverage of 0.9. Those within half of 1/(1 − coverage) are compared.
    """
    reach = math.ceil(0.5 / (1 - coverage))
    centre = round(wanted)
    nearby = range(max(low, centre - reach), min(high, centre + reach) + 1)
    overshoots = np.array([rank_of_threshold(n, coverage) / (n + 1) - coverage for n in nearby])
    least = np.flatnonzero(overshoots <= overshoots.min() + 1e-12)
    distances = [abs(nearby[place] - wanted) for place in least]
    return nearby[least[int(np.argmin(distances))]]
