"""Theory on grids for drawing: the landscape against the fixed points, the fold's shape."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import log_ndtr, ndtr

from polyceptron.model import Perceptron, Teacher
from polyceptron.theory.bayes_optimal.fixed_points import fixed_points
from polyceptron.theory.bayes_optimal.transitions import transitions
from polyceptron.theory.curve import fold_grid, free_entropy, landscape


def slope(teacher: Teacher | Perceptron, q_hat: float, alpha: float) -> float:
    """dΦ/dq at fixed α, by central differences."""
    step = 1e-4 * q_hat
    q, phi = free_entropy(teacher, np.array([q_hat - step, q_hat + step]), alpha)
    return float((phi[1] - phi[0]) / (q[1] - q[0]))


@pytest.mark.parametrize(
    ("teacher", "alpha"),
    [(Teacher(3, "rademacher"), 2.6), (Teacher(3), 2.0), (Perceptron("rademacher"), 1.4)],
)
def test_the_landscape_is_stationary_at_the_fixed_points_and_only_there(
    teacher: Teacher | Perceptron, alpha: float
) -> None:
    inside = [p for p in fixed_points(teacher, alpha) if 0 < p.q_hat < math.inf]
    assert inside
    for point in inside:
        q, phi = free_entropy(teacher, np.array([point.q_hat]), alpha)
        assert q[0] == pytest.approx(point.q, abs=1e-9)
        assert phi[0] == pytest.approx(point.free_entropy, abs=1e-9)
        assert abs(slope(teacher, point.q_hat, alpha)) < 1e-5
        # The same place is not stationary at another α.
        assert abs(slope(teacher, point.q_hat, 1.2 * alpha)) > 1e-2
    # Stable points are maxima along the curve, barriers are minima.
    found = landscape(teacher, alpha)
    q, phi = np.array(found["q"]), np.array(found["free_entropy"])
    assert (np.diff(q) > 0).all()
    for point in inside:
        i = int(np.argmin(np.abs(q - point.q)))
        neighbours = max(phi[i - 1], phi[i + 1]), min(phi[i - 1], phi[i + 1])
        if point.branch == "unstable":
            assert phi[i] < neighbours[1]
        else:
            assert phi[i] > neighbours[0]


def test_the_landscape_of_two_classes_against_direct_integrals() -> None:
    """k = 2, Gaussian: Φ = ½q̂v − ½ln(1+q̂) + 2αE[H ln H], H = Φ(t√(q/(1−q)))."""
    alpha = 1.3
    for q in (0.2, 0.6, 0.9):
        q_hat = q / (1 - q)
        ratio = math.sqrt(q / (1 - q))

        def integrand(t: float, ratio: float = ratio) -> float:
            weight = math.exp(-t * t / 2) / math.sqrt(2 * math.pi)
            return float(weight * ndtr(t * ratio) * log_ndtr(t * ratio))

        entropy = 2 * quad(integrand, -12, 12, epsabs=1e-12)[0]
        expected = 0.5 * q_hat * (1 - q) - 0.5 * math.log1p(q_hat) + alpha * entropy
        got_q, phi = free_entropy(Teacher(2), np.array([q_hat]), alpha)
        assert got_q[0] == pytest.approx(q, abs=1e-12)
        assert phi[0] == pytest.approx(expected, abs=1e-9)


def test_the_hard_phase_shows_in_the_landscape() -> None:
    teacher = Teacher(3, "rademacher")
    found = transitions(teacher)
    assert found.alpha_it is not None
    assert found.alpha_algo is not None
    for alpha, perfect_is_best in ((found.alpha_it - 0.02, False), (found.alpha_it + 0.02, True)):
        view = landscape(teacher, alpha)
        top = max(view["free_entropy"])
        assert (view["perfect"] == pytest.approx(top, abs=1e-12)) == perfect_is_best
        assert view["free_entropy"][0] == pytest.approx(-alpha * math.log(3))
        assert {p["branch"] for p in view["extrema"]} == {"optimal", "amp", "informed", "unstable"}
    easy = landscape(teacher, found.alpha_algo + 0.05)
    assert {p["branch"] for p in easy["extrema"]} == {"optimal", "amp", "informed"}
    assert (np.diff(easy["free_entropy"]) > 0).all()  # no barrier: uphill all the way


@pytest.mark.parametrize("teacher", [Teacher(3, "rademacher"), Perceptron("rademacher")])
def test_the_grid_at_the_fold_gives_even_steps_of_the_overlap(
    teacher: Teacher | Perceptron,
) -> None:
    """q goes as √(α_algo − α) there: no step is much longer than another, and it looks round."""
    at = transitions(teacher).alpha_algo
    assert at is not None
    grid = fold_grid(teacher, [0.5, 4.0])
    assert grid == sorted(grid)
    near = [a for a in grid if 0.87 * at < a < (1 - 2e-4) * at]
    assert len(near) == 16
    points = fixed_points(teacher, near)
    for branch in ("amp", "unstable"):
        q = [p.q for p in points if p.branch == branch]
        steps = np.abs(np.diff(q))
        assert len(q) == len(near)
        assert steps.max() < 2.5 * steps.min()
    # Even steps of α do not pass: they leave a gap at the fold.
    even = fixed_points(teacher, np.linspace(near[0], near[-1], len(near)))
    steps = np.abs(np.diff([p.q for p in even if p.branch == "amp"]))
    assert steps.max() > 2.5 * steps.min()


def test_the_grid_adds_nothing_outside_the_range_or_without_a_fold() -> None:
    assert fold_grid(Teacher(3, "gaussian"), [0.5, 4.0]) == []
    assert fold_grid(Teacher(3, "rademacher"), [0.5, 2.0]) == []
    assert fold_grid(Teacher(3, "rademacher"), [3.0, 4.0]) == []


def test_the_grid_has_both_sides_of_both_jumps() -> None:
    """A line through the rows there is vertical to the eye, where the transitions are."""
    teacher = Teacher(3, "rademacher")
    found = transitions(teacher)
    grid = fold_grid(teacher, [0.5, 4.0])
    for branch, at in (("optimal", found.alpha_it), ("amp", found.alpha_algo)):
        assert at is not None
        sides = [a for a in grid if abs(a / at - 1) < 1.1e-4]
        before, after = (p for p in fixed_points(teacher, sides) if p.branch == branch)
        assert before.alpha < at < after.alpha
        assert before.generalisation_error > 0.13
        assert after.generalisation_error == 0
