"""Two students at once: limits, equations written here, and fits on resampled data."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq

import polyceptron as pc
from polyceptron.errors import InvalidInput
from polyceptron.theory.erm.fixed_point import erm_fixed_point
from polyceptron.theory.resampling import read_scheme, resampling


def value(found, quantity, fits=None):
    rows = [r for r in found.rows if r["quantity"] == quantity]
    (row,) = [r for r in rows if fits is None or r["fits"] == fits]
    return row["value"]


@pytest.mark.parametrize(("k", "loss"), [(2, "cross-entropy"), (3, "square"), (3, "cross-entropy")])
def test_all_samples_once_are_the_ordinary_student(k, loss):
    teacher, student = pc.Teacher(k), pc.ERM(loss, 0.3)
    plain = erm_fixed_point(teacher, student, 2.0)
    found = resampling(teacher, student, 2.0, "subsample:1")
    assert found.q12 == found.q == pytest.approx(plain.q, rel=1e-5)
    for number in (1, 10, math.inf):
        assert value(found, "error", number) == pytest.approx(plain.generalisation_error, abs=2e-6)
    assert value(found, "agreement") == 1
    assert value(found, "bias") == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("loss", ["square", "cross-entropy"])
def test_folds_and_subsamples_have_the_error_of_fewer_samples(loss):
    """A subsample is a smaller data set, and halves have only the teacher in common."""
    teacher, student = pc.Teacher(2, noise="flips:0.1"), pc.ERM(loss, 0.3)
    fewer = erm_fixed_point(teacher, student, 1.5)
    whole = erm_fixed_point(teacher, student, 2.0)
    for scheme in ("subsample:0.75", "folds:4"):
        found = resampling(teacher, student, 2.0, scheme)
        assert value(found, "error", 1) == pytest.approx(fewer.generalisation_error, abs=2e-6)
        bias = fewer.generalisation_error - whole.generalisation_error
        assert value(found, "bias") == pytest.approx(bias, abs=2e-6)
    halves = resampling(teacher, student, 3.0, "folds:2")
    assert halves.q12 == pytest.approx(halves.m**2, rel=1e-7)


def test_the_square_loss_solves_its_two_equations():
    """Bootstrapped ridge regression: f = w(e_y − ω)/(1 + wV), all averages by hand."""
    k, alpha, ridge = 3, 2.0, 0.5
    w = np.arange(60)
    p = np.exp(-1.0) / np.array([math.factorial(i) for i in w], dtype=float)
    c = 1.5 / math.sqrt(math.pi) / 2  # E max of three normals is 3/(2√π)

    def moment(V, i):
        return float(p @ (w / (1 + w * V)) ** i)

    V = brentq(lambda V: V * (ridge + alpha * moment(V, 1)) - 1, 1e-3, 1e3)
    m = alpha * c * moment(V, 1) * V
    a, b = (alpha * x * V * V for x in (moment(V, 2), moment(V, 1) ** 2))
    q = (m * m + a * (1 / k - 2 * m * c)) / (1 - a)
    q12 = (m * m + b * (1 / k - 2 * m * c)) / (1 - b)
    found = resampling(pc.Teacher(k), pc.ERM("square", ridge), alpha)
    assert (found.m, found.q, found.V) == pytest.approx((m, q, V), rel=1e-8)
    assert found.q12 == pytest.approx(q12, rel=1e-8)


@pytest.mark.parametrize("k", [2, 3, 4])
def test_the_pair_average_is_that_of_drawn_fields(k):
    """E f̄(ω₁)·f̄(ω₂)/r over pairs of students and labels drawn here."""
    from polyceptron.theory import resampling_equal_classes as room

    teacher, loss, n = pc.Teacher(k), pc.ERM("cross-entropy").loss, 100_000
    side = room.ResampledSide(teacher.channel, loss, k, 2.0, counts=((1.0, 0.5), (2.0, 0.1)))
    law = erm_fixed_point(teacher, pc.ERM("cross-entropy", 0.3), 2.0).law
    q12, rng = 0.7 * law.m**2 + 0.3 * law.q, np.random.default_rng(k)
    z, common, *rests = rng.standard_normal((4, n, k))
    common = law.m * z + math.sqrt(q12 - law.m**2) * common
    f = [
        sum(
            p * w * loss.denoise(common + math.sqrt(law.q - q12) * x, z.argmax(1), w * law.V)[0]
            for w, p in side.counts
        )
        for x in rests
    ]
    drawn = (f[0] * f[1]).sum(1) / (k - 1)
    found = room.pair_average(teacher, side, law, 1)(q12)
    assert abs(found.mean() - drawn.mean()) < 4 * drawn.std() / math.sqrt(n)
    if k < 4:
        assert found[0] == pytest.approx(room.pair_average(teacher, side, law, 0)(q12)[0], rel=1e-5)
    else:
        assert found.std(ddof=1) / math.sqrt(len(found)) < 2e-3 * found.mean()


@pytest.mark.parametrize("loss", ["square", "cross-entropy"])
def test_the_bootstrap_is_right_where_data_are_plentiful(loss):
    """The classical limit, with what is left falling as 1/α; and it is wrong where they are not."""
    teacher = pc.Teacher(2, noise="gaussian:0.5")
    off = [
        value(resampling(teacher, pc.ERM(loss, 0.5), alpha), "ratio of variances") - 1
        for alpha in (2.0, 100.0, 1000.0)
    ]
    assert abs(off[0]) > 0.1
    assert abs(off[2]) < 0.005
    if loss == "cross-entropy":
        assert off[1] / off[2] == pytest.approx(10, rel=0.2)


def test_more_fits_are_better_and_end_at_the_limit():
    found = resampling(pc.Teacher(2), pc.ERM("cross-entropy", 0.1), 2.0, fits=(1, 2, 100, math.inf))
    errors = [value(found, "error", number) for number in (1, 2, 100, math.inf)]
    assert errors == sorted(errors, reverse=True)
    assert errors[2] - errors[3] < 0.02 * (errors[0] - errors[3])
    assert found.status == "ok"


def drawn(scheme, n, rng, fits):
    """Weights of the samples in each fit."""
    name, _, number = scheme.partition(":")
    fold = rng.permutation(n) % int(number) if name == "folds" else None
    for b in range(fits):
        if name == "bootstrap":
            yield np.bincount(rng.integers(n, size=n), minlength=n)
        else:
            yield (rng.random(n) < float(number) if fold is None else fold != b).astype(int)


@pytest.mark.parametrize(
    ("k", "loss", "scheme", "noise"),
    [
        (3, "square", "bootstrap", "none"),
        (2, "cross-entropy", "bootstrap", "flips:0.1"),
        (2, "cross-entropy", "folds:4", "none"),
        (3, "cross-entropy", "subsample:0.6", "none"),
    ],
)
def test_rows_meet_fits_on_resampled_data(k, loss, scheme, noise):
    teacher, student = pc.Teacher(k, noise=noise), pc.ERM(loss, 0.3)
    d, alpha, fits = 120, 2.0, 4
    seen = []
    for seed in range(6):
        X, y, W = teacher.sample(int(alpha * d), d, seed)
        fresh = np.random.default_rng([seed, 1]).standard_normal((1000, d))
        rng, weights = np.random.default_rng([seed, 0]), []
        for w in drawn(scheme, len(y), rng, fits):
            kept, copies = w > 0, w[w > 0].astype(float)
            weights.append(
                pc.fit_erm(X[kept], y[kept], loss, 0.3, n_classes=k, sample_weight=copies).weights
            )
        U = np.array(weights) - np.mean(weights, axis=2, keepdims=True)
        overlap = np.einsum("aij,bij->ab", U, U) / (d * (k - 1))
        choice = (fresh @ U).argmax(2)
        pairs = np.triu_indices(fits, 1)
        errors = [
            pc.exact_generalisation_error(V, W, noise=teacher.channel).value
            for V in (*U, U.mean(0))
        ]
        seen.append(
            [
                np.diag(overlap).mean(),
                overlap[pairs].mean(),
                np.mean(errors[:-1]),
                errors[-1],
                np.mean([(choice[i] == choice[j]).mean() for i, j in zip(*pairs, strict=True)]),
            ]
        )
    found = resampling(teacher, student, alpha, scheme, fits=(1, fits))
    exact = [found.q, found.q12, value(found, "error", 1), value(found, "error", fits)]
    spread = np.std(seen, axis=0, ddof=1) / math.sqrt(len(seen))
    z = (np.mean(seen, axis=0) - [*exact, value(found, "agreement")]) / spread
    assert np.abs(z).max() < 4.5, z


@pytest.mark.parametrize(("k", "loss"), [(2, "cross-entropy"), (3, "square")])
def test_the_variance_over_fresh_data_is_that_of_two_data_sets(k, loss):
    """Half of E(z₁ − z₂)² of a fresh field, of fits on two halves of 2n samples of one teacher."""
    teacher, d, alpha, seen = pc.Teacher(k, noise="gaussian:0.3"), 150, 2.0, []
    for seed in range(8):
        X, y, _ = teacher.sample(2 * int(alpha * d), d, seed)
        halves = (slice(0, len(y) // 2), slice(len(y) // 2, None))
        one, two = (pc.fit_erm(X[half], y[half], loss, 0.3, n_classes=k).weights for half in halves)
        apart = one - two - (one - two).mean(1, keepdims=True)
        seen.append((apart**2).sum() / (2 * d * (k - 1)))
    found = value(resampling(teacher, pc.ERM(loss, 0.3), alpha), "variance over fresh data")
    z = (np.mean(seen) - found) / (np.std(seen, ddof=1) / math.sqrt(len(seen)))
    assert abs(z) < 4.5, z


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"scheme": "jackknife"}, "allowed are"),
        ({"scheme": "subsample:1.5"}, "allowed are"),
        ({"scheme": "folds:1"}, "allowed are"),
        ({"scheme": "folds"}, "allowed are"),
        ({"fits": (0,)}, "number of fits"),
        ({"estimator": pc.ERM("cross-entropy", 0)}, "above 0"),
        ({"estimator": "bayes"}, "empirical risk"),
        ({"alpha": 0}, "above 0"),
    ],
)
def test_bad_input_is_refused(change, words):
    given = {"teacher": pc.Teacher(2), "estimator": "square", "alpha": 1.0}
    with pytest.raises(InvalidInput, match=words):
        resampling(**{**given, **change})


def test_there_are_no_more_fits_than_folds():
    found = resampling(pc.Teacher(3), "square", 2.0, "folds:5", fits=(1, 10, math.inf))
    assert [row["fits"] for row in found.rows if row["quantity"] == "error"] == [1, 5]


def test_a_bootstrap_of_hardly_any_sample_still_sees_some():
    ((w, p),) = read_scheme("bootstrap:1e-12").counts
    assert w == 1
    assert p == pytest.approx(1e-12)
