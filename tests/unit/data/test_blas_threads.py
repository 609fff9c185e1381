"""Small fits take one thread of the linear algebra, large ones and what follows a fit take all."""

from __future__ import annotations

import inspect
import pkgutil

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import polyceptron as pc
from polyceptron.data.design import threads_for

CLUSTERS = pc.Mixture(shares=(0.7, 0.3), separation=2.0)


def threads() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def two():
    with threadpool_limits(2, user_api="blas"):
        if threads() != {2}:
            pytest.skip("this linear algebra has one thread")
        yield


@pytest.mark.parametrize(
    ("X", "inside"), [(np.zeros((30, 5)), 1), ([[1.0]], 1), (np.zeros((3000, 1000)), 2)]
)
def test_small_data_take_one_thread(X, inside):
    with threads_for(X):
        assert threads() == {inside}
    assert threads() == {2}


@pytest.mark.parametrize("kind", [pc.ERMClassifier, pc.AMPClassifier])
def test_a_fit_gives_the_threads_back(kind):
    X, y, _ = pc.Teacher(2).sample(n_samples=60, dimension=5, seed=0)
    seen = []

    class Rows:
        shape = X.shape

        def __len__(self):
            return len(X)

        def __array__(self, *_, **__):
            seen.append(threads())
            return X

    kind().fit(Rows(), y)
    assert seen
    assert all(found == {1} for found in seen)
    assert threads() == {2}
    assert "y" in inspect.signature(kind.fit).parameters  # what routing of metadata reads


def test_a_fit_that_fails_does_too():
    with pytest.raises(ValueError):
        pc.ERMClassifier().fit(np.full((4, 2), np.nan), [0, 1, 0, 1])
    assert threads() == {2}


GRADIENT = "polyceptron.problem.losses.cross_entropy.CrossEntropy.gradient"
CURVE = "polyceptron.theory.bayes.solution_curve.SolutionCurve.points"
FOLDS = "polyceptron.theory.bayes.solution_curve.curve_of"


@pytest.mark.parametrize(
    ("inside", "answer"),
    [
        (GRADIENT, lambda: pc.erm_fixed_point(pc.Teacher(2), "cross-entropy", 2.0)),
        (GRADIENT, lambda: pc.erm_fixed_point(CLUSTERS, "cross-entropy", 2.0, 1e-2)),
        (CURVE, lambda: pc.fixed_points(pc.Teacher(2), 2.0)),
        (FOLDS, lambda: pc.transitions(pc.Teacher(2, "rademacher"))),
    ],
)
def test_theory_takes_one_thread(inside, answer, monkeypatch):
    seen = []
    plain = pkgutil.resolve_name(inside)

    def watched(*args, **options):
        seen.append(threads())
        return plain(*args, **options)

    monkeypatch.setattr(inside, watched)
    answer()
    assert seen
    assert all(found == {1} for found in seen)
    assert threads() == {2}
