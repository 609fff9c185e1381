"""The bottom of a smooth valley over the ridge, against fixed ridges and the careful search."""

from __future__ import annotations

import math

import numpy as np
import pytest

import polyceptron as pc
from polyceptron.problem import CrossEntropy
from polyceptron.sides.scalar import erm_sides
from polyceptron.theory.erm.equations import equations
from polyceptron.theory.erm.fixed_point import erm_fixed_point
from polyceptron.theory.erm.ridge_valley import find_valley, ridge_tangent

pytestmark = pytest.mark.slow


def errors_around(teacher: pc.Teacher, ridge: float, alpha: float, tol: float) -> list[float]:
    """Return the errors at fixed ridges on both sides of one."""
    return [
        erm_fixed_point(
            teacher, pc.ERM("cross-entropy", factor * ridge), alpha, tol
        ).generalisation_error
        for factor in (0.25, 0.5, 0.8, 1.0, 1.25, 2.0, 4.0)
    ]


@pytest.mark.parametrize(
    ("k", "noise", "alpha"),
    [(2, "flips:0.1", 4.0), (3, "none", 2.0), (5, "none", 50.0), (10, "none", 0.1)],
)
def test_no_fixed_ridge_is_better_than_the_bottom(k: int, noise: str, alpha: float) -> None:
    """Five classes have a coarse valley at half of the best ridge, ten a very shallow one."""
    teacher = pc.Teacher(k, noise=noise)
    tol = 1e-6 if k < 4 else 1e-4
    problem = erm_sides(teacher, CrossEntropy(), 1.0, alpha)
    valley = find_valley(problem, 0.1 / (1 + alpha), tol)
    assert valley is not None
    assert valley.left_open < tol
    ridge = math.exp(valley.log_ridge)
    best = erm_fixed_point(teacher, pc.ERM("cross-entropy", ridge), alpha, tol / 10)
    least = min(errors_around(teacher, ridge, alpha, tol / 10))
    bar = best.uncertainty + valley.left_open
    assert best.generalisation_error <= least + bar


def test_the_tangent_is_the_change_of_the_solution_with_the_ridge() -> None:
    teacher = pc.Teacher(3)
    step = 1e-3
    ends = [
        erm_fixed_point(teacher, pc.ERM("cross-entropy", 0.05 * math.exp(shift)), 2.0, 1e-9)
        for shift in (-step, step)
    ]
    thetas = [np.log([point.tau, point.q, point.V]) for point in ends]
    slope = (thetas[1] - thetas[0]) / (2 * step)
    system = equations(erm_sides(teacher, CrossEntropy(), 0.05, 2.0))
    tangent, _ = ridge_tangent(system, (thetas[0] + thetas[1]) / 2, 4)
    assert tangent == pytest.approx(slope, rel=1e-4, abs=2e-6)


def test_a_loss_with_kinks_is_left_to_the_careful_search() -> None:
    problem = erm_sides(pc.Teacher(3), pc.ERM("hinge", 0.1).loss, 1.0, 2.0)
    assert find_valley(problem, 0.1, 1e-6) is None
