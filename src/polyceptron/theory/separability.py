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
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from polyceptron.display import ShortDisplay, steps
from polyceptron.errors import InvalidInput
from polyceptron.model.channels import Channel
from polyceptron.model.checks import check_tolerance
from polyceptron.model.law import Law
from polyceptron.model.losses import Loss
from polyceptron.model.losses.hinges import LabelCone
from polyceptron.model.populations import Population, Teacher, check_population
from polyceptron.numerics.estimate import from_replicates
from polyceptron.rows import Status
from polyceptron.theory.populations.separable import separable_limit
from polyceptron.theory.sides import erm_sides

_SMALLEST, _LARGEST = 1e-6, 1e3  # t: labels of chance have 0, hardly any noise a large one
_CLOSE = 1e-10  # of α_s where rules reach it
_FLOOR_MANY = 1e-5  # relative error that the rule for four classes and more was seen to reach


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
    >>> from polyceptron.model import Teacher
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
        method="bounded",
        options={"xatol": 1e-5},
    )
    t = math.exp(float(found.x))
    # The minimum is flat: at the place found on the coarsest level finer ones give its value.
    before = math.nan
    for level in steps(range(problem.fields.rule.n_levels), growth=4):
        estimate = from_replicates(1 / _distance(problem, level, t))
        value, spread = float(estimate.value), float(estimate.uncertainty)
        if not problem.fields.rule.sampled:
            # One Newton step to the minimum in ln t; differences wide enough for a level's noise.
            step = 0.02
            far_low, low, here, high, far_high = (
                float(_distance(problem, level, t * math.exp(s * step))[0]) for s in range(-2, 3)
            )
            bend = (low + high - 2 * here) / step**2
            slope = (8 * (high - low) - (far_high - far_low)) / (12 * step)
            move = -slope / bend if bend > 0 else 0.0
            t *= math.exp(max(-0.05, min(0.05, move)))
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
def alpha_s(channel: Channel, n_classes: int) -> float:
    """α_s, remembered: the loop asks for it at every α, however close to it that is."""
    tol = _CLOSE if n_classes <= 3 else None
    return separability(Teacher(n_classes, noise=channel), tol).alpha_s


@lru_cache(maxsize=64)
def separable_up_to(population: Population, intercept: bool = False) -> float:
    """α_s of the labels in the features that the student sees."""
    if population.symmetric:
        teacher: Any = population
        return alpha_s(teacher.channel, teacher.n_classes) * teacher.features.rank
    return separability(population, intercept=intercept).alpha_s


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
    law = Law(t, 1 + t * t, 1.0)
    return problem.fields.averages(level, law)(law).Q
