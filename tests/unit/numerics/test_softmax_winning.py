"""The table of three classes, the rule of two, and the integral for any k agree."""

import math

import numpy as np
import pytest
from scipy.integrate import dblquad
from scipy.special import expit

from polyceptron.numerics.gumbel import (
    integrate_utilities,
    three_softmax,
    utility_table,
    winning_label,
)
from polyceptron.problem.channels.softmax import _two_classes

NOISES = [1e-6, 0.05, 0.7, 3.0, 40.0, 1e4]


@pytest.mark.parametrize("s", NOISES)
def test_three_classes_against_the_integral_for_any_number(s):
    rng = np.random.default_rng(0)
    n = 500
    gaps = rng.standard_normal((2, n)) * 4 * math.hypot(1, s) * rng.choice([0.2, 1, 4], n)
    z, slopes = three_softmax(gaps, s)
    omega = np.concatenate([np.zeros((1, n)), -gaps]).T
    label = np.zeros(n, dtype=np.int64)
    nodes = integrate_utilities(omega, label, utility_table(s)).orthant(label)
    expected = np.exp(nodes.log_z)
    assert z == pytest.approx(expected, abs=1e-9)
    width = math.hypot(1, s)
    assert slopes * width == pytest.approx(-expected * nodes.score[:, 1:].T * width, abs=2e-9)


def test_three_classes_by_brute_force():
    """E over the two normal gaps of 1/(1 + e^{−g₁} + e^{−g₂})."""
    s, gaps = 0.8, (0.5, -1.0)

    def integrand(a, b):
        x = gaps[0] + s * math.sqrt(2) * a
        y = gaps[1] + s * math.sqrt(2) * (a / 2 + math.sqrt(3) / 2 * b)
        return math.exp(-(a * a + b * b) / 2) / (2 * math.pi) / (1 + math.exp(-x) + math.exp(-y))

    expected = dblquad(integrand, -8, 8, -8, 8, epsabs=1e-9)[0]
    assert three_softmax(np.array(gaps)[:, None], s)[0][0] == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("s", [0.0, 0.3, 3.2, 3.4, 6.1, 30.0])
def test_two_classes_against_many_nodes(s):
    x = np.linspace(-5, 5, 11) * (1 + s)
    xi = np.linspace(-10, 10, 40_001)
    density = np.exp(-0.5 * xi**2)
    p = expit(x[:, None] + s * xi)
    found = _two_classes(x, s, 1.0)
    assert found.z == pytest.approx(p @ density / density.sum(), abs=1e-10)
    assert found.slopes[0] == pytest.approx((p * (1 - p)) @ density / density.sum(), abs=1e-10)


@pytest.mark.parametrize("k", [4, 30])
@pytest.mark.parametrize("s", [0.01, 1.0, 6.0])
def test_a_label_of_many_classes_is_as_likely_with_few_nodes(k, s):
    fields = 2.0 * np.random.default_rng(k).standard_normal((100, k))
    label = np.zeros(100, dtype=np.int64)
    nodes = integrate_utilities(fields, label, utility_table(s)).orthant(label)
    z, slopes = winning_label(fields, utility_table(s))
    assert np.allclose(z, np.exp(nodes.log_z), rtol=0, atol=1e-7)
    assert np.allclose(slopes, -z[:, None] * nodes.score[:, 1:], rtol=0, atol=1e-7)
