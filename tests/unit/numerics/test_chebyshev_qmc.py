"""Chebyshev proxies against the functions they stand for; quasi-random means against the truth."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyceptron.numerics.estimate import (
    estimate_from_replicates,
    student_quantile,
    uniform_replicates,
)
from polyceptron.numerics.special import chebyshev_proxy


@given(st.floats(-3, 3), st.floats(0.1, 4), st.lists(st.floats(-2, 2), min_size=1, max_size=9))
def test_polynomials_are_reproduced(low, width, coefficients):
    polynomial = np.polynomial.Polynomial(coefficients)
    proxy = chebyshev_proxy(polynomial, low, low + width)
    x = np.linspace(low, low + width, 23)
    size = 1 + np.abs(polynomial(x)).max()
    assert np.abs(proxy(x) - polynomial(x)).max() < 1e-12 * size
    slope = polynomial.deriv()(x)
    assert np.abs(proxy.derivative()(x) - slope).max() < 1e-9 * size / min(width, 1) ** 2


def test_points_double_until_the_function_is_resolved():
    calls = []

    def wavy(x):
        calls.append(len(x))
        return np.cos(40 * x)

    proxy = chebyshev_proxy(wavy, -1.0, 1.0)
    assert calls == [17, 16, 32, 64]  # 17, 33, 65, 129: old points are not computed again
    x = np.linspace(-1, 1, 301)
    assert np.abs(proxy(x) - np.cos(40 * x)).max() < 1e-12


@pytest.mark.parametrize("width", [0.3, 0.1, 0.03, 0.01])
def test_the_error_estimate_is_honest_where_the_budget_ends(width):
    """Runge's function, too narrow for 65 points: the estimate covers the error, within reason."""

    def runge(x):
        return 1 / (1 + (x / width) ** 2)

    proxy = chebyshev_proxy(runge, -1.0, 1.0, max_points=65)
    x = np.linspace(-1, 1, 4001)
    error = np.abs(proxy(x) - runge(x)).max()
    assert error < 200 * float(proxy.error) + 1e-13
    if width < 0.1:
        assert float(proxy.error) > 1e-4  # and says that it is not good


def test_convergence_is_geometric():
    """Error per point count falls as ρ^(−n), ρ from the pole at ±i/2: 1/2 + √(1 + 1/4)."""
    errors = []
    sizes = (9, 17, 33)
    x = np.linspace(-1, 1, 1001)
    for n in sizes:
        proxy = chebyshev_proxy(lambda t: 1 / (1 + 4 * t**2), -1.0, 1.0, start=n, max_points=n)
        errors.append(np.abs(proxy(x) - 1 / (1 + 4 * x**2)).max())
    rate = -np.polyfit(sizes, np.log(errors), 1)[0]
    assert rate == pytest.approx(np.log(0.5 + np.sqrt(1.25)), rel=0.1)


def test_columns_are_separate_functions():
    proxy = chebyshev_proxy(lambda x: np.stack([np.exp(x), np.zeros_like(x)], 1), 0.0, 1.0)
    assert proxy(0.5).tolist() == pytest.approx([np.exp(0.5), 0.0], abs=1e-14)
    assert proxy.error.shape == (2,)


def test_points_lie_inside_the_cube_and_never_change():
    points = uniform_replicates(5, 6, seed=3)
    assert points.shape == (16, 64, 5)
    assert points.min() > 0
    assert points.max() < 1
    uniform_replicates.cache_clear()
    assert np.array_equal(points, uniform_replicates(5, 6, seed=3))
    assert not np.array_equal(points, uniform_replicates(5, 6, seed=4))


def test_replicates_are_balanced_in_each_coordinate():
    """A scrambled Sobol sequence puts one of n points in each interval of length 1/n."""
    points = uniform_replicates(4, 5, seed=0)
    cells = np.floor(points * 32).astype(int)
    for replicate in cells:
        for column in replicate.T:
            assert sorted(column) == list(range(32))


def test_stated_errors_cover_the_truth():
    """E ∏ (1 + (u − 1/2)/2) = 1: errors in units of the stated ones over 60 seeds."""
    z = []
    for seed in range(60):
        points = uniform_replicates(3, 5, seed=seed)
        value, uncertainty = estimate_from_replicates((1 + (points - 0.5) / 2).prod(-1).mean(-1))
        z.append((value - 1) / uncertainty * student_quantile(16))
    assert 0.7 < np.std(z) < 1.4
    assert np.abs(z).max() < 5


def test_one_replicate_is_taken_as_exact():
    value, error = estimate_from_replicates(np.array([[3.0], [4.0]]))
    assert value.tolist() == [3.0, 4.0]
    assert error.tolist() == [0.0, 0.0]


def test_the_interval_of_replicates_holds_in_99_of_100_cases():
    """Student's own law: 16 normal replicates, 20,000 times; one standard error would not do."""
    samples = np.random.default_rng(0).standard_normal((20_000, 16))
    value, uncertainty = estimate_from_replicates(samples)
    held = np.abs(value) <= uncertainty
    assert 0.987 < held.mean() < 0.993
    plain = np.abs(value) <= uncertainty / student_quantile(16)
    assert plain.mean() < 0.75
