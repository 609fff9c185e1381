"""The law of a student's fields on fresh samples, where classes are unequal.

In group c, of share p_c, the fields on class differences are ω ~ N(m_c, Q_c), in r = k − 1
dimensions with the basis T of `difference_basis`, and the student answers with argmax T(ω + b).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from polyceptron.numerics import Array
from polyceptron.problem.channels import Channel

# Relative to the trace, and absolute where nothing varies: a variance that stands for 0.
SMALLEST_VARIANCE = 1e-11
SMALLEST_TRACE = 1e-6


class TeacherFields(NamedTuple):
    """A teacher's fields z on class differences, jointly with the student's.

    Attributes
    ----------
    cross : array, shape (r, r)
        M = Cov(ω, z).
    covariance : array, shape (r, r)
        R = Var z.
    biases : array, shape (r,)
        b*, the mean of z.
    channel : Channel
        Draws a label from z.
    """

    cross: Array
    covariance: Array
    biases: Array
    channel: Channel


@dataclass(frozen=True)
class FieldsDistribution:
    """The law of a student's fields on class differences.

    There are G groups: the k classes of a mixture, whose label is the group, or the one group of a
    teacher, where m = 0.

    Attributes
    ----------
    shares : array, shape (G,)
    m : array, shape (G, r)
    Q : array, shape (G, r, r)
    b : array, shape (r,)
        Intercepts: T(ω + b) are the class fields.
    teacher : TeacherFields, optional
    V : array, shape (G, r, r), optional
        Susceptibilities, of a fixed point.
    """

    shares: Array
    m: Array
    Q: Array
    b: Array
    teacher: TeacherFields | None = None
    V: Array | None = None

    @property
    def M(self) -> Array | None:
        """Cov(ω, z) with a teacher's fields, shape (r, r)."""
        if self.teacher is None:
            return None
        return self.teacher.cross

    def shifted(self, shift: Array) -> FieldsDistribution:
        """Return the same with b + shift, of shape (r,)."""
        return replace(self, b=self.b + shift)

    @property
    def n_classes(self) -> int:
        """k."""
        return len(self.b) + 1

    @property
    def with_density(self) -> FieldsDistribution:
        """The same with some variance in each direction, so that the fields have a density."""
        return replace(self, Q=with_some_variance(self.Q))

    def teacher_given_fields(self, group: int) -> tuple[Array, Array]:
        """Return Q⁻¹M and Var(z | ω), each (r, r): z has the mean b* + MᵀQ⁻¹(ω − m)."""
        assert self.teacher is not None
        M = self.teacher.cross
        slope = np.linalg.solve(self.Q[group], M)
        remaining = self.teacher.covariance - M.T @ slope
        return slope, (remaining + remaining.T) / 2


def with_some_variance(covariance: Array) -> Array:
    """Return covariances (…, r, r) with some variance in each direction."""
    values, vectors = np.linalg.eigh(covariance)
    least = SMALLEST_VARIANCE * (values.sum(-1, keepdims=True) + SMALLEST_TRACE)
    if (values >= least).all():
        return covariance
    raised = np.maximum(values, least)
    return np.asarray((vectors * raised[..., None, :]) @ vectors.swapaxes(-1, -2))
