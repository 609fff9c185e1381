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
from polyceptron.problem.losses import CrossEntropy, SquareLoss
from polyceptron.theory.erm.fixed_point import erm_fixed_point

pytestmark = pytest.mark.slow

DIMENSION = 500
INSTANCES = 8


def fit(k, alpha, ridge, loss, seed, noise):
    """m, q, training loss and training error of one instance."""
    n = round(alpha * DIMENSION)
    X, y, teacher = pc.Teacher(k, noise=noise).sample(n, DIMENSION, seed)
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
    clean = pc.generalisation_error(m / math.sqrt(q * scale), k)
    return clean, float(loss.value(z, y).mean()), float((z.argmax(1) != y).mean())


def scores(measured, point):
    """Deviations of the three means in units of their allowed error."""
    theory = np.array([point.clean_error, point.training_loss, point.training_error])
    mean = measured.mean(0)
    error = measured.std(0, ddof=1) / math.sqrt(len(measured))
    return np.abs(mean - theory) / np.hypot(error, 3 / DIMENSION * np.maximum(theory, 0.02))


@pytest.mark.parametrize(
    ("k", "alpha", "ridge", "loss", "noise"),
    [
        (2, 2.0, 0.2, CrossEntropy(), "none"),
        (3, 2.0, 0.1, CrossEntropy(), "none"),
        (5, 3.0, 0.5, CrossEntropy(), "none"),
        (3, 2.0, 0.3, SquareLoss(), "none"),
        (4, 0.7, 0.5, SquareLoss(), "none"),
        (2, 3.0, 0.5, CrossEntropy(), "flips:0.15"),
        (3, 3.0, 0.5, CrossEntropy(), "gaussian:0.5"),
        (4, 2.0, 0.5, CrossEntropy(), "flips:0.15"),
        (3, 3.0, 0.5, SquareLoss(), "flips:0.15"),
    ],
)
def test_fitted_classifiers_follow_the_theory(k, alpha, ridge, loss, noise):
    teacher = pc.Teacher(k, noise=noise)
    measured = np.array([fit(k, alpha, ridge, loss, seed, noise) for seed in range(INSTANCES)])
    point = erm_fixed_point(teacher, pc.ERM(loss, ridge), alpha)
    assert scores(measured, point).max() < 4
    wrong = erm_fixed_point(teacher, pc.ERM(loss, 2.5 * ridge), alpha)
    assert scores(measured, wrong).max() > 4  # a wrong ridge is seen


@pytest.mark.parametrize("noise", ["gaussian:0.5", "flips:0.15"])
def test_errors_on_labels_as_drawn(noise):
    """A student with the theory's overlap, on fresh labels, errs as the theory says."""
    teacher = pc.Teacher(3, noise=noise)
    point = erm_fixed_point(teacher, pc.ERM("cross-entropy", 0.5), 3.0)
    rng = np.random.default_rng(0)
    z, own = rng.standard_normal((2, 400_000, 3))
    rho = point.correlation
    student = rho * z + math.sqrt(1 - rho**2) * own
    wrong = teacher.noise.sample(z, rng) != student.argmax(1)
    spread = wrong.std() / math.sqrt(wrong.size)
    assert abs(wrong.mean() - point.generalisation_error) < 4 * spread
    assert abs(wrong.mean() - point.clean_error) > 20 * spread
