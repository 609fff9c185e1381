"""A posterior with other assumptions: limits, identities, exact evidence, message passing."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.special import log_ndtr, ndtr
from scipy.stats import multivariate_normal
from tests.registry.harness import fresh_settings
from typer.testing import CliRunner

import polyceptron as pc
from polyceptron.cli import app
from polyceptron.lab.spec import parse_spec
from polyceptron.lab.tasks import attempt, compute_rows, expand
from polyceptron.problem import make_estimator
from polyceptron.problem.order import ScalarOrder
from polyceptron.store import Store
from polyceptron.students import student_of
from polyceptron.theory.bayes.fixed_points import fixed_points
from polyceptron.theory.dynamics import rounds
from polyceptron.theory.mismatched import (
    MismatchedPoint,
    linear_start,
    mismatched_point,
    mismatched_sides,
    whitened_features,
)

FLIPPED = pc.Teacher(3, noise="flips:0.1")
WRONG = pc.MismatchedBayes("gaussian:0.5", 2.0)


@pytest.mark.parametrize("features", ["isotropic", "levels:3x0.25@2,0.5x0.75"])
@pytest.mark.parametrize("noise", ["none", "gaussian:0.5", "softmax:2", "flips:0.1"])
@pytest.mark.parametrize("k", [2, 3])
def test_right_assumptions_give_the_bayes_optimal_student(
    k: int, noise: str, features: str
) -> None:
    teacher = pc.Teacher(k, noise=noise, features=features)
    found = mismatched_point(teacher, pc.MismatchedBayes(noise), 3.0)
    best = fixed_points(teacher, 3.0)[0]
    assert found.status == "ok"
    assert found.generalisation_error == pytest.approx(best.generalisation_error, abs=1e-7)
    assert [found.m, found.q, 1 - found.V] == pytest.approx([best.q] * 3, abs=1e-7)
    assert found.evidence == pytest.approx(best.free_entropy / (k - 1), abs=1e-7)
    assert found.m_hat == pytest.approx(found.V_hat, rel=1e-6)


@pytest.mark.parametrize(
    ("k", "noise"), [(4, "gaussian:0.5"), (10, "flips:0.1"), (40, "flips:0.1")]
)
def test_right_assumptions_give_the_bayes_optimal_student_of_many_classes(
    k: int, noise: str
) -> None:
    teacher = pc.Teacher(k, noise=noise)
    found = mismatched_point(teacher, pc.MismatchedBayes(noise), 2.0)
    best = fixed_points(teacher, 2.0)[0]
    gap = abs(found.generalisation_error - best.generalisation_error)
    assert gap <= found.uncertainty + best.uncertainty
    assert abs(found.m - best.q) <= found.m_uncertainty + 1e-4
    assert abs(found.evidence - best.free_entropy / (k - 1)) <= found.evidence_uncertainty


@pytest.mark.parametrize(
    ("teacher", "assumed"),
    [
        (pc.Teacher(2, noise="flips:0.1"), WRONG),
        (pc.Teacher(2), pc.MismatchedBayes("softmax:3", 0.7)),
        (pc.Teacher(2, noise="gaussian:1"), pc.MismatchedBayes("flips:0.2")),
        (pc.Teacher(2, noise="softmax:2", features="power:1:40"), WRONG),
        (FLIPPED, WRONG),
    ],
)
def test_the_slope_of_the_evidence_in_alpha_is_minus_the_test_loss(
    teacher: pc.Teacher, assumed: pc.MismatchedBayes
) -> None:
    h = 1e-3
    low, middle, high = (mismatched_point(teacher, assumed, a) for a in (2 - h, 2.0, 2 + h))
    slope = (high.evidence - low.evidence) / (2 * h)
    assert slope == pytest.approx(-middle.test_loss / teacher.reduced_rank, abs=2e-7)


def overlaps_of_two_classes(
    order: tuple[float, float, float], noise: float, assumed: float, alpha: float, ridge: float
) -> np.ndarray:
    """m, q, V after one round at k = 2, on a fine grid of ω: Gaussian noise is drawn and assumed.

    In the one class direction the label is the sign of u + √Δ ξ with u the teacher's field.
    """
    m, q, V = order
    omega = np.sqrt(q) * np.linspace(-12, 12, 40_001)
    density = np.exp(-0.5 * omega**2 / q) / math.sqrt(2 * math.pi * q)
    weight = density * (omega[1] - omega[0])
    spread = math.sqrt(1 - m**2 / q + noise)
    a = m / q * omega / spread
    width = math.sqrt(V + assumed)
    b = omega / width
    totals = np.zeros(3)
    for sign in (1.0, -1.0):
        Z = ndtr(sign * a)
        slope = sign * np.exp(-0.5 * a**2) / math.sqrt(2 * math.pi) / spread
        ratio = np.exp(-0.5 * b**2 - log_ndtr(sign * b)) / math.sqrt(2 * math.pi)
        f = sign * ratio / width
        stiffness = ratio * (ratio + sign * b) / width**2
        totals += alpha * np.array(
            [(weight * slope * f).sum(), (weight * Z * f**2).sum(), (weight * Z * stiffness).sum()]
        )
    m_hat, q_hat, V_hat = totals
    V = 1 / (ridge + V_hat)
    return np.array([m_hat * V, (m_hat**2 + q_hat) * V**2, V])


def test_the_equations_of_two_classes_by_another_quadrature() -> None:
    found = mismatched_point(pc.Teacher(2, noise="gaussian:0.3"), WRONG, 2.5)
    order = (found.m, found.q, found.V)
    again = overlaps_of_two_classes(order, 0.3, 0.5, 2.5, 1 / 2.0)
    assert again == pytest.approx(np.array(order), abs=1e-8)


def test_the_plain_loop_ends_where_the_equations_do() -> None:
    problem = mismatched_sides(FLIPPED, WRONG, 2.0)
    law = ScalarOrder(*np.exp(linear_start(problem)))
    states = rounds(problem.fields, problem.weights, law)
    for _ in range(60):
        law = next(states)
    found = mismatched_point(FLIPPED, WRONG, 2.0)
    assert [law.m, law.q, law.V] == pytest.approx([found.m, found.q, found.V], abs=1e-6)


def test_the_evidence_is_that_of_exact_orthants() -> None:
    """At k = 2 the assumed probability of labels y is P(y_μ g_μ > 0) with a Gaussian g.

    g has covariance s²XXᵀ/d + Δ in the class direction. Small d: a bias of order 1/d is left.
    """
    d = n = 16
    teacher = pc.Teacher(2, noise="flips:0.1")
    values = []
    for seed in range(60):
        X, y, _ = teacher.sample(n, d, seed)
        sign = 2.0 * y - 1
        covariance = WRONG.variance * X @ X.T / d + 0.5 * np.eye(n)
        flipped = covariance * np.outer(sign, sign)
        chance = multivariate_normal.cdf(
            np.zeros(n), cov=flipped, abseps=1e-9, releps=1e-3, maxpts=40_000, rng=seed
        )
        values.append(math.log(chance) / d)
    spread = np.std(values) / math.sqrt(len(values))
    expected = mismatched_point(teacher, WRONG, 1.0).evidence
    assert abs(np.mean(values) - expected) < 4 * spread + 0.2 / d
    assert abs(np.mean(values) - expected / 2) > 0.1  # the control: the test could have failed


@pytest.mark.parametrize("k", [2, 3, 5])
def test_only_noise_over_variance_counts(k: int) -> None:
    teacher = pc.Teacher(k, noise="softmax:2")
    one = mismatched_point(teacher, pc.MismatchedBayes("gaussian:0.5", 1.0), 2.0)
    other = mismatched_point(teacher, pc.MismatchedBayes("gaussian:2", 4.0), 2.0)
    room = 1e-8 if k <= 3 else 1e-4
    for name in ("generalisation_error", "gibbs_error", "test_loss", "evidence"):
        assert getattr(one, name) == pytest.approx(getattr(other, name), abs=room)
    assert other.q == pytest.approx(4 * one.q, rel=10 * room)


def test_without_samples_and_with_very_many() -> None:
    nothing = mismatched_point(FLIPPED, WRONG, 0.0)
    assert (nothing.V, nothing.evidence) == (2.0, 0.0)
    assert nothing.test_loss == pytest.approx(math.log(3))
    few = mismatched_point(FLIPPED, WRONG, 1e-4)
    assert few.generalisation_error == pytest.approx(2 / 3, abs=0.01)
    assert few.evidence == pytest.approx(-1e-4 * math.log(3) / 2, rel=1e-3)
    many = mismatched_point(FLIPPED, WRONG, 1e5)
    assert many.status == "ok"
    assert many.generalisation_error == pytest.approx(0.1, abs=2e-3)
    assert many.gibbs_error > many.generalisation_error


def test_labels_that_cannot_be_explained_have_no_evidence() -> None:
    assumed = pc.MismatchedBayes("none")
    assert mismatched_point(FLIPPED, assumed, 0.5).status == "ok"
    beyond = mismatched_point(FLIPPED, assumed, 20.0)
    assert beyond.status == "diverges"
    assert beyond.evidence == -math.inf
    (row,) = student_of(assumed).rows(FLIPPED, [20.0])
    assert row["status"] == "diverges"


def test_whitened_spectra_have_the_products_only() -> None:
    features = pc.Spectrum([2.0, 1.0, 0.0], signal=[0.5, 2.0, 1.0])
    found = whitened_features(features)
    again = pc.Spectrum(np.append(features.power, 0.0), fraction=[1 / 3, 1 / 3, 1 / 3])
    assert found == again
    assert whitened_features(pc.Teacher(2).features).isotropic


@pytest.mark.parametrize(
    ("teacher", "assumed"),
    [
        (pc.Teacher(2, "rademacher", "softmax:2"), pc.MismatchedBayes("gaussian:1", 0.5)),
        (pc.Teacher(3, noise="flips:0.1"), pc.MismatchedBayes("gaussian:0.3", 2.0)),
        (pc.Teacher(3, noise="gaussian:1", features="levels:3x0.25,0.333x0.75"), WRONG),
        (pc.Teacher(10, noise="gaussian:0.5"), pc.MismatchedBayes("softmax:1")),
    ],
)
def test_message_passing_with_the_wrong_channel_follows(
    teacher: pc.Teacher, assumed: pc.MismatchedBayes
) -> None:
    dimension = 300
    student = student_of(assumed)
    (theory,) = student.rows(teacher, [2.0])
    runs = [
        student.simulate(teacher, 2.0, dimension, seed, test_samples=4000)[0] for seed in range(6)
    ]
    assert {run["status"] for run in runs} == {"ok"}
    for name in ("m", "q", "V", "generalisation_error", "gibbs_error", "test_loss"):
        values = np.array([run[name] for run in runs])
        room = 4.5 * values.std(ddof=1) / math.sqrt(len(values)) + 2 / dimension
        assert abs(values.mean() - theory[name]) < room, name


def test_one_data_set_serves_several_assumptions() -> None:
    other = pc.MismatchedBayes("gaussian:5")
    rows = student_of(WRONG).simulate(FLIPPED, 1.0, 60, 3, also=[other])
    assert [row["estimator"] for row in rows] == [WRONG.name, other.name]
    assert rows[1] == student_of(other).simulate(FLIPPED, 1.0, 60, 3)[0]
    single = student_of(WRONG).simulate(FLIPPED, 1.0, 60, 3, dtype="float32")[0]
    assert single["q"] == pytest.approx(rows[0]["q"], rel=1e-3)


@pytest.mark.parametrize(
    "text", ["mismatched-bayes", "mismatched-bayes:none", "mismatched-bayes:softmax:2:0.25"]
)
def test_names_read_back(text: str) -> None:
    found = make_estimator(text)
    assert isinstance(found, pc.MismatchedBayes)
    assert make_estimator(found.name) == found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("mismatched-bayes:gausian:1", "unknown noise 'gausian'"),
        ("mismatched-bayes:gaussian:1:2:3", "NOISE:VARIANCE"),
        ("mismatched-bayes:gaussian:1:-2", "the assumed variance of the weights"),
        ("mismatched-bayes:gaussian:1:x", "NOISE:VARIANCE"),
    ],
)
def test_wrong_names_get_a_sentence(text: str, words: str) -> None:
    with pytest.raises(pc.InvalidInput, match=words):
        make_estimator(text)
    shell = CliRunner().invoke(app, ["curve", "-k", "2", "-a", "1", "-e", text])
    assert isinstance(shell.exception, pc.InvalidInput)  # `main` turns it into exit code 2


@pytest.mark.parametrize("variance", [0, -1, math.nan, math.inf, "x", None, True])
def test_wrong_variances_get_a_sentence(variance: object) -> None:
    with pytest.raises(pc.InvalidInput, match="the assumed variance of the weights must be"):
        pc.MismatchedBayes(variance=variance)  # type: ignore[arg-type]
    with pytest.raises(pc.InvalidInput, match="the assumed variance of the weights must be"):
        pc.amp(np.eye(4), [0, 1, 0, 1], prior_variance=variance)  # type: ignore[arg-type]


def test_teachers_it_does_not_know_get_a_sentence() -> None:
    with pytest.raises(pc.InvalidInput, match="alike"):
        mismatched_point(pc.Teacher(3, biases=(0.0, 1.0, 2.0)), WRONG, 1.0)
    with pytest.raises(pc.InvalidInput, match="leaves no rule"):
        mismatched_point(pc.Teacher(3), pc.MismatchedBayes("flips:0.8"), 1.0)


def test_the_shell_and_curves_take_it_by_name() -> None:
    asked = ["curve", "-k", "2", "--noise", "flips:0.1", "-a", "1,2", "-e", WRONG.name, "--json"]
    rows = json.loads(CliRunner().invoke(app, asked).stdout)
    point = mismatched_point(pc.Teacher(2, noise="flips:0.1"), WRONG, 2.0)
    for name in ("gibbs_error", "evidence", "test_loss"):
        assert rows[1][name] == pytest.approx(getattr(point, name))
    curve = pc.learning_curve(pc.Teacher(2), WRONG, [1.0, 2.0], scores=True)
    assert {"brier", "test_loss_uncertainty", "evidence_uncertainty"} <= set(curve.frame)
    plan = pc.plan(pc.Teacher(2, noise="flips:0.1"), 0.3, WRONG)
    found = mismatched_point(pc.Teacher(2, noise="flips:0.1"), WRONG, plan.alpha)
    assert found.generalisation_error == pytest.approx(0.3, abs=1e-4)


SWEEP = """
[[grid]]
classes = [2]
noise = ["flips:0.1"]
sources = ["theory", "amp"]
estimators = ["mismatched-bayes:gaussian:0.5:2", "bayes"]
alpha = [2.0]
dimension = [100]
instances = 3
"""


def test_sweeps_and_the_explorer_take_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store(tmp_path / "runs.sqlite", create=True) as opened:
        for task in expand(parse_spec(SWEEP)):
            opened.add(attempt(compute_rows, task))
        table = opened.frame()
    assert set(table.status) == {"ok"}, table.get("reason")
    own = table[table.estimator == WRONG.name]
    assert list(own.source).count("amp") == 3
    assert own.gibbs_error.notna().all()
    assert "mismatched-bayes" in str(fresh_settings(monkeypatch))


def test_bars_of_points_hold_against_finer_ones() -> None:
    """Points of other levels are other points: the bar of the coarse one must reach the fine."""
    teacher = pc.Teacher(6, noise="gaussian:0.5")
    coarse = mismatched_point(teacher, WRONG, 2.0, tol=1e-3)
    fine = mismatched_point(teacher, WRONG, 2.0, tol=2e-5)
    assert isinstance(fine, MismatchedPoint)
    names = ("generalisation_error", "m", "q", "V", "gibbs_error", "test_loss", "evidence")
    for name in names:
        bar = "uncertainty" if name == "generalisation_error" else f"{name}_uncertainty"
        room = getattr(coarse, bar) + getattr(fine, bar)
        assert abs(getattr(coarse, name) - getattr(fine, name)) <= room, name
