"""Theory against fitted classifiers at d = 500: error, training loss and training error.

Each instance is fitted by scikit-learn to a tight tolerance; overlaps give m, q, and from them the
error. Corrections to the theory are of order 1/d, so the mean over instances must agree within its
standard error plus 3/d relative; the same data at a wrong ridge must be rejected.
"""

import math

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

import polyceptron as pc
from polyceptron.model.losses import CrossEntropy, SquareLoss
from polyceptron.theory.erm import erm_fixed_point

DIMENSION = 500
INSTANCES = 8


def fit(k, alpha, ridge, loss, seed):
    """m, q, training loss and training error of one instance."""
    n = round(alpha * DIMENSION)
    X, y, teacher = pc.Teacher(k).sample(n, DIMENSION, seed)
    fields = X / math.sqrt(DIMENSION)
    if isinstance(loss, CrossEntropy):
        # With two classes scikit-learn fits one vector, the difference, whose ridge is λ/2.
        strength = 2 / ridge if k == 2 else 1 / ridge
        model = LogisticRegression(
            C=strength, fit_intercept=False, tol=1e-8, max_iter=5000, solver="newton-cg"
        )
        W = model.fit(fields, y).coef_.T
        if k == 2:
            W = W @ np.array([[-0.5, 0.5]])
    else:
        target = (np.arange(k) == y[:, None]).astype(float)
        W = Ridge(alpha=ridge, fit_intercept=False).fit(fields, target).coef_.T
    z = fields @ W
    W, teacher = (a - a.mean(1, keepdims=True) for a in (W, teacher))
    size = DIMENSION * (k - 1)
    m, q = float((W * teacher).sum()) / size, float((W**2).sum()) / size
    scale = float((teacher**2).sum()) / size
    error = pc.generalisation_error(m / math.sqrt(q * scale), k)
    return error, float(loss.value(z, y).mean()), float((z.argmax(1) != y).mean())


def scores(measured, point):
    """Deviations of the three means in units of their allowed error."""
    theory = np.array([point.generalisation_error, point.training_loss, point.training_error])
    mean = measured.mean(0)
    error = measured.std(0, ddof=1) / math.sqrt(len(measured))
    return np.abs(mean - theory) / np.hypot(error, 3 / DIMENSION * np.maximum(theory, 0.02))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("k", "alpha", "ridge", "loss"),
    [
        (2, 2.0, 0.2, CrossEntropy()),
        (3, 2.0, 0.1, CrossEntropy()),
        (5, 3.0, 0.5, CrossEntropy()),
        (3, 2.0, 0.3, SquareLoss()),
        (4, 0.7, 0.5, SquareLoss()),
    ],
)
def test_fitted_classifiers_follow_the_theory(k, alpha, ridge, loss):
    measured = np.array([fit(k, alpha, ridge, loss, seed) for seed in range(INSTANCES)])
    point = erm_fixed_point(k, loss, ridge, alpha)
    assert scores(measured, point).max() < 4
    wrong = erm_fixed_point(k, loss, 2.5 * ridge, alpha)
    assert scores(measured, wrong).max() > 4  # a wrong ridge is seen
