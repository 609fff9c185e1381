"""Scores of a linear rule on a population against other libraries, drawn labels and each other."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import log_softmax, ndtr, softmax
from scipy.stats import multivariate_normal, norm

from polyceptron.checks import difference_basis
from polyceptron.numerics.bivariate import orthant_chance
from polyceptron.numerics.estimate import uniform_replicates
from polyceptron.numerics.orthant_nodes import panel_nodes, truncated_nodes
from polyceptron.problem import as_channel
from polyceptron.sides.fresh_scores import binned
from polyceptron.sides.generalisation import error_on_labels
from polyceptron.sides.scores import (
    FieldsDistribution,
    TeacherFields,
    leading_nodes,
    population_scores,
)


def probabilities(z):
    return softmax(z, axis=1)


def drawn_law(k, noise, seed):
    """A law with nothing special about it."""
    rng, r = np.random.default_rng([seed, k]), k - 1
    groups = k if noise is None else 1
    root = rng.normal(size=(groups, 2 * r, 3 * r)) / np.sqrt(3 * r)
    joint = root @ root.transpose(0, 2, 1)
    mean = rng.normal(size=(groups, r)) if noise is None else np.zeros((1, r))
    teacher = None
    if noise is not None:
        biases = 0.4 * rng.normal(size=r)
        teacher = TeacherFields(joint[0, :r, r:], joint[0, r:, r:], biases, as_channel(noise))
    shares = rng.dirichlet(3 * np.ones(groups))
    return FieldsDistribution(shares, mean, joint[:, :r, :r], 0.5 * rng.normal(size=r), teacher)


def counted(law, n, seed):
    """Confusion, test loss, Brier score and calibration error on n drawn samples."""
    rng, k = np.random.default_rng(seed), law.n_classes
    r, T = k - 1, difference_basis(k)
    group = rng.choice(len(law.shares), n, p=law.shares)
    if law.teacher is None:
        roots = np.linalg.cholesky(law.Q)
        omega = law.m[group] + np.einsum("nij,nj->ni", roots[group], rng.normal(size=(n, r)))
        y = group
    else:
        t = law.teacher
        joint = np.block([[law.Q[0], t.cross], [t.cross.T, t.covariance]])
        x = rng.normal(size=(n, 2 * r)) @ np.linalg.cholesky(joint).T
        omega, y = x[:, :r], t.channel.sample((x[:, r:] + t.biases) @ T.T, rng)
    fields = (omega + law.b) @ T.T
    P, answer = probabilities(fields), fields.argmax(1)
    confusion = np.zeros((k, k))
    np.add.at(confusion, (y, answer), 1 / n)
    own, top = P[np.arange(n), y], P.max(1)
    place = np.clip(((top - 1 / k) / (1 - 1 / k) * 15).astype(int), 0, 14)
    gap = np.bincount(place, (answer == y) - top, 15) / n
    return confusion, -np.log(own), (P * P).sum(1) - 2 * own + 1, np.abs(gap).sum()


@pytest.mark.parametrize("noise", [None, "none", "gaussian:0.5", "softmax:2", "flips:0.1"])
@pytest.mark.parametrize("k", [2, 3, 5])
def test_scores_are_those_of_drawn_samples(k, noise):
    law, n = drawn_law(k, noise, 1), 100_000
    found = population_scores(law, probabilities, tol=1e-3)
    edges = np.linspace(1 / k, 1, 16)
    bins, error = binned(leading_nodes(law), probabilities, edges)
    confusion, loss, brier, calibration = counted(law, n, 2)
    spread = np.sqrt(confusion / n) + found.confusion.uncertainty
    assert (np.abs(found.confusion.value - confusion) < 4 * spread + 1e-5).all()
    for each, sample in ((found.test_loss, loss), (found.brier, brier)):
        allowed = 4 * sample.std() / np.sqrt(n) + each.uncertainty
        assert abs(each.value - sample.mean()) < allowed
    assert abs(error.value - calibration) < 15 / np.sqrt(n) + error.uncertainty
    right = np.trace(found.confusion.value)
    assert abs(np.nansum(bins["share"] * bins["accuracy"]) - right) < 0.01


def test_two_classes_to_ten_digits():
    m, q, b, p = np.array([0.7, -1.1]), np.array([0.6, 2.0]), 0.3, np.array([0.8, 0.2])
    law = FieldsDistribution(p, m[:, None], q[:, None, None], np.array([b]))
    found = population_scores(law, probabilities)
    side = np.array([1, -1]) * (m + b) / np.sqrt(q)
    assert np.allclose(found.recall.value, ndtr(side), atol=1e-10, rtol=0)
    assert abs(found.error.value - p @ ndtr(-side)) < 1e-10
    assert abs(found.balanced_error.value - ndtr(-side).mean()) < 1e-10
    right = p * ndtr(side)
    answered = right + (p * ndtr(-side))[::-1]
    assert np.allclose(found.precision.value, right / answered, atol=1e-10, rtol=0)
    # The gap of the two fields is √2(ω + b).
    loss = sum(
        p[c]
        * quad(
            lambda w, c=c, sign=sign: (
                norm.pdf(w, m[c], np.sqrt(q[c])) * np.logaddexp(0, -sign * np.sqrt(2) * (w + b))
            ),
            *(m[c] + np.array([-12, 12]) * np.sqrt(q[c])),
            epsabs=1e-13,
            limit=200,
        )[0]
        for c, sign in ((0, 1), (1, -1))
    )
    assert abs(found.test_loss.value - loss) < 1e-10
    assert found.test_loss.uncertainty < 1e-10


def test_three_classes_to_eight_digits():
    law, T = drawn_law(3, None, 4), difference_basis(3)
    found = population_scores(law, probabilities)
    for c in range(3):
        for p in range(3):
            ways = T[p] - np.delete(T, p, 0)
            gaps = multivariate_normal(-ways @ (law.m[c] + law.b), ways @ law.Q[c] @ ways.T)
            expected = law.shares[c] * gaps.cdf(np.zeros(2))
            assert abs(found.confusion.value[c, p] - expected) < 1e-8
    # Hermite's rule over the plane, for the loss.
    x, w = np.polynomial.hermite_e.hermegauss(60)
    grid, weight = np.stack(np.meshgrid(x, x), -1).reshape(-1, 2), np.outer(w, w).ravel()
    expected = 0.0
    for c in range(3):
        omega = law.m[c] + law.b + grid @ np.linalg.cholesky(law.Q[c]).T
        expected -= law.shares[c] * (weight @ log_softmax(omega @ T.T, 1)[:, c]) / weight.sum()
    assert abs(found.test_loss.value - expected) < 1e-8
    assert found.test_loss.uncertainty < 1e-8


@pytest.mark.parametrize("k", [2, 3, 4])
@pytest.mark.parametrize("noise", ["none", "gaussian:0.3", "flips:0.1", "softmax:3"])
def test_alike_classes_return_the_scalar_error(k, noise):
    m, q, r = 0.7, 0.9, k - 1
    channel, one = as_channel(noise), np.eye(r)
    teacher = TeacherFields(m * one, one, np.zeros(r), channel)
    law = FieldsDistribution(np.ones(1), np.zeros((1, r)), q * one[None], np.zeros(r), teacher)
    found = population_scores(law).error
    rho = m / np.sqrt(q)
    expected = error_on_labels(channel, rho / np.sqrt(1 - rho**2), k)
    assert abs(found.value - expected) < found.uncertainty + (1e-8 if k <= 3 else 1e-6)


def test_small_probabilities_have_digits_of_their_own():
    """P(g > 0) far in the tail: closed forms, panels' opposite, and random points agree."""
    covariance = np.array([[1.0, 0.4], [0.4, 2.0]])
    for mean in (np.array([-9.0, -6.0]), np.array([3.0, -12.0])):
        exact = orthant_chance(mean, covariance)
        line = quad(
            lambda x, m=mean: (
                norm.pdf(x - m[0]) * ndtr((m[1] + 0.4 * (x - m[0])) / np.sqrt(2 - 0.16))
            ),
            0,
            max(mean[0], 0) + 12,
            points=[max(mean[0], 0) + 1, 0.5],
            epsabs=0,
            epsrel=1e-10,
        )[0]
        assert abs(exact / line - 1) < 1e-8
        sampled = truncated_nodes(mean, covariance, uniform_replicates(2, 8, 1)).weight.sum(1)
        assert abs(sampled.mean() / exact - 1) < 1e-3
    nodes = panel_nodes(np.array([0.5, -0.2]), covariance, [], 10)
    assert abs(nodes.weight.sum() - orthant_chance(np.array([0.5, -0.2]), covariance)) < 1e-11


def test_random_points_inside_orthants_agree_with_another_library():
    rng = np.random.default_rng(3)
    root = rng.normal(size=(5, 8))
    mean, covariance = rng.normal(size=5), root @ root.T / 5
    found = truncated_nodes(mean, covariance, uniform_replicates(5, 9, 1)).weight.sum(1)
    expected = multivariate_normal(-mean, covariance, seed=1).cdf(np.zeros(5))
    assert abs(found.mean() - expected) < 3 * found.std() / 4 + 2e-5


def test_a_shift_of_the_intercept_moves_recall():
    law = drawn_law(3, None, 5)
    before = population_scores(law).recall.value
    T = difference_basis(3)
    after = population_scores(law.shifted(T.T @ np.array([1.0, 0, 0]))).recall.value
    assert after[0] > before[0]
    assert (after[1:] < before[1:]).all()
