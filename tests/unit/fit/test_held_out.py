"""Intervals of held-out scores, prediction sets without a calibration split, the way to sklearn."""

import math
import warnings

import numpy as np
import pytest
import scipy.special
import scipy.stats
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import polyceptron as pc
from polyceptron.errors import InvalidInput
from polyceptron.fit.held_out import HeldOutLabels, HeldOutScores, held_out_frame
from polyceptron.fit.splits import HoldingOut

IRIS = load_iris(return_X_y=True)


def test_wilson_interval_without_the_correlation_of_folds():
    """With endless training samples the interval of the error is scipy's Wilson interval."""
    errors = np.zeros(200)
    errors[:13] = 1
    scores = HeldOutScores(np.ones(200), 3.0, errors, np.ones(200), n_train=1e12)
    table = held_out_frame(scores, 0.9)
    expected = scipy.stats.binomtest(13, 200).proportion_ci(0.9, method="wilson")
    assert table.loc["error", ["low", "high"]].tolist() == pytest.approx(list(expected), rel=1e-9)


def test_shared_training_samples_widen_the_interval():
    """Leave-one-out doubles the variance: as if half as many samples were held out."""
    errors = np.zeros(200)
    errors[:20] = 1
    losses = np.where(errors == 1, 2.0, 0.1)
    alone = HeldOutScores(losses, 2.0, errors, np.ones(200), n_train=1e12)
    shared = HeldOutScores(losses, 2.0, errors, np.ones(200), n_train=200)
    half = HeldOutScores(losses[::2], 2.0, errors[::2], np.ones(100), n_train=1e12)
    first, second, third = (held_out_frame(s, 0.95) for s in (alone, shared, half))
    for name in ("error", "log_loss"):
        ratio = second.standard_error[name] / first.standard_error[name]
        assert ratio == pytest.approx(math.sqrt(2))
    assert second.loc["error"].low == pytest.approx(third.loc["error"].low)
    assert second.loc["error"].high == pytest.approx(third.loc["error"].high)


def test_no_mistakes_leave_room_for_some():
    """Without a mistake among n samples the rule of three allows 3/n of them."""
    n = 300
    scores = HeldOutScores(np.full(n, 0.01), 5.0, np.zeros(n), np.ones(n), n_train=n - 1)
    table = held_out_frame(scores, 0.95)
    assert table.loc["error", "high"] > 3 / n
    assert table.loc["log_loss", "high"] > 0.01 + 5.0 * 3 / n
    assert table.loc["log_loss", "value"] == pytest.approx(0.01)


def test_weights_count_as_copies():
    rng = np.random.default_rng(0)
    losses = rng.exponential(size=40)
    errors = (losses > 1).astype(float)
    whole = HeldOutScores(losses, 2.0, errors, np.full(40, 1.0), 39)
    scaled = HeldOutScores(losses, 2.0, errors, np.full(40, 7.0), 39)
    first, second = (held_out_frame(s, 0.95) for s in (whole, scaled))
    numbers = ["value", "standard_error", "low", "high"]
    np.testing.assert_allclose(
        first[numbers].to_numpy(float), second[numbers].to_numpy(float), rtol=1e-9
    )


def test_a_class_of_one_sample_is_unknown():
    X, y = IRIS
    kept = np.r_[0:50, 50:100, 100]
    model = pc.ERMClassifier().fit(X[kept], y[kept])
    table = model.held_out_scores(X[kept], y[kept])
    assert set(table.status) == {"unknown for class 2: too few samples to hold one out"}
    assert table.high["log_loss"] == math.inf
    without = model.fit(X[:100], y[:100]).held_out_scores(X[:100], y[:100])
    share_of_one = scipy.stats.binomtest(1, 101).proportion_ci(method="wilson").high
    assert table.high["error"] > without.high["error"] + 0.9 * share_of_one
    assert np.isfinite(without.high["log_loss"])
    assert set(pc.ERMClassifier().fit(X, y).held_out_scores(X, y).status) == {"ok"}
    few = np.r_[0:3, 50:53]
    table = pc.ERMClassifier().fit(X[few], y[few]).held_out_scores(X[few], y[few])
    assert table.status["error"].startswith("unknown: only 6 samples")


@pytest.mark.slow
def test_intervals_hold_for_rare_and_separable_classes():
    """Of 60 tables with a class of 5 %, 93 to 99 % of the intervals hold, and 3 SE less at most."""
    inside = []
    for seed in range(60):
        teacher = pc.Mixture((0.95, 0.05), separation=3.0)
        X, y, _ = teacher.sample(8000, 6, seed=seed)
        if np.bincount(y[:150], minlength=2).min() < 2:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = pc.ERMClassifier().fit(X[:150], y[:150])
        table = model.held_out_scores(X[:150], y[:150])
        p = model.predict_proba(X[150:])[np.arange(y.size - 150), y[150:]]
        fresh = np.array([1 - model.score(X[150:], y[150:]), -np.log(p).mean()])
        inside.append((table["low"] <= fresh) & (fresh <= table["high"]))
    share = np.mean(inside, axis=0)
    assert (share >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / len(inside))).all()


@pytest.mark.parametrize("coverage", [0.5, 0.9, 0.99])
def test_threshold_is_the_quantile_of_split_conformal_prediction(coverage):
    rng = np.random.default_rng(1)
    p = rng.random(157)
    rank = math.ceil(158 * coverage)
    expected = np.sort(p)[::-1][rank - 1]
    assert HeldOutLabels(p, np.ones(157)).threshold(coverage) == expected
    assert HeldOutLabels(p, np.full(157, 0.3)).threshold(coverage) == expected
    assert HeldOutLabels(p, np.ones(157)).threshold(0.999) == 0.0


@pytest.mark.parametrize("load", [load_iris, load_wine, load_breast_cancer, load_digits])
def test_sets_cover_without_a_calibration_split(load):
    """Mean coverage over 10 random halves, each with its own standard error of a Beta law."""
    X, y = load(return_X_y=True)
    covered = []
    n = 120
    for seed in range(10):
        order = np.random.default_rng(seed).permutation(y.size)
        train, test = order[:n], order[n:]
        model = pc.ERMClassifier().fit(X[train], y[train])
        sets = model.predict_set(X[test], coverage=0.9)
        place = np.searchsorted(model.classes_, y[test])
        covered.append(sets[np.arange(test.size), place].mean())
    spread = math.sqrt(0.9 * 0.1 * (1 / n + 1 / (y.size - n)))
    assert np.mean(covered) == pytest.approx(0.9, abs=3 * spread / math.sqrt(10) + 0.02)


def test_predict_set_needs_held_out_samples():
    X, y = IRIS
    given = pc.ERMClassifier(ridge=0.1).fit(X, y)
    with pytest.raises(InvalidInput, match="predict_set needs held-out samples"):
        given.predict_set(X)
    kept = pc.ERMClassifier(ridges=[0.1]).fit(X, y)
    assert kept.ridge_ == pytest.approx(0.1)
    assert kept.predict_set(X).shape == (150, 3)
    with pytest.raises(InvalidInput, match="coverage must be a number between 0 and 1, got 90"):
        kept.predict_set(X, coverage=90)
    assert not hasattr(pc.ERMClassifier(loss="hinge"), "predict_set")
    few = pc.ERMClassifier().fit(X[40:60], y[40:60])
    assert few.predict_set(X[:5], coverage=0.99).all()


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("scaling", ["standard", "global", "none"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_pipeline_has_the_same_probabilities(k, scaling, fit_intercept):
    X, y = load_wine(return_X_y=True)
    X = np.column_stack([X, np.full(len(X), 3.0)])  # a constant feature
    names = np.array(["red", "rosé", "white"])
    kept = y < k
    model = pc.ERMClassifier(ridge=0.05, scaling=scaling, fit_intercept=fit_intercept)
    model.fit(X[kept], names[y[kept]])
    pipeline = model.to_sklearn()
    np.testing.assert_allclose(
        pipeline.predict_proba(X), model.predict_proba(X), rtol=1e-9, atol=1e-12
    )
    np.testing.assert_array_equal(pipeline.predict(X), model.predict(X))
    with pytest.raises(InvalidInput, match="softmax of the fields"):
        pc.ERMClassifier(loss=_Halved(), ridge=0.1).fit(X[kept], y[kept]).to_sklearn()


class _Halved(type(pc.ERM("cross-entropy").loss)):
    """Cross-entropy whose probabilities are those of halved fields."""

    name = "halved"

    def probabilities(self, z):
        return scipy.special.softmax(np.asarray(z) / 2, axis=1)


@pytest.mark.parametrize("k", [2, 3])
def test_inverse_ridge_is_that_of_logistic_regression(k):
    X, y = load_wine(return_X_y=True)
    X, y = X[y < k], y[y < k]
    model = pc.ERMClassifier(ridge=0.05, scaling="standard").fit(X, y)
    rival = make_pipeline(
        StandardScaler(), LogisticRegression(C=model.C_, tol=1e-10, max_iter=9999)
    )
    rival.fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), rival.predict_proba(X), atol=2e-5)
    assert math.inf == pc.ERMClassifier(ridge=0).fit(X, y).C_


def test_onnx_has_the_same_probabilities():
    skl2onnx = pytest.importorskip("skl2onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    X, y = IRIS
    model = pc.ERMClassifier().fit(X, y)
    pipeline = model.to_sklearn()
    onnx = skl2onnx.to_onnx(pipeline, X[:1].astype(np.float32), options={"zipmap": False})
    session = onnxruntime.InferenceSession(
        onnx.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    _, p = session.run(None, {session.get_inputs()[0].name: X.astype(np.float32)})
    np.testing.assert_allclose(p, model.predict_proba(X), atol=1e-5)


def test_warm_start_begins_at_the_fit_before():
    X, y = load_digits(return_X_y=True)
    model = pc.ERMClassifier(ridge=0.01, warm_start=True).fit(X[:1500], y[:1500])
    cold = pc.ERMClassifier(ridge=0.01).fit(X[:1520], y[:1520])
    model.fit(X[:1520], y[:1520])
    assert model.n_iter_ < cold.n_iter_
    np.testing.assert_allclose(model.coef_, cold.coef_, atol=1e-6 * np.abs(cold.coef_).max())
    again = model.fit(X[:1520], y[:1520])
    assert again.n_iter_ <= 2
    other = model.fit(X[:300, :20], y[:300])  # other features: nothing to begin from
    assert other.n_features_in_ == 20
    fewer = model.fit(X[:300, :20], y[:300] % 3)  # other classes
    assert fewer.classes_.tolist() == [0, 1, 2]


def test_partial_fit_is_refused_with_the_reason():
    model = pc.ERMClassifier()
    assert not hasattr(model, "partial_fit")
    with pytest.raises(AttributeError, match=r"no partial_fit: the minimiser of all samples"):
        model.partial_fit  # noqa: B018


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (np.eye(3, dtype=int)[[0, 1, 2, 0]], r"y is multilabel, of shape \(4, 3\)"),
        ([None, "a", "b", "a"], "y has None in row 0"),
    ],
)
def test_labels_that_are_none_or_several_are_named(y, words):
    with pytest.raises(InvalidInput, match=words):
        pc.ERMClassifier().fit(np.eye(4), y)


def test_a_scaling_within_the_error_of_the_difference_is_not_chosen():
    """Noise alone tells the scalings apart here, so that 'standard' is kept as a rule."""
    kept = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((150, 8)) * np.linspace(1, 1.6, 8)
        y = (X[:, 0] + rng.standard_normal(150) > 0).astype(int)
        model = pc.ERMClassifier().fit(X, y)
        kept.append(model.scaling_ == "standard")
        (standard, _), (other, _) = model.scaling_scores_.values()
        if other >= standard:
            assert kept[-1]
    assert np.mean(kept) >= 0.65  # one in six is beyond one standard error by chance


def test_few_samples_a_feature_keep_each_feature_s_own_scale():
    """Held-out samples then have not seen the tails of features, which one scale leaves long."""
    kept = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = rng.lognormal(sigma=1.5, size=(50, 50))
        y = (X[:, :5].sum(1) > np.median(X[:, :5].sum(1))).astype(int)
        kept.append(pc.ERMClassifier().fit(X, y).scaling_ == "standard")
    assert np.mean(kept) >= 0.9


def test_splits_of_every_fold_hold_out_all_samples():
    X, y, _ = pc.Teacher(3).sample(6000, 60, seed=0)
    model = pc.ERMClassifier()
    data = model._check_training_data(X, y)
    some = HoldingOut(None, X, None, 0).splits(data, 3)
    every = HoldingOut(None, X, None, 0).splits(data, 3, every_fold=True)
    assert len(some) < len(every) == 5
    assert np.sort(np.concatenate([test for _, test in every])).tolist() == list(range(6000))
