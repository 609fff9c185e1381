"""The short ways of two and three classes against the integral for any number, and samples."""

import math

import numpy as np
import pytest

from polyceptron.numerics.softmax_error import disagreement, softmax_error

ANGLES = np.array([1e-6, 1e-3, 0.05, 0.5, 1.3, 2.0, 3.0])


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("slope", [1e-4, 0.3, 2.0, 50.0, 1e4])
def test_short_ways(k, slope):
    expected = [disagreement(slope, k, float(theta)) for theta in ANGLES]
    assert softmax_error(slope, 1 / np.tan(ANGLES), k) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("k", [3, 5])
def test_drawn_labels(k):
    rng = np.random.default_rng(k)
    n, slope, theta = 400_000, 1.5, 0.7
    z = rng.standard_normal((n, k))
    student = math.cos(theta) * z + math.sin(theta) * rng.standard_normal((n, k))
    drawn = (slope * z + rng.gumbel(size=(n, k))).argmax(1)
    wrong = float((drawn != student.argmax(1)).mean())
    found = float(softmax_error(slope, np.asarray(1 / math.tan(theta)), k))
    assert abs(found - wrong) < 4 * math.sqrt(wrong * (1 - wrong) / n)
    lead = np.take_along_axis(student, drawn[:, None], 1)[:, 0]
    np.put_along_axis(student, drawn[:, None], -np.inf, 1)
    lead -= student.max(1)
    for margin in (-2.5, -0.4, 0.6, 2.0):
        below = float((lead <= margin).mean())
        found = disagreement(slope, k, theta, margin)
        assert abs(found - below) < 4 * math.sqrt(below * (1 - below) / n)
