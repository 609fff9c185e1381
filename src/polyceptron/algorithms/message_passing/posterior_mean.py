"""Bayes-optimal approximate message passing (Algorithm 1, `alg:amp`), for any number of classes.

`amp` checks its input, chooses the step (`shared_variance` or `full_variance`) with the channel as
student and a row of the prior as belief, and iterates it (`iteration`). State evolution follows it
step by step: entry t of the trace is the point after t iterations, entry 0 the start, and its q
compares with entry t of `theory.state_evolution`.

Message passing for empirical risk minimisation: its fixed point is the minimiser.

    f = (prox_{Vℓ}(ω) − ω)/V,      Ŵ = γ/(λ + Λ),      V = 1/(λ + Λ)              (eq. SE, app. D)

the denoisers of a loss and of the ridge, in place of those of a channel and of a prior, in the same
iteration (`shared_variance`). At a fixed point z = XŴ/√d = prox(ω) and f = −∇ℓ(z), so that
λŴ = Xᵀf/√d: the gradient of

    Σ_μ ℓ(Wᵀx_μ/√d, y_μ) + (λ/2)‖W‖²_F

vanishes, whatever V and Λ are. Gaussian data are needed for convergence, not for correctness.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np

from polyceptron.algorithms.data_checks import (
    check_choice,
    check_samples,
    check_stopping,
    check_truth,
)
from polyceptron.algorithms.message_passing.amp_result import AMPResult, OverlapTrace
from polyceptron.algorithms.message_passing.correlated import Scaled, Whitened, unwhitened
from polyceptron.algorithms.message_passing.iteration import Iterate
from polyceptron.algorithms.message_passing.saved_run import iterate_watched
from polyceptron.algorithms.message_passing.variances import (
    diagonal_step,
    final_variance,
    matrix_step,
    shared_step,
    start_variance,
)
from polyceptron.algorithms.watching import Callback, Watch
from polyceptron.algorithms.weight_coordinates import class_coordinates
from polyceptron.errors import InvalidInput
from polyceptron.model.channels import Channel
from polyceptron.model.checks import DEFAULT_RIDGE, check_ridge, difference_basis
from polyceptron.model.features import as_spectrum
from polyceptron.model.law import Belief
from polyceptron.model.losses import Loss, as_loss
from polyceptron.model.penalties import Penalty, Ridge
from polyceptron.model.teacher import make_teacher
from polyceptron.numerics import Array

_NODES = 8  # of the channel's integral for k ≥ 4: far more precise than the 1/√d of an instance


class _Quick(NamedTuple):
    """The channel as a student that spends few nodes on its integral."""

    channel: Channel

    def denoise(self, omega: Any, label: Any, V: Any) -> tuple[Array, Array]:
        return self.channel.denoise(omega, label, V, _NODES)


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
    noise: Any = "none",
    features: Any = "isotropic",
    verbose: int = 0,
    callback: Callback | None = None,
    checkpoint: Any = None,
    checkpoint_every: float = 60.0,
) -> AMPResult:
    """Posterior mean of the teacher's weights given X (n, d) and class indices y (n,).

    X has entries of unit variance, or with `features` the variances of that spectrum, largest first
    (float32 or float64; it is neither copied nor scaled), y holds
    0..k−1, each class at least once unless `n_classes` is given. `prior`: the name of a registered
    prior, a pair (values, probabilities) or a `Prior`. `noise`: the name of a registered noise of
    the labels ('none', 'gaussian:0.25', 'flips:0.1', ...) or a `Channel`. `variances`: 'shared',
    one number by self-averaging; or 'full', a matrix for every sample and coordinate. `start`:
    'uninformed', or 'informed' at `teacher_weights` (d, k). `model`: 'argmax', or 'perceptron' for
    one weight vector w, of which the weights are (−w, w)/√2. Converged when weights and scores
    would change by less than `tol` (1e-5 at least in float32); otherwise the best iterate is
    returned with the status 'not-converged', or 'interrupted' after Ctrl-C.

    With `verbose` a run over 2 seconds shows how far it is; `callback` is given a `FitProgress`
    after every iteration. A run with a `checkpoint`, the path of a file, is kept there every
    `checkpoint_every` seconds and goes on from it. X may also be a memory map, a sparse matrix or a
    Dask array.

    `max_iter` bounds the iterations. With `teacher_weights` the trace has overlap and error.

    >>> rng = np.random.default_rng(0)
    >>> X, W = rng.standard_normal((60, 30)), rng.standard_normal((30, 3))
    >>> amp(X, (X @ W).argmax(1)).weights.shape
    (30, 3)
    """
    check_choice("variances", variances, ("shared", "full"))
    check_choice("start", start, ("uninformed", "informed"))
    check_choice("model", model, ("argmax", "perceptron"))
    design, y, k = check_samples(X, y, n_classes)
    truth = check_truth(teacher_weights, design.dimension, k)
    teacher = make_teacher(model, k, prior, noise, features)
    tol, max_iter = check_stopping(tol, max_iter, design.dtype)
    channel, basis = teacher.channel, difference_basis(k)
    n, d = design.shape
    row: Any = teacher.row
    power = np.ones(d)
    if not teacher.features.isotropic:
        s, theta = teacher.features.at(d)
        design, power = Whitened(design, np.sqrt(s)), s * theta
        row = Scaled(row, np.sqrt(power))
        truth = None if truth is None else truth * np.sqrt(s)[:, None]
    # Fewer than a few samples within √V of a boundary would be no information at all.
    floor = (4 / n) ** 2
    weights, V = np.zeros((k - 1, d)), 1.0
    if start == "informed":
        if truth is None:
            raise InvalidInput("an informed start needs teacher_weights")
        weights, V = (truth @ basis).T.copy(), floor
    full = variances == "full"
    if not full:
        step = shared_step(design, y, basis, _Quick(channel), row, floor)
    elif k <= 3:
        step = matrix_step(design, y, basis, channel, row, floor)
    else:
        step = diagonal_step(design, y, basis, channel, row, floor, _NODES)
    spread = start_variance(V, basis, d) * (power if start == "uninformed" else 1.0)
    begin = Iterate(weights, spread if full else V, np.zeros((k - 1, n)))
    trace = OverlapTrace(basis, truth)
    settings = {
        "method": "amp", "prior": teacher.prior.name, "noise": channel.name, "model": model,
        "variances": variances, "start": start, "classes": k, "features": teacher.features.name,
    }  # fmt: skip
    end = iterate_watched(
        design, y, step, begin, trace, tol, max_iter, Watch("message passing", verbose, callback),
        checkpoint, checkpoint_every, settings,
    )  # fmt: skip
    found = end.last.variance
    variance = final_variance(found, basis) if full else float(found)
    result = AMPResult.of(end, basis, variance, trace.entries())
    return result if teacher.features.isotropic else unwhitened(result, teacher.features)


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
