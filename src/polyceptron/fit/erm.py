"""Empirical risk minimisers: Ŵ = argmin Σ_μ ℓ(Wᵀx_μ/√d, y_μ) + (λ/2)‖W‖²_F  (eq. optimization_ERM).

`fit_erm` fits one λ, `fit_erm_path` many on the same data. Every fit carries its certificate. An
intercept, Wᵀx/√d + b, bears no ridge (`intercept`); class weights are factors of the losses. The
loss names its solver (`Loss.solver`, an entry of `SOLVERS`) and what the limit λ → 0⁺ means
(`Loss.without_ridge`): max-margin for cross-entropy (in direction; normalised to a smallest margin
of 1) or, where no weights separate the data, maximum likelihood (`separation`); least norm for the
square loss. In scikit-learn's words the features are X/√d and C = 1/λ, for two classes 2/λ.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from zlib import crc32

import numpy as np

from polyceptron.checks import DEFAULT_RIDGE, check_ridge, check_tolerance
from polyceptron.data import checks as data_checks
from polyceptron.data.checks import Samples
from polyceptron.data.design import threads_for, weights_or_ones
from polyceptron.data.watching import Callback, Watch
from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.fit.separation import maximum_likelihood
from polyceptron.fit.solvers import erm_fit
from polyceptron.fit.solvers.erm_fit import ERMFit
from polyceptron.fit.solvers.hard_margin import NotSeparable, fit_by_multipliers, separate
from polyceptron.fit.solvers.intercept import with_intercept
from polyceptron.fit.solvers.least_squares import fit_least_squares
from polyceptron.fit.solvers.many_classes import fit_softmax
from polyceptron.numerics import Array
from polyceptron.problem.losses import Loss, as_loss
from polyceptron.problem.penalties import Penalty, as_penalty
from polyceptron.problem.specs import ERM
from polyceptron.rows import Status

_TOL = 1e-8


def fit_erm(
    X: Any,
    y: Any,
    loss: Any = "cross-entropy",
    ridge: float = DEFAULT_RIDGE,
    *,
    penalty: Any = None,
    intercept: bool = False,
    class_weight: Any = None,
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
    intercept : bool, default=False
        Fit b of the fields Wᵀx/√d + b as well, without a penalty: `intercepts` of the result.
    class_weight : None, "balanced", dict or sequence, default=None
        Factors of the losses by class: n/(k n_c), {class: w} with 1 for the others, or one for
        each class.
    n_classes : int, default=None
        k, where not every class has a sample.
    solver : "auto" or "newton", default="auto"
        The one that the loss names, or Newton's method for any smooth loss.
    tol : float, default=1e-8
        Relative distance of the weights to the minimiser, at which the fit ends; for a loss with
        kinks, of which the certificate is the root of a duality gap, 1e-5 at least.
    start : array of shape (d, k), default=None
        Weights to begin from; with an intercept also (d + 1, k), whose last row is b.
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
    return fit_erm_path(
        X,
        y,
        loss,
        [ridge if penalty is None else as_penalty(penalty)],
        intercept=intercept,
        class_weight=class_weight,
        n_classes=n_classes,
        solver=solver,
        tol=tol,
        start=start,
        strict=strict,
        sample_weight=sample_weight,
        verbose=verbose,
        callback=callback,
        checkpoint=checkpoint,
        checkpoint_every=checkpoint_every,
    )[0]


def fit_erm_path(
    X: Any,
    y: Any,
    loss: Any,
    ridges: Sequence[float | Penalty],
    *,
    intercept: bool = False,
    class_weight: Any = None,
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
    ridges : list of float or Penalty
        λ of the fits, or the penalty in its place.
    X, y, loss, intercept, class_weight, n_classes, solver, tol, start, strict, sample_weight,
    verbose, callback, checkpoint, checkpoint_every
        Those of `fit_erm`.

    Returns
    -------
    list of ERMFit

    Examples
    --------
    >>> from polyceptron.problem import Teacher
    >>> X, y, _ = Teacher(3).sample(n_samples=200, dimension=50, seed=0)
    >>> fits = fit_erm_path(X, y, "cross-entropy", [0.1, 1.0])
    >>> [fit.training_loss < 1 for fit in fits], fits[0].training_loss < fits[1].training_loss
    ([True, True], True)
    """
    data_checks.check_choice("solver", solver, ("auto", "newton"))
    tol, loss = check_tolerance(tol, _TOL), as_loss(loss)
    try:
        given = [ridges] if isinstance(ridges, str) else list(ridges)
    except TypeError:
        raise InvalidInput(f"the ridges must be a list of numbers, got {ridges!r}") from None
    values = [_ridge_or_penalty(value, loss, solver, checkpoint) for value in given]
    limit = loss.without_ridge() if 0 in values else loss
    if limit is None:
        raise InvalidInput(
            f"the loss {loss.name!r} does not say what a ridge of 0 means: give a ridge above 0"
        )
    data_checks.check_intercept(intercept)
    samples = data_checks.check_samples(X, y, n_classes, sample_weight)
    factors = data_checks.class_factors(class_weight, samples)
    if factors is not None:
        weights = factors * weights_or_ones(samples.weights, factors.size)
        samples = replace(samples, weights=None if (weights == 1).all() else weights)
    d, k = samples.design.dimension, samples.n_classes
    whole = intercept and np.shape(start) == (d + 1, k)
    begin = data_checks.check_weights(start, "start", d + whole, k)
    watcher = Watch(loss.name, verbose, callback)
    watcher.checkpoint.open(
        checkpoint,
        checkpoint_every,
        samples.design,
        samples.y,
        loss=loss.name,
        ridges=values,
        solver=solver,
        classes=k,
        intercept=bool(intercept),
        sample_weight=None if samples.weights is None else crc32(samples.weights.tobytes()),
    )
    samples, units = data_checks.in_units(samples)
    if begin is not None:
        begin[:d] = np.ldexp(begin[:d], units.p)
    if intercept:
        samples = with_intercept(samples, math.ldexp(1.0, min(units.p, 0)))
    free = samples.intercept
    if begin is not None and free is not None:
        begin = free.joined(begin[:d].T, begin[d] if whole else np.zeros(k)).T
    with threads_for(samples.design), samples.design.watched(watcher):
        positive = [r for r in values if not isinstance(r, Penalty) and (r > 0 or limit is loss)]
        inner = [units.ridge(ridge)[0] for ridge in positive]
        fits = dict(zip(positive, _fit(samples, loss, inner, solver, tol, begin), strict=True))
        if limit is not loss:
            if begun := [fit for fit in fits.values() if fit.status == Status.INTERRUPTED]:
                fits[0.0] = erm_fit.stopped_at(0 * begun[0].weights, 0.0, loss.name)
            else:
                fits[0.0] = _without_ridge(samples, loss, limit, solver, tol, begin)
        found = [
            erm_fit.fit_penalised(samples, units, loss, value, tol, begin)
            if isinstance(value, Penalty)
            else erm_fit.in_given_units(fits[value], units, value, free)
            for value in values
        ]
    missed = [fit for fit in found if fit.status != Status.OK]
    if strict and missed:
        raise ComputationFailed(
            f"the {loss.name} fit at ridge {missed[0].ridge:g} ended with status "
            f"{missed[0].status}: its weights are certified to within "
            f"{missed[0].distance_bound:.2g} of the minimiser (norm "
            f"{np.linalg.norm(missed[0].weights):.3g}), the tolerance asked is {tol:g} relative; "
            "ask for a larger tolerance or ridge"
        )
    return found


def _ridge_or_penalty(value: Any, loss: Loss, solver: str, checkpoint: Any) -> float | Penalty:
    """λ, a penalty that is no ridge, or an error message."""
    if not isinstance(value, Penalty) or value.quadratic:
        return float(check_ridge(getattr(value, "strength", value)))
    if solver != "auto" or checkpoint is not None:
        raise InvalidInput(
            f"a fit with the penalty {value.name!r} has one solver and no checkpoint"
        )
    ERM(loss, penalty=value)  # whether they go together
    return value


def _fit(
    samples: Samples, loss: Loss, ridges: Sequence[float], asked: str, tol: float, begin: Any
) -> list[ERMFit]:
    """By the solver asked for, or the one that the loss names."""
    if loss.solver not in SOLVERS:
        raise InvalidInput(
            f"the loss {loss.name!r} names the solver {loss.solver!r}: allowed are "
            f"{', '.join(SOLVERS)}"
        )
    solve = SOLVERS["newton" if asked == "newton" and not loss.scale_free else loss.solver]
    return solve(samples, loss, ridges, tol, begin) if ridges else []


def _without_ridge(
    samples: Samples, loss: Loss, limit: Loss, solver: str, tol: float, begin: Array | None
) -> ERMFit:
    """The minimiser itself where the data cannot be separated; else the fit of the limit."""
    own = WITHOUT_RIDGE.get(loss.solver)
    likely = own(samples, tol, begin) if own else None
    stop = likely is not None and likely.status == Status.INTERRUPTED
    if likely is not None and (stop or likely.separability is not None):
        return likely
    try:
        return _fit(samples, limit, [0.0], solver, tol, None)[0]
    except NotSeparable:
        if likely is None:
            raise
        return likely


SOLVERS: dict[str, Callable[[Samples, Loss, Sequence[float], float, Any], list[ERMFit]]] = {
    "softmax": fit_softmax,
    "least-squares": fit_least_squares,
    "max-margin": lambda samples, loss, ridges, tol, start: (
        [separate(samples, loss, tol, start)] * len(ridges)
    ),
    "dual": fit_by_multipliers,
    "newton": erm_fit.fit_newton,
}
"""What a loss may name as its solver: one certified fit per λ, in the order given."""

WITHOUT_RIDGE = {"softmax": maximum_likelihood}
"""Of solvers whose loss may have a minimiser at λ = 0: that, or why there is none."""
