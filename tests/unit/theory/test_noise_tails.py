"""Large α and targets with noisy labels: rates, floors, sentences."""

import math

import numpy as np
import pytest

import polyceptron as pc
from polyceptron.errors import InvalidInput
from polyceptron.problem.channels import as_channel
from polyceptron.sides.generalisation import error_floor


@pytest.mark.parametrize("k", [2, 3, 4])
@pytest.mark.parametrize("noise", ["gaussian:0.5", "softmax:2", "flips:0.1"])
def test_the_floor_is_the_error_of_the_teacher(k, noise):
    rng = np.random.default_rng(2)
    z = rng.standard_normal((200_000, k))
    channel = as_channel(noise)
    measured = float((channel.sample(z, rng) != z.argmax(1)).mean())
    floor = error_floor(channel, k)
    assert abs(measured - floor) < 4 * math.sqrt(floor / len(z))


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("noise", ["gaussian:0.5", "softmax:2", "flips:0.1"])
def test_bayes_excess_falls_as_one_over_alpha(k, noise):
    tail = pc.asymptotics(pc.Teacher(k, noise=noise), pc.BayesOptimal())
    assert tail.floor == pytest.approx(error_floor(as_channel(noise), k))
    assert tail.exponent == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize(("noise", "exponent"), [("gaussian:0.5", 1.0), ("flips:0.1", 0.5)])
@pytest.mark.parametrize("loss", ["cross-entropy", "square"])
def test_excess_of_risk_minimisers(noise, exponent, loss):
    tail = pc.asymptotics(pc.Teacher(2, noise=noise), pc.ERM(loss, 0.5))
    assert tail.exact_exponent == exponent
    assert tail.exponent == pytest.approx(exponent, abs=0.02)


def test_a_target_below_the_floor_names_it():
    teacher = pc.Teacher(3, noise="flips:0.1")
    with pytest.raises(InvalidInput, match=r"less than 0\.1 here"):
        pc.plan(teacher, 0.05, pc.BayesOptimal())
    found = pc.plan(teacher, 0.3, pc.ERM("cross-entropy", 0.5))
    assert found.row["generalisation_error"] == pytest.approx(0.3, abs=1e-4)


def test_max_margin_is_planned_below_the_separability_threshold_only():
    teacher = pc.Teacher(2, noise="flips:0.1")
    limit = pc.separability(teacher).alpha_s
    found = pc.plan(teacher, 0.4, pc.ERM("max-margin"))
    assert found.alpha < limit
    assert found.row["generalisation_error"] == pytest.approx(0.4, abs=1e-4)
    with pytest.raises(InvalidInput, match="out of reach"):
        pc.plan(teacher, 0.2, pc.ERM("max-margin"))
    rows = pc.learning_curve(teacher, pc.ERM("max-margin"), [1.0, limit + 1]).frame
    assert rows.status.to_list() == ["ok", "diverges"]
    assert rows.generalisation_error.isna().to_list() == [False, True]


@pytest.mark.parametrize("k", [2, 3])
def test_noise_too_weak_for_the_search_leaves_the_limit_open(k):
    """α_s goes as 1/√Δ. A minimum beyond the end of the search has no error bar but infinity."""
    resolved = pc.separability(pc.Teacher(k, noise="gaussian:1e-4"))
    weaker = pc.separability(pc.Teacher(k, noise="gaussian:1e-8"))
    assert resolved.status == "ok"
    assert weaker.status == "tolerance-not-met"
    assert abs(weaker.alpha_s - 100 * resolved.alpha_s) <= weaker.alpha_s_uncertainty
