"""Bayes-optimal approximate message passing (Algorithm 1, `alg:amp`), for any number of classes.

`amp` checks its input, chooses the step (`shared_variance` or `full_variance`) with the channel as
student and a row of the prior as belief, and iterates it (`iteration`). State evolution follows it
step by step: entry t of the trace is the point after t iterations, entry 0 the start, and its q
compares with entry t of `theory.state_evolution`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyceptron.algorithms.data_checks import (
    check_choice,
    check_samples,
    check_stopping,
    check_truth,
)
from polyceptron.algorithms.message_passing.amp_result import AMPResult
from polyceptron.algorithms.message_passing.damped_iteration import Iterate
from polyceptron.algorithms.message_passing.full_variance import (
    diagonal_step,
    final_variance,
    matrix_step,
    start_variance,
)
from polyceptron.algorithms.message_passing.overlap_trace import OverlapTrace
from polyceptron.algorithms.message_passing.saved_run import iterate_watched
from polyceptron.algorithms.message_passing.shared_variance import shared_step
from polyceptron.algorithms.message_passing.whitening import Scaled, Whitened, unwhitened
from polyceptron.algorithms.watching import Callback, Watch
from polyceptron.errors import InvalidInput
from polyceptron.model.channels import Channel
from polyceptron.model.differences import difference_basis
from polyceptron.model.teacher import make_teacher

Array = NDArray[np.float64]
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
