"""The root of the equations on the coarsest level: where every fixed point begins.

Newton starts from a nearby solution if there is one, else from that of two classes with as many
samples per boundary, else from the loss's quadratic expansion, and falls back on continuation in λ
(or in α for scale-free losses). Nodes are placed at a law rounded to a lattice, so that the answer
does not depend on the way by which the root was found.

Close to α_s, on either side of which weights without a ridge diverge, a start comes from further
away (`towards_limit`): ln τ, ln q and ln V are nearly straight in ln|α/α_s − 1|. A rule puts α_s
off by its own error, and below that it has no root: the closer, the finer the rule to start on.
"""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from polyceptron.errors import InvalidInput
from polyceptron.numerics import Array
from polyceptron.numerics.estimate import estimate_from_replicates
from polyceptron.numerics.special import boundary_density
from polyceptron.problem.order import ScalarOrder
from polyceptron.progress import steps
from polyceptron.sides.scalar import Problem
from polyceptron.theory.erm.equations import Equations, Residual, equations
from polyceptron.theory.erm.square_closed_form import solve_square

_LONGEST = 1.5  # step of a logarithmic unknown: a factor 4.5
_STALLED = 1e-4  # a residual as small as that may be what rounding leaves of it
_DIFFERENCE = 1e-5  # rounding 1e-11 over it and curvature times it are both about 1e-5
_MOST_STEPS = 40
_SHORTER, _SHORT = 0.3, 0.02  # of a step: the next one, if the Jacobian serves; where it must
_EVEN, _NOTHING = 0.03, 1e-3  # least singular value where none is nearly flat; of a tolerance


class Root(NamedTuple):
    """Where a search ended, residual and Jacobian there, whether it arrived, on which level."""

    theta: Array
    residual: Array
    jacobian: Array
    converged: bool
    level: int = 0

    def step(self) -> Array:
        """Newton's next, which was not taken."""
        return np.asarray(np.linalg.solve(self.jacobian, -self.residual))


def even(jacobian: Array) -> bool:
    """Whether no direction is nearly flat: then a short step is a sign of a root."""
    return float(np.linalg.norm(jacobian, -2)) > _EVEN


def _inverse(jacobian: Array) -> tuple[Array, Array, float]:
    """The inverse, the directions in which it acts, and the least singular value."""
    known = jacobian if np.isfinite(jacobian).all() else np.zeros_like(jacobian)
    U, s, directions = np.linalg.svd(known)
    return (directions.T / s) @ U.T if s[-1] > 0 else math.nan * U, directions, float(s[-1])


def jacobian_at(
    residual: Residual, theta: Array, value: Array, first: Array | None = None
) -> Array:
    """Forward differences, (n, n); the first column may be given."""
    columns = [] if first is None else [first]
    for i in range(len(columns), len(theta)):
        shifted = theta.copy()
        shifted[i] += _DIFFERENCE
        columns.append((residual(shifted) - value) / _DIFFERENCE)
    return np.stack(columns, axis=1)


def newton(
    residual: Residual,
    theta: Array,
    *,
    tol: float = 1e-9,
    jacobian: Array | None = None,
    chord: bool = False,
) -> Root:
    """Solve residual(θ) = 0 from θ, until the next step, which is not taken, is below `tol`.

    A step that does not lower the residual is shortened; one along a nearly flat direction may
    raise it, and must lower the next step. A Jacobian from nearby is renewed when it
    no longer gives a digit a step, and kept up to date by Broyden's rank-one corrections meanwhile.
    It may be too stiff, and its step too short: the root is where the step after is much shorter,
    unless what a `chord` leaves is counted elsewhere.
    """
    value, fresh = residual(theta), False
    for _ in range(_MOST_STEPS):
        size = float(np.abs(value).max())
        if jacobian is None:
            jacobian, fresh = jacobian_at(residual, theta, value), True
        inverse, directions, flattest = _inverse(jacobian)
        step = -inverse @ value
        longest = float(np.abs(step).max())
        if longest < tol:
            if not (fresh or (chord and size < tol)):
                after = residual(theta + step)
                if not np.abs(inverse @ after).max() < _SHORTER * longest:
                    jacobian = None
                    continue
                theta, value = theta + step, after
            return Root(theta, value, jacobian, True)
        # A Jacobian from elsewhere is not worth many trials.
        scale = min(1.0, _LONGEST / longest) if longest > 0 else 1.0
        for _ in range((8 if fresh else 2) if math.isfinite(longest) else 0):
            after = residual(theta + scale * step)
            rest = inverse @ after
            fall = np.abs(after).max() / size if flattest > _EVEN else np.abs(rest).max() / longest
            if fall < 1 - 0.1 * scale:
                break
            scale /= 3
        else:
            if fresh:  # the residual is at its rounding, or there is no way down
                return Root(theta, value, jacobian, size < min(1e3 * tol, _STALLED))
            jacobian = None
            continue
        if fresh and longest < _SHORT and size > _STALLED and fall > 0.5 and flattest > _EVEN:
            return Root(theta, value, jacobian, False)  # F jumps: it would be straight so near
        taken, then = np.abs(directions @ step), np.abs(directions @ rest)
        step, surprise = scale * step, after - value - scale * (jacobian @ step)
        theta, value = theta + step, after
        if then.max() < tol and (then < _SHORTER * taken + _NOTHING * tol).all():
            return Root(theta, value, jacobian, True)  # much shorter along a flat direction too
        corrected = jacobian + np.outer(surprise, step) / (step @ step)
        jacobian, fresh = corrected if fall < _SHORTER else None, False
    return Root(theta, value, np.eye(len(theta)) if jacobian is None else jacobian, False)


_ROOM = (5e-3, 1.5e-4, 1.5e-6, 5e-9)  # |α/α_s − 1| from which levels 0, 1, 2, 3 have a root
_USABLE, _SHARE = 5e-3, 0.05  # doubt of sums that may have a root, and its share of |α/α_s − 1|
_TRIED, _MISSED = 2, 30.0  # level of sums, and what it misses, beyond which finer ones will not do


def _first_level(system: Equations, theta: Array, room: float) -> int | None:
    """The coarsest level that may have a root near θ, if any; sums tell by their own checks."""
    problem, rule = system.problem, system.problem.fields.rule
    if not rule.follows:
        return 0 if rule.sampled else sum(room < enough for enough in _ROOM)
    for level in range(rule.n_levels - 1):
        averages, doubt = system.at(level, theta)
        missed = 0.0 if problem.loss.scale_free else averages.missed(problem.n_classes - 1)
        if missed < 1 and doubt < min(_USABLE, _SHARE * room):
            return level
        if level == _TRIED and math.isinf(room) and (missed > _MISSED or doubt > 2 * _USABLE):
            break
    return None if math.isinf(room) else rule.n_levels - 2


_LATTICE = 0.5  # of ln τ, ln q, ln V: nodes serve a law that is off by half of this well
_TIGHT = (1e-7, 1e-9, 1e-11, 1e-12, 1e-13)  # of a root, by level: up to three classes
_TIGHT_POINTS, _TIGHT_SUMS = 1e-4, 1e-3  # and above
_EDGE = 500.0  # e^±500 covers every ridge that can be given


def home(system: Equations, theta: Array) -> Array:
    """The lattice point at whose law nodes are placed for roots near θ, if they stay there."""
    follows = system.problem.fields.rule.follows
    return theta if follows else np.asarray(np.round(theta / _LATTICE) * _LATTICE)


def coarse_root(
    system: Equations,
    start: Array | None = None,
    jacobian: Array | None = None,
    room: float = math.inf,
) -> Root:
    """The root on the first level that has one: from `start`, from a twin, or by continuation.

    `room` is |α/α_s − 1| where weights diverge at α_s; close to it a start is needed.
    """
    problem = system.problem
    if start is not None and start.size:
        root = try_from(system, start, jacobian, room)
        if root.converged or room < _ROOM[0]:
            return root
    if (twin := _twin(problem)) is not None:
        found = coarse_root(equations(twin))
        if found.converged:
            root = try_from(system, found.theta, found.jacobian)
            if root.converged or problem.fields.rule.follows:
                return root  # where the twin is, no sums serve: points will
    root = try_from(system, quadratic_guess(problem))
    return root if root.converged else continuation(system)


def try_from(
    system: Equations, start: Array, jacobian: Array | None = None, room: float = math.inf
) -> Root:
    """Newton on a coarse level; nodes are placed anew until the root is at home where they sit."""
    rule = system.problem.fields.rule
    lost = Root(start, np.full_like(start, math.nan), np.eye(len(start)), False)
    level = _first_level(system, start, room) if _inside(start) else None
    if level is None:
        return lost
    tol = _TIGHT_SUMS if rule.follows else _TIGHT_POINTS if rule.sampled else _TIGHT[level]
    theta = start
    for _ in range(8):  # on the edge of two lattice cells either will do
        place = home(system, theta)
        residual = system.on(system.placed(level, place))
        root = newton(residual, theta, tol=tol, jacobian=jacobian)
        theta, jacobian = root.theta, root.jacobian
        if not root.converged or not _inside(theta):
            return lost
        if rule.follows or (home(system, theta) == place).all():
            break
    if rule.sampled:
        # Random levels see only the replicates' spread, so their steps need the Jacobian here.
        root = root._replace(jacobian=jacobian_at(residual, theta, root.residual))
    return root._replace(level=level)


def _inside(theta: Array) -> bool:
    return bool(np.isfinite(theta).all() and np.abs(theta).max() < _EDGE)


def _twin(problem: Problem) -> Problem | None:
    """An easier problem: two classes with as many samples per boundary and direction.

    Of plentiful data with clean labels M, Q, C of k classes are B_k/(k−1) times those of two.
    """
    k = problem.n_classes
    if k == 2 or (problem.ridge == 0 and not problem.loss.scale_free):  # two may lack a minimum
        return None
    try:
        problem.channel.guess(2)
    except InvalidInput:  # as many flips leave no rule between two classes
        return None
    return problem.at(n_classes=2, alpha=problem.alpha * boundary_density(k) / (k - 1))


def quadratic_guess(problem: Problem) -> Array:
    """θ of the loss's expansion at z = 0, which least squares solves in closed form.

    With −∇ℓ(0) = β(e_y − 1/k) and Hessian h the fields are β/h times the square's at ridge λ/h.
    """
    k, loss, ridge, h = problem.n_classes, problem.loss, 1.0, 1.0
    if not loss.scale_free:
        zero, label = np.zeros((1, k)), np.zeros(1, dtype=np.int64)
        H, slope = loss.hessian(zero, label)[0], loss.gradient(zero, label)[0]
        h = (float(np.trace(H)) - float(H.sum()) / k) / (k - 1)
        beta = float(slope[1:].mean() - slope[0])
        h = h if h > 1e-12 else beta
        ridge = problem.ridge / h
    c = problem.channel.signal(k)
    base, _ = solve_square(k, c, problem.alpha, ridge, problem.weights.spectrum)
    # A margin of 1 asks for fields of order 1, whose direction is about that of least squares;
    # with many data τ and √q grow as α, where τ of least squares grows as √α.
    scale = max(2.0, math.sqrt(base.tau**3 / (3 * base.q))) if loss.scale_free else beta / h
    return np.log([base.tau, base.q * scale**2, base.V / h])


Attempt = Callable[[float, Array | None, Array | None], Root]
_CHORD, _GROWTH, _LEAST = 1.2, 1.5, 0.02  # first step of a continuation, its growth, the shortest
_SMALL = 1e-9  # a ridge from which the last step goes to 0
_FAR = math.log(0.5), math.log(0.03)  # ln|α/α_s − 1| of first roots: above α_s, on both sides


def continued(attempt: Attempt, x: float, goal: float, root: Root | None = None) -> Root:
    """The root at `goal` from that at x, each begun on the chord of the last two.

    `attempt` takes a place, a start and a Jacobian. A step that fails is halved.
    """
    root, before, step = root or attempt(x, None, None), None, _CHORD
    while root.converged and x != goal:
        target = goal if abs(goal - x) <= _GROWTH * step else x + math.copysign(step, goal - x)
        theta = root.theta
        if before is not None:
            theta = theta + (target - x) / (x - before[0]) * (theta - before[1])
        trial = attempt(target, theta if _inside(theta) else root.theta, root.jacobian)
        if trial.converged:
            before, x, root, step = (x, root.theta), target, trial, _GROWTH * step
        elif step < _LEAST:
            return trial
        else:
            step /= 2
    return root


def continuation(system: Equations) -> Root:
    """In ln λ from where the loss's expansion holds, 0 at last; of scale-free losses in ln α."""
    problem = system.problem
    name, first, last = "ridge", 10 * max(1.0, problem.ridge, problem.alpha), problem.ridge
    if problem.loss.scale_free:
        name, first, last = "alpha", 1.0, problem.alpha
    goal = math.log(max(last, _SMALL))

    def attempt(x: float, theta: Array | None, jacobian: Array | None) -> Root:
        here = system
        if x != goal or last == 0:
            here = equations(problem.at(**{name: math.exp(x)}))
        return try_from(here, quadratic_guess(here.problem) if theta is None else theta, jacobian)

    root = continued(attempt, math.log(first), goal)
    return root if last > 0 or not root.converged else try_from(system, root.theta, root.jacobian)


def towards_limit(problem: Problem, limit: float) -> Root | None:
    """A start for α close to α_s = `limit`; None where none is needed."""
    off = problem.alpha / limit - 1
    goal = math.log(abs(off)) if off else -math.inf
    stages = [x for x in _FAR[off < 0 :] if x > goal > -math.inf]
    sure = 1.0 if problem.fields.rule.follows else 0.5  # panels miss their root soonest

    def attempt(x: float, theta: Array | None, jacobian: Array | None) -> Root:
        room = math.exp(x)
        alpha = limit * (1 + math.copysign(room, off))
        return coarse_root(equations(problem.at(alpha=alpha)), theta, jacobian, sure * room)

    root = None
    for x, end in steps(pairwise([*stages, goal]), 4):  # the rest is to come after it
        root = continued(attempt, x, end, root)
    return root


_SCALE, _ROUNDS = 1e-7, 8  # V that stands for 0, and rounds after which κ and τ have settled
_LARGE, _SETTLED = 1e3, 1e-5  # κ that stands for ∞, and a change of κ and τ that is none


def small_weights(problem: Problem) -> ScalarOrder | None:
    """The law of a hinge whose weights may be 0 or nearly so, as where no class has the majority.

    At W = 0 the pulls of a sample on the others are any a ≥ 0 of sum 1. For V → 0 and q = κ²V²
    these are the point of that simplex nearest to ω/V, and a round of the loop is one of (τ, κ)
    alone, without the ridge, times a growth g of V. With a ridge λV = 1 − 1/g: for g < 1 the only
    fixed point is 0. None where a step along the teacher lowers the loss, D > 0 for κ → ∞.
    """
    side = problem.at(ridge=0.0)
    law = ScalarOrder(1 / math.sqrt(_SCALE), (_LARGE * _SCALE) ** 2, _SCALE)
    for rounds in range(_ROUNDS):
        found = side.fields.averages(0 if side.fields.rule.sampled else 2, law)(law)
        down = estimate_from_replicates(found.D_plus - found.D_minus)
        if rounds == 0 and down.value > down.uncertainty:
            return None
        after, before = side.weights(side.fields.hats(found)), law
        law = ScalarOrder(after.tau, after.q * (_SCALE / after.V) ** 2, _SCALE)
        if max(abs(law.tau / before.tau - 1), abs(law.q / before.q - 1)) < _SETTLED:
            break
    growth, doubt = (
        after.V / _SCALE,
        float(estimate_from_replicates(found.C).uncertainty / found.C.mean()),
    )
    if growth * (1 + doubt) < 1:
        return ScalarOrder(0.0, 0.0, 0.0)
    V = (1 - 1 / max(growth, 1 + doubt)) / max(problem.ridge, _SMALL)
    return ScalarOrder(law.tau, law.q * (V / _SCALE) ** 2, V)
