"""Empirical risk minimisers: Ŵ = argmin Σ_μ ℓ(Wᵀx_μ/√d, y_μ) + (λ/2)‖W‖²_F.

This is eq. optimization_ERM of the paper, with the fields divided by √d as in its Theorem 1. x_μ is
row μ of X (n, d), y_μ its class 0..k−1, W (d, k) the weights, ℓ the loss, λ the `ridge`, and z =
Wᵀx/√d (k,) the fields. In scikit-learn's words the features are X/√d and C = 1/λ, for two classes
2/λ.

`fit_erm` fits one λ, `fit_erm_path` many on the same data. This module does no numerical work:

1. It checks the input and brings the data to units in which nothing overflows (`Units`): X is
   divided by 2^p and W multiplied by it, factors of the samples' losses are divided by 2^q, and λ̃ =
   λ/2^(2p + q). Fields are the same. An intercept, z + b without a ridge, is the weight of one more
   column of X (`with_intercept`).
2. `FitProblem` chooses the solver of each λ. A loss names its solver (`Loss.solver`, an entry of
   `SOLVERS`) and what the limit λ → 0⁺ means (`Loss.without_ridge`, see `fit_without_ridge`):
   max-margin for cross-entropy (in direction; normalised to a smallest margin of 1) or, where no
   weights separate the data, maximum likelihood (`separation`); least norm for the square loss.
3. The fits are returned in the units of the data given. Each has a certificate, a bound on the
   distance of its weights to the minimiser, which its solver proves (`ERMFit.distance_bound`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any
from zlib import crc32

import numpy as np

from polyceptron.checks import DEFAULT_RIDGE, check_ridge, check_tolerance
from polyceptron.data import checks as data_checks
from polyceptron.data.checks import Samples, Units
from polyceptron.data.design import threads_for, weights_or_ones
from polyceptron.data.watching import Callback, Watch
from polyceptron.errors import ComputationFailed, InvalidInput
from polyceptron.fit.separation import maximum_likelihood
from polyceptron.fit.solvers import erm_fit
from polyceptron.fit.solvers.erm_fit import ERMFit
from polyceptron.fit.solvers.hard_margin import NotSeparable, separate
from polyceptron.fit.solvers.hinges import fit_by_multipliers
from polyceptron.fit.solvers.intercept import Intercept, with_intercept
from polyceptron.fit.solvers.least_squares import fit_least_squares
from polyceptron.fit.solvers.many_classes import fit_softmax
from polyceptron.fit.solvers.newton_fits import fit_newton
from polyceptron.fit.solvers.proximal import fit_penalised
from polyceptron.numerics import Array
from polyceptron.problem.losses import Loss, as_loss
from polyceptron.problem.penalties import Penalty, as_penalty
from polyceptron.problem.specs import ERM
from polyceptron.rows import Status

DEFAULT_TOL = 1e-8  # distance to the minimiser, relative to the norm of the weights


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
    tol: float = DEFAULT_TOL,
    start: Any = None,
    strict: bool = False,
    sample_weight: Any = None,
    verbose: int = 0,
    callback: Callback | None = None,
    checkpoint: Any = None,
    checkpoint_every: float = 60.0,
) -> ERMFit:
    """Return the minimiser of the regularised empirical risk, certified to relative distance `tol`.

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
        A penalty instead of the ridge, such as 'elastic-net:0.1:0.5'.
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


@np.errstate(under="ignore")  # Chances of classes far behind are 0.
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
    tol: float = DEFAULT_TOL,
    start: Any = None,
    strict: bool = False,
    sample_weight: Any = None,
    verbose: int = 0,
    callback: Callback | None = None,
    checkpoint: Any = None,
    checkpoint_every: float = 60.0,
) -> list[ERMFit]:
    """Return one fit per λ, in the order given; work on the data is shared between them.

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
    >>> fits[0].training_loss < fits[1].training_loss < 1
    True
    """
    data_checks.check_choice("solver", solver, ("auto", "newton"))
    problem = FitProblem(as_loss(loss), solver, check_tolerance(tol, DEFAULT_TOL))
    penalties = problem.check_penalties(ridges, checkpoint)
    data_checks.check_intercept(intercept)
    samples = _weighed(data_checks.check_samples(X, y, n_classes, sample_weight), class_weight)
    begin = Start.checked(start, samples, intercept)
    watcher = Watch(problem.loss.name, verbose, callback)
    watcher.checkpoint.open(
        checkpoint,
        checkpoint_every,
        samples.design,
        samples.y,
        loss=problem.loss.name,
        ridges=penalties,
        solver=solver,
        classes=samples.n_classes,
        intercept=bool(intercept),
        sample_weight=_checksum(samples.weights),
    )
    samples, units = data_checks.in_units(samples)
    if intercept:
        samples = with_intercept(samples, _unit_of_intercept(units))
    with threads_for(samples.design), samples.design.watched(watcher):
        fits = problem.fit_all(samples, units, penalties, begin.in_units(units, samples.intercept))
    if strict:
        _check_tolerance_met(fits, problem)
    return fits


def _unit_of_intercept(units: Units) -> float:
    """Return how much a distance of the intercepts counts beside one of W in the units of the fit.

    Weights of the data given are W/2^p, but intercepts have no unit. Where inputs are tiny (p < 0)
    the bound grows by 2^(−p) on its way back, so that b counts 2^p beforehand. Where they are large
    the bound stays as it is, although the distance of W shrinks, and b counts fully.
    """
    return math.ldexp(1.0, min(units.p, 0))


def _weighed(samples: Samples, class_weight: Any) -> Samples:
    """Multiply the weights of the samples by the factors of their classes."""
    factors = data_checks.class_factors(class_weight, samples)
    if factors is None:
        return samples
    weights = factors * weights_or_ones(samples.weights, factors.size)
    if (weights == 1).all():
        return replace(samples, weights=None)
    return replace(samples, weights=weights)


def _checksum(weights: Array | None) -> int | None:
    """Return a number by which a checkpoint recognises the weights (n,) of its samples."""
    if weights is None:
        return None
    return crc32(weights.tobytes())


def _check_tolerance_met(fits: Sequence[ERMFit], problem: FitProblem) -> None:
    """Raise ComputationFailed for the first fit whose certificate is not within the tolerance."""
    for fit in fits:
        if fit.status != Status.OK:
            raise ComputationFailed(
                f"the {problem.loss.name} fit at ridge {fit.ridge:g} ended with status "
                f"{fit.status}: its weights are certified to within "
                f"{fit.distance_bound:.2g} of the minimiser (norm "
                f"{np.linalg.norm(fit.weights):.3g}), the tolerance asked is {problem.tol:g} "
                "relative; ask for a larger tolerance or ridge"
            )


@dataclass(frozen=True)
class Start:
    """Weights (d, k) to begin from, None for zero, and their intercepts (k,)."""

    weights: Array | None
    intercepts: Array

    @classmethod
    def checked(cls, start: Any, samples: Samples, intercept: bool) -> Start:
        """Return what the caller gave: (d, k), or (d + 1, k) whose last row is the intercept."""
        d = samples.design.dimension
        k = samples.n_classes
        if intercept and np.shape(start) == (d + 1, k):
            both = data_checks.check_weights(start, "start", d + 1, k)
            assert both is not None
            return cls(both[:d], both[d])
        return cls(data_checks.check_weights(start, "start", d, k), np.zeros(k))

    def in_units(self, units: Units, intercept: Intercept | None) -> Array | None:
        """Return W·2^p for data X/2^p, (d, k), or (d + 1, k) with the row of the intercept."""
        if self.weights is None:
            return None
        weights = np.ldexp(self.weights, units.p)
        if intercept is None:
            return weights
        return intercept.joined(weights.T, self.intercepts).T


@dataclass(frozen=True)
class FitProblem:
    """What is minimised and how: the loss, the solver asked for ('auto' or 'newton'), `tol`."""

    loss: Loss
    solver: str
    tol: float

    def check_penalties(self, ridges: Any, checkpoint: Any) -> list[float | Penalty]:
        """Return λ or the penalty of each fit, or raise InvalidInput."""
        try:
            given = [ridges] if isinstance(ridges, str) else list(ridges)
        except TypeError:
            raise InvalidInput(f"the ridges must be a list of numbers, got {ridges!r}") from None
        penalties = [self.check_penalty(value, checkpoint) for value in given]
        if 0 in penalties and self.loss.without_ridge() is None:
            raise InvalidInput(
                f"the loss {self.loss.name!r} does not say what a ridge of 0 means: give a ridge "
                "above 0"
            )
        return penalties

    def check_penalty(self, value: Any, checkpoint: Any) -> float | Penalty:
        """Return λ, or a penalty that is no ridge, or raise InvalidInput."""
        if not isinstance(value, Penalty):
            return float(check_ridge(value))
        if value.quadratic:
            return float(check_ridge(value.strength))
        if self.solver != "auto" or checkpoint is not None:
            raise InvalidInput(
                f"a fit with the penalty {value.name!r} has one solver and no checkpoint"
            )
        ERM(self.loss, penalty=value)  # raises where loss and penalty do not go together
        return value

    def fit_all(
        self,
        samples: Samples,
        units: Units,
        penalties: Sequence[float | Penalty],
        start: Array | None,
    ) -> list[ERMFit]:
        """Return the fits of data in `units`, in the units of the data given."""
        ridges = [value for value in penalties if not isinstance(value, Penalty)]
        by_ridge = self.fit_ridges(samples, units, ridges, start)
        fits = []
        for value in penalties:
            if isinstance(value, Penalty):
                fit = fit_penalised(samples, units, self.loss, value, self.tol, start)
            else:
                fit = erm_fit.in_given_units(by_ridge[value], units, value, samples.intercept)
            fits.append(fit)
        return fits

    def fit_ridges(
        self, samples: Samples, units: Units, ridges: Sequence[float], start: Array | None
    ) -> dict[float, ERMFit]:
        """Return the fit at each λ, of data in `units`; λ = 0 by the limit that the loss names.

        The weights are those of λ̃ as `Units.ridge` gives it, which may be less than λ/2^(2p + q);
        `in_given_units` divides them by the power of two that is left.
        """
        limit = self.loss.without_ridge()
        limit_is_apart = 0 in ridges and limit is not None and limit is not self.loss
        # A loss that is its own limit (square loss, max-margin) has a solver that takes λ = 0.
        ordinary = [ridge for ridge in ridges if ridge > 0 or not limit_is_apart]
        ridges_in_units = [units.ridge(ridge)[0] for ridge in ordinary]
        found = self.solve(samples, self.loss, ridges_in_units, start)
        fits = dict(zip(ordinary, found, strict=True))
        if not limit_is_apart:
            return fits
        assert limit is not None
        stopped = [fit for fit in fits.values() if fit.status == Status.INTERRUPTED]
        if stopped:
            fits[0.0] = erm_fit.stopped_at(0 * stopped[0].weights, 0.0, self.loss.name)
        else:
            fits[0.0] = self.fit_without_ridge(samples, limit, start)
        return fits

    def solve(
        self, samples: Samples, loss: Loss, ridges: Sequence[float], start: Array | None
    ) -> list[ERMFit]:
        """Fit by the solver asked for, or by the one that the loss names."""
        if loss.solver not in SOLVERS:
            raise InvalidInput(
                f"the loss {loss.name!r} names the solver {loss.solver!r}: allowed are "
                f"{', '.join(SOLVERS)}"
            )
        if not ridges:
            return []
        name = loss.solver
        if self.solver == "newton" and not loss.scale_free:  # a hard margin is not smooth
            name = "newton"
        return SOLVERS[name](samples, loss, ridges, self.tol, start)

    def fit_without_ridge(self, samples: Samples, limit: Loss, start: Array | None) -> ERMFit:
        """Return the fit at λ = 0 of a loss that is not its own limit.

        The search for a minimiser without a ridge ends in one of three ways:

        - None: weights on the way there separate the data, so that there is none. Also where the
          loss has no such search. Then the fit is that of `limit`.
        - A minimum with `separability`, the proof that no weights separate the data. It is the fit.
        - A minimum without. Then the fit is that of `limit` if its solver separates the data.

        The limit begins without `start`: its weights have a scale of their own.
        """
        minimise = WITHOUT_RIDGE.get(self.loss.solver)
        minimum = None
        if minimise is not None:
            minimum = minimise(samples, self.tol, start)
        if minimum is None:
            return self.solve(samples, limit, [0.0], None)[0]
        is_proved = minimum.separability is not None
        if is_proved or minimum.status == Status.INTERRUPTED:
            return minimum
        try:
            return self.solve(samples, limit, [0.0], None)[0]
        except NotSeparable:
            return minimum


def _fit_max_margin(
    samples: Samples, loss: Loss, ridges: Sequence[float], tol: float, start: Array | None
) -> list[ERMFit]:
    """Return the max-margin fit for every λ: it does not depend on the ridge."""
    return [separate(samples, loss, tol, start)] * len(ridges)


Solver = Callable[[Samples, Loss, Sequence[float], float, Array | None], list[ERMFit]]

SOLVERS: dict[str, Solver] = {
    "softmax": fit_softmax,
    "least-squares": fit_least_squares,
    "max-margin": _fit_max_margin,
    "dual": fit_by_multipliers,
    "newton": fit_newton,
}
"""What a loss may name as its solver: one certified fit per λ, in the order given.

"dual" is that of losses with kinks, whose multipliers it finds.
"""

WITHOUT_RIDGE = {"softmax": maximum_likelihood}
"""By solver, the search for a minimiser at λ = 0; it returns None where the data are separable."""
