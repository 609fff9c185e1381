"""Message passing for empirical risk minimisation: its fixed point is the minimiser.

    f = (prox_{Vℓ}(ω) − ω)/V,      Ŵ = γ/(λ + Λ),      V = 1/(λ + Λ)              (eq. SE, app. D)

the denoisers of a loss and of the ridge, in place of those of a channel and of a prior, in the same
iteration (`shared_variance`). At a fixed point z = XŴ/√d = prox(ω) and f = −∇ℓ(z), so that
λŴ = Xᵀf/√d: the gradient of

    Σ_μ ℓ(Wᵀx_μ/√d, y_μ) + (λ/2)‖W‖²_F

vanishes, whatever V and Λ are. Gaussian data are needed for convergence, not for correctness.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from polyceptron.algorithms.data_checks import check_samples, check_stopping, check_truth
from polyceptron.algorithms.message_passing.amp_result import AMPResult
from polyceptron.algorithms.message_passing.damped_iteration import Iterate
from polyceptron.algorithms.message_passing.overlap_trace import OverlapTrace
from polyceptron.algorithms.message_passing.saved_run import iterate_watched
from polyceptron.algorithms.message_passing.shared_variance import shared_step
from polyceptron.algorithms.message_passing.whitening import Scaled, Whitened, unwhitened
from polyceptron.algorithms.watching import Callback, Watch
from polyceptron.algorithms.weight_coordinates import class_coordinates
from polyceptron.errors import InvalidInput
from polyceptron.model.checks import DEFAULT_RIDGE, check_ridge
from polyceptron.model.denoisers import Belief
from polyceptron.model.features import as_spectrum
from polyceptron.model.losses import Loss, as_loss
from polyceptron.model.penalties import Penalty, Ridge

_LEAST_V = 1e-12


def amp_erm(
    X: Any,
    y: Any,
    loss: Any = "cross-entropy",
    ridge: float = DEFAULT_RIDGE,
    *,
    penalty: Penalty | None = None,
    tol: float = 1e-9,
    max_iter: int = 500,
    teacher_weights: Any = None,
    n_classes: int | None = None,
    features: Any = "isotropic",
    verbose: int = 0,
    callback: Callback | None = None,
    checkpoint: Any = None,
    checkpoint_every: float = 60.0,
) -> AMPResult:
    """The minimiser of the regularised empirical risk, by message passing.

    X (n, d) with entries of unit variance, or with `features` the variances of that spectrum, y
    (n,) class indices; `loss` a name or a `Loss`. A
    `ridge` of 0 is what the loss says (max-margin for cross-entropy); for max-margin any ridge
    gives the same weights. A `penalty` replaces the ridge. `variance` in the result is V, the
    rescaled susceptibility 1/(λ + Λ); the trace is that of `amp`, and so are `verbose`, `callback`,
    `checkpoint`, `checkpoint_every` and what X may be.

    `tol`, `max_iter`, `teacher_weights` and `n_classes` are those of `amp`.

    >>> rng = np.random.default_rng(0)
    >>> X, W = rng.standard_normal((80, 40)), rng.standard_normal((40, 3))
    >>> str(amp_erm(X, (X @ W).argmax(1), "square", ridge=0.5).status)
    'ok'
    """
    chosen = as_loss(loss)
    if penalty is None:
        chosen, penalty = _penalty_above_zero(chosen, ridge)
    design, y, k = check_samples(X, y, n_classes)
    truth = check_truth(teacher_weights, design.dimension, k)
    tol, max_iter = check_stopping(tol, max_iter, design.dtype)
    spectrum, belief = as_spectrum(features), cast("Belief", penalty)
    if not spectrum.isotropic:
        root = spectrum.deviations(design.dimension)
        design, belief = Whitened(design, root[:, 0]), Scaled(penalty, root[:, 0])
        truth = None if truth is None else truth * root
    basis = class_coordinates(chosen, k)
    r = basis.shape[1]
    begin = Iterate(
        np.zeros((r, design.dimension)), 1 / penalty.strength, np.zeros((r, design.n_samples))
    )
    step = shared_step(design, y, basis, chosen, belief, _LEAST_V)
    trace = OverlapTrace(basis, truth)
    settings = {
        "method": "amp_erm", "loss": chosen.name, "penalty": penalty.name,
        "ridge": penalty.strength, "classes": k, "features": spectrum.name,
    }  # fmt: skip
    end = iterate_watched(
        design, y, step, begin, trace, tol, max_iter, Watch("message passing", verbose, callback),
        checkpoint, checkpoint_every, settings,
    )  # fmt: skip
    result = AMPResult.of(end, basis, float(end.last.variance), trace.entries())
    return result if spectrum.isotropic else unwhitened(result, spectrum)


def _penalty_above_zero(loss: Loss, ridge: Any) -> tuple[Loss, Penalty]:
    """The loss and the penalty to iterate with: hard constraints take any ridge."""
    strength = float(check_ridge(ridge))
    if strength > 0:
        return loss, Ridge(strength)
    limit = loss.without_ridge()
    if limit is None or not limit.scale_free:
        raise InvalidInput(
            f"message passing needs a ridge above 0 for the loss {loss.name!r}, got {ridge!r}"
        )
    return limit, Ridge(1.0)
