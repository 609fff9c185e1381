"""One-pass SGD against closed forms, gradient flow, quadrature, and simulations at d = 500."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad, solve_ivp
from scipy.special import expit

import polyceptron as pc
from polyceptron.problem import ScalarOrder, as_channel, as_loss
from polyceptron.problem.specs import make_estimator
from polyceptron.report.explorer.page_tasks import perform, tasks_of
from polyceptron.report.explorer.settings import make_settings
from polyceptron.sides.scalar import FieldsSide
from polyceptron.students import student_of
from polyceptron.theory.one_pass.agreement import agreement_of_utilities, label_agreement
from polyceptron.theory.one_pass.path import OnePassPath, largest_stable_rate, one_pass_path
from polyceptron.theory.one_pass.pull import PanelStep, SampledStep, step_averages
from polyceptron.theory.one_pass.rows import best_rate


def rows(teacher: object, rule: object, alpha: object) -> list[dict[str, object]]:
    return student_of(rule).rows(teacher, alpha)


@pytest.mark.parametrize("k", [2, 3, 10, 100])
def test_square_loss_is_explicit(k: int) -> None:
    """dm/dα = η(c − m); q from the linear equation q' = 2η(mc − q) + η²(1/k − 2mc + q)."""
    eta = 0.7
    teacher = pc.Teacher(k)
    c = teacher.channel.signal(k)
    a = 2 * eta - eta**2
    for row in rows(teacher, pc.SGD("square", eta), [0.1, 2.0, 9.0, 100.0]):
        alpha = row["alpha"]
        # q' = −a q + (2η − 2η²)c m + η²/k with m = c(1 − e^{−ηα})
        forcing = (2 * eta - 2 * eta**2) * c * c
        constant = (forcing + eta**2 / k) / a * -math.expm1(-a * alpha)
        falling = forcing / (a - eta) * (math.exp(-eta * alpha) - math.exp(-a * alpha))
        assert row["m"] == pytest.approx(-c * math.expm1(-eta * alpha), rel=1e-6)
        assert row["q"] == pytest.approx(constant - falling, rel=1e-6)
        assert row["uncertainty"] < 1e-6


def test_gradient_flow_of_two_classes() -> None:
    """As η → 0 at fixed ηα = T, W = m W* with dm/dT = E|h|σ(−m|h|), h ~ N(0, 2) the teacher's gap.

    That is −dL/dm of the population's loss L(m) = E ln(1 + e^{−m|h|}).
    """

    def slope(T: float, m: np.ndarray) -> list[float]:
        def integrand(h: float) -> float:
            return h * expit(-m[0] * h) * math.exp(-h * h / 4) / math.sqrt(math.pi)

        return [quad(integrand, 0, 15, epsabs=1e-12)[0]]

    T = 3.0
    flow = float(solve_ivp(slope, (0, T), [0.0], rtol=1e-10, atol=1e-12).y[0, -1])
    found = []
    for eta in (1e-2, 1e-3, 1e-4):
        (row,) = rows(pc.Teacher(2), pc.SGD(rate=eta), [T / eta])
        found.append((row["m"] - flow, row["q"] - row["m"] ** 2))
    assert abs(found[-1][0]) < 1e-4
    for coarse, fine in pairwise(found):  # both are of first order in η
        assert coarse[0] / fine[0] == pytest.approx(10, rel=0.1)
        assert coarse[1] / fine[1] == pytest.approx(10, rel=0.1)


def test_gradient_flow_of_the_square_loss() -> None:
    """As η → 0, W tends to the minimiser (1 − e^{−T}) c W* of the flow: no noise is left."""
    teacher = pc.Teacher(5, noise="gaussian:0.5")
    (row,) = rows(teacher, pc.SGD("square", 1e-4), [2e4])
    m = teacher.channel.signal(5) * -math.expm1(-2.0)
    assert row["m"] == pytest.approx(m, rel=1e-6)
    assert row["q"] == pytest.approx(m * m, rel=1e-3)


@pytest.mark.parametrize("noise", ["none", "gaussian:0.5", "flips:0.2", "softmax:3", "softmax:20"])
@pytest.mark.parametrize("k", [2, 3, 7])
def test_agreement_of_labels(noise: str, k: int) -> None:
    """E p_y by drawn fields and labels."""
    rng = np.random.default_rng(5)
    channel = as_channel(noise)
    n = 400_000
    for tau, slope in ((0.4, 0.6), (3.0, 4.0)):
        rho = tau / math.hypot(1.0, tau)
        z = rng.standard_normal((n, k))
        x = rho * z + math.sqrt(1 - rho**2) * rng.standard_normal((n, k))
        y = channel.sample(z, rng)
        odds = np.exp(slope * (x - x.max(1, keepdims=True)))
        p = odds[np.arange(n), y] / odds.sum(1)
        spread = p.std() / math.sqrt(n)
        assert abs(label_agreement(channel, tau, slope, k) - p.mean()) < 4.5 * spread


EXTREME_UTILITIES = [
    # slope of the teacher's softmax, tau, slope of the student's softmax
    (0.027, 0.065, 180.0),
    (0.013, 220.0, 4.1),
    (0.5, 30.0, 20.0),
    (2.0, 1.0, 1e3),
    (1e3, 70.0, 0.002),
    (300.0, 1e3, 300.0),
    (0.009, 2.0, 0.008),
]


@pytest.mark.parametrize("k", [2, 10, 1000])
@pytest.mark.parametrize(("slope", "tau", "own_slope"), EXTREME_UTILITIES)
def test_agreement_of_labels_by_finer_sums(
    slope: float, tau: float, own_slope: float, k: int
) -> None:
    channel = as_channel(f"softmax:{slope}")
    agree = agreement_of_utilities(channel, tau, own_slope, k)
    finer = agreement_of_utilities(channel, tau, own_slope, k, step_per_width=0.25)
    assert agree == pytest.approx(finer, rel=1e-7)
    # The student's and the teacher's part are alike.
    swapped = agreement_of_utilities(as_channel(f"softmax:{own_slope}"), tau, slope, k)
    assert agree == pytest.approx(swapped, rel=1e-7)


def test_agreement_of_labels_with_little_correlation() -> None:
    """A is linear in ρ there, with the slope √q c(k − 1)/k to first order in √q."""
    channel = as_channel("softmax:2")
    k = 3
    for tau in (1e-6, 0.9e-3, 1.1e-3):
        expected = 1 / k + 0.01 * tau * channel.signal(k) * (k - 1) / k
        assert agreement_of_utilities(channel, tau, 0.01, k) == pytest.approx(expected, abs=3e-8)


@pytest.mark.parametrize("noise", ["none", "softmax:2", "flips:0.1"])
@pytest.mark.parametrize("loss", ["cross-entropy", "smoothed:0.2", "square"])
@pytest.mark.parametrize("k", [2, 3])
def test_short_ways_are_the_integral(loss: str, k: int, noise: str) -> None:
    """Closed forms of a step against the panels of the fields side."""
    teacher = pc.Teacher(k, noise=noise)
    step = step_averages(teacher, as_loss(loss))
    panels = PanelStep(FieldsSide(teacher.channel, as_loss(loss), k, 1.0))
    for order in (ScalarOrder(0.1, 0.01, 0.0), ScalarOrder(1.5, 2.0, 0.0)):
        for short, full in zip(step(order), panels(order), strict=True):
            assert short[0] == pytest.approx(full[0], rel=3e-6)


def test_hinge_of_two_classes_by_quadrature() -> None:
    """A hinge of two classes with gap g ~ N(0, 2q): f = 1[h < 1], h = ±g by the teacher's label."""
    order = ScalarOrder(1.2, 0.8, 0.0)
    step = step_averages(pc.Teacher(2), as_loss("hinge"))(order)
    sigma = math.sqrt(2 * order.q)
    # P(h < 1), with density 2φ(h/σ)Φ(τh/σ)/σ of the margin h
    from scipy.stats import norm

    def margin_density(h: float) -> float:
        return 2 * norm.pdf(h, scale=sigma) * norm.cdf(order.tau * h / sigma)

    inside = quad(margin_density, -12, 1, epsabs=1e-12)[0]
    assert step.Q[0] == pytest.approx(2 * inside, rel=1e-5)  # ‖f‖² = 2 and r = 1
    assert step.C[0] == pytest.approx(2 * margin_density(1.0), rel=1e-5)  # −tr ∂f = 2δ(h − 1)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["cross-entropy", "hinge", "squared-hinge"])
def test_many_classes_at_points(loss: str) -> None:
    """Random points against drawn fields at k = 5."""
    k, n = 5, 1_000_000
    rng = np.random.default_rng(0)
    teacher = pc.Teacher(k)
    order = ScalarOrder(1.0, 0.7, 0.0)
    step = SampledStep(FieldsSide(teacher.channel, as_loss(loss), k, 1.0, by_points=True))
    averages = step(order)
    z = rng.standard_normal((n, k))
    residual = order.q - order.m**2
    omega = order.m * z + math.sqrt(residual) * rng.standard_normal((n, k))
    f = -as_loss(loss).gradient(omega, z.argmax(1))
    r = k - 1
    drawn = {
        "m": ((f * z).sum(1) / r, averages.M - order.m * averages.C),
        "q": ((f * omega).sum(1) / r, order.m * averages.M - order.q * averages.C),
        "Q": ((f * f).sum(1) / r, averages.Q),
    }
    for values, theory in drawn.values():
        spread = values.std() / math.sqrt(n) + theory[1:].std() / 4
        assert abs(values.mean() - theory[0]) < 4.5 * spread


SIMULATED = [
    (pc.Teacher(2), pc.SGD(rate=1.0)),
    (pc.Teacher(3), pc.SGD(rate=2.0, schedule="decay:1.5")),
    (pc.Teacher(10), pc.SGD(rate=1.5)),
    (pc.Teacher(3), pc.SGD("square", 0.8, batch=4)),
    (pc.Teacher(3, noise="softmax:2"), pc.SGD("hinge", 0.5)),
    (pc.Teacher(3, features="power:1.2:100"), pc.SGD(rate=1.0)),
    (pc.Teacher(2, features="levels:4x0.2@1,1x0.8@3", noise="flips:0.1"), pc.SGD("square", 0.6)),
]


@pytest.mark.parametrize(("teacher", "rule"), SIMULATED, ids=str)
def test_simulation(teacher: pc.Teacher, rule: pc.SGD) -> None:
    """Means over 24 runs at d = 500 within 4.5 standard errors and 3/d."""
    alpha, d, runs = 3.0, 500, 24
    (theory,) = rows(teacher, rule, [alpha])
    drawn = [student_of(rule).simulate(teacher, alpha, d, seed)[0] for seed in range(runs)]
    for name in ("m", "q", "generalisation_error"):
        values = np.array([row[name] for row in drawn])
        error = values.std(ddof=1) / math.sqrt(runs)
        allowed = 4.5 * error + 3 / d * (1 + abs(theory[name]))
        assert abs(values.mean() - theory[name]) < allowed, (name, values.mean(), theory[name])


def test_batches_divide_the_rate() -> None:
    (one,) = rows(pc.Teacher(3), pc.SGD(rate=0.5), [2.0])
    (four,) = rows(pc.Teacher(3), pc.SGD(rate=2.0, batch=4), [2.0])
    assert four["generalisation_error"] == one["generalisation_error"]


def test_flat_spectrum_is_isotropic() -> None:
    """Levels that differ by next to nothing against independent features."""
    nearly = pc.Teacher(3, features="levels:1x0.5,1.000001x0.5")
    (one,) = rows(pc.Teacher(3), pc.SGD(), [2.0])
    (two,) = rows(nearly, pc.SGD(), [2.0])
    assert two["generalisation_error"] == pytest.approx(one["generalisation_error"], abs=1e-6)


def test_integration_error() -> None:
    """The tolerance of the integration moves ln τ by less than the bar allows for."""
    for k, loss in ((2, "cross-entropy"), (10, "cross-entropy"), (3, "square")):
        path = one_pass_path(pc.Teacher(k), as_loss(loss), 1.5)
        fields = {name: getattr(path, name) for name in path.__dataclass_fields__ if name[0] != "_"}
        exact = OnePassPath(**fields)

        def slope(u: float, state: np.ndarray, exact: OnePassPath = exact) -> np.ndarray:
            return exact._slope(u, state)

        solved = solve_ivp(slope, (0, 2.0), exact._start(), "DOP853", rtol=1e-11, atol=1e-14)
        reference = exact._law(solved.y[:, -1]).tau[0]
        assert abs(math.log(path.at(4.0).tau[0] / reference)) < 1e-7


def test_numbers_do_not_depend_on_the_list() -> None:
    teacher = pc.Teacher(3)
    together = rows(teacher, pc.SGD(rate=0.9), [0.5, 3.0, 20.0])
    one_pass_path.cache_clear()
    for row in together:
        (alone,) = rows(teacher, pc.SGD(rate=0.9), [row["alpha"]])
        one_pass_path.cache_clear()
        assert alone == row


def test_both_ends_of_alpha() -> None:
    """At α → 0, m = ηαM and q = η²αQ; at α → ∞ noise of the labels leaves noise of the weights.

    Without noise the error goes on falling, as α^(−1/3): the weights grow and so does the step's
    resolution, q ∝ α^(2/3).
    """
    first, small = rows(pc.Teacher(3), pc.SGD(), [0.0, 1e-6])
    assert first["generalisation_error"] == pytest.approx(2 / 3, abs=1e-12)
    c = pc.Teacher(3).channel.signal(3)
    assert small["m"] == pytest.approx(1e-6 * c, rel=1e-4)
    assert small["q"] == pytest.approx(1e-6 / 3, rel=1e-4)  # E‖e_y − 1/k‖²/r = 1/k


def test_plentiful_noisy_samples() -> None:
    large, larger = rows(pc.Teacher(3, noise="softmax:2"), pc.SGD(), [1e6, 1e8])
    floor = larger["generalisation_error"]
    assert large["generalisation_error"] == pytest.approx(floor, abs=1e-6)


@pytest.mark.slow
def test_plentiful_samples() -> None:
    large, larger = rows(pc.Teacher(3), pc.SGD(), [1e6, 1e8])
    ratio = large["generalisation_error"] / larger["generalisation_error"]
    assert math.log(ratio) / math.log(100) == pytest.approx(1 / 3, abs=0.01)


def test_unstable_rates() -> None:
    """The square loss is stable up to η = 2 (dq/dα ∋ −2ηq + η²q), cross-entropy at every rate."""
    teacher = pc.Teacher(3)
    assert largest_stable_rate(teacher, as_loss("square")) == pytest.approx(2, rel=1e-5)
    assert largest_stable_rate(teacher, as_loss("cross-entropy")) == math.inf
    below, above = (rows(teacher, pc.SGD("square", rate), [5.0])[0] for rate in (1.9, 2.1))
    assert below["status"] == "ok"
    assert above["status"] == "rate-too-large"
    (lost,) = rows(teacher, pc.SGD("square", 50.0), [1.0])
    assert lost["status"] == "rate-too-large"
    drawn = student_of(pc.SGD("square", 2.5)).simulate(teacher, 8.0, 200, 0)[0]
    assert drawn["status"] == "rate-too-large"
    assert drawn["q"] > 100


def test_best_rate_is_a_minimum() -> None:
    teacher = pc.Teacher(3)
    found = best_rate(teacher, pc.SGD(rate="optimal"), 2.0)
    for factor in (0.8, 1.25):
        (other,) = rows(teacher, pc.SGD(rate=factor * found.parameter), [2.0])
        assert other["generalisation_error"] > found.trial.value + 1e-6
    (row,) = rows(teacher, "sgd:optimal", [2.0])
    assert row["rate"] == pytest.approx(found.parameter, rel=1e-3)


def test_never_below_the_bayes_error() -> None:
    for k in (2, 10):
        (best,) = student_of("bayes").rows(pc.Teacher(k), [3.0])
        (one_pass,) = rows(pc.Teacher(k), "sgd:optimal", [3.0])
        assert one_pass["generalisation_error"] > best["generalisation_error"]


NAMES = ["sgd:1", "sgd:0.5:decay:4", "sgd[square]:0.5", "sgd[smoothed:0.1]:2:decay:1:batch:8"]


@pytest.mark.parametrize("name", NAMES)
def test_names_are_read_back(name: str) -> None:
    rule = make_estimator(name)
    assert rule.name == name
    assert rule.columns == {"estimator": name}
    assert make_estimator(rule.columns["estimator"]) == rule


WRONG = {
    "sgd": "sgd:RATE",
    "sgd:": "sgd:RATE",
    "sgd:0": "from 1e-06 to 1e\\+06",
    "sgd:nan": "got 'nan'",
    "sgd:1:decay": "sgd:RATE",
    "sgd:1:decay:0": "above 0",
    "sgd:1:speed:2": "sgd:RATE",
    "sgd:1:batch:0": "1 or more",
    "sgd:1:batch:x": "whole number",
    "sgd[max-margin]:1": "max-margin",
    "sgd[nothing]:1": "unknown loss",
}


@pytest.mark.parametrize("name", WRONG)
def test_bad_names(name: str) -> None:
    with pytest.raises(pc.InvalidInput, match=WRONG[name]):
        make_estimator(name)


def test_refused_populations() -> None:
    for population in (
        pc.Mixture((0.5, 0.5), separation=1.0),
        pc.Teacher(3, shares=(0.5, 0.3, 0.2)),
    ):
        with pytest.raises(pc.InvalidInput, match="classes are alike"):
            rows(population, pc.SGD(), [1.0])


def test_the_explorer_draws_it() -> None:
    """Chosen in the menu, the curve of the page is that of the rule on its own."""
    page = make_settings({"estimators": ["sgd"], "points": 3, "low": 0.5, "high": 4.0})
    curve = next(task for task in tasks_of(page) if task["kind"] == "curve")
    *_, last = perform(curve)
    for drawn in last["result"]:
        (row,) = student_of(page.estimator("sgd")).rows(page.teacher, [drawn["alpha"]])
        assert drawn["generalisation_error"] == row["generalisation_error"]
        assert drawn["status"] == "ok"
    assert last["result"][-1]["generalisation_error"] < last["result"][0]["generalisation_error"]
