"""Sparse matrices whose indices lie outside of them: one sentence, never a crash.

Before the check, most of these ended the process by a segmentation fault.
"""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

import polyceptron as pc
from polyceptron.data.class_moments import class_moments
from polyceptron.data.sparse_checks import check_sparse, compressed_rows
from polyceptron.data.stored_designs import open_design

N, D = 60, 6
rng = np.random.default_rng(0)
DENSE = rng.standard_normal((N, D)) * (rng.random((N, D)) < 0.5)
Y = np.arange(N) % 3
FORMATS = ("csr", "csc", "bsr", "coo", "dia", "lil", "dok")


def changed(array, at, value):
    array = np.array(array)
    array[at] = value
    return array


def damaged(kind, name, change):
    """A matrix of this format, of which one array was replaced after it was made."""
    X = (
        sp.bsr_array(DENSE, blocksize=(2, 2))
        if kind == "bsr"
        else sp.coo_array(DENSE).asformat(kind)
    )
    setattr(X, name, change(getattr(X, name)))
    return X


def short_row(rows):
    rows = rows.copy()
    rows[3] = rows[3][:-1]
    return rows


def far_column(rows):
    rows = rows.copy()
    rows[3] = [10**6, *rows[3][1:]]
    return rows


DAMAGED = {
    f"{kind}: {what}": (kind, name, change)
    for kind in ("csr", "csc", "bsr")
    for what, name, change in (
        ("an index far out", "indices", lambda a: changed(a, 3, 10**9)),
        ("an index just out", "indices", lambda a: changed(a, 3, 10 * N)),
        ("a negative index", "indices", lambda a: changed(a, 0, -1)),
        ("indices too few", "indices", lambda a: a[:-3]),
        ("indices that are floats", "indices", lambda a: a.astype(float)),
        ("indices of two axes", "indices", lambda a: a[None]),
        ("a pointer too large", "indptr", lambda a: changed(a, 2, 10**9)),
        ("a negative pointer", "indptr", lambda a: changed(a, 2, -(10**9))),
        ("a first pointer", "indptr", lambda a: changed(a, 0, 2)),
        ("a last pointer beyond the data", "indptr", lambda a: changed(a, -1, 10**6)),
        ("pointers that decrease", "indptr", lambda a: np.r_[a[:1], a[1:-1][::-1], a[-1:]]),
        ("pointers too few", "indptr", lambda a: a[:-1]),
        ("data too short", "data", lambda a: a[:-3]),
    )
} | {
    "coo: a row far out": ("coo", "row", lambda a: changed(a, 3, 10**9)),
    "coo: a negative column": ("coo", "col", lambda a: changed(a, 3, -1)),
    "coo: rows too few": ("coo", "row", lambda a: a[:-1]),
    "dia: an offset far out": ("dia", "offsets", lambda a: changed(a.astype(np.int64), 0, 2**40)),
    "dia: a diagonal twice": ("dia", "offsets", lambda a: changed(a, 0, a[1])),
    "dia: offsets too few": ("dia", "offsets", lambda a: a[:-1]),
    "lil: a column far out": ("lil", "rows", far_column),
    "lil: a row with fewer columns than entries": ("lil", "rows", short_row),
}
FITTED = {
    "ERMClassifier": pc.ERMClassifier(ridge=1.0).fit(DENSE, Y),
    "AMPClassifier": pc.AMPClassifier(noise="gaussian:0.5", tol=1e-2).fit(DENSE, Y),
}
DOORS = {
    "open_design": open_design,
    "fit_erm": lambda X: pc.fit_erm(X, Y),
    "fit_erm_path": lambda X: pc.fit_erm_path(X, Y, "square", [1.0]),
    "amp": lambda X: pc.amp(X, Y),
    "amp_erm": lambda X: pc.amp_erm(X, Y),
    "is_separable": lambda X: pc.is_separable(X, Y),
    "separation": lambda X: pc.separation(X, Y),
    "class_moments": lambda X: class_moments(X, Y),
    "Mixture.from_data": lambda X: pc.Mixture.from_data(X, Y),
    "ERMClassifier.fit": lambda X: pc.ERMClassifier(ridge=1.0).fit(X, Y),
    "ERMClassifier, auto": lambda X: pc.ERMClassifier().fit(X, Y),
    "AMPClassifier.fit": lambda X: pc.AMPClassifier().fit(X, Y),
    "predict": lambda X: FITTED["ERMClassifier"].predict(X),
    "predict_proba": lambda X: FITTED["ERMClassifier"].predict_proba(X),
    "decision_function": lambda X: FITTED["AMPClassifier"].decision_function(X),
    "feature_tests": lambda X: FITTED["ERMClassifier"].feature_tests(X, Y),
    "held_out_scores": lambda X: FITTED["ERMClassifier"].held_out_scores(X, Y),
    "overlap_matrices": lambda X: pc.overlap_matrices(X, DENSE),
    "exact_generalisation_error": lambda X: pc.exact_generalisation_error(DENSE, X),
    "predicted_curve": lambda X: pc.predicted_curve(pc.ERMClassifier(ridge=1.0), X, Y),
    "twin_report": lambda X: pc.twin_report(X, Y),
    "Spectrum.from_data": lambda X: pc.Spectrum.from_data(X, Y),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_a_damaged_matrix_is_one_sentence_at_every_door(case):
    kind, name, change = DAMAGED[case]
    for door, call in DOORS.items():
        with pytest.raises(
            pc.InvalidInput, match=r"damaged sparse matrix|array of numbers"
        ) as told:
            call(damaged(kind, name, change))
        assert "\n" not in str(told.value), door


@pytest.mark.parametrize("kind", FORMATS)
def test_sound_matrices_pass_and_are_not_changed(kind):
    X = sp.coo_array(DENSE).asformat(kind)
    rows = compressed_rows(X)
    np.testing.assert_array_equal(rows.toarray(), DENSE)
    np.testing.assert_array_equal(X.toarray(), DENSE)
    assert rows is X or kind != "csr"


def test_room_for_entries_to_come_is_allowed_and_not_read():
    X = sp.csr_array(DENSE)
    X.data = np.r_[X.data, np.nan, 1.0]
    X.indices = np.r_[X.indices, 0, 10**8].astype(np.int32)
    check_sparse(X)
    fit = pc.fit_erm(X, Y, ridge=1.0)
    np.testing.assert_allclose(fit.weights, pc.fit_erm(DENSE, Y, ridge=1.0).weights, atol=1e-7)
    assert X.data.size == X.indptr[-1] + 2  # the caller's matrix is the caller's


def test_a_shape_beyond_memory_is_refused_before_it_is_filled():
    narrow = sp.csc_array((np.ones(1), [0], [0, 1, 1]), shape=(10**12, 2))
    wide = sp.csr_array((np.ones(1), [0], [0, 1, 1]), shape=(2, 10**12))
    for X in (narrow, wide, sp.coo_array(narrow)):
        with pytest.raises(pc.InvalidInput, match="memory allows"):
            pc.fit_erm(X, [0, 1])


def test_matrices_of_one_or_three_axes_are_refused():
    for X in (sp.coo_array(DENSE[0]), sp.coo_array(DENSE[None])):
        with pytest.raises(pc.InvalidInput, match="must be a matrix"):
            pc.fit_erm(X, Y)


SCRIPT = """
import sys
import numpy as np
import scipy.sparse as sp
import polyceptron as pc
X = sp.csr_array(np.ones((60, 6)))
X.indices = X.indices + np.int32(5 * 10**8)
try:
    pc.fit_erm(X, np.arange(60) % 3)
except pc.InvalidInput as error:
    print(error)
    sys.exit(2)
"""


def test_indices_out_of_range_do_not_end_the_process():
    ended = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert ended.returncode == 2, ended
    assert "must be from 0 to 5, got 500000000 to 500000005" in ended.stdout
