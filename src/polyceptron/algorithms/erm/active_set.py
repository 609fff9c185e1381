"""Direct solves with the pushed constraints alone, for the shifted hinge.

With J the pushed constraints as rows, the Newton step of the hinge has the Hessian I + cJᵀJ, and
by Woodbury's identity

    D = −(I + cJᵀJ)⁻¹G = −(G − Jᵀ(JJᵀ + I/c)⁻¹JG),

so a penalty c that would stall conjugate gradients costs nothing. Once the right constraints are
pushed, JJᵀa = 1 gives the multipliers of the max-margin solution itself. A constraint is a sample
x/√d times a class difference v = e_y − e_h: JJᵀ is the Gram matrix of the samples times that of
the differences, entry by entry.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from polyceptron.algorithms.design import Array, Design
from polyceptron.algorithms.erm.newton import Direction
from polyceptron.algorithms.erm.objectives import Evaluation, ShiftedHinge
from polyceptron.algorithms.erm.rounding import EPS, sum_rounding

MAX_ACTIVE = 6000  # 0.3 GB for the matrix; beyond it conjugate gradients take over
_MAX_EXCHANGES = 12


class SeenRows:
    """Rows x/√d read so far and their Gram matrix: constraints come and go, samples come back.

    `batch` (n,) counts from 1 in which order samples were read, 0 for those that were not: a
    checkpoint that has it leads to the same sums, to the last bit.
    """

    def __init__(self, design: Design, batch: NDArray[np.int64]) -> None:
        self.design, self.batch = design, batch
        kept = batch.copy()
        self._forget()
        for number in range(1, int(kept.max(initial=0)) + 1):
            self.places(np.flatnonzero(kept == number))

    def _forget(self) -> None:
        self.batch[:] = 0
        self.place = np.zeros_like(self.batch)
        self.rows, self.gram = np.empty((0, self.design.dimension)), np.empty((0, 0))

    def places(self, samples: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where in `rows` these samples are; what was not seen before is read."""
        new = np.unique(samples[self.batch[samples] == 0])
        if new.size and len(self.rows) + new.size > MAX_ACTIVE:
            self._forget()
            new = np.unique(samples)
        if new.size:
            part = self.design.scaled_rows(new)
            cross = self.rows @ part.T
            self.place[new] = len(self.rows) + np.arange(new.size)
            self.batch[new] = self.batch.max() + 1
            self.rows = np.concatenate([self.rows, part])
            self.gram = np.block([[self.gram, cross], [cross.T, part @ part.T]])
        return self.place[samples]


class Constraints:
    """The constraints z_y − z_h ≥ 1 picked out by `mask` (k, n), as rows of J."""

    def __init__(self, seen: SeenRows, hinge: ShiftedHinge, mask: NDArray[Any]) -> None:
        self.rivals, self.samples = np.nonzero(mask)
        self.differences = hinge.basis[hinge.y[self.samples]] - hinge.basis[self.rivals]
        self.position = seen.places(self.samples)
        self.rows, self.products = seen.rows, seen.gram

    def gram(self, shift: float) -> Array:
        """JJᵀ + shift·I."""
        matrix: Array = self.products[np.ix_(self.position, self.position)]
        matrix *= self.differences @ self.differences.T
        matrix[np.diag_indices_from(matrix)] += shift
        return matrix

    def margins(self, U: Array) -> Array:
        """JU: one number per constraint."""
        result: Array = np.einsum("ir,ri->i", self.differences, (U @ self.rows.T)[:, self.position])
        return result

    def combine(self, shares: Array) -> Array:
        """Jᵀ·shares, shape (k−1, d)."""
        per_sample = np.zeros((self.rows.shape[0], self.differences.shape[1]))
        np.add.at(per_sample, self.position, shares[:, None] * self.differences)
        result: Array = per_sample.T @ self.rows
        return result


def active_set_step(seen: SeenRows, hinge: ShiftedHinge) -> Direction:
    """The function (evaluation, gradient) ↦ Newton direction (1, k−1, d), for λ = 1."""

    def direction(here: Evaluation, G: Array) -> Array:
        pushed = Constraints(seen, hinge, here.source[0])
        if pushed.samples.size == 0:
            return -G
        matrix = pushed.gram(1 / hinge.penalty)
        factor = scipy.linalg.cho_factor(matrix, overwrite_a=True, check_finite=False)
        shares = scipy.linalg.cho_solve(factor, pushed.margins(G[0]), check_finite=False)
        return pushed.combine(shares) - G

    return direction


class Vertex(NamedTuple):
    """U (k−1, d), multipliers (k, n), and a bound on ‖U − max-margin solution‖."""

    U: Array
    multipliers: Array
    distance_bound: float


def solve_active(seen: SeenRows, hinge: ShiftedHinge, mask: NDArray[Any]) -> Vertex | None:
    """The max-margin solution from a guess of its active constraints, if that is nearly right.

    The margins of the mask are set to 1. Constraints with a multiplier below 0 then leave, those
    with a margin below 1 join (a primal and dual active set), as long as ever fewer do either.
    """
    changes = mask.size
    for _ in range(_MAX_EXCHANGES):
        found = _at_equality(seen, hinge, mask)
        if found is None or isinstance(found, Vertex):
            return found
        before, changes = changes, int(np.count_nonzero(found != (mask > 0)))
        if not 0 < changes < before:
            return None
        mask = found
    return None


def _at_equality(
    seen: SeenRows, hinge: ShiftedHinge, mask: NDArray[Any]
) -> Vertex | NDArray[np.bool_] | None:
    """The point with margin 1 on every constraint of the mask, if that is the solution.

    JJᵀa = 1 is solved up to a residual δ. If a > 0 and every other margin exceeds 1 by more than
    δ can change them, then the exact solution of the same system meets all optimality conditions,
    and it lies at √(δᵀ(JJᵀ)⁻¹δ) from this one. If not, a better mask; None without a solution.
    """
    design = seen.design
    size = int(np.count_nonzero(mask))
    if not 0 < size <= min(MAX_ACTIVE, design.dimension * (mask.shape[0] - 1)):
        return None
    chosen = Constraints(seen, hinge, mask)
    matrix = chosen.gram(0.0)
    scale = float(np.abs(matrix).sum(0).max())
    try:
        factor = scipy.linalg.cho_factor(matrix, overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError:
        return None
    inverse_condition = float(scipy.linalg.lapack.dpocon(factor[0], scale)[0])
    if inverse_condition < 1e3 * EPS:
        return None
    shares = np.zeros(size)
    for _ in range(3):  # the solve, then two rounds of iterative refinement
        missing = 1 - chosen.margins(chosen.combine(shares))
        shares += scipy.linalg.cho_solve(factor, missing, check_finite=False)
    U = chosen.combine(shares)
    length = math.sqrt(2) * float(design.row_norms.max())  # no constraint is longer
    rounding = (8 * EPS + sum_rounding(design.dimension)) * length * float(np.linalg.norm(U))
    residual = float(np.linalg.norm(1 - chosen.margins(U))) + math.sqrt(size) * rounding
    inverse = 1 / (inverse_condition * scale)  # the 1-norm of (JJᵀ)⁻¹, not below its 2-norm
    # U is Jᵀa up to rounding of its own.
    bound = residual * math.sqrt(inverse)
    bound += (8 * EPS + sum_rounding(size)) * length * float(np.abs(shares).sum())
    margins = hinge.margins(design.fields(U))
    margins[hinge.y, np.arange(hinge.y.size)] = np.inf
    margins[chosen.rivals, chosen.samples] = np.inf
    if shares.min() <= residual * inverse or margins.min() <= 1 + length * bound + rounding:
        better = margins < 1
        better[chosen.rivals, chosen.samples] = shares > 0
        return better
    multipliers = np.zeros(mask.shape)
    multipliers[chosen.rivals, chosen.samples] = shares
    return Vertex(U, multipliers, bound)
