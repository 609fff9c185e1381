"""Sums over the other classes see all of the mass, and C = (m/q)M − D, at laws of real problems."""

import math
from functools import cache

import numpy as np
import pytest

from polyceptron import Teacher
from polyceptron.errors import InvalidInput
from polyceptron.problem import ERM, as_channel
from polyceptron.problem.losses import Loss, as_loss
from polyceptron.problem.order import ScalarOrder
from polyceptron.sides.fields import points
from polyceptron.sides.fields.integrand import FEW, Averages, average
from polyceptron.sides.fields.points import Points
from polyceptron.sides.fields.sums import Sums
from polyceptron.theory.erm.fixed_point import erm_fixed_point

pytestmark = pytest.mark.slow

LAWS = [  # k, noise, τ, q, V: fixed points at much and at few data
    (4, "none", 39.5, 912.0, 1.455),
    (4, "none", 45.8, 869.0, 1.042),
    (10, "none", 39.5, 914.0, 1.461),
    (4, "none", 43.9, 4165.0, 5.845),
    (100, "gaussian:1", 0.0416, 0.0218, 30.1),
    (50, "none", 0.114, 0.305, 2.98e4),
    (1000, "softmax:3", 0.211, 0.567, 113.0),
    (1000, "none", 0.141, 830.0, 358.0),
    (1000, "none", 2.18, 61.5, 136.0),
]


@pytest.mark.parametrize("case", LAWS)
def test_no_mass_is_lost_and_parts_agree(case: tuple) -> None:
    k, noise, *numbers = case
    law, channel = ScalarOrder(*numbers), as_channel(noise)
    averages = Sums().place(as_loss("cross-entropy"), channel, k, law, 3)(law)
    assert averages.doubt(law) < 1e-4


def test_a_law_that_no_problem_has_gives_no_numbers() -> None:
    law = ScalarOrder(0.04, 1e-28, 1e-50)
    averages = Sums().place(as_loss("cross-entropy"), as_channel("softmax:3"), 100, law, 0)(law)
    assert np.isnan(averages.M).all()


# Known from random points (`by_points`) at a tolerance of 1e-5.
KNOWN = [
    ((4, "none", "isotropic"), 1e-3, 100.0, 0.0146132, 2e-6),
    ((4, "none", "isotropic"), 1.31185e-3, 123.489, 0.0125829, 2e-6),
    ((4, "none", "isotropic"), 1e-4, 100.0, 0.0132050, 2e-6),
    ((10, "none", "isotropic"), 1e-3, 200.0, 0.0217752, 7e-6),
    ((4, "none", "power:1.04:300"), 1.6571635e-4, 50.135558, 0.0259708, 5e-6),
    ((7, "softmax:6.107", "power:1.7:50"), 8.7028e-4, 5.446984, 0.285804, 9e-6),
    ((4, "none", "power:1.93:558"), 1.271e-6, 441.6, 0.0029975, 1e-6),
    ((10, "gaussian:0.773", "isotropic"), 4.419373243369824, 0.14992437389046562, 0.8664298, 1e-6),
]


@pytest.mark.parametrize("case", KNOWN)
def test_the_truth_is_within_the_bar(case: tuple) -> None:
    (k, noise, features), ridge, alpha, truth, doubt = case
    teacher = Teacher(k, noise=noise, features=features)
    found = erm_fixed_point(teacher, ERM("cross-entropy", ridge), alpha)
    assert abs(found.generalisation_error - truth) <= found.uncertainty + doubt


class Hinge(Loss):
    """Crammer and Singer's, without a proximal map of its own."""

    name = "own-hinge"

    def _worst(self, z, y):
        z = np.asarray(z, dtype=float)
        y = np.broadcast_to(y, len(z))
        lifted = z + 1.0 - np.take_along_axis(z, y[:, None], 1)
        np.put_along_axis(lifted, y[:, None], -math.inf, 1)
        return z, y, lifted

    def value(self, z, y):
        return np.maximum(self._worst(z, y)[2].max(1), 0.0)

    def gradient(self, z, y):
        z, y, lifted = self._worst(z, y)
        rows, active = np.arange(len(z)), (lifted.max(1) > 0).astype(float)
        slope = np.zeros_like(z)
        slope[rows, lifted.argmax(1)] += active
        slope[rows, y] -= active
        return slope

    def hessian(self, z, y):
        z = np.asarray(z, dtype=float)
        return np.zeros((*z.shape, z.shape[1]))


@pytest.mark.parametrize("k", [2, 3, 4, 10])
def test_a_loss_that_is_not_smooth_is_refused_at_once(k: int) -> None:
    with pytest.raises(InvalidInput, match="not to be smooth"):
        erm_fixed_point(Teacher(k), ERM(Hinge(), 0.1), 4.0)


@cache
def on_panels(law: ScalarOrder, level: int) -> Averages:
    return FEW[3].place(as_loss("cross-entropy"), as_channel("none"), 3, law, level)(law)


@pytest.mark.parametrize("level", [2, 4])
def test_points_know_both_parts_of_D_where_the_loss_bends_in_a_thin_layer(level: int) -> None:
    """At k = 3, where panels know them: q and V of few samples and next to no ridge."""
    law = ScalarOrder(1.54715284, 104.902683, 7034.07952)
    loss, channel = as_loss("cross-entropy"), as_channel("none")
    # D₊ and D₋ bend between the nodes of panels, their difference does not.
    before, exact = on_panels(law, 4), on_panels(law, 5)
    sampled = Points().place(loss, channel, 3, law, level)(law)
    for name, values in sampled._asdict().items():
        if name != "error":
            spread = values.std(ddof=1) / math.sqrt(len(values))
            known = getattr(exact, name)[0]
            left = abs(known - getattr(before, name)[0])
            assert abs(values.mean() - known) < 5 * spread + left + 1e-12, name
    D = sampled.D_plus - sampled.D_minus
    off = abs(D.mean() - (exact.D_plus - exact.D_minus)[0])
    assert off < 5 * D.std(ddof=1) / math.sqrt(len(D)) + 1e-12


@pytest.mark.parametrize("loss", ["cross-entropy", "weston-watkins"])
def test_classes_far_behind_may_be_left_out(loss: str) -> None:
    law, k, own, channel = (
        ScalarOrder(50.0, 1e3, 0.1),
        80,
        as_loss(loss).coordinates,
        as_channel("none"),
    )
    few, half = points._n_classes_that_count(own, channel, k, law), k // 2
    assert few < half

    def averages(near: int | None, kept: int) -> Averages:
        below, weight, _ = points.boundary_points(own, channel, k, law, 0, near)
        gaps, weight = math.sqrt(law.q) * np.sort(below, 0)[:kept], 16 * weight
        pull = own.at_gaps(gaps, law.V)
        return average(channel, law, gaps, weight, pull, n_classes=k, n_replicates=16)

    some, most, every = averages(half, few), averages(half, half), averages(None, k - 1)
    assert np.allclose(some, most, rtol=1e-8, atol=1e-13)
    for one, other in zip(some, every, strict=True):
        spread = math.hypot(one.std(ddof=1), other.std(ddof=1)) / 4
        assert abs(one.mean() - other.mean()) < 5 * spread
    smoothed = as_loss("smoothed:0.1").coordinates
    assert points._n_classes_that_count(smoothed, channel, k, law) == k - 1
