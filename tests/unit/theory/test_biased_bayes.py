"""Bayes-optimal learning of unequal classes: scalars, another quadrature, message passing."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import ndtr

import polyceptron as pc
from polyceptron.checks import difference_basis
from polyceptron.problem.channels.correlated import label_chances
from polyceptron.students import student_of
from polyceptron.theory.bayes.biased import biased_bayes

SHARES = (0.6, 0.3, 0.1)


@pytest.mark.parametrize(("k", "noise"), [(2, "none"), (3, "gaussian:0.5")])
def test_equal_classes_return_the_scalars(k, noise):
    teacher = pc.Teacher(k, noise=noise)
    found, Q, moved, status = biased_bayes(teacher, 2.0)
    point = pc.fixed_points(teacher, 2.0)[0]
    assert status == "ok"
    np.testing.assert_allclose(Q, point.q * np.eye(k - 1), atol=1e-8)
    off = abs(float(found.error.value) - point.generalisation_error)
    assert off < float(found.error.uncertainty) + moved + point.uncertainty < 1e-6


def test_two_classes_by_another_quadrature():
    """Q̂(Q) of u = (ω + b)/√C, and Q = Q̂/(1 + Q̂), adaptively; error E min(Φ(u), Φ(−u))."""
    teacher, alpha = pc.Teacher(2, shares=(0.8, 0.2)), 2.0
    b = math.sqrt(2) * teacher.biases[0]

    def mean(of, Q):
        def density(x):
            return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)

        def inner(x):
            return density(x) * of((math.sqrt(Q) * x + b) / math.sqrt(1 - Q))

        return quad(inner, -9, 9, points=[-b / math.sqrt(Q)], epsabs=1e-12, limit=200)[0]

    def known(u):
        return math.exp(-u * u) / (2 * math.pi * ndtr(u) * ndtr(-u)) if abs(u) < 25 else 0.0

    def excess(Q):
        hat = alpha * mean(known, Q) / (1 - Q)
        return hat / (1 + hat) - Q

    Q = brentq(excess, 1e-3, 0.99, xtol=1e-13)
    (row,) = student_of(pc.BayesOptimal()).rows(teacher, [alpha])
    assert row["q"] == pytest.approx(Q, abs=1e-9)
    least = mean(lambda u: ndtr(-abs(u)), Q)
    assert abs(row["generalisation_error"] - least) < row["uncertainty"] + 1e-10


def test_no_minimiser_errs_less_and_message_passing_as_much():
    teacher, alpha, d, T = pc.Teacher(3, shares=SHARES), 2.0, 400, difference_basis(3)
    found, Q, _, _ = biased_bayes(teacher, alpha)
    error = float(found.error.value)
    student = pc.ERM("cross-entropy", 1.0, intercept=True)
    assert error < pc.erm_fixed_point(teacher, student, alpha).generalisation_error
    np.testing.assert_allclose(found.shares.value, SHARES, atol=1e-8)
    data = teacher.sample(int(alpha * d), d, seed=0)
    W = pc.amp(data.X, data.y, shares=SHARES).weights @ T
    assert np.abs(W.T @ W / d - Q).max() < 3 / math.sqrt(d)
    fresh = np.random.default_rng(1).standard_normal((10_000, d)) / math.sqrt(d)
    truth = (fresh @ data.weights + teacher.offsets).argmax(1)
    Z = label_chances(teacher.channel, fresh @ W + teacher.offsets @ T, np.eye(2) - Q).Z
    assert abs(np.mean(Z.argmax(1) != truth) - error) < 1 / math.sqrt(d)


def test_what_has_no_theory_is_said():
    for teacher in (
        pc.Teacher(3, "rademacher", shares=SHARES),
        pc.Teacher(4, gram=np.diag([2.0, 1, 1, 1])),
    ):
        with pytest.raises(pc.InvalidInput, match="two or three classes with Gaussian weights"):
            student_of(pc.BayesOptimal()).rows(teacher, [1.0])
