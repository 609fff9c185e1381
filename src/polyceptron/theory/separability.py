"""Up to how many samples the classes can be separated, and from where the likelihood has a maximum.

Labels with noise can be separated by some weights with probability → 1 below

    α_s = 1 / min_t Q(t),      Q(t) = (1/r) E dist²(t z* + g, C_y),   z*, g ~ N(0, I) on 1⊥

and with probability → 0 above (C_y the cone of fields with label y). Given u = tz* + g the
teacher's fields are Gaussian with mean tu/(1 + t²) and variance 1/(1 + t²): Q is the fields side's
own average at τ = t, q = 1 + t², V = 1 for the hard constraint without a margin (`LabelCone`), so
every channel and every k is covered by the same rules. A linear map of the inputs changes nothing,
so that α_s does not depend on the features' spectrum, except that directions without variance do
not count.

Below α_s a ridge of 0 means max-margin; above it the maximum-likelihood estimate exists.

Classes that are not alike: fields on class differences are ω = m_c + √s_c Q^{1/2}h in a mixture of
variances s_c, or Az + Q⊥^{1/2}h with a teacher's fields z. With δ the way from ω + b to a point of
C_y, Gordon's inequality (r columns of weights) leaves one condition,

    samples are separable   ⇔   α E[δδᵀ/s] ⪯ Q⊥      for some A, m, b, Q⊥ and choice of points

where Q⊥ is the part of the weights outside the means (Q = Q⊥ + mG⁻¹mᵀ) or the teacher's directions.
The largest α is a saddle: points are nearest in a metric N that is the multiplier of the condition,

    1/α_s = min_{A, m, b, Q⊥} max_N  E‖δ‖²_N/s / tr(N Q⊥)

At the saddle αE[δδᵀ/s] = Q⊥, αN E[I − ∂v/∂ω] = N with v = ω + b + δ, E[δ/s] = 0 for the intercept,
and E[δzᵀ] = 0, or m = α(p_c E_c δ/s_c)G: the equations of max-margin at an infinite norm. Where
some classes are harder to tell apart than the rest, N shrinks to their differences. Two classes
leave a convex function of two or three numbers (Candès and Sur), with closed forms given z.

Below α_s every class can be separated from every other. Above it one class may still be separable
from the union of the others, with a threshold of its own.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.special import ndtr, ndtri

from polyceptron.checks import check_tolerance, class_gaps, difference_basis
from polyceptron.display import ShortDisplay
from polyceptron.errors import InvalidInput
from polyceptron.numerics import Array, with_one_blas_thread
from polyceptron.numerics.estimate import Estimate, estimate_from_replicates, uniform_replicates
from polyceptron.numerics.panels import CUTOFF, GAUSS_BREAKS, blend_breaks, panel_rule
from polyceptron.problem.channels import Channel
from polyceptron.problem.losses import Loss
from polyceptron.problem.losses.hard_margin import LabelCone
from polyceptron.problem.order import ScalarOrder
from polyceptron.problem.populations import Population, check_population
from polyceptron.progress import steps
from polyceptron.rows import Status
from polyceptron.sides.scalar import erm_sides

_SMALLEST, _LARGEST = 1e-6, 1e3  # t: labels of chance have 0, hardly any noise a large one
_CLOSE = 1e-10  # of α_s where rules reach it
_FLOOR_MANY = 1e-5  # relative error that the rule for four classes and more was seen to reach
_SEED = 29
_ROUNDS, _SWEEPS = 150, 4
_SETTLED, _CALM = 1e-6, 8  # α has settled when it varied by less over so many rounds
_LOG2_POINTS = 10  # of three classes; half as many for each further one
_SIGNS = np.sign(difference_basis(2)[:, 0])


@dataclass(frozen=True, repr=False)
class Separability(ShortDisplay):
    """α_s and its uncertainty; infinite where labels are a function of the fields."""

    model: str
    n_classes: int
    noise: str
    alpha_s: float
    alpha_s_uncertainty: float
    status: Status

    def as_dict(self) -> dict[str, Any]:
        """The fields by name."""
        return {**asdict(self), "status": str(self.status)}


@with_one_blas_thread
def separability(
    population: Population, tol: float | None = None, *, intercept: bool = False
) -> Separability:
    """α_s of a population: below it, samples can almost surely be separated.

    Parameters
    ----------
    population : Teacher, Perceptron or Mixture
    tol : float, optional
        By default 1e-6 for k ≤ 3, 1e-3 above. Three and more classes that are not alike are sampled
        at fixed points: what these leave is the uncertainty.
    intercept : bool
        Whether the separating rule has one. Classes that are alike need none.

    Returns
    -------
    Separability

    Examples
    --------
    >>> from polyceptron.problem import Teacher
    >>> round(1 / separability(Teacher(2, noise="flips:0.05")).alpha_s, 5)
    0.26249
    """
    check_population(population)
    if not population.symmetric:
        return _of_unequal(population, tol, intercept)
    teacher: Any = population
    k, name = teacher.n_classes, teacher.noise.name
    tol = check_tolerance(tol, 1e-6 if k <= 3 else 1e-3)
    if teacher.channel.noiseless:
        return Separability(teacher.model, k, name, math.inf, 0.0, Status.OK)
    problem = erm_sides(teacher, LabelCone(), 0.0, 1.0)
    found = minimize_scalar(
        lambda x: float(np.mean(_distance(problem, 0, math.exp(x)))),
        bounds=(math.log(_SMALLEST), math.log(_LARGEST)),
        options={"xatol": 1e-5 if problem.fields.rule.sampled else 1e-2},  # a Newton step follows
    )
    t = math.exp(float(found.x))
    # The minimum is flat: at the place found on the coarsest level finer ones give its value.
    before = math.nan
    for level in steps(range(problem.fields.rule.n_levels), growth=4):
        if problem.fields.rule.sampled:
            value, spread = map(float, estimate_from_replicates(1 / _distance(problem, level, t)))
        else:
            # One Newton step to the minimum in ln t; differences wide enough for a level's noise.
            at = [float(_distance(problem, level, t * math.exp(0.02 * s))[0]) for s in range(-2, 3)]
            bend, slope = at[1] + at[3] - 2 * at[2], (8 * (at[3] - at[1]) - (at[4] - at[0])) / 12
            t *= math.exp(max(-0.05, min(0.05, -0.02 * slope / bend if bend > 0 else 0.0)))
            value = float(1 / _distance(problem, level, t)[0])
            spread = abs(value - before) + (1e-12 if k <= 3 else _FLOOR_MANY) * value
        before = value
        if spread <= tol:
            break
    status = Status.OK if spread <= tol else Status.TOLERANCE_NOT_MET
    rank = teacher.features.rank
    return Separability(teacher.model, k, name, rank * value, rank * spread, status)


def _of_unequal(population: Population, tol: float | None, intercept: bool) -> Separability:
    k, channel = population.n_classes, population.label_channel
    tol = check_tolerance(tol, 1e-6 if k == 2 else 2e-2)
    found = separable_limit(population, intercept)
    levels = population.levels_of_features
    rank = 1.0 if levels is None else float(levels.fraction[levels.variance[:, 0] > 0].sum())
    value, spread = rank * float(found.value), rank * float(found.uncertainty)
    status = Status.OK if spread <= tol * max(value, 1.0) else Status.TOLERANCE_NOT_MET
    name = "none" if channel is None else channel.name
    return Separability(population.model, k, name, value, spread, status)


@lru_cache(maxsize=256)
def separable_up_to(population: Population, intercept: bool) -> float:
    """α_s, remembered: the loop asks for it at every α, however close to it that is."""
    tol = _CLOSE if population.symmetric and population.n_classes <= 3 else None
    return separability(population, tol, intercept=intercept).alpha_s


class NotSeparableHere(InvalidInput):
    """A margin is asked for where no weights separate the labels."""


def loss_at_ridge(
    loss: Loss, ridge: float | str, population: Population, alpha: float, intercept: bool = False
) -> Loss:
    """The loss that is solved for: itself, or at λ = 0 its limit, or above α_s its own minimum."""
    found = loss.without_ridge() if ridge == 0 else loss
    if found is None:
        raise InvalidInput(
            f"the loss {loss.name!r} does not say what a ridge of 0 means: give a ridge above 0"
        )
    if not found.scale_free or alpha < (limit := separable_up_to(population, intercept)):
        return found
    if loss.scale_free:
        raise NotSeparableHere(
            f"{loss.name} needs classes that can be separated, which is so below alpha_s = "
            f"{limit:.6g} for {population!r}; got alpha {alpha:g}"
        )
    return loss


def _distance(problem: Any, level: int, t: float) -> Any:
    """Q(t), one value a replicate."""
    law = ScalarOrder(t, 1 + t * t, 1.0)
    return problem.fields.averages(level, law)(law).Q


def separable_limit(population: Population, intercept: bool) -> Estimate:
    """α_s with its uncertainty; infinite where labels are a function of the features."""
    channel, k = population.label_channel, population.n_classes
    if channel is not None:
        T = difference_basis(k)
        if channel.noiseless and (intercept or not (T.T @ population.offsets).any()):
            return Estimate(np.array(math.inf), np.zeros(()))
        if k == 2:
            return _two_labels(population, channel, intercept)
        return _many_classes(population, intercept)
    G, s = _one_level(population)
    limits = [] if k == 2 else [_many_classes(population, intercept)]
    # Every two classes must be separable by themselves: where N shrinks to two, that is α_s.
    for pair in combinations(range(k), 2):
        two = list(pair)
        p = population.group_shares[two]
        found = _two_groups(p / p.sum(), G[np.ix_(two, two)], s[two], intercept)
        limits.append(Estimate(found.value / p.sum(), found.uncertainty / p.sum()))
    return min(limits, key=lambda one: float(one.value))


def _one_level(population: Population) -> tuple[Array, Array]:
    """G (k, k) and s (k,) of a mixture, in coordinates in which the features have one variance."""
    levels = population.levels_of_features
    if levels is None or (len(levels.fraction) > 1 and np.ptp(levels.variance, axis=1).any()):
        raise InvalidInput(
            "separability is known for classes of one covariance, or of isotropic ones: those of "
            "this mixture have spectra of their own"
        )
    if len(levels.fraction) > 1:
        whitened = levels.gram / levels.variance[:, :1, None]
        return np.asarray(whitened.sum(0)), np.ones(population.n_classes)
    return levels.gram[0], levels.variance[0]


def _short(mean: Array, variance: Any) -> Array:
    """E(−u)₊² of u ~ N(μ, v): (μ² + v)Φ(−μ/√v) − μ√v φ(μ/√v)."""
    x = mean / np.sqrt(variance)
    density = np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    return np.asarray(variance * ((x * x + 1) * ndtr(-x) - x * density))


def _two_groups(p: Array, G: Array, s: Array, intercept: bool) -> Estimate:
    """Two classes of a mixture: weights along the means aμ, m = Ga, and 1 outside them."""

    def value(at: Array, order: int) -> float:
        m, spread = G @ at[:2], 1 + at[:2] @ G @ at[:2]
        return float(p @ (_short(_SIGNS * (m + at[2]), s * spread) / s))

    return _least(value, 3, intercept)


def _two_labels(population: Population, channel: Channel, intercept: bool) -> Estimate:
    """Two classes of a teacher: closed forms given its field."""
    offsets, T = population.offsets, difference_basis(2)[:, 0]
    sd = math.sqrt(T @ population.field_covariance @ T)
    both = np.concatenate([-GAUSS_BREAKS[:0:-1], GAUSS_BREAKS])
    near = -float(offsets @ T) / sd + max(channel.width(0.0) * math.sqrt(2) / sd, 1e-9) * both
    breaks = blend_breaks([both, near], -CUTOFF, CUTOFF)

    def value(at: Array, order: int) -> float:
        x, weight = panel_rule(breaks, order)
        chances = channel.chances(sd * x[:, None] * T + offsets)
        weight = weight * np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
        mean = _SIGNS * (at[0] * x + at[1])[:, None]
        return float(weight @ (chances * _short(mean, 1.0)).sum(1))

    return _least(value, 2, intercept)


def _least(value: Callable[[Array, int], float], size: int, intercept: bool) -> Estimate:
    """1/min of a convex function, of which the last argument is the intercept."""
    fixed = np.zeros(0 if intercept else 1)

    def coarse(x: Array) -> float:
        return value(np.concatenate([x, fixed]), 12)

    found = minimize(coarse, np.zeros(size - len(fixed)), tol=1e-12)
    fine = value(np.concatenate([found.x, fixed]), 18)
    # The minimum is flat: what the minimiser leaves is of second order in its gradient.
    slack = float(np.abs(found.jac).max()) ** 2 + abs(fine - found.fun) + 1e-13
    return Estimate(np.array(1 / fine), np.array(slack / fine**2))


def _many_classes(population: Population, intercept: bool) -> Estimate:
    """The saddle by damped rounds of its own equations, on fixed random points."""
    channel, k = population.label_channel, population.n_classes
    r, T = k - 1, difference_basis(k)
    edges = np.stack([np.linalg.inv(class_gaps(k, y)) for y in range(k)])  # of C_y
    log2 = max(_LOG2_POINTS + 3 - k, 6)
    x = ndtri(uniform_replicates(r if channel is None else 2 * r, log2, _SEED))
    x = np.concatenate([x, -x], axis=1)  # with the moments of the Gaussian up to the third:
    x = np.stack([np.linalg.solve(np.linalg.cholesky(e.T @ e / len(e)), e.T).T for e in x])
    replicates, x = len(x), np.ascontiguousarray(x.reshape(-1, x.shape[2]).T)
    h, n = x[:r], x.shape[1]
    G, s, R, z = np.zeros((k, k)), np.ones(k), np.eye(r), np.zeros((r, n))
    if channel is None:
        G, s = _one_level(population)
        shares = np.repeat(population.group_shares[:, None], n, 1)
    else:
        R = T.T @ population.field_covariance @ T
        z = np.linalg.cholesky(R) @ x[r:]
        shares = np.ascontiguousarray(channel.chances((T @ z).T + population.offsets).T)
    state = [np.zeros((k, r)), np.zeros((r, r)), np.zeros(r), np.eye(r), np.eye(r)]
    gaps, delta = np.zeros((2, k, r, n))
    damp, before, alphas = 0.5, math.inf, [math.nan]
    for _ in steps(range(_ROUNDS)):
        m, A, b, Q, N = state
        B = np.linalg.cholesky(Q)
        E, D, U, stiff, cross = np.zeros((k, r)), *np.zeros((4, r, r))
        for y in range(k):
            omega = (m[y] + b)[:, None] + math.sqrt(s[y]) * B @ h + A @ z
            delta[y] = _way_to_cone(omega, edges[y], N, gaps[y])
            weighted = shares[y] / n * delta[y]
            E[y] = weighted.sum(1) / s[y]
            D += weighted @ delta[y].T / s[y]
            moved = -np.linalg.solve(B.T, h @ weighted.T).T / math.sqrt(s[y])  # E(I − ∂v), by parts
            U += moved
            stiff += moved / s[y]
            cross += weighted @ z.T
        alpha = float(np.trace(N) / np.trace(N @ U))
        tilt, metric = alpha * E.T, N @ U + U.T @ N
        Q = alpha * D + tilt @ G @ tilt.T
        size = math.sqrt(r / float(np.trace(Q)))
        b = b + np.linalg.solve(stiff, E.sum(0)) if intercept else b
        A = A + alpha * np.linalg.solve(R, cross.T).T if channel is not None else A
        N = metric * (r / np.trace(metric))
        new = [size * (tilt @ G).T, size * A, size * b, size**2 * Q, N]
        step = max(float(np.abs(one - old).max()) for one, old in zip(new, state, strict=True))
        damp, before = max(damp * (0.8 if step > before else 1.0), 0.05), step
        state = [old + damp * (one - old) for one, old in zip(new, state, strict=True)]
        alphas = [*alphas[-_CALM:], alpha]
        if len(alphas) > _CALM and np.ptp(alphas) < _SETTLED * alpha:
            break
    weight = (shares / s[:, None])[:, None]
    each = (weight * delta * (N @ delta)).sum((0, 1)).reshape(replicates, -1).mean(1)
    spread = estimate_from_replicates(float(np.trace(N @ D)) * alpha / each).uncertainty
    return Estimate(np.array(alpha), spread + np.ptp(alphas))


def _way_to_cone(omega: Array, edges: Array, N: Array, gaps: Array) -> Array:
    """v − ω (r, n) for v = edges·g, g ≥ 0, nearest to ω in the metric N; `gaps` g are updated."""
    K = edges.T @ N @ edges
    own = np.diag(K)[:, None]
    c, others = (edges.T @ N / own) @ omega, np.eye(len(K)) - K / own
    for _ in range(_SWEEPS):
        for j in range(len(K)):
            np.maximum(c[j] + others[j] @ gaps, 0.0, out=gaps[j])
    return np.asarray(edges @ gaps - omega)
