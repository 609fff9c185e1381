"""A posterior that assumes another noise and another variance of the weights than the teacher's.

The student assumes labels of a channel Z^a and weights N(0, s²); the teacher draws labels by Z⁰.
Classes are alike, so that m, q and V are numbers for each of the r = k − 1 class directions. With
ω ~ N(0, q) in each of them, f_l = ∇ ln Z^a_l(ω, V), Z⁰_l at mean (m/q)ω and variance 1 − m²/q, and
sums over the labels l,

    m̂ = (α/r) E Σ ∇Z⁰_l·f_l,    q̂ = (α/r) E Σ Z⁰_l‖f_l‖²,    V̂ = −(α/r) E Σ Z⁰_l tr ∂f_l
    V = 1/(1/s² + V̂),    m = m̂V,    q = (m̂² + q̂)V²

are those of a posterior that is not Bayes-optimal (behind eq. update_eq_NBO, which is at the
Bayes-optimal pair). With right assumptions m = q = 1 − V (eq. nishimori). They are those of
empirical risk minimisation (eq. SE) with a ridge 1/s² and f in place of the pull of a loss, so that
the same equations, root finding and refinement solve them (`theory/erm`), for the unknowns θ = (ln
τ, ln q, ln V), shape (3,), with τ = ρ/√(1 − ρ²) and ρ = m/√q. Features of variance a_i along which
the teacher's weights have variance b_i enter by the products p_i = a_i b_i (`Spectrum.power`), as
in Bayes-optimal learning: the student knows them, and assumes weights N(0, s²b_i).

    generalisation error    that of the posterior mean, of correlation m/√q (eq. generalization_ERM)
    Gibbs error             that of a draw from the posterior, of correlation m/√(q + V)
    test loss               −rΨ,    Ψ = (1/r) E Σ Z⁰_l ln Z^a_l
    evidence/(rd)           ⟨½ ln(V_i/s²) + ½(m̂²p_i² + q̂p_i)V_i⟩ + αΨ − m̂m + ½(V̂(q + V) − q̂V)

with V_i = 1/(1/s² + V̂p_i) and ⟨·⟩ the mean over features. The evidence is the logarithm of the
probability of the labels under the assumptions (the free entropy of eq. free_entropyNBO, less its
value without samples); its derivative in α is Ψ.

Error bars of ε, θ and test loss are made in `theory/erm/refinement.py`, the others in `_point_of`.
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
# Of `tol`, for k ≤ 3: one or two levels of the quadrature more give α times the loss, too.
SHARE_OF_TOLERANCE = 1e-3
SMALLEST_STIFFNESS = 1e-12  # −∂f at ω = 0, where labels are nearly guesses
# s² times −∂f: at V = s², −∂f is 1/V less a posterior variance over V², so that this is below 1.
LARGEST_STIFFNESS = 1 - 1e-6
# Nodes of the assumed channel's integral for k ≥ 4: scores are good to seven digits at k = 10.
NODES_OF_CHANNEL = 20


@dataclass(frozen=True)
class AssumedScore(PosteriorScore):
    """The student f = ∇ ln Z^a of an assumed channel, in the form of the coordinates of a loss.

    Its loss is −ln Z^a, the predictive log-loss on a fresh sample.
    """

    # Both are for the error bars of `theory/erm/refinement.py`. Break points follow all widths.
    resolved: ClassVar[bool] = True
    scale_free: ClassVar[bool] = False  # not a hard margin

    def at_gaps(self, gaps: Array, V: float) -> Pull:
        """Return f, −tr ∂f and −ln Z^a of label 1 at gaps ω₁ − ω_h (c, n), the smallest first.

        Where classes are many, c may be less than k − 1: the others have no chance of winning.
        """
        n = gaps.shape[1]
        omega = np.concatenate([np.zeros((n, 1)), -gaps.T], axis=1)
        label = np.zeros(n, dtype=np.int64)
        inner = self.channel.utility(omega, label, V, NODES_OF_CHANNEL)
        log_z = inner.log_z
        score = inner.score
        curvature = inner.curvature  # −tr ∂² ln P
        guess = self.channel.guess(self.n_classes)
        if guess > 0:
            # Z^a = η' + (1 − kη')P with η' = `guess`; `share` is the part of it that P explains.
            log_p = math.log1p(-self.n_classes * guess) + log_z
            log_z = np.logaddexp(math.log(guess), log_p)
            share = np.exp(log_p - log_z)
            curvature = share * (curvature - (1 - share) * (score**2).sum(1))
            score = share[:, None] * score
        # The gap of ω + V f to the best rival, which has the smallest gap: `Pull` asks for it.
        margin = gaps[0] + V * (score[:, 0] - score[:, 1])
        return Pull(others=score[:, 1:].T, trace=curvature, value=-log_z, margin=margin)

    def line_breaks(self, breaks: Array, V: float) -> Array:
        """Return break points (b',) of the gap that also follow the assumed channel's width.

        A gap of two fields has √2 times the width of one; `GAUSS_BREAKS` begin at 0.
        """
        lengths = math.sqrt(2) * self.channel.width(V) * GAUSS_BREAKS
        own = np.append(-lengths[:0:-1], lengths)
        return blend_breaks([breaks, own], float(breaks[0]), float(breaks[-1]))

    def plane_breaks(self, row: Array, breaks: Array, V: float) -> Array:
        """Return the break points (rows, b') of the gap g₂ − g₁ ≥ 0 at each node `row` of g₁."""
        own = math.sqrt(2) * self.channel.width(V) * CORNER_BREAKS
        columns = blend_breaks([breaks, own], float(breaks[0]), float(breaks[-1]))
        return np.broadcast_to(columns, (len(row), len(columns)))


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
    """Return the spectrum of eigenvalues p = ab along which the teacher's weights have variance 1.

    A student who knows the variances a of features and b of weights there sees the products alone.
    `features.rank` is the share of the directions in which features vary; the others have p = 0.
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
    spec.assumed_channel(teacher).guess(teacher.n_classes)  # raises where flips leave no rule
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
    return alpha >= separable_up_to(teacher, intercept=False)


def _solved(problem: Problem, tol: float) -> MismatchedPoint:
    """Solve the equations on levels of more and more nodes, until the error is known to `tol`.

    Without a root the point has NaN in place of numbers, and the default status of a `Solution`.
    """
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
    """Return the tolerance on ε to solve for: panels, for k ≤ 3, give more digits for little.

    Not those of a channel whose chances are from a table (`accuracy` above 0): they take seconds.
    """
    if problem.nodes_are_random or _score(problem).channel.accuracy > 0:
        return tol
    return SHARE_OF_TOLERANCE * tol


def _coarse_root(system: Equations) -> Root:
    """Return a root on a coarse level: directly, from two classes, or along α from few samples."""
    problem = system.problem
    root = try_from(system, linear_start(problem))
    if root.converged:
        return root
    if problem.n_classes > 2:
        with contextlib.suppress(InvalidInput):  # so many flips may be too many for two classes
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
    """Return the same student of two classes, with 1/k of the samples: its root is near enough.

    Raise `InvalidInput` where flips leave no rule to learn between two classes (`guess`).
    """
    channel = _score(problem).channel
    channel.guess(2)  # each raises
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
    """Return θ (3,) of the score's expansion at ω = 0 and V = s².

    f ≈ β(e_y − 1/k) − hω is the pull of a quadratic loss of slope β/(1 − s²h) and Hessian
    H = h/(1 − s²h), since f = (βH/h (e_y − 1/k) − Hω)/(1 + s²H). Least squares has H = 1 and slope
    1 and is solved in closed form (`solve_square`): at the ridge 1/(s²H) its weights are h/β times
    these, and its V is H times this one.
    """
    k = problem.n_classes
    assumed_variance = 1 / problem.ridge  # s²
    pull = _score(problem).at_gaps(np.zeros((k - 1, 1)), assumed_variance)
    beta = -k * float(pull.others[0, 0])  # at ω = 0 the pull on another class is −β/k
    h = max(float(pull.trace[0]) / (k - 1), SMALLEST_STIFFNESS)
    hessian = h / (1 - min(assumed_variance * h, LARGEST_STIFFNESS))
    law, _ = solve_square(
        k,
        problem.channel.signal(k),
        problem.alpha,
        problem.ridge / hessian,
        problem.weights.spectrum,
    )
    return np.log([law.tau, law.q * (beta / h) ** 2, law.V / hessian])


def _point_of(problem: Problem, refined: Refined, tol: float, stats: Stats) -> MismatchedPoint:
    """Return all that is reported of an answer.

    The bar of the evidence is that of αΨ: it is stationary in the order parameters.
    """
    k = problem.n_classes
    r = k - 1
    theta = refined.theta
    law = _law(theta)
    hats = problem.fields.hats(refined.averages)
    test_loss = float(refined.averages.loss[0])
    m_error, q_error, V_error, gibbs_uncertainty = _moved_by_uncertainty(
        problem, theta, refined.theta_uncertainty
    )
    return MismatchedPoint(
        n_classes=k,
        alpha=problem.alpha,
        m=law.m,
        q=law.q,
        V=law.V,
        m_uncertainty=m_error,
        q_uncertainty=q_error,
        V_uncertainty=V_error,
        m_hat=hats.m,
        q_hat=hats.q,
        V_hat=hats.V,
        clean_error=float(error_at_tau(law.tau, k)),
        generalisation_error=refined.error,
        uncertainty=refined.uncertainty,
        gibbs_error=gibbs_error(problem.channel, law, k),
        gibbs_error_uncertainty=gibbs_uncertainty,
        test_loss=test_loss,
        test_loss_uncertainty=refined.loss_uncertainty,
        evidence=log_evidence(problem, law, hats, -test_loss / r),
        evidence_uncertainty=problem.alpha * refined.loss_uncertainty / r,
        status=status_within(refined.uncertainty, tol),
        stats=stats,
    )


def _law(theta: Array) -> ScalarOrder:
    """Return the order parameters at θ = (ln τ, ln q, ln V)."""
    return ScalarOrder(math.exp(theta[0]), math.exp(theta[1]), math.exp(theta[2]))


def _moved_by_uncertainty(problem: Problem, theta: Array, uncertainty: Array) -> Array:
    """Return the uncertainties of m, q, V and the Gibbs error, shape (4,), from that of θ (3,).

    Each θ_i is raised by its own uncertainty, and the absolute changes are added: to first order
    this is right whatever the signs of the three errors are.
    """

    def numbers(theta: Array) -> Array:
        """Return m, q, V and the Gibbs error (4,) at the unknowns θ."""
        law = _law(theta)
        gibbs = gibbs_error(problem.channel, law, problem.n_classes)
        return np.array([law.m, law.q, law.V, gibbs])

    here = numbers(theta)
    total = np.zeros(4)
    for i, by in enumerate(uncertainty):
        moved = theta.copy()
        moved[i] += by
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
