"""From differences between levels of accuracy to an error bar: every factor that is used for it.

A *level* is a number of nodes or points. With ε the generalisation error, θ the logarithms of the
order parameters and s = |dε/d ln τ|, the bar of a level is

    share · max(change, CHANCE_AGREEMENT · change before) + s · floor,

where `change` is that of ε between two levels, or s times half of the largest change of θ if this
is more, and `floor` is what the rule sees of its own error. Random points have the spread of their
replicates in place of a change. Whether bars hold in 99 of 100 cases is counted by
tests/agreement/test_coverage.py, against answers by another route.
"""

import math

# Share of the last change that may be left, where a rule does not say less (`Rule.left`): of a loss
# that bends where no node is placed for it, levels converge slowly.
LEFT_OF_BENT_LOSS = 1.0
# Share of the only change yet, where nodes follow the law: one difference shows no rate.
LEFT_OF_FIRST_CHANGE = 1.5
# Share of the change before the last: two levels may agree by chance. The same share of the largest
# relative change is counted for every other number of a level.
CHANCE_AGREEMENT = 0.1
# An average may be off by so many times what the checks of a level are off.
DOUBT_FACTOR = 4.0
# Of ln τ for each share of Q that samples which were missed may make up: at most 0.2 was seen.
MISSED_PULL = 0.25
# Share of Q that counts as many samples missed: then two levels may miss the same ones.
MANY_MISSED = 0.1
# |d ln(training loss)/dθ| is at most 1 for ln V (the proximal point moves by at most its own pull),
# and 1/2 and 2 for ln q and ln τ (powers of the width of the boundary layer that holds the loss).
LOSS_SLOPE = 3.0
# Share of the change of the training loss between two levels that may be left.
LEFT_OF_LOSS = 0.2
# Least relative error of a step that was computed with a Jacobian of a coarser level.
CHORD_ERROR = 0.03
# Steps that may be still to go where no step lowered the residual.
STEPS_LEFT_ASTRAY = 9.0
# Confidence of the spread of replicates: a row has three numbers, each of 99 of 100 cases.
REPLICATES_CONFIDENCE = 0.998
ROUNDING = 1e-14
# Points without a mistake among n: up to ln(100) of them may have one, in 99 of 100 cases.
RARE_EVENTS = math.log(100)


def change_of_error(change: float, slope: float, moved: float) -> float:
    """Return the change of ε that a level stands for: that of ε, or what the move of θ is worth."""
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
        Of ε, ≥ 0.
    slope : float
        |dε/d ln τ|.
    floor : float
        Error of ln τ by the rule's own checks.
    """
    return share * max(change, CHANCE_AGREEMENT * change_before) + slope * floor


def floor_of_missed_samples(missed: float, largest_move: float) -> float:
    """Return the error of ln τ by samples that pull and were missed.

    A level is then no better than the step to it; where many are missed, two levels may miss the
    same ones.
    """
    most = largest_move
    if missed > MANY_MISSED:
        most = largest_move + 1.0
    return min(MISSED_PULL * missed, most)


def bar_of_loss(loss: float, theta_error: float, rounding: float) -> float:
    """Return the error bar of the training loss by what θ is off and by rounding."""
    return LOSS_SLOPE * theta_error * abs(loss) + rounding


def bar_of_mistakes(mistakes: float, theta_error: float) -> float:
    """Return the error bar of the training error P by what θ is off.

    The further the boundary, the rarer are mistakes: P ~ e^{−x²/2}, d ln P/d ln x ≈ −2 ln(1/P).
    """
    if mistakes <= 0:
        return ROUNDING
    return LOSS_SLOPE * (1 - math.log(mistakes)) * theta_error * mistakes + ROUNDING


def rounding_of_loss(n_classes: int, V: float) -> float:
    """Return the rounding of a mean loss: in each class a proximal point moves by V times f."""
    return ROUNDING * (1 + n_classes / 2 * V)
