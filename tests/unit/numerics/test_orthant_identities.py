"""The argmax channel for any k: sums over classes, derivatives, limits, rates."""

from __future__ import annotations

import numpy as np
import pytest

from polyceptron.numerics.orthant import argmax_orthant, integrate

CASES = [(2, 20), (3, 20), (4, 32), (7, 32), (20, 40)]


@pytest.mark.parametrize(("k", "order"), CASES)
@pytest.mark.parametrize("shape", ["scalar", "sample", "class"])
def test_classes_exhaust_the_outcomes(k: int, order: int, shape: str) -> None:
    """Σ_l Z_l = 1, hence Σ_l Z_l ∇ln Z_l = 0."""
    rng = np.random.default_rng(k)
    omega = rng.standard_normal((40, k)) * 1.5
    v = {"scalar": 0.7, "sample": rng.uniform(0.5, 2, 40), "class": rng.uniform(0.7, 1.5, (40, k))}
    total, mean_score = np.zeros(40), np.zeros((40, k))
    for label in range(k):
        o = argmax_orthant(omega, np.full(40, label), v[shape], order=order)
        total += np.exp(o.log_z)
        mean_score += np.exp(o.log_z)[:, None] * o.score
        np.testing.assert_allclose(o.score.sum(-1), 0, atol=1e-12)
    np.testing.assert_allclose(total, 1, atol=3e-8 if shape == "class" else 1e-9)
    np.testing.assert_allclose(mean_score, 0, atol=3e-7 if shape == "class" else 1e-8)


@pytest.mark.parametrize(("k", "order"), CASES)
def test_score_and_curvature_are_derivatives(k: int, order: int) -> None:
    rng = np.random.default_rng(k)
    omega, y = rng.standard_normal((15, k)), rng.integers(0, k, 15)
    v = rng.uniform(0.7, 1.5, (15, k))
    o = argmax_orthant(omega, y, v, order=order)
    for h in range(min(k, 4)):
        step = 1e-4 * np.eye(k)[h]
        up, down = (argmax_orthant(omega + s * step, y, v, order=order) for s in (1, -1))
        np.testing.assert_allclose(o.score[:, h], (up.log_z - down.log_z) / 2e-4, atol=1e-6)
        bend = (up.score[:, h] - down.score[:, h]) / 2e-4
        np.testing.assert_allclose(o.diagonal[:, h], -bend, atol=1e-5)


def test_a_class_that_never_wins_leaves_the_closed_form() -> None:
    """Four classes, one at −60: the integral must give the bivariate orthant of the other three."""
    rng = np.random.default_rng(0)
    omega, y = rng.standard_normal((50, 3)) * 2, rng.integers(0, 3, 50)
    four = np.column_stack([omega, np.full(50, -60.0)])
    with_fourth = argmax_orthant(four, y, 1.3, order=40)
    three = argmax_orthant(omega, y, 1.3)
    np.testing.assert_allclose(with_fourth.log_z, three.log_z, atol=1e-9)
    np.testing.assert_allclose(with_fourth.score[:, :3], three.score, atol=1e-8)
    np.testing.assert_allclose(with_fourth.curvature, three.curvature, atol=1e-7)


def test_closed_forms_against_the_integral_with_a_variance_for_each_class() -> None:
    rng = np.random.default_rng(1)
    for k in (2, 3):
        omega, y = rng.standard_normal((60, k)) * 3, rng.integers(0, k, 60)
        v = rng.uniform(0.6, 1.6, (60, k))
        exact = argmax_orthant(omega, y, v)
        integral = integrate(omega, y, np.sqrt(v), 80).orthant(y)
        np.testing.assert_allclose(exact.log_z, integral.log_z, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(exact.score, integral.score, atol=1e-6)
        np.testing.assert_allclose(exact.diagonal, integral.diagonal, atol=1e-6)


@pytest.mark.parametrize("k", [3, 6])
def test_frequencies_of_sampled_labels(k: int) -> None:
    rng = np.random.default_rng(3)
    omega, v, n = rng.standard_normal(k), rng.uniform(0.3, 2, k), 200_000
    labels = (omega + np.sqrt(v) * rng.standard_normal((n, k))).argmax(1)
    p = np.exp(argmax_orthant(np.tile(omega, (k, 1)), np.arange(k), np.tile(v, (k, 1))).log_z)
    frequency = np.bincount(labels, minlength=k) / n
    assert (np.abs(frequency - p) < 4.5 * np.sqrt(p * (1 - p) / n) + 1e-4).all()


@pytest.mark.parametrize("k", [4, 10, 30])
def test_the_rule_converges_geometrically(k: int) -> None:
    """Each four nodes more must divide the error by 3 at least, down to rounding."""
    rng = np.random.default_rng(k)
    omega = rng.standard_normal((400, k))
    y = (omega + rng.standard_normal(omega.shape)).argmax(1)
    best = argmax_orthant(omega, y, order=80).score
    errors = [np.abs(argmax_orthant(omega, y, order=n).score - best).max() for n in range(8, 33, 4)]
    slope = np.polyfit(np.arange(len(errors)), np.log(errors), 1)[0]
    assert slope < -np.log(3)
    assert errors[-1] < 1e-8


def test_relabelling_the_classes_and_shifting_all_fields_change_nothing() -> None:
    rng = np.random.default_rng(4)
    omega, y, order = rng.standard_normal((25, 6)), rng.integers(0, 6, 25), rng.permutation(6)
    o = argmax_orthant(omega, y, 0.4)
    moved = argmax_orthant(omega[:, order] + 7.0, np.argsort(order)[y], 0.4)
    np.testing.assert_allclose(moved.log_z, o.log_z, atol=1e-12)
    np.testing.assert_allclose(moved.score, o.score[:, order], atol=1e-11)
    np.testing.assert_allclose(moved.curvature, o.curvature, atol=1e-11)


@pytest.mark.parametrize("k", [3, 5])
def test_threads_change_nothing(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    n = 40_000 if k == 3 else 12_000
    omega, y = rng.standard_normal((n, k)), rng.integers(0, k, n)
    results = []
    for threads in ("1", "3"):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        results.append(argmax_orthant(omega, y, 1.0, order=8))
    for one, three in zip(*results, strict=True):
        np.testing.assert_array_equal(one, three)


def test_leading_shapes_are_kept() -> None:
    o = argmax_orthant(np.zeros((2, 5, 4)), np.zeros((2, 5), dtype=int), np.ones((2, 5)))
    assert o.log_z.shape == o.curvature.shape == (2, 5)
    assert o.score.shape == (2, 5, 4)
    np.testing.assert_allclose(np.exp(o.log_z), 0.25, atol=1e-9)


def test_a_sample_that_is_not_a_number_leaves_the_others_alone():
    """One NaN in a block must not change how the integrals of the other samples are made."""
    omega = np.random.default_rng(3).normal(size=(5, 6)) * 3
    label = np.array([0, 1, 2, 3, 4])
    spoilt = omega.copy()
    spoilt[2] = np.nan
    with np.errstate(invalid="ignore"):
        found = argmax_orthant(spoilt, label)
    expected = argmax_orthant(omega, label)
    others = [0, 1, 3, 4]
    rounding = {"rtol": 1e-12, "atol": 1e-13}  # a log near 0 is known absolutely
    np.testing.assert_allclose(found.log_z[others], expected.log_z[others], **rounding)
    np.testing.assert_allclose(found.diagonal[others], expected.diagonal[others], **rounding)
