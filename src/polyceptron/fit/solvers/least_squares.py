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
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.linalg

from polyceptron.data.checks import Samples
from polyceptron.data.design import Design, weights_or_ones
from polyceptron.data.stored_designs import BlockwiseDesign, ScaleRows
from polyceptron.fit.solvers.erm_fit import ERMFit, fit_at, fit_newton, stopped, stopped_at
from polyceptron.fit.solvers.intercept import certificate, without_column
from polyceptron.fit.solvers.objectives import EPS, lengths, norms, sum_rounding
from polyceptron.numerics import AnyArray, Array
from polyceptron.problem.losses import Loss
from polyceptron.rows import Status

_CORRECTIONS = 4
_NOISE = 8.0  # times the rounding of Av, above which v is no null vector
_BLOCK = 256  # rows treated at once: keeps memory bounded for long lists of λ


class WeightedRows(Design):
    """Rows of `base` times factors (n,): a sum of squares over them is a weighted sum."""

    def __init__(self, base: Design, factors: Array) -> None:
        super().__init__(base.shape, np.float64)
        self._base, self._factors = base, factors

    def read_rows(self, rows: Any) -> AnyArray:
        return np.asarray(self._base.read_rows(rows) * self._factors[rows][:, None])

    def each_block(
        self, work: Callable[..., Any], shared: Any = (), parts: Any = None, *size: int
    ) -> Iterator[tuple[slice, Any]]:
        count = len(shared)  # the factors come behind it

        def own(rows: slice) -> tuple[Any, ...]:
            return (self._factors[rows], *(parts(rows) if parts is not None else ()))

        def weighted(block: AnyArray, *more: Any) -> Any:
            return work(block * more[count][:, None], *more[:count], *more[count + 1 :])

        return self._base.each_block(weighted, shared, own, *size)

    def times_columns(self, small: AnyArray) -> AnyArray:
        return (self._base.times_columns(small) * self._factors).astype(small.dtype, copy=False)

    def times_rows(self, small: AnyArray) -> AnyArray:
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
    """Of C, the rows less the first, with columns whose largest entry is 1."""
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
        right = right.reshape(right.shape[-2:]).T
        return np.asarray(scipy.linalg.cho_solve(self.factor, right, check_finite=False)).T[None]

    def convexity(self, ridge: float) -> float:
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
    (design, y, k), lam = samples, np.array(ridges, dtype=float)
    before, nothing = design.passes, np.full(lam.size, np.inf)
    tall = design.n_samples >= design.dimension
    convexity = np.array([max(gram.convexity(ridge) - stray, ridge) for ridge in ridges])
    root, level = np.sqrt(weights_or_ones(samples.weights, y.size)), np.zeros((k, 1))
    if samples.features is not None:
        level[:, 0] = np.bincount(y, root**2, k) / (root**2).sum()
    Y = (np.eye(k)[:, y] - level) * root
    solution = gram.solve(design.back(Y) if tall else Y, lam)
    W, fields = np.zeros((lam.size, k, design.dimension)), np.full((lam.size, *Y.shape), np.nan)
    norm, bound, met, stop = np.nan * nothing, nothing, nothing < 0, False
    kept = W, fields, norm, bound
    try:
        for step in range(_CORRECTIONS + 1):
            W = solution if tall else design.back(solution)
            fields = design.fields(W)
            misfit = Y - fields
            residual = design.back(misfit) if tall else misfit
            residual = residual - lam[:, None, None] * solution
            G = residual if tall else design.back(residual)
            norm, enough = norms(G), tol * norms(W)
            # (AᵀA + λ)⁻¹Aᵀ is not above (λ + σ²)^{−½}, σ the least singular value: L counts as 4.
            sizes = lengths(fields), lengths(misfit), np.ones(1)
            with np.errstate(divide="ignore", over="ignore"):
                bound = certificate(design, None, convexity, W, G, sizes, 4.0, None, enough)[1]
                bound = bound + stray * norms(W) / np.maximum(convexity, np.finfo(float).tiny)
                if not tall:
                    # W is AᵀC up to rounding, which A sees again, and so does the gradient there.
                    off = sum_rounding(y.size) * (lengths(solution) @ design.row_norms)
                    stretch = float(np.linalg.norm(design.row_norms))
                    if ((stretch**2 + lam) * off > 0.5 * convexity * (enough - bound)).any():
                        stretch = design.stretch
                    bound = np.asarray(bound + off + (stretch**2 + lam) * off / convexity)
            if step and (norm >= kept[2]).all():  # rounding has the upper hand
                W, fields, norm, bound = kept
            met = bound <= tol * norms(W)
            if met.all() or step == _CORRECTIONS or W is kept[0]:
                break
            kept = W, fields, norm, bound
            solution = solution + gram.solve(residual, lam)
        if not met.all():  # no relative bound can be met where AᵀY is only rounding: W = 0 there
            slope = float(np.linalg.norm(design.back(Y)))
            rounding = (8 * EPS + sum_rounding(y.size)) * float(design.row_norms.sum())
            if slope <= rounding:
                bound = (slope + rounding) / np.maximum(convexity, np.finfo(float).tiny)
                W, norm, met = 0 * W, slope + 0 * norm, met | True
    except KeyboardInterrupt:
        stop = True
    fits = [
        fit_at(
            samples,
            loss.name,
            ridge,
            W[i].T.copy(),
            fields[i] + level * root,
            0.5 * float(((Y - fields[i]) ** 2).sum()),
            float(bound[i]),
            Status.OK if met[i] else Status.TOLERANCE_NOT_MET,
            gradient_norm=float(norm[i]),
            n_iter=step + 1,
            matrix_passes=(design.passes - before) / lam.size,
        )
        for i, ridge in enumerate(ridges)
    ]
    return [stopped(fit) for fit in fits] if stop else fits
