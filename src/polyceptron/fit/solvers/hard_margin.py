"""Hard-margin multi-class SVM: min ½‖W‖²_F with z_y − z_h ≥ 1 for every sample and h ≠ y.

It is the limit λ → 0⁺ of cross-entropy (in direction) on separable data. J has the constraints as
rows, x/√d times e_y − e_h (`active_set`). An augmented Lagrangian finds those that hold with
equality,

    min_W ½‖W‖² + (c/2) Σ (1 + a/c − margin)₊²,     a ← (a + c(1 − margin))₊,

strongly convex and smooth enough for Newton's method (`AugmentedLagrangian`). A direct solve
JJᵀa = 1 then ends the search, with a bound near rounding (`solve_active`). Before it, multipliers
a ≥ 0 are a feasible point of the dual, and dividing W by its smallest margin gives one of the
primal, so with W_a = Jᵀa

    ½‖W − Ŵ‖² ≤ gap = ½‖W − W_a‖² + Σ a (margin − 1),

a sum of terms that are not negative, hence accurate when it is tiny: its square root to about 1e-7
(`certify_by_gap`).

Intercepts are the weights β of a column of J, J_b, that do not count in ‖W‖², so that J_bᵀa = 0 at
the solution. From a gap alone the weights are known to p, and differences of intercepts by the
constraints: with m_ch the smallest margin less 1 of class c against h, Δb_h − Δb_c ≤ m_ch +
√2 max‖x̂‖ p to the solution, and by the shortest path over such steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from scipy.sparse.csgraph import floyd_warshall

from polyceptron.checks import difference_basis
from polyceptron.data.checks import Samples
from polyceptron.data.design import Design
from polyceptron.errors import ComputationFailed
from polyceptron.fit.solvers.active_set import (
    MAX_CONSTRAINTS_OF_NEWTON_STEP,
    CertifiedWeights,
    SeenRows,
    longest_constraint,
    margin_rounding,
    newton_direction,
    solve_active,
)
from polyceptron.fit.solvers.erm_fit import ERMFit, Separation, fit_at
from polyceptron.fit.solvers.hinge_objective import HingeObjective
from polyceptron.fit.solvers.intercept import Intercept, size_of
from polyceptron.fit.solvers.newton import NewtonMinimum, newton_minimise
from polyceptron.fit.solvers.rounding import EPS, sum_rounding
from polyceptron.numerics import Array
from polyceptron.problem.losses import Loss
from polyceptron.rows import Status

MAX_ROUNDS = 30  # of the augmented Lagrangian; those of the tests need fewer than 15
ROUNDS_WITHOUT_A_BETTER_BOUND = 6  # after so many, rounding holds the bound where it is
FIRST_PENALTY = 10.0  # c of the first round; it grows tenfold each round
CHECKPOINT_NAME = "max-margin"


class NotSeparable(ComputationFailed):
    """No weights separate the data; with the multipliers (k, n) that prove it, if there are any."""

    def __init__(self, message: str, multipliers: Array | None = None) -> None:
        super().__init__(message)
        self.multipliers = multipliers


def separate(
    samples: Samples, loss: Loss, tol: float, start: Array | None = None, doubt: float = 1e-7
) -> ERMFit:
    """Return the separating weights of least norm, normalised to a smallest margin of 1.

    Parameters
    ----------
    samples : Samples
        Inputs (n, d) and labels (n,).
    loss : Loss
        The max-margin loss, which projects multipliers on those allowed.
    tol : float
        Relative distance of the weights to the solution, at which the search ends.
    start : array (d, k), optional
        Weights to begin from.
    doubt : float
        Once a convex combination of the constraints x(e_y − e_h)ᵀ/√d is shorter than this share
        of the longest x/√d, the data count as not separable.

    Returns
    -------
    ERMFit

    Raises
    ------
    NotSeparable
        Where multipliers show that no weights separate the data, or none were found.
    """
    search = AugmentedLagrangian.setup(samples, loss, tol, doubt, start)
    try:
        while search.goes_on:
            found = search.inner_minimisation()
            search.check_separable(found)
            search.update_best(found)
            search.update_penalty(found)
    except KeyboardInterrupt:
        search.interrupted = True
        search.gradient_norm = math.nan
    return search.finalize()


@dataclass
class AugmentedLagrangian:
    """The search for the max-margin weights, one method a step of a round.

    U, multipliers, penalty : W on the class differences (k−1, d), a (k, n) and c of the next round
    n_rounds, n_iter : rounds and Newton steps made so far
    best : the weights with the smallest bound so far
    n_stalled : rounds since the bound last became clearly smaller
    close : whether the bound is within the tolerance
    gradient_norm : of the last inner minimisation
    """

    samples: Samples
    loss: Loss
    tol: float
    doubt: float
    U: Array
    multipliers: Array
    penalty: float = FIRST_PENALTY
    n_rounds: int = 0
    n_iter: int = 0
    best: CertifiedWeights | None = None
    n_stalled: int = 0
    close: bool = False
    gradient_norm: float = math.nan
    interrupted: bool = False
    passes_before: float = 0.0
    hinge: HingeObjective = field(init=False)
    seen: SeenRows = field(init=False)

    @classmethod
    def setup(
        cls, samples: Samples, loss: Loss, tol: float, doubt: float, start: Array | None
    ) -> AugmentedLagrangian:
        """Begin from `start` (d, k), from zero, or where a checkpoint stopped."""
        design, y, k = samples
        U = np.zeros((k - 1, design.dimension))
        if start is not None:
            U = (start @ difference_basis(k)).T
        search = cls(samples, loss, tol, doubt, U, np.zeros((k, y.size)))
        search.passes_before = design.passes
        search.seen = SeenRows(design)
        kept = design.watch.checkpoint.load(CHECKPOINT_NAME)
        if kept is not None:
            search.U = kept["U"]
            search.multipliers = kept["multipliers"]
            search.penalty = kept["penalty"]
            search.n_rounds = kept["turn"]
        return search

    @property
    def goes_on(self) -> bool:
        """Whether another round may bring the bound below the tolerance."""
        stalled = self.n_stalled >= ROUNDS_WITHOUT_A_BETTER_BOUND
        return self.n_rounds < MAX_ROUNDS and not self.close and not stalled

    def keep(self, U: Array, now: bool = False) -> None:
        """Write weights U (1, k−1, d) and the state of the round to the checkpoint."""
        state = {
            "U": U[0],
            "multipliers": self.multipliers,
            "penalty": self.penalty,
            "turn": self.n_rounds,
        }
        self.samples.design.watch.checkpoint.save(lambda: state, CHECKPOINT_NAME, now=now)

    def inner_minimisation(self) -> NewtonMinimum:
        """Minimise the smoothed objective at these multipliers, the more closely the later."""
        design = self.samples.design
        free = self.samples.intercept
        self.hinge = HingeObjective(self.loss, self.samples.y, self.multipliers, self.penalty)
        found = newton_minimise(
            design,
            self.hinge,
            np.ones(1),
            self.U[None],
            # Down to 1e-9, but not below what rounding of a sum with this penalty allows.
            target=max(10.0 ** (-2 - min(self.n_rounds, 7)), 1e-14 * self.penalty),
            max_iter=40,
            keep=self.keep,
            direct=partial(newton_direction, self.seen, self.hinge, free),
            intercept=free,
        )
        self.n_iter += int(found.n_iter[0])
        self.U = found.U[0]
        self.gradient_norm = float(found.gradient_norm[0])
        if found.interrupted:
            raise KeyboardInterrupt
        return found

    def check_separable(self, found: NewtonMinimum) -> None:
        """Raise NotSeparable where a convex combination of the rows x(e_y − e_h)ᵀ is almost 0."""
        design = self.samples.design
        multipliers = found.evaluation.source[0]
        combination = float(np.linalg.norm(design.back(found.evaluation.residual)))
        longest = float(design.row_norms.max())
        if combination < self.doubt * longest * float(multipliers.sum()):
            raise NotSeparable(
                "there is no max-margin solution: the classes are not linearly separable "
                "(is_separable gives the proof); the cross-entropy loss with a ridge of 0 is "
                "the maximum-likelihood estimate there, and takes any ridge above 0",
                multipliers,
            )

    def update_best(self, found: NewtonMinimum) -> None:
        """Certify these weights by the gap and by a direct solve, and keep the smallest bound."""
        free = self.samples.intercept
        by_gap = certify_by_gap(self.samples.design, self.hinge, found, free)
        active = solve_active(self.seen, self.hinge, found.evaluation.source[0], free)
        known = [one for one in (self.best, by_gap, active) if one is not None]
        if not known:
            return
        best = min(known, key=lambda one: one.bound)
        if self.best is None or math.isinf(self.best.bound) or best.bound < 0.7 * self.best.bound:
            self.n_stalled = 0
        else:
            self.n_stalled += 1
        self.best = best
        self.close = best.bound <= self.tol * float(size_of(free, best.weights[None])[0])

    def update_penalty(self, found: NewtonMinimum) -> None:
        """Take over the multipliers with a larger penalty; a smaller one if Newton's method failed.

        The penalty has a limit: where steps are direct solves a large one costs nothing, with
        conjugate gradients it costs iterations.
        """
        if self.n_rounds > 0 and not found.converged[0]:
            self.penalty /= 5
        else:
            multipliers = found.evaluation.source[0]
            largest = 1e4
            if np.count_nonzero(multipliers) <= MAX_CONSTRAINTS_OF_NEWTON_STEP:
                largest = 1e8
            self.penalty = min(10 * self.penalty, largest)
            self.multipliers = multipliers
        self.n_rounds += 1

    def finalize(self) -> ERMFit:
        """Return the best weights as a fit, or raise NotSeparable where none separate."""
        design = self.samples.design
        basis = difference_basis(self.samples.n_classes)
        self.keep(self.U[None], now=True)
        separability = None
        if self.best is not None:
            best = self.best
            separability = Separation("separable", best.weights.T @ basis.T)
        elif self.interrupted:
            best = CertifiedWeights(self.U, design.fields(self.U), math.inf)
        else:
            raise NotSeparable(
                "no separating weights were found: the classes are not linearly separable, or by a "
                "margin too small to resolve; use a positive ridge with the cross-entropy loss"
            )
        status = Status.TOLERANCE_NOT_MET
        if self.interrupted:
            status = Status.INTERRUPTED
        elif self.close:
            status = Status.OK
        return fit_at(
            self.samples,
            self.loss.name,
            0.0,
            best.weights.T @ basis.T,
            basis @ best.fields,
            0.0,
            best.bound,
            status,
            n_iter=self.n_iter,
            gradient_norm=self.gradient_norm,
            matrix_passes=design.passes - self.passes_before,
            separability=separability,
        )


def certify_by_gap(
    design: Design, hinge: HingeObjective, found: NewtonMinimum, free: Intercept | None
) -> CertifiedWeights | None:
    """Divide U by its smallest margin, and bound its distance to the solution by the duality gap.

    None while some sample is on the wrong side.
    """
    U = found.U[0]
    multipliers = found.evaluation.source[0]
    margins = hinge.margins(found.Z[0])
    margins[hinge.y, np.arange(hinge.y.size)] = np.inf
    smallest = float(margins.min())
    if smallest <= 0:
        return None
    stretch = 1 / smallest
    dual = -design.back(hinge.pull(multipliers))
    slack = np.where(multipliers > 0, stretch * margins - 1, 0.0)
    longest = longest_constraint(design)
    norm = float(np.linalg.norm(U))
    total = float(multipliers.sum())
    # Rounding of a margin relative to the smallest, and of the dual point.
    margin_error = margin_rounding(design) * longest * norm * stretch
    dual_error = (8 * EPS + sum_rounding(design.n_samples)) * longest * total
    dual_error += margin_error * norm * stretch
    apart = stretch * U - dual
    if free is not None:
        apart = apart[:, :-1]  # what counts in ‖W‖²
    gap = 0.5 * (float(np.linalg.norm(apart)) + dual_error) ** 2
    gap += float((multipliers * np.maximum(slack, 0)).sum()) + margin_error * total
    stretch_error = margin_error * norm * stretch
    weights_bound = math.sqrt(2 * gap) + stretch_error
    shift_bound = 0.0
    if free is not None:
        # The multipliers are not quite balanced, which β̂ − β may draw on.
        uneven = (float(np.linalg.norm(dual[:, -1])) + dual_error) / free.column
        room = smallest_by_class(stretch * margins - 1 + margin_error, hinge)
        weights_bound = float(np.linalg.norm(stretch * U[:, :-1]))  # ‖W − Ŵ‖² ≤ ‖W‖² − ‖Ŵ‖²
        for _ in range(20):  # each bound makes the other smaller
            shift_bound = intercept_shift_bound(room, longest * weights_bound)
            by_gap = math.sqrt(2 * (gap + uneven * shift_bound)) + stretch_error
            weights_bound = min(weights_bound, by_gap)
    Z = stretch * found.Z[0]
    return CertifiedWeights.with_intercept(stretch * U, Z, weights_bound, shift_bound, free)


def smallest_by_class(numbers: Array, hinge: HingeObjective) -> Array:
    """Return the smallest of numbers (k, n) of each class h over the samples of class c, [c, h]."""
    return np.array([numbers[:, hinge.y == c].min(1) for c in range(len(numbers))])


def intercept_shift_bound(room: Array, reach: float) -> float:
    """Bound the norm of the intercepts' distance to the solution.

    Constraints allow Δb_h − Δb_c up to room[c, h] + reach, hence the shortest path over such steps.
    """
    steps = np.where(np.isfinite(room), np.maximum(room, 0.0) + reach, 0.0)
    longest = floyd_warshall(np.maximum(steps, np.finfo(float).tiny))
    return float(np.linalg.norm(np.maximum(longest, longest.T).mean(1)))
