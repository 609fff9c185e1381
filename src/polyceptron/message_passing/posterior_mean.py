"""Message passing on data, for any number of classes: Bayes-optimal (`amp`), for ERM (`amp_erm`).

Bayes-optimal (Algorithm 1, `alg:amp`): the channel is the student and a row of the prior the
belief. State evolution follows it step by step: entry t of the trace is the point after t
iterations, and its q compares with entry t of `theory.state_evolution`.

    q = ‖Ŵ‖²/(d r),   m = ⟨Ŵ, PW*⟩/(d r),   ε = ε(ρ),  ρ = m/√(q q*),  q* = ‖PW*‖²/(d r) → 1

with r = k − 1; ε is that of the noiseless rule. Empirical risk minimisation: the denoisers of a
loss and of a penalty,

    f = (prox_{Vℓ}(ω) − ω)/V,      Ŵ = γ/(λ + Λ),      V = 1/(λ + Λ)              (eq. SE, app. D)

At a fixed point z = XŴ/√d = prox(ω) and f = −∇ℓ(z), so that λŴ = Xᵀf/√d: the gradient of

    Σ_μ ℓ(Wᵀx_μ/√d, y_μ) + (λ/2)‖W‖²_F

vanishes, whatever V and Λ are. Gaussian data are needed for convergence, not for correctness.

Features of variance s are g = x/√s of variance 1 with weights W̃ = √s W. What is believed of a row
of W, or paid for it, becomes that of a row u scaled by c (√s for a penalty, √(sθ) for a prior of
unit variance): W̃ = c·u, u = belief(cγ, c²Λ), Var W̃ = c² Var u. X is not copied: products are
scaled.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np

from polyceptron import checks
from polyceptron.data import checks as data_checks
from polyceptron.data.design import weights_or_ones
from polyceptron.data.stored_designs import scaled
from polyceptron.data.watching import Callback, Watch
from polyceptron.display import ShortDisplay
from polyceptron.errors import InvalidInput
from polyceptron.message_passing import iteration
from polyceptron.message_passing.iteration import Iterate, Step, inner
from polyceptron.numerics import Array
from polyceptron.problem.losses import as_loss
from polyceptron.problem.losses.checks import class_coordinates
from polyceptron.problem.order import Belief, RowEstimate
from polyceptron.problem.penalties import Ridge, as_penalty
from polyceptron.problem.populations import make_teacher
from polyceptron.problem.spectrum import Spectrum, as_spectrum
from polyceptron.rows import Status
from polyceptron.sides.generalisation import generalisation_error


@dataclass(frozen=True, repr=False)
class AMPResult(ShortDisplay):
    """The estimate, its variance, and how it was reached.

    Attributes
    ----------
    weights : ndarray of shape (d, k)
        Posterior mean of the teacher's weights, without the part common to all classes (rows sum to
        zero); for `amp_erm`, the minimiser.
    variance : float or ndarray
        Posterior variance of a weight per class direction: a number for shared variances; for full
        ones covariances (d, k, k) when k ≤ 3, and (d, k) numbers v, the covariance of coordinate j
        being P diag(v_j) P with P = I − 11ᵀ/k, when k > 3; of classes that are not alike, the
        (k, k) matrix that all coordinates share.
    n_iter : int
        Iterations made.
    status : Status
        'ok', or 'not-converged' with the best iterate.
    residual : float
        The change, relative to the weights, that one more undamped iteration would make.
    damping : float
        The largest used, 0 for none.
    trace : list of dict
        Entry t is the point after t iterations, entry 0 the start: iteration, q, residual, damping,
        and if the teacher is known m and generalisation_error.
    scores : ndarray of shape (n, k)
        f of every sample, whose cavity field is XŴ/√d − V f.
    intercepts : ndarray of shape (k,)
        b of the fields Ŵᵀx/√d + b, 0 where none is fitted.

    Examples
    --------
    >>> from polyceptron.problem import Teacher
    >>> result = amp(*Teacher(3).sample(n_samples=300, dimension=100, seed=0)[:2])
    >>> result.weights.shape, str(result.status)
    ((100, 3), 'ok')
    """

    weights: Array
    variance: Any
    n_iter: int
    status: Status
    residual: float
    damping: float = 0.0
    trace: list[dict[str, float]] = field(default_factory=list)
    scores: Array = field(default_factory=lambda: np.zeros((0, 0)))
    intercepts: Array = field(default_factory=lambda: np.zeros(0))

    def _facts(self) -> dict[str, Any]:
        d, k = self.weights.shape
        facts: dict[str, Any] = {"status": str(self.status), "dimension": d, "n_classes": k}
        facts |= {name: getattr(self, name) for name in ("n_iter", "residual", "damping")}
        last = self.trace[-1] if self.trace else {}
        names = ("q", "m", "generalisation_error")
        return facts | {name: float(last[name]) for name in names if name in last}


class _Scaled(NamedTuple):
    """What is believed of rows c·u (d,) where u is one that `inner` knows."""

    inner: Any
    scale: Array

    def denoise(self, gamma: Any, precision: Any) -> RowEstimate:
        found = self.inner.denoise(gamma * self.scale[:, None], precision * self.scale**2)
        return RowEstimate(found.mean * self.scale[:, None], found.variance * self.scale**2)

    def diagonal_posterior(self, gamma: Array, precision: Array) -> tuple[Array, Array]:
        c = self.scale[:, None]
        mean, diagonal = self.inner.diagonal_posterior(gamma * c, precision * c**2)
        return mean * c, diagonal * c**2


class _Run(NamedTuple):
    """One run on samples: coordinates (k, r), features, teacher (d, k), and when it ends."""

    samples: data_checks.Samples
    basis: Array
    spectrum: Spectrum
    truth: Array | None
    tol: float
    max_iter: int

    @classmethod
    def checked(
        cls, X: Any, y: Any, n_classes: Any, truth: Any, features: Any, tol: Any, max_iter: Any
    ) -> _Run:
        """From what was given; of features with a spectrum, those of unit variance."""
        samples, spectrum = data_checks.check_samples(X, y, n_classes), as_spectrum(features)
        design, _, k = samples
        weights = data_checks.check_weights(truth, "teacher_weights", design.dimension, k)
        weights = None if weights is None else checks.project(weights)
        least = 1e-5 if design.dtype == np.float32 else 0.0  # that single precision can meet
        tol = max(checks.check_tolerance(tol, 1e-8), least)
        max_iter = checks.check_size(max_iter, "max_iter")
        if not spectrum.isotropic:
            root = spectrum.deviations(design.dimension)
            whole = np.where(root > 0, root, np.inf)[:, 0]  # without variance: none of it is seen
            samples = replace(samples, design=scaled(design, None, whole))
            weights = None if weights is None else weights * root
        return cls(samples, checks.difference_basis(k), spectrum, weights, tol, max_iter)

    def result(
        self, step: Step, begin: Iterate, watch: Watch, alike: bool, keep: Any, **settings: Any
    ) -> AMPResult:
        """Iterate, told to a watch and kept: a checkpoint, if there is one, and how often.

        The error in the trace is that of classes that are `alike`.
        """
        design, y, k = self.samples
        settings |= {"classes": k, "features": self.spectrum.name}
        watch.checkpoint.open(keep[0], keep[1], design, y, **settings)
        truth = None if self.truth is None else np.ascontiguousarray((self.truth @ self.basis).T)
        size = design.dimension * (k - 1)

        def observe(here: Iterate) -> dict[str, float]:
            U = here.weights[:, : design.dimension]
            if len(U) == k:  # coordinates that show the common part, which is not counted
                U = U - U.mean(0)
            q = {"q": inner(U, U) / size}
            return q if truth is None else q | {"m": inner(U, truth) / size}

        with design.watched(watch):
            end = iteration.damped_iteration(
                step, begin, tol=self.tol, max_iter=self.max_iter, observe=observe, watch=watch
            )
        ends = (end.last.weights, end.last.scores)
        weights, scores = (np.ascontiguousarray(part.T @ self.basis.T) for part in ends)
        weights, intercepts = weights[: design.dimension], weights[design.dimension :].sum(0)
        if not self.spectrum.isotropic:
            root = self.spectrum.deviations(design.dimension)
            weights = np.where(root > 0, weights / np.where(root > 0, root, 1.0), 0.0)
        variance: Any = end.last.variance
        if np.ndim(variance) == 0:
            variance = float(variance)
        elif end.last.weights.shape[1] > design.dimension:
            variance = self.basis @ variance @ self.basis.T
        else:  # covariances P diag(v) P for k ≤ 3, else the numbers v
            P = np.eye(k) - 1 / k
            v = np.ascontiguousarray(variance.T)
            variance = np.einsum("gh,dh,hi->dgi", P, v, P) if k <= 3 else v
        trace = list(end.trace)
        if truth is not None and alike:
            q, m = (np.array([entry[name] for entry in trace]) for name in ("q", "m"))
            rho = m / np.sqrt(np.maximum(q * inner(truth, truth) / size, 1e-300))
            for row, error in zip(trace, generalisation_error(np.clip(rho, -1, 1), k), strict=True):
                row["generalisation_error"] = float(error)
        return AMPResult(
            weights,
            variance,
            end.n_iter,
            end.status,
            end.residual,
            end.damping,
            trace,
            scores,
            intercepts,
        )


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
        Of the weights: a registered name, a pair (values, probabilities) or a `Prior`.
    variances : "shared" or "full", default="shared"
        One number, by self-averaging, or a matrix for every sample and coordinate.
    tol : float, default=1e-8
        Relative change of weights and scores at which it has converged, 1e-5 at least in float32.
    max_iter : int, default=200
        Most iterations.
    teacher_weights : array of shape (d, k), default=None
        With these the trace has overlap and error.
    start : "uninformed" or "informed", default="uninformed"
        Where to begin: from nothing, or at `teacher_weights`.
    model : "argmax" or "perceptron", default="argmax"
        The latter has one weight vector w, of which the weights are (−w, w)/√2.
    n_classes : int, default=None
        k, where not every class has a sample.
    noise : str or Channel, default="none"
        Of the labels: a registered name such as 'gaussian:0.25' or 'flips:0.1', or a `Channel`.
    features : str or Spectrum, default="isotropic"
        Variances of the inputs.
    biases, shares : sequence of float of length k, default=None
        Of a teacher whose classes are not alike: what it adds to its fields, or how often each
        class is drawn. Variances are then "full", since directions differ; samples have no weights.
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
    run = _Run.checked(X, y, n_classes, teacher_weights, features, tol, max_iter)
    (design, labels, k), truth, basis = run.samples, run.truth, run.basis
    teacher = make_teacher(model, k, prior, noise, features, biases=biases, shares=shares)
    alike, offsets = teacher.symmetric, 0.0 if teacher.symmetric else teacher.offsets
    variances = variances if alike else "full"
    channel, row, power = teacher.channel, cast("Any", teacher.row), np.ones(design.dimension)
    if not teacher.features.isotropic:
        s, theta = teacher.features.at(design.dimension)
        power = s * theta
        row = _Scaled(row, np.sqrt(power))
    # Fewer than a few samples within √V of a boundary would be no information at all.
    floor = (4 / design.n_samples) ** 2
    weights, V = np.zeros((k - 1, design.dimension)), 1.0
    if start == "informed":
        if truth is None:
            raise InvalidInput("an informed start needs teacher_weights")
        weights, V = (truth @ basis).T.copy(), floor
    spread: Any = V
    if variances == "full":
        step = iteration.full_step(design, labels, basis, channel, row, floor, offsets)
        spread = np.tile(V * power if start == "uninformed" else V + 0 * power, (k, 1))
    else:
        student = partial(channel.denoise, order=iteration.NODES)
        step = iteration.shared_step(design, labels, basis, student, row, floor)
    return run.result(
        step,
        Iterate(weights, spread, np.zeros((k - 1, design.n_samples))),
        Watch("message passing", verbose, callback),
        alike,
        (checkpoint, checkpoint_every),
        method="amp",
        biases=repr(offsets),
        prior=teacher.prior.name,
        noise=channel.name,
        model=model,
        variances=variances,
        start=start,
    )


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
        In place of the ridge: a registered name such as 'elastic-net:0.1:0.5', or a `Penalty`.
    intercept, class_weight
        Those of `fit_erm`, for a ridge and losses of class differences; of samples there are no
        weights. Classes are then not alike, and V is a matrix.
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
    chosen = as_loss(loss)
    penalty = None if penalty is None else as_penalty(penalty)
    if penalty is None:
        strength = float(checks.check_ridge(ridge))
        if strength == 0:
            limit, strength = chosen.without_ridge(), 1.0  # hard constraints take any ridge
            if limit is None or not limit.scale_free:
                raise InvalidInput(
                    f"message passing needs a ridge above 0 for the loss {chosen.name!r}, got "
                    f"{ridge!r}"
                )
            chosen = limit
        penalty = Ridge(strength)
    run = _Run.checked(X, y, n_classes, teacher_weights, features, tol, max_iter)
    (design, labels, k), belief = run.samples, cast("Belief", penalty)
    if penalty.quadratic:  # any other one is of weights on class differences
        run = run._replace(basis=class_coordinates(chosen, k))
    deviations = None if run.spectrum.isotropic else run.spectrum.deviations(design.dimension)[:, 0]
    if deviations is not None:
        belief = _Scaled(penalty, deviations)
    r, factors = run.basis.shape[1], data_checks.class_factors(class_weight, run.samples)
    weights, spread = np.zeros((r, design.dimension)), 1 / penalty.strength
    step = iteration.shared_step(design, labels, run.basis, chosen.denoise, belief, 1e-12)
    unequal = data_checks.check_intercept(intercept) or factors is not None
    if unequal:
        if not penalty.quadratic or r == k or (chosen.margin_atom is not None and r > 1):
            raise InvalidInput(
                "message passing with an intercept or class weights takes a ridge and a smooth "
                f"loss of class differences, got {chosen.name!r} with {penalty.name!r}"
            )
        step = iteration.matrix_step(
            design,
            labels,
            chosen,
            penalty.strength,
            weights_or_ones(factors, labels.size),
            np.ones(1) if deviations is None else deviations**2,
            intercept,
        )
        weights, spread = np.zeros((r, design.dimension + 1)), spread * np.eye(r)
    return run.result(
        step,
        Iterate(weights, spread, np.zeros((r, design.n_samples))),
        Watch("message passing", verbose, callback),
        not unequal,
        (checkpoint, checkpoint_every),
        method="amp_erm",
        loss=chosen.name,
        penalty=penalty.name,
        ridge=penalty.strength,
        intercept=bool(intercept),
        class_weight=repr(class_weight),
    )
