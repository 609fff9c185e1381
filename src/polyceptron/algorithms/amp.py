"""Bayes-optimal approximate message passing with one shared variance (Algorithm 1, `alg:amp`).

For i.i.d. inputs of unit variance the covariances of Algorithm 1 self-average, and by symmetry
between the classes they are multiples of the identity on the class differences: one number V for
all samples, one number Λ for all coordinates. An iteration is then

    ω = XŴ/√d − V f,       f, −tr ∂f = argmax channel at (ω, y, V),    Λ = Σ_ν (−tr ∂f_ν)/(d r)
    γ = Xᵀf/√d + ΛŴ,       Ŵ, V = prior at (γ, Λ),                      r = k − 1

which reads X twice and copies nothing of its size. Weights are kept in k coordinates that sum to
zero: labels do not show the common part.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyceptron.errors import InvalidInput
from polyceptron.model.priors import FinitePrior, Prior, as_prior
from polyceptron.model.teacher import check_classes
from polyceptron.numerics.denoise import Denoised, denoise, denoise_points, project
from polyceptron.numerics.orthant import argmax_orthant
from polyceptron.rows import Status

Array = NDArray[np.floating[Any]]
Denoiser = Callable[[Any, Any], Denoised]


@dataclass(frozen=True)
class AMPResult:
    """What message passing found.

    weights (d, k): posterior mean of the teacher's class differences, rows sum to zero.
    variance: posterior variance of one weight per class direction (a number for shared variances).
    trace: one dict per iteration; entry t is the state after t iterations, entry 0 the start.
    damping: the largest damping used, 0 for none.
    """

    weights: Array
    variance: Any
    n_iter: int
    status: Status
    residual: float
    damping: float = 0.0
    trace: list[dict[str, float]] = field(default_factory=list)


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
) -> AMPResult:
    """Posterior mean of the teacher's weights given X (n, d), unit-variance entries, and y (n,)."""
    X, y, k = check_data(X, y, n_classes)
    n, d = X.shape
    denoiser = make_denoiser(model, as_prior(prior), k)
    r = k - 1
    W: Array = np.zeros((d, k), X.dtype)
    V, f = 1.0, np.zeros((n, k), X.dtype)
    truth = None if teacher_weights is None else project(teacher_weights)
    if start == "informed" and truth is not None:
        W, V = truth.astype(X.dtype), 1e-8
    trace: list[dict[str, float]] = []
    root = math.sqrt(d)
    residual, status, t = math.inf, Status.NOT_CONVERGED, 0
    for t in range(1, max_iter + 1):
        omega = X @ (W / root) - V * f
        channel = argmax_orthant(omega, y, V)
        f = channel.score.astype(X.dtype)
        precision = float(channel.curvature.sum()) / (d * r)
        gamma = X.T @ (f / root) + precision * W
        new = denoiser(gamma, np.float64(precision))
        W_new = new.mean.astype(X.dtype)
        residual = float(np.sqrt(np.mean((W_new - W) ** 2) * k / r))
        W, V = W_new, max(float(new.variance.mean()) / r, 1e-30)
        if residual < tol:
            status = Status.OK
            break
    return AMPResult(W, V, t, status, residual, 0.0, trace)


def make_denoiser(model: str, prior: Prior, k: int) -> Denoiser:
    """f_w and its variance for the model's prior on the class differences, in k coordinates."""
    if model == "argmax":
        return lambda gamma, precision: denoise(prior, gamma, precision)
    if model != "perceptron":
        raise InvalidInput(f"unknown model {model!r}: allowed are 'argmax' and 'perceptron'")
    if k != 2:
        raise InvalidInput(f"the classical perceptron has 2 classes, got {k}")
    if not isinstance(prior, FinitePrior):
        return lambda gamma, precision: denoise(prior, gamma, precision)
    # One vector w: the class difference is w along (−1, 1)/√2.
    points = np.outer(prior.values, np.array([-1.0, 1.0]) / math.sqrt(2))
    log_p = np.log(prior.probabilities)
    return lambda gamma, precision: denoise_points(points, log_p, project(gamma), precision)


def check_data(X: Any, y: Any, n_classes: int | None) -> tuple[Array, NDArray[np.int64], int]:
    """X in its own floating type (no copy), labels as integers, and the number of classes."""
    X = np.asarray(X)
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    y = np.asarray(y)
    if X.ndim != 2 or y.shape != X.shape[:1]:
        raise InvalidInput(
            f"X must be (n_samples, dimension) and y (n_samples,), got {X.shape} and {y.shape}"
        )
    if not np.issubdtype(y.dtype, np.integer):
        raise InvalidInput(f"y must hold class indices 0, 1, ..., got {y.dtype} values")
    if y.size and (y.min() < 0 or (n_classes is not None and y.max() >= n_classes)):
        raise InvalidInput(f"labels must be 0 to {n_classes}, got {y.min()} to {y.max()}")
    k = check_classes(int(y.max()) + 1 if n_classes is None else n_classes)
    return X, y.astype(np.int64), k
