"""The rules to be learnt: the argmax teacher of the paper, and the classical perceptron.

    argmax       y ~ channel(W*ᵀx/√d),        W* in R^{d×k} with i.i.d. entries        (eq. model)
    perceptron   y ~ channel of ±w*·x/√2d,    w* in R^d with i.i.d. entries

Without noise the label is the argmax. The perceptron is not the k = 2 argmax teacher: with
Rademacher weights the latter learns from w₁ − w₂ in {−2, 0, 2}. With Gaussian weights the two
coincide.

Features need not be independent: x = √s g in the eigenbasis of their covariance, and the teacher's
weights there have variance θ (`problem/spectrum.py`). What the features hide of the teacher is
noise of its fields: labels are drawn, and learnt from, through `channel` = noise + what is hidden.

Classes need not be alike: biases b* are added to the fields, y ~ channel(z + b*), and the rows of
W* may be correlated, z ~ N(0, R).
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from polyceptron.checks import check_classes, difference_basis
from polyceptron.errors import InvalidInput
from polyceptron.numerics import Array
from polyceptron.problem import population as pop
from polyceptron.problem.channels import Channel, as_channel
from polyceptron.problem.channels.correlated import biases_for, label_chances
from polyceptron.problem.priors import Prior, WeightsRow, as_prior
from polyceptron.problem.priors.prior import SingleRow
from polyceptron.problem.pruned import Pruned
from polyceptron.problem.registry import Parsed
from polyceptron.problem.spectrum import Spectrum, as_spectrum

# Biases and inner products that differ by less, in units of a field, are alike up to rounding.
ROUNDING = 1e-12


class _Rule(pop.Population):
    """What both teachers do once their weights are drawn."""

    prior: Parsed[Prior]
    noise: Parsed[Channel]
    features: Parsed[Spectrum]
    symmetric = True

    def draw_standard_weights(self, rng: np.random.Generator, dimension: int) -> Array:
        """Return W* (d, k) of independent features."""
        raise NotImplementedError

    def draw_weights(self, rng: np.random.Generator, dimension: int) -> Array:
        """Return W* (d, k), each row times √θ."""
        weights = self.draw_standard_weights(rng, dimension)
        if self.features.isotropic:
            return weights
        return np.asarray(weights * np.sqrt(self.features.at(dimension)[1])[:, None])

    @cached_property
    def channel(self) -> Channel:
        """Return the noise of labels given what the features show of the teacher's fields."""
        return self.noise.behind(self.features.hidden)

    @property
    def label_channel(self) -> Channel:
        """Return the noise of labels given what the features show."""
        return self.channel

    @property
    def class_shares(self) -> Array:
        """Return P(y = l) = 1/k, shape (k,)."""
        return np.full(self.n_classes, 1 / self.n_classes)

    @property
    def levels_of_features(self) -> pop.FeatureLevels:
        """Return the levels of the spectrum, in one group of mean 0."""
        f = self.features
        no_means = np.zeros((len(f.fraction), 1, 1))
        return pop.FeatureLevels(f.fraction, f.eigenvalues[:, None], no_means, f.signal)

    @property
    def columns(self) -> dict[str, Any]:
        """Return the columns of a row that describe the teacher."""
        return {
            "model": self.model,
            "n_classes": self.n_classes,
            "prior": self.prior.name,
            "noise": self.noise.name,
            **({} if self.features.name == "isotropic" else {"features": self.features.name}),
        }

    def __repr__(self) -> str:
        """Return the call that makes it, without the arguments that have their defaults."""
        said = [(name, getattr(self, name).name) for name in ("prior", "noise", "features")]
        words = [str(self.n_classes)] if "n_classes" in self.__dict__ else []  # not its class's
        words += [f"{name}={text!r}" for name, text in said if text != getattr(type(self), name)]
        unequal = ("biases", "shares", "gram")
        words += [f"{n}={self.columns[n]!r}" for n in unequal if n in self.columns]
        return f"{type(self).__name__}({', '.join(words)})"

    @property
    def reduced_rank(self) -> int:
        """r = k − 1, the dimension of the class differences, which are all that labels show."""
        return self.n_classes - 1

    def label_generator(self, rng: np.random.Generator) -> np.random.Generator | None:
        """A child of `rng` for the noise of labels, so that inputs do not depend on the noise."""
        return None if self.channel.noiseless else rng.spawn(1)[0]

    def draw(self, X: Array, rng: np.random.Generator) -> tuple[Any, Array]:
        """Fill X (n, d) with samples; return their labels (n,) and the weights (d, k)."""
        d = X.shape[1]
        labels = self.label_generator(rng)
        weights = self.draw_weights(rng, d)
        rng.standard_normal(out=X)
        if not self.features.isotropic:
            X *= self.features.deviations(d).T
        fields = X @ weights / math.sqrt(d)
        if not self.symmetric:
            fields += self.offsets
        return self.channel.sample(fields, labels), weights


@dataclass(frozen=True, repr=False)
class Teacher(_Rule):
    """The argmax teacher: y = argmax_l of W*ᵀx/√d, with noise.

    Parameters
    ----------
    n_classes : int
    prior : str, tuple, scipy distribution or Prior
        Distribution of the weights: the name of a registered prior, or a pair (values,
        probabilities).
    noise : str or Channel
        Noise of the labels: a registered name, such as 'gaussian:0.25' or 'flips:0.1'.
    features : str, array_like or Spectrum
        A registered spectrum, such as 'power:1.2:1000', the path of a CSV file, or eigenvalues.
    biases : sequence of float, optional
        b* (k,), added to the fields: y = argmax_l (W*ᵀx/√d + b*)_l. A common shift changes nothing.
    shares : sequence of float, optional
        P(y = l) (k,), instead of the biases, which are then chosen to give these shares.
    gram : array_like, optional
        R (k, k), the covariance of the fields (and of the k weights of a feature), instead of the
        identity.

    Examples
    --------
    >>> Teacher(3, prior="rademacher")
    Teacher(3, prior='rademacher')
    >>> [round(b, 4) for b in Teacher(2, shares=(0.9, 0.1)).biases]
    [0.9062, -0.9062]
    >>> Teacher(3).sample(n_samples=4, dimension=5, seed=0).X.shape
    (4, 5)
    """

    n_classes: int = 3
    prior: Parsed[Prior] = Parsed(as_prior, "gaussian")
    noise: Parsed[Channel] = Parsed(as_channel, "none")
    features: Parsed[Spectrum] = Parsed(as_spectrum, "isotropic")
    biases: tuple[float, ...] | None = None
    shares: tuple[float, ...] | None = None
    gram: tuple[tuple[float, ...], ...] | None = None

    model: ClassVar[str] = "argmax"
    takes: ClassVar[tuple[str, ...]] = (
        "prior",
        "noise",
        "features",
        "biases",
        "shares",
        "gram",
        "prune",
    )
    common_shift: ClassVar[bool] = True  # a shift of all classes' weights changes no label

    @classmethod
    def of_columns(cls, n_classes: int | None, **given: Any) -> Any:
        """Return the teacher of these columns; with a column `prune` it is a `Pruned` one."""
        prune = given.pop("prune", None)
        if prune is not None:
            return Pruned.of_text(cls.of_columns(n_classes, **given), prune)
        for name, shape in (("gram", (-1, -1)), ("biases", (-1,)), ("shares", (-1,))):
            if n_classes is None and name in given:
                n_classes = len(pop.read_numbers(given[name], name, shape))
        return cls(cls.n_classes if n_classes is None else n_classes, **given)

    def __post_init__(self) -> None:
        """Check what is given, and leave out what makes no difference between classes."""
        k = check_classes(self.n_classes)
        self._set("n_classes", k)
        self.channel.guess(k)  # says so when the noise leaves no rule
        R = np.eye(k)
        if self.gram is not None:
            R = pop.check_gram(self.gram, k)
            self._set("gram", self._gram_unless_plain(R))
        biases = shares = None
        if self.shares is not None:
            shares = pop.check_shares(self.shares, k)
            biases = self._biases_of_shares(R, shares)
        elif self.biases is not None:
            biases = pop.read_numbers(self.biases, "biases", (k,))
        if biases is None or np.ptp(biases) < ROUNDING:
            biases = shares = None
        self._set("biases", pop.as_rows_or_none(biases))
        self._set("shares", pop.as_rows_or_none(shares))

    def _set(self, name: str, value: object) -> None:
        """Give a field of this frozen object its checked value."""
        object.__setattr__(self, name, value)

    def _gram_unless_plain(self, R: Array) -> pop.Rows | None:
        """Return R (k, k) as it is kept: None where differences of fields do not notice it."""
        k = len(R)
        T = difference_basis(k)
        if np.abs(T.T @ R @ T - np.eye(k - 1)).max() < ROUNDING:
            return None
        if self.features.hidden > 0:
            raise InvalidInput("gram= needs features without a hidden share of the teacher")
        return pop.as_rows(R)

    def _biases_of_shares(self, R: Array, shares: Array) -> Array:
        """Return the biases b* (k,) with which fields of covariance R give these shares (k,)."""
        if self.biases is not None:
            raise InvalidInput("give biases or shares, not both: each follows from the other")
        biases = biases_for(self.channel, R, shares)
        if biases is None:
            raise InvalidInput(
                f"no biases give the shares {self.shares} with noise {self.noise.name}"
            )
        return biases * math.sqrt(1 - self.features.hidden)

    @property
    def symmetric(self) -> bool:  # type: ignore[override]
        """Return whether classes are alike: no biases and no gram."""
        return self.biases is None and self.gram is None

    @property
    def offsets(self) -> Array:
        """b* in units in which what the features show of a field has variance 1."""
        biases = np.zeros(self.n_classes) if self.biases is None else np.array(self.biases)
        return np.asarray(biases / math.sqrt(1 - self.features.hidden))

    @property
    def field_covariance(self) -> Array:
        """Return R (k, k)."""
        if self.gram is None:
            return np.eye(self.n_classes)
        return np.array(self.gram)

    @cached_property
    def class_shares(self) -> Array:
        """Return P(y = l), shape (k,)."""
        if self.symmetric:
            return super().class_shares
        if self.shares is not None:
            return np.array(self.shares)
        T = difference_basis(self.n_classes)
        C = T.T @ self.field_covariance @ T
        return label_chances(self.channel, (self.offsets @ T)[None], C).Z[0]

    @property
    def columns(self) -> dict[str, Any]:
        """Return the columns of a row, with biases or shares and gram where they are given."""
        biases = None if self.shares is not None else self.biases  # each follows from the other
        given = [("biases", biases), ("shares", self.shares), ("gram", self.gram)]
        return {**super().columns, **pop.text_columns(given)}

    @property
    def row(self) -> WeightsRow:
        """Return the law of one row of the weights on class differences."""
        return self.prior.row(self.n_classes)

    def draw_standard_weights(self, rng: np.random.Generator, dimension: int) -> Array:
        """Return W* (d, k) with rows of covariance R."""
        weights = self.prior.sample(rng, (dimension, self.n_classes))
        if self.gram is None:
            return weights
        values, vectors = np.linalg.eigh(self.field_covariance)
        return np.asarray(weights @ (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


@dataclass(frozen=True, repr=False)
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
    takes: ClassVar[tuple[str, ...]] = ("prior", "noise", "features")
    common_shift: ClassVar[bool] = False
    n_classes = 2

    def __post_init__(self) -> None:
        self.channel.guess(2)

    @classmethod
    def of_columns(cls, n_classes: int | None, **given: Any) -> Self:
        """Return the perceptron of these columns."""
        if unequal := set(given) - set(cls.takes):
            raise InvalidInput(f"the classical perceptron takes no {', '.join(sorted(unequal))}")
        if n_classes not in (None, 2):
            raise InvalidInput(f"the classical perceptron has 2 classes, got {n_classes}")
        return cls(**given)

    @property
    def row(self) -> WeightsRow:
        """Return the law of (−w, w)/√2."""
        return SingleRow(self.prior, 2)

    def draw_standard_weights(self, rng: np.random.Generator, dimension: int) -> Array:
        """Return (−w*, w*)/√2, shape (d, 2)."""
        w = self.prior.sample(rng, (dimension, 1))
        return np.hstack([-w, w]) / math.sqrt(2)


AnyTeacher = Teacher | Perceptron


def make_teacher(
    model: str,
    n_classes: int | None = None,
    prior: Any = None,
    noise: Any = None,
    features: Any = None,
    **unequal: Any,
) -> AnyTeacher:
    """Return a teacher from the columns of a row; what is None is the model's own default.

    `unequal` are biases or shares, and gram; they tell the number of classes too.
    """
    kinds: dict[str, type[Teacher] | type[Perceptron]] = {
        "argmax": Teacher,
        "perceptron": Perceptron,
    }
    if model not in kinds:
        raise InvalidInput(f"unknown model {model!r}: allowed are 'argmax' and 'perceptron'")
    given = {"prior": prior, "noise": noise, "features": features, **unequal}
    given = {name: value for name, value in given.items() if value is not None}
    return kinds[model].of_columns(n_classes, **given)


def check_teacher(teacher: object) -> None:
    """Raise `InvalidInput` unless the classes of the teacher are alike."""
    if not isinstance(teacher, Teacher | Perceptron) or not teacher.symmetric:
        raise InvalidInput(
            f"this needs a teacher whose classes are alike, Teacher(n_classes) without biases, "
            f"shares or gram, or Perceptron(); got {teacher!r}"
        )
