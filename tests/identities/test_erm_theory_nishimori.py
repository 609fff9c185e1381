"""Give the ERM equations the teacher's own denoiser and they become the Bayes-optimal ones."""

import math

import numpy as np
import pytest

import polyceptron as pc
from polyceptron.model.losses import Loss
from polyceptron.numerics.orthant import argmax_orthant
from polyceptron.theory.erm import many, three, two
from polyceptron.theory.erm.averages import Law


class TeacherDenoiser(Loss):
    """f = ∇ ln Z_y(ω, V): the posterior's, not a loss at all."""

    name = "teacher"

    def value(self, z, y):
        return np.zeros(len(z))

    def gradient(self, z, y):
        return np.zeros_like(z)

    def hessian(self, z, y):
        return np.zeros((*np.shape(z), np.shape(z)[1]))

    def denoise(self, omega, y, V):
        seen = argmax_orthant(omega, y, V)
        return seen.score, seen.curvature


def averages(k, q):
    """M, Q, C on the Nishimori line m = q, V = 1 − q."""
    law = Law(math.sqrt(q / (1 - q)), q, 1 - q)
    loss = TeacherDenoiser()
    if k == 2:
        return two.averages(loss, law, two.place_nodes(loss, law, 3))
    if k == 3:
        return three.averages(loss, law, three.place_nodes(loss, law, 1))
    return many.averages(loss, law, many.place_points(k, loss, law, 0))


@pytest.mark.parametrize(("k", "tolerance"), [(2, 1e-8), (3, 2e-5), (5, 5e-3)])
def test_three_averages_collapse_to_one(k, tolerance):
    a = averages(k, 0.6)
    M, Q, C = (float(np.mean(x)) for x in (a.M, a.Q, a.C))
    assert pytest.approx(Q, rel=tolerance) == M
    assert pytest.approx(Q, rel=tolerance) == C


@pytest.mark.parametrize(("k", "alpha", "tolerance"), [(2, 1.0, 1e-7), (3, 1.0, 2e-5)])
def test_the_fixed_point_is_bayes_optimal(k, alpha, tolerance):
    (row,) = pc.theory.curve_rows(pc.Teacher(k), pc.BayesOptimal(), [alpha])
    q = row["q"]
    a = averages(k, q)
    V = 1 / (1 + alpha * float(a.C[0]))  # λ = 1: the Gaussian prior
    m = alpha * float(a.M[0]) * V
    norm = ((alpha * float(a.M[0])) ** 2 + alpha * float(a.Q[0])) * V**2
    assert m == pytest.approx(q, rel=tolerance)
    assert norm == pytest.approx(q, rel=tolerance)
    assert pytest.approx(1 - q, rel=tolerance) == V
