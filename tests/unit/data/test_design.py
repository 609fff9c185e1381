"""One design for all data: products against dense algebra, precision, memory, what is refused."""

from __future__ import annotations

import os
import tracemalloc

import numpy as np
import pytest
import scipy.sparse

import polyceptron as pc
from polyceptron.data.design import BLOCK_BYTES, Design
from polyceptron.data.stored_designs import open_design, scaled
from polyceptron.errors import InvalidInput
from polyceptron.fit.erm import fit_erm
from polyceptron.message_passing.posterior_mean import amp, amp_erm

dask = pytest.importorskip("dask")
pytest.importorskip("dask.array")


class RowsOnly(Design):
    """A new kind of data that says no more than it must: how its rows are read."""

    def __init__(self, X):
        super().__init__(X.shape, X.dtype)
        self.data = X

    def read_rows(self, rows):
        return self.data[rows]


@pytest.fixture(scope="module")
def make(tmp_path_factory):
    """Every kind of design of an array, and one that a user wrote."""

    def made(kind, X):
        if kind == "rows only":
            return RowsOnly(X)
        if kind == "sparse":
            return open_design(scipy.sparse.coo_array(X))
        if kind == "dask":
            return open_design(dask.array.from_array(X, chunks=(70, -1)))
        if kind == "memory map":
            path = tmp_path_factory.mktemp("maps") / "X.npy"
            np.save(path, np.vstack([X[:3], X]))
            return open_design(np.load(path, mmap_mode="r")[3:])
        return open_design(X)

    return made


KINDS = ["array", "memory map", "dask", "rows only", "sparse"]


def matrix(n=500, d=130, dtype=np.float64):
    return np.random.default_rng(0).standard_normal((n, d)).astype(dtype)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("operand", [np.float32, np.float64])
@pytest.mark.parametrize("r", [1, 3, 9])
def test_products_are_those_of_dense_algebra(make, kind, dtype, operand, r):
    X, rng = matrix(dtype=dtype), np.random.default_rng(1)
    design = make(kind, X)
    before = design.passes
    U = rng.standard_normal((2, r, 130)).astype(operand)
    F = rng.standard_normal((r, 500)).astype(operand)
    exact = X.astype(float)
    tol = 3e-6 if operand == np.float32 else 1e-13
    fields, back = design.fields(U), design.back(F)
    assert fields.dtype == back.dtype == operand
    np.testing.assert_allclose(fields, U.astype(float) @ exact.T / np.sqrt(130), atol=10 * tol)
    np.testing.assert_allclose(back, F.astype(float) @ exact / np.sqrt(130), atol=20 * tol)
    assert design.passes - before == (1.0 if operand == np.float32 else 2.0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(300, 40), (40, 300)])
def test_moments_norms_and_gram_matrices(make, kind, shape):
    X = matrix(*shape) * np.linspace(0.1, 3, shape[1]) + 1
    design = make(kind, X)
    moments = design.column_moments()
    np.testing.assert_allclose(moments.mean, X.mean(0), rtol=1e-12)
    np.testing.assert_allclose(moments.deviation, X.std(0), rtol=1e-12)
    np.testing.assert_allclose(moments.largest, np.abs(X).max(0))
    copies = np.arange(1, shape[0] + 1) % 4 + 1
    weighted = design.column_moments(copies.astype(float))
    repeated = np.repeat(X, copies, axis=0)
    np.testing.assert_allclose(weighted.mean, repeated.mean(0), rtol=1e-12)
    np.testing.assert_allclose(weighted.deviation, repeated.std(0), rtol=1e-12)
    A = X / np.sqrt(shape[1])
    np.testing.assert_allclose(design.row_norms, np.linalg.norm(A, axis=1))
    np.testing.assert_allclose(design.gram(), A.T @ A if shape[0] >= shape[1] else A @ A.T)
    C = np.abs(matrix(2, shape[1]))
    np.testing.assert_allclose(design.fields_squared(C), C @ (X**2).T / shape[1])
    H = np.abs(matrix(2, shape[0]))
    np.testing.assert_allclose(design.back_squared(H), H @ X**2 / shape[1])
    np.testing.assert_allclose(design.scaled_rows([3, 1]), A[[3, 1]])
    np.testing.assert_allclose(design.scaled_rows(slice(5, 9)), A[5:9])


class Cubed:
    """z ↦ z³ + s of a sample s, and the samples' sum."""

    def __init__(self, shift):
        self.shift = shift

    def rows(self, rows):
        return Cubed(self.shift[rows])

    def __call__(self, fields):
        return fields**3 + self.shift, self.shift.sum()


@pytest.mark.parametrize("kind", KINDS)
def test_both_products_in_one_read(make, kind):
    X, rng = matrix(), np.random.default_rng(1)
    U, inner = rng.standard_normal((2, 130)), Cubed(np.arange(500.0))
    F = (U @ X.T / np.sqrt(130)) ** 3 + inner.shift
    design = make(kind, X)
    before = design.passes
    back, rest = design.through(U, inner)
    reads = design.passes - before
    np.testing.assert_allclose(back, F @ X / np.sqrt(130), rtol=1e-10)
    assert sum(rest) == inner.shift.sum()
    assert reads == (1 if design.reading_is_dear else 2)
    assert design.reading_is_dear == (kind in ("memory map", "dask"))


def test_moments_of_huge_entries_do_not_overflow():
    X = 1e200 * matrix(50, 3)
    np.testing.assert_allclose(RowsOnly(X).column_moments().deviation / 1e200, matrix(50, 3).std(0))


RUNS = {
    "amp": amp,
    "full variances": lambda A, y: amp(A, y, variances="full", noise="gaussian:0.2"),
    "amp_erm": amp_erm,
    "max-margin": lambda A, y: fit_erm(A, y, "max-margin"),
    "cross-entropy": fit_erm,
    "newton": lambda A, y: fit_erm(A, y, solver="newton"),
    "square": lambda A, y: fit_erm(A, y, "square", 0.5),
}


@pytest.mark.slow
@pytest.mark.parametrize("run", RUNS)
def test_every_kind_gives_the_same_answer(make, run):
    X, y, _ = pc.Teacher(3).sample(150, 60, 1)
    plain = RUNS[run](X, y)
    for kind in KINDS[1:]:
        own = RUNS[run](make(kind, X), y)
        assert own.status == plain.status == "ok"
        off = np.linalg.norm(own.weights - plain.weights) / np.linalg.norm(plain.weights)
        assert off < (1e-7 if run in ("max-margin", "cross-entropy", "newton") else 1e-10)


def test_a_memory_map_gives_the_same_and_is_not_copied(tmp_path):
    X, y, _ = pc.Teacher(3).sample(2500, 800, 2)
    path = tmp_path / "X.npy"
    np.save(path, X)
    mapped = np.load(path, mmap_mode="r")
    expected = fit_erm(X, y, "cross-entropy", 1.0, tol=1e-6)
    tracemalloc.start()
    found = fit_erm(mapped, y, "cross-entropy", 1.0, tol=1e-6)
    step = amp(mapped, y, max_iter=2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.5 * BLOCK_BYTES
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
        (scipy.sparse.csr_matrix([[1.0, 0.0], [0.0, np.nan]]), "row 1 has NaN"),
        (scipy.sparse.csr_matrix(np.ones((2, 2)) + 1j), "real numbers"),
        (np.vstack([np.ones((700, 2000)), np.full((1, 2000), np.inf)]), "row 700 has NaN"),
        (np.array([[1.0, 2.0], [3.0, 1e160]]), "row 1"),
        (np.ones((2, 2)) + 1j, "real numbers"),
    ],
)
def test_what_is_no_design_is_a_sentence(X, message):
    with pytest.raises(InvalidInput, match=message):
        open_design(X).check_entries()


def save(path, X, mode="r"):
    np.save(path, X)
    return np.load(path, mmap_mode=mode)


def test_what_a_file_cannot_be(tmp_path):
    y = np.arange(40) % 2
    whole = save(tmp_path / "int.npy", np.ones((40, 3), np.int16))
    with pytest.raises(InvalidInput, match=r"memory map of int16 entries, rows 0 to 39"):
        fit_erm(whole, y)
    turned = save(tmp_path / "turned.npy", np.asfortranarray(np.ones((40, 3))))
    with pytest.raises(InvalidInput, match=r"stored by columns .rows 0 to 39"):
        fit_erm(turned, y)
    X = np.random.default_rng(0).standard_normal((40, 3))
    X[21, 1] = np.nan
    with pytest.raises(InvalidInput, match=r"row 21 has NaN.*block of rows 0 to 39"):
        fit_erm(save(tmp_path / "nan.npy", X), y)
    with pytest.raises(InvalidInput, match=r"one label for each of the 40 samples, got shape .39"):
        fit_erm(save(tmp_path / "nan.npy", X), y[:39])  # said before X is read


def test_a_file_cut_short_is_a_sentence_not_the_end_of_the_program(tmp_path):
    path = tmp_path / "X.npy"
    X, y, _ = pc.Teacher(2).sample(3000, 400, 0)
    mapped = save(path, X)
    design = open_design(mapped)
    os.truncate(path, path.stat().st_size - 800 * 3200)
    with pytest.raises(InvalidInput, match=r"rows 1310 to 2619 of X cannot be read .*cut short"):
        design.fields(np.ones((1, 400)))
    with pytest.raises(InvalidInput, match=r"rows 2200 to 2999 of X cannot be read .*cut short"):
        fit_erm(mapped, y)
    os.unlink(path)


def test_a_map_whose_file_has_gone_or_is_another_is_read_as_it_was(tmp_path):
    path, X = tmp_path / "X.npy", matrix(50, 4)
    mapped = save(path, X)
    np.save(tmp_path / "other.npy", X + 1)
    os.replace(tmp_path / "other.npy", path)
    np.testing.assert_array_equal(open_design(mapped).read_rows(slice(0, 50)), X)
    os.unlink(path)
    np.testing.assert_array_equal(open_design(mapped).read_rows([4, 2]), X[[4, 2]])


def broken(block, block_info=None):
    if block_info and block_info[0]["array-location"][0][0] == 10:
        raise OSError("no such chunk")
    return block


def test_what_a_dask_array_cannot_be():
    X, y = matrix(40, 6), np.arange(40) % 2
    A = dask.array.from_array(X, chunks=(10, -1))
    cases = [
        (dask.array.from_array(X, chunks=(10, 3)), "chunks along its columns .3, 3, .*0 to 9"),
        (A[A[:, 0] > 0], "unknown numbers of rows"),
        (A[:, 0], "must be a matrix"),
        (A.astype(complex), "real numbers"),
        (A.map_blocks(broken, dtype=float), "rows 10 to 19 of X cannot be read: OSError"),
        (A.map_blocks(lambda b: b[:3], dtype=float, chunks=A.chunks), "rows 0 to 9 of X have"),
        (dask.array.where(X[25, 2] == A, np.nan, A), "row 25 has NaN.*rows 20 to 29"),
    ]
    for given, message in cases:
        with pytest.raises(InvalidInput, match=message):
            fit_erm(given, y)


def test_integers_and_dataframes_of_dask_are_taken(tmp_path):
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    X = np.random.default_rng(0).integers(-3, 4, (60, 5))
    y = dask.array.from_array((X @ np.arange(-2, 3) > 0).astype(int), chunks=20)
    plain = fit_erm(X.astype(float), np.asarray(y)).weights
    np.testing.assert_allclose(
        fit_erm(dask.array.from_array(X, chunks=(20, -1)), y).weights, plain, rtol=1e-7
    )
    frame = pd.DataFrame(X.astype(np.float64), columns=list("abcde"))
    frame.to_parquet(tmp_path / "X.parquet")
    read = dd.read_parquet(tmp_path / "X.parquet")
    np.testing.assert_allclose(fit_erm(read, y).weights, plain, rtol=1e-7)


def test_scaled_features_are_a_design_of_their_own(make):
    """Of centred and scaled features with a constant column, against the matrix written down."""
    X = np.maximum(matrix(60, 25) - 0.8, 0)
    shift, scale = X.mean(0), X.std(0) + 0.1
    for kind in KINDS:
        design = scaled(make(kind, X), shift, scale, constant=2.5)
        A = np.hstack([(X - shift) / scale, np.full((60, 1), 2.5)])
        plain = open_design(A)
        U, F = matrix(3, 26), matrix(3, 60)
        np.testing.assert_allclose(design.fields(U), plain.fields(U), atol=1e-13)
        np.testing.assert_allclose(design.back(F), plain.back(F), atol=1e-13)
        np.testing.assert_allclose(design.gram(), plain.gram(), atol=1e-13)
        np.testing.assert_allclose(design.row_norms, plain.row_norms)


def test_sparse_data_give_the_same_and_are_not_filled():
    rng = np.random.default_rng(5)
    X = scipy.sparse.random_array((600, 2000), density=0.01, rng=rng, format="csr")
    y = (np.asarray(X @ rng.standard_normal((2000, 3)))).argmax(1)
    dense = X.toarray()
    for loss in ("cross-entropy", "square"):
        expected = fit_erm(dense, y, loss, 0.1, tol=1e-11).weights
        tracemalloc.start()
        found = fit_erm(X, y, loss, 0.1, tol=1e-11).weights
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert np.linalg.norm(found - expected) < 1e-10 * np.linalg.norm(expected)
        # blocks of 4 MB are dense, and the square loss needs the matrix of n² products
        assert loss == "square" or peak < 0.5 * dense.nbytes
