"""Means and standard errors against numpy, and what has no place in a mean."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from polyceptron.numerics.averages import Average, deviation

NUMBERS = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=40)


@given(NUMBERS)
def test_mean_and_standard_error_are_those_of_numpy(values: list[float]) -> None:
    found = Average.of(values)
    assert found.count == len(values)
    assert found.mean == pytest.approx(np.mean(values), rel=1e-12, abs=1e-9)
    expected = np.std(values, ddof=1) / math.sqrt(len(values))
    assert found.standard_error == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_a_small_spread_on_a_large_mean_survives() -> None:
    """Σx² − (Σx)²/n would lose all digits here."""
    found = Average.of([1e9 + x for x in (0.0, 1.0, 2.0)])
    assert found.standard_error == pytest.approx(1 / math.sqrt(3), rel=1e-12)


@given(NUMBERS, st.lists(st.sampled_from([None, math.nan, math.inf, -math.inf]), max_size=4))
def test_what_is_no_number_is_counted_and_left_out(
    values: list[float], others: list[float | None]
) -> None:
    mixed = Average.of([*others, *values, *others])
    assert (mixed.count, mixed.mean) == (len(values), Average.of(values).mean)


def test_too_few_numbers_have_no_error() -> None:
    empty = Average.of([])
    assert (empty.mean, empty.standard_error) == (None, None)
    one = Average.of([2])
    assert (one.mean, one.standard_error, type(one.mean)) == (2.0, None, float)
    assert Average.of([3.0, 3.0]).standard_error == 0.0


def test_the_standard_error_covers_as_it_should() -> None:
    """2000 means of 20 normal numbers: z has the variance of Student's t, 19/17, and mean 0."""
    rng = np.random.default_rng(np.random.SeedSequence(0))
    z = []
    for _ in range(2000):
        found = Average.of(rng.normal(0.3, 2.0, 20))
        z.append(deviation(found.mean, found.standard_error, 0.3))
    assert np.mean(z) == pytest.approx(0, abs=5 * math.sqrt(19 / 17 / 2000))
    assert np.var(z) == pytest.approx(19 / 17, rel=0.2)


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 3, 4, 10, 1000])
def test_z_of_few_instances_is_as_rare_as_a_normal_deviate(count: int) -> None:
    """One in twenty beyond 1.96 and one in a hundred beyond 2.576, whatever the count."""
    rng = np.random.default_rng(np.random.SeedSequence(count))
    z = []
    for _ in range(4000):
        found = Average.of(rng.normal(0.3, 2.0, count))
        z.append(deviation(found.mean, found.standard_error, 0.3, count=count))
    for share in (0.05, 0.01):
        limit = norm.isf(share / 2)
        rare = np.mean(np.abs(z) > limit)
        assert rare == pytest.approx(share, abs=4.5 * math.sqrt(share / 4000))
    assert np.mean(z) == pytest.approx(0, abs=5 / math.sqrt(4000))


def test_z_knows_how_much_of_the_error_is_the_theory_s() -> None:
    """Where the theory's uncertainty dominates, the count no longer matters."""
    few, many = (deviation(5.0, 1e-4, 2.5, 1.0, count=n) for n in (2, 1000))
    assert few == pytest.approx(2.5, rel=1e-4)
    assert many == pytest.approx(2.5, rel=1e-6)
    assert deviation(1e6, 1.0, 0.0, count=1000) > 30  # where Student's tail underflows, or nearly
    assert deviation(-5.7, 1.0, 0.0, count=4) == pytest.approx(-2.56, abs=0.01)


def test_a_deviation_needs_both_sides() -> None:
    assert deviation(None, 0.1, 0.5) is None
    assert deviation(0.5, None, 0.5) is None
    assert deviation(0.5, 0.0, 0.5) is None  # equal rows have no scale
    assert deviation(0.5, 0.1, None) is None
    assert deviation(0.5, 0.1, math.inf) is None
    assert deviation(0.5, 0.1, 0.3, None) == pytest.approx(2.0)
    assert deviation(5.0, 0.75, 2.5, 1.0) == 2.0
