"""What must hold between the pieces of the Bayes-optimal theory, whatever their values.

Every registered prior and every registered noise goes through the same identities.
"""

import math
from itertools import pairwise

import numpy as np
import pytest

from polyceptron.problem import (
    CHANNELS,
    PRIORS,
    Flips,
    GaussianNoise,
    Perceptron,
    Teacher,
    finite_prior,
)
from polyceptron.problem.order import ScalarOrder
from polyceptron.sides.fields.information import few_moments, many_excess
from polyceptron.sides.weights.row_differences import row_entropy
from polyceptron.theory.bayes.channel_table import channel_table
from polyceptron.theory.bayes.fixed_points import fixed_points
from polyceptron.theory.bayes.solution_curve import curve_of, solution_curve
from polyceptron.theory.bayes.transitions import transitions
from polyceptron.theory.dynamics import bayes_sides, rounds, state_evolution

SPARSE = finite_prior([-1, 0, 1], [0.05, 0.9, 0.05])
TEACHERS = [
    *(Teacher(2, prior) for prior in PRIORS.examples()),
    *(Perceptron(prior) for prior in PRIORS.examples()),
    *(Teacher(3, "gaussian", noise) for noise in CHANNELS.examples()),
    *(Teacher(3, "rademacher", noise) for noise in CHANNELS.examples()),
    Teacher(3, SPARSE),
    Teacher(3, "laplace"),
]
NAMES = [f"{t.model}{t.n_classes} {t.prior.name[:12]} {t.noise.name}" for t in TEACHERS]
every_teacher = pytest.mark.parametrize("teacher", TEACHERS, ids=NAMES)
every_noise = pytest.mark.parametrize("noise", CHANNELS.examples(), ids=lambda c: c.name)
ZERO = np.zeros(1, dtype=int)


@every_teacher
def test_entropy_falls_along_the_branch_as_the_channel_says(teacher):
    """dΦ/dα = Ψ_out, integrated: ∫Ψ_out dα from 0 gives Φ back."""
    points = curve_of(teacher).points(np.linspace(1e-8, 1.6, 4001) ** 2)
    area = np.sum(
        0.5 * (points.channel_entropy[1:] + points.channel_entropy[:-1]) * np.diff(points.alpha)
    )
    assert area == pytest.approx(points.free_entropy[-1], abs=2e-7)


@pytest.mark.slow
@every_teacher
def test_free_entropy_is_stationary_at_fixed_points(teacher):
    """∂Φ/∂q = ∂Φ/∂q̂ = 0 at fixed α: its gradient is the overlap; and not away from it."""
    curve = curve_of(teacher)
    r, q_hat = teacher.reduced_rank, 1.4
    alpha = float(curve.points(np.array([q_hat])).alpha[0])

    def phi(q_hat, q_hat_for_q):
        """Φ with its two arguments apart: q fixed by q̂_for_q."""
        psi = float(curve.weights.moments(np.array([q_hat]), ZERO)[1][0])
        at_q = curve.points(np.array([q_hat_for_q]))
        entropy = 0.5 * r * q_hat * float(at_q.v[0]) + psi
        return entropy + alpha * float(at_q.channel_entropy[0])

    def slopes(x):
        step = 1e-4 * x
        return (
            (phi(x + step, x) - phi(x - step, x)) / (2 * step),
            (phi(x, x + step) - phi(x, x - step)) / (2 * step),
        )

    assert np.abs(slopes(q_hat)).max() < 1e-7
    by_q_hat, by_q = slopes(1.2 * q_hat)
    assert abs(by_q_hat) < 1e-7  # there, too, q = F(q̂)
    assert abs(by_q) > 1e-4


@every_noise
@pytest.mark.parametrize("k", [2, 3])
def test_information_is_the_slope_of_the_entropy(noise, k):
    """I = (2/r) dΨ_out/dq at v = 1 − q (Gaussian integration by parts)."""
    h = 5e-4
    for q in (0.3, 0.6, 0.95):
        at = {s: few_moments(noise, 1 - q - s * h, k)[1] for s in (-2, -1, 1, 2)}
        slope = (8 * (at[1] - at[-1]) - (at[2] - at[-2])) / (12 * h) * 2 / (k - 1)
        assert few_moments(noise, 1 - q, k)[0] == pytest.approx(slope, rel=3e-7)


@every_noise
@pytest.mark.parametrize("k", [2, 3, 8])
def test_channel_at_zero_overlap_is_known(noise, k):
    """Labels are then a die of k sides: Ψ_out = −ln k; and I = k c² with c the label's signal."""
    information, entropy = channel_table(noise, k)(np.ones(1))
    assert entropy[0] == pytest.approx(-math.log(k), rel=1e-8)
    assert information[0] == pytest.approx(k * noise.signal(k) ** 2, rel=1e-8 if k < 4 else 1e-5)


@every_noise
@pytest.mark.parametrize("q", [0.1, 0.6, 0.99, 1 - 1e-6])
def test_the_rule_of_many_classes_is_right_for_three(noise, q):
    """There it leaves nothing out, and the panels give ten digits."""
    _, excess = few_moments(noise, 1 - q, 3)
    assert many_excess(noise, 1 - q, 3) == pytest.approx(excess, rel=1e-7)


class PlainGaussian(GaussianNoise):
    """A channel that does not say that its utilities are Gaussian, as one of any other law."""

    utility_variance = None


class PlainFlips(Flips):
    utility_variance = None


@pytest.mark.parametrize(
    ("told", "plain"),
    [(GaussianNoise(0.3), PlainGaussian(0.3)), (Flips(0.1, 0.3), PlainFlips(0.1, 0.3))],
    ids=["gaussian", "flips"],
)
@pytest.mark.parametrize(("k", "rel"), [(2, 1e-10), (3, 1e-10), (5, 2e-5)])
def test_both_coordinates_give_the_same_table(told, plain, k, rel):
    v = np.array([0.001, 0.5, 0.95])
    for one, other in zip(*(channel_table(c, k)(v) for c in (told, plain)), strict=True):
        np.testing.assert_allclose(one, other, rtol=rel)


@pytest.mark.slow
@pytest.mark.parametrize(
    "teacher", [t for t in TEACHERS if t.prior.support is not None], ids=lambda t: t.prior.name[:9]
)
def test_all_information_ends_at_the_entropy_of_the_prior(teacher):
    """(r/2) ∫ v dq̂ = H: what the observations can ever tell is the row's entropy."""
    curve = curve_of(teacher)
    end = curve.weights.rows.edges[-1]  # v is 1e-12 there
    _, psi = curve.weights.moments(np.array([end**2 * (1 - 1e-9)]), ZERO)
    assert psi[0] == pytest.approx(-row_entropy(teacher), abs=1e-9)
    # Beyond it v goes on falling without a step.
    v, _ = curve.weights.moments(
        np.array([end**2 * (1 - 1e-9), end**2 * (1 + 1e-9)]), np.zeros(2, int)
    )
    assert v[1] == pytest.approx(v[0], rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "teacher",
    [
        Teacher(2, "sparse-gaussian:0.2"),
        Teacher(3, "rademacher", "flips:0.1"),
        Teacher(2, "rademacher", "gaussian:0.3"),
        Teacher(5),
    ],
    ids=lambda t: f"{t.n_classes} {t.prior.name} {t.noise.name}",
)
def test_the_curve_ends_where_the_plain_loop_does(teacher):
    curve = curve_of(teacher, 6)
    for alpha in (0.4, 2.0):
        found = curve.points(np.array([curve_root(curve, alpha)]))
        laws = pairwise(rounds(*bayes_sides(curve, alpha, 0), ScalarOrder.bayes(1 - 1e-9)))
        law = next(now for before, now in laws if abs(now.V / before.V - 1) < 1e-12)
        assert pytest.approx(float(found.v[0]), rel=1e-8) == law.V


def curve_root(curve, alpha):
    """The lowest q̂ at which the curve reaches α, by scipy."""
    from scipy.optimize import brentq

    grid = curve.grid(0)
    first = int(np.argmax(grid.alpha >= alpha))
    low, high = grid.q_hat[first - 1], grid.q_hat[first]
    return brentq(lambda x: curve.points(np.array([x])).alpha[0] - alpha, low, high, rtol=1e-14)


def test_smooth_noise_ends_perfect_learning():
    """With Gaussian noise the state of highest overlap is not perfect, and approaches it fast."""
    teacher = Teacher(2, "rademacher", "gaussian:0.01")
    points = [p for p in fixed_points(teacher, [3.0, 5.0, 10.0]) if p.branch == "informed"]
    assert all(p.v > 0 for p in points)
    falls = np.diff(np.log([p.v for p in points])) / np.diff([p.q_hat for p in points])
    # ln v falls as −q̂δ²/8 with δ² = 2: rows of two classes differ by w₁ − w₂ = 2, over √2.
    assert falls == pytest.approx([-0.25, -0.25], rel=0.15)
    assert points[-1].generalisation_error == pytest.approx(
        math.atan2(0.1, 1.0) / math.pi, abs=1e-5
    )  # the floor: knowing W* itself
    assert not curve_of(teacher).perfect
    assert curve_of(Teacher(2, "rademacher", "flips:0.2")).perfect  # a jump stays a jump


def test_noise_hurts_and_flips_cost_their_rate():
    clean = fixed_points(Teacher(3), 4.0)[0]
    for noise in ("gaussian:0.2", "flips:0.1"):
        noisy = fixed_points(Teacher(3, "gaussian", noise), 4.0)[0]
        assert noisy.q < clean.q
        assert noisy.generalisation_error > noisy.clean_error > clean.generalisation_error
    flipped = fixed_points(Teacher(3, "rademacher", "flips:0.1"), 9.0)[0]
    assert flipped.generalisation_error == pytest.approx(0.1)
    assert flipped.clean_error == 0


@pytest.mark.parametrize("alpha", [0.3, 1.0, 4.0])
def test_two_classes_is_the_textbook_perceptron(alpha):
    """q = α/π ∫Dt exp(−qt²)/√(1−q)... solved here with scipy, independently of the package."""
    from scipy.integrate import quad
    from scipy.optimize import brentq
    from scipy.special import log_ndtr

    def right_hand_side(q):
        def integrand(t):
            a = math.sqrt(q / (1 - q)) * t
            log_ratio = -(a**2) - log_ndtr(a) - 0.5 * t**2
            return math.exp(log_ratio) / (2 * math.pi) / math.sqrt(2 * math.pi)

        return 2 * alpha / (1 - q) * quad(integrand, -40, 40, limit=200, epsabs=1e-13)[0]

    # q̂ = right-hand side; Gaussian prior: q = q̂/(1 + q̂).
    q = brentq(lambda q: q / (1 - q) - right_hand_side(q), 1e-9, 1 - 1e-7, xtol=1e-14)
    for teacher in (Teacher(2), Perceptron("gaussian")):
        assert fixed_points(teacher, alpha)[0].q == pytest.approx(q, rel=1e-9)


def test_iteration_ends_on_the_fixed_point_and_rises():
    for teacher in (Teacher(3), Teacher(3, "rademacher"), Teacher(5)):
        trajectory = state_evolution(teacher, 1.5, 200)
        target = next(p for p in fixed_points(teacher, 1.5) if p.branch == "amp")
        assert (np.diff(trajectory.q) > -1e-12).all()
        allowed = 1e-9 if teacher.n_classes <= 3 else 2e-3
        assert trajectory.q[-1] == pytest.approx(target.q, abs=allowed)


def test_informed_start_stays_perfect_in_the_hard_phase():
    teacher = Teacher(3, "rademacher")
    assert state_evolution(teacher, 2.6, 50, start="informed").q[-1] == 1.0
    assert state_evolution(teacher, 2.6, 400).q[-1] < 0.85


def test_error_times_alpha_settles():
    """ε ~ C/α: the local exponent tends to −1 at the rate of its next order."""
    for k in (2, 3, 6):
        points = [p for p in fixed_points(Teacher(k), [1e3, 1e4, 1e5]) if p.branch == "optimal"]
        products = [p.alpha * p.generalisation_error for p in points]
        assert abs(products[2] - products[1]) < 0.3 * abs(products[1] - products[0]) + 1e-4
    two = fixed_points(Teacher(2), 1e6)[0]
    assert two.alpha * two.generalisation_error == pytest.approx(0.4417, abs=2e-4)


def test_solution_curve_contains_the_fold_and_both_branches():
    table = solution_curve(Teacher(3, "rademacher"))
    found = transitions(Teacher(3, "rademacher"))
    assert table.alpha.max() == pytest.approx(found.alpha_algo, rel=5e-4)
    assert table.stable.any()
    assert (~table.stable).any()
    assert solution_curve(Teacher(3)).stable.all()


@pytest.mark.parametrize("n_points", [2, 6, 15])
def test_a_row_is_as_stable_in_a_table_of_few(n_points):
    teacher = Perceptron("finite[-1:0.5;0.9:0.25;1.1:0.25]")  # with four branches
    table = solution_curve(teacher, n_points)
    curve = curve_of(teacher)
    higher = curve.points(1.0001 * table.q_hat.to_numpy()).alpha
    lower = curve.points(0.9999 * table.q_hat.to_numpy()).alpha
    assert table.stable.tolist() == (higher > lower).tolist()


@pytest.mark.parametrize("teacher", [Teacher(2), Teacher(3, "rademacher"), Teacher(4)])
def test_almost_no_data_teaches_almost_nothing(teacher):
    """q = αI(0) and the error is a guess less a term of order √α, down to the tiniest α."""
    k = teacher.n_classes
    previous = 1 - 1 / k
    for alpha in (1e-12, 1e-9, 1e-6):
        point = fixed_points(teacher, alpha)[1]
        assert point.q == pytest.approx(
            alpha * curve_of(teacher).channel(np.ones(1))[0][0], rel=2e-2, abs=1e-15
        )
        assert point.generalisation_error <= previous + 1e-15
        previous = point.generalisation_error


def test_branches_meet_at_the_fold_and_not_before():
    teacher = Teacher(3, "rademacher")
    fold = transitions(teacher).alpha_algo
    rates = []
    for gap in (1e-3, 1e-6, 1e-9):
        found = {p.branch: p for p in fixed_points(teacher, fold - gap)}
        assert found["amp"].q < found["unstable"].q < 1
        rates.append((found["unstable"].q - found["amp"].q) / math.sqrt(gap))
    # Square-root singularity: the two part as the square root of the distance.
    assert rates == pytest.approx([rates[0]] * 3, rel=1e-3)
    assert {p.branch for p in fixed_points(teacher, fold + 1e-9)} == {"optimal", "amp", "informed"}


@pytest.mark.parametrize("noise", ["none", "flips:0.1", "gaussian:0.003", "softmax:100"])
def test_free_entropies_are_equal_where_the_better_state_takes_over(noise):
    """At α_IT, also where the better state is near perfect learning and far out on the curve."""
    teacher = Teacher(3, "rademacher", noise)
    found = {p.branch: p for p in fixed_points(teacher, transitions(teacher).alpha_it)}
    assert found["amp"].q < found["informed"].q - 0.05
    assert found["amp"].free_entropy == pytest.approx(found["informed"].free_entropy, abs=1e-8)
