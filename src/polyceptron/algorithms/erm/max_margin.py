"""Hard-margin multi-class SVM: min ½‖W‖²_F with z_y − z_h ≥ 1 for every sample and h ≠ y.

It is the limit λ → 0⁺ of cross-entropy (in direction) on separable data. The constraints are
handled by an augmented Lagrangian,

    min_W ½‖W‖² + (c/2) Σ (1 + a/c − margin)₊²,     a ← (a + c(1 − margin))₊,

whose inner problems are strongly convex and smooth enough for Newton's method. The multipliers are
a feasible point of the dual, and dividing W by its smallest margin gives a feasible point of the
primal, so with W_a = Σ a x(e_y − e_h)ᵀ/√d

    ½‖W − Ŵ‖² ≤ gap = ½‖W − W_a‖² + Σ a (margin − 1),

a sum of terms that are not negative, hence accurate when it is tiny.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from polyceptron.algorithms.erm.newton import minimise
from polyceptron.algorithms.erm.objectives import Labels, ShiftedHinge
from polyceptron.algorithms.erm.products import Array, Products
from polyceptron.algorithms.erm.result import ERMFit, error_rate
from polyceptron.errors import ComputationFailed
from polyceptron.rows import Status

_MAX_ROUNDS = 60
_SEPARABLE = 1e-7  # a relative margin below this is taken as zero
_ROUNDING = 1e-7  # a gap is known to about 1e-15 of ‖W‖², a distance to the root of that


@dataclass(frozen=True)
class _Certified:
    """A feasible U (k−1, d), its gap, and the fields it has."""

    U: Array
    gap: float
    Z: Array

    @property
    def relative(self) -> float:
        """The distance bound over the norm of the weights."""
        return math.sqrt(2 * self.gap) / float(np.linalg.norm(self.U))


def fit_max_margin(
    products: Products, y: Labels, n_classes: int, *, tol: float, start: Array | None = None
) -> ERMFit:
    """The separating weights of least norm, to relative distance max(tol, 1e-7)."""
    before = products.passes
    multipliers = np.zeros((n_classes, y.size))
    penalty = 10.0
    hinge = ShiftedHinge(y, n_classes, multipliers, penalty)
    U = np.zeros((n_classes - 1, products.dimension))
    if start is not None:
        U = (start @ hinge.basis).T
    best: _Certified | None = None
    goal = max(tol, _ROUNDING)
    accuracy, n_iter, stalled = 1e-2, 0, 0
    for _ in range(_MAX_ROUNDS):
        found = minimise(products, hinge, 1.0, U, target=accuracy, max_iter=60)
        n_iter += found.n_iter
        U = found.U
        margins = hinge.margins(found.Z)
        multipliers = hinge.push(margins)
        _check_separable(products, hinge, found.evaluation.residual, multipliers)
        certified = _certify(
            products, hinge, found.U, found.Z, margins, found.evaluation.residual, multipliers
        )
        if certified is not None and (best is None or certified.gap < best.gap):
            stalled = 0 if best is None or certified.gap < 0.5 * best.gap else stalled + 1
            best = certified
        else:
            stalled += best is not None
        if best is not None and (best.relative <= goal or stalled >= 5):
            break
        accuracy = max(accuracy * 0.1, 1e-13)
        penalty = min(penalty * 4, 1e6)
        hinge = ShiftedHinge(y, n_classes, multipliers, penalty)
    if best is None:
        raise ComputationFailed(
            "no separating weights were found: the classes are not linearly separable, or by a "
            "margin too small to resolve; use a positive ridge with the cross-entropy loss"
        )
    return ERMFit(
        weights=best.U.T @ hinge.basis.T,
        gradient_norm=float(np.linalg.norm(found.gradient_norm)),
        distance_bound=math.sqrt(2 * best.gap),
        n_iter=n_iter,
        matrix_passes=products.passes - before,
        training_loss=0.0,
        training_error=error_rate(hinge.basis @ best.Z, y),
        status=Status.OK if best.relative <= goal else Status.TOLERANCE_NOT_MET,
        ridge=0.0,
        loss="max-margin",
    )


def _certify(
    products: Products,
    hinge: ShiftedHinge,
    U: Array,
    Z: Array,
    margins: Array,
    residual: Array,
    multipliers: Array,
) -> _Certified | None:
    """U made feasible and its duality gap; None while some sample is on the wrong side."""
    margins = margins.copy()
    margins[hinge.y, np.arange(hinge.y.size)] = np.inf
    smallest = float(margins.min())
    if smallest <= 0:
        return None
    dual = -products.back(residual)
    stretch = 1 / smallest
    slack = np.where(multipliers > 0, stretch * margins - 1, 0.0)
    gap = 0.5 * float(((stretch * U - dual) ** 2).sum()) + float(
        (multipliers * np.maximum(slack, 0)).sum()
    )
    return _Certified(stretch * U, gap, stretch * Z)


def _check_separable(
    products: Products, hinge: ShiftedHinge, residual: Array, multipliers: Array
) -> None:
    """Fail when a convex combination of the class differences x(e_y − e_h) is (almost) zero."""
    total = float(multipliers.sum())
    if total == 0:
        return
    largest = float(np.sqrt(np.einsum("ij,ij->i", products.X, products.X).max())) * products.scale
    reach = float(np.linalg.norm(products.back(residual))) / total
    if reach < _SEPARABLE * largest:
        raise ComputationFailed(
            "there is no max-margin solution: the classes are not linearly separable; "
            "use a positive ridge with the cross-entropy loss"
        )
