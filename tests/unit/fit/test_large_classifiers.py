"""Classifiers on data that are not copied: the answer of arrays, from maps and Dask arrays."""

from __future__ import annotations

import os
import tracemalloc

import numpy as np
import pytest

import polyceptron as pc
from polyceptron.data import design as array_design
from polyceptron.data.stored_designs import open_design

da = pytest.importorskip("dask.array")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Features far from 0, on many scales, one of them constant; labels that are words."""
    rng = np.random.default_rng(0)
    size = np.geomspace(0.1, 10, 20)
    X = rng.standard_normal((400, 20)) * size + np.linspace(-300, 300, 20)
    X[:, 7] = 3.0
    fields = (X - X.mean(0)) / size @ rng.standard_normal((20, 3))
    y = np.array(["left", "middle", "right"])[
        (fields + 2 * rng.standard_normal((400, 3))).argmax(1)
    ]
    path = tmp_path_factory.mktemp("large") / "X.npy"
    np.save(path, X)
    mapped = open_design(np.load(path, mmap_mode="r"))
    return X, y, {"map": mapped, "dask": da.from_array(X, chunks=(150, -1))}


CLASSIFIERS = {
    "cross-entropy": lambda: pc.ERMClassifier(ridge=0.1, tol=1e-11),
    "chosen ridge": lambda: pc.ERMClassifier(
        class_weight="balanced", ridges=[1, 0.1, 0.01], tol=1e-11
    ),
    "square": lambda: pc.ERMClassifier("square", 0.1),
    "correlated": lambda: pc.AMPClassifier(noise="gaussian:0.5"),
    "shared": lambda: pc.AMPClassifier(variances="shared", noise="gaussian:0.5"),
    "full": lambda: pc.AMPClassifier("laplace", "full", noise="gaussian:0.5"),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:message passing did not converge")
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_the_same_as_of_an_array(data, name):
    X, y, large = data
    weights = np.where(y == "left", 2.0, 1.0)
    more = {"sample_weight": weights} if name == "square" else {}
    plain = CLASSIFIERS[name]().fit(X, y, **more)
    for given in large.values():
        own = CLASSIFIERS[name]().fit(given, y, **more)
        assert own.n_features_in_ == 20
        np.testing.assert_allclose(own.coef_, plain.coef_, atol=1e-9 * np.abs(plain.coef_).max())
        np.testing.assert_array_equal(own.predict(given), plain.predict(X))
        if hasattr(plain, "predict_proba"):
            np.testing.assert_allclose(own.predict_proba(given), plain.predict_proba(X), atol=1e-8)


def test_a_large_map_is_standardised_as_it_is_read(tmp_path):
    rng = np.random.default_rng(1)
    X = (rng.standard_normal((24000, 400)) * 3 + 5).astype(np.float32)
    y = (X[:, :3] + rng.standard_normal((24000, 3))).argmax(1)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    pc.ERMClassifier(ridge=100.0).fit(X[:20], y[:20])  # what it imports is not to be counted
    tracemalloc.start()
    found = pc.ERMClassifier(ridge=100.0, tol=0.03).fit(mapped, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # A block of 4 MB, scaled in double precision and weighted 16 more, and columns of n numbers.
    assert peak < 30e6 < 0.8 * X.nbytes
    plain = pc.ERMClassifier(ridge=100.0, tol=0.03).fit(X, y)
    assert np.abs(found.coef_ - plain.coef_).max() < 0.06 * np.abs(plain.coef_).max()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "dtype", "order"),
    [("erm", "f4", "C"), ("erm", "f8", "F"), ("amp", "f4", "C")],
)
def test_an_array_in_memory_is_scaled_without_a_copy(name, dtype, order, monkeypatch):
    monkeypatch.setattr(array_design, "COPY_BYTES", 0)  # what POLYCEPTRON_COPY_MB=0 does
    models = {
        "erm": pc.ERMClassifier(ridge=100.0, tol=1e-3),
        "amp": pc.AMPClassifier(variances="shared", noise="gaussian:1", tol=0.1),
    }
    rng = np.random.default_rng(2)
    n, d = (8000, 800) if name == "erm" else (24_000, 320)  # of which d² numbers are needed, too
    X = np.asarray(rng.standard_normal((n, d)) * 3 + 5, dtype=dtype, order=order)
    y = (X[:, :3] + rng.standard_normal((n, 3))).argmax(1)
    models[name].fit(X[:90], y[:90])
    tracemalloc.start()
    found = models[name].fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # A block of 4 MB, in double precision and scaled, and columns of n numbers.
    assert peak < 0.7 * X.nbytes
    assert found.score(X[:900], y[:900]) > 0.6


def test_an_array_far_from_zero_loses_no_digits():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((9000, 60)) + 1e6 * (np.arange(60) % 3)
    y = (X[:, 3:6] - X[:, :3].round() + rng.standard_normal((9000, 3))).argmax(1)
    found = pc.ERMClassifier(ridge=10.0).fit(X, y)  # 4.3 MB: not copied
    plain = pc.ERMClassifier(ridge=10.0).fit(X - X.mean(0), y)
    np.testing.assert_allclose(found.coef_, plain.coef_, atol=1e-7 * np.abs(plain.coef_).max())


def test_a_small_map_cut_short_is_a_sentence_not_the_end_of_the_program(tmp_path):
    X, y, _ = pc.Teacher(2).sample(300, 20, 0)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    os.truncate(tmp_path / "X.npy", 128 + 160 * 200)
    with pytest.raises(pc.InvalidInput, match="rows 200 to 299 of X cannot be read"):
        pc.ERMClassifier().fit(mapped, y)


def test_samples_of_no_weight_are_left_out_of_an_array():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((9000, 60))
    y, weights = (X[:, 0] > 0).astype(int), (np.arange(9000) % 3 > 0).astype(float)
    found = pc.ERMClassifier(ridge=1.0).fit(X, y, sample_weight=weights)
    plain = pc.ERMClassifier(ridge=1.0).fit(X[weights > 0], y[weights > 0])
    np.testing.assert_allclose(found.coef_, plain.coef_, rtol=1e-6)


def test_sentences_for_large_data(data):
    X, y, large = data
    for given in large.values():
        with pytest.raises(ValueError, match="from row 399 of X on there is none"):
            pc.ERMClassifier().fit(given, y[:-1])
        with pytest.raises(ValueError, match="above 0 where X is too large to copy"):
            pc.ERMClassifier().fit(given, y, sample_weight=np.arange(400.0))
    found = pc.ERMClassifier(ridge=1.0).fit(X, y)
    with pytest.raises(ValueError, match="X has 5 features, but ERMClassifier was fitted to 20"):
        found.predict(large["dask"][:, :5].rechunk({1: -1}))
