"""Labels of every kind through every function that takes labels: a fit, or one sentence."""

from __future__ import annotations

import datetime
import re

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import polyceptron as pc
from polyceptron.data.class_moments import class_moments
from polyceptron.data.labels import class_labels, label_values

N, D = 30, 4
X = np.random.default_rng(0).standard_normal((N, D))
Y = np.arange(N) % 3
NAMES = np.array(["a", "b", "c"])[Y]


def with_first(value, dtype=object):
    found = NAMES.astype(object) if dtype is object else Y.astype(dtype)
    found[0] = value
    return found


RECORDS = np.zeros(N, dtype=[("a", int), ("b", float)])
REFUSED = {
    "NaN": (with_first(np.nan, float), "NaN in row 0"),
    "infinity": (with_first(np.inf, float), "an infinite value in row 0"),
    "minus infinity": (with_first(-np.inf, np.float32), "an infinite value in row 0"),
    "continuous": (Y + 0.25, "continuous values, such as 0.25 in row 0"),
    "one fraction": (with_first(0.5, float), "continuous values, such as 0.5 in row 0"),
    "enormous": (with_first(1e300, float), "continuous values, such as 1e[+]300"),
    "complex": (Y + 0j, "Complex data not supported: y holds complex128"),
    "dates": (Y.astype("datetime64[D]"), "dates"),
    "times": (Y.astype("timedelta64[s]"), "time differences"),
    "bytes": (NAMES.astype("S"), "bytes"),
    "records": (RECORDS, "records of several fields"),
    "raw bytes": (np.zeros(N, dtype="V4"), "records of several fields"),
    "a number": (3, "shape|samples"),
    "no axis": (np.array(1), "shape|samples"),
    "text": ("abc", "shape|samples"),
    "None": (None, "requires y to be passed"),
    "all None": (np.array([None] * N), "None in row 0"),
    "one None": (with_first(None), "None in row 0"),
    "text and NaN": (with_first(np.nan), "NaN in row 0"),
    "text and numbers": (with_first(1), "a number in row 0"),
    "objects that are bytes": (with_first(b"a"), "the type bytes in row 0"),
    "objects that are dates": (with_first(datetime.date(2020, 1, 1)), "the type date in row 0"),
    "objects that are lists": (with_first([1]), "the type list in row 0"),
    "objects that are complex": (with_first(1j), "the type complex in row 0"),
    "pandas's missing": (pd.array([None, *Y[1:]], dtype="Int64"), "(NaN|the type NAType) in row 0"),
    "numbers beyond 64 bits": (np.array([2**70 + int(i) for i in Y], object), "more than 64 bits"),
    "several labels": (np.eye(3, dtype=int)[Y], "shape"),
    "three axes": (Y[:, None, None], "shape"),
    "a frame": (pd.DataFrame({"a": Y, "b": Y}), "shape"),
    "ragged": ([[1], [1, 2]] * 15, "no array"),
    "sparse": (sp.csr_array(Y[None]), "sparse matrix"),
    "masked": (np.ma.masked_equal(Y, 0), "masked"),
    "one class": (np.zeros(N, int), "one class only, '0'"),
    "one class of text": (np.full(N, "a"), "one class only, 'a'|class indices"),
    "one class of booleans": (np.full(N, True), "one class only, 'True'|class indices"),
    "none": ([], "is empty|samples"),
}
ANY_LABELS = {
    "ERMClassifier": lambda y: pc.ERMClassifier(ridge=1.0).fit(X, y),
    "ERMClassifier, auto": lambda y: pc.ERMClassifier().fit(X, y),
    "AMPClassifier": lambda y: pc.AMPClassifier(noise="gaussian:0.5", tol=1e-2).fit(X, y),
    "predicted_curve": lambda y: pc.predicted_curve(pc.ERMClassifier(ridge=1.0), X, y),
    "twin_report": lambda y: pc.twin_report(X, y, train_sizes=[1.0], models=["isotropic"], draws=2),
}
INDICES = {
    "fit_erm": lambda y: pc.fit_erm(X, y, "square", 1.0),
    "fit_erm_path": lambda y: pc.fit_erm_path(X, y, "square", [1.0]),
    "amp": lambda y: pc.amp(X, y, max_iter=3),
    "amp_erm": lambda y: pc.amp_erm(X, y, max_iter=3),
    "is_separable": lambda y: pc.is_separable(X, y),
    "separation": lambda y: pc.separation(X, y),
    "class_moments": lambda y: class_moments(X, y),
    "Mixture.from_data": lambda y: pc.Mixture.from_data(X, y),
}


@pytest.mark.parametrize("door", [*ANY_LABELS, *INDICES, "Spectrum.from_data"])
@pytest.mark.parametrize("case", REFUSED)
def test_what_are_no_labels_is_one_sentence_at_every_door(case, door):
    call = (ANY_LABELS | INDICES).get(door, lambda y: pc.Spectrum.from_data(X, y))
    y, message = REFUSED[case]
    if door == "Spectrum.from_data" and y is None:
        return  # y may be left out there
    with pytest.raises(pc.InvalidInput) as told:
        call(y)
    sentence = str(told.value)
    assert re.search(message, sentence), sentence
    assert "\n" not in sentence


ALLOWED = {
    "numbers": Y,
    "numbers from 5": Y + 5,
    "negative numbers": Y - 1,
    "small numbers": Y.astype(np.int8),
    "unsigned numbers": Y.astype(np.uint64),
    "whole floats": Y.astype(float),
    "half precision": Y.astype(np.float16),
    "booleans": Y > 0,
    "text": NAMES,
    "objects that are text": NAMES.astype(object),
    "objects that are numbers": Y.astype(object),
    "a list": NAMES.tolist(),
    "a series": pd.Series(NAMES),
    "pandas's numbers": pd.array(Y, dtype="Int64"),
    "pandas's text": pd.array(NAMES, dtype="string"),
    "categories": pd.Categorical(NAMES),
    "text of any length": NAMES.astype(np.dtypes.StringDType()),
}


@pytest.mark.parametrize("case", ALLOWED)
def test_labels_of_every_kind_that_is_allowed_are_fitted(case):
    y = ALLOWED[case]
    classes = {str(label) for label in np.asarray(y).tolist()}
    for make in (pc.ERMClassifier(ridge=1.0), pc.AMPClassifier(noise="gaussian:0.5", tol=1e-2)):
        fitted = make.fit(X, y)
        assert {str(name) for name in fitted.classes_} == classes
        assert set(fitted.predict(X)) <= set(fitted.classes_)


def test_the_labels_of_a_fit_are_needed_again_for_its_scores():
    fitted = pc.ERMClassifier(ridge=1.0).fit(X, NAMES)
    for call in (fitted.held_out_scores, fitted.feature_tests):
        with pytest.raises(pc.InvalidInput, match="None in row 0"):
            call(X, with_first(None))
        with pytest.raises(pc.InvalidInput, match="classes of the fit"):
            call(X, Y)


# A few samples may be of one class, and scikit-learn tells that there are too few of them.
NO_LABELS = [case for case in REFUSED if not case.startswith("one class") and case != "none"]


@pytest.mark.parametrize("case", NO_LABELS)
def test_a_score_takes_what_may_be_labels(case):
    """Bytes, dates and records were errors of numpy's or scikit-learn's, of several types."""
    fitted = pc.ERMClassifier(ridge=1.0).fit(X, Y)
    assert 0 < fitted.score(X, np.zeros(N, int)) < 1
    y, _ = REFUSED[case]
    with pytest.raises(pc.InvalidInput):
        fitted.score(X, y)


def test_one_class_is_enough_where_the_number_of_classes_is_given():
    assert label_values(np.zeros(N)).size == N
    assert pc.fit_erm(X, np.zeros(N, int), "square", 1.0, n_classes=2).weights.shape == (D, 2)
    with pytest.raises(pc.InvalidInput, match="as n_classes"):
        pc.fit_erm(X, np.zeros(N, int), "square", 1.0)


def test_as_many_labels_as_samples_are_no_classes():
    with pytest.raises(pc.InvalidInput, match="1001 different values for 1001 samples: at most"):
        class_labels(np.arange(1001))
