"""The Bayes rule of a population: of one that is known, and of one that n = αd samples describe.

A teacher with biases: knowing its weights, the answer is argmax(z + b*), which is linear in x.

A mixture, as d → ∞: classes of different covariances are always recognised by their covariance.
With variances s ≠ s', ‖x‖²/d is s or s' up to fluctuations of order d^{−1/2}, so that the quadratic
rule never takes one for the other, whatever the means. Within a block of classes with one
covariance the rule is linear. It answers with the largest of the logarithms of the posterior

    δ_c = x·μ_c/(√d s) − K_cc/2 + ln p_c,    in class c':  δ ~ N(K e_c', K),    K = (μ_c·μ_c'/d)/s

(levels of eigenvalues: K sums over them). `population_floor` is the error of this rule. A linear
student cannot see ‖x‖²; `linear_floor.py` looks for the best linear rule.

Gaussian means, Cov(μ_c, μ_c') = G in each coordinate, after n = αd samples with their labels: the
class means y_c = μ_c + √(s/αp_c) ξ leave a Gaussian posterior, with means that have the Gram matrix

    H = G(G + Λ⁻¹)⁻¹G,    Λ = diag(αp_c/s)

and the posterior's variance of a mean cancels from δ_c. So the Bayes-optimal error at α is the
floor of a mixture with Gram matrix H: shrunken class means. `bayes_population_rows` has it, and the
Bayes-optimal student of a teacher whose classes differ (`biased.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import cast

import numpy as np
from scipy.special import softmax

from polyceptron.checks import check_alphas, difference_basis
from polyceptron.errors import InvalidInput
from polyceptron.numerics import Array
from polyceptron.numerics.estimate import Estimate, estimate_from_replicates
from polyceptron.problem.channels import Channel
from polyceptron.problem.population import FeatureLevels
from polyceptron.problem.populations import AnyTeacher, Population, check_population
from polyceptron.rows import Row, Status, make_row
from polyceptron.sides.scores import (
    FieldsDistribution,
    PopulationScores,
    TeacherFields,
    population_scores,
)
from polyceptron.theory.bayes.biased import biased_bayes

QUADRATIC_RULE_SEED = 31
# Samples of each class for the quadratic rule: 16 replicates of 256 leave an error bar of 0.004 on
# the floor of 0.16 of the mixture with full covariances in test_population_floor.py.
N_QUADRATIC_REPLICATES = 16
N_DRAWS_PER_REPLICATE = 256


def population_floor(population: Population) -> Estimate:
    """Return the error of the population's own Bayes rule, which knows all but the label.

    Parameters
    ----------
    population : Teacher, Perceptron or Mixture
        Classes of a mixture whose covariances differ are recognised by these alone as d → ∞;
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
    if population.label_channel is not None:
        return _floor_of_teacher(population, population.label_channel)
    if population.full_features is not None:
        means, covariances = population.full_features
        return _quadratic_floor(population.group_shares, means, covariances)
    return mixture_scores(population, math.inf).error


def _floor_of_teacher(population: Population, channel: Channel) -> Estimate:
    """Return the error of argmax(z + b*), where z are the teacher's own fields."""
    k = population.n_classes
    if channel.utility_variance == 0:
        # The label is that of the largest field, unless it is a guess of another class.
        return Estimate(np.array((k - 1) * channel.guess(k)), np.zeros(()))
    T = difference_basis(k)
    R = T.T @ population.field_covariance @ T
    biases = T.T @ population.offsets
    teacher = TeacherFields(R, R, biases, channel)
    own_fields = FieldsDistribution(np.ones(1), np.zeros((1, k - 1)), R[None], biases, teacher)
    return population_scores(own_fields).error


def _quadratic_floor(shares: Array, means: Array, covariances: Array) -> Estimate:
    """Return E(1 − max_c P(c | x)) of Gaussian classes at their own dimension d, by samples.

    Parameters
    ----------
    shares : array, shape (k,)
    means : array, shape (k, d)
        √d times the mean of the features in each class.
    covariances : array, shape (k, d, d)
    """
    centres = means / math.sqrt(means.shape[1])
    factors = [np.linalg.cholesky(covariance) for covariance in covariances]
    errors = np.zeros(N_QUADRATIC_REPLICATES)
    for c, factor in enumerate(factors):
        rng = np.random.default_rng([QUADRATIC_RULE_SEED, c])
        normal = rng.standard_normal((N_QUADRATIC_REPLICATES * N_DRAWS_PER_REPLICATE, len(factor)))
        x = centres[c] + normal @ factor.T
        log_densities = [
            np.log(shares[h]) + _gaussian_log_density(x, centres[h], factors[h])
            for h in range(len(factors))
        ]
        missed = 1 - softmax(np.stack(log_densities, axis=1), axis=1).max(axis=1)
        errors += shares[c] * missed.reshape(N_QUADRATIC_REPLICATES, -1).mean(axis=1)
    return estimate_from_replicates(errors)


def _gaussian_log_density(x: Array, mean: Array, factor: Array) -> Array:
    """Return ln N(x; mean, LLᵀ) of samples (n, d) for L = `factor`, up to a common constant."""
    standardised = np.linalg.solve(factor, (x - mean).T)
    log_determinant = 2 * np.log(np.diag(factor)).sum()
    return np.asarray(-0.5 * (np.square(standardised).sum(axis=0) + log_determinant))


def mixture_scores(population: Population, alpha: float) -> PopulationScores:
    """Return the scores of a mixture's Bayes-optimal rule after n = αd samples.

    Parameters
    ----------
    population : Mixture
        Its covariances share eigenvectors.
    alpha : float
        From 0 (only the shares and covariances are known) to ∞ (the means are known).
    """
    levels = population.levels_of_features
    if levels is None:
        raise InvalidInput(
            "the Bayes-optimal student of a mixture needs eigenvectors in common, got "
            f"{population!r}"
        )
    shares = population.group_shares
    gram = posterior_gram(levels, shares, alpha)
    totals = BlockTotals(shares)
    for classes in _blocks_of_equal_covariance(levels.variance):
        if len(classes) == 1:
            continue  # This class is recognised by its covariance: `totals` begins with no errors.
        inverse_variance = 1 / levels.variance[:, classes[0], None, None]
        K = (gram[:, classes][:, :, classes] * inverse_variance).sum(axis=0)
        totals.add(classes, _scores_of_block(shares[classes], K))
    return totals.scores()


def posterior_gram(levels: FeatureLevels, shares: Array, alpha: float) -> Array:
    """Return H = G(G + Λ⁻¹)⁻¹G of the posterior means, level by level, shape (L, k, k)."""
    if alpha == 0:
        return np.zeros(levels.gram.shape)
    if alpha == math.inf:
        return levels.gram
    fraction = levels.fraction[:, None, None]
    prior = levels.gram / fraction  # G of one coordinate
    noise = (levels.variance / (alpha * shares))[:, :, None] * np.eye(len(shares))
    return np.asarray(fraction * (prior @ np.linalg.solve(prior + noise, prior)))


def _blocks_of_equal_covariance(variance: Array) -> list[list[int]]:
    """Return the classes grouped by their variances (L, k), each block in rising order."""
    blocks: dict[tuple[float, ...], list[int]] = {}
    for c, own in enumerate(variance.T.tolist()):
        blocks.setdefault(tuple(own), []).append(c)
    return list(blocks.values())


def _scores_of_block(shares: Array, K: Array) -> PopulationScores:
    """Return the scores of argmax δ, δ ~ N(K e_c, K), among classes with these shares.

    The fields δ of the classes are the logarithms of the posterior, so that their softmax is the
    probability of each class.
    """
    p = shares / shares.sum()
    T = difference_basis(len(p))
    intercepts = T.T @ (np.log(shares) - np.diag(K) / 2)
    Q = np.repeat((T.T @ K @ T)[None], len(p), axis=0)
    law = FieldsDistribution(p, K @ T, Q, intercepts)
    return population_scores(law, partial(softmax, axis=1))


@dataclass
class BlockTotals:
    """Sums of scores over blocks of classes that the rule never confuses with each other.

    Attributes
    ----------
    shares : array, shape (k,)
    confusion, confusion_uncertainty : array, shape (k, k)
        P(label, answer). Before any block is added every answer is right.
    error, balanced_error, test_loss, brier : array, shape (2,)
        A value and its uncertainty.
    """

    shares: Array
    confusion: Array = field(init=False)
    confusion_uncertainty: Array = field(init=False)
    error: Array = field(default_factory=lambda: np.zeros(2))
    balanced_error: Array = field(default_factory=lambda: np.zeros(2))
    test_loss: Array = field(default_factory=lambda: np.zeros(2))
    brier: Array = field(default_factory=lambda: np.zeros(2))

    def __post_init__(self) -> None:
        self.confusion = np.diag(self.shares)
        self.confusion_uncertainty = np.zeros_like(self.confusion)

    def add(self, classes: Sequence[int], block: PopulationScores) -> None:
        """Add the scores within a block, which are those given that the label is in it."""
        assert block.test_loss is not None
        assert block.brier is not None
        share = float(self.shares[classes].sum())
        cells = np.ix_(classes, classes)
        self.confusion[cells] = share * block.confusion.value
        self.confusion_uncertainty[cells] = share * block.confusion.uncertainty
        self.error += share * np.array(block.error)
        self.balanced_error += len(classes) / len(self.shares) * np.array(block.balanced_error)
        self.test_loss += share * np.array(block.test_loss)
        self.brier += share * np.array(block.brier)

    def scores(self) -> PopulationScores:
        """Return the scores over all classes."""
        right = np.diagonal(self.confusion)
        right_uncertainty = np.diagonal(self.confusion_uncertainty)
        answered = self.confusion.sum(axis=0)
        answered_uncertainty = self.confusion_uncertainty.sum(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):  # A class may never be answered.
            precision = Estimate(
                right / answered, (right_uncertainty + answered_uncertainty) / answered
            )
        return PopulationScores(
            confusion=Estimate(self.confusion, self.confusion_uncertainty),
            error=Estimate(*self.error),
            balanced_error=Estimate(*self.balanced_error),
            recall=Estimate(right / self.shares, right_uncertainty / self.shares),
            precision=precision,
            shares=Estimate(self.shares, np.zeros_like(self.shares)),
            test_loss=Estimate(*self.test_loss),
            brier=Estimate(*self.brier),
        )


def bayes_population_rows(population: Population, alphas: float | Sequence[float]) -> list[Row]:
    """Return one row of the Bayes-optimal student for each α, where classes differ.

    Parameters
    ----------
    population : Teacher or Mixture
    alphas : float or sequence of float
        n/d.
    """
    return [_bayes_row(population, alpha) for alpha in check_alphas(alphas)]


def _bayes_row(population: Population, alpha: float) -> Row:
    """Return the row of the Bayes-optimal student at one α."""
    columns: Row = {
        **population.columns,
        "estimator": "bayes",
        "branch": "optimal",
        "alpha": alpha,
        "status": Status.OK,
    }
    if population.label_channel is None:
        columns |= mixture_scores(population, alpha).columns
    else:
        scores, Q, relative_doubt, status = biased_bayes(cast(AnyTeacher, population), alpha)
        columns |= scores.columns
        columns["q"] = float(np.trace(Q)) / len(Q)
        columns["uncertainty"] += relative_doubt * columns["generalisation_error"]
        columns["status"] = status
    return make_row(source="theory", **columns)
