"""Correct the coarse root of the fixed-point equations of an ERM on finer levels, with error bars.

The unknowns are θ = (ln τ, ln q, ln V), shape (3,): eq. SE of the paper with equal classes, where
m, q and V are numbers, ρ = m/√q and τ = ρ/√(1 − ρ²). `Equations` writes it as F(θ) = 0. F is made
of averages over the fields of one sample (`Averages`), and a rule computes these on levels 0, 1, …:
each has more nodes of quadrature, or more random points. The generalisation error ε on labels with
the channel's noise (eq. generalization_ERM) depends on τ alone. `system.law(θ)` holds (τ, q, V).

`refine` solves F = 0 again, level by level, until the bar of ε is within the tolerance:

- `_exact`: averages in closed form. There are no levels, and rounding alone is left.
- `SmoothRefinement`: deterministic nodes. With s = |dε/d ln τ|, and Δε the change from the level
  before, but at least s·|Δ ln τ| with Δ ln τ from `_change_of_ln_tau`, the bar of ε is

      share · max(Δε, Δε before/10) + s · floor + accuracy of the channel + rounding.

  `share` is the part of a change that later levels may still bring (`_share_left`), `floor` the
  error of ln τ that the rule sees without another level (`_floor`), `channel.accuracy` the error
  of the chances of labels that the channel computes (0 but for a table).
- `_random_levels`: random points in n independent replicates. With δ_r the Newton step that
  replicate r alone would take, the bar of θ is t·std(δ_r)/√n (t Student's quantile), a bias of
  second order and what the search left; that of ε is s times the one of ln τ, plus the same two
  last terms.

Every factor is in `solve/error_model.py`. The bars are meant to hold in 99 of 100 cases, which
tests/agreement/test_coverage.py counts.
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

# θ and every number where averages are in closed form: a few digits above `TOL_OF_CLOSED_FORM`.
ROUNDING_OF_CLOSED_FORM = 1e-12
TOL_OF_CLOSED_FORM = 1e-13  # of θ: next to what rounding lets Newton's method reach
# Of θ, in the search on deterministic levels: a Newton step follows, whose error is its square.
TOL_BEFORE_STEP = 1e-4
# Of θ, in the search on random points: a longer step must be tried before it is believed.
LONGEST_UNTRIED_STEP = 5e-3
MOST_LEVELS_AT_ONCE = 3  # eight times the points: beyond, their rate of convergence is no guide


class Refined(NamedTuple):
    """The answer on a level. "Loss" and "mistakes" are the mean loss and error of training samples.

    Every `uncertainty` is an error bar, absolute; that of θ is one of logarithms.
    """

    theta: Array  # (3,)
    averages: Averages  # one replicate
    theta_uncertainty: Array  # (3,)
    error: float  # ε
    uncertainty: float  # of ε
    loss_uncertainty: float
    mistakes_uncertainty: float


def refine(system: Equations, root: Root, tol: float) -> Refined:
    """Return the root on finer levels, until ε is within `tol` or there is no finer level.

    `root` was found on its `level`: θ (3,), F there, the Jacobian ∂F/∂θ (3, 3).
    """
    problem = system.problem
    if problem.fields.explicit(system.law(root.theta)) is not None:
        return _exact(system, root)
    if problem.nodes_are_random:
        return first_within(_random_levels(system, root, tol), tol)
    return first_within(_smooth_levels(system, root), tol)


def _error(system: Equations, theta: Array) -> float:
    """Return ε at θ (3,)."""
    tau = math.exp(theta[0])
    return float(error_on_labels(system.problem.channel, tau, system.problem.n_classes))


def _slope(system: Equations, theta: Array) -> float:
    """Return |dε/d ln τ| at θ (3,)."""
    return error_slope(system.problem.channel, math.exp(theta[0]), system.problem.n_classes)


def _rounding_of_loss(system: Equations, theta: Array) -> float:
    """Return the rounding of the mean loss at θ (3,)."""
    return error_model.rounding_of_loss(system.problem.n_classes, system.law(theta).V)


def _exact(system: Equations, root: Root) -> Refined:
    """Return the root to rounding, where averages are in closed form."""
    root, averages = _solve_on_level(system, 0, root, TOL_OF_CLOSED_FORM)
    bar = ROUNDING_OF_CLOSED_FORM + system.problem.channel.accuracy
    return Refined(
        root.theta,
        averages,
        np.full(len(root.theta), ROUNDING_OF_CLOSED_FORM),
        _error(system, root.theta),
        bar,
        bar,  # the closed form has neither mean loss nor error of training samples: both are NaN
        bar,
    )


def _solve_on_level(system: Equations, level: int, root: Root, tol: float) -> tuple[Root, Averages]:
    """Return the root on a level, with nodes placed at another level's root, and its averages.

    `system.placed` gives the averages on these nodes as a function of (τ, q, V), `system.on` makes
    of them F as a function of θ.
    """
    at_nodes = lru_cache(maxsize=2)(system.placed(level, root.theta))  # asked for the root again
    chord = _trusts_old_jacobian(system, root)
    root = newton(system.on(at_nodes), root.theta, tol=tol, jacobian=root.jacobian, chord=chord)
    return root, at_nodes(system.law(root.theta))


def _trusts_old_jacobian(system: Equations, root: Root) -> bool:
    """Return whether the search may end on a short step of the last level's Jacobian.

    Such a step errs by a share of its length. Bars of random points count it. Where nodes move with
    the order parameters, the next levels show it, unless F is nearly flat in a direction of θ: then
    the step may be far too short. Bars of nodes that stay are too narrow for it.
    """
    if system.problem.nodes_follow_order:
        return has_no_flat_direction(root.jacobian)
    return system.problem.nodes_are_random


def _smooth_levels(system: Equations, root: Root) -> Iterator[Refined]:
    """Yield the answer on each level finer than that of the root."""
    refinement = SmoothRefinement.start(system, root)
    for level in range(root.level + 1, system.problem.fields.rule.n_levels):
        yield refinement.advance(level)


@dataclass
class SmoothRefinement:
    """Deterministic levels: the answer on the last one, and its changes from the one before.

    For ε the change before the last counts as well, should the last be small by chance. For θ the
    largest of three changes counts, which are not all small by chance.
    """

    system: Equations
    root: Root
    theta: Array  # (3,), a step from the root: more digits than its search gave
    error: float  # ε
    error_change: float = 0.0  # of ε, from the level before; 0 as long as there is one level
    theta_change: float = 0.0  # the largest of θ, likewise
    averages: Averages | None = None  # None on the level of the coarse root

    @classmethod
    def start(cls, system: Equations, root: Root) -> SmoothRefinement:
        """Begin at the coarse root."""
        theta = root.theta + root.step()
        refinement = cls(system, root, theta, _error(system, theta))
        # A change is known on the first level, too: what that of F from the level before does to θ.
        # It is used where weights diverge at some α, without a penalty and with noise: next to this
        # α_s, the largest α = n/d of separable data, levels agree late, and one change is no guide.
        if system.problem.weights_diverge_somewhere and root.level > 0:
            changes = refinement._changes_by_equation(root.level)
            refinement.error_change = _slope(system, theta) * float(np.abs(changes[0]).sum())
            refinement.theta_change = float(np.abs(changes.sum(1)).max())
        return refinement

    def advance(self, level: int) -> Refined:
        """Return the answer on the next level."""
        system = self.system
        tol = max(TOL_BEFORE_STEP, 0.01 * self.theta_change)  # far below what levels differ by
        self.root, averages = _solve_on_level(system, level, self.root, tol)
        theta = self.root.theta + self.root.step()
        error = _error(system, theta)
        slope = _slope(system, theta)
        theta_change = float(np.max(np.abs(theta - self.theta)))
        error_change = error_model.change_of_error(
            error - self.error, slope, self._change_of_ln_tau(level, theta_change)
        )
        floor = self._floor(level, averages, theta_change)
        share = self._share_left()
        bar = error_model.bar_between_levels(share, error_change, self.error_change, slope, floor)
        answer = Refined(
            theta,
            averages,
            np.full(len(theta), share * theta_change + floor),
            error,
            bar + system.problem.channel.accuracy + error_model.ROUNDING,
            self._bar_of_loss(averages, theta_change, floor),
            self._bar_of_mistakes(averages, theta_change, floor),
        )
        self.root = self.root._replace(theta=theta)
        self.theta = theta
        self.error = error
        self.error_change = error_change
        self.theta_change = theta_change
        self.averages = averages
        return answer

    def _change_of_ln_tau(self, level: int, theta_change: float) -> float:
        """Return the change of ln τ to count: half of the largest of θ, or less next to α_s.

        Levels may agree on τ by accident. Next to α_s ln q changes most, and τ hardly: there it is
        what the change of each equation does to ln τ, without its sign.
        """
        counted = 0.5 * theta_change
        if self.system.problem.weights_diverge_somewhere:
            counted = min(counted, float(np.abs(self._changes_by_equation(level)[0]).sum()))
        return counted

    def _changes_by_equation(self, level: int) -> Array:
        """Return the change (i, j) of θ_i by that of F_j from the level before, (3, 3).

        It is (J⁻¹)_ij ΔF_j with J = ∂F/∂θ. The sign is left: only absolute values are used.
        """
        before, _ = self.system.at(level - 1, self.root.theta)  # the averages there
        # `root.residual` (3,) is a mean, `residual` (3, n) that of n replicates, or of one.
        change = self.root.residual - self.system.residual(self.root.theta, before).mean(1)
        return np.asarray(np.linalg.inv(self.root.jacobian) * change)

    def _floor(self, level: int, averages: Averages, theta_change: float) -> float:
        """Return the error of ln τ that the rule sees without another level.

        It has the least error that is ever claimed for a level, and what two identities of the
        averages miss: the probability 1 of all nodes, and Gaussian integration by parts, which
        counts `rule.by_parts` times (`Averages.doubt`). Where nodes move with the order parameters,
        the missed probability may be that of the samples which determine the weights, unless the
        loss is a hard constraint (`scale_free`), whose changes count in full (`_share_left`).
        """
        problem = self.system.problem
        rule = problem.fields.rule
        doubt = averages.doubt(self.system.law(self.root.theta), rule.by_parts)
        least = rule.floors[level - 1]  # the first is that of level 1: level 0 shows no change
        floor = least + error_model.DOUBT_FACTOR * doubt
        if problem.nodes_follow_order and not problem.loss.scale_free:
            missed = averages.missed(problem.n_classes - 1)
            largest_change = max(theta_change, self.theta_change)
            floor += error_model.floor_of_missed_samples(missed, largest_change)
        return floor

    def _share_left(self) -> float:
        """Return the share of a change that later levels may bring once more.

        The rule's own share is for levels that converge geometrically. One change alone shows no
        rate. A loss with a kink at which no node is placed, one that is not `resolved`, converges
        slowly; so do sums over competitors (`nodes_follow_order`) for a hard constraint.
        """
        problem = self.system.problem
        is_first_change = not self.error_change  # 0: `start` knew none, or the last one was none
        if problem.nodes_follow_order and is_first_change:
            return error_model.LEFT_OF_FIRST_CHANGE
        if not problem.loss.coordinates.resolved:
            return error_model.LEFT_OF_BENT_LOSS
        if problem.nodes_follow_order and problem.loss.scale_free:
            return error_model.LEFT_OF_BENT_LOSS
        return problem.fields.rule.left

    def _bar_of_loss(self, averages: Averages, theta_change: float, floor: float) -> float:
        """Return the error bar of the training loss: its own change, and what θ and the rule do.

        On the first level the coarse root has no loss to compare with: the change of θ and the
        floor count alone.
        """
        loss = float(averages.loss[0])
        change = 0.0
        if self.averages is not None:
            change = abs(loss - float(self.averages.loss[0]))
        by_theta = error_model.LOSS_SLOPE * theta_change
        by_rule = self.system.problem.fields.rule.loss_floor * floor
        rounding = _rounding_of_loss(self.system, self.root.theta)
        return error_model.LEFT_OF_LOSS * change + (by_theta + by_rule) * abs(loss) + rounding

    def _bar_of_mistakes(self, averages: Averages, theta_change: float, floor: float) -> float:
        """Return the error bar of the training error, likewise."""
        mistakes = float(averages.error[0])
        change = 0.0
        if self.averages is not None:
            change = abs(mistakes - float(self.averages.error[0]))
        return change + error_model.bar_of_mistakes(mistakes, theta_change + floor)


def _random_levels(system: Equations, root: Root, tol: float) -> Iterator[Refined]:
    """Yield the answer on random points, on levels chosen from the bar on the last one."""
    last = system.problem.fields.rule.n_levels - 1
    level = 0
    while True:
        # A step is taken without a trial if it is short, and worth less than three tolerances of ε.
        untried = 3 * tol / max(_slope(system, root.theta), tol)
        search_tol = min(untried, LONGEST_UNTRIED_STEP)
        root, sampled = _solve_on_level(system, level, root, search_tol)
        answer = _answer_of_replicates(system, root, sampled)
        root = root._replace(theta=answer.theta)
        # A spread of so few points as on the first level is rough: it must be far below `tol`.
        if level > 0 or answer.uncertainty < 0.1 * tol:
            yield answer
        if level == last:
            return
        more = 1  # after the first level: far from the root its spread is no guide
        if level > 0:
            more = max(1, doublings_needed(answer.uncertainty / tol, POINTS_RATE))
        level += min(more, MOST_LEVELS_AT_ONCE, last - level)


def _answer_of_replicates(system: Equations, root: Root, sampled: Averages) -> Refined:
    """Return the answer from the mean of n replicates, with bars from their spread."""
    # F and averages have an entry for each replicate; `shift` is the step for their mean.
    steps_of_replicates = np.linalg.solve(root.jacobian, -system.residual(root.theta, sampled))
    shift = root.step()
    n = steps_of_replicates.shape[1]
    per_std = student_quantile(n, error_model.REPLICATES_CONFIDENCE) / math.sqrt(n)
    longest = float(np.abs(shift).max())
    # The bias of a nonlinear function f of means is f″σ²/2n. The mean of f less f of the mean is
    # f″σ²/2, seen in the linear steps; the variance stands for the curvature that is not.
    asymmetry = np.abs(steps_of_replicates.mean(1) - shift)
    bias = (asymmetry + steps_of_replicates.var(1).max()) / n
    spread = per_std * steps_of_replicates.std(1, ddof=1) + bias
    steps_left = error_model.CHORD_ERROR
    if not root.converged:
        steps_left = error_model.STEPS_LEFT_ASTRAY
    width = spread + steps_left * longest + longest**2
    theta = root.theta + shift
    theta_error = float(width.max() + longest)  # averages are those before the step
    loss_rounding = _rounding_of_loss(system, theta)
    loss_bar = error_model.bar_of_loss(float(sampled.loss.mean()), theta_error, loss_rounding)
    mistakes_bar = error_model.bar_of_mistakes(float(sampled.error.mean()), theta_error)
    error_bar = _slope(system, theta) * float(width[0]) + error_model.ROUNDING
    return Refined(
        theta,
        sampled.mean(),
        width,
        _error(system, theta),
        error_bar + system.problem.channel.accuracy,
        per_std * float(sampled.loss.std(ddof=1)) + loss_bar,
        per_std * float(sampled.error.std(ddof=1)) + mistakes_bar,
    )
