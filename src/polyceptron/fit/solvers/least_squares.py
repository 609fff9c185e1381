"""Square loss on one-hot labels: min_W ½‖AW − Y‖²_F + (λ/2)‖W‖²_F with A = X/√d, for every λ.

Weights of samples multiply the rows of A and Y by their roots. One eigendecomposition of the
smaller Gram matrix serves every λ, a Cholesky factor one λ > 0:

    n ≥ d:  (AᵀA + λ) W = AᵀY            n < d:  (AAᵀ + λ) C = Y,  W = AᵀC

Residuals are then computed from A itself and corrected through the same decomposition, which
removes the rounding that squaring the condition number brings in. λ = 0 is the solution of least
norm: there it matters which directions A does not see. Those that a decomposition finds are
believed if the rows less the first one, with every column in its own unit, do not see as many: the
rank of A is not below theirs, and they keep the digits of inputs far from zero.

With an intercept features and labels are centred. A mean η that rounding leaves in the features
adds nηηᵀ to AᵀA, and nηηᵀW to the gradient: `stray` is n‖η‖².
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg

from polyceptron.data.checks import Samples
from polyceptron.data.design import Design, weights_or_ones
from polyceptron.data.stored_designs import BlockwiseDesign, ScaleRows
from polyceptron.fit.solvers.erm_fit import ERMFit, fit_at, stopped, stopped_at
from polyceptron.fit.solvers.intercept import certificate, without_column
from polyceptron.fit.solvers.newton_fits import fit_newton
from polyceptron.fit.solvers.objectives import lengths, norms
from polyceptron.fit.solvers.rounding import EPS, sum_rounding
from polyceptron.numerics import AnyArray, Array
from polyceptron.problem.losses import Loss
from polyceptron.rows import Status

_CORRECTIONS = 4  # rounds of iterative refinement; the gradient falls by orders in each
_NOISE = 8.0  # times the rounding of Av, above which v is no null vector
_BLOCK = 256  # rows treated at once: keeps memory bounded for long lists of λ


class WeightedRows(Design):
    """Rows of `base` times factors (n,): a sum of squares over them is a weighted sum."""

    def __init__(self, base: Design, factors: Array) -> None:
        super().__init__(base.shape, np.float64)
        self._base, self._factors = base, factors

    def read_rows(self, rows: Any) -> AnyArray:
        """Return the chosen rows, each times its factor."""
        return np.asarray(self._base.read_rows(rows) * self._factors[rows][:, None])

    def each_block(
        self, work: Callable[..., Any], shared: Any = (), parts: Any = None, *size: int
    ) -> Iterator[tuple[slice, Any]]:
        """Yield what `work` returns for each block of weighted rows."""
        count = len(shared)  # the factors come behind it

        def own(rows: slice) -> tuple[Any, ...]:
            """Return what belongs to these rows: their factors, then the parts of the caller."""
            return (self._factors[rows], *(parts(rows) if parts is not None else ()))

        def weighted(block: AnyArray, *more: Any) -> Any:
            """Call `work` with the rows times their factors."""
            return work(block * more[count][:, None], *more[:count], *more[count + 1 :])

        return self._base.each_block(weighted, shared, own, *size)

    def times_columns(self, small: AnyArray) -> AnyArray:
        """Return the weighted design times `small` (d, m), shape (n, m)."""
        return (self._base.times_columns(small) * self._factors).astype(small.dtype, copy=False)

    def times_rows(self, small: AnyArray) -> AnyArray:
        """Return the transposed weighted design times `small` (n, m), shape (d, m)."""
        return self._base.times_rows((small * self._factors).astype(small.dtype, copy=False))


class _Gram:
    """The eigendecomposition of AᵀA (n ≥ d) or AAᵀ (n < d), and solves with any shift."""

    def __init__(self, gram: Array, design: Design, plain: Design) -> None:
        n, d = design.shape
        # What the smallest eigenvalue is known to: of forming the matrix, and of decomposing it.
        doubt = sum_rounding(max(n, d)) * float(np.trace(gram))
        values, self.vectors = scipy.linalg.eigh(gram, overwrite_a=True, check_finite=False)
        largest = max(float(values[-1]), 0.0)
        self.null = values <= max(n, d) * EPS * largest
        self.values, self.smallest = np.where(self.null, 0.0, values), 1.0
        if not self.null.all():
            self.smallest = max(float(values[~self.null][0]) - doubt - 8 * EPS * largest, 0.0)
        if self.null.any():  # an eigenvalue is known to ε, but Av to ε too: that is far less
            v = self.vectors[:, self.null].T
            size = np.linalg.norm(design.fields(v) if n >= d else design.back(v), axis=1)
            noise = sum_rounding(max(n, d)) * float(np.linalg.norm(design.row_norms))
            if size.max() > _NOISE * noise or _rank(plain) > np.count_nonzero(~self.null):
                self.smallest = 0.0

    def solve(self, right: Array, ridges: Array) -> Array:
        """right (Gram + λ)⁻¹ (L, k, ·) for every λ; directions of zero stay zero where λ = 0."""
        total = self.values + ridges[:, None, None]
        return (right @ self.vectors) / np.where(total > 0, total, np.inf) @ self.vectors.T

    def convexity(self, ridge: float) -> float:
        """The least curvature of the objective among the weights that a solve can return."""
        return ridge if ridge > 0 and self.null.any() else ridge + self.smallest


def _rank(design: Design) -> int:
    """Return the rank of the rows less the first, with columns whose largest entry is 1."""
    (n, d), first = design.shape, np.asarray(design.read_rows(slice(0, 1))[0], dtype=float)
    every = np.full(d, True)
    unit = BlockwiseDesign(design, ScaleRows(first, np.ones(d), every), d).largest()
    C = BlockwiseDesign(design, ScaleRows(first, np.where(unit > 0, unit, 1.0), every), d)
    values = scipy.linalg.eigvalsh(C.gram(), overwrite_a=True, check_finite=False)
    return int(np.count_nonzero(values > max(n, d) * EPS * values[-1]))


class _ShiftedGram(_Gram):
    """The Cholesky factor of Gram + λ for one λ > 0, which is also its least curvature."""

    def __init__(self, gram: Array, ridge: float) -> None:
        shifted = gram.copy()
        shifted[np.diag_indices_from(shifted)] += ridge
        self.factor = scipy.linalg.cho_factor(shifted, overwrite_a=True, check_finite=False)

    def solve(self, right: Array, ridges: Array) -> Array:
        """Return the solution of (AᵀA + λ) x = right for each right-hand side."""
        right = right.reshape(right.shape[-2:]).T
        return np.asarray(scipy.linalg.cho_solve(self.factor, right, check_finite=False)).T[None]

    def convexity(self, ridge: float) -> float:
        """Return a lower bound on the smallest eigenvalue of the Hessian: the ridge."""
        return ridge


def fit_least_squares(
    samples: Samples, loss: Loss, ridges: Sequence[float], tol: float, start: Array | None
) -> list[ERMFit]:
    """One fit per λ, in the order given; there is nothing to start from."""
    n, d = samples.design.shape
    # Conjugate gradients are quicker then; and a matrix of all pairs of rows reads them many times,
    # or brings them here from a cluster.
    large = min(n, d) > 6000 or (samples.design.reading_is_dear and n < d)
    if large and 0 not in ridges:
        return fit_newton(samples, loss, ridges, tol, start)
    free = samples.intercept
    if free is None:
        return _fit_centred(samples, loss, ridges, tol, 0.0)
    samples, mean = without_column(samples)  # labels too, and b makes up for their means
    size = float(np.linalg.norm(mean))
    bent = math.hypot(1.0, free.unit * size)  # of W, which b follows
    stray = samples.total * (2 * EPS * size) ** 2
    level = np.bincount(samples.y, samples.weights, samples.n_classes) / samples.total
    return [
        replace(
            fit,
            weights=free.joined(fit.weights.T, level - mean @ fit.weights).T,
            distance_bound=fit.distance_bound * bent,
        )
        for fit in _fit_centred(samples, loss, ridges, tol / bent, stray)
    ]


def _fit_centred(
    samples: Samples, loss: Loss, ridges: Sequence[float], tol: float, stray: float
) -> list[ERMFit]:
    """One fit per λ of features without a column; labels are centred where the features are."""
    plain = samples.design
    if samples.weights is not None:  # rows are multiplied by the roots of their weights
        rooted = WeightedRows(plain, np.sqrt(samples.weights))
        rooted.watch = plain.watch
        samples = replace(samples, design=rooted)
    products = samples.design.gram()
    if len(ridges) == 1 and ridges[0] > 0:
        with suppress(np.linalg.LinAlgError):
            one = _ShiftedGram(products, ridges[0])
            fits = _fit_block(one, samples, loss, ridges, tol, stray)
            if fits[0].status != Status.TOLERANCE_NOT_MET:
                return fits
    gram = _Gram(products, samples.design, plain)
    per_block = max(1, _BLOCK // samples.n_classes)
    fits = []
    for first in range(0, len(ridges), per_block):
        fits += _fit_block(gram, samples, loss, ridges[first : first + per_block], tol, stray)
        if fits[-1].status == Status.INTERRUPTED:
            none, rest = 0 * fits[-1].weights, ridges[len(fits) :]
            return fits + [stopped_at(none, ridge, loss.name) for ridge in rest]
    return fits


def _fit_block(
    gram: _Gram, samples: Samples, loss: Loss, ridges: Sequence[float], tol: float, stray: float
) -> list[ERMFit]:
    """Return the fits at a few λ, solved side by side and corrected by iterative refinement."""
    solve = _RefinedSolve(gram, samples, ridges, tol, stray)
    solve.setup()
    try:
        while not solve.ended:
            solve.certify()
            if not solve.ended:
                solve.correct()
        solve.zero_where_minimal()
    except KeyboardInterrupt:
        solve.interrupted = True
    return solve.finalize(loss)


@dataclass(frozen=True)
class _Certified:
    """Weights W (L, k, d), fields (L, k, n), the gradients' norms and the bounds, (L,) both."""

    W: Array
    fields: Array
    gradient_norm: Array
    bound: Array


class _RefinedSolve:
    """Solves at L ridges side by side, each followed by a certificate and corrections.

    Y : (k, n) one-hot labels, centred where the features are, times the roots of their weights
    level : (k, 1) what was subtracted from the labels
    solution : W (L, k, d) if n ≥ d, else the dual C (L, k, n) with W = CA
    residual : of the equations at the solution, in the same shape
    best : the last solution whose gradient was smaller than the one before
    met : (L,) whether the bound is within the tolerance
    """

    def __init__(
        self, gram: _Gram, samples: Samples, ridges: Sequence[float], tol: float, stray: float
    ) -> None:
        design, y, k = samples
        self.gram = gram
        self.samples = samples
        self.design = design
        self.ridges = ridges
        self.lam = np.array(ridges, dtype=float)
        self.tol = tol
        self.stray = stray
        self.passes_before = design.passes
        self.tall = design.n_samples >= design.dimension
        self.convexity = np.array([max(gram.convexity(ridge) - stray, ridge) for ridge in ridges])
        self.sqrt_weights = np.sqrt(weights_or_ones(samples.weights, y.size))
        self.level = np.zeros((k, 1))
        if samples.features is not None:
            counts = self.sqrt_weights**2
            self.level[:, 0] = np.bincount(y, counts, k) / counts.sum()
        self.Y = (np.eye(k)[:, y] - self.level) * self.sqrt_weights
        count = self.lam.size
        self.best = _Certified(
            np.zeros((count, k, design.dimension)),
            np.full((count, *self.Y.shape), np.nan),
            np.full(count, np.nan),
            np.full(count, np.inf),
        )
        self.met = np.full(count, False)
        self.n_corrections = 0
        self.ended = False
        self.interrupted = False

    def setup(self) -> None:
        """Solve the equations a first time."""
        right = self.Y
        if self.tall:
            right = self.design.back(self.Y)
        self.solution = self.gram.solve(right, self.lam)

    def certify(self) -> None:
        """Compute the gradient from A itself, keep the solution if it is better, and judge it."""
        design = self.design
        W = self.solution
        if not self.tall:
            W = design.back(self.solution)
        if self.n_corrections == 0:
            self.best = replace(self.best, W=W)  # what an interruption would leave
        fields = design.fields(W)
        misfit = self.Y - fields
        residual = misfit
        if self.tall:
            residual = design.back(misfit)
        self.residual = residual - self.lam[:, None, None] * self.solution
        G = self.residual
        if not self.tall:
            G = design.back(self.residual)
        norm = norms(G)
        new = _Certified(W, fields, norm, self.bounds(W, G, fields, misfit))
        rounding_rules = self.n_corrections > 0 and bool((norm >= self.best.gradient_norm).all())
        if not rounding_rules:
            self.best = new
        self.met = self.best.bound <= self.tol * norms(self.best.W)
        last = self.n_corrections == _CORRECTIONS
        self.ended = bool(self.met.all()) or last or rounding_rules

    def bounds(self, W: Array, G: Array, fields: Array, misfit: Array) -> Array:
        """Return bounds (L,) on ‖W − Ŵ‖ from the gradients G (L, k, d), rounding included."""
        design = self.design
        convexity = self.convexity
        enough = self.tol * norms(W)
        # (AᵀA + λ)⁻¹Aᵀ is not above (λ + σ²)^{−½}, σ the least singular value: L counts as 4.
        sizes = lengths(fields), lengths(misfit), np.ones(1)
        with np.errstate(divide="ignore", over="ignore"):
            bound = certificate(design, None, convexity, W, G, sizes, 4.0, None, enough)[1]
            bound = bound + self.stray * norms(W) / np.maximum(convexity, np.finfo(float).tiny)
            if self.tall:
                return bound
            # W is AᵀC up to rounding, which A sees again, and so does the gradient there.
            off = sum_rounding(design.n_samples) * (lengths(self.solution) @ design.row_norms)
            stretch = float(np.linalg.norm(design.row_norms))
            if ((stretch**2 + self.lam) * off > 0.5 * convexity * (enough - bound)).any():
                stretch = design.stretch
            return np.asarray(bound + off + (stretch**2 + self.lam) * off / convexity)

    def correct(self) -> None:
        """Solve for the residual: one round of iterative refinement."""
        self.solution = self.solution + self.gram.solve(self.residual, self.lam)
        self.n_corrections += 1

    def zero_where_minimal(self) -> None:
        """Return W = 0 where AᵀY is only rounding: no relative bound can be met there."""
        if self.met.all():
            return
        design = self.design
        slope = float(np.linalg.norm(design.back(self.Y)))
        rounding = (8 * EPS + sum_rounding(design.n_samples)) * float(design.row_norms.sum())
        if slope <= rounding:
            convexity = np.maximum(self.convexity, np.finfo(float).tiny)
            self.best = _Certified(
                np.zeros_like(self.best.W),
                self.best.fields,
                np.full_like(self.best.gradient_norm, slope),
                (slope + rounding) / convexity,
            )
            self.met = np.full(self.met.shape, True)

    def finalize(self, loss: Loss) -> list[ERMFit]:
        """Return the best solutions as fits, one a λ."""
        best = self.best
        fits = []
        for i, ridge in enumerate(self.ridges):
            status = Status.TOLERANCE_NOT_MET
            if self.met[i]:
                status = Status.OK
            fit = fit_at(
                self.samples,
                loss.name,
                ridge,
                best.W[i].T.copy(),
                best.fields[i] + self.level * self.sqrt_weights,
                0.5 * float(((self.Y - best.fields[i]) ** 2).sum()),
                float(best.bound[i]),
                status,
                gradient_norm=float(best.gradient_norm[i]),
                n_iter=self.n_corrections + 1,
                matrix_passes=(self.design.passes - self.passes_before) / self.lam.size,
            )
            fits.append(stopped(fit) if self.interrupted else fit)
        return fits
