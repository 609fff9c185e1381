"""No fixed ridge is better than the best one by more than its error bar, at random problems."""

from __future__ import annotations

import numpy as np
import pytest
from tests.references.best_ridge_problems import compare, random_population, random_teacher

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", range(30))
def test_two_and_three_classes(seed: int) -> None:
    rng = np.random.default_rng([40, seed])
    problem = random_teacher(rng, (2, 2, 3))
    found = compare(*problem, 1e-8 if seed % 5 == 0 else None)
    assert found.gap_in_bars <= 1, found


@pytest.mark.parametrize("seed", range(3))
def test_four_and_five_classes(seed: int) -> None:
    found = compare(*random_teacher(np.random.default_rng([41, seed]), (4, 5)))
    assert found.gap_in_bars <= 1, found


@pytest.mark.parametrize("seed", range(12))
def test_unequal_classes(seed: int) -> None:
    found = compare(*random_population(np.random.default_rng([42, seed])))
    assert found.gap_in_bars <= 1, found
