"""Bars and exact values of the tail: against closed forms, and against points far beyond."""

import math

import numpy as np
import pytest
from scipy.special import ndtr

import polyceptron as pc
from polyceptron.numerics.extrapolation import limit_at_zero
from polyceptron.numerics.special import boundary_density, mean_of_maximum
from polyceptron.problem.order import Decay
from polyceptron.problem.specs import ClassMeans
from polyceptron.students import student_of
from polyceptron.theory.erm.fixed_point import erm_fixed_point

FLIPPED = pc.Teacher(3, noise="flips:0.1")
FLIP_STUDENTS = [
    pc.ERM("cross-entropy", 0.1),
    pc.ERM("hinge", 0.1),
    pc.ERM("smoothed:0.1", 0.1),
    pc.ERM("squared-hinge", 0.5),
]


def sandwich(flips):
    """α θ² of cross-entropy without ridge on flipped labels of three classes: the sandwich formula.

    The risk's minimiser is s times the teacher's weights. With f = e_y − softmax(sz) its residual
    and H the Hessian, fluctuations orthogonal to the teacher have in each class direction the
    variance E‖f‖²/(r α h²), h = E tr(H)/r; as an angle that is 1/s² of it. Averages are taken in
    polar coordinates of z on the class differences, inside the sector of the first class.
    """
    nodes, weight = np.polynomial.legendre.leggauss(40)
    angle, angle_weight = nodes * math.pi / 3, weight / 2
    nodes, weight = np.polynomial.legendre.leggauss(200)
    radius = 5 * (nodes + 1)
    radius_weight = 5 * weight * radius * np.exp(-(radius**2) / 2)
    average = np.outer(radius_weight, angle_weight).ravel()
    assert average.sum() == pytest.approx(1, abs=1e-12)
    turns = angle[:, None] - 2 * math.pi * np.arange(3) / 3
    z = math.sqrt(2 / 3) * (radius[:, None, None] * np.cos(turns)).reshape(-1, 3)
    chance = np.array([1 - flips, flips / 2, flips / 2])

    def probabilities(s):
        e = np.exp(s * z)
        return e / e.sum(1, keepdims=True)

    s = 1.0
    for _ in range(30):  # Newton on the slope of the risk
        p = probabilities(s)
        slope = average @ ((p - chance) * z).sum(1)
        curve = average @ ((p * z**2).sum(1) - (p * z).sum(1) ** 2)
        s -= slope / curve
    p = probabilities(s)
    squares = average @ ((chance * (1 - 2 * p)).sum(1) + (p**2).sum(1))  # E ‖e_y − p‖²
    trace = average @ (1 - (p**2).sum(1))
    return 2 * squares / (s * trace) ** 2


def test_the_constant_with_flips_is_the_sandwich():
    """ε − ε₀ ≈ .85 · B₃ √C/π α^(−1/2), with C = 1.082524."""
    square = sandwich(0.1)
    assert square == pytest.approx(1.082524, abs=1e-6)
    exact = 0.85 * boundary_density(3) * math.sqrt(square) / math.pi
    for alpha_max in (1e3, 1e4, 1e5, 1e6):
        tail = pc.asymptotics(FLIPPED, FLIP_STUDENTS[0], alpha_max)
        assert abs(tail.constant - exact) < tail.constant_uncertainty < 0.02 * exact


@pytest.mark.parametrize("student", FLIP_STUDENTS, ids=lambda s: s.name)
@pytest.mark.parametrize("alpha_max", [2e3, 1e4, 5e4])
def test_long_sequences_agree(student, alpha_max):
    """What is measured up to α_max against the same at 1e7, where corrections are 10 times less."""
    near = pc.asymptotics(FLIPPED, student, alpha_max)
    far = pc.asymptotics(FLIPPED, student, 1e7)
    assert abs(near.exponent - 0.5) < near.exponent_uncertainty
    assert abs(far.exponent - 0.5) < far.exponent_uncertainty < 1e-4
    bar = near.constant_uncertainty + far.constant_uncertainty
    assert abs(near.constant - far.constant) < bar
    assert far.constant_uncertainty < 1e-5


@pytest.mark.parametrize("k", [4, 5])
def test_more_classes_with_flips_agree_with_a_far_point(k):
    """One point at 3e5, where the series leaves a part in α^(−1/2) of the constant's drift."""
    student = pc.ERM("cross-entropy", 0.1)
    teacher = pc.Teacher(k, noise="flips:0.1")
    tail = pc.asymptotics(teacher, student)
    assert abs(tail.exponent - 0.5) < tail.exponent_uncertainty
    far = erm_fixed_point(teacher, student, 3e5, tol=1e-6)
    scaled = (far.generalisation_error - tail.floor) * math.sqrt(3e5)
    own = tail.generalisation_error[-1] - tail.floor
    drift = abs(own * math.sqrt(tail.alpha[-1]) - tail.constant)
    noise = far.uncertainty * math.sqrt(3e5)
    left = drift * math.sqrt(tail.alpha[-1] / 3e5)
    assert abs(scaled - tail.constant) < tail.constant_uncertainty + noise + 2 * left


@pytest.mark.parametrize("student", ["class-means", "lda", pc.DiscriminantAnalysis("optimal")])
@pytest.mark.parametrize("noise", ["none", "flips:0.1"])
@pytest.mark.parametrize("k", [2, 3, 4, 7])
def test_rules_of_all_samples_have_exponent_one_half(student, noise, k):
    tail = pc.asymptotics(pc.Teacher(k, noise=noise), student)
    assert tail.exact_exponent == 0.5
    assert abs(tail.exponent - 0.5) < tail.exponent_uncertainty < 1e-3
    assert abs(tail.constant - tail.exact_constant) < tail.constant_uncertainty + 1e-9
    assert tail.constant_uncertainty < 1e-4 * tail.constant
    assert tail.status == "ok"


@pytest.mark.parametrize("student", ["class-means", "lda"])
def test_smooth_noise_leaves_them_exponent_one(student):
    tail = pc.asymptotics(pc.Teacher(3, noise="gaussian:0.5"), student)
    assert tail.exact_exponent == 1
    assert abs(tail.exponent - 1) < tail.exponent_uncertainty < 1e-3


@pytest.mark.parametrize("k", [2, 3, 5])
def test_class_means_by_hand(k):
    """1 − ρ² = r²/(kE²α), with E = mean of the largest of k normals: drawn and in closed form."""
    largest = mean_of_maximum(k)
    drawn = np.random.default_rng(4).standard_normal((400_000, k)).max(1)
    assert abs(drawn.mean() - largest) < 5 * drawn.std() / math.sqrt(len(drawn))
    alpha = 1e7
    (row,) = student_of(ClassMeans()).rows(pc.Teacher(k), [alpha])
    residual = 1 - row["m"] ** 2 / row["q"]
    assert residual == pytest.approx((k - 1) ** 2 / (k * largest**2 * alpha), rel=1e-5)
    exact = boundary_density(k) * (k - 1) / (math.sqrt(k) * largest * math.pi)
    assert ClassMeans().decay(pc.Teacher(k)).constant == pytest.approx(exact, rel=1e-12)


def test_class_means_of_unequal_variances_keep_an_angle():
    """Their mean is Σ times the teacher's weights: ρ² → ⟨s²⟩²/⟨s³⟩ of signal s·θ, θ = 1."""
    teacher = pc.Teacher(2, features="levels:1.6x0.5,0.4x0.5")
    s = np.array([1.6, 0.4])
    correlation = (s**2).mean() / math.sqrt((s**3).mean() * s.mean())
    tail = pc.asymptotics(teacher, "class-means")
    assert abs(tail.floor - math.acos(correlation) / math.pi) < tail.floor_uncertainty + 1e-12
    assert abs(tail.exponent - 1) < tail.exponent_uncertainty


def test_one_against_the_rest_has_exponent_one_half():
    tail = pc.asymptotics(pc.Teacher(3), pc.OneVsRest(0.5, "square"), 1e4)
    assert tail.exact_exponent == 0.5
    assert abs(tail.exponent - 0.5) < tail.exponent_uncertainty < 0.02
    square = pc.ERM("square").decay(pc.Teacher(3)).constant
    assert abs(tail.constant - square) < tail.constant_uncertainty


def test_no_constant_is_claimed_where_two_classes_do_not_tell():
    """Smoothed labels at k ≥ 3: all samples count, and the two-class scaling is off by 8 %."""
    assert pc.asymptotics(pc.Teacher(3), pc.ERM("smoothed:0.1", 0.1), 1e4).exact_constant is None
    assert pc.asymptotics(pc.Teacher(2), "bayes").exact_constant is None


def test_bars_reach_to_exact_values_that_agree():
    """Six points up to α = 1010: the local exponents still turn there."""
    tail = pc.asymptotics(pc.Teacher(3, noise="flips:0.1364"), pc.ERM("hinge", 2.66), 1010.0)
    assert tail.status == "ok"
    assert abs(tail.exponent - tail.exact_exponent) <= tail.exponent_uncertainty


def test_a_wrong_exact_value_is_noticed(monkeypatch):
    monkeypatch.setattr(ClassMeans, "decay", lambda self, teacher: Decay(0.5, 0.6909883))
    tail = pc.asymptotics(pc.Teacher(3), "class-means")
    assert tail.status == "inconsistent"
    assert "constant, 0.65147" in tail.reason
    monkeypatch.setattr(ClassMeans, "decay", lambda self, teacher: Decay(1.0))
    tail = pc.asymptotics(FLIPPED, "class-means")
    assert tail.status == "inconsistent"
    assert "exponent" in tail.reason


@pytest.mark.parametrize(
    ("noise", "student", "alpha_max", "words"),
    [
        ("gaussian:1e-10", pc.ERM("square", 0.1), 1e4, "width 1e-05 of the noise"),
        ("gaussian:1e-6", pc.ERM("cross-entropy", 0.1), 1e4, "width 0.001 of the noise"),
        ("gaussian:1.79e-05", pc.ERM("squared-hinge", 0.0074), 456.0, "width"),
        ("flips:4.71e-3", pc.ERM("cross-entropy", 5.6858), 1.1e4, "norm still changes"),
        ("none", pc.ERM("smoothed:4.19e-5", 0.0047), 68622.0, "norm still changes"),
    ],
)
def test_little_noise_is_noticed(noise, student, alpha_max, words):
    """It is not felt yet at this α: extrapolations agree there, 3 to 100 bars from the truth."""
    tail = pc.asymptotics(pc.Teacher(2, noise=noise), student, alpha_max)
    assert tail.status == "not-converged"
    assert words in tail.reason


def test_the_search_for_a_ridge_is_counted():
    """Its end is noise from point to point, which an extrapolation magnifies."""
    best = pc.ERM("cross-entropy", "optimal")
    for alpha_max in (8e4, 3.3e5, 1.3e6):
        tail = pc.asymptotics(pc.Teacher(2, noise="flips:0.1"), best, alpha_max)
        assert abs(tail.exponent - 0.5) < tail.exponent_uncertainty < 1e-4


@pytest.mark.parametrize("power", [1 / 3, 1 / 2, 1.0])
def test_limits_are_inside_their_bars_at_the_wrong_turn(power):
    """Where the last step vanishes by cancellation the bar does not."""
    alpha = 1e4 * 4.0 ** np.arange(-5, 1)
    x = alpha**-power
    for turn in np.geomspace(0.2, 5, 25) * x[-1]:
        values = 1 + x - x**2 / (2 * turn) + 0.3 * x**3 / turn
        limit = limit_at_zero(x, values, 0 * x)
        assert abs(limit.value - 1) <= limit.uncertainty + 1e-12


def test_noise_enters_a_limit():
    x = 2.0 ** -np.arange(6)
    rng = np.random.default_rng(5)
    inside = 0
    for _ in range(200):
        noise = rng.uniform(-1, 1, 6) * 1e-3
        limit = limit_at_zero(x, 1 + x / (1 + x) + noise, np.full(6, 1e-3))
        inside += abs(limit.value - 1) < limit.uncertainty
    assert inside == 200


def test_error_at_small_angles_is_the_density_of_boundaries():
    """ε ≈ B_k θ/π, and B₃ = 3/2: the slope that constants at p = 1/2 are made of."""
    assert boundary_density(3) == pytest.approx(1.5)
    s = np.linspace(-9, 9, 20001)
    weight = np.exp(-(s**2) / 2) / math.sqrt(2 * math.pi) * (s[1] - s[0])
    for k in (4, 6):
        by_hand = k * (k - 1) / 2 * float(weight @ ndtr(s / math.sqrt(2)) ** (k - 2))
        assert boundary_density(k) == pytest.approx(by_hand, rel=1e-9)
        assert pc.generalisation_error(math.cos(1e-4), k) == pytest.approx(
            by_hand * 1e-4 / math.pi, rel=1e-3
        )
