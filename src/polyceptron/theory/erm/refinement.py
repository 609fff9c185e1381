"""From the coarse root to an answer with its uncertainty: finer levels correct it.

Deterministic levels go on until two of them agree within the tolerance; random ones until the
replicates' spread does. What was reached is the stated uncertainty, which holds in at least 99 of
100 cases.
"""

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from polyceptron.numerics import Array
from polyceptron.numerics.estimate import student_quantile
from polyceptron.progress import steps
from polyceptron.sides.fields.integrand import Averages
from polyceptron.sides.generalisation import error_on_labels, error_slope
from polyceptron.theory.erm.coarse_root import Root, even, newton
from polyceptron.theory.erm.equations import Equations

_UNBROKEN_LEFT = 1.0  # of the last step, with a loss that bends where no node is placed for it
_ALONE = 1.5  # of a step that is the only one yet, where nodes follow the law
_CHANCE = 0.1  # of the change before the last: two levels may agree by chance
_DOUBT = 4.0  # an average may be off by so many times what the checks of a level are off
_PULL = 0.25  # of ln τ, by what Q is off: seen were 0.2
_MANY = 0.1  # of them
_ROUNDING = 1e-14
# |d ln(training loss)/dθ| is at most 1 for ln V (the proximal point moves by at most its own pull),
# and 1/2 and 2 for ln q and ln τ (powers of the width of the boundary layer that holds the loss).
_LOSS_SLOPE = 3.0
_CHORD = 0.03  # least error of a Jacobian taken on a coarser level, relative to what a step moves
_ASTRAY = 9.0  # steps that are still to go where there was no way down
_CLOSE, _PART = 1e-4, 0.01  # of θ between levels, and of the change before
_UNTRIED = 3.0, 5e-3  # tolerances, and at most: a step of θ on random points that need no trial
_RATE, _MOST_LEVELS = 0.85, 3  # of random points: their error, and levels at once
_FEW = 0.1  # of the tolerance: the spread of the fewest points that will do
_CONFIDENCE = 0.998  # of replicates: a row has three numbers, of the first level that would do


class Refined(NamedTuple):
    """θ and the averages there, the error on labels, and the uncertainties of what they give."""

    theta: Array
    averages: Averages  # one replicate
    theta_uncertainty: Array
    error: float
    uncertainty: float
    loss_uncertainty: float
    mistakes_uncertainty: float


def _mistake_slope(share: float) -> float:
    """|d ln P/dθ| of the share P of training samples that are mistaken.

    The further the boundary, the rarer they are: P ~ e^{−x²/2}, d ln P/d ln x ≈ −2 ln(1/P).
    """
    return _LOSS_SLOPE * (1 - math.log(share)) if share > 0 else 0.0


def refine(system: Equations, root: Root, tol: float) -> Refined:
    """The root on finer levels, until ε is within `tol` or there is none finer."""
    if system.problem.fields.explicit(system.law(root.theta)) is not None:
        return _exact(system, root)
    levels = _random_levels if system.problem.fields.rule.sampled else _smooth_levels
    for refined in steps(levels(system, root, tol), _MOST_LEVELS, growth=2):
        if refined.uncertainty <= tol:
            break
    return refined


def _error(system: Equations, theta: Array) -> float:
    tau, k = math.exp(theta[0]), system.problem.n_classes
    return float(error_on_labels(system.problem.channel, tau, k))


def _slope(system: Equations, theta: Array) -> float:
    return error_slope(system.problem.channel, math.exp(theta[0]), system.problem.n_classes)


def _moved(system: Equations, level: int, root: Root, tol: float) -> tuple[Root, Averages]:
    """The root on a level, with nodes placed at another's, and the averages there."""
    placed = lru_cache(maxsize=2)(system.placed(level, root.theta))  # asked for the root again
    rule = system.problem.fields.rule
    chord = rule.sampled or (rule.follows and even(root.jacobian))
    root = newton(system.on(placed), root.theta, tol=tol, jacobian=root.jacobian, chord=chord)
    return root, placed(system.law(root.theta))


def _lost(system: Equations, theta: Array) -> float:
    """Of a loss by rounding: in each class a proximal point moves by V times f."""
    return _ROUNDING * (1 + system.problem.n_classes / 2 * system.law(theta).V)


def _between(system: Equations, level: int, root: Root) -> Array:
    """What each equation's change from the level before moves of each θ, at one law: (3, 3)."""
    before, _ = system.at(level - 1, root.theta)
    change = root.residual - system.residual(root.theta, before).mean(1)
    return np.asarray(np.linalg.inv(root.jacobian) * change)


def _exact(system: Equations, root: Root) -> Refined:
    """Averages in closed form: the root to rounding."""
    root, averages = _moved(system, 0, root, 1e-13)
    width, bar = np.full(len(root.theta), 1e-12), 1e-12 + system.problem.channel.accuracy
    return Refined(root.theta, averages, width, _error(system, root.theta), bar, bar, bar)


def _smooth_levels(system: Equations, root: Root, tol: float) -> Iterator[Refined]:
    """The answer on each level finer than that of the root.

    What is left is a share of the last difference of two levels, or of the one before, should the
    last be small by chance, and what the rule sees of its own error.
    """
    rule, loss, k = system.problem.fields.rule, system.problem.loss, system.problem.n_classes
    unbroken = not loss.coordinates.resolved or (rule.follows and loss.scale_free)
    left = _UNBROKEN_LEFT if unbroken else rule.left
    # The coarse root is known to the digits of its search: the level's own is a step away.
    theta = root.theta + root.step()
    error, before, last, moved_before = _error(system, theta), None, 0.0, 0.0
    diverging = system.problem.ridge == 0 or loss.scale_free
    diverging = diverging and not system.problem.channel.noiseless  # at α_s
    if diverging and root.level > 0:
        each = _between(system, root.level, root)
        last = _slope(system, theta) * float(np.abs(each[0]).sum())
        moved_before = float(np.abs(each.sum(1)).max())
    for level in range(root.level + 1, rule.n_levels):
        root, averages = _moved(system, level, root, max(_CLOSE, _PART * moved_before))
        doubt = averages.doubt(system.law(root.theta), rule.by_parts)
        new_theta = root.theta + root.step()
        slope, new_error = _slope(system, new_theta), _error(system, new_theta)
        moved = float(np.max(np.abs(new_theta - theta)))
        turned = 0.5 * moved  # levels may agree on τ by accident
        if diverging:
            # Next to α_s ln q moves most, and τ hardly: by what each equation moves it, unsigned.
            turned = min(turned, float(np.abs(_between(system, level, root)[0]).sum()))
        change = max(abs(new_error - error), slope * turned)
        floor = rule.floors[level - 1] + _DOUBT * doubt
        if rule.follows and not loss.scale_free:
            # Where pulling samples are missed a level is no better than the step to it, or the one
            # before, should the last be small by chance; where many are, two may miss the same.
            missed = averages.missed(k - 1)
            floor += min(_PULL * missed, max(moved, moved_before) + (missed > _MANY))
        share = left if last or not rule.follows else _ALONE  # one difference shows no rate
        uncertainty = share * max(change, _CHANCE * last) + slope * floor
        cost, mistakes = float(averages.loss[0]), float(averages.error[0])
        turn = (0.0, 0.0) if before is None else (cost - before[0], mistakes - before[1])
        rest = _LOSS_SLOPE * moved + rule.loss_floor * floor
        yield Refined(
            new_theta,
            averages,
            np.full(len(theta), share * moved + floor),
            new_error,
            uncertainty + system.problem.channel.accuracy + _ROUNDING,
            0.2 * abs(turn[0]) + rest * abs(cost) + _lost(system, root.theta),
            abs(turn[1]) + _mistake_slope(mistakes) * (moved + floor) * mistakes + _ROUNDING,
        )
        root, moved_before = root._replace(theta=new_theta), moved
        theta, error, before, last = new_theta, new_error, (cost, mistakes), change


def _random_levels(system: Equations, root: Root, tol: float) -> Iterator[Refined]:
    """The answer on levels that may do, by what the replicates' spread was on the last."""
    last, level = system.problem.fields.rule.n_levels - 1, 0
    while True:
        close = min(_UNTRIED[0] * tol / max(_slope(system, root.theta), tol), _UNTRIED[1])
        root, sampled = _moved(system, level, root, close)
        each = np.linalg.solve(root.jacobian, -system.residual(root.theta, sampled))
        shift, n = root.step(), each.shape[1]
        factor = student_quantile(n, _CONFIDENCE) / math.sqrt(n)
        size = float(np.abs(shift).max())
        # The bias of a nonlinear function of means: second order in the spread.
        spread = (
            factor * each.std(1, ddof=1) + (np.abs(each.mean(1) - shift) + each.var(1).max()) / n
        )
        width = spread + (_CHORD if root.converged else _ASTRAY) * size + size**2
        root = root._replace(theta=root.theta + shift)
        uncertainty = _slope(system, root.theta) * float(width[0]) + _ROUNDING
        rest, wrong = float(width.max() + size), float(sampled.error.mean())
        spreads = [factor * float(part.std(ddof=1)) for part in (sampled.loss, sampled.error)]
        spreads[0] += _LOSS_SLOPE * rest * float(sampled.loss.mean()) + _lost(system, root.theta)
        spreads[1] += _mistake_slope(wrong) * rest * wrong + _ROUNDING
        if level > 0 or uncertainty < _FEW * tol:
            error = _error(system, root.theta)
            yield Refined(root.theta, sampled.mean(), width, error, uncertainty, *spreads)
        if level == last:
            return
        # The error falls as 1/N^rate or faster: go to the level that will do, each doubles N. Far
        # from the root the spread is no guide, and steps towards it are cheap on a coarse level.
        more = math.ceil(math.log2(max(uncertainty / tol, 1.0)) / _RATE)
        level += min(max(1, more), _MOST_LEVELS, last - level) if level else 1
