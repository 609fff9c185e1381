"""One design for all data: products against dense algebra, precision, memory, what is refused."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse

import polyceptron as pc
from polyceptron.algorithms import amp, amp_erm, fit_erm
from polyceptron.algorithms.design import Design, as_design
from polyceptron.errors import InvalidInput


class RowsOnly(Design):
    """A new kind of data that says no more than it must: how its rows are read."""

    def __init__(self, X):
        super().__init__(X.shape, X.dtype)
        self.data = X

    def read_rows(self, rows):
        return self.data[rows]


def matrix(n=500, d=130, dtype=np.float64):
    return np.random.default_rng(0).standard_normal((n, d)).astype(dtype)


@pytest.mark.parametrize("kind", [as_design, RowsOnly], ids=["array", "rows only"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("operand", [np.float32, np.float64])
@pytest.mark.parametrize("r", [1, 3, 9])
def test_products_are_those_of_dense_algebra(kind, dtype, operand, r):
    X, rng = matrix(dtype=dtype), np.random.default_rng(1)
    design = kind(X)
    U = rng.standard_normal((2, r, 130)).astype(operand)
    F = rng.standard_normal((r, 500)).astype(operand)
    exact = X.astype(float)
    tol = 3e-6 if operand == np.float32 else 1e-13
    fields, back = design.fields(U), design.back(F)
    assert fields.dtype == back.dtype == operand
    np.testing.assert_allclose(fields, U.astype(float) @ exact.T / np.sqrt(130), atol=10 * tol)
    np.testing.assert_allclose(back, F.astype(float) @ exact / np.sqrt(130), atol=20 * tol)
    assert design.passes == (1.0 if operand == np.float32 else 2.0)


@pytest.mark.parametrize("kind", [as_design, RowsOnly], ids=["array", "rows only"])
@pytest.mark.parametrize("shape", [(300, 40), (40, 300)])
def test_moments_norms_and_gram_matrices(kind, shape):
    X = matrix(*shape) * np.linspace(0.1, 3, shape[1]) + 1
    design = kind(X)
    moments = design.column_moments()
    np.testing.assert_allclose(moments.mean, X.mean(0), rtol=1e-12)
    np.testing.assert_allclose(moments.deviation, X.std(0), rtol=1e-12)
    np.testing.assert_allclose(moments.largest, np.abs(X).max(0))
    A = X / np.sqrt(shape[1])
    np.testing.assert_allclose(design.row_norms, np.linalg.norm(A, axis=1))
    np.testing.assert_allclose(design.gram(), A.T @ A if shape[0] >= shape[1] else A @ A.T)
    C = np.abs(matrix(2, shape[1]))
    np.testing.assert_allclose(design.fields_squared(C), C @ (X**2).T / shape[1])
    H = np.abs(matrix(2, shape[0]))
    np.testing.assert_allclose(design.back_squared(H), H @ X**2 / shape[1])
    np.testing.assert_allclose(design.scaled_rows([3, 1]), A[[3, 1]])


def test_moments_of_huge_entries_do_not_overflow():
    X = 1e200 * matrix(50, 3)
    np.testing.assert_allclose(RowsOnly(X).column_moments().deviation / 1e200, matrix(50, 3).std(0))


def test_a_new_kind_of_data_is_one_class():
    X, y, _ = pc.Teacher(3).sample(150, 60, 1)
    for run in (amp, amp_erm, lambda A, b: fit_erm(A, b, "max-margin"), fit_erm):
        own, plain = run(RowsOnly(X), y), run(X, y)
        assert own.status == plain.status == "ok"
        assert np.linalg.norm(own.weights - plain.weights) < 1e-7 * np.linalg.norm(plain.weights)


def test_a_memory_map_gives_the_same_and_is_not_copied(tmp_path):
    X, y, _ = pc.Teacher(3).sample(3000, 1000, 2)
    path = tmp_path / "X.npy"
    np.save(path, X)
    mapped = np.load(path, mmap_mode="r")
    expected = fit_erm(X, y, "cross-entropy", 1.0, tol=1e-6)
    tracemalloc.start()
    found = fit_erm(mapped, y, "cross-entropy", 1.0, tol=1e-6)
    step = amp(mapped, y, max_iter=2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.2 * X.nbytes
    assert np.linalg.norm(found.weights - expected.weights) < 3e-6 * np.linalg.norm(found.weights)
    np.testing.assert_allclose(step.weights, amp(X, y, max_iter=2).weights, atol=1e-12)


def test_single_precision_data_are_fitted_in_double_precision_without_a_copy():
    X, y, _ = pc.Teacher(3).sample(3000, 1000, 3)
    X = X.astype(np.float32)
    expected = fit_erm(X.astype(float), y, "cross-entropy", 1.0)
    tracemalloc.start()
    found = fit_erm(X, y, "cross-entropy", 1.0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.status == "ok"
    assert np.linalg.norm(found.weights - expected.weights) < 3e-8 * np.linalg.norm(found.weights)
    assert peak < X.nbytes


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.ones(3), "must be a matrix"),
        (np.ones((0, 3)), "not empty"),
        (scipy.sparse.csr_matrix(np.ones((3, 3))), "array of numbers"),
        (np.vstack([np.ones((700, 2000)), np.full((1, 2000), np.inf)]), "row 700 has NaN"),
        (np.array([[1.0, 2.0], [3.0, 1e160]]), "row 1"),
        (np.ones((2, 2)) + 1j, "real numbers"),
    ],
)
def test_what_is_no_design_is_a_sentence(X, message):
    with pytest.raises(InvalidInput, match=message):
        as_design(X)
