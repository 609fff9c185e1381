"""The fields side: one integrand against brute force, and rules against each other."""

import math

import numpy as np
import pytest

from polyceptron.numerics.panels import panel_rule, resolve
from polyceptron.problem import (
    CrossEntropy,
    Flips,
    GaussianNoise,
    MaxMargin,
    ScalarOrder,
    SquareLoss,
)
from polyceptron.problem.losses.proximal_coordinates import ProximalCoordinates
from polyceptron.problem.losses.smoothed import Smoothed
from polyceptron.sides.fields.integrand import (
    PanelsThree,
    PanelsTwo,
    PosteriorScore,
    ordered_density,
)
from polyceptron.sides.fields.points import Points
from polyceptron.sides.fields.sums import Sums

CHANNELS = [GaussianNoise(), GaussianNoise(0.4), Flips(0.15)]
NAMES = ("M", "Q", "C", "D", "loss", "error", "mass")


class PlainCrossEntropy(CrossEntropy):
    """The same loss, without any of its short cuts."""

    def value(self, z, y):
        return super().value(z, y)


def rule(loss, channel, k, law, level):
    nodes = {2: PanelsTwo, 3: PanelsThree}.get(k, Points)()
    return nodes.place(loss, channel, k, law, level)(law)


def part(averages, name):
    """An average by name; D₊ and D₋ alone bend where ω·f changes sign."""
    return averages.D_plus - averages.D_minus if name == "D" else getattr(averages, name)


def drawn(loss, channel, k, law, n, seed=0):
    """The averages over n drawn samples with drawn labels, and their standard errors, by name."""
    rng = np.random.default_rng(seed)
    omega = math.sqrt(law.q) * rng.standard_normal((n, k))
    noise = math.sqrt(law.residual) * rng.standard_normal((n, k))
    label = channel.sample(law.slope * omega + noise, rng)
    omega -= omega.mean(1, keepdims=True)
    f, trace = loss.denoise(omega, label, law.V)
    f = f - f.mean(1, keepdims=True)
    z = omega + law.V * f
    own = np.take_along_axis(z, label[:, None], 1)[:, 0]
    others = np.where(np.arange(k) == label[:, None], -np.inf, z).max(1)
    along = (omega * f).sum(1) / ((k - 1) * law.q)
    parts = {
        # ∇Z is the covariance of the label with the teacher's noise, over its variance
        "M": (f * noise).sum(1) / ((k - 1) * law.residual),
        "Q": (f**2).sum(1) / (k - 1),
        "C": trace / (k - 1),
        "D": along,
        "loss": loss.value_at_prox(z, label),
        "error": (own < others - 1e-9).astype(float),
        "mass": np.ones(n),
    }
    return {name: (x.mean(), x.std(ddof=1) / math.sqrt(n)) for name, x in parts.items()}


class Narrow(ProximalCoordinates):
    """Rows of one gap of the fields, however large V is."""

    def wide(self, width, V):
        return None


class NarrowCrossEntropy(CrossEntropy):
    coordinates = Narrow()


@pytest.mark.parametrize("channel", CHANNELS, ids=lambda c: c.name)
def test_rows_of_one_proximal_gap(channel):
    """For large V they agree with rows of one gap as far as these go, and with finer ones."""
    law = ScalarOrder(0.8, 900.0, 60.0)
    assert ProximalCoordinates().wide(10.0, 60.0) is not None
    coarse, fine = (rule(CrossEntropy(), channel, 3, law, level) for level in (3, 4))
    other = rule(NarrowCrossEntropy(), channel, 3, law, 5)
    for name in NAMES:
        assert part(coarse, name) == pytest.approx(part(fine, name), rel=1e-8)
        assert part(other, name) == pytest.approx(part(fine, name), rel=2e-5)
    assert fine.mass[0] == pytest.approx(1, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("channel", CHANNELS, ids=lambda c: c.name)
@pytest.mark.parametrize("loss", [CrossEntropy(), MaxMargin()], ids=lambda loss: loss.name)
@pytest.mark.parametrize("k", [2, 3, 5])
def test_averages_against_drawn_samples(k, loss, channel):
    law = ScalarOrder(1.5, 2.0, 1.5)
    found = rule(loss, channel, k, law, 2 if k <= 3 else 1)
    for name, (mean, error) in drawn(loss, channel, k, law, 60_000).items():
        sampled = part(found, name)
        spread = sampled.std(ddof=1) / 4 if len(sampled) > 1 else 0.0
        assert abs(sampled.mean() - mean) < 4.5 * math.hypot(error, spread) + 1e-7, name


def test_drawn_samples_can_reject():
    """The comparison sees a law that is off by a few per cent."""
    channel, loss = GaussianNoise(0.4), CrossEntropy()
    measured = drawn(loss, channel, 3, ScalarOrder(1.5, 2.0, 1.5), 60_000)
    wrong = rule(loss, channel, 3, ScalarOrder(1.6, 2.0, 1.5), 2)
    score = max(abs(part(wrong, n).mean() - m) / (e + 1e-12) for n, (m, e) in measured.items())
    assert score > 6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("k", "channel"), [*((2, c) for c in CHANNELS), (3, CHANNELS[0]), (3, CHANNELS[-1])]
)
def test_own_coordinates_agree_with_generic_ones(k, channel):
    laws = (ScalarOrder(0.5, 0.3, 2.0), ScalarOrder(6.0, 200.0, 30.0))
    for law in laws if k == 2 else laws[:1] if channel is CHANNELS[0] else laws[1:]:
        own = rule(CrossEntropy(), channel, k, law, 2)
        generic = rule(PlainCrossEntropy(), channel, k, law, 2)
        for name in NAMES:
            expected = float(part(own, name)[0])
            assert float(part(generic, name)[0]) == pytest.approx(expected, rel=2e-9, abs=1e-12)


@pytest.mark.parametrize("loss", [CrossEntropy(), MaxMargin()], ids=lambda loss: loss.name)
@pytest.mark.parametrize(
    "law", [ScalarOrder(0.5, 0.3, 2.0), ScalarOrder(3.0, 50.0, 5.0), ScalarOrder(100.0, 1e4, 50.0)]
)
def test_random_points_agree_with_the_deterministic_rule(loss, law):
    exact = PanelsThree().place(loss, GaussianNoise(), 3, law, 3)(law)
    random = Points().place(loss, GaussianNoise(), 3, law, 1)(law)
    for name in NAMES:
        sampled, true = part(random, name), part(exact, name)
        error = sampled.std(ddof=1) / math.sqrt(len(sampled))
        assert abs(sampled.mean() - true[0]) <= 4.5 * error + 1e-12 * abs(true[0])


@pytest.mark.parametrize("channel", CHANNELS, ids=lambda c: c.name)
@pytest.mark.parametrize("law", [ScalarOrder(0.5, 0.3, 2.0), ScalarOrder(30.0, 1e3, 20.0)])
def test_gaussian_integration_by_parts(law, channel):
    """C = (m/q)M − D links four averages that are computed apart."""
    for loss in (CrossEntropy(), MaxMargin()):
        a = rule(loss, channel, 3, law, 3)
        combined = law.m / law.q * a.M - (a.D_plus - a.D_minus)
        assert combined[0] == pytest.approx(a.C[0], rel=2e-8)
        assert a.mass[0] == pytest.approx(1, abs=1e-8)


@pytest.mark.parametrize("channel", CHANNELS, ids=lambda c: c.name)
@pytest.mark.parametrize("k", [2, 3, 7])
def test_square_averages_in_closed_form(k, channel):
    """Against the rule that knows the square loss by its denoiser only."""
    law = ScalarOrder(1.2, 0.4, 0.7)
    M, Q, C, D = SquareLoss().explicit_averages(law, channel.signal(k), k)
    a = rule(SquareLoss(), channel, k, law, 3 if k <= 3 else 2)
    pairs = ((M, a.M), (Q, a.Q), (C, a.C), (D, a.D_plus - a.D_minus))
    for closed, sampled in pairs:
        spread = sampled.std(ddof=1) if len(sampled) > 1 else 0.0
        assert abs(sampled.mean() - closed) < 1.5 * spread + 2e-8


def test_density_of_ordered_gaps_is_normalised():
    x, w = panel_rule(np.linspace(-30.0, 30.0, 61), 12)
    assert w @ ordered_density(x[None], 3.0) == pytest.approx(2)  # two labels
    y, v = panel_rule(np.linspace(0.0, 40.0, 41), 12)
    gaps = np.stack([np.repeat(x, len(y)), (x[:, None] + y).ravel()])
    assert np.outer(w, v).ravel() @ ordered_density(gaps, 3.0) == pytest.approx(3)  # three labels


def test_panels_close_in_on_what_is_rough():
    found = resolve(lambda x: np.stack([np.abs(x - 0.3), np.exp(-(x**2))]), np.linspace(-2, 2, 3))
    assert np.abs(found - 0.3).min() < 1e-4  # where a bend of slope 1 is 1e-6 of the function
    smooth = resolve(lambda x: np.exp(x)[None], np.linspace(0, 1, 3))
    assert len(smooth) == 3


@pytest.mark.parametrize("V", [100.0, 600.0, 1.5e4])
def test_smoothed_labels_are_seen_whole_where_weights_hardly_cost(V):
    """With the third class level A is ln 2 further on: at V = 600 that is all of the mass."""
    law = ScalarOrder(0.28, 1.35, V)
    for channel in CHANNELS[:2]:
        found = rule(Smoothed(0.1), channel, 3, law, 1)
        assert abs(found.mass[0] - 1) < 1e-6
        assert found.doubt(law, 1.0) < 1e-5


@pytest.mark.parametrize("rule_class", [PanelsTwo, PanelsThree, Sums, Points])
def test_every_level_has_its_settings(rule_class):
    """A search for a root may reach the last level, and reads the tolerance of each."""
    assert len(rule_class.root_tolerances) == rule_class.n_levels
    if not rule_class.sampled:
        assert len(rule_class.floors) == rule_class.n_levels - 1


@pytest.mark.parametrize("loss", [CrossEntropy(), SquareLoss()], ids=lambda loss: loss.name)
@pytest.mark.parametrize("seed", range(3))
def test_levels_of_three_classes_converge_fast(loss, seed):
    """Less than the share `left` of a change between two levels is left, if it can be seen."""
    rng = np.random.default_rng([seed, 3])
    law = ScalarOrder(*np.exp([rng.uniform(-2, 4), rng.uniform(-3, 5), rng.uniform(-3, 5)]))
    channel = CHANNELS[seed]
    averages = [rule(loss, channel, 3, law, level) for level in range(5)]
    for name in ("M", "Q", "C"):
        values = np.array([float(part(level, name)[0]) for level in averages])
        changes = np.abs(np.diff(values))
        left = np.abs(values - values[-1])[1:]
        seen = changes[:-1] > 1e-8 * abs(values[-1])
        assert (left[:-1] <= PanelsThree.left * changes[:-1])[seen].all(), name


def test_the_score_of_the_channel_is_a_student_on_the_nishimori_line_only():
    student = PosteriorScore(GaussianNoise(0.4), 2)
    known = rule(student, GaussianNoise(0.4), 2, ScalarOrder.bayes(0.3), 2)
    assert known.M[0] == pytest.approx(known.Q[0], rel=1e-8)
    with pytest.raises(ValueError, match="m = q = 1 − V"):
        rule(student, GaussianNoise(0.4), 2, ScalarOrder(1.0, 2.0, 0.3), 2)
