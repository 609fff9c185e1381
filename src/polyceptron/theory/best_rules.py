"""The best rules of a population: what none surpasses, best shifts and class weights of a fit.

A teacher with biases: knowing its weights, the answer is argmax(z + b*), which is linear in x.

A mixture, as d → ∞: classes of different covariances are told apart by them alone. With variances
s ≠ s', ‖x‖²/d is s or s' up to fluctuations of order d^{−1/2}, so that the quadratic rule never
takes one for the other, whatever the means. Within a block of classes with one covariance the rule
is linear, of the logarithms of the posterior

    δ_c = x·μ_c/(√d s) − K_cc/2 + ln p_c,    in class c':  δ ~ N(K e_c', K),    K = (μ_c·μ_c'/d)/s

(levels of eigenvalues: K sums over them). `population_floor` is the error of this rule. A linear
student cannot see ‖x‖²; `linear_floor.py` looks for the best linear rule.

Gaussian means, Cov(μ_c, μ_c') = G in each coordinate, after n = αd samples with their labels: the
class means y_c = μ_c + √(s/αp_c) ξ leave a Gaussian posterior, with means that have the Gram matrix

    H = G(G + Λ⁻¹)⁻¹G,    Λ = diag(αp_c/s)

and the posterior's variance of a mean cancels from δ_c. So the Bayes-optimal error at α is the
floor of a mixture with Gram matrix H: shrunken class means.

With costs c_tp of answering p to label t the mean cost of a rule is Σ_tp c_tp P(t, p):

    error           c_tp = 1[p ≠ t]
    balanced error  c_tp = 1[p ≠ t]/(k P(t))

A shift of the intercepts is chosen after the fit: the law of the fields stays, and the cost is a
function of r numbers. Class weights change the fit itself. Searched for is the family

    w_c ∝ P(c)^(−γ) C_c^δ,    Σ_c P(c) w_c = 1,    C_c = Σ_p (c_cp − c_cc)

γ = δ = 0 is no weights, γ = 1 and δ = 0 is 'balanced'. Of two classes it is the ratio w_2/w_1,
which is all that there is. Where neither shares nor costs differ, each weight is searched for in
turn.
"""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import ndtri, softmax

from polyceptron.checks import as_numbers, check_alpha, check_alphas, difference_basis
from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.numerics import Array
from polyceptron.numerics.estimate import Estimate, estimate_from_replicates, uniform_replicates
from polyceptron.problem.populations import Population, check_population
from polyceptron.problem.specs import as_erm
from polyceptron.rows import Status, make_row
from polyceptron.sides.scores import (
    FieldsDistribution,
    PopulationScores,
    TeacherFields,
    drawn_chances,
    population_scores,
)
from polyceptron.solve.minimise import Place, Trial, minimise
from polyceptron.theory.bayes.biased import biased_bayes
from polyceptron.theory.erm.unequal_classes import (
    PopulationPoint,
    matrix_problem,
    population_point,
    population_tolerance,
)

_SEEDS = 31, 37  # of a floor, of a shift
_DRAWS = 256  # of each class and replicate, with covariances in full
_TEMPERATURES = (0.3, 0.1, 0.03)  # of the answer, in units of the fields' spread
_POINTS = 11  # log2: for a shift
WEIGHT_RATIOS = (1e-8, 1e8)  # of the largest to the smallest weight on a line of the search
SWEEP_GAIN = 1.0  # tolerances: for less, the lines are not searched again
EQUAL_LOGS = 1e-9  # logarithms of shares, costs or weights that only rounding tells apart
MAX_SWEEPS = 3  # over all lines; what the last one gained is counted in the uncertainty


def population_floor(population: Population) -> Estimate:
    """The error of the population's own Bayes rule, which knows all but the label.

    Parameters
    ----------
    population : Teacher, Perceptron or Mixture
        Classes of a mixture whose covariances differ are told apart by them alone as d → ∞;
        `linear_floor` is what a linear rule can reach. With covariances in full, at their own d,
        the quadratic rule is sampled.

    Returns
    -------
    Estimate
        `value` and `uncertainty`.

    Examples
    --------
    >>> from polyceptron.problem.populations import Mixture
    >>> round(float(population_floor(Mixture((0.5, 0.5), separation=2.0)).value), 6)
    0.158655
    """
    check_population(population)
    channel, k = population.label_channel, population.n_classes
    if channel is not None:
        if channel.utility_variance == 0:  # only a guess is wrong
            return Estimate(np.array((k - 1) * channel.guess(k)), np.zeros(()))
        T = difference_basis(k)  # its own fields as the student's
        R, b = T.T @ population.field_covariance @ T, T.T @ population.offsets
        teacher = TeacherFields(R, R, b, channel)
        return population_scores(
            FieldsDistribution(np.ones(1), 0 * b[None], R[None], b, teacher)
        ).error
    if population.full_features is not None:
        return _quadratic(population)
    return _bayes_rule(population, math.inf).error


def _bayes_rule(population: Population, alpha: float) -> PopulationScores:
    """Scores of δ ~ N(Ke_c, K) in each block of classes with one covariance, after n = αd."""
    levels, p = population.levels_of_features, population.group_shares
    if levels is None:
        raise InvalidInput(
            "the Bayes-optimal student of a mixture needs eigenvectors in common, got "
            f"{population!r}"
        )
    k, gram = len(p), np.zeros(levels.gram.shape) if alpha == 0 else levels.gram
    if 0 < alpha < math.inf:
        prior = levels.gram / levels.fraction[:, None, None]  # of one coordinate
        noise = (levels.variance / (alpha * p))[:, :, None] * np.eye(k)
        gram = levels.fraction[:, None, None] * (prior @ np.linalg.solve(prior + noise, prior))
    seen: dict[tuple[float, ...], list[int]] = {}
    for c in range(k):
        seen.setdefault(tuple(levels.variance[:, c]), []).append(c)
    confusion = np.stack([np.diag(p), np.zeros((k, k))])  # values, uncertainties
    sums = {name: np.zeros(2) for name in ("error", "balanced_error", "test_loss", "brier")}
    for variance, classes in seen.items():
        if len(classes) == 1:  # told from all others
            continue
        share, T = float(p[classes].sum()), difference_basis(len(classes))
        K = (gram[:, classes][:, :, classes] / np.array(variance)[:, None, None]).sum(0)
        b = T.T @ (np.log(p[classes]) - np.diag(K) / 2)
        Q = np.repeat((T.T @ K @ T)[None], len(classes), 0)
        found = population_scores(
            FieldsDistribution(p[classes] / share, K @ T, Q, b), partial(softmax, axis=1)
        )
        for i, value in enumerate(found.confusion):
            confusion[i][np.ix_(classes, classes)] = share * value
        for name, total in sums.items():
            part = len(classes) / k if name == "balanced_error" else share
            total += part * np.array(getattr(found, name))
    right, said = np.diagonal(confusion, axis1=1, axis2=2), confusion.sum(1)
    with np.errstate(invalid="ignore", divide="ignore"):
        precision = right[0] / said[0], (right[1] + said[1]) / said[0]
    return PopulationScores(
        Estimate(*confusion),
        recall=Estimate(*(right / p)),
        precision=Estimate(*precision),
        shares=Estimate(p, np.zeros(k)),
        **{name: Estimate(*total) for name, total in sums.items()},
    )


def bayes_population_rows(population: Any, alpha: Any) -> list[dict[str, Any]]:
    """Rows of the Bayes-optimal student where classes are not alike, one for each α."""
    said = {**population.columns, "estimator": "bayes", "branch": "optimal", "status": Status.OK}
    rows = []
    for a in check_alphas(alpha):
        row = {**said, "alpha": a}
        if population.label_channel is None:
            row |= _bayes_rule(population, a).columns
        else:
            found, Q, moved, row["status"] = biased_bayes(population, a)
            row |= found.columns | {"q": float(np.trace(Q)) / len(Q)}
            row["uncertainty"] += moved * row["generalisation_error"]
        rows.append(make_row(source="theory", **row))
    return rows


def _quadratic(population: Population) -> Estimate:
    """E(1 − max_c P(c | x)) with covariances in full, at their own dimension."""
    full = population.full_features
    assert full is not None
    means, p = full[0] / math.sqrt(full[0].shape[1]), population.group_shares
    roots = [np.linalg.cholesky(sigma) for sigma in full[1]]
    logs = [2 * np.log(np.diag(root)).sum() for root in roots]
    found = np.zeros(16)
    for c, root in enumerate(roots):
        rng = np.random.default_rng([_SEEDS[0], c])
        x = means[c] + rng.standard_normal((len(found) * _DRAWS, len(root))) @ root.T
        density = np.stack(
            [
                np.log(p[h]) - 0.5 * (np.square(np.linalg.solve(r, (x - m).T)).sum(0) + log)
                for h, (r, m, log) in enumerate(zip(roots, means, logs, strict=True))
            ],
            axis=1,
        )
        missed = 1 - softmax(density, axis=1).max(1)
        found += p[c] * missed.reshape(len(found), -1).mean(1)
    return estimate_from_replicates(found)


def least_cost(fixed: Array, x: Array, cost: Array, W: Array, b: Array) -> tuple[Array, Array]:
    """W (D, k) and b (k,) of least mean cost of the answer argmax(fixed + xW + b) at points (n, k).

    A softmax of falling temperature stands for the argmax; `cost` (n, k) is weighted.
    """
    k, size = fixed.shape[1], W.size

    def fields(theta: Array) -> Array:
        return np.asarray(fixed + x @ theta[:size].reshape(W.shape) + theta[size:])

    theta = np.concatenate([W.ravel(), b])
    for share in _TEMPERATURES:
        scale = share * float(np.std(fields(theta)[:, 1:] - fields(theta)[:, :1])) + 1e-12

        def value(theta: Array, scale: float = scale) -> tuple[float, Array]:
            P = softmax(fields(theta) / scale, axis=1)
            mean = (P * cost).sum(1, keepdims=True)
            pull = P * (cost - mean) / scale
            return float(mean.sum()), np.concatenate([(x.T @ pull).ravel(), pull.sum(0)])

        theta = minimize(value, theta, jac=True, method="L-BFGS-B").x
    return theta[:size].reshape(-1, k), theta[size:]


@dataclass(frozen=True)
class Decision:
    """What was chosen (k,), its mean cost and uncertainty, the cost without it, and its scores."""

    chosen: Array
    cost: float
    cost_uncertainty: float
    cost_before: float
    scores: PopulationScores
    point: PopulationPoint


def cost_matrix(population: Population, target: str = "balanced", cost: Any = None) -> Array:
    """c (k, k), rows are labels: of a target, or as given."""
    k = population.n_classes
    if cost is not None:
        found = as_numbers(cost, "the costs").astype(float)
        if found.shape != (k, k) or not np.isfinite(found).all():
            raise InvalidInput(f"costs must be {k} × {k} finite numbers, got {cost!r}")
        return found
    if target not in ("error", "balanced"):
        raise InvalidInput(f"unknown target {target!r}: allowed are 'error' and 'balanced'")
    weight = 1.0 if target == "error" else 1 / (k * population.class_shares[:, None])
    return weight * (1 - np.eye(k))


def best_shift(
    population: Population,
    estimator: Any,
    alpha: float,
    target: str = "balanced",
    *,
    cost: Any = None,
    tol: float | None = None,
) -> Decision:
    """The shift of a student's intercepts after the fit that costs least on fresh samples.

    Parameters
    ----------
    population : Teacher or Mixture
    estimator : ERM
    alpha : float
    target : 'balanced' or 'error'
    cost : array_like, optional
        c (k, k) in place of a target: of answering p (column) to label t (row).
    tol : float, optional
        Of the fixed point.

    Returns
    -------
    Decision
        `chosen` are the shifts of the k intercepts, of mean 0.

    Examples
    --------
    >>> from polyceptron.problem import ERM
    >>> from polyceptron.problem.populations import Mixture
    >>> found = best_shift(Mixture((0.9, 0.1), separation=2.0), ERM(intercept=True), 3.0)
    >>> bool(found.chosen[1] > 0 and found.cost < found.cost_before)
    True
    """
    check_population(population)
    c = cost_matrix(population, target, cost)
    point = _solved(population, as_erm(estimator), alpha, tol)
    law, T = point.law, difference_basis(population.n_classes)
    start = _on_points(law, c)

    def value(shift: Array) -> float:
        found = population_scores(law.shifted(shift), tol=math.inf, near=law)
        return float((c * found.confusion.value).sum())

    shift = start = min(start, np.zeros(len(start)), key=value)
    if law.n_classes <= 3:  # the rule is smooth in the shift
        step = 0.1 * float(np.sqrt(np.trace(law.Q, axis1=1, axis2=2).max()))
        simplex: Any = {"initial_simplex": np.vstack([start, start + step * np.eye(len(start))])}
        simplex |= {"xatol": 1e-7, "fatol": 1e-13}
        shift = np.asarray(minimize(value, start, method="Nelder-Mead", options=simplex).x)
    before = float((c * population_scores(law).confusion.value).sum())
    return _decided(T @ shift, c, population_scores(law.shifted(shift)), point, before)


def best_class_weight(
    population: Population,
    estimator: Any,
    alpha: float,
    target: str = "balanced",
    *,
    cost: Any = None,
    tol: float | None = None,
) -> Decision:
    """The class weights of a fit that cost least on fresh samples.

    Of two classes the ratio of both weights is searched for. Of more, the family described at the
    top of this module, w_c ∝ P(c)^(−γ) C_c^δ, where C_c is what mistakes of class c cost together;
    if neither shares nor costs differ, one weight after the other.

    Parameters
    ----------
    population, estimator, alpha, target, cost, tol
        Those of `best_shift`. Weights of the estimator itself do not count.

    Returns
    -------
    Decision
        `chosen` are the k weights, with mean 1 over samples. Its uncertainty counts what a further
        search in the family could gain.

    Examples
    --------
    >>> from polyceptron.problem import ERM
    >>> from polyceptron.problem.populations import Mixture
    >>> found = best_class_weight(Mixture((0.9, 0.1), separation=2.0), ERM(intercept=True), 3.0)
    >>> bool(found.chosen[1] > found.chosen[0])
    True
    """
    check_population(population)
    costs = cost_matrix(population, target, cost)
    objective = _CostOfWeights(population, as_erm(estimator), check_alpha(alpha), tol, costs)
    log_weights = np.zeros(population.n_classes)
    before = objective(log_weights)
    if not math.isfinite(before.value):
        raise ComputationFailed(f"no fixed point at alpha {alpha:g}: give a larger ridge")
    search_tol = objective.tolerance * float(np.abs(costs).max())
    best = before
    left_open = 0.0
    at_edge = False
    for _ in range(MAX_SWEEPS):
        value_before_sweep = best.value
        left_open = 0.0
        at_edge = False
        directions = objective.directions()
        for direction in directions:
            line = partial(objective.along, log_weights, direction)
            found = minimise(
                line, 1.0, search_tol, range_=WEIGHT_RATIOS, scan=objective.scanned(direction)
            )
            assert found is not None  # it holds at the start
            left_open += found.left_open
            at_edge = at_edge or found.place == Place.EDGE
            if found.trial.value <= best.value:
                best = found.trial
                log_weights = log_weights + math.log(found.parameter) * direction
        if len(directions) == 1:
            break
        gained = value_before_sweep - best.value
        left_open += gained
        if gained < SWEEP_GAIN * search_tol:
            break
    point, scores = best.answer
    if at_edge and point.status == Status.OK:
        point = replace(point, status=Status.TOLERANCE_NOT_MET)
    decision = _decided(objective.weights(log_weights), costs, scores, point, before.value)
    return replace(decision, cost_uncertainty=decision.cost_uncertainty + left_open)


@dataclass(frozen=True)
class _CostOfWeights:
    """The mean cost of a fit with class weights, as a function of their logarithms (k,)."""

    population: Population
    spec: Any
    alpha: float
    tol: float | None
    costs: Array  # (k, k)

    @property
    def tolerance(self) -> float:
        """The tolerance of each fixed point."""
        unweighted = replace(self.spec, ridge=1.0)
        return population_tolerance(
            matrix_problem(self.population, unweighted, self.alpha), self.tol
        )

    def weights(self, log_weights: Array) -> Array:
        """The weights (k,), with mean 1 over samples."""
        w = np.exp(log_weights - log_weights.max())
        return np.asarray(w / (self.population.class_shares @ w))

    def __call__(self, log_weights: Array) -> Trial:
        chosen: Any = tuple(self.weights(log_weights).tolist())
        weighted = replace(self.spec, class_weight=chosen)
        try:
            point = _solved(self.population, weighted, self.alpha, self.tol)
        except (ComputationFailed, ArithmeticError, np.linalg.LinAlgError):
            return Trial(math.inf)
        scores = population_scores(point.law)
        return Trial(float((self.costs * scores.confusion.value).sum()), answer=(point, scores))

    def along(self, log_weights: Array, direction: Array, parameter: float) -> Trial:
        """The cost on a line, where the parameter is 1 at the given weights."""
        return self(log_weights + math.log(parameter) * direction)

    def directions(self) -> list[Array]:
        """The lines to search, in ln w (k,), each of range 1."""
        k = self.population.n_classes
        if k == 2:
            return [np.array([0.0, 1.0])]
        lines = [-np.log(self.population.class_shares)]
        mistakes = (self.costs - np.diag(self.costs)[:, None]).sum(1)
        if (mistakes > 0).all():
            lines.append(np.log(mistakes))
        lines = [line / np.ptp(line) for line in lines if np.ptp(line) > EQUAL_LOGS]
        if len(lines) == 2 and np.ptp(lines[0] - lines[1]) < EQUAL_LOGS:
            lines.pop()  # balanced costs are inverse to the shares
        return lines or list(np.eye(k)[1:])

    def scanned(self, direction: Array) -> tuple[float, ...]:
        """Balanced weights, where they are on the line through equal ones."""
        balanced = -np.log(self.population.class_shares)
        if self.population.n_classes == 2:
            return (math.exp(balanced[1] - balanced[0]),)
        if np.ptp(balanced - np.ptp(balanced) * direction) < EQUAL_LOGS:
            return (math.exp(np.ptp(balanced)),)
        return ()


def _solved(population: Population, spec: Any, alpha: float, tol: float | None) -> PopulationPoint:
    point = population_point(population, spec, check_alpha(alpha), tol)
    if not np.isfinite(point.generalisation_error):
        raise ComputationFailed(f"no fixed point at alpha {alpha:g}: give a larger ridge")
    return point


def _decided(
    chosen: Array, c: Array, scores: PopulationScores, point: PopulationPoint, before: float
) -> Decision:
    found = scores.confusion
    spread = found.uncertainty + point.confusion_uncertainty  # of the rule, and of its law
    total = float((c * found.value).sum()), float((np.abs(c) * spread).sum())
    return Decision(chosen, *total, before, scores, point)


def _on_points(law: FieldsDistribution, c: Array) -> Array:
    """The best shift (r,) on fixed random points of the fields."""
    k, r, T = law.n_classes, law.n_classes - 1, difference_basis(law.n_classes)
    u = uniform_replicates(2 * r, _POINTS, _SEEDS[1], 1)[0]
    fields, costs = [], []
    for g, share in enumerate(law.shares):
        omega = law.m[g] + ndtri(u[:, :r]) @ np.linalg.cholesky(law.Q[g]).T
        truth = np.eye(k)[[g]]
        if law.teacher is not None:
            truth = drawn_chances(law, g, omega, u[:, r:])
        fields.append((omega + law.b) @ T.T)
        costs.append(np.broadcast_to(share * truth @ c / len(u), (len(u), k)))
    flat, every = np.concatenate(fields), np.concatenate(costs)
    middle = flat.mean(0)  # where all classes are answered: beyond them nothing slopes
    _, b = least_cost(flat - middle, flat[:, :0], every, np.zeros((0, k)), np.zeros(k))
    return np.asarray(T.T @ (b - middle))
