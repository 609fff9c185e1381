"""The ways round that are taken when the short way fails: each must end at the same place."""

import math

import numpy as np
import pytest

from polyceptron.algorithms.erm import fit_erm
from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.model import Teacher, finite_prior
from polyceptron.model.losses import CrossEntropy, MaxMargin
from polyceptron.numerics.denoise import denoise, project
from polyceptron.numerics.qmc import summarise
from polyceptron.numerics.threads import thread_count
from polyceptron.theory import erm_fixed_point, state_evolution
from polyceptron.theory.erm.equations import Problem
from polyceptron.theory.erm.fixed_point import (
    _continue_in_ridge,
    _hard_continuation,
    coarse_root,
)
from polyceptron.theory.erm.solver import Root, correct, newton
from polyceptron.theory.prior import prior_entropy, prior_variance


@pytest.mark.parametrize(("k", "ridge", "alpha"), [(2, 1e-4, 5.0), (3, 0.01, 2.0)])
def test_continuation_in_the_ridge_ends_where_newton_does(k, ridge, alpha):
    problem = Problem(k, CrossEntropy(), ridge, alpha)
    direct, round_about = coarse_root(problem, None), _continue_in_ridge(problem)
    assert round_about.converged
    assert np.allclose(direct.theta, round_about.theta, atol=1e-4)


@pytest.mark.parametrize("alpha", [0.05, 30.0])
def test_continuation_of_max_margin_in_alpha_ends_where_newton_does(alpha):
    problem = Problem(2, MaxMargin(), 0.0, alpha)
    direct, round_about = coarse_root(problem, None), _hard_continuation(problem)
    assert round_about.converged
    assert np.allclose(direct.theta, round_about.theta, atol=1e-4)


def test_a_bad_start_does_not_change_the_root():
    problem = Problem(3, CrossEntropy(), 0.1, 2.0)
    good = coarse_root(problem, None).theta
    for start in (good + 3, good - 8):
        assert np.allclose(coarse_root(problem, start).theta, good, atol=1e-4)


def test_no_fixed_point_in_reach_is_said():
    point = erm_fixed_point(3, "cross-entropy", 1e50, 1e-4)
    assert point.status == "not-converged"
    assert math.isinf(point.uncertainty)


def rotated(theta):
    """A system with the one root (1, −2) and a curved way there."""
    x, y = theta
    return np.array([x + 0.3 * np.sin(y + 2) - 1, np.expm1(y + 2) + 0.5 * (x - 1)])


def test_newton_from_afar_and_with_a_wrong_jacobian():
    for start, jacobian in (
        ([1.5, -1.0], None),
        ([4.0, 2.0], None),
        ([1.2, -1.9], np.array([[0.0, 1.0], [-1.0, 0.0]])),  # turned: renewed when it misleads
        ([1.2, -1.9], np.zeros((2, 2))),  # singular
    ):
        root = newton(rotated, np.array(start), jacobian=jacobian)
        assert root.converged
        assert np.allclose(root.theta, [1, -2], atol=1e-8)


def test_newton_says_when_there_is_no_root():
    root = newton(lambda t: np.array([1 + t[0] ** 2]), np.array([2.0]))
    assert not root.converged
    flat = newton(lambda t: np.ones(1), np.zeros(1))  # the Jacobian is singular
    assert not flat.converged


def test_corrections_of_a_root_fall_back_on_newton():
    near = np.array([1.001, -2.001])
    exact = newton(rotated, near).jacobian
    for start, jacobian in (
        (near, exact),  # chords are enough
        (near, 4 * exact),  # too timid
        (np.array([3.0, -1.0]), exact),  # too far
    ):
        root = correct(rotated, Root(start, rotated(start), jacobian, True), tol=1e-9)
        assert root.converged
        assert np.allclose(root.theta, [1, -2], atol=1e-7)


def test_overlap_of_many_classes_against_the_denoiser():
    """k = 30, where only the local peak of the common shift is integrated."""
    teacher, q_hat = Teacher(30, "rademacher"), 1.5
    value, error = summarise(prior_variance(teacher, np.array([q_hat]), 5)[0])
    rng = np.random.default_rng(0)
    w = rng.choice([-1.0, 1.0], (400, 30))
    gamma = q_hat * project(w) + math.sqrt(q_hat) * project(rng.standard_normal((400, 30)))
    sample = denoise(teacher.prior, gamma, q_hat).variance / 29
    spread = sample.std(ddof=1) / math.sqrt(sample.size)
    assert abs(sample.mean() - value) < 4 * math.hypot(spread, error)
    assert spread < 0.01 * value


def test_gaussian_overlap_is_in_closed_form():
    assert prior_variance(Teacher(7), np.array([0.0, 3.0])).ravel().tolist() == [1.0, 0.25]


def test_entropy_of_rows_too_many_to_list():
    uneven = finite_prior([-1.0, 0.2, 0.8], [1 / 3] * 3)  # shifts leave the support
    assert prior_entropy(Teacher(25, uneven)) == pytest.approx(25 * math.log(3), rel=1e-9)
    even = finite_prior([-1.0, 0.0, 1.0], [1 / 3] * 3)
    with pytest.raises(ComputationFailed, match="not implemented at this size"):
        prior_entropy(Teacher(9, even))


def test_trajectory_as_a_table():
    frame = state_evolution(Teacher(2), 1.0, 4).frame
    assert list(frame.columns) == ["iteration", "q", "V", "generalisation_error"]
    assert list(frame.iteration) == [0, 1, 2, 3, 4]
    assert np.allclose(frame.q + frame.V, 1)
    with pytest.raises(InvalidInput, match="one alpha"):
        state_evolution(Teacher(2), [1.0, 2.0])


def test_threads_follow_the_setting_or_the_machine(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3,2")
    assert thread_count() == 3
    for text in ("", "many", "0"):
        monkeypatch.setenv("OMP_NUM_THREADS", text)
        assert thread_count() >= 1


def test_scikit_learn_as_the_solver_of_both_losses():
    X, y, _ = Teacher(3).sample(60, 20, 0)
    for loss in ("square", "cross-entropy"):
        ours, theirs = (fit_erm(X, y, 3, loss, 0.5, solver=s) for s in ("auto", "sklearn"))
        assert np.allclose(ours.weights, theirs.weights, atol=1e-5)
        assert theirs.distance_bound < 1e-4
    with pytest.raises(InvalidInput, match="every class"):
        fit_erm(X, np.minimum(y, 1), 3, "cross-entropy", 0.5, solver="sklearn")
