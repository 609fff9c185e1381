"""A row of weights on class differences, beyond what every registered prior is asked in harness."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polyceptron.checks import project
from polyceptron.problem import PRIORS, Perceptron, as_prior
from polyceptron.problem.priors.prior import PointRow, WeightsRow

EVERY = [*PRIORS.examples(), as_prior(([-2, 0, 1], [0.2, 0.4, 0.4]))]
NAMES = [prior.name for prior in EVERY]


@pytest.mark.parametrize("prior", EVERY, ids=NAMES)
@pytest.mark.parametrize("k", [2, 3, 6])
def test_extreme_precisions_stay_finite(prior: Any, k: int) -> None:
    rng = np.random.default_rng(k)
    u = project(prior.sample(rng, (8, k)))
    for precision in (0.0, 1e-12, 1e4):
        posterior = prior.row(k).posterior(precision * u, np.full(8, precision))
        assert all(np.isfinite(part).all() for part in posterior)
        assert (posterior.variance >= 0).all()
        expected, tol = (u, 0.1) if precision > 1 else (0 * u, 1e-9)
        np.testing.assert_allclose(posterior.mean, expected, atol=tol)


@pytest.mark.parametrize("prior", ["rademacher", ([-2, 0, 1], [0.2, 0.4, 0.4])])
@pytest.mark.parametrize("k", [2, 3, 5])
def test_points_and_the_decoupling_field_agree_far_from_the_origin(prior: Any, k: int) -> None:
    law = as_prior(prior)
    rng = np.random.default_rng(k)
    gamma, precision = 3 * project(rng.standard_normal((30, k))), rng.uniform(0.01, 50, 30)
    one, other = (kind(law, k).posterior(gamma, precision) for kind in (PointRow, WeightsRow))
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-10)


@pytest.mark.parametrize("prior", EVERY, ids=NAMES)
def test_one_weight_without_a_shift_is_the_prior_itself(prior: Any) -> None:
    """The perceptron's row (−w, w)/√2: its posterior is that of w."""
    b = np.linspace(-4, 4, 9)
    direction = np.array([-1, 1]) / np.sqrt(2)
    found, tilted = (
        Perceptron(prior).row.posterior(b[:, None] * direction, 1.4),
        prior.tilted(b, 1.4),
    )
    np.testing.assert_allclose(found.mean @ direction, tilted.mean, atol=1e-12)
    np.testing.assert_allclose(found.variance, tilted.variance, atol=1e-12)
