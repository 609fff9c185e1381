"""Chances of labels at correlated fields of the teacher, against sums over a fine grid."""

from __future__ import annotations

import numpy as np
import pytest

from polyceptron.checks import difference_basis
from polyceptron.problem import Teacher, as_channel
from polyceptron.problem.channels import correlated
from polyceptron.problem.channels.correlated import label_chances


@pytest.mark.parametrize(
    ("slope", "C"), [(2.0, (0.1, 2.0)), (20.0, (0.02, 0.5)), (1.0, (0.5, 0.6))]
)
def test_softmax_of_three_fields_that_vary_along_a_line(slope, C):
    """However much longer one axis of C is than the other."""
    T, t = difference_basis(3), np.linspace(-8, 8, 360)
    omega = np.array([[0.3, -0.2], [1.5, 0.4], [-1.0, 2.0]])
    channel = as_channel(f"softmax:{slope}")
    found = label_chances(channel, omega, np.diag(C))
    z = np.stack(np.meshgrid(t, t, indexing="ij"), -1).reshape(-1, 2)
    weight = np.exp(-0.5 * (z**2).sum(1))
    for mean, Z, slopes in zip(omega, found.Z, found.slopes, strict=True):
        fields = slope * (mean + z * np.sqrt(C)) @ T.T
        P = np.exp(fields - fields.max(1, keepdims=True))
        P /= P.sum(1, keepdims=True)
        plain = weight @ P / weight.sum()
        np.testing.assert_allclose(Z, plain, atol=2e-9)
        np.testing.assert_allclose(slopes.sum(0), 0, atol=1e-7)
    rare = label_chances(channel, omega, np.diag(C), kind="tails")
    np.testing.assert_allclose(rare.Z, found.Z, atol=3e-9)


def test_chances_of_many_or_no_points(monkeypatch):
    channel, C = as_channel("softmax:2"), np.diag([0.1, 0.5])
    monkeypatch.setattr(correlated, "_AT_ONCE", 50)
    omega = np.random.default_rng(0).standard_normal((20, 2))
    every = label_chances(channel, omega, C).Z  # in several parts
    np.testing.assert_allclose(every[:5], label_chances(channel, omega[:5], C).Z, atol=1e-15)
    assert label_chances(channel, omega[:0], C).slopes.shape == (0, 3, 2)
    for noise in ("softmax:2", "gaussian:0.3", "flips:0.1"):  # with slopes, and without them
        found = [label_chances(as_channel(noise), omega, C, kind=s).Z for s in ("slopes", "plain")]
        np.testing.assert_allclose(*found, atol=2e-9)


def test_a_tie_of_three_classes_is_an_angle():
    """P(both gaps > 0) = 1/4 + arcsin ρ/2π, ρ their correlation; shares have the sum 1."""
    gram = np.diag([2.0, 1.0, 1.0])
    exact = [0.25 + np.arcsin(rho) / (2 * np.pi) for rho in (2 / 3, 1 / 6**0.5, 1 / 6**0.5)]
    np.testing.assert_allclose(Teacher(3, gram=gram).class_shares, exact, atol=1e-14)
