"""From differences between levels of accuracy to an error bar: every factor that is used for it.

The fixed point of eq. SE is solved for on one *level* after the other, each with more nodes or
points than the one before. With scalar order parameters the unknowns are

    θ = (ln τ, ln q, ln V),    τ = ρ/√(1 − ρ²),    ρ = m/√q

with m, q and V of eq. mqv and eq. SE, and ρ the correlation of student and teacher. The
generalisation error ε (eq. generalization_ERM) depends on τ alone: s = |dε/d ln τ| is its slope.
The error bar of ε on a level is

    share · max(change, CHANCE_AGREEMENT · change before) + s · floor

    change           of ε from the level before, or s times half of the largest change of θ, if more
    change before    the same between the two levels before
    share            how much of the last change may be left to come
    floor            error of ln τ that the rule of integration sees by its own checks

Random points have the spread of their replicates in place of a change. This file has the factors
and the formulas; nothing is solved here. `theory/erm/refinement.py` calls them for scalars, and
`theory/erm/refined_boxes.py` and `refined_points.py` take constants for matrices. Factors that no
theorem gives were set by cases. Whether bars hold in 99 of 100 cases is counted by
tests/agreement/test_coverage.py, against answers by another route.
"""

import math

# Shares of a change between levels, used by the formulas below and in refinement.py.

# Share of the last change that may be left for a loss that bends where no node is placed for it:
# its levels converge slowly. Where all bends are known, `FieldsRule.left` says less.
LEFT_OF_BENT_LOSS = 1.0
# The same where there is one change only, of nodes that follow θ: one change shows no rate.
LEFT_OF_FIRST_CHANGE = 1.5
# Share of the change before the last one: the last two levels may agree by chance. For numbers of a
# level with no history of their own, it is a share of the largest relative change of all numbers.
CHANCE_AGREEMENT = 0.1
# Share of the change of the training loss between two levels that may be left.
LEFT_OF_LOSS = 0.2

# Errors of ln τ that a level sees on its own.

# Error of ln τ per unit of `Averages.doubt`, the relative error that the averages' identities show.
DOUBT_FACTOR = 4.0
# Error of ln τ per unit of `Averages.missed`, the probability that nodes miss over E‖f‖². At most
# 0.2 was seen.
MISSED_PULL = 0.25
# Above this value of `Averages.missed` two levels may miss the same samples and agree on a wrong τ.
MANY_MISSED = 0.1
# Where many are missed, the error of ln τ is not bounded by the change between levels, but by this
# much more: a factor e of τ.
LARGEST_UNSEEN_ERROR_OF_LOG_TAU = 1.0

# Relative change of the training loss per unit of the largest error of θ. The slopes to ln τ, ln q
# and ln V have opposite signs in part. The sum of their sizes was 2.75 at most for cross-entropy
# and the square loss at random θ, and 5.2 for the squared hinge, whose error of θ is counted in
# full between levels although about a fifth of it is left (`FieldsRule.left`).
LOSS_SLOPE = 3.0

# Steps of Newton's method, on random points.

# Relative error of a step that was computed with the Jacobian of a coarser level, at least.
CHORD_ERROR = 0.03
# Lengths of the last step that may be still to go, where no step lowered the residual.
STEPS_LEFT_ASTRAY = 9.0

# Statistics of random points.

# Confidence of intervals from replicates. A row has three numbers, each right in 99 of 100 cases.
REPLICATES_CONFIDENCE = 0.998
# If none of n points is a mistake, their probability is below ln(100)/n in 99 of 100 cases, since
# (1 − p)ⁿ ≈ e^{−np}. Used by refined_points.py.
RARE_EVENTS = math.log(100)

ROUNDING = 1e-14  # of a number of order 1: some 50 times the spacing of doubles


def change_of_error(change: float, slope: float, moved: float) -> float:
    """Return the change of ε between two levels, at least what a move of ln τ is worth.

    Two levels may have the same ε by accident although θ moved.

    Parameters
    ----------
    change : float
        Of ε, of either sign.
    slope : float
        |dε/d ln τ|.
    moved : float
        Change of ln τ to count: the caller gives half of the largest change of θ.
    """
    return max(abs(change), slope * moved)


def bar_between_levels(
    share: float, change: float, change_before: float, slope: float, floor: float
) -> float:
    """Return the error bar of ε from its last two changes between levels.

    Parameters
    ----------
    share : float
        Of the change that may be left.
    change, change_before : float
        Of ε, ≥ 0, the last and the one before it.
    slope : float
        |dε/d ln τ|.
    floor : float
        Error of ln τ by the rule's own checks.
    """
    return share * max(change, CHANCE_AGREEMENT * change_before) + slope * floor


def floor_of_missed_samples(missed: float, largest_move: float) -> float:
    """Return the error of ln τ by samples that pull on the student and that no node represents.

    Few missed samples make an error of about the step to this level, at most. If many are missed,
    two levels may miss the same ones and the step may be small: it bounds nothing then.

    Parameters
    ----------
    missed : float
        `Averages.missed`: missed probability over E‖f‖². It exceeds 1 where most samples that pull
        may be missed.
    largest_move : float
        Largest change of θ over the last two changes of level.
    """
    most = largest_move
    if missed > MANY_MISSED:
        most = largest_move + LARGEST_UNSEEN_ERROR_OF_LOG_TAU
    return min(MISSED_PULL * missed, most)


def bar_of_loss(loss: float, theta_error: float, rounding: float) -> float:
    """Return the error bar of the training loss, from the largest error of θ and from rounding."""
    return LOSS_SLOPE * theta_error * abs(loss) + rounding


def bar_of_mistakes(mistakes: float, theta_error: float) -> float:
    """Return the error bar of the training error P, from the largest error of θ.

    A sample is mistaken beyond a boundary at some distance x in standard deviations of the fields,
    P ~ e^{−x²/2}. So d ln P/d ln x ≈ −x² ≈ −2 ln(1/P), and an error of ln x by that of θ changes P
    by 2 P ln(1/P) times it. The factor here is `LOSS_SLOPE`, half as much again, and the added 1
    serves P near 1, where ln(1/P) is 0.

    P = 0 has the bar of rounding, which is right where P is an integral over nodes. That random
    points show no mistake says less: there the theory takes P from the law of margins instead,
    wherever it is known (`Problem.training_error`).
    """
    if mistakes <= 0:
        return ROUNDING
    return LOSS_SLOPE * (1 - math.log(mistakes)) * theta_error * mistakes + ROUNDING


def rounding_of_loss(n_classes: int, V: float) -> float:
    """Return the rounding of a mean training loss.

    The loss is taken at the proximal point u = ω + Vf, which is off by a rounding of V|f| in each
    class, |f| ≤ 1. For two classes this counts once, for k at worst k/2 times; 1 is the rounding of
    the loss itself.
    """
    return ROUNDING * (1 + n_classes / 2 * V)
