"""k ≥ 4: sampled integrals against exact values and long runs, with the uncertainty stated."""

import importlib

import numpy as np
import pytest

from polyceptron.numerics.estimate import estimate_from_replicates
from polyceptron.problem import CHANNELS, Teacher, finite_prior
from polyceptron.problem.order import ScalarOrder
from polyceptron.rows import Status
from polyceptron.sides.fields.integrand import PosteriorScore
from polyceptron.sides.fields.points import Points
from polyceptron.sides.weights.row_differences import row_entropy
from polyceptron.sides.weights.row_rule import effort, row_rule
from polyceptron.theory.bayes.channel_table import channel_table
from polyceptron.theory.bayes.fixed_points import fixed_points
from polyceptron.theory.bayes.solution_curve import curve_of
from polyceptron.theory.bayes.transitions import transitions
from polyceptron.theory.dynamics import state_evolution

pytestmark = pytest.mark.slow

# Unequal chances: no table serves these signs, and no lattice seven classes.
# α_IT is about 3.436, α_algo about 4.114.
BIASED = finite_prior([-0.9, 1.1], [0.55, 0.45])
SEVEN = Teacher(7, BIASED)


@pytest.mark.parametrize("noise", CHANNELS.examples(), ids=lambda c: c.name)
@pytest.mark.parametrize(("k", "q"), [(3, 0.8), (4, 0.2), (6, 0.9)])
def test_sampled_fields_reproduce_the_tables(noise, k, q):
    """The points of empirical risk minimisation, with the channel itself as the student."""
    law = ScalarOrder.bayes(1 - q)
    found = Points().place(PosteriorScore(noise, k), noise, k, law, 1)(law)
    table = channel_table(noise, k)
    information, entropy = (float(part[0]) for part in table(np.array([1 - q])))
    for sampled, truth in ((found.Q, information), (-found.loss, entropy - table.known_entropy)):
        value, error = estimate_from_replicates(sampled)
        assert abs(value - truth) < 1.5 * error + 3e-5 * abs(truth)
        assert error < 2e-2 * abs(value)
        assert abs(value - 1.05 * truth) > 1.5 * error  # a control


def test_uncertainty_falls_faster_than_monte_carlo():
    rule, efforts = row_rule(SEVEN), [5, 7, 9]
    errors = [estimate_from_replicates(rule(2.0, n)[0]).uncertainty for n in efforts]
    rate = np.polyfit(np.log(2.0) * np.array(efforts), np.log(errors), 1)[0]
    assert rate < -0.6


def at_effort(monkeypatch, teacher, level, alphas, tol=1e-4, branch="optimal"):
    module = importlib.import_module("polyceptron.theory.bayes.fixed_points")
    there = effort(teacher)._replace(first=level, last=level)
    monkeypatch.setattr(module, "effort", lambda teacher: there)
    return fixed_points(teacher, alphas, tol, branch=branch)


@pytest.mark.parametrize(
    ("teacher", "last"),
    [
        (Teacher(6, "ternary", "flips:0.1"), 2.0),
        (Teacher(10, "ternary"), 2.0),
        (SEVEN, 3.1),
    ],
    ids=["6 ternary flips", "10 ternary", "7 biased signs"],
)
def test_stated_uncertainty_covers_a_long_run(teacher, last, monkeypatch):
    """Low effort against a much larger one: inside, and not by a wide margin for all."""
    alphas = np.geomspace(0.2, last, 5)
    quick, long = (at_effort(monkeypatch, teacher, level, alphas) for level in (4, 6))
    shares = []
    for a, b in zip(quick, long, strict=True):
        difference = abs(a.generalisation_error - b.generalisation_error)
        assert difference < a.uncertainty + b.uncertainty
        assert b.uncertainty < a.uncertainty
        shares.append(difference / a.uncertainty)
    assert max(shares) > 0.02  # an uncertainty that is never used would say nothing


def test_a_tolerance_out_of_reach_is_said(monkeypatch):
    (point,) = at_effort(monkeypatch, Teacher(8, BIASED), 4, [2.0], tol=1e-9)
    assert point.status == "tolerance-not-met"
    assert point.uncertainty > 1e-9


@pytest.mark.parametrize(
    "teacher",
    [Teacher(6), Teacher(4, "rademacher"), SEVEN, Teacher(6, noise="flips:0.1")],
)
def test_default_tolerance_is_met(teacher):
    for point in fixed_points(teacher, [0.1, 2.0], branch="optimal"):
        assert point.status == "ok"
        assert point.uncertainty <= effort(teacher).tolerance


def test_a_row_does_not_depend_on_its_neighbours():
    """The same α alone, and between an easy one and one that needs far more points."""
    alone = fixed_points(SEVEN, 2.0, branch="optimal")[0]
    company = fixed_points(SEVEN, [3.2, 2.0, 0.01], branch="optimal")
    found = {p.alpha: p for p in company}[2.0]
    assert found.generalisation_error == pytest.approx(alone.generalisation_error, rel=1e-13)
    assert found.uncertainty == pytest.approx(alone.uncertainty, rel=1e-6)


def test_close_to_the_transition_a_coarse_curve_does_not_choose(monkeypatch):
    """α_IT ≈ 3.436: with few points the row carries both errors, and its uncertainty."""
    (point,) = at_effort(monkeypatch, SEVEN, 4, [3.436])
    assert point.status is Status.UNDECIDED
    errors = sorted([point.generalisation_error, point.other_error])
    assert errors[0] == 0
    assert errors[1] == pytest.approx(0.356, abs=0.02)
    assert point.uncertainty >= errors[1] - errors[0]
    (far,) = at_effort(monkeypatch, SEVEN, 4, [2.9])  # far away there is no doubt
    assert far.other_error is None


def test_close_to_the_transition_a_table_chooses():
    """Fair signs, α_IT = 2.94476: below, above, and within the uncertainty of neither."""
    fair = Teacher(5, "rademacher")
    (point,) = fixed_points(fair, 2.9413, branch="optimal")
    assert point.status == "ok"
    assert point.generalisation_error == pytest.approx(0.3120, abs=5e-4)
    found = transitions(fair)
    (above,) = fixed_points(fair, 2.95, branch="optimal")
    assert (above.status, above.generalisation_error) == ("ok", 0.0)
    (close,) = fixed_points(fair, found.alpha_it * (1 + 1e-9), branch="optimal")
    assert close.status is Status.UNDECIDED
    assert close.other_error is not None


def test_above_the_fold_the_branch_is_gone(monkeypatch):
    """α_algo ≈ 4.114: above it the mean decides, close to it nothing is decided."""
    (point,) = at_effort(monkeypatch, SEVEN, 6, [4.3], branch="amp")
    assert point.v == 0
    curve = curve_of(SEVEN, 6)
    fold = max(b.alpha_at_high for b in curve.branches())
    (close,) = at_effort(monkeypatch, SEVEN, 6, [fold * (1 + 1e-6)], branch="amp")
    assert close.status is Status.UNDECIDED
    assert close.other_error > 0.1
    (below,) = at_effort(monkeypatch, SEVEN, 6, [fold * (1 - 1e-6)], branch="amp")
    assert below.status is Status.UNDECIDED
    assert below.generalisation_error > 0.1
    assert below.other_error == 0


def test_folds_of_single_replicates_lie_higher():
    """The bias that taking the mean first avoids: a maximum of noisy numbers is too high."""
    curve = curve_of(SEVEN, 4)
    grid = curve.grid(0)
    R = curve.n_replicates
    each = curve.points(np.repeat(grid.q_hat, R), np.tile(np.arange(1, R + 1), grid.q_hat.size))
    single = each.alpha.reshape(-1, R).max(0).mean()
    mean = max(b.alpha_at_high for b in curve.branches())
    assert single > mean
    # So does the maximum of the mean of two, less so: the bias falls with the noise.
    pairs = each.alpha.reshape(-1, R // 2, 2).mean(-1).max(0).mean()
    assert single > pairs > mean


def test_finer_transitions_agree_with_coarser_ones():
    coarse, fine = (transitions(SEVEN, tol=tol) for tol in (3e-2, 1.2e-2))
    assert fine.status == "ok"
    assert row_entropy(SEVEN) / np.log(7) < fine.alpha_it < fine.alpha_algo
    assert abs(coarse.alpha_it - fine.alpha_it) < coarse.alpha_it_uncertainty
    assert abs(coarse.alpha_algo - fine.alpha_algo) < coarse.alpha_algo_uncertainty


def test_continuous_priors_and_noise_work_with_many_classes(monkeypatch):
    (sparse,) = at_effort(monkeypatch, Teacher(4, "sparse-gaussian:0.2"), 4, [1.0], tol=0.1)
    (gaussian,) = at_effort(monkeypatch, Teacher(4), 4, [1.0], tol=0.1)
    assert sparse.generalisation_error < gaussian.generalisation_error  # sparsity is knowledge
    for noise in CHANNELS.examples():
        if noise.noiseless:
            continue
        (point,) = at_effort(monkeypatch, Teacher(5, "gaussian", noise), 4, [2.0], tol=0.1)
        assert point.status == "ok"
        assert point.generalisation_error >= point.clean_error


def test_trajectories_say_how_far_they_can_be_trusted():
    found = state_evolution(SEVEN, 2.0, 30)
    assert (found.uncertainty[1:] > 0).all()
    assert found.uncertainty.max() < 1e-3
    end = fixed_points(SEVEN, 2.0, branch="amp")[0]
    assert abs(found.q[-1] - end.q) < 3 * found.uncertainty[-1] + 1e-4


def test_hundred_classes_work():
    point = fixed_points(Teacher(100), [1.0], tol=1e-3)[0]
    assert 0.9 < point.generalisation_error < 0.99
    assert point.status == "ok"


def test_rare_values_are_sampled():
    prior = finite_prior([-5, 0, 5], [0.02, 0.96, 0.02])
    curve = curve_of(Teacher(6, prior), 4)
    assert (curve.points(np.array([0.5, 2.0])).v < 1).all()
