"""ε(ρ) for any k: closed forms, simulation, limits and refusals."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyceptron.errors import InvalidInput
from polyceptron.problem import as_channel
from polyceptron.sides.generalisation import (
    angle,
    error_from_angle,
    error_slope,
    generalisation_error,
)


@given(st.floats(-1, 1))
def test_two_classes_is_the_angle(rho):
    assert generalisation_error(rho, 2) == pytest.approx(math.acos(rho) / math.pi, abs=1e-15)


@pytest.mark.parametrize("k", [3, 4, 10, 60])
def test_no_correlation_is_a_guess_and_full_correlation_is_perfect(k):
    assert generalisation_error(0.0, k) == pytest.approx(1 - 1 / k, abs=1e-12)
    assert generalisation_error(1.0, k) == 0.0


@pytest.mark.parametrize("k", [3, 5, 12])
@pytest.mark.parametrize("rho", [-0.4, 0.3, 0.9, 0.999])
def test_against_simulation(k, rho):
    rng = np.random.default_rng(k)
    z, noise = rng.standard_normal((2, 200_000, k))
    other = rho * z + math.sqrt(1 - rho**2) * noise
    wrong = z.argmax(1) != other.argmax(1)
    standard_error = wrong.std() / math.sqrt(wrong.size)
    assert abs(wrong.mean() - generalisation_error(rho, k)) < 4 * standard_error
    # The test can fail: a correlation off by two hundredths is rejected.
    assert abs(wrong.mean() - generalisation_error(min(rho + 0.02, 1.0), k)) > 4 * standard_error


@pytest.mark.parametrize("k", [3, 7])
def test_small_angles_keep_their_digits(k):
    """ε is linear in θ with curvature of order θ: the ratio settles, down to 1e-12."""
    ratios = [float(error_from_angle(t, k)) / t for t in (1e-4, 1e-8, 1e-12)]
    assert ratios[1] == pytest.approx(ratios[2], rel=1e-6)
    assert ratios[0] == pytest.approx(ratios[1], rel=1e-3)


@given(st.sampled_from([2, 3, 4, 7, 16]), st.floats(0.01, 2.0))
def test_error_rises_with_the_angle_and_its_slope_is_the_derivative(k, theta):
    step = 1e-5
    rise = (error_from_angle(theta + step, k) - error_from_angle(theta - step, k)) / (2 * step)
    assert rise > 0
    tau = 1 / math.tan(theta)  # dθ/d ln τ = −τ/(1 + τ²)
    slope = error_slope(as_channel("none"), tau, k)
    assert slope == pytest.approx(float(rise) * abs(tau) / (1 + tau**2), rel=1e-5, abs=1e-9)


def test_angle_keeps_tiny_complements():
    assert float(angle(1e-30)) == pytest.approx(1e-15)


@pytest.mark.parametrize("rho", [1.1, -2, float("nan"), float("inf")])
def test_bad_correlation(rho):
    with pytest.raises(InvalidInput, match="between -1 and 1"):
        generalisation_error(rho, 3)
