"""From the coarse root to an answer with its uncertainty: finer levels correct it.

Deterministic levels go on until two of them agree within the tolerance; random ones until the
replicates' spread does. What was reached is the stated uncertainty, which holds in at least 99 of
100 cases.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from polyceptron.numerics import Array
from polyceptron.numerics.estimate import student_quantile
from polyceptron.theory.erm.coarse_root import residual_on
from polyceptron.theory.erm.equations import Equations
from polyceptron.theory.fields.integrand import Averages
from polyceptron.theory.generalisation import error_on_labels, error_slope
from polyceptron.theory.root_newton import Root, newton

UNBROKEN_LEFT = 1.0  # of the last step, with a loss that bends where no node is placed for it
ALONE = 1.5  # of a step that is the only one yet, where nodes follow the law
CHANCE = 0.1  # of the change before the last: two levels may agree by chance
DOUBT = 4.0  # an average may be off by so many times what the checks of a level are off
PULL = 0.25  # of ln τ, by what Q is off: seen were 0.2
ROUNDING = 1e-14
# |d ln(training loss)/dθ| is at most 1 for ln V (the proximal point moves by at most its own pull),
# and 1/2 and 2 for ln q and ln τ (powers of the width of the boundary layer that holds the loss).
LOSS_SLOPE = 3.0
CHORD = 0.03  # least error of a Jacobian taken on a coarser level, relative to what a step moves
CHORD_MOST = 0.9
_WALK, _CLOSE, _FAR = 6, 0.003, 0.3  # steps of θ between levels: how many, the last, the longest
_STIFF, _TOLERABLE = 5.0, 1e-5  # residual over step that is too much; θ of sums by Newton's method
MOST_LEVELS = 3  # of random points, at once


class Refined(NamedTuple):
    """θ and the averages there, the error on labels, and the uncertainties of what they give."""

    root: Root
    averages: Averages  # one replicate
    theta_uncertainty: Array
    error: float
    uncertainty: float
    loss_uncertainty: float
    mistakes_uncertainty: float


def mistake_slope(share: float) -> float:
    """|d ln P/dθ| of the share P of training samples that are mistaken.

    The further the boundary, the rarer they are: P ~ e^{−x²/2}, d ln P/d ln x ≈ −2 ln(1/P).
    """
    return LOSS_SLOPE * (1 - math.log(share)) if share > 0 else 0.0


def refine(system: Equations, root: Root, tol: float) -> Refined:
    """The root on finer levels, until ε is within `tol` or there is none finer."""
    if system.problem.fields.explicit(system.law(root.theta)) is not None:
        return _exact(system, root)
    if system.problem.fields.rule.sampled:
        return _refine_sampled(system, root, tol)
    for refined in smooth_levels(system, root):
        if refined.uncertainty <= tol:
            break
    return refined


def _error(system: Equations, theta: Array) -> float:
    problem = system.problem
    return float(error_on_labels(problem.channel, math.exp(theta[0]), problem.n_classes))


def _slope(system: Equations, theta: Array) -> float:
    problem = system.problem
    return error_slope(problem.channel, math.exp(theta[0]), problem.n_classes)


def _exact(system: Equations, root: Root) -> Refined:
    """Averages in closed form: the root to rounding."""
    residual = residual_on(system, 0, root.theta)
    root = newton(residual, root.theta, tol=1e-13, jacobian=root.jacobian)
    averages = system.problem.fields.averages(0, system.law(root.theta))(system.law(root.theta))
    width = np.full(len(root.theta), 1e-12)
    return Refined(root, averages, width, _error(system, root.theta), 1e-12, 1e-12, 1e-12)


def smooth_levels(system: Equations, root: Root) -> Iterator[Refined]:
    """The answer on each level finer than that of the root.

    What is left is a share of the last difference of two levels, or of the one before, should the
    last be small by chance, and what the rule sees of its own error.
    """
    rule = system.problem.fields.rule
    floors, left = rule.floors, rule.left
    loss = system.problem.loss
    if not loss.coordinates.resolved or (rule.follows and loss.scale_free):
        left = UNBROKEN_LEFT
    # The coarse root is known to the digits of its search: the level's own is a step away.
    theta = root.theta - np.linalg.solve(root.jacobian, root.residual)
    error, before = _error(system, theta), None
    last = 0.0
    for level in range(root.level + 1, rule.n_levels):
        root, averages, shift = _walk(system, level, root)
        doubt = averages.doubt(system.law(root.theta), rule.by_parts)
        root = root._replace(theta=root.theta + shift)
        slope = _slope(system, root.theta)
        new_error = _error(system, root.theta)
        moved = float(np.max(np.abs(root.theta - theta)))
        turned = 0.5 * moved  # levels may agree on τ by accident
        if system.problem.ridge == 0:
            # Next to α_s ln q moves most, and τ hardly: by what each equation moves it, unsigned.
            each = np.linalg.inv(root.jacobian)[0] * (root.jacobian @ (root.theta - theta))
            turned = min(turned, float(np.abs(each).sum()))
        change = max(abs(new_error - error), slope * turned)
        floor = floors[level - 1] + DOUBT * doubt
        if rule.follows and not loss.scale_free:
            # A mass that is missed may be that of samples which pull, a share of rQ or more: then
            # a level is no better than the step to it.
            pull = (system.problem.n_classes - 1) * float(averages.Q[0])
            missed = abs(float(averages.mass[0]) - 1) / max(pull, 1e-300)
            floor += min(PULL * missed, moved)
        share = left if last or not rule.follows else ALONE  # one difference shows no rate
        uncertainty = share * max(change, CHANCE * last) + slope * floor
        cost, mistakes = float(averages.loss[0]), float(averages.error[0])
        turn = (0.0, 0.0) if before is None else (cost - before[0], mistakes - before[1])
        rest = LOSS_SLOPE * moved + rule.loss_floor * floor
        yield Refined(
            root,
            averages,
            np.full(len(theta), share * moved + floor),
            new_error,
            uncertainty + system.problem.channel.accuracy + ROUNDING,
            0.2 * abs(turn[0]) + rest * abs(cost) + ROUNDING,
            abs(turn[1]) + mistake_slope(mistakes) * (moved + floor) * mistakes + ROUNDING,
        )
        theta, error, before, last = root.theta, new_error, (cost, mistakes), change


def _walk(system: Equations, level: int, root: Root) -> tuple[Root, Averages, Array]:
    """Near the root of a level: where, the averages there, and the last step, not taken yet.

    A long way is walked by Broyden's method, and where that leads nowhere by Newton's.
    """
    rule = system.problem.fields.rule
    step: Array = np.zeros(0)
    for _ in range(_WALK):
        averages, value = _at(system, level, root)
        if step.size:  # the residual was to vanish
            jacobian = root.jacobian + np.outer(value, step) / (step @ step)
            root = root._replace(jacobian=jacobian)
        step = np.asarray(np.linalg.solve(root.jacobian, -value), dtype=float)
        size, wrong = float(np.max(np.abs(step))), float(np.max(np.abs(value)))
        if max(size, wrong) < _CLOSE:
            return root, averages, step
        if size > _FAR or wrong > _STIFF * size:
            break
        root = root._replace(theta=root.theta + step)
    close = _TOLERABLE if rule.follows else max(1e-11, 0.02 * rule.floors[level - 1])
    residual = residual_on(system, level, root.theta)
    root = newton(residual, root.theta, tol=close, jacobian=root.jacobian)
    averages, value = _at(system, level, root)
    return root, averages, np.asarray(np.linalg.solve(root.jacobian, -value))


def _at(system: Equations, level: int, root: Root) -> tuple[Averages, Array]:
    """Averages on a level with nodes placed at the root, and the residual."""
    law = system.law(root.theta)
    averages = system.problem.fields.averages(level, law)(law)
    return averages, system.residual(root.theta, averages)[:, 0]


def _refine_sampled(system: Equations, root: Root, tol: float) -> Refined:
    problem = system.problem
    last, level = problem.fields.rule.n_levels - 1, 1
    chord = None  # how much of a step the next one was
    while True:
        averages = problem.fields.averages(level, system.law(root.theta))
        step: Array = root.theta
        before = 0.0
        for _ in range(5):
            sampled = averages(system.law(root.theta))
            one = system.residual(root.theta, sampled.mean())[:, 0]
            each = np.linalg.solve(root.jacobian, -system.residual(root.theta, sampled))
            shift: Array = np.asarray(np.linalg.solve(root.jacobian, -one), dtype=float)
            n = each.shape[1]
            # A degree of freedom more is spent on the slope of the control variate.
            factor = student_quantile(n - 1) / math.sqrt(n)
            spread = factor * each.std(1, ddof=1)
            # The bias of a nonlinear function of means: second order in the spread.
            spread += (np.abs(each.mean(1) - shift) + each.var(1).max()) / n
            size = float(np.abs(shift).max())
            if before > 0:
                # Broyden's update: with still points the residual was to vanish, and is `one`.
                chord = min(max(CHORD, size / before), CHORD_MOST)
                jacobian = root.jacobian + np.outer(one, step) / (step @ step)
                shift = np.asarray(np.linalg.solve(jacobian, -one), dtype=float)
                root = root._replace(jacobian=jacobian)
            root = root._replace(theta=root.theta + shift)
            step, before = shift, size
            left = CHORD_MOST if chord is None else chord
            rest = left / (1 - left) * size + size**2
            if rest <= 0.05 * spread[0]:
                break
        width = spread + rest
        uncertainty = _slope(system, root.theta) * float(width[0]) + ROUNDING
        if uncertainty <= tol or level == last:
            break
        # The error falls as 1/N^0.85 or faster: go to the level that may do, each doubles N. Far
        # from the root the spread is no guide, and steps towards it are cheap on a coarse level.
        level = min(level + min(max(1, int(math.log2(uncertainty / tol))), MOST_LEVELS), last)
    loss, mistakes = sampled.loss, sampled.error
    rest = float(width.max() + size)
    wrong = float(mistakes.mean())
    lost = ROUNDING * (1 + system.law(root.theta).V)  # a proximal point moves by V times the pull
    return Refined(
        root,
        sampled.mean(),
        width,
        _error(system, root.theta),
        uncertainty,
        factor * float(loss.std(ddof=1)) + LOSS_SLOPE * rest * float(loss.mean()) + lost,
        factor * float(mistakes.std(ddof=1)) + mistake_slope(wrong) * rest * wrong + ROUNDING,
    )
