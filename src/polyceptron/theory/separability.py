"""Up to how many samples the classes can be separated, and from where the likelihood has a maximum.

Samples are separable if fields of some weights have their largest entry at the label, for all n of
them. For noisy labels and n = αd, d → ∞, the probability of this goes to 1 below α_s and to 0 above

    α_s = rank / min_t Q(t),      Q(t) = (1/r) E dist²(t z* + g, C_y),   z*, g ~ N(0, I) on 1⊥

z* are the teacher's fields, which draw the label y; g is the part of the student's fields that is
independent of them; t > 0 is how much of the teacher they have. C_y is the cone of fields whose
largest entry is y, r = k − 1 the dimension of 1⊥ (fields without their mean over classes), and
`rank` the share of directions in which the features vary. Otherwise the spectrum of the features
does not matter, as a linear map of the inputs changes nothing.

The formula is not in the paper, but Q(t) is the average E|f_out|²/r of its eq. SE (q̂ = αQ) for one
special loss, the hard constraint without a margin (`LabelCone`): f_out is the way to the cone and
u = tz* + g has q = 1 + t², V = 1 and the correlation ρ = t/√(1 + t²) with z*, which the other files
write as τ = ρ/√(1 − ρ²) = t. So the rules that average fields for eq. SE serve here for every
channel and every k. Each has levels, which are finer and finer nodes; the error bar is made in
`_LeastDistance.limits`, from the change between levels or the scatter of random nodes.

Below α_s a ridge of 0 means max-margin; above it the maximum-likelihood estimate exists
(`loss_at_ridge`). Classes that are not alike have matrices in place of t:
`separability_unequal.py`.
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

SMALLEST_T = 1e-6  # labels of chance have their minimum at t = 0
LARGEST_T = 1e3  # from here on the noise is too weak to be resolved
END_OF_SEARCH = 0.1  # in ln t: a minimum that is so near to LARGEST_T may lie beyond it

TOLERANCE_OF_TWO_UNEQUAL_CLASSES = 1e-6
TOLERANCE_OF_MANY_UNEQUAL_CLASSES = 2e-2  # which `saddle_limit` reaches with its fixed points


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
        Of equal classes on α_s/rank, by default 1e-6 for k ≤ 3 and 1e-3 above. Of unequal classes
        on α_s, relative above 1, by default 1e-6 for k = 2 and 2e-2 above: three and more are
        sampled, always at the same points, and the uncertainty is what that leaves open.
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
    """Return α_s = rank/min_t Q(t) of a teacher whose classes are alike.

    The tolerance is on 1/min Q, and so at least as strict on α_s (rank ≤ 1).
    """
    k = teacher.n_classes
    noise = teacher.noise.name
    problem = erm_sides(teacher, LabelCone(), ridge=0.0, alpha=1.0)  # Q depends on neither
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
    usual_tolerance = TOLERANCE_OF_MANY_UNEQUAL_CLASSES
    if population.n_classes == 2:
        usual_tolerance = TOLERANCE_OF_TWO_UNEQUAL_CLASSES
    tol = check_tolerance(tol, usual_tolerance)
    limit = separable_limit(population, intercept)
    rank = 1.0
    eigenvalues = population.levels_of_features
    if eigenvalues is not None:
        # A teacher has one group, column 0. A mixture's variances are above 0 in every group.
        has_variance = eigenvalues.variance[:, 0] > 0
        rank = float(eigenvalues.fraction[has_variance].sum())
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
        tol = 1e-10  # the quadrature of k ≤ 3 reaches it: α − α_s is known close to α_s too
    return separability(population, tol, intercept=intercept).alpha_s


class NotSeparableHere(InvalidInput):
    """A margin is asked for where no weights separate the labels."""


def loss_at_ridge(
    loss: Loss, ridge: float | str, population: Population, alpha: float, intercept: bool = False
) -> Loss:
    """Return the loss to solve for: itself, or at λ = 0 its limit, or above α_s its own minimum.

    A limit is `scale_free` if the norm of its weights is free, as that of max-margin: it exists
    below α_s alone. α_s is taken as exact, without its error bar.
    """
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

    Attributes
    ----------
    problem : Problem
        Whose fields side averages dist²: teacher and `LabelCone`.
    log_t : float
        ln t of the minimum, as far as it is known.
    at_end : bool
        Whether the search stopped at `LARGEST_T`. The minimum may then lie far beyond and be far
        lower, so that no level has an error bar.
    """

    problem: Problem
    log_t: float
    at_end: bool = False

    @classmethod
    def on_coarsest_level(cls, problem: Problem) -> _LeastDistance:
        """Search for the minimum between `SMALLEST_T` and `LARGEST_T`."""
        search = cls(problem, math.nan)
        log_t_tolerance = 1e-2  # a Newton step follows
        if problem.nodes_are_random:
            log_t_tolerance = 1e-5
        found = minimize_scalar(
            lambda log_t: float(search._distance(0, log_t).mean()),
            bounds=(math.log(SMALLEST_T), math.log(LARGEST_T)),
            options={"xatol": log_t_tolerance},
        )
        search.log_t = float(found.x)
        search.at_end = search.log_t > math.log(LARGEST_T) - END_OF_SEARCH
        return search

    def limits(self) -> Iterator[_Limit]:
        """Yield 1/min Q with its error bar, level by level."""
        for limit in self._limits_at_minimum():
            yield limit._replace(uncertainty=math.inf if self.at_end else limit.uncertainty)

    def _limits_at_minimum(self) -> Iterator[_Limit]:
        """Yield 1/Q at the minimum found, with the error bar of the averages.

        With random nodes it is the scatter of replicates (independent sets of nodes). Else it is
        the change from the level before, infinite on the first one, and the relative error
        `error_of_cone` of Q that levels share, as the distance to a cone is not smooth.
        """
        rule = self.problem.fields.rule
        value_before = math.inf
        for level in range(rule.n_levels):
            if self.problem.nodes_are_random:
                estimate = estimate_from_replicates(1 / self._distance(level, self.log_t))
                yield _Limit(float(estimate.value), float(estimate.uncertainty))
                continue
            self._newton_step(level)
            value = float(1 / self._distance(level, self.log_t)[0])
            change = abs(value - value_before)
            yield _Limit(value, change + rule.error_of_cone * value)
            value_before = value

    def _distance(self, level: int, log_t: float) -> Array:
        """Return Q(t) of each replicate; a rule without random nodes has one."""
        t = math.exp(log_t)
        order = ScalarOrder(tau=t, q=1 + t * t, V=1.0)
        average = self.problem.fields.averages(level, order)  # with nodes placed for this order
        return average(order).Q

    def _newton_step(self, level: int) -> None:
        """Move ln t to the minimum of Q: slope of fourth order, bend of second.

        The minimum is moved by an error of the slope only; one of the bend slows the steps down.
        """
        h = 0.02  # in ln t: wide against the rounding of a level, narrow against the minimum
        Q = np.array([self._distance(level, self.log_t + h * j)[0] for j in range(-2, 3)])
        slope = np.array([1, -8, 0, 8, -1]) @ Q / (12 * h)
        bend = np.array([1, -2, 1]) @ Q[1:4] / h**2
        if bend > 0:
            # A longer step would leave the stencil far behind; the search is nearer than that.
            self.log_t += float(np.clip(-slope / bend, -0.05, 0.05))
