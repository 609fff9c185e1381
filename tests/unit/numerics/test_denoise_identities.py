"""The posterior of one teacher row: derivatives of its log-partition, two ways to sum, limits."""

from __future__ import annotations

import numpy as np
import pytest

from polyceptron.model import as_prior
from polyceptron.numerics.denoise import (
    _denoise_decoupled,
    denoise,
    denoise_points,
    project,
    reduced_support,
)

PRIORS = ["gaussian", "rademacher", ([-2, 0, 1], [0.2, 0.4, 0.4])]


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("k", [2, 3, 5, 11])
def test_mean_and_variance_are_derivatives_of_ln_z(prior: object, k: int) -> None:
    law = as_prior(prior)
    rng = np.random.default_rng(k)
    gamma, precision = rng.standard_normal((12, k)), rng.uniform(0.2, 6, 12)
    posterior = denoise(law, gamma, precision)
    trace = np.zeros(12)
    for h in range(k):
        step = 1e-4 * np.eye(k)[h]
        up, down = (denoise(law, gamma + s * step, precision) for s in (1, -1))
        np.testing.assert_allclose(posterior.mean[:, h], (up.log_z - down.log_z) / 2e-4, atol=1e-7)
        trace += (up.mean[:, h] - down.mean[:, h]) / 2e-4
    np.testing.assert_allclose(posterior.variance, trace, atol=1e-6)
    np.testing.assert_allclose(posterior.mean.sum(-1), 0, atol=1e-12)


@pytest.mark.parametrize("prior", PRIORS[1:])
@pytest.mark.parametrize("k", [2, 3, 5])
def test_enumeration_and_the_decoupling_field_agree(prior: object, k: int) -> None:
    law = as_prior(prior)
    rng = np.random.default_rng(k)
    gamma, precision = 3 * project(rng.standard_normal((30, k))), rng.uniform(0.01, 50, 30)
    one = denoise_points(*reduced_support(law, k), gamma, precision)
    other = _denoise_decoupled(law, gamma, precision)
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-10)


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("k", [2, 3, 10])
def test_the_posterior_mean_is_calibrated(prior: object, k: int) -> None:
    """E⟨u⟩·u = E‖⟨u⟩‖² and E‖u − ⟨u⟩‖² = E variance, when γ is drawn from the model."""
    law = as_prior(prior)
    rng = np.random.default_rng(k)
    n, precision = 20_000, 1.7
    u = project(law.sample(rng, (n, k)))
    gamma = precision * u + np.sqrt(precision) * project(rng.standard_normal((n, k)))
    posterior = denoise(law, gamma, np.float64(precision))
    overlap = (posterior.mean * u).sum(-1) - (posterior.mean**2).sum(-1)
    spread = ((u - posterior.mean) ** 2).sum(-1) - posterior.variance
    for sample in (overlap, spread):
        assert abs(sample.mean()) < 4.5 * sample.std() / np.sqrt(n)


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("k", [2, 3, 10])
def test_extreme_precisions_stay_finite(prior: object, k: int) -> None:
    law = as_prior(prior)
    rng = np.random.default_rng(k)
    u = project(law.sample(rng, (8, k)))
    for precision in (0.0, 1e-12, 1e4):
        posterior = denoise(law, precision * u, np.full(8, precision))
        assert all(np.isfinite(part).all() for part in posterior)
        assert (posterior.variance >= 0).all()
        if precision > 1:
            np.testing.assert_allclose(posterior.mean, u, atol=1e-3)
        else:
            np.testing.assert_allclose(posterior.mean, 0, atol=1e-9)
