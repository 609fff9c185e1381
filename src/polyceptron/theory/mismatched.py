"""A posterior that assumes another noise and another variance of the weights than the teacher's.

The student assumes labels of a channel Z_s and weights N(0, s²); the teacher draws labels by Z⁰.
With ω ~ N(0, q), f_l = ∇ ln Z_s,l(ω, V) and Z⁰_l at mean (m/q)ω and variance 1 − m²/q,

    m̂ = (α/r) E Σ ∇Z⁰_l·f_l,    q̂ = (α/r) E Σ Z⁰_l‖f_l‖²,    V̂ = −(α/r) E Σ Z⁰_l tr ∂f_l
    V = 1/(1/s² + V̂),    m = m̂V,    q = (m̂² + q̂)V²

are the replica-symmetric equations (eq. SE) without the Nishimori line m = q = 1 − V, on which they
fall back where the assumptions are right. They are those of empirical risk minimisation with a
ridge 1/s² and f in place of the pull of a loss, so that the same equations and the same root
finding solve them (`theory/erm`). Features of variances s_i along which the teacher's weights have
variances θ_i enter by the products p_i = s_iθ_i, as in Bayes-optimal learning: the student knows
them, and assumes weights N(0, s²θ_i).

    generalisation error    that of the posterior mean, of correlation m/√q
    Gibbs error             that of a draw from the posterior, of correlation m/√(q + V)
    test loss               −rΨ,    Ψ = (1/r) E Σ Z⁰_l ln Z_s,l
    evidence/(rd)           ⟨½ ln(V_i/s²) + ½(m̂²p² + q̂p)V_i⟩ + αΨ − m̂m + ½(V̂(q + V) − q̂V)

with V_i = 1/(1/s² + V̂p_i) and ⟨·⟩ the mean over features. The evidence is the logarithm of the
probability of the labels under the assumptions; its derivative in α is Ψ.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from polyceptron.checks import check_alpha, check_alphas, check_tolerance
from polyceptron.errors import InvalidInput
from polyceptron.numerics import Array, with_one_blas_thread
from polyceptron.numerics.panels import GAUSS_BREAKS, blend_breaks
from polyceptron.problem.channels import Channel
from polyceptron.problem.losses.coordinates import Pull
from polyceptron.problem.order import Conjugates, ScalarOrder
from polyceptron.problem.penalties import Ridge
from polyceptron.problem.populations import AnyTeacher, check_teacher
from polyceptron.problem.specs.mismatched_bayes import MismatchedBayes
from polyceptron.problem.spectrum import Spectrum
from polyceptron.progress import steps
from polyceptron.rows import Row, Status, make_row
from polyceptron.sides.fields.integrand import CORNER_BREAKS, PosteriorScore
from polyceptron.sides.generalisation import error_at_tau, error_on_labels
from polyceptron.sides.scalar import FieldsSide, PenaltySide, Problem
from polyceptron.solve.continuation import follow_root
from polyceptron.solve.root import Root
from polyceptron.solve.solution import Solution, Stats, status_within
from polyceptron.theory.erm.coarse_root import try_from
from polyceptron.theory.erm.equations import Equations, equations
from polyceptron.theory.erm.fixed_point import default_tolerance
from polyceptron.theory.erm.refinement import Refined, refine
from polyceptron.theory.erm.square_closed_form import solve_square
from polyceptron.theory.separability import separable_up_to

FEW_SAMPLES = 0.05  # α at which the student hardly leaves its prior, and `linear_start` is good
SHARE_OF_TOLERANCE = 1e-3  # for k ≤ 3: one or two levels more, so that α times the loss is known
SMALLEST_STIFFNESS = 1e-12  # of a score at ω = 0, where labels are nearly guesses
LARGEST_STIFFNESS = (
    1 - 1e-6
)  # times s²: a score is never stiffer than the Gaussian it looks through


@dataclass(frozen=True)
class AssumedScore(PosteriorScore):
    """The student f = ∇ ln Z_s of an assumed channel, off the Nishimori line.

    Its loss is −ln Z_s, the predictive log-loss on a fresh sample.
    """

    resolved: ClassVar[bool] = True
    scale_free: ClassVar[bool] = False

    def at_gaps(self, gaps: Array, V: float) -> Pull:
        """Return score, curvature and −ln Z_s of label 1 at gaps ω₁ − ω_h (c, n).

        Where classes are many, c may be less than k − 1: the others are out of the race.
        """
        n = gaps.shape[1]
        omega = np.concatenate([np.zeros((n, 1)), -gaps.T], axis=1)
        label = np.zeros(n, dtype=np.int64)
        inner = self.channel.utility(omega, label, V, NODES_OF_CHANNEL)
        log_z = inner.log_z
        score = inner.score
        curvature = inner.curvature
        guess = self.channel.guess(self.n_classes)
        if guess > 0:
            # Z_s = η' + (1 − kη')P; `share` is the part of it that P explains.
            log_p = math.log1p(-self.n_classes * guess) + log_z
            log_z = np.logaddexp(math.log(guess), log_p)
            share = np.exp(log_p - log_z)
            curvature = share * (curvature - (1 - share) * (score**2).sum(1))
            score = share[:, None] * score
        margin = gaps[0] + V * (score[:, 0] - score[:, 1])
        return Pull(score[:, 1:].T, curvature, -log_z, margin)

    def line_breaks(self, breaks: Array, V: float) -> Array:
        """Return break points (b',) of the gap that also follow the assumed channel's width."""
        lengths = math.sqrt(2) * self.channel.width(V) * GAUSS_BREAKS
        own = np.append(-lengths[:0:-1], lengths)
        return blend_breaks([breaks, own], float(breaks[0]), float(breaks[-1]))

    def plane_breaks(self, row: Array, breaks: Array, V: float) -> Array:
        """Return the break points (rows, b') of the second gap, the same for each row."""
        own = math.sqrt(2) * self.channel.width(V) * CORNER_BREAKS
        columns = blend_breaks([breaks, own], float(breaks[0]), float(breaks[-1]))
        return np.broadcast_to(columns, (len(row), len(columns)))


# Nodes of the assumed channel's integral for k ≥ 4: scores are good to seven digits at k = 10.
NODES_OF_CHANNEL = 20


@dataclass(frozen=True, kw_only=True, repr=False)
class MismatchedPoint(Solution):
    """The fixed point of a posterior with assumptions of its own.

    Every `…_uncertainty` holds in at least 99 of 100 cases.

    Attributes
    ----------
    n_classes : int
    alpha : float
        n/d.
    m, q, V : float
        Overlap, norm and posterior variance, per class direction.
    m_hat, q_hat, V_hat : float
        Their conjugates.
    clean_error : float
        Of the posterior mean, against the noiseless rule.
    gibbs_error : float
        Of a draw from the posterior, on labels as drawn.
    test_loss : float
        −E ln p_y of the predictive probabilities p on fresh samples.
    evidence : float
        ln P(labels | assumptions) per dimension and class direction.
    """

    n_classes: int
    alpha: float
    m: float = math.nan
    q: float = math.nan
    V: float = math.nan
    m_uncertainty: float = math.nan
    q_uncertainty: float = math.nan
    V_uncertainty: float = math.nan
    m_hat: float = math.nan
    q_hat: float = math.nan
    V_hat: float = math.nan
    clean_error: float = math.nan
    gibbs_error: float = math.nan
    gibbs_error_uncertainty: float = math.nan
    test_loss: float = math.nan
    test_loss_uncertainty: float = math.nan
    evidence: float = math.nan
    evidence_uncertainty: float = math.nan


def mismatched_sides(teacher: AnyTeacher, spec: MismatchedBayes, alpha: float) -> Problem:
    """Return both sides of the loop: the assumed channel's score, and a ridge 1/s²."""
    student = AssumedScore(spec.assumed_channel(teacher), teacher.n_classes)
    fields = FieldsSide(teacher.channel, student, teacher.n_classes, alpha)
    weights = PenaltySide(
        Ridge(1 / spec.variance), whitened_features(teacher.features), teacher.row
    )
    return Problem(fields, weights)


def whitened_features(features: Spectrum) -> Spectrum:
    """Return the spectrum of eigenvalues p = sθ along which the teacher's weights have variance 1.

    A student who knows s and θ sees the products alone.
    """
    if features.flat:
        return Spectrum(np.ones(1), name="isotropic")
    hidden_directions = 1 - features.rank
    power = np.append(features.power, 0.0)
    fraction = np.append(features.fraction, hidden_directions)
    return Spectrum(power, fraction=fraction)


@with_one_blas_thread
def mismatched_point(
    teacher: AnyTeacher, spec: MismatchedBayes, alpha: float, tol: float | None = None
) -> MismatchedPoint:
    """Return order parameters, errors, test loss and evidence at n = αd.

    Parameters
    ----------
    teacher : Teacher or Perceptron
        Its weights enter by their variance only.
    spec : MismatchedBayes
        What the student assumes.
    alpha : float
        n/d.
    tol : float, optional
        Of the generalisation error: 1e-6 for k = 2, 3, else 1e-4.

    Returns
    -------
    MismatchedPoint
        Its status is 'diverges' where noiseless labels are assumed and no weights explain the
        labels: the evidence is then −∞.

    Examples
    --------
    >>> from polyceptron.problem import Teacher
    >>> assumed = MismatchedBayes("gaussian:0.5")
    >>> round(mismatched_point(Teacher(2, noise="gaussian:0.5"), assumed, 1.0).q, 5)
    0.33122
    """
    check_teacher(teacher)
    alpha = check_alpha(alpha)
    tol = check_tolerance(tol, default_tolerance(teacher.n_classes))
    spec.assumed_channel(teacher).guess(teacher.n_classes)  # says so when flips leave no rule
    if alpha == 0:
        return _nothing_learned(teacher, spec)
    if _labels_are_impossible(teacher, spec, alpha):
        return MismatchedPoint(
            n_classes=teacher.n_classes, alpha=alpha, evidence=-math.inf, status=Status.DIVERGES
        )
    return _solved(mismatched_sides(teacher, spec, alpha), tol)


def mismatched_rows(
    teacher: AnyTeacher, spec: MismatchedBayes, alphas: Iterable[float], tol: float | None = None
) -> list[Row]:
    """Return a row for each α, computed independently of the others."""
    rows = []
    for alpha in steps(check_alphas(alphas)):
        point = mismatched_point(teacher, spec, alpha, tol)
        rows.append(_row(teacher, spec, point))
    return rows


def _row(teacher: AnyTeacher, spec: MismatchedBayes, point: MismatchedPoint) -> Row:
    clean_error = None
    if not teacher.channel.noiseless:
        clean_error = point.clean_error
    return make_row(
        source="theory",
        **teacher.columns,
        **spec.columns,
        alpha=point.alpha,
        m=point.m,
        q=point.q,
        V=point.V,
        generalisation_error=point.generalisation_error,
        uncertainty=point.uncertainty,
        clean_error=clean_error,
        gibbs_error=point.gibbs_error,
        gibbs_error_uncertainty=point.gibbs_error_uncertainty,
        test_loss=point.test_loss,
        test_loss_uncertainty=point.test_loss_uncertainty,
        evidence=point.evidence,
        evidence_uncertainty=point.evidence_uncertainty,
        status=point.status,
    )


def _nothing_learned(teacher: AnyTeacher, spec: MismatchedBayes) -> MismatchedPoint:
    """Return the prior at α = 0: every class is a guess."""
    guess = 1 - 1 / teacher.n_classes
    return MismatchedPoint(
        n_classes=teacher.n_classes,
        alpha=0.0,
        m=0.0,
        q=0.0,
        V=spec.variance,
        m_uncertainty=0.0,
        q_uncertainty=0.0,
        V_uncertainty=0.0,
        m_hat=0.0,
        q_hat=0.0,
        V_hat=0.0,
        clean_error=guess,
        generalisation_error=guess,
        uncertainty=0.0,
        gibbs_error=guess,
        gibbs_error_uncertainty=0.0,
        test_loss=math.log(teacher.n_classes),
        test_loss_uncertainty=0.0,
        evidence=0.0,
        evidence_uncertainty=0.0,
        status=Status.OK,
    )


def _labels_are_impossible(teacher: AnyTeacher, spec: MismatchedBayes, alpha: float) -> bool:
    """Return whether noiseless labels are assumed where no weights give the labels (α ≥ α_s)."""
    assumed = spec.assumed_channel(teacher)
    if not assumed.noiseless or teacher.channel.noiseless:
        return False
    return alpha >= separable_up_to(teacher, False)


def _solved(problem: Problem, tol: float) -> MismatchedPoint:
    """Solve the equations on finer and finer rules, until the error is known to `tol`."""
    system = equations(problem)
    refined = None
    with contextlib.suppress(ArithmeticError, np.linalg.LinAlgError):
        root = _coarse_root(system)
        if root.converged:
            refined = refine(system, root, _inner_tolerance(problem, tol))
    if refined is None or not math.isfinite(refined.uncertainty):
        return MismatchedPoint(n_classes=problem.n_classes, alpha=problem.alpha, stats=system.stats)
    return _point_of(problem, refined, tol, system.stats)


def _inner_tolerance(problem: Problem, tol: float) -> float:
    """Return the tolerance on ε to solve for: panels give digits of the evidence for little.

    Not those of a channel that is a table: its scores take seconds.
    """
    if problem.nodes_are_random or _score(problem).channel.accuracy > 0:
        return tol
    return SHARE_OF_TOLERANCE * tol


def _coarse_root(system: Equations) -> Root:
    """Return the root on a coarse rule: directly, from two classes, or along α from few samples."""
    problem = system.problem
    root = try_from(system, linear_start(problem))
    if root.converged:
        return root
    if problem.n_classes > 2:
        with contextlib.suppress(InvalidInput):  # flips may leave no rule between two classes
            twin = _coarse_root(system.of(_two_class_twin(problem)))
            root = try_from(system, twin.theta, twin.jacobian)
        if root.converged:
            return root
    goal = math.log(problem.alpha)

    def attempt(log_alpha: float, theta: Array | None, jacobian: Array | None) -> Root:
        """Solve at another α, from a root close to it if there is one."""
        here = system
        if log_alpha != goal:
            here = system.of(problem.at_alpha(math.exp(log_alpha)))
        if theta is None:
            theta = linear_start(here.problem)
        return try_from(here, theta, jacobian)

    return follow_root(attempt, min(math.log(FEW_SAMPLES), goal), goal)


def _two_class_twin(problem: Problem) -> Problem:
    """Return the same student of two classes, with as many samples per pair of classes."""
    channel = _score(problem).channel
    channel.guess(2)
    problem.channel.guess(2)
    fields = replace(
        problem.fields,
        student=AssumedScore(channel, 2),
        n_classes=2,
        alpha=problem.alpha / problem.n_classes,
    )
    return replace(problem, fields=fields)


def _score(problem: Problem) -> AssumedScore:
    """Return the student of the problem."""
    student = problem.fields.student
    assert isinstance(student, AssumedScore)
    return student


def linear_start(problem: Problem) -> Array:
    """Return θ = (ln τ, ln q, ln V) of the score's expansion at ω = 0 and V = s².

    f ≈ β(e_y − 1/k) − hω is the pull of a quadratic loss with slope β/(1 − s²h) and Hessian
    h/(1 − s²h), which least squares solves in closed form.
    """
    k = problem.n_classes
    variance = 1 / problem.ridge
    pull = _score(problem).at_gaps(np.zeros((k - 1, 1)), variance)
    slope = -k * float(pull.others[0, 0])
    stiffness = max(float(pull.trace[0]) / (k - 1), SMALLEST_STIFFNESS)
    softness = 1 - min(variance * stiffness, LARGEST_STIFFNESS)
    hessian = stiffness / softness
    law, _ = solve_square(
        k,
        problem.channel.signal(k),
        problem.alpha,
        problem.ridge / hessian,
        problem.weights.spectrum,
    )
    return np.log([law.tau, law.q * (slope / stiffness) ** 2, law.V / hessian])


def _point_of(problem: Problem, refined: Refined, tol: float, stats: Stats) -> MismatchedPoint:
    """Return all that is reported of an answer."""
    k = problem.n_classes
    rank = k - 1
    theta = refined.theta
    law = _law(theta)
    hats = problem.fields.hats(refined.averages)
    test_loss = float(refined.averages.loss[0])
    m_bar, q_bar, V_bar, gibbs_bar = _moved_by_bars(problem, theta, refined.theta_uncertainty)
    return MismatchedPoint(
        n_classes=k,
        alpha=problem.alpha,
        m=law.m,
        q=law.q,
        V=law.V,
        m_uncertainty=m_bar,
        q_uncertainty=q_bar,
        V_uncertainty=V_bar,
        m_hat=hats.m,
        q_hat=hats.q,
        V_hat=hats.V,
        clean_error=float(error_at_tau(law.tau, k)),
        generalisation_error=refined.error,
        uncertainty=refined.uncertainty,
        gibbs_error=gibbs_error(problem.channel, law, k),
        gibbs_error_uncertainty=gibbs_bar,
        test_loss=test_loss,
        test_loss_uncertainty=refined.loss_uncertainty,
        evidence=log_evidence(problem, law, hats, -test_loss / rank),
        evidence_uncertainty=problem.alpha * refined.loss_uncertainty / rank,
        status=status_within(refined.uncertainty, tol),
        stats=stats,
    )


def _law(theta: Array) -> ScalarOrder:
    """Return the order parameters at θ = (ln τ, ln q, ln V)."""
    return ScalarOrder(math.exp(theta[0]), math.exp(theta[1]), math.exp(theta[2]))


def _moved_by_bars(problem: Problem, theta: Array, bars: Array) -> Array:
    """Return by how much m, q, V and the Gibbs error move with the bars (3,) of θ, shape (4,)."""

    def numbers(theta: Array) -> Array:
        """Return m, q, V and the Gibbs error (4,) at the unknowns θ."""
        law = _law(theta)
        gibbs = gibbs_error(problem.channel, law, problem.n_classes)
        return np.array([law.m, law.q, law.V, gibbs])

    here = numbers(theta)
    total = np.zeros(4)
    for number, bar in enumerate(bars):
        moved = theta.copy()
        moved[number] += bar
        total += np.abs(numbers(moved) - here)
    return total


def gibbs_error(channel: Channel, law: ScalarOrder, n_classes: int) -> float:
    """Return the error on labels of a draw from the posterior, whose fields have norm q + V.

    ρ = m/√(q + V), so that τ = ρ/√(1 − ρ²) = m/√(q(1 − m²/q) + V).
    """
    tau = law.m / math.sqrt(law.q * law.residual + law.V)
    return float(error_on_labels(channel, tau, n_classes))


def log_evidence(problem: Problem, law: ScalarOrder, hats: Conjugates, psi: float) -> float:
    """Return ln P(labels | assumptions) per dimension and class direction.

    It is stationary in all six order parameters at the fixed point.
    """
    spectrum = problem.weights.spectrum
    p = spectrum.eigenvalues
    V_of_feature = 1 / (problem.ridge + hats.V * p)
    log_shrinkage = -np.log1p(hats.V * p / problem.ridge)  # ln(V_i/s²)
    gain = (hats.m**2 * p**2 + hats.q * p) * V_of_feature
    of_weights = 0.5 * float(spectrum.fraction @ (log_shrinkage + gain))
    legendre = -hats.m * law.m + 0.5 * (hats.V * (law.q + law.V) - hats.q * law.V)
    return of_weights + problem.alpha * psi + legendre
