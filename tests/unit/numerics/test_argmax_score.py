"""The tabulated score of the argmax channel against the quadrature that it abbreviates."""

from __future__ import annotations

import numpy as np
import pytest

from polyceptron.message_passing.channel_student import NODES_OF_TABULATED_CHANNEL, channel_student
from polyceptron.numerics.argmax_score import argmax_score
from polyceptron.numerics.orthant import argmax_orthant
from polyceptron.problem import as_channel


def fields_and_labels(k: int, spread: float) -> tuple[np.ndarray, np.ndarray]:
    """ω (n, k) and labels drawn around it, the first hundred of them the least likely ones."""
    rng = np.random.default_rng(k)
    omega = spread * rng.standard_normal((2000, k))
    label = (omega + rng.standard_normal(omega.shape)).argmax(1)
    label[:100] = omega[:100].argmin(1)
    return omega, label


@pytest.mark.parametrize("spread", [0.1, 2.0, 10.0, 1e4])
@pytest.mark.parametrize("k", [4, 10, 40])
def test_the_table_errs_by_a_millionth(k: int, spread: float) -> None:
    omega, label = fields_and_labels(k, spread)
    table = argmax_score(0.7 * omega, label, 0.7, 12)
    direct = argmax_orthant(0.7 * omega, label, 0.49, order=12)
    scale = 1 + np.abs(direct.log_z)
    assert np.max(np.abs(table.log_z - direct.log_z) / scale) < 1e-5
    size = 1 + np.abs(direct.score).max(1)
    assert np.max(np.abs(table.score - direct.score) / size[:, None]) < 1e-5
    assert np.max(np.abs(table.curvature - direct.curvature) / size) < 1e-4
    assert np.abs(table.score.sum(1)).max() < 1e-9 * size.max()


@pytest.mark.parametrize("k", [4, 10, 40])
def test_as_few_nodes_as_message_passing_has_err_by_a_ten_thousandth(k: int) -> None:
    omega, label = fields_and_labels(k, 2.0)
    few = argmax_score(omega, label, 1.0, NODES_OF_TABULATED_CHANNEL)
    fine = argmax_orthant(omega, label, 1.0, order=32)

    def mean_square(values: np.ndarray) -> float:
        return float(np.sqrt(np.mean(values**2)))

    assert mean_square(few.score - fine.score) < 3e-4 * mean_square(fine.score)
    assert few.curvature.mean() == pytest.approx(fine.curvature.mean(), rel=2e-4)
    two = argmax_score(omega, label, 1.0, 2)  # the control
    assert mean_square(two.score - fine.score) > 3e-4 * mean_square(fine.score)


@pytest.mark.parametrize("noise", ["none", "gaussian:0.5", "flips:0.2", "softmax:2"])
@pytest.mark.parametrize("k", [3, 7])
def test_students_are_those_of_their_channels(k: int, noise: str) -> None:
    omega, label = fields_and_labels(k, 1.5)
    channel = as_channel(noise)
    f, curvature = channel_student(channel, k)(omega, label, 0.3)
    f_known, curvature_known = channel.denoise(omega, label, 0.3, 32)
    assert np.sqrt(np.mean((f - f_known) ** 2)) < 1e-3
    assert curvature.mean() == pytest.approx(curvature_known.mean(), rel=1e-3)
