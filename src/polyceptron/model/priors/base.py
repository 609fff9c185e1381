"""What a prior is asked for: a few scalar functions of one weight w of mean 0 and variance 1.

    g(b, Λ) = E_w exp(bw − Λw²/2),    mean = ∂_b ln g,    variance = ∂²_b ln g

the log-partition of w seen through Gaussian noise, from which theory and message passing make what
they need for any number of classes (`row`, `theory/weights`): the unknown shift common to all
classes is integrated once, for all priors.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyceptron.model.registry import Registry

if TYPE_CHECKING:
    from polyceptron.model.priors.row import Row

Array = NDArray[np.float64]


class Tilted(NamedTuple):
    """ln g, and mean and variance of w under the tilted law, all of the shape of b."""

    log_g: Array
    mean: Array
    variance: Array


class Prior(ABC):
    """The law of one teacher weight, with mean 0 and variance 1.

    `extent` is a distance from 0 beyond which w is never found (probability below 1e-12).

    >>> from polyceptron.model import as_prior
    >>> as_prior("laplace").sample(np.random.default_rng(0), (2, 3)).shape
    (2, 3)
    """

    name: str
    extent: float

    @abstractmethod
    def sample(self, rng: np.random.Generator, size: tuple[int, ...]) -> Array:
        """Independent weights of the given shape."""

    @abstractmethod
    def tilted(self, b: Any, precision: Any) -> Tilted:
        """ln E exp(bw − Λw²/2), mean and variance, elementwise over b and Λ ≥ 0."""

    @property
    def entropy(self) -> float:
        """−Σ p ln p of one weight; infinite unless there are finitely many values."""
        return math.inf

    @property
    def support(self) -> tuple[Array, Array] | None:
        """Values and probabilities, each (c,), if there are finitely many."""
        return None

    @property
    def gaussian(self) -> bool:
        """Whether the posterior is that of a Gaussian, in closed form."""
        return False

    def row(self, n_classes: int) -> Row:
        """The law of a row of k independent weights on class differences."""
        from polyceptron.model.priors.row import Row

        return Row(self, n_classes)

    def single(self) -> Row:
        """The law of the classical perceptron's one weight, as the row (−w, w)/√2."""
        from polyceptron.model.priors.row import SingleRow

        return SingleRow(self)


PRIORS: Registry[Prior] = Registry("prior", Prior)  # type: ignore[type-abstract]
