"""Separability of data: certificates checked by hand, and against a linear programme."""

import math

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import csr_array
from sklearn.datasets import load_breast_cancer, load_iris

import polyceptron as pc
from polyceptron.data.checks import check_samples
from polyceptron.fit import separation as separable
from polyceptron.fit.solvers import margin_programme


def linear_programme(X, y, k):
    """Is there a W with all margins at least 1?"""
    d = X.shape[1]
    rows = []
    for x, label in zip(X / math.sqrt(d), y, strict=True):
        for h in range(k):
            if h != label:
                row = np.zeros((d, k))
                row[:, label], row[:, h] = -x, x
                rows.append(row.ravel())
    found = linprog(np.zeros(d * k), A_ub=rows, b_ub=-np.ones(len(rows)), bounds=(None, None))
    return found.status == 0


def check(found, X, y, k):
    """The certificate proves the answer, by formulas of its own."""
    d = X.shape[1]
    rows = np.arange(len(y))
    if found.separable:
        z = X @ found.weights / math.sqrt(d)
        gaps = z[rows, y][:, None] - z
        gaps[rows, y] = np.inf
        assert gaps.min() == pytest.approx(1)
        return
    a = found.multipliers
    assert a.min() >= 0
    assert a[rows, y] == pytest.approx(0)
    assert a.sum() == pytest.approx(1)
    signed = -a
    signed[rows, y] = a.sum(1)
    R = X.T @ signed / math.sqrt(d)
    assert np.linalg.norm(R) == pytest.approx(found.residual, rel=1e-3, abs=1e-12)
    assert found.least_norm > 1e5


@pytest.mark.parametrize("k", [2, 3, 4])
@pytest.mark.parametrize("alpha", [1.5, 6.0])
@pytest.mark.parametrize("way", ["small", "large"])
def test_against_a_linear_programme(k, alpha, way, monkeypatch):
    """Another programme than ours, which asks for margins of 1; large problems go by Newton."""
    if way == "large":
        monkeypatch.setattr(separable, "MAX_ENTRIES_OF_A_PROGRAMME", 0)
    d = 20
    for seed in range(4):
        X, y, _ = pc.Teacher(k, noise="gaussian:1").sample(int(alpha * d), d, seed=seed)
        found = pc.is_separable(X, y, n_classes=k)
        assert found.separable is linear_programme(X, y, k)
        check(found, X, y, k)


def test_noiseless_labels_are_separable():
    X, y, _ = pc.Teacher(3).sample(400, 40, seed=1)
    found = pc.is_separable(X, y)
    assert found
    check(found, X, y, 3)


@pytest.mark.slow
def test_the_transition_is_where_theory_says():
    """Nearly all draws are separable at 0.75 α_s, hardly any at 1.25 α_s.

    At d = 60 the transition is about an eighth of α_s wide: one draw of four may lie beyond it.
    """
    d = 60
    for k, noise in ((2, "flips:0.1"), (3, "softmax:2")):
        teacher = pc.Teacher(k, noise=noise)
        limit = pc.separability(teacher).alpha_s
        for factor, expected in ((0.75, True), (1.25, False)):
            drawn = [teacher.sample(int(factor * limit * d), d, seed=seed) for seed in range(4)]
            found = [pc.is_separable(s.X, s.y, n_classes=k).separable for s in drawn]
            assert found.count(expected) >= 3


def kind_of(X, y):
    """The kind, after a check of its certificate by formulas of its own."""
    found = pc.separation(X, y)
    rows, longest = np.arange(len(y)), np.linalg.norm(X, axis=1).max() / math.sqrt(X.shape[1])
    if found.direction is not None:
        z = X @ found.direction / math.sqrt(X.shape[1])
        gaps = np.delete((z[rows, y][:, None] - z).ravel(), rows * z.shape[1] + y) / np.linalg.norm(
            found.direction
        )
        assert gaps.min() >= -1e-6 * longest
        assert (gaps > 1e-6 * longest).mean() == pytest.approx(found.positive, abs=0.01)
        assert found.kind == "quasi" or gaps.min() > 0
    else:
        a = found.multipliers
        assert np.delete(a.ravel(), rows * a.shape[1] + y).min() > 0
        assert a.sum() == pytest.approx(1)
        signed = -a
        signed[rows, y] = a.sum(1)
        assert np.linalg.norm(X.T @ signed) / math.sqrt(X.shape[1]) < 1e-6 * longest
    return found.kind


@pytest.mark.parametrize("scale", [1.0, 1e-200, 1e100])
def test_iris_is_quasi_separable(scale):
    """One class stands apart and the other two overlap: maximum likelihood does not exist."""
    X, y = load_iris(return_X_y=True)
    X = scale * np.hstack([X, np.ones((150, 1))])
    found = pc.separation(X, y)
    assert found.kind == "quasi"
    assert 0.5 < found.positive < 1
    if scale == 1:
        assert kind_of(X, y) == "quasi"
        assert kind_of(X, (y > 0).astype(int)) == "separable"
        assert kind_of(X[50:], y[50:] - 1) == "overlapping"


@pytest.mark.parametrize("way", ["small", "large"])
def test_overlapping_data_have_multipliers_above_zero(way, monkeypatch):
    if way == "large":
        monkeypatch.setattr(separable, "MAX_ENTRIES_OF_A_PROGRAMME", 0)
    X, y, _ = pc.Teacher(3, noise="gaussian:1").sample(200, 10, seed=0)
    assert kind_of(X, y) == "overlapping"
    assert pc.separation(csr_array(X), y).kind == "overlapping"
    X, y, _ = pc.Teacher(3).sample(200, 10, seed=0)
    assert kind_of(X, y) == "separable"
    assert str(pc.separation(X, y)).startswith("Separation(kind='separable'")


def test_a_repeated_feature_is_no_direction():
    X, y, _ = pc.Teacher(2, noise="gaussian:1").sample(100, 5, seed=0)
    assert kind_of(np.hstack([X, X]), y) == "overlapping"


def test_units_of_features_and_lengths_of_rows_change_nothing():
    """Raw breast-cancer data were "quasi", standardised ones separable."""
    X, y = load_breast_cancer(return_X_y=True)
    one = np.ones((len(y), 1))
    for scaled in (X, (X - X.mean(0)) / X.std(0), X * np.geomspace(1e-80, 1e80, 30)):
        found = pc.separation(np.hstack([scaled, one]), y)
        assert found.kind == "separable"
        check(pc.is_separable(np.hstack([scaled, one]), y), np.hstack([scaled, one]), y, 2)
    for noise, kind in (("none", "separable"), ("gaussian:1", "overlapping")):
        X, y, _ = pc.Teacher(3, noise=noise).sample(100, 5, seed=0)
        for size in (np.geomspace(1e-100, 1e100, 5), np.geomspace(1e-100, 1e100, 100)[:, None]):
            assert pc.separation(X * size, y).kind == kind
            assert pc.is_separable(X * size, y).separable is (noise == "none")


def test_multipliers_that_hardly_balance_prove_no_overlap():
    """A margin m of W with JW ≥ 0 is open up to ‖Jᵀb‖‖W‖/min b, not up to ‖Jᵀb‖‖W‖."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((400, 3)), rng.integers(0, 2, 400)
    samples = check_samples(X, y, 2)

    class Imprecise(margin_programme.MarginProgramme):
        """Returns multipliers that are off by up to a share of the largest."""

        off = 0.0

        def solve(self, cost, matrix):
            weights, margins, a = super().solve(cost, matrix)
            return weights, margins, a + self.off * a.max() * np.arange(a.size) / a.size

    kinds = []
    for off in (0.0, 1e-6):
        programme = Imprecise(samples)
        programme.off = off
        kinds.append(separable._overlapping_by_programme(programme, 1e-6).kind)
    assert kinds == ["overlapping", "undecided"]
