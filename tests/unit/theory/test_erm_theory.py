"""The fixed points of empirical risk minimisation: limits, closed forms, honest uncertainties."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

import polyceptron as pc
from polyceptron.errors import InvalidInput
from polyceptron.numerics.special import boundary_density, mean_of_maximum
from polyceptron.problem import CrossEntropy, Loss, SquareLoss
from polyceptron.problem.losses.coordinates import Coordinates
from polyceptron.questions.curve_rows import curve_rows
from polyceptron.questions.ridge import optimal_ridge, ridge_parts
from polyceptron.rows import Status
from polyceptron.theory.dynamics import erm_state_evolution
from polyceptron.theory.erm.fixed_point import erm_fixed_point
from polyceptron.theory.erm.rows import erm_rows
from polyceptron.theory.erm.square_closed_form import best_square_ridge
from polyceptron.theory.margins import margin_law

pytestmark = pytest.mark.slow

CLEAN = pc.Teacher(3).noise


def fixed_point(k, loss, ridge, alpha, tol=None, noise="none"):
    return erm_fixed_point(pc.Teacher(k, noise=noise), pc.ERM(loss, ridge), alpha, tol)


def label_signal(k):
    """c and s² of clean labels."""
    return mean_of_maximum(k) / (k - 1), 1 / k


class PlainSquare(SquareLoss):
    """The square loss without its short cuts: known by its denoiser only."""

    def gradient(self, z, y):
        return super().gradient(z, y)


class Scaled(CrossEntropy):
    """5ℓ(z): the minimiser of ℓ at a fifth of the ridge."""

    def value(self, z, y):
        return 5 * super().value(z, y)

    def gradient(self, z, y):
        return 5 * super().gradient(z, y)

    def hessian(self, z, y):
        return 5 * super().hessian(z, y)


class Stretched(CrossEntropy):
    """ℓ(5z): weights a fifth as large at 25 times the ridge."""

    def value(self, z, y):
        return super().value(5 * np.asarray(z, dtype=float), y)

    def gradient(self, z, y):
        return 5 * super().gradient(5 * np.asarray(z, dtype=float), y)

    def hessian(self, z, y):
        return 25 * super().hessian(5 * np.asarray(z, dtype=float), y)


class Differences(Loss):
    """‖P(z − e_y)‖²/2 on the class differences: the square loss as a user would add it."""

    name = "differences"

    def gradient(self, z, y):
        z = np.asarray(z, dtype=float)
        shifted = z - (np.arange(z.shape[1]) == np.asarray(y)[:, None])
        return shifted - shifted.mean(1, keepdims=True)

    def value(self, z, y):
        return (Differences.gradient(self, z, y) ** 2).sum(1) / 2

    def hessian(self, z, y):
        n, k = np.shape(z)
        return np.broadcast_to(np.eye(k) - 1 / k, (n, k, k))


class Shifted(Differences):
    """√(1 + ‖z‖²): not a function of differences."""

    name = "shifted"

    def _size(self, z):
        return 1 + (np.asarray(z, dtype=float) ** 2).sum(1, keepdims=True)

    def value(self, z, y):
        return np.sqrt(self._size(z))[:, 0]

    def gradient(self, z, y):
        return np.asarray(z, dtype=float) / np.sqrt(self._size(z))

    def hessian(self, z, y):
        z, size = np.asarray(z, dtype=float), self._size(z)[:, :, None]
        return (np.eye(z.shape[1]) - z[:, :, None] * z[:, None, :] / size) / np.sqrt(size)


class Unfair(Differences):
    """Class 0 counts double."""

    name = "unfair"

    def weight(self, y):
        return 1.0 + (np.asarray(y) == 0)

    def value(self, z, y):
        return super().value(z, y) * self.weight(y)

    def gradient(self, z, y):
        return super().gradient(z, y) * self.weight(y)[:, None]

    def hessian(self, z, y):
        return super().hessian(z, y) * self.weight(y)[:, None, None]


@pytest.mark.parametrize("noise", ["none", "gaussian:0.3", "flips:0.1"])
@pytest.mark.parametrize(("k", "alpha", "ridge"), [(2, 0.7, 0.3), (3, 2.0, 1.0), (3, 20.0, 1e-3)])
def test_square_equations_have_the_closed_form_as_root(k, alpha, ridge, noise):
    """The general solver, given the square loss's denoiser only, lands on the closed form."""
    solved = fixed_point(k, PlainSquare(), ridge, alpha, 1e-8, noise)
    closed = fixed_point(k, "square", ridge, alpha, noise=noise)
    for name in ("m", "q", "V", "m_hat", "q_hat", "V_hat", "generalisation_error"):
        assert getattr(solved, name) == pytest.approx(getattr(closed, name), rel=2e-6)
    assert solved.training_error == pytest.approx(closed.training_error, abs=1e-6)
    assert math.isnan(solved.training_loss)  # its part along (1, …, 1) is not known


def test_square_equations_at_five_classes_within_their_uncertainty():
    solved = fixed_point(5, PlainSquare(), 0.5, 3.0, 2e-4)
    closed = fixed_point(5, "square", 0.5, 3.0)
    assert abs(solved.generalisation_error - closed.generalisation_error) < solved.uncertainty
    off = abs(solved.training_error - closed.training_error)
    assert off < solved.training_error_uncertainty


@pytest.mark.parametrize("k", [2, 3, 4])
def test_a_loss_added_by_value_gradient_and_hessian(k):
    point = fixed_point(k, Differences(), 0.8, 2.5, tol=1e-6 if k <= 3 else 1e-3)
    closed = fixed_point(k, "square", 0.8, 2.5)
    allowed = max(2e-6, point.uncertainty)
    assert abs(point.generalisation_error - closed.generalisation_error) < allowed


@pytest.mark.parametrize("k", [2, 3])
def test_a_subclass_that_changes_the_loss_inherits_no_short_cut(k):
    other = fixed_point(k, "cross-entropy", 0.1, 2.0)
    for loss, factor in ((Scaled(), 5), (Stretched(), 25))[k - 2 :]:
        point = fixed_point(k, loss, 0.1, 2.0)
        same = fixed_point(k, "cross-entropy", 0.1 / factor, 2.0)
        away = abs(point.generalisation_error - same.generalisation_error)
        assert away < point.uncertainty + same.uncertainty
        assert abs(other.generalisation_error - same.generalisation_error) > 1e-4
        assert point.training_error == pytest.approx(same.training_error, abs=1e-8)
        if (k, factor) == (2, 5):  # logistic_regression(2.0, 0.01) of test_erm_theory_reference
            assert point.generalisation_error == pytest.approx(0.174781, abs=1e-6)


def test_square_susceptibility_is_the_stieltjes_transform_of_marchenko_pastur():
    """V = lim (1/d) tr (XᵀX/d + λ)⁻¹, integrated over the law of the eigenvalues."""
    for alpha, ridge in ((0.5, 0.2), (2.0, 1.0), (8.0, 0.01)):
        low, high = (1 - math.sqrt(alpha)) ** 2, (1 + math.sqrt(alpha)) ** 2

        def density(x, low=low, high=high):
            return math.sqrt((high - x) * (x - low)) / (2 * math.pi * x)

        bulk = quad(lambda x, r=ridge: density(x) / (x + r), low, high, epsabs=1e-12)[0]
        expected = bulk + max(1 - alpha, 0) / ridge
        assert pytest.approx(expected, rel=1e-8) == fixed_point(3, "square", ridge, alpha).V


def test_minimum_norm_interpolation_and_its_divergence():
    c, s2 = label_signal(3)
    above, below = fixed_point(3, "square", 0, 2.0), fixed_point(3, "square", 0, 0.5)
    assert above.q == pytest.approx(c**2 + (s2 - c**2))
    assert below.m == pytest.approx(0.5 * c)
    assert below.training_loss == 0
    at_one = fixed_point(3, "square", 0, 1.0)
    assert at_one.status == Status.DIVERGES
    assert math.isinf(at_one.q)
    assert at_one.generalisation_error == pytest.approx(2 / 3)
    # the limit is continuous: small ridges approach it, and the peak grows
    for alpha in (0.5, 2.0):
        near = fixed_point(3, "square", 1e-9, alpha).generalisation_error
        limit = fixed_point(3, "square", 0, alpha).generalisation_error
        assert near == pytest.approx(limit, abs=1e-7)
    peaks = [fixed_point(3, "square", r, 1.0).generalisation_error for r in (1e-2, 1e-4, 1e-8)]
    assert peaks == sorted(peaks)
    assert peaks[-1] > 0.64


@pytest.mark.parametrize("k", [2, 3, 7])
def test_best_square_ridge_is_a_minimum_at_every_alpha(k):
    best = best_square_ridge(CLEAN, k)
    for alpha in (0.3, 1.0, 10.0):
        centre = fixed_point(k, "square", "optimal", alpha)
        assert centre.ridge == best
        for factor in (0.8, 1.25):
            other = fixed_point(k, "square", factor * best, alpha)
            assert other.generalisation_error > centre.generalisation_error


@pytest.mark.parametrize("k", [2, 3, 5])
def test_large_ridge(k):
    """λ → ∞: no feedback, mλ → αc and qλ² → α²c² + α/k, for every loss with ∇ℓ(0) = 1/k − e_y."""
    c, s2 = label_signal(k)
    ridge = 1e6 if k <= 3 else 1e5
    point = fixed_point(k, "cross-entropy", ridge, 2.0)
    tolerance = 1e-5 if k <= 3 else 3e-3
    assert point.m * ridge == pytest.approx(2 * c, rel=tolerance)
    assert point.q * ridge**2 == pytest.approx(4 * c**2 + 2 * s2, rel=tolerance)
    assert point.training_loss == pytest.approx(math.log(k), rel=1e-4 if k <= 3 else 3e-3)


@pytest.mark.parametrize(("k", "alpha"), [(2, 0.5), (3, 0.2)])
def test_small_ridge_tends_to_max_margin(k, alpha):
    limit = fixed_point(k, "cross-entropy", 0, alpha)
    assert limit.generalisation_error == fixed_point(k, "max-margin", 0, alpha).generalisation_error
    gaps = [
        abs(
            fixed_point(k, "cross-entropy", ridge, alpha).generalisation_error
            - limit.generalisation_error
        )
        for ridge in (1e-3, 1e-6, 1e-10)
    ]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] < 0.004


@pytest.mark.parametrize("k", [2, 3])
def test_halving_the_tolerance_moves_less_than_the_uncertainty(k):
    rng = np.random.default_rng(5)
    for _ in range(4 if k == 3 else 10):
        alpha, ridge = 10 ** rng.uniform(-1.7, 3), 10 ** rng.uniform(-6, 3)
        coarse = fixed_point(k, "cross-entropy", ridge, alpha, tol=1e-6)
        fine = fixed_point(k, "cross-entropy", ridge, alpha, tol=1e-9)
        assert coarse.status == fine.status == Status.OK
        change = abs(coarse.generalisation_error - fine.generalisation_error)
        assert change < coarse.uncertainty < 1e-6
        for name in ("training_loss", "training_error"):
            change = abs(getattr(coarse, name) - getattr(fine, name))
            assert change <= getattr(coarse, f"{name}_uncertainty")


class SquaredHinge(Loss):
    """½ Σ_h (1 − z_y + z_h)₊²: its second derivative jumps, and it does not say where."""

    name = "broken-hinge"

    def _missing(self, z, y):
        z, rows = np.asarray(z, dtype=float), np.arange(len(y))
        missing = np.maximum(1 - z[rows, y][:, None] + z, 0)
        missing[rows, y] = 0
        return missing, rows

    def value(self, z, y):
        return 0.5 * (self._missing(z, y)[0] ** 2).sum(1)

    def gradient(self, z, y):
        missing, rows = self._missing(z, y)
        missing[rows, y] = -missing.sum(1)
        return missing

    def hessian(self, z, y):
        missing, _ = self._missing(z, y)
        towards = np.eye(missing.shape[1]) - np.eye(missing.shape[1])[y][:, None, :]  # e_h − e_y
        return np.einsum("nh,nhi,nhj->nij", missing > 0, towards, towards)


class Broken(Coordinates):
    """With a break at 1."""

    resolved = True

    def line_breaks(self, breaks, V):
        return np.union1d(super().line_breaks(breaks, V), 1.0)


class BrokenHinge(SquaredHinge):
    """The same, which says that it pulls below a gap of 1 only."""

    @property
    def coordinates(self):
        return Broken(self)


@pytest.mark.parametrize(("alpha", "ridge"), [(2.0, 0.1), (1.0, 0.3), (0.5, 0.02), (6.0, 1.0)])
def test_a_loss_that_hides_where_it_is_broken_gets_an_honest_uncertainty(alpha, ridge):
    truth = fixed_point(2, BrokenHinge(), ridge, alpha, tol=1e-10)
    assert truth.status == "ok"
    for tol in (1e-4, 1e-6, 1e-8):
        found = fixed_point(2, SquaredHinge(), ridge, alpha, tol=tol)
        off = abs(found.generalisation_error - truth.generalisation_error)
        assert off < found.uncertainty


def test_uncertainties_of_many_classes_are_honest():
    """Within the stated uncertainty of a ten times finer run, which uses more points."""
    for k, alpha, ridge in ((4, 2.0, 0.1), (10, 5.0, 0.01)):
        coarse = fixed_point(k, "cross-entropy", ridge, alpha, tol=1e-3)
        fine = fixed_point(k, "cross-entropy", ridge, alpha, tol=8e-5)
        for name, spread in (
            ("generalisation_error", "uncertainty"),
            ("training_loss", "training_loss_uncertainty"),
            ("training_error", "training_error_uncertainty"),
        ):
            change = abs(getattr(coarse, name) - getattr(fine, name))
            assert change < getattr(coarse, spread) + getattr(fine, spread)
        assert fine.status == Status.OK


@settings(max_examples=12, deadline=None)
@given(st.integers(2, 3), st.floats(-1.3, 2.0), st.floats(-5.0, 2.5))
def test_properties(k, log_alpha, log_ridge):
    alpha, ridge = 10**log_alpha, 10**log_ridge
    point = fixed_point(k, "cross-entropy", ridge, alpha)
    assert 0 <= point.correlation <= 1
    assert point.m**2 <= point.q * (1 + 1e-12)
    assert 0 < point.generalisation_error < 1 - 1 / k
    assert point.training_error <= point.generalisation_error + point.uncertainty
    weaker = pc.generalisation_error(0.99 * point.correlation, k)
    assert weaker > point.generalisation_error
    (bayes,) = curve_rows(pc.Teacher(k), pc.BayesOptimal(), [alpha])
    slack = point.uncertainty + bayes["uncertainty"]
    assert bayes["generalisation_error"] <= point.generalisation_error + slack


def test_optimal_ridge_of_cross_entropy_is_a_minimum():
    best = fixed_point(3, "cross-entropy", "optimal", 5.0)
    assert best.ridge == pytest.approx(optimal_ridge(pc.Teacher(3), "cross_entropy", 5.0))
    for factor in (0.7, 1.4):
        other = fixed_point(3, "cross-entropy", factor * best.ridge, 5.0)
        assert other.generalisation_error > best.generalisation_error


def test_rows_share_the_schema_and_ignore_the_prior():
    estimator = pc.ERM("cross-entropy", 0.1)
    gaussian = erm_rows(pc.Teacher(3), estimator, [2.0, 1.0, 0.0])
    rademacher = erm_rows(pc.Teacher(3, "rademacher"), estimator, [2.0, 1.0, 0.0])
    assert [row["alpha"] for row in gaussian] == [2.0, 1.0, 0.0]
    assert gaussian[2]["generalisation_error"] == pytest.approx(2 / 3)
    for first, second in zip(gaussian, rademacher, strict=True):
        assert first["generalisation_error"] == second["generalisation_error"]
        assert second["prior"] == "rademacher"
        assert first["estimator"] == "cross-entropy"
    (perceptron,) = erm_rows(pc.Perceptron("rademacher"), estimator, [2.0])
    (argmax,) = erm_rows(pc.Teacher(2), estimator, [2.0])
    assert perceptron["generalisation_error"] == argmax["generalisation_error"]


def test_iteration_ends_at_the_fixed_point():
    for loss, ridge in (("cross-entropy", 2.0), ("square", 0.5)):
        steps = erm_state_evolution(pc.Teacher(3), pc.ERM(loss, ridge), 1.0, 25)
        point = fixed_point(3, loss, ridge, 1.0, tol=1e-8)
        assert steps[0].generalisation_error == pytest.approx(2 / 3)
        assert steps[-1].m == pytest.approx(point.m, rel=1e-6)
        assert pytest.approx(point.V, rel=1e-6) == steps[-1].V
    hard = erm_state_evolution(pc.Teacher(2), "max-margin", 0.5, 250)
    expected = fixed_point(2, "max-margin", 0, 0.5, tol=1e-8)
    assert hard[-1].q == pytest.approx(expected.q, rel=1e-4)
    assert pytest.approx(expected.V, rel=1e-4) == hard[-1].V


def mass(x, density):
    return float(np.trapezoid(density, x))


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize(
    ("loss", "ridge"), [("cross-entropy", 0.1), ("square", 0.5), ("max-margin", 0)]
)
def test_margins_hold_the_errors(k, loss, ridge):
    scale = {"cross-entropy": 1.0, "square": 0.2, "max-margin": 0.6}[loss]
    left, right = np.linspace(-25, 0, 90), np.linspace(0, 25, 90)
    wrong, fine = (
        margin_law(pc.Teacher(k), pc.ERM(loss, ridge), 3.0, scale * x) for x in (left, right)
    )
    left, right = scale * left, scale * right
    point = wrong.point
    assert mass(left, wrong.fresh) == pytest.approx(point.generalisation_error, abs=2e-3)
    assert mass(left, wrong.training) == pytest.approx(point.training_error, abs=3e-3)
    assert mass(left, wrong.fresh) + mass(right, fine.fresh) == pytest.approx(1, abs=2e-3)
    total = mass(left, wrong.training) + mass(right, fine.training) + fine.atom
    assert total == pytest.approx(1, abs=3e-2)
    if loss == "max-margin":
        assert fine.training[right < 1].max() == 0


def test_ridge_rows_mark_the_optimum():
    parts = ridge_parts(pc.Teacher(2), "cross-entropy", [2.0], [0.01, 0.1, 1.0])
    rows = [row for part in parts for row in part]
    best = [row for row in rows if row["is_best"]]
    assert len(best) == 1
    assert best[0]["generalisation_error"] == min(row["generalisation_error"] for row in rows)
    with pytest.raises(InvalidInput, match="nothing to compare"):
        next(ridge_parts(pc.Teacher(2), "max-margin", [2.0], [0.0]))


def test_boundary_density_of_three_classes():
    assert boundary_density(2) == pytest.approx(1)
    assert boundary_density(3) == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: fixed_point(3, "square", 1, -1), "alpha must be"),
        (lambda: fixed_point(3, "square", 1, float("inf")), "alpha must be"),
        (lambda: fixed_point(3, "square", 1, 1, tol=-1), "tolerance"),
        (lambda: fixed_point(3, Shifted(), 1, 1), "does not sum to zero"),
        (lambda: fixed_point(3, Unfair(), 1, 1), "treats the classes alike"),
        (
            lambda: erm_state_evolution(pc.Teacher(3), pc.ERM("cross-entropy", 0), 1),
            "ridge above 0",
        ),
        (lambda: erm_state_evolution(pc.Teacher(3), "square", 1, start=(2, 1, 1)), "start"),
    ],
)
def test_bad_input_says_what_is_allowed(call, words):
    with pytest.raises(InvalidInput, match=words):
        call()
