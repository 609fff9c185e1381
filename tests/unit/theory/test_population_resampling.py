"""Two students of classes that are not alike: scalars, limits, equations written here, and fits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ndtr

import polyceptron as pc
from polyceptron.checks import difference_basis

RARE = pc.Mixture((0.8, 0.2), separation=2.0)


def values(found):
    return {(row["quantity"], row["fits"]): row["value"] for row in found.rows if row["fits"] > 0}


@pytest.mark.parametrize("loss", ["cross-entropy", "square"])
def test_equal_classes_return_the_scalars(loss):
    """On whose average two routes agree: f̄ convolved there, sums and differences of fields here."""
    teacher, weight = pc.Teacher(2, noise="flips:0.1"), (1 + 1e-12, 1.0)  # asks for matrices
    plain, matrices = (
        pc.resampling(teacher, pc.ERM(loss, 0.3, class_weight=w), 2.0) for w in (None, weight)
    )
    assert [row["quantity"] for row in plain.rows] == [row["quantity"] for row in matrices.rows]
    for one, two in zip(plain.rows, matrices.rows, strict=True):
        assert abs(one["value"] - two["value"]) <= one["uncertainty"] + two["uncertainty"]
        assert two["status"] == "ok"
    assert matrices.q12[0, 0, 0] == pytest.approx(plain.q12, rel=1e-7)


def test_all_samples_and_halves():
    """The ordinary student; a smaller data set, of which another shares the population alone."""
    spec = pc.ERM("cross-entropy", 0.3, intercept=True, class_weight="balanced")
    whole, half = (pc.erm_fixed_point(RARE, spec, alpha) for alpha in (2.0, 1.0))
    found = pc.resampling(RARE, spec, 2.0, "subsample:1")
    np.testing.assert_allclose(found.q12, whole.Q, rtol=1e-6)
    for number in (1, 10, math.inf):
        error = values(found)["error", number]
        assert error == pytest.approx(whole.generalisation_error, abs=2e-6)
    assert values(found)["agreement", 2] == 1
    found = pc.resampling(RARE, spec, 2.0, "folds:2")
    off = half.generalisation_error - whole.generalisation_error
    assert values(found)["bias", 1] == pytest.approx(off, abs=2e-6)
    # Fields of a direction in the span of the means alone, m = v·(μ₁ − μ₂): separation² = 4.
    m = half.m[:, 0]
    np.testing.assert_allclose(found.q12[:, 0, 0], (m[0] - m[1]) ** 2 / 4, rtol=1e-5)


def test_the_square_loss_solves_its_equations():
    """Bootstrapped ridge regression on two clusters: f = g_w(t − ω), all averages by hand."""
    alpha, ridge, p, G = 2.0, 0.5, np.array([0.8, 0.2]), np.array([[1.0, -1.0], [-1.0, 1.0]])
    t = difference_basis(2)[:, 0]
    w = np.arange(40.0)
    chance = np.exp(-1.0) / np.array([math.factorial(int(i)) for i in w])

    def g(v, power):
        return float(chance @ (w / (1 + w * v)) ** power)

    v = brentq(lambda v: v * (ridge + alpha * g(v, 1)) - 1, 1e-3, 1e3)
    pull = alpha * p * g(v, 1)
    m = np.linalg.solve(np.eye(2) + v * G * pull, v * G @ (pull * t))
    m_hat = pull * (t - m)
    known, away = v * v * m_hat @ G @ m_hat, p @ (t - m) ** 2
    q, q12 = (
        (known + s * away) / (1 - s) for s in (alpha * v * v * x for x in (g(v, 2), g(v, 1) ** 2))
    )
    found = pc.resampling(RARE, pc.ERM("square", ridge), alpha)
    np.testing.assert_allclose(found.m[:, 0], m, rtol=1e-7)
    np.testing.assert_allclose(found.q[:, 0, 0], q, rtol=1e-7)
    np.testing.assert_allclose(found.q12[:, 0, 0], q12, rtol=1e-7)


def test_rows_meet_fits_on_bootstrap_samples():
    """With d and n as they are: overlaps on class differences, errors exactly by their fields."""
    d, alpha, fits, T = 150, 2.0, 4, difference_basis(2)[:, 0]
    spec, seen = pc.ERM("cross-entropy", 0.3, intercept=True), []
    for seed in range(8):
        X, y, mu = RARE.sample(int(alpha * d), d, seed=seed)
        rng, weights, b = np.random.default_rng([seed, 0]), [], []
        for _ in range(fits):
            n = np.bincount(rng.integers(len(y), size=len(y)), minlength=len(y))
            kept = n > 0
            fit = pc.fit_erm(
                X[kept], y[kept], "cross-entropy", 0.3, intercept=True, sample_weight=n[kept] * 1.0
            )
            weights.append(fit.weights @ T)
            b.append(fit.intercepts @ T)
        U, b = np.array(weights), np.array(b)
        overlap, pairs = U @ U.T / d, np.triu_indices(fits, 1)
        every = np.concatenate([U, U.mean(0)[None]]), np.append(b, b.mean())
        side = (every[0] @ mu / d + every[1][:, None]) / np.linalg.norm(
            every[0] / math.sqrt(d), axis=1
        )[:, None]
        wrong = [
            0.8 * ndtr(-s[0] * np.sign(T[0])) + 0.2 * ndtr(-s[1] * np.sign(T[1])) for s in side
        ]
        seen.append(
            [np.diag(overlap).mean(), overlap[pairs].mean(), np.mean(wrong[:-1]), wrong[-1]]
        )
    found = pc.resampling(RARE, spec, alpha, fits=(1, fits))
    exact = [found.q[0, 0, 0], found.q12[0, 0, 0], *(values(found)["error", i] for i in (1, fits))]
    z = (np.mean(seen, axis=0) - exact) / (np.std(seen, axis=0, ddof=1) / math.sqrt(len(seen)))
    assert np.abs(z).max() < 4.5, z
