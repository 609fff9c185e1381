"""Message passing for empirical risk minimisation: its fixed point is the minimiser.

    f = (prox_{Vℓ}(ω) − ω)/V,      Ŵ = γ/(λ + Λ),      V = 1/(λ + Λ)              (eq. SE, app. D)

in place of the posterior of the channel and of the prior (`amp_shared`). At a fixed point
z = XŴ/√d = prox(ω) and f = −∇ℓ(z), so that λŴ = Xᵀf/√d: the gradient of

    Σ_μ ℓ(Wᵀx_μ/√d, y_μ) + (λ/2)‖W‖²_F

vanishes, whatever V and Λ are. Gaussian data are needed for convergence, not for correctness.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyceptron.algorithms.amp_input import check_amp_input, check_stopping
from polyceptron.algorithms.amp_result import AMPResult
from polyceptron.algorithms.amp_shared import shared_step
from polyceptron.algorithms.amp_state import State, iterate
from polyceptron.algorithms.amp_trace import Recorder
from polyceptron.algorithms.erm.products import difference_basis
from polyceptron.errors import InvalidInput
from polyceptron.model.losses import Loss, as_loss

Array = NDArray[np.float64]
_LEAST_V = 1e-12


def amp_erm(
    X: Any,
    y: Any,
    loss: Any = "cross-entropy",
    ridge: float = 1.0,
    *,
    tol: float = 1e-9,
    max_iter: int = 500,
    teacher_weights: Any = None,
    n_classes: int | None = None,
) -> AMPResult:
    """The minimiser of the regularised empirical risk, by message passing.

    X (n, d) with entries of unit variance, y (n,) class indices; `loss` a name or a `Loss`; `ridge`
    λ > 0 (for 'max-margin' any λ gives the same weights). `variance` in the result is V, the
    rescaled susceptibility 1/(λ + Λ); the trace is that of `amp`.

    >>> rng = np.random.default_rng(0)
    >>> X, W = rng.standard_normal((80, 40)), rng.standard_normal((40, 3))
    >>> str(amp_erm(X, (X @ W).argmax(1), "square", ridge=0.5).status)
    'ok'
    """
    X, y, k, truth = check_amp_input(X, y, n_classes, teacher_weights)
    loss = as_loss(loss)
    if isinstance(ridge, bool) or not isinstance(ridge, int | float | np.number):
        raise InvalidInput(f"message passing needs a ridge above 0, got {ridge!r}")
    if not (math.isfinite(ridge) and ridge > 0):
        raise InvalidInput(f"message passing needs a ridge above 0, got {ridge!r}")
    tol, max_iter = check_stopping(tol, max_iter, X.dtype)
    # The channel's curvature is a trace over the k − 1 differences, in any coordinates.
    basis = difference_basis(k) if _sees_differences_only(loss, k) else np.eye(k)
    share = basis.shape[1] / (k - 1)

    def channel(omega: Array, V: float) -> tuple[Array, Array]:
        f, curvature = loss.denoise(omega, y, V)
        return f, curvature * share

    def prior(gamma: Array, precision: float) -> tuple[Array, float]:
        V = 1 / (ridge + precision)
        return gamma * V, V

    recorder = Recorder(basis, truth)
    start = State(
        np.zeros((basis.shape[1], X.shape[1])), 1 / ridge, np.zeros((basis.shape[1], len(X)))
    )
    step = shared_step(X, basis, channel, prior, _LEAST_V)
    end = iterate(step, start, tol=tol, max_iter=max_iter, observe=recorder)
    return AMPResult(
        np.ascontiguousarray(end.state.weights.T @ basis.T),
        float(end.state.variance),
        end.n_iter,
        end.status,
        end.residual,
        end.damping,
        recorder.trace(),
    )


def _sees_differences_only(loss: Loss, k: int) -> bool:
    """Whether the gradient sums to zero, so that the weights have no common part."""
    z = np.linspace(-1.0, 2.0, k)[None]
    return bool(np.abs(loss.gradient(z, np.zeros(1, dtype=np.int64)).sum()) < 1e-12)
