"""Priors whose class differences are close: one hump of α(q̂) for each scale, and all are found.

The reference is `folds_reference.py`, plain sums for two classes that share nothing with the
package. Other classes, spectra and message passing are checked by identities: dΦ/dα = Ψ_out along
every branch, the end of the iteration, and an upper bound of v.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from polyceptron import Perceptron, Teacher
from polyceptron.problem.priors import FinitePrior, GaussianPrior, Prior, Tilted
from polyceptron.questions.landscape import landscape
from polyceptron.questions.plan import plan
from polyceptron.rows import Status
from polyceptron.sides.weights import panel_rows, side
from polyceptron.theory.bayes import fixed_points as fixed_points_module
from polyceptron.theory.bayes.fixed_points import fixed_points
from polyceptron.theory.bayes.solution_curve import SolutionCurve, curve_of
from polyceptron.theory.bayes.transitions import JumpPoint, Jumps, all_jumps, transitions
from polyceptron.theory.dynamics import state_evolution

sys.path.insert(0, str(Path(__file__).parent))
from folds_reference import TwoClasses, standardised

CLOSE = (-1, 0, 1.1), (0.3, 0.4272727272727273, 0.2727272727272727)
THREE_SCALES = (0, 1, 1.1, 1.11), (0.25, 0.25, 0.25, 0.25)
THREE_DIFFERENCES = (0, 1, 2.1, 3.21), (0.25, 0.25, 0.25, 0.25)
RARE = (0, 1, 1.1), (0.98, 0.01, 0.01)


def prior(values: tuple[float, ...], p: tuple[float, ...]) -> tuple[tuple[float, ...], ...]:
    """As a teacher takes it."""
    return tuple(tuple(part.tolist()) for part in standardised(values, p))


def test_transitions_of_close_class_differences() -> None:
    """α_algo = 23.1567 and α_IT between 19.3 and 19.8: two quadratures of others gave these."""
    teacher = Teacher(2, CLOSE)
    found = transitions(teacher)
    assert found.status == "ok"
    assert found.alpha_algo == pytest.approx(23.1567, abs=1e-4)
    assert 19.3 < found.alpha_it < 19.8
    best = fixed_points(teacher, 15.0, branch="optimal")[0]
    assert best.generalisation_error > 1e-3


@pytest.mark.parametrize("case", [CLOSE, THREE_SCALES, THREE_DIFFERENCES, RARE])
def test_all_humps_of_two_classes_against_plain_sums(case) -> None:
    reference = TwoClasses(*case)
    smallest = float(np.diff(reference.u).min())
    humps = reference.humps(0.2, 300 / smallest**2, round(5 * math.log(1500 / smallest**2)))
    found = all_jumps(Teacher(2, prior(*case)))
    assert len(humps) >= 2
    assert found.status is Status.OK
    assert [jump.alpha for jump in found.amp] == pytest.approx([h["alpha"] for h in humps], 2e-9)
    last_rise = math.sqrt(humps[-2]["q_hat"] * humps[-1]["q_hat"])
    it = reference.perfect_takes_over(last_rise, humps[-1]["q_hat"])
    assert found.optimal[-1].alpha == pytest.approx(it, rel=2e-8)


def test_a_spectrum_against_plain_sums() -> None:
    reference = TwoClasses(*CLOSE, power=(4.0, 1.0))
    humps = reference.humps(1, 1e5, 60)
    found = all_jumps(Teacher(2, prior(*CLOSE), features="levels:4X0.5,1X0.5"))
    highest = max(h["alpha"] for h in humps)
    assert found.status is Status.OK
    assert found.amp[-1].alpha == pytest.approx(highest, rel=2e-9)


TEACHERS = [
    Teacher(2, prior(*THREE_SCALES)),
    Teacher(3, prior(*CLOSE)),
    Teacher(3, prior(*THREE_SCALES)),
    Perceptron(prior(*THREE_SCALES)),
    Teacher(2, prior(*CLOSE), features="power:1:100"),
    Teacher(2, prior(*CLOSE), noise="flips:0.1"),
    Teacher(2, prior(*CLOSE), noise="gaussian:1e-6"),
]


@pytest.mark.parametrize("teacher", TEACHERS, ids=str)
def test_free_entropy_along_every_branch_has_the_slope_that_the_channel_says(teacher) -> None:
    curve = curve_of(teacher)
    branches = curve.branches()
    assert len(branches) >= 4
    for branch in branches:
        low = max(branch.low, math.log(1e-3))
        place = np.linspace(low, branch.high, 3001)
        at = curve.points(np.exp(place))
        # Φ(end) − Φ(start) = ∫ Ψ_out dα, by the trapezoidal rule on fine steps.
        middle = 0.5 * (at.channel_entropy[1:] + at.channel_entropy[:-1])
        integral = float(middle @ np.diff(at.alpha))
        change = float(at.free_entropy[-1] - at.free_entropy[0])
        assert change == pytest.approx(integral, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("teacher", [t for t in TEACHERS if t is not TEACHERS[2]], ids=str)
def test_iteration_ends_at_the_branch_of_message_passing(teacher) -> None:
    """Between its jumps and just above them, from q = 0."""
    jumps = all_jumps(teacher).amp
    assert len(jumps) >= 2
    for alpha in [factor * jump.alpha for jump in jumps for factor in (0.9, 1.1)]:
        expected = fixed_points(teacher, alpha, branch="amp")[0]
        path = state_evolution(teacher, alpha, 400)
        assert path.v[-1] == pytest.approx(expected.v, rel=1e-5, abs=1e-12)


@pytest.mark.parametrize("teacher", TEACHERS, ids=str)
def test_stable_and_unstable_points_alternate_at_every_alpha(teacher) -> None:
    top = all_jumps(teacher).amp[-1].alpha
    for alpha in np.geomspace(1e-4 * top, 1.5 * top, 25):
        points = fixed_points(teacher, float(alpha))
        assert all(p.status is not Status.INCONSISTENT for p in points)
        by_overlap = sorted({p.q_hat: p.branch.startswith("unstable") for p in points}.items())
        barriers = [barrier for _, barrier in by_overlap]
        assert barriers == [i % 2 == 1 for i in range(len(barriers))]
        assert len(barriers) % 2 == 1


def test_landscape_has_an_extremum_for_each_fixed_point() -> None:
    teacher = Teacher(2, CLOSE)
    for alpha, extrema in ((3.5, 4), (15.0, 2), (20.0, 2)):
        view = landscape(teacher, alpha)
        slope = np.sign(np.diff(view["free_entropy"]))
        assert np.count_nonzero(slope[1:] != slope[:-1]) == extrema
        assert {p["q"] for p in view["extrema"]} <= set(view["q"])


def test_plan_stops_at_the_jump_that_reaches_the_target() -> None:
    """Before the first jump of message passing, at it, between both, and at the last."""
    teacher = Teacher(2, CLOSE)
    jumps = all_jumps(teacher)
    before = fixed_points(teacher, 0.9999 * jumps.amp[0].alpha, branch="amp")[0]
    after = fixed_points(teacher, 1.0001 * jumps.amp[0].alpha, branch="amp")[0]
    assert after.generalisation_error < before.generalisation_error
    at_first = 0.5 * (before.generalisation_error + after.generalisation_error)
    found = plan(teacher, at_first, "bayes")
    assert found.algorithm.alpha == pytest.approx(jumps.amp[0].alpha, rel=1e-6)
    assert found.alpha == pytest.approx(jumps.optimal[0].alpha, rel=1e-6)
    between = plan(teacher, 0.9 * after.generalisation_error, "bayes").algorithm
    assert jumps.amp[0].alpha < between.alpha < jumps.amp[1].alpha
    reached = fixed_points(teacher, between.alpha, branch="amp")[0]
    assert reached.generalisation_error == pytest.approx(0.9 * after.generalisation_error, rel=1e-4)
    at_last = plan(teacher, 1e-9, "bayes")
    assert at_last.algorithm.alpha == pytest.approx(jumps.amp[-1].alpha, rel=1e-6)
    assert at_last.alpha == pytest.approx(jumps.optimal[-1].alpha, rel=1e-6)


@pytest.mark.parametrize("k", [2, 3, 5])
def test_v_is_below_its_bound(k) -> None:
    curve = curve_of(Teacher(k, CLOSE))
    q_hat = np.geomspace(0.1, 1e4, 40)
    ratio = curve.points(q_hat).v / curve.weights.bound(q_hat)
    assert ratio.max() <= 1
    assert ratio.max() > 0.8  # it is close where few rows are near, and can fail


def test_many_classes_say_where_states_may_be_overlooked() -> None:
    """At eight classes rows are sampled: the last scale is bounded, not resolved."""
    teacher = Teacher(8, CLOSE)
    below = curve_of(teacher).overlooked_below
    points = {p.branch: p.status for p in fixed_points(teacher, 0.5 * below)}
    assert points["optimal"] is Status.INCONSISTENT
    assert points["amp"] is Status.OK
    assert fixed_points(teacher, 2.5 * below)[0].status is Status.OK


@pytest.mark.slow
def test_states_that_may_be_overlooked_are_bounded_between_nodes_too() -> None:
    """α is at most q̂/I at a bound of v, whose maximum is between two nodes here."""
    curve = curve_of(Teacher(8, ((-1, 0, 1.05), (0.42, 0.18, 0.4))))
    end = float(curve.grid(0).q_hat[-1])
    q_hat = np.geomspace(end, 20 * end, 20_000)
    information, _ = curve.channel(curve.weights.bound(q_hat))
    assert (q_hat / information).max() <= curve.overlooked_below


@pytest.mark.parametrize("features", ["isotropic", "levels:4x0.5,0.1x0.5"])
@pytest.mark.parametrize("prior_name", ["sparse-gaussian:0.02", "laplace"])
def test_grids_of_continuous_priors_rise_and_have_no_folds(prior_name, features) -> None:
    """Stages follow one another, whatever the ratios of q̂ at the ends of their panels."""
    teacher = Teacher(2, prior_name, features=features)
    curve = curve_of(teacher)
    for far in range(len(curve.weights.rows.ends) + 1):
        grid = curve.grid(far)
        assert np.diff(grid.q_hat).min() > 0
        assert np.diff(grid.alpha).min() > 0
        assert len(curve.branches(far)) == 1
        beside_the_end = min(0.99 * float(grid.alpha[-1]), 1e8)
        assert {p.status for p in fixed_points(teacher, beside_the_end)} == {Status.OK}


@dataclass(frozen=True)
class NarrowPeaks(Prior):
    """Values of a finite prior, each of them widened by the same Gaussian."""

    width: float = 1e-4
    name: str = "narrow-peaks"
    extent: float = 4.0

    @property
    def peaks(self) -> FinitePrior:
        values, p = standardised((-1, 0, 1.03), (0.3, 0.43, 0.27))
        scale = math.sqrt(1 - self.width**2)
        return FinitePrior(tuple(scale * values), tuple(p), "peaks")

    def sample(self, rng, size):
        return self.peaks.sample(rng, size) + self.width * rng.standard_normal(size)

    def tilted(self, b, precision):
        b, precision = np.broadcast_arrays(np.asarray(b, float), np.asarray(precision, float))
        # A Gaussian around each value: the peaks see b/(1 + Λσ²) and Λ/(1 + Λσ²).
        shrink = 1 / (1 + precision * self.width**2)
        variance = shrink * self.width**2
        around = self.peaks.tilted(b * shrink, precision * shrink)
        own = GaussianPrior().tilted(b * self.width, precision * self.width**2).log_g
        mean = shrink * around.mean + b * variance
        return Tilted(around.log_g + own, mean, shrink**2 * around.variance + variance)


def test_narrow_peaks_of_a_density_are_not_passed_over() -> None:
    """Told apart at q̂ of 2e4, they have folds of a finite prior, which the first panels miss."""
    finite = all_jumps(Teacher(2, prior((-1, 0, 1.03), (0.3, 0.43, 0.27))))
    assert finite.amp[-1].alpha > 50
    teacher = Teacher(2, NarrowPeaks())
    found = all_jumps(teacher)
    assert found.amp[0].alpha == pytest.approx(finite.amp[0].alpha, rel=1e-4)
    assert found.status is Status.INCONSISTENT
    assert fixed_points(teacher, 30.0)[0].status is Status.INCONSISTENT


def test_an_overlooked_scale_is_noticed(monkeypatch) -> None:
    """Told a spacing of rows that is too wide, the curve ends early and says so."""
    teacher = Teacher(2, prior((-1, 0, 1.13), (0.3, 0.4, 0.3)))
    true_spacing = side.row_spacing(teacher)
    for module in (panel_rows, side):
        monkeypatch.setattr(module, "row_spacing", lambda _: 7 * true_spacing)
    panel_rows.row_table.cache_clear()
    try:
        curve = SolutionCurve(teacher, 0, np.inf)
        assert curve.problem
        assert curve._entropy_is_missing()
        monkeypatch.setattr(fixed_points_module, "curve_of", lambda *_: curve)
        assert all(p.status is Status.INCONSISTENT for p in fixed_points(teacher, 3.0))
    finally:
        panel_rows.row_table.cache_clear()


def test_jumps_in_the_wrong_order_are_noticed() -> None:
    good = Jumps((JumpPoint(1.0, 0.1),), (JumpPoint(2.0, 0.1),), Status.OK)
    assert good.consistent
    assert not good._replace(optimal=(JumpPoint(2.5, 0.1),)).consistent
    assert not good._replace(optimal=()).consistent
    assert not good._replace(amp=(JumpPoint(3.0, 0.1), JumpPoint(2.0, 0.1))).consistent


def test_names_of_branches_belong_to_the_curve() -> None:
    """A barrier keeps its name from one α to the next, so that it can be drawn as a line."""
    teacher = Teacher(2, CLOSE)
    names = {p.branch for a in (2.8, 3.5, 4.1) for p in fixed_points(teacher, a)}
    assert names == {"optimal", "amp", "informed", "unstable", "unstable-1", "metastable-2"}
    assert [p.branch for p in fixed_points(teacher, 3.5, branch="unstable")] == [
        "unstable",
        "unstable-1",
    ]
