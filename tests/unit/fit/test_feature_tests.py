"""Tests of single features: against refits without them, uniform where Wald's test is not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import scipy.stats
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from polyceptron.errors import InvalidInput
from polyceptron.fit.erm_classifier import ERMClassifier
from polyceptron.fit.feature_columns import column_indices
from polyceptron.problem import CrossEntropy


def draw(n, d, k, seed, correlation=0.5, strength=1.0):
    """Correlated features of unequal scales, labels of a softmax, and which do not matter."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    for j in range(1, d):
        X[:, j] = correlation * X[:, j - 1] + np.sqrt(1 - correlation**2) * X[:, j]
    W = rng.standard_normal((d, k)) * (np.arange(d) % 2)[:, None]
    z = X @ W
    z = strength * z / z.std() + np.linspace(-0.5, 0.5, k)
    p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    y = (p.cumsum(1) < rng.random((n, 1))).sum(1)
    return X * np.geomspace(0.1, 10, d) + 3, y, np.arange(d) % 2 == 0


def wald(X, y, k):
    """χ² of each feature from the inverse Hessian of maximum likelihood."""
    A = np.hstack([(X - X.mean(0)) / X.std(0), np.ones((len(X), 1))])
    fit = LogisticRegression(C=np.inf, solver="newton-cholesky", fit_intercept=False).fit(A, y)
    W = np.vstack([np.zeros_like(fit.coef_), fit.coef_]) if k == 2 else fit.coef_
    W = (W - W[-1])[:-1]
    H = CrossEntropy().hessian(A @ np.vstack([W, np.zeros((1, A.shape[1]))]).T, y)[:, :-1, :-1]
    size = (k - 1) * A.shape[1]
    K = np.einsum("nab,ni,nj->aibj", H, A, A, optimize=True).reshape(size, size)
    C = np.linalg.inv(K).reshape(k - 1, A.shape[1], k - 1, A.shape[1])
    return np.array([W[:, j] @ np.linalg.solve(C[:, j, :, j], W[:, j]) for j in range(X.shape[1])])


@pytest.mark.parametrize("ridge", [0.0, "auto"])
def test_p_values_of_features_that_do_not_matter_are_uniform(ridge):
    """Of data sets of their own, five features of each: those of one set go together."""
    d, control = 30, []
    for k in (2, 4):
        chances = []
        for seed in range(12):
            X, y, idle = draw(d * (k + 4), d, k, seed, strength=1.5)
            model = ERMClassifier(ridge=ridge, scaling="standard", cv=3).fit(X, y)
            chances.append(model.feature_tests(X, y)["p_value"].iloc[[0, 6, 12, 18, 24]])
            if ridge == 0:
                control.append(scipy.stats.chi2.sf(wald(X, y, k)[idle], k - 1))
        assert scipy.stats.kstest(np.concatenate(chances), "uniform").pvalue > 0.01
    if control:  # Wald's test finds too much
        false = np.concatenate(control) < 0.05
        assert scipy.stats.binomtest(false.sum(), false.size, 0.05, "greater").pvalue < 1e-3


@pytest.mark.parametrize(
    ("k", "ridge", "size", "strength"),
    [
        (2, 0.3, (150, 8), 1),
        (3, 0.0, (150, 8), 1),
        (3, 0.3, (150, 8), 1),
        (2, 1e-3, (60, 10), 4),
        (5, 0.0, (93, 16), 1.5),
    ],
)
def test_the_statistic_is_that_of_a_refit_without_the_feature(k, ridge, size, strength):
    """By a refit, and least squares of the feature on the others and on the slopes of the loss.

    Labels nearly without noise, or nearly separable: the fit without a feature is far away.
    """
    X, y, _ = draw(*size, k, 1, strength=strength)
    d, n = X.shape[1], len(X)
    found = ERMClassifier(ridge=ridge, scaling="standard").fit(X, y).feature_tests(X, y)
    for j in (0, 1, d // 3):
        rest = np.delete(X, j, 1)
        fit = ERMClassifier(ridge=ridge * d / (d - 1), scaling="standard").fit(rest, y)
        g = CrossEntropy().gradient(np.log(fit.predict_proba(rest)), y)[:, :-1]
        A = np.hstack([rest, np.ones((n, 1))])
        left = [
            np.linalg.lstsq(a, X[:, j])[1][0]
            for a in (A / A.std(0).clip(0.01), np.hstack([A / A.std(0).clip(0.01), g]))
        ]
        degrees = n - d - (k - 1)
        expected = (degrees + (k - 1) / 2 - 1) * np.log(left[0] / left[1])
        assert found["statistic"].iloc[j] == pytest.approx(expected, rel=2e-3)


def test_many_samples_a_feature_bring_wald_back():
    X, y, _ = draw(6000, 4, 3, 2)
    found = ERMClassifier(ridge=0).fit(X, y).feature_tests(X, y)
    assert found["statistic"][::2].to_numpy() == pytest.approx(wald(X, y, 3)[::2], rel=0.03)
    coef = LogisticRegression(C=np.inf, tol=1e-8, max_iter=5000).fit(X / X.std(0), y).coef_
    weights = found[[f"weight_{c}" for c in range(3)]].to_numpy()
    assert weights == pytest.approx((coef / X.std(0)).T, rel=2e-3, abs=1e-5)
    # One ridge or another: the same weights within their errors, once they are debiased.
    pulled = ERMClassifier(ridge=100.0, scaling="standard").fit(X, y)
    away = pulled.feature_tests(X, y)[[f"weight_{c}" for c in range(3)]].to_numpy()
    assert np.abs(pulled.coef_.T - weights).max() > 2 * np.abs(away - weights).max()
    errors = found[[f"standard_error_{c}" for c in range(3)]].to_numpy()
    assert np.abs((away - weights) / errors)[::2].max() < 1


def test_units_weights_and_kinds_of_input_change_nothing():
    X, y, _ = draw(90, 5, 3, 3)
    model = ERMClassifier(ridge=0.2, scaling="standard")
    whole = model.fit(X, y).feature_tests(X, y)
    other = model.fit(1e3 * X, y).feature_tests(scipy.sparse.csr_array(1e3 * X), y)
    assert other["statistic"].to_numpy() == pytest.approx(whole["statistic"].to_numpy(), rel=1e-5)
    assert 1e3 * other["weight_0"].to_numpy() == pytest.approx(whole["weight_0"], rel=1e-5)
    times = np.arange(90) % 3
    again = np.repeat(np.arange(90), times)
    repeated = model.fit(X[again], y[again]).feature_tests(X[again], y[again])
    weighted = model.fit(X, y, sample_weight=times).feature_tests(X, y, times)
    numbers = [column for column in whole if column != "reason"]
    expected = repeated[numbers].to_numpy(float)
    assert weighted[numbers].to_numpy(float) == pytest.approx(expected, rel=1e-5)
    moved = ERMClassifier(ridge=0.2, scaling="standard", priors="balanced").fit(X, y)
    assert moved.feature_tests(X, y)[numbers].to_numpy(float) == pytest.approx(
        whole[numbers].to_numpy(float), rel=1e-5
    )
    for loss in ("square", "cross-entropy"):
        for scaling, huge in (("global", 1e6), ("none", 1.0)):  # beside it the others are not flat
            Z = (X - 3) * [1, 1, 1, 1, huge]
            fit = ERMClassifier(loss, 0.2, scaling=scaling, fit_intercept=False).fit(Z, y)
            assert fit.feature_tests(Z, y).notna().all(axis=None)


def test_a_known_precision_serves_fewer_samples_than_features():
    d, chances = 60, []
    precision = np.linalg.inv(0.5 ** np.abs(np.subtract.outer(np.arange(d), np.arange(d))))
    scale = np.geomspace(0.1, 10, d)
    for seed in range(8):
        X, y, idle = draw(50, d, 3, seed)
        model = ERMClassifier(ridge=0.3).fit(X, y)
        found = model.feature_tests(X, y, precision=precision / np.outer(scale, scale))
        chances.append(found["p_value"][idle])
    assert scipy.stats.kstest(np.concatenate(chances), "uniform").pvalue > 0.01
    with pytest.raises(InvalidInput, match="50 samples are too few to test 60 features"):
        model.feature_tests(X, y)
    with pytest.raises(InvalidInput, match=r"precision must be \(60, 60\)"):
        model.feature_tests(X, y, precision=np.eye(3))
    with pytest.raises(InvalidInput, match="precision must be symmetric"):
        model.feature_tests(X, y, precision=np.eye(60) + np.eye(60, k=1))
    with pytest.raises(InvalidInput, match="precision must be positive definite"):
        model.feature_tests(X, y, precision=np.full((60, 60), 2.0) - np.eye(60))


def test_features_that_others_determine_and_wrong_samples():
    X, y, _ = draw(120, 6, 3, 4)
    frame = pd.DataFrame(X, columns=list("abcdef")).assign(flat=2.0, sum=X[:, 0] + X[:, 1])
    found = (model := ERMClassifier(ridge=0.1).fit(frame, y)).feature_tests(frame, y)
    assert list(found.index[found["p_value"].isna()]) == ["a", "b", "flat", "sum"]
    assert found["q_value"].count() == 4
    with pytest.raises(InvalidInput, match="must be those that the classifier was fitted to"):
        model.feature_tests(frame, np.roll(y, 1))
    with pytest.raises(InvalidInput, match="y must hold the classes of the fit"):
        model.feature_tests(frame, np.zeros(120))
    X, y = load_iris(return_X_y=True)
    for kept in (y < 2, y >= 0):  # separable, and quasi-separable
        model = ERMClassifier(ridge=0)
        with (
            pytest.warns(ConvergenceWarning, match="separates some of the samples")
            if kept.all()
            else np.errstate()
        ):
            model.fit(X[kept], y[kept])
        with pytest.raises(InvalidInput, match="not determined by the samples"):
            model.feature_tests(X[kept], y[kept])


def test_intervals_hold_what_fresh_samples_show():
    inside = []
    for seed in range(40):
        X, y, _ = draw(4000, 5, 3, seed)
        model = ERMClassifier(ridge=0.1).fit(X[:120], y[:120])
        found = model.held_out_scores(X[:120], y[:120], level=0.9)
        chance = model.predict_proba(X[120:])[np.arange(3880), y[120:]]
        fresh = np.array([1 - model.score(X[120:], y[120:]), -np.log(chance).mean()])
        inside.append((found["low"] < fresh) & (fresh < found["high"]))
    assert (np.mean(inside, 0) >= 0.78).all()  # 3.1 would be outside of 4 in 40 by chance
    left = []
    for i in range(60):
        rest = np.arange(60) != i
        left.append(
            ERMClassifier(ridge=0.1, scaling="standard")
            .fit(X[:60][rest], y[:60][rest])
            .predict_log_proba(X[[i]])[0, y[i]]
        )
    model = ERMClassifier(ridge=0.1, scaling="standard").fit(X[:60], y[:60])
    found = model.held_out_scores(X[:60], y[:60])
    assert found["value"]["log_loss"] == pytest.approx(-np.mean(left), rel=0.01)
    with pytest.raises(InvalidInput, match="level"):
        model.held_out_scores(X[:60], y[:60], level=95)


def one_hot(levels, n_levels):
    """Return the full one-hot code (n, levels) of a categorical column."""
    return np.eye(n_levels)[levels]


def categorical_data(n, n_levels, seed, effect=0.0, k=3):
    """Return a one-hot code before four Gaussian columns that the label depends on."""
    rng = np.random.default_rng(seed)
    levels = rng.integers(0, n_levels, n)
    X = rng.standard_normal((n, 4))
    W = np.random.default_rng(0).standard_normal((4, k))
    fields = X @ W
    fields[:, 0] += effect * (levels == 0)
    y = (fields + rng.gumbel(size=fields.shape)).argmax(1)
    return np.hstack([one_hot(levels, n_levels), X]), y


@pytest.mark.slow
def test_joint_tests_keep_their_level():
    """Of a category that does not matter 5 % of the p-values are below 0.05, also at small n/d."""
    chances = []
    for seed in range(300):
        X, y = categorical_data(120, 5, seed)
        model = ERMClassifier(ridge=0.05).fit(X, y)
        table = model.feature_tests(X, y, joint={"category": range(5)})
        chances.append(table.p_value["category"])
    assert table.degrees_of_freedom["category"] == 4 * 2
    assert scipy.stats.kstest(chances, "uniform").pvalue > 0.01
    assert np.mean(np.array(chances) < 0.05) < 0.05 + 3 * (0.05 * 0.95 / 300) ** 0.5


def test_joint_test_of_one_column_is_the_test_of_the_column():
    X, y = categorical_data(200, 3, 1)
    X = X[:, 2:]
    model = ERMClassifier(ridge=0.05).fit(X, y)
    alone = model.feature_tests(X, y)
    joint = model.feature_tests(X, y, joint={"first": [0], "last": ["x4"]})
    assert joint.index.tolist() == ["first", "x1", "x2", "x3", "last"]
    np.testing.assert_allclose(joint.statistic, alone.statistic, rtol=1e-3)
    assert joint.degrees_of_freedom.tolist() == [2] * 5


def test_joint_test_does_not_depend_on_the_code():
    """Without a ridge the full one-hot code, one without a level and any mixture of it agree."""
    X, y = categorical_data(300, 4, 2, effect=1.5)
    mixed = X[:, :3] @ np.random.default_rng(0).standard_normal((3, 3))
    codes = [X[:, :4], X[:, 1:4], mixed]
    found = []
    for code in codes:
        Z = np.hstack([code, X[:, 4:]])
        model = ERMClassifier(ridge=1e-5).fit(Z, y)
        table = model.feature_tests(Z, y, joint={"category": range(code.shape[1])})
        assert table.degrees_of_freedom["category"] == 6
        found.append(table.statistic["category"])
    np.testing.assert_allclose(found, found[0], rtol=1e-3)
    # A likelihood-ratio test of many samples is an independent statistic of the same size.
    without = ERMClassifier(ridge=1e-5).fit(X[:, 4:], y)
    full = ERMClassifier(ridge=1e-5).fit(X, y)
    gain = [
        m.predict_log_proba(Z)[np.arange(300), y].sum() for m, Z in ((full, X), (without, X[:, 4:]))
    ]
    assert found[0] == pytest.approx(2 * (gain[0] - gain[1]), rel=0.25)


def test_reasons_of_features_without_a_test():
    X, y = categorical_data(200, 3, 3)
    rng = np.random.default_rng(0)
    near = X[:, 4] + 0.05 * rng.standard_normal(200)
    X = np.column_stack([X, 2 - 3 * X[:, 3], near, np.full(200, 7.0)])
    table = ERMClassifier(ridge=0.05).fit(X, y).feature_tests(X, y)
    reason = table["reason"]
    assert reason["x9"] == "constant"
    for column in ("x0", "x1", "x2"):
        assert "full one-hot code" in reason[column]
        assert np.isnan(table.p_value[column])
    assert reason["x3"] == "a copy of x7: neither matters given the other"
    assert reason["x7"] == "a copy of x3: neither matters given the other"
    assert reason["x4"].startswith("nearly a copy of x8")
    assert np.isfinite(table.p_value["x4"])
    assert reason["x5"] == ""
    joint = ERMClassifier(ridge=0.05).fit(X, y).feature_tests(X, y, joint={"c": [0, 1, 2]})
    assert joint.index.tolist() == ["c", *(f"x{i}" for i in range(3, 10))]
    assert np.isfinite(joint.p_value["c"])
    assert joint.reason["c"] == ""


@pytest.mark.parametrize(
    ("joint", "words"),
    [
        ({"c": ["colour"]}, "joint test 'c' needs columns of X, got"),
        ({"c": []}, "joint test 'c' needs columns of X"),
        ({"c": [0, 1], "d": [1, 2]}, "joint test 'd' has a column that is in a test already"),
    ],
)
def test_bad_joint_tests(joint, words):
    X, y = categorical_data(100, 3, 3)
    with pytest.raises(InvalidInput, match=words):
        ERMClassifier(ridge=0.1).fit(X, y).feature_tests(X, y, joint=joint)


def test_a_name_that_reads_like_a_number_is_the_name():
    """Integers are numbers of columns; a string is a number only where no column is called so."""
    members = column_indices({"a": ["1", 2]}, np.array(["1", "0", "x"]))
    assert members["a"].tolist() == [0, 2]
    assert column_indices({"a": ["1"]}, np.array(["u", "v"]))["a"].tolist() == [1]
