"""Correlated features on drawn data: scikit-learn and message passing, and a wrong spectrum.

Two levels at d = 800, α = 2, noisy labels: few instances suffice, since each is close to the limit.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

import polyceptron as pc
from polyceptron.questions.student_scores import fresh_scores
from polyceptron.students import student_of

pytestmark = pytest.mark.slow

TWO = "levels:4x0.2,0.25x0.8"
NOISE = "gaussian:0.5"
D, ALPHA, RIDGE, INSTANCES = 800, 2.0, 0.5, 3
# Relative spread of one instance times √d, from 24 others: error, test loss, training error, loss.
SPREAD = np.array([0.7, 0.7, 2.4, 1.0])


def fitted(k: int) -> np.ndarray:
    """Error, test loss, training error and loss (instances, 4) of scikit-learn on drawn data."""
    teacher = pc.Teacher(k, noise=NOISE, features=TWO)
    n = round(ALPHA * D)
    rows = []
    for seed in range(INSTANCES):
        data = teacher.sample(n + 4000, D, seed)
        X, y = data.X / math.sqrt(D), data.y
        # Two classes share one vector w = W₁ − W₂: (λ/2)‖W‖² is (λ/4)‖w‖² there.
        clf = LogisticRegression(
            C=(2 if k == 2 else 1) / RIDGE, fit_intercept=False, tol=1e-5, max_iter=500
        ).fit(X[:n], y[:n])
        p = clf.predict_proba(X)
        wrong = float((p[:n].argmax(1) != y[:n]).mean())
        w = clf.coef_.T if k > 2 else np.hstack([-clf.coef_.T, clf.coef_.T])
        error = pc.exact_generalisation_error(
            w, data.weights, noise=NOISE, features=TWO, tol=2e-3
        ).value
        rows.append([error, log_loss(y[n:], p[n:]), wrong, log_loss(y[:n], p[:n])])
    return np.array(rows)


def predicted(k: int, features: str) -> np.ndarray:
    teacher, student = pc.Teacher(k, noise=NOISE, features=features), pc.ERM(ridge=RIDGE)
    point = pc.erm_fixed_point(teacher, student, ALPHA, tol=2e-3 if k > 3 else None)
    loss = fresh_scores(teacher, student_of(student), point.law)["test_loss"]
    return np.array([point.generalisation_error, loss, point.training_error, point.training_loss])


@pytest.mark.parametrize("k", [2, 4])
def test_scikit_learn_follows_the_theory_of_its_spectrum_and_no_other(k):
    measured = fitted(k)
    theory = predicted(k, TWO)
    allowed = theory * (3.5 * SPREAD / math.sqrt(D * INSTANCES) + 4 / D)  # 4/d for the bias
    assert (np.abs(measured.mean(0) - theory) < allowed).all()
    wrong = predicted(k, "isotropic")
    assert (np.abs(measured.mean(0) - wrong) > allowed).sum() >= 3  # a control that must fail


@pytest.mark.parametrize("variances", ["shared", "full"])
def test_message_passing_follows_state_evolution_in_whitened_coordinates(variances):
    teacher, d = pc.Teacher(3, noise="flips:0.05", features=TWO), 1000
    traces = []
    for seed in range(2):
        data = teacher.sample(2 * d, d, seed)
        found = pc.amp(
            data.X,
            data.y,
            noise="flips:0.05",
            features=TWO,
            variances=variances,
            max_iter=6,
            teacher_weights=data.weights,
        )
        traces.append([entry["m"] for entry in found.trace])
    measured = np.mean(traces, axis=0)
    expected = pc.state_evolution(teacher, 2.0, 6).q
    assert np.abs(measured - expected).max() < 0.04
    blind = pc.state_evolution(pc.Teacher(3, noise="flips:0.05"), 2.0, 6).q
    assert np.abs(measured - blind).max() > 0.08


@pytest.mark.parametrize(
    ("k", "prior", "features", "alpha"),
    [(2, "rademacher", TWO, 2.0), (3, "ternary", "power:0.6:30", 2.0)],
)
def test_message_passing_with_any_prior_ends_where_the_theory_does(k, prior, features, alpha):
    teacher, d, runs = pc.Teacher(k, prior, features=features), 400, 6
    errors = []
    for seed in range(runs):
        data = teacher.sample(round(alpha * d), d, seed)
        found = pc.amp(data.X, data.y, prior, features=features, teacher_weights=data.weights)
        errors.append(found.trace[-1]["generalisation_error"])
    spread = np.std(errors, ddof=1) / math.sqrt(runs)
    (expected,) = pc.fixed_points(teacher, alpha, branch="amp")
    off = abs(np.mean(errors) - expected.generalisation_error)
    assert off < 4 * spread + 2 / d
    (blind,) = pc.fixed_points(pc.Teacher(k, prior), alpha, branch="amp")
    assert abs(np.mean(errors) - blind.generalisation_error) > 4 * spread + 2 / d


@pytest.mark.parametrize(
    ("k", "prior", "alpha", "spread"),  # spread of one instance's error, from 16 other instances
    [
        (3, "ternary", 1.0, 0.008),
        (2, "sparse-gaussian:0.3", 0.7, 0.016),
    ],
)
def test_one_table_of_a_prior_serves_a_steep_spectrum(k, prior, alpha, spread):
    """A hundred eigenvalues over a factor of 250: q = ⟨p q₁(q̂p)⟩ against message passing."""
    d, features, seeds = 1500, "power:1.2:100", range(3)
    errors = []
    for seed in seeds:
        data = pc.Teacher(k, prior, features=features).sample(round(alpha * d), d, seed)
        found = pc.amp(
            data.X, data.y, prior, features=features, teacher_weights=data.weights, tol=1e-3
        )
        errors.append(found.trace[-1]["generalisation_error"])

    def z(features):
        end = pc.state_evolution(pc.Teacher(k, prior, features=features), alpha, 40)
        return (np.mean(errors) - end.generalisation_error[-1]) * math.sqrt(len(seeds)) / spread

    assert abs(z(features)) < 3.3
    assert abs(z("isotropic")) > 6  # a control that must fail


def test_above_the_transition_message_passing_recovers_every_direction():
    teacher, d = pc.Perceptron("rademacher", features=TWO), 800
    at = pc.transitions(teacher).alpha_algo
    for alpha, weak in ((0.85 * at, False), (1.2 * at, True)):
        data = teacher.sample(round(alpha * d), d, 1)
        found = pc.amp(data.X, data.y, "rademacher", features=TWO, model="perceptron")
        right = np.abs(np.asarray(found.weights) / data.weights - 1).max(1) < 1e-3
        strong = data.X.std(0) > 1
        assert right[strong].all()
        assert right[~strong].all() == weak


def test_message_passing_finds_the_minimiser_on_correlated_features():
    teacher = pc.Teacher(3, features=TWO)
    data = teacher.sample(400, 200, seed=1)
    found = pc.amp_erm(data.X, data.y, "cross-entropy", 0.3, features=TWO)
    fit = pc.fit_erm(data.X, data.y, "cross-entropy", 0.3)
    assert str(found.status) == "ok"
    for weights in (found.weights, fit.weights):
        weights -= weights.mean(1, keepdims=True)
    np.testing.assert_allclose(found.weights, fit.weights, atol=1e-6)


def test_random_features_of_a_latent_teacher_follow_their_equivalent():
    """ReLU of random projections, not Gaussian at all: error of a fit against the theory."""
    latent, p, n, k = 300, 300, 600, 3
    teacher = pc.Teacher(k, features="random-features:relu:1")
    point = pc.erm_fixed_point(teacher, pc.ERM("square", 0.5), n / p)
    errors = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        F = rng.standard_normal((p, latent)) / math.sqrt(latent)
        W = rng.standard_normal((latent, k))
        g = rng.standard_normal((n + 10_000, latent))
        X, y = np.maximum(g @ F.T, 0.0), (g @ W).argmax(1)
        X -= X.mean(0)
        X /= math.sqrt(teacher.features.mean_eigenvalue)
        fit = pc.fit_erm(X[:n], y[:n], "square", 0.5)
        errors.append(float(((X[n:] @ fit.weights).argmax(1) != y[n:]).mean()))
    allowed = 4 * np.std(errors, ddof=1) / 2 + 4 / p
    assert abs(np.mean(errors) - point.generalisation_error) < allowed
    assert abs(np.mean(errors) - point.clean_error) > allowed  # what is hidden must be counted
