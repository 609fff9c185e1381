"""Whether data can be separated by a linear rule, with a certificate either way.

Write x̂ = x/√d. The constraints are the rows of J: x̂(e_y − e_h)ᵀ for every sample and every wrong
class h ≠ y, so that the margins of weights W are JW. Three cases:

    separable          JW > 0 for some W
    quasi-separable    JW ≥ 0 for some W, some margins 0: the likelihood rises for ever along W
    overlapping        every W with JW ≠ 0 has a margin below 0: maximum likelihood has a solution

Only in the last has the paper's eq:optimization_ERM, with cross-entropy and λ = 0, a solution. X is
(n, d), y (n,) in 0..k−1, W (d, k), J (n(k − 1), (k − 1)d), multipliers (n, k) with 0 at the labels.
`tol` is a margin over the length of its row: what is smaller may count as 0.

Small problems are linear programmes over weights in [−1, 1] (`margin_programme`), for inputs scaled
to length 1:

    max t,   JW ≥ t         separable if t > 0; else the dual is a ≥ 0 with Σa = 1 and Jᵀa = 0
    max ΣJW, JW ≥ 0         quasi-separable if above 0; else the dual is b = 1 + a > 0 with Jᵀb = 0,
                            which proves that the data overlap

A dual that balances up to ρ = Jᵀb shows that no W with JW ≥ 0 has a margin above ‖ρ‖‖W‖/min b.

Large problems run the max-margin solver (`hard_margin`). Either all margins become positive, and W
separates. Or its multipliers a ≥ 0 balance, ρ = Jᵀa → 0: weights with all margins ≥ 1 would have
Σa ≤ ⟨W, ρ⟩, so that their norm is at least Σa/‖ρ‖. No W of smaller norm separates.

Overlap of large data is shown by the maximum-likelihood estimate (`maximum_likelihood`): the loss f
of cross-entropy without a ridge has a minimiser Ŵ, which we approach by minima at falling ridges.
f is self-concordant: over a step Δ its curvature changes by at most a factor e^{R‖Δ‖}, with R = √2
max‖x‖/√d. With the smallest curvature μ and the gradient's norm g at W,

    R g < μ   ⇒   there is a minimiser, and ‖W − Ŵ‖ ≤ −ln(1 − R g/μ)/R.

This bound is the error bar of the fit. That Ŵ exists proves the overlap. A dual certificate is the
probability a_h = p_h(x) of every wrong class, since Jᵀa = −∇f ≈ 0.

Limits of the proofs: linear programmes are solved in floating point, and above
`MAX_UNKNOWNS_OF_A_MATRIX` unknowns μ is Lanczos's estimate with a margin for safety.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.linalg import eigvalsh
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from polyceptron.data.checks import Samples, check_samples
from polyceptron.data.design import Design, weights_or_ones
from polyceptron.data.stored_designs import scaled
from polyceptron.fit.solvers.erm_fit import ERMFit, Separation, fit_at
from polyceptron.fit.solvers.hard_margin import NotSeparable, separate
from polyceptron.fit.solvers.intercept import growth_by_intercept, size_of
from polyceptron.fit.solvers.logistic_objective import softmax_objective
from polyceptron.fit.solvers.margin_programme import MarginProgramme, signed
from polyceptron.fit.solvers.newton import NewtonMinimum, newton_minimise
from polyceptron.fit.solvers.newton_step import sample_matrices, whole_hessian
from polyceptron.fit.solvers.softmax_objective import SoftmaxObjective
from polyceptron.numerics import Array
from polyceptron.problem.losses import MaxMargin
from polyceptron.rows import Status

MAX_ENTRIES_OF_A_PROGRAMME = 1_000_000  # of its matrix: HiGHS takes seconds for as many
ROUNDING = 1e-12  # of a margin of inputs and weights of length 1
MAX_UNKNOWNS_OF_A_MATRIX = 600  # up to which the Hessian is written out; above, Lanczos estimates μ
# Maximum likelihood: ridges per sample and dimension, tried one after the other.
FIRST_RIDGE_PER_SAMPLE = 1e-3
FALL_OF_RIDGE = 0.03
MAX_RIDGES = 5
MAX_STEPS_AT_A_RIDGE = 60
# Relative distance to the minimum at a ridge: see `_LikelihoodSearch.minimise`.
TARGET_AT_A_RIDGE = 0.5
RIDGE_PER_CURVATURE = 0.1  # of tol·μ: the minimum is then within a tenth of tol of Ŵ
# Of the trace: what the eigenvalues of a matrix of up to 600 rows are off by, with room.
ROUNDING_OF_A_HESSIAN = 1e-14
# Lanczos's estimate of the smallest eigenvalue comes from above, with a relative error of 5 %. Four
# times as much is taken off.
LANCZOS_TOLERANCE = 0.05
LANCZOS_SAFETY = 0.8
LANCZOS_VECTORS = 40


def is_separable(X: Any, y: Any, *, n_classes: int | None = None, tol: float = 1e-6) -> Separation:
    """Return whether some W has z_y > z_h for every sample and every h ≠ y, z = Wᵀx/√d.

    Parameters
    ----------
    X : array, sparse matrix, memory map or Dask array of shape (n, d)
        Inputs.
    y : array of int of shape (n,)
        Class indices.
    n_classes : int, default=None
        Number of classes; by default the number that occur in y.
    tol : float, default=1e-6
        Data that are separated by smaller margins only may count as inseparable: if every W of
        norm 1 has a margin below `tol` times the longest constraint x(e_y − e_h)ᵀ/√d, which is √2
        times as long as its x/√d. Small problems are told apart down to rounding. Features are
        first scaled to a largest entry of about 1.

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
    return _proved(check_samples(X, y, n_classes), tol, tell_quasi=False)


@np.errstate(under="ignore")  # Chances of classes far behind are 0.
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
    return _proved(check_samples(X, y, n_classes), tol, tell_quasi=True)


def _proved(samples: Samples, tol: float, tell_quasi: bool) -> Separation:
    """Scale features by powers of 2 to a largest entry of about 1, decide, and scale back.

    Whether data are separable does not depend on the units of their features; weights are in the
    inverse units.
    """
    largest = samples.design.largest()
    exponents = np.where(largest > 0, np.frexp(largest)[1], 0)
    design = samples.design
    if exponents.any():
        design = scaled(design, None, np.ldexp(1.0, exponents))
    decided = _decided(replace(samples, design=design), tol, tell_quasi)
    if decided.direction is not None:
        return replace(decided, direction=np.ldexp(decided.direction, -exponents[:, None]))
    if decided.multipliers is None:
        return replace(decided, residual=math.nan)
    balance = samples.design.back(signed(decided.multipliers, samples.y).T.copy())  # ρ = Jᵀa
    unit = float(np.abs(balance).max())
    residual = 0.0
    if unit > 0:  # squares of tiny entries would vanish
        residual = unit * float(np.linalg.norm(balance / unit))
    return replace(decided, residual=residual)


def _decided(samples: Samples, tol: float, tell_quasi: bool) -> Separation:
    """Return whether samples are separable, and if not, whether they are quasi-separable if asked.

    Small problems are linear programmes. Descent decides large ones, and those that rounding leaves
    open.
    """
    n_entries = samples.y.size * samples.design.dimension * (samples.n_classes - 1) ** 2
    programme = None
    decided = None
    if n_entries <= MAX_ENTRIES_OF_A_PROGRAMME:
        programme = MarginProgramme(samples)
        decided = _separable_by_programme(programme, tol)
    if decided is None:
        decided = _separable_by_descent(samples, tol)
    if decided.separable or not tell_quasi:
        return decided
    if programme is not None:
        return _overlapping_by_programme(programme, tol)
    estimate = maximum_likelihood(samples, tol)
    if estimate is None or estimate.separability is None:
        return Separation("undecided")
    return estimate.separability


def _separable_by_programme(programme: MarginProgramme, tol: float) -> Separation | None:
    """Solve max t, JW ≥ t; None where rounding leaves the answer open."""
    J = programme.J
    cost = np.append(np.zeros(J.shape[1]), -1.0)
    answer = programme.solve(cost, np.hstack([J, -np.ones((len(J), 1))]))
    if answer is None:
        return None
    W, margins, a = answer
    if margins.min() > ROUNDING * float(np.linalg.norm(W)):
        margins_of_samples = margins * programme.row_norms[programme.sample_of_row]
        W /= float(margins_of_samples.min())
        return Separation("separable", W, positive=1.0)
    multipliers, residual = programme.proof(a)
    if residual > tol:
        return None
    return Separation("inseparable", None, multipliers)


def _separable_by_descent(samples: Samples, tol: float) -> Separation:
    """Go towards the max-margin solution, to weights that separate or multipliers that balance.

    Any weights that separate will do, so the tolerance of the solution is infinite. `separate`
    gives up where ‖Jᵀa‖/Σa < doubt·max‖x̂‖. A row of J is √2 times as long as its x̂: this is tol
    times the longest row.
    """
    try:
        fit = separate(samples, MaxMargin(), tol=math.inf, doubt=math.sqrt(2) * tol)
    except NotSeparable as error:
        multipliers = error.multipliers
        if multipliers is None:
            return Separation("undecided")
        return Separation("inseparable", None, multipliers.T / multipliers.sum())
    return Separation("separable", fit.weights, positive=1.0)


def _overlapping_by_programme(programme: MarginProgramme, tol: float) -> Separation:
    """Solve max ΣJW, JW ≥ 0 for data that no weights separate."""
    answer = programme.solve(-programme.J.sum(0), programme.J)
    if answer is None:
        return Separation("undecided")
    W, margins, a = answer
    # Inputs have length 1, and W fills the box [−1, 1] if any margin can be above 0.
    if margins.max() > tol and margins.min() >= -tol * float(np.linalg.norm(W)):
        return Separation("quasi", W, None, float((margins > tol).mean()))
    b = 1 + a
    multipliers, residual = programme.proof(b)
    kind = "overlapping"
    if residual > tol * float(b.min() / b.sum()):  # a margin up to ‖ρ‖/min b is open
        kind = "undecided"
    return Separation(kind, None, multipliers)


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
        if search.interrupted or search.distance_bound <= search.distance_asked:
            break
    search.keep(search.minimum.U, now=True)
    return search.fit(samples.design.passes - before)


class _LikelihoodSearch:
    """Minima at falling ridges, until the last is near enough to the minimiser without a ridge.

    Attributes
    ----------
    ridge : float
        Of the next minimum.
    U : array, shape (k − 1, d)
        The weights reached, in an orthonormal basis of class differences: norms are those of W.
    minimum : NewtonMinimum
        The last one.
    gradient_norm : float
        ‖∇f‖ there, of the loss without a ridge; NaN until it is known.
    curvature : float
        The smallest one there, μ.
    distance_bound : float
        On the distance to the minimiser without a ridge; infinite until one is proved to exist.
    distance_asked : float
        The search ends when the bound is below it.
    self_concordance : float
        R of the module's docstring.
    """

    def __init__(self, samples: Samples, tol: float, start: Array | None) -> None:
        design = samples.design
        k = samples.n_classes
        self.samples = samples
        self.tol = tol
        self.objective = softmax_objective(samples.y, k, samples.weights)
        self.U: Array = np.zeros((k - 1, design.dimension))
        if start is not None:
            self.U = (start @ self.objective.basis).T
        self.ridge = FIRST_RIDGE_PER_SAMPLE * samples.y.size / design.dimension
        known = design.watch.checkpoint.load("maximum-likelihood")
        if known is not None:
            self.U = known["U"]
            self.ridge = known["ridge"]
        self.self_concordance = math.sqrt(2) * float(design.row_norms.max())
        self.n_iter = 0
        self.interrupted = False
        self.gradient_norm = math.nan
        self.curvature = math.nan
        self.distance_bound = math.inf
        self.distance_asked = 0.0
        self.minimum: NewtonMinimum

    def keep(self, U: Array, now: bool = False) -> None:
        """Save the weights (1, k − 1, d) and the ridge, for a run that goes on from here."""
        checkpoint = self.samples.design.watch.checkpoint
        state = {"U": U[0], "ridge": self.ridge}
        checkpoint.save(lambda: state, "maximum-likelihood", now=now)

    def minimise(self) -> None:
        """Go to the minimum at this ridge, whose distance to the minimiser is not known yet.

        `newton_minimise` ends at ‖gradient‖ ≤ ½·ridge·‖U‖. At first that is enough, since the next
        ridge moves the minimum by more. At the last ridge, ridge ≤ 0.1·tol·μ, it leaves a gradient
        of at most 0.05·tol·μ‖U‖, so that the minimum is within a small part of tol·‖U‖ of Ŵ.
        """
        self.minimum = newton_minimise(
            self.samples.design,
            self.objective,
            np.array([self.ridge]),
            self.U[None],
            target=TARGET_AT_A_RIDGE,
            max_iter=MAX_STEPS_AT_A_RIDGE,
            keep=self.keep,
            intercept=self.samples.intercept,
        )
        self.U = self.minimum.U[0]
        self.n_iter += int(self.minimum.n_iter[0])
        self.interrupted = self.minimum.interrupted
        self.gradient_norm = math.nan
        self.distance_bound = math.inf
        self.distance_asked = 0.0

    def separates(self) -> bool:
        """Return whether the weights reached mistake no sample."""
        return self.samples.error_rate(self.objective.basis @ self.minimum.Z[0]) == 0

    def certify(self) -> None:
        """Bound the distance to the minimiser by −ln(1 − R g/μ)/R, if R g < μ."""
        minimum = self.minimum
        try:
            gradient = self.samples.design.back(minimum.evaluation.residual[0])
            self.curvature = _smallest_curvature(self.samples.design, self.objective, minimum)
        except KeyboardInterrupt:
            self.interrupted = True
            return
        self.gradient_norm = float(np.linalg.norm(gradient))
        relative = self.tol * float(size_of(self.samples.intercept, self.U[None])[0])
        R = self.self_concordance
        self.distance_asked = max(relative, ROUNDING / max(R, ROUNDING))
        # `rounding` bounds what rounding hides of the gradient's norm.
        largest_gradient = self.gradient_norm + float(minimum.rounding[0])
        if R == 0:  # X is 0, and so are the fields of any weights
            self.distance_bound = 0.0
        elif R * largest_gradient < self.curvature:
            bound = -math.log1p(-R * largest_gradient / self.curvature) / R
            # The bound is for weights of centred features and a column of ones. In the features as
            # given, with the intercept apart, a distance is at most this factor longer.
            self.distance_bound = bound * growth_by_intercept(self.samples.intercept)

    def lower_ridge(self) -> None:
        """Take a ridge that is small against the smallest curvature, and below the last one."""
        lower = FALL_OF_RIDGE * self.ridge
        if self.curvature > 0:
            lower = min(lower, RIDGE_PER_CURVATURE * self.tol * self.curvature)
        self.ridge = lower

    def proof(self) -> Separation | None:
        """Return the wrong classes' probabilities as multipliers (n, k), if there is a minimum."""
        if math.isinf(self.distance_bound):
            return None
        y = self.samples.y
        multipliers = self.minimum.evaluation.source[0].T.copy()  # probabilities of all classes
        multipliers[np.arange(len(multipliers)), y] = 0.0
        multipliers *= weights_or_ones(self.samples.weights, y.size)[:, None]
        total = float(multipliers.sum())
        residual = self.gradient_norm / total
        return Separation("overlapping", None, multipliers / total, residual=residual)

    @property
    def status(self) -> Status:
        """Return what was reached."""
        if self.interrupted:
            return Status.INTERRUPTED
        if self.distance_bound <= self.distance_asked:
            return Status.OK
        if math.isinf(self.distance_bound):
            return Status.NOT_CONVERGED
        return Status.TOLERANCE_NOT_MET

    def fit(self, passes: float) -> ERMFit:
        """Return the fit of the weights reached, after so many passes over X."""
        return fit_at(
            self.samples,
            "cross-entropy",
            0.0,
            self.U.T @ self.objective.basis.T,
            self.objective.basis @ self.minimum.Z[0],
            float(self.minimum.evaluation.value[0]),
            self.distance_bound,
            self.status,
            gradient_norm=self.gradient_norm,
            n_iter=self.n_iter,
            matrix_passes=passes,
            separability=self.proof(),
        )


def _smallest_curvature(
    design: Design, objective: SoftmaxObjective, minimum: NewtonMinimum
) -> float:
    """Return μ, the least eigenvalue of the Hessian of f at a minimum.

    A small Hessian is written out; Lanczos's method estimates μ of a large one.
    """
    _, r, d = minimum.U.shape
    n_unknowns = r * d
    curvature = objective.curvature(minimum.evaluation, np.float64)
    if n_unknowns <= MAX_UNKNOWNS_OF_A_MATRIX:
        hessians_of_samples = sample_matrices(curvature, minimum.Z.shape)[0]
        H = np.zeros((n_unknowns, n_unknowns))
        for rows, block in design.blocks():
            inputs = block * np.float64(design.scale)
            H += whole_hessian(inputs, hessians_of_samples[rows], 0.0)  # without a ridge
        rounding = ROUNDING_OF_A_HESSIAN * float(np.trace(H))
        return float(eigvalsh(H, subset_by_index=[0, 0])[0]) - rounding

    def apply(u: Array) -> Array:
        """Multiply the Hessian by a vector u (r·d,)."""
        return np.asarray(design.through(u.reshape(minimum.U.shape), curvature)[0]).ravel()

    operator = LinearOperator((n_unknowns, n_unknowns), matvec=apply, dtype=np.float64)  # type: ignore[call-overload]
    start = np.random.default_rng(0).standard_normal(n_unknowns)
    try:
        lowest = eigsh(
            operator,
            k=1,
            which="SA",
            return_eigenvectors=False,
            v0=start,
            ncv=LANCZOS_VECTORS,
            tol=LANCZOS_TOLERANCE,
        )
    except ArpackNoConvergence:
        return 0.0
    return LANCZOS_SAFETY * float(lowest[0])
