"""P(argmax s ≠ y) of student fields s and a label y drawn at teacher fields t by any channel.

s and t are centred and jointly Gaussian. Where s has independent noise of variance ν in every
direction once t is known, s = g + √ν ξ, and given g and t

    P(argmax s = y | g, t) = Σ_l Z_l(g, ν) P(y = l | t)

with the noiseless Z and the channel's own probabilities: a smooth function that quasi-Monte Carlo
averages. Where it has none (the student is the teacher) the argmax of s itself is taken.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from numpy.typing import NDArray

from polyceptron.algorithms.class_agreement import FLAT, root, sample_until, win_probabilities
from polyceptron.model.channels import Channel
from polyceptron.model.differences import difference_basis

Array = NDArray[np.float64]


def drawn_label_error(
    student: Array, teacher: Array, cross: Array, channel: Channel, tol: float, seed: int
) -> tuple[float, float]:
    """ε and its uncertainty from the k×k covariances of s, of t, and between them; any k.

    Those of t are in the units in which the channel draws labels.
    """
    k = student.shape[0]
    basis = difference_basis(k)
    S, T, C = (basis.T @ part @ basis for part in (student, teacher, cross))
    # t = Aξ and s = Bξ + rest·η + √ν noise, for independent standard normal ξ, η.
    A = root(T)
    B = C @ np.linalg.pinv(A, rcond=1e-12, hermitian=True)
    rest = S - B @ B.T
    noise = float(np.linalg.eigvalsh(rest)[0]) * (1 - 1e-6)
    noise = noise if noise > FLAT * float(np.trace(S)) else 0.0
    own = np.hstack([B, root(rest - noise * np.eye(k - 1))])
    integrand = partial(
        _agreement, teacher=basis @ A, student=basis @ own, noise=noise, channel=channel
    )
    value, uncertainty = sample_until(integrand, 2 * k - 2, tol, seed)
    return min(1.0, max(0.0, 1 - value)), uncertainty


def _agreement(
    points: Array, teacher: Array, student: Array, noise: float, channel: Channel
) -> Array:
    """P(argmax s = y | g, t) at points (n, 2k−2): t from their first half, g from all of them."""
    chances = channel.chances(points[:, : teacher.shape[1]] @ teacher.T)
    g = points @ student.T
    if noise == 0:
        return np.asarray(np.take_along_axis(chances, g.argmax(1)[:, None], 1)[:, 0])
    result: Array = (win_probabilities(g / math.sqrt(noise)) * chances).sum(1)
    return result
