"""The plain loop with matrices: where it ends, the scalars, and message passing on drawn data."""

from __future__ import annotations

import numpy as np
import pytest

import polyceptron as pc
from polyceptron.checks import difference_basis
from polyceptron.sides.matrix.graph import GraphFields
from polyceptron.sides.matrix.loop import start, unpack
from polyceptron.sides.matrix.proximal import matrix_pull
from polyceptron.sides.matrix.proximal_graph import graph_coordinates, proximal_graph
from polyceptron.theory.erm.unequal_classes import matrix_problem


@pytest.mark.parametrize(
    ("population", "spec", "rounds"),
    [
        (pc.Mixture((0.9, 0.1), separation=2.0), pc.ERM("cross-entropy", 0.1, intercept=True), 60),
        (pc.Mixture((0.7, 0.3), separation=2.0), pc.ERM("max-margin"), 60),
        (
            pc.Mixture((0.7, 0.2, 0.1), separation=2.0),
            pc.ERM("cross-entropy", 3.0, intercept=True),
            12,
        ),
        (pc.Teacher(3, biases=(0, -0.5, -1)), pc.ERM("cross-entropy", 2.0, intercept=True), 10),
    ],
)
def test_it_ends_at_the_fixed_point(population, spec, rounds):
    alpha = 0.5 if spec.hard_margin else 2.0
    last = pc.erm_state_evolution(population, spec, alpha, rounds)[-1]
    point = pc.erm_fixed_point(population, spec, alpha)
    moving = 3e-5 if rounds < 20 else 0.0  # of the rounds that are left out
    close = last.uncertainty + point.uncertainty + moving
    assert abs(last.generalisation_error - point.generalisation_error) < close
    for name in ("Q", "V", "intercepts"):
        found = getattr(last, "q" if name == "Q" else name)
        np.testing.assert_allclose(found, getattr(point, name), atol=1e-6 + 30 * moving)
    overlap = point.m if point.law.M is None else point.law.M
    np.testing.assert_allclose(last.m, overlap, atol=1e-6 + 30 * moving)


@pytest.mark.parametrize(("loss", "k"), [("cross-entropy", 2), ("squared-hinge", 3)])
def test_equal_classes_follow_the_scalars(loss, k):
    """Weights of 2 are half the ridge: V is half of theirs, all else the same in every round."""
    steps = pc.erm_state_evolution(pc.Teacher(k), pc.ERM(loss, 0.1, class_weight=(2,) * k), 1.0, 4)
    scalars = pc.erm_state_evolution(pc.Teacher(k), pc.ERM(loss, 0.05), 1.0, 4)
    for one, plain in zip(steps, scalars, strict=True):
        for name in ("m", "q"):
            want = getattr(plain, name) * np.eye(k - 1)
            np.testing.assert_allclose(getattr(one, name).reshape(want.shape), want, atol=1e-7)
        np.testing.assert_allclose(one.V[0], plain.V / 2 * np.eye(k - 1), atol=1e-6)
        assert abs(one.generalisation_error - plain.generalisation_error) < one.uncertainty


def test_message_passing_follows_it_from_the_first_round():
    teacher, d, T = pc.Teacher(3, shares=(0.6, 0.3, 0.1)), 500, difference_basis(3)
    data, close = teacher.sample(2 * d, d, seed=0), 3 / np.sqrt(d)
    steps = pc.erm_state_evolution(teacher, pc.ERM("cross-entropy", 0.5, intercept=True), 2.0, 3)
    assert np.abs(steps[1].V - steps[3].V).max() > close  # rounds are told apart
    for step in steps[1:]:
        found = pc.amp_erm(
            data.X, data.y, "cross-entropy", 0.5, intercept=True, max_iter=step.step, tol=1e-300
        )
        W = found.weights @ T
        assert np.abs(T.T @ found.variance @ T - step.V[0]).max() < close
        assert np.abs(W.T @ W / d - step.q[0]).max() < close * np.abs(step.q).max()
        assert np.abs(W.T @ (data.weights @ T) / d - step.m).max() < close
        assert np.abs(found.intercepts - step.intercepts).max() < close


def test_many_classes_carry_their_spread():
    """Random points: within their bar of the fixed point's own points."""
    population, spec = (
        pc.Mixture((0.4, 0.3, 0.2, 0.1), separation=2.0),
        pc.ERM("cross-entropy", 2.0),
    )
    last = pc.erm_state_evolution(population, spec, 1.0, 3)[-1]
    point = pc.erm_fixed_point(population, spec, 1.0, tol=3e-3)
    assert 0 < last.uncertainty < 3e-3
    off = abs(last.generalisation_error - point.generalisation_error)
    assert off < last.uncertainty + point.uncertainty + 1e-4


def test_starts_are_for_classes_that_are_alike():
    with pytest.raises(pc.InvalidInput, match="classes that are alike"):
        pc.erm_state_evolution(
            pc.Mixture((0.9, 0.1), separation=1.0), "square", 1.0, start=(0.0, 0.0, 1.0)
        )


@pytest.mark.parametrize(
    ("loss", "k"),
    [
        ("cross-entropy", 2),
        ("cross-entropy", 3),
        ("squared-hinge", 2),
        ("squared-hinge", 3),
        ("max-margin", 2),
        ("max-margin", 3),
        ("hinge", 2),
    ],
)
def test_the_graph_has_the_pairs_of_the_proximal_map(loss, k):
    """Solved proximal points lie on it, and its coordinates give back the fields."""
    rng = np.random.default_rng(k)
    r = k - 1
    omega = 2 * rng.normal(size=(50, r))
    root = rng.normal(size=(r, r))
    V = root @ root.T + 0.3 * np.eye(r)
    c = 0.7
    loss = pc.ERM(loss).loss
    pull = matrix_pull(loss, omega, np.full(50, 1), V, np.full(50, c))
    t = graph_coordinates(loss, 1, pull.point, pull.f, c)
    pairs = proximal_graph(loss, 1, t, c)
    np.testing.assert_allclose(pairs.u - pairs.f @ V, omega, atol=1e-5)


def test_boxes_refuse_what_they_would_get_wrong():
    """Four classes, and the hinge of three: a kink ties its gaps."""
    for population, loss in (
        (pc.Mixture((0.4, 0.3, 0.2, 0.1), separation=2.0), "cross-entropy"),
        (pc.Mixture((0.7, 0.2, 0.1), separation=2.0), "hinge"),
    ):
        problem = matrix_problem(population, pc.ERM(loss, 0.1), 1.0)
        with pytest.raises(ValueError, match="boxes are for two classes, and for three"):
            GraphFields(problem, unpack(problem, start(problem)), 0)
    with pytest.raises(ValueError, match="known for two classes"):
        proximal_graph(pc.ERM("hinge", 0.1).loss, 0, np.zeros((1, 2)), 1.0)
