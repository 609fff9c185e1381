"""Message passing on data, for any number of classes k: Bayes-optimal (`amp`), for ERM (`amp_erm`).

Algorithm 1 of the paper (`alg:amp`) alternates between two updates of an iterate (Ŵ, V, f), weights
with their variance and the scores of the samples:

- a *student* makes scores f = f_out(y, ω, V) of the fields ω = XŴ/√d − V f, and −tr ∂f;
- a *belief* makes weights Ŵ = f_w(γ, Λ) and their variance V of γ = Xᵀf/√d + ΛŴ, Λ = Σ(−∂f)/d.

The functions here check their input and choose the two. A `Step` (`steps.py`) holds them and maps
an iterate to the next one; `Run.iterate` does so, from the start given here, until the weights
stand still. Weights (r, d) and scores (r, n) are in the coordinates of `run.basis` (k, r), whose
columns are orthonormal: r = k − 1 for differences of the classes, r = k for a loss of an ERM that
also depends on the part common to all classes. Results have weights (d, k).

Bayes-optimal: the student is the channel of the labels, the belief a row of the prior (f_out and
f_w of eq. den_func). State evolution follows it step by step: entry t of the trace is the point
after t iterations, and its q compares with entry t of `theory.state_evolution`.

Empirical risk minimisation: the student is a loss ℓ, the belief a penalty; for a ridge λ (app. C,
"ERM update functions", and f as in eq. AMP2; eq. auxiliary_defs prints the prox alone)

    f = (prox_{Vℓ}(ω) − ω)/V,      Ŵ = γ/(λ + Λ),      V = 1/(λ + Λ).

At a fixed point z = XŴ/√d = prox(ω) and f = −∇ℓ(z), so that λŴ = Xᵀf/√d: the gradient of

    Σ_μ ℓ(Wᵀx_μ/√d, y_μ) + (λ/2)‖W‖²_F                       (eq. optimization_ERM, inputs x/√d)

vanishes, whatever V and Λ are. Gaussian data are needed for convergence, not for correctness.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np

from polyceptron import checks
from polyceptron.data import checks as data_checks
from polyceptron.data.design import weights_or_ones
from polyceptron.data.watching import Callback
from polyceptron.errors import InvalidInput
from polyceptron.message_passing.channel_student import channel_student
from polyceptron.message_passing.iteration import Iterate, Step
from polyceptron.message_passing.result import AMPResult
from polyceptron.message_passing.run import Reporting, Run, ScaledBelief, ScaledRow
from polyceptron.message_passing.steps import (
    FullVarianceStep,
    MatrixVarianceStep,
    SharedVarianceStep,
)
from polyceptron.numerics import Array
from polyceptron.problem.losses import Loss, as_loss
from polyceptron.problem.losses.checks import class_coordinates
from polyceptron.problem.order import Belief
from polyceptron.problem.penalties import Penalty, Ridge, as_penalty
from polyceptron.problem.populations import make_teacher
from polyceptron.problem.priors import WeightsRow
from polyceptron.problem.specs.mismatched_bayes import check_assumed_variance
from polyceptron.problem.teacher import AnyTeacher

# The one V of classes that are alike, for an ERM, is never below this: a step divides by it.
LEAST_SUSCEPTIBILITY = 1e-12


@np.errstate(under="ignore")  # Densities far out are 0.
def amp(
    X: Any,
    y: Any,
    prior: Any = None,
    variances: str = "shared",
    tol: float = 1e-8,
    max_iter: int = 200,
    teacher_weights: Any = None,
    *,
    start: str = "uninformed",
    model: str = "argmax",
    n_classes: int | None = None,
    noise: Any = "none",
    prior_variance: float = 1.0,
    features: Any = "isotropic",
    biases: Any = None,
    shares: Any = None,
    verbose: int = 0,
    callback: Callback | None = None,
    checkpoint: Any = None,
    checkpoint_every: float = 60.0,
) -> AMPResult:
    """Posterior mean of the teacher's weights, by Bayes-optimal approximate message passing.

    Parameters
    ----------
    X : array, memory map, sparse matrix or Dask array of shape (n, d)
        Inputs with entries of unit variance, or with the variances of `features`, largest first. It
        is neither copied nor scaled.
    y : array of int of shape (n,)
        Class indices 0..k−1, each at least once unless `n_classes` is given.
    prior : str, tuple or Prior, default="gaussian", of the perceptron "rademacher"
        Distribution of the weights: a registered name, a pair (values, probabilities) or a `Prior`.
    variances : "shared" or "full", default="shared"
        'shared' is one number for all, which is right for large d; 'full' is a matrix for every
        sample and coordinate, P diag(v) P with P = I − 11ᵀ/k and one number of v for each class.
    tol : float, default=1e-8
        Relative change of weights and scores at which it has converged, 1e-5 at least in float32.
    max_iter : int, default=200
        Largest number of iterations.
    teacher_weights : array of shape (d, k), default=None
        If they are given, the trace has overlap and error.
    start : "uninformed" or "informed", default="uninformed"
        Where to start: from no knowledge, or at `teacher_weights`.
    model : "argmax" or "perceptron", default="argmax"
        The latter has one weight vector w, of which the weights are (−w, w)/√2.
    n_classes : int, default=None
        k, where not every class has a sample.
    noise : str or Channel, default="none"
        Noise of the labels: a registered name such as 'gaussian:0.25' or 'flips:0.1', or a
        `Channel`.
    prior_variance : float, default=1.0
        Factor of the variance of the prior, where weights are thought to be larger or smaller than
        the prior says.
    features : str or Spectrum, default="isotropic"
        Variances of the inputs.
    biases, shares : sequence of float of length k, default=None
        For a teacher with unequal classes: what it adds to its fields, or how often each class is
        drawn. Variances are then "full", since directions differ; sample weights are not possible.
    verbose, callback, checkpoint, checkpoint_every
        Those of `fit_erm`.

    Returns
    -------
    AMPResult
        Where it does not converge, the best iterate with the status 'not-converged'; after Ctrl-C
        that with 'interrupted'.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, W = rng.standard_normal((60, 30)), rng.standard_normal((30, 3))
    >>> amp(X, (X @ W).argmax(1)).weights.shape
    (30, 3)
    """
    data_checks.check_choice("variances", variances, ("shared", "full"))
    data_checks.check_choice("start", start, ("uninformed", "informed"))
    data_checks.check_choice("model", model, ("argmax", "perceptron"))
    run = Run.checked(X, y, n_classes, teacher_weights, features, tol, max_iter)
    k = run.samples.n_classes
    teacher = make_teacher(model, k, prior, noise, features, biases=biases, shares=shares)
    if not teacher.symmetric:
        variances = "full"
    prior_variance = check_assumed_variance(prior_variance)
    # About 2n√V samples lie within √V of a boundary between classes, which fields of variance 1
    # cross with a density of order 1, and the others tell nothing: let them be 8.
    least_variance = (4 / run.samples.design.n_samples) ** 2
    return run.iterate(
        _bayes_step(run, teacher, prior_variance, variances, least_variance),
        _bayes_start(run, teacher, prior_variance, start, variances, least_variance),
        Reporting(verbose, callback, checkpoint, checkpoint_every),
        exchangeable=teacher.symmetric,
        settings={
            "method": "amp",
            "biases": repr(_biases(teacher)),
            "prior": teacher.prior.name,
            "prior_variance": prior_variance,
            "noise": teacher.channel.name,
            "model": model,
            "variances": variances,
            "start": start,
        },
    )


def _biases(teacher: AnyTeacher) -> float | Array:
    """Return what the teacher adds to its fields: 0, or numbers (k,)."""
    if teacher.symmetric:
        return 0.0
    return teacher.offsets


def _prior_variances(teacher: AnyTeacher, prior_variance: float, dimension: int) -> Array:
    """Return the variances (d,) of the weights of features scaled to unit variance.

    Feature i of variance s_i has weights of variance θ_i, and √s_i times these weights when it is
    scaled. `prior_variance` is a factor of all; the mean of s_i θ_i is 1.
    """
    s, theta = teacher.features.at(dimension)
    return prior_variance * s * theta


def _bayes_step(
    run: Run, teacher: AnyTeacher, prior_variance: float, variances: str, least_variance: float
) -> Step:
    """Return the step of Algorithm 1 with the teacher's channel and prior.

    `teacher.row` is the prior of a feature's weights on all classes, with variance 1.
    """
    design, labels, _ = run.samples
    belief: WeightsRow | ScaledRow = teacher.row
    if prior_variance != 1 or not teacher.features.isotropic:
        of_features = _prior_variances(teacher, prior_variance, design.dimension)
        belief = ScaledRow(teacher.row, np.sqrt(of_features))
    if variances == "full":
        return FullVarianceStep(
            design, labels, run.basis, teacher.channel, belief, least_variance, _biases(teacher)
        )
    student = channel_student(teacher.channel, run.samples.n_classes)
    return SharedVarianceStep(design, labels, run.basis, student, belief, least_variance)


def _bayes_start(
    run: Run,
    teacher: AnyTeacher,
    prior_variance: float,
    start: str,
    variances: str,
    least_variance: float,
) -> Iterate:
    """Return the first iterate: from the prior alone, or at the teacher's own weights.

    `run.truth` (d, k) are these weights for features scaled to unit variance. The variance is a
    number, or v (k, d) of the matrices P diag(v_j) P of each feature: one number for each class,
    although weights are in k − 1 coordinates.
    """
    design, _, k = run.samples
    if start == "informed":
        if run.truth is None:
            raise InvalidInput("an informed start needs teacher_weights")
        weights = (run.truth @ run.basis).T.copy()
        shared = least_variance
        of_features = np.full(design.dimension, least_variance)
    else:
        weights = np.zeros((k - 1, design.dimension))
        shared = prior_variance
        of_features = _prior_variances(teacher, prior_variance, design.dimension)
    scores = np.zeros((k - 1, design.n_samples))
    if variances == "full":
        return Iterate(weights, np.tile(of_features, (k, 1)), scores)
    return Iterate(weights, shared, scores)


@np.errstate(under="ignore")  # Densities far out are 0.
def amp_erm(
    X: Any,
    y: Any,
    loss: Any = "cross-entropy",
    ridge: float = checks.DEFAULT_RIDGE,
    *,
    penalty: Any = None,
    intercept: bool = False,
    class_weight: Any = None,
    tol: float = 1e-9,
    max_iter: int = 500,
    teacher_weights: Any = None,
    n_classes: int | None = None,
    features: Any = "isotropic",
    verbose: int = 0,
    callback: Callback | None = None,
    checkpoint: Any = None,
    checkpoint_every: float = 60.0,
) -> AMPResult:
    """The minimiser of the regularised empirical risk, by message passing.

    Parameters
    ----------
    X, y, tol, max_iter, teacher_weights, n_classes, features
        Those of `amp`.
    loss : str or Loss, default="cross-entropy"
        A registered loss, or one of your own.
    ridge : float, default=0.1
        λ; 0 is the limit that the loss defines (max-margin for cross-entropy), and max-margin has
        the same weights at any ridge.
    penalty : str or Penalty, default=None
        A penalty instead of the ridge: a registered name such as 'elastic-net:0.1:0.5', or a
        `Penalty`.
    intercept, class_weight
        Those of `fit_erm`, for a ridge and losses of class differences. Sample weights are not
        possible then, and V is a matrix.
    verbose, callback, checkpoint, checkpoint_every
        Those of `fit_erm`.

    Returns
    -------
    AMPResult
        Its `variance` is V, the rescaled susceptibility 1/(λ + Λ).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, W = rng.standard_normal((80, 40)), rng.standard_normal((40, 3))
    >>> str(amp_erm(X, (X @ W).argmax(1), "square", ridge=0.5).status)
    'ok'
    """
    chosen_loss, chosen_penalty = _loss_and_penalty(loss, ridge, penalty)
    run = Run.checked(X, y, n_classes, teacher_weights, features, tol, max_iter)
    # A ridge is the same in all orthonormal coordinates (k, r) of the classes: r = k if the loss
    # sees more than differences. Any other penalty is one of weights on differences, r = k − 1.
    if chosen_penalty.quadratic:
        run = replace(run, basis=class_coordinates(chosen_loss, run.samples.n_classes))
    factors = data_checks.class_factors(class_weight, run.samples)
    exchangeable = not data_checks.check_intercept(intercept) and factors is None
    if exchangeable:
        step, start = _shared_erm(run, chosen_loss, chosen_penalty)
    else:
        _check_matrix_step(run, chosen_loss, chosen_penalty)
        step, start = _matrix_erm(run, chosen_loss, chosen_penalty.strength, factors, intercept)
    return run.iterate(
        step,
        start,
        Reporting(verbose, callback, checkpoint, checkpoint_every),
        exchangeable=exchangeable,
        settings={
            "method": "amp_erm",
            "loss": chosen_loss.name,
            "penalty": chosen_penalty.name,
            "ridge": chosen_penalty.strength,
            "intercept": bool(intercept),
            "class_weight": repr(class_weight),
        },
    )


def _loss_and_penalty(loss: Any, ridge: float, penalty: Any) -> tuple[Loss, Penalty]:
    """Return what is minimised; at ridge 0, the hard constraints that are the loss's limit."""
    chosen_loss = as_loss(loss)
    if penalty is None:
        chosen_penalty: Penalty = Ridge(ridge)
    else:
        chosen_penalty = as_penalty(penalty)
    if chosen_penalty.strength > 0:
        return chosen_loss, chosen_penalty
    if not chosen_penalty.quadratic:
        raise InvalidInput(
            f"message passing needs a penalty of a strength above 0, got {chosen_penalty.name!r}"
        )
    limit = chosen_loss.without_ridge()
    if limit is None or not limit.scale_free:
        raise InvalidInput(
            f"message passing needs a ridge above 0 for the loss {chosen_loss.name!r}, "
            f"got {chosen_penalty.strength!r}"
        )
    # Hard constraints (`scale_free`) have the same minimiser at any ridge: 1 is recorded.
    return limit, Ridge(1.0)


def _shared_erm(run: Run, loss: Loss, penalty: Penalty) -> tuple[Step, Iterate]:
    """Return step and start with one number V, for classes that are exchangeable.

    Both loss and penalty have a proximal map: `loss.denoise(ω, y, V)` returns f (n, k) and −tr ∂f
    (n,), `penalty.denoise(γ, Λ)` the weights (d, k) and the trace of their variance. The start is
    Ŵ = 0, with V = 1/λ as for Λ = 0.
    """
    design, labels, _ = run.samples
    belief = cast("Belief", penalty)
    if run.feature_deviations is not None:
        belief = ScaledBelief(belief, run.feature_deviations)
    step = SharedVarianceStep(design, labels, run.basis, loss.denoise, belief, LEAST_SUSCEPTIBILITY)
    r = run.basis.shape[1]
    start = Iterate(
        np.zeros((r, design.dimension)), 1 / penalty.strength, np.zeros((r, design.n_samples))
    )
    return step, start


def _check_matrix_step(run: Run, loss: Loss, penalty: Penalty) -> None:
    """Raise unless the step with a matrix V can be made for this loss and penalty.

    It takes −∂f of a sample from the Hessian of the loss. A hinge has none at its kink, where a
    positive share of the samples ends (`margin_atom`); for two classes, one difference, −∂f is
    known otherwise.
    """
    k, r = run.basis.shape
    sees_common_part = r == k
    kink_in_several_differences = loss.margin_atom is not None and r > 1
    if not penalty.quadratic or sees_common_part or kink_in_several_differences:
        raise InvalidInput(
            "message passing with an intercept or class weights takes a ridge and a smooth "
            f"loss of class differences, got {loss.name!r} with {penalty.name!r}"
        )


def _matrix_erm(
    run: Run, loss: Loss, ridge: float, factors: Array | None, intercept: bool
) -> tuple[Step, Iterate]:
    """Return step and start with a matrix V (r, r), for factors (n,) of the losses and intercepts.

    The penalty is a ridge. The start is Ŵ = 0, with V = I/λ as for Λ = 0.
    """
    design, labels, _ = run.samples
    feature_variances = np.ones(1)
    if run.feature_deviations is not None:
        feature_variances = run.feature_deviations**2
    step = MatrixVarianceStep(
        design,
        labels,
        loss,
        ridge,
        weights_or_ones(factors, labels.size),
        feature_variances,
        intercept,
    )
    r = run.basis.shape[1]
    start = Iterate(
        np.zeros((r, design.dimension + 1)),  # the last column holds the intercepts
        1 / ridge * np.eye(r),
        np.zeros((r, design.n_samples)),
    )
    return step, start
