"""Cross-entropy without a ridge on data that cannot be separated: the maximum-likelihood estimate.

    min_W f(W) = Σ_μ [ln Σ_h e^{z_h} − z_y],   z = Wᵀx/√d

It is reached as the limit of ridges that are small against the smallest curvature μ of f. There is
no ridge to bound the distance, but f is self-concordant: its curvature changes by at most a factor
e^{R‖Δ‖} over a step Δ, R = √2 max‖x‖/√d. So with g = ‖∇f(W)‖

    R g < μ   ⇒   there is a minimiser, and ‖W − Ŵ‖ ≤ −ln(1 − R g/μ)/R.

That it exists proves that no weights separate the data, and so do the wrong classes' probabilities:
as multipliers a they have Σ a x(e_y − e_h)ᵀ = −∇f ≈ 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigvalsh
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from polyceptron.algorithms.data_checks import Samples
from polyceptron.algorithms.design import Design
from polyceptron.algorithms.erm.erm_fit import ERMFit, SeparabilityOfData, bound_in_weights
from polyceptron.algorithms.erm.newton import Minimum, minimise
from polyceptron.algorithms.erm.objectives import SoftmaxObjective
from polyceptron.algorithms.erm.saved_path import SavedRounds
from polyceptron.algorithms.erm.whole_hessian import whole_hessian
from polyceptron.model.losses import Loss
from polyceptron.numerics import Array
from polyceptron.rows import Status

_ROUNDS = 5
_DENSE = 600  # unknowns up to which the Hessian is written out; above, Lanczos estimates μ
_ZERO = 1e-12  # fields as small as this are 0
_SAFETY = 0.8  # of Lanczos' estimate, which comes from above


@dataclass
class _Known:
    """What is known between two rounds: the last U (k−1, d), the ridge of the next."""

    U: Array
    ridge: float
    turn: int = 0
    n_iter: int = 0


def fit_maximum_likelihood(
    samples: Samples, loss: Loss, tol: float, start: Array | None
) -> ERMFit | None:
    """The minimiser without a ridge, to relative distance `tol`; `start` (d, k).

    None once weights on the way there separate the data: then there is none.
    """
    design, y, k = samples
    rounds = SavedRounds(design, "maximum-likelihood")
    objective = SoftmaxObjective(y, k, samples.weights)
    U = np.zeros((k - 1, design.dimension)) if start is None else (start @ objective.basis).T
    here = rounds.known(_Known(U, 1e-3 * y.size / design.dimension))
    steep = math.sqrt(2) * float(design.row_norms.max())
    while True:
        found = minimise(
            design, objective, np.array([here.ridge]), here.U[None], target=0.5, max_iter=60,
            keeper=rounds.begin(here),
        )  # fmt: skip
        slope, bound, stop = math.nan, math.inf, found.interrupted
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
        if steep * doubt < curvature:
            bound = -math.log1p(-steep * doubt / curvature) / steep
        if bound <= max(tol * float(np.linalg.norm(here.U)), _ZERO / steep) or here.turn == _ROUNDS:
            break
        floor = 0.1 * tol * curvature if curvature > 0 else math.inf
        here.ridge = min(0.03 * here.ridge, floor)
    rounds.ended()
    weights = here.U.T @ objective.basis.T
    exists = math.isfinite(bound)
    met = bound <= max(tol * float(np.linalg.norm(here.U)), _ZERO / steep)
    status = Status.OK if met else Status.TOLERANCE_NOT_MET if exists else Status.NOT_CONVERGED
    return ERMFit(
        weights=weights,
        gradient_norm=slope,
        distance_bound=bound_in_weights(bound, weights),
        n_iter=here.n_iter,
        matrix_passes=design.passes - rounds.before,
        training_loss=float(found.evaluation.value[0]) / samples.total,
        training_error=mistakes,
        status=Status.INTERRUPTED if stop else status,
        ridge=0.0,
        loss=loss.name,
        separability=_proof(found, samples, slope) if exists else None,
    )


def _proof(found: Minimum, samples: Samples, slope: float) -> SeparabilityOfData:
    """The wrong classes' probabilities as multipliers (n, k)."""
    a = found.evaluation.source[0].T.copy()
    a[np.arange(len(a)), samples.y] = 0.0
    if samples.weights is not None:
        a *= samples.weights[:, None]
    total = float(a.sum())
    residual = slope / total
    return SeparabilityOfData(
        False, None, a / total, residual, 1 / residual if residual > 0 else math.inf
    )


def _smallest_curvature(design: Design, objective: SoftmaxObjective, found: Minimum) -> float:
    """μ of ∂²f at the minimum found."""
    p = found.evaluation.source[0]
    r, d = found.U[0].shape
    if r * d > _DENSE:
        return _lanczos(design, objective, found)
    inner = np.einsum("hi,hn,hj->nij", objective.basis, p, objective.basis)
    mean = objective.basis.T @ p
    inner -= np.einsum("in,jn->nij", mean, mean)
    if objective.weights is not None:
        inner *= objective.weights[:, None, None]
    H = np.zeros((r * d, r * d))
    for rows, block in design.blocks():
        A = block * np.float64(design.scale)
        H += whole_hessian(A, inner[rows], 0.0)
    H = H
    rounding = 1e-14 * float(np.trace(H))
    return float(eigvalsh(H, subset_by_index=[0, 0])[0]) - rounding


def _lanczos(design: Design, objective: SoftmaxObjective, found: Minimum) -> float:
    bend = objective.curvature(found.evaluation, np.float64)
    shape = found.U.shape

    def apply(u: Array) -> Array:
        return np.asarray(design.through(u.reshape(shape), bend)[0]).ravel()

    size = found.U.size
    operator = LinearOperator((size, size), matvec=apply, dtype=np.float64)  # type: ignore[call-overload]
    begin = np.random.default_rng(0).standard_normal(size)
    try:
        lowest = eigsh(
            operator, k=1, which="SA", tol=0.05, v0=begin, return_eigenvectors=False, ncv=40
        )
    except ArpackNoConvergence:
        return 0.0
    return _SAFETY * float(lowest[0])
