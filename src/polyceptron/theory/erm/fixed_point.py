"""Fixed points of empirical risk minimisation: one (α, λ) at a time (eq. SE, cor. gen_error_ERM).

The estimator is Ŵ = argmin Σ_μ ℓ(Wᵀx_μ/√d, y_μ) + (λ/2)‖W‖² (eq. optimization_ERM), n = αd.

Where all classes are alike, m, q and V of eq. SE are numbers per class direction (multiples of
I − 11ᵀ/k), and so are the conjugates m̂, q̂, V̂. The unknowns are θ = (ln τ, ln q, ln V), shape (3,),
with τ = ρ/√(1 − ρ²) and ρ = m/√q the correlation of student and teacher fields. `equations` writes
eq. SE as F(θ) = 0 for a `Problem`: the fields side averages over one sample by a rule, nodes of
quadrature or random points on levels of rising number; the weights side is the ridge and the
spectrum of the features. The generalisation error ε depends on τ alone.

`erm_fixed_point` decides how a problem is solved:

- unequal classes: matrices (`unequal_classes`);
- a penalty other than a ridge: from the ridge of the same strength;
- no samples, or hinges without a majority class: the weights are 0;
- the square loss: in closed form (`square_closed_form`);
- the best ridge: a search (`best_ridge`);
- no ridge and noisy labels: weights diverge at α_s, up to which data are separable; close to it the
  root is followed from further away (`near_separability`);
- else `solve`: the root on a coarse level (`coarse_root`), corrected on finer ones (`refinement`).

`refinement` makes the error bars of ε and θ; the bars of the training loss and error are completed
here. Rows of learning curves are made of these points in `rows`.
"""

import contextlib
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, overload

import numpy as np

from polyceptron.checks import check_alpha, check_alphas, check_tolerance
from polyceptron.errors import ComputationFailed
from polyceptron.numerics import Array, with_one_blas_thread
from polyceptron.numerics.estimate import estimate_from_replicates
from polyceptron.problem import Estimator
from polyceptron.problem.losses import LOSSES, Loss, check_symmetric
from polyceptron.problem.order import Conjugates, ScalarOrder
from polyceptron.problem.penalties import Penalty
from polyceptron.problem.populations import AnyTeacher, Mixture, check_population
from polyceptron.problem.specs import ERM, as_erm
from polyceptron.progress import steps
from polyceptron.rows import Status
from polyceptron.sides.fields.integrand import FEW
from polyceptron.sides.scalar import PROBABILITY_ROUNDING, Problem, erm_sides
from polyceptron.solve.root import Root
from polyceptron.solve.solution import status_within
from polyceptron.theory.erm import square_closed_form as square
from polyceptron.theory.erm import unequal_classes as unequal
from polyceptron.theory.erm.best_ridge import best_ridge
from polyceptron.theory.erm.coarse_root import coarse_root
from polyceptron.theory.erm.equations import Equations, equations
from polyceptron.theory.erm.near_separability import towards_limit
from polyceptron.theory.erm.point import ErmFixedPoint, point_at, unsolved_point
from polyceptron.theory.erm.population_point import PopulationPoint
from polyceptron.theory.erm.refinement import Refined, refine
from polyceptron.theory.erm.small_weights import small_weights
from polyceptron.theory.erm.training import acts_along_ones
from polyceptron.theory.separability import loss_at_ridge, separable_up_to

# q up to which hinges are as in the limit of small weights.
LARGEST_SMALL_NORM = 0.1
# |α/α_s − 1|: half of the error to which α_s is known for two and three classes, the only ones for
# which a point so close to it is found. Closer, that error decides how far q has diverged.
CLOSEST_TO_ALPHA_S = 5e-11
# Of ε at the stages on the way to a penalty: each is only the start of the next.
TOLERANCE_OF_STAGES = 1e-3
LARGEST_LOG_Q = 230.0  # q of 1e100: the search went astray

# What a caller may name as the student: `as_erm` makes an `ERM` of it.
ErmLike = Estimator | Loss | str


def default_tolerance(n_classes: int) -> float:
    """Return the tolerance on the generalisation error: 1e-6 up to three classes, 1e-4 above."""
    if n_classes in FEW:
        return 1e-6
    return 1e-4


@overload
def erm_fixed_point(
    teacher: Mixture, estimator: ErmLike, alpha: float, tol: float | None = None
) -> PopulationPoint: ...
@overload
def erm_fixed_point(
    teacher: AnyTeacher, estimator: ErmLike, alpha: float, tol: float | None = None
) -> ErmFixedPoint: ...
@overload
def erm_fixed_point(
    teacher: AnyTeacher,
    estimator: ErmLike,
    alpha: Sequence[float] | Array,
    tol: float | None = None,
) -> list[ErmFixedPoint]: ...
@with_one_blas_thread
def erm_fixed_point(teacher: Any, estimator: ErmLike, alpha: Any, tol: float | None = None) -> Any:
    """Return m, q, V and the errors of argmin Σℓ + (λ/2)‖W‖² at n = αd, d → ∞ (eq. SE).

    Parameters
    ----------
    teacher : Teacher, Perceptron or Mixture
    estimator : ERM, Loss or str
        A loss or its name stands for its `ERM`.
    alpha : float or array_like
        n/d, one or several.
    tol : float, optional
        Wanted uncertainty of the generalisation error: by default 1e-6 for k = 2, 3, else 1e-4, or
        1e-3 for unequal classes. The square loss needs none.

    Returns
    -------
    ErmFixedPoint, or a list of them for several α
        For unequal classes (a mixture, biases, class weights) a `PopulationPoint`, with matrices
        instead of scalars.

    Examples
    --------
    >>> from polyceptron.problem import Mixture, Teacher
    >>> rare = Mixture(shares=(0.9, 0.1), separation=2.0)
    >>> erm_fixed_point(rare, ERM(intercept=True), 3.0).recall.round(4).tolist()
    [0.9721, 0.267]
    >>> point = erm_fixed_point(Teacher(3), ERM("square", 1.0), 2.0)
    >>> round(point.generalisation_error, 5)
    0.30546
    """
    check_population(teacher)
    spec = as_erm(estimator)
    if np.ndim(alpha):  # each point is computed independently of the others
        return [erm_fixed_point(teacher, spec, a, tol) for a in check_alphas(alpha)]
    if not spec.sees_equal_classes(teacher):
        return unequal.population_point(teacher, spec, alpha, tol)
    if spec.penalty is not None:
        return _with_penalty(teacher, spec.loss, spec.penalty, alpha, tol)
    alpha = check_alpha(alpha)
    tol = check_tolerance(tol, default_tolerance(teacher.n_classes))
    problem = _ridge_problem(teacher, spec, alpha)
    searched = spec.ridge == "optimal"
    if alpha == 0:
        return _without_samples(problem, searched)
    if problem.closed_form and searched:
        return square.best_square_point(problem)
    if problem.closed_form:
        return square.square_fixed_point(problem)
    return _by_search(teacher, spec, problem, tol)


def _by_search(teacher: AnyTeacher, spec: ERM, problem: Problem, tol: float) -> ErmFixedPoint:
    """Solve at a ridge, or at the best one, for a loss without a closed form."""
    searched = spec.ridge == "optimal"
    small = _limit_of_small_weights(teacher, problem)
    if small is not None and small.V == 0:
        return _without_weights(problem, searched)
    if problem.weights_diverge_somewhere:
        return _near_separability(teacher, problem, tol)
    if searched and not problem.loss.scale_free:

        def without_ridge() -> ErmFixedPoint:  # a loss may give a ridge of 0 no meaning
            """Return the fixed point in the limit λ → 0."""
            return erm_fixed_point(teacher, ERM(spec.loss, 0.0), problem.alpha, tol)

        return best_ridge(problem, tol, solve, without_ridge)
    if small is not None and small.q < LARGEST_SMALL_NORM:
        start = np.log([small.tau, small.q, small.V])
        # A round of the loop without ridge multiplies V by g, and weights vanish at g = 1, where
        # the equations are singular, as at α_s. With a ridge λV = 1 − 1/g is the distance from it.
        return solve(problem, tol, start, distance=problem.ridge * small.V)
    return solve(problem, tol)


def _ridge_problem(teacher: AnyTeacher, spec: ERM, alpha: float) -> Problem:
    """Return both sides with the loss that a ridge amounts to (hard margins for λ = 0).

    The best ridge is not known yet: the problem has the ridge 1 then.
    """
    loss = loss_at_ridge(spec.loss, spec.ridge, teacher, alpha)
    if not any(type(loss) is entry.make for entry in LOSSES.entries):
        check_symmetric(loss, teacher.n_classes)
    ridge = 1.0
    if not isinstance(spec.ridge, str):
        ridge = float(spec.ridge)
    return erm_sides(teacher, loss, ridge, alpha)


def _limit_of_small_weights(teacher: AnyTeacher, problem: Problem) -> ScalarOrder | None:
    """Return the order parameters at small weights, for hinges that may have them; else None.

    These are losses whose pulls on a sample have a bounded sum (`pooled`).
    """
    if not problem.loss.pooled or problem.n_classes == 2 or teacher.noise.noiseless:
        return None
    return small_weights(problem)


def _without_samples(problem: Problem, searched: bool) -> ErmFixedPoint:
    """Return the estimate 0 of no samples: every class is a guess, and nothing was trained."""
    V = math.inf
    if problem.ridge > 0 and not searched:
        V = 1 / problem.ridge
    guess = 1 - 1 / problem.n_classes
    return replace(
        point_at(problem, ScalarOrder(0.0, 0.0, V), Conjugates(0.0, 0.0, 0.0)),
        ridge=_ridge_or_unknown(problem, searched),
        generalisation_error=guess,
        clean_error=guess,
        uncertainty=0.0,
        training_loss_uncertainty=math.nan,
        training_error_uncertainty=math.nan,
        status=Status.OK,
    )


def _without_weights(problem: Problem, searched: bool) -> ErmFixedPoint:
    """Return the estimate 0 of a hinge: every class is a guess, and the loss is 1."""
    guess = 1 - 1 / problem.n_classes
    return replace(
        point_at(problem, ScalarOrder(0.0, 0.0, 0.0), Conjugates(0.0, 0.0, math.inf)),
        ridge=_ridge_or_unknown(problem, searched),
        generalisation_error=guess,
        clean_error=guess,
        uncertainty=0.0,
        training_loss=1.0,
        training_loss_uncertainty=0.0,
        training_error=guess,
        training_error_uncertainty=0.0,
        status=Status.OK,
    )


def _ridge_or_unknown(problem: Problem, searched: bool) -> float:
    """Return λ, NaN where the best one is asked for and all are as good."""
    if searched:
        return math.nan
    return problem.ridge


def _near_separability(teacher: AnyTeacher, problem: Problem, tol: float) -> ErmFixedPoint:
    """Solve without a ridge for noisy labels, where weights diverge at α_s."""
    alpha_s = separable_up_to(teacher, intercept=False)
    distance = abs(problem.alpha / alpha_s - 1)
    root = towards_limit(problem, alpha_s)
    if root is None:  # α is not close to α_s
        point = solve(problem, tol, distance=distance)
    elif root.converged:
        point = solve(problem, tol, root.theta, root.jacobian, distance, root)
    else:
        point = solve(problem, tol, root.theta, root.jacobian, distance)
    if distance < CLOSEST_TO_ALPHA_S and point.status == Status.OK:
        return replace(point, status=Status.TOLERANCE_NOT_MET)
    return point


def _with_penalty(
    teacher: AnyTeacher, loss: Loss, penalty: Penalty, alpha: float, tol: float | None
) -> ErmFixedPoint:
    """Solve with any penalty, from the fixed point of a ridge of the same strength.

    If that start is too far, `penalty.path()` gives penalties on the way to this one.
    """
    ridge_point = erm_fixed_point(teacher, ERM(loss, penalty.strength), alpha, tol)
    if ridge_point.q == 0:  # no penalty moves weights from 0
        return ridge_point
    tol = check_tolerance(tol, default_tolerance(teacher.n_classes))
    problem = erm_sides(teacher, loss, penalty.strength, ridge_point.alpha)

    def solved(other: Penalty, tol: float, nearby: ErmFixedPoint) -> ErmFixedPoint:
        """Return the fixed point of another penalty, from one near by."""
        start = np.array([math.log(nearby.tau), math.log(nearby.q), math.log(nearby.V)])
        return solve(problem.with_penalty(other), tol, start)

    point = solved(penalty, tol, ridge_point)
    if point.status != Status.NOT_CONVERGED:
        return point
    last = ridge_point
    for stage in penalty.path():
        stage_tol = max(tol, TOLERANCE_OF_STAGES)
        if stage == penalty:
            stage_tol = tol
        point = solved(stage, stage_tol, last)
        if point.status == Status.NOT_CONVERGED:
            break
        last = point
    return point


def student_order(
    teacher: AnyTeacher, estimator: ERM, alpha: float, tol: float | None = None
) -> tuple[ErmFixedPoint, ScalarOrder, bool]:
    """Return the fixed point at α, the law of the student's fields, and whether they have a scale.

    A hard margin fixes the direction of the weights alone; its law is given at q = V = 1.
    """
    point = erm_fixed_point(teacher, estimator, alpha, tol)
    if not math.isfinite(point.tau):
        raise ComputationFailed(f"the fixed point at alpha {alpha:g} was not found")
    hard = False
    if estimator.penalty is None:
        hard = loss_at_ridge(estimator.loss, point.ridge, teacher, alpha).scale_free
    if hard or not math.isfinite(point.q):
        return point, ScalarOrder(point.tau, 1.0, 1.0), False
    return point, point.law, True


def solve(
    problem: Problem,
    tol: float,
    start: Array | None = None,
    jacobian: Array | None = None,
    distance: float = math.inf,
    root: Root | None = None,
) -> ErmFixedPoint:
    """Return the fixed point with ε to `tol`, or as close as the levels of the rule come.

    Parameters
    ----------
    problem : Problem
    tol : float
        Of ε.
    start : array (3,), optional
        θ = (ln τ, ln q, ln V) near the fixed point.
    jacobian : array (3, 3), optional
        ∂F/∂θ near there.
    distance : float
        Relative distance from where the equations are singular: |α/α_s − 1| where weights diverge
        at α_s, λV where those of hinges vanish. The closer, the finer the level to begin on.
    root : Root, optional
        The coarse root, if it is known.
    """
    system = equations(problem)
    parts = steps(range(2))  # the two halves of the work, for a progress bar
    next(parts)
    if root is None:
        root = coarse_root(system, start, jacobian, distance)
    next(parts)
    refined = _refined_or_none(system, root, tol)
    missed = refined is None or refined.uncertainty > tol
    # Sums over competitors, whose nodes follow the order parameters, have random points as an
    # alternative, whose nodes do not: the second call ends here.
    if missed and problem.nodes_follow_order:
        best_theta = root.theta
        if refined is not None:
            best_theta = refined.theta
        sampled = solve(problem.by_points(), tol, best_theta)
        if refined is None or sampled.uncertainty <= refined.uncertainty:
            return sampled
    if refined is None:
        return replace(unsolved_point(problem), stats=system.stats)
    return _point_of(problem, system, refined, tol)


def _refined_or_none(system: Equations, root: Root, tol: float) -> Refined | None:
    """Return the answer on finer levels, None if there is no root or the search went astray."""
    if not root.converged:  # a finer level may have its root elsewhere
        return None
    with contextlib.suppress(ArithmeticError, np.linalg.LinAlgError):
        refined = refine(system, root, tol)
        if refined.theta[1] <= LARGEST_LOG_Q and math.isfinite(refined.uncertainty):
            return refined
    return None


def _point_of(problem: Problem, system: Equations, refined: Refined, tol: float) -> ErmFixedPoint:
    """Return all that is reported of an answer.

    `system.problem` is not `problem` for hard margins: their equations are solved at the ridge 1.
    """
    law = system.law(refined.theta)
    loss, loss_bar = _training_loss(problem, law, refined)
    mistakes, mistakes_bar = _training_error(problem, law, refined)
    return replace(
        point_at(problem, law, problem.fields.hats(refined.averages)),
        generalisation_error=refined.error,
        uncertainty=refined.uncertainty,
        training_loss=loss,
        training_loss_uncertainty=loss_bar,
        training_error=mistakes,
        training_error_uncertainty=mistakes_bar,
        status=status_within(refined.uncertainty, tol),
        stats=system.stats,
    )


def _training_loss(problem: Problem, law: ScalarOrder, refined: Refined) -> tuple[float, float]:
    """Return the mean training loss and its uncertainty; NaN where the theory does not know it.

    A loss that depends on the part common to all classes, along (1, …, 1), has a mean that class
    differences do not decide. Hard margins do not depend on it, and need no test.
    """
    loss = float(refined.averages.loss[0])  # of the only replicate; NaN of averages in closed form
    if math.isnan(loss) and problem.weights.penalty.quadratic:
        return square.square_training_loss(problem, law), refined.loss_uncertainty
    if not problem.loss.scale_free and acts_along_ones(problem.loss, problem.n_classes):
        return math.nan, math.nan
    return loss, refined.loss_uncertainty


def _training_error(problem: Problem, law: ScalarOrder, refined: Refined) -> tuple[float, float]:
    """Return the training error and its uncertainty.

    Deterministic nodes measure it. Else it is the probability that a fresh sample has a margin
    below a threshold, where training leaves a sample mistaken exactly then
    (`Problem.training_error`). Where neither is known, it is measured on quasi-random points.
    """
    measured = float(refined.averages.error[0])
    if not problem.nodes_are_random and not math.isnan(measured):
        return measured, refined.mistakes_uncertainty
    by_margins = problem.training_error(law)
    if by_margins is not None:
        return by_margins, _bar_of_margins(problem, law, refined, by_margins)
    if problem.nodes_are_random:
        return measured, refined.mistakes_uncertainty
    points = problem.by_points().fields
    averages = points.averages(points.rule.loop_level, law)(law)
    sampled = estimate_from_replicates(averages.error)
    return float(sampled.value), float(sampled.uncertainty)


def _bar_of_margins(problem: Problem, law: ScalarOrder, refined: Refined, value: float) -> float:
    """Return the uncertainty of a training error by margins, `value`.

    Each of τ, q and V is raised by its own relative uncertainty e^u − 1, and the absolute changes
    are added: a bar of first order in u, like those of θ itself.
    """
    up_tau, up_q, up_V = np.exp(refined.theta_uncertainty)
    raised = (
        replace(law, tau=law.tau * up_tau),
        replace(law, q=law.q * up_q),
        replace(law, V=law.V * up_V),
    )
    bar = PROBABILITY_ROUNDING
    for other in raised:
        changed = problem.training_error(other)
        if changed is None:
            return math.inf
        bar += abs(changed - value)
    return bar
