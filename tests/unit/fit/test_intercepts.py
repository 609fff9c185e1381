"""Free intercepts and class weights of fits, against scikit-learn, scipy and their own limits."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression, Ridge

import polyceptron as pc
from polyceptron.data.stored_designs import FileDesign
from polyceptron.fit.solvers import newton_step
from polyceptron.problem import CrossEntropy


def unequal(n=300, d=20, k=3, seed=0, mean=0.0, noise=0.5):
    """Samples of unequal classes, features around `mean`."""
    rng = np.random.default_rng(seed)
    Z, W = rng.standard_normal((n, d)), rng.standard_normal((d, k))
    z = Z @ W / np.sqrt(d) + np.linspace(0, -1.2, k) + noise * rng.standard_normal((n, k))
    return Z + mean, z.argmax(1)


def factors(class_weight, y):
    counts = np.bincount(y)
    if class_weight == "balanced":
        return (y.size / (counts.size * counts))[y]
    return np.array([class_weight.get(c, 1.0) for c in range(counts.size)])[y]


@pytest.mark.parametrize("mean", [0.0, 4.0])
@pytest.mark.parametrize("class_weight", ["balanced", {0: 2.0, 2: 5.0}])
def test_scikit_learn_has_the_same_minimisers(mean, class_weight):
    X, y = unequal(mean=mean)
    A = X / np.sqrt(X.shape[1])
    for ridge in (0.3, 1e-3):
        fit = pc.fit_erm(X, y, ridge=ridge, intercept=True, class_weight=class_weight)
        peer = LogisticRegression(
            C=1 / ridge, tol=1e-12, solver="newton-cg", max_iter=999, class_weight=class_weight
        ).fit(A - A.mean(0), y)
        b = peer.intercept_ - peer.coef_ @ A.mean(0)
        distance = np.hypot(
            np.linalg.norm(fit.weights - peer.coef_.T),
            np.linalg.norm(fit.intercepts - b + b.mean()),
        )
        assert fit.status == "ok"
        assert distance < fit.distance_bound + 1e-9 < 1e-6
        squares = pc.fit_erm(
            X, y, "square", ridge, intercept=True, class_weight=class_weight, strict=True
        )
        ridged = Ridge(alpha=ridge).fit(A, np.eye(3)[y], sample_weight=factors(class_weight, y))
        np.testing.assert_allclose(squares.weights, ridged.coef_.T, atol=1e-11)
        np.testing.assert_allclose(squares.intercepts, ridged.intercept_, atol=1e-11)
        wrong = (A @ squares.weights + squares.intercepts).argmax(1) != y
        share = factors(class_weight, y)
        assert squares.training_error == pytest.approx(np.average(wrong, weights=share))


def test_maximum_likelihood_has_an_intercept():
    X, y = unequal(mean=2.0)
    A = X / np.sqrt(X.shape[1])
    fit = pc.fit_erm(X, y, ridge=0.0, intercept=True, strict=True)
    peer = LogisticRegression(C=np.inf, tol=1e-13, solver="newton-cg", max_iter=999)
    peer.fit(A - A.mean(0), y)
    b = peer.intercept_ - peer.coef_ @ A.mean(0)
    assert fit.separability is not None
    assert not fit.separability.separable
    np.testing.assert_allclose(fit.weights, peer.coef_.T, atol=1e-7)
    np.testing.assert_allclose(fit.intercepts, b - b.mean(), atol=1e-7)


def hard_margin_by_scipy(X, y, k):
    n, d = X.shape
    rows = np.hstack([X / np.sqrt(d), np.ones((n, 1))])
    J = np.array(
        [
            np.outer(np.eye(k)[y[i]] - np.eye(k)[h], rows[i]).ravel()
            for i in range(n)
            for h in range(k)
            if h != y[i]
        ]
    )
    pull = np.tile(np.append(np.ones(d), 0.0), k)
    found = minimize(
        lambda w: 0.5 * float((pull * w * w).sum()),
        np.zeros(J.shape[1]),
        jac=lambda w: pull * w,
        constraints=[{"type": "ineq", "fun": lambda w: J @ w - 1, "jac": lambda w: J}],
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-13},
    )
    W = found.x.reshape(k, d + 1)
    return W[:, :-1].T, W[:, -1] - W[:, -1].mean()


@pytest.mark.parametrize(
    ("n", "d", "k", "mean"), [(24, 15, 3, 0.0), (24, 15, 3, 3.0), (40, 2, 2, 1.0), (9, 1, 2, 2.0)]
)
def test_max_margin_with_free_intercepts_is_the_quadratic_programme(n, d, k, mean):
    X, y = unequal(n, d, k, seed=3, mean=mean, noise=0.0)
    W, b = hard_margin_by_scipy(X, y, k)
    fit = pc.fit_erm(X, y, "max-margin", intercept=True, strict=True)
    size = np.linalg.norm(W)
    np.testing.assert_allclose(fit.weights, W, atol=2e-6 * size)
    np.testing.assert_allclose(fit.intercepts, b, atol=1e-5 * size)
    limit = pc.fit_erm(X, y, "cross-entropy", 0.0, intercept=True)
    np.testing.assert_array_equal(limit.intercepts, fit.intercepts)
    proof = limit.separability
    z = X @ proof.weights / np.sqrt(d) + proof.intercepts
    margins = z[np.arange(n), y][:, None] - z
    margins[np.arange(n), y] = np.inf
    assert margins.min() == pytest.approx(1.0)


def test_a_gap_bounds_weights_and_intercepts(monkeypatch):
    X, y = unequal(40, 30, 3, seed=1, noise=0.0)
    exact = pc.fit_erm(X, y, "max-margin", intercept=True, strict=True)
    module = "polyceptron.fit.solvers.hard_margin"
    monkeypatch.setattr(f"{module}.solve_active", lambda *given: None)
    loose = pc.fit_erm(X, y, "max-margin", intercept=True)
    off = np.hypot(
        np.linalg.norm(loose.weights - exact.weights),
        np.linalg.norm(loose.intercepts - exact.intercepts),
    )
    assert off <= loose.distance_bound < 0.05 * np.linalg.norm(exact.weights)


class Bent(pc.Loss):
    """ℓ = Σ_h (√(1 + (1 − z_y + z_h)²) + 1 − z_y + z_h): a smooth relative of the hinge."""

    name = "bent"

    def _off(self, z, y):
        right = np.eye(z.shape[1])[y]
        return 1 - (z * right).sum(1, keepdims=True) + z, right

    def value(self, z, y):
        t, right = self._off(np.asarray(z, float), y)
        return ((np.sqrt(1 + t**2) + t) * (1 - right)).sum(1)

    def gradient(self, z, y):
        t, right = self._off(np.asarray(z, float), y)
        g = (t / np.sqrt(1 + t**2) + 1) * (1 - right)
        return g - right * g.sum(1, keepdims=True)

    def hessian(self, z, y):
        t, right = self._off(np.asarray(z, float), y)
        h = (1 + t**2) ** -1.5 * (1 - right)
        v = np.eye(z.shape[1])[None] - right[:, None, :]
        return np.einsum("nh,nha,nhb->nab", h, v, v)


@pytest.mark.parametrize("case", ["own loss", "elastic net"])
def test_other_losses_and_penalties_are_stationary_and_certified(case):
    X, y = unequal(n=150, d=10, mean=1.0)
    given = (
        {"loss": Bent(), "ridge": 0.2}
        if case == "own loss"
        else {"loss": "cross-entropy", "penalty": "elastic-net:0.2:0.6"}
    )
    fit = pc.fit_erm(X, y, **given, intercept=True, class_weight=[1.0, 2.0, 3.0], strict=True)
    tight = pc.fit_erm(
        X,
        y,
        **given,
        intercept=True,
        class_weight=[1.0, 2.0, 3.0],
        tol=1e-10,
        start=np.vstack([fit.weights, fit.intercepts]),
    )
    loss = Bent() if case == "own loss" else CrossEntropy()
    z = X @ fit.weights / np.sqrt(10) + fit.intercepts
    residual = np.array([1.0, 2.0, 3.0])[y][:, None] * loss.gradient(z, y)
    np.testing.assert_allclose(residual.sum(0), 0, atol=1e-6 * np.abs(residual).sum())
    off = np.hypot(
        np.linalg.norm(fit.weights - tight.weights),
        np.linalg.norm(fit.intercepts - tight.intercepts),
    )
    assert off <= fit.distance_bound
    assert fit.intercepts.sum() == pytest.approx(0, abs=1e-12)


def test_bounds_hold_and_are_near_the_tolerance():
    X, y = unequal(n=200, d=15, k=4, mean=1.0)
    exact = pc.fit_erm_path(X, y, "cross-entropy", [1e-2, 1.0], intercept=True, tol=1e-11)
    for tol in (1e-2, 1e-5):
        path = pc.fit_erm_path(X, y, "cross-entropy", [1e-2, 1.0], intercept=True, tol=tol)
        for fit, best in zip(path, exact, strict=True):
            off = np.hypot(
                np.linalg.norm(fit.weights - best.weights),
                np.linalg.norm(fit.intercepts - best.intercepts),
            )
            size = np.hypot(np.linalg.norm(fit.weights), np.linalg.norm(fit.intercepts))
            assert off <= fit.distance_bound <= tol * size


def test_every_kind_of_input_gives_the_same_fit(tmp_path):
    X, y = unequal(n=120, d=8, mean=1.0)
    X[X < 0] = 0.0
    plain = pc.fit_erm(X, y, ridge=0.1, intercept=True)
    np.save(tmp_path / "X.npy", X)
    mapped = FileDesign.of(np.load(tmp_path / "X.npy", mmap_mode="r"))
    for given in (sparse.csr_matrix(X), mapped, X.astype(np.float32)):
        fit = pc.fit_erm(given, y, ridge=0.1, intercept=True)
        atol = 1e-4 if getattr(given, "dtype", None) == np.float32 else 1e-7
        np.testing.assert_allclose(fit.weights, plain.weights, atol=atol)
        np.testing.assert_allclose(fit.intercepts, plain.intercepts, atol=atol)
    kept = {"checkpoint": tmp_path / "c.npz", "checkpoint_every": 0.0, "intercept": True}

    def stop(progress):
        if progress.iteration >= 3:
            raise KeyboardInterrupt

    stopped = pc.fit_erm(X, y, ridge=0.1, callback=stop, **kept)
    resumed = pc.fit_erm(X, y, ridge=0.1, **kept)
    assert (stopped.status, resumed.status) == ("interrupted", "ok")
    off = np.hypot(
        np.linalg.norm(resumed.weights - plain.weights),
        np.linalg.norm(resumed.intercepts - plain.intercepts),
    )
    assert off <= resumed.distance_bound + plain.distance_bound
    with pytest.raises(pc.InvalidInput, match="another fit"):
        pc.fit_erm(X, y, ridge=0.1, checkpoint=tmp_path / "c.npz")


def test_units_do_not_matter_and_the_classifier_fits_the_same():
    X, y = unequal(n=150, d=10)
    fit = pc.fit_erm(X, y, ridge=0.1, intercept=True)
    huge = pc.fit_erm(2.0**60 * X, y, ridge=0.1 * 2.0**120, intercept=True)
    np.testing.assert_allclose(2.0**60 * huge.weights, fit.weights, atol=1e-12)
    np.testing.assert_allclose(huge.intercepts, fit.intercepts, atol=1e-12)
    model = pc.ERMClassifier(ridge=0.1, scaling="none").fit(X, y)
    np.testing.assert_allclose(model.coef_.T * np.sqrt(10), fit.weights, atol=1e-7)
    centred = model.intercept_ - model.intercept_.mean()
    np.testing.assert_allclose(centred, fit.intercepts, atol=1e-7)


def test_what_cannot_be_fitted_is_said():
    X, y = unequal(n=60, d=5)
    for wrong in ({0: 0.0}, {7: 1.0}, [1.0, 2.0], "even", [1.0, np.inf, 1.0]):
        with pytest.raises(pc.InvalidInput, match="class_weight"):
            pc.fit_erm(X, y, class_weight=wrong)
    with pytest.raises(pc.InvalidInput, match="an intercept needs samples of every class"):
        pc.fit_erm(X, y, n_classes=4, intercept=True)
    with pytest.raises(pc.InvalidInput, match="True or False"):
        pc.fit_erm(X, y, intercept="yes")


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize(
    "largest", [0, newton_step.MOST_PRODUCTS_OF_A_WHOLE_HESSIAN], ids=["gradients", "whole"]
)
def test_an_intercept_that_no_sample_feels_divides_by_nothing(largest, monkeypatch):
    """Far from the origin few digits are left, and every probability is 0 or 1 on the way."""
    monkeypatch.setattr(newton_step, "MOST_PRODUCTS_OF_A_WHOLE_HESSIAN", largest)
    X, y = load_wine(return_X_y=True)
    with pytest.raises(pc.ComputationFailed, match="margin too small to resolve"):
        pc.fit_erm(X + 1e10, y, "cross-entropy", 0.0, intercept=True)
    near = pc.fit_erm(X + 1e3, y, "cross-entropy", 0.0, intercept=True)
    assert near.separability.separable


def test_tiny_features_have_bounds_of_their_own_size():
    """Weights are large where features are tiny: what is not known of b counts little beside."""
    X, y = unequal(120, 6, 3, seed=2)
    for loss, scale, most in (("cross-entropy", 1e-6, 0.01), ("square", 1e-20, 1e-15)):
        fit = pc.fit_erm(scale * X, y, loss, 0.1, intercept=True)
        same = pc.fit_erm(X, y, loss, 0.1 / scale**2, intercept=True)
        off = np.linalg.norm(fit.weights - same.weights / scale)
        off = np.hypot(off, np.linalg.norm(fit.intercepts - same.intercepts))
        size = np.hypot(np.linalg.norm(fit.weights), np.linalg.norm(fit.intercepts))
        assert off <= fit.distance_bound <= most * size
