"""One run of message passing on samples: from checked input to a result in the caller's units.

Features of variance s are g = x/√s of variance 1 with weights W̃ = √s W; X is not copied, products
with it are scaled. What is believed of a row of W, or paid for it, becomes that of a row u scaled
by c (√s for a penalty, √(sθ) for a prior of unit variance, θ being the signal of the feature):

    W̃ = c·u,    u = belief(cγ, c²Λ),    Var W̃ = c² Var u

The trace records, of every iterate and with r = k − 1 and P = I − 11ᵀ/k,

    q = ‖Ŵ‖²/(d r),   m = ⟨Ŵ, PW*⟩/(d r),   ε = ε(ρ),  ρ = m/√(q q*),  q* = ‖PW*‖²/(d r) → 1

where ε is the generalisation error of the noiseless rule.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from polyceptron import checks
from polyceptron.data import checks as data_checks
from polyceptron.data.stored_designs import scaled
from polyceptron.data.watching import Callback, Watch
from polyceptron.message_passing.iteration import (
    Ending,
    Iterate,
    Step,
    damped_iteration,
    inner_product,
)
from polyceptron.message_passing.result import AMPResult
from polyceptron.numerics import Array
from polyceptron.problem.order import Belief, RowEstimate
from polyceptron.problem.priors import WeightsRow
from polyceptron.problem.spectrum import Spectrum, as_spectrum
from polyceptron.sides.generalisation import generalisation_error

# Relative changes below this are rounding where X is in single precision (eps = 1.2e-7).
SINGLE_PRECISION_TOLERANCE = 1e-5


@dataclass(frozen=True)
class ScaledBelief:
    """What is believed of rows c·u, with c (d,) and u a row that `inner` knows."""

    inner: Belief
    scale: Array

    def denoise(self, gamma: Any, precision: Any) -> RowEstimate:
        """Return mean (d, k) and variance (d,) of the rows at γ (d, k) and Λ, a number or (d,)."""
        row = self.inner.denoise(gamma * self.scale[:, None], precision * self.scale**2)
        return RowEstimate(row.mean * self.scale[:, None], row.variance * self.scale**2)


@dataclass(frozen=True)
class ScaledRow(ScaledBelief):
    """A prior's rows c·u, which also have precisions of their own for each coordinate."""

    inner: WeightsRow

    def diagonal_posterior(self, gamma: Array, precision: Array) -> tuple[Array, Array]:
        """Return mean and diagonal of the covariance of the rows, (d, k) each."""
        c = self.scale[:, None]
        mean, diagonal = self.inner.diagonal_posterior(gamma * c, precision * c**2)
        return mean * c, diagonal * c**2


@dataclass(frozen=True)
class Reporting:
    """Who is told of a run, and where it is kept: the options of the same names of `fit_erm`."""

    verbose: int
    callback: Callback | None
    checkpoint: Any
    checkpoint_every: float


@dataclass(frozen=True)
class Run:
    """What a run of message passing is given, checked and in units of unit variance.

    Attributes
    ----------
    samples : Samples
        Design (n, d) with features of unit variance, labels (n,) and k.
    basis : ndarray of shape (k, r)
        Orthonormal coordinates of the classes.
    spectrum : Spectrum
        Variances of the features as they were given.
    truth : ndarray of shape (d, k) or None
        PW* of the teacher, for features of unit variance.
    tol, max_iter
        Those of `damped_iteration`.
    """

    samples: data_checks.Samples
    basis: Array
    spectrum: Spectrum
    truth: Array | None
    tol: float
    max_iter: int

    @classmethod
    def checked(
        cls, X: Any, y: Any, n_classes: Any, truth: Any, features: Any, tol: Any, max_iter: Any
    ) -> Run:
        """Return the run of what a caller gave, or raise InvalidInput."""
        samples = data_checks.check_samples(X, y, n_classes)
        spectrum = as_spectrum(features)
        design, _, k = samples
        weights = data_checks.check_weights(truth, "teacher_weights", design.dimension, k)
        if weights is not None:
            weights = checks.project(weights)
        tol = checks.check_tolerance(tol, 1e-8)
        if design.dtype == np.float32:
            tol = max(tol, SINGLE_PRECISION_TOLERANCE)
        max_iter = checks.check_size(max_iter, "max_iter")
        if not spectrum.isotropic:
            deviations = spectrum.deviations(design.dimension)
            # Division by infinity: a feature without variance is not seen at all.
            divisors = np.where(deviations > 0, deviations, np.inf)[:, 0]
            samples = replace(samples, design=scaled(design, None, divisors))
            if weights is not None:
                weights = weights * deviations
        return cls(samples, checks.difference_basis(k), spectrum, weights, tol, max_iter)

    @property
    def feature_deviations(self) -> Array | None:
        """Standard deviations (d,) of the features as they were given, None where all are 1."""
        if self.spectrum.isotropic:
            return None
        return self.spectrum.deviations(self.samples.design.dimension)[:, 0]

    def iterate(
        self,
        step: Step,
        start: Iterate,
        reporting: Reporting,
        exchangeable: bool,
        settings: dict[str, Any],
    ) -> AMPResult:
        """Iterate a step from a start, and return the result in the caller's units.

        Parameters
        ----------
        step, start
            The map, and where to begin.
        reporting : Reporting
            Who is told of it, and where it is kept.
        exchangeable : bool
            Whether no class is distinguished from another: then the trace has the error.
        settings : dict
            What a checkpoint must agree in to be of the same run.
        """
        design, y, k = self.samples
        watch = Watch("message passing", reporting.verbose, reporting.callback)
        compared = settings | {"classes": k, "features": self.spectrum.name}
        watch.checkpoint.open(
            reporting.checkpoint, reporting.checkpoint_every, design, y, **compared
        )
        overlaps = _Overlaps.of(self)
        with design.watched(watch):
            end = damped_iteration(
                step,
                start,
                tol=self.tol,
                max_iter=self.max_iter,
                observe=overlaps.of_iterate,
                watch=watch,
            )
        trace = list(end.trace)
        if exchangeable:
            overlaps.add_errors(trace)
        return self._result(end, trace)

    def _result(self, end: Ending, trace: list[dict[str, float]]) -> AMPResult:
        """Return the end of an iteration with weights (d, k) of the features as they were given."""
        d = self.samples.design.dimension
        columns = np.ascontiguousarray(end.last.weights.T @ self.basis.T)
        weights = columns[:d]
        intercepts = columns[d:].sum(0)  # no column behind the weights: zeros
        if not self.spectrum.isotropic:
            deviations = self.spectrum.deviations(d)
            seen = deviations > 0
            weights = np.where(seen, weights / np.where(seen, deviations, 1.0), 0.0)
        return AMPResult(
            weights=weights,
            variance=self._variance(end.last),
            n_iter=end.n_iter,
            status=end.status,
            residual=end.residual,
            damping=end.damping,
            trace=trace,
            scores=np.ascontiguousarray(end.last.scores.T @ self.basis.T),
            intercepts=intercepts,
        )

    def _variance(self, last: Iterate) -> float | Array:
        """Return the variance of an iterate in the form that `AMPResult` documents."""
        k = self.samples.n_classes
        if np.ndim(last.variance) == 0:
            return float(last.variance)
        has_intercepts = last.weights.shape[1] > self.samples.design.dimension
        if has_intercepts:  # the step with one matrix V (r, r)
            return np.asarray(self.basis @ last.variance @ self.basis.T)
        v = np.ascontiguousarray(last.variance.T)
        if k > 3:
            return v
        P = np.eye(k) - 1 / k
        return np.asarray(np.einsum("gh,dh,hi->dgi", P, v, P))


@dataclass(frozen=True)
class _Overlaps:
    """q of an iterate, and m with the teacher's weights (r, d), where these are known."""

    n_classes: int
    dimension: int
    teacher: Array | None

    @classmethod
    def of(cls, run: Run) -> _Overlaps:
        """Return what measures the overlaps of a run with its teacher, if it has one."""
        teacher = None
        if run.truth is not None:
            teacher = np.ascontiguousarray((run.truth @ run.basis).T)
        return cls(run.samples.n_classes, run.samples.design.dimension, teacher)

    @property
    def n_weights(self) -> int:
        """d(k − 1), the number of weights on class differences."""
        return self.dimension * (self.n_classes - 1)

    def of_iterate(self, here: Iterate) -> dict[str, float]:
        """Return q, and m if the teacher is known."""
        weights = here.weights[:, : self.dimension]
        shows_common_part = len(weights) == self.n_classes
        if shows_common_part:
            weights = weights - weights.mean(0)
        overlaps = {"q": inner_product(weights, weights) / self.n_weights}
        if self.teacher is not None:
            overlaps["m"] = inner_product(weights, self.teacher) / self.n_weights
        return overlaps

    def add_errors(self, trace: list[dict[str, float]]) -> None:
        """Write the generalisation error ε(ρ) into each entry, if the teacher is known."""
        if self.teacher is None:
            return
        q = np.array([entry["q"] for entry in trace])
        m = np.array([entry["m"] for entry in trace])
        teacher_q = inner_product(self.teacher, self.teacher)
        # The start Ŵ = 0 has q = m = 0, and ρ = 0.
        rho = m / np.sqrt(np.maximum(q * teacher_q / self.n_weights, 1e-300))
        errors = generalisation_error(np.clip(rho, -1, 1), self.n_classes)
        for entry, error in zip(trace, errors, strict=True):
            entry["generalisation_error"] = float(error)
