"""The ways round that are taken when the short way fails: each must end at the same place."""

import math

import numpy as np
import pytest

from polyceptron.errors import InvalidInput
from polyceptron.numerics import thread_count
from polyceptron.problem import ERM, CrossEntropy, MaxMargin, Teacher
from polyceptron.sides.scalar import erm_sides
from polyceptron.solve.root import Root, newton
from polyceptron.theory.dynamics import state_evolution
from polyceptron.theory.erm.coarse_root import coarse_root, continuation
from polyceptron.theory.erm.equations import equations
from polyceptron.theory.erm.fixed_point import erm_fixed_point


def system_of(k, loss, ridge, alpha):
    return equations(erm_sides(Teacher(k), loss, ridge, alpha))


@pytest.mark.parametrize(("k", "ridge", "alpha"), [(2, 1e-4, 5.0), (3, 0.01, 2.0)])
def test_continuation_in_the_ridge_ends_where_newton_does(k, ridge, alpha):
    system = system_of(k, CrossEntropy(), ridge, alpha)
    direct, round_about = coarse_root(system), continuation(system)
    assert round_about.converged
    assert np.allclose(direct.theta, round_about.theta, atol=1e-6)  # same nodes: a lattice


@pytest.mark.parametrize("alpha", [0.05, 30.0])
def test_continuation_of_max_margin_in_alpha_ends_where_newton_does(alpha):
    system = system_of(2, MaxMargin(), 0.0, alpha)
    direct, round_about = coarse_root(system), continuation(system)
    assert round_about.converged
    assert np.allclose(direct.theta, round_about.theta, atol=1e-6)


def test_a_bad_start_does_not_change_the_root():
    system = system_of(3, CrossEntropy(), 0.1, 2.0)
    good = coarse_root(system).theta
    for start in (good + 3, good - 8, good[:0]):
        assert np.allclose(coarse_root(system, start).theta, good, atol=1e-6)


@pytest.mark.parametrize(("ridge", "alpha"), [(1e50, 1e-4), (1e90, 1.0), (1e-3, 1e-11)])
@pytest.mark.parametrize("k", [2, 3, 5])
def test_extreme_problems_are_those_of_the_square_loss(k, ridge, alpha):
    """Where weights are tiny only the loss's expansion at 0 counts: cross-entropy bends by 1/k."""
    point = erm_fixed_point(Teacher(k), ERM("cross-entropy", ridge), alpha)
    square = erm_fixed_point(Teacher(k), ERM("square", k * ridge), alpha)
    away = abs(point.generalisation_error - square.generalisation_error)
    assert point.status == "ok"
    assert away <= point.uncertainty + 1e-11


def test_no_fixed_point_in_reach_is_said(monkeypatch):
    lost = Root(np.zeros(3), np.ones(3), np.eye(3), False)
    monkeypatch.setattr("polyceptron.theory.erm.fixed_point.coarse_root", lambda *a: lost)
    point = erm_fixed_point(Teacher(3), ERM("cross-entropy", 0.1), 1.0)
    assert point.status == "not-converged"
    assert math.isinf(point.uncertainty)
    assert math.isnan(point.generalisation_error)


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


def test_newton_ends_where_coarse_nodes_jump():
    """Without a root there, closing in on the jump would take many steps and lead nowhere."""
    asked = []
    root = newton(lambda t: asked.append(1) or t + 0.005 * np.sign(t), np.array([0.01]), tol=1e-3)
    assert not root.converged
    assert len(asked) < 5


def test_newton_mends_a_jacobian_from_elsewhere():
    near = np.array([1.001, -2.001])
    exact = newton(rotated, near).jacobian
    for start, jacobian in (
        (near, exact),  # good enough
        (near, 4 * exact),  # too timid
        (np.array([3.0, -1.0]), exact),  # too far
    ):
        root = newton(rotated, start, tol=1e-9, jacobian=jacobian)
        assert root.converged
        assert np.allclose(root.theta, [1, -2], atol=1e-7)


def test_a_root_is_not_taken_on_the_word_of_a_stiff_jacobian():
    """Next to α_s one direction is nearly flat: a small residual is no sign of a root there."""
    root = newton(
        lambda t: np.array([t[0] - 1, 1e-6 * (t[1] - 3)]), np.zeros(2), tol=1e-4, jacobian=np.eye(2)
    )
    assert root.converged
    assert np.allclose(root.theta, [1, 3], atol=1e-3)


def test_trajectory_as_a_table():
    frame = state_evolution(Teacher(2), 1.0, 4).frame
    assert list(frame.columns) == ["iteration", "q", "V", "generalisation_error"]
    assert list(frame.iteration) == [0, 1, 2, 3, 4]
    assert np.allclose(frame.q + frame.V, 1)
    with pytest.raises(InvalidInput, match="alpha must be"):
        state_evolution(Teacher(2), [1.0, 2.0])


def test_threads_follow_the_setting_or_the_machine(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3,2")
    assert thread_count() == 3
    for text in ("", "many", "0"):
        monkeypatch.setenv("OMP_NUM_THREADS", text)
        assert thread_count() >= 1


def test_weights_that_a_penalty_lets_vanish_are_no_crash():
    """A threshold of 10 standard pulls: at a step of the search nothing is left of the weights."""
    strong = ERM("cross-entropy", penalty="elastic-net:10:10")
    point = erm_fixed_point(Teacher(5), strong, 0.3)
    assert point.status == "not-converged"
    assert math.isnan(point.generalisation_error)
