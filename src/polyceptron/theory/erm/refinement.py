"""From the coarse root to an answer with its uncertainty: finer levels correct it.

Deterministic levels go on until two of them agree within the tolerance (`SmoothRefinement`), random
ones until the spread of their replicates is within it (`_random_levels`). The factors that turn
differences into bars are those of `solve/error_model.py`. Every uncertainty holds in at least 99 of
100 cases.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from polyceptron.numerics import Array
from polyceptron.numerics.estimate import student_quantile
from polyceptron.sides.fields.integrand import Averages
from polyceptron.sides.generalisation import error_on_labels, error_slope
from polyceptron.solve import error_model
from polyceptron.solve.refine import POINTS_RATE, doublings_needed, first_within
from polyceptron.solve.root import Root, has_no_flat_direction, newton
from polyceptron.theory.erm.equations import Equations


class Refined(NamedTuple):
    """The answer on a level: θ, averages, the error on labels, and the uncertainties."""

    theta: Array  # (3,)
    averages: Averages  # one replicate
    theta_uncertainty: Array  # (3,)
    error: float
    uncertainty: float
    loss_uncertainty: float
    mistakes_uncertainty: float


def refine(system: Equations, root: Root, tol: float) -> Refined:
    """Return the root on finer levels, until ε is within `tol` or there is no finer level."""
    problem = system.problem
    if problem.fields.explicit(system.law(root.theta)) is not None:
        return _exact(system, root)
    if problem.nodes_are_random:
        return first_within(_random_levels(system, root, tol), tol)
    return first_within(_smooth_levels(system, root), tol)


def _error(system: Equations, theta: Array) -> float:
    """Return ε at θ."""
    tau = math.exp(theta[0])
    return float(error_on_labels(system.problem.channel, tau, system.problem.n_classes))


def _slope(system: Equations, theta: Array) -> float:
    """Return |dε/d ln τ| at θ."""
    return error_slope(system.problem.channel, math.exp(theta[0]), system.problem.n_classes)


def _rounding_of_loss(system: Equations, theta: Array) -> float:
    return error_model.rounding_of_loss(system.problem.n_classes, system.law(theta).V)


def _moved(system: Equations, level: int, root: Root, tol: float) -> tuple[Root, Averages]:
    """Return the root on a level, with nodes placed at that of another, and the averages there."""
    placed = lru_cache(maxsize=2)(system.placed(level, root.theta))  # asked for the root again
    problem = system.problem
    chord = problem.nodes_are_random
    if problem.nodes_follow_order:
        chord = has_no_flat_direction(root.jacobian)
    root = newton(system.on(placed), root.theta, tol=tol, jacobian=root.jacobian, chord=chord)
    return root, placed(system.law(root.theta))


def _exact(system: Equations, root: Root) -> Refined:
    """Return the root to rounding, where averages are in closed form."""
    root, averages = _moved(system, 0, root, 1e-13)
    rounding = 1e-12  # of θ and of every number
    width = np.full(len(root.theta), rounding)
    bar = rounding + system.problem.channel.accuracy
    return Refined(root.theta, averages, width, _error(system, root.theta), bar, bar, bar)


def _smooth_levels(system: Equations, root: Root) -> Iterator[Refined]:
    """Yield the answer on each level finer than that of the root."""
    refinement = SmoothRefinement.start(system, root)
    for level in range(root.level + 1, system.problem.fields.rule.n_levels):
        yield refinement.advance(level)


@dataclass
class SmoothRefinement:
    """Deterministic levels: the root on the last one, and the changes from the one before it.

    What is left is a share of the last change between two levels, or of the one before, should the
    last be small by chance, and what the rule sees of its own error.
    """

    system: Equations
    root: Root
    theta: Array  # (3,), a step from the root: more digits than its search gave
    error: float
    change_before: float = 0.0  # of ε, between the last two levels
    moved_before: float = 0.0  # of θ
    averages_before: Averages | None = None  # of the level before, None on the first

    @classmethod
    def start(cls, system: Equations, root: Root) -> SmoothRefinement:
        """Begin at the coarse root."""
        # The coarse root is known to the digits of its search: the level's own is a step away.
        theta = root.theta + root.step()
        found = cls(system, root, theta, _error(system, theta))
        if system.problem.weights_diverge_somewhere and root.level > 0:
            moves = found._moves_by_equation(root.level)
            found.change_before = _slope(system, theta) * float(np.abs(moves[0]).sum())
            found.moved_before = float(np.abs(moves.sum(1)).max())
        return found

    def advance(self, level: int) -> Refined:
        """Return the answer on the next level."""
        system = self.system
        # A Newton step follows: θ need not be closer than this, or a hundredth of the last change.
        tol = max(1e-4, 0.01 * self.moved_before)
        self.root, averages = _moved(system, level, self.root, tol)
        theta = self.root.theta + self.root.step()
        error = _error(system, theta)
        slope = _slope(system, theta)
        moved = float(np.max(np.abs(theta - self.theta)))
        change = error_model.change_of_error(error - self.error, slope, self._turn(level, moved))
        floor = self._floor(level, averages, moved)
        share = self._share_left()
        bar = error_model.bar_between_levels(share, change, self.change_before, slope, floor)
        answer = Refined(
            theta,
            averages,
            np.full(len(theta), share * moved + floor),
            error,
            bar + system.problem.channel.accuracy + error_model.ROUNDING,
            self._bar_of_loss(float(averages.loss[0]), moved, floor),
            self._bar_of_mistakes(float(averages.error[0]), moved, floor),
        )
        self.root = self.root._replace(theta=theta)
        self.theta = theta
        self.error = error
        self.change_before = change
        self.moved_before = moved
        self.averages_before = averages
        return answer

    def _turn(self, level: int, moved: float) -> float:
        """Return the change of ln τ to count: half of the largest of θ, or less next to α_s.

        Levels may agree on τ by accident. Next to α_s ln q moves most, and τ hardly: there it is
        what each equation moves of ln τ, without its sign.
        """
        turn = 0.5 * moved
        if self.system.problem.weights_diverge_somewhere:
            turn = min(turn, float(np.abs(self._moves_by_equation(level)[0]).sum()))
        return turn

    def _moves_by_equation(self, level: int) -> Array:
        """Return what each equation's change from the level before moves of each θ, (3, 3)."""
        before, _ = self.system.at(level - 1, self.root.theta)
        change = self.root.residual - self.system.residual(self.root.theta, before).mean(1)
        return np.asarray(np.linalg.inv(self.root.jacobian) * change)

    def _floor(self, level: int, averages: Averages, moved: float) -> float:
        """Return the error of ln τ by the rule's own checks."""
        problem = self.system.problem
        rule = problem.fields.rule
        doubt = averages.doubt(self.system.law(self.root.theta), rule.by_parts)
        floor = rule.floors[level - 1] + error_model.DOUBT_FACTOR * doubt
        if problem.nodes_follow_order and not problem.loss.scale_free:
            missed = averages.missed(problem.n_classes - 1)
            largest_move = max(moved, self.moved_before)
            floor += error_model.floor_of_missed_samples(missed, largest_move)
        return floor

    def _share_left(self) -> float:
        """Return the share of a change that may be left."""
        problem = self.system.problem
        if problem.nodes_follow_order and not self.change_before:
            return error_model.LEFT_OF_FIRST_CHANGE
        if not problem.loss.coordinates.resolved:
            return error_model.LEFT_OF_BENT_LOSS
        if problem.nodes_follow_order and problem.loss.scale_free:
            return error_model.LEFT_OF_BENT_LOSS
        return problem.fields.rule.left

    def _bar_of_loss(self, loss: float, moved: float, floor: float) -> float:
        change = 0.0
        if self.averages_before is not None:
            change = abs(loss - float(self.averages_before.loss[0]))
        by_theta = error_model.LOSS_SLOPE * moved
        by_rule = self.system.problem.fields.rule.loss_floor * floor
        rounding = _rounding_of_loss(self.system, self.root.theta)
        return error_model.LEFT_OF_LOSS * change + (by_theta + by_rule) * abs(loss) + rounding

    def _bar_of_mistakes(self, mistakes: float, moved: float, floor: float) -> float:
        change = 0.0
        if self.averages_before is not None:
            change = abs(mistakes - float(self.averages_before.error[0]))
        return change + error_model.bar_of_mistakes(mistakes, moved + floor)


def _random_levels(system: Equations, root: Root, tol: float) -> Iterator[Refined]:
    """Yield the answer on levels that may do, by what the replicates' spread was on the last."""
    last = system.problem.fields.rule.n_levels - 1
    level = 0
    while True:
        # A step needs no trial if it is short, and worth less than three tolerances of ε.
        untried = 3 * tol / max(_slope(system, root.theta), tol)
        root, sampled = _moved(system, level, root, min(untried, 5e-3))
        answer = _answer_of_replicates(system, root, sampled)
        root = root._replace(theta=answer.theta)
        if level > 0 or answer.uncertainty < 0.1 * tol:  # the fewest points must be far better
            yield answer
        if level == last:
            return
        # Far from the root the spread on the first level is no guide, and the next one is cheap.
        more = 1
        if level > 0:
            more = max(1, doublings_needed(answer.uncertainty / tol, POINTS_RATE))
        level += min(more, 3, last - level)  # the rate is no guide beyond eight times the points


def _answer_of_replicates(system: Equations, root: Root, sampled: Averages) -> Refined:
    """Return the answer from the mean of the replicates, with bars from their spread."""
    steps_of_replicates = np.linalg.solve(root.jacobian, -system.residual(root.theta, sampled))
    shift = root.step()
    n = steps_of_replicates.shape[1]
    factor = student_quantile(n, error_model.REPLICATES_CONFIDENCE) / math.sqrt(n)
    longest = float(np.abs(shift).max())
    # The bias of a nonlinear function of means: second order in the spread.
    asymmetry = np.abs(steps_of_replicates.mean(1) - shift)
    bias = (asymmetry + steps_of_replicates.var(1).max()) / n
    spread = factor * steps_of_replicates.std(1, ddof=1) + bias
    steps_left = error_model.CHORD_ERROR
    if not root.converged:
        steps_left = error_model.STEPS_LEFT_ASTRAY
    width = spread + steps_left * longest + longest**2
    theta = root.theta + shift
    theta_error = float(width.max() + longest)
    loss_rounding = _rounding_of_loss(system, theta)
    loss_bar = error_model.bar_of_loss(float(sampled.loss.mean()), theta_error, loss_rounding)
    mistakes_bar = error_model.bar_of_mistakes(float(sampled.error.mean()), theta_error)
    return Refined(
        theta,
        sampled.mean(),
        width,
        _error(system, theta),
        _slope(system, theta) * float(width[0]) + error_model.ROUNDING,
        factor * float(sampled.loss.std(ddof=1)) + loss_bar,
        factor * float(sampled.error.std(ddof=1)) + mistakes_bar,
    )
