"""The floor of a population, and the Bayes-optimal student of a mixture."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar
from scipy.special import ndtr, owens_t

import polyceptron as pc
from polyceptron.problem import BayesOptimal, Teacher, as_channel
from polyceptron.problem.populations import Mixture
from polyceptron.sides.generalisation import error_floor
from polyceptron.students import student_of
from polyceptron.theory.bayes.population_rule import population_floor
from polyceptron.theory.linear_floor import linear_floor


def bayes_row(mixture, alpha):
    return student_of(BayesOptimal()).rows(mixture, [alpha])[0]


def test_two_gaussian_classes_have_the_textbook_error():
    for p, distance in ((0.5, 2.0), (0.8, 1.5)):
        mixture = Mixture((p, 1 - p), separation=distance, variances=0.5)
        z = distance / np.sqrt(0.5)
        cut = np.log(p / (1 - p)) / z
        expected = p * ndtr(-z / 2 - cut) + (1 - p) * ndtr(-z / 2 + cut)
        for found in (population_floor(mixture), linear_floor(mixture)):
            assert abs(found.value - expected) < 1e-10


@pytest.mark.parametrize("noise", ["gaussian:0.5", "softmax:2", "flips:0.1"])
@pytest.mark.parametrize("k", [2, 3, 4])
def test_a_teacher_of_alike_classes_has_its_scalar_floor(k, noise):
    found = population_floor(Teacher(k, noise=noise))
    assert abs(found.value - error_floor(as_channel(noise), k)) < found.uncertainty + 1e-8


def test_variances_tell_classes_apart_but_not_to_a_linear_rule():
    p, distance, s = 0.7, 1.5, np.array([1.0, 0.25])
    unlike = Mixture((p, 1 - p), separation=distance, variances=s)
    assert population_floor(unlike).value == 0
    by_hand = minimize_scalar(
        lambda t: p * ndtr(-t) + (1 - p) * ndtr(-(distance - t) / 0.5), bounds=(-4, 4)
    )
    assert abs(linear_floor(unlike).value - by_hand.fun) < 1e-8


def test_the_best_linear_rule_of_three_classes_may_be_two_lines():
    """Two of them with one variance: to rules of any kind only they are alike.

    The least error of linear ones is a limit: one line tells the third class, another the two.
    """
    s, p = (1, 1, 3), (0.5, 0.3, 0.2)
    unlike, two = Mixture(p, gram=np.eye(3), variances=s), Mixture((0.625, 0.375), gram=np.eye(2))
    best, least = linear_floor(unlike).value, population_floor(unlike).value
    assert abs(least - 0.8 * population_floor(two).value) < 1e-12
    means = np.sqrt(0.5) * np.array([[1, 0], [-1, 0], [0, np.sqrt(3)]])  # √2 from one another

    def both_below(x, y, cos):
        """Φ₂ by Owen's T."""
        sin = np.sqrt(1 - cos * cos)
        parts = owens_t([x, y], [(y / x - cos) / sin, (x / y - cos) / sin])
        return (ndtr(x) + ndtr(y)) / 2 - parts.sum() - (0.5 if x * y < 0 else 0.0)

    def missed(lines):
        angles, cuts = lines[:2], lines[2:]
        at = means @ [np.cos(angles), np.sin(angles)] - cuts
        cos = np.cos(angles[0] - angles[1])
        two = both_below(at[0, 0], -at[0, 1], -cos), both_below(-at[1, 0], -at[1, 1], cos)
        return 1 - np.dot(p, [*two, ndtr(at[2, 1] / np.sqrt(3))])

    by_hand = minimize(missed, [0.0, 1.6, 0.0, 1.0], method="Nelder-Mead", options={"fatol": 1e-9})
    assert least < by_hand.fun
    assert abs(best - by_hand.fun) < 1e-5


def test_full_covariances_agree_with_levels_in_another_basis():
    """Three classes of one covariance at d = 12: the quadratic rule is the linear one."""
    rng, d = np.random.default_rng(1), 12
    root = rng.normal(size=(d, d)) / np.sqrt(d)
    sigma, means = root @ root.T + 0.5 * np.eye(d), 0.7 * rng.normal(size=(3, d))
    full = Mixture((0.5, 0.3, 0.2), means=means, covariances=np.stack([sigma] * 3))
    white = means @ np.linalg.inv(np.linalg.cholesky(sigma)).T
    found, expected = population_floor(full), Mixture((0.5, 0.3, 0.2), gram=white @ white.T)
    assert abs(found.value - population_floor(expected).value) < found.uncertainty


def test_shrunken_class_means_reach_the_bayes_row():
    """Posterior means of drawn data: their exact error and that of the theory, unequal shares."""
    mixture, alpha, d = Mixture((0.6, 0.3, 0.1), gram=2 * np.eye(3) + 0.5), 2.0, 600
    G, p = np.array(mixture.gram), np.array(mixture.shares)
    errors, recalls = [], []
    for seed in range(8):
        data = mixture.sample(round(alpha * d), d, seed)
        counts = np.bincount(data.y, minlength=3)
        sums = np.stack([data.X[data.y == c].sum(0) for c in range(3)])
        means = np.sqrt(d) * sums / counts[:, None]
        shrunk = G @ np.linalg.solve(G + np.diag(d / counts), means)  # posterior means (k, d)
        x = mixture.sample(1500, d, np.random.default_rng([seed, 1]))
        mu = data.weights.T  # fresh samples of the same means
        fresh = x.X + (mu - x.weights.T)[x.y] / np.sqrt(d)
        fields = fresh @ shrunk.T / np.sqrt(d) - (shrunk**2).sum(1) / (2 * d) + np.log(p)
        wrong = fields.argmax(1) != x.y
        errors.append(wrong.mean())
        recalls.append([1 - wrong[x.y == c].mean() for c in range(3)])
    row = bayes_row(mixture, alpha)
    spread = np.std(errors, ddof=1) / np.sqrt(8)
    assert abs(np.mean(errors) - row["generalisation_error"]) < 4 * spread + 2 / d
    recall = np.array([float(x) for x in row["recall"].split(",")])
    spread = np.std(recalls, axis=0, ddof=1) / np.sqrt(8)
    assert (np.abs(np.mean(recalls, axis=0) - recall) < 4 * spread + 8 / d).all()


def test_a_balanced_mixture_is_learnt_by_its_class_means():
    """Equal shares and orthogonal means: plain class means, whose overlaps are explicit."""
    g, s, alpha = 1.3, 0.8, 2.5
    row = bayes_row(Mixture((0.5, 0.5), gram=g * np.eye(2), variances=s), alpha)
    # w = y₁ − y₂ with y_c = μ_c + √(2s/α)ξ: m = ±g, Var ω = s(2g + 4s/α).
    expected = ndtr(-g / np.sqrt(s * (2 * g + 4 * s / alpha)))
    assert abs(row["generalisation_error"] - expected) < 1e-10


def test_limits_of_the_bayes_row_and_refusals():
    mixture = Mixture((0.7, 0.3), gram=np.eye(2))
    assert abs(bayes_row(mixture, 0.0)["generalisation_error"] - 0.3) < 1e-12
    entropy = -(0.7 * np.log(0.7) + 0.3 * np.log(0.3))
    assert abs(bayes_row(mixture, 0.0)["test_loss"] - entropy) < 1e-6
    assert (
        abs(bayes_row(mixture, 1e8)["generalisation_error"] - population_floor(mixture).value)
        < 1e-8
    )
    levels = Mixture((0.7, 0.3), gram=np.eye(2), levels=[[0.5, 1, 1], [0.5, 4, 4]])
    floor = population_floor(Mixture((0.7, 0.3), gram=np.eye(2) * (0.5 + 0.5 / 4))).value
    assert abs(bayes_row(levels, 1e8)["generalisation_error"] - floor) < 1e-8
    full = np.stack([np.diag([1.0, 2.0]), np.array([[1.0, 0.5], [0.5, 1.0]])])
    with pytest.raises(pc.InvalidInput, match="eigenvectors in common"):
        bayes_row(Mixture((0.7, 0.3), means=np.eye(2), covariances=full), 1.0)
