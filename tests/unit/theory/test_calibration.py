"""Test loss and calibration: identities, limits and sentences."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import polyceptron as pc
from polyceptron.errors import InvalidInput
from polyceptron.problem import ScalarOrder
from polyceptron.problem.channels import as_channel
from polyceptron.questions.curve_rows import curve_rows
from polyceptron.questions.student_scores import fresh_scores
from polyceptron.sides.fresh_scores import fresh_fields
from polyceptron.sides.generalisation import error_on_labels
from polyceptron.students import student_of

LAW = ScalarOrder.of_overlaps(0.8, 1.5, 0.7)


@pytest.mark.slow
@pytest.mark.parametrize("k", [2, 3, 4])
@pytest.mark.parametrize("noise", ["gaussian:0.5", "flips:0.1"])
def test_scores_against_drawn_fields(k, noise):
    """The joint law of student and teacher fields, sampled."""
    rng = np.random.default_rng(1)
    n = 300_000
    teacher = rng.standard_normal((n, k))
    rest = math.sqrt(LAW.q - LAW.m**2)
    z = LAW.m * teacher + rest * rng.standard_normal((n, k))
    y = as_channel(noise).sample(teacher, rng)
    loss = np.log(np.exp(z).sum(1)) - z[np.arange(n), y]
    scores = fresh_scores(pc.Teacher(k, noise=noise), student_of("cross-entropy"), LAW)
    found = scores["test_loss"]
    assert abs(found - loss.mean()) < 4 * loss.std() / math.sqrt(n) + (1e-3 if k > 3 else 0)


@pytest.mark.parametrize("k", [2, 3])
def test_nodes_carry_all_of_the_probability(k):
    nodes = fresh_fields(as_channel("softmax:2") if k == 2 else as_channel("none"), k, LAW, 1)
    assert nodes.weight.sum() == pytest.approx(1, abs=1e-9)
    assert nodes.truth.sum(1) == pytest.approx(1)
    hit = float(nodes.mean(nodes.truth[:, 0])[0])
    if k == 3:
        assert 1 - hit == pytest.approx(pc.generalisation_error(LAW.rho, 3), abs=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize(("k", "noise"), [(2, "gaussian:0.5"), (3, "flips:0.1")])
def test_nobody_has_a_lower_loss_than_bayes_and_bayes_is_calibrated(k, noise):
    teacher = pc.Teacher(k, noise=noise)
    best = pc.calibration(teacher, pc.BayesOptimal(), 3.0)
    ridge = pc.optimal_ridge(teacher, "cross-entropy", 3.0, target="test-loss")
    other = pc.calibration(teacher, pc.ERM("cross-entropy", ridge), 3.0)
    assert best.test_loss < other.test_loss
    assert best.brier < other.brier
    seen = best.share > 1e-6
    assert best.accuracy[seen] == pytest.approx(best.confidence[seen], abs=1e-6)
    assert best.share.sum() == pytest.approx(1)
    assert best.share @ np.nan_to_num(best.accuracy) == pytest.approx(
        1 - best.generalisation_error, abs=2e-3
    )


def test_the_best_ridge_depends_on_what_it_is_best_for():
    teacher = pc.Teacher(2, noise="gaussian:0.5")
    ridge = {
        target: pc.optimal_ridge(teacher, "cross-entropy", 3.0, target=target)
        for target in ("error", "test-loss", "calibration")
    }
    assert ridge["error"] < ridge["test-loss"] < ridge["calibration"]
    loss = {
        target: pc.calibration(teacher, pc.ERM("cross-entropy", value), 3.0).test_loss
        for target, value in ridge.items()
    }
    assert loss["test-loss"] == min(loss.values())


def test_the_best_ridge_for_calibration_has_no_corners() -> None:
    teacher, alpha = pc.Teacher(2, noise="softmax:3"), np.geomspace(1.0, 2.7, 8)[1:7]
    ridge = [pc.optimal_ridge(teacher, "cross-entropy", a, target="calibration") for a in alpha]
    assert np.abs(np.diff(np.log(ridge), 2)).max() < 9e-3


def test_a_temperature_is_undone_by_the_best_one():
    """Too little ridge: dividing the fields by T leaves nothing for a second temperature."""
    teacher = pc.Teacher(3, noise="flips:0.1")
    found = pc.calibration(teacher, pc.ERM("cross-entropy", 1e-2), 4.0)
    assert found.temperature > 1.5
    point = pc.erm_fixed_point(teacher, pc.ERM("cross-entropy", 1e-2), 4.0)
    losses = [
        fresh_scores(
            teacher, student_of("cross-entropy"), ScalarOrder(point.tau, point.q / T**2, 1.0)
        )["test_loss"]
        for T in (0.97 * found.temperature, found.temperature, 1.03 * found.temperature)
    ]
    assert losses[1] == min(losses) < found.test_loss


def test_sentences():
    noisy = pc.Teacher(2, noise="flips:0.1")
    with pytest.raises(InvalidInput, match="use target 'error'"):
        pc.optimal_ridge(noisy, "square", 1.0, target="test-loss")
    with pytest.raises(InvalidInput, match="alpha 0"):
        pc.calibration(noisy, pc.BayesOptimal(), 0)
    with pytest.raises(InvalidInput, match="allowed are 'error'"):
        pc.optimal_ridge(noisy, "cross-entropy", 1.0, target="beauty")


@pytest.mark.parametrize("estimator", [pc.ERM("cross-entropy", 0.1), pc.BayesOptimal()])
def test_rows_have_the_test_loss_if_asked(estimator):
    teacher = pc.Teacher(2, noise="flips:0.1")
    (row,) = curve_rows(teacher, estimator, [3.0], scores=True)
    expected = pc.calibration(teacher, estimator, 3.0)
    for name in ("test_loss", "brier", "calibration_error"):
        assert row[name] == pytest.approx(getattr(expected, name), abs=1e-6)
        bar = getattr(expected, f"{name}_uncertainty")
        assert row[f"{name}_uncertainty"] == pytest.approx(bar, rel=1e-6)
        assert bar < 1e-5
    assert "test_loss" not in curve_rows(teacher, estimator, [3.0])[0]


@pytest.mark.parametrize("k", [2, 5])
def test_bars_of_scores_hold_where_the_order_parameters_are_off(k):
    """Scores at order parameters that are off by their bars are within those of the scores."""
    teacher, student = pc.Teacher(k, noise="flips:0.1"), student_of("cross-entropy")
    there = ScalarOrder(1.01 * LAW.tau, 1.015 * LAW.q, LAW.V)
    errors = [error_on_labels(teacher.channel, order.tau, k) for order in (LAW, there)]
    off = abs(float(errors[0] - errors[1]))
    scores = fresh_scores(teacher, student, LAW, off)
    truths = fresh_scores(teacher, student, there)
    for name in ("test_loss", "brier", "calibration_error"):
        distance = abs(scores[name] - truths[name])
        assert distance > 2 * truths[f"{name}_uncertainty"]  # else nothing is shown
        assert distance < scores[f"{name}_uncertainty"] < 0.02
    unknown = fresh_scores(teacher, student, LAW, math.inf)
    assert math.isinf(unknown["test_loss_uncertainty"])


def test_rows_of_unequal_classes_have_bars_of_all_scores():
    teacher = pc.Teacher(2, shares=(0.7, 0.3), noise="softmax:2")
    (row,) = curve_rows(teacher, pc.ERM("cross-entropy", 0.1), [3.0])
    (best,) = curve_rows(teacher, pc.BayesOptimal(), [3.0])
    for name in ("test_loss", "brier", "calibration_error"):
        assert 0 < row[f"{name}_uncertainty"] < 1e-3
    assert 0 < best["brier_uncertainty"] < 1e-3


def test_a_direction_alone_has_no_test_loss():
    (row,) = curve_rows(
        pc.Teacher(2, noise="flips:0.1"), pc.ERM("cross-entropy", 0), [1.0], scores=True
    )
    assert "test_loss" not in row


@pytest.mark.parametrize(
    ("estimator", "alpha"),
    [(pc.ERM("square", 0.5), 3.0), (pc.ERM("max-margin"), 1.0), (pc.ERM("cross-entropy", 0), 1.0)],
)
def test_fields_without_probabilities_are_read_through_the_best_softmax(estimator, alpha):
    """Drawn fields at the law's correlation, divided by a temperature that a search here finds."""
    teacher = pc.Teacher(3, noise="gaussian:0.3")
    found = pc.calibration(teacher, estimator, alpha)
    assert not found.own_probabilities
    rho = pc.erm_fixed_point(teacher, estimator, alpha).correlation
    rng = np.random.default_rng(3)
    n = 200_000
    z = rng.standard_normal((n, 3))
    student = rho * z + math.sqrt(1 - rho**2) * rng.standard_normal((n, 3))
    y = teacher.noise.sample(z, rng)

    def loss(log_T: float) -> float:
        scaled = student / math.exp(log_T)
        return float(np.mean(np.log(np.exp(scaled).sum(1)) - scaled[np.arange(n), y]))

    best = minimize_scalar(loss, bounds=(math.log(0.1), math.log(10)), method="bounded")
    assert found.test_loss == pytest.approx(best.fun, abs=5e-3)
    assert found.calibration_error < 0.05
