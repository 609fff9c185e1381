"""Published and independently computed values of empirical risk minimisation."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import ndtr

import polyceptron as pc
from polyceptron.report.verify.known_values import ERM_ERRORS
from polyceptron.theory.erm.fixed_point import erm_fixed_point


def fixed_point(k, loss, ridge, alpha, tol=None):
    return erm_fixed_point(pc.Teacher(k), pc.ERM(loss, ridge), alpha, tol)


@pytest.mark.parametrize(("loss", "alpha", "ridge", "error", "digits"), ERM_ERRORS)
def test_three_classes(loss, alpha, ridge, error, digits):
    point = fixed_point(3, loss, ridge, alpha)
    assert point.generalisation_error == pytest.approx(error, abs=0.6 * digits)


def normal(x):
    return math.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


def logistic_regression(alpha, ridge):
    """Scalar logistic regression on labels ±1 and one weight vector, written from scratch.

    Softmax on two classes with ridge λ is this on the difference with ridge λ/2. Fields w·x/√d,
    unit teacher; plain damped iteration, one root per node, adaptive quadrature.
    """
    q, m, V = 1.0, 0.5, 1.0
    for _ in range(400):
        rho = m / math.sqrt(q)
        width = math.sqrt(1 - rho**2)

        def prox(omega, V=V):
            return brentq(lambda z: z - omega - V / (1 + math.exp(z)), omega - 1, omega + V + 1)

        def average(g, q=q, rho=rho, width=width):
            def integrand(x):
                omega = math.sqrt(q) * x
                return 2 * normal(x) * g(omega, prox(omega), rho * x / width)

            return quad(integrand, -9, 9, points=[0, -width, width], epsabs=1e-10, limit=200)[0]

        m_hat = alpha * average(
            lambda w, z, t, s=width: (1 - 1 / (1 + math.exp(-z))) * normal(t) / s
        )
        q_hat = alpha * average(lambda w, z, t: (1 + math.exp(z)) ** -2 * ndtr(t))

        def stiffness(w, z, t, V=V):
            bend = 1 / (2 * math.cosh(z / 2)) ** 2
            return bend / (1 + V * bend) * ndtr(t)

        new_V = 1 / (ridge + alpha * average(stiffness))
        new_m, new_q = m_hat * new_V, (m_hat**2 + q_hat) * new_V**2
        change = abs(new_q - q) + abs(new_m - m)
        q, m, V = new_q, new_m, new_V
        if change < 1e-8:
            break
    return m, q, V


@pytest.mark.slow
@pytest.mark.parametrize(("alpha", "ridge"), [(1.5, 1.0), (4.0, 0.4)])
def test_two_classes_are_logistic_regression(alpha, ridge):
    m, q, V = logistic_regression(alpha, ridge / 2)
    point = fixed_point(2, "cross-entropy", ridge, alpha, tol=1e-9)
    assert point.correlation == pytest.approx(m / math.sqrt(q), abs=1e-6)
    # the difference w₁ − w₂ has norm 2q per direction of unit length, and the unit teacher norm 1
    assert q == pytest.approx(2 * point.q, rel=1e-5)
    assert pytest.approx(2 * point.V, rel=1e-5) == V
    wrong = fixed_point(2, "cross-entropy", ridge / 2, alpha, tol=1e-9)
    assert abs(wrong.correlation - m / math.sqrt(q)) > 1e-3  # the check can fail


def test_known_large_data_constants():
    """αε → 0.4417 for Bayes; 0.5005 for max-margin and 0.4420 for the best ridge at k = 2.

    The literature on perceptrons has 0.44 for Bayes and 0.50 for maximal stability (Opper and
    Kinzel 1996); the digits of the best ridge are made by docs/make_optimal_cross_entropy.py.
    """
    alpha = 1e5
    hard = fixed_point(2, "max-margin", 0, alpha, tol=1e-11).generalisation_error * alpha
    best = fixed_point(2, "cross-entropy", "optimal", alpha, tol=1e-11)
    assert hard == pytest.approx(0.50049, abs=2e-5)
    assert best.generalisation_error * alpha == pytest.approx(0.44198, abs=2e-5)
    assert np.isclose(best.ridge * alpha**2, 0.2232, rtol=0.01)
