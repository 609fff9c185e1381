"""Maximum likelihood: the minimiser of cross-entropy without a ridge, where it exists.

Where no weights separate the data, cross-entropy has a minimum f without a ridge, the
maximum-likelihood estimate, and that is fitted: as the limit of ridges that are small against the
smallest curvature μ of f. There is no ridge to bound the distance, but f is self-concordant: its
curvature changes by at most a factor e^{R‖Δ‖} over a step Δ, R = √2 max‖x‖/√d. So with g = ‖∇f(W)‖

    R g < μ   ⇒   there is a minimiser, and ‖W − Ŵ‖ ≤ −ln(1 − R g/μ)/R.

That it exists proves that no weights separate the data, and so do the wrong classes' probabilities:
as multipliers a they have Σ a x(e_y − e_h)ᵀ = −∇f ≈ 0.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.linalg import eigvalsh
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from polyceptron.algorithms.data_checks import Samples
from polyceptron.algorithms.design import Design, weights_or_ones
from polyceptron.algorithms.erm.erm_fit import ERMFit, Separation, fit_at
from polyceptron.algorithms.erm.intercept import size_of
from polyceptron.algorithms.erm.newton import Minimum, minimise, sample_matrices, whole_hessian
from polyceptron.algorithms.erm.objectives import SoftmaxObjective
from polyceptron.numerics import Array
from polyceptron.rows import Status

_DENSE = 600  # unknowns up to which the Hessian is written out; above, Lanczos estimates μ
_ZERO = 1e-12  # fields as small as this are 0


def maximum_likelihood(samples: Samples, tol: float, start: Array | None = None) -> ERMFit | None:
    """The minimiser without a ridge, to relative distance `tol`; `start` (d, k).

    None once weights on the way there separate the data: then there is none.
    """
    (design, y, k), free = samples, samples.intercept
    checkpoint, before = design.watch.checkpoint, design.passes
    objective = SoftmaxObjective(y, k, samples.weights)
    U = np.zeros((k - 1, design.dimension)) if start is None else (start @ objective.basis).T
    known: dict[str, Any] = {"U": U, "ridge": 1e-3 * y.size / design.dimension}
    known |= checkpoint.load("maximum-likelihood") or {}
    U, ridge, turn, n_iter = known["U"], known["ridge"], 0, 0

    def keep(U: Array, now: bool = False) -> None:
        checkpoint.save(lambda: {"U": U[0], "ridge": ridge}, "maximum-likelihood", now=now)

    steep = math.sqrt(2) * float(design.row_norms.max())
    while True:
        found = minimise(
            design, objective, np.array([ridge]), U[None], target=0.5, max_iter=60,
            keep=keep, intercept=free,
        )  # fmt: skip
        slope, bound, enough, stop = math.nan, math.inf, 0.0, found.interrupted
        U = found.U[0]
        n_iter += int(found.n_iter[0])
        mistakes = samples.error_rate(objective.basis @ found.Z[0])
        if not stop and mistakes == 0:
            return None
        try:
            if not stop:
                slope = float(np.linalg.norm(design.back(found.evaluation.residual[0])))
                curvature = _smallest_curvature(design, objective, found)
        except KeyboardInterrupt:
            stop = True
        turn += 1
        if stop:
            break
        doubt = slope + float(found.rounding[0])
        size = float(size_of(free, U[None])[0])
        enough = max(tol * size, _ZERO / max(steep, _ZERO))
        if steep == 0:  # X is 0, and so are the fields of any weights
            bound = 0.0
        elif steep * doubt < curvature:
            bound = -math.log1p(-steep * doubt / curvature) / steep
            if free is not None:  # of W and κβ, which make up b
                bound *= math.hypot(1.0, free.column + float(np.linalg.norm(free.mean)))
        if bound <= enough or turn == 5:
            break
        floor = 0.1 * tol * curvature if curvature > 0 else math.inf
        ridge = min(0.03 * ridge, floor)
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
        samples, "cross-entropy", 0.0, U.T @ objective.basis.T,
        objective.basis @ found.Z[0], float(found.evaluation.value[0]), bound,
        Status.INTERRUPTED if stop else status, gradient_norm=slope, n_iter=n_iter,
        matrix_passes=design.passes - before, separability=proof,
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
