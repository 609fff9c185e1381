"""How hard to sample, by the number of classes: the one place where it is decided.

Channels are computed without chance, and so are rows of weights up to three classes. Above,
Gaussian weights have a closed form and ±1 weights a table. What is left is sampled: an effort is
log2 of the quasi-random points of a replicate, of which there are 16, and 0 where nothing is
sampled. A point costs about k (finite priors) or k² (continuous ones, up to twelve classes), so
more classes start lower and stop earlier.
"""

from __future__ import annotations

from polyceptron.model import AnyTeacher
from polyceptron.theory.weights.rules import row_rule

DETERMINISTIC_TOL = 1e-8
GAP_TOL = 1e-6  # three classes of a continuous prior: the gap rule is good to that
# Four classes and more: Gaussian weights, finite ones, any other.
GAUSSIAN_TOL, FINITE_TOL, SAMPLED_ROWS_TOL = 1e-4, 3e-4, 2e-3
# Of transitions: rules, tables, sampling.
EXACT_TRANSITION_TOL, TABLE_TRANSITION_TOL, SAMPLED_TRANSITION_TOL = 1e-6, 1e-3, 3e-3


def sampled(teacher: AnyTeacher) -> bool:
    """Whether the theory of this teacher is averaged over random points."""
    return row_rule(teacher).sampled


def first_effort(teacher: AnyTeacher) -> int:
    """A curve to find one's way on: a few seconds."""
    if not sampled(teacher):
        return 0
    return 6 if teacher.n_classes <= 20 else 4


def last_effort(teacher: AnyTeacher) -> int:
    """The finest curve: minutes."""
    k = teacher.n_classes
    if not sampled(teacher):
        return 0
    most = 11 if k <= 20 else 10 if k <= 50 else 8
    return most if teacher.prior.gaussian or teacher.prior.support is not None else most - 2


def drawn_effort(teacher: AnyTeacher) -> int:
    """For whole trajectories and curves, which are looked at rather than read off."""
    if not sampled(teacher):
        return 0
    return 8 if teacher.n_classes <= 20 else 5


def bayes_tolerance(teacher: AnyTeacher) -> float:
    """The uncertainty of an error that is asked for when none is given."""
    prior = teacher.prior
    continuous = prior.support is None and not prior.gaussian
    if teacher.n_classes > 3:
        return GAUSSIAN_TOL if prior.gaussian else SAMPLED_ROWS_TOL if continuous else FINITE_TOL
    return GAP_TOL if continuous and teacher.n_classes == 3 else DETERMINISTIC_TOL


def transition_tolerance(teacher: AnyTeacher) -> float:
    """The uncertainty of a transition that is asked for when none is given."""
    if teacher.n_classes <= 3:
        return EXACT_TRANSITION_TOL
    return SAMPLED_TRANSITION_TOL if sampled(teacher) else TABLE_TRANSITION_TOL
