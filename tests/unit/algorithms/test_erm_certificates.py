"""Certificates against minimisers found in fifty digits, on problems close to singular."""

from __future__ import annotations

import warnings

import mpmath as mp
import numpy as np
import pytest

from polyceptron.algorithms.erm.fit import fit_erm
from polyceptron.algorithms.erm.objectives import sum_rounding
from polyceptron.algorithms.stored_designs import as_design
from polyceptron.model import Teacher
from polyceptron.rows import Status


def minimiser(X, y, k, ridge, start, loss):
    """Newton's method in fifty digits, in all d·k coordinates, from weights nearby.

    The Hessian is that of every fifth step: it hardly changes.
    """
    with mp.workdps(50):
        (n, d), r = X.shape, mp.mpf(ridge)
        A, W = mp.matrix(X.tolist()) / mp.sqrt(d), mp.matrix(start.tolist())
        for turn in range(60):
            Z, R = A * W, mp.zeros(n, k)
            H = r * mp.eye(d * k) if turn % 5 == 0 else None
            for i in range(n):
                e = [mp.exp(Z[i, h]) for h in range(k)]
                p = [x / mp.fsum(e) for x in e]
                for h in range(k):
                    R[i, h] = (Z[i, h] if loss == "square" else p[h]) - int(h == y[i])
                if H is not None:
                    bend = (
                        mp.eye(k)
                        if loss == "square"
                        else mp.diag(p) - mp.matrix(p) * mp.matrix(p).T
                    )
                    for a in range(d):
                        for b in range(d):
                            both = A[i, a] * A[i, b]
                            for h in range(k):
                                for j in range(k):
                                    H[a * k + h, b * k + j] += both * bend[h, j]
            if H is not None:
                inverse = H**-1
            G = A.T * R + r * W
            step = inverse * mp.matrix([G[a, h] for a in range(d) for h in range(k)])
            for a in range(d):
                for h in range(k):
                    W[a, h] -= step[a * k + h]
            if mp.norm(step) < mp.mpf(10) ** -35 * (1 + mp.norm(W)):
                return W
    raise AssertionError("the reference did not converge")


def near_rank_one(seed):
    rng = np.random.default_rng(seed)
    n, d, k = [(12, 4, 3), (20, 3, 2), (6, 5, 3)][seed % 3]
    X = rng.standard_normal((n, 1)) @ rng.standard_normal((1, d)) * 10.0 ** rng.uniform(-1, 3)
    X += 10.0 ** rng.uniform(-8, -2) * rng.standard_normal((n, d))
    return X, rng.permutation(np.arange(n) % k), k, 10.0 ** rng.uniform(-8, -1)


def distance(fit, exact):
    with mp.workdps(50):
        return float(mp.norm(mp.matrix(fit.weights.tolist()) - exact))


@pytest.mark.parametrize("loss", ["cross-entropy", "square"])
def test_the_bound_holds_on_nearly_singular_problems(loss):
    falsified = 0
    for seed in range(40):
        X, y, k, ridge = near_rank_one(seed)
        fit = fit_erm(X, y, loss, ridge)
        off = distance(fit, minimiser(X, y, k, ridge, fit.weights, loss))
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
    for _ in range(5):
        x, u = np.abs(rng.standard_normal(length)), np.abs(rng.standard_normal(length))
        exact = sum(int(a * 2**60) * int(b * 2**60) for a, b in zip(x, u, strict=True))
        x, u = (np.array([int(a * 2**60) / 2**60 for a in v]) for v in (x, u))
        off = abs(mp.mpf(float(x @ u)) - mp.mpf(exact) / mp.mpf(2) ** 120)
        assert off <= sum_rounding(length) * float(x @ u)


def test_the_stretch_is_an_upper_bound_and_not_a_wild_one():
    for shape in ((200, 50), (30, 400)):
        X = np.random.default_rng(0).standard_normal(shape)
        exact = np.linalg.norm(X, 2) / np.sqrt(shape[1])
        assert exact <= as_design(X).stretch < 2 * exact


def exact_margin(X, y, k, W):
    """Max-margin weights in fifty digits from the constraints that W meets with equality.

    None unless they are the solution: all multipliers positive and every margin 1 or more.
    """
    with mp.workdps(50):
        n, d = X.shape
        z = X @ W / np.sqrt(d)
        near = [(i, h) for i in range(n) for h in range(k) if h != y[i]]
        tight = [(i, h) for i, h in near if z[i, y[i]] - z[i, h] < 1 + 1e-6]
        A, J = mp.matrix(X.tolist()) / mp.sqrt(d), mp.zeros(len(tight), d * k)
        for r, (i, h) in enumerate(tight):
            for a in range(d):
                J[r, a * k + int(y[i])] += A[i, a]
                J[r, a * k + h] -= A[i, a]
        shares = mp.lu_solve(J * J.T, mp.ones(len(tight), 1))
        w = J.T * shares
        exact = mp.matrix(d, k)
        for a in range(d):
            for h in range(k):
                exact[a, h] = w[a * k + h]
        Z = A * exact
        least = min(Z[i, int(y[i])] - Z[i, h] for i, h in near)
        return exact if min(shares) > 0 and least > 1 - mp.mpf(10) ** -30 else None


def test_the_bound_of_the_hard_margin_holds_for_features_of_any_size():
    """Features whose sizes differ by up to a million."""
    seen = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        n, d, k = [(20, 6, 3), (8, 10, 3), (30, 4, 2)][seed % 3]
        X = rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-3, 3, d)
        y = (X @ (rng.standard_normal((d, k)) / np.abs(X).mean(0)[:, None])).argmax(1)
        fit = fit_erm(X, y, "max-margin", n_classes=k)
        exact = exact_margin(X, y, k, fit.weights)
        if exact is not None:
            assert distance(fit, exact) <= fit.distance_bound, seed
            seen += 1
    assert seen >= 15
