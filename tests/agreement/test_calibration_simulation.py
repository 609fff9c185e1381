"""Test loss and calibration against fits on drawn data, and against a wrong noise."""

import math

import numpy as np
import pytest

import polyceptron as pc
from polyceptron.problem.channels import as_channel

pytestmark = pytest.mark.slow

D, ALPHA, RIDGE = 500, 4.0, 0.05


def fitted_scores(noise: str, k: int, seed: int) -> np.ndarray:
    """Test loss, Brier score and calibration error of one fit, on fresh fields."""
    rng = np.random.default_rng(seed)
    data = pc.Teacher(k, noise=noise).sample(int(ALPHA * D), D, seed=rng)
    W = pc.fit_erm(data.X, data.y, "cross-entropy", RIDGE).weights
    # Fields on fresh inputs are normal, with the covariance of both sets of weights.
    both = np.linalg.qr(np.hstack([data.weights, W]) / math.sqrt(D))[1]
    fields = rng.standard_normal((20_000, 2 * k)) @ both
    y, z = as_channel(noise).sample(fields[:, :k], rng), fields[:, k:]
    p = np.exp(z - z.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    rows = np.arange(len(y))
    hit, top = p.argmax(1) == y, p.max(1)
    edges = np.linspace(1 / k, 1, 16)
    place = np.clip(np.digitize(top, edges) - 1, 0, 14)
    error = sum(abs((top - hit)[place == b].sum()) for b in range(15)) / len(y)
    brier = (p**2).sum(1) - 2 * p[rows, y] + 1
    return np.array([-np.log(p[rows, y]).mean(), brier.mean(), error])


@pytest.mark.parametrize(("k", "noise"), [(2, "softmax:2"), (3, "gaussian:0.5"), (3, "flips:0.1")])
def test_scores_on_fresh_samples(k, noise):
    runs = np.array([fitted_scores(noise, k, seed) for seed in range(6)])
    theory = pc.calibration(pc.Teacher(k, noise=noise), pc.ERM("cross-entropy", RIDGE), ALPHA)
    predicted = np.array([theory.test_loss, theory.brier, theory.calibration_error])
    deviation = runs.std(0, ddof=1) / math.sqrt(len(runs))
    # one standard error is itself known to 30 %: five of them, and 1/d for the limit
    assert np.all(np.abs(runs.mean(0) - predicted) < 5 * deviation + 2 / D)
    wrong = pc.calibration(pc.Teacher(k, noise="gaussian:2"), pc.ERM("cross-entropy", RIDGE), ALPHA)
    assert abs(runs[:, 0].mean() - wrong.test_loss) > 2 * (5 * deviation[0] + 2 / D)
