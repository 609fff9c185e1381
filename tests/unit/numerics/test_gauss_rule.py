"""Few nodes for sums over many eigenvalues."""

from __future__ import annotations

import math

import numpy as np
import pytest

from polyceptron.model.features import as_spectrum
from polyceptron.model.penalties.penalty import spectrum_sums
from polyceptron.numerics.chebyshev import gauss_rule


def test_gauss_rule_is_exact_for_polynomials_of_the_logarithm() -> None:
    rng = np.random.default_rng(3)
    s, w = np.exp(rng.uniform(-4, 3, 700)), rng.exponential(size=700)
    nodes, weights = gauss_rule(s, w)
    assert len(nodes) < 40
    x, y = np.log(s) / 4, np.log(nodes) / 4
    for degree in range(2 * len(nodes)):
        assert weights @ y**degree == pytest.approx(w @ x**degree, rel=1e-11, abs=1e-11)


def test_few_or_far_spread_values_are_summed_as_they_are() -> None:
    few = np.array([3.0, 1.0]), np.array([0.5, 0.5])
    far = np.geomspace(1e-40, 1.0, 200), np.ones(200)
    for values, weights in (few, far):
        np.testing.assert_array_equal(gauss_rule(values, weights)[0], values)
    np.testing.assert_array_equal(gauss_rule(np.array([2.0, 0.0, 1.0]), np.ones(3))[0], [2.0, 1.0])


@pytest.mark.parametrize("name", ["power:0.05:1000", "power:1.2:1000", "power:2:700"])
@pytest.mark.parametrize("ridge", [1e-6, 0.1, 30.0])
def test_sums_over_a_thousand_eigenvalues_are_those_over_each(name: str, ridge: float) -> None:
    spectrum = as_spectrum(name)
    s, share = spectrum.eigenvalues, spectrum.fraction
    assert len(spectrum.by_feature[0]) < 50
    for V_hat in (1e-4, 0.3, 20.0, 1e5):
        found = [float(part[0]) for part in spectrum_sums(ridge, spectrum, np.array([V_hat]))]
        x = s / (ridge + V_hat * s)
        mean, kept = math.fsum(share * s * x), math.fsum(share * s * ridge / (ridge + V_hat * s))
        spread = math.fsum(share * s * (x - mean) ** 2)
        plain = [math.fsum(share * x), mean, math.fsum(share * x**2), spread, kept]
        np.testing.assert_allclose(found, plain, rtol=1e-11, atol=1e-13 * mean**2)
