"""Every faster way round the loop ends where the plain loop does."""

import math
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

import polyceptron as pc
from polyceptron.errors import InvalidInput
from polyceptron.problem import (
    Conjugates,
    CrossEntropy,
    MaxMargin,
    Ridge,
    ScalarOrder,
    SoftmaxNoise,
    SquareLoss,
    Teacher,
)
from polyceptron.problem.spectrum import Spectrum, isotropic
from polyceptron.sides.scalar import erm_sides
from polyceptron.theory.dynamics import rounds
from polyceptron.theory.erm.coarse_root import coarse_root
from polyceptron.theory.erm.equations import Equations, equations
from polyceptron.theory.erm.fixed_point import erm_fixed_point, solve
from polyceptron.theory.erm.refinement import refine
from polyceptron.theory.separability import loss_at_ridge

NOISES = ["none", "gaussian:0.5", "flips:0.1"]
TWO_LEVELS = Spectrum([1.6, 0.4], [0.7, 1.2])


def plain(problem, tol=1e-9):
    """Where the plain loop comes to rest."""
    before = None
    for law in islice(rounds(problem.fields, problem.weights, ScalarOrder(0.5, 1.0, 1.0)), 10_000):
        now = np.array([law.tau, law.q, law.V])
        if before is not None and np.abs(now / before - 1).max() < tol:
            return law
        before = now
    raise AssertionError("the loop does not come to rest")


def with_spectrum(problem, spectrum):
    return replace(problem, weights=replace(problem.weights, spectrum=spectrum))


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize(("k", "ridge", "alpha"), [(2, 1.0, 2.0), (3, 2.0, 1.0)])
def test_isotropic_equations(k, ridge, alpha, noise):
    problem = erm_sides(pc.Teacher(k, noise=noise), CrossEntropy(), ridge, alpha)
    law, point = plain(problem), solve(problem, 1e-8)
    assert point.tau == pytest.approx(law.tau, rel=1e-6)
    assert point.q == pytest.approx(law.q, rel=1e-6)
    assert pytest.approx(law.V, rel=1e-6) == point.V


def test_scale_free_equations():
    problem = erm_sides(pc.Teacher(2), MaxMargin(), 1.0, 0.5)  # λ = 1 sets the scale of V
    law, point = plain(problem), solve(problem.at_ridge(0.0), 1e-9)
    for name in ("tau", "q", "V"):
        assert getattr(point, name) == pytest.approx(getattr(law, name), rel=1e-5)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("k", [2, 3, 6])
def test_closed_form_of_the_square_loss(k, noise):
    teacher = pc.Teacher(k, noise=noise)
    problem = erm_sides(teacher, SquareLoss(), 0.3, 2.5)
    assert problem.closed_form
    law, point = plain(problem, tol=1e-12), erm_fixed_point(teacher, pc.ERM("square", 0.3), 2.5)
    for name in ("tau", "q", "V"):
        assert getattr(point, name) == pytest.approx(getattr(law, name), rel=1e-9)


@pytest.mark.parametrize("loss", [CrossEntropy(), MaxMargin()], ids=lambda loss: loss.name)
def test_equations_of_one_round_have_the_same_root(loss):
    """`Equations`, which hold for any spectrum, at the spectrum that has better ones."""
    ridge = 1.0 if loss.scale_free else 0.05
    problem = erm_sides(pc.Teacher(3), loss, ridge, 3.0)
    better, general = equations(problem), Equations(problem)
    near = coarse_root(better)
    far = coarse_root(general, np.append(near.theta[:2], 0.0))
    assert far.converged
    law, other = (s.law(refine(s, r, 1e-8).theta) for s, r in ((better, near), (general, far)))
    assert law.tau == pytest.approx(other.tau, rel=1e-6)
    assert law.q == pytest.approx(other.q, rel=1e-6)


@pytest.mark.parametrize("loss", [CrossEntropy(), SquareLoss()], ids=lambda loss: loss.name)
def test_correlated_features_end_where_the_plain_loop_does(loss):
    problem = erm_sides(pc.Teacher(2, features=TWO_LEVELS), loss, 0.5, 2.0)
    law, point = plain(problem), solve(problem, 1e-8)
    assert point.status == "ok"
    for name in ("tau", "q", "V"):
        assert getattr(point, name) == pytest.approx(getattr(law, name), rel=1e-6)
    flat = solve(with_spectrum(problem, isotropic()), 1e-8)
    assert abs(flat.tau - point.tau) > 1e-3  # the spectrum matters


@pytest.mark.parametrize("alpha", [0.3, 2.0])
def test_max_margin_with_correlated_features_ends_where_the_plain_loop_does(alpha):
    problem = erm_sides(pc.Teacher(2, features=TWO_LEVELS), MaxMargin(), 1.0, alpha)
    law, point = plain(problem), solve(problem.at_ridge(0.0), 1e-9)
    for name in ("tau", "q", "V"):
        assert getattr(point, name) == pytest.approx(getattr(law, name), rel=1e-5)


def test_ridge_on_a_spectrum_against_its_three_sums():
    hats, ridge, s = Conjugates(1.3, 0.8, 0.6), Ridge(0.4), TWO_LEVELS
    law = ridge.law(hats, s, pc.Teacher(2).row)
    below = 0.4 + hats.V * s.eigenvalues
    m = hats.m * np.mean(s.eigenvalues**2 * s.signal / below)
    q = np.mean(
        s.eigenvalues
        * (hats.m**2 * s.eigenvalues**2 * s.signal + hats.q * s.eigenvalues)
        / below**2
    )
    assert law.m == pytest.approx(m)
    assert law.q == pytest.approx(q)
    assert pytest.approx(np.mean(s.eigenvalues / below)) == law.V


def test_ridge_zero_is_what_the_loss_says():
    clean, noisy = pc.Teacher(3), pc.Teacher(3, noise="flips:0.1")
    assert loss_at_ridge(CrossEntropy(), 0, clean, 5.0).name == "max-margin"
    assert loss_at_ridge(SquareLoss(), 0, clean, 5.0).name == "square"
    limit = pc.separability(noisy).alpha_s
    assert loss_at_ridge(CrossEntropy(), 0, noisy, 0.99 * limit).name == "max-margin"
    assert loss_at_ridge(CrossEntropy(), 0, noisy, 1.01 * limit).name == "cross-entropy"
    assert loss_at_ridge(SquareLoss(), 0, noisy, 5.0).name == "square"
    with pytest.raises(InvalidInput, match=f"alpha_s = {limit:.6g}"):
        loss_at_ridge(MaxMargin(), 0, noisy, 1.01 * limit)


def test_square_training_loss_of_correlated_features_by_simulation():
    """All k coordinates: the part along (1, …, 1) has equations of its own."""
    problem = with_spectrum(erm_sides(pc.Teacher(3), SquareLoss(), 0.5, 2.0), TWO_LEVELS)
    d, n = 300, 600
    rng = np.random.default_rng(3)
    s = np.repeat(TWO_LEVELS.eigenvalues, d // 2)
    theta = np.repeat(TWO_LEVELS.signal, d // 2)
    losses = []
    for _ in range(6):
        X = rng.standard_normal((n, d)) * np.sqrt(s)
        W = rng.standard_normal((d, 3)) * np.sqrt(theta)[:, None]
        target = np.eye(3)[(X @ W).argmax(1)]
        X /= math.sqrt(d)
        fit = np.linalg.solve(X.T @ X + 0.5 * np.eye(d), X.T @ target)
        losses.append(((X @ fit - target) ** 2).sum(1).mean() / 2)
    spread = np.std(losses, ddof=1) / math.sqrt(len(losses))
    assert abs(np.mean(losses) - solve(problem, 1e-8).training_loss) < 4 * spread + 1e-3


def test_bars_of_random_points_count_what_chances_of_labels_are_off(monkeypatch):
    """The softmax law is a table, whose error is no part of the spread of replicates."""
    problem = erm_sides(Teacher(4, noise=SoftmaxNoise(1.5)), CrossEntropy(), 0.1, 3.0).by_points()
    exact = solve(problem, 1e-2).uncertainty
    monkeypatch.setattr(SoftmaxNoise, "accuracy", 0.3)
    assert solve(problem, 1e-2).uncertainty > max(exact, 0.3)
