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

Classes that are not alike have matrices in place of t: `separability_unequal.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import NamedTuple, cast

import numpy as np
from scipy.optimize import minimize_scalar

from polyceptron.checks import check_tolerance
from polyceptron.display import ShortDisplay
from polyceptron.errors import InvalidInput
from polyceptron.numerics import Array, with_one_blas_thread
from polyceptron.numerics.estimate import estimate_from_replicates
from polyceptron.problem.losses import Loss
from polyceptron.problem.losses.hard_margin import LabelCone
from polyceptron.problem.order import ScalarOrder
from polyceptron.problem.populations import AnyTeacher, Population, check_population
from polyceptron.rows import Status
from polyceptron.sides.scalar import Problem, erm_sides
from polyceptron.solve.refine import first_within
from polyceptron.solve.solution import status_within
from polyceptron.theory.separability_unequal import separable_limit


@dataclass(frozen=True, repr=False)
class Separability(ShortDisplay):
    """α_s and its uncertainty; infinite where labels are a function of the fields.

    Attributes
    ----------
    model : str
    n_classes : int
    noise : str
    alpha_s, alpha_s_uncertainty : float
    status : Status
    """

    model: str
    n_classes: int
    noise: str
    alpha_s: float
    alpha_s_uncertainty: float
    status: Status

    def as_dict(self) -> dict[str, object]:
        """Return the fields by name."""
        return {**asdict(self), "status": str(self.status)}


@with_one_blas_thread
def separability(
    population: Population, tol: float | None = None, *, intercept: bool = False
) -> Separability:
    """Return α_s of a population: below it, samples can almost surely be separated.

    Parameters
    ----------
    population : Teacher, Perceptron or Mixture
    tol : float, optional
        By default 1e-6 for k ≤ 3, 1e-3 above. Three and more unequal classes are sampled, always at
        the same points; the uncertainty is what that leaves open.
    intercept : bool
        Whether the separating rule has an intercept. Equal classes need none.

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
    if population.symmetric:
        return _of_equal_classes(cast(AnyTeacher, population), tol)
    return _of_unequal_classes(population, tol, intercept)


def _of_equal_classes(teacher: AnyTeacher, tol: float | None) -> Separability:
    """Return α_s = rank/min_t Q(t) of a teacher whose classes are alike."""
    k = teacher.n_classes
    noise = teacher.noise.name
    problem = erm_sides(teacher, LabelCone(), 0.0, 1.0)
    tol = check_tolerance(tol, problem.fields.rule.usual_tolerance_of_cone)
    if teacher.channel.noiseless:
        return Separability(teacher.model, k, noise, math.inf, 0.0, Status.OK)
    limit = first_within(_LeastDistance.on_coarsest_level(problem).limits(), tol)
    rank = teacher.features.rank
    return Separability(
        teacher.model,
        k,
        noise,
        rank * limit.value,
        rank * limit.uncertainty,
        status_within(limit.uncertainty, tol),
    )


def _of_unequal_classes(population: Population, tol: float | None, intercept: bool) -> Separability:
    """Return α_s of a population whose classes are not alike."""
    tol = check_tolerance(tol, 1e-6 if population.n_classes == 2 else 2e-2)
    limit = separable_limit(population, intercept)
    levels = population.levels_of_features
    rank = 1.0
    if levels is not None:
        rank = float(levels.fraction[levels.variance[:, 0] > 0].sum())
    value = rank * float(limit.value)
    uncertainty = rank * float(limit.uncertainty)
    noise = "none"
    if population.label_channel is not None:
        noise = population.label_channel.name
    status = status_within(uncertainty, tol * max(value, 1.0))
    return Separability(population.model, population.n_classes, noise, value, uncertainty, status)


@lru_cache(maxsize=256)
def separable_up_to(population: Population, intercept: bool) -> float:
    """Return α_s, remembered: a solver asks for it at every α, however close to it that is."""
    tol = None
    if population.symmetric and population.n_classes <= 3:
        tol = 1e-10  # which panels reach: α − α_s is known close to α_s too
    return separability(population, tol, intercept=intercept).alpha_s


class NotSeparableHere(InvalidInput):
    """A margin is asked for where no weights separate the labels."""


def loss_at_ridge(
    loss: Loss, ridge: float | str, population: Population, alpha: float, intercept: bool = False
) -> Loss:
    """Return the loss to solve for: itself, or at λ = 0 its limit, or above α_s its own minimum."""
    limit_loss = loss
    if ridge == 0:
        without_ridge = loss.without_ridge()
        if without_ridge is None:
            raise InvalidInput(
                f"the loss {loss.name!r} does not say what a ridge of 0 means: give a ridge above 0"
            )
        limit_loss = without_ridge
    if not limit_loss.scale_free:
        return limit_loss
    limit = separable_up_to(population, intercept)
    if alpha < limit:
        return limit_loss
    if loss.scale_free:
        raise NotSeparableHere(
            f"{loss.name} needs classes that can be separated, which is so below alpha_s = "
            f"{limit:.6g} for {population!r}; got alpha {alpha:g}"
        )
    return loss


class _Limit(NamedTuple):
    """1/min_t Q(t) on a level of the rule, with its error bar."""

    value: float
    uncertainty: float


@dataclass
class _LeastDistance:
    """The minimum of Q(t) over ln t, on finer and finer levels of the rule of the fields side.

    The minimum is flat: at the t of the coarsest level finer ones give its value. Where nodes are
    not random, a Newton step on each level corrects t.
    """

    problem: Problem
    log_t: float

    @classmethod
    def on_coarsest_level(cls, problem: Problem) -> _LeastDistance:
        """Search between t = 1e-6 (labels of chance have 0) and 1e3 (hardly any noise)."""
        search = cls(problem, math.nan)
        log_t_tolerance = 1e-2  # a Newton step follows
        if problem.nodes_are_random:
            log_t_tolerance = 1e-5
        found = minimize_scalar(
            lambda log_t: float(search._distance(0, log_t).mean()),
            bounds=(math.log(1e-6), math.log(1e3)),
            options={"xatol": log_t_tolerance},
        )
        search.log_t = float(found.x)
        return search

    def limits(self) -> Iterator[_Limit]:
        """Yield 1/min Q with its error bar, level by level."""
        rule = self.problem.fields.rule
        value_before = math.nan
        for level in range(rule.n_levels):
            if self.problem.nodes_are_random:
                estimate = estimate_from_replicates(1 / self._distance(level, self.log_t))
                yield _Limit(float(estimate.value), float(estimate.uncertainty))
                continue
            self._newton_step(level)
            value = float(1 / self._distance(level, self.log_t)[0])
            yield _Limit(value, abs(value - value_before) + rule.error_of_cone * value)
            value_before = value

    def _distance(self, level: int, log_t: float) -> Array:
        """Return Q(t) of each replicate."""
        t = math.exp(log_t)
        law = ScalarOrder(t, 1 + t * t, 1.0)
        return self.problem.fields.averages(level, law)(law).Q

    def _newton_step(self, level: int) -> None:
        """Move ln t to the minimum of Q, by differences of fourth order.

        Their step is wide enough for the noise of a level; t is hardly off.
        """
        h = 0.02
        Q = np.array([self._distance(level, self.log_t + h * j)[0] for j in range(-2, 3)])
        slope = np.array([1, -8, 0, 8, -1]) @ Q / (12 * h)
        bend = np.array([1, -2, 1]) @ Q[1:4] / h**2
        if bend > 0:
            self.log_t += float(np.clip(-slope / bend, -0.05, 0.05))
