"""What must hold between the pieces of the Bayes-optimal theory, whatever their values."""

import math

import numpy as np
import pytest

from polyceptron.model import Perceptron, Teacher, finite_prior
from polyceptron.numerics.denoise import denoise, project
from polyceptron.theory import fixed_points, solution_curve, state_evolution, transitions
from polyceptron.theory.channel import _boundary_2, _boundary_3, _hermite, channel_moments
from polyceptron.theory.ensemble import ensemble
from polyceptron.theory.prior import prior_entropy, prior_variance

SPARSE = finite_prior([-1, 0, 1], [0.05, 0.9, 0.05])
TEACHERS = [
    Teacher(2),
    Teacher(3),
    Teacher(2, "rademacher"),
    Teacher(3, "rademacher"),
    Perceptron("rademacher"),
    Teacher(3, SPARSE),
]
NAMES = [f"{t.model}-{t.n_classes}-{t.prior.name[:6]}" for t in TEACHERS]
ZERO = np.zeros(1, dtype=int)


@pytest.mark.parametrize(
    "teacher", TEACHERS, ids=lambda t: f"{t.model}{t.n_classes}{t.prior.name[:6]}"
)
def test_entropy_falls_along_the_branch_as_the_channel_says(teacher):
    """dΦ/dα = Ψ_out, integrated: ∫Ψ_out dα from 0 gives Φ back."""
    curves = ensemble(teacher)
    q_hat = np.linspace(1e-8, 1.6, 4001) ** 2
    points = curves.points(q_hat, np.zeros(q_hat.size, dtype=int))
    area = np.sum(
        0.5 * (points.channel_entropy[1:] + points.channel_entropy[:-1]) * np.diff(points.alpha)
    )
    assert area == pytest.approx(points.free_entropy[-1], abs=2e-7)


@pytest.mark.parametrize(
    "teacher", TEACHERS, ids=lambda t: f"{t.model}{t.n_classes}{t.prior.name[:6]}"
)
def test_free_entropy_is_stationary_at_fixed_points(teacher):
    """∂Φ/∂q̂ = 0 at fixed α, and not a little away from it (the test can fail)."""
    curves = ensemble(teacher)
    r = teacher.reduced_rank
    alpha = 1.3
    point = next(p for p in fixed_points(teacher, alpha) if p.branch == "amp")

    def phi(q_hat, q_hat_for_q):
        """Φ with its two arguments apart: q fixed by q̂_for_q."""
        psi = float(curves.prior(np.array([q_hat]), ZERO)[1][0])
        at_q = curves.points(np.array([q_hat_for_q]), ZERO)
        q = float(at_q.q[0])
        entropy = 0.5 * r * q_hat * (1 - q) + psi
        return entropy + alpha * float(at_q.channel_entropy[0])

    step = 1e-4 * point.q_hat
    slope_q_hat = (phi(point.q_hat + step, point.q_hat) - phi(point.q_hat - step, point.q_hat)) / (
        2 * step
    )
    slope_q = (phi(point.q_hat, point.q_hat + step) - phi(point.q_hat, point.q_hat - step)) / (
        2 * step
    )
    assert abs(slope_q_hat) < 1e-7
    assert abs(slope_q) < 1e-7
    away = 1.2 * point.q_hat
    assert abs(phi(away + step, away) - phi(away - step, away)) / (2 * step) < 1e-7  # q = F(q̂)
    assert abs(phi(away, away + step) - phi(away, away - step)) / (2 * step) > 1e-4


@pytest.mark.parametrize("teacher", [t for t in TEACHERS if t.prior.name != "gaussian"])
def test_all_information_ends_at_the_entropy_of_the_prior(teacher):
    """(r/2) ∫ v dq̂ = H: what the observations can ever tell is the row's entropy."""
    curves = ensemble(teacher)
    end = curves.prior.edges[-1]  # v is 1e-12 there
    _, psi = curves.prior(np.array([end**2 * (1 - 1e-9)]), ZERO)
    assert psi[0] == pytest.approx(-prior_entropy(teacher), abs=1e-9)


def test_reduced_rademacher_row_at_three_classes_has_eleven_quarters_bits():
    assert prior_entropy(Teacher(3, "rademacher")) == pytest.approx(2.75 * math.log(2), rel=1e-14)


@pytest.mark.parametrize("k", [4, 9, 15])
def test_entropy_of_many_classes_matches_enumeration(k):
    """Only the two constant rows merge: H = k ln 2 − 2·2^{-k} ln 2."""
    expected = k * math.log(2) - 2 * 2.0**-k * math.log(2)
    assert prior_entropy(Teacher(k, "rademacher")) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("k", [3, 4, 12])
def test_overlap_of_the_prior_is_what_the_denoiser_does_on_samples(k):
    teacher, q_hat, n = Teacher(k, "rademacher"), 3.0, 40_000
    rng = np.random.default_rng(1)
    u = project(teacher.prior.sample(rng, (n, k)))
    gamma = q_hat * u + math.sqrt(q_hat) * project(rng.standard_normal((n, k)))
    posterior = denoise(teacher.prior, gamma, q_hat)
    v = prior_variance(teacher, np.array([q_hat]), 8)[0]
    for estimate in (
        posterior.variance / (k - 1),
        ((posterior.mean - u) ** 2).sum(-1) / (k - 1),  # Nishimori: the error is the variance
    ):
        allowed = 4 * math.hypot(estimate.std() / math.sqrt(n), v.std() / 4)
        assert abs(estimate.mean() - v.mean()) < allowed


@pytest.mark.parametrize("q", [0.1, 0.3, 0.6])
def test_two_rules_agree_on_the_channel(q):
    """Coordinates along class boundaries against Gauss–Hermite in the fields."""
    for k, boundary in ((2, _boundary_2), (3, _boundary_3)):
        a, b = boundary(q, 1 - q, k), _hermite(q, 1 - q, k)
        assert a == pytest.approx(b, rel=1e-8 if q > 0.5 else 1e-12)


def test_channel_at_zero_overlap_is_known():
    """Labels are then a coin of k sides: Ψ_out = −ln k, I = k (E max)²·k/(k−1)²/k."""
    rng = np.random.default_rng(0)
    for k in (2, 3, 8):
        moments = channel_moments(np.array([1e-10]), np.array([1.0]), k, 8)
        assert moments.entropy.mean() == pytest.approx(-math.log(k), rel=1e-5)
        best = rng.standard_normal((400_000, k)).max(1)
        # At ω = 0 the score of the winner is E max, shared out evenly among the losers.
        expected = best.mean() ** 2 * (1 + 1 / (k - 1)) / (k - 1)
        assert moments.information.mean() == pytest.approx(expected, rel=2e-2)


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


@pytest.mark.parametrize("teacher", [Teacher(2), Teacher(3, "rademacher"), Teacher(4)])
def test_almost_no_data_teaches_almost_nothing(teacher):
    """q = αI(0) and the error is a guess less a term of order √α, down to the tiniest α."""
    k = teacher.n_classes
    previous = 1 - 1 / k
    for alpha in (1e-12, 1e-9, 1e-6):
        point = fixed_points(teacher, alpha)[1]
        assert point.q == pytest.approx(
            alpha * ensemble(teacher).information(np.ones(1), ZERO)[0], rel=2e-2, abs=1e-15
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
