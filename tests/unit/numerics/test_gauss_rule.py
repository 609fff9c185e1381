"""Few nodes for sums over many eigenvalues."""

from __future__ import annotations

import math

import numpy as np
import pytest

from polyceptron.numerics.special import local_gauss
from polyceptron.problem.penalties import spectrum_sums
from polyceptron.problem.spectrum import as_spectrum


def test_gauss_rule_is_exact_for_polynomials_of_the_logarithm() -> None:
    rng = np.random.default_rng(3)
    s, w = np.exp(rng.uniform(-4, 3, 2000)), rng.exponential(size=2000)
    nodes, weights = local_gauss(s, w)
    assert len(nodes) <= 4 * 141
    x, y = np.log(s) / 4, np.log(nodes) / 4
    for degree in range(8):
        assert weights @ y**degree == pytest.approx(w @ x**degree, rel=1e-11, abs=1e-11)


def test_few_values_are_summed_as_they_are() -> None:
    np.testing.assert_array_equal(local_gauss(np.array([2.0, 0.0, 1.0]), np.ones(3))[0], [2.0, 1.0])


@pytest.mark.parametrize("name", ["power:0.05:1000", "power:1.2:1000", "power:2:700"])
@pytest.mark.parametrize("ridge", [1e-6, 0.1, 30.0])
def test_sums_over_a_thousand_eigenvalues_are_those_over_each(name: str, ridge: float) -> None:
    spectrum = as_spectrum(name)
    s, share = spectrum.eigenvalues, spectrum.fraction
    for V_hat in (1e-4, 0.3, 20.0, 1e5):
        found = [float(part[0]) for part in spectrum_sums(ridge, spectrum, np.array([V_hat]))]
        x = s / (ridge + V_hat * s)
        mean, kept = math.fsum(share * s * x), math.fsum(share * s * ridge / (ridge + V_hat * s))
        spread = math.fsum(share * s * (x - mean) ** 2)
        plain = [math.fsum(share * x), mean, math.fsum(share * x**2), spread, kept]
        np.testing.assert_allclose(found, plain, rtol=1e-11, atol=1e-13 * mean**2)
