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

from __future__ import annotations

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

MAX_ENTRIES_OF_A_PROGRAMME = 1_000_000  # of its matrix: HiGHS takes seconds for as many
ROUNDING = 1e-12  # of margins and fields, of rows and weights of length 1
MAX_UNKNOWNS_OF_A_MATRIX = 600  # up to which the Hessian is written out; above, Lanczos estimates μ
MAX_RIDGES = 5  # tried one after the other, each at most 3 % of the one before


def is_separable(X: Any, y: Any, *, n_classes: int | None = None, tol: float = 1e-6) -> Separation:
    """Return whether some W has z_y > z_h for every sample and every h ≠ y, z = Wᵀx/√d.

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
    """Return whether data are separable, quasi-separable or overlapping, with a proof.

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
    """Return the answer for features with a largest entry of about 1, in those given.

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
    """Return whether samples are separable, and if not, `deep`: quasi-separable or overlapping.

    By linear programmes where these are small, and rounding does not leave it open.
    """
    n_entries = samples.y.size * samples.design.dimension * (samples.n_classes - 1) ** 2
    programme = None
    found = None
    if n_entries <= MAX_ENTRIES_OF_A_PROGRAMME:
        programme = _Programme(samples)
        found = _separable_by_programme(programme, tol)
    if found is None:
        found = _separable_by_descent(samples, tol)
    if found.separable or not deep:
        return found
    if programme is not None:
        return _overlapping_by_programme(programme, tol)
    likely = maximum_likelihood(samples, tol)
    if likely is None or likely.separability is None:
        return Separation("undecided")
    return likely.separability


def _separable_by_programme(programme: _Programme, tol: float) -> Separation | None:
    """Solve max t, JW ≥ t; None where rounding leaves the answer open."""
    J = programme.J
    cost = np.append(np.zeros(J.shape[1]), -1.0)
    answer = programme.solve(cost, np.hstack([J, -np.ones((len(J), 1))]))
    if answer is None:
        return None
    W, margins, a = answer
    if margins.min() > ROUNDING * float(np.linalg.norm(W)):
        W /= float((margins * programme.size[programme.place[0]]).min())
        return Separation("separable", W, positive=1.0)
    multipliers, residual = programme.proof(a)
    if residual > tol:
        return None
    return Separation("inseparable", None, multipliers)


def _separable_by_descent(samples: Samples, tol: float) -> Separation:
    """Go towards the max-margin solution, to weights that separate or multipliers that balance."""
    try:
        fit = separate(samples, MaxMargin(), math.inf, doubt=math.sqrt(2) * tol)
    except NotSeparable as error:
        proof = error.multipliers
        if proof is None:
            return Separation("undecided")
        return Separation("inseparable", None, proof.T / proof.sum())
    return Separation("separable", fit.weights, positive=1.0)


def _overlapping_by_programme(programme: _Programme, tol: float) -> Separation:
    """Solve max ΣJW, JW ≥ 0 for data that no weights separate."""
    answer = programme.solve(-programme.J.sum(0), programme.J)
    if answer is None:
        return Separation("undecided")
    W, margins, a = answer
    if margins.max() > tol and margins.min() >= -tol * float(np.linalg.norm(W)):
        return Separation("quasi", W, None, float((margins > tol).mean()))
    multipliers, residual = programme.proof(1 + a)
    kind = "overlapping"
    if residual > tol:
        kind = "undecided"
    return Separation(kind, None, multipliers)


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
    """Return the minimiser of cross-entropy without a ridge, to relative distance `tol`.

    Parameters
    ----------
    samples : Samples
    tol : float
    start : (d, k), optional

    Returns
    -------
    ERMFit or None
        None once weights on the way there separate the data: then there is no minimiser.
    """
    before = samples.design.passes
    search = _LikelihoodSearch(samples, tol, start)
    for attempt in range(MAX_RIDGES):
        if attempt > 0:
            search.lower_ridge()
        search.minimise()
        if search.interrupted:
            break
        if search.separates():
            return None
        search.certify()
        if search.interrupted or search.bound <= search.enough:
            break
    search.keep(search.found.U, now=True)
    return search.fit(samples.design.passes - before)


class _LikelihoodSearch:
    """Minima at ridges that fall, until the one without a ridge is near enough to the last.

    ridge : that of the next minimum
    U : (k − 1, d), the weights reached
    found : the last minimum
    slope : ‖∇f‖ of the loss without a ridge there, NaN until it is known
    curvature : the smallest one there, μ
    bound : on the distance to the minimiser without a ridge, infinite until there is one
    enough : the distance that is asked for
    """

    def __init__(self, samples: Samples, tol: float, start: Array | None) -> None:
        design = samples.design
        k = samples.n_classes
        self.samples = samples
        self.tol = tol
        self.objective = SoftmaxObjective(samples.y, k, samples.weights)
        self.U: Array = np.zeros((k - 1, design.dimension))
        if start is not None:
            self.U = (start @ self.objective.basis).T
        self.ridge = 1e-3 * samples.y.size / design.dimension
        known = design.watch.checkpoint.load("maximum-likelihood")
        if known is not None:
            self.U = known["U"]
            self.ridge = known["ridge"]
        self.steepness = math.sqrt(2) * float(design.row_norms.max())  # R of the module's docstring
        self.n_iter = 0
        self.interrupted = False
        self.slope = math.nan
        self.curvature = math.nan
        self.bound = math.inf
        self.enough = 0.0
        self.found: NewtonMinimum

    def keep(self, U: Array, now: bool = False) -> None:
        """Save the weights (1, k − 1, d) and the ridge, for a run that goes on from here."""
        checkpoint = self.samples.design.watch.checkpoint
        state = {"U": U[0], "ridge": self.ridge}
        checkpoint.save(lambda: state, "maximum-likelihood", now=now)

    def minimise(self) -> None:
        """Go to the minimum at this ridge; nothing is known of its distance to the minimiser."""
        self.found = newton_minimise(
            self.samples.design,
            self.objective,
            np.array([self.ridge]),
            self.U[None],
            target=0.5,
            max_iter=60,
            keep=self.keep,
            intercept=self.samples.intercept,
        )
        self.U = self.found.U[0]
        self.n_iter += int(self.found.n_iter[0])
        self.interrupted = self.found.interrupted
        self.slope = math.nan
        self.bound = math.inf
        self.enough = 0.0

    def separates(self) -> bool:
        """Return whether the weights reached mistake no sample."""
        return self.samples.error_rate(self.objective.basis @ self.found.Z[0]) == 0

    def certify(self) -> None:
        """Bound the distance to the minimiser by −ln(1 − R g/μ)/R, if R g < μ."""
        design = self.samples.design
        found = self.found
        try:
            slope = float(np.linalg.norm(design.back(found.evaluation.residual[0])))
            self.curvature = _smallest_curvature(design, self.objective, found)
        except KeyboardInterrupt:
            self.interrupted = True
            return
        self.slope = slope
        steepness = self.steepness
        gradient = slope + float(found.rounding[0])
        free = self.samples.intercept
        relative = self.tol * float(size_of(free, self.U[None])[0])
        self.enough = max(relative, ROUNDING / max(steepness, ROUNDING))
        if steepness == 0:  # X is 0, and so are the fields of any weights
            self.bound = 0.0
        elif steepness * gradient < self.curvature:
            self.bound = -math.log1p(-steepness * gradient / self.curvature) / steepness
            if free is not None:  # of W and κβ, which make up b
                most = free.unit * (free.column + float(np.linalg.norm(free.mean)))
                self.bound *= math.hypot(1.0, most)

    def lower_ridge(self) -> None:
        """Take a ridge that is small against the smallest curvature, and below the last one."""
        lower = 0.03 * self.ridge
        if self.curvature > 0:
            lower = min(lower, 0.1 * self.tol * self.curvature)
        self.ridge = lower

    def proof(self) -> Separation | None:
        """Return the wrong classes' probabilities as multipliers (n, k), if there is a minimum."""
        if math.isinf(self.bound):
            return None
        y = self.samples.y
        a = self.found.evaluation.source[0].T.copy()
        a[np.arange(len(a)), y] = 0.0
        a *= weights_or_ones(self.samples.weights, y.size)[:, None]
        total = float(a.sum())
        return Separation("overlapping", None, a / total, residual=self.slope / total)

    @property
    def status(self) -> Status:
        """Return what was reached."""
        if self.interrupted:
            return Status.INTERRUPTED
        if self.bound <= self.enough:
            return Status.OK
        if math.isinf(self.bound):
            return Status.NOT_CONVERGED
        return Status.TOLERANCE_NOT_MET

    def fit(self, passes: float) -> ERMFit:
        """Return the fit of the weights reached, after so many passes over X."""
        return fit_at(
            self.samples,
            "cross-entropy",
            0.0,
            self.U.T @ self.objective.basis.T,
            self.objective.basis @ self.found.Z[0],
            float(self.found.evaluation.value[0]),
            self.bound,
            self.status,
            gradient_norm=self.slope,
            n_iter=self.n_iter,
            matrix_passes=passes,
            separability=self.proof(),
        )


def _smallest_curvature(design: Design, objective: SoftmaxObjective, found: NewtonMinimum) -> float:
    """μ of ∂²f at the minimum found: of the whole matrix where it is small, else by Lanczos."""
    (_, r, d), bend = found.U.shape, objective.curvature(found.evaluation, np.float64)
    if r * d <= MAX_UNKNOWNS_OF_A_MATRIX:
        inner, H = sample_matrices(bend, found.Z.shape)[0], np.zeros((r * d, r * d))
        for rows, block in design.blocks():
            H += whole_hessian(block * np.float64(design.scale), inner[rows], 0.0)
        return float(eigvalsh(H, subset_by_index=[0, 0])[0] - 1e-14 * np.trace(H))  # rounding

    def apply(u: Array) -> Array:
        """Multiply the Hessian by a vector u (r·d,)."""
        return np.asarray(design.through(u.reshape(found.U.shape), bend)[0]).ravel()

    operator = LinearOperator((r * d, r * d), matvec=apply, dtype=np.float64)  # type: ignore[call-overload]
    given = {"v0": np.random.default_rng(0).standard_normal(r * d), "ncv": 40, "tol": 0.05}
    try:
        lowest = eigsh(operator, k=1, which="SA", return_eigenvectors=False, **given)
    except ArpackNoConvergence:
        return 0.0
    return 0.8 * float(lowest[0])  # Lanczos' estimate comes from above
