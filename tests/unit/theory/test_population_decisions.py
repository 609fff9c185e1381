"""Best shifts and class weights, and fits of unequal classes beside the theory."""

from __future__ import annotations

import numpy as np
import pytest
from tests.fits import run_erm

import polyceptron as pc
from polyceptron.checks import difference_basis
from polyceptron.problem import ERM, Teacher
from polyceptron.problem.populations import Mixture
from polyceptron.sides.scores import population_scores
from polyceptron.students.measuring import weights_law
from polyceptron.theory.best_class_weight import best_class_weight
from polyceptron.theory.best_shift import best_shift

RARE = Mixture((0.9, 0.1), separation=2.0)


def test_the_best_shift_of_two_classes_is_that_of_a_grid():
    found = best_shift(RARE, ERM("cross-entropy", 0.1, intercept=True), 3.0)
    law = found.point.law
    grid = np.linspace(-3, 3, 2401)
    costs = [population_scores(law.shifted(np.array([s]))).balanced_error.value for s in grid[::8]]
    assert found.cost <= min(costs) + 1e-9
    assert abs(found.cost - found.scores.balanced_error.value) < 1e-12
    # One variance and equal weights of both classes: the middle of the two means.
    middle = law.m.sum() / 2
    assert abs(found.scores.recall.value[0] - found.scores.recall.value[1]) < 1e-5
    shift = found.chosen @ np.array([1, -1]) / np.sqrt(2)
    assert abs(law.b[0] + shift + middle) < 1e-4


@pytest.mark.parametrize(
    ("population", "ridge", "alpha"),
    [(Teacher(2, shares=(0.9, 0.1), noise="softmax:3"), 1.0, 1.0), (RARE, 10.0, 2.0)],
)
def test_a_shift_is_found_where_one_class_is_never_answered(population, ridge, alpha):
    found = best_shift(population, ERM("cross-entropy", ridge, intercept=True), alpha)
    assert found.cost_before > 0.499
    law = found.point.law
    width = float(np.sqrt(law.Q.max()))
    middle = -law.b - law.m.mean()
    shifts = middle + width * np.linspace(-4, 4, 81)[:, None]
    costs = [population_scores(law.shifted(s)).balanced_error.value for s in shifts]
    assert found.cost <= min(costs) + 1e-9
    assert found.cost < 0.4


def test_costs_of_errors_and_of_three_classes():
    three = Mixture((0.6, 0.3, 0.1), gram=2 * np.eye(3))
    spec = ERM("cross-entropy", 0.5, intercept=True)
    balanced = best_shift(three, spec, 3.0)
    by_matrix = best_shift(three, spec, 3.0, cost=1 - np.eye(3))
    assert balanced.cost < balanced.cost_before - 0.02
    assert by_matrix.cost <= by_matrix.cost_before + 1e-12
    assert abs(by_matrix.cost - by_matrix.scores.error.value) < 1e-12
    law = balanced.point.law
    rng = np.random.default_rng(0)
    for step in 0.03 * rng.normal(size=(6, 2)):
        there = law.shifted(np.array(balanced.chosen @ difference_basis(3)) + step)
        assert population_scores(there).balanced_error.value > balanced.cost - 1e-9


def test_the_best_shift_of_five_classes_is_not_cheaper_nearby():
    """A class with a tenth of the samples, at a weight that makes its mistakes expensive."""
    biases = (0.0, 0.2, -0.5, 0.65, -0.35)
    spec = ERM("cross-entropy", 1.0, intercept=True)
    found = best_shift(Teacher(5, biases=biases), spec, 0.8, tol=3e-3)
    law = found.point.law
    here = np.array(found.chosen @ difference_basis(5))
    rng = np.random.default_rng(0)
    for step in 0.15 * rng.normal(size=(12, 4)):
        there = population_scores(law.shifted(here + step), near=law.shifted(here))
        assert there.balanced_error.value > found.cost - 2e-4


def test_best_class_weights_beat_none_and_balanced_ones():
    spec = ERM("cross-entropy", 0.1, intercept=True)
    found = best_class_weight(RARE, spec, 3.0)
    for weight in (None, "balanced"):
        other = pc.erm_fixed_point(
            RARE, ERM("cross-entropy", 0.1, intercept=True, class_weight=weight), 3.0
        )
        assert found.cost <= other.balanced_error + 1e-6
    assert abs(np.dot(RARE.shares, found.chosen) - 1) < 1e-12


@pytest.mark.parametrize("shares", [(0.6, 0.4), (0.5, 0.5)])
def test_class_weights_follow_the_costs(shares):
    """A mistake of the second class costs six times as much; equal shares are no exception."""
    population = Mixture(shares, separation=2.0)
    cost = np.array([[0.0, 1.0], [6.0, 0.0]])
    found = best_class_weight(population, ERM("square", 1.0, intercept=True), 1.2, cost=cost)
    assert found.point.status == "ok"
    costs = []
    for ratio in np.geomspace(0.1, 1e3, 81):
        weight = np.array([1.0, ratio]) / (np.array(shares) @ [1.0, ratio])
        spec = ERM("square", 1.0, intercept=True, class_weight=tuple(weight))
        costs.append((cost * pc.erm_fixed_point(population, spec, 1.2).confusion).sum())
    assert found.cost <= min(costs) + found.cost_uncertainty
    assert found.cost < 0.495


@pytest.mark.parametrize(
    ("population", "spec", "alpha"),
    [
        (RARE, ERM("cross-entropy", 0.1, intercept=True, class_weight="balanced"), 3.0),
        (Teacher(3, biases=(0, -0.5, -1)), ERM("cross-entropy", 0.1, intercept=True), 3.0),
        (
            Mixture((0.7, 0.2, 0.1), gram=np.eye(3), variances=0.5),
            ERM("square", 0.1, intercept=True),
            3.0,
        ),
    ],
)
def test_fits_of_drawn_data_follow_the_theory(population, spec, alpha):
    d, runs = 300, 6
    rows = [run_erm(population, [spec], alpha, d, seed)[0] for seed in range(runs)]
    theory = pc.erm_fixed_point(population, spec, alpha)
    for name in ("generalisation_error", "balanced_error", "test_loss", "training_error"):
        measured = np.array([row.get(name, np.nan) for row in rows], dtype=float)
        if np.isnan(measured).any():
            continue
        spread = measured.std(ddof=1) / np.sqrt(runs)
        expected = getattr(theory, name)
        assert abs(measured.mean() - expected) < 5 * spread + 6 * expected / d


def test_the_exact_scores_of_weights_are_those_of_fresh_samples():
    population = Mixture((0.6, 0.3, 0.1), gram=2 * np.eye(3), variances=(1, 0.5, 2))
    data = population.sample(40_000, 30, 0)
    W, b = data.weights + np.random.default_rng(1).normal(size=(30, 3)), np.array([0.3, 0, -0.3])
    found = population_scores(weights_law(population, W, b, data.weights))
    answer = (data.X @ W / np.sqrt(30) + b).argmax(1)
    for c in range(3):
        seen = np.mean(answer[data.y == c] == c)
        assert abs(seen - found.recall.value[c]) < 4 * np.sqrt(0.25 / np.sum(data.y == c))


def test_refusals():
    with pytest.raises(pc.InvalidInput, match="allowed are 'error' and 'balanced'"):
        best_shift(RARE, ERM(), 1.0, "recall")
    with pytest.raises(pc.InvalidInput, match="2 × 2 finite numbers"):
        best_shift(RARE, ERM(), 1.0, cost=[[1, 2, 3]])


def test_plans_and_calibration_of_unequal_classes():
    spec = ERM("cross-entropy", 0.1, intercept=True)
    found = pc.plan(RARE, 0.09, spec, dimension=100)
    point = pc.erm_fixed_point(RARE, spec, found.alpha)
    assert abs(point.generalisation_error - 0.09) < 1e-5
    assert found.n_samples == int(np.ceil(100 * found.alpha))
    # 0.9 Φ(−1 − s) + 0.1 Φ(−1 + s) with s = ln 9 / 2, as in test_cli_erm.
    with pytest.raises(pc.InvalidInput, match=r"no rule errs less than 0\.07006"):
        pc.plan(RARE, 0.07, spec)
    scores = pc.calibration(RARE, spec, found.alpha)
    assert (scores.test_loss, scores.brier) == (point.test_loss, point.brier)
    # Fresh samples of the law of the fields, binned by hand; a temperature of less loss than 1.
    rng, n, law = np.random.default_rng(0), 400_000, point.law
    y = rng.choice(2, n, p=RARE.shares)
    fields = (law.m[y, 0] + np.sqrt(law.Q[y, 0, 0]) * rng.standard_normal(n) + law.b[0]) * 2**0.5
    right = 1 / (1 + np.exp(-np.abs(fields)))
    sign = np.sign(difference_basis(2)[0, 0])
    hit = ((fields * sign > 0) == (y == 0)) - right
    gaps = np.bincount(np.minimum(((right - 0.5) * 30).astype(int), 14), hit, 15) / n
    assert abs(np.abs(gaps).sum() - scores.calibration_error) < 5e-3
    cooled = fields * sign * np.where(y == 0, 1, -1)
    losses = [np.log1p(np.exp(-cooled / t)).mean() for t in (1.0, scores.temperature)]
    assert losses[1] <= losses[0]
