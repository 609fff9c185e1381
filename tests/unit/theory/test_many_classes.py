"""Four classes or more without sampling: against three classes, drawn samples, and identities."""

import math
from functools import cache

import numpy as np
import pytest

from polyceptron.problem import (
    ERM,
    CrossEntropy,
    Flips,
    GaussianNoise,
    MaxMargin,
    ScalarOrder,
    SoftmaxNoise,
    Teacher,
)
from polyceptron.problem.losses.hard_margin import LabelCone
from polyceptron.sides.fields.integrand import PanelsThree
from polyceptron.sides.fields.mode_series import fourier_modes
from polyceptron.sides.fields.points import Points
from polyceptron.sides.fields.sums import (
    NODE_COUNTS,
    NodeCounts,
    Sums,
    _searched_windows,
    _sum_over_utilities,
)
from polyceptron.sides.fields.windows import with_windows
from polyceptron.sides.fields.winner import label_sources
from polyceptron.sides.scalar import erm_sides
from polyceptron.solve.root import Root, jacobian_at
from polyceptron.theory.dynamics import erm_state_evolution
from polyceptron.theory.erm.equations import equations
from polyceptron.theory.erm.fixed_point import erm_fixed_point, solve
from polyceptron.theory.erm.refinement import _smooth_levels
from polyceptron.theory.separability import separability

pytestmark = pytest.mark.slow

NAMES = ("M", "Q", "C", "loss", "mass")
CHANNELS = [GaussianNoise(), GaussianNoise(0.4), Flips(0.15), SoftmaxNoise(1.5)]
# Scarce data and no ridge to speak of, a moderate ridge, plentiful data, hardly any fields.
LAWS = [
    ScalarOrder(0.85, 5.8, 52.0),
    ScalarOrder(1.0, 1.0, 1.0),
    ScalarOrder(5.0, 60.0, 0.4),
    ScalarOrder(0.3, 0.02, 0.2),
]


def stein(averages, law):
    """C + D − (m/q)M, which Gaussian integration by parts says is 0, over C."""
    total = averages.C + averages.D_plus - averages.D_minus - law.slope * averages.M
    return float(np.abs(total / averages.C).max())


@pytest.mark.parametrize("channel", CHANNELS, ids=lambda c: c.name)
@pytest.mark.parametrize("law", LAWS, ids=str)
def test_at_three_classes_sums_are_those_of_the_plane(law, channel):
    true = PanelsThree().place(CrossEntropy(), channel, 3, law, 3)(law)
    found = Sums().place(CrossEntropy(), channel, 3, law, 2)(law)
    for name in NAMES:
        got, want = getattr(found, name)[0], getattr(true, name)[0]
        assert abs(got - want) < 3e-4 * abs(want), name


@pytest.mark.parametrize("channel", [GaussianNoise(), SoftmaxNoise(2.0)], ids=lambda c: c.name)
@pytest.mark.parametrize("law", [ScalarOrder(0.3, 0.08, 1.0), ScalarOrder(20.0, 9.0, 2.5)])
@pytest.mark.parametrize("loss", [MaxMargin(), LabelCone()], ids=lambda loss: loss.name)
def test_margins_at_three_classes_are_those_of_the_plane(law, channel, loss):
    true = PanelsThree().place(loss, channel, 3, law, 3)(law)
    found = Sums().place(loss, channel, 3, law, 2)(law)
    for name in ("M", "Q", "C", "mass"):
        got, want = getattr(found, name)[0], getattr(true, name)[0]
        assert abs(got - want) < 1e-4 * abs(want), name


@pytest.mark.parametrize("loss", [CrossEntropy(), MaxMargin()], ids=lambda loss: loss.name)
@pytest.mark.parametrize("k", [5, 30])
def test_rules_agree_with_random_points(k, loss):
    law = ScalarOrder(1.2, 4.0, 9.0) if loss.name == "cross-entropy" else ScalarOrder(1.2, 0.5, 1.0)
    drawn = Points().place(loss, GaussianNoise(), k, law, 0)(law)
    found = Sums().place(loss, GaussianNoise(), k, law, 2)(law)
    for name in NAMES[:3]:
        sample = getattr(drawn, name)
        error = sample.std(ddof=1) / math.sqrt(len(sample))
        gap = abs(getattr(found, name)[0] - sample.mean())
        assert gap < 4.5 * error + 1e-3 * abs(sample.mean()), name


@pytest.mark.parametrize("k", [4, 10])
def test_integration_by_parts_holds_for_the_sums(k):
    """M, C and D are three different sums there; with one of them off it would not hold."""
    for loss, law in (
        (CrossEntropy(), ScalarOrder(0.85, 5.8, 52.0)),
        (MaxMargin(), ScalarOrder(1.2, 0.5, 1.0)),
    ):
        found = Sums().place(loss, GaussianNoise(), k, law, 2)(law)
        assert stein(found, law) < 1e-3
        scaled = {name: part * np.array([1.05]) for name, part in found._asdict().items()}
        assert stein(type(found)(**scaled), law) < 1e-3  # no scale
        assert stein(found._replace(M=1.02 * found.M), law) > 3e-3


def test_modes_are_sums_of_powers():
    rng = np.random.default_rng(0)
    phase, functions = rng.random((3, 50, 7)), rng.random((2, 3, 50, 7))
    found = fourier_modes(phase, functions, 9)
    powers = np.exp(-1j * phase[..., None] * np.arange(10))
    assert np.allclose(found, np.einsum("fclj,cljm->fclm", functions, powers))


@pytest.mark.parametrize("estimator", [ERM("cross-entropy", 0.5), ERM("max-margin")], ids=str)
def test_state_evolution_begins_without_fields_and_rests_at_the_fixed_point(estimator):
    first = erm_state_evolution(Teacher(6), estimator, 3.0, n_steps=2)
    assert first[0].m == 0
    assert 0 < first[1].m < 2
    assert first[2].generalisation_error < 5 / 6
    point = erm_fixed_point(Teacher(6), estimator, 3.0)
    start = point.m, point.q, point.V
    (_, after) = erm_state_evolution(Teacher(6), estimator, 3.0, n_steps=1, start=start)
    assert abs(after.m / point.m - 1) < 2e-3
    assert abs(after.q / point.q - 1) < 4e-3


@cache
def threshold():
    return separability(Teacher(4, noise="flips:0.1")).alpha_s


def likelihood(alpha):
    return erm_fixed_point(Teacher(4, noise="flips:0.1"), ERM("cross-entropy", 0.0), alpha)


def test_next_to_the_threshold_weights_diverge_as_they_must():
    """1/√q falls to 0 on a line at α_s, which is a property of cones and found without the loss."""
    near, far = 5.0023, 5.003
    one, two = likelihood(near), likelihood(far)
    assert one.status == two.status == "ok"
    slope = (two.q**-0.5 - one.q**-0.5) / (far - near)
    assert abs(near - one.q**-0.5 / slope - threshold()) < 1e-3
    assert one.q > two.q
    assert 0.4665 < two.generalisation_error < one.generalisation_error < 0.4745
    assert max(one.uncertainty, two.uncertainty) < 1e-4


def test_next_to_the_threshold_the_margin_is_found():
    """q ~ (1 − α/α_s)⁻²: sums see all of the mass at any q, and ε goes to its limit on a line."""
    law, noise = ScalarOrder(0.94, 2.9e7, 4e-5), Flips(0.1)
    assert Sums().place(MaxMargin(), noise, 4, law, 2)(law).doubt(law) < 1e-5
    teacher = Teacher(4, noise="flips:0.1")
    hard, shares = ERM("max-margin"), (0.999, 0.9999)
    far, near = (erm_fixed_point(teacher, hard, share * threshold()) for share in shares)
    assert far.status == near.status == "ok"
    assert 1e-5 < far.generalisation_error - near.generalisation_error < 1e-4
    assert 0.47510 < near.generalisation_error < 0.47520


def test_a_root_of_a_coarse_level_alone_is_left_behind():
    """Many data, hardly a ridge: coarse nodes have their root elsewhere; points are the judge."""
    teacher = Teacher(6, features="power:1.35:50")
    found = erm_fixed_point(teacher, ERM("cross-entropy", 1e-5), 174.0)
    problem = erm_sides(teacher, CrossEntropy(), 1e-5, 174.0).by_points()
    judge = solve(problem, 1e-5, np.log([found.tau, found.q, found.V]))
    assert judge.status == found.status == "ok"
    gap = abs(found.generalisation_error - judge.generalisation_error)
    assert gap < found.uncertainty + judge.uncertainty


def test_two_levels_that_miss_the_same_samples_are_not_believed():
    """Both have a root here; that of all samples is at ln τ = 4.0264, as points find it above."""
    problem = erm_sides(Teacher(6, features="power:1.35:50"), CrossEntropy(), 1e-5, 174.0)
    system, theta = equations(problem), np.array([3.9717, 9.9216, 3.199])
    residual = system.on(system.placed(0, theta))
    value = residual(theta)
    root = Root(theta, value, jacobian_at(residual, theta, value), True)
    found = next(_smooth_levels(system, root))
    assert abs(found.error - 0.012716) < found.uncertainty


@pytest.mark.parametrize("student", [CrossEntropy(), MaxMargin()], ids=lambda student: student.name)
@pytest.mark.parametrize("seed", range(4))
def test_guesses_are_within_their_floor(student, seed):
    """The last levels have the same nodes for guesses: their error is in no change of level."""
    rng = np.random.default_rng(seed)
    k = int(rng.choice([4, 10, 100]))
    log_order = [rng.uniform(-2, 4), rng.uniform(-3, 6), rng.uniform(-3, 5)]
    order = ScalarOrder(*np.exp(log_order))
    guess = label_sources(student, Flips(0.2), k, order, 2)[-1]
    window = _searched_windows(student, Flips(0.2), k, order)[-1]
    guess, range_of_L = with_windows(guess, guess, window)
    with np.errstate(all="ignore"):
        last = _sum_over_utilities(guess, range_of_L, NODE_COUNTS[-1])
        finer = _sum_over_utilities(guess, range_of_L, NodeCounts(1, 80, 72, 180))
    np.testing.assert_allclose(last, finer, rtol=Sums.floors[-1], atol=0)
