"""Empirical risk minimisers: Ŵ = argmin Σ_μ ℓ(Wᵀx_μ/√d, y_μ) + (λ/2)‖W‖²_F  (eq. optimization_ERM).

`fit_erm` fits one λ, `fit_erm_path` many on the same data. Every fit carries its certificate. The
loss says which solver it wants (`Loss.solver`) and what the limit λ → 0⁺ means
(`Loss.without_ridge`): max-margin for cross-entropy (in direction; normalised to a smallest margin
of 1), least norm for the square loss. Where no weights separate the data, cross-entropy has a
minimum without a ridge, the maximum-likelihood estimate, and that is fitted.

scikit-learn's own minimisers of the same objectives: a cross-check, and `solver="sklearn"`.

Features X/√d, C = 1/λ, no intercept. scikit-learn's default tolerance leaves errors of percents
here, so the tolerance is tightened until the certificate is met.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any
from zlib import crc32

import numpy as np

from polyceptron.algorithms.block_products import threads_for
from polyceptron.algorithms.checkpoints import open_checkpoint
from polyceptron.algorithms.data_checks import (
    Labels,
    Samples,
    check_choice,
    check_samples,
    check_weights,
)
from polyceptron.algorithms.erm.erm_fit import ERMFit, bound_in_weights, require_converged
from polyceptron.algorithms.erm.hard_margin import NotSeparable, fit_hard_margin
from polyceptron.algorithms.erm.least_squares import fit_least_squares
from polyceptron.algorithms.erm.maximum_likelihood import fit_maximum_likelihood
from polyceptron.algorithms.erm.newton import rounding_of
from polyceptron.algorithms.erm.newton_fit import LossObjective, fit_any_loss, fit_softmax
from polyceptron.algorithms.erm.saved_path import not_begun
from polyceptron.algorithms.watching import Callback, Watch
from polyceptron.errors import InvalidInput
from polyceptron.model.checks import DEFAULT_RIDGE, check_ridge, check_tolerance
from polyceptron.model.losses import Loss, as_loss
from polyceptron.numerics import Array
from polyceptron.rows import Status

Solver = Callable[[Samples, Loss, Sequence[float], float, Array | None], list[ERMFit]]

SOLVERS: dict[str, Solver] = {
    "softmax": fit_softmax,
    "least-squares": fit_least_squares,
    "max-margin": fit_hard_margin,
    "newton": fit_any_loss,
}
"""What a loss may name as its solver."""

_TOL = 1e-8


def fit_erm(
    X: Any,
    y: Any,
    loss: Any = "cross-entropy",
    ridge: float = DEFAULT_RIDGE,
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
) -> ERMFit:
    """Fit X (n, d) and class indices y (n,) to relative distance `tol` of the minimiser.

    `loss` is the name of a registered loss or a `Loss`; max-margin takes any ridge and ignores it.
    y holds 0..k−1, each class at least once unless `n_classes` is given. `solver`: 'auto', the one
    that the loss names; 'newton', which serves any smooth loss; or 'sklearn'. `start` (d, k) are
    weights to begin from. With `strict`, missing the tolerance raises ComputationFailed. A ridge of
    0 says in `separability` what it found: separable data and their max-margin weights, or data
    that cannot be separated and the maximum-likelihood estimate.
    `sample_weight` (n,), above 0, multiplies each sample's loss.

    X may also be a memory map, a sparse matrix or a Dask array. With `verbose` a fit over 2 seconds
    shows how far it is; `callback` is given a `FitProgress` after every step. With a `checkpoint`,
    the path of a file, the fit is kept there every `checkpoint_every` seconds and goes on from it.
    Ctrl-C returns what there is, with the status 'interrupted'; before there are weights it raises.

    >>> fit_erm([[1.0], [-1.0]], [0, 1], "square", 1.0).weights.round(3).tolist()
    [[0.333, -0.333]]
    """
    return fit_erm_path(
        X, y, loss, [ridge], n_classes=n_classes, solver=solver, tol=tol, start=start,
        strict=strict, sample_weight=sample_weight, verbose=verbose, callback=callback,
        checkpoint=checkpoint, checkpoint_every=checkpoint_every,
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

    `ridges` are the λ; `loss`, `n_classes`, `solver`, `tol`, `start`, `strict`, `sample_weight`,
    `verbose`, `callback`, `checkpoint` and `checkpoint_every` are those of `fit_erm`.

    >>> from polyceptron.model import Teacher
    >>> X, y, _ = Teacher(3).sample(n_samples=200, dimension=50, seed=0)
    >>> fits = fit_erm_path(X, y, "cross-entropy", [0.1, 1.0])
    >>> [fit.training_loss < 1 for fit in fits], fits[0].training_loss < fits[1].training_loss
    ([True, True], True)
    """
    chosen = as_loss(loss)
    check_choice("solver", solver, ("auto", "newton", "sklearn"))
    tol = check_tolerance(tol, _TOL)
    values = _check_ridges(ridges)
    limit = _limit(chosen) if 0 in values else chosen
    samples = check_samples(X, y, n_classes, sample_weight)
    begin = check_weights(start, "start", samples.design.dimension, samples.n_classes)
    watch = Watch(chosen.name, verbose, callback)
    if checkpoint is not None:
        watch.checkpoint = open_checkpoint(
            checkpoint, checkpoint_every, samples.design, samples.y, loss=chosen.name,
            ridges=values, solver=solver, classes=samples.n_classes,
            sample_weight=None if samples.weights is None else crc32(samples.weights.tobytes()),
        )  # fmt: skip
    with threads_for(samples.design), samples.design.watched(watch):
        if limit is chosen:
            fits = _solver(chosen, solver)(samples, chosen, values, tol, begin)
        else:
            positive = [ridge for ridge in values if ridge > 0]
            found = _solver(chosen, solver)(samples, chosen, positive, tol, begin)
            if any(fit.status == Status.INTERRUPTED for fit in found):
                last = not_begun(found[0], 0.0)
            else:
                last = _without_ridge(samples, chosen, limit, solver, tol, begin)
            first = iter(found)
            fits = [next(first) if ridge > 0 else last for ridge in values]
    return [require_converged(fit, tol) for fit in fits] if strict else fits


def _solver(loss: Loss, asked: str) -> Solver:
    """The solver asked for, or the one that the loss names."""
    if asked == "sklearn":
        return fit_with_sklearn
    name = loss.solver if asked == "auto" or loss.scale_free else asked
    if name not in SOLVERS:
        raise InvalidInput(
            f"the loss {loss.name!r} names the solver {name!r}: allowed are {', '.join(SOLVERS)}"
        )
    return SOLVERS[name]


def _without_ridge(
    samples: Samples, loss: Loss, limit: Loss, solver: str, tol: float, begin: Array | None
) -> ERMFit:
    """The minimiser itself where the data cannot be separated; else the fit of the limit."""
    likely = None
    if loss.solver == "softmax" and solver != "sklearn":
        likely = fit_maximum_likelihood(samples, loss, tol, begin)
        stop = likely is not None and likely.status == Status.INTERRUPTED
        if likely is not None and (stop or likely.separability is not None):
            return likely
    try:
        return _solver(limit, solver)(samples, limit, [0.0], tol, None)[0]
    except NotSeparable:
        if likely is None:
            raise
        return likely


def _limit(loss: Loss) -> Loss:
    """What a ridge of 0 means for the loss, or a sentence."""
    limit = loss.without_ridge()
    if limit is None:
        raise InvalidInput(
            f"the loss {loss.name!r} does not say what a ridge of 0 means: give a ridge above 0"
        )
    return limit


def _check_ridges(ridges: Any) -> list[float]:
    """Several ridges as a list of numbers, or a sentence."""
    try:
        values = [ridges] if isinstance(ridges, str) else list(ridges)
    except TypeError:
        raise InvalidInput(f"the ridges must be a list of numbers, got {ridges!r}") from None
    return [float(check_ridge(value)) for value in values]


_TIGHTENINGS = 3


def fit_with_sklearn(
    samples: Samples, loss: Loss, ridges: Sequence[float], tol: float, start: Array | None
) -> list[ERMFit]:
    """The minimisers found by scikit-learn, with this package's certificate."""
    if loss.solver not in ("softmax", "least-squares") or 0 in ridges:
        raise InvalidInput(
            f"scikit-learn has no solver for the loss {loss.name!r} at these ridges (it has no "
            "multi-class hard-margin or zero-ridge solver): use solver='auto'"
        )
    if samples.weights is not None:
        raise InvalidInput("solver='sklearn' takes no sample_weight: use solver='auto'")
    A = samples.design.scaled_rows(slice(None))
    return [_fit(A, samples, loss, ridge, tol) for ridge in ridges]


def _fit(A: Array, samples: Samples, loss: Loss, ridge: float, tol: float) -> ERMFit:
    y, k = samples.y, samples.n_classes
    if loss.solver == "least-squares":
        from sklearn.linear_model import Ridge

        model = Ridge(alpha=ridge, fit_intercept=False).fit(A, np.eye(k)[y])
        return _certified(samples, loss, ridge, model.coef_.T, 1, tol)
    if np.unique(y).size != k:
        raise InvalidInput(
            "scikit-learn's cross-entropy solver needs at least one sample of every class"
        )
    strictness = tol * ridge
    for _ in range(_TIGHTENINGS):
        fit = _certified(samples, loss, ridge, *_logistic(A, y, k, ridge, strictness), tol)
        if fit.status == Status.OK:
            break
        strictness /= 100
    return fit


def _logistic(A: Array, y: Labels, n_classes: int, ridge: float, tol: float) -> tuple[Array, int]:
    from sklearn.linear_model import LogisticRegression

    # With two classes scikit-learn fits the difference w of the two columns: ‖W‖² = ‖w‖²/2.
    strength = 2 / ridge if n_classes == 2 else 1 / ridge
    model = LogisticRegression(
        C=strength, fit_intercept=False, solver="newton-cg", tol=tol, max_iter=1000
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the certificate says how good it is
        model.fit(A, y)
    W = model.coef_.T
    if n_classes == 2:
        W = np.hstack([-W, W]) / 2
    return W, int(np.max(model.n_iter_))


def _certified(
    samples: Samples, loss: Loss, ridge: float, W: Array, n_iter: int, tol: float
) -> ERMFit:
    """The certificate of weights W (d, k), by the loss's own gradient."""
    design, y, _ = samples
    objective = LossObjective(loss, y, samples.n_classes)
    U = (W @ objective.basis).T[None]
    Z = design.fields(U)
    here = objective.evaluate(Z)
    gradient = design.back(here.residual) + ridge * U
    norm, size = float(np.linalg.norm(gradient)), float(np.linalg.norm(U))
    enough = np.array([tol * ridge * size])
    rounding = float(
        rounding_of(design, objective, here, Z, np.array([ridge]), np.array([size]), enough)[0]
    )
    bound = (norm + rounding) / ridge
    return ERMFit(
        weights=W,
        gradient_norm=norm,
        distance_bound=bound_in_weights(bound, W),
        n_iter=n_iter,
        matrix_passes=float("nan"),
        training_loss=float(here.value[0]) / y.size,
        training_error=samples.error_rate(objective.basis @ Z[0]),
        status=Status.OK if bound <= tol * size else Status.TOLERANCE_NOT_MET,
        ridge=ridge,
        loss=loss.name,
    )
