"""Full variances: equal to an independent Algorithm 1, and to the shared variance as d grows."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import polyceptron as pc
from polyceptron.message_passing.posterior_mean import amp

pytestmark = pytest.mark.slow

RIVAL = Path(__file__).parents[2] / "benchmarks" / "rival_amp.py"


@pytest.fixture(scope="module")
def rival() -> ModuleType:
    spec = importlib.util.spec_from_file_location("rival_amp", RIVAL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_quadratures_sample_by_sample_give_the_same_weights(rival: ModuleType) -> None:
    """Algorithm 1 written from the paper's integrals, at k = 3: every iterate, not only the end."""
    data = pc.Teacher(3).sample(75, 50, 4)
    other = rival.RivalAMP(data.X, data.y)
    for steps in range(1, 8):
        other.step()
        ours = amp(data.X, data.y, variances="full", tol=1e-14, max_iter=steps)
        np.testing.assert_allclose(ours.weights, other.weights, atol=1e-7)
    shared = amp(data.X, data.y, variances="shared", tol=1e-14, max_iter=7)
    assert np.abs(shared.weights - other.weights).max() > 1e-3  # the comparison can fail


@pytest.mark.parametrize(
    ("k", "prior", "alpha"), [(2, "gaussian", 1.5), (3, "rademacher", 1.5), (4, "gaussian", 1.5)]
)
def test_shared_and_full_approach_each_other_as_the_dimension_grows(
    k: int, prior: str, alpha: float
) -> None:
    """Their relative distance falls as 1/√d: V_ν and Λ_j fluctuate by that much."""
    teacher, dimensions = pc.Teacher(k, prior), (100, 200, 400, 800)
    distances = []
    for d in dimensions:
        found = []
        for seed in range({100: 4, 200: 4, 400: 2, 800: 1}[d]):
            data = teacher.sample(round(alpha * d), d, [k, d, seed])
            a, b = (
                amp(data.X, data.y, prior, v, n_classes=k, tol=1e-5) for v in ("shared", "full")
            )
            found.append(np.linalg.norm(a.weights - b.weights) / np.linalg.norm(b.weights))
        distances.append(np.mean(found))
    slope = np.polyfit(np.log(dimensions), np.log(distances), 1)[0]
    assert -0.75 < slope < -0.3, distances
    assert distances[-1] < 0.03


def test_full_variances_have_the_size_of_the_shared_one() -> None:
    for k in (3, 5):
        data = pc.Teacher(k).sample(600, 400, 1)
        shared = amp(data.X, data.y).variance
        full = amp(data.X, data.y, variances="full").variance
        if k == 3:
            trace = np.trace(full, axis1=1, axis2=2) / 2
            np.testing.assert_allclose(full.sum(-1), 0, atol=1e-12)
            assert np.linalg.eigvalsh(full)[:, 1:].min() > 0
        else:
            trace = full.mean(1)
        assert trace.mean() == pytest.approx(shared, rel=0.01)
        assert trace.std() < 0.1 * shared
