"""Three classes against mpmath, in the bulk and in every tail."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.special import ndtr, owens_t

from polyceptron.numerics.bivariate import bivariate_orthant, orthant_chance
from polyceptron.numerics.orthant import argmax_orthant

mp.mp.dps = 20
size = st.floats(0.0, 1.0).map(lambda u: 10 ** (5 * u - 1))  # up to 1e4
field = st.tuples(st.sampled_from([-1.0, 1.0]), size).map(lambda pair: pair[0] * pair[1])


def orthant(a: float, b: float, rho: float) -> mp.mpf:
    """P(x ≤ a, y ≤ b) by one integral over x ≤ min(a, b), relative to the integrand at its edge."""
    low, high, r = mp.mpf(min(a, b)), mp.mpf(max(a, b)), mp.mpf(rho)
    width = mp.sqrt(1 - r * r)

    def log_density(x: mp.mpf) -> mp.mpf:
        return -x * x / 2 + mp.log(mp.erfc(-(high - r * x) / width / mp.sqrt(2)) / 2)

    edge = log_density(low) if low < 0 else mp.mpf(0)
    scale = 1 / (1 + abs(low) + abs(high))
    steps = [0, *(scale * mp.mpf(2) ** j for j in range(-1, 13, 2))]
    cuts = [low - step for step in steps if step < 40]
    cuts += [mp.mpf(x) for x in (-8, -3, -1, 0, 1, 3, 8) if x < low]
    cuts = sorted({*cuts, min(low, mp.mpf(0)) - 12 - 40 * scale})
    total = mp.quad(lambda x: mp.exp(log_density(x) - edge), cuts)
    return mp.exp(edge) * total / mp.sqrt(2 * mp.pi)


@pytest.mark.slow
@settings(max_examples=12, deadline=None, derandomize=True)
@given(field, field, st.integers(0, 2))
@example(-1e4, -1e4, 0)
@example(-1e4, 1e4, 2)
@example(0.0, 0.0, 1)
@example(-4.0, 0.0, 0)
@example(-1.5, -3.0, 0)
def test_log_z_and_score_match_mpmath(u: float, v: float, label: int) -> None:
    omega = np.insert(np.array([-u, -v]), label, 0.0)
    ours = argmax_orthant(omega[None], [label])
    a, b = u / np.sqrt(2), v / np.sqrt(2)
    z = orthant(a, b, 0.5)
    log_z = mp.log(z)
    assert abs(ours.log_z[0] - log_z) <= 1e-12 * max(1, abs(log_z))
    x, y, root = mp.mpf(a), mp.mpf(b), mp.sqrt(mp.mpf(3) / 4)
    exact = [
        mp.npdf(x) * mp.ncdf((y - x / 2) / root) / z / mp.sqrt(2),
        mp.npdf(y) * mp.ncdf((x - y / 2) / root) / z / mp.sqrt(2),
    ]
    competitors = [h for h in range(3) if h != label]
    for h, value in zip(competitors, exact, strict=True):
        assert abs(-ours.score[0, h] - value) <= 1e-11 * max(1, value)
    assert ours.score[0].sum() == pytest.approx(0, abs=1e-11 * (1 + float(max(exact))))
    assert np.isfinite(ours.curvature[0])
    assert 0 <= ours.curvature[0] <= 2 + 1e-9


def test_without_the_tail_form_the_same_comparison_fails() -> None:
    """Owen's formula alone has no correct digit left at a = b = −25/√2."""
    a = -25.0 / np.sqrt(2)
    c = a * 0.5 / np.sqrt(0.75)
    naive = ndtr(a) - 2 * owens_t(a, c / a)
    exact = orthant(a, a, 0.5)
    assert abs(naive / exact - 1) > 1e-8
    ours = bivariate_orthant(np.array([a]), np.array([a]), 0.5)
    assert abs(ours.log_z[0] - mp.log(exact)) < 1e-12 * abs(mp.log(exact))


@pytest.mark.slow
@pytest.mark.parametrize("rho", [-0.7, 0.1, 0.8])
def test_any_correlation(rho: float) -> None:
    points = [(-6.0, -1.0), (-6.0, 4.0), (3.0, -2.0), (0.5, 1.5), (-20.0, -30.0), (0.0, -5.0)]
    a, b = np.array(points).T
    ours = bivariate_orthant(a, b, np.full(a.size, rho))
    for i, (u, v) in enumerate(points):
        exact = mp.log(orthant(u, v, rho))
        assert abs(ours.log_z[i] - exact) < 1e-11 * max(1, abs(exact))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(field, min_size=3, max_size=3), st.integers(0, 2))
def test_curvature_is_the_derivative_of_the_score(values: list[float], label: int) -> None:
    """Up to fields of 100, where a difference quotient still has digits."""
    omega = np.clip(np.array(values), -100, 100)
    steps = np.diag(1e-5 * (1 + np.abs(omega)))
    here, up, down = (argmax_orthant(omega + step, label) for step in (0 * steps, steps, -steps))
    slope = (up.score - down.score).diagonal() / (2 * steps.diagonal())
    np.testing.assert_allclose(here.diagonal[0], -slope, atol=2e-6)


@pytest.mark.parametrize("k", [2, 3, 4, 10, 40])
@pytest.mark.parametrize("scale", [1.0, 1e2, 1e4, 1e8, 1e14])
def test_contradicting_labels_never_overflow(k: int, scale: float) -> None:
    rng = np.random.default_rng(k)
    omega = scale * rng.standard_normal((300, k))
    for label in (rng.integers(0, k, 300), omega.argmin(1), omega.argmax(1)):
        o = argmax_orthant(omega, label)
        assert all(np.isfinite(part).all() for part in o)
        assert (o.log_z <= 0).all()
        # The Hessian lies between 0 and the Gaussian's own.
        assert (o.curvature >= 0).all()
        assert (o.curvature <= (k - 1) + 1e-5).all()


def test_edges_that_are_nearly_opposite_leave_no_less_than_nothing() -> None:
    """As ρ → −1: (Φ(a) + Φ(b) − 1)₊, where what is left may be rounding alone."""
    rng = np.random.default_rng(0)
    for _ in range(2000):
        a, rest = 2 * rng.normal(), rng.normal() * 10 ** rng.uniform(-17, -2)
        covariance = np.array([[1, 1e-16 - 1], [1e-16 - 1, 1]])
        found = orthant_chance(np.array([a, rest - a]), covariance)
        assert abs(found - max(ndtr(a) + ndtr(rest - a) - 1, 0)) < 1e-8  # √(1 + ρ) wide
