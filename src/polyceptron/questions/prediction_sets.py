"""Prediction sets: how many classes must be named so that the true one is among them?

A student with class probabilities p(ω) names the set of all classes whose score is small enough,

    C(ω) = {l : s_l(ω) ≤ σ},      P(y ∈ C) = E Σ_l t_l 1(s_l ≤ σ) = coverage,
    mean size  E |C| = E Σ_l 1(s_l ≤ σ),

with t_l the chance of label l given the student's fields ω of a fresh sample. Two scores:

    "probability"   s_l = 1 − p_l, so that C = {l : p_l ≥ threshold}
    "adaptive"      s_l = Σ_h p_h 1(p_h > p_l) + U p_l with one U ~ U(0, 1) a sample

The first has the smallest mean size where the probabilities are the true ones, t = p, as those of
the Bayes-optimal student are: its sets are the floor for all others. There dE|C|/d coverage is
1/threshold. The second adapts the coverage to easy and hard samples.

In practice the threshold is the ⌈(n_c + 1)·coverage⌉-th smallest score of n_c calibration samples.
The coverage is then a random number of the Beta law with parameters a = ⌈(n_c + 1)·coverage⌉ and
n_c + 1 − a, and the mean size is the function E|C| of that coverage.

Averages are over quasi-random fields on class differences, the same ones for every student.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.stats import beta

from polyceptron.checks import check_alpha, check_size, check_tolerance
from polyceptron.data.checks import check_choice
from polyceptron.display import ShortDisplay
from polyceptron.errors import InvalidInput
from polyceptron.numerics import Array
from polyceptron.problem.losses import Loss
from polyceptron.problem.populations import AnyTeacher, Population, check_population
from polyceptron.problem.specs import Estimator
from polyceptron.questions.set_fields import (
    SolvedStudent,
    solved_equal_classes,
    solved_unequal_classes,
)
from polyceptron.questions.set_scores import (
    SCORE_FUNCTIONS,
    Asked,
    SizeCurve,
    averaged,
    size_curve,
    thinned,
    threshold_shown,
)
from polyceptron.rows import Row, Status
from polyceptron.students import Student, student_of

DEFAULT_COVERAGE = 0.9
DEFAULT_TOL = 1e-3  # of the mean size
N_QUANTILES = 400  # of the Beta law of the coverage, over which the size is averaged


@dataclass(frozen=True, repr=False)
class PredictionSets(ShortDisplay):
    """Prediction sets of one student at one α, each number with its uncertainty.

    `threshold` is the smallest probability that is still in a set, or for adaptive sets the largest
    score. `size_shares[s]` is the share of sets with s classes, s = 0, …, k.
    """

    n_classes: int
    noise: str
    estimator: str
    ridge: float | None
    alpha: float
    score: str
    coverage: float
    threshold: float
    threshold_uncertainty: float
    mean_size: float
    mean_size_uncertainty: float
    empty_share: float
    empty_share_uncertainty: float
    single_share: float
    single_share_uncertainty: float
    generalisation_error: float
    status: Status
    class_coverage: Array = field(repr=False)  # (k,)
    class_coverage_uncertainty: Array = field(repr=False)
    size_shares: Array = field(repr=False)  # (k + 1,)
    sizes_at_coverage: SizeCurve = field(repr=False)

    def calibrated_on(self, n_calibration: int, level: float = 0.9) -> CalibratedSets:
        """Return the spread of coverage and size when n_c samples set the threshold.

        Parameters
        ----------
        n_calibration : int
            Number n_c of calibration samples, which the student was not fitted to.
        level : float
            Share of calibration sets whose coverage is between `coverage_low` and `coverage_high`.

        Returns
        -------
        CalibratedSets
        """
        n_calibration = check_size(n_calibration, "n_calibration")
        _check_share(level, "level")
        rank = rank_of_threshold(n_calibration, self.coverage)
        if rank > n_calibration:  # no score is large enough: the sets hold all classes
            whole = float(self.n_classes)
            return CalibratedSets(n_calibration, 1.0, 0.0, 1.0, 1.0, whole, 0.0)
        law = beta(rank, n_calibration + 1 - rank)
        middles = (np.arange(N_QUANTILES) + 0.5) / N_QUANTILES
        sizes = self.sizes_at_coverage(law.ppf(middles))
        return CalibratedSets(
            n_calibration=n_calibration,
            mean_coverage=float(law.mean()),
            coverage_spread=float(law.std()),
            coverage_low=float(law.ppf((1 - level) / 2)),
            coverage_high=float(law.ppf((1 + level) / 2)),
            mean_size=float(sizes.mean()),
            size_spread=float(sizes.std()),
        )

    @property
    def row(self) -> Row:
        """Return the numbers as the columns of one row."""
        return {
            **self._facts(),
            "status": str(self.status),
            "class_coverage": " ".join(f"{share:.6g}" for share in self.class_coverage),
        }


class CalibratedSets(NamedTuple):
    """Coverage and mean size of sets whose threshold comes from n_c samples.

    Both are random numbers, since the calibration samples are: `…_spread` is the standard
    deviation, and `coverage_low` to `coverage_high` holds the coverage of most calibration sets.
    """

    n_calibration: int
    mean_coverage: float
    coverage_spread: float
    coverage_low: float
    coverage_high: float
    mean_size: float
    size_spread: float


@np.errstate(under="ignore")  # Densities far out are 0.
def prediction_sets(
    population: Population,
    student: Estimator | Loss | str,
    alpha: float,
    coverage: float = DEFAULT_COVERAGE,
    *,
    score: str = "probability",
    tol: float | None = None,
) -> PredictionSets:
    """Return threshold, size and coverage of the classes of prediction sets at n = αd, d → ∞.

    Parameters
    ----------
    population : Teacher, Perceptron or Mixture
    student : Estimator, Loss or str
        Where it has no probabilities, sets are made with a softmax of its fields at the temperature
        of the least test loss.
    alpha : float
        n/d. At 0 it is the limit of few samples, in which the mean size is k·coverage.
    coverage : float
        Share of samples whose label is in the set, between 0 and 1.
    score : 'probability' or 'adaptive'
        Which classes a set holds: those of at least a probability, or the likeliest up to a total
        probability.
    tol : float, optional
        Relative uncertainty of the mean size up to which nodes are added, 1e-3 by default.

    Returns
    -------
    PredictionSets

    Examples
    --------
    >>> from polyceptron.problem import Teacher
    >>> sets = prediction_sets(Teacher(3, noise="softmax:2"), "bayes", 4.0, coverage=0.9)
    >>> 1 < sets.mean_size < 2, round(sets.calibrated_on(99).mean_coverage, 3)
    (True, 0.9)
    """
    check_population(population)
    alpha = check_alpha(alpha)
    check_choice("score", score, tuple(SCORE_FUNCTIONS))
    asked = Asked(score, check_coverage(coverage), check_tolerance(tol, DEFAULT_TOL))
    solver = student_of(student)
    if isinstance(population, AnyTeacher) and solver.spec.sees_equal_classes(population):
        solved = solved_equal_classes(population, solver, alpha)
    elif alpha == 0:
        raise InvalidInput("alpha must be above 0 where the classes are not alike, got 0")
    else:
        solved = solved_unequal_classes(population, solver, alpha)
    return _described(population, solver, alpha, asked, solved)


def check_coverage(coverage: float) -> float:
    """Return the coverage as a float strictly between 0 and 1, or raise an error message."""
    return _check_share(coverage, "coverage")


def _check_share(share: float, name: str) -> float:
    """Return a share strictly between 0 and 1, or raise an error message that names it."""
    is_number = isinstance(share, int | float | np.number) and not isinstance(share, bool)
    if not is_number or not 0 < float(share) < 1:
        raise InvalidInput(f"{name} must be a number between 0 and 1, got {share!r}")
    return float(share)


def rank_of_threshold(n_calibration: int, coverage: float) -> int:
    """Return ⌈(n_c + 1)·coverage⌉: which of the sorted calibration scores is the threshold.

    >>> rank_of_threshold(99, 0.9), rank_of_threshold(100, 0.9)
    (90, 91)
    """
    wanted = (n_calibration + 1) * coverage
    return math.ceil(wanted * (1 - 4 * np.finfo(float).eps))  # 10·0.7 is 7, in spite of rounding


def _described(
    population: Population,
    student: Student,
    alpha: float,
    asked: Asked,
    solved: SolvedStudent,
) -> PredictionSets:
    """Return the sets of a solved student with their uncertainties."""
    k = population.n_classes
    fresh, scores, sets, bars = averaged(asked, solved)
    curve, _ = size_curve(scores, fresh)
    inside = scores <= sets.threshold
    sizes = inside.sum(axis=-1)
    weight = fresh.weight / len(scores)
    class_coverage = sets.class_coverage
    class_coverage_uncertainty = bars.class_coverage
    if not fresh.in_class_order:  # classes are alike: the coverage of each is that of all
        class_coverage = np.full(k, (weight[..., None] * fresh.truth * inside).sum())
        class_coverage_uncertainty = np.zeros(k)
    threshold = threshold_shown(asked.score, float(sets.threshold))
    edge = threshold_shown(asked.score, float(sets.threshold + bars.threshold))
    return PredictionSets(
        n_classes=k,
        noise=str(population.columns.get("noise", "none")),
        estimator=student.spec.name,
        ridge=solved.ridge,
        alpha=alpha,
        score=asked.score,
        coverage=asked.coverage,
        threshold=threshold,
        threshold_uncertainty=abs(edge - threshold),
        mean_size=float(sets.size),
        mean_size_uncertainty=float(bars.size),
        empty_share=float(sets.empty),
        empty_share_uncertainty=float(bars.empty),
        single_share=float(sets.single),
        single_share_uncertainty=float(bars.single),
        generalisation_error=solved.generalisation_error,
        status=solved.status,
        class_coverage=class_coverage,
        class_coverage_uncertainty=class_coverage_uncertainty,
        size_shares=np.bincount(sizes.ravel(), weight.ravel(), k + 1).astype(float),
        sizes_at_coverage=thinned(curve),
    )
