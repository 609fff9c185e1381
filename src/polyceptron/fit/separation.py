"""Whether data can be separated by a linear rule, with a proof either way.

With J the constraints as rows, x̂(e_y − e_h)ᵀ for every sample x̂ = x/√d and every h ≠ y, the margins
of weights W are JW. Small problems are linear programmes over weights in [−1, 1]:

    max t,   JW ≥ t         t > 0 separates; else the dual is a ≥ 0 with Σa = 1 and Jᵀa = 0
    max ΣJW, JW ≥ 0         above 0, W is a direction in which the likelihood rises for ever
                            (quasi-separation); else the dual is b = 1 + a > 0 with Jᵀb = 0, and
                            every direction has a margin below 0

Large ones go the way to the max-margin solution (`hard_margin`). All margins come out positive: W
separates. Or its multipliers a ≥ 0 balance, R = Jᵀa → 0: since weights with all margins ≥ 1 would
have Σa ≤ ⟨W, R⟩, their norm is at least Σa/‖R‖, a proof for every W of smaller norm.

Where no weights separate the data, cross-entropy has a minimum f without a ridge, the
maximum-likelihood estimate: the limit of ridges that are small against the smallest curvature μ of
f. It is self-concordant: its curvature changes by at most a factor e^{R‖Δ‖} over a step Δ,
R = √2 max‖x‖/√d. So with g = ‖∇f(W)‖

    R g < μ   ⇒   there is a minimiser, and ‖W − Ŵ‖ ≤ −ln(1 − R g/μ)/R.

That it exists proves that no weights separate the data, and so do the wrong classes' probabilities:
as multipliers a they have Jᵀa = −∇f ≈ 0.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.linalg import eigvalsh
from scipy.optimize import linprog
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from polyceptron.data.checks import Samples, check_samples
from polyceptron.data.design import Design, weights_or_ones
from polyceptron.data.stored_designs import scaled
from polyceptron.fit.solvers.erm_fit import ERMFit, Separation, fit_at
from polyceptron.fit.solvers.hard_margin import NotSeparable, separate
from polyceptron.fit.solvers.intercept import size_of
from polyceptron.fit.solvers.newton import NewtonMinimum, newton_minimise
from polyceptron.fit.solvers.newton_step import sample_matrices, whole_hessian
from polyceptron.fit.solvers.softmax_objective import SoftmaxObjective
from polyceptron.numerics import Array
from polyceptron.problem.losses import MaxMargin
from polyceptron.rows import Status

_SMALL = 1_000_000  # entries of the matrix of a linear programme
_CLEAR = 1e-12  # margin of rows and weights of length 1 that is no rounding
_DENSE = 600  # unknowns up to which the Hessian is written out; above, Lanczos estimates μ
_ZERO = 1e-12  # fields as small as this are 0


def is_separable(X: Any, y: Any, *, n_classes: int | None = None, tol: float = 1e-6) -> Separation:
    """Whether some W has z_y > z_h for every sample and every h ≠ y, z = Wᵀx/√d.

    Parameters
    ----------
    X : array, sparse matrix, memory map or Dask array of shape (n, d)
        Inputs.
    y : array of int of shape (n,)
        Class indices.
    n_classes : int, default=None
        Their number; by default that of those that occur.
    tol : float, default=1e-6
        The answer is no once weights would have to separate by less than this share of the longest
        input, in units in which the largest entry of every feature is about 1.

    Returns
    -------
    Separation
        The answer and its proof, of the kind 'separable', 'inseparable' or 'undecided'.

    Examples
    --------
    >>> is_separable([[1.0], [2.0], [-1.0]], [0, 0, 1]).separable
    True
    >>> is_separable([[1.0], [2.0], [-1.0]], [0, 1, 1]).separable
    False
    """
    return _proved(check_samples(X, y, n_classes), tol, deep=False)


def separation(X: Any, y: Any, *, n_classes: int | None = None, tol: float = 1e-6) -> Separation:
    """Whether data are separable, quasi-separable or overlapping: does maximum likelihood exist?

    Parameters
    ----------
    X, y, n_classes, tol
        Those of `is_separable`. An intercept is a column of ones in X.

    Returns
    -------
    Separation
        The kind and its certificate.

    Examples
    --------
    >>> X = [[1.0, 0.0], [0.0, 1.0], [0.0, 2.0], [0.0, -1.0]]
    >>> separation(X, [0, 0, 1, 1]).kind, separation(X, [0, 1, 1, 0]).kind
    ('quasi', 'separable')
    """
    return _proved(check_samples(X, y, n_classes), tol, deep=True)


def _proved(given: Samples, tol: float, deep: bool) -> Separation:
    """What is found of features with a largest entry of about 1, for the features given.

    A rule separates whatever the units of the features are: weights are in the inverse ones.
    """
    largest = given.design.largest()
    powers = np.where(largest > 0, np.frexp(largest)[1], 0)
    design = scaled(given.design, None, np.ldexp(1.0, powers)) if powers.any() else given.design
    found = _judged(replace(given, design=design), tol, deep)
    if found.direction is not None:
        return replace(found, direction=np.ldexp(found.direction, -powers[:, None]))
    if found.multipliers is None:
        return replace(found, residual=math.nan)
    signed = -found.multipliers
    signed[np.arange(given.y.size), given.y] = found.multipliers.sum(1)
    R = given.design.back(np.ascontiguousarray(signed.T))
    unit = float(np.abs(R).max())
    return replace(found, residual=unit * float(np.linalg.norm(R / unit)) if unit > 0 else 0.0)


def _judged(samples: Samples, tol: float, deep: bool) -> Separation:
    """Separable or not, and if not, `deep`: quasi-separable or overlapping.

    By linear programmes where these are small, and rounding does not leave it open.
    """
    size = samples.y.size * samples.design.dimension * (samples.n_classes - 1) ** 2
    lp, found = _Programme(samples) if size <= _SMALL else None, None
    if lp is not None:
        cost = np.append(np.zeros(lp.J.shape[1]), -1.0)
        answer = lp.solve(cost, np.hstack([lp.J, -np.ones((len(lp.J), 1))]))
        if answer is not None:
            W, margins, a = answer
            if margins.min() > _CLEAR * float(np.linalg.norm(W)):
                W /= float((margins * lp.size[lp.place[0]]).min())
                return Separation("separable", W, positive=1.0)
            multipliers, residual = lp.proof(a)
            found = Separation("inseparable", None, multipliers) if residual <= tol else None
    if found is None:
        try:
            fit = separate(samples, MaxMargin(), math.inf, doubt=math.sqrt(2) * tol)
            return Separation("separable", fit.weights, positive=1.0)
        except NotSeparable as error:
            found, proof = Separation("undecided"), error.multipliers
            if proof is not None:
                found = Separation("inseparable", None, proof.T / proof.sum())
    if not deep:
        return found
    if lp is None:
        likely = maximum_likelihood(samples, tol)
        known = None if likely is None else likely.separability
        return Separation("undecided") if known is None else known
    answer = lp.solve(-lp.J.sum(0), lp.J)
    if answer is None:
        return Separation("undecided")
    W, margins, a = answer
    if margins.max() > tol and margins.min() >= -tol * float(np.linalg.norm(W)):
        return Separation("quasi", W, None, float((margins > tol).mean()))
    multipliers, residual = lp.proof(1 + a)
    return Separation("undecided" if residual > tol else "overlapping", None, multipliers)


class _Programme:
    """J and the linear programmes over W, for rows x̂ and labels; the last class stays at 0.

    A shift of all classes changes nothing, and rows of any length are separated alike: of length 1.
    """

    def __init__(self, samples: Samples) -> None:
        y, k, fields = samples.y, samples.n_classes, samples.design.scaled_rows(slice(None))
        largest = np.maximum(np.abs(fields).max(1), np.finfo(float).tiny)
        size = np.linalg.norm(fields / largest[:, None], axis=1)
        self.size = largest * np.where(size > 0, size, 1.0)
        fields = fields / self.size[:, None]
        self.fields, self.y, self.k = fields, y, k
        self.place = np.nonzero(np.arange(k) != y[:, None])  # samples, and the wrong classes
        which, others = self.place
        rows, each = np.zeros((which.size, k, fields.shape[1])), np.arange(which.size)
        rows[each, y[which]] = fields[which]
        rows[each, others] = -fields[which]
        self.J = rows[:, :-1].reshape(which.size, -1)

    def solve(self, cost: Array, matrix: Array) -> tuple[Array, Array, Array] | None:
        """min cost·(W, t) with matrix·(W, t) ≥ 0: weights (d, k), their margins, and the duals."""
        size = self.J.shape[1]
        bounds = [(-1.0, 1.0)] * size + [(None, None)] * (cost.size - size)
        found = linprog(cost, A_ub=-matrix, b_ub=np.zeros(len(matrix)), bounds=bounds)
        if found.status != 0 or found.x is None:
            return None
        weights = np.zeros((self.fields.shape[1], self.k))
        weights[:, :-1] = found.x[:size].reshape(self.k - 1, -1).T
        weights -= weights.mean(1, keepdims=True)
        return weights, self.J @ found.x[:size], np.maximum(-found.ineqlin.marginals, 0.0)

    def proof(self, a: Array) -> tuple[Array, float]:
        """Multipliers of the rows given as (n, k), of sum 1, and the norm of their combination.

        The norm is that of rows of length 1, with multipliers of sum 1.
        """
        found = np.zeros((self.y.size, self.k))
        found[self.place] = a / a.sum()
        signed = -found
        signed[np.arange(self.y.size), self.y] = found.sum(1)
        residual = float(np.linalg.norm(self.fields.T @ signed))
        found *= (self.size.min() / self.size)[:, None]
        return found / found.sum(), residual


def maximum_likelihood(samples: Samples, tol: float, start: Array | None = None) -> ERMFit | None:
    """The minimiser without a ridge, to relative distance `tol`; `start` (d, k).

    None once weights on the way there separate the data: then there is none.
    """
    (design, y, k), free = samples, samples.intercept
    checkpoint, before = design.watch.checkpoint, design.passes
    objective = SoftmaxObjective(y, k, samples.weights)
    U = np.zeros((k - 1, design.dimension)) if start is None else (start @ objective.basis).T
    ridge, turn, n_iter = 1e-3 * y.size / design.dimension, 0, 0
    if (known := checkpoint.load("maximum-likelihood")) is not None:
        U, ridge = known["U"], known["ridge"]

    def keep(U: Array, now: bool = False) -> None:
        checkpoint.save(lambda: {"U": U[0], "ridge": ridge}, "maximum-likelihood", now=now)

    steep = math.sqrt(2) * float(design.row_norms.max())
    while True:
        found = newton_minimise(
            design,
            objective,
            np.array([ridge]),
            U[None],
            target=0.5,
            max_iter=60,
            keep=keep,
            intercept=free,
        )
        slope, bound, enough, stop = math.nan, math.inf, 0.0, found.interrupted
        U = found.U[0]
        n_iter += int(found.n_iter[0])
        if stop:
            break
        if samples.error_rate(objective.basis @ found.Z[0]) == 0:
            return None
        try:
            slope = float(np.linalg.norm(design.back(found.evaluation.residual[0])))
            curvature = _smallest_curvature(design, objective, found)
        except KeyboardInterrupt:
            stop = True
            break
        turn += 1
        doubt = slope + float(found.rounding[0])
        enough = max(tol * float(size_of(free, U[None])[0]), _ZERO / max(steep, _ZERO))
        if steep == 0:  # X is 0, and so are the fields of any weights
            bound = 0.0
        elif steep * doubt < curvature:
            bound = -math.log1p(-steep * doubt / curvature) / steep
            if free is not None:  # of W and κβ, which make up b
                most = free.unit * (free.column + float(np.linalg.norm(free.mean)))
                bound *= math.hypot(1.0, most)
        if bound <= enough or turn == 5:
            break
        ridge = min(0.03 * ridge, 0.1 * tol * curvature if curvature > 0 else math.inf)
    keep(found.U, now=True)
    exists, proof = math.isfinite(bound), None
    if exists:  # the wrong classes' probabilities as multipliers (n, k)
        a = found.evaluation.source[0].T.copy()
        a[np.arange(len(a)), y] = 0.0
        a *= weights_or_ones(samples.weights, y.size)[:, None]
        total = float(a.sum())
        proof = Separation("overlapping", None, a / total, residual=slope / total)
    missed = Status.TOLERANCE_NOT_MET if exists else Status.NOT_CONVERGED
    status = Status.OK if bound <= enough else missed
    return fit_at(
        samples,
        "cross-entropy",
        0.0,
        U.T @ objective.basis.T,
        objective.basis @ found.Z[0],
        float(found.evaluation.value[0]),
        bound,
        Status.INTERRUPTED if stop else status,
        gradient_norm=slope,
        n_iter=n_iter,
        matrix_passes=design.passes - before,
        separability=proof,
    )


def _smallest_curvature(design: Design, objective: SoftmaxObjective, found: NewtonMinimum) -> float:
    """μ of ∂²f at the minimum found: of the whole matrix where it is small, else by Lanczos."""
    (_, r, d), bend = found.U.shape, objective.curvature(found.evaluation, np.float64)
    if r * d <= _DENSE:
        inner, H = sample_matrices(bend, found.Z.shape)[0], np.zeros((r * d, r * d))
        for rows, block in design.blocks():
            H += whole_hessian(block * np.float64(design.scale), inner[rows], 0.0)
        return float(eigvalsh(H, subset_by_index=[0, 0])[0] - 1e-14 * np.trace(H))  # rounding

    def apply(u: Array) -> Array:
        return np.asarray(design.through(u.reshape(found.U.shape), bend)[0]).ravel()

    operator = LinearOperator((r * d, r * d), matvec=apply, dtype=np.float64)  # type: ignore[call-overload]
    given = {"v0": np.random.default_rng(0).standard_normal(r * d), "ncv": 40, "tol": 0.05}
    try:
        lowest = eigsh(operator, k=1, which="SA", return_eigenvectors=False, **given)
    except ArpackNoConvergence:
        return 0.0
    return 0.8 * float(lowest[0])  # Lanczos' estimate comes from above
