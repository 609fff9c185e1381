"""The exact generalisation error against Monte Carlo, symmetric theory and limiting cases."""

from __future__ import annotations

import math

import numpy as np
import pytest

import polyceptron as pc
from polyceptron.errors import InvalidInput
from polyceptron.fit import overlaps as module
from polyceptron.fit.overlaps import (
    ErrorEstimate,
    exact_generalisation_error,
    overlaps,
    win_probabilities,
)
from polyceptron.numerics.orthant import argmax_orthant
from polyceptron.problem import as_channel
from polyceptron.sides.generalisation import generalisation_error

pytestmark = pytest.mark.slow


def monte_carlo(W, T, n, seed):
    """The error on n samples and its standard error; x is drawn in the span of the weights."""
    k = W.shape[1]
    _, R = np.linalg.qr(np.hstack([W, T]))
    z = np.random.default_rng(seed).standard_normal((n, R.shape[0])) @ R
    rate = float((z[:, :k].argmax(1) != z[:, k:].argmax(1)).mean())
    return rate, math.sqrt(max(rate * (1 - rate), 1 / n) / n)


def pair(k, d, rho, seed, uneven=False):
    rng = np.random.default_rng(seed)
    T = rng.standard_normal((d, k))
    W = rho * T + math.sqrt(1 - rho**2) * rng.standard_normal((d, k))
    return (W * np.linspace(0.3, 2, k) if uneven else W), T


def symmetric_pair(k, rho, seed=0):
    """Weights whose fields are exactly class-symmetric with correlation ρ."""
    Q = np.linalg.qr(np.random.default_rng(seed).standard_normal((3 * k, 2 * k)))[0]
    T = Q[:, :k]
    return rho * T + math.sqrt(1 - rho**2) * Q[:, k:], T


@pytest.mark.parametrize(
    ("k", "d", "rho", "uneven"),
    [(2, 8, 0.6, True), (3, 40, 0.2, False), (3, 60, 0.97, True), (4, 8, 0.6, True)],
)
def test_error_agrees_with_monte_carlo(k, d, rho, uneven):
    W, T = pair(k, d, rho, seed=k, uneven=uneven)
    value, uncertainty = exact_generalisation_error(W, T, tol=2e-3)
    rate, spread = monte_carlo(W, T, 200_000, seed=1)
    assert abs(value - rate) < 4 * math.hypot(spread, uncertainty)


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.9, 0.999])
def test_three_classes_with_symmetric_overlaps_give_the_theory(rho):
    value, uncertainty = exact_generalisation_error(*symmetric_pair(3, rho))
    assert abs(value - generalisation_error(rho, 3)) < 1e-11 + uncertainty
    assert uncertainty < 1e-9


@pytest.mark.parametrize("rho", [0.3, 0.9])
def test_more_classes_with_symmetric_overlaps_give_the_theory_without_noise(rho):
    value, uncertainty = exact_generalisation_error(*symmetric_pair(5, rho))
    assert abs(value - generalisation_error(rho, 5)) < 1e-4
    assert uncertainty < 1e-4


def test_symmetric_theory_alone_would_be_wrong_for_uneven_weights():
    W, T = pair(3, 20, 0.8, seed=3, uneven=True)
    symmetric = generalisation_error(overlaps(W, T).correlation, 3)
    assert abs(exact_generalisation_error(W, T).value - symmetric) > 1e-3


def test_the_two_sampling_integrands_agree(monkeypatch):
    W, T = pair(4, 30, 0.7, seed=4)
    smooth = exact_generalisation_error(W, T)
    monkeypatch.setattr(module, "_FLAT", np.inf)
    lines = exact_generalisation_error(W, T)
    assert lines.uncertainty != smooth.uncertainty
    assert abs(lines.value - smooth.value) < math.hypot(lines.uncertainty, smooth.uncertainty)


@pytest.mark.parametrize("k", [3, 10])
def testwin_probabilities_are_the_argmax_orthants(k):
    fields = 3 * np.random.default_rng(k).standard_normal((50, k))
    exact = np.exp(argmax_orthant(np.repeat(fields[:, None], k, 1), np.arange(k), order=40).log_z)
    assert np.abs(win_probabilities(fields) - exact).max() < 1e-8


@pytest.mark.parametrize("k", [2, 3, 4])
def test_perfect_and_opposite_weights(k):
    T = np.random.default_rng(k).standard_normal((30, k))
    assert exact_generalisation_error(3 * T + 1, T).value == 0
    opposite = exact_generalisation_error(-T, T)
    rate, spread = monte_carlo(-T, T, 100_000, seed=2)
    assert abs(opposite.value - rate) < 4 * math.hypot(spread, opposite.uncertainty)
    nearly = exact_generalisation_error(
        T + 1e-6 * np.random.default_rng(0).standard_normal(T.shape), T
    )
    assert nearly.value + nearly.uncertainty > 0
    assert nearly.value < 1e-4 + 3 * nearly.uncertainty


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("distance", [1e-6, 1e-7, 1e-8])
def test_bars_hold_next_to_the_teacher(seed, distance):
    """The error of three classes is proportional to a small distance; bars count rounding."""
    rng = np.random.default_rng(seed)
    T, direction = rng.standard_normal((2, 60, 3))
    per_distance = exact_generalisation_error(T + 1e-3 * direction, T).value / 1e-3
    found = exact_generalisation_error(T + distance * direction, T)
    beyond_first_order = 1e-3 * per_distance * distance
    gap = abs(found.value - per_distance * distance)
    assert gap < found.uncertainty + beyond_first_order


@pytest.mark.parametrize("k", [2, 3, 5])
def test_zero_weights_answer_the_first_class(k):
    T = np.random.default_rng(k).standard_normal((40, k))
    value, uncertainty = exact_generalisation_error(np.zeros_like(T), T)
    rate, spread = monte_carlo(np.zeros_like(T), T, 100_000, seed=3)
    assert abs(value - rate) < 4 * math.hypot(spread, uncertainty)


def test_weights_of_deficient_rank():
    T = np.random.default_rng(5).standard_normal((30, 3))
    direction = np.random.default_rng(6).standard_normal((30, 1))
    W = direction * np.array([1.0, -2.0, 0.5])
    value, uncertainty = exact_generalisation_error(W, T)
    rate, spread = monte_carlo(W, T, 200_000, seed=4)
    assert abs(value - rate) < 4 * math.hypot(spread, uncertainty)


def test_two_classes_keep_relative_precision_at_small_angles():
    T = np.random.default_rng(7).standard_normal((50, 2))
    D = np.random.default_rng(8).standard_normal((50, 2))
    values = [exact_generalisation_error(T + step * D, T).value for step in (1e-9, 1e-10)]
    assert values[0] / values[1] == pytest.approx(10, rel=1e-4)


@pytest.mark.parametrize(
    ("k", "noise"),
    [
        (2, "gaussian:0.3"),
        (2, "softmax:1.5"),
        (3, "flips:0.15"),
        (3, "softmax:1.5"),
        (4, "gaussian:0.3"),
        (4, "softmax:1.5"),
    ],
)
def test_error_on_labels_as_drawn_agrees_with_drawn_labels(k, noise):
    """Fields have the teacher's own scale: W*ᵀx/√d; also for the teacher itself as student."""
    d, n = 30, 200_000
    W, T = pair(k, d, 0.8, seed=k)
    T = 1.3 * T
    for student in (W, T):
        value, uncertainty = exact_generalisation_error(student, T, noise=noise)
        rng = np.random.default_rng(11)
        _, R = np.linalg.qr(np.hstack([student, T]))
        z = rng.standard_normal((n, R.shape[0])) @ R / math.sqrt(d)
        labels = as_channel(noise).sample(z[:, k:], rng)
        rate = float((z[:, :k].argmax(1) != labels).mean())
        spread = math.sqrt(rate * (1 - rate) / n)
        assert abs(value - rate) < 4 * spread + uncertainty


@pytest.mark.parametrize("k", [2, 3, 5])
def test_symmetric_weights_with_noise_give_the_channels_own_error(k):
    """For class-symmetric weights the channel has the answer from ρ alone."""
    W, T = symmetric_pair(k, 0.7)
    T, W = T * math.sqrt(3 * k), W * 2.0  # columns of norm √d: fields of unit variance
    tau = 0.7 / math.sqrt(1 - 0.7**2)
    for noise in ("gaussian:0.5", "flips:0.2"):
        value, uncertainty = exact_generalisation_error(W, T, noise=noise)
        theory = as_channel(noise).drawn_error(
            tau, k, lambda t: generalisation_error(t / np.sqrt(1 + t * t), k)
        )
        assert abs(value - float(theory)) < 1e-10 + uncertainty
    assert exact_generalisation_error(T, T, noise="flips:0.2").value == pytest.approx(0.2)


def test_the_uncertainty_of_many_classes_holds_in_99_of_100_cases():
    """Fifty seeds, each with few points, against the mean of all."""
    W, T = pair(5, 12, 0.9, seed=100, uneven=True)
    found = np.array([exact_generalisation_error(W, T, tol=0.5, seed=s) for s in range(50)])
    inside = np.abs(found[:, 0] - found[:, 0].mean()) <= found[:, 1]
    assert inside.sum() >= 47  # 49.5 expected; fewer than 47 happen once in 600 runs
    assert (np.abs(found[:, 0] - found[:, 0].mean()) <= found[:, 1] / 2.947).sum() < 45


def test_overlaps_ignore_what_is_common_to_all_classes():
    W, T = pair(4, 25, 0.5, seed=9)
    plain = overlaps(W, T)
    shifted = overlaps(W + np.random.default_rng(0).standard_normal((25, 1)), T)
    assert plain == pytest.approx(shifted)
    P = np.eye(4) - 0.25
    assert plain.m == pytest.approx(np.trace((W @ P).T @ (T @ P)) / (25 * 3))
    assert plain.q == pytest.approx(((W @ P) ** 2).sum() / (25 * 3))


def test_bad_weights_are_a_sentence():
    with pytest.raises(InvalidInput, match="must both be"):
        overlaps(np.zeros((3, 2)), np.zeros((3, 3)))
    with pytest.raises(InvalidInput, match="no rule"):
        exact_generalisation_error(np.ones((3, 2)), np.ones((3, 2)))
    with pytest.raises(InvalidInput, match="finite"):
        overlaps(np.full((3, 2), np.nan), np.zeros((3, 2)))


def test_weights_of_any_kind_are_taken(tmp_path):
    """Memory maps, sparse matrices and Dask arrays of thin weights."""
    import dask.array
    import scipy.sparse

    rng = np.random.default_rng(0)
    W, T = rng.standard_normal((30, 3)), rng.standard_normal((30, 3))
    W[::2] = 0
    np.save(tmp_path / "W.npy", W)
    expected = exact_generalisation_error(W, T)
    for given in (
        np.load(tmp_path / "W.npy", mmap_mode="r"),
        scipy.sparse.csr_matrix(W),
        dask.array.from_array(W, chunks=(10, -1)),
    ):
        assert exact_generalisation_error(given, T) == expected


def test_the_papers_matrices_of_theory_and_of_fitted_weights() -> None:
    """q00 = 2q and q01 = q in theory; of weights each entry is measured, and traces agree."""
    teacher = pc.Teacher(3)
    best, point = pc.fixed_points(teacher, 2.0)[0], pc.erm_fixed_point(teacher, "square", 2.0)
    assert best.matrices.q.tolist() == [[2 * best.q, best.q], [best.q, 2 * best.q]]
    assert point.matrices.V is not None
    assert point.matrices.V[0, 0] == 2 * point.V
    X, y, W = teacher.sample(n_samples=1200, dimension=600, seed=0)
    found = pc.overlap_matrices(pc.fit_erm(X, y, "square", 0.1).weights, W)
    assert np.allclose(found.q, point.matrices.q, atol=0.06)
    assert np.allclose(found.m, point.matrices.m, atol=0.1)
    scalars = overlaps(pc.fit_erm(X, y, "square", 0.1).weights, W)
    metric = np.linalg.inv(np.eye(2) + 1)
    assert np.trace(metric @ found.q) / 2 == pytest.approx(scalars.q)
    assert np.trace(metric @ found.m) / 2 == pytest.approx(scalars.m)


@pytest.mark.parametrize("k", [2, 3, 4])
def test_weights_taken_for_the_teacher_have_a_bar_that_holds(k):
    """All of many entries differ by half of 1e-13, and two classes are nearly alike."""
    rng = np.random.default_rng(k)
    T = rng.standard_normal((20_000, k))
    T[:, 1] = T[:, 0] + 1e-6 * rng.standard_normal(len(T))
    T = module._unit(T - T.mean(1, keepdims=True))
    W = T + 0.5e-13 * rng.choice([-1, 1], T.shape)
    value, uncertainty = exact_generalisation_error(W, T)
    u, v = W[:, 0] - W[:, 1], T[:, 0] - T[:, 1]
    u, v = u / np.linalg.norm(u), v / np.linalg.norm(v)
    pair = 2 * math.atan2(np.linalg.norm(u - v), np.linalg.norm(u + v)) / math.pi
    assert value == 0
    assert pair / k < uncertainty < 10 * pair


def test_the_teacher_itself_has_no_error():
    T = np.repeat(np.random.default_rng(0).standard_normal((50, 3)), 2, axis=1)
    assert exact_generalisation_error(3 * T, T) == (0.0, module.EQUAL_WEIGHTS)


@pytest.mark.parametrize("gap", [1e-5, 1e-6, 1e-7, 1e-9])
def test_teachers_with_two_close_classes_have_the_error_of_any_small_gap(gap: float) -> None:
    """Labels depend on the direction of a difference of weights, not on its length."""
    rng = np.random.default_rng(0)
    T = rng.standard_normal((200, 3))
    direction = rng.standard_normal(200)
    noise = 0.1 * rng.standard_normal((200, 3))
    W = np.stack([T[:, 0], T[:, 0] + direction, T[:, 2]], 1) + noise

    def error(gap: float) -> ErrorEstimate:
        teacher = np.stack([T[:, 0], T[:, 0] + gap * direction, T[:, 2]], 1)
        return exact_generalisation_error(W, teacher)

    apart = error(1e-4)
    close = error(gap)
    assert apart.uncertainty < 1e-8
    assert abs(close.value - apart.value) < close.uncertainty + 1e-4
    assert gap < 1e-6 or close.uncertainty < 0.01
