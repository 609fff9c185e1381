"""The root of the equations on the coarsest level: where every fixed point begins.

Newton starts from a nearby solution if there is one, else from that of two classes with as many
samples per boundary, else from the loss's quadratic expansion, and falls back on continuation in λ
(or in α for scale-free losses). Nodes are placed at a law rounded to a lattice, so that the answer
does not depend on the way by which the root was found.

Close to α_s, on either side of which weights without a ridge diverge, a start comes from further
away (`walk_down`): ln τ, ln q and ln V are nearly straight in ln|α/α_s − 1|. A rule puts α_s off by
its own error, and below that it has no root: the closer, the finer the rule to start on.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from polyceptron.errors import InvalidInput
from polyceptron.numerics import Array
from polyceptron.numerics.special import boundary_density
from polyceptron.theory.erm.equations import Equations, equations
from polyceptron.theory.erm.square_closed_form import solve_square
from polyceptron.theory.root_newton import Residual, Root, jacobian_at, newton
from polyceptron.theory.sides import Problem

_FAR = 0.03  # |α/α_s − 1| from which a start is needed
_STEP, _LONG, _STRAIGHT = 3.0, 8.0, 1e-3  # of |α/α_s − 1|; longer below the last

_ROOM = (1e-2, 3e-4, 3e-6, 1e-8)  # |α/α_s − 1| from which levels 0, 1, 2, 3 have a root
_USABLE, _SHARE = 5e-3, 0.1  # doubt of sums that may have a root, and its share of |α/α_s − 1|


def first_level(system: Equations, theta: Array, room: float) -> int:
    """The coarsest level that may have a root near θ, `room` = |α/α_s − 1| from α_s.

    Sums tell by their own checks: where ρ or the norm is large coarse ones miss everything.
    """
    fields = system.problem.fields
    if fields.rule.sampled:
        return 0
    if not fields.rule.follows:
        return sum(room < enough for enough in _ROOM)
    level = _usable(system, theta, room)
    if level is None:
        return 0 if math.isinf(room) else fields.rule.n_levels - 2
    return level


def _usable(system: Equations, theta: Array, room: float) -> int | None:
    """The coarsest level of sums whose checks are good enough at θ, but for the finest."""
    fields, law = system.problem.fields, system.law(theta)
    for level in range(fields.rule.n_levels - 1):
        doubt = fields.averages(level, law)(law).doubt(law, fields.rule.by_parts)
        if doubt < min(_USABLE, _SHARE * room):
            return level
    return None


def walk_down(
    limit: float, alpha: float, solve: Callable[[float, Root | None], Root]
) -> Root | None:
    """A start for α near `limit`, None where none is needed; `solve` takes α and a start."""
    goal, far = abs(alpha / limit - 1), _FAR
    side = math.copysign(1.0, alpha - limit)
    last: list[tuple[float, Root]] = []
    while goal > 0:
        start = last[-1][1] if last else None
        if len(last) > 1:
            (x0, before), (x1, point) = last[-2:]
            ahead = math.log(max(far, goal) / x1) / math.log(x1 / x0)
            start = point._replace(theta=point.theta + ahead * (point.theta - before.theta))
        if far <= goal:
            return start
        found = solve(limit * (1 + side * far), start)
        if not found.converged:
            return start
        last.append((far, found))
        far /= _STEP if far > _STRAIGHT else _LONG
    return None


LATTICE = 0.5  # of ln τ, ln q, ln V: nodes serve a law that is off by half of this well
_LOOSE = 1e-3  # while nodes may still move
_TIGHT = (1e-7, 1e-9, 1e-11, 1e-12, 1e-13)  # and at the end, by level: up to three classes
_TIGHT_MANY = 1e-4  # and above
_WEIGHTLESS = 1e-2  # λV from which the last step of a continuation goes to a ridge of 0
_TINY = 1e-30  # and the ridge from which it goes there anyway
_EDGE = 500.0  # e^±500 covers every ridge that can be given


def home(system: Equations, theta: Array) -> Array:
    """The lattice point at whose law nodes are placed for roots near θ, if they stay there."""
    follows = system.problem.fields.rule.follows
    return theta if follows else np.asarray(np.round(theta / LATTICE) * LATTICE)


def residual_on(system: Equations, level: int, place: Array) -> Residual:
    """F(θ) of the mean over replicates, nodes placed at the law of `place`."""
    averages = system.problem.fields.averages(level, system.law(place))

    def residual(theta: Array) -> Array:
        return system.residual(theta, averages(system.law(theta)).mean())[:, 0]

    return residual


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
    twin = _twin(problem)
    if twin is not None:
        found = coarse_root(equations(twin))
        if found.converged:
            root = try_from(system, found.theta, found.jacobian)
            if root.converged or (
                problem.fields.rule.follows and _usable(system, found.theta, math.inf) is None
            ):
                return root  # where the twin is, no sums serve: others will
    root = try_from(system, quadratic_guess(problem))
    if root.converged:
        return root
    return continue_in_alpha(system) if problem.loss.scale_free else continue_in_ridge(system)


def try_from(
    system: Equations, start: Array, jacobian: Array | None = None, room: float = math.inf
) -> Root:
    """Newton on a coarse level; nodes are placed anew until the root is at home where they sit."""
    theta, root = start, None
    level = first_level(system, start, room) if _inside(start) else 0
    tight = _TIGHT[level] if system.problem.n_classes <= 3 else _TIGHT_MANY
    for _ in range(8):
        if not _inside(theta):
            break
        place = home(system, theta)
        residual = residual_on(system, level, place)
        root = newton(residual, theta, tol=_LOOSE, jacobian=jacobian)
        if not root.converged or not _inside(root.theta):
            break
        theta, jacobian = root.theta, root.jacobian
        if system.problem.fields.rule.follows:
            break  # the next level corrects what is left
        if (home(system, theta) == place).all():
            root = newton(residual, theta, tol=tight, jacobian=jacobian, value=root.residual)
            if not root.converged:
                break
            theta, jacobian = root.theta, root.jacobian
            if (home(system, theta) == place).all():
                break
    else:  # on the edge of two lattice cells: either will do
        root = newton(residual, theta, tol=tight, jacobian=jacobian)
    if root is None or not root.converged or not _inside(root.theta):
        size = np.eye(len(start))
        return Root(start, np.full(len(start), math.nan), size, False)
    root = root._replace(level=level)
    if not system.problem.fields.rule.sampled:
        return root
    # Random levels see only the replicates' spread, so their steps need the Jacobian of this root.
    return root._replace(jacobian=jacobian_at(residual, root.theta, root.residual))


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
    k, loss = problem.n_classes, problem.loss
    c = problem.channel.signal(k)
    h = 1.0
    if loss.scale_free:
        # A margin of 1 asks for fields of order 1, whose direction is about that of least squares;
        # with many data τ and √q grow as α, where τ of least squares grows as √α.
        base, _ = solve_square(k, c, problem.alpha, 1.0, problem.weights.spectrum)
        scale = max(2.0, math.sqrt(base.tau**3 / (3 * base.q)))
    else:
        zero, label = np.zeros((1, k)), np.zeros(1, dtype=np.int64)
        H = loss.hessian(zero, label)[0]
        h = (float(np.trace(H)) - float(H.sum()) / k) / (k - 1)
        slope = loss.gradient(zero, label)[0]
        beta = float(slope[1:].mean() - slope[0])
        h = h if h > 1e-12 else beta
        base, _ = solve_square(k, c, problem.alpha, problem.ridge / h, problem.weights.spectrum)
        scale = beta / h
    return np.log([base.tau, base.q * scale**2, base.V / h])


def continue_in_ridge(system: Equations) -> Root:
    """From a large ridge down to the wanted one, 0 included, predicting along the tangent."""
    problem = system.problem
    ridge = max(1.0, problem.ridge, problem.alpha)
    for _ in range(12):
        here = equations(problem.at(ridge=ridge))
        root = try_from(here, quadratic_guess(here.problem))
        if root.converged:
            break
        ridge *= 10
    factor = 0.1
    while root.converged and ridge > problem.ridge:
        target = max(problem.ridge, ridge * factor)
        # Only the third equation holds λ at small λ: ∂F₃/∂ln λ = λV.
        weight = ridge * math.exp(root.theta[2])
        if problem.ridge == 0 and (weight < _WEIGHTLESS or target < _TINY):
            target = 0.0
        ahead = math.log(target / ridge) if target > 0 else -1.0
        change = np.array([0.0, 0.0, -weight])
        guess = root.theta + np.linalg.solve(root.jacobian, change) * ahead
        trial = try_from(
            equations(problem.at(ridge=target)), guess if _inside(guess) else root.theta
        )
        if trial.converged:
            root, ridge, factor = trial, target, max(factor**1.5, 1e-3)
        else:
            factor = math.sqrt(factor)
            if factor > 0.95:
                return trial
    return root


def continue_in_alpha(system: Equations) -> Root:
    """A scale-free loss: along α from 1, where the guess is good."""
    problem = system.problem
    alpha, factor = 1.0, math.copysign(1.2, math.log(problem.alpha))
    here = equations(problem.at(alpha=alpha))
    root = try_from(here, quadratic_guess(here.problem))
    while root.converged and alpha != problem.alpha:
        step = math.log(problem.alpha / alpha)
        target = problem.alpha if abs(step) <= abs(factor) else alpha * math.exp(factor)
        trial = try_from(equations(problem.at(alpha=target)), root.theta)
        if trial.converged:
            root, alpha = trial, target
        else:
            factor /= 2
            if abs(factor) < 0.02:
                return trial
    return root
