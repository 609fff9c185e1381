"""A penalty is a name with numbers everywhere; the elastic net shows that one is a file."""

import json

import numpy as np
import pytest
from scipy.optimize import minimize

import polyceptron as pc
from polyceptron.cli import main
from polyceptron.problem import PENALTIES, Conjugates, Ridge, as_penalty, make_estimator
from polyceptron.problem.losses import as_loss
from polyceptron.problem.penalties import ElasticNet
from polyceptron.questions.curve_rows import curve_rows
from polyceptron.students import student_of


@pytest.mark.parametrize("penalty", PENALTIES.examples())
def test_names_read_back(penalty):
    assert as_penalty(penalty.name) == penalty
    spec = pc.ERM("cross-entropy", penalty=penalty.name)
    columns = spec.columns
    again = make_estimator(columns["estimator"], columns.get("ridge"), columns.get("penalty"))
    assert again == spec


def test_a_ridge_by_name_is_the_ridge():
    assert pc.ERM("square", penalty="ridge:0.1") == pc.ERM("square", 0.1)
    (row,) = curve_rows(pc.Teacher(3), pc.ERM("square", penalty="ridge:0.1"), [2.0])
    assert row["ridge"] == 0.1
    assert "penalty" not in row


def test_rows_of_a_penalty_read_back():
    spec = pc.ERM("cross-entropy", penalty="elastic-net:0.2:0.1")
    (row,) = curve_rows(pc.Teacher(2), spec, [2.0])
    assert row["penalty"] == "elastic-net:0.2:0.1"
    assert make_estimator(row["estimator"], row.get("ridge"), row["penalty"]) == spec


def test_the_elastic_net_minimises_what_it_says():
    net, rng = ElasticNet(0.7, 0.4), np.random.default_rng(0)
    for gamma in rng.normal(size=(6, 4)) * 1.5:
        gamma = gamma - gamma.mean()

        def cost(u, gamma=gamma):
            size = np.linalg.norm(u)
            return 0.9 * size**2 / 2 - gamma @ u + 0.7 * size + 0.2 * size**2

        found = net.denoise(gamma[None], 0.9).mean[0]
        best = minimize(
            cost,
            found + 0.1 * rng.normal(size=4),
            method="Nelder-Mead",
            options={"xatol": 1e-9, "fatol": 1e-13, "maxiter": 5000},
        )
        assert cost(found) <= best.fun + 1e-9


@pytest.mark.parametrize("prior", ["gaussian", "rademacher", "finite[-2:0.1;0:0.8;2:0.1]"])
@pytest.mark.parametrize("k", [2, 3, 5])
def test_the_law_is_that_of_drawn_rows(prior, k):
    """m, q and V as means over a million rows, for each kind of weights."""
    net, hats, r = ElasticNet(1.3, 0.2), Conjugates(0.9, 0.8, 0.6), k - 1
    teacher = pc.Teacher(k, prior)
    rng = np.random.default_rng(1)
    u = teacher.prior.sample(rng, (400_000, k))
    u -= u.mean(1, keepdims=True)
    noise = rng.normal(size=u.shape)
    noise -= noise.mean(1, keepdims=True)
    found = net.denoise(hats.m * u + np.sqrt(hats.q) * noise, hats.V)
    law = net.isotropic_law(hats, teacher.row)
    drawn = [(u * found.mean).sum(1) / r, (found.mean**2).sum(1) / r, found.variance / r]
    for value, sample in zip((law.m, law.q, law.V), drawn, strict=True):
        assert abs(value - sample.mean()) < 4.5 * sample.std() / np.sqrt(len(sample))


def test_without_l1_it_is_the_ridge():
    hats, row = Conjugates(0.9, 0.8, 0.6), pc.Teacher(4).row
    net, ridge = ElasticNet(0.0, 0.3).isotropic_law(hats, row), Ridge(0.3)
    other = ridge.law(hats, pc.Teacher(4).features, row)
    assert (net.m, net.q, net.V) == pytest.approx((other.m, other.q, other.V), rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("k", "prior", "loss", "l1"),
    [(2, "gaussian", "square", 0.5), (3, "finite[-2:0.1;0:0.8;2:0.1]", "cross-entropy", 0.3)],
)
def test_theory_meets_fits(k, prior, loss, l1):
    teacher, d = pc.Teacher(k, prior), 400
    spec = pc.ERM(loss, penalty=f"elastic-net:{l1}:0.1")
    point = pc.erm_fixed_point(teacher, spec, 2.0)
    assert point.status == "ok"
    errors = []
    for seed in range(6):
        X, y, truth = teacher.sample(2 * d, d, seed=seed)
        fit = pc.fit_erm(X, y, loss, penalty=spec.penalty)
        assert fit.status == "ok"
        errors.append(pc.exact_generalisation_error(fit.weights, truth).value)
    passed = pc.amp_erm(X, y, loss, penalty=spec.penalty.name)
    passed = passed.weights - passed.weights.mean(1, keepdims=True)
    np.testing.assert_allclose(passed, fit.weights, atol=1e-6)
    assert abs(np.mean(errors) - point.generalisation_error) < 4 * np.std(errors) / 5**0.5 + 0.003


@pytest.mark.parametrize("loss", ["square", "cross-entropy"])
@pytest.mark.parametrize("l1", [0.3, 100.0])
def test_a_fit_is_certified_and_sparse(loss, l1):
    """Subgradient conditions, row by row: ∇f + L₂w + L₁w/‖w‖ = 0, or ‖∇f‖ ≤ L₁ where w = 0."""
    X, y, _ = pc.Teacher(3, "finite[-2:0.1;0:0.8;2:0.1]").sample(120, 60, seed=0)
    weight = np.linspace(0.5, 1.5, 120)
    fit = pc.fit_erm(X, y, loss, penalty=f"elastic-net:{l1}:0.1", sample_weight=weight)
    assert fit.status == "ok"
    W, A = fit.weights, X / np.sqrt(60)
    slope = A.T @ (weight[:, None] * as_loss(loss).gradient(A @ W, y))
    slope -= slope.mean(1, keepdims=True)
    size = np.maximum(np.linalg.norm(W, axis=1, keepdims=True), 1e-300)
    kept = W.any(1)
    assert kept.any() == (l1 < 1)
    assert not kept.all()
    np.testing.assert_allclose((slope + 0.1 * W + l1 * W / size)[kept], 0, atol=1e-6)
    assert (np.linalg.norm(slope[~kept], axis=1) <= l1).all()
    further = pc.fit_erm(
        X, y, loss, penalty=f"elastic-net:{l1}:0.1", sample_weight=weight, tol=1e-11, start=W + 0.1
    )
    assert np.linalg.norm(further.weights - W) <= fit.distance_bound + further.distance_bound
    ridge = pc.fit_erm(X, y, loss, penalty="ridge:0.1")
    np.testing.assert_array_equal(ridge.weights, pc.fit_erm(X, y, loss, 0.1).weights)
    with pytest.raises(pc.InvalidInput, match="one solver"):
        pc.fit_erm(X, y, loss, penalty="elastic-net:1:1", solver="newton")


@pytest.mark.parametrize("scale", [1e-170, 1e-20])
def test_tiny_data_are_fitted_as_with_a_ridge(scale):
    X, y, _ = pc.Teacher(3).sample(120, 60, seed=0)
    plain = pc.fit_erm(scale * X, y, penalty="elastic-net:0:0.1")  # a ridge by another name
    ridge = pc.fit_erm(scale * X, y, ridge=0.1)
    assert plain.status == ridge.status == "ok"
    size = np.abs(ridge.weights).max()
    np.testing.assert_allclose(plain.weights / size, ridge.weights / size, atol=1e-6)


@pytest.mark.parametrize("scale", [1e-20, 1e5, 3e6])
def test_a_penalty_scales_with_the_data(scale):
    X, y, _ = pc.Teacher(3, noise="gaussian:0.3").sample(120, 60, seed=0)
    one = pc.fit_erm(X, y, penalty="elastic-net:0.3:0.1")
    many = pc.fit_erm(scale * X, y, penalty=f"elastic-net:{0.3 * scale!r}:{0.1 * scale**2!r}")
    assert one.status == many.status == "ok"
    np.testing.assert_allclose(many.weights * scale, one.weights, atol=1e-6)


def test_rows_of_simulated_fits_name_their_penalty():
    spec = pc.ERM("square", penalty="elastic-net:0.2:0.1")
    rows = student_of(spec).simulate(pc.Teacher(2), 2.0, 50, 0, also=[pc.ERM("square", 0.1)])
    assert [row.get("penalty") for row in rows] == ["elastic-net:0.2:0.1", None]
    assert [row.get("ridge") for row in rows] == [None, 0.1]
    assert all(row["status"] == "ok" for row in rows)


def test_the_shell_takes_a_penalty(capsys, monkeypatch):
    words = "curve -k 2 -a 2 -e square --penalty elastic-net:0.5:0.1 --json"
    monkeypatch.setattr("sys.argv", ["polyceptron", *words.split()])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code in (0, None)
    (row,) = json.loads(capsys.readouterr().out)
    assert row["penalty"] == "elastic-net:0.5:0.1"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("elastic-net:-1:0", "0 or more"),
        ("elastic-net:0:0", "above 0"),
        ("elastic-net:1", "must be written elastic-net:L1:L2"),
        ("lasso:1", "unknown penalty"),
    ],
)
def test_bad_penalties_are_named(text, words):
    with pytest.raises(pc.InvalidInput, match=words):
        pc.ERM("square", penalty=text)
    with pytest.raises(pc.InvalidInput, match="takes no ridge"):
        pc.ERM("max-margin", penalty="elastic-net:1:1")
    with pytest.raises(pc.InvalidInput, match="Gaussian weights or finitely many"):
        pc.erm_fixed_point(pc.Teacher(3, "laplace"), pc.ERM(penalty="elastic-net:1:1"), 1.0)
