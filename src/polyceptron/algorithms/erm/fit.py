"""Empirical risk minimisers: Ŵ = argmin Σ_μ ℓ(Wᵀx_μ/√d, y_μ) + (λ/2)‖W‖²_F  (eq. optimization_ERM).

`fit_erm` fits one λ, `fit_erm_path` many on the same data. Every fit carries its certificate. The
loss names its solver (`Loss.solver`, an entry of `SOLVERS`) and what the limit λ → 0⁺ means
(`Loss.without_ridge`): max-margin for cross-entropy (in direction; normalised to a smallest margin
of 1), least norm for the square loss.

Where no weights separate the data, cross-entropy has a minimum f without a ridge, the
maximum-likelihood estimate, and that is fitted: as the limit of ridges that are small against the
smallest curvature μ of f. There is no ridge to bound the distance, but f is self-concordant: its
curvature changes by at most a factor e^{R‖Δ‖} over a step Δ, R = √2 max‖x‖/√d. So with g = ‖∇f(W)‖

    R g < μ   ⇒   there is a minimiser, and ‖W − Ŵ‖ ≤ −ln(1 − R g/μ)/R.

That it exists proves that no weights separate the data, and so do the wrong classes' probabilities:
as multipliers a they have Σ a x(e_y − e_h)ᵀ = −∇f ≈ 0.

`solver="sklearn"` has scikit-learn's own minimisers of the same objectives (features X/√d, C = 1/λ,
no intercept), as a cross-check. Its default tolerance leaves errors of percents here, so it is
tightened until the certificate is met.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any
from zlib import crc32

import numpy as np
from scipy.linalg import eigvalsh
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from polyceptron.algorithms.data_checks import (
    Labels,
    Samples,
    check_choice,
    check_samples,
    check_weights,
    in_units,
)
from polyceptron.algorithms.design import Design, threads_for, weights_or_ones
from polyceptron.algorithms.erm import erm_fit
from polyceptron.algorithms.erm.erm_fit import ERMFit, SeparabilityOfData
from polyceptron.algorithms.erm.hard_margin import NotSeparable, fit_hard_margin
from polyceptron.algorithms.erm.least_squares import fit_least_squares
from polyceptron.algorithms.erm.newton import Minimum, minimise, sample_matrices, whole_hessian
from polyceptron.algorithms.erm.objectives import LossObjective, Objective, SoftmaxObjective
from polyceptron.algorithms.watching import Callback, Kept, Watch
from polyceptron.errors import InvalidInput
from polyceptron.model.checks import DEFAULT_RIDGE, check_ridge, check_tolerance
from polyceptron.model.estimators import ERM
from polyceptron.model.losses import Loss, as_loss
from polyceptron.model.penalties import Penalty, as_penalty
from polyceptron.numerics import Array
from polyceptron.rows import Status

_TOL = 1e-8
_DENSE = 600  # unknowns up to which the Hessian is written out; above, Lanczos estimates μ
_ZERO = 1e-12  # fields as small as this are 0


def fit_erm(
    X: Any,
    y: Any,
    loss: Any = "cross-entropy",
    ridge: float = DEFAULT_RIDGE,
    *,
    penalty: Any = None,
    n_classes: int | None = None,
    solver: str = "auto",
    tol: float = _TOL,
    start: Any = None,
    strict: bool = False,
    sample_weight: Any = None,
    verbose: int = 0,
    callback: Callback | None = None,
    checkpoint: Any = None,
    checkpoint_every: float = 60.0,
) -> ERMFit:
    """The minimiser of the regularised empirical risk, certified to relative distance `tol`.

    Parameters
    ----------
    X : array, memory map, sparse matrix or Dask array of shape (n, d)
        Inputs.
    y : array of int of shape (n,)
        Class indices 0..k−1, each at least once unless `n_classes` is given.
    loss : str or Loss, default="cross-entropy"
        A registered loss, or one of your own.
    ridge : float, default=0.1
        λ; max-margin ignores it. At 0 the fit is that of separable data's max-margin weights or of
        maximum likelihood, and `separability` of the result has the proof.
    penalty : str or Penalty, default=None
        In place of the ridge, such as 'elastic-net:0.1:0.5' (`fit_penalised`).
    n_classes : int, default=None
        k, where not every class has a sample.
    solver : "auto", "newton" or "sklearn", default="auto"
        The one that the loss names, Newton's method for any smooth loss, or scikit-learn's.
    tol : float, default=1e-8
        Relative distance of the weights to the minimiser.
    start : array of shape (d, k), default=None
        Weights to begin from.
    strict : bool, default=False
        Raise ComputationFailed where the tolerance is missed.
    sample_weight : array of shape (n,), default=None
        Factors above 0 of the samples' losses.
    verbose, callback
        Show how far a fit of over 2 seconds is; a function that is given a `FitProgress` after
        every step.
    checkpoint, checkpoint_every
        The path of a file that keeps the fit every so many seconds, and from which it goes on.

    Returns
    -------
    ERMFit
        Weights and certificate. After Ctrl-C, what there is, with the status 'interrupted'; before
        there are weights it raises.

    Examples
    --------
    >>> fit_erm([[1.0], [-1.0]], [0, 1], "square", 1.0).weights.round(3).tolist()
    [[0.333, -0.333]]
    """
    paid = None if penalty is None else as_penalty(penalty)
    if paid is not None and paid.quadratic:
        ridge, paid = paid.strength, None
    if paid is not None and (solver != "auto" or checkpoint is not None):
        raise InvalidInput(f"a fit with the penalty {paid.name!r} has one solver and no checkpoint")
    return _fit_all(
        X, y, as_loss(loss) if paid is None else ERM(loss, penalty=paid).loss,
        [ridge if paid is None else paid.strength], paid,
        n_classes=n_classes, solver=solver, tol=tol, start=start, strict=strict,
        sample_weight=sample_weight, watch=(verbose, callback),
        kept=(checkpoint, checkpoint_every),
    )[0]  # fmt: skip


def fit_erm_path(
    X: Any,
    y: Any,
    loss: Any,
    ridges: Sequence[float],
    *,
    n_classes: int | None = None,
    solver: str = "auto",
    tol: float = _TOL,
    start: Any = None,
    strict: bool = False,
    sample_weight: Any = None,
    verbose: int = 0,
    callback: Callback | None = None,
    checkpoint: Any = None,
    checkpoint_every: float = 60.0,
) -> list[ERMFit]:
    """One fit per λ, in the order given; work on the data is shared between them.

    Parameters
    ----------
    X, y, loss, n_classes, solver, tol, start, strict, sample_weight
        Those of `fit_erm`.
    ridges : list of float
        λ of the fits.
    verbose, callback, checkpoint, checkpoint_every
        Those of `fit_erm`.

    Returns
    -------
    list of ERMFit

    Examples
    --------
    >>> from polyceptron.model import Teacher
    >>> X, y, _ = Teacher(3).sample(n_samples=200, dimension=50, seed=0)
    >>> fits = fit_erm_path(X, y, "cross-entropy", [0.1, 1.0])
    >>> [fit.training_loss < 1 for fit in fits], fits[0].training_loss < fits[1].training_loss
    ([True, True], True)
    """
    return _fit_all(
        X, y, as_loss(loss), ridges, n_classes=n_classes, solver=solver, tol=tol, start=start,
        strict=strict, sample_weight=sample_weight, watch=(verbose, callback),
        kept=(checkpoint, checkpoint_every),
    )  # fmt: skip


def _fit_all(
    X: Any,
    y: Any,
    loss: Loss,
    ridges: Any,
    penalty: Penalty | None = None,
    *,
    n_classes: int | None,
    solver: str,
    tol: float,
    start: Any,
    strict: bool,
    sample_weight: Any,
    watch: tuple[int, Callback | None],
    kept: tuple[Any, float],
) -> list[ERMFit]:
    """Check what was given, and fit at every ridge, or with the penalty alone."""
    check_choice("solver", solver, ("auto", "newton", "sklearn"))
    tol = check_tolerance(tol, _TOL)
    try:
        given = [ridges] if isinstance(ridges, str) else list(ridges)
    except TypeError:
        raise InvalidInput(f"the ridges must be a list of numbers, got {ridges!r}") from None
    values = [float(check_ridge(value)) for value in given]
    limit = loss.without_ridge() if 0 in values else loss
    if limit is None:
        raise InvalidInput(
            f"the loss {loss.name!r} does not say what a ridge of 0 means: give a ridge above 0"
        )
    samples = check_samples(X, y, n_classes, sample_weight)
    begin = check_weights(start, "start", samples.design.dimension, samples.n_classes)
    watcher = Watch(loss.name, *watch)
    watcher.checkpoint.open(
        *kept, samples.design, samples.y, loss=loss.name, ridges=values, solver=solver,
        classes=samples.n_classes,
        sample_weight=None if samples.weights is None else crc32(samples.weights.tobytes()),
    )  # fmt: skip
    samples, units = in_units(samples)
    begin = None if begin is None else np.ldexp(begin, units.p)
    with threads_for(samples.design), samples.design.watched(watcher):
        if penalty is not None:
            found = [erm_fit.fit_penalised(samples, units, loss, penalty, tol, begin)]
        else:
            positive = [ridge for ridge in values if ridge > 0 or limit is loss]
            inner = [units.ridge(ridge)[0] for ridge in positive]
            fits = dict(zip(positive, _fit(samples, loss, inner, solver, tol, begin), strict=True))
            if limit is not loss:
                begun = [fit for fit in fits.values() if fit.status == Status.INTERRUPTED]
                fits[0.0] = (
                    erm_fit.stopped_at(0 * begun[0].weights, 0.0, loss.name)
                    if begun
                    else _without_ridge(samples, loss, limit, solver, tol, begin)
                )
            found = [erm_fit.in_given_units(fits[ridge], units, ridge) for ridge in values]
    return [erm_fit.require_converged(fit, tol) for fit in found] if strict else found


@dataclass(frozen=True)
class Solver:
    """How a kind of loss is fitted at ridges λ, with its certificate.

    `objective` is the sum over samples that it minimises; `unseparated` fits data at λ = 0 that no
    weights separate, None where some do; `peer` is what scikit-learn makes of scaled rows: weights
    (d, k) and the number of iterations.
    """

    fit: Callable[[Samples, Loss, Sequence[float], float, Array | None], list[ERMFit]] | None = None
    objective: Callable[[Loss, Labels, int, Array | None], Objective] = LossObjective
    unseparated: Callable[[Samples, float, Array | None], ERMFit | None] | None = None
    peer: Callable[[Array, Labels, int, float, float], tuple[Array, int]] | None = None

    def minimise(
        self, samples: Samples, loss: Loss, ridges: Sequence[float], tol: float, start: Array | None
    ) -> list[ERMFit]:
        """One fit per λ, in the order given: in its own way, or by Newton's method."""
        if self.fit is not None:
            return self.fit(samples, loss, ridges, tol, start)
        objective = self.objective(loss, samples.y, samples.n_classes, samples.weights)
        return erm_fit.fit_newton(samples, objective, loss.name, ridges, tol, start)


def solver_of(loss: Loss) -> Solver:
    if loss.solver not in SOLVERS:
        raise InvalidInput(
            f"the loss {loss.name!r} names the solver {loss.solver!r}: allowed are "
            f"{', '.join(SOLVERS)}"
        )
    return SOLVERS[loss.solver]


def _fit(
    samples: Samples,
    loss: Loss,
    ridges: Sequence[float],
    asked: str,
    tol: float,
    start: Array | None,
) -> list[ERMFit]:
    """By the solver asked for, or the one that the loss names."""
    if asked == "sklearn":
        return _fit_with_sklearn(samples, loss, ridges, tol)
    solver = SOLVERS["newton"] if asked == "newton" and not loss.scale_free else solver_of(loss)
    return solver.minimise(samples, loss, ridges, tol, start)


def _without_ridge(
    samples: Samples, loss: Loss, limit: Loss, solver: str, tol: float, begin: Array | None
) -> ERMFit:
    """The minimiser itself where the data cannot be separated; else the fit of the limit."""
    likely, unseparated = None, solver_of(loss).unseparated
    if unseparated is not None and solver != "sklearn":
        likely = unseparated(samples, tol, begin)
        stop = likely is not None and likely.status == Status.INTERRUPTED
        if likely is not None and (stop or likely.separability is not None):
            return likely
    try:
        return _fit(samples, limit, [0.0], solver, tol, None)[0]
    except NotSeparable:
        if likely is None:
            raise
        return likely


def _fit_with_sklearn(
    samples: Samples, loss: Loss, ridges: Sequence[float], tol: float
) -> list[ERMFit]:
    """The minimisers found by scikit-learn, with this package's certificate."""
    peer, (design, y, k) = solver_of(loss).peer, samples
    if peer is None or 0 in ridges:
        raise InvalidInput(
            f"scikit-learn has no solver for the loss {loss.name!r} at these ridges (it has no "
            "multi-class hard-margin or zero-ridge solver): use solver='auto'"
        )
    if samples.weights is not None:
        raise InvalidInput("solver='sklearn' takes no sample_weight: use solver='auto'")
    A, objective = design.scaled_rows(slice(None)), LossObjective(loss, y, k)
    fits = []
    for ridge in ridges:
        for tightened in range(3):
            W, n_iter = peer(A, y, k, ridge, tol * ridge / 100**tightened)
            start = (W @ objective.basis).T[None]
            at = minimise(design, objective, np.array([ridge]), start, target=tol, max_iter=0)
            fit = erm_fit.certified(samples, objective, loss.name, [ridge], at, math.nan)[0]
            if fit.status == Status.OK:
                break
        fits.append(replace(fit, n_iter=n_iter))
    return fits


def _sklearn_ridge(
    A: Array, y: Labels, n_classes: int, ridge: float, tol: float
) -> tuple[Array, int]:
    from sklearn.linear_model import Ridge

    model = Ridge(alpha=ridge, fit_intercept=False).fit(A, np.eye(n_classes)[y])
    return model.coef_.T, 1


def _sklearn_logistic(
    A: Array, y: Labels, n_classes: int, ridge: float, tol: float
) -> tuple[Array, int]:
    from sklearn.linear_model import LogisticRegression

    if np.unique(y).size != n_classes:
        raise InvalidInput(
            "scikit-learn's cross-entropy solver needs at least one sample of every class"
        )
    # With two classes scikit-learn fits the difference w of the two columns: ‖W‖² = ‖w‖²/2.
    strength = 2 / ridge if n_classes == 2 else 1 / ridge
    model = LogisticRegression(
        C=strength, fit_intercept=False, solver="newton-cg", tol=tol, max_iter=1000
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the certificate tells how good it is
        model.fit(A, y)
    W = model.coef_.T
    if n_classes == 2:
        W = np.hstack([-W, W]) / 2
    return W, int(np.max(model.n_iter_))


@dataclass
class _Known:
    """What is known between two rounds: the last U (k−1, d), the ridge of the next."""

    U: Array
    ridge: float
    turn: int = 0
    n_iter: int = 0


def maximum_likelihood(samples: Samples, tol: float, start: Array | None = None) -> ERMFit | None:
    """The minimiser without a ridge, to relative distance `tol`; `start` (d, k).

    None once weights on the way there separate the data: then there is none.
    """
    design, y, k = samples
    rounds = Kept(design, "maximum-likelihood")
    objective = SoftmaxObjective(y, k, samples.weights)
    U = np.zeros((k - 1, design.dimension)) if start is None else (start @ objective.basis).T
    here = _Known(**{"U": U, "ridge": 1e-3 * y.size / design.dimension} | rounds.known)
    steep = math.sqrt(2) * float(design.row_norms.max())
    while True:
        found = minimise(
            design, objective, np.array([here.ridge]), here.U[None], target=0.5, max_iter=60,
            keeper=rounds.begin(here),
        )  # fmt: skip
        slope, bound, enough, stop = math.nan, math.inf, 0.0, found.interrupted
        here.U = found.U[0]
        here.n_iter += int(found.n_iter[0])
        mistakes = samples.error_rate(objective.basis @ found.Z[0])
        if not stop and mistakes == 0:
            rounds.ended()
            return None
        try:
            if not stop:
                slope = float(np.linalg.norm(design.back(found.evaluation.residual[0])))
                curvature = _smallest_curvature(design, objective, found)
        except KeyboardInterrupt:
            stop = True
        here.turn += 1
        if stop:
            break
        doubt = slope + float(found.rounding[0])
        enough = max(tol * float(np.linalg.norm(here.U)), _ZERO / max(steep, _ZERO))
        if steep == 0:  # X is 0, and so are the fields of any weights
            bound = 0.0
        elif steep * doubt < curvature:
            bound = -math.log1p(-steep * doubt / curvature) / steep
        if bound <= enough or here.turn == 5:
            break
        floor = 0.1 * tol * curvature if curvature > 0 else math.inf
        here.ridge = min(0.03 * here.ridge, floor)
    rounds.ended()
    exists, proof = math.isfinite(bound), None
    if exists:  # the wrong classes' probabilities as multipliers (n, k)
        a = found.evaluation.source[0].T.copy()
        a[np.arange(len(a)), y] = 0.0
        a *= weights_or_ones(samples.weights, y.size)[:, None]
        total = float(a.sum())
        proof = SeparabilityOfData(False, None, a / total, slope / total)
    missed = Status.TOLERANCE_NOT_MET if exists else Status.NOT_CONVERGED
    status = Status.OK if bound <= enough else missed
    return erm_fit.fit_at(
        samples, "cross-entropy", 0.0, here.U.T @ objective.basis.T,
        objective.basis @ found.Z[0], float(found.evaluation.value[0]), bound,
        Status.INTERRUPTED if stop else status, gradient_norm=slope, n_iter=here.n_iter,
        matrix_passes=design.passes - rounds.before, separability=proof,
    )  # fmt: skip


def _smallest_curvature(design: Design, objective: SoftmaxObjective, found: Minimum) -> float:
    """μ of ∂²f at the minimum found: of the whole matrix where it is small, else by Lanczos."""
    (_, r, d), bend = found.U.shape, objective.curvature(found.evaluation, np.float64)
    if r * d <= _DENSE:
        inner, H = sample_matrices(bend, found.Z.shape)[0], np.zeros((r * d, r * d))
        for rows, block in design.blocks():
            H += whole_hessian(block * np.float64(design.scale), inner[rows], 0.0)
        rounding = 1e-14 * float(np.trace(H))
        return float(eigvalsh(H, subset_by_index=[0, 0])[0]) - rounding

    def apply(u: Array) -> Array:
        return np.asarray(design.through(u.reshape(found.U.shape), bend)[0]).ravel()

    operator = LinearOperator((r * d, r * d), matvec=apply, dtype=np.float64)  # type: ignore[call-overload]
    begin = np.random.default_rng(0).standard_normal(r * d)
    try:
        lowest = eigsh(
            operator, k=1, which="SA", tol=0.05, v0=begin, return_eigenvectors=False, ncv=40
        )
    except ArpackNoConvergence:
        return 0.0
    return 0.8 * float(lowest[0])  # Lanczos' estimate comes from above


SOLVERS = {
    "softmax": Solver(
        objective=lambda loss, y, k, weights: SoftmaxObjective(y, k, weights),
        unseparated=maximum_likelihood,
        peer=_sklearn_logistic,
    ),
    "least-squares": Solver(fit_least_squares, peer=_sklearn_ridge),
    "max-margin": Solver(fit_hard_margin),
    "newton": Solver(),
}
"""What a loss may name as its solver."""
