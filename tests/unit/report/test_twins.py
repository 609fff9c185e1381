"""Gaussian twins: their moments, their theory on data of scikit-learn, and the report."""

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.covariance import ledoit_wolf
from sklearn.datasets import load_digits, load_wine
from sklearn.model_selection import train_test_split
from tests.references.known_values import TWO_CLUSTERS

import polyceptron as pc
from polyceptron.data.class_moments import class_moments
from polyceptron.questions import twins as twins_module
from polyceptron.questions.twins import projected
from polyceptron.report.figures import mixture_figures
from polyceptron.report.figures.agreement import agreement
from polyceptron.sides.matrix.linear_loss import linear_law
from polyceptron.sides.matrix.loop import pack, round_residual
from polyceptron.sides.matrix.order import MatrixConjugates
from polyceptron.sides.matrix.points import PointFields
from polyceptron.sides.matrix.weights import weights_side
from polyceptron.theory.erm.unequal_classes import matrix_problem

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def digits():
    """Three of the digits that are hard to tell apart, standardised, and their labels."""
    X, y = load_digits(return_X_y=True)
    chosen = np.isin(y, (3, 5, 8))
    X, y = X[chosen], np.searchsorted((3, 5, 8), y[chosen])
    X = X[:, X.std(0) > 0.5]
    return (X - X.mean(0)) / X.std(0), y


def test_moments_and_shrinkage_are_those_of_the_classes(digits, tmp_path):
    X, y = digits
    found, sparse = class_moments(X, y), class_moments(sp.csr_matrix(X), y)
    np.save(tmp_path / "X.npy", np.ascontiguousarray(X))
    mapped = class_moments(np.load(tmp_path / "X.npy", mmap_mode="r"), y)
    np.testing.assert_allclose(mapped.covariances, found.covariances, atol=1e-12)
    for c in range(3):
        own = X[y == c]
        sigma, rho = ledoit_wolf(own)
        assert found.shrinkage()[c] == pytest.approx(rho, rel=1e-9)
        np.testing.assert_allclose(found.shrunk(found.shrinkage())[c], sigma, atol=1e-7)
    np.testing.assert_allclose(sparse.covariances, found.covariances, atol=1e-12)
    residuals = X - found.means[y]
    np.testing.assert_allclose(
        pc.Mixture.from_data(X, y, "pooled").covariances[2], ledoit_wolf(residuals)[0], atol=1e-7
    )
    twin = pc.Mixture.from_data(X, y, shrink=0.0).sample(40_000, seed=1)
    assert twin.X.shape[1] == X.shape[1]
    drawn = np.cov(twin.X[twin.y == 1].T)
    np.testing.assert_allclose(drawn, found.covariances[1], atol=0.25)
    with_constant = np.insert(X, 0, 7.0, axis=1)  # it stays so
    assert np.ptp(pc.Mixture.from_data(with_constant, y).sample(50, seed=0).X[:, 0]) < 1e-3
    for constant in (0.1, -1 / 3, 1e5 / 7):  # whose mean is not exact: the others are as without
        moments = class_moments(np.insert(X, 0, constant, axis=1), y)
        np.testing.assert_allclose(moments.shrinkage(), found.shrinkage(), rtol=1e-9)


@pytest.fixture(scope="module")
def twins(digits):
    """Of the three digits, and of all ten on their 16 leading directions."""
    X, y = load_digits(return_X_y=True)
    X = X[:, X.std(0) > 0]
    ten = pc.Mixture.from_data((X - X.mean(0)) / X.std(0), y)
    return {3: pc.Mixture.from_data(*digits), 10: projected(ten, 16)[0]}


@pytest.mark.parametrize(
    ("k", "loss", "ridge"),
    [
        (3, "cross-entropy", 1.0),
        (10, "square", 1.0),
        (10, "cross-entropy", 0.3),
    ],
)
def test_equations_are_exact_for_many_copies_of_the_features(twins, k, loss, ridge):
    """With every feature m times the equations are the same, and 1/d falls as 1/m."""
    twin, m, n = twins[k], 8, 100
    d, roots = twin.means.shape[1], np.linalg.cholesky(twin.covariances)
    student = pc.ERM(loss, ridge, intercept=True)
    theory = pc.twin_point(twin, student, n)
    assert (theory.way, theory.status) == ("equations", "ok")
    rng, errors = np.random.default_rng(5), []
    for _ in range(6):
        y = rng.choice(k, n * m + 2000, p=twin.shares)
        x = np.einsum("nab,nmb->nma", roots[y], rng.standard_normal((len(y), m, d)))
        x = (x + twin.means[y][:, None] / math.sqrt(m)).reshape(len(y), m * d)
        fit = pc.fit_erm(x[: n * m], y[: n * m], loss, ridge, intercept=True, tol=1e-4)
        fields = x[n * m :] @ fit.weights / math.sqrt(m * d) + fit.intercepts
        errors.append(np.mean(fields.argmax(1) != y[n * m :]))
    spread = math.hypot(np.std(errors, ddof=1) / math.sqrt(6), theory.uncertainty / 3)
    assert abs(np.mean(errors) - theory.generalisation_error) < 3.5 * spread
    alone = pc.twin_point(twin, student, n, way="draws", draws=5)
    assert alone.words == "5 fits to drawn samples"
    assert alone.generalisation_error == pytest.approx(theory.generalisation_error, rel=0.35)


def test_covariances_in_full_have_known_limits():
    """Two clusters (GaussMixtureProject K2mix), and a shared eigenbasis with own eigenvalues."""
    d, rng = 40, np.random.default_rng(3)
    mean = np.ones(d) / math.sqrt(d)
    clusters = pc.Mixture((0.5, 0.5), means=[mean, -mean], covariances=[0.5 * np.eye(d)] * 2)
    clusters = pc.twin_point(clusters, pc.ERM("cross-entropy", 0.02), 3 * d)
    assert clusters.generalisation_error == pytest.approx(TWO_CLUSTERS["error"], abs=5e-8)
    means, turn = rng.standard_normal((2, d)) / 6, np.linalg.qr(rng.standard_normal((d, d)))[0]
    s = rng.uniform(0.2, 2.0, (2, d))
    gram = np.einsum("ai,bi->iab", means, means)
    own = [turn @ np.diag(each) @ turn.T for each in s]
    full = pc.Mixture((0.7, 0.3), means=means @ turn.T, covariances=own)
    student = pc.ERM("cross-entropy", 0.1, intercept=True)
    hats = MatrixConjugates(
        *(rng.standard_normal(shape) ** 2 for shape in ((2, 1), (2, 1, 1), (2, 1, 1))), 0
    )
    found = weights_side(full, np.eye(1), hats, 0.3, np.zeros(1))
    S = 1 / (0.3 + np.einsum("ci,c->i", s, hats.V[:, 0, 0]))
    inner = np.einsum("ci,c->i", s, hats.Q[:, 0, 0]) / d + np.einsum(
        "iab,a,b->i", gram, hats.m[:, 0], hats.m[:, 0]
    )
    np.testing.assert_allclose(found.V[:, 0, 0], (s * S).mean(1))
    np.testing.assert_allclose(found.Q[:, 0, 0], s @ (S**2 * inner))
    assert pc.twin_point(full, student, 2 * d).status == "ok"


def test_the_figure_has_no_line_that_its_symbols_are_judged_by(monkeypatch):
    """No model is claimed to be the data: nothing of it goes into the figures' agreement."""
    models = ("measured", "own", "pooled", "isotropic", "teacher")
    frame = pd.DataFrame({"model": models, "n_samples": 100, "alpha": 2.0, "dimension": 50})
    frame = frame.assign(error=0.1, error_uncertainty=0.01, instances=5)
    stub = SimpleNamespace(frame=frame)
    monkeypatch.setattr(mixture_figures, "twin_report", lambda *data, **settings: stub)
    table = pd.DataFrame(mixture_figures.digits_rows(0.1, 2, [1.0]))
    assert len(agreement({"twins": table})) == 0
    assert mixture_figures.twins.draw(table).axes


def test_isotropic_covariances_in_full_are_those_of_variances(digits):
    X, y = digits
    plain = pc.Mixture.from_data(X, y, "isotropic")
    s, d = np.array(plain.levels[0][1:-1]), X.shape[1]
    full = pc.Mixture(plain.shares, means=plain.means, covariances=s[:, None, None] * np.eye(d))
    one, other = (pc.twin_point(mixture, "square", 90) for mixture in (plain, full))
    assert one.generalisation_error == pytest.approx(other.generalisation_error, abs=2e-6)
    # All directions are a rotation, and with it the ridge stays.
    turned = pc.twin_point(plain, "square", 90, directions=d)
    assert turned.generalisation_error == pytest.approx(one.generalisation_error, abs=2e-6)


@pytest.mark.parametrize("ridge", [1e-6, 1e-4])
def test_least_squares_without_a_ridge_has_a_fixed_point(digits, ridge):
    """At ridges where rounds of the loop swing up; a round leaves the law where it is."""
    X, y = digits
    twin = pc.Mixture.from_data(X, y)
    for n in (24, 48, 96):
        student = pc.ERM("square", ridge, intercept=True, class_weight="balanced")
        assert pc.twin_point(twin, student, n).status == "ok"
        problem = matrix_problem(twin, student, n / X.shape[1])
        law = linear_law(problem)
        points = PointFields.drawn(problem, 5, 1)(law)
        step = round_residual(problem, law, points, pack(problem, law))
        assert np.abs(step).max() < 1e-5  # of logarithms of matrices, at points good to 1e-6


def test_least_squares_peaks_where_samples_are_as_many_as_features():
    """On all digits, by the equations of their twin with next to no ridge, and on the data."""
    X, y = load_digits(return_X_y=True)
    X = X[:, X.std(0) > 0]
    X = (X - X.mean(0)) / X.std(0)
    twin, ridge, sizes = pc.Mixture.from_data(X, y), 1e-6, (32, 64, 128)
    student = pc.ERM("square", ridge, intercept=True)
    points = [pc.twin_point(twin, student, n) for n in sizes]
    assert {(point.way, point.status) for point in points} == {("equations", "ok")}
    theory = np.array([point.generalisation_error for point in points])
    measured = np.zeros(3)
    for seed in range(8):
        for i, n in enumerate(sizes):
            A, B, a, b = train_test_split(X, y, train_size=n, stratify=y, random_state=seed)
            fit = pc.fit_erm(A, a, "square", ridge, intercept=True)
            fields = B @ fit.weights / math.sqrt(X.shape[1]) + fit.intercepts
            measured[i] += np.mean(fields.argmax(1) != b) / 8
    assert theory[1] > 1.3 * theory[0]
    assert theory[1] > 3 * theory[2]
    # Pixels that are white in all but a few images are no features yet: the data's peak is lower.
    assert measured[1] > max(measured[0], 2 * measured[2])


def test_report_names_the_nearest_model_and_its_limits():
    X, y = load_wine(return_X_y=True)
    found = pc.twin_report(X, y, train_sizes=[0.5, 1.0], draws=3)
    assert set(found.frame["model"]) == {"measured", "own", "pooled", "isotropic", "teacher"}
    assert found.off["error_largest"].abs().is_monotonic_increasing
    assert found.advice in repr(found)
    nearest = {"own": "own cov", "pooled": "pooled", "isotropic": "isotropic", "teacher": "teacher"}
    assert nearest[found.off["model"][0]] in found.sentence.split(",")[0]
    assert "20 %" in found.caveats[0]
    assert len(found.plot().lines) >= 5


def test_a_model_is_ranked_by_its_worst_size():
    """A model right on average and wrong at both ends comes after one that is a bit off."""
    sizes = [100, 200, 400]
    errors = {"measured": [0.2, 0.2, 0.2], "own": [0.24, 0.24, 0.24], "teacher": [0.09, 0.2, 0.4]}
    table = pd.DataFrame(
        [
            {"model": model, "n_samples": n, "error": error, "error_uncertainty": 1e-3}
            for model, values in errors.items()
            for n, error in zip(sizes, values, strict=True)
        ]
    ).assign(log_loss=np.nan, log_loss_uncertainty=np.nan)
    off = twins_module._off(table, 0.0)
    assert off["model"].tolist() == ["own", "teacher"]
    assert off["error_largest"].tolist() == pytest.approx([math.log(1.2), math.log(0.45)])
    assert abs(off["error_mean"][1]) < 0.04
    assert twins_module._describes(off.iloc[0])
    assert "+20% at 100 samples" in twins_module._sentence(off, True)
    assert not twins_module._describes(off.iloc[1])
    none = twins_module._sentence(off.iloc[1:], False)
    assert none.startswith("No Gaussian model describes these data")


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda X, y: pc.Mixture.from_data(X, y, "full"), "own, pooled, isotropic"),
        (lambda X, y: pc.Mixture.from_data(X, y, shrink=2), "from 0 to 1"),
        (lambda X, y: pc.Mixture.from_data(X[:4], [0, 0, 0, 1]), "at least 2 samples"),
        (
            lambda X, y: pc.twin_point(pc.Mixture((0.5, 0.5), separation=1), "square", 5),
            "needs a dimension",
        ),
        (lambda X, y: pc.twin_point(pc.Mixture.from_data(X, y), "square", 9, way="any"), "way is"),
        (
            lambda X, y: pc.twin_point(pc.Mixture.from_data(X, y), "square", 9, directions=99),
            "directions",
        ),
        (lambda X, y: pc.twin_report(X, y, models=["fitted"]), "models are"),
    ],
)
def test_bad_input(digits, ask, words):
    with pytest.raises(pc.InvalidInput, match=words):
        ask(*digits)
