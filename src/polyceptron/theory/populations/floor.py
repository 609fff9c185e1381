"""What no rule surpasses: the population's own Bayes rule, and the best one after n samples.

A teacher with biases: knowing its weights, the answer is argmax(z + b*), which is linear in x.

A mixture, as d → ∞: classes of different covariances are told apart by them alone. With variances
s ≠ s', ‖x‖²/d is s or s' up to fluctuations of order d^{−1/2}, so that the quadratic rule never
takes one for the other, whatever the means. Within a block of classes with one covariance the rule
is linear, of the logarithms of the posterior

    δ_c = x·μ_c/(√d s) − K_cc/2 + ln p_c,    in class c':  δ ~ N(K e_c', K),    K = (μ_c·μ_c'/d)/s

(levels of eigenvalues: K sums over them). `population_floor` is the error of this rule. A linear
student cannot see ‖x‖²; what no linear rule with an intercept surpasses is `linear_floor`.

Gaussian means, Cov(μ_c, μ_c') = G in each coordinate, after n = αd samples with their labels: the
class means y_c = μ_c + √(s/αp_c) ξ leave a Gaussian posterior, with means that have the Gram matrix

    H = G(G + Λ⁻¹)⁻¹G,    Λ = diag(αp_c/s)

and the posterior's variance of a mean cancels from δ_c. So the Bayes-optimal error at α is the
floor of a mixture with Gram matrix H: shrunken class means.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import ndtri, softmax

from polyceptron.errors import InvalidInput
from polyceptron.model.checks import check_alphas, difference_basis
from polyceptron.model.populations import Population, check_population
from polyceptron.model.populations.population import Levels
from polyceptron.numerics import Array
from polyceptron.numerics.estimate import Estimate, from_replicates, uniform_replicates
from polyceptron.rows import Status, make_row
from polyceptron.theory.populations.scores import (
    FieldsLaw,
    PopulationScores,
    TeacherFields,
    population_scores,
)

_SEED = 31
_DRAWS = 256  # of each class and replicate, with covariances in full
_TEMPERATURES = (0.3, 0.1, 0.03)  # of the answer, in units of the fields' spread
_POINTS = 9  # log2, of each class


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
    >>> from polyceptron.model.populations import Mixture
    >>> round(float(population_floor(Mixture((0.5, 0.5), separation=2.0)).value), 6)
    0.158655
    """
    check_population(population)
    channel, k = population.label_channel, population.n_classes
    if channel is not None:
        if channel.utility_variance == 0:  # only a guess is wrong
            return Estimate(np.array((k - 1) * channel.guess(k)), np.zeros(()))
        return population_scores(_own_rule(population)).error
    if population.full_features is not None:
        return _quadratic(population)
    return _bayes_rule(population, math.inf).error


def _own_rule(population: Population) -> FieldsLaw:
    """A teacher's own fields as the student's."""
    channel, T = population.label_channel, difference_basis(population.n_classes)
    assert channel is not None
    R, b = T.T @ population.field_covariance @ T, T.T @ population.offsets
    return FieldsLaw(np.ones(1), np.zeros((1, len(b))), R[None], b, TeacherFields(R, R, b, channel))


def _levels(population: Population) -> Levels:
    levels = population.levels_of_features
    if population.label_channel is not None or levels is None:
        raise InvalidInput(
            "the Bayes-optimal student is explicit for teachers whose classes are alike and for "
            f"mixtures with eigenvectors in common, got {population!r}"
        )
    return levels


def _bayes_rule(population: Population, alpha: float) -> PopulationScores:
    """Scores of δ ~ N(Ke_c, K) in each block of classes with one covariance, after n = αd."""
    levels, p = _levels(population), population.group_shares
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
        found = population_scores(FieldsLaw(p[classes] / share, K @ T, Q, b), _softmax)
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


def _softmax(fields: Array) -> Array:
    return np.asarray(softmax(fields, axis=1))


def bayes_mixture_rows(population: Population, alpha: Any) -> list[dict[str, Any]]:
    """Rows of the Bayes-optimal student of a mixture with Gaussian means, one for each α."""
    said = {**population.columns, "estimator": "bayes", "branch": "optimal", "status": Status.OK}
    return [
        make_row(source="theory", **said, alpha=a, **_bayes_rule(population, a).columns)
        for a in check_alphas(alpha)
    ]


def _quadratic(population: Population) -> Estimate:
    """E(1 − max_c P(c | x)) with covariances in full, at their own dimension."""
    full = population.full_features
    assert full is not None
    means, p = full[0] / math.sqrt(full[0].shape[1]), population.group_shares
    roots = [np.linalg.cholesky(sigma) for sigma in full[1]]
    logs = [2 * np.log(np.diag(root)).sum() for root in roots]
    found = np.zeros(16)
    for c, root in enumerate(roots):
        rng = np.random.default_rng([_SEED, c])
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
    return from_replicates(found)


def linear_floor(population: Population) -> Estimate:
    """The least error of a linear rule with an intercept that knows the population.

    Parameters
    ----------
    population : Teacher, Perceptron or Mixture
        It is the Bayes rule for a teacher and for classes of one covariance. Else the least error
        is searched for: `value` is that of the best rule found, which is exact for two classes and
        may be above the least one for more.

    Returns
    -------
    Estimate

    Examples
    --------
    >>> from polyceptron.model.populations import Mixture
    >>> unlike = Mixture((0.5, 0.5), separation=2.0, variances=(1.0, 0.25))
    >>> float(population_floor(unlike).value), round(float(linear_floor(unlike).value), 6)
    (0.0, 0.084729)
    """
    check_population(population)
    if population.label_channel is not None:
        return population_floor(population)
    if population.full_features is not None:
        raise InvalidInput(
            "the best linear rule is known for covariances with eigenvectors in common"
        )
    levels, p, k = _levels(population), population.group_shares, population.n_classes
    if not np.ptp(levels.variance, axis=1).any():
        return population_floor(population)
    # Each class in the span of the mean differences, level by level: N(a_c, diag v_c).
    centre = np.eye(k) - 1 / k
    coordinates, spreads = [], []
    for gram, variance in zip(levels.gram, levels.variance, strict=True):
        values, vectors = np.linalg.eigh(centre @ gram @ centre)
        use = values > 1e-12 * max(float(values[-1]), 1e-300)
        coordinates.append(vectors[:, use] * np.sqrt(values[use]))
        spreads.append(np.repeat(variance[:, None], use.sum(), 1))
    a, v = np.concatenate(coordinates, 1), np.concatenate(spreads, 1)
    u = ndtri(uniform_replicates(max(a.shape[1], 1), _POINTS, _SEED, 1)[0])[:, : a.shape[1]]
    x = np.concatenate([a[c] + u * np.sqrt(v[c]) for c in range(k)])
    cost = np.repeat((1 - np.eye(k)) * p[:, None], len(u), 0) / len(u)
    start = (a / (p @ v)).T  # by the pooled variances
    b = np.log(p) - 0.5 * (a * start.T).sum(1)
    W, b = least_cost(np.zeros((len(x), k)), x, cost, start, b)
    T = difference_basis(k)

    def law(theta: Array) -> FieldsLaw:
        B = theta[: W.size].reshape(W.shape) @ T
        return FieldsLaw(p, a @ B, np.einsum("dr,cd,ds->crs", B, v, B), T.T @ theta[W.size :])

    best = np.concatenate([W.ravel(), b])
    if k <= 3:

        def error(theta: Array) -> float:
            return float(population_scores(law(theta), tol=math.inf).error.value)

        best = minimize(error, best, tol=1e-9).x
    return population_scores(law(best)).error


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
