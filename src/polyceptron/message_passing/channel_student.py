"""What a label teaches about the fields of its sample, at the speed that message passing needs.

f = ∇ ln Z_y and −tr ∂f come from the channel. Where its utilities are fields plus Gaussian noise of
variance Δ, the labels perhaps guessed with a chance kη', they are those of a table
(`numerics/argmax_score.py`) at width s = √(V + Δ):

    Z = η' + (1 − kη')P,    f = w ∇ ln P,    −tr ∂f = w(−tr ∂² ln P − (1 − w)‖∇ ln P‖²)

with w the share of Z that P explains.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from polyceptron.data.checks import Labels
from polyceptron.message_passing.steps import CHANNEL_NODES, Student
from polyceptron.numerics import Array
from polyceptron.numerics.argmax_score import argmax_score
from polyceptron.problem.channels import Channel

MOST_CLASSES_IN_CLOSED_FORM = 3

# Nodes of the channel's one-dimensional integral for k ≥ 4 classes: scores err by 1.3e-4 of their
# size at k = 10 (tests/unit/numerics/test_argmax_score.py), far below the fluctuations 1/√d of a
# data set (tests/agreement/test_amp_state_evolution.py).
NODES_OF_TABULATED_CHANNEL = 6


def channel_student(channel: Channel, n_classes: int) -> Student:
    """Return the student of a channel with one variance V for all samples."""
    noise = channel.utility_variance
    if noise is None or n_classes <= MOST_CLASSES_IN_CLOSED_FORM:
        return partial(channel.denoise, order=CHANNEL_NODES)
    return _TabulatedStudent(noise, channel.guess(n_classes))


@dataclass(frozen=True)
class _TabulatedStudent:
    """Gaussian utilities of variance `noise`; a class is guessed with the chance `guess`."""

    noise: float
    guess: float

    def __call__(self, omega: Array, y: Labels, V: float) -> tuple[Array, Array]:
        """Return f (n, k) and −tr ∂f (n,) at fields ω (n, k)."""
        found = argmax_score(omega, y, math.sqrt(float(V) + self.noise), NODES_OF_TABULATED_CHANNEL)
        if self.guess == 0:
            return found.score, found.curvature
        log_p = math.log1p(-omega.shape[1] * self.guess) + found.log_z
        share = np.exp(log_p - np.logaddexp(math.log(self.guess), log_p))
        squares = (found.score**2).sum(1)
        curvature = share * (found.curvature - (1 - share) * squares)
        return share[:, None] * found.score, curvature
