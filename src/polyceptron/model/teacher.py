"""The rules to be learnt: the argmax teacher of the paper, and the classical perceptron.

    argmax       y ~ channel(W*ᵀx/√d),        W* in R^{d×k} with i.i.d. entries        (eq. model)
    perceptron   y ~ channel of ±w*·x/√2d,    w* in R^d with i.i.d. entries

Without noise the label is the argmax. The perceptron is not the k = 2 argmax teacher: with
Rademacher weights the latter learns from w₁ − w₂ in {−2, 0, 2}. With Gaussian weights the two
coincide.

Features need not be independent: x = √s g in the eigenbasis of their covariance, and the teacher's
weights there have variance θ (`model/features`). What the features hide of the teacher is noise of
its fields, so that labels are drawn, and learnt from, through `channel` = noise + what is hidden.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyceptron.errors import InvalidInput
from polyceptron.model.channels import Channel, as_channel
from polyceptron.model.checks import check_classes, check_size
from polyceptron.model.features import Spectrum, as_spectrum
from polyceptron.model.priors import Prior, Row, as_prior
from polyceptron.model.priors.base import SingleRow
from polyceptron.model.registry import Parsed
from polyceptron.numerics import Array

__all__ = ["AnyTeacher", "Dataset", "Perceptron", "Teacher", "make_teacher"]


class Dataset(NamedTuple):
    """Samples of a teacher: X (n, d), labels y (n,) in 0..k-1, teacher weights W* (d, k)."""

    X: Array
    y: NDArray[np.int64]
    weights: Array

    def __repr__(self) -> str:
        n, d = self.X.shape
        return f"Dataset(n_samples={n}, dimension={d}, n_classes={self.weights.shape[1]})"


class _Rule:
    """What both teachers do once their weights are drawn."""

    model: ClassVar[str]
    n_classes: int
    prior: Parsed[Prior]
    noise: Parsed[Channel]
    features: Parsed[Spectrum]

    def draw_standard_weights(self, rng: np.random.Generator, dimension: int) -> Array:
        """W* (d, k) of independent features."""
        raise NotImplementedError

    def draw_weights(self, rng: np.random.Generator, dimension: int) -> Array:
        """W* (d, k): each row times √θ."""
        weights = self.draw_standard_weights(rng, dimension)
        if self.features.isotropic:
            return weights
        scaled: Array = weights * np.sqrt(self.features.at(dimension)[1])[:, None]
        return scaled

    @cached_property
    def channel(self) -> Channel:
        """The noise of labels given what the features show of the teacher's fields."""
        return self.noise.behind(self.features.hidden)

    @property
    def columns(self) -> dict[str, Any]:
        """What a row says of its teacher; `make_teacher` reads it back."""
        return {
            "model": self.model,
            "n_classes": self.n_classes,
            "prior": self.prior.name,
            "noise": self.noise.name,
            **({} if self.features.name == "isotropic" else {"features": self.features.name}),
        }

    @property
    def reduced_rank(self) -> int:
        """r = k − 1, the dimension of the class differences, which are all that labels show."""
        return self.n_classes - 1

    def label_generator(self, rng: np.random.Generator) -> np.random.Generator | None:
        """A child of `rng` for the noise of labels, so that inputs do not depend on the noise."""
        return None if self.channel.noiseless else rng.spawn(1)[0]

    def sample(self, n_samples: int, dimension: int, seed: Any = None) -> Dataset:
        """Draw W*, then n samples in d dimensions. `seed`: int, SeedSequence or Generator."""
        n, d = check_size(n_samples, "n_samples"), check_size(dimension, "dimension")
        if n * d >= 2**60:  # numpy calls this a ValueError
            raise MemoryError(f"{n} samples in dimension {d} fit in no memory")
        X = np.empty((n, d))  # before anything is drawn: a size too large fails at once
        rng = np.random.default_rng(seed)
        labels = self.label_generator(rng)
        weights = self.draw_weights(rng, d)
        rng.standard_normal(out=X)
        if not self.features.isotropic:
            X *= self.features.deviations(d).T
        return Dataset(X, self.channel.sample(X @ weights / math.sqrt(d), labels), weights)


@dataclass(frozen=True)
class Teacher(_Rule):
    """The argmax teacher: y = argmax_l of W*ᵀx/√d, with noise.

    Parameters
    ----------
    n_classes : int
    prior : str, tuple or Prior
        Of the weights: the name of a registered prior, or a pair (values, probabilities).
    noise : str or Channel
        Of the labels: a registered noise, such as 'gaussian:0.25' or 'flips:0.1'.
    features : str, array_like or Spectrum
        A registered spectrum, such as 'power:1.2:1000', the path of a CSV file, or eigenvalues.

    Examples
    --------
    >>> Teacher(3, prior="rademacher").reduced_rank
    2
    >>> Teacher(3).sample(n_samples=4, dimension=5, seed=0).X.shape
    (4, 5)
    """

    n_classes: int
    prior: Parsed[Prior] = Parsed(as_prior, "gaussian")
    noise: Parsed[Channel] = Parsed(as_channel, "none")
    features: Parsed[Spectrum] = Parsed(as_spectrum, "isotropic")

    model: ClassVar[str] = "argmax"
    common_shift: ClassVar[bool] = True  # a shift of all classes' weights changes no label

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_classes", check_classes(self.n_classes))
        self.channel.guess(self.n_classes)  # says so when the noise leaves no rule

    @property
    def row(self) -> Row:
        """The law of one row of the weights on class differences."""
        return self.prior.row(self.n_classes)

    def draw_standard_weights(self, rng: np.random.Generator, dimension: int) -> Array:
        return self.prior.sample(rng, (dimension, self.n_classes))


@dataclass(frozen=True)
class Perceptron(_Rule):
    """The classical perceptron: one weight vector, two classes, y = 1 where w*·x > 0.

    W* is (−w*, w*)/√2, whose argmax is the label.

    Parameters
    ----------
    prior, noise, features
        Those of `Teacher`.

    Examples
    --------
    >>> Perceptron("rademacher").n_classes
    2
    """

    prior: Parsed[Prior] = Parsed(as_prior, "rademacher")
    noise: Parsed[Channel] = Parsed(as_channel, "none")
    features: Parsed[Spectrum] = Parsed(as_spectrum, "isotropic")

    model: ClassVar[str] = "perceptron"
    common_shift: ClassVar[bool] = False
    n_classes: ClassVar[int] = 2  # type: ignore[misc]

    def __post_init__(self) -> None:
        self.channel.guess(2)

    @property
    def row(self) -> Row:
        """The law of (−w, w)/√2."""
        return SingleRow(self.prior)

    def draw_standard_weights(self, rng: np.random.Generator, dimension: int) -> Array:
        w = self.prior.sample(rng, (dimension, 1))
        return np.hstack([-w, w]) / math.sqrt(2)


AnyTeacher = Teacher | Perceptron


def make_teacher(
    model: str, n_classes: int, prior: Any, noise: Any = "none", features: Any = "isotropic"
) -> AnyTeacher:
    """A teacher from the columns of a row: model, n_classes, prior, noise, features."""
    if model == "argmax":
        return Teacher(n_classes, prior, noise, features)
    if model == "perceptron":
        if n_classes != 2:
            raise InvalidInput(f"the classical perceptron has 2 classes, got {n_classes}")
        return Perceptron(prior, noise, features)
    raise InvalidInput(f"unknown model {model!r}: allowed are 'argmax' and 'perceptron'")


def check_teacher(teacher: Any) -> None:
    """A teacher, or an error message."""
    if not isinstance(teacher, Teacher | Perceptron):
        raise InvalidInput(
            f"the teacher must be Teacher(n_classes) or Perceptron(), got {teacher!r}"
        )
