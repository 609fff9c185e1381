"""Message passing: what it accepts and returns, its symmetries, precision and memory."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pandas as pd
import pytest

import polyceptron as pc
from polyceptron.algorithms import amp, amp_erm
from polyceptron.rows import Status


def instance(
    k: int = 3, alpha: float = 2.0, d: int = 120, prior: object = "gaussian", seed: int = 0
):
    return pc.Teacher(k, prior).sample(round(alpha * d), d, seed)


@pytest.mark.parametrize("variances", ["shared", "full"])
@pytest.mark.parametrize(
    ("k", "prior"),
    [(2, "gaussian"), (3, "gaussian"), (5, "gaussian"), (3, "rademacher"), (4, "rademacher"),
     (13, "rademacher"), (3, ([-1, 0, 2], [0.4, 0.4, 0.2]))],
)  # fmt: skip
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
    other = amp(data.X, data.y, model="perceptron")
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


def test_label_noise_is_told_apart_from_ignorance() -> None:
    """Noisy labels: knowing the noise must beat ignoring it, and keep q = m."""
    rng = np.random.default_rng(0)
    X, _, W = instance(3, 4.0, 300)
    fields = X @ W / np.sqrt(300)
    y = (fields + rng.standard_normal(fields.shape)).argmax(1)
    known = amp(X, y, noise=1.0, teacher_weights=W)
    ignored = amp(X, y, teacher_weights=W)
    assert known.status == Status.OK
    assert known.trace[-1]["m"] == pytest.approx(known.trace[-1]["q"], abs=0.06)
    assert known.trace[-1]["generalisation_error"] < ignored.trace[-1]["generalisation_error"]


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
        np.repeat(rng.standard_normal((80, 5)), 8, axis=1), rng.integers(0, 4, 80)
    ),
    "constant column": lambda rng: (
        np.column_stack([rng.standard_normal((50, 8)), np.full(50, 3.0)]), rng.integers(0, 3, 50)
    ),
    "all zero": lambda rng: (np.zeros((20, 6)), rng.integers(0, 3, 20)),
    "huge": lambda rng: (1e6 * rng.standard_normal((50, 10)), rng.integers(0, 3, 50)),
    "contradictory": lambda rng: (
        np.repeat(rng.standard_normal((5, 12)), 10, axis=0), rng.integers(0, 3, 50)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", AWKWARD)
@pytest.mark.parametrize("variances", ["shared", "full"])
@pytest.mark.parametrize("prior", ["gaussian", "rademacher"])
def test_awkward_data_never_give_nan(name: str, variances: str, prior: str) -> None:
    X, y = AWKWARD[name](np.random.default_rng(0))
    result = amp(X, y, prior, variances, max_iter=60)
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
        (lambda: amp(X0, Y0 + 0.5), "class indices"),
        (lambda: amp(X0, ["a"] * 6), "class indices"),
        (lambda: amp(X0, Y0 - 1), "between 0 and"),
        (lambda: amp(X0, Y0, n_classes=2), "between 0 and 1"),
        (lambda: amp(X0, Y0, prior="laplace"), "unknown prior"),
        (lambda: amp(X0, Y0, variances="some"), "'shared', 'full'"),
        (lambda: amp(X0, Y0, start="warm"), "'uninformed', 'informed'"),
        (lambda: amp(X0, Y0, start="informed"), "teacher_weights"),
        (lambda: amp(X0, Y0, teacher_weights=np.ones((2, 2))), r"\(2, 3\)"),
        (lambda: amp(X0, Y0, model="perceptron"), "2 classes"),
        (lambda: amp(X0, Y0, model="tree"), "unknown model"),
        (lambda: amp(X0, Y0, noise=-1.0), "noise"),
        (lambda: amp(X0, Y0, tol=0.0), "tol"),
        (lambda: amp(X0, Y0, max_iter=0), "max_iter"),
        (lambda: amp_erm(X0, Y0, "hinge"), "unknown loss"),
        (lambda: amp_erm(X0, Y0, ridge=0.0), "ridge above 0"),
    ],
)
def test_wrong_input_gets_one_sentence(call, message: str) -> None:
    with pytest.raises(pc.InvalidInput, match=message):
        call()
