"""Certificates against minimisers found in fifty digits, on problems close to singular."""

from __future__ import annotations

import warnings
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
import scipy.sparse

import polyceptron as pc
from polyceptron.data.stored_designs import open_design
from polyceptron.fit.erm import fit_erm
from polyceptron.fit.solvers import newton_step
from polyceptron.fit.solvers.rounding import sum_rounding
from polyceptron.problem import Teacher
from polyceptron.problem.losses import as_loss
from polyceptron.rows import Status


def solved(rows):
    """M⁻¹B of rows (M, B) of numbers of any kind, by elimination."""
    rows = rows.copy()
    for c in range(len(rows)):
        at = c + int(np.abs(rows[c:, c]).argmax())
        rows[[c, at]] = rows[[at, c]]
        rows[c] = rows[c] / rows[c, c]
        others = np.arange(len(rows)) != c
        rows[others] = rows[others] - rows[others, c, None] * rows[c]
    return rows[:, len(rows) :]


def minimiser(X, y, k, ridge, start, loss):
    """Newton's method in fifty digits, in all d·k coordinates, from weights nearby.

    The Hessian is that of every fifth step: it hardly changes.
    """
    number, exp = np.vectorize(mp.mpf, otypes=[object]), np.vectorize(mp.exp, otypes=[object])
    with mp.workdps(50):
        d, one, hot = X.shape[1], number(np.eye(k)), number(np.eye(k))[y]
        A, W, r = number(X) / mp.sqrt(d), number(start), mp.mpf(ridge)
        for turn in range(60):
            Z = A @ W
            if loss == "square":
                R, bend = Z - hot, np.broadcast_to(one, (len(X), k, k))
            else:
                p = exp(Z)
                p = p / p.sum(1)[:, None]
                R, bend = p - hot, p[:, :, None] * (one - p[:, None])
            if turn % 5 == 0:
                H = np.array(
                    [[A.T @ (bend[:, h, j, None] * A) for j in range(k)] for h in range(k)]
                )
                H = H.transpose(0, 2, 1, 3).reshape(d * k, d * k)
                inverse = solved(np.hstack([H + r * number(np.eye(d * k)), number(np.eye(d * k))]))
            G = A.T @ R + r * W
            step = (inverse @ G.T.ravel()).reshape(k, d).T
            W = W - step
            if size(step) < mp.mpf(10) ** -35 * (1 + size(W)):
                return W
    raise AssertionError("the reference did not converge")


def size(W):
    return mp.sqrt((W * W).sum())


def near_rank_one(seed):
    rng = np.random.default_rng(seed)
    n, d, k = [(12, 4, 3), (20, 3, 2), (6, 5, 3)][seed % 3]
    X = rng.standard_normal((n, 1)) @ rng.standard_normal((1, d)) * 10.0 ** rng.uniform(-1, 3)
    X += 10.0 ** rng.uniform(-8, -2) * rng.standard_normal((n, d))
    return X, rng.permutation(np.arange(n) % k), k, 10.0 ** rng.uniform(-8, -1)


def distance(fit, exact):
    with mp.workdps(50):
        return float(size(fit.weights - exact))


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["cross-entropy", "square"])
def test_the_bound_holds_on_nearly_singular_problems(loss, monkeypatch):
    """By the whole Hessian, and by conjugate gradients, which end farther from the minimum."""
    falsified = 0
    for seed in range(24 if loss == "cross-entropy" else 9):
        X, y, k, ridge = near_rank_one(seed)
        fits = [fit_erm(X, y, loss, ridge)]
        if loss == "cross-entropy":
            with monkeypatch.context() as patch:
                patch.setattr(newton_step, "MOST_PRODUCTS_OF_A_WHOLE_HESSIAN", 0)
                fits.append(fit_erm(X, y, loss, ridge))
        exact = minimiser(X, y, k, ridge, fits[0].weights, loss)
        for fit in fits:
            off = distance(fit, exact)
            assert off <= fit.distance_bound, seed
            falsified += off > fit.gradient_norm / ridge
            if fit.status == Status.OK:
                assert off <= 1e-8 * np.linalg.norm(fit.weights), seed
    assert falsified > 0 or loss == "square"  # without rounding the bound would be false


def test_the_generic_newton_solver_has_the_same_certificate():
    for seed in (3, 4, 8):
        X, y, k, ridge = near_rank_one(seed)
        fit = fit_erm(X, y, "cross-entropy", ridge, solver="newton")
        exact = minimiser(X, y, k, ridge, fit.weights, "cross-entropy")
        assert distance(fit, exact) <= fit.distance_bound


@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_well_conditioned_problems_lose_nothing_to_rounding(scale):
    """The bound is the gradient's norm over the ridge to a few digits, and the status OK."""
    X, y, _ = Teacher(3).sample(400, 100, seed=3)
    fit = fit_erm(scale * X, y, "cross-entropy", 0.01 * scale**2)
    assert fit.status == Status.OK
    assert fit.distance_bound < 1.1 * fit.gradient_norm / fit.ridge


@pytest.mark.parametrize("loss", ["cross-entropy", "square"])
@pytest.mark.parametrize("start", [None, 1.0])
def test_a_minimiser_at_zero_is_certified(loss, start):
    """Every sample occurs once with each label: there is nothing to learn (but a common part)."""
    half = np.random.default_rng(1).standard_normal((40, 7))
    half -= half.mean(0)
    X, y = np.vstack([half] * 3), np.repeat([0, 1, 2], 40)
    begin = None if start is None else start * np.ones((7, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = fit_erm(X, y, loss, 0.1, start=begin)
    assert fit.status == Status.OK
    assert np.linalg.norm(fit.weights) <= 2 * fit.distance_bound + 1e-14
    assert fit.distance_bound < 1e-11


def test_features_of_zero_are_certified():
    for loss in ("cross-entropy", "square"):
        fit = fit_erm(np.zeros((6, 2)), [0, 1, 2, 0, 1, 2], loss, 0.1)
        assert fit.status == Status.OK
        assert not fit.weights.any()


@pytest.mark.parametrize("length", [10, 1000, 30_000])
def test_sums_of_products_round_less_than_said(length):
    """Products of one sign, where rounding adds up most, against exact rational sums."""
    rng = np.random.default_rng(length)
    for _ in range(2):
        x, u = np.abs(rng.standard_normal(length)), np.abs(rng.standard_normal(length))
        exact = sum(int(a * 2**60) * int(b * 2**60) for a, b in zip(x, u, strict=True))
        x, u = (np.array([int(a * 2**60) / 2**60 for a in v]) for v in (x, u))
        off = abs(mp.mpf(float(x @ u)) - mp.mpf(exact) / mp.mpf(2) ** 120)
        assert off <= sum_rounding(length) * float(x @ u)


def test_the_stretch_is_an_upper_bound_and_not_a_wild_one():
    for shape in ((200, 50), (30, 400)):
        X = np.random.default_rng(0).standard_normal(shape)
        exact = np.linalg.norm(X, 2) / np.sqrt(shape[1])
        assert exact <= open_design(X).stretch < 2 * exact


def exact_margin(X, y, k, W):
    """Max-margin weights in fifty digits from the constraints that W meets with equality.

    None unless they are the solution: all multipliers positive and every margin 1 or more.
    """
    number = np.vectorize(mp.mpf, otypes=[object])
    with mp.workdps(50):
        n, d = X.shape
        z, A = X @ W / np.sqrt(d), number(X) / mp.sqrt(d)
        near = [(i, h) for i in range(n) for h in range(k) if h != y[i]]
        tight = [(i, h) for i, h in near if z[i, y[i]] - z[i, h] < 1 + 1e-6]
        sides = number([np.eye(k)[y[i]] - np.eye(k)[h] for i, h in tight])
        J = (A[[i for i, _ in tight], :, None] * sides[:, None]).reshape(len(tight), d * k)
        shares = solved(np.hstack([J @ J.T, number(np.ones((len(tight), 1)))]))
        exact = (J.T @ shares).reshape(d, k)
        Z = A @ exact
        least = min(Z[i, y[i]] - Z[i, h] for i, h in near)
        return exact if min(shares[:, 0]) > 0 and least > 1 - mp.mpf(10) ** -30 else None


@pytest.mark.slow
def test_the_bound_of_the_hard_margin_holds_for_features_of_any_size():
    """Features whose sizes differ by up to a million."""
    seen = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        n, d, k = [(20, 6, 3), (8, 10, 3), (30, 4, 2)][seed % 3]
        X = rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-3, 3, d)
        y = (X @ (rng.standard_normal((d, k)) / np.abs(X).mean(0)[:, None])).argmax(1)
        fit = fit_erm(X, y, "max-margin", n_classes=k)
        exact = exact_margin(X, y, k, fit.weights)
        if exact is not None:
            assert distance(fit, exact) <= fit.distance_bound, seed
            seen += 1
    assert seen >= 9


def two_sets():
    """Data that no weights separate, and data that some do."""
    X, y, _ = pc.Teacher(3).sample(200, 20, 0)
    S, label, _ = pc.Teacher(3).sample(60, 40, 0)
    return (X, np.where(np.arange(200) % 2, y, (y + 1) % 3)), (S, label)


@pytest.mark.parametrize("power", [-660, -20, 33, 490])
@pytest.mark.parametrize("loss", ["cross-entropy", "square", "max-margin"])
def test_without_a_ridge_units_do_not_matter(loss, power):
    """W goes as the inverse of the unit of X, and so do its bound and the proof."""
    for X, y in two_sets()[loss == "max-margin" :]:
        plain, fit = fit_erm(X, y, loss, 0.0), fit_erm(np.ldexp(X, power), y, loss, 0.0)
        assert fit.status == plain.status == "ok"
        back = np.ldexp(fit.weights, power)
        bound = float(np.ldexp(fit.distance_bound, power))
        assert 0 < bound <= 1.01e-8 * np.linalg.norm(back)
        assert np.linalg.norm(back - plain.weights) <= bound + plain.distance_bound
        if plain.separability is not None:
            assert fit.separability.separable == plain.separability.separable


@pytest.mark.parametrize("loss", ["cross-entropy", "square"])
@pytest.mark.parametrize(
    ("power", "weight", "ridge"),
    [(-565, 1.0, 0.1), (-330, 1.0, 0.1), (0, 1e-200, 0.1), (0, 1.0, 1e39), (0, 1.0, 1e100)],
)
def test_under_a_large_ridge_weights_are_the_slope_at_zero(loss, power, weight, ridge):
    (X, y), _ = two_sets()
    fit = fit_erm(np.ldexp(X, power), y, loss, ridge, sample_weight=np.full(200, weight))
    slope = as_loss(loss).gradient(np.zeros((200, 3)), y)
    expected = -X.T @ slope / np.sqrt(20)  # times weight·2^power/ridge
    scale = float(np.ldexp(weight, power)) / ridge
    assert fit.status == "ok"
    np.testing.assert_allclose(fit.weights / scale, expected, rtol=1e-9, atol=1e-9)
    assert 0 < fit.distance_bound / scale <= 1e-8 * np.linalg.norm(expected)


@pytest.mark.parametrize("loss", ["cross-entropy", "square"])
def test_weights_of_samples_have_units_too(loss):
    """Huge ones are a ridge of 0 to rounding; a bound that cannot be given is not met."""
    (X, y), _ = two_sets()
    fit = fit_erm(X, y, loss, 0.1, sample_weight=np.full(200, 1e200))
    limit = fit_erm(X, y, loss, 0.0)
    np.testing.assert_allclose(fit.weights, limit.weights, rtol=1e-6, atol=1e-9)
    assert (fit.status == "ok") == (fit.distance_bound <= 1e-8 * np.linalg.norm(fit.weights))


@pytest.mark.parametrize("shift", [1e10, 1e16])
@pytest.mark.parametrize("loss", ["cross-entropy", "square"])
def test_inputs_far_from_zero_are_never_certified_to_more_than_they_hold(loss, shift):
    overlapping, separable = two_sets()
    for (X, y), ridge in ((overlapping, 0.1), (overlapping, 0.0), (separable, 0.0)):
        fit = fit_erm(X + shift, y, loss, ridge)
        assert np.isfinite(fit.weights).all()
        assert fit.status in ("tolerance-not-met", "not-converged")


def exact_least_squares(X, y, k):
    """√d (XᵀX)⁻¹XᵀY in fractions, of columns that are independent."""
    A = np.array([[Fraction(float(x)) for x in row] for row in X])
    Y = np.array([[Fraction(int(c == label)) for c in range(k)] for label in y])
    return solved(np.hstack([A.T @ A, A.T @ Y])).astype(float) * np.sqrt(X.shape[1])


@pytest.mark.parametrize("shift", [0.0, 1e6, 1e10, 1e13, 1e14, 1e15, 1e16])
def test_least_squares_without_a_ridge_are_those_of_exact_arithmetic(shift):
    X, y, _ = Teacher(3).sample(30, 4, seed=0)
    for given in (X + shift, X * [1.0, 1.0, 1.0, 1 / (1 + shift)]):
        fit, exact = fit_erm(given, y, "square", 0.0), exact_least_squares(given, y, 3)
        off = np.linalg.norm(fit.weights - exact) / np.linalg.norm(exact)
        assert off <= fit.distance_bound / np.linalg.norm(exact) + 1e-14
        assert fit.status != "ok" or off < 1e-8


@pytest.mark.parametrize("shift", [1e10, 1e13, 1e15, 1e16])
@pytest.mark.parametrize("loss", ["cross-entropy", "square"])
def test_an_intercept_takes_up_where_inputs_are(loss, shift):
    """Differences of such inputs are exact: less the first one they have the same weights."""
    X, y, _ = Teacher(3, noise="gaussian:1").sample(40, 4, seed=0)
    X = X + shift
    for ridge in (0.1, 0.0):
        fit = fit_erm(X, y, loss, ridge, intercept=True)
        near = fit_erm(X - X[0], y, loss, ridge, intercept=True)
        level = near.intercepts - X[0] @ near.weights / 2
        apart = np.linalg.norm(fit.weights - near.weights)
        apart = np.hypot(apart, np.linalg.norm(fit.intercepts - level))
        assert apart <= fit.distance_bound + near.distance_bound * shift
        assert fit.status == "ok" or loss == "square"
        assert fit.status != "ok" or apart < 1e-7 * np.linalg.norm(level)


def test_features_that_are_one_to_rounding_have_the_least_norm():
    """Constant far from zero, or repeated: there the exact rank is that of the floating numbers."""
    X, y, _ = Teacher(3).sample(50, 4, seed=0)
    for given in (X + 1e17, np.hstack([X, X[:, :2], np.zeros((50, 1))]), np.ones((50, 3))):
        fit = fit_erm(given, y, "square", 0.0)
        A = given / np.sqrt(given.shape[1])
        exact = np.linalg.pinv(A, rcond=1e-10) @ np.eye(3)[y]
        assert fit.status == "ok"
        np.testing.assert_allclose(fit.weights, exact, rtol=1e-7, atol=1e-9 * np.abs(exact).max())


@pytest.mark.slow
@pytest.mark.parametrize(
    "given",
    [
        {"sample_weight": np.append(1e200, np.ones(49))},
        {"ridge": 1e-90},
    ],
)
def test_next_to_no_ridge_on_separable_data_has_finite_weights(given, monkeypatch):
    """Single precision overflows on the way to a norm of ln(1/λ): that is no step, and no NaN."""
    monkeypatch.setattr(newton_step, "MOST_PRODUCTS_OF_A_WHOLE_HESSIAN", 0)
    X, y, _ = Teacher(3).sample(50, 5, seed=0)
    fit = fit_erm(X, y, **{"ridge": 0.1, **given})
    assert np.isfinite(fit.weights).all()
    assert fit.status != "ok" or fit.distance_bound <= 1e-8 * np.linalg.norm(fit.weights)


def test_inputs_of_zero_have_weights_of_zero():
    (X, y), _ = two_sets()
    for ridge in (0.0, 1.0):
        for loss in ("cross-entropy", "square"):
            fit = fit_erm(0 * X, y, loss, ridge)
            assert (fit.status, fit.distance_bound) == ("ok", 0.0)
            assert not fit.weights.any()
    assert fit_erm(0 * X, y, ridge=0.0).separability.separable is False
    with pytest.raises(pc.ComputationFailed, match="separable"):
        fit_erm(0 * X, y, "max-margin")


@pytest.mark.parametrize("power", [-660, -20, 0, 33, 330])
def test_separability_is_judged_in_the_units_of_the_data(power):
    for (X, y), answer in zip(two_sets(), (False, True), strict=True):
        for given in (np.ldexp(X, power), scipy.sparse.csr_array(np.ldexp(X, power))):
            found = pc.is_separable(given, y)
            assert found.separable is answer
            if answer:
                fields = np.ldexp(X, power) @ found.weights / np.sqrt(X.shape[1])
                own = fields[np.arange(y.size), y]
                fields[np.arange(y.size), y] = -np.inf
                assert (own - fields.max(1)).min() == pytest.approx(1.0, rel=1e-9)
