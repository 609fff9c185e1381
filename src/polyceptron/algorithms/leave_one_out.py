"""How message passing would do without each sample in turn, without a refit.

At the fixed point the cavity field of a training sample, ω = xŴ/√d − V f with f its own score, is
the field predicted by all *other* samples. Its log-probability of the true label is a
leave-one-out score: it chooses the noise and sets the intercept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import scipy.optimize

from polyceptron.algorithms.data_checks import Labels
from polyceptron.algorithms.design import Design
from polyceptron.algorithms.message_passing.posterior_mean import AMPResult, amp
from polyceptron.algorithms.stored_designs import as_design
from polyceptron.algorithms.watching import uninterrupted
from polyceptron.model.channels import Channel, GaussianNoise
from polyceptron.numerics import Array
from polyceptron.rows import Status

VARIANCES = (0.0, 0.01, 0.05, 0.2, 1.0, 5.0)  # of Gaussian noise, tried from the middle outwards
_FIRST = 2
_ORDER = 12  # nodes of the channel's integral: 6 digits


class NoiseSearch(NamedTuple):
    """Features A (n, d), labels y (n,) below k, and what message passing is asked."""

    A: Any
    y: Labels
    n_classes: int
    prior: Any
    variances: str
    tol: float
    max_iter: int
    verbose: int = 0


@dataclass(frozen=True)
class Candidate:
    """A run of message passing at one noise.

    Cavity fields (n, k), their variance (n,), and log-probabilities (n,) of the labels there.
    """

    result: AMPResult
    channel: Channel
    cavity: Array
    variance: Array
    log_chance: Array

    @property
    def score(self) -> float:
        """Their mean."""
        return float(self.log_chance.mean())

    @property
    def rank(self) -> tuple[bool, float]:
        """Converged before not converged, then by score."""
        return self.converged, self.score

    @property
    def converged(self) -> bool:
        """Whether message passing did."""
        return self.result.status == Status.OK


def run_at(problem: NoiseSearch, channel: Channel) -> Candidate:
    """Message passing at this noise, and its leave-one-out score."""
    design, y = as_design(problem.A), problem.y
    result = amp(
        design,
        y,
        problem.prior,
        problem.variances,
        tol=problem.tol,
        max_iter=problem.max_iter,
        n_classes=problem.n_classes,
        noise=channel,
        verbose=problem.verbose,
    )
    if problem.variances == "full":
        variance = field_variance(design, result.variance)
    else:
        variance = np.full(y.size, float(result.variance))
    fields = design.fields(np.ascontiguousarray(result.weights.T)).T
    cavity = fields - variance[:, None] * result.scores
    variance = np.maximum(variance, 1e-300)
    log_chance = channel.posterior(cavity, y, variance, _ORDER).log_z
    return Candidate(result, channel, cavity, variance, log_chance)


def search_noise(problem: NoiseSearch) -> Candidate:
    """The noise of the list with the best score; of those tried, if it is interrupted."""
    tried: list[Candidate] = []

    def run(variance: float, _: Candidate | None = None) -> Candidate:
        tried.append(run_at(problem, GaussianNoise(variance)))
        uninterrupted(tried[-1].result)
        return tried[-1]

    try:
        return best_of(walk(run(VARIANCES[_FIRST]), VARIANCES, _FIRST, run))
    except KeyboardInterrupt:
        if not tried:
            raise
        best = best_of(tried)
        return replace(best, result=replace(best.result, status=Status.INTERRUPTED))


class Ranked(Protocol):
    """A fit among others."""

    @property
    def converged(self) -> bool:
        """Whether it did."""
        ...

    @property
    def rank(self) -> tuple[bool, float]:
        """Converged before not converged, then by score."""
        ...


Fit = TypeVar("Fit", bound=Ranked)


def walk(
    begin: Fit, values: Sequence[float], first: int, run: Callable[[float, Fit], Fit]
) -> list[Fit]:
    """Fits at values from `first` down while they get better, else up; on while none converged.

    `run` is given the value and the best fit so far, where it may start.
    """
    tried = [begin]
    for direction in (-1, 1):
        position, moved = first + direction, False
        while 0 <= position < len(values):
            best = best_of(tried)
            tried.append(run(values[position], best))
            if tried[-1].rank > best.rank:
                moved = True
            elif best.converged:
                break
            position += direction
        if moved and best_of(tried).converged:
            break
    return tried


def best_of(tried: list[Fit]) -> Fit:
    """The first of the highest rank."""
    return max(tried, key=lambda one: one.rank)


def field_variance(design: Design, variance: Any) -> Array:
    """Posterior variance (n,) of the fields of a design's samples, per class direction.

    Of full covariances (d, k, k) on the class differences, or variances (d, k), it takes the mean
    over directions: with one variance for all classes, the likeliest has the largest field.
    """
    C = np.asarray(variance, dtype=float)
    if C.ndim == 3:
        C = np.trace(C, axis1=1, axis2=2) / (C.shape[1] - 1)
    elif C.ndim == 2:
        C = C.mean(1)
    return design.fields_squared(np.broadcast_to(C, (1, design.dimension)))[0]


def best_intercept(found: Candidate, y: Labels) -> Array:
    """b (k,) that maximises the leave-one-out likelihood of the fields ω + b, with b ~ N(0, 1)."""
    k = found.cavity.shape[1]

    def objective(b: Array) -> tuple[float, Array]:
        at = found.channel.posterior(found.cavity + b, y, found.variance, _ORDER)
        return 0.5 * float(b @ b) - float(at.log_z.sum()), b - at.score.sum(0)

    answer = scipy.optimize.minimize(objective, np.zeros(k), jac=True, method="BFGS")
    return np.asarray(answer.x) if np.isfinite(answer.x).all() else np.zeros(k)


def mean_and_error(values: Array) -> tuple[float, float]:
    """A mean over samples and its standard error."""
    return float(values.mean()), float(values.std() / math.sqrt(values.size))
