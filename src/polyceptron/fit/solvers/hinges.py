"""Losses with kinks and a ridge: min_W Σ_μ s_μ ℓ(z_μ, y_μ) + (λ/2)‖W‖²_F.

A loss that is the largest of sums a·m of missed leads m_h = 1 + z_h − z_y over pulls a_h (h ≠ y) in
some set (the hinges) is smoothed about multipliers α,

    ψ(z) = max_a a·m − ‖a − α‖²/2c,     a = the point of the set next to α + c m,

enough for Newton's method; α ← a until it stays (`HingeObjective`). Since a is in the set, with
G = Σ x̂_μ Σ_h a_h(e_h − e_y)ᵀ

    gap = Σ_μ (s ℓ(z_μ) − Σ_h a_h m_h(z_μ)) + (λ/2)‖W + G/λ‖² ≥ (λ/2)‖W − Ŵ‖²,

a sum of terms that are not negative. With an intercept the pulls ought to sum to
e = Σ_μh a_h(e_h − e_y) = 0, and do up to rounding: the gap is larger by ‖e‖‖b − b̂‖, for which any
bound will do. With P the objective here, a sample of class c says s(1 + ẑ_h − ẑ_c) ≤ P for the
other classes h, and ‖Ŵ‖² ≤ 2P/λ, so

    b̂_h − b̂_c ≤ R = max_c min_{y_μ=c} (P/s_μ + 2‖x̂_μ‖√(P/λ)),     ‖b̂‖ ≤ √k R.

A hinge need not have one best intercept: the certificate is of the weights alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from polyceptron.checks import difference_basis
from polyceptron.data.checks import Samples
from polyceptron.data.design import weights_or_ones
from polyceptron.fit.solvers.active_set import longest_constraint
from polyceptron.fit.solvers.erm_fit import ERMFit, fit_at, stopped
from polyceptron.fit.solvers.hinge_objective import HingeObjective
from polyceptron.fit.solvers.newton import NewtonMinimum, newton_minimise
from polyceptron.fit.solvers.rounding import EPS, sum_rounding
from polyceptron.numerics import Array
from polyceptron.problem.losses import Loss
from polyceptron.rows import Status

SMALLEST_TOLERANCE = 1e-5  # relative distance that the square root of a gap can certify
MAX_ROUNDS = 60
ROUNDS_WITHOUT_A_BETTER_BOUND = 8
LARGEST_PENALTY = 3e2  # above, the inner minimisations of the tests do not become closer


def fit_by_multipliers(
    samples: Samples, loss: Loss, ridges: Sequence[float], tol: float, start: Array | None
) -> list[ERMFit]:
    """Return one fit per λ > 0 in the order given; each starts from the last larger λ.

    `start` (d, k) are the weights to begin from, or None.
    """
    k = samples.n_classes
    multipliers = np.zeros((k, samples.y.size))
    U = np.zeros((k - 1, samples.design.dimension))
    if start is not None:
        U = (start @ difference_basis(k)).T
    fits: dict[float, ERMFit] = {}
    for ridge in sorted(set(ridges), reverse=True):
        search = KinkedSearch(samples, loss, ridge, max(tol, SMALLEST_TOLERANCE), U, multipliers)
        fits[ridge] = search.run()
        U = search.U
        multipliers = search.multipliers
    return [fits[ridge] for ridge in ridges]


@dataclass
class KinkedSearch:
    """The search for the minimiser at one λ, one method a step of a round.

    U, multipliers : W on the class differences (k−1, d) and α (k, n); the next λ starts from them
    penalty : c of the next round
    best_U, best_fields, best_bound : the weights of the smallest bound, their fields (k, n)
    n_stalled : rounds since the bound last became smaller
    """

    samples: Samples
    loss: Loss
    ridge: float
    tol: float
    U: Array
    multipliers: Array
    penalty: float = 1.0
    n_iter: int = 0
    n_stalled: int = 0
    interrupted: bool = False
    best_U: Array = field(init=False)
    best_fields: Array = field(init=False)
    best_bound: float = math.inf

    def __post_init__(self) -> None:
        self.basis = difference_basis(self.samples.n_classes)
        self.sample_weights = weights_or_ones(self.samples.weights, self.samples.y.size)
        self.passes_before = self.samples.design.passes
        self.best_U = self.U
        self.best_fields = np.zeros(self.multipliers.shape)

    def run(self) -> ERMFit:
        """Alternate minimisations and updates of the multipliers until the bound is met."""
        for n_rounds in range(MAX_ROUNDS):
            try:
                found = self.inner_minimisation(n_rounds)
            except KeyboardInterrupt:
                self.interrupted = True
                break
            certificate = GapCertificate.at(self, found)
            norm = self.norm_of(self.U)
            much_better = certificate.bound < 0.3 * self.best_bound
            self.update_best(certificate, found)
            if certificate.bound <= self.tol * norm:
                break
            if self.n_stalled == ROUNDS_WITHOUT_A_BETTER_BOUND:
                break
            self.tell(n_rounds, certificate.bound, norm)
            self.update_penalty(certificate.slope < 1e-3 * self.ridge * norm, much_better)
        return self.finalize()

    def inner_minimisation(self, n_rounds: int) -> NewtonMinimum:
        """Minimise the smoothed objective, and take its pulls as the next multipliers."""
        samples = self.samples
        self.objective = HingeObjective(
            self.loss, samples.y, self.multipliers, self.penalty, samples.weights
        )
        closest = 1e-8
        if samples.intercept is not None:
            closest = 1e-12  # the pulls on the intercept have to balance
        found = newton_minimise(
            samples.design,
            self.objective,
            np.array([self.ridge]),
            self.U[None],
            target=max(10.0 ** (-2 - n_rounds), closest),
            max_iter=40,
            intercept=samples.intercept,
        )
        self.U = found.U[0]
        self.multipliers = found.evaluation.source[0]
        self.n_iter += int(found.n_iter[0])
        return found

    def norm_of(self, U: Array) -> float:
        """Return ‖W‖, without the column of an intercept."""
        if self.samples.intercept is None:
            return float(np.linalg.norm(U))
        return float(np.linalg.norm(U[:, :-1]))

    def update_best(self, certificate: GapCertificate, found: NewtonMinimum) -> None:
        """Keep the weights of the smallest bound, and count the rounds without progress."""
        if certificate.bound < 0.9 * self.best_bound:
            self.n_stalled = 0
        else:
            self.n_stalled += 1
        if certificate.bound < self.best_bound:
            self.best_U = self.U
            self.best_fields = self.basis @ found.Z[0]
            self.best_bound = certificate.bound

    def tell(self, n_rounds: int, bound: float, norm: float) -> None:
        """Report the relative bound to whoever watches the fit."""
        relative = math.inf
        if norm:
            relative = bound / norm
        self.samples.design.watch.step(n_rounds + 1, MAX_ROUNDS, relative, self.tol)

    def update_penalty(self, solved: bool, much_better: bool) -> None:
        """Choose c: a larger one needs fewer rounds, a smaller one is minimised more closely."""
        if not solved:
            self.penalty /= 3
        elif not much_better:
            self.penalty = min(3 * self.penalty, LARGEST_PENALTY)

    def finalize(self) -> ERMFit:
        """Return the best weights as a fit."""
        samples = self.samples
        status = Status.TOLERANCE_NOT_MET
        if self.best_bound <= self.tol * self.norm_of(self.best_U):
            status = Status.OK
        losses = self.loss.value(self.best_fields.T, samples.y)
        fit = fit_at(
            samples,
            self.loss.name,
            self.ridge,
            self.best_U.T @ self.basis.T,
            self.best_fields,
            float(self.sample_weights @ losses),
            self.best_bound,
            status,
            gradient_norm=self.ridge * self.best_bound,
            n_iter=self.n_iter,
            matrix_passes=samples.design.passes - self.passes_before,
        )
        if self.interrupted:
            return stopped(fit)
        return fit


@dataclass(frozen=True)
class GapCertificate:
    """A bound on ‖W − Ŵ‖ from the duality gap, rounding included; slope: that on ‖λW + G‖."""

    bound: float
    slope: float

    @classmethod
    def at(cls, search: KinkedSearch, found: NewtonMinimum) -> GapCertificate:
        """Certify the weights, fields and pulls of an inner minimisation."""
        samples = search.samples
        y = samples.y
        a = search.multipliers
        z = search.basis @ found.Z[0]
        losses = search.sample_weights * search.loss.value(z.T, y)
        leads_missed = 1 + z - z[y, np.arange(y.size)]
        gap = float(np.maximum(losses - (a * leads_missed).sum(0), 0.0).sum())
        gap += _field_rounding(search, z)
        slope = float(found.gradient_norm[0])
        slope += sum_rounding(y.size) * longest_constraint(samples.design) * float(a.sum())
        if samples.intercept is not None:
            gap += _intercept_share(search, z)
        bound = math.hypot(math.sqrt(2 * gap / search.ridge), slope / search.ridge)
        return cls(bound, slope)


def _field_rounding(search: KinkedSearch, z: Array) -> float:
    """Return what rounding of the fields z (k, n) may add to the gap.

    It counts where the sample is at a kink: elsewhere a is the slope of the loss itself.
    """
    design = search.samples.design
    y = search.samples.y
    s = search.sample_weights
    slopes = search.loss.gradient(z.T, y).T.copy()
    slopes[y, np.arange(y.size)] = 0.0
    at_kink = np.abs(search.multipliers - s * slopes).max(0) > 1e-10 * s
    norm = float(np.linalg.norm(search.U))
    rounding = (8 * EPS + sum_rounding(design.dimension)) * (design.row_norms * norm + 1)
    return 2 * float(np.where(at_kink, s, 0.0) @ rounding)


def _intercept_share(search: KinkedSearch, z: Array) -> float:
    """Return ‖e‖(‖b‖ + √k R): what pulls that do not balance may add to the gap."""
    samples = search.samples
    y = samples.y
    k = samples.n_classes
    s = search.sample_weights
    b = samples.intercept.column * search.U[:, -1]
    objective = float(s @ search.loss.value(z.T, y))
    objective += search.ridge * search.norm_of(search.U) ** 2 / 2
    reach = objective / s
    reach += 2 * samples.design.row_norms * math.sqrt(objective / search.ridge)
    widest = max(float(reach[y == c].min()) for c in range(k))
    uneven = float(np.linalg.norm(search.objective.pull(search.multipliers).sum(1)))
    uneven += sum_rounding(y.size) * 2 * float(search.multipliers.sum())
    return uneven * (float(np.linalg.norm(b)) + math.sqrt(k) * widest)
