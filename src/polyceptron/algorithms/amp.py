"""Bayes-optimal approximate message passing (Algorithm 1, `alg:amp`), for any number of classes.

`amp` checks its input, chooses the step (`amp_shared` or `amp_full`), and iterates it
(`amp_state`). State evolution follows it step by step: entry t of the trace is the state after t
iterations, entry 0 the start, and its q compares with entry t of `theory.state_evolution`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyceptron.algorithms.amp_full import (
    diagonal_step,
    final_variance,
    matrix_step,
    start_variance,
)
from polyceptron.algorithms.amp_input import check_amp_input, check_choice, check_stopping
from polyceptron.algorithms.amp_result import AMPResult
from polyceptron.algorithms.amp_shared import shared_step
from polyceptron.algorithms.amp_state import State, iterate
from polyceptron.algorithms.amp_trace import Recorder
from polyceptron.algorithms.erm.products import difference_basis
from polyceptron.errors import InvalidInput
from polyceptron.model.priors import FinitePrior, Prior, as_prior
from polyceptron.numerics.denoise import (
    Denoised,
    denoise,
    denoise_points,
    project,
    reduced_support,
)
from polyceptron.numerics.orthant import argmax_orthant

Array = NDArray[np.float64]
Denoiser = Callable[[Array, float], Denoised]
_NODES = 8  # of the channel's integral for k ≥ 4: far more precise than the 1/√d of an instance


def amp(
    X: Any,
    y: Any,
    prior: Any = "gaussian",
    variances: str = "shared",
    tol: float = 1e-8,
    max_iter: int = 200,
    teacher_weights: Any = None,
    *,
    start: str = "uninformed",
    model: str = "argmax",
    n_classes: int | None = None,
    noise: float = 0.0,
) -> AMPResult:
    """Posterior mean of the teacher's weights given X (n, d) and class indices y (n,).

    X has entries of unit variance (float32 or float64; it is neither copied nor scaled), y holds
    0..k−1. `prior`: 'gaussian', 'rademacher', a pair (values, probabilities) or a prior.
    `variances`: 'shared', one number by self-averaging; or 'full', a matrix for every sample and
    coordinate. `start`: 'uninformed', or 'informed' at `teacher_weights` (d, k). `model`: 'argmax',
    or 'perceptron' for one weight vector w, of which the weights are (−w, w)/√2. `noise`: variance
    of independent noise on the fields from which the labels were drawn. Converged when weights and
    scores would change by less than `tol` (1e-5 at least in float32); otherwise the best iterate is
    returned with the status 'not-converged'.

    >>> rng = np.random.default_rng(0)
    >>> X, W = rng.standard_normal((60, 30)), rng.standard_normal((30, 3))
    >>> amp(X, (X @ W).argmax(1)).weights.shape
    (30, 3)
    """
    X, y, k, truth = check_amp_input(X, y, n_classes, teacher_weights)
    check_choice("variances", variances, ("shared", "full"))
    check_choice("start", start, ("uninformed", "informed"))
    check_choice("model", model, ("argmax", "perceptron"))
    if model == "perceptron" and k != 2:
        raise InvalidInput(f"the classical perceptron has 2 classes, got {k}")
    if not (math.isfinite(noise) and noise >= 0):
        raise InvalidInput(f"the noise variance must be 0 or more, got {noise!r}")
    tol, max_iter = check_stopping(tol, max_iter, X.dtype)
    law = as_prior(prior)
    denoiser = make_denoiser(model, law, k)
    basis = difference_basis(k)
    n, d = X.shape
    # Fewer than a few samples within √V of a boundary would be no information at all.
    floor = (4 / n) ** 2
    recorder = Recorder(basis, truth)
    weights, V = np.zeros((k - 1, d)), 1.0
    if start == "informed":
        if truth is None:
            raise InvalidInput("an informed start needs teacher_weights")
        weights, V = (truth @ basis).T.copy(), floor

    def channel(omega: Array, V: float) -> tuple[Array, Array]:
        o = argmax_orthant(omega, y, V + noise, order=_NODES)
        return o.score, o.curvature

    def mean_and_variance(gamma: Array, precision: float) -> tuple[Array, float]:
        posterior = denoiser(gamma, precision)
        return posterior.mean, float(np.mean(posterior.variance)) / (k - 1)

    full = variances == "full"
    if not full:
        step = shared_step(X, basis, channel, mean_and_variance, floor)
    elif k <= 3:
        step = matrix_step(X, y, basis, prior_points(model, law, k), floor, noise)
    else:
        step = diagonal_step(X, y, basis, law, floor, noise, _NODES)
    begin = State(weights, start_variance(V, basis, d) if full else V, np.zeros((k - 1, n)))
    end = iterate(step, begin, tol=tol, max_iter=max_iter, observe=recorder)
    return AMPResult(
        np.ascontiguousarray(end.state.weights.T @ basis.T),
        final_variance(end.state.variance, basis) if full else float(end.state.variance),
        end.n_iter,
        end.status,
        end.residual,
        end.damping,
        recorder.trace(),
    )


def make_denoiser(model: str, prior: Prior, k: int) -> Denoiser:
    """f_w and its variance for the model's prior on the class differences, in k coordinates."""
    if model == "argmax" or not isinstance(prior, FinitePrior):
        return lambda gamma, precision: denoise(prior, gamma, precision)
    points, log_p = single_vector_points(prior)
    return lambda gamma, precision: denoise_points(
        points, log_p, project(gamma), np.asarray(precision, dtype=float)
    )


def prior_points(model: str, prior: Prior, k: int) -> tuple[Array, Array] | None:
    """The points of a finite prior on the class differences (c, k), with log-probabilities."""
    if not isinstance(prior, FinitePrior):
        return None
    return single_vector_points(prior) if model == "perceptron" else reduced_support(prior, k)


def single_vector_points(prior: FinitePrior) -> tuple[Array, Array]:
    """The perceptron's one vector w: the class difference is w along (−1, 1)/√2."""
    points = np.outer(prior.values, np.array([-1.0, 1.0]) / math.sqrt(2))
    return points, np.log(prior.probabilities)
