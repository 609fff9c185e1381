"""The training loss of the square loss where classes are unequal: all k coordinates count."""

from __future__ import annotations

import math

import numpy as np
import pytest

import polyceptron as pc

UNEQUAL = pc.Mixture((0.6, 0.3, 0.1), separation=1.5, variances=(0.5, 1.0, 2.0))


@pytest.mark.parametrize("features", ["isotropic", "levels:0.3x0.5,1x0.5"])
@pytest.mark.parametrize(("k", "alpha", "ridge"), [(2, 0.7, 0.1), (3, 2.0, 0.5)])
def test_biases_that_vanish_give_the_loss_of_equal_classes(k, alpha, ridge, features):
    student = pc.ERM("square", ridge)
    equal = pc.erm_fixed_point(pc.Teacher(k, features=features), student, alpha)
    biases = (1e-9,) + (0.0,) * (k - 1)
    found = pc.erm_fixed_point(pc.Teacher(k, biases=biases, features=features), student, alpha)
    assert abs(found.training_loss - equal.training_loss) < 1e-6
    assert found.training_loss_uncertainty < 1e-5


@pytest.mark.parametrize(
    ("population", "student"),
    [
        (UNEQUAL, pc.ERM("square", 0.2)),
        (UNEQUAL, pc.ERM("square", 0.2, class_weight=(0.5, 1.0, 3.0))),
        (UNEQUAL, pc.ERM("square", 0.2, intercept=True, class_weight=(0.5, 1.0, 3.0))),
        (pc.Teacher(3, biases=(0.0, -0.5, -1.0)), pc.ERM("square", 0.2)),
        (pc.Teacher(3, biases=(0.0, -0.5, -1.0)), pc.ERM("square", 0.2, intercept=True)),
    ],
    ids=["mixture", "weights", "intercept", "biased", "biased intercept"],
)
def test_fits_have_this_training_loss(population, student):
    alpha, d, n_runs = 2.0, 300, 8
    point = pc.erm_fixed_point(population, student, alpha)
    weights = np.ones(3) if student.class_weight is None else np.array(student.class_weight)
    losses = []
    for seed in range(n_runs):
        data = population.sample(int(alpha * d), d, seed)
        X = data.X / math.sqrt(d)
        target = np.eye(3)[data.y]
        w = weights[data.y][:, None]
        ridge = 0.2 * np.eye(d)
        if student.intercept:
            X = np.hstack([X, np.ones((len(X), 1))])
            ridge = np.diag(np.append(np.full(d, 0.2), 0.0))
        W = np.linalg.solve(X.T @ (w * X) + ridge, X.T @ (w * target))
        losses.append(((X @ W - target) ** 2).sum(1).mean() / 2)
    spread = math.hypot(np.std(losses, ddof=1) / math.sqrt(n_runs), 0.2 / d)
    assert abs(np.mean(losses) - point.training_loss) < 4 * spread
    assert point.training_loss_uncertainty < 1e-5


def test_class_weights_of_a_biased_teacher_leave_it_unknown():
    student = pc.ERM("square", 0.2, class_weight=(0.5, 1.0, 3.0))
    point = pc.erm_fixed_point(pc.Teacher(3, biases=(0.0, -0.5, -1.0)), student, 2.0)
    assert math.isnan(point.training_loss)
