"""Message passing: what it accepts and returns, its symmetries, precision and memory."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pandas as pd
import pytest

import polyceptron as pc
from polyceptron.message_passing.posterior_mean import amp, amp_erm
from polyceptron.numerics.orthant import argmax_orthant
from polyceptron.problem import PRIORS
from polyceptron.rows import Status

pytestmark = pytest.mark.slow


def instance(
    k: int = 3, alpha: float = 2.0, d: int = 120, prior: object = "gaussian", seed: int = 0
):
    return pc.Teacher(k, prior).sample(round(alpha * d), d, seed)


@pytest.mark.parametrize("variances", ["shared", "full"])
@pytest.mark.parametrize(
    ("k", "prior"),
    [
        (2, "gaussian"),
        (3, "gaussian"),
        (5, "gaussian"),
        (3, "rademacher"),
        (4, "rademacher"),
        (13, "rademacher"),
        (3, ([-1, 0, 2], [0.4, 0.4, 0.2])),
        (3, "sparse-gaussian:0.2"),
        (4, "laplace"),
        (2, "ternary"),
    ],
)
def test_converges_and_explains_itself(k: int, prior: object, variances: str) -> None:
    data = instance(k, 1.5, 100, prior)
    result = amp(data.X, data.y, prior, variances, teacher_weights=data.weights, n_classes=k)
    assert result.status == Status.OK
    assert result.residual < 1e-8
    assert result.weights.shape == (100, k)
    np.testing.assert_allclose(result.weights.sum(1), 0, atol=1e-10)
    shape = () if variances == "shared" else (100, k, k) if k <= 3 else (100, k)
    assert np.shape(result.variance) == shape
    frame = pd.DataFrame(result.trace)
    assert list(frame.iteration) == list(range(result.n_iter + 1))
    assert frame.q[0] == 0
    assert frame.generalisation_error[0] == pytest.approx(1 - 1 / k)
    assert frame.m.iloc[-1] > 0.1
    assert frame.generalisation_error.iloc[-1] < frame.generalisation_error[0]


@pytest.mark.parametrize("variances", ["shared", "full"])
@pytest.mark.parametrize("k", [3, 4])
def test_symmetries(k: int, variances: str) -> None:
    """Relabelled classes, shuffled samples, flipped features: the same estimate, moved alike."""
    X, y, _ = instance(k, 1.5, 80)
    rng = np.random.default_rng(1)
    classes, rows, signs = rng.permutation(k), rng.permutation(len(y)), rng.choice([-1.0, 1.0], 80)
    base = amp(X, y, variances=variances).weights
    moved = amp(X[rows] * signs, np.argsort(classes)[y[rows]], variances=variances).weights
    np.testing.assert_allclose(moved, base[:, classes] * signs[:, None], atol=1e-6)


def test_a_gaussian_perceptron_is_the_two_class_argmax() -> None:
    data = instance(2)
    one = amp(data.X, data.y, model="argmax")
    other = amp(data.X, data.y, "gaussian", model="perceptron")
    np.testing.assert_allclose(one.weights, other.weights, atol=1e-12)


@pytest.mark.parametrize("variances", ["shared", "full"])
def test_the_rademacher_perceptron_recovers_its_vector(variances: str) -> None:
    data = pc.Perceptron("rademacher").sample(1800, 900, 3)
    result = amp(data.X, data.y, "rademacher", variances, model="perceptron")
    np.testing.assert_allclose(result.weights, data.weights, atol=1e-9)
    assert result.status == Status.OK


def test_an_informed_start_stays_where_the_uninformed_one_is_stuck() -> None:
    """k = 3 Rademacher between the two transitions (2.39, 2.89)."""
    data = instance(3, 2.65, 700, "rademacher", seed=1)
    kwargs = {"teacher_weights": data.weights, "max_iter": 60}
    stuck = amp(data.X, data.y, "rademacher", **kwargs).trace[-1]
    perfect = amp(data.X, data.y, "rademacher", start="informed", **kwargs)
    assert perfect.status == Status.OK
    assert perfect.trace[-1]["generalisation_error"] == pytest.approx(0, abs=1e-6)
    assert stuck["generalisation_error"] > 0.1


@pytest.mark.parametrize(
    ("noise", "k", "variances"),
    [
        (noise, k, v)
        for noise in ("gaussian:1.0", "flips:0.2")
        for k in (3, 5)
        for v in ("shared", "full")
    ]
    + [("softmax:2.0", 3, "shared")],
)
def test_label_noise_is_told_apart_from_ignorance(noise: str, k: int, variances: str) -> None:
    """Noisy labels: knowing the noise must beat ignoring it, and keep q = m (Nishimori)."""
    X, y, W = pc.Teacher(k, noise=noise).sample(1200, 300, 0)
    known = amp(X, y, variances=variances, noise=noise, teacher_weights=W, tol=1e-5)
    ignored = amp(X, y, variances=variances, teacher_weights=W, max_iter=40)
    assert known.status == Status.OK
    assert known.trace[-1]["m"] == pytest.approx(known.trace[-1]["q"], abs=0.06)
    assert known.trace[-1]["generalisation_error"] < ignored.trace[-1]["generalisation_error"]


def test_gaussian_noise_is_a_wider_field() -> None:
    """Δ adds to the variance of the fields: written out with the noiseless channel of numerics."""
    X, y, _ = pc.Teacher(3, noise="gaussian:0.5").sample(300, 150, 2)
    d, basis = 150, np.linalg.svd(np.ones((1, 3)))[2][1:].T
    W, V, f = np.zeros((d, 2)), 1.0, np.zeros((300, 2))
    for _ in range(6):
        omega = X @ W / np.sqrt(d) - V * f
        found = argmax_orthant(omega @ basis.T, y, V + 0.5)
        f, precision = found.score @ basis, found.curvature.sum() / (2 * d)
        W, V = (X.T @ f / np.sqrt(d) + precision * W) / (1 + precision), 1 / (1 + precision)
    ours = amp(X, y, noise="gaussian:0.5", tol=1e-300, max_iter=6)
    np.testing.assert_allclose(ours.weights, W @ basis.T, atol=1e-12)


@pytest.mark.parametrize("entry", PRIORS.entries, ids=lambda e: e.name)
@pytest.mark.parametrize("model", ["argmax", "perceptron"])
def test_every_prior_learns_its_own_weights(entry, model: str) -> None:
    """q = m on average where the prior is the teacher's; no worse than the Gaussian prior."""
    prior = "finite[-1:0.4;0:0.4;2:0.2]" if entry.brackets else entry.make(*entry.example)
    teacher = pc.Teacher(3, prior) if model == "argmax" else pc.Perceptron(prior)
    off, gain = [], []
    for seed in range(4):
        X, y, W = teacher.sample(300, 150, seed)
        options = {"teacher_weights": W, "model": model, "tol": 1e-4}
        own, plain = amp(X, y, teacher.prior, **options), amp(X, y, "gaussian", **options)
        if own.status != Status.OK:  # few dimensions, next to a transition
            continue
        last, other = own.trace[-1], plain.trace[-1]
        off.append(last["m"] - last["q"])
        gain.append(other["generalisation_error"] - last["generalisation_error"])
    assert len(off) >= 3
    assert abs(np.mean(off)) < 4 * np.std(off, ddof=1) / np.sqrt(len(off)) + 2 / 150
    assert np.mean(gain) > -1e-3


def test_a_class_without_samples_needs_a_word() -> None:
    X, y, _ = instance(3)
    gaps = (y + 1, "has no samples"), (np.where(y == 1, 2, y), "has no samples")
    for labels, sentence in (*gaps, (0 * y, "one class only")):
        with pytest.raises(pc.InvalidInput, match=sentence):
            amp(X, labels)
        with pytest.raises(pc.InvalidInput, match=sentence):
            amp_erm(X, labels)
    assert amp(X, y + 1, n_classes=4, max_iter=3).weights.shape == (120, 4)


def test_results_show_themselves_without_arrays() -> None:
    X, y, W = instance(3)
    result = amp(X, y, teacher_weights=W)
    assert repr(result).startswith("AMPResult(status='ok', dimension=120, n_classes=3, n_iter=")
    assert len(repr(result)) < 250
    assert "<td>ok</td>" in result._repr_html_()
    assert "array" not in repr(result) + result._repr_html_()


def test_a_ridge_of_zero_is_what_the_loss_says() -> None:
    X, y, _ = instance(3, 1.0)
    limit, margin = amp_erm(X, y, "cross-entropy", 0.0), amp_erm(X, y, "max-margin", 0.7)
    np.testing.assert_allclose(limit.weights, margin.weights, atol=1e-6)
    named = amp_erm(X, y, "cross-entropy", penalty="ridge:0")
    np.testing.assert_array_equal(named.weights, limit.weights)
    with pytest.raises(pc.InvalidInput, match="ridge above 0"):
        amp_erm(X, y, "square", 0)
    with pytest.raises(pc.InvalidInput, match=r"ridge above 0 .* got 0\.0"):
        amp_erm(X, y, "square", penalty="ridge:0")


def test_single_precision_agrees_with_double() -> None:
    for k in (3, 6):
        X, y, _ = instance(k, 1.5, 200)
        double, single = amp(X, y), amp(X.astype(np.float32), y)
        assert single.status == Status.OK
        scale = np.linalg.norm(double.weights)
        assert np.linalg.norm(single.weights - double.weights) < 1e-4 * scale


@pytest.mark.parametrize(("variances", "share"), [("shared", 0.15), ("full", 0.6)])
def test_no_second_copy_of_the_data(variances: str, share: float) -> None:
    X, y, _ = instance(3, 1.5, 1500)
    X = X.astype(np.float32)
    amp(X[:200], y[:200], variances=variances, max_iter=2)  # caches
    tracemalloc.start()
    amp(X, y, variances=variances, max_iter=3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < share * X.nbytes


AWKWARD = {
    "random labels": lambda rng: (rng.standard_normal((60, 20)), rng.integers(0, 3, 60)),
    "wide": lambda rng: (rng.standard_normal((10, 80)), rng.integers(0, 3, 10)),
    "one sample": lambda rng: (rng.standard_normal((1, 5)), np.array([1])),
    "one class": lambda rng: (rng.standard_normal((30, 10)), np.zeros(30, dtype=int)),
    "one dimension": lambda rng: (rng.standard_normal((30, 1)), rng.integers(0, 2, 30)),
    "duplicate columns": lambda rng: (
        np.repeat(rng.standard_normal((80, 5)), 8, axis=1),
        rng.integers(0, 4, 80),
    ),
    "constant column": lambda rng: (
        np.column_stack([rng.standard_normal((50, 8)), np.full(50, 3.0)]),
        rng.integers(0, 3, 50),
    ),
    "all zero": lambda rng: (np.zeros((20, 6)), rng.integers(0, 3, 20)),
    "huge": lambda rng: (1e6 * rng.standard_normal((50, 10)), rng.integers(0, 3, 50)),
    "contradictory": lambda rng: (
        np.repeat(rng.standard_normal((5, 12)), 10, axis=0),
        rng.integers(0, 3, 50),
    ),
}


@pytest.mark.parametrize("name", AWKWARD)
@pytest.mark.parametrize("variances", ["shared", "full"])
@pytest.mark.parametrize("prior", ["gaussian", "rademacher"])
def test_awkward_data_never_give_nan(name: str, variances: str, prior: str) -> None:
    X, y = AWKWARD[name](np.random.default_rng(0))
    result = amp(X, y, prior, variances, max_iter=60, n_classes=max(2, y.max() + 1))
    assert np.isfinite(result.weights).all()
    assert np.isfinite(result.variance).all()
    assert result.status in (Status.OK, Status.NOT_CONVERGED)


X0, Y0 = np.ones((6, 2)), np.array([0, 1, 2, 0, 1, 2])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: amp(np.ones(3), Y0), "X must be"),
        (lambda: amp(np.full((6, 2), np.nan), Y0), "finite"),
        (lambda: amp(np.array([["a", "b"]] * 6), Y0), "numbers"),
        (lambda: amp(X0, Y0[:4]), "one label for each"),
        (lambda: amp(X0, Y0 + 0.5), "continuous values"),
        (lambda: amp(X0, ["a"] * 6), "class indices"),
        (lambda: amp(X0, Y0 - 1), "between 0 and"),
        (lambda: amp(X0, Y0, n_classes=2), "between 0 and 1"),
        (lambda: amp(X0, Y0, prior="cauchy"), "unknown prior"),
        (lambda: amp(X0, Y0, variances="some"), "'shared', 'full'"),
        (lambda: amp(X0, Y0, start="warm"), "'uninformed', 'informed'"),
        (lambda: amp(X0, Y0, start="informed"), "teacher_weights"),
        (lambda: amp(X0, Y0, teacher_weights=np.ones((2, 2))), r"\(2, 3\)"),
        (lambda: amp(X0, Y0, model="perceptron"), "2 classes"),
        (lambda: amp(X0, Y0, model="tree"), "unknown model"),
        (lambda: amp(X0, Y0, noise=0.5), "unknown noise"),
        (lambda: amp(X0, Y0, noise="gaussian:-1"), "variance of gaussian noise"),
        (lambda: amp(X0, Y0, noise="flips:0.9"), "leaves no rule"),
        (lambda: amp(X0, Y0, tol=0.0), "tolerance"),
        (lambda: amp(X0, Y0, max_iter=0), "max_iter"),
        (lambda: amp_erm(X0, Y0, "ramp"), "unknown loss"),
        (lambda: amp_erm(X0, Y0, ridge=-1.0), "0 or more"),
    ],
)
def test_wrong_input_gets_one_sentence(call, message: str) -> None:
    with pytest.raises(pc.InvalidInput, match=message):
        call()
