"""Correlated features for message passing: whitened coordinates, each with a scale of its own.

Features of variance s are g = x/√s of variance 1 with weights W̃ = √s W. What is believed of a row
of W, or paid for it, becomes that of a row u scaled by c (√s for a penalty, √(sθ) for a prior of
unit variance):

    W̃ = c·u,     u = belief(cγ, c²Λ),     Var W̃ = c² Var u.

X is neither copied nor scaled: the products with it are.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyceptron.algorithms.design import AnyArray, Design, PerSample
from polyceptron.algorithms.mapped_design import BlockwiseDesign
from polyceptron.algorithms.message_passing.amp_result import AMPResult
from polyceptron.algorithms.watching import Watch
from polyceptron.model.denoisers import RowEstimate
from polyceptron.model.features import Spectrum

Array = NDArray[np.float64]


class Whitened(BlockwiseDesign):
    """A design whose columns are divided by √s (d,); those without variance are 0."""

    def __init__(self, inner: Design, deviations: Array) -> None:
        with np.errstate(divide="ignore"):
            self.factor = np.where(deviations > 0, 1 / deviations, 0.0)
        divide = partial(np.multiply, self.factor.astype(inner.dtype))
        super().__init__(inner, divide, inner.dimension)
        self.inner, self.dtype, self.reading_is_dear = inner, inner.dtype, inner.reading_is_dear

    def fields(self, U: AnyArray) -> AnyArray:
        return self.inner.fields(U * self.factor.astype(U.dtype))

    def back(self, F: AnyArray) -> AnyArray:
        return self.inner.back(F) * self.factor.astype(F.dtype)

    def through(self, U: AnyArray, inner: PerSample) -> tuple[AnyArray, list[Any]]:
        back, rest = self.inner.through(U * self.factor.astype(U.dtype), inner)
        return back * self.factor.astype(U.dtype), rest

    def through_squared(
        self, U: AnyArray, C: Array, inner: PerSample
    ) -> tuple[AnyArray, Array, list[Any]]:
        factor = self.factor.astype(U.dtype)
        back, squared, rest = self.inner.through_squared(U * factor, C * self.factor**2, inner)
        return back * factor, squared * self.factor**2, rest

    @contextmanager
    def watched(self, watch: Watch) -> Iterator[Watch]:
        with self.inner.watched(watch):  # whose passes they are
            yield watch

    def fields_squared(self, C: Array) -> Array:
        return self.inner.fields_squared(C * self.factor**2)

    def back_squared(self, H: Array) -> Array:
        return self.inner.back_squared(H) * self.factor**2


class Scaled(NamedTuple):
    """What is believed of rows c·u (d,) where u is one that `inner` knows."""

    inner: Any
    scale: Array

    def denoise(self, gamma: Any, precision: Any) -> RowEstimate:
        found = self.inner.denoise(gamma * self.scale[:, None], precision * self.scale**2)
        return RowEstimate(found.mean * self.scale[:, None], found.variance * self.scale**2)

    def matrix_posterior(self, gamma: Array, precision: Array, basis: Array) -> tuple[Array, Array]:
        c = self.scale[:, None]
        mean, C = self.inner.matrix_posterior(gamma * c, precision * c[..., None] ** 2, basis)
        return mean * c, C * c[..., None] ** 2

    def diagonal_posterior(self, gamma: Array, precision: Array) -> tuple[Array, Array]:
        c = self.scale[:, None]
        mean, diagonal = self.inner.diagonal_posterior(gamma * c, precision * c**2)
        return mean * c, diagonal * c**2


def unwhitened(result: AMPResult, features: Spectrum) -> AMPResult:
    """The result with weights (d, k) of the features themselves."""
    root = features.deviations(len(result.weights))
    with np.errstate(divide="ignore", invalid="ignore"):
        return replace(result, weights=np.where(root > 0, result.weights / root, 0.0))
