"""The minimiser over a positive parameter: valleys, limits, edges, and what it leaves open."""

from __future__ import annotations

import math

import numpy as np
import pytest

from polyceptron.solve.minimise import Place, Trial, check_minimum, minimise


@pytest.mark.parametrize("tol", [1e-4, 1e-6, 1e-9])
@pytest.mark.parametrize("with_slope", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_left_open_covers_what_a_dense_grid_can_gain(seed, with_slope, tol):
    """Valleys of random place, depth and skewness, at all distances from the first guess."""
    rng = np.random.default_rng(seed)
    middle = rng.uniform(-12, 8)
    depth = 10 ** rng.uniform(-3, 0)
    left = rng.uniform(0.3, 1.0)
    right = rng.uniform(0.3, 1.0)
    level = rng.uniform(0.05, 0.5)

    def value(x):
        # ln(e^u + e^-v) rises linearly on both sides: a smooth valley that is not symmetric.
        return level + depth * np.logaddexp(right * (x - middle), -left * (x - middle))

    def slope(x):
        up = 1 / (1 + np.exp(-(left + right) * (x - middle)))
        return depth * (right * up - left * (1 - up))

    def objective(parameter):
        x = math.log(parameter)
        return Trial(float(value(x)), float(slope(x)) if with_slope else math.nan)

    found = minimise(objective, 0.1, tol, range_=(1e-15, 1e15))
    least = value(np.linspace(-25, 25, 2_000_001)).min()
    assert found.place == Place.INSIDE
    assert found.trial.value - least <= found.left_open + 1e-13
    assert found.left_open < tol


def test_the_limit_zero_is_a_candidate():
    """A function that rises from λ = 0 on: the limit where it is known, else a λ as good as it."""

    def rising(parameter):
        return Trial(0.2 + 1e-3 * parameter / (1 + parameter))

    exact = minimise(rising, 0.1, 1e-6, limit_at_zero=True)
    assert (exact.parameter, exact.trial.value, exact.place) == (0.0, 0.2, Place.ZERO)
    near = minimise(rising, 0.1, 1e-6)
    assert near.place == Place.ZERO
    assert near.trial.value - 0.2 <= near.left_open < 1e-6


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4, 1e6])
def test_the_limit_infinity_is_a_candidate(scale):
    found = minimise(lambda x: Trial(0.2 + 0.01 / (1 + x / scale)), 0.1, 1e-6, range_=(1e-9, 1e14))
    assert found.place == Place.INFINITY
    assert found.trial.value - 0.2 <= found.left_open < 1e-6


def test_a_limit_that_cannot_be_computed_is_no_candidate():
    def rising(parameter):
        return Trial(math.inf if parameter == 0 else 0.2 + 1e-3 * parameter / (1 + parameter))

    found = minimise(rising, 0.1, 1e-6, limit_at_zero=True)
    assert found.parameter > 0
    assert found.trial.value - 0.2 <= found.left_open < 1e-6


def test_the_limit_behind_failures_is_a_candidate():
    """Small λ cannot be computed, but their limit can: it counts, as an edge with what is open."""

    def objective(parameter):
        if 0 < parameter < 1e-2:
            return Trial(math.inf)
        return Trial(math.sqrt(parameter))

    found = minimise(objective, 1.0, 1e-6, limit_at_zero=True)
    assert found.parameter == 0
    assert found.place == Place.EDGE
    assert found.left_open == pytest.approx(0.1, rel=0.2)  # the last λ is about 0.01


@pytest.mark.parametrize("power", [0.1, 0.3, 1.0])
def test_left_open_covers_a_slow_approach_to_a_limit(power):
    """Towards infinity the function falls as λ^(−p): what is left beyond the end is counted."""
    found = minimise(lambda x: Trial(x**-power), 1.0, 1e-8, range_=(1e-6, 1e6))
    assert found.trial.value <= found.left_open * 1.01


def test_an_edge_is_named():
    """Below λ = 1e-3 nothing can be computed, and the function still falls there."""
    found = minimise(lambda x: Trial(math.inf if x < 1e-3 else x), 0.1, 1e-6)
    assert found.place == Place.EDGE
    assert found.left_open > found.trial.value - 1e-3
    # At the end of the range it falls as steeply as before.
    found = minimise(lambda x: Trial(-math.log(x)), 0.1, 1e-6)
    assert found.place == Place.EDGE
    assert found.left_open > 0.1


def test_nothing_that_can_be_computed():
    assert minimise(lambda _: Trial(math.inf), 1.0, 1e-6) is None
    assert check_minimum(lambda _: Trial(math.inf), 1.0, 1e-6) is None


def test_a_valley_between_two_constant_stretches():
    """As of hinges with few data: the first guess lies where λ does not matter."""

    def value(x):
        return 0.5 + 1e-4 * np.tanh(x - 2) - 3e-4 * np.exp(-2 * (x - 1.5) ** 2)

    def objective(parameter):
        return Trial(0.5 - 1e-4 if parameter == 0 else float(value(math.log(parameter))))

    least = value(np.linspace(-10, 10, 200_001)).min()
    for start in (1e-6, 1e-3, 0.1, 1e3, 1e6):
        found = minimise(objective, start, 1e-6, limit_at_zero=True)
        assert found.place == Place.INSIDE
        assert found.trial.value - least <= found.left_open < 1e-6


def test_a_deeper_valley_of_a_scan_is_found():
    def objective(parameter):
        x = math.log(parameter)
        return Trial(1 - math.exp(-((x - 2) ** 2)) - 1.2 * math.exp(-((x + 9) ** 2)))

    scan = tuple(np.exp(np.arange(-15.0, 15.0)))
    found = minimise(objective, 3.0, 1e-9, scan=scan)
    assert math.log(found.parameter) == pytest.approx(-9, abs=1e-3)


def test_a_constant_function_keeps_the_first_guess():
    found = minimise(lambda _: Trial(0.5), 0.1, 1e-6, limit_at_zero=True)
    assert found.parameter == pytest.approx(0.1)
    assert found.left_open == 0


def test_a_relative_tolerance_resolves_small_values():
    def objective(parameter):
        return Trial(1e-7 * (1 + (math.log(parameter) + 20) ** 2))

    rough = minimise(objective, 0.1, 1e-4)
    fine = minimise(objective, 0.1, 1e-4, relative_tol=1e-3)
    assert abs(math.log(fine.parameter) + 20) < 0.02
    assert fine.left_open < 1e-9
    assert rough.trial.value - 1e-7 <= 1e-4


def test_a_coarse_minimum_is_corrected():
    found = check_minimum(lambda x: Trial((math.log(x) - 1) ** 2), math.exp(1.2), 1e-8)
    assert math.log(found.parameter) == pytest.approx(1, abs=1e-4)


def test_each_place_is_tried_once():
    """A trial is a fixed point, which may take a second."""
    seen = []

    def objective(parameter):
        seen.append(parameter)
        return Trial((math.log(parameter) - 3) ** 2)

    minimise(objective, 0.1, 1e-6)
    assert len(seen) == len(set(seen))


@pytest.mark.parametrize("sign", [1, -1])
def test_a_slow_steady_fall_has_no_limit(sign):
    """Each step falls by less than the tolerance, and nothing says that it ever ends."""
    found = minimise(lambda x: Trial(-sign * 2e-7 * math.log(x)), 1.0, 1e-6)
    assert found.place == Place.EDGE


@pytest.mark.parametrize("bottom", [-27.5, -26.6, 26.6])
def test_trials_stay_within_the_range(bottom):
    """But for the neighbours of a check, which looks LONGEST_CHECK = 0.3 beyond an end."""
    seen = []

    def objective(parameter):
        seen.append(parameter)
        if parameter == 0:
            return Trial(1.0)
        return Trial(0.01 * (math.log(parameter) - bottom) ** 2)

    found = minimise(objective, 1.0, 1e-6, range_=(1e-12, 1e12), limit_at_zero=True)
    assert math.log(found.parameter) == pytest.approx(bottom, abs=0.01)
    beyond = max(abs(math.log(parameter)) for parameter in seen if parameter > 0)
    assert beyond <= math.log(1e12) + 0.3


def test_a_failure_before_the_limit_does_not_stop_the_search():
    """The function is constant at small λ, fails further out, and has another value at the end."""
    n_trials = 0

    def objective(parameter):
        nonlocal n_trials
        n_trials += 1
        x = math.log(parameter)
        if 10 < x < 20:
            return Trial(math.inf)
        return Trial(1.0 if x < 15 else 0.5)

    found = minimise(objective, 1.0, 1e-6)
    assert found.trial.value == 0.5
    assert found.place == Place.EDGE
    assert n_trials < 50


def test_a_valley_before_the_last_trial_is_not_taken_for_the_limit():
    """Its gap is not filled by widening, since a gap on the other side cannot be."""

    def objective(parameter):
        x = math.log(parameter)
        if -19 < x < -5:
            return Trial(math.inf)
        if x <= -19:
            return Trial(0.5 + 1e-7)
        falling = 0.5 / (1 + math.exp(2 * (x - 12)))
        valley = -0.3 * math.exp(-((x - 20) ** 2) / 2)
        return Trial(0.5 + falling + valley)

    scan = tuple(math.exp(x) for x in (-20.0, 5.0, 27.6))
    found = minimise(objective, 1.0, 1e-6, scan=scan)
    assert found.place == Place.INSIDE
    assert math.log(found.parameter) == pytest.approx(20, abs=0.01)
