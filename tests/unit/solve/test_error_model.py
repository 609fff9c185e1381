"""Factors of error bars: limits of the formulas, and the measured slopes of the training loss."""

from __future__ import annotations

import math

import numpy as np
import pytest

from polyceptron.problem import as_channel
from polyceptron.problem.losses import as_loss
from polyceptron.problem.order import ScalarOrder
from polyceptron.sides.fields.integrand import FEW
from polyceptron.solve import error_model


def test_many_missed_samples_are_not_excused_by_a_small_step():
    few = error_model.floor_of_missed_samples(0.05, 1e-3)
    many = error_model.floor_of_missed_samples(0.2, 1e-3)
    nearly_all = error_model.floor_of_missed_samples(50.0, 1e-3)
    assert few == 1e-3
    assert many == 0.2 * error_model.MISSED_PULL
    assert nearly_all == 1e-3 + error_model.LARGEST_UNSEEN_ERROR_OF_LOG_TAU


def test_levels_that_agree_by_chance_have_a_bar():
    assert error_model.bar_between_levels(0.2, 0.0, 0.5, 1.0, 0.0) == pytest.approx(0.01)
    assert error_model.change_of_error(0.0, 2.0, 0.3) == 0.6


@pytest.mark.parametrize("loss", ["cross-entropy", "square"])
@pytest.mark.parametrize("seed", range(4))
def test_the_training_loss_moves_by_at_most_its_slope(loss, seed):
    """The sizes of its slopes to ln τ, ln q and ln V add up to less than LOSS_SLOPE."""
    rng = np.random.default_rng(seed)
    theta = np.array([rng.uniform(-3, 5), rng.uniform(-4, 8), rng.uniform(-5, 8)])
    place = FEW[2].place
    averages = place(as_loss(loss), as_channel("none"), 2, ScalarOrder(*np.exp(theta)), 3)
    step = 1e-3
    total = 0.0
    for shift in step * np.eye(3):
        above = float(averages(ScalarOrder(*np.exp(theta + shift))).loss[0])
        below = float(averages(ScalarOrder(*np.exp(theta - shift))).loss[0])
        total += abs(math.log(above / below)) / (2 * step)
    assert total < error_model.LOSS_SLOPE
