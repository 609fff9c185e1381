"""What a linear rule scores on a population, from the law of its fields.

With the answer argmax T(ω + b) and the chance Z_t of label t given the fields (`leading_nodes.py`):

    confusion P(t, p) = Σ_c p_c E 1[p leads] Z_t(ω)
    error Σ_{p≠t} P(t, p),   balanced error (1/k) Σ_t P(t, ≠ t)/P(t),   recall, precision
    test loss −E Σ_t Z_t ln p_t,  Brier score E Σ_t Z_t ‖p − e_t‖²

Mixtures of two and three classes, and two classes with Gaussian utilities, are orthants in closed
form, every small probability to digits of its own; other averages at k ≤ 3 are panels inside each
orthant. Above, they are sampled inside it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from polyceptron.numerics import Array
from polyceptron.numerics.bivariate import orthant_chance
from polyceptron.numerics.estimate import N_REPLICATES, Estimate, estimate_from_replicates
from polyceptron.problem.population import numbers_text
from polyceptron.problem.specs import Probabilities
from polyceptron.rows import Row
from polyceptron.sides.fields_law import FieldsDistribution as FieldsDistribution
from polyceptron.sides.fields_law import TeacherFields as TeacherFields
from polyceptron.sides.fresh_scores import Fresh
from polyceptron.sides.leading_nodes import (
    GapLaw,
    LeaderNodes,
    gaps_of_leaders,
    gaps_of_leaders_and_label,
    panels_of_leaders,
    points_of_leaders,
)

# Nodes of a panel, of a coarse and a fine rule. Of three classes the quick ones differ by less than
# QUICK_RULES_DIFFER, and serve where the tolerance is above it.
PANEL_ORDERS = (8, 12)
QUICK_PANEL_ORDERS = (5, 7)
QUICK_RULES_DIFFER = 1e-7
# log2 of the points in each orthant and replicate: at first, and at most.
LOG2_FIRST_POINTS = 6
LOG2_MOST_POINTS = 12
# Two levels that agree to the last digit: rounding of a sum over nodes.
ROUNDING = 1e-13
SMALLEST_PROBABILITY = 1e-300


@dataclass(frozen=True)
class PopulationScores:
    """Scores of a rule on fresh samples, each a value with its uncertainty.

    Attributes
    ----------
    confusion : Estimate, shape (k, k)
        P(label, predicted).
    error, balanced_error : Estimate
    recall, precision : Estimate, shape (k,)
        Precision is NaN for a class that is never answered.
    shares : Estimate, shape (k,)
        Of the labels.
    test_loss, brier : Estimate, optional
        Where the rule has probabilities.
    """

    confusion: Estimate
    error: Estimate
    balanced_error: Estimate
    recall: Estimate
    precision: Estimate
    shares: Estimate
    test_loss: Estimate | None = None
    brier: Estimate | None = None

    @property
    def columns(self) -> Row:
        """Return the columns of a result row by name, with their uncertainties."""
        columns: Row = {
            "generalisation_error": float(self.error.value),
            "uncertainty": float(self.error.uncertainty),
            "balanced_error": float(self.balanced_error.value),
            "balanced_error_uncertainty": float(self.balanced_error.uncertainty),
        }
        if self.test_loss is not None:
            columns["test_loss"] = float(self.test_loss.value)
            columns["test_loss_uncertainty"] = float(self.test_loss.uncertainty)
        if self.brier is not None:
            columns["brier"] = float(self.brier.value)
            columns["brier_uncertainty"] = float(self.brier.uncertainty)
        columns["recall"] = numbers_text(self.recall.value)
        columns["confusion"] = numbers_text(self.confusion.value)
        return columns


class MeanScores(NamedTuple):
    """Averages of one rule in R replicates, from which all scores follow.

    Attributes
    ----------
    confusion : array, shape (R, k, k)
    test_loss, brier : array, shape (R,), optional
    """

    confusion: Array
    test_loss: Array | None = None
    brier: Array | None = None


def population_scores(
    law: FieldsDistribution,
    probabilities: Probabilities | None = None,
    tol: float = 3e-4,
    near: FieldsDistribution | None = None,
) -> PopulationScores:
    """Return scores of the rule argmax(ω + b) on fresh samples.

    Parameters
    ----------
    law : FieldsDistribution
    probabilities : callable, optional
        Fields (n, k) → class probabilities (n, k); with them come test loss and Brier score.
    tol : float
        Of the error, where it is sampled: for k ≥ 4. Points are added until it is met, or until
        there are 65,000 in each orthant; infinite: 64 of them, and one rule elsewhere.
    near : FieldsDistribution, optional
        A law with which this one is compared: random points are placed as there.

    Examples
    --------
    >>> even, one = np.array([0.5, 0.5]), np.ones((2, 1, 1))
    >>> law = FieldsDistribution(even, np.array([[1.0], [-1.0]]), one, np.zeros(1))
    >>> round(float(population_scores(law).error.value), 6)
    0.158655
    """
    law = law.with_density
    if near is not None:
        near = near.with_density
    if law.n_classes > 3:
        return _sampled_scores(law, probabilities, tol, near)
    return _scores_on_panels(law, probabilities, tol)


def _sampled_scores(
    law: FieldsDistribution,
    probabilities: Probabilities | None,
    tol: float,
    near: FieldsDistribution | None,
) -> PopulationScores:
    """Return the scores at random points, more of them until the error meets the tolerance."""
    replicates = N_REPLICATES
    if math.isinf(tol):
        replicates = 1
    log2 = LOG2_FIRST_POINTS
    while True:
        nodes = points_of_leaders(law, log2, replicates, near)
        scores = scores_of_replicates(mean_scores_at(law, nodes, probabilities))
        excess = float(scores.error.uncertainty) / tol
        if not excess > 1 or log2 == LOG2_MOST_POINTS:
            return scores
        log2 = min(log2 + math.ceil(math.log2(excess)), LOG2_MOST_POINTS)


def _scores_on_panels(
    law: FieldsDistribution, probabilities: Probabilities | None, tol: float
) -> PopulationScores:
    """Return the scores of two or three classes, in closed form as far as they have one."""
    exact = _closed_confusion(law)
    if exact is not None and probabilities is None:
        known = MeanScores(exact[None])
        return scores_of_levels(known, known)
    orders = PANEL_ORDERS
    if law.n_classes == 3 and tol > QUICK_RULES_DIFFER:
        orders = QUICK_PANEL_ORDERS
    coarse = _means_on_panels(law, orders[0], probabilities, exact)
    if math.isinf(tol):
        return scores_of_replicates(coarse)
    return scores_of_levels(coarse, _means_on_panels(law, orders[1], probabilities, exact))


def _means_on_panels(
    law: FieldsDistribution,
    order: int,
    probabilities: Probabilities | None,
    exact_confusion: Array | None,
) -> MeanScores:
    """Return the averages of one rule, with the exact confusion (k, k) where it is known."""
    means = mean_scores_at(law, panels_of_leaders(law, order), probabilities)
    if exact_confusion is not None:
        return means._replace(confusion=exact_confusion[None])
    return means


def leading_nodes(law: FieldsDistribution) -> Fresh:
    """Return random fields (n, k), the leader's first, with weights (R, n/R) and Z (n, k)."""
    k = law.n_classes
    # log2 of points in each orthant and replicate: fewer where orthants are many.
    log2 = max(LOG2_MOST_POINTS - k, LOG2_FIRST_POINTS + 1)
    fields = []
    weights = []
    truths = []
    for nodes in points_of_leaders(law.with_density, log2):
        leader_first = np.argsort(np.arange(k) != nodes.leader, kind="stable")
        by_replicate = (*nodes.weight.shape, k)
        truth = np.broadcast_to(nodes.truth, nodes.fields.shape)
        fields.append(nodes.fields[:, leader_first].reshape(by_replicate))
        truths.append(truth[:, leader_first].reshape(by_replicate))
        weights.append(nodes.weight)
    return Fresh(
        np.concatenate(fields, 1).reshape(-1, k),
        np.concatenate(weights, 1),
        np.concatenate(truths, 1).reshape(-1, k),
    )


def mean_scores_at(
    law: FieldsDistribution, parts: Iterable[LeaderNodes], probabilities: Probabilities | None
) -> MeanScores:
    """Return the averages over nodes of all orthants."""
    k = law.n_classes
    confusion = np.zeros(())
    test_loss = np.zeros(())
    brier = np.zeros(())
    for nodes in parts:
        answered = _label_masses(nodes)
        confusion = confusion + answered[:, :, None] * (np.arange(k) == nodes.leader)
        if probabilities is not None:
            p = probabilities(nodes.fields)
            test_loss = test_loss + _mean_in_replicates(nodes, _log_loss(p, nodes.truth))
            brier = brier + _mean_in_replicates(nodes, _brier_score(p, nodes.truth))
    if probabilities is None:
        return MeanScores(confusion)
    return MeanScores(confusion, test_loss, brier)


def _label_masses(nodes: LeaderNodes) -> Array:
    """Return the mass of each label where the leader leads, shape (R, k)."""
    if len(nodes.truth) == 1:
        truth = nodes.truth[None]
    else:
        truth = nodes.truth.reshape(*nodes.weight.shape, nodes.truth.shape[1])
    return np.asarray(np.einsum("rn,rnk->rk", nodes.weight, truth))


def _mean_in_replicates(nodes: LeaderNodes, values: Array) -> Array:
    """Return Σ w · values (n,) in each replicate, shape (R,)."""
    return np.asarray(np.einsum("rn,rn->r", nodes.weight, values.reshape(nodes.weight.shape)))


def _log_loss(p: Array, truth: Array) -> Array:
    """Return −Σ_t Z_t ln p_t of probabilities p (n, k), shape (n,)."""
    seen = truth.any(0)
    return np.asarray(
        -(truth[:, seen] * np.log(np.maximum(p[:, seen], SMALLEST_PROBABILITY))).sum(1)
    )


def _brier_score(p: Array, truth: Array) -> Array:
    """Return Σ_t Z_t ‖p − e_t‖² of probabilities p (n, k), shape (n,)."""
    return np.asarray(np.einsum("nk,nk->n", p, p - 2 * truth) + 1)


def _closed_confusion(law: FieldsDistribution) -> Array | None:
    """Return P(t, p) (k, k) of two or three classes where it is a product of orthants."""
    k = law.n_classes
    teacher = law.teacher
    if teacher is None:
        by_group = [_leading_chances(gaps_of_leaders(law, c)) for c in range(k)]
        return np.asarray(law.shares[:, None] * np.array(by_group))
    if k > 2 or teacher.channel.utility_variance is None:
        return None
    led = np.array([_leading_chances(gaps_of_leaders_and_label(law, t)) for t in range(k)])
    guess = teacher.channel.guess(2)
    return np.asarray((1 - 2 * guess) * led + guess * led.sum(0))


def _leading_chances(gaps: GapLaw) -> list[float]:
    """Return the chance of each leader that all its gaps are positive, (k,)."""
    return [orthant_chance(*leader) for leader in zip(*gaps, strict=True)]


def scores_of_replicates(means: MeanScores) -> PopulationScores:
    """Return scores whose bars are the spread of replicates."""
    values = _all_scores(means)
    return PopulationScores(
        **{name: estimate_from_replicates(value, axis=0) for name, value in values.items()}
    )


def scores_of_levels(coarse: MeanScores, fine: MeanScores) -> PopulationScores:
    """Return scores of a fine rule, whose bars are the distance to a coarse one."""
    before = _all_scores(coarse)
    estimates = {}
    for name, value in _all_scores(fine).items():
        estimates[name] = Estimate(value[0], np.abs(value[0] - before[name][0]) + ROUNDING)
    return PopulationScores(**estimates)


def _all_scores(means: MeanScores) -> dict[str, Array]:
    """Return the scores of each replicate under the names of `PopulationScores`."""
    confusion = means.confusion
    wrong = confusion * (1 - np.eye(confusion.shape[1]))
    right = np.einsum("rkk->rk", confusion)
    shares = confusion.sum(2)
    with np.errstate(invalid="ignore", divide="ignore"):
        scores = {
            "confusion": confusion,
            "error": wrong.sum((1, 2)),
            "balanced_error": (wrong.sum(2) / shares).mean(1),
            "recall": right / shares,
            "precision": right / confusion.sum(1),
            "shares": shares,
        }
    if means.test_loss is not None and means.brier is not None:
        scores["test_loss"] = means.test_loss
        scores["brier"] = means.brier
    return scores
