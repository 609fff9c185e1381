"""The least error of a linear rule with an intercept on a mixture that it knows.

The rule answers with the largest of the k fields f = Wᵀx + b. Only the projections of x on the
span of the class means count, so that class c is a Gaussian in D coordinates,

    x ~ N(a_c, diag v_c),    a (k, D), v (k, D),

level by level where covariances have levels of eigenvalues. If the means of a level span fewer than
k − 1 dimensions, coordinates of mean 0 are added: there too a boundary can cut off a class of large
variance. Class c is answered in a convex region, so that a ray from a_c enters it once and leaves
it once. With u a direction (uniform on the sphere), x = a_c + t √v_c u and t of a chi law with D
degrees of freedom,

    P(right | c) = E_u [F(t_leave) − F(t_enter)],    F(t) = P(χ_D ≤ t).

For fixed directions this is a continuous function of the rule with an explicit gradient, since t at
a boundary is a ratio of two linear functions of the rule. It is minimised from many starts with
the same directions in all of them.

The least error is often a limit that no single rule attains: one boundary cuts a class off, and the
other classes are told apart by fields that are smaller by a factor that tends to 0. Therefore the
matrix of fields is written as Z diag(s) Vᵀ with s and V from its singular value decomposition,
Z is optimised, and the decomposition is repeated: however small a field, its boundary moves freely.

Two classes on one line (D = 1) have at most two places where p₁ φ₁ = p₂ φ₂, and the least error is
exact. Otherwise nothing shows that the lowest minimum has been met, and the result says
"upper bound".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import minimize
from scipy.special import gammainc, gammaln, ndtr, ndtri

from polyceptron.checks import difference_basis
from polyceptron.display import ShortDisplay
from polyceptron.errors import InvalidInput
from polyceptron.numerics import Array
from polyceptron.numerics.estimate import Estimate, estimate_from_replicates, uniform_replicates
from polyceptron.problem.populations import Population, check_population
from polyceptron.progress import steps
from polyceptron.sides.scores import FieldsDistribution, population_scores
from polyceptron.theory.bayes.population_rule import population_floor

LEAST = "least"
UPPER_BOUND = "upper bound"

DIRECTIONS_SEED = 31
STARTS_SEED = 41
# log2 of the number of directions, before each is joined by its opposite. A minimum on 2**9 moves
# by about 1e-3 when more are taken, one on 2**13 by 1e-4: test_linear_floor.py compares the result
# with other directions and with another integration.
LOG2_DIRECTIONS_OF_SEARCH = 9
LOG2_DIRECTIONS_OF_REFINEMENT = 13
LOG2_DIRECTIONS_OF_RESULT = 14
# Starts from random rules, before the best rule so far is perturbed instead.
N_RANDOM_STARTS = 4
MAX_STARTS = 14
# The search ends when so many starts have met the best error, to this precision.
N_MEETINGS_WANTED = 3
SAME_ERROR = 2e-5
N_REFINED = 3
MAX_ROUNDS = 6
# A local minimisation ends when another round lowers the error by less than this.
PRECISION_OF_SEARCH = 5e-6
PRECISION_OF_REFINEMENT = 1e-7
# Size of a perturbation relative to the fields, and the least ratio of their scales after it.
PERTURBATION = 0.7
LEAST_SCALE_PERTURBED = 0.1


@dataclass(frozen=True, repr=False)
class LinearFloor(ShortDisplay):
    """The error of the best linear rule found, its uncertainty, and what is claimed of it.

    `kind` is "least" where no linear rule errs less, and "upper bound" where the rule was searched
    for and a better one may exist: the least error is then at most `value + uncertainty`.
    `uncertainty` is that of the integration, plus the spread of the best minima that were found,
    plus what the rule lost on directions on which it was not optimised, plus the precision of a
    local minimisation.
    `rule` (D + 1, k) is the rule of a search in the coordinates of `clusters_of`, the intercepts
    last; its fields may differ in scale by many decades, where the least error is a limit.
    """

    value: float
    uncertainty: float
    kind: str
    n_starts: int = 0
    rule: Array | None = None


@dataclass(frozen=True)
class Clusters:
    """Gaussian classes with shares p (k,), means a (k, D) and variances v (k, D)."""

    shares: Array
    means: Array
    variances: Array

    @property
    def n_classes(self) -> int:
        """k."""
        return len(self.shares)

    @property
    def dimension(self) -> int:
        """D."""
        return int(self.means.shape[1])


@dataclass
class Candidate:
    """A rule Θ (D + 1, k), whose last row are the intercepts, and its error on some directions."""

    rule: Array = field(repr=False)
    error: float


def linear_floor(population: Population) -> LinearFloor:
    """The least error of a linear rule with an intercept that knows the population.

    Parameters
    ----------
    population : Teacher, Perceptron or Mixture
        The Bayes rule of a teacher, and of classes of one covariance, is linear. For two classes
        with a variance each the least error is exact. Otherwise it is searched for.

    Returns
    -------
    LinearFloor
        `value`, `uncertainty`, and `kind`: "least", or "upper bound" for the result of a search.

    Examples
    --------
    >>> from polyceptron.problem.populations import Mixture
    >>> linear_floor(Mixture((0.5, 0.5), separation=2.0, variances=(1.0, 0.25)))
    LinearFloor(value=0.08472885, uncertainty=1.0e-13, kind='least', n_starts=0)
    """
    check_population(population)
    if population.label_channel is not None:
        return _known(population_floor(population))
    levels = population.levels_of_features
    if levels is None:
        raise InvalidInput(
            "the best linear rule is known for covariances with eigenvectors in common"
        )
    if not np.ptp(levels.variance, axis=1).any():
        return _known(population_floor(population))
    clusters = clusters_of(population)
    if clusters.n_classes == 2 and clusters.dimension == 1:
        return LinearFloor(_two_classes_on_a_line(clusters), 1e-13, LEAST)
    return _searched(clusters)


def _known(error: Estimate) -> LinearFloor:
    """Return the floor where the Bayes rule itself is linear."""
    return LinearFloor(float(error.value), float(error.uncertainty), LEAST)


def clusters_of(population: Population) -> Clusters:
    """Return the classes in the coordinates that a linear rule can use."""
    levels = population.levels_of_features
    assert levels is not None
    k = population.n_classes
    centre = np.eye(k) - 1 / k
    means = []
    variances = []
    for gram, variance in zip(levels.gram, levels.variance, strict=True):
        values, vectors = np.linalg.eigh(centre @ gram @ centre)
        spanned = values > 1e-12 * max(float(values[-1]), 1e-300)
        n_added = max(k - 1 - int(spanned.sum()), 0)
        means.append(vectors[:, spanned] * np.sqrt(values[spanned]))
        means.append(np.zeros((k, n_added)))
        variances.append(np.repeat(variance[:, None], spanned.sum() + n_added, axis=1))
    return Clusters(
        np.asarray(population.group_shares),
        np.concatenate(means, axis=1),
        np.concatenate(variances, axis=1),
    )


def _two_classes_on_a_line(clusters: Clusters) -> float:
    """Return the least error of "class 1 where s x > t", for both signs s and every t.

    The error is stationary in t where p₁ φ₁ = p₂ φ₂, which is a quadratic equation in t; t = ±∞
    gives one answer to all.
    """
    p = clusters.shares
    v = clusters.variances[:, 0]
    least = float(p.min())
    for sign in (1.0, -1.0):
        a = sign * clusters.means[:, 0]
        # ln p_c − ln(v_c)/2 − (t − a_c)²/(2 v_c), as polynomials in t.
        logs = np.stack([-0.5 / v, a / v, np.log(p) - 0.5 * np.log(v) - 0.5 * a**2 / v])
        for root in np.roots(logs[:, 1] - logs[:, 0]):
            t = root.real
            error = p[0] * ndtr((a[0] - t) / np.sqrt(v[0])) + p[1] * ndtr(
                (t - a[1]) / np.sqrt(v[1])
            )
            least = min(least, float(error))
    return least


def _searched(clusters: Clusters) -> LinearFloor:
    """Return the lowest minimum of many starts, refined with more directions."""
    directions = unit_directions(clusters.dimension, LOG2_DIRECTIONS_OF_SEARCH)
    search = RuleSearch(clusters, directions, np.random.default_rng(STARTS_SEED))
    search.run()
    more = unit_directions(clusters.dimension, LOG2_DIRECTIONS_OF_REFINEMENT)
    refined = [
        minimised(candidate.rule, clusters, more, PRECISION_OF_REFINEMENT)
        for candidate in search.best(N_REFINED)
    ]
    refined.sort(key=lambda candidate: candidate.error)
    error = error_of_rule(refined[0].rule, clusters)
    spread = refined[-1].error - refined[0].error
    # A minimum on given directions is on average below the least error, and the error of the rule
    # found there is above it.
    optimism = abs(float(error.value) - refined[0].error)
    # Where fields differ in scale by decades a line search may end before the minimum.
    return LinearFloor(
        float(error.value),
        float(error.uncertainty) + spread + optimism + PRECISION_OF_SEARCH,
        UPPER_BOUND,
        len(search.candidates),
        refined[0].rule,
    )


@dataclass
class RuleSearch:
    """Minima of the error on fixed directions, from one start after the other."""

    clusters: Clusters
    directions: Array
    rng: np.random.Generator
    candidates: list[Candidate] = field(default_factory=list)

    def run(self) -> None:
        """Add minima until the lowest has been met often enough, or there were enough starts."""
        for _ in steps(range(MAX_STARTS)):
            if self.n_meetings() >= N_MEETINGS_WANTED:
                break
            self.candidates.append(
                minimised(self.next_start(), self.clusters, self.directions, PRECISION_OF_SEARCH)
            )

    def best(self, count: int) -> list[Candidate]:
        """Return the candidates of least error."""
        return sorted(self.candidates, key=lambda candidate: candidate.error)[:count]

    def n_meetings(self) -> int:
        """Return how many starts ended at the lowest error."""
        if not self.candidates:
            return 0
        lowest = self.best(1)[0].error
        return sum(candidate.error < lowest + SAME_ERROR for candidate in self.candidates)

    def next_start(self) -> Array:
        """Return the pooled rule first, then random ones, then perturbations of the best."""
        if not self.candidates:
            return pooled_rule(self.clusters)
        if len(self.candidates) < N_RANDOM_STARTS:
            return self._random_rule()
        return self._perturbed(self.best(1)[0].rule)

    def _random_rule(self) -> Array:
        """Return fields that vary by order one over all samples."""
        a = self.clusters.means
        variance = self.clusters.shares @ (self.clusters.variances + a**2)
        weights = self.rng.standard_normal(a.T.shape) / np.sqrt(variance)[:, None]
        intercepts = self.rng.standard_normal(self.clusters.n_classes)
        return np.vstack([weights, intercepts])

    def _perturbed(self, rule: Array) -> Array:
        """Return the rule with every boundary moved, those between small fields included."""
        T = difference_basis(self.clusters.n_classes)
        Z, scales, V = np.linalg.svd(rule @ T, full_matrices=False)
        scales = np.maximum(scales, LEAST_SCALE_PERTURBED * scales[0])
        noise = self.rng.standard_normal(Z.shape) / math.sqrt(len(Z))
        return np.asarray((Z + PERTURBATION * noise) @ (scales[:, None] * V) @ T.T)


def pooled_rule(clusters: Clusters) -> Array:
    """Return the Bayes rule of classes that all have the mean variances, (D + 1, k)."""
    weights = (clusters.means / (clusters.shares @ clusters.variances)).T
    intercepts = np.log(clusters.shares) - 0.5 * (clusters.means * weights.T).sum(axis=1)
    return np.vstack([weights, intercepts])


def minimised(start: Array, clusters: Clusters, directions: Array, precision: float) -> Candidate:
    """Return a local minimum of the error, from a rule (D + 1, k), on given directions (n, D)."""
    T = difference_basis(clusters.n_classes)
    fields = start @ T
    error = math.inf
    for _ in range(MAX_ROUNDS):
        Z, scales, V = np.linalg.svd(fields, full_matrices=False)
        to_classes = np.maximum(scales, 1e-12 * scales[0])[:, None] * V @ T.T
        found = minimize(
            _error_of_factor(to_classes, clusters, directions),
            Z.ravel(),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": 300, "ftol": 1e-2 * precision},
        )
        fields = found.x.reshape(Z.shape) @ to_classes @ T
        gain = error - float(found.fun)
        error = float(found.fun)
        if gain < precision:
            break
    return Candidate(fields @ T.T, error)


def _error_of_factor(
    to_classes: Array, clusters: Clusters, directions: Array
) -> Callable[[Array], tuple[float, Array]]:
    """Return the error of the rule Z `to_classes` and its gradient, as a function of Z, flat."""

    def error(flat: Array) -> tuple[float, Array]:
        """Return the error of a rule and its gradient, both as vectors."""
        rule = flat.reshape(clusters.dimension + 1, -1) @ to_classes
        value, slope = error_and_slope(rule, clusters, directions)
        return value, (slope @ to_classes.T).ravel()

    return error


def error_of_rule(rule: Array, clusters: Clusters) -> Estimate:
    """Return the error of a rule (D + 1, k): exact for k = 3, and on fresh directions above."""
    k = clusters.n_classes
    if k <= 3:
        T = difference_basis(k)
        B = rule[:-1] @ T
        Q = np.einsum("dr,cd,ds->crs", B, clusters.variances, B)
        law = FieldsDistribution(clusters.shares, clusters.means @ B, Q, rule[-1] @ T)
        return population_scores(law).error
    return error_on_fresh_directions(rule, clusters)


def error_on_fresh_directions(rule: Array, clusters: Clusters) -> Estimate:
    """Return the error of a rule (D + 1, k) by replicates of directions that no search has seen."""
    errors = [
        error_and_slope(rule, clusters, _directions(uniform))[0]
        for uniform in uniform_replicates(
            clusters.dimension, LOG2_DIRECTIONS_OF_RESULT, DIRECTIONS_SEED + 1
        )
    ]
    return estimate_from_replicates(np.array(errors))


def unit_directions(dimension: int, log2: int, seed: int = DIRECTIONS_SEED) -> Array:
    """Return directions (n, D) spread evenly over the sphere, each with its opposite."""
    return _directions(uniform_replicates(dimension, log2, seed, 1)[0])


def _directions(uniform: Array) -> Array:
    """Return the directions of points in the unit cube, (n, D) to (2n, D).

    Areas are kept: by the angle on a circle, by height and longitude on a sphere in three
    dimensions, and by normal variables above.
    """
    dimension = uniform.shape[1]
    if dimension == 2:
        angle = math.pi * uniform[:, 0]
        u = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    elif dimension == 3:
        height = uniform[:, 0]
        longitude = 2 * math.pi * uniform[:, 1]
        radius = np.sqrt(1 - height**2)
        u = np.stack([radius * np.cos(longitude), radius * np.sin(longitude), height], axis=1)
    else:
        normal = ndtri(uniform)
        u = normal / np.linalg.norm(normal, axis=1, keepdims=True)
    return np.concatenate([u, -u])


def error_and_slope(rule: Array, clusters: Clusters, directions: Array) -> tuple[float, Array]:
    """Return the error of a rule (D + 1, k) along directions (n, D), and its gradient."""
    error = 1.0
    slope = np.zeros_like(rule)
    for c, share in enumerate(clusters.shares):
        chance, chance_slope = _chance_of_right_answer(rule, clusters, c, directions)
        error -= share * chance
        slope -= share * chance_slope
    return error, slope


def _chance_of_right_answer(
    rule: Array, clusters: Clusters, c: int, directions: Array
) -> tuple[float, Array]:
    """Return P(right | c) and its gradient (D + 1, k)."""
    rivals = np.delete(np.arange(clusters.n_classes), c)
    margins = rule[:, [c]] - rule[:, rivals]  # of class c over each rival, linear in (x, 1)
    start = np.append(clusters.means[c], 1.0)
    ray = directions * np.sqrt(clusters.variances[c])
    at_start = start @ margins  # (k − 1,)
    along = ray @ margins[:-1]  # (n, k − 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        crossing = -at_start / along
    leaving = np.where(along < 0, crossing, np.inf)
    entering = np.where(along > 0, crossing, 0.0)
    last = leaving.argmin(axis=1)
    first = entering.argmax(axis=1)
    rows = np.arange(len(ray))
    t_leave = leaving[rows, last]
    t_enter = np.maximum(entering[rows, first], 0.0)
    never = ((along == 0) & (at_start <= 0)).any(axis=1)
    inside = (t_leave > t_enter) & ~never
    chance = _chi_cdf(t_leave, clusters.dimension) - _chi_cdf(t_enter, clusters.dimension)
    slope = np.zeros_like(rule)
    for sign, t, rival in ((1.0, t_leave, last), (-1.0, t_enter, first)):
        seen = inside & np.isfinite(t) & (t > 0)
        # A margin that grows by ε at the boundary moves it by −ε/along.
        moved = -sign * _chi_density(t[seen], clusters.dimension) / along[rows, rival][seen]
        at_boundary = start + np.pad(t[seen, None] * ray[seen], ((0, 0), (0, 1)))
        weight = np.zeros((int(seen.sum()), len(rivals)))
        weight[np.arange(len(weight)), rival[seen]] = moved / len(ray)
        by_rival = at_boundary.T @ weight
        slope[:, c] += by_rival.sum(axis=1)
        slope[:, rivals] -= by_rival
    return float(chance[inside].sum()) / len(ray), slope


def _chi_cdf(t: Array, dimension: int) -> Array:
    """Return P(χ_D ≤ t)."""
    return np.asarray(gammainc(dimension / 2, t * t / 2))


def _chi_density(t: Array, dimension: int) -> Array:
    """Return the density of χ_D at t > 0."""
    log_norm = (1 - dimension / 2) * math.log(2) - gammaln(dimension / 2)
    return np.asarray(np.exp(log_norm + (dimension - 1) * np.log(t) - t * t / 2))
