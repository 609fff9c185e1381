"""Which sum gives v₁ of a teacher's rows, and how hard to sample: decided here and nowhere else.

Gaussian                     1/(1 + q̂)
±1, k ≥ 4                    a table for every k                              `sign_table.py`
finite, few rows             the points that a row can take, on a lattice     `point_rows.py`
other finite                 k − 1 classes sampled, the last one integrated   `finite_rows.py`
any other, one weight        one integral                                     `field_table.py`
any other, k ≤ 3             a lattice, at large q̂ panels of gaps             `few_classes.py`
any other, k ≥ 4             the fields sampled                               `sampled_rows.py`
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from polyceptron.numerics import Array
from polyceptron.problem import AnyTeacher
from polyceptron.progress import steps
from polyceptron.sides.weights import few_classes, finite_rows, point_rows, sampled_rows
from polyceptron.sides.weights.field_table import single_variance
from polyceptron.sides.weights.row_differences import changes_of_one_class, row_spacing
from polyceptron.sides.weights.sign_table import is_sign, sign_table

# Points that a row can take, by the number of classes, which are summed on a lattice in seconds.
LARGEST_LATTICE_OF_ROWS = {4: 4096, 5: 1024, 6: 64}
# The same at six classes, if some rows are so close that samples would miss them.
LARGEST_LATTICE_OF_CLOSE_ROWS = 1024
# e-folds of the lattice's error on the first of its two levels, and the relative error of v that
# will do.
DIGITS_OF_LATTICE = {4: 12, 5: 10, 6: 9}
WANTED_ERROR_OF_LATTICE = 2e-4
ERROR_OF_SAMPLED_SHIFT = 1e-5  # relative, of v: what the nodes of the common shift leave
ERRORS_OF_PRIOR = 3.0  # a prior's own error enters ln g, mean and variance


def _no_error(q_hat: float, level: int) -> float:
    """Return 0: the rule is exact up to rounding."""
    return 0.0


@dataclass(frozen=True)
class RowRule:
    """How v₁ is computed at q̂ and a level; where it is sampled, 2**level points a replicate.

    Attributes
    ----------
    at : callable
        Takes q̂ and a level, and returns v₁: a number, or replicates (R,).
    error : callable
        Takes the same and returns the relative error of v₁, sampling apart.
    levels : iterable of int
        Levels of a rule that is not sampled, tried in turn until the error is `enough`.
    enough : float
    sampled : bool
        Whether v₁ is averaged over random points.
    known : callable, optional
        Most of v₁ at q̂, which is not sampled.
    """

    at: Callable[[float, int], ArrayLike]
    error: Callable[[float, int], float] = _no_error
    levels: Iterable[int] = ()
    enough: float = 0.0
    sampled: bool = False
    known: Callable[[float], float] | None = None

    def __call__(self, q_hat: ArrayLike, level: int = 8) -> Array:
        """Return v₁ at each q̂ (p,), shape (p, replicates)."""
        values = np.atleast_1d(np.asarray(q_hat, dtype=float))
        return np.stack([np.atleast_1d(self.at(float(value), level)) for value in steps(values)])


@lru_cache(maxsize=64)
def row_rule(teacher: AnyTeacher) -> RowRule:
    """Return the rule of a teacher's rows."""
    if teacher.prior.gaussian:
        return RowRule(_gaussian_variance)
    if teacher.prior.support is not None:
        return _rule_of_finite_prior(teacher)
    return _rule_of_continuous_prior(teacher)


def _gaussian_variance(q_hat: float, level: int) -> float:
    """Return v₁ of Gaussian weights."""
    return 1 / (1 + q_hat)


def _rule_of_finite_prior(teacher: AnyTeacher) -> RowRule:
    """Return the rule of a prior with finitely many values."""
    prior = teacher.prior
    k = teacher.n_classes
    if teacher.reduced_rank <= 2:
        return RowRule(lambda q_hat, _: point_rows.point_variance(teacher, q_hat))
    if is_sign(prior):
        table = sign_table(k)
        return RowRule(
            lambda q_hat, _: np.exp(table.log_variance(np.sqrt([q_hat]))),
            lambda q_hat, _: float(table.error(math.sqrt(q_hat))),
        )
    n_values = len(point_rows.support_of(prior)[0])
    if n_values**k <= _largest_lattice(teacher):
        digits = DIGITS_OF_LATTICE[k]
        return RowRule(
            partial(point_rows.point_variance, teacher),
            partial(point_rows.point_error, teacher),
            (digits, digits + 2),
            WANTED_ERROR_OF_LATTICE,
        )
    return RowRule(
        partial(finite_rows.finite_row_variance, prior, k),
        lambda *_: ERROR_OF_SAMPLED_SHIFT,
        sampled=True,
    )


def _largest_lattice(teacher: AnyTeacher) -> int:
    """Return up to how many points of a row are summed on a lattice."""
    k = teacher.n_classes
    if k == 6 and row_spacing(teacher) < 0.5 * changes_of_one_class(teacher).min():
        return LARGEST_LATTICE_OF_CLOSE_ROWS
    return LARGEST_LATTICE_OF_ROWS.get(k, 0)


def _rule_of_continuous_prior(teacher: AnyTeacher) -> RowRule:
    """Return the rule of a prior with a density that is not Gaussian."""
    prior = teacher.prior
    k = teacher.n_classes
    error_of_prior = ERRORS_OF_PRIOR * prior.accuracy
    if not teacher.common_shift:
        return RowRule(lambda q_hat, _: single_variance(prior, q_hat), lambda *_: error_of_prior)
    if k > 3:
        return RowRule(
            partial(sampled_rows.sampled_shift_variance, prior, k),
            lambda *_: ERROR_OF_SAMPLED_SHIFT + error_of_prior,
            sampled=True,
            known=partial(single_variance, prior),
        )
    return RowRule(
        partial(few_classes.few_shift_variance, prior, k),
        lambda q_hat, level: few_classes.few_shift_error(prior, k, q_hat, level) + error_of_prior,
        range(2, len(few_classes.GAP_RULES[k])),
        few_classes.GAP_ERROR[k],
    )


class Effort(NamedTuple):
    """log2 of the points of the first and the finest curve, and the default tolerances."""

    first: int  # a few seconds; 0 where nothing is sampled
    last: int  # minutes
    tolerance: float  # of the error
    transition: float  # of α_IT and α_algo


def effort(teacher: AnyTeacher) -> Effort:
    """Return how hard to sample for a teacher, and the uncertainty to ask for by default."""
    k = teacher.n_classes
    prior = teacher.prior
    continuous = prior.support is None and not prior.gaussian
    if k <= 3:
        tolerance = 1e-8
        if continuous and k == 3:
            tolerance = 1e-6  # what the gap rule of three classes reaches
        return Effort(0, 0, tolerance, transition=1e-6)
    tolerance = _tolerance_of_many_classes(teacher, continuous)
    if not row_rule(teacher).sampled:
        return Effort(0, 0, tolerance, transition=1e-3)
    last = 10 if k <= 20 else 8
    return Effort(_first_level(k, continuous), last, tolerance, transition=3e-3)


def _tolerance_of_many_classes(teacher: AnyTeacher, continuous: bool) -> float:
    """Return the default tolerance of the error from four classes on."""
    if teacher.prior.gaussian:
        return 1e-4
    if continuous:
        return 2e-3
    return 3e-4


def _first_level(k: int, continuous: bool) -> int:
    """Return log2 of the points of the first curve; what the shift hides falls as 1/k."""
    few = 10 if continuous else 20
    if k <= few:
        return 5
    if k <= 60:
        return 4
    return 2
