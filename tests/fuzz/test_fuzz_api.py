"""The Python interface under hostile input: a documented exception, or a result that holds.

InvalidInput and ComputationFailed are the documented ways out (scikit-learn's own ValueError and
TypeError for the classifiers). A result is inside its range, and finite where its status is ok.
"""

import math
import warnings
from contextlib import suppress

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import polyceptron as pc
from polyceptron.errors import ComputationFailed, InvalidInput

REFUSED = (InvalidInput, ComputationFailed)
rng = np.random.default_rng(0)
X = rng.standard_normal((24, 8))
Y = (X @ rng.standard_normal((8, 3))).argmax(1)


def dense(data):
    return data.toarray() if scipy.sparse.issparse(data) else np.array(data, copy=True)


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


NOT_DATA = {
    "NaN": np.where(X > 1.5, np.nan, X),
    "infinity": np.where(X > 1.5, np.inf, X),
    "one axis": X[0],
    "three axes": X[None],
    "no samples": X[:0],
    "no features": X[:, :0],
    "text": "abc",
    "objects": np.full((24, 8), "a", dtype=object),
    "None": None,
    "complex": X + 1j,
    "ragged": [[1.0, 2.0], [3.0]],
    "masked": np.ma.masked_greater(X, 1.0),
    "sparse with NaN": scipy.sparse.csr_matrix(np.where(X > 1.5, np.nan, X)),
    "sparse complex": scipy.sparse.csr_matrix(X + 1j),
    "dates": X.astype("datetime64[s]"),
}
ODD_DATA = {
    "objects that are numbers": X.astype(object),
    "integers": (3 * X).astype(int),
    "booleans": X > 0,
    "a list": X.tolist(),
    "read-only": read_only(X),
    "Fortran order": np.asfortranarray(X),
    "strided": np.repeat(X, 2, axis=1)[:, ::2],
    "half precision": X.astype(np.float16),
    "sparse": scipy.sparse.csr_matrix(X),
    "huge": X * 1e200,
    "tiny": X * 1e-200,
    "zeros": 0 * X,
    "constant": np.ones_like(X),
}
NOT_LABELS = {
    "negative": Y - 1,
    "fractions": Y + 0.5,
    "NaN": np.where(Y == 0, np.nan, Y),
    "infinity": np.where(Y == 0, np.inf, Y),
    "text": np.array(list("abc"))[Y],
    "too few": Y[:5],
    "a column": Y[:, None],
    "enormous": Y * 10**15,
    "complex": Y + 0j,
    "None": None,
    "Nones": np.array([None] * 24),
}
FITS = {
    "amp": lambda X, y: pc.amp(X, y, max_iter=15),
    "amp, full": lambda X, y: pc.amp(X, y, variances="full", max_iter=6),
    "amp, rademacher": lambda X, y: pc.amp(X, y, "rademacher", max_iter=15),
    "amp_erm": lambda X, y: pc.amp_erm(X, y, max_iter=30),
    "cross-entropy": lambda X, y: pc.fit_erm(X, y, "cross-entropy", 0.1, n_classes=3),
    "square": lambda X, y: pc.fit_erm(X, y, "square", 0.1, n_classes=3),
    "max-margin": lambda X, y: pc.fit_erm(X, y, "max-margin", n_classes=3),
}


@pytest.fixture(autouse=True)
def quiet():
    """Overflow in absurd data may warn; what counts is the status."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize("kind", NOT_DATA)
def test_what_is_not_data_is_refused(fit, kind):
    with pytest.raises(REFUSED):
        FITS[fit](NOT_DATA[kind], Y)


@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize("kind", NOT_LABELS)
def test_what_are_not_labels_are_refused(fit, kind):
    with pytest.raises(REFUSED):
        FITS[fit](X, NOT_LABELS[kind])


@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize("kind", ODD_DATA)
def test_odd_data_give_finite_weights_or_a_sentence(fit, kind):
    data = ODD_DATA[kind]
    before = dense(data)
    try:
        found = FITS[fit](data, Y)
    except REFUSED:
        return
    assert np.isfinite(found.weights).all()
    assert found.weights.shape == (8, 3)
    assert np.array_equal(before, dense(data))  # the caller's array is the caller's


@pytest.mark.parametrize("fit", FITS)
def test_one_sample_and_one_label(fit):
    for data, labels in ((X[:1], Y[:1]), (X, 0 * Y), (X[:, :1], Y)):
        with suppress(*REFUSED):
            assert np.isfinite(FITS[fit](data, labels).weights).all()


def test_layout_and_type_do_not_change_the_answer():
    expected = pc.fit_erm(X, Y, "cross-entropy", 0.1).weights
    for kind in ("a list", "read-only", "Fortran order", "strided", "objects that are numbers"):
        found = pc.fit_erm(ODD_DATA[kind], Y, "cross-entropy", 0.1)
        assert found.status == "ok"
        assert np.allclose(found.weights, expected, atol=1e-6)


@pytest.mark.parametrize("make", [pc.AMPClassifier, pc.ERMClassifier], ids=lambda c: c.__name__)
@pytest.mark.parametrize("kind", [k for k in NOT_DATA if k not in ("masked", "dates")])
def test_classifiers_refuse_as_scikit_learn_does(make, kind):
    with pytest.raises((ValueError, TypeError)):
        make().fit(NOT_DATA[kind], Y)


SETTINGS = st.one_of(
    st.sampled_from(
        [0, 1, -1, 2, 3, 10**9, True, None, "a", "3", [], [3], (), {}, 1j, object(), "optimal"]
    ),
    st.floats(),
    st.integers(-(10**20), 10**20),
)


@settings(max_examples=80)
@given(SETTINGS)
def test_number_of_classes(value):
    for call in (pc.Teacher, lambda k: pc.fit_erm(X, Y, "square", 1.0, n_classes=k)):
        with suppress(InvalidInput):
            assert call(value) is not None
            assert isinstance(value, int) or (value is None and call is not pc.Teacher)
            assert value is None or 2 <= value <= 1000


@settings(max_examples=80)
@given(SETTINGS, st.sampled_from(["gaussian", "softmax", "flips", "none", "pink"]))
def test_noises(number, kind):
    """A teacher whose labels can be drawn, or a sentence."""
    for noise in (number, f"{kind}:{number}"):
        with suppress(InvalidInput):
            teacher = pc.Teacher(3, noise=noise)
            assert set(teacher.sample(20, 4, 0).y) <= {0, 1, 2}
            assert pc.Teacher(3, noise=teacher.noise.name) == teacher  # the name reads back


@settings(max_examples=60)
@given(SETTINGS, SETTINGS)
def test_ridges_and_starts_of_fits(ridge, start):
    with suppress(*REFUSED):
        found = pc.fit_erm(X, Y, "square", ridge, start=start)
        assert float(ridge) >= 0
        assert np.isfinite(found.weights).all()
    with suppress(*REFUSED):
        assert np.isfinite(pc.amp_erm(X, Y, "square", ridge, max_iter=5).weights).all()
    with suppress(*REFUSED):
        assert isinstance(pc.fit_erm_path(X, Y, "square", ridge), list)


@settings(max_examples=80)
@given(SETTINGS)
def test_sample_ratio(value):
    for teacher in (pc.Teacher(2), pc.Teacher(2, "rademacher")):
        try:
            points = pc.fixed_points(teacher, value)
        except InvalidInput:
            continue
        for point in points:
            assert point.status == "ok"
            assert 0 <= point.generalisation_error <= 0.5
            assert -1e-12 <= point.q <= 1
        if float(np.ravel(value)[0]) < 1e-3:  # nothing was learnt: no false certainty
            assert points[0].generalisation_error > 0.45


@settings(max_examples=60)
@given(SETTINGS, SETTINGS)
def test_erm_theory(alpha, ridge):
    try:
        point = pc.erm_fixed_point(pc.Teacher(2), pc.ERM("square", ridge), alpha)
    except REFUSED:
        return
    assert 0 <= point.generalisation_error <= 0.5
    if point.status == "ok":
        assert math.isfinite(point.m)
        assert math.isfinite(point.q)


@settings(max_examples=60)
@given(st.one_of(SETTINGS, st.lists(st.floats(-1.5, 1.5), max_size=4)))
def test_generalisation_error(value):
    try:
        error = pc.generalisation_error(value, 3)
    except InvalidInput:
        return
    assert np.all((np.asarray(error) >= 0) & (np.asarray(error) <= 1))


@settings(max_examples=60)
@given(SETTINGS, SETTINGS)
def test_state_evolution_and_curves(steps, start):
    try:
        found = pc.state_evolution(
            pc.Teacher(2), 1.0, min(steps, 50) if _number(steps) else steps, start
        )
    except InvalidInput:
        return
    assert np.all((found.q >= -1e-12) & (found.q <= 1))


def _number(value):
    return isinstance(value, int) and not isinstance(value, bool)


@settings(max_examples=60)
@given(
    st.lists(st.floats(allow_nan=True), max_size=4),
    st.lists(st.floats(0, 1), max_size=4),
)
def test_finite_priors(values, probabilities):
    try:
        prior = pc.finite_prior(values, probabilities)
    except InvalidInput:
        return
    v, p = np.array(prior.values), np.array(prior.probabilities)
    assert p.sum() == pytest.approx(1)
    assert p @ v == pytest.approx(0, abs=1e-8)
    assert p @ v**2 == pytest.approx(1, rel=1e-6)
    assert pc.Teacher(2, prior.name).prior == prior  # the name reads back


@pytest.mark.parametrize("thing", [None, "x", 3, pc.Teacher, pc.BayesOptimal()], ids=repr)
def test_what_is_no_teacher(thing):
    for call in (
        lambda t: pc.fixed_points(t, 1.0),
        lambda t: pc.state_evolution(t, 1.0),
        pc.transitions,
        pc.separability,
        pc.solution_curve,
        lambda t: pc.erm_fixed_point(t, "square", 1.0),
        lambda t: pc.optimal_ridge(t, "square", 1.0),
        lambda t: pc.learning_curve(t, pc.BayesOptimal(), 1.0),
        lambda t: pc.asymptotics(t, pc.BayesOptimal()),
        lambda t: pc.plan(t, 0.1, pc.BayesOptimal()),
    ):
        with pytest.raises(InvalidInput, match="teacher"):
            call(thing)


@pytest.mark.parametrize("thing", [None, "nothing", 3, [], [3], pc.BayesOptimal], ids=repr)
def test_what_is_no_estimator(thing):
    with pytest.raises(InvalidInput):
        pc.learning_curve(pc.Teacher(2), thing, 1.0)


@settings(max_examples=40)
@given(SETTINGS)
def test_tolerances(tol):
    for call in (
        lambda: pc.fixed_points(pc.Teacher(2), 1.0, tol)[0].status,
        lambda: pc.transitions(pc.Perceptron(), tol).status,
        lambda: pc.fit_erm(X, Y, "square", 1.0, tol=tol).status,
    ):
        with suppress(InvalidInput):
            assert str(call()) in ("ok", "tolerance-not-met", "not-converged")


def test_sizes_beyond_memory_fail_at_once():
    for n, d in ((10**12, 10**12), (10**9, 10**7)):
        with pytest.raises(MemoryError):
            pc.Teacher(3).sample(n, d, 0)


@pytest.mark.parametrize("make", [pc.AMPClassifier, pc.ERMClassifier], ids=lambda c: c.__name__)
@pytest.mark.parametrize("size", [1e-310, 1e-200, 1e200, 1e300])
def test_the_unit_of_the_features_never_makes_a_classifier_overflow(make, size):
    if size < 1e-290 and make is pc.AMPClassifier:  # as good as constant
        with pytest.raises(ValueError, match="every feature is constant"):
            make().fit(size * X, Y)
        return
    fitted = make().fit(size * X, Y)
    assert np.isfinite(fitted.coef_).all()
    assert np.isfinite(fitted.decision_function(size * X)).all()
    if size > 1e-290:
        assert fitted.score(size * X, Y) > 0.9
