"""Message passing with the covariance of correlated features, and the classifier made of it."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from polyceptron.data.stored_designs import open_design
from polyceptron.errors import InvalidInput
from polyceptron.fit.amp_classifier import AMPClassifier, Correlated, principal
from polyceptron.message_passing.correlated import correlated_amp
from polyceptron.message_passing.posterior_mean import amp
from polyceptron.problem import GaussianNoise, Teacher

NOISE = GaussianNoise(0.3)


def correlated(n, d, k, seed):
    """Samples with eigenvalues from 1 to 1/20, labels from a teacher in that space."""
    rng = np.random.default_rng(seed)
    X = (
        rng.standard_normal((n, d))
        * np.geomspace(3, 0.15, d)
        @ np.linalg.qr(rng.standard_normal((d, d)))[0].T
    )
    W = rng.standard_normal((d, k))
    return X, NOISE.sample(X @ W / np.sqrt(d), rng)


def run(X, y, k, noise=NOISE, tol=1e-9):
    d = X.shape[1]
    return correlated_amp(X / np.sqrt(d), y, k, np.ones(d), noise, tol=tol, max_iter=500)


@pytest.mark.slow
@pytest.mark.parametrize("k", [2, 4])
def test_it_is_algorithm_1_on_independent_inputs(k):
    X, y, _ = Teacher(k, noise=NOISE).sample(900, 300, seed=k)
    plain = amp(X, y, noise=NOISE)
    found = run(X, y, k)
    assert found.end.status == "ok"
    apart = np.linalg.norm(found.mean - plain.weights) / np.linalg.norm(plain.weights)
    assert apart < 0.06  # self-averaging, to 1/√d
    assert found.variance.mean() == pytest.approx(plain.variance, rel=0.06)


@pytest.mark.parametrize("k", [2, 3, 6])
def test_the_fixed_point_is_where_prior_and_scores_balance(k):
    """ĉ/τ² = Fᵀf with f the channel's score at the cavity fields, whatever the steps were."""
    X, y = correlated(300, 30, k, seed=1)
    found = run(X, y, k)
    assert found.end.status == "ok"
    f = NOISE.posterior(found.cavity, y, found.variance, 8).score
    pull = X.T @ f / np.sqrt(30)
    assert np.linalg.norm(pull - found.mean) < 1e-6 * np.linalg.norm(found.mean)


@pytest.mark.parametrize("k", [2, 3])
def test_cavity_fields_are_those_of_runs_without_the_sample(k):
    X, y = correlated(50, 20, k, seed=2)  # few samples: each one counts
    found = run(X, y, k)
    fields = X @ found.mean / np.sqrt(20)
    off, naive = [], []
    for i in range(0, 50, 3):
        rest = np.arange(50) != i
        left_out = X[i] @ run(X[rest], y[rest], k).mean / np.sqrt(20)
        off.append(np.linalg.norm(found.cavity[i] - left_out))
        naive.append(np.linalg.norm(fields[i] - left_out))
    assert np.mean(off) < 0.12 * np.mean(naive)


def test_principal_directions_span_the_features():
    for X in (correlated(200, 20, 2, 3)[0], correlated(15, 40, 2, 3)[0]):
        design = open_design(X)
        squares, directions = principal(design)
        F = Correlated(directions, bias=False).projections(design)
        np.testing.assert_allclose(F @ F.T, X @ X.T / X.shape[1], atol=1e-9)
        np.testing.assert_allclose(F.T @ F, np.diag(squares), atol=1e-8)


def scores(model, X, y):
    A, B, a, b = train_test_split(X, y, test_size=0.4, random_state=0, stratify=y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        p = model.fit(A, a).predict_proba(B)
    return -np.log(np.maximum(p[np.arange(b.size), np.searchsorted(model.classes_, b)], 1e-12))


def rival():
    return make_pipeline(
        StandardScaler(),
        LogisticRegressionCV(
            Cs=np.geomspace(1e-3, 1e2, 8),
            scoring="neg_log_loss",
            solver="newton-cholesky",
            use_legacy_attributes=False,
            l1_ratios=(0,),
        ),
    )


@pytest.mark.parametrize("flipped", [0.0, 0.2])
def test_auto_noise_on_features_where_small_noises_used_to_fail(flipped):
    """The first ten features of breast cancer, as they are and with a fifth of the labels wrong."""
    X, y = load_breast_cancer(return_X_y=True)
    X = X[:, :10]
    y = np.where(np.random.default_rng(0).random(y.size) < flipped, 1 - y, y)
    model = AMPClassifier()
    ours, theirs = scores(model, X, y), scores(rival(), X, y)
    assert model.converged_
    assert ours.mean() <= theirs.mean() + theirs.std() / np.sqrt(theirs.size)


@pytest.mark.parametrize("variances", ["correlated", "shared", "full"])
def test_sparse_features_are_dense_ones(variances):
    rng = np.random.default_rng(2)
    X = scipy.sparse.random_array((150, 30), density=0.3, rng=rng, format="csr")
    y = (np.asarray(X @ rng.standard_normal((30, 3)))).argmax(1)
    options = {"variances": variances, "noise": "gaussian:0.3"}
    found = AMPClassifier(**options).fit(X, y)
    dense = AMPClassifier(**options).fit(X.toarray(), y)
    np.testing.assert_allclose(found.coef_, dense.coef_, atol=1e-8 * np.abs(dense.coef_).max())
    np.testing.assert_allclose(found.predict_proba(X), dense.predict_proba(X.toarray()), atol=1e-9)


def test_other_priors_take_features_as_independent():
    X, y, _ = Teacher(2, prior="rademacher").sample(120, 40, seed=1)
    model = AMPClassifier("rademacher", noise="gaussian:0.3").fit(X, y)
    assert model.variances_ == "shared"
    with pytest.raises(InvalidInput, match="needs the Gaussian prior"):
        AMPClassifier("rademacher", "correlated").fit(X, y)
    with pytest.raises(InvalidInput, match="unknown variances"):
        AMPClassifier(variances="some").fit(X, y)
