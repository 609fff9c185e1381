"""Priors: what is accepted, what is refused and how, and that names read back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyceptron.errors import InvalidInput
from polyceptron.problem import FinitePrior, GaussianPrior, as_prior, finite_prior


def test_named_priors():
    assert isinstance(as_prior("gaussian"), GaussianPrior)
    assert as_prior("rademacher") == FinitePrior((-1.0, 1.0), (0.5, 0.5), "rademacher")


@given(
    st.lists(st.floats(-50, 50), min_size=2, max_size=6, unique=True),
    st.data(),
)
def test_finite_prior_is_standardised_and_its_name_reads_back(values, data):
    weights = data.draw(st.lists(st.floats(0.01, 1), min_size=len(values), max_size=len(values)))
    p = np.array(weights) / sum(weights)
    centred = np.array(values) - p @ np.array(values)
    if np.ptp(centred) < 1e-6 or np.unique(centred).size < len(values):
        return
    prior = finite_prior(centred, p)
    v, q = np.array(prior.values), np.array(prior.probabilities)
    assert abs(q @ v) < 1e-9
    assert abs(q @ v**2 - 1) < 1e-9
    again = as_prior(prior.name)
    assert np.allclose(again.values, prior.values, rtol=1e-12)


@pytest.mark.parametrize(
    ("prior", "word"),
    [
        ("cauchy", "allowed"),
        ("sparse-gaussian:1.5", "density"),
        ("sparse-gaussian", "must be written"),
        (([-1, 1], [0.5, 0.6]), "sum to 1"),
        (([-1, 2], [0.5, 0.5]), "mean 0"),
        (([-1, 1], [0.5]), "as many probabilities"),
        (([0, 0], [0.5, 0.5]), "distinct"),
        (([float("nan"), 1], [0.5, 0.5]), "finite"),
        (([-1, 1], [1.5, -0.5]), "0 or more"),
        ((["a", 1], [0.5, 0.5]), "numbers"),
        (([-1, 1], [0.0, 1.0]), "two values"),
        ("finite[1:0.5;x]", "cannot read"),
        (3, "unknown prior"),
    ],
)
def test_refused_with_one_sentence(prior, word):
    with pytest.raises(InvalidInput, match=word) as info:
        as_prior(prior)
    assert "\n" not in str(info.value)


@pytest.mark.parametrize("name", ["finite[-2:0.2;0:0.6;2:0.2]", "sparse-gaussian:0.01"])
def test_samples_have_mean_zero_and_unit_variance(name):
    sample = as_prior(name).sample(np.random.default_rng(0), (200_000,))
    assert abs(sample.mean()) < 0.01
    assert abs(sample.var() - 1) < 4.5 * (sample**2).std() / np.sqrt(sample.size)
