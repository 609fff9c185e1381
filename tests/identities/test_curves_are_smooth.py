"""Controls that need no second calculation: what must rise with α or λ rises, and nothing jumps."""

import math

import numpy as np
import pytest

from polyceptron.problem import ERM, Teacher
from polyceptron.theory.erm.fixed_point import erm_fixed_point

NOISES = ["none", "gaussian:0.3", "flips:0.1"]
FEW = [(k, noise) for k in (2, 3) for noise in NOISES]
MANY = [(5, "gaussian:0.3"), (10, "none")]


def points(k, noise, loss, ridges, alphas, tol=None):
    teacher = Teacher(k, noise=noise)
    return [erm_fixed_point(teacher, ERM(loss, r), a, tol) for r in ridges for a in alphas]


def never_falls(values, bars):
    """Within both bars."""
    return all(np.diff(values) >= -(np.array(bars[1:]) + np.array(bars[:-1])))


@pytest.mark.parametrize(("k", "noise"), [*FEW, *MANY])
def test_the_training_loss_rises_with_the_ridge(k, noise):
    """It is least where nothing else is paid for."""
    found = points(k, noise, "cross-entropy", (0.01, 0.012), [3.0], 1e-3 if k > 3 else None)
    loss = [point.training_loss for point in found]
    assert never_falls(loss, [point.training_loss_uncertainty for point in found])
    assert loss[1] > loss[0]


@pytest.mark.parametrize("k", [2, 3, 5, 10])
@pytest.mark.parametrize("noise", NOISES)
def test_at_the_best_ridge_more_data_do_not_hurt(k, noise):
    alphas = np.geomspace(0.05, 100, 15)
    found = points(k, noise, "square", ["optimal"], alphas)
    assert never_falls([-p.generalisation_error for p in found], [p.uncertainty for p in found])
    if k == 2:
        found = points(k, noise, "cross-entropy", ["optimal"], [0.9, 1.0])
        assert found[1].generalisation_error < found[0].generalisation_error


@pytest.mark.parametrize(("k", "noise"), [*FEW, *MANY])
@pytest.mark.parametrize("loss", ["square", "cross-entropy"])
def test_errors_are_smooth_in_the_logarithm_of_alpha(k, noise, loss):
    """Fourth differences: of a curve with features of scale 1 in ln α they are h⁴ of its size."""
    step, weights = 0.02, np.array([1.0, -4.0, 6.0, -4.0, 1.0])
    if k > 3 and loss != "square":  # third ones, of fewer points
        step, weights = 0.05, np.array([1.0, -3.0, 3.0, -1.0])
    alphas = [3 * math.exp(step * i) for i in range(len(weights))]
    found = points(k, noise, loss, [0.01], alphas, 1e-3 if k > 3 else None)
    error, bar = (
        np.array([getattr(p, n) for p in found]) for n in ("generalisation_error", "uncertainty")
    )
    assert abs(weights @ error) < np.abs(weights) @ bar + step ** (len(weights) - 1)
