"""Errors on the labels of a softmax teacher against integrals of other forms, and samples."""

import math

import numpy as np
import pytest
from scipy.integrate import quad

from polyceptron.numerics.gumbel import disagreement, softmax_error, three_softmax

ANGLES = np.array([1e-6, 1e-3, 0.05, 0.5, 1.3, 2.0, 3.0])
SLOPES = [1e-4, 0.3, 2.0, 50.0, 1e4]


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("slope", SLOPES)
def test_the_proxy_of_errors(k, slope):
    expected = [disagreement(slope, k, float(theta)) for theta in ANGLES]
    assert softmax_error(slope, 1 / np.tan(ANGLES), k) == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("slope", SLOPES)
def test_two_classes_have_another_integral(slope):
    """ε = 1/2 − ∫_0^∞ φ(u) tanh(βu/√2) erf(τu/√2) du, u the teacher's gap over √2."""
    for tau in (0.1, 1.0, 30.0):

        def lost(x, tau=tau):  # u = x², x resolves the steep start
            u = x * x
            density = math.exp(-u * u / 2) / math.sqrt(2 * math.pi) * 2 * x
            return density * math.tanh(slope * u / math.sqrt(2)) * math.erf(tau * u / math.sqrt(2))

        gained = sum(
            quad(lost, a, b, epsabs=1e-13)[0] for a, b in ((0, 0.03), (0.03, 0.3), (0.3, 3))
        )
        assert float(softmax_error(slope, np.array(tau), 2)) == pytest.approx(
            0.5 - gained, abs=1e-10
        )


@pytest.mark.parametrize("slope", [0.3, 5.0])
def test_three_classes_have_another_slope(slope):
    """dε/dθ = sin θ (6/√(4π)) ∫_0^∞ N(u; 0, 3/2) (2∂₁ + ∂₂)Z(0, ρu) du: two classes tie."""
    theta, h = 0.7, 1e-3
    u, step = np.linspace(0, 11, 2001, retstep=True)
    s, along = slope * math.sin(theta), slope * math.cos(theta)
    _, slopes = three_softmax(np.stack([np.zeros_like(u), along * u]), s)
    values = np.exp(-u * u / 3) * (2 * slopes[0] + slopes[1])
    total = step * (values.sum() - 0.5 * values[0]) / math.sqrt(3 * math.pi)
    total += step**2 / 12 * (values[1] - values[0]) / step / math.sqrt(3 * math.pi)
    rate = 6 / math.sqrt(4 * math.pi) * slope * math.sin(theta) * total
    up, down = (softmax_error(slope, np.array(1 / math.tan(theta + a)), 3) for a in (h, -h))
    assert (up - down) / (2 * h) == pytest.approx(rate, rel=3e-6)


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
